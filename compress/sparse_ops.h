/* SPDX-License-Identifier: BSD-3-Clause */
/* The ops that all sparse codecs have (sparse.c), as in weft_codec_ops. */
#ifndef WI_COMPRESS_SPARSE_OPS_H
#define WI_COMPRESS_SPARSE_OPS_H

#include <weft/weft_plugin.h>

int wi_sparse_is_finite(const struct weft_codec *codec, const void *image);
size_t wi_sparse_encode(const struct weft_codec *codec, const struct weft_codec_site *site, const float *src,
                        float *residual, size_t elems, void *image, void *scratch);
void wi_sparse_decode(const struct weft_codec *codec, const void *image, size_t elems, float *dst, void *scratch);
void wi_sparse_sum(const struct weft_codec *codec, const struct weft_codec_operands *operands, size_t elems, float *dst,
                   void *scratch);
size_t wi_sparse_sum_encode(const struct weft_codec *codec, const struct weft_codec_site *site,
                            const struct weft_codec_operands *operands, float factor, float *residual, size_t elems,
                            void *image, float *dst, void *scratch);

/* sparse_linear.c */
weft_status wi_sparse_linear(const struct weft_codec *codec, int nranks, struct weft_codec_linear *linear, char *why,
                             size_t capacity);
void wi_sparse_propose(const struct weft_codec *codec, const struct weft_codec_site *site, int nranks, const float *src,
                       size_t elems, void *agreed, void *scratch);
size_t wi_sparse_project(const struct weft_codec *codec, const struct weft_codec_site *site, int nranks, const void *agreed,
                         const float *src, size_t elems, void *vector, void *scratch);
size_t wi_sparse_expand(const struct weft_codec *codec, const struct weft_codec_site *site, int nranks, const void *agreed,
                        const void *vector, size_t elems, float *dst, void *scratch);

#define WI_SPARSE_OPS                                                                               \
    .bytes = sizeof(struct weft_codec_ops), .encode = wi_sparse_encode, .decode = wi_sparse_decode, \
    .is_finite = wi_sparse_is_finite, .sum = wi_sparse_sum, .sum_encode = wi_sparse_sum_encode
#define WI_SPARSE_LINEAR_OPS \
    .linear = wi_sparse_linear, .propose = wi_sparse_propose, .project = wi_sparse_project, .expand = wi_sparse_expand

#endif
