/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums of squares and conversions. */
#include "optim_common.h"
#include "../unit/unit.h"

/* More than the units whose sums are kept at a time, and no multiple of anything. */
#define LARGE 8500007u

static struct wi_optim_pool *pool_of(int threads)
{
    struct wi_optim_pool *pool = NULL;

    CU_ASSERT_EQUAL_FATAL(wi_optim_pool_create(threads, &pool), WEFT_SUCCESS);
    return pool;
}

static double exact_sum(weft_dtype dtype, const void *data, size_t elems)
{
    long double sum = 0;

    for (size_t i = 0; i < elems; i++)
        sum += (long double)wt_get(dtype, data, i) * (long double)wt_get(dtype, data, i);
    return (double)sum;
}

static void test_sum(weft_dtype dtype, size_t elems, size_t offset)
{
    char *data = malloc(elems * 4 + 64);
    struct wi_optim_vector vectors[2] = {{data + offset, elems, dtype}, {data + offset, elems / 3, dtype}};
    double exact, first = 0;

    for (size_t i = 0; i < elems; i++)
        wt_put(dtype, data + offset, i, wt_uniform());
    exact = exact_sum(dtype, data + offset, elems) + exact_sum(dtype, data + offset, elems / 3);
    for (int threads = 1; threads <= 4; threads++) {
        struct wi_optim_pool *pool = pool_of(threads);

        for (int i = 0; i < WT_ISAS; i++) {
            double sum, each[2];

            if (wi_isa_force(wt_isas[i]) != 0)
                continue;
            wi_optim_squares(pool, vectors, 2, each);
            sum = each[0] + each[1];
            CU_ASSERT(each[0] == wi_optim_sum_squares(NULL, &vectors[0], 1));
            CU_ASSERT(sum == wi_optim_sum_squares(pool, vectors, 2));
            if (threads == 1 && i == 0)
                first = sum;
            CU_ASSERT(fabs(sum - exact) <= 1e-13 * exact);
            CU_ASSERT(memcmp(&sum, &first, sizeof(sum)) == 0);
        }
        wi_optim_pool_destroy(pool);
    }
    wi_isa_force(NULL);
    free(data);
}

static void sums_of_squares(void)
{
    static const size_t sizes[] = {0, 1, 31, 32, 33, 1000, 32768, 32769, 100003};

    for (int d = 0; d < 3; d++)
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
            test_sum(wt_dtypes[d], sizes[i], i * (d == 0 ? 4 : 2) + i % 2);
}

static void sum_of_many(void)
{
    uint16_t *data = malloc(LARGE * sizeof(*data));
    struct wi_optim_vector vector = {data, LARGE, WEFT_BFLOAT16};
    struct wi_optim_pool *pool = pool_of(3);
    double sum;

    for (size_t i = 0; i < LARGE; i++)
        data[i] = 0x3f80;
    sum = wi_optim_sum_squares(pool, &vector, 1);
    CU_ASSERT_EQUAL(sum, (double)LARGE);
    CU_ASSERT_EQUAL(wi_optim_sum_squares(NULL, &vector, 1), sum);
    data[LARGE - 1] = 0x7f80;
    CU_ASSERT(isinf(wi_optim_sum_squares(pool, &vector, 1)));
    wi_optim_pool_destroy(pool);
    free(data);
}

/* More vectors than units are summed up at a time, short, empty and long ones: each as by itself. */
static void sums_of_many_vectors(void)
{
    enum { VECTORS = 700, ELEMS_MOST = 70001 };
    static struct wi_optim_vector vectors[VECTORS];
    static double sums[VECTORS];
    float *data = malloc(ELEMS_MOST * sizeof *data);

    for (size_t i = 0; i < ELEMS_MOST; i++)
        data[i] = (float)wt_uniform();
    for (size_t i = 0; i < VECTORS; i++)
        vectors[i] = (struct wi_optim_vector){data + i,
                                              i % 5 == 0    ? 0
                                              : i % 61 == 7 ? ELEMS_MOST - i
                                                            : i,
                                              WEFT_FLOAT32};
    for (int threads = 1; threads <= 4; threads++) {
        struct wi_optim_pool *pool = pool_of(threads);

        memset(sums, 0x7f, sizeof sums);
        wi_optim_squares(pool, vectors, VECTORS, sums);
        for (size_t i = 0; i < VECTORS; i++)
            CU_ASSERT(sums[i] == wi_optim_sum_squares(NULL, &vectors[i], 1));
        wi_optim_pool_destroy(pool);
    }
    data[3] = INFINITY;
    wi_optim_squares(NULL, vectors, VECTORS, sums);
    CU_ASSERT(sums[0] == 0 && isinf(sums[1]) == 0 && isinf(sums[2]) && isinf(sums[3]) && !isinf(sums[4]));
    free(data);
}

static void sum_of_special_numbers(void)
{
    float data[100] = {0};
    struct wi_optim_vector vector = {data, 100, WEFT_FLOAT32};

    for (int i = 0; i < WT_ISAS; i++) {
        if (wi_isa_force(wt_isas[i]) != 0)
            continue;
        memset(data, 0, sizeof(data));
        CU_ASSERT_EQUAL(wi_optim_sum_squares(NULL, &vector, 1), 0);
        data[97] = 0x1p-149f;
        CU_ASSERT_EQUAL(wi_optim_sum_squares(NULL, &vector, 1), 0x1p-298);
        data[3] = data[99] = 0x1p127f;
        CU_ASSERT_EQUAL(wi_optim_sum_squares(NULL, &vector, 1), 0x1p255);
        data[98] = -INFINITY;
        CU_ASSERT_EQUAL(wi_optim_sum_squares(NULL, &vector, 1), INFINITY);
        data[5] = NAN;
        CU_ASSERT(isnan(wi_optim_sum_squares(NULL, &vector, 1)));
    }
    wi_isa_force(NULL);
    CU_ASSERT_EQUAL(wi_optim_sum_squares(NULL, NULL, 0), 0);
}

/* ---- Conversions. */

#define ELEMS 65573u /* every 16-bit number, and some again */

static char source[4 * ELEMS + 64], was[4 * ELEMS + 64], result[4 * ELEMS + 64];

static int same(weft_dtype dtype, size_t i, float expected)
{
    char one[4] = {0};

    if (isnan(expected))
        return isnan(wt_get(dtype, result, i));
    wt_put(dtype, one, 0, expected);
    return memcmp(result + wt_dtype_bytes(dtype) * i, one, wt_dtype_bytes(dtype)) == 0;
}

static void fill(weft_dtype dtype, char *data)
{
    for (size_t i = 0; i < ELEMS; i++) {
        uint16_t half = (uint16_t)i;

        if (dtype == WEFT_FLOAT32)
            wt_put(dtype, data, i, i % 3 ? wt_any_finite() : wt_float((uint32_t)wt_random()));
        else
            memcpy(data + 2 * i, &half, 2);
    }
}

static void test_convert(weft_dtype dst, weft_dtype src, int add, struct wi_optim_pool *pool)
{
    static char first[sizeof(result)];
    size_t bytes = wt_dtype_bytes(dst) * ELEMS, wrong = 0;

    fill(src, source);
    fill(dst, was);
    for (size_t i = 0; i < ELEMS; i++) /* the two of a pair are not the same number */
        if (dst != WEFT_FLOAT32)
            memcpy(was + 2 * i, was + 2 * (wt_random() % ELEMS), 2);
    for (int i = 0; i < WT_ISAS; i++) {
        if (wi_isa_force(wt_isas[i]) != 0)
            continue;
        memcpy(result, was, bytes);
        memset(result + bytes, 0x5a, 16);
        wi_optim_convert(i % 2 ? pool : NULL, result, dst, source, src, ELEMS, add);
        for (size_t k = 0; k < ELEMS; k++)
            wrong += !same(dst, k, add ? wt_get(dst, was, k) + wt_get(src, source, k) : wt_get(src, source, k));
        if (i == 0)
            memcpy(first, result, bytes);
        CU_ASSERT(memcmp(first, result, bytes) == 0);
        for (int k = 0; k < 16; k++)
            CU_ASSERT_EQUAL(result[bytes + k], 0x5a);
    }
    wi_isa_force(NULL);
    CU_ASSERT_EQUAL(wrong, 0);
}

static void conversions(void)
{
    struct wi_optim_pool *pool = pool_of(2);

    for (int dst = 0; dst < 3; dst++)
        for (int src = 0; src < 3; src++)
            for (int add = 0; add < 2; add++)
                test_convert(wt_dtypes[dst], wt_dtypes[src], add, pool);
    wi_optim_pool_destroy(pool);
}

static void conversions_of_any_length_and_alignment(void)
{
    for (size_t elems = 0; elems < 70; elems++)
        for (int i = 0; i < WT_ISAS; i++) {
            char in[4 * 70 + 8], out[2 * 70 + 8];
            size_t offset = elems % 5;

            if (wi_isa_force(wt_isas[i]) != 0)
                continue;
            memset(out, 0x5a, sizeof(out));
            for (size_t k = 0; k < elems; k++)
                wt_put(WEFT_FLOAT32, in + offset, k, (float)k);
            wi_optim_convert(NULL, out + offset, WEFT_BFLOAT16, in + offset, WEFT_FLOAT32, elems, 0);
            for (size_t k = 0; k < elems; k++)
                CU_ASSERT_EQUAL(wt_get(WEFT_BFLOAT16, out + offset, k), (float)k);
            CU_ASSERT_EQUAL(out[offset + 2 * elems], 0x5a);
            wi_optim_convert(NULL, out + offset, WEFT_BFLOAT16, out + offset, WEFT_BFLOAT16, elems, 1);
            for (size_t k = 0; k < elems; k++)
                CU_ASSERT_EQUAL(wt_get(WEFT_BFLOAT16, out + offset, k), 2 * (float)k);
        }
    wi_isa_force(NULL);
}

static const struct wt_case cases[] = {
    {"sums of squares", sums_of_squares},
    {"a sum of many", sum_of_many},
    {"sums of many vectors", sums_of_many_vectors},
    {"sums of special numbers", sum_of_special_numbers},
    {"conversions", conversions},
    {"conversions of any length and alignment", conversions_of_any_length_and_alignment},
};

WT_UNIT_MAIN("optim_sums", cases)
