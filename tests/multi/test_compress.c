/* Compressed collectives: what every rank gets, bit for bit, against a reference that follows the definitions of each algorithm
 * with whole vectors and no schedule; residuals from call to call, values that are not finite, and what is refused.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fault/fault.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "../unit/unit.h"
#include <weft/weft_compress.h>

#include "comm/comm.h"
#include "compress/codec.h"
#include "compress_reference.h"
#include "tests/harness/says.h"

enum { MOST = 40000 };

/* ---- Calls ---- */

/* One all_reduce of what `r` has for this rank, compared with the reference. */
static void compare(struct ft_rank *f, struct reference *r, const weft_call_options *options, int in_place, int shots)
{
    size_t bytes = r->count * weft_dtype_bytes(r->dtype);
    void *src = narrowed(r, r->given[f->rank], r->count), *dst = in_place ? src : calloc(bytes + 1, 1), *want;
    weft_call call = wt_call(WEFT_KIND_ALL_REDUCE, src, dst, r->count, r->dtype);

    call.op = r->avg ? WEFT_AVG : WEFT_SUM;
    call.options = options;
    WT_CHECK_OK(weft_issue(f->comm, &call, NULL));
    r->step = f->comm->exec->next_seq;
    all_reduce(r, shots);
    want = narrowed(r, r->result, r->count);
    for (size_t i = 0; i < r->count; i++) {
        size_t es = weft_dtype_bytes(r->dtype);
        if (memcmp((char *)dst + i * es, (char *)want + i * es, es) != 0) {
            float got;
            wi_codec_widen(r->dtype, (char *)dst + i * es, &got, 1);
            wt_fail(__FILE__, __LINE__, "%s, %d shots, %zu elements of %s%s: element %zu is %g instead of %g",
                    options->codec, shots, r->count, weft_dtype_name(r->dtype), in_place ? " in place" : "", i,
                    (double)got, (double)r->result[i]);
            break;
        }
    }
    free(want);
    if (!in_place)
        free(dst);
    free(src);
}

static const char *const codecs[] = {"int8",
                                     "int6:block=32",
                                     "int4:block=64",
                                     "int2",
                                     "sign:block=2048",
                                     "topk:block=256,ratio=0.05",
                                     "topk",
                                     "blocktopk:block=4096,values=bf16",
                                     "topk:block=65536,values=int8"};
static const size_t counts[] = {1, 2, 31, 127, 128, 129, 5000, MOST};

/* In fewer forms. */
static const char *const more_codecs[] = {"bf16",
                                          "fp16",
                                          "e4m3",
                                          "e5m2:block=64",
                                          "mxfp8",
                                          "mxfp6",
                                          "mxfp4",
                                          "int8:scale=fp32",
                                          "int8:levels=minmax,round=stochastic",
                                          "int4:hadamard=1,block=64",
                                          "int4:round=stochastic,block=32,seed=5",
                                          "int2:levels=minmax",
                                          "sign:means=2",
                                          "qsgd",
                                          "qsgd:levels=1,block=32",
                                          "terngrad",
                                          "natural"};
static const size_t few_counts[] = {33, 5000};

static void one_form(struct ft_rank *f, const char *codec, size_t count, weft_dtype dtype, int shots)
{
    char spec[128];
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    struct reference r;

    snprintf(spec, sizeof spec, "%s%sbypass=never", codec, strchr(codec, ':') ? "," : ":");
    options.codec = spec;
    options.algorithm = shots == 1 ? "coded" : "coded2";
    reference_open(&r, codec, f->nranks, count, dtype);
    for (int avg = 0; avg < 2; avg++) {
        r.avg = avg;
        fill(&r, avg);
        compare(f, &r, &options, avg, shots);
    }
    reference_close(&r);
}

static void forms(int rank, int nranks, void *arg)
{
    static const weft_dtype dtypes[] = {WEFT_FLOAT32, WEFT_BFLOAT16, WEFT_FLOAT16};
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    for (size_t c = 0; c < sizeof codecs / sizeof *codecs; c++)
        for (size_t n = 0; n < sizeof counts / sizeof *counts; n++)
            for (int shots = 1; shots <= 2; shots++)
                one_form(&f, codecs[c], counts[n], dtypes[(c + n) % 3], shots);
    for (size_t c = 0; c < sizeof more_codecs / sizeof *more_codecs; c++)
        for (size_t n = 0; n < 2; n++)
            for (int shots = 1; shots <= 2; shots++)
                one_form(&f, more_codecs[c], few_counts[n], dtypes[(c + n) % 3], shots);
    ft_close(&f);
}

static void all_reduces(void)
{
    CU_ASSERT_EQUAL(ft_run_everywhere(2, forms, "compressed all_reduce of 2", 60000), 0);
    CU_ASSERT_EQUAL(ft_run_everywhere(3, forms, "compressed all_reduce of 3", 60000), 0);
    CU_ASSERT_EQUAL(wt_run(MAX_RANKS, forms, (void *)(uintptr_t) "tcp", 120000), 0);
}

/* A codec of a variable rate, from a plugin: slices whose images have lengths of their own. */
static void lossless_forms(int rank, int nranks, void *arg)
{
    static const weft_dtype dtypes[] = {WEFT_FLOAT32, WEFT_BFLOAT16, WEFT_FLOAT16};
    struct ft_rank f;

    ft_create(&f, arg, 20000, rank, nranks);
    for (size_t n = 0; n < sizeof counts / sizeof *counts; n++)
        for (int shots = 1; shots <= 2; shots++)
            for (int t = 0; t < 3; t++)
                one_form(&f, t == 1 ? "lossless:block=32" : "lossless:level=1", counts[n], dtypes[t], shots);
    SAYS(weft_codec_check("lossless:ef=loco"), WEFT_EINVAL, "for codecs of a fixed rate; codec lossless takes ef=1");
    ft_close(&f);
}

static void lossless(void)
{
    if (access(".libs/lossless.so", R_OK) != 0) {
        wt_skip("there is no plugin lossless: it was built without libzstd");
        return;
    }
    ft_fake_path[0] = '\0'; /* of the cases before: it would stand in place of the path here */
    setenv("WEFT_COMM_SLICE_BYTES", "16K", 1);
    for (int i = 0; i < 4; i++) {
        setenv("WEFT_PLUGIN_PATH", wt_plugin_dir("lossless"), 1); /* it goes with the ranks that have run */
        CU_ASSERT_EQUAL(wt_run(2 + i / 2, lossless_forms, (void *)(uintptr_t)(i % 2 ? "tcp" : "shm"), 60000), 0);
    }
    unsetenv("WEFT_PLUGIN_PATH");
    unsetenv("WEFT_COMM_SLICE_BYTES");
}

/* Of a plugin, with blocks that are too long for a stack and sums that the library makes. */
static void plugin_forms(int rank, int nranks, void *arg)
{
    static const weft_dtype dtypes[] = {WEFT_FLOAT32, WEFT_BFLOAT16, WEFT_FLOAT16};
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    for (int shots = 1; shots <= 2; shots++)
        for (size_t t = 0; t < 3; t++) {
            one_form(&f, "ternary:block=65536", 150000, dtypes[t], shots);
            one_form(&f, "ternary:block=4096,threshold=0.5", 40001, dtypes[t], shots);
        }
    ft_close(&f);
}

static weft_status once_configure(struct weft_codec *codec, char *why, size_t capacity)
{
    weft_status st = wi_codec_ops(wi_codec_find("int8"))->configure(codec, why, capacity);

    codec->lossy_limit = 1;
    return st;
}

/* What may be encoded once only is for one shot. */
static void limited_losses(int rank, int nranks, void *arg)
{
    static float data[256], out[256];
    static struct weft_codec_ops ops;
    static struct weft_plugin once;
    weft_call call = wt_call(WEFT_KIND_ALL_REDUCE, data, out, 256, WEFT_FLOAT32);
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    struct ft_rank f;
    int added;

    ft_open(&f, arg, 20000, rank, nranks);
    once = *wi_codec_find("int8");
    ops = *wi_codec_ops(wi_codec_find("int8"));
    ops.configure = once_configure;
    once.ops = &ops;
    once.name = "once";
    WT_CHECK_OK(wi_codec_add(&once, "here", &added));
    call.options = &options;
    options.codec = "once:bypass=never";
    options.algorithm = "coded";
    WT_CHECK_OK(weft_issue(f.comm, &call, NULL));
    options.algorithm = "coded2";
    SAYS(weft_issue(f.comm, &call, NULL), WEFT_ENOTSUP,
         "algorithm coded2 encodes an element up to 2 times, and codec once allows 1");
    ft_close(&f);
}

static void plugins(void)
{
    const char *dir = wt_plugin_dir("ternary");
    char before[sizeof ft_fake_path];

    CU_ASSERT_PTR_NOT_NULL_FATAL(dir);
    memcpy(before, ft_fake_path, sizeof before);
    snprintf(ft_fake_path, sizeof ft_fake_path, "PLUGIN_PATH=%s", dir);
    CU_ASSERT_EQUAL(wt_run(3, plugin_forms, (void *)(uintptr_t) "tcp", 60000), 0);
    CU_ASSERT_EQUAL(wt_run(2, plugin_forms, (void *)(uintptr_t) "shm", 60000), 0);
    memcpy(ft_fake_path, before, sizeof before);
    CU_ASSERT_EQUAL(wt_run(2, limited_losses, (void *)(uintptr_t) "tcp", 60000), 0);
}

/* ---- Error feedback ---- */

static void feedback_of(struct ft_rank *f, const char *codec)
{
    enum { COUNT = 3000, STEPS = 12 };
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    int nranks = f->nranks;
    struct reference r[2];
    char spec[96];

    snprintf(spec, sizeof spec, "%s,ef=1,bypass=never", codec);
    options.codec = spec;
    for (int t = 0; t < 2; t++) {
        reference_open(&r[t], codec, nranks, COUNT + (size_t)t, t ? WEFT_BFLOAT16 : WEFT_FLOAT32);
        r[t].feedback = 1;
        r[t].avg = t;
    }
    for (int step = 0; step < STEPS; step++)
        for (int t = 0; t < 2; t++) {
            options.tensor = 77 + (uint64_t)t;
            options.algorithm = t ? "coded" : "coded2";
            fill(&r[t], step);
            if (step == 3) /* one rank's block is not finite; the others take theirs back */
                r[t].given[nranks - 1][70] = step % 2 ? INFINITY : NAN;
            compare(f, &r[t], &options, step % 2, t ? 1 : 2);
        }
    for (int t = 0; t < 2; t++)
        reference_close(&r[t]);
    WT_CHECK_OK(weft_comm_residual_clear(f->comm, 0));
}

static void feedback_steps(int rank, int nranks, void *arg)
{
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    feedback_of(&f, "int4:block=32");
    feedback_of(&f, "topk:block=256,ratio=0.05");
    feedback_of(&f, "blocktopk:block=1024,ratio=0.1");
    ft_close(&f);
}

static void feedback(void)
{
    CU_ASSERT_EQUAL(ft_run_everywhere(3, feedback_steps, "residuals", 60000), 0);
}

/* ---- Others ---- */

/* Two steps with residuals: the owner's contribution is exact, and its sum is not coded again. */
static void reduce_scatters(struct ft_rank *f, size_t share, int in_place)
{
    size_t all = share * (size_t)f->nranks, own = share * (size_t)f->rank;
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    struct reference r;

    options.codec = "int4:ef=1,bypass=never";
    options.tensor = share * 2 + (size_t)in_place + 1;
    reference_open(&r, "int4", f->nranks, all, WEFT_FLOAT32);
    r.feedback = 1;
    for (int step = 0; step < 2; step++) {
        float *src = floats(all), *dst = in_place ? src + own : floats(share), *want = floats(all);
        weft_call call = wt_call(WEFT_KIND_REDUCE_SCATTER, src, dst, share, WEFT_FLOAT32);
        call.options = &options;
        fill(&r, step);
        r.step = f->comm->exec->next_seq + 1;
        memcpy(src, r.given[f->rank], all * sizeof *src);
        for (int owner = 0; owner < f->nranks; owner++)
            for (int k = 0; k < f->nranks; k++) {
                size_t at = share * (size_t)owner;
                float *held = floats(share);
                if (k == owner)
                    memcpy(held, r.given[k] + at, share * sizeof *held);
                else
                    pass(&r, (struct maker){k, 0, at}, r.given[k] + at, r.residual[k] + at, share, held);
                for (size_t i = 0; i < share; i++)
                    want[at + i] = k ? want[at + i] + held[i] : held[i];
                free(held);
            }
        WT_CHECK_OK(weft_issue(f->comm, &call, NULL));
        expect_near_bits(f, "reduce_scatter", dst, want + own, share);
        for (size_t i = 0; in_place && i < all; i++)
            WT_CHECK((i >= own && i < own + share) || src[i] == r.given[f->rank][i]);
        free(want);
        if (!in_place)
            free(dst);
        free(src);
    }
    reference_close(&r);
}

/* All have what the image of a share holds, its maker too; all_to_all keeps what a rank gives itself. */
static void moves(struct ft_rank *f, weft_kind kind, size_t share)
{
    size_t all = share * (size_t)f->nranks;
    float *src = floats(all), *dst = floats(all), *want = floats(all);
    weft_call call = wt_call(kind, src, dst, share, WEFT_FLOAT32);
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    struct reference r;

    options.codec = "int8:block=64,bypass=never";
    call.options = &options;
    reference_open(&r, "int8:block=64", f->nranks, all, WEFT_FLOAT32);
    fill(&r, 1);
    r.step = f->comm->exec->next_seq + 1;
    memcpy(src, r.given[f->rank], (kind == WEFT_KIND_ALL_TO_ALL ? all : share) * sizeof *src);
    for (int k = 0; k < f->nranks; k++) {
        float *from = r.given[k] + (kind == WEFT_KIND_ALL_TO_ALL ? share * (size_t)f->rank : 0),
              *to = want + share * (size_t)k;
        if (f->nranks == 1 || (kind == WEFT_KIND_ALL_TO_ALL && k == f->rank))
            memcpy(to, from, share * sizeof *to);
        else
            pass(&r, (struct maker){k, 0, (size_t)(from - r.given[k])}, from, NULL, share, to);
    }
    WT_CHECK_OK(weft_issue(f->comm, &call, NULL));
    expect_near_bits(f, kind == WEFT_KIND_ALL_TO_ALL ? "all_to_all" : "all_gather", dst, want, all);
    reference_close(&r);
    free(src);
    free(dst);
    free(want);
}

static void other_forms(int rank, int nranks, void *arg)
{
    static const size_t shares[] = {1, 63, 64, 1000, 5001};
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        reduce_scatters(&f, shares[i], 0);
        reduce_scatters(&f, shares[i], 1);
        moves(&f, WEFT_KIND_ALL_GATHER, shares[i]);
        moves(&f, WEFT_KIND_ALL_TO_ALL, shares[i]);
    }
    ft_close(&f);
}

static void others(void)
{
    CU_ASSERT_EQUAL(ft_run_everywhere(3, other_forms, "other compressed collectives", 60000), 0);
    CU_ASSERT_EQUAL(wt_run(1, other_forms, (void *)(uintptr_t) "shm", 60000), 0);
}

/* ---- What is refused ---- */

static void refused_calls(int rank, int nranks, void *arg)
{
    static float data[256], out[256];
    weft_call call = wt_call(WEFT_KIND_ALL_REDUCE, data, out, 64, WEFT_FLOAT32);
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    weft_request *req = NULL;
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    call.options = &options;
    options.codec = "int9";
    SAYS(weft_issue(f.comm, &call, NULL), WEFT_EINVAL, "did you mean \"int8\"?");
    SAYS(weft_persistent(f.comm, &call, &req), WEFT_EINVAL, "there is no codec \"int9\"");
    options.codec = "int8:block=100";
    SAYS(weft_issue(f.comm, &call, &req), WEFT_EINVAL, "block is \"100\", not a power of two from 32 to 2048");
    options.codec = "int8:efs=1";
    SAYS(weft_issue(f.comm, &call, NULL), WEFT_EINVAL, "there is no parameter \"efs\"; did you mean \"ef\"?");
    options.codec = "int8:ef=2";
    SAYS(weft_issue(f.comm, &call, NULL), WEFT_EINVAL, "there is no ef=2; did you mean");
    options.codec = "int8:ef=1";
    SAYS(weft_issue(f.comm, &call, NULL), WEFT_EINVAL, "keeps a residual for each tensor, and the call names none");
    options.codec = "qsgd:ef=1";
    SAYS(weft_issue(f.comm, &call, NULL), WEFT_EINVAL,
         "whose error is shorter than the vector, and that of qsgd is not");
    options.codec = "int4:round=stochastic,block=2048,ef=1";
    SAYS(weft_issue(f.comm, &call, NULL), WEFT_EINVAL, "and that of int4 is not");
    options.codec = "int8";
    call.dtype = WEFT_INT32;
    SAYS(weft_issue(f.comm, &call, NULL), WEFT_ENOTSUP, "codec int8 takes float32, float16 and bfloat16, not int32");
    call.dtype = WEFT_FLOAT32;
    call.op = WEFT_MAX;
    SAYS(weft_issue(f.comm, &call, NULL), WEFT_ENOTSUP, "is for the operators sum and avg, not max");
    call.op = WEFT_SUM;
    call.kind = WEFT_KIND_REDUCE;
    SAYS(weft_issue(f.comm, &call, NULL), WEFT_ENOTSUP, "codec int8 is for all_reduce, reduce_scatter, all_gather");
    call.kind = WEFT_KIND_SEND;
    call.peer = !rank;
    SAYS(weft_issue(f.comm, &call, NULL), WEFT_ENOTSUP, "send is not coded, and codec \"int8\" is named");
    call.peer = 0;
    call.kind = WEFT_KIND_ALL_GATHER;
    options.codec = "int8:ef=1";
    options.tensor = 5;
    SAYS(weft_issue(f.comm, &call, NULL), WEFT_ENOTSUP, "ef=1 is for sums");
    call.kind = WEFT_KIND_ALL_REDUCE;
    options.codec = NULL;
    options.algorithm = "coded2";
    SAYS(weft_issue(f.comm, &call, NULL), WEFT_ENOTSUP, "it sends images: for calls with a codec");
    options.codec = "int8:ef=1";
    options.tensor = 5;
    options.algorithm = "pull";
    SAYS(weft_issue(f.comm, &call, NULL), WEFT_ENOTSUP, "what was lost before is added to a copy of it");
    options.codec = "int8:bypass=never";
    options.algorithm = "ring";
    SAYS(weft_issue(f.comm, &call, NULL), WEFT_ENOTSUP,
         "it sends plain data, and the call's codec may not be bypassed");
    ft_close(&f);
}

/* A tensor's residual is for one operation at a time, and for one size. */
static void busy_tensors(int rank, int nranks, void *arg)
{
    enum { COUNT = 200000 };
    float *data = floats(COUNT), *out = floats(COUNT);
    weft_call call = wt_call(WEFT_KIND_ALL_REDUCE, data, out, COUNT, WEFT_FLOAT32);
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    weft_request *req = NULL, *other = NULL;
    size_t bytes = 1;
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    call.options = &options;
    options.codec = "int8:ef=1,bypass=never";
    options.tensor = 9;
    wt_sync();
    if (rank)
        wt_sync();
    WT_CHECK_OK(weft_issue(f.comm, &call, &req));
    if (!rank) {
        SAYS(weft_comm_residual_clear(f.comm, 9), WEFT_EBUSY, "an operation uses the residual of tensor 9");
        SAYS(weft_issue(f.comm, &call, &other), WEFT_EBUSY,
             "tensor 9: an operation that uses its residual is in flight");
        wt_sync();
    }
    WT_CHECK_OK(weft_wait(req));
    WT_CHECK_OK(weft_request_free(req));
    WT_CHECK_OK(weft_comm_residual_bytes(f.comm, &bytes));
    WT_CHECK(bytes >= COUNT * sizeof(float) && bytes <= (COUNT + COUNT / 3 + 128) * sizeof(float));
    call.count--;
    SAYS(weft_issue(f.comm, &call, NULL), WEFT_EINVAL,
         "tensor 9 has a residual of 200000 elements, and the call has 199999");
    call.count++;
    WT_CHECK_OK(weft_issue(f.comm, &call, NULL));
    SAYS(weft_comm_residual_clear(f.comm, 8), WEFT_ENOTFOUND, "tensor 8 has no residual");
    WT_CHECK_OK(weft_comm_residual_clear(f.comm, 9));
    WT_CHECK_OK(weft_comm_residual_bytes(f.comm, &bytes));
    WT_CHECK_INT(bytes, 0);
    call.count--;
    WT_CHECK_OK(weft_issue(f.comm, &call, NULL));
    WT_CHECK_OK(weft_comm_residual_clear(f.comm, 0));
    WT_CHECK_OK(weft_comm_residual_clear(f.comm, 0));
    SAYS(weft_comm_residual_bytes(f.comm, NULL), WEFT_EINVAL, "bytes is NULL");
    SAYS(weft_comm_residual_clear(NULL, 0), WEFT_EINVAL, "not a communicator");
    ft_close(&f);
    free(data);
    free(out);
}

/* What ranks name differently is a disagreement, not wrong numbers. */
static void different_codecs(int rank, int nranks, void *arg)
{
    static float data[4096], out[4096];
    weft_call call = wt_call(WEFT_KIND_ALL_REDUCE, data, out, 4096, WEFT_FLOAT32);
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    options.codec = rank ? "int8:bypass=never" : "int4:bypass=never";
    call.options = &options;
    SAYS(
        weft_issue(f.comm, &call, NULL), WEFT_EMISMATCH,
        "called all_reduce #2 (sum of 4096 float, compressed) here too, but with other per-rank counts, another algorithm, codec");
    ft_close(&f);
}

static void one_is_not_compressed(int rank, int nranks, void *arg)
{
    static float data[4096], out[4096];
    weft_call call = wt_call(WEFT_KIND_ALL_REDUCE, data, out, 4096, WEFT_FLOAT32);
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    options.codec = rank ? "int8:bypass=never" : NULL;
    call.options = &options;
    SAYS(weft_issue(f.comm, &call, NULL), WEFT_EMISMATCH,
         rank ? "(sum of 4096 float) here" : "(sum of 4096 float, compressed) here");
    ft_close(&f);
}

static void refusals(void)
{
    CU_ASSERT_EQUAL(wt_run(2, one_is_not_compressed, (void *)(uintptr_t) "tcp", 60000), 0);
    CU_ASSERT_EQUAL(wt_run(2, one_is_not_compressed, (void *)(uintptr_t) "shm", 60000), 0);
    CU_ASSERT_EQUAL(wt_run(2, refused_calls, (void *)(uintptr_t) "shm", 60000), 0);
    CU_ASSERT_EQUAL(wt_run(3, busy_tensors, (void *)(uintptr_t) "tcp", 60000), 0);
    CU_ASSERT_EQUAL(wt_run(2, different_codecs, (void *)(uintptr_t) "tcp", 60000), 0);
    CU_ASSERT_EQUAL(wt_run(2, different_codecs, (void *)(uintptr_t) "shm", 60000), 0);
}

/* ---- Codecs by themselves ---- */

static void checked_texts(void)
{
    static const char *const good[] = {"", "none", "int8", "int4:block=64,ef=1,min=64K,bypass=never"};
    static const char *const bad[] = {"int5", "int4:ef=2", "int4:efs=1", "int4:block=33", "int4:min=-1", "int4,ef=1"};

    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        CU_ASSERT_EQUAL(weft_codec_check(good[i]), WEFT_SUCCESS);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CU_ASSERT_EQUAL(weft_codec_check(bad[i]), WEFT_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(weft_thread_error(), "int4,ef=1"));
    CU_ASSERT_EQUAL(weft_codec_check(NULL), WEFT_EINVAL);
}

static void public_codecs(void)
{
    enum { COUNT = 5001 };
    float *v = floats(COUNT), *held = floats(COUNT), *want = floats(COUNT), *owed = floats(COUNT);
    uint16_t *narrow = calloc(COUNT, sizeof *narrow);
    struct weft_codec codec;
    size_t bytes = 0;
    void *image;

    for (size_t i = 0; i < COUNT; i++)
        v[i] = value(1, 2, i);
    CU_ASSERT_EQUAL(weft_codec_bytes("int4:block=64", COUNT, &bytes), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(bytes, (COUNT + 63) / 64 * 34);
    image = malloc(bytes);
    CU_ASSERT_FATAL(image && narrow);
    CU_ASSERT_EQUAL(weft_codec_encode("int4:block=64", WEFT_FLOAT32, v, owed, COUNT, image, bytes), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(weft_codec_decode("int4:block=64", image, bytes, WEFT_FLOAT32, held, COUNT), WEFT_SUCCESS);
    CU_ASSERT_EQUAL_FATAL(wi_codec_parse("int4:block=64", &codec), WEFT_SUCCESS);
    wi_codec_decode(&codec, image, COUNT, want);
    for (size_t i = 0; i < COUNT; i++)
        CU_ASSERT(memcmp(&held[i], &want[i], sizeof *held) == 0 && owed[i] == v[i] - held[i]);
    CU_ASSERT_EQUAL(weft_codec_decode("int4:block=64", image, bytes, WEFT_BFLOAT16, narrow, COUNT), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(weft_codec_encode("int4:block=64", WEFT_BFLOAT16, narrow, NULL, COUNT, image, bytes), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(weft_codec_encode("int4:block=64", WEFT_FLOAT32, v, NULL, COUNT, image, bytes - 1), WEFT_ETRUNC);
    CU_ASSERT_EQUAL(weft_codec_decode("int4:block=64", image, bytes + 1, WEFT_FLOAT32, held, COUNT), WEFT_EINVAL);
    CU_ASSERT_EQUAL(weft_codec_decode("int4:block=64", image, bytes, WEFT_INT8, held, COUNT), WEFT_ENOTSUP);
    CU_ASSERT_EQUAL(weft_codec_encode("int4:ef=1", WEFT_FLOAT32, v, NULL, COUNT, image, bytes), WEFT_EINVAL);
    CU_ASSERT_EQUAL(weft_codec_encode(NULL, WEFT_FLOAT32, v, NULL, COUNT, image, bytes), WEFT_EINVAL);
    CU_ASSERT_EQUAL(weft_codec_encode("int4:block=64", WEFT_FLOAT32, NULL, NULL, COUNT, image, bytes), WEFT_EINVAL);
    CU_ASSERT_EQUAL(weft_codec_bytes("int8", SIZE_MAX, &bytes), WEFT_EINVAL);
    CU_ASSERT_EQUAL(weft_codec_bytes("int8", 1, NULL), WEFT_EINVAL);
    free(v);
    free(held);
    free(want);
    free(owed);
    free(narrow);
    free(image);
}

static const struct wt_case cases[] = {
    {"texts of codecs, checked", checked_texts},
    {"codecs by themselves", public_codecs},
    {"all_reduce in one shot and two, by every codec", all_reduces},
    {"by a codec of a variable rate", lossless},
    {"codecs of plugins, and what may be encoded once", plugins},
    {"residuals from call to call, of two tensors", feedback},
    {"reduce_scatter, all_gather, all_to_all", others},
    {"what is refused", refusals},
};
WT_UNIT_MAIN("compress", cases)
