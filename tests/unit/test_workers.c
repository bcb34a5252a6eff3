/* The pool of threads that do long work: chunks of one work that end in any order.
 * SPDX-License-Identifier: BSD-3-Clause */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "exec/engine.h"
#include "exec/exec.h"
#include "tests/harness/harness.h"

#include "unit.h"

enum { CHUNK = 4096, CHUNKS = 4, ELEMS = CHUNK / 4 };

/* The operator of the tests: what is done of each chunk, and which chunk is held in the middle. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    int held; /* chunk; -1: none */
    int begun[CHUNKS], done[CHUNKS], ndone;
    int told;
    float a[CHUNKS * ELEMS], b[CHUNKS * ELEMS];
} t = {.lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER};

static void wait_until(const int *word, int least)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 20 * (time_t)wt_slow_ms(1000) / 1000;
    while (*word < least)
        if (pthread_cond_timedwait(&t.moved, &t.lock, &until))
            break;
    CU_ASSERT_FATAL(*word >= least);
}

static void look(const void *left, const void *right, void *out, size_t count, weft_dtype dtype, void *arg)
{
    int chunk = (int)((float *)out - t.b) / ELEMS;

    (void)left;
    (void)right;
    (void)dtype;
    (void)arg;
    CU_ASSERT_EQUAL(count, ELEMS);
    pthread_mutex_lock(&t.lock);
    t.begun[chunk]++;
    pthread_cond_broadcast(&t.moved);
    while (t.held == chunk)
        pthread_cond_wait(&t.moved, &t.lock);
    t.done[chunk]++;
    t.ndone++;
    pthread_cond_broadcast(&t.moved);
    pthread_mutex_unlock(&t.lock);
}

static void tell(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&t.lock);
    t.told++;
    pthread_cond_broadcast(&t.moved);
    pthread_mutex_unlock(&t.lock);
}

static void let_go(void)
{
    pthread_mutex_lock(&t.lock);
    t.held = -1;
    pthread_cond_broadcast(&t.moved);
    pthread_mutex_unlock(&t.lock);
}

struct job {
    struct wi_exec exec;
    struct wi_op op;
    struct wi_work work;
    struct wi_workers *pool;
};

/* Four chunks for `threads`, of which one is held. */
static struct job *give(int threads, int held)
{
    struct job *j = calloc(1, sizeof *j);

    CU_ASSERT_FATAL(j != NULL);
    t.held = held;
    t.ndone = t.told = 0;
    memset(t.begun, 0, sizeof t.begun);
    memset(t.done, 0, sizeof t.done);
    j->exec.tell = tell;
    j->exec.nudge_fd = -1;
    j->op.bind.redop =
        (struct wi_redop){.dtype = WEFT_FLOAT32, .user = 1, .commutative = 1, .elem_bytes = 4, .fn = look};
    j->work = (struct wi_work){
        .kind = WI_WORK_REDUCE, .op = &j->op, .ndst = 1, .nsrc = 2, .bytes = CHUNKS * CHUNK, .exec = &j->exec};
    j->work.dst[0] = t.b;
    j->work.src[0] = t.a;
    j->work.src[1] = t.b;
    j->pool = wi_workers_create(threads, CHUNK);
    CU_ASSERT_FATAL(j->pool != NULL && wi_workers_least(j->pool) == CHUNK);
    CU_ASSERT_EQUAL(wi_workers_give(j->pool, &j->work), 1);
    return j;
}

static void end(struct job *j)
{
    wi_workers_settle(j->pool);
    wi_workers_destroy(j->pool);
    free(j);
}

static void await(const int *word, int least)
{
    pthread_mutex_lock(&t.lock);
    wait_until(word, least);
    pthread_mutex_unlock(&t.lock);
}

/* The first chunk is held while the last one ends: it is not over before the first has ended too, and then is told once. */
static void ends_with_its_last_chunk(void)
{
    struct job *j = give(2, 0);

    await(&t.ndone, CHUNKS - 1);
    wi_workers_settle(j->pool);
    CU_ASSERT_EQUAL(t.done[0], 0);
    CU_ASSERT_EQUAL(atomic_load(&j->work.over), 0);
    CU_ASSERT_EQUAL(atomic_load(&j->exec.worked), 0);
    let_go();
    await(&t.told, 1);
    CU_ASSERT_EQUAL(atomic_load(&j->work.over), 1);
    CU_ASSERT_EQUAL(atomic_load(&j->exec.worked), 1);
    wi_workers_settle(j->pool);
    CU_ASSERT_EQUAL(t.told, 1);
    for (int i = 0; i < CHUNKS; i++)
        CU_ASSERT(t.begun[i] == 1 && t.done[i] == 1);
    end(j);
}

static void *let_go_later(void *arg)
{
    uint64_t until = wt_now_ms() + 100;

    (void)arg;
    while (wt_now_ms() < until)
        sched_yield();
    let_go();
    return NULL;
}

/* Work that is not wanted any more: what has not begun never does; who drains waits for what has, as long as it may. */
static void drains_what_has_begun(void)
{
    struct job *j = give(1, 1);
    pthread_t thread;

    await(&t.begun[1], 1);
    CU_ASSERT_EQUAL(wi_workers_drain(j->pool, &j->work, wi_deadline_ns(1000000)), 0);
    CU_ASSERT_EQUAL(t.done[1], 0);
    CU_ASSERT_FATAL(pthread_create(&thread, NULL, let_go_later, NULL) == 0);
    CU_ASSERT_EQUAL(wi_workers_drain(j->pool, &j->work, wi_deadline_ns(20000000000ull)), 1);
    CU_ASSERT_EQUAL(t.done[1], 1);
    pthread_join(thread, NULL);
    wi_workers_settle(j->pool);
    CU_ASSERT_EQUAL(t.begun[2] + t.begun[3], 0);
    end(j);
}

static const struct wt_case cases[] = {
    {"work is over when its last chunk is", ends_with_its_last_chunk},
    {"work that is given up is waited for, as far as it has begun", drains_what_has_begun},
};
WT_UNIT_MAIN("workers", cases)
