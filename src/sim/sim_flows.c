/* SPDX-License-Identifier: BSD-3-Clause */
/* Flows and their max-min fair rates.
 *
 * A change (a flow begins or ends) marks its resources. Once per instant the connected components of flows and resources that hold
 * a marked resource get new rates: the resource with the least share for each of its flows gives it to them, and so on with the
 * remaining capacity (progressive filling). Other components share nothing with them and keep their rates. */
#include <math.h>

#include "base/status.h"
#include "sim/engine.h"

static void mark_dirty(struct wi_sim *s, uint32_t resource)
{
    if (s->resources[resource].dirty)
        return;
    s->resources[resource].dirty = 1;
    s->dirty[s->ndirty++] = resource;
}

uint32_t wi_sim_flow_begin(struct wi_sim *s, double units, double cap)
{
    uint32_t f = s->free_flow;

    if (f != WI_SIM_NONE) {
        s->free_flow = s->flows[f].edges;
    } else {
        if (!wi_sim_room(s, &s->flows, s->nflows, &s->flow_capacity, sizeof *s->flows))
            return WI_SIM_NONE;
        f = s->nflows++;
    }
    s->flows[f] = (struct wi_sim_flow){.left = units,
                                       .total = units,
                                       .cap = cap,
                                       .since = s->now,
                                       .edges = WI_SIM_NONE,
                                       .at = WI_SIM_NONE,
                                       .limit = WI_SIM_NONE};
    return f;
}

static uint32_t edge_get(struct wi_sim *s)
{
    uint32_t e = s->free_edge;

    if (e != WI_SIM_NONE) {
        s->free_edge = s->edges[e].next;
        return e;
    }
    if (!wi_sim_room(s, &s->edges, s->nedges, &s->edge_capacity, sizeof *s->edges))
        return WI_SIM_NONE;
    return s->nedges++;
}

void wi_sim_flow_uses(struct wi_sim *s, uint32_t flow, uint32_t resource, double weight)
{
    struct wi_sim_resource *r = &s->resources[resource];
    uint32_t e;

    for (e = s->flows[flow].edges; e != WI_SIM_NONE; e = s->edges[e].next) {
        if (s->edges[e].resource == resource) { /* twice through the same one */
            s->edges[e].weight += weight;
            return;
        }
    }
    e = edge_get(s);
    if (e == WI_SIM_NONE)
        return;
    s->edges[e] = (struct wi_sim_edge){flow, resource, s->flows[flow].edges, r->edges, WI_SIM_NONE, weight};
    s->flows[flow].edges = e;
    if (r->edges != WI_SIM_NONE)
        s->edges[r->edges].before = e;
    r->edges = e;
    if (r->nedges++ == 0)
        r->busy_since = s->now;
    mark_dirty(s, resource);
}

void wi_sim_flow_end(struct wi_sim *s, uint32_t flow)
{
    struct wi_sim_flow *f = &s->flows[flow];

    for (uint32_t e = f->edges, next; e != WI_SIM_NONE; e = next) {
        struct wi_sim_edge *edge = &s->edges[e];
        struct wi_sim_resource *r = &s->resources[edge->resource];
        r->used += f->total * edge->weight;
        if (edge->before != WI_SIM_NONE)
            s->edges[edge->before].after = edge->after;
        else
            r->edges = edge->after;
        if (edge->after != WI_SIM_NONE)
            s->edges[edge->after].before = edge->before;
        if (--r->nedges == 0)
            r->busy += s->now - r->busy_since;
        else
            mark_dirty(s, edge->resource);
        next = edge->next;
        edge->next = s->free_edge;
        s->free_edge = e;
    }
    f->edges = s->free_flow;
    s->free_flow = flow;
}

/* ---- Connected components of flows and resources ---- */

struct component {
    uint32_t nflows, nresources;
};

static void add_resource(struct wi_sim *s, struct component *c, uint32_t resource)
{
    struct wi_sim_resource *r = &s->resources[resource];

    if (r->mark == s->mark)
        return;
    r->mark = s->mark;
    r->left = r->rate;
    r->weight = 0;
    r->active = 0;
    s->component_resources[c->nresources++] = resource;
}

static int add_flow(struct wi_sim *s, struct component *c, uint32_t flow)
{
    if (s->flows[flow].mark == s->mark)
        return 1;
    if (!wi_sim_room(s, &s->component, c->nflows, &s->component_capacity, sizeof *s->component))
        return 0;
    s->flows[flow].mark = s->mark;
    s->flows[flow].frozen = 0;
    s->component[c->nflows++] = flow;
    for (uint32_t e = s->flows[flow].edges; e != WI_SIM_NONE; e = s->edges[e].next) {
        struct wi_sim_resource *r = &s->resources[s->edges[e].resource];
        add_resource(s, c, s->edges[e].resource);
        r->weight += s->edges[e].weight;
        r->active++;
    }
    return 1;
}

static struct component component_of(struct wi_sim *s, uint32_t resource)
{
    struct component c = {0, 0};

    add_resource(s, &c, resource);
    for (uint32_t i = 0; i < c.nresources; i++) {
        uint32_t r = s->component_resources[i];
        for (uint32_t e = s->resources[r].edges; e != WI_SIM_NONE; e = s->edges[e].after)
            if (!add_flow(s, &c, s->edges[e].flow))
                return c;
    }
    return c;
}

/* ---- Progressive filling ---- */

static void set_rate(struct wi_sim *s, uint32_t flow, double rate, uint32_t limit)
{
    struct wi_sim_flow *f = &s->flows[flow];

    f->frozen = 1;
    f->limit = limit;
    for (uint32_t e = f->edges; e != WI_SIM_NONE; e = s->edges[e].next) {
        struct wi_sim_resource *r = &s->resources[s->edges[e].resource];
        r->left -= rate * s->edges[e].weight;
        r->left = r->left < 0 ? 0 : r->left;
        r->weight -= s->edges[e].weight;
        r->active--;
    }
    if (rate == f->rate)
        return;
    f->left -= f->rate * (s->now - f->since);
    f->left = f->left < 0 ? 0 : f->left;
    f->since = s->now;
    f->rate = rate;
    wi_sim_event_set(s, flow, rate > 0 ? s->now + f->left / rate : INFINITY);
}

static void share_sink(struct wi_sim_share *heap, uint32_t n, uint32_t at, struct wi_sim_share x)
{
    for (;;) {
        uint32_t c = 2 * at + 1;
        if (c >= n)
            break;
        if (c + 1 < n && heap[c + 1].share < heap[c].share)
            c++;
        if (heap[c].share >= x.share)
            break;
        heap[at] = heap[c];
        at = c;
    }
    heap[at] = x;
}

/* Flows whose own limit is below what every resource would give them. */
static void freeze_capped(struct wi_sim *s, const struct component *c, double share)
{
    for (uint32_t i = 0; i < c->nflows; i++)
        if (!s->flows[s->component[i]].frozen && s->flows[s->component[i]].cap <= share)
            set_rate(s, s->component[i], s->flows[s->component[i]].cap, WI_SIM_NONE);
}

static void freeze_resource(struct wi_sim *s, uint32_t resource, double share)
{
    for (uint32_t e = s->resources[resource].edges; e != WI_SIM_NONE; e = s->edges[e].after)
        if (!s->flows[s->edges[e].flow].frozen)
            set_rate(s, s->edges[e].flow, share, resource);
}

static double least_cap(const struct wi_sim *s, const struct component *c)
{
    double least = INFINITY;

    for (uint32_t i = 0; i < c->nflows; i++)
        if (!s->flows[s->component[i]].frozen && s->flows[s->component[i]].cap < least)
            least = s->flows[s->component[i]].cap;
    return least;
}

/* Shares only grow while others are frozen below them, so that a share that is out of date is put back. */
static void fill(struct wi_sim *s, const struct component *c)
{
    struct wi_sim_share *heap = s->shares;
    double cap = least_cap(s, c);
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->nresources; i++) {
        const struct wi_sim_resource *r = &s->resources[s->component_resources[i]];
        if (r->active)
            heap[n++] = (struct wi_sim_share){r->left / r->weight, s->component_resources[i]};
    }
    for (uint32_t i = n / 2; i-- > 0;)
        share_sink(heap, n, i, heap[i]);
    while (n) {
        uint32_t resource = heap[0].resource;
        struct wi_sim_resource *r = &s->resources[resource];
        double share = r->active ? r->left / r->weight : 0;
        if (r->active && share > heap[0].share) {
            share_sink(heap, n, 0, (struct wi_sim_share){share, resource});
            continue;
        }
        if (r->active && cap <= share) {
            freeze_capped(s, c, cap);
            cap = least_cap(s, c);
            continue;
        }
        if (r->active)
            freeze_resource(s, resource, share);
        n--;
        share_sink(heap, n, 0, heap[n]);
    }
}

void wi_sim_flows_settle(struct wi_sim *s)
{
    uint32_t first = s->mark + 1;

    for (uint32_t i = 0; i < s->ndirty && s->status >= 0; i++) {
        struct wi_sim_resource *r = &s->resources[s->dirty[i]];
        r->dirty = 0;
        if (r->mark >= first && r->mark <= s->mark)
            continue; /* belongs to a component that was done */
        if (!r->nedges)
            continue;
        s->mark++;
        struct component c = component_of(s, s->dirty[i]);
        if (s->status >= 0)
            fill(s, &c);
    }
    s->ndirty = 0;
}
