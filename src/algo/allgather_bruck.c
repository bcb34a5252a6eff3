/* SPDX-License-Identifier: BSD-3-Clause */
/* Bruck's all-gather: in step k the first 2^k shares, counted from the own one, go to the rank 2^k
 * below.
 *
 * Fewest steps for any P; for small shares. Scratch holds the shares in the order rank, rank+1, …;
 * at the end they are turned into place.
 *
 *   steps: ceil(log2 P) · sent (P-1)n · copied (P+1)n · scratch Pn
 *
 * P = 3:  start  0     1     2
 *         1      01    12    20        (received from rank + 1)
 *         2      012   120   201       (one share from rank + 2)
 *
 * Bruck et al.: Efficient algorithms for all-to-all communications in multiport message-passing
 * systems, 1997.
 */
#include "algo/util.h"

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int n = args->nranks, rank = args->rank;
    struct wi_sched_builder *b;

    if (n == 1)
        return wi_algo_alone(args, &wi_allgather_bruck, sched);
    WI_TRY(wi_algo_begin(args, &wi_allgather_bruck, 0, (uint32_t)n, &b));
    struct wi_seq seq = wi_seq_begin(b);
    uint32_t local = wi_sched_lane(b, WI_NO_PEER, WI_NO_PEER, 0);
    wi_seq_copy(&seq, local, wi_at(WI_TMP, 0, 1), wi_at(WI_SRC, 0, 1));
    for (int have = 1; have < n; have *= 2) {
        uint32_t count = (uint32_t)(have < n - have ? have : n - have);
        uint32_t lane = wi_sched_lane(b, wi_mod(rank - have, n), wi_mod(rank + have, n), 0);
        wi_seq_send(&seq, lane, wi_at(WI_TMP, 0, count));
        wi_seq_recv(&seq, lane, wi_at(WI_TMP, (uint32_t)have, count));
    }
    uint32_t high = (uint32_t)(n - rank), low = (uint32_t)rank;
    wi_seq_copy(&seq, local, wi_at(WI_DST, low, high), wi_at(WI_TMP, 0, high));
    if (low > 0)
        wi_seq_copy(&seq, local, wi_at(WI_DST, 0, low), wi_at(WI_TMP, high, low));
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int n = args->nranks;
    int copied = n > 1 ? n + 1 : !args->in_place;
    *c = (struct wi_algo_cost){wi_log2_ceil(n), (n - 1) * bytes, 0, copied * bytes};
}

static int round_of(const struct wi_algo_args *args, int k, int *to, double *part)
{
    int have = 1 << (k < 30 ? k : 30);

    *to = wi_mod(args->rank - have, args->nranks);
    *part = have < args->nranks - have ? have : args->nranks - have;
    return have < args->nranks;
}

const struct wi_algo wi_allgather_bruck = {
    .name = "bruck",
    .coll = WI_COLL_ALL_GATHER,
    .needs = WI_ALGO_UNIFORM,
    .traits = {.slices = WI_SLICES_NONE},
    .summary = "log2 P steps for any P, through scratch",
    .build = build,
    .cost = cost,
    .round = round_of,
};
