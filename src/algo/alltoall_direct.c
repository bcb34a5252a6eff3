/* SPDX-License-Identifier: BSD-3-Clause */
/* Direct all-to-all: everybody copies its share from every SRC.
 *
 *   steps: 2 signals, 2(P-1) waits · read (P-1)n · no scratch
 *
 * P = 4, rank 1:  signal | DST[1] <- SRC[1] | wait 2 | DST[2] <- SRC@2[1] | … | DST[0] <- SRC@0[1]
 *                 signal | wait 2, 3, 0
 *
 * Not in place: a block of DST would overwrite what its peer still has to read.
 */
#include "algo/util.h"

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    struct wi_sched_builder *b;
    int n = args->nranks, rank = args->rank;
    uint32_t own = (uint32_t)rank;

    WI_TRY(wi_algo_begin(args, &wi_alltoall_direct, 0, 0, &b));
    uint32_t lane = wi_sched_lane(b, WI_NO_PEER, WI_NO_PEER, 0);
    if (n > 1)
        wi_sched_signal(b, lane);
    wi_sched_copy(b, lane, wi_at(WI_DST, own, 1), wi_at(WI_SRC, own, 1));
    for (int i = 1; i < n; i++) {
        int peer = wi_mod(rank + i, n);
        wi_sched_wait(b, lane, peer, lane, 0);
        wi_sched_copy(b, lane, wi_at(WI_DST, (uint32_t)peer, 1), wi_at_rank(WI_SRC, peer, own, 1));
    }
    if (n > 1)
        wi_sched_signal(b, lane);
    wi_algo_wait_all(args, b, lane, lane, 1);
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int n = args->nranks;
    *c = (struct wi_algo_cost){.steps = n > 1 ? n : 0, .copied = n * bytes};
}

const struct wi_algo wi_alltoall_direct = {
    .name = "direct",
    .coll = WI_COLL_ALL_TO_ALL,
    .needs = WI_ALGO_MAPPED | WI_ALGO_PEER_GET | WI_ALGO_UNIFORM | WI_ALGO_NO_IN_PLACE,
    .summary = "everybody copies its column from every rank's buffer",
    .build = build,
    .cost = cost,
};
