/* SPDX-License-Identifier: BSD-3-Clause */
/* The optimizers' loops for any CPU: vectors of two, which the compiler lowers to what the baseline has. */
#include <stdint.h>
#include <string.h>

#include "base/reduce.h"
#include "zero/optim/optim_isa.h"

#if defined(__clang__)
#pragma clang fp contract(off)
#else
#pragma GCC push_options
#pragma GCC optimize("fp-contract=off")
#endif
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#define OPTIM_ISA wi_optim_isa_scalar
#define OPTIM_LANES 2
#define OPTIM_UNROLL 2
#define WIDEN(v) __builtin_convertvector(v, vu32)
#define NARROW(v) __builtin_convertvector(v, vu16)
#define F16_DECODE(v) ((vf){wi_f16_to_f32((v)[0]), wi_f16_to_f32((v)[1])})
#define F16_ENCODE(v) ((vu16){wi_f32_to_f16((v)[0]), wi_f32_to_f16((v)[1])})
#define ONE_NAN(v) ((vf)(((vu32)(v) & (vu32)((v) == (v))) | (0x7fc00000 & (vu32)((v) != (v)))))
#define ANY_NAN(v, count) any_nan((const float *)(v), 2 * (count))

#if defined(__SSE2__)
/* GCC 12 translates conversions of two lanes into one of each. */
typedef float two_floats __attribute__((vector_size(8)));

static inline __attribute__((always_inline)) __m128d to_double(two_floats v)
{
    long long word;

    memcpy(&word, &v, sizeof(word));
    return _mm_cvtps_pd(_mm_castsi128_ps(_mm_cvtsi64_si128(word)));
}

static inline __attribute__((always_inline)) two_floats to_float(__m128d v)
{
    long long word = _mm_cvtsi128_si64(_mm_castps_si128(_mm_cvtpd_ps(v)));
    two_floats half;

    memcpy(&half, &word, sizeof(half));
    return half;
}

#define TO_DOUBLE(v) ((vd)to_double(v))
#define TO_FLOAT(v) ((vf)to_float((__m128d)(v)))
#define SQRT_DOUBLE(v) ((vd)_mm_sqrt_pd((__m128d)(v)))

static inline __attribute__((always_inline)) two_floats sqrt_float(two_floats v)
{
    long long word;

    memcpy(&word, &v, sizeof(word));
    word = _mm_cvtsi128_si64(_mm_castps_si128(_mm_sqrt_ps(_mm_castsi128_ps(_mm_cvtsi64_si128(word)))));
    memcpy(&v, &word, sizeof(word));
    return v;
}

#define SQRT_FLOAT(v) ((vf)sqrt_float(v))
#else
#define TO_DOUBLE(v) __builtin_convertvector(v, vd)
#define TO_FLOAT(v) __builtin_convertvector(v, vf)
#if defined(__aarch64__)
/* Without the C library's, which sets errno. */
static inline double __attribute__((vector_size(16))) sqrt_double(double __attribute__((vector_size(16))) v)
{
    __asm__("fsqrt %0.2d, %1.2d" : "=w"(v) : "w"(v));
    return v;
}

static inline float __attribute__((vector_size(8))) sqrt_float(float __attribute__((vector_size(8))) v)
{
    __asm__("fsqrt %0.2s, %1.2s" : "=w"(v) : "w"(v));
    return v;
}

#define SQRT_DOUBLE(v) sqrt_double(v)
#define SQRT_FLOAT(v) sqrt_float(v)
#else
#define SQRT_DOUBLE(v) ((vd){__builtin_sqrt((v)[0]), __builtin_sqrt((v)[1])})
#define SQRT_FLOAT(v) ((vf){__builtin_sqrtf((v)[0]), __builtin_sqrtf((v)[1])})
#endif
#endif

static inline int any_nan(const float v[], int count)
{
    int nan = 0;

    for (int i = 0; i < count; i++)
        nan |= v[i] != v[i];
    return nan;
}

#include "zero/optim/optim_kernels.h"

#if !defined(__clang__)
#pragma GCC pop_options
#endif
