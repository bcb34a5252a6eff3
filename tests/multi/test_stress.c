/* Threads of a rank, each with a communicator of its own and all with one context: operations, values checked, while others
 * make and destroy communicators, take and give memory, and ask. Ranks are processes, and threads where ThreadSanitizer sees
 * all of them.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fault/fault.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "../unit/unit.h"

enum { RANKS = 2, WORKERS = 3, MOST = 6000 };

static int rounds(void)
{
    const char *sanitizer = getenv("WEFT_SANITIZER");
    return sanitizer && !strcmp(sanitizer, "thread") ? 60 : 200;
}

struct worker {
    weft_context *context;
    weft_comm *comm;
    int rank, nranks, number;
    _Atomic int *working;
    pthread_t thread;
    int64_t src[RANKS * MOST], dst[RANKS * MOST];
};

static int64_t given(const struct worker *w, int rank, int round, size_t i)
{
    return (int64_t)(rank + 1) * 100003 + (int64_t)w->number * 977 + (int64_t)round * 13 + (int64_t)i + 1;
}

static void fill(struct worker *w, int round, size_t n)
{
    for (size_t i = 0; i < n; i++)
        w->src[i] = given(w, w->rank, round, i);
    memset(w->dst, 0, sizeof w->dst);
}

static void check_reduced(const struct worker *w, int round, size_t n)
{
    size_t wrong = 0;

    for (size_t i = 0; i < n; i++) {
        int64_t sum = 0;
        for (int r = 0; r < w->nranks; r++)
            sum += given(w, r, round, i);
        wrong += w->dst[i] != sum;
    }
    WT_CHECK_INT(wrong, 0);
}

static void check_gathered(const struct worker *w, int round, size_t n)
{
    size_t wrong = 0;

    for (size_t i = 0; i < n * (size_t)w->nranks; i++)
        wrong += w->dst[i] != given(w, (int)(i / n), round, i % n);
    WT_CHECK_INT(wrong, 0);
}

static void check_sent(const struct worker *w, int round, size_t n)
{
    int from = (w->rank + w->nranks - 1) % w->nranks;
    size_t wrong = 0;

    for (size_t i = 0; i < n; i++)
        wrong += w->dst[i] != given(w, from, round, i);
    WT_CHECK_INT(wrong, 0);
}

static void one_round(struct worker *w, int round)
{
    static const size_t sizes[] = {1, 64, 700, MOST};
    size_t n = sizes[(round / 4 + w->number) % 4];
    weft_request *req = NULL;

    fill(w, round, n);
    switch (round % 4) {
    case 0:
        WT_CHECK_OK(weft_all_reduce(w->comm, w->src, w->dst, n, WEFT_INT64, WEFT_SUM, NULL));
        check_reduced(w, round, n);
        break;
    case 1:
        WT_CHECK_OK(weft_all_gather(w->comm, w->src, w->dst, n, WEFT_INT64, &req));
        while (weft_test(req) == WEFT_INPROGRESS)
            ;
        WT_CHECK_OK(weft_request_free(req));
        check_gathered(w, round, n);
        break;
    case 2:
        WT_CHECK_OK(weft_send_recv(w->comm, w->src, n, (w->rank + 1) % w->nranks, 0, w->dst, n,
                                   (w->rank + w->nranks - 1) % w->nranks, 0, WEFT_INT64, NULL));
        check_sent(w, round, n);
        break;
    default:
        WT_CHECK_OK(weft_group_start());
        WT_CHECK_OK(weft_all_reduce(w->comm, w->src, w->dst, n, WEFT_INT64, WEFT_SUM, &req));
        WT_CHECK_OK(weft_group_end());
        WT_CHECK_OK(weft_wait(req));
        WT_CHECK_OK(weft_request_free(req));
        check_reduced(w, round, n);
        break;
    }
}

/* A worker's communicator is renewed now and then: all ranks' workers of a number do the same. */
static void *work(void *arg)
{
    struct worker *w = arg;

    for (int round = 0; round < rounds() && wt_failures() == 0; round++) {
        one_round(w, round);
        if (round % 20 == 5 * w->number) {
            weft_comm *copy = NULL;
            WT_CHECK_OK(weft_comm_dup(w->comm, NULL, &copy));
            WT_CHECK_OK(weft_comm_destroy(w->comm));
            w->comm = copy;
        }
    }
    --*w->working;
    return NULL;
}

static void meddle(struct worker *all)
{
    weft_op op;
    double scalar = 2;
    void *memory;

    if (weft_mem_alloc(all->context, 1 << 16, &memory) >= 0) {
        memset(memory, 1, 1 << 16);
        WT_CHECK_OK(weft_mem_free(all->context, memory));
    }
    WT_CHECK_OK(weft_op_create_premul_sum(&scalar, WEFT_FLOAT64, &op));
    WT_CHECK_OK(weft_op_destroy(op));
}

static void body(int rank, int nranks, void *arg)
{
    struct worker *all = calloc(WORKERS, sizeof *all);
    _Atomic int working = WORKERS;
    struct ft_rank f;

    WT_REQUIRE(all != NULL);
    ft_open(&f, arg, 30000, rank, nranks);
    for (int i = 0; i < WORKERS; i++) {
        all[i].context = f.context, all[i].rank = rank, all[i].nranks = nranks, all[i].number = i;
        all[i].working = &working;
        WT_REQUIRE_OK(weft_comm_dup(f.comm, NULL, &all[i].comm));
    }
    for (int i = 0; i < WORKERS; i++)
        WT_REQUIRE(pthread_create(&all[i].thread, NULL, work, &all[i]) == 0);
    while (working) {
        meddle(all);
        usleep(500);
    }
    for (int i = 0; i < WORKERS; i++) {
        pthread_join(all[i].thread, NULL);
        WT_CHECK_OK(weft_comm_destroy(all[i].comm));
    }
    ft_close(&f);
    free(all);
}

static void stress(void)
{
    CU_ASSERT_EQUAL(ft_run_everywhere(RANKS, body, "threads with communicators of their own", 60000), 0);
}

static const struct wt_case cases[] = {
    {"threads with communicators of their own", stress},
};
WT_UNIT_MAIN("stress", cases)
