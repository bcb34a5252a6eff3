/* Engines: one that never completes, one that fails, one that cannot be stopped; threads that work.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fault/fault.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/comm.h"
#include "exec/engine.h"
#include "tests/harness/late.h"

#include "../unit/unit.h"
#include "tests/harness/says.h"

enum { WORDS = 40000 };

static int64_t src[WORDS], dst[WORDS];

static weft_status reduce(struct ft_rank *f, weft_request **req)
{
    return wt_issue(f->comm, wt_call(WEFT_KIND_ALL_REDUCE, src, dst, WORDS, WEFT_INT64), "ring", req);
}

/* ---- An engine that never completes, on rank 1 ---- */

static void is_named(const struct ft_rank *f)
{
    weft_error e = ft_error(f);

    WT_CHECK_IN("all_reduce #2 (sum of 40000 int64)", e.message);
    if (f->rank == 1) {
        WT_CHECK_IN("on rank 1 of 2 (host ", e.message);
        WT_CHECK_IN("engine late: ", e.message);
        WT_CHECK_IN(" bytes, step ", e.message);
        WT_CHECK_IN(" of lane 0 of ring", e.message);
    } else {
        WT_CHECK_IN("rank 1", e.message);
    }
}

/* Whose deadline passes first: that of the rank whose engine it is; the other one's. */
static void never_completes(int rank, int nranks, void *arg)
{
    const char *transport = (const char *)arg + 1;
    int first = *(const char *)arg - '0';
    struct ft_rank f;

    wi_engine_of_tests = wt_late_engine;
    ft_open(&f, transport, 100000, rank, nranks);
    wt_sync(); /* nobody is in the first operation any more */
    WT_REQUIRE_OK(weft_comm_set_timeout(f.comm, (rank == first ? 1000 : 100000) * FT_MS));
    wt_late.held = rank == 1;
    WT_CHECK(reduce(&f, NULL) < 0);
    is_named(&f);
    ft_close(&f);
}

static void names(void)
{
    static const char *const how[] = {"1shm", "0shm", "1tcp", "0tcp"};

    for (int i = 0; i < 4; i++)
        CU_ASSERT_EQUAL(wt_run(2, never_completes, (void *)(uintptr_t)how[i], 30000), 0);
}

/* ---- One that fails ---- */

static void fails(int rank, int nranks, void *arg)
{
    struct ft_rank f;
    weft_error e;

    wi_engine_of_tests = wt_late_engine;
    ft_open(&f, arg, 100000, rank, nranks);
    wt_sync();
    wt_late.fails = rank == 1;
    WT_CHECK(reduce(&f, NULL) < 0);
    e = ft_error(&f);
    WT_CHECK_IN("all_reduce #2 (sum of 40000 int64)", e.message);
    WT_CHECK_IN(rank == 1 ? "engine late: " : "rank 1", e.message);
    if (rank == 1)
        WT_CHECK_IN("it was told to fail", e.message);
    ft_close(&f);
}

static void failing(void)
{
    CU_ASSERT_EQUAL(wt_run(2, fails, (void *)(uintptr_t) "shm", 30000), 0);
    CU_ASSERT_EQUAL(wt_run(2, fails, (void *)(uintptr_t) "tcp", 30000), 0);
}

/* ---- Buffers go back when the engine does not touch them any more, or the rank says that it may ---- */

static void is_aborted(int rank, int nranks, void *arg)
{
    int stuck = *(const char *)arg == 's';
    weft_request *req;
    struct ft_rank f;
    weft_error e;

    wi_engine_of_tests = wt_late_engine;
    ft_open(&f, (const char *)arg + 1, 100000, rank, nranks);
    wt_late.held = 1;
    wt_late.stuck = stuck ? 100 : 0; /* asked so often */
    wt_late.late = 0;
    WT_REQUIRE_OK(reduce(&f, &req));
    for (uint64_t until = wt_now_ms() + wt_slow_ms(20000); !wt_late.late && wt_now_ms() < until;)
        WT_CHECK_STATUS(weft_test(req), WEFT_INPROGRESS);
    WT_CHECK(wt_late.late > 0);
    wt_sync();
    WT_CHECK_OK(weft_comm_abort(f.comm, "enough"));
    WT_CHECK(weft_wait(req) < 0);
    e = ft_error(&f);
    WT_CHECK_INT(strstr(e.advice, "keep the buffers of operations in flight") != NULL, stuck);
    WT_CHECK_INT(strstr(e.advice, "engine late may still read and write them") != NULL, stuck);
    for (int i = 0; stuck && i < 2; i++) { /* nothing that it may touch goes */
        WT_CHECK_STATUS(weft_comm_destroy(f.comm), WEFT_EBUSY);
        WT_CHECK_IN("engine late still reads or writes memory", weft_thread_error());
        WT_CHECK_STATUS(weft_context_destroy(f.context), WEFT_EBUSY);
    }
    wt_late.stuck = 0;
    ft_close(&f);
}

static void aborted(void)
{
    CU_ASSERT_EQUAL(wt_run(2, is_aborted, (void *)(uintptr_t) "-shm", 30000), 0);
    CU_ASSERT_EQUAL(wt_run(2, is_aborted, (void *)(uintptr_t) "sshm", 30000), 0);
    CU_ASSERT_EQUAL(wt_run(2, is_aborted, (void *)(uintptr_t) "stcp", 30000), 0);
}

/* An operation has failed by itself, and its engine does not stop: the communicator ends, and says why. */
static void fails_alone(int rank, int nranks, void *arg)
{
    int stuck = *(const char *)arg == 's';
    weft_request *req;
    struct ft_rank f;
    weft_error e;

    wi_engine_of_tests = wt_late_engine;
    ft_open(&f, (const char *)arg + 1, 100000, rank, nranks);
    wt_late.held = 1;
    wt_late.late = 0;
    WT_REQUIRE_OK(reduce(&f, &req));
    for (uint64_t until = wt_now_ms() + wt_slow_ms(20000); !wt_late.late && wt_now_ms() < until;)
        WT_CHECK_STATUS(weft_test(req), WEFT_INPROGRESS);
    wt_sync();
    if (stuck && rank == 1) { /* as long as rank 0 has not ended the communicator */
        wt_late.held = 0;
        WT_CHECK_STATUS(weft_wait(req), WEFT_EPEER);
        WT_CHECK_IN("it had failed, and this did not stop: engine late: ", ft_error(&f).message);
        ft_close(&f);
        return;
    }
    wt_late.stuck = stuck ? 100 : 0;
    WT_REQUIRE_OK(wi_comm_enter(f.comm));
    WT_CHECK(f.comm->exec->posted != NULL);
    wi_op_finish(f.comm->exec, &req->op[0], WEFT_ETRUNC);
    WT_CHECK(stuck || !f.comm->exec->posted);
    WT_CHECK_STATUS(f.comm->exec->broken, stuck ? WEFT_ESYS : WEFT_SUCCESS);
    wi_comm_leave(f.comm);
    WT_CHECK_STATUS(weft_wait(req), stuck ? WEFT_ESYS : WEFT_ETRUNC);
    if (stuck) {
        e = ft_error(&f);
        WT_CHECK_IN("all_reduce #2 (sum of 40000 int64)", e.message);
        WT_CHECK_IN("it had failed, and this did not stop: engine late: ", e.message);
        WT_CHECK_IN("engine late may still read and write them", e.advice);
    } else {
        wt_sync();
    }
    wt_late.stuck = 0;
    ft_close(&f);
}

static void alone(void)
{
    CU_ASSERT_EQUAL(wt_run(2, fails_alone, (void *)(uintptr_t) "-tcp", 30000), 0);
    CU_ASSERT_EQUAL(wt_run(2, fails_alone, (void *)(uintptr_t) "stcp", 30000), 0);
}

/* ---- Threads that work ---- */

/* Threads of this process that take no signals. */
static int deaf_threads(void)
{
    DIR *d = opendir("/proc/self/task");
    struct dirent *entry;
    int n = 0;

    while (d && (entry = readdir(d)) != NULL) {
        char path[300], line[256];
        FILE *f;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
        f = fopen(path, "r");
        while (f && fgets(line, sizeof line, f))
            if (strncmp(line, "SigBlk:", 7) == 0)
                n += strtoull(line + 7, NULL, 16) >> 9 & 1; /* SIGUSR1 */
        if (f)
            fclose(f);
    }
    if (d)
        closedir(d);
    return n;
}

/* The thread sanitizer has threads of its own that take no signals. */
static void check_deaf_threads(int want)
{
    const char *sanitizer = getenv("WEFT_SANITIZER");

    if (!sanitizer || !strstr(sanitizer, "thread"))
        WT_CHECK_INT(deaf_threads(), want);
}

/* A child has no workers, and is told so as by every other call. */
static void fork_in(struct ft_rank *f)
{
    int status = -1;
    pid_t child = fork();

    if (child == 0) {
        wt_rank_leaves();
        _exit(weft_all_reduce(f->comm, src, dst, 1, WEFT_INT64, WEFT_SUM, NULL) != WEFT_EINVAL);
    }
    WT_CHECK(child > 0 && waitpid(child, &status, 0) == child);
    WT_CHECK_INT(status, 0);
}

static void work(int rank, int nranks, void *arg)
{
    struct ft_rank f;

    setenv("WEFT_WORKERS", "3", 1);
    setenv("WEFT_WORKER_BYTES", "4K", 1);
    ft_open(&f, arg, 100000, rank, nranks);
    check_deaf_threads(0); /* there was nothing for them */
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < WORDS; i++) {
            src[i] = i + rank + round;
            dst[i] = -1;
        }
        WT_REQUIRE_OK(wt_issue(f.comm, wt_call(WEFT_KIND_ALL_REDUCE, src, dst, WORDS, WEFT_INT64),
                               round % 2 ? "rhalving" : "flat2", NULL));
        for (int i = 0; i < WORDS; i++)
            if (dst[i] != 2 * (int64_t)(i + round) + 1)
                wt_fail(__FILE__, __LINE__, "round %d, element %d: %lld", round, i, (long long)dst[i]);
        if (round == 0)
            check_deaf_threads(3);
        if (round == 10)
            fork_in(&f);
    }
    ft_close(&f);
    check_deaf_threads(0);
}

static void workers(void)
{
    CU_ASSERT_EQUAL(wt_run(2, work, (void *)(uintptr_t) "shm", 30000), 0);
}

static const struct wt_case cases[] = {
    {"an engine that never completes is named when the deadline passes", names},
    {"an engine that fails is named", failing},
    {"buffers that an engine may still touch are said to be in use", aborted},
    {"an operation that failed takes its buffers back from the engine", alone},
    {"workers start with the first long work, take no signals, and end with the context", workers},
};
WT_UNIT_MAIN("engine", cases)
