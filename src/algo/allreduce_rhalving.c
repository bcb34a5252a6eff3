/* SPDX-License-Identifier: BSD-3-Clause */
/* Rabenseifner's all-reduce: reduce-scatter by recursive halving, all-gather by recursive
 * doubling.
 *
 * Least bytes in 2 log2 P steps; for middle sizes. Halving goes from short distances to large ones, so that groups
 * are contiguous and rank order is kept; which block a rank ends with does not matter, for the way
 * back is the same. Ranks beyond a power of two fold into their left neighbour.
 *
 *   steps: 2 log2 P, +2 if P is no power of two (P': the power below) · sent 2n(P'-1)/P' (+n) ·
 *     reduced n(P'-1)/P' (+n) · no scratch
 *
 * P = 4, blocks 0..3:  rank 0 keeps 01, gives 23 to 1 | keeps 0, gives 1 to 2 | gets 1 from 2 | gets 23 from 1
 *                      rank 1 keeps 23, gives 01 to 0 | keeps 2, gives 3 to 3 | gets 3 from 3 | gets 01 from 0
 *
 * Rabenseifner: Optimization of collective reduction operations, 2004.
 */
#include "algo/rounds.h"

struct range {
    uint32_t first, count;
};

/* The half that a member keeps when it meets the member `mask` away; the other half is given. */
static void halve(struct range whole, int upper, struct range *keep, struct range *give)
{
    struct range low = {whole.first, whole.count / 2};
    struct range high = {whole.first + whole.count / 2, whole.count / 2};
    *keep = upper ? high : low;
    *give = upper ? low : high;
}

static void exchange(const struct wi_fold *fold, struct wi_seq *seq, enum wi_buf held)
{
    struct range whole = {0, (uint32_t)fold->pow2}, keep, give, step[32];
    uint32_t lane[32];
    int nsteps = 0;

    for (int mask = 1; mask < fold->pow2; mask *= 2, nsteps++) {
        int upper = (fold->member & mask) != 0, rank = wi_fold_rank(fold, fold->member ^ mask);
        unsigned flags = (upper ? WI_STEP_RECV_LEFT : 0) | (2 * mask == fold->pow2 ? WI_STEP_FINAL : 0);
        halve(whole, upper, &keep, &give);
        lane[nsteps] = wi_sched_lane(seq->b, rank, rank, 0);
        step[nsteps] = give;
        wi_seq_send(seq, lane[nsteps], wi_at(held, give.first, give.count));
        wi_seq_recv_reduce(seq, lane[nsteps], wi_at(WI_DST, keep.first, keep.count),
                           wi_at(held, keep.first, keep.count), flags);
        whole = keep;
        held = WI_DST;
    }
    while (nsteps-- > 0) {
        struct range other = step[nsteps];
        wi_seq_send(seq, lane[nsteps], wi_at(WI_DST, whole.first, whole.count));
        wi_seq_recv(seq, lane[nsteps], wi_at(WI_DST, other.first, other.count));
        whole.first = whole.first < other.first ? whole.first : other.first;
        whole.count *= 2;
    }
}

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int pow2 = wi_fold_of(args->rank, args->nranks).pow2;

    return wi_algo_folded(args, &wi_allreduce_rhalving, (uint32_t)pow2, exchange, sched);
}

static double time_of(const struct wi_algo_args *args, double bytes, const struct wi_algo_rates *rates)
{
    return wi_rounds_halving(args, bytes, rates, 0);
}

static int round_of(const struct wi_algo_args *args, int k, int *to, double *part)
{
    int step = wi_fold_round(args, k, 0, 1, to);

    *part = step < 0 ? 1 : 0.5 / (1u << step);
    return step != WI_FOLD_OVER;
}

const struct wi_algo wi_allreduce_rhalving = {
    .name = "rhalving",
    .coll = WI_COLL_ALL_REDUCE,
    .needs = 0,
    .traits = {.shape = WI_SHAPE_DOUBLING, .slices = WI_SLICES_NONE, .returns = 1},
    .summary = "recursive vector halving, then doubling (Rabenseifner)",
    .build = build,
    .cost = wi_algo_halving_cost,
    .time = time_of,
    .round = round_of,
};
