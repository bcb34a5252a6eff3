/* SPDX-License-Identifier: BSD-3-Clause */
/* The path of a message from rank to rank, put together from the tables of a model. */
#include "topology/model_internal.h"

static void take_resource(struct wi_model_path *path, int32_t resource)
{
    for (int i = 0; i < path->nresources; i++)
        if (path->resources[i] == (uint32_t)resource)
            return;
    if (resource >= 0 && path->nresources < WI_MODEL_MAX_PATH)
        path->resources[path->nresources++] = (uint32_t)resource;
}

static void take_edge(const struct wi_topo_model *m, uint32_t edge, struct wi_model_path *path)
{
    path->latency += m->topo->links[edge / 2].latency;
    take_resource(path, (int32_t)m->resource[edge]);
}

/* From the seat to an object of its host, or, reversed, from there to the seat. Links to the cache next to a core never
 * limit a network path. */
static void take_inside(const struct wi_topo_model *m, const struct wi_seat *seat, int object, int reversed,
                        int network, struct wi_model_path *path)
{
    uint32_t edges[WI_MODEL_MAX_PATH];
    int n = 0;

    for (int at = object; at != seat->object && n < WI_MODEL_MAX_PATH;) {
        uint32_t edge = seat->back[m->number[at]];
        at = wi_topo_edge_end(m->topo, edge ^ 1);
        if (!network || m->topo->links[edge / 2].kind != WI_TOPO_LINK_CACHE)
            edges[n++] = edge;
    }
    for (int i = 0; i < n; i++)
        take_edge(m, reversed ? edges[i] ^ 1 : edges[n - 1 - i], path);
}

static void take_network(const struct wi_topo_model *m, const struct wi_gateway *out, const struct wi_gateway *in,
                         struct wi_model_path *path)
{
    const uint32_t *back = m->router_back + (size_t)out->router * (size_t)m->nrouters;
    uint32_t edges[WI_MODEL_MAX_PATH];
    int n = 0;

    if (out->edge != WI_TOPO_UNREACHED)
        take_edge(m, out->edge, path);
    for (int at = in->router; at != out->router && n < WI_MODEL_MAX_PATH;) {
        edges[n++] = back[at];
        at = m->router_of[wi_topo_edge_end(m->topo, back[at] ^ 1)];
    }
    while (n > 0)
        take_edge(m, edges[--n], path);
    if (in->edge != WI_TOPO_UNREACHED)
        take_edge(m, in->edge ^ 1, path);
}

/* Through the adapters of both ranks if they are on one network, else through another one of the sender's host, or of the
 * receiver's. */
static void choose_gateways(const struct wi_topo_model *m, int from, int to, int *out, int *in)
{
    *out = m->gateway_of[from];
    *in = m->gateway_of[to];
    if (m->gateways[*out].piece == m->gateways[*in].piece)
        return;
    int other = wi_model_gateway_find(m, &m->seats[m->seat_of[from]], m->gateways[*in].piece);
    if (other >= 0) {
        *out = other;
        return;
    }
    other = wi_model_gateway_find(m, &m->seats[m->seat_of[to]], m->gateways[*out].piece);
    if (other >= 0) {
        *in = other;
        return;
    }
    /* Neither adapter serves; wi_model_of_topo has made sure that some pair does. */
    const struct wi_seat *sender = &m->seats[m->seat_of[from]];
    for (int g = m->host_gateways[sender->host]; g < m->ngateways && m->gateways[g].host == sender->host; g++) {
        other = wi_model_gateway_find(m, &m->seats[m->seat_of[to]], m->gateways[g].piece);
        if (other < 0 || !wi_model_reaches(m, sender, m->gateways[g].object))
            continue;
        *out = g;
        *in = other;
        return;
    }
}

static void begin_local(const struct wi_topo_model *m, struct wi_model_path *path)
{
    path->latency = m->params.local_latency;
    path->send_us = m->params.local_send_us;
    path->recv_us = m->params.local_recv_us;
}

static int same_cache(const struct wi_topo *t, int a, int b)
{
    int cache = wi_topo_ancestor(t, a, WI_TOPO_CACHE);

    return cache != WI_TOPO_NONE && cache == wi_topo_ancestor(t, b, WI_TOPO_CACHE);
}

static void path_inside(const struct wi_topo_model *m, int from, int to, struct wi_model_path *path)
{
    const struct wi_seat *a = &m->seats[m->seat_of[from]], *b = &m->seats[m->seat_of[to]];

    begin_local(m, path);
    take_resource(path, m->engine_of[from]);
    take_inside(m, a, b->object, 0, 0, path);
    if (!same_cache(m->topo, a->object, b->object)) {
        take_resource(path, a->memory);
        take_resource(path, b->memory);
    }
    take_resource(path, m->engine_of[to]);
}

static void path_between(const struct wi_topo_model *m, int from, int to, struct wi_model_path *path)
{
    const struct wi_seat *a = &m->seats[m->seat_of[from]], *b = &m->seats[m->seat_of[to]];
    int out, in;

    path->latency = m->params.net_latency;
    path->send_us = m->params.net_send_us;
    path->recv_us = m->params.net_recv_us;
    choose_gateways(m, from, to, &out, &in);
    take_inside(m, a, m->gateways[out].object, 0, 1, path);
    take_network(m, &m->gateways[out], &m->gateways[in], path);
    take_inside(m, b, m->gateways[in].object, 1, 1, path);
}

void wi_model_topo_path(const struct wi_model *model, int from, int to, struct wi_model_path *path)
{
    const struct wi_topo_model *m = (const struct wi_topo_model *)model;
    const struct wi_seat *a = &m->seats[m->seat_of[from]], *b = &m->seats[m->seat_of[to]];

    path->nresources = 0;
    if (wi_model_share_nvlink(m, a, b)) {
        begin_local(m, path);
        take_edge(m, a->nvlink, path);
        take_edge(m, b->nvlink ^ 1, path);
    } else if (a->host == b->host)
        path_inside(m, from, to, path);
    else
        path_between(m, from, to, path);
}
