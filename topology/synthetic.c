/* SPDX-License-Identifier: BSD-3-Clause */
/* The graph of a synthetic description. Links whose rate was given are "given", others "assumed". */
#include <stdio.h>

#include "base/alloc.h"
#include "base/status.h"
#include "topology/graph_internal.h"
#include "topology/synthetic.h"
#include "topology/typical.h"

struct making {
    const struct wi_synthetic *s;
    struct wi_topo_builder *b;
    double pci_rate, nic_rate, wire_latency;
    enum wi_topo_origin pci_origin, nic_origin;
    int node, host;
    int nnumas, *numas;     /* of the node */
    int nbridges, *bridges; /* its PCI switches */
    int *gpus;
    int nvswitch;         /* the newest between nodes, or WI_TOPO_NONE */
    int nleaves, *leaves; /* switches of racks, rails, or all */
    double *leaf_rate;    /* sum of what is attached */
    int leaf;
};

static int count_of(const struct wi_synthetic_word *word, int node)
{
    return word->count[word->n > 1 ? node : 0];
}

static int add(struct making *m, enum wi_topo_kind kind, int parent)
{
    struct wi_topo_object object =
        wi_topo_object_init(kind, parent, parent == WI_TOPO_NONE || kind == WI_TOPO_SWITCH ? WI_TOPO_NONE : m->host);

    return wi_topo_add(m->b, &object);
}

/* What a device or PCI switch i of n hangs on, if there are `nplaces`. */
static int spread(const int *places, int nplaces, int i, int n)
{
    return places[(int)((int64_t)i * nplaces / n)];
}

/* ---- One node ---- */

static void add_cores(struct making *m, enum wi_topo_link_kind kind, int parent, int ncores)
{
    double latency = kind == WI_TOPO_LINK_MEMORY ? WI_TYPICAL_MEMORY_LATENCY : WI_TYPICAL_CORE_LATENCY;

    for (int c = 0; c < ncores; c++)
        wi_topo_connect(m->b, kind, add(m, WI_TOPO_CORE, parent), parent, WI_TYPICAL_CORE_RATE, latency,
                        WI_TOPO_ASSUMED);
}

static void add_numa(struct making *m, int package)
{
    const struct wi_synthetic *s = m->s;
    int ncaches = s->cache.count[0], ncores = count_of(&s->core, m->node);
    struct wi_topo_object object = wi_topo_object_init(WI_TOPO_NUMA, package, m->host);

    object.rate = s->numa.rate > 0 ? s->numa.rate : wi_typical_memory_rate(ncores * (ncaches ? ncaches : 1));
    int numa = wi_topo_add(m->b, &object);
    m->numas[m->nnumas++] = numa;
    if (s->pack.count[0] * s->numa.count[0] > 1)
        wi_topo_connect(m->b, WI_TOPO_LINK_SOCKET, numa, package, WI_TYPICAL_INSIDE_RATE, WI_TYPICAL_INSIDE_LATENCY,
                        WI_TOPO_ASSUMED);
    if (!ncaches)
        add_cores(m, WI_TOPO_LINK_MEMORY, numa, ncores);
    for (int c = 0; ncores && c < ncaches; c++) {
        int cache = add(m, WI_TOPO_CACHE, numa);
        double rate = ncaches > 1 && object.rate > WI_TYPICAL_CLUSTER_RATE ? WI_TYPICAL_CLUSTER_RATE : object.rate;
        wi_topo_connect(m->b, WI_TOPO_LINK_MEMORY, cache, numa, rate, WI_TYPICAL_MEMORY_LATENCY, WI_TOPO_ASSUMED);
        add_cores(m, WI_TOPO_LINK_CACHE, cache, ncores);
    }
}

/* Each package to each other. */
static void join_packages(struct making *m, const int *packages, int n)
{
    double rate = m->s->pack.rate;

    for (int a = 0; a < n; a++)
        for (int b = a + 1; b < n; b++)
            wi_topo_connect(m->b, WI_TOPO_LINK_SOCKET, packages[a], packages[b],
                            rate > 0 ? rate : WI_TYPICAL_SOCKET_RATE, WI_TYPICAL_SOCKET_LATENCY,
                            rate > 0 ? WI_TOPO_GIVEN : WI_TOPO_ASSUMED);
}

static void add_pci_switches(struct making *m)
{
    int n = m->s->pcisw.count[0];

    m->nbridges = n;
    for (int i = 0; i < n; i++) {
        int numa = spread(m->numas, m->nnumas, i, n);
        m->bridges[i] = add(m, WI_TOPO_BRIDGE, numa);
        wi_topo_connect(m->b, WI_TOPO_LINK_PCI, m->bridges[i], numa, m->pci_rate, WI_TYPICAL_PCI_LATENCY,
                        m->pci_origin);
    }
}

/* Device i of n: on the PCI switches if there are any. */
static int add_device(struct making *m, enum wi_topo_kind kind, double rate, int i, int n)
{
    int parent = m->nbridges ? spread(m->bridges, m->nbridges, i, n) : spread(m->numas, m->nnumas, i, n);
    struct wi_topo_object object = wi_topo_object_init(kind, parent, m->host);

    object.rate = rate;
    int device = wi_topo_add(m->b, &object);
    wi_topo_connect(m->b, WI_TOPO_LINK_PCI, device, parent, m->pci_rate, WI_TYPICAL_PCI_LATENCY, m->pci_origin);
    return device;
}

static void join_gpus(struct making *m, int n)
{
    const struct wi_synthetic *s = m->s;

    if (s->nvlink.given && s->nvdomain.count[0] == 1)
        m->nvswitch = n ? add(m, WI_TOPO_NVSWITCH, m->host) : WI_TOPO_NONE;
    for (int i = 0; s->nvlink.given && i < n; i++)
        wi_topo_connect(m->b, WI_TOPO_LINK_NVLINK, m->gpus[i], m->nvswitch, s->nvlink.rate, WI_TYPICAL_NVLINK_LATENCY,
                        WI_TOPO_GIVEN);
    for (int i = 0; s->nvmesh.given && i < n; i++)
        for (int j = i + 1; j < n; j++)
            wi_topo_connect(m->b, WI_TOPO_LINK_NVLINK, m->gpus[i], m->gpus[j], s->nvmesh.rate,
                            WI_TYPICAL_NVLINK_LATENCY, WI_TOPO_GIVEN);
}

static void add_nics(struct making *m)
{
    const struct wi_synthetic *s = m->s;
    int several = s->nodes.count[0] > 1, n = s->nic.given ? count_of(&s->nic, m->node) : several;

    /* Hosts must reach each other. */
    if (n == 0 && several)
        n = 1;
    for (int i = 0; i < n; i++) {
        int nic = add_device(m, WI_TOPO_NIC, m->nic_rate, i, n), leaf = s->rails.given ? i % m->nleaves : m->leaf;
        if (!several)
            continue;
        wi_topo_connect(m->b, WI_TOPO_LINK_NETWORK, nic, m->leaves[leaf], m->nic_rate, m->wire_latency, m->nic_origin);
        m->leaf_rate[leaf] += m->nic_rate;
    }
}

static weft_status add_node(struct making *m, int rack)
{
    const struct wi_synthetic *s = m->s;
    struct wi_topo_object host = wi_topo_object_init(WI_TOPO_HOST, rack, WI_TOPO_NONE);
    int npackages = s->pack.count[0], ngpus = count_of(&s->gpu, m->node);

    snprintf(host.name, sizeof(host.name), "node%d", m->node);
    m->host = wi_topo_add(m->b, &host);
    m->nnumas = 0;
    int *packages = m->numas + npackages * s->numa.count[0];
    for (int p = 0; p < npackages; p++) {
        packages[p] = add(m, WI_TOPO_PACKAGE, m->host);
        for (int n = 0; n < s->numa.count[0]; n++)
            add_numa(m, packages[p]);
    }
    join_packages(m, packages, npackages);
    add_pci_switches(m);
    for (int i = 0; i < ngpus; i++)
        m->gpus[i] = add_device(m, WI_TOPO_GPU, 0, i, ngpus);
    join_gpus(m, ngpus);
    add_nics(m);
    m->node++;
    return wi_topo_builder_status(m->b);
}

/* ---- Between nodes ---- */

static int add_switch(struct making *m, int rack, const char *name, int number)
{
    struct wi_topo_object object = wi_topo_object_init(WI_TOPO_SWITCH, rack, WI_TOPO_NONE);

    snprintf(object.name, sizeof(object.name), number < 0 ? "%s" : "%s%d", name, number);
    return wi_topo_add(m->b, &object);
}

static weft_status add_racks(struct making *m)
{
    const struct wi_synthetic *s = m->s;
    int nodes = s->nodes.count[0], n = s->rack.n > 1 ? s->rack.n : s->rack.count[0];

    for (m->leaf = 0; m->leaf < n; m->leaf++) {
        struct wi_topo_object object = wi_topo_object_init(WI_TOPO_RACK, WI_TOPO_NONE, WI_TOPO_NONE);
        int rack = wi_topo_add(m->b, &object);
        m->leaves[m->leaf] = add_switch(m, rack, "leaf", m->leaf);
        int here = s->rack.n > 1 ? s->rack.count[m->leaf] : nodes / n + (m->leaf < nodes % n);
        for (int i = 0; i < here; i++)
            WI_TRY(add_node(m, rack));
    }
    if (n < 2)
        return WEFT_SUCCESS;
    int spine = add_switch(m, WI_TOPO_NONE, "spine", -1);
    for (int i = 0; i < n; i++)
        wi_topo_connect(m->b, WI_TOPO_LINK_NETWORK, m->leaves[i], spine,
                        m->leaf_rate[i] / (s->oversub.given ? s->oversub.rate : 1), m->wire_latency,
                        s->oversub.given ? WI_TOPO_GIVEN : m->nic_origin);
    return WEFT_SUCCESS;
}

static weft_status add_plain(struct making *m)
{
    int nodes = m->s->nodes.count[0];

    if (nodes > 1)
        for (int i = 0; i < m->nleaves; i++)
            m->leaves[i] = add_switch(m, WI_TOPO_NONE, m->s->rails.given ? "rail" : "switch", i);
    while (m->node < nodes) {
        if (m->s->nvdomain.given && m->s->nvdomain.count[0] > 1 && m->node % m->s->nvdomain.count[0] == 0)
            m->nvswitch = add(m, WI_TOPO_NVSWITCH, WI_TOPO_NONE);
        WI_TRY(add_node(m, WI_TOPO_NONE));
    }
    return WEFT_SUCCESS;
}

static int most_of(const struct wi_synthetic_word *word)
{
    int most = 0;

    for (int i = 0; i < word->n; i++)
        most = word->count[i] > most ? word->count[i] : most;
    return most;
}

/* Before memory is asked for and loops begin. */
static weft_status check_bounds(const struct wi_synthetic *s)
{
    double packages = s->pack.count[0], numas = packages * s->numa.count[0], caches = numas * s->cache.count[0];
    double cores = (s->cache.count[0] ? caches : numas) * most_of(&s->core), gpus = most_of(&s->gpu);
    double node = 1 + packages + numas + caches + cores + gpus + most_of(&s->nic) + s->pcisw.count[0];
    double pairs = (packages * packages + (s->nvmesh.given ? gpus * gpus : 0)) / 2;

    if (s->nodes.count[0] * node > WI_TOPO_MAX_OBJECTS || s->nodes.count[0] * pairs > WI_TOPO_MAX_LINKS)
        return wi_fail(WEFT_ECONFIG, "topology: %.3g objects and %.3g links between pairs are too many",
                       s->nodes.count[0] * node, s->nodes.count[0] * pairs);
    return WEFT_SUCCESS;
}

static weft_status make(struct making *m, struct wi_topo **topo)
{
    const struct wi_synthetic *s = m->s;
    int nics = most_of(&s->nic), racks = s->rack.n > 1 ? s->rack.n : s->rack.n ? s->rack.count[0] : 0;
    int64_t numas = (int64_t)s->pack.count[0] * s->numa.count[0];

    WI_TRY(check_bounds(s));
    m->nleaves = racks ? racks : s->rails.given && nics ? nics : 1;
    m->numas = wi_calloc((size_t)(numas + s->pack.count[0]), sizeof(int));
    m->bridges = wi_calloc((size_t)s->pcisw.count[0] + 1, sizeof(int));
    m->gpus = wi_calloc((size_t)most_of(&s->gpu) + 1, sizeof(int));
    m->leaves = wi_calloc((size_t)m->nleaves, sizeof(int));
    m->leaf_rate = wi_calloc((size_t)m->nleaves, sizeof(double));
    if (!m->numas || !m->bridges || !m->gpus || !m->leaves || !m->leaf_rate)
        return wi_fail(WEFT_ENOMEM, "topology: no memory for a synthetic node");
    WI_TRY(wi_topo_begin(&m->b));
    weft_status st = racks ? add_racks(m) : add_plain(m);
    if (st == WEFT_SUCCESS)
        return wi_topo_seal(m->b, topo);
    wi_topo_abandon(m->b);
    return st;
}

weft_status wi_topo_synthetic(const char *text, struct wi_topo **topo)
{
    struct wi_synthetic *s = wi_calloc(1, sizeof(*s));
    weft_status st = s ? wi_synthetic_parse(text, s) : wi_fail(WEFT_ENOMEM, "topology: no memory for a description");

    if (st == WEFT_SUCCESS) {
        struct making m = {
            .s = s,
            .pci_rate = s->pci.given ? s->pci.rate : WI_TYPICAL_PCI_RATE,
            .pci_origin = s->pci.given ? WI_TOPO_GIVEN : WI_TOPO_ASSUMED,
            .nic_rate = s->nic.rate > 0 ? s->nic.rate : WI_TYPICAL_NIC_RATE,
            .nic_origin = s->nic.rate > 0 ? WI_TOPO_GIVEN : WI_TOPO_ASSUMED,
            .wire_latency = s->latency.given ? s->latency.rate / 2 : WI_TYPICAL_WIRE_LATENCY,
            .nvswitch = WI_TOPO_NONE,
        };
        /* A slot as fast as what stands in it. */
        if (!s->pci.given && m.nic_rate > m.pci_rate)
            m.pci_rate = m.nic_rate;
        st = make(&m, topo);
        wi_free(m.numas);
        wi_free(m.bridges);
        wi_free(m.gpus);
        wi_free(m.leaves);
        wi_free(m.leaf_rate);
    }
    wi_free(s);
    return st;
}
