/* SPDX-License-Identifier: BSD-3-Clause */
/* Time. */
#ifndef WI_BASE_CLOCK_H
#define WI_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

static inline uint64_t wi_now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

/* A cheap counter for trace stamps; turn into nanoseconds with wi_ticks_to_ns. */
static inline uint64_t wi_ticks(void)
{
#if defined(__x86_64__)
    return __rdtsc();
#else
    return wi_now_ns();
#endif
}
uint64_t wi_ticks_to_ns(uint64_t ticks); /* on the wi_now_ns scale; calibrated at first use */

/* Deadlines are absolute; UINT64_MAX means never. Saturating. */
static inline uint64_t wi_deadline_ns(uint64_t from_now_ns)
{
    uint64_t now = wi_now_ns();
    return from_now_ns > UINT64_MAX - now ? UINT64_MAX : now + from_now_ns;
}

static inline void wi_cpu_relax(void)
{
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("isb" ::: "memory");
#endif
}

/* One round of a wait for another thread, rounds counted from 0. The first ones yield; later ones sleep for 50 us, so that a thread
 * of lower priority gets this core, too. */
void wi_stand_by(uint32_t round);

#endif
