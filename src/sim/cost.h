/* SPDX-License-Identifier: BSD-3-Clause */
/* What schedules cost, for the planner: without a record of every event, and for any number of ranks.
 *
 * wi_sim_cost    from the schedules of all ranks, with the contention of the model's paths.
 *                Up to WI_SIM_COST_UNITS messages and local pieces, and 4 times that with a rank's lanes, about 0.1 s: by
 *                events. When that needs fewer slices
 *                than the executor would cut, two coarser cuts are run and the rest follows from the pipeline's law, which
 *                is linear in the length of a slice: T(s) = drain + fill · s.
 *                Past that: steps of the longest chain · (latency + overheads) + what passes through the busiest resource +
 *                work of the busiest core; the last two overlap in all slices but one. Exact for regular patterns (rings,
 *                pairwise exchanges), an upper bound of what fair sharing would give for others.
 * Past what fits a machine: the algorithms' closed forms (src/algo/algo.h), with the rates that wi_sim_rates finds.
 * Times are microseconds, rates bytes per microsecond.
 */
#ifndef WI_SIM_COST_H
#define WI_SIM_COST_H

#include "sim/sim.h"

#define WI_SIM_COST_UNITS 100000u

struct wi_sim_cost {
    double us;
    uint32_t busiest;    /* resource that is in use longest; WI_SIM_NONE */
    double busiest_us;   /* its bytes / its rate */
    double busiest_core_us;
    int by_events;
};
weft_status wi_sim_cost(const struct wi_sched *const scheds[], int nranks, size_t bytes, const struct wi_model *model,
                        size_t slice_bytes, struct wi_sim_cost *cost);
/* The same with another bound than WI_SIM_COST_UNITS, not above it. */
weft_status wi_sim_cost_within(const struct wi_sched *const scheds[], int nranks, size_t bytes,
                               const struct wi_model *model, size_t slice_bytes, uint32_t units,
                               struct wi_sim_cost *cost);

/* The constants of a uniform network, as struct wi_algo_rates has them. */
struct wi_sim_rates {
    double alpha; /* of a step: latency and overheads, or a signal and its wait */
    double beta;  /* of a link; INFINITY: no time, also below */
    double reduce_rate, copy_rate;
};
/* The rates of a model as if it were uniform: of the slowest path of a ring in rank order, with what shares it. `mapped`: of
 * signals and memories instead. */
weft_status wi_sim_rates(const struct wi_model *model, int mapped, struct wi_sim_rates *rates);

#endif
