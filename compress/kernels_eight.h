/* SPDX-License-Identifier: BSD-3-Clause */
/* Eight codes at a time in registers, where the set has AVX2's instructions: no bytes between codes and levels are written to
 * memory. Results are those of the loops in kernels_loops.h, which other sets have. Part of an instruction set's source that
 * defines WI_CODEC_EIGHT, the most bits of the codes that are done so, within kernels_loops.h. */

static INLINE uint32_t little(const uint8_t *at, int bytes)
{
    uint32_t word = 0;

    memcpy(&word, at, (size_t)bytes);
    return word;
}

/* ---- Decoding ---- */

/* Each lane has the bits of its code, and below them those of lanes before it, or above them those behind it. */
static INLINE __m256i eight_apart(const int bits, const uint8_t *image)
{
    const __m256i places = bits == 6   ? _mm256_setr_epi32(0, 6, 12, 18, 8, 14, 20, 26)
                           : bits == 4 ? _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28)
                                       : _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14);
    __m256i word;

    if (bits == 6) /* the upper half of the lanes begins at bit 24 */
        word = _mm256_inserti128_si256(_mm256_set1_epi32((int)little(image, 4)), _mm_set1_epi32((int)little(image + 2, 4)), 1);
    else
        word = _mm256_set1_epi32((int)little(image, bits));
    return _mm256_srlv_epi32(word, places);
}

static INLINE __m256 eight_levels(const struct shape s, const uint8_t *image)
{
    __m256i codes;

    if (s.bits == 1) { /* the bit's inverse is the sign */
        codes = _mm256_sllv_epi32(_mm256_set1_epi32(~(int)*image), _mm256_setr_epi32(31, 30, 29, 28, 27, 26, 25, 24));
        codes = _mm256_and_si256(codes, _mm256_set1_epi32(INT32_MIN));
        return _mm256_castsi256_ps(_mm256_or_si256(codes, _mm256_set1_epi32(0x3f800000)));
    }
    if (s.bits == 8)
        codes = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)image));
    else
        codes = _mm256_and_si256(eight_apart(s.bits, image), _mm256_set1_epi32((1 << s.bits) - 1));
    return _mm256_sub_ps(_mm256_cvtepi32_ps(codes), _mm256_set1_ps(s.offset));
}

/* As decode_images. */
static INLINE void eight_decode(const struct shape s, size_t block, const uint8_t *const *images, int n, float *dst, int adds)
{
    const uint8_t *codes[IMAGES_MOST];
    __m256 scale[IMAGES_MOST];

    for (int k = 0; k < n; k++) {
        codes[k] = images[k] + WI_CODEC_SCALE_BYTES;
        scale[k] = _mm256_set1_ps(scale_of(images[k]));
    }
    for (size_t i = 0, at = 0; i < block; i += 8, at += (size_t)s.bits) {
        __m256 v = _mm256_mul_ps(eight_levels(s, codes[0] + at), scale[0]);
        v = adds ? _mm256_add_ps(_mm256_loadu_ps(dst + i), v) : v;
        for (int k = 1; k < n; k++)
            v = _mm256_add_ps(v, _mm256_mul_ps(eight_levels(s, codes[k] + at), scale[k]));
        _mm256_storeu_ps(dst + i, v);
    }
}

/* ---- Encoding ---- */

/* The codes of eight elements: nearest(c / scale) + offset; of int2, how many of the three borders are not above the element. */
static INLINE __m256i eight_codes(const struct shape s, __m256 c, __m256 scale, __m256 inverse)
{
    __m256i below;
    __m256 nearest;

    if (s.most > 0) {
        nearest = _mm256_add_ps(_mm256_mul_ps(c, inverse), _mm256_set1_ps(ROUNDS));
        return _mm256_sub_epi32(_mm256_castps_si256(nearest), _mm256_set1_epi32(ROUNDS_BITS - (int32_t)s.offset));
    }
    below = _mm256_castps_si256(_mm256_cmp_ps(c, _mm256_setzero_ps(), _CMP_GE_OQ));
    below = _mm256_add_epi32(below, _mm256_castps_si256(_mm256_cmp_ps(c, scale, _CMP_GE_OQ)));
    scale = _mm256_sub_ps(_mm256_setzero_ps(), scale);
    below = _mm256_add_epi32(below, _mm256_castps_si256(_mm256_cmp_ps(c, scale, _CMP_GE_OQ)));
    return _mm256_sub_epi32(_mm256_setzero_si256(), below);
}

/* 32 codes, of int8 as they are; of others next to each other. */
static INLINE void put_codes(const int bits, __m256i codes, uint8_t *at)
{
    /* Of each four bytes the first, or the first three. */
    const __m256i lowest = _mm256_setr_epi32(0x0c080400, -1, -1, -1, 0x0c080400, -1, -1, -1),
                  lower = _mm256_setr_epi32(0x04020100, 0x09080605, 0x0e0d0c0a, -1, 0x04020100, 0x09080605, 0x0e0d0c0a, -1);
    __m128i low, high;

    if (bits == 8) {
        _mm256_storeu_si256((__m256i *)(void *)at, codes);
        return;
    }
    codes = _mm256_maddubs_epi16(codes, _mm256_set1_epi16((short)(1 | 1 << (8 + bits)))); /* pairs */
    if (bits == 4) {
        codes = _mm256_permute4x64_epi64(_mm256_packus_epi16(codes, codes), 0x08);
        _mm_storeu_si128((__m128i *)(void *)at, _mm256_castsi256_si128(codes));
        return;
    }
    codes = _mm256_madd_epi16(codes, _mm256_set1_epi32(1 | 1 << (16 + 2 * bits))); /* fours */
    codes = _mm256_shuffle_epi8(codes, bits == 2 ? lowest : lower);
    low = _mm256_castsi256_si128(codes);
    high = _mm256_extracti128_si256(codes, 1);
    if (bits == 2) {
        _mm_storel_epi64((__m128i *)(void *)at, _mm_unpacklo_epi32(low, high));
        return;
    }
    memcpy(at, &low, 12);
    memcpy(at + 12, &high, 12);
}

static INLINE void eight_residual(const struct shape s, __m256 c, __m256i codes, __m256 scale, float *residual)
{
    __m256 level = _mm256_sub_ps(_mm256_cvtepi32_ps(codes), _mm256_set1_ps(s.offset));

    _mm256_storeu_ps(residual, _mm256_sub_ps(c, _mm256_mul_ps(level, scale)));
}

static INLINE void eight_signs(size_t block, const float *c, __m256 scale, float *residual, uint8_t *codes)
{
    const __m256 minus = _mm256_castsi256_ps(_mm256_set1_epi32(INT32_MIN));

    for (size_t i = 0; i < block; i += 8) {
        __m256 v = _mm256_loadu_ps(c + i), held = _mm256_or_ps(_mm256_and_ps(v, minus), scale);
        codes[i / 8] = (uint8_t)~_mm256_movemask_ps(v);
        if (residual)
            _mm256_storeu_ps(residual + i, _mm256_sub_ps(v, held));
    }
}

/* A whole block, the scale of which is a number. */
static INLINE void eight_encode(const struct shape s, size_t block, const float *c, float scale, float *residual, uint8_t *codes)
{
    const __m256 by = _mm256_set1_ps(scale), inverse = _mm256_set1_ps(scale > 0 ? 1.0f / scale : 0);

    if (s.bits == 1) {
        eight_signs(block, c, by, residual, codes);
        return;
    }
    for (size_t i = 0; i < block; i += 32, codes += 4 * s.bits) {
        __m256i eight[4], all;
        for (size_t k = 0; k < 4; k++) {
            __m256 v = _mm256_loadu_ps(c + i + 8 * k);
            eight[k] = eight_codes(s, v, by, inverse);
            if (residual)
                eight_residual(s, v, eight[k], by, residual + i + 8 * k);
        }
        all = _mm256_packus_epi16(_mm256_packs_epi32(eight[0], eight[1]), _mm256_packs_epi32(eight[2], eight[3]));
        put_codes(s.bits, _mm256_permutevar8x32_epi32(all, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)), codes);
    }
}
