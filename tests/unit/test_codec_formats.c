/* SPDX-License-Identifier: BSD-3-Clause */
/* Small floats are what their standards say: every code, and the nearest code of every number, to even when half-way. */
#include <math.h>

#include "base/reduce.h"
#include "compress/codec.h"
#include "tests/unit/unit.h"

static uint64_t random_state = 7;

static uint32_t random_bits(void)
{
    random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(random_state >> 32);
}

/* By the definition, in double. */
static double value_of(int exponent_bits, int mantissa_bits, int bias, uint32_t code)
{
    int e = (int)(code >> mantissa_bits) & ((1 << exponent_bits) - 1);
    double m = (double)(code & ((1u << mantissa_bits) - 1)) / (1 << mantissa_bits);
    double v = e ? ldexp(1 + m, e - bias) : ldexp(m, 1 - bias);

    return code >> (exponent_bits + mantissa_bits) & 1 ? -v : v;
}

static const struct format {
    const char *spec;
    int exponent, mantissa, bias;
    uint32_t finite; /* magnitudes of codes that are numbers */
    int scale_bytes;
    uint8_t one[2]; /* the scale 1 */
} formats[] = {
    {"mxfp8", 4, 3, 7, 0x7f, 1, {127}},        {"mxfp8:element=e5m2", 5, 2, 15, 0x7c, 1, {127}},
    {"mxfp6", 2, 3, 1, 0x20, 1, {127}},        {"mxfp6:element=e3m2", 3, 2, 3, 0x20, 1, {127}},
    {"mxfp4", 2, 1, 1, 8, 1, {127}},           {"e4m3", 4, 3, 7, 0x7f, 2, {0x80, 0x3f}},
    {"e5m2", 5, 2, 15, 0x7c, 2, {0x80, 0x3f}}, {"fp16", 5, 10, 15, 0x7c00, 0, {0}},
    {"bf16", 8, 7, 127, 0x7f80, 0, {0}},
};

static uint8_t image[4096];
static float values[4096], decoded[4096];

static void put_code(size_t at, int bits, size_t i, uint32_t code)
{
    for (int b = 0; b < bits; b++) {
        size_t bit = i * (size_t)bits + (size_t)b;
        if (code >> b & 1)
            image[at + bit / 8] |= (uint8_t)(1u << bit % 8);
    }
}

static uint32_t get_code(size_t at, int bits, size_t i)
{
    uint32_t code = 0;

    for (int b = 0; b < bits; b++) {
        size_t bit = i * (size_t)bits + (size_t)b;
        code |= (uint32_t)(image[at + bit / 8] >> bit % 8 & 1) << b;
    }
    return code;
}

static void codes_mean_what_the_standard_says(void)
{
    for (size_t k = 0; k < sizeof formats / sizeof *formats; k++) {
        const struct format *f = &formats[k];
        int bits = 1 + f->exponent + f->mantissa;
        struct weft_codec c;
        size_t bad = 0;
        CU_ASSERT_EQUAL_FATAL(wi_codec_parse(f->spec, &c), WEFT_SUCCESS);
        for (uint32_t code = 0; code < 1u << bits; code += 32) {
            memset(image, 0, sizeof image);
            memcpy(image, f->one, sizeof f->one);
            for (uint32_t i = 0; i < 32 && code + i < 1u << bits; i++)
                put_code((size_t)f->scale_bytes, bits, i, code + i);
            wi_codec_decode(&c, image, 32, decoded);
            for (uint32_t i = 0; i < 32 && code + i < 1u << bits; i++) {
                uint32_t magnitude = (code + i) & ((1u << (bits - 1)) - 1);
                float want = (float)value_of(f->exponent, f->mantissa, f->bias, code + i);
                if (magnitude < f->finite)
                    bad += memcmp(&want, &decoded[i], sizeof want) != 0; /* the sign of zero, too */
                else
                    bad += isfinite(decoded[i]);
            }
        }
        if (bad)
            printf("# %s: %zu codes mean something else\n", f->spec, bad);
        CU_ASSERT_EQUAL(bad, 0);
    }
}

/* The nearest number to v; of two, that of the even code. */
static uint32_t nearest(const struct format *f, double v)
{
    uint32_t best = 0;

    for (uint32_t code = 0; code < f->finite; code++) {
        double off = fabs(fabs(v) - value_of(f->exponent, f->mantissa, f->bias, code));
        double least = fabs(fabs(v) - value_of(f->exponent, f->mantissa, f->bias, best));
        if (off < least || (off == least && !(code & 1)))
            best = code;
    }
    return best | (signbit(v) ? 1u << (f->exponent + f->mantissa) : 0);
}

/* Random numbers of all exponents, and those in the middle of two. */
static float draw(const struct format *f, uint32_t i)
{
    uint32_t code = random_bits() % (f->finite - 1);
    double a = value_of(f->exponent, f->mantissa, f->bias, code),
           b = value_of(f->exponent, f->mantissa, f->bias, code + 1);
    double at = i % 3 == 0 ? .5 : i % 3 == 1 ? (random_bits() + .5) / 4294967296.0 : .5 + 1e-3;

    return (float)((random_bits() & 1 ? -1 : 1) * (a + at * (b - a)));
}

/* The largest number of the format in each block makes the scale 1. */
static void codes_are_the_nearest(void)
{
    for (size_t k = 0; k < sizeof formats / sizeof *formats; k++) {
        const struct format *f = &formats[k];
        int bits = 1 + f->exponent + f->mantissa;
        size_t bad = 0, rounds = f->finite > 1000 ? 2 : 40;
        struct weft_codec c;
        CU_ASSERT_EQUAL_FATAL(wi_codec_parse(f->spec, &c), WEFT_SUCCESS);
        for (size_t round = 0; round < rounds; round++) {
            for (uint32_t i = 0; i < 32; i++)
                values[i] = draw(f, i + (uint32_t)round);
            values[31] = (float)value_of(f->exponent, f->mantissa, f->bias, f->finite - 1);
            CU_ASSERT_EQUAL(wi_codec_encode(&c, values, NULL, 32, image), 0);
            CU_ASSERT(!f->scale_bytes || !memcmp(image, f->one, (size_t)f->scale_bytes));
            for (size_t i = 0; i < 32; i++)
                bad += get_code((size_t)f->scale_bytes, bits, i) != nearest(f, (double)values[i]);
        }
        if (bad)
            printf("# %s: %zu codes are not the nearest\n", f->spec, bad);
        CU_ASSERT_EQUAL(bad, 0);
    }
}

/* Casts and vectors of the types: one rounding for both. */
static void casts_are_those_of_vectors(void)
{
    static const struct {
        const char *spec;
        weft_dtype dtype;
    } rows[] = {{"bf16", WEFT_BFLOAT16}, {"fp16", WEFT_FLOAT16}};
    static uint16_t narrow[4096], here[4096];

    for (size_t k = 0; k < 2; k++) {
        struct weft_codec c;
        CU_ASSERT_EQUAL_FATAL(wi_codec_parse(rows[k].spec, &c), WEFT_SUCCESS);
        for (size_t i = 0; i < 4096; i++) {
            uint32_t bits = random_bits() & 0xbfffffff;
            memcpy(&values[i], &bits, sizeof bits);
            while (!(fabsf(values[i]) < c.limit))
                values[i] *= 0x1p-100f;
        }
        CU_ASSERT_EQUAL(wi_codec_encode(&c, values, NULL, 2048, image), 0);
        wi_codec_narrow(rows[k].dtype, values, narrow, 2048);
        for (size_t i = 0; i < 2048; i++)
            here[i] = (uint16_t)(image[2 * i] | image[2 * i + 1] << 8);
        CU_ASSERT(!memcmp(here, narrow, 2 * 2048));
        wi_codec_decode(&c, image, 2048, decoded);
        wi_codec_widen(rows[k].dtype, narrow, values, 2048);
        CU_ASSERT(!memcmp(decoded, values, 2048 * sizeof *values));
    }
}

static const struct wt_case cases[] = {
    {"codes mean what the standard says", codes_mean_what_the_standard_says},
    {"codes are the nearest", codes_are_the_nearest},
    {"casts are those of vectors", casts_are_those_of_vectors},
};
WT_UNIT_MAIN("codec_formats", cases)
