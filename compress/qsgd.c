/* SPDX-License-Identifier: BSD-3-Clause */
/* qsgd, terngrad: unbiased levels, by stochastic rounding.
 *
 *     image of a block = unit (bf16, little-endian) | codes of 2, 4, 6 or 8 bits, one little-endian number
 *
 * qsgd: the levels -s..s of ||x|| / s, the norm of the block rounded up (Alistarh et al., QSGD, NeurIPS 2017). Its error is at most
 * min(B / s^2, sqrt(B) / s) of the square, which may be more than the vector: average it over ranks, without error feedback.
 *
 * terngrad: -m, 0 or m; m is the largest magnitude after those above `clip` root mean squares of the block were cut (Wen et al.,
 * TernGrad, NeurIPS 2017, where it is the standard deviation; about zero, a block of equal elements is not cut away). clip=0 does
 * not cut, and is unbiased. */
#include "compress/built_in.h"
#include "compress/kernels.h"

enum { BLOCK, LEVELS, QSGD_SEED };
static const struct weft_codec_parameter qsgd_rows[] = {
    WI_BLOCK_ROW,
    {"levels", "7", WEFT_CODEC_INTEGER, 1, 127, NULL, "levels of each sign; 1: 2 bits, 7: 4, 31: 6, 127: 8"},
    WI_SEED_ROW,
    WI_LAST_ROW};

static weft_status configure_qsgd(struct weft_codec *c, char *why, size_t capacity)
{
    int64_t s = c->value[LEVELS].integer;
    struct wi_kernel_args a = {.kernels = WI_KERNELS_QUANT, .rule = WI_UNIT_NORM, .stochastic = 1, .most = (float)s};
    float by_steps, by_zero, root = 1;

    (void)why, (void)capacity;
    a.bits = s <= 1 ? 2 : s <= 7 ? 4 : s <= 31 ? 6 : 8;
    a.seed = (uint32_t)c->value[QSGD_SEED].integer;
    c->block = (uint32_t)c->value[BLOCK].integer;
    c->block_bytes = WI_CODEC_SCALE_BYTES + (size_t)c->block * a.bits / 8;
    c->traits = WEFT_CODEC_UNBIASED;
    c->lossy_limit = 2;
    c->limit = 0x1p116f; /* below, the norm of the longest block is finite */
    while (root * root < (float)c->block)
        root += .25f;
    by_steps = (float)c->block / (6 * (float)(s * s)); /* uniform in a step; where nearly all are below the first: */
    by_zero = .8f * root / (float)s;
    c->nmse = by_steps < by_zero ? by_steps : by_zero;
    c->encode_rate = WI_QUANT_RANDOM_RATE;
    c->decode_rate = WI_QUANT_DECODE_RATE;
    wi_kernel_args_set(c, a);
    return WEFT_SUCCESS;
}

enum { CLIP = 1, TERNGRAD_SEED };
static const struct weft_codec_parameter terngrad_rows[] = {
    WI_BLOCK_ROW,
    {"clip", "2.5", WEFT_CODEC_REAL, 0, 100, NULL, "root mean squares from which on magnitudes are cut; 0: never"},
    WI_SEED_ROW,
    WI_LAST_ROW};

static weft_status configure_terngrad(struct weft_codec *c, char *why, size_t capacity)
{
    struct wi_kernel_args a = {.kernels = WI_KERNELS_QUANT, .stochastic = 1, .bits = 2, .most = 1};

    (void)why, (void)capacity;
    a.clip = (float)c->value[CLIP].real;
    a.rule = a.clip > 0 ? WI_UNIT_CLIPPED : WI_UNIT_MOST;
    a.seed = (uint32_t)c->value[TERNGRAD_SEED].integer;
    c->block = (uint32_t)c->value[BLOCK].integer;
    c->block_bytes = WI_CODEC_SCALE_BYTES + (size_t)c->block / 4;
    c->traits = a.clip > 0 ? 0 : WEFT_CODEC_UNBIASED;
    c->lossy_limit = 2;
    c->limit = 0x1p127f;
    c->nmse = a.clip > 0 && a.clip < 3 ? .8f * a.clip - .9f : 1.3f;
    if (c->nmse < .3f)
        c->nmse = .3f;
    c->encode_rate = WI_QUANT_RANDOM_RATE;
    c->decode_rate = WI_QUANT_DECODE_RATE;
    wi_kernel_args_set(c, a);
    return WEFT_SUCCESS;
}

static const struct weft_codec_ops qsgd = {WI_KERNELS_OPS, .parameters = qsgd_rows, .configure = configure_qsgd,
                                           .is_finite = wi_kernels_unit_is_finite};
static const struct weft_codec_ops terngrad = {WI_KERNELS_OPS, .parameters = terngrad_rows,
                                               .configure = configure_terngrad, .is_finite = wi_kernels_unit_is_finite};
const struct weft_plugin wi_codec_qsgd = WI_CODEC_PLUGIN("qsgd", "unbiased levels, scaled by the norm", &qsgd);
const struct weft_plugin wi_codec_terngrad =
    WI_CODEC_PLUGIN("terngrad", "-1, 0 or 1, scaled by max|x|, on average right", &terngrad);
