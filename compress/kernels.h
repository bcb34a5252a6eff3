/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels behind codec.h, one table for each instruction set. */
#ifndef WI_COMPRESS_KERNELS_H
#define WI_COMPRESS_KERNELS_H

#include "compress/codec.h"

#define WI_CODEC_SCALE_BYTES 2u

struct wi_codec_kernels {
    const char *isa; /* as wi_isa_name */
    size_t (*encode)(size_t block, const float *src, float *residual, size_t elems, uint8_t *image);
    void (*decode)(size_t block, const uint8_t *image, size_t elems, float *dst);
    void (*sum)(size_t block, const struct wi_codec_operands *operands, size_t elems, float *dst);
    size_t (*sum_encode)(size_t block, const struct wi_codec_operands *operands, float factor, float *residual, size_t elems,
                         uint8_t *image, float *dst);
};
/* [WI_CODEC_KINDS] */
extern const struct wi_codec_kernels wi_codec_kernels_any[], wi_codec_kernels_avx2[], wi_codec_kernels_avx512[];

#endif
