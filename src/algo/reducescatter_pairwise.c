/* SPDX-License-Identifier: BSD-3-Clause */
/* Pairwise reduce-scatter: in step r every rank sends the share of the rank r above and takes one
 * from the rank r below.
 *
 * Every byte crosses the network once and is reduced once, by its owner; no scratch. Shares may
 * differ in size.
 *
 *   steps: P-1 · sent (P-1)n · reduced (P-1)n (n: one share) · no scratch
 *
 * P = 4, rank 1:  SRC[2] → 2, DST = SRC[1] op [0] | SRC[3] → 3, DST = DST op [3] | SRC[0] → 0, DST = DST op [2]
 */
#include "algo/util.h"

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int n = args->nranks, rank = args->rank;
    struct wi_region held = wi_at(WI_SRC, (uint32_t)rank, 1), dst = wi_at(WI_DST, 0, 1);
    struct wi_sched_builder *b;

    if (n == 1)
        return wi_algo_alone(args, &wi_reducescatter_pairwise, sched);
    WI_TRY(wi_algo_begin(args, &wi_reducescatter_pairwise, 0, 0, &b));
    struct wi_seq seq = wi_seq_begin(b);
    for (int r = 1; r < n; r++) {
        int to = wi_mod(rank + r, n), from = wi_mod(rank - r, n);
        uint32_t lane = wi_sched_lane(b, to, from, 0);
        wi_seq_send(&seq, lane, wi_at(WI_SRC, (uint32_t)to, 1));
        wi_seq_recv_reduce(&seq, lane, dst, held, r == n - 1 ? WI_STEP_FINAL : 0);
        held = dst;
    }
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    double peers = args->nranks - 1;
    double alone = args->nranks == 1 && !args->in_place ? bytes : 0;
    *c = (struct wi_algo_cost){peers, peers * bytes, peers * bytes, alone};
}

const struct wi_algo wi_reducescatter_pairwise = {
    .name = "pairwise",
    .coll = WI_COLL_REDUCE_SCATTER,
    .needs = WI_ALGO_COMMUTATIVE,
    .summary = "P-1 steps, one peer each: every share goes directly to its owner",
    .build = build,
    .cost = cost,
};
