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
#include "base/alloc.h"

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int n = args->nranks;
    uint32_t own = (uint32_t)args->rank;
    struct wi_sched_builder *b;

    if (n == 1)
        return wi_algo_alone(args, &wi_allreduce_direct, sched);
    struct wi_region *dst = wi_malloc((size_t)n * sizeof *dst);
    if (!dst)
        return wi_fail(WEFT_ENOMEM, "all_reduce direct: no memory for %d regions", n);
    weft_status st = wi_algo_begin(args, &wi_allreduce_direct, (uint32_t)n, WI_ACC_BLOCKS(n), &b);
    if (st < 0)
        goto free_dst;
    uint32_t lane = wi_sched_lane(b, WI_NO_PEER, WI_NO_PEER, 0);
    struct wi_operands src = {WI_SRC, own, 0, 0, n, wi_at(WI_SRC, own, 1), 0};
    for (int i = 0; i < n; i++)
        dst[i] = wi_region_of(args, WI_DST, i, own, 1);
    wi_sched_signal(b, lane);
    wi_algo_wait_all(args, b, lane, lane, 0);
    wi_algo_reduce(args, b, lane, dst, (uint32_t)n, &src, wi_at(WI_TMP, 0, 1));
    wi_sched_signal(b, lane);
    wi_algo_wait_all(args, b, lane, lane, 1);
    st = wi_sched_seal(b, sched);
free_dst:
    wi_free(dst);
    return st;
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    double peers = args->nranks - 1;
    double alone = args->nranks == 1 && !args->in_place ? bytes : 0;
    *c = (struct wi_algo_cost){.steps = peers > 0 ? 2 : 0, .reduced = peers * bytes / args->nranks, .copied = alone};
}

const struct wi_algo wi_allreduce_direct = {
    .name = "direct",
    .coll = WI_COLL_ALL_REDUCE,
    .needs = WI_ALGO_MAPPED | WI_ALGO_PEER_MEM,
    .summary = "p-way fused reduce of one block from and to every rank's own buffers",
    .build = build,
    .cost = cost,
};
