/* conn.c: one socket: bytes in, frames to their targets; frames out.
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
#include <sys/uio.h>
#include <unistd.h>

struct wi_tcp_conn *wi_tcp_conn_new(struct wi_tcp_peer *p, int index)
{
    struct wi_tcp_group *g = p->group;
    struct wi_tcp_conn *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->peer = p;
    c->index = (uint8_t)index;
    c->fd = -1;
    c->next = g->conns;
    c->prev = &g->conns;
    if (g->conns)
        g->conns->prev = &c->next;
    g->conns = c;
    return c;
}

static void set_writable(struct wi_tcp_conn *c, int on)
{
    c->peer->group->blocked += c->can_write - on;
    c->can_write = (uint8_t)on;
}

void wi_tcp_ends(int fd, char *text, size_t capacity)
{
    struct sockaddr_storage sa;
    char local[WI_TCP_ADDR_TEXT] = "?", remote[WI_TCP_ADDR_TEXT] = "?";
    socklen_t n = sizeof sa;
    if (getsockname(fd, (struct sockaddr *)&sa, &n) == 0)
        wi_tcp_sockaddr_text(&sa, local);
    n = sizeof sa;
    if (getpeername(fd, (struct sockaddr *)&sa, &n) == 0)
        wi_tcp_sockaddr_text(&sa, remote);
    snprintf(text, capacity, "%s -> %s", local, remote);
}

weft_status wi_tcp_conn_up(struct wi_tcp_conn *c, int fd, struct wi_tcp_stream *stream, const void *data, size_t bytes)
{
    struct wi_tcp_peer *p = c->peer;
    struct epoll_event ev = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = c};
    c->stage = malloc(WI_TCP_STAGE_FRONT + WI_TCP_STAGE_BYTES);
    if (!c->stage)
        return WEFT_ENOMEM;
    if (!stream && c->fd != fd && epoll_ctl(p->group->epoll, EPOLL_CTL_ADD, fd, &ev))
        return errno == ENOMEM || errno == ENOSPC ? WEFT_ENOMEM : WEFT_ESYS;
    c->fd = fd;
    c->stream = stream;
    if (stream)
        snprintf(c->ends, sizeof c->ends, "%s", stream->mux->ends);
    else
        wi_tcp_ends(fd, c->ends, sizeof c->ends);
    c->state = WI_TCP_UP;
    c->can_read = c->can_write = 1;
    c->stage_at = c->stage_end = WI_TCP_STAGE_FRONT;
    if (bytes)
        memcpy(c->stage + c->stage_at, data, bytes);
    c->stage_end += bytes;
    p->nup++;
    if (!c->from_reserve && !stream)
        wi_tcp_reserve_use(p->group);
    if (stream)
        wi_tcp_stream_own(stream, p->group);
    p->group->unread = 1;
    if (p->state == WI_TCP_LINKING) {
        p->state = WI_TCP_LINKED;
        wi_tcp_out_start(p);
    }
    return WEFT_SUCCESS;
}

void wi_tcp_conn_close(struct wi_tcp_conn *c)
{
    struct wi_tcp_group *g = c->peer->group;
    if (c->state == WI_TCP_CLOSED)
        return;
    if (c->state == WI_TCP_UP) {
        set_writable(c, 1);
        c->peer->nup--;
    }
    wi_tcp_dial_free(c);
    if (c->stream)
        wi_tcp_stream_close(c->stream);
    c->stream = NULL;
    if (c->fd >= 0) {
        epoll_ctl(g->epoll, EPOLL_CTL_DEL, c->fd, NULL); /* a child that has not come to its exec may have it, too */
        wi_tcp_fd_close(c->fd);
    }
    c->fd = -1;
    c->state = WI_TCP_CLOSED;
    if (c->peer->conns[c->index] == c)
        c->peer->conns[c->index] = NULL;
    *c->prev = c->next;
    if (c->next)
        c->next->prev = c->prev;
    c->next = g->dead;
    g->dead = c;
}

void wi_tcp_conn_bury(struct wi_tcp_group *g)
{
    while (g->dead) {
        struct wi_tcp_conn *c = g->dead;
        g->dead = c->next;
        free(c->stage);
        free(c);
    }
}

/* ---- Reading ---------------------------------------------------------------------------------------------------- */

static int protocol_error(struct wi_tcp_conn *c, const char *what)
{
    wi_tcp_peer_fail(c->peer, WEFT_EPROTO, "tcp %s: %s", c->ends, what);
    return -1;
}

static void placed(struct wi_tcp_conn *c, size_t n)
{
    c->in_left -= n;
    if (c->target == WI_TCP_TO_BUFFER || c->target == WI_TCP_TO_EARLY)
        c->in_at += n;
}

/* Payload that lies in memory with WI_TCP_STAGE_FRONT writable bytes in front of it. */
static void place(struct wi_tcp_conn *c, unsigned char *data, size_t n)
{
    if (c->target == WI_TCP_TO_SINK)
        wi_tcp_in_feed(c->in_x, data, n);
    else if (c->target != WI_TCP_TO_DRAIN)
        memcpy(c->in_at, data, n);
    placed(c, n);
}

/* 0: a payload may follow; 1: stalled; -1: the peer is gone. */
static int begin_frame(struct wi_tcp_conn *c)
{
    const char *wrong = NULL;
    switch (c->in.type) {
    case WI_TCP_DATA:
        c->in_left = c->in.bytes;
        return wi_tcp_in_begin(c);
    case WI_TCP_GRANT:
        if (wi_tcp_out_grant(c->peer, &c->in, &wrong) == 0)
            return 0;
        return wrong ? protocol_error(c, wrong) : -1;
    case WI_TCP_BYE:
        wi_tcp_peer_bye(c, c->in.msg);
        return c->state == WI_TCP_UP ? 0 : -1;
    case WI_TCP_WELCOME:
    case WI_TCP_CROSSED:
        return protocol_error(c, "a greeting in the middle of the stream");
    default: /* what was sent before the abort, over other sockets too, may say why */
        c->bye = c->peer->aborted = 1;
        wi_tcp_peer_reason(c->peer, &c->in);
        if ((uint64_t)++c->peer->nbye < c->in.msg)
            return 0;
        wi_tcp_peer_aborted(c->peer);
        return -1;
    }
}

static int next_frame(struct wi_tcp_conn *c)
{
    if (!c->stalled) {
        const char *wrong = wi_tcp_frame_decode(c->stage + c->stage_at, &c->in);
        if (wrong || c->bye)
            return protocol_error(c, wrong ? wrong : "data after the last frame");
        c->stage_at += WI_TCP_HEADER_BYTES;
    }
    int r = begin_frame(c);
    c->stalled = r > 0;
    if (r == 0)
        c->in_frame = 1;
    return r;
}

int wi_tcp_conn_consume(struct wi_tcp_conn *c)
{
    for (;;) {
        size_t have = c->stage_end - c->stage_at;
        if (!c->in_frame) {
            if (!c->stalled && have < WI_TCP_HEADER_BYTES)
                return 0;
            int r = next_frame(c);
            if (r)
                return r;
            continue;
        }
        size_t n = c->in_left < have ? c->in_left : have;
        if (n) {
            place(c, c->stage + c->stage_at, n);
            c->stage_at += n;
        }
        if (c->in_left)
            return 0;
        c->in_frame = 0;
        if (c->in.type == WI_TCP_DATA)
            wi_tcp_in_end(c);
        if (c->state != WI_TCP_UP)
            return -1;
    }
}

/* Where the next bytes go: the target of the current frame first, then the stage. */
static int read_vector(struct wi_tcp_conn *c, struct iovec iov[2], size_t *direct)
{
    size_t have = c->stage_end - c->stage_at, left = c->in_frame ? c->in_left : 0;
    unsigned char *front = c->stage + WI_TCP_STAGE_FRONT;
    int n = 0;
    memmove(front, c->stage + c->stage_at, have); /* part of a header at most */
    c->stage_at = WI_TCP_STAGE_FRONT;
    c->stage_end = c->stage_at + have;
    *direct = left;
    if (left && (c->target == WI_TCP_TO_SINK || c->target == WI_TCP_TO_DRAIN)) {
        *direct = left < WI_TCP_SINK_BYTES ? left : WI_TCP_SINK_BYTES;
        iov[n++] = (struct iovec){c->peer->group->sink_stage + WI_TCP_STAGE_FRONT, *direct};
    } else if (left) {
        iov[n++] = (struct iovec){c->in_at, left};
    }
    if (*direct == left)
        iov[n++] = (struct iovec){front + have, WI_TCP_STAGE_BYTES - have};
    return n;
}

static int read_failed(struct wi_tcp_conn *c, ssize_t n)
{
    int err = n == 0 ? 0 : errno;
    if (err == EAGAIN || err == EWOULDBLOCK) {
        c->can_read = 0;
        return 0;
    }
    if (c->bye) {
        wi_tcp_conn_close(c);
        return 1;
    }
    if (c->peer->aborted) {
        wi_tcp_peer_aborted(c->peer);
        return 1;
    }
    if (err == 0 && c->write_dead)
        err = c->write_errno;
    wi_tcp_peer_fail(c->peer, WEFT_EPEER, "tcp %s: %s", c->ends,
                     err == 0           ? "closed by the peer without a word (did its process end?)"
                     : err == ETIMEDOUT ? "no acknowledgement in time: host down or network cut"
                                        : strerror(err));
    return 1;
}

static void account(struct wi_tcp_conn *c, const struct iovec *iov, size_t direct, size_t n)
{
    size_t mine = n < direct ? n : direct;
    if (mine) {
        if (c->target == WI_TCP_TO_SINK)
            place(c, iov[0].iov_base, mine);
        else
            placed(c, mine);
    }
    c->stage_end += n - mine;
}

int wi_tcp_conn_read(struct wi_tcp_conn *c)
{
    size_t budget = WI_TCP_BUDGET;
    int events = 0;
    while (budget) {
        struct iovec iov[2];
        size_t direct, asked;
        if (c->stalled || c->stage_end - c->stage_at >= WI_TCP_HEADER_BYTES || (c->in_frame && !c->in_left)) {
            int r = wi_tcp_conn_consume(c);
            if (r)
                return events + (r < 0);
        }
        int niov = read_vector(c, iov, &direct);
        asked = iov[0].iov_len + (niov > 1 ? iov[1].iov_len : 0);
        struct msghdr mh = {.msg_iov = iov, .msg_iovlen = (size_t)niov};
        ssize_t n = c->stream ? wi_tcp_stream_recv(c->stream, iov, niov) : recvmsg(c->fd, &mh, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return events + read_failed(c, n);
        events++;
        account(c, iov, direct, (size_t)n);
        budget -= (size_t)n < budget ? (size_t)n : budget;
        int r = wi_tcp_conn_consume(c);
        if (r < 0)
            return events;
        if ((size_t)n < asked) {
            /* Drained, as far as this side knows; new data makes a new edge. */
            c->can_read = 0;
            return events;
        }
        c->can_read = 1;
        if (r > 0)
            return events; /* stalled: reading resumes when the stall ends */
    }
    c->peer->group->unread = 1;
    return events;
}

/* ---- Writing ---------------------------------------------------------------------------------------------------- */

static int fill(struct wi_tcp_conn *c)
{
    size_t sum = 0, chunk = c->peer->group->endpoint->settings->chunk;
    c->nbatch = c->batch_at = 0;
    c->batch_done = 0;
    while (c->nbatch < WI_TCP_BATCH && sum < chunk && wi_tcp_out_pull(c->peer, &c->batch[c->nbatch]))
        sum += c->batch[c->nbatch++].bytes;
    return c->nbatch;
}

static int write_vector(const struct wi_tcp_conn *c, struct iovec *iov, size_t *total)
{
    size_t skip = c->batch_done;
    int n = 0;
    *total = 0;
    for (int i = c->batch_at; i < c->nbatch; i++) {
        const struct wi_tcp_out_frame *f = &c->batch[i];
        if (skip < WI_TCP_HEADER_BYTES)
            iov[n++] = (struct iovec){(void *)(uintptr_t)(f->header + skip), WI_TCP_HEADER_BYTES - skip};
        size_t from = skip > WI_TCP_HEADER_BYTES ? skip - WI_TCP_HEADER_BYTES : 0;
        if (f->bytes > from)
            iov[n++] = (struct iovec){(void *)(uintptr_t)(f->data + from), f->bytes - from};
        *total += WI_TCP_HEADER_BYTES + f->bytes - skip;
        skip = 0;
    }
    return n;
}

static void advance(struct wi_tcp_conn *c, size_t n)
{
    n += c->batch_done;
    while (c->batch_at < c->nbatch) {
        struct wi_tcp_out_frame *f = &c->batch[c->batch_at];
        if (n < WI_TCP_HEADER_BYTES + f->bytes)
            break;
        n -= WI_TCP_HEADER_BYTES + f->bytes;
        c->batch_at++;
        wi_tcp_out_sent(c->peer, f);
    }
    c->batch_done = n;
}

/* Returns bytes written. */
static size_t flush(struct wi_tcp_conn *c)
{
    struct iovec iov[2 * WI_TCP_BATCH];
    size_t total;
    struct msghdr mh = {.msg_iov = iov, .msg_iovlen = (size_t)write_vector(c, iov, &total)};
    ssize_t n;
    do
        n = c->stream ? wi_tcp_stream_send(c->stream, iov, (int)mh.msg_iovlen)
                      : sendmsg(c->fd, &mh, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n < 0) {
        if (errno != EAGAIN && errno != EWOULDBLOCK) {
            /* What the peer sent before it went is still to be read, and says why it went. */
            c->write_dead = 1;
            c->write_errno = errno;
            c->can_read = 1;
            c->peer->group->unread = 1;
            return 0;
        }
        n = 0;
    }
    advance(c, (size_t)n);
    if ((size_t)n < total && (!c->stream || n == 0))
        set_writable(c, 0); /* of a stream only a frame went: the next one may find room */
    return (size_t)n;
}

static int usable(const struct wi_tcp_conn *c)
{
    return c && c->state == WI_TCP_UP && !c->write_dead;
}

/* Would writing now get anywhere? */
int wi_tcp_conn_has_room(const struct wi_tcp_peer *p)
{
    int left = wi_tcp_spread(p);
    for (int i = 0; i < p->nconns; i++) {
        const struct wi_tcp_conn *c = p->conns[i];
        if (usable(c) && (left-- > 0 || c->batch_at < c->nbatch) && c->can_write)
            return 1;
    }
    return 0;
}

/* A batch is left that could go on: of a stream, whose frames are shorter. */
static int has_begun(const struct wi_tcp_peer *p)
{
    const struct wi_tcp_conn *c = p->shared ? p->conns[0] : NULL;
    return usable(c) && c->can_write && c->batch_at < c->nbatch;
}

/* Every socket in use that has room takes the next frames; a slow one holds nothing but its own batch. */
int wi_tcp_conn_write(struct wi_tcp_peer *p)
{
    size_t chunk = p->group->endpoint->settings->chunk;
    int events = 0, spread = wi_tcp_spread(p), first = spread > 1 ? p->next_conn : 0;
    if (p->state != WI_TCP_LINKED)
        return 0;
    for (size_t round = 0; round < 1 + WI_TCP_BUDGET / chunk; round++) {
        int moved = 0, left = spread;
        for (int i = 0; i < p->nconns; i++) {
            int at = (first + i) % p->nconns;
            struct wi_tcp_conn *c = p->conns[at];
            if (!usable(c))
                continue;
            int in_use = left-- > 0;
            if (!c->can_write || (c->batch_at == c->nbatch && (!in_use || !fill(c))))
                continue;
            size_t n = flush(c);
            moved += n > 0;
            wi_tcp_spread_sent(p, n);
            if (n >= chunk / 2)
                p->next_conn = (at + 1) % p->nconns;
        }
        events += moved;
        if (!moved || !(wi_tcp_out_wanted(p) || has_begun(p)))
            break;
    }
    if (wi_tcp_out_wanted(p) || has_begun(p))
        wi_tcp_peer_want_out(p);
    return events;
}

/* Sockets that the peer has, or will find when it takes what its endpoint accepted. */
static uint64_t shared_sockets(const struct wi_tcp_peer *p)
{
    uint64_t n = 0;
    for (int i = 0; i < p->nconns; i++)
        n += p->conns[i] && (p->conns[i]->state == WI_TCP_UP || p->conns[i]->state == WI_TCP_GREETING);
    return n;
}

void wi_tcp_conn_farewell(struct wi_tcp_conn *c, uint8_t type)
{
    struct wi_tcp_endpoint *e = c->peer->group->endpoint;
    unsigned char out[WI_TCP_HEADER_BYTES];
    struct wi_tcp_frame f = {.type = type, .msg = shared_sockets(c->peer)};
    if (type == WI_TCP_ABORT)
        f.total = wi_tcp_reason_encode(c->peer->group->reason);
    if ((c->state != WI_TCP_UP && c->state != WI_TCP_GREETING) || c->write_dead)
        return;
    wi_tcp_frame_encode(&f, out);
    /* In the middle of a frame there is no place for another one. */
    if (c->stream) {
        if (c->batch_done == 0 && wi_tcp_stream_say(c->stream, out, sizeof out))
            c->write_dead = 1;
        wi_tcp_stream_close(c->stream); /* the connection stays, and sends what was said */
        c->stream = NULL;
        return;
    }
    if (c->batch_done == 0 && send(c->fd, out, sizeof out, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        c->write_dead = 1;
    epoll_ctl(c->peer->group->epoll, EPOLL_CTL_DEL, c->fd, NULL);
    pthread_mutex_lock(&e->lock);
    wi_tcp_linger_add(e, c->fd);
    pthread_mutex_unlock(&e->lock);
    c->fd = -1;
}
