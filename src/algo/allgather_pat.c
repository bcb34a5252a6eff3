/* SPDX-License-Identifier: BSD-3-Clause */
/* PAT all-gather: P binomial trees at a time, in messages of up to 64 shares; the most data goes the
 * shortest way.
 *
 * Any P; few steps with scratch that does not grow with P. The reduce-scatter run backwards: distant ranks
 * first, each branch of the trees to its end before the next.
 *
 *   with A trees side by side (a power of two up to 64, about P or sqrt P) of S = ceil(P/A):
 *   steps: S - 1 + log2 A, log2 P for a power of two up to 64 · sent (P-1)n · copied (P+1)n ·
 *     scratch Pn up to 128 ranks, then A(1 + log2 S)n
 *
 * P = 4 (A = 4, S = 1), rank 0:  own share to 2, share 2 from 2 | shares 0, 2 to 1, shares 3, 1 from 3
 * P = 6 (A = 2, S = 3), rank 0:  own to 3, 3 from 3 | 0, 3 to 2, 4, 1 from 4 | 0, 3 to 1, 5, 2 from 5
 *
 * Jeaugey: PAT: a new algorithm for all-gather and reduce-scatter operations at scale, 2025
 * (arXiv 2506.20252).
 */
#include "algo/pat.h"

static void place(struct wi_pat *pat, int l)
{
    uint32_t local = wi_pat_run_lane(pat, 0);

    for (uint32_t p = l == 0; p < wi_pat_width(pat, l); p++)
        wi_seq_copy(&pat->seq, local, wi_at(WI_DST, wi_pat_share(pat, l, p), 1), wi_pat_vector(pat, l, p, 1));
}

static void reach_runs(struct wi_pat *pat)
{
    for (int i = pat->bits - 1; i >= 0; i--) {
        uint32_t lane = wi_pat_run_lane(pat, i), have = (uint32_t)pat->trees >> (i + 1);
        wi_seq_send(&pat->seq, lane, wi_pat_vector(pat, 0, 0, have));
        wi_seq_recv(&pat->seq, lane, wi_pat_vector(pat, 0, have, have));
    }
}

static void spread(struct wi_pat *pat, int l)
{
    for (int i = wi_pat_nchildren(pat, l) - 1; i >= 0; i--) {
        int child = l + (1 << i);
        if (child >= pat->span)
            continue;
        uint32_t lane = wi_pat_child_lane(pat, i), width = wi_pat_width(pat, child);
        wi_seq_send(&pat->seq, lane, wi_pat_vector(pat, l, 0, width));
        wi_seq_recv(&pat->seq, lane, wi_pat_vector(pat, child, 0, width));
        spread(pat, child);
    }
    place(pat, l);
}

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    struct wi_region own = wi_at(WI_DST, (uint32_t)args->rank, 1), src = wi_at(WI_SRC, 0, 1);
    struct wi_pat pat;
    struct wi_sched_builder *b;

    if (args->nranks == 1)
        return wi_algo_alone(args, &wi_allgather_pat, sched);
    wi_pat_init(&pat, args->rank, args->nranks, 0);
    WI_TRY(wi_algo_begin(args, &wi_allgather_pat, 0, pat.scratch, &b));
    pat.seq = wi_seq_begin(b);
    wi_seq_copy(&pat.seq, wi_pat_run_lane(&pat, 0), wi_pat_vector(&pat, 0, 0, 1), src);
    reach_runs(&pat);
    spread(&pat, 0);
    if (!args->in_place)
        wi_seq_copy(&pat.seq, wi_pat_run_lane(&pat, 0), own, src);
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int n = args->nranks;
    struct wi_pat pat;

    wi_pat_init(&pat, 0, n, 0);
    *c = (struct wi_algo_cost){wi_pat_steps(&pat), (n - 1) * bytes, 0, ((n > 1 ? n : 0) + !args->in_place) * bytes};
}

const struct wi_algo wi_allgather_pat = {
    .name = "pat",
    .coll = WI_COLL_ALL_GATHER,
    .needs = WI_ALGO_UNIFORM,
    .summary = "PAT: aggregated binomial trees, bounded scratch",
    .build = build,
    .cost = cost,
};
