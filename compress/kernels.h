/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels of the built-in codecs, one table for each instruction set, and the ops that lead to them. */
#ifndef WI_COMPRESS_KERNELS_H
#define WI_COMPRESS_KERNELS_H

#include <string.h>

#include "compress/codec.h"

/* ---- What a codec has in weft_codec.priv ---- */

enum wi_kernels_id {
    WI_KERNELS_INT8,
    WI_KERNELS_INT6,
    WI_KERNELS_INT4,
    WI_KERNELS_INT2,
    WI_KERNELS_SIGN,
    WI_KERNELS_BF16,
    WI_KERNELS_FP16,
    WI_KERNELS_E4M3,
    WI_KERNELS_E5M2,
    WI_KERNELS_MX_E4M3,
    WI_KERNELS_MX_E5M2,
    WI_KERNELS_MX_E2M3,
    WI_KERNELS_MX_E3M2,
    WI_KERNELS_MX_E2M1,
    WI_KERNELS_QUANT,
    WI_KERNELS_NATURAL,
    WI_KERNELS_MEANS,
    WI_KERNELS_SHARED,
    WI_KERNELS
};

/* What the step between levels is of. */
enum wi_unit_rule { WI_UNIT_MOST, WI_UNIT_MEAN, WI_UNIT_NORM, WI_UNIT_CLIPPED };

struct wi_kernel_args {
    uint32_t kernels; /* enum wi_kernels_id */
    uint32_t seed;
    /* Of WI_KERNELS_QUANT, some of WI_KERNELS_SHARED. */
    uint8_t bits, rule; /* of a code; enum wi_unit_rule */
    uint8_t wide;       /* scales are fp32 */
    uint8_t minmax, halves, stochastic, hadamard;
    uint8_t reserved;
    float most; /* the largest level; of WI_KERNELS_SHARED that of the sum of all ranks */
    float clip; /* of WI_UNIT_CLIPPED; of WI_KERNELS_SHARED the largest level of images */
};

static inline struct wi_kernel_args wi_kernel_args(const struct weft_codec *codec)
{
    struct wi_kernel_args args;

    memcpy(&args, codec->priv, sizeof args);
    return args;
}

static inline void wi_kernel_args_set(struct weft_codec *codec, struct wi_kernel_args args)
{
    _Static_assert(sizeof args <= sizeof codec->priv, "what kernels need to know fits");
    memcpy(codec->priv, &args, sizeof args);
}

/* ---- Kernels ---- */

#define WI_CODEC_SCALE_BYTES 2u   /* bf16 */
#define WI_KERNELS_BLOCK_MAX 2048 /* so that a block's elements and codes are on the stack */

struct wi_codec_kernels {
    size_t (*encode)(const struct weft_codec *codec, const struct weft_codec_site *site, const float *src,
                     float *residual, size_t elems, uint8_t *image);
    void (*decode)(const struct weft_codec *codec, const uint8_t *image, size_t elems, float *dst);
    void (*sum)(const struct weft_codec *codec, const struct weft_codec_operands *operands, size_t elems, float *dst);
    size_t (*sum_encode)(const struct weft_codec *codec, const struct weft_codec_site *site,
                         const struct weft_codec_operands *operands, float factor, float *residual, size_t elems,
                         uint8_t *image, float *dst);
};
/* As in weft_codec_ops, of sharedint. */
struct wi_shared_kernels {
    void (*propose)(const struct weft_codec *codec, int nranks, const float *src, size_t elems, uint16_t *scales);
    size_t (*project)(const struct weft_codec *codec, const struct weft_codec_site *site, int nranks, const uint16_t *scales,
                      const float *src, size_t elems, uint8_t *codes);
    size_t (*expand)(const struct weft_codec *codec, const uint16_t *scales, const uint8_t *codes, size_t elems, float *dst);
};
extern const struct wi_shared_kernels wi_shared_kernels_any, wi_shared_kernels_avx2, wi_shared_kernels_avx512;
const struct wi_shared_kernels *wi_shared_kernels_of_this_cpu(void);
/* [WI_KERNELS], and what wi_isa_name calls the instruction set. */
extern const struct wi_codec_kernels wi_codec_kernels_any[], wi_codec_kernels_avx2[], wi_codec_kernels_avx512[];
extern const char wi_codec_isa_avx2[], wi_codec_isa_avx512[];

/* ---- Ops of codecs with kernels ---- */

size_t wi_kernels_encode(const struct weft_codec *codec, const struct weft_codec_site *site, const float *src,
                         float *residual, size_t elems, void *image, void *scratch);
void wi_kernels_decode(const struct weft_codec *codec, const void *image, size_t elems, float *dst, void *scratch);
void wi_kernels_sum(const struct weft_codec *codec, const struct weft_codec_operands *operands, size_t elems,
                    float *dst, void *scratch);
size_t wi_kernels_sum_encode(const struct weft_codec *codec, const struct weft_codec_site *site,
                             const struct weft_codec_operands *operands, float factor, float *residual, size_t elems,
                             void *image, float *dst, void *scratch);
/* Of images that begin with a bf16, which is NaN if the block is not finite. */
int wi_kernels_scale_is_finite(const struct weft_codec *codec, const void *image);
/* Likewise with a bf16 or, if the kernels' arguments say so, an fp32. */
int wi_kernels_unit_is_finite(const struct weft_codec *codec, const void *image);

#define WI_KERNELS_OPS                                                                                \
    .bytes = sizeof(struct weft_codec_ops), .encode = wi_kernels_encode, .decode = wi_kernels_decode, \
    .sum = wi_kernels_sum, .sum_encode = wi_kernels_sum_encode

/* ---- Rows that several families have ---- */

#define WI_BLOCK_ROW                                                                                           \
    {                                                                                                          \
        "block", "128", WEFT_CODEC_POWER_OF_TWO, 32, WI_KERNELS_BLOCK_MAX, NULL, "elements that share a scale" \
    }
#define WI_SEED_ROW                                                                                             \
    {                                                                                                           \
        "seed", "1", WEFT_CODEC_INTEGER, 0, 4294967295.0, NULL, "of random numbers: the same on all ranks" \
    }
#define WI_LAST_ROW                                           \
    {                                                         \
        NULL, NULL, WEFT_CODEC_POWER_OF_TWO, 0, 0, NULL, NULL \
    }
#define WI_CODEC_PLUGIN(name_, summary_, ops_)                                                                 \
    {                                                                                                          \
        .abi = WEFT_PLUGIN_ABI, .bytes = sizeof(struct weft_plugin), .kind = WEFT_PLUGIN_CODEC, .name = name_, \
        .summary = summary_, .ops = ops_                                                                       \
    }

/* Of the general kernels, as in weft_codec: with random numbers, with a Hadamard transform. */
#define WI_QUANT_RATE 2500
#define WI_QUANT_RANDOM_RATE 600
#define WI_QUANT_TURNED_RATE 800
#define WI_QUANT_DECODE_RATE 3000

#endif
