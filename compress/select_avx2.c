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

#define AVX2 __attribute__((target("avx2,popcnt")))

struct candidates {
    __m256i largest, below; /* magnitudes so far; one less than the least that is taken */
    __m128i first;          /* the place of the next eight */
    uint16_t *places;
};

AVX2 static inline void collect_eight(struct candidates *all, __m256 c)
{
    __m256i key = _mm256_and_si256(_mm256_castps_si256(c), _mm256_set1_epi32(0x7fffffff));
    unsigned mask = (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(key, all->below)));
    __m128i place = _mm_cvtepu8_epi16(_mm_loadl_epi64((const __m128i *)(const void *)&set_bits[mask]));

    all->largest = _mm256_max_epu32(all->largest, key);
    _mm_storeu_si128((__m128i *)(void *)all->places, _mm_add_epi16(place, all->first));
    all->places += __builtin_popcount(mask);
    all->first = _mm_add_epi16(all->first, _mm_set1_epi16(8));
}

AVX2 static inline __m256 add_eight(const float *src, const float *residual, float *sum)
{
    __m256 c = _mm256_add_ps(_mm256_loadu_ps(src), _mm256_loadu_ps(residual));

    _mm256_storeu_ps(sum, c);
    return c;
}

AVX2 size_t wi_collect_avx2(const float *src, const float *residual, float *sum, size_t n, uint32_t least,
                            uint16_t *places, uint32_t *most)
{
    struct candidates all = {_mm256_setzero_si256(), _mm256_set1_epi32((int)least - 1), _mm_setzero_si128(), places};
    uint32_t lane[8];

    for (size_t i = 0; i < n && !residual; i += 16) {
        __builtin_prefetch(src + i + AHEAD);
        collect_eight(&all, _mm256_loadu_ps(src + i));
        collect_eight(&all, _mm256_loadu_ps(src + i + 8));
    }
    for (size_t i = 0; i < n && residual; i += 16) {
        __builtin_prefetch(src + i + AHEAD);
        __builtin_prefetch(residual + i + AHEAD);
        collect_eight(&all, add_eight(src + i, residual + i, sum + i));
        collect_eight(&all, add_eight(src + i + 8, residual + i + 8, sum + i + 8));
    }
    _mm256_storeu_si256((__m256i *)(void *)lane, all.largest);
    *most = 0;
    for (int i = 0; i < 8; i++)
        *most = lane[i] > *most ? lane[i] : *most;
    return (size_t)(all.places - places);
}
#else
typedef int wi_select_avx2_not_here;
#endif
