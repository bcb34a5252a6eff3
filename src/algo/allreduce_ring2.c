/* SPDX-License-Identifier: BSD-3-Clause */
/* Bidirectional ring all-reduce: the ring algorithm twice, each on half of the vector, in opposite
 * directions.
 *
 * Uses both directions of every link between neighbours; same bytes and steps as one ring, half of
 * them each way.
 *
 *   steps: 2(P-1) · sent 2n(P-1)/P, half to either neighbour · reduced n(P-1)/P · no scratch
 *
 * P = 4, rank 1:  lane 0: 0 → 1 → 2, blocks 0..3     lane 1: 2 → 1 → 0, blocks 4..7
 *
 * With two ranks both neighbours are the same one: the lanes differ in their channel. See
 * allreduce_ring.c.
 */
#include "algo/util.h"

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int n = args->nranks, rank = args->rank;
    struct wi_sched_builder *b;

    if (n == 1)
        return wi_algo_alone(args, &wi_allreduce_ring2, sched);
    WI_TRY(wi_algo_begin(args, &wi_allreduce_ring2, 2 * (uint32_t)n, 0, &b));
    int next = wi_mod(rank + 1, n), prev = wi_mod(rank - 1, n);
    wi_algo_ring_all_reduce(args, b, wi_sched_lane(b, next, prev, 0), 1, 0);
    wi_algo_ring_all_reduce(args, b, wi_sched_lane(b, prev, next, 1), -1, (uint32_t)n);
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    double peers = args->nranks - 1, block = bytes / args->nranks;
    double alone = args->nranks == 1 && !args->in_place ? bytes : 0;
    *c = (struct wi_algo_cost){2 * peers, 2 * peers * block, peers * block, alone};
}

const struct wi_algo wi_allreduce_ring2 = {
    .name = "ring2",
    .coll = WI_COLL_ALL_REDUCE,
    .needs = WI_ALGO_COMMUTATIVE,
    .traits = {.shape = WI_SHAPE_ROW, .streams = 1, .slices = WI_SLICES_OF_SHARES, .halves = 1},
    .summary = "two rings in opposite directions, half of the vector each",
    .build = build,
    .cost = cost,
};
