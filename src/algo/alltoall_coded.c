/* SPDX-License-Identifier: BSD-3-Clause */
/* Coded all-to-all: the image of each share goes directly to its rank; what a rank sends itself is exact.
 *
 *   steps: 1 · sent (P-1)n as images · encoded (P-1)n, decoded (P-1)n (n: one share) · images 2P, no scratch
 *
 * P = 3, rank 1:  PACK[2] <- SRC[2], PACK[0] <- SRC[0] | PACK[2] -> 2, PACK[0] -> 0 · PACK[3] <- 0, PACK[5] <- 2
 *                 DST[0] <- PACK[3], DST[2] <- PACK[5], DST[1] <- SRC[1]
 */
#include "base/alloc.h"
#include "algo/util.h"

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    uint32_t n = (uint32_t)args->nranks, own = (uint32_t)args->rank;
    struct wi_coded c;

    if (n == 1)
        return wi_algo_alone(args, &wi_alltoall_coded, sched);
    WI_TRY(wi_coded_begin(args, &wi_alltoall_coded, 0, 0, 2 * n, 1, &c));
    for (int i = 1; i < args->nranks; i++) {
        int peer = wi_mod(args->rank + i, args->nranks);
        uint32_t share = (uint32_t)peer;
        wi_sched_image(c.b, share, WI_SRC, share, 0);
        wi_sched_image(c.b, n + share, WI_DST, share, WI_NO_RESIDUAL);
        wi_coded_encode(&c, peer, share, wi_at(WI_SRC, share, 1));
        wi_coded_send(&c, peer, share, c.work[peer], c.encoded[peer]);
        c.received[peer] = wi_coded_recv(&c, peer, n + share);
    }
    for (int i = 1; i < args->nranks; i++) {
        int peer = wi_mod(args->rank + i, args->nranks);
        wi_coded_decode(&c, peer, wi_at(WI_DST, (uint32_t)peer, 1), n + (uint32_t)peer, c.received[peer]);
    }
    wi_sched_copy(c.b, c.own, wi_at(WI_DST, own, 1), wi_at(WI_SRC, own, 1));
    return wi_coded_seal(&c, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    double peers = args->nranks - 1;

    *c = (struct wi_algo_cost){peers > 0, peers * bytes, 0, bytes};
}

/* Of one rank alone nothing is coded. */
static struct wi_algo_coding coding(const struct wi_algo_args *args, double bytes)
{
    double peers = args->nranks - 1;

    return peers > 0 ? (struct wi_algo_coding){peers * bytes, peers * bytes} : (struct wi_algo_coding){0};
}

const struct wi_algo wi_alltoall_coded = {
    .name = "coded",
    .coll = WI_COLL_ALL_TO_ALL,
    .needs = WI_ALGO_CODED | WI_ALGO_NO_IN_PLACE,
    .traits = {.shape = WI_SHAPE_FAN, .peer_messages = 2},
    .summary = "the image of each share goes directly to its rank",
    .build = build,
    .cost = cost,
    .coding = coding,
};
