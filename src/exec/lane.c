/* SPDX-License-Identifier: BSD-3-Clause */
/* One lane of a program: its steps in order, each slice by slice and unit by unit.
 *
 * The order is the same on every rank, so the n-th message of a channel is the same unit on both sides. Receives are posted
 * ahead, also those of later steps where nothing can tell the difference. signal.h says which orders matter between ranks of a
 * mapped group. */
#include <string.h>

#include "base/status.h"
#include "exec/address.h"
#include "exec/ll.h"
#include "exec/signal.h"
#include "exec/transfer.h"

/* A lane of a fragment that is being run. */
struct run {
    struct wi_exec *exec;
    struct wi_op *op;
    struct wi_fragment *f;
    const struct wi_prog_lane *lane;
    const struct wi_prog_step *steps; /* the lane's */
    struct wi_lane_state *ls;
    uint32_t number; /* the lane's */
};

static int receives(const struct wi_prog_step *st)
{
    return st->kind == WI_STEP_RECV || st->kind == WI_STEP_RECV_REDUCE || st->kind == WI_STEP_RECV_SEND ||
           st->kind == WI_STEP_RECV_REDUCE_SEND;
}

static int dep_met(const struct run *r, const struct wi_prog_step *st, uint32_t slice)
{
    return wi_lane_dep_met(r->f, st->dep_lane, st->dep_step, slice);
}

static struct wi_message resolve(const struct run *r, const struct wi_prog_step *st, uint32_t slice, uint32_t unit)
{
    const struct wi_unit *u = &r->f->prog->units[st->unit + unit];
    const struct wi_operand *o = &r->f->prog->operands[u->operand];
    struct wi_message m = {NULL, NULL, 0, 0};
    size_t skip;

    m.bytes = wi_slice_bytes(r->op, r->f, u, slice, &skip);
    if (r->f->prog->coded)
        m.bytes = wi_stored_bytes(r->op, &o[0], m.bytes); /* of a message every operand is an image, or none is */
    m.image = o[0].mem == WI_MEM_PACK;
    if (st->ndst)
        m.dst = wi_address(r->exec, r->op, &o[0], r->f->epoch, skip);
    if (st->nsrc)
        m.src = wi_address(r->exec, r->op, &o[st->ndst], r->f->epoch, skip);
    return m;
}

static int next_unit(const struct run *r, const struct wi_prog_step *st, uint32_t *slice, uint32_t *unit)
{
    if (++*unit < st->nunits)
        return 1;
    *unit = 0;
    return ++*slice < r->op->bind.nslices;
}

/* ---- Sends ---- */

static weft_status send(const struct run *r, void *buf, size_t bytes)
{
    struct wi_pend *p;

    if (bytes == 0 && !r->op->bind.send_empty)
        return WEFT_SUCCESS;
    p = wi_pend_get(r->exec);
    if (!p)
        return wi_exec_fail(r->exec, WEFT_ENOMEM, -1, &r->op->info, "out of memory for a transfer");
    return wi_lane_send(r->exec, r->op, r->f, r->number, p, buf, bytes);
}

/* ---- Receives that are posted ahead ---- */

/* Where an operand of a step lies, all units and slices of it. */
static void extent(const struct run *r, const struct wi_prog_step *st, uint32_t which, uintptr_t *from, uintptr_t *to)
{
    const struct wi_prog *p = r->f->prog;
    const struct wi_unit *first = &p->units[st->unit], *last = first + st->nunits - 1;
    const struct wi_operand *from_of = &p->operands[first->operand + which],
                            *to_of = &p->operands[last->operand + which];

    *from = (uintptr_t)wi_address(r->exec, r->op, from_of, r->f->epoch, 0);
    *to = (uintptr_t)wi_address(r->exec, r->op, to_of, r->f->epoch, 0) +
          wi_stored_bytes(r->op, to_of, last->bytes * r->op->bind.scale);
}

static int overlap(const struct run *r, const struct wi_prog_step *a, uint32_t which_a, const struct wi_prog_step *b,
                   uint32_t which_b)
{
    uintptr_t a_from, a_to, b_from, b_to;

    extent(r, a, which_a, &a_from, &a_to);
    extent(r, b, which_b, &b_from, &b_to);
    return a_from < b_to && b_from < a_to;
}

/* May step `next` receive while steps from the lane's current one on are incomplete? All of them receive, and none touches
 * what the other writes. Their messages arrive in order, so nothing else can tell the difference. */
static int may_run_ahead(const struct run *r, uint32_t next)
{
    const struct wi_prog_step *n = &r->steps[next];

    if (next >= r->lane->nsteps || r->f->prog->has_extents)
        return 0;
    if (!receives(n) || !n->ndst)
        return 0;
    for (uint32_t i = r->ls->step; i < next; i++) {
        const struct wi_prog_step *k = &r->steps[i];
        if (!k->ndst || overlap(r, n, 0, k, 0) || (k->nsrc && overlap(r, n, 0, k, 1)) ||
            (n->nsrc && overlap(r, n, 1, k, 0)))
            return 0;
    }
    return 1;
}

/* The current step and, where that is safe, those behind it: a sender that finds its receives posted need not wait at the
 * end of each step. */
static weft_status post_ahead(const struct run *r, int *moved)
{
    struct wi_lane_state *ls = r->ls;

    while (ls->nrecvs < WI_RECV_AHEAD) {
        const struct wi_prog_step *st;
        struct wi_message m;
        if (ls->post_slice >= r->op->bind.nslices) {
            if (!may_run_ahead(r, ls->post_step + 1))
                break;
            ls->post_step++;
            ls->post_slice = ls->post_unit = 0;
        }
        st = &r->steps[ls->post_step];
        if (!dep_met(r, st, ls->post_slice))
            break;
        m = resolve(r, st, ls->post_slice, ls->post_unit);
        if (ls->post_step > ls->step && m.bytes && wi_being_sent(r->f, m.dst, m.bytes))
            break; /* it can wait: no need for a bounce buffer */
        /* Empty units carry no message but keep their place in the order of the lane. */
        if (m.bytes || r->op->bind.send_empty) {
            WI_TRY(wi_lane_recv(r->exec, r->op, r->f, r->number, st, &m));
            *moved = 1;
        }
        next_unit(r, st, &ls->post_slice, &ls->post_unit);
    }
    return WEFT_SUCCESS;
}

/* Returns 1 when the oldest receive was applied and taken off, 0 when it has to wait, < 0 on failure. */
static int take_recv(const struct run *r, int *moved)
{
    struct wi_pend *p;
    unsigned char *dst;
    size_t bytes;
    int got = wi_lane_reap_recv(r->exec, r->op, r->f, r->number, &p, moved), forward;

    if (got <= 0)
        return got;
    dst = p->dst;
    bytes = p->x.bytes;
    forward = p->forward;
    wi_pend_put(r->exec, p);
    if (forward)
        WI_TRY(send(r, dst, bytes));
    return 1;
}

/* ---- Steps: each returns 1 when it is complete, 0 when it must wait, < 0 on failure ---- */

static int run_receiving(const struct run *r, const struct wi_prog_step *st, int *moved)
{
    struct wi_lane_state *ls = r->ls;

    for (;;) {
        struct wi_message m;
        WI_TRY(post_ahead(r, moved));
        if (ls->step == ls->post_step && ls->slice == ls->post_slice && ls->unit == ls->post_unit)
            return ls->slice >= r->op->bind.nslices; /* nothing could be posted: a dependency */
        m = resolve(r, st, ls->slice, ls->unit);
        if (m.bytes || r->op->bind.send_empty) {
            int got = take_recv(r, moved);
            if (got <= 0)
                return got;
        }
        *moved = 1;
        if (!next_unit(r, st, &ls->slice, &ls->unit))
            return 1;
    }
}

static int run_unit(const struct run *r, const struct wi_prog_step *st, int *moved)
{
    struct wi_message m;

    switch (st->kind) {
    case WI_STEP_SEND:
        m = resolve(r, st, r->ls->slice, r->ls->unit);
        if (m.image && m.bytes)
            m.bytes = wi_image_bytes(&r->op->bind.coding, m.src, m.bytes);
        WI_TRY(send(r, m.src, m.bytes));
        return 1;
    case WI_STEP_COPY:
    case WI_STEP_REDUCE:
        return wi_local_run(r->exec, r->op, r->f, r->number, st, moved);
    case WI_STEP_SIGNAL:
        wi_signal(r->exec, r->op, st->lane, r->f->epoch, st->ordinal);
        if (r->op->run.claim)
            wi_claim_slot(r->exec, r->f->epoch + 1, r->op->bind.slot_bytes);
        return 1;
    case WI_STEP_WAIT:
        return wi_signal_seen(r->exec, r->op, st->peer, st->lane, r->f->epoch, st->ordinal);
    case WI_PROG_PUBLISH:
        wi_ll_publish_step(r->exec, r->op, st);
        return 1;
    case WI_PROG_FETCH:
        return wi_ll_fetch_step(r->exec, r->op, st);
    default:
        return 1; /* NOP */
    }
}

static int run_other(const struct run *r, const struct wi_prog_step *st, int *moved)
{
    struct wi_lane_state *ls = r->ls;

    do {
        int done;
        if (!dep_met(r, st, ls->slice))
            return 0;
        done = run_unit(r, st, moved);
        if (done <= 0)
            return done;
        *moved = 1;
    } while (next_unit(r, st, &ls->slice, &ls->unit));
    return 1;
}

static int run_packed(const struct run *r, const struct wi_prog_step *st)
{
    return dep_met(r, st, 0) ? wi_packed_step(r->exec, r->op, r->f, r->number, st) : 0;
}

/* ---- The lane ---- */

static void begin_step(struct wi_lane_state *ls)
{
    ls->step++;
    ls->slice = ls->unit = 0;
    if (ls->post_step < ls->step) {
        ls->post_step = ls->step;
        ls->post_slice = ls->post_unit = 0;
    }
}

int wi_lane_run(struct wi_exec *exec, struct wi_op *op, struct wi_fragment *f, uint32_t lane)
{
    const struct wi_prog *prog = f->prog;
    struct run r = {exec, op, f, &prog->lanes[lane], prog->steps + prog->lanes[lane].first, &f->lane[lane], lane};
    struct wi_lane_state *ls = r.ls;
    int moved = 0;

    if (ls->sends)
        wi_lane_reap_sends(exec, op, ls, &moved);
    while (!exec->broken && ls->step < r.lane->nsteps) {
        const struct wi_prog_step *st = &r.steps[ls->step];
        int done = op->bind.packing ? run_packed(&r, st)
                   : receives(st)   ? run_receiving(&r, st, &moved)
                                    : run_other(&r, st, &moved);
        if (done < 0)
            op->status =
                (weft_status)done; /* the executor may live on: a message that is too long ends its own receive */
        if (done <= 0)
            return moved | (done < 0);
        begin_step(ls);
        moved = 1;
    }
    if (exec->broken)
        return 1;
    if (ls->sends)
        wi_lane_reap_sends(exec, op, ls, &moved);
    if (!ls->sends && !ls->done) {
        ls->done = 1;
        f->nlanes_left--;
        moved = 1;
    }
    return moved;
}
