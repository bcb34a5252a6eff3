/* SPDX-License-Identifier: BSD-3-Clause */
/* Vectors of 16-bit floats to fp32 and back. */
#include <string.h>

#include "base/reduce.h"
#include "compress/codec.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

int wi_codec_takes(weft_dtype dtype)
{
    return dtype == WEFT_FLOAT32 || dtype == WEFT_FLOAT16 || dtype == WEFT_BFLOAT16;
}

/* ---- bf16: the upper half of a float ---- */

static void widen_bf16(const uint16_t *src, float *dst, size_t elems)
{
    for (size_t i = 0; i < elems; i++) {
        uint32_t bits = (uint32_t)src[i] << 16;
        memcpy(&dst[i], &bits, sizeof bits);
    }
}

static void narrow_bf16(const float *src, uint16_t *dst, size_t elems)
{
    for (size_t i = 0; i < elems; i++) {
        uint32_t bits, rounded;
        memcpy(&bits, &src[i], sizeof bits);
        rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
        dst[i] = (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? bits >> 16 | 0x40 : rounded);
    }
}

/* ---- fp16: with the instructions for it where there are some ---- */

#if defined(__x86_64__)
__attribute__((target("avx,f16c"))) static size_t widen_f16_fast(const uint16_t *src, float *dst, size_t elems)
{
    size_t i = 0;

    for (; i + 8 <= elems; i += 8)
        _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(src + i))));
    return i;
}

__attribute__((target("avx,f16c"))) static size_t narrow_f16_fast(const float *src, uint16_t *dst, size_t elems)
{
    size_t i = 0;

    for (; i + 8 <= elems; i += 8)
        _mm_storeu_si128((__m128i *)(void *)(dst + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT));
    return i;
}

/* Instruction sets above the plain one have it, on this architecture (base/reduce_isa.c). */
static int has_f16(void)
{
    return strcmp(wi_isa_name(), "scalar") != 0;
}
#else
static size_t widen_f16_fast(const uint16_t *src, float *dst, size_t elems)
{
    (void)src, (void)dst, (void)elems;
    return 0;
}

static size_t narrow_f16_fast(const float *src, uint16_t *dst, size_t elems)
{
    (void)src, (void)dst, (void)elems;
    return 0;
}

static int has_f16(void)
{
    return 0;
}
#endif

static void widen_f16(const uint16_t *src, float *dst, size_t elems)
{
    for (size_t i = has_f16() ? widen_f16_fast(src, dst, elems) : 0; i < elems; i++)
        dst[i] = wi_f16_to_f32(src[i]);
}

static void narrow_f16(const float *src, uint16_t *dst, size_t elems)
{
    for (size_t i = has_f16() ? narrow_f16_fast(src, dst, elems) : 0; i < elems; i++)
        dst[i] = wi_f32_to_f16(src[i]);
}

/* ---- By type ---- */

void wi_codec_widen(weft_dtype dtype, const void *src, float *dst, size_t elems)
{
    if (dtype == WEFT_FLOAT16)
        widen_f16(src, dst, elems);
    else if (dtype == WEFT_BFLOAT16)
        widen_bf16(src, dst, elems);
    else
        memcpy(dst, src, elems * sizeof *dst);
}

void wi_codec_narrow(weft_dtype dtype, const float *src, void *dst, size_t elems)
{
    if (dtype == WEFT_FLOAT16)
        narrow_f16(src, dst, elems);
    else if (dtype == WEFT_BFLOAT16)
        narrow_bf16(src, dst, elems);
    else
        memcpy(dst, src, elems * sizeof *src);
}
