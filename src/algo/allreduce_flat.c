/* SPDX-License-Identifier: BSD-3-Clause */
/* Flat one-shot all-reduce: everybody publishes its vector, everybody reduces all of them.
 *
 * For small messages on one node: one store and one wait per peer, no second phase. Every rank
 * reduces in rank order, so all results agree bit for bit. A rank's own operand comes from SRC,
 * which its cache holds already.
 *
 *   steps: 1 signal, P-1 waits · to the arena n, read (P-1)n · reduced (P-1)n · scratch n (2n
 *     past 64 ranks)
 *
 * P = 4, rank 1:  TMP <- SRC | signal | wait 2, 3, 0 | DST <- TMP@0 op SRC op TMP@2 op TMP@3
 *
 * Idea: the one-shot kernels of GPU inference engines; cost: Thakur, Rabenseifner, Gropp 2005,
 * section 5.
 */
#include "algo/util.h"

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int n = args->nranks;
    struct wi_sched_builder *b;

    if (n == 1)
        return wi_algo_alone(args, &wi_allreduce_flat, sched);
    WI_TRY(wi_algo_begin(args, &wi_allreduce_flat, 1, 1 + WI_ACC_BLOCKS(n), &b));
    uint32_t lane = wi_sched_lane(b, WI_NO_PEER, WI_NO_PEER, 0);
    struct wi_region dst = wi_at(WI_DST, 0, 1);
    struct wi_operands src = {WI_TMP, 0, 0, 0, n, wi_at(WI_SRC, 0, 1), 0};
    wi_sched_copy(b, lane, wi_at(WI_TMP, 0, 1), wi_at(WI_SRC, 0, 1));
    wi_sched_signal(b, lane);
    wi_algo_wait_all(args, b, lane, lane, 0);
    /* Past 64 operands the own one may come after a store, but that goes to TMP: DST may be SRC. */
    wi_algo_reduce(args, b, lane, &dst, 1, &src, wi_at(WI_TMP, 1, 1));
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int n = args->nranks;
    int copied = n > 1 || !args->in_place;
    *c = (struct wi_algo_cost){.steps = n > 1, .reduced = (n - 1) * bytes, .copied = copied * bytes};
}

const struct wi_algo wi_allreduce_flat = {
    .name = "flat",
    .coll = WI_COLL_ALL_REDUCE,
    .needs = WI_ALGO_MAPPED,
    .traits = {.one_shot = 1, .ll = 1},
    .summary = "one-shot through shared slots: every rank reduces every vector",
    .build = build,
    .cost = cost,
};
