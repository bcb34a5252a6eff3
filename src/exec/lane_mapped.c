/* SPDX-License-Identifier: BSD-3-Clause */
/* One lane of a mapped schedule, slice by slice. signal.h says which orders matter. */
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "exec/exec.h"
#include "exec/signal.h"

int wi_exec_gate(struct wi_exec *exec, uint64_t epoch, uint32_t depth, struct wi_op *op)
{
    uint64_t seen = UINT64_MAX;

    if (exec->done_seen + depth > epoch)
        return 1;
    for (int r = 0; r < exec->nranks; r++) {
        uint64_t d = wi_load(&exec->map.ranks[r].done->value);
        if (d + depth <= epoch) {
            wi_block_on(op, &exec->map.ranks[r].done->value, epoch - depth + 1, r);
            return 0;
        }
        seen = d < seen ? d : seen;
    }
    exec->done_seen = seen;
    return 1;
}

/* ---- Slots and signals ---- */

static unsigned char *region_base(const struct wi_exec *exec, const struct wi_op *op, const struct wi_region *r,
                                  uint64_t epoch)
{
    int rank = r->rank == WI_SELF ? exec->rank : r->rank;

    if (r->buf == WI_TMP)
        return exec->map.ranks[rank].slots + (epoch & (exec->map.depth - 1)) * exec->map.slot_bytes;
    if (rank == exec->rank)
        return op->base[r->buf];
    return op->peer_base[r->buf][rank];
}

static int dep_met(const struct wi_op *op, const struct wi_step *st, uint32_t slice)
{
    const struct wi_lane_state *other;

    if (st->dep_lane == WI_NO_DEP)
        return 1;
    other = &op->lanes[st->dep_lane];
    return other->done || other->slice > slice || (other->slice == slice && other->step > st->dep_step);
}

static weft_status got(struct wi_exec *exec, struct wi_op *op, int rank, void *dst, const void *remote, size_t bytes)
{
    weft_status st = exec->map_ops->mem_get(exec->map_group, rank, (uint64_t)(uintptr_t)remote, dst, bytes);

    return st >= 0 ? st : wi_exec_copy_failed(exec, op, st, rank, "reading");
}

static int of_a_peer(const struct wi_exec *exec, const struct wi_region *r)
{
    return r->rank != WI_SELF && r->rank != exec->rank && r->buf != WI_TMP;
}

/* Where stores go. Results stream past the caches when the operation is too large to stay in them; slots as slot_store.h
 * says. */
static void reduce_piece(const struct wi_op *op, const struct wi_step *st, const struct wi_region *dr, void *dst[],
                         const void *src[], size_t bytes)
{
    unsigned flags = st->flags & WI_STEP_FINAL ? WI_REDUCE_FINAL : 0;
    size_t elems = bytes / op->redop.elem_bytes;
    uint32_t own = 0;

    while (own < st->ndst && dr[own].buf == WI_TMP)
        own++;
    if (op->nt || own == st->ndst || st->ndst == 1) {
        wi_reduce(&op->redop, dst, st->ndst, src, st->nsrc, elems,
                  flags | (op->nt || (dr[0].buf == WI_TMP && op->slot_nt) ? WI_REDUCE_NT : 0));
        return;
    }
    wi_reduce(&op->redop, &dst[own], 1, src, st->nsrc, elems, flags);
    for (uint32_t i = 0; i < st->ndst; i++)
        if (i != own)
            wi_copy(dst[i], dst[own], bytes, dr[i].buf == WI_TMP && op->slot_nt ? WI_REDUCE_NT : 0);
}

#define STORE_BYTES ((size_t)1 << 20) /* a rank that gives up waits for no more than that: put.c */

static int stores_to_peers(const struct wi_exec *exec, const struct wi_op *op, const struct wi_step *st)
{
    for (uint32_t i = 0; op->sched->peer_dst && !op->put && i < st->ndst; i++)
        if (of_a_peer(exec, &op->sched->regions[st->dst + i]))
            return 1;
    return 0;
}

/* Reductions and copies into mapped buffers of other ranks. */
static weft_status store_to_peers(struct wi_exec *exec, struct wi_op *op, const struct wi_step *st, void *dst[],
                                  const void *src[], size_t bytes)
{
    const struct wi_region *dr = &op->sched->regions[st->dst];

    for (size_t at = 0; at < bytes; at += STORE_BYTES) {
        size_t some = bytes - at < STORE_BYTES ? bytes - at : STORE_BYTES;
        void *to[WI_REDUCE_MAX_SRC];
        const void *from[WI_REDUCE_MAX_SRC];
        for (uint32_t i = 0; i < st->ndst; i++)
            to[i] = (unsigned char *)dst[i] + at;
        for (uint32_t i = 0; i < st->nsrc; i++)
            from[i] = (const unsigned char *)src[i] + at;
        WI_TRY(wi_exec_begin_stores(exec, op, dr, st->ndst));
        if (st->kind == WI_STEP_REDUCE)
            reduce_piece(op, st, dr, to, from, some);
        for (uint32_t i = 0; st->kind == WI_STEP_COPY && i < st->ndst; i++)
            if (to[i] != from[0])
                wi_copy(to[i], from[0], some, (dr[i].buf == WI_TMP ? op->slot_nt : op->nt) ? WI_REDUCE_NT : 0);
        wi_exec_end_stores(exec);
    }
    return WEFT_SUCCESS;
}

static weft_status local_piece(struct wi_exec *exec, struct wi_op *op, const struct wi_step *st, uint32_t slice,
                               uint32_t piece)
{
    const struct wi_region *dr = &op->sched->regions[st->dst], *sr = &op->sched->regions[st->src];
    uint64_t epoch = op->epoch + slice;
    void *dst[WI_REDUCE_MAX_SRC];
    const void *src[WI_REDUCE_MAX_SRC];
    size_t bytes = SIZE_MAX, n;

    for (uint32_t i = 0; i < st->ndst; i++) {
        dst[i] = wi_op_piece(op, &dr[i], slice, piece, region_base(exec, op, &dr[i], epoch), &n);
        bytes = n < bytes ? n : bytes;
    }
    for (uint32_t i = 0; i < st->nsrc; i++) {
        src[i] = wi_op_piece(op, &sr[i], slice, piece, region_base(exec, op, &sr[i], epoch), &n);
        bytes = n < bytes ? n : bytes;
    }
    if (!bytes)
        return WEFT_SUCCESS;
    if (stores_to_peers(exec, op, st))
        return store_to_peers(exec, op, st, dst, src, bytes);
    if (st->kind == WI_STEP_REDUCE) {
        reduce_piece(op, st, dr, dst, src, bytes);
        return WEFT_SUCCESS;
    }
    if (op->put && of_a_peer(exec, &dr[0]))
        return wi_exec_put(exec, op, dr[0].rank, dst[0], src[0], bytes);
    if (op->get && of_a_peer(exec, &sr[0]))
        return got(exec, op, sr[0].rank, dst[0], src[0], bytes);
    if (st->flags & (WI_STEP_TWIN | WI_STEP_SECOND_TWIN) && wi_op_joins_twins(op, bytes)) {
        const struct wi_region *twin = &op->sched->regions[st[2].dst];
        if (st->flags & WI_STEP_TWIN)
            wi_copy_twice(dst[0], wi_op_piece(op, twin, slice, piece, region_base(exec, op, twin, epoch), &n), src[0],
                          bytes);
        return WEFT_SUCCESS;
    }
    for (uint32_t i = 0; i < st->ndst; i++)
        if (dst[i] != src[0])
            wi_copy(dst[i], src[0], bytes, (dr[i].buf == WI_TMP ? op->slot_nt : op->nt) ? WI_REDUCE_NT : 0);
    return WEFT_SUCCESS;
}

/* While this rank waits for others: take the lines that it stores to next, in the ordinary way. */
#if defined(__x86_64__)
__attribute__((target("prfchw")))
#endif
void
wi_claim_slot(const struct wi_exec *exec, uint64_t epoch, size_t bytes)
{
    const unsigned char *slot =
        exec->map.ranks[exec->rank].slots + (epoch & (exec->map.depth - 1)) * exec->map.slot_bytes;

    for (size_t at = 0; at < bytes; at += WEFT_LINE_BYTES)
        __builtin_prefetch(slot + at, 1, 3);
}

static void signal_lane(struct wi_exec *exec, struct wi_op *op, uint32_t lane, uint64_t epoch, const struct wi_step *st)
{
    wi_signal(exec, op, lane, epoch, st->ordinal);
    if (op->claim)
        wi_claim_slot(exec, epoch + 1, op->sched->buf_blocks[WI_TMP] * op->tmp_stride);
}

static void slice_over(struct wi_exec *exec, struct wi_op *op)
{
    uint32_t least = op->nslices;

    for (uint32_t l = 0; l < op->sched->nlanes; l++)
        if (!op->lanes[l].done && op->lanes[l].slice < least)
            least = op->lanes[l].slice;
    if (least > op->slices_done) {
        op->slices_done = least;
        wi_epochs_done(exec, op->epoch + least);
    }
}

/* 1: step done, 0: wait, < 0: failed */
static int run_step(struct wi_exec *exec, struct wi_op *op, uint32_t lane, const struct wi_step *st, uint32_t slice)
{
    uint64_t epoch = op->epoch + slice;
    uint32_t pieces;

    if (!dep_met(op, st, slice))
        return 0;
    switch (st->kind) {
    case WI_STEP_SIGNAL:
        signal_lane(exec, op, lane, epoch, st);
        return 1;
    case WI_STEP_WAIT:
        return wi_signal_seen(exec, op, st->peer, st->lane, epoch, st->ordinal);
    case WI_STEP_COPY:
    case WI_STEP_REDUCE:
        pieces = wi_op_pieces(op, &op->sched->regions[st->dst]);
        for (uint32_t piece = 0; piece < pieces; piece++)
            WI_TRY(local_piece(exec, op, st, slice, piece));
        return 1;
    default:
        return 1; /* NOP */
    }
}

int wi_lane_run_mapped(struct wi_exec *exec, struct wi_op *op, uint32_t lane)
{
    const struct wi_lane *ln = &op->sched->lanes[lane];
    struct wi_lane_state *ls = &op->lanes[lane];
    int moved = 0;

    while (!exec->broken && ls->slice < op->nslices) {
        if (ls->step == 0 && !wi_exec_gate(exec, op->epoch + ls->slice, exec->map.depth, op))
            return moved;
        while (ls->step < ln->nsteps) {
            int done = run_step(exec, op, lane, &op->sched->steps[ln->first_step + ls->step], ls->slice);
            if (done <= 0)
                return moved | (done < 0);
            ls->step++;
            moved = 1;
        }
        ls->step = 0;
        ls->slice++;
        slice_over(exec, op);
    }
    if (!exec->broken && !ls->done) {
        ls->done = 1;
        op->nlanes_left--;
        slice_over(exec, op);
        moved = 1;
    }
    return moved;
}

/* Bytes that an operation moves over slots, by which it is classed in slot_store.h. */
size_t wi_op_slot_work(const struct wi_op *op)
{
    uint32_t src = op->sched->buf_blocks[WI_SRC], dst = op->sched->buf_blocks[WI_DST];

    return op->sched->buf_blocks[WI_TMP] ? op->block_bytes * (src > dst ? src : dst) : 0;
}

void wi_op_begin_stores(struct wi_exec *exec, struct wi_op *op, size_t work)
{
    int timed;

    op->slot_nt = wi_slot_store_choose(&exec->slot_store, work, &timed) != 0;
    op->claim = !op->slot_nt && work >= WI_SLOT_ORDINARY_BYTES && op->nslices == 1;
    op->stores_since = timed ? wi_ticks() : 0;
}

void wi_op_end_stores(struct wi_exec *exec, struct wi_op *op, size_t work)
{
    if (op->stores_since)
        wi_slot_store_learn(&exec->slot_store, work, op->slot_nt, wi_ticks() - op->stores_since);
}

static weft_status run_to_end(struct wi_exec *exec, struct wi_op *op)
{
    uint32_t nlanes = op->sched->nlanes;

    while (op->nlanes_left) {
        int moved = 0;
        for (uint32_t l = 0; l < nlanes && !exec->broken; l++)
            if (!op->lanes[l].done)
                moved |= wi_lane_run_mapped(exec, op, l);
        if (exec->broken)
            return exec->broken;
        if (moved)
            op->wait.rounds = 0;
        else if (!wi_spin_on_poll(exec, op))
            WI_TRY(wi_exec_pause(exec, op));
    }
    return WEFT_SUCCESS;
}

weft_status wi_exec_run_mapped(struct wi_exec *exec, struct wi_op *op)
{
    size_t work = wi_op_slot_work(op);
    weft_status st;

    wi_op_begin_stores(exec, op, work);
    memset(op->lanes_inline, 0, op->sched->nlanes * sizeof op->lanes_inline[0]);
    op->lanes = op->lanes_inline;
    op->nlanes_left = op->sched->nlanes;
    op->slices_done = 0;
    op->epoch = exec->next_epoch;
    exec->next_epoch += op->nslices;
    st = run_to_end(exec, op);
    if (st >= 0)
        wi_op_end_stores(exec, op, work);
    return st;
}
