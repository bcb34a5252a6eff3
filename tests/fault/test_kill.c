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
enum call { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, LINEAR };

static const char *const call_names[] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "all_reduce with"};
static const char *const transports[] = {"shm", "tcp"};
static const size_t sizes[] = {8, 64 << 10, 16 << 20};

/* Shared with the ranks. */
struct shared {
    const char *transport, *algorithm; /* NULL: the planner's; of LINEAR the codec */
    size_t bytes;
    int victim;
    enum call call;
    _Atomic int warm[RANKS];    /* operations done, and their results right */
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
    sh->victim = VICTIM;
}

/* ---- Operations until one fails; every result before is right, and no source is ever changed ---- */

/* What rank `rank` gives in round `round` at position `i`: never zero, and other in each round. */
static int64_t given(int rank, int round, size_t i)
{
    return (int64_t)(rank + 1) * 1000000007 + (int64_t)round * 65537 + (int64_t)i * 3 + 1;
}

static int64_t expected(int rank, int round, size_t n, size_t i)
{
    int64_t sum = 0;

    switch (sh->call) {
    case ALL_GATHER:
        return given((int)(i / n), round, i % n);
    case ALL_TO_ALL:
        return given((int)(i / n), round, (size_t)rank * n + i % n);
    default:
        for (int r = 0; r < RANKS; r++)
            sum += given(r, round, sh->call == ALL_REDUCE ? i : (size_t)rank * n + i);
        return sum;
    }
}

struct vectors {
    int64_t *src, *dst;
    size_t n, src_elems, dst_elems;
};

static void fill(const struct vectors *v, int rank, int round)
{
    for (size_t i = 0; i < v->src_elems; i++)
        v->src[i] = given(rank, round, i);
    memset(v->dst, 0x5a, v->dst_elems * 8);
}

static void check(const struct vectors *v, int rank, int round, int result)
{
    size_t wrong = 0, changed = 0;

    for (size_t i = 0; result && i < v->dst_elems; i++)
        wrong += v->dst[i] != expected(rank, round, v->n, i);
    for (size_t i = 0; i < v->src_elems; i++)
        changed += v->src[i] != given(rank, round, i);
    if (wrong || changed)
        wt_fail(__FILE__, __LINE__, "round %d: %zu of %zu results are wrong, %zu of the source changed", round, wrong,
                v->dst_elems, changed);
}

static weft_status call(struct ft_rank *f, const struct vectors *v)
{
    weft_kind kind = sh->call == ALL_GATHER       ? WEFT_KIND_ALL_GATHER
                     : sh->call == REDUCE_SCATTER ? WEFT_KIND_REDUCE_SCATTER
                     : sh->call == ALL_TO_ALL     ? WEFT_KIND_ALL_TO_ALL
                                                  : WEFT_KIND_ALL_REDUCE;

    return wt_issue(f->comm, wt_call(kind, v->src, v->dst, v->n, WEFT_INT64), sh->algorithm, NULL);
}

static weft_status call_until_failure(struct ft_rank *f)
{
    size_t n = sh->bytes / 8;
    struct vectors v = {.n = n, .src_elems = n, .dst_elems = n};
    weft_status st;

    v.src_elems *= sh->call == REDUCE_SCATTER || sh->call == ALL_TO_ALL ? RANKS : 1;
    v.dst_elems *= sh->call == ALL_GATHER || sh->call == ALL_TO_ALL ? RANKS : 1;
    v.src = malloc(v.src_elems * 8);
    v.dst = malloc(v.dst_elems * 8);
    WT_REQUIRE(v.src && v.dst);
    for (int round = 0;; round++) {
        fill(&v, f->rank, round);
        st = call(f, &v);
        if (st < 0)
            sh->heard_ms[f->rank] = wt_now_ms();
        check(&v, f->rank, round, st >= 0);
        if (st < 0 || wt_failures())
            break;
        sh->warm[f->rank]++;
    }
    free(v.src);
    free(v.dst);
    return st;
}

/* Likewise all-reduces with a linear codec, which are two operations each: what ranks agree on, and the sum. */
static weft_status call_linear_until_failure(struct ft_rank *f)
{
    size_t n = sh->bytes / sizeof(float);
    float *src = malloc(sh->bytes), *dst = malloc(sh->bytes);
    weft_call call = wt_call(WEFT_KIND_ALL_REDUCE, src, dst, n, WEFT_FLOAT32);
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    weft_status st = WEFT_SUCCESS;

    WT_REQUIRE(src && dst);
    options.codec = sh->algorithm;
    options.tensor = 1;
    call.options = &options;
    for (size_t i = 0; i < n; i++)
        src[i] = (float)(i % 100) - 50 + (float)f->rank;
    while (st >= 0 && !wt_failures()) {
        size_t wrong = 0;
        st = weft_issue(f->comm, &call, NULL);
        if (st < 0)
            sh->heard_ms[f->rank] = wt_now_ms();
        for (size_t i = 0; i < n; i++) {
            float off = dst[i] - (float)RANKS * ((float)(i % 100) - 50) - RANKS * (RANKS - 1) / 2;
            wrong += (st >= 0 && !(off <= 16 && off >= -16)) || src[i] != (float)(i % 100) - 50 + (float)f->rank;
        }
        WT_CHECK_INT((int)wrong, 0);
        sh->warm[f->rank] += st >= 0;
    }
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
    CU_ASSERT(all_warm());
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

/* No survivor ends before all have heard: a survivor that has ended is gone, too, and may be the one that is named. */
static void await_survivors(void)
{
    uint64_t until = wt_now_ms() + wt_slow_ms(5000);
    int heard = 0;

    while (heard < RANKS - 1 && wt_now_ms() < until) {
        usleep(500);
        heard = 0;
        for (int r = 0; r < RANKS; r++)
            heard += sh->heard_ms[r] != 0;
    }
}

static void survive_kill(int rank, int nranks, void *arg)
{
    struct ft_rank f;
    weft_status st;

    (void)arg;
    ft_open(&f, sh->transport, 20000, rank, nranks);
    st = sh->call == LINEAR ? call_linear_until_failure(&f) : call_until_failure(&f);
    WT_CHECK_STATUS(st, WEFT_EPEER);
    await_survivors();
    weft_error e = ft_error(&f);
    char victim[16];
    WT_CHECK_INT(e.peer, sh->victim);
    snprintf(victim, sizeof victim, "rank %d", sh->victim);
    if (!strstr(e.message, victim)) /* also where its end was seen */
        wt_fail(__FILE__, __LINE__, "\"%s\" is not in: %s", victim, e.message);
    WT_CHECK(sh->heard_ms[rank] - sh->struck_ms <= wt_slow_ms(1000));
    fprintf(stderr, "after %llu ms, %d operations: %s\n", (unsigned long long)(sh->heard_ms[rank] - sh->struck_ms),
            sh->warm[rank], e.message);
    ft_close(&f);
}

static void kill_one(const char *transport, enum call called, const char *algorithm, size_t bytes, int victim)
{
    share(transport, bytes);
    sh->algorithm = algorithm;
    sh->call = called;
    sh->victim = victim;
    struct wt_job *job = wt_job_start(RANKS, survive_kill, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(job);
    wait_until_warm();
    sh->struck_ms = wt_now_ms();
    kill(wt_job_pid(job, victim), SIGKILL);
    wt_job_expect_signal(job, victim, SIGKILL);
    int failed = wt_job_wait(job, 25000);
    CU_ASSERT_EQUAL(failed, 0);
    printf("# SIGKILL of rank %d, %s%s%s, %zu bytes over %s: %s, the last survivor knew after %llu ms\n", victim,
           call_names[called], algorithm ? " " : "", algorithm ? algorithm : "", bytes, transport,
           failed ? "failed" : "right", (unsigned long long)slowest());
}

static const int victims[] = {0, VICTIM, RANKS - 1};

static void killed(void)
{
    for (int t = 0; t < 2; t++)
        for (int s = 0; s < 3; s++)
            for (int v = 0; v < 3; v++)
                kill_one(transports[t], ALL_REDUCE, NULL, sizes[s], victims[v]);
}

static void killed_in_algorithms(void)
{
    static const struct {
        enum call call;
        const char *algorithm;
        int mapped; /* shared memory only */
    } algorithms[] = {
        {ALL_REDUCE, "flat", 1},     {ALL_REDUCE, "flat2", 1},  {ALL_REDUCE, "ring", 0},  {ALL_REDUCE, "rdouble", 0},
        {ALL_REDUCE, "rhalving", 0}, {ALL_REDUCE, "dbtree", 0}, {ALL_GATHER, "bruck", 0}, {REDUCE_SCATTER, "ring", 0},
        {ALL_TO_ALL, "pairwise", 0}, {ALL_TO_ALL, "flat", 1},
    };

    for (size_t i = 0; i < sizeof algorithms / sizeof *algorithms; i++)
        for (int t = 0; t < 2 - algorithms[i].mapped; t++)
            for (int v = 0; v < 3; v++)
                kill_one(transports[t], algorithms[i].call, algorithms[i].algorithm, sizes[1], victims[v]);
}

static void killed_in_linear_calls(void)
{
    static const char *const codecs[] = {"sharedint:ef=1,bypass=never", "leaderk:ratio=1,ef=1,bypass=never"};

    for (int c = 0; c < 2; c++)
        for (int t = 0; t < 2; t++)
            for (int v = 0; v < 3; v++)
                kill_one(transports[t], LINEAR, codecs[c], sizes[1], victims[v]);
}

/* ---- Stopped ---- */

static void survive_stop(int rank, int nranks, void *arg)
{
    struct ft_rank f;
    weft_status st;

    (void)arg;
    ft_open(&f, sh->transport, 2000, rank, nranks);
    st = call_until_failure(&f);
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
        if (t == 0) /* over tcp a peer's process may be on any host: its state is not known */
            CU_ASSERT(said > 0);
    }
}

/* ---- One waits for another that waits for a third ---- */

/* In a ring rank 1 waits for rank 0, which waits for rank 2, which does not call. Rank 1 gives up first. */
static void wait_in_turn(int rank, int nranks, void *arg)
{
    static int64_t src[3 << 10], dst[3 << 10];
    struct ft_rank f;
    weft_error e;

    (void)arg;
    ft_open(&f, sh->transport, rank == 1 ? 300 : 20000, rank, nranks);
    if (rank < 2) {
        weft_call call = wt_call(WEFT_KIND_ALL_REDUCE, src, dst, 3 << 10, WEFT_INT64);
        WT_CHECK_STATUS(wt_issue(f.comm, call, "ring", NULL), WEFT_ETIMEDOUT);
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

/* The last rank aborts between operations, the one before hears of it, and then the first one: from either. */
static void abort_between(int rank, int nranks, void *arg)
{
    int64_t one = 1, sum;
    struct ft_rank f;
    weft_error e;

    (void)arg;
    ft_open(&f, sh->transport, 20000, rank, nranks);
    WT_CHECK_OK(weft_all_reduce(f.comm, &one, &sum, 1, WEFT_INT64, WEFT_SUM, NULL));
    wt_sync();
    if (rank == 2)
        WT_CHECK_OK(weft_comm_abort(f.comm, "enough"));
    wt_sync();
    if (rank == 1)
        WT_CHECK_STATUS(weft_all_reduce(f.comm, &one, &sum, 1, WEFT_INT64, WEFT_SUM, NULL), WEFT_EPEER);
    wt_sync();
    if (rank == 0)
        WT_CHECK_STATUS(weft_all_reduce(f.comm, &one, &sum, 1, WEFT_INT64, WEFT_SUM, NULL), WEFT_EPEER);
    if (rank < 2) {
        e = ft_error(&f);
        WT_CHECK(e.peer == 2);
        if (!strstr(e.message, "communicator aborted: enough") || strstr(e.message, "#0"))
            wt_fail(__FILE__, __LINE__, "not the abort, or an operation that nobody called: %s", e.message);
    }
    wt_sync();
    ft_close(&f);
}

static void aborted_between(void)
{
    for (int t = 0; t < 2; t++) {
        share(transports[t], 8);
        CU_ASSERT_EQUAL(wt_run(3, abort_between, NULL, 15000), 0);
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
        WT_CHECK_OK(weft_recv(f.comm, &from, 1, WEFT_INT64, VICTIM, 0, &req[4]));
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
    unsigned char *buf = malloc(BYTES);
    weft_call call = wt_call(WEFT_KIND_BROADCAST, buf, buf, BYTES, WEFT_UINT8);
    weft_request *req = NULL;
    struct ft_rank f;
    weft_status st;

    WT_REQUIRE(buf != NULL);
    memset(buf, rank, BYTES);
    setenv("WEFT_PROGRESS_THREAD", "n", 1); /* the root moves inside its calls only */
    ft_open(&f, "shm", rank ? 200 : 20000, rank, nranks);
    if (rank == 0)
        WT_CHECK_OK(wt_issue(f.comm, call, "split", &req)); /* its record is out */
    wt_sync();
    if (rank == 1 && arg) {
        WT_CHECK_OK(wt_issue(f.comm, call, "split", &req));
        for (int i = 0; i < 100; i++)
            WT_CHECK_STATUS(weft_test(req), WEFT_INPROGRESS); /* its buffer is offered by now */
        ft_close(&f);
    } else if (rank == 1) {
        WT_CHECK_STATUS(wt_issue(f.comm, call, "split", NULL), WEFT_ETIMEDOUT);
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
    {"a rank killed in one of several algorithms is named", killed_in_algorithms},
    {"a rank killed in a call with a linear codec is named", killed_in_linear_calls},
    {"a stopped rank is named at the deadline", stopped},
    {"who is waited for says whom it waits for", waited_in_turn},
    {"an abort ends a blocked operation", aborted},
    {"an abort between operations is told as one", aborted_between},
    {"destroying does not wait for what is in flight", left_behind},
    {"nobody writes to memory that was given up", taken_back},
};
WT_UNIT_MAIN("kill", cases)
