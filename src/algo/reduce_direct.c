/* SPDX-License-Identifier: BSD-3-Clause */
/* Direct reduce: each rank reduces its block directly from every SRC; the root collects the blocks.
 *
 * For large messages in memory that all ranks have mapped: no copy in. Results pass through slots, so that the root's
 * DST need not be mapped. A lane of its own collects, or waits, while the next slice is being reduced.
 *
 *   steps: 2 signals, 2(P-1) waits · read n per rank, n/P to the arena, the root n more · reduced n(P-1)/P ·
 *     scratch n (+n/P past 64 ranks)
 *
 * P = 4, root 0, rank 1:  lane 0: signal | wait 2, 3, 0 | TMP[1] <- SRC@0[1] op SRC[1] op SRC@2[1] op SRC@3[1] | signal
 *                         lane 1: wait 2, 3, 0
 *          root, rank 0:  lane 0: signal | wait 1, 2, 3 | DST[0] <- SRC[0] op SRC@1[0] op SRC@2[0] op SRC@3[0] | signal
 *                         lane 1: wait 1 | DST[1] <- TMP@1[1] | wait 2 | DST[2] <- TMP@2[2] | wait 3 | …
 *
 * The second signal of rank i says that it has read block i of every SRC: the root may overwrite it in place, and
 * no rank returns before all have signalled.
 */
#include "algo/util.h"

static void collect(const struct wi_algo_args *args, struct wi_sched_builder *b, uint32_t lane, uint32_t reduce_lane)
{
    for (int i = 1; i < args->nranks; i++) {
        int peer = wi_mod(args->rank + i, args->nranks);
        uint32_t block = (uint32_t)peer;
        wi_sched_wait(b, lane, peer, reduce_lane, 1);
        wi_sched_copy(b, lane, wi_at(WI_DST, block, 1), wi_at_rank(WI_TMP, peer, block, 1));
    }
}

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int n = args->nranks, is_root = args->rank == args->root;
    uint32_t own = (uint32_t)args->rank;
    struct wi_sched_builder *b;

    if (n == 1)
        return wi_algo_alone(args, &wi_reduce_direct, sched);
    WI_TRY(wi_algo_begin(args, &wi_reduce_direct, (uint32_t)n, (uint32_t)n + WI_ACC_BLOCKS(n), &b));
    uint32_t reduce = wi_sched_lane(b, WI_NO_PEER, WI_NO_PEER, 0);
    uint32_t finish = wi_sched_lane(b, WI_NO_PEER, WI_NO_PEER, 0);
    struct wi_region dst = wi_at(is_root ? WI_DST : WI_TMP, own, 1);
    struct wi_operands src = {WI_SRC, own, 0, 0, n, wi_at(WI_SRC, own, 1), 0};
    wi_sched_signal(b, reduce);
    wi_algo_wait_all(args, b, reduce, reduce, 0);
    wi_algo_reduce(args, b, reduce, &dst, 1, &src, wi_at(WI_TMP, (uint32_t)n, 1));
    wi_sched_signal(b, reduce);
    if (is_root)
        collect(args, b, finish, reduce);
    else
        wi_algo_wait_all(args, b, finish, reduce, 1);
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    double peers = args->nranks - 1, part = peers * bytes / args->nranks;
    double alone = args->nranks == 1 && !args->in_place ? bytes : 0;
    *c = (struct wi_algo_cost){.steps = peers == 1 ? 2 : peers, .reduced = part, .copied = part + alone};
}

/* One round of waits for all, then one wait before each copy. */
static void path(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    cost(args, bytes, c);
    c->steps = args->nranks > 1 ? args->nranks : 0;
}

const struct wi_algo wi_reduce_direct = {
    .name = "direct",
    .coll = WI_COLL_REDUCE,
    .needs = WI_ALGO_MAPPED | WI_ALGO_PEER_MEM,
    .summary = "all ranks reduce a block each, directly from every source; the root collects",
    .build = build,
    .cost = cost,
    .path = path,
};
