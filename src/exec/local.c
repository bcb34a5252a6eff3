/* SPDX-License-Identifier: BSD-3-Clause */
/* Local work: copies and reductions between the rank's own buffers, slots, and other ranks' memory where it can be accessed. */
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "exec/address.h"
#include "exec/transfer.h"

/* ---- Kinds of stores ---- */

/* Results stream past the caches when the operation is too large to stay in them; slots as autotune.h says. */
static unsigned streams(const struct wi_work *w, uint32_t dst)
{
    if (!w->to)
        return 0;
    return (w->to[dst].mem == WI_MEM_SLOT ? w->op->run.slot_nt : w->nt) ? WI_REDUCE_NT : 0;
}

/* ---- One chunk of work ---- */

static void offset(const struct wi_work *w, size_t at, void **dst, const void **src)
{
    for (uint32_t i = 0; i < w->ndst; i++)
        dst[i] = (unsigned char *)w->dst[i] + at;
    for (uint32_t i = 0; i < w->nsrc; i++)
        src[i] = (const unsigned char *)w->src[i] + at;
}

static void reduce(const struct wi_work *w, void *const dst[], const void *const src[], size_t bytes)
{
    const struct wi_redop *redop = &w->op->bind.redop;
    size_t elems = bytes / redop->elem_bytes;
    uint32_t own = 0;

    while (w->to && own < w->ndst && w->to[own].mem == WI_MEM_SLOT)
        own++;
    if (w->nt || own == w->ndst || w->ndst == 1) {
        wi_reduce(redop, dst, (int)w->ndst, src, (int)w->nsrc, elems, w->flags | streams(w, 0));
        return;
    }
    wi_reduce(redop, &dst[own], 1, src, (int)w->nsrc, elems, w->flags);
    for (uint32_t i = 0; i < w->ndst; i++)
        if (i != own)
            wi_copy(dst[i], dst[own], bytes, streams(w, i));
}

static void copy(const struct wi_work *w, void *const dst[], const void *src, size_t bytes)
{
    for (uint32_t i = 0; i < w->ndst; i++)
        if (dst[i] != src)
            wi_copy(dst[i], src, bytes, streams(w, i));
}

static void move(const struct wi_work *w, void *const dst[], const void *const src[], size_t bytes)
{
    if (w->kind == WI_WORK_REDUCE)
        reduce(w, dst, src, bytes);
    else if (w->kind == WI_WORK_COPY_TWICE)
        wi_copy_twice(dst[0], dst[1], src[0], bytes);
    else
        copy(w, dst, src[0], bytes);
}

/* Reductions and copies into mapped buffers of other ranks. */
static weft_status store_to_peers(struct wi_exec *exec, const struct wi_work *w, void *const dst[],
                                  const void *const src[], size_t bytes)
{
    weft_status st = wi_exec_begin_stores(exec, w->to, w->ndst);

    if (st >= 0)
        move(w, dst, src, bytes);
    wi_exec_end_stores(exec);
    return st;
}

size_t wi_work_operand_bytes(const struct wi_work *w, uint32_t operand)
{
    return w->kind == WI_WORK_CODE ? wi_stored_bytes(w->op, &w->to[operand], w->bytes) : w->bytes;
}

size_t wi_work_grain(const struct wi_work *w)
{
    if (w->kind == WI_WORK_CODE)
        return w->op->bind.coding.variable ? w->bytes : wi_coding_block(&w->op->bind.coding);
    return w->kind == WI_WORK_REDUCE ? w->op->bind.redop.elem_bytes : 1;
}

weft_status wi_work_do(struct wi_exec *exec, const struct wi_work *w, size_t at, size_t bytes)
{
    void *dst[WI_REDUCE_MAX_SRC];
    const void *src[WI_REDUCE_MAX_SRC];

    if (w->kind == WI_WORK_CODE)
        return wi_coded_do(w, at, bytes);
    offset(w, at, dst, src);
    if (w->kind == WI_WORK_GET)
        return exec->map_ops->mem_get(exec->map_group, w->rank, (uint64_t)(uintptr_t)src[0], dst[0], bytes);
    if (w->kind == WI_WORK_PUT)
        return wi_exec_put(exec, w->rank, dst[0], src[0], bytes);
    if (w->to_peer)
        return store_to_peers(exec, w, dst, src, bytes);
    move(w, dst, src, bytes);
    return WEFT_SUCCESS;
}

/* ---- From one slice of one unit to work ---- */

static int is_peers(const struct wi_operand *o)
{
    return o->mem == WI_MEM_PEER_SRC || o->mem == WI_MEM_PEER_DST;
}

/* 0: a pending send still reads where it would go. */
static int may_store(const struct wi_fragment *f, const struct wi_work *w)
{
    for (uint32_t i = 0; !f->prog->mapped && i < w->ndst; i++)
        if (wi_being_sent(f, w->dst[i],
                          w->kind == WI_WORK_CODE ? wi_stored_bytes(w->op, &w->to[i], w->bytes) : w->bytes))
            return 0;
    return 1;
}

/* A copy whose source is copied again after the next signal: both copies are made in one pass, here. 0: this is the second one,
 * which has been made. */
static int fuse(const struct wi_exec *exec, const struct wi_fragment *f, const struct wi_prog_step *st, uint32_t unit,
                size_t skip, struct wi_work *w)
{
    const struct wi_unit *second;

    if (!(st->flags & WI_STEP_FUSED_COPY))
        return 0;
    second = &f->prog->units[st[2].unit + unit];
    w->kind = WI_WORK_COPY_TWICE;
    w->dst[1] = wi_address(exec, w->op, &f->prog->operands[second->operand], f->epoch, skip);
    w->ndst = 2;
    return 1;
}

static enum wi_work_kind kind_of(const struct wi_op *op, const struct wi_prog_step *st, const struct wi_operand *from)
{
    if (st->coded)
        return WI_WORK_CODE;
    if (st->kind == WI_STEP_REDUCE)
        return WI_WORK_REDUCE;
    if (st->to_peer && op->bind.put)
        return WI_WORK_PUT;
    if (!st->to_peer && op->bind.get && is_peers(from))
        return WI_WORK_GET;
    return WI_WORK_COPY;
}

/* Images are moved as bytes, or there is more behind the operands. */
static void resolve_coded(const struct wi_exec *exec, const struct wi_op *op, const struct wi_fragment *f,
                          const struct wi_prog_step *st, size_t skip, struct wi_work *w)
{
    const struct wi_operand *extra = w->to + st->ndst + st->nsrc, *kept = &extra[st->extra == WI_EXTRA_UNDO ? 2 : 0];

    if (st->kind == WI_STEP_COPY && w->to->mem == WI_MEM_PACK && w->to[st->ndst].mem == WI_MEM_PACK) {
        w->kind = WI_WORK_COPY;
        w->bytes = wi_image_bytes(&op->bind.coding, w->src[0], wi_stored_bytes(op, w->to, w->bytes));
        return;
    }
    w->kept = st->extra && wi_keeps(&op->bind.coding, (uint32_t)kept->rank) ? (uint8_t)kept->rank : WI_NO_RESIDUAL;
    w->placed = st->extra != WI_EXTRA_NONE;
    w->first = st->extra ? (kept->at + skip) / op->bind.redop.elem_bytes : 0;
    w->sums = st->extra == WI_EXTRA_ENCODED && kept->rank == 1;
    w->undo_image = w->undo_of = NULL;
    if (st->extra == WI_EXTRA_UNDO && w->kept != WI_NO_RESIDUAL) {
        w->undo_image = wi_address(exec, op, &extra[0], f->epoch, skip);
        w->undo_of = wi_address(exec, op, &extra[1], f->epoch, skip);
    }
}

/* 0: there is nothing to do. */
static int resolve(const struct wi_exec *exec, const struct wi_op *op, const struct wi_fragment *f,
                   const struct wi_prog_step *st, uint32_t slice, uint32_t unit, struct wi_work *w)
{
    const struct wi_unit *u = &f->prog->units[st->unit + unit];
    const struct wi_operand *to = &f->prog->operands[u->operand], *from = to + st->ndst;
    size_t skip;

    w->op = op;
    w->bytes = wi_slice_bytes(op, f, u, slice, &skip);
    if (!w->bytes)
        return 0;
    w->to = to;
    w->ndst = st->ndst;
    w->nsrc = st->nsrc;
    w->kind = (uint8_t)kind_of(op, st, from);
    w->flags = (uint8_t)wi_reduce_flags(st->flags);
    w->to_peer = st->to_peer;
    w->nt = op->bind.nt && !f->prog->read_again;
    w->rank = w->kind == WI_WORK_PUT ? to->rank : from->rank;
    w->peer_buf = (w->kind == WI_WORK_PUT ? to->mem : from->mem) == WI_MEM_PEER_DST;
    for (uint32_t i = 0; i < st->ndst; i++)
        w->dst[i] = wi_address(exec, op, &to[i], f->epoch, skip);
    for (uint32_t i = 0; i < st->nsrc; i++)
        w->src[i] = wi_address(exec, op, &from[i], f->epoch, skip);
    if (w->kind == WI_WORK_CODE)
        resolve_coded(exec, op, f, st, skip, w);
    if (w->kind == WI_WORK_COPY && !st->to_peer && st->flags & (WI_STEP_FUSED_COPY | WI_STEP_FUSED_COPY_SECOND) &&
        wi_op_fuses_copies(op, w->bytes))
        return fuse(exec, f, st, unit, skip, w);
    return 1;
}

int wi_local_run(struct wi_exec *exec, struct wi_op *op, struct wi_fragment *f, uint32_t lane,
                 const struct wi_prog_step *st, int *moved)
{
    struct wi_lane_state *ls = &f->lane[lane];
    struct wi_work w;

    if (wi_exec_budget_spent(exec))
        return 0;
    if (ls->work)
        return wi_work_poll(exec, op, &ls->work, moved);
    if (!resolve(exec, op, f, st, ls->slice, ls->unit, &w))
        return 1;
    if (!may_store(f, &w))
        return 0;
    w.lane = lane;
    w.step = ls->step;
    return wi_work_begin(exec, op, &w, &ls->work, moved);
}

/* ---- Stores into slots, of one operation ---- */

/* While this rank waits for others: take ownership of the lines that it stores to next, where stores are ordinary. */
#if defined(__x86_64__)
__attribute__((target("prfchw")))
#endif
void
wi_claim_slot(const struct wi_exec *exec, uint64_t epoch, size_t bytes)
{
    const unsigned char *slot = wi_slot(exec, exec->rank, epoch);

    for (size_t at = 0; at < bytes; at += WEFT_LINE_BYTES)
        __builtin_prefetch(slot + at, 1, 3);
}

void wi_op_begin_stores(struct wi_exec *exec, struct wi_op *op)
{
    int timed;

    op->run.slot_nt = wi_autotune_choose(&exec->store_tuning, op->bind.slot_work, &timed) != 0;
    op->run.claim = !op->run.slot_nt && op->bind.slot_work >= WI_AUTOTUNE_MIN_BYTES && op->bind.nfragments == 1;
    op->run.stores_since = timed ? wi_ticks() : 0;
}

void wi_op_end_stores(struct wi_exec *exec, struct wi_op *op)
{
    if (op->run.stores_since)
        wi_autotune_learn(&exec->store_tuning, op->bind.slot_work, op->run.slot_nt, wi_ticks() - op->run.stores_since);
}
