/* SPDX-License-Identifier: BSD-3-Clause */
/* Conversions of 16- and 8-bit floats, by function and in the kernels, against arithmetic in double. */
#include <float.h>
#include <math.h>

#include "reduce_common.h"
#include "unit.h"

/* The value of a code from its fields, by the definition of the format. */
static double code_value(uint32_t code, int exponent_bits, int mantissa_bits)
{
    int bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = (int)(code >> mantissa_bits) & ((1 << exponent_bits) - 1);
    double fraction = (double)(code & ((1u << mantissa_bits) - 1)) / (1 << mantissa_bits);
    double v = exponent ? ldexp(1 + fraction, exponent - bias) : ldexp(fraction, 1 - bias);

    return code >> (exponent_bits + mantissa_bits) ? -v : v;
}

struct format {
    const char *name;
    int exponent_bits, mantissa_bits;
    uint32_t top; /* largest finite code */
    int has_inf;
    float (*decode)(uint32_t);
    uint32_t (*encode)(float);
};

static float decode_f16(uint32_t v)
{
    return wi_f16_to_f32((uint16_t)v);
}
static float decode_bf16(uint32_t v)
{
    return wi_bf16_to_f32((uint16_t)v);
}
static float decode_e4m3(uint32_t v)
{
    return wi_f8e4m3_to_f32((uint8_t)v);
}
static float decode_e5m2(uint32_t v)
{
    return wi_f8e5m2_to_f32((uint8_t)v);
}
static uint32_t encode_f16(float v)
{
    return wi_f32_to_f16(v);
}
static uint32_t encode_bf16(float v)
{
    return wi_f32_to_bf16(v);
}
static uint32_t encode_e4m3(float v)
{
    return wi_f32_to_f8e4m3(v);
}
static uint32_t encode_e5m2(float v)
{
    return wi_f32_to_f8e5m2(v);
}

static const struct format formats[] = {
    {"f16", 5, 10, 0x7bff, 1, decode_f16, encode_f16},
    {"bf16", 8, 7, 0x7f7f, 1, decode_bf16, encode_bf16},
    {"e4m3", 4, 3, 0x7e, 0, decode_e4m3, encode_e4m3},
    {"e5m2", 5, 2, 0x7b, 1, decode_e5m2, encode_e5m2},
};

/* Nearest code to a positive finite v, ties to the even code, found by bisection over the decoded values. */
static uint32_t nearest_code(const struct format *f, double v)
{
    uint32_t low = 0, high = f->top + 1;
    double below, above;

    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;

        if (code_value(middle, f->exponent_bits, f->mantissa_bits) <= v)
            low = middle;
        else
            high = middle;
    }
    below = code_value(low, f->exponent_bits, f->mantissa_bits);
    /* Past the top the next step is infinity's, except where the format saturates. */
    above = code_value(low + 1, f->exponent_bits, f->mantissa_bits);
    if (low == f->top && !f->has_inf)
        return low;
    if (v - below != above - v)
        return v - below < above - v ? low : low + 1;
    return low & 1 ? low + 1 : low;
}

static void check_encode(const struct format *f, float v)
{
    uint32_t sign = 1u << (f->exponent_bits + f->mantissa_bits), want;

    want = isinf(v) ? f->top + (f->has_inf != 0) : nearest_code(f, v);
    if (f->encode(v) != want || f->encode(-v) != (want | sign)) {
        printf("# %s: %a gives %x, expected %x\n", f->name, (double)v, f->encode(v), want);
        CU_FAIL("rounding");
    }
}

static void conversions(void)
{
    for (size_t k = 0; k < 4; k++) {
        const struct format *f = &formats[k];
        uint32_t sign = 1u << (f->exponent_bits + f->mantissa_bits);

        for (uint32_t code = 0; code < 2 * sign; code++) {
            uint32_t abs = code & (sign - 1);
            float v = f->decode(code);

            if (abs <= f->top) {
                CU_ASSERT_EQUAL((double)v, code_value(code, f->exponent_bits, f->mantissa_bits));
                CU_ASSERT_EQUAL(!!signbit(v), code >> (f->exponent_bits + f->mantissa_bits));
                CU_ASSERT_EQUAL(f->encode(v), code);
            } else if (f->has_inf && abs == f->top + 1) {
                CU_ASSERT(isinf(v));
                CU_ASSERT_EQUAL(f->encode(v), code);
            } else {
                CU_ASSERT(isnan(v));
                CU_ASSERT(isnan(f->decode(f->encode(v))));
            }
        }
        for (uint32_t abs = 0; abs <= f->top; abs++) {
            float v = f->decode(abs), next = (float)code_value(abs + 1, f->exponent_bits, f->mantissa_bits);
            float middle = (float)(((double)v + next) / 2);

            check_encode(f, v);
            check_encode(f, nextafterf(v, INFINITY));
            check_encode(f, middle);
            check_encode(f, nextafterf(middle, 0));
            check_encode(f, nextafterf(middle, INFINITY));
        }
        check_encode(f, INFINITY);
        check_encode(f, FLT_MAX);
        check_encode(f, FLT_MIN / 2);
        check_encode(f, FLT_TRUE_MIN);
        for (int i = 0; i < 200000; i++) {
            uint32_t bits = (uint32_t)random_next() & 0x7fffffff;
            float v;

            memcpy(&v, &bits, 4);
            if (!isnan(v))
                check_encode(f, v);
        }
    }
}

/* Every code through the kernels, added to zero: decode and encode there agree with the scalar functions. */
static void conversions_in_kernels(void)
{
    static uint16_t in[65536], zero[65536], out[65536];
    static uint8_t in8[256], zero8[256], out8[256];

    for (uint32_t i = 0; i < 65536; i++)
        in[i] = (uint16_t)i;
    for (uint32_t i = 0; i < 256; i++)
        in8[i] = (uint8_t)i;
    for (int k = 0; k < NUM_ISAS; k++) {
        if (wi_isa_force(isas[k]))
            continue;
        for (int t = 0; t < 4; t++) {
            static const uint8_t dtypes[] = {WEFT_FLOAT16, WEFT_BFLOAT16, WEFT_FLOAT8E4M3, WEFT_FLOAT8E5M2};
            struct wi_redop redop = redop_make(dtypes[t], WEFT_SUM, 1);
            const struct format *f = &formats[t];
            uint32_t codes = t < 2 ? 65536 : 256, canonical = f->encode(__builtin_nanf(""));

            if (t < 2)
                wi_reduce2(&redop, out, in, zero, codes, 0);
            else
                wi_reduce2(&redop, out8, in8, zero8, codes, 0);
            for (uint32_t i = 0; i < codes; i++) {
                float v = f->decode(i);
                uint32_t got = t < 2 ? out[i] : out8[i];

                CU_ASSERT_EQUAL(got, isnan(v) ? canonical : f->encode(v + 0.0f));
            }
        }
    }
    wi_isa_force(NULL);
}

/* All pairs of 8-bit codes, and random pairs of 16-bit ones, must round as the scalar encoders do. */
static void rounding_in_kernels(void)
{
    static uint16_t a[65536], b[65536], out[65536];
    static uint8_t a8[65536], b8[65536], out8[65536];

    for (uint32_t i = 0; i < 65536; i++) {
        a[i] = (uint16_t)random_next();
        b[i] = (uint16_t)((a[i] ^ random_next()) & 0x83ff) ^ a[i];
        a8[i] = (uint8_t)i;
        b8[i] = (uint8_t)(i >> 8);
    }
    for (int k = 0; k < NUM_ISAS; k++) {
        if (wi_isa_force(isas[k]))
            continue;
        for (int t = 0; t < 4; t++) {
            static const uint8_t dtypes[] = {WEFT_FLOAT16, WEFT_BFLOAT16, WEFT_FLOAT8E4M3, WEFT_FLOAT8E5M2};
            const struct format *f = &formats[t];

            for (unsigned op = WEFT_SUM; op <= WEFT_PROD; op++) {
                struct wi_redop redop = redop_make(dtypes[t], op, 1);

                if (t < 2)
                    wi_reduce2(&redop, out, a, b, 65536, 0);
                else
                    wi_reduce2(&redop, out8, a8, b8, 65536, 0);
                for (uint32_t i = 0; i < 65536; i++) {
                    float x = f->decode(t < 2 ? a[i] : a8[i]), y = f->decode(t < 2 ? b[i] : b8[i]);
                    float v = op == WEFT_SUM ? x + y : x * y;

                    CU_ASSERT_EQUAL((uint32_t)(t < 2 ? out[i] : out8[i]), f->encode(isnan(v) ? __builtin_nanf("") : v));
                }
            }
        }
    }
    wi_isa_force(NULL);
}

static const struct wt_case cases[] = {
    {"scalar conversions, exhaustively", conversions},
    {"kernel conversions, exhaustively", conversions_in_kernels},
    {"kernel rounding", rounding_in_kernels},
};
WT_UNIT_MAIN("reduce_convert", cases)
