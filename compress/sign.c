/* SPDX-License-Identifier: BSD-3-Clause */
/* sign: one bit an element, and the mean magnitude of each block.
 *
 *     image of a block = mean|x| (bf16, little-endian) | bits, 1: not negative, block / 8 bytes
 *
 * With the mean of magnitudes, not their root mean square, the error is below the vector (contraction): Karimireddy et al., Error
 * Feedback Fixes SignSGD, ICML 2019. means=2 has the mean of the negative ones, then that of the others (Seide et al., 1-bit SGD,
 * Interspeech 2014): better where they differ. */
#include "compress/built_in.h"
#include "compress/kernels.h"

enum { BLOCK, MEANS };
static const struct weft_codec_parameter rows[] = {
    WI_BLOCK_ROW,
    {"means", "1", WEFT_CODEC_INTEGER, 1, 2, NULL, "2: one of the negative elements, one of the others"},
    WI_LAST_ROW};

static weft_status configure(struct weft_codec *c, char *why, size_t capacity)
{
    int two = c->value[MEANS].integer == 2;

    (void)why, (void)capacity;
    c->block = (uint32_t)c->value[BLOCK].integer;
    c->block_bytes = (two ? 2 : 1) * WI_CODEC_SCALE_BYTES + (size_t)c->block / 8;
    c->traits = WEFT_CODEC_CONTRACTIVE;
    c->lossy_limit = 2;
    c->limit = 0x1p127f;
    c->nmse = .363f;
    c->encode_rate = two ? 2500 : 6500;
    c->decode_rate = two ? 4000 : 6500;
    wi_kernel_args_set(c, (struct wi_kernel_args){.kernels = two ? WI_KERNELS_MEANS : WI_KERNELS_SIGN});
    return WEFT_SUCCESS;
}

static const struct weft_codec_ops ops = {WI_KERNELS_OPS, .parameters = rows, .configure = configure,
                                          .is_finite = wi_kernels_scale_is_finite};
const struct weft_plugin wi_codec_sign = WI_CODEC_PLUGIN("sign", "the sign, scaled by mean|x|", &ops);
