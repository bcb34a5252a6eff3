/* The main function of a unit test: a table of cases, run by CUnit, one line of TAP per case.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 *     static void parses_bytes(void) { CU_ASSERT_EQUAL(...); }
 *     static const struct wt_case cases[] = { { "parses bytes", parses_bytes }, ... };
 *     WT_UNIT_MAIN("base", cases)
 *
 * Arguments choose the cases whose name contains one of them. A case that cannot run here calls wt_skip with
 * the reason and returns: it is counted and named, never silent. */
#ifndef WT_UNIT_H
#define WT_UNIT_H

#include <CUnit/CUnit.h>
#include <CUnit/TestRun.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct wt_case {
    const char *name;
    void (*fn)(void);
};

/* Of the harness, where a test is linked with it: checks that failed in this process, in whichever thread. */
extern int wt_failures(void) __attribute__((weak));

static char wt_skip_reason[256];

__attribute__((unused, format(printf, 1, 2))) static void wt_skip(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    vsnprintf(wt_skip_reason, sizeof wt_skip_reason, format, ap);
    va_end(ap);
}

static int wt_chosen(const char *name, int argc, char **argv)
{
    if (argc < 2)
        return 1;
    for (int i = 1; i < argc; i++)
        if (strstr(name, argv[i]))
            return 1;
    return 0;
}

static void wt_print_failures(CU_pFailureRecord failure)
{
    for (; failure; failure = failure->pNext)
        printf("# %s:%u: %s\n", failure->strFileName ? failure->strFileName : "?", failure->uiLineNumber,
               failure->strCondition ? failure->strCondition : "?");
}

/* CUnit keeps the failure records of the newest run only, so each case is a run of its own. */
static int wt_run_case(CU_pSuite suite, const struct wt_case *c, int number)
{
    CU_pTest test = CU_add_test(suite, c->name, c->fn);
    if (!test) {
        printf("not ok %d - %s\n# %s\n", number, c->name, CU_get_error_msg());
        return 1;
    }
    wt_skip_reason[0] = '\0';
    int before = wt_failures ? wt_failures() : 0;
    CU_run_test(suite, test);
    unsigned failed = CU_get_number_of_failures() + (wt_failures && wt_failures() != before);
    printf("%sok %d - %s%s%s\n", failed ? "not " : "", number, c->name,
           wt_skip_reason[0] && !failed ? " # SKIP " : "", failed ? "" : wt_skip_reason);
    wt_print_failures(CU_get_failure_list());
    fflush(stdout);
    return failed != 0;
}

static int wt_unit_main(const char *name, const struct wt_case *cases, size_t ncases, int argc, char **argv)
{
    if (CU_initialize_registry() != CUE_SUCCESS) {
        fprintf(stderr, "%s: %s\n", name, CU_get_error_msg());
        return 99;
    }
    CU_pSuite suite = CU_add_suite(name, NULL, NULL);
    int ran = 0, failed = 0, chosen = 0;
    for (size_t i = 0; i < ncases; i++)
        chosen += wt_chosen(cases[i].name, argc, argv);
    printf("1..%d\n", chosen); /* first: a test that ends early has not done what is planned */
    fflush(stdout);
    for (size_t i = 0; suite && i < ncases; i++)
        if (wt_chosen(cases[i].name, argc, argv))
            failed += wt_run_case(suite, &cases[i], ++ran);
    CU_cleanup_registry();
    if (ran == 0)
        fprintf(stderr, "%s: no case chosen\n", name);
    return failed || ran == 0;
}

#define WT_UNIT_MAIN(name, cases)                                                                  \
    int main(int argc, char **argv)                                                                \
    {                                                                                              \
        return wt_unit_main((name), (cases), sizeof(cases) / sizeof((cases)[0]), argc, argv);      \
    }

#endif
