/* SPDX-License-Identifier: BSD-3-Clause */
/* An image: bytes (4) | a bit for each element, which is there | the upper halves of these. Marked: bytes (4) | 1. */
#include "varied.h"

#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "compress/codec.h"

enum { HEAD = WEFT_CODEC_HEAD_BYTES };

static const struct weft_codec_parameter parameters[] = {
    {"block", "128", WEFT_CODEC_POWER_OF_TWO, 32, 65536, NULL, "elements"},
    {NULL, NULL, 0, 0, 0, NULL, NULL},
};

static weft_status configure(struct weft_codec *c, char *why, size_t capacity)
{
    (void)why, (void)capacity;
    c->block = (uint32_t)c->value[0].integer;
    c->block_bytes = HEAD + c->block / 8 + 2 * c->block + 1;
    c->traits = WEFT_CODEC_VARIABLE | WEFT_CODEC_CONTRACTIVE;
    c->limit = INFINITY;
    c->encode_rate = c->decode_rate = 1000;
    return WEFT_SUCCESS;
}

static uint32_t bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float upper(uint32_t half)
{
    uint32_t bits = half << 16;
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

static size_t mark(uint8_t *image)
{
    wi_put32(image, HEAD + 1);
    image[HEAD] = 1;
    return 1;
}

static size_t encode(const struct weft_codec *codec, const struct weft_codec_site *site, const float *src,
                     float *residual, size_t elems, void *to, void *scratch)
{
    uint8_t *image = to, *there = image + HEAD, *end = there + (elems + 7) / 8;

    (void)codec, (void)site, (void)scratch;
    for (size_t i = 0; i < elems; i++)
        if (!isfinite(src[i]))
            return mark(image);
    memset(there, 0, (elems + 7) / 8);
    for (size_t i = 0; i < elems; i++) {
        float c = residual ? src[i] + residual[i] : src[i], sent = 0;
        if (bits_of(c) >> 18 & 1) {
            uint32_t half = bits_of(c) >> 16;
            there[i / 8] |= (uint8_t)(1u << i % 8);
            *end++ = (uint8_t)half;
            *end++ = (uint8_t)(half >> 8);
            sent = upper(half);
        }
        if (residual)
            residual[i] = c - sent;
    }
    if (end == image + HEAD + 1) /* as short as a mark */
        *end++ = 0;
    wi_put32(image, (uint32_t)(end - image));
    return 0;
}

static int read_image(const struct weft_codec *codec, const void *from, size_t bytes, size_t elems, float *dst,
                      void *scratch)
{
    const uint8_t *image = from, *there = image + HEAD, *next = there + (elems + 7) / 8, *end = image + bytes;

    (void)codec, (void)scratch;
    if (bytes == HEAD + 1) {
        for (size_t i = 0; i < elems; i++)
            dst[i] = NAN;
        return 0;
    }
    if (next > end)
        return -1;
    for (size_t i = 0; i < elems; i++) {
        dst[i] = 0;
        if (!(there[i / 8] >> i % 8 & 1))
            continue;
        if (end - next < 2)
            return -1;
        dst[i] = upper((uint32_t)next[0] | (uint32_t)next[1] << 8);
        next += 2;
    }
    return end - next > 1 ? -1 : 0;
}

static int is_finite(const struct weft_codec *codec, const void *image)
{
    (void)codec;
    return wi_get32(image) != HEAD + 1;
}

static const struct weft_codec_ops ops = {.bytes = sizeof ops,
                                          .parameters = parameters,
                                          .configure = configure,
                                          .encode = encode,
                                          .is_finite = is_finite,
                                          .read = read_image};
static const struct weft_plugin varied = {.abi = WEFT_PLUGIN_ABI,
                                          .bytes = sizeof varied,
                                          .kind = WEFT_PLUGIN_CODEC,
                                          .name = "varied",
                                          .summary = "for tests: what varies is the length",
                                          .ops = &ops};

int varied_register(void)
{
    int added;

    return wi_codec_add(&varied, "tests/exec/varied.c", &added) < 0 ? -1 : 0;
}
