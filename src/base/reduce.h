/* SPDX-License-Identifier: BSD-3-Clause */
/* Reduction kernels: dst[d][i] = scale * (src[0][i] op src[1][i] op ... op src[n-1][i]), left to right.
 * 16- and 8-bit floats accumulate in fp32 and are rounded once (to nearest even). Results do not depend on alignment,
 * on the ISA chosen, or on how the vector is cut, so that every rank gets the same bits. Pointers may have any
 * alignment. A destination may equal a source exactly; partial overlap is not allowed. */
#ifndef WI_BASE_REDUCE_H
#define WI_BASE_REDUCE_H

#include <stddef.h>
#include <stdint.h>
#include <weft/weft.h>

#define WI_REDUCE_NT 1u    /* destinations will not be read soon: non-temporal stores (fenced before return) */
#define WI_REDUCE_FINAL 2u /* the result is complete: apply avg's division */
/* dst[0], the only destination, is added to the result, after that division: sum and avg of real floats. Nothing is rounded in
 * between. */
#define WI_REDUCE_ADD 4u

#define WI_REDUCE_MAX_SRC 64

struct wi_redop {
    uint8_t dtype;      /* weft_dtype */
    uint8_t op;         /* weft_op of a built-in; AVG behaves as SUM until FINAL */
    uint8_t user;       /* use fn instead */
    uint8_t commutative;
    uint32_t divisor;   /* number of ranks, for AVG */
    uint32_t elem_bytes;
    weft_op_fn fn;
    void *arg;
};

/* WEFT_ENOTSUP if op is undefined for dtype (text says so). */
weft_status wi_redop_check(weft_dtype dtype, weft_op op);

/* nsrc >= 1 (1: a copy, scaled when FINAL), ndst >= 1. nsrc above WI_REDUCE_MAX_SRC is done in several passes by the
 * caller. Never fails for a checked redop. */
void wi_reduce(const struct wi_redop *redop, void *const dst[], int ndst, const void *const src[], int nsrc, size_t elems,
               unsigned flags);
/* The common case without arrays: dst = a op b. */
void wi_reduce2(const struct wi_redop *redop, void *dst, const void *a, const void *b, size_t elems, unsigned flags);
/* Do its sums and products depend on how operands are grouped? */
static inline int wi_dtype_rounds(weft_dtype dtype)
{
    return dtype > WEFT_UINT64 && dtype != WEFT_BOOL;
}
/* dst = scalar * src, for pre-multiplied sums; scalar has type dtype (floats, complex and integers). */
void wi_scale(weft_dtype dtype, const void *scalar, void *dst, const void *src, size_t elems);

/* memcpy that uses non-temporal stores for large or `nt` copies. */
void wi_copy(void *dst, const void *src, size_t bytes, unsigned flags);

/* Two copies of one source, which is read from memory once. */
void wi_copy_twice(void *dst, void *other, const void *src, size_t bytes);

/* "avx512", "avx2", "neon", "scalar"; WEFT_ISA (or wi_isa_force in tests) chooses a lower one. */
const char *wi_isa_name(void);
int wi_isa_force(const char *name); /* 0, or -1 if unknown or not on this CPU; NULL: back to the best */

/* Scalar conversions, one element (tests, bench and tools use them too). */
float wi_f16_to_f32(uint16_t v);
uint16_t wi_f32_to_f16(float v);
float wi_bf16_to_f32(uint16_t v);
uint16_t wi_f32_to_bf16(float v);
float wi_f8e4m3_to_f32(uint8_t v);
uint8_t wi_f32_to_f8e4m3(float v); /* saturates to +-448 like the OCP FN format; NaN stays NaN */
float wi_f8e5m2_to_f32(uint8_t v);
uint8_t wi_f32_to_f8e5m2(float v);

/* How many functions of users the calling thread is in: none of them may wait for what the thread holds. */
extern __thread int wi_in_operator;

#endif
