/* Ranks that die, stop or abort in the middle of operations: the others hear of it in time, by name.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fault/fault.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../unit/unit.h"

enum { RANKS = 4, VICTIM = 2, WARM = 20 };

static const char *const transports[] = {"shm", "tcp"};
static const size_t sizes[] = {8, 64 << 10, 16 << 20};

/* Shared with the ranks. */
struct shared {
    const char *transport;
    size_t bytes;
    _Atomic int warm[RANKS];    /* operations done */
    _Atomic uint64_t struck_ms; /* when the victim was hit or the abort called */
    _Atomic uint64_t heard_ms[RANKS];
    _Atomic int named[RANKS];
};
static struct shared *sh;

static void share(const char *transport, size_t bytes)
{
    if (!sh)
        sh = mmap(NULL, sizeof *sh, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(sh, 0, sizeof *sh);
    sh->transport = transport;
    sh->bytes = bytes;
}

/* All-reduces until one fails. */
static weft_status reduce_until_failure(struct ft_rank *f)
{
    size_t n = sh->bytes / 8;
    int64_t *src = calloc(n, 8), *dst = calloc(n, 8);
    weft_status st = WEFT_SUCCESS;

    WT_REQUIRE(src && dst);
    while (st == WEFT_SUCCESS) {
        st = weft_all_reduce(f->comm, src, dst, n, WEFT_INT64, WEFT_SUM, NULL);
        sh->warm[f->rank] += st == WEFT_SUCCESS;
    }
    sh->heard_ms[f->rank] = wt_now_ms();
    free(src);
    free(dst);
    return st;
}

static int all_warm(void)
{
    for (int r = 0; r < RANKS; r++)
        if (sh->warm[r] < (sh->bytes > 1 << 20 ? 2 : WARM))
            return 0;
    return 1;
}

static void wait_until_warm(void)
{
    uint64_t until = wt_now_ms() + wt_slow_ms(15000);

    while (!all_warm() && wt_now_ms() < until)
        usleep(500);
    usleep(3000); /* somewhere within an operation */
}

static uint64_t slowest(void)
{
    uint64_t most = 0;

    for (int r = 0; r < RANKS; r++)
        if (sh->heard_ms[r] && sh->heard_ms[r] - sh->struck_ms > most)
            most = sh->heard_ms[r] - sh->struck_ms;
    return most;
}

/* ---- Killed ---- */

static void survive_kill(int rank, int nranks, void *arg)
{
    struct ft_rank f;
    weft_status st;

    (void)arg;
    ft_open(&f, sh->transport, 20000, rank, nranks);
    st = reduce_until_failure(&f);
    WT_CHECK_STATUS(st, WEFT_EPEER);
    weft_error e = ft_error(&f);
    WT_CHECK_INT(e.peer, VICTIM);
    WT_CHECK(sh->heard_ms[rank] - sh->struck_ms <= wt_slow_ms(1000));
    fprintf(stderr, "after %llu ms, %d operations: %s\n", (unsigned long long)(sh->heard_ms[rank] - sh->struck_ms),
            sh->warm[rank], e.message);
    ft_close(&f);
}

static void killed(void)
{
    for (int t = 0; t < 2; t++) {
        for (int s = 0; s < 3; s++) {
            share(transports[t], sizes[s]);
            struct wt_job *job = wt_job_start(RANKS, survive_kill, NULL);
            CU_ASSERT_PTR_NOT_NULL_FATAL(job);
            wait_until_warm();
            sh->struck_ms = wt_now_ms();
            kill(wt_job_pid(job, VICTIM), SIGKILL);
            wt_job_expect_signal(job, VICTIM, SIGKILL);
            CU_ASSERT_EQUAL(wt_job_wait(job, 25000), 0);
            printf("# SIGKILL, %zu bytes over %s: the last survivor knew after %llu ms\n", sizes[s], transports[t],
                   (unsigned long long)slowest());
        }
    }
}

/* ---- Stopped ---- */

static void survive_stop(int rank, int nranks, void *arg)
{
    struct ft_rank f;
    weft_status st;

    (void)arg;
    ft_open(&f, sh->transport, 2000, rank, nranks);
    st = reduce_until_failure(&f);
    WT_CHECK_STATUS(st, WEFT_ETIMEDOUT);
    weft_error e = ft_error(&f);
    /* Over tcp a rank may wait for one that waits for the victim, and all deadlines pass at once. */
    if (strcmp(sh->transport, "shm") == 0)
        WT_CHECK_INT(e.peer, VICTIM);
    WT_CHECK(e.peer >= 0 && e.peer != rank && strstr(e.message, "waited") != strstr(e.message, "gave up"));
    sh->named[rank] = e.peer == VICTIM && strstr(e.message, "rank 2");
    WT_CHECK(sh->heard_ms[rank] - sh->struck_ms >= 1500);
    WT_CHECK(sh->heard_ms[rank] - sh->struck_ms <= wt_slow_ms(10000)); /* the deadline is 2 s; the machine may stall */
    if (strstr(e.message, "stopped"))
        sh->warm[rank] = -1;
    fprintf(stderr, "%s: %s\n", weft_status_name(st), e.message);
    ft_close(&f);
}

static void stopped(void)
{
    for (int t = 0; t < 2; t++) {
        int said = 0, named = 0;
        share(transports[t], sizes[1]);
        struct wt_job *job = wt_job_start(RANKS, survive_stop, NULL);
        CU_ASSERT_PTR_NOT_NULL_FATAL(job);
        wait_until_warm();
        sh->struck_ms = wt_now_ms();
        kill(wt_job_pid(job, VICTIM), SIGSTOP);
        for (uint64_t until = wt_now_ms() + wt_slow_ms(20000); wt_now_ms() < until; usleep(2000))
            if (sh->heard_ms[0] && sh->heard_ms[1] && sh->heard_ms[3])
                break;
        usleep(1500000); /* the survivors end while it is still stopped */
        kill(wt_job_pid(job, VICTIM), SIGKILL);
        wt_job_expect_signal(job, VICTIM, SIGKILL);
        CU_ASSERT_EQUAL(wt_job_wait(job, 15000), 0);
        for (int r = 0; r < RANKS; r++) {
            said += sh->warm[r] == -1;
            named += sh->named[r];
        }
        printf("# SIGSTOP over %s: the last survivor knew after %llu ms, %d of 3 name it, %d say that it is stopped\n",
               transports[t], (unsigned long long)slowest(), named, said);
        CU_ASSERT(named > 0);
        if (t == 0) /* over tcp a peer's process may be on any host: nobody knows its state */
            CU_ASSERT(said > 0);
    }
}

/* ---- One waits for another that waits for a third ---- */

/* In a ring rank 1 waits for rank 0, which waits for rank 2, which does not call. Rank 1 gives up first. */
static void wait_in_turn(int rank, int nranks, void *arg)
{
    weft_call_options ring = WEFT_CALL_OPTIONS_INIT;
    static int64_t src[3 << 10], dst[3 << 10];
    struct ft_rank f;
    weft_error e;

    (void)arg;
    ft_open(&f, sh->transport, rank == 1 ? 300 : 20000, rank, nranks);
    ring.algorithm = "ring";
    if (rank < 2) {
        WT_REQUIRE_OK(weft_comm_next_call(f.comm, &ring));
        WT_CHECK_STATUS(weft_all_reduce(f.comm, src, dst, 3 << 10, WEFT_INT64, WEFT_SUM, NULL), WEFT_ETIMEDOUT);
        e = ft_error(&f);
        WT_CHECK_INT(e.peer, rank == 1 ? 0 : 2);
        WT_CHECK(rank == 1 || strstr(e.message, "rank 1 gave up") != NULL);
        WT_CHECK(rank == 1 || strstr(e.message, "which waits for rank 2") != NULL);
    }
    wt_sync();
    ft_close(&f);
}

static void waited_in_turn(void)
{
    for (int t = 0; t < 2; t++) {
        share(transports[t], 8);
        CU_ASSERT_EQUAL(wt_run(3, wait_in_turn, NULL, 15000), 0);
    }
}

/* ---- Aborted by another thread ---- */

static void *abort_later(void *arg)
{
    struct ft_rank *f = arg;

    usleep(200000);
    sh->struck_ms = wt_now_ms();
    WT_CHECK_OK(weft_comm_abort(f->comm, "the test says so"));
    return NULL;
}

static void blocked(int rank, int nranks, void *arg)
{
    struct ft_rank f;
    pthread_t thread;
    weft_status st = WEFT_SUCCESS;
    int64_t one = 1, sum;

    (void)arg;
    ft_open(&f, sh->transport, 20000, rank, nranks);
    wt_sync();
    if (rank == 0)
        WT_REQUIRE(pthread_create(&thread, NULL, abort_later, &f) == 0);
    if (rank != VICTIM) { /* which never comes */
        st = weft_all_reduce(f.comm, &one, &sum, 1, WEFT_INT64, WEFT_SUM, NULL);
        sh->heard_ms[rank] = wt_now_ms();
        WT_CHECK(rank == 0 ? st == WEFT_EABORTED : st == WEFT_EABORTED || st == WEFT_EPEER);
        WT_CHECK(sh->heard_ms[rank] - sh->struck_ms <= wt_slow_ms(200));
        weft_error e = ft_error(&f);
        fprintf(stderr, "%s after %llu ms: %s\n", weft_status_name(st),
                (unsigned long long)(sh->heard_ms[rank] - sh->struck_ms), e.message);
    }
    if (rank == 0) {
        pthread_join(thread, NULL);
        WT_CHECK_OK(weft_comm_abort(f.comm, "again"));
        WT_CHECK_STATUS(weft_barrier(f.comm, NULL), WEFT_EABORTED);
    }
    wt_sync();
    if (rank == VICTIM) {
        st = weft_all_reduce(f.comm, &one, &sum, 1, WEFT_INT64, WEFT_SUM, NULL);
        if (st == WEFT_SUCCESS) /* all that it needed was there already */
            st = weft_barrier(f.comm, NULL);
        WT_CHECK(st == WEFT_EABORTED || st == WEFT_EPEER);
    }
    ft_close(&f);
}

static void aborted(void)
{
    for (int t = 0; t < 2; t++) {
        share(transports[t], 8);
        CU_ASSERT_EQUAL(wt_run(RANKS, blocked, NULL, 15000), 0);
        printf("# abort over %s: the last rank was out after %llu ms\n", transports[t], (unsigned long long)slowest());
    }
}

/* ---- Destroyed with operations in flight ---- */

static void leave_behind(int rank, int nranks, void *arg)
{
    static int64_t src[4][1 << 16], dst[4][1 << 16], from;
    weft_request *req[6] = {NULL};
    struct ft_rank f;
    uint64_t began;

    (void)arg;
    ft_open(&f, sh->transport, 20000, rank, nranks);
    wt_sync();
    if (rank != VICTIM) {
        for (int i = 0; i < 4; i++)
            WT_CHECK_OK(weft_all_reduce(f.comm, src[i], dst[i], 1 << 16, WEFT_INT64, WEFT_SUM, &req[i]));
        WT_CHECK_OK(weft_recv(f.comm, &from, 1, WEFT_INT64, VICTIM, &req[4]));
    }
    sh->struck_ms = 1;
    wt_sync();
    began = wt_now_ms();
    ft_close(&f);
    sh->heard_ms[rank] = sh->struck_ms + (wt_now_ms() - began);
}

static void left_behind(void)
{
    for (int t = 0; t < 2; t++) {
        share(transports[t], 8);
        CU_ASSERT_EQUAL(wt_run(RANKS, leave_behind, NULL, 15000), 0);
        printf("# destroy with five operations in flight over %s: %llu ms\n", transports[t],
               (unsigned long long)slowest());
    }
}

/* ---- Memory that its rank has taken back ---- */

/* The root of a broadcast that stores into the other's buffer is held up until the other has given up, by its deadline or by
 * destroying its communicator, and uses the buffer for something else. */
static void take_back(int rank, int nranks, void *arg)
{
    enum { BYTES = 1 << 20 };
    weft_call_options split = WEFT_CALL_OPTIONS_INIT;
    unsigned char *buf = malloc(BYTES);
    weft_request *req = NULL;
    struct ft_rank f;
    weft_status st;

    WT_REQUIRE(buf != NULL);
    memset(buf, rank, BYTES);
    setenv("WEFT_PROGRESS_THREAD", "n", 1); /* the root moves inside its calls only */
    ft_open(&f, "shm", rank ? 200 : 20000, rank, nranks);
    split.algorithm = "split";
    WT_REQUIRE_OK(weft_comm_next_call(f.comm, &split));
    if (rank == 0)
        WT_CHECK_OK(weft_broadcast(f.comm, buf, buf, BYTES, WEFT_UINT8, 0, &req)); /* its record is out */
    wt_sync();
    if (rank == 1 && arg) {
        WT_CHECK_OK(weft_broadcast(f.comm, buf, buf, BYTES, WEFT_UINT8, 0, &req));
        for (int i = 0; i < 100; i++)
            WT_CHECK_STATUS(weft_test(req), WEFT_INPROGRESS); /* its buffer is offered by now */
        ft_close(&f);
    } else if (rank == 1) {
        WT_CHECK_STATUS(weft_broadcast(f.comm, buf, buf, BYTES, WEFT_UINT8, 0, NULL), WEFT_ETIMEDOUT);
    }
    if (rank == 1)
        memset(buf, 99, BYTES);
    wt_sync();
    if (rank == 0) {
        st = weft_wait(req);
        WT_CHECK(st == WEFT_ETIMEDOUT || st == WEFT_EPEER);
        WT_CHECK(strstr(ft_error(&f).message, "rank 1") != NULL);
    }
    wt_sync();
    for (int i = 0; rank == 1 && i < BYTES; i++)
        WT_REQUIRE(buf[i] == 99);
    if (rank == 0 || !arg)
        ft_close(&f);
    free(buf);
}

static void taken_back(void)
{
    CU_ASSERT_EQUAL(wt_run(2, take_back, NULL, 15000), 0);
    CU_ASSERT_EQUAL(wt_run(2, take_back, (void *)1, 15000), 0);
}

static const struct wt_case cases[] = {
    {"a killed rank is named within a second", killed},
    {"a stopped rank is named at the deadline", stopped},
    {"who is waited for says whom it waits for", waited_in_turn},
    {"an abort ends a blocked operation", aborted},
    {"destroying does not wait for what is in flight", left_behind},
    {"nobody writes to memory that was given up", taken_back},
};
WT_UNIT_MAIN("kill", cases)
