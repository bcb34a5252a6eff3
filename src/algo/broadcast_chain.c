/* SPDX-License-Identifier: BSD-3-Clause */
/* Chain broadcast: every rank passes the vector on to the next one.
 *
 * For large messages: slices follow each other, no link carries the vector twice.
 *
 *   steps: P-1 · sent n · no scratch
 *
 * P = 4, root 1:  1 → 2 → 3 → 0
 */
#include "algo/util.h"

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int n = args->nranks, rank = args->rank, place = wi_mod(rank - args->root, n);
    struct wi_region src = wi_at(WI_SRC, 0, 1), dst = wi_at(WI_DST, 0, 1);
    struct wi_sched_builder *b;

    if (n == 1)
        return wi_algo_alone(args, &wi_broadcast_chain, sched);
    WI_TRY(wi_algo_begin(args, &wi_broadcast_chain, 1, 0, &b));
    int next = place < n - 1 ? wi_mod(rank + 1, n) : WI_NO_PEER;
    uint32_t lane = wi_sched_lane(b, next, place > 0 ? wi_mod(rank - 1, n) : WI_NO_PEER, 0);
    if (place == 0)
        wi_sched_send(b, lane, src);
    else if (place < n - 1)
        wi_sched_recv_send(b, lane, dst);
    else
        wi_sched_recv(b, lane, dst);
    if (place == 0 && !args->in_place)
        wi_sched_copy(b, wi_sched_lane(b, WI_NO_PEER, WI_NO_PEER, 0), dst, src);
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int peers = args->nranks - 1;
    *c = (struct wi_algo_cost){peers, peers ? bytes : 0, 0, args->in_place ? 0 : bytes};
}

static void path(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int peers = args->nranks - 1;
    *c = (struct wi_algo_cost){peers, peers * bytes, 0, 0};
}

const struct wi_algo wi_broadcast_chain = {
    .name = "chain",
    .coll = WI_COLL_BROADCAST,
    .needs = 0,
    .traits = {.shape = WI_SHAPE_ROW, .relays = 1, .streams = 1},
    .summary = "one chain from the root, pipelined by slices",
    .build = build,
    .cost = cost,
    .path = path,
};
