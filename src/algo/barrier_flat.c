/* SPDX-License-Identifier: BSD-3-Clause */
/* Flat barrier: everybody signals, then waits for everybody.
 *
 *   steps: 1 signal, P-1 waits · no data · no scratch
 *
 * P = 4, rank 1:  signal | wait 2, 3, 0
 */
#include "algo/util.h"

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    struct wi_sched_builder *b;

    if (args->nranks == 1)
        return wi_algo_alone(args, &wi_barrier_flat, sched);
    WI_TRY(wi_algo_begin(args, &wi_barrier_flat, 0, 0, &b));
    uint32_t lane = wi_sched_lane(b, WI_NO_PEER, WI_NO_PEER, 0);
    wi_sched_signal(b, lane);
    wi_algo_wait_all(args, b, lane, lane, 0);
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    (void)bytes;
    *c = (struct wi_algo_cost){.steps = args->nranks > 1};
}

const struct wi_algo wi_barrier_flat = {
    .name = "flat",
    .coll = WI_COLL_BARRIER,
    .needs = WI_ALGO_MAPPED,
    .traits = {.one_shot = 1},
    .summary = "one signal, P-1 waits",
    .build = build,
    .cost = cost,
};
