/* SPDX-License-Identifier: BSD-3-Clause */
/* Chain reduce: partial results run from both ends of the row of ranks to the root.
 *
 * For large messages: slices follow each other, and no rank but the root receives more than one
 * vector. Keeps rank order for any root: what comes from below is the left operand. With root 0 or
 * P-1 there is one chain, and the root too receives just one vector.
 *
 *   steps: max(root, P-1-root) · sent n · reduced n, at an inner root 2n · scratch n
 *
 * P = 5, root 2:  0 → 1 → 2 ← 3 ← 4
 */
#include "algo/util.h"

static void add_root(const struct wi_algo_args *args, struct wi_sched_builder *b)
{
    int root = args->root, last = args->nranks - 1;
    struct wi_region dst = wi_at(WI_DST, 0, 1), held = wi_at(WI_SRC, 0, 1);
    struct wi_seq seq = wi_seq_begin(b);

    if (root > 0) {
        wi_seq_recv_reduce(&seq, wi_sched_lane(b, WI_NO_PEER, root - 1, 0), dst, held,
                           WI_STEP_RECV_LEFT | (root == last ? WI_STEP_FINAL : 0));
        held = dst;
    }
    if (root < last)
        wi_seq_recv_reduce(&seq, wi_sched_lane(b, WI_NO_PEER, root + 1, 0), dst, held, WI_STEP_FINAL);
}

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int rank = args->rank, below = rank < args->root;
    struct wi_region src = wi_at(WI_SRC, 0, 1);
    struct wi_sched_builder *b;

    if (args->nranks == 1)
        return wi_algo_alone(args, &wi_reduce_chain, sched);
    WI_TRY(wi_algo_begin(args, &wi_reduce_chain, 1, 1, &b));
    if (rank == args->root) {
        add_root(args, b);
        return wi_sched_seal(b, sched);
    }
    int next = below ? rank + 1 : rank - 1;
    if (rank == 0 || rank == args->nranks - 1)
        wi_sched_send(b, wi_sched_lane(b, next, WI_NO_PEER, 0), src);
    else
        wi_sched_recv_reduce_send(b, wi_sched_lane(b, next, below ? rank - 1 : rank + 1, 0), wi_at(WI_TMP, 0, 1), src,
                                  below ? WI_STEP_RECV_LEFT : 0);
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int left = args->root, right = args->nranks - 1 - args->root;
    int longest = left > right ? left : right, inner = left > 0 && right > 0;
    double alone = args->nranks == 1 && !args->in_place ? bytes : 0;
    int takes = args->nranks == 1 ? 0 : 1 + inner; /* vectors that the root receives, one after the other */
    *c = (struct wi_algo_cost){longest > takes ? longest : takes, longest ? bytes : 0, takes * bytes, alone};
}

static void path(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int left = args->root, right = args->nranks - 1 - args->root, longest = left > right ? left : right;
    int both = left > 0 && right > 0;
    *c = (struct wi_algo_cost){longest, longest * bytes, (longest + both) * bytes, 0};
}

const struct wi_algo wi_reduce_chain = {
    .name = "chain",
    .coll = WI_COLL_REDUCE,
    .needs = 0,
    .traits = {.shape = WI_SHAPE_ROW, .relays = 1, .streams = 1},
    .summary = "two chains that meet at the root, pipelined by slices",
    .build = build,
    .cost = cost,
    .path = path,
};
