/* mux.c: shared connections: the socket: frames of all streams in and out.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "tcp.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define STAGE_BYTES (64u << 10)
#define READS_MAX 16           /* of the endpoint's thread before it looks at others */
#define ARRIVING_MAX 4096u     /* streams of one peer that are not authenticated */
#define STREAMS_MAX (1u << 20) /* of one connection */
#define OUT_KEPT (256u << 10)  /* bytes of memory that stay when all is written */

static void watch(struct wi_tcp_mux *m, int op, uint32_t events)
{
    struct epoll_event ev = {.events = events, .data.u64 = (uint64_t)(uintptr_t)m | WI_TCP_TAG_MUX};
    epoll_ctl(m->endpoint->epoll, op, m->fd, &ev);
}

struct wi_tcp_mux *wi_tcp_mux_create(struct wi_tcp_endpoint *e, int fd, int accepted, uint64_t process,
                                     const unsigned char binding[WI_TCP_BINDING_BYTES], const void *data, size_t bytes)
{
    struct epoll_event ev = {.events = EPOLLIN};
    struct wi_tcp_mux *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->stage = malloc(STAGE_BYTES);
    m->endpoint = e;
    m->fd = fd;
    m->accepted = accepted;
    m->process = process;
    memcpy(m->binding, binding, sizeof m->binding);
    wi_tcp_ends(fd, m->ends, sizeof m->ends);
    pthread_mutex_init(&m->lock, NULL);
    m->next_id = (uint32_t)accepted;
    m->peer_id = (uint32_t)!accepted;
    if (m->stage && bytes)
        memcpy(m->stage, data, bytes); /* of a handshake's 256 at most */
    m->stage_end = bytes;
    ev.data.u64 = (uint64_t)(uintptr_t)m | WI_TCP_TAG_MUX;
    /* Last: the endpoint's thread may have it at once. */
    if (m->stage && epoll_ctl(e->epoll, EPOLL_CTL_ADD, fd, &ev) == 0)
        return m;
    m->fd = -1;
    wi_tcp_mux_free(m);
    return NULL;
}

void wi_tcp_mux_free(struct wi_tcp_mux *m)
{
    for (unsigned i = 0; i < WI_TCP_MUX_BUCKETS; i++)
        while (m->table[i])
            wi_tcp_stream_close(m->table[i]);
    if (m->fd >= 0)
        wi_tcp_fd_close(m->fd);
    pthread_mutex_destroy(&m->lock);
    free(m->stage);
    free(m->out);
    free(m);
}

void wi_tcp_mux_fail(struct wi_tcp_mux *m, int error)
{
    if (m->fd < 0)
        return;
    m->endpoint->host->log(m->endpoint->host->impl, WEFT_LOG_INFO, "tcp.shared", "%s: %s, with %u streams", m->ends,
                           error ? strerror(error) : "closed by the peer", m->nstreams);
    epoll_ctl(m->endpoint->epoll, EPOLL_CTL_DEL, m->fd,
              NULL); /* a child that has not come to its exec may have it, too */
    wi_tcp_fd_close(m->fd);
    m->fd = -1;
    m->error = error;
    m->in = NULL;
    m->in_left = 0;
    for (unsigned i = 0; i < WI_TCP_MUX_BUCKETS; i++)
        for (struct wi_tcp_stream *s = m->table[i]; s; s = s->next)
            wi_tcp_stream_stir(s);
}

/* ---- Writing ---------------------------------------------------------------------------------------------------- */

/* Those whose frame has gone may send the next one. */
static void room_again(struct wi_tcp_mux *m)
{
    for (struct wi_tcp_stream **at = &m->blocked; *at;) {
        struct wi_tcp_stream *s = *at;
        if (wi_tcp_stream_is_queued(s)) {
            at = &s->next_blocked;
            continue;
        }
        *at = s->next_blocked;
        s->blocked = 0;
        wi_tcp_stream_stir(s);
    }
}

void wi_tcp_mux_flush(struct wi_tcp_mux *m)
{
    while (m->fd >= 0 && m->out_at < m->out_end) {
        ssize_t n = send(m->fd, m->out + m->out_at, m->out_end - m->out_at, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            break;
        if (n < 0) {
            wi_tcp_mux_fail(m, errno);
            return;
        }
        m->out_at += (size_t)n;
    }
    int left = m->out_at < m->out_end;
    if (m->fd >= 0 && left != m->watches_room)
        watch(m, EPOLL_CTL_MOD, left ? EPOLLIN | EPOLLOUT : EPOLLIN);
    m->watches_room = left;
    if (m->blocked)
        room_again(m);
    if (left)
        return;
    m->out_at = m->out_end = 0;
    if (m->out_capacity > OUT_KEPT) {
        free(m->out);
        m->out = NULL;
        m->out_capacity = 0;
    }
}

static int make_room(struct wi_tcp_mux *m, size_t bytes)
{
    if (m->out_at > 0 && m->out_end + bytes > m->out_capacity) {
        memmove(m->out, m->out + m->out_at, m->out_end - m->out_at);
        m->out_end -= m->out_at;
        m->out_at = 0;
    }
    if (m->out_end + bytes <= m->out_capacity)
        return 0;
    size_t capacity = 2 * (m->out_end + bytes);
    unsigned char *wider = realloc(m->out, capacity);
    if (!wider)
        return -1;
    m->out = wider;
    m->out_capacity = capacity;
    return 0;
}

int wi_tcp_mux_append(struct wi_tcp_mux *m, const struct iovec *iov, int n, size_t skip)
{
    size_t sum = 0;
    for (int i = 0; i < n; i++)
        sum += iov[i].iov_len;
    if (sum == skip)
        return 0;
    if (make_room(m, sum - skip))
        return -1;
    for (int i = 0; i < n; i++) {
        size_t from = skip < iov[i].iov_len ? skip : iov[i].iov_len, bytes = iov[i].iov_len - from;
        if (bytes)
            memcpy(m->out + m->out_end, (const unsigned char *)iov[i].iov_base + from, bytes);
        m->out_end += bytes;
        m->appended += bytes;
        skip -= from;
    }
    return 0;
}

int wi_tcp_mux_say(struct wi_tcp_mux *m, uint8_t type, uint32_t stream, uint32_t value, const void *data, size_t bytes)
{
    unsigned char header[WI_TCP_MUX_HEADER_BYTES];
    struct wi_tcp_mux_frame f = {type, stream, value};
    struct iovec iov[2] = {{header, sizeof header}, {(void *)(uintptr_t)data, bytes}};
    wi_tcp_mux_encode(&f, header);
    if (m->fd < 0 || wi_tcp_mux_append(m, iov, 2, 0))
        return -1;
    wi_tcp_mux_flush(m);
    return 0;
}

/* ---- Reading ---------------------------------------------------------------------------------------------------- */

/* Every byte comes from the network; what nobody may say ends the connection. */
static int refuse(struct wi_tcp_mux *m, const char *what)
{
    m->endpoint->host->log(m->endpoint->host->impl, WEFT_LOG_WARN, "tcp.shared", "%s: %s", m->ends, what);
    wi_tcp_mux_fail(m, EPROTO);
    return -1;
}

static int is_peers(const struct wi_tcp_mux *m, uint32_t id)
{
    return (id & 1) == (m->accepted ? 0 : 1);
}

static int opened(struct wi_tcp_mux *m, uint32_t id)
{
    if (!is_peers(m, id) || id != m->peer_id)
        return refuse(m, "opens a stream out of turn");
    m->peer_id += 2;
    struct wi_tcp_stream *s = NULL;
    if (m->narriving < ARRIVING_MAX && m->nstreams < STREAMS_MAX)
        s = wi_tcp_stream_new(m, id);
    if (!s) { /* it will try again */
        if (wi_tcp_mux_say(m, WI_TCP_MUX_CLOSE, id, 0, NULL, 0))
            wi_tcp_mux_fail(m, ENOMEM);
        return 0;
    }
    s->fresh = 1;
    m->narriving++;
    wi_tcp_stream_stir(s);
    return 0;
}

static int more_room(struct wi_tcp_mux *m, struct wi_tcp_stream *s, uint32_t bytes)
{
    if (bytes > WI_TCP_MUX_WINDOW_BYTES + WI_TCP_MUX_SLACK_BYTES - s->room)
        return refuse(m, "gives back more of a stream's window than was used");
    s->room += bytes;
    if (s->starved)
        wi_tcp_stream_stir(s);
    s->starved = 0;
    return 0;
}

static int begin(struct wi_tcp_mux *m, const struct wi_tcp_mux_frame *f)
{
    if (f->type == WI_TCP_MUX_OPEN)
        return opened(m, f->stream);
    if (is_peers(m, f->stream) ? f->stream >= m->peer_id : f->stream >= m->next_id)
        return refuse(m, "speaks of a stream that was never opened");
    struct wi_tcp_stream *s = wi_tcp_stream_find(m, f->stream); /* NULL: closed on this side */
    if (s && s->ended)
        return refuse(m, "goes on with a stream that it has closed");
    switch (f->type) {
    case WI_TCP_MUX_DATA:
        if (s && s->bytes + s->taken + f->value > WI_TCP_MUX_WINDOW_BYTES + WI_TCP_MUX_SLACK_BYTES)
            return refuse(m, "sends more than a stream's window");
        m->in = s;
        m->in_left = f->value;
        return 0;
    case WI_TCP_MUX_WINDOW:
        return s ? more_room(m, s, f->value) : 0;
    default:
        if (s) {
            s->ended = 1;
            wi_tcp_stream_stir(s);
        }
        return 0;
    }
}

static void parse(struct wi_tcp_mux *m)
{
    struct wi_tcp_mux_frame f;
    while (m->fd >= 0) {
        size_t have = m->stage_end - m->stage_at, n = have < m->in_left ? have : m->in_left;
        if (n && m->in && wi_tcp_stream_put(m->in, m->stage + m->stage_at, n)) {
            wi_tcp_mux_fail(m, ENOMEM);
            return;
        }
        m->stage_at += n;
        m->in_left -= n;
        if (m->in_left || m->stage_end - m->stage_at < WI_TCP_MUX_HEADER_BYTES)
            return;
        const char *wrong = wi_tcp_mux_decode(m->stage + m->stage_at, &f);
        m->stage_at += WI_TCP_MUX_HEADER_BYTES;
        if (wrong ? refuse(m, wrong) : begin(m, &f))
            return;
    }
}

int wi_tcp_iov_clip(const struct iovec *iov, int n, size_t most, struct iovec *out, size_t *sum)
{
    int k = 0;
    *sum = 0;
    for (int i = 0; i < n && *sum < most; i++) {
        size_t left = most - *sum, bytes = iov[i].iov_len < left ? iov[i].iov_len : left;
        if (bytes)
            out[k++] = (struct iovec){iov[i].iov_base, bytes};
        *sum += bytes;
    }
    return k;
}

size_t wi_tcp_mux_pull(struct wi_tcp_mux *m, const struct iovec *direct, int n, size_t *placed)
{
    struct iovec iov[4];
    size_t sum = 0, have;
    *placed = 0;
    parse(m); /* what came with the handshake */
    if (m->fd < 0)
        return 0;
    have = m->stage_end - m->stage_at;
    memmove(m->stage, m->stage + m->stage_at, have); /* part of a header at most */
    m->stage_at = 0;
    m->stage_end = have;
    int k = n < (int)(sizeof iov / sizeof *iov) ? wi_tcp_iov_clip(direct, n, m->in_left, iov, &sum) : 0;
    if (sum == m->in_left || !k)
        iov[k++] = (struct iovec){m->stage + have, STAGE_BYTES - have};
    struct msghdr mh = {.msg_iov = iov, .msg_iovlen = (size_t)k};
    ssize_t got;
    do
        got = recvmsg(m->fd, &mh, MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return 0;
    if (got <= 0) {
        wi_tcp_mux_fail(m, got < 0 ? errno : 0);
        return 0;
    }
    *placed = (size_t)got < sum ? (size_t)got : sum;
    m->in_left -= *placed;
    m->stage_end += (size_t)got - *placed;
    parse(m);
    return (size_t)got;
}

void wi_tcp_mux_event(struct wi_tcp_mux *m, uint32_t events)
{
    size_t placed;
    for (int i = 0; i < READS_MAX; i++) { /* others may have the lock in between */
        pthread_mutex_lock(&m->lock);
        if ((events & EPOLLOUT) && i == 0)
            wi_tcp_mux_flush(m);
        size_t got = wi_tcp_mux_pull(m, NULL, 0, &placed);
        pthread_mutex_unlock(&m->lock);
        if (got < STAGE_BYTES / 2)
            return;
    }
}

/* ---- For the endpoint ---------------------------------------------------------------------------------------------- */

struct wi_tcp_stream *wi_tcp_mux_todo(struct wi_tcp_mux *m)
{
    struct wi_tcp_stream *s;
    pthread_mutex_lock(&m->lock);
    for (;;) {
        s = m->todo;
        if (!s)
            break;
        m->todo = s->next_todo;
        s->in_todo = 0;
        if (s->fresh || s->arrival)
            break;
    }
    pthread_mutex_unlock(&m->lock);
    return s;
}

int wi_tcp_mux_is_usable(struct wi_tcp_mux *m)
{
    pthread_mutex_lock(&m->lock);
    int usable = m->fd >= 0;
    pthread_mutex_unlock(&m->lock);
    return usable;
}

int wi_tcp_mux_is_idle(struct wi_tcp_mux *m)
{
    pthread_mutex_lock(&m->lock);
    int idle = m->fd < 0 && m->nstreams == 0;
    pthread_mutex_unlock(&m->lock);
    return idle;
}

void wi_tcp_mux_finish(struct wi_tcp_mux *m, uint64_t deadline_ns)
{
    size_t placed;
    pthread_mutex_lock(&m->lock);
    for (;;) {
        while (wi_tcp_mux_pull(m, NULL, 0, &placed))
            continue; /* a peer that does the same must not wait for this one */
        wi_tcp_mux_flush(m);
        if (m->fd < 0 || m->out_at == m->out_end || m->endpoint->host->now_ns() >= deadline_ns)
            break;
        struct pollfd p = {.fd = m->fd, .events = POLLIN | POLLOUT};
        poll(&p, 1, 10);
    }
    if (m->fd >= 0) {
        epoll_ctl(m->endpoint->epoll, EPOLL_CTL_DEL, m->fd, NULL);
        wi_tcp_linger_add(m->endpoint, m->fd);
        m->fd = -1;
    }
    pthread_mutex_unlock(&m->lock);
}
