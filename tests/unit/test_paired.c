/* SPDX-License-Identifier: BSD-3-Clause */
/* Estimates from measurements in rounds, of made-up machines whose algorithms take what the test says. */
#include <math.h>

#include "plan/paired.h"
#include "tests/unit/unit.h"

#define ALGOS 5
#define ROUNDS 12

static const double truth[ALGOS] = {10, 10.5, 14, 30, 100};
static double us[ALGOS * ROUNDS];
static struct wi_paired out[ALGOS];
static uint32_t seed;

/* In [-1, 1), the same on every machine. */
static double shake(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (double)seed / 2147483648.0 - 1;
}

static void make(double noise, double (*round)(int))
{
    seed = 7;
    for (int a = 0; a < ALGOS; a++)
        for (int r = 0; r < ROUNDS; r++)
            us[a * ROUNDS + r] = truth[a] * round(r) * exp(noise * shake());
}

static int near(double a, double b, double share)
{
    return fabs(a / b - 1) <= share;
}

static int ratios_are_true(double share)
{
    int good = 1;

    for (int a = 1; a < ALGOS; a++)
        good &= near(out[a].us / out[0].us, truth[a] / truth[0], share);
    return good;
}

static double calm(int r)
{
    (void)r;
    return 1;
}

/* Cores are apart in every other round: four times as slow. */
static double two_states(int r)
{
    return r % 2 ? 4 : 1;
}

static double growing(int r)
{
    return 1 + 0.3 * r;
}

static void midmeans(void)
{
    double odd[] = {3, 1000, 2, 1, -50}, four[] = {4, 1, 2, 3}, one[] = {7}, two[] = {1, 3};

    /* Of five, the outer one and a quarter of each side are cut. */
    CU_ASSERT_DOUBLE_EQUAL(wi_midmean(odd, 5), (0.75 * 1 + 2 + 0.75 * 3) / 2.5, 1e-12);
    CU_ASSERT_DOUBLE_EQUAL(wi_midmean(four, 4), 2.5, 1e-12);
    CU_ASSERT_DOUBLE_EQUAL(wi_midmean(one, 1), 7, 1e-12);
    CU_ASSERT_DOUBLE_EQUAL(wi_midmean(two, 2), 2, 1e-12);
}

static void quantiles(void)
{
    const double list[] = {0, 10, 20, 40};

    CU_ASSERT_DOUBLE_EQUAL(wi_quantile(list, 4, 0), 0, 1e-12);
    CU_ASSERT_DOUBLE_EQUAL(wi_quantile(list, 4, 0.5), 15, 1e-12);
    CU_ASSERT_DOUBLE_EQUAL(wi_quantile(list, 4, 1), 40, 1e-12);
    CU_ASSERT_DOUBLE_EQUAL(wi_quantile(list, 1, 0.7), 0, 1e-12);
}

static void exact_where_nothing_shakes(void)
{
    make(0, calm);
    CU_ASSERT_FATAL(wi_paired_fit(us, ALGOS, ROUNDS, out) == WEFT_SUCCESS);
    for (int a = 0; a < ALGOS; a++) {
        CU_ASSERT_DOUBLE_EQUAL(out[a].us, truth[a], 1e-9 * truth[a]);
        CU_ASSERT_DOUBLE_EQUAL(out[a].noise, 0, 1e-9);
        CU_ASSERT_EQUAL(out[a].rounds, ROUNDS);
    }
}

/* What all algorithms of a round share does not reach what is said about them. */
static void rounds_shift_all_alike(void)
{
    make(0.02, two_states);
    CU_ASSERT_FATAL(wi_paired_fit(us, ALGOS, ROUNDS, out) == WEFT_SUCCESS);
    CU_ASSERT(ratios_are_true(0.02));
    CU_ASSERT(near(out[0].us, truth[0], 0.05)); /* the good half */
    CU_ASSERT(out[0].noise > 0 && out[0].noise < 0.02);
    make(0.02, growing);
    CU_ASSERT_FATAL(wi_paired_fit(us, ALGOS, ROUNDS, out) == WEFT_SUCCESS);
    CU_ASSERT(ratios_are_true(0.02));
    CU_ASSERT(near(out[0].us, truth[0] * growing(ROUNDS / 4), 0.1));
}

/* Independent medians of the same numbers would mistake 10.5 for better than 10. */
static void left_out_cells_are_compared_in_their_rounds(void)
{
    make(0.02, two_states);
    for (int r = 0; r < ROUNDS; r += 2) /* the second was there in slow rounds only, the last in one */
        us[1 * ROUNDS + r] = 0;
    for (int r = 0; r < ROUNDS; r++)
        us[4 * ROUNDS + r] *= r == 3;
    CU_ASSERT_FATAL(wi_paired_fit(us, ALGOS, ROUNDS, out) == WEFT_SUCCESS);
    CU_ASSERT(ratios_are_true(0.04));
    CU_ASSERT_EQUAL(out[1].rounds, ROUNDS / 2);
    CU_ASSERT_EQUAL(out[4].rounds, 1);
    CU_ASSERT_DOUBLE_EQUAL(out[4].noise, 0, 0);
}

/* A burst that hits one algorithm in a round, twenty times as slow. */
static void bursts_do_not_count(void)
{
    make(0.02, calm);
    for (int a = 0; a < ALGOS; a++)
        us[a * ROUNDS + (2 * a + 1) % ROUNDS] *= 20;
    CU_ASSERT_FATAL(wi_paired_fit(us, ALGOS, ROUNDS, out) == WEFT_SUCCESS);
    CU_ASSERT(ratios_are_true(0.03));
    CU_ASSERT(near(out[0].us, truth[0], 0.03));
}

static void noise_grows_with_noise(void)
{
    double before;

    make(0.02, two_states);
    CU_ASSERT_FATAL(wi_paired_fit(us, ALGOS, ROUNDS, out) == WEFT_SUCCESS);
    before = out[2].noise;
    make(0.2, two_states);
    CU_ASSERT_FATAL(wi_paired_fit(us, ALGOS, ROUNDS, out) == WEFT_SUCCESS);
    CU_ASSERT(out[2].noise > 5 * before);
}

static void nothing_measured(void)
{
    memset(us, 0, sizeof us);
    us[2 * ROUNDS + 5] = 3;
    CU_ASSERT_FATAL(wi_paired_fit(us, ALGOS, ROUNDS, out) == WEFT_SUCCESS);
    CU_ASSERT_DOUBLE_EQUAL(out[2].us, 3, 1e-12);
    CU_ASSERT(out[0].us == 0 && out[0].rounds == 0 && out[4].us == 0);
    us[2 * ROUNDS + 5] = 0;
    CU_ASSERT_FATAL(wi_paired_fit(us, ALGOS, ROUNDS, out) == WEFT_SUCCESS);
    CU_ASSERT(out[2].us == 0);
}

static const struct wt_case cases[] = {
    {"midmeans", midmeans},
    {"quantiles", quantiles},
    {"exact where nothing shakes", exact_where_nothing_shakes},
    {"rounds shift all algorithms alike", rounds_shift_all_alike},
    {"cells left out are compared in their rounds", left_out_cells_are_compared_in_their_rounds},
    {"bursts do not count", bursts_do_not_count},
    {"noise grows with noise", noise_grows_with_noise},
    {"nothing measured", nothing_measured},
};
WT_UNIT_MAIN("paired", cases)
