/* SPDX-License-Identifier: BSD-3-Clause */
/* Bine reduce-scatter: halving over partners that alternate sides, close ones first, while there is
 * most to send.
 *
 * Least bytes in fewest steps, and fewer of them over the upper links of an oversubscribed network. What
 * a step gives away is not adjacent in rank, so shares are put into scratch in the order of
 * Swing first. Powers of two and commutative operators only.
 *
 *   steps: log2 P · sent (P-1)n · reduced (P-1)n · copied Pn · scratch Pn (n: one share)
 *
 * P = 4:  0 ↔ 1: 0 keeps 0, 3 and 1 keeps 2, 1 · 2 ↔ 3 alike | 0 ↔ 3, 1 ↔ 2: give the other's share
 *
 * De Sensi et al.: Bine trees: enhancing collective operations by optimizing communication locality,
 * SC 2025.
 */
#include "algo/swing.h"

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int n = args->nranks, rank = args->rank, steps = wi_log2_ceil(n);
    uint32_t keep = 0, half = (uint32_t)n / 2;
    struct wi_sched_builder *b;

    if (n == 1)
        return wi_algo_alone(args, &wi_reducescatter_bine, sched);
    WI_TRY(wi_algo_begin(args, &wi_reducescatter_bine, 0, (uint32_t)n, &b));
    struct wi_seq seq = wi_seq_begin(b);
    uint32_t local = wi_sched_lane(b, WI_NO_PEER, WI_NO_PEER, 0);
    for (int r = 0; r < n; r++)
        wi_seq_copy(&seq, local, wi_at(WI_TMP, (uint32_t)wi_swing_position(r, steps), 1),
                    wi_at(WI_SRC, (uint32_t)r, 1));
    for (int k = 0; k < steps; k++, half /= 2) {
        int peer = wi_swing_peer(rank, k, n), upper = wi_swing_upper(rank, k, steps), last = k == steps - 1;
        uint32_t lane = wi_sched_lane(b, peer, peer, 0), give = keep + (upper ? 0 : half);
        keep += upper ? half : 0;
        struct wi_region sum = wi_at(WI_TMP, keep, half);
        wi_seq_send(&seq, lane, wi_at(WI_TMP, give, half));
        wi_seq_recv_reduce(&seq, lane, last ? wi_at(WI_DST, 0, 1) : sum, sum, last ? WI_STEP_FINAL : 0);
    }
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int n = args->nranks;

    *c =
        (struct wi_algo_cost){wi_log2_ceil(n), (n - 1) * bytes, (n - 1) * bytes, (n > 1 ? n : !args->in_place) * bytes};
}

const struct wi_algo wi_reducescatter_bine = {
    .name = "bine",
    .coll = WI_COLL_REDUCE_SCATTER,
    .needs = WI_ALGO_COMMUTATIVE | WI_ALGO_UNIFORM | WI_ALGO_POW2_RANKS,
    .traits = {.adds = 1},
    .summary = "Bine butterfly: halving over nearer partners",
    .build = build,
    .cost = cost,
};
