/* Sums of sparse images over ranks: nothing is lost with error feedback, training converges with it and not without, random
 * elements are summed as if nothing was compressed, and vectors shorter than a block are sums too.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fault/fault.h"

#include <math.h>
#include <stdlib.h>

#include "../unit/unit.h"
#include <weft/weft_compress.h>

static float *floats(size_t n)
{
    float *p = calloc(n + 1, sizeof *p);

    WT_REQUIRE(p != NULL);
    return p;
}

/* Between -1 and 1, heavy near 0. */
static float value(int rank, int step, size_t i)
{
    uint64_t h = ((uint64_t)rank * 1000003 + (uint64_t)step * 7919 + i + 1) * 0x9e3779b97f4a7c15u;
    double u;

    h = (h ^ h >> 29) * 0xbf58476d1ce4e5b9u;
    u = (double)(h >> 11) / 4503599627370496.0 - 1;
    return (float)(u * u * u);
}

static void all_reduce(struct ft_rank *f, const char *codec, int shots, uint64_t tensor, const float *src, float *dst,
                       size_t n)
{
    weft_call call = wt_call(WEFT_KIND_ALL_REDUCE, src, dst, n, WEFT_FLOAT32);
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;

    options.codec = codec;
    options.tensor = tensor;
    options.algorithm = shots == 1 ? "coded" : "coded2";
    call.options = &options;
    WT_CHECK_OK(weft_issue(f->comm, &call, NULL));
}

/* ---- Error feedback loses nothing ---- */

/* After the steps a last call, which sends all there is: every element has then been sent, in sum. Its blocks are as long, so that
 * whoever owes what sums have lost is asked for it. */
static void mass(struct ft_rank *f, const char *codec, int shots, size_t n, uint64_t tensor)
{
    enum { STEPS = 20 };
    float *src = floats(n), *dst = floats(n);
    double *given = calloc(n + 1, sizeof *given), *sent = calloc(n + 1, sizeof *sent), worst = 0, owed = 0;
    const char *block = strchr(codec, ':') + 1; /* "block=256" */
    char spec[96];

    WT_REQUIRE(given && sent);
    for (int step = 0; step <= STEPS; step++) {
        for (size_t i = 0; i < n; i++) {
            src[i] = step < STEPS ? value(f->rank, step, i) : 0;
            for (int k = 0; k < f->nranks; k++)
                given[i] += step < STEPS ? (double)value(k, step, i) : 0;
        }
        if (step < STEPS)
            snprintf(spec, sizeof spec, "%s,ef=1,bypass=never", codec);
        else
            snprintf(spec, sizeof spec, "topk:ratio=1,values=fp32,%.*s,ef=1,bypass=never", (int)strcspn(block, ","),
                     block);
        all_reduce(f, spec, shots, tensor, src, dst, n);
        for (size_t i = 0; i < n; i++) {
            sent[i] += (double)dst[i];
            owed += step == STEPS - 1 ? fabs(given[i] - sent[i]) : 0;
        }
    }
    for (size_t i = 0; i < n; i++)
        worst = fmax(worst, fabs(given[i] - sent[i]));
    if (worst > 1e-4 || (n > 1000 && owed < 1))
        wt_fail(__FILE__, __LINE__, "%s, %d shots, %zu elements: %g was lost of one; before the last call %g was owed",
                codec, shots, n, worst, owed);
    free(src);
    free(dst);
    free(given);
    free(sent);
}

static void masses(int rank, int nranks, void *arg)
{
    static const char *const codecs[] = {"topk:block=256,ratio=0.05", "topk:block=16384,values=int8",
                                         "blocktopk:block=512,group=8,ratio=0.1,values=bf16",
                                         "randomk:block=256,ratio=0.1"};
    static const size_t counts[] = {1, 3, 255, 5000, 40000};
    struct ft_rank f;
    uint64_t tensor = 1;

    ft_open(&f, arg, 20000, rank, nranks);
    for (size_t c = 0; c < sizeof codecs / sizeof *codecs; c++)
        for (size_t n = 0; n < sizeof counts / sizeof *counts; n++)
            for (int shots = 1; shots <= 2; shots++)
                mass(&f, codecs[c], shots, counts[n], tensor++);
    ft_close(&f);
}

static void nothing_is_lost(void)
{
    CU_ASSERT_EQUAL(wt_run(2, masses, (void *)(uintptr_t) "shm", 60000), 0);
    CU_ASSERT_EQUAL(wt_run(4, masses, (void *)(uintptr_t) "tcp", 120000), 0);
    CU_ASSERT_EQUAL(wt_threads_apart(3, masses, (void *)(uintptr_t) "inproc", 60000), 0);
}

/* ---- Training ---- */

/* Gradient descent on sums of |x - t|^2 / 2 with targets of each rank: with a step below 1 the plain one converges at once. Returns
 * how far the mean is from the best point, relative to where it began. */
static double descend(struct ft_rank *f, const char *codec, int shots, uint64_t tensor)
{
    enum { N = 10000, STEPS = 1500 };
    float *x = floats(N), *g = floats(N), *sum = floats(N);
    double far = 0, began = 0;

    for (int step = 0; step < STEPS; step++) {
        for (size_t i = 0; i < N; i++)
            g[i] = x[i] - value(f->rank, 0, i) - (i % 100 == 0 ? (f->rank % 2 ? 40 : -40) : 0);
        all_reduce(f, codec, shots, tensor, g, sum, N);
        for (size_t i = 0; i < N; i++)
            x[i] -= .003f * sum[i] / (float)f->nranks;
    }
    for (size_t i = 0; i < N; i++) {
        double best = 0;
        for (int k = 0; k < f->nranks; k++)
            best += ((double)value(k, 0, i) + (i % 100 == 0 ? (k % 2 ? 40 : -40) : 0)) / f->nranks;
        far += (x[i] - best) * (x[i] - best);
        began += best * best;
    }
    free(x);
    free(g);
    free(sum);
    return far / began;
}

/* One element in a hundred has large gradients on both ranks, which cancel: without feedback nothing else is ever sent. */
static void training(int rank, int nranks, void *arg)
{
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    for (int shots = 1; shots <= 2; shots++) {
        double with = descend(&f, "topk:ratio=0.01,block=4096,ef=1,bypass=never", shots, (uint64_t)shots);
        double without = descend(&f, "topk:ratio=0.01,block=4096,bypass=never", shots, 0);
        if (!rank)
            printf("# %d shots: with feedback %.3g of the distance is left, without %.3g\n", shots, with, without);
        WT_CHECK(with < .1 && without > .7);
    }
    ft_close(&f);
}

static void feedback_converges(void)
{
    CU_ASSERT_EQUAL(wt_run(2, training, (void *)(uintptr_t) "shm", 120000), 0);
}

/* ---- Random elements ---- */

/* What is sent is the sum, to the bit; the rest is 0; and every step has other elements. */
static void random_sums(int rank, int nranks, void *arg)
{
    enum { BLOCK = 512, K = 26, N = 5 * BLOCK };
    float *src = floats(N), *dst = floats(N), *before = floats(N);
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    for (int step = 0; step < 6; step++) {
        size_t sent = 0, again = 0;
        for (size_t i = 0; i < N; i++)
            src[i] = value(rank, step, i);
        all_reduce(&f, "randomk:ratio=0.05,block=512,values=fp32,bypass=never", 1 + step % 2, 0, src, dst, N);
        for (size_t i = 0; i < N; i++) {
            float sum = value(0, step, i);
            for (int k = 1; k < nranks; k++)
                sum += value(k, step, i);
            if (dst[i] != 0 && dst[i] != sum)
                wt_fail(__FILE__, __LINE__, "step %d, element %zu is %g, not 0 or %g", step, i, (double)dst[i],
                        (double)sum);
            sent += dst[i] != 0;
            again += dst[i] != 0 && before[i] != 0;
            before[i] = dst[i];
        }
        WT_CHECK_INT(sent, 5 * K);
        WT_CHECK(again < 5 * K / 2);
    }
    ft_close(&f);
    free(src);
    free(dst);
    free(before);
}

static void random_elements_agree(void)
{
    CU_ASSERT_EQUAL(ft_run_everywhere(3, random_sums, "random elements", 60000), 0);
    CU_ASSERT_EQUAL(wt_run(7, random_sums, (void *)(uintptr_t) "tcp", 60000), 0);
}

/* ---- Vectors that are short beside a block ---- */

static void expect_algorithm(struct ft_rank *f, const char *codec, size_t n, const char *one, const char * or)
{
    float *src = floats(n), *dst = floats(n);
    weft_call call = wt_call(WEFT_KIND_ALL_REDUCE, src, dst, n, WEFT_FLOAT32);
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    const char *name;

    options.codec = codec;
    call.options = &options;
    WT_CHECK_OK(weft_issue(f->comm, &call, NULL));
    WT_REQUIRE_OK(weft_comm_newest_algorithm(f->comm, &name));
    if (strcmp(name, one) != 0 && strcmp(name, or) != 0)
        wt_fail(__FILE__, __LINE__, "%s, %zu elements: %s was chosen, not %s", codec, n, name, one);
    free(src);
    free(dst);
}

/* The image of a whole block is longer than what it stands for; and one block has one owner, who would do all the work. */
static void short_ones(int rank, int nranks, void *arg)
{
    struct ft_rank f;
    float *src = floats(100), *dst = floats(100);
    weft_call call = wt_call(WEFT_KIND_ALL_REDUCE, src, dst, 100, WEFT_FLOAT32);
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    const char *name;

    ft_open(&f, arg, 20000, rank, nranks);
    options.codec = "topk";
    call.options = &options;
    WT_CHECK_OK(weft_issue(f.comm, &call, NULL));
    WT_REQUIRE_OK(weft_comm_newest_algorithm(f.comm, &name));
    WT_CHECK(strncmp(name, "coded", 5) != 0);
    expect_algorithm(&f, "topk:bypass=never", 100, "coded", "coded");
    expect_algorithm(&f, "topk:bypass=never", 16384, "coded", "coded");
    expect_algorithm(&f, "topk:bypass=never,block=256", 1 << 22, "coded2", "coded");
    ft_close(&f);
    free(src);
    free(dst);
}

static void blocks_are_whole(void)
{
    CU_ASSERT_EQUAL(wt_run(4, short_ones, (void *)(uintptr_t) "tcp", 60000), 0);
}

static const struct wt_case cases[] = {
    {"nothing is lost with feedback", nothing_is_lost},
    {"training converges with feedback, and not without", feedback_converges},
    {"random elements are the same on all ranks", random_elements_agree},
    {"vectors that are short beside a block", blocks_are_whole},
};
WT_UNIT_MAIN("sparse_sums", cases)
