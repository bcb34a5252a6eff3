/* All-reduces with linear codecs (sharedint, leaderk, randomk): results against what the codecs are defined to give, computed here
 * from all ranks' vectors; what is issued behind them; what is refused, and what is recorded.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/multi/linear_reference.h"

#include "base/status.h"
#include "comm/comm.h"

static const size_t counts[] = {1, 31, 128, 129, 5000, MOST};
enum { COUNTS = sizeof counts / sizeof *counts };

static void shared_ints(int rank, int nranks, void *arg)
{
    static const struct {
        const char *codec;
        size_t block;
        int most;
    } forms[] = {{"sharedint:bypass=never", 128, 127},
                 {"sharedint:wire=int16,block=32,bypass=never", 32, 32767},
                 {"sharedint:wire=int16,block=2048,bypass=never", 2048, 32767}};
    static const weft_dtype dtypes[] = {WEFT_FLOAT32, WEFT_BFLOAT16, WEFT_FLOAT16};
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    for (size_t c = 0; c < sizeof forms / sizeof *forms; c++)
        for (size_t k = 0; k < COUNTS; k++)
            for (int avg = 0; avg < 2; avg++) {
                weft_dtype dtype = dtypes[(c + k) % 3];
                struct vectors v = make(nranks, (int)k, counts[k], dtype, real);
                float *got = floats(counts[k]);
                reference_shared(&v, nranks, counts[k], forms[c].block, forms[c].most, avg);
                as_dtype(dtype, v.want, counts[k]);
                call_once(&f, forms[c].codec, 0, dtype, avg, avg, v.of[rank], counts[k], got);
                compare(forms[c].codec, avg, got, v.want, counts[k], 0);
                agree_on_bits(&f, got, counts[k]);
                free(got);
                drop(&v, nranks);
            }
    ft_close(&f);
}

/* Without a residual, of the call that has this number. */
static int leader_of(uint64_t seq, int nranks)
{
    return (int)(wi_hash64(&seq, sizeof seq, 0) % (uint64_t)nranks);
}

static void leaders(int rank, int nranks, void *arg)
{
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    for (int step = 0; step < 2 * COUNTS; step++) {
        size_t n = counts[step % COUNTS];
        int values = step % 2; /* fp32, whose sums are exact here; bf16 */
        struct vectors v = make(nranks, step, n, WEFT_FLOAT32, whole);
        float *got = floats(n);
        int leader = leader_of(f.comm->exec->next_seq + 1, nranks);
        reference_leader(&v, nranks, n, 1024, 102, leader, step % 3 == 0, NULL);
        call_once(&f,
                  values ? "leaderk:block=1024,ratio=0.1,bypass=never"
                         : "leaderk:block=1024,ratio=0.1,values=fp32,bypass=never",
                  0, WEFT_FLOAT32, step % 3 == 0, step % 2, v.of[rank], n, got);
        for (size_t i = 0; i < n; i++) { /* sums in bf16 may cancel: of what was added */
            float added = 0;
            for (int r = 0; r < nranks; r++)
                added += fabsf(v.of[r][i]) / (step % 3 == 0 ? (float)nranks : 1);
            if (values && fabsf(got[i] - v.want[i]) <= 0x1p-7f * added && (v.want[i] != 0 || got[i] == 0))
                v.want[i] = got[i];
        }
        compare("leaderk", step, got, v.want, n, 1e-6f);
        agree_on_bits(&f, got, n);
        free(got);
        drop(&v, nranks);
    }
    ft_close(&f);
}

/* Which places is random, but the same on all ranks: each is the sum or 0, as many of a block are not 0 as the codec says, others
 * the next time. */
static void random_places(int rank, int nranks, void *arg)
{
    enum { N = 50000, BLOCK = 512, K = 51, PART = 16384 }; /* of which as many are worked on at a time */
    float *got = floats(N), *before = floats(N);
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    for (int step = 0; step < 4; step++) {
        struct vectors v = make(nranks, 0, N, WEFT_FLOAT32, whole);
        size_t moved = 0, differ = 0;
        call_once(&f, "randomk:block=512,ratio=0.1,values=fp32,bypass=never", 0, WEFT_FLOAT32, 0, step % 2, v.of[rank],
                  N, got);
        for (size_t at = 0; at < N; at += BLOCK) {
            size_t sent = 0, here = at + BLOCK < N ? BLOCK : N - at;
            for (size_t i = at; i < at + here; i++) {
                float sum = 0;
                for (int r = 0; r < nranks; r++)
                    sum += v.of[r][i];
                sent += got[i] != 0;
                moved += (got[i] != 0) != (before[i] != 0);
                if (got[i] != 0 && !same(got[i], sum, 1e-6f))
                    wt_fail(__FILE__, __LINE__, "element %zu is %g, the sum %g", i, (double)got[i], (double)sum);
            }
            if (here == BLOCK)
                WT_CHECK(sent >= K - 8 && sent <= K); /* a sum of whole numbers may be 0 */
        }
        WT_CHECK(!step || moved > N / 8);
        for (size_t i = 0; i < N - PART; i++)
            differ += (got[i] != 0) != (got[i + PART] != 0);
        WT_CHECK(differ > (N - PART) / 8); /* no part is drawn as the one before */
        agree_on_bits(&f, got, N);
        memcpy(before, got, N * sizeof *got);
        drop(&v, nranks);
    }
    ft_close(&f);
    free(got);
    free(before);
}

/* ---- Several at once, again and again ---- */

static void behind_each_other(int rank, int nranks, void *arg)
{
    enum { N = 20000, CALLS = 6 };
    static const char *const codecs[] = {"sharedint:bypass=never", NULL,
                                         "leaderk:ratio=0.1,block=1024,values=fp32,bypass=never"};
    float *src[CALLS], *dst[CALLS];
    weft_request *reqs[CALLS];
    struct ft_rank f;
    uint64_t before;

    ft_open(&f, arg, 20000, rank, nranks);
    before = f.comm->exec->next_seq;
    for (int i = 0; i < CALLS; i++) {
        weft_call_options options = WEFT_CALL_OPTIONS_INIT;
        weft_call call;
        src[i] = floats(N);
        dst[i] = floats(N);
        for (size_t k = 0; k < N; k++)
            src[i][k] = whole(rank, i, k);
        call = wt_call(WEFT_KIND_ALL_REDUCE, src[i], dst[i], N, WEFT_FLOAT32);
        options.codec = codecs[i % 3];
        call.options = &options;
        WT_CHECK_OK(weft_issue(f.comm, &call, &reqs[i]));
    }
    for (int i = CALLS - 1; i >= 0; i--) {
        struct vectors v = make(nranks, i, N, WEFT_FLOAT32, whole);
        WT_CHECK_OK(weft_wait(reqs[i]));
        if (i % 3 == 0)
            reference_shared(&v, nranks, N, 128, 127, 0);
        else if (i % 3 == 2)
            reference_leader(&v, nranks, N, 1024, 102, leader_of(before + 1 + (unsigned)i, nranks), 0, NULL);
        for (size_t k = 0; i % 3 == 1 && k < N; k++)
            for (int r = 0; r < nranks; r++)
                v.want[k] += v.of[r][k];
        compare(i % 3 ? i % 3 == 1 ? "plain" : "leaderk" : "sharedint", i, dst[i], v.want, N, 1e-6f);
        weft_request_free(reqs[i]);
        drop(&v, nranks);
        free(src[i]);
        free(dst[i]);
    }
    ft_close(&f);
}

static void started_again(int rank, int nranks, void *arg)
{
    enum { N = 3000 };
    float *src = floats(N), *dst = floats(N);
    weft_call call = wt_call(WEFT_KIND_ALL_REDUCE, src, dst, N, WEFT_FLOAT32);
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    weft_request *req;
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    options.codec = "sharedint:bypass=never";
    call.options = &options;
    WT_REQUIRE_OK(weft_persistent(f.comm, &call, &req));
    for (int step = 0; step < 4; step++) {
        struct vectors v = make(nranks, step, N, WEFT_FLOAT32, real);
        memcpy(src, v.of[rank], N * sizeof *src);
        reference_shared(&v, nranks, N, 128, 127, 0);
        WT_CHECK_OK(weft_start(req));
        WT_CHECK_OK(weft_wait(req));
        compare("started again", step, dst, v.want, N, 0);
        drop(&v, nranks);
    }
    weft_request_free(req);
    ft_close(&f);
    free(src), free(dst);
}

/* Each rank's vector times a number of its own, in place and not: what is coded is the product, the program's vector stays. */
static void premultiplied(int rank, int nranks, void *arg)
{
    enum { N = 3000 };
    float *src = floats(N), *dst = floats(N), scalar = ldexpf(1, rank + 1);
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    struct ft_rank f;
    weft_op twice;

    ft_open(&f, arg, 20000, rank, nranks);
    options.codec = "sharedint:bypass=never";
    WT_REQUIRE_OK(weft_op_create_premul_sum(&scalar, WEFT_FLOAT32, &twice));
    for (int step = 0; step < 4; step++) {
        float *to = step % 2 ? dst : src;
        weft_call call = wt_call(WEFT_KIND_ALL_REDUCE, src, to, N, WEFT_FLOAT32);
        struct vectors v = make(nranks, step, N, WEFT_FLOAT32, real);
        memcpy(src, v.of[rank], N * sizeof *src);
        call.options = &options;
        call.op = twice;
        WT_CHECK_OK(weft_issue(f.comm, &call, NULL));
        if (to != src)
            WT_CHECK(memcmp(src, v.of[rank], N * sizeof *src) == 0);
        for (int r = 0; r < nranks; r++)
            for (size_t i = 0; i < N; i++)
                v.of[r][i] *= ldexpf(1, r + 1);
        reference_shared(&v, nranks, N, 128, 127, 0);
        compare("premultiplied", step, to, v.want, N, 0);
        drop(&v, nranks);
    }
    WT_CHECK_OK(weft_op_destroy(twice));
    ft_close(&f);
    free(src), free(dst);
}

/* ---- What is refused ---- */

static void refused(int rank, int nranks, void *arg)
{
    static float data[4096], out[4096];
    weft_call call = wt_call(WEFT_KIND_ALL_REDUCE, data, out, 4096, WEFT_FLOAT32);
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    struct weft_codec_linear linear;
    struct weft_codec codec;
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    call.options = &options;
    options.tensor = 1;
    options.codec = "leaderk:ef=dgc,bypass=never";
    SAYS(weft_issue(f.comm, &call, NULL), WEFT_EINVAL,
         "ef=dgc is for codecs that send images; the linear codec leaderk takes ef=1");
    SAYS(weft_codec_check(options.codec), WEFT_EINVAL, "ef=dgc is for codecs that send images");
    options.codec = "sharedint:ef=ef21,bypass=never";
    SAYS(weft_issue(f.comm, &call, NULL), WEFT_EINVAL, "ef=ef21 is for codecs that send images");
    SAYS(weft_codec_check(options.codec), WEFT_EINVAL, "ef=ef21 is for codecs that send images");
    WT_CHECK_INT(weft_codec_check("sharedint:ef=loco"), WEFT_SUCCESS);
    WT_CHECK_INT(weft_codec_check("randomk:values=fp16,ef=dgc"), WEFT_SUCCESS); /* is not summed, but sent as images */
    options.codec = "sharedint:bypass=never";
    options.algorithm = "no_such";
    SAYS(weft_issue(f.comm, &call, NULL), WEFT_ENOTFOUND, "no_such");
    WT_REQUIRE(wi_codec_parse("sharedint", &codec) >= 0);
    WT_CHECK_INT(wi_codec_linear(&codec, 42, &linear), WEFT_SUCCESS);
    WT_CHECK_INT(wi_codec_linear(&codec, 43, &linear), WEFT_ENOTSUP);
    WT_CHECK(strstr(wi_fail_text(), "wire=int8 holds the sum of at most 42 ranks, and here are 43: take wire=int16") !=
             NULL);
    WT_REQUIRE(wi_codec_parse("sharedint:wire=int16", &codec) >= 0);
    WT_CHECK_INT(wi_codec_linear(&codec, 10922, &linear), WEFT_SUCCESS);
    options.algorithm = NULL;
    options.tensor = 0;
    options.codec = rank ? "sharedint:bypass=never" : "sharedint:block=64,bypass=never";
    SAYS(weft_issue(f.comm, &call, NULL), WEFT_EMISMATCH, "all_reduce");
    if (!strstr(weft_thread_error(), "sum of 4096 float, compressed"))
        wt_fail(__FILE__, __LINE__, "not of the call: %s", weft_thread_error());
    ft_close(&f);
}

/* A call that would wait before it is planned: two operations cannot. */
static int open_poll(struct wi_exec *exec, struct wi_op *op, int *moved)
{
    (void)exec, (void)op, (void)moved;
    return 1;
}

static void at_a_gate(int rank, int nranks, void *arg)
{
    static const struct wi_gate_ops gate = {.name = "an open door", .poll = open_poll};
    static float data[4096], out[4096];
    struct weft_request *req;
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    WT_REQUIRE_OK(wi_comm_enter(f.comm));
    req = wi_request_get(f.comm);
    WT_REQUIRE(req != NULL);
    req->call = (struct wi_call){.coll = WI_COLL_ALL_REDUCE,
                                 .dtype = WEFT_FLOAT32,
                                 .op = WEFT_SUM,
                                 .root = -1,
                                 .src = data,
                                 .dst = out,
                                 .count = 4096};
    WT_REQUIRE_OK(wi_codec_parse_use("sharedint:bypass=never", &req->codec));
    wi_request_gate(req, &gate, NULL, 0);
    SAYS(wi_request_issue(req), WEFT_ENOTSUP,
         "codec sharedint is linear: its call is two operations, which cannot wait at a gate");
    wi_request_put(req);
    wi_comm_leave(f.comm);
    ft_close(&f);
}

/* What a recorder says of the call: its codec, that it was not bypassed, and the bytes of both operations. */
static void recorded(int rank, int nranks, void *arg)
{
    static float data[40960], out[40960];
    weft_call call = wt_call(WEFT_KIND_ALL_REDUCE, data, out, 40960, WEFT_FLOAT32);
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    weft_collective_info info = WEFT_COLLECTIVE_INFO_INIT;
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    options.codec = "sharedint:bypass=never";
    options.algorithm = "ring";
    call.options = &options;
    WT_CHECK_OK(weft_issue(f.comm, &call, NULL));
    WT_CHECK_OK(weft_comm_newest_collective(f.comm, &info));
    WT_CHECK(!strcmp(info.codec, "sharedint"));
    WT_CHECK_INT(info.bypassed, 0);
    /* Of codes 2 (P - 1) / P; of scales, by whichever algorithm, not more than P - 1 times all of them. */
    if (strcmp(arg, "shm") != 0) /* what others copy is not sent */
        WT_CHECK(info.bytes_sent > 2 * 40960u * (unsigned)(nranks - 1) / (unsigned)nranks);
    WT_CHECK(info.bytes_sent <= 2 * 40960u * (unsigned)(nranks - 1) / (unsigned)nranks + (unsigned)nranks * 640u + 256);
    options.codec = "sharedint"; /* in memory plain data is faster */
    options.algorithm = NULL;
    WT_CHECK_OK(weft_issue(f.comm, &call, NULL));
    WT_CHECK_OK(weft_comm_newest_collective(f.comm, &info));
    if (strcmp(arg, "shm") == 0)
        WT_CHECK_INT(info.bypassed, 1);
    ft_close(&f);
}

CASE(shared2, shared_ints, 2)
CASE(leaders3, leaders, 3)
CASE(random3, random_places, 3)
CASE(behind3, behind_each_other, 3)
CASE(again2, started_again, 2)
CASE(premul3, premultiplied, 3)

static void many(void)
{
    for (int n = 2; n <= MAX_RANKS; n += n < 4 ? 1 : 2)
        CU_ASSERT_EQUAL(wt_run(n, shared_ints, (void *)(uintptr_t) "tcp", 120000), 0);
    CU_ASSERT_EQUAL(wt_run(7, leaders, (void *)(uintptr_t) "shm", 120000), 0);
}

static void refusals(void)
{
    CU_ASSERT_EQUAL(wt_run(2, refused, (void *)(uintptr_t) "tcp", 60000), 0);
    CU_ASSERT_EQUAL(wt_run(2, refused, (void *)(uintptr_t) "shm", 60000), 0);
    CU_ASSERT_EQUAL(wt_run(2, at_a_gate, (void *)(uintptr_t) "tcp", 60000), 0);
}

static void records(void)
{
    CU_ASSERT_EQUAL(wt_run(4, recorded, (void *)(uintptr_t) "tcp", 60000), 0);
    CU_ASSERT_EQUAL(wt_run(2, recorded, (void *)(uintptr_t) "shm", 60000), 0);
}

static const struct wt_case cases[] = {
    {"sharedint is what it is defined to be", shared2_everywhere},
    {"leaderk likewise", leaders3_everywhere},
    {"randomk sends the same places everywhere", random3_everywhere},
    {"several at once", behind3_everywhere},
    {"started again", again2_everywhere},
    {"vectors times a number", premul3_everywhere},
    {"2 to 8 ranks", many},
    {"what is refused", refusals},
    {"what is recorded", records},
};
WT_UNIT_MAIN("linear", cases)
