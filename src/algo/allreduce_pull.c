/* SPDX-License-Identifier: BSD-3-Clause */
/* Pull all-reduce: fetch the own block of every SRC, reduce, fetch the results from every DST.
 *
 * For large messages where peers' memory can be copied from, but not mapped (cross-memory attach).
 * No copy in: n bytes less traffic per rank than through slots.
 *
 *   steps: 3 signals, 3(P-1) waits · fetched 2n(P-1)/P · reduced n(P-1)/P · scratch n (+n/P past
 *     64 ranks)
 *
 * P = 4, rank 1:  signal | wait 2 | TMP[2] <- SRC@2[1] | … | TMP[0] <- SRC@0[1]
 *                 DST[1] <- TMP[0] op SRC[1] op TMP[2] op TMP[3]
 *                 signal | wait 2 | DST[2] <- DST@2[2] | … | DST[0] <- DST@0[0] | signal | wait 2, 3, 0
 *
 * In place, DST[2] overwrites what rank 2 fetches from us: its second signal says that it has. The
 * last wait keeps DST as it is until every peer has read it.
 */
#include "algo/util.h"

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int n = args->nranks;
    uint32_t own = (uint32_t)args->rank;
    struct wi_sched_builder *b;

    if (n == 1)
        return wi_algo_alone(args, &wi_allreduce_pull, sched);
    WI_TRY(wi_algo_begin(args, &wi_allreduce_pull, (uint32_t)n, (uint32_t)n + WI_ACC_BLOCKS(n), &b));
    uint32_t lane = wi_sched_lane(b, WI_NO_PEER, WI_NO_PEER, 0);
    wi_sched_signal(b, lane);
    for (int i = 1; i < n; i++) {
        int peer = wi_mod(args->rank + i, n);
        wi_sched_wait(b, lane, peer, lane, 0);
        wi_sched_copy(b, lane, wi_at(WI_TMP, (uint32_t)peer, 1), wi_at_rank(WI_SRC, peer, own, 1));
    }
    struct wi_region dst = wi_at(WI_DST, own, 1);
    struct wi_operands src = {WI_TMP, 0, 1, 0, n, wi_at(WI_SRC, own, 1), 0};
    wi_algo_reduce(args, b, lane, &dst, 1, &src, wi_at(WI_TMP, (uint32_t)n, 1));
    wi_sched_signal(b, lane);
    for (int i = 1; i < n; i++) {
        int peer = wi_mod(args->rank + i, n);
        uint32_t block = (uint32_t)peer;
        wi_sched_wait(b, lane, peer, lane, 1);
        wi_sched_copy(b, lane, wi_at(WI_DST, block, 1), wi_at_rank(WI_DST, peer, block, 1));
    }
    wi_sched_signal(b, lane);
    wi_algo_wait_all(args, b, lane, lane, 2);
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    double peers = args->nranks - 1, block = bytes / args->nranks;
    double alone = args->nranks == 1 && !args->in_place ? bytes : 0;
    *c = (struct wi_algo_cost){
        .steps = peers > 0 ? 2 * peers + 1 : 0, .reduced = peers * block, .copied = 2 * peers * block + alone};
}

const struct wi_algo wi_allreduce_pull = {
    .name = "pull",
    .coll = WI_COLL_ALL_REDUCE,
    .needs = WI_ALGO_MAPPED | WI_ALGO_PEER_GET,
    .summary = "two-shot that copies from every rank's own buffers",
    .build = build,
    .cost = cost,
};
