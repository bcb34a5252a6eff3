/* SPDX-License-Identifier: BSD-3-Clause */
/* Linear scan: every rank adds its vector to the prefix that it receives and passes it on.
 *
 * For large messages: slices follow each other and nothing is sent twice. Rank order kept.
 *
 *   steps: P-1 · sent n · reduced n · no scratch
 *
 * P = 4:  0: SRC → 1 · 1: DST = [0] op SRC → 2 · 2: DST = [01] op SRC → 3 · 3: DST = [012] op SRC
 */
#include "algo/util.h"

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int n = args->nranks, rank = args->rank;
    struct wi_region src = wi_at(WI_SRC, 0, 1), dst = wi_at(WI_DST, 0, 1);
    struct wi_sched_builder *b;

    if (n == 1)
        return wi_algo_alone(args, &wi_scan_linear, sched);
    WI_TRY(wi_algo_begin(args, &wi_scan_linear, 1, 0, &b));
    uint32_t lane = wi_sched_lane(b, rank < n - 1 ? rank + 1 : WI_NO_PEER, rank ? rank - 1 : WI_NO_PEER, 0);
    if (rank == 0)
        wi_sched_send(b, lane, src);
    else if (rank < n - 1)
        wi_sched_recv_reduce_send(b, lane, dst, src, WI_STEP_RECV_LEFT);
    else
        wi_sched_recv_reduce(b, lane, dst, src, WI_STEP_RECV_LEFT);
    if (rank == 0 && !args->in_place)
        wi_sched_copy(b, wi_sched_lane(b, WI_NO_PEER, WI_NO_PEER, 0), dst, src);
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int peers = args->nranks - 1;
    double moved = peers ? bytes : 0;
    *c = (struct wi_algo_cost){peers, moved, moved, args->in_place ? 0 : bytes};
}

static void path(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int peers = args->nranks - 1;
    *c = (struct wi_algo_cost){peers, peers * bytes, peers * bytes, 0};
}

const struct wi_algo wi_scan_linear = {
    .name = "linear",
    .coll = WI_COLL_SCAN,
    .needs = 0,
    .traits = {.shape = WI_SHAPE_ROW, .relays = 1},
    .summary = "chain from rank 0 to rank P-1, pipelined by slices",
    .build = build,
    .cost = cost,
    .path = path,
};
