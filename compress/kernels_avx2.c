/* SPDX-License-Identifier: BSD-3-Clause */
/* Codecs' kernels for AVX2. */
#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang fp contract(off)
#pragma clang attribute push(__attribute__((target("avx2,bmi2"))), apply_to = function)
#else
#pragma GCC push_options
#ifndef __SANITIZE_ADDRESS__ /* with it, compiling loops so takes most of a minute */
#pragma GCC optimize("O3")
#endif
#pragma GCC optimize("fp-contract=off")
#pragma GCC target("avx2,bmi2")
#endif

#include <immintrin.h>

#define WI_CODEC_EIGHT 8
#define GATHER_BITS(word, mask) _pext_u64(word, mask)
#define SCATTER_BITS(word, mask) _pdep_u64(word, mask)
#define PHILOX_BYTES 32
#define MULTIPLY_LOWER(a, b) ((philox_vector)_mm256_mul_epu32((__m256i)(a), (__m256i)(b)))
#define WI_CODEC_ISA wi_codec_kernels_avx2
#define WI_SHARED_ISA wi_shared_kernels_avx2
#include "compress/kernels_set.h"

const char wi_codec_isa_avx2[] = "avx2";

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#else
typedef int wi_codec_avx2_not_here;
#endif
