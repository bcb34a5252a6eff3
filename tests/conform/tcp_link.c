/* tcp_link.c: the tcp transport alone: ranks as endpoints of one process, driven in turns by one thread.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "tests/unit/unit.h"
#include "tests/conform/tcp_host.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define RANKS_MAX 4
#define DEADLINE_NS 20000000000ull

struct world {
    int nranks;
    uint32_t key[RANKS_MAX];
    struct weft_host host[RANKS_MAX];
    struct wi_tcp_settings settings[RANKS_MAX];
    void *endpoint[RANKS_MAX], *group[RANKS_MAX];
    unsigned char blob[RANKS_MAX][WEFT_ADDRESS_MAX];
    size_t blob_bytes[RANKS_MAX];
    struct weft_peer_failure failure[RANKS_MAX];
    int failures[RANKS_MAX];
};

static int group_make(struct world *w, int rank, uint64_t id)
{
    const void *addresses[RANKS_MAX];
    unsigned char member[RANKS_MAX];
    for (int i = 0; i < w->nranks; i++) {
        addresses[i] = w->blob[i];
        member[i] = 1;
    }
    struct weft_group_config c = {.bytes = sizeof c,
                                  .comm_id = {id, 7},
                                  .rank = rank,
                                  .nranks = w->nranks,
                                  .addresses = addresses,
                                  .address_bytes = w->blob_bytes,
                                  .member = member};
    return WT_TCP->group_create(w->endpoint[rank], &c, &w->group[rank]);
}

static void world_defaults(struct world *w, int nranks)
{
    memset(w, 0, sizeof *w);
    w->nranks = nranks;
    for (int i = 0; i < nranks; i++) {
        w->key[i] = 4711;
        wt_tcp_defaults(&w->settings[i]);
    }
}

static void world_open(struct world *w, int with_groups)
{
    for (int i = 0; i < w->nranks; i++) {
        wt_tcp_host_init(&w->host[i], &w->key[i]);
        int st = WT_TCP->open(&w->host[i], &w->settings[i], &w->endpoint[i]);
        CU_ASSERT_EQUAL_FATAL(st, WEFT_SUCCESS);
        CU_ASSERT_EQUAL_FATAL(WT_TCP->address(w->endpoint[i], w->blob[i], sizeof w->blob[i], &w->blob_bytes[i]), 0);
    }
    for (int i = 0; i < w->nranks && with_groups; i++)
        CU_ASSERT_EQUAL_FATAL(group_make(w, i, 1), WEFT_SUCCESS);
}

static void world_close(struct world *w)
{
    for (int i = 0; i < w->nranks; i++)
        if (w->group[i])
            WT_TCP->group_destroy(w->group[i], 0);
    for (int i = 0; i < w->nranks; i++)
        if (w->endpoint[i])
            WT_TCP->close(w->endpoint[i]);
}

static void turn(struct world *w)
{
    for (int i = 0; i < w->nranks; i++) {
        struct weft_peer_failure f;
        if (w->group[i] && WT_TCP->progress(w->group[i], &f) < 0) {
            w->failure[i] = f;
            w->failures[i]++;
        }
    }
}

static int all_done(struct weft_xfer *x, int n)
{
    for (int i = 0; i < n; i++)
        if (x[i].state == WEFT_XFER_PENDING)
            return 0;
    return 1;
}

static int drive(struct world *w, struct weft_xfer *x, int n)
{
    uint64_t until = wt_tcp_now() + DEADLINE_NS;
    while (!all_done(x, n)) {
        turn(w);
        if (wt_tcp_now() > until)
            return 0;
    }
    return 1;
}

static unsigned char byte_at(int from, int to, uint32_t chan, size_t msg, size_t i)
{
    return (unsigned char)(i * 131 + i / 251 + (size_t)from * 17 + (size_t)to * 29 + chan * 37 + msg * 101);
}

static struct weft_xfer xfer(void *buf, size_t bytes, int peer, uint32_t chan, uint32_t seq)
{
    return (struct weft_xfer){.buf = buf,
                              .bytes = bytes,
                              .peer = peer,
                              .chan = chan,
                              .granule = 1,
                              .info = {.seq = seq, .kind = 1, .count = bytes}};
}

struct sunk {
    unsigned char *to;
    size_t at, granule;
    int bad;
};

static void sink(struct weft_xfer *x, size_t offset, const void *data, size_t bytes)
{
    struct sunk *s = x->sink_arg;
    if (offset != s->at || (bytes % x->granule && offset + bytes != x->bytes) || offset + bytes > x->bytes) {
        s->bad++;
        return;
    }
    memcpy(s->to + offset, data, bytes);
    s->at += bytes;
}

#define MSGS 6
/* Every rank sends MSGS messages on several channels to every rank, itself too; odd ones go into sinks. Receives are
 * posted before, after or among the sends. */
static void exchange(struct world *w, const size_t *sizes, int nsizes, int nchans, int order)
{
    int n = w->nranks, per = n * n * nchans * MSGS, k = 0;
    struct weft_xfer *x = calloc((size_t)per * 2, sizeof *x);
    struct sunk *s = calloc((size_t)per, sizeof *s);
    unsigned char **out = calloc((size_t)per, sizeof *out), **in = calloc((size_t)per, sizeof *in);
    for (int from = 0; from < n; from++)
        for (int to = 0; to < n; to++)
            for (int c = 0; c < nchans; c++)
                for (int m = 0; m < MSGS; m++, k++) {
                    size_t bytes = sizes[(size_t)(from * 7 + to * 5 + c * 3 + m) % (size_t)nsizes];
                    out[k] = malloc(bytes + 1);
                    in[k] = calloc(1, bytes + 1);
                    for (size_t i = 0; i < bytes; i++)
                        out[k][i] = byte_at(from, to, (uint32_t)c, (size_t)m, i);
                    x[k] = xfer(out[k], bytes, to, (uint32_t)c, (uint32_t)m);
                    x[per + k] = xfer(in[k], bytes, from, (uint32_t)c, (uint32_t)m);
                    if (m & 1) {
                        s[k] = (struct sunk){.to = in[k]};
                        x[per + k].buf = NULL;
                        x[per + k].sink = sink;
                        x[per + k].sink_arg = &s[k];
                        x[per + k].granule = 1u << (m + c) % 5;
                    }
                }
    for (int phase = 0; phase < 2; phase++) {
        for (k = 0; k < per; k++) {
            int from = k / (n * nchans * MSGS), to = k / (nchans * MSGS) % n;
            if (order == 2 || phase == (order == 0))
                CU_ASSERT_EQUAL(order == 2 && phase ? 0 : WT_TCP->send(w->group[from], &x[k]), 0);
            if (order == 2 || phase == (order == 1))
                CU_ASSERT_EQUAL(order == 2 && phase ? 0 : WT_TCP->recv(w->group[to], &x[per + k]), 0);
            if (order == 2 && phase == 0 && k % 5 == 0)
                turn(w);
        }
        for (int i = 0; i < 200; i++)
            turn(w);
    }
    CU_ASSERT_TRUE(drive(w, x, 2 * per));
    for (k = 0; k < per; k++) {
        CU_ASSERT_EQUAL(x[k].state, WEFT_SUCCESS);
        CU_ASSERT_EQUAL(x[per + k].state, WEFT_SUCCESS);
        CU_ASSERT_EQUAL(s[k].bad, 0);
        CU_ASSERT_EQUAL(memcmp(in[k], out[k], x[k].bytes), 0);
        free(in[k]);
        free(out[k]);
    }
    for (int i = 0; i < n; i++)
        CU_ASSERT_EQUAL(w->failures[i], 0);
    free(x);
    free(s);
    free(in);
    free(out);
}

static const size_t small_sizes[] = {0, 1, 7, 8, 55, 56, 57, 4095, 4096, 8135, 8136, 8137, 8192, 65535};
static const size_t mixed_sizes[] = {0, 3, 70000, 262144, 262145, 1000001, 8};
static const size_t large_sizes[] = {9u << 20, 1, 3000000};

static void exchange_all(struct world *w, int nchans)
{
    for (int order = 0; order < 3; order++) {
        exchange(w, small_sizes, 14, nchans, order);
        exchange(w, mixed_sizes, 7, nchans, order);
    }
}

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

/* One turn of the others until somebody fails or nothing is left to see. */
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
    CU_ASSERT_EQUAL(group_make(&w, 1, 99), 0); /* somebody must still serve the listener */
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

static void another_key(void)
{
    struct world w;
    char b[8] = "";
    world_defaults(&w, 2);
    w.key[1] = 12;
    world_open(&w, 1);
    struct weft_xfer s = xfer(b, 8, 1, 0, 0);
    CU_ASSERT_EQUAL(WT_TCP->send(w.group[0], &s), 0);
    wait_failure(&w, 0);
    CU_ASSERT_EQUAL(s.state, WEFT_EAUTH);
    CU_ASSERT_EQUAL(w.failures[1], 0);
    world_close(&w);
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
        WT_TCP->close(v->endpoint[1]); /* the parent's; its listeners stay with the parent */
        v->endpoint[1] = NULL;
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
    WT_TCP->close(w.endpoint[0]);
    w.endpoint[0] = NULL;
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
    CU_ASSERT_PTR_NOT_NULL(strstr(w.failure[1].text, "127.0.0.1:"));
    waitpid(child, NULL, 0);
    close(up[0]);
    close(up[1]);
    world_close(&w);
}

static int count_fds(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

static int dial_raw(const struct world *w, int rank)
{
    struct wi_tcp_identity id;
    struct sockaddr_storage sa;
    CU_ASSERT_EQUAL_FATAL(wi_tcp_identity_decode(w->blob[rank], w->blob_bytes[rank], &id), 0);
    socklen_t n = wi_tcp_addr_to_sockaddr(&id.addrs[0], &sa);
    int fd = socket(sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CU_ASSERT_TRUE_FATAL(fd >= 0);
    CU_ASSERT_EQUAL_FATAL(connect(fd, (struct sockaddr *)&sa, n), 0);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

/* Strangers: silent, talkative, many. The job goes on, they are closed without a word, nothing leaks. */
static void strangers(void)
{
    struct world w;
    int fd[300], before;
    unsigned char junk[4096], got[16];
    world_defaults(&w, 2);
    for (int i = 0; i < 2; i++) {
        w.settings[i].half_open = 16;
        w.settings[i].auth_timeout = 1000000000ull;
    }
    world_open(&w, 1);
    exchange(&w, mixed_sizes, 7, 1, 2);
    for (int i = 0; i < 1000; i++)
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
    uint64_t until = wt_tcp_now() + DEADLINE_NS;
    for (int i = 0; i < 300; i++) {
        ssize_t n;
        while ((n = recv(fd[i], got, sizeof got, 0)) < 0 && errno == EAGAIN && wt_tcp_now() < until)
            turn(&w);
        CU_ASSERT_TRUE(n == 0 || (n < 0 && errno == ECONNRESET));
        close(fd[i]);
    }
    CU_ASSERT_EQUAL(count_fds(), before);
    CU_ASSERT_EQUAL(w.failures[0] + w.failures[1], 0);
    world_close(&w);
}

/* No descriptor left: accept tries again later without spinning; connect says why it cannot. */
static void out_of_descriptors(void)
{
    struct world w;
    char a[8] = "later", b[8] = "";
    struct rlimit old, low;
    world_defaults(&w, 2);
    world_open(&w, 1);
    struct weft_xfer x[2] = {xfer(a, 8, 1, 0, 0), xfer(b, 8, 0, 0, 0)};
    getrlimit(RLIMIT_NOFILE, &old);
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
    probe = dup(0); /* one is left, for the connecting side */
    low.rlim_cur = (rlim_t)probe + 1;
    close(probe);
    __atomic_store_n(&wt_tcp_logs, 0, __ATOMIC_RELAXED);
    setrlimit(RLIMIT_NOFILE, &low);
    uint64_t began = wt_tcp_now(), until = began + DEADLINE_NS;
    CU_ASSERT_EQUAL(WT_TCP->send(w.group[0], &x[0]), 0);
    while (__atomic_load_n(&wt_tcp_logs, __ATOMIC_RELAXED) < 4 && wt_tcp_now() < until)
        turn(&w);
    CU_ASSERT_EQUAL(__atomic_load_n(&wt_tcp_logs, __ATOMIC_RELAXED), 4);
    CU_ASSERT_TRUE(wt_tcp_now() - began >= 300000000ull); /* one try each 100 ms, not more */
    CU_ASSERT_EQUAL(x[0].state, WEFT_XFER_PENDING);
    setrlimit(RLIMIT_NOFILE, &old);
    CU_ASSERT_EQUAL(WT_TCP->recv(w.group[1], &x[1]), 0);
    CU_ASSERT_TRUE(drive(&w, x, 2));
    CU_ASSERT_STRING_EQUAL(b, "later");
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
    {"another key", another_key},
    {"gone before connecting", gone_before_connecting},
    {"killed", killed},
    {"strangers", strangers},
    {"out of descriptors", out_of_descriptors},
    {"nothing leaks", nothing_leaks},
    {"bad settings", bad_settings},
};
WT_UNIT_MAIN("tcp_link", cases)
