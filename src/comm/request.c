/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests: their pool, persistent operations, completion. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/status.h"
#include "comm/batch.h"
#include "comm/comm.h"
#include "comm/linear.h"

/* ---- Pool: memory stays until the communicator goes, so that a stale handle is recognised by its magic ---- */

/* With the communicator held. */
static void put_freed(struct weft_comm *comm)
{
    struct weft_request *req = atomic_exchange_explicit(&comm->freed, NULL, memory_order_acquire), *next;

    for (; req; req = next) {
        next = req->next;
        wi_request_put(req);
    }
}

struct weft_request *wi_request_get(struct weft_comm *comm)
{
    struct weft_request *req;

    if (atomic_load_explicit(&comm->freed, memory_order_relaxed))
        put_freed(comm);
    req = comm->free_requests;
    if (req) {
        comm->free_requests = req->next;
    } else {
        req = wi_calloc(1, sizeof *req);
        if (!req)
            return NULL;
        req->comm = comm;
        req->all_next = comm->all_requests;
        comm->all_requests = req;
    }
    req->magic = WI_REQUEST_MAGIC;
    req->persistent = req->active = req->queued = req->nops = req->owned_by_group = req->internal = 0;
    req->blocking = req->alone = req->trial = 0;
    req->options = (weft_call_options){0};
    req->label_hash = 0;
    req->codec = (struct wi_codec_use){0};
    req->residual = NULL;
    req->batch = NULL;
    req->linear = NULL;
    req->prelude_of = NULL;
    req->given.ops = NULL;
    req->status = WEFT_SUCCESS;
    req->counts_copy = NULL;
    req->next = NULL;
    atomic_store_explicit(&req->left, 0, memory_order_relaxed);
    atomic_store_explicit(&req->completion, NULL, memory_order_relaxed);
    return req;
}

weft_status wi_request_options(struct weft_request *req, const weft_call_options *options)
{
    if (!options)
        return WEFT_SUCCESS;
    req->options = *options;
    if (options->algorithm) {
        snprintf(req->algorithm, sizeof req->algorithm, "%s", options->algorithm);
        req->options.algorithm = req->algorithm;
    }
    if (options->label) {
        snprintf(req->label, sizeof req->label, "%s", options->label);
        req->label_hash = wi_label_hash(options->label);
        req->options.label = NULL;
    }
    return options->codec ? wi_codec_parse_use(options->codec, &req->codec) : WEFT_SUCCESS;
}

void wi_request_put(struct weft_request *req)
{
    if (!req->comm->exec->broken)
        for (int i = 0; i < req->nops; i++)
            wi_op_release(req->comm->exec, &req->op[i]);
    else if (req->nops)
        return; /* transports may still refer to its transfers: stays until the communicator is destroyed */
    if (req->batch)
        wi_batch_free(req);
    if (req->linear)
        wi_linear_free(req);
    wi_free(req->counts_copy);
    req->counts_copy = NULL;
    req->magic = 0;
    req->next = req->comm->free_requests;
    req->comm->free_requests = req;
}

/* After the mesh is destroyed. */
void wi_request_free_all(struct weft_comm *comm)
{
    struct weft_request *req = comm->all_requests, *next;

    for (; req; req = next) {
        struct wi_completion *call = wi_completion_take(req);
        next = req->all_next;
        if (call)
            wi_completion_queue(comm, call, WEFT_ECANCELED);
        for (int i = 0; i < 2; i++)
            wi_op_release(comm->exec, &req->op[i]);
        wi_exchange_release(req);
        wi_batch_free(req);
        wi_linear_forget(req);
        wi_free(req->counts_copy);
        req->magic = 0;
        wi_free(req);
    }
    comm->all_requests = comm->free_requests = NULL;
}

weft_status wi_request_check(const struct weft_request *req)
{
    if (!req || req->magic != WI_REQUEST_MAGIC)
        return wi_fail(WEFT_EINVAL, "not a request (NULL, or already freed)%s", req ? wi_forked_text(req->magic) : "");
    return WEFT_SUCCESS;
}

/* ---- Persistent operations ---- */

/* Copy the arrays of a v-form: the caller may reuse them when the call returns. */
static weft_status keep_counts(struct weft_request *req)
{
    struct wi_call *c = &req->call;
    const size_t **arrays[4] = {&c->send_counts, &c->send_displs, &c->recv_counts, &c->recv_displs};
    size_t n = (size_t)req->comm->nranks;

    if ((c->coll == WI_COLL_GATHER_V || c->coll == WI_COLL_SCATTER_V) && c->root != req->comm->rank)
        c->send_counts = c->send_displs = c->recv_counts = c->recv_displs = NULL; /* the root's alone */
    if (!c->send_counts && !c->recv_counts)
        return WEFT_SUCCESS;
    req->counts_copy = wi_malloc(4 * n * sizeof *req->counts_copy);
    if (!req->counts_copy)
        return wi_fail(WEFT_ENOMEM, "counts of %zu ranks", n);
    for (size_t i = 0; i < 4; i++) {
        if (!*arrays[i])
            continue;
        memcpy(req->counts_copy + i * n, *arrays[i], n * sizeof **arrays[i]);
        *arrays[i] = req->counts_copy + i * n;
    }
    return WEFT_SUCCESS;
}

weft_status wi_call_persistent(struct weft_comm *comm, const struct wi_call *call, const weft_call_options *options,
                               weft_request **out)
{
    struct weft_request *req;
    weft_status st;

    if (!out)
        return wi_fail(WEFT_EINVAL, "persistent %s: req is NULL", wi_coll_name(call->coll));
    WI_TRY(wi_call_check(comm, call));
    WI_TRY(wi_call_options_check(comm, call, options));
    if (options)
        WI_TRY(wi_call_algorithm_check(comm, call, options));
    WI_TRY(wi_comm_enter(comm));
    req = wi_request_get(comm);
    st = req ? WEFT_SUCCESS : wi_fail(WEFT_ENOMEM, "request");
    if (st >= 0) {
        req->call = *call;
        req->persistent = 1;
        st = wi_request_options(req, options);
        if (st >= 0)
            st = keep_counts(req);
        if (st >= 0)
            *out = req;
        else
            wi_request_put(req);
    }
    wi_comm_leave(comm);
    return st;
}

static weft_status check_start(const struct weft_request *req)
{
    WI_TRY(wi_request_check(req));
    if (!req->persistent)
        return wi_fail(WEFT_EINVAL, "only persistent requests are started");
    if (req->active || req->queued)
        return wi_fail(WEFT_EBUSY, "this request was started and has not been waited for");
    return WEFT_SUCCESS;
}

weft_status weft_start(weft_request *req)
{
    weft_status st = check_start(req);

    if (st < 0)
        return wi_group_depth ? wi_group_refused(st) : st;
    if (wi_group_depth)
        return wi_group_add_request(req);
    WI_TRY(wi_comm_enter(req->comm));
    if (!req->comm->exec->broken)
        for (int i = 0; i < req->nops; i++)
            wi_op_release(req->comm->exec, &req->op[i]);
    st = wi_request_issue(req);
    if (st >= 0 && req->nops)
        wi_progress_kick(req->comm->ctx);
    wi_comm_leave(req->comm);
    return st;
}

/* ---- Completion ---- */

static int finished(const struct weft_request *req)
{
    return atomic_load_explicit(&req->left, memory_order_acquire) == 0;
}

/* The outcome of a finished request; a persistent one may be started again. */
static weft_status collect(struct weft_request *req)
{
    req->active = 0;
    return wi_comm_outcome(req->comm, req->status);
}

static struct wi_op *unfinished(struct weft_request *req)
{
    for (int i = 0; i < req->nops; i++)
        if (req->op[i].state != WI_OP_DONE)
            return &req->op[i];
    return NULL;
}

/* The next one in turn that is not finished; NULL: another thread finished the last of them just now. */
static struct weft_request *next_unfinished(weft_request *const reqs[], size_t n, size_t *turn)
{
    for (size_t i = 0; i < n; i++) {
        struct weft_request *req = reqs[(*turn)++ % n];
        if (req && !finished(req))
            return req;
    }
    return NULL;
}

/* As wi_comm_guest_in and _out, of the communicators of several requests; of neighbours in the list that have the same, once. */
static void guests_in(weft_request *const reqs[], size_t n)
{
    struct weft_comm *last = NULL;

    for (size_t i = 0; i < n; i++)
        if (reqs[i] && reqs[i]->comm != last)
            wi_comm_guest_in(last = reqs[i]->comm);
}

static void guests_out(weft_request *const reqs[], size_t n)
{
    struct weft_comm *last = NULL;

    for (size_t i = 0; i < n; i++) {
        if (!reqs[i] || reqs[i]->comm == last)
            continue;
        if (last)
            wi_comm_guest_out(last); /* after it no request of its is looked at, unless it was counted again */
        last = reqs[i]->comm;
    }
    if (last)
        wi_comm_guest_out(last);
}

static int any_ending(weft_request *const reqs[], size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (reqs[i] && wi_comm_ending(reqs[i]->comm))
            return 1;
    return 0;
}

static int first_given(weft_request *const reqs[], size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (reqs[i])
            return (int)i;
    return -1;
}

/* Moved? Its communicator is somebody else's to advance if another thread is inside. */
static int urgent_turn(struct weft_request *req)
{
    struct weft_comm *comm = req->comm;
    int moved = 0;

    if (!wi_comm_try_progress(comm))
        return 0;
    wi_exec_progress_budgeted(comm->exec, unfinished(req), &moved);
    if (comm->exec->broken)
        wi_comm_failed(comm);
    wi_comm_leave(comm);
    return moved;
}

/* Requests of communicators with a priority above `below` have turns as long as any of them moves, WI_URGENT_TURNS at most. 1: one
 * of them has finished. */
static int urgent_turns(weft_request *const reqs[], size_t n, int below)
{
    int moved = 1;

    for (int i = 0; moved && i < WI_URGENT_TURNS; i++) {
        moved = 0;
        for (size_t k = 0; k < n; k++) {
            if (!reqs[k] || finished(reqs[k]) || reqs[k]->comm->priority <= below)
                continue;
            moved |= urgent_turn(reqs[k]);
            if (finished(reqs[k]))
                return 1;
        }
    }
    return 0;
}

static int have_one_priority(weft_request *const reqs[], size_t n)
{
    const struct weft_request *first = NULL;

    for (size_t i = 0; i < n; i++) {
        first = first ? first : reqs[i];
        if (reqs[i] && reqs[i]->comm->priority != first->comm->priority)
            return 0;
    }
    return 1;
}

#define ENDING (-2)
/* Wait until one of the active requests (there is one) is finished, `until_ns` passes, or (once) just look. Index, or -1; ENDING:
 * the communicator of one of them is being destroyed, and of the others none has finished. `besides`: requests, these too perhaps,
 * that are advanced meanwhile if their communicators' priorities are larger. */
static int wait_some(weft_request *const reqs[], size_t n, uint64_t until_ns, int once, weft_request *const besides[],
                     size_t nbesides)
{
    size_t turn = 0;
    uint32_t standing = 0;

    for (;;) {
        struct weft_request *req;
        struct weft_comm *comm;
        int moved = 0;
        for (size_t i = 0; i < n; i++)
            if (reqs[i] && reqs[i]->active && finished(reqs[i]))
                return (int)i;
        if (any_ending(reqs, n))
            return ENDING;
        req = next_unfinished(reqs, n, &turn);
        if (!req) /* collected by another thread meanwhile */
            return first_given(reqs, n);
        comm = req->comm;
        if (nbesides && urgent_turns(besides, nbesides, comm->priority) && besides == reqs)
            continue;
        if (!wi_comm_try_progress(comm)) {
            if (once)
                return -1;
            wi_stand_by(standing++); /* another thread is inside and progresses it */
        } else {
            struct wi_op *op;
            if (n > 1 || nbesides) /* of other communicators, perhaps */
                wi_exec_progress_budgeted(comm->exec, unfinished(req), &moved);
            else
                wi_exec_progress(comm->exec, unfinished(req), &moved);
            op = unfinished(req);
            if (op && moved)
                op->wait.rounds = 0;
            else if (op && once)
                wi_exec_check(comm->exec, op);
            else if (op)
                wi_exec_pause(comm->exec, op);
            if (comm->exec->broken)
                wi_comm_failed(comm);
            wi_comm_leave(comm);
            standing = 0;
            wi_comm_give_way(comm, 0);
        }
        if (once) {
            for (size_t i = 0; i < n; i++)
                if (reqs[i] && reqs[i]->active && finished(reqs[i]))
                    return (int)i;
            return -1;
        }
        if (until_ns != UINT64_MAX && !moved && wi_now_ns() >= until_ns)
            return -1;
    }
}

static weft_status wait_besides(struct weft_request *req, uint64_t until_ns, weft_request *const besides[],
                                size_t nbesides)
{
    weft_request *one[1] = {req};
    struct weft_comm *comm = req->comm;
    weft_status st;
    int index;

    if (req->queued)
        return wi_fail(WEFT_EINVAL, "the request belongs to a group that has not ended");
    wi_comm_guest_in(comm);
    if (finished(req)) {
        st = collect(req);
    } else if (wi_in_operator) {
        st = wi_comm_in_operator();
    } else {
        atomic_fetch_add_explicit(&comm->waiters, 1, memory_order_relaxed);
        index = wait_some(one, 1, until_ns, 0, besides, nbesides);
        atomic_fetch_sub_explicit(&comm->waiters, 1, memory_order_relaxed);
        st = index >= 0 ? collect(req) : index == ENDING ? wi_comm_ended() : WEFT_INPROGRESS;
    }
    wi_comm_guest_out(comm);
    return st;
}

weft_status wi_request_wait(struct weft_request *req, uint64_t until_ns)
{
    return wait_besides(req, until_ns, NULL, 0);
}

weft_status weft_wait(weft_request *req)
{
    WI_TRY(wi_request_check(req));
    return wi_request_wait(req, UINT64_MAX);
}

weft_status weft_wait_for(weft_request *req, uint64_t timeout_ns)
{
    WI_TRY(wi_request_check(req));
    return wi_request_wait(req, timeout_ns == WEFT_TIMEOUT_NEVER ? UINT64_MAX : wi_deadline_ns(timeout_ns));
}

weft_status weft_test(weft_request *req)
{
    weft_request *one[1] = {req};
    struct weft_comm *comm;
    weft_status st;
    int index = 0;

    WI_TRY(wi_request_check(req));
    if (req->queued)
        return WEFT_INPROGRESS;
    comm = req->comm;
    wi_comm_guest_in(comm);
    if (!finished(req))
        index = wait_some(one, 1, 0, 1, NULL, 0);
    st = index >= 0 ? collect(req) : index == ENDING ? wi_comm_ended() : WEFT_INPROGRESS;
    wi_comm_guest_out(comm);
    return st;
}

weft_status weft_wait_any(weft_request *const reqs[], size_t nreqs, size_t *index)
{
    weft_status st;
    int got, live = 0;

    if (!reqs || !index || !nreqs)
        return wi_fail(WEFT_EINVAL, "wait_any: reqs, nreqs or index is NULL or zero");
    for (size_t i = 0; i < nreqs; i++) {
        if (!reqs[i])
            continue;
        WI_TRY(wi_request_check(reqs[i]));
        if (reqs[i]->queued)
            return wi_fail(WEFT_EINVAL, "wait_any: request %zu belongs to a group that has not ended", i);
        live += reqs[i]->active;
    }
    if (!live)
        return wi_fail(WEFT_ENOTFOUND, "wait_any: no request is active");
    if (wi_in_operator)
        return wi_comm_in_operator();
    guests_in(reqs, nreqs);
    got = wait_some(reqs, nreqs, UINT64_MAX, 0, reqs, have_one_priority(reqs, nreqs) ? 0 : nreqs);
    if (got >= 0) {
        *index = (size_t)got;
        st = collect(reqs[got]);
    } else {
        st = wi_comm_ended();
    }
    guests_out(reqs, nreqs);
    return st;
}

weft_status weft_wait_all(weft_request *const reqs[], size_t nreqs)
{
    weft_status first = WEFT_SUCCESS;
    size_t nbesides;

    if (!reqs && nreqs)
        return wi_fail(WEFT_EINVAL, "wait_all: reqs is NULL");
    for (size_t i = 0; i < nreqs; i++)
        if (reqs[i])
            WI_TRY(wi_request_check(reqs[i]));
    guests_in(reqs, nreqs);
    nbesides = have_one_priority(reqs, nreqs) ? 0 : nreqs;
    for (size_t i = 0; i < nreqs; i++) {
        weft_status st = reqs[i] ? wait_besides(reqs[i], UINT64_MAX, reqs, nbesides) : WEFT_SUCCESS;
        first = first < 0 ? first : st < 0 ? st : first;
    }
    guests_out(reqs, nreqs);
    return first;
}

weft_status weft_request_free(weft_request *req)
{
    struct weft_comm *comm;

    if (!req)
        return WEFT_SUCCESS;
    WI_TRY(wi_request_check(req));
    comm = req->comm;
    if (req->queued || !finished(req))
        return wi_fail(WEFT_EBUSY, "the operation has not finished; wait for it or abort the communicator");
    wi_comm_guest_in(comm);
    /* Enter as a thread that progresses, for which others wait; entering to issue would make their calls fail. */
    if (wi_comm_try_progress(comm)) {
        wi_request_put(req);
        wi_comm_leave(comm);
    } else {
        req->magic = 0;
        req->next = atomic_load_explicit(&comm->freed, memory_order_relaxed);
        while (!atomic_compare_exchange_weak_explicit(&comm->freed, &req->next, req, memory_order_release,
                                                      memory_order_relaxed))
            ;
    }
    wi_comm_guest_out(comm);
    return WEFT_SUCCESS;
}
