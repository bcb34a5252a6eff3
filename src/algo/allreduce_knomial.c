/* SPDX-License-Identifier: BSD-3-Clause */
/* k-nomial tree all-reduce: reduce along a tree to rank 0, send the result back along it.
 *
 * Few messages in all (2(P-1)); slices follow each other through the tree. Subtrees are contiguous
 * and children come in ascending order, so rank order is kept. Up and down have lanes of their
 * own: a slice going up does not wait for the one before to come down.
 *
 *   steps: 2 depth(P, k), at least the root's degree · sent ≤ degree · n · reduced ≤ degree · n
 *     · no scratch
 *
 * P = 8, k = 2:   0 ─ 1            P = 8, k = 4:   0 ─ 1, 2, 3
 *                 ├─ 2 ─ 3                         └─ 4 ─ 5, 6, 7
 *                 └─ 4 ─ 5, 6 ─ 7
 */
#include "algo/util.h"

static enum wi_buf reduce_up(struct wi_seq *seq, const struct wi_knomial *tree)
{
    enum wi_buf held = WI_SRC;

    for (int i = 0; i < tree->nchildren; i++) {
        uint32_t lane = wi_sched_lane(seq->b, WI_NO_PEER, wi_knomial_child(tree, i), 0);
        int last = tree->parent < 0 && i == tree->nchildren - 1;
        wi_seq_recv_reduce(seq, lane, wi_at(WI_DST, 0, 1), wi_at(held, 0, 1), last ? WI_STEP_FINAL : 0);
        held = WI_DST;
    }
    return held;
}

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    struct wi_sched_builder *b;

    if (args->nranks == 1)
        return wi_algo_alone(args, &wi_allreduce_knomial, sched);
    WI_TRY(wi_algo_begin(args, &wi_allreduce_knomial, 1, 0, &b));
    struct wi_knomial tree = wi_knomial_of(args->rank, args->nranks, wi_algo_radix(args));
    struct wi_seq seq = wi_seq_begin(b);
    enum wi_buf held = reduce_up(&seq, &tree);
    if (tree.parent >= 0) {
        wi_seq_send(&seq, wi_sched_lane(b, tree.parent, WI_NO_PEER, 0), wi_at(held, 0, 1));
        wi_seq_recv(&seq, wi_sched_lane(b, WI_NO_PEER, tree.parent, 0), wi_at(WI_DST, 0, 1));
    }
    for (int i = tree.nchildren - 1; i >= 0; i--) {
        uint32_t lane = wi_sched_lane(b, wi_knomial_child(&tree, i), WI_NO_PEER, 0);
        wi_sched_send(b, lane, wi_at(WI_DST, 0, 1));
        wi_sched_after(b, lane, seq.lane, seq.step);
    }
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int depth = wi_knomial_depth(args->nranks, wi_algo_radix(args));
    int degree = wi_knomial_of(0, args->nranks, wi_algo_radix(args)).nchildren;
    double alone = args->nranks == 1 && !args->in_place ? bytes : 0;
    *c = (struct wi_algo_cost){2 * depth > degree ? 2 * depth : degree, degree * bytes, degree * bytes, alone};
}

static double time_of(const struct wi_algo_args *args, double bytes, const struct wi_algo_rates *rates)
{
    int n = args->nranks, radix = wi_algo_radix(args);
    double alone = n == 1 && !args->in_place ? wi_algo_over(bytes, rates->copy_rate) : 0;
    double down = wi_knomial_down(0, n, radix, 0).sent * wi_algo_over(bytes, rates->beta);
    return alone + wi_knomial_up_us(0, n, radix, 0, bytes, rates) + wi_knomial_depth(n, radix) * rates->alpha + down;
}

const struct wi_algo wi_allreduce_knomial = {
    .name = "knomial",
    .coll = WI_COLL_ALL_REDUCE,
    .needs = 0,
    .traits = {.shape = WI_SHAPE_KNOMIAL},
    .summary = "k-nomial tree: reduce to rank 0, broadcast back",
    .build = build,
    .cost = cost,
    .time = time_of,
};
