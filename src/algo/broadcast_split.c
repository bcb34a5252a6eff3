/* SPDX-License-Identifier: BSD-3-Clause */
/* Split broadcast: everybody copies most of the root's SRC, and the root meanwhile stores the rest into every DST.
 *
 * In a direct broadcast the root's core idles while the others read. Here it takes a share of their work: of 1/32 parts of
 * the vector, the last `given` are stored by the root into each of the P-1 others. A store into memory that its owner has
 * in its cache takes some 1.75 times a copy from there, hence given = 32 / (1 + 1.75 (P-1)), rounded: 12 with two ranks
 * (0.64 of the direct time), 5 with four (0.84), and none is left past 37.
 *
 *   steps: 2 signals each, root 2(P-1) waits, others 2 · others read n (1 - given/32), the root stores (P-1) n given/32
 *     no scratch
 *
 * P = 2, root 0:  0: signal | wait 1 | DST@1[20..32] <- SRC[20..32] | DST <- SRC | signal | wait 1
 *                 1: signal | wait 0 | DST[0..20] <- SRC@0[0..20] | signal | wait 0
 *
 * The root writes what it owes the others before its own copy, which, out of place, makes it the last. The last waits keep
 * SRC and DST alive until all is done.
 */
#include "algo/util.h"

#define PARTS 32u
#define STORE_FACTOR 1.75 /* measured between two cores, doc/guide/shared-memory.md */

static uint32_t given(int nranks)
{
    return (uint32_t)(PARTS / (1 + STORE_FACTOR * (nranks - 1)) + 0.5);
}

static void build_root(const struct wi_algo_args *args, struct wi_sched_builder *b, uint32_t lane)
{
    uint32_t some = given(args->nranks), from = PARTS - some;

    wi_sched_signal(b, lane);
    for (int i = 1; some && i < args->nranks; i++) {
        int peer = wi_mod(args->rank + i, args->nranks);
        wi_sched_wait(b, lane, peer, lane, 0);
        wi_sched_copy(b, lane, wi_at_rank(WI_DST, peer, from, some), wi_at(WI_SRC, from, some));
    }
    wi_sched_signal(b, lane);
    if (!args->in_place)
        wi_sched_copy(b, lane, wi_at(WI_DST, 0, PARTS), wi_at(WI_SRC, 0, PARTS));
    wi_algo_wait_all(args, b, lane, lane, 1);
}

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    uint32_t own = PARTS - given(args->nranks);
    struct wi_sched_builder *b;

    if (args->nranks == 1)
        return wi_algo_alone(args, &wi_broadcast_split, sched);
    WI_TRY(wi_algo_begin(args, &wi_broadcast_split, PARTS, 0, &b));
    uint32_t lane = wi_sched_lane(b, WI_NO_PEER, WI_NO_PEER, 0);
    if (args->rank == args->root) {
        build_root(args, b, lane);
        return wi_sched_seal(b, sched);
    }
    wi_sched_signal(b, lane);
    wi_sched_wait(b, lane, args->root, lane, 0);
    wi_sched_copy(b, lane, wi_at(WI_DST, 0, own), wi_at_rank(WI_SRC, args->root, 0, own));
    wi_sched_signal(b, lane);
    wi_sched_wait(b, lane, args->root, lane, 1);
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int peers = args->nranks - 1;
    double some = peers > 0 ? given(args->nranks) / (double)PARTS : 0;
    double root = peers * some + !args->in_place, other = peers > 0 ? 1 - some : 0;
    *c = (struct wi_algo_cost){.steps = peers > 0 ? args->nranks : 0, .copied = (root > other ? root : other) * bytes};
}

/* Root and others work at the same time, and each waits for the other in the end. */
static double time_of(const struct wi_algo_args *args, double bytes, const struct wi_algo_rates *rates)
{
    double copy = wi_algo_over(bytes, rates->copy_rate), alone = args->in_place ? 0 : copy;
    int peers = args->nranks - 1;

    if (peers == 0)
        return alone;
    double some = given(args->nranks) / (double)PARTS, other = rates->alpha + (1 - some) * copy;
    double root = (some > 0 ? peers * (rates->alpha + some * copy) : 0) + alone;
    return (root > other ? root : other) + rates->alpha;
}

const struct wi_algo wi_broadcast_split = {
    .name = "split",
    .coll = WI_COLL_BROADCAST,
    .needs = WI_ALGO_MAPPED | WI_ALGO_PEER_GET | WI_ALGO_PEER_PUT,
    .summary = "everybody copies from the root's buffer, and the root stores the rest into theirs",
    .build = build,
    .cost = cost,
    .time = time_of,
};
