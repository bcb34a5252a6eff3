/* The forms of error feedback besides the plain one: what every rank gets, bit for bit, against each paper's steps; with values
 * that are not finite on the way, and what is refused.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fault/fault.h"

#include <math.h>
#include <stdlib.h>

#include "../unit/unit.h"
#include <weft/weft_compress.h>

#include "compress/codec.h"
#include "tests/harness/says.h"

enum { MAX_RANKS = 5, MOST = 70000, BLOCK_MOST = 256 };

/* ---- The reference ---- */

struct reference {
    struct weft_codec codec;
    struct wi_feedback f;
    int nranks, avg, shots;
    size_t count;
    weft_dtype dtype;
    float *given[MAX_RANKS];            /* gradients, as fp32 */
    float *e[MAX_RANKS], *u[MAX_RANKS]; /* a worker's: LoCo's e, EF21's h, DGC's v; DGC's u */
    float *owner, *all;                 /* of sums: LoCo's and DGC's e, EF21's sum of the others' h; EF21's result */
    float *result;
    float gain[MAX_RANKS];
};

static float *floats(size_t n)
{
    float *p = calloc(n + 1, sizeof *p);

    WT_REQUIRE(p != NULL);
    return p;
}

static void reference_open(struct reference *r, const char *spec, int nranks, size_t count, weft_dtype dtype)
{
    struct wi_codec_use use;

    *r = (struct reference){.nranks = nranks, .count = count, .dtype = dtype};
    WT_REQUIRE_OK(wi_codec_parse_use(spec, &use));
    r->codec = use.codec;
    r->f = use.feedback;
    for (int i = 0; i < nranks; i++) {
        r->given[i] = floats(count);
        r->e[i] = floats(count);
        r->u[i] = floats(count);
    }
    r->owner = floats(count);
    r->all = floats(count);
    r->result = floats(count);
}

static void reference_close(struct reference *r)
{
    for (int i = 0; i < r->nranks; i++) {
        free(r->given[i]);
        free(r->e[i]);
        free(r->u[i]);
    }
    free(r->owner);
    free(r->all);
    free(r->result);
}

/* Q of the paper: of n elements, at most a block. 0: not finite. */
static int quantise(const struct reference *r, const float *c, size_t n, float *q)
{
    unsigned char image[4 * BLOCK_MOST];
    size_t bad = wi_codec_encode(&r->codec, c, NULL, n, image);

    wi_codec_decode(&r->codec, image, n, q);
    return bad == 0;
}

/* e <- beta e + (1 - beta) (c - Q(c)) */
static int loco(const struct reference *r, const float *g, float *e, size_t n, float *q)
{
    float c[BLOCK_MOST] = {0};
    int finite;

    for (size_t i = 0; i < n; i++)
        c[i] = g[i] + e[i];
    finite = quantise(r, c, n, q);
    for (size_t i = 0; i < n && finite; i++)
        e[i] = r->f.beta * e[i] + (1 - r->f.beta) * (c[i] - q[i]);
    return finite;
}

/* What a rank sends of a block, and what that makes of its state, which is kept in `e` and `u` until it is known to hold. */
static int give(const struct reference *r, int rank, size_t at, size_t n, float *e, float *u, float *q)
{
    const float *g = r->given[rank] + at;
    float c[BLOCK_MOST];
    int finite;

    memcpy(e, r->e[rank] + at, n * sizeof *e);
    if (r->f.form == WI_FEEDBACK_LOCO)
        return loco(r, g, e, n, q);
    for (size_t i = 0; i < n; i++) {
        u[i] = r->f.momentum * r->u[rank][at + i] + r->gain[rank] * g[i];
        c[i] = r->f.form == WI_FEEDBACK_DGC ? e[i] + u[i] : g[i] - e[i];
    }
    finite = quantise(r, c, n, q);
    for (size_t i = 0; i < n && finite; i++) {
        e[i] = r->f.form == WI_FEEDBACK_DGC ? c[i] - q[i] : e[i] + q[i];
        u[i] = r->f.masking && q[i] != 0 ? 0 : u[i];
    }
    return finite;
}

/* The second shot: the owner's sum becomes what its image holds. */
static int own(struct reference *r, size_t at, size_t n, float *sum)
{
    float q[BLOCK_MOST], c[BLOCK_MOST];
    int finite;

    if (r->f.form == WI_FEEDBACK_LOCO) {
        finite = loco(r, sum, r->owner + at, n, q);
    } else {
        for (size_t i = 0; i < n; i++)
            c[i] = r->f.form == WI_FEEDBACK_DGC ? sum[i] + r->owner[at + i] : sum[i] - r->all[at + i];
        finite = quantise(r, c, n, q);
        for (size_t i = 0; i < n && finite && r->f.form == WI_FEEDBACK_DGC; i++)
            r->owner[at + i] = c[i] - q[i];
    }
    memcpy(sum, q, n * sizeof *sum);
    return finite;
}

/* Where a result is not finite, LoCo's workers have their e as it was, to rounding; the others wait until they know. */
static void keep(struct reference *r, int rank, size_t at, size_t n, int holds, int finite, const float *e,
                 const float *u, const float *q)
{
    if (r->f.form == WI_FEEDBACK_LOCO && finite) {
        for (size_t i = 0; i < n; i++)
            r->e[rank][at + i] = holds ? e[i] : e[i] + (1 - r->f.beta) * (q[i] - r->given[rank][at + i]);
    } else if (holds) {
        memcpy(r->e[rank] + at, e, n * sizeof *e);
        memcpy(r->u[rank] + at, u, n * sizeof *u);
    }
}

/* Elements [at, at + n), at most a block, whose owner is that rank; -1: all sum the images of all. */
static void one_block(struct reference *r, size_t at, size_t n, int owner)
{
    float e[MAX_RANKS][BLOCK_MOST], u[MAX_RANKS][BLOCK_MOST], q[MAX_RANKS][BLOCK_MOST], sum[BLOCK_MOST] = {0},
                                                                                        others[BLOCK_MOST];
    int ef21 = r->f.form == WI_FEEDBACK_EF21, holds = 1, finite[MAX_RANKS], first = 1;

    if (ef21 && owner >= 0) {
        memcpy(sum, r->owner + at, n * sizeof *sum);
        first = 0;
    }
    for (int k = 0; k < r->nranks; k++) {
        finite[k] = k == owner && r->f.form != WI_FEEDBACK_DGC ? 1 : give(r, k, at, n, e[k], u[k], q[k]);
        if (k == owner && r->f.form == WI_FEEDBACK_LOCO)
            memcpy(q[k], r->given[k] + at, n * sizeof(float)); /* exact */
        if (k == owner && ef21)
            continue;
        for (size_t i = 0; i < n; i++)
            sum[i] = first ? q[k][i] : sum[i] + q[k][i];
        first = 0;
        holds &= finite[k];
    }
    memcpy(others, sum, sizeof others);
    for (size_t i = 0; i < n; i++) {
        if (ef21 && owner >= 0)
            sum[i] += r->given[owner][at + i];
        sum[i] *= r->avg ? 1.0f / (float)r->nranks : 1;
    }
    if (owner >= 0)
        holds = own(r, at, n, sum);
    for (size_t i = 0; i < n && ef21 && holds; i++)
        sum[i] = r->all[at + i] += sum[i];
    if (ef21 && holds && owner >= 0)
        memcpy(r->owner + at, others, n * sizeof *others);
    for (int k = 0; k < r->nranks; k++)
        if (k != owner || r->f.form == WI_FEEDBACK_DGC)
            keep(r, k, at, n, holds, finite[k], e[k], u[k], q[k]);
    memcpy(r->result + at, sum, n * sizeof *sum);
}

static void clip(struct reference *r)
{
    for (int k = 0; k < r->nranks; k++) {
        double squares = 0, most = (double)r->f.clip / sqrt(r->nranks);
        for (size_t i = 0; i < r->count; i++)
            squares += (double)r->given[k][i] * (double)r->given[k][i];
        r->gain[k] = r->f.clip > 0 && isfinite(squares) && sqrt(squares) > most ? (float)(most / sqrt(squares)) : 1;
    }
}

static void all_reduce(struct reference *r)
{
    size_t each = r->codec.block, share = (r->count + (size_t)r->nranks - 1) / (size_t)r->nranks;

    share = (share + each - 1) / each * each;
    clip(r);
    for (size_t at = 0; at < r->count; at += each)
        one_block(r, at, r->count - at < each ? r->count - at : each, r->shots == 1 ? -1 : (int)(at / share));
}

/* ---- Calls ---- */

static float value(int rank, int step, size_t i)
{
    uint64_t h = ((uint64_t)rank * 1000003 + (uint64_t)step * 7919 + i + 1) * 0x9e3779b97f4a7c15u;
    float a = (float)(h >> 40) / 16777216.0f - 0.5f, b = (float)(h >> 16 & 0xffffff) / 16777216.0f - 0.5f;

    return a * b * (i % 5 ? 1 : 30) * (i / 200 % 3 ? 1 : 1e-3f);
}

static void fill(struct reference *r, int step)
{
    for (int k = 0; k < r->nranks; k++)
        for (size_t i = 0; i < r->count; i++) {
            uint16_t narrow;
            r->given[k][i] = value(k, step, i);
            if (r->dtype != WEFT_FLOAT32) {
                wi_codec_narrow(r->dtype, &r->given[k][i], &narrow, 1);
                wi_codec_widen(r->dtype, &narrow, &r->given[k][i], 1);
            }
        }
}

static void compare(struct ft_rank *f, struct reference *r, const weft_call_options *options, int in_place, int step)
{
    size_t es = weft_dtype_bytes(r->dtype), bytes = r->count * es;
    unsigned char *src = malloc(bytes + 1), *dst = in_place ? src : calloc(bytes + 1, 1), *want = malloc(bytes + 1);
    weft_call call = wt_call(WEFT_KIND_ALL_REDUCE, src, dst, r->count, r->dtype);

    WT_REQUIRE(src && dst && want);
    wi_codec_narrow(r->dtype, r->given[f->rank], src, r->count);
    call.op = r->avg ? WEFT_AVG : WEFT_SUM;
    call.options = options;
    WT_CHECK_OK(weft_issue(f->comm, &call, NULL));
    all_reduce(r);
    wi_codec_narrow(r->dtype, r->result, want, r->count);
    for (size_t i = 0; i < r->count; i++) {
        float got;
        wi_codec_widen(r->dtype, dst + i * es, &got, 1);
        if (isnan(got) && isnan(r->result[i]))
            continue;
        if (memcmp(dst + i * es, want + i * es, es) != 0) {
            wt_fail(__FILE__, __LINE__, "%s, %d shots, %zu of %s, step %d: element %zu is %g instead of %g",
                    options->codec, r->shots, r->count, weft_dtype_name(r->dtype), step, i, (double)got,
                    (double)r->result[i]);
            break;
        }
    }
    free(want);
    if (!in_place)
        free(dst);
    free(src);
}

static void one_form(struct ft_rank *f, const char *spec, size_t count, weft_dtype dtype, int shots, uint64_t tensor)
{
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    struct reference r;

    options.codec = spec;
    options.tensor = tensor;
    options.algorithm = shots == 1 ? "coded" : "coded2";
    reference_open(&r, spec, f->nranks, count, dtype);
    r.shots = shots;
    r.avg = (int)(tensor & 1);
    for (int step = 0; step < (count == MOST ? 3 : 8); step++) {
        fill(&r, step);
        if (step == 3 || step == 5) /* one rank's block is not finite; nobody's state changes */
            r.given[step % f->nranks][count / 2] = step == 3 ? NAN : -INFINITY;
        compare(f, &r, &options, step & 1, step);
    }
    reference_close(&r);
}

static const char *const specs[] = {
    "int4:block=32,ef=loco,bypass=never",
    "int2:block=64,ef=loco,beta=0.5,bypass=never",
    "int4:block=32,ef=ef21,bypass=never",
    "sign:block=64,ef=ef21,bypass=never",
    "int4:block=64,ef=dgc,bypass=never",
    "int4:block=32,ef=dgc,momentum=0.5,clip=2.5,bypass=never",
    "int8:block=32,ef=dgc,momentum=0,bypass=never",
    "topk:block=256,ratio=0.05,ef=dgc,bypass=never",
    "topk:block=256,ratio=0.05,ef=dgc,masking=0,bypass=never",
    "sign:block=64,ef=dgc,masking=0,momentum=0.5,bypass=never",
};

static void forms(int rank, int nranks, void *arg)
{
    static const size_t counts[] = {1, 31, 33, 3000, MOST};
    static const weft_dtype dtypes[] = {WEFT_FLOAT32, WEFT_BFLOAT16, WEFT_FLOAT16};
    uint64_t tensor = 1;
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    for (size_t s = 0; s < sizeof specs / sizeof *specs; s++)
        for (size_t n = 0; n < sizeof counts / sizeof *counts; n++)
            for (int shots = 1; shots <= 2; shots++, tensor++)
                one_form(&f, specs[s], counts[n], dtypes[counts[n] == 3000 ? s % 3 : 0], shots, tensor);
    ft_close(&f);
}

static void workers(int rank, int nranks, void *arg)
{
    setenv("WEFT_WORKERS", "2", 1);
    setenv("WEFT_WORKER_BYTES", "4K", 1);
    forms(rank, nranks, arg);
}

static void papers(void)
{
    CU_ASSERT_EQUAL(ft_run_everywhere(3, forms, "forms of error feedback", 60000), 0);
    CU_ASSERT_EQUAL(wt_run(2, forms, (void *)(uintptr_t) "shm", 60000), 0);
    CU_ASSERT_EQUAL(wt_run(MAX_RANKS, workers, (void *)(uintptr_t) "tcp", 120000), 0);
}

/* ---- What they are for ---- */

/* How far the mean over the newest `last` of `steps` steps is from what was given, in parts of that. */
static double distance(struct ft_rank *f, const char *spec, int shots, uint64_t tensor, int steps, int last)
{
    enum { COUNT = 3000 };
    static float src[COUNT], dst[COUNT];
    static double mean[COUNT];
    weft_call call = wt_call(WEFT_KIND_ALL_REDUCE, src, dst, COUNT, WEFT_FLOAT32);
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    double off = 0, all = 0;

    options.codec = spec;
    options.tensor = tensor;
    options.algorithm = shots == 1 ? "coded" : "coded2";
    call.options = &options;
    memset(mean, 0, sizeof mean);
    for (size_t i = 0; i < COUNT; i++)
        src[i] = value(f->rank, 0, i);
    for (int step = 0; step < steps; step++) {
        WT_REQUIRE_OK(weft_issue(f->comm, &call, NULL));
        for (size_t i = 0; i < COUNT && step >= steps - last; i++)
            mean[i] += (double)dst[i] / last;
    }
    for (size_t i = 0; i < COUNT; i++) {
        double want = 0;
        for (int k = 0; k < f->nranks; k++)
            want += (double)value(k, 0, i);
        off += (mean[i] - want) * (mean[i] - want);
        all += want * want;
    }
    return off / all;
}

static void converging(int rank, int nranks, void *arg)
{
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    for (int shots = 1; shots <= 2; shots++) {
        uint64_t t = 10 * (uint64_t)shots;
        WT_CHECK(distance(&f, "int4:bypass=never", shots, 0, 40, 40) > 1e-2);
        /* The same gradient again and again: EF21 sends less and less. */
        WT_CHECK(distance(&f, "int4:ef=ef21,bypass=never", shots, t + 1, 1, 1) > 1e-3);
        WT_CHECK(distance(&f, "int4:ef=ef21,bypass=never", shots, t + 2, 20, 1) < 1e-12);
        WT_CHECK(distance(&f, "int4:ef=loco,bypass=never", shots, t + 3, 200, 200) < 1e-4);
        WT_CHECK(distance(&f, "int4:ef=dgc,momentum=0,bypass=never", shots, t + 4, 200, 200) < 1e-5);
    }
    ft_close(&f);
}

static void convergence(void)
{
    CU_ASSERT_EQUAL(wt_run(3, converging, (void *)(uintptr_t) "shm", 60000), 0);
}

/* ---- Warm-up ---- */

/* Two steps of each part of the warm-up, then the codec's ratio: of one shot a result has at most what both ranks sent. */
static void warming(int rank, int nranks, void *arg)
{
    enum { COUNT = 64000 };
    static const double kept[] = {0.25, 0.0625, 0.015625, 0.004, 0.001};
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    float *src = floats(COUNT), *dst = floats(COUNT);
    weft_call call = wt_call(WEFT_KIND_ALL_REDUCE, src, dst, COUNT, WEFT_FLOAT32);
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    call.options = &options;
    options.codec = "topk:ratio=0.001,ef=dgc,warmup=8,bypass=never";
    options.algorithm = "coded";
    options.tensor = 6;
    for (int step = 0; step < 10; step++) {
        double sent = 0, part = kept[step / 2];
        for (size_t i = 0; i < COUNT; i++)
            src[i] = value(rank, step, i);
        WT_CHECK_OK(weft_issue(f.comm, &call, NULL));
        for (size_t i = 0; i < COUNT; i++)
            sent += dst[i] != 0;
        sent /= COUNT;
        if (!(sent > 0.9 * part && sent < 1.2 * part * nranks))
            wt_fail(__FILE__, __LINE__, "step %d: %g of the elements were sent, not about %g", step, sent, part);
    }
    ft_close(&f);
    free(src);
    free(dst);
}

static void warm_up(void)
{
    CU_ASSERT_EQUAL(wt_run(2, warming, (void *)(uintptr_t) "tcp", 60000), 0);
}

/* ---- Bypass, one rank, another algorithm ---- */

static void all_sent(int rank, int nranks, void *arg)
{
    enum { COUNT = 700 };
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    float *src = floats(COUNT), *dst = floats(COUNT);
    weft_call call = wt_call(WEFT_KIND_ALL_REDUCE, src, dst, COUNT, WEFT_FLOAT32);
    double sent = 0, given = 0;
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    call.options = &options;
    options.tensor = 3;
    for (int step = 0; step < 5; step++) {
        options.codec = step < 4 ? "int4:ef=dgc,momentum=0,bypass=never" : "int4:ef=dgc,momentum=0";
        options.algorithm = step == 4 ? "ring" : step % 2 ? "coded" : "coded2";
        for (size_t i = 0; i < COUNT; i++) {
            src[i] = value(rank, step, i);
            for (int k = 0; k < nranks; k++)
                given += (double)value(k, step, i) * (double)(i % 7 + 1);
        }
        WT_CHECK_OK(weft_issue(f.comm, &call, NULL));
        for (size_t i = 0; i < COUNT; i++)
            sent += (double)dst[i] * (double)(i % 7 + 1);
    }
    if (!(fabs(sent - given) < 1e-3))
        wt_fail(__FILE__, __LINE__, "dgc: %g was sent of %g", sent, given);
    for (int step = 0; step < 90;
         step++) { /* EF21: plain data is exact, another algorithm begins anew, and all is well again */
        options.tensor = 4;
        options.codec = step % 30 != 15 ? "int4:ef=ef21,bypass=never" : "int4:ef=ef21";
        options.algorithm = step % 30 == 15 ? "ring" : step / 30 % 2 ? "coded" : "coded2";
        WT_CHECK_OK(weft_issue(f.comm, &call, NULL));
        for (size_t i = 0; i < COUNT && (step % 30 == 29 || step % 30 == 15); i++) {
            double want = 0;
            for (int k = 0; k < nranks; k++)
                want += (double)value(k, 4, i);
            if (!(fabs((double)dst[i] - want) < 1e-4)) {
                wt_fail(__FILE__, __LINE__, "ef21, step %d: element %zu is %g instead of %g", step, i, (double)dst[i],
                        want);
                break;
            }
        }
    }
    ft_close(&f);
    free(src);
    free(dst);
}

static void bypass(void)
{
    CU_ASSERT_EQUAL(wt_run(3, all_sent, (void *)(uintptr_t) "tcp", 60000), 0);
    CU_ASSERT_EQUAL(wt_run(1, all_sent, (void *)(uintptr_t) "shm", 60000), 0);
}

/* ---- What is refused ---- */

/* What EF21 keeps is this rank's only. */
static void other_rank(struct ft_rank *f)
{
    enum { ROOM = 2000 };
    unsigned char mine[ROOM] = {0}, all[2 * ROOM];
    size_t bytes = 0;

    WT_REQUIRE_OK(weft_comm_residual_save(f->comm, 3, mine, ROOM, &bytes));
    WT_REQUIRE_OK(weft_all_gather(f->comm, mine, all, ROOM, WEFT_UINT8, NULL));
    WT_REQUIRE_OK(weft_all_reduce(f->comm, &bytes, &bytes, 1, WEFT_UINT64, WEFT_MAX, NULL));
    WT_CHECK_OK(weft_comm_residual_load(f->comm, 3, 0, all + (f->rank ? ROOM : 0), bytes, 0));
    SAYS(weft_comm_residual_load(f->comm, 3, 0, all + (f->rank ? 0 : ROOM), bytes, 1), WEFT_EINVAL,
         "is for the same rank of as many");
    SAYS(weft_comm_residual_load(f->comm, 4, 0, all + (f->rank ? 0 : ROOM), bytes, 1), WEFT_EINVAL,
         "is for the same rank of as many");
}

static void refused(int rank, int nranks, void *arg)
{
    static const struct {
        const char *codec, *text;
    } wrong[] = {
        {"int8:ef=2", "there is no ef=2"},
        {"int8:ef=lco", "there is no ef=lco; did you mean \"loco\"? (there are: 0, 1, loco, ef21, dgc)"},
        {"int8:ef=loco,beta=1.5", "beta is \"1.5\", not a number from 0 to 0.999"},
        {"int8:ef=loco,beta=x", "beta is \"x\""},
        {"int8:ef=1,beta=0.5", "beta is of ef=loco, and ef is 1"},
        {"int8:beta=0.5", "beta is of ef=loco, and ef is 0"},
        {"int8:ef=loco,momentum=0.5", "momentum is of ef=dgc, and ef is loco"},
        {"int8:ef=ef21,clip=1", "clip is of ef=dgc, and ef is ef21"},
        {"int8:ef=ef21,warmup=1", "warmup is of ef=dgc, and ef is ef21"},
        {"int8:ef=dgc,momentum=1", "momentum is \"1\", not a number from 0 to 0.999"},
        {"int8:ef=loco,masking=1", "masking is of ef=dgc, and ef is loco"},
        {"int8:ef=dgc,masking=2", "masking is \"2\""},
        {"int8:ef=dgc,masking=0", "it needs bypass=never"},
        {"int8:ef=dgc,clip=-1", "clip is \"-1\""},
        {"int8:ef=dgc,warmup=-1", "warmup is \"-1\""},
        {"int8:ef=dgc,warmup=10", "warmup is for codecs with a ratio, and int8 has none"},
        {"int8:ef=dgc,momntum=0.5", "did you mean \"momentum\"?"},
    };
    static float data[4096] = {1, 2, 3}, out[4096];
    weft_call call = wt_call(WEFT_KIND_ALL_REDUCE, data, out, 64, WEFT_FLOAT32);
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    call.options = &options;
    options.tensor = 3;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        options.codec = wrong[i].codec;
        SAYS(weft_issue(f.comm, &call, NULL), WEFT_EINVAL, wrong[i].text);
    }
    call.kind = WEFT_KIND_REDUCE_SCATTER;
    options.codec = "int8:ef=dgc";
    SAYS(weft_issue(f.comm, &call, NULL), WEFT_ENOTSUP, "ef=dgc is for sums, all_reduce");
    options.codec = "int8:ef=ef21";
    SAYS(weft_issue(f.comm, &call, NULL), WEFT_ENOTSUP, "ef=ef21 is for sums, all_reduce");
    call.kind = WEFT_KIND_ALL_REDUCE;
    options.codec = "int8:ef=ef21,bypass=never";
    WT_CHECK_OK(weft_issue(f.comm, &call, NULL));
    other_rank(&f);
    options.codec = "int8:ef=loco,bypass=never";
    SAYS(weft_issue(f.comm, &call, NULL), WEFT_EINVAL, "tensor 3 has a residual of ef=ef21, and the call has ef=loco");
    options.tensor = 0;
    SAYS(weft_issue(f.comm, &call, NULL), WEFT_EINVAL, "codec int8 with ef=loco keeps a residual for each tensor");
    options.tensor = 5;
    options.codec = rank ? "int8:ef=loco,beta=0.5,bypass=never" : "int8:ef=loco,beta=0.6,bypass=never";
    SAYS(weft_issue(f.comm, &call, NULL), WEFT_EMISMATCH, "codec");
    ft_close(&f);
}

static void refusals(void)
{
    CU_ASSERT_EQUAL(wt_run(2, refused, (void *)(uintptr_t) "tcp", 60000), 0);
}

static const struct wt_case cases[] = {
    {"as the papers say: LoCo, EF21, DGC", papers},  {"what they are for", convergence}, {"warm-up", warm_up},
    {"bypass, one rank, another algorithm", bypass}, {"what is refused", refusals},
};
WT_UNIT_MAIN("feedback", cases)
