/* SPDX-License-Identifier: BSD-3-Clause */
/* int8, int6, int4, int2: signed integers with a scale for each block.
 *
 *     image of a block = scale (bf16, little-endian) | codes, block * bits / 8 bytes
 *
 * The code of element i is bits [i * bits, (i + 1) * bits) of the codes, a little-endian number. int8 to int4 have the levels
 * -L..L, L = 2^(bits - 1) - 1, of scale = max|x| / L, rounded up, so that the largest is not clipped. int2 has +-1/2 and +-3/2 of
 * 1.25 * mean|x|; for a Gaussian that is about its deviation, the best step for these four. The product of level and scale is exact
 * in fp32.
 *
 * Other forms (kernels_quant.h): scale=fp32; levels=minmax, 2^bits of them from the least to the largest element, with a second
 * number, the middle, behind the scale; round=stochastic, unbiased; hadamard=1, the block is turned by random signs and a Hadamard
 * transform before, so that the error does not depend on the distribution. */
#include <stdio.h>

#include "compress/built_in.h"
#include "compress/kernels.h"

enum { BLOCK, SCALE, LEVELS, ROUND, HADAMARD, SEED };
static const struct weft_codec_parameter rows[] = {
    WI_BLOCK_ROW,
    {"scale", "bf16", WEFT_CODEC_WORD, 0, 0, "bf16|fp32", "format of the scales"},
    {"levels", "symmetric", WEFT_CODEC_WORD, 0, 0, "symmetric|minmax", "where levels are"},
    {"round", "nearest", WEFT_CODEC_WORD, 0, 0, "nearest|stochastic", "which of two levels is taken"},
    {"hadamard", "0", WEFT_CODEC_INTEGER, 0, 1, NULL, "1: a randomised Hadamard transform of each block"},
    WI_SEED_ROW,
    WI_LAST_ROW};

/* Error and rates of the usual form, those of one core with AVX-512. */
static const struct form {
    uint32_t bits, kernels, lossy_limit;
    float nmse, encode_rate, decode_rate;
} forms[] = {
    {8, WI_KERNELS_INT8, 0, 4.2e-5f, 7000, 8000},
    {6, WI_KERNELS_INT6, 2, 7e-4f, 5500, 6500},
    {4, WI_KERNELS_INT4, 2, .014f, 6000, 7000},
    {2, WI_KERNELS_INT2, 2, .119f, 4500, 6000},
};

static int is_usual(const struct weft_codec *c)
{
    return !c->value[SCALE].integer && !c->value[LEVELS].integer && !c->value[ROUND].integer &&
           !c->value[HADAMARD].integer;
}

/* An element's error is at most a step (nearest: half of one), and its square on average a quarter of the step's: the block's is
 * below the vector if the block is short enough for its steps, which are of the largest element, or of the range. */
static int contracts(const struct weft_codec *c, uint32_t bits)
{
    uint32_t most = (1u << (bits - 1)) - 1, all = (1u << bits) - 1;

    if (c->value[LEVELS].integer)
        return c->block < 2 * all * all;
    return !c->value[ROUND].integer || c->block < 4 * most * most;
}

static void configure_form(struct weft_codec *c, const struct form *f)
{
    struct wi_kernel_args a = {
        .kernels = WI_KERNELS_QUANT, .bits = (uint8_t)f->bits, .seed = (uint32_t)c->value[SEED].integer};

    a.wide = c->value[SCALE].integer != 0;
    a.minmax = c->value[LEVELS].integer != 0;
    a.stochastic = c->value[ROUND].integer != 0;
    a.hadamard = c->value[HADAMARD].integer != 0;
    a.halves = a.minmax || f->bits == 2;
    a.rule = f->bits == 2 ? WI_UNIT_MEAN : WI_UNIT_MOST;
    a.most = (float)((1 << (f->bits - 1)) - 1);
    c->block_bytes = (a.wide ? 4u : 2u) * (1u + a.minmax) + (size_t)c->block * f->bits / 8;
    c->traits = (contracts(c, f->bits) ? WEFT_CODEC_CONTRACTIVE : 0) | (a.stochastic ? WEFT_CODEC_UNBIASED : 0);
    c->limit = a.hadamard ? 0x1p116f : 0x1p127f;
    c->nmse *= (a.stochastic ? 2.0f : 1.0f) * (a.minmax && f->bits == 2 ? 2.0f : 1.0f);
    c->encode_rate = a.hadamard ? WI_QUANT_TURNED_RATE : a.stochastic ? WI_QUANT_RANDOM_RATE : WI_QUANT_RATE;
    c->decode_rate = a.hadamard ? WI_QUANT_TURNED_RATE : WI_QUANT_DECODE_RATE;
    wi_kernel_args_set(c, a);
}

static weft_status configure(struct weft_codec *c, const struct form *f, char *why, size_t capacity)
{
    if (f->bits == 2 && c->value[ROUND].integer && !c->value[LEVELS].integer) {
        snprintf(why, capacity,
                 "round=stochastic needs levels=minmax: the symmetric levels of int2 clip the largest elements");
        return WEFT_EINVAL;
    }
    c->block = (uint32_t)c->value[BLOCK].integer;
    c->block_bytes = WI_CODEC_SCALE_BYTES + (size_t)c->block * f->bits / 8;
    c->traits = WEFT_CODEC_CONTRACTIVE;
    c->lossy_limit = f->lossy_limit;
    c->limit = 0x1p127f;
    c->nmse = f->nmse;
    c->encode_rate = f->encode_rate;
    c->decode_rate = f->decode_rate;
    if (is_usual(c))
        wi_kernel_args_set(c, (struct wi_kernel_args){.kernels = f->kernels});
    else
        configure_form(c, f);
    return WEFT_SUCCESS;
}

#define INT(bits_, i, summary_)                                                                                      \
    static weft_status configure_##bits_(struct weft_codec *c, char *why, size_t capacity)                           \
    {                                                                                                                \
        return configure(c, &forms[i], why, capacity);                                                               \
    }                                                                                                                \
    static const struct weft_codec_ops ops_##bits_ = {                                                               \
        WI_KERNELS_OPS, .parameters = rows, .configure = configure_##bits_, .is_finite = wi_kernels_unit_is_finite}; \
    const struct weft_plugin wi_codec_int##bits_ = WI_CODEC_PLUGIN("int" #bits_, summary_, &ops_##bits_);
INT(8, 0, "signed integers, scaled by max|x|")
INT(6, 1, "signed integers, scaled by max|x|")
INT(4, 2, "signed integers, scaled by max|x|")
INT(2, 3, "four levels, scaled by mean|x|")
