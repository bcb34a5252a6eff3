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

static weft_status next_call(struct bench *b)
{
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;

    options.timeout_ns = b->o.timeout_ns;
    options.algorithm = b->o.algorithm;
    return weft_comm_next_call(b->comm, &options);
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
    case BENCH_REDUCE_SCATTER_BLOCK:
        return weft_reduce_scatter_block(b->comm, c->src, c->dst, c->count, c->dtype, c->op, req);
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
        return weft_send_recv(b->comm, c->src, c->count, (c->rank + 1) % n, c->dst, c->count, (c->rank + n - 1) % n,
                              c->dtype, req);
    default:
        return issue_shares(b, c, req);
    }
}

weft_status bench_weft_post(struct bench *b, const struct bench_call *c, weft_request **req)
{
    if (b->o.algorithm || b->o.timeout_ns) {
        weft_status status = next_call(b);
        if (status != WEFT_SUCCESS)
            return status;
    }
    return issue(b, c, req);
}

static weft_status init_shares(struct bench *b, const struct bench_call *c, weft_request **req)
{
    int me = c->rank;

    switch (c->coll) {
    case BENCH_ALL_GATHER:
        return weft_all_gather_init(b->comm, c->src, c->dst, c->count, c->dtype, req);
    case BENCH_ALL_GATHER_V:
        return weft_all_gather_v_init(b->comm, c->src, c->dst, c->counts, c->displs, c->dtype, req);
    case BENCH_REDUCE_SCATTER:
        return weft_reduce_scatter_init(b->comm, c->src, c->dst, c->count, c->dtype, c->op, req);
    case BENCH_REDUCE_SCATTER_V:
        return weft_reduce_scatter_v_init(b->comm, c->src, c->dst, c->counts, c->dtype, c->op, req);
    case BENCH_REDUCE_SCATTER_BLOCK:
        return weft_reduce_scatter_block_init(b->comm, c->src, c->dst, c->count, c->dtype, c->op, req);
    case BENCH_ALL_TO_ALL:
        return weft_all_to_all_init(b->comm, c->src, c->dst, c->count, c->dtype, req);
    case BENCH_ALL_TO_ALL_V:
        return weft_all_to_all_v_init(b->comm, c->src, c->counts, c->displs, c->dst, c->counts, c->displs, c->dtype,
                                      req);
    case BENCH_GATHER:
        return weft_gather_init(b->comm, c->src, c->dst, c->count, c->dtype, c->root, req);
    case BENCH_GATHER_V:
        return weft_gather_v_init(b->comm, c->src, c->counts[me], c->dst, c->counts, c->displs, c->dtype, c->root, req);
    case BENCH_SCATTER:
        return weft_scatter_init(b->comm, c->src, c->dst, c->count, c->dtype, c->root, req);
    case BENCH_SCATTER_V:
        return weft_scatter_v_init(b->comm, c->src, c->counts, c->displs, c->dst, c->counts[me], c->dtype, c->root,
                                   req);
    default:
        return WEFT_EINVAL;
    }
}

static weft_status init_vector(struct bench *b, const struct bench_call *c, weft_request **req)
{
    int n = c->nranks;

    switch (c->coll) {
    case BENCH_ALL_REDUCE:
        return weft_all_reduce_init(b->comm, c->src, c->dst, c->count, c->dtype, c->op, req);
    case BENCH_REDUCE:
        return weft_reduce_init(b->comm, c->src, c->dst, c->count, c->dtype, c->op, c->root, req);
    case BENCH_BROADCAST:
        return weft_broadcast_init(b->comm, c->src, c->dst, c->count, c->dtype, c->root, req);
    case BENCH_SCAN:
        return weft_scan_init(b->comm, c->src, c->dst, c->count, c->dtype, c->op, req);
    case BENCH_EXSCAN:
        return weft_exscan_init(b->comm, c->src, c->dst, c->count, c->dtype, c->op, req);
    case BENCH_BARRIER:
        return weft_barrier_init(b->comm, req);
    case BENCH_SENDRECV:
        return weft_send_recv_init(b->comm, c->src, c->count, (c->rank + 1) % n, c->dst, c->count,
                                   (c->rank + n - 1) % n, c->dtype, req);
    default:
        return init_shares(b, c, req);
    }
}

weft_status bench_weft_init(struct bench *b, const struct bench_call *c, weft_request **req)
{
    if (b->o.algorithm || b->o.timeout_ns) {
        weft_status status = next_call(b);
        if (status != WEFT_SUCCESS)
            return status;
    }
    return init_vector(b, c, req);
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
