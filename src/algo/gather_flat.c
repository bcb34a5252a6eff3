/* SPDX-License-Identifier: BSD-3-Clause */
/* Flat gather: all but the root publish their shares, the root copies them out.
 *
 *   steps: 1 signal; root P-1 waits · to the arena n, root reads (P-1)n · scratch n
 *
 * P = 4, root 1:  0, 2, 3: TMP <- SRC | signal
 *                 1: DST[1] <- SRC | wait 2 | DST[2] <- TMP@2 | wait 3 | … | DST[0] <- TMP@0
 */
#include "algo/util.h"

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    struct wi_sched_builder *b;
    int n = args->nranks, root = args->root;

    if (n == 1)
        return wi_algo_alone(args, &wi_gather_flat, sched);
    WI_TRY(wi_algo_begin(args, &wi_gather_flat, 0, 1, &b));
    uint32_t lane = wi_sched_lane(b, WI_NO_PEER, WI_NO_PEER, 0);
    if (args->rank != root) {
        wi_sched_copy(b, lane, wi_at(WI_TMP, 0, 1), wi_at(WI_SRC, 0, 1));
        wi_sched_signal(b, lane);
        return wi_sched_seal(b, sched);
    }
    if (!args->in_place)
        wi_sched_copy(b, lane, wi_at(WI_DST, (uint32_t)root, 1), wi_at(WI_SRC, 0, 1));
    for (int i = 1; i < n; i++) {
        int peer = wi_mod(root + i, n);
        wi_sched_wait(b, lane, peer, lane, 0);
        wi_sched_copy(b, lane, wi_at(WI_DST, (uint32_t)peer, 1), wi_at_rank(WI_TMP, peer, 0, 1));
    }
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int peers = args->nranks - 1;
    *c = (struct wi_algo_cost){.steps = peers, .copied = (peers + !args->in_place) * bytes};
}

/* A rank copies in, then the root copies out, one after the other. */
static void path(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int n = args->nranks;
    *c = (struct wi_algo_cost){.steps = n - 1, .copied = (n > 1 ? n : !args->in_place) * bytes};
}

const struct wi_algo wi_gather_flat = {
    .name = "flat",
    .coll = WI_COLL_GATHER,
    .needs = WI_ALGO_MAPPED | WI_ALGO_UNIFORM,
    .traits = {.one_shot = 1, .ll = 1},
    .summary = "through shared slots, the root copies out",
    .build = build,
    .cost = cost,
    .path = path,
};
