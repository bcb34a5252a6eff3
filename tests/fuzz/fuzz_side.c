/* SPDX-License-Identifier: BSD-3-Clause */
/* The side channel's connections with another side that knows the key and says anything: claims, frames that are sealed as they
 * must be, bytes that are not. The library's side is driven without its thread; between what arrives, its transport takes requests
 * and responds, or its communicator is left. Nothing may crash, wake for ever, or be held twice for one peer.
 *
 * First byte: bit 0 the library requests, else it responds; bit 1 the claim is a right one. Second: a byte of the claim, and its
 * change. Then records: what to do (3 bits) and a length, the bytes. */
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fds.h"
#include "base/status.h"
#include "net/side_conn.h"
#include "tests/fuzz/require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define NRANKS 3

static struct wi_auth_key key = {.key = "a key of 32 bytes, known to both"};
static struct wi_sockaddr local;
static int listener = -1;

struct world {
    struct wi_side side;
    struct wi_side_group *group; /* NULL: left */
    struct wi_side_conn *conn;   /* the library's; NULL: over */
    int fd;                      /* the other side's */
    struct weft_auth *auth;
    struct wi_auth_stream seal, open;
};

static int find_key(void *arg, const void *claim, size_t bytes, struct wi_auth_key *found)
{
    (void)arg, (void)claim, (void)bytes;
    *found = key;
    return 1;
}

static size_t address_of(void *arg, int rank, unsigned char address[WI_SIDE_ADDRESS_MAX])
{
    static const unsigned char at[] = {4, 0, 9, 0, 127, 0, 0, 1};

    (void)arg, (void)rank;
    memcpy(address, at, sizeof at);
    return sizeof at;
}

static const char *host_of(void *arg, int rank)
{
    (void)arg, (void)rank;
    return "host";
}

static void start(void)
{
    wi_sockaddr_local(&local, "weft-fuzz-side", (int)getpid());
    listener = wi_socket_listen(&local, "fuzz");
    require(listener >= 0);
}

/* ---- The library's side ---- */

/* One round of the thread. */
static void round_of(struct world *w, short revents)
{
    struct wi_side_conn *c = w->conn;

    if (!c || (c->state == WI_SIDE_PAUSED && w->group)) /* it would connect again */
        return;
    c->dropped = c->x && c->requests && !c->x->group;
    c->ended = c->x && !c->requests && c->x->state == WI_SIDE_ENDED;
    if (c->fd >= 0 && !c->dead)
        wi_side_conn_ready(c, revents);
    wi_side_conn_tick(c, wi_now_ns());
    require(wi_store_buf_bytes(&c->in) <= 2 * WEFT_SIDE_MAX);
    if (!c->dead)
        return;
    require(!c->requests || !c->x || !c->x->group); /* the request that waits has been told */
    wi_side_conn_free(c);
    w->conn = NULL;
}

static void look_at_group(struct world *w)
{
    struct pollfd fd = {.events = POLLIN};
    int incoming = 0;

    if (!w->group)
        return;
    for (const struct wi_side_exchange *x = w->group->incoming; x; x = x->next, incoming++)
        require(x->group == w->group && x->peer >= 0 && x->peer < NRANKS && x->bytes <= WEFT_SIDE_MAX);
    require(incoming <= 1 && atomic_load(&w->group->news) >= 0);
    require(!w->group->outgoing[2] || w->group->outgoing[2]->bytes <= WEFT_SIDE_MAX);
    fd.fd = wi_side_fd(w->group);
    require(poll(&fd, 1, 0) == (atomic_load(&w->group->news) > 0));
}

static void transport(struct world *w, unsigned what)
{
    static unsigned char room[WEFT_SIDE_MAX];
    char why[WEFT_SIDE_WHY_MAX] = "";
    size_t n = 0;
    int peer = -1;

    if (!w->group)
        return;
    if (wi_side_requested(w->group, &peer, room, what * 20, &n)) {
        require(peer == 2 && n <= what * 20);
        if (what & 1)
            require(wi_side_respond(w->group, peer, room, n) == WEFT_SUCCESS);
    }
    if (w->group->outgoing[2]) {
        weft_status st = wi_side_response(w->group, 2, room, what * 20, &n, why);
        require(st != WEFT_SUCCESS || n <= what * 20);
        require(st >= 0 || strstr(why, "rank 2 on host host"));
    }
}

/* ---- The other side ---- */

static void hear(struct world *w, unsigned char *in, size_t capacity, size_t *got)
{
    ssize_t n = recv(w->fd, in, capacity, MSG_DONTWAIT);

    *got = n > 0 ? (size_t)n : 0;
}

static void say(struct world *w, const void *bytes, size_t n)
{
    if (n && send(w->fd, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        return;
    round_of(w, POLLIN);
}

/* 1: the other side has proven the key. */
static int handshake(struct world *w)
{
    unsigned char in[2 * WEFT_AUTH_MESSAGE_MAX], out[WEFT_AUTH_MESSAGE_MAX], claim[WEFT_AUTH_CLAIM_MAX];
    size_t got = 0, used, bytes, claim_bytes;
    weft_status st = WEFT_INPROGRESS;

    for (int i = 0; i < 8 && st == WEFT_INPROGRESS; i++) {
        hear(w, in, sizeof in, &got);
        st = wi_auth_step(w->auth, in, got, &used, out, sizeof out, &bytes, claim, &claim_bytes);
        if (st >= 0)
            say(w, out, bytes);
    }
    return st == WEFT_SUCCESS && wi_auth_streams(w->auth, &w->seal, &w->open) >= 0;
}

static void say_frame(struct world *w, unsigned type, const char *name, const uint8_t *data, size_t bytes)
{
    struct wi_store_buf out;

    wi_store_buf_init(&out, 4 * WEFT_SIDE_MAX);
    out.seal = &w->seal;
    if (wi_store_frame_append(&out, (enum wi_store_frame_type)type, name, data, bytes) == 0)
        say(w, out.data + out.begin, wi_store_buf_bytes(&out));
    wi_store_buf_fini(&out);
}

static void act(struct world *w, unsigned what, const uint8_t *data, size_t bytes)
{
    static const uint8_t large[WEFT_SIDE_MAX + 1];

    switch (what % 8) {
    case 0:
        say_frame(w, WI_STORE_PUT, "request", data, bytes);
        break;
    case 1:
        say_frame(w, WI_STORE_VALUE, "response", data, bytes);
        break;
    case 2:
        say_frame(w, WI_STORE_VERDICT, "refused", data, bytes);
        break;
    case 3:
        say_frame(w, bytes ? data[0] : 0, "request", data, bytes);
        break;
    case 4:
        say_frame(w, bytes ? WI_STORE_PUT : WI_STORE_VALUE, bytes ? "request" : "response", large,
                  sizeof large - (bytes > 1));
        break;
    case 5:
        say(w, data, bytes); /* not sealed */
        break;
    case 6:
        transport(w, (unsigned)bytes);
        break;
    default:
        if (bytes == 7) {
            wi_side_close(w->group);
            w->group = NULL;
        }
    }
    round_of(w, POLLIN);
    look_at_group(w);
}

/* ---- Both ---- */

static void begin(struct world *w)
{
    struct wi_side_group_config config = {"card", {5, 6}, 1, NRANKS, 60000000000ull, address_of, host_of, NULL};

    memset(w, 0, sizeof *w);
    w->side.config = (struct wi_side_config){.find_key = find_key};
    w->side.wake_fd = w->side.listen_fd = w->fd = -1;
    pthread_mutex_init(&w->side.lock, NULL);
    require(wi_side_open(&w->side, &config, &w->group) == WEFT_SUCCESS);
}

/* The library is the server: rank 2 connects. */
static void library_responds(struct world *w, int right, const uint8_t *change)
{
    struct wi_side_group other = {.config = {.comm_id = {5, 6}, .rank = 2}, .transport = "card"};
    unsigned char claim[WEFT_AUTH_CLAIM_MAX];
    size_t n = wi_side_claim(&other, 1, claim);
    int fds[2];

    if (!right)
        claim[change[0] % WEFT_AUTH_CLAIM_MAX] ^= change[1];
    require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0);
    w->fd = fds[1];
    w->auth = wi_auth_create(&key, 0, claim, n);
    w->conn = wi_side_conn_accept(&w->side, wi_fd_keep(fds[0]));
    require(w->auth && w->conn);
}

static void library_requests(struct world *w, size_t bytes)
{
    static const unsigned char request[256];
    struct wi_side_exchange *x;

    require(wi_side_request(w->group, 2, request, bytes % sizeof request) == WEFT_SUCCESS);
    x = w->side.requested;
    w->side.requested = NULL;
    require(x && x == w->group->outgoing[2]);
    x->at = local;
    w->conn = wi_side_conn_request(&w->side, x);
    require(w->conn != NULL);
    w->fd = accept(listener, NULL, NULL);
    require(w->fd >= 0);
    w->auth = wi_auth_create_server(find_key, NULL, request, 8);
    require(w->auth != NULL);
    round_of(w, POLLOUT);
}

static void end(struct world *w)
{
    wi_side_close(w->group);
    if (w->conn)
        wi_side_conn_free(w->conn);
    wi_auth_destroy(w->auth);
    wi_auth_stream_end(&w->seal);
    wi_auth_stream_end(&w->open);
    close(w->fd);
    pthread_mutex_destroy(&w->side.lock);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct world w;
    size_t at = 3;

    if (listener < 0)
        start();
    if (bytes < at)
        return 0;
    wi_fail_clear();
    begin(&w);
    if (data[0] & 1)
        library_requests(&w, data[1]);
    else
        library_responds(&w, data[0] & 2, data + 1);
    if (handshake(&w))
        while (at < bytes) {
            size_t n = data[at] / 8, left = bytes - at - 1;
            n = n < left ? n : left;
            act(&w, data[at], data + at + 1, n);
            at += 1 + n;
        }
    else if (w.conn)
        act(&w, 5, data + at, bytes - at);
    end(&w);
    return 0;
}
