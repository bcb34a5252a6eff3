/* SPDX-License-Identifier: BSD-3-Clause */
/* Joining: publish an address, learn the neighbours', connect to them and be connected to, until all ranks have joined. One
 * poll loop; strangers on the listening sockets are dropped after two seconds or at the first wrong byte. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fds.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/status.h"
#include "net/bootstrap_mesh.h"

#define STRANGER_NS 2000000000ull
#define RETRY_FIRST_NS 2000000ull
#define RETRY_LAST_NS 50000000ull

/* What a rank publishes: 64 bytes. */
#define RECORD_BYTES 64
#define RECORD_VERSION 2
enum record_flags { RECORD_TCP = 1, RECORD_AT_STORE = 2 /* the address is the store's */ };

static void link_reset(struct wi_boot_link *link)
{
    if (link->fd >= 0)
        wi_fd_close(link->fd);
    wi_auth_destroy(link->auth);
    wi_auth_stream_end(&link->stream);
    wi_store_buf_fini(&link->out);
    link->fd = -1;
    link->auth = NULL;
    link->connecting = link->ready = link->half_open.hello_verified = 0;
}

void wi_boot_link_close(struct wi_boot_link *link)
{
    link_reset(link);
    link->peer = link->round = -1;
}

static void local_name(const unsigned char *nonce, struct wi_sockaddr *at)
{
    char name[40];
    snprintf(name, sizeof(name), "weft-link-%016llx", (unsigned long long)wi_get64(nonce));
    wi_sockaddr_local(at, name, 0);
}

/* Where others reach this rank: the named interface, else the address from which it reached the store, else (the store is on
 * this host) the host's own. Rank 0 is reached where its store is. Bound to that address only. */
static weft_status tcp_listen(struct wi_boot *mesh, const char *interfaces, unsigned char *record)
{
    struct wi_sockaddr at = mesh->store.local;
    int at_store = mesh->base.rank == 0 && !interfaces;
    if (interfaces || at.ss.ss_family == AF_UNIX || (wi_sockaddr_loopback(&at) && !at_store))
        if (wi_interface_address(interfaces, &at) < 0 && interfaces)
            return WEFT_ECONFIG;
    if (at.ss.ss_family == AF_UNIX)
        return WEFT_SUCCESS;
    wi_sockaddr_set_port(&at, 0);
    mesh->listen_fds[1] = wi_socket_listen(&at, "start-up links");
    if (mesh->listen_fds[1] < 0)
        return wi_fail_errno(errno, "listen for the other ranks");

    struct wi_sockaddr bound = {.bytes = sizeof(bound.ss)};
    getsockname(mesh->listen_fds[1], (struct sockaddr *)&bound.ss, &bound.bytes);
    record[1] = (unsigned char)(RECORD_TCP | (at_store ? RECORD_AT_STORE : 0));
    record[2] = at.ss.ss_family == AF_INET6 ? 6 : 4;
    wi_put32(record + 4, wi_sockaddr_port(&bound));
    if (at.ss.ss_family == AF_INET6)
        memcpy(record + 8, &((struct sockaddr_in6 *)&at.ss)->sin6_addr, 16);
    else
        memcpy(record + 8, &((struct sockaddr_in *)&at.ss)->sin_addr, 4);
    return WEFT_SUCCESS;
}

static weft_status mesh_listen(struct wi_boot *mesh, const char *interfaces, unsigned char *record)
{
    struct wi_sockaddr at;
    memset(record, 0, RECORD_BYTES);
    record[0] = RECORD_VERSION;
    wi_put64(record + 24, mesh->node.id[0]);
    wi_put64(record + 32, mesh->node.id[1]);
    if (wi_random(record + 40, 8))
        return wi_fail_errno(errno, "random bytes");
    local_name(record + 40, &at);
    mesh->listen_fds[0] = wi_socket_listen(&at, "start-up links");
    if (mesh->listen_fds[0] < 0)
        return wi_fail_errno(errno, "listen for the other ranks of this host");
    return mesh->local_only ? WEFT_SUCCESS : tcp_listen(mesh, interfaces, record);
}

static weft_status record_address(const struct wi_boot *mesh, const struct wi_store_frame *frame,
                                  struct wi_sockaddr *at)
{
    const unsigned char *record = frame->value;
    if (frame->value_bytes != RECORD_BYTES || record[0] != RECORD_VERSION)
        return WEFT_EPROTO;
    int same_node = wi_get64(record + 24) == mesh->node.id[0] && wi_get64(record + 32) == mesh->node.id[1];
    if (same_node || !(record[1] & RECORD_TCP)) {
        local_name(record + 40, at);
        return WEFT_SUCCESS;
    }
    memset(at, 0, sizeof(*at));
    if ((record[1] & RECORD_AT_STORE) && mesh->store.remote.ss.ss_family != AF_UNIX) {
        *at = mesh->store.remote;
    } else if (record[2] == 6) {
        at->ss.ss_family = AF_INET6;
        at->bytes = sizeof(struct sockaddr_in6);
        memcpy(&((struct sockaddr_in6 *)&at->ss)->sin6_addr, record + 8, 16);
    } else {
        at->ss.ss_family = AF_INET;
        at->bytes = sizeof(struct sockaddr_in);
        memcpy(&((struct sockaddr_in *)&at->ss)->sin_addr, record + 8, 4);
    }
    wi_sockaddr_set_port(at, (uint16_t)wi_get32(record + 4));
    return WEFT_SUCCESS;
}

static int claim_fits(const struct wi_boot *mesh, const struct wi_store_claim *claim)
{
    return claim->kind == 'L' && claim->nranks == mesh->base.nranks &&
           !memcmp(claim->session, mesh->store.session, sizeof(claim->session));
}

/* The key of a hello that is meant for this rank in this start; another one is closed without a reply. */
static int find_key(void *arg, const void *bytes, size_t n, struct wi_auth_key *key)
{
    const struct wi_boot *mesh = arg;
    struct wi_store_claim claim;
    if (wi_store_claim_read(bytes, n, &claim) || !claim_fits(mesh, &claim) || claim.pid != mesh->base.rank)
        return 0;
    *key = mesh->link_key;
    return 1;
}

static weft_status link_begin(struct wi_boot *mesh, struct wi_boot_link *link, int is_server)
{
    unsigned char bytes[WEFT_AUTH_CLAIM_MAX];
    struct wi_store_claim claim;
    wi_store_claim_self(&claim, mesh->base.rank, mesh->base.nranks);
    claim.kind = 'L';
    claim.pid = is_server ? -1 : link->peer;
    memcpy(claim.session, mesh->store.session, sizeof(claim.session));
    size_t n = wi_store_claim_write(&claim, bytes);
    link->auth =
        is_server ? wi_auth_create_server(find_key, mesh, bytes, n) : wi_auth_create(&mesh->link_key, 0, bytes, n);
    if (link->auth && is_server)
        wi_auth_remember(link->auth, mesh->seen);
    wi_store_buf_init(&link->out, 2 * WEFT_AUTH_MESSAGE_MAX);
    return link->auth ? WEFT_SUCCESS : wi_fail(WEFT_ENOMEM, "no memory for a handshake");
}

/* A peer that has published its address listens; if it refuses it is too busy with strangers, or gone. The store says
 * which, so just try again. */
static void link_later(struct wi_boot_link *link)
{
    link_reset(link);
    link->pause_ns = link->pause_ns ? 2 * link->pause_ns : RETRY_FIRST_NS;
    if (link->pause_ns > RETRY_LAST_NS)
        link->pause_ns = RETRY_LAST_NS;
    link->deadline_ns = wi_deadline_ns(link->pause_ns);
}

/* Step a handshake with what has arrived. 1: ready, 0: under way, -1: broken. Bytes behind the handshake belong to the first
 * all-gather, so only what the handshake takes is taken from the socket. */
static int link_handshake(struct wi_boot_link *link, struct wi_store_claim *claim)
{
    unsigned char in[WEFT_AUTH_MESSAGE_MAX], out[WEFT_AUTH_MESSAGE_MAX], peer[WEFT_AUTH_CLAIM_MAX];
    size_t consumed, out_bytes, peer_bytes;
    for (;;) {
        ssize_t got = recv(link->fd, in, sizeof(in), MSG_PEEK | MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
            return -1;
        size_t in_bytes = got < 0 ? 0 : (size_t)got;
        weft_status st =
            wi_auth_step(link->auth, in, in_bytes, &consumed, out, sizeof(out), &out_bytes, peer, &peer_bytes);
        if (st < 0 || (consumed && recv(link->fd, in, consumed, MSG_DONTWAIT) != (ssize_t)consumed))
            return -1;
        link->half_open.hello_verified |= out_bytes > 0;
        if (wi_store_buf_append(&link->out, out, out_bytes) || wi_store_buf_send(&link->out, link->fd) < 0)
            return -1;
        if (st == WEFT_SUCCESS)
            return wi_store_claim_read(peer, peer_bytes, claim) || wi_store_buf_bytes(&link->out) ? -1 : 1;
        if (!in_bytes)
            return 0;
    }
}

static weft_status link_done(struct wi_boot_link *link)
{
    WI_TRY(wi_auth_streams(link->auth, &link->stream, NULL));
    wi_auth_destroy(link->auth);
    wi_store_buf_fini(&link->out);
    link->auth = NULL;
    link->ready = 1;
    return WEFT_SUCCESS;
}

static void out_event(struct wi_boot *mesh, struct wi_boot_link *link)
{
    struct wi_store_claim claim;
    int err = 0;
    socklen_t err_bytes = sizeof(err);
    if (link->connecting && (getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &err, &err_bytes) || err)) {
        link_later(link);
        return;
    }
    link->connecting = 0;
    int done = link_handshake(link, &claim);
    if (done < 0 || (done > 0 && (!claim_fits(mesh, &claim) || claim.rank != link->peer || link_done(link) < 0)))
        link_later(link);
}

static weft_status out_start(struct wi_boot *mesh, struct wi_boot_link *link)
{
    link->fd = wi_socket_connect(&link->at, &link->connecting);
    if (link->fd < 0) {
        if (errno == EMFILE || errno == ENFILE)
            return wi_fail_errno(errno, "connect to rank %d", link->peer);
        link_later(link);
        return WEFT_SUCCESS;
    }
    WI_TRY(link_begin(mesh, link, 0));
    if (!link->connecting)
        out_event(mesh, link);
    return WEFT_SUCCESS;
}

/* A stranger has proven to be a rank: it must be one that this rank expects, once. */
static void stranger_admit(struct wi_boot *mesh, struct wi_boot_link *stranger, const struct wi_store_claim *claim)
{
    int nranks = mesh->base.nranks;
    for (int k = 0; k < mesh->nrounds && claim_fits(mesh, claim) && claim->pid == mesh->base.rank; k++) {
        struct wi_boot_link *in = &mesh->in[k];
        if (claim->rank != (int)(((int64_t)mesh->base.rank + (1 << k)) % nranks) || in->ready)
            continue;
        if (wi_auth_streams(stranger->auth, NULL, &in->stream) < 0)
            break;
        in->fd = stranger->fd;
        in->peer = claim->rank;
        in->ready = 1;
        stranger->fd = -1;
        break;
    }
    wi_boot_link_close(stranger);
}

static void stranger_event(struct wi_boot *mesh, struct wi_boot_link *stranger)
{
    struct wi_store_claim claim;
    int done = link_handshake(stranger, &claim);
    if (done < 0)
        wi_boot_link_close(stranger);
    else if (done > 0)
        stranger_admit(mesh, stranger, &claim);
}

/* NULL: no room for one more from there. */
static struct wi_boot_link *stranger_slot(struct wi_boot *mesh, uint64_t source)
{
    struct wi_half_open_table table = {.source = source, .capacity = WI_BOOT_HALF_OPEN, .now_ns = wi_now_ns()};
    struct wi_boot_link *slot = NULL;
    void *gives_way;
    for (int i = 0; i < WI_BOOT_HALF_OPEN; i++) {
        struct wi_boot_link *s = &mesh->strangers[i];
        if (s->fd < 0)
            slot = s;
        else
            wi_half_open_look(&table, &s->half_open, s);
    }
    if (wi_half_open_decide(&table, &gives_way))
        return NULL;
    if (gives_way) {
        slot = gives_way;
        wi_boot_link_close(slot);
    }
    return slot;
}

/* For want of a descriptor: the oldest connection that has not shown the key gives its own back. 0: there is none. */
static int stranger_gives_way(struct wi_boot *mesh)
{
    struct wi_half_open_table table = {.now_ns = wi_now_ns()};
    for (int i = 0; i < WI_BOOT_HALF_OPEN; i++)
        if (mesh->strangers[i].fd >= 0)
            wi_half_open_look(&table, &mesh->strangers[i].half_open, &mesh->strangers[i]);
    if (table.oldest)
        wi_boot_link_close(table.oldest);
    return table.oldest != NULL;
}

static weft_status mesh_accept(struct wi_boot *mesh, int listen_fd)
{
    for (int i = 0; i < wi_half_open_burst(WI_BOOT_HALF_OPEN); i++) {
        struct wi_half_open half_open;
        int fd = wi_socket_accept(listen_fd), err = fd < 0 ? errno : 0;
        if ((err == EMFILE || err == ENFILE) && !stranger_gives_way(mesh))
            return wi_fail_errno(err, "accept a rank's connection");
        if (wi_accept_result(&mesh->pause, err, "bootstrap.accept") || fd < 0)
            return WEFT_SUCCESS;
        wi_half_open_begin(&half_open, fd, wi_now_ns());
        struct wi_boot_link *stranger = stranger_slot(mesh, half_open.source);
        if (!stranger) {
            wi_fd_close(fd);
            continue;
        }
        stranger->fd = fd;
        stranger->half_open = half_open;
        stranger->deadline_ns = wi_deadline_ns(STRANGER_NS);
        weft_status st = link_begin(mesh, stranger, 1);
        if (st < 0) {
            wi_boot_link_close(stranger);
            return st;
        }
        stranger_event(mesh, stranger);
    }
    return WEFT_SUCCESS;
}

static void on_value(void *arg, const struct wi_store_frame *frame)
{
    struct wi_boot *mesh = arg;
    if (!strcmp(frame->key, WI_STORE_KEY_ALL)) {
        mesh->everybody = 1;
        return;
    }
    if (!strcmp(frame->key, WI_STORE_KEY_REFUSAL)) {
        if (wi_store_verdict_read(frame->value, frame->value_bytes, &mesh->refusal))
            wi_boot_fail(mesh, WEFT_EPROTO, 0, "rank 0's start-up store sent a malformed verdict");
        return;
    }
    if (strncmp(frame->key, "addr/", 5))
        return;
    int peer = atoi(frame->key + 5);
    for (int k = 0; k < mesh->nrounds; k++) {
        struct wi_boot_link *link = &mesh->out[k];
        if (link->peer != peer || link->at.bytes)
            continue;
        if (record_address(mesh, frame, &link->at) < 0)
            wi_boot_fail(mesh, WEFT_EPROTO, peer, "rank %d published a malformed address", peer);
    }
}

static int mesh_joined(const struct wi_boot *mesh)
{
    int ready = mesh->everybody;
    for (int k = 0; k < mesh->nrounds; k++)
        ready &= mesh->out[k].ready && mesh->in[k].ready;
    return ready;
}

static weft_status mesh_announce(struct wi_boot *mesh, const unsigned char *record)
{
    struct wi_store_buf *out = &mesh->store.out;
    char key[32];
    snprintf(key, sizeof(key), "addr/%d", mesh->base.rank);
    int bad = wi_store_frame_append(out, WI_STORE_PUT, key, record, RECORD_BYTES);
    for (int k = 0; k < mesh->nrounds; k++) {
        snprintf(key, sizeof(key), "addr/%d", mesh->out[k].peer);
        bad |= wi_store_frame_append(out, WI_STORE_GET, key, NULL, 0);
    }
    bad |= wi_store_frame_append(out, WI_STORE_GET, WI_STORE_KEY_ALL, NULL, 0);
    /* Last: once all have entered, the store has heard every question and may close after answering. */
    wi_boot_say_step(mesh, WI_STORE_ENTER, 0);
    return bad ? wi_fail(WEFT_ENOMEM, "no memory for start-up messages") : WEFT_SUCCESS;
}

struct join_poll {
    struct pollfd fds[3 + WI_BOOT_ROUNDS + WI_BOOT_HALF_OPEN];
    struct wi_boot_link *links[3 + WI_BOOT_ROUNDS + WI_BOOT_HALF_OPEN];
    int n;
    uint64_t deadline_ns;
};

static void poll_add(struct join_poll *poll, int fd, struct wi_boot_link *link, int wants_out)
{
    if (fd < 0)
        return;
    poll->links[poll->n] = link;
    poll->fds[poll->n++] = (struct pollfd){.fd = fd, .events = (short)(POLLIN | (wants_out ? POLLOUT : 0))};
}

static void poll_until(struct join_poll *poll, uint64_t deadline_ns)
{
    if (deadline_ns < poll->deadline_ns)
        poll->deadline_ns = deadline_ns;
}

static weft_status poll_prepare(struct wi_boot *mesh, struct join_poll *poll, uint64_t deadline_ns)
{
    uint64_t now = wi_now_ns();
    poll->n = 0;
    poll->deadline_ns = deadline_ns;
    for (int k = 0; k < mesh->nrounds; k++) {
        struct wi_boot_link *link = &mesh->out[k];
        if (link->ready || !link->at.bytes)
            continue;
        if (link->fd < 0 && link->deadline_ns <= now)
            WI_TRY(out_start(mesh, link));
        if (link->fd < 0)
            poll_until(poll, link->deadline_ns);
        else if (!link->ready)
            poll_add(poll, link->fd, link, link->connecting);
    }
    for (int i = 0; i < WI_BOOT_HALF_OPEN; i++) {
        struct wi_boot_link *stranger = &mesh->strangers[i];
        if (stranger->fd >= 0 && stranger->deadline_ns <= now)
            wi_boot_link_close(stranger);
        if (stranger->fd < 0)
            continue;
        poll_until(poll, stranger->deadline_ns);
        poll_add(poll, stranger->fd, stranger, 0);
    }
    poll_add(poll, mesh->store.closed ? -1 : mesh->store.fd, NULL, wi_store_buf_bytes(&mesh->store.out) > 0);
    if (mesh->pause.again_ns && !wi_accept_resumes(&mesh->pause)) {
        poll_until(poll, mesh->pause.again_ns);
        return WEFT_SUCCESS;
    }
    poll_add(poll, mesh->listen_fds[0], NULL, 0);
    poll_add(poll, mesh->listen_fds[1], NULL, 0);
    return WEFT_SUCCESS;
}

static weft_status join_events(struct wi_boot *mesh, struct join_poll *poll)
{
    for (int i = 0; i < poll->n; i++) {
        struct wi_boot_link *link = poll->links[i];
        if (!poll->fds[i].revents)
            continue;
        if (!link && poll->fds[i].fd != mesh->store.fd)
            WI_TRY(mesh_accept(mesh, poll->fds[i].fd));
        else if (link && link->fd == poll->fds[i].fd && !link->ready)
            link->peer >= 0 ? out_event(mesh, link) : stranger_event(mesh, link);
    }
    return wi_boot_store_pump(mesh, on_value);
}

static weft_status join_timed_out(struct wi_boot *mesh, double seconds)
{
    const char *refusal = mesh->refusal.text;
    char text[160];
    wi_boot_missing_text(mesh, text, sizeof(text));
    if (text[0])
        return wi_boot_fail(mesh, WEFT_ETIMEDOUT, (int)mesh->store.missing[0], "%s did not join within %.3g s%s%s",
                            text, seconds, *refusal ? "; " : "", refusal);
    for (int k = 0; k < mesh->nrounds; k++) {
        int peer = (int)(((int64_t)mesh->base.rank + (1 << k)) % mesh->base.nranks);
        if (!mesh->out[k].ready)
            return wi_boot_fail(mesh, WEFT_ETIMEDOUT, mesh->out[k].peer,
                                "rank %d could not connect to rank %d within %.3g s", mesh->base.rank,
                                mesh->out[k].peer, seconds);
        if (!mesh->in[k].ready)
            return wi_boot_fail(mesh, WEFT_ETIMEDOUT, peer, "rank %d did not connect to rank %d within %.3g s", peer,
                                mesh->base.rank, seconds);
    }
    return wi_boot_fail(mesh, WEFT_ETIMEDOUT, -1, "not all of %d ranks joined within %.3g s", mesh->base.nranks,
                        seconds);
}

static weft_status join_loop(struct wi_boot *mesh, uint64_t deadline_ns)
{
    struct join_poll p;
    uint64_t begin = wi_now_ns(), ask = wi_boot_ask_ns(begin, deadline_ns);
    int asked = 0;
    while (!mesh_joined(mesh)) {
        uint64_t now = wi_now_ns();
        if (now >= ask && !asked++) {
            wi_store_frame_append(&mesh->store.out, WI_STORE_GET, WI_STORE_KEY_REFUSAL, NULL, 0);
            wi_boot_say_step(mesh, WI_STORE_WHO, 0);
            deadline_ns = wi_boot_answer_ns(now, ask, deadline_ns);
        }
        if (now >= deadline_ns)
            return join_timed_out(mesh, (double)(now - begin) / 1e9);
        WI_TRY(poll_prepare(mesh, &p, asked ? deadline_ns : ask));
        if (mesh_joined(mesh))
            break;
        if (poll(p.fds, (nfds_t)p.n, wi_poll_ms(p.deadline_ns)) < 0 && errno != EINTR)
            return wi_fail_errno(errno, "wait for the other ranks");
        WI_TRY(join_events(mesh, &p));
        if (mesh->failed)
            return mesh->failed;
    }
    return WEFT_SUCCESS;
}

weft_status wi_boot_join(struct wi_boot *mesh, uint64_t deadline_ns)
{
    unsigned char record[RECORD_BYTES];
    weft_status st = mesh_listen(mesh, mesh->interfaces, record);
    if (st == WEFT_SUCCESS)
        st = mesh_announce(mesh, record);
    if (st == WEFT_SUCCESS && !(mesh->seen = wi_auth_seen_create()))
        st = wi_fail(WEFT_ENOMEM, "no memory for start-up");
    if (st == WEFT_SUCCESS)
        st = wi_boot_store_pump(mesh, on_value);
    if (st == WEFT_SUCCESS)
        st = join_loop(mesh, deadline_ns);
    for (int i = 0; i < WI_BOOT_HALF_OPEN; i++)
        wi_boot_link_close(&mesh->strangers[i]);
    wi_auth_seen_destroy(mesh->seen);
    mesh->seen = NULL;
    for (int i = 0; i < 2; i++) {
        if (mesh->listen_fds[i] >= 0)
            wi_fd_close(mesh->listen_fds[i]);
        mesh->listen_fds[i] = -1;
    }
    return st;
}
