/* SPDX-License-Identifier: BSD-3-Clause */
/* Linear exclusive scan: every rank keeps the prefix that it receives and passes on that prefix
 * with its own vector added.
 *
 * For large messages: slices follow each other and nothing is sent twice. Rank order kept.
 *
 *   steps: P-1 · sent n · reduced n · scratch 2n
 *
 * P = 4:  0: SRC → 1 · 1: DST = [0], [0] op SRC → 2 · 2: DST = [01], [01] op SRC → 3 · 3: DST = [012]
 *
 * The prefix goes through scratch, for DST may be SRC. Rank 0's result is undefined and stays
 * untouched.
 */
#include "algo/util.h"

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int n = args->nranks, rank = args->rank;
    struct wi_region src = wi_at(WI_SRC, 0, 1), dst = wi_at(WI_DST, 0, 1);
    struct wi_region prefix = wi_at(WI_TMP, 0, 1), sum = wi_at(WI_TMP, 1, 1);
    struct wi_sched_builder *b;

    if (n == 1)
        return wi_algo_alone(args, &wi_exscan_linear, sched);
    WI_TRY(wi_algo_begin(args, &wi_exscan_linear, 1, 2, &b));
    uint32_t lane = wi_sched_lane(b, rank < n - 1 ? rank + 1 : WI_NO_PEER, rank ? rank - 1 : WI_NO_PEER, 0);
    if (rank == 0) {
        wi_sched_send(b, lane, src);
    } else if (rank == n - 1) {
        wi_sched_recv(b, lane, dst);
    } else {
        wi_sched_recv(b, lane, prefix);
        wi_sched_reduce(b, lane, &sum, 1, (struct wi_region[]){prefix, src}, 2, 0);
        wi_sched_send(b, lane, sum);
        wi_sched_copy(b, lane, dst, prefix);
    }
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int n = args->nranks;
    double inner = n > 2 ? bytes : 0;
    *c = (struct wi_algo_cost){n - 1, n > 1 ? bytes : 0, inner, inner};
}

static void path(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int peers = args->nranks - 1;
    *c = (struct wi_algo_cost){peers, peers * bytes, (peers > 1 ? peers - 1 : 0) * bytes, 0};
}

const struct wi_algo wi_exscan_linear = {
    .name = "linear",
    .coll = WI_COLL_EXSCAN,
    .needs = 0,
    .traits = {.shape = WI_SHAPE_ROW, .relays = 1, .slices = WI_SLICES_NONE},
    .summary = "chain from rank 0 to rank P-1, pipelined by slices",
    .build = build,
    .cost = cost,
    .path = path,
};
