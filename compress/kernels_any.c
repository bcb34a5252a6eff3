/* SPDX-License-Identifier: BSD-3-Clause */
/* Codecs' kernels for any CPU. */
#if defined(__clang__)
#pragma clang fp contract(off)
#else
#pragma GCC push_options
#ifndef __SANITIZE_ADDRESS__ /* with it, compiling loops so takes most of a minute */
#pragma GCC optimize("O3")
#endif
#pragma GCC optimize("fp-contract=off")
#endif

#if defined(__SSE2__)
#include <emmintrin.h>

#define MULTIPLY_LOWER(a, b) ((philox_vector)_mm_mul_epu32((__m128i)(a), (__m128i)(b)))
#endif
#define WI_CODEC_ISA wi_codec_kernels_any
#define WI_SHARED_ISA wi_shared_kernels_any
#include "compress/kernels_set.h"

#if defined(__clang__)
#else
#pragma GCC pop_options
#endif
