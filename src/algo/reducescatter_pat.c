/* SPDX-License-Identifier: BSD-3-Clause */
/* PAT reduce-scatter: P binomial trees at a time, in messages of up to 64 shares; the most data goes
 * the shortest way.
 *
 * Any P; few steps with scratch that does not grow with P. In the order in which the trees are walked
 * each branch ends before the next begins. Commutative operators only.
 *
 *   with A trees side by side (a power of two up to 64, about P or sqrt P) of S = ceil(P/A):
 *   steps: S - 1 + log2 A, log2 P for a power of two up to 64 · sent (P-1)n · reduced (P-1)n · copied Pn ·
 *     scratch Pn up to 128 ranks, then A(1 + log2 S)n
 *
 * P = 4 (A = 4, S = 1), rank 0:  give shares 3, 1 to 3, add those of 1 | give share 2 to 2, add that of 2
 * P = 6 (A = 2, S = 3), rank 0:  give 5, 2 to 5 | give 4, 1 to 4 | give 3 to 3
 *
 * Jeaugey: PAT: a new algorithm for all-gather and reduce-scatter operations at scale, 2025
 * (arXiv 2506.20252).
 */
#include "algo/pat.h"

/* The own contributions to what nodes l collect. */
static void open_vector(struct wi_pat *pat, int l)
{
    uint32_t local = wi_pat_run_lane(pat, 0);

    for (uint32_t p = 0; p < wi_pat_width(pat, l); p++)
        wi_seq_copy(&pat->seq, local, wi_pat_vector(pat, l, p, 1), wi_at(WI_SRC, wi_pat_share(pat, l, p), 1));
}

static void collect(struct wi_pat *pat, int l)
{
    open_vector(pat, l);
    for (int i = 0; i < wi_pat_nchildren(pat, l); i++) {
        int child = l + (1 << i);
        if (child >= pat->span)
            break;
        collect(pat, child);
        uint32_t lane = wi_pat_child_lane(pat, i), width = wi_pat_width(pat, child);
        struct wi_region sum = wi_pat_vector(pat, l, 0, width);
        wi_seq_send(&pat->seq, lane, wi_pat_vector(pat, child, 0, width));
        wi_seq_recv_reduce(&pat->seq, lane, sum, sum, 0);
    }
}

static void join_runs(struct wi_pat *pat)
{
    for (int i = 0; i < pat->bits; i++) {
        uint32_t lane = wi_pat_run_lane(pat, i), half = (uint32_t)pat->trees >> (i + 1);
        struct wi_region sum = wi_pat_vector(pat, 0, 0, half);
        int last = half == 1;
        wi_seq_send(&pat->seq, lane, wi_pat_vector(pat, 0, half, half));
        wi_seq_recv_reduce(&pat->seq, lane, last ? wi_at(WI_DST, 0, 1) : sum, sum, last ? WI_STEP_FINAL : 0);
    }
}

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    struct wi_pat pat;
    struct wi_sched_builder *b;

    if (args->nranks == 1)
        return wi_algo_alone(args, &wi_reducescatter_pat, sched);
    wi_pat_init(&pat, args->rank, args->nranks, 1);
    WI_TRY(wi_algo_begin(args, &wi_reducescatter_pat, 0, pat.scratch, &b));
    pat.seq = wi_seq_begin(b);
    collect(&pat, 0);
    join_runs(&pat);
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int n = args->nranks;
    struct wi_pat pat;

    wi_pat_init(&pat, 0, n, 1);
    *c = (struct wi_algo_cost){wi_pat_steps(&pat), (n - 1) * bytes, (n - 1) * bytes,
                               (n > 1 ? n : !args->in_place) * bytes};
}

const struct wi_algo wi_reducescatter_pat = {
    .name = "pat",
    .coll = WI_COLL_REDUCE_SCATTER,
    .needs = WI_ALGO_COMMUTATIVE | WI_ALGO_UNIFORM,
    .traits = {.adds = 1},
    .summary = "PAT: aggregated binomial trees, bounded scratch",
    .build = build,
    .cost = cost,
};
