/* SPDX-License-Identifier: BSD-3-Clause */
/* Ring all-gather: every rank passes on what it received in the step before.
 *
 * Bandwidth-optimal, neighbours only; for large shares. Shares may differ in size.
 *
 *   steps: P-1 · sent (P-1)n · no scratch
 *
 * P = 4, share received in each step:   rank 0: 3, 2, 1 · rank 1: 0, 3, 2 · rank 2: 1, 0, 3 · rank 3: 2, 1, 0
 */
#include "algo/util.h"

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int n = args->nranks, rank = args->rank;
    struct wi_sched_builder *b;

    if (n == 1)
        return wi_algo_alone(args, &wi_allgather_ring, sched);
    WI_TRY(wi_algo_begin(args, &wi_allgather_ring, 0, 0, &b));
    uint32_t lane = wi_sched_lane(b, wi_mod(rank + 1, n), wi_mod(rank - 1, n), 0);
    wi_sched_send(b, lane, wi_at(WI_SRC, 0, 1));
    for (int k = 1; k < n - 1; k++)
        wi_sched_recv_send(b, lane, wi_at(WI_DST, (uint32_t)wi_mod(rank - k, n), 1));
    wi_sched_recv(b, lane, wi_at(WI_DST, (uint32_t)wi_mod(rank + 1, n), 1));
    if (!args->in_place)
        wi_sched_copy(b, wi_sched_lane(b, WI_NO_PEER, WI_NO_PEER, 0), wi_at(WI_DST, (uint32_t)rank, 1),
                      wi_at(WI_SRC, 0, 1));
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int peers = args->nranks - 1;
    *c = (struct wi_algo_cost){peers, peers * bytes, 0, args->in_place ? 0 : bytes};
}

const struct wi_algo wi_allgather_ring = {
    .name = "ring",
    .coll = WI_COLL_ALL_GATHER,
    .needs = 0,
    .traits = {.shape = WI_SHAPE_ROW, .streams = 1},
    .summary = "shares go round a ring: neighbours only",
    .build = build,
    .cost = cost,
};
