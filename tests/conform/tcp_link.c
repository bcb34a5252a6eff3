/* tcp_link.c: the tcp transport alone: ranks as endpoints of one process, driven in turns by one thread.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "tests/conform/tcp_world.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <sys/resource.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void two_ranks(void)
{
    struct world w;
    world_defaults(&w, 2);
    world_open(&w, 1);
    exchange_all(&w, 3);
    exchange(&w, large_sizes, 3, 1, 0);
    exchange(&w, large_sizes, 3, 2, 1);
    world_close(&w);
}

static void mesh_of_four(void)
{
    struct world w;
    world_defaults(&w, 4);
    world_open(&w, 1);
    exchange_all(&w, 2);
    world_close(&w);
}

static void four_sockets(void)
{
    struct world w;
    world_defaults(&w, 3);
    for (int i = 0; i < 3; i++) {
        w.settings[i].sockets = i == 1 ? 3 : 4; /* the connecting side decides */
        w.settings[i].chunk = 64 << 10;
    }
    world_open(&w, 1);
    exchange_all(&w, 2);
    exchange(&w, large_sizes, 3, 2, 0);
    world_close(&w);
}

static void tiny_buffers(void)
{
    for (int sockets = 1; sockets <= 4; sockets += 3) {
        struct world w;
        world_defaults(&w, 2);
        for (int i = 0; i < 2; i++) {
            w.settings[i].sockets = sockets;
            w.settings[i].sndbuf = w.settings[i].rcvbuf = 4096;
            w.settings[i].eager = i ? 8192 : 30000; /* windows may differ */
            w.settings[i].chunk = 64 << 10;
        }
        world_open(&w, 1);
        for (int order = 0; order < 3; order++)
            exchange(&w, small_sizes, 14, 2, order);
        exchange(&w, mixed_sizes, 7, 1, 2);
        world_close(&w);
    }
}

static void many_channels(void)
{
    struct world w;
    world_defaults(&w, 2);
    world_open(&w, 1);
    for (int order = 0; order < 3; order++)
        exchange(&w, small_sizes, 14, WEFT_CHAN_MAX, order);
    world_close(&w);
}

static void over_ipv6(void)
{
    struct world w;
    world_defaults(&w, 2);
    w.settings[0].family = w.settings[1].family = "6";
    struct wi_tcp_addr a[2];
    if (wi_tcp_addrs_find("lo", 6, a, 2) < 1) {
        wt_skip("no IPv6 on the loopback interface");
        return;
    }
    world_open(&w, 1);
    exchange_all(&w, 2);
    char text[200];
    CU_ASSERT_TRUE(WT_TCP->describe_peer(w.group[0], 1, text, sizeof text) > 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "[::1]:"));
    world_close(&w);
}

/* Sleeping on poll_fd must never miss anything: no progress call is made but after poll says so. */
static void asleep(void)
{
    struct world w;
    static unsigned char a[300000], b[300000];
    world_defaults(&w, 2);
    world_open(&w, 1);
    for (int round = 0; round < 20; round++) {
        size_t bytes = round % 2 ? sizeof a : 8;
        struct weft_xfer x[2] = {xfer(a, bytes, 1, 0, 0), xfer(b, bytes, 0, 0, 0)};
        int from = round / 2 % 2;
        x[0].peer = !from;
        x[1].peer = from;
        CU_ASSERT_EQUAL(WT_TCP->recv(w.group[!from], &x[1]), 0);
        CU_ASSERT_EQUAL(WT_TCP->send(w.group[from], &x[0]), 0);
        int calls = 0, slept = 0;
        uint64_t until = wt_tcp_now() + DEADLINE_NS;
        while (!all_done(x, 2) && wt_tcp_now() < until) {
            int ready = 0;
            struct pollfd p[2];
            for (int i = 0; i < 2; i++) {
                struct weft_peer_failure f;
                p[i] = (struct pollfd){.fd = WT_TCP->poll_fd(w.group[i]), .events = POLLIN};
                if (WT_TCP->poll_arm(w.group[i])) {
                    WT_TCP->progress(w.group[i], &f);
                    calls++;
                    ready = 1;
                }
            }
            if (ready)
                continue;
            slept++;
            CU_ASSERT_TRUE(poll(p, 2, 10000) > 0);
        }
        CU_ASSERT_TRUE(all_done(x, 2));
        CU_ASSERT_TRUE(calls < 2000); /* no spinning */
    }
    world_close(&w);
}

static void disagreements(void)
{
    struct world w;
    unsigned char *a = malloc(2000000), *b = malloc(2000000);
    memset(a, 1, 2000000);
    const struct {
        size_t sent, posted;
        uint8_t kind;
        int state;
    } cases[] = {{8, 8, 2, WEFT_EMISMATCH},       {2000000, 8, 1, WEFT_ETRUNC},
                 {8, 2000000, 1, WEFT_EMISMATCH}, {2000000, 2000000, 2, WEFT_EMISMATCH},
                 {0, 1, 1, WEFT_EMISMATCH},       {100000, 99999, 1, WEFT_ETRUNC}};
    for (int late = 0; late < 2; late++) {
        world_defaults(&w, 2);
        world_open(&w, 1);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            struct weft_xfer x[4] = {xfer(a, cases[i].sent, 1, 3, 9), xfer(b, cases[i].posted, 0, 3, 9),
                                     xfer(a, 1000, 1, 3, 10), xfer(b, 1000, 0, 3, 10)};
            x[0].info.count = x[1].info.count = 5;
            x[1].info.kind = cases[i].kind;
            CU_ASSERT_EQUAL(WT_TCP->send(w.group[0], &x[0]), 0);
            CU_ASSERT_EQUAL(WT_TCP->send(w.group[0], &x[2]), 0);
            for (int k = 0; k < 2000 * late; k++)
                turn(&w);
            CU_ASSERT_EQUAL(WT_TCP->recv(w.group[1], &x[1]), 0);
            CU_ASSERT_EQUAL(WT_TCP->recv(w.group[1], &x[3]), 0);
            CU_ASSERT_TRUE(drive(&w, x, 4));
            CU_ASSERT_EQUAL(x[0].state, WEFT_SUCCESS);
            CU_ASSERT_EQUAL(x[1].state, cases[i].state);
            if (x[1].state == WEFT_EMISMATCH)
                CU_ASSERT_EQUAL(x[1].peer_info.kind, 1);
            CU_ASSERT_EQUAL(x[2].state, WEFT_SUCCESS); /* the stream goes on behind the bad message */
            CU_ASSERT_EQUAL(x[3].state, WEFT_SUCCESS);
        }
        world_close(&w);
    }
    free(a);
    free(b);
}

/* One turn of the others until a rank fails or nothing is left to see. */
static void wait_failure(struct world *w, int rank)
{
    uint64_t until = wt_tcp_now() + DEADLINE_NS;
    while (!w->failures[rank] && wt_tcp_now() < until)
        turn(w);
    CU_ASSERT_EQUAL(w->failures[rank], 1);
}

static void connect_pair(struct world *w)
{
    char c = 1, d = 0;
    struct weft_xfer x[2] = {xfer(&c, 1, 1, 0, 0), xfer(&d, 1, 0, 0, 0)};
    CU_ASSERT_EQUAL(WT_TCP->send(w->group[0], &x[0]), 0);
    CU_ASSERT_EQUAL(WT_TCP->recv(w->group[1], &x[1]), 0);
    CU_ASSERT_TRUE(drive(w, x, 2));
}

static void leave_in_order(void)
{
    struct world w;
    char a[8] = "goodbye", b[8] = "";
    world_defaults(&w, 2);
    world_open(&w, 1);
    connect_pair(&w);
    struct weft_xfer s = xfer(a, 8, 1, 0, 0), r = xfer(b, 8, 0, 0, 0), late = xfer(b, 8, 0, 0, 0);
    CU_ASSERT_EQUAL(WT_TCP->send(w.group[0], &s), 0);
    CU_ASSERT_EQUAL(s.state, WEFT_SUCCESS);
    WT_TCP->group_destroy(w.group[0], 0);
    w.group[0] = NULL;
    for (int i = 0; i < 1000; i++)
        turn(&w);
    CU_ASSERT_EQUAL(w.failures[1], 0);
    CU_ASSERT_EQUAL(WT_TCP->recv(w.group[1], &r), 0);
    CU_ASSERT_TRUE(drive(&w, &r, 1));
    CU_ASSERT_EQUAL(r.state, WEFT_SUCCESS);
    CU_ASSERT_STRING_EQUAL(b, "goodbye");
    CU_ASSERT_EQUAL(w.failures[1], 0);
    int st = WT_TCP->recv(w.group[1], &late);
    CU_ASSERT_TRUE(st == WEFT_EPEER || late.state == WEFT_EPEER);
    wait_failure(&w, 1);
    CU_ASSERT_EQUAL(w.failure[1].status, WEFT_EPEER);
    world_close(&w);
}

static void leave_in_failure(void)
{
    for (int aborted = 0; aborted < 2; aborted++) {
        struct world w;
        char b[8];
        world_defaults(&w, 2);
        world_open(&w, 1);
        connect_pair(&w);
        struct weft_xfer r = xfer(b, 8, 0, 0, 0);
        CU_ASSERT_EQUAL(WT_TCP->recv(w.group[1], &r), 0);
        WT_TCP->group_destroy(w.group[0], aborted);
        w.group[0] = NULL;
        wait_failure(&w, 1);
        CU_ASSERT_EQUAL(w.failure[1].status, aborted ? WEFT_EABORTED : WEFT_EPEER);
        CU_ASSERT_EQUAL(w.failure[1].peer, 0);
        CU_ASSERT_EQUAL(r.state, w.failure[1].status);
        struct weft_xfer again = xfer(b, 8, 0, 0, 0);
        CU_ASSERT_EQUAL(WT_TCP->recv(w.group[1], &again), w.failure[1].status);
        world_close(&w);
    }
}

/* The other rank's group is gone before the connection is even tried. */
static void late_to_a_group_that_is_gone(void)
{
    struct world w;
    char b[8] = "";
    world_defaults(&w, 2);
    world_open(&w, 1);
    WT_TCP->group_destroy(w.group[1], 0);
    w.group[1] = NULL;
    CU_ASSERT_EQUAL(group_make(&w, 1, 99), 0); /* the listener must still be served */
    struct weft_xfer s = xfer(b, 8, 1, 0, 0), r = xfer(b, 8, 1, 0, 0);
    CU_ASSERT_EQUAL(WT_TCP->send(w.group[0], &s), 0);
    CU_ASSERT_EQUAL(WT_TCP->recv(w.group[0], &r), 0);
    wait_failure(&w, 0);
    CU_ASSERT_EQUAL(w.failure[0].status, WEFT_EPEER);
    CU_ASSERT_EQUAL(r.state, WEFT_EPEER);
    world_close(&w);
}

enum arrivals { PARKED, HALF_OPEN };

/* The endpoint's own thread counts them, too. */
static int number_of(const struct world *w, int rank, enum arrivals what)
{
    struct wi_tcp_endpoint *e = w->endpoint[rank];
    pthread_mutex_lock(&e->lock);
    int n = what == PARKED ? e->nparked : e->nhalf_open;
    pthread_mutex_unlock(&e->lock);
    return n;
}

/* A connection may come long before this side has the group. */
static void parked(void)
{
    struct world w;
    char a[8] = "early", b[8] = "";
    world_defaults(&w, 2);
    world_open(&w, 0);
    CU_ASSERT_EQUAL(group_make(&w, 0, 5), 0);
    CU_ASSERT_EQUAL(group_make(&w, 1, 6), 0); /* another group of that process serves the listener */
    void *other = w.group[1];
    struct weft_xfer x[2] = {xfer(a, 8, 1, 0, 0), xfer(b, 8, 0, 0, 0)};
    CU_ASSERT_EQUAL(WT_TCP->send(w.group[0], &x[0]), 0);
    uint64_t until = wt_tcp_now() + DEADLINE_NS;
    while (number_of(&w, 1, PARKED) == 0 && wt_tcp_now() < until)
        turn(&w);
    CU_ASSERT_EQUAL(number_of(&w, 1, PARKED), 1);
    CU_ASSERT_EQUAL(group_make(&w, 1, 5), 0);
    CU_ASSERT_EQUAL(WT_TCP->recv(w.group[1], &x[1]), 0);
    CU_ASSERT_TRUE(drive(&w, x, 2));
    CU_ASSERT_STRING_EQUAL(b, "early");
    WT_TCP->group_destroy(other, 0);
    world_close(&w);
}

/* The connecting side posts nothing; it comes because it is asked, and tells when it has left. */
static void asked_to_connect(void)
{
    for (int leave = 0; leave < 3; leave++) {
        struct world w;
        char a[8] = "knock", b[8] = "";
        world_defaults(&w, 2);
        world_open(&w, 1);
        struct weft_xfer background = xfer(b, 8, 1, 0, 0), s = xfer(a, 8, 0, 0, 0), r = xfer(b, 8, 0, 0, 0);
        background.background = 1;
        CU_ASSERT_EQUAL(WT_TCP->recv(w.group[0], &background), 0);
        CU_ASSERT_PTR_NULL(((struct wi_tcp_group *)w.group[0])->conns);
        if (leave) {
            WT_TCP->group_destroy(w.group[0], leave == 2);
            w.group[0] = NULL;
            CU_ASSERT_EQUAL(group_make(&w, 0, 99), 0);
            CU_ASSERT_EQUAL(WT_TCP->recv(w.group[1], &r), 0);
            wait_failure(&w, 1);
            CU_ASSERT_EQUAL(r.state, leave == 2 ? WEFT_EABORTED : WEFT_EPEER);
            CU_ASSERT_EQUAL(w.failures[0], 0);
        } else {
            CU_ASSERT_EQUAL(WT_TCP->send(w.group[1], &s), 0);
            CU_ASSERT_TRUE(drive(&w, &background, 1));
            CU_ASSERT_STRING_EQUAL(b, "knock");
        }
        world_close(&w);
    }
}

/* The peer's process is gone before any connection: both the connecting and the waiting rank find out. */
static void gone_before_connecting(void)
{
    for (int dead = 0; dead < 2; dead++) {
        struct world w;
        char b[8] = "";
        world_defaults(&w, 2);
        world_open(&w, 1);
        WT_TCP->group_destroy(w.group[dead], 0);
        WT_TCP->close(w.endpoint[dead]);
        w.group[dead] = w.endpoint[dead] = NULL;
        struct weft_xfer r = xfer(b, 8, dead, 0, 0);
        CU_ASSERT_EQUAL(WT_TCP->recv(w.group[!dead], &r), 0);
        wait_failure(&w, !dead);
        CU_ASSERT_EQUAL(r.state, WEFT_EPEER);
        CU_ASSERT_PTR_NOT_NULL(strstr(w.failure[!dead].text, "refused"));
        world_close(&w);
    }
}

/* A process that dies without a word, with messages of both directions half way. */
static void killed(void)
{
    struct world w;
    static unsigned char a[4 << 20], b[4 << 20];
    int up[2];
    char go;
    world_defaults(&w, 2);
    world_open(&w, 0);
    CU_ASSERT_EQUAL_FATAL(pipe2(up, O_CLOEXEC), 0);
    pid_t child = fork();
    if (child == 0) {
        struct weft_xfer x[2] = {xfer(a, 1, 1, 0, 0), xfer(b, 1, 1, 0, 0)},
                         big[2] = {xfer(a, sizeof a, 1, 1, 0), xfer(b, sizeof b, 1, 1, 0)};
        struct world *v = &w;
        /* What the parent has opened is the parent's. */
        if (WT_TCP->open(&v->host[0], &v->settings[0], &v->endpoint[0]) ||
            WT_TCP->address(v->endpoint[0], v->blob[0], sizeof v->blob[0], &v->blob_bytes[0]) ||
            write(up[1], &v->blob_bytes[0], sizeof v->blob_bytes[0]) < 0 ||
            write(up[1], v->blob[0], v->blob_bytes[0]) < 0)
            _exit(1);
        v->endpoint[1] = v->group[1] = NULL;
        if (group_make(v, 0, 1) || WT_TCP->recv(v->group[0], &x[1]) || WT_TCP->send(v->group[0], &x[0]) ||
            !drive(v, x, 2) || WT_TCP->recv(v->group[0], &big[0]) || WT_TCP->send(v->group[0], &big[1]))
            _exit(1);
        for (int i = 0; i < 100; i++)
            turn(v);
        if (write(up[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    CU_ASSERT_TRUE_FATAL(child > 0);
    close(up[1]);
    WT_TCP->close(w.endpoint[0]);
    w.endpoint[0] = NULL;
    CU_ASSERT_EQUAL_FATAL(read(up[0], &w.blob_bytes[0], sizeof w.blob_bytes[0]), sizeof w.blob_bytes[0]);
    CU_ASSERT_EQUAL_FATAL(read(up[0], w.blob[0], w.blob_bytes[0]), (ssize_t)w.blob_bytes[0]);
    CU_ASSERT_EQUAL(group_make(&w, 1, 1), 0);
    struct weft_xfer x[4] = {xfer(a, 1, 0, 0, 0), xfer(b, 1, 0, 0, 0), xfer(a, sizeof a, 0, 1, 0),
                             xfer(b, sizeof b, 0, 1, 0)};
    CU_ASSERT_EQUAL(WT_TCP->send(w.group[1], &x[0]), 0);
    CU_ASSERT_EQUAL(WT_TCP->recv(w.group[1], &x[1]), 0);
    CU_ASSERT_TRUE(drive(&w, x, 2));
    CU_ASSERT_EQUAL(WT_TCP->send(w.group[1], &x[2]), 0);
    CU_ASSERT_EQUAL(WT_TCP->recv(w.group[1], &x[3]), 0);
    CU_ASSERT_EQUAL(read(up[0], &go, 1), 1);
    turn(&w);
    CU_ASSERT_EQUAL(w.failures[1], 0);
    kill(child, SIGKILL);
    uint64_t then = wt_tcp_now();
    wait_failure(&w, 1);
    CU_ASSERT_TRUE(wt_tcp_now() - then < w.settings[1].keepalive_idle); /* not found out by probing */
    CU_ASSERT_EQUAL(x[2].state, WEFT_EPEER);
    CU_ASSERT_EQUAL(x[3].state, WEFT_EPEER);
    CU_ASSERT_PTR_NOT_NULL(strstr(w.failure[1].text, " -> 127.0.0.1:")); /* where it was, though the socket is reset */
    waitpid(child, NULL, 0);
    close(up[0]);
    world_close(&w);
}

static int dial_raw_from(const struct world *w, int rank, uint32_t source)
{
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(source)};
    struct wi_tcp_identity id;
    struct sockaddr_storage sa;
    CU_ASSERT_EQUAL_FATAL(wi_tcp_identity_decode(w->blob[rank], w->blob_bytes[rank], &id), 0);
    socklen_t n = wi_tcp_addr_to_sockaddr(&id.addrs[0], &sa);
    int fd = socket(sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CU_ASSERT_TRUE_FATAL(fd >= 0);
    if (source)
        CU_ASSERT_EQUAL_FATAL(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
    CU_ASSERT_EQUAL_FATAL(connect(fd, (struct sockaddr *)&sa, n), 0);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

static int dial_raw(const struct world *w, int rank)
{
    return dial_raw_from(w, rank, 0);
}

/* Bytes received, 0: closed, -1: nothing by the deadline. */
static ssize_t hear_raw(int fd, void *into, size_t bytes, uint64_t until)
{
    ssize_t n;
    while ((n = recv(fd, into, bytes, 0)) < 0 && errno == EAGAIN && wt_tcp_now() < until) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        poll(&p, 1, 10);
    }
    return n < 0 && errno == ECONNRESET ? 0 : n;
}

/* A hello with the key, from rank 1 of communicator 1 to the process of rank `to`. */
static void hello_for(const struct world *w, int to, unsigned char hello[WT_HELLO])
{
    struct wi_tcp_identity from, listener;
    const uint32_t bytes = WI_TCP_CLAIM_BYTES;
    CU_ASSERT_EQUAL_FATAL(wi_tcp_identity_decode(w->blob[1], w->blob_bytes[1], &from), 0);
    CU_ASSERT_EQUAL_FATAL(wi_tcp_identity_decode(w->blob[to], w->blob_bytes[to], &listener), 0);
    struct wi_tcp_claim claim = {.count = 1,
                                 .from = 1,
                                 .eager = WI_TCP_EAGER_MIN,
                                 .comm_id = {1, 7},
                                 .process = from.process,
                                 .listener = listener.process};
    memset(hello, 0, WT_HELLO);
    memcpy(hello, &w->key[to], 4);
    memcpy(hello + 4, &bytes, 4);
    wi_tcp_claim_encode(&claim, hello + 16);
}

/* A hello that was overheard on its way to another rank: closed at once, without an answer, and it holds no place. */
static void meant_for_another(void)
{
    struct world w;
    unsigned char hello[WT_HELLO], got[WT_HELLO];
    uint64_t until = wt_tcp_now() + DEADLINE_NS;
    world_defaults(&w, 3);
    for (int i = 0; i < 3; i++)
        w.settings[i].auth_timeout = WI_TCP_NEVER / 4; /* none is closed for being late */
    world_open(&w, 1);
    for (int to = 0; to < 3; to += 2) {
        hello_for(&w, to, hello);
        for (int at = 0; at < 3; at++) {
            int fd = dial_raw(&w, at);
            CU_ASSERT_EQUAL(send(fd, hello, sizeof hello, MSG_NOSIGNAL), sizeof hello);
            CU_ASSERT_EQUAL(hear_raw(fd, got, sizeof got, until), at == to ? (ssize_t)sizeof got : 0);
            CU_ASSERT_EQUAL(number_of(&w, at, HALF_OPEN), at == to);
            close(fd);
            while (number_of(&w, at, HALF_OPEN) && wt_tcp_now() < until)
                turn(&w);
        }
    }
    world_close(&w);
}

/* A connection that has shown the key is kept, however many come after it and from wherever; one that has not yet is kept while
 * others come from elsewhere. */
static void floods(void)
{
    struct world w;
    unsigned char hello[WT_HELLO], got[WT_HELLO];
    int verified, silent, flood[100];
    uint64_t until = wt_tcp_now() + DEADLINE_NS;
    world_defaults(&w, 2);
    w.settings[0].half_open = 16;
    w.settings[0].family = "4";
    w.settings[0].auth_timeout = WI_TCP_NEVER / 4; /* none is closed for being late */
    world_open(&w, 1);
    hello_for(&w, 0, hello);
    verified = dial_raw(&w, 0);
    silent = dial_raw(&w, 0);
    CU_ASSERT_EQUAL(send(verified, hello, sizeof hello, MSG_NOSIGNAL), sizeof hello);
    CU_ASSERT_EQUAL(hear_raw(verified, got, sizeof got, until), sizeof got);
    for (int i = 0; i < 100; i++)
        flood[i] = dial_raw_from(&w, 0, INADDR_LOOPBACK + 1);
    for (int i = 0; i < 100 - 16; i++) /* each gave way, so all have been accepted */
        CU_ASSERT_EQUAL(hear_raw(flood[i], got, 1, until), 0);
    CU_ASSERT_TRUE(recv(verified, got, 1, 0) < 0 && errno == EAGAIN);
    CU_ASSERT_TRUE(recv(silent, got, 1, 0) < 0 && errno == EAGAIN);
    CU_ASSERT_EQUAL(send(silent, hello, sizeof hello, MSG_NOSIGNAL), sizeof hello);
    CU_ASSERT_EQUAL(hear_raw(silent, got, sizeof got, until), sizeof got);
    for (int i = 0; i < 100; i++)
        close(flood[i]);
    close(verified);
    close(silent);
    world_close(&w);
}

/* Strangers: silent, talkative, many. The job goes on, they are closed without a word, nothing leaks. */
static void strangers(void)
{
    struct world w;
    int fd[300], before;
    unsigned char junk[4096], got[16];
    world_defaults(&w, 2);
    for (int i = 0; i < 2; i++) {
        w.settings[i].sockets = 1; /* descriptors are counted */
        w.settings[i].half_open = 16;
        w.settings[i].auth_timeout = 1000000000ull;
    }
    world_open(&w, 1);
    exchange(&w, mixed_sizes, 7, 1, 2);
    /* Of connections that have crossed only one stays; the others go when the time to show the key is over, at the latest. */
    uint64_t until = wt_tcp_now() + 3 * w.settings[0].auth_timeout / 2;
    while (wt_tcp_now() < until)
        turn(&w);
    before = count_fds();
    uint32_t seed = 1;
    for (int i = 0; i < 300; i++) {
        fd[i] = dial_raw(&w, i % 2);
        for (size_t k = 0; k < sizeof junk; k++)
            junk[k] = (unsigned char)((seed = seed * 1664525 + 1013904223) >> 24);
        size_t n = i % 3 == 0 ? 0 : i % 3 == 1 ? sizeof junk : (size_t)i % 90;
        if (i % 3 == 2)
            memcpy(junk, &w.key[0], 4); /* looks right for a while */
        if (n)
            CU_ASSERT_TRUE(send(fd[i], junk, n, MSG_NOSIGNAL) > 0);
        for (int k = 0; k < 40; k++)
            turn(&w);
        CU_ASSERT_TRUE(number_of(&w, i % 2, HALF_OPEN) <= 16);
        if (i % 50 == 0)
            exchange(&w, small_sizes, 14, 2, 2);
    }
    exchange(&w, mixed_sizes, 7, 2, 0);
    until = wt_tcp_now() + DEADLINE_NS;
    for (int i = 0; i < 300; i++) {
        ssize_t n;
        while ((n = recv(fd[i], got, sizeof got, 0)) < 0 && errno == EAGAIN && wt_tcp_now() < until)
            turn(&w);
        CU_ASSERT_TRUE(n == 0 || (n < 0 && errno == ECONNRESET));
        close(fd[i]);
    }
    while (count_fds() != before && wt_tcp_now() < until)
        turn(&w);
    CU_ASSERT_EQUAL(count_fds(), before);
    CU_ASSERT_EQUAL(w.failures[0] + w.failures[1], 0);
    world_close(&w);
}

/* No descriptor left: accept tries again later without spinning, and says so once; connect says why it cannot. */
static void out_of_descriptors(void)
{
    struct world w;
    char a[8] = "later", b[8] = "";
    struct rlimit old, low;
    world_defaults(&w, 2);
    world_open(&w, 1);
    struct weft_xfer x[2] = {xfer(a, 8, 1, 0, 0), xfer(b, 8, 0, 0, 0)};
    getrlimit(RLIMIT_NOFILE, &old);
    use_reserve(&w);
    int probe = dup(0);
    low = old;
    low.rlim_cur = (rlim_t)probe;
    close(probe);
    setrlimit(RLIMIT_NOFILE, &low);
    CU_ASSERT_EQUAL(WT_TCP->send(w.group[0], &x[0]), WEFT_ENOFILES);
    setrlimit(RLIMIT_NOFILE, &old);
    CU_ASSERT_PTR_NOT_NULL(strstr(wt_tcp_explained, "Too many open files"));
    world_close(&w);

    world_defaults(&w, 2);
    world_open(&w, 1);
    x[0] = xfer(a, 8, 1, 0, 0);
    use_reserve(&w);
    probe = dup(0); /* one is left, for the connecting side */
    low.rlim_cur = (rlim_t)probe + 1;
    close(probe);
    __atomic_store_n(&wt_tcp_logs, 0, __ATOMIC_RELAXED);
    setrlimit(RLIMIT_NOFILE, &low);
    uint64_t began = wt_tcp_now(), until = began + DEADLINE_NS;
    CU_ASSERT_EQUAL(WT_TCP->send(w.group[0], &x[0]), 0);
    int tries = 0;
    for (uint64_t at = 0; tries < 4 && wt_tcp_now() < until; turn(&w))
        tries += put_off_again(&w, &at);
    CU_ASSERT_EQUAL(tries, 4);
    CU_ASSERT_EQUAL(__atomic_load_n(&wt_tcp_logs, __ATOMIC_RELAXED), 1); /* however often it is tried */
    CU_ASSERT_TRUE(wt_tcp_now() - began >= 300000000ull);                /* one try each 100 ms, not more */
    CU_ASSERT_EQUAL(x[0].state, WEFT_XFER_PENDING);
    setrlimit(RLIMIT_NOFILE, &old);
    CU_ASSERT_EQUAL(WT_TCP->recv(w.group[1], &x[1]), 0);
    CU_ASSERT_TRUE(drive(&w, x, 2));
    CU_ASSERT_STRING_EQUAL(b, "later");
    CU_ASSERT_EQUAL(__atomic_load_n(&wt_tcp_logs, __ATOMIC_RELAXED), 1); /* over, but perhaps for a moment only */
    wt_tcp_skip(10000000000ull);
    int stranger = dial_raw(&w, 1);
    CU_ASSERT(logs_become(&w, 2)); /* there have been enough for long */
    close(stranger);
    world_close(&w);
}

/* Strangers hold them all: the one that has waited longest gives its own back. */
static void strangers_hold_descriptors(void)
{
    struct world w;
    char a[8] = "at last", b[8] = "";
    struct rlimit old, low = {.rlim_cur = 256};
    int fd[4], filled[256], n = 0;
    world_defaults(&w, 2);
    w.settings[1].auth_timeout = WI_TCP_NEVER / 4; /* none is closed for being late */
    world_open(&w, 1);
    uint64_t until = wt_tcp_now() + DEADLINE_NS;
    for (int i = 0; i < 4; i++)
        fd[i] = dial_raw(&w, 1);
    while (number_of(&w, 1, HALF_OPEN) < 4 && wt_tcp_now() < until)
        turn(&w);
    struct weft_xfer x[2] = {xfer(a, 8, 1, 0, 0), xfer(b, 8, 0, 0, 0)};
    getrlimit(RLIMIT_NOFILE, &old);
    low.rlim_max = old.rlim_max;
    use_reserve(&w);
    setrlimit(RLIMIT_NOFILE, &low);
    while (n < 256 && (filled[n] = dup(0)) >= 0)
        n++;
    close(filled[--n]); /* one is left, for the connecting side */
    CU_ASSERT_EQUAL(WT_TCP->send(w.group[0], &x[0]), 0);
    CU_ASSERT_TRUE(drive(&w, x, 1)); /* accepted, and sent */
    setrlimit(RLIMIT_NOFILE, &old);
    while (n)
        close(filled[--n]);
    CU_ASSERT_EQUAL(WT_TCP->recv(w.group[1], &x[1]), 0);
    CU_ASSERT_TRUE(drive(&w, x, 2));
    CU_ASSERT_STRING_EQUAL(b, "at last");
    CU_ASSERT_EQUAL(hear_raw(fd[0], b, 1, until), 0); /* the oldest */
    for (int i = 0; i < 4; i++)
        close(fd[i]);
    world_close(&w);
}

/* Loopback delivers fast: the pair gets more sockets, and does without where there are no descriptors for them. */
static int sockets_after(struct world *w, uint64_t bytes)
{
    unsigned char *a = malloc(1 << 20), *b = malloc(1 << 20);
    memset(a, 7, 1 << 20);
    for (uint64_t sent = 0; sent < bytes; sent += 1 << 20) {
        struct weft_xfer x[2] = {xfer(a, 1 << 20, 1, 0, 0), xfer(b, 1 << 20, 0, 0, 0)};
        CU_ASSERT_EQUAL(WT_TCP->recv(w->group[1], &x[1]), 0);
        CU_ASSERT_EQUAL(WT_TCP->send(w->group[0], &x[0]), 0);
        CU_ASSERT_TRUE_FATAL(drive(w, x, 2));
        CU_ASSERT_EQUAL(memcmp(a, b, 1 << 20), 0);
        memset(b, 0, 1 << 20);
    }
    free(a);
    free(b);
    return ((struct wi_tcp_group *)w->group[0])->peers[1]->nup;
}

/* Emulators of system calls leave most of TCP_INFO out. */
static int kernel_tells_rates(void)
{
    struct tcp_info info;
    socklen_t n = sizeof info;
    int fd = socket(AF_INET, SOCK_STREAM, 0), st = getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &n);

    close(fd);
    return st == 0 && n >= offsetof(struct tcp_info, tcpi_delivery_rate) + sizeof info.tcpi_delivery_rate;
}

static void fast_link_gets_sockets(void)
{
    struct world w;

    if (!kernel_tells_rates()) {
        wt_skip("TCP_INFO holds no delivery rate here");
        return;
    }
    world_defaults(&w, 2);
    w.settings[0].fast_rate = w.settings[1].fast_rate = 1000; /* slow machines are fast, too */
    world_open(&w, 1);
    CU_ASSERT_EQUAL(sockets_after(&w, 1 << 20), 1);
    uint64_t until = wt_tcp_now() + DEADLINE_NS;
    int n = 1;
    while (n == 1 && wt_tcp_now() < until)
        n = sockets_after(&w, 8 << 20);
    while ((n = ((struct wi_tcp_group *)w.group[0])->peers[1]->nup) < 4 && wt_tcp_now() < until)
        turn(&w);
    CU_ASSERT_EQUAL(n, 4);
    exchange(&w, large_sizes, 3, 2, 1);
    CU_ASSERT_EQUAL(w.failures[0] + w.failures[1], 0);
    world_close(&w);
}

static void no_spare_descriptors(void)
{
    struct world w;
    struct rlimit old, low;
    world_defaults(&w, 2);
    w.settings[0].fast_rate = w.settings[1].fast_rate = 1000; /* slow machines are fast, too */
    world_open(&w, 1);
    CU_ASSERT_EQUAL(sockets_after(&w, 1 << 20), 1);
    getrlimit(RLIMIT_NOFILE, &old);
    int probe = dup(0);
    low = old;
    low.rlim_cur = (rlim_t)probe;
    close(probe);
    setrlimit(RLIMIT_NOFILE, &low);
    CU_ASSERT_EQUAL(sockets_after(&w, 64 << 20), 1);
    setrlimit(RLIMIT_NOFILE, &old);
    CU_ASSERT_EQUAL(w.failures[0] + w.failures[1], 0);
    world_close(&w);
}

static void nothing_leaks(void)
{
    int before = count_fds();
    for (int i = 0; i < 5; i++) {
        struct world w;
        world_defaults(&w, 3);
        w.settings[0].sockets = 4;
        world_open(&w, 1);
        exchange(&w, mixed_sizes, 7, 1, 2);
        world_close(&w);
    }
    CU_ASSERT_EQUAL(count_fds(), before);
}

static void bad_settings(void)
{
    struct world w;
    void *e;
    const struct {
        const char *interfaces, *family, *port;
    } bad[] = {{"nosuchif", "auto", ""}, {"", "5", ""}, {"", "auto", "70000"}, {"", "auto", "9-5"}, {"", "auto", "x"}};
    world_defaults(&w, 1);
    wt_tcp_host_init(&w.host[0], &w.key[0]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        w.settings[0].interfaces = bad[i].interfaces;
        w.settings[0].family = bad[i].family;
        w.settings[0].port = bad[i].port;
        wt_tcp_explained[0] = '\0';
        CU_ASSERT_EQUAL(WT_TCP->open(&w.host[0], &w.settings[0], &e), WEFT_ECONFIG);
        CU_ASSERT_PTR_NOT_NULL(strstr(wt_tcp_explained, "WEFT_TCP_"));
    }
}

static const struct wt_case cases[] = {
    {"two ranks", two_ranks},
    {"mesh of four", mesh_of_four},
    {"four sockets", four_sockets},
    {"tiny buffers", tiny_buffers},
    {"many channels", many_channels},
    {"IPv6", over_ipv6},
    {"asleep", asleep},
    {"disagreements", disagreements},
    {"leave in order", leave_in_order},
    {"leave in failure", leave_in_failure},
    {"late to a group that is gone", late_to_a_group_that_is_gone},
    {"parked", parked},
    {"asked to connect", asked_to_connect},
    {"gone before connecting", gone_before_connecting},
    {"killed", killed},
    {"strangers", strangers},
    {"floods", floods},
    {"a hello for another process", meant_for_another},
    {"out of descriptors", out_of_descriptors},
    {"strangers hold all descriptors", strangers_hold_descriptors},
    {"fast link gets sockets", fast_link_gets_sockets},
    {"no spare descriptors", no_spare_descriptors},
    {"nothing leaks", nothing_leaks},
    {"bad settings", bad_settings},
};
#ifndef WT_TCP_LINK_CASES_ONLY /* tcp_shared.c */
WT_UNIT_MAIN("tcp_link", cases)
#endif
