/* SPDX-License-Identifier: BSD-3-Clause */
/* What every instruction set needs before its own primitives: helpers of the templates, loads and stores without
 * alignment, and parts of a vector by powers of two for sets without masks. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/reduce_kernels.h"

#define WI_INLINE __attribute__((always_inline))
/* Accumulators must be registers, at -O2 too. */
#if defined(__clang__)
#define WI_UNROLL _Pragma("unroll")
#else
#define WI_UNROLL _Pragma("GCC unroll 4")
#endif
#define WI_JOIN2(a, b) a##_##b
#define WI_JOIN(a, b) WI_JOIN2(a, b)

typedef unsigned char raw_F __attribute__((vector_size(WI_SIMD_BYTES)));
typedef unsigned char raw_H __attribute__((vector_size(WI_SIMD_BYTES / 2)));
typedef unsigned char raw_Q __attribute__((vector_size(WI_SIMD_BYTES / 4)));

#define RAW_LOAD_STORE(class)                                                                      \
    static inline WI_INLINE raw_##class raw_load_##class(const void *p)                            \
    {                                                                                              \
        raw_##class raw;                                                                           \
        memcpy(&raw, p, sizeof(raw));                                                              \
        return raw;                                                                                \
    }                                                                                              \
    static inline WI_INLINE void raw_store_##class(void *p, raw_##class raw)                       \
    {                                                                                              \
        memcpy(p, &raw, sizeof(raw));                                                              \
    }

RAW_LOAD_STORE(F)
RAW_LOAD_STORE(H)
RAW_LOAD_STORE(Q)

#if !WI_SIMD_MASKED

/* `count * bytes` is a power of two below the vector's size. Fixed-size copies through a zeroed vector. */
#define RAW_PART_CASE(n)                                                                           \
    case n:                                                                                        \
        if (n < sizeof(raw))                                                                       \
            memcpy(&raw, p, n < sizeof(raw) ? n : 0);                                              \
        break;
#define RAW_PART_STORE_CASE(n)                                                                     \
    case n:                                                                                        \
        if (n < sizeof(raw))                                                                       \
            memcpy(p, &raw, n < sizeof(raw) ? n : 0);                                              \
        break;
#define RAW_PARTS(class)                                                                           \
    static inline WI_INLINE raw_##class raw_load_part_##class(const void *p, size_t count,         \
                                                              size_t bytes)                        \
    {                                                                                              \
        raw_##class raw = {0};                                                                     \
        switch (count * bytes) {                                                                   \
            RAW_PART_CASE(1)                                                                       \
            RAW_PART_CASE(2)                                                                       \
            RAW_PART_CASE(4)                                                                       \
            RAW_PART_CASE(8)                                                                       \
            RAW_PART_CASE(16)                                                                      \
        }                                                                                          \
        return raw;                                                                                \
    }                                                                                              \
    static inline WI_INLINE void raw_store_part_##class(void *p, raw_##class raw, size_t count,    \
                                                        size_t bytes)                              \
    {                                                                                              \
        switch (count * bytes) {                                                                   \
            RAW_PART_STORE_CASE(1)                                                                 \
            RAW_PART_STORE_CASE(2)                                                                 \
            RAW_PART_STORE_CASE(4)                                                                 \
            RAW_PART_STORE_CASE(8)                                                                 \
            RAW_PART_STORE_CASE(16)                                                                \
        }                                                                                          \
    }

RAW_PARTS(F)
RAW_PARTS(H)
RAW_PARTS(Q)

#endif
