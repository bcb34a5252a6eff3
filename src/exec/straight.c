/* SPDX-License-Identifier: BSD-3-Clause */
/* Schedules of one lane and one slice, without walking them. straight.h says why. */
#include "exec/straight.h"

#include "base/alloc.h"
#include "base/status.h"
#include "exec/signal.h"

#define STEPS_MAX 64u

/* ---- Making one ---- */

static int fits(const struct wi_exec *exec, const struct wi_op *op)
{
    const struct wi_sched *sched = op->sched;

    if (sched->nlanes != 1 || op->ll || op->nslices != 1 || !wi_op_coalesced(op) || op->get || op->nt ||
        sched->nsteps > STEPS_MAX || !exec->map_group)
        return 0;
    for (uint32_t i = 0; i < sched->nsteps; i++) {
        const struct wi_step *st = &sched->steps[i];
        if (st->kind != WI_STEP_NOP && st->kind != WI_STEP_COPY && st->kind != WI_STEP_REDUCE &&
            st->kind != WI_STEP_SIGNAL && st->kind != WI_STEP_WAIT)
            return 0;
        for (uint32_t k = 0; k < st->ndst + st->nsrc; k++) {
            const struct wi_region *r = &sched->regions[st->dst + k];
            if (r->buf != WI_TMP && r->rank != WI_SELF && r->rank != exec->rank)
                return 0;
        }
    }
    return 1;
}

static size_t operand(const struct wi_exec *exec, const struct wi_op *op, const struct wi_region *r,
                      struct wi_straight_operand *o)
{
    size_t bytes;

    o->from = r->buf != WI_TMP ? r->buf : WI_NUM_BUFS + (uint32_t)(r->rank == WI_SELF ? exec->rank : r->rank);
    o->at = (size_t)(wi_op_piece(op, r, 0, 0, NULL, &bytes) - (unsigned char *)NULL);
    return bytes;
}

static void make_step(const struct wi_exec *exec, const struct wi_op *op, const struct wi_step *st,
                      struct wi_straight *s, struct wi_straight_step *out)
{
    struct wi_straight_operand *o = s->operands + s->noperands;
    size_t bytes = SIZE_MAX, n;

    *out = (struct wi_straight_step){.kind = st->kind,
                                     .ordinal = (uint8_t)st->ordinal,
                                     .flags = st->flags & WI_STEP_FINAL ? WI_REDUCE_FINAL : 0,
                                     .twin = st->flags & (WI_STEP_TWIN | WI_STEP_SECOND_TWIN),
                                     .ndst = st->ndst,
                                     .nsrc = st->nsrc,
                                     .first = s->noperands,
                                     .rank = st->peer,
                                     .lane = st->lane};
    if (st->kind != WI_STEP_COPY && st->kind != WI_STEP_REDUCE)
        return;
    for (uint32_t k = 0; k < st->ndst + st->nsrc; k++) {
        n = operand(exec, op, &op->sched->regions[st->dst + k], &o[k]);
        bytes = n < bytes ? n : bytes;
        if (k < st->ndst && o[k].from >= WI_NUM_BUFS)
            out->nt = 1;
    }
    s->noperands += st->ndst + st->nsrc;
    out->bytes = bytes;
}

struct wi_straight *wi_straight_make(const struct wi_exec *exec, const struct wi_op *op)
{
    const struct wi_sched *sched = op->sched;
    uint32_t noperands = 0;
    struct wi_straight *s;

    if (!fits(exec, op))
        return NULL;
    for (uint32_t i = 0; i < sched->nsteps; i++)
        noperands += sched->steps[i].ndst + sched->steps[i].nsrc;
    s = wi_malloc(sizeof *s + sched->nsteps * sizeof s->steps[0] + noperands * sizeof s->operands[0]);
    if (!s)
        return NULL;
    *s = (struct wi_straight){.slot_bytes = sched->buf_blocks[WI_TMP] * op->tmp_stride,
                              .work_bytes = wi_op_slot_work(op)};
    s->operands = (struct wi_straight_operand *)(void *)&s->steps[sched->nsteps];
    for (uint32_t i = 0; i < sched->nsteps; i++) {
        make_step(exec, op, &sched->steps[i], s, &s->steps[s->nsteps]);
        if (s->steps[s->nsteps].bytes || sched->steps[i].kind == WI_STEP_SIGNAL || sched->steps[i].kind == WI_STEP_WAIT)
            s->nsteps++;
    }
    return s;
}

/* ---- Running it ---- */

static inline unsigned char *address(const struct wi_exec *exec, const struct wi_op *op,
                                     const struct wi_straight_operand *o, size_t slot_at)
{
    if (o->from < WI_NUM_BUFS)
        return op->base[o->from] + o->at;
    return exec->map.ranks[o->from - WI_NUM_BUFS].slots + slot_at + o->at;
}

static void local_step(const struct wi_exec *exec, const struct wi_op *op, const struct wi_straight *s,
                       const struct wi_straight_step *st, size_t slot_at)
{
    const struct wi_straight_operand *o = s->operands + st->first;
    unsigned nt = st->nt && op->slot_nt ? WI_REDUCE_NT : 0;
    void *dst[WI_REDUCE_MAX_SRC];
    const void *src[WI_REDUCE_MAX_SRC];

    for (uint32_t i = 0; i < st->ndst; i++)
        dst[i] = address(exec, op, o++, slot_at);
    for (uint32_t i = 0; i < st->nsrc; i++)
        src[i] = address(exec, op, o++, slot_at);
    if (st->twin && wi_op_joins_twins(op, st->bytes)) {
        if (st->twin == WI_STEP_TWIN)
            wi_copy_twice(dst[0], address(exec, op, &s->operands[st[2].first], slot_at), src[0], st->bytes);
    } else if (st->kind == WI_STEP_COPY)
        for (uint32_t i = 0; i < st->ndst; i++)
            wi_copy(dst[i], src[0], st->bytes,
                    st->ndst == 1 || s->operands[st->first + i].from >= WI_NUM_BUFS ? nt : 0);
    else if (st->nsrc == 2 && st->ndst == 1)
        wi_reduce2(&op->redop, dst[0], src[0], src[1], st->bytes / op->redop.elem_bytes, st->flags | nt);
    else
        wi_reduce(&op->redop, dst, st->ndst, src, st->nsrc, st->bytes / op->redop.elem_bytes,
                  st->flags | (st->ndst == 1 ? nt : 0));
}

static weft_status await(struct wi_exec *exec, struct wi_op *op, const struct wi_straight_step *st)
{
    while (!wi_signal_seen(exec, op, st->rank, st->lane, op->epoch, st->ordinal)) {
        if (exec->broken)
            return exec->broken;
        if (!wi_spin_on_poll(exec, op))
            WI_TRY(wi_exec_pause(exec, op));
    }
    op->wait.rounds = 0;
    return WEFT_SUCCESS;
}

weft_status wi_exec_run_straight(struct wi_exec *exec, struct wi_op *op, const struct wi_straight *s)
{
    size_t slot_at;

    wi_op_begin_stores(exec, op, s->work_bytes);
    op->epoch = exec->next_epoch++;
    slot_at = (op->epoch & (exec->map.depth - 1)) * exec->map.slot_bytes;
    while (!wi_exec_gate(exec, op->epoch, exec->map.depth, op))
        WI_TRY(wi_exec_pause(exec, op));
    for (const struct wi_straight_step *st = s->steps; st < s->steps + s->nsteps; st++) {
        if (st->kind == WI_STEP_WAIT) {
            WI_TRY(await(exec, op, st));
        } else if (st->kind == WI_STEP_SIGNAL) {
            wi_signal(exec, op, 0, op->epoch, st->ordinal);
            if (op->claim)
                wi_claim_slot(exec, op->epoch + 1, s->slot_bytes);
        } else {
            local_step(exec, op, s, st, slot_at);
        }
    }
    wi_epochs_done(exec, op->epoch + 1);
    wi_op_end_stores(exec, op, s->work_bytes);
    return WEFT_SUCCESS;
}
