/* SPDX-License-Identifier: BSD-3-Clause */
/* Random values and instruction sets for tests of the optimizers. */
#ifndef WT_ZERO_OPTIM_COMMON_H
#define WT_ZERO_OPTIM_COMMON_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/reduce.h"
#include "zero/optim/optim.h"

static const char *const wt_isas[] = {"scalar", "avx2", "avx512"};
#define WT_ISAS 3

static const weft_dtype wt_dtypes[] = {WEFT_FLOAT32, WEFT_BFLOAT16, WEFT_FLOAT16};

static uint64_t wt_random_state = 1;

static inline uint64_t wt_random(void)
{
    uint64_t x = wt_random_state += 0x9e3779b97f4a7c15u;

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static inline float wt_float(uint32_t bits)
{
    float v;

    memcpy(&v, &bits, sizeof(v));
    return v;
}

/* -1 to 1. */
static inline float wt_uniform(void)
{
    return (float)((int64_t)wt_random() * 0x1p-63);
}

/* Any finite number, of any exponent; often 0, a denormal or among the largest. */
static inline float wt_any_finite(void)
{
    uint32_t bits = (uint32_t)wt_random();

    switch (wt_random() % 8) {
    case 0:
        return wt_float(bits & 0x80000000);
    case 1:
        return wt_float(bits & 0x807fffff);
    case 2:
        return wt_float((bits & 0x80ffffff) | 0x7e800000);
    default:
        return (bits & 0x7f800000) == 0x7f800000 ? 1.0f : wt_float(bits);
    }
}

static inline size_t wt_dtype_bytes(weft_dtype dtype)
{
    return dtype == WEFT_FLOAT32 ? 4 : 2;
}

static inline float wt_get(weft_dtype dtype, const void *p, size_t at)
{
    uint16_t half;
    float v;

    if (dtype == WEFT_FLOAT32) {
        memcpy(&v, (const char *)p + 4 * at, 4);
        return v;
    }
    memcpy(&half, (const char *)p + 2 * at, 2);
    return dtype == WEFT_FLOAT16 ? wi_f16_to_f32(half) : wi_bf16_to_f32(half);
}

static inline void wt_put(weft_dtype dtype, void *p, size_t at, float v)
{
    uint16_t half = dtype == WEFT_FLOAT16 ? wi_f32_to_f16(v) : wi_f32_to_bf16(v);

    if (dtype == WEFT_FLOAT32)
        memcpy((char *)p + 4 * at, &v, 4);
    else
        memcpy((char *)p + 2 * at, &half, 2);
}

#endif
