/* SPDX-License-Identifier: BSD-3-Clause */
/* Flat two-shot reduce: each rank reduces one block, the root copies the blocks out.
 *
 *   steps: 2 signals, at the root 2(P-1) waits · to the arena n, read n(P-1)/P, root twice that
 *     · reduced n(P-1)/P · scratch n (+n/P past 64 ranks)
 *
 * P = 4, root 0, rank 1:  lane 0: TMP[0] <- SRC[0], TMP[2,3] <- SRC[2,3] | signal
 *                         lane 1: wait 2, 3, 0 | TMP[1] <- TMP@0[1] op SRC[1] op TMP@2[1] op TMP@3[1] | signal
 *           root, rank 0: lane 1: wait 1, 2, 3 | DST[0] <- SRC[0] op TMP@1[0] op TMP@2[0] op TMP@3[0]
 *                         lane 2: wait 1 | DST[1] <- TMP@1[1] | wait 2 | DST[2] <- TMP@2[2] | …
 *
 * See allreduce_flat2.c for why the lanes need no dependencies in place.
 */
#include "algo/util.h"

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int n = args->nranks, is_root = args->rank == args->root;
    uint32_t own = (uint32_t)args->rank, lane[3];
    struct wi_sched_builder *b;

    if (n == 1)
        return wi_algo_alone(args, &wi_reduce_flat2, sched);
    WI_TRY(wi_algo_begin(args, &wi_reduce_flat2, (uint32_t)n, (uint32_t)n + WI_ACC_BLOCKS(n), &b));
    for (int i = 0; i < 2 + is_root; i++)
        lane[i] = wi_sched_lane(b, WI_NO_PEER, WI_NO_PEER, 0);
    wi_algo_copy_but(b, lane[0], WI_TMP, WI_SRC, n, args->rank);
    wi_sched_signal(b, lane[0]);

    struct wi_region dst = wi_at(is_root ? WI_DST : WI_TMP, own, 1);
    struct wi_operands src = {WI_TMP, own, 0, 0, n, wi_at(WI_SRC, own, 1), 0};
    wi_algo_wait_all(args, b, lane[1], lane[0], 0);
    wi_algo_reduce(args, b, lane[1], &dst, 1, &src, wi_at(WI_TMP, (uint32_t)n, 1));
    if (!is_root) {
        wi_sched_signal(b, lane[1]);
        return wi_sched_seal(b, sched);
    }
    for (int i = 1; i < n; i++) {
        int peer = wi_mod(args->rank + i, n);
        wi_sched_wait(b, lane[2], peer, lane[1], 0);
        wi_sched_copy(b, lane[2], wi_at(WI_DST, (uint32_t)peer, 1), wi_at_rank(WI_TMP, peer, (uint32_t)peer, 1));
    }
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

const struct wi_algo wi_reduce_flat2 = {
    .name = "flat2",
    .coll = WI_COLL_REDUCE,
    .needs = WI_ALGO_MAPPED,
    .traits = {.pipelined = 1},
    .summary = "two-shot through shared slots: all reduce a block each, the root collects",
    .build = build,
    .cost = cost,
    .path = path,
};
