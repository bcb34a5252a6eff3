/* stream.c: shared connections: a communicator's stream: windows, what came and was not taken, who is told.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "tcp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define IOV_MAX_HERE (2 * WI_TCP_BATCH + 1)
#define PULLS_MAX 16                             /* receive calls in one */
#define KEPT 4096u                               /* bytes of memory that stay when all is taken */
#define TELL_BYTES (WI_TCP_MUX_WINDOW_BYTES / 2) /* taken, until the peer is told */

static struct wi_tcp_stream **bucket(struct wi_tcp_mux *m, uint32_t id)
{
    return &m->table[id / 2 % WI_TCP_MUX_BUCKETS];
}

struct wi_tcp_stream *wi_tcp_stream_find(struct wi_tcp_mux *m, uint32_t id)
{
    struct wi_tcp_stream *s = *bucket(m, id);
    while (s && s->id != id)
        s = s->next;
    return s;
}

struct wi_tcp_stream *wi_tcp_stream_new(struct wi_tcp_mux *m, uint32_t id)
{
    struct wi_tcp_stream *s = calloc(1, sizeof *s), **first = bucket(m, id);
    if (!s)
        return NULL;
    s->mux = m;
    s->id = id;
    s->room = WI_TCP_MUX_WINDOW_BYTES;
    s->next = *first;
    *first = s;
    m->nstreams++;
    return s;
}

struct wi_tcp_stream *wi_tcp_stream_open(struct wi_tcp_mux *m, struct wi_tcp_group *group)
{
    struct wi_tcp_stream *s = NULL;
    pthread_mutex_lock(&m->lock);
    if (m->fd >= 0)
        s = wi_tcp_stream_new(m, m->next_id);
    if (s) {
        m->next_id += 2;
        s->group = group;
        if (wi_tcp_mux_say(m, WI_TCP_MUX_OPEN, s->id, 0, NULL, 0))
            wi_tcp_mux_fail(m, ENOMEM); /* the peer counts them */
    }
    pthread_mutex_unlock(&m->lock);
    return s;
}

/* Its owner is to look at it: a group, or the endpoint. */
void wi_tcp_stream_stir(struct wi_tcp_stream *s)
{
    uint64_t one = 1;
    if (s->group) {
        atomic_store_explicit(&s->stirred, 1, memory_order_release);
        wi_tcp_group_stir(s->group);
        return;
    }
    if (s->in_todo || !(s->fresh || s->arrival))
        return;
    struct wi_tcp_stream **end = &s->mux->todo;
    while (*end)
        end = &(*end)->next_todo;
    *end = s;
    s->next_todo = NULL;
    s->in_todo = 1;
    if (write(s->mux->endpoint->kick, &one, sizeof one) < 0)
        return; /* the counter is full: it is awake already */
}

void wi_tcp_stream_own(struct wi_tcp_stream *s, struct wi_tcp_group *group)
{
    pthread_mutex_lock(&s->mux->lock);
    s->group = group;
    wi_tcp_stream_stir(s); /* for what came before */
    pthread_mutex_unlock(&s->mux->lock);
}

void wi_tcp_stream_arrive(struct wi_tcp_stream *s, struct wi_tcp_arrival *arrival)
{
    pthread_mutex_lock(&s->mux->lock);
    s->fresh = 0;
    if (s->arrival && !arrival)
        s->mux->narriving--;
    s->arrival = arrival;
    pthread_mutex_unlock(&s->mux->lock);
}

int wi_tcp_stream_put(struct wi_tcp_stream *s, const void *data, size_t bytes)
{
    if (s->at > 0 && s->at + s->bytes + bytes > s->capacity) {
        memmove(s->buffer, s->buffer + s->at, s->bytes);
        s->at = 0;
    }
    if (s->bytes + bytes > s->capacity) {
        size_t capacity = s->capacity ? s->capacity : 1024;
        while (capacity < s->bytes + bytes)
            capacity *= 2;
        unsigned char *wider = realloc(s->buffer, capacity);
        if (!wider)
            return -1;
        s->buffer = wider;
        s->capacity = capacity;
    }
    memcpy(s->buffer + s->at + s->bytes, data, bytes);
    s->bytes += bytes;
    wi_tcp_stream_stir(s);
    return 0;
}

static size_t take(struct wi_tcp_stream *s, void *to, size_t bytes)
{
    size_t n = bytes < s->bytes ? bytes : s->bytes;
    if (!n)
        return 0;
    memcpy(to, s->buffer + s->at, n);
    s->at += n;
    s->bytes -= n;
    s->taken += (uint32_t)n;
    if (s->bytes)
        return n;
    s->at = 0;
    if (s->capacity > KEPT) {
        free(s->buffer);
        s->buffer = NULL;
        s->capacity = 0;
    }
    return n;
}

/* Take `n` bytes off the front. */
static int skip(struct iovec *iov, int *at, int count, size_t n)
{
    while (*at < count) {
        size_t part = n < iov[*at].iov_len ? n : iov[*at].iov_len;
        iov[*at].iov_base = (unsigned char *)iov[*at].iov_base + part;
        iov[*at].iov_len -= part;
        n -= part;
        if (iov[*at].iov_len)
            return 1;
        ++*at;
    }
    return 0;
}

/* As much as there is, and as can be had. */
static size_t fill(struct wi_tcp_stream *s, struct iovec *iov, int n)
{
    struct wi_tcp_mux *m = s->mux;
    size_t sum = 0;
    int at = 0, pulls = 0;
    while (skip(iov, &at, n, 0)) {
        size_t got = take(s, iov[at].iov_base, iov[at].iov_len), placed = 0;
        sum += got;
        skip(iov, &at, n, got);
        if (got || at == n)
            continue;
        if (s->ended || m->fd < 0 || pulls++ == PULLS_MAX)
            break;
        int mine = m->in == s && m->in_left && m->stage_at == m->stage_end;
        if (!wi_tcp_mux_pull(m, mine ? iov + at : NULL, mine ? n - at : 0, &placed))
            break;
        s->taken += (uint32_t)placed;
        sum += placed;
        skip(iov, &at, n, placed);
    }
    return sum;
}

ssize_t wi_tcp_stream_recv(struct wi_tcp_stream *s, const struct iovec *iov, int n)
{
    struct iovec rest[2];
    struct wi_tcp_mux *m = s->mux;
    memcpy(rest, iov, (size_t)n * sizeof *iov);
    pthread_mutex_lock(&m->lock);
    ssize_t sum = (ssize_t)fill(s, rest, n);
    if (s->taken >= TELL_BYTES && !s->ended && !wi_tcp_mux_say(m, WI_TCP_MUX_WINDOW, s->id, s->taken, NULL, 0))
        s->taken = 0;
    int err = sum ? 0 : s->ended || (m->fd < 0 && !m->error) ? 0 : m->fd < 0 ? m->error : EAGAIN;
    pthread_mutex_unlock(&m->lock);
    if (sum || !err)
        return sum;
    errno = err;
    return -1;
}

int wi_tcp_stream_is_queued(const struct wi_tcp_stream *s)
{
    const struct wi_tcp_mux *m = s->mux;
    return s->queued_to > m->appended - (m->out_end - m->out_at);
}

static int wait_for_room(struct wi_tcp_stream *s)
{
    if (!s->blocked) {
        s->blocked = 1;
        s->next_blocked = s->mux->blocked;
        s->mux->blocked = s;
    }
    return EAGAIN;
}

/* A frame that the socket does not take now, or not wholly, is copied: others may follow it. Each stream has one of them at most,
 * so that all have their turns. Returns errno. */
static int write_frame(struct wi_tcp_stream *s, struct iovec *iov, int n)
{
    struct wi_tcp_mux *m = s->mux;
    struct msghdr mh = {.msg_iov = iov, .msg_iovlen = (size_t)n};
    ssize_t done = 0;
    if (m->out_at == m->out_end) {
        do
            done = sendmsg(m->fd, &mh, MSG_DONTWAIT | MSG_NOSIGNAL);
        while (done < 0 && errno == EINTR);
        if (done < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
            return errno;
    }
    uint64_t before = m->appended;
    if (wi_tcp_mux_append(m, iov, n, done < 0 ? 0 : (size_t)done))
        return ENOMEM;
    if (m->appended != before)
        s->queued_to = m->appended;
    return 0;
}

/* Returns errno; *sent. */
static int send_frame(struct wi_tcp_stream *s, const struct iovec *iov, int n, size_t *sent)
{
    struct wi_tcp_mux *m = s->mux;
    unsigned char header[WI_TCP_MUX_HEADER_BYTES];
    struct iovec out[IOV_MAX_HERE + 1] = {{header, sizeof header}};
    size_t most = s->room < WI_TCP_MUX_FRAME_MAX ? s->room : WI_TCP_MUX_FRAME_MAX;
    if (m->fd < 0 || s->ended)
        return m->fd < 0 && m->error ? m->error : EPIPE;
    if (!most) {
        s->starved = 1;
        return EAGAIN;
    }
    if (wi_tcp_stream_is_queued(s))
        return wait_for_room(s);
    int k = 1 + wi_tcp_iov_clip(iov, n, most, out + 1, sent);
    struct wi_tcp_mux_frame f = {WI_TCP_MUX_DATA, s->id, (uint32_t)*sent};
    wi_tcp_mux_encode(&f, header);
    int err = write_frame(s, out, k);
    if (err)
        wi_tcp_mux_fail(m, err);
    else if (m->out_at < m->out_end && !m->watches_room)
        wi_tcp_mux_flush(m);
    s->room -= (uint32_t)*sent;
    return err;
}

ssize_t wi_tcp_stream_send(struct wi_tcp_stream *s, const struct iovec *iov, int n)
{
    size_t sent = 0;
    pthread_mutex_lock(&s->mux->lock);
    int err = send_frame(s, iov, n, &sent);
    pthread_mutex_unlock(&s->mux->lock);
    errno = err;
    return err ? -1 : (ssize_t)sent;
}

int wi_tcp_stream_say(struct wi_tcp_stream *s, const void *data, size_t bytes)
{
    pthread_mutex_lock(&s->mux->lock);
    int st = s->ended ? -1 : wi_tcp_mux_say(s->mux, WI_TCP_MUX_DATA, s->id, (uint32_t)bytes, data, bytes);
    s->room -= s->room < bytes ? s->room : (uint32_t)bytes;
    pthread_mutex_unlock(&s->mux->lock);
    return st;
}

static void unlink_all(struct wi_tcp_stream *s)
{
    struct wi_tcp_mux *m = s->mux;
    struct wi_tcp_stream **at = bucket(m, s->id);
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    for (at = &m->blocked; s->blocked && *at; at = &(*at)->next_blocked)
        if (*at == s) {
            *at = s->next_blocked;
            break;
        }
    for (at = &m->todo; s->in_todo && *at; at = &(*at)->next_todo)
        if (*at == s) {
            *at = s->next_todo;
            break;
        }
    m->narriving -= s->fresh || s->arrival;
    m->nstreams--;
    if (m->in == s)
        m->in = NULL; /* the rest of its frame is nobody's */
}

void wi_tcp_stream_close(struct wi_tcp_stream *s)
{
    struct wi_tcp_mux *m = s->mux;
    pthread_mutex_lock(&m->lock);
    unlink_all(s);
    if (m->fd >= 0 && wi_tcp_mux_say(m, WI_TCP_MUX_CLOSE, s->id, 0, NULL, 0) && m->fd >= 0)
        wi_tcp_mux_fail(m, ENOMEM); /* the peer must hear of it */
    pthread_mutex_unlock(&m->lock);
    free(s->buffer);
    free(s);
}

ssize_t wi_tcp_io_recv(int fd, struct wi_tcp_stream *s, void *data, size_t bytes)
{
    struct iovec iov = {data, bytes};
    return s ? wi_tcp_stream_recv(s, &iov, 1) : recv(fd, data, bytes, MSG_DONTWAIT);
}

int wi_tcp_io_say(int fd, struct wi_tcp_stream *s, const void *data, size_t bytes)
{
    if (s)
        return wi_tcp_stream_say(s, data, bytes);
    /* A fresh socket always has room for one message: short means broken. */
    return send(fd, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)bytes ? 0 : -1;
}
