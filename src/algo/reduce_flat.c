/* SPDX-License-Identifier: BSD-3-Clause */
/* Flat reduce: all but the root publish their vectors, the root reduces them in rank order.
 *
 *   steps: 1 signal; root P-1 waits · to the arena n · root reads and reduces (P-1)n · scratch n
 *     (2n past 64 ranks)
 *
 * P = 4, root 1:  0, 2, 3: TMP <- SRC | signal
 *                 1: wait 2, 3, 0 | DST <- TMP@0 op SRC op TMP@2 op TMP@3
 *
 * One half of the one-shot all-reduce (allreduce_flat.c).
 */
#include "algo/util.h"

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int n = args->nranks;
    struct wi_sched_builder *b;

    if (n == 1)
        return wi_algo_alone(args, &wi_reduce_flat, sched);
    WI_TRY(wi_algo_begin(args, &wi_reduce_flat, 1, 1 + WI_ACC_BLOCKS(n), &b));
    uint32_t lane = wi_sched_lane(b, WI_NO_PEER, WI_NO_PEER, 0);
    if (args->rank != args->root) {
        wi_sched_copy(b, lane, wi_at(WI_TMP, 0, 1), wi_at(WI_SRC, 0, 1));
        wi_sched_signal(b, lane);
        return wi_sched_seal(b, sched);
    }
    struct wi_region dst = wi_at(WI_DST, 0, 1);
    struct wi_operands src = {WI_TMP, 0, 0, 0, n, wi_at(WI_SRC, 0, 1), 0};
    wi_algo_wait_all(args, b, lane, lane, 0);
    wi_algo_reduce(args, b, lane, &dst, 1, &src, wi_at(WI_TMP, 1, 1));
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int n = args->nranks;
    int copied = n > 1 || !args->in_place;
    *c = (struct wi_algo_cost){.steps = n > 1, .reduced = (n - 1) * bytes, .copied = copied * bytes};
}

const struct wi_algo wi_reduce_flat = {
    .name = "flat",
    .coll = WI_COLL_REDUCE,
    .needs = WI_ALGO_MAPPED,
    .traits = {.one_shot = 1, .ll = 1},
    .summary = "one-shot through shared slots: the root reduces every vector",
    .build = build,
    .cost = cost,
};
