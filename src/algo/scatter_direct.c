/* SPDX-License-Identifier: BSD-3-Clause */
/* Direct scatter: everybody copies its share from the root's SRC; the root waits until all have.
 *
 *   steps: 1 signal each, root P-1 waits, others 1 · read n · no scratch
 *
 * P = 4, root 1:  1: signal | DST <- SRC[1] | wait 2, 3, 0
 *                 0, 2, 3: wait 1 | DST <- SRC@1[rank] | signal
 */
#include "algo/util.h"

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    struct wi_sched_builder *b;
    uint32_t own = (uint32_t)args->rank;

    if (args->nranks == 1)
        return wi_algo_alone(args, &wi_scatter_direct, sched);
    WI_TRY(wi_algo_begin(args, &wi_scatter_direct, 0, 0, &b));
    uint32_t lane = wi_sched_lane(b, WI_NO_PEER, WI_NO_PEER, 0);
    if (args->rank != args->root) {
        wi_sched_wait(b, lane, args->root, lane, 0);
        wi_sched_copy(b, lane, wi_at(WI_DST, 0, 1), wi_at_rank(WI_SRC, args->root, own, 1));
        wi_sched_signal(b, lane);
        return wi_sched_seal(b, sched);
    }
    wi_sched_signal(b, lane);
    if (!args->in_place)
        wi_sched_copy(b, lane, wi_at(WI_DST, 0, 1), wi_at(WI_SRC, own, 1));
    wi_algo_wait_all(args, b, lane, lane, 0);
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int peers = args->nranks - 1;
    *c = (struct wi_algo_cost){.steps = peers > 0 ? 2 : 0, .copied = peers > 0 || !args->in_place ? bytes : 0};
}

const struct wi_algo wi_scatter_direct = {
    .name = "direct",
    .coll = WI_COLL_SCATTER,
    .needs = WI_ALGO_MAPPED | WI_ALGO_PEER_GET | WI_ALGO_UNIFORM,
    .summary = "everybody copies its share from the root's buffer",
    .build = build,
    .cost = cost,
};
