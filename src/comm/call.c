/* SPDX-License-Identifier: BSD-3-Clause */
/* Issuing a call: the fast path, and the general one through a request. */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "comm/batch.h"
#include "comm/comm.h"
#include "comm/linear.h"

/* ---- Entering a communicator ---- */

weft_status wi_comm_check(const struct weft_comm *comm)
{
    if (!comm || comm->magic != WI_COMM_MAGIC)
        return wi_fail(WEFT_EINVAL, "not a communicator (NULL, or already destroyed)%s",
                       comm ? wi_forked_text(comm->magic) : "");
    return WEFT_SUCCESS;
}

weft_status wi_comm_ended(void)
{
    return wi_fail(WEFT_EABORTED, "another thread destroys the communicator");
}

weft_status wi_comm_in_operator(void)
{
    return wi_fail(WEFT_EBUSY, "a function of an operator may not call weft: its thread is inside a call");
}

#define ENTER_SPINS 200
#define ENTER_SLEEP_NS 50000

/* The lock's holder may share this core, as the progress thread often does. A yield would give it the core for a whole time slice
 * of the scheduler; after a sleep this thread runs as soon as it is woken. The time-out is for holders that leave just before this
 * thread is counted as asleep. */
static void sleep_till_left(struct weft_comm *comm)
{
    const struct timespec timeout = {0, ENTER_SLEEP_NS};

    atomic_fetch_add_explicit(&comm->asleep, 1, memory_order_seq_cst);
    syscall(SYS_futex, &comm->lock, FUTEX_WAIT_PRIVATE, WI_HELD, &timeout, NULL, 0);
    atomic_fetch_sub_explicit(&comm->asleep, 1, memory_order_relaxed);
}

static weft_status enter_after(struct weft_comm *comm, int held)
{
    for (int spins = 0;; spins++) {
        if (held == WI_DESTROYING)
            return wi_comm_ended();
        if (spins < ENTER_SPINS)
            wi_cpu_relax();
        else
            sleep_till_left(comm);
        if (spins % 16 == 15 || spins > ENTER_SPINS)
            wi_exec_nudge(comm->exec);
        held = WI_FREE;
        if (atomic_compare_exchange_weak_explicit(&comm->lock, &held, WI_HELD, memory_order_acquire,
                                                  memory_order_relaxed))
            return WEFT_SUCCESS;
    }
}

/* The lock's holder may be asleep. The lock's value from before this thread was counted must not be used: destroying may have begun
 * since, which does not wait for threads that are not counted, and may have freed the executor. */
static weft_status enter_slowly(struct weft_comm *comm)
{
    weft_status st;
    int held;

    if (wi_in_operator) /* this thread may be the holder */
        return wi_comm_in_operator();
    atomic_fetch_add_explicit(&comm->entering, 1, memory_order_seq_cst);
    held = atomic_load_explicit(&comm->lock, memory_order_seq_cst);
    if (held == WI_DESTROYING) {
        st = wi_comm_ended();
    } else {
        wi_exec_nudge(comm->exec);
        st = enter_after(comm, held);
    }
    atomic_fetch_sub_explicit(&comm->entering, 1, memory_order_release); /* destroying waits for it */
    return st;
}

weft_status wi_comm_enter(struct weft_comm *comm)
{
    int held = WI_FREE;

    if (atomic_compare_exchange_strong_explicit(&comm->lock, &held, WI_HELD, memory_order_acquire,
                                                memory_order_relaxed))
        return WEFT_SUCCESS;
    return enter_slowly(comm);
}

int wi_comm_try_progress(struct weft_comm *comm)
{
    int held = WI_FREE;

    return atomic_compare_exchange_strong_explicit(&comm->lock, &held, WI_HELD, memory_order_acquire,
                                                   memory_order_relaxed);
}

/* Once the lock is free another thread may destroy the communicator, so the number of sleepers is read before. A wake-up at an
 * address that is gone does no harm: futexes may wake without a reason. */
void wi_comm_leave(struct weft_comm *comm)
{
    int asleep = atomic_load_explicit(&comm->asleep, memory_order_relaxed);

    atomic_store_explicit(&comm->lock, WI_FREE, memory_order_release);
    if (__builtin_expect(asleep, 0))
        syscall(SYS_futex, &comm->lock, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void wi_comm_give_way(struct weft_comm *comm, int counted)
{
    for (uint32_t i = 0; i < 50 && atomic_load_explicit(&comm->entering, memory_order_relaxed) > counted; i++)
        wi_stand_by(i);
}

/* A failure broke the communicator: write the flight recorder if that is wanted. The thread's text stays that of the failure. */
void wi_comm_failed(struct weft_comm *comm)
{
    struct wi_error error;

    if (!comm->exec->broken || !comm->ctx->comm.dump_on_error || comm->dumped)
        return;
    comm->dumped = 1;
    if (wi_comm_dump_to(comm, comm->ctx->comm.dump_path) < 0) {
        wi_log(WEFT_LOG_WARN, "comm.dump", "the flight recorder was not written: %s", wi_fail_text());
        wi_exec_error(comm->exec, &error);
        wi_fail(error.status, "%s", error.message);
    }
}

weft_status wi_comm_outcome(struct weft_comm *comm, weft_status st)
{
    struct wi_error error;

    if (st >= 0)
        return st;
    wi_exec_error(comm->exec, &error);
    return error.status == st ? wi_fail(st, "%s", error.message) : st;
}

/* ---- Nothing to communicate ---- */

static int without_peers(const struct weft_comm *comm, const struct wi_call *c)
{
    if (c->coll == WI_COLL_SEND || c->coll == WI_COLL_RECV || c->coll == WI_COLL_SEND_RECV)
        return 0;
    if (comm->nranks == 1)
        return 1;
    switch (c->coll) {
    case WI_COLL_BARRIER:
    case WI_COLL_ALL_GATHER_V:
    case WI_COLL_REDUCE_SCATTER_V:
    case WI_COLL_ALL_TO_ALL_V:
    case WI_COLL_GATHER_V:
    case WI_COLL_SCATTER_V:
        return 0;
    default:
        return c->count == 0;
    }
}

/* One rank, or no elements: the result is the (scaled) source. */
static void copy_alone(const struct weft_comm *comm, const struct wi_call *c, int adds)
{
    size_t src, dst, es = weft_dtype_bytes(c->dtype);
    const char *from = c->src;
    char *to = c->dst;
    struct wi_user_op user;

    if (comm->nranks > 1 || c->coll == WI_COLL_BARRIER || c->coll == WI_COLL_EXSCAN)
        return;
    wi_call_spans(comm, c, &src, &dst);
    if (c->coll == WI_COLL_ALL_GATHER_V || c->coll == WI_COLL_GATHER_V || c->coll == WI_COLL_ALL_TO_ALL_V) {
        to += c->recv_displs ? c->recv_displs[0] * es : 0;
        src = c->recv_counts[0];
    }
    if (c->coll == WI_COLL_SCATTER_V || c->coll == WI_COLL_ALL_TO_ALL_V) {
        from += c->send_displs ? c->send_displs[0] * es : 0;
        src = c->send_counts[0];
    }
    if (wi_coll_is_reduction(c->coll) && c->op >= WEFT_NUM_OPS && wi_user_op_find(c->op, &user) && user.premul)
        wi_scale(c->dtype, user.scalar, to, from, src);
    else if (adds)
        wi_reduce(&(struct wi_redop){.dtype = (uint8_t)c->dtype, .op = WEFT_SUM, .elem_bytes = (uint32_t)es},
                  (void *[]){to}, 1, (const void *[]){from}, 1, src, WI_REDUCE_ADD);
    else if (src && to != from)
        memmove(to, from, src * es);
}

/* ---- The general path ---- */

static void op_finished(struct wi_op *op, void *arg)
{
    struct weft_request *req = arg;
    struct wi_completion *call;
    struct weft_comm *comm;
    weft_status status;

    if (op->status < 0 && (req->status >= 0 || req->status == WEFT_INPROGRESS))
        req->status = op->status;
    if (atomic_load_explicit(&req->left, memory_order_relaxed) > 1) {
        atomic_fetch_sub_explicit(&req->left, 1, memory_order_release);
        return;
    }
    if (req->status >= 0)
        req->status = WEFT_SUCCESS;
    if (req->exchanged)
        wi_exchange_end(req);
    if (req->linear && req->status >= 0)
        wi_linear_store(req);
    if (req->residual || req->batch)
        wi_compress_end(req);
    if (req->batch && req->status >= 0)
        wi_batch_store(req->batch);
    /* After this the thread that waits for the request may free it. */
    comm = req->comm;
    status = req->status;
    call = req->blocking ? NULL : wi_completion_take(req); /* the program has no handle of a blocking call */
    atomic_store_explicit(&req->left, 0, memory_order_release);
    if (call)
        wi_completion_queue(comm, call, status);
}

static void release_ops(struct weft_request *req)
{
    for (int i = 0; i < req->nops; i++)
        wi_op_release(req->comm->exec, &req->op[i]);
}

weft_status wi_request_issue(struct weft_request *req)
{
    struct weft_comm *comm = req->comm;
    weft_status st;

    req->active = 1;
    req->status = WEFT_INPROGRESS;
    wi_completion_begin(req);
    if (without_peers(comm, &req->call)) {
        st = req->persistent ? WEFT_SUCCESS : wi_call_algorithm_check(comm, &req->call, &req->options);
        if (st >= 0)
            copy_alone(comm, &req->call, req->options.accumulate);
        if (st >= 0 && comm->residuals)
            st = wi_compress_alone(req);
        if (st >= 0 && req->batch)
            wi_batch_store(req->batch);
        req->nops = 0;
        req->active = st >= 0;
        req->status = st;
        wi_completion_tell(req);
        return st;
    }
    if (comm->exec->broken)
        st = wi_fail(comm->exec->broken, "%s", comm->exec->error.message);
    else
        st = wi_op_prepare(comm, req);
    if (st < 0) {
        if (req->residual || req->batch)
            wi_compress_end(req);
        if (!comm->exec->broken && req->nops)
            release_ops(req);
        req->nops = 0;
        req->active = 0;
        req->status = st;
        wi_completion_tell(req);
        return st;
    }
    atomic_store_explicit(&req->left, req->nops, memory_order_relaxed);
    for (int i = 0; i < req->nops; i++) {
        req->op[i].finished = op_finished;
        req->op[i].finished_arg = req;
    }
    for (int i = 0; i < req->nops; i++)
        wi_exec_issue(comm->exec, &req->op[i]);
    return WEFT_SUCCESS;
}

/* Wait for the request with the communicator held, until another thread wants to enter. 1: it is complete. */
static int wait_inside(struct weft_comm *comm, struct weft_request *req)
{
    for (int i = 0; i < req->nops; i++)
        if (!wi_exec_wait_unless_wanted(comm->exec, &req->op[i]))
            return 0;
    return 1;
}

/* Let the others in, and wait for the request as one that was issued before. The communicator is held again after it, unless it is
 * being destroyed: then *held becomes 0, and the request is gone with it. */
static weft_status wait_outside(struct weft_comm *comm, struct weft_request *req, int *held)
{
    weft_status st;

    wi_comm_guest_in(comm);
    wi_comm_leave(comm);
    st = wi_request_wait(req, UINT64_MAX);
    *held = wi_comm_enter(comm) >= 0;
    wi_comm_guest_out(comm);
    return st;
}

static weft_status issue_request(struct weft_comm *comm, const struct wi_call *c, const weft_call_options *options,
                                 struct wi_batch **batch, weft_request **out, int *held)
{
    struct weft_request *req = wi_request_get(comm);
    weft_status st;

    if (!req)
        return wi_fail(WEFT_ENOMEM, "request");
    if (batch) {
        req->batch = *batch;
        *batch = NULL;
    }
    req->call = *c;
    req->blocking = !out;
    req->alone = !out && !comm->exec->nops;
    st = wi_request_options(req, options);
    if (st >= 0)
        st = wi_request_issue(req);
    if (st < 0) {
        wi_request_put(req);
        return st;
    }
    if (out) {
        *out = req;
        if (req->nops)
            wi_progress_kick(comm->ctx);
        return WEFT_SUCCESS;
    }
    if (!wait_inside(comm, req)) {
        st = wait_outside(comm, req, held);
        if (!*held)
            return st;
    }
    wi_exchange_learn(req);
    st = wi_comm_outcome(comm, req->status);
    wi_request_put(req);
    return st;
}

/* Inlined, so that calls without options do not carry them to the fast path. */
static inline __attribute__((always_inline)) weft_status call(struct weft_comm *comm, const struct wi_call *c,
                                                              const weft_call_options *options, weft_request **req)
{
    enum wi_fast_result fast = WI_FAST_NOT;
    const struct wi_codec_use *codec;
    weft_status st;
    int held = 1;

    st = wi_comm_check(comm);
    if (st < 0)
        return wi_group_depth ? wi_group_refused(st) : st;
    if (wi_group_depth)
        return wi_group_add(comm, c, options, req);
    st = wi_call_check(comm, c);
    if (st >= 0 && options)
        st = wi_call_options_check(comm, c, options);
    if (st < 0)
        return st;
    WI_TRY(wi_comm_enter(comm));
    if (!req && !options)
        fast = wi_fast_run(comm, c, comm->ctx->codec.on ? wi_compress_default(comm, c) : NULL, 0, &st);
    else if (!req && wi_compress_named(comm, options, c, &codec))
        fast = wi_fast_run(comm, c, codec, options->tensor, &st);
    if (fast == WI_FAST_LOST)
        return st;
    if (fast == WI_FAST_NOT)
        st = issue_request(comm, c, options, NULL, req, &held);
    if (!held)
        return st;
    if (st < 0)
        wi_comm_failed(comm);
    wi_comm_leave(comm);
    return st;
}

weft_status wi_call(struct weft_comm *comm, const struct wi_call *c, weft_request **req)
{
    return call(comm, c, NULL, req);
}

weft_status wi_call_with(struct weft_comm *comm, const struct wi_call *c, const weft_call_options *options,
                         weft_request **req)
{
    return call(comm, c, options, req);
}

static weft_status issue_batch(struct weft_comm *comm, const struct wi_call *c, const weft_call_options *options,
                               struct wi_batch **batch, weft_request **req)
{
    weft_status st;
    int held = 1;

    WI_TRY(wi_call_check(comm, c));
    WI_TRY(wi_comm_enter(comm));
    st = issue_request(comm, c, options, batch, req, &held);
    if (!held)
        return st;
    if (st < 0)
        wi_comm_failed(comm);
    wi_comm_leave(comm);
    return st;
}

weft_status wi_call_batch(struct weft_comm *comm, const struct wi_call *c, const weft_call_options *options,
                          struct wi_batch *batch, weft_request **req)
{
    struct weft_request owner = {.batch = batch};
    weft_status st = issue_batch(comm, c, options, &owner.batch, req);

    wi_batch_free(&owner);
    return st;
}
