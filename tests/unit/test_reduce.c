/* SPDX-License-Identifier: BSD-3-Clause */
/* Reductions against a naive reference, on every instruction set of this machine.
 *
 * Bounds. Integers, bool, logical operators, min and max: exact. f32, f64 and complex: the kernel and the reference do
 * nsrc - 1 operations; each is off by at most half an ulp of the magnitudes added, so |error| <= nsrc * eps *
 * (sum, or product, of magnitudes). 16- and 8-bit floats: the same with fp32's eps, plus one rounding to the format. */
#include <float.h>
#include <math.h>

#include "base/status.h"
#include "reduce_common.h"
#include "unit.h"

#define MAX_ELEMS 1100
#define MAX_BYTES (MAX_ELEMS * 16 + 256)

static unsigned char source[WI_REDUCE_MAX_SRC][MAX_BYTES];
static unsigned char output[4][MAX_BYTES];
static unsigned char expected[MAX_BYTES];

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
        acc =
            int_combine(redop->dtype, redop->op, acc, (uint64_t)int_get(redop->dtype, source[s] + offset + i * bytes));
        memcpy(word, &acc, 8); /* wrap to the type */
        acc = (uint64_t)int_get(redop->dtype, word);
    }
    if (final && redop->op == WEFT_AVG)
        acc = redop->dtype % 2 == 0 ? (uint64_t)((int64_t)acc / (int64_t)redop->divisor) : acc / redop->divisor;
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

static int reduce_once(const struct wi_redop *redop, int nsrc, int ndst, size_t elems, size_t offset, unsigned flags)
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

static void check_case(const struct wi_redop *redop, int nsrc, int ndst, size_t elems, size_t offset, unsigned flags)
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
                   weft_dtype_name((weft_dtype)redop->dtype), weft_op_name(redop->op), nsrc, ndst, elems, offset, flags,
                   what);
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
    static const uint64_t special64[] = {0x7ff8000000000000, 0xfff8123456789abc,
                                         0x7ff0000000000001, 0x7ff0000000000000,
                                         0xfff0000000000000, 0,
                                         0x8000000000000000, 1,
                                         0x800fffffffffffff, 0x3ff0000000000000,
                                         0x7fefffffffffffff, 0xffefffffffffffff};
    static const uint16_t special_f16[] = {0x7e00, 0xfe12, 0x7c01, 0x7c00, 0xfc00, 0,
                                           0x8000, 1,      0x83ff, 0x3c00, 0x7bff, 0xfbff};
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

/* ---- What the destination holds is added ---- */

/* Of an average of three the quotient is rounded, too, in the type in which it is computed. The sums are exact. */
static double added(unsigned dtype, double sum, unsigned divisor, double held)
{
    if (dtype == WEFT_FLOAT64)
        return sum / divisor + held;
    return (double)((float)sum / (float)divisor + (float)held);
}

static void add_once(unsigned dtype, unsigned op, int nsrc, size_t elems, unsigned divisor)
{
    size_t bytes = weft_dtype_bytes((weft_dtype)dtype);
    struct wi_redop redop = {.dtype = (uint8_t)dtype,
                             .op = (uint8_t)op,
                             .commutative = 1,
                             .divisor = divisor,
                             .elem_bytes = (uint32_t)bytes};
    const void *src[WI_REDUCE_MAX_SRC];
    void *dst[1] = {output[0] + 3 * bytes};
    int differs = 0;

    for (size_t i = 0; i < elems; i++) {
        double sum = 0, held = (double)(i % 5) + 0.5;
        for (int s = 0; s < nsrc; s++) {
            double v = (double)((i + (size_t)s) % 3);
            float_put(dtype, source[s] + i * bytes, v);
            src[s] = source[s];
            sum += v;
        }
        float_put(dtype, (char *)dst[0] + i * bytes, held);
        held = float_get(dtype, (char *)dst[0] + i * bytes);
        float_put(dtype, expected + i * bytes, added(dtype, sum, op == WEFT_AVG ? divisor : 1, held));
    }
    if (nsrc == 2)
        wi_reduce2(&redop, dst[0], src[0], src[1], elems, WI_REDUCE_FINAL | WI_REDUCE_ADD);
    else
        wi_reduce(&redop, dst, 1, src, nsrc, elems, WI_REDUCE_FINAL | WI_REDUCE_ADD | WI_REDUCE_NT);
    for (size_t i = 0; i < elems; i++)
        differs += float_get(dtype, (char *)dst[0] + i * bytes) != float_get(dtype, expected + i * bytes);
    if (differs)
        printf("# %s of %d sources of %s, divided by %u: %d of %zu differ\n", weft_op_name((weft_op)op), nsrc,
               weft_dtype_name((weft_dtype)dtype), divisor, differs, elems);
    CU_ASSERT_EQUAL(differs, 0);
}

static void adds_to_destination(void)
{
    static const unsigned dtypes[] = {WEFT_FLOAT16, WEFT_BFLOAT16,   WEFT_FLOAT32,
                                      WEFT_FLOAT64, WEFT_FLOAT8E4M3, WEFT_FLOAT8E5M2};
    static const int nsrcs[] = {1, 2, 3, 8, 9, 17, WI_REDUCE_MAX_SRC};

    for (size_t a = 0; a < sizeof isas / sizeof *isas; a++) {
        if (wi_isa_force(isas[a]) < 0)
            continue;
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
            for (size_t n = 0; n < sizeof nsrcs / sizeof *nsrcs; n++)
                for (size_t elems = 1; elems <= MAX_ELEMS - 8; elems += elems < 70 ? 1 : 511) {
                    add_once(dtypes[d], WEFT_SUM, nsrcs[n], elems, 3);
                    add_once(dtypes[d], WEFT_AVG, nsrcs[n], elems, 2);
                    add_once(dtypes[d], WEFT_AVG, nsrcs[n], elems, 3);
                }
    }
    wi_isa_force(NULL);
}

static const struct wt_case cases[] = {
    {"sizes 0 to 70", all_sizes},
    {"1 to 64 sources", all_source_counts},
    {"unaligned pointers", unaligned_pointers},
    {"destination equals a source", destination_is_a_source},
    {"long vectors, cut anywhere", long_vectors},
    {"NaN, infinities, denormals", special_values},
    {"what the destination holds is added, and all of it rounded once", adds_to_destination},
};
WT_UNIT_MAIN("reduce", cases)
