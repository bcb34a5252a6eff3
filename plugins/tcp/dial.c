/* dial.c: making connections: try the peer's addresses in turn, authenticate, await the greeting; take what was accepted.
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
#include <unistd.h>

#define ATTEMPT_NS 2000000000ull /* for one address while there are others */
#define BACKOFF_NS 20000000ull   /* doubled each round */
#define BACKOFF_MAX_NS 500000000ull
#define REFUSED_ROUNDS 3        /* after so many, the peer no longer listens */
#define REJECTED_ROUNDS 12      /* some connection closes are the other side's lack of room, so many are not */
#define CROSSED_NS 100000000ull /* doubled each time */
#define LATER_NS 1000000ull     /* while another communicator makes the shared connection */
#define POLL_MAX_NS 20000000ull /* between looks at one that is being made, which no descriptor watches */

static void attempt(struct wi_tcp_conn *c);
static struct wi_tcp_conn *dial(struct wi_tcp_peer *p, int index);
static void stop_dialing(struct wi_tcp_peer *p);

static uint64_t now_of(const struct wi_tcp_group *g)
{
    return g->endpoint->host->now_ns();
}

static uint64_t after(uint64_t now, uint64_t ns)
{
    return ns > UINT64_MAX - now ? UINT64_MAX : now + ns;
}

void wi_tcp_dial_free(struct wi_tcp_conn *c)
{
    if (!c->dial)
        return;
    wi_tcp_share_stop(c);
    wi_tcp_handshake_fini(&c->dial->hs);
    free(c->dial);
    c->dial = NULL;
    c->peer->group->dials--;
}

static void drop_socket(struct wi_tcp_conn *c)
{
    wi_tcp_handshake_fini(&c->dial->hs);
    wi_tcp_share_stop(c);
    if (c->stream)
        wi_tcp_stream_close(c->stream);
    c->stream = NULL;
    if (c->fd >= 0 && !(c->from_reserve && wi_tcp_reserve_return(c->peer->group, c->fd)))
        wi_tcp_fd_close(c->fd);
    c->fd = -1;
    c->from_reserve = 0;
}

/* Sockets that wi_tcp_dial_more makes: the peer is reached without them. */
static int spare(const struct wi_tcp_conn *c)
{
    return c->index > 0 && c->peer->group->endpoint->settings->sockets == 0;
}

static void give_up(struct wi_tcp_conn *c, weft_status status, const char *what, const char *why)
{
    if (spare(c))
        wi_tcp_conn_close(c);
    else
        wi_tcp_peer_fail(c->peer, status, "tcp: %s%s", what, why);
}

/* All addresses were tried. */
static void round_over(struct wi_tcp_conn *c)
{
    struct wi_tcp_dial *d = c->dial;
    struct wi_tcp_peer *p = c->peer;
    uint64_t now = now_of(p->group), pause = BACKOFF_NS << (d->round < 5 ? d->round : 5);
    wi_tcp_share_stop(c); /* another communicator may have more luck */
    d->round++;
    if (d->refused == d->norder &&
        (d->round >= REFUSED_ROUNDS || wi_tcp_process_state(p->group->endpoint->host, &d->peer) == 0)) {
        give_up(c, WEFT_EPEER, d->last, " (its process has ended?)");
        return;
    }
    if (d->rejected && d->round >= REJECTED_ROUNDS) {
        give_up(c, d->rejection, d->rejected_text, d->rejected_why);
        return;
    }
    if (now >= d->deadline_ns) {
        give_up(c, WEFT_EPEER, d->last, "");
        return;
    }
    c->state = WI_TCP_BACKOFF;
    d->attempt_ns = after(now, pause < BACKOFF_MAX_NS ? pause : BACKOFF_MAX_NS);
    if (d->attempt_ns > d->deadline_ns)
        d->attempt_ns = d->deadline_ns;
}

static void set_last(struct wi_tcp_dial *d, const char *what)
{
    char text[WI_TCP_ADDR_TEXT];
    wi_tcp_addr_text(&d->peer.addrs[d->order[d->at]], text);
    snprintf(d->last, sizeof d->last, "%s: %s", text, what);
}

static int new_socket(struct wi_tcp_conn *c, int family)
{
    struct wi_tcp_group *g = c->peer->group;
    /* The lock keeps the endpoint's thread from taking the descriptor that is given up here. */
    pthread_mutex_lock(&g->endpoint->lock);
    if (g->nreserve > 0) /* accepting first: ranks that connect and do not accept may wait for each other */
        wi_tcp_spare_fill(g->endpoint);
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 && errno == EMFILE && !spare(c) && wi_tcp_reserve_use(g)) {
        c->from_reserve = 1;
        fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    }
    int err = errno;
    pthread_mutex_unlock(&g->endpoint->lock);
    errno = err;
    return wi_tcp_fd_keep(fd);
}

/* 1: in progress or connected; 0: this address failed; -1: the peer was failed, or does without this socket. */
static int start(struct wi_tcp_conn *c)
{
    struct wi_tcp_group *g = c->peer->group;
    struct wi_tcp_dial *d = c->dial;
    const struct wi_tcp_addr *a = &d->peer.addrs[d->order[d->at]];
    struct sockaddr_storage sa;
    struct epoll_event ev = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = c};
    int fd = new_socket(c, a->family == 4 ? AF_INET : AF_INET6);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE) && spare(c)) {
        wi_tcp_conn_close(c);
        return -1;
    }
    if (fd < 0 && (errno == EMFILE || errno == ENFILE) && d->crossed && now_of(g) < d->deadline_ns) {
        wi_tcp_share_stop(c);
        c->state = WI_TCP_BACKOFF; /* the peer is connecting, for which there is one */
        d->attempt_ns = after(now_of(g), CROSSED_NS);
        return -1;
    }
    if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
        wi_tcp_peer_fail(c->peer, WEFT_ENOFILES,
                         "tcp cannot connect to rank %d: %s; this process may have %llu descriptors (ulimit -n)",
                         c->peer->rank, strerror(errno), wi_tcp_descriptor_limit());
        return -1;
    }
    if (fd >= 0) {
        wi_tcp_socket_options(g->endpoint->settings, fd);
        socklen_t n = wi_tcp_addr_to_sockaddr(a, &sa);
        int r = connect(fd, (struct sockaddr *)&sa, n);
        c->fd = fd;
        if ((r == 0 || errno == EINPROGRESS) && (d->making || epoll_ctl(g->epoll, EPOLL_CTL_ADD, fd, &ev) == 0))
            return 1;
    }
    d->refused += errno == ECONNREFUSED;
    set_last(d, strerror(errno));
    if (fd >= 0)
        drop_socket(c);
    return 0;
}

static void attempt(struct wi_tcp_conn *c)
{
    struct wi_tcp_dial *d = c->dial;
    if (c->peer->shared && d->at < d->norder && !wi_tcp_share_join(c))
        return;
    d->began_ns = now_of(c->peer->group);
    for (; d->at < d->norder; d->at++) {
        int r = start(c);
        if (r < 0)
            return;
        if (!r)
            continue;
        uint64_t now = now_of(c->peer->group), limit = d->at + 1 < d->norder ? after(now, ATTEMPT_NS) : UINT64_MAX;
        c->state = WI_TCP_CONNECTING;
        d->attempt_ns = limit < d->deadline_ns ? limit : d->deadline_ns;
        return;
    }
    round_over(c);
}

static void next_address(struct wi_tcp_conn *c, const char *why)
{
    struct wi_tcp_dial *d = c->dial;
    int stream = c->stream != NULL; /* not for want of the right address */
    set_last(d, why);
    if (stream)
        wi_tcp_share_distrust(c);
    drop_socket(c);
    d->at = !stream && now_of(c->peer->group) < d->deadline_ns ? d->at + 1 : d->norder; /* too late for the others */
    attempt(c);
}

/* Somebody listens there and does not take the connection. `status`: what to call it if that stays so. */
static void rejected(struct wi_tcp_conn *c, weft_status status, const char *what, const char *why)
{
    struct wi_tcp_dial *d = c->dial;
    d->rejected++;
    d->rejection = status;
    d->rejected_why = why;
    set_last(d, what);
    memcpy(d->rejected_text, d->last, sizeof d->rejected_text);
    next_address(c, what);
}

/* The peer connects itself. Ask again later, in case it never comes. */
static void crossed(struct wi_tcp_conn *c)
{
    struct wi_tcp_dial *d = c->dial;
    uint64_t pause = CROSSED_NS << (d->crossed < 5 ? d->crossed : 5);
    drop_socket(c);
    d->crossed++;
    d->round = 0;
    c->state = WI_TCP_BACKOFF;
    d->attempt_ns = after(now_of(c->peer->group), pause);
    d->deadline_ns = after(d->attempt_ns, c->peer->group->endpoint->settings->connect_timeout);
}

static void share_made(struct wi_tcp_conn *c)
{
    struct wi_tcp_peer *p = c->peer;
    if (wi_tcp_share_made(c)) {
        wi_tcp_peer_fail(p, WEFT_ENOMEM, "tcp: no memory for a connection to rank %d", p->rank);
        return;
    }
    drop_socket(c);
    c->dial->at = 0;
    attempt(c);
}

/* The socket is taken: it is the stream from here on. */
static void welcomed(struct wi_tcp_conn *c)
{
    struct wi_tcp_handshake *h = &c->dial->hs;
    struct wi_tcp_peer *p = c->peer;
    if (c->dial->making) {
        share_made(c);
        return;
    }
    weft_status st = wi_tcp_conn_up(c, c->fd, c->stream, h->in + WI_TCP_HEADER_BYTES, h->have - WI_TCP_HEADER_BYTES);
    if (st)
        wi_tcp_peer_fail(p, st, "tcp: no memory for a connection to rank %d", p->rank);
    else
        wi_tcp_dial_free(c);
}

/* The peer has no descriptors for communicators of their own. */
static void share(struct wi_tcp_conn *c)
{
    struct wi_tcp_peer *p = c->peer;
    if (p->shared) {
        wi_tcp_peer_fail(p, WEFT_EPROTO, "tcp: rank %d asks for a stream in answer to one", p->rank);
        return;
    }
    stop_dialing(p);
    p->shared = 1;
    p->striped = 0;
    p->nconns = 1;
    p->conns[0] = dial(p, 0);
    if (p->conns[0])
        attempt(p->conns[0]);
    else
        wi_tcp_peer_fail(p, WEFT_ENOMEM, "tcp: no memory for a connection to rank %d", p->rank);
}

/* The peer's first frame. Until it comes nothing is known of whether the peer's group is there, or was. */
static void hear(struct wi_tcp_conn *c)
{
    struct wi_tcp_handshake *h = &c->dial->hs;
    struct wi_tcp_peer *p = c->peer;
    struct wi_tcp_frame f;
    if (h->have < WI_TCP_HEADER_BYTES) {
        ssize_t n = wi_tcp_io_recv(c->fd, c->stream, h->in + h->have, WI_TCP_HEADER_BYTES - h->have);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        h->have += n > 0 ? (size_t)n : 0;
        if (n <= 0) {
            rejected(c, WEFT_EPEER, "closed before it was taken",
                     " (its communicator is long gone, or no memory there?)");
            return;
        }
    }
    if (h->have < WI_TCP_HEADER_BYTES)
        return;
    if (wi_tcp_frame_decode(h->in, &f)) {
        wi_tcp_peer_fail(p, WEFT_EPROTO, "tcp: rank %d greets with what is not a frame", p->rank);
        return;
    }
    switch (f.type) {
    case WI_TCP_WELCOME:
        welcomed(c);
        return;
    case WI_TCP_CROSSED:
        crossed(c);
        return;
    case WI_TCP_SHARE:
        share(c);
        return;
    case WI_TCP_ABORT:
        wi_tcp_peer_reason(p, &f);
        wi_tcp_peer_aborted(p);
        return;
    case WI_TCP_BYE:
        wi_tcp_peer_leave(p);
        return;
    default:
        wi_tcp_peer_fail(p, WEFT_EPROTO, "tcp: rank %d greets with a frame of type %u", p->rank, f.type);
    }
}

static void authenticated(struct wi_tcp_conn *c, const struct wi_tcp_claim *claim)
{
    if (claim->process != c->dial->peer.process || claim->count) {
        rejected(c, WEFT_EPEER, "another process of the job answers there", " (two hosts with one address?)");
        return;
    }
    if (c->dial->making && wi_tcp_handshake_binding(&c->dial->hs, c->dial->binding)) {
        rejected(c, WEFT_EAUTH, "no key material for a shared connection", "");
        return;
    }
    c->peer->eager = claim->eager;
    c->state = WI_TCP_GREETING;
    c->dial->attempt_ns = UINT64_MAX; /* its communicator may take a while to be created there */
    hear(c);
}

static void authenticate(struct wi_tcp_conn *c)
{
    struct wi_tcp_claim claim;
    weft_status st = wi_tcp_handshake_step(&c->dial->hs, c->fd, c->stream, &claim);
    if (st == WEFT_INPROGRESS)
        return;
    if (st == WEFT_SUCCESS) {
        authenticated(c, &claim);
        return;
    }
    /* Unauthenticated peers get no reason. One that has read this side's hello and closes may lack memory, or have another key. */
    if (st == WEFT_EPEER)
        rejected(c, st, "closed during the handshake",
                 c->dial->hs.ended ? " (no memory there, or another job key?)" : " (no memory there, or it ended?)");
    else if (st == WEFT_EAUTH)
        rejected(c, st, "the process there does not belong to this job", " (another job key?)");
    else
        rejected(c, st, "the handshake failed", "");
}

static void connected(struct wi_tcp_conn *c)
{
    struct wi_tcp_group *g = c->peer->group;
    struct wi_tcp_dial *d = c->dial;
    struct wi_tcp_claim mine = {.shared = d->making,
                                .index = c->index,
                                .count = (uint8_t)c->peer->nconns,
                                .from = (uint32_t)g->rank,
                                .to = (uint32_t)c->peer->rank,
                                .eager = (uint32_t)g->endpoint->settings->eager,
                                .comm_id = {g->comm_id[0], g->comm_id[1]},
                                .process = g->endpoint->me.process,
                                .listener = d->peer.process};
    if (c->stream)
        memcpy(mine.binding, c->stream->mux->binding, sizeof mine.binding);
    if (wi_tcp_handshake_init(&d->hs, g->endpoint->host, 0, &mine)) {
        wi_tcp_peer_fail(c->peer, WEFT_ENOMEM, "tcp: no memory for a handshake with rank %d", c->peer->rank);
        return;
    }
    c->state = WI_TCP_AUTHENTICATING;
    /* The other side may be busy computing for a while before it looks at its listener; or it is not our peer at all,
     * then another address will do. */
    uint64_t limit = d->norder > 1 || c->stream ? after(now_of(g), ATTEMPT_NS) : UINT64_MAX;
    d->attempt_ns = limit < d->deadline_ns ? limit : d->deadline_ns;
    authenticate(c);
}

void wi_tcp_dial_stream(struct wi_tcp_conn *c)
{
    connected(c);
}

void wi_tcp_dial_later(struct wi_tcp_conn *c)
{
    struct wi_tcp_dial *d = c->dial;
    uint64_t now = now_of(c->peer->group);
    if (now >= d->deadline_ns) {
        give_up(c, WEFT_EPEER, "nobody could make a shared connection in time", "");
        return;
    }
    c->state = WI_TCP_BACKOFF;
    d->attempt_ns = after(now, LATER_NS);
}

void wi_tcp_dial_event(struct wi_tcp_conn *c)
{
    if (c->state == WI_TCP_AUTHENTICATING) {
        authenticate(c);
        return;
    }
    if (c->state == WI_TCP_GREETING) {
        hear(c);
        return;
    }
    if (c->state != WI_TCP_CONNECTING)
        return;
    int err = 0;
    socklen_t n = sizeof err;
    struct sockaddr_storage sa;
    getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &err, &n);
    if (err) {
        c->dial->refused += err == ECONNREFUSED;
        next_address(c, strerror(err));
        return;
    }
    n = sizeof sa;
    if (getpeername(c->fd, (struct sockaddr *)&sa, &n) == 0)
        connected(c);
}

static struct wi_tcp_conn *dial(struct wi_tcp_peer *p, int index)
{
    struct wi_tcp_group *g = p->group;
    struct wi_tcp_dial *d = calloc(1, sizeof *d);
    struct wi_tcp_conn *c = d ? wi_tcp_conn_new(p, index) : NULL;
    if (!c) {
        free(d);
        return NULL;
    }
    c->dial = d;
    g->dials++;
    wi_tcp_peer_identity(g, p->rank, &d->peer);
    d->norder =
        wi_tcp_identity_order(&g->endpoint->me, &d->peer, wi_tcp_rail(g, p->rank, p->nconns, index), d->order, NULL);
    d->deadline_ns = after(now_of(g), g->endpoint->settings->connect_timeout);
    return c;
}

static int sockets_wanted(const struct wi_tcp_peer *p)
{
    uint8_t order[WI_TCP_ADDRS_MAX];
    struct wi_tcp_identity peer;
    int nrails;
    wi_tcp_peer_identity(p->group, p->rank, &peer);
    wi_tcp_identity_order(&p->group->endpoint->me, &peer, 0, order, &nrails);
    return wi_tcp_rails_sockets(p->group, p->rank, nrails);
}

/* Descriptors are not plenty in large groups. */
static int sockets_of_fast_link(const struct wi_tcp_group *g)
{
    return g->nranks <= 16 ? 4 : g->nranks <= 64 ? 2 : 1;
}

void wi_tcp_dial_more(struct wi_tcp_peer *p)
{
    struct wi_tcp_group *g = p->group;
    pthread_mutex_lock(&g->endpoint->lock);
    int dials = g->link[p->rank] == WI_TCP_LINK_DIALS;
    pthread_mutex_unlock(&g->endpoint->lock);
    if (!dials || p->shared || p->nconns != 1 || p->state != WI_TCP_LINKED || g->endpoint->settings->sockets)
        return;
    p->nconns = sockets_of_fast_link(g);
    for (int i = 1; i < p->nconns; i++) {
        p->conns[i] = dial(p, i);
        if (p->conns[i])
            attempt(p->conns[i]);
    }
}

/* 0: the peer's connection was accepted, or is about to be handed over. */
static int decide(struct wi_tcp_peer *p)
{
    struct wi_tcp_group *g = p->group;
    pthread_mutex_lock(&g->endpoint->lock);
    int dials = g->link[p->rank] != WI_TCP_LINK_ACCEPTS;
    if (dials)
        g->link[p->rank] = WI_TCP_LINK_DIALS;
    pthread_mutex_unlock(&g->endpoint->lock);
    return dials;
}

weft_status wi_tcp_dial_peer(struct wi_tcp_peer *p)
{
    p->state = WI_TCP_LINKING;
    if (!decide(p))
        return WEFT_SUCCESS;
    p->shared = p->group->lean || p->group->endpoint->share == WI_TCP_SHARE_ALWAYS;
    p->nconns = p->shared ? 1 : sockets_wanted(p);
    p->striped = p->nconns > 1;
    for (int i = 0; i < p->nconns; i++) {
        p->conns[i] = dial(p, i);
        if (!p->conns[i]) {
            wi_tcp_peer_fail(p, WEFT_ENOMEM, "tcp: no memory for a connection to rank %d", p->rank);
            return WEFT_ENOMEM;
        }
        if (p->conns[i]->dial->norder == 0) {
            wi_tcp_peer_fail(p, WEFT_EPEER, "tcp: no address of rank %d can be used from here", p->rank);
            return WEFT_EPEER;
        }
    }
    for (int i = 0; i < p->nconns && p->state != WI_TCP_FAILED; i++)
        attempt(p->conns[i]);
    return p->state == WI_TCP_FAILED ? p->status : WEFT_SUCCESS;
}

static void expired(struct wi_tcp_conn *c)
{
    if (c->state == WI_TCP_BACKOFF) {
        c->dial->at = c->dial->refused = c->dial->rejected = 0;
        attempt(c);
    } else {
        next_address(c, c->state == WI_TCP_CONNECTING ? "no answer in time" : "no handshake in time");
    }
}

void wi_tcp_dial_tick(struct wi_tcp_group *g, uint64_t now)
{
    for (struct wi_tcp_conn *c = g->conns, *next; c; c = next) {
        next = c->next;
        if (!c->dial || (c->dial->attempt_ns > now && !c->dial->making))
            continue;
        if (c->dial->attempt_ns > now)
            wi_tcp_dial_event(c); /* no descriptor watches it */
        else
            expired(c);
        if (c->state == WI_TCP_CLOSED || !c->dial || !c->dial->making)
            next = g->conns; /* a failed peer takes its other connections along */
        now = now_of(g);
    }
}

/* One that is being made is looked at soon at first, later now and then. */
static uint64_t next_look(const struct wi_tcp_conn *c)
{
    const struct wi_tcp_dial *d = c->dial;
    uint64_t now = now_of(c->peer->group), pause = (now - d->began_ns) / 8;
    if (!d->making)
        return d->attempt_ns;
    pause = pause < LATER_NS ? LATER_NS : pause > POLL_MAX_NS ? POLL_MAX_NS : pause;
    return now + pause < d->attempt_ns ? now + pause : d->attempt_ns;
}

uint64_t wi_tcp_dial_next_ns(const struct wi_tcp_group *g)
{
    uint64_t at = UINT64_MAX;
    for (const struct wi_tcp_conn *c = g->dials ? g->conns : NULL; c; c = c->next)
        if (c->dial) {
            uint64_t next = next_look(c);
            at = next < at ? next : at;
        }
    return at;
}

/* ---- The accepting side ---------------------------------------------------------------------------------------- */

int wi_tcp_claim_fits(const struct wi_tcp_group *g, const struct wi_tcp_claim *claim)
{
    struct wi_tcp_identity id;
    if (claim->from >= (uint32_t)g->nranks || claim->from == (uint32_t)g->rank || !g->member[claim->from])
        return 0;
    wi_tcp_peer_identity(g, (int)claim->from, &id);
    return id.process == claim->process;
}

/* The lower rank's connection has come: this side's own attempts end. */
static void stop_dialing(struct wi_tcp_peer *p)
{
    for (int i = 0; i < p->nconns; i++)
        if (p->conns[i] && p->conns[i]->dial) {
            drop_socket(p->conns[i]);
            wi_tcp_conn_close(p->conns[i]);
        }
    p->nconns = 0;
}

/* Its rank counts on a connection that has been accepted: one that cannot be taken fails, and is not merely dropped. */
static void adopt_one(struct wi_tcp_peer *p, struct wi_tcp_arrival *a)
{
    const struct wi_tcp_claim *claim = &a->claim;
    if (p->state == WI_TCP_LEFT || p->state == WI_TCP_FAILED)
        return;
    if (p->state == WI_TCP_IDLE)
        p->state = WI_TCP_LINKING;
    if (p->state == WI_TCP_LINKING)
        stop_dialing(p);
    if (p->conns[claim->index] || claim->count < p->nconns)
        return; /* it may become more: see wi_tcp_dial_more */
    struct wi_tcp_conn *c = wi_tcp_conn_new(p, claim->index);
    if (!c) {
        wi_tcp_peer_fail(p, WEFT_ENOMEM, "tcp: no memory for the connection of rank %d", p->rank);
        return;
    }
    p->conns[claim->index] = c;
    p->striped = p->nconns ? p->striped : claim->count > 1;
    p->nconns = claim->count;
    p->eager = claim->eager;
    p->shared = a->stream != NULL;
    weft_status st = wi_tcp_conn_up(c, a->fd, a->stream, a->hs.in, a->hs.have);
    a->stream = c->stream ? NULL : a->stream;
    if (st) {
        wi_tcp_peer_fail(p, st, "tcp: cannot take the connection of rank %d: %s", p->rank, strerror(errno));
        return;
    }
    a->fd = -1;
}

/* For the next time. */
static void put_back(struct wi_tcp_group *g, struct wi_tcp_arrival *a)
{
    pthread_mutex_lock(&g->endpoint->lock);
    a->next = g->inbox;
    g->inbox = a;
    atomic_fetch_add_explicit(&g->ninbox, 1, memory_order_release);
    pthread_mutex_unlock(&g->endpoint->lock);
}

int wi_tcp_adopt(struct wi_tcp_group *g)
{
    struct wi_tcp_peer *p;
    int events = 0;
    if (atomic_load_explicit(&g->ninbox, memory_order_acquire) == 0)
        return 0;
    pthread_mutex_lock(&g->endpoint->lock);
    struct wi_tcp_arrival *list = g->inbox;
    g->inbox = NULL;
    atomic_store_explicit(&g->ninbox, 0, memory_order_relaxed);
    pthread_mutex_unlock(&g->endpoint->lock);
    while (list) {
        struct wi_tcp_arrival *a = list;
        list = a->next;
        weft_status st = wi_tcp_peer_get(g, (int)a->claim.from, &p);
        if (st == WEFT_ENOMEM) {
            put_back(g, a);
            continue;
        }
        if (st >= 0)
            adopt_one(p, a);
        wi_tcp_arrival_free(a);
        events++;
    }
    return events;
}
