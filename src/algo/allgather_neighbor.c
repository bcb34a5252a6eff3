/* SPDX-License-Identifier: BSD-3-Clause */
/* Neighbour exchange all-gather: pairs of shares move alternately to the left and to the right
 * neighbour.
 *
 * Half of the ring's steps, still neighbours only; even P. Ranks 2q and 2q+1 form pair q and swap
 * shares first; then every rank swaps, with its other neighbour and its partner in turn, the pair
 * of shares that it received last.
 *
 *   steps: P/2 · sent (P-1)n · no scratch
 *
 * P = 6, pair received:     step 1 (other)   step 2 (partner)
 *   even rank of pair q     q-1              q+1
 *   odd rank of pair q      q+1              q-1
 *
 * Chen, Zhang, Zhang, Yuan: Performance evaluation of allgather algorithms on terascale Linux
 * cluster with fast Ethernet, 2005.
 */
#include "algo/util.h"

/* The pair that a rank of pair q receives in step i >= 1; in step 0 it is q itself. */
static uint32_t pair_at(int q, int odd, int i, int npairs)
{
    int away = i % 2 ? (i + 1) / 2 : -(i / 2);
    return (uint32_t)wi_mod(odd ? q + away : q - away, npairs);
}

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int n = args->nranks, rank = args->rank, odd = rank % 2, q = rank / 2;
    int partner = rank ^ 1, other = wi_mod(odd ? rank + 1 : rank - 1, n);
    struct wi_sched_builder *b;

    WI_TRY(wi_algo_begin(args, &wi_allgather_neighbor, 0, 0, &b));
    struct wi_seq seq = wi_seq_begin(b);
    uint32_t lane0 = wi_sched_lane(b, partner, partner, 0), lane1 = 0;
    if (n > 2)
        lane1 = wi_sched_lane(b, other, other, 0);
    if (!args->in_place)
        wi_seq_copy(&seq, lane0, wi_at(WI_DST, (uint32_t)rank, 1), wi_at(WI_SRC, 0, 1));
    wi_seq_send(&seq, lane0, wi_at(WI_SRC, 0, 1));
    wi_seq_recv(&seq, lane0, wi_at(WI_DST, (uint32_t)partner, 1));
    for (int i = 1; i < n / 2; i++) {
        uint32_t lane = i % 2 ? lane1 : lane0;
        wi_seq_send(&seq, lane, wi_at(WI_DST, 2 * pair_at(q, odd, i - 1, n / 2), 2));
        wi_seq_recv(&seq, lane, wi_at(WI_DST, 2 * pair_at(q, odd, i, n / 2), 2));
    }
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int n = args->nranks;
    *c = (struct wi_algo_cost){n / 2, (n - 1) * bytes, 0, args->in_place ? 0 : bytes};
}

const struct wi_algo wi_allgather_neighbor = {
    .name = "neighbor",
    .coll = WI_COLL_ALL_GATHER,
    .needs = WI_ALGO_EVEN_RANKS,
    .traits = {.shape = WI_SHAPE_ROW},
    .summary = "neighbour exchange: P/2 steps between neighbours",
    .build = build,
    .cost = cost,
};
