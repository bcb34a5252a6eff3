/* SPDX-License-Identifier: BSD-3-Clause */
/* int8, int6, int4, int2: signed integers with a scale for each block.
 *
 *     image of a block = scale (bf16, little-endian) | codes, block * bits / 8 bytes
 *
 * The code of element i is bits [i * bits, (i + 1) * bits) of the codes, a little-endian number. int8 to int4 have the levels -L..L,
 * L = 2^(bits - 1) - 1, of scale = max|x| / L, rounded up, so that the largest is not clipped. int2 has +-1/2 and +-3/2 of
 * 1.25 * mean|x|; for a Gaussian that is about its deviation, the best step for these four. The product of level and scale is exact
 * in fp32. */
#include "compress/built_in.h"
#include "compress/kernels.h"

enum { BLOCK };
static const struct weft_codec_parameter rows[] = {WI_BLOCK_ROW, WI_LAST_ROW};

/* Error and rates: tests/bench has what they were measured with. */
static const struct form {
    uint32_t bits, kernels, lossy_limit;
    float nmse, encode_rate, decode_rate;
} forms[] = {
    {8, WI_KERNELS_INT8, 0, 4.2e-5f, 7000, 8000},
    {6, WI_KERNELS_INT6, 2, 7e-4f, 5500, 6500},
    {4, WI_KERNELS_INT4, 2, .014f, 6000, 7000},
    {2, WI_KERNELS_INT2, 2, .119f, 4500, 6000},
};

static weft_status configure(struct weft_codec *c, const struct form *f)
{
    c->block = (uint32_t)c->value[BLOCK].integer;
    c->block_bytes = WI_CODEC_SCALE_BYTES + (size_t)c->block * f->bits / 8;
    c->traits = WEFT_CODEC_CONTRACTIVE;
    c->lossy_limit = f->lossy_limit;
    c->limit = 0x1p127f;
    c->nmse = f->nmse;
    c->encode_rate = f->encode_rate;
    c->decode_rate = f->decode_rate;
    wi_kernel_args_set(c, (struct wi_kernel_args){.kernels = f->kernels});
    return WEFT_SUCCESS;
}

#define INT(bits_, i, summary_)                                                                                       \
    static weft_status configure_##bits_(struct weft_codec *c, char *why, size_t capacity)                            \
    {                                                                                                                 \
        (void)why, (void)capacity;                                                                                    \
        return configure(c, &forms[i]);                                                                               \
    }                                                                                                                 \
    static const struct weft_codec_ops ops_##bits_ = {                                                                \
        WI_KERNELS_OPS, .parameters = rows, .configure = configure_##bits_, .is_finite = wi_kernels_scale_is_finite}; \
    const struct weft_plugin wi_codec_int##bits_ = WI_CODEC_PLUGIN("int" #bits_, summary_, &ops_##bits_);
INT(8, 0, "signed integers, scaled by max|x|")
INT(6, 1, "signed integers, scaled by max|x|")
INT(4, 2, "signed integers, scaled by max|x|")
INT(2, 3, "four levels, scaled by mean|x|")
