/* SPDX-License-Identifier: BSD-3-Clause */
/* Flat all-gather: everybody publishes its share, everybody copies the others' out.
 *
 *   steps: 1 signal, P-1 waits · to the arena n, read (P-1)n · scratch n
 *
 * P = 4, rank 1:  TMP <- SRC | signal | DST[1] <- SRC | wait 2 | DST[2] <- TMP@2 | wait 3 | … | DST[0] <- TMP@0
 *
 * Shares of different sizes work: a share is read with the size of its block in DST.
 */
#include "algo/util.h"

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    struct wi_sched_builder *b;
    int n = args->nranks, rank = args->rank;

    if (n == 1)
        return wi_algo_alone(args, &wi_allgather_flat, sched);
    WI_TRY(wi_algo_begin(args, &wi_allgather_flat, 0, 1, &b));
    uint32_t lane = wi_sched_lane(b, WI_NO_PEER, WI_NO_PEER, 0);
    wi_sched_copy(b, lane, wi_at(WI_TMP, 0, 1), wi_at(WI_SRC, 0, 1));
    wi_sched_signal(b, lane);
    if (!args->in_place)
        wi_sched_copy(b, lane, wi_at(WI_DST, (uint32_t)rank, 1), wi_at(WI_SRC, 0, 1));
    for (int i = 1; i < n; i++) {
        int peer = wi_mod(rank + i, n);
        wi_sched_wait(b, lane, peer, lane, 0);
        wi_sched_copy(b, lane, wi_at(WI_DST, (uint32_t)peer, 1), wi_at_rank(WI_TMP, peer, 0, 1));
    }
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int n = args->nranks;
    *c = (struct wi_algo_cost){.steps = n - 1, .copied = (n - (n == 1) + !args->in_place) * bytes};
}

const struct wi_algo wi_allgather_flat = {
    .name = "flat",
    .coll = WI_COLL_ALL_GATHER,
    .needs = WI_ALGO_MAPPED,
    .traits = {.one_shot = 1, .ll = 1},
    .summary = "through shared slots, one copy in and P-1 out",
    .build = build,
    .cost = cost,
};
