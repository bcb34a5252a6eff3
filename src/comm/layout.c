/* SPDX-License-Identifier: BSD-3-Clause */
/* The layout of a call's data, once its schedule is known: blocks, slices, fragments, scratch; and the program for it. */
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "comm/comm.h"

#define IMAGE_MAX ((size_t)1 << 30) /* of a vector whose image says in 4 bytes how long it is */
#define BLOCK_ALIGN_MIN 4096        /* vectors whose blocks are at least this long are cut at cache lines */

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

/* ---- Blocks ---- */

static void cut_vector(struct wi_op *op, size_t count, size_t es)
{
    size_t nblocks = op->bind.sched->nblocks, block = (count + nblocks - 1) / nblocks;

    if (nblocks > 1 && op->bind.sched->lossy)
        block = round_up(block, op->bind.coding.codec->block);
    else if (nblocks > 1 && block * es >= BLOCK_ALIGN_MIN)
        block = round_up(block, 64 / (es < 64 ? es : 64));
    op->bind.block_bytes = block * es;
    op->bind.total_bytes = count * es;
}

/* Scratch: block t of a vector's is as long as block t mod nblocks of the vector. */
static void lay_out_blocks(struct wi_op *op)
{
    struct wi_blocks *blocks = op->bind.layout.blocks;
    size_t block = op->bind.block_bytes, total = op->bind.total_bytes;

    blocks[WI_SRC] = blocks[WI_DST] = (struct wi_blocks){.stride = block, .total = total};
    blocks[WI_TMP] = (struct wi_blocks){.stride = block};
    if (op->bind.sched->lossy)
        blocks[WI_PACK] = (struct wi_blocks){
            .stride = round_up(block, wi_coding_block(&op->bind.coding)), .pack = op->bind.sched->packs, .all = blocks};
    if (total) {
        blocks[WI_TMP].like = &blocks[WI_DST];
        blocks[WI_TMP].modulo = op->bind.sched->nblocks;
    }
}

static weft_status cut_share(struct wi_op *op, size_t share, size_t es)
{
    size_t cut = op->bind.sched->nblocks;

    if (cut > 1 && share % (cut * es))
        return wi_fail(WEFT_ENOTSUP,
                       "algorithm %s cuts every rank's share into %zu parts, and %zu elements are no multiple",
                       op->bind.sched->algo, cut, share / es);
    op->bind.block_bytes = share / cut;
    return WEFT_SUCCESS;
}

/* ---- v-forms ---- */

/* Displacements and lengths of a v-form's blocks, owned by the operation. */
static weft_status map_blocks(struct wi_op *op, int buf, const size_t *counts, const size_t *displs, int n, size_t es)
{
    struct wi_extent *map = wi_malloc((size_t)n * sizeof *map);
    size_t at = 0;

    if (!map)
        return wi_fail(WEFT_ENOMEM, "block map of %d ranks", n);
    for (int i = 0; i < n; i++) {
        map[i] = (struct wi_extent){(displs ? displs[i] : at) * es, counts[i] * es};
        if (map[i].bytes < op->bind.parts_from)
            map[i].bytes = 0;
        at += counts[i];
    }
    op->owned[WI_OWNED_EXTENTS + buf] = map;
    op->bind.layout.blocks[buf].extent = map;
    return WEFT_SUCCESS;
}

/* Lengths and displacements of a v-form's blocks in one buffer. */
struct v_blocks {
    size_t one; /* where it is one block */
    const size_t *counts, *displs;
    int n;
};

/* 0: this rank uses no such buffer. */
static int v_blocks_of(const struct weft_comm *comm, const struct wi_call *c, int buf, struct v_blocks *v)
{
    int src = buf == WI_SRC, root = comm->rank == c->root;

    *v = (struct v_blocks){.n = comm->nranks};
    switch (c->coll) {
    case WI_COLL_ALL_GATHER_V:
        v->one = c->recv_counts[comm->rank];
        v->counts = src ? NULL : c->recv_counts;
        v->displs = c->recv_displs;
        break;
    case WI_COLL_REDUCE_SCATTER_V:
        v->one = c->send_counts[comm->rank];
        v->counts = src ? c->send_counts : NULL;
        break;
    case WI_COLL_ALL_TO_ALL_V:
        v->counts = src ? c->send_counts : c->recv_counts;
        v->displs = src ? c->send_displs : c->recv_displs;
        break;
    case WI_COLL_GATHER_V:
        v->one = c->count;
        v->counts = src ? NULL : c->recv_counts;
        v->displs = c->recv_displs;
        return src || root;
    case WI_COLL_SCATTER_V:
        v->one = c->recv_count;
        v->counts = src ? c->send_counts : NULL;
        v->displs = c->send_displs;
        return !src || root;
    default:
        return 0;
    }
    return 1;
}

static weft_status map_v_form(struct weft_comm *comm, struct wi_op *op, const struct wi_call *c)
{
    size_t es = weft_dtype_bytes(c->dtype), zero = 0;
    struct v_blocks v;

    for (int buf = WI_SRC; buf <= WI_DST; buf++) {
        if (!v_blocks_of(comm, c, buf, &v))
            continue;
        if (v.counts)
            WI_TRY(map_blocks(op, buf, v.counts, v.displs, v.n, es));
        else
            WI_TRY(map_blocks(op, buf, &v.one, &zero, 1, es));
    }
    return WEFT_SUCCESS;
}

static int are_extents(const struct wi_extent *e, const size_t *counts, const size_t *displs, int n, size_t es)
{
    size_t at = 0;

    for (int i = 0; i < n; i++) {
        if (e[i].at != (displs ? displs[i] : at) * es || e[i].bytes != counts[i] * es)
            return 0;
        at += counts[i];
    }
    return 1;
}

int wi_v_form_is_of(const struct weft_comm *comm, const struct wi_call *c, const struct wi_prog *prog)
{
    size_t es = weft_dtype_bytes(c->dtype), zero = 0;
    struct v_blocks v;

    for (int buf = WI_SRC; buf <= WI_DST; buf++) {
        const struct wi_extent *e = prog->extent[buf];
        if (!v_blocks_of(comm, c, buf, &v)) {
            if (e)
                return 0;
            continue;
        }
        if (!e || !(v.counts ? are_extents(e, v.counts, v.displs, v.n, es) : are_extents(e, &v.one, &zero, 1, es)))
            return 0;
    }
    return 1;
}

/* ---- Slices ---- */

void wi_op_cut(struct wi_op *op, size_t slice)
{
    size_t block = op->bind.block_bytes;

    op->bind.nfragments = block > slice ? (uint32_t)((block + slice - 1) / slice) : 1;
    op->bind.fragment_bytes = op->bind.nfragments > 1 ? slice : SIZE_MAX;
    op->bind.nslices = 1;
    op->bind.slice_bytes = SIZE_MAX;
}

/* A fragment of a mapped schedule must fit its scratch into a slot; all ranks cut alike. Blocks that fit as they are may be shorter
 * than a line; slices are whole lines. The built-in algorithms have at most WEFT_SLOT_MIN_BYTES of scratch in lines, files may hold
 * others. */
static weft_status slice_mapped(struct weft_comm *comm, struct wi_op *op, size_t want)
{
    size_t tmp = op->bind.sched->buf_blocks[WI_TMP], room = tmp ? comm->exec->map.slot_bytes / tmp : SIZE_MAX;
    size_t slice = op->bind.block_bytes;

    if (tmp && !op->bind.ll && (slice > want || slice > room)) {
        slice = room & ~(size_t)(WEFT_LINE_BYTES - 1);
        slice = slice < want ? slice : want;
        if (!slice)
            return wi_fail(
                WEFT_ENOTSUP,
                "algorithm %s needs %zu bytes of scratch, a line for each of its blocks, and slots have %zu: "
                "make them larger (WEFT_SHM_SLOT_BYTES)",
                op->bind.sched->algo, tmp * WEFT_LINE_BYTES, comm->exec->map.slot_bytes);
    }
    wi_op_cut(op, slice);
    op->bind.layout.slot_stride = op->bind.nfragments > 1 ? slice : op->bind.block_bytes;
    op->bind.slot_bytes = tmp * op->bind.layout.slot_stride;
    return WEFT_SUCCESS;
}

weft_status wi_op_scratch(struct wi_op *op)
{
    const uint32_t *blocks = op->bind.sched->buf_blocks;
    size_t tmp = round_up(blocks[WI_TMP] * op->bind.block_bytes, 64), images = 0;

    if (blocks[WI_PACK])
        images = wi_coding_bytes(&op->bind.coding, blocks[WI_PACK] * op->bind.layout.blocks[WI_PACK].stride);
    op->owned[WI_OWNED_SCRATCH] = NULL;
    if (!tmp && !images)
        return WEFT_SUCCESS;
    op->owned[WI_OWNED_SCRATCH] = op->bind.base[WI_TMP] = wi_aligned_alloc(64, tmp + images);
    op->bind.base[WI_PACK] = op->bind.base[WI_TMP] + tmp;
    return op->owned[WI_OWNED_SCRATCH] ? WEFT_SUCCESS : wi_fail(WEFT_ENOMEM, "%zu bytes of scratch", tmp + images);
}

static weft_status slice_messages(struct wi_op *op, size_t want)
{
    size_t block = op->bind.block_bytes;
    int cut = block > want;

    op->bind.nfragments = 1;
    op->bind.fragment_bytes = SIZE_MAX;
    op->bind.nslices = cut ? (uint32_t)((block + want - 1) / want) : 1;
    op->bind.slice_bytes = cut ? want : SIZE_MAX;
    return wi_op_scratch(op);
}

/* Depends on the arguments only: all ranks take ll lines or none does, whatever form of the call each one uses. */
static int ll_fits(const struct weft_comm *comm, const struct wi_op *op, const struct wi_call *c)
{
    const struct wi_sched *sched = op->bind.sched;

    return sched->ll && wi_algo_family(c->coll) == c->coll && comm->nranks <= WI_REDUCE_MAX_SRC &&
           (!wi_coll_is_vector(c->coll) || sched->nblocks == 1) &&
           sched->buf_blocks[WI_TMP] * op->bind.block_bytes <= comm->exec->ll_bytes;
}

/* Bytes that an operation moves over slots. */
static size_t slot_work(const struct wi_op *op)
{
    const uint32_t *blocks = op->bind.sched->buf_blocks;

    return blocks[WI_TMP] ? op->bind.block_bytes * (blocks[WI_SRC] > blocks[WI_DST] ? blocks[WI_SRC] : blocks[WI_DST])
                          : 0;
}

/* ---- The program ---- */

/* Programs of stages serve one call where the blocks of the whole have lengths of their own. */
static int may_keep(const struct wi_op *op, struct wi_prog **kept, const struct wi_layout *l)
{
    const struct wi_blocks *blocks = op->bind.layout.blocks;

    return kept && (!l->stage || (!blocks[WI_SRC].extent && !blocks[WI_DST].extent));
}

int wi_op_kept_program(const struct wi_op *op, struct wi_prog **kept, const struct wi_sched *sched,
                       const struct wi_layout *l, struct wi_prog **prog)
{
    if (!may_keep(op, kept, l) || !wi_prog_serves(*kept, sched, l))
        return 0;
    *prog = wi_prog_get(*kept);
    return 1;
}

weft_status wi_op_lower(const struct weft_comm *comm, const struct wi_op *op, const struct wi_sched *sched,
                        const struct wi_layout *l, struct wi_prog **kept, struct wi_prog **prog)
{
    *prog = wi_lower(sched, comm->rank, l);
    if (!*prog)
        return wi_fail(WEFT_ENOMEM, "a program of %u steps", sched->nsteps);
    if (may_keep(op, kept, l)) {
        wi_prog_put(*kept);
        *kept = wi_prog_get(*prog);
    }
    return WEFT_SUCCESS;
}

static weft_status lower(struct weft_comm *comm, struct wi_op *op, struct wi_prog **programs)
{
    struct wi_layout *l = &op->bind.layout;
    struct wi_prog **kept = programs ? &programs[op->bind.ll] : NULL, **prog = &op->bind.stage[0];

    l->packed = op->bind.packing != NULL;
    l->coded = op->bind.sched->lossy != 0;
    l->adds = op->bind.adds;
    l->mapped = op->bind.mapped && !op->bind.messages;
    l->ll = op->bind.ll;
    l->sliced = op->bind.nslices > 1 || op->bind.nfragments > 1;
    if (!wi_op_kept_program(op, kept, op->bind.sched, l, prog))
        WI_TRY(wi_op_lower(comm, op, op->bind.sched, l, kept, prog));
    op->bind.nstages = 1;
    op->bind.scale = (*prog)->scaled && !l->packed ? op->bind.block_bytes : 1;
    return WEFT_SUCCESS;
}

weft_status wi_op_lay_out_packed(struct weft_comm *comm, struct wi_op *op, const struct wi_call *c,
                                 struct wi_prog **programs)
{
    op->bind.nslices = op->bind.nfragments = 1;
    op->bind.messages = 1;
    WI_TRY(map_v_form(comm, op, c));
    WI_TRY(wi_packing_create(op, WI_PACK_BELOW));
    return lower(comm, op, programs);
}

/* Whole elements, or blocks of the codec: both are powers of two. */
static size_t whole_slices(const struct wi_op *op, size_t bytes)
{
    size_t whole = op->bind.sched->lossy ? wi_coding_block(&op->bind.coding) : 64;

    whole = whole < 64 ? 64 : whole;
    return bytes < whole ? whole : bytes & ~(whole - 1);
}

weft_status wi_op_lay_out(struct weft_comm *comm, struct wi_op *op, const struct wi_call *c, size_t share,
                          size_t slice_bytes, struct wi_prog **programs)
{
    size_t es = weft_dtype_bytes(c->dtype);

    if (op->bind.coding.variable && slice_bytes > IMAGE_MAX)
        slice_bytes = IMAGE_MAX;
    slice_bytes = whole_slices(op, slice_bytes);
    if (op->bind.adds && !wi_sched_completes_once(op->bind.sched))
        return wi_fail(WEFT_ENOTSUP, "accumulate: algorithm %s does not write the result once and for all",
                       op->bind.sched->algo);
    op->bind.mapped = op->bind.sched->mapped;
    op->bind.messages = !op->bind.mapped;
    op->bind.ll = 0;
    op->bind.send_empty = c->coll == WI_COLL_BARRIER;
    op->bind.block_bytes = op->bind.total_bytes = 0;
    if (wi_coll_is_vector(c->coll))
        cut_vector(op, c->count, es);
    else if (c->coll != WI_COLL_BARRIER)
        WI_TRY(cut_share(op, share, es));
    lay_out_blocks(op);
    WI_TRY(map_v_form(comm, op, c));
    if (c->coll == WI_COLL_REDUCE_SCATTER_V && op->bind.sched->tmp_like_src) {
        op->bind.layout.blocks[WI_TMP].like = &op->bind.layout.blocks[WI_SRC];
        op->bind.layout.blocks[WI_TMP].modulo = (uint32_t)comm->nranks;
    }
    if (op->bind.sched->staged)
        return wi_op_lay_out_stages(comm, op, slice_bytes, programs);
    if (!op->bind.mapped) {
        WI_TRY(slice_messages(op, slice_bytes));
        return lower(comm, op, programs);
    }
    op->bind.ll = ll_fits(comm, op, c) != 0; /* these are never cut */
    /* A reduction over slots reads what it has just written: caching was faster at every size measured. */
    op->bind.nt = op->bind.block_bytes * op->bind.sched->buf_blocks[WI_DST] >= comm->nt_bytes &&
                  (!op->bind.sched->buf_blocks[WI_TMP] || !wi_coll_is_reduction(c->coll));
    op->bind.slot_work = slot_work(op);
    WI_TRY(slice_mapped(comm, op, slice_bytes));
    return lower(comm, op, programs);
}
