/* SPDX-License-Identifier: BSD-3-Clause */
/* The planner's picks on random clusters (picks.txt), as multiples of the best times that the events found.
 * WEFT_TEST_PICKS: how many of the worst to show. */
#include <stdlib.h>

#include "tests/unit/unit.h"

#include "tests/oracle/picks.h"

#define SHOWN 12 /* of the worst */
#define MOST_MEAN 1.04
#define MOST_95 1.25
#define MOST 2.0

static void picks_are_good(void)
{
    const char *src = getenv("WEFT_SRCDIR"), *worst = getenv("WEFT_TEST_PICKS");
    int shown = worst ? atoi(worst) : SHOWN;
    struct oracle_picks p;
    char path[512];

    snprintf(path, sizeof path, "%s/tests/oracle/picks.txt", src ? src : ".");
    CU_ASSERT_FATAL(oracle_judge(path, &p) == 0);
    double mean = oracle_mean(&p), most = oracle_percentile(&p, 95);
    printf(
        "# %d picks: geometric mean %.3f, 95 %% within %.3f, worst %.3f; %d were run, %d are not known; %.0f us a choice\n",
        p.npicks, mean, most, p.pick[0].ratio, p.unlisted, p.unknown, p.choose_us / p.npicks);
    for (int i = 0; i < shown && i < p.npicks && p.pick[i].ratio > 1.05; i++)
        printf("# %.3f %s\n", p.pick[i].ratio, p.pick[i].text);
    CU_ASSERT(p.njobs == 200 && p.npicks + p.unknown == 3 * p.njobs && p.unknown <= 6);
    CU_ASSERT(mean <= MOST_MEAN);
    CU_ASSERT(most <= MOST_95);
    CU_ASSERT(p.pick[0].ratio <= MOST);
    oracle_picks_free(&p);
}

static const struct wt_case cases[] = {{"picks are good", picks_are_good}};
WT_UNIT_MAIN("picks", cases)
