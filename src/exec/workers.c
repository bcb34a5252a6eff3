/* SPDX-License-Identifier: BSD-3-Clause */
/* A pool of threads that do long work of the host's engine, chunk by chunk.
 *
 * `lock` is the innermost: a worker holds it to take a chunk and to give one back, never while it copies or reduces, and no other
 * lock is taken under it. Threads that post or drain may hold a communicator. Work is over when all of its chunks are done; then
 * its executor is notified, still under the lock, so that wi_workers_settle can wait for that. */
#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "exec/engine.h"

#define CHUNK_MAX ((size_t)256 << 10)
#define CHUNK_MIN 64 /* whole elements */

struct wi_workers {
    pthread_mutex_t lock;
    pthread_cond_t more, over;
    struct wi_work *head, **tail; /* of which chunks have not begun */
    size_t least_bytes, chunk_bytes;
    int wanted, nthreads, stop;
    pthread_t threads[];
};

/* ---- Threads ---- */

static void dequeue(struct wi_workers *p, struct wi_work *w)
{
    for (struct wi_work **at = &p->head; *at; at = &(*at)->queued) {
        if (*at != w)
            continue;
        *at = w->queued;
        if (p->tail == &w->queued)
            p->tail = at;
        return;
    }
}

/* With the lock held. */
static void end_if_over(struct wi_workers *p, struct wi_work *w)
{
    struct wi_exec *exec = w->exec;

    if (w->at < w->bytes || w->running)
        return;
    pthread_cond_broadcast(&p->over);
    atomic_store_explicit(&w->over, 1, memory_order_release); /* from here on it may be other work */
    wi_engine_tell(exec);
}

/* With the lock held, which is released meanwhile. */
static void do_chunk(struct wi_workers *p, struct wi_work *w)
{
    size_t grain = wi_work_grain(w), most = (p->chunk_bytes + grain - 1) / grain * grain;
    size_t at = w->at, left = w->bytes - at, bytes = left < most ? left : most;
    weft_status st;

    w->at += bytes;
    w->running++;
    if (w->at == w->bytes)
        dequeue(p, w);
    pthread_mutex_unlock(&p->lock);
    st = wi_work_do(w->exec, w, at, bytes);
    pthread_mutex_lock(&p->lock);
    w->running--;
    if (st < 0) {
        w->status = st;
        dequeue(p, w);
        w->at = w->bytes;
    }
    end_if_over(p, w);
}

static void *worker_main(void *arg)
{
    struct wi_workers *p = arg;

    pthread_mutex_lock(&p->lock);
    while (!p->stop) {
        if (p->head)
            do_chunk(p, p->head);
        else
            pthread_cond_wait(&p->more, &p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* With the lock held. */
static void add_threads(struct wi_workers *p)
{
    while (p->nthreads < p->wanted && wi_thread_start(&p->threads[p->nthreads], NULL, worker_main, p) == 0)
        p->nthreads++;
}

/* ---- Work ---- */

int wi_workers_give(struct wi_workers *p, struct wi_work *w)
{
    int given, before, after;

    pthread_mutex_lock(&p->lock);
    before = p->nthreads;
    if (p->nthreads < p->wanted)
        add_threads(p);
    after = p->nthreads;
    given = after > 0;
    if (given) {
        w->queued = NULL;
        *p->tail = w;
        p->tail = &w->queued;
        pthread_cond_broadcast(&p->more);
    }
    pthread_mutex_unlock(&p->lock);
    if (after > before)
        wi_log(WEFT_LOG_INFO, "workers.started",
               "%d of %d worker threads, for copies and reductions of %zu bytes or more", after, p->wanted,
               p->least_bytes);
    return given;
}

int wi_workers_drain(struct wi_workers *p, struct wi_work *w, uint64_t until_ns)
{
    struct timespec until = {(time_t)(until_ns / 1000000000u), (long)(until_ns % 1000000000u)};
    int err = 0, over;

    pthread_mutex_lock(&p->lock);
    if (w->at < w->bytes) { /* what has not begun never will */
        dequeue(p, w);
        w->at = w->bytes;
    }
    while (w->running && !err)
        err = pthread_cond_timedwait(&p->over, &p->lock, &until);
    over = !w->running;
    pthread_mutex_unlock(&p->lock);
    return over;
}

void wi_workers_settle(struct wi_workers *p)
{
    pthread_mutex_lock(&p->lock);
    pthread_mutex_unlock(&p->lock);
}

/* ---- Life ---- */

size_t wi_workers_least(const struct wi_workers *p)
{
    return p->least_bytes;
}

struct wi_workers *wi_workers_create(int nthreads, size_t least_bytes)
{
    struct wi_workers *p = wi_calloc(1, sizeof *p + (size_t)nthreads * sizeof p->threads[0]);
    pthread_condattr_t monotonic;

    if (!p)
        return NULL;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC); /* as deadlines are */
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->more, NULL);
    pthread_cond_init(&p->over, &monotonic);
    pthread_condattr_destroy(&monotonic);
    p->tail = &p->head;
    p->wanted = nthreads;
    p->least_bytes = least_bytes;
    p->chunk_bytes = least_bytes < CHUNK_MAX ? least_bytes & ~(size_t)(CHUNK_MIN - 1) : CHUNK_MAX;
    p->chunk_bytes = p->chunk_bytes > CHUNK_MIN ? p->chunk_bytes : CHUNK_MIN;
    return p;
}

void wi_workers_destroy(struct wi_workers *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->stop = 1;
    pthread_cond_broadcast(&p->more);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->nthreads; i++)
        pthread_join(p->threads[i], NULL);
    pthread_cond_destroy(&p->over);
    pthread_cond_destroy(&p->more);
    pthread_mutex_destroy(&p->lock);
    wi_free(p);
}
