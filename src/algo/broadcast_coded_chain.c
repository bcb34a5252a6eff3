/* SPDX-License-Identifier: BSD-3-Clause */
/* Coded chain broadcast: the root encodes once, and every rank passes the image on to the next one. All decode the same image, the
 * root too.
 *
 * For long vectors: slices follow each other, no link carries the image twice.
 *
 *   steps: P-1 · sent n as images · encoded n by the root, decoded n by the others · images 1, no scratch
 *
 * P = 3, root 1:  1: PACK[0], DST <- SRC | PACK[0] -> 2 · 2: PACK[0] <- 1 | PACK[0] -> 0, DST <- PACK[0] · 0: PACK[0] <- 2 | DST
 */
#include "algo/util.h"

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int n = args->nranks, place = wi_mod(args->rank - args->root, n);
    struct wi_coded_image image;

    if (n == 1)
        return wi_algo_alone(args, &wi_broadcast_coded_chain, sched);
    WI_TRY(wi_coded_hold(args, &wi_broadcast_coded_chain, place ? wi_mod(args->rank - 1, n) : WI_NO_PEER, &image));
    if (place < n - 1)
        wi_coded_pass_on(&image, wi_mod(args->rank + 1, n));
    return wi_coded_release(&image, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int peers = args->nranks - 1;
    *c = (struct wi_algo_cost){peers, peers ? bytes : 0, 0, peers || args->in_place ? 0 : bytes};
}

static void path(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int peers = args->nranks - 1;
    *c = (struct wi_algo_cost){peers, peers * bytes, 0, 0};
}

/* Of one rank alone nothing is coded. */
static struct wi_algo_coding coding(const struct wi_algo_args *args, double bytes)
{
    return args->nranks > 1 ? (struct wi_algo_coding){bytes, bytes} : (struct wi_algo_coding){0};
}

const struct wi_algo wi_broadcast_coded_chain = {
    .name = "coded_chain",
    .coll = WI_COLL_BROADCAST,
    .needs = WI_ALGO_CODED,
    .traits = {.shape = WI_SHAPE_ROW, .relays = 1, .streams = 1},
    .summary = "the root's image along one chain, pipelined by slices",
    .build = build,
    .cost = cost,
    .path = path,
    .coding = coding,
};
