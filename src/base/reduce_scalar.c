/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels for any CPU: vectors that the compiler lowers to what the baseline has. */
#define WI_SIMD_ISA wi_isa_scalar
#define WI_SIMD_NAME "scalar"
#define WI_SIMD_BYTES 16
#define WI_SIMD_MASKED 0
#include "base/reduce_raw.h"

#if defined(__SSE2__)
#include <emmintrin.h>

static inline WI_INLINE void raw_stream_F(void *p, raw_F raw)
{
    _mm_stream_si128(p, (__m128i)raw);
}

static inline WI_INLINE void raw_stream_H(void *p, raw_H raw)
{
    long long word;

    memcpy(&word, &raw, sizeof(word));
    _mm_stream_si64(p, word);
}

static inline WI_INLINE void raw_stream_Q(void *p, raw_Q raw)
{
    int word;

    memcpy(&word, &raw, sizeof(word));
    _mm_stream_si32(p, word);
}

static void simd_fence(void)
{
    _mm_sfence();
}
#else
#define raw_stream_F raw_store_F
#define raw_stream_H raw_store_H
#define raw_stream_Q raw_store_Q

static void simd_fence(void)
{
}
#endif

static inline WI_INLINE float __attribute__((vector_size(16))) f16_decode(raw_H raw)
{
    typedef float vf __attribute__((vector_size(16)));
    typedef uint32_t vu __attribute__((vector_size(16)));
    typedef uint16_t hu __attribute__((vector_size(8)));
    vu wide = __builtin_convertvector((hu)raw, vu);
    vu fields = (wide & 0x7fff) << 13, exponent = fields & 0x0f800000;
    vu normal = fields + (112u << 23), top = (vu)(exponent == 0x0f800000) & (112u << 23);
    /* Denormals: put the fields under a known leading one, then take that one away. */
    vu low = (vu)((vf)(fields + (113u << 23)) - (vf)((vu){0} + (113u << 23)));
    vu is_low = (vu)(exponent == 0);

    return (vf)(((low & is_low) | ((normal + top) & ~is_low)) | ((wide & 0x8000) << 16));
}

static inline WI_INLINE raw_H f16_encode(float __attribute__((vector_size(16))) v);

static inline WI_INLINE void raw_copy_line(char *out, const char *in)
{
    raw_stream_F(out, raw_load_F(in));
    raw_stream_F(out + 16, raw_load_F(in + 16));
    raw_stream_F(out + 32, raw_load_F(in + 32));
    raw_stream_F(out + 48, raw_load_F(in + 48));
}

#include "base/reduce_copy.h"
#include "base/reduce_simd.h"

static inline WI_INLINE raw_H f16_encode(vf32 v)
{
    vu32 u = (vu32)v, abs = u & 0x7fffffff, code = small_encode(abs, 10, 15, 0.5f, 0x7c00);

    code = SELECT(abs > 0x7f800000, (vu32){0} + 0x7e00, code) | ((u >> 16) & 0x8000);
    return (raw_H) __builtin_convertvector(code, half_u16);
}
