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

static inline void reduce(const struct wi_op *op, const struct wi_prog_step *st, void *const dst[],
                          const void *const src[], size_t bytes, unsigned nt)
{
    size_t elems = bytes / op->bind.redop.elem_bytes;
    unsigned flags = (st->flags & WI_STEP_FINAL ? WI_REDUCE_FINAL : 0) | (st->ndst == 1 ? nt : 0);

    if (st->nsrc == 2 && st->ndst == 1)
        wi_reduce2(&op->bind.redop, dst[0], src[0], src[1], elems, flags);
    else
        wi_reduce(&op->bind.redop, dst, st->ndst, src, st->nsrc, elems, flags);
}

static void copy(const struct wi_exec *exec, const struct wi_op *op, const struct wi_prog_step *st, void *const dst[],
                 const void *src, size_t bytes, unsigned nt)
{
    const struct wi_prog *prog = op->bind.stage[0];
    const struct wi_operand *to = &prog->operands[prog->units[st->unit].operand];

    if (st->flags & (WI_STEP_FUSED_COPY | WI_STEP_FUSED_COPY_SECOND) && wi_op_fuses_copies(op, bytes)) {
        if (st->flags & WI_STEP_FUSED_COPY) { /* else it is the second one, which has been made */
            const struct wi_operand *second = &prog->operands[prog->units[st[2].unit].operand];
            wi_copy_twice(dst[0], wi_address(exec, op, second, op->run.epoch, 0), src, bytes);
        }
        return;
    }
    for (uint32_t i = 0; i < st->ndst; i++)
        if (dst[i] != src)
            wi_copy(dst[i], src, bytes, st->ndst == 1 || to[i].mem == WI_MEM_SLOT ? nt : 0);
}

static inline void run_local(const struct wi_exec *exec, const struct wi_op *op, const struct wi_prog_step *st, int ll)
{
    const struct wi_unit *unit = &op->bind.stage[0]->units[st->unit];
    const struct wi_operand *o = &op->bind.stage[0]->operands[unit->operand];
    size_t bytes = unit->bytes * op->bind.scale;
    unsigned nt = !ll && st->to_slot && op->run.slot_nt ? WI_REDUCE_NT : 0;
    void *dst[WI_REDUCE_MAX_SRC];
    const void *src[WI_REDUCE_MAX_SRC];

    for (uint32_t i = 0; i < st->ndst; i++)
        dst[i] = wi_address(exec, op, o++, op->run.epoch, 0);
    for (uint32_t i = 0; i < st->nsrc; i++)
        src[i] = wi_address(exec, op, o++, op->run.epoch, 0);
    if (st->kind == WI_STEP_REDUCE)
        reduce(op, st, dst, src, bytes, nt);
    else if (!ll)
        copy(exec, op, st, dst, src[0], bytes, nt);
    else if (dst[0] != src[0])
        memcpy(dst[0], src[0], bytes);
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

    wi_op_begin_stores(exec, op);
    op->run.epoch = exec->next_epoch++;
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
            run_local(exec, op, st, 0);
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
            wi_ll_publish(exec, op->run.epoch, seq, wi_address(exec, op, o, op->run.epoch, 0), op->bind.slot_bytes);
        } else {
            run_local(exec, op, st, 1);
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
