/* SPDX-License-Identifier: BSD-3-Clause */
/* Pull reduce-scatter: fetch the own share of every SRC, reduce in rank order.
 *
 * For memory that can be copied from, but not mapped (cross-memory attach).
 *
 *   steps: 2 signals, 2(P-1) waits · fetched (P-1)n · reduced (P-1)n · scratch Pn (n: one share;
 *     +n past 64 ranks)
 *
 * P = 4, rank 1:  signal | wait 2 | TMP[2] <- SRC@2[1] | … | TMP[0] <- SRC@0[1] | signal
 *                 DST <- TMP[0] op SRC[1] op TMP[2] op TMP[3] | wait 2, 3, 0
 *
 * The last wait keeps SRC alive until every peer has read it; reducing overlaps with the peers'
 * fetching.
 */
#include "algo/util.h"

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int n = args->nranks;
    uint32_t own = (uint32_t)args->rank;
    struct wi_sched_builder *b;

    if (n == 1)
        return wi_algo_alone(args, &wi_reducescatter_pull, sched);
    WI_TRY(wi_algo_begin(args, &wi_reducescatter_pull, 0, (uint32_t)n + WI_ACC_BLOCKS(n), &b));
    uint32_t lane = wi_sched_lane(b, WI_NO_PEER, WI_NO_PEER, 0);
    wi_sched_signal(b, lane);
    for (int i = 1; i < n; i++) {
        int peer = wi_mod(args->rank + i, n);
        wi_sched_wait(b, lane, peer, lane, 0);
        wi_sched_copy(b, lane, wi_at(WI_TMP, (uint32_t)peer, 1), wi_at_rank(WI_SRC, peer, own, 1));
    }
    wi_sched_signal(b, lane);
    struct wi_region dst = wi_at(WI_DST, 0, 1);
    struct wi_operands src = {WI_TMP, 0, 1, 0, n, wi_at(WI_SRC, own, 1), 0};
    wi_algo_reduce(args, b, lane, &dst, 1, &src, wi_at(WI_TMP, (uint32_t)n, 1));
    wi_algo_wait_all(args, b, lane, lane, 1);
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    double peers = args->nranks - 1;
    double alone = args->nranks == 1 && !args->in_place ? bytes : 0;
    *c = (struct wi_algo_cost){
        .steps = peers > 0 ? peers + 1 : 0, .reduced = peers * bytes, .copied = peers * bytes + alone};
}

const struct wi_algo wi_reducescatter_pull = {
    .name = "pull",
    .coll = WI_COLL_REDUCE_SCATTER,
    .needs = WI_ALGO_MAPPED | WI_ALGO_PEER_GET,
    .traits = {.adds = 1},
    .summary = "copies the own share from every rank's source, then reduces",
    .build = build,
    .cost = cost,
};
