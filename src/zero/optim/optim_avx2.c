/* SPDX-License-Identifier: BSD-3-Clause */
/* The optimizers' loops for AVX2 with F16C. */
#if defined(__x86_64__)
#include <stdint.h>
#include <string.h>

#include "zero/optim/optim_isa.h"

#if defined(__clang__)
#pragma clang fp contract(off)
#pragma clang attribute push(__attribute__((target("avx2,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC optimize("fp-contract=off")
#pragma GCC target("avx2,f16c")
#endif
#include <immintrin.h>

#define OPTIM_ISA wi_optim_isa_avx2
#define OPTIM_LANES 4
#define OPTIM_UNROLL 4
#define TO_DOUBLE(v) ((vd)_mm256_cvtps_pd((__m128)(v)))
#define TO_FLOAT(v) ((vf)_mm256_cvtpd_ps((__m256d)(v)))
#define SQRT_FLOAT(v) ((vf)_mm_sqrt_ps((__m128)(v)))
#define SQRT_DOUBLE(v) ((vd)_mm256_sqrt_pd((__m256d)(v)))
#define WIDEN(v) ((vu32)_mm_cvtepu16_epi32(load_half(v)))
#define NARROW(v) low_half(_mm_packus_epi32((__m128i)(v), (__m128i)(v)))
#define F16_DECODE(v) ((vf)_mm_cvtph_ps(load_half(v)))
#define F16_ENCODE(v) low_half(_mm_cvtps_ph((__m128)(v), _MM_FROUND_TO_NEAREST_INT))
#define ONE_NAN(v) ((vf)one_nan((__m128)(v)))
#define ANY_NAN(v, count) any_nan((const __m128 *)(v), count)

typedef uint16_t four_halves __attribute__((vector_size(8)));

static inline __attribute__((always_inline)) __m128i load_half(four_halves v)
{
    long long word;

    memcpy(&word, &v, sizeof(word));
    return _mm_cvtsi64_si128(word);
}

static inline __attribute__((always_inline)) four_halves low_half(__m128i v)
{
    long long word = _mm_cvtsi128_si64(v);
    four_halves half;

    memcpy(&half, &word, sizeof(half));
    return half;
}

static inline __attribute__((always_inline)) __m128 one_nan(__m128 v)
{
    return _mm_blendv_ps(v, _mm_castsi128_ps(_mm_set1_epi32(0x7fc00000)), _mm_cmpunord_ps(v, v));
}

static inline __attribute__((always_inline)) int any_nan(const __m128 v[], int count)
{
    __m128 nan = _mm_setzero_ps();

#pragma GCC unroll 8
    for (int i = 0; i < count; i += 2)
        nan = _mm_or_ps(nan, _mm_cmpunord_ps(v[i], v[i + 1 < count ? i + 1 : i]));
    return _mm_movemask_ps(nan) != 0;
}

#include "zero/optim/optim_kernels.h"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#else
typedef int wi_optim_avx2_not_here;
#endif
