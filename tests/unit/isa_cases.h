/* SPDX-License-Identifier: BSD-3-Clause */
/* A case for each instruction set that this build has kernels of, in which they are compared with the plain ones. One that this CPU
 * lacks is skipped by name, so that nobody takes its kernels for tested.
 *
 *     static int compare(const char *isa) { ...; return comparisons; }
 *     WT_ISA_CASES(compare)
 *     static const struct wt_case cases[] = { WT_EACH_ISA, ... }; */
#ifndef WT_ISA_CASES_H
#define WT_ISA_CASES_H

#include "base/reduce.h"
#include "tests/unit/unit.h"

static void wt_compare_isa(const char *isa, int (*compare)(const char *isa))
{
    int tried;

    if (wi_isa_force(isa) < 0) {
        wt_skip("this CPU has no %s", isa);
        return;
    }
    tried = compare(isa);
    wi_isa_force(NULL);
    printf("# %d comparisons of %s with the plain code\n", tried, isa);
    CU_ASSERT(tried > 0);
}

#if defined(__x86_64__)
#define WT_ISA_CASES(compare)                                                                                          \
    static void compare_avx2(void)                                                                                     \
    {                                                                                                                  \
        wt_compare_isa("avx2", compare);                                                                               \
    }                                                                                                                  \
    static void compare_avx512(void)                                                                                   \
    {                                                                                                                  \
        wt_compare_isa("avx512", compare);                                                                             \
    }
#define WT_EACH_ISA {"avx2 agrees with the plain code", compare_avx2}, {"avx512 agrees with the plain code", compare_avx512}
#elif defined(__aarch64__)
#define WT_ISA_CASES(compare)                                                                                          \
    static void compare_neon(void)                                                                                     \
    {                                                                                                                  \
        wt_compare_isa("neon", compare);                                                                               \
    }
#define WT_EACH_ISA {"neon agrees with the plain code", compare_neon}
#else /* the plain code is all that there is */
#define WT_ISA_CASES(compare)                                                                                          \
    static void compare_scalar(void)                                                                                   \
    {                                                                                                                  \
        wt_compare_isa("scalar", compare);                                                                             \
    }
#define WT_EACH_ISA {"the plain code agrees with itself", compare_scalar}
#endif

#endif
