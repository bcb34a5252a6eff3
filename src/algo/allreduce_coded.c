/* SPDX-License-Identifier: BSD-3-Clause */
/* Coded all-reduce in one shot: every rank sends the image of its vector to all others, and all sum the same images, their own
 * among them, in rank order.
 *
 * One hop, one loss, but P-1 times the vector is sent and P times decoded: for short vectors and few ranks.
 *
 *   steps: 1 · sent (P-1)n as images · encoded n, decoded Pn · images P+1, no scratch
 *
 * P = 3, rank 1:  PACK[0] <- SRC | PACK[0] -> 2, 0 · PACK[1] <- 0 · PACK[3] <- 2 | DST = PACK[1] op PACK[0] op PACK[3]
 */
#include "base/alloc.h"
#include "algo/util.h"

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int n = args->nranks, next = wi_mod(args->rank + 1, n);
    struct wi_region dst = wi_at(WI_DST, 0, 1);
    struct wi_coded c;

    if (n == 1)
        return wi_algo_alone(args, &wi_allreduce_coded, sched);
    WI_TRY(wi_coded_begin(args, &wi_allreduce_coded, 1, WI_ACC_BLOCKS(n), (uint32_t)n + 1, 1, &c));
    wi_sched_image(c.b, 0, WI_SRC, 0, 0);
    wi_coded_encode(&c, next, 0, wi_at(WI_SRC, 0, 1));
    for (int i = 1; i < n; i++) {
        int peer = wi_mod(args->rank + i, n);
        wi_sched_image(c.b, 1 + (uint32_t)peer, WI_DST, 0, WI_NO_RESIDUAL);
        wi_coded_send(&c, peer, 0, c.work[next], c.encoded[next]);
        c.received[peer] = wi_coded_recv(&c, peer, 1 + (uint32_t)peer);
    }
    wi_sched_image(c.b, 1 + (uint32_t)args->rank, WI_DST, 0, WI_NO_RESIDUAL);
    wi_coded_sum(&c, &dst, 1, 1, wi_at(WI_PACK, 0, 1), c.received, wi_at(WI_TMP, 0, 1));
    return wi_coded_seal(&c, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    double peers = args->nranks - 1, alone = args->nranks == 1 && !args->in_place ? bytes : 0;
    int partial = args->nranks > 2 ? (args->nranks - 2) / (WI_REDUCE_MAX_SRC - 1)
                                   : 0; /* sums of many images are kept in between */

    *c = (struct wi_algo_cost){peers > 0, peers * bytes, partial * bytes, alone};
}

/* Of one rank alone nothing is coded. */
static struct wi_algo_coding coding(const struct wi_algo_args *args, double bytes)
{
    double peers = args->nranks - 1;

    return peers > 0 ? (struct wi_algo_coding){bytes, (peers + 1) * bytes} : (struct wi_algo_coding){0};
}

const struct wi_algo wi_allreduce_coded = {
    .name = "coded",
    .coll = WI_COLL_ALL_REDUCE,
    .needs = WI_ALGO_CODED,
    .traits = {.shape = WI_SHAPE_FAN, .peer_messages = 2},
    .summary = "one shot: everybody sends the image of its vector to everybody, who sum them",
    .build = build,
    .cost = cost,
    .coding = coding,
};
