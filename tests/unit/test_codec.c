/* SPDX-License-Identifier: BSD-3-Clause */
/* Codecs of a fixed rate: against plain references in double, on every instruction set, with and without a residual. */
#include <math.h>
#include <stdlib.h>

#include "base/reduce.h"
#include "compress/codec.h"
#include "tests/unit/isa_cases.h"
#include "tests/unit/random_data.h"
#include "tests/unit/unit.h"

enum { LONGEST = 2048, KINDS = 5 };
enum { MOST = 3 * LONGEST + 17, MOST_BYTES = 4 * MOST + 64, GUARD = 0xa5, SUMMED = 5 };

enum kind { INT8, INT6, INT4, INT2, SIGN };
static const char *const names[KINDS] = {"int8", "int6", "int4", "int2", "sign"};
static const char *const isas[] = {"scalar", "avx2", "avx512", "neon"};
static const uint32_t blocks[] = {32, 128, 512, 2048};
static float src[MOST], decoded[MOST], residual[MOST];
static uint8_t image[MOST_BYTES];

static struct weft_codec codec_of(int kind, uint32_t block)
{
    struct weft_codec c;
    char spec[64];

    snprintf(spec, sizeof spec, "%s:block=%u", names[kind], block);
    CU_ASSERT_EQUAL_FATAL(wi_codec_parse(spec, &c), WEFT_SUCCESS);
    return c;
}

/* ---- Data ---- */

static double student_3(void)
{
    double a = gaussian(), b = gaussian(), c = gaussian(), d = gaussian();

    return a / sqrt((b * b + c * c + d * d) / 3);
}

enum family {
    GAUSSIAN,
    LAPLACE,
    STUDENT,
    SPARSE,
    CONSTANT,
    NEGATIVE,
    DENORMAL,
    TINY,
    HUGE_ONES,
    ZERO,
    SPIKE,
    FAMILIES
};

static float draw(enum family family, size_t i)
{
    switch (family) {
    case GAUSSIAN:
        return (float)gaussian();
    case LAPLACE:
        return (float)((uniform() < .5 ? -1 : 1) * log(uniform()));
    case STUDENT:
        return (float)student_3();
    case SPARSE:
        return random_bits() % 50 ? 0 : (float)gaussian();
    case CONSTANT:
        return 0.3f;
    case NEGATIVE:
        return -(float)uniform();
    case DENORMAL:
        return (float)(gaussian() * 1e-40);
    case TINY:
        return (float)(gaussian() * 1e-37);
    case HUGE_ONES:
        return (random_bits() & 1 ? -1 : 1) * 1.6e38f;
    case SPIKE:
        return i % 2048 == 7 ? 5 : 0;
    default:
        return 0;
    }
}

static void fill(enum family family, size_t n)
{
    for (size_t i = 0; i < n; i++)
        src[i] = draw(family, i);
}

/* ---- What codecs say of themselves ---- */

static void wrong_parameters_are_refused(void)
{
    static const uint32_t wrong[] = {0, 1, 16, 31, 33, 100, 4096, UINT32_MAX};
    struct weft_codec c;
    char spec[64];

    for (int k = 0; k < KINDS; k++)
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
            snprintf(spec, sizeof spec, "%s:block=%u", names[k], wrong[i]);
            CU_ASSERT_EQUAL(wi_codec_parse(spec, &c), WEFT_EINVAL);
            CU_ASSERT(strstr(weft_thread_error(), names[k]) != NULL);
        }
}

static void lengths_follow_the_formula(void)
{
    static const double bits[KINDS] = {8, 6, 4, 2, 1};

    for (int k = 0; k < KINDS; k++)
        for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
            struct weft_codec c = codec_of(k, blocks[i]);
            size_t b = blocks[i], whole = (size_t)(b * bits[k] / 8 + 2);
            CU_ASSERT_EQUAL(c.block_bytes, whole);
            CU_ASSERT_EQUAL(wi_codec_bytes(&c, 0), 0);
            CU_ASSERT_EQUAL(wi_codec_bytes(&c, 1), whole);
            CU_ASSERT_EQUAL(wi_codec_bytes(&c, b), whole);
            CU_ASSERT_EQUAL(wi_codec_bytes(&c, b + 1), 2 * whole);
            CU_ASSERT_EQUAL(wi_codec_bytes(&c, 1000 * b), 1000 * whole);
        }
    struct weft_codec c = codec_of(INT8, 32);
    CU_ASSERT(wi_codec_bytes(&c, SIZE_MAX) == SIZE_MAX);
}

static void specs_are_read(void)
{
    static const struct {
        const char *spec, *name;
        uint32_t block;
        const char *text;
    } rows[] = {{"int8", "int8", 128, "int8"},
                {"int6:block=32", "int6", 32, "int6:block=32"},
                {"int4:block=2048", "int4", 2048, "int4:block=2048"},
                {"int2:block=0x40", "int2", 64, "int2:block=64"},
                {"sign:block=128", "sign", 128, "sign"},
                {"terngrad:clip=2.50,block=64", "terngrad", 64, "terngrad:block=64"},
                {"terngrad:clip=0.015625", "terngrad", 128, "terngrad:clip=0.015625"},
                {"terngrad:clip=33.3", "terngrad", 128, "terngrad:clip=33.3"},
                {"mxfp6:element=e3m2", "mxfp6", 32, "mxfp6:element=e3m2"},
                {"int4:hadamard=1,scale=fp32,seed=0", "int4", 128, "int4:scale=fp32,hadamard=1,seed=0"}};
    char text[WI_CODEC_TEXT_MAX];

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct weft_codec got = {0}, again = {0};
        CU_ASSERT_EQUAL_FATAL(wi_codec_parse(rows[i].spec, &got), WEFT_SUCCESS);
        CU_ASSERT(!strcmp(wi_codec_name(&got), rows[i].name) && got.block == rows[i].block);
        CU_ASSERT_STRING_EQUAL(wi_codec_text(&got, text, sizeof text), rows[i].text);
        CU_ASSERT_EQUAL(wi_codec_parse(text, &again), WEFT_SUCCESS);
        CU_ASSERT(!memcmp(&again, &got, sizeof got));
    }
}

static void wrong_specs_are_named(void)
{
    static const char *const rows[][2] = {
        {"int9", "no codec \"int9\"; did you mean \"int8\"? (there are: int8, int6, int4, int2, sign, "},
        {"", "no codec \"\" (there are"},
        {"compressed-by-magic-and-quite-long", "(there are: int8"},
        {"int8:blok=64", "no parameter \"blok\"; did you mean \"block\"?"},
        {"int8:", "a parameter is empty: behind each"},
        {"int8:,block=64", "a parameter is empty"},
        {"none:min=3", "none means that nothing is encoded, and has no parameters"},
        {"none", "none means that nothing is encoded"},
        {"lossless:level=1",
         "there is no codec \"lossless\": it is a plugin, and plugins are loaded when a context is made"},
        {"int8:\x1b[2Jblok=1", "codec \"int8: [2Jblok=1\": there is no parameter \" [2Jblok\""},
        {"int8:block", "block has no value"},
        {"int8:block=", "block is \"\", not a power of two from 32 to 2048"},
        {"int8:block=100", "block is \"100\""},
        {"int8:block=-128", "block is \"-128\""},
        {"int8:block=4096", "block is \"4096\""},
        {"int8:block=18446744073709551744", "block is"},
        {"int8:block=64,block=64", "block is given twice"},
        {"int8:block=64,", "a parameter is empty"},
        {"int2:round=stochastic", "codec int2: round=stochastic needs levels=minmax"},
        {"int4:round=nearst", "round is \"nearst\", not nearest or stochastic"},
        {"int4:hadamard=2", "hadamard is \"2\", not a whole number from 0 to 1"},
        {"int4:seed=4294967296", "seed is"},
        {"terngrad:clip=-1", "clip is \"-1\", not a number from 0 to 100"},
        {"terngrad:clip=2,5", "there is no parameter \"5\""},
        {"terngrad:clip=1e1", "clip is \"1e1\""},
        {"mxfp4:block=32", "there is no parameter \"block\""},
        {"qsgd:levels=128", "levels is \"128\", not a whole number from 1 to 127"},
        {"int8\n:block=64", "no codec \"int8 \"; did you mean \"int8\"?"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct weft_codec codec = {.block = 64};
        CU_ASSERT_EQUAL(wi_codec_parse(rows[i][0], &codec), WEFT_EINVAL);
        CU_ASSERT(!codec.plugin && codec.block == 64);
        if (!strstr(weft_thread_error(), rows[i][1])) {
            printf("# %s: %s\n", rows[i][0], weft_thread_error());
            CU_FAIL("the text says something else");
        }
    }
}

/* ---- Against references ---- */

static double max_magnitude(const float *x, size_t n)
{
    double most = 0;

    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)x[i]));
    return most;
}

static double mean_magnitude(const float *x, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += fabs((double)x[i]);
    return sum / (double)n;
}

/* A level of the codec for x, which may be one of two where x is about half-way: how far decoded is from the nearest allowed one,
 * as part of a step. */
static double off_level(enum kind kind, double x, double got, double scale)
{
    static const double most[KINDS] = {127, 31, 7, 1.5, 1};
    double level;

    if (scale == 0)
        return fabs(got);
    if (kind == SIGN)
        return fabs(got / scale - (signbit(x) ? -1 : 1));
    if (kind == INT2) {
        level = x / scale < -1 ? -1.5 : x / scale < 0 ? -.5 : x / scale < 1 ? .5 : 1.5;
        return fabs(got / scale - level);
    }
    level = fmax(-most[kind], fmin(most[kind], got / scale));
    return fabs(got / scale - level) + fabs(level - nearbyint(level)) + fmax(0, fabs(x / scale - level) - .5);
}

/* The scale of the reference may be a unit in the last place of bf16 off: it is rounded. */
static void check_block(enum kind kind, const float *x, size_t n, const uint8_t *block)
{
    double want = kind == INT8   ? max_magnitude(x, n) / 127
                  : kind == INT6 ? max_magnitude(x, n) / 31
                  : kind == INT4 ? max_magnitude(x, n) / 7
                  : kind == INT2 ? 1.25 * mean_magnitude(x, n)
                                 : mean_magnitude(x, n);
    double scale = (double)wi_bf16_to_f32((uint16_t)(block[0] | block[1] << 8));
    int bad = 0;

    if (want > 1.2e-38) {
        CU_ASSERT(scale <= want * (1 + 1.0 / 127) && scale >= want * (1 - 1.0 / 255));
        if (kind <= INT4)
            CU_ASSERT(scale >= want * (1 - 1e-6)); /* the largest is not clipped */
    }
    for (size_t i = 0; i < n; i++)
        bad += !(off_level(kind, (double)x[i], (double)decoded[x - src + (long)i], scale) < 1e-4);
    CU_ASSERT_EQUAL(bad, 0);
}

static void levels_are_the_nearest(void)
{
    for (int k = 0; k < KINDS; k++)
        for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++)
            for (int family = 0; family < FAMILIES; family++) {
                struct weft_codec c = codec_of(k, blocks[b]);
                size_t n = 3 * blocks[b] - 5;
                fill((enum family)family, n);
                CU_ASSERT_EQUAL(wi_codec_encode(&c, src, NULL, n, image), 0);
                wi_codec_decode(&c, image, n, decoded);
                for (size_t at = 0; at < n; at += blocks[b])
                    check_block((enum kind)k, src + at, n - at < blocks[b] ? n - at : blocks[b],
                                image + at / blocks[b] * c.block_bytes);
            }
}

/* ||x - D(C(x))||^2 / ||x||^2 */
static double error_of(const struct weft_codec *c, enum family family, int rounds)
{
    double error = 0, norm = 0;

    for (int r = 0; r < rounds; r++) {
        struct weft_codec_site site = {.step = (uint64_t)r};
        fill(family, MOST);
        wi_codec_encode_at(c, &site, src, NULL, MOST, image);
        wi_codec_decode(c, image, MOST, decoded);
        for (size_t i = 0; i < MOST; i++) {
            error += ((double)src[i] - (double)decoded[i]) * ((double)src[i] - (double)decoded[i]);
            norm += (double)src[i] * (double)src[i];
        }
    }
    return norm > 0 ? error / norm : error;
}

/* Published, or derived for the scheme by numerical integration, with unrounded scales. Of Student's t few elements make up most of
 * the square, and samples vary. */
static void errors_are_the_published_ones(void)
{
    static const struct {
        const char *spec;
        enum family family;
        double error;
    } rows[] = {
        {"int8", GAUSSIAN, 4.2e-5},
        {"int8:block=2048", GAUSSIAN, 6.9e-5},
        {"int8", LAPLACE, 8.0e-5},
        {"int8", STUDENT, 2.0e-4},
        {"int4:block=32", GAUSSIAN, .009},
        {"int4", GAUSSIAN, .014},
        {"int4:block=2048", GAUSSIAN, .023},
        {"int4:block=32", LAPLACE, .015},
        {"int4", LAPLACE, .026},
        {"int4:block=32", STUDENT, .020},
        {"int4", STUDENT, .049},
        {"sign:block=2048", GAUSSIAN, .363},
        {"sign:block=2048", LAPLACE, .50},
        {"sign:block=2048,means=2", GAUSSIAN, .363},
        {"int2:block=2048", GAUSSIAN, .119},
        {"int2:block=2048,scale=fp32", GAUSSIAN, .119},
        {"int2:block=2048,hadamard=1", LAPLACE, .119},
        {"int2:levels=minmax,block=32", GAUSSIAN, .155},
        {"int2:levels=minmax", GAUSSIAN, .25},
        {"int2:levels=minmax,block=32", LAPLACE, .21},
        {"int2:levels=minmax", LAPLACE, .44},
        {"int4:round=stochastic", GAUSSIAN, .028},
        {"int8:round=stochastic", GAUSSIAN, 8.4e-5},
        {"int4:hadamard=1", GAUSSIAN, .014},
        {"int4:hadamard=1", LAPLACE, .014},
        {"int4:hadamard=1", STUDENT, .014},
        {"e4m3", GAUSSIAN, 6.6e-4},
        {"e4m3", LAPLACE, 6.2e-4},
        {"e4m3", STUDENT, 4.8e-4},
        {"natural", GAUSSIAN, .081},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct weft_codec c;
        double got, room = rows[i].family == STUDENT ? .25 : .08;
        CU_ASSERT_EQUAL_FATAL(wi_codec_parse(rows[i].spec, &c), WEFT_SUCCESS);
        got = error_of(&c, rows[i].family, rows[i].family == STUDENT ? 200 : 30);
        printf("# %s, data %d: error %.3g of the square, expected %.3g\n", rows[i].spec, (int)rows[i].family, got,
               rows[i].error);
        CU_ASSERT(got < (1 + room) * rows[i].error && got > (1 - room) * rows[i].error);
    }
}

/* Whose steps are of the range, and whose step is none. */
static void equal_elements_are_exact(void)
{
    static const char *const specs[] = {"int4:levels=minmax,scale=fp32",
                                        "int8:levels=minmax,scale=fp32,round=stochastic", "sign:means=2",
                                        "int2:levels=minmax", "bf16"};

    for (size_t k = 0; k < sizeof specs / sizeof *specs; k++)
        for (size_t sign = 0; sign < 2; sign++) {
            struct weft_codec c;
            size_t wrong = 0;
            CU_ASSERT_EQUAL_FATAL(wi_codec_parse(specs[k], &c), WEFT_SUCCESS);
            for (size_t i = 0; i < 2 * c.block; i++)
                src[i] = (sign ? -1.0f : 1.0f) * (k < 2 ? .3f : .375f);
            wi_codec_encode(&c, src, NULL, 2 * c.block, image);
            wi_codec_decode(&c, image, 2 * c.block, decoded);
            for (size_t i = 0; i < 2 * c.block; i++)
                wrong += decoded[i] != src[i];
            CU_ASSERT_EQUAL(wrong, 0);
        }
}

/* Known answers of Philox4x32-10 for the counter and key 0: of element 16 * w the word w. A number is rounded up from the
 * mantissa on that carries with it. */
static void random_bits_are_those_of_philox(void)
{
    static const uint32_t words[] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    struct weft_codec c;

    CU_ASSERT_EQUAL_FATAL(wi_codec_parse("natural:seed=0", &c), WEFT_SUCCESS);
    for (uint32_t below = 0; below < 2; below++) {
        for (size_t i = 0; i < 128; i++)
            src[i] = 1;
        for (size_t w = 0; w < 4; w++) {
            uint32_t bits = 0x3f800000u + (0x800000u - (words[w] & 0x7fffff)) - below;
            memcpy(&src[16 * w], &bits, sizeof bits);
        }
        wi_codec_encode(&c, src, NULL, 128, image);
        wi_codec_decode(&c, image, 128, decoded);
        for (size_t w = 0; w < 4; w++)
            CU_ASSERT_EQUAL(decoded[16 * w], below ? 1 : 2);
    }
}

/* At most min(B / s^2, sqrt(B) / s), and 1/8, of the square. */
static void random_errors_are_bounded(void)
{
    static const struct {
        const char *spec;
        double bound;
    } rows[] = {{"qsgd:levels=1", 11.32}, {"qsgd:levels=7", 1.617}, {"qsgd:levels=31", .1332}, {"natural", .125}};

    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        for (int family = 0; family < FAMILIES; family++) {
            struct weft_codec c;
            CU_ASSERT_EQUAL_FATAL(wi_codec_parse(rows[k].spec, &c), WEFT_SUCCESS);
            if (family != DENORMAL && family != TINY && (family != HUGE_ONES || c.limit > 0x1p120f) && family != ZERO &&
                family != SPARSE)
                CU_ASSERT(error_of(&c, (enum family)family, 3) < 1.03 * rows[k].bound);
        }
}

/* What error feedback stands on: the error is shorter than the vector, for all vectors. */
static void errors_are_contractions(void)
{
    for (int k = 0; k < KINDS; k++)
        for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++)
            for (int family = 0; family < FAMILIES; family++) {
                struct weft_codec c = codec_of(k, blocks[b]);
                double error = error_of(&c, (enum family)family, 1);
                if (family == DENORMAL) /* integers have no scale below the least normal number */
                    CU_ASSERT(error <= 1)
                else if (family != ZERO)
                    CU_ASSERT(error < 1 - .5 / blocks[b])
                else
                    CU_ASSERT(error == 0);
            }
}

/* ---- Residuals ---- */

static void nothing_is_lost(void)
{
    static double sent[MOST], given[MOST];

    for (int k = 0; k < KINDS; k++)
        for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++) {
            struct weft_codec c = codec_of(k, blocks[b]);
            size_t n = 2 * blocks[b] + 9;
            double worst = 0, held = 0;
            memset(residual, 0, sizeof residual);
            memset(sent, 0, sizeof sent);
            memset(given, 0, sizeof given);
            for (int step = 0; step < 50; step++) {
                fill(GAUSSIAN, n);
                CU_ASSERT_EQUAL(wi_codec_encode(&c, src, residual, n, image), 0);
                wi_codec_decode(&c, image, n, decoded);
                for (size_t i = 0; i < n; i++) {
                    given[i] += (double)src[i];
                    sent[i] += (double)decoded[i];
                }
            }
            for (size_t i = 0; i < n; i++) {
                worst = fmax(worst, fabs(given[i] - sent[i] - (double)residual[i]));
                held = fmax(held, fabs((double)residual[i]));
            }
            CU_ASSERT(worst < 1e-4);
            CU_ASSERT(held > 0 && held < 60); /* it does not grow with the steps */
            for (size_t i = n; i < MOST; i++)
                CU_ASSERT(residual[i] == 0);
        }
}

static void bad_blocks_leave_the_residual(void)
{
    struct weft_codec sign = codec_of(SIGN, 128);
    static const float bad[] = {NAN, -NAN, INFINITY, -INFINITY, 0x1p127f, -3.4e38f};

    for (int k = 0; k < KINDS; k++)
        for (size_t v = 0; v < sizeof bad / sizeof *bad; v++)
            for (size_t at = 0; at < 128; at += 127) {
                struct weft_codec c = codec_of(k, 128);
                int wrong = 0;
                fill(GAUSSIAN, 300);
                src[128 + at] = bad[v];
                for (size_t i = 0; i < 300; i++)
                    residual[i] = .25f;
                CU_ASSERT_EQUAL(wi_codec_encode(&c, src, residual, 300, image), 1);
                wi_codec_decode(&c, image, 300, decoded);
                for (size_t i = 0; i < 300; i++) {
                    int in = i >= 128 && i < 256;
                    wrong += in ? !isnan(decoded[i]) || residual[i] != .25f
                                : !isfinite(decoded[i]) || fabsf(src[i] + .25f - decoded[i] - residual[i]) > 1e-5f;
                }
                CU_ASSERT_EQUAL(wrong, 0);
            }
    /* A finite vector and residual whose sum is not. */
    for (size_t i = 0; i < 128; i++)
        src[i] = residual[i] = 1.6e38f;
    CU_ASSERT_EQUAL(wi_codec_encode(&sign, src, residual, 128, image), 1);
    CU_ASSERT(residual[5] == 1.6e38f);
}

/* ---- Sums ---- */

struct parts {
    uint8_t images[SUMMED][MOST_BYTES];
    float own[MOST], sum[MOST];
    const void *from[SUMMED];
    const float *plain[SUMMED];
    struct weft_codec_operands operands;
};

/* One of them plain (-1: none), and their sum in the order that is promised. */
static void make_parts(struct parts *p, const struct weft_codec *c, int plain_at, size_t n)
{
    p->operands = (struct weft_codec_operands){SUMMED, p->from, p->plain};
    for (int s = 0; s < SUMMED; s++) {
        fill(GAUSSIAN, n);
        wi_codec_encode(c, src, NULL, n, p->images[s]);
        wi_codec_decode(c, p->images[s], n, decoded);
        p->from[s] = s == plain_at ? NULL : p->images[s];
        p->plain[s] = s == plain_at ? p->own : NULL;
        if (s == plain_at) {
            memcpy(p->own, src, sizeof src);
            memcpy(decoded, src, sizeof src);
        }
        for (size_t i = 0; i < n; i++)
            p->sum[i] = s ? p->sum[i] + decoded[i] : decoded[i];
    }
}

static void sums_go_from_first_to_last(void)
{
    static struct parts p;
    static float got[MOST];

    for (int k = 0; k < KINDS; k++)
        for (int plain_at = -1; plain_at < SUMMED; plain_at++)
            for (size_t n = 1; n < 3 * 128 + 2; n += 127) {
                struct weft_codec c = codec_of(k, 128);
                make_parts(&p, &c, plain_at, n);
                got[n] = 77;
                wi_codec_sum(&c, &p.operands, n, got);
                CU_ASSERT(!memcmp(got, p.sum, n * sizeof *got) && got[n] == 77);
                if (plain_at < 0)
                    continue;
                p.own[n] = 77;
                wi_codec_sum(&c, &p.operands, n, p.own); /* into its plain operand */
                CU_ASSERT(!memcmp(p.own, p.sum, n * sizeof *p.own) && p.own[n] == 77);
            }
}

/* In one pass: as when the sum is made, multiplied, encoded and decoded one after the other. */
static void sums_are_encoded(void)
{
    static struct parts p;
    static uint8_t want[MOST_BYTES];
    static float left[MOST], got[MOST];
    struct weft_codec sign = codec_of(SIGN, 128);

    for (int k = 0; k < KINDS; k++)
        for (int mode = 0; mode < 4; mode++)
            for (size_t n = 1; n < 3 * 128 + 2; n += 127) {
                struct weft_codec c = codec_of(k, 128);
                size_t bytes = wi_codec_bytes(&c, n), bad;
                make_parts(&p, &c, 2, n);
                for (size_t i = 0; i < n; i++) {
                    residual[i] = left[i] = (float)gaussian();
                    p.sum[i] *= .2f;
                }
                wi_codec_encode(&c, p.sum, mode & 1 ? left : NULL, n, want);
                wi_codec_decode(&c, want, n, decoded);
                memset(image, GUARD, bytes + 1);
                got[n] = 77;
                bad = wi_codec_sum_encode(&c, NULL, &p.operands, .2f, mode & 1 ? residual : NULL, n, image,
                                          mode & 2 ? got : NULL);
                CU_ASSERT_EQUAL(bad, 0);
                CU_ASSERT(!memcmp(image, want, bytes) && image[bytes] == GUARD);
                CU_ASSERT(!memcmp(residual, left, n * sizeof *left));
                CU_ASSERT(!(mode & 2) || (!memcmp(got, decoded, n * sizeof *got) && got[n] == 77));
            }
    p.own[0] = NAN; /* in the last vector's first block */
    CU_ASSERT_EQUAL(wi_codec_sum_encode(&sign, NULL, &p.operands, 1, residual, 382, image, got), 1);
    CU_ASSERT(isnan(got[0]) && isnan(got[127]) && isfinite(got[128]) && !memcmp(residual, left, 128 * sizeof *left));
}

/* ---- Every instruction set ---- */

static const uint32_t odd_bits[] = {0, 0x80000000, 1, 0x80000001, 0x007fffff, 0x00800000, 0x7f7fffff, 0xff7fffff};

static void fill_odd(size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = random_bits() % 3 ? random_bits() & 0xbfffffff : odd_bits[random_bits() % 8];
        memcpy(&src[i], &bits, sizeof bits);
        residual[i] = (float)gaussian();
    }
}

/* All that kernels write, from odd addresses on. Returns its length. */
static size_t run(const struct weft_codec *c, size_t n, uint8_t *out)
{
    static float into[MOST], with[MOST];
    size_t bytes = wi_codec_bytes(c, n);
    const struct weft_codec_operands both = {2, (const void *[]){out + 1, NULL}, (const float *[]){NULL, src}};

    memset(out, GUARD, 2 * bytes + 12 * n + 64);
    memcpy(with, residual, sizeof with);
    out[0] = (uint8_t)wi_codec_encode(c, src, NULL, n, out + 1);
    wi_codec_encode(c, src, with, n, out + 1 + bytes);
    out += 1 + 2 * bytes;
    memcpy(out, with, 4 * n);
    wi_codec_decode(c, both.images[0], n, into);
    memcpy(out + 4 * n, into, 4 * n);
    wi_codec_sum(c, &both, n, into);
    memcpy(out + 8 * n, into, 4 * n);
    for (size_t i = 12 * n; i < 12 * n + 63; i++)
        CU_ASSERT(out[i] == GUARD);
    return 1 + 2 * bytes + 12 * n;
}

static int compare_instruction_sets(const char *isa)
{
    static uint8_t first[20 * MOST + 999], other[20 * MOST + 999];
    int tried = 0;

    for (int k = 0; k < KINDS; k++)
        for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++) {
            struct weft_codec c = codec_of(k, blocks[b]);
            const size_t sizes[] = {1, 31, blocks[b] - 1, blocks[b], blocks[b] + 1, 3 * blocks[b] + 17};
            for (size_t s = 0; s < 6; s++)
                for (int odd = 0; odd < 2; odd++) {
                    fill(STUDENT, sizes[s]);
                    if (odd)
                        fill_odd(sizes[s]);
                    CU_ASSERT_EQUAL(wi_isa_force("scalar"), 0);
                    size_t bytes = run(&c, sizes[s], first);
                    CU_ASSERT_EQUAL(wi_isa_force(isa), 0);
                    CU_ASSERT_EQUAL(run(&c, sizes[s], other), bytes);
                    CU_ASSERT(!memcmp(first, other, bytes));
                    tried++;
                }
        }
    return tried;
}
WT_ISA_CASES(compare_instruction_sets)

/* Cut at a block the image is the same. */
static void cuts_do_not_matter(void)
{
    static uint8_t cut[MOST_BYTES];

    for (int k = 0; k < KINDS; k++) {
        struct weft_codec c = codec_of(k, 128);
        fill(LAPLACE, 1000);
        wi_codec_encode(&c, src, NULL, 1000, image);
        for (size_t at = 0; at < 1000; at += 256)
            wi_codec_encode(&c, src + at, NULL, 1000 - at < 256 ? 1000 - at : 256, cut + wi_codec_bytes(&c, at));
        CU_ASSERT(!memcmp(image, cut, wi_codec_bytes(&c, 1000)));
    }
}

/* ---- The transform ---- */

/* The image of a block in which element m of what was transformed is 1, the others 0. */
static void decode_unit_vector(const struct weft_codec *c, size_t m, float *dst)
{
    uint8_t unit[4 + MOST] = {0, 0, 0x80, 0x3f};

    memset(unit + 4, 128, c->block);
    unit[4 + m] = 129;
    wi_codec_decode(c, unit, c->block, dst);
}

/* Row m of Sylvester's matrix has the sign of the bits that the row and the column share. */
static void transform_is_hadamards(void)
{
    static float first[MOST], row[MOST];

    for (size_t i = 0; i < sizeof isas / sizeof *isas; i++) {
        if (wi_isa_force(isas[i]) < 0)
            continue;
        for (size_t block = 32; block <= 2048; block *= 2) {
            struct weft_codec c;
            char spec[64];
            size_t wrong = 0;
            snprintf(spec, sizeof spec, "int8:scale=fp32,hadamard=1,block=%zu", block);
            CU_ASSERT_EQUAL_FATAL(wi_codec_parse(spec, &c), WEFT_SUCCESS);
            decode_unit_vector(&c, 0, first);
            for (size_t m = 0; m < block; m++) {
                decode_unit_vector(&c, m, row);
                for (size_t k = 0; k < block; k++)
                    wrong += row[k] != (__builtin_parityll(k & m) ? -first[k] : first[k]);
            }
            for (size_t k = 0; k < block; k++)
                wrong += !(fabs(fabs((double)first[k]) * sqrt((double)block) - 1) < 1e-6);
            CU_ASSERT_EQUAL(wrong, 0);
        }
    }
    wi_isa_force(NULL);
}

static const struct wt_case cases[] = {
    {"wrong parameters are refused", wrong_parameters_are_refused},
    {"lengths follow the formula", lengths_follow_the_formula},
    {"specs are read", specs_are_read},
    {"wrong specs are named", wrong_specs_are_named},
    {"levels are the nearest", levels_are_the_nearest},
    {"errors are the published ones", errors_are_the_published_ones},
    {"equal elements are exact", equal_elements_are_exact},
    {"random bits are those of Philox", random_bits_are_those_of_philox},
    {"random errors are bounded", random_errors_are_bounded},
    {"errors are contractions", errors_are_contractions},
    {"nothing is lost with a residual", nothing_is_lost},
    {"blocks that are not finite leave the residual", bad_blocks_leave_the_residual},
    {"sums go from the first to the last", sums_go_from_first_to_last},
    {"sums are encoded in one pass", sums_are_encoded},
    WT_EACH_ISA,
    {"cuts at blocks do not matter", cuts_do_not_matter},
    {"the transform is Hadamard's", transform_is_hadamards},
};
WT_UNIT_MAIN("codec", cases)
