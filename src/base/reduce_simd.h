/* SPDX-License-Identifier: BSD-3-Clause */
/* All kernels of one instruction set, in GCC's vector extension. Included once by each reduce_<isa>.c, which defines
 *   WI_SIMD_ISA     name of the struct wi_isa; WI_SIMD_NAME its text; WI_SIMD_BYTES of a vector register
 *   WI_SIMD_MASKED  1 if raw_load_part/raw_store_part take any count
 *   raw_load_{F,H,Q}, raw_store_, raw_stream_, raw_load_part_, raw_store_part_ on raw_F (the whole register), raw_H
 *   (half of it), raw_Q (a quarter); f16_decode(raw_H) and f16_encode; simd_copy_stream, simd_fence.
 * The same operations in the same order on every set are what makes results equal bit for bit. A NaN result is always
 * the canonical quiet NaN: which payload survives an addition differs between instruction sets and even compilers. */

#define VECTOR(type) type __attribute__((vector_size(WI_SIMD_BYTES)))
typedef VECTOR(float) vf32;
typedef VECTOR(double) vf64;
typedef VECTOR(uint8_t) vu8;
typedef VECTOR(uint16_t) vu16;
typedef VECTOR(uint32_t) vu32;
typedef VECTOR(uint64_t) vu64;
typedef VECTOR(int8_t) vs8;
typedef VECTOR(int16_t) vs16;
typedef VECTOR(int32_t) vs32;
typedef VECTOR(int64_t) vs64;
typedef uint16_t half_u16 __attribute__((vector_size(WI_SIMD_BYTES / 2)));
typedef uint8_t quarter_u8 __attribute__((vector_size(WI_SIMD_BYTES / 4)));

/* Sets whose compilers translate these conversions badly define their own. */
#ifndef WIDEN_H
#define WIDEN_H(half) __builtin_convertvector((half_u16)(half), vu32)
#define NARROW_H(whole) (raw_H) __builtin_convertvector((vu32)(whole), half_u16)
#define WIDEN_QH(quarter) __builtin_convertvector((quarter_u8)(quarter), half_u16)
#define NARROW_Q(whole) (raw_Q) __builtin_convertvector((vu32)(whole), quarter_u8)
#endif

#define SELECT(mask, a, b)                                                                         \
    ((__typeof__(a))(((__typeof__(mask))(a) & (mask)) | ((__typeof__(mask))(b) & ~(mask))))
#define TRUTH(x) ((x) != 0)

/* ---- Operators. min and max keep a NaN once seen. */

#define FLOAT_OPERATORS(name, vector, mask_vector, one_bits, nan_bits)                             \
    static inline WI_INLINE vector name##_apply(int op, vector a, vector b)                        \
    {                                                                                              \
        switch (op) {                                                                              \
        case WEFT_SUM:                                                                             \
            return a + b;                                                                          \
        case WEFT_PROD:                                                                            \
            return a * b;                                                                          \
        case WEFT_MIN:                                                                             \
            return SELECT((a <= b) | (a != a), a, b);                                              \
        case WEFT_MAX:                                                                             \
            return SELECT((a >= b) | (a != a), a, b);                                              \
        case WEFT_LAND:                                                                            \
            return (vector)((mask_vector)(TRUTH(a) & TRUTH(b)) & (one_bits));                      \
        case WEFT_LOR:                                                                             \
            return (vector)((mask_vector)(TRUTH(a) | TRUTH(b)) & (one_bits));                      \
        default:                                                                                   \
            return (vector)((mask_vector)(TRUTH(a) ^ TRUTH(b)) & (one_bits));                      \
        }                                                                                          \
    }                                                                                              \
    static inline WI_INLINE vector name##_finish(vector a)                                         \
    {                                                                                              \
        return SELECT(a == a, a, (vector)((mask_vector){0} + (nan_bits)));                         \
    }

FLOAT_OPERATORS(f32, vf32, vs32, 0x3f800000, 0x7fc00000)
FLOAT_OPERATORS(f64, vf64, vs64, 0x3ff0000000000000, 0x7ff8000000000000)

#define INT_OPERATORS(name, vector)                                                                \
    static inline WI_INLINE vector name##_apply(int op, vector a, vector b)                        \
    {                                                                                              \
        switch (op) {                                                                              \
        case WEFT_SUM:                                                                             \
            return a + b;                                                                          \
        case WEFT_PROD:                                                                            \
            return a * b;                                                                          \
        case WEFT_MIN:                                                                             \
            return SELECT(a < b, a, b);                                                            \
        case WEFT_MAX:                                                                             \
            return SELECT(a > b, a, b);                                                            \
        case WEFT_BAND:                                                                            \
            return a & b;                                                                          \
        case WEFT_BOR:                                                                             \
            return a | b;                                                                          \
        case WEFT_BXOR:                                                                            \
            return a ^ b;                                                                          \
        case WEFT_LAND:                                                                            \
            return (vector)(TRUTH(a) & TRUTH(b)) & 1;                                              \
        case WEFT_LOR:                                                                             \
            return (vector)(TRUTH(a) | TRUTH(b)) & 1;                                              \
        default:                                                                                   \
            return (vector)(TRUTH(a) ^ TRUTH(b)) & 1;                                              \
        }                                                                                          \
    }

INT_OPERATORS(u8, vu8)
INT_OPERATORS(u16, vu16)
INT_OPERATORS(u32, vu32)
INT_OPERATORS(u64, vu64)
INT_OPERATORS(s8, vs8)
INT_OPERATORS(s16, vs16)
INT_OPERATORS(s32, vs32)
INT_OPERATORS(s64, vs64)

#define AS_IS(x) (x)

/* ---- 16- and 8-bit floats to fp32 and back. Encoders are given finished values. */

static inline WI_INLINE vf32 bf16_decode(raw_H raw)
{
    return (vf32)((vu32)WIDEN_H(raw) << 16);
}

static inline WI_INLINE raw_H bf16_encode(vf32 v)
{
    vu32 u = (vu32)v;

    u = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
    return NARROW_H(u);
}

static inline WI_INLINE vf32 e5m2_decode(raw_Q raw)
{
    return f16_decode((raw_H)((half_u16)WIDEN_QH(raw) << 8));
}

/* The fp16 number with the same fields is smaller by 2^8, denormals included. */
static inline WI_INLINE vf32 e4m3_decode(raw_Q raw)
{
    half_u16 wide = (half_u16)WIDEN_QH(raw);
    half_u16 fields = ((wide & 0x7f) << 7) | ((wide & 0x80) << 8);
    half_u16 nan = (half_u16)((wide & 0x7f) == 0x7f) & 0x7e00;

    return f16_decode((raw_H)(fields | nan)) * 256.0f;
}

/* Round to `mantissa` bits: normal numbers by integer arithmetic, the rest by adding the power of two whose last place
 * is the format's smallest step. Returns the code without sign, limited to `limit`. */
static inline WI_INLINE vu32 small_encode(vu32 abs, int mantissa, uint32_t bias, float magic, uint32_t limit)
{
    uint32_t drop = 23 - (uint32_t)mantissa, magic_bits, lowest = (128 - bias) << 23;
    vu32 normal, denormal;

    memcpy(&magic_bits, &magic, sizeof(magic_bits));
    normal = (abs + ((1u << (drop - 1)) - 1) + ((abs >> drop) & 1)) >> drop;
    normal -= (127 - bias) << mantissa;
    normal = SELECT(normal < limit, normal, (vu32){0} + limit);
    denormal = (vu32)((vf32)abs + magic) - magic_bits;
    return SELECT(abs < lowest, denormal, normal);
}

static inline WI_INLINE raw_Q f8_encode(vf32 v, int mantissa, uint32_t bias, float magic, uint32_t limit,
                                        uint32_t nan)
{
    vu32 u = (vu32)v, abs = u & 0x7fffffff;
    vu32 code = small_encode(abs, mantissa, bias, magic, limit);

    code = SELECT(abs > 0x7f800000, (vu32){0} + nan, code) | ((u >> 24) & 0x80);
    return NARROW_Q(code);
}

static inline WI_INLINE raw_Q e5m2_encode(vf32 v)
{
    return f8_encode(v, 2, 15, 128.0f, 0x7c, 0x7e);
}

static inline WI_INLINE raw_Q e4m3_encode(vf32 v)
{
    return f8_encode(v, 3, 7, 16384.0f, 0x7e, 0x7f);
}

/* Any non-zero byte is true. */
static inline WI_INLINE vu8 bool_decode(raw_F raw)
{
    return (vu8)((vu8)raw != 0) & 1;
}

/* ---- The loops of each dtype. */

#define FAM f32
#define FAM_BYTES 4
#define FAM_CLASS F
#define FAM_COMPUTE vf32
#define FAM_NUMBER float
#define FAM_DECODE (vf32)
#define FAM_ENCODE (raw_F)
#define FAM_APPLY f32_apply
#define FAM_FINISH f32_finish
#define FAM_SCALES 1
#define FAM_UNROLL 4
#include "base/reduce_family.h"

#define FAM f64
#define FAM_BYTES 8
#define FAM_CLASS F
#define FAM_COMPUTE vf64
#define FAM_NUMBER double
#define FAM_DECODE (vf64)
#define FAM_ENCODE (raw_F)
#define FAM_APPLY f64_apply
#define FAM_FINISH f64_finish
#define FAM_SCALES 1
#define FAM_UNROLL 4
#include "base/reduce_family.h"

#define FAM f16
#define FAM_BYTES 2
#define FAM_CLASS H
#define FAM_COMPUTE vf32
#define FAM_NUMBER float
#define FAM_DECODE f16_decode
#define FAM_ENCODE f16_encode
#define FAM_APPLY f32_apply
#define FAM_FINISH f32_finish
#define FAM_SCALES 1
#define FAM_UNROLL 4
#include "base/reduce_family.h"

#define FAM bf16
#define FAM_BYTES 2
#define FAM_CLASS H
#define FAM_COMPUTE vf32
#define FAM_NUMBER float
#define FAM_DECODE bf16_decode
#define FAM_ENCODE bf16_encode
#define FAM_APPLY f32_apply
#define FAM_FINISH f32_finish
#define FAM_SCALES 1
#define FAM_UNROLL 4
#include "base/reduce_family.h"

#define FAM e4m3
#define FAM_BYTES 1
#define FAM_CLASS Q
#define FAM_COMPUTE vf32
#define FAM_NUMBER float
#define FAM_DECODE e4m3_decode
#define FAM_ENCODE e4m3_encode
#define FAM_APPLY f32_apply
#define FAM_FINISH f32_finish
#define FAM_SCALES 1
#define FAM_UNROLL 2
#include "base/reduce_family.h"

#define FAM e5m2
#define FAM_BYTES 1
#define FAM_CLASS Q
#define FAM_COMPUTE vf32
#define FAM_NUMBER float
#define FAM_DECODE e5m2_decode
#define FAM_ENCODE e5m2_encode
#define FAM_APPLY f32_apply
#define FAM_FINISH f32_finish
#define FAM_SCALES 1
#define FAM_UNROLL 2
#include "base/reduce_family.h"

#define FAM bool
#define FAM_BYTES 1
#define FAM_CLASS F
#define FAM_COMPUTE vu8
#define FAM_NUMBER uint8_t
#define FAM_DECODE bool_decode
#define FAM_ENCODE (raw_F)
#define FAM_APPLY u8_apply
#define FAM_FINISH AS_IS
#define FAM_SCALES 0
#define FAM_UNROLL 2
#include "base/reduce_family.h"

#define FAM u8
#define FAM_BYTES 1
#define FAM_CLASS F
#define FAM_COMPUTE vu8
#define FAM_NUMBER uint8_t
#define FAM_DECODE (vu8)
#define FAM_ENCODE (raw_F)
#define FAM_APPLY u8_apply
#define FAM_FINISH AS_IS
#define FAM_SCALES 0
#define FAM_UNROLL 2
#include "base/reduce_family.h"

#define FAM s8
#define FAM_BYTES 1
#define FAM_CLASS F
#define FAM_COMPUTE vs8
#define FAM_NUMBER int8_t
#define FAM_DECODE (vs8)
#define FAM_ENCODE (raw_F)
#define FAM_APPLY s8_apply
#define FAM_FINISH AS_IS
#define FAM_SCALES 0
#define FAM_UNROLL 2
#include "base/reduce_family.h"

#define FAM u16
#define FAM_BYTES 2
#define FAM_CLASS F
#define FAM_COMPUTE vu16
#define FAM_NUMBER uint16_t
#define FAM_DECODE (vu16)
#define FAM_ENCODE (raw_F)
#define FAM_APPLY u16_apply
#define FAM_FINISH AS_IS
#define FAM_SCALES 0
#define FAM_UNROLL 2
#include "base/reduce_family.h"

#define FAM s16
#define FAM_BYTES 2
#define FAM_CLASS F
#define FAM_COMPUTE vs16
#define FAM_NUMBER int16_t
#define FAM_DECODE (vs16)
#define FAM_ENCODE (raw_F)
#define FAM_APPLY s16_apply
#define FAM_FINISH AS_IS
#define FAM_SCALES 0
#define FAM_UNROLL 2
#include "base/reduce_family.h"

#define FAM u32
#define FAM_BYTES 4
#define FAM_CLASS F
#define FAM_COMPUTE vu32
#define FAM_NUMBER uint32_t
#define FAM_DECODE (vu32)
#define FAM_ENCODE (raw_F)
#define FAM_APPLY u32_apply
#define FAM_FINISH AS_IS
#define FAM_SCALES 0
#define FAM_UNROLL 4
#include "base/reduce_family.h"

#define FAM s32
#define FAM_BYTES 4
#define FAM_CLASS F
#define FAM_COMPUTE vs32
#define FAM_NUMBER int32_t
#define FAM_DECODE (vs32)
#define FAM_ENCODE (raw_F)
#define FAM_APPLY s32_apply
#define FAM_FINISH AS_IS
#define FAM_SCALES 0
#define FAM_UNROLL 4
#include "base/reduce_family.h"

#define FAM u64
#define FAM_BYTES 8
#define FAM_CLASS F
#define FAM_COMPUTE vu64
#define FAM_NUMBER uint64_t
#define FAM_DECODE (vu64)
#define FAM_ENCODE (raw_F)
#define FAM_APPLY u64_apply
#define FAM_FINISH AS_IS
#define FAM_SCALES 0
#define FAM_UNROLL 4
#include "base/reduce_family.h"

#define FAM s64
#define FAM_BYTES 8
#define FAM_CLASS F
#define FAM_COMPUTE vs64
#define FAM_NUMBER int64_t
#define FAM_DECODE (vs64)
#define FAM_ENCODE (raw_F)
#define FAM_APPLY s64_apply
#define FAM_FINISH AS_IS
#define FAM_SCALES 0
#define FAM_UNROLL 4
#include "base/reduce_family.h"

/* ---- The functions and their table. */

#define KERNEL_TWO(family, name, op)                                                               \
    static void family##_##name##_two(void *dst, const void *a, const void *b, size_t elems)       \
    {                                                                                              \
        family##_two(op, dst, a, b, elems);                                                        \
    }
#define KERNEL(family, name, op)                                                                   \
    KERNEL_TWO(family, name, op)                                                                   \
    static void family##_##name##_many(const struct wi_reduce_job *job)                            \
    {                                                                                              \
        family##_many(op, job);                                                                    \
    }

#define FLOAT_KERNELS(family)                                                                      \
    KERNEL(family, sum, WEFT_SUM)                                                                  \
    KERNEL(family, prod, WEFT_PROD)                                                                \
    KERNEL(family, min, WEFT_MIN)                                                                  \
    KERNEL(family, max, WEFT_MAX)                                                                  \
    KERNEL_TWO(family, land, WEFT_LAND)                                                            \
    KERNEL_TWO(family, lor, WEFT_LOR)                                                              \
    KERNEL_TWO(family, lxor, WEFT_LXOR)

/* Only order depends on the sign. */
#define INT_KERNELS(kernel, unsigned_family, signed_family)                                        \
    kernel(unsigned_family, sum, WEFT_SUM)                                                         \
    kernel(unsigned_family, prod, WEFT_PROD)                                                       \
    kernel(unsigned_family, min, WEFT_MIN)                                                         \
    kernel(unsigned_family, max, WEFT_MAX)                                                         \
    kernel(signed_family, min, WEFT_MIN)                                                           \
    kernel(signed_family, max, WEFT_MAX)                                                           \
    KERNEL_TWO(unsigned_family, band, WEFT_BAND)                                                   \
    KERNEL_TWO(unsigned_family, bor, WEFT_BOR)                                                     \
    KERNEL_TWO(unsigned_family, bxor, WEFT_BXOR)                                                   \
    KERNEL_TWO(unsigned_family, land, WEFT_LAND)                                                   \
    KERNEL_TWO(unsigned_family, lor, WEFT_LOR)                                                     \
    KERNEL_TWO(unsigned_family, lxor, WEFT_LXOR)

FLOAT_KERNELS(f32)
FLOAT_KERNELS(f64)
FLOAT_KERNELS(f16)
FLOAT_KERNELS(bf16)
FLOAT_KERNELS(e4m3)
FLOAT_KERNELS(e5m2)
INT_KERNELS(KERNEL_TWO, u8, s8)
INT_KERNELS(KERNEL_TWO, u16, s16)
INT_KERNELS(KERNEL, u32, s32)
INT_KERNELS(KERNEL, u64, s64)
KERNEL_TWO(bool, and, WEFT_BAND)
KERNEL_TWO(bool, or, WEFT_BOR)
KERNEL_TWO(bool, xor, WEFT_BXOR)

#define ENTRY(family, name, bytes) {family##_##name##_two, family##_##name##_many, 0, bytes}
#define ENTRY_TWO(family, name, bytes) {family##_##name##_two, NULL, 0, bytes}
#define PAIRS(family, name, bytes) {family##_##name##_two, family##_##name##_many, 1, bytes}
#define FLOAT_ROW(family, bytes)                                                                   \
    {                                                                                              \
        [WEFT_SUM] = ENTRY(family, sum, bytes), [WEFT_PROD] = ENTRY(family, prod, bytes),          \
        [WEFT_MIN] = ENTRY(family, min, bytes), [WEFT_MAX] = ENTRY(family, max, bytes),            \
        [WEFT_AVG] = ENTRY(family, sum, bytes), [WEFT_LAND] = ENTRY_TWO(family, land, bytes),      \
        [WEFT_LOR] = ENTRY_TWO(family, lor, bytes), [WEFT_LXOR] = ENTRY_TWO(family, lxor, bytes),  \
    }
#define INT_ROW(entry, family, ordered, bytes)                                                     \
    {                                                                                              \
        [WEFT_SUM] = entry(family, sum, bytes), [WEFT_PROD] = entry(family, prod, bytes),          \
        [WEFT_MIN] = entry(ordered, min, bytes), [WEFT_MAX] = entry(ordered, max, bytes),          \
        [WEFT_AVG] = entry(family, sum, bytes), [WEFT_BAND] = ENTRY_TWO(family, band, bytes),      \
        [WEFT_BOR] = ENTRY_TWO(family, bor, bytes), [WEFT_BXOR] = ENTRY_TWO(family, bxor, bytes),  \
        [WEFT_LAND] = ENTRY_TWO(family, land, bytes), [WEFT_LOR] = ENTRY_TWO(family, lor, bytes),  \
        [WEFT_LXOR] = ENTRY_TWO(family, lxor, bytes),                                              \
    }
#define COMPLEX_ROW(complex, real, bytes)                                                          \
    {                                                                                              \
        [WEFT_SUM] = PAIRS(real, sum, bytes), [WEFT_AVG] = PAIRS(real, sum, bytes),                \
        [WEFT_PROD] = {wi_##complex##_prod, NULL, 0, bytes},                                       \
        [WEFT_LAND] = {wi_##complex##_land, NULL, 0, bytes},                                       \
        [WEFT_LOR] = {wi_##complex##_lor, NULL, 0, bytes},                                         \
        [WEFT_LXOR] = {wi_##complex##_lxor, NULL, 0, bytes},                                       \
    }

/* A bool is a count modulo "any": sum is or, and the truncated average is 1 only if all are. */
static const struct wi_kernel kernels[WEFT_NUM_DTYPES][WEFT_NUM_OPS] = {
    [WEFT_INT8] = INT_ROW(ENTRY_TWO, u8, s8, 1),
    [WEFT_UINT8] = INT_ROW(ENTRY_TWO, u8, u8, 1),
    [WEFT_INT16] = INT_ROW(ENTRY_TWO, u16, s16, 2),
    [WEFT_UINT16] = INT_ROW(ENTRY_TWO, u16, u16, 2),
    [WEFT_INT32] = INT_ROW(ENTRY, u32, s32, 4),
    [WEFT_UINT32] = INT_ROW(ENTRY, u32, u32, 4),
    [WEFT_INT64] = INT_ROW(ENTRY, u64, s64, 8),
    [WEFT_UINT64] = INT_ROW(ENTRY, u64, u64, 8),
    [WEFT_FLOAT16] = FLOAT_ROW(f16, 4),
    [WEFT_BFLOAT16] = FLOAT_ROW(bf16, 4),
    [WEFT_FLOAT32] = FLOAT_ROW(f32, 4),
    [WEFT_FLOAT64] = FLOAT_ROW(f64, 8),
    [WEFT_FLOAT8E4M3] = FLOAT_ROW(e4m3, 4),
    [WEFT_FLOAT8E5M2] = FLOAT_ROW(e5m2, 4),
    [WEFT_BOOL] = {
        [WEFT_SUM] = ENTRY_TWO(bool, or, 1), [WEFT_PROD] = ENTRY_TWO(bool, and, 1),
        [WEFT_MIN] = ENTRY_TWO(bool, and, 1), [WEFT_MAX] = ENTRY_TWO(bool, or, 1),
        [WEFT_AVG] = ENTRY_TWO(bool, and, 1), [WEFT_BAND] = ENTRY_TWO(bool, and, 1),
        [WEFT_BOR] = ENTRY_TWO(bool, or, 1), [WEFT_BXOR] = ENTRY_TWO(bool, xor, 1),
        [WEFT_LAND] = ENTRY_TWO(bool, and, 1), [WEFT_LOR] = ENTRY_TWO(bool, or, 1),
        [WEFT_LXOR] = ENTRY_TWO(bool, xor, 1),
    },
    [WEFT_COMPLEX64] = COMPLEX_ROW(c64, f32, 4),
    [WEFT_COMPLEX128] = COMPLEX_ROW(c128, f64, 8),
};

const struct wi_isa WI_SIMD_ISA = {WI_SIMD_NAME, kernels, simd_copy_stream, simd_fence, simd_copy};
