/* SPDX-License-Identifier: BSD-3-Clause */
/* Vectors of kernels that know how to encode and decode one block. Part of each instruction set's source, behind
 * kernels_loops.h. */

struct job {
    size_t block, bytes; /* of a block: elements, of its image */
    struct wi_kernel_args args;
    const struct weft_codec_site *site;
    const float *turns; /* of a Hadamard transform (kernels_quant.h) */
};

/* Element `first` of the vector is c[0]; from n on they are zeros, and no residual is written. Returns 1: it is not finite. */
typedef int encode_block_fn(const struct job *j, uint64_t first, const float *c, size_t n, float *residual, uint8_t *image);
/* All elements of the block; adds: to what is there. */
typedef void decode_block_fn(const struct job *j, const uint8_t *image, float *dst, int adds);

static INLINE size_t encode_blocks(const struct job *j, encode_block_fn *encode_one, const float *src, float *residual,
                                   size_t elems, uint8_t *image)
{
    float sums[WI_KERNELS_BLOCK_MAX];
    size_t bad = 0;

    for (size_t at = 0; at < elems; at += j->block, image += j->bytes) {
        size_t n = elems - at < j->block ? elems - at : j->block;
        const float *c = src + at;
        for (size_t i = 0; i < j->block; i += LANES)
            __builtin_prefetch(c + i + AHEAD);
        if (residual || n < j->block) {
            for (size_t i = 0; i < n; i++)
                sums[i] = residual ? src[at + i] + residual[at + i] : src[at + i];
            memset(sums + n, 0, (j->block - n) * sizeof *sums);
            c = sums;
        }
        bad += (size_t)encode_one(j, j->site->first + at, c, n, residual ? residual + at : NULL, image);
    }
    return bad;
}

static INLINE void decode_blocks(const struct job *j, decode_block_fn *decode_one, const uint8_t *image, size_t elems, float *dst)
{
    float last[WI_KERNELS_BLOCK_MAX];

    for (; elems >= j->block; elems -= j->block, dst += j->block, image += j->bytes)
        decode_one(j, image, dst, 0);
    if (elems) {
        decode_one(j, image, last, 0);
        memcpy(dst, last, elems * sizeof *dst);
    }
}

/* As sum_block in kernels_loops.h. */
static INLINE void sum_one(const struct job *j, decode_block_fn *decode_one, const struct weft_codec_operands *o, size_t at,
                           size_t count, float *acc)
{
    for (int k = 0; k < o->n; k++) {
        const float *plain = o->plain[k];
        if (!plain)
            decode_one(j, (const uint8_t *)o->images[k] + at / j->block * j->bytes, acc, k > 0);
        else if (k)
            for (size_t i = 0; i < count; i++)
                acc[i] += plain[at + i];
        else
            memcpy(acc, plain + at, count * sizeof *acc);
    }
}

static INLINE void sum_blocks(const struct job *j, decode_block_fn *decode_one, const struct weft_codec_operands *o, size_t elems,
                              float *dst)
{
    float acc[WI_KERNELS_BLOCK_MAX];

    for (size_t at = 0; at < elems; at += j->block) {
        size_t count = elems - at < j->block ? elems - at : j->block;
        sum_one(j, decode_one, o, at, count, acc);
        memcpy(dst + at, acc, count * sizeof *dst);
    }
}

static INLINE size_t sum_encode_blocks(const struct job *j, encode_block_fn *encode_one, decode_block_fn *decode_one,
                                       const struct weft_codec_operands *o, float factor, float *residual, size_t elems,
                                       uint8_t *image, float *dst)
{
    float acc[WI_KERNELS_BLOCK_MAX];
    size_t bad = 0;

    for (size_t at = 0; at < elems; at += j->block, image += j->bytes) {
        size_t count = elems - at < j->block ? elems - at : j->block;
        sum_one(j, decode_one, o, at, count, acc);
        for (size_t i = 0; i < count; i++)
            acc[i] = residual ? acc[i] * factor + residual[at + i] : acc[i] * factor;
        memset(acc + count, 0, (j->block - count) * sizeof *acc);
        bad += (size_t)encode_one(j, j->site->first + at, acc, count, residual ? residual + at : NULL, image);
        if (!dst)
            continue;
        decode_one(j, image, acc, 0);
        memcpy(dst + at, acc, count * sizeof *dst);
    }
    return bad;
}

/* The four kernels `name` of name_encode_one and name_decode_one. block, bytes: of a block; where they are constants, so are the
 * trip counts of the loops. */
#define BLOCKWISE(name, block, bytes)                                                                                            \
    static size_t name##_encode(const struct weft_codec *codec, const struct weft_codec_site *site, const float *src,           \
                                float *residual, size_t elems, uint8_t *image)                                                  \
    {                                                                                                                            \
        struct job j = {block, bytes, wi_kernel_args(codec), site, NULL};                                                       \
        return encode_blocks(&j, name##_encode_one, src, residual, elems, image);                                               \
    }                                                                                                                            \
    DECODES(name, block, bytes)

/* Those of them that decode first. */
#define DECODES(name, block, bytes)                                                                                              \
    static void name##_decode(const struct weft_codec *codec, const uint8_t *image, size_t elems, float *dst)                   \
    {                                                                                                                            \
        struct job j = {block, bytes, wi_kernel_args(codec), NULL, NULL};                                                       \
        decode_blocks(&j, name##_decode_one, image, elems, dst);                                                                \
    }                                                                                                                            \
    static void name##_sum(const struct weft_codec *codec, const struct weft_codec_operands *o, size_t elems, float *dst)       \
    {                                                                                                                            \
        struct job j = {block, bytes, wi_kernel_args(codec), NULL, NULL};                                                       \
        sum_blocks(&j, name##_decode_one, o, elems, dst);                                                                       \
    }                                                                                                                            \
    static size_t name##_sum_encode(const struct weft_codec *codec, const struct weft_codec_site *site,                         \
                                    const struct weft_codec_operands *o, float factor, float *residual, size_t elems,           \
                                    uint8_t *image, float *dst)                                                                 \
    {                                                                                                                            \
        struct job j = {block, bytes, wi_kernel_args(codec), site, NULL};                                                       \
        return sum_encode_blocks(&j, name##_encode_one, name##_decode_one, o, factor, residual, elems, image, dst);             \
    }
