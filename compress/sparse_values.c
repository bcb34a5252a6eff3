/* SPDX-License-Identifier: BSD-3-Clause */
/* Values of sparse images. Products with a scale are exact but for subnormal ones; sums are kept apart from them, so that all CPUs
 * have the same bits. */
#if defined(__clang__)
#pragma clang fp contract(off)
#else
#pragma GCC optimize("fp-contract=off")
#endif

#include "compress/sparse.h"

enum { PART = 64 };            /* values that are converted together */
#define ROUNDS 12582912.0f     /* 1.5 * 2^23: adding it rounds to the nearest integer, to even when half-way ... */
#define ROUNDS_BITS 0x4b400000 /* ... which is how far the sum's bits are from these */
#define ONE 0x3f80u            /* bf16 */
#define LEAST 0x0080u          /* the least normal number */

static float float_of(uint32_t bits)
{
    float f;

    memcpy(&f, &bits, sizeof f);
    return f;
}

static uint32_t bits_of(float f)
{
    uint32_t bits;

    memcpy(&bits, &f, sizeof bits);
    return bits;
}

size_t wi_sparse_value_bytes(enum wi_sparse_values values)
{
    return values == WI_SPARSE_FP32 ? 4 : values == WI_SPARSE_INT8 ? 1 : 2;
}

uint16_t wi_sparse_scale(enum wi_sparse_values values, uint32_t most)
{
    uint32_t exponent = most >> 23, scale;

    if (values == WI_SPARSE_FP16)
        return (uint16_t)((exponent > 15 ? exponent - 14 : 1) << 7);
    if (values != WI_SPARSE_INT8)
        return ONE;
    scale = (bits_of(float_of(most) / 127.0f) + 0xffffu) >> 16;
    return (uint16_t)(scale < LEAST ? LEAST : scale);
}

/* ---- Into bytes ---- */

static void put_int8(const float *from, size_t n, float inverse, uint8_t *to)
{
    for (size_t i = 0; i < n; i++) {
        float product = from[i] * inverse;
        to[i] = (uint8_t)((int32_t)bits_of(product + ROUNDS) - ROUNDS_BITS);
    }
}

static void put_part(enum wi_sparse_values values, float scale, const float *from, size_t n, uint8_t *to)
{
    float scaled[PART];
    uint16_t half[PART];

    if (values == WI_SPARSE_INT8) {
        put_int8(from, n, 1.0f / scale, to);
        return;
    }
    for (size_t i = 0; i < n; i++)
        scaled[i] = from[i] * (1.0f / scale);
    if (values == WI_SPARSE_FP32) {
        memcpy(to, scaled, n * sizeof *scaled);
        return;
    }
    wi_codec_narrow(values == WI_SPARSE_FP16 ? WEFT_FLOAT16 : WEFT_BFLOAT16, scaled, half, n);
    memcpy(to, half, n * sizeof *half);
}

void wi_sparse_values_put(enum wi_sparse_values values, uint16_t scale, const float *from, size_t k, uint8_t *to)
{
    float by = float_of((uint32_t)scale << 16);

    for (size_t at = 0; at < k; at += PART)
        put_part(values, by, from + at, k - at < PART ? k - at : PART, to + at * wi_sparse_value_bytes(values));
}

/* ---- And back ---- */

static void get_part(enum wi_sparse_values values, const uint8_t *from, size_t n, float *to)
{
    uint16_t half[PART];

    if (values == WI_SPARSE_INT8) {
        for (size_t i = 0; i < n; i++)
            to[i] = (float)(int8_t)from[i];
    } else if (values == WI_SPARSE_FP32) {
        memcpy(to, from, n * sizeof *to);
    } else {
        memcpy(half, from, n * sizeof *half);
        wi_codec_widen(values == WI_SPARSE_FP16 ? WEFT_FLOAT16 : WEFT_BFLOAT16, half, to, n);
    }
}

/* 0 is added so that no value is -0: then it makes no difference whether an element that was not sent is added as 0 or left out. */
void wi_sparse_values_get(enum wi_sparse_values values, uint16_t scale, const uint8_t *from, size_t k, float *to)
{
    float by = float_of((uint32_t)scale << 16);

    for (size_t at = 0; at < k; at += PART)
        get_part(values, from + at * wi_sparse_value_bytes(values), k - at < PART ? k - at : PART, to + at);
    for (size_t i = 0; i < k; i++) {
        float product = to[i] * by;
        to[i] = product + 0.0f;
    }
}
