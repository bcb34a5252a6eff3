/* SPDX-License-Identifier: BSD-3-Clause */
/* Direct all-gather: everybody copies every share from its owner's SRC.
 *
 *   steps: 2 signals, 2(P-1) waits · read (P-1)n · no scratch
 *
 * P = 4, rank 1:  signal | DST[1] <- SRC | wait 2 | DST[2] <- SRC@2 | wait 3 | DST[3] <- SRC@3 | wait 0 | …
 *                 signal | wait 2, 3, 0
 *
 * The last wait keeps SRC alive until every peer has read it. Equal shares only: a rank knows the
 * length of its own SRC, not that of another rank's.
 */
#include "algo/util.h"

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    struct wi_sched_builder *b;
    int n = args->nranks, rank = args->rank;

    if (n == 1)
        return wi_algo_alone(args, &wi_allgather_direct, sched);
    WI_TRY(wi_algo_begin(args, &wi_allgather_direct, 0, 0, &b));
    uint32_t lane = wi_sched_lane(b, WI_NO_PEER, WI_NO_PEER, 0);
    wi_sched_signal(b, lane);
    if (!args->in_place)
        wi_sched_copy(b, lane, wi_at(WI_DST, (uint32_t)rank, 1), wi_at(WI_SRC, 0, 1));
    for (int i = 1; i < n; i++) {
        int peer = wi_mod(rank + i, n);
        wi_sched_wait(b, lane, peer, lane, 0);
        wi_sched_copy(b, lane, wi_at(WI_DST, (uint32_t)peer, 1), wi_at_rank(WI_SRC, peer, 0, 1));
    }
    wi_sched_signal(b, lane);
    wi_algo_wait_all(args, b, lane, lane, 1);
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int peers = args->nranks - 1;
    *c = (struct wi_algo_cost){.steps = peers > 0 ? peers + 1 : 0, .copied = (peers + !args->in_place) * bytes};
}

const struct wi_algo wi_allgather_direct = {
    .name = "direct",
    .coll = WI_COLL_ALL_GATHER,
    .needs = WI_ALGO_MAPPED | WI_ALGO_PEER_GET | WI_ALGO_UNIFORM,
    .summary = "everybody copies from every rank's buffer",
    .build = build,
    .cost = cost,
};
