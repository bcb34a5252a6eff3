/* SPDX-License-Identifier: BSD-3-Clause */
/* Recursive doubling all-gather: in step k neighbouring groups of 2^k exchange all that they have.
 *
 * Fewest steps without scratch or turning; for small and middle shares. Ranks beyond a power of
 * two fold into their left neighbour, which fetches their share first and sends them the rest at
 * the end.
 *
 *   steps: log2 P, +2 (and two messages) if P is no power of two · sent (P-1)n, folding twice
 *     that · no scratch
 *
 * P = 4:  0 ↔ 1: [0] ↔ [1], 2 ↔ 3: [2] ↔ [3] | 0 ↔ 2, 1 ↔ 3: [0,1] ↔ [2,3]
 * P = 3:  1 → 0: [1] | 0 ↔ 2: [0,1] ↔ [2] | 0 → 1: [0], [2]
 *
 * Thakur, Rabenseifner, Gropp 2005.
 */
#include <math.h>

#include "algo/rounds.h"

/* The shares of members [first, first + count). */
static struct wi_region shares(const struct wi_fold *fold, int first, int count)
{
    int from = wi_fold_rank(fold, first), to = wi_fold_rank(fold, first + count);
    return wi_at(WI_DST, (uint32_t)from, (uint32_t)(to - from));
}

static void exchange(const struct wi_fold *fold, struct wi_seq *seq)
{
    for (int mask = 1; mask < fold->pow2; mask *= 2) {
        int peer = fold->member ^ mask, rank = wi_fold_rank(fold, peer);
        uint32_t lane = wi_sched_lane(seq->b, rank, rank, 0);
        wi_seq_send(seq, lane, shares(fold, fold->member & ~(mask - 1), mask));
        wi_seq_recv(seq, lane, shares(fold, peer & ~(mask - 1), mask));
    }
}

/* Everything but the share of the folded rank `hole`, in at most two messages. */
static void pass_rest(struct wi_seq *seq, uint32_t lane, int n, int hole, int sending)
{
    struct wi_region part[2] = {wi_at(WI_DST, 0, (uint32_t)hole),
                                wi_at(WI_DST, (uint32_t)hole + 1, (uint32_t)(n - hole - 1))};
    for (int i = 0; i < 2; i++) {
        if (part[i].count && sending)
            wi_seq_send(seq, lane, part[i]);
        else if (part[i].count)
            wi_seq_recv(seq, lane, part[i]);
    }
}

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int n = args->nranks, rank = args->rank;
    struct wi_fold fold = wi_fold_of(rank, n);
    struct wi_region own = wi_at(WI_DST, (uint32_t)rank, 1), src = wi_at(WI_SRC, 0, 1);
    struct wi_sched_builder *b;

    if (n == 1)
        return wi_algo_alone(args, &wi_allgather_rdouble, sched);
    WI_TRY(wi_algo_begin(args, &wi_allgather_rdouble, 0, 0, &b));
    struct wi_seq seq = wi_seq_begin(b);
    if (!args->in_place)
        wi_seq_copy(&seq, wi_sched_lane(b, WI_NO_PEER, WI_NO_PEER, 0), own, src);
    if (fold.partner < 0) {
        exchange(&fold, &seq);
        return wi_sched_seal(b, sched);
    }
    uint32_t out = wi_sched_lane(b, fold.partner, WI_NO_PEER, 0);
    uint32_t in = wi_sched_lane(b, WI_NO_PEER, fold.partner, 0);
    if (fold.member < 0) {
        wi_seq_send(&seq, out, src);
        pass_rest(&seq, in, n, rank, 0);
    } else {
        wi_seq_recv(&seq, in, wi_at(WI_DST, (uint32_t)fold.partner, 1));
        exchange(&fold, &seq);
        pass_rest(&seq, out, n, fold.partner, 1);
    }
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int n = args->nranks, sent = 0;
    struct wi_fold fold = wi_fold_of(0, n);
    for (int mask = 1; mask < fold.pow2; mask *= 2)
        sent += wi_fold_rank(&fold, mask);
    if (fold.rem)
        sent += n - 1;
    *c = (struct wi_algo_cost){wi_log2_ceil(fold.pow2) + (fold.rem ? 2 : 0), sent * bytes, 0,
                               args->in_place ? 0 : bytes};
}

/* ---- Closed form ---- */

static double sent_in(const struct wi_fold *fold, int member, int step, double bytes)
{
    int first = member >> step << step;

    return (wi_fold_rank(fold, first + (1 << step)) - wi_fold_rank(fold, first)) * bytes;
}

/* Of many ranks: fewer with larger shares, so that as much is sent in the rounds over large distances, which take longest. */
static double time_of(const struct wi_algo_args *args, double bytes, const struct wi_algo_rates *rates)
{
    struct wi_algo_args few = *args;
    double copy = args->in_place ? 0 : wi_algo_over(bytes, rates->copy_rate);

    if (args->nranks == 1)
        return copy;
    few.nranks = wi_rounds_fewer(args->nranks, 1024, 8);
    double share = bytes * (args->nranks - 1) / (few.nranks - 1);
    struct wi_exchange x = {.sent = sent_in, .in = share, .out = (few.nranks - 1) * share};
    int missing = wi_log2_ceil(wi_pow2_floor(args->nranks)) - wi_log2_ceil(wi_pow2_floor(few.nranks));
    return wi_rounds_fold(&few, share, rates, &x) + missing * rates->alpha + copy;
}

static int round_of(const struct wi_algo_args *args, int k, int *to, double *part)
{
    int step = wi_fold_round(args, k, 0, 0, to);

    *part = step == WI_FOLD_IN ? 1
            : step < 0         ? args->nranks
                               : ldexp((double)args->nranks / wi_pow2_floor(args->nranks), step);
    return step != WI_FOLD_OVER;
}

const struct wi_algo wi_allgather_rdouble = {
    .name = "rdouble",
    .coll = WI_COLL_ALL_GATHER,
    .needs = 0,
    .traits = {.shape = WI_SHAPE_DOUBLING},
    .summary = "recursive doubling, directly into place",
    .build = build,
    .cost = cost,
    .time = time_of,
    .round = round_of,
};
