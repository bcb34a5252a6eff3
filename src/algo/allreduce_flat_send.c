/* SPDX-License-Identifier: BSD-3-Clause */
/* Flat two-sided all-reduce: every rank sends its vector to all others and reduces all of them in
 * rank order.
 *
 * One step of latency over any transport; for a few ranks and small messages.
 *
 *   steps: 1 · sent (P-1)n · reduced (P-1)n · scratch Pn
 *
 * P = 3, rank 1:  lane 0: send SRC → 0, TMP[0] <- 0
 *                 lane 1: send SRC → 2, TMP[2] <- 2
 *                 lane 2: (after both) DST <- TMP[0] op SRC op TMP[2]
 *
 * Past 64 operands partial results are kept in DST, hence a copy of SRC, which may be DST, in
 * scratch.
 */
#include "algo/util.h"

/* The newest step of `lane` waits until step `got` of every lane before it is done. */
static void after_all(struct wi_sched_builder *b, uint32_t lane, uint32_t got)
{
    for (uint32_t i = 0; i < lane; i++)
        wi_sched_after(b, lane, i, got);
}

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int n = args->nranks;
    struct wi_sched_builder *b;

    if (n == 1)
        return wi_algo_alone(args, &wi_allreduce_flat_send, sched);
    WI_TRY(wi_algo_begin(args, &wi_allreduce_flat_send, 1, (uint32_t)n, &b));
    uint32_t got = 0, local;
    for (int i = 1; i < n; i++) {
        int peer = wi_mod(args->rank + i, n);
        uint32_t lane = wi_sched_lane(b, peer, peer, 0);
        wi_sched_send(b, lane, wi_at(WI_SRC, 0, 1));
        got = wi_sched_recv(b, lane, wi_at(WI_TMP, (uint32_t)peer, 1));
    }
    local = wi_sched_lane(b, WI_NO_PEER, WI_NO_PEER, 0);
    struct wi_region dst = wi_at(WI_DST, 0, 1), mine = wi_at(WI_TMP, (uint32_t)args->rank, 1);
    struct wi_operands src = {WI_TMP, 0, 1, 0, n, wi_at(WI_SRC, 0, 1), 0};
    if (n > WI_REDUCE_MAX_SRC) {
        wi_sched_copy(b, local, mine, src.own);
        after_all(b, local, got);
        src.own = mine;
        wi_algo_reduce(args, b, local, &dst, 1, &src, dst);
    } else {
        wi_algo_reduce(args, b, local, &dst, 1, &src, dst);
        after_all(b, local, got);
    }
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    double peers = args->nranks - 1;
    double alone = args->nranks == 1 && !args->in_place ? bytes : 0;
    double copied = args->nranks > WI_REDUCE_MAX_SRC ? bytes : alone;
    *c = (struct wi_algo_cost){peers > 0, peers * bytes, peers * bytes, copied};
}

const struct wi_algo wi_allreduce_flat_send = {
    .name = "flat_send",
    .coll = WI_COLL_ALL_REDUCE,
    .needs = 0,
    .traits = {.shape = WI_SHAPE_FAN},
    .summary = "one-shot two-sided: everybody sends its vector to everybody",
    .build = build,
    .cost = cost,
};
