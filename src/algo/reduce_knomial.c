/* SPDX-License-Identifier: BSD-3-Clause */
/* k-nomial tree reduce: partial results go up a tree whose root is the root.
 *
 * Fewest steps; for small messages. Ranks are counted from the root, so rank order is kept only
 * for root 0: commutative operators only (chain and linear keep it for any root).
 *
 *   steps: depth(P, k), at least the root's degree · sent n · reduced ≤ degree · n · scratch n
 *
 * P = 8, k = 2, root 0:   0 ─ 1            receives come in ascending order: 1, 2, 4
 *                         ├─ 2 ─ 3
 *                         └─ 4 ─ 5, 6 ─ 7
 */
#include "algo/util.h"

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int n = args->nranks, root = args->root;
    struct wi_sched_builder *b;

    if (n == 1)
        return wi_algo_alone(args, &wi_reduce_knomial, sched);
    WI_TRY(wi_algo_begin(args, &wi_reduce_knomial, 1, 1, &b));
    struct wi_knomial tree = wi_knomial_of(wi_mod(args->rank - root, n), n, wi_algo_radix(args));
    struct wi_region held = wi_at(WI_SRC, 0, 1), acc = wi_at(tree.parent < 0 ? WI_DST : WI_TMP, 0, 1);
    struct wi_seq seq = wi_seq_begin(b);
    for (int i = 0; i < tree.nchildren; i++) {
        int child = wi_mod(wi_knomial_child(&tree, i) + root, n);
        int last = tree.parent < 0 && i == tree.nchildren - 1;
        wi_seq_recv_reduce(&seq, wi_sched_lane(b, WI_NO_PEER, child, 0), acc, held, last ? WI_STEP_FINAL : 0);
        held = acc;
    }
    if (tree.parent >= 0)
        wi_seq_send(&seq, wi_sched_lane(b, wi_mod(tree.parent + root, n), WI_NO_PEER, 0), held);
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int depth = wi_knomial_depth(args->nranks, wi_algo_radix(args));
    int degree = wi_knomial_of(0, args->nranks, wi_algo_radix(args)).nchildren;
    double alone = args->nranks == 1 && !args->in_place ? bytes : 0;
    *c = (struct wi_algo_cost){depth > degree ? depth : degree, args->nranks > 1 ? bytes : 0, degree * bytes, alone};
}

static double time_of(const struct wi_algo_args *args, double bytes, const struct wi_algo_rates *rates)
{
    double alone = args->nranks == 1 && !args->in_place ? wi_algo_over(bytes, rates->copy_rate) : 0;
    return alone + wi_knomial_up_us(0, args->nranks, wi_algo_radix(args), 0, bytes, rates);
}

const struct wi_algo wi_reduce_knomial = {
    .name = "knomial",
    .coll = WI_COLL_REDUCE,
    .needs = WI_ALGO_COMMUTATIVE,
    .traits = {.shape = WI_SHAPE_KNOMIAL},
    .summary = "k-nomial tree",
    .build = build,
    .cost = cost,
    .time = time_of,
};
