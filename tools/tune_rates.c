/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-tune: how fast the ranks' cores copy and reduce, all of them at the same time, for they share caches and memory. */
#include <string.h>

#include "base/rates.h"
#include "base/status.h"
#include "weft_tune.h"

#define MEMORY_BYTES (8u << 20) /* of each of three operands: what a share of a last cache hardly holds */
#define CACHE_NS 200000u
#define MEMORY_NS 4000000u
#define ALIKE 1.5f /* operators this near to the sum of their type, and loops to that over floats, need no line */

static weft_status measure_one(struct tune *t, const struct wi_rate_probe *probe, unsigned dtype, unsigned op,
                               float rate[WI_RATE_PLACES])
{
    float mine[WI_RATE_PLACES];

    WI_TRY(weft_barrier(t->comm, NULL));
    mine[WI_RATE_CACHE] = (float)wi_rate_reduce(probe, dtype, op, WI_RATE_CACHE, CACHE_NS);
    mine[WI_RATE_MEMORY] = (float)wi_rate_reduce(probe, dtype, op, WI_RATE_MEMORY, MEMORY_NS);
    return weft_all_reduce(t->comm, mine, rate, WI_RATE_PLACES, WEFT_FLOAT32, WEFT_MIN, NULL);
}

static int alike(const float *a, const float *b)
{
    for (int i = 0; i < WI_RATE_PLACES; i++)
        if (a[i] > ALIKE * b[i] || b[i] > ALIKE * a[i])
            return 0;
    return 1;
}

static weft_status keep(struct tune *t, const char *op, const char *dtype, const float rate[WI_RATE_PLACES])
{
    float(*at)[WI_RATE_PLACES];

    WI_TRY(wi_plan_table_rate(t->table, t->section, op, dtype, &at));
    memcpy(*at, rate, sizeof *at);
    return WEFT_SUCCESS;
}

/* `user`: a loop over floats, of which loops over other types are as many elements. */
static weft_status measure_type(struct tune *t, const struct wi_rate_probe *probe, unsigned dtype,
                                float user[WI_RATE_PLACES])
{
    const char *name = weft_dtype_name((weft_dtype)dtype);
    float sum[WI_RATE_PLACES], rate[WI_RATE_PLACES], elems = (float)weft_dtype_bytes((weft_dtype)dtype) / 4;

    tune_progress(t, name, MEMORY_BYTES);
    WI_TRY(measure_one(t, probe, dtype, WEFT_SUM, sum));
    WI_TRY(keep(t, wi_rate_op_name(WEFT_SUM), name, sum));
    for (unsigned op = 0; op < WI_RATE_USER; op++) {
        if (op == WEFT_SUM || !wi_rate_defined(dtype, op))
            continue;
        WI_TRY(measure_one(t, probe, dtype, op, rate));
        if (!alike(rate, sum))
            WI_TRY(keep(t, wi_rate_op_name(op), name, rate));
    }
    WI_TRY(measure_one(t, probe, dtype, WI_RATE_USER, rate));
    for (int i = 0; i < WI_RATE_PLACES; i++)
        sum[i] = user[i] * elems;
    if (dtype == WEFT_FLOAT32)
        memcpy(user, rate, sizeof rate);
    return alike(rate, sum) ? WEFT_SUCCESS : keep(t, wi_rate_op_name(WI_RATE_USER), name, rate);
}

static weft_status measure_copy(struct tune *t, const struct wi_rate_probe *probe)
{
    float mine[WI_RATE_PLACES], rate[WI_RATE_PLACES];

    WI_TRY(weft_barrier(t->comm, NULL));
    mine[WI_RATE_CACHE] = (float)wi_rate_copy(probe, WI_RATE_CACHE, CACHE_NS);
    mine[WI_RATE_MEMORY] = (float)wi_rate_copy(probe, WI_RATE_MEMORY, MEMORY_NS);
    WI_TRY(weft_all_reduce(t->comm, mine, rate, WI_RATE_PLACES, WEFT_FLOAT32, WEFT_MIN, NULL));
    return keep(t, "copy", "bytes", rate);
}

weft_status tune_measure_rates(struct tune *t)
{
    struct wi_rate_probe *probe = NULL;
    float user[WI_RATE_PLACES] = {0};
    weft_status st;

    if (t->table->sections[t->section].rates.copy[WI_RATE_CACHE] > 0) /* measured before */
        return WEFT_SUCCESS;
    st = wi_rate_probe_create(MEMORY_BYTES, &probe);
    if (st < 0) /* the others are told by the failure of this rank */
        return st;
    st = measure_type(t, probe, WEFT_FLOAT32, user);
    for (unsigned dtype = 0; dtype < WEFT_NUM_DTYPES && st >= 0; dtype++)
        if (dtype != WEFT_FLOAT32)
            st = measure_type(t, probe, dtype, user);
    if (st >= 0)
        st = measure_copy(t, probe); /* last: it says that all are there */
    wi_rate_probe_destroy(probe);
    return st;
}
