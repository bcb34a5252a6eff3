/* Many requests and many communicators: work that grows with their number, not with its square, and limits that are named.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fault/fault.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "comm/comm.h"

#include "../unit/unit.h"

static void open_without_thread(struct ft_rank *f, const char *transport, int rank, int nranks)
{
    char setting[64];
    const char *settings[] = {setting, "PROGRESS_THREAD=n", NULL};
    weft_context_config config = WEFT_CONTEXT_CONFIG_INIT;
    weft_oob oob = {sizeof oob, rank, nranks, wt_exchange, NULL};

    snprintf(setting, sizeof setting, "TRANSPORTS=%s", transport);
    config.settings = settings;
    *f = (struct ft_rank){.rank = rank, .nranks = nranks};
    WT_REQUIRE_OK(weft_context_create(&config, &f->context));
    WT_REQUIRE_OK(wt_is_thread() ? weft_comm_create_oob(f->context, &oob, NULL, &f->comm)
                                 : weft_comm_create_env(f->context, NULL, &f->comm));
}

/* ---- Requests ---- */

enum { REQUESTS = 20000 };

/* Looks at operations, not time, are counted. */
static void many_requests(int rank, int nranks, void *arg)
{
    int64_t *words = calloc(REQUESTS, sizeof *words), *sums = calloc(100, sizeof *sums), one = 1;
    weft_request **reqs = calloc(REQUESTS + 100, sizeof *reqs);
    struct ft_rank f;
    uint64_t before;

    WT_REQUIRE(words && reqs && sums);
    open_without_thread(&f, arg, rank, nranks);
    WT_REQUIRE_OK(weft_barrier(f.comm, NULL));
    before = f.comm->exec->visits;
    for (int i = 0; i < REQUESTS; i++)
        WT_REQUIRE_OK(weft_recv(f.comm, &words[i], 1, WEFT_INT64, 1 - rank, &reqs[i]));
    WT_CHECK(f.comm->exec->visits - before >= REQUESTS);
    WT_CHECK(f.comm->exec->visits - before <= 8ull * REQUESTS);
    for (int i = 0; i < 100; i++) /* collectives among them */
        WT_REQUIRE_OK(weft_all_reduce(f.comm, &one, &sums[i], 1, WEFT_INT64, WEFT_SUM, &reqs[REQUESTS + i]));
    for (int64_t i = 0; i < REQUESTS; i++) {
        int64_t word = i * 3 + rank;
        WT_REQUIRE_OK(weft_send(f.comm, &word, 1, WEFT_INT64, 1 - rank, NULL));
    }
    WT_CHECK_OK(weft_wait_all(reqs, REQUESTS + 100));
    for (int i = 0; i < REQUESTS; i++)
        WT_REQUIRE(words[i] == i * 3 + 1 - rank);
    for (int i = 0; i < 100; i++)
        WT_CHECK_INT(sums[i], nranks);
    for (int i = 0; i < REQUESTS + 100; i++)
        WT_CHECK_OK(weft_request_free(reqs[i]));
    wt_sync();
    ft_close(&f);
    free(words);
    free(sums);
    free(reqs);
}

static void requests(void)
{
    CU_ASSERT_EQUAL(wt_run(2, many_requests, (void *)(uintptr_t) "shm", 60000), 0);
    CU_ASSERT_EQUAL(wt_run(2, many_requests, (void *)(uintptr_t) "tcp", 60000), 0);
}

/* ---- Descriptors ---- */

static int open_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;

    WT_REQUIRE(dir != NULL);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n - 3; /* ".", "..", and the directory's own */
}

static void few_descriptors(int rank, int nranks, void *arg)
{
    struct rlimit limit = {0, 0};
    weft_comm *made[64];
    int64_t one = 1, sum;
    weft_status st = WEFT_SUCCESS;
    struct ft_rank f;
    char text[64];
    int n = 0;

    ft_open(&f, arg, 60000, rank, nranks);
    WT_REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = (rlim_t)open_descriptors() + 40;
    WT_REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    while (n < 64 && (st = weft_comm_dup(f.comm, NULL, &made[n])) == WEFT_SUCCESS) {
        WT_CHECK_OK(weft_all_reduce(made[n], &one, &sum, 1, WEFT_INT64, WEFT_SUM, NULL));
        n++;
    }
    WT_CHECK(n > 2 && n < 64);
    fprintf(stderr, "after %d: %s\n", n, weft_thread_error());
    snprintf(text, sizeof text, "%llu", (unsigned long long)limit.rlim_cur);
    /* One of them is told by the other if that one fails first. */
    if (st == WEFT_ENOFILES)
        WT_CHECK(strstr(weft_thread_error(), "ulimit -n") != NULL && strstr(weft_thread_error(), text) != NULL);
    else
        WT_CHECK_STATUS(st, WEFT_EPEER);
    /* What there was works, and room that is made is used. */
    WT_CHECK_OK(weft_all_reduce(f.comm, &one, &sum, 1, WEFT_INT64, WEFT_SUM, NULL));
    while (n > 0)
        WT_CHECK_OK(weft_comm_destroy(made[--n]));
    wt_sync();
    ft_close(&f);
}

static void descriptors(void)
{
    CU_ASSERT_EQUAL(wt_run(2, few_descriptors, (void *)(uintptr_t) "tcp", 30000), 0);
}

static const struct wt_case cases[] = {
    {"issuing many requests looks at each a few times", requests},
    {"running out of descriptors names the limit", descriptors},
};
WT_UNIT_MAIN("scale", cases)
