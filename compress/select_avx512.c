/* SPDX-License-Identifier: BSD-3-Clause */
/* Candidates of a selection for AVX-512: places are compressed in a register, since compressing into memory is slow on some
 * CPUs. */
#if defined(__x86_64__)
#include "compress/select.h"

#include <immintrin.h>

#define AHEAD 512 /* elements that are fetched early */

__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,popcnt"))) size_t
wi_collect_avx512(const float *src, const float *residual, float *sum, size_t n, uint32_t least, uint16_t *places,
                  uint32_t *most)
{
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff), low = _mm512_set1_epi32((int)least);
    __m512i place = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    __m512i largest = _mm512_setzero_si512();
    size_t m = 0;

    for (size_t i = 0; i < n; i += 16) {
        __m512 c = _mm512_loadu_ps(src + i);
        __m512i key;
        __mmask16 mask;
        __builtin_prefetch(src + i + AHEAD);
        if (residual) {
            __builtin_prefetch(residual + i + AHEAD);
            c = _mm512_add_ps(c, _mm512_loadu_ps(residual + i));
            _mm512_storeu_ps(sum + i, c);
        }
        key = _mm512_and_si512(_mm512_castps_si512(c), magnitude);
        largest = _mm512_max_epu32(largest, key);
        mask = _mm512_cmpge_epu32_mask(key, low);
        _mm256_storeu_si256((__m256i *)(void *)(places + m),
                            _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(mask, place)));
        m += (size_t)__builtin_popcount(mask);
        place = _mm512_add_epi32(place, _mm512_set1_epi32(16));
    }
    *most = _mm512_reduce_max_epu32(largest);
    return m;
}
#else
typedef int wi_select_avx512_not_here;
#endif
