/* SPDX-License-Identifier: BSD-3-Clause */
/* Plain loops, which the compiler makes into vector instructions, for each instruction set. */
#include "plugins/zstd/planes.h"

#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define VECTORS __attribute__((target_clones("default", "avx2", "arch=skylake-avx512")))
#else
#define VECTORS
#endif
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

int wz_planes_of(unsigned form)
{
    return form == WZ_F32 ? 4 : form == WZ_BF16 || form == WZ_F16 ? 2 : 0;
}

static inline uint32_t bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float float_of(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

/* ---- fp16: what has 13 zeros at the end may be one of its values ---- */

/* Of a value of fp16, in fp32: its bits. What is none becomes something that widen does not undo. */
static inline uint32_t narrow(uint32_t bits)
{
    uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff, exponent = magnitude >> 23;
    uint32_t normal = (magnitude >> 13) - (112u << 10), small = 126 - exponent; /* of 2^-24: fp16's last place */

    if (exponent == 255)
        return sign | 0x7c00 | (magnitude >> 13 & 0x3ff);
    if (exponent > 112)
        return sign | (normal < 0x7c00 ? normal : 0);
    return sign | (exponent > 101 ? ((magnitude & 0x7fffff) | 0x800000) >> small : 0);
}

static inline uint32_t widen(uint32_t half)
{
    uint32_t sign = (half & 0x8000) << 16, exponent = half >> 10 & 0x1f, mantissa = half & 0x3ff;
    float small = (float)(int32_t)mantissa * 0x1p-24f;

    if (exponent == 31)
        return sign | 0x7f800000 | mantissa << 13;
    return sign | (exponent ? (exponent + 112) << 23 | mantissa << 13 : bits_of(small));
}

/* ---- What they are ---- */

VECTORS static uint32_t all_bits(const float *src, size_t elems)
{
    uint32_t all = 0;

    for (size_t i = 0; i < elems; i++)
        all |= bits_of(src[i]);
    return all;
}

VECTORS static uint32_t not_f16(const float *src, size_t elems)
{
    uint32_t differs = 0;

    for (size_t i = 0; i < elems; i++)
        differs |= widen(narrow(bits_of(src[i]))) ^ bits_of(src[i]);
    return differs;
}

#define LOOKS 4096 /* elements after which most vectors of fp32 are known for what they are */

enum wz_form wz_form_of(const float *src, size_t elems)
{
    size_t first = elems < LOOKS ? elems : LOOKS;
    uint32_t all = all_bits(src, first);

    if (!(all & 0x1fff))
        all |= all_bits(src + first, elems - first);
    if (!(all & 0xffff))
        return WZ_BF16;
    return !(all & 0x1fff) && !not_f16(src, elems) ? WZ_F16 : WZ_F32;
}

/* ---- Planes ----
 * The sign goes to the other end, so that the last plane has nothing but exponent in it (of fp16: and three bits of mantissa). */

VECTORS static void split_f32(const float *src, size_t elems, uint8_t *p0, uint8_t *p1, uint8_t *p2, uint8_t *p3)
{
    for (size_t i = 0; i < elems; i++) {
        uint32_t x = bits_of(src[i]), turned = x << 1 | x >> 31;
        p0[i] = (uint8_t)turned;
        p1[i] = (uint8_t)(turned >> 8);
        p2[i] = (uint8_t)(turned >> 16);
        p3[i] = (uint8_t)(turned >> 24);
    }
}

VECTORS static void split_bf16(const float *src, size_t elems, uint8_t *p0, uint8_t *p1)
{
    for (size_t i = 0; i < elems; i++) {
        uint32_t x = bits_of(src[i]);
        p0[i] = (uint8_t)(x >> 15 | x >> 31);
        p1[i] = (uint8_t)(x >> 23);
    }
}

VECTORS static void split_f16(const float *src, size_t elems, uint8_t *p0, uint8_t *p1)
{
    for (size_t i = 0; i < elems; i++) {
        uint32_t x = narrow(bits_of(src[i]));
        p0[i] = (uint8_t)(x << 1 | x >> 15);
        p1[i] = (uint8_t)(x >> 7);
    }
}

void wz_split(enum wz_form form, const float *src, size_t elems, uint8_t *const plane[])
{
    if (form == WZ_F32)
        split_f32(src, elems, plane[0], plane[1], plane[2], plane[3]);
    else if (form == WZ_BF16)
        split_bf16(src, elems, plane[0], plane[1]);
    else
        split_f16(src, elems, plane[0], plane[1]);
}

VECTORS static void join_f32(const uint8_t *p0, const uint8_t *p1, const uint8_t *p2, const uint8_t *p3, size_t elems,
                             float *dst)
{
    for (size_t i = 0; i < elems; i++) {
        uint32_t turned = (uint32_t)p0[i] | (uint32_t)p1[i] << 8 | (uint32_t)p2[i] << 16 | (uint32_t)p3[i] << 24;
        dst[i] = float_of(turned >> 1 | turned << 31);
    }
}

VECTORS static void join_bf16(const uint8_t *p0, const uint8_t *p1, size_t elems, float *dst)
{
    for (size_t i = 0; i < elems; i++) {
        uint32_t turned = (uint32_t)p0[i] | (uint32_t)p1[i] << 8;
        dst[i] = float_of((turned >> 1 | turned << 15) << 16);
    }
}

VECTORS static void join_f16(const uint8_t *p0, const uint8_t *p1, size_t elems, float *dst)
{
    for (size_t i = 0; i < elems; i++) {
        uint32_t turned = (uint32_t)p0[i] | (uint32_t)p1[i] << 8;
        dst[i] = float_of(widen((turned >> 1 | turned << 15) & 0xffff));
    }
}

void wz_join(enum wz_form form, const uint8_t *const plane[], size_t elems, float *dst)
{
    if (form == WZ_F32)
        join_f32(plane[0], plane[1], plane[2], plane[3], elems, dst);
    else if (form == WZ_BF16)
        join_bf16(plane[0], plane[1], elems, dst);
    else
        join_f16(plane[0], plane[1], elems, dst);
}
