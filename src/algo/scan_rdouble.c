/* SPDX-License-Identifier: BSD-3-Clause */
/* Recursive doubling scan: after step k DST holds the contributions of the last 2^k ranks up to
 * this one.
 *
 * Fewest steps, any P, rank order kept, no scratch.
 *
 *   steps: ceil(log2 P) · sent n per step · reduced n per step · no scratch
 *
 * P = 4:  start  0    1    2    3
 *         1      0    01   12   23      (from rank - 1, left operand)
 *         2      0    01   012  0123    (from rank - 2)
 *
 * Hillis, Steele: Data parallel algorithms, 1986.
 */
#include "algo/util.h"

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int n = args->nranks, rank = args->rank;
    struct wi_region held = wi_at(WI_SRC, 0, 1), dst = wi_at(WI_DST, 0, 1);
    struct wi_sched_builder *b;

    if (n == 1)
        return wi_algo_alone(args, &wi_scan_rdouble, sched);
    WI_TRY(wi_algo_begin(args, &wi_scan_rdouble, 1, 0, &b));
    struct wi_seq seq = wi_seq_begin(b);
    for (int distance = 1; distance < n; distance *= 2) {
        int to = rank + distance < n ? rank + distance : WI_NO_PEER,
            from = rank >= distance ? rank - distance : WI_NO_PEER;
        if (to == WI_NO_PEER && from == WI_NO_PEER)
            continue;
        uint32_t lane = wi_sched_lane(b, to, from, 0);
        if (to != WI_NO_PEER)
            wi_seq_send(&seq, lane, held);
        if (from == WI_NO_PEER)
            continue;
        wi_seq_recv_reduce(&seq, lane, dst, held, WI_STEP_RECV_LEFT);
        held = dst;
    }
    if (rank == 0 && !args->in_place)
        wi_sched_copy(b, wi_sched_lane(b, WI_NO_PEER, WI_NO_PEER, 0), dst, held);
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int steps = wi_log2_ceil(args->nranks);
    *c = (struct wi_algo_cost){steps, steps * bytes, steps * bytes, args->in_place ? 0 : bytes};
}

static void path(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int hops = wi_log2_ceil(wi_pow2_floor(args->nranks)), reduced = args->nranks == 3 ? 2 : hops;
    *c = (struct wi_algo_cost){hops, wi_doubling_chain(args->nranks) * bytes, reduced * bytes, 0};
}

static int round_of(const struct wi_algo_args *args, int k, int *to, double *part)
{
    *to = k < 30 && args->rank + (1 << k) < args->nranks ? args->rank + (1 << k) : -1;
    *part = 1;
    return k < wi_log2_ceil(args->nranks);
}

const struct wi_algo wi_scan_rdouble = {
    .name = "rdouble",
    .coll = WI_COLL_SCAN,
    .needs = 0,
    .traits = {.shape = WI_SHAPE_DOUBLING},
    .summary = "prefix doubling: ceil(log2 P) steps",
    .build = build,
    .cost = cost,
    .path = path,
    .round = round_of,
};
