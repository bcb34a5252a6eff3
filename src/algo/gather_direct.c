/* SPDX-License-Identifier: BSD-3-Clause */
/* Direct gather: the root copies every share from its owner's SRC; the others wait until it has.
 *
 *   steps: 1 signal each, root P-1 waits, others 1 · root reads (P-1)n · no scratch
 *
 * P = 4, root 1:  0, 2, 3: signal | wait 1
 *                 1: DST[1] <- SRC | wait 2 | DST[2] <- SRC@2 | … | DST[0] <- SRC@0 | signal
 */
#include "algo/util.h"

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    struct wi_sched_builder *b;
    int n = args->nranks, root = args->root;

    if (n == 1)
        return wi_algo_alone(args, &wi_gather_direct, sched);
    WI_TRY(wi_algo_begin(args, &wi_gather_direct, 0, 0, &b));
    uint32_t lane = wi_sched_lane(b, WI_NO_PEER, WI_NO_PEER, 0);
    if (args->rank != root) {
        wi_sched_signal(b, lane);
        wi_sched_wait(b, lane, root, lane, 0);
        return wi_sched_seal(b, sched);
    }
    if (!args->in_place)
        wi_sched_copy(b, lane, wi_at(WI_DST, (uint32_t)root, 1), wi_at(WI_SRC, 0, 1));
    for (int i = 1; i < n; i++) {
        int peer = wi_mod(root + i, n);
        wi_sched_wait(b, lane, peer, lane, 0);
        wi_sched_copy(b, lane, wi_at(WI_DST, (uint32_t)peer, 1), wi_at_rank(WI_SRC, peer, 0, 1));
    }
    wi_sched_signal(b, lane);
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int peers = args->nranks - 1;
    *c = (struct wi_algo_cost){.steps = peers == 1 ? 2 : peers, .copied = (peers + !args->in_place) * bytes};
}

/* A wait before each copy, and one of the others for the last of them. */
static void path(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    cost(args, bytes, c);
    c->steps = args->nranks > 1 ? args->nranks : 0;
}

const struct wi_algo wi_gather_direct = {
    .name = "direct",
    .coll = WI_COLL_GATHER,
    .needs = WI_ALGO_MAPPED | WI_ALGO_PEER_GET | WI_ALGO_UNIFORM,
    .summary = "the root copies from every rank's buffer",
    .build = build,
    .cost = cost,
    .path = path,
};
