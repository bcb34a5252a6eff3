/* tcp_world.h: ranks as tcp endpoints of one process, driven in turns by one thread.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef WT_TCP_WORLD_H
#define WT_TCP_WORLD_H

#include "tests/conform/tcp_host.h"
#include "tests/unit/unit.h"

#include <dirent.h>
#include <poll.h>

#define RANKS_MAX 5
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

/* So many warnings were logged, at once or after a while. */
__attribute__((unused)) static int logs_become(struct world *w, int n)
{
    uint64_t until = wt_tcp_now() + DEADLINE_NS;

    while (__atomic_load_n(&wt_tcp_logs, __ATOMIC_RELAXED) < n && wt_tcp_now() < until)
        turn(w);
    return __atomic_load_n(&wt_tcp_logs, __ATOMIC_RELAXED) == n;
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
__attribute__((unused)) static const size_t large_sizes[] = {9u << 20, 1, 3000000};

__attribute__((unused)) static void exchange_all(struct world *w, int nchans)
{
    for (int order = 0; order < 3; order++) {
        exchange(w, small_sizes, 14, nchans, order);
        exchange(w, mixed_sizes, 7, nchans, order);
    }
}

static inline int count_fds(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

/* Give up what the transport has kept back. */
static inline void use_reserve(struct world *w)
{
    for (int i = 0; i < 2; i++) {
        struct wi_tcp_group *g = w->group[i];
        while (wi_tcp_reserve_use(g))
            continue;
        pthread_mutex_lock(&g->endpoint->lock);
        wi_tcp_spare_use(g->endpoint);
        pthread_mutex_unlock(&g->endpoint->lock);
    }
}

/* Rank 1's endpoint has put off accepting since it was looked at last, when that was until `at`. */
static inline int put_off_again(const struct world *w, uint64_t *at)
{
    struct wi_tcp_endpoint *e = w->endpoint[1];
    pthread_mutex_lock(&e->lock);
    int again = !e->listening && e->listen_again_ns != *at;
    *at = again ? e->listen_again_ns : *at;
    pthread_mutex_unlock(&e->lock);
    return again;
}

#endif
