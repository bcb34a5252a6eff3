/* Inputs, operators and references.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/conform/collect.h"

#include <math.h>
#include <string.h>

#include "base/reduce.h"

enum family { SIGNED, UNSIGNED, FLOATING, BOOLEAN, COMPLEX };

static enum family family_of(weft_dtype dtype)
{
    switch (dtype) {
    case WEFT_INT8:
    case WEFT_INT16:
    case WEFT_INT32:
    case WEFT_INT64:
        return SIGNED;
    case WEFT_UINT8:
    case WEFT_UINT16:
    case WEFT_UINT32:
    case WEFT_UINT64:
        return UNSIGNED;
    case WEFT_BOOL:
        return BOOLEAN;
    case WEFT_COMPLEX64:
    case WEFT_COMPLEX128:
        return COMPLEX;
    default:
        return FLOATING;
    }
}

static int is_integer(weft_dtype dtype)
{
    return family_of(dtype) == SIGNED || family_of(dtype) == UNSIGNED;
}

static int is_byte_float(weft_dtype dtype)
{
    return dtype == WEFT_FLOAT8E4M3 || dtype == WEFT_FLOAT8E5M2;
}

uint64_t cc_hash(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t h = a * 0x9e3779b97f4a7c15ull ^ (b + 0x7f4a7c15ull) * 0xff51afd7ed558ccdull ^ c * 0xc4ceb9fe1a85ec53ull;

    h ^= h >> 32;
    h *= 0xd6e8feb86659fd93ull;
    return h ^ h >> 29;
}

int cc_op_defined(weft_dtype dtype, int op)
{
    if (op == CC_OP_PLUS_ONE)
        return dtype == WEFT_INT64;
    if (op == CC_OP_AFFINE)
        return dtype == WEFT_UINT64;
    if (op == CC_OP_PREMUL)
        return dtype != WEFT_BOOL;
    if (op == WEFT_MIN || op == WEFT_MAX)
        return family_of(dtype) != COMPLEX;
    if (op == WEFT_BAND || op == WEFT_BOR || op == WEFT_BXOR)
        return family_of(dtype) != COMPLEX && family_of(dtype) != FLOATING;
    return 1;
}

/* ---- Elements as bytes ---- */

static union cc_value narrowed(weft_dtype dtype, uint64_t bits)
{
    unsigned unused = 64 - 8 * (unsigned)weft_dtype_bytes(dtype);
    union cc_value v;

    v.i = family_of(dtype) == SIGNED ? (uint64_t)((int64_t)(bits << unused) >> unused) : bits << unused >> unused;
    return v;
}

void cc_encode(weft_dtype dtype, union cc_value v, void *out)
{
    double d = v.re;
    float pair[2] = {(float)v.re, (float)v.im};
    uint16_t half;
    uint8_t byte;

    switch (dtype) {
    case WEFT_FLOAT16:
        half = wi_f32_to_f16(pair[0]);
        memcpy(out, &half, 2);
        break;
    case WEFT_BFLOAT16:
        half = wi_f32_to_bf16(pair[0]);
        memcpy(out, &half, 2);
        break;
    case WEFT_FLOAT8E4M3:
        byte = wi_f32_to_f8e4m3(pair[0]);
        memcpy(out, &byte, 1);
        break;
    case WEFT_FLOAT8E5M2:
        byte = wi_f32_to_f8e5m2(pair[0]);
        memcpy(out, &byte, 1);
        break;
    case WEFT_FLOAT32:
        memcpy(out, pair, 4);
        break;
    case WEFT_FLOAT64:
        memcpy(out, &d, 8);
        break;
    case WEFT_COMPLEX64:
        memcpy(out, pair, 8);
        break;
    case WEFT_COMPLEX128:
        memcpy(out, &v, 16);
        break;
    default:
        memcpy(out, &v.i, weft_dtype_bytes(dtype));
        break; /* little-endian, as all hosts of the tests */
    }
}

union cc_value cc_decode(weft_dtype dtype, const void *in)
{
    union cc_value v = {.im = 0};
    float pair[2];
    uint16_t half;
    uint8_t byte;

    v.re = 0;
    switch (dtype) {
    case WEFT_FLOAT16:
        memcpy(&half, in, 2);
        v.re = wi_f16_to_f32(half);
        break;
    case WEFT_BFLOAT16:
        memcpy(&half, in, 2);
        v.re = wi_bf16_to_f32(half);
        break;
    case WEFT_FLOAT8E4M3:
        memcpy(&byte, in, 1);
        v.re = wi_f8e4m3_to_f32(byte);
        break;
    case WEFT_FLOAT8E5M2:
        memcpy(&byte, in, 1);
        v.re = wi_f8e5m2_to_f32(byte);
        break;
    case WEFT_FLOAT32:
        memcpy(pair, in, 4);
        v.re = pair[0];
        break;
    case WEFT_FLOAT64:
        memcpy(&v.re, in, 8);
        break;
    case WEFT_COMPLEX64:
        memcpy(pair, in, 8);
        v.re = pair[0];
        v.im = pair[1];
        break;
    case WEFT_COMPLEX128:
        memcpy(&v, in, 16);
        break;
    default:
        v.i = 0;
        memcpy(&v.i, in, weft_dtype_bytes(dtype));
        v = narrowed(dtype, v.i);
        break;
    }
    return v;
}

/* ---- Inputs: such that every intermediate result of every order of summation is exact ---- */

static double small_number(const struct cc_call *c, uint64_t h)
{
    static const double factors[] = {1, -1, 2, 1};

    if (c->op == WEFT_PROD)
        return factors[h % 4];
    return is_byte_float(c->dtype) ? (double)(h % 3) - 1 : (double)(h % 5) - 2;
}

union cc_value cc_input(const struct cc_call *c, int rank, size_t at)
{
    uint64_t h = cc_hash(c->seed, (uint64_t)rank, at);
    union cc_value v = {.im = 0};

    v.re = 0;
    switch (family_of(c->dtype)) {
    case SIGNED:
        return narrowed(c->dtype, c->op == WEFT_AVG ? h % 13 - 6 : h);
    case UNSIGNED:
        return narrowed(c->dtype, c->op == WEFT_AVG ? h % 13 : h);
    case BOOLEAN:
        v.i = h % 4 != 0;
        return v;
    case COMPLEX:
        v.im = c->op == WEFT_PROD ? 0 : small_number(c, h >> 20); /* fall through */
    default:
        v.re = small_number(c, h >> 8);
        return v;
    }
}

/* ---- Operators ---- */

static void plus_one(const void *left, const void *right, void *out, size_t count, weft_dtype dtype, void *arg)
{
    (void)dtype;
    (void)arg;
    for (size_t i = 0; i < count; i++) {
        uint64_t a, b;
        memcpy(&a, (const char *)left + 8 * i, 8);
        memcpy(&b, (const char *)right + 8 * i, 8);
        a += b + 1;
        memcpy((char *)out + 8 * i, &a, 8);
    }
}

/* x -> a x + b, as a | b << 32; the left one is applied first. */
static uint64_t compose(uint64_t left, uint64_t right)
{
    uint32_t a1 = (uint32_t)left, b1 = (uint32_t)(left >> 32), a2 = (uint32_t)right, b2 = (uint32_t)(right >> 32);

    return (uint64_t)(a1 * a2) | (uint64_t)(b1 * a2 + b2) << 32;
}

static void affine(const void *left, const void *right, void *out, size_t count, weft_dtype dtype, void *arg)
{
    (void)dtype;
    (void)arg;
    for (size_t i = 0; i < count; i++) {
        uint64_t a, b;
        memcpy(&a, (const char *)left + 8 * i, 8);
        memcpy(&b, (const char *)right + 8 * i, 8);
        a = compose(a, b);
        memcpy((char *)out + 8 * i, &a, 8);
    }
}

weft_status cc_make_ops(struct cc_world *w)
{
    weft_status st = weft_op_create(plus_one, NULL, 1, &w->user[0]);

    return st < 0 ? st : weft_op_create(affine, NULL, 0, &w->user[1]);
}

static double premul_factor(weft_dtype dtype)
{
    return is_byte_float(dtype) ? -1 : 2;
}

const void *cc_premul_scalar(weft_dtype dtype)
{
    static _Thread_local unsigned char scalar[16];
    union cc_value v = {.im = 0};

    v.re = premul_factor(dtype);
    if (is_integer(dtype))
        v.i = 3;
    cc_encode(dtype, v, scalar);
    return scalar;
}

static uint64_t combine_integers(const struct cc_call *c, uint64_t a, uint64_t b)
{
    int less = family_of(c->dtype) == SIGNED ? (int64_t)a < (int64_t)b : a < b;

    switch (c->op) {
    case WEFT_PROD:
        return a * b;
    case WEFT_MIN:
        return less ? a : b;
    case WEFT_MAX:
        return less ? b : a;
    case WEFT_BAND:
        return a & b;
    case WEFT_BOR:
        return a | b;
    case WEFT_BXOR:
        return a ^ b;
    case WEFT_LAND:
        return a && b;
    case WEFT_LOR:
        return a || b;
    case WEFT_LXOR:
        return !a != !b;
    case CC_OP_PLUS_ONE:
        return a + b + 1;
    case CC_OP_AFFINE:
        return compose(a, b);
    default:
        return a + b;
    }
}

static uint64_t combine_bools(int op, uint64_t a, uint64_t b)
{
    switch (op) {
    case WEFT_SUM:
    case WEFT_MAX:
    case WEFT_BOR:
    case WEFT_LOR:
        return a | b;
    case WEFT_BXOR:
    case WEFT_LXOR:
        return a ^ b;
    default:
        return a & b;
    }
}

static union cc_value combine_floats(int op, union cc_value a, union cc_value b)
{
    int ta = a.re != 0 || a.im != 0, tb = b.re != 0 || b.im != 0;
    union cc_value v = {.im = 0};

    switch (op) {
    case WEFT_PROD:
        v.re = a.re * b.re - a.im * b.im;
        v.im = a.re * b.im + a.im * b.re;
        return v;
    case WEFT_MIN:
        v.re = a.re < b.re ? a.re : b.re;
        return v;
    case WEFT_MAX:
        v.re = a.re > b.re ? a.re : b.re;
        return v;
    case WEFT_LAND:
        v.re = ta && tb;
        return v;
    case WEFT_LOR:
        v.re = ta || tb;
        return v;
    case WEFT_LXOR:
        v.re = ta != tb;
        return v;
    default:
        v.re = a.re + b.re;
        v.im = a.im + b.im;
        return v;
    }
}

static union cc_value scaled_input(const struct cc_call *c, int rank, size_t at)
{
    union cc_value v = cc_input(c, rank, at);

    if (c->op != CC_OP_PREMUL)
        return v;
    if (is_integer(c->dtype))
        return narrowed(c->dtype, v.i * 3);
    v.re *= premul_factor(c->dtype);
    v.im *= premul_factor(c->dtype);
    return v;
}

union cc_value cc_reduced(const struct cc_call *c, int last, int nranks, size_t at)
{
    union cc_value v = scaled_input(c, 0, at);

    for (int r = 1; r < last; r++) {
        union cc_value next = scaled_input(c, r, at);
        if (is_integer(c->dtype))
            v = narrowed(c->dtype, combine_integers(c, v.i, next.i));
        else if (c->dtype == WEFT_BOOL)
            v.i = combine_bools(c->op, v.i, next.i);
        else
            v = combine_floats(c->op, v, next);
    }
    if (c->op != WEFT_AVG || c->dtype == WEFT_BOOL)
        return v;
    if (is_integer(c->dtype)) {
        v.i = (uint64_t)((int64_t)v.i / nranks);
        return v;
    }
    v.re /= nranks;
    v.im /= nranks;
    return v;
}

/* ---- Comparison: exact, but for the quotient of an average, which is rounded ---- */

static double epsilon(weft_dtype dtype)
{
    switch (dtype) {
    case WEFT_FLOAT16:
        return 0x1p-10;
    case WEFT_BFLOAT16:
        return 0x1p-7;
    case WEFT_FLOAT8E4M3:
        return 0x1p-3;
    case WEFT_FLOAT8E5M2:
        return 0x1p-2;
    case WEFT_FLOAT32:
    case WEFT_COMPLEX64:
        return 0x1p-23;
    default:
        return 0x1p-52;
    }
}

int cc_same(const struct cc_call *c, union cc_value got, union cc_value want)
{
    double eps = c->op == WEFT_AVG && cc_reduces(c->kind) ? epsilon(c->dtype) : 0;

    if (is_integer(c->dtype) || c->dtype == WEFT_BOOL)
        return got.i == want.i;
    return fabs(got.re - want.re) <= eps * fabs(want.re) && fabs(got.im - want.im) <= eps * fabs(want.im);
}
