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
