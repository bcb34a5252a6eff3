/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/oracle/world.h"

#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "sched/internal.h"

static int is_core(const struct wi_topo *t, int object)
{
    return t->objects[object].kind == WI_TOPO_CORE;
}

/* Node after node: the order of the objects. */
static void settle_blocks(struct oracle_world *w)
{
    const struct wi_topo *t = w->topo;
    int n = 0;

    for (int o = 0; o < t->nobjects; o++)
        if (is_core(t, o)) {
            w->node[n] = t->objects[t->objects[o].host].index;
            w->place[n++] = o;
        }
}

/* One rank to each node that has a core left, and so on. */
static void deal(struct oracle_world *w)
{
    int32_t node[ORACLE_RANKS], place[ORACLE_RANKS], taken[ORACLE_RANKS] = {0};
    int n = 0;

    for (int round = 0; n < w->nranks; round++)
        for (int r = 0, nth = 0; r < w->nranks; r++) {
            nth = r > 0 && w->node[r] == w->node[r - 1] ? nth + 1 : 0;
            if (nth != round || taken[r])
                continue;
            taken[r] = 1;
            node[n] = w->node[r];
            place[n++] = w->place[r];
        }
    memcpy(w->node, node, sizeof *node * (size_t)n);
    memcpy(w->place, place, sizeof *place * (size_t)n);
}

static weft_status open_planner(struct oracle_world *w)
{
    struct wi_plan_facts facts = {.nranks = w->nranks, .nnodes = w->nnodes, .levels = &w->levels};
    struct wi_algo_level node = {"node", w->nnodes, w->node};
    struct wi_plan_link_params params;
    struct wi_plan_config config = {.facts = &facts, .params = &params, .graph = w->model};

    WI_TRY(wi_plan_levels(w->model, &node, w->nranks, &w->levels, &w->level_memory));
    wi_plan_default_link_params(&facts, &params);
    wi_plan_model_link_params(w->model, &params);
    return wi_planner_create(&config, &w->planner);
}

static weft_status open_world(struct oracle_world *w, const char *network, int dealt)
{
    WI_TRY(wi_topo_synthetic(network, &w->topo));
    for (int o = 0; o < w->topo->nobjects; o++)
        w->nranks += is_core(w->topo, o);
    w->nnodes = w->topo->nhosts;
    if (w->nranks < 2 || w->nranks > ORACLE_RANKS)
        return wi_fail(WEFT_EINVAL, "\"%s\" has %d cores, not 2 to %d", network, w->nranks, ORACLE_RANKS);
    w->node = wi_calloc((size_t)w->nranks, sizeof *w->node);
    w->place = wi_calloc((size_t)w->nranks, sizeof *w->place);
    if (!w->node || !w->place)
        return wi_fail(WEFT_ENOMEM, "world");
    settle_blocks(w);
    if (dealt)
        deal(w);
    WI_TRY(wi_model_of_topo(w->topo, w->place, w->nranks, NULL, &w->model));
    return open_planner(w);
}

weft_status oracle_open(struct oracle_world *w, const char *text)
{
    int dealt = strncmp(text, "dealt ", 6) == 0;
    weft_status st;

    *w = (struct oracle_world){0};
    if (!dealt && strncmp(text, "block ", 6) != 0)
        return wi_fail(WEFT_EINVAL, "\"%.40s\" begins with neither \"block\" nor \"dealt\"", text);
    st = open_world(w, text + 6, dealt);
    if (st < 0)
        oracle_close(w);
    return st;
}

void oracle_close(struct oracle_world *w)
{
    wi_planner_destroy(w->planner);
    wi_free(w->level_memory);
    wi_model_destroy(w->model);
    wi_topo_put(w->topo);
    wi_free(w->node);
    wi_free(w->place);
}

/* Shares that a schedule cuts are whole elements. */
static size_t whole(const struct wi_sched *sched, size_t bytes)
{
    size_t unit = wi_coll_is_vector(sched->coll) ? 4 : 4 * (size_t)sched->nblocks;

    return unit ? (bytes + unit - 1) / unit * unit : bytes;
}

weft_status oracle_run(const struct oracle_world *w, const struct wi_algo_choice *c, size_t bytes, uint32_t units,
                       struct wi_sim_cost *cost)
{
    struct wi_algo_args args = {.nranks = w->nranks, .levels = &w->levels, .spec = &c->spec};
    struct wi_sched *scheds[ORACLE_RANKS] = {NULL};
    weft_status st = WEFT_SUCCESS;

    for (args.rank = 0; args.rank < w->nranks && st >= 0; args.rank++)
        st = c->algo->build(&args, &scheds[args.rank]);
    if (st >= 0)
        st = wi_sim_cost_within((const struct wi_sched *const *)scheds, w->nranks, whole(scheds[0], bytes), w->model,
                                wi_plan_slice(w->planner, c->algo), units, cost);
    for (int r = 0; r < w->nranks; r++)
        wi_sched_put(scheds[r]);
    return st;
}
