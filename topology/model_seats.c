/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the ranks of a model sit, and by which adapter each leaves its host. */
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "topology/model_internal.h"

static int has_links(const struct wi_topo *t, int object)
{
    const struct wi_topo_sealed *s = wi_topo_sealed(t);

    return s->first[object + 1] > s->first[object];
}

/* For packages and hosts without links of their own: the first memory in them, or else the first core or GPU. */
static void find_inner(const struct wi_topo *t, int32_t *inner)
{
    memset(inner, 0xff, (size_t)t->nobjects * sizeof(*inner));
    for (int pass = 0; pass < 2; pass++)
        for (int o = 0; o < t->nobjects; o++) {
            enum wi_topo_kind kind = t->objects[o].kind;
            if (pass == 0 ? kind != WI_TOPO_NUMA : kind != WI_TOPO_CORE && kind != WI_TOPO_GPU)
                continue;
            for (int at = t->objects[o].parent; at != WI_TOPO_NONE && inner[at] < 0; at = t->objects[at].parent)
                inner[at] = o;
        }
}

static int32_t seat_object(const struct wi_topo *t, const int32_t *inner, int32_t place)
{
    /* A host's links lead to the network. */
    int stays = has_links(t, place) && t->objects[place].kind != WI_TOPO_HOST;

    return stays || inner[place] < 0 ? place : inner[place];
}

static weft_status check_place(const struct wi_topo *t, int rank, int32_t place)
{
    if (place < 0 || place >= t->nobjects)
        return wi_fail(WEFT_EINVAL, "model: rank %d is placed on object %d of %d", rank, place, t->nobjects);
    switch (t->objects[place].kind) {
    case WI_TOPO_CORE:
    case WI_TOPO_GPU:
    case WI_TOPO_CACHE:
    case WI_TOPO_NUMA:
    case WI_TOPO_PACKAGE:
    case WI_TOPO_HOST:
        return WEFT_SUCCESS;
    default:
        return wi_fail(WEFT_EINVAL, "model: rank %d is placed on a %s (%s), which runs no ranks", rank,
                       wi_topo_kind_name(t->objects[place].kind), t->objects[place].name);
    }
}

static weft_status add_seat(struct wi_topo_model *m, struct wi_topo_walker *w, int32_t object)
{
    const struct wi_topo *t = m->topo;
    const struct wi_topo_sealed *s = wi_topo_sealed(t);
    struct wi_seat *seat = &m->seats[m->nseats];
    int host = t->objects[object].host;

    *seat = (struct wi_seat){.object = object, .host = host, .memory = -1, .nvlink = WI_TOPO_UNREACHED};
    seat->back = wi_malloc((size_t)m->host_size[host] * sizeof(*seat->back));
    if (!seat->back)
        return wi_fail(WEFT_ENOMEM, "model: no memory for routes in %s", t->objects[host].name);
    m->nseats++;
    memset(seat->back, 0xff, (size_t)m->host_size[host] * sizeof(*seat->back));
    wi_topo_walk(w, object, WI_TOPO_NONE, host);
    for (int i = 0; i < w->ntouched; i++)
        seat->back[m->number[w->touched[i]]] = w->back[w->touched[i]];
    /* Here a memory is an object; it becomes a resource with the others. */
    seat->memory = wi_topo_ancestor(t, object, WI_TOPO_NUMA);
    for (int i = 0; t->objects[object].kind != WI_TOPO_GPU && seat->memory < 0 && i < w->ntouched; i++)
        if (t->objects[w->touched[i]].kind == WI_TOPO_NUMA)
            seat->memory = w->touched[i];
    if (t->objects[object].kind == WI_TOPO_GPU)
        seat->memory = WI_TOPO_NONE;
    for (uint32_t e = s->first[object]; e < s->first[object + 1]; e++)
        if (t->links[s->edges[e] / 2].kind == WI_TOPO_LINK_NVLINK &&
            t->objects[wi_topo_edge_end(t, s->edges[e])].host == WI_TOPO_NONE)
            seat->nvlink = s->edges[e];
    return WEFT_SUCCESS;
}

/* The nearest adapter; among equals the one that has the fewest ranks so far. */
static int choose_gateway(const struct wi_topo_model *m, const struct wi_topo_walker *w, const struct wi_seat *seat)
{
    int best = -1;

    for (int g = m->host_gateways[seat->host]; g < m->ngateways && m->gateways[g].host == seat->host; g++) {
        int object = m->gateways[g].object, other = best < 0 ? -1 : m->gateways[best].object;
        if (!wi_model_reaches(m, seat, object))
            continue;
        if (best < 0 || w->cost[object] < w->cost[other] ||
            (w->cost[object] == w->cost[other] &&
             (w->rate[object] > w->rate[other] ||
              (w->rate[object] == w->rate[other] && m->gateways[g].nusers < m->gateways[best].nusers))))
            best = g;
    }
    return best;
}

/* Ranks of one seat may leave by different adapters, so each rank chooses. `seat_at[o]`: seat of an object, or -1. */
static weft_status seat_rank(struct wi_topo_model *m, struct wi_topo_walker *w, int rank, int32_t object,
                             int32_t *seat_at, int *walked)
{
    if (seat_at[object] < 0) {
        seat_at[object] = m->nseats;
        WI_TRY(add_seat(m, w, object));
    } else if (*walked != object) {
        wi_topo_walk(w, object, WI_TOPO_NONE, m->topo->objects[object].host);
    }
    *walked = object;
    m->seat_of[rank] = seat_at[object];
    m->gateway_of[rank] = choose_gateway(m, w, &m->seats[m->seat_of[rank]]);
    if (m->gateway_of[rank] >= 0)
        m->gateways[m->gateway_of[rank]].nusers++;
    return WEFT_SUCCESS;
}

weft_status wi_model_seats_init(struct wi_topo_model *m, struct wi_topo_walker *w, const int32_t *places)
{
    const struct wi_topo *t = m->topo;
    size_t n = (size_t)t->nobjects;
    int32_t *inner = wi_malloc(2 * n * sizeof(*inner)), *seat_at = inner + n;
    weft_status st = WEFT_SUCCESS;
    int walked = -1;

    if (!inner)
        return wi_fail(WEFT_ENOMEM, "model: no memory for %d places", t->nobjects);
    find_inner(t, inner);
    memset(seat_at, 0xff, n * sizeof(*seat_at));
    for (int o = 0; o < t->nobjects; o++)
        m->number[o] = t->objects[o].host == WI_TOPO_NONE ? -1 : m->host_size[t->objects[o].host]++;
    for (int r = 0; st == WEFT_SUCCESS && r < m->model.nranks; r++) {
        st = check_place(t, r, places[r]);
        if (st == WEFT_SUCCESS)
            st = seat_rank(m, w, r, seat_object(t, inner, places[r]), seat_at, &walked);
    }
    wi_free(inner);
    return st;
}
