/* Call-backs at completion, and threads that wait while others issue.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fault/fault.h"

#include <pthread.h>
#include <stdatomic.h>

#include "../unit/unit.h"

/* What a call-back leaves behind; others wait for it. */
struct seen {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int calls;
    weft_status status;
};
#define SEEN_INIT                                                            \
    {                                                                        \
        PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, WEFT_SUCCESS \
    }

static void note(weft_status status, void *arg)
{
    struct seen *s = arg;

    pthread_mutex_lock(&s->lock);
    s->calls++;
    s->status = status;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static int await_calls(struct seen *s, int calls)
{
    struct timespec until;
    int err = 0;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 10;
    pthread_mutex_lock(&s->lock);
    while (s->calls < calls && !err)
        err = pthread_cond_timedwait(&s->changed, &s->lock, &until);
    calls = s->calls;
    pthread_mutex_unlock(&s->lock);
    return calls;
}

/* No thread waits for the operations: the call-backs come all the same, once. */
static void told(int rank, int nranks, void *arg)
{
    enum { N = 50 };
    struct seen all = SEEN_INIT, late = SEEN_INIT;
    int64_t in[N], out[N];
    weft_request *r[N];
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    for (int i = 0; i < N; i++) {
        in[i] = i;
        WT_REQUIRE_OK(weft_all_reduce(f.comm, &in[i], &out[i], 1, WEFT_INT64, WEFT_SUM, &r[i]));
        WT_CHECK_OK(weft_request_on_complete(r[i], note, &all));
    }
    WT_CHECK_INT(await_calls(&all, N), N);
    for (int i = 0; i < N; i++) {
        WT_CHECK_OK(weft_test(r[i])); /* it has been said to be complete */
        WT_CHECK_INT((int)out[i], i * nranks);
    }
    WT_CHECK_STATUS(all.status, WEFT_SUCCESS);
    WT_CHECK_OK(weft_request_free(r[0]));
    WT_CHECK_OK(weft_all_reduce(f.comm, in, out, 1, WEFT_INT64, WEFT_SUM, &r[0]));
    WT_CHECK_OK(weft_wait(r[0]));
    WT_CHECK_OK(weft_request_on_complete(r[0], note, &late)); /* after the end */
    WT_CHECK_INT(await_calls(&late, 1), 1);
    for (int i = 0; i < N; i++)
        WT_CHECK_OK(weft_request_free(r[i]));
    WT_CHECK_OK(weft_all_reduce(f.comm, in, out, 0, WEFT_INT64, WEFT_SUM, &r[0])); /* nothing to do */
    WT_CHECK_OK(weft_request_on_complete(r[0], note, &late));
    WT_CHECK_INT(await_calls(&late, 2), 2);
    WT_CHECK_OK(weft_request_free(r[0]));
    WT_CHECK_OK(wt_persistent(f.comm, wt_call(WEFT_KIND_ALL_REDUCE, in, out, 1, WEFT_INT64), NULL, &r[0]));
    for (int i = 0; i < 5; i++) {
        WT_CHECK_OK(weft_start(r[0]));
        WT_CHECK_OK(weft_request_on_complete(r[0], note, &late));
        WT_CHECK_OK(weft_wait(r[0]));
    }
    WT_CHECK_INT(await_calls(&late, 7), 7);
    WT_CHECK_OK(weft_request_free(r[0]));
    WT_CHECK_INT(all.calls, N);
    ft_close(&f);
}

/* Also of a request that is started again: asking for a call-back does not wait for the operation, whose last end was not told. */
static void told_again(int rank, int nranks, void *arg)
{
    int64_t in = rank, out = 0;
    struct seen s = SEEN_INIT;
    weft_request *req;
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    WT_CHECK_OK(wt_persistent(f.comm, wt_call(WEFT_KIND_ALL_REDUCE, &in, &out, 1, WEFT_INT64), NULL, &req));
    WT_CHECK_OK(weft_start(req));
    WT_CHECK_OK(weft_wait(req));
    for (int round = 1; round <= 3; round++) {
        if (rank > 0)
            wt_sync(); /* rank 0 has asked */
        WT_CHECK_OK(weft_start(req));
        WT_CHECK_OK(weft_request_on_complete(req, note, &s));
        if (rank == 0) {
            WT_CHECK_INT(s.calls, round - 1);
            wt_sync();
        }
        WT_CHECK_INT(await_calls(&s, round), round);
        WT_CHECK_OK(weft_wait(req));
        WT_CHECK_INT(out, nranks * (nranks - 1) / 2);
    }
    WT_CHECK_OK(weft_request_free(req));
    ft_close(&f);
}

static void run_told_again(void)
{
    CU_ASSERT_EQUAL(ft_run_everywhere(3, told_again, "call-backs of requests that are started again", 30000), 0);
}

/* A call-back that issues the next operation and waits until *its* call-back has run. */
struct nest {
    struct ft_rank *f;
    struct seen inner;
    int depth;
    int64_t in, out;
};

static void next_level(weft_status status, void *arg)
{
    struct nest *n = arg, deeper = {n->f, SEEN_INIT, n->depth - 1, 1, 0};
    weft_request *r = NULL;

    WT_CHECK_STATUS(status, WEFT_SUCCESS);
    if (n->depth > 0) {
        WT_CHECK_OK(weft_all_reduce(n->f->comm, &deeper.in, &deeper.out, 1, WEFT_INT64, WEFT_SUM, &r));
        WT_CHECK_OK(weft_request_on_complete(r, next_level, &deeper));
        WT_CHECK_INT(await_calls(&deeper.inner, 1), 1);
        WT_CHECK_INT((int)deeper.out, n->f->nranks);
        WT_CHECK_OK(weft_wait(r));
    }
    note(status, &n->inner);
}

static void nested(int rank, int nranks, void *arg)
{
    struct ft_rank f;
    struct nest n = {&f, SEEN_INIT, 10, 1, 0};
    weft_request *r;

    ft_open(&f, arg, 20000, rank, nranks);
    WT_REQUIRE_OK(weft_all_reduce(f.comm, &n.in, &n.out, 1, WEFT_INT64, WEFT_SUM, &r));
    WT_CHECK_OK(weft_request_on_complete(r, next_level, &n));
    WT_CHECK_INT(await_calls(&n.inner, 1), 1);
    WT_CHECK_OK(weft_wait(r));
    ft_close(&f);
}

/* What fails, and what never ends, is told as well. */
static void in_vain(int rank, int nranks, void *arg)
{
    struct seen failed = SEEN_INIT;
    int64_t word = 0;
    weft_request *r;
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    WT_CHECK_OK(weft_recv(f.comm, &word, 1, WEFT_INT64, 1 - rank, 0, &r));
    WT_CHECK_STATUS(weft_request_on_complete(NULL, note, &failed), WEFT_EINVAL);
    WT_CHECK_STATUS(weft_request_on_complete(r, NULL, &failed), WEFT_EINVAL);
    WT_CHECK_OK(weft_request_on_complete(r, note, &failed));
    WT_CHECK_STATUS(weft_request_on_complete(r, note, &failed), WEFT_EBUSY);
    wt_sync();
    WT_CHECK_OK(weft_comm_abort(f.comm, "enough"));
    WT_CHECK(weft_wait(r) < 0);
    WT_CHECK_INT(await_calls(&failed, 1), 1);
    WT_CHECK(failed.status < 0);
    wt_sync();
    ft_close(&f);
}

/* ---- A thread that waits does not keep another from issuing ---- */

static void *wait_long(void *arg)
{
    return (void *)(intptr_t)weft_wait(arg);
}

static void together(int rank, int nranks, void *arg)
{
    enum { N = 100 };
    int64_t late = 0, out = 7, in = 0, word = 1;
    int quick = 0;
    weft_request *r, *one;
    pthread_t thread;
    struct ft_rank f;
    uint64_t began;
    void *st;

    ft_open(&f, arg, 20000, rank, nranks);
    WT_REQUIRE_OK(weft_recv(f.comm, &late, 1, WEFT_INT64, 1 - rank, 0, &r));
    WT_REQUIRE(pthread_create(&thread, NULL, wait_long, r) == 0);
    for (int i = 0; i < N; i++) {
        struct timespec pause = {0, 1000000}; /* until the other one sleeps deeply */
        nanosleep(&pause, NULL);
        began = wt_now_ms();
        WT_CHECK_OK(weft_send(f.comm, &out, 1, WEFT_INT64, rank, 0, &one)); /* to oneself: needs no other rank */
        WT_CHECK_OK(weft_recv(f.comm, &in, 1, WEFT_INT64, rank, 0, NULL));
        WT_CHECK_OK(weft_wait(one));
        WT_CHECK_OK(weft_request_free(one));
        quick += wt_now_ms() - began < 4;
    }
    WT_CHECK(quick >=
             N / 10); /* none is, where each waits for a nap of 5 ms; a busy machine delays many, not nearly all */
    WT_CHECK_OK(weft_barrier(f.comm, NULL));
    WT_CHECK_OK(weft_send(f.comm, &word, 1, WEFT_INT64, 1 - rank, 0, NULL));
    pthread_join(thread, &st);
    WT_CHECK_STATUS((weft_status)(intptr_t)st, WEFT_SUCCESS);
    WT_CHECK_OK(weft_request_free(r));
    ft_close(&f);
}

/* Operations that are waited for at once teach the progress thread to stay away: those that are not must move all the same. */
static void unattended(int rank, int nranks, void *arg)
{
    enum { N = 300, ROUNDS = 10, WORDS = 16384 };
    struct seen told = SEEN_INIT;
    static int64_t buffers[2][WORDS]; /* ranks may be threads */
    int64_t one = 1, sum, *words = buffers[rank];
    weft_request *r, *waited;
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    for (int n = 0; n < ROUNDS; n++) {
        for (int i = 0; i < N; i++) {
            WT_REQUIRE_OK(weft_all_reduce(f.comm, &one, &sum, 1, WEFT_INT64, WEFT_SUM, &waited));
            WT_CHECK_OK(weft_wait(waited));
            WT_CHECK_OK(weft_request_free(waited));
        }
        /* Long, with a tag: it moves when its sender has heard that it is asked for. */
        if (rank == 0) {
            for (int i = 0; i < WORDS; i++)
                words[i] = n + i;
            WT_CHECK_OK(weft_send(f.comm, words, WORDS, WEFT_INT64, 1, 7, &r));
            if (n % 2)
                WT_CHECK_OK(weft_request_on_complete(r, note, &told));
        } else {
            WT_CHECK_OK(weft_recv(f.comm, words, WORDS, WEFT_INT64, 0, 7, NULL));
            WT_CHECK_INT(words[WORDS - 1], n + WORDS - 1);
        }
        wt_sync(); /* the sender makes no call until the receiver has it */
        if (rank == 0) {
            if (n % 2)
                WT_CHECK_INT(await_calls(&told, 1 + n / 2), 1 + n / 2);
            WT_CHECK_OK(weft_wait(r));
            WT_CHECK_OK(weft_request_free(r));
        }
    }
    ft_close(&f);
}

#define CASE(name)                                                    \
    static void run_##name(void)                                      \
    {                                                                 \
        CU_ASSERT_EQUAL(ft_run_everywhere(2, name, #name, 30000), 0); \
    }
CASE(told)
CASE(nested)
CASE(in_vain)
CASE(together)
CASE(unattended)

static const struct wt_case cases[] = {
    {"every end is told once", run_told},
    {"ends of a request that is started again are told", run_told_again},
    {"call-backs that wait for call-backs", run_nested},
    {"failures are told", run_in_vain},
    {"a waiting thread lets others issue", run_together},
    {"what nobody waits for moves", run_unattended},
};
WT_UNIT_MAIN("complete", cases)
