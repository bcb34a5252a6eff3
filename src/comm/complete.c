/* SPDX-License-Identifier: BSD-3-Clause */
/* Callbacks at completion, and the threads that run them.
 *
 * The thread that ends an operation holds its communicator, so it only queues the callback. Threads of the context run it, on
 * none of which progress depends: a callback may issue operations and wait for them, and for what another callback does. While
 * one runs, another thread is created for the next one. */
#include <errno.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/thread.h"
#include "comm/comm.h"

#define MAX_THREADS 64
#define IDLE_S 1 /* a thread that is one too many ends after that */
#define STOP_NS 2000000000ull

struct wi_completion {
    struct wi_completion *next;
    struct weft_context *ctx;
    weft_complete_fn fn;
    void *arg;
    weft_status status;
};

/* In req->completion once the operation has ended: a callback that is set later is not seen by the thread that ended it. */
static struct wi_completion ended;

/* ---- Threads ---- */

/* Wait for a call, with the lock held. 0: the thread is not needed any more. */
static int await_call(struct wi_callers *c)
{
    c->idle++;
    while (!c->head && !c->stop) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += IDLE_S;
        if (pthread_cond_timedwait(&c->more, &c->lock, &until) == ETIMEDOUT && c->nthreads > 1 && !c->head)
            break;
    }
    c->idle--;
    return c->head != NULL;
}

static void *callers_main(void *arg)
{
    struct weft_context *ctx = arg;
    struct wi_callers *c = &ctx->callers;

    wi_thread_prompt(); /* the progress thread may share its core */
    pthread_mutex_lock(&c->lock);
    while (await_call(c)) {
        struct wi_completion *call = c->head;
        c->head = call->next;
        if (!c->head)
            c->tail = &c->head;
        c->nqueued--;
        pthread_mutex_unlock(&c->lock);
        call->fn(call->status, call->arg);
        wi_free(call);
        pthread_mutex_lock(&c->lock);
    }
    c->nthreads--;
    pthread_cond_broadcast(&c->gone);
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* With the lock held. */
static int add_thread(struct weft_context *ctx)
{
    pthread_attr_t attr;
    pthread_t thread;
    int err;

    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    err = wi_thread_start(&thread, &attr, callers_main, ctx);
    pthread_attr_destroy(&attr);
    ctx->callers.nthreads += !err;
    return err;
}

/* The first thread exists: a failure to create more only delays. */
static void queue_call(struct wi_completion *call, weft_status status)
{
    struct wi_callers *c = &call->ctx->callers;

    call->status = status;
    call->next = NULL;
    pthread_mutex_lock(&c->lock);
    *c->tail = call;
    c->tail = &call->next;
    c->nqueued++;
    if (c->nqueued > c->idle && c->nthreads < MAX_THREADS)
        add_thread(call->ctx);
    pthread_cond_signal(&c->more);
    pthread_mutex_unlock(&c->lock);
}

void wi_callers_init(struct weft_context *ctx)
{
    struct wi_callers *c = &ctx->callers;

    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->more, NULL);
    pthread_cond_init(&c->gone, NULL);
    c->tail = &c->head;
}

weft_status wi_callers_stop(struct weft_context *ctx)
{
    struct wi_callers *c = &ctx->callers;
    struct timespec until;
    int left, err = 0;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += STOP_NS / 1000000000ull;
    pthread_mutex_lock(&c->lock);
    c->stop = 1;
    pthread_cond_broadcast(&c->more);
    while (c->nthreads && !err)
        err = pthread_cond_timedwait(&c->gone, &c->lock, &until);
    left = c->nthreads;
    c->stop = left == 0;
    pthread_mutex_unlock(&c->lock);
    if (left)
        return wi_fail(WEFT_EBUSY, "context_destroy: %d call-backs of weft_request_on_complete have not returned",
                       left);
    pthread_cond_destroy(&c->gone);
    pthread_cond_destroy(&c->more);
    pthread_mutex_destroy(&c->lock);
    return WEFT_SUCCESS;
}

/* ---- Requests ---- */

void wi_completion_begin(struct weft_request *req)
{
    struct wi_completion *expected = &ended;

    if (atomic_load_explicit(&req->completion, memory_order_relaxed) != expected) /* it is a new one */
        return;
    atomic_compare_exchange_strong(&req->completion, &expected, NULL);
}

struct wi_completion *wi_completion_take(struct weft_request *req)
{
    struct wi_completion *call = atomic_exchange(&req->completion, &ended);

    return call == &ended ? NULL : call;
}

void wi_completion_queue(struct weft_comm *comm, struct wi_completion *call, weft_status status)
{
    atomic_fetch_sub_explicit(&comm->watched, 1, memory_order_relaxed);
    queue_call(call, status);
    atomic_fetch_add_explicit(&comm->ctx->progress.callbacks, 1, memory_order_relaxed);
}

void wi_completion_tell(struct weft_request *req)
{
    struct wi_completion *call = wi_completion_take(req);

    if (call)
        wi_completion_queue(req->comm, call, req->status);
}

weft_status weft_request_on_complete(weft_request *req, weft_complete_fn fn, void *arg)
{
    struct wi_completion *call, *before = NULL;
    struct weft_context *ctx;
    int err = 0;

    WI_TRY(wi_request_check(req));
    if (!fn)
        return wi_fail(WEFT_EINVAL, "request_on_complete: fn is NULL");
    ctx = req->comm->ctx;
    call = wi_calloc(1, sizeof *call);
    if (!call)
        return wi_fail(WEFT_ENOMEM, "call-back");
    *call = (struct wi_completion){.ctx = ctx, .fn = fn, .arg = arg};
    pthread_mutex_lock(&ctx->callers.lock);
    if (!ctx->callers.nthreads)
        err = add_thread(ctx);
    pthread_mutex_unlock(&ctx->callers.lock);
    if (err) {
        wi_free(call);
        return wi_fail_errno(err, "thread for call-backs");
    }
    atomic_fetch_add_explicit(&req->comm->watched, 1, memory_order_relaxed);
    if (atomic_compare_exchange_strong(&req->completion, &before, call)) {
        /* It may have ended before, without operations to end. */
        if (req->queued || atomic_load(&req->left) || !(before = wi_completion_take(req))) {
            wi_progress_want(ctx);
            return WEFT_SUCCESS;
        }
        wi_completion_queue(req->comm, before, req->status);
        return WEFT_SUCCESS;
    }
    if (before == &ended) {
        for (uint32_t round = 0; atomic_load(&req->left); round++) /* the thread that ends it is one store away */
            wi_stand_by(round);
        wi_completion_queue(req->comm, call, req->status);
        return WEFT_SUCCESS;
    }
    atomic_fetch_sub_explicit(&req->comm->watched, 1, memory_order_relaxed);
    wi_free(call);
    return wi_fail(WEFT_EBUSY, "request_on_complete: this operation has a call-back already");
}
