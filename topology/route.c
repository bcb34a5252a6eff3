/* SPDX-License-Identifier: BSD-3-Clause */
/* Cheapest routes: Dijkstra's algorithm over (latency, rate of the slowest link, number of the edge). Latencies are whole
 * numbers of 10^-6 us, so that sums do not depend on their order and every rank finds the same route. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "topology/graph_internal.h"

void wi_topo_walker_fini(struct wi_topo_walker *w)
{
    wi_free(w->back);
    wi_free(w->cost);
    wi_free(w->rate);
    wi_free(w->heap);
    memset(w, 0, sizeof(*w));
}

weft_status wi_topo_walker_init(struct wi_topo_walker *w, const struct wi_topo *topo)
{
    size_t n = (size_t)topo->nobjects;

    *w = (struct wi_topo_walker){.topo = topo};
    w->back = wi_malloc(n * sizeof(*w->back));
    w->cost = wi_malloc(n * sizeof(*w->cost));
    w->rate = wi_malloc(n * sizeof(*w->rate));
    w->heap = wi_malloc(3 * n * sizeof(*w->heap));
    if (!w->back || !w->cost || !w->rate || !w->heap) {
        wi_topo_walker_fini(w);
        return wi_fail(WEFT_ENOMEM, "topology: no memory for routes among %zu objects", n);
    }
    w->place = w->heap + n;
    w->touched = w->place + n;
    memset(w->back, 0xff, n * sizeof(*w->back));
    memset(w->cost, 0xff, n * sizeof(*w->cost));
    return WEFT_SUCCESS;
}

static int nearer(const struct wi_topo_walker *w, int a, int b)
{
    if (w->cost[a] != w->cost[b])
        return w->cost[a] < w->cost[b];
    return w->rate[a] != w->rate[b] ? w->rate[a] > w->rate[b] : a < b;
}

static void put(struct wi_topo_walker *w, int at, int object)
{
    w->heap[at] = object;
    w->place[object] = at;
}

static void rise(struct wi_topo_walker *w, int at)
{
    int object = w->heap[at];

    while (at > 0 && nearer(w, object, w->heap[(at - 1) / 2])) {
        put(w, at, w->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    put(w, at, object);
}

static int take_nearest(struct wi_topo_walker *w)
{
    int nearest = w->heap[0], object = w->heap[--w->nheap], at = 0;

    while (2 * at + 1 < w->nheap) {
        int child = 2 * at + 1;
        child += child + 1 < w->nheap && nearer(w, w->heap[child + 1], w->heap[child]);
        if (!nearer(w, w->heap[child], object))
            break;
        put(w, at, w->heap[child]);
        at = child;
    }
    put(w, at, object);
    w->place[nearest] = -1;
    return nearest;
}

/* Traffic of others does not pass through what computes or stores. */
static int passes(enum wi_topo_kind kind)
{
    return kind != WI_TOPO_CORE && kind != WI_TOPO_GPU && kind != WI_TOPO_STORAGE;
}

static int in_scope(const struct wi_topo *t, uint32_t edge, int scope)
{
    if (scope == WI_TOPO_NONE)
        return 1;
    if (scope == WI_TOPO_WALK_NETWORK)
        return t->links[edge / 2].kind == WI_TOPO_LINK_NETWORK;
    return t->objects[wi_topo_edge_end(t, edge)].host == scope;
}

static void reach(struct wi_topo_walker *w, int from, uint32_t edge)
{
    const struct wi_topo_link *link = &w->topo->links[edge / 2];
    int to = wi_topo_edge_end(w->topo, edge), is_new = w->cost[to] == UINT64_MAX;
    uint64_t cost = w->cost[from] + (uint64_t)llround(link->latency * 1e6);
    double rate = link->rate < w->rate[from] ? link->rate : w->rate[from];

    if (!is_new && (w->place[to] < 0 || cost > w->cost[to]))
        return;
    if (!is_new && cost == w->cost[to] && (rate < w->rate[to] || (rate == w->rate[to] && edge >= w->back[to])))
        return;
    w->cost[to] = cost;
    w->rate[to] = rate;
    w->back[to] = edge;
    if (is_new) {
        w->touched[w->ntouched++] = to;
        put(w, w->nheap++, to);
    }
    rise(w, w->place[to]);
}

void wi_topo_walk(struct wi_topo_walker *w, int from, int to, int scope)
{
    const struct wi_topo_sealed *s = wi_topo_sealed(w->topo);

    for (int i = 0; i < w->ntouched; i++) {
        w->back[w->touched[i]] = WI_TOPO_UNREACHED;
        w->cost[w->touched[i]] = UINT64_MAX;
    }
    w->ntouched = w->nheap = 0;
    w->cost[from] = 0;
    w->rate[from] = INFINITY;
    w->touched[w->ntouched++] = from;
    put(w, w->nheap++, from);
    while (w->nheap) {
        int at = take_nearest(w);
        if (at == to)
            return;
        if (at != from && !passes(w->topo->objects[at].kind))
            continue;
        for (uint32_t e = s->first[at]; e < s->first[at + 1]; e++)
            if (in_scope(w->topo, s->edges[e], scope))
                reach(w, at, s->edges[e]);
    }
}

int wi_topo_walked(const struct wi_topo_walker *w, int from, int to, uint32_t *path, int max)
{
    int n = 0;

    for (int at = to; at != from; n++) {
        if (w->back[at] == WI_TOPO_UNREACHED || n == max)
            return -1;
        path[n] = w->back[at];
        at = wi_topo_edge_end(w->topo, w->back[at] ^ 1);
    }
    for (int i = 0; i < n / 2; i++) {
        uint32_t other = path[i];
        path[i] = path[n - 1 - i];
        path[n - 1 - i] = other;
    }
    return n;
}

int wi_topo_route(const struct wi_topo *topo, int from, int to, uint32_t *path, int max)
{
    struct wi_topo_walker w;

    if (from < 0 || to < 0 || from >= topo->nobjects || to >= topo->nobjects)
        return -1;
    if (wi_topo_walker_init(&w, topo) != WEFT_SUCCESS)
        return -1;
    wi_topo_walk(&w, from, to, WI_TOPO_NONE);
    int n = wi_topo_walked(&w, from, to, path, max);
    wi_topo_walker_fini(&w);
    return n;
}
