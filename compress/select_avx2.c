/* SPDX-License-Identifier: BSD-3-Clause */
/* Candidates of a selection for AVX2: the mask of a comparison is the row of a table with the places that are set. */
#if defined(__x86_64__)
#include "compress/select.h"

#include <immintrin.h>

#define AHEAD 512 /* elements that are fetched early */

/* The places of the bits that are set in m, one in a byte, ascending. */
#define BIT(m, b) ((uint64_t)((m) >> (b)&1))
#define BELOW(m, b)                                                                               \
    (8 * ((b > 0) * BIT(m, 0) + (b > 1) * BIT(m, 1) + (b > 2) * BIT(m, 2) + (b > 3) * BIT(m, 3) + \
          (b > 4) * BIT(m, 4) + (b > 5) * BIT(m, 5) + (b > 6) * BIT(m, 6)))
#define PLACE(m, b) (BIT(m, b) * b << BELOW(m, b))
#define ROW(m) (PLACE(m, 1) | PLACE(m, 2) | PLACE(m, 3) | PLACE(m, 4) | PLACE(m, 5) | PLACE(m, 6) | PLACE(m, 7))
#define ROWS4(m) ROW(m), ROW((m) + 1), ROW((m) + 2), ROW((m) + 3)
#define ROWS16(m) ROWS4(m), ROWS4((m) + 4), ROWS4((m) + 8), ROWS4((m) + 12)
#define ROWS64(m) ROWS16(m), ROWS16((m) + 16), ROWS16((m) + 32), ROWS16((m) + 48)
static const uint64_t set_bits[256] = {ROWS64(0), ROWS64(64), ROWS64(128), ROWS64(192)};

__attribute__((target("avx2,popcnt"))) size_t wi_collect_avx2(const float *src, const float *residual, float *sum,
                                                              size_t n, uint32_t least, uint16_t *places,
                                                              uint32_t *most)
{
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff), below = _mm256_set1_epi32((int)least - 1);
    __m256i largest = _mm256_setzero_si256();
    uint32_t lane[8];
    size_t m = 0;

    for (size_t i = 0; i < n; i += 8) {
        __m256 c = _mm256_loadu_ps(src + i);
        __m256i key;
        unsigned mask;
        __m128i place;
        if (i % 16 == 0)
            __builtin_prefetch(src + i + AHEAD);
        if (residual) {
            if (i % 16 == 0)
                __builtin_prefetch(residual + i + AHEAD);
            c = _mm256_add_ps(c, _mm256_loadu_ps(residual + i));
            _mm256_storeu_ps(sum + i, c);
        }
        key = _mm256_and_si256(_mm256_castps_si256(c), magnitude);
        largest = _mm256_max_epu32(largest, key);
        mask = (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(key, below)));
        place = _mm_cvtepu8_epi16(_mm_loadl_epi64((const __m128i *)(const void *)&set_bits[mask]));
        place = _mm_add_epi16(place, _mm_set1_epi16((short)i));
        _mm_storeu_si128((__m128i *)(void *)(places + m), place);
        m += (size_t)__builtin_popcount(mask);
    }
    _mm256_storeu_si256((__m256i *)(void *)lane, largest);
    *most = 0;
    for (int i = 0; i < 8; i++)
        *most = lane[i] > *most ? lane[i] : *most;
    return m;
}
#else
typedef int wi_select_avx2_not_here;
#endif
