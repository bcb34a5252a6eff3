/* SPDX-License-Identifier: BSD-3-Clause */
/* Reduce by ring reduce-scatter and gather: every link carries at most the vector once, every rank
 * reduces 1/P of it.
 *
 * For large messages and operators that cost: reduction is spread evenly.
 *
 *   steps: P · sent n · reduced n(P-1)/P · scratch n (n/P touched at a time)
 *
 * P = 4, root 0, rank 1:  lane 0: send SRC[1] → 2 | TMP = SRC[0] op recv → 2 | TMP = SRC[3] op recv → 2
 *                                 TMP = SRC[2] op recv (complete) | (lane 1) send TMP → 0
 *                rank 0:  the same, but DST[1] = SRC[1] op recv; DST[2] <- 1, DST[3] <- 2, DST[0] <- 3
 *
 * In place, a block of DST may be received only after the ring has read it. Results travel on a
 * channel of their own, as the root may be the next rank of the ring too. Scratch is indexed like
 * the vector, because a block of scratch is as long as the vector's block of the same number.
 */
#include "algo/util.h"

static void collect(const struct wi_algo_args *args, struct wi_sched_builder *b, uint32_t ring)
{
    int n = args->nranks, root = args->root;

    for (int i = 1; i < n; i++) {
        int peer = wi_mod(root - i, n), block = wi_mod(peer + 1, n);
        uint32_t lane = wi_sched_lane(b, WI_NO_PEER, peer, 1);
        wi_sched_recv(b, lane, wi_at(WI_DST, (uint32_t)block, 1));
        if (args->in_place)
            wi_sched_after(b, lane, ring, (uint32_t)wi_mod(root - block, n));
    }
}

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int n = args->nranks, rank = args->rank, is_root = rank == args->root;
    uint32_t mine = (uint32_t)wi_mod(rank + 1, n), done;
    struct wi_sched_builder *b;

    if (n == 1)
        return wi_algo_alone(args, &wi_reduce_rsgather, sched);
    WI_TRY(wi_algo_begin(args, &wi_reduce_rsgather, (uint32_t)n, (uint32_t)n, &b));
    struct wi_region acc = wi_at(WI_TMP, mine, 1);
    uint32_t ring = wi_sched_lane(b, wi_mod(rank + 1, n), wi_mod(rank - 1, n), 0);
    wi_sched_send(b, ring, wi_at(WI_SRC, (uint32_t)rank, 1));
    for (int k = 1; k < n - 1; k++) {
        uint32_t block = (uint32_t)wi_mod(rank - k, n);
        wi_sched_recv_reduce_send(b, ring, wi_at(WI_TMP, block, 1), wi_at(WI_SRC, block, 1), 0);
    }
    done = wi_sched_recv_reduce(b, ring, is_root ? wi_at(WI_DST, mine, 1) : acc, wi_at(WI_SRC, mine, 1), WI_STEP_FINAL);
    if (is_root) {
        collect(args, b, ring);
        return wi_sched_seal(b, sched);
    }
    uint32_t lane = wi_sched_lane(b, args->root, WI_NO_PEER, 1);
    wi_sched_send(b, lane, acc);
    wi_sched_after(b, lane, ring, done);
    return wi_sched_seal(b, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int n = args->nranks;
    double alone = n == 1 && !args->in_place ? bytes : 0;
    *c = (struct wi_algo_cost){n > 1 ? n : 0, n > 1 ? bytes : 0, (n - 1) * bytes / n, alone};
}

/* Once round, then all results share the root's link. */
static void path(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    double part = (args->nranks - 1) * bytes / args->nranks;
    *c = (struct wi_algo_cost){args->nranks > 1 ? args->nranks : 0, 2 * part, part, 0};
}

const struct wi_algo wi_reduce_rsgather = {
    .name = "rsgather",
    .coll = WI_COLL_REDUCE,
    .needs = WI_ALGO_COMMUTATIVE,
    .traits = {.slices = WI_SLICES_OF_SHARES},
    .summary = "ring reduce-scatter, then every rank sends its block to the root",
    .build = build,
    .cost = cost,
    .path = path,
};
