/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks in meshes of several axes: which ranks are placed near each other, and why. */
#include "topology/grid.h"

#include <math.h>

#include "base/alloc.h"
#include "base/status.h"
#include "tests/unit/unit.h"
#include "topology/graph.h"
#include "topology/placement.h"

#define MOST 64

/* `nodes[r]`: the host of rank r, by number; its places on a host are GPUs or cores in turn. */
static struct wi_model *model_of(const char *text, const int *nodes, int nranks)
{
    int32_t hosts[MOST], places[MOST], nhosts = 0;
    struct wi_topo *t = NULL;
    struct wi_model *m = NULL;
    int next[MOST] = {0};

    CU_ASSERT_EQUAL_FATAL(wi_topo_synthetic(text, &t), WEFT_SUCCESS);
    for (int o = 0; o < t->nobjects; o++)
        if (t->objects[o].kind == WI_TOPO_HOST)
            hosts[nhosts++] = o;
    for (int r = 0; r < nranks; r++) {
        int want = next[nodes[r]]++, seen = 0, gpus = 0;
        for (int o = 0; o < t->nobjects; o++)
            gpus += t->objects[o].kind == WI_TOPO_GPU;
        for (int o = 0; o < t->nobjects; o++)
            if (t->objects[o].host == hosts[nodes[r]] && t->objects[o].kind == (gpus ? WI_TOPO_GPU : WI_TOPO_CORE) &&
                seen++ == want)
                places[r] = o;
        CU_ASSERT_FATAL(seen > want);
    }
    CU_ASSERT_EQUAL_FATAL(wi_model_of_topo(t, places, nranks, NULL, &m), WEFT_SUCCESS);
    wi_topo_put(t);
    return m;
}

static struct wi_grid grid_of(int dp, int tp)
{
    return (struct wi_grid){
        .naxes = 2, .nranks = dp * tp, .name = {"dp", "tp"}, .extent = {dp, tp}, .traffic = {1, 16}};
}

static char *reasons_of(const struct wi_model *m, const struct wi_grid *grid, const int32_t *order)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);

    CU_ASSERT_PTR_NOT_NULL_FATAL(out);
    CU_ASSERT_EQUAL(wi_grid_explain(m, grid, order, out), WEFT_SUCCESS);
    fclose(out);
    return text;
}

static void is_permutation(const int32_t *order, int n)
{
    int seen[1 << 13] = {0};

    for (int i = 0; i < n; i++) {
        CU_ASSERT_FATAL(order[i] >= 0 && order[i] < n && !seen[order[i]]);
        seen[order[i]] = 1;
    }
}

/* Groups of an axis whose ranks are on several hosts. */
static int split_groups(const struct wi_model *m, const struct wi_grid *grid, const int32_t *order, int axis)
{
    int32_t group[MOST];
    int n = 0;

    for (int p = 0; p < grid->nranks; p++) {
        int split = 0;
        wi_grid_group(grid, order, axis, p, group);
        if (group[0] != order[p])
            continue;
        for (int i = 1; i < grid->extent[axis]; i++)
            split |= m->ranks[group[i]].host != m->ranks[group[0]].host;
        n += split;
    }
    return n;
}

static void well_placed_ranks_stay(void)
{
    static const int nodes[] = {0, 0, 0, 0, 1, 1, 1, 1};
    struct wi_model *m = model_of("nodes:2 pack:2 core:2 nic:1@100Gb", nodes, 8);
    struct wi_grid grid = grid_of(2, 4);
    int32_t order[8];

    CU_ASSERT_EQUAL_FATAL(wi_grid_order(m, &grid, order), WEFT_SUCCESS);
    for (int i = 0; i < 8; i++)
        CU_ASSERT_EQUAL(order[i], i);
    char *text = reasons_of(m, &grid, order);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "mesh dp=2 x tp=4, 8 ranks in 2 node groups, 4 package groups"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "order: as the ranks are numbered"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "tp: 4 ranks, traffic 16: within one node"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "dp: 2 ranks, traffic 1: across nodes"));
    CU_ASSERT_PTR_NULL(strstr(text, "in the order of the ranks"));
    free(text);
    wi_model_destroy(m);
}

static void interleaved_ranks_are_sorted(void)
{
    static const int nodes[] = {0, 1, 0, 1, 0, 1, 0, 1}, expected[] = {0, 2, 4, 6, 1, 3, 5, 7};
    struct wi_model *m = model_of("nodes:2 pack:2 core:2 nic:1@100Gb", nodes, 8);
    struct wi_grid grid = grid_of(2, 4);
    int32_t order[8];
    double cost, plain_cost;
    const int32_t plain[] = {0, 1, 2, 3, 4, 5, 6, 7};

    CU_ASSERT_EQUAL_FATAL(wi_grid_order(m, &grid, order), WEFT_SUCCESS);
    for (int i = 0; i < 8; i++)
        CU_ASSERT_EQUAL(order[i], expected[i]);
    CU_ASSERT_EQUAL(wi_grid_cost(m, &grid, order, &cost), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_grid_cost(m, &grid, plain, &plain_cost), WEFT_SUCCESS);
    CU_ASSERT(cost < plain_cost / 2);
    char *text = reasons_of(m, &grid, order);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "within one node"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "(in the order of the ranks: across nodes)"));
    free(text);
    wi_model_destroy(m);
}

/* The axis that comes first in the mesh may be the one with the most traffic. */
static void traffic_decides_not_the_order_of_axes(void)
{
    static const int nodes[] = {0, 0, 1, 1};
    struct wi_model *m = model_of("nodes:2 core:2 nic:1@10Gb", nodes, 4);
    struct wi_grid grid = grid_of(2, 2);
    int32_t order[4];

    grid.traffic[0] = 100;
    CU_ASSERT_EQUAL_FATAL(wi_grid_order(m, &grid, order), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(split_groups(m, &grid, order, 0), 0);
    CU_ASSERT_EQUAL(split_groups(m, &grid, order, 1), 2);
    wi_model_destroy(m);
}

/* 3 + 4 + 1 ranks on three hosts, in pairs: one pair must be split, and only one. */
static void ragged_hosts_split_one_pair(void)
{
    static const int nodes[] = {0, 0, 0, 1, 1, 1, 1, 2};
    struct wi_model *m = model_of("nodes:3 core:4 nic:1@100Gb", nodes, 8);
    struct wi_grid grid = grid_of(4, 2);
    int32_t order[8];

    CU_ASSERT_EQUAL_FATAL(wi_grid_order(m, &grid, order), WEFT_SUCCESS);
    is_permutation(order, 8);
    CU_ASSERT_EQUAL(split_groups(m, &grid, order, 1), 1);
    wi_model_destroy(m);
}

/* Three axes on two packages of two hosts: the chattiest in a package, the next in a host, the last across. */
static void each_axis_has_its_level(void)
{
    static const int nodes[] = {0, 1, 1, 0, 0, 1, 1, 0};
    struct wi_model *m = model_of("nodes:2 pack:2 core:2 nic:1@100Gb", nodes, 8);
    struct wi_grid grid = {
        .naxes = 3, .nranks = 8, .name = {"pp", "dp", "tp"}, .extent = {2, 2, 2}, .traffic = {1, 4, 64}};
    int32_t order[8], group[2];

    CU_ASSERT_EQUAL_FATAL(wi_grid_order(m, &grid, order), WEFT_SUCCESS);
    is_permutation(order, 8);
    CU_ASSERT_EQUAL(split_groups(m, &grid, order, 2), 0);
    CU_ASSERT_EQUAL(split_groups(m, &grid, order, 1), 0);
    CU_ASSERT_EQUAL(split_groups(m, &grid, order, 0), 4);
    int package = m->nlevels - 1;
    while (package > 0 && strcmp(m->levels[package].name, "package"))
        package--;
    for (int p = 0; p < 8; p += 2) {
        wi_grid_group(&grid, order, 2, p, group);
        CU_ASSERT_EQUAL(m->levels[package].group[group[0]], m->levels[package].group[group[1]]);
    }
    char *text = reasons_of(m, &grid, order);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "tp: 2 ranks, traffic 64: within one package"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "dp: 2 ranks, traffic 4: within one node"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "pp: 2 ranks, traffic 1: across nodes"));
    free(text);
    wi_model_destroy(m);
}

/* On up to 6 ranks all orders can be tried: none costs less, on hosts of equal and of unequal size. */
static void least_of(const struct wi_model *m, const struct wi_grid *grid, int32_t *order, int n, double *least)
{
    double cost;

    if (n == 1) {
        CU_ASSERT_EQUAL(wi_grid_cost(m, grid, order, &cost), WEFT_SUCCESS);
        *least = fmin(*least, cost);
        return;
    }
    for (int i = 0; i < n; i++) {
        int32_t last = order[n - 1];
        order[n - 1] = order[i];
        order[i] = last;
        least_of(m, grid, order, n - 1, least);
        order[i] = order[n - 1];
        order[n - 1] = last;
    }
}

static void no_order_of_six_is_better(void)
{
    static const int maps[][6] = {{0, 1, 0, 1, 0, 1}, {0, 1, 2, 2, 1, 0}, {0, 0, 0, 1, 1, 0}, {1, 0, 0, 0, 0, 1}};

    for (int i = 0; i < 4; i++)
        for (int tp = 2; tp <= 3; tp++) {
            struct wi_model *m = model_of("nodes:3 pack:2 core:2 nic:1@100Gb", maps[i], 6);
            struct wi_grid grid = grid_of(6 / tp, tp);
            int32_t order[6], all[] = {0, 1, 2, 3, 4, 5};
            double cost, least = INFINITY;

            CU_ASSERT_EQUAL_FATAL(wi_grid_order(m, &grid, order), WEFT_SUCCESS);
            CU_ASSERT_EQUAL(wi_grid_cost(m, &grid, order, &cost), WEFT_SUCCESS);
            least_of(m, &grid, all, 6, &least);
            if (cost > least * (1 + 1e-6))
                printf("# map %d, tp %d: %g, least %g\n", i, tp, cost, least);
            CU_ASSERT(cost <= least * (1 + 1e-6));
            wi_model_destroy(m);
        }
}

/* Above WI_GRID_SWAPS nothing is exchanged; blocks alone do it, in racks, too. */
static void many_ranks_are_packed(void)
{
    int nodes[MOST];
    for (int r = 0; r < MOST; r++)
        nodes[r] = r % 8;
    struct wi_model *m = model_of("nodes:8 rack:2 pack:2 core:4 nic:1@100Gb oversub:4", nodes, MOST);
    struct wi_grid grid = {
        .naxes = 3, .nranks = MOST, .name = {"tp", "pp", "dp"}, .extent = {8, 2, 4}, .traffic = {64, 1, 8}};
    int32_t order[MOST];

    CU_ASSERT_EQUAL_FATAL(wi_grid_order(m, &grid, order), WEFT_SUCCESS);
    is_permutation(order, MOST);
    CU_ASSERT_EQUAL(split_groups(m, &grid, order, 0), 0);
    char *text = reasons_of(m, &grid, order);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "tp: 8 ranks, traffic 64: within one node"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "dp: 4 ranks, traffic 8: within one rack"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "pp: 2 ranks, traffic 1: across racks"));
    free(text);
    wi_model_destroy(m);
}

static void thousands_of_ranks(void)
{
    enum { N = 1 << 12 };
    struct wi_topo *t = NULL;
    struct wi_model *m = NULL;
    static int32_t places[N], order[N];
    struct wi_grid grid = grid_of(N / 8, 8);

    CU_ASSERT_EQUAL_FATAL(wi_topo_synthetic("nodes:512 core:8 nic:1@100Gb", &t), WEFT_SUCCESS);
    CU_ASSERT_EQUAL_FATAL(wi_place_ranks(t, N, places), WEFT_SUCCESS);
    CU_ASSERT_EQUAL_FATAL(wi_model_of_topo(t, places, N, NULL, &m), WEFT_SUCCESS);
    CU_ASSERT_EQUAL_FATAL(wi_grid_order(m, &grid, order), WEFT_SUCCESS);
    is_permutation(order, N);
    for (int i = 0; i < N; i += 8)
        for (int k = 1; k < 8; k++)
            CU_ASSERT_FATAL(m->ranks[order[i]].host == m->ranks[order[i + k]].host);
    wi_model_destroy(m);
    wi_topo_put(t);
}

static void one_rank_and_flat_networks(void)
{
    struct wi_grid grid = grid_of(1, 1);
    struct wi_model *m = NULL;
    int32_t order[6];

    CU_ASSERT_EQUAL_FATAL(wi_model_uniform(1, 1, 1000, 500, &m), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_grid_order(m, &grid, order), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(order[0], 0);
    wi_model_destroy(m);
    CU_ASSERT_EQUAL_FATAL(wi_model_uniform(6, 1, 1000, 500, &m), WEFT_SUCCESS);
    grid = grid_of(3, 2);
    CU_ASSERT_EQUAL(wi_grid_order(m, &grid, order), WEFT_SUCCESS);
    for (int i = 0; i < 6; i++)
        CU_ASSERT_EQUAL(order[i], i);
    char *text = reasons_of(m, &grid, order);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "6 ranks, all equally near"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "across nodes"));
    free(text);
    wi_model_destroy(m);
}

static void wrong_grids_are_refused(void)
{
    struct wi_grid grid = grid_of(3, 2), bad;
    struct wi_model *m = NULL;
    int32_t order[6];

    CU_ASSERT_EQUAL_FATAL(wi_model_uniform(6, 1, 1000, 500, &m), WEFT_SUCCESS);
    bad = grid;
    bad.extent[0] = 2;
    CU_ASSERT_EQUAL(wi_grid_order(m, &bad, order), WEFT_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "multiply to 4 ranks, not to 6"));
    bad = grid;
    bad.extent[0] = -3;
    CU_ASSERT_EQUAL(wi_grid_order(m, &bad, order), WEFT_EINVAL);
    bad = grid;
    bad.extent[0] = bad.extent[1] = 1 << 30;
    CU_ASSERT_EQUAL(wi_grid_order(m, &bad, order), WEFT_EINVAL);
    bad = grid;
    bad.traffic[1] = NAN;
    CU_ASSERT_EQUAL(wi_grid_order(m, &bad, order), WEFT_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "axis tp has a traffic"));
    bad = grid;
    bad.naxes = 0;
    CU_ASSERT_EQUAL(wi_grid_order(m, &bad, order), WEFT_EINVAL);
    for (long n = 1;; n++) {
        wi_alloc_fail_nth(n);
        weft_status st = wi_grid_order(m, &grid, order);
        wi_alloc_fail_nth(0);
        if (st == WEFT_SUCCESS)
            break;
        CU_ASSERT_EQUAL(st, WEFT_ENOMEM);
        CU_ASSERT_FATAL(n < 100);
    }
    wi_model_destroy(m);
}

static void hosts_are_renamed(void)
{
    struct wi_topo *t = NULL, *renamed = NULL, *pair[2], *both = NULL;

    CU_ASSERT_EQUAL_FATAL(wi_topo_synthetic("core:2 nic:1@10Gb", &t), WEFT_SUCCESS);
    CU_ASSERT_EQUAL_FATAL(wi_topo_rename_host(t, "other", &renamed), WEFT_SUCCESS);
    CU_ASSERT_STRING_EQUAL(renamed->objects[0].name, "other");
    CU_ASSERT(renamed->nobjects == t->nobjects && renamed->nlinks == t->nlinks && renamed->nmissing == t->nmissing);
    pair[0] = pair[1] = t;
    CU_ASSERT_EQUAL(wi_topo_merge(pair, 2, NULL, &both), WEFT_ECONFIG); /* of one name */
    pair[1] = renamed;
    CU_ASSERT_EQUAL_FATAL(wi_topo_merge(pair, 2, NULL, &both), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(both->nhosts, 2);
    wi_topo_put(renamed);
    CU_ASSERT_EQUAL(wi_topo_rename_host(both, "other", &renamed), WEFT_EINVAL);
    wi_topo_put(both);
    wi_topo_put(t);
}

static const struct wt_case cases[] = {
    {"ranks that are placed well stay", well_placed_ranks_stay},
    {"interleaved ranks are sorted", interleaved_ranks_are_sorted},
    {"traffic decides, not the order of axes", traffic_decides_not_the_order_of_axes},
    {"ragged hosts split one pair", ragged_hosts_split_one_pair},
    {"each axis has its level", each_axis_has_its_level},
    {"no order of six ranks is better", no_order_of_six_is_better},
    {"many ranks are packed", many_ranks_are_packed},
    {"thousands of ranks", thousands_of_ranks},
    {"one rank, and networks without levels", one_rank_and_flat_networks},
    {"wrong grids, no memory", wrong_grids_are_refused},
    {"hosts are renamed", hosts_are_renamed},
};
WT_UNIT_MAIN("grid", cases)
