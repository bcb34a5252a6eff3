/* SPDX-License-Identifier: BSD-3-Clause */
/* Flat two-shot all-reduce: each rank reduces one block for all.
 *
 * For messages where reducing the whole vector P times costs more than a second phase. Three lanes
 * overlap copying in, reducing and copying out of successive slices. The own block is read from
 * SRC and never copied in.
 *
 *   steps: 2 signals, 2(P-1) waits · to the arena n, read 2n(P-1)/P · reduced n(P-1)/P · scratch
 *     n (+n/P past 64)
 *
 * P = 4, rank 1:  lane 0: TMP[0] <- SRC[0], TMP[2,3] <- SRC[2,3] | signal
 *                 lane 1: wait 2, 3, 0 | DST[1], TMP[1] <- TMP@0[1] op SRC[1] op TMP@2[1] op TMP@3[1] | signal
 *                 lane 2: wait 2 | DST[2] <- TMP@2[2] | wait 3 | DST[3] <- TMP@3[3] | wait 0 | DST[0] <- TMP@0[0]
 *
 * In place lane 2 overwrites blocks that lane 0 reads, with no dependency between them: rank i
 * signals its result only after it waited for our lane 0, so its signal orders the two.
 *
 * Idea: reduce-scatter + all-gather of Rabenseifner 2004 on shared memory; two-shot kernels of GPU
 * inference engines.
 */
#include "algo/util.h"

static void copy_out(const struct wi_algo_args *args, struct wi_sched_builder *b, uint32_t lane, uint32_t reduce_lane)
{
    for (int i = 1; i < args->nranks; i++) {
        int peer = wi_mod(args->rank + i, args->nranks);
        wi_sched_wait(b, lane, peer, reduce_lane, 0);
        wi_sched_copy(b, lane, wi_at(WI_DST, (uint32_t)peer, 1), wi_at_rank(WI_TMP, peer, (uint32_t)peer, 1));
    }
}

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int n = args->nranks;
    uint32_t own = (uint32_t)args->rank, lane[3];
    struct wi_sched_builder *b;

    if (n == 1)
        return wi_algo_alone(args, &wi_allreduce_flat2, sched);
    WI_TRY(wi_algo_begin(args, &wi_allreduce_flat2, (uint32_t)n, (uint32_t)n + WI_ACC_BLOCKS(n), &b));
    for (int i = 0; i < 3; i++)
        lane[i] = wi_sched_lane(b, WI_NO_PEER, WI_NO_PEER, 0);
    wi_algo_copy_but(b, lane[0], WI_TMP, WI_SRC, n, args->rank);
    wi_sched_signal(b, lane[0]);

    struct wi_region dst[2] = {wi_at(WI_DST, own, 1), wi_at(WI_TMP, own, 1)};
    struct wi_operands src = {WI_TMP, own, 0, 0, n, wi_at(WI_SRC, own, 1), 0};
    wi_algo_wait_all(args, b, lane[1], lane[0], 0);
    wi_algo_reduce(args, b, lane[1], dst, 2, &src, wi_at(WI_TMP, (uint32_t)n, 1));
    wi_sched_signal(b, lane[1]);

    copy_out(args, b, lane[2], lane[1]);
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    double peers = args->nranks - 1, block = bytes / args->nranks;
    double alone = args->nranks == 1 && !args->in_place ? bytes : 0;
    *c = (struct wi_algo_cost){
        .steps = peers == 1 ? 2 : peers, .reduced = peers * block, .copied = 2 * peers * block + alone};
}

/* One round of waits for all, then one wait before each copy. */
static void path(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    cost(args, bytes, c);
    c->steps = args->nranks > 1 ? args->nranks : 0;
}

const struct wi_algo wi_allreduce_flat2 = {
    .name = "flat2",
    .coll = WI_COLL_ALL_REDUCE,
    .needs = WI_ALGO_MAPPED,
    .traits = {.pipelined = 1},
    .summary = "two-shot through shared slots, pipelined: reduce-scatter, then all-gather",
    .build = build,
    .cost = cost,
    .path = path,
};
