/* Codec lossless: every bit comes back, what it gains, and images that are none.
 * SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft_compress.h>

#include "base/bytes.h"
#include "base/reduce.h"
#include "base/status.h"
#include "compress/codec.h"
#include "tests/harness/harness.h"
#include "unit.h"

enum { MOST = 300000 };

static struct weft_codec codec_of(const char *spec)
{
    static weft_context *context; /* which loads the plugin, for the life of the process */
    struct weft_codec c;

    if (!context) {
        setenv("WEFT_PLUGIN_PATH", wt_plugin_dir("lossless"), 1);
        setenv("WEFT_TRANSPORTS", "inproc", 1);
        CU_ASSERT_EQUAL_FATAL(weft_context_create(NULL, &context), WEFT_SUCCESS);
    }
    if (wi_codec_parse(spec, &c) < 0) {
        fprintf(stderr, "# %s\n", wi_fail_text());
        abort();
    }
    return c;
}

static uint64_t drawn = 1;

static double uniform(void)
{
    drawn = drawn * 6364136223846793005u + 1442695040888963407u;
    return (double)(drawn >> 11) * 0x1p-53;
}

static float gaussian(void)
{
    return (float)(sqrt(-2 * log(uniform() + 1e-300)) * cos(6.283185307179586 * uniform()) * 1e-3);
}

static float from_bits(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

/* ---- Vectors ---- */

static void narrowed(weft_dtype dtype, float *v, size_t n)
{
    uint16_t half;

    for (size_t i = 0; i < n; i++) {
        wi_codec_narrow(dtype, &v[i], &half, 1);
        wi_codec_widen(dtype, &half, &v[i], 1);
    }
}

static void gaussians(float *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        v[i] = gaussian();
}

static void gaussians_bf16(float *v, size_t n)
{
    gaussians(v, n);
    narrowed(WEFT_BFLOAT16, v, n);
}

static void gaussians_fp16(float *v, size_t n)
{
    gaussians(v, n);
    narrowed(WEFT_FLOAT16, v, n);
}

/* All values of fp16, those that are not finite among them. */
static void every_fp16(float *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        v[i] = wi_f16_to_f32((uint16_t)i);
}

static void any_bits(float *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        v[i] = from_bits((uint32_t)(uniform() * 4294967296.0));
}

static void zeros(float *v, size_t n)
{
    memset(v, 0, n * sizeof *v);
}

static void sparse(float *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        v[i] = uniform() < .01 ? gaussian() : 0;
}

/* Values of bf16, but for the last one. */
static void one_is_longer(float *v, size_t n)
{
    gaussians_bf16(v, n);
    if (n)
        v[n - 1] = 1.0f / 3;
}

static const struct {
    const char *name;
    void (*fill)(float *v, size_t n);
} vectors[] = {{"Gaussian", gaussians},
               {"Gaussian of bf16", gaussians_bf16},
               {"Gaussian of fp16", gaussians_fp16},
               {"all of fp16", every_fp16},
               {"any bits", any_bits},
               {"zeros", zeros},
               {"one in a hundred", sparse},
               {"all but one of bf16", one_is_longer}};

/* Encodes and decodes; returns the length of the image. */
static size_t there_and_back(const struct weft_codec *c, const char *name, const float *v, size_t n)
{
    size_t most = wi_codec_bytes(c, n), bytes;
    unsigned char *image = malloc(most + 1);
    float *back = malloc((n + 1) * sizeof *back);

    CU_ASSERT_FATAL(image && back);
    image[most] = 0x5a;
    back[n] = 3;
    CU_ASSERT_EQUAL(wi_codec_encode(c, v, NULL, n, image), 0);
    bytes = wi_codec_image_bytes(c, image, n);
    CU_ASSERT(n ? bytes > 0 && bytes <= most : !bytes);
    CU_ASSERT_EQUAL(image[most], 0x5a);
    CU_ASSERT_EQUAL(wi_codec_decode(c, image, n, back), 0);
    if (memcmp(back, v, n * sizeof *v) != 0 || back[n] != 3) {
        printf("# %s, %zu elements: not what it was\n", name, n);
        CU_FAIL("not what it was");
    }
    free(image);
    free(back);
    return bytes;
}

static void every_bit(void)
{
    static const char *const specs[] = {"lossless", "lossless:level=1,block=32", "lossless:level=19"};
    static const size_t counts[] = {0, 1, 2, 31, 33, 1000, 65536, MOST};
    float *v = malloc(MOST * sizeof *v);

    CU_ASSERT_FATAL(v != NULL);
    for (size_t s = 0; s < sizeof specs / sizeof *specs; s++) {
        struct weft_codec c = codec_of(specs[s]);
        for (size_t k = 0; k < sizeof vectors / sizeof *vectors; k++)
            for (size_t i = 0; i < sizeof counts / sizeof *counts - (s == 2); i++) {
                vectors[k].fill(v, counts[i]);
                there_and_back(&c, vectors[k].name, v, counts[i]);
            }
    }
    free(v);
}

/* The exponent of a Gaussian has 2.55 bits of entropy: bf16 could come to 1.52 times, fp32 to 1.20. */
static void gains(void)
{
    static const struct {
        const char *spec;
        void (*fill)(float *v, size_t n);
        double bytes, least;
    } rows[] = {{"lossless", gaussians_bf16, 2, 1.5}, {"lossless:level=1", gaussians_bf16, 2, 1.45},
                {"lossless", gaussians, 4, 1.195},    {"lossless", gaussians_fp16, 2, 1.18},
                {"lossless", zeros, 4, 1000},         {"lossless:level=1", sparse, 4, 20},
                {"lossless", any_bits, 4, .999}};
    float *v = malloc(MOST * sizeof *v);

    CU_ASSERT_FATAL(v != NULL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct weft_codec c = codec_of(rows[i].spec);
        double ratio;
        rows[i].fill(v, MOST);
        ratio = rows[i].bytes * MOST / (double)there_and_back(&c, rows[i].spec, v, MOST);
        printf("# %s: %.3f times shorter, at least %.3f expected\n", rows[i].spec, ratio, rows[i].least);
        CU_ASSERT(ratio >= rows[i].least);
    }
    free(v);
}

/* A residual goes along, once. */
static void residuals(void)
{
    enum { N = 5000 };
    struct weft_codec c = codec_of("lossless");
    float v[N], residual[N], back[N];
    unsigned char *image = malloc(wi_codec_bytes(&c, N));

    CU_ASSERT_FATAL(image != NULL);
    gaussians(v, N);
    gaussians(residual, N);
    float was = residual[7], sum = v[7] + residual[7];
    v[9] = NAN;
    CU_ASSERT_EQUAL(wi_codec_encode(&c, v, residual, N, image), 1);
    CU_ASSERT_EQUAL(wi_codec_decode(&c, image, N, back), 0);
    CU_ASSERT(residual[7] == was && back[7] == v[7] && isnan(back[9]));
    v[9] = 1;
    CU_ASSERT_EQUAL(wi_codec_encode(&c, v, residual, N, image), 0);
    CU_ASSERT_EQUAL(wi_codec_decode(&c, image, N, back), 0);
    CU_ASSERT(residual[7] == 0 && residual[9] == 0 && back[7] == sum);
    free(image);
}

/* ---- What is no image ---- */

static void cut_off(const struct weft_codec *c, const unsigned char *image, size_t bytes, size_t n, float *back)
{
    for (size_t k = 0; k < bytes; k += k < 64 ? 1 : bytes / 61 + 1) {
        unsigned char *part = malloc(k + 4);
        CU_ASSERT_FATAL(part != NULL);
        memcpy(part, image, k);
        if (k >= 4)
            wi_put32(part, (uint32_t)k);
        CU_ASSERT(k < 4 || c->ops->read(c, part, k, n, back, NULL) < 0);
        free(part);
    }
}

static void not_images(void)
{
    enum { N = 3000 };
    struct weft_codec c = codec_of("lossless");
    size_t most = wi_codec_bytes(&c, N), bytes;
    unsigned char *image = malloc(most), *exact;
    float *v = malloc(N * sizeof *v), *back = malloc(N * sizeof *back);
    int refused = 0;

    CU_ASSERT_FATAL(image && v && back);
    gaussians(v, N);
    wi_codec_encode(&c, v, NULL, N, image);
    bytes = wi_codec_image_bytes(&c, image, N);
    exact = malloc(bytes); /* a sanitizer sees what is read behind it */
    CU_ASSERT_FATAL(exact != NULL);
    cut_off(&c, image, bytes, N, back);
    for (size_t k = 0; k < bytes; k++)
        for (int bit = 0; bit < 8; bit += k < 25 ? 1 : 5) {
            memcpy(exact, image, bytes);
            exact[k] ^= (unsigned char)(1 << bit);
            refused += c.ops->read(&c, exact, bytes, N, back, NULL) < 0;
        }
    CU_ASSERT(refused > 60); /* what the head says is checked; other bits are other values */
    CU_ASSERT(c.ops->read(&c, image, bytes, N - 1, back, NULL) < 0);
    CU_ASSERT(c.ops->read(&c, image, bytes, N + 1, back, NULL) < 0);
    wi_put32(image, (uint32_t)most + 1);
    CU_ASSERT_EQUAL(wi_codec_image_bytes(&c, image, N), 0);
    CU_ASSERT_EQUAL(wi_codec_decode(&c, image, N, back), -1);
    free(exact);
    free(image);
    free(v);
    free(back);
}

/* ---- How long an image is ---- */

static void says(weft_status st, weft_status expected, const char *text)
{
    CU_ASSERT_EQUAL(st, expected);
    if (!strstr(weft_thread_error(), text)) {
        printf("# \"%s\" is not in: %s\n", text, weft_thread_error());
        CU_FAIL("another text");
    }
}

static void lengths_of_images(void)
{
    enum { N = 3000 };
    struct weft_codec c = codec_of("lossless");
    size_t most, bytes = 7;
    unsigned char *image = malloc(wi_codec_bytes(&c, N)), *head = malloc(4); /* which is enough */
    float *v = malloc(N * sizeof *v);

    CU_ASSERT_FATAL(image && head && v);
    gaussians_bf16(v, N);
    CU_ASSERT_EQUAL(weft_codec_bytes("lossless", N, &most), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(weft_codec_encode("lossless", WEFT_FLOAT32, v, NULL, N, image, most), WEFT_SUCCESS);
    memcpy(head, image, 4);
    CU_ASSERT_EQUAL(weft_codec_image_bytes("lossless", head, N, &bytes), WEFT_SUCCESS);
    CU_ASSERT(bytes == wi_get32(image) && bytes < most);
    CU_ASSERT_EQUAL(weft_codec_decode("lossless", image, bytes, WEFT_FLOAT32, v, N), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(weft_codec_image_bytes("lossless", NULL, 0, &bytes), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(bytes, 0);
    bytes = 7;
    says(weft_codec_image_bytes("lossless", head, N, NULL), WEFT_EINVAL, "codec_image_bytes: bytes is NULL");
    says(weft_codec_image_bytes("lossless", NULL, N, &bytes), WEFT_EINVAL, "codec_image_bytes: image is NULL");
    says(weft_codec_image_bytes(NULL, head, N, &bytes), WEFT_EINVAL, "codec_image_bytes: codec is NULL");
    says(weft_codec_image_bytes("no_such", head, N, &bytes), WEFT_EINVAL, "no_such");
    for (size_t i = 0; i < 3; i++) {
        const size_t none[] = {0, most + 1, UINT32_MAX};
        wi_put32(head, (uint32_t)none[i]);
        says(weft_codec_image_bytes("lossless", head, N, &bytes), WEFT_EPROTO,
             "an image of 3000 elements by codec lossless does not begin so");
    }
    CU_ASSERT_EQUAL(bytes, 7);
    CU_ASSERT_EQUAL(weft_codec_image_bytes("int4:block=64", head, N, &bytes), WEFT_SUCCESS); /* whatever it is */
    CU_ASSERT_EQUAL(bytes, (N + 63) / 64 * 34);
    free(image), free(head), free(v);
}

static const struct wt_case cases[] = {
    {"every bit comes back", every_bit},
    {"what it gains", gains},
    {"residuals", residuals},
    {"what is no image", not_images},
    {"how long an image is", lengths_of_images},
};
WT_UNIT_MAIN("lossless", cases)
