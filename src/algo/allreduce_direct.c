/* SPDX-License-Identifier: BSD-3-Clause */
/* Direct all-reduce: each rank reads its block from every SRC and stores the result into every
 * DST.
 *
 * For large messages in memory that all ranks have mapped. No copy in, no copy out: 2n bytes of
 * traffic per rank (n read, n stored, with non-temporal stores), which is the lower bound.
 *
 *   steps: 2 signals, 2(P-1) waits · read n, stored n · reduced n(P-1)/P · scratch n/P past 64
 *     ranks, else none
 *
 * P = 4, rank 1:  signal | wait 2, 3, 0
 *                 DST@0[1], DST[1], DST@2[1], DST@3[1] <- SRC@0[1] op SRC[1] op SRC@2[1] op SRC@3[1]
 *                 signal | wait 2, 3, 0
 *
 * In place is safe: block i of any buffer is read and written by rank i only. The last wait keeps
 * SRC alive until every peer has read it and tells that DST is complete.
 */
#include "algo/util.h"

/* The result of a step with too many destinations for one goes through scratch. */
static void store_all(const struct wi_algo_args *args, struct wi_sched_builder *b, uint32_t lane)
{
    uint32_t own = (uint32_t)args->rank;
    for (int i = 0; i < args->nranks; i++)
        wi_sched_copy(b, lane, wi_region_of(args, WI_DST, wi_mod(args->rank + i, args->nranks), own, 1),
                      wi_at(WI_TMP, 0, 1));
}

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int n = args->nranks;
    uint32_t own = (uint32_t)args->rank;
    struct wi_region dst[WI_REDUCE_MAX_SRC], acc = wi_at(WI_TMP, 0, 1);
    struct wi_sched_builder *b;

    if (n == 1)
        return wi_algo_alone(args, &wi_allreduce_direct, sched);
    WI_TRY(wi_algo_begin(args, &wi_allreduce_direct, (uint32_t)n, WI_ACC_BLOCKS(n), &b));
    uint32_t lane = wi_sched_lane(b, WI_NO_PEER, WI_NO_PEER, 0);
    struct wi_operands src = {WI_SRC, own, 0, 0, n, wi_at(WI_SRC, own, 1), 0};
    wi_sched_signal(b, lane);
    wi_algo_wait_all(args, b, lane, lane, 0);
    if (n <= WI_REDUCE_MAX_SRC) {
        for (int i = 0; i < n; i++)
            dst[i] = wi_region_of(args, WI_DST, i, own, 1);
        wi_algo_reduce(args, b, lane, dst, (uint32_t)n, &src, acc);
    } else {
        wi_algo_reduce(args, b, lane, &acc, 1, &src, acc);
        store_all(args, b, lane);
    }
    wi_sched_signal(b, lane);
    wi_algo_wait_all(args, b, lane, lane, 1);
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    double peers = args->nranks - 1;
    double copied = args->nranks > WI_REDUCE_MAX_SRC || (args->nranks == 1 && !args->in_place) ? bytes : 0;
    *c = (struct wi_algo_cost){.steps = peers > 0 ? 2 : 0, .reduced = peers * bytes / args->nranks, .copied = copied};
}

const struct wi_algo wi_allreduce_direct = {
    .name = "direct",
    .coll = WI_COLL_ALL_REDUCE,
    .needs = WI_ALGO_MAPPED | WI_ALGO_PEER_MEM,
    .summary = "p-way fused reduce of one block from and to every rank's own buffers",
    .build = build,
    .cost = cost,
};
