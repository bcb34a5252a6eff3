/* SPDX-License-Identifier: BSD-3-Clause */
/* k-nomial tree gather: every inner rank collects the shares of its subtree and sends them up as
 * one message.
 *
 * Fewest steps; for small shares. Subtrees are contiguous, counted from the root; one of the
 * root's children may wrap past rank P-1, and goes through scratch.
 *
 *   steps: depth(P, k) · sent ≤ the largest subtree of the root's children · scratch Pn (n: one
 *     share)
 *
 * P = 8, k = 2, root 0:   1 → 0, 3 → 2, 5 → 4, 7 → 6: one share | 2 → 0, 6 → 4: two | 4 → 0: four
 */
#include "algo/util.h"

static void add_inner(const struct wi_algo_args *args, struct wi_sched_builder *b, const struct wi_knomial *tree)
{
    int n = args->nranks, size = wi_knomial_size(tree->vrank, n, tree->radix);
    uint32_t up = wi_sched_lane(b, wi_mod(tree->parent + args->root, n), WI_NO_PEER, 0);

    if (size == 1) {
        wi_sched_send(b, up, wi_at(WI_SRC, 0, 1));
        return;
    }
    for (int i = 0; i < tree->nchildren; i++) {
        int child = wi_knomial_child(tree, i);
        uint32_t lane = wi_sched_lane(b, WI_NO_PEER, wi_mod(child + args->root, n), 0);
        wi_sched_recv(b, lane,
                      wi_at(WI_TMP, (uint32_t)(child - tree->vrank), (uint32_t)wi_knomial_size(child, n, tree->radix)));
    }
    wi_sched_copy(b, up, wi_at(WI_TMP, 0, 1), wi_at(WI_SRC, 0, 1));
    wi_sched_send(b, up, wi_at(WI_TMP, 0, (uint32_t)size));
    for (int i = 0; i < tree->nchildren; i++)
        wi_sched_after(b, up, up + 1 + (uint32_t)i, 0);
}

static void add_root(const struct wi_algo_args *args, struct wi_sched_builder *b, const struct wi_knomial *tree)
{
    int n = args->nranks;

    for (int i = 0; i < tree->nchildren; i++) {
        int v = wi_knomial_child(tree, i), first = wi_mod(v + args->root, n);
        uint32_t count = (uint32_t)wi_knomial_size(v, n, tree->radix);
        uint32_t high = (uint32_t)(n - first);
        uint32_t lane = wi_sched_lane(b, WI_NO_PEER, first, 0);
        if (count <= high) {
            wi_sched_recv(b, lane, wi_at(WI_DST, (uint32_t)first, count));
            continue;
        }
        wi_sched_recv(b, lane, wi_at(WI_TMP, 0, count));
        wi_sched_copy(b, lane, wi_at(WI_DST, (uint32_t)first, high), wi_at(WI_TMP, 0, high));
        wi_sched_copy(b, lane, wi_at(WI_DST, 0, count - high), wi_at(WI_TMP, high, count - high));
    }
    if (!args->in_place)
        wi_sched_copy(b, wi_sched_lane(b, WI_NO_PEER, WI_NO_PEER, 0), wi_at(WI_DST, (uint32_t)args->root, 1),
                      wi_at(WI_SRC, 0, 1));
}

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int n = args->nranks;
    struct wi_sched_builder *b;

    if (n == 1)
        return wi_algo_alone(args, &wi_gather_knomial, sched);
    WI_TRY(wi_algo_begin(args, &wi_gather_knomial, 0, (uint32_t)n, &b));
    struct wi_knomial tree = wi_knomial_of(wi_mod(args->rank - args->root, n), n, wi_algo_radix(args));
    if (tree.parent < 0)
        add_root(args, b, &tree);
    else
        add_inner(args, b, &tree);
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    struct wi_knomial_shares shares = wi_knomial_shares_of(args);
    *c = (struct wi_algo_cost){wi_knomial_depth(args->nranks, wi_algo_radix(args)), shares.largest * bytes, 0,
                               shares.copied * bytes};
}

static double time_of(const struct wi_algo_args *args, double bytes, const struct wi_algo_rates *rates)
{
    double alone = args->nranks == 1 && !args->in_place ? wi_algo_over(bytes, rates->copy_rate) : 0;
    return alone + wi_knomial_up_us(0, args->nranks, wi_algo_radix(args), 1, bytes, rates);
}

const struct wi_algo wi_gather_knomial = {
    .name = "knomial",
    .coll = WI_COLL_GATHER,
    .needs = WI_ALGO_UNIFORM,
    .traits = {.shape = WI_SHAPE_KNOMIAL},
    .summary = "k-nomial tree",
    .build = build,
    .cost = cost,
    .time = time_of,
};
