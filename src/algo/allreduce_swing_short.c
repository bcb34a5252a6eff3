/* SPDX-License-Identifier: BSD-3-Clause */
/* Swing, the form with fewest steps: the whole vector goes to a partner on one side, then on the
 * other, ever further away.
 *
 * As recursive doubling, but the distances are 1, 1, 3, 5, 11, … instead of 1, 2, 4, 8, 16. For small
 * messages on rings, tori and oversubscribed trees. Commutative operators only. Ranks beyond a
 * power of two fold into their left neighbour.
 *
 * After two exchanges ranks hold the sums of different fours, so that from eight ranks on they group
 * the operands differently. Every rank must have the same bits: only for operators that do not
 * round.
 *
 *   steps: log2 P, +1 or 2 if P is no power of two · sent n per step · reduced n per step · no
 *     scratch
 *
 * P = 8:  0 ↔ 1, 2 ↔ 3, 4 ↔ 5, 6 ↔ 7 | 0 ↔ 7, 1 ↔ 2, 3 ↔ 4, 5 ↔ 6 | 0 ↔ 3, 2 ↔ 5, 4 ↔ 7, 6 ↔ 1
 *
 * De Sensi, Bonato, Saam, Hoefler: Swing: short-cutting rings for higher bandwidth allreduce, NSDI
 * 2024.
 */
#include "algo/rounds.h"
#include "algo/swing.h"

static void exchange(const struct wi_fold *fold, struct wi_seq *seq, enum wi_buf held)
{
    int steps = wi_log2_ceil(fold->pow2);

    for (int k = 0; k < steps; k++) {
        int rank = wi_fold_rank(fold, wi_swing_peer(fold->member, k, fold->pow2));
        uint32_t lane = wi_sched_lane(seq->b, rank, rank, 0);
        wi_seq_send(seq, lane, wi_at(held, 0, 1));
        wi_seq_recv_reduce(seq, lane, wi_at(WI_DST, 0, 1), wi_at(held, 0, 1), k == steps - 1 ? WI_STEP_FINAL : 0);
        held = WI_DST;
    }
}

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    return wi_algo_folded(args, &wi_allreduce_swing_short, 1, exchange, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    struct wi_fold fold = wi_fold_of(0, args->nranks);
    double exchanges = wi_log2_ceil(fold.pow2), odd = fold.rem > 0;
    double alone = args->nranks == 1 && !args->in_place ? bytes : 0;

    *c = (struct wi_algo_cost){exchanges + wi_swing_fold_steps(&fold), (exchanges + odd) * bytes,
                               (exchanges + odd) * bytes, alone};
}

static double time_of(const struct wi_algo_args *args, double bytes, const struct wi_algo_rates *rates)
{
    return wi_rounds_whole(args, bytes, rates, 1);
}

static int round_of(const struct wi_algo_args *args, int k, int *to, double *part)
{
    int step = wi_fold_round(args, k, 1, 0, to);

    *part = 1;
    return step != WI_FOLD_OVER;
}

const struct wi_algo wi_allreduce_swing_short = {
    .name = "swing_short",
    .coll = WI_COLL_ALL_REDUCE,
    .needs = WI_ALGO_COMMUTATIVE | WI_ALGO_EXACT,
    .summary = "Swing: exchanges of the whole vector with nearer partners, for integers",
    .build = build,
    .cost = cost,
    .time = time_of,
    .round = round_of,
};
