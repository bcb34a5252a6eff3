/* SPDX-License-Identifier: BSD-3-Clause */
/* The longest chain of one slice through a k-nomial tree, or through prefix doubling: for cost formulas. */
#include "algo/util.h"

/* Which chain is longer? Links are slower than reductions nearly everywhere. */
static int longer(struct wi_tree_chain a, struct wi_tree_chain b)
{
    return a.sent + a.reduced / 4 > b.sent + b.reduced / 4;
}

static int alike(struct wi_tree_chain a, struct wi_tree_chain b)
{
    return a.sent == b.sent && a.reduced == b.reduced;
}

static double weight(int vrank, int nranks, int radix, int sized)
{
    return sized ? wi_knomial_size(vrank, nranks, radix) : 1;
}

/* Children whose subtrees are alike send at the same time and arrive at the same time. */
struct wi_tree_chain wi_knomial_up(int vrank, int nranks, int radix, int sized)
{
    struct wi_knomial tree = wi_knomial_of(vrank, nranks, radix);
    struct wi_tree_chain link = {0, 0}, core = {0, 0};

    for (int i = 0; i < tree.nchildren;) {
        struct wi_tree_chain child = wi_knomial_up(wi_knomial_child(&tree, i), nranks, radix, sized), next = child;
        int together = 0;
        link = longer(child, link) ? child : link;
        for (; i < tree.nchildren && alike(next, child); together++) {
            link.sent += weight(wi_knomial_child(&tree, i), nranks, radix, sized);
            if (++i < tree.nchildren)
                next = wi_knomial_up(wi_knomial_child(&tree, i), nranks, radix, sized);
        }
        core = longer(link, core) ? link : core;
        core.reduced += sized ? 0 : together;
    }
    return core;
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

static double doubling_from(int rank, int far, int nranks)
{
    double most = 0;
    int sends = 0;

    for (; far < nranks - rank; far *= 2) {
        double after = doubling_from(rank + far, 2 * far, nranks);
        most = after > most ? after : most;
        sends++;
    }
    return most + sends;
}

double wi_doubling_chain(int nranks)
{
    return doubling_from(0, 1, nranks);
}
