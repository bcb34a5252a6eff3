/* SPDX-License-Identifier: BSD-3-Clause */
/* Coded all-gather: everybody sends the image of its share to everybody. All have what the image holds, its maker too.
 *
 *   steps: 1 · sent (P-1)n as images · encoded n, decoded (P-1)n (n: one share) · images P+1, no scratch
 *
 * P = 3, rank 1:  PACK[0], DST[1] <- SRC | PACK[0] -> 2, 0 · PACK[1] <- 0, PACK[3] <- 2 | DST[0] <- PACK[1], DST[2] <- PACK[3]
 */
#include "base/alloc.h"
#include "algo/util.h"

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    uint32_t n = (uint32_t)args->nranks, own = (uint32_t)args->rank;
    struct wi_region src = wi_at(WI_SRC, 0, 1), dst[2] = {wi_at(WI_PACK, 0, 1), wi_at(WI_DST, own, 1)};
    struct wi_coded c;
    uint32_t encoded;

    if (n == 1)
        return wi_algo_alone(args, &wi_allgather_coded, sched);
    WI_TRY(wi_coded_begin(args, &wi_allgather_coded, 0, 0, n + 1, 1, &c));
    wi_sched_image(c.b, 0, WI_SRC, 0, 0);
    encoded = wi_sched_copy_to(c.b, c.own, dst, 2, src);
    for (int i = 1; i < args->nranks; i++) {
        int peer = wi_mod(args->rank + i, args->nranks);
        uint32_t share = (uint32_t)peer;
        wi_sched_image(c.b, 1 + share, WI_DST, share, WI_NO_RESIDUAL);
        wi_coded_send(&c, peer, 0, c.own, encoded);
        wi_coded_decode(&c, peer, wi_at(WI_DST, share, 1), 1 + share, wi_coded_recv(&c, peer, 1 + share));
    }
    wi_sched_image(c.b, 1 + own, WI_DST, own, WI_NO_RESIDUAL);
    return wi_coded_seal(&c, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    double peers = args->nranks - 1, alone = args->nranks == 1 && !args->in_place ? bytes : 0;

    *c = (struct wi_algo_cost){peers > 0, peers * bytes, 0, alone};
}

/* Of one rank alone nothing is coded. */
static struct wi_algo_coding coding(const struct wi_algo_args *args, double bytes)
{
    double peers = args->nranks - 1;

    return peers > 0 ? (struct wi_algo_coding){bytes, peers * bytes} : (struct wi_algo_coding){0};
}

const struct wi_algo wi_allgather_coded = {
    .name = "coded",
    .coll = WI_COLL_ALL_GATHER,
    .needs = WI_ALGO_CODED,
    .traits = {.shape = WI_SHAPE_FAN, .peer_messages = 2},
    .summary = "everybody sends the image of its share to everybody",
    .build = build,
    .cost = cost,
    .coding = coding,
};
