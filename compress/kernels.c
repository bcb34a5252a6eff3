/* SPDX-License-Identifier: BSD-3-Clause */
/* Which kernels do the work: those of the instruction set that reductions use, so that one setting (WEFT_ISA) is about both. */
#include "compress/kernels.h"

#include "base/reduce.h"

static const struct wi_codec_kernels *kernels_of(const struct weft_codec *codec)
{
    uint32_t i = wi_kernel_args(codec).kernels;
#if defined(__x86_64__)
    const char *isa = wi_isa_name();

    if (!strcmp(isa, wi_codec_isa_avx512))
        return &wi_codec_kernels_avx512[i];
    if (!strcmp(isa, wi_codec_isa_avx2))
        return &wi_codec_kernels_avx2[i];
#endif
    return &wi_codec_kernels_any[i];
}

const struct wi_shared_kernels *wi_shared_kernels_of_this_cpu(void)
{
#if defined(__x86_64__)
    const char *isa = wi_isa_name();

    if (!strcmp(isa, wi_codec_isa_avx512))
        return &wi_shared_kernels_avx512;
    if (!strcmp(isa, wi_codec_isa_avx2))
        return &wi_shared_kernels_avx2;
#endif
    return &wi_shared_kernels_any;
}

int wi_kernels_scale_is_finite(const struct weft_codec *codec, const void *image)
{
    const uint8_t *scale = image;

    (void)codec;
    return (scale[1] & 0x7f) != 0x7f || !(scale[0] & 0x80); /* all bits of a bf16's exponent */
}

int wi_kernels_unit_is_finite(const struct weft_codec *codec, const void *image)
{
    return wi_kernels_scale_is_finite(codec, (const uint8_t *)image + (wi_kernel_args(codec).wide ? 2 : 0));
}

size_t wi_kernels_encode(const struct weft_codec *codec, const struct weft_codec_site *site, const float *src,
                         float *residual, size_t elems, void *image, void *scratch)
{
    (void)scratch;
    return kernels_of(codec)->encode(codec, site, src, residual, elems, image);
}

void wi_kernels_decode(const struct weft_codec *codec, const void *image, size_t elems, float *dst, void *scratch)
{
    (void)scratch;
    kernels_of(codec)->decode(codec, image, elems, dst);
}

void wi_kernels_sum(const struct weft_codec *codec, const struct weft_codec_operands *operands, size_t elems,
                    float *dst, void *scratch)
{
    (void)scratch;
    kernels_of(codec)->sum(codec, operands, elems, dst);
}

size_t wi_kernels_sum_encode(const struct weft_codec *codec, const struct weft_codec_site *site,
                             const struct weft_codec_operands *operands, float factor, float *residual, size_t elems,
                             void *image, float *dst, void *scratch)
{
    (void)scratch;
    return kernels_of(codec)->sum_encode(codec, site, operands, factor, residual, elems, image, dst);
}
