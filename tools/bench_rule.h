/* SPDX-License-Identifier: BSD-3-Clause */
/* The timing rule shared by weft-bench, its MPI modules and compare_mpi.c, so that all of them time the same number of
 * calls on the same bytes. compare_gloo.py repeats it in Python: keep the two equal. And the rule for codecs' results. */
#ifndef WEFT_TOOLS_BENCH_RULE_H
#define WEFT_TOOLS_BENCH_RULE_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define BENCH_CACHE_LINE 64
#define BENCH_MIN_ITERS 5
#define BENCH_BATCH_NS 250e6 /* a timed batch aims to stay below this */

static inline double bench_now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

/* Calls in one timed batch for a message of `bytes`, given what one call took during the warm-up (the slowest rank's
 * time, so that every rank gets the same answer). */
static inline uint64_t bench_rule_iters(size_t bytes, double call_ns)
{
    uint64_t iters = bytes <= 4096 ? 4000 : bytes <= 65536 ? 1000 : bytes <= (1u << 20) ? 200 : 20;

    if (call_ns > 0 && (double)iters * call_ns > BENCH_BATCH_NS)
        iters = (uint64_t)(BENCH_BATCH_NS / call_ns);
    return iters < BENCH_MIN_ITERS ? BENCH_MIN_ITERS : iters;
}

/* Untimed calls before the batch. */
static inline uint64_t bench_rule_warmup(size_t bytes)
{
    return bytes <= 65536 ? 20 : bytes <= (1u << 20) ? 5 : 2;
}

/* Whether a result that a codec made is right, by its squared error over the squared length of the exact result, and by how much of
 * the exact result is in it (their product over that squared length: 1 for an exact one, 0 for one of zeros or of noise). For the
 * same encodings made elsewhere both are `expected`. Their blocks lie otherwise, hence a quarter more. */
static inline double bench_rule_codec_nmse(double expected)
{
    return 1.25 * expected;
}

/* Where the expected error is about as long as the vector, the error alone cannot tell a right result from zeros. Below a fiftieth,
 * where next to nothing is kept, it depends on the blocks how much. Above 1 it is chance: encodings made one by one round with the
 * same random bits, and what is rounded twice up is too long. */
static inline int bench_rule_codec_keeps(double kept, double expected)
{
    return !(expected >= 0.02) || kept >= (expected < 1 ? expected : 1) / 2;
}

/* Store to every cache line again, unchanged: copies of it in other cores' caches are gone afterwards. */
static inline void bench_touch(void *data, size_t bytes)
{
    volatile unsigned char *p = data;

    for (size_t i = 0; i < bytes; i += BENCH_CACHE_LINE)
        p[i] = p[i];
}

#endif
