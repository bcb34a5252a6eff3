/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-plan explain: the ranks' machine, and what the schedules take on it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "plan_explain.h"
#include "topology/placement.h"

/* Ranks on cores of hosts with one usual network adapter: a picture to compute on where none was given. */
static weft_status assume(struct explain *x)
{
    int nodes = x->nnodes ? x->nnodes : 1, per = (x->nranks + nodes - 1) / nodes;
    char text[96];

    x->assumed = 1;
    snprintf(text, sizeof text, nodes > 1 ? "nodes:%d core:%d nic:1@10Gb" : "nodes:%d core:%d", nodes, per);
    snprintf(x->machine, sizeof x->machine, "assumed: %s", text);
    return wi_topo_synthetic(text, &x->topo);
}

static int host_of(const struct explain *x, int rank)
{
    const struct wi_topo_object *o = &x->topo->objects[x->places[rank]];

    return o->kind == WI_TOPO_HOST ? x->places[rank] : o->host;
}

static void number_nodes(struct explain *x)
{
    x->facts.nnodes = 0;
    for (int r = 0; r < x->nranks; r++) {
        int first = 0;
        while (host_of(x, first) != host_of(x, r))
            first++;
        x->node_of[r] = first == r ? x->facts.nnodes++ : x->node_of[first];
    }
}

/* More ranks on a host than it has cores? */
static int oversubscribed(const struct explain *x)
{
    for (int r = 0; r < x->nranks; r++)
        for (int k = 0; k < r; k++)
            if (x->places[k] == x->places[r] && x->topo->objects[x->places[r]].kind == WI_TOPO_CORE)
                return 1;
    return 0;
}

/* As communicators have them whose ranks share memory inside nodes (comm/create.c). Slots are as long as asked for, and there are
 * as many as a window needs. */
static void assume_pipelines(struct explain *x)
{
    const struct wi_algo_level *node = wi_algo_level_find(&x->levels, "node");

    x->facts.inside[node - x->levels.level] =
        (struct wi_plan_transport){.name = "shm", .mapped = 1, .window = WI_OP_WINDOW, .slot_bytes = x->slot_bytes};
}

weft_status explain_world(struct explain *x)
{
    size_t n = (size_t)x->nranks;

    if (x->topo_file || x->synthetic) {
        snprintf(x->machine, sizeof x->machine, "%.300s", x->topo_file ? x->topo_file : x->synthetic);
        WI_TRY(x->topo_file ? wi_topo_load(x->topo_file, &x->topo) : wi_topo_synthetic(x->synthetic, &x->topo));
        if (x->nnodes && x->nnodes != x->topo->nhosts)
            return wi_fail(WEFT_EINVAL, "--nodes %d, but \"%.100s\" has %d hosts", x->nnodes, x->machine,
                           x->topo->nhosts);
    } else {
        WI_TRY(assume(x));
    }
    x->places = wi_calloc(n, sizeof *x->places);
    x->node_of = wi_calloc(n, sizeof *x->node_of);
    if (!x->places || !x->node_of)
        return wi_fail(WEFT_ENOMEM, "%zu ranks", n);
    WI_TRY(wi_place_ranks(x->topo, x->nranks, x->places));
    WI_TRY(wi_model_of_topo(x->topo, x->places, x->nranks, NULL, &x->model));
    x->facts.nranks = x->nranks;
    number_nodes(x);
    x->facts.mapped = x->facts.can_map = x->facts.can_get = x->facts.can_put = x->facts.nnodes == 1;
    x->facts.oversubscribed = x->nranks <= 4096 && oversubscribed(x);
    struct wi_algo_level node = {"node", x->facts.nnodes, x->node_of};
    x->facts.levels = &x->levels;
    WI_TRY(wi_plan_levels(x->model, &node, x->nranks, &x->levels, &x->level_memory));
    if (x->pipelines)
        assume_pipelines(x);
    return WEFT_SUCCESS;
}

void explain_free(struct explain *x)
{
    wi_free(x->sim);
    wi_free(x->list);
    wi_planner_destroy(x->planner);
    wi_plan_table_free(x->table);
    wi_model_destroy(x->model);
    wi_topo_put(x->topo);
    wi_free(x->places);
    wi_free(x->level_memory);
    wi_free(x->node_of);
}

void explain_simulate(struct explain *x, int i)
{
    const struct wi_algo_choice *c = &x->list[i].choice;
    struct wi_sched **scheds = wi_calloc((size_t)x->nranks, sizeof *scheds);
    struct wi_algo_args args = {.nranks = x->nranks,
                                .root = x->query.root,
                                .in_place = x->query.in_place,
                                .levels = &x->levels,
                                .spec = &c->spec};
    weft_status st = scheds ? WEFT_SUCCESS : WEFT_ENOMEM;
    size_t slice = c->algo->needs & WI_ALGO_MAPPED ? 64u << 10 : 256u << 10;

    for (args.rank = 0; args.rank < x->nranks && st >= 0; args.rank++)
        st = c->algo->build(&args, &scheds[args.rank]);
    if (st >= 0)
        st =
            wi_sim_cost((const struct wi_sched *const *)scheds, x->nranks, x->query.bytes, x->model, slice, &x->sim[i]);
    if (st < 0) {
        x->sim[i].us = 0;
        wi_fail_clear();
    }
    for (int r = 0; scheds && r < x->nranks; r++)
        wi_sched_put(scheds[r]);
    wi_free(scheds);
}
