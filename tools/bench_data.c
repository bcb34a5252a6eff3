/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-bench: inputs whose reductions are exact in every type, and the check of every element of the result.
 *
 * Values are small non-negative integers. The range is chosen per type, operator and number of ranks so that any
 * partial result in any order is representable; the result can then be compared bit for bit, whatever the algorithm. */
#include "weft_bench.h"

#include <string.h>

/* How the values of one (type, operator, number of ranks) are made. */
struct gen {
    weft_dtype dtype;
    weft_op op;
    int reduces, nranks;
    uint64_t limit; /* integers up to here are exact */
    uint64_t share; /* limit / nranks */
    size_t elem_bytes;
    uint64_t seed;
};

static uint64_t dtype_limit(weft_dtype dtype)
{
    switch (dtype) {
    case WEFT_INT8:
        return INT8_MAX;
    case WEFT_UINT8:
        return UINT8_MAX;
    case WEFT_INT16:
        return INT16_MAX;
    case WEFT_UINT16:
        return UINT16_MAX;
    case WEFT_FLOAT16:
        return 2048;
    case WEFT_BFLOAT16:
        return 256;
    case WEFT_FLOAT32:
    case WEFT_COMPLEX64:
        return 1u << 24;
    case WEFT_FLOAT8E4M3:
        return 16;
    case WEFT_FLOAT8E5M2:
        return 8;
    case WEFT_BOOL:
        return 1;
    default:
        return INT32_MAX;
    }
}

static struct gen gen_make(const struct bench_call *c, uint64_t seed)
{
    uint64_t limit = dtype_limit(c->dtype);

    return (struct gen){
        .dtype = c->dtype,
        .op = c->op,
        .reduces = bench_coll_reduces(c->coll),
        .nranks = c->nranks,
        .limit = limit,
        .share = limit / (uint64_t)c->nranks,
        .elem_bytes = weft_dtype_bytes(c->dtype),
        .seed = seed,
    };
}

int bench_data_exact(weft_dtype dtype, weft_op op, int reduces, int nranks)
{
    return !reduces || op != WEFT_AVG || dtype_limit(dtype) >= (uint64_t)nranks;
}

static inline uint32_t hash32(uint64_t index, uint64_t rank, uint64_t seed)
{
    uint64_t x = (index + rank * 0x9E3779B1u + seed * 0x85EBCA77u) * 0x9E3779B97F4A7C15u;

    x ^= x >> 29;
    return (uint32_t)((x * 0xBF58476D1CE4E5B9u) >> 32);
}

static inline uint64_t scale(uint32_t h, uint64_t below)
{
    return ((uint64_t)h * below) >> 32;
}

/* Means are exact because deviations cancel in pairs of ranks. */
static uint64_t avg_value(const struct gen *g, int rank, size_t i)
{
    uint32_t h = hash32(i, 0, g->seed);

    if (g->share < 2)
        return h & 1;
    uint64_t base = 1 + scale(h, g->share - 1);
    if (rank == g->nranks - 1 && g->nranks % 2 == 1)
        return base;
    return rank % 2 == 0 ? base + 1 : base - 1;
}

/* The real part of rank's element i; bits for the bitwise operators. */
static inline uint64_t value(const struct gen *g, int rank, size_t i)
{
    uint32_t h = hash32(i, (uint64_t)rank, g->seed);

    if (!g->reduces)
        return scale(h, g->limit + 1);
    switch (g->op) {
    case WEFT_SUM:
        if (g->share == 0)
            return ((size_t)rank + i + g->seed) % (size_t)g->nranks < g->limit;
        return scale(h, g->share + 1);
    case WEFT_PROD:
        if (g->dtype == WEFT_BOOL)
            return h & 1;
        return ((size_t)rank + i + g->seed) % (size_t)g->nranks < 3 ? 2 : 1;
    case WEFT_AVG:
        return avg_value(g, rank, i);
    case WEFT_LAND:
    case WEFT_LOR:
    case WEFT_LXOR:
        return h & 1 ? 1 + scale(h, g->limit) : 0;
    default:
        return scale(h, g->limit + 1);
    }
}

static inline uint64_t combine(const struct gen *g, uint64_t a, uint64_t b)
{
    if (g->dtype == WEFT_BOOL && g->op == WEFT_SUM)
        return a | b;
    switch (g->op) {
    case WEFT_PROD:
        return a * b;
    case WEFT_MIN:
        return a < b ? a : b;
    case WEFT_MAX:
        return a > b ? a : b;
    case WEFT_BAND:
        return a & b;
    case WEFT_BOR:
        return a | b;
    case WEFT_BXOR:
        return a ^ b;
    case WEFT_LAND:
        return a && b;
    case WEFT_LOR:
        return a || b;
    case WEFT_LXOR:
        return !a != !b;
    default:
        return a + b;
    }
}

/* Element i reduced over ranks 0 … ranks-1. */
static uint64_t reduced(const struct gen *g, int ranks, size_t i)
{
    uint64_t v = value(g, 0, i);

    for (int r = 1; r < ranks; r++)
        v = combine(g, v, value(g, r, i));
    return g->op == WEFT_AVG ? v / (uint64_t)g->nranks : v;
}

/* The bits of a small non-negative integer in a format with the given exponent bits, mantissa bits and bias. */
static inline uint32_t float_bits(uint64_t v, unsigned mantissa, unsigned bias)
{
    if (v == 0)
        return 0;
    unsigned e = 63u - (unsigned)__builtin_clzll(v);
    uint64_t frac = e <= mantissa ? v << (mantissa - e) : v >> (e - mantissa);
    return ((e + bias) << mantissa) | ((uint32_t)frac & ((1u << mantissa) - 1));
}

static inline void put_small(void *out, uint32_t bits, size_t bytes)
{
    uint8_t b8 = (uint8_t)bits;
    uint16_t b16 = (uint16_t)bits;

    if (bytes == 1)
        memcpy(out, &b8, 1);
    else
        memcpy(out, &b16, 2);
}

static inline void put_float(void *out, weft_dtype dtype, uint64_t re, uint64_t im)
{
    float f[2] = {(float)re, (float)im};
    double d[2] = {(double)re, (double)im};

    switch (dtype) {
    case WEFT_FLOAT16:
        put_small(out, float_bits(re, 10, 15), 2);
        return;
    case WEFT_BFLOAT16:
        put_small(out, float_bits(re, 7, 127), 2);
        return;
    case WEFT_FLOAT8E4M3:
        put_small(out, float_bits(re, 3, 7), 1);
        return;
    case WEFT_FLOAT8E5M2:
        put_small(out, float_bits(re, 2, 15), 1);
        return;
    case WEFT_FLOAT32:
        memcpy(out, f, sizeof(f[0]));
        return;
    case WEFT_FLOAT64:
        memcpy(out, d, sizeof(d[0]));
        return;
    case WEFT_COMPLEX64:
        memcpy(out, f, sizeof(f));
        return;
    default:
        memcpy(out, d, sizeof(d));
    }
}

static inline void encode(void *out, weft_dtype dtype, uint64_t re, uint64_t im)
{
    uint32_t v32 = (uint32_t)re;

    switch (dtype) {
    case WEFT_INT8:
    case WEFT_UINT8:
    case WEFT_BOOL:
        put_small(out, v32, 1);
        return;
    case WEFT_INT16:
    case WEFT_UINT16:
        put_small(out, v32, 2);
        return;
    case WEFT_INT32:
    case WEFT_UINT32:
        memcpy(out, &v32, sizeof(v32));
        return;
    case WEFT_INT64:
    case WEFT_UINT64:
        memcpy(out, &re, sizeof(re));
        return;
    default:
        put_float(out, dtype, re, im);
    }
}

/* Complex values: the imaginary part is a second vector, except for products, where exactly one rank's factor is purely
 * imaginary and all others are real, and for logical operators, where one rank's true values are purely imaginary; their
 * result is 0 or 1. */
#define IMAG_INDEX ((size_t)1 << 60)

static int is_complex(weft_dtype dtype)
{
    return dtype == WEFT_COMPLEX64 || dtype == WEFT_COMPLEX128;
}

static int imaginary_factor(const struct gen *g, int rank, size_t i)
{
    return (i + g->seed) % (size_t)g->nranks == (size_t)rank;
}

static int is_logical(weft_op op)
{
    return op == WEFT_LAND || op == WEFT_LOR || op == WEFT_LXOR;
}

static void put_input(const struct gen *g, void *out, int rank, size_t i)
{
    uint64_t re = value(g, rank, i), im = 0;

    if (is_complex(g->dtype)) {
        im = value(g, rank, i + IMAG_INDEX);
        if (g->reduces && (g->op == WEFT_PROD || is_logical(g->op))) {
            im = imaginary_factor(g, rank, i) ? re : 0;
            re = im ? 0 : re;
        }
    }
    encode(out, g->dtype, re, im);
}

static void put_reduced(const struct gen *g, void *out, int ranks, size_t i)
{
    uint64_t re = reduced(g, ranks, i), im = 0;

    if (is_complex(g->dtype)) {
        im = is_logical(g->op) ? 0 : reduced(g, ranks, i + IMAG_INDEX);
        if (g->op == WEFT_PROD) {
            int turned = (i + g->seed) % (size_t)g->nranks < (size_t)ranks;
            im = turned ? re : 0;
            re = turned ? 0 : re;
        }
    }
    encode(out, g->dtype, re, im);
}

void bench_data_fill(const struct bench_call *c, uint64_t seed)
{
    struct gen g = gen_make(c, seed);
    size_t elems = bench_call_src_elems(c);
    char *out = (char *)c->src;

    for (size_t i = 0; i < elems; i++)
        put_input(&g, out + i * g.elem_bytes, c->rank, i);
}

void bench_data_poison(const struct bench_call *c, void *dst, size_t bytes)
{
    memset(dst, 0xA5 ^ c->rank, bytes);
}

static uint64_t wrong_copy(const struct gen *g, const char *dst, int source, size_t first, size_t elems)
{
    char want[16];
    uint64_t wrong = 0;

    for (size_t i = 0; i < elems; i++) {
        put_input(g, want, source, first + i);
        wrong += memcmp(want, dst + i * g->elem_bytes, g->elem_bytes) != 0;
    }
    return wrong;
}

static uint64_t wrong_reduced(const struct gen *g, const char *dst, int ranks, size_t first, size_t elems)
{
    char want[16];
    uint64_t wrong = 0;

    for (size_t i = 0; i < elems; i++) {
        put_reduced(g, want, ranks, first + i);
        wrong += memcmp(want, dst + i * g->elem_bytes, g->elem_bytes) != 0;
    }
    return wrong;
}

/* Every rank's share, side by side. */
static uint64_t wrong_shares(const struct gen *g, const struct bench_call *c)
{
    uint64_t wrong = 0;

    for (int q = 0; q < c->nranks; q++) {
        size_t first = 0;

        if (c->coll == BENCH_ALL_TO_ALL || c->coll == BENCH_ALL_TO_ALL_V)
            for (int s = 0; s < c->rank; s++)
                first += bench_share_elems(c->coll, c->count, q, s);
        wrong += wrong_copy(g, (const char *)c->dst + c->displs[q] * g->elem_bytes, q, first, c->counts[q]);
    }
    return wrong;
}

uint64_t bench_data_wrong(const struct bench_call *c, uint64_t seed)
{
    struct gen g = gen_make(c, seed);
    size_t elems = bench_call_dst_elems(c);

    if (elems == 0)
        return 0;
    switch (c->coll) {
    case BENCH_BARRIER:
        return 0;
    case BENCH_BROADCAST:
        return wrong_copy(&g, c->dst, c->root, 0, elems);
    case BENCH_SENDRECV:
        return wrong_copy(&g, c->dst, (c->rank + c->nranks - 1) % c->nranks, 0, elems);
    case BENCH_SCATTER:
    case BENCH_SCATTER_V:
        return wrong_copy(&g, c->dst, c->root, c->displs[c->rank], elems);
    case BENCH_REDUCE_SCATTER:
    case BENCH_REDUCE_SCATTER_V:
        return wrong_reduced(&g, c->dst, c->nranks, c->displs[c->rank], elems);
    case BENCH_SCAN:
        return wrong_reduced(&g, c->dst, c->rank + 1, 0, elems);
    case BENCH_EXSCAN:
        return wrong_reduced(&g, c->dst, c->rank, 0, elems);
    case BENCH_ALL_REDUCE:
    case BENCH_REDUCE:
        return wrong_reduced(&g, c->dst, c->nranks, 0, elems);
    default:
        return wrong_shares(&g, c);
    }
}
