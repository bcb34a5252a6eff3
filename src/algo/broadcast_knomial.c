/* SPDX-License-Identifier: BSD-3-Clause */
/* k-nomial tree broadcast: each rank that has the vector sends it to the roots of ever smaller subtrees.
 *
 * Fewest steps; for small messages. Ranks are counted from the root. Sends to the children wait
 * for the receive only, not for each other.
 *
 *   steps: depth(P, k) · sent ≤ degree · n · no scratch
 *
 * P = 8, k = 2, root 0:   0 → 4, 2, 1 | 4 → 6, 5 · 2 → 3 | 6 → 7
 */
#include "algo/util.h"

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int n = args->nranks, root = args->root;
    struct wi_region held = wi_at(args->rank == root ? WI_SRC : WI_DST, 0, 1), dst = wi_at(WI_DST, 0, 1);
    struct wi_sched_builder *b;

    if (n == 1)
        return wi_algo_alone(args, &wi_broadcast_knomial, sched);
    WI_TRY(wi_algo_begin(args, &wi_broadcast_knomial, 1, 0, &b));
    struct wi_knomial tree = wi_knomial_of(wi_mod(args->rank - root, n), n, wi_algo_radix(args));
    uint32_t from = 0, got = 0;
    if (tree.parent >= 0) {
        from = wi_sched_lane(b, WI_NO_PEER, wi_mod(tree.parent + root, n), 0);
        got = wi_sched_recv(b, from, dst);
    }
    for (int i = tree.nchildren - 1; i >= 0; i--) {
        uint32_t lane = wi_sched_lane(b, wi_mod(wi_knomial_child(&tree, i) + root, n), WI_NO_PEER, 0);
        wi_sched_send(b, lane, held);
        if (tree.parent >= 0)
            wi_sched_after(b, lane, from, got);
    }
    if (tree.parent < 0 && !args->in_place)
        wi_sched_copy(b, wi_sched_lane(b, WI_NO_PEER, WI_NO_PEER, 0), dst, held);
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int degree = wi_knomial_of(0, args->nranks, wi_algo_radix(args)).nchildren;
    *c = (struct wi_algo_cost){wi_knomial_depth(args->nranks, wi_algo_radix(args)), degree * bytes, 0,
                               args->in_place ? 0 : bytes};
}

static void path(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    struct wi_tree_chain down = wi_knomial_down(0, args->nranks, wi_algo_radix(args), 0);
    *c = (struct wi_algo_cost){wi_knomial_depth(args->nranks, wi_algo_radix(args)), down.sent * bytes, 0, 0};
}

const struct wi_algo wi_broadcast_knomial = {
    .name = "knomial",
    .coll = WI_COLL_BROADCAST,
    .needs = 0,
    .traits = {.shape = WI_SHAPE_KNOMIAL},
    .summary = "k-nomial tree",
    .build = build,
    .cost = cost,
    .path = path,
};
