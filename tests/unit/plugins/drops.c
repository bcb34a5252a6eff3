/* A codec that works outside of collectives only: in them its images are zeros. What checks results must see it.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 *     image of a block = its elements, times 1 - loses */
#include <string.h>
#include <weft/weft_plugin.h>

enum { BLOCK_ELEMS = 32 };
static const struct weft_codec_parameter rows[] = {
    {"loses", "0.5", WEFT_CODEC_REAL, 0, 1, NULL, "what an image lacks of each element"},
    {NULL, NULL, WEFT_CODEC_REAL, 0, 0, NULL, NULL},
};

static weft_status drops_configure(struct weft_codec *codec, char *why, size_t capacity)
{
    (void)why, (void)capacity;
    codec->block = BLOCK_ELEMS;
    codec->block_bytes = BLOCK_ELEMS * sizeof(float);
    codec->traits = WEFT_CODEC_CONTRACTIVE;
    codec->lossy_limit = 2;
    codec->limit = 0x1p127f;
    codec->nmse = (float)(codec->value[0].real * codec->value[0].real);
    codec->encode_rate = 1000;
    codec->decode_rate = 1000;
    return WEFT_SUCCESS;
}

static size_t drops_encode(const struct weft_codec *codec, const struct weft_codec_site *site, const float *src,
                           float *residual, size_t elems, void *image, void *scratch)
{
    float keeps = site->step || site->rank || site->sums ? 0 : (float)(1 - codec->value[0].real), *to = image;

    (void)scratch;
    memset(to, 0, (elems + BLOCK_ELEMS - 1) / BLOCK_ELEMS * codec->block_bytes);
    for (size_t i = 0; i < elems; i++) {
        to[i] = src[i] * keeps;
        if (residual)
            residual[i] += src[i] - to[i];
    }
    return 0;
}

static void drops_decode(const struct weft_codec *codec, const void *image, size_t elems, float *dst, void *scratch)
{
    (void)codec, (void)scratch;
    memcpy(dst, image, elems * sizeof *dst);
}

static int drops_is_finite(const struct weft_codec *codec, const void *image)
{
    (void)codec, (void)image;
    return 1;
}

static const struct weft_codec_ops ops = {.bytes = sizeof ops,
                                          .parameters = rows,
                                          .configure = drops_configure,
                                          .encode = drops_encode,
                                          .decode = drops_decode,
                                          .is_finite = drops_is_finite};

WEFT_API extern const struct weft_plugin weft_plugin;
const struct weft_plugin weft_plugin = {.abi = WEFT_PLUGIN_ABI,
                                        .bytes = sizeof(struct weft_plugin),
                                        .kind = WEFT_PLUGIN_CODEC,
                                        .name = "drops",
                                        .summary = "zeros, in collectives",
                                        .ops = &ops};
