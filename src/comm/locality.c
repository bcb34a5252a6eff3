/* SPDX-License-Identifier: BSD-3-Clause */
/* Which ranks share which levels of the machine, the rates of their links, and the planner made from both.
 *
 * All of it follows from what the ranks have agreed on: the mesh, the settings, and the contents of two files, whose hashes
 * are compared when a communicator is made. Without a topology file it follows from a graph that all ranks have merged, and whose
 * hashes they have compared (topology.c). */
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/status.h"
#include "comm/comm.h"

/* ---- The files ---- */

static weft_status read_topology(struct weft_context *ctx, uint64_t *hash)
{
    void *packed;
    size_t bytes;

    WI_TRY(wi_topo_load(ctx->lib.topo_file, &ctx->topo));
    WI_TRY(wi_topo_pack(ctx->topo, &packed, &bytes));
    *hash = wi_hash64(packed, bytes, 0);
    wi_free(packed);
    return WEFT_SUCCESS;
}

static weft_status read_tuning(struct weft_context *ctx, uint64_t *hash)
{
    char machine[160];

    WI_TRY(wi_plan_table_load(ctx->lib.tuning_file, &ctx->tuning));
    wi_plan_machine(machine, sizeof machine);
    WI_TRY(wi_plan_table_check(ctx->tuning, ctx->lib.tuning_file, machine));
    *hash = ctx->tuning->hash;
    return WEFT_SUCCESS;
}

weft_status wi_locality_files(struct weft_context *ctx)
{
    uint64_t hashes[3] = {ctx->settings_hash, 0, 0};

    if (ctx->lib.tuning_file && *ctx->lib.tuning_file)
        WI_TRY(read_tuning(ctx, &hashes[1]));
    if (ctx->lib.topo_file && *ctx->lib.topo_file)
        WI_TRY(read_topology(ctx, &hashes[2]));
    if (ctx->tuning || ctx->topo)
        ctx->settings_hash = wi_hash64(hashes, sizeof hashes, 0);
    return WEFT_SUCCESS;
}

void wi_locality_files_free(struct weft_context *ctx)
{
    wi_plan_table_free(ctx->tuning);
    wi_topo_put(ctx->topo);
}

/* ---- Places in the topology ---- */

/* The host of each node: by name if all of them have one of that name, else in order. */
static weft_status find_hosts(const struct weft_comm *comm, int32_t *hosts)
{
    const struct wi_topo *t = comm->ctx->topo;
    const struct wi_mesh *mesh = comm->mesh;
    int named = 1, n = 0;

    for (int r = 0; r < comm->nranks; r++) {
        int node = mesh->ranks[r].node_index, host = wi_topo_find(t, WI_TOPO_HOST, WI_TOPO_NONE, wi_mesh_host(mesh, r));
        hosts[node] = host;
        named &= host >= 0;
    }
    for (int a = 0; a < mesh->nnodes && named; a++) /* several nodes of one host name: containers, namespaces */
        for (int b = 0; b < a; b++)
            named &= hosts[a] != hosts[b];
    if (named)
        return WEFT_SUCCESS;
    if (t->nhosts < mesh->nnodes)
        return wi_fail(WEFT_ECONFIG, "%s describes %d host(s), but the ranks are on %d", comm->ctx->lib.topo_file,
                       t->nhosts, mesh->nnodes);
    for (int o = 0; o < t->nobjects && n < mesh->nnodes; o++)
        if (t->objects[o].kind == WI_TOPO_HOST)
            hosts[n++] = o;
    return WEFT_SUCCESS;
}

/* The index-th GPU of a host, or core, or the host itself; they start over when there are more ranks. */
static int32_t place_on(const struct wi_topo *t, int32_t host, int index)
{
    static const enum wi_topo_kind kinds[] = {WI_TOPO_GPU, WI_TOPO_CORE};

    for (int k = 0; k < 2; k++) {
        int count = 0, seen = 0;
        for (int o = 0; o < t->nobjects; o++)
            count += t->objects[o].kind == kinds[k] && t->objects[o].host == host;
        for (int o = 0; o < t->nobjects && count; o++)
            if (t->objects[o].kind == kinds[k] && t->objects[o].host == host && seen++ == index % count)
                return o;
    }
    return host;
}

static weft_status make_model(struct weft_comm *comm)
{
    size_t n = (size_t)comm->nranks;
    int32_t *places = wi_calloc(2 * n, sizeof *places), *hosts = places + n, *counts = wi_calloc(n, sizeof *counts);
    weft_status st = WEFT_SUCCESS;

    if (!places || !counts)
        st = wi_fail(WEFT_ENOMEM, "places of %zu ranks", n);
    if (st >= 0)
        st = find_hosts(comm, hosts);
    for (int r = 0; r < comm->nranks && st >= 0; r++) {
        int node = comm->mesh->ranks[r].node_index;
        places[r] = place_on(comm->ctx->topo, hosts[node], counts[node]++);
    }
    if (st >= 0)
        st = wi_model_of_topo(comm->ctx->topo, places, comm->nranks, NULL, &comm->model);
    wi_free(places);
    wi_free(counts);
    return st;
}

/* ---- Levels ---- */

weft_status wi_comm_levels_from(struct weft_comm *comm, const struct wi_model *m)
{
    struct wi_algo_level node = {"node", comm->mesh->nnodes, comm->node_group};
    struct wi_algo_levels levels;
    int32_t *memory;

    WI_TRY(wi_plan_levels(m, &node, comm->nranks, &levels, &memory));
    wi_free(comm->level_memory);
    comm->level_memory = memory;
    comm->levels = levels;
    return WEFT_SUCCESS;
}

weft_status wi_comm_locality(struct weft_comm *comm)
{
    comm->node_group = wi_calloc((size_t)comm->nranks, sizeof *comm->node_group);
    if (!comm->node_group)
        return wi_fail(WEFT_ENOMEM, "the nodes of %d ranks", comm->nranks);
    for (int r = 0; r < comm->nranks; r++)
        comm->node_group[r] = comm->mesh->ranks[r].node_index;
    if (comm->ctx->topo && comm->nranks > 1)
        WI_TRY(make_model(comm));
    return wi_comm_levels_from(comm, comm->model);
}

void wi_comm_locality_free(struct weft_comm *comm)
{
    wi_model_destroy(comm->model);
    wi_free(comm->level_memory);
    wi_free(comm->node_group);
}

void wi_comm_model_link_params(const struct weft_comm *comm, struct wi_model_link_params *m)
{
    struct wi_plan_facts facts = {.nranks = comm->nranks, .oversubscribed = comm->mesh->oversubscribed};
    struct wi_plan_link_params f;

    wi_plan_default_link_params(&facts, &f);
    wi_model_default_link_params(m);
    m->copy_rate = f.local_rate; /* ranks of several nodes copy for messages only */
    m->reduce_rate = f.reduce_rate;
    m->local_send_us = m->local_recv_us = 0.3 * f.local_us;
    m->local_latency = 0.4 * f.local_us;
    m->net_send_us = m->net_recv_us = f.message_us / 2;
    m->net_latency = f.network_us;
    m->mapped_us = f.mapped_us;
}

static void log_rates(const struct weft_comm *comm)
{
    const struct wi_plan_rate *sum = wi_planner_rate(comm->planner, 0), *copy = wi_planner_rate(comm->planner, -1);

    wi_log(WEFT_LOG_INFO, "plan.rates",
           "%s: sums of floats %.0f B/us in cache, %.0f in memory (%s), copies %.0f, %.0f (%s)", comm->name,
           (double)sum->rate[WI_RATE_CACHE], (double)sum->rate[WI_RATE_MEMORY],
           wi_plan_origin_name((enum wi_plan_origin)sum->origin), (double)copy->rate[WI_RATE_CACHE],
           (double)copy->rate[WI_RATE_MEMORY], wi_plan_origin_name((enum wi_plan_origin)copy->origin));
}

weft_status wi_comm_planner(struct weft_comm *comm, const struct wi_plan_facts *facts)
{
    struct weft_context *ctx = comm->ctx;
    struct wi_plan_link_params params;
    struct wi_plan_config config = {
        .facts = facts,
        .overrides = ctx->lib.algo,
        .slice_bytes = ctx->comm.slice_bytes,
        .params = &params,
        .rates = ctx->lib.measure_rates ? &comm->mesh->rates : NULL,
        .table = ctx->tuning,
        .graph = comm->model ? comm->model : comm->discovered_model,
    };

    wi_plan_default_link_params(facts, &params);
    if (comm->model || comm->discovered_model)
        wi_plan_model_link_params(comm->model ? comm->model : comm->discovered_model, &params);
    WI_TRY(wi_planner_create(&config, &comm->planner));
    log_rates(comm);
    for (int c = 0; c < WI_NUM_COLLS; c++)
        comm->fast[c].ll_max_bytes = wi_planner_ll_max(comm->planner, (enum wi_coll)c);
    return WEFT_SUCCESS;
}
