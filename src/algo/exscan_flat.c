/* SPDX-License-Identifier: BSD-3-Clause */
/* Flat exclusive scan: all but the last rank publish, each rank reduces the vectors before its own
 * in rank order.
 *
 *   steps: 1 signal, rank waits · to the arena n, read rank·n · reduced (rank-1)n · scratch n
 *     (2n past 65 ranks)
 *
 * P = 4:  0: TMP <- SRC | signal
 *         1: TMP <- SRC | signal | wait 0 | DST <- TMP@0
 *         2: TMP <- SRC | signal | wait 0, 1 | DST <- TMP@0 op TMP@1
 *         3:                       wait 0, 1, 2 | DST <- TMP@0 op TMP@1 op TMP@2
 *
 * Rank 0's result is undefined and stays untouched, as in MPI.
 */
#include "algo/util.h"

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int n = args->nranks, rank = args->rank;
    struct wi_sched_builder *b;

    if (n == 1)
        return wi_algo_alone(args, &wi_exscan_flat, sched);
    WI_TRY(wi_algo_begin(args, &wi_exscan_flat, 1, 1 + WI_ACC_BLOCKS(n - 1), &b));
    uint32_t lane = wi_sched_lane(b, WI_NO_PEER, WI_NO_PEER, 0);
    struct wi_region dst = wi_at(WI_DST, 0, 1);
    struct wi_operands src = {WI_TMP, 0, 0, 0, rank, wi_at(WI_TMP, 0, 1), 1};
    if (rank < n - 1) {
        wi_sched_copy(b, lane, wi_at(WI_TMP, 0, 1), wi_at(WI_SRC, 0, 1));
        wi_sched_signal(b, lane);
    }
    for (int i = 0; i < rank; i++)
        wi_sched_wait(b, lane, i, lane, 0);
    if (rank == 1)
        wi_sched_copy(b, lane, dst, wi_at_rank(WI_TMP, 0, 0, 1));
    else if (rank > 1)
        wi_algo_reduce(args, b, lane, &dst, 1, &src, wi_at(WI_TMP, 1, 1));
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int n = args->nranks;
    int copies = n == 1 ? 0 : n == 2 ? 1 : 2;
    *c = (struct wi_algo_cost){.steps = n > 1, .reduced = n > 2 ? (n - 2) * bytes : 0, .copied = copies * bytes};
}

/* In, then out or into a sum. */
static double time_of(const struct wi_algo_args *args, double bytes, const struct wi_algo_rates *rates)
{
    double copy = wi_algo_over(bytes, rates->copy_rate),
           sum = wi_algo_over((args->nranks - 2) * bytes, rates->reduce_rate);

    return args->nranks > 1 ? rates->alpha + copy + (sum > copy ? sum : copy) : 0;
}

const struct wi_algo wi_exscan_flat = {
    .name = "flat",
    .coll = WI_COLL_EXSCAN,
    .needs = WI_ALGO_MAPPED,
    .traits = {.one_shot = 1, .ll = 1},
    .summary = "one-shot through shared slots: each rank reduces its prefix",
    .build = build,
    .cost = cost,
    .time = time_of,
};
