/* SPDX-License-Identifier: BSD-3-Clause */
/* What is computed from topologies: models and their paths, merged hosts, places, rings; and hosts read with a sysfs of ours. */
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/status.h"
#include "tests/unit/unit.h"
#include "topology/placement.h"
#include "topology/read_internal.h"

#define DGX_PAIR "nodes:2 pack:2 core:4 gpu:8 nvlink:450 nic:8@400Gb pcisw:4"

static struct wi_topo *make(const char *text)
{
    struct wi_topo *t = NULL;

    wi_fail_clear();
    CU_ASSERT_EQUAL_FATAL(wi_topo_synthetic(text, &t), WEFT_SUCCESS);
    return t;
}

/* One rank for each object of a kind, with link parameters that add nothing. */
static struct wi_model *model_of(struct wi_topo *t, enum wi_topo_kind kind, int *nranks)
{
    struct wi_model_link_params f = {.copy_rate = 1e4, .reduce_rate = 5e3, .net_efficiency = 1};
    int32_t *places = calloc((size_t)t->nobjects, sizeof(*places));
    struct wi_model *m = NULL;
    int n = 0;

    for (int o = 0; o < t->nobjects; o++)
        if (t->objects[o].kind == kind)
            places[n++] = o;
    CU_ASSERT_EQUAL_FATAL(wi_model_of_topo(t, places, n, &f, &m), WEFT_SUCCESS);
    free(places);
    *nranks = n;
    return m;
}

static void has_resources(const struct wi_model *m, int from, int to, const char *const *names, int n)
{
    struct wi_model_path path;

    m->path(m, from, to, &path);
    CU_ASSERT_EQUAL(path.nresources, n);
    for (int i = 0; i < path.nresources && i < n; i++) {
        if (strcmp(m->resources[path.resources[i]].name, names[i]))
            printf("# %d to %d: %d is %s, not %s\n", from, to, i, m->resources[path.resources[i]].name, names[i]);
        CU_ASSERT_STRING_EQUAL(m->resources[path.resources[i]].name, names[i]);
    }
}

/* ---- Models ---- */

static void uniform_is_the_textbook(void)
{
    struct wi_model *m = NULL;
    struct wi_model_path path;

    CU_ASSERT_EQUAL_FATAL(wi_model_uniform(5, 2.5, 1000, 500, &m), WEFT_SUCCESS);
    m->path(m, 3, 1, &path);
    CU_ASSERT_EQUAL(path.latency, 2.5);
    CU_ASSERT(path.send_us == 0 && path.recv_us == 0 && path.nresources == 2);
    CU_ASSERT_STRING_EQUAL(m->resources[path.resources[0]].name, "rank3 out");
    CU_ASSERT_STRING_EQUAL(m->resources[path.resources[1]].name, "rank1 in");
    CU_ASSERT_EQUAL(m->resources[path.resources[0]].rate, 1000);
    CU_ASSERT(m->ranks[4].reduce_rate == 500 && isinf(m->ranks[4].copy_rate) && m->ranks[4].memory == -1);
    CU_ASSERT(m->nlevels == 0 && m->nranks == 5 && m->nresources == 10);
    wi_model_destroy(m);
    m = NULL;
    CU_ASSERT_EQUAL(wi_model_uniform(0, 1, 1, 1, &m), WEFT_EINVAL);
    CU_ASSERT_EQUAL(wi_model_uniform(2, -1, 1, 1, &m), WEFT_EINVAL);
    CU_ASSERT_EQUAL(wi_model_uniform(2, NAN, 1, 1, &m), WEFT_EINVAL);
    CU_ASSERT_EQUAL(wi_model_uniform(2, 1, 0, 1, &m), WEFT_EINVAL);
    CU_ASSERT_EQUAL(wi_model_uniform(2, 1, 1, NAN, &m), WEFT_EINVAL);
    CU_ASSERT_PTR_NULL(m);
    wi_model_destroy(NULL);
}

static void paths_follow_links(void)
{
    struct wi_topo *t = make(DGX_PAIR);
    int n;
    struct wi_model *m = model_of(t, WI_TOPO_GPU, &n);
    static const char *const inside[] = {"node0/gpu0>nvswitch0", "node0/nvswitch0>gpu1"};
    static const char *const across[] = {"node0/gpu0>bridge0", "node0/bridge0>nic0", "node0/nic0 out",
                                         "node1/nic7 in",      "node1/nic7>bridge3", "node1/bridge3>gpu7"};

    CU_ASSERT_EQUAL(n, 16);
    has_resources(m, 0, 1, inside, 2);
    has_resources(m, 0, 15, across, 6);
    /* GPUs take turns at the two adapters of their PCI switch. */
    for (int r = 0; r < n; r++)
        CU_ASSERT_EQUAL(t->objects[m->ranks[r].nic].index, r % 8);
    CU_ASSERT_EQUAL(m->nlevels, 2);
    CU_ASSERT_STRING_EQUAL(m->levels[0].name, "node");
    CU_ASSERT_STRING_EQUAL(m->levels[1].name, "package");
    CU_ASSERT(m->levels[1].ngroups == 4 && m->levels[1].group[12] == 3);
    wi_topo_put(t);
    wi_model_destroy(m);
}

static void cores_share_cache_and_memory(void)
{
    struct wi_topo *t = make("pack:2@30 numa:1@80 cache:2 core:2");
    int n;
    struct wi_model *m = model_of(t, WI_TOPO_CORE, &n);
    static const char *const cache[] = {"node0/core0 copies", "node0/core0>cache0", "node0/cache0>core1",
                                        "node0/core1 copies"};
    static const char *const socket[] = {"node0/core0 copies",   "node0/core0>cache0",      "node0/cache0>numa0",
                                         "node0/numa0>package0", "node0/package0>package1", "node0/package1>numa1",
                                         "node0/numa1>cache2",   "node0/cache2>core4",      "node0/numa0",
                                         "node0/numa1",          "node0/core4 copies"};

    has_resources(m, 0, 1, cache, 4);
    has_resources(m, 0, 4, socket, 11);
    CU_ASSERT_EQUAL(m->resources[m->ranks[0].memory].rate, 40000);
    CU_ASSERT(m->ranks[0].memory == m->ranks[3].memory && m->ranks[0].memory != m->ranks[4].memory);
    CU_ASSERT(m->ranks[0].host == m->ranks[7].host && m->ranks[0].nic == -1);
    CU_ASSERT_EQUAL(m->nlevels, 2);
    CU_ASSERT_STRING_EQUAL(m->levels[0].name, "package");
    CU_ASSERT_STRING_EQUAL(m->levels[1].name, "cache");
    wi_topo_put(t);
    wi_model_destroy(m);
}

/* What two directions of a shared medium have in common. */
static void half_duplex_is_one_resource(void)
{
    static const char text[] =
        "{\"weft_topology\": 1, \"objects\": [{\"kind\": \"host\", \"name\": \"a\"}, {\"kind\": "
        "\"host\", \"name\": \"b\"}], \"links\": [{\"kind\": \"network\", \"a\": 0, \"b\": 1, \"rate\": "
        "100, \"latency\": 3, \"half_duplex\": 1}]}";
    struct wi_topo *t = NULL;
    struct wi_model_path there, back;
    int n;

    CU_ASSERT_EQUAL_FATAL(wi_topo_parse(text, strlen(text), &t), WEFT_SUCCESS);
    struct wi_model *m = model_of(t, WI_TOPO_HOST, &n);
    m->path(m, 0, 1, &there);
    m->path(m, 1, 0, &back);
    CU_ASSERT(there.nresources == 1 && back.nresources == 1 && there.resources[0] == back.resources[0]);
    CU_ASSERT(there.latency == 3 && m->resources[there.resources[0]].rate == 100);
    wi_topo_put(t);
    wi_model_destroy(m);
}

static void rails_are_crossed_inside(void)
{
    struct wi_topo *t = make("nodes:3 gpu:4 nvmesh:100 nic:4@200Gb rails");
    int n;
    struct wi_model *m = model_of(t, WI_TOPO_GPU, &n);
    static const char *const same[] = {"node0/gpu1>numa0", "node0/numa0>nic1", "node0/nic1 out",
                                       "node2/nic1 in",    "node2/nic1>numa0", "node2/numa0>gpu1"};
    /* Rank 0 leaves by the adapter of the receiver's rail. */
    static const char *const other[] = {"node0/gpu0>numa0", "node0/numa0>nic3", "node0/nic3 out",
                                        "node1/nic3 in",    "node1/nic3>numa0", "node1/numa0>gpu3"};

    has_resources(m, 1, 9, same, 6);
    has_resources(m, 0, 7, other, 6);
    wi_topo_put(t);
    wi_model_destroy(m);
}

static void nvlink_joins_hosts(void)
{
    struct wi_topo *t = make("nodes:4 gpu:2 nvlink:900 nvdomain:2 nic:2@400Gb");
    int n;
    struct wi_model *m = model_of(t, WI_TOPO_GPU, &n);
    static const char *const near[] = {"node0/gpu0>nvswitch0", "node1/nvswitch0>gpu1"};
    struct wi_model_path path;

    has_resources(m, 0, 3, near, 2);
    m->path(m, 0, 4, &path);
    CU_ASSERT_EQUAL(path.nresources, 6);
    CU_ASSERT_STRING_EQUAL(m->levels[0].name, "nvlink");
    CU_ASSERT_EQUAL(m->levels[0].ngroups, 2);
    wi_topo_put(t);
    wi_model_destroy(m);
}

/* One core reaches the adapter of its host, the other only its own memory. */
static void refuses_ranks_without_a_network(void)
{
    struct wi_topo_builder *b = NULL;
    struct wi_topo *t = NULL;
    struct wi_model *m = NULL;
    int32_t places[3];

    CU_ASSERT_EQUAL_FATAL(wi_topo_begin(&b), WEFT_SUCCESS);
    for (int h = 0; h < 2; h++) {
        struct wi_topo_object x = wi_topo_object_init(WI_TOPO_HOST, WI_TOPO_NONE, WI_TOPO_NONE);
        int host = wi_topo_add(b, &x);
        x = wi_topo_object_init(WI_TOPO_NIC, host, host);
        int nic = wi_topo_add(b, &x);
        x = wi_topo_object_init(WI_TOPO_CORE, host, host);
        places[h] = wi_topo_add(b, &x);
        wi_topo_connect(b, WI_TOPO_LINK_PCI, nic, places[h], 1, 0, WI_TOPO_GIVEN);
    }
    wi_topo_connect(b, WI_TOPO_LINK_NETWORK, places[0] - 1, places[1] - 1, 1, 0, WI_TOPO_GIVEN);
    struct wi_topo_object gpu = wi_topo_object_init(WI_TOPO_GPU, 0, 0);
    places[2] = wi_topo_add(b, &gpu);
    wi_topo_connect(b, WI_TOPO_LINK_PCI, places[2], places[0], 1, 0, WI_TOPO_GIVEN);
    CU_ASSERT_EQUAL_FATAL(wi_topo_seal(b, &t), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_model_of_topo(t, places, 2, NULL, &m), WEFT_SUCCESS);
    wi_model_destroy(m);
    /* Nothing passes through the core between the GPU and the adapter. */
    m = NULL;
    CU_ASSERT_EQUAL(wi_model_of_topo(t, places, 3, NULL, &m), WEFT_ECONFIG);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "no network joins core0 of host1 and gpu0 of host0"));
    CU_ASSERT_PTR_NULL(m);
    wi_topo_put(t);
}

static void refuses_wrong_places(void)
{
    struct wi_topo *t = make("nodes:2 core:2");
    int32_t places[2] = {0, t->nobjects};
    struct wi_model *m = NULL;
    struct wi_model_link_params f = {.copy_rate = 1, .reduce_rate = 1, .net_efficiency = 0};

    CU_ASSERT_EQUAL(wi_model_of_topo(t, places, 2, NULL, &m), WEFT_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "switch"));
    places[0] = wi_topo_find(t, WI_TOPO_CORE, WI_TOPO_NONE, "core0");
    CU_ASSERT_EQUAL(wi_model_of_topo(t, places, 2, NULL, &m), WEFT_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "rank 1"));
    CU_ASSERT_EQUAL(wi_model_of_topo(t, places, 0, NULL, &m), WEFT_EINVAL);
    CU_ASSERT_EQUAL(wi_model_of_topo(t, places, 1, &f, &m), WEFT_EINVAL);
    CU_ASSERT_PTR_NULL(m);
    wi_topo_put(t);
}

static void model_survives_no_memory(void)
{
    struct wi_topo *t = make(DGX_PAIR);
    int32_t places[16];
    struct wi_model *m = NULL;
    weft_status st = WEFT_ENOMEM;
    int failed = 0;

    CU_ASSERT_EQUAL_FATAL(wi_place_ranks(t, 16, places), WEFT_SUCCESS);
    for (long n = 1; st < 0 && n < 10000; n++) {
        wi_alloc_fail_nth(n);
        st = wi_model_of_topo(t, places, 16, NULL, &m);
        wi_alloc_fail_nth(0);
        failed += st == WEFT_ENOMEM;
        CU_ASSERT(st == WEFT_SUCCESS || st == WEFT_ENOMEM);
    }
    CU_ASSERT(failed > 20);
    CU_ASSERT_EQUAL(t->refs, 2);
    wi_model_destroy(m);
    CU_ASSERT_EQUAL(t->refs, 1);
    wi_topo_put(t);
}

static void thousands_of_ranks(void)
{
    struct wi_topo *t = make("nodes:512 pack:2 core:4 gpu:8 nvlink:450 nic:8@400Gb pcisw:4 rack:32 oversub:2");
    int n;
    struct wi_model *m = model_of(t, WI_TOPO_GPU, &n);
    struct wi_model_path path;

    CU_ASSERT_EQUAL(n, 4096);
    CU_ASSERT_STRING_EQUAL(m->levels[0].name, "rack");
    CU_ASSERT_EQUAL(m->levels[0].ngroups, 32);
    m->path(m, 0, 4095, &path);
    CU_ASSERT_EQUAL(path.nresources, 8);
    m->path(m, 0, 8, &path);
    CU_ASSERT_EQUAL(path.nresources, 6);
    wi_model_destroy(m);
    wi_topo_put(t);
}

/* ---- Merged hosts ---- */

static struct wi_topo *host(const char *name, const char *description)
{
    struct wi_topo *t = make(description), *named = NULL;
    char *text = NULL, *at, wanted[64];
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);

    CU_ASSERT_EQUAL(wi_topo_json(t, f), WEFT_SUCCESS);
    fclose(f);
    at = strstr(text, "\"node0\"");
    CU_ASSERT_FATAL(at && strlen(name) == 5);
    snprintf(wanted, sizeof(wanted), "\"%s\"", name);
    memcpy(at, wanted, 7);
    CU_ASSERT_EQUAL_FATAL(wi_topo_parse(text, bytes, &named), WEFT_SUCCESS);
    free(text);
    wi_topo_put(t);
    return named;
}

static void merges_hosts(void)
{
    struct wi_topo *hosts[3] = {host("alpha", "core:2 nic:1@10Gb"), host("bravo", "core:1 nic:2@25Gb"),
                                host("gamma", "core:3")};
    struct wi_topo *t = NULL;
    int n;

    CU_ASSERT_EQUAL_FATAL(wi_topo_merge(hosts, 3, NULL, &t), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(t->nhosts, 3);
    struct wi_model *m = model_of(t, WI_TOPO_CORE, &n);
    static const char *const path[] = {"alpha/numa0>nic0", "alpha/nic0 out", "gamma/network in", "gamma/network>numa0",
                                       "gamma/numa0>cache0"};
    struct wi_model_path p;
    CU_ASSERT_EQUAL(n, 6);
    m->path(m, 1, 5, &p);
    /* From core to memory, then what stands in `path`. */
    CU_ASSERT_EQUAL(p.nresources, 6);
    for (int i = 1; i < p.nresources; i++)
        CU_ASSERT_STRING_EQUAL(m->resources[p.resources[i]].name, path[i - 1]);
    CU_ASSERT_EQUAL(m->levels[0].ngroups, 3);
    wi_model_destroy(m);
    wi_topo_put(t);
    t = NULL;
    hosts[2] = (wi_topo_put(hosts[2]), wi_topo_get(hosts[0]));
    CU_ASSERT_EQUAL(wi_topo_merge(hosts, 3, NULL, &t), WEFT_ECONFIG);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "0 and 2 are both of a host called alpha"));
    CU_ASSERT_EQUAL(wi_topo_merge(hosts, 0, NULL, &t), WEFT_EINVAL);
    CU_ASSERT_PTR_NULL(t);
    for (int i = 0; i < 3; i++)
        wi_topo_put(hosts[i]);
}

#define NETWORK(nic)                                                                                                          \
    "{\"weft_topology\": 1, \"objects\": [{\"kind\": \"rack\"}, {\"kind\": \"switch\", \"parent\": 0, \"name\": \"tor\"},"    \
    "{\"kind\": \"host\", \"name\": \"alpha\", \"parent\": 0}, {\"kind\": \"nic\", \"name\": \"nic0\", \"parent\": 2},"       \
    "{\"kind\": \"host\", \"name\": \"bravo\", \"parent\": 0}, {\"kind\": \"nic\", \"name\": \"" nic                          \
    "\", \"parent\": 4}],"                                                                                                    \
    "\"links\": [{\"kind\": \"pci\", \"a\": 3, \"b\": 2, \"rate\": 1}, {\"kind\": \"pci\", \"a\": 5, \"b\": 4, \"rate\": 1}," \
    "{\"kind\": \"network\", \"a\": 3, \"b\": 1, \"rate\": 777, \"latency\": 2},"                                             \
    "{\"kind\": \"network\", \"a\": 5, \"b\": 1, \"rate\": 778, \"latency\": 2}]}"

static void merges_with_a_network(void)
{
    struct wi_topo *hosts[3] = {host("alpha", "core:2 nic:1@10Gb"), host("bravo", "core:1 nic:2@25Gb"),
                                host("gamma", "core:3")};
    struct wi_topo *network = NULL, *wrong = NULL, *t = NULL;
    struct wi_model_path path;
    int n;

    CU_ASSERT_EQUAL_FATAL(wi_topo_parse(NETWORK("nic1"), strlen(NETWORK("nic1")), &network), WEFT_SUCCESS);
    CU_ASSERT_EQUAL_FATAL(wi_topo_parse(NETWORK("eth7"), strlen(NETWORK("eth7")), &wrong), WEFT_SUCCESS);
    CU_ASSERT_EQUAL_FATAL(wi_topo_merge(hosts, 2, network, &t), WEFT_SUCCESS);
    struct wi_model *m = model_of(t, WI_TOPO_CORE, &n);
    m->path(m, 0, 2, &path);
    CU_ASSERT_EQUAL(m->resources[path.resources[2]].rate, 777);
    CU_ASSERT_EQUAL(m->resources[path.resources[3]].rate, 778);
    CU_ASSERT_STRING_EQUAL(m->resources[path.resources[3]].name, "bravo/nic1 in");
    CU_ASSERT_EQUAL(t->objects[wi_topo_ancestor(t, 2, WI_TOPO_RACK)].kind, WI_TOPO_RACK);
    wi_model_destroy(m);
    wi_topo_put(t);
    t = NULL;
    CU_ASSERT_EQUAL(wi_topo_merge(hosts, 2, wrong, &t), WEFT_ECONFIG);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "gives bravo a NIC eth7, which that host does not have"));
    CU_ASSERT_EQUAL(wi_topo_merge(hosts, 3, network, &t), WEFT_ECONFIG);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "has no host gamma"));
    CU_ASSERT_PTR_NULL(t);
    for (int i = 0; i < 3; i++)
        wi_topo_put(hosts[i]);
    wi_topo_put(network);
    wi_topo_put(wrong);
}

/* ---- Places and rings ---- */

static void places_ranks(void)
{
    struct wi_topo *t = make("core:3+1+4 nic:1@25Gb");
    static const int wanted[8] = {0, 0, 0, 1, 2, 2, 2, 2};
    int32_t places[20];

    CU_ASSERT_EQUAL_FATAL(wi_place_ranks(t, 8, places), WEFT_SUCCESS);
    for (int r = 0; r < 8; r++) {
        CU_ASSERT_EQUAL(t->objects[t->objects[places[r]].host].index, wanted[r]);
        CU_ASSERT_EQUAL(t->objects[places[r]].kind, WI_TOPO_CORE);
        CU_ASSERT(r == 0 || places[r] > places[r - 1]);
    }
    /* All taken twice, and four more. */
    CU_ASSERT_EQUAL_FATAL(wi_place_ranks(t, 20, places), WEFT_SUCCESS);
    for (int r = 1; r < 20; r++)
        CU_ASSERT(places[r] >= places[r - 1]);
    wi_topo_put(t);
    t = make("pack:2 core:4");
    CU_ASSERT_EQUAL_FATAL(wi_place_ranks(t, 2, places), WEFT_SUCCESS);
    CU_ASSERT(wi_topo_ancestor(t, places[0], WI_TOPO_PACKAGE) != wi_topo_ancestor(t, places[1], WI_TOPO_PACKAGE));
    CU_ASSERT_EQUAL(wi_place_ranks(t, 0, places), WEFT_EINVAL);
    wi_topo_put(t);
}

static int crossings(const struct wi_model *m, const int32_t *order, int n, int level)
{
    int crossed = 0;

    for (int i = 0; i < n; i++)
        crossed += m->levels[level].group[order[i]] != m->levels[level].group[order[(i + 1) % n]];
    return crossed;
}

/* Ranks dealt to hosts and racks in turn: no order crosses a level less often than once for each group. */
static void rings_cross_seldom(void)
{
    struct wi_topo *t = make("nodes:8 rack:2 oversub:4 pack:2 core:4 nic:1@100Gb");
    int32_t places[64], dealt[64], order[64];
    struct wi_model *m = NULL;

    CU_ASSERT_EQUAL_FATAL(wi_place_ranks(t, 64, places), WEFT_SUCCESS);
    for (int r = 0; r < 64; r++)
        dealt[r] = places[(r * 27 + 5) % 64];
    CU_ASSERT_EQUAL_FATAL(wi_model_of_topo(t, dealt, 64, NULL, &m), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(m->nlevels, 3);
    for (int heuristic = 0; heuristic < 2; heuristic++) {
        struct wi_ring_cost cost;
        CU_ASSERT_EQUAL((heuristic ? wi_ring_order_heuristic : wi_ring_order)(m, NULL, 64, order, &cost), WEFT_SUCCESS);
        CU_ASSERT_EQUAL(order[0], 0);
        for (int l = 0; l < 2; l++)
            CU_ASSERT_EQUAL(crossings(m, order, 64, l), m->levels[l].ngroups);
        /* In and out by the package with the adapter costs no more crossings between packages than leaving by the other. */
        CU_ASSERT(crossings(m, order, 64, 2) <= m->levels[2].ngroups + m->levels[1].ngroups);
        CU_ASSERT(cost.bound > 0 && cost.bound <= cost.cost);
    }
    wi_model_destroy(m);
    wi_topo_put(t);
}

/* A network without any structure: what stands between two ranks is one resource of any rate. */
struct random_model {
    struct wi_model model;
    struct wi_model_resource resources[64];
    struct wi_model_rank ranks[8];
};

static void random_path(const struct wi_model *m, int from, int to, struct wi_model_path *path)
{
    (void)m;
    *path = (struct wi_model_path){.nresources = 1, .resources = {(uint32_t)(from * 8 + to)}};
}

static double cost_of(const struct wi_model *m, const int32_t *order, int n)
{
    double cost = 0;

    for (int i = 0; i < n; i++)
        cost += 1 / m->resources[order[i] * 8 + order[(i + 1) % n]].rate;
    return cost;
}

/* By trying all (n - 1)! orders. */
static double best_cost(const struct wi_model *m, int32_t *order, int fixed, int n)
{
    double best = fixed == n ? cost_of(m, order, n) : INFINITY;

    for (int i = fixed; i < n; i++) {
        int32_t other = order[fixed];
        order[fixed] = order[i];
        order[i] = other;
        best = fmin(best, best_cost(m, order, fixed + 1, n));
        order[i] = order[fixed];
        order[fixed] = other;
    }
    return best;
}

static void is_permutation(const int32_t *order, int n)
{
    int seen = 0;

    for (int i = 0; i < n; i++)
        seen |= 1 << order[i];
    CU_ASSERT_EQUAL(seen, (1 << n) - 1);
}

static void rings_of_eight_are_best(void)
{
    unsigned seed = 3;
    double worst = 1;

    for (int round = 0; round < 60; round++) {
        int n = 1 + round % 8, euclidean = round % 2;
        struct random_model r = {
            .model = {.nranks = n, .resources = r.resources, .ranks = r.ranks, .path = random_path}};
        double x[8], y[8];
        for (int i = 0; i < 8; i++)
            r.ranks[i].engine = -1;
        for (int i = 0; i < 8; i++) {
            x[i] = rand_r(&seed) % 1000;
            y[i] = rand_r(&seed) % 1000;
        }
        /* Half of them points of a plane, as distances mostly are; half without any sense, forth and back alike. */
        for (int i = 0; i < 8; i++)
            for (int k = 0; k < i; k++)
                r.resources[i * 8 + k].rate = r.resources[k * 8 + i].rate =
                    euclidean ? 1000 / (1 + hypot(x[i] - x[k], y[i] - y[k])) : 1.0 + rand_r(&seed) % 20;
        int32_t order[8] = {0, 1, 2, 3, 4, 5, 6, 7}, exact[8], quick[8];
        double best = best_cost(&r.model, order, 1, n);
        struct wi_ring_cost cost, bound;
        CU_ASSERT_EQUAL_FATAL(wi_ring_order(&r.model, NULL, n, exact, &cost), WEFT_SUCCESS);
        CU_ASSERT_EQUAL_FATAL(wi_ring_order_heuristic(&r.model, NULL, n, quick, &bound), WEFT_SUCCESS);
        is_permutation(exact, n);
        is_permutation(quick, n);
        if (n < 2)
            continue;
        CU_ASSERT_DOUBLE_EQUAL(cost_of(&r.model, exact, n), best, 1e-9 * best);
        CU_ASSERT_DOUBLE_EQUAL(cost.cost, best, 1e-9 * best);
        CU_ASSERT(bound.bound <= best * (1 + 1e-9));
        worst = fmax(worst, cost_of(&r.model, quick, n) / best);
    }
    if (worst > 1.05)
        printf("# the heuristic's worst ring costs %.3f times the best\n", worst);
    CU_ASSERT(worst <= 1.05);
}

static void chains_keep_their_ends(void)
{
    struct wi_topo *t = make(DGX_PAIR);
    int n;
    struct wi_model *m = model_of(t, WI_TOPO_GPU, &n);
    int32_t order[8], long_order[16], all[16];

    for (int i = 0; i < 16; i++)
        all[i] = i;
    const int32_t ends[8] = {3, 0, 1, 2, 5, 6, 7, 4};
    CU_ASSERT_EQUAL(wi_chain_order(m, ends, 8, order), WEFT_SUCCESS);
    CU_ASSERT(order[0] == 3 && order[7] == 4);
    is_permutation(order, 8);
    CU_ASSERT_EQUAL(wi_chain_order(m, all, 16, long_order), WEFT_SUCCESS);
    CU_ASSERT(long_order[0] == 0 && long_order[15] == 15);
    is_permutation(long_order, 16);
    wi_model_destroy(m);
    wi_topo_put(t);
}

static void each_adapter_has_a_ring(void)
{
    struct wi_topo *t = make(DGX_PAIR);
    int n;
    struct wi_model *m = model_of(t, WI_TOPO_GPU, &n);
    struct wi_rings *rings = NULL;
    int32_t leader[16];

    CU_ASSERT_EQUAL_FATAL(wi_rings_create(m, 16, &rings), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(rings->nrings, 8);
    CU_ASSERT_EQUAL(rings->nshared, 0);
    for (int k = 0; k < rings->nrings; k++) {
        is_permutation(rings->order + 16 * k, 16);
        CU_ASSERT_EQUAL(crossings(m, rings->order + 16 * k, 16, 0), 2);
    }
    wi_rings_destroy(rings);
    CU_ASSERT_EQUAL_FATAL(wi_rings_create(m, 3, &rings), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(rings->nrings, 3);
    wi_rings_destroy(rings);
    CU_ASSERT_EQUAL(wi_rings_create(m, 0, &rings), WEFT_EINVAL);
    CU_ASSERT_EQUAL(wi_leaders(m, leader), WEFT_SUCCESS);
    for (int r = 0; r < 16; r++)
        CU_ASSERT_EQUAL(leader[r], r);
    wi_model_destroy(m);
    wi_topo_put(t);

    t = make("nodes:2 core:4 nic:2@10Gb");
    m = model_of(t, WI_TOPO_CORE, &n);
    CU_ASSERT_EQUAL(wi_leaders(m, leader), WEFT_SUCCESS);
    static const int wanted[8] = {0, 1, 0, 1, 4, 5, 4, 5};
    for (int r = 0; r < 8; r++)
        CU_ASSERT_EQUAL(leader[r], wanted[r]);
    CU_ASSERT_EQUAL_FATAL(wi_rings_create(m, 16, &rings), WEFT_SUCCESS);
    CU_ASSERT(rings->nrings == 2 && rings->nshared == 0);
    wi_rings_destroy(rings);
    wi_model_destroy(m);
    wi_topo_put(t);
}

/* ---- This host, and one with a sysfs of ours ---- */

static void reads_this_host(void)
{
    struct wi_topo *t = NULL, *again = NULL;

    CU_ASSERT_EQUAL_FATAL(wi_topo_read_host(&t), WEFT_SUCCESS);
    CU_ASSERT_EQUAL_FATAL(wi_topo_read_host(&again), WEFT_SUCCESS);
    CU_ASSERT_PTR_EQUAL(t, again);
    CU_ASSERT_EQUAL(t->nhosts, 1);
    int ncores = 0;
    for (int o = 0; o < t->nobjects; o++)
        ncores += t->objects[o].kind == WI_TOPO_CORE;
    CU_ASSERT(ncores >= 1 && ncores <= sysconf(_SC_NPROCESSORS_CONF));
    wi_topo_put(t);
    wi_topo_put(again);
}

static void put_file(const char *root, const char *path, const char *text)
{
    char full[512];

    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(full, sizeof(full), "%s/%.*s", root, (int)(slash - path), path);
        mkdir(full, 0700);
    }
    snprintf(full, sizeof(full), "%s/%s", root, path);
    FILE *f = fopen(full, "w");
    CU_ASSERT_FATAL(f && fputs(text, f) >= 0);
    fclose(f);
}

static int is_missing(const struct wi_topo *t, const char *text)
{
    for (int i = 0; i < t->nmissing; i++)
        if (strstr(t->missing[i], text))
            return 1;
    return 0;
}

static void reads_adapters_of_sysfs(void)
{
    char root[] = "/tmp/weft-sysfs-XXXXXX", command[64];

    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(root));
    put_file(root, "class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
    put_file(root, "class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)\n");
    put_file(root, "class/infiniband/mlx5_1/ports/1/state", "1: DOWN\n");
    put_file(root, "class/infiniband/mlx5_1/ports/1/rate", "10 Gb/sec (4X SDR)\n");
    put_file(root, "class/net/lo/operstate", "unknown\n");
    put_file(root, "class/net/eth0/operstate", "up\n");
    put_file(root, "class/net/eth0/speed", "25000\n");
    put_file(root, "class/net/eth0/device/vendor", "0x15b3\n");
    put_file(root, "class/net/eth1/operstate", "down\n");
    put_file(root, "class/net/eth1/device/vendor", "0x15b3\n");
    put_file(root, "class/net/docker0/operstate", "up\n");
    struct wi_topo_source source = {.hwloc_synthetic = "pack:2 core:2 pu:1", .sysfs = root, .name = "lab"};
    struct wi_topo *t = NULL;
    weft_status st = wi_topo_read(&source, &t);
    snprintf(command, sizeof(command), "rm -rf %s", root);
    CU_ASSERT_EQUAL(system(command), 0);
    CU_ASSERT_EQUAL_FATAL(st, WEFT_SUCCESS);
    int ib = wi_topo_find(t, WI_TOPO_NIC, 0, "mlx5_0"), eth = wi_topo_find(t, WI_TOPO_NIC, 0, "eth0");
    CU_ASSERT_FATAL(ib > 0 && eth > 0);
    CU_ASSERT_EQUAL(t->objects[ib].rate, 50000);
    CU_ASSERT_EQUAL(t->objects[eth].rate, 3125);
    CU_ASSERT(wi_topo_find(t, WI_TOPO_NIC, 0, "mlx5_1") < 0 && is_missing(t, "mlx5_1 has no active port"));
    CU_ASSERT(wi_topo_find(t, WI_TOPO_NIC, 0, "eth1") < 0 && is_missing(t, "eth1 is down"));
    CU_ASSERT(wi_topo_find(t, WI_TOPO_NIC, 0, "docker0") < 0);
    CU_ASSERT(is_missing(t, "no PCI devices are visible"));
    wi_topo_put(t);
}

static void says_what_is_missing(void)
{
    struct wi_topo_source source = {.hwloc_synthetic = "pu:4", .sysfs = "/nonexistent", .name = "vm"};
    struct wi_topo *t = NULL;

    CU_ASSERT_EQUAL_FATAL(wi_topo_read(&source, &t), WEFT_SUCCESS);
    CU_ASSERT(is_missing(t, "/nonexistent/class cannot be read"));
    CU_ASSERT(is_missing(t, "no network interface is known"));
    wi_topo_put(t);
    t = NULL;
    source.hwloc_synthetic = "pack:x";
    CU_ASSERT_EQUAL(wi_topo_read(&source, &t), WEFT_ECONFIG);
    CU_ASSERT(wi_topo_read_hwloc_xml("/nonexistent.xml", &t) < 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "/nonexistent.xml"));
    CU_ASSERT_PTR_NULL(t);
}

static const struct wt_case cases[] = {
    {"the textbook's network", uniform_is_the_textbook},
    {"paths follow the links", paths_follow_links},
    {"cores share caches and memories", cores_share_cache_and_memory},
    {"a shared medium is one resource", half_duplex_is_one_resource},
    {"rails are crossed inside hosts", rails_are_crossed_inside},
    {"NVLink joins hosts", nvlink_joins_hosts},
    {"ranks without a network are refused", refuses_ranks_without_a_network},
    {"wrong places are refused", refuses_wrong_places},
    {"a model at any failed allocation", model_survives_no_memory},
    {"4,096 ranks", thousands_of_ranks},
    {"hosts are merged", merges_hosts},
    {"hosts are merged with a network", merges_with_a_network},
    {"ranks are placed", places_ranks},
    {"rings cross levels as seldom as possible", rings_cross_seldom},
    {"rings of up to 8 are the best", rings_of_eight_are_best},
    {"chains keep their ends", chains_keep_their_ends},
    {"each adapter has a ring", each_adapter_has_a_ring},
    {"this host", reads_this_host},
    {"adapters of sysfs", reads_adapters_of_sysfs},
    {"what is missing is said", says_what_is_missing},
};
WT_UNIT_MAIN("topology_model", cases)
