/* SPDX-License-Identifier: BSD-3-Clause */
/* Recursive doubling all-reduce: in step k every rank exchanges its partial result with the rank
 * 2^k away.
 *
 * Fewest steps; for small messages. Keeps rank order: groups are contiguous, the lower one is the
 * left operand. Ranks beyond a power of two fold into their left neighbour first and get the
 * result last.
 *
 *   steps: log2 P, +2 if P is no power of two · sent n per step · reduced n per step · no
 *     scratch
 *
 * P = 4:  0    1    2    3          P = 3:  0 <- 1   2
 *         01   01   23   23                 01       2
 *         0123 0123 0123 0123               012      012
 *                                           0 -> 1
 *
 * Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH, 2005.
 */
#include "algo/rounds.h"

static void exchange(const struct wi_fold *fold, struct wi_seq *seq, enum wi_buf held)
{
    struct wi_region dst = wi_at(WI_DST, 0, 1);

    for (int mask = 1; mask < fold->pow2; mask *= 2) {
        int peer = fold->member ^ mask, rank = wi_fold_rank(fold, peer);
        unsigned flags = (peer < fold->member ? WI_STEP_RECV_LEFT : 0) | (2 * mask == fold->pow2 ? WI_STEP_FINAL : 0);
        uint32_t lane = wi_sched_lane(seq->b, rank, rank, 0);
        wi_seq_send(seq, lane, wi_at(held, 0, 1));
        wi_seq_recv_reduce(seq, lane, dst, wi_at(held, 0, 1), flags);
        held = WI_DST;
    }
}

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    return wi_algo_folded(args, &wi_allreduce_rdouble, 1, exchange, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    struct wi_fold fold = wi_fold_of(0, args->nranks);
    double exchanges = wi_log2_ceil(fold.pow2), odd = fold.rem > 0;
    double alone = args->nranks == 1 && !args->in_place ? bytes : 0;
    *c = (struct wi_algo_cost){exchanges + wi_fold_steps(&fold), (exchanges + odd) * bytes, (exchanges + odd) * bytes,
                               alone};
}

static double time_of(const struct wi_algo_args *args, double bytes, const struct wi_algo_rates *rates)
{
    return wi_rounds_whole(args, bytes, rates, 0);
}

static int round_of(const struct wi_algo_args *args, int k, int *to, double *part)
{
    int step = wi_fold_round(args, k, 0, 0, to);

    *part = 1;
    return step != WI_FOLD_OVER;
}

const struct wi_algo wi_allreduce_rdouble = {
    .name = "rdouble",
    .coll = WI_COLL_ALL_REDUCE,
    .needs = 0,
    .traits = {.shape = WI_SHAPE_DOUBLING},
    .summary = "recursive doubling: log2 P exchanges of the whole vector",
    .build = build,
    .cost = cost,
    .time = time_of,
    .round = round_of,
};
