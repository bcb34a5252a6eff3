/* SPDX-License-Identifier: BSD-3-Clause */
/* The invariants of a graph. A violation is an error that names the object or link; nothing is repaired. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "topology/graph_internal.h"

#define BIT(kind) (1u << WI_TOPO_##kind)
#define INSIDE (BIT(HOST) | BIT(PACKAGE) | BIT(NUMA))

/* What may contain an object of a kind; NOTHING: it may also stand alone. */
#define NOTHING (1u << 31)
static const unsigned containers[WI_TOPO_NUM_KINDS] = {
    [WI_TOPO_HOST] = NOTHING | BIT(RACK),      [WI_TOPO_PACKAGE] = BIT(HOST),
    [WI_TOPO_NUMA] = BIT(HOST) | BIT(PACKAGE), [WI_TOPO_CACHE] = INSIDE,
    [WI_TOPO_CORE] = INSIDE | BIT(CACHE),      [WI_TOPO_BRIDGE] = INSIDE | BIT(BRIDGE),
    [WI_TOPO_NIC] = INSIDE | BIT(BRIDGE),      [WI_TOPO_GPU] = INSIDE | BIT(BRIDGE),
    [WI_TOPO_STORAGE] = INSIDE | BIT(BRIDGE),  [WI_TOPO_NVSWITCH] = NOTHING | BIT(RACK) | BIT(HOST),
    [WI_TOPO_SWITCH] = NOTHING | BIT(RACK),    [WI_TOPO_RACK] = NOTHING | BIT(RACK),
};

int wi_topo_text_valid(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (!text[i])
            return 1;
        if (text[i] < ' ' || text[i] > '~')
            return 0;
    }
    return 0;
}

static weft_status check_object(const struct wi_topo_object *objects, int o)
{
    const struct wi_topo_object *x = &objects[o];

    if ((unsigned)x->kind >= WI_TOPO_NUM_KINDS)
        return wi_fail(WEFT_ECONFIG, "topology: object %d has no known kind (%d)", o, (int)x->kind);
    const char *kind = wi_topo_kind_name(x->kind);
    if (!wi_topo_text_valid(x->name, sizeof(x->name)) || !wi_topo_text_valid(x->alias, sizeof(x->alias)) ||
        !wi_topo_text_valid(x->model, sizeof(x->model)) || !wi_topo_text_valid(x->bus, sizeof(x->bus)))
        return wi_fail(WEFT_ECONFIG, "topology: object %d (%s): its texts are not printable ASCII", o, kind);
    if (x->parent != WI_TOPO_NONE && (x->parent < 0 || x->parent >= o))
        return wi_fail(WEFT_ECONFIG, "topology: object %d (%s %s): its parent, %d, does not come before it", o, kind,
                       x->name, x->parent);
    int depth = 0;
    for (int up = x->parent; up != WI_TOPO_NONE; up = objects[up].parent)
        if (++depth > WI_TOPO_MAX_DEPTH)
            return wi_fail(WEFT_ECONFIG, "topology: object %d (%s %s): stands in more than %d others", o, kind, x->name,
                           WI_TOPO_MAX_DEPTH);
    unsigned parent = x->parent == WI_TOPO_NONE ? NOTHING : 1u << objects[x->parent].kind;
    if (!(containers[x->kind] & parent))
        return wi_fail(WEFT_ECONFIG, "topology: object %d: a %s (%s) cannot be in %s%s", o, kind, x->name,
                       x->parent == WI_TOPO_NONE ? "nothing" : "a ",
                       x->parent == WI_TOPO_NONE ? "" : wi_topo_kind_name(objects[x->parent].kind));
    int host = x->kind == WI_TOPO_HOST ? o : x->parent == WI_TOPO_NONE ? WI_TOPO_NONE : objects[x->parent].host;
    if (x->host != host)
        return wi_fail(WEFT_ECONFIG, "topology: object %d (%s %s): its host is %d, its parent's is %d", o, kind,
                       x->name, x->host, host);
    if (x->rate != 0 && (!(x->rate >= WI_TOPO_LEAST_RATE) || x->rate > WI_TOPO_MOST_RATE))
        return wi_fail(WEFT_ECONFIG, "topology: object %d (%s %s): its rate is %g", o, kind, x->name, x->rate);
    if (x->bytes > INT64_MAX)
        return wi_fail(WEFT_ECONFIG, "topology: object %d (%s %s): more than 2^63 bytes", o, kind, x->name);
    if (x->index < WI_TOPO_NONE || x->os_index < WI_TOPO_NONE)
        return wi_fail(WEFT_ECONFIG, "topology: object %d (%s %s): a negative index", o, kind, x->name);
    return WEFT_SUCCESS;
}

/* ---- Numbers and names ---- */

struct key {
    int32_t host, kind, index, object;
    const char *name;
};

static int by_place(const struct key *a, const struct key *b)
{
    if (a->host != b->host)
        return a->host < b->host ? -1 : 1;
    return a->kind != b->kind ? (a->kind < b->kind ? -1 : 1) : 0;
}

/* Objects without an index come last of their kind, in order. */
static int by_index(const void *pa, const void *pb)
{
    const struct key *a = pa, *b = pb;
    int c = by_place(a, b);

    if (c)
        return c;
    uint32_t ia = (uint32_t)a->index, ib = (uint32_t)b->index;
    return ia != ib ? (ia < ib ? -1 : 1) : (a->object > b->object) - (a->object < b->object);
}

static int by_name(const void *pa, const void *pb)
{
    const struct key *a = pa, *b = pb;
    int c = by_place(a, b);

    if (!c)
        c = strcmp(a->name, b->name);
    return c ? c : (a->object > b->object) - (a->object < b->object);
}

static weft_status number(struct wi_topo_object *objects, struct key *keys, int n)
{
    qsort(keys, (size_t)n, sizeof(*keys), by_index);
    for (int i = 0; i < n; i++) {
        struct wi_topo_object *x = &objects[keys[i].object];
        int first = i == 0 || by_place(&keys[i - 1], &keys[i]);
        int before = first ? -1 : objects[keys[i - 1].object].index;
        if (x->index != WI_TOPO_NONE && !first && x->index == before)
            return wi_fail(WEFT_ECONFIG, "topology: objects %d and %d are both %s number %d of their host",
                           keys[i - 1].object, keys[i].object, wi_topo_kind_name(x->kind), x->index);
        if (x->index == WI_TOPO_NONE && before == INT32_MAX)
            return wi_fail(WEFT_ECONFIG, "topology: no number is left for object %d", keys[i].object);
        if (x->index == WI_TOPO_NONE)
            x->index = before + 1;
        if (!x->name[0])
            snprintf(x->name, sizeof(x->name), "%s%d", wi_topo_kind_name(x->kind), x->index);
    }
    return WEFT_SUCCESS;
}

static weft_status check_names(const struct wi_topo_object *objects, struct key *keys, int n)
{
    for (int i = 0; i < n; i++)
        keys[i].name = objects[keys[i].object].name;
    qsort(keys, (size_t)n, sizeof(*keys), by_name);
    for (int i = 1; i < n; i++)
        if (!by_place(&keys[i - 1], &keys[i]) && !strcmp(keys[i - 1].name, keys[i].name))
            return wi_fail(WEFT_ECONFIG, "topology: objects %d and %d are both called %s %s", keys[i - 1].object,
                           keys[i].object, wi_topo_kind_name(keys[i].kind), keys[i].name);
    return WEFT_SUCCESS;
}

weft_status wi_topo_check_objects(struct wi_topo_object *objects, int nobjects)
{
    int nhosts = 0;

    for (int o = 0; o < nobjects; o++) {
        WI_TRY(check_object(objects, o));
        nhosts += objects[o].kind == WI_TOPO_HOST;
    }
    if (!nhosts)
        return wi_fail(WEFT_ECONFIG, "topology: there is no host in it");
    struct key *keys = wi_calloc((size_t)nobjects, sizeof(*keys));
    if (!keys)
        return wi_fail(WEFT_ENOMEM, "topology: no memory to check %d objects", nobjects);
    for (int o = 0; o < nobjects; o++) {
        const struct wi_topo_object *x = &objects[o];
        /* Hosts are numbered among each other. */
        keys[o] = (struct key){x->kind == WI_TOPO_HOST ? WI_TOPO_NONE : x->host, (int)x->kind, x->index, o, NULL};
    }
    weft_status st = number(objects, keys, nobjects);
    if (st == WEFT_SUCCESS)
        st = check_names(objects, keys, nobjects);
    wi_free(keys);
    return st;
}

/* ---- Links ---- */

static weft_status check_link(const struct wi_topo_object *objects, int nobjects, const struct wi_topo_link *x, int l)
{
    if ((unsigned)x->kind >= WI_TOPO_NUM_LINK_KINDS)
        return wi_fail(WEFT_ECONFIG, "topology: link %d has no known kind (%d)", l, (int)x->kind);
    const char *kind = wi_topo_link_name(x->kind);
    if (x->a < 0 || x->b < 0 || x->a >= nobjects || x->b >= nobjects || x->a == x->b)
        return wi_fail(WEFT_ECONFIG, "topology: link %d (%s): joins %d and %d, of %d objects", l, kind, x->a, x->b,
                       nobjects);
    const char *a = objects[x->a].name, *b = objects[x->b].name;
    if (!(x->rate >= WI_TOPO_LEAST_RATE) || x->rate > WI_TOPO_MOST_RATE)
        return wi_fail(WEFT_ECONFIG, "topology: link %d (%s, %s to %s): its rate is %g, must be 0.001 to 1e12", l, kind,
                       a, b, x->rate);
    /* The bound keeps sums of latencies exact (wi_topo_walk). */
    if (!(x->latency >= 0) || x->latency > 1e9)
        return wi_fail(WEFT_ECONFIG, "topology: link %d (%s, %s to %s): its latency is %g, must be 0 to 1e9", l, kind,
                       a, b, x->latency);
    if ((unsigned)x->origin > WI_TOPO_GIVEN)
        return wi_fail(WEFT_ECONFIG, "topology: link %d (%s, %s to %s): origin %d", l, kind, a, b, (int)x->origin);
    if (objects[x->a].host != objects[x->b].host && x->kind != WI_TOPO_LINK_NETWORK && x->kind != WI_TOPO_LINK_NVLINK)
        return wi_fail(WEFT_ECONFIG, "topology: link %d (%s, %s to %s) joins hosts: only network and nvlink do", l,
                       kind, a, b);
    return WEFT_SUCCESS;
}

static int find_piece(int *piece, int o)
{
    while (piece[o] != o)
        o = piece[o] = piece[piece[o]];
    return o;
}

static int computes(enum wi_topo_kind kind)
{
    return kind == WI_TOPO_CORE || kind == WI_TOPO_GPU || kind == WI_TOPO_NUMA;
}

/* All that computes, and hosts of which nothing is known, in one piece; piece[] holds one entry per object, then one flag per
 * object: a host in which something computes. */
static weft_status check_pieces(const struct wi_topo_object *objects, int n, int *piece)
{
    int *full = piece + n, root = -1, where = -1;

    for (int o = 0; o < n; o++)
        if (computes(objects[o].kind))
            full[objects[o].host] = 1;
    for (int o = 0; o < n; o++) {
        if (!computes(objects[o].kind) && (objects[o].kind != WI_TOPO_HOST || full[o]))
            continue;
        if (root < 0) {
            root = find_piece(piece, o);
            where = o;
        }
        if (find_piece(piece, o) == root)
            continue;
        const struct wi_topo_object *x = &objects[where], *y = &objects[o];
        return wi_fail(WEFT_ECONFIG, "topology: no links lead from %s %s of %s to %s %s of %s: the graph has islands",
                       wi_topo_kind_name(x->kind), x->name, objects[x->host].name, wi_topo_kind_name(y->kind), y->name,
                       objects[y->host].name);
    }
    return WEFT_SUCCESS;
}

weft_status wi_topo_check_links(const struct wi_topo_object *objects, int nobjects, const struct wi_topo_link *links,
                                int nlinks)
{
    for (int l = 0; l < nlinks; l++)
        WI_TRY(check_link(objects, nobjects, &links[l], l));
    int *piece = wi_calloc(2 * (size_t)nobjects, sizeof(*piece));
    if (!piece)
        return wi_fail(WEFT_ENOMEM, "topology: no memory to check %d objects", nobjects);
    for (int o = 0; o < nobjects; o++)
        piece[o] = o;
    for (int l = 0; l < nlinks; l++)
        piece[find_piece(piece, links[l].a)] = find_piece(piece, links[l].b);
    weft_status st = check_pieces(objects, nobjects, piece);
    wi_free(piece);
    return st;
}
