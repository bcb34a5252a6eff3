/* SPDX-License-Identifier: BSD-3-Clause */
/* One connection of the side channel. */
#include "net/side_conn.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/status.h"

#define STRANGER_NS 2000000000ull
#define ROOM (2u * WEFT_SIDE_MAX)

/* ---- How it ends ---- */

static void hang_up(struct wi_side_conn *c)
{
    if (c->fd >= 0)
        wi_socket_close(c->fd);
    c->fd = -1;
}

/* A stranger, or one that asks here, is let go without a word. */
__attribute__((format(printf, 3, 4))) static void fail(struct wi_side_conn *c, weft_status status, const char *format,
                                                       ...)
{
    va_list ap;

    hang_up(c);
    if (!c->asks) {
        c->dead = 1;
        return;
    }
    va_start(ap, format);
    vsnprintf(c->why, sizeof c->why, format, ap);
    va_end(ap);
    c->status = status;
    c->state = WI_SIDE_FAILED;
    if (c->group)
        wi_side_group_tell(c->group);
}

void wi_side_conn_late(struct wi_side_conn *c)
{
    if (c->asks && c->state <= WI_SIDE_TALKING)
        fail(c, WEFT_ETIMEDOUT, "did not answer within %.3g s (%s)",
             c->group ? (double)c->group->config.timeout_ns / 1e9 : 0.0,
             c->state == WI_SIDE_CONNECTING ? "no connection"
             : c->state == WI_SIDE_PROVING  ? "connected"
                                            : "asked");
    else if (!c->asks)
        fail(c, WEFT_ETIMEDOUT, "late");
}

void wi_side_conn_free(struct wi_side_conn *c)
{
    hang_up(c);
    wi_auth_destroy(c->auth);
    wi_auth_stream_end(&c->seal);
    wi_auth_stream_end(&c->opener.stream);
    wi_store_buf_fini(&c->in);
    wi_store_buf_fini(&c->out);
    wi_free(c);
}

/* ---- How it begins ---- */

static struct wi_side_conn *conn_new(struct wi_side *side, int asks)
{
    struct wi_side_conn *c = wi_calloc(1, sizeof *c);

    if (!c)
        return NULL;
    c->side = side;
    c->asks = asks;
    c->fd = -1;
    wi_store_buf_init(&c->in, WEFT_AUTH_MESSAGE_MAX);
    wi_store_buf_init(&c->out, ROOM);
    return c;
}

static void begin_to_connect(struct wi_side_conn *c)
{
    unsigned char address[WI_SIDE_ADDRESS_MAX];
    const struct wi_side_group_config *g = &c->group->config;
    size_t bytes = g->address_of(g->arg, c->peer, address);
    struct wi_sockaddr at = {.bytes = (socklen_t)bytes};
    int pending;

    if (!bytes) {
        fail(c, WEFT_ENOTSUP, "has no side channel");
        return;
    }
    memcpy(&at.ss, address, bytes);
    c->fd = wi_socket_connect(&at, &pending);
    if (c->fd < 0)
        fail(c, errno == EMFILE || errno == ENFILE ? WEFT_ENOFILES : WEFT_EPEER, "%s", strerror(errno));
}

struct wi_side_conn *wi_side_conn_ask(struct wi_side_group *group, int peer, const void *data, size_t bytes)
{
    unsigned char claim[WEFT_AUTH_CLAIM_MAX];
    size_t n = wi_side_claim(group, group->config.rank, peer, claim);
    const struct wi_side_config *config = &group->side->config;
    struct wi_side_conn *c = conn_new(group->side, 1);
    struct wi_auth_key key;

    if (!c)
        return NULL;
    c->group = group;
    c->peer = peer;
    c->bytes = bytes;
    if (bytes)
        memcpy(c->data, data, bytes);
    c->deadline_ns = wi_deadline_ns(group->config.timeout_ns);
    if (config->find_key(config->find_arg, claim, n, &key))
        c->auth = wi_auth_create(&key, 0, claim, n);
    explicit_bzero(&key, sizeof key);
    if (!c->auth)
        fail(c, WEFT_ENOMEM, "no memory for a handshake");
    else
        begin_to_connect(c);
    return c;
}

/* A hello that is not for a rank of this process gets no answer. */
static int is_for_us(void *arg, const void *claim, size_t bytes)
{
    int from;

    return wi_side_group_of(arg, claim, bytes, &from) != NULL;
}

struct wi_side_conn *wi_side_conn_accept(struct wi_side *side, int fd)
{
    const struct wi_side_config *config = &side->config;
    unsigned char claim[WEFT_AUTH_CLAIM_MAX] = {0};
    struct wi_side_conn *c = conn_new(side, 0);

    if (!c)
        return NULL;
    c->fd = fd;
    c->peer = -1;
    c->state = WI_SIDE_PROVING;
    c->deadline_ns = wi_deadline_ns(STRANGER_NS);
    c->auth = wi_auth_create_server(config->find_key, config->find_arg, claim, sizeof claim);
    if (!c->auth) {
        c->fd = -1;
        wi_side_conn_free(c);
        return NULL;
    }
    wi_auth_remember(c->auth, config->seen);
    wi_auth_expect(c->auth, is_for_us, side);
    wi_half_open_begin(&c->half_open, fd, wi_now_ns());
    return c;
}

/* ---- Proving the key ---- */

static void flush(struct wi_side_conn *c)
{
    if (wi_store_buf_send(&c->out, c->fd) < 0)
        fail(c, WEFT_EPEER, "%s", strerror(errno));
}

static void say(struct wi_side_conn *c, const char *what, const void *data, size_t bytes)
{
    c->out.seal = &c->seal;
    if (wi_store_frame_append(&c->out, c->asks ? WI_STORE_PUT : WI_STORE_VALUE, what, data, bytes))
        fail(c, WEFT_ENOMEM, "no memory for what is said");
    else
        flush(c);
}

static void proven(struct wi_side_conn *c, const unsigned char *claim, size_t bytes)
{
    if (wi_auth_streams(c->auth, &c->seal, &c->opener.stream) < 0) {
        fail(c, WEFT_ENOMEM, "no memory for a sealed connection");
        return;
    }
    wi_auth_destroy(c->auth);
    c->auth = NULL;
    c->in.limit = ROOM;
    c->state = WI_SIDE_TALKING;
    if (c->asks) {
        say(c, "question", c->data, c->bytes);
        return;
    }
    c->group = wi_side_group_of(c->side, claim, bytes, &c->peer);
    if (!c->group)
        fail(c, WEFT_EPEER, "its communicator is gone");
    else
        c->deadline_ns = wi_deadline_ns(c->group->config.timeout_ns);
}

static void prove(struct wi_side_conn *c)
{
    unsigned char out[WEFT_AUTH_MESSAGE_MAX], claim[WEFT_AUTH_CLAIM_MAX];
    size_t consumed, out_bytes, claim_bytes = 0;
    weft_status st = wi_auth_step(c->auth, c->in.data ? c->in.data + c->in.begin : NULL, wi_store_buf_bytes(&c->in),
                                  &consumed, out, sizeof out, &out_bytes, claim, &claim_bytes);

    if (st < 0) {
        fail(c, WEFT_EAUTH, "does not know this job's key");
        return;
    }
    wi_store_buf_consume(&c->in, consumed);
    c->half_open.hello_verified |= !c->asks && out_bytes > 0;
    if (wi_store_buf_append(&c->out, out, out_bytes)) {
        fail(c, WEFT_ENOMEM, "no memory for a handshake");
        return;
    }
    flush(c);
    if (st == WEFT_SUCCESS && c->fd >= 0)
        proven(c, claim, claim_bytes);
}

/* ---- Question and answer ---- */

static void heard(struct wi_side_conn *c, const struct wi_store_frame *frame)
{
    if (frame->type != (c->asks ? WI_STORE_VALUE : WI_STORE_PUT) || frame->value_bytes > WEFT_SIDE_MAX ||
        c->state != WI_SIDE_TALKING) {
        fail(c, WEFT_EPROTO, "answered what was not asked (%zu bytes)", frame->value_bytes);
        return;
    }
    c->bytes = frame->value_bytes;
    if (c->bytes)
        memcpy(c->data, frame->value, c->bytes);
    c->state = c->asks ? WI_SIDE_TOLD : WI_SIDE_ASKED;
    wi_side_group_tell(c->group);
    if (c->asks)
        hang_up(c);
}

static void listen_to(struct wi_side_conn *c)
{
    struct wi_store_frame frame;
    long bytes = wi_store_frame_open(&c->opener, c->in.data + c->in.begin, wi_store_buf_bytes(&c->in), &frame);

    if (bytes == -2)
        fail(c, WEFT_EAUTH, "its answer was changed on its way");
    else if (bytes < 0)
        fail(c, bytes == -3 ? WEFT_ENOMEM : WEFT_EPROTO,
             bytes == -3 ? "no memory to check its answer" : "sent what is no answer");
    else if (bytes > 0) {
        heard(c, &frame);
        wi_store_buf_consume(&c->in, (size_t)bytes);
    }
}

int wi_side_conn_reply(struct wi_side_conn *c, const void *data, size_t bytes)
{
    c->state = WI_SIDE_TOLD;
    say(c, "answer", data, bytes);
    return c->dead ? -1 : 0;
}

/* ---- Events ---- */

short wi_side_conn_events(const struct wi_side_conn *c)
{
    if (c->state == WI_SIDE_CONNECTING)
        return POLLOUT;
    return (short)(POLLIN | (wi_store_buf_bytes(&c->out) ? POLLOUT : 0));
}

static void connected(struct wi_side_conn *c)
{
    int err = 0;
    socklen_t bytes = sizeof err;

    getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &err, &bytes);
    if (err) {
        fail(c, WEFT_EPEER, "%s", strerror(err));
        return;
    }
    c->state = WI_SIDE_PROVING;
    prove(c);
}

void wi_side_conn_ready(struct wi_side_conn *c, short revents)
{
    int got;

    if (c->state == WI_SIDE_CONNECTING) {
        connected(c);
        return;
    }
    if (revents & POLLOUT)
        flush(c);
    if (c->fd < 0 || !(revents & (POLLIN | POLLHUP | POLLERR)))
        return;
    errno = 0;
    got = wi_store_buf_recv(&c->in, c->fd, c->in.limit - wi_store_buf_bytes(&c->in));
    if (c->state == WI_SIDE_PROVING && wi_store_buf_bytes(&c->in))
        prove(c);
    if (c->fd >= 0 && c->state == WI_SIDE_TALKING && wi_store_buf_bytes(&c->in))
        listen_to(c);
    if (c->fd >= 0 && got < 0 && errno == ENOBUFS)
        fail(c, WEFT_EPROTO, "sent more than %d bytes", WEFT_SIDE_MAX);
    else if (c->fd >= 0 && got <= 0)
        fail(c, WEFT_EPEER, "closed the connection: it has left, or has ended");
}
