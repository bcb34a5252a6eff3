/* SPDX-License-Identifier: BSD-3-Clause */
/* Complex operators, in plain C for every instruction set. A fused multiply-add would round differently from one
 * machine to the next. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#else
#pragma GCC optimize("fp-contract=off")
#endif
#include <string.h>

#include "base/reduce_kernels.h"

struct c64 {
    float re, im;
};
struct c128 {
    double re, im;
};

static float clean_c64(float v)
{
    return v == v ? v : __builtin_nanf("");
}

static double clean_c128(double v)
{
    return v == v ? v : __builtin_nan("");
}

#define COMPLEX_LOOP(type, name, expression)                                       \
    void wi_##type##_##name(void *dst, const void *a, const void *b, size_t elems) \
    {                                                                              \
        for (size_t i = 0; i < elems; i++) {                                       \
            struct type x, y, out;                                                 \
            memcpy(&x, (const char *)a + i * sizeof(x), sizeof(x));                \
            memcpy(&y, (const char *)b + i * sizeof(y), sizeof(y));                \
            out = (struct type)expression;                                         \
            memcpy((char *)dst + i * sizeof(out), &out, sizeof(out));              \
        }                                                                          \
    }
#define TRUE_OF(v) ((v).re != 0 || (v).im != 0)
#define BRACED(...) \
    {               \
        __VA_ARGS__ \
    }
#define COMPLEX_LOOPS(type)                                                                                          \
    COMPLEX_LOOP(type, prod, BRACED(clean_##type(x.re *y.re - x.im * y.im), clean_##type(x.re *y.im + x.im * y.re))) \
    COMPLEX_LOOP(type, land, BRACED(TRUE_OF(x) && TRUE_OF(y), 0))                                                    \
    COMPLEX_LOOP(type, lor, BRACED(TRUE_OF(x) || TRUE_OF(y), 0))                                                     \
    COMPLEX_LOOP(type, lxor, BRACED(TRUE_OF(x) != TRUE_OF(y), 0))

COMPLEX_LOOPS(c64)
COMPLEX_LOOPS(c128)
