/* SPDX-License-Identifier: BSD-3-Clause */
/* Floats of 16 bits and less: casts, and blocks with a scale (cast.c, fp8.c and mx.c say what their images are). Part of each
 * instruction set's source, behind kernels_blocks.h.
 *
 * No element is a case of its own, so that the loops become vector instructions: the rounding of numbers that are normal in the
 * format is done on their bits, that of smaller ones by adding 2^23 steps, and one of both is taken. */

/* sign | exponent | mantissa */
struct mini {
    int bits, mantissa, bias;
    uint32_t nan;     /* magnitudes from here on are not finite; 0: there are none */
    int has_infinity; /* which is the first of those */
    float most;       /* the largest */
    uint32_t nan_code;
};

#define MINI_BF16 {.bits = 16, .mantissa = 7, .bias = 127, .nan = 0x7f80, .has_infinity = 1, .nan_code = 0x7fc0}
#define MINI_FP16 {.bits = 16, .mantissa = 10, .bias = 15, .nan = 0x7c00, .has_infinity = 1, .nan_code = 0x7e00}
#define MINI_E4M3 {.bits = 8, .mantissa = 3, .bias = 7, .nan = 0x7f, .most = 448}
#define MINI_E5M2 {.bits = 8, .mantissa = 2, .bias = 15, .nan = 0x7c, .has_infinity = 1, .most = 57344}
#define MINI_E3M2 {.bits = 6, .mantissa = 2, .bias = 3, .most = 28}
#define MINI_E2M3 {.bits = 6, .mantissa = 3, .bias = 1, .most = 7.5f}
#define MINI_E2M1 {.bits = 4, .mantissa = 1, .bias = 1, .most = 6}

/* 2^e, of a normal number. */
static INLINE float power_of_two(int e)
{
    return float_of((uint32_t)(e + 127) << 23);
}

/* Without a jump: compilers do not make additions of floats that may not be needed. */
static INLINE uint32_t chosen(int first, uint32_t a, uint32_t b)
{
    uint32_t mask = 0u - (uint32_t)first;

    return (a & mask) | (b & ~mask);
}

static INLINE uint32_t mini_code(const struct mini f, float v)
{
    int drop = 23 - f.mantissa;
    uint32_t bits = bits_of(v), magnitude = bits & 0x7fffffffu, sign = bits >> 31 << (f.bits - 1);
    uint32_t normal = ((magnitude + ((1u << (drop - 1)) - 1) + (magnitude >> drop & 1)) >> drop) -
                      ((uint32_t)(127 - f.bias) << f.mantissa);
    float steps = f.bias < 127 ? power_of_two(24 - f.bias - f.mantissa) : 0; /* 2^23 of the smallest */
    uint32_t small = bits_of(float_of(magnitude) + steps) - bits_of(steps);

    return sign | chosen(f.bias < 127 && magnitude < (uint32_t)(128 - f.bias) << 23, small, normal);
}

static INLINE float mini_value(const struct mini f, uint32_t code)
{
    uint32_t magnitude = code & ((1u << (f.bits - 1)) - 1), sign = code >> (f.bits - 1) << 31;
    uint32_t normal = (magnitude << (23 - f.mantissa)) + ((uint32_t)(127 - f.bias) << 23);
    float step = f.bias < 127 ? power_of_two(1 - f.bias - f.mantissa) : 0;
    uint32_t small = bits_of((float)(int32_t)magnitude * step);
    uint32_t value = chosen(f.bias < 127 && magnitude < 1u << f.mantissa, small, normal);

    if (f.bits == 16 && f.bias == 127) /* bf16: a float's upper half */
        return float_of(code << 16);
    if (f.nan)
        value = chosen(magnitude < f.nan, value, 0x7f800000u | (uint32_t)(!f.has_infinity || magnitude > f.nan) << 22);
    return float_of(sign | value);
}

/* ---- Casts ---- */

#define CAST_BLOCK 32
#define CAST_RUN 256 /* elements that are looked at together: a block of its own would be mostly the search for its largest */

/* Little endian, in one store where the machine is. */
static INLINE void put16(uint8_t *at, uint32_t v)
{
    uint16_t whole = (uint16_t)v;

    if (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__) {
        memcpy(at, &whole, sizeof whole);
        return;
    }
    at[0] = (uint8_t)v;
    at[1] = (uint8_t)(v >> 8);
}

static INLINE uint32_t get16(const uint8_t *at)
{
    uint16_t whole;

    if (__BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__)
        return (uint32_t)at[0] | (uint32_t)at[1] << 8;
    memcpy(&whole, at, sizeof whole);
    return whole;
}

static INLINE void cast_codes(const struct mini f, const float *c, size_t elems, size_t n, float *residual, uint8_t *image)
{
    for (size_t i = 0; i < elems; i++)
        put16(image + 2 * i, mini_code(f, c[i]));
    for (size_t i = 0; residual && i < n; i++)
        residual[i] = c[i] - mini_value(f, get16(image + 2 * i));
}

static INLINE int cast_encode(const struct mini f, uint32_t limit, const float *c, size_t n, float *residual, uint8_t *image)
{
    int bad = largest_bits(c, CAST_BLOCK) >= limit;

    if (!bad)
        cast_codes(f, c, CAST_BLOCK, n, residual, image);
    for (size_t i = 0; bad && i < CAST_BLOCK; i++)
        put16(image + 2 * i, f.nan_code);
    return bad;
}

/* 0: one of the elements is too large, and nothing is done. */
static INLINE int cast_run(const struct mini f, uint32_t limit, const float *src, float *residual, uint8_t *image)
{
    float sums[CAST_RUN];

    for (size_t i = 0; residual && i < CAST_RUN; i++)
        sums[i] = src[i] + residual[i];
    if (largest_bits(residual ? sums : src, CAST_RUN) >= limit)
        return 0;
    cast_codes(f, residual ? sums : src, CAST_RUN, CAST_RUN, residual, image);
    return 1;
}

static INLINE void cast_decode(const struct mini f, const uint8_t *image, float *dst, int adds)
{
    for (size_t i = 0; i < CAST_BLOCK; i++) {
        float v = mini_value(f, get16(image + 2 * i));
        dst[i] = adds ? dst[i] + v : v;
    }
}

#define CAST(name, format, limit)                                                                                               \
    static INLINE int name##_encode_one(const struct job *j, uint64_t first, const float *c, size_t n, float *residual,        \
                                        uint8_t *image)                                                                         \
    {                                                                                                                           \
        (void)j, (void)first;                                                                                                   \
        return cast_encode((struct mini)format, limit, c, n, residual, image);                                                  \
    }                                                                                                                           \
    static INLINE void name##_decode_one(const struct job *j, const uint8_t *image, float *dst, int adds)                      \
    {                                                                                                                           \
        (void)j;                                                                                                                \
        cast_decode((struct mini)format, image, dst, adds);                                                                     \
    }                                                                                                                           \
    DECODES(name, CAST_BLOCK, 2 * CAST_BLOCK)                                                                                   \
    static size_t name##_encode(const struct weft_codec *codec, const struct weft_codec_site *site, const float *src,           \
                                float *residual, size_t elems, uint8_t *image)                                                  \
    {                                                                                                                           \
        struct job j = {CAST_BLOCK, 2 * CAST_BLOCK, wi_kernel_args(codec), site, NULL};                                         \
        size_t bad = 0;                                                                                                         \
                                                                                                                                \
        for (size_t at = 0, n; at < elems; at += n) {                                                                           \
            float *of = residual ? residual + at : NULL;                                                                        \
            n = elems - at < CAST_RUN ? elems - at : CAST_RUN;                                                                  \
            for (size_t i = 0; i < CAST_RUN; i += LANES)                                                                        \
                __builtin_prefetch(src + at + i + AHEAD);                                                                       \
            if (n < CAST_RUN || !cast_run((struct mini)format, limit, src + at, of, image + 2 * at))                            \
                bad += encode_blocks(&j, name##_encode_one, src + at, of, n, image + 2 * at);                                   \
        }                                                                                                                       \
        return bad;                                                                                                             \
    }
CAST(bf16, MINI_BF16, 0x7f7f8000u)
CAST(fp16, MINI_FP16, 0x477ff000u)

/* ---- Blocks with a scale ---- */

/* With at most 8 bits. */
static INLINE void scaled_codes(const struct mini f, size_t block, const float *c, float inverse, uint8_t *codes)
{
    for (size_t i = 0; i < block; i++) {
        uint32_t bits = bits_of(c[i] * inverse), magnitude = bits & 0x7fffffffu, most = bits_of(f.most);
        magnitude = magnitude < most ? magnitude : most;
        codes[i] = (uint8_t)mini_code(f, float_of((bits & 0x80000000u) | magnitude));
    }
}

static INLINE void scaled_rest(const struct mini f, const float *c, size_t n, float scale, const uint8_t *codes, float *residual)
{
    for (size_t i = 0; residual && i < n; i++)
        residual[i] = c[i] - mini_value(f, codes[i]) * scale;
}

static INLINE void scaled_values(const struct mini f, size_t block, const uint8_t *codes, float scale, float *dst, int adds)
{
    for (size_t i = 0; i < block; i++) {
        float v = mini_value(f, codes[i]) * scale;
        dst[i] = adds ? dst[i] + v : v;
    }
}

/* Scaled by a bf16 so that the largest becomes the format's largest, or somewhat less. */
static INLINE int fp8_encode(const struct mini f, size_t block, const float *c, size_t n, float *residual, uint8_t *image)
{
    uint32_t bits = scale_by_most((struct shape){.most = f.most}, c, block);
    float scale = float_of(bits << 16);
    uint8_t *codes = image + WI_CODEC_SCALE_BYTES;

    image[0] = (uint8_t)bits;
    image[1] = (uint8_t)(bits >> 8);
    if (bits == NAN_SCALE) {
        memset(codes, 0, block);
        return 1;
    }
    scaled_codes(f, block, c, scale > 0 ? 1.0f / scale : 0, codes);
    scaled_rest(f, c, n, scale, codes, residual);
    return 0;
}

#define FP8(name, format)                                                                                                       \
    static INLINE int name##_encode_one(const struct job *j, uint64_t first, const float *c, size_t n, float *residual,        \
                                        uint8_t *image)                                                                         \
    {                                                                                                                           \
        (void)first;                                                                                                            \
        return fp8_encode((struct mini)format, j->block, c, n, residual, image);                                                \
    }                                                                                                                           \
    static INLINE void name##_decode_one(const struct job *j, const uint8_t *image, float *dst, int adds)                      \
    {                                                                                                                           \
        scaled_values((struct mini)format, j->block, image + WI_CODEC_SCALE_BYTES, scale_of(image), dst, adds);                 \
    }                                                                                                                           \
    BLOCKWISE(name, codec->block, codec->block_bytes)
FP8(e4m3, MINI_E4M3)
FP8(e5m2, MINI_E5M2)

/* ---- OCP Microscaling: 32 elements, and a power of two in 8 bits ---- */

#define MX_BLOCK 32
#define MX_NAN 0xff

/* The exponent of the format's largest. */
static INLINE uint32_t mx_emax(const struct mini f)
{
    return (bits_of(f.most) >> 23) - 127;
}

static INLINE float mx_scale(uint8_t e)
{
    return float_of(e == MX_NAN ? 0x7fc00000u : e ? (uint32_t)e << 23 : 0x00400000u);
}

static INLINE int mx_encode(const struct mini f, const float *c, size_t n, float *residual, uint8_t *image)
{
    uint32_t most = largest_bits(c, MX_BLOCK), e = most >> 23, emax = mx_emax(f);
    uint8_t codes[MX_BLOCK];

    if (most >= TOO_LARGE_BITS) {
        memset(image, 0, 1 + MX_BLOCK * (size_t)f.bits / 8);
        image[0] = MX_NAN;
        return 1;
    }
    e = e > emax ? e - emax : 1; /* not below the least normal number, whose inverse is one, too */
    image[0] = (uint8_t)e;
    scaled_codes(f, MX_BLOCK, c, float_of((254 - e) << 23), codes);
    if (f.bits == 8)
        memcpy(image + 1, codes, MX_BLOCK);
    else
        pack((struct shape){.bits = f.bits}, codes, MX_BLOCK, image + 1);
    scaled_rest(f, c, n, mx_scale((uint8_t)e), codes, residual);
    return 0;
}

static INLINE void mx_decode(const struct mini f, const uint8_t *image, float *dst, int adds)
{
    uint8_t codes[MX_BLOCK];

    if (f.bits == 8)
        memcpy(codes, image + 1, MX_BLOCK);
    else
        unpack((struct shape){.bits = f.bits}, image + 1, MX_BLOCK, codes);
    scaled_values(f, MX_BLOCK, codes, mx_scale(image[0]), dst, adds);
}

#define MX(name, format, bits)                                                                                                  \
    static INLINE int name##_encode_one(const struct job *j, uint64_t first, const float *c, size_t n, float *residual,        \
                                        uint8_t *image)                                                                         \
    {                                                                                                                           \
        (void)j, (void)first;                                                                                                   \
        return mx_encode((struct mini)format, c, n, residual, image);                                                           \
    }                                                                                                                           \
    static INLINE void name##_decode_one(const struct job *j, const uint8_t *image, float *dst, int adds)                      \
    {                                                                                                                           \
        (void)j;                                                                                                                \
        mx_decode((struct mini)format, image, dst, adds);                                                                       \
    }                                                                                                                           \
    BLOCKWISE(name, MX_BLOCK, 1 + MX_BLOCK * bits / 8)
MX(mx_e4m3, MINI_E4M3, 8)
MX(mx_e5m2, MINI_E5M2, 8)
MX(mx_e2m3, MINI_E2M3, 6)
MX(mx_e3m2, MINI_E3M2, 6)
MX(mx_e2m1, MINI_E2M1, 4)
