/* SPDX-License-Identifier: BSD-3-Clause */
/* Codecs of a fixed rate for fp32: each block of elements becomes one image of so many bytes, whatever its values are, so that
 * coded data is cut, sent and moved as blocks of a data type are.
 *
 *     image of a block = scale (bf16, little-endian) | codes, block * bits / 8 bytes
 *
 * An element's value is level(code) * scale. The product is exact in fp32, so that decoding gives the same bits everywhere, with
 * and without fused multiply-adds. The code of element i is bits [i * bits, (i + 1) * bits) of the codes, a little-endian number.
 * The last block of a vector may have fewer elements; its image is as long as the others' and its missing elements are zeros.
 *
 * A block with a NaN, an infinity or a magnitude of 2^127 or more is not finite: its scale is NaN, and so it is NaN wherever it is
 * decoded.
 *
 * Results do not depend on the instruction set (base/reduce.h: wi_isa_force), on alignment, or on how a vector is cut at blocks. */
#ifndef WI_COMPRESS_CODEC_H
#define WI_COMPRESS_CODEC_H

#include <stddef.h>
#include <stdint.h>
#include <weft/weft.h>

/* X(NAME, text, bits of a code, what its levels are)
 * The integers: the levels -L..L, L = 2^(bits - 1) - 1, of scale = max|x| / L, rounded up, so that the largest is not clipped.
 * INT2: +-1/2 and +-3/2 of 1.25 * mean|x|; for a Gaussian that is about its deviation, the best step for these four.
 * SIGN: +-mean|x|. With the mean of magnitudes, not their root mean square, the error is below the vector (contraction):
 * Karimireddy et al., Error Feedback Fixes SignSGD, ICML 2019. */
#define WI_CODEC_LIST(X)                                      \
    X(INT8, "int8", 8, "signed integers, scaled by max|x|")   \
    X(INT6, "int6", 6, "signed integers, scaled by max|x|")   \
    X(INT4, "int4", 4, "signed integers, scaled by max|x|")   \
    X(INT2, "int2", 2, "four levels, scaled by mean|x|")      \
    X(SIGN, "sign", 1, "the sign, scaled by mean|x|")

enum wi_codec_kind {
#define WI_CODEC_KIND(name, text, bits, levels) WI_CODEC_##name,
    WI_CODEC_LIST(WI_CODEC_KIND)
#undef WI_CODEC_KIND
        WI_CODEC_KINDS
};

enum { WI_CODEC_BLOCK_MIN = 32, WI_CODEC_BLOCK_MAX = 2048 };

struct wi_codec {
    enum wi_codec_kind kind;
    uint32_t block; /* elements; a power of two within the limits above */
};

const char *wi_codec_name(enum wi_codec_kind kind);
/* From "int8" or "int4:block=64"; a block has 128 elements if none is named. WEFT_EINVAL with text (the nearest name, the range),
 * and *codec stays as it was. */
weft_status wi_codec_parse(const char *spec, struct wi_codec *codec);
/* How a call uses a codec. */
struct wi_codec_use {
    struct wi_codec codec;
    uint8_t on;         /* 0: not at all */
    uint8_t feedback;   /* it keeps what is lost, and adds it the next time */
    uint8_t may_bypass; /* plain data is sent where that is faster */
    size_t min_bytes;   /* shorter vectors are sent as they are */
};
/* The same with ef=0|1 (0), bypass=auto|never (auto), min=BYTES (0; with K, M, G) among the parameters. "", "none": not at all. */
weft_status wi_codec_parse_use(const char *spec, struct wi_codec_use *use);
/* Into text, which wi_codec_parse reads: the same for the same codec. Returns text. */
const char *wi_codec_text(const struct wi_codec *codec, char *text, size_t capacity);
/* WEFT_EINVAL with text: an unknown kind, a block that is not a power of two within the limits. */
weft_status wi_codec_check(const struct wi_codec *codec);
/* Of one block's image, and of that of `elems` elements. The latter is SIZE_MAX if there is no such length. */
size_t wi_codec_block_bytes(const struct wi_codec *codec);
size_t wi_codec_bytes(const struct wi_codec *codec, size_t elems);

/* Is it finite, block `block` of an image? */
int wi_codec_is_finite(const struct wi_codec *codec, const void *image, size_t block);

/* Vectors that are not of fp32 are converted: of fp16 and bf16, rounded to nearest even. */
int wi_codec_takes(weft_dtype dtype);
void wi_codec_widen(weft_dtype dtype, const void *src, float *dst, size_t elems);
void wi_codec_narrow(weft_dtype dtype, const float *src, void *dst, size_t elems);

/* Encode `elems` elements into wi_codec_bytes of `image`. With a residual (of as many elements, or NULL) it is added first, and
 * becomes what the image does not hold, src + residual - decoded; that of a block which is not finite stays as it was. Returns
 * how many blocks are not finite. */
size_t wi_codec_encode(const struct wi_codec *codec, const float *src, float *residual, size_t elems, void *image);
void wi_codec_decode(const struct wi_codec *codec, const void *image, size_t elems, float *dst);
/* What is summed, in fp32, from the first to the last: images, but for plain[k] where that is not NULL. */
struct wi_codec_operands {
    int n; /* at least 1 */
    const void *const *images;
    const float *const *plain;
};
/* `dst` may be a plain operand. */
void wi_codec_sum(const struct wi_codec *codec, const struct wi_codec_operands *operands, size_t elems, float *dst);
/* Encode the sum times `factor` as wi_codec_encode does, residual and returned number included. `dst`, NULL or as above, gets what
 * the image holds: whoever sums for others has the same result as they. */
size_t wi_codec_sum_encode(const struct wi_codec *codec, const struct wi_codec_operands *operands, float factor,
                           float *residual, size_t elems, void *image, float *dst);

#endif
