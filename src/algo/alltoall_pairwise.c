/* SPDX-License-Identifier: BSD-3-Clause */
/* Pairwise all-to-all: in step r every rank sends to the rank r above and receives from the rank r
 * below.
 *
 * For large shares: one message in and one out at a time, no receiver is ever crowded. Shares may
 * differ in size.
 *
 *   steps: P-1 · sent (P-1)n · no scratch
 *
 * P = 4, rank 1:  SRC[2] → 2, DST[0] <- 0 | SRC[3] → 3, DST[3] <- 3 | SRC[0] → 0, DST[2] <- 2
 */
#include "algo/util.h"

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int n = args->nranks, rank = args->rank;
    struct wi_sched_builder *b;

    WI_TRY(wi_algo_begin(args, &wi_alltoall_pairwise, 0, 0, &b));
    struct wi_seq seq = wi_seq_begin(b);
    for (int r = 1; r < n; r++) {
        int to = wi_mod(rank + r, n), from = wi_mod(rank - r, n);
        uint32_t lane = wi_sched_lane(b, to, from, 0);
        wi_seq_send(&seq, lane, wi_at(WI_SRC, (uint32_t)to, 1));
        wi_seq_recv(&seq, lane, wi_at(WI_DST, (uint32_t)from, 1));
    }
    wi_sched_copy(b, wi_sched_lane(b, WI_NO_PEER, WI_NO_PEER, 0), wi_at(WI_DST, (uint32_t)rank, 1),
                  wi_at(WI_SRC, (uint32_t)rank, 1));
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    double peers = args->nranks - 1;
    *c = (struct wi_algo_cost){peers, peers * bytes, 0, bytes};
}

const struct wi_algo wi_alltoall_pairwise = {
    .name = "pairwise",
    .coll = WI_COLL_ALL_TO_ALL,
    .needs = WI_ALGO_NO_IN_PLACE,
    .summary = "P-1 steps, one peer each",
    .build = build,
    .cost = cost,
};
