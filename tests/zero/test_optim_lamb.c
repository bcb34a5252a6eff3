/* SPDX-License-Identifier: BSD-3-Clause */
/* Lamb's first pass: moments and sums of squares, whatever the instruction set, the threads and the cuts. */
#include "../unit/unit.h"
#include "optim_common.h"

enum { MOST = 2500003 };

static float weight[MOST], first_moment1[MOST], first_moment2[MOST], moment1[MOST], moment2[MOST], moments[2][MOST];
static char grad[4 * MOST];

static const weft_zero_hyper hyper = {.bytes = sizeof(weft_zero_hyper),
                                      .lr = 1e-2,
                                      .beta1 = .9,
                                      .beta2 = .99,
                                      .eps = 1e-6,
                                      .weight_decay = .1,
                                      .max_coeff = 10,
                                      .min_coeff = .01};

struct sums {
    double weight, update;
};

static struct sums run(struct wi_optim_pool *pool, const struct wi_optim *optim, weft_dtype dtype, size_t elems,
                       size_t npieces)
{
    struct wi_optim_piece pieces[9];
    struct wi_optim_sums own = {.elems = 0}, *list[9];
    struct sums sums;
    size_t at = 0, n = 0;

    memcpy(moment1, moments[0], sizeof *moment1 * elems);
    memcpy(moment2, moments[1], sizeof *moment2 * elems);
    for (size_t i = 0; i < npieces; i++) {
        /* Multiples of 16 but for the last one. */
        size_t to = i + 1 < npieces ? elems * (i + 1) * (i + 1) / (npieces * npieces) / 16 * 16 : elems;

        if (to == at)
            continue;
        pieces[n] = (struct wi_optim_piece){.optim = optim,
                                            .elems = to - at,
                                            .weight = weight + at,
                                            .moment1 = moment1 + at,
                                            .moment2 = moment2 + at,
                                            .grad = grad + wt_dtype_bytes(dtype) * at,
                                            .grad_dtype = dtype};
        list[n++] = &own;
        at = to;
    }
    wi_optim_lamb_moments(pool, pieces, list, n);
    wi_optim_sums_end(&own, &sums.weight, &sums.update);
    return sums;
}

static struct sums exact(weft_dtype dtype, size_t elems, double scale, double step)
{
    long double w = 0, u = 0;

    for (size_t i = 0; i < elems; i++) {
        double g = wt_get(dtype, grad, i) * scale;
        float m = (float)(hyper.beta1 * moments[0][i] + (1 - hyper.beta1) * g);
        float v = (float)(hyper.beta2 * moments[1][i] + (1 - hyper.beta2) * g * g);
        double update = m / (1 - pow(hyper.beta1, step)) / (sqrt(v / (1 - pow(hyper.beta2, step))) + hyper.eps) +
                        hyper.weight_decay * weight[i];

        w += (long double)weight[i] * weight[i];
        u += (long double)update * update;
    }
    return (struct sums){(double)w, (double)u};
}

static void check(weft_dtype dtype, size_t elems)
{
    struct sums expected, first = {0, 0};
    struct wi_optim optim;
    int all = 0;

    for (size_t i = 0; i < elems; i++) {
        weight[i] = wt_uniform();
        moments[0][i] = wt_uniform();
        moments[1][i] = fabsf(wt_uniform());
        wt_put(dtype, grad, i, wt_uniform());
    }
    CU_ASSERT_EQUAL_FATAL(wi_optim_prepare(&optim, WEFT_ZERO_LAMB, &hyper, 3, .25), WEFT_SUCCESS);
    expected = exact(dtype, elems, .25, 3);
    for (int isa = 0; isa < WT_ISAS; isa++) {
        if (wi_isa_force(wt_isas[isa]) != 0)
            continue;
        for (int threads = 1; threads <= 3; threads += 2) {
            struct wi_optim_pool *pool;

            CU_ASSERT_EQUAL_FATAL(wi_optim_pool_create(threads, &pool), WEFT_SUCCESS);
            for (size_t npieces = 1; npieces <= 9; npieces += 4) {
                struct sums sums = run(pool, &optim, dtype, elems, npieces);

                if (!all++) {
                    first = sums;
                    memcpy(first_moment1, moment1, sizeof *moment1 * elems);
                    memcpy(first_moment2, moment2, sizeof *moment2 * elems);
                }
                CU_ASSERT(fabs(sums.weight - expected.weight) <= 1e-12 * expected.weight);
                CU_ASSERT(fabs(sums.update - expected.update) <= 1e-12 * expected.update);
                CU_ASSERT(memcmp(&sums, &first, sizeof sums) == 0);
                CU_ASSERT(memcmp(moment1, first_moment1, sizeof *moment1 * elems) == 0);
                CU_ASSERT(memcmp(moment2, first_moment2, sizeof *moment2 * elems) == 0);
            }
            wi_optim_pool_destroy(pool);
        }
    }
    wi_isa_force(NULL);
}

static void sums(void)
{
    static const size_t sizes[] = {1, 15, 16, 17, 1000, 32768, 32769, 100003};

    for (int d = 0; d < 3; d++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            check(wt_dtypes[d], sizes[i]);
    check(WEFT_BFLOAT16, MOST); /* more blocks than are summed up at a time */
}

/* What is behind the last element counts for nothing, even where it would be 0 / 0. */
static void tail(void)
{
    weft_zero_hyper zero_eps = hyper;
    struct wi_optim optim;

    zero_eps.eps = 0;
    zero_eps.beta2 = 0;
    for (int isa = 0; isa < WT_ISAS; isa++) {
        if (wi_isa_force(wt_isas[isa]) != 0)
            continue;
        CU_ASSERT_EQUAL_FATAL(wi_optim_prepare(&optim, WEFT_ZERO_LAMB, &zero_eps, 1, 1), WEFT_SUCCESS);
        for (int i = 0; i < 3; i++) {
            weight[i] = 0;
            moments[0][i] = moments[1][i] = 0;
            wt_put(WEFT_FLOAT32, grad, (size_t)i, 2);
        }
        struct sums sums = run(NULL, &optim, WEFT_FLOAT32, 3, 1);

        CU_ASSERT(sums.weight == 0);
        CU_ASSERT(fabs(sums.update - 3) < 1e-6); /* m^ / sqrt(v^) is 1 */
    }
    wi_isa_force(NULL);
}

static const struct wt_case cases[] = {
    {"moments and sums of squares", sums},
    {"a tail that is no whole vector", tail},
};
WT_UNIT_MAIN("optim_lamb", cases)
