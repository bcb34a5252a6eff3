/* A rank that was stopped and goes on after another one has given up does not write into that one's buffers any more; if it was
 * stopped in the middle of a store, who gave up is told to keep them.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fault/fault.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "comm/comm.h"

#include "../unit/unit.h"

enum { RANKS = 3, SURVIVOR = 0, STOPPED = 1, LATE = 2, COUNT = 3 << 15, PATTERN = 0x5a };

static struct shared {
    _Atomic int armed, ready, stopped, failed, go, late_done, stopped_done;
} * sh;

static void share(void)
{
    if (!sh)
        sh = mmap(NULL, sizeof *sh, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(sh, 0, sizeof *sh);
}

static int await(_Atomic int *word)
{
    uint64_t until = wt_now_ms() + wt_slow_ms(20000);

    while (!*word && wt_now_ms() < until)
        usleep(500);
    return *word != 0;
}

/* It yields and never sleeps, so that what it sees first when it goes on is what it waited for. */
static void open_rank(struct ft_rank *f, int rank, int nranks)
{
    const char *settings[] = {"TRANSPORTS=shm", "COMM_SPIN=0", "COMM_YIELDS=1000000000", NULL};
    weft_context_config config = WEFT_CONTEXT_CONFIG_INIT;

    config.settings = settings;
    *f = (struct ft_rank){.rank = rank, .nranks = nranks};
    WT_REQUIRE_OK(weft_context_create(&config, &f->context));
    wt_check_settings(f->context, config.settings);
    WT_REQUIRE_OK(weft_comm_create_env(f->context, NULL, &f->comm));
    WT_REQUIRE_OK(weft_comm_set_timeout(f->comm, (rank == SURVIVOR ? 3000 : 60000) * FT_MS));
}

static weft_status reduce(struct ft_rank *f, int64_t *src, int64_t *dst, weft_op op)
{
    weft_call call = wt_call(WEFT_KIND_ALL_REDUCE, src, dst, COUNT, WEFT_INT64);

    call.op = op;
    return wt_issue(f->comm, call, "direct", NULL); /* which stores into all ranks' buffers */
}

/* ---- Stopped before a store ---- */

static weft_status (*real_map)(void *, int, const struct weft_mem_desc *, void **);
static struct wi_exec *late_exec;
static uint64_t signals_before[RANKS];

static int all_have_signalled(void)
{
    for (int r = 0; r < LATE; r++)
        if (__atomic_load_n(&late_exec->map.ranks[r].signals[0].value, __ATOMIC_ACQUIRE) <= signals_before[r])
            return 0;
    return 1;
}

/* The last rank to come: when it is here the others wait for its signal. */
static weft_status map_late(void *group, int peer, const struct weft_mem_desc *desc, void **ptr)
{
    if (sh->armed && !sh->ready) {
        uint64_t until = wt_now_ms() + wt_slow_ms(10000);
        while (!all_have_signalled() && wt_now_ms() < until)
            sched_yield();
        sh->ready = 1;
        WT_CHECK(await(&sh->go));
    }
    return real_map(group, peer, desc, ptr);
}

static void be_late(struct ft_rank *f)
{
    struct weft_transport_ops *ops = (struct weft_transport_ops *)(uintptr_t)f->comm->exec->map_ops;

    late_exec = f->comm->exec;
    for (int r = 0; r < RANKS; r++)
        signals_before[r] = late_exec->map.ranks[r].signals[0].value;
    real_map = ops->mem_map;
    ops->mem_map = map_late;
}

static int all_are(const int64_t *words, int value)
{
    const unsigned char *p = (const void *)words;

    for (size_t i = 0; i < COUNT * sizeof *words; i++)
        if (p[i] != value)
            return 0;
    return 1;
}

static void before_a_store(int rank, int nranks, void *arg)
{
    struct ft_rank f;
    void *src, *dst;
    weft_status st;

    (void)arg;
    open_rank(&f, rank, nranks);
    WT_REQUIRE_OK(weft_mem_alloc(f.context, COUNT * 8, &src));
    WT_REQUIRE_OK(weft_mem_alloc(f.context, COUNT * 8, &dst));
    WT_CHECK_OK(reduce(&f, src, dst, WEFT_SUM));
    WT_CHECK_OK(weft_barrier(f.comm, NULL));
    wt_sync();
    if (rank == LATE)
        be_late(&f);
    sh->armed = 1;
    wt_sync();
    st = reduce(&f, src, dst, WEFT_SUM);
    WT_CHECK(st < 0);
    if (rank == SURVIVOR) {
        WT_CHECK_STATUS(st, WEFT_ETIMEDOUT);
        WT_CHECK(strstr(ft_error(&f).advice, "keep the buffers") == NULL);
        memset(dst, PATTERN, COUNT * 8);
        sh->failed = 1;
        WT_CHECK(await(&sh->stopped_done));
        WT_CHECK(all_are(dst, PATTERN));
    }
    if (rank == LATE)
        sh->late_done = 1;
    if (rank == STOPPED)
        sh->stopped_done = 1;
    wt_sync();
    ft_close(&f);
}

static void stop(pid_t pid)
{
    char path[40], text[512] = "";
    uint64_t until = wt_now_ms() + wt_slow_ms(5000);

    kill(pid, SIGSTOP);
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    while (!strstr(text, ") T") && wt_now_ms() < until) {
        FILE *file = fopen(path, "r");
        if (file && !fgets(text, sizeof text, file))
            text[0] = '\0';
        if (file)
            fclose(file);
    }
    CU_ASSERT_PTR_NOT_NULL(strstr(text, ") T"));
}

static void stopped_before(void)
{
    share();
    struct wt_job *job = wt_job_start(RANKS, before_a_store, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(job);
    CU_ASSERT(await(&sh->ready));
    stop(wt_job_pid(job, STOPPED));
    CU_ASSERT(await(&sh->failed));
    sh->go = 1;
    CU_ASSERT(await(&sh->late_done));
    kill(wt_job_pid(job, STOPPED), SIGCONT);
    CU_ASSERT_EQUAL(wt_job_wait(job, 30000), 0);
}

/* ---- Stopped in the middle of one ---- */

static void stop_in_operator(const void *a, const void *b, void *out, size_t count, weft_dtype dtype, void *arg)
{
    const int64_t *x = a, *y = b;
    int64_t *sum = out;

    (void)dtype;
    if (*(const int *)arg == STOPPED && sh->armed && !sh->stopped) {
        sh->stopped = 1;
        raise(SIGSTOP);
    }
    for (size_t i = 0; i < count; i++)
        sum[i] = x[i] + y[i];
}

static void within_a_store(int rank, int nranks, void *arg)
{
    struct ft_rank f;
    void *src, *dst;
    weft_status st;
    weft_op op;

    (void)arg;
    open_rank(&f, rank, nranks);
    WT_REQUIRE_OK(weft_op_create(stop_in_operator, &rank, 1, &op));
    WT_REQUIRE_OK(weft_mem_alloc(f.context, COUNT * 8, &src));
    WT_REQUIRE_OK(weft_mem_alloc(f.context, COUNT * 8, &dst));
    WT_CHECK_OK(reduce(&f, src, dst, op));
    WT_CHECK_OK(weft_barrier(f.comm, NULL));
    wt_sync();
    sh->armed = 1;
    wt_sync();
    st = reduce(&f, src, dst, op);
    WT_CHECK(rank == STOPPED || st < 0); /* it had all it needed */
    if (rank == SURVIVOR) {
        WT_CHECK_STATUS(st, WEFT_ETIMEDOUT);
        WT_CHECK(strstr(ft_error(&f).advice, "keep the buffers") != NULL);
        WT_CHECK(strstr(ft_error(&f).advice, "rank 1") != NULL);
        sh->failed = 1;
    }
    wt_sync();
    WT_CHECK_OK(weft_op_destroy(op));
    ft_close(&f);
}

static void stopped_within(void)
{
    share();
    struct wt_job *job = wt_job_start(RANKS, within_a_store, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(job);
    CU_ASSERT(await(&sh->stopped));
    CU_ASSERT(await(&sh->failed));
    kill(wt_job_pid(job, STOPPED), SIGCONT);
    CU_ASSERT_EQUAL(wt_job_wait(job, 30000), 0);
}

static const struct wt_case cases[] = {
    {"a rank stopped before a store does not make it later", stopped_before},
    {"a rank stopped within a store: the buffers' owner is told", stopped_within},
};
WT_UNIT_MAIN("late", cases)
