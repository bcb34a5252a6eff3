/* SPDX-License-Identifier: BSD-3-Clause */
/* The planner's order of candidates on a few hosts, against the simulator's events on a graph of those hosts. */
#include <math.h>

#include "unit.h"

#include "base/alloc.h"
#include "base/status.h"
#include "plan/plan.h"
#include "sched/internal.h"
#include "sim/cost.h"
#include "topology/graph.h"
#include "topology/synthetic.h"

#define MOST 16

static struct {
    int nranks;
    int32_t node[MOST], place[MOST];
    struct wi_topo *topo;
    struct wi_model *model;
    struct wi_algo_levels levels;
    struct wi_planner *planner;
} w;

/* Ranks on the cores of hosts, host after host, or dealt out. */
static void settle(int nnodes, int size, int dealt)
{
    int seen[MOST] = {0}, core[MOST][MOST];

    for (int o = 0; o < w.topo->nobjects; o++)
        if (w.topo->objects[o].kind == WI_TOPO_CORE) {
            int host = w.topo->objects[w.topo->objects[o].host].index;
            core[host][seen[host]++] = o;
        }
    for (int r = 0; r < w.nranks; r++) {
        w.node[r] = dealt ? r % nnodes : r / size;
        w.place[r] = core[w.node[r]][dealt ? r / nnodes : r % size];
    }
}

static void open_world(int nnodes, int size, int dealt)
{
    struct wi_plan_facts facts = {.nranks = nnodes * size, .nnodes = nnodes};
    struct wi_plan_figures figures;
    char text[80];

    snprintf(text, sizeof text, "nodes:%d core:%d nic:1@1Gb", nnodes, size);
    w.nranks = nnodes * size;
    CU_ASSERT_FATAL(wi_topo_synthetic(text, &w.topo) >= 0);
    settle(nnodes, size, dealt);
    CU_ASSERT_FATAL(wi_model_of_topo(w.topo, w.place, w.nranks, NULL, &w.model) >= 0);
    w.levels = (struct wi_algo_levels){1, {{"node", nnodes, w.node}}};
    facts.levels = &w.levels;
    wi_plan_default_figures(&facts, &figures);
    wi_plan_model_figures(w.model, &figures);
    struct wi_plan_config config = {.facts = &facts, .figures = &figures};
    CU_ASSERT_FATAL(wi_planner_create(&config, &w.planner) >= 0);
}

static void close_world(void)
{
    wi_planner_destroy(w.planner);
    wi_model_destroy(w.model);
    wi_topo_put(w.topo);
}

static double by_events(const struct wi_algo_choice *c, size_t bytes)
{
    struct wi_algo_args args = {.nranks = w.nranks, .levels = &w.levels, .spec = c->spec[0] ? c->spec : NULL};
    struct wi_sched *scheds[MOST] = {NULL};
    struct wi_sim_cost cost = {0};

    for (args.rank = 0; args.rank < w.nranks; args.rank++)
        CU_ASSERT_FATAL(c->algo->build(&args, &scheds[args.rank]) >= 0);
    CU_ASSERT(wi_sim_cost((const struct wi_sched *const *)scheds, w.nranks, bytes, w.model, 256 << 10, &cost) >= 0);
    for (int r = 0; r < w.nranks; r++)
        wi_sched_put(scheds[r]);
    return cost.us;
}

/* Two candidates whose times are within 5 % of each other may change places. */
static void compare(enum wi_coll coll, size_t bytes, const char *where)
{
    struct wi_plan_query q = {.coll = coll, .bytes = bytes};
    struct wi_plan_candidate *list;
    double us[128], best = INFINITY, picked = INFINITY, least = INFINITY;
    int n, turned = 0, off = 0;

    CU_ASSERT_FATAL(wi_plan_candidates(w.planner, &q, &list, &n) >= 0 && n < 128);
    for (int i = 0; i < n; i++) {
        if (list[i].why_not)
            continue;
        us[i] = by_events(&list[i].choice, bytes);
        best = fmin(best, us[i]);
        off += fabs(list[i].predicted_us / us[i] - 1) > 0.25;
        if (list[i].predicted_us < least) {
            least = list[i].predicted_us;
            picked = us[i];
        }
        for (int k = 0; k < i; k++)
            turned += !list[k].why_not && (list[k].predicted_us - list[i].predicted_us) * (us[k] - us[i]) < 0 &&
                      fabs(us[k] / us[i] - 1) > 0.05;
    }
    if (picked > 1.05 * best || turned || off)
        printf("# %s, %s of %zu bytes: pick %.3f of the best, %d pairs in wrong order, %d prices off\n", where,
               wi_coll_name(coll), bytes, picked / best, turned, off);
    CU_ASSERT(picked <= 1.05 * best);
    CU_ASSERT(turned <= 1);
    CU_ASSERT(off == 0);
    wi_free(list);
}

static void order_is_the_events(void)
{
    static const enum wi_coll colls[] = {WI_COLL_ALL_REDUCE, WI_COLL_REDUCE,         WI_COLL_BROADCAST,
                                         WI_COLL_ALL_GATHER, WI_COLL_REDUCE_SCATTER, WI_COLL_ALL_TO_ALL};
    static const size_t sizes[] = {64, 16 << 10, 1 << 20, 16 << 20};
    char where[32];

    for (int nnodes = 2; nnodes <= 4; nnodes += 2)
        for (int dealt = 0; dealt < 2; dealt++) {
            open_world(nnodes, 2, dealt);
            snprintf(where, sizeof where, "%d x 2%s", nnodes, dealt ? ", dealt out" : "");
            for (size_t c = 0; c < sizeof colls / sizeof *colls; c++)
                for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
                    compare(colls[c], sizes[i], where);
            close_world();
        }
}

/* Nine ranks on three hosts, dealt out unevenly: also sizes between those that are kept. */
static void between_sizes(void)
{
    open_world(3, 3, 1);
    for (size_t bytes = 100; bytes < 8 << 20; bytes = bytes * 11 / 4 * 4)
        compare(WI_COLL_ALL_GATHER, bytes, "3 x 3");
    close_world();
}

static const struct wt_case cases[] = {
    {"the order is the events'", order_is_the_events},
    {"between sizes", between_sizes},
};
WT_UNIT_MAIN("plan_events", cases)
