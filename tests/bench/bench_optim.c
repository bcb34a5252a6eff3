/* SPDX-License-Identifier: BSD-3-Clause */
/* Speed of the optimizers next to loops that read and write the same streams and compute nothing.
 *
 *     bench_optim [elements [rounds]]
 *
 * For 1 and 2 threads: unscale, clip, AdamW and bf16 store in one pass, of gradients in fp32 and bf16; AdamW alone; the sum of
 * squares and the conversion. Loops alternate, and the best and the median of the rounds are shown. Built with the tests, not run
 * by them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/reduce.h"
#include "zero/optim/optim.h"
#include "zero/optim/optim_isa.h"

#define ROUNDS_MAX 1000
#define PART 32768u /* elements that a thread streams at a time, as the optimizers do */

static size_t elems = 30000000;
static float *weight, *moment1, *moment2, *grad;
static uint16_t *grad16, *out;
static struct wi_optim optim;
static struct wi_optim_pool *pool;

/* 64 bytes at a time where the CPU can, without arithmetic. The compiler must not see that values are stored back unchanged. */
#if defined(__x86_64__)
#define STREAM_TARGET __attribute__((target("avx512f,avx512bw,avx512vl")))
#define STREAM_BYTES 64
#else
#define STREAM_TARGET
#define STREAM_BYTES 16
#endif
typedef unsigned char line __attribute__((vector_size(STREAM_BYTES)));
typedef unsigned char half_line __attribute__((vector_size(STREAM_BYTES / 2)));

struct streams {
    char *rw[3]; /* read and written, 4 bytes per element */
    int nrw;
    const char *r;
    size_t r_bytes; /* 4 or 2 per element */
    char *w16;      /* written, 2 bytes per element */
};

STREAM_TARGET static void stream(const struct streams *s, size_t from, size_t to)
{
    half_line low = {0};

    for (size_t i = from; i < to; i += STREAM_BYTES / 4) {
        for (int k = 0; k < s->nrw; k++) {
            line v;

            memcpy(&v, s->rw[k] + 4 * i, sizeof(v));
            __asm__ volatile("" : "+m"(v));
            memcpy(s->rw[k] + 4 * i, &v, sizeof(v));
        }
        if (s->r_bytes == 4) {
            line v;

            memcpy(&v, s->r + 4 * i, sizeof(v));
            __asm__ volatile("" : : "m"(v));
        } else if (s->r_bytes == 2) {
            memcpy(&low, s->r + 2 * i, sizeof(low));
            __asm__ volatile("" : "+m"(low));
        }
        if (s->w16)
            memcpy(s->w16 + 2 * i, &low, sizeof(low));
    }
}

static void stream_part(void *arg, void *cursor, size_t unit)
{
    size_t from = unit * PART, to = from + PART;

    (void)cursor;
    stream(arg, from, to < elems ? to : elems);
}

static void run_streams(int nrw, const void *r, size_t r_bytes, void *w16)
{
    struct streams s = {{(char *)weight, (char *)moment1, (char *)moment2}, nrw, r, r_bytes, w16};

    wi_optim_pool_run(pool, stream_part, &s, (elems + PART - 1) / PART);
}

static void run_update(const void *g, weft_dtype grad_dtype, void *w16)
{
    struct wi_optim_piece piece = {&optim, elems, weight, moment1, moment2, g, grad_dtype, w16, WEFT_BFLOAT16, 0, 0, 0};

    wi_optim_run(pool, &piece, 1);
}

static void sum(void)
{
    struct wi_optim_vector vector = {grad, elems, WEFT_FLOAT32};
    volatile double result = wi_optim_sum_squares(pool, &vector, 1);

    (void)result;
}

static void fused(void)
{
    run_update(grad, WEFT_FLOAT32, out);
}
static void fused_bound(void)
{
    run_streams(3, grad, 4, out);
}
static void fused16(void)
{
    run_update(grad16, WEFT_BFLOAT16, out);
}
static void fused16_bound(void)
{
    run_streams(3, grad16, 2, out);
}
static void bare(void)
{
    run_update(grad, WEFT_FLOAT32, NULL);
}
static void bare_bound(void)
{
    run_streams(3, grad, 4, NULL);
}
static void sum_bound(void)
{
    run_streams(0, grad, 4, NULL);
}
static void convert(void)
{
    wi_optim_convert(pool, out, WEFT_BFLOAT16, grad, WEFT_FLOAT32, elems, 0);
}
static void convert_bound(void)
{
    run_streams(0, grad, 4, out);
}
static void add(void)
{
    wi_optim_convert(pool, weight, WEFT_FLOAT32, grad16, WEFT_BFLOAT16, elems, 1);
}
static void add_bound(void)
{
    run_streams(1, grad16, 2, NULL);
}

static const struct loop {
    const char *name;
    void (*run)(void), (*bound)(void);
    double bytes; /* per element, read and written */
} loops[] = {
    {"unscale, clip, adamw, bf16 store", fused, fused_bound, 30},
    {"the same of bf16 gradients", fused16, fused16_bound, 28},
    {"adamw", bare, bare_bound, 28},
    {"sum of squares", sum, sum_bound, 4},
    {"fp32 to bf16", convert, convert_bound, 6},
    {"bf16 added to fp32", add, add_bound, 10},
};

static double seconds(void (*run)(void))
{
    uint64_t start = wi_now_ns();

    run();
    return (double)(wi_now_ns() - start) * 1e-9;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void measure(const struct loop *loop, int threads, int rounds)
{
    static double times[2][ROUNDS_MAX];

    for (int i = -1; i < rounds; i++) { /* the first round warms up */
        times[0][i < 0 ? 0 : i] = seconds(loop->run);
        times[1][i < 0 ? 0 : i] = seconds(loop->bound);
    }
    for (int k = 0; k < 2; k++)
        qsort(times[k], (size_t)rounds, sizeof(double), ascending);
    printf("%-34s %7d %8.2f %8.2f %8.2f %8.2f %8.1f %7.0f%% %7.0f%%\n", loop->name, threads, times[0][0] * 1e3,
           times[0][rounds / 2] * 1e3, times[1][0] * 1e3, times[1][rounds / 2] * 1e3,
           loop->bytes * (double)elems / times[0][0] * 1e-9, 100 * times[1][0] / times[0][0],
           100 * times[1][rounds / 2] / times[0][rounds / 2]);
}

static void *memory(size_t bytes)
{
    void *p = aligned_alloc(4096, (bytes + 8191) / 4096 * 4096);

    if (!p) {
        fprintf(stderr, "bench_optim: no memory\n");
        exit(1);
    }
    return p;
}

static void fill(void)
{
    weight = memory(4 * elems);
    moment1 = memory(4 * elems);
    moment2 = memory(4 * elems);
    grad = memory(4 * elems);
    grad16 = memory(2 * elems);
    out = memory(2 * elems);
    for (size_t i = 0; i < elems; i++) {
        grad[i] = (float)(rand() - RAND_MAX / 2) * (1e-2f / (float)RAND_MAX);
        grad16[i] = wi_f32_to_bf16(grad[i]);
        weight[i] = grad[i] * 10;
        moment1[i] = grad[i] / 2;
        moment2[i] = grad[i] * grad[i];
    }
}

int main(int argc, char **argv)
{
    weft_zero_hyper hyper = WEFT_ZERO_HYPER_INIT;
    int rounds = argc > 2 ? atoi(argv[2]) : 15;

    if (argc > 1)
        elems = (size_t)atoll(argv[1]) / 64 * 64;
    if (!elems || rounds < 1 || rounds > ROUNDS_MAX) {
        fprintf(stderr, "usage: bench_optim [elements [rounds]]\n");
        return 2;
    }
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("avx512vl")) {
        fprintf(stderr, "bench_optim: the loops that it compares with need AVX-512\n");
        return 77;
    }
#endif
    hyper.weight_decay = .01;
    fill();
    if (wi_optim_prepare(&optim, WEFT_ZERO_ADAMW, &hyper, 100, .97) != WEFT_SUCCESS)
        return 1;
    printf("%zu elements, %s, ms: best and median of %d\n", elems, wi_isa_name(), rounds);
    printf("%-34s %7s %8s %8s %8s %8s %8s %8s %8s\n", "", "threads", "best", "median", "bound", "median", "GB/s",
           "of best", "of med.");
    for (size_t i = 0; i < sizeof(loops) / sizeof(loops[0]); i++)
        for (int threads = 1; threads <= 2; threads++) {
            if (wi_optim_pool_create(threads, &pool) != WEFT_SUCCESS)
                return 1;
            measure(&loops[i], threads, rounds);
            wi_optim_pool_destroy(pool);
        }
    return 0;
}
