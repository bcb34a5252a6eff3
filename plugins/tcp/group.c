/* group.c: a communicator's use of the transport: create, destroy, post, progress, sleep.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "tcp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define WATCH_CALLS 64 /* progress calls between looks at the clock */
#define WATCH_NS 1000000000ull
#define LOOK_EVERY 64 /* progress calls between looks at idle sockets */
#define SILENT_MAX 1000
#define DIRECT_MAX 2 /* with so many sockets awaited, reading them is cheaper than asking which are ready */
#define EVENTS_MAX 64

static void group_free(struct wi_tcp_group *g)
{
    while (g->conns)
        wi_tcp_conn_close(g->conns);
    wi_tcp_conn_bury(g);
    for (int i = 0; g->peers && i < g->nranks; i++)
        wi_tcp_peer_free(g->peers[i]);
    free(g->peers);
    free(g->member);
    free(g->blobs);
    free(g->blob_at);
    free(g->link);
    free(g->refused);
    free(g->turn);
    free(g->of_node);
    free(g->sink_stage);
    while (wi_tcp_reserve_use(g))
        continue;
    wi_tcp_wake_disarm(g);
    if (g->epoll >= 0)
        wi_tcp_fd_close(g->epoll);
    if (g->event >= 0)
        wi_tcp_fd_close(g->event);
    if (g->timer >= 0)
        wi_tcp_fd_close(g->timer);
    free(g);
}

static weft_status copy_members(struct wi_tcp_group *g, const struct weft_group_config *c)
{
    size_t total = 0, n = (size_t)c->nranks;
    for (size_t i = 0; i < n; i++)
        total += c->member[i] ? c->address_bytes[i] : 0;
    g->member = malloc(n);
    g->blobs = malloc(total ? total : 1);
    g->blob_at = malloc((n + 1) * sizeof *g->blob_at);
    g->peers = calloc(n, sizeof *g->peers);
    g->link = calloc(n, 1);
    g->refused = calloc(n, sizeof *g->refused);
    g->sink_stage = malloc(WI_TCP_STAGE_FRONT + WI_TCP_SINK_BYTES);
    if (!g->member || !g->blobs || !g->blob_at || !g->peers || !g->link || !g->refused || !g->sink_stage)
        return WEFT_ENOMEM;
    memcpy(g->member, c->member, n);
    g->blob_at[0] = 0;
    for (size_t i = 0; i < n; i++) {
        struct wi_tcp_identity id;
        uint32_t bytes = c->member[i] ? (uint32_t)c->address_bytes[i] : 0;
        if (bytes)
            memcpy(g->blobs + g->blob_at[i], c->addresses[i], bytes);
        g->blob_at[i + 1] = g->blob_at[i] + bytes;
        if (c->member[i] && wi_tcp_identity_decode(c->addresses[i], c->address_bytes[i], &id)) {
            g->endpoint->host->explain(g->endpoint->host->impl, WEFT_EPROTO,
                                       "tcp: the address of rank %zu is malformed", i);
            return WEFT_EPROTO;
        }
    }
    return WEFT_SUCCESS;
}

static int watch(struct wi_tcp_group *g, int fd, void *tag, uint32_t events)
{
    struct epoll_event ev = {.events = events, .data.ptr = tag};
    return epoll_ctl(g->epoll, EPOLL_CTL_ADD, fd, &ev);
}

/* Nothing but what all such groups have together. */
static weft_status open_lean(struct wi_tcp_group *g)
{
    if (g->epoll >= 0)
        wi_tcp_fd_close(g->epoll);
    g->epoll = -1;
    g->lean = 1;
    return wi_tcp_wake_open(g->endpoint) ? wi_tcp_explain_descriptors(g, errno) : wi_tcp_reserve_init(g);
}

static weft_status open_events(struct wi_tcp_group *g)
{
    if (g->endpoint->share == WI_TCP_SHARE_ALWAYS)
        return open_lean(g);
    g->epoll = wi_tcp_fd_keep(epoll_create1(EPOLL_CLOEXEC));
    if (g->endpoint->share == WI_TCP_SHARE_AUTO && wi_tcp_descriptors_are_scarce(g->epoll))
        return open_lean(g);
    g->event = wi_tcp_fd_keep(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    g->timer = wi_tcp_fd_keep(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    if (g->epoll >= 0 && g->event >= 0 && g->timer >= 0 && !watch(g, g->event, &g->event, EPOLLIN | EPOLLET) &&
        !watch(g, g->timer, &g->timer, EPOLLIN | EPOLLET))
        return wi_tcp_reserve_init(g);
    return wi_tcp_explain_descriptors(g, errno);
}

weft_status wi_tcp_group_create(void *endpoint, const struct weft_group_config *config, void **group)
{
    struct wi_tcp_group *g = calloc(1, sizeof *g);
    if (!g)
        return WEFT_ENOMEM;
    g->endpoint = endpoint;
    g->comm_id[0] = config->comm_id[0];
    g->comm_id[1] = config->comm_id[1];
    g->rank = config->rank;
    g->nranks = config->nranks;
    g->epoll = g->event = g->timer = -1;
    g->alarm_ns = WI_TCP_NEVER;
    g->self_sends_end = &g->self_sends;
    g->self_recvs_end = &g->self_recvs;
    weft_status st = copy_members(g, config);
    if (!st)
        st = wi_tcp_rails_init(g, config);
    if (!st)
        st = open_events(g);
    if (!st)
        st = wi_tcp_serve_start(endpoint);
    if (st) {
        group_free(g);
        return st;
    }
    wi_tcp_endpoint_join(endpoint, g);
    *group = g;
    return WEFT_SUCCESS;
}

void wi_tcp_group_destroy(void *group, int aborted)
{
    struct wi_tcp_group *g = group;
    for (struct wi_tcp_conn *c = g->conns; c; c = c->next)
        wi_tcp_conn_farewell(c, aborted ? WI_TCP_ABORT : WI_TCP_BYE);
    wi_tcp_endpoint_leave(g->endpoint, g, aborted); /* after: it sees to what lingers */
    group_free(g);
}

/* ---- Posting ---------------------------------------------------------------------------------------------------- */

static weft_status usable_peer(struct wi_tcp_group *g, const struct weft_xfer *x, struct wi_tcp_peer **peer)
{
    const struct weft_host *h = g->endpoint->host;
    weft_status st = wi_tcp_peer_get(g, x->peer, peer);
    if (st)
        return st;
    if (x->chan >= WEFT_CHAN_MAX || x->granule > 16 || x->bytes > WI_TCP_MESSAGE_MAX) {
        h->explain(h->impl, WEFT_EINVAL, "tcp: channel %u, granule %u or %zu bytes is out of range", x->chan,
                   x->granule, x->bytes);
        return WEFT_EINVAL;
    }
    if ((*peer)->state == WI_TCP_FAILED) {
        h->explain(h->impl, (*peer)->status, "%s", (*peer)->text);
        return (*peer)->status;
    }
    return WEFT_SUCCESS;
}

static weft_status gone(struct wi_tcp_peer *p)
{
    const struct weft_host *h = p->group->endpoint->host;
    if (p->state == WI_TCP_LEFT)
        wi_tcp_peer_fail(p, WEFT_EPEER, "rank %d left the communicator", p->rank);
    h->explain(h->impl, p->status, "%s", p->text);
    return p->status;
}

weft_status wi_tcp_group_send(void *group, struct weft_xfer *x)
{
    struct wi_tcp_group *g = group;
    struct wi_tcp_peer *p;
    weft_status st = usable_peer(g, x, &p);
    if (st)
        return st;
    if (x->peer == g->rank) {
        wi_tcp_self_send(g, x);
        return WEFT_SUCCESS;
    }
    if (p->state == WI_TCP_LEFT)
        return gone(p);
    if (p->state == WI_TCP_IDLE && wi_tcp_dial_peer(p))
        return gone(p);
    st = wi_tcp_out_post(p, x);
    if (st)
        return st;
    wi_tcp_peer_want_hot(p);
    if (!g->busy)
        wi_tcp_conn_write(p);
    return WEFT_SUCCESS;
}

weft_status wi_tcp_group_recv(void *group, struct weft_xfer *x)
{
    struct wi_tcp_group *g = group;
    struct wi_tcp_peer *p;
    weft_status st = usable_peer(g, x, &p);
    if (st)
        return st;
    if (x->peer == g->rank) {
        wi_tcp_self_recv(g, x);
        return WEFT_SUCCESS;
    }
    /* Waiting for what may never come is no reason to connect. */
    if (p->state == WI_TCP_IDLE && !x->background && wi_tcp_dial_peer(p))
        return gone(p);
    st = wi_tcp_in_post(p, x);
    if (st)
        return st;
    wi_tcp_peer_want_hot(p);
    if (p->state == WI_TCP_LEFT && x->state == WEFT_XFER_PENDING && !p->drains && !x->background)
        wi_tcp_peer_fail(p, WEFT_EPEER, "rank %d left the communicator and did not send what is received", p->rank);
    return WEFT_SUCCESS;
}

int wi_tcp_group_peek(void *group, int rank, uint32_t chan, int connect, struct weft_op_info *info, size_t *bytes)
{
    struct wi_tcp_group *g = group;
    struct weft_xfer want = {.peer = rank, .chan = chan};
    const struct wi_tcp_frame *f;
    const struct weft_xfer *x;
    struct wi_tcp_peer *p;
    weft_status st = usable_peer(g, &want, &p);
    if (st)
        return st;
    if (rank == g->rank) {
        x = wi_tcp_self_peek(g, chan);
        if (!x)
            return 0;
        *info = x->info;
        *bytes = x->bytes;
        return 1;
    }
    f = wi_tcp_in_peek(p, chan);
    if (f) {
        *info = f->info;
        *bytes = f->total;
        return 1;
    }
    if (p->state == WI_TCP_LEFT) {
        g->endpoint->host->explain(g->endpoint->host->impl, WEFT_EPEER, "rank %d left the communicator", rank);
        return WEFT_EPEER;
    }
    if (p->state == WI_TCP_IDLE && connect && wi_tcp_dial_peer(p))
        return gone(p);
    if (p->state != WI_TCP_IDLE) {
        p->peeked = 1;
        wi_tcp_peer_want_hot(p);
    }
    return 0;
}

/* ---- Progress ---------------------------------------------------------------------------------------------------- */

static int conn_event(struct wi_tcp_conn *c, uint32_t events)
{
    int done = 0;
    if (c->state == WI_TCP_CLOSED)
        return 0;
    if (c->state != WI_TCP_UP) {
        wi_tcp_dial_event(c);
        return 1;
    }
    if ((events & EPOLLOUT) && !c->can_write && !c->write_dead) {
        c->can_write = 1;
        c->peer->group->blocked--;
        done += wi_tcp_conn_write(c->peer);
    }
    if (c->state == WI_TCP_UP && (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))) {
        c->silent = 0;
        done += wi_tcp_conn_read(c);
    }
    return done;
}

/* Streams of which another thread has said that something came, or that there is room. */
static int look_at_streams(struct wi_tcp_group *g)
{
    int events = 0;
    atomic_store_explicit(&g->stirred, 0, memory_order_seq_cst);
    for (struct wi_tcp_conn *c = g->conns, *next; c; c = next) {
        next = c->next;
        if (!c->stream || !atomic_exchange_explicit(&c->stream->stirred, 0, memory_order_acquire))
            continue;
        events += conn_event(c, EPOLLIN | EPOLLOUT);
        if (next && next->state == WI_TCP_CLOSED)
            next = g->conns;
    }
    return events;
}

static int look(struct wi_tcp_group *g)
{
    struct epoll_event ev[EVENTS_MAX];
    int events = 0, n = g->lean ? 0 : epoll_wait(g->epoll, ev, EVENTS_MAX, 0);
    for (int i = 0; i < n; i++) {
        void *tag = ev[i].data.ptr;
        if (tag != &g->event && tag != &g->timer)
            events += conn_event(tag, ev[i].events);
    }
    return events;
}

/* Sockets that were left with something to read, or stalled. */
static int read_rest(struct wi_tcp_group *g)
{
    int events = 0;
    g->unread = 0;
    for (struct wi_tcp_conn *c = g->conns, *next; c; c = next) {
        next = c->next;
        if (c->state != WI_TCP_UP || !(c->can_read || c->stalled))
            continue;
        events += wi_tcp_conn_read(c);
        if (next && next->state == WI_TCP_CLOSED)
            next = g->conns;
    }
    return events;
}

/* A socket over which nothing comes for a while is left to epoll, which is asked now and then. */
static int read_awaited(struct wi_tcp_conn *c)
{
    int events = wi_tcp_conn_read(c);
    c->silent = events ? 0 : c->silent + 1;
    return events;
}

/* Peers with transfers pending: read what they probably sent. Returns the number of sockets awaited. */
static int read_hot(struct wi_tcp_group *g, int *events)
{
    int awaited = 0;
    for (struct wi_tcp_peer **at = &g->hot; *at;) {
        struct wi_tcp_peer *p = *at;
        if (p->drains)
            *events += wi_tcp_in_drain(p);
        if (p->state == WI_TCP_LEFT && (p->nrecvs || p->nsends))
            wi_tcp_peer_fail(p, WEFT_EPEER, "rank %d left the communicator and did not send what is received", p->rank);
        while (*at != p)
            at = &(*at)->next_hot; /* a sink may have posted to other peers */
        if (p->nsends + p->nrecvs == 0 && !p->peeked) {
            *at = p->next_hot;
            p->in_hot = 0;
            continue;
        }
        int before = awaited;
        p->peeked = 0;
        for (int i = 0; i < p->nconns; i++) {
            struct wi_tcp_conn *c = p->conns[i];
            if (!c || c->state != WI_TCP_UP || (i && c->silent > SILENT_MAX))
                continue;
            if (!c->stalled && before < DIRECT_MAX)
                *events += read_awaited(c);
            awaited++;
        }
        while (*at != p)
            at = &(*at)->next_hot;
        at = &p->next_hot;
    }
    return awaited;
}

static int write_all(struct wi_tcp_group *g)
{
    int events = 0;
    struct wi_tcp_peer *p = g->outs;
    g->outs = NULL;
    while (p) {
        struct wi_tcp_peer *next = p->next_out;
        p->in_outs = 0;
        events += wi_tcp_conn_write(p);
        p = next;
    }
    return events;
}

static int report(struct wi_tcp_group *g, struct weft_peer_failure *failure)
{
    for (int i = 0; i < g->nranks; i++) {
        struct wi_tcp_peer *p = g->peers[i];
        if (!p || p->state != WI_TCP_FAILED || p->reported)
            continue;
        p->reported = 1;
        g->failures--;
        failure->peer = p->rank;
        failure->status = p->status;
        memcpy(failure->text, p->text, sizeof failure->text);
        return p->status;
    }
    return WEFT_EINTERNAL;
}

/* A process that was killed may leave its sockets open in a child (see fds.h for those that fork() made). Where its state can be
 * known, peers that have something pending are looked after; what their sockets still held has been read a second later. */
static void watch_processes(struct wi_tcp_group *g)
{
    uint64_t now = g->endpoint->host->now_ns();
    if (now - g->watched_ns < WATCH_NS)
        return;
    g->watched_ns = now;
    for (int i = 0; i < g->nranks; i++) {
        struct wi_tcp_peer *p = g->peers[i];
        struct wi_tcp_identity id;
        if (!p || p->state != WI_TCP_LINKED || !(p->nsends + p->nrecvs))
            continue;
        wi_tcp_peer_identity(g, i, &id);
        if (wi_tcp_process_state(g->endpoint->host, &id) != 0)
            p->ended_ns = 0;
        else if (!p->ended_ns)
            p->ended_ns = now;
        else
            wi_tcp_peer_fail(p, WEFT_EPEER, "a child of its process keeps its connection open");
    }
}

int wi_tcp_group_progress(void *group, struct weft_peer_failure *failure)
{
    struct wi_tcp_group *g = group;
    int events = 0, awaited = 0;
    g->busy = 1;
    if (atomic_load_explicit(&g->armed, memory_order_relaxed))
        wi_tcp_wake_disarm(g);
    if (g->self_recvs && g->self_sends)
        events += wi_tcp_self_progress(g);
    events += wi_tcp_adopt(g);
    if (g->hot)
        awaited = read_hot(g, &events);
    if (atomic_load_explicit(&g->stirred, memory_order_acquire))
        events += look_at_streams(g);
    if (g->blocked || g->dials || awaited > DIRECT_MAX || ++g->calls % LOOK_EVERY == 0 || g->look) {
        g->look = 0;
        events += look(g);
    }
    if (g->dials)
        wi_tcp_dial_tick(g, g->endpoint->host->now_ns());
    if (g->unread)
        events += read_rest(g);
    if (g->outs)
        events += write_all(g);
    if (g->hot && ++g->watch_calls % WATCH_CALLS == 0)
        watch_processes(g);
    if (g->dead)
        wi_tcp_conn_bury(g);
    g->busy = 0;
    return g->failures ? report(g, failure) : events;
}

int wi_tcp_group_poll_fd(void *group)
{
    const struct wi_tcp_group *g = group;
    return g->lean ? g->endpoint->wake : g->epoll;
}

/* Sockets are edge-triggered, so events taken here are remembered and not lost. */
int wi_tcp_group_poll_arm(void *group)
{
    struct wi_tcp_group *g = group;
    struct epoll_event ev[EVENTS_MAX];
    if (g->failures || g->unread || g->look || atomic_load_explicit(&g->ninbox, memory_order_acquire) ||
        (g->self_recvs && g->self_sends))
        return 1;
    for (struct wi_tcp_peer *p = g->outs; p; p = p->next_out) {
        if (p->state == WI_TCP_LINKED && wi_tcp_conn_has_room(p))
            return 1;
    }
    for (struct wi_tcp_peer *p = g->hot; p; p = p->next_hot)
        if (p->drains)
            return 1;
    uint64_t at = wi_tcp_dial_next_ns(g), now = at == UINT64_MAX ? 0 : g->endpoint->host->now_ns();
    if (at <= now)
        return 1;
    if (wi_tcp_wake_arm(g, at) || atomic_load_explicit(&g->ninbox, memory_order_seq_cst))
        return 1;
    if (g->lean)
        return 0;
    uint64_t in = at == UINT64_MAX ? 0 : at - now;
    if (in || g->timer_armed) {
        struct itimerspec t = {.it_value = {(time_t)(in / 1000000000ull), (long)(in % 1000000000ull)}};
        timerfd_settime(g->timer, 0, &t, NULL);
        g->timer_armed = in > 0;
    }
    int n = epoll_wait(g->epoll, ev, EVENTS_MAX, 0), found = 0;
    for (int i = 0; i < n; i++) {
        struct wi_tcp_conn *c = ev[i].data.ptr;
        if (ev[i].data.ptr == &g->event || ev[i].data.ptr == &g->timer) {
            g->look = found = 1;
        } else if (c->state != WI_TCP_UP) {
            wi_tcp_dial_event(c);
            found = 1;
        } else {
            if (ev[i].events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
                c->can_read = g->unread = found = 1;
            if ((ev[i].events & EPOLLOUT) && !c->can_write) {
                c->can_write = 1;
                g->blocked--;
                wi_tcp_peer_want_out(c->peer);
                found = 1;
            }
        }
    }
    return found;
}
