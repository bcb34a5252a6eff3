/* SPDX-License-Identifier: BSD-3-Clause */
/* One lane of a two-sided schedule: post, reap, reduce, forward.
 *
 * Order: step, then slice, then piece, on every rank; so the n-th message of a channel is the same piece on both sides.
 * Sends never hold the lane up. A unit that would overwrite bytes that a pending send of this operation still reads is
 * received into a bounce buffer and applied once the send is through: both partners of an exchange can be in that position
 * at once, and each one's send may need the other's receive. */
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "exec/exec.h"

struct unit {
    unsigned char *dst, *src;
    size_t bytes;
};

static const struct wi_step *step_at(const struct wi_op *op, uint32_t lane, uint32_t step)
{
    return &op->sched->steps[op->sched->lanes[lane].first_step + step];
}

static int receives(const struct wi_step *st)
{
    return st->kind == WI_STEP_RECV || st->kind == WI_STEP_RECV_REDUCE || st->kind == WI_STEP_RECV_SEND ||
           st->kind == WI_STEP_RECV_REDUCE_SEND;
}

int wi_lane_dep_met(const struct wi_op *op, const struct wi_step *st, uint32_t slice)
{
    const struct wi_lane_state *other;

    if (st->dep_lane == WI_NO_DEP)
        return 1;
    other = &op->lanes[st->dep_lane];
    return other->done || other->step > st->dep_step || (other->step == st->dep_step && other->slice > slice);
}

static uint32_t step_pieces(const struct wi_op *op, const struct wi_step *st)
{
    const struct wi_region *r = &op->sched->regions[st->ndst ? st->dst : st->src];

    return st->kind == WI_STEP_NOP ? 1 : wi_op_pieces(op, r);
}

static struct unit resolve(const struct wi_op *op, const struct wi_step *st, uint32_t slice, uint32_t piece)
{
    const struct wi_region *regions = op->sched->regions;
    struct unit u = {NULL, NULL, 0};
    size_t bytes = SIZE_MAX, n;

    if (st->ndst) {
        u.dst = wi_op_piece(op, &regions[st->dst], slice, piece, op->base[regions[st->dst].buf], &n);
        bytes = n;
    }
    if (st->nsrc) {
        u.src = wi_op_piece(op, &regions[st->src], slice, piece, op->base[regions[st->src].buf], &n);
        bytes = n < bytes ? n : bytes;
    }
    u.bytes = bytes;
    return u;
}

static int next_unit(const struct wi_op *op, uint32_t pieces, uint32_t *slice, uint32_t *piece)
{
    if (++*piece < pieces)
        return 1;
    *piece = 0;
    return ++*slice < op->nslices;
}

/* ---- Sends ---- */

void wi_lane_reap_sends(struct wi_exec *exec, struct wi_op *op, struct wi_lane_state *ls, int *moved)
{
    struct wi_pend **link = &ls->sends, *p;

    while ((p = *link) != NULL) {
        if (p->x.state == WEFT_XFER_PENDING) {
            link = &p->next;
            continue;
        }
        if (p->x.state < 0)
            wi_exec_fail(exec, p->x.state, p->x.peer, &op->info, "sending to rank %d: %s", p->x.peer, wi_fail_text());
        *link = p->next;
        wi_pend_put(exec, p);
        *moved = 1;
    }
}

/* Does a pending send of any lane still read [dst, dst + bytes)? */
static int being_sent(struct wi_op *op, const unsigned char *dst, size_t bytes)
{
    for (uint32_t l = 0; l < op->sched->nlanes; l++)
        for (const struct wi_pend *p = op->lanes[l].sends; p; p = p->next) {
            const unsigned char *from = p->x.buf;
            if (p->x.state == WEFT_XFER_PENDING && from < dst + bytes && dst < from + p->x.bytes)
                return 1;
        }
    return 0;
}

weft_status wi_lane_fill_xfer(struct wi_exec *exec, struct wi_op *op, struct wi_pend *p, int peer, uint32_t chan,
                              void *buf, size_t bytes)
{
    if (!exec->peers[peer].group)
        return wi_exec_fail(exec, WEFT_EINTERNAL, peer, &op->info, "no transport serves rank %d", peer);
    p->op = op;
    p->x.buf = buf;
    p->x.bytes = bytes;
    p->x.peer = peer;
    p->x.chan = chan;
    p->x.info = op->info;
    p->x.granule = op->redop.elem_bytes ? op->redop.elem_bytes : 1;
    p->x.state = WEFT_XFER_PENDING;
    wi_exec_use_peer(exec, peer);
    return WEFT_SUCCESS;
}

static weft_status post_send(struct wi_exec *exec, struct wi_op *op, uint32_t lane, unsigned char *buf, size_t bytes)
{
    const struct wi_lane *ln = &op->sched->lanes[lane];
    struct wi_lane_state *ls = &op->lanes[lane];
    struct wi_pend *p, **link;
    weft_status st;

    if (bytes == 0 && !op->send_empty)
        return WEFT_SUCCESS;
    p = wi_pend_get(exec);
    if (!p)
        return wi_exec_fail(exec, WEFT_ENOMEM, -1, &op->info, "out of memory for a transfer");
    st = wi_lane_fill_xfer(exec, op, p, ln->send_peer, op->chan_base + ln->chan, buf, bytes);
    if (st >= 0) {
        st = exec->peers[ln->send_peer].ops->send(exec->peers[ln->send_peer].group, &p->x);
        if (st < 0)
            wi_exec_fail(exec, st, ln->send_peer, &op->info, "sending to rank %d: %s", ln->send_peer, wi_fail_text());
    }
    if (st < 0) {
        wi_pend_put(exec, p);
        return st;
    }
    for (link = &ls->sends; *link; link = &(*link)->next)
        ;
    *link = p;
    return WEFT_SUCCESS;
}

/* ---- Receives ---- */

static void apply(const struct wi_op *op, const struct wi_pend *p, size_t offset, const void *data, size_t bytes)
{
    unsigned flags = p->flags & WI_STEP_FINAL ? WI_REDUCE_FINAL : 0;
    size_t elems = bytes / op->redop.elem_bytes;

    if (!p->reduce)
        memcpy(p->dst + offset, data, bytes);
    else if (p->flags & WI_STEP_RECV_LEFT)
        wi_reduce2(&op->redop, p->dst + offset, data, p->src + offset, elems, flags);
    else
        wi_reduce2(&op->redop, p->dst + offset, p->src + offset, data, elems, flags);
}

static void sink(struct weft_xfer *x, size_t offset, const void *data, size_t bytes)
{
    const struct wi_pend *p = x->sink_arg;

    apply(p->op, p, offset, data, bytes);
}

static weft_status post_recv(struct wi_exec *exec, struct wi_op *op, uint32_t lane, const struct wi_step *step,
                             struct unit u)
{
    const struct wi_lane *ln = &op->sched->lanes[lane];
    struct wi_lane_state *ls = &op->lanes[lane];
    struct wi_pend *p = wi_pend_get(exec);
    weft_status st;

    if (!p)
        return wi_exec_fail(exec, WEFT_ENOMEM, -1, &op->info, "out of memory for a transfer");
    p->dst = u.dst;
    p->src = u.src;
    p->reduce = step->kind == WI_STEP_RECV_REDUCE || step->kind == WI_STEP_RECV_REDUCE_SEND;
    p->forward = step->kind == WI_STEP_RECV_SEND || step->kind == WI_STEP_RECV_REDUCE_SEND;
    p->flags = step->flags;
    if (u.bytes && being_sent(op, u.dst, u.bytes)) {
        p->bounce = wi_malloc(u.bytes);
        if (!p->bounce) {
            wi_pend_put(exec, p);
            return wi_exec_fail(exec, WEFT_ENOMEM, -1, &op->info, "out of memory for %zu bytes in transit", u.bytes);
        }
    } else if (p->reduce) {
        p->x.sink = sink;
        p->x.sink_arg = p;
    }
    st =
        wi_lane_fill_xfer(exec, op, p, ln->recv_peer, op->chan_base + ln->chan, p->bounce ? p->bounce : u.dst, u.bytes);
    if (p->x.sink)
        p->x.buf = NULL;
    if (st >= 0) {
        st = exec->peers[ln->recv_peer].ops->recv(exec->peers[ln->recv_peer].group, &p->x);
        if (st < 0)
            wi_exec_fail(exec, st, ln->recv_peer, &op->info, "receiving from rank %d: %s", ln->recv_peer,
                         wi_fail_text());
    }
    if (st < 0) {
        wi_pend_put(exec, p);
        return st;
    }
    *ls->recvs_tail = p;
    ls->recvs_tail = &p->next;
    ls->nrecvs++;
    return WEFT_SUCCESS;
}

/* Where a region lies, all slices of it. */
static void extent(const struct wi_op *op, const struct wi_region *r, uintptr_t *from, uintptr_t *to)
{
    *from = (uintptr_t)op->base[r->buf] + r->first * op->block_bytes;
    *to = *from + r->count * op->block_bytes;
}

static int overlap(const struct wi_op *op, const struct wi_region *a, const struct wi_region *b)
{
    uintptr_t a_from, a_to, b_from, b_to;

    extent(op, a, &a_from, &a_to);
    extent(op, b, &b_from, &b_to);
    return a_from < b_to && b_from < a_to;
}

/* May step `next` receive while steps from the lane's current one on are incomplete? All of them receive, and none touches
 * what the other writes. Their messages arrive in order, so nothing else can tell the difference. */
static int may_run_ahead(const struct wi_op *op, uint32_t lane, uint32_t next)
{
    const struct wi_region *regions = op->sched->regions;
    const struct wi_step *n;

    if (next >= op->sched->lanes[lane].nsteps || op->v_bytes[0] || op->v_bytes[1])
        return 0;
    n = step_at(op, lane, next);
    if (!receives(n) || !n->ndst)
        return 0;
    for (uint32_t i = op->lanes[lane].step; i < next; i++) {
        const struct wi_step *k = step_at(op, lane, i);
        if (!k->ndst || overlap(op, &regions[n->dst], &regions[k->dst]) ||
            (k->nsrc && overlap(op, &regions[n->dst], &regions[k->src])) ||
            (n->nsrc && overlap(op, &regions[n->src], &regions[k->dst])))
            return 0;
    }
    return 1;
}

/* The current step and, where that is safe, those behind it: a sender that finds its receives posted need not wait at the
 * end of each step. */
static weft_status post_ahead(struct wi_exec *exec, struct wi_op *op, uint32_t lane, int *moved)
{
    struct wi_lane_state *ls = &op->lanes[lane];

    while (ls->nrecvs < WI_RECV_AHEAD) {
        const struct wi_step *st;
        struct unit u;
        if (ls->post_slice >= op->nslices) {
            if (!may_run_ahead(op, lane, ls->post_step + 1))
                break;
            ls->post_step++;
            ls->post_slice = ls->post_piece = 0;
        }
        st = step_at(op, lane, ls->post_step);
        if (!wi_lane_dep_met(op, st, ls->post_slice))
            break;
        u = resolve(op, st, ls->post_slice, ls->post_piece);
        if (ls->post_step > ls->step && u.bytes && being_sent(op, u.dst, u.bytes))
            break; /* it can wait: no need for a bounce buffer */
        /* Empty units carry no message but keep their place in the order of the lane. */
        if (u.bytes || op->send_empty) {
            WI_TRY(post_recv(exec, op, lane, st, u));
            *moved = 1;
        }
        next_unit(op, step_pieces(op, st), &ls->post_slice, &ls->post_piece);
    }
    return WEFT_SUCCESS;
}

weft_status wi_lane_recv_failed(struct wi_exec *exec, struct wi_op *op, struct wi_pend *p)
{
    if (p->x.state == WEFT_EMISMATCH) {
        wi_exec_disagree(exec, p->x.peer, &op->info, &p->x.peer_info);
    } else if (p->x.state == WEFT_ETRUNC) {
        wi_exec_fail(exec, op->match.point_to_point ? WEFT_ETRUNC : WEFT_EMISMATCH, p->x.peer, &op->info,
                     "the message from rank %d is longer than the %zu bytes expected", p->x.peer, p->x.bytes);
    } else {
        wi_exec_fail(exec, p->x.state, p->x.peer, &op->info, "receiving from rank %d: %s", p->x.peer, wi_fail_text());
    }
    return p->x.state;
}

/* Returns 1 when the oldest receive was applied and taken off, 0 when it has to wait, < 0 on failure. */
static int reap_recv(struct wi_exec *exec, struct wi_op *op, uint32_t lane)
{
    struct wi_lane_state *ls = &op->lanes[lane];
    struct wi_pend *p = ls->recvs;
    unsigned char *dst;
    size_t bytes;
    int forward;

    if (p->x.state == WEFT_XFER_PENDING)
        return 0;
    if (p->x.state < 0)
        return wi_lane_recv_failed(exec, op, p);
    if (p->bounce) {
        if (p->x.bytes && being_sent(op, p->dst, p->x.bytes))
            return 0;
        apply(op, p, 0, p->bounce, p->x.bytes);
    }
    ls->recvs = p->next;
    if (!ls->recvs)
        ls->recvs_tail = &ls->recvs;
    ls->nrecvs--;
    dst = p->dst;
    bytes = p->x.bytes;
    forward = p->forward;
    wi_pend_put(exec, p);
    if (forward)
        WI_TRY(post_send(exec, op, lane, dst, bytes));
    return 1;
}

/* ---- The lane ---- */

static void begin_step(struct wi_lane_state *ls)
{
    ls->step++;
    ls->slice = ls->piece = 0;
    if (ls->post_step < ls->step) {
        ls->post_step = ls->step;
        ls->post_slice = ls->post_piece = 0;
    }
}

/* Each returns 1 when the step is complete, 0 when it must wait, < 0 on failure. */
static int run_receiving(struct wi_exec *exec, struct wi_op *op, uint32_t lane, const struct wi_step *st, int *moved)
{
    struct wi_lane_state *ls = &op->lanes[lane];
    uint32_t pieces = step_pieces(op, st);

    for (;;) {
        struct unit u;
        WI_TRY(post_ahead(exec, op, lane, moved));
        if (ls->step == ls->post_step && ls->slice == ls->post_slice && ls->piece == ls->post_piece)
            return ls->slice >= op->nslices; /* nothing could be posted: a dependency */
        u = resolve(op, st, ls->slice, ls->piece);
        if (u.bytes || op->send_empty) {
            int got = reap_recv(exec, op, lane);
            if (got <= 0)
                return got;
        }
        *moved = 1;
        if (!next_unit(op, pieces, &ls->slice, &ls->piece))
            return 1;
    }
}

static int run_local(struct wi_op *op, const struct wi_step *st, uint32_t slice, uint32_t piece)
{
    const struct wi_region *regions = op->sched->regions;
    void *dst[WI_REDUCE_MAX_SRC];
    const void *src[WI_REDUCE_MAX_SRC];
    size_t bytes = SIZE_MAX, n;

    for (uint32_t i = 0; i < st->ndst; i++) {
        const struct wi_region *r = &regions[st->dst + i];
        dst[i] = wi_op_piece(op, r, slice, piece, op->base[r->buf], &n);
        bytes = n < bytes ? n : bytes;
    }
    for (uint32_t i = 0; i < st->nsrc; i++) {
        const struct wi_region *r = &regions[st->src + i];
        src[i] = wi_op_piece(op, r, slice, piece, op->base[r->buf], &n);
        bytes = n < bytes ? n : bytes;
    }
    if (!bytes)
        return 1;
    for (uint32_t i = 0; i < st->ndst; i++)
        if (being_sent(op, dst[i], bytes))
            return 0;
    if (st->kind == WI_STEP_REDUCE) {
        wi_reduce(&op->redop, dst, st->ndst, src, st->nsrc, bytes / op->redop.elem_bytes,
                  st->flags & WI_STEP_FINAL ? WI_REDUCE_FINAL : 0);
        return 1;
    }
    for (uint32_t i = 0; i < st->ndst; i++)
        if (dst[i] != src[0])
            wi_copy(dst[i], src[0], bytes, 0);
    return 1;
}

static int run_other(struct wi_exec *exec, struct wi_op *op, uint32_t lane, const struct wi_step *st, int *moved)
{
    struct wi_lane_state *ls = &op->lanes[lane];
    uint32_t pieces = step_pieces(op, st);

    do {
        if (!wi_lane_dep_met(op, st, ls->slice))
            return 0;
        if (st->kind == WI_STEP_SEND) {
            struct unit u = resolve(op, st, ls->slice, ls->piece);
            WI_TRY(post_send(exec, op, lane, u.src, u.bytes));
        } else if (st->kind != WI_STEP_NOP && !run_local(op, st, ls->slice, ls->piece)) {
            return 0;
        }
        *moved = 1;
    } while (next_unit(op, pieces, &ls->slice, &ls->piece));
    return 1;
}

int wi_lane_run_two_sided(struct wi_exec *exec, struct wi_op *op, uint32_t lane)
{
    struct wi_lane_state *ls = &op->lanes[lane];
    int moved = 0;

    wi_lane_reap_sends(exec, op, ls, &moved);
    while (!exec->broken && ls->step < op->sched->lanes[lane].nsteps) {
        const struct wi_step *st = step_at(op, lane, ls->step);
        int done = receives(st) ? run_receiving(exec, op, lane, st, &moved) : run_other(exec, op, lane, st, &moved);
        if (done <= 0)
            return moved;
        begin_step(ls);
    }
    if (exec->broken)
        return 1;
    wi_lane_reap_sends(exec, op, ls, &moved);
    if (!ls->sends && !ls->done) {
        ls->done = 1;
        op->nlanes_left--;
        moved = 1;
    }
    return moved;
}
