/* SPDX-License-Identifier: BSD-3-Clause */
/* The division of an integer average: truncated toward zero, without a division instruction per element. */
#if !defined(__clang__)
#pragma GCC optimize("O3") /* vectorise these loops at -O2 */
#endif
#include <string.h>

#include "base/reduce_kernels.h"

/* Up to 32 bits by way of double: the quotient of integers below 2^32 is at least 2^-32 away from the next integer
 * unless it is one, far more than double's rounding. */
#define DIVIDE_SMALL(type)                                                \
    static void divide_##type(void *data, size_t elems, uint32_t divisor) \
    {                                                                     \
        double by = divisor;                                              \
        for (size_t i = 0; i < elems; i++) {                              \
            type v;                                                       \
            memcpy(&v, (char *)data + i * sizeof(v), sizeof(v));          \
            v = (type)((double)v / by);                                   \
            memcpy((char *)data + i * sizeof(v), &v, sizeof(v));          \
        }                                                                 \
    }

DIVIDE_SMALL(int8_t)
DIVIDE_SMALL(uint8_t)
DIVIDE_SMALL(int16_t)
DIVIDE_SMALL(uint16_t)
DIVIDE_SMALL(int32_t)
DIVIDE_SMALL(uint32_t)

/* q = v / d by a multiplication with m = floor(2^64 / d): q is at most one too small, which one comparison repairs. */
static inline uint64_t divide_u64(uint64_t v, uint64_t divisor, uint64_t reciprocal)
{
    uint64_t q = (uint64_t)(((unsigned __int128)v * reciprocal) >> 64);

    return q + (v - q * divisor >= divisor);
}

static void divide_uint64_t(void *data, size_t elems, uint32_t divisor)
{
    uint64_t reciprocal = UINT64_MAX / divisor;

    for (size_t i = 0; i < elems; i++) {
        uint64_t v;

        memcpy(&v, (char *)data + i * sizeof(v), sizeof(v));
        v = divide_u64(v, divisor, reciprocal);
        memcpy((char *)data + i * sizeof(v), &v, sizeof(v));
    }
}

static void divide_int64_t(void *data, size_t elems, uint32_t divisor)
{
    uint64_t reciprocal = UINT64_MAX / divisor;

    for (size_t i = 0; i < elems; i++) {
        uint64_t v, negative;

        memcpy(&v, (char *)data + i * sizeof(v), sizeof(v));
        negative = 0 - (v >> 63);
        v = divide_u64((v ^ negative) - negative, divisor, reciprocal);
        v = (v ^ negative) - negative;
        memcpy((char *)data + i * sizeof(v), &v, sizeof(v));
    }
}

void wi_int_divide(weft_dtype dtype, void *data, size_t elems, uint32_t divisor)
{
    static void (*const divide[])(void *, size_t, uint32_t) = {
        [WEFT_INT8] = divide_int8_t,     [WEFT_UINT8] = divide_uint8_t,   [WEFT_INT16] = divide_int16_t,
        [WEFT_UINT16] = divide_uint16_t, [WEFT_INT32] = divide_int32_t,   [WEFT_UINT32] = divide_uint32_t,
        [WEFT_INT64] = divide_int64_t,   [WEFT_UINT64] = divide_uint64_t,
    };

    if (divisor > 1)
        divide[dtype](data, elems, divisor);
}
