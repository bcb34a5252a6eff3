/* SPDX-License-Identifier: BSD-3-Clause */
/* What schedules cost, for the planner: without a record of every event, and for any number of ranks.
 *
 * wi_sim_cost    from the schedules of all ranks, with the contention of the model's paths.
 *                Up to WI_SIM_COST_UNITS messages and local pieces, about 0.1 s: by events. When that needs fewer slices
 *                than the executor would cut, two coarser cuts are run and the rest follows from the pipeline's law, which
 *                is linear in the length of a slice: T(s) = drain + fill · s.
 *                Past that: steps of the longest chain · (latency + overheads) + what passes through the busiest resource +
 *                work of the busiest core; the last two overlap in all slices but one. Exact for regular patterns (rings,
 *                pairwise exchanges), an upper bound of what fair sharing would give for others.
 * wi_sim_closed  from an algorithm's formula, in constant time: 100,000 ranks on a laptop. No contention but the algorithm's own.
 * Times are microseconds, rates bytes per microsecond.
 */
#ifndef WI_SIM_COST_H
#define WI_SIM_COST_H

#include "sim/sim.h"

#define WI_SIM_COST_UNITS 100000u
#define WI_SIM_COST_FLOWS 400000u /* units times lanes of a rank */

struct wi_sim_cost {
    double us;
    uint32_t busiest;    /* resource that is in use longest; WI_SIM_NONE */
    double busiest_us;   /* its bytes / its rate */
    double busiest_core_us;
    int by_events;
};
weft_status wi_sim_cost(const struct wi_sched *const scheds[], int nranks, size_t bytes, const struct wi_model *model,
                        size_t slice_bytes, struct wi_sim_cost *cost);

/* As in struct wi_algo_cost: what the busiest rank does in all, */
struct wi_sim_terms {
    double steps, sent, reduced, copied;
};
/* and the constants of a uniform network. */
struct wi_sim_rates {
    double alpha; /* of a step: latency and overheads, or a signal and its wait */
    double beta, gamma, kappa; /* links, reductions, copies; INFINITY: no time */
};
/* `path`: the same along the longest chain of one slice from rank to rank. The first slice takes the path, each other one
 * keeps the busiest rank's link and core, which overlap, for its share of `all`. */
double wi_sim_closed(const struct wi_sim_terms *all, const struct wi_sim_terms *path, double nslices,
                     const struct wi_sim_rates *rates);
/* The rates of a model as if it were uniform: of the slowest path of a ring in rank order, with what shares it. `mapped`: of
 * signals and memories instead. */
weft_status wi_sim_rates(const struct wi_model *model, int mapped, struct wi_sim_rates *rates);

#endif
