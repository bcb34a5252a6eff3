/* SPDX-License-Identifier: BSD-3-Clause */
/* The levels that ranks share, and the order in which rings visit them, from a model and the nodes.
 *
 * The order is a tour along the levels: racks one after the other, in each its nodes, and so on; where the model's links are no
 * tree (GPUs that are joined in pairs, say), a ring that costs less takes its place. Groups are numbered along the tour, so that a
 * ring among the nodes of two racks crosses twice between these, however ranks were dealt out. All of it is integers, or sums
 * of doubles in a fixed order: ranks that have the same model get the same. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "plan/plan.h"
#include "topology/placement.h"

#define MOST_TOURED 32 /* ranks: a few hundred microseconds */

/* Do both put the same ranks together, whatever the numbers? Both are numbered by first appearance. */
static int same_groups(const int32_t *a, const int32_t *b, int nranks)
{
    return memcmp(a, b, (size_t)nranks * sizeof *a) == 0;
}

/* The model's levels with the nodes among them: levels that group nothing, or the same as one farther out, are not in a model,
 * but "node" is always there. */
static int list_levels(const struct wi_model *m, const struct wi_algo_level *node, int nranks,
                       struct wi_algo_levels *levels)
{
    int n = 0, placed = !node;

    for (int i = 0; m && i < m->nlevels && n < WI_ALGO_MAX_LEVELS - 2; i++) {
        struct wi_algo_level l = {m->levels[i].name, m->levels[i].ngroups, m->levels[i].group};
        if (!placed && l.ngroups >= node->ngroups) {
            levels->level[n++] = *node;
            placed = 1;
        }
        if (!node || !same_groups(l.group, node->group, nranks))
            levels->level[n++] = l;
    }
    if (!placed)
        levels->level[n++] = *node;
    return n;
}

/* ---- The tour ---- */

struct stop {
    const struct wi_algo_levels *levels;
    int32_t rank;
};

static int along_levels(const void *pa, const void *pb)
{
    const struct stop *a = pa, *b = pb;

    for (int i = 0; i < a->levels->nlevels; i++) {
        const int32_t *group = a->levels->level[i].group;
        if (group[a->rank] != group[b->rank])
            return group[a->rank] < group[b->rank] ? -1 : 1;
    }
    return (a->rank > b->rank) - (a->rank < b->rank);
}

static double ring_cost(const struct wi_model *m, const int32_t *order)
{
    double cost = 0;

    for (int i = 0; i < m->nranks; i++)
        cost += wi_hop_cost(m, order[i], order[(i + 1) % m->nranks]);
    return cost;
}

/* Groups decide, unless a ring through them costs more than the best that is found. */
static weft_status improve(const struct wi_model *m, int32_t *order)
{
    int32_t *ring = wi_malloc((size_t)m->nranks * sizeof *ring);
    weft_status st = ring ? wi_ring_order(m, NULL, m->nranks, ring, NULL) : WEFT_ENOMEM;

    if (!ring)
        return wi_fail(WEFT_ENOMEM, "a ring of %d ranks", m->nranks);
    if (st >= 0 && ring_cost(m, ring) < ring_cost(m, order) * (1 - 1e-6))
        memcpy(order, ring, (size_t)m->nranks * sizeof *ring);
    wi_free(ring);
    return st;
}

static weft_status find_tour(const struct wi_model *m, const struct wi_algo_levels *levels, int nranks, int32_t *order)
{
    struct stop *stops = wi_malloc((size_t)nranks * sizeof *stops);

    if (!stops)
        return wi_fail(WEFT_ENOMEM, "the order of %d ranks", nranks);
    for (int r = 0; r < nranks; r++)
        stops[r] = (struct stop){levels, r};
    qsort(stops, (size_t)nranks, sizeof *stops, along_levels);
    for (int r = 0; r < nranks; r++)
        order[r] = stops[r].rank;
    wi_free(stops);
    return m && nranks > 2 && nranks <= MOST_TOURED ? improve(m, order) : WEFT_SUCCESS;
}

static void number_along(const int32_t *order, int nranks, const struct wi_algo_level *level, int32_t *number,
                         int32_t *group)
{
    int32_t next = 0;

    for (int g = 0; g < level->ngroups; g++)
        number[g] = -1;
    for (int i = 0; i < nranks; i++) {
        int32_t *n = &number[level->group[order[i]]];
        if (*n < 0)
            *n = next++;
        group[order[i]] = *n;
    }
}

weft_status wi_plan_levels(const struct wi_model *model, const struct wi_algo_level *node, int nranks,
                           struct wi_algo_levels *levels, int32_t **memory)
{
    size_t n = (size_t)nranks;
    int32_t *own, *order, *number;
    weft_status st;

    levels->nlevels = list_levels(model, node, nranks, levels);
    own = wi_malloc(((size_t)levels->nlevels + 3) * n * sizeof *own);
    if (!own)
        return wi_fail(WEFT_ENOMEM, "levels of %d ranks", nranks);
    order = own + (size_t)levels->nlevels * n;
    number = order + n;
    st = find_tour(model, levels, nranks, order);
    if (st < 0) {
        wi_free(own);
        return st;
    }
    for (int i = 0; i < levels->nlevels; i++) {
        number_along(order, nranks, &levels->level[i], number, own + (size_t)i * n);
        levels->level[i].group = own + (size_t)i * n;
    }
    int32_t *position = number + n;
    for (int i = 0; i < nranks; i++)
        position[order[i]] = i;
    levels->level[levels->nlevels++] = (struct wi_algo_level){"rank", nranks, position};
    *memory = own;
    return WEFT_SUCCESS;
}
