/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels for AVX2 with F16C. */
#if defined(__x86_64__)

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,f16c,bmi,bmi2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,f16c,bmi,bmi2")
#endif
#include <immintrin.h>

#define WI_SIMD_ISA wi_isa_avx2
#define WI_SIMD_NAME "avx2"
#define WI_SIMD_BYTES 32
#define WI_SIMD_MASKED 0
#include "base/reduce_raw.h"

static inline WI_INLINE void raw_stream_F(void *p, raw_F raw)
{
    _mm256_stream_si256(p, (__m256i)raw);
}

static inline WI_INLINE void raw_stream_H(void *p, raw_H raw)
{
    _mm_stream_si128(p, (__m128i)raw);
}

static inline WI_INLINE void raw_stream_Q(void *p, raw_Q raw)
{
    long long word;

    memcpy(&word, &raw, sizeof(word));
    _mm_stream_si64(p, word);
}

static void simd_fence(void)
{
    _mm_sfence();
}

static inline WI_INLINE float __attribute__((vector_size(32))) f16_decode(raw_H raw)
{
    return _mm256_cvtph_ps((__m128i)raw);
}

static inline WI_INLINE raw_H f16_encode(float __attribute__((vector_size(32))) v)
{
    return (raw_H)_mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT);
}

/* Lanes hold values below 2^16 (2^8): packing with saturation keeps them. */
static inline WI_INLINE raw_H narrow_half(__m256i whole)
{
    __m256i packed = _mm256_packus_epi32(whole, whole);

    return (raw_H)_mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08));
}

static inline WI_INLINE raw_Q narrow_quarter(__m256i whole)
{
    __m128i half = (__m128i)narrow_half(whole);
    long long word = _mm_cvtsi128_si64(_mm_packus_epi16(half, half));
    raw_Q raw;

    memcpy(&raw, &word, sizeof(raw));
    return raw;
}

static inline WI_INLINE __m128i widen_quarter(raw_Q raw)
{
    long long word;

    memcpy(&word, &raw, sizeof(word));
    return _mm_cvtepu8_epi16(_mm_cvtsi64_si128(word));
}

#define WIDEN_H(half) _mm256_cvtepu16_epi32((__m128i)(half))
#define NARROW_H(whole) narrow_half((__m256i)(whole))
#define WIDEN_QH(quarter) widen_quarter(quarter)
#define NARROW_Q(whole) narrow_quarter((__m256i)(whole))

static inline WI_INLINE void raw_copy_line(char *out, const char *in)
{
    raw_stream_F(out, raw_load_F(in));
    raw_stream_F(out + 32, raw_load_F(in + 32));
}

#include "base/reduce_copy.h"
#include "base/reduce_simd.h"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#else
typedef int wi_reduce_avx2_not_here;
#endif
