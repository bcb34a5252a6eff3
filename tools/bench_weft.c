/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-bench: the library's side of a call, in its blocking, request, persistent and grouped forms. */
#include "weft_bench.h"

#include <string.h>

weft_status bench_fail(const struct bench *b, const char *what, weft_status status)
{
    weft_error e = WEFT_ERROR_INIT;

    if (b->comm && weft_last_error(b->comm, &e) == WEFT_SUCCESS && e.message && e.message[0])
        fprintf(stderr, "weft-bench: rank %d: %s: %s: %s%s%s\n", b->rank, what, weft_status_text(status), e.message,
                e.advice && e.advice[0] ? "; " : "", e.advice ? e.advice : "");
    else
        fprintf(stderr, "weft-bench: rank %d: %s: %s: %s\n", b->rank, what, weft_status_text(status),
                weft_thread_error() ? weft_thread_error() : "");
    return status;
}

static weft_status issue_shares(struct bench *b, const struct bench_call *c, weft_request **req)
{
    int me = c->rank;

    switch (c->coll) {
    case BENCH_ALL_GATHER:
        return weft_all_gather(b->comm, c->src, c->dst, c->count, c->dtype, req);
    case BENCH_ALL_GATHER_V:
        return weft_all_gather_v(b->comm, c->src, c->dst, c->counts, c->displs, c->dtype, req);
    case BENCH_REDUCE_SCATTER:
        return weft_reduce_scatter(b->comm, c->src, c->dst, c->count, c->dtype, c->op, req);
    case BENCH_REDUCE_SCATTER_V:
        return weft_reduce_scatter_v(b->comm, c->src, c->dst, c->counts, c->dtype, c->op, req);
    case BENCH_ALL_TO_ALL:
        return weft_all_to_all(b->comm, c->src, c->dst, c->count, c->dtype, req);
    case BENCH_ALL_TO_ALL_V:
        return weft_all_to_all_v(b->comm, c->src, c->counts, c->displs, c->dst, c->counts, c->displs, c->dtype, req);
    case BENCH_GATHER:
        return weft_gather(b->comm, c->src, c->dst, c->count, c->dtype, c->root, req);
    case BENCH_GATHER_V:
        return weft_gather_v(b->comm, c->src, c->counts[me], c->dst, c->counts, c->displs, c->dtype, c->root, req);
    case BENCH_SCATTER:
        return weft_scatter(b->comm, c->src, c->dst, c->count, c->dtype, c->root, req);
    case BENCH_SCATTER_V:
        return weft_scatter_v(b->comm, c->src, c->counts, c->displs, c->dst, c->counts[me], c->dtype, c->root, req);
    default:
        return WEFT_EINVAL;
    }
}

static weft_status issue(struct bench *b, const struct bench_call *c, weft_request **req)
{
    int n = c->nranks;

    switch (c->coll) {
    case BENCH_ALL_REDUCE:
        return weft_all_reduce(b->comm, c->src, c->dst, c->count, c->dtype, c->op, req);
    case BENCH_REDUCE:
        return weft_reduce(b->comm, c->src, c->dst, c->count, c->dtype, c->op, c->root, req);
    case BENCH_BROADCAST:
        return weft_broadcast(b->comm, c->src, c->dst, c->count, c->dtype, c->root, req);
    case BENCH_SCAN:
        return weft_scan(b->comm, c->src, c->dst, c->count, c->dtype, c->op, req);
    case BENCH_EXSCAN:
        return weft_exscan(b->comm, c->src, c->dst, c->count, c->dtype, c->op, req);
    case BENCH_BARRIER:
        return weft_barrier(b->comm, req);
    case BENCH_SENDRECV:
        return weft_send_recv(b->comm, c->src, c->count, (c->rank + 1) % n, 0, c->dst, c->count, (c->rank + n - 1) % n,
                              0, c->dtype, req);
    default:
        return issue_shares(b, c, req);
    }
}

/* ---- As data: with an algorithm or a deadline, and persistent ---- */

static weft_kind kind_of(enum bench_coll coll)
{
    weft_kind kind = WEFT_KIND_ALL_REDUCE;

    if (coll == BENCH_SENDRECV)
        return WEFT_KIND_SEND_RECV;
    while (kind < WEFT_NUM_KINDS && strcmp(weft_kind_name(kind), bench_coll_name(coll)) != 0)
        kind = (weft_kind)(kind + 1);
    return kind;
}

static int has_root(enum bench_coll coll)
{
    return coll == BENCH_REDUCE || coll == BENCH_BROADCAST || coll == BENCH_GATHER || coll == BENCH_GATHER_V ||
           coll == BENCH_SCATTER || coll == BENCH_SCATTER_V;
}

/* Numbers that an operation does not have stay 0. */
static weft_call describe(const struct bench_call *c)
{
    weft_call call = WEFT_CALL_INIT;
    int n = c->nranks, me = c->rank, v_form = 0, message = c->coll == BENCH_SENDRECV;

    call.kind = kind_of(c->coll);
    call.dtype = c->dtype;
    call.op = c->op;
    call.root = has_root(c->coll) ? c->root : 0;
    call.peer = message ? (me + 1) % n : 0;
    call.recv_peer = message ? (me + n - 1) % n : 0;
    call.src = c->src;
    call.dst = c->dst;
    v_form = c->coll == BENCH_ALL_GATHER_V || c->coll == BENCH_REDUCE_SCATTER_V || c->coll == BENCH_ALL_TO_ALL_V ||
             c->coll == BENCH_GATHER_V || c->coll == BENCH_SCATTER_V;
    call.count = v_form ? c->counts[me] : c->count;
    call.recv_count = message || c->coll == BENCH_SCATTER_V ? call.count : 0;
    call.send_counts = call.recv_counts = c->counts;
    call.send_displs = call.recv_displs = c->displs;
    return call;
}

static weft_status issue_described(struct bench *b, const struct bench_call *c, int persistent, weft_request **req)
{
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    weft_call call = describe(c);

    options.timeout_ns = b->o.timeout_ns;
    options.algorithm = c->coll == BENCH_SENDRECV ? NULL : b->o.algorithm; /* messages have none */
    options.codec = b->o.codec;
    options.tensor = b->tensor ? b->tensor : c->count; /* a tensor for each size */
    call.options = &options;
    return persistent ? weft_persistent(b->comm, &call, req) : weft_issue(b->comm, &call, req);
}

weft_status bench_weft_post(struct bench *b, const struct bench_call *c, weft_request **req)
{
    if (b->o.algorithm || b->o.codec || b->o.timeout_ns)
        return issue_described(b, c, 0, req);
    return issue(b, c, req);
}

weft_status bench_weft_init(struct bench *b, const struct bench_call *c, weft_request **req)
{
    return issue_described(b, c, 1, req);
}

/* Wait for a request and release it; the first failure wins. */
static weft_status finish(weft_request *req)
{
    weft_status status = weft_wait(req);
    weft_status freed = weft_request_free(req);

    return status != WEFT_SUCCESS ? status : freed;
}

weft_status bench_weft_run(struct bench *b, const struct bench_call *c)
{
    weft_request *req = NULL;

    if (b->o.form == BENCH_BLOCKING)
        return bench_weft_post(b, c, NULL);
    weft_status status = bench_weft_post(b, c, &req);
    return status == WEFT_SUCCESS ? finish(req) : status;
}

#define MAX_GROUP 1024

weft_status bench_weft_group(struct bench *b, const struct bench_call *c, uint64_t n)
{
    weft_request *reqs[MAX_GROUP];
    uint64_t posted = 0;
    weft_status status = weft_group_start();

    while (status == WEFT_SUCCESS && posted < n && posted < MAX_GROUP) {
        status = bench_weft_post(b, c, &reqs[posted]);
        posted += status == WEFT_SUCCESS;
    }
    weft_status ended = weft_group_end();
    status = status != WEFT_SUCCESS ? status : ended;
    if (ended == WEFT_SUCCESS) {
        for (uint64_t i = 0; i < posted; i++) {
            weft_status finished = finish(reqs[i]);
            status = status != WEFT_SUCCESS ? status : finished;
        }
    }
    return status;
}

weft_status bench_share(struct bench *b, double *values, size_t n, weft_op op)
{
    double result[16];

    if (n > sizeof(result) / sizeof(result[0]))
        return WEFT_EINVAL;
    weft_status status = weft_all_reduce(b->comm, values, result, n, WEFT_FLOAT64, op, NULL);
    if (status == WEFT_SUCCESS)
        memcpy(values, result, n * sizeof(values[0]));
    return status;
}

void bench_after_rank_0(struct bench *b)
{
    fflush(stdout);
    if (weft_barrier(b->comm, NULL) != WEFT_SUCCESS)
        b->failed = 1;
}
