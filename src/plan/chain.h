/* SPDX-License-Identifier: BSD-3-Clause */
/* What a chain of stages takes: an operation in fragments that pass through stages one behind the other, a few at a time, some
 * stages through mapped memory and some by messages. Plain numbers: nothing here knows schedules, ranks or executors.
 *
 * A fragment is in a stage for as long as its waits, its work on the core and its bytes on the stage's link take, one after the
 * other. F fragments take the time of one in all stages (the pipeline fills), and F - 1 times as long as one keeps busy what they
 * have in common, whichever is longest:
 *     the core      copies and reductions of all stages, overheads of all messages: one core does them all
 *     each link     the bytes of all stages that use it
 * but not less than the windows allow:
 *     a stage       F / window times its time, and once that of the other stages
 *     the chain     F / window times the time of all stages: fragment f + window is admitted when f is over
 * All of it is convex in F, with fragments of 1 / F, so that the best F is found by bisection. Against runs of such pipelines
 * (tests/unit/test_chain.c) it is 3 % off on average, a quarter at worst. */
#ifndef WI_PLAN_CHAIN_H
#define WI_PLAN_CHAIN_H

#include <stddef.h>

#define WI_CHAIN_LINKS 16
#define WI_CHAIN_NO_LINK (-1)

struct wi_chain_stage {
    double wait_us;          /* of a fragment of any length: latencies and waits, which keep nothing busy */
    double core_us;          /* the same, on the core: overheads of messages, system calls */
    double core_us_per_byte; /* of the fragment, as the operation counts its bytes */
    double link_us_per_byte;
    int link;                /* below WI_CHAIN_LINKS: stages with the same one share it; or WI_CHAIN_NO_LINK */
    int window;              /* fragments that may be in it; 0: as many as in the chain */
};

struct wi_chain {
    int nstages;
    const struct wi_chain_stage *stage;
    int window; /* fragments under way, at least 1 */
};

/* Microseconds for `bytes` in `nfragments` equal ones, at least 1. */
double wi_chain_us(const struct wi_chain *chain, double bytes, double nfragments);

/* What keeps it from taking less. */
enum wi_chain_bound {
    WI_CHAIN_FILL,   /* there is one fragment: all stages, one after the other */
    WI_CHAIN_CORE,
    WI_CHAIN_LINK,
    WI_CHAIN_WINDOW, /* fragments wait until others are over */
};
enum wi_chain_bound wi_chain_bound(const struct wi_chain *chain, double bytes, double nfragments);

/* How long fragments may be: the last one may be shorter. All in bytes. */
struct wi_chain_limits {
    size_t unit;  /* they are multiples of it, at least 1 */
    size_t least; /* but for an operation that is shorter */
    size_t most;  /* room for one, as of a slot; 0: no limit */
};
/* The length that takes least, and (or NULL) what it takes. `bytes` if that is best, or 0. */
size_t wi_chain_best_fragment(const struct wi_chain *chain, size_t bytes, const struct wi_chain_limits *limits, double *us);

#endif
