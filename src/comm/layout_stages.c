/* SPDX-License-Identifier: BSD-3-Clause */
/* How the data of a call is cut that runs in stages: messages among groups of ranks, and before and after them mapped schedules
 * inside the groups.
 *
 * A fragment is the same slice of every item (block of the whole) in all stages, so that the stages of one fragment have nothing to
 * do with those of another. A mapped stage calls several items, which need not be neighbours, a block of its own: to it a block
 * has one extent for each. In a slot an item has an extent, as long as a slice; the slot is shared by both mapped stages,
 * the scratch of the second behind that of the first, because ranks are in different stages of the same fragment. For the same
 * reason each has signals of its own: those of a lane only grow. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/status.h"
#include "comm/comm.h"

#define LANES_EACH (WI_SCHED_MAX_MAPPED_LANES / 2)

static size_t lines(size_t bytes)
{
    return (bytes + WEFT_LINE_BYTES - 1) & ~(size_t)(WEFT_LINE_BYTES - 1);
}

/* Fragments are whole lines, and of images whole blocks of the codec: both are powers of two. */
static size_t whole(const struct wi_op *op)
{
    size_t block = op->bind.sched->lossy ? wi_coding_block(&op->bind.coding) : 0;

    return block > WEFT_LINE_BYTES ? block : WEFT_LINE_BYTES;
}

static size_t round_up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) & ~(unit - 1);
}

/* Of an item, in a slot. */
static size_t slot_extent_bytes(const struct wi_op *op)
{
    return lines(op->bind.fragment_bytes == SIZE_MAX ? op->bind.block_bytes : op->bind.fragment_bytes);
}

/* ---- Where a stage's blocks are ---- */

/* Of one buffer: the extents of each block of the stage, in the order of its items. */
struct placed {
    struct wi_extent *extent;
    uint32_t *start;
};

static weft_status place(const struct wi_op *op, const struct wi_sched_stage *st, unsigned buf, struct placed *p)
{
    const struct wi_blocks *whole = &op->bind.layout.blocks[st->at[buf].buf];
    uint32_t nblocks = st->sched->buf_blocks[buf], n = 0;

    p->start = wi_malloc(((size_t)nblocks + 1) * sizeof *p->start);
    p->extent = wi_malloc(((size_t)nblocks * st->max_items + 1) * sizeof *p->extent);
    if (!p->start || !p->extent)
        return wi_fail(WEFT_ENOMEM, "the places of %u blocks of a stage", nblocks);
    for (uint32_t b = 0; b < nblocks; b++) {
        uint32_t share = wi_sched_stage_share(st, buf, b);
        p->start[b] = n;
        for (uint32_t i = st->start[share]; i < st->start[share + 1]; i++)
            p->extent[n++] = wi_block_extent(whole, (size_t)((int64_t)st->item[i] + st->at[buf].offset));
    }
    p->start[nblocks] = n;
    return WEFT_SUCCESS;
}

static void placed_free(struct placed p[2])
{
    for (int i = 0; i < 2; i++) {
        wi_free(p[i].extent);
        wi_free(p[i].start);
    }
}

/* ---- Programs ---- */

static weft_status lower_mapped(const struct weft_comm *comm, const struct wi_op *op, int after, size_t slot_at,
                                struct wi_prog **kept, struct wi_prog **prog)
{
    const struct wi_sched_stage *st = after ? op->bind.sched->after : op->bind.sched->before;
    const struct wi_blocks *whole = &op->bind.layout.blocks[WI_DST];
    size_t extent_bytes = slot_extent_bytes(op);
    struct wi_stage_layout stage = {.ranks = st->ranks,
                                    .slot_at = slot_at,
                                    .slot_extent_bytes = extent_bytes,
                                    .first_lane = (uint16_t)(after ? LANES_EACH : 0),
                                    .in = {st->at[WI_SRC].buf, st->at[WI_DST].buf},
                                    .partial = !st->final};
    struct wi_layout l = {
        .slot_stride = st->max_items * extent_bytes, .stage = &stage, .mapped = 1, .sliced = 1, .read_again = !after};
    struct placed p[2] = {0};
    weft_status status;

    l.blocks[WI_DST] = *whole;
    if (wi_op_kept_program(op, kept, st->sched, &l, prog))
        return WEFT_SUCCESS;
    status = place(op, st, WI_SRC, &p[WI_SRC]);
    if (status >= 0)
        status = place(op, st, WI_DST, &p[WI_DST]);
    for (int b = 0; b < 2; b++) {
        l.blocks[b].extent = p[b].extent;
        l.blocks[b].start = p[b].start;
    }
    if (status >= 0)
        status = wi_op_lower(comm, op, st->sched, &l, kept, prog);
    placed_free(p);
    return status;
}

static weft_status lower_messages(const struct weft_comm *comm, struct wi_op *op, struct wi_prog **kept,
                                  struct wi_prog **prog)
{
    struct wi_layout *l = &op->bind.layout;

    l->coded = op->bind.sched->lossy != 0;
    l->read_again = 1;
    l->sliced = 1; /* programs of stages are of one fragment, which is a slice of each block */
    return wi_op_kept_program(op, kept, op->bind.sched, l, prog) ? WEFT_SUCCESS
                                                                 : wi_op_lower(comm, op, op->bind.sched, l, kept, prog);
}

/* ---- Fragments ---- */

/* All ranks cut alike, so that it is the smallest slot of all groups that must hold the most. It holds a line (of images: a block
 * of the codec) of each item, or there would be no stages (wi_fit_stages). Fragments are about equal: a short last one would cost
 * as much as a long one. */
static void cut(const struct weft_comm *comm, struct wi_op *op, size_t want)
{
    size_t items = op->bind.sched->slot_items, block = op->bind.block_bytes, unit = whole(op);
    size_t room = items ? comm->mesh->slot_bytes / items & ~(unit - 1) : SIZE_MAX;
    size_t most = want < room ? want : room, n = block > most ? (block + most - 1) / most : 1,
           equal = round_up((block + n - 1) / n, unit);

    wi_op_cut(op, n > 1 && equal < most ? equal : most);
}

static struct wi_prog **kept_of(struct wi_prog **programs, uint32_t stage)
{
    return programs ? &programs[stage] : NULL;
}

/* Before, messages, after: those that there are on this rank. */
static weft_status lower_all(const struct weft_comm *comm, struct wi_op *op, struct wi_prog **programs)
{
    const struct wi_sched *s = op->bind.sched;
    struct wi_binding *b = &op->bind;
    size_t slot_at = 0;

    b->nstages = 0;
    for (int i = 0; i < WI_STAGES_MAX; i++) { /* 1: messages */
        const struct wi_sched_stage *st = i == 0 ? s->before : s->after;
        struct wi_prog **kept = kept_of(programs, b->nstages);
        if (i == 1) {
            WI_TRY(lower_messages(comm, op, kept, &b->stage[b->nstages]));
        } else if (st) {
            WI_TRY(lower_mapped(comm, op, i == 2, slot_at, kept, &b->stage[b->nstages]));
            slot_at += st->sched->buf_blocks[WI_TMP] * st->max_items * slot_extent_bytes(op);
        } else {
            continue;
        }
        b->nstages++;
    }
    b->slot_bytes = slot_at;
    return WEFT_SUCCESS;
}

size_t wi_op_slice(const struct wi_op *op, const struct wi_plan *plan)
{
    size_t blocks = op->bind.sched->nblocks ? op->bind.sched->nblocks : 1, fragment = plan->pipeline.fragment_bytes,
           slice;

    if (!op->bind.sched->staged || !fragment)
        return plan->slice_bytes;
    slice = (fragment + blocks - 1) / blocks;
    return slice < plan->slice_bytes ? slice : plan->slice_bytes;
}

/* For each program that is made, and not for each operation that uses it. */
static void log_fragments(const struct weft_comm *comm, const struct wi_op *op)
{
    const struct wi_sched *s = op->bind.sched;
    size_t blocks = s->nblocks ? s->nblocks : 1, all = blocks * op->bind.block_bytes;
    uint32_t n = op->bind.nfragments;

    wi_log(WEFT_LOG_INFO, "plan.fragments", "%s: %s %s%s: %zu bytes in %u fragment%s of %zu", comm->name,
           wi_coll_name((enum wi_coll)s->coll), s->algo, s->in_place ? ", in place" : "", all, n, n == 1 ? "" : "s",
           n == 1 ? all : blocks * op->bind.fragment_bytes);
}

weft_status wi_op_lay_out_stages(struct weft_comm *comm, struct wi_op *op, size_t slice_bytes,
                                 struct wi_prog **programs)
{
    const struct wi_prog *kept = programs ? programs[0] : NULL;

    op->bind.mapped = comm->exec->nmapped > 1; /* its epochs count, whether or not it has a part in a stage */
    op->bind.messages = 1;
    op->bind.scale = 1;
    op->bind.nt = op->bind.block_bytes * op->bind.sched->buf_blocks[WI_DST] >= comm->nt_bytes;
    cut(comm, op, slice_bytes);
    WI_TRY(wi_op_scratch(op));
    WI_TRY(lower_all(comm, op, programs));
    if (programs && programs[0] != kept)
        log_fragments(comm, op);
    return WEFT_SUCCESS;
}

/* ---- The log ---- */

static const char *stage_text(const struct wi_sched_stage *st, char *text, size_t capacity)
{
    if (!st)
        return "nothing";
    snprintf(text, capacity, "%s %s of %d ranks through slots", wi_coll_name((enum wi_coll)st->sched->coll),
             st->sched->algo, st->sched->nranks);
    return text;
}

static void log_stages(const struct weft_comm *comm, const struct wi_sched *sched)
{
    char before[96], after[96];

    wi_log(WEFT_LOG_INFO, "plan.stages", "%s: %s %s in stages%s: before, %s; messages; after, %s", comm->name,
           wi_coll_name((enum wi_coll)sched->coll), sched->algo, sched->in_place ? ", in place" : "",
           stage_text(sched->before, before, sizeof before), stage_text(sched->after, after, sizeof after));
}

/* ---- A new schedule: do its stages fit? ---- */

/* Lanes that signal have numbers that others wait for. */
static weft_status check_lanes(const struct wi_sched_stage *st)
{
    for (uint32_t l = LANES_EACH; l < st->sched->nlanes; l++) {
        const struct wi_lane *lane = &st->sched->lanes[l];
        for (uint32_t i = 0; i < lane->nsteps; i++)
            if (st->sched->steps[lane->first_step + i].kind == WI_STEP_SIGNAL)
                return wi_fail(WEFT_ENOTSUP, "algorithm %s signals on more than %d lanes and can be no stage",
                               st->sched->algo, LANES_EACH);
    }
    return WEFT_SUCCESS;
}

static weft_status check_stage(const struct weft_comm *comm, const struct wi_sched_stage *st)
{
    for (int i = 0; i < st->sched->nranks; i++)
        if (comm->mesh->map_of[st->ranks[i]] != comm->mesh->map_of[comm->rank])
            return wi_fail(WEFT_ENOTSUP, "algorithm %s needs ranks %d and %d in one shared-memory group",
                           st->sched->algo, comm->rank, st->ranks[i]);
    return check_lanes(st);
}

/* What a fragment has of an item at least. `block`: of the codec. */
static size_t least_fragment(const struct wi_sched *staged, size_t block)
{
    return staged->lossy && block > WEFT_LINE_BYTES ? block : WEFT_LINE_BYTES;
}

weft_status wi_fit_stages(const struct weft_comm *comm, struct wi_sched **sched, size_t least)
{
    struct wi_sched *staged = *sched, *flat;
    weft_status st;

    if (!staged->slot_items || comm->mesh->slot_bytes / staged->slot_items >= least_fragment(staged, least)) {
        st = staged->before ? check_stage(comm, staged->before) : WEFT_SUCCESS;
        if (st >= 0 && staged->after)
            st = check_stage(comm, staged->after);
        if (st < 0) {
            wi_sched_put(staged);
            return st;
        }
        log_stages(comm, staged);
        return WEFT_SUCCESS;
    }
    wi_log(WEFT_LOG_INFO, "plan.stages",
           "%s: %s %s%s by messages alone: it would keep %u blocks in a slot, and slots have %zu bytes "
           "(WEFT_SHM_STAGE_SLOT_BYTES)",
           comm->name, wi_coll_name((enum wi_coll)staged->coll), staged->algo, staged->in_place ? ", in place," : "",
           staged->slot_items, comm->mesh->slot_bytes);
    st = wi_algo_flatten(staged, &flat);
    wi_sched_put(staged);
    *sched = st < 0 ? NULL : flat;
    return st;
}
