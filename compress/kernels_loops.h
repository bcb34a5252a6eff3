/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels of one instruction set as plain loops over a block, which the compiler makes into vector instructions: those of int8 to
 * sign, and what others have in common with them. Part of each instruction set's source (kernels_set.h).
 *
 * The same operations in the same order on every set are what makes results equal bit for bit: sums have LANES partial sums,
 * nothing but the compiler's vectors is reassociated, and products are not fused with sums (fp-contract=off). */
#include <string.h>

#include "base/bytes.h"
#include "compress/kernels.h"

#define LANES 16
#define AHEAD 512 /* elements that are fetched early: the two passes over a block hide too little from the prefetcher ... */
#define FAR_AHEAD 1024 /* ... where several blocks are read before one is done */
#define IMAGES_MOST 4 /* that are decoded together: a sum is stored once for all of them */
#define INLINE inline __attribute__((always_inline))
#define TOO_LARGE_BITS 0x7f000000u /* 2^127: below, no scale or level becomes infinite */
#define MEAN_IS_LARGE 0x79800000u  /* 2^116: one that is too large in a block of WI_KERNELS_BLOCK_MAX */
#define NAN_SCALE 0x7fc0u          /* bf16 */
#define LEAST_SCALE 0x00800000u    /* the least normal number: its inverse is finite */
#define ROUNDS 12582912.0f         /* 1.5 * 2^23: adding it rounds to the nearest integer, to even when half-way ... */
#define ROUNDS_BITS 0x4b400000     /* ... which is how far the sum's bits are from these */

/* What a kind is, known when its kernels are compiled. A level is code * step - offset. */
struct shape {
    int bits;
    float step, offset;
    float most; /* the largest level of scales by max|x|; 0: the scale is by mean|x| ... */
    float mean; /* ... times this */
};

static INLINE float float_of(uint32_t bits)
{
    float f;

    memcpy(&f, &bits, sizeof f);
    return f;
}

static INLINE uint32_t bits_of(float f)
{
    uint32_t bits;

    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static INLINE size_t code_bytes(const struct shape s, size_t block)
{
    return block * (size_t)s.bits / 8;
}

/* ---- Scales ---- */

/* Magnitudes are ordered as their bits are, infinities and then NaNs above all others. */
static INLINE uint32_t largest_bits(const float *c, size_t block)
{
    uint32_t most = 0;

    for (size_t i = 0; i < block; i++) {
        uint32_t magnitude = bits_of(c[i]) & 0x7fffffffu;
        most = magnitude > most ? magnitude : most;
    }
    return most;
}

static INLINE float sum_of_magnitudes(const float *c, size_t block, float by)
{
    float lane[LANES] = {0}, sum = 0;

    for (size_t i = 0; i < block; i += LANES)
        for (int k = 0; k < LANES; k++)
            lane[k] += float_of(bits_of(c[i + (size_t)k]) & 0x7fffffffu) * by;
    for (int k = 0; k < LANES; k++)
        sum += lane[k];
    return sum;
}

/* The upper 16 bits of a float that is not below 0. */
static INLINE uint32_t round_up(float v)
{
    return (bits_of(v) + 0xffffu) >> 16;
}

static INLINE uint32_t round_nearest(float v)
{
    uint32_t bits = bits_of(v);

    return (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
}

static INLINE uint32_t scale_by_most(const struct shape s, const float *c, size_t block)
{
    uint32_t most = largest_bits(c, block), scale;

    if (most >= TOO_LARGE_BITS)
        return NAN_SCALE;
    scale = round_up(float_of(most) / s.most);
    return scale && scale < LEAST_SCALE >> 16 ? LEAST_SCALE >> 16 : scale;
}

/* n: of its elements that count. Where one may be too large, or the sum is, the parts of the mean are summed. */
static INLINE uint32_t scale_by_mean(const struct shape s, const float *c, size_t block, size_t n)
{
    float mean = sum_of_magnitudes(c, block, 1) / (float)n;

    if (bits_of(mean) >= MEAN_IS_LARGE) {
        if (largest_bits(c, block) >= TOO_LARGE_BITS)
            return NAN_SCALE;
        mean = sum_of_magnitudes(c, block, 1.0f / (float)n);
    }
    return round_nearest(mean * s.mean);
}

/* ---- Codes ---- */

static INLINE void codes_of(const struct shape s, const float *c, size_t block, float scale, uint8_t *codes)
{
    float inverse = scale > 0 ? 1.0f / scale : 0;
    int32_t middle = (int32_t)s.offset;

    if (s.most > 0) {
        for (size_t i = 0; i < block; i++)
            codes[i] = (uint8_t)((int32_t)bits_of(c[i] * inverse + ROUNDS) - ROUNDS_BITS + middle);
    } else if (s.bits > 1) {
        for (size_t i = 0; i < block; i++)
            codes[i] = (uint8_t)((c[i] >= -scale) + (c[i] >= 0) + (c[i] >= scale));
    } else {
        for (size_t i = 0; i < block; i++)
            codes[i] = (uint8_t)(~bits_of(c[i]) >> 31);
    }
}

/* Eight codes, one in each byte, side by side; and apart again. Sets with instructions for it define GATHER_BITS and
 * SCATTER_BITS. */
static INLINE uint64_t pack_word(const struct shape s, uint64_t codes)
{
    uint64_t ones = 0x0101010101010101u, packed = 0;

#ifdef GATHER_BITS
    return GATHER_BITS(codes, ones * ((1u << s.bits) - 1));
#endif
    (void)ones;
    for (int i = 0; i < 8; i++)
        packed |= (codes >> 8 * i & 0xff) << s.bits * i;
    return packed;
}

static INLINE uint64_t unpack_word(const struct shape s, uint64_t packed)
{
    uint64_t mask = (1u << s.bits) - 1, codes = 0;

#ifdef SCATTER_BITS
    return SCATTER_BITS(packed, 0x0101010101010101u * mask);
#endif
    for (int i = 0; i < 8; i++)
        codes |= (packed >> s.bits * i & mask) << 8 * i;
    return codes;
}

static INLINE void pack(const struct shape s, const uint8_t *codes, size_t block, uint8_t *image)
{
    for (size_t i = 0; i < block; i += 8, image += s.bits) {
        uint64_t word = pack_word(s, wi_get64(codes + i));
        for (int k = 0; k < s.bits; k++)
            image[k] = (uint8_t)(word >> 8 * k);
    }
}

static INLINE void unpack(const struct shape s, const uint8_t *image, size_t block, uint8_t *codes)
{
    for (size_t i = 0; i < block; i += 8, image += s.bits) {
        uint64_t word = 0;
        for (int k = 0; k < s.bits; k++)
            word |= (uint64_t)image[k] << 8 * k;
        wi_put64(codes + i, unpack_word(s, word));
    }
}

static INLINE float level_of(const struct shape s, uint8_t code)
{
    return (float)(int32_t)code * s.step - s.offset;
}

static INLINE float scale_of(const uint8_t *image)
{
    return float_of((uint32_t)image[0] << 16 | (uint32_t)image[1] << 24);
}

#ifdef WI_CODEC_EIGHT
#include "compress/kernels_eight.h"
#endif

/* ---- A block ---- */

/* Of a block of which n elements count. */
static INLINE uint32_t block_scale(const struct shape s, size_t block, const float *c, size_t n)
{
    return s.most > 0 ? scale_by_most(s, c, block) : scale_by_mean(s, c, block, n);
}

static INLINE void codes_and_residual(const struct shape s, size_t block, const float *c, size_t n, float scale,
                                      float *residual, uint8_t *codes)
{
    uint8_t unpacked[WI_KERNELS_BLOCK_MAX], *each = s.bits == 8 ? codes : unpacked;

    codes_of(s, c, block, scale, each);
    if (s.bits < 8)
        pack(s, each, block, codes);
    for (size_t i = 0; residual && i < n; i++)
        residual[i] = c[i] - level_of(s, each[i]) * scale;
}

/* `bits`: its scale. */
static INLINE int encode_block(const struct shape s, size_t block, const float *c, size_t n, uint32_t bits, float *residual,
                               uint8_t *image)
{
    uint8_t *codes = image + WI_CODEC_SCALE_BYTES;
    float scale = float_of(bits << 16);

    image[0] = (uint8_t)bits;
    image[1] = (uint8_t)(bits >> 8);
    if (bits == NAN_SCALE) {
        memset(codes, 0, code_bytes(s, block));
        return 1;
    }
#ifdef WI_CODEC_EIGHT
    if (s.bits <= WI_CODEC_EIGHT && (!residual || n == block)) {
        eight_encode(s, block, c, scale, residual, codes);
        return 0;
    }
#endif
    codes_and_residual(s, block, c, n, scale, residual, codes);
    return 0;
}

static INLINE void decode_block(const struct shape s, size_t block, const uint8_t *image, float *dst, int adds)
{
    uint8_t unpacked[WI_KERNELS_BLOCK_MAX];
    const uint8_t *codes = image + WI_CODEC_SCALE_BYTES;
    float scale = scale_of(image);

#ifdef WI_CODEC_EIGHT
    if (s.bits <= WI_CODEC_EIGHT) {
        eight_decode(s, block, &image, 1, dst, adds);
        return;
    }
#endif
    if (s.bits < 8) {
        unpack(s, codes, block, unpacked);
        codes = unpacked;
    }
    for (size_t i = 0; i < block; i++) {
        float v = level_of(s, codes[i]) * scale;
        dst[i] = adds ? dst[i] + v : v;
    }
}

/* The sum of n images, in their order. */
static INLINE void decode_images(const struct shape s, size_t block, const uint8_t *const *images, int n, float *dst, int adds)
{
#ifdef WI_CODEC_EIGHT
    if (s.bits <= WI_CODEC_EIGHT) {
        eight_decode(s, block, images, n, dst, adds);
        return;
    }
#endif
    for (int k = 0; k < n; k++)
        decode_block(s, block, images[k], dst, adds || k);
}

/* ---- Vectors ---- */

/* Blocks that are encoded together: their scales first, so that the search for one's largest element and the divisions by it do not
 * wait for each other. More are faster in the cache (by a tenth), but not past it, where reading stops meanwhile. */
#define TOGETHER 2

static INLINE void fetch(const float *from, size_t at, size_t elems)
{
    for (size_t i = 0; from && i < elems; i += LANES)
        __builtin_prefetch(from + at + i);
}

static INLINE size_t elems_together(size_t block)
{
    return block * TOGETHER < WI_KERNELS_BLOCK_MAX ? block * TOGETHER : WI_KERNELS_BLOCK_MAX;
}

/* n: elements that count. next, NULL: what is fetched meanwhile, as much as c, a part with each step so that memory is not idle. */
static INLINE size_t encode_together(const struct shape s, size_t block, const float *c, size_t n, float *residual,
                                     uint8_t *image, const float *next, const float *next_residual)
{
    uint32_t scales[TOGETHER];
    size_t bad = 0;

    for (size_t k = 0, at = 0; at < n; k++, at += block) {
        fetch(next, at, block / 2);
        fetch(next_residual, at, block / 2);
        scales[k] = block_scale(s, block, c + at, n - at < block ? n - at : block);
    }
    for (size_t k = 0, at = 0; at < n; k++, at += block, image += WI_CODEC_SCALE_BYTES + code_bytes(s, block)) {
        fetch(next, at + block / 2, block / 2);
        fetch(next_residual, at + block / 2, block / 2);
        bad += (size_t)encode_block(s, block, c + at, n - at < block ? n - at : block, scales[k],
                                    residual ? residual + at : NULL, image);
    }
    return bad;
}

static INLINE size_t image_bytes(const struct shape s, size_t block, size_t elems)
{
    return (elems + block - 1) / block * (WI_CODEC_SCALE_BYTES + code_bytes(s, block));
}

static INLINE size_t encode(const struct shape s, size_t block, const float *src, float *residual, size_t elems,
                            uint8_t *image)
{
    float sums[WI_KERNELS_BLOCK_MAX];
    size_t bad = 0, each = elems_together(block);

    for (size_t at = 0; at < elems; at += each, image += image_bytes(s, block, each)) {
        size_t n = elems - at < each ? elems - at : each;
        const float *c = src + at;
        if (residual || n % block) {
            for (size_t i = 0; i < n; i++)
                sums[i] = residual ? src[at + i] + residual[at + i] : src[at + i];
            memset(sums + n, 0, (each - n) * sizeof *sums);
            c = sums;
        }
        bad += encode_together(s, block, c, n, residual ? residual + at : NULL, image, src + at + FAR_AHEAD,
                               residual ? residual + at + FAR_AHEAD : NULL);
    }
    return bad;
}

static INLINE void decode(const struct shape s, size_t block, const uint8_t *image, size_t elems, float *dst)
{
    float last[WI_KERNELS_BLOCK_MAX];

    for (; elems >= block; elems -= block, dst += block, image += WI_CODEC_SCALE_BYTES + code_bytes(s, block))
        decode_block(s, block, image, dst, 0);
    if (elems) {
        decode_block(s, block, image, last, 0);
        memcpy(dst, last, elems * sizeof *dst);
    }
}

/* Operands from k on that are images, as many as there are but at most IMAGES_MOST; returns how many. */
static INLINE int images_from(const struct weft_codec_operands *o, int k, size_t image_at, const uint8_t **images)
{
    int n = 0;

    for (; n < IMAGES_MOST && k + n < o->n && !o->plain[k + n]; n++)
        images[n] = (const uint8_t *)o->images[k + n] + image_at;
    return n;
}

/* Elements [at, at + count) of the sum; what is behind them in the block is undefined. */
static INLINE void sum_block(const struct shape s, size_t block, const struct weft_codec_operands *o, size_t at,
                             size_t count, float *acc)
{
    size_t image_at = at / block * (WI_CODEC_SCALE_BYTES + code_bytes(s, block));
    const uint8_t *images[IMAGES_MOST];

    for (int k = 0, n; k < o->n; k += n) {
        const float *plain = o->plain[k];
        n = images_from(o, k, image_at, images) == IMAGES_MOST ? IMAGES_MOST : 1;
        if (n == IMAGES_MOST)
            decode_images(s, block, images, IMAGES_MOST, acc, k > 0);
        else if (!plain)
            decode_images(s, block, images, 1, acc, k > 0);
        else if (k)
            for (size_t i = 0; i < count; i++)
                acc[i] += plain[at + i];
        else
            memcpy(acc, plain + at, count * sizeof *acc);
    }
}

static INLINE void sum(const struct shape s, size_t block, const struct weft_codec_operands *o, size_t elems,
                       float *dst)
{
    float acc[WI_KERNELS_BLOCK_MAX];

    for (size_t at = 0; at < elems; at += block) {
        size_t count = elems - at < block ? elems - at : block;
        sum_block(s, block, o, at, count, acc);
        memcpy(dst + at, acc, count * sizeof *dst);
    }
}

/* All that is summed, encoded, decoded again to `dst`, unless that is NULL: a part that stays in the cache. */
static INLINE size_t sum_encode(const struct shape s, size_t block, const struct weft_codec_operands *o, float factor,
                                float *residual, size_t elems, uint8_t *image, float *dst)
{
    float acc[WI_KERNELS_BLOCK_MAX];
    size_t bad = 0, each = elems_together(block);

    for (size_t at = 0; at < elems; at += each, image += image_bytes(s, block, each)) {
        size_t n = elems - at < each ? elems - at : each;
        for (size_t k = 0; k < n; k += block)
            sum_block(s, block, o, at + k, n - k < block ? n - k : block, acc + k);
        for (size_t i = 0; i < n; i++)
            acc[i] = residual ? acc[i] * factor + residual[at + i] : acc[i] * factor;
        memset(acc + n, 0, (each - n) * sizeof *acc);
        bad += encode_together(s, block, acc, n, residual ? residual + at : NULL, image, NULL, NULL);
        if (dst)
            decode(s, block, image, n, dst + at);
    }
    return bad;
}

#define KERNELS(name, ...)                                                                                            \
    static size_t name##_encode(const struct weft_codec *codec, const struct weft_codec_site *site, const float *src, \
                                float *residual, size_t elems, uint8_t *image)                                        \
    {                                                                                                                 \
        (void)site;                                                                                                   \
        return encode((struct shape){__VA_ARGS__}, codec->block, src, residual, elems, image);                        \
    }                                                                                                                 \
    static void name##_decode(const struct weft_codec *codec, const uint8_t *image, size_t elems, float *dst)         \
    {                                                                                                                 \
        decode((struct shape){__VA_ARGS__}, codec->block, image, elems, dst);                                         \
    }                                                                                                                 \
    static void name##_sum(const struct weft_codec *codec, const struct weft_codec_operands *o, size_t elems,         \
                           float *dst)                                                                                \
    {                                                                                                                 \
        sum((struct shape){__VA_ARGS__}, codec->block, o, elems, dst);                                                \
    }                                                                                                                 \
    static size_t name##_sum_encode(const struct weft_codec *codec, const struct weft_codec_site *site,               \
                                    const struct weft_codec_operands *o, float factor, float *residual, size_t elems, \
                                    uint8_t *image, float *dst)                                                       \
    {                                                                                                                 \
        (void)site;                                                                                                   \
        return sum_encode((struct shape){__VA_ARGS__}, codec->block, o, factor, residual, elems, image, dst);         \
    }
KERNELS(int8, .bits = 8, .step = 1, .offset = 128, .most = 127)
KERNELS(int6, .bits = 6, .step = 1, .offset = 32, .most = 31)
KERNELS(int4, .bits = 4, .step = 1, .offset = 8, .most = 7)
KERNELS(int2, .bits = 2, .step = 1, .offset = 1.5f, .mean = 1.25f)
KERNELS(sign, .bits = 1, .step = 2, .offset = 1, .mean = 1)
