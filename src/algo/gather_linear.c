/* SPDX-License-Identifier: BSD-3-Clause */
/* Linear gather: every share goes directly to the root.
 *
 * For large shares and few ranks: no byte moves twice. Shares may differ in size.
 *
 *   steps: 1 hop, P-1 messages to the root at once · sent n · no scratch
 *
 * P = 4, root 1:  0, 2, 3: SRC → 1     1: DST[0] <- 0, DST[2] <- 2, DST[3] <- 3, DST[1] <- SRC
 */
#include "algo/util.h"

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int n = args->nranks, root = args->root;
    struct wi_sched_builder *b;

    if (n == 1)
        return wi_algo_alone(args, &wi_gather_linear, sched);
    WI_TRY(wi_algo_begin(args, &wi_gather_linear, 0, 0, &b));
    if (args->rank != root) {
        wi_sched_send(b, wi_sched_lane(b, root, WI_NO_PEER, 0), wi_at(WI_SRC, 0, 1));
        return wi_sched_seal(b, sched);
    }
    for (int i = 1; i < n; i++) {
        int peer = wi_mod(root + i, n);
        wi_sched_recv(b, wi_sched_lane(b, WI_NO_PEER, peer, 0), wi_at(WI_DST, (uint32_t)peer, 1));
    }
    if (!args->in_place)
        wi_sched_copy(b, wi_sched_lane(b, WI_NO_PEER, WI_NO_PEER, 0), wi_at(WI_DST, (uint32_t)root, 1),
                      wi_at(WI_SRC, 0, 1));
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int peers = args->nranks - 1;
    *c = (struct wi_algo_cost){peers > 0, peers ? bytes : 0, 0, args->in_place ? 0 : bytes};
}

/* They all share the root's link. */
static void path(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int peers = args->nranks - 1;
    *c = (struct wi_algo_cost){peers > 0, peers * bytes, 0, 0};
}

const struct wi_algo wi_gather_linear = {
    .name = "linear",
    .coll = WI_COLL_GATHER,
    .needs = 0,
    .traits = {.shape = WI_SHAPE_FAN, .peer_messages = 1, .peers_last = 1},
    .summary = "everybody sends to the root",
    .build = build,
    .cost = cost,
    .path = path,
};
