/* SPDX-License-Identifier: BSD-3-Clause */
/* What codecs are called, how long their images are, and which kernels do the work. */
#include "compress/codec.h"

#include <string.h>

#include "base/reduce.h"
#include "base/status.h"
#include "compress/kernels.h"

static const struct {
    const char *name;
    uint32_t bits;
} kinds[] = {
#define ROW(name, text, bits, levels) {text, bits},
    WI_CODEC_LIST(ROW)
#undef ROW
};

const char *wi_codec_name(enum wi_codec_kind kind)
{
    return (unsigned)kind < WI_CODEC_KINDS ? kinds[kind].name : "unknown";
}

weft_status wi_codec_check(const struct wi_codec *codec)
{
    uint32_t b = codec->block;

    if ((unsigned)codec->kind >= WI_CODEC_KINDS)
        return wi_fail(WEFT_EINVAL, "codec: %d is not a kind of codec", (int)codec->kind);
    if (b < WI_CODEC_BLOCK_MIN || b > WI_CODEC_BLOCK_MAX || (b & (b - 1)))
        return wi_fail(WEFT_EINVAL, "codec %s: a block has %u elements, which is not a power of two from %d to %d",
                       kinds[codec->kind].name, b, WI_CODEC_BLOCK_MIN, WI_CODEC_BLOCK_MAX);
    return WEFT_SUCCESS;
}

size_t wi_codec_block_bytes(const struct wi_codec *codec)
{
    return WI_CODEC_SCALE_BYTES + (size_t)codec->block * kinds[codec->kind].bits / 8;
}

size_t wi_codec_bytes(const struct wi_codec *codec, size_t elems)
{
    size_t blocks = elems / codec->block + (elems % codec->block != 0), bytes;

    return __builtin_mul_overflow(blocks, wi_codec_block_bytes(codec), &bytes) ? SIZE_MAX : bytes;
}

/* The instruction set that reductions use, so that one setting (WEFT_ISA) is about both. */
static const struct wi_codec_kernels *kernels_of(const struct wi_codec *codec)
{
#if defined(__x86_64__)
    const char *isa = wi_isa_name();

    if (!strcmp(isa, wi_codec_kernels_avx512[0].isa))
        return &wi_codec_kernels_avx512[codec->kind];
    if (!strcmp(isa, wi_codec_kernels_avx2[0].isa))
        return &wi_codec_kernels_avx2[codec->kind];
#endif
    return &wi_codec_kernels_any[codec->kind];
}

int wi_codec_is_finite(const struct wi_codec *codec, const void *image, size_t block)
{
    const uint8_t *scale = (const uint8_t *)image + block * wi_codec_block_bytes(codec);

    return (scale[1] & 0x7f) != 0x7f || !(scale[0] & 0x80); /* all bits of a bf16's exponent */
}

size_t wi_codec_encode(const struct wi_codec *codec, const float *src, float *residual, size_t elems, void *image)
{
    return kernels_of(codec)->encode(codec->block, src, residual, elems, image);
}

void wi_codec_decode(const struct wi_codec *codec, const void *image, size_t elems, float *dst)
{
    kernels_of(codec)->decode(codec->block, image, elems, dst);
}

void wi_codec_sum(const struct wi_codec *codec, const struct wi_codec_operands *operands, size_t elems, float *dst)
{
    kernels_of(codec)->sum(codec->block, operands, elems, dst);
}

size_t wi_codec_sum_encode(const struct wi_codec *codec, const struct wi_codec_operands *operands, float factor,
                           float *residual, size_t elems, void *image, float *dst)
{
    return kernels_of(codec)->sum_encode(codec->block, operands, factor, residual, elems, image, dst);
}
