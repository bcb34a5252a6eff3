/* SPDX-License-Identifier: BSD-3-Clause */
/* Ring all-reduce: block b travels once round the ring being reduced, once more being stored.
 *
 * Bandwidth-optimal on any transport, every rank talks to two neighbours only; latency grows with
 * P.
 *
 *   steps: 2(P-1) · sent 2n(P-1)/P · reduced n(P-1)/P · no scratch (partial results live in DST)
 *
 * P = 4, block received in each step (reduced up to step 3, * complete, stored from step 4):
 *
 *   rank     1    2    3    4    5    6
 *   0        3    2    1*   0    3    2
 *   1        0    3    2*   1    0    3
 *   2        1    0    3*   2    1    0
 *   3        2    1    0*   3    2    1
 *
 * Patarasu, Yuan: Bandwidth optimal all-reduce algorithms for clusters of workstations, 2009.
 */
#include "algo/util.h"

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int n = args->nranks, rank = args->rank;
    struct wi_sched_builder *b;

    if (n == 1)
        return wi_algo_alone(args, &wi_allreduce_ring, sched);
    WI_TRY(wi_algo_begin(args, &wi_allreduce_ring, (uint32_t)n, 0, &b));
    uint32_t lane = wi_sched_lane(b, wi_mod(rank + 1, n), wi_mod(rank - 1, n), 0);
    wi_algo_ring_all_reduce(args, b, lane, 1, 0);
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    double peers = args->nranks - 1, block = bytes / args->nranks;
    double alone = args->nranks == 1 && !args->in_place ? bytes : 0;
    *c = (struct wi_algo_cost){2 * peers, 2 * peers * block, peers * block, alone};
}

const struct wi_algo wi_allreduce_ring = {
    .name = "ring",
    .coll = WI_COLL_ALL_REDUCE,
    .needs = WI_ALGO_COMMUTATIVE,
    .traits = {.shape = WI_SHAPE_ROW, .streams = 1, .slices = WI_SLICES_OF_SHARES},
    .summary = "ring reduce-scatter and all-gather: least bytes per link",
    .build = build,
    .cost = cost,
};
