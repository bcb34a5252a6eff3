/* SPDX-License-Identifier: BSD-3-Clause */
/* Two ranks with a side channel each, in one process. */
#ifndef WT_SIDE_WORLD_H
#define WT_SIDE_WORLD_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "net/side_conn.h"
#include "tests/harness/harness.h"
#include "tests/unit/unit.h"

#define RANKS 2 /* that have a side channel; 0 and 1 */
#define LONG_NS 20000000000ull
#define COMM 6 /* of the communicator that both are in */

struct world {
    struct wi_side *side[RANKS];
    struct wi_side_group *group[RANKS];
    struct wi_auth_seen *seen[RANKS];
    unsigned char address[RANKS][WI_SIDE_ADDRESS_MAX];
    size_t address_bytes[RANKS];
    int nranks;        /* of groups; at least RANKS */
    int other_key;     /* that rank has another one; -1 */
    atomic_int no_key; /* rank 1 finds none */
};

static struct world *world_of_rank[RANKS];

/* ---- A handshake that takes as long as the test wants ---- */

enum { PASS, STOP, STOPPED };
static atomic_int handshake;

/* Until the test lets it go on, or has failed. */
static void wait_in_handshake(void)
{
    int stop = STOP;

    if (!atomic_compare_exchange_strong(&handshake, &stop, STOPPED))
        return;
    for (uint64_t until = wt_now_ms() + wt_slow_ms(5000); atomic_load(&handshake) == STOPPED && wt_now_ms() < until;)
        poll(NULL, 0, 1);
}

static int find_key(void *arg, const void *claim, size_t bytes, struct wi_auth_key *key)
{
    int rank = (int)(intptr_t)arg;

    (void)claim, (void)bytes;
    if (rank == 1)
        wait_in_handshake();
    memset(key, world_of_rank[rank]->other_key == rank ? 8 : 7, sizeof *key);
    return rank != 1 || !atomic_load(&world_of_rank[rank]->no_key);
}

static size_t address_of(void *arg, int rank, unsigned char address[WI_SIDE_ADDRESS_MAX])
{
    const struct world *w = arg;

    memcpy(address, w->address[rank], w->address_bytes[rank]);
    return w->address_bytes[rank];
}

static const char *host_of(void *arg, int rank)
{
    (void)arg;
    return rank ? "node-b" : "node-a";
}

static void open_in(struct world *w, int rank, uint64_t comm, const char *transport, uint64_t timeout_ns)
{
    struct wi_side_group_config config = {.transport = transport,
                                          .comm_id = {5, comm},
                                          .rank = rank,
                                          .nranks = w->nranks,
                                          .timeout_ns = timeout_ns,
                                          .address_of = address_of,
                                          .host_of = host_of,
                                          .arg = w};

    CU_ASSERT_EQUAL_FATAL(wi_side_open(w->side[rank], &config, &w->group[rank]), WEFT_SUCCESS);
}

static void open_group(struct world *w, int rank, const char *transport, uint64_t timeout_ns)
{
    open_in(w, rank, COMM, transport, timeout_ns);
}

static void world_of(struct world *w, int nranks, int other_key, uint64_t timeout_ns)
{
    memset(w, 0, sizeof *w);
    w->nranks = nranks;
    w->other_key = other_key;
    for (int r = 0; r < RANKS; r++) {
        struct wi_side_config config = {.find_key = find_key,
                                        .find_arg = (void *)(intptr_t)r,
                                        .seen = w->seen[r] = wi_auth_seen_create(),
                                        .prove_ns = nranks > RANKS ? 600000000000ull : 0};
        world_of_rank[r] = w;
        CU_ASSERT_EQUAL_FATAL(wi_side_create(&config, &w->side[r]), WEFT_SUCCESS);
        w->address_bytes[r] = wi_side_address(w->side[r], w->address[r]);
        CU_ASSERT_FATAL(w->address_bytes[r] > 0);
        open_group(w, r, "card", timeout_ns);
    }
}

static void world_open(struct world *w, int other_key, uint64_t timeout_ns)
{
    world_of(w, RANKS, other_key, timeout_ns);
}

static void world_close(struct world *w)
{
    for (int r = 0; r < RANKS; r++) {
        wi_side_close(w->group[r]);
        wi_side_destroy(w->side[r]);
        wi_auth_seen_destroy(w->seen[r]);
    }
}

/* Until its descriptor says that there are news. */
static int news(const struct world *w, int rank)
{
    struct pollfd fd = {.fd = wi_side_fd(w->group[rank]), .events = POLLIN};

    return poll(&fd, 1, (int)wt_slow_ms(10000)) == 1;
}

struct told {
    weft_status status;
    size_t bytes;
    unsigned char data[WEFT_SIDE_MAX];
    char why[WEFT_SIDE_WHY_MAX];
};

static void hear(struct world *w, int rank, size_t capacity, struct told *t)
{
    memset(t, 0, sizeof *t);
    do {
        CU_ASSERT_FATAL(news(w, rank));
        t->status = wi_side_response(w->group[rank], 1 - rank, t->data, capacity, &t->bytes, t->why);
    } while (t->status == WEFT_INPROGRESS);
}

/* Waits for a request and responds with the same bytes. */
static inline void echo(struct world *w, int rank)
{
    unsigned char request[WEFT_SIDE_MAX];
    size_t bytes = 0;
    int peer = -1;

    while (!wi_side_requested(w->group[rank], &peer, request, sizeof request, &bytes))
        CU_ASSERT_FATAL(news(w, rank));
    CU_ASSERT_EQUAL(peer, 1 - rank);
    CU_ASSERT_EQUAL(wi_side_respond(w->group[rank], peer, request, bytes), WEFT_SUCCESS);
}

static void fails_with(struct told *t, weft_status status, const char *text)
{
    if (t->status != status || !strstr(t->why, text))
        printf("# %s: %s\n", weft_status_name(t->status), t->why);
    CU_ASSERT_EQUAL(t->status, status);
    CU_ASSERT_PTR_NOT_NULL(strstr(t->why, text));
    CU_ASSERT_PTR_NOT_NULL(strstr(t->why, "rank 1 on host node-b"));
    CU_ASSERT_PTR_NOT_NULL(strstr(t->why, "transport card"));
    CU_ASSERT_STRING_EQUAL(wi_fail_text(), t->why);
}

#endif
