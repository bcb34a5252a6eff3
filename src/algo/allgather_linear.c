/* SPDX-License-Identifier: BSD-3-Clause */
/* Linear all-gather: one message per pair of ranks, none waits for another.
 *
 * One step of latency; for a few ranks. Shares may differ in size.
 *
 *   steps: 1 · sent (P-1)n · no scratch
 *
 * P = 3, rank 1:  lane 0: SRC → 2, DST[2] <- 2     lane 1: SRC → 0, DST[0] <- 0     lane 2: DST[1] <- SRC
 */
#include "algo/util.h"

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int n = args->nranks, rank = args->rank;
    struct wi_sched_builder *b;

    if (n == 1)
        return wi_algo_alone(args, &wi_allgather_linear, sched);
    WI_TRY(wi_algo_begin(args, &wi_allgather_linear, 0, 0, &b));
    for (int i = 1; i < n; i++) {
        int peer = wi_mod(rank + i, n);
        uint32_t lane = wi_sched_lane(b, peer, peer, 0);
        wi_sched_send(b, lane, wi_at(WI_SRC, 0, 1));
        wi_sched_recv(b, lane, wi_at(WI_DST, (uint32_t)peer, 1));
    }
    if (!args->in_place)
        wi_sched_copy(b, wi_sched_lane(b, WI_NO_PEER, WI_NO_PEER, 0), wi_at(WI_DST, (uint32_t)rank, 1),
                      wi_at(WI_SRC, 0, 1));
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int peers = args->nranks - 1;
    *c = (struct wi_algo_cost){peers > 0, peers * bytes, 0, args->in_place ? 0 : bytes};
}

const struct wi_algo wi_allgather_linear = {
    .name = "linear",
    .coll = WI_COLL_ALL_GATHER,
    .needs = 0,
    .traits = {.shape = WI_SHAPE_FAN, .peer_messages = 2},
    .summary = "everybody sends its share to everybody, all at once",
    .build = build,
    .cost = cost,
};
