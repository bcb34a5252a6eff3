/* SPDX-License-Identifier: BSD-3-Clause */
/* natural, and sign with two means: natural.c and sign.c say what their images are. Part of each instruction set's source, behind
 * kernels_random.h. */

#define NATURAL_NAN 0xff
#define NATURAL_CODES 127 /* binades below and with the scale */

/* ---- natural ---- */

static INLINE float natural_value(uint8_t scale, uint8_t code)
{
    int32_t e = (int32_t)scale - NATURAL_CODES + (code & 0x7f);
    uint32_t magnitude = (code & 0x7f) && e > 0 ? (uint32_t)e << 23 : 0;

    return float_of(scale == NATURAL_NAN ? 0x7fc00000u : magnitude | (uint32_t)(code >> 7) << 31);
}

/* Adding random bits to the mantissa carries into the exponent as often as the mantissa says. What is below the normal numbers
 * becomes zero. */
static int natural_encode_one(const struct job *j, uint64_t first, const float *c, size_t n, float *residual, uint8_t *image)
{
    uint32_t room[RANDOM_ROOM], most = largest_bits(c, j->block), scale = (most >> 23) + 1;
    const uint32_t *words = random_words(j->args.seed, j->site, first, j->block, room);
    uint8_t *codes = image + 1;

    if (most >= TOO_LARGE_BITS) {
        memset(image, 0, j->bytes);
        image[0] = NATURAL_NAN;
        return 1;
    }
    image[0] = (uint8_t)scale;
    for (size_t i = 0; i < j->block; i++) {
        uint32_t bits = bits_of(c[i]), e = ((bits & 0x7fffffffu) + (words[i] & 0x7fffffu)) >> 23;
        int32_t code = (int32_t)e - (int32_t)scale + NATURAL_CODES;
        codes[i] = (uint8_t)((bits & 0x7f800000u && code > 0 ? (uint32_t)code : 0) | bits >> 31 << 7);
    }
    for (size_t i = 0; residual && i < n; i++)
        residual[i] = c[i] - natural_value((uint8_t)scale, codes[i]);
    return 0;
}

static INLINE void natural_decode_one(const struct job *j, const uint8_t *image, float *dst, int adds)
{
    for (size_t i = 0; i < j->block; i++) {
        float v = natural_value(image[0], image[1 + i]);
        dst[i] = adds ? dst[i] + v : v;
    }
}
BLOCKWISE(natural, codec->block, codec->block_bytes)

/* ---- sign:means=2 ---- */

/* Means of magnitudes, of one sign, as bf16; parts of the mean are summed, so that no sum is too large. */
static INLINE uint32_t mean_of_sign(const float *c, size_t block, size_t n, uint32_t sign, size_t count)
{
    float lane[LANES] = {0}, sum = 0, by = 1.0f / (float)n;

    for (size_t i = 0; i < block; i += LANES)
        for (int k = 0; k < LANES; k++) {
            uint32_t bits = bits_of(c[i + (size_t)k]);
            lane[k] += float_of(chosen(bits >> 31 == sign, bits & 0x7fffffffu, 0)) * by;
        }
    for (int k = 0; k < LANES; k++)
        sum += lane[k];
    return count ? round_nearest(sum * ((float)n / (float)count)) : 0;
}

static INLINE void means_values(const uint8_t *image, size_t block, float *dst)
{
    uint8_t codes[WI_KERNELS_BLOCK_MAX];
    float below = -scale_of(image), above = scale_of(image + 2);

    unpack((struct shape){.bits = 1}, image + 4, block, codes);
    for (size_t i = 0; i < block; i++)
        dst[i] = float_of(chosen(codes[i], bits_of(above), bits_of(below)));
}

static int means_encode_one(const struct job *j, uint64_t first, const float *c, size_t n, float *residual, uint8_t *image)
{
    uint8_t codes[WI_KERNELS_BLOCK_MAX];
    float held[WI_KERNELS_BLOCK_MAX];
    size_t negative = 0;
    uint32_t mean[2] = {NAN_SCALE, 0};
    int bad = largest_bits(c, j->block) >= TOO_LARGE_BITS;

    (void)first;
    codes_of((struct shape){.bits = 1}, c, j->block, 1, codes);
    for (size_t i = 0; i < n; i++)
        negative += !codes[i];
    if (!bad) {
        mean[0] = mean_of_sign(c, j->block, n, 1, negative);
        mean[1] = mean_of_sign(c, j->block, n, 0, n - negative);
    }
    for (int i = 0; i < 4; i++)
        image[i] = (uint8_t)(mean[i / 2] >> 8 * (i % 2));
    if (bad) {
        memset(image + 4, 0, j->bytes - 4);
        return 1;
    }
    pack((struct shape){.bits = 1}, codes, j->block, image + 4);
    means_values(image, j->block, held);
    for (size_t i = 0; residual && i < n; i++)
        residual[i] = c[i] - held[i];
    return 0;
}

static INLINE void means_decode_one(const struct job *j, const uint8_t *image, float *dst, int adds)
{
    float values[WI_KERNELS_BLOCK_MAX];

    means_values(image, j->block, values);
    for (size_t i = 0; i < j->block; i++)
        dst[i] = adds ? dst[i] + values[i] : values[i];
}
BLOCKWISE(means, codec->block, codec->block_bytes)
