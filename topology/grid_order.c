/* SPDX-License-Identifier: BSD-3-Clause */
/* The order of ranks in a mesh. */
#include "topology/grid.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "topology/placement.h"

#define ALL_PAIRS 64
#define MEAN_WEIGHT 1e-3
#define LEVEL_WEIGHT 4.0
#define MOST_ROUNDS 16

static int stride_of(const struct wi_grid *grid, int axis)
{
    int stride = 1;

    for (int a = axis + 1; a < grid->naxes; a++)
        stride *= grid->extent[a];
    return stride;
}

void wi_grid_group(const struct wi_grid *grid, const int32_t *order, int axis, int position, int32_t *group)
{
    int stride = stride_of(grid, axis), extent = grid->extent[axis];
    int first = position - position / stride % extent * stride;

    for (int i = 0; i < extent; i++)
        group[i] = order[first + i * stride];
}

weft_status wi_grid_check(const struct wi_grid *grid, int nranks)
{
    int64_t product = 1;

    if (grid->naxes < 1 || grid->naxes > WI_GRID_MAX_AXES)
        return wi_fail(WEFT_EINVAL, "mesh: %d axes: must be 1 to %d", grid->naxes, WI_GRID_MAX_AXES);
    for (int a = 0; a < grid->naxes; a++) {
        if (grid->extent[a] < 1)
            return wi_fail(WEFT_EINVAL, "mesh: axis %s has %d ranks: must be 1 or more", grid->name[a],
                           grid->extent[a]);
        if (!(grid->traffic[a] > 0) || isinf(grid->traffic[a]))
            return wi_fail(WEFT_EINVAL, "mesh: axis %s has a traffic of %g: must be above 0, and finite", grid->name[a],
                           grid->traffic[a]);
        product *= grid->extent[a];
        if (product > WI_MODEL_MAX_RANKS)
            return wi_fail(WEFT_EINVAL, "mesh: more than %d ranks", WI_MODEL_MAX_RANKS);
    }
    if (product != grid->nranks || grid->nranks != nranks)
        return wi_fail(WEFT_EINVAL, "mesh: the axes multiply to %d ranks, not to %d", (int)product, nranks);
    return WEFT_SUCCESS;
}

/* ---- Cost ---- */

struct costing {
    const struct wi_model *m;
    const struct wi_grid *grid;
    double *hops;   /* [n][n]; NULL: asked for each time */
    int32_t *group; /* scratch, [nranks] */
};

/* Links farther out are shared by more ranks than the two that are looked at. */
static double hop(const struct costing *c, int a, int b)
{
    double weight = 1;

    if (c->hops)
        return c->hops[a * c->grid->nranks + b];
    for (int level = 0; level < c->m->nlevels; level++)
        if (c->m->levels[level].group[a] != c->m->levels[level].group[b])
            weight *= LEVEL_WEIGHT;
    return weight * fmax(wi_hop_cost(c->m, a, b), wi_hop_cost(c->m, b, a));
}

static double group_cost(const struct costing *c, const int32_t *order, int axis, int position)
{
    int extent = c->grid->extent[axis], reach = extent <= ALL_PAIRS ? extent : 2;
    double worst = 0, sum = 0;
    int64_t n = 0;

    wi_grid_group(c->grid, order, axis, position, c->group);
    for (int i = 0; i < extent; i++)
        for (int k = i + 1; k < extent && k < i + reach; k++, n++) {
            double cost = hop(c, c->group[i], c->group[k]);
            worst = fmax(worst, cost);
            sum += cost;
        }
    return n ? c->grid->traffic[axis] * (worst + MEAN_WEIGHT * sum / (double)n) : 0;
}

static double total_cost(const struct costing *c, const int32_t *order)
{
    double sum = 0;

    for (int a = 0; a < c->grid->naxes; a++) {
        int stride = stride_of(c->grid, a), extent = c->grid->extent[a];
        for (int p = 0; p < c->grid->nranks && extent > 1; p++)
            if (p / stride % extent == 0)
                sum += group_cost(c, order, a, p);
    }
    return sum;
}

static weft_status costing_init(struct costing *c, const struct wi_model *m, const struct wi_grid *grid)
{
    size_t n = (size_t)grid->nranks;

    *c = (struct costing){.m = m, .grid = grid, .group = wi_malloc(n * sizeof(*c->group))};
    if (!c->group)
        return wi_fail(WEFT_ENOMEM, "mesh: no memory for %zu ranks", n);
    if (n > WI_GRID_SWAPS)
        return WEFT_SUCCESS;
    double *hops = wi_malloc(n * n * sizeof(*hops));
    if (!hops) {
        wi_free(c->group);
        return wi_fail(WEFT_ENOMEM, "mesh: no memory for the hops between %zu ranks", n);
    }
    for (int a = 0; a < grid->nranks; a++)
        for (int b = 0; b < grid->nranks; b++)
            hops[a * grid->nranks + b] = hop(c, a, b);
    c->hops = hops;
    return WEFT_SUCCESS;
}

static void costing_fini(struct costing *c)
{
    wi_free(c->group);
    wi_free(c->hops);
}

weft_status wi_grid_cost(const struct wi_model *m, const struct wi_grid *grid, const int32_t *order, double *cost)
{
    struct costing c;

    WI_TRY(wi_grid_check(grid, m->nranks));
    WI_TRY(costing_init(&c, m, grid));
    *cost = total_cost(&c, order);
    costing_fini(&c);
    return WEFT_SUCCESS;
}

/* ---- Blocks ---- */

struct block {
    int group, place; /* where it is whole, at the level that is looked at; its place in the sequence */
};

struct packing {
    const struct wi_model *m;
    int nranks, nblocks, size; /* blocks of `size` ranks each */
    int32_t *sequence, *next;  /* [nranks] */
    int *leads;                /* [nblocks]: the place of the first block of the larger block, by its number */
    struct block *blocks;
    unsigned char *used;
};

/* The group that holds the whole block; -1: none does. */
static int group_of(const struct packing *p, int block, int level)
{
    const int32_t *ranks = p->sequence + (size_t)block * (size_t)p->size;
    const int32_t *group;

    if (level < 0)
        return 0;
    group = p->m->levels[level].group;
    for (int i = 1; i < p->size; i++)
        if (group[ranks[i]] != group[ranks[0]])
            return -1;
    return group[ranks[0]];
}

static int by_group(const void *pa, const void *pb)
{
    const struct block *a = pa, *b = pb;

    if (a->group != b->group)
        return a->group < b->group ? -1 : 1;
    return (a->place > b->place) - (a->place < b->place);
}

/* Larger blocks of what is unused, from blocks of one group each. Returns the number of blocks that are grouped then. */
static int pack_level(struct packing *p, int level, int extent, int done)
{
    int n = 0;

    for (int b = 0; b < p->nblocks; b++) {
        int group = p->used[b] ? -1 : group_of(p, b, level);
        if (group >= 0)
            p->blocks[n++] = (struct block){group, b};
    }
    qsort(p->blocks, (size_t)n, sizeof(*p->blocks), by_group);
    for (int i = 0; i + extent <= n;) {
        if (p->blocks[i + extent - 1].group != p->blocks[i].group) {
            i++;
            continue;
        }
        for (int k = 0; k < extent; k++) {
            p->leads[done++] = p->blocks[i + k].place;
            p->used[p->blocks[i + k].place] = 1;
        }
        i += extent;
    }
    return done;
}

static int by_lead(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;

    return (x > y) - (x < y);
}

/* One axis more: every `extent` blocks become one; the new ones stand in the order of their first ranks. */
static void pack_axis(struct packing *p, int extent)
{
    size_t bytes = (size_t)p->size * sizeof(*p->sequence);
    int done = 0;

    memset(p->used, 0, (size_t)p->nblocks);
    for (int level = p->m->nlevels - 1; level >= -1; level--)
        done = pack_level(p, level, extent, done);
    qsort(p->leads, (size_t)(p->nblocks / extent), (size_t)extent * sizeof(*p->leads), by_lead);
    for (int b = 0; b < p->nblocks; b++)
        memcpy(p->next + (size_t)b * (size_t)p->size, p->sequence + (size_t)p->leads[b] * (size_t)p->size, bytes);
    memcpy(p->sequence, p->next, (size_t)p->nranks * sizeof(*p->sequence));
    p->size *= extent;
    p->nblocks /= extent;
}

/* Axes by falling traffic; of equals, the later one first: its ranks are next to each other in a plain grid, too. */
static void sort_axes(const struct wi_grid *grid, int *axes)
{
    for (int i = 0; i < grid->naxes; i++) {
        int a = grid->naxes - 1 - i, at = i;
        while (at > 0 && grid->traffic[axes[at - 1]] < grid->traffic[a]) {
            axes[at] = axes[at - 1];
            at--;
        }
        axes[at] = a;
    }
}

/* The sequence has the first of `axes` running fastest; in the mesh the last one does. */
static void unfold(const struct wi_grid *grid, const int *axes, const int32_t *sequence, int32_t *order)
{
    for (int i = 0; i < grid->nranks; i++) {
        int rest = i, position = 0;
        for (int k = 0; k < grid->naxes; k++) {
            position += rest % grid->extent[axes[k]] * stride_of(grid, axes[k]);
            rest /= grid->extent[axes[k]];
        }
        order[position] = sequence[i];
    }
}

static weft_status pack(const struct wi_model *m, const struct wi_grid *grid, const int32_t *sequence, int32_t *order)
{
    size_t n = (size_t)grid->nranks;
    struct packing p = {.m = m, .nranks = grid->nranks, .nblocks = grid->nranks, .size = 1};
    int axes[WI_GRID_MAX_AXES];
    weft_status st = WEFT_SUCCESS;

    p.sequence = wi_malloc(2 * n * sizeof(*p.sequence));
    p.leads = wi_malloc(n * sizeof(*p.leads));
    p.blocks = wi_malloc(n * sizeof(*p.blocks));
    p.used = wi_malloc(n);
    if (p.sequence && p.leads && p.blocks && p.used) {
        p.next = p.sequence + n;
        memcpy(p.sequence, sequence, n * sizeof(*sequence));
        sort_axes(grid, axes);
        for (int i = 0; i < grid->naxes; i++)
            if (grid->extent[axes[i]] > 1)
                pack_axis(&p, grid->extent[axes[i]]);
        unfold(grid, axes, p.sequence, order);
    } else {
        st = wi_fail(WEFT_ENOMEM, "mesh: no memory to order %zu ranks", n);
    }
    wi_free(p.sequence);
    wi_free(p.leads);
    wi_free(p.blocks);
    wi_free(p.used);
    return st;
}

/* ---- The choice ---- */

static int is_less(double cost, double than)
{
    return cost < than * (1 - 1e-9);
}

static void exchange(int32_t *order, int a, int b)
{
    int32_t rank = order[a];

    order[a] = order[b];
    order[b] = rank;
}

/* What the groups of two positions cost; a group of both counts twice, before as after. */
static double cost_around(const struct costing *c, const int32_t *order, int a, int b)
{
    double sum = 0;

    for (int axis = 0; axis < c->grid->naxes; axis++)
        sum += group_cost(c, order, axis, a) + group_cost(c, order, axis, b);
    return sum;
}

static void improve(const struct costing *c, int32_t *order)
{
    int n = c->grid->nranks, improved = 1;

    for (int round = 0; improved && round < MOST_ROUNDS; round++) {
        improved = 0;
        for (int a = 0; a < n; a++)
            for (int b = a + 1; b < n; b++) {
                double before = cost_around(c, order, a, b);
                exchange(order, a, b);
                if (is_less(cost_around(c, order, a, b), before))
                    improved = 1;
                else
                    exchange(order, a, b);
            }
    }
}

static weft_status choose(const struct costing *c, int32_t *order, int32_t *plain, int32_t *other)
{
    int n = c->grid->nranks;

    for (int i = 0; i < n; i++)
        plain[i] = i;
    WI_TRY(pack(c->m, c->grid, plain, order));
    WI_TRY(wi_ring_order(c->m, NULL, n, plain, NULL));
    WI_TRY(pack(c->m, c->grid, plain, other));
    if (is_less(total_cost(c, other), total_cost(c, order)))
        memcpy(order, other, (size_t)n * sizeof(*order));
    if (n <= WI_GRID_SWAPS)
        improve(c, order);
    for (int i = 0; i < n; i++)
        plain[i] = i;
    if (!is_less(total_cost(c, order), total_cost(c, plain)))
        memcpy(order, plain, (size_t)n * sizeof(*order));
    return WEFT_SUCCESS;
}

weft_status wi_grid_order(const struct wi_model *m, const struct wi_grid *grid, int32_t *order)
{
    struct costing c;
    int32_t *scratch;
    weft_status st;

    WI_TRY(wi_grid_check(grid, m->nranks));
    order[0] = 0;
    if (grid->nranks == 1)
        return WEFT_SUCCESS;
    WI_TRY(costing_init(&c, m, grid));
    scratch = wi_malloc(2 * (size_t)grid->nranks * sizeof(*scratch));
    st = scratch ? choose(&c, order, scratch, scratch + grid->nranks)
                 : wi_fail(WEFT_ENOMEM, "mesh: no memory to order %d ranks", grid->nranks);
    wi_free(scratch);
    costing_fini(&c);
    return st;
}
