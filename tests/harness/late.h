/* SPDX-License-Identifier: BSD-3-Clause */
/* An engine that completes late and out of order, as a device might, by what it draws from a seed: how often work is polled
 * before it begins, and in how many parts it is done. When work is posted its destinations are overwritten; a source that
 * changes before the work begins makes it fail. So reading results too soon, or reusing memory too soon, is found out. For
 * programs that are linked with libweftcore. */
#ifndef WT_LATE_H
#define WT_LATE_H

#include <stdint.h>

struct wi_engine;
struct wi_workers;

/* Of all late engines of the process. Set before they are made, but for `held`. */
struct wt_late {
    uint64_t seed;
    _Atomic int held;  /* nothing is done as long as it is set */
    int fails;         /* work fails when it is posted */
    int stuck;         /* that many times work cannot be drained */
    _Atomic uint64_t posted, late, parts, made; /* seen: works; polls without result; parts; engines */
};
extern struct wt_late wt_late;

struct wi_engine *wt_late_engine(struct wi_workers *workers); /* as wi_engine_of_tests */

#endif
