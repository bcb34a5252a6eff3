/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads that share one call at a time. A call's units are cut into as many consecutive ranges as there are threads: two cores
 * that stream through memory far from each other get more of it than two that take turns in one place. Whoever has finished its
 * range claims units of the others', so that a thread that wakes late or was never started costs nothing but its help. */
#include <pthread.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/thread.h"
#include "zero/optim/optim_isa.h"
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#define SPINS 256 /* about 10 us: less than what it takes to sleep and wake */

enum { RANGES_MAX = 32 }; /* more threads than that share ranges */

struct range {
    _Alignas(64) _Atomic size_t next; /* the first unit that nobody has claimed */
    size_t end;
};

/* On the caller's stack. A thread uses it only between its own counting in and out of `active`. */
struct job {
    wi_optim_work_fn work;
    void *arg;
    size_t nranges;
    _Alignas(64) _Atomic size_t joined; /* threads that have taken part: whose range is next */
    struct range ranges[RANGES_MAX];
};

struct wi_optim_pool {
    int threads;    /* with the caller */
    int started;    /* without the caller */
    unsigned forks; /* of the process when they were started */
    pthread_t *ids;
    pthread_mutex_t lock;
    pthread_cond_t wake, done;
    struct job *job;        /* under the lock: what may be joined */
    int ending;             /* under the lock */
    _Atomic unsigned calls; /* changes with each call, written under the lock: a thread may spin on it */
    _Atomic int active;     /* threads at the job; written under the lock, but read by a caller that spins */
};

/* How many forks lie between this process and the one that loaded the library. A child's pools have no threads. */
static _Atomic unsigned process_forks;

static void in_child(void)
{
    atomic_fetch_add_explicit(&process_forks, 1, memory_order_relaxed);
}

static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, in_child);
}

/* Results depend neither on the rounding mode nor on flushing of denormals that the program has chosen for its threads. */
#if defined(__x86_64__)
typedef unsigned float_mode;

static float_mode mode_default(void)
{
    float_mode old = _mm_getcsr();

    _mm_setcsr(0x1f80);
    return old;
}

static void mode_restore(float_mode old)
{
    _mm_setcsr(old);
}
#elif defined(__aarch64__)
typedef uint64_t float_mode;

static void mode_restore(float_mode old)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(old) : "memory");
}

static float_mode mode_default(void)
{
    float_mode old;

    __asm__ volatile("mrs %0, fpcr" : "=r"(old) : : "memory");
    mode_restore(0);
    return old;
}
#else
typedef int float_mode;

static float_mode mode_default(void)
{
    return 0;
}

static void mode_restore(float_mode old)
{
    (void)old;
}
#endif

/* No order is needed: what the units read was there before the job was published under the lock. */
static void take_part(struct job *job)
{
    _Alignas(16) char cursor[WI_OPTIM_CURSOR_BYTES] = {0};
    float_mode old = mode_default();
    size_t first = atomic_fetch_add_explicit(&job->joined, 1, memory_order_relaxed), unit;

    for (size_t i = 0; i < job->nranges; i++) {
        struct range *range = &job->ranges[(first + i) % job->nranges];

        while ((unit = atomic_fetch_add_explicit(&range->next, 1, memory_order_relaxed)) < range->end)
            job->work(job->arg, cursor, unit);
    }
    mode_restore(old);
}

/* Wait, with the lock held, for a call that is not number `seen`. */
static void wait_for_call(struct wi_optim_pool *pool, unsigned seen)
{
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < SPINS && atomic_load_explicit(&pool->calls, memory_order_relaxed) == seen; i++)
        wi_cpu_relax();
    pthread_mutex_lock(&pool->lock);
    while (!pool->ending && atomic_load_explicit(&pool->calls, memory_order_relaxed) == seen)
        pthread_cond_wait(&pool->wake, &pool->lock);
}

static void *worker(void *arg)
{
    struct wi_optim_pool *pool = arg;
    unsigned seen;

    pthread_mutex_lock(&pool->lock);
    while (!pool->ending) {
        struct job *job = pool->job;

        seen = atomic_load_explicit(&pool->calls, memory_order_relaxed);
        if (job) {
            atomic_fetch_add_explicit(&pool->active, 1, memory_order_relaxed);
            pthread_mutex_unlock(&pool->lock);
            take_part(job);
            pthread_mutex_lock(&pool->lock);
            /* Release: the caller that sees 0 sees what this thread wrote. */
            if (atomic_fetch_sub_explicit(&pool->active, 1, memory_order_release) == 1)
                pthread_cond_signal(&pool->done);
        }
        wait_for_call(pool, seen);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

static void init_locks(struct wi_optim_pool *pool)
{
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pthread_cond_init(&pool->done, NULL);
}

/* Its threads, and whoever held its lock, were the parent's. */
static void renew_in_child(struct wi_optim_pool *pool)
{
    unsigned forks = atomic_load_explicit(&process_forks, memory_order_relaxed);

    if (pool->forks == forks)
        return;
    pool->forks = forks;
    pool->started = 0;
    pool->job = NULL;
    pool->ending = 0;
    atomic_store_explicit(&pool->active, 0, memory_order_relaxed);
    init_locks(pool);
}

/* A thread that cannot be started is tried again in the next call. */
static void start_threads(struct wi_optim_pool *pool, size_t wanted)
{
    while ((size_t)pool->started < wanted && wi_thread_start(&pool->ids[pool->started], NULL, worker, pool) == 0)
        pool->started++;
}

weft_status wi_optim_pool_create(int threads, struct wi_optim_pool **pool)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct wi_optim_pool *p;

    if (!pool)
        return wi_fail(WEFT_EINVAL, "optimizer: pool is NULL");
    if (threads < 1 || threads > WI_OPTIM_THREADS_MAX)
        return wi_fail(WEFT_EINVAL, "optimizer: %d threads; 1 to %d are possible", threads, WI_OPTIM_THREADS_MAX);
    pthread_once(&once, watch_forks);
    p = wi_calloc(1, sizeof(*p));
    if (!p)
        return wi_fail(WEFT_ENOMEM, "optimizer: a pool of threads");
    p->ids = wi_calloc((size_t)threads, sizeof(*p->ids));
    if (!p->ids) {
        wi_free(p);
        return wi_fail(WEFT_ENOMEM, "optimizer: a pool of %d threads", threads);
    }
    p->threads = threads;
    p->forks = atomic_load_explicit(&process_forks, memory_order_relaxed);
    init_locks(p);
    *pool = p;
    return WEFT_SUCCESS;
}

void wi_optim_pool_destroy(struct wi_optim_pool *pool)
{
    if (!pool)
        return;
    renew_in_child(pool);
    pthread_mutex_lock(&pool->lock);
    pool->ending = 1;
    atomic_fetch_add_explicit(&pool->calls, 1, memory_order_relaxed);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < pool->started; i++)
        pthread_join(pool->ids[i], NULL);
    pthread_cond_destroy(&pool->done);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
    wi_free(pool->ids);
    wi_free(pool);
}

static void publish(struct wi_optim_pool *pool, struct job *job, size_t helpers)
{
    pthread_mutex_lock(&pool->lock);
    pool->job = job;
    atomic_fetch_add_explicit(&pool->calls, 1, memory_order_relaxed);
    if (helpers < (size_t)pool->started)
        while (helpers--)
            pthread_cond_signal(&pool->wake);
    else
        pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
}

/* Nobody joins any more, and those who have joined finish their last units. */
static void withdraw(struct wi_optim_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    pool->job = NULL;
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < SPINS && atomic_load_explicit(&pool->active, memory_order_acquire); i++)
        wi_cpu_relax();
    pthread_mutex_lock(&pool->lock);
    while (atomic_load_explicit(&pool->active, memory_order_acquire))
        pthread_cond_wait(&pool->done, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}

void wi_optim_pool_run(struct wi_optim_pool *pool, wi_optim_work_fn work, void *arg, size_t nunits)
{
    struct job job;
    size_t helpers = pool && nunits > 1 ? (size_t)pool->threads - 1 : 0;

    if (helpers > nunits - 1)
        helpers = nunits - 1;
    if (!nunits)
        return;
    job.work = work;
    job.arg = arg;
    job.nranges = helpers < RANGES_MAX ? helpers + 1 : RANGES_MAX;
    atomic_init(&job.joined, 0);
    for (size_t i = 0; i < job.nranges; i++) {
        atomic_init(&job.ranges[i].next, nunits * i / job.nranges);
        job.ranges[i].end = nunits * (i + 1) / job.nranges;
    }
    if (!helpers) {
        take_part(&job);
        return;
    }
    renew_in_child(pool);
    start_threads(pool, helpers);
    publish(pool, &job, helpers);
    take_part(&job);
    withdraw(pool);
}
