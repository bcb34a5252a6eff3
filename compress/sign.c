/* SPDX-License-Identifier: BSD-3-Clause */
/* sign: one bit an element, and the mean magnitude of each block.
 *
 *     image of a block = mean|x| (bf16, little-endian) | bits, 1: not negative, block / 8 bytes
 *
 * With the mean of magnitudes, not their root mean square, the error is below the vector (contraction): Karimireddy et al., Error
 * Feedback Fixes SignSGD, ICML 2019. */
#include "compress/built_in.h"
#include "compress/kernels.h"

enum { BLOCK };
static const struct weft_codec_parameter rows[] = {WI_BLOCK_ROW, WI_LAST_ROW};

static weft_status configure(struct weft_codec *c, char *why, size_t capacity)
{
    (void)why, (void)capacity;
    c->block = (uint32_t)c->value[BLOCK].integer;
    c->block_bytes = WI_CODEC_SCALE_BYTES + (size_t)c->block / 8;
    c->traits = WEFT_CODEC_CONTRACTIVE;
    c->lossy_limit = 2;
    c->limit = 0x1p127f;
    c->nmse = .363f;
    c->encode_rate = 6500;
    c->decode_rate = 6500;
    wi_kernel_args_set(c, (struct wi_kernel_args){.kernels = WI_KERNELS_SIGN});
    return WEFT_SUCCESS;
}

static const struct weft_codec_ops ops = {WI_KERNELS_OPS, .parameters = rows, .configure = configure,
                                          .is_finite = wi_kernels_scale_is_finite};
const struct weft_plugin wi_codec_sign = WI_CODEC_PLUGIN("sign", "the sign, scaled by mean|x|", &ops);
