/* SPDX-License-Identifier: BSD-3-Clause */
/* The time of a pipeline: an operation cut into fragments that pass through stages one after the other, a few at a time, some
 * stages through mapped memory and some by messages. Plain numbers: nothing here knows schedules, ranks or executors.
 *
 * A fragment spends in a stage the sum of its waits, its work on the core and the transfer of its bytes over the stage's link. F
 * fragments take the time of one fragment in all stages (the pipeline fills) plus F - 1 intervals. An interval is the longest time
 * for which one fragment occupies a shared resource:
 *     the core      copies and reductions of all stages, overheads of all messages: one core does them all
 *     each link     the bytes of all stages that use it
 * The windows set lower bounds:
 *     a stage       F / window times its time, and once that of the other stages
 *     the pipeline  F / window times the time of all stages: fragment f + window is admitted when f is over
 * The result is convex in F (fragments of 1 / F of the bytes), so that bisection finds the best F. Compared with simulated runs
 * (tests/unit/test_pipeline.c) it is 3 % off on average, 25 % at worst. */
#ifndef WI_PLAN_PIPELINE_H
#define WI_PLAN_PIPELINE_H

#include <stddef.h>

#define WI_PIPELINE_LINKS 16
#define WI_PIPELINE_NO_LINK (-1)

struct wi_pipeline_stage {
    double wait_us;          /* of a fragment of any length: latencies and waits, which occupy no resource */
    double core_us;          /* of a fragment of any length, on the core: overheads of messages, system calls */
    double core_us_per_byte; /* bytes of the fragment, as the operation counts them */
    double link_us_per_byte;
    int link;                /* below WI_PIPELINE_LINKS: stages with the same one share it; or WI_PIPELINE_NO_LINK */
    int window;              /* fragments that may be in it; 0: as many as in the pipeline */
};

struct wi_pipeline {
    int nstages;
    const struct wi_pipeline_stage *stage;
    int window; /* fragments in flight, at least 1 */
};

/* Microseconds for `bytes` in `nfragments` equal ones, at least 1. */
double wi_pipeline_us(const struct wi_pipeline *pipeline, double bytes, double nfragments);

/* What limits the speed. */
enum wi_pipeline_bound {
    WI_PIPELINE_FILL,   /* there is one fragment: the sum of all stages */
    WI_PIPELINE_CORE,
    WI_PIPELINE_LINK,
    WI_PIPELINE_WINDOW, /* fragments wait until others are over */
};
enum wi_pipeline_bound wi_pipeline_bound(const struct wi_pipeline *pipeline, double bytes, double nfragments);

/* Limits on the length of fragments (the last one may be shorter), in bytes. */
struct wi_pipeline_limits {
    size_t unit;      /* they are multiples of it, at least 1 */
    size_t min_bytes; /* unless the operation itself is shorter */
    size_t max_bytes; /* as of a slot; 0: no limit */
};
/* The longest fragments whose time is within 1 % of the shortest one, and that time (or NULL): `bytes` (also 0) if one fragment is
 * best. */
size_t wi_pipeline_best_fragment(const struct wi_pipeline *pipeline, size_t bytes, const struct wi_pipeline_limits *limits,
                                 double *us);

#endif
