/* SPDX-License-Identifier: BSD-3-Clause */
/* Linear reduce-scatter: every share goes directly to its owner, which takes them in outward from
 * its own rank.
 *
 * One hop; keeps rank order without scratch: rank-1, …, 0 come in as left operands, then rank+1,
 * …, P-1 as right ones. Shares may differ in size.
 *
 *   steps: 1 hop, P-1 receives in turn · sent (P-1)n · reduced (P-1)n (n: one share) · no
 *     scratch
 *
 * P = 4, rank 2:  send SRC[0], SRC[1], SRC[3] · DST = [1] op SRC[2] | DST = [0] op DST | DST = DST op [3]
 */
#include "algo/util.h"

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int n = args->nranks, rank = args->rank;
    struct wi_region held = wi_at(WI_SRC, (uint32_t)rank, 1), dst = wi_at(WI_DST, 0, 1);
    struct wi_sched_builder *b;

    if (n == 1)
        return wi_algo_alone(args, &wi_reducescatter_linear, sched);
    WI_TRY(wi_algo_begin(args, &wi_reducescatter_linear, 0, 0, &b));
    struct wi_seq seq = wi_seq_begin(b);
    for (int i = 1; i < n; i++) {
        int peer = i <= rank ? rank - i : i;
        unsigned flags = (peer < rank ? WI_STEP_RECV_LEFT : 0) | (i == n - 1 ? WI_STEP_FINAL : 0);
        uint32_t lane = wi_sched_lane(b, peer, peer, 0);
        wi_sched_send(b, lane, wi_at(WI_SRC, (uint32_t)peer, 1)); /* of its lane's steps only the second waits */
        wi_seq_recv_reduce(&seq, lane, dst, held, flags);
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

static void path(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int peers = args->nranks - 1;
    *c = (struct wi_algo_cost){peers > 0, peers * bytes, peers * bytes, 0};
}

const struct wi_algo wi_reducescatter_linear = {
    .name = "linear",
    .coll = WI_COLL_REDUCE_SCATTER,
    .needs = 0,
    .traits = {.shape = WI_SHAPE_FAN, .peer_messages = 2, .peers_last = 1},
    .summary = "all send at once, every owner reduces in rank order",
    .build = build,
    .cost = cost,
    .path = path,
};
