/* SPDX-License-Identifier: BSD-3-Clause */
/* Linear scatter: every share goes directly from the root to its owner.
 *
 * For large shares and few ranks: no byte moves twice. Shares may differ in size.
 *
 *   steps: 1 hop, P-1 messages from the root at once · root sends (P-1)n · no scratch
 *
 * P = 4, root 1:  1: SRC[2] → 2, SRC[3] → 3, SRC[0] → 0, DST <- SRC[1]     0, 2, 3: DST <- 1
 */
#include "algo/util.h"

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int n = args->nranks, root = args->root;
    struct wi_sched_builder *b;

    if (n == 1)
        return wi_algo_alone(args, &wi_scatter_linear, sched);
    WI_TRY(wi_algo_begin(args, &wi_scatter_linear, 0, 0, &b));
    if (args->rank != root) {
        wi_sched_recv(b, wi_sched_lane(b, WI_NO_PEER, root, 0), wi_at(WI_DST, 0, 1));
        return wi_sched_seal(b, sched);
    }
    for (int i = 1; i < n; i++) {
        int peer = wi_mod(root + i, n);
        wi_sched_send(b, wi_sched_lane(b, peer, WI_NO_PEER, 0), wi_at(WI_SRC, (uint32_t)peer, 1));
    }
    if (!args->in_place)
        wi_sched_copy(b, wi_sched_lane(b, WI_NO_PEER, WI_NO_PEER, 0), wi_at(WI_DST, 0, 1),
                      wi_at(WI_SRC, (uint32_t)root, 1));
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int peers = args->nranks - 1;
    *c = (struct wi_algo_cost){peers > 0, peers * bytes, 0, args->in_place ? 0 : bytes};
}

const struct wi_algo wi_scatter_linear = {
    .name = "linear",
    .coll = WI_COLL_SCATTER,
    .needs = 0,
    .traits = {.shape = WI_SHAPE_FAN, .peer_messages = 1},
    .summary = "the root sends to everybody",
    .build = build,
    .cost = cost,
};
