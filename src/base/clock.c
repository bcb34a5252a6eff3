/* SPDX-License-Identifier: BSD-3-Clause */
/* Turning counter ticks into nanoseconds; waiting for other threads. */
#include "base/clock.h"

#include <sched.h>

void wi_stand_by(uint32_t round)
{
    const struct timespec nap = {0, 50000};

    if (round < 50)
        sched_yield();
    else
        nanosleep(&nap, NULL);
}

#if defined(__x86_64__)

#include <stdatomic.h>
#include <string.h>

#define CALIBRATE_MIN_NS 2000000ull

/* The pair taken when the library is loaded; every conversion is relative to it. */
static uint64_t base_ticks;
static uint64_t base_ns;
static _Atomic uint64_t ns_per_tick_bits; /* a double; 0: not calibrated */
static _Atomic uint64_t calibrated_ns;    /* length of the interval the rate was measured over */

/* Of several readings keep the one with the shortest gap, so that an interrupt does not spoil it. */
static void clock_pair(uint64_t *ticks, uint64_t *ns)
{
    uint64_t best = UINT64_MAX;

    for (int i = 0; i < 5; i++) {
        uint64_t before = __rdtsc();
        uint64_t now = wi_now_ns();
        uint64_t after = __rdtsc();

        if (after - before >= best)
            continue;
        best = after - before;
        *ticks = before + (after - before) / 2;
        *ns = now;
    }
}

__attribute__((constructor)) static void clock_init(void)
{
    clock_pair(&base_ticks, &base_ns);
}

static double clock_calibrate(void)
{
    uint64_t ticks = base_ticks, ns = base_ns, bits;
    double rate;

    do {
        clock_pair(&ticks, &ns);
    } while (ns - base_ns < CALIBRATE_MIN_NS);
    rate = (double)(ns - base_ns) / (double)(ticks - base_ticks);
    memcpy(&bits, &rate, sizeof(bits));
    atomic_store_explicit(&ns_per_tick_bits, bits, memory_order_relaxed);
    atomic_store_explicit(&calibrated_ns, ns - base_ns, memory_order_relaxed);
    return rate;
}

/* The rate is measured anew whenever the measured interval can be doubled: the error of a stamp then stays
 * near that of one clock reading, however long the process runs. */
uint64_t wi_ticks_to_ns(uint64_t ticks)
{
    uint64_t bits = atomic_load_explicit(&ns_per_tick_bits, memory_order_relaxed);
    double rate, since = (double)(int64_t)(ticks - base_ticks);

    memcpy(&rate, &bits, sizeof(rate));
    if (!bits || since * rate > 2.0 * (double)atomic_load_explicit(&calibrated_ns, memory_order_relaxed))
        rate = clock_calibrate();
    return base_ns + (uint64_t)(int64_t)(since * rate);
}

#else

uint64_t wi_ticks_to_ns(uint64_t ticks)
{
    return ticks;
}

#endif
