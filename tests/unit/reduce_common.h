/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of the reduction kernels share: instruction sets, operators, random bits. */
#ifndef REDUCE_COMMON_H
#define REDUCE_COMMON_H

#include <stdint.h>

#include "base/reduce.h"

static const char *const isas[] = {"scalar", "avx2", "avx512", "neon"};
#define NUM_ISAS 4
#define GUARD 0xa5

static uint64_t random_state = 88172645463325252ull;

static inline uint64_t random_next(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static inline struct wi_redop redop_make(unsigned dtype, unsigned op, uint32_t divisor)
{
    return (struct wi_redop){.dtype = (uint8_t)dtype,
                             .op = (uint8_t)op,
                             .commutative = 1,
                             .divisor = divisor,
                             .elem_bytes = (uint32_t)weft_dtype_bytes((weft_dtype)dtype)};
}

static inline int is_float(unsigned dtype)
{
    return dtype >= WEFT_FLOAT16 && dtype <= WEFT_FLOAT8E5M2;
}

static inline int is_complex(unsigned dtype)
{
    return dtype == WEFT_COMPLEX64 || dtype == WEFT_COMPLEX128;
}

static inline int guards_intact(const unsigned char *buffer, size_t offset, size_t bytes)
{
    for (size_t i = 0; i < offset; i++) {
        if (buffer[i] != GUARD)
            return 0;
    }
    for (size_t i = offset + bytes; i < offset + bytes + 64; i++) {
        if (buffer[i] != GUARD)
            return 0;
    }
    return 1;
}

#endif
