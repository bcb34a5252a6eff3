/* SPDX-License-Identifier: BSD-3-Clause */
/* Recursive halving reduce-scatter: each step gives away the half that the other side of the group
 * owns.
 *
 * Fewest steps at least bytes (P a power of two); for small and middle shares. The distant half goes
 * first, so that every rank ends with its own share; that breaks rank order. Ranks beyond a power
 * of two fold into their left neighbour, which then owns two shares.
 *
 *   steps: log2 P, +2 if P is no power of two · sent (P-1)n, a folded rank Pn · reduced (P-1)n,
 *     folding Pn more · scratch Pn (n: one share)
 *
 * P = 4:  0 ↔ 2, 1 ↔ 3: give [2,3] or [0,1], keep the others | 0 ↔ 1: give [1] or [0] · 2 ↔ 3: give [3] or [2]
 *
 * Thakur, Rabenseifner, Gropp 2005.
 */
#include <math.h>

#include "algo/rounds.h"

/* The shares of members [first, first + count). */
static struct wi_region shares(const struct wi_fold *fold, enum wi_buf buf, int first, int count)
{
    int from = wi_fold_rank(fold, first), to = wi_fold_rank(fold, first + count);
    return wi_at(buf, (uint32_t)from, (uint32_t)(to - from));
}

static void exchange(const struct wi_fold *fold, struct wi_seq *seq, enum wi_buf held)
{
    for (int mask = fold->pow2 / 2; mask > 0; mask /= 2) {
        int peer = fold->member ^ mask, rank = wi_fold_rank(fold, peer);
        int mine = fold->member & ~(mask - 1), theirs = peer & ~(mask - 1), last = mask == 1;
        uint32_t lane = wi_sched_lane(seq->b, rank, rank, 0);
        struct wi_region dst = last && fold->partner < 0 ? wi_at(WI_DST, 0, 1) : shares(fold, WI_TMP, mine, mask);
        wi_seq_send(seq, lane, shares(fold, held, theirs, mask));
        wi_seq_recv_reduce(seq, lane, dst, shares(fold, held, mine, mask), last ? WI_STEP_FINAL : 0);
        held = WI_TMP;
    }
}

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int n = args->nranks, rank = args->rank;
    uint32_t all = (uint32_t)n;
    struct wi_fold fold = wi_fold_of(rank, n);
    struct wi_region dst = wi_at(WI_DST, 0, 1);
    struct wi_sched_builder *b;

    if (n == 1)
        return wi_algo_alone(args, &wi_reducescatter_rhalving, sched);
    WI_TRY(wi_algo_begin(args, &wi_reducescatter_rhalving, 0, all, &b));
    struct wi_seq seq = wi_seq_begin(b);
    if (fold.partner < 0) {
        exchange(&fold, &seq, WI_SRC);
        return wi_sched_seal(b, sched);
    }
    uint32_t out = wi_sched_lane(b, fold.partner, WI_NO_PEER, 0);
    uint32_t in = wi_sched_lane(b, WI_NO_PEER, fold.partner, 0);
    if (fold.member < 0) {
        wi_seq_send(&seq, out, wi_at(WI_SRC, 0, all));
        wi_seq_recv(&seq, in, dst);
    } else {
        wi_seq_recv_reduce(&seq, in, wi_at(WI_TMP, 0, all), wi_at(WI_SRC, 0, all), 0);
        exchange(&fold, &seq, WI_TMP);
        wi_seq_send(&seq, out, wi_at(WI_TMP, (uint32_t)fold.partner, 1));
        wi_seq_copy(&seq, out, dst, wi_at(WI_TMP, (uint32_t)rank, 1));
    }
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int n = args->nranks, kept = 0;
    struct wi_fold fold = wi_fold_of(0, n);
    for (int mask = 1; mask < fold.pow2; mask *= 2)
        kept += wi_fold_rank(&fold, mask);
    int odd = fold.rem > 0, copied = odd || (n == 1 && !args->in_place);
    *c = (struct wi_algo_cost){wi_log2_ceil(fold.pow2) + wi_fold_steps(&fold), (n - !odd) * bytes,
                               (kept + (odd ? n : 0)) * bytes, copied * bytes};
}

/* ---- Closed form ---- */

static double reduced_in(const struct wi_fold *fold, int member, int step, double bytes)
{
    int first = member >> step << step;

    return (wi_fold_rank(fold, first + (1 << step)) - wi_fold_rank(fold, first)) * bytes;
}

static double sent_in(const struct wi_fold *fold, int member, int step, double bytes)
{
    return reduced_in(fold, member ^ 1 << step, step, bytes);
}

static double time_of(const struct wi_algo_args *args, double bytes, const struct wi_algo_rates *rates)
{
    struct wi_exchange x = {.descending = 1,
                            .sent = sent_in,
                            .reduced = reduced_in,
                            .in = args->nranks * bytes,
                            .out = bytes,
                            .copied = bytes,
                            .in_reduced = 1};

    if (args->nranks == 1)
        return args->in_place ? 0 : wi_algo_over(bytes, rates->copy_rate);
    return wi_rounds_fold(args, bytes, rates, &x);
}

static int round_of(const struct wi_algo_args *args, int k, int *to, double *part)
{
    int step = wi_fold_round(args, k, 0, 0, to);

    *part = step == WI_FOLD_OUT ? 1
            : step < 0          ? args->nranks
                                : ldexp((double)args->nranks / wi_pow2_floor(args->nranks), step);
    return step != WI_FOLD_OVER;
}

const struct wi_algo wi_reducescatter_rhalving = {
    .name = "rhalving",
    .coll = WI_COLL_REDUCE_SCATTER,
    .needs = WI_ALGO_COMMUTATIVE | WI_ALGO_UNIFORM,
    .traits = {.shape = WI_SHAPE_DOUBLING, .slices = WI_SLICES_NONE},
    .summary = "recursive halving",
    .build = build,
    .cost = cost,
    .time = time_of,
    .round = round_of,
};
