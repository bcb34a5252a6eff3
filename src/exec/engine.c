/* SPDX-License-Identifier: BSD-3-Clause */
/* Work of lanes: posted, polled, given up; and the host's engine. */
#include "exec/engine.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "exec/exec.h"
#include "exec/rma.h"

#define DESTROY_WAIT_NS 1000000000u

struct wi_engine *(*wi_engine_of_tests)(struct wi_workers *workers);

/* ---- What is posted ---- */

static struct wi_work *work_get(struct wi_exec *exec, const struct wi_work *from)
{
    struct wi_work *w = exec->free_works;

    if (w)
        exec->free_works = w->next;
    else
        w = wi_malloc(sizeof *w);
    if (!w)
        return NULL;
    memcpy(w, from, offsetof(struct wi_work, dst));
    memcpy(w->dst, from->dst, from->ndst * sizeof *from->dst);
    memcpy(w->src, from->src, from->nsrc * sizeof *from->src);
    w->exec = exec;
    w->at = 0;
    w->running = 0;
    w->status = WEFT_SUCCESS;
    atomic_store_explicit(&w->over, 0, memory_order_relaxed);
    return w;
}

/* The newest comes first. */
static void work_link(struct wi_exec *exec, struct wi_work *w, struct wi_work **holder)
{
    w->next = exec->posted;
    w->link = &exec->posted;
    if (w->next)
        w->next->link = &w->next;
    exec->posted = w;
    w->holder = holder;
    *holder = w;
}

static void work_unlink(struct wi_work *w)
{
    *w->link = w->next;
    if (w->next)
        w->next->link = w->link;
    if (w->holder)
        *w->holder = NULL;
}

static void work_put(struct wi_exec *exec, struct wi_work *w)
{
    work_unlink(w);
    w->next = exec->free_works;
    exec->free_works = w;
}

/* ---- Failures ---- */

static const char *kind_text(const struct wi_work *w)
{
    return w->kind == WI_WORK_REDUCE ? "reduction"
           : w->kind == WI_WORK_GET  ? "get"
           : w->kind == WI_WORK_PUT  ? "put"
           : w->kind == WI_WORK_CODE ? "coding"
                                     : "copy";
}

static struct wi_engine *engine_for(struct wi_exec *exec, const struct wi_work *w)
{
    return wi_rma_is_posted(w) ? &exec->rma : exec->engine;
}

static void work_text(struct wi_exec *exec, const struct wi_work *w, char *text, size_t capacity)
{
    char whose[32] = "";

    if (wi_rma_is_posted(w))
        snprintf(whose, sizeof whose, " with rank %d", w->rank);
    snprintf(text, capacity, "engine %s: %s of %zu bytes%s, step %u of lane %u of %s", engine_for(exec, w)->ops->name,
             kind_text(w), w->bytes, whose, w->step, w->lane,
             w->op->bind.sched ? w->op->bind.sched->algo : "a message");
}

static weft_status work_failed(struct wi_exec *exec, const struct wi_work *w, weft_status st)
{
    const struct weft_op_info *info = &w->op->info;
    char text[192];
    int rank;

    if (w->kind == WI_WORK_PUT || wi_rma_is_posted(w))
        wi_exec_compare_boards(exec, info); /* what it said when it gave up */
    if (w->kind == WI_WORK_GET || w->kind == WI_WORK_PUT)
        return wi_exec_copy_failed(exec, w->op, st, w->rank, w->kind == WI_WORK_GET ? "reading" : "writing");
    rank = w->to_peer ? wi_exec_gone(exec, w->to, w->ndst) : -1;
    if (rank >= 0) {
        wi_exec_compare_boards(exec, info);
        return wi_exec_fail(exec, WEFT_EPEER, rank, info, "rank %d gave up", rank);
    }
    work_text(exec, w, text, sizeof text);
    return wi_exec_fail(exec, st > WEFT_EPEER ? WEFT_ESYS : st, -1, info, "%s: %s", text, wi_fail_text());
}

/* ---- For lanes ---- */

static int do_at_once(struct wi_exec *exec, const struct wi_work *work)
{
    weft_status st = wi_work_do(exec, work, 0, work->bytes);

    exec->budget_used += work->bytes;
    return st < 0 ? (int)work_failed(exec, work, st) : 1;
}

/* It waits for an engine now, whatever word another lane of it has waited for. */
static int settle(struct wi_exec *exec, struct wi_op *op, struct wi_work *w, int done)
{
    if (done < 0)
        done = work_failed(exec, w, (weft_status)done);
    if (done)
        work_put(exec, w);
    else
        op->wait.word = NULL;
    return done;
}

int wi_work_begin(struct wi_exec *exec, struct wi_op *op, const struct wi_work *work, struct wi_work **holder,
                  int *moved)
{
    struct wi_engine *engine = engine_for(exec, work);
    struct wi_work *w;

    if (work->bytes < engine->inline_bytes)
        return do_at_once(exec, work);
    w = work_get(exec, work);
    if (!w)
        return wi_exec_fail(exec, WEFT_ENOMEM, -1, &work->op->info, "out of memory for a step");
    w->by = engine;
    work_link(exec, w, holder);
    return settle(exec, op, w, engine->ops->post(engine, w, moved));
}

int wi_work_poll(struct wi_exec *exec, struct wi_op *op, struct wi_work **holder, int *moved)
{
    struct wi_engine *engine = (*holder)->by;

    return settle(exec, op, *holder, engine->ops->poll(engine, *holder, moved));
}

/* A failure may have been found in the middle of the lane's step: the rest is never polled. */
int wi_engine_drain(struct wi_exec *exec, const struct wi_engine *by, const struct wi_op *op, uint64_t until_ns)
{
    int all = 1;

    for (struct wi_work *w = exec->posted, *next; w; w = next) {
        next = w->next;
        if ((by && w->by != by) || (op && w->op != op))
            continue;
        if (w->by->ops->drain(w->by, w, until_ns)) {
            work_put(exec, w);
            continue;
        }
        w->holder = NULL; /* it may be gone before this is */
        all = 0;
    }
    return all;
}

int wi_engine_text(struct wi_exec *exec, const struct wi_op *op, char *text, size_t capacity, int *rank)
{
    const struct wi_work *oldest = NULL;

    for (const struct wi_work *w = exec->posted; w; w = w->next)
        if (w->op == op)
            oldest = w;
    if (!oldest)
        return 0;
    work_text(exec, oldest, text, capacity);
    *rank = wi_rma_is_posted(oldest) ? oldest->rank : -1;
    return 1;
}

void wi_engine_tell(struct wi_exec *exec)
{
    atomic_store_explicit(&exec->worked, 1, memory_order_seq_cst);
    wi_exec_nudge(exec);
    if (exec->tell)
        exec->tell(exec->tell_arg);
}

/* Gets and puts that are pending end with their transport's group, at the latest: it has what is kept of them until then. */
static void leave_transports(struct wi_exec *exec)
{
    for (struct wi_work *w = exec->posted, *next; w; w = next) {
        next = w->next;
        if (w->by != &exec->rma)
            continue;
        work_unlink(w);
        w->next = exec->left_works;
        exec->left_works = w;
    }
}

void wi_engine_leave(struct wi_exec *exec)
{
    if (!exec->posted || wi_engine_drain(exec, NULL, NULL, wi_deadline_ns(DESTROY_WAIT_NS)))
        return;
    leave_transports(exec);
    if (exec->posted)
        wi_log(WEFT_LOG_WARN, "exec.engine", "engine %s did not stop touching memory", exec->engine->ops->name);
}

static void works_free(struct wi_work **list)
{
    while (*list) {
        struct wi_work *w = *list;
        *list = w->next;
        wi_free(w);
    }
}

void wi_engine_destroy(struct wi_exec *exec)
{
    if (!exec->engine)
        return;
    exec->engine->ops->destroy(exec->engine);
    exec->engine = NULL;
    works_free(&exec->free_works);
    works_free(&exec->left_works);
}

/* ---- The host's engine ---- */

/* A user's function is never called by two threads at once for one communicator; transports must be called by the executor's
 * holder. */
static int may_be_given(const struct wi_workers *workers, const struct wi_work *w)
{
    return w->bytes >= wi_workers_least(workers) &&
           (w->kind == WI_WORK_COPY || w->kind == WI_WORK_COPY_TWICE || w->kind == WI_WORK_CODE ||
            (w->kind == WI_WORK_REDUCE && !w->op->bind.redop.user));
}

static int next_chunk(struct wi_work *w, int *moved)
{
    size_t most = w->kind == WI_WORK_REDUCE || w->kind == WI_WORK_CODE || w->exec->has_budget ? WI_ENGINE_CHUNK
                                                                                              : WI_ENGINE_COPY_CHUNK;
    size_t left = w->bytes - w->at, bytes = left < most ? left : most;

    WI_TRY(wi_work_do(w->exec, w, w->at, bytes));
    w->at += bytes;
    w->exec->budget_used += bytes;
    *moved = 1;
    return w->at == w->bytes;
}

static int host_post(struct wi_engine *engine, struct wi_work *w, int *moved)
{
    w->late = engine->workers && may_be_given(engine->workers, w) && wi_workers_give(engine->workers, w);
    if (!w->late)
        return next_chunk(w, moved);
    *moved = 1;
    return 0;
}

static int host_poll(struct wi_engine *engine, struct wi_work *w, int *moved)
{
    (void)engine;
    if (!w->late)
        return next_chunk(w, moved);
    if (!atomic_load_explicit(&w->over, memory_order_acquire))
        return 0;
    *moved = 1;
    return w->status < 0 ? (int)w->status : 1;
}

static int host_drain(struct wi_engine *engine, struct wi_work *w, uint64_t until_ns)
{
    return !w->late || wi_workers_drain(engine->workers, w, until_ns);
}

static void host_destroy(struct wi_engine *engine)
{
    if (engine->workers)
        wi_workers_settle(engine->workers);
    wi_free(engine);
}

static const struct wi_engine_ops host_ops = {"host", host_post, host_poll, host_drain, host_destroy};

struct wi_engine *wi_engine_host(struct wi_workers *workers)
{
    struct wi_engine *engine = wi_calloc(1, sizeof *engine);
    size_t most = WI_ENGINE_CHUNK + 1;

    if (engine)
        *engine = (struct wi_engine){
            .ops = &host_ops,
            .inline_bytes = workers && wi_workers_least(workers) < most ? wi_workers_least(workers) : most,
            .workers = workers,
        };
    return engine;
}
