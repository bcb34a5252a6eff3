/* Reduce-scatters that add to what the destination holds.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fault/fault.h"

#include <stdlib.h>
#include <weft/weft_compress.h>

#include "algo/list.h"
#include "base/reduce.h"

#include "../unit/unit.h"
#include "tests/harness/says.h"

enum { MOST = 40000, MAX_RANKS = 5 };

static void put(weft_dtype dtype, void *at, size_t i, double v)
{
    float f = (float)v;
    uint16_t h = dtype == WEFT_FLOAT16 ? wi_f32_to_f16(f) : wi_f32_to_bf16(f);

    if (dtype == WEFT_FLOAT64)
        ((double *)at)[i] = v;
    else if (dtype == WEFT_FLOAT32)
        ((float *)at)[i] = f;
    else
        ((uint16_t *)at)[i] = h;
}

static double get(weft_dtype dtype, const void *at, size_t i)
{
    if (dtype == WEFT_FLOAT64)
        return ((const double *)at)[i];
    if (dtype == WEFT_FLOAT32)
        return ((const float *)at)[i];
    return dtype == WEFT_FLOAT16 ? wi_f16_to_f32(((const uint16_t *)at)[i]) : wi_bf16_to_f32(((const uint16_t *)at)[i]);
}

/* Sums of these over the ranks, and averages of 1, 2, 3 and 5 of them, are exact in every type, with no more than 7 bits. */
static double given(size_t i, int rank)
{
    return (double)(30 * (int)(i % 3) - 30 * (rank % 2));
}

static double sum_of(size_t i, int nranks)
{
    double sum = 0;

    for (int r = 0; r < nranks; r++)
        sum += given(i, r);
    return sum;
}

/* Finer than the sums: with most of them it is rounded. That it is rounded once tests/unit/test_reduce.c shows. */
static double held(size_t i)
{
    return (double)(i % 7) + 0.25;
}

struct run {
    struct ft_rank *f;
    weft_dtype dtype;
    weft_op op;
    size_t count;
    int v_form;
    const char *algorithm;
    void *src, *dst;
};

static size_t share_of(const struct run *r, int rank)
{
    return r->v_form ? r->count / 2 + (size_t)rank : r->count;
}

static void check_result(const struct run *r, int times)
{
    size_t first = 0, n = share_of(r, r->f->rank);
    char place[8];

    for (int p = 0; p < r->f->rank; p++)
        first += share_of(r, p);
    for (size_t i = 0; i < n; i++) {
        double sum = sum_of(first + i, r->f->nranks), want = held(i);
        for (int t = 0; t < times; t++) { /* rounded each time */
            put(r->dtype, place, 0, want + (r->op == WEFT_AVG ? sum / r->f->nranks : sum));
            want = get(r->dtype, place, 0);
        }
        if (get(r->dtype, r->dst, i) == want)
            continue;
        wt_fail(__FILE__, __LINE__, "%s, %s of %s, %zu elements%s, %d times: element %zu is %g, not %g",
                r->algorithm ? r->algorithm : "planned", weft_op_name(r->op), weft_dtype_name(r->dtype), r->count,
                r->v_form ? " (v)" : "", times, i, get(r->dtype, r->dst, i), want);
        return;
    }
}

/* Once by a call that blocks, once by a request, three times by one that persists. */
static void all_calls(struct run *r)
{
    size_t counts[MAX_RANKS], all = 0;
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    weft_call call = wt_call(r->v_form ? WEFT_KIND_REDUCE_SCATTER_V : WEFT_KIND_REDUCE_SCATTER, r->src, r->dst,
                             r->v_form ? 0 : r->count, r->dtype);
    weft_request *req;

    for (int p = 0; p < r->f->nranks; p++)
        all += counts[p] = share_of(r, p);
    for (size_t i = 0; i < all; i++)
        put(r->dtype, r->src, i, given(i, r->f->rank));
    for (size_t i = 0; i < counts[r->f->rank]; i++)
        put(r->dtype, r->dst, i, held(i));
    call.op = r->op;
    call.send_counts = r->v_form ? counts : NULL;
    call.options = &options;
    options.algorithm = r->algorithm;
    options.accumulate = 1;
    if (weft_issue(r->f->comm, &call, NULL) < 0)
        wt_fail(__FILE__, __LINE__, "%s%s: %s", r->algorithm ? r->algorithm : "planned", r->v_form ? " (v)" : "",
                weft_thread_error());
    check_result(r, 1);
    WT_REQUIRE_OK(weft_issue(r->f->comm, &call, &req));
    WT_REQUIRE_OK(weft_wait(req));
    WT_CHECK_OK(weft_request_free(req));
    check_result(r, 2);
    WT_REQUIRE_OK(weft_persistent(r->f->comm, &call, &req));
    for (int i = 3; i < 6; i++) {
        WT_REQUIRE_OK(weft_start(req));
        WT_REQUIRE_OK(weft_wait(req));
        check_result(r, i);
    }
    WT_CHECK_OK(weft_request_free(req));
    /* Without it the same call replaces what was there: nothing was kept of how the others were laid out. */
    options.accumulate = 0;
    WT_REQUIRE_OK(weft_issue(r->f->comm, &call, NULL));
    for (size_t i = 0, first = 0; i < 1 && counts[r->f->rank]; i++) {
        for (int p = 0; p < r->f->rank; p++)
            first += counts[p];
        double sum = sum_of(first, r->f->nranks);
        WT_CHECK(get(r->dtype, r->dst, 0) == (r->op == WEFT_AVG ? sum / r->f->nranks : sum));
    }
}

static void results(int rank, int nranks, void *arg)
{
    static const weft_dtype dtypes[] = {WEFT_FLOAT32, WEFT_FLOAT64, WEFT_FLOAT16, WEFT_BFLOAT16};
    static const size_t counts[] = {1, 7, 1000, MOST}; /* over lines, through slots, in slices */
    int shm = strcmp(arg, "shm") == 0;
    struct ft_rank f;
    struct run r;
    void *memory;

    ft_open(&f, arg, 100000, rank, nranks);
    memory = shm ? NULL : calloc((MAX_RANKS + 2) * MOST, sizeof(double));
    if (shm)
        WT_REQUIRE_OK(weft_mem_alloc(f.context, (MAX_RANKS + 2) * MOST * sizeof(double), &memory));
    WT_REQUIRE(memory != NULL);
    r.f = &f;
    r.src = memory;
    r.dst = (double *)memory + (MAX_RANKS + 1) * MOST;
    for (const struct wi_algo *const *a = wi_algos; a == wi_algos || *a; a++) {
        int planned = a == wi_algos;
        if (!planned && ((*a)->coll != WI_COLL_REDUCE_SCATTER || !(*a)->traits.adds || nranks == 1 ||
                         ((*a)->needs & WI_ALGO_MAPPED && !shm) || wi_algo_ranks_needed((*a)->needs, nranks)))
            continue;
        r.algorithm = planned ? NULL : (*a)->name;
        for (int i = 0; i < 16; i++) {
            r.dtype = dtypes[i % 4];
            r.count = counts[i / 4];
            r.op = (i + i / 4) % 2 ? WEFT_AVG : WEFT_SUM;
            for (r.v_form = 0; r.v_form < 2; r.v_form++)
                if (!r.v_form || planned || !((*a)->needs & WI_ALGO_UNIFORM))
                    all_calls(&r);
        }
    }
    if (shm)
        WT_CHECK_OK(weft_mem_free(f.context, memory));
    else
        free(memory);
    ft_close(&f);
}

/* ---- What it is not for ---- */

static void refused(int rank, int nranks, void *arg)
{
    float src[8] = {0}, dst[8] = {0};
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    weft_call call = wt_call(WEFT_KIND_ALL_REDUCE, src, dst, 4, WEFT_FLOAT32);
    weft_batch_item item = {src, dst, 4, 0};
    weft_request *req = NULL;
    struct ft_rank f;

    ft_open(&f, arg, 100000, rank, nranks);
    call.options = &options;
    options.accumulate = 1;
    SAYS(weft_issue(f.comm, &call, NULL), WEFT_ENOTSUP, "all_reduce: accumulate is for reduce_scatter and");
    call.kind = WEFT_KIND_REDUCE_SCATTER;
    options.accumulate = 2;
    SAYS(weft_issue(f.comm, &call, NULL), WEFT_EINVAL, "accumulate is 2, neither 0 nor 1");
    options.accumulate = 1;
    call.op = WEFT_MAX;
    SAYS(weft_issue(f.comm, &call, &req), WEFT_ENOTSUP, "accumulate is for sum and avg, and operator max");
    call.op = WEFT_SUM;
    call.dtype = WEFT_INT32;
    SAYS(weft_persistent(f.comm, &call, &req), WEFT_ENOTSUP, "real floating types, and int32 is none");
    call.dtype = WEFT_COMPLEX64;
    call.count = 2;
    SAYS(weft_issue(f.comm, &call, NULL), WEFT_ENOTSUP, "real floating types, and complex64 is none");
    call.dtype = WEFT_FLOAT32;
    call.count = 4;
    call.dst = src + 4 * rank;
    SAYS(weft_issue(f.comm, &call, NULL), WEFT_EINVAL, "accumulate adds to dst, which is in place here");
    call.dst = dst;
    options.codec = "int8";
    SAYS(weft_issue(f.comm, &call, NULL), WEFT_ENOTSUP, "accumulate cannot be combined with a codec");
    options.codec = NULL;
    options.reserved = 1;
    SAYS(weft_issue(f.comm, &call, NULL), WEFT_EINVAL, "options.reserved is not 0");
    options.reserved = 0;
    options.algorithm = "pairwise";
    SAYS(weft_issue(f.comm, &call, NULL), WEFT_ENOTSUP, "does not write the result once and for all");
    options.algorithm = NULL;
    SAYS(weft_issue_batch(f.comm, &call, &item, 1, &req), WEFT_ENOTSUP, "accumulate is not for batches");
    WT_REQUIRE_OK(weft_group_start());
    call.op = WEFT_PROD;
    WT_CHECK_STATUS(weft_issue(f.comm, &call, NULL), WEFT_ENOTSUP);
    WT_CHECK_STATUS(weft_group_end(), WEFT_ENOTSUP);
    WT_CHECK(!req);
    WT_CHECK_OK(weft_barrier(f.comm, NULL)); /* nothing was begun */
    ft_close(&f);
}

/* One rank adds, the other does not. */
static void disagree(int rank, int nranks, void *arg)
{
    float src[8] = {0}, dst[4] = {0};
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    weft_call call = wt_call(WEFT_KIND_REDUCE_SCATTER, src, dst, 4, WEFT_FLOAT32);
    struct ft_rank f;
    weft_status st;

    ft_open(&f, arg, 20000, rank, nranks);
    call.options = &options;
    options.accumulate = rank;
    st = weft_issue(f.comm, &call, NULL);
    WT_CHECK(st == WEFT_EMISMATCH);
    WT_CHECK(strstr(weft_thread_error(), "accumulate set otherwise") != NULL);
    WT_CHECK_OK(weft_comm_destroy(f.comm));
    WT_CHECK_OK(weft_context_destroy(f.context));
}

static void everywhere(wt_rank_fn fn, int least, int most)
{
    static const char *const transports[] = {"shm", "tcp"};

    for (int i = 0; i < 2; i++)
        for (int n = least; n <= most; n += n == 3 ? 2 : 1) {
            int failed = wt_run(n, fn, (void *)(uintptr_t)transports[i], 120000);
            if (failed)
                printf("# %d ranks over %s\n", n, transports[i]);
            CU_ASSERT_EQUAL(failed, 0);
        }
}

static void all_results(void)
{
    everywhere(results, 1, MAX_RANKS);
}

static void all_refused(void)
{
    everywhere(refused, 2, 2);
}

static void all_disagree(void)
{
    everywhere(disagree, 2, 2);
}

static const struct wt_case cases[] = {
    {"the result is added to what was there, and rounded once", all_results},
    {"what it is not for is refused", all_refused},
    {"ranks that differ are told", all_disagree},
};
WT_UNIT_MAIN("accumulate", cases)
