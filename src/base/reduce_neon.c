/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels for NEON, the baseline of 64-bit Arm. Its stores have no portable non-temporal form: plain stores, which the
 * hardware turns into streams by itself. */
#if defined(__aarch64__)

#include <arm_neon.h>

#define WI_SIMD_ISA wi_isa_neon
#define WI_SIMD_NAME "neon"
#define WI_SIMD_BYTES 16
#define WI_SIMD_MASKED 0
#include "base/reduce_raw.h"

#define raw_stream_F raw_store_F
#define raw_stream_H raw_store_H
#define raw_stream_Q raw_store_Q

static void simd_fence(void)
{
}

static inline WI_INLINE float __attribute__((vector_size(16))) f16_decode(raw_H raw)
{
    typedef float vf __attribute__((vector_size(16)));

    return (vf)vcvt_f32_f16((float16x4_t)raw);
}

static inline WI_INLINE raw_H f16_encode(float __attribute__((vector_size(16))) v)
{
    return (raw_H)vcvt_f16_f32((float32x4_t)v);
}

static inline WI_INLINE void raw_copy_line(char *out, const char *in)
{
    raw_store_F(out, raw_load_F(in));
    raw_store_F(out + 16, raw_load_F(in + 16));
    raw_store_F(out + 32, raw_load_F(in + 32));
    raw_store_F(out + 48, raw_load_F(in + 48));
}

#include "base/reduce_copy.h"
#include "base/reduce_simd.h"

#else
typedef int wi_reduce_neon_not_here;
#endif
