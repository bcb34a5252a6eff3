/* SPDX-License-Identifier: BSD-3-Clause */
/* Flat reduce-scatter: everybody publishes what others need, everybody reduces its own share in
 * rank order.
 *
 *   steps: 1 signal, P-1 waits · to the arena (P-1)n, read (P-1)n · reduced (P-1)n · scratch Pn
 *     (n: one share)
 *
 * P = 4, rank 1:  TMP[0] <- SRC[0], TMP[2,3] <- SRC[2,3] | signal | wait 2, 3, 0
 *                 DST <- TMP@0[1] op SRC[1] op TMP@2[1] op TMP@3[1]
 *
 * The own share never passes through the arena. The first half of the two-shot all-reduce
 * (allreduce_flat2.c).
 */
#include "algo/util.h"

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int n = args->nranks;
    uint32_t own = (uint32_t)args->rank;
    struct wi_sched_builder *b;

    if (n == 1)
        return wi_algo_alone(args, &wi_reducescatter_flat, sched);
    WI_TRY(wi_algo_begin(args, &wi_reducescatter_flat, 0, (uint32_t)n + WI_ACC_BLOCKS(n), &b));
    uint32_t lane = wi_sched_lane(b, WI_NO_PEER, WI_NO_PEER, 0);
    struct wi_region dst = wi_at(WI_DST, 0, 1);
    struct wi_operands src = {WI_TMP, own, 0, 0, n, wi_at(WI_SRC, own, 1), 0};
    wi_algo_copy_but(b, lane, WI_TMP, WI_SRC, n, args->rank);
    wi_sched_signal(b, lane);
    wi_algo_wait_all(args, b, lane, lane, 0);
    wi_algo_reduce(args, b, lane, &dst, 1, &src, wi_at(WI_TMP, (uint32_t)n, 1));
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    double peers = args->nranks - 1;
    double alone = args->nranks == 1 && !args->in_place ? bytes : 0;
    *c = (struct wi_algo_cost){.steps = peers > 0, .reduced = peers * bytes, .copied = peers * bytes + alone};
}

const struct wi_algo wi_reducescatter_flat = {
    .name = "flat",
    .coll = WI_COLL_REDUCE_SCATTER,
    .needs = WI_ALGO_MAPPED,
    .traits = {.adds = 1, .one_shot = 1, .ll = 1},
    .summary = "one-shot through shared slots: each rank reduces its share",
    .build = build,
    .cost = cost,
};
