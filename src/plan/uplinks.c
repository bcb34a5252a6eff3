/* SPDX-License-Identifier: BSD-3-Clause */
/* Uplinks, for the formulas: the links that the groups of a level outside of the nodes (racks, say) share towards other groups.
 *
 * A stage of a hierarchical algorithm is bounded by each link that it crosses: its groups' uplinks, and inside the groups the links
 * of the nodes. How much flat algorithms send across racks depends on where ranks are: rings cross wherever neighbours in the ring
 * are in different racks; exchanges cross for each rank on the other side. */
#include <math.h>

#include "plan/internal.h"

#define MOST_PAIRS 16 /* of groups, of which the paths are compared */

static int first_in(const struct wi_planner *p, const struct wi_algo_level *l, int group, int not_on)
{
    for (int r = 0; r < p->facts.nranks; r++)
        if (l->group[r] == group && p->node_of[r] != not_on)
            return r;
    return -1;
}

/* The lowest rate of the links that paths from two nodes of one group to two of another have in common. */
static double shared_rate(const struct wi_planner *p, const struct wi_algo_level *l, int from, int to)
{
    int a = first_in(p, l, from, -1), b = first_in(p, l, to, -1), other_a, other_b;
    struct wi_model_path one, two;
    double rate = INFINITY;

    if (a < 0 || b < 0)
        return rate;
    other_a = first_in(p, l, from, p->node_of[a]);
    other_b = first_in(p, l, to, p->node_of[b]);
    p->graph->path(p->graph, a, b, &one);
    p->graph->path(p->graph, other_a < 0 ? a : other_a, other_b < 0 ? b : other_b, &two);
    for (int i = 0; i < one.nresources; i++)
        for (int k = 0; k < two.nresources; k++)
            if (one.resources[i] == two.resources[k])
                rate = fmin(rate, p->graph->resources[one.resources[i]].rate);
    return rate;
}

/* How much longer ranks take that send across this level at once than one that is alone on its node's link. */
static void share_level(struct wi_planner *p, const struct wi_algo_level *l, double rate)
{
    int n = p->facts.nranks, across = 0, size = 0, edges = 0;
    double slower = p->params.network_rate / rate;

    for (int r = 0; r < n; r++) {
        across += l->group[r] == 0 && l->group[(r + 1) % n] != 0;
        size += l->group[r] == 0;
        edges += r && (l->group[r] == 0) != (l->group[r & (r - 1)] == 0); /* of the binomial tree */
    }
    p->outer_ring = fmax(p->outer_ring, across * slower);
    p->outer_tree = fmax(p->outer_tree, edges * slower);
    p->outer_all = fmax(p->outer_all, (double)size * (n - size) / (n - 1) * slower);
}

void wi_plan_find_uplinks(struct wi_planner *p)
{
    const struct wi_algo_levels *levels = p->facts.levels;
    const struct wi_algo_level *node = wi_algo_level_find(levels, "node");

    p->outer_ring = p->outer_all = p->outer_tree = 0;
    p->node_level = node ? (int)(node - levels->level) : levels ? levels->nlevels : 0;
    for (int i = 0; i < p->node_level; i++) {
        const struct wi_algo_level *l = &levels->level[i];
        p->level_rate[i] = INFINITY;
        if (!p->graph || !p->node_of || l->ngroups < 2)
            continue;
        for (int g = 0; g < l->ngroups && g < MOST_PAIRS; g++)
            p->level_rate[i] = fmin(p->level_rate[i], shared_rate(p, l, g, (g + 1) % l->ngroups));
        share_level(p, l, p->level_rate[i]);
    }
}

int wi_plan_stage_is_remote(const struct wi_planner *p, const struct wi_plan_hier *h, int stage)
{
    if (p->facts.nnodes < 2)
        return 0;
    return stage == 0 || h->none.stage[stage - 1].level < p->node_level;
}

static int ranks_of_group(const struct wi_planner *p, int level)
{
    int groups = level < 0 ? 1 : p->facts.levels->level[level].ngroups;

    return (p->facts.nranks + groups - 1) / groups;
}

/* A stage among nodes, or groups of nodes, inside groups of `parent` (-1: all ranks) crosses the uplinks of the levels between,
 * each of whose groups holds several of the stage's groups. */
static double between_us(const struct wi_planner *p, const struct wi_plan_hier *h, int parent, int level, double all)
{
    double us = 0;

    for (int k = parent + 1; k < level; k++) {
        double most = ranks_of_group(p, parent), side = ranks_of_group(p, k), one = ranks_of_group(p, level);
        double crossing = h->choice.traits.streams ? 1 : side / one * (most - side) / fmax(1, most - one);
        us = fmax(us, all * crossing / p->level_rate[k]);
    }
    return us;
}

double wi_plan_stage_link_us(const struct wi_planner *p, const struct wi_plan_hier *h, int stage, double own,
                             double all)
{
    int level = h->none.stage[stage].level;
    int parent = stage > 0 ? h->none.stage[stage - 1].level : -1, within = ranks_of_group(p, parent);
    double us = 0, sharing;

    all = fmax(all, own);
    if (level <= p->node_level)
        us = between_us(p, h, parent, level, all);
    if (level == p->node_level)
        return fmax(us, all / p->params.network_rate);
    if (level < p->node_level)
        us = fmax(us, all / p->level_rate[level]);
    sharing = level < p->node_level ? p->all_sharing
                                    : p->all_sharing * fmax(0, within - p->all_sharing) / fmax(1, within - 1);
    if (h->choice.has_leader)
        sharing = 1;
    return fmax(us, own * fmax(1, sharing) / p->params.network_rate);
}
