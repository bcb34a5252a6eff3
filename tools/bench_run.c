/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-bench: the loops over collectives, types, operators, roots and sizes. */
#include "weft_bench.h"

#include <stdlib.h>
#include <string.h>

int bench_op_fits(weft_dtype dtype, weft_op op)
{
    int complex = dtype == WEFT_COMPLEX64 || dtype == WEFT_COMPLEX128;
    int floating = complex || (dtype >= WEFT_FLOAT16 && dtype <= WEFT_FLOAT8E5M2);

    if (op == WEFT_MIN || op == WEFT_MAX)
        return !complex;
    if (op == WEFT_BAND || op == WEFT_BOR || op == WEFT_BXOR)
        return !floating;
    return !(op == WEFT_AVG && dtype == WEFT_BOOL);
}

static struct bench_row *row_add(struct bench *b)
{
    if (b->nrows == b->rows_cap) {
        size_t cap = b->rows_cap ? b->rows_cap * 2 : 64;
        struct bench_row *rows = realloc(b->rows, cap * sizeof(*rows));
        if (!rows)
            return NULL;
        b->rows = rows;
        b->rows_cap = cap;
    }
    memset(&b->rows[b->nrows], 0, sizeof(b->rows[0]));
    return &b->rows[b->nrows++];
}

static void account(struct bench *b, const struct bench_timing *t)
{
    if (!t->valid)
        return;
    b->wrong += t->wrong + t->mpi_wrong;
    b->busbw_sum += t->busbw;
    b->busbw_n++;
}

static weft_status run_size(struct bench *b, struct bench_buffers *buf, struct bench_call *call)
{
    struct bench_row *row = row_add(b);
    weft_status status = WEFT_SUCCESS;

    if (!row)
        return bench_fail(b, "results", WEFT_ENOMEM);
    row->coll = call->coll;
    row->count = call->count;
    row->bytes = bench_layout_bytes(call->coll, call->count, weft_dtype_bytes(call->dtype), call->nranks);
    row->dtype = call->dtype;
    row->op = call->op;
    row->root = call->root;
    bench_report_progress(b, call->coll, row->bytes);
    if (b->o.out_of_place || !bench_coll_has_in_place(call->coll))
        status = bench_measure(b, buf, call, 0, &row->out);
    if (status == WEFT_SUCCESS && b->o.in_place && bench_coll_has_in_place(call->coll))
        status = bench_measure(b, buf, call, 1, &row->in);
    if (status != WEFT_SUCCESS)
        return bench_fail(b, bench_coll_name(call->coll), status);
    account(b, &row->out);
    account(b, &row->in);
    bench_report_row(b, row);
    return WEFT_SUCCESS;
}

static size_t next_size(const struct bench_options *o, size_t bytes)
{
    if (o->step_factor == 0)
        return bytes + o->step_bytes;
    size_t next = (size_t)((double)bytes * o->step_factor);
    return next > bytes ? next : bytes + 1;
}

static weft_status run_sizes(struct bench *b, struct bench_buffers *buf, struct bench_call *call)
{
    const struct bench_options *o = &b->o;
    size_t elem_bytes = weft_dtype_bytes(call->dtype), last = SIZE_MAX;
    weft_status status = WEFT_SUCCESS;

    for (size_t bytes = o->min_bytes; bytes <= o->max_bytes && status == WEFT_SUCCESS; bytes = next_size(o, bytes)) {
        call->count = bench_layout_count(call->coll, bytes, elem_bytes, b->nranks);
        if (call->count == last) /* smaller than an element per rank: the same call again */
            continue;
        last = call->count;
        bench_layout_make(call->coll, call->count, b->nranks, b->rank, (size_t *)call->counts, (size_t *)call->displs);
        status = run_size(b, buf, call);
    }
    return status;
}

static weft_status run_types(struct bench *b, struct bench_buffers *buf, struct bench_call *call)
{
    const struct bench_options *o = &b->o;
    int reduces = bench_coll_reduces(call->coll), rooted = bench_coll_rooted(call->coll);
    int first = o->root < 0 ? 0 : o->root, end = o->root < 0 ? b->nranks : o->root + 1;
    weft_status status = WEFT_SUCCESS;

    for (int d = 0; d < WEFT_NUM_DTYPES && status == WEFT_SUCCESS; d++) {
        if (!(o->dtypes & 1u << d))
            continue;
        call->dtype = (weft_dtype)d;
        for (weft_op op = 0; op < WEFT_NUM_OPS && status == WEFT_SUCCESS; op++) {
            if (reduces ? !(o->ops & 1u << op) || !bench_op_fits(call->dtype, op) : op != WEFT_SUM)
                continue;
            call->op = op;
            for (int root = rooted ? first : 0; root < (rooted ? end : 1) && status == WEFT_SUCCESS; root++) {
                call->root = root;
                status = run_sizes(b, buf, call);
            }
        }
        if (call->coll == BENCH_BARRIER)
            break;
    }
    return status;
}

/* Room for the largest message of the collective in any layout. */
static size_t buffer_bytes(const struct bench *b, enum bench_coll coll, size_t counts[], size_t displs[])
{
    size_t most = 0;

    if (coll == BENCH_BARRIER)
        return 0;
    for (int d = 0; d < WEFT_NUM_DTYPES; d++) {
        size_t elem_bytes = weft_dtype_bytes((weft_dtype)d);
        if (!(b->o.dtypes & 1u << d))
            continue;
        size_t count = bench_layout_count(coll, b->o.max_bytes, elem_bytes, b->nranks);
        size_t bytes = bench_layout_make(coll, count, b->nranks, b->rank, counts, displs) * elem_bytes;
        most = bytes > most ? bytes : most;
    }
    return most;
}

static weft_status run_coll(struct bench *b, enum bench_coll coll, size_t counts[], size_t displs[])
{
    struct bench_call call = {.coll = coll, .rank = b->rank, .nranks = b->nranks, .counts = counts, .displs = displs};
    struct bench_buffers buf;

    weft_status status = bench_buffers_create(b, buffer_bytes(b, coll, counts, displs), &buf);
    if (status != WEFT_SUCCESS)
        return status;
    bench_report_coll(b, coll);
    status = run_types(b, &buf, &call);
    bench_buffers_destroy(b, &buf);
    return status;
}

int bench_run_all(struct bench *b)
{
    size_t *counts = calloc(2 * (size_t)b->nranks, sizeof(*counts));
    weft_status status = counts ? WEFT_SUCCESS : bench_fail(b, "counts", WEFT_ENOMEM);

    bench_report_head(b);
    for (uint64_t run = 0; run < b->o.runs && status == WEFT_SUCCESS; run++)
        for (int c = 0; c < BENCH_NUM_COLLS && status == WEFT_SUCCESS; c++)
            if (b->o.colls & 1u << c)
                status = run_coll(b, (enum bench_coll)c, counts, counts + b->nranks);
    free(counts);
    b->failed = status != WEFT_SUCCESS;
    bench_report_foot(b);
    int files = b->rank == 0 && !b->failed && (bench_write_json(b) || bench_write_csv(b) || bench_write_plot(b));
    if (b->wrong && !b->failed)
        bench_after_rank_0(b);
    b->failed |= files;
    return b->failed || b->wrong ? 1 : 0;
}
