/* progress.c: completions, what they mean for peers, and what is looked at now and then.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "queue.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define BATCH 16
#define CALLS 64u
#define BROKEN_NS 1000000000ull /* that the side channel has to say more about why a connection broke */

/* ---- The end of a peer ---- */

static void end_peer(struct vb_peer *p, enum vb_state state, weft_status st)
{
    p->state = state;
    p->status = st;
    p->group->nconnected -= p->rails != NULL;
    vb_disconnect(p);
}

void vb_peer_fail(struct vb_peer *p, weft_status st, const char *format, ...)
{
    char why[120];
    va_list ap;

    if (p->state == VB_FAILED || p->state == VB_LEFT)
        return;
    va_start(ap, format);
    vsnprintf(why, sizeof why, format, ap);
    va_end(ap);
    snprintf(p->text, sizeof p->text, "rank %d (process %d): %s", p->rank, (int)p->address.process.pid, why);
    end_peer(p, VB_FAILED, st);
    vb_message_end(p, st, 1);
    vb_rma_end(p, st);
    p->unreported = 1;
    p->group->unreported++;
}

/* In good order: it is a failure only where something is still wanted of it. */
void vb_peer_left(struct vb_peer *p)
{
    int wanted;

    snprintf(p->text, sizeof p->text, "rank %d left the communicator", p->rank);
    wanted = (int)p->nrmas;
    end_peer(p, VB_LEFT, WEFT_EPEER);
    wanted += vb_message_end(p, WEFT_EPEER, 0);
    vb_rma_end(p, WEFT_EPEER);
    if (!wanted)
        return;
    p->unreported = 1;
    p->group->unreported++;
}

/* The card gives a connection up. That comes of the peer's end, too, of which the side channel tells more: it is waited for. */
void vb_peer_broken(struct vb_peer *p, int rail, const char *format, ...)
{
    char why[80];
    va_list ap;

    if (p->broken_ns || p->state != VB_CONNECTED)
        return;
    va_start(ap, format);
    vsnprintf(why, sizeof why, format, ap);
    va_end(ap);
    for (int i = 0; i < p->nrails; i++)
        if (p->leave >> rail & 1 || (i != rail && !p->rails[i].down && p->rails[i].message.ready)) {
            vb_rail_lost(p, rail, why);
            return;
        }
    snprintf(p->text, sizeof p->text, "the connection on %s broke: %s", p->group->endpoint->ports[rail].name, why);
    vb_peer_gives_up(p, BROKEN_NS);
}

/* With what is in text, unless something else ends it before. */
void vb_peer_gives_up(struct vb_peer *p, uint64_t wait_ns)
{
    p->broken_ns = p->group->endpoint->host->now_ns() + wait_ns;
    vb_blocked(p); /* it is looked at again */
}

/* ---- Completions ---- */

static void receive_failed(struct vb_peer *p, int rail, enum ibv_wc_status why)
{
    if (why != IBV_WC_WR_FLUSH_ERR)
        vb_peer_broken(p, rail, "receiving: %s", ibv_wc_status_str(why));
}

static int received(struct vb_group *g, int rail, const struct ibv_wc *wc)
{
    struct vb_card *card = &g->cards[rail];
    uint32_t i = (uint32_t)wc->wr_id;
    int rank = vb_card_number_find(card, wc->qp_num), sound = 1;
    struct vb_peer *p = rank >= 0 && rank < g->nranks ? &g->peers[rank] : NULL;

    card->srq_posted--;
    if (p && p->state == VB_CONNECTED) {
        if (wc->status != IBV_WC_SUCCESS) {
            receive_failed(p, rail, wc->status);
        } else {
            vb_opened(p);
            if (p->state == VB_CONNECTED && wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM)
                sound = vb_message_arrived(p, be32toh(wc->imm_data), wc->byte_len);
            else if (p->state == VB_CONNECTED)
                sound = wc->byte_len <= VB_CONTROL_MAX && vb_message_control(p, vb_card_receive(card, i), wc->byte_len);
        }
        if (!sound)
            vb_peer_fail(p, WEFT_EPROTO, "it sent over verbs what cannot be");
    }
    card->free_receives[card->nfree++] = i;
    return 1;
}

static int sent(struct vb_group *g, const struct ibv_wc *wc)
{
    int rank = VB_WORK_RANK(wc->wr_id), rail = (int)(wc->wr_id >> 37 & 7), is_rma = VB_WORK_IS_RMA(wc->wr_id);
    struct vb_peer *p = rank < g->nranks ? &g->peers[rank] : NULL;
    struct vb_queue *q;
    int events;

    if (!p || !p->rails || rail >= p->nrails)
        return 1; /* its connection is no more */
    q = is_rma ? &p->rails[rail].rma : &p->rails[rail].message;
    if (!q->qp || VB_WORK_GENERATION(wc->wr_id) != (q->generation & 0xfff))
        return 1;
    if (wc->status != IBV_WC_SUCCESS) {
        if (is_rma)
            vb_rma_failed(p, rail, VB_WORK_NUMBER(wc->wr_id), wc->status);
        else
            vb_peer_broken(p, rail, "%s", ibv_wc_status_str(wc->status));
        return 1;
    }
    events = vb_queue_done(p, rail, q, VB_WORK_NUMBER(wc->wr_id));
    if (is_rma && p->rmas)
        vb_rma_push(p);
    return events + 1;
}

/* Before a sleep it was asked for; what woke is taken. */
static void disarm(struct vb_card *card)
{
    struct ibv_cq *cq;
    void *arg;

    if (!card->armed || ibv_get_cq_event(card->channel, &cq, &arg))
        return;
    ibv_ack_cq_events(cq, 1);
    card->armed = 0;
}

int vb_poll_rail(struct vb_group *g, int rail)
{
    struct vb_card *card = &g->cards[rail];
    struct ibv_wc wc[BATCH];
    int n = ibv_poll_cq(card->cq, BATCH, wc), events = 0;

    g->polling++;
    for (int i = 0; i < n; i++)
        events += VB_WORK_RECEIVE(wc[i].wr_id) ? received(g, rail, &wc[i]) : sent(g, &wc[i]);
    g->polling--;
    if (n > 0) {
        disarm(card);
        vb_card_receives(g, rail);
    }
    return events;
}

int vb_poll(struct vb_group *g)
{
    int events = 0;

    for (int i = 0; i < g->nports; i++)
        events += vb_poll_rail(g, i);
    return events;
}

/* ---- Now and then ---- */

void vb_push_blocked(struct vb_group *g)
{
    struct vb_peer *list = g->blocked;

    g->blocked = NULL;
    while (list) {
        struct vb_peer *p = list;
        list = p->next_blocked;
        p->blocked = 0;
        if (p->state == VB_CONNECTED && p->leave)
            vb_rail_leave(p);
        if (p->state != VB_CONNECTED)
            continue;
        if (!p->broken_ns) {
            vb_message_push(p);
            if (p->state == VB_CONNECTED)
                vb_rma_push(p);
        } else if (g->endpoint->host->now_ns() > p->broken_ns) {
            char why[sizeof p->text];
            memcpy(why, p->text, sizeof why);
            vb_peer_fail(p, WEFT_EPEER, "%s", why);
        } else {
            vb_blocked(p);
        }
    }
}

static void look_at_ports(struct vb_group *g)
{
    vb_ports_look(g->endpoint);
    for (int i = 0; i < g->nports; i++) {
        for (int r = 0; atomic_load(&g->endpoint->ports[i].down) && r < g->nranks; r++)
            if (g->peers[r].state == VB_CONNECTED && g->peers[r].nrails > 1 && i < g->peers[r].nrails &&
                !g->peers[r].rails[i].down)
                vb_peer_broken(&g->peers[r], i, "the port is down");
        int fatal = atomic_load(&g->endpoint->ports[i].fatal);
        for (int r = 0; fatal && r < g->nranks; r++)
            if (g->peers[r].state == VB_CONNECTED && i < g->peers[r].nrails)
                vb_peer_fail(&g->peers[r], WEFT_EPEER, "%s: %s", g->endpoint->ports[i].name,
                             ibv_event_type_str((enum ibv_event_type)(fatal - 1)));
    }
}

/* The clock is not looked at in each call: on some machines that takes longer than all the rest. */
static void tick(struct vb_group *g)
{
    uint64_t now;

    vb_connect_requested(g);
    if (g->connecting)
        vb_connect_responses(g);
    if (++g->calls % CALLS)
        return;
    now = g->endpoint->host->now_ns();
    if (now < g->next_tick_ns)
        return;
    vb_connect_responses(g);
    g->next_tick_ns = now + VB_TICK_NS;
    look_at_ports(g);
}

static int report(struct vb_group *g, struct weft_peer_failure *failure)
{
    for (int r = 0; r < g->nranks; r++) {
        struct vb_peer *p = &g->peers[r];
        if (!p->unreported)
            continue;
        p->unreported = 0;
        g->unreported--;
        failure->peer = r;
        failure->status = p->status;
        memcpy(failure->text, p->text, sizeof failure->text);
        return p->status;
    }
    return WEFT_EINTERNAL;
}

int vb_progress(void *group, struct weft_peer_failure *failure)
{
    struct vb_group *g = group;
    int events;

    if (g->quiet)
        return 0;
    events = vb_poll(g);
    tick(g);
    if (g->blocked)
        vb_push_blocked(g);
    return g->unreported ? report(g, failure) : events;
}

int vb_poll_arm(void *group)
{
    struct vb_group *g = group;

    if (g->quiet || g->unreported || g->blocked)
        return 1;
    for (int i = 0; i < g->nports; i++) {
        struct vb_card *card = &g->cards[i];
        if (card->armed)
            continue;
        if (ibv_req_notify_cq(card->cq, 0))
            return 1;
        card->armed = 1;
    }
    return vb_poll(g) > 0 || g->unreported;
}
