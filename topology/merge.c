/* SPDX-License-Identifier: BSD-3-Clause */
/* Several hosts' graphs as one. What the hosts say about themselves is taken as it is; a network description adds racks,
 * switches and their links, and must agree with the hosts about names. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "topology/graph_internal.h"
#include "topology/typical.h"

struct merging {
    struct wi_topo_builder *b;
    struct wi_topo *const *hosts;
    int nhosts;
    struct wi_topo *network;
    int32_t *from_network; /* [objects of network]: in the result, or WI_TOPO_NONE */
    int32_t *to;           /* scratch, of one host */
    struct named *names;   /* hosts, sorted */
    int nnames;
};

struct named {
    const char *name;
    int graph, object; /* object in its graph */
    int placed;        /* in the result */
};

static int by_name(const void *a, const void *b)
{
    const struct named *x = a, *y = b;
    int c = strcmp(x->name, y->name);

    return c ? c : (x->graph > y->graph) - (x->graph < y->graph);
}

/* Each graph is told apart by its hosts' names. */
static weft_status sort_names(struct merging *m)
{
    int n = 0;

    for (int g = 0; g < m->nhosts; g++)
        for (int o = 0; o < m->hosts[g]->nobjects; o++)
            if (m->hosts[g]->objects[o].kind == WI_TOPO_HOST)
                m->names[n++] = (struct named){m->hosts[g]->objects[o].name, g, o, WI_TOPO_NONE};
    qsort(m->names, (size_t)n, sizeof(*m->names), by_name);
    m->nnames = n;
    for (int i = 1; i < n; i++)
        if (!strcmp(m->names[i - 1].name, m->names[i].name))
            return wi_fail(WEFT_ECONFIG, "topology: descriptions %d and %d are both of a host called %s",
                           m->names[i - 1].graph, m->names[i].graph, m->names[i].name);
    return WEFT_SUCCESS;
}

static struct named *find_name(const struct merging *m, const char *name)
{
    struct named key = {name, -1, 0, 0};
    int low = 0, high = m->nnames;

    while (low < high) {
        int middle = (low + high) / 2;
        if (by_name(&m->names[middle], &key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < m->nnames && !strcmp(m->names[low].name, name) ? &m->names[low] : NULL;
}

/* ---- The network's part ---- */

static int is_between(enum wi_topo_kind kind)
{
    return kind == WI_TOPO_SWITCH || kind == WI_TOPO_RACK || kind == WI_TOPO_NVSWITCH;
}

/* Racks and switches come first: hosts stand in them. */
static void add_network(struct merging *m)
{
    const struct wi_topo *t = m->network;

    for (int o = 0; t && o < t->nobjects; o++) {
        m->from_network[o] = WI_TOPO_NONE;
        if (t->objects[o].host != WI_TOPO_NONE || !is_between(t->objects[o].kind))
            continue;
        struct wi_topo_object x = t->objects[o];
        x.parent = x.parent == WI_TOPO_NONE ? WI_TOPO_NONE : m->from_network[x.parent];
        m->from_network[o] = wi_topo_add(m->b, &x);
    }
}

/* Where the network's hosts and adapters are in the result. Hosts that no rank reported are not part of this job. */
static weft_status match_host(struct merging *m, int o, const struct named *host)
{
    const struct wi_topo_object *x = &m->network->objects[o];

    if (x->kind == WI_TOPO_HOST) {
        m->from_network[o] = host->placed;
        return WEFT_SUCCESS;
    }
    if (x->kind != WI_TOPO_NIC)
        return WEFT_SUCCESS;
    int nic = wi_topo_find(m->hosts[host->graph], WI_TOPO_NIC, host->object, x->name);
    if (nic == WI_TOPO_NONE)
        return wi_fail(WEFT_ECONFIG,
                       "topology: the network description gives %s a NIC %s, which that host does not have", host->name,
                       x->name);
    /* Hosts were copied whole, in order. */
    m->from_network[o] = host->placed - host->object + nic;
    return WEFT_SUCCESS;
}

static weft_status match_network(struct merging *m)
{
    const struct wi_topo *t = m->network;

    for (int o = 0; t && o < t->nobjects; o++) {
        if (t->objects[o].host == WI_TOPO_NONE)
            continue;
        const struct named *host = find_name(m, t->objects[t->objects[o].host].name);
        if (host)
            WI_TRY(match_host(m, o, host));
    }
    for (int i = 0; t && i < m->nnames; i++)
        if (wi_topo_find(t, WI_TOPO_HOST, WI_TOPO_NONE, m->names[i].name) == WI_TOPO_NONE)
            return wi_fail(WEFT_ECONFIG, "topology: the network description has no host %s", m->names[i].name);
    return WEFT_SUCCESS;
}

static void add_network_links(struct merging *m)
{
    const struct wi_topo *t = m->network;

    for (int l = 0; t && l < t->nlinks; l++) {
        struct wi_topo_link x = t->links[l];
        int inside = t->objects[x.a].host != WI_TOPO_NONE && t->objects[x.a].host == t->objects[x.b].host;
        x.a = m->from_network[x.a];
        x.b = m->from_network[x.b];
        if (!inside && x.a != WI_TOPO_NONE && x.b != WI_TOPO_NONE)
            wi_topo_join(m->b, &x);
    }
}

/* ---- The hosts' part ---- */

/* The rack in which the network puts the host. */
static int rack_of(const struct merging *m, const char *name)
{
    int host = m->network ? wi_topo_find(m->network, WI_TOPO_HOST, WI_TOPO_NONE, name) : WI_TOPO_NONE;
    int rack = host == WI_TOPO_NONE ? WI_TOPO_NONE : m->network->objects[host].parent;

    return rack == WI_TOPO_NONE ? WI_TOPO_NONE : m->from_network[rack];
}

static void copy_graph(struct merging *m, int g)
{
    const struct wi_topo *t = m->hosts[g];

    for (int o = 0; o < t->nobjects; o++) {
        struct wi_topo_object x = t->objects[o];
        x.parent = x.parent == WI_TOPO_NONE ? WI_TOPO_NONE : m->to[x.parent];
        x.host = x.host == WI_TOPO_NONE || x.kind == WI_TOPO_HOST ? WI_TOPO_NONE : m->to[x.host];
        if (x.kind == WI_TOPO_HOST) {
            x.index = WI_TOPO_NONE;
            x.parent = x.parent == WI_TOPO_NONE ? rack_of(m, x.name) : x.parent;
        }
        m->to[o] = wi_topo_add(m->b, &x);
        if (x.kind == WI_TOPO_HOST)
            find_name(m, x.name)->placed = m->to[o];
    }
    for (int l = 0; l < t->nlinks; l++) {
        struct wi_topo_link x = t->links[l];
        x.a = m->to[x.a];
        x.b = m->to[x.b];
        wi_topo_join(m->b, &x);
    }
    for (int i = 0; i < t->nmissing; i++)
        wi_topo_miss(m->b, "%s: %s", t->nhosts == 1 ? t->objects[0].name : "several hosts", t->missing[i]);
}

/* ---- Without a description ---- */

static int enters_by(const struct wi_topo *t, int host)
{
    static const enum wi_topo_kind order[] = {WI_TOPO_NUMA, WI_TOPO_CORE, WI_TOPO_GPU};

    for (size_t k = 0; k < sizeof(order) / sizeof(order[0]); k++)
        for (int o = 0; o < t->nobjects; o++)
            if (t->objects[o].host == host && t->objects[o].kind == order[k])
                return o;
    return host;
}

/* A host that names no adapter gets one, since its rank can communicate. */
static void add_unknown_nic(struct merging *m, const struct named *host, int net)
{
    const struct wi_topo *t = m->hosts[host->graph];
    struct wi_topo_object nic = wi_topo_object_init(WI_TOPO_NIC, host->placed, host->placed);
    int offset = host->placed - host->object;

    snprintf(nic.name, sizeof(nic.name), "network");
    int object = wi_topo_add(m->b, &nic);
    wi_topo_connect(m->b, WI_TOPO_LINK_PCI, object, offset + enters_by(t, host->object), WI_TYPICAL_PCI_RATE,
                    WI_TYPICAL_PCI_LATENCY, WI_TOPO_ASSUMED);
    wi_topo_connect(m->b, WI_TOPO_LINK_NETWORK, object, net, WI_TYPICAL_NIC_RATE, WI_TYPICAL_WIRE_LATENCY,
                    WI_TOPO_ASSUMED);
}

static void join_by_switch(struct merging *m)
{
    struct wi_topo_object x = wi_topo_object_init(WI_TOPO_SWITCH, WI_TOPO_NONE, WI_TOPO_NONE);

    snprintf(x.name, sizeof(x.name), "network");
    int net = wi_topo_add(m->b, &x);
    for (int i = 0; i < m->nnames; i++) {
        const struct wi_topo *t = m->hosts[m->names[i].graph];
        int nnics = 0;
        for (int o = 0; o < t->nobjects; o++) {
            if (t->objects[o].kind != WI_TOPO_NIC || t->objects[o].host != m->names[i].object)
                continue;
            double rate = t->objects[o].rate;
            wi_topo_connect(m->b, WI_TOPO_LINK_NETWORK, m->names[i].placed - m->names[i].object + o, net,
                            rate > 0 ? rate : WI_TYPICAL_NIC_RATE, WI_TYPICAL_WIRE_LATENCY,
                            rate > 0 ? WI_TOPO_REPORTED : WI_TOPO_ASSUMED);
            nnics++;
        }
        if (!nnics)
            add_unknown_nic(m, &m->names[i], net);
    }
}

static weft_status merge(struct merging *m, struct wi_topo **topo)
{
    WI_TRY(sort_names(m));
    add_network(m);
    for (int g = 0; g < m->nhosts; g++)
        copy_graph(m, g);
    WI_TRY(wi_topo_builder_status(m->b));
    WI_TRY(match_network(m));
    add_network_links(m);
    if (!m->network && m->nnames > 1)
        join_by_switch(m);
    struct wi_topo_builder *b = m->b;
    m->b = NULL;
    return wi_topo_seal(b, topo);
}

weft_status wi_topo_merge(struct wi_topo *const hosts[], int nhosts, struct wi_topo *network, struct wi_topo **topo)
{
    struct merging m = {.hosts = hosts, .nhosts = nhosts, .network = network};
    int most = 1, nnames = 0;

    if (nhosts < 1)
        return wi_fail(WEFT_EINVAL, "topology: %d hosts to merge", nhosts);
    for (int g = 0; g < nhosts; g++) {
        most = hosts[g]->nobjects > most ? hosts[g]->nobjects : most;
        nnames += hosts[g]->nhosts;
    }
    m.to = wi_calloc((size_t)most, sizeof(*m.to));
    m.names = wi_calloc((size_t)nnames, sizeof(*m.names));
    m.from_network = wi_calloc(network ? (size_t)network->nobjects : 1, sizeof(*m.from_network));
    weft_status st = m.to && m.names && m.from_network ? wi_topo_begin(&m.b)
                                                       : wi_fail(WEFT_ENOMEM, "topology: no memory to merge hosts");
    if (st == WEFT_SUCCESS)
        st = merge(&m, topo);
    wi_topo_abandon(m.b);
    wi_free(m.to);
    wi_free(m.names);
    wi_free(m.from_network);
    return st;
}
