/* Batches: many tensors in one collective. Each gets what it would get alone, or at least what is owed.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fault/fault.h"

#include <math.h>
#include <stdlib.h>

#include "../unit/unit.h"
#include <weft/weft_compress.h>
#include "tests/harness/says.h"

enum { N = 7, MOST = 5000 };

static const size_t counts[N] = {1000, 0, 1, MOST, 127, 128, 333};

/* Of tensor t; whole numbers below 100 where `whole`. */
static float value(int rank, int step, int t, size_t i)
{
    uint64_t h = ((uint64_t)rank * 1000003 + (uint64_t)step * 7919 + (uint64_t)t * 65537 + i + 1) * 0x9e3779b97f4a7c15u;

    return (float)((double)(h >> 40) / 16777216.0 - 0.5) * (i % 5 ? 1 : 30);
}

struct tensors {
    float src[N][MOST], dst[N][MOST];
    weft_batch_item items[N];
};

/* base: the first tensor's number. */
static void fill(struct tensors *s, int rank, int step, uint64_t base, int in_place)
{
    for (int t = 0; t < N; t++) {
        for (size_t i = 0; i < MOST; i++)
            s->src[t][i] = value(rank, step, t, i);
        memset(s->dst[t], 0x7f, sizeof s->dst[t]);
        s->items[t] = (weft_batch_item){s->src[t], in_place ? s->src[t] : s->dst[t], counts[t], base + (uint64_t)t};
    }
}

/* Ranks may be threads: each has its own. */
static struct tensors *tensors_new(size_t n)
{
    struct tensors *s = calloc(n, sizeof *s);

    WT_REQUIRE(s != NULL);
    return s;
}

static weft_call all_reduce_call(const weft_call_options *options, weft_op op)
{
    weft_call call = WEFT_CALL_INIT;

    call.kind = WEFT_KIND_ALL_REDUCE;
    call.dtype = WEFT_FLOAT32;
    call.op = op;
    call.options = options;
    return call;
}

/* ---- As alone ---- */

static void compare_one(struct ft_rank *f, weft_call call, struct tensors *alone, const struct tensors *batch, int t,
                        weft_call_options options)
{
    options.tensor = 500 + (uint64_t)t;
    call.options = &options;
    call.src = alone->src[t];
    call.dst = alone->dst[t];
    call.count = counts[t];
    WT_CHECK_OK(weft_issue(f->comm, &call, NULL));
    for (size_t i = 0; i < counts[t]; i++) {
        float got = ((const float *)batch->items[t].dst)[i], want = alone->dst[t][i];
        if (memcmp(&got, &want, sizeof got) != 0 && !(isnan(got) && isnan(want))) {
            wt_fail(__FILE__, __LINE__, "%s: element %zu of tensor %d is %g instead of %g", options.codec, i, t,
                    (double)got, (double)want);
            return;
        }
    }
    if (batch->items[t].dst != batch->src[t] && counts[t] < MOST) /* nothing behind it */
        WT_CHECK(((const unsigned char *)batch->dst[t])[counts[t] * sizeof(float)] == 0x7f);
}

/* In one shot each image is of one tensor, and so is its sum: the same bits as of single calls, residuals included. */
static void as_alone(struct ft_rank *f, const char *codec, weft_op op)
{
    struct tensors *batch = tensors_new(1), *alone = tensors_new(1);
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    weft_call call = all_reduce_call(&options, op);

    options.codec = codec;
    options.algorithm = "coded";
    for (int step = 0; step < 5; step++) {
        fill(batch, f->rank, step, 100, step & 1);
        fill(alone, f->rank, step, 500, 0);
        if (step == 2 && f->rank == f->nranks - 1)
            batch->src[3][700] = alone->src[3][700] = NAN;
        WT_CHECK_OK(weft_issue_batch(f->comm, &call, batch->items, N, NULL));
        for (int t = 0; t < N; t++)
            compare_one(f, call, alone, batch, t, options);
    }
    WT_CHECK_OK(weft_comm_residual_clear(f->comm, 0));
    free(batch);
    free(alone);
}

static void alike(int rank, int nranks, void *arg)
{
    static const char *const codecs[] = {
        "int8:bypass=never",         "int4:block=32,ef=1,bypass=never", "sign:block=2048,ef=loco,bypass=never",
        "int4:ef=ef21,bypass=never", "int4:ef=dgc,clip=3,bypass=never",
    };
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++)
        as_alone(&f, codecs[i], i & 1 ? WEFT_AVG : WEFT_SUM);
    ft_close(&f);
}

static void each_as_alone(void)
{
    CU_ASSERT_EQUAL(ft_run_everywhere(3, alike, "batches", 60000), 0);
    CU_ASSERT_EQUAL(wt_run(2, alike, (void *)(uintptr_t) "shm", 60000), 0);
}

/* ---- In two shots: what is owed, and the same bits ---- */

static void same_bits(struct ft_rank *f, const void *data, size_t bytes)
{
    static unsigned char all[4][MOST * sizeof(float)];

    WT_REQUIRE(f->nranks <= 4);
    if (!bytes)
        return;
    for (int r = 0; r < f->nranks; r++) {
        memcpy(all[r], data, bytes);
        WT_CHECK_OK(weft_broadcast(f->comm, all[r], all[r], bytes, WEFT_UINT8, r, NULL));
        WT_CHECK(!memcmp(all[r], data, bytes));
    }
}

/* Batches of these tensors, in this order; the last is sent plain. -1: the end. */
static const int batches[][N + 1] = {{0, 1, 2, 3, 4, 5, 6, -1}, {3, 0, -1}, {6, 5, 4, 2, 1, -1},
                                     {5, 3, 1, 2, 0, 4, 6, -1}, {3, -1},    {0, 1, 2, 3, 4, 5, 6, -1}};

static void changing(int rank, int nranks, void *arg)
{
    double sent[N] = {0}, given[N] = {0};
    struct tensors *s = tensors_new(1);
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    weft_call call = all_reduce_call(&options, WEFT_AVG);
    enum { STEPS = sizeof batches / sizeof *batches };
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    for (int step = 0; step < STEPS; step++) {
        weft_batch_item items[N];
        size_t n = 0;
        options.codec = step < STEPS - 1 ? "int2:block=32,ef=1,bypass=never" : "int2:block=32,ef=1";
        options.algorithm = step < STEPS - 1 ? "coded2" : "ring";
        fill(s, rank, step, 40, step & 1);
        for (; batches[step][n] >= 0; n++) {
            int t = batches[step][n];
            items[n] = s->items[t];
            for (size_t i = 0; i < counts[t]; i++)
                for (int k = 0; k < nranks; k++)
                    given[t] += (double)value(k, step, t, i) / nranks * (double)(i % 7 + 1);
        }
        WT_CHECK_OK(weft_issue_batch(f.comm, &call, items, n, NULL));
        for (size_t k = 0; k < n; k++) {
            int t = batches[step][k];
            for (size_t i = 0; i < counts[t]; i++)
                sent[t] += (double)((float *)items[k].dst)[i] * (double)(i % 7 + 1);
            same_bits(&f, items[k].dst, counts[t] * sizeof(float));
        }
    }
    for (int t = 0; t < N; t++)
        if (!(fabs(sent[t] - given[t]) <= 1e-3))
            wt_fail(__FILE__, __LINE__, "tensor %d: %g was sent of %g", t, sent[t], given[t]);
    ft_close(&f);
    free(s);
}

static void what_is_owed(void)
{
    CU_ASSERT_EQUAL(wt_run(3, changing, (void *)(uintptr_t) "shm", 60000), 0);
    CU_ASSERT_EQUAL(wt_run(4, changing, (void *)(uintptr_t) "tcp", 60000), 0);
    CU_ASSERT_EQUAL(wt_run(1, changing, (void *)(uintptr_t) "shm", 60000), 0);
}

/* ---- Short tensors, none, one rank, several at once ---- */

static void expect_sums(const struct tensors *s, int nranks, int step, size_t exact_below, double within)
{
    for (int t = 0; t < N; t++)
        for (size_t i = 0; i < counts[t]; i++) {
            double want = 0, got = (double)((const float *)s->items[t].dst)[i];
            for (int k = 0; k < nranks; k++)
                want += (double)value(k, step, t, i);
            if (!(fabs(got - want) <= (counts[t] < exact_below ? 1e-5 : within))) {
                wt_fail(__FILE__, __LINE__, "tensor %d of %d ranks: element %zu is %g instead of %g", t, nranks, i, got,
                        want);
                return;
            }
        }
}

/* min=: in bytes, of each tensor. Of what is coded some element is off. */
static void shorts(struct ft_rank *f)
{
    struct tensors *s = tensors_new(1);
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    weft_call call = all_reduce_call(&options, WEFT_SUM);
    double off = 0;

    options.codec = "int4:min=512,bypass=never"; /* 128 elements */
    fill(s, f->rank, 3, 1, 0);
    WT_CHECK_OK(weft_issue_batch(f->comm, &call, s->items, N, NULL));
    expect_sums(s, f->nranks, 3, 128, 6.0 * f->nranks);
    for (size_t i = 0; i < 128; i++) {
        double want = 0;
        for (int k = 0; k < f->nranks; k++)
            want += (double)value(k, 3, 5, i);
        off += fabs(want - (double)s->dst[5][i]);
    }
    WT_CHECK((off > 1e-2) == (f->nranks > 1));
    options.codec = "int4:min=1G,bypass=never"; /* nothing is coded */
    fill(s, f->rank, 4, 1, 1);
    WT_CHECK_OK(weft_issue_batch(f->comm, &call, s->items, N, NULL));
    expect_sums(s, f->nranks, 4, SIZE_MAX, 0);
    call.options = NULL;
    fill(s, f->rank, 5, 0, 0);
    WT_CHECK_OK(weft_issue_batch(f->comm, &call, s->items, N, NULL));
    expect_sums(s, f->nranks, 5, SIZE_MAX, 0);
    WT_CHECK_OK(weft_issue_batch(f->comm, &call, NULL, 0, NULL));
    WT_CHECK_OK(weft_issue_batch(f->comm, &call, s->items + 1, 1, NULL)); /* of no elements */
    free(s);
}

static void at_once(struct ft_rank *f)
{
    struct tensors *s = tensors_new(3);
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    weft_call call = all_reduce_call(&options, WEFT_SUM);
    weft_request *req[3];

    options.codec = "int8:min=512,ef=1,bypass=never";
    for (int b = 0; b < 3; b++) {
        fill(&s[b], f->rank, 6 + b, 1000 + 100 * (uint64_t)b, b & 1);
        WT_REQUIRE_OK(weft_issue_batch(f->comm, &call, s[b].items, N, &req[b]));
    }
    WT_CHECK_OK(weft_wait_all(req, 3));
    for (int b = 0; b < 3; b++) {
        expect_sums(&s[b], f->nranks, 6 + b, 128, 0.2 * f->nranks);
        WT_CHECK_OK(weft_request_free(req[b]));
    }
    free(s);
}

static void narrow(struct ft_rank *f)
{
    uint16_t ones[300], more[70];
    weft_batch_item items[] = {{ones, ones, 300, 0}, {more, more, 70, 0}};
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    weft_call call = all_reduce_call(&options, WEFT_SUM);

    options.codec = "int8:min=256,bypass=never";
    call.dtype = WEFT_BFLOAT16;
    for (size_t i = 0; i < 300; i++)
        ones[i] = 0x3f80;
    for (size_t i = 0; i < 70; i++)
        more[i] = 0x4000;
    WT_CHECK_OK(weft_issue_batch(f->comm, &call, items, 2, NULL));
    for (size_t i = 0; i < 300; i++)
        WT_CHECK(fabs((double)(ones[i] & 0xff80) - (f->nranks == 1   ? 0x3f80
                                                    : f->nranks == 2 ? 0x4000
                                                                     : 0x4040)) <= 0x80);
    for (size_t i = 0; i < 70; i++)
        WT_CHECK_INT(more[i], f->nranks == 1 ? 0x4000 : f->nranks == 2 ? 0x4080 : 0x40c0);
}

static void of_all_kinds(int rank, int nranks, void *arg)
{
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    shorts(&f);
    at_once(&f);
    narrow(&f);
    ft_close(&f);
}

static void others(void)
{
    CU_ASSERT_EQUAL(ft_run_everywhere(3, of_all_kinds, "batches of all kinds", 60000), 0);
    CU_ASSERT_EQUAL(wt_run(2, of_all_kinds, (void *)(uintptr_t) "tcp", 60000), 0);
    CU_ASSERT_EQUAL(wt_run(1, of_all_kinds, (void *)(uintptr_t) "shm", 60000), 0);
}

/* By WEFT_COMPRESS, in a program that names no codec. */
static void by_default(int rank, int nranks, void *arg)
{
    struct tensors *s = tensors_new(1);
    weft_call call = all_reduce_call(NULL, WEFT_SUM);
    struct ft_rank f;
    double off = 0;

    setenv("WEFT_COMPRESS", "int4:min=512,bypass=never", 1);
    ft_create(&f, arg, 20000, rank, nranks);
    fill(s, rank, 2, 0, 0);
    WT_CHECK_OK(weft_issue_batch(f.comm, &call, s->items, N, NULL));
    expect_sums(s, nranks, 2, 128, 6.0 * nranks);
    for (size_t i = 0; i < MOST; i++)
        off += fabs((double)s->dst[3][i] - (double)value(0, 2, 3, i) - (double)value(1, 2, 3, i));
    WT_CHECK(off > 1);
    ft_close(&f);
    free(s);
}

static void default_codec(void)
{
    CU_ASSERT_EQUAL(wt_run(2, by_default, (void *)(uintptr_t) "tcp", 60000), 0);
}

/* ---- What is refused ---- */

static void refused(int rank, int nranks, void *arg)
{
    struct tensors *s = tensors_new(1);
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    weft_call call = all_reduce_call(&options, WEFT_SUM);
    weft_batch_item bad[2];
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    fill(s, rank, 0, 1, 0);
    options.codec = "int8:ef=1,bypass=never";
    bad[0] = bad[1] = s->items[0];
    SAYS(weft_issue_batch(f.comm, &call, bad, 2, NULL), WEFT_EBUSY, "tensor 1: an operation that uses its residual");
    bad[1] = s->items[3];
    bad[1].tensor = 0;
    SAYS(weft_issue_batch(f.comm, &call, bad, 2, NULL), WEFT_EINVAL, "keeps a residual for each tensor");
    bad[1] = s->items[3];
    bad[1].src = NULL;
    SAYS(weft_issue_batch(f.comm, &call, bad, 2, NULL), WEFT_EINVAL, "src of item 1 is NULL");
    bad[1] = s->items[3];
    bad[1].dst = NULL;
    SAYS(weft_issue_batch(f.comm, &call, bad, 2, NULL), WEFT_EINVAL, "dst of item 1 is NULL");
    bad[1].dst = s->dst[3];
    bad[1].count = SIZE_MAX / 2;
    SAYS(weft_issue_batch(f.comm, &call, bad, 2, NULL), WEFT_EINVAL, "exceed the address space");
    SAYS(weft_issue_batch(f.comm, &call, NULL, 2, NULL), WEFT_EINVAL, "items is NULL");
    SAYS(weft_issue_batch(f.comm, NULL, s->items, 2, NULL), WEFT_EINVAL, "call is NULL");
    SAYS(weft_issue_batch(NULL, &call, s->items, 2, NULL), WEFT_EINVAL, "not a communicator");
    call.count = 1;
    SAYS(weft_issue_batch(f.comm, &call, s->items, 2, NULL), WEFT_EINVAL, "which are each item's");
    call.count = 0;
    call.kind = WEFT_KIND_BROADCAST;
    SAYS(weft_issue_batch(f.comm, &call, s->items, 2, NULL), WEFT_ENOTSUP, "broadcast has no batch form");
    call.kind = WEFT_KIND_ALL_REDUCE;
    options.tensor = 3;
    SAYS(weft_issue_batch(f.comm, &call, s->items, 2, NULL), WEFT_EINVAL, "options name tensor 3");
    options.tensor = 0;
    options.codec = "int9";
    SAYS(weft_issue_batch(f.comm, &call, s->items, 2, NULL), WEFT_EINVAL, "did you mean \"int8\"?");
    WT_CHECK_OK(weft_group_start());
    SAYS(weft_issue_batch(f.comm, &call, s->items, 2, NULL), WEFT_ENOTSUP, "cannot be part of a group");
    WT_CHECK_STATUS(weft_group_end(), WEFT_ENOTSUP);
    options.codec = "int8:bypass=never"; /* the same elements in all, but other tensors */
    s->items[0].count = rank ? 896 : 1000;
    s->items[5].count = rank ? 128 + 128 : 128;
    SAYS(weft_issue_batch(f.comm, &call, s->items, N, NULL), WEFT_EMISMATCH, "all_reduce");
    ft_close(&f);
    free(s);
}

static void refusals(void)
{
    CU_ASSERT_EQUAL(wt_run(2, refused, (void *)(uintptr_t) "tcp", 60000), 0);
    CU_ASSERT_EQUAL(wt_run(2, refused, (void *)(uintptr_t) "shm", 60000), 0);
}

static const struct wt_case cases[] = {
    {"each as alone", each_as_alone},
    {"in two shots, and batches that change", what_is_owed},
    {"short tensors, none, several batches at once", others},
    {"the codec that no call names", default_codec},
    {"what is refused", refusals},
};
WT_UNIT_MAIN("batch", cases)
