/* SPDX-License-Identifier: BSD-3-Clause */
/* Levels from a model, and the order in which rings visit their groups. */
#include "unit.h"

#include "base/alloc.h"
#include "base/status.h"
#include "plan/plan.h"
#include "sched/internal.h"
#include "sim/cost.h"
#include "topology/graph.h"

#define MOST 16

static struct {
    int nranks;
    int32_t place[MOST], node[MOST];
    struct wi_topo *topo;
    struct wi_model *model;
    struct wi_algo_levels levels;
    int32_t *memory;
} w;

/* Rank r is on core[r] of host host[r]. */
static void open_world(struct wi_topo *topo, int nranks, const int *host, const int *core)
{
    int nodes = 0;

    w.topo = topo;
    w.nranks = nranks;
    for (int r = 0; r < nranks; r++) {
        int seen = 0, first = 0;
        for (int o = 0; o < topo->nobjects; o++) {
            const struct wi_topo_object *x = &topo->objects[o];
            if (x->kind == WI_TOPO_CORE && topo->objects[x->host].index == host[r] && seen++ == core[r])
                w.place[r] = o;
            if (x->kind == WI_TOPO_HOST && x->index == host[r] && core[r] < 0)
                w.place[r] = o;
        }
        while (host[first] != host[r])
            first++;
        w.node[r] = first == r ? nodes++ : w.node[first];
    }
    struct wi_algo_level node = {"node", nodes, w.node};
    CU_ASSERT_FATAL(wi_model_of_topo(topo, w.place, nranks, NULL, &w.model) >= 0);
    CU_ASSERT_FATAL(wi_plan_levels(w.model, &node, nranks, &w.levels, &w.memory) >= 0);
}

static void close_world(void)
{
    wi_free(w.memory);
    wi_model_destroy(w.model);
    wi_topo_put(w.topo);
}

static struct wi_topo *synthetic(const char *text)
{
    struct wi_topo *t = NULL;

    CU_ASSERT_FATAL(wi_topo_synthetic(text, &t) >= 0);
    return t;
}

static void expect(const char *level, const int32_t *groups)
{
    for (int i = 0; i < w.levels.nlevels; i++)
        if (strcmp(w.levels.level[i].name, level) == 0) {
            if (memcmp(w.levels.level[i].group, groups, (size_t)w.nranks * sizeof *groups) == 0)
                return;
            printf("# %s:", level);
            for (int r = 0; r < w.nranks; r++)
                printf(" %d", w.levels.level[i].group[r]);
            puts("");
        }
    CU_FAIL("level");
}

static double time_of(const char *spec, size_t bytes)
{
    struct wi_sched *scheds[MOST] = {NULL};
    struct wi_sim_cost cost = {0};
    struct wi_algo_choice c;

    CU_ASSERT_FATAL(wi_algo_choose(WI_COLL_ALL_REDUCE, spec, &w.levels, w.nranks, &c) >= 0);
    struct wi_algo_args args = {.nranks = w.nranks, .levels = &w.levels, .spec = &c.spec};
    for (args.rank = 0; args.rank < w.nranks; args.rank++)
        CU_ASSERT_FATAL(c.algo->build(&args, &scheds[args.rank]) >= 0);
    CU_ASSERT(wi_sim_cost((const struct wi_sched *const *)scheds, w.nranks, bytes, w.model, 256 << 10, &cost) >= 0);
    for (int r = 0; r < w.nranks; r++)
        wi_sched_put(scheds[r]);
    return cost.us;
}

/* A ring of the level "rank" crosses the hosts' links as a ring of ranks that are well placed does. */
static void dealt_out(void)
{
    static const int hosts[] = {0, 1, 0, 1}, cores[] = {0, 0, 1, 1}, blocks[] = {0, 0, 1, 1}, inner[] = {0, 1, 0, 1};
    double badly, well;

    open_world(synthetic("nodes:2 core:2 nic:1@10Gb"), 4, hosts, cores);
    expect("node", (int32_t[]){0, 1, 0, 1});
    expect("rank", (int32_t[]){0, 2, 1, 3});
    badly = time_of("ring", 16 << 20);
    well = time_of("rank:ring*1", 16 << 20);
    close_world();
    open_world(synthetic("nodes:2 core:2 nic:1@10Gb"), 4, blocks, inner);
    expect("rank", (int32_t[]){0, 1, 2, 3});
    CU_ASSERT_DOUBLE_EQUAL(time_of("ring", 16 << 20), well, 0.001 * well);
    CU_ASSERT_DOUBLE_EQUAL(time_of("rank:ring*1", 16 << 20), well, 0.001 * well);
    close_world();
    CU_ASSERT(badly > 1.9 * well);
}

/* Nodes that were dealt out over racks: they are numbered rack by rack, and a ring among them crosses twice. */
static void racks_come_one_by_one(void)
{
    static const int hosts[] = {0, 2, 1, 3, 0, 2, 1, 3}, cores[] = {0, 0, 0, 0, 1, 1, 1, 1};
    struct wi_algo_levels as_found;
    double numbered;

    open_world(synthetic("nodes:4 rack:2 core:2 nic:1@10Gb oversub:8"), 8, hosts, cores);
    expect("rack", (int32_t[]){0, 1, 0, 1, 0, 1, 0, 1});
    expect("node", (int32_t[]){0, 2, 1, 3, 0, 2, 1, 3});
    expect("rank", (int32_t[]){0, 4, 2, 6, 1, 5, 3, 7});
    numbered = time_of("node:ring*1", 16 << 20);
    as_found = w.levels;
    for (int i = 0; i < w.levels.nlevels; i++)
        if (strcmp(w.levels.level[i].name, "node") == 0)
            w.levels.level[i].group = w.node;
    CU_ASSERT(time_of("node:ring*1", 16 << 20) > 1.9 * numbered);
    w.levels = as_found;
    close_world();
}

/* Four hosts whose links are a ring, and no tree: 0 - 2 - 1 - 3 - 0. */
static void links_decide(void)
{
    static const char text[] =
        "{\"weft_topology\": 1, \"objects\": [{\"kind\": \"host\", \"name\": \"a\"}, {\"kind\": \"host\", \"name\": \"b\"},"
        " {\"kind\": \"host\", \"name\": \"c\"}, {\"kind\": \"host\", \"name\": \"d\"}], \"links\": ["
        "{\"kind\": \"network\", \"a\": 0, \"b\": 2, \"rate\": 1250, \"latency\": 5},"
        "{\"kind\": \"network\", \"a\": 2, \"b\": 1, \"rate\": 1250, \"latency\": 5},"
        "{\"kind\": \"network\", \"a\": 1, \"b\": 3, \"rate\": 1250, \"latency\": 5},"
        "{\"kind\": \"network\", \"a\": 3, \"b\": 0, \"rate\": 1250, \"latency\": 5}]}";
    static const int hosts[] = {0, 1, 2, 3}, none[] = {-1, -1, -1, -1};
    struct wi_topo *t = NULL;

    CU_ASSERT_FATAL(wi_topo_parse(text, sizeof text - 1, &t) >= 0);
    open_world(t, 4, hosts, none);
    expect("rank", (int32_t[]){0, 2, 1, 3});
    expect("node", (int32_t[]){0, 2, 1, 3});
    CU_ASSERT(time_of("ring", 16 << 20) > 1.5 * time_of("rank:ring*1", 16 << 20));
    close_world();
}

/* Without a model: the nodes, and a tour along them. */
static void nodes_alone(void)
{
    static const int32_t groups[] = {0, 1, 1, 2, 0, 2};
    struct wi_algo_level node = {"node", 3, groups};

    w.nranks = 6;
    CU_ASSERT_FATAL(wi_plan_levels(NULL, &node, 6, &w.levels, &w.memory) >= 0);
    CU_ASSERT_EQUAL(w.levels.nlevels, 2);
    expect("node", groups);
    expect("rank", (int32_t[]){0, 2, 3, 4, 1, 5});
    wi_free(w.memory);
}

static const struct wt_case cases[] = {
    {"ranks that are dealt out", dealt_out},
    {"racks come one by one", racks_come_one_by_one},
    {"links decide where they are no tree", links_decide},
    {"nodes alone", nodes_alone},
};
WT_UNIT_MAIN("levels", cases)
