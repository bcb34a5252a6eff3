/* SPDX-License-Identifier: BSD-3-Clause */
/* Direct reduce-scatter: each rank reads its share from every SRC in one pass.
 *
 *   steps: 2 signals, 2(P-1) waits · read Pn, stored n (n: one share) · reduced (P-1)n · scratch
 *     n past 64 ranks
 *
 * P = 4, rank 1:  signal | wait 2, 3, 0 | DST <- SRC@0[1] op SRC[1] op SRC@2[1] op SRC@3[1] | signal | wait 2, 3, 0
 *
 * The last wait keeps SRC alive until every peer has read it.
 */
#include "algo/util.h"

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int n = args->nranks;
    uint32_t own = (uint32_t)args->rank;
    struct wi_sched_builder *b;

    if (n == 1)
        return wi_algo_alone(args, &wi_reducescatter_direct, sched);
    WI_TRY(wi_algo_begin(args, &wi_reducescatter_direct, 0, WI_ACC_BLOCKS(n), &b));
    uint32_t lane = wi_sched_lane(b, WI_NO_PEER, WI_NO_PEER, 0);
    struct wi_region dst = wi_at(WI_DST, 0, 1);
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
    *c = (struct wi_algo_cost){.steps = peers > 0 ? 2 : 0, .reduced = peers * bytes, .copied = alone};
}

const struct wi_algo wi_reducescatter_direct = {
    .name = "direct",
    .coll = WI_COLL_REDUCE_SCATTER,
    .needs = WI_ALGO_MAPPED | WI_ALGO_PEER_MEM,
    .traits = {.adds = 1},
    .summary = "p-way fused reduce of the own share from every rank's source",
    .build = build,
    .cost = cost,
};
