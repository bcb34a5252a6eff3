/* The skeleton of a codec plugin: an element becomes -1, 0 or 1 times a scale.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 *     cc -shared -fPIC $(pkg-config --cflags weft) -o ternary.so ternary.c
 *
 * Elements whose magnitude is above `threshold` times the block's mean magnitude are kept, and the scale is the mean magnitude of
 * those. The error is shorter than the vector by what is kept (contraction): Li, Liu, Ternary Weight
 * Networks, 2016.
 *
 *     image of a block = scale (fp32, little-endian) | four codes a byte: 0 for -1, 1 for 0, 2 for 1
 *
 * It has no sums of its own: the library makes them of decode and encode. */
#include <stdint.h>
#include <string.h>
#include <weft/weft_plugin.h>

enum { BLOCK, THRESHOLD };
static const struct weft_codec_parameter rows[] = {
    {"block", "256", WEFT_CODEC_POWER_OF_TWO, WEFT_CODEC_BLOCK_MIN, WEFT_CODEC_BLOCK_MAX, NULL,
     "elements that share a scale"},
    {"threshold", "0.75", WEFT_CODEC_REAL, 0, 1, NULL, "what is kept, as part of the mean magnitude"},
    {NULL, NULL, WEFT_CODEC_REAL, 0, 0, NULL, NULL},
};
enum { SCALE_BYTES = 4 };

static weft_status ternary_configure(struct weft_codec *codec, char *why, size_t capacity)
{
    (void)why, (void)capacity; /* all values go together */
    codec->block = (uint32_t)codec->value[BLOCK].integer;
    codec->block_bytes = SCALE_BYTES + codec->block / 4;
    codec->scratch_bytes = codec->block * sizeof(float);
    codec->traits = WEFT_CODEC_CONTRACTIVE;
    codec->lossy_limit = 2;
    codec->limit = 0x1p127f;
    codec->nmse = .19f;
    codec->encode_rate = 500;
    codec->decode_rate = 1000;
    return WEFT_SUCCESS;
}

static float magnitude(float x)
{
    return x < 0 ? -x : x;
}

/* Of magnitudes of at least `least`. In double, so that no sum is too large. */
static double mean(const float *x, size_t n, double least)
{
    double sum = 0;
    size_t count = 0;

    for (size_t i = 0; i < n; i++)
        if (magnitude(x[i]) >= least) {
            sum += magnitude(x[i]);
            count++;
        }
    return count ? sum / (double)count : 0;
}

static int is_not_finite(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(magnitude(x[i]) < 0x1p127f)) /* NaN, too */
            return 1;
    return 0;
}

static void encode_codes(const float *x, size_t n, double least, unsigned char *codes)
{
    for (size_t i = 0; i < n; i++) {
        unsigned code = magnitude(x[i]) < least ? 1 : x[i] < 0 ? 0 : 2;
        codes[i / 4] |= (unsigned char)(code << i % 4 * 2);
    }
}

static int level(const unsigned char *codes, size_t i)
{
    return (int)(codes[i / 4] >> i % 4 * 2 & 3) - 1;
}

static int encode_block(const struct weft_codec *codec, const float *src, float *residual, size_t n,
                        unsigned char *image, float *x)
{
    unsigned char *codes = image + SCALE_BYTES;
    double least;
    uint32_t bits;
    float scale;

    for (size_t i = 0; i < n; i++)
        x[i] = residual ? src[i] + residual[i] : src[i];
    least = codec->value[THRESHOLD].real * mean(x, n, 0);
    scale = is_not_finite(x, n) ? __builtin_nanf("") : (float)mean(x, n, least);
    memcpy(&bits, &scale, sizeof bits);
    for (int i = 0; i < SCALE_BYTES; i++)
        image[i] = (unsigned char)(bits >> 8 * i);
    memset(codes, 0, codec->block_bytes - SCALE_BYTES);
    if (scale != scale)
        return 1;
    encode_codes(x, n, least, codes);
    for (size_t i = 0; residual && i < n; i++)
        residual[i] = x[i] - (float)level(codes, i) * scale;
    return 0;
}

static size_t ternary_encode(const struct weft_codec *codec, const struct weft_codec_site *site, const float *src,
                             float *residual, size_t elems, void *image, void *scratch)
{
    unsigned char *to = image;
    size_t bad = 0;

    (void)site; /* nothing is random here */
    for (size_t at = 0; at < elems; at += codec->block, to += codec->block_bytes) {
        size_t n = elems - at < codec->block ? elems - at : codec->block;
        bad += (size_t)encode_block(codec, src + at, residual ? residual + at : NULL, n, to, scratch);
    }
    return bad;
}

static float read_scale(const unsigned char *image)
{
    uint32_t bits = 0;
    float scale;

    for (int i = 0; i < SCALE_BYTES; i++)
        bits |= (uint32_t)image[i] << 8 * i;
    memcpy(&scale, &bits, sizeof scale);
    return scale;
}

static void ternary_decode(const struct weft_codec *codec, const void *image, size_t elems, float *dst, void *scratch)
{
    const unsigned char *from = image;

    (void)scratch;
    for (size_t i = 0; i < elems; i++) {
        const unsigned char *block = from + i / codec->block * codec->block_bytes;
        dst[i] = (float)level(block + SCALE_BYTES, i % codec->block) * read_scale(block);
    }
}

static int ternary_is_finite(const struct weft_codec *codec, const void *image)
{
    float scale = read_scale(image);

    (void)codec;
    return scale - scale == 0;
}

static const struct weft_codec_ops ops = {
    .bytes = sizeof ops,
    .parameters = rows,
    .configure = ternary_configure,
    .encode = ternary_encode,
    .decode = ternary_decode,
    .is_finite = ternary_is_finite,
};

WEFT_API extern const struct weft_plugin weft_plugin;
const struct weft_plugin weft_plugin = {
    .abi = WEFT_PLUGIN_ABI,
    .bytes = sizeof weft_plugin,
    .kind = WEFT_PLUGIN_CODEC,
    .name = "ternary",
    .summary = "-1, 0 or 1 times a scale; an example",
    .ops = &ops,
};
