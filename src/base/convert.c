/* SPDX-License-Identifier: BSD-3-Clause */
/* One element between fp32 and the 16- and 8-bit formats, in integer arithmetic only, so that neither the rounding
 * mode nor flushing of denormals matters. Rounding is to nearest even. */
#include <string.h>

#include "base/reduce.h"

static uint32_t float_bits(float v)
{
    uint32_t u;

    memcpy(&u, &v, sizeof(u));
    return u;
}

static float bits_float(uint32_t u)
{
    float v;

    memcpy(&v, &u, sizeof(v));
    return v;
}

/* Drop `drop` low bits of u, rounding to nearest even. */
static uint32_t round_shift(uint32_t u, unsigned drop)
{
    uint32_t half = 1u << (drop - 1), low = u & ((1u << drop) - 1), kept = u >> drop;

    return kept + (low > half || (low == half && (kept & 1)));
}

/* Round |v| (finite bits) to a format with `man` mantissa bits and exponent bias `bias`; no upper limit. */
static uint32_t encode_small(uint32_t abs, unsigned man, unsigned bias)
{
    uint32_t exponent = abs >> 23, lowest = 127 - bias + 1; /* lowest: fp32 exponent of the least normal */
    unsigned drop = 23 - man;

    if (exponent >= lowest)
        return round_shift(abs - ((127 - bias) << 23), drop);
    drop += lowest - exponent;
    if (exponent == 0 || drop > 25)
        return 0;
    return round_shift((abs & 0x7fffff) | 0x800000, drop);
}

/* `bits` without its sign: value of a format with `man` mantissa bits and `bias`; infinities and NaN apart. */
static float decode_small(uint32_t bits, unsigned man, unsigned bias)
{
    uint32_t exponent = bits >> man, mantissa = bits & ((1u << man) - 1);

    if (exponent == 0) {
        if (mantissa == 0)
            return 0.0f;
        exponent = 1;
        for (; !(mantissa >> man); mantissa <<= 1)
            exponent--; /* below zero for the smallest: the sum with 127 - bias stays positive */
        mantissa &= (1u << man) - 1;
    }
    return bits_float(((exponent + 127 - bias) << 23) | (mantissa << (23 - man)));
}

float wi_f16_to_f32(uint16_t v)
{
    uint32_t sign = (uint32_t)(v & 0x8000) << 16, abs = v & 0x7fff;

    if (abs > 0x7c00)
        return bits_float(sign | 0x7fc00000 | (abs & 0x3ff) << 13);
    if (abs == 0x7c00)
        return bits_float(sign | 0x7f800000);
    return bits_float(sign | float_bits(decode_small(abs, 10, 15)));
}

uint16_t wi_f32_to_f16(float v)
{
    uint32_t u = float_bits(v), sign = (u >> 16) & 0x8000, abs = u & 0x7fffffff, r;

    if (abs > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | ((abs >> 13) & 0x3ff));
    r = encode_small(abs, 10, 15);
    return (uint16_t)(sign | (r > 0x7c00 ? 0x7c00 : r));
}

float wi_bf16_to_f32(uint16_t v)
{
    return bits_float((uint32_t)v << 16);
}

uint16_t wi_f32_to_bf16(float v)
{
    uint32_t u = float_bits(v);

    if ((u & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)round_shift(u, 16);
}

float wi_f8e4m3_to_f32(uint8_t v)
{
    uint32_t sign = (uint32_t)(v & 0x80) << 24, abs = v & 0x7f;

    if (abs == 0x7f)
        return bits_float(sign | 0x7fc00000);
    return bits_float(sign | float_bits(decode_small(abs, 3, 7)));
}

uint8_t wi_f32_to_f8e4m3(float v)
{
    uint32_t u = float_bits(v), sign = (u >> 24) & 0x80, abs = u & 0x7fffffff, r;

    if (abs > 0x7f800000)
        return (uint8_t)(sign | 0x7f);
    r = encode_small(abs, 3, 7);
    return (uint8_t)(sign | (r > 0x7e ? 0x7e : r));
}

float wi_f8e5m2_to_f32(uint8_t v)
{
    return wi_f16_to_f32((uint16_t)(v << 8));
}

uint8_t wi_f32_to_f8e5m2(float v)
{
    uint32_t u = float_bits(v), sign = (u >> 24) & 0x80, abs = u & 0x7fffffff, r;

    if (abs > 0x7f800000)
        return (uint8_t)(sign | 0x7e);
    r = encode_small(abs, 2, 15);
    return (uint8_t)(sign | (r > 0x7c ? 0x7c : r));
}
