/* SPDX-License-Identifier: BSD-3-Clause */
/* Closed forms of broadcasts and reductions by trees: what a rank sends or gets inside its group shares its link with what goes to
 * other groups or comes from there. With leaders at all levels that is one tree of whole vectors. */
#include <math.h>
#include <string.h>

#include "algo/hier.h"
#include "algo/util.h"

struct trees {
    const struct wi_hier_tree *t;
    const struct wi_algo_rates *rates;
    int radix[WI_HIER_STAGES]; /* 0: all ranks are the root's children */
    int nstages, up, failed;
    double bytes;
    double last;    /* down: when the last rank has it */
    double busiest; /* of a link or a core, for one chunk */
};

static struct wi_knomial place_in(const struct trees *x, int stage, int rank)
{
    const struct wi_hier_tree *t = x->t;
    int parent = wi_hier_parent(t, stage, rank), n = wi_hier_nchildren(t, stage, parent);
    int radix = x->radix[stage] ? x->radix[stage] : n;

    return wi_knomial_of(wi_mod(t->child_of[stage][rank] - t->lead_child[stage][parent], n), n, radix > 2 ? radix : 2);
}

static int rank_in(const struct trees *x, int stage, int rank, int vrank)
{
    const struct wi_hier_tree *t = x->t;
    int parent = wi_hier_parent(t, stage, rank), n = wi_hier_nchildren(t, stage, parent);

    return wi_hier_member(t, stage, parent, wi_mod(vrank + t->lead_child[stage][parent], n), 0);
}

/* Of a rank that stage `from` reaches, or all do: children in that stage and in those inside. */
static int count_children(const struct trees *x, int from, int rank)
{
    int n = 0;

    for (int i = from; i < x->nstages; i++)
        n += place_in(x, i, rank).nchildren;
    return n;
}

static void go_down(struct trees *x, int from, int rank, double ready)
{
    double us = count_children(x, from, rank) * wi_algo_over(x->bytes, x->rates->beta);

    x->busiest = fmax(x->busiest, us);
    x->last = fmax(x->last, ready);
    for (int i = from; i < x->nstages; i++) {
        struct wi_knomial tree = place_in(x, i, rank);
        for (int c = 0; c < tree.nchildren; c++)
            go_down(x, i, rank_in(x, i, rank, wi_knomial_child(&tree, c)), ready + us + x->rates->alpha);
    }
}

/* When a rank has received all that it owns: first from its group, then from other groups. */
static double come_up(struct trees *x, int from, int rank)
{
    double ready[WI_ALGO_MAX_FAN], bytes[WI_ALGO_MAX_FAN];
    int n = 0;

    if (count_children(x, from, rank) > WI_ALGO_MAX_FAN) {
        x->failed = 1;
        return 0;
    }
    for (int i = x->nstages - 1; i >= from; i--) {
        struct wi_knomial tree = place_in(x, i, rank);
        for (int c = 0; c < tree.nchildren; c++, n++) {
            ready[n] = come_up(x, i, rank_in(x, i, rank, wi_knomial_child(&tree, c)));
            bytes[n] = x->bytes;
        }
    }
    x->busiest = fmax(x->busiest,
                      n * fmax(wi_algo_over(x->bytes, x->rates->beta), wi_algo_over(x->bytes, x->rates->reduce_rate)));
    return n ? wi_algo_fan_in(x->rates, ready, bytes, n, 1, 0) : 0;
}

/* The radix of each stage's tree; 0 if one is no tree. */
static int find_trees(struct trees *x, const struct wi_hier_spec *spec, int radix)
{
    struct wi_algo_args args = {.radix = radix};
    const struct wi_algo *algo;

    for (int i = 0; i < x->nstages; i++) {
        algo = !x->up && i > 0 ? spec->down[i] : spec->up[i];
        if (i > 0 && !x->t->has_leader[i])
            return 0;
        if (algo->traits.shape != WI_SHAPE_KNOMIAL && algo->traits.shape != WI_SHAPE_FAN)
            return 0;
        x->radix[i] = algo->traits.shape == WI_SHAPE_KNOMIAL ? wi_algo_radix(&args) : 0;
    }
    return 1;
}

/* ---- Broadcast without a leader ----
 * The root scatters to its group, and sends its own part to other groups and inside, all at once. Each rank that has got a part
 * does the same, without the scatter. All groups behave alike, and within a group all ranks that the root scattered to. */

static int groups_are_even(const struct wi_hier_tree *t)
{
    int n = wi_hier_nchildren(t, 1, 0);

    for (int g = 1; g < t->ngroups[0]; g++)
        if (wi_hier_nchildren(t, 1, g) != n)
            return 0;
    return n;
}

static void pass_parts(struct trees *x, int ngroups, int vrank, int inside, double ready)
{
    struct wi_knomial tree = wi_knomial_of(vrank, ngroups, x->radix[0]);
    double there = ready + (tree.nchildren + inside) * wi_algo_over(x->bytes, x->rates->beta) + x->rates->alpha;

    x->last = fmax(x->last, there);
    for (int c = 0; c < tree.nchildren; c++)
        pass_parts(x, ngroups, wi_knomial_child(&tree, c), inside, there);
}

static int parts_us(struct trees *x, const struct wi_hier_spec *spec, int radix)
{
    struct wi_algo_args args = {.radix = radix};
    const struct wi_hier_tree *t = x->t;
    int n = t->k == 1 && !t->has_leader[1] ? groups_are_even(t) : 0, ngroups = t->ngroups[0], children;

    if (n < 2 || ngroups < 2 || spec->up[0]->traits.shape != WI_SHAPE_KNOMIAL ||
        spec->up[1]->traits.shape != WI_SHAPE_FAN || spec->down[1]->traits.shape != WI_SHAPE_FAN)
        return 0;
    x->radix[0] = wi_algo_radix(&args);
    x->bytes /= n;
    children = wi_knomial_of(0, ngroups, x->radix[0]).nchildren;
    x->busiest = (children + 2 * (n - 1)) * wi_algo_over(x->bytes, x->rates->beta);
    pass_parts(x, ngroups, 0, n - 1, x->busiest + x->rates->alpha);
    return 1;
}

int wi_hier_trees_us(const struct wi_hier_tree *tree, const struct wi_hier_spec *spec, enum wi_coll coll, int radix,
                     double bytes, const struct wi_algo_rates *rates, double *us)
{
    int nchunks = spec->nchunks ? spec->nchunks : 1;
    struct trees x = {.t = tree, .rates = rates, .nstages = tree->k + 1, .bytes = bytes / nchunks};

    x.up = coll == WI_COLL_REDUCE;
    if (!x.up && coll != WI_COLL_BROADCAST)
        return 0;
    if (!find_trees(&x, spec, radix)) {
        if (x.up || !parts_us(&x, spec, radix))
            return 0;
    } else if (x.up) {
        x.last = come_up(&x, 0, tree->root);
    } else {
        go_down(&x, 0, tree->root, 0);
    }
    *us = x.last + (nchunks - 1) * x.busiest;
    return !x.failed;
}
