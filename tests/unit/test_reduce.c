/* SPDX-License-Identifier: BSD-3-Clause */
/* Reductions against a naive reference, on every instruction set of this machine.
 *
 * Bounds. Integers, bool, logical operators, min and max: exact. f32, f64 and complex: the kernel and the reference do
 * nsrc - 1 operations; each is off by at most half an ulp of the magnitudes added, so |error| <= nsrc * eps *
 * (sum, or product, of magnitudes). 16- and 8-bit floats: the same with fp32's eps, plus one rounding to the format. */
#include <float.h>
#include <math.h>
#include <stdint.h>

#include "base/reduce.h"
#include "base/status.h"
#include "unit.h"

#define MAX_ELEMS 1100
#define MAX_BYTES (MAX_ELEMS * 16 + 256)
#define GUARD 0xa5

static const char *const isas[] = {"scalar", "avx2", "avx512", "neon"};
#define NUM_ISAS 4

static unsigned char source[WI_REDUCE_MAX_SRC][MAX_BYTES];
static unsigned char output[4][MAX_BYTES];
static unsigned char expected[MAX_BYTES];
static uint64_t random_state = 88172645463325252ull;

static uint64_t random_next(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static struct wi_redop redop_make(unsigned dtype, unsigned op, uint32_t divisor)
{
    return (struct wi_redop){.dtype = (uint8_t)dtype,
                             .op = (uint8_t)op,
                             .commutative = 1,
                             .divisor = divisor,
                             .elem_bytes = (uint32_t)weft_dtype_bytes((weft_dtype)dtype)};
}

static int is_float(unsigned dtype)
{
    return dtype >= WEFT_FLOAT16 && dtype <= WEFT_FLOAT8E5M2;
}

static int is_complex(unsigned dtype)
{
    return dtype == WEFT_COMPLEX64 || dtype == WEFT_COMPLEX128;
}

/* ---- Values. */

static void float_put(unsigned dtype, void *p, double v)
{
    float f = (float)v;
    uint16_t h;
    uint8_t b;

    switch (dtype) {
    case WEFT_FLOAT16:
        h = wi_f32_to_f16(f);
        memcpy(p, &h, 2);
        break;
    case WEFT_BFLOAT16:
        h = wi_f32_to_bf16(f);
        memcpy(p, &h, 2);
        break;
    case WEFT_FLOAT8E4M3:
        b = wi_f32_to_f8e4m3(f);
        memcpy(p, &b, 1);
        break;
    case WEFT_FLOAT8E5M2:
        b = wi_f32_to_f8e5m2(f);
        memcpy(p, &b, 1);
        break;
    case WEFT_FLOAT32:
    case WEFT_COMPLEX64:
        memcpy(p, &f, 4);
        break;
    default:
        memcpy(p, &v, 8);
    }
}

static double float_get(unsigned dtype, const void *p)
{
    uint16_t h;
    uint8_t b;
    float f;
    double d;

    memcpy(&b, p, 1);
    switch (dtype) {
    case WEFT_FLOAT16:
        memcpy(&h, p, 2);
        return wi_f16_to_f32(h);
    case WEFT_BFLOAT16:
        memcpy(&h, p, 2);
        return wi_bf16_to_f32(h);
    case WEFT_FLOAT8E4M3:
        return wi_f8e4m3_to_f32(b);
    case WEFT_FLOAT8E5M2:
        return wi_f8e5m2_to_f32(b);
    case WEFT_FLOAT32:
    case WEFT_COMPLEX64:
        memcpy(&f, p, 4);
        return f;
    default:
        memcpy(&d, p, 8);
        return d;
    }
}

/* Moderate values; products stay in range even for 64 factors. */
static void source_fill(unsigned dtype, unsigned op, void *p, size_t elems)
{
    size_t bytes = weft_dtype_bytes((weft_dtype)dtype);
    unsigned char *out = p;

    for (size_t i = 0; i < elems; i++, out += bytes) {
        double v = (double)(int64_t)(random_next() >> 11) / (double)(1ull << 52) - 1.0;
        int logical = op >= WEFT_LAND && random_next() % 3 == 0;

        if (op == WEFT_PROD)
            v = 1.0 + v / 32;
        if (logical)
            v = 0;
        if (is_float(dtype)) {
            float_put(dtype, out, v);
        } else if (is_complex(dtype)) {
            float_put(dtype, out, v);
            float_put(dtype, out + bytes / 2, logical ? 0 : v / 3 + 0.01);
        } else {
            uint64_t bits = logical ? 0 : random_next();

            memcpy(out, &bits, bytes);
        }
    }
}

/* ---- The reference: one element. */

static int64_t int_get(unsigned dtype, const void *p)
{
    uint64_t u = 0;
    unsigned bits = 8 * (unsigned)weft_dtype_bytes((weft_dtype)dtype);

    memcpy(&u, p, bits / 8);
    if (dtype % 2 == 0 && dtype < WEFT_FLOAT16 && bits < 64 && (u >> (bits - 1)))
        u |= ~0ull << bits;
    return (int64_t)u;
}

static uint64_t int_combine(unsigned dtype, unsigned op, uint64_t a, uint64_t b)
{
    int is_signed = dtype % 2 == 0;

    switch (op) {
    case WEFT_PROD:
        return a * b;
    case WEFT_MIN:
        return (is_signed ? (int64_t)a < (int64_t)b : a < b) ? a : b;
    case WEFT_MAX:
        return (is_signed ? (int64_t)a > (int64_t)b : a > b) ? a : b;
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
    default:
        return a + b;
    }
}

static void int_reference(const struct wi_redop *redop, int nsrc, size_t offset, size_t i, int final)
{
    size_t bytes = redop->elem_bytes;
    unsigned char word[8];
    uint64_t acc = (uint64_t)int_get(redop->dtype, source[0] + offset + i * bytes);

    for (int s = 1; s < nsrc; s++) {
        acc = int_combine(redop->dtype, redop->op, acc,
                          (uint64_t)int_get(redop->dtype, source[s] + offset + i * bytes));
        memcpy(word, &acc, 8); /* wrap to the type */
        acc = (uint64_t)int_get(redop->dtype, word);
    }
    if (final && redop->op == WEFT_AVG)
        acc = redop->dtype % 2 == 0 ? (uint64_t)((int64_t)acc / (int64_t)redop->divisor)
                                    : acc / redop->divisor;
    memcpy(expected + offset + i * bytes, &acc, bytes);
}

static void bool_reference(const struct wi_redop *redop, int nsrc, size_t offset, size_t i)
{
    int all = 1, any = 0, odd = 0;

    for (int s = 0; s < nsrc; s++) {
        int v = source[s][offset + i] != 0;

        all &= v;
        any |= v;
        odd ^= v;
    }
    switch (redop->op) {
    case WEFT_SUM:
    case WEFT_MAX:
    case WEFT_BOR:
    case WEFT_LOR:
        expected[offset + i] = (unsigned char)any;
        break;
    case WEFT_BXOR:
    case WEFT_LXOR:
        expected[offset + i] = (unsigned char)odd;
        break;
    default:
        expected[offset + i] = (unsigned char)all;
    }
}

static double format_epsilon(unsigned dtype)
{
    switch (dtype) {
    case WEFT_FLOAT16:
        return ldexp(1, -11);
    case WEFT_BFLOAT16:
        return ldexp(1, -8);
    case WEFT_FLOAT8E4M3:
        return ldexp(1, -4);
    case WEFT_FLOAT8E5M2:
        return ldexp(1, -3);
    default:
        return 0;
    }
}

static double format_step(unsigned dtype)
{
    switch (dtype) {
    case WEFT_FLOAT16:
        return ldexp(1, -25);
    case WEFT_FLOAT8E4M3:
        return ldexp(1, -10);
    case WEFT_FLOAT8E5M2:
        return ldexp(1, -17);
    default:
        return 0;
    }
}

static int float_matches(const struct wi_redop *redop, int nsrc, size_t offset, size_t i, int final)
{
    size_t bytes = redop->elem_bytes;
    double got = float_get(redop->dtype, output[0] + offset + i * bytes);
    long double acc = float_get(redop->dtype, source[0] + offset + i * bytes), size = fabsl(acc), bound;

    for (int s = 1; s < nsrc; s++) {
        long double v = float_get(redop->dtype, source[s] + offset + i * bytes);

        switch (redop->op) {
        case WEFT_PROD:
            acc *= v;
            size *= fabsl(v);
            break;
        case WEFT_MIN:
            acc = v < acc ? v : acc;
            break;
        case WEFT_MAX:
            acc = v > acc ? v : acc;
            break;
        case WEFT_LAND:
            acc = acc != 0 && v != 0;
            break;
        case WEFT_LOR:
            acc = acc != 0 || v != 0;
            break;
        case WEFT_LXOR:
            acc = (acc != 0) != (v != 0);
            break;
        default:
            acc += v;
            size += fabsl(v);
        }
    }
    if (redop->op != WEFT_SUM && redop->op != WEFT_PROD && redop->op != WEFT_AVG)
        return nsrc == 1 || got == (double)acc;
    if (final && redop->op == WEFT_AVG) {
        acc /= redop->divisor;
        size /= redop->divisor;
    }
    bound = (nsrc + 1) * size * (redop->dtype == WEFT_FLOAT64 ? DBL_EPSILON : FLT_EPSILON);
    bound += format_epsilon(redop->dtype) * (fabsl(acc) + bound) + format_step(redop->dtype);
    return fabsl(got - acc) <= bound;
}

static int complex_matches(const struct wi_redop *redop, int nsrc, size_t offset, size_t i, int final)
{
    size_t bytes = redop->elem_bytes;
    long double eps = redop->dtype == WEFT_COMPLEX64 ? FLT_EPSILON : DBL_EPSILON, size, bound;
    long double re = 0, im = 0;

    size = 0;
    for (int s = 0; s < nsrc; s++) {
        const unsigned char *p = source[s] + offset + i * bytes;
        long double x = float_get(redop->dtype, p), y = float_get(redop->dtype, p + bytes / 2), t;
        int a = re != 0 || im != 0, b = x != 0 || y != 0;

        size = redop->op == WEFT_PROD && s ? size * 2 * hypotl(x, y) : size + hypotl(x, y);
        if (s == 0) {
            re = x;
            im = y;
            continue;
        }
        switch (redop->op) {
        case WEFT_PROD:
            t = re * x - im * y;
            im = re * y + im * x;
            re = t;
            break;
        case WEFT_LAND:
            re = a && b, im = 0;
            break;
        case WEFT_LOR:
            re = a || b, im = 0;
            break;
        case WEFT_LXOR:
            re = a != b, im = 0;
            break;
        default:
            re += x, im += y;
        }
    }
    if (final && redop->op == WEFT_AVG)
        re /= redop->divisor, im /= redop->divisor, size /= redop->divisor;
    bound = redop->op >= WEFT_LAND ? 0 : (nsrc + 1) * eps * size;
    return fabsl(float_get(redop->dtype, output[0] + offset + i * bytes) - re) <= bound &&
           fabsl(float_get(redop->dtype, output[0] + offset + i * bytes + bytes / 2) - im) <= bound;
}

static int elem_matches(const struct wi_redop *redop, int nsrc, size_t offset, size_t i, int final)
{
    size_t bytes = redop->elem_bytes;

    if (is_float(redop->dtype))
        return float_matches(redop, nsrc, offset, i, final);
    if (is_complex(redop->dtype))
        return complex_matches(redop, nsrc, offset, i, final);
    if (redop->dtype == WEFT_BOOL)
        bool_reference(redop, nsrc, offset, i);
    else
        int_reference(redop, nsrc, offset, i, final);
    return nsrc == 1 || memcmp(output[0] + offset + i * bytes, expected + offset + i * bytes, bytes) == 0;
}

/* ---- One reduction on every instruction set: right, the same bits everywhere, nothing written beside. */

static int guards_intact(const unsigned char *buffer, size_t offset, size_t bytes)
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

static int reduce_once(const struct wi_redop *redop, int nsrc, int ndst, size_t elems, size_t offset,
                       unsigned flags)
{
    size_t bytes = elems * redop->elem_bytes;
    const void *src[WI_REDUCE_MAX_SRC];
    void *dst[4];

    for (int s = 0; s < nsrc; s++)
        src[s] = source[s] + offset;
    for (int d = 0; d < ndst; d++) {
        memset(output[d], GUARD, offset + bytes + 64 + 16);
        dst[d] = output[d] + offset + (d ? 1 : 0);
    }
    wi_reduce(redop, dst, ndst, src, nsrc, elems, flags);
    for (int d = 0; d < ndst; d++) {
        if (!guards_intact(output[d], offset + (d ? 1 : 0), bytes))
            return -1;
        if (memcmp(dst[d], dst[0], bytes) != 0)
            return -2;
    }
    return 0;
}

static void check_case(const struct wi_redop *redop, int nsrc, int ndst, size_t elems, size_t offset,
                       unsigned flags)
{
    static unsigned char first[MAX_BYTES];
    size_t bytes = elems * redop->elem_bytes;
    const char *first_isa = NULL;
    const char *what = NULL;

    for (int k = 0; k < NUM_ISAS && !what; k++) {
        if (wi_isa_force(isas[k]))
            continue;
        if (reduce_once(redop, nsrc, ndst, elems, offset, flags)) {
            what = "wrote beside, or destinations differ";
        } else if (!first_isa) {
            first_isa = isas[k];
            memcpy(first, output[0] + offset, bytes);
            for (size_t i = 0; i < elems && !what; i++) {
                if (!elem_matches(redop, nsrc, offset, i, (flags & WI_REDUCE_FINAL) != 0))
                    what = "wrong";
            }
        } else if (memcmp(first, output[0] + offset, bytes) != 0) {
            what = "bits differ between instruction sets";
        }
        if (what)
            printf("# %s: %s %s nsrc %d ndst %d elems %zu offset %zu flags %u: %s\n", isas[k],
                   weft_dtype_name((weft_dtype)redop->dtype), weft_op_name(redop->op), nsrc, ndst, elems,
                   offset, flags, what);
    }
    CU_ASSERT_PTR_NULL(what);
    wi_isa_force(NULL);
}

static void for_each_operator(void (*fn)(const struct wi_redop *redop))
{
    for (unsigned dtype = 0; dtype < WEFT_NUM_DTYPES; dtype++) {
        for (unsigned op = 0; op < WEFT_NUM_OPS; op++) {
            struct wi_redop redop = redop_make(dtype, op, 3);

            if (wi_redop_check((weft_dtype)dtype, op) != WEFT_SUCCESS)
                continue;
            for (int s = 0; s < WI_REDUCE_MAX_SRC; s++)
                source_fill(dtype, op, source[s] + 5, 1000);
            fn(&redop);
        }
    }
}

static void refill(const struct wi_redop *redop, int nsrc, size_t offset, size_t elems)
{
    for (int s = 0; s < nsrc; s++)
        source_fill(redop->dtype, redop->op, source[s] + offset, elems);
}

static void sizes_of(const struct wi_redop *redop)
{
    refill(redop, 3, 64, 70);
    for (size_t elems = 0; elems <= 70; elems++) {
        check_case(redop, 2, 1, elems, 64, 0);
        check_case(redop, 3, 2, elems, 64, WI_REDUCE_FINAL);
    }
}

static void all_sizes(void)
{
    for_each_operator(sizes_of);
}

static void sources_of(const struct wi_redop *redop)
{
    static const int counts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 17, 64};

    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        struct wi_redop of = *redop;

        of.divisor = (uint32_t)counts[c];
        refill(&of, counts[c], 5, 1000);
        check_case(&of, counts[c], 1, 1000, 5, WI_REDUCE_FINAL);
        check_case(&of, counts[c], 3, 1000, 5, 0);
        refill(&of, counts[c], 64, 1000);
        check_case(&of, counts[c], 2, 1000, 64, WI_REDUCE_FINAL | WI_REDUCE_NT);
    }
}

static void all_source_counts(void)
{
    for_each_operator(sources_of);
}

static void offsets_of(const struct wi_redop *redop)
{
    for (size_t offset = 0; offset < 64; offset += 1 + random_next() % 7) {
        refill(redop, 4, offset, 1030);
        check_case(redop, 2, 1, 1030, offset, 0);
        check_case(redop, 4, 2, 1030, offset, WI_REDUCE_NT);
    }
}

static void unaligned_pointers(void)
{
    for_each_operator(offsets_of);
}

/* A vector longer than the blocks that stay in L1, through every path: fused, grouped, blocked. */
static void long_vectors(void)
{
    static unsigned char a[3][200003 * 8], want[200003 * 8], got[200003 * 8];
    static const unsigned dtypes[] = {WEFT_FLOAT32, WEFT_BFLOAT16, WEFT_INT64, WEFT_INT16, WEFT_FLOAT64};
    const size_t elems = 200003;

    for (size_t t = 0; t < 5; t++) {
        size_t bytes = weft_dtype_bytes((weft_dtype)dtypes[t]);
        struct wi_redop redop = redop_make(dtypes[t], WEFT_AVG, 11);
        const void *src[11], *part[11];
        void *dst = got, *cut;

        for (int s = 0; s < 3; s++)
            source_fill(dtypes[t], WEFT_AVG, a[s], elems);
        for (int s = 0; s < 11; s++)
            src[s] = a[s % 3];
        /* The reference is the same reduction in odd pieces: cutting must not matter. */
        for (size_t i = 0, n; i < elems; i += n) {
            n = 1 + random_next() % 61;
            n = n > elems - i ? elems - i : n;
            for (int s = 0; s < 11; s++)
                part[s] = (const char *)src[s] + i * bytes;
            cut = want + i * bytes;
            wi_reduce(&redop, &cut, 1, part, 11, n, WI_REDUCE_FINAL);
        }
        for (unsigned flags = WI_REDUCE_FINAL; flags <= (WI_REDUCE_FINAL | WI_REDUCE_NT); flags++) {
            memset(got, GUARD, sizeof(got));
            wi_reduce(&redop, &dst, 1, src, 11, elems, flags);
            CU_ASSERT_EQUAL(memcmp(got, want, elems * bytes), 0);
        }
    }
}

static void alias_of(const struct wi_redop *redop)
{
    static unsigned char keep[MAX_BYTES], want[MAX_BYTES];
    size_t elems = 997, bytes = elems * redop->elem_bytes, offset = 3;
    const void *src[9];
    void *dst;

    refill(redop, 9, offset, elems);
    for (int s = 0; s < 9; s++)
        src[s] = source[s] + offset;
    for (int nsrc = 2; nsrc <= 9; nsrc += 7) {
        dst = want;
        wi_reduce(redop, &dst, 1, src, nsrc, elems, WI_REDUCE_FINAL);
        for (int s = 0; s < nsrc; s++) {
            memcpy(keep, src[s], bytes);
            dst = source[s] + offset;
            wi_reduce(redop, &dst, 1, src, nsrc, elems, WI_REDUCE_FINAL);
            CU_ASSERT_EQUAL(memcmp(dst, want, bytes), 0);
            memcpy(dst, keep, bytes);
        }
    }
    dst = want;
    wi_reduce(redop, &dst, 1, src, 2, elems, 0);
    wi_reduce2(redop, output[0], src[0], src[1], elems, 0);
    CU_ASSERT_EQUAL(memcmp(output[0], want, bytes), 0);
    memcpy(keep, src[1], bytes);
    wi_reduce2(redop, source[1] + offset, src[0], src[1], elems, 0);
    CU_ASSERT_EQUAL(memcmp(src[1], want, bytes), 0);
}

static void destination_is_a_source(void)
{
    for (int k = 0; k < NUM_ISAS; k++) {
        if (wi_isa_force(isas[k]) == 0)
            for_each_operator(alias_of);
    }
    wi_isa_force(NULL);
}

/* ---- NaN, infinities, zeros, denormals: the same bits everywhere, and NaN wins. */

static const uint32_t special32[] = {0x7fc00000, 0xffc12345, 0x7f800001, 0x7f800000, 0xff800000, 0,
                                     0x80000000, 1,          0x807fffff, 0x3f800000, 0x7f7fffff, 0xff7fffff};
#define NUM_SPECIAL 12

static void special_put(unsigned dtype, unsigned char *p, unsigned which)
{
    static const uint64_t special64[] = {0x7ff8000000000000, 0xfff8123456789abc, 0x7ff0000000000001,
                                         0x7ff0000000000000, 0xfff0000000000000, 0,
                                         0x8000000000000000, 1, 0x800fffffffffffff, 0x3ff0000000000000,
                                         0x7fefffffffffffff, 0xffefffffffffffff};
    static const uint16_t special_f16[] = {0x7e00, 0xfe12, 0x7c01, 0x7c00, 0xfc00, 0, 0x8000, 1, 0x83ff,
                                           0x3c00, 0x7bff, 0xfbff};
    uint16_t h = (uint16_t)(special32[which] >> 16 | (which == 2));
    uint8_t b = (uint8_t)random_next();

    switch (dtype) {
    case WEFT_FLOAT64:
        memcpy(p, &special64[which], 8);
        break;
    case WEFT_FLOAT32:
        memcpy(p, &special32[which], 4);
        break;
    case WEFT_FLOAT16:
        memcpy(p, &special_f16[which], 2);
        break;
    case WEFT_BFLOAT16:
        memcpy(p, &h, 2);
        break;
    default:
        *p = b;
    }
}

static void check_nan(unsigned dtype, unsigned op, int nsrc, size_t elems)
{
    size_t bytes = weft_dtype_bytes((weft_dtype)dtype);

    for (size_t i = 0; i < elems; i++) {
        int any = 0;

        for (int s = 0; s < nsrc; s++)
            any |= isnan(float_get(dtype, source[s] + 3 + i * bytes));
        if (any && op <= WEFT_AVG)
            CU_ASSERT(isnan(float_get(dtype, output[0] + 3 + i * bytes)));
        if (!any && (op == WEFT_MIN || op == WEFT_MAX))
            CU_ASSERT(!isnan(float_get(dtype, output[0] + 3 + i * bytes)));
    }
}

static void special_values(void)
{
    static unsigned char first[MAX_BYTES];

    for (unsigned dtype = WEFT_FLOAT16; dtype <= WEFT_FLOAT8E5M2; dtype++) {
        size_t bytes = weft_dtype_bytes((weft_dtype)dtype), elems = 1001;

        for (int nsrc = 2; nsrc <= 10; nsrc += 4) {
            for (int s = 0; s < nsrc; s++)
                for (size_t i = 0; i < elems; i++)
                    special_put(dtype, source[s] + 3 + i * bytes, (unsigned)(random_next() % NUM_SPECIAL));
            for (unsigned op = 0; op < WEFT_NUM_OPS; op++) {
                struct wi_redop redop = redop_make(dtype, op, 7);
                int seen = 0;

                if (wi_redop_check((weft_dtype)dtype, op) != WEFT_SUCCESS)
                    continue;
                for (int k = 0; k < NUM_ISAS; k++) {
                    if (wi_isa_force(isas[k]))
                        continue;
                    CU_ASSERT_EQUAL(reduce_once(&redop, nsrc, 1, elems, 3, WI_REDUCE_FINAL), 0);
                    if (!seen++)
                        memcpy(first, output[0] + 3, elems * bytes);
                    CU_ASSERT_EQUAL(memcmp(first, output[0] + 3, elems * bytes), 0);
                }
                check_nan(dtype, op, nsrc, elems);
            }
        }
    }
    wi_isa_force(NULL);
}

/* ---- Conversions, against arithmetic in double. */

/* The value of a code from its fields, by the definition of the format. */
static double code_value(uint32_t code, int exponent_bits, int mantissa_bits)
{
    int bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = (int)(code >> mantissa_bits) & ((1 << exponent_bits) - 1);
    double fraction = (double)(code & ((1u << mantissa_bits) - 1)) / (1 << mantissa_bits);
    double v = exponent ? ldexp(1 + fraction, exponent - bias) : ldexp(fraction, 1 - bias);

    return code >> (exponent_bits + mantissa_bits) ? -v : v;
}

struct format {
    const char *name;
    int exponent_bits, mantissa_bits;
    uint32_t top; /* largest finite code */
    int has_inf;
    float (*decode)(uint32_t);
    uint32_t (*encode)(float);
};

static float decode_f16(uint32_t v) { return wi_f16_to_f32((uint16_t)v); }
static float decode_bf16(uint32_t v) { return wi_bf16_to_f32((uint16_t)v); }
static float decode_e4m3(uint32_t v) { return wi_f8e4m3_to_f32((uint8_t)v); }
static float decode_e5m2(uint32_t v) { return wi_f8e5m2_to_f32((uint8_t)v); }
static uint32_t encode_f16(float v) { return wi_f32_to_f16(v); }
static uint32_t encode_bf16(float v) { return wi_f32_to_bf16(v); }
static uint32_t encode_e4m3(float v) { return wi_f32_to_f8e4m3(v); }
static uint32_t encode_e5m2(float v) { return wi_f32_to_f8e5m2(v); }

static const struct format formats[] = {
    {"f16", 5, 10, 0x7bff, 1, decode_f16, encode_f16},
    {"bf16", 8, 7, 0x7f7f, 1, decode_bf16, encode_bf16},
    {"e4m3", 4, 3, 0x7e, 0, decode_e4m3, encode_e4m3},
    {"e5m2", 5, 2, 0x7b, 1, decode_e5m2, encode_e5m2},
};

/* Nearest code to a positive finite v, ties to the even code, found by bisection over the decoded values. */
static uint32_t nearest_code(const struct format *f, double v)
{
    uint32_t low = 0, high = f->top + 1;
    double below, above;

    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;

        if (code_value(middle, f->exponent_bits, f->mantissa_bits) <= v)
            low = middle;
        else
            high = middle;
    }
    below = code_value(low, f->exponent_bits, f->mantissa_bits);
    /* Past the top the next step is infinity's, except where the format saturates. */
    above = code_value(low + 1, f->exponent_bits, f->mantissa_bits);
    if (low == f->top && !f->has_inf)
        return low;
    if (v - below != above - v)
        return v - below < above - v ? low : low + 1;
    return low & 1 ? low + 1 : low;
}

static void check_encode(const struct format *f, float v)
{
    uint32_t sign = 1u << (f->exponent_bits + f->mantissa_bits), want;

    want = isinf(v) ? f->top + (f->has_inf != 0) : nearest_code(f, v);
    if (f->encode(v) != want || f->encode(-v) != (want | sign)) {
        printf("# %s: %a gives %x, expected %x\n", f->name, (double)v, f->encode(v), want);
        CU_FAIL("rounding");
    }
}

static void conversions(void)
{
    for (size_t k = 0; k < 4; k++) {
        const struct format *f = &formats[k];
        uint32_t sign = 1u << (f->exponent_bits + f->mantissa_bits);

        for (uint32_t code = 0; code < 2 * sign; code++) {
            uint32_t abs = code & (sign - 1);
            float v = f->decode(code);

            if (abs <= f->top) {
                CU_ASSERT_EQUAL((double)v, code_value(code, f->exponent_bits, f->mantissa_bits));
                CU_ASSERT_EQUAL(!!signbit(v), code >> (f->exponent_bits + f->mantissa_bits));
                CU_ASSERT_EQUAL(f->encode(v), code);
            } else if (f->has_inf && abs == f->top + 1) {
                CU_ASSERT(isinf(v));
                CU_ASSERT_EQUAL(f->encode(v), code);
            } else {
                CU_ASSERT(isnan(v));
                CU_ASSERT(isnan(f->decode(f->encode(v))));
            }
        }
        for (uint32_t abs = 0; abs <= f->top; abs++) {
            float v = f->decode(abs), next = (float)code_value(abs + 1, f->exponent_bits, f->mantissa_bits);
            float middle = (float)(((double)v + next) / 2);

            check_encode(f, v);
            check_encode(f, nextafterf(v, INFINITY));
            check_encode(f, middle);
            check_encode(f, nextafterf(middle, 0));
            check_encode(f, nextafterf(middle, INFINITY));
        }
        check_encode(f, INFINITY);
        check_encode(f, FLT_MAX);
        check_encode(f, FLT_MIN / 2);
        check_encode(f, FLT_TRUE_MIN);
        for (int i = 0; i < 200000; i++) {
            uint32_t bits = (uint32_t)random_next() & 0x7fffffff;
            float v;

            memcpy(&v, &bits, 4);
            if (!isnan(v))
                check_encode(f, v);
        }
    }
}

/* Every code through the kernels, added to zero: decode and encode there agree with the scalar functions. */
static void conversions_in_kernels(void)
{
    static uint16_t in[65536], zero[65536], out[65536];
    static uint8_t in8[256], zero8[256], out8[256];

    for (uint32_t i = 0; i < 65536; i++)
        in[i] = (uint16_t)i;
    for (uint32_t i = 0; i < 256; i++)
        in8[i] = (uint8_t)i;
    for (int k = 0; k < NUM_ISAS; k++) {
        if (wi_isa_force(isas[k]))
            continue;
        for (int t = 0; t < 4; t++) {
            static const uint8_t dtypes[] = {WEFT_FLOAT16, WEFT_BFLOAT16, WEFT_FLOAT8E4M3, WEFT_FLOAT8E5M2};
            struct wi_redop redop = redop_make(dtypes[t], WEFT_SUM, 1);
            const struct format *f = &formats[t];
            uint32_t codes = t < 2 ? 65536 : 256, canonical = f->encode(__builtin_nanf(""));

            if (t < 2)
                wi_reduce2(&redop, out, in, zero, codes, 0);
            else
                wi_reduce2(&redop, out8, in8, zero8, codes, 0);
            for (uint32_t i = 0; i < codes; i++) {
                float v = f->decode(i);
                uint32_t got = t < 2 ? out[i] : out8[i];

                CU_ASSERT_EQUAL(got, isnan(v) ? canonical : f->encode(v + 0.0f));
            }
        }
    }
    wi_isa_force(NULL);
}

/* All pairs of 8-bit codes, and random pairs of 16-bit ones, must round as the scalar encoders do. */
static void rounding_in_kernels(void)
{
    static uint16_t a[65536], b[65536], out[65536];
    static uint8_t a8[65536], b8[65536], out8[65536];

    for (uint32_t i = 0; i < 65536; i++) {
        a[i] = (uint16_t)random_next();
        b[i] = (uint16_t)((a[i] ^ random_next()) & 0x83ff) ^ a[i];
        a8[i] = (uint8_t)i;
        b8[i] = (uint8_t)(i >> 8);
    }
    for (int k = 0; k < NUM_ISAS; k++) {
        if (wi_isa_force(isas[k]))
            continue;
        for (int t = 0; t < 4; t++) {
            static const uint8_t dtypes[] = {WEFT_FLOAT16, WEFT_BFLOAT16, WEFT_FLOAT8E4M3, WEFT_FLOAT8E5M2};
            const struct format *f = &formats[t];

            for (unsigned op = WEFT_SUM; op <= WEFT_PROD; op++) {
                struct wi_redop redop = redop_make(dtypes[t], op, 1);

                if (t < 2)
                    wi_reduce2(&redop, out, a, b, 65536, 0);
                else
                    wi_reduce2(&redop, out8, a8, b8, 65536, 0);
                for (uint32_t i = 0; i < 65536; i++) {
                    float x = f->decode(t < 2 ? a[i] : a8[i]), y = f->decode(t < 2 ? b[i] : b8[i]);
                    float v = op == WEFT_SUM ? x + y : x * y;

                    CU_ASSERT_EQUAL((uint32_t)(t < 2 ? out[i] : out8[i]),
                                    f->encode(isnan(v) ? __builtin_nanf("") : v));
                }
            }
        }
    }
    wi_isa_force(NULL);
}

/* ---- The rest of the interface. */

/* Neither commutative nor associative, so that the order of application shows. */
static void user_fn(const void *left, const void *right, void *out, size_t count, weft_dtype dtype, void *arg)
{
    CU_ASSERT_EQUAL(dtype, WEFT_INT32);
    ++*(int *)arg;
    for (size_t i = 0; i < count; i++) {
        uint32_t a, b;

        memcpy(&a, (const char *)left + 4 * i, 4);
        memcpy(&b, (const char *)right + 4 * i, 4);
        a = 3 * a - b;
        memcpy((char *)out + 4 * i, &a, 4);
    }
}

static void user_operator(void)
{
    static uint32_t want[5000], got[2][5000];
    struct wi_redop redop = redop_make(WEFT_INT32, WEFT_SUM, 4);
    const void *src[5];
    void *dst[2] = {got[0], got[1]};
    static uint32_t in[5][5000];
    int calls = 0;

    redop.user = 1;
    redop.commutative = 0;
    redop.fn = user_fn;
    redop.arg = &calls;
    for (int s = 0; s < 5; s++) {
        src[s] = in[s];
        for (int i = 0; i < 5000; i++)
            in[s][i] = (uint32_t)random_next();
    }
    for (int i = 0; i < 5000; i++) {
        want[i] = in[0][i];
        for (int s = 1; s < 5; s++)
            want[i] = 3 * want[i] - in[s][i];
    }
    for (unsigned flags = 0; flags < 4; flags++) {
        memset(got, 0, sizeof(got));
        wi_reduce(&redop, dst, 2, src, 5, 5000, flags);
        CU_ASSERT_EQUAL(memcmp(got[0], want, sizeof(want)), 0);
        CU_ASSERT_EQUAL(memcmp(got[1], want, sizeof(want)), 0);
    }
    CU_ASSERT(calls >= 4);
    wi_reduce2(&redop, got[0], in[0], in[1], 5000, 0);
    for (int i = 0; i < 5000; i++)
        CU_ASSERT_EQUAL(got[0][i], 3 * in[0][i] - in[1][i]);
    dst[0] = in[4]; /* the last source */
    wi_reduce(&redop, dst, 1, src, 5, 5000, 0);
    CU_ASSERT_EQUAL(memcmp(in[4], want, sizeof(want)), 0);
}

static void integer_average(void)
{
    static const uint32_t divisors[] = {1, 2, 3, 7, 64, 1000003, 0xffffffff};
    static int64_t in[2][1000], out[1000];
    static uint64_t uout[1000];

    for (size_t d = 0; d < 7; d++) {
        struct wi_redop redop = redop_make(WEFT_INT64, WEFT_AVG, divisors[d]);
        int64_t by = divisors[d];

        for (int i = 0; i < 1000; i++) {
            in[0][i] = (int64_t)(random_next() >> (random_next() % 64));
            if (i % 3 == 0)
                in[0][i] = -in[0][i] - 1;
            in[1][i] = i < 10 ? INT64_MIN + i : i < 20 ? INT64_MAX - i : i % 7 * by - in[0][i] % by;
        }
        for (int i = 0; i < 20; i++)
            in[0][i] = 0;
        wi_reduce2(&redop, out, in[0], in[1], 1000, WI_REDUCE_FINAL);
        redop.dtype = WEFT_UINT64;
        wi_reduce2(&redop, uout, in[0], in[1], 1000, WI_REDUCE_FINAL);
        for (int i = 0; i < 1000; i++) {
            uint64_t sum = (uint64_t)in[0][i] + (uint64_t)in[1][i];

            CU_ASSERT_EQUAL(out[i], (int64_t)sum / by);
            CU_ASSERT_EQUAL(uout[i], sum / (uint64_t)by);
        }
        redop.dtype = WEFT_INT32;
        redop.elem_bytes = 4;
        wi_reduce2(&redop, out, in[0], in[1], 2000, WI_REDUCE_FINAL);
        for (int i = 0; i < 2000; i++) {
            uint32_t sum = ((uint32_t *)in[0])[i] + ((uint32_t *)in[1])[i];

            CU_ASSERT_EQUAL(((int32_t *)out)[i], (int32_t)((int64_t)(int32_t)sum / by));
        }
    }
}

static void scale(void)
{
    static float in[3000], out[3000];
    float half = 0.5f;
    int8_t three = 3, bytes[] = {1, -50, 100}, scaled[3];
    float i_unit[] = {0, 1}, z[] = {2, 3}, turned[2];

    for (int i = 0; i < 3000; i++)
        in[i] = (float)i;
    wi_scale(WEFT_FLOAT32, &half, out, in, 3000);
    for (int i = 0; i < 3000; i++)
        CU_ASSERT_EQUAL(out[i], (float)i / 2);
    wi_scale(WEFT_FLOAT32, &half, in, in, 3000);
    CU_ASSERT_EQUAL(memcmp(in, out, sizeof(in)), 0);
    wi_scale(WEFT_INT8, &three, scaled, bytes, 3);
    CU_ASSERT_EQUAL(scaled[1], (int8_t)(uint8_t)-150);
    CU_ASSERT_EQUAL(scaled[2], (int8_t)(uint8_t)300);
    wi_scale(WEFT_COMPLEX64, i_unit, turned, z, 1);
    CU_ASSERT(turned[0] == -3 && turned[1] == 2);
    wi_scale(WEFT_FLOAT32, &half, out, in, 0);
}

static void copies(void)
{
    static unsigned char in[6 << 20], out[6 << 20];
    static const size_t sizes[] = {0, 1, 63, 64, 65, 4095, 4096, 5000, 100001, (5 << 20) + 77};

    for (size_t i = 0; i < sizeof(in); i++)
        in[i] = (unsigned char)(random_next() >> 8);
    for (int k = 0; k < NUM_ISAS; k++) {
        if (wi_isa_force(isas[k]))
            continue;
        for (size_t c = 0; c < 10; c++) {
            for (unsigned flags = 0; flags <= WI_REDUCE_NT; flags++) {
                memset(out, GUARD, sizes[c] + 128);
                wi_copy(out + 13, in + 7, sizes[c], flags);
                CU_ASSERT_EQUAL(memcmp(out + 13, in + 7, sizes[c]), 0);
                CU_ASSERT(guards_intact(out, 13, sizes[c]));
            }
        }
    }
    wi_isa_force(NULL);
}

static void undefined_operators(void)
{
    int defined = 0;

    for (unsigned dtype = 0; dtype < WEFT_NUM_DTYPES; dtype++) {
        for (unsigned op = 0; op < WEFT_NUM_OPS; op++) {
            int bitwise = op >= WEFT_BAND && op <= WEFT_BXOR;
            int order = op == WEFT_MIN || op == WEFT_MAX;
            int bad = (bitwise && (is_float(dtype) || is_complex(dtype))) || (order && is_complex(dtype));

            wi_fail_clear();
            CU_ASSERT_EQUAL(wi_redop_check((weft_dtype)dtype, op), bad ? WEFT_ENOTSUP : WEFT_SUCCESS);
            CU_ASSERT_EQUAL(strstr(wi_fail_text(), "undefined for") != NULL, bad);
            defined += !bad;
        }
    }
    CU_ASSERT_EQUAL(defined, 17 * 11 - 6 * 3 - 2 * 5);
    CU_ASSERT_EQUAL(wi_redop_check((weft_dtype)17, WEFT_SUM), WEFT_EINVAL);
    CU_ASSERT_EQUAL(wi_redop_check((weft_dtype)-1, WEFT_SUM), WEFT_EINVAL);
    CU_ASSERT_EQUAL(wi_redop_check(WEFT_INT8, 11), WEFT_EINVAL);
}

static void forcing(void)
{
    const char *best = wi_isa_name();

    CU_ASSERT_EQUAL(wi_isa_force("mmx"), -1);
    CU_ASSERT_STRING_EQUAL(wi_isa_name(), best);
    CU_ASSERT_EQUAL(wi_isa_force("scalar"), 0);
    CU_ASSERT_STRING_EQUAL(wi_isa_name(), "scalar");
    CU_ASSERT_EQUAL(wi_isa_force(NULL), 0);
    CU_ASSERT_STRING_EQUAL(wi_isa_name(), best);
    printf("# best instruction set here: %s\n", best);
}

static const struct wt_case cases[] = {
    {"instruction set can be forced", forcing},
    {"undefined operators are refused", undefined_operators},
    {"scalar conversions, exhaustively", conversions},
    {"kernel conversions, exhaustively", conversions_in_kernels},
    {"kernel rounding", rounding_in_kernels},
    {"sizes 0 to 70", all_sizes},
    {"1 to 64 sources", all_source_counts},
    {"unaligned pointers", unaligned_pointers},
    {"destination equals a source", destination_is_a_source},
    {"long vectors, cut anywhere", long_vectors},
    {"NaN, infinities, denormals", special_values},
    {"user operator", user_operator},
    {"integer average", integer_average},
    {"scale", scale},
    {"copy", copies},
};
WT_UNIT_MAIN("reduce", cases)
