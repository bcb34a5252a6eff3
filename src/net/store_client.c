/* SPDX-License-Identifier: BSD-3-Clause */
/* Finding rank 0's store and talking to it. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fds.h"
#include "base/log.h"
#include "base/status.h"
#include "net/local_key.h"
#include "net/store_client.h"

#define TRY_FIRST_NS 1000000000ull /* for one candidate of several; doubles each round */
#define TRY_LAST_NS 8000000000ull
#define PAUSE_FIRST_NS 1000000ull
#define PAUSE_LAST_NS 50000000ull
#define LEAVE_NS 200000000ull
#define IN_MAX (WI_STORE_HEAD_BYTES + WI_STORE_KEY_MAX + WI_STORE_VALUE_MAX + 8192)

struct attempt {
    uint64_t began_ns;
    weft_status status; /* the most telling failure so far */
    char text[200];
};

/* One that the deadline cut short had no time to be answered: what was heard before says more. */
static int attempt_cut_short(const struct attempt *attempt, weft_status st)
{
    return st == WEFT_ETIMEDOUT && attempt->text[0] && wi_now_ns() - attempt->began_ns < TRY_FIRST_NS;
}

static void attempt_note(struct attempt *attempt, weft_status status, const struct wi_sockaddr *at, const char *what)
{
    char address[80] = "";
    if (attempt->status == WEFT_EAUTH && status != WEFT_EAUTH)
        return;
    if (at)
        wi_sockaddr_text(at, address, sizeof(address));
    if (status == WEFT_EAUTH && attempt->status != WEFT_EAUTH)
        wi_log(WEFT_LOG_WARN, "store.refused", "%s %s; trying on until the deadline", address, what);
    attempt->status = status;
    snprintf(attempt->text, sizeof(attempt->text), "%s%s%.*s", address, at ? ": " : "", at ? 100 : 199, what);
}

static int handshake_send(int fd, const unsigned char *out, size_t bytes, uint64_t deadline_ns)
{
    for (size_t sent = 0; sent < bytes;) {
        ssize_t n = send(fd, out + sent, bytes - sent, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return -1;
        sent += n > 0 ? (size_t)n : 0;
        if (n < 0 && !wi_socket_poll(fd, POLLOUT, deadline_ns))
            return -1;
    }
    return 0;
}

/* Nothing follows the server's reply until the client has proven itself, so that reading more than a message is safe. A server
 * that refuses a hello has read it and closes; a reset is one that closed without having looked: it ended, or gave up. */
static weft_status handshake_recv(int fd, unsigned char *in, size_t *bytes, uint64_t deadline_ns)
{
    for (;;) {
        ssize_t n = recv(fd, in, WEFT_AUTH_MESSAGE_MAX, 0);
        if (n > 0) {
            *bytes = (size_t)n;
            return WEFT_SUCCESS;
        }
        if (n == 0)
            return WEFT_EAUTH;
        if (errno != EAGAIN && errno != EINTR)
            return WEFT_EPEER;
        if (!wi_socket_poll(fd, POLLIN, deadline_ns))
            return WEFT_ETIMEDOUT;
    }
}

static weft_status handshake_loop(int fd, struct weft_auth *auth, unsigned char *claim, size_t *claim_bytes,
                                  uint64_t deadline_ns)
{
    unsigned char in[WEFT_AUTH_MESSAGE_MAX], out[WEFT_AUTH_MESSAGE_MAX];
    size_t in_bytes = 0, consumed, out_bytes;
    for (;;) {
        weft_status st = wi_auth_step(auth, in, in_bytes, &consumed, out, sizeof(out), &out_bytes, claim, claim_bytes);
        if (st < 0 || consumed < in_bytes)
            return WEFT_EAUTH;
        if (handshake_send(fd, out, out_bytes, deadline_ns))
            return WEFT_EPEER;
        if (st == WEFT_SUCCESS)
            return st;
        WI_TRY(handshake_recv(fd, in, &in_bytes, deadline_ns));
    }
}

weft_status wi_auth_client_run(int fd, const struct wi_auth_key *key, const struct wi_store_claim *mine,
                               struct wi_store_claim *theirs, struct wi_auth_stream *out, struct wi_auth_stream *in,
                               uint64_t deadline_ns)
{
    unsigned char claim[WEFT_AUTH_CLAIM_MAX];
    size_t claim_bytes = wi_store_claim_write(mine, claim);
    struct weft_auth *auth = wi_auth_create(key, 0, claim, claim_bytes);
    if (!auth)
        return wi_fail(WEFT_ENOMEM, "no memory for a handshake");
    weft_status st = handshake_loop(fd, auth, claim, &claim_bytes, deadline_ns);
    if (st == WEFT_SUCCESS)
        st = wi_auth_streams(auth, out, in);
    wi_auth_destroy(auth);
    if (st == WEFT_SUCCESS && wi_store_claim_read(claim, claim_bytes, theirs))
        return WEFT_EAUTH;
    return st;
}

/* Returns a connected descriptor, or -1 with the attempt noted. */
static int try_connect(const struct wi_sockaddr *at, uint64_t connected_ns, struct attempt *attempt)
{
    int pending, err = 0;
    socklen_t err_bytes = sizeof(err);
    int fd = wi_socket_connect(at, &pending);
    if (fd < 0) {
        attempt_note(attempt, WEFT_ETIMEDOUT, at, strerror(errno));
        return -1;
    }
    if (pending && !wi_socket_poll(fd, POLLOUT, connected_ns))
        err = ETIMEDOUT;
    else if (pending)
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &err_bytes);
    if (!err)
        return fd;
    attempt_note(attempt, WEFT_ETIMEDOUT, at, strerror(err));
    wi_fd_close(fd);
    return -1;
}

/* The kernel tells whose process listens at a local socket. */
static int is_own_user(int fd, const struct wi_sockaddr *at, struct attempt *attempt)
{
    char text[80];
    uid_t uid;
    if (wi_local_peer_is_self(fd, &uid))
        return 1;
    snprintf(text, sizeof(text), "another user (uid %lld) listens there", uid == (uid_t)-1 ? -1ll : (long long)uid);
    attempt_note(attempt, WEFT_EAUTH, at, text);
    return 0;
}

static const char *handshake_text(weft_status st)
{
    switch (st) {
    case WEFT_ETIMEDOUT:
        return "does not answer";
    case WEFT_EPEER:
        return "closed the connection during the handshake: it ended, gave up, or has no memory";
    case WEFT_EAUTH:
        return "refused the handshake: another job, another job key, another version of weft, or no memory there";
    default:
        return wi_fail_text();
    }
}

/* Connect and authenticate at one candidate. Returns a descriptor, or -1 with the attempt noted. */
static int try_candidate(struct wi_store_client *client, struct wi_store_search *search, const struct wi_sockaddr *at,
                         uint64_t connect_ns, uint64_t deadline_ns, struct attempt *attempt)
{
    struct wi_store_claim mine, theirs;
    struct wi_auth_key key;
    attempt->began_ns = wi_now_ns();
    int fd = try_connect(at, connect_ns < deadline_ns ? connect_ns : deadline_ns, attempt);
    if (fd < 0)
        return -1;
    if (search->own_user && !is_own_user(fd, at, attempt)) {
        wi_fd_close(fd);
        return -1;
    }
    weft_status st = search->ask_key ? wi_local_key_ask(fd, search->job_key, deadline_ns) : WEFT_SUCCESS;
    if (st == WEFT_SUCCESS)
        st = wi_auth_derive(search->job_key, sizeof(search->job_key), search->job, WI_STORE_PURPOSE, &key);
    if (st < 0) {
        if (!attempt_cut_short(attempt, st))
            attempt_note(attempt, st, at, wi_fail_text());
        wi_fd_close(fd);
        return -1;
    }
    wi_store_claim_self(&mine, search->rank, search->nranks);
    st = wi_auth_client_run(fd, &key, &mine, &theirs, &client->seal, &client->opener.stream, deadline_ns);
    explicit_bzero(&key, sizeof(key));
    if (st == WEFT_SUCCESS && theirs.kind == 'S') {
        memcpy(client->session, theirs.session, sizeof(client->session));
        client->remote = *at;
        return fd;
    }
    wi_fd_close(fd);
    st = st == WEFT_SUCCESS ? WEFT_EAUTH : st;
    if (!attempt_cut_short(attempt, st))
        attempt_note(attempt, st, at, handshake_text(st));
    return -1;
}

static int walk(struct wi_store_client *client, struct wi_store_search *search, uint64_t try_ns, uint64_t deadline_ns,
                struct attempt *attempt)
{
    struct wi_sockaddr at[WI_RENDEZVOUS_MAX];
    int nat;
    if (search->refresh && search->refresh(search, search->arg)) {
        attempt_note(attempt, WEFT_ETIMEDOUT, NULL, wi_fail_text());
        return -1;
    }
    if (wi_rendezvous_list(&search->rendezvous, at, &nat) < 0) {
        attempt_note(attempt, WEFT_ETIMEDOUT, NULL, wi_fail_text());
        return -1;
    }
    for (int i = 0; i < nat; i++) {
        /* Connecting anew beats waiting for TCP's ever rarer repetitions; but the only candidate, once connected, is
         * waited for: its process may be starting still. */
        uint64_t connect_ns = wi_deadline_ns(try_ns);
        uint64_t try_deadline = nat == 1 && !search->refresh ? deadline_ns : connect_ns;
        if (try_deadline > deadline_ns)
            try_deadline = deadline_ns;
        int fd = try_candidate(client, search, &at[i], connect_ns, try_deadline, attempt);
        if (fd >= 0 || wi_now_ns() >= deadline_ns)
            return fd;
    }
    return -1;
}

static void pause_ns(uint64_t ns)
{
    struct timespec ts = {.tv_sec = (time_t)(ns / 1000000000ull), .tv_nsec = (long)(ns % 1000000000ull)};
    nanosleep(&ts, NULL);
}

static weft_status search_failed(const struct wi_store_search *search, const struct attempt *attempt, uint64_t began_ns)
{
    double seconds = (double)(wi_now_ns() - began_ns) / 1e9;
    const char *text = attempt->text[0] ? attempt->text : "nothing tried";
    char where[200];
    wi_rendezvous_text(&search->rendezvous, where, sizeof(where));
    if (attempt->status == WEFT_EAUTH)
        return wi_fail(WEFT_EAUTH, "rank 0 (of %d) was not found within %.3g s; %s", search->nranks, seconds,
                       attempt->text);
    if (!where[0]) /* nothing has said where it is */
        return wi_fail(WEFT_ETIMEDOUT, "rank 0 (of %d) did not join within %.3g s, or gave up before: %s",
                       search->nranks, seconds, text);
    return wi_fail(WEFT_ETIMEDOUT, "rank 0 (of %d) did not join within %.3g s, or gave up before: no store at %s (%s)",
                   search->nranks, seconds, where, text);
}

weft_status wi_store_client_connect(struct wi_store_client *client, struct wi_store_search *search,
                                    uint64_t deadline_ns)
{
    struct attempt attempt = {.status = WEFT_ETIMEDOUT};
    uint64_t began = wi_now_ns(), pause = PAUSE_FIRST_NS, try_ns = TRY_FIRST_NS;
    memset(client, 0, sizeof(*client));
    wi_store_buf_init(&client->in, IN_MAX);
    wi_store_buf_init(&client->out, 1 << 20);
    client->fd = -1;
    client->nranks = search->nranks;
    for (;;) {
        client->fd = walk(client, search, try_ns, deadline_ns, &attempt);
        if (client->fd >= 0)
            break;
        uint64_t now = wi_now_ns();
        if (now >= deadline_ns)
            return search_failed(search, &attempt, began);
        pause_ns(pause < deadline_ns - now ? pause : deadline_ns - now);
        pause = 2 * pause < PAUSE_LAST_NS ? 2 * pause : PAUSE_LAST_NS;
        try_ns = try_ns < TRY_LAST_NS ? 2 * try_ns : TRY_LAST_NS;
    }
    client->out.seal = &client->seal;
    client->local.bytes = sizeof(client->local.ss);
    getsockname(client->fd, (struct sockaddr *)&client->local.ss, &client->local.bytes);
    wi_log(WEFT_LOG_DEBUG, "store.found", "rank %d of %d after %.1f ms", search->rank, search->nranks,
           (double)(wi_now_ns() - began) / 1e6);
    return WEFT_SUCCESS;
}

void wi_store_client_leave(struct wi_store_client *client, const struct wi_store_verdict *verdict)
{
    if (client->fd >= 0 && !client->closed) {
        unsigned char text[WI_STORE_VERDICT_MAX];
        uint64_t deadline = wi_deadline_ns(LEAVE_NS);
        if (verdict && !client->judged)
            wi_store_frame_append(&client->out, WI_STORE_FAIL, NULL, text, wi_store_verdict_write(verdict, text));
        else
            wi_store_frame_append(&client->out, WI_STORE_BYE, NULL, NULL, 0);
        while (wi_store_buf_send(&client->out, client->fd) > 0 && wi_store_buf_bytes(&client->out))
            if (!wi_socket_poll(client->fd, POLLOUT, deadline))
                break;
    }
    if (client->fd >= 0) {
        shutdown(client->fd, SHUT_WR);
        wi_fd_close(client->fd);
    }
    client->fd = -1;
    wi_store_buf_fini(&client->in);
    wi_store_buf_fini(&client->out);
    wi_auth_stream_end(&client->seal);
    wi_auth_stream_end(&client->opener.stream);
}

/* The total, and the first of them in ascending order. All of it is checked, because the list is printed and its first rank is
 * blamed. */
static int on_missing(struct wi_store_client *client, const struct wi_store_frame *frame)
{
    if (frame->value_bytes < 12 || frame->value_bytes % 4)
        return -1;
    uint32_t listed = (uint32_t)(frame->value_bytes - 12) / 4, total = wi_get32(frame->value + 8);
    if (total > (uint32_t)client->nranks || listed > total || (listed < total && listed < WI_STORE_CLIENT_MISSING))
        return -1;
    for (uint32_t i = 0; i < listed; i++) {
        uint32_t rank = wi_get32(frame->value + 12 + 4 * i);
        if (rank >= (uint32_t)client->nranks || (i && rank <= wi_get32(frame->value + 8 + 4 * i)))
            return -1;
        if (i < WI_STORE_CLIENT_MISSING)
            client->missing[i] = rank;
    }
    client->missing_total = total;
    client->knows_missing = 1;
    return 0;
}

static int on_frame(struct wi_store_client *client, const struct wi_store_frame *frame,
                    void (*value)(void *arg, const struct wi_store_frame *frame), void *arg)
{
    switch (frame->type) {
    case WI_STORE_VALUE:
        if (value)
            value(arg, frame);
        return 0;
    case WI_STORE_MISSING:
        return on_missing(client, frame);
    case WI_STORE_VERDICT:
        client->judged = 1;
        return wi_store_verdict_read(frame->value, frame->value_bytes, &client->verdict);
    case WI_STORE_CLOSING:
        client->closed = 1;
        return 0;
    default:
        return -1;
    }
}

static void server_lost(struct wi_store_client *client)
{
    if (!client->judged && !client->closed) {
        client->verdict = (struct wi_store_verdict){.status = WEFT_EPEER, .culprit = 0};
        snprintf(client->verdict.text, sizeof(client->verdict.text),
                 "rank 0 is gone: it ended or its connection broke during start-up");
        client->judged = 1;
    }
    client->closed = 1;
}

weft_status wi_store_client_pump(struct wi_store_client *client,
                                 void (*value)(void *arg, const struct wi_store_frame *frame), void *arg)
{
    if (client->closed)
        return WEFT_SUCCESS;
    int alive = wi_store_buf_send(&client->out, client->fd);
    int heard = wi_store_buf_recv(&client->in, client->fd, SIZE_MAX);
    for (;;) {
        struct wi_store_frame frame;
        long bytes = wi_store_frame_open(&client->opener, client->in.data + client->in.begin,
                                         wi_store_buf_bytes(&client->in), &frame);
        if (bytes == -2)
            return wi_fail(WEFT_EAUTH, "what rank 0's start-up store sent was changed on its way");
        if (bytes == -3)
            return wi_fail(WEFT_ENOMEM, "no memory to check what rank 0's start-up store sent");
        if (bytes < 0 || (bytes > 0 && on_frame(client, &frame, value, arg)))
            return wi_fail(WEFT_EPROTO, "rank 0's start-up store sent a malformed frame");
        if (bytes == 0)
            break;
        wi_store_buf_consume(&client->in, (size_t)bytes);
    }
    if (alive < 0 || heard <= 0)
        server_lost(client);
    return WEFT_SUCCESS;
}
