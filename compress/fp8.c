/* SPDX-License-Identifier: BSD-3-Clause */
/* e4m3, e5m2: floats of 8 bits with a scale for each block (Micikevicius et al., FP8 Formats for Deep Learning, 2022).
 *
 *     image of a block = scale (bf16, little-endian) | 8 bits an element
 *
 * The scale is max|x| / the format's largest, rounded up, as that of int8: the largest element is not clipped, and the product of
 * scale and element is exact in fp32. A power of two would save a byte, and leave up to half of the largest binade empty. */
#include "compress/built_in.h"
#include "compress/kernels.h"

enum { BLOCK };
static const struct weft_codec_parameter rows[] = {WI_BLOCK_ROW, WI_LAST_ROW};

static weft_status configure(struct weft_codec *c, uint32_t kernels, float nmse)
{
    c->block = (uint32_t)c->value[BLOCK].integer;
    c->block_bytes = WI_CODEC_SCALE_BYTES + (size_t)c->block;
    c->traits = WEFT_CODEC_CONTRACTIVE;
    c->limit = 0x1p127f;
    c->nmse = nmse;
    c->encode_rate = 4000;
    c->decode_rate = 5000;
    wi_kernel_args_set(c, (struct wi_kernel_args){.kernels = kernels});
    return WEFT_SUCCESS;
}

static weft_status configure_e4m3(struct weft_codec *c, char *why, size_t capacity)
{
    (void)why, (void)capacity;
    return configure(c, WI_KERNELS_E4M3, 6.6e-4f);
}

static weft_status configure_e5m2(struct weft_codec *c, char *why, size_t capacity)
{
    (void)why, (void)capacity;
    return configure(c, WI_KERNELS_E5M2, 2.6e-3f);
}

static const struct weft_codec_ops e4m3 = {WI_KERNELS_OPS, .parameters = rows, .configure = configure_e4m3,
                                           .is_finite = wi_kernels_scale_is_finite};
static const struct weft_codec_ops e5m2 = {WI_KERNELS_OPS, .parameters = rows, .configure = configure_e5m2,
                                           .is_finite = wi_kernels_scale_is_finite};
const struct weft_plugin wi_codec_e4m3 =
    WI_CODEC_PLUGIN("e4m3", "floats of 8 bits, 3 of mantissa, scaled by max|x|", &e4m3);
const struct weft_plugin wi_codec_e5m2 =
    WI_CODEC_PLUGIN("e5m2", "floats of 8 bits, 2 of mantissa, scaled by max|x|", &e5m2);
