/* SPDX-License-Identifier: BSD-3-Clause */
/* The longest way of one slice through a k-nomial tree, or through prefix doubling: for closed forms. */
#include "algo/util.h"

/* Which chain is longer? Links are slower than reductions nearly everywhere. */
static int longer(struct wi_tree_chain a, struct wi_tree_chain b)
{
    return a.sent + a.reduced / 4 > b.sent + b.reduced / 4;
}

static double weight(int vrank, int nranks, int radix, int sized)
{
    return sized ? wi_knomial_size(vrank, nranks, radix) : 1;
}

double wi_knomial_up_us(int vrank, int nranks, int radix, int sized, double bytes, const struct wi_algo_rates *rates)
{
    struct wi_knomial tree = wi_knomial_of(vrank, nranks, radix);
    double ready[WI_ALGO_MAX_FAN], sent[WI_ALGO_MAX_FAN], own_us = sized ? wi_algo_over(bytes, rates->copy_rate) : 0;
    int n = tree.nchildren;

    if (n > WI_ALGO_MAX_FAN) /* so flat that it is a star */
        return rates->alpha + n * wi_algo_over(bytes, rates->beta) +
               (sized ? own_us : wi_algo_over(bytes, rates->reduce_rate));
    for (int i = 0; i < n; i++) {
        int child = wi_knomial_child(&tree, i);
        ready[i] = wi_knomial_up_us(child, nranks, radix, sized, bytes, rates);
        sent[i] = weight(child, nranks, radix, sized) * bytes;
    }
    return n ? wi_algo_fan_in(rates, ready, sent, n, !sized, own_us) : 0;
}

/* All of a rank's messages begin at once and share its link: one of w is over when the others have carried w, too, or less
 * where they are shorter. */
struct wi_tree_chain wi_knomial_down(int vrank, int nranks, int radix, int sized)
{
    struct wi_knomial tree = wi_knomial_of(vrank, nranks, radix);
    struct wi_tree_chain most = {0, 0};

    for (int i = 0; i < tree.nchildren; i++) {
        int child = wi_knomial_child(&tree, i);
        double own = weight(child, nranks, radix, sized);
        struct wi_tree_chain chain = wi_knomial_down(child, nranks, radix, sized);
        for (int k = 0; k < tree.nchildren; k++) {
            double other = weight(wi_knomial_child(&tree, k), nranks, radix, sized);
            chain.sent += other < own ? other : own;
        }
        most = longer(chain, most) ? chain : most;
    }
    return most;
}

static double doubling_from(int rank, int distance, int nranks)
{
    double most = 0;
    int sends = 0;

    for (; distance < nranks - rank; distance *= 2) {
        double after = doubling_from(rank + distance, 2 * distance, nranks);
        most = after > most ? after : most;
        sends++;
    }
    return most + sends;
}

double wi_doubling_chain(int nranks)
{
    return doubling_from(0, 1, nranks);
}
