/* SPDX-License-Identifier: BSD-3-Clause */
/* Bine all-gather: doubling over partners that alternate sides, distant ones first, while there is little
 * to send.
 *
 * Fewest steps, and fewer bytes over the upper links of an oversubscribed network. What a step sends is
 * not adjacent in rank, so shares gather in scratch in the order of Swing. Powers of two
 * only.
 *
 *   steps: log2 P · sent (P-1)n · copied (P+1)n · scratch Pn (n: one share)
 *
 * P = 4:  0 ↔ 3, 1 ↔ 2: one share each | 0 ↔ 1: 0, 3 for 2, 1 · 2 ↔ 3: 2, 1 for 0, 3
 *
 * De Sensi et al.: Bine trees: enhancing collective operations by optimizing communication locality,
 * SC 2025.
 */
#include "algo/swing.h"

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int n = args->nranks, rank = args->rank, steps = wi_log2_ceil(n);
    uint32_t have = (uint32_t)wi_swing_position(rank, steps), count = 1;
    struct wi_region src = wi_at(WI_SRC, 0, 1);
    struct wi_sched_builder *b;

    if (n == 1)
        return wi_algo_alone(args, &wi_allgather_bine, sched);
    WI_TRY(wi_algo_begin(args, &wi_allgather_bine, 0, (uint32_t)n, &b));
    struct wi_seq seq = wi_seq_begin(b);
    uint32_t local = wi_sched_lane(b, WI_NO_PEER, WI_NO_PEER, 0);
    wi_seq_copy(&seq, local, wi_at(WI_TMP, have, 1), src);
    for (int k = steps - 1; k >= 0; k--, count *= 2) {
        int peer = wi_swing_peer(rank, k, n);
        uint32_t lane = wi_sched_lane(b, peer, peer, 0);
        wi_seq_send(&seq, lane, wi_at(WI_TMP, have, count));
        wi_seq_recv(&seq, lane, wi_at(WI_TMP, have ^ count, count));
        have &= ~count;
    }
    for (int r = 0; r < n; r++) {
        struct wi_region from = r == rank ? src : wi_at(WI_TMP, (uint32_t)wi_swing_position(r, steps), 1);
        if (r != rank || !args->in_place)
            wi_seq_copy(&seq, local, wi_at(WI_DST, (uint32_t)r, 1), from);
    }
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int n = args->nranks;

    *c = (struct wi_algo_cost){wi_log2_ceil(n), (n - 1) * bytes, 0, ((n > 1 ? n : 0) + !args->in_place) * bytes};
}

const struct wi_algo wi_allgather_bine = {
    .name = "bine",
    .coll = WI_COLL_ALL_GATHER,
    .needs = WI_ALGO_UNIFORM | WI_ALGO_POW2_RANKS,
    .summary = "Bine butterfly: doubling over nearer partners",
    .build = build,
    .cost = cost,
};
