/* SPDX-License-Identifier: BSD-3-Clause */
/* The model of a graph: each direction of a link is a resource, so is each memory (half its rate: a byte that is moved is read
 * and written), and each core that copies messages between ranks of its host. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "topology/model_internal.h"

#define GPU_RATE 1e6 /* of a GPU's own memory */
#define MAX_PIECES 64

static void destroy(struct wi_model *model)
{
    struct wi_topo_model *m = (struct wi_topo_model *)model;

    for (int s = 0; s < m->nseats; s++)
        wi_free(m->seats[s].back);
    for (int l = 0; l < model->nlevels; l++)
        wi_free((void *)model->levels[l].group);
    wi_free((void *)model->resources);
    wi_free((void *)model->ranks);
    wi_free(m->seat_of);
    wi_free(m->seats);
    wi_free(m->number);
    wi_free(m->resource);
    wi_free(m->gateways);
    wi_free(m->host_gateways);
    wi_free(m->router_of);
    wi_free(m->routers);
    wi_free(m->router_back);
    wi_topo_put(m->topo);
    wi_free(m);
}

/* ---- Resources ---- */

static const char *host_name(const struct wi_topo *t, int object)
{
    int host = t->objects[object].host;

    return host == WI_TOPO_NONE || host == object ? "" : t->objects[host].name;
}

static void name_link(const struct wi_topo *t, const struct wi_topo_link *link, int from, int to, char name[64])
{
    const char *host = host_name(t, from)[0] ? host_name(t, from) : host_name(t, to), *slash = *host ? "/" : "";
    int out = link->kind == WI_TOPO_LINK_NETWORK && t->objects[from].host != WI_TOPO_NONE;
    int in = link->kind == WI_TOPO_LINK_NETWORK && t->objects[to].host != WI_TOPO_NONE;

    if (link->half_duplex)
        snprintf(name, 64, "%.22s%s%.18s-%.18s", host, slash, t->objects[from].name, t->objects[to].name);
    else if (out != in)
        snprintf(name, 64, "%.30s%s%.28s %s", host, slash, t->objects[out ? from : to].name, out ? "out" : "in");
    else
        snprintf(name, 64, "%.22s%s%.18s>%.18s", host, slash, t->objects[from].name, t->objects[to].name);
}

static void add_links(struct wi_topo_model *m, struct wi_model_resource *resources, uint32_t *n)
{
    for (int l = 0; l < m->topo->nlinks; l++) {
        const struct wi_topo_link *link = &m->topo->links[l];
        double efficiency = link->kind == WI_TOPO_LINK_NETWORK ? m->params.net_efficiency : 1;
        for (int direction = 0; direction < 2; direction++) {
            if (direction && link->half_duplex) {
                m->resource[2 * l + 1] = m->resource[2 * l];
                continue;
            }
            m->resource[2 * l + direction] = *n;
            resources[*n].rate = link->rate * efficiency;
            name_link(m->topo, link, direction ? link->b : link->a, direction ? link->a : link->b,
                      resources[(*n)++].name);
        }
    }
}

static void add_memories(struct wi_topo_model *m, struct wi_model_resource *resources, uint32_t *n)
{
    uint32_t first = *n;

    for (int s = 0; s < m->nseats; s++) {
        int32_t numa = m->seats[s].memory;
        m->seats[s].memory = -1;
        if (numa == WI_TOPO_NONE || m->topo->objects[numa].rate <= 0)
            continue;
        /* Seats of one memory mostly follow each other. */
        char name[64];
        snprintf(name, sizeof(name), "%.28s/%.28s", host_name(m->topo, numa), m->topo->objects[numa].name);
        uint32_t i = *n;
        while (i > first && strcmp(resources[i - 1].name, name))
            i--;
        if (i == first) {
            memcpy(resources[*n].name, name, sizeof(name));
            resources[*n].rate = m->topo->objects[numa].rate / 2;
            i = ++*n;
        }
        m->seats[s].memory = (int32_t)i - 1;
    }
}

/* Ranks on one core share its copying. */
static void add_engines(struct wi_topo_model *m, struct wi_model_resource *resources, uint32_t *n, int32_t *engine_at)
{
    const struct wi_topo *t = m->topo;

    memset(engine_at, 0xff, (size_t)m->nseats * sizeof(*engine_at));
    for (int r = 0; r < m->model.nranks; r++) {
        int seat = m->seat_of[r], object = m->seats[seat].object;
        m->engine_of[r] = engine_at[seat];
        if (t->objects[object].kind == WI_TOPO_GPU || engine_at[seat] >= 0)
            continue;
        m->engine_of[r] = (int32_t)*n;
        resources[*n].rate = m->params.copy_rate;
        if (t->objects[object].kind == WI_TOPO_CORE) {
            engine_at[seat] = (int32_t)*n;
            snprintf(resources[*n].name, 64, "%.25s/%.25s copies", host_name(t, object), t->objects[object].name);
        } else {
            snprintf(resources[*n].name, 64, "rank%d copies", r);
        }
        ++*n;
    }
}

static weft_status add_resources(struct wi_topo_model *m)
{
    size_t most = 2 * (size_t)m->topo->nlinks + (size_t)m->nseats + (size_t)m->model.nranks;
    struct wi_model_resource *resources = wi_calloc(most + 1, sizeof(*resources));
    struct wi_model_rank *ranks = wi_calloc((size_t)m->model.nranks, sizeof(*ranks));
    int32_t *engine_at = wi_malloc(((size_t)m->nseats + 1) * sizeof(*engine_at));

    m->model.resources = resources;
    m->model.ranks = ranks;
    m->resource = wi_malloc((2 * (size_t)m->topo->nlinks + 1) * sizeof(*m->resource));
    if (!resources || !ranks || !engine_at || !m->resource) {
        wi_free(engine_at);
        return wi_fail(WEFT_ENOMEM, "model: no memory for %zu resources", most);
    }
    add_links(m, resources, &m->model.nresources);
    add_memories(m, resources, &m->model.nresources);
    add_engines(m, resources, &m->model.nresources, engine_at);
    wi_free(engine_at);
    for (int r = 0; r < m->model.nranks; r++) {
        const struct wi_seat *seat = &m->seats[m->seat_of[r]];
        int gpu = m->topo->objects[seat->object].kind == WI_TOPO_GPU;
        ranks[r] = (struct wi_model_rank){
            .copy_rate = gpu ? GPU_RATE : m->params.copy_rate,
            .reduce_rate = gpu ? GPU_RATE : m->params.reduce_rate,
            .memory = seat->memory,
            .engine = m->engine_of[r],
            .host = m->topo->objects[seat->host].index,
            .nic = m->gateway_of[r] < 0 ? -1 : m->gateways[m->gateway_of[r]].object,
        };
    }
    return WEFT_SUCCESS;
}

/* ---- Checks that all paths exist ---- */

static int steps_to(const struct wi_topo_model *m, const struct wi_seat *seat, int object)
{
    int n = 0;

    for (int at = object; at != seat->object; n++)
        at = wi_topo_edge_end(m->topo, seat->back[m->number[at]] ^ 1);
    return n;
}

static weft_status check_pair(const struct wi_topo_model *m, const struct wi_seat *x, const struct wi_seat *y)
{
    const struct wi_topo *t = m->topo;

    if (wi_model_share_nvlink(m, x, y))
        return WEFT_SUCCESS;
    if (!wi_model_reaches(m, x, y->object))
        return wi_fail(WEFT_ECONFIG, "model: in %s no links lead from %s to %s", t->objects[x->host].name,
                       t->objects[x->object].name, t->objects[y->object].name);
    /* Two memories and two cores besides. */
    if (steps_to(m, x, y->object) + 4 > WI_MODEL_MAX_PATH)
        return wi_fail(WEFT_ENOTSUP, "model: in %s the route from %s to %s has more than %d links",
                       t->objects[x->host].name, t->objects[x->object].name, t->objects[y->object].name,
                       WI_MODEL_MAX_PATH - 4);
    return WEFT_SUCCESS;
}

/* Seats of one host reach each other, on paths that are not too long. Those of a host are a list each, by their numbers plus
 * one, so that the seats of other hosts are not looked at. */
static weft_status check_inside(const struct wi_topo_model *m)
{
    int32_t *first = wi_calloc((size_t)m->topo->nobjects + (size_t)m->nseats, sizeof(*first));
    weft_status st = WEFT_SUCCESS;

    if (!first)
        return wi_fail(WEFT_ENOMEM, "model: no memory to check %d seats", m->nseats);
    int32_t *next = first + m->topo->nobjects;
    for (int a = m->nseats - 1; a >= 0; a--) {
        next[a] = first[m->seats[a].host];
        first[m->seats[a].host] = a + 1;
    }
    for (int a = 0; a < m->nseats && st >= 0; a++)
        for (int b = first[m->seats[a].host]; b && st >= 0; b = next[b - 1])
            st = check_pair(m, &m->seats[a], &m->seats[b - 1]);
    wi_free(first);
    return st;
}

/* Which pieces of the network a seat reaches, as bits. */
static weft_status find_pieces(const struct wi_topo_model *m, uint64_t *pieces)
{
    int32_t known[MAX_PIECES];
    int n = 0;

    for (int s = 0; s < m->nseats; s++) {
        const struct wi_seat *seat = &m->seats[s];
        for (int g = m->host_gateways[seat->host]; g < m->ngateways && m->gateways[g].host == seat->host; g++) {
            int i = 0;
            while (i < n && known[i] != m->gateways[g].piece)
                i++;
            if (i == MAX_PIECES)
                return wi_fail(WEFT_ENOTSUP, "model: more than %d networks that are not joined", MAX_PIECES);
            known[i] = m->gateways[g].piece;
            n += i == n;
            if (wi_model_reaches(m, seat, m->gateways[g].object))
                pieces[s] |= (uint64_t)1 << i;
        }
    }
    return WEFT_SUCCESS;
}

/* Any two seats of different hosts are on some common network, or on one NVLink switch. */
static weft_status check_hosts(const struct wi_topo_model *m, const uint64_t *pieces)
{
    const struct wi_topo *t = m->topo;
    uint64_t all = ~(uint64_t)0;

    for (int s = 0; s < m->nseats; s++)
        all &= pieces[s];
    for (int a = 0; a < m->nseats && !all; a++)
        for (int b = a + 1; b < m->nseats; b++) {
            const struct wi_seat *x = &m->seats[a], *y = &m->seats[b];
            if (x->host != y->host && !(pieces[a] & pieces[b]) && !wi_model_share_nvlink(m, x, y))
                return wi_fail(WEFT_ECONFIG, "model: no network joins %s of %s and %s of %s",
                               t->objects[x->object].name, t->objects[x->host].name, t->objects[y->object].name,
                               t->objects[y->host].name);
        }
    return WEFT_SUCCESS;
}

static weft_status check_between(const struct wi_topo_model *m)
{
    uint64_t *pieces = wi_calloc((size_t)m->nseats, sizeof(*pieces));
    int inside = 0;

    if (!pieces)
        return wi_fail(WEFT_ENOMEM, "model: no memory to check the network");
    weft_status st = find_pieces(m, pieces);
    if (st == WEFT_SUCCESS)
        st = check_hosts(m, pieces);
    wi_free(pieces);
    WI_TRY(st);
    for (int s = 0; s < m->nseats; s++)
        for (int g = m->host_gateways[m->seats[s].host]; g < m->ngateways && m->gateways[g].host == m->seats[s].host;
             g++)
            if (wi_model_reaches(m, &m->seats[s], m->gateways[g].object)) {
                int steps = steps_to(m, &m->seats[s], m->gateways[g].object);
                inside = steps > inside ? steps : inside;
            }
    if (2 * inside + m->longest + 2 > WI_MODEL_MAX_PATH)
        return wi_fail(WEFT_ENOTSUP, "model: routes between hosts have up to %d links, at most %d are possible",
                       2 * inside + m->longest + 2, WI_MODEL_MAX_PATH);
    return WEFT_SUCCESS;
}

/* ---- Creation ---- */

static weft_status check_params(const struct wi_model_link_params *f)
{
    const double above[] = {f->copy_rate, f->reduce_rate, f->net_efficiency};
    const double least[] = {f->local_send_us, f->local_recv_us, f->local_latency, f->net_send_us,
                            f->net_recv_us,   f->net_latency,   f->mapped_us};

    for (size_t i = 0; i < sizeof(above) / sizeof(above[0]); i++)
        if (!(above[i] > 0))
            return wi_fail(WEFT_EINVAL, "model: a rate or efficiency of %g: must be above 0", above[i]);
    for (size_t i = 0; i < sizeof(least) / sizeof(least[0]); i++)
        if (!(least[i] >= 0))
            return wi_fail(WEFT_EINVAL, "model: a time of %g us: must be 0 or more", least[i]);
    return WEFT_SUCCESS;
}

static weft_status init(struct wi_topo_model *m, const int32_t *places)
{
    size_t nobjects = (size_t)m->topo->nobjects, nranks = (size_t)m->model.nranks;
    struct wi_topo_walker w;

    m->seat_of = wi_calloc(nranks, 3 * sizeof(*m->seat_of));
    m->seats = wi_calloc(nranks < nobjects ? nranks : nobjects, sizeof(*m->seats));
    m->number = wi_calloc(nobjects, 2 * sizeof(*m->number));
    if (!m->seat_of || !m->seats || !m->number)
        return wi_fail(WEFT_ENOMEM, "model: no memory for %zu ranks", nranks);
    m->gateway_of = m->seat_of + nranks;
    m->engine_of = m->gateway_of + nranks;
    m->host_size = m->number + nobjects;
    WI_TRY(wi_topo_walker_init(&w, m->topo));
    weft_status st = wi_model_net_init(m, &w);
    if (st == WEFT_SUCCESS)
        st = wi_model_seats_init(m, &w, places);
    wi_topo_walker_fini(&w);
    WI_TRY(st);
    WI_TRY(check_inside(m));
    WI_TRY(check_between(m));
    WI_TRY(add_resources(m));
    return wi_model_levels_init(m);
}

weft_status wi_model_of_topo(struct wi_topo *topo, const int32_t *places, int nranks,
                             const struct wi_model_link_params *params, struct wi_model **model)
{
    struct wi_model_link_params defaults;

    if (nranks < 1 || nranks > WI_MODEL_MAX_RANKS)
        return wi_fail(WEFT_EINVAL, "model: %d ranks: must be 1 to %d", nranks, WI_MODEL_MAX_RANKS);
    if (!params)
        wi_model_default_link_params(&defaults);
    WI_TRY(check_params(params ? params : &defaults));
    struct wi_topo_model *m = wi_calloc(1, sizeof(*m));
    if (!m)
        return wi_fail(WEFT_ENOMEM, "model: no memory for a model");
    m->topo = wi_topo_get(topo);
    m->params = params ? *params : defaults;
    m->model.nranks = nranks;
    m->model.mapped_us = m->params.mapped_us;
    m->model.path = wi_model_topo_path;
    m->model.destroy = destroy;
    weft_status st = init(m, places);
    if (st < 0)
        destroy(&m->model);
    else
        *model = &m->model;
    return st;
}
