/* SPDX-License-Identifier: BSD-3-Clause */
/* Bine tree reduce: partial results go up a binomial tree whose edges lead to alternating sides of a
 * rank.
 *
 * Fewest steps with shorter edges than a binomial tree's, the longest last. Virtual ranks count from the root; those
 * beyond a power of two are leaves of their left neighbour. Commutative operators only.
 *
 *   steps: log2 P', P' the power of two below P, +1 if P is none · sent n · reduced at most n log2 P' (+n) · scratch n
 *
 * P = 8, root 0:   1 → 0, 2 → 3, 6 → 7, 5 → 4 | 7 → 0, 4 → 3 | 3 → 0
 *
 * De Sensi et al.: Bine trees: enhancing collective operations by optimizing communication locality,
 * SC 2025.
 */
#include "algo/swing.h"

struct inner {
    const struct wi_algo_args *args;
    struct wi_seq seq;
    struct wi_region held, acc;
};

static void add(struct inner *in, int vrank, int last)
{
    int peer = wi_mod(vrank + in->args->root, in->args->nranks);
    uint32_t lane = wi_sched_lane(in->seq.b, WI_NO_PEER, peer, 0);

    wi_seq_recv_reduce(&in->seq, lane, in->acc, in->held, last ? WI_STEP_FINAL : 0);
    in->held = in->acc;
}

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int n = args->nranks, vrank = wi_mod(args->rank - args->root, n), parent = -1;
    struct wi_fold fold = wi_fold_of(vrank, n);
    int steps = wi_log2_ceil(fold.pow2), told = steps;
    struct wi_sched_builder *b;

    if (n == 1)
        return wi_algo_alone(args, &wi_reduce_bine, sched);
    WI_TRY(wi_algo_begin(args, &wi_reduce_bine, 1, 1, &b));
    struct inner in = {args, wi_seq_begin(b), wi_at(WI_SRC, 0, 1), wi_at(vrank ? WI_TMP : WI_DST, 0, 1)};
    if (fold.member < 0) {
        parent = fold.partner;
        told = 0;
    } else if (fold.member > 0) {
        told = wi_swing_recv_step(fold.member, steps);
        parent = wi_fold_rank(&fold, wi_swing_peer(fold.member, told, fold.pow2));
    }
    if (fold.member >= 0 && fold.partner >= 0)
        add(&in, fold.partner, 0);
    for (int k = 0; k < told; k++)
        add(&in, wi_fold_rank(&fold, wi_swing_peer(fold.member, k, fold.pow2)), parent < 0 && k == steps - 1);
    if (parent >= 0)
        wi_seq_send(&in.seq, wi_sched_lane(b, wi_mod(parent + args->root, n), WI_NO_PEER, 0), in.held);
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    struct wi_fold fold = wi_fold_of(0, args->nranks);
    double degree = wi_log2_ceil(fold.pow2) + (fold.rem > 0), alone = args->nranks == 1 && !args->in_place ? bytes : 0;

    *c = (struct wi_algo_cost){degree, args->nranks > 1 ? bytes : 0, degree * bytes, alone};
}

/* When a member that has `told` children besides its folded rank has what these send. */
static double up_us(int member, int told, const struct wi_fold *fold, double bytes, const struct wi_algo_rates *rates)
{
    double ready[WI_ALGO_MAX_FAN], sent[WI_ALGO_MAX_FAN];
    int n = 0;

    if (member < fold->rem)
        ready[n++] = 0;
    for (int k = 0; k < told; k++)
        ready[n++] = up_us(wi_swing_peer(member, k, fold->pow2), k, fold, bytes, rates);
    for (int i = 0; i < n; i++)
        sent[i] = bytes;
    return wi_algo_fan_in(rates, ready, sent, n, 1, 0);
}

static double time_of(const struct wi_algo_args *args, double bytes, const struct wi_algo_rates *rates)
{
    struct wi_fold fold = wi_fold_of(0, args->nranks);
    double alone = args->nranks == 1 && !args->in_place ? wi_algo_over(bytes, rates->copy_rate) : 0;

    return alone + up_us(0, wi_log2_ceil(fold.pow2), &fold, bytes, rates);
}

const struct wi_algo wi_reduce_bine = {
    .name = "bine",
    .coll = WI_COLL_REDUCE,
    .needs = WI_ALGO_COMMUTATIVE,
    .traits = {.shape = WI_SHAPE_TREE},
    .summary = "Bine tree: binomial with shorter edges",
    .build = build,
    .cost = cost,
    .time = time_of,
};
