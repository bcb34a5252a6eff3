/* SPDX-License-Identifier: BSD-3-Clause */
/* k-nomial tree scatter: every inner rank gets the shares of its subtree as one message and passes
 * parts on.
 *
 * Fewest steps; for small shares. Subtrees are contiguous, counted from the root; the message to a
 * child whose subtree wraps past rank P-1 is put together in scratch.
 *
 *   steps: depth(P, k) · root sends (P-1)n · scratch Pn (n: one share)
 *
 * P = 8, k = 2, root 0:   0 → 4: four shares | 0 → 2, 4 → 6: two | 0 → 1, 2 → 3, 4 → 5, 6 → 7: one
 */
#include "algo/util.h"

static void add_inner(const struct wi_algo_args *args, struct wi_sched_builder *b, const struct wi_knomial *tree)
{
    int n = args->nranks, size = wi_knomial_size(tree->vrank, n, tree->radix);
    uint32_t up = wi_sched_lane(b, WI_NO_PEER, wi_mod(tree->parent + args->root, n), 0);

    if (size == 1) {
        wi_sched_recv(b, up, wi_at(WI_DST, 0, 1));
        return;
    }
    uint32_t got = wi_sched_recv(b, up, wi_at(WI_TMP, 0, (uint32_t)size));
    wi_sched_copy(b, up, wi_at(WI_DST, 0, 1), wi_at(WI_TMP, 0, 1));
    for (int i = tree->nchildren - 1; i >= 0; i--) {
        int child = wi_knomial_child(tree, i);
        uint32_t lane = wi_sched_lane(b, wi_mod(child + args->root, n), WI_NO_PEER, 0);
        wi_sched_send(b, lane,
                      wi_at(WI_TMP, (uint32_t)(child - tree->vrank), (uint32_t)wi_knomial_size(child, n, tree->radix)));
        wi_sched_after(b, lane, up, got);
    }
}

static void add_root(const struct wi_algo_args *args, struct wi_sched_builder *b, const struct wi_knomial *tree)
{
    int n = args->nranks;

    for (int i = tree->nchildren - 1; i >= 0; i--) {
        int v = wi_knomial_child(tree, i), first = wi_mod(v + args->root, n);
        uint32_t count = (uint32_t)wi_knomial_size(v, n, tree->radix);
        uint32_t high = (uint32_t)(n - first);
        uint32_t lane = wi_sched_lane(b, first, WI_NO_PEER, 0);
        if (count <= high) {
            wi_sched_send(b, lane, wi_at(WI_SRC, (uint32_t)first, count));
            continue;
        }
        wi_sched_copy(b, lane, wi_at(WI_TMP, 0, high), wi_at(WI_SRC, (uint32_t)first, high));
        wi_sched_copy(b, lane, wi_at(WI_TMP, high, count - high), wi_at(WI_SRC, 0, count - high));
        wi_sched_send(b, lane, wi_at(WI_TMP, 0, count));
    }
    if (!args->in_place)
        wi_sched_copy(b, wi_sched_lane(b, WI_NO_PEER, WI_NO_PEER, 0), wi_at(WI_DST, 0, 1),
                      wi_at(WI_SRC, (uint32_t)args->root, 1));
}

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int n = args->nranks;
    struct wi_sched_builder *b;

    if (n == 1)
        return wi_algo_alone(args, &wi_scatter_knomial, sched);
    WI_TRY(wi_algo_begin(args, &wi_scatter_knomial, 0, (uint32_t)n, &b));
    struct wi_knomial tree = wi_knomial_of(wi_mod(args->rank - args->root, n), n, wi_algo_radix(args));
    if (tree.parent < 0)
        add_root(args, b, &tree);
    else
        add_inner(args, b, &tree);
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int n = args->nranks;
    *c = (struct wi_algo_cost){wi_knomial_depth(n, wi_algo_radix(args)), (n - 1) * bytes, 0,
                               wi_knomial_shares_of(args).copied * bytes};
}

static void path(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    struct wi_tree_chain down = wi_knomial_down(0, args->nranks, wi_algo_radix(args), 1);
    *c = (struct wi_algo_cost){wi_knomial_depth(args->nranks, wi_algo_radix(args)), down.sent * bytes, 0, bytes};
}

const struct wi_algo wi_scatter_knomial = {
    .name = "knomial",
    .coll = WI_COLL_SCATTER,
    .needs = WI_ALGO_UNIFORM,
    .traits = {.shape = WI_SHAPE_KNOMIAL},
    .summary = "k-nomial tree",
    .build = build,
    .cost = cost,
    .path = path,
};
