/* SPDX-License-Identifier: BSD-3-Clause */
/* One connection of the side channel, in the thread that has them all. */
#include "net/side_conn.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fds.h"

#define PROVE_NS 2000000000ull
#define ROOM (2u * WEFT_SIDE_MAX)
#define AGAIN_NS 10000000ull /* doubled five times, and a little that differs among ranks */
#define AGAIN_DOUBLED 5

/* ---- How it ends ---- */

static void hang_up(struct wi_side_conn *c)
{
    if (c->fd >= 0)
        wi_fd_close(c->fd);
    c->fd = -1;
    wi_auth_destroy(c->auth);
    c->auth = NULL;
    wi_auth_stream_end(&c->seal);
    wi_auth_stream_end(&c->opener.stream);
    c->opener = (struct wi_store_opener){.head_opened = 0};
    wi_store_buf_fini(&c->in);
    wi_store_buf_fini(&c->out);
}

void wi_side_conn_free(struct wi_side_conn *c)
{
    hang_up(c);
    if (c->x && c->requests)
        wi_free(c->x);
    else if (c->x)
        wi_side_forget(c->side, c->x);
    wi_free(c);
}

/* For good. A requester's transport is told why; a stranger, or one that requests here, is let go without a word. */
__attribute__((format(printf, 3, 4))) static void fail(struct wi_side_conn *c, weft_status status, const char *format,
                                                       ...)
{
    char why[sizeof c->x->why];
    va_list ap;

    c->dead = 1;
    if (!c->requests || !c->x)
        return;
    va_start(ap, format);
    vsnprintf(why, sizeof why, format, ap);
    va_end(ap);
    wi_side_end(c->side, c->x, status, why, NULL, 0);
    c->x = NULL;
}

/* The connection is gone. A requester makes another: the other side has closed it for want of room, say. */
static void cut_off(struct wi_side_conn *c, const char *how)
{
    if (!c->requests) {
        c->dead = 1;
        return;
    }
    snprintf(c->cut, sizeof c->cut, "%s", how);
    hang_up(c);
    c->state = WI_SIDE_PAUSED;
    c->again_ns = wi_now_ns() + (AGAIN_NS << c->attempts) + wi_get32(c->x->claim + 20) % 16 * (AGAIN_NS / 16);
    c->attempts += c->attempts < AGAIN_DOUBLED;
}

static void late(struct wi_side_conn *c)
{
    fail(c, WEFT_ETIMEDOUT, "did not respond within %.3g s (%s)", c->x ? (double)c->x->timeout_ns / 1e9 : 0.0,
         c->state == WI_SIDE_WAITING      ? "requested"
         : *c->cut                        ? c->cut
         : c->state == WI_SIDE_CONNECTING ? "no connection"
                                          : "connected");
}

/* ---- How it begins ---- */

static struct wi_side_conn *conn_new(struct wi_side *side, int requests)
{
    struct wi_side_conn *c = wi_calloc(1, sizeof *c);

    if (!c)
        return NULL;
    c->side = side;
    c->requests = requests;
    c->fd = -1;
    wi_store_buf_init(&c->in, WEFT_AUTH_MESSAGE_MAX);
    wi_store_buf_init(&c->out, ROOM);
    return c;
}

/* Others would end the next attempt, too. */
static int may_pass(int err)
{
    return err == ETIMEDOUT || err == EHOSTUNREACH || err == ENETUNREACH || err == ENETDOWN || err == EHOSTDOWN ||
           err == ECONNRESET || err == ECONNABORTED || err == EPIPE || err == EADDRNOTAVAIL || err == EAGAIN ||
           err == EINTR || err == ENOBUFS || err == ENOMEM;
}

static void broken(struct wi_side_conn *c, int err)
{
    if (may_pass(err))
        cut_off(c, err == ECONNRESET || err == EPIPE ? "connection closed" : strerror(err));
    else if (err == ECONNREFUSED)
        fail(c, WEFT_EPEER, "nobody listens there: its process has ended");
    else
        fail(c, err == EMFILE || err == ENFILE ? WEFT_ENOFILES : WEFT_EPEER, "%s", strerror(err));
}

static void begin_attempt(struct wi_side_conn *c)
{
    const struct wi_side_config *config = &c->side->config;
    const struct wi_side_exchange *x = c->x;
    struct wi_auth_key key;
    int pending;

    c->state = WI_SIDE_CONNECTING;
    c->in.limit = WEFT_AUTH_MESSAGE_MAX;
    c->out.seal = NULL;
    if (config->find_key(config->find_arg, x->claim, x->claim_bytes, &key))
        c->auth = wi_auth_create(&key, 0, x->claim, x->claim_bytes);
    explicit_bzero(&key, sizeof key);
    if (!c->auth) {
        fail(c, WEFT_ENOMEM, "no memory for a handshake");
        return;
    }
    c->fd = wi_socket_connect(&x->at, &pending);
    if (c->fd < 0)
        broken(c, errno);
}

struct wi_side_conn *wi_side_conn_request(struct wi_side *side, struct wi_side_exchange *x)
{
    struct wi_side_conn *c = conn_new(side, 1);

    if (!c)
        return NULL;
    c->x = x;
    c->deadline_ns = x->deadline_ns;
    begin_attempt(c);
    return c;
}

/* A hello that is not for a rank of this process gets no answer. */
static int is_for_us(void *arg, const void *claim, size_t bytes)
{
    return wi_side_is_for_us(arg, claim, bytes);
}

static uint64_t prove_deadline(const struct wi_side *side)
{
    return wi_deadline_ns(side->config.prove_ns ? side->config.prove_ns : PROVE_NS);
}

struct wi_side_conn *wi_side_conn_accept(struct wi_side *side, int fd)
{
    const struct wi_side_config *config = &side->config;
    unsigned char claim[WEFT_AUTH_CLAIM_MAX] = {0};
    struct wi_side_conn *c = conn_new(side, 0);

    if (!c) {
        wi_fd_close(fd);
        return NULL;
    }
    c->fd = fd;
    c->state = WI_SIDE_PROVING;
    c->deadline_ns = prove_deadline(side);
    c->auth = wi_auth_create_server(config->find_key, config->find_arg, claim, sizeof claim);
    if (!c->auth) {
        wi_side_conn_free(c);
        return NULL;
    }
    wi_auth_remember(c->auth, config->seen);
    wi_auth_expect(c->auth, is_for_us, side);
    wi_half_open_begin(&c->half_open, fd, wi_now_ns());
    return c;
}

/* ---- What is sent ---- */

static void flush(struct wi_side_conn *c)
{
    if (wi_store_buf_send(&c->out, c->fd) < 0)
        broken(c, errno);
    else if (c->state == WI_SIDE_ENDING && !wi_store_buf_bytes(&c->out))
        shutdown(c->fd, SHUT_WR); /* closing with something unread could destroy the last words on their way */
}

static void say(struct wi_side_conn *c, enum wi_store_frame_type type, const char *what, const void *data, size_t bytes)
{
    c->out.seal = &c->seal;
    if (wi_store_frame_append(&c->out, type, what, data, bytes))
        fail(c, WEFT_ENOMEM, "no memory for what is said");
    else
        flush(c);
}

static void refuse(struct wi_side_conn *c, weft_status status, const char *why)
{
    struct wi_store_verdict verdict = {.status = status, .culprit = -1};
    unsigned char bytes[WI_STORE_VERDICT_MAX];

    snprintf(verdict.text, sizeof verdict.text, "%s", why);
    say(c, WI_STORE_VERDICT, "refused", bytes, wi_store_verdict_write(&verdict, bytes));
}

/* Responder: the transport has responded, or there is none any more. */
static void last_words(struct wi_side_conn *c)
{
    struct wi_side_exchange *x = c->x;

    c->state = WI_SIDE_ENDING;
    c->deadline_ns = prove_deadline(c->side);
    c->x = NULL;
    if (x->status < 0)
        refuse(c, x->status, x->why);
    else
        say(c, WI_STORE_VALUE, "response", x->data, x->bytes);
    wi_free(x);
}

/* ---- Proving the key ---- */

static void proven(struct wi_side_conn *c, const unsigned char *claim, size_t bytes)
{
    const char *why;

    if (wi_auth_streams(c->auth, &c->seal, &c->opener.stream) < 0) {
        fail(c, WEFT_ENOMEM, "no memory for a sealed connection");
        return;
    }
    wi_auth_destroy(c->auth);
    c->auth = NULL;
    c->in.limit = ROOM;
    c->state = WI_SIDE_WAITING;
    if (c->requests) {
        say(c, WI_STORE_PUT, "request", c->x->data, c->x->bytes);
        return;
    }
    c->x = wi_side_admit(c->side, claim, bytes, &why);
    if (c->x) {
        c->deadline_ns = wi_deadline_ns(c->x->timeout_ns);
        return;
    }
    c->state = WI_SIDE_ENDING;
    refuse(c, WEFT_EPEER, why);
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
    c->half_open.hello_verified |= !c->requests && out_bytes > 0;
    if (wi_store_buf_append(&c->out, out, out_bytes)) {
        fail(c, WEFT_ENOMEM, "no memory for a handshake");
        return;
    }
    flush(c);
    if (st == WEFT_SUCCESS && c->fd >= 0 && !c->dead)
        proven(c, claim, claim_bytes);
}

/* ---- What is received ---- */

static void heard_request(struct wi_side_conn *c, const struct wi_store_frame *frame)
{
    if (frame->type != WI_STORE_PUT || strcmp(frame->key, "request") != 0 || frame->value_bytes > WEFT_SIDE_MAX ||
        c->delivered++)
        c->dead = 1;
    else if (wi_side_deliver(c->side, c->x, frame->value, frame->value_bytes))
        c->ended = 1; /* its group was closed meanwhile: last words */
}

static void heard_response(struct wi_side_conn *c, const struct wi_store_frame *frame)
{
    struct wi_store_verdict verdict;

    if (frame->type == WI_STORE_VERDICT && !wi_store_verdict_read(frame->value, frame->value_bytes, &verdict)) {
        fail(c, verdict.status, "%.53s", verdict.text);
    } else if (frame->type != WI_STORE_VALUE || strcmp(frame->key, "response") != 0 ||
               frame->value_bytes > WEFT_SIDE_MAX) {
        fail(c, WEFT_EPROTO, "sent what is no response (%zu bytes)", frame->value_bytes);
    } else {
        wi_side_end(c->side, c->x, WEFT_SUCCESS, "", frame->value, frame->value_bytes);
        c->x = NULL;
        c->dead = 1;
    }
}

static void hear(struct wi_side_conn *c)
{
    struct wi_store_frame frame;
    long bytes = wi_store_frame_open(&c->opener, c->in.data + c->in.begin, wi_store_buf_bytes(&c->in), &frame);

    if (bytes == -2)
        fail(c, WEFT_EAUTH, "its response was changed on its way");
    else if (bytes < 0)
        fail(c, bytes == -3 ? WEFT_ENOMEM : WEFT_EPROTO,
             bytes == -3 ? "no memory to check its response" : "sent what is no response");
    else if (bytes > 0) {
        if (c->requests)
            heard_response(c, &frame);
        else
            heard_request(c, &frame);
        wi_store_buf_consume(&c->in, (size_t)bytes);
    }
}

/* ---- Events ---- */

int wi_side_conn_is_half_open(const struct wi_side_conn *c)
{
    return !c->requests && !c->x && !c->dead;
}

short wi_side_conn_events(const struct wi_side_conn *c)
{
    if (c->state == WI_SIDE_CONNECTING)
        return POLLOUT;
    return (short)(POLLIN | (wi_store_buf_bytes(&c->out) ? POLLOUT : 0));
}

uint64_t wi_side_conn_due(const struct wi_side_conn *c)
{
    return c->state == WI_SIDE_PAUSED && c->again_ns < c->deadline_ns ? c->again_ns : c->deadline_ns;
}

static void connected(struct wi_side_conn *c)
{
    int err = 0;
    socklen_t bytes = sizeof err;

    getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &err, &bytes);
    if (err) {
        broken(c, err);
        return;
    }
    c->state = WI_SIDE_PROVING;
    prove(c);
}

void wi_side_conn_ready(struct wi_side_conn *c, short revents)
{
    int got, full;

    if (c->state == WI_SIDE_CONNECTING) {
        connected(c);
        return;
    }
    if (revents & POLLOUT)
        flush(c);
    if (c->fd < 0 || c->dead || !(revents & (POLLIN | POLLHUP | POLLERR)))
        return;
    if (c->state == WI_SIDE_ENDING) /* nothing is waited for but its end */
        wi_store_buf_consume(&c->in, wi_store_buf_bytes(&c->in));
    errno = 0;
    got = wi_store_buf_recv(&c->in, c->fd, c->in.limit - wi_store_buf_bytes(&c->in));
    full = got < 0 && errno == ENOBUFS;
    if (c->state == WI_SIDE_PROVING && wi_store_buf_bytes(&c->in))
        prove(c);
    if (c->fd >= 0 && !c->dead && c->state == WI_SIDE_WAITING && wi_store_buf_bytes(&c->in))
        hear(c);
    if (c->fd < 0 || c->dead || got > 0)
        return;
    if (full)
        fail(c, WEFT_EPROTO, "sent more than %d bytes", WEFT_SIDE_MAX);
    else
        cut_off(c, "connection closed");
}

void wi_side_conn_tick(struct wi_side_conn *c, uint64_t now)
{
    if (c->dropped) /* requester: the response is not wanted any more */
        c->dead = 1;
    else if (c->ended && c->x && !c->dead)
        last_words(c);
    if (c->dead || now < wi_side_conn_due(c))
        return;
    if (now >= c->deadline_ns)
        late(c);
    else
        begin_attempt(c);
}
