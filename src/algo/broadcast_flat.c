/* SPDX-License-Identifier: BSD-3-Clause */
/* Flat broadcast: the root publishes its vector once, everybody copies it out.
 *
 *   steps: 1 signal, 1 wait · root writes n to the arena, others read n · scratch n
 *
 * P = 4, root 1:  1: TMP <- SRC | signal | DST <- SRC
 *                 0, 2, 3: wait 1 | DST <- TMP@1
 *
 * Only the root signals: the fan-out of a cache line costs less than P-1 messages.
 */
#include "algo/util.h"

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    struct wi_sched_builder *b;

    if (args->nranks == 1)
        return wi_algo_alone(args, &wi_broadcast_flat, sched);
    WI_TRY(wi_algo_begin(args, &wi_broadcast_flat, 1, 1, &b));
    uint32_t lane = wi_sched_lane(b, WI_NO_PEER, WI_NO_PEER, 0);
    if (args->rank != args->root) {
        wi_sched_wait(b, lane, args->root, lane, 0);
        wi_sched_copy(b, lane, wi_at(WI_DST, 0, 1), wi_at_rank(WI_TMP, args->root, 0, 1));
        return wi_sched_seal(b, sched);
    }
    wi_sched_copy(b, lane, wi_at(WI_TMP, 0, 1), wi_at(WI_SRC, 0, 1));
    wi_sched_signal(b, lane);
    if (!args->in_place)
        wi_sched_copy(b, lane, wi_at(WI_DST, 0, 1), wi_at(WI_SRC, 0, 1));
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int alone = args->nranks == 1;
    *c = (struct wi_algo_cost){.steps = !alone, .copied = (!alone + !args->in_place) * bytes};
}

/* In, and out: one after the other. */
static void path(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int n = args->nranks;
    *c = (struct wi_algo_cost){.steps = n > 1, .copied = (n > 1 ? 2 : !args->in_place) * bytes};
}

const struct wi_algo wi_broadcast_flat = {
    .name = "flat",
    .coll = WI_COLL_BROADCAST,
    .needs = WI_ALGO_MAPPED,
    .traits = {.one_shot = 1, .ll = 1},
    .summary = "through the root's shared slot",
    .build = build,
    .cost = cost,
    .path = path,
};
