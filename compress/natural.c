/* SPDX-License-Identifier: BSD-3-Clause */
/* natural: a power of two for each element, the one below or the one above, right on average (Horvath et al., Natural Compression
 * for Distributed Deep Learning, 2019).
 *
 *     image of a block = scale, an exponent of fp32 | sign and 7 bits for each element
 *
 * Of the 7 bits, 0 is zero, and k the exponent scale - 127 + k. What is 2^126 times below the largest element becomes zero. A
 * scale of 255 marks a block that is not finite. The error is at most 1/8 of the square on average. */
#include "compress/built_in.h"
#include "compress/kernels.h"

enum { BLOCK, SEED };
static const struct weft_codec_parameter rows[] = {WI_BLOCK_ROW, WI_SEED_ROW, WI_LAST_ROW};

static weft_status configure(struct weft_codec *c, char *why, size_t capacity)
{
    (void)why, (void)capacity;
    c->block = (uint32_t)c->value[BLOCK].integer;
    c->block_bytes = 1 + (size_t)c->block;
    c->traits = WEFT_CODEC_CONTRACTIVE | WEFT_CODEC_UNBIASED;
    c->lossy_limit = 2;
    c->limit = 0x1p127f;
    c->nmse = .08f;
    c->encode_rate = WI_QUANT_RANDOM_RATE;
    c->decode_rate = WI_QUANT_DECODE_RATE;
    wi_kernel_args_set(
        c, (struct wi_kernel_args){.kernels = WI_KERNELS_NATURAL, .seed = (uint32_t)c->value[SEED].integer});
    return WEFT_SUCCESS;
}

static int is_finite(const struct weft_codec *c, const void *image)
{
    (void)c;
    return *(const uint8_t *)image != 0xff;
}

static const struct weft_codec_ops ops = {WI_KERNELS_OPS, .parameters = rows, .configure = configure,
                                          .is_finite = is_finite};
const struct weft_plugin wi_codec_natural =
    WI_CODEC_PLUGIN("natural", "the power of two below or above, on average right", &ops);
