/* SPDX-License-Identifier: BSD-3-Clause */
/* Ring reduce-scatter: every share starts right after its owner and collects contributions on its
 * way round.
 *
 * Bandwidth-optimal, neighbours only; for large shares. Shares may differ in size: partial results
 * are never sent by a step of their own, so that their length always comes from SRC.
 *
 *   steps: P-1 · sent (P-1)n · reduced (P-1)n (n: one share) · scratch n
 *
 * P = 4, share received in each step:   rank 0: 2, 1, 0 · rank 1: 3, 2, 1 · rank 2: 0, 3, 2 · rank 3: 1, 0, 3
 */
#include "algo/util.h"

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int n = args->nranks, rank = args->rank;
    struct wi_sched_builder *b;

    if (n == 1)
        return wi_algo_alone(args, &wi_reducescatter_ring, sched);
    WI_TRY(wi_algo_begin(args, &wi_reducescatter_ring, 0, 1, &b));
    uint32_t lane = wi_sched_lane(b, wi_mod(rank + 1, n), wi_mod(rank - 1, n), 0);
    wi_sched_send(b, lane, wi_at(WI_SRC, (uint32_t)wi_mod(rank - 1, n), 1));
    for (int k = 2; k < n; k++)
        wi_sched_recv_reduce_send(b, lane, wi_at(WI_TMP, 0, 1), wi_at(WI_SRC, (uint32_t)wi_mod(rank - k, n), 1), 0);
    wi_sched_recv_reduce(b, lane, wi_at(WI_DST, 0, 1), wi_at(WI_SRC, (uint32_t)rank, 1), WI_STEP_FINAL);
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    double peers = args->nranks - 1;
    double alone = args->nranks == 1 && !args->in_place ? bytes : 0;
    *c = (struct wi_algo_cost){peers, peers * bytes, peers * bytes, alone};
}

const struct wi_algo wi_reducescatter_ring = {
    .name = "ring",
    .coll = WI_COLL_REDUCE_SCATTER,
    .needs = WI_ALGO_COMMUTATIVE,
    .traits = {.adds = 1, .shape = WI_SHAPE_ROW, .streams = 1},
    .summary = "shares go round a ring being reduced: neighbours only",
    .build = build,
    .cost = cost,
};
