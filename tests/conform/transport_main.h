/* transport_main.h: the test functions of a program that runs the suite; define TC_MAIN_NAME and a table
 * `fixtures` before, and TC_OWN_CASES(X), rows like those of TC_CASES, for cases of one transport. Every fixture runs every case.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef TC_TRANSPORT_MAIN_H
#define TC_TRANSPORT_MAIN_H

#include <signal.h>

#include "../unit/unit.h"
#include "transport.h"

#define TC_DEADLINE_MS 30000u
#define TC_COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void run_on(tc_case_fn fn, int nranks, unsigned caps, int processes)
{
    int ran = 0;

    for (size_t i = 0; i < TC_COUNT(fixtures); i++) {
        if ((fixtures[i].plugin->caps & caps) != caps)
            continue;
        if (processes && fixtures[i].threads) {
            wt_skip("ranks of %s are threads", fixtures[i].name);
            return;
        }
        ran++;
        int failed = tc_run(&fixtures[i], fn, nranks, TC_DEADLINE_MS);
        if (failed)
            printf("# with %s: %d ranks failed\n", fixtures[i].name, failed);
        CU_ASSERT_EQUAL(failed, 0);
    }
    if (!ran)
        wt_skip("%s has no such capability", fixtures[0].name);
}

#define TC_FUNCTION(fn, nranks, title, caps, processes) \
    static void run_##fn(void)                          \
    {                                                   \
        run_on(tc_case_##fn, nranks, caps, processes);  \
    }
TC_CASES(TC_FUNCTION)
#ifdef TC_OWN_CASES
TC_OWN_CASES(TC_FUNCTION)
#else
#define TC_OWN_CASES(X)
#endif

/* The last rank kills itself. */
static void run_one_killed(tc_case_fn fn, int nranks)
{
    for (size_t i = 0; i < TC_COUNT(fixtures); i++) {
        if (fixtures[i].threads) {
            wt_skip("ranks of %s are threads", fixtures[i].name);
            return;
        }
        int failed = tc_run_killed(&fixtures[i], fn, nranks, nranks - 1, SIGKILL, TC_DEADLINE_MS);
        if (failed)
            printf("# with %s: %d ranks failed\n", fixtures[i].name, failed);
        CU_ASSERT_EQUAL(failed, 0);
    }
}

static void run_killed(void)
{
    run_one_killed(tc_case_killed, 3);
}

static void run_killed_idle(void)
{
    run_one_killed(tc_case_killed_idle, 2);
}

#define TC_ROW(fn, nranks, title, caps, processes) {title, run_##fn},
static const struct wt_case cases[] = {
    TC_CASES(TC_ROW) TC_OWN_CASES(TC_ROW){"a killed peer is named", run_killed},
    {"a killed peer is noticed when idle", run_killed_idle},
};
WT_UNIT_MAIN(TC_MAIN_NAME, cases)

#endif
