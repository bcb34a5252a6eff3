/* SPDX-License-Identifier: BSD-3-Clause */
/* Flat scatter: the root publishes everybody's share, everybody copies its own out.
 *
 *   steps: 1 signal, 1 wait · root writes (P-1)n to the arena, others read n · scratch Pn (n:
 *     one share)
 *
 * P = 4, root 1:  1: TMP[0] <- SRC[0], TMP[2,3] <- SRC[2,3] | signal | DST <- SRC[1]
 *                 0, 2, 3: wait 1 | DST <- TMP@1[rank]
 */
#include "algo/util.h"

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    struct wi_sched_builder *b;
    int n = args->nranks, root = args->root;
    uint32_t own = (uint32_t)args->rank;

    if (n == 1)
        return wi_algo_alone(args, &wi_scatter_flat, sched);
    WI_TRY(wi_algo_begin(args, &wi_scatter_flat, 0, (uint32_t)n, &b));
    uint32_t lane = wi_sched_lane(b, WI_NO_PEER, WI_NO_PEER, 0);
    if (args->rank != root) {
        wi_sched_wait(b, lane, root, lane, 0);
        wi_sched_copy(b, lane, wi_at(WI_DST, 0, 1), wi_at_rank(WI_TMP, root, own, 1));
        return wi_sched_seal(b, sched);
    }
    wi_algo_copy_but(b, lane, WI_TMP, WI_SRC, n, root);
    wi_sched_signal(b, lane);
    if (!args->in_place)
        wi_sched_copy(b, lane, wi_at(WI_DST, 0, 1), wi_at(WI_SRC, own, 1));
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int peers = args->nranks - 1;
    *c = (struct wi_algo_cost){.steps = peers > 0, .copied = (peers + !args->in_place) * bytes};
}

/* The root copies in, then a rank copies out. */
static void path(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int n = args->nranks;
    *c = (struct wi_algo_cost){.steps = n > 1, .copied = (n > 1 ? n : !args->in_place) * bytes};
}

const struct wi_algo wi_scatter_flat = {
    .name = "flat",
    .coll = WI_COLL_SCATTER,
    .needs = WI_ALGO_MAPPED | WI_ALGO_UNIFORM,
    .traits = {.one_shot = 1, .ll = 1},
    .summary = "through the root's shared slots",
    .build = build,
    .cost = cost,
    .path = path,
};
