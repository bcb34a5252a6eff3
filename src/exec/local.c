/* SPDX-License-Identifier: BSD-3-Clause */
/* Work that a rank does by itself: copies and reductions, between its own buffers, slots and what it can reach of other ranks'
 * memory. */
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "exec/address.h"
#include "exec/transfer.h"

/* The operands of one slice of one unit. */
struct piece {
    void *dst[WI_REDUCE_MAX_SRC];
    const void *src[WI_REDUCE_MAX_SRC];
    const struct wi_operand *to, *from;
    size_t bytes;
};

/* ---- Other ranks' buffers ---- */

static weft_status get(struct wi_exec *exec, struct wi_op *op, int rank, void *dst, const void *remote, size_t bytes)
{
    weft_status st = exec->map_ops->mem_get(exec->map_group, rank, (uint64_t)(uintptr_t)remote, dst, bytes);

    return st >= 0 ? st : wi_exec_copy_failed(exec, op, st, rank, "reading");
}

static int is_peers(const struct wi_operand *o)
{
    return o->mem == WI_MEM_PEER_SRC || o->mem == WI_MEM_PEER_DST;
}

/* ---- Where stores go ---- */

/* Results stream past the caches when the operation is too large to stay in them; slots as slot_store.h says. */
static unsigned streams(const struct wi_op *op, const struct wi_operand *to)
{
    return (to->mem == WI_MEM_SLOT ? op->run.slot_nt : op->bind.nt) ? WI_REDUCE_NT : 0;
}

static void reduce(const struct wi_op *op, const struct wi_prog_step *st, const struct piece *p)
{
    unsigned flags = st->flags & WI_STEP_FINAL ? WI_REDUCE_FINAL : 0;
    size_t elems = p->bytes / op->bind.redop.elem_bytes;
    uint32_t own = 0;

    while (own < st->ndst && p->to[own].mem == WI_MEM_SLOT)
        own++;
    if (op->bind.nt || own == st->ndst || st->ndst == 1) {
        wi_reduce(&op->bind.redop, p->dst, st->ndst, p->src, st->nsrc, elems, flags | streams(op, &p->to[0]));
        return;
    }
    wi_reduce(&op->bind.redop, &p->dst[own], 1, p->src, st->nsrc, elems, flags);
    for (uint32_t i = 0; i < st->ndst; i++)
        if (i != own)
            wi_copy(p->dst[i], p->dst[own], p->bytes, streams(op, &p->to[i]));
}

static void copy(const struct wi_op *op, const struct wi_prog_step *st, const struct piece *p)
{
    for (uint32_t i = 0; i < st->ndst; i++)
        if (p->dst[i] != p->src[0])
            wi_copy(p->dst[i], p->src[0], p->bytes, streams(op, &p->to[i]));
}

static void move(const struct wi_op *op, const struct wi_prog_step *st, const struct piece *p)
{
    if (st->kind == WI_STEP_REDUCE)
        reduce(op, st, p);
    else
        copy(op, st, p);
}

#define STORE_BYTES ((size_t)1 << 20) /* a rank that gives up waits for no more than that: put.c */

/* Reductions and copies into mapped buffers of other ranks. */
static weft_status store_to_peers(struct wi_exec *exec, struct wi_op *op, const struct wi_prog_step *st,
                                  const struct piece *whole)
{
    for (size_t at = 0; at < whole->bytes; at += STORE_BYTES) {
        struct piece p;
        p.to = whole->to;
        p.from = whole->from;
        p.bytes = whole->bytes - at < STORE_BYTES ? whole->bytes - at : STORE_BYTES;
        for (uint32_t i = 0; i < st->ndst; i++)
            p.dst[i] = (unsigned char *)whole->dst[i] + at;
        for (uint32_t i = 0; i < st->nsrc; i++)
            p.src[i] = (const unsigned char *)whole->src[i] + at;
        WI_TRY(wi_exec_begin_stores(exec, op, p.to, st->ndst));
        move(op, st, &p);
        wi_exec_end_stores(exec);
    }
    return WEFT_SUCCESS;
}

/* ---- A copy whose source is copied again after the signal that follows ---- */

static void copy_twice(const struct wi_exec *exec, const struct wi_op *op, const struct wi_fragment *f,
                       const struct wi_prog_step *st, uint32_t piece, size_t skip, const struct piece *p)
{
    const struct wi_unit *second;

    if (!(st->flags & WI_STEP_TWIN)) /* the second one, which has been made */
        return;
    second = &f->prog->units[st[2].unit + piece];
    wi_copy_twice(p->dst[0], wi_address(exec, op, &f->prog->operands[second->operand], f->epoch, skip), p->src[0],
                  p->bytes);
}

/* ---- One piece ---- */

/* 0: a pending send still reads where it would go. */
static int may_store(const struct wi_fragment *f, const struct wi_prog_step *st, const struct piece *p)
{
    for (uint32_t i = 0; !f->prog->mapped && i < st->ndst; i++)
        if (wi_being_sent(f, p->dst[i], p->bytes))
            return 0;
    return 1;
}

int wi_local_run(struct wi_exec *exec, struct wi_op *op, struct wi_fragment *f, const struct wi_prog_step *st,
                 uint32_t slice, uint32_t piece)
{
    const struct wi_unit *unit = &f->prog->units[st->unit + piece];
    struct piece p;
    size_t skip;

    p.to = &f->prog->operands[unit->operand];
    p.from = p.to + st->ndst;
    p.bytes = wi_slice_bytes(op, f, unit, slice, &skip);
    if (!p.bytes)
        return 1;
    for (uint32_t i = 0; i < st->ndst; i++)
        p.dst[i] = wi_address(exec, op, &p.to[i], f->epoch, skip);
    for (uint32_t i = 0; i < st->nsrc; i++)
        p.src[i] = wi_address(exec, op, &p.from[i], f->epoch, skip);
    if (!may_store(f, st, &p))
        return 0;
    if (st->to_peer && op->bind.put && st->kind == WI_STEP_COPY)
        WI_TRY(wi_exec_put(exec, op, p.to[0].rank, p.dst[0], p.src[0], p.bytes));
    else if (st->to_peer)
        WI_TRY(store_to_peers(exec, op, st, &p));
    else if (op->bind.get && st->kind == WI_STEP_COPY && is_peers(&p.from[0]))
        WI_TRY(get(exec, op, p.from[0].rank, p.dst[0], p.src[0], p.bytes));
    else if (st->flags & (WI_STEP_TWIN | WI_STEP_SECOND_TWIN) && wi_op_joins_twins(op, p.bytes))
        copy_twice(exec, op, f, st, piece, skip, &p);
    else
        move(op, st, &p);
    return 1;
}

/* ---- How slots are stored, of one operation ---- */

/* While this rank waits for others: take the lines that it stores to next, in the ordinary way. */
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

    op->run.slot_nt = wi_slot_store_choose(&exec->slot_store, op->bind.slot_work, &timed) != 0;
    op->run.claim = !op->run.slot_nt && op->bind.slot_work >= WI_SLOT_ORDINARY_BYTES && op->bind.nfragments == 1;
    op->run.stores_since = timed ? wi_ticks() : 0;
}

void wi_op_end_stores(struct wi_exec *exec, struct wi_op *op)
{
    if (op->run.stores_since)
        wi_slot_store_learn(&exec->slot_store, op->bind.slot_work, op->run.slot_nt, wi_ticks() - op->run.stores_since);
}
