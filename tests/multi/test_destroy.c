/* A communicator is destroyed while other threads are inside calls on it: they get a named status, and the memory goes after they
 * have left (AddressSanitizer and ThreadSanitizer see the rest).
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fault/fault.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include "comm/comm.h"

#include "../unit/unit.h"

/* One thread's call. */
struct caller {
    weft_status (*call)(struct caller *c);
    weft_comm *comm;
    weft_request *reqs[3];
    size_t nreqs, index;
    weft_status status;
    char text[256];
    pthread_t thread;
};

static void *call_main(void *arg)
{
    struct caller *c = arg;

    c->status = c->call(c);
    snprintf(c->text, sizeof c->text, "%s", weft_thread_error());
    return NULL;
}

static void start(struct caller *c)
{
    WT_REQUIRE(pthread_create(&c->thread, NULL, call_main, c) == 0);
}

static weft_status call_wait(struct caller *c)
{
    return weft_wait(c->reqs[0]);
}

static weft_status call_wait_for(struct caller *c)
{
    return weft_wait_for(c->reqs[0], 100 * 1000 * FT_MS);
}

static weft_status call_wait_any(struct caller *c)
{
    return weft_wait_any(c->reqs, c->nreqs, &c->index);
}

static weft_status call_wait_all(struct caller *c)
{
    return weft_wait_all(c->reqs, c->nreqs);
}

static weft_status call_abort(struct caller *c)
{
    return weft_comm_abort(c->comm, "enough");
}

static weft_status call_free(struct caller *c)
{
    return weft_request_free(c->reqs[0]);
}

static weft_status call_send_self(struct caller *c)
{
    int64_t word = 1;
    int rank;

    return weft_comm_rank(c->comm, &rank) < 0 ? WEFT_EINVAL
                                              : weft_send(c->comm, &word, 1, WEFT_INT64, rank, 0, &c->reqs[0]);
}

static void await(const _Atomic int *word, int least)
{
    uint64_t until = wt_now_ms() + wt_slow_ms(10000);

    while (atomic_load(word) < least && wt_now_ms() < until)
        sched_yield();
    WT_REQUIRE(atomic_load(word) >= least);
}

/* A receive whose message is never sent. */
static weft_request *hopeless(weft_comm *comm, int64_t *word, int peer)
{
    weft_request *req = NULL;

    WT_REQUIRE_OK(weft_recv(comm, word, 1, WEFT_INT64, peer, 0, &req));
    return req;
}

static void waiters_are_told(int rank, int nranks, void *arg)
{
    static weft_status (*const calls[])(struct caller *) = {call_wait, call_wait_for, call_wait_any, call_wait_all};
    enum { N = 4 };
    struct caller callers[N] = {0};
    int64_t words[N][3];
    struct ft_rank f;

    ft_open(&f, arg, 100000, rank, nranks);
    for (int i = 0; i < N; i++) {
        struct caller *c = &callers[i];
        *c = (struct caller){.call = calls[i], .comm = f.comm, .nreqs = 3};
        for (int k = 0; k < 3; k++)
            c->reqs[k] = hopeless(f.comm, &words[i][k], 1 - rank);
        start(c);
    }
    await(&f.comm->guests, N + 1); /* weft_wait_all counts for the list and for the one that it waits for */
    wt_sync();
    if (rank == 1) /* whose threads may hear of the other's leaving first */
        wt_sync();
    WT_CHECK_OK(weft_comm_destroy(f.comm));
    for (int i = 0; i < N; i++) {
        pthread_join(callers[i].thread, NULL);
        if (rank == 0 || callers[i].status != WEFT_EPEER)
            WT_CHECK_STATUS(callers[i].status, WEFT_EABORTED);
        WT_CHECK(callers[i].text[0]);
        if (callers[i].status == WEFT_EABORTED) /* by this rank's destroying, or by the other's */
            WT_CHECK(strstr(callers[i].text, "destroy") ||
                     (rank == 1 && strstr(callers[i].text, "peer rank 0 on host")));
    }
    if (rank == 0)
        wt_sync();
    WT_CHECK_OK(weft_context_destroy(f.context));
}

/* One of two communicators is destroyed while a thread waits for both. The other one is as it was. */
static void one_of_two(int rank, int nranks, void *arg)
{
    struct caller c = {.call = call_wait_any, .nreqs = 3, .index = 77};
    int64_t words[2], in = 1, sum = 0;
    weft_request *idle;
    struct ft_rank f;
    weft_comm *other;

    ft_open(&f, arg, 100000, rank, nranks);
    WT_REQUIRE_OK(weft_comm_dup(f.comm, NULL, &other));
    WT_REQUIRE_OK(wt_persistent(other, wt_call(WEFT_KIND_ALL_REDUCE, &in, &sum, 1, WEFT_INT64), NULL, &idle));
    c.reqs[0] = hopeless(f.comm, &words[0], 1 - rank);
    c.reqs[1] = idle; /* not active: nobody would notice it otherwise */
    c.reqs[2] = NULL;
    start(&c);
    await(&other->guests, 1);
    WT_CHECK_OK(weft_comm_destroy(other));
    pthread_join(c.thread, NULL);
    WT_CHECK_STATUS(c.status, WEFT_EABORTED);
    WT_CHECK(strstr(c.text, "destroys") != NULL);
    WT_CHECK_INT(c.index, 77);
    WT_CHECK_STATUS(weft_test(c.reqs[0]), WEFT_INPROGRESS);
    WT_CHECK_OK(weft_all_reduce(f.comm, &in, &sum, 1, WEFT_INT64, WEFT_SUM, NULL));
    WT_CHECK_INT(sum, nranks);
    WT_CHECK_OK(weft_send(f.comm, &in, 1, WEFT_INT64, 1 - rank, 0, NULL));
    WT_CHECK_OK(weft_wait(c.reqs[0]));
    WT_CHECK_OK(weft_request_free(c.reqs[0]));
    wt_sync();
    ft_close(&f);
}

static void *destroy_main(void *arg)
{
    return (void *)(intptr_t)weft_comm_destroy(arg);
}

/* Threads that want the lock, and get there first or not at all. */
static void who_wants_in(int rank, int nranks, void *arg)
{
    static weft_status (*const calls[])(struct caller *) = {call_send_self, call_abort, call_free};
    struct ft_rank f;

    for (int i = 0; i < 3; i++) {
        struct caller c = {.call = calls[i]};
        pthread_t destroyer;
        int64_t word = 1;
        void *st;
        ft_open(&f, arg, 100000, rank, nranks);
        c.comm = f.comm;
        if (calls[i] == call_free) {
            WT_REQUIRE_OK(weft_send(f.comm, &word, 1, WEFT_INT64, rank, 0, &c.reqs[0]));
            WT_REQUIRE_OK(weft_recv(f.comm, &word, 1, WEFT_INT64, rank, 0, NULL));
        }
        while (!wi_comm_try_progress(f.comm)) /* as a thread that waits */
            sched_yield();
        start(&c);
        if (calls[i] == call_free)
            pthread_join(c.thread, NULL);
        else
            await(calls[i] == call_abort ? &f.comm->guests : &f.comm->entering, 1);
        WT_REQUIRE(pthread_create(&destroyer, NULL, destroy_main, f.comm) == 0);
        await(&f.comm->exec->abort_requested, 1);
        wi_comm_leave(f.comm);
        pthread_join(destroyer, &st);
        WT_CHECK_STATUS((weft_status)(intptr_t)st, WEFT_SUCCESS);
        if (calls[i] != call_free)
            pthread_join(c.thread, NULL);
        if (calls[i] != call_send_self || c.status != WEFT_EABORTED)
            WT_CHECK_OK(c.status);
        wt_sync();
        WT_CHECK_OK(weft_context_destroy(f.context));
    }
}

/* A rank that does not leave in time: the communicator is still there, aborted, and can be destroyed again. */
static void too_slow(int rank, int nranks, void *arg)
{
    int64_t in = 1, sum;
    struct ft_rank f;

    ft_open(&f, arg, 100000, rank, nranks);
    wi_comm_guest_in(f.comm);
    wt_sync();
    WT_CHECK_STATUS(weft_comm_destroy(f.comm), WEFT_EBUSY);
    WT_CHECK(strstr(weft_thread_error(), "another thread waits") != NULL);
    WT_CHECK_STATUS(weft_all_reduce(f.comm, &in, &sum, 1, WEFT_INT64, WEFT_SUM, NULL), WEFT_EABORTED);
    wi_comm_guest_out(f.comm);
    WT_CHECK_OK(weft_comm_destroy(f.comm));
    WT_CHECK_OK(weft_context_destroy(f.context));
}

/* A thread that finds the communicator being destroyed when it has counted itself leaves what is behind it alone. */
static void counted_late(void)
{
    static struct weft_comm comm; /* its executor is gone already */

    atomic_store(&comm.lock, WI_DESTROYING);
    CU_ASSERT_EQUAL(wi_comm_enter(&comm), WEFT_EABORTED);
    CU_ASSERT_EQUAL(atomic_load(&comm.entering), 0);
}

/* Rank 1 has left before rank 0 connects. */
static void left_before(int rank, int nranks, void *arg)
{
    int64_t word = 1;
    weft_comm *made;
    struct ft_rank f;

    ft_open(&f, arg, 60000, rank, nranks);
    WT_REQUIRE_OK(weft_comm_dup(f.comm, NULL, &made));
    if (rank == 1)
        WT_CHECK_OK(weft_comm_destroy(made));
    wt_sync();
    if (rank == 0) {
        WT_CHECK_STATUS(weft_send(made, &word, 1, WEFT_INT64, 1, 0, NULL), WEFT_EPEER);
        WT_CHECK(strstr(ft_error(&(struct ft_rank){.comm = made, .rank = 0}).message, "left the communicator") != NULL);
        WT_CHECK_OK(weft_comm_destroy(made));
    }
    wt_sync();
    ft_close(&f);
}

/* ---- While a call lets others in ---- */

static weft_status call_reduce(struct caller *c)
{
    int64_t one = 1, sum = 0;
    weft_status st = weft_all_reduce(c->comm, &one, &sum, 1, WEFT_INT64, WEFT_SUM, NULL);

    /* Here nobody else wants the communicator any more. */
    atomic_fetch_sub(&c->comm->entering, 1);
    return st;
}

/* A thread of rank 0 blocks in a call like an earlier one, and sees at each look that another wants in, so that destroying finds
 * the communicator free in the middle of it. */
static void let_in(int rank, int nranks, void *arg)
{
    struct ft_rank f;

    ft_open(&f, arg, 60000, rank, nranks);
    for (int round = 0; round < 10; round++) {
        struct caller c = {.call = call_reduce};
        int64_t one = 1, sum = 0;

        WT_REQUIRE_OK(weft_comm_dup(f.comm, NULL, &c.comm));
        for (int i = 0; i < 3; i++)
            WT_CHECK_OK(weft_all_reduce(c.comm, &one, &sum, 1, WEFT_INT64, WEFT_SUM, NULL));
        wt_sync();
        if (rank == 0) {
            atomic_fetch_add(&c.comm->entering, 1);
            start(&c);
            usleep((useconds_t)(1000 * (1 + round % 3)));
        } else {
            wt_sync();
        }
        WT_CHECK_OK(weft_comm_destroy(c.comm));
        if (rank == 0) {
            wt_sync();
            pthread_join(c.thread, NULL);
            WT_CHECK_STATUS(c.status, WEFT_EABORTED);
            WT_CHECK(strstr(c.text, "destroy") != NULL);
        }
    }
    ft_close(&f);
}

#define EVERYWHERE(fn, nranks) CU_ASSERT_EQUAL(ft_run_everywhere((nranks), (fn), #fn, 30000), 0)

static void run_waiters(void)
{
    EVERYWHERE(waiters_are_told, 2);
}
static void run_one_of_two(void)
{
    EVERYWHERE(one_of_two, 2);
}
static void run_who_wants_in(void)
{
    EVERYWHERE(who_wants_in, 1);
}
static void run_too_slow(void)
{
    EVERYWHERE(too_slow, 2);
}

static void run_let_in(void)
{
    EVERYWHERE(let_in, 2);
}

static void run_left_before(void)
{
    CU_ASSERT_EQUAL(wt_run(2, left_before, (void *)(uintptr_t) "tcp", 30000), 0);
}

static const struct wt_case cases[] = {
    {"threads that wait are told", run_waiters},
    {"of two communicators waited for one is destroyed", run_one_of_two},
    {"threads that want in are sent away", run_who_wants_in},
    {"a thread that stays too long is named", run_too_slow},
    {"a thread that is counted late touches nothing", counted_late},
    {"a thread that lets others in loses the communicator", run_let_in},
    {"a rank that left before it was connected to is named", run_left_before},
};
WT_UNIT_MAIN("destroy", cases)
