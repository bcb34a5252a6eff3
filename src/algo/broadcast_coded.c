/* SPDX-License-Identifier: BSD-3-Clause */
/* Coded broadcast down a k-nomial tree: the root encodes once, and its image is passed on as it is. All decode the same image, the
 * root too.
 *
 * One loss, whatever the number of ranks. A rank passes the image on before it decodes it.
 *
 *   steps: depth(P, k) · sent ≤ degree · n as images · encoded n by the root, decoded n by the others · images 1, no scratch
 *
 * P = 3, root 0:  0: PACK[0], DST <- SRC | PACK[0] -> 2, 1 · 1, 2: PACK[0] <- 0 | DST <- PACK[0]
 */
#include "algo/util.h"

static weft_status build(const struct wi_algo_args *args, struct wi_sched **sched)
{
    int n = args->nranks, root = args->root;
    struct wi_coded_image image;

    if (n == 1)
        return wi_algo_alone(args, &wi_broadcast_coded, sched);
    struct wi_knomial tree = wi_knomial_of(wi_mod(args->rank - root, n), n, wi_algo_radix(args));
    WI_TRY(
        wi_coded_hold(args, &wi_broadcast_coded, tree.parent < 0 ? WI_NO_PEER : wi_mod(tree.parent + root, n), &image));
    for (int i = tree.nchildren - 1; i >= 0; i--)
        wi_coded_pass_on(&image, wi_mod(wi_knomial_child(&tree, i) + root, n));
    return wi_coded_release(&image, sched);
}

static void cost(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    int n = args->nranks, degree = wi_knomial_of(0, n, wi_algo_radix(args)).nchildren;
    *c = (struct wi_algo_cost){wi_knomial_depth(n, wi_algo_radix(args)), degree * bytes, 0,
                               n == 1 && !args->in_place ? bytes : 0};
}

static void path(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *c)
{
    struct wi_tree_chain down = wi_knomial_down(0, args->nranks, wi_algo_radix(args), 0);
    *c = (struct wi_algo_cost){wi_knomial_depth(args->nranks, wi_algo_radix(args)), down.sent * bytes, 0, 0};
}

/* Of one rank alone nothing is coded. */
static struct wi_algo_coding coding(const struct wi_algo_args *args, double bytes)
{
    return args->nranks > 1 ? (struct wi_algo_coding){bytes, bytes} : (struct wi_algo_coding){0};
}

const struct wi_algo wi_broadcast_coded = {
    .name = "coded",
    .coll = WI_COLL_BROADCAST,
    .needs = WI_ALGO_CODED,
    .traits = {.shape = WI_SHAPE_KNOMIAL},
    .summary = "the root's image down a k-nomial tree",
    .build = build,
    .cost = cost,
    .path = path,
    .coding = coding,
};
