/* SPDX-License-Identifier: BSD-3-Clause */
/* Coded reduce-scatter: every share's image goes directly to its owner, who sums them in rank order, its own contribution exact.
 *
 * One hop, one loss. Shares may differ in size.
 *
 *   steps: 1 · sent (P-1)n as images · encoded (P-1)n, decoded (P-1)n (n: one share) · images 2P, no scratch to 64 ranks
 *
 * P = 3, rank 1:  PACK[2] <- SRC[2], PACK[0] <- SRC[0] | PACK[2] -> 2, PACK[0] -> 0 · PACK[3] <- 0, PACK[5] <- 2
 *                 DST = PACK[3] op SRC[1] op PACK[5]
 */
#include "base/alloc.h"
#include "algo/util.h"

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    uint32_t n = (uint32_t)args->nranks;
    struct wi_region dst = wi_at(WI_DST, 0, 1);
    struct wi_coded c;

    if (n == 1)
        return wi_algo_alone(args, &wi_reducescatter_coded, sched);
    WI_TRY(wi_coded_begin(args, &wi_reducescatter_coded, 0, WI_ACC_BLOCKS(n), 2 * n, 1, &c));
    for (int i = 1; i < args->nranks; i++) {
        int peer = wi_mod(args->rank + i, args->nranks);
        uint32_t share = (uint32_t)peer;
        wi_sched_image(c.b, share, WI_SRC, share, 0);
        wi_sched_image(c.b, n + share, WI_DST, 0, WI_NO_RESIDUAL);
        wi_coded_encode(&c, peer, share, wi_at(WI_SRC, share, 1));
        wi_coded_send(&c, peer, share, c.work[peer], c.encoded[peer]);
        c.received[peer] = wi_coded_recv(&c, peer, n + share);
    }
    wi_coded_sum(&c, &dst, 1, n, wi_at(WI_SRC, (uint32_t)args->rank, 1), c.received, wi_at(WI_TMP, 0, 1));
    return wi_coded_seal(&c, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    double peers = args->nranks - 1, alone = args->nranks == 1 && !args->in_place ? bytes : 0;
    int partial = args->nranks > 2 ? (args->nranks - 2) / (WI_REDUCE_MAX_SRC - 1) : 0;

    *c = (struct wi_algo_cost){peers > 0, peers * bytes, peers > 0 ? (1 + partial) * bytes : 0, alone};
}

/* Of one rank alone nothing is coded. */
static struct wi_algo_coding coding(const struct wi_algo_args *args, double bytes)
{
    double peers = args->nranks - 1;

    return peers > 0 ? (struct wi_algo_coding){peers * bytes, peers * bytes} : (struct wi_algo_coding){0};
}

const struct wi_algo wi_reducescatter_coded = {
    .name = "coded",
    .coll = WI_COLL_REDUCE_SCATTER,
    .needs = WI_ALGO_CODED,
    .traits = {.shape = WI_SHAPE_FAN, .peer_messages = 2},
    .summary = "images of shares go directly to their owners, who sum them",
    .build = build,
    .cost = cost,
    .coding = coding,
};
