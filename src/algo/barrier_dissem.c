/* SPDX-License-Identifier: BSD-3-Clause */
/* Dissemination barrier: in step k every rank tells the rank 2^k above and hears from the rank 2^k
 * below.
 *
 * After the last step every rank has heard, directly or not, from all others.
 *
 *   steps: ceil(log2 P) · empty messages · no scratch
 *
 * P = 4, rank 1:  → 2, from 0 | → 3, from 3
 *
 * Hensgen, Finkel, Manber: Two algorithms for barrier synchronization, 1988.
 */
#include "algo/util.h"

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int n = args->nranks, rank = args->rank;
    struct wi_sched_builder *b;

    if (n == 1)
        return wi_algo_alone(args, &wi_barrier_dissem, sched);
    WI_TRY(wi_algo_begin(args, &wi_barrier_dissem, 0, 0, &b));
    struct wi_seq seq = wi_seq_begin(b);
    for (int distance = 1; distance < n; distance *= 2) {
        uint32_t lane = wi_sched_lane(b, wi_mod(rank + distance, n), wi_mod(rank - distance, n), 0);
        wi_seq_send(&seq, lane, wi_at(WI_SRC, 0, 1));
        wi_seq_recv(&seq, lane, wi_at(WI_DST, 0, 1));
    }
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    (void)bytes;
    *c = (struct wi_algo_cost){.steps = wi_log2_ceil(args->nranks)};
}

static int round_of(const struct wi_algo_args *args, int k, int *to, double *part)
{
    *to = wi_mod(args->rank + (1 << (k < 30 ? k : 30)), args->nranks);
    *part = 0;
    return k < wi_log2_ceil(args->nranks);
}

const struct wi_algo wi_barrier_dissem = {
    .name = "dissem",
    .coll = WI_COLL_BARRIER,
    .needs = 0,
    .summary = "dissemination: ceil(log2 P) empty messages",
    .build = build,
    .cost = cost,
    .round = round_of,
};
