/* SPDX-License-Identifier: BSD-3-Clause */
/* Direct reduce: each rank reads its block from every SRC and stores the result into the root's
 * DST.
 *
 *   steps: 2 signals, 2(P-1) waits · read n, stored n/P per rank · reduced n(P-1)/P · scratch
 *     n/P past 64 ranks
 *
 * P = 4, root 0, rank 1:  signal | wait 2, 3, 0 | DST@0[1] <- SRC@0[1] op SRC[1] op SRC@2[1] op SRC@3[1]
 *                         signal | wait 2, 3, 0
 *
 * In place is safe: block i of the root's buffer is read and written by rank i only.
 */
#include "algo/util.h"

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int n = args->nranks;
    uint32_t own = (uint32_t)args->rank;
    struct wi_sched_builder *b;

    if (n == 1)
        return wi_algo_alone(args, &wi_reduce_direct, sched);
    WI_TRY(wi_algo_begin(args, &wi_reduce_direct, (uint32_t)n, WI_ACC_BLOCKS(n), &b));
    uint32_t lane = wi_sched_lane(b, WI_NO_PEER, WI_NO_PEER, 0);
    struct wi_region dst = wi_region_of(args, WI_DST, args->root, own, 1);
    struct wi_operands src = {WI_SRC, own, 0, 0, n, wi_at(WI_SRC, own, 1), 0};
    wi_sched_signal(b, lane);
    wi_algo_wait_all(args, b, lane, lane, 0);
    wi_algo_reduce(args, b, lane, &dst, 1, &src, wi_at(WI_TMP, 0, 1));
    wi_sched_signal(b, lane);
    wi_algo_wait_all(args, b, lane, lane, 1);
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    double peers = args->nranks - 1;
    double alone = args->nranks == 1 && !args->in_place ? bytes : 0;
    *c = (struct wi_algo_cost){.steps = peers > 0 ? 2 : 0, .reduced = peers * bytes / args->nranks, .copied = alone};
}

const struct wi_algo wi_reduce_direct = {
    .name = "direct",
    .coll = WI_COLL_REDUCE,
    .needs = WI_ALGO_MAPPED | WI_ALGO_PEER_MEM,
    .summary = "all ranks reduce a block each, straight into the root's buffer",
    .build = build,
    .cost = cost,
};
