/* SPDX-License-Identifier: BSD-3-Clause */
/* Linear all-to-all: every share goes directly to its owner, none waits for another.
 *
 * One step of latency; for a few ranks. Shares may differ in size.
 *
 *   steps: 1 · sent (P-1)n · no scratch
 *
 * P = 3, rank 1:  lane 0: SRC[2] → 2, DST[2] <- 2     lane 1: SRC[0] → 0, DST[0] <- 0     lane 2: DST[1] <- SRC[1]
 */
#include "algo/util.h"

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int n = args->nranks, rank = args->rank;
    struct wi_sched_builder *b;

    WI_TRY(wi_algo_begin(args, &wi_alltoall_linear, 0, 0, &b));
    for (int i = 1; i < n; i++) {
        int peer = wi_mod(rank + i, n);
        uint32_t lane = wi_sched_lane(b, peer, peer, 0);
        wi_sched_send(b, lane, wi_at(WI_SRC, (uint32_t)peer, 1));
        wi_sched_recv(b, lane, wi_at(WI_DST, (uint32_t)peer, 1));
    }
    wi_sched_copy(b, wi_sched_lane(b, WI_NO_PEER, WI_NO_PEER, 0), wi_at(WI_DST, (uint32_t)rank, 1),
                  wi_at(WI_SRC, (uint32_t)rank, 1));
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int peers = args->nranks - 1;
    *c = (struct wi_algo_cost){peers > 0, peers * bytes, 0, bytes};
}

const struct wi_algo wi_alltoall_linear = {
    .name = "linear",
    .coll = WI_COLL_ALL_TO_ALL,
    .needs = WI_ALGO_NO_IN_PLACE,
    .traits = {.shape = WI_SHAPE_FAN, .peer_messages = 2},
    .summary = "one message per pair of ranks, all at once",
    .build = build,
    .cost = cost,
};
