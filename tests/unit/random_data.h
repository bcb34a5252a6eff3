/* SPDX-License-Identifier: BSD-3-Clause */
/* Data that is drawn from a seed, the same in every run. */
#ifndef WT_RANDOM_DATA_H
#define WT_RANDOM_DATA_H

#include <math.h>
#include <stdint.h>

static uint64_t random_state = 88172645463325252ull;

static inline uint32_t random_bits(void)
{
    random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(random_state >> 32);
}

static inline double uniform(void)
{
    return (random_bits() + 0.5) / 4294967296.0;
}

static inline double gaussian(void)
{
    return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
}

#endif
