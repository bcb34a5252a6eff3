/* SPDX-License-Identifier: BSD-3-Clause */
/* Linear reduce: all send at once, the root takes the vectors in, outward from its own.
 *
 * One step of latency for a few ranks; keeps rank order without scratch by taking root-1, root-2,
 * …, 0 as left operands first and root+1, …, P-1 as right ones after.
 *
 *   steps: 1 hop, P-1 receives at the root · sent n · reduced (P-1)n at the root · no scratch
 *
 * P = 4, root 2:  DST = [1] op SRC | DST = [0] op DST | DST = DST op [3]
 */
#include "algo/util.h"

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int n = args->nranks, root = args->root;
    struct wi_region held = wi_at(WI_SRC, 0, 1), dst = wi_at(WI_DST, 0, 1);
    struct wi_sched_builder *b;

    if (n == 1)
        return wi_algo_alone(args, &wi_reduce_linear, sched);
    WI_TRY(wi_algo_begin(args, &wi_reduce_linear, 1, 0, &b));
    if (args->rank != root) {
        wi_sched_send(b, wi_sched_lane(b, root, WI_NO_PEER, 0), held);
        return wi_sched_seal(b, sched);
    }
    struct wi_seq seq = wi_seq_begin(b);
    for (int i = 1; i < n; i++) {
        int peer = i <= root ? root - i : i;
        unsigned flags = (peer < root ? WI_STEP_RECV_LEFT : 0) | (i == n - 1 ? WI_STEP_FINAL : 0);
        wi_seq_recv_reduce(&seq, wi_sched_lane(b, WI_NO_PEER, peer, 0), dst, held, flags);
        held = dst;
    }
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int peers = args->nranks - 1;
    double alone = peers == 0 && !args->in_place ? bytes : 0;
    *c = (struct wi_algo_cost){peers, peers ? bytes : 0, peers * bytes, alone};
}

/* They all share the root's link. */
static void path(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int peers = args->nranks - 1;
    *c = (struct wi_algo_cost){peers > 0, peers * bytes, peers * bytes, 0};
}

const struct wi_algo wi_reduce_linear = {
    .name = "linear",
    .coll = WI_COLL_REDUCE,
    .needs = 0,
    .traits = {.shape = WI_SHAPE_FAN, .peer_messages = 1, .peers_last = 1},
    .summary = "everybody sends to the root, which reduces in rank order",
    .build = build,
    .cost = cost,
    .path = path,
};
