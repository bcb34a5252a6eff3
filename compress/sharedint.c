/* SPDX-License-Identifier: BSD-3-Clause */
/* sharedint: integers whose scale is the same on all ranks, so that they are summed as integers, by any algorithm, on any device
 * that adds integers, without a loss on the way (Li et al., THC: Accelerating Distributed Deep Learning Using Tensor Homomorphic
 * Compression, NSDI 2024; Mishchenko et al., IntSGD: Adaptive Floatless Compression of Stochastic Gradients, ICLR 2022).
 *
 *     agreed on for a block: scale, the bits of a bf16 as uint16, the maximum over the ranks of max|x| / L, rounded up
 *     summed: round(x / scale) as int8 or int16
 *     image of a block, of other collectives: scale | codes, little-endian, of one rank, with L for ranks=
 *
 * L = 127 / P or 32767 / P levels on each side of zero, P ranks: the sum of all fits its type. A NaN, whose bits are above those of
 * every number, is the maximum where one rank has it. */
#include <stdio.h>

#include "base/status.h"
#include "compress/built_in.h"
#include "compress/kernels.h"

enum { WIRE, BLOCK, ROUND, SEED, RANKS };
static const struct weft_codec_parameter rows[] = {
    {"wire", "int8", WEFT_CODEC_WORD, 0, 0, "int8|int16", "type of the sums"},
    WI_BLOCK_ROW,
    {"round", "nearest", WEFT_CODEC_WORD, 0, 0, "nearest|stochastic", "which of two levels is taken"},
    WI_SEED_ROW,
    {"ranks", "1", WEFT_CODEC_INTEGER, 1, 10922, NULL, "of images: how many ranks' sum its type must hold"},
    WI_LAST_ROW};

#define LEAST_LEVELS 3 /* on each side: as int4 has 7, int2 has 1.5 */

/* Have the sums of so many ranks room, with levels that are worth it? */
static weft_status check_levels(const struct wi_kernel_args a, int64_t nranks, char *why, size_t capacity)
{
    if ((int64_t)a.most / nranks >= LEAST_LEVELS)
        return WEFT_SUCCESS;
    snprintf(why, capacity, "wire=%s holds the sum of at most %d ranks, and here are %lld%s",
             a.bits == 8 ? "int8" : "int16", (int)a.most / LEAST_LEVELS, (long long)nranks,
             a.bits == 8 ? ": take wire=int16" : "");
    return WEFT_ENOTSUP;
}

static weft_status configure(struct weft_codec *c, char *why, size_t capacity)
{
    struct wi_kernel_args a = {.kernels = WI_KERNELS_SHARED, .seed = (uint32_t)c->value[SEED].integer};
    int64_t ranks = c->value[RANKS].integer;

    a.bits = c->value[WIRE].integer ? 16 : 8;
    a.most = a.bits == 16 ? 32767 : 127;
    a.stochastic = c->value[ROUND].integer != 0;
    if (check_levels(a, ranks, why, capacity) < 0)
        return WEFT_EINVAL;
    a.clip = (float)((int64_t)a.most / ranks);
    c->block = (uint32_t)c->value[BLOCK].integer;
    c->block_bytes = WI_CODEC_SCALE_BYTES + (size_t)c->block * a.bits / 8;
    c->traits = WEFT_CODEC_LINEAR | (a.stochastic ? WEFT_CODEC_UNBIASED : WEFT_CODEC_CONTRACTIVE);
    c->lossy_limit = 2;
    c->limit = 0x1p127f;
    c->nmse = (a.stochastic ? 1.36f : .68f) / (a.clip * a.clip); /* of P ranks P^2 times that of one */
    c->encode_rate = a.stochastic ? WI_QUANT_RANDOM_RATE : 6000; /* as int8: weft-codec */
    c->decode_rate = 7000;
    wi_kernel_args_set(c, a);
    return WEFT_SUCCESS;
}

static weft_status linear(const struct weft_codec *c, int nranks, struct weft_codec_linear *l, char *why,
                          size_t capacity)
{
    const struct wi_kernel_args a = wi_kernel_args(c);

    WI_TRY(check_levels(a, nranks, why, capacity));
    *l = (struct weft_codec_linear){.dtype = a.bits == 8 ? WEFT_INT8 : WEFT_INT16,
                                    .elems = c->block,
                                    .agreement = WEFT_CODEC_AGREE_MAX,
                                    .agreed_dtype = WEFT_UINT16,
                                    .agreed_elems = 1};
    return WEFT_SUCCESS;
}

static void propose(const struct weft_codec *codec, const struct weft_codec_site *site, int nranks, const float *src,
                    size_t elems, void *agreed, void *scratch)
{
    (void)site, (void)scratch;
    wi_shared_kernels_of_this_cpu()->propose(codec, nranks, src, elems, agreed);
}

static size_t project(const struct weft_codec *codec, const struct weft_codec_site *site, int nranks,
                      const void *agreed, const float *src, size_t elems, void *vector, void *scratch)
{
    (void)scratch;
    return wi_shared_kernels_of_this_cpu()->project(codec, site, nranks, agreed, src, elems, vector);
}

static size_t expand(const struct weft_codec *codec, const struct weft_codec_site *site, int nranks, const void *agreed,
                     const void *vector, size_t elems, float *dst, void *scratch)
{
    (void)site, (void)nranks, (void)scratch;
    return wi_shared_kernels_of_this_cpu()->expand(codec, agreed, vector, elems, dst);
}

static const struct weft_codec_ops ops = {
    WI_KERNELS_OPS,   .parameters = rows, .configure = configure, .is_finite = wi_kernels_scale_is_finite,
    .linear = linear, .propose = propose, .project = project,     .expand = expand};
const struct weft_plugin wi_codec_sharedint =
    WI_CODEC_PLUGIN("sharedint", "integers of one scale for all ranks, summed as they are", &ops);
