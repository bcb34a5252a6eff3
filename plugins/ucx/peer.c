/* peer.c: peers and their channels, and the end of what is posted with one.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "ucx.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LAST_WORDS_NS 300000000ull /* what a peer that is gone has sent before has come by then */

weft_status wu_peer_get(struct wu_group *g, int rank, struct wu_peer **peer)
{
    const struct weft_host *host = g->endpoint->host;
    struct wu_peer *p;
    weft_status st;

    if (rank < 0 || rank >= g->nranks || !g->member[rank]) {
        host->explain(host->impl, WEFT_EINVAL, "ucx: rank %d is not served in this group of %d", rank, g->nranks);
        return WEFT_EINVAL;
    }
    if (g->peers[rank]) {
        *peer = g->peers[rank];
        return WEFT_SUCCESS;
    }
    p = calloc(1, sizeof *p);
    if (!p) {
        host->explain(host->impl, WEFT_ENOMEM, "ucx: no memory for rank %d", rank);
        return WEFT_ENOMEM;
    }
    p->group = g;
    p->rank = rank;
    p->state = rank == g->rank ? WU_CONNECTED : WU_UNCONNECTED;
    st = wu_route_new(g->endpoint, p);
    if (st < 0) {
        free(p);
        return st;
    }
    g->peers[rank] = *peer = p;
    return WEFT_SUCCESS;
}

struct wu_channel *wu_channel_get(struct wu_peer *p, uint32_t chan)
{
    struct wu_channel *ch = p->chans[chan];

    if (ch)
        return ch;
    ch = calloc(1, sizeof *ch);
    if (!ch)
        return NULL;
    ch->peer = p;
    ch->chan = (uint8_t)chan;
    wu_queue_init(&ch->sends);
    wu_queue_init(&ch->recvs);
    ch->ins_last = &ch->ins;
    return p->chans[chan] = ch;
}

weft_status wu_channel_for(struct wu_group *g, const struct weft_xfer *x, struct wu_channel **channel)
{
    struct wu_peer *p;
    weft_status st = wu_peer_get(g, x->peer, &p);

    if (st < 0)
        return st;
    if (x->chan >= WEFT_CHAN_MAX)
        return wu_refuse(g, WEFT_EINVAL, "no such channel");
    if (g->quiet)
        return wu_refuse(g, WEFT_EINVAL, "a transfer is posted after quiesce");
    if (p->state == WU_FAILED)
        return wu_refuse_peer(p);
    *channel = wu_channel_get(p, x->chan);
    return *channel ? WEFT_SUCCESS : wu_refuse(g, WEFT_ENOMEM, "no memory for a channel");
}

/* ---- What others are to look at ---- */

void wu_wake(struct wu_group *g)
{
    uint64_t one = 1;

    if (g->asleep && g->endpoint->inside != g && write(g->event_fd, &one, sizeof one) < 0)
        return; /* it is readable already */
}

void wu_channel_ready(struct wu_channel *ch)
{
    struct wu_group *g = ch->peer->group;

    if (ch->ready)
        return;
    ch->ready = 1;
    ch->next_ready = NULL;
    *g->ready_last = ch;
    g->ready_last = &ch->next_ready;
    wu_wake(g);
}

void wu_peer_due(struct wu_peer *p)
{
    struct wu_endpoint *e = p->group->endpoint;

    if (p->due)
        return;
    p->due = 1;
    p->next_due = e->due;
    e->due = p;
}

void wu_due_step(struct wu_endpoint *e)
{
    while (e->due) {
        struct wu_peer *p = e->due;
        e->due = p->next_due;
        p->due = 0;
        wu_send_step(p);
    }
}

/* ---- Ends ---- */

weft_status wu_refuse(const struct wu_group *g, weft_status status, const char *why)
{
    g->endpoint->host->explain(g->endpoint->host->impl, status, "ucx: %s", why);
    return status;
}

weft_status wu_refuse_peer(const struct wu_peer *p)
{
    const struct weft_host *host = p->group->endpoint->host;

    host->explain(host->impl, p->status, "rank %d: %s", p->rank, p->text);
    return p->status;
}

void wu_end(struct wu_group *g, struct weft_xfer *x, int state)
{
    if (g->endpoint->inside == g) {
        x->state = state;
        return;
    }
    x->priv[PRIV_STATE] = (uint64_t)(int64_t)state;
    x->next = NULL;
    *g->done_last = x;
    g->done_last = &x->next;
    wu_wake(g);
}

static void end_queue(struct wu_group *g, struct wu_queue *q, int state)
{
    while (q->first)
        wu_end(g, wu_queue_take(q), state);
}

/* Segments that are under way may be of one send, and of one that waits to be posted further. */
static void end_sends(struct wu_peer *p, int state)
{
    struct wu_group *g = p->group;

    for (struct wu_out *o = p->outs; o; o = o->next) {
        struct weft_xfer *x = o->x;
        o->x = NULL;
        if (x && --x->priv[PRIV_UNDER_WAY] == 0 && x->priv[PRIV_POSTED])
            wu_end(g, x, state);
    }
    for (int i = 0; i < WEFT_CHAN_MAX; i++)
        if (p->chans[i])
            end_queue(g, &p->chans[i]->sends, state);
}

void wu_end_all(struct wu_peer *p, int state)
{
    struct wu_group *g = p->group;

    end_sends(p, state);
    for (struct wu_in *in = p->ins, *next; in; in = next) {
        next = in->next;
        in->channel = NULL;
        if (in->done)
            wu_in_free(in);
    }
    for (int i = 0; i < WEFT_CHAN_MAX; i++) {
        struct wu_channel *ch = p->chans[i];
        if (!ch)
            continue;
        end_queue(g, &ch->recvs, state);
        if (ch->to)
            wu_end(g, ch->to, state);
        ch->to = NULL;
        ch->taking = 0;
        ch->ins = NULL;
        ch->ins_last = &ch->ins;
    }
}

void wu_peer_fail(struct wu_peer *p, weft_status status, const char *format, ...)
{
    struct wu_group *g = p->group;
    const struct weft_host *host = g->endpoint->host;
    int pid = (int)g->processes[p->rank].pid;
    char what[120];
    va_list ap;

    if (p->state == WU_FAILED)
        return;
    p->state = WU_FAILED;
    p->status = status;
    va_start(ap, format);
    vsnprintf(what, sizeof what, format, ap);
    va_end(ap);
    if (strstr(what, "process ")) /* it names the process itself */
        snprintf(p->text, sizeof p->text, "ucx: %s", what);
    else
        snprintf(p->text, sizeof p->text, "ucx: %s (process %d)", what, pid);
    host->log(host->impl, WEFT_LOG_INFO, "ucx.peer", "rank %d: %s", p->rank, p->text);
    g->unreported++;
    wu_end_all(p, status);
    wu_recv_drop(p, 1);
    wu_wake(g);
}

static int waits_in_vain(const struct wu_channel *ch)
{
    for (const struct weft_xfer *x = ch->recvs.first; x; x = x->next)
        if (!x->background)
            return !ch->taking && !ch->held;
    return ch->taking && !ch->held && !ch->ins;
}

void wu_peer_check_left(struct wu_peer *p)
{
    int in_vain = 0;

    if (!p->left || p->state == WU_FAILED || p->segments_got != p->segments_promised)
        return;
    for (int i = 0; i < WEFT_CHAN_MAX && !in_vain; i++)
        in_vain = p->chans[i] && (waits_in_vain(p->chans[i]) || p->chans[i]->sends.first);
    if (p->aborted)
        wu_peer_fail(p, WEFT_EPEER, "it aborted the communicator");
    else if (in_vain)
        wu_peer_fail(p, WEFT_EPEER, "it has left the communicator");
}

static void look_at(struct wu_peer *p, uint64_t now)
{
    char why[sizeof p->text];

    if (p->state == WU_FAILED || (p->left && p->segments_got == p->segments_promised)) {
        p->group->ngone -= p->gone_ns != 0;
        p->gone_ns = 0;
    } else if (p->link && p->link->broken) {
        wu_peer_fail(p, WEFT_EPEER, "%s", p->link->why);
    } else if (p->gone_ns && now - p->gone_ns > LAST_WORDS_NS) {
        memcpy(why, p->text, sizeof why);
        wu_peer_fail(p, WEFT_EPEER, "%s", why);
    }
}

void wu_peers_look(struct wu_group *g, uint64_t now)
{
    g->breaks = g->endpoint->breaks;
    for (int i = 0; i < g->nranks; i++)
        if (g->peers[i])
            look_at(g->peers[i], now);
}

/* Nothing is under way for the group any more, but what has no owner. */
void wu_peer_free(struct wu_peer *p)
{
    struct wu_endpoint *e = p->group->endpoint;

    wu_recv_drop(p, 1);
    while (p->outs) {
        struct wu_out *o = p->outs;
        p->outs = o->next;
        o->peer = NULL;
        o->x = NULL;
        wu_out_link(&e->orphan_outs, o);
    }
    while (p->ins) {
        struct wu_in *in = p->ins;
        p->ins = in->next;
        in->peer = NULL;
        in->channel = NULL;
        wu_in_link(&e->orphan_ins, in);
    }
    for (struct wu_peer **at = &e->due; *at; at = &(*at)->next_due)
        if (*at == p) {
            *at = p->next_due;
            break;
        }
    wu_route_free(e, p);
    for (int i = 0; i < WEFT_CHAN_MAX; i++)
        free(p->chans[i]);
    free(p);
}
