/* SPDX-License-Identifier: BSD-3-Clause */
/* Muon's step on matrices of many shapes: near a reference in double, and the same bits for every instruction set and number of
 * threads. */
#include "../unit/unit.h"
#include "newton_schulz.h"
#include "optim_common.h"

enum { MOST = 300 * 300 };

static float weight[MOST], moment[MOST], first[3][MOST], before[2][MOST];
static char grad[4 * MOST], out[4 * MOST];
static double u[MOST], exact_moment[MOST];

static void reference(const weft_zero_hyper *h, weft_dtype dtype, size_t rows, size_t columns, double scale)
{
    for (size_t i = 0; i < rows * columns; i++) {
        double g = wt_get(dtype, grad, i) * scale;

        exact_moment[i] = h->momentum * before[1][i] + (1 - h->momentum) * g;
        u[i] = h->nesterov ? (1 - h->momentum) * g + h->momentum * exact_moment[i] : exact_moment[i];
    }
    zt_newton_schulz(u, rows, columns);
}

static void check(weft_dtype dtype, size_t rows, size_t columns, int nesterov)
{
    const weft_zero_hyper h = {.bytes = sizeof h, .lr = .5, .weight_decay = .1, .momentum = .9, .nesterov = nesterov};
    size_t elems = rows * columns, bytes = wi_optim_muon_bytes(rows, columns);
    float *scratch = aligned_alloc(64, (bytes + 127) / 64 * 64);
    double scale = sqrt(fmax(1, (double)rows / (double)columns)), worst = 0, worst_moment = 0;
    int all = 0;

    CU_ASSERT_PTR_NOT_NULL_FATAL(scratch);
    for (size_t i = 0; i < elems; i++) {
        before[0][i] = wt_uniform();
        before[1][i] = wt_uniform();
        wt_put(dtype, grad, i, wt_uniform());
    }
    reference(&h, dtype, rows, columns, -.25);
    for (int isa = 0; isa < WT_ISAS; isa++) {
        if (wi_isa_force(wt_isas[isa]) != 0)
            continue;
        for (int threads = 1; threads <= 4; threads += 3) {
            struct wi_optim_pool *pool;

            CU_ASSERT_EQUAL_FATAL(wi_optim_pool_create(threads, &pool), WEFT_SUCCESS);
            memcpy(weight, before[0], 4 * elems);
            memcpy(moment, before[1], 4 * elems);
            memset(scratch, 0x7f, bytes);
            memset((char *)scratch + bytes, 0x55, 64); /* nothing is written behind it */
            wi_optim_muon(pool, &(struct wi_optim_muon){rows, columns, weight, moment, grad, dtype, out, dtype, -.25,
                                                        &h, scratch});
            wi_optim_pool_destroy(pool);
            for (int i = 0; i < 64; i++)
                CU_ASSERT_EQUAL(((const char *)scratch)[bytes + (size_t)i], 0x55);
            if (!all++) {
                memcpy(first[0], weight, 4 * elems);
                memcpy(first[1], moment, 4 * elems);
                memcpy(first[2], out, wt_dtype_bytes(dtype) * elems);
            }
            CU_ASSERT(memcmp(first[0], weight, 4 * elems) == 0);
            CU_ASSERT(memcmp(first[1], moment, 4 * elems) == 0);
            CU_ASSERT(memcmp(first[2], out, wt_dtype_bytes(dtype) * elems) == 0);
        }
    }
    wi_isa_force(NULL);
    for (size_t i = 0; i < elems; i++) {
        double w = before[0][i] - h.lr * (h.weight_decay * before[0][i] + scale * u[i]);

        worst = fmax(worst, fabs(w - (double)weight[i]));
        worst_moment = fmax(worst_moment, fabs(exact_moment[i] - (double)moment[i]));
        CU_ASSERT(fabs((double)wt_get(dtype, out, i) - (double)weight[i]) <=
                  (dtype == WEFT_FLOAT32 ? 0 : .01 * fabs((double)weight[i]) + 1e-7));
    }
    printf("# %3zu x %-3zu weights differ by at most %.1e, moments by %.1e\n", rows, columns, worst, worst_moment);
    CU_ASSERT(worst < 2e-5);
    CU_ASSERT(worst_moment < 1e-6);
    free(scratch);
}

static void shapes(void)
{
    static const size_t list[][2] = {{1, 1},   {1, 40},  {40, 1},   {5, 9},     {9, 5},     {4, 32},  {32, 4},
                                     {33, 65}, {65, 33}, {64, 128}, {100, 100}, {129, 300}, {300, 77}};

    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        check(wt_dtypes[i % 3], list[i][0], list[i][1], i % 2);
    check(WEFT_FLOAT32, 270, 270, 1); /* more rows than are in cache at a time */
}

/* The result's rows are nearly orthogonal and of length 1: what the iterations are for. */
static void orthogonal(void)
{
    enum { N = 24, M = 96 };
    const weft_zero_hyper h = {.bytes = sizeof h, .lr = 1, .momentum = 0};
    float *scratch = aligned_alloc(64, wi_optim_muon_bytes(N, M));

    CU_ASSERT_PTR_NOT_NULL_FATAL(scratch);
    for (size_t i = 0; i < N * M; i++) {
        weight[i] = moment[i] = 0;
        wt_put(WEFT_FLOAT32, grad, i, wt_uniform());
    }
    wi_optim_muon(
        NULL, &(struct wi_optim_muon){N, M, weight, moment, grad, WEFT_FLOAT32, NULL, WEFT_FLOAT32, 1, &h, scratch});
    for (size_t i = 0; i < N; i++)
        for (size_t k = 0; k < N; k++) {
            double sum = 0;

            for (size_t j = 0; j < M; j++)
                sum += (double)weight[i * M + j] * (double)weight[k * M + j];
            CU_ASSERT(i == k ? sum > .4 && sum < 1.5 : fabs(sum) < .35);
        }
    free(scratch);
}

/* A gradient of 0 leaves no norm to divide by; a matrix without elements has nothing to do. */
static void nothing(void)
{
    const weft_zero_hyper h = {.bytes = sizeof h, .lr = 1, .momentum = .9};
    float *scratch = aligned_alloc(64, wi_optim_muon_bytes(3, 3));

    CU_ASSERT_PTR_NOT_NULL_FATAL(scratch);
    memset(moment, 0, sizeof moment);
    memset(grad, 0, sizeof grad);
    for (size_t i = 0; i < 9; i++)
        weight[i] = (float)i;
    wi_optim_muon(
        NULL, &(struct wi_optim_muon){3, 3, weight, moment, grad, WEFT_FLOAT32, NULL, WEFT_FLOAT32, 1, &h, scratch});
    for (size_t i = 0; i < 9; i++)
        CU_ASSERT(weight[i] == (float)i);
    CU_ASSERT_EQUAL(wi_optim_muon_bytes(0, 5), 0);
    wi_optim_muon(NULL,
                  &(struct wi_optim_muon){0, 5, weight, moment, grad, WEFT_FLOAT32, NULL, WEFT_FLOAT32, 1, &h, NULL});
    free(scratch);
}

static const struct wt_case cases[] = {
    {"shapes, types, instruction sets, threads", shapes},
    {"rows become orthogonal", orthogonal},
    {"nothing to do", nothing},
};
WT_UNIT_MAIN("optim_muon", cases)
