/* SPDX-License-Identifier: BSD-3-Clause */
/* Swing, the form with least bytes: reduce-scatter and all-gather over partners that swing from one
 * side to the other.
 *
 * As recursive halving and doubling, but the distances are 1, 1, 3, 5, 11, … instead of 1, 2, 4, 8, 16:
 * on rings, tori and oversubscribed trees fewer links are crossed. The same on one
 * dimension as all_reduce over Bine butterflies. Commutative operators only. Ranks beyond a power
 * of two fold into their left neighbour.
 *
 *   steps: 2 log2 P, +2 if P is no power of two (P': the power below) · sent 2n(P'-1)/P' (+n) ·
 *     reduced n(P'-1)/P' (+n) · no scratch
 *
 * P = 4, blocks 0..3:  0 ↔ 1: 0 keeps 01, 1 keeps 23 | 0 ↔ 3, 1 ↔ 2: 0 keeps 0, 3 keeps 1, 2 keeps 2, 1 keeps 3
 *                      0 ↔ 3, 1 ↔ 2: one block each | 0 ↔ 1, 2 ↔ 3: two blocks each
 *
 * De Sensi, Bonato, Saam, Hoefler: Swing: short-cutting rings for higher bandwidth allreduce, NSDI
 * 2024.
 */
#include "algo/rounds.h"
#include "algo/swing.h"

struct range {
    uint32_t first, count;
};

static struct wi_region blocks(enum wi_buf buf, struct range r)
{
    return wi_at(buf, r.first, r.count);
}

static void exchange(const struct wi_fold *fold, struct wi_seq *seq, enum wi_buf held)
{
    struct range keep = {0, (uint32_t)fold->pow2}, give[32];
    int steps = wi_log2_ceil(fold->pow2);
    uint32_t lane[32];

    for (int k = 0; k < steps; k++) {
        int rank = wi_fold_rank(fold, wi_swing_peer(fold->member, k, fold->pow2));
        uint32_t half = keep.count / 2, upper = (uint32_t)wi_swing_upper(fold->member, k, steps);
        give[k] = (struct range){keep.first + (upper ? 0 : half), half};
        keep = (struct range){keep.first + (upper ? half : 0), half};
        lane[k] = wi_sched_lane(seq->b, rank, rank, 0);
        wi_seq_send(seq, lane[k], blocks(held, give[k]));
        wi_seq_recv_reduce(seq, lane[k], blocks(WI_DST, keep), blocks(held, keep), k == steps - 1 ? WI_STEP_FINAL : 0);
        held = WI_DST;
    }
    for (int k = steps - 1; k >= 0; k--) {
        wi_seq_send(seq, lane[k], blocks(WI_DST, keep));
        wi_seq_recv(seq, lane[k], blocks(WI_DST, give[k]));
        keep.first = keep.first < give[k].first ? keep.first : give[k].first;
        keep.count *= 2;
    }
}

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int pow2 = wi_fold_of(args->rank, args->nranks).pow2;

    return wi_algo_folded(args, &wi_allreduce_swing, (uint32_t)pow2, exchange, sched);
}

static double time_of(const struct wi_algo_args *args, double bytes, const struct wi_algo_rates *rates)
{
    return wi_rounds_halving(args, bytes, rates, 1);
}

static int round_of(const struct wi_algo_args *args, int k, int *to, double *part)
{
    int step = wi_fold_round(args, k, 1, 1, to);

    *part = step < 0 ? 1 : 0.5 / (1u << step);
    return step != WI_FOLD_OVER;
}

const struct wi_algo wi_allreduce_swing = {
    .name = "swing",
    .coll = WI_COLL_ALL_REDUCE,
    .needs = WI_ALGO_COMMUTATIVE,
    .traits = {.slices = WI_SLICES_NONE, .returns = 1},
    .summary = "Swing: halving and doubling over nearer partners",
    .build = build,
    .cost = wi_algo_halving_cost,
    .time = time_of,
    .round = round_of,
};
