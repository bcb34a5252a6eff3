/* SPDX-License-Identifier: BSD-3-Clause */
/* Flat all-to-all: everybody publishes its row, everybody copies its column out.
 *
 *   steps: 1 signal, P-1 waits · to the arena (P-1)n, read (P-1)n · scratch Pn (n: one share)
 *
 * P = 4, rank 1:  TMP[0] <- SRC[0], TMP[2,3] <- SRC[2,3] | signal | DST[1] <- SRC[1]
 *                 wait 2 | DST[2] <- TMP@2[1] | wait 3 | DST[3] <- TMP@3[1] | wait 0 | DST[0] <- TMP@0[1]
 *
 * Equal shares only: no rank knows where another one put its share otherwise.
 */
#include "algo/util.h"

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    struct wi_sched_builder *b;
    int n = args->nranks, rank = args->rank;

    if (n == 1)
        return wi_algo_alone(args, &wi_alltoall_flat, sched);
    WI_TRY(wi_algo_begin(args, &wi_alltoall_flat, 0, (uint32_t)n, &b));
    uint32_t lane = wi_sched_lane(b, WI_NO_PEER, WI_NO_PEER, 0);
    wi_algo_copy_but(b, lane, WI_TMP, WI_SRC, n, rank);
    wi_sched_signal(b, lane);
    wi_sched_copy(b, lane, wi_at(WI_DST, (uint32_t)rank, 1), wi_at(WI_SRC, (uint32_t)rank, 1));
    for (int i = 1; i < n; i++) {
        int peer = wi_mod(rank + i, n);
        wi_sched_wait(b, lane, peer, lane, 0);
        wi_sched_copy(b, lane, wi_at(WI_DST, (uint32_t)peer, 1), wi_at_rank(WI_TMP, peer, (uint32_t)rank, 1));
    }
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int peers = args->nranks - 1;
    *c = (struct wi_algo_cost){.steps = peers, .copied = (2 * peers + 1) * bytes};
}

const struct wi_algo wi_alltoall_flat = {
    .name = "flat",
    .coll = WI_COLL_ALL_TO_ALL,
    .needs = WI_ALGO_MAPPED | WI_ALGO_UNIFORM | WI_ALGO_NO_IN_PLACE,
    .traits = {.one_shot = 1, .ll = 1},
    .summary = "through shared slots, one copy in and one out",
    .build = build,
    .cost = cost,
};
