/* peer.c: a peer's state: linked, left, failed; what happens to its transfers.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "tcp.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Addresses were checked when the group was made. */
void wi_tcp_peer_identity(const struct wi_tcp_group *g, int rank, struct wi_tcp_identity *id)
{
    wi_tcp_identity_decode(g->blobs + g->blob_at[rank], g->blob_at[rank + 1] - g->blob_at[rank], id);
}

weft_status wi_tcp_peer_get(struct wi_tcp_group *g, int rank, struct wi_tcp_peer **peer)
{
    const struct weft_host *h = g->endpoint->host;
    if (rank < 0 || rank >= g->nranks || !g->member[rank]) {
        h->explain(h->impl, WEFT_EINVAL, "rank %d is not served by tcp in this group of %d", rank, g->nranks);
        return WEFT_EINVAL;
    }
    if (!g->peers[rank]) {
        struct wi_tcp_peer *p = calloc(1, sizeof *p);
        if (!p)
            return WEFT_ENOMEM;
        p->group = g;
        p->rank = rank;
        p->ready_end = &p->ready;
        g->peers[rank] = p;
    }
    *peer = g->peers[rank];
    return WEFT_SUCCESS;
}

void wi_tcp_peer_want_out(struct wi_tcp_peer *p)
{
    if (p->in_outs)
        return;
    p->in_outs = 1;
    p->next_out = p->group->outs;
    p->group->outs = p;
}

void wi_tcp_peer_want_hot(struct wi_tcp_peer *p)
{
    if (p->in_hot)
        return;
    p->in_hot = 1;
    p->next_hot = p->group->hot;
    p->group->hot = p;
}

static void end_list(struct weft_xfer **head, weft_status status)
{
    struct weft_xfer *x = *head;
    *head = NULL;
    while (x) {
        struct weft_xfer *next = x->next;
        x->state = status;
        x = next;
    }
}

/* Frames first: they may belong to a send that is still at the head of its channel too. */
static void end_transfers(struct wi_tcp_peer *p, weft_status status)
{
    for (int i = 0; i < p->nconns; i++) {
        struct wi_tcp_conn *c = p->conns[i];
        for (int k = c ? c->batch_at : 0; c && k < c->nbatch; k++)
            if (c->batch[k].x)
                c->batch[k].x->state = status;
    }
    for (int i = 0; i < WEFT_CHAN_MAX; i++) {
        if (p->out[i])
            end_list(&p->out[i]->head, status);
        if (p->in[i])
            wi_tcp_in_end_all(p->in[i], status);
    }
    p->nsends = p->nrecvs = 0;
}

static void close_all(struct wi_tcp_peer *p)
{
    struct wi_tcp_group *g = p->group;
    for (struct wi_tcp_conn *c = g->conns, *next; c; c = next) {
        next = c->next;
        if (c->peer == p)
            wi_tcp_conn_close(c);
    }
    for (int i = 0; i < WEFT_CHAN_MAX; i++) {
        if (p->out[i])
            p->out[i]->queued = 0;
        if (p->in[i])
            p->in[i]->grant_due = 0;
    }
    p->ready = NULL;
    p->ready_end = &p->ready;
    p->grants = NULL;
}

void wi_tcp_peer_fail(struct wi_tcp_peer *p, weft_status status, const char *format, ...)
{
    struct wi_tcp_group *g = p->group;
    struct wi_tcp_identity id;
    va_list ap;
    if (p->state == WI_TCP_FAILED)
        return;
    wi_tcp_peer_identity(g, p->rank, &id);
    size_t n = wi_tcp_process_text(g->endpoint->host, &id, p->text, sizeof p->text);
    n += (size_t)snprintf(p->text + n, sizeof p->text - n, ": ");
    va_start(ap, format);
    vsnprintf(p->text + n, sizeof p->text - n, format, ap);
    va_end(ap);
    g->endpoint->host->log(g->endpoint->host->impl, WEFT_LOG_INFO, "tcp.peer", "rank %d: %s", p->rank, p->text);
    p->state = WI_TCP_FAILED;
    p->status = status;
    if (status == WEFT_ENOFILES || status == WEFT_ENOMEM)
        g->reason = status;
    g->failures++;
    end_transfers(p, status);
    close_all(p);
    wi_tcp_endpoint_refuse(g, p->rank, status);
    for (int i = 0; i < WEFT_CHAN_MAX; i++) {
        wi_tcp_in_free(p->in[i]);
        free(p->out[i]);
        p->in[i] = NULL;
        p->out[i] = NULL;
    }
    p->drains = NULL;
}

/* It comes from the network, and is 0 where there is none. */
void wi_tcp_peer_reason(struct wi_tcp_peer *p, const struct wi_tcp_frame *abort)
{
    weft_status reason = wi_tcp_reason_decode(abort->total);
    if (reason)
        p->reason = reason;
}

void wi_tcp_peer_aborted(struct wi_tcp_peer *p)
{
    if (p->reason == WEFT_ENOFILES || p->reason == WEFT_ENOMEM)
        wi_tcp_peer_fail(p, WEFT_EPEER, "rank %d gave up: it has no %s", p->rank,
                         p->reason == WEFT_ENOMEM ? "memory left" : "descriptors left (ulimit -n there)");
    else if (p->reason)
        wi_tcp_peer_fail(p, WEFT_EABORTED, "rank %d gave up its connection to this one: %s", p->rank,
                         weft_status_text(p->reason));
    else
        wi_tcp_peer_fail(p, WEFT_EABORTED, "rank %d aborted the communicator, or left it after a failure", p->rank);
}

void wi_tcp_peer_leave(struct wi_tcp_peer *p)
{
    p->state = WI_TCP_LEFT;
    close_all(p);
    wi_tcp_in_drain(p);
    if (p->nsends || p->nrecvs)
        wi_tcp_peer_fail(p, WEFT_EPEER, "rank %d left the communicator with %u sends and %u receives pending", p->rank,
                         p->nsends, p->nrecvs);
}

void wi_tcp_peer_bye(struct wi_tcp_conn *c, uint64_t sockets)
{
    c->bye = 1;
    if ((uint64_t)++c->peer->nbye >= sockets)
        wi_tcp_peer_leave(c->peer);
}

void wi_tcp_peer_free(struct wi_tcp_peer *p)
{
    if (!p)
        return;
    for (int i = 0; i < WEFT_CHAN_MAX; i++) {
        wi_tcp_in_free(p->in[i]);
        free(p->out[i]);
    }
    free(p);
}

size_t wi_tcp_peer_describe(void *group, int rank, char *text, size_t capacity)
{
    struct wi_tcp_group *g = group;
    const char *link = "";
    if (rank < 0 || rank >= g->nranks || !g->member[rank] || !capacity)
        return 0;
    const struct wi_tcp_peer *p = g->peers[rank];
    struct wi_tcp_identity id;
    char who[96];
    int n;
    wi_tcp_peer_identity(g, rank, &id);
    wi_tcp_process_text(g->endpoint->host, &id, who, sizeof who);
    if (rank == g->rank || !p || p->state == WI_TCP_IDLE) {
        n = snprintf(text, capacity, "%s; tcp, %s", who, rank == g->rank ? "this rank itself" : "not connected yet");
    } else if (p->state == WI_TCP_FAILED) {
        n = snprintf(text, capacity, "%s", p->text);
    } else {
        for (int i = 0; i < p->nconns; i++)
            if (p->conns[i] && p->conns[i]->state == WI_TCP_UP && !link[0])
                link = p->conns[i]->ends;
        n = snprintf(text, capacity, "%s; tcp %s, %d sockets, %u sends and %u receives pending", who,
                     link[0]                   ? link
                     : p->state == WI_TCP_LEFT ? "left"
                                               : "connecting",
                     p->nup, p->nsends, p->nrecvs);
    }
    return n < 0 ? 0 : (size_t)n < capacity ? (size_t)n : capacity - 1;
}
