/* Many requests and many communicators: work that grows with their number, not with its square, and limits that are named.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fault/fault.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

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
    wt_check_settings(f->context, config.settings);
    WT_REQUIRE_OK(wt_is_thread() ? weft_comm_create_oob(f->context, &oob, NULL, &f->comm)
                                 : weft_comm_create_env(f->context, NULL, &f->comm));
}

/* ---- Requests ---- */

enum { REQUESTS = 100000, COLLECTIVES = 30000 };

/* Looks at operations, not time, are counted. To look for one of very many requests, of which none has completed, is to look at few
 * others. */
static void tested_in_vain(struct ft_rank *f, weft_request **reqs, int n)
{
    uint64_t before = f->comm->exec->op_polls;

    for (int i = 0; i < 100; i++)
        WT_CHECK_STATUS(weft_test(reqs[(int64_t)i * (n - 1) / 99]), WEFT_INPROGRESS);
    WT_CHECK(f->comm->exec->op_polls - before <= 100ull * 150);
}

static void many_requests(int rank, int nranks, void *arg)
{
    int64_t *words = calloc(REQUESTS, sizeof *words), *sums = calloc(100, sizeof *sums), one = 1;
    weft_request **reqs = calloc(REQUESTS + 100, sizeof *reqs);
    struct ft_rank f;
    uint64_t before;

    WT_REQUIRE(words && reqs && sums);
    open_without_thread(&f, arg, rank, nranks);
    WT_REQUIRE_OK(weft_barrier(f.comm, NULL));
    before = f.comm->exec->op_polls;
    for (int i = 0; i < REQUESTS; i++)
        WT_REQUIRE_OK(weft_recv(f.comm, &words[i], 1, WEFT_INT64, 1 - rank, 0, &reqs[i]));
    WT_CHECK(f.comm->exec->op_polls > before); /* they are counted at all */
    WT_CHECK(f.comm->exec->op_polls - before <= REQUESTS);
    for (int i = 0; i < 100; i++) /* collectives among them */
        WT_REQUIRE_OK(weft_all_reduce(f.comm, &one, &sums[i], 1, WEFT_INT64, WEFT_SUM, &reqs[REQUESTS + i]));
    tested_in_vain(&f, reqs, REQUESTS);
    wt_sync();
    for (int64_t i = 0; i < REQUESTS; i++) {
        int64_t word = i * 3 + rank;
        WT_REQUIRE_OK(weft_send(f.comm, &word, 1, WEFT_INT64, 1 - rank, 0, NULL));
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

/* Collectives that wait for their turn cost nothing. */
static void many_collectives(int rank, int nranks, void *arg)
{
    int64_t *sums = calloc(COLLECTIVES, sizeof *sums), one = rank + 1;
    weft_request **reqs = calloc(COLLECTIVES, sizeof *reqs);
    struct ft_rank f;
    uint64_t before;
    int wrong = 0;

    WT_REQUIRE(reqs && sums);
    open_without_thread(&f, arg, rank, nranks);
    WT_REQUIRE_OK(weft_barrier(f.comm, NULL));
    before = f.comm->exec->op_polls;
    if (rank == 1)
        wt_sync();
    for (int i = 0; i < COLLECTIVES; i++)
        WT_REQUIRE_OK(weft_all_reduce(f.comm, &one, &sums[i], 1, WEFT_INT64, WEFT_SUM, &reqs[i]));
    if (rank == 0) { /* none can complete: the other rank has called none */
        WT_CHECK(f.comm->exec->op_polls - before <= 8ull * COLLECTIVES);
        tested_in_vain(&f, reqs, COLLECTIVES);
        wt_sync();
    }
    WT_CHECK_OK(weft_wait_all(reqs, COLLECTIVES));
    for (int i = 0; i < COLLECTIVES; i++) {
        wrong += sums[i] != nranks * (nranks + 1) / 2;
        WT_CHECK_OK(weft_request_free(reqs[i]));
    }
    WT_CHECK_INT(wrong, 0);
    ft_close(&f);
    free(sums);
    free(reqs);
}

static void requests(void)
{
    CU_ASSERT_EQUAL(wt_run(2, many_collectives, (void *)(uintptr_t) "shm", 60000), 0);
    CU_ASSERT_EQUAL(wt_run(2, many_collectives, (void *)(uintptr_t) "tcp", 60000), 0);
    CU_ASSERT_EQUAL(wt_run(2, many_requests, (void *)(uintptr_t) "shm", 60000), 0);
    CU_ASSERT_EQUAL(wt_run(2, many_requests, (void *)(uintptr_t) "tcp", 60000), 0);
}

/* Of many requests the one that has finished is found, wherever it stands. */
enum { AWAITED = 300 };

static void one_of_many(int rank, int nranks, void *arg)
{
    int64_t words[AWAITED];
    weft_request *reqs[AWAITED];
    struct ft_rank f;
    size_t index;

    open_without_thread(&f, arg, rank, nranks);
    for (int i = 0; i < AWAITED && rank == 0; i++)
        WT_REQUIRE_OK(weft_recv(f.comm, &words[AWAITED - 1 - i], 1, WEFT_INT64, 1, 0, &reqs[AWAITED - 1 - i]));
    for (int64_t i = 0; i < AWAITED; i++) { /* one message at a time */
        int64_t word = 5 * i;
        wt_sync();
        if (rank == 1) {
            WT_REQUIRE_OK(weft_send(f.comm, &word, 1, WEFT_INT64, 0, 0, NULL));
            continue;
        }
        index = SIZE_MAX;
        WT_REQUIRE_OK(weft_wait_any(reqs, AWAITED, &index));
        WT_REQUIRE(index == (size_t)(AWAITED - 1 - i) && words[index] == word);
        WT_CHECK_OK(weft_request_free(reqs[index]));
        reqs[index] = NULL;
    }
    if (rank == 0)
        WT_CHECK_STATUS(weft_wait_any(reqs, AWAITED, &index), WEFT_ENOTFOUND);
    wt_sync();
    ft_close(&f);
}

static void any_of_many(void)
{
    CU_ASSERT_EQUAL(wt_run(2, one_of_many, (void *)(uintptr_t) "shm", 60000), 0);
    CU_ASSERT_EQUAL(wt_run(2, one_of_many, (void *)(uintptr_t) "tcp", 60000), 0);
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

    setenv("WEFT_TCP_SHARE", "never", 1);
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

/* Open descriptors until none is left; returns how many. */
static int take_all_descriptors(int *taken, int most)
{
    struct rlimit limit;
    int n = 0;

    WT_REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = (rlim_t)open_descriptors() + 64;
    WT_REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    while (n < most && (taken[n] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
        n++;
    WT_REQUIRE(n < most && errno == EMFILE);
    return n;
}

enum { TAKEN_MAX = 4096 };

static const char *sockets = "1"; /* to each peer */
static _Atomic int *named;        /* how many ranks named the one without descriptors */

/* All ranks connect at once and none has a descriptor that the communicator has not kept: its first operation works. */
static void last_descriptors(int rank, int nranks, void *arg)
{
    static int taken[TAKEN_MAX];
    int64_t one = 1, sum = 0;
    weft_comm *made;
    struct ft_rank f;
    int n;

    setenv("WEFT_TCP_SOCKETS", sockets, 1);
    setenv("WEFT_TCP_SHARE", "never", 1);
    ft_open(&f, arg, 60000, rank, nranks);
    for (int i = 0; i < 20; i++) {
        WT_REQUIRE_OK(weft_comm_dup(f.comm, NULL, &made));
        n = take_all_descriptors(taken, TAKEN_MAX);
        wt_sync();
        WT_CHECK_OK(weft_all_reduce(made, &one, &sum, 1, WEFT_INT64, WEFT_SUM, NULL));
        wt_sync();
        while (n > 0)
            close(taken[--n]);
        WT_CHECK_OK(weft_comm_destroy(made));
    }
    ft_close(&f);
}

/* Rank 1 lacks descriptors for a third socket: it says so, and the others name it and its lack. */
static void one_too_few(int rank, int nranks, void *arg)
{
    static int taken[TAKEN_MAX];
    int64_t mine[8] = {0}, all[8];
    weft_comm *made;
    struct ft_rank f;
    weft_status st;
    int n = 0;

    setenv("WEFT_TCP_SHARE", "never", 1);
    ft_open(&f, arg, 60000, rank, nranks);
    WT_REQUIRE_OK(weft_all_to_all(f.comm, mine, all, 1, WEFT_INT64, NULL));
    WT_REQUIRE_OK(weft_comm_dup(f.comm, NULL, &made));
    if (rank == 1)
        n = take_all_descriptors(taken, TAKEN_MAX);
    wt_sync();
    st = weft_all_to_all(made, mine, all, 1, WEFT_INT64, NULL);
    if (rank == 1) {
        WT_CHECK_STATUS(st, WEFT_ENOFILES);
        WT_CHECK(strstr(weft_thread_error(), "ulimit -n") != NULL);
        WT_CHECK_OK(weft_comm_destroy(made)); /* those that it was not connected to hear of it, too */
    } else if (st != WEFT_SUCCESS) {          /* it may have had everything that it needs */
        weft_error e = WEFT_ERROR_INIT;
        WT_CHECK_STATUS(st, WEFT_EPEER);
        WT_CHECK_OK(weft_last_error(made, &e));
        WT_CHECK_INT(e.peer, 1);
        /* It could not connect, or refused to be connected to. */
        WT_CHECK(strstr(e.message, "Too many open files") != NULL || strstr(e.message, "no descriptors left") != NULL);
        atomic_fetch_add(named, 1);
        fprintf(stderr, "%s\n", e.message);
    }
    wt_sync();
    /* The other communicator works while rank 1 has none left. */
    WT_CHECK_OK(weft_all_to_all(f.comm, mine, all, 1, WEFT_INT64, NULL));
    wt_sync();
    while (n > 0)
        close(taken[--n]);
    if (rank != 1)
        WT_CHECK_OK(weft_comm_destroy(made));
    wt_sync();
    ft_close(&f);
}

/* With three ranks each has two peers, and connections cross. */
static void last_of_all(void)
{
    CU_ASSERT_EQUAL(wt_run(2, last_descriptors, (void *)(uintptr_t) "tcp", 60000), 0);
    CU_ASSERT_EQUAL(wt_run(3, last_descriptors, (void *)(uintptr_t) "tcp", 60000), 0);
    sockets = "2";
    CU_ASSERT_EQUAL(wt_run(2, last_descriptors, (void *)(uintptr_t) "tcp", 60000), 0);
    sockets = "1";
}

static void too_few(void)
{
    named = mmap(NULL, sizeof *named, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CU_ASSERT_FATAL(named != MAP_FAILED);
    CU_ASSERT_EQUAL(wt_run(6, one_too_few, (void *)(uintptr_t) "tcp", 60000), 0);
    CU_ASSERT(*named > 0);
    munmap((void *)named, sizeof *named);
}

static const struct wt_case cases[] = {
    {"of many requests few are looked at", requests},
    {"of three hundred requests the finished one is found", any_of_many},
    {"running out of descriptors names the limit", descriptors},
    {"a communicator that was made has the descriptors to connect", last_of_all},
    {"a rank without descriptors is named by the others", too_few},
};
WT_UNIT_MAIN("scale", cases)
