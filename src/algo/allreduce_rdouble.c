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
#include "algo/util.h"

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
    struct wi_fold fold = wi_fold_of(args->rank, args->nranks);
    struct wi_region src = wi_at(WI_SRC, 0, 1), dst = wi_at(WI_DST, 0, 1);
    struct wi_sched_builder *b;

    if (args->nranks == 1)
        return wi_algo_alone(args, &wi_allreduce_rdouble, sched);
    WI_TRY(wi_algo_begin(args, &wi_allreduce_rdouble, 1, 0, &b));
    struct wi_seq seq = wi_seq_begin(b);
    if (fold.partner < 0) {
        exchange(&fold, &seq, WI_SRC);
        return wi_sched_seal(b, sched);
    }
    /* In and out have lanes of their own, so that the next slice need not wait for the result of this one. */
    uint32_t out = wi_sched_lane(b, fold.partner, WI_NO_PEER, 0);
    uint32_t in = wi_sched_lane(b, WI_NO_PEER, fold.partner, 0);
    if (fold.member < 0) {
        wi_seq_send(&seq, out, src);
        wi_seq_recv(&seq, in, dst);
    } else {
        wi_seq_recv_reduce(&seq, in, dst, src, 0);
        exchange(&fold, &seq, WI_DST);
        wi_seq_send(&seq, out, dst);
    }
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    struct wi_fold fold = wi_fold_of(0, args->nranks);
    double exchanges = wi_log2_ceil(fold.pow2), odd = fold.rem > 0;
    double alone = args->nranks == 1 && !args->in_place ? bytes : 0;
    *c = (struct wi_algo_cost){exchanges + wi_fold_steps(&fold), (exchanges + odd) * bytes, (exchanges + odd) * bytes,
                               alone};
}

/* Folding: a vector in, a vector out, and partners that fold nobody do not wait for that, so that their first message shares
 * the link with it. */
static void path(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    struct wi_fold fold = wi_fold_of(0, args->nranks);
    double exchanges = wi_log2_ceil(fold.pow2), odd = fold.rem > 0;
    *c = (struct wi_algo_cost){exchanges + wi_fold_steps(&fold), (exchanges + 3 * odd) * bytes,
                               (exchanges + 1.5 * odd) * bytes, 0};
}

const struct wi_algo wi_allreduce_rdouble = {
    .name = "rdouble",
    .coll = WI_COLL_ALL_REDUCE,
    .needs = 0,
    .summary = "recursive doubling: log2 P exchanges of the whole vector",
    .build = build,
    .cost = cost,
    .path = path,
};
