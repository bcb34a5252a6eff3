/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels for AVX-512 (F, BW, DQ, VL): masks make every remainder one step. */
#if defined(__x86_64__)

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,f16c,bmi,bmi2"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,f16c,bmi,bmi2,prefer-vector-width=512")
#endif
#include <immintrin.h>

#define WI_SIMD_ISA wi_isa_avx512
#define WI_SIMD_NAME "avx512"
#define WI_SIMD_BYTES 64
#define WI_SIMD_MASKED 1
#include "base/reduce_raw.h"

static inline WI_INLINE void raw_stream_F(void *p, raw_F raw)
{
    _mm512_stream_si512(p, (__m512i)raw);
}

static inline WI_INLINE void raw_stream_H(void *p, raw_H raw)
{
    _mm256_stream_si256(p, (__m256i)raw);
}

static inline WI_INLINE void raw_stream_Q(void *p, raw_Q raw)
{
    _mm_stream_si128(p, (__m128i)raw);
}

/* `bytes` of an element is a constant where these are inlined; count is below the number of lanes. */
static inline WI_INLINE uint64_t part_mask(size_t count)
{
    return _bzhi_u64(~0ull, (unsigned)count);
}

static inline WI_INLINE raw_F raw_load_part_F(const void *p, size_t count, size_t bytes)
{
    uint64_t mask = part_mask(count);

    switch (bytes) {
    case 1:
        return (raw_F)_mm512_maskz_loadu_epi8(mask, p);
    case 2:
        return (raw_F)_mm512_maskz_loadu_epi16((__mmask32)mask, p);
    case 4:
        return (raw_F)_mm512_maskz_loadu_epi32((__mmask16)mask, p);
    default:
        return (raw_F)_mm512_maskz_loadu_epi64((__mmask8)mask, p);
    }
}

static inline WI_INLINE void raw_store_part_F(void *p, raw_F raw, size_t count, size_t bytes)
{
    uint64_t mask = part_mask(count);

    switch (bytes) {
    case 1:
        _mm512_mask_storeu_epi8(p, mask, (__m512i)raw);
        break;
    case 2:
        _mm512_mask_storeu_epi16(p, (__mmask32)mask, (__m512i)raw);
        break;
    case 4:
        _mm512_mask_storeu_epi32(p, (__mmask16)mask, (__m512i)raw);
        break;
    default:
        _mm512_mask_storeu_epi64(p, (__mmask8)mask, (__m512i)raw);
        break;
    }
}

static inline WI_INLINE raw_H raw_load_part_H(const void *p, size_t count, size_t bytes)
{
    (void)bytes;
    return (raw_H)_mm256_maskz_loadu_epi16((__mmask16)part_mask(count), p);
}

static inline WI_INLINE void raw_store_part_H(void *p, raw_H raw, size_t count, size_t bytes)
{
    (void)bytes;
    _mm256_mask_storeu_epi16(p, (__mmask16)part_mask(count), (__m256i)raw);
}

static inline WI_INLINE raw_Q raw_load_part_Q(const void *p, size_t count, size_t bytes)
{
    (void)bytes;
    return (raw_Q)_mm_maskz_loadu_epi8((__mmask16)part_mask(count), p);
}

static inline WI_INLINE void raw_store_part_Q(void *p, raw_Q raw, size_t count, size_t bytes)
{
    (void)bytes;
    _mm_mask_storeu_epi8(p, (__mmask16)part_mask(count), (__m128i)raw);
}

static void simd_fence(void)
{
    _mm_sfence();
}

static inline WI_INLINE float __attribute__((vector_size(64))) f16_decode(raw_H raw)
{
    return _mm512_cvtph_ps((__m256i)raw);
}

static inline WI_INLINE raw_H f16_encode(float __attribute__((vector_size(64))) v)
{
    return (raw_H)_mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT);
}

#define WIDEN_H(half) _mm512_cvtepu16_epi32((__m256i)(half))
#define NARROW_H(whole) (raw_H) _mm512_cvtepi32_epi16((__m512i)(whole))
#define WIDEN_QH(quarter) _mm256_cvtepu8_epi16((__m128i)(quarter))
#define NARROW_Q(whole) (raw_Q) _mm512_cvtepi32_epi8((__m512i)(whole))

static inline WI_INLINE void raw_copy_line(char *out, const char *in)
{
    raw_stream_F(out, raw_load_F(in));
}

#include "base/reduce_copy.h"
#include "base/reduce_simd.h"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#else
typedef int wi_reduce_avx512_not_here;
#endif
