/* SPDX-License-Identifier: BSD-3-Clause */
/* The optimizers' loops for AVX-512 (F, BW, DQ, VL). */
#if defined(__x86_64__)
#include <stdint.h>
#include <string.h>

#include "zero/optim/optim_isa.h"

#if defined(__clang__)
#pragma clang fp contract(off)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,f16c"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC optimize("fp-contract=off")
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,f16c")
#endif
#include <immintrin.h>

#define OPTIM_ISA wi_optim_isa_avx512
#define OPTIM_LANES 8
#define OPTIM_UNROLL 4
#define TO_DOUBLE(v) ((vd)_mm512_cvtps_pd((__m256)(v)))
#define TO_FLOAT(v) ((vf)_mm512_cvtpd_ps((__m512d)(v)))
#define SQRT_FLOAT(v) ((vf)_mm256_sqrt_ps((__m256)(v)))
#define SQRT_DOUBLE(v) ((vd)_mm512_sqrt_pd((__m512d)(v)))
#define WIDEN(v) ((vu32)_mm256_cvtepu16_epi32((__m128i)(v)))
#define NARROW(v) ((vu16)_mm256_cvtepi32_epi16((__m256i)(v)))
#define F16_DECODE(v) ((vf)_mm256_cvtph_ps((__m128i)(v)))
#define F16_ENCODE(v) ((vu16)_mm256_cvtps_ph((__m256)(v), _MM_FROUND_TO_NEAREST_INT))
#define ONE_NAN(v) ((vf)one_nan((__m256)(v)))
#define ANY_NAN(v, count) any_nan((const __m256 *)(v), count)

static inline __attribute__((always_inline)) __m256 one_nan(__m256 v)
{
    return _mm256_mask_mov_ps(v, _mm256_cmp_ps_mask(v, v, _CMP_UNORD_Q),
                              _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000)));
}

static inline __attribute__((always_inline)) int any_nan(const __m256 v[], int count)
{
    unsigned mask = 0;

#pragma GCC unroll 8
    for (int i = 0; i < count; i += 2)
        mask |= _mm256_cmp_ps_mask(v[i], v[i + 1 < count ? i + 1 : i], _CMP_UNORD_Q);
    return mask != 0;
}

#include "zero/optim/optim_kernels.h"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#else
typedef int wi_optim_avx512_not_here;
#endif
