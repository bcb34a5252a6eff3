/* Communicators of one context do not wait for each other's work.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fault/fault.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "comm/comm.h"
#include "exec/engine.h"
#include "tests/harness/late.h"

#include "../unit/unit.h"

enum {
    WORDS = 2 << 20,
    ALLOWED = 3 << 20
}; /* 16 MiB; bytes that may be reduced before the other communicator is progressed */

/* Of both ranks. */
static struct shared {
    _Atomic int begun, posted, sent;
} * sh;

/* Of one rank. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int working, go,
        told; /* the operator was called; it may go on; the request of the other communicator is complete */
    weft_status status;
    size_t since; /* bytes that were reduced since it went on */
    int late;     /* it was not in time */
} seen = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static int await_int(int *what)
{
    struct timespec until;
    int err = 0;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)(wt_slow_ms(10000) / 1000);
    while (!*what && !err)
        err = pthread_cond_timedwait(&seen.changed, &seen.lock, &until);
    return *what;
}

static int await(int *what)
{
    int is;

    pthread_mutex_lock(&seen.lock);
    is = await_int(what);
    pthread_mutex_unlock(&seen.lock);
    return is;
}

static void set(int *what)
{
    pthread_mutex_lock(&seen.lock);
    *what = 1;
    pthread_cond_broadcast(&seen.changed);
    pthread_mutex_unlock(&seen.lock);
}

static int await_shared(_Atomic int *word)
{
    uint64_t until = wt_now_ms() + wt_slow_ms(10000);

    while (!atomic_load(word) && wt_now_ms() < until)
        sched_yield();
    return atomic_load(word);
}

static void told(weft_status status, void *arg)
{
    (void)arg;
    seen.status = status;
    set(&seen.told);
}

/* On rank 0 it stops twice: when it is called first, until the other communicator's message has come; and when it has reduced more
 * than a turn since then, until that message is received. Only the thread that is in here progresses either. */
static void add(const void *left, const void *right, void *out, size_t count, weft_dtype dtype, void *arg)
{
    const int64_t *a = left, *b = right;
    int64_t *to = out;

    (void)dtype;
    for (size_t i = 0; i < count; i++)
        to[i] = a[i] + b[i];
    if (*(int *)arg != 0)
        return;
    pthread_mutex_lock(&seen.lock);
    seen.working = 1;
    pthread_cond_broadcast(&seen.changed);
    seen.late |= !await_int(&seen.go);
    seen.since += count * sizeof *to;
    if (seen.since > ALLOWED)
        seen.late |= !await_int(&seen.told);
    pthread_mutex_unlock(&seen.lock);
}

/* A message from rank 1, which is received by call-back. */
static void one_message(struct ft_rank *f, weft_comm *other, weft_request **req, int64_t *word)
{
    if (f->rank == 1) {
        WT_REQUIRE(await_shared(&sh->posted));
        WT_CHECK_OK(weft_send(other, word, 1, WEFT_INT64, 0, 0, NULL));
        atomic_store(&sh->sent, 1);
        return;
    }
    WT_REQUIRE_OK(weft_recv(other, word, 1, WEFT_INT64, 1, 0, req));
    WT_CHECK_OK(weft_request_on_complete(*req, told, NULL));
    atomic_store(&sh->posted, 1);
    WT_REQUIRE(await_shared(&sh->sent));
}

static void turns(int rank, int nranks, void *arg)
{
    int64_t *src, *dst, word = rank ? 42 : 0;
    weft_call call;
    void *buffers;
    weft_comm *other, *third;
    weft_request *req, *message = NULL;
    struct ft_rank f;
    weft_op op;

    ft_open(&f, arg, 100000, rank, nranks);
    WT_REQUIRE_OK(weft_mem_alloc(f.context, 2 * WORDS * sizeof *src, &buffers));
    src = buffers;
    dst = src + WORDS;
    for (int i = 0; i < WORDS; i++)
        src[i] = i + rank;
    WT_REQUIRE_OK(weft_comm_dup(f.comm, NULL, &other));
    WT_REQUIRE_OK(weft_op_create(add, &rank, 1, &op));
    if (rank == 1)
        WT_REQUIRE(await_shared(&sh->begun)); /* so that rank 0 has nothing to reduce when it begins */
    call = wt_call(WEFT_KIND_ALL_REDUCE, src, dst, WORDS, WEFT_INT64);
    call.op = op;
    WT_REQUIRE_OK(wt_issue(f.comm, call, "direct", &req)); /* whose steps are long: 8 MiB */
    atomic_store(&sh->begun, 1);
    if (rank == 0)
        WT_REQUIRE(await(&seen.working));
    /* Communicators are made and destroyed while the progress thread stands still in an operator. */
    WT_REQUIRE_OK(weft_comm_dup(other, NULL, &third));
    WT_CHECK_OK(weft_comm_destroy(third));
    one_message(&f, other, &message, &word);
    if (rank == 0) {
        set(&seen.go);
        WT_CHECK(await(&seen.told));
        WT_CHECK_STATUS(seen.status, WEFT_SUCCESS);
        WT_CHECK_OK(weft_request_free(message));
    }
    WT_CHECK_OK(weft_wait(req));
    WT_CHECK_INT(seen.late, 0);
    WT_CHECK_INT(word, 42);
    for (int i = 0; i < WORDS; i += 1001)
        WT_CHECK_INT(dst[i], 2 * i + 1);
    WT_CHECK_OK(weft_request_free(req));
    WT_CHECK_OK(weft_op_destroy(op));
    WT_CHECK_OK(weft_mem_free(f.context, buffers));
    WT_CHECK_OK(weft_comm_destroy(other));
    ft_close(&f);
}

/* An engine holds a step of one communicator: messages of the other one come all the same. */
static void held(int rank, int nranks, void *arg)
{
    static int64_t src[5000], dst[5000];
    int64_t word = rank ? 42 : 0;
    weft_request *req, *message = NULL;
    weft_comm *other;
    struct ft_rank f;

    wi_engine_of_tests = wt_late_engine;
    ft_open(&f, arg, 100000, rank, nranks);
    WT_REQUIRE_OK(weft_comm_dup(f.comm, NULL, &other));
    wt_late.held = 1;
    WT_REQUIRE_OK(wt_issue(f.comm, wt_call(WEFT_KIND_ALL_REDUCE, src, dst, 5000, WEFT_INT64), "rdouble", &req));
    one_message(&f, other, &message, &word);
    if (rank == 0) {
        WT_CHECK(await(&seen.told));
        WT_CHECK_STATUS(seen.status, WEFT_SUCCESS);
        WT_CHECK_OK(weft_request_free(message));
    }
    WT_CHECK_INT(word, 42);
    WT_CHECK_STATUS(weft_test(req), WEFT_INPROGRESS);
    wt_sync();
    wt_late.held = 0;
    WT_CHECK_OK(weft_wait(req));
    WT_CHECK_OK(weft_request_free(req));
    WT_CHECK_OK(weft_comm_destroy(other));
    ft_close(&f);
}

/* ---- Communicators that end while the progress thread is about ---- */

static struct {
    weft_context *context;
    weft_comm *comm;
    _Atomic int unlinked;
} leaver;

static void *unlink_it(void *arg)
{
    (void)arg;
    wi_context_unlink(leaver.context, leaver.comm);
    atomic_store(&leaver.unlinked, 1);
    return NULL;
}

static int is_listed(weft_context *context, const weft_comm *comm)
{
    int is;

    pthread_mutex_lock(&context->comms_lock);
    is = context->comms == comm;
    pthread_mutex_unlock(&context->comms_lock);
    return is;
}

static void stand(weft_context *context, weft_comm *at, weft_comm *next)
{
    pthread_mutex_lock(&context->comms_lock);
    context->progress.at = at;
    context->progress.next = next;
    pthread_mutex_unlock(&context->comms_lock);
}

/* The test stands where the progress thread, which is not running yet, would: it looks at one communicator, and comes to another
 * one next. */
static void leaves(int rank, int nranks, void *arg)
{
    uint64_t until;
    weft_comm *third;
    pthread_t thread;
    struct ft_rank f;

    ft_open(&f, arg, 100000, rank, nranks);
    WT_REQUIRE_OK(weft_comm_dup(f.comm, NULL, &third));
    WT_REQUIRE(!atomic_load(&f.context->progress.running) && is_listed(f.context, third));
    leaver.context = f.context;
    leaver.comm = third;
    stand(f.context, third, third);
    WT_REQUIRE(pthread_create(&thread, NULL, unlink_it, NULL) == 0);
    for (until = wt_now_ms() + wt_slow_ms(10000); is_listed(f.context, third) && wt_now_ms() < until;)
        sched_yield();
    for (until = wt_now_ms() + 50; wt_now_ms() < until;) /* it is out of the list, and looked at */
        sched_yield();
    WT_CHECK_INT(atomic_load(&leaver.unlinked), 0);
    WT_CHECK(f.context->progress.next == f.comm);
    stand(f.context, NULL, NULL);
    pthread_join(thread, NULL);
    WT_CHECK_INT(atomic_load(&leaver.unlinked), 1);
    WT_CHECK_OK(weft_comm_destroy(third));
    ft_close(&f);
}

static int run(wt_rank_fn fn, const char *transport)
{
    if (!sh)
        sh = mmap(NULL, sizeof *sh, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(sh, 0, sizeof *sh);
    return wt_run(2, fn, (void *)(uintptr_t)transport, 60000);
}

static void long_reduction(void)
{
    CU_ASSERT_EQUAL(run(turns, "shm"), 0);
}

static void held_step(void)
{
    CU_ASSERT_EQUAL(run(held, "shm"), 0);
    CU_ASSERT_EQUAL(run(held, "tcp"), 0);
}

static void leaving(void)
{
    CU_ASSERT_EQUAL(wt_run(1, leaves, (void *)(uintptr_t) "shm", 60000), 0);
}

static const struct wt_case cases[] = {
    {"a message of one communicator is received between the chunks of another's reduction", long_reduction},
    {"a message is received while an engine holds a step of another communicator", held_step},
    {"a communicator that ends is passed over, and waits for who looks at it", leaving},
};
WT_UNIT_MAIN("progress_budget", cases)
