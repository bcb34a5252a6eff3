/* SPDX-License-Identifier: BSD-3-Clause */
/* Which instruction set: chosen when the library is loaded, so that a reduction costs one table look-up. */
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/reduce_kernels.h"

const struct wi_isa *wi_isa_current = &wi_isa_scalar;

/* Best first. */
static const struct wi_isa *const isa_list[] = {
#if defined(__x86_64__)
    &wi_isa_avx512,
    &wi_isa_avx2,
#elif defined(__aarch64__)
    &wi_isa_neon,
#endif
    &wi_isa_scalar,
};
#define ISA_COUNT (sizeof(isa_list) / sizeof(isa_list[0]))

#if defined(__x86_64__)
/* clang's __builtin_cpu_supports does not know this one. That the system saves its registers is asked with AVX2. */
static int has_f16c(void)
{
    unsigned a, b, c, d;

    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
#endif

static int isa_here(const struct wi_isa *isa)
{
#if defined(__x86_64__)
    int avx2 =
        __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") && has_f16c();

    if (isa == &wi_isa_avx512)
        return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (isa == &wi_isa_avx2)
        return avx2;
#endif
    (void)isa;
    return 1;
}

static const struct wi_isa *isa_best(void)
{
    size_t i = 0;

    while (!isa_here(isa_list[i]))
        i++;
    return isa_list[i];
}

const char *wi_isa_name(void)
{
    return __atomic_load_n(&wi_isa_current, __ATOMIC_RELAXED)->name;
}

int wi_isa_force(const char *name)
{
    if (!name) {
        __atomic_store_n(&wi_isa_current, isa_best(), __ATOMIC_RELAXED);
        return 0;
    }
    for (size_t i = 0; i < ISA_COUNT; i++) {
        if (strcmp(isa_list[i]->name, name) != 0)
            continue;
        if (!isa_here(isa_list[i]))
            return -1;
        __atomic_store_n(&wi_isa_current, isa_list[i], __ATOMIC_RELAXED);
        return 0;
    }
    return -1;
}

/* A bad WEFT_ISA is reported by wi_settings_create; nothing can be said here. */
__attribute__((constructor)) static void isa_init(void)
{
    const char *wanted = getenv("WEFT_ISA");

#if defined(__x86_64__)
    __builtin_cpu_init();
#endif
    wi_isa_force(NULL);
    if (wanted)
        (void)wi_isa_force(wanted);
}
