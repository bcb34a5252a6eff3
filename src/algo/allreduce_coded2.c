/* SPDX-License-Identifier: BSD-3-Clause */
/* Coded all-reduce in two shots: every rank sends each other one the image of its block there, who sums them in rank order, its own
 * contribution exact, and sends the image of the sum to all. All have what that image holds, its maker too.
 *
 * 2(P-1)/P of the vector is sent, as in a ring, but each element is encoded twice only, whatever P is.
 *
 *   steps: 2 · sent 2n(P-1)/P as images · encoded n, decoded 2n - 2n/P + n/P · images 3P, no scratch to 64 ranks
 *
 * P = 3, rank 1:  PACK[2] <- SRC[2], PACK[0] <- SRC[0] | PACK[2] -> 2, PACK[0] -> 0 · PACK[3] <- 0, PACK[5] <- 2
 *                 PACK[1], DST[1] = PACK[3] op SRC[1] op PACK[5] | PACK[1] -> 2, 0 · PACK[6] <- 0, PACK[8] <- 2
 *                 DST[0] <- PACK[6], DST[2] <- PACK[8]
 */
#include "base/alloc.h"
#include "algo/util.h"

static void first_shot(struct wi_coded *c, uint32_t *received)
{
    uint32_t n = (uint32_t)c->nranks, own = (uint32_t)c->rank;

    for (int i = 1; i < c->nranks; i++) {
        int peer = wi_mod(c->rank + i, c->nranks);
        uint32_t block = (uint32_t)peer;
        wi_sched_image(c->b, block, WI_SRC, block, 0);
        wi_sched_image(c->b, n + block, WI_DST, own, WI_NO_RESIDUAL);
        wi_sched_image(c->b, 2 * n + block, WI_DST, block, WI_NO_RESIDUAL);
        wi_coded_encode(c, peer, block, wi_at(WI_SRC, block, 1));
        wi_coded_send(c, peer, block, c->work[peer], c->encoded[peer]);
        received[peer] = wi_coded_recv(c, peer, n + block);
    }
    wi_sched_image(c->b, own, WI_DST, own, 1);
}

static void second_shot(struct wi_coded *c, uint32_t summed)
{
    uint32_t n = (uint32_t)c->nranks, own = (uint32_t)c->rank;

    for (int i = 1; i < c->nranks; i++) {
        int peer = wi_mod(c->rank + i, c->nranks);
        uint32_t block = (uint32_t)peer;
        wi_coded_send(c, peer, own, c->own, summed);
        wi_coded_decode(c, peer, wi_at(WI_DST, block, 1), 2 * n + block, wi_coded_recv(c, peer, 2 * n + block));
    }
}

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    uint32_t n = (uint32_t)args->nranks, own = (uint32_t)args->rank, *received;
    struct wi_region dst[2] = {wi_at(WI_PACK, own, 1), wi_at(WI_DST, own, 1)};
    struct wi_coded c;

    if (n == 1)
        return wi_algo_alone(args, &wi_allreduce_coded2, sched);
    WI_TRY(wi_coded_begin(args, &wi_allreduce_coded2, n, n > WI_REDUCE_MAX_SRC ? n : 0, 3 * n, 2, &c));
    received = c.received;
    first_shot(&c, received);
    second_shot(&c, wi_coded_sum(&c, dst, 2, n, wi_at(WI_SRC, own, 1), received, wi_at(WI_TMP, own, 1)));
    return wi_coded_seal(&c, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    double n = args->nranks, alone = args->nranks == 1 && !args->in_place ? bytes : 0;
    int partial = args->nranks > 2 ? (args->nranks - 2) / (WI_REDUCE_MAX_SRC - 1) : 0;

    *c = (struct wi_algo_cost){n > 1 ? 2 : 0, 2 * (n - 1) / n * bytes, n > 1 ? (1 + partial) / n * bytes : 0, alone};
}

/* Of one rank alone nothing is coded. */
static struct wi_algo_coding coding(const struct wi_algo_args *args, double bytes)
{
    double peers = args->nranks - 1;

    return peers > 0 ? (struct wi_algo_coding){bytes, 2 * peers / (peers + 1) * bytes} : (struct wi_algo_coding){0};
}

const struct wi_algo wi_allreduce_coded2 = {
    .name = "coded2",
    .coll = WI_COLL_ALL_REDUCE,
    .needs = WI_ALGO_CODED,
    .traits = {.shape = WI_SHAPE_FAN, .peer_messages = 2},
    .summary = "two shots: images of blocks to their owners, who sum them, and images of the sums back",
    .build = build,
    .cost = cost,
    .coding = coding,
};
