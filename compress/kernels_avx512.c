/* SPDX-License-Identifier: BSD-3-Clause */
/* Codecs' kernels for AVX-512 (F, BW, DQ, VL). */
#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang fp contract(off)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi2"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#ifndef __SANITIZE_ADDRESS__ /* with it, compiling loops so takes most of a minute */
#pragma GCC optimize("O3")
#endif
#pragma GCC optimize("fp-contract=off")
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi2,prefer-vector-width=512")
#endif

#include <immintrin.h>

#define WI_CODEC_EIGHT 6 /* int8 has longer vectors as a loop */
#define GATHER_BITS(word, mask) _pext_u64(word, mask)
#define SCATTER_BITS(word, mask) _pdep_u64(word, mask)
#define PHILOX_BYTES 64
#define MULTIPLY_LOWER(a, b) ((philox_vector)_mm512_mul_epu32((__m512i)(a), (__m512i)(b)))
#define WI_CODEC_ISA wi_codec_kernels_avx512
#define WI_SHARED_ISA wi_shared_kernels_avx512
#include "compress/kernels_set.h"

const char wi_codec_isa_avx512[] = "avx512";

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#else
typedef int wi_codec_avx512_not_here;
#endif
