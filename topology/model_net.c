/* SPDX-License-Identifier: BSD-3-Clause */
/* What stands between hosts. Most objects of a network are adapters with one link; only what forwards (routers) is kept in a
 * table of routes, so that thousands of adapters behind a hundred switches cost a hundred times a hundred entries. */
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "topology/model_internal.h"

static int network_degree(const struct wi_topo *t, int object, uint32_t *edge)
{
    const struct wi_topo_sealed *s = wi_topo_sealed(t);
    int degree = 0;

    for (uint32_t e = s->first[object]; e < s->first[object + 1]; e++)
        if (t->links[s->edges[e] / 2].kind == WI_TOPO_LINK_NETWORK) {
            *edge = s->edges[e];
            degree++;
        }
    return degree;
}

/* What forwards, and both ends of a cable without a switch. */
static int is_router(const struct wi_topo *t, int object)
{
    uint32_t edge, other;
    int degree = network_degree(t, object, &edge);

    if (degree != 1 || t->objects[object].kind == WI_TOPO_SWITCH)
        return degree > 0;
    int end = wi_topo_edge_end(t, edge);
    return t->objects[end].kind != WI_TOPO_SWITCH && network_degree(t, end, &other) == 1;
}

static weft_status find_routers(struct wi_topo_model *m)
{
    const struct wi_topo *t = m->topo;
    uint32_t edge;

    m->router_of = wi_malloc((size_t)t->nobjects * sizeof(*m->router_of));
    m->routers = wi_malloc(WI_MODEL_MAX_ROUTERS * sizeof(*m->routers));
    if (!m->router_of || !m->routers)
        return wi_fail(WEFT_ENOMEM, "model: no memory for the network");
    for (int o = 0; o < t->nobjects; o++) {
        int router = is_router(t, o);
        m->router_of[o] = router ? m->nrouters : -1;
        if (router && m->nrouters == WI_MODEL_MAX_ROUTERS)
            return wi_fail(WEFT_ENOTSUP, "model: the network has more than %d switches", WI_MODEL_MAX_ROUTERS);
        if (router)
            m->routers[m->nrouters++] = o;
        m->ngateways += t->objects[o].host != WI_TOPO_NONE && network_degree(t, o, &edge) > 0;
    }
    return WEFT_SUCCESS;
}

/* Gateways by host, then by number. Objects of a host need not stand together. */
static weft_status find_gateways(struct wi_topo_model *m)
{
    const struct wi_topo *t = m->topo;
    int n = 0;

    m->gateways = wi_calloc((size_t)m->ngateways + 1, sizeof(*m->gateways));
    m->host_gateways = wi_calloc((size_t)t->nobjects + 1, sizeof(*m->host_gateways));
    int32_t *next = wi_calloc((size_t)t->nobjects + 1, sizeof(*next));
    if (!m->gateways || !m->host_gateways || !next) {
        wi_free(next);
        return wi_fail(WEFT_ENOMEM, "model: no memory for %d adapters", m->ngateways);
    }
    uint32_t edge = 0;
    for (int o = 0; o < t->nobjects; o++)
        if (t->objects[o].host != WI_TOPO_NONE && network_degree(t, o, &edge) > 0)
            next[t->objects[o].host]++;
    for (int h = 0; h < t->nobjects; h++) {
        int here = next[h];
        m->host_gateways[h] = next[h] = n;
        n += here;
    }
    m->host_gateways[t->nobjects] = n;
    for (int o = 0; o < t->nobjects; o++) {
        int host = t->objects[o].host;
        if (host == WI_TOPO_NONE || network_degree(t, o, &edge) == 0)
            continue;
        int router = m->router_of[o] >= 0;
        m->gateways[next[host]++] = (struct wi_gateway){.object = o,
                                                        .host = host,
                                                        .router = m->router_of[router ? o : wi_topo_edge_end(t, edge)],
                                                        .edge = router ? WI_TOPO_UNREACHED : edge};
    }
    wi_free(next);
    return WEFT_SUCCESS;
}

/* Routes from each router to each; pieces are named by their first router. */
static weft_status find_routes(struct wi_topo_model *m, struct wi_topo_walker *w)
{
    size_t n = (size_t)m->nrouters;
    int32_t *piece = wi_malloc((n + 1) * sizeof(*piece));
    uint32_t path[WI_MODEL_MAX_PATH];

    m->router_back = wi_malloc((n * n + 1) * sizeof(*m->router_back));
    if (!piece || !m->router_back) {
        wi_free(piece);
        return wi_fail(WEFT_ENOMEM, "model: no memory for routes among %d switches", m->nrouters);
    }
    memset(piece, 0xff, (n + 1) * sizeof(*piece));
    for (size_t i = 0; i < n; i++) {
        wi_topo_walk(w, m->routers[i], WI_TOPO_NONE, WI_TOPO_WALK_NETWORK);
        for (size_t j = 0; j < n; j++) {
            m->router_back[i * n + j] = w->back[m->routers[j]];
            if (i != j && w->back[m->routers[j]] == WI_TOPO_UNREACHED)
                continue;
            if (piece[j] < 0)
                piece[j] = (int32_t)i;
            int steps = wi_topo_walked(w, m->routers[i], m->routers[j], path, WI_MODEL_MAX_PATH);
            if (steps < 0 || steps > m->longest)
                m->longest = steps < 0 ? WI_MODEL_MAX_PATH : steps;
        }
    }
    for (int g = 0; g < m->ngateways; g++)
        m->gateways[g].piece = piece[m->gateways[g].router];
    wi_free(piece);
    return WEFT_SUCCESS;
}

weft_status wi_model_net_init(struct wi_topo_model *m, struct wi_topo_walker *w)
{
    WI_TRY(find_routers(m));
    WI_TRY(find_gateways(m));
    return find_routes(m, w);
}

int wi_model_gateway_find(const struct wi_topo_model *m, const struct wi_seat *seat, int piece)
{
    for (int g = m->host_gateways[seat->host]; g < m->ngateways && m->gateways[g].host == seat->host; g++)
        if (m->gateways[g].piece == piece && wi_model_reaches(m, seat, m->gateways[g].object))
            return g;
    return -1;
}
