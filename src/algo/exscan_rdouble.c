/* SPDX-License-Identifier: BSD-3-Clause */
/* Recursive doubling exclusive scan: like the inclusive one (scan_rdouble.c), which goes on in
 * scratch, while DST collects the same prefixes without the own vector.
 *
 *   steps: ceil(log2 P) · sent n per step · reduced 2n per step · scratch 2n
 *
 * P = 4, TMP[0] / DST:    start  0/–   1/–    2/–     3/–
 *                         1      0/–   01/0   12/1    23/2
 *                         2      0/–   01/0   012/01  –/012
 *
 * What arrives is put into TMP[1], as it is the left operand of both. Rank 0's result is undefined
 * and stays untouched.
 *
 * Hillis, Steele 1986.
 */
#include "algo/util.h"

#define WINDOW wi_at(WI_TMP, 0, 1) /* the contributions of the last 2^k ranks up to this one */
#define ARRIVED wi_at(WI_TMP, 1, 1)

/* The first prefix to arrive makes DST; later ones extend it on the left. */
static void take(struct wi_seq *seq, uint32_t lane, int first, int more)
{
    struct wi_region dst = wi_at(WI_DST, 0, 1), src = first ? wi_at(WI_SRC, 0, 1) : WINDOW;
    struct wi_region window = WINDOW;

    wi_seq_recv(seq, lane, ARRIVED);
    if (more) /* before DST is stored, which may be SRC */
        wi_seq_did(seq, lane, wi_sched_reduce(seq->b, lane, &window, 1, (struct wi_region[]){ARRIVED, src}, 2, 0));
    if (first)
        wi_seq_copy(seq, lane, dst, ARRIVED);
    else
        wi_seq_did(seq, lane, wi_sched_reduce(seq->b, lane, &dst, 1, (struct wi_region[]){ARRIVED, dst}, 2, 0));
}

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int n = args->nranks, rank = args->rank;
    struct wi_sched_builder *b;

    if (n == 1)
        return wi_algo_alone(args, &wi_exscan_rdouble, sched);
    WI_TRY(wi_algo_begin(args, &wi_exscan_rdouble, 1, 2, &b));
    struct wi_seq seq = wi_seq_begin(b);
    for (int distance = 1; distance < n; distance *= 2) {
        int to = rank + distance < n ? rank + distance : WI_NO_PEER,
            from = rank >= distance ? rank - distance : WI_NO_PEER;
        if (to == WI_NO_PEER && from == WI_NO_PEER)
            continue;
        uint32_t lane = wi_sched_lane(b, to, from, 0);
        if (to != WI_NO_PEER)
            wi_seq_send(&seq, lane, distance == 1 || rank == 0 ? wi_at(WI_SRC, 0, 1) : WINDOW);
        if (from != WI_NO_PEER)
            take(&seq, lane, distance == 1, 2 * distance < n && rank + 2 * distance < n);
    }
    return wi_sched_seal(b, sched);
}

/* A rank reduces its window as long as it will send, DST from the second message on: the middle ranks do most. */
static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int n = args->nranks, steps = wi_log2_ceil(n), most = 0;
    for (int rank = n > 1; rank < n; rank = rank < n - 1 && 2 * rank >= n ? n - 1 : 2 * rank) {
        int sum = 0;
        for (int distance = 1; distance < n && distance <= rank; distance *= 2)
            sum += (rank + 2 * distance < n) + (distance > 1);
        most = sum > most ? sum : most;
        if (rank == n - 1)
            break;
    }
    *c = (struct wi_algo_cost){steps, steps * bytes, most * bytes, n > 1 ? bytes : 0};
}

/* From the second message on a rank reduces both its window and DST; the last one, which the longest chain ends at, only DST. */
static void path(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int n = args->nranks, hops = wi_log2_ceil(wi_pow2_floor(n));
    double reduced = n > 3 ? 2 * hops - 2 : n == 3;
    *c = (struct wi_algo_cost){hops, wi_doubling_chain(n) * bytes, reduced * bytes, 0};
}

static int round_of(const struct wi_algo_args *args, int k, int *to, double *part)
{
    *to = k < 30 && args->rank + (1 << k) < args->nranks ? args->rank + (1 << k) : -1;
    *part = 1;
    return k < wi_log2_ceil(args->nranks);
}

const struct wi_algo wi_exscan_rdouble = {
    .name = "rdouble",
    .coll = WI_COLL_EXSCAN,
    .needs = 0,
    .traits = {.shape = WI_SHAPE_DOUBLING, .slices = WI_SLICES_NONE},
    .summary = "prefix doubling: ceil(log2 P) steps",
    .build = build,
    .cost = cost,
    .path = path,
    .round = round_of,
};
