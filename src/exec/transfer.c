/* SPDX-License-Identifier: BSD-3-Clause */
/* Transfers of a lane: they are posted and completed, and what arrives is stored or reduced into its destination.
 *
 * Sends never block the lane. Data whose destination a pending send of this operation still reads is received into a bounce buffer,
 * and applied once the send has completed: both partners of an exchange can be in that position at once, and each one's send may
 * need the other's receive. */
#include "exec/transfer.h"

#include <string.h>

#include "base/alloc.h"
#include "base/status.h"

/* ---- Pool ---- */

struct wi_pend *wi_pend_get(struct wi_exec *exec)
{
    struct wi_pend *p = exec->free_pends;

    if (p)
        exec->free_pends = p->next;
    else
        p = wi_malloc(sizeof *p);
    if (p)
        memset(p, 0, sizeof *p);
    return p;
}

void wi_pend_put(struct wi_exec *exec, struct wi_pend *p)
{
    if (p->work) { /* an engine reads the bounce buffer, and could not be stopped: it goes when nothing is posted any more */
        p->next = exec->kept_pends;
        exec->kept_pends = p;
        return;
    }
    wi_free(p->bounce);
    p->bounce = NULL;
    p->next = exec->free_pends;
    exec->free_pends = p;
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

int wi_being_sent(const struct wi_fragment *f, const unsigned char *dst, size_t bytes)
{
    for (uint32_t l = 0; l < f->prog->nlanes; l++)
        for (const struct wi_pend *p = f->lane[l].sends; p; p = p->next) {
            const unsigned char *from = p->x.buf;
            if (p->x.state == WEFT_XFER_PENDING && from < dst + bytes && dst < from + p->x.bytes)
                return 1;
        }
    return 0;
}

/* Messages arrive in pieces of whole elements. Images have a length of their own, and what is plain of a coded operation is reduced
 * as it arrives. */
static uint32_t granule(const struct wi_op *op, size_t bytes)
{
    uint32_t elem = op->bind.redop.elem_bytes;

    return op->bind.packing || !elem || (op->bind.coding.image_bytes && bytes % elem) ? 1 : elem;
}

weft_status wi_lane_fill_xfer(struct wi_exec *exec, struct wi_op *op, const struct wi_fragment *f, struct wi_pend *p,
                              int peer, uint32_t chan, void *buf, size_t bytes)
{
    if (!exec->peers[peer].group)
        return wi_exec_fail(exec, WEFT_EINTERNAL, peer, &op->info, "no transport serves rank %d", peer);
    p->op = op;
    p->x.buf = buf;
    p->x.bytes = bytes;
    p->x.peer = peer;
    p->x.chan = f->chan_base + chan;
    p->x.info = op->info;
    p->x.granule = granule(op, bytes);
    p->x.state = WEFT_XFER_PENDING;
    wi_exec_use_peer(exec, peer);
    return WEFT_SUCCESS;
}

static void record_sent(const struct wi_op *op, size_t bytes)
{
    if (op && op->record && op->record->serial == op->record_serial)
        op->record->bytes_sent += bytes;
}

weft_status wi_pend_post(struct wi_exec *exec, struct wi_pend *p, int sending)
{
    int peer = p->x.peer;
    struct wi_exec_peer *ep = &exec->peers[peer];
    size_t bytes = p->x.bytes; /* it may be complete, and the caller's again, when send returns */
    weft_status st = sending ? ep->ops->send(ep->group, &p->x) : ep->ops->recv(ep->group, &p->x);

    if (st < 0)
        wi_exec_fail(exec, st, peer, p->op ? &p->op->info : &p->x.info, "%s rank %d: %s",
                     sending ? "sending to" : "receiving from", peer, wi_fail_text());
    else if (sending)
        record_sent(p->op, bytes);
    return st;
}

static void append_send(struct wi_lane_state *ls, struct wi_pend *p)
{
    struct wi_pend **link = &ls->sends;

    while (*link)
        link = &(*link)->next;
    *link = p;
}

weft_status wi_lane_send(struct wi_exec *exec, struct wi_op *op, struct wi_fragment *f, uint32_t lane,
                         struct wi_pend *p, void *buf, size_t bytes)
{
    const struct wi_prog_lane *ln = &f->prog->lanes[lane];
    weft_status st = wi_lane_fill_xfer(exec, op, f, p, ln->send_peer, ln->chan, buf, bytes);

    if (st >= 0)
        st = wi_pend_post(exec, p, 1);
    if (st < 0)
        wi_pend_put(exec, p);
    else
        append_send(&f->lane[lane], p);
    return st;
}

/* ---- Receives ---- */

static void apply(const struct wi_op *op, const struct wi_pend *p, size_t offset, const void *data, size_t bytes)
{
    unsigned flags = wi_reduce_flags(p->flags);
    size_t elems = bytes / op->bind.redop.elem_bytes;

    if (!p->reduce)
        memcpy(p->dst + offset, data, bytes);
    else if (p->flags & WI_STEP_RECV_LEFT)
        wi_reduce2(&op->bind.redop, p->dst + offset, data, p->src + offset, elems, flags);
    else
        wi_reduce2(&op->bind.redop, p->dst + offset, p->src + offset, data, elems, flags);
}

static void sink(struct weft_xfer *x, size_t offset, const void *data, size_t bytes)
{
    const struct wi_pend *p = x->sink_arg;

    apply(p->op, p, offset, data, bytes);
}

/* From the bounce buffer to its destination. 1: done; 0: an engine is at it; < 0: failed. */
static int apply_bounce(struct wi_exec *exec, struct wi_op *op, struct wi_pend *p, uint32_t lane, uint32_t step,
                        int *moved)
{
    struct wi_work w;
    int left = (p->flags & WI_STEP_RECV_LEFT) != 0;

    if (wi_exec_budget_spent(exec))
        return 0;
    if (p->work)
        return wi_work_poll(exec, op, &p->work, moved);
    if (p->x.bytes < exec->engine->inline_bytes) {
        apply(op, p, 0, p->bounce, p->x.bytes);
        return 1;
    }
    w.kind = p->reduce ? WI_WORK_REDUCE : WI_WORK_COPY;
    w.flags = (uint8_t)wi_reduce_flags(p->flags);
    w.to_peer = w.nt = 0;
    w.op = op;
    w.to = NULL;
    w.rank = p->x.peer;
    w.bytes = p->x.bytes;
    w.lane = lane;
    w.step = step;
    w.ndst = 1;
    w.nsrc = p->reduce ? 2 : 1;
    w.dst[0] = p->dst;
    w.src[p->reduce && !left] = p->bounce;
    if (p->reduce)
        w.src[left] = p->src;
    return wi_work_begin(exec, op, &w, &p->work, moved);
}

/* Choose where it is received: in place, through the sink, or, if a pending send reads there, in a bounce buffer. */
static weft_status choose_destination(struct wi_exec *exec, struct wi_op *op, const struct wi_fragment *f,
                                      struct wi_pend *p, size_t bytes)
{
    if (bytes && (wi_being_sent(f, p->dst, bytes) || (p->reduce && exec->engine->receives_in_memory))) {
        p->bounce = wi_malloc(bytes);
        if (!p->bounce)
            return wi_exec_fail(exec, WEFT_ENOMEM, -1, &op->info, "out of memory for %zu bytes in transit", bytes);
    } else if (p->reduce) {
        p->x.sink = sink;
        p->x.sink_arg = p;
    }
    return WEFT_SUCCESS;
}

weft_status wi_lane_recv(struct wi_exec *exec, struct wi_op *op, struct wi_fragment *f, uint32_t lane,
                         const struct wi_prog_step *step, const struct wi_message *m)
{
    const struct wi_prog_lane *ln = &f->prog->lanes[lane];
    struct wi_lane_state *ls = &f->lane[lane];
    struct wi_pend *p = wi_pend_get(exec);
    weft_status st;

    if (!p)
        return wi_exec_fail(exec, WEFT_ENOMEM, -1, &op->info, "out of memory for a transfer");
    p->dst = m->dst;
    p->src = m->src;
    p->reduce = step->kind == WI_STEP_RECV_REDUCE || step->kind == WI_STEP_RECV_REDUCE_SEND;
    p->forward = step->kind == WI_STEP_RECV_SEND || step->kind == WI_STEP_RECV_REDUCE_SEND;
    p->flags = step->flags;
    st = choose_destination(exec, op, f, p, m->bytes);
    if (st >= 0)
        st = wi_lane_fill_xfer(exec, op, f, p, ln->recv_peer, ln->chan, p->bounce ? p->bounce : m->dst, m->bytes);
    p->x.up_to = m->image && op->bind.coding.variable;
    if (p->x.sink)
        p->x.buf = NULL;
    if (st >= 0)
        st = wi_pend_post(exec, p, 0);
    if (st < 0) {
        wi_pend_put(exec, p);
        return st;
    }
    *ls->recvs_tail = p;
    ls->recvs_tail = &p->next;
    ls->nrecvs++;
    return WEFT_SUCCESS;
}

weft_status wi_recv_failed(struct wi_exec *exec, struct wi_op *op, struct wi_pend *p)
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

/* An image may be shorter than its room. */
static weft_status cut_to_image(struct wi_exec *exec, struct wi_op *op, struct wi_pend *p)
{
    if (wi_image_check(&op->bind.coding, p->bounce ? p->bounce : p->dst, p->x.actual, p->x.bytes) < 0)
        return wi_exec_fail(exec, WEFT_EPROTO, p->x.peer, &op->info, "from rank %d: %s", p->x.peer, wi_fail_text());
    p->x.bytes = p->x.actual;
    p->x.up_to = 0;
    return WEFT_SUCCESS;
}

int wi_lane_reap_recv(struct wi_exec *exec, struct wi_op *op, struct wi_fragment *f, uint32_t lane,
                      struct wi_pend **out, int *moved)
{
    struct wi_lane_state *ls = &f->lane[lane];
    struct wi_pend *p = ls->recvs;
    int applied;

    if (p->x.state == WEFT_XFER_PENDING)
        return 0;
    if (p->x.state < 0)
        return wi_recv_failed(exec, op, p);
    if (p->x.up_to)
        WI_TRY(cut_to_image(exec, op, p));
    if (p->bounce) {
        if (!p->work && p->x.bytes && wi_being_sent(f, p->dst, p->x.bytes))
            return 0;
        applied = apply_bounce(exec, op, p, lane, ls->step, moved);
        if (applied <= 0)
            return applied;
    }
    ls->recvs = p->next;
    if (!ls->recvs)
        ls->recvs_tail = &ls->recvs;
    ls->nrecvs--;
    p->next = NULL;
    *out = p;
    return 1;
}
