/* SPDX-License-Identifier: BSD-3-Clause */
/* bf16, fp16: each element by itself, rounded to nearest even. A sum of several is made in fp32 and rounded once.
 *
 *     image of a block of 32 = 16 bits an element, little-endian
 *
 * A block is only what is NaN together: bf16 overflows where fp32 nearly does, fp16 from 65,520 on. */
#include "compress/built_in.h"
#include "compress/kernels.h"

static weft_status configure(struct weft_codec *c, uint32_t kernels, float limit, float nmse, float encode,
                             float decode)
{
    c->block = 32;
    c->block_bytes = 2 * 32;
    c->traits = WEFT_CODEC_CONTRACTIVE;
    c->limit = limit;
    c->nmse = nmse;
    c->encode_rate = encode;
    c->decode_rate = decode;
    wi_kernel_args_set(c, (struct wi_kernel_args){.kernels = kernels});
    return WEFT_SUCCESS;
}

/* The first element says it, for all are NaN if the block is not finite. */
static int is_finite(const void *image, uint32_t exponent)
{
    const uint8_t *e = image;

    return (((uint32_t)e[1] << 8 | e[0]) & exponent) != exponent;
}

static weft_status configure_bf16(struct weft_codec *c, char *why, size_t capacity)
{
    (void)why, (void)capacity;
    return configure(c, WI_KERNELS_BF16, 0x1.ffp127f, 2.8e-6f, 8000, 8000);
}

static weft_status configure_fp16(struct weft_codec *c, char *why, size_t capacity)
{
    (void)why, (void)capacity;
    return configure(c, WI_KERNELS_FP16, 65520, 4.3e-8f, 6000, 6000);
}

static int bf16_is_finite(const struct weft_codec *c, const void *image)
{
    (void)c;
    return is_finite(image, 0x7f80);
}

static int fp16_is_finite(const struct weft_codec *c, const void *image)
{
    (void)c;
    return is_finite(image, 0x7c00);
}

static const struct weft_codec_ops bf16 = {WI_KERNELS_OPS, .configure = configure_bf16, .is_finite = bf16_is_finite};
static const struct weft_codec_ops fp16 = {WI_KERNELS_OPS, .configure = configure_fp16, .is_finite = fp16_is_finite};
const struct weft_plugin wi_codec_bf16 = WI_CODEC_PLUGIN("bf16", "brain floats of 16 bits", &bf16);
const struct weft_plugin wi_codec_fp16 = WI_CODEC_PLUGIN("fp16", "IEEE floats of 16 bits, below 65520", &fp16);
