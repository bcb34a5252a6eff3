/* SPDX-License-Identifier: BSD-3-Clause */
/* A mapped operation with nothing else in flight: from its first step to its last, in the thread that called it.
 *
 * A program of one lane whose data is not cut is a list of copies, reductions, signals and waits in one order. It is run in one
 * loop, without the state of a lane or a fragment: up to some 16 KiB keeping that would cost as much as moving the data. */
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "exec/address.h"
#include "exec/ll.h"

#define CLAIM_AHEAD 8 /* epochs */

/* ---- Local work ---- */

/* As wi_address, without the case of other ranks' buffers: no operand of a program that runs alone lies there. slot_at: where this
 * epoch's slot begins. */
static inline unsigned char *address(const struct wi_exec *exec, const struct wi_op *op, const struct wi_operand *o,
                                     size_t slot_at)
{
    size_t at = o->at * op->bind.scale;

    if (o->mem <= WI_MEM_TMP)
        return op->bind.base[o->mem] + at;
    if (o->mem == WI_MEM_SLOT)
        return exec->map.ranks[o->rank].slots + slot_at + at;
    if (o->mem == WI_MEM_LL)
        return (unsigned char *)(uintptr_t)exec->ll_tmp[o->rank] + at;
    return exec->ll_own + at;
}

/* The second one of fused copies has been made by the first. */
static void copy_fused(const struct wi_exec *exec, const struct wi_op *op, const struct wi_prog_step *st,
                       const struct wi_operand *o, size_t bytes, size_t slot_at)
{
    const struct wi_prog *prog = op->bind.stage[0];

    if (st->flags & WI_STEP_FUSED_COPY)
        wi_copy_twice(address(exec, op, &o[0], slot_at),
                      address(exec, op, &prog->operands[prog->units[st[2].unit].operand], slot_at),
                      address(exec, op, &o[1], slot_at), bytes);
}

/* Any number of operands. */
static void run_many(const struct wi_exec *exec, const struct wi_op *op, const struct wi_prog_step *st,
                     const struct wi_operand *o, size_t bytes, size_t slot_at, unsigned nt)
{
    void *dst[WI_REDUCE_MAX_SRC];
    const void *src[WI_REDUCE_MAX_SRC];

    for (uint32_t i = 0; i < st->ndst; i++)
        dst[i] = address(exec, op, &o[i], slot_at);
    for (uint32_t i = 0; i < st->nsrc; i++)
        src[i] = address(exec, op, &o[st->ndst + i], slot_at);
    if (st->kind == WI_STEP_REDUCE) {
        wi_reduce(&op->bind.redop, dst, st->ndst, src, st->nsrc, bytes / op->bind.redop.elem_bytes,
                  wi_reduce_flags(st->flags) | (st->ndst == 1 ? nt : 0));
        return;
    }
    for (uint32_t i = 0; i < st->ndst; i++)
        if (dst[i] != src[0])
            wi_copy(dst[i], src[0], bytes, o[i].mem == WI_MEM_SLOT ? nt : 0);
}

/* Most steps have one destination, and one source or, of reductions, two: they need no tables. */
static inline void run_local(const struct wi_exec *exec, const struct wi_op *op, const struct wi_prog_step *st,
                             size_t slot_at, int ll)
{
    const struct wi_unit *unit = &op->bind.stage[0]->units[st->unit];
    const struct wi_operand *o = &op->bind.stage[0]->operands[unit->operand];
    size_t bytes = unit->bytes * op->bind.scale;
    unsigned nt = !ll && st->to_slot && op->run.slot_nt ? WI_REDUCE_NT : 0;
    unsigned char *dst, *src;

    if (!ll && st->flags & (WI_STEP_FUSED_COPY | WI_STEP_FUSED_COPY_SECOND) && wi_op_fuses_copies(op, bytes)) {
        copy_fused(exec, op, st, o, bytes, slot_at);
        return;
    }
    if (st->ndst != 1 || st->nsrc != 1u + (st->kind == WI_STEP_REDUCE)) {
        run_many(exec, op, st, o, bytes, slot_at, nt);
        return;
    }
    dst = address(exec, op, &o[0], slot_at);
    src = address(exec, op, &o[1], slot_at);
    if (st->nsrc == 2)
        wi_reduce2(&op->bind.redop, dst, src, address(exec, op, &o[2], slot_at), bytes / op->bind.redop.elem_bytes,
                   wi_reduce_flags(st->flags) | nt);
    else if (dst != src && ll)
        memcpy(dst, src, bytes);
    else if (dst != src)
        wi_copy(dst, src, bytes, nt);
}

/* ---- Through slots ---- */

static weft_status await(struct wi_exec *exec, struct wi_op *op, const struct wi_prog_step *st)
{
    while (!wi_signal_seen(exec, op, st->peer, st->lane, op->run.epoch, st->ordinal)) {
        if (exec->broken)
            return exec->broken;
        if (!wi_spin_on_poll(exec, op))
            WI_TRY(wi_exec_pause(exec, op));
    }
    op->wait.rounds = 0;
    return WEFT_SUCCESS;
}

static weft_status run_slots(struct wi_exec *exec, struct wi_op *op)
{
    const struct wi_prog *prog = op->bind.stage[0];
    size_t slot_at;

    wi_op_begin_stores(exec, op);
    op->run.epoch = exec->next_epoch++;
    slot_at = (op->run.epoch & (exec->map.depth - 1)) * exec->map.slot_bytes;
    while (!wi_exec_slot_free(exec, op->run.epoch, exec->map.depth, op))
        WI_TRY(wi_exec_pause(exec, op));
    for (const struct wi_prog_step *st = prog->steps; st < prog->steps + prog->nsteps; st++) {
        if (st->kind == WI_STEP_WAIT) {
            WI_TRY(await(exec, op, st));
        } else if (st->kind == WI_STEP_SIGNAL) {
            wi_signal(exec, op, 0, op->run.epoch, st->ordinal);
            if (op->run.claim)
                wi_claim_slot(exec, op->run.epoch + 1, op->bind.slot_bytes);
        } else {
            run_local(exec, op, st, slot_at, 0);
        }
    }
    wi_epochs_done(exec, op->run.epoch + 1);
    wi_op_end_stores(exec, op);
    return WEFT_SUCCESS;
}

/* ---- Over ll lines ---- */

/* Another rank may be in the next operation already: its line arrives while this rank leaves the call and enters the next one. If
 * it is not, the line is still cached here from the last use of the slot, and nothing is fetched. A rank that does not wait for
 * others runs ahead: it claims the lines that it will store to soon from the caches of their readers, which do not read them
 * yet. */
#if defined(__x86_64__)
__attribute__((target("prfchw")))
#endif
static void
look_ahead(const struct wi_exec *exec, const struct wi_op *op)
{
    const struct wi_prog *prog = op->bind.stage[0];
    const struct weft_ll_line *own;
    int waits = 0;

    for (uint32_t i = 0; i < prog->nsteps; i++)
        if (prog->steps[i].kind == WI_PROG_FETCH) {
            __builtin_prefetch(wi_ll_slot(exec, prog->steps[i].peer, op->run.epoch + 1));
            waits = 1;
        }
    if (waits)
        return;
    own = wi_ll_slot(exec, exec->rank, op->run.epoch + CLAIM_AHEAD);
    for (size_t at = 0; at < op->bind.slot_bytes; at += WI_LL_PAYLOAD)
        __builtin_prefetch(own++, 1, 3);
}

/* A rank that ran ahead until all slots were used waits until half of them are free, and polls seldom: each poll takes the line
 * away from the reader, which stores to it in every operation. */
static weft_status enter(struct wi_exec *exec, struct wi_op *op)
{
    uint32_t depth = exec->map.ll_depth;
    uint64_t until = op->run.epoch;

    if (wi_exec_slot_free(exec, until, depth, op))
        return WEFT_SUCCESS;
    until += depth / 2 - 1;
    while (!wi_exec_slot_free(exec, until, depth, op))
        if (!wi_spin_seldom(exec, op))
            WI_TRY(wi_exec_pause(exec, op));
    return WEFT_SUCCESS;
}

static weft_status fetch(struct wi_exec *exec, struct wi_op *op, int rank, uint64_t seq)
{
    const unsigned char *got;

    while ((got = wi_ll_fetch(exec, op, rank, seq, op->bind.slot_bytes)) == NULL) {
        if (exec->broken)
            return exec->broken;
        if (!wi_spin_on_poll(exec, op))
            WI_TRY(wi_exec_pause(exec, op));
    }
    exec->ll_tmp[rank] = got;
    op->wait.rounds = 0;
    return WEFT_SUCCESS;
}

static weft_status run_lines(struct wi_exec *exec, struct wi_op *op)
{
    const struct wi_prog *prog = op->bind.stage[0];
    uint64_t seq;

    op->run.epoch = exec->next_epoch++;
    op->run.slot_nt = 0;
    seq = wi_ll_seq(op->run.epoch, &op->info);
    WI_TRY(enter(exec, op));
    for (const struct wi_prog_step *st = prog->steps; st < prog->steps + prog->nsteps; st++) {
        if (st->kind == WI_PROG_FETCH) {
            WI_TRY(fetch(exec, op, st->peer, seq));
        } else if (st->kind == WI_PROG_PUBLISH) {
            const struct wi_operand *o = &prog->operands[prog->units[st->unit].operand];
            wi_ll_publish(exec, op->run.epoch, seq, address(exec, op, o, 0), op->bind.slot_bytes);
        } else {
            run_local(exec, op, st, 0, 1);
        }
    }
    wi_epochs_done(exec, op->run.epoch + 1);
    look_ahead(exec, op);
    return WEFT_SUCCESS;
}

/* ---- All others ---- */

static weft_status advance_to_end(struct wi_exec *exec, struct wi_op *op)
{
    while (!wi_op_is_through(op)) {
        int moved = wi_op_advance(exec, op);
        if (exec->broken)
            return exec->broken;
        if (moved)
            op->wait.rounds = 0;
        else if (exec->posted || !wi_spin_on_poll(exec, op))
            WI_TRY(wi_exec_pause(exec, op));
    }
    return WEFT_SUCCESS;
}

/* After a failure the executor, and its pool of fragments, may belong to another thread. */
static weft_status run_fragments(struct wi_exec *exec, struct wi_op *op)
{
    struct wi_fragment *f;
    weft_status st;

    wi_op_begin(exec, op);
    st = advance_to_end(exec, op);
    if (st >= 0) {
        wi_op_end_stores(exec, op);
        return st;
    }
    if (op->run.alone) /* else whoever ended it has */
        wi_exec_quiesce(exec);
    while ((f = op->run.first) != NULL) {
        op->run.first = f->next;
        wi_free(f);
    }
    return st;
}

weft_status wi_exec_run_alone(struct wi_exec *exec, struct wi_op *op)
{
    if (!op->bind.stage[0]->alone || op->bind.nt)
        return run_fragments(exec, op);
    return op->bind.ll ? run_lines(exec, op) : run_slots(exec, op);
}
