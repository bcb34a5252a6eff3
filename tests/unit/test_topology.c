/* SPDX-License-Identifier: BSD-3-Clause */
/* Topologies: building and its invariants, descriptions, files, routes, machine shapes with golden outputs. The golden files
 * are written anew with WEFT_TEST_GOLDEN_WRITE=1 (tests/topology/README). */
#include "config.h"

#include <math.h>

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
    CU_ASSERT_EQUAL_FATAL(wi_topo_parse(text, strlen(text), &t), WEFT_SUCCESS);
    return t;
}

typedef weft_status (*writer)(const struct wi_topo *, FILE *);

static char *written(const struct wi_topo *t, writer write)
{
    char *text = NULL;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);

    CU_ASSERT_FATAL(f && write(t, f) == WEFT_SUCCESS);
    fclose(f);
    return text;
}

/* Refused, and the reason contains `why`. */
static void refused(const char *text, const char *why)
{
    struct wi_topo *t = NULL;

    wi_fail_clear();
    weft_status st = wi_topo_parse(text, strlen(text), &t);
    if (st >= 0 || !strstr(wi_fail_text(), why))
        printf("# \"%.60s\": %d, \"%s\", wanted \"%s\"\n", text, st, wi_fail_text(), why);
    CU_ASSERT(st < 0 && t == NULL);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), why));
    wi_topo_put(t);
}

/* ---- Building ---- */

/* A host with a memory and a core, linked; what a case adds to it is judged. */
static struct wi_topo_builder *begin(void)
{
    struct wi_topo_builder *b = NULL;

    CU_ASSERT_EQUAL_FATAL(wi_topo_begin(&b), WEFT_SUCCESS);
    struct wi_topo_object host = wi_topo_object_init(WI_TOPO_HOST, WI_TOPO_NONE, WI_TOPO_NONE);
    struct wi_topo_object numa = wi_topo_object_init(WI_TOPO_NUMA, 0, 0),
                          core = wi_topo_object_init(WI_TOPO_CORE, 1, 0);
    numa.index = 0;
    CU_ASSERT_EQUAL(wi_topo_add(b, &host), 0);
    CU_ASSERT_EQUAL(wi_topo_add(b, &numa), 1);
    CU_ASSERT_EQUAL(wi_topo_add(b, &core), 2);
    wi_topo_connect(b, WI_TOPO_LINK_MEMORY, 2, 1, 1000, 0.1, WI_TOPO_GIVEN);
    return b;
}

static void sealed_as(struct wi_topo_builder *b, const char *why)
{
    struct wi_topo *t = NULL;

    wi_fail_clear();
    weft_status st = wi_topo_seal(b, &t);
    if (!why) {
        CU_ASSERT_EQUAL_FATAL(st, WEFT_SUCCESS);
        wi_topo_put(t);
        return;
    }
    if (st >= 0 || !strstr(wi_fail_text(), why))
        printf("# %d, \"%s\", wanted \"%s\"\n", st, wi_fail_text(), why);
    CU_ASSERT(st < 0 && t == NULL);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), why));
}

static void with_object(struct wi_topo_object x, const char *why)
{
    struct wi_topo_builder *b = begin();

    CU_ASSERT_EQUAL(wi_topo_add(b, &x), 3);
    sealed_as(b, why);
}

static void with_link(int from, int to, enum wi_topo_link_kind kind, double rate, double latency, const char *why)
{
    struct wi_topo_builder *b = begin();

    wi_topo_connect(b, kind, from, to, rate, latency, WI_TOPO_GIVEN);
    sealed_as(b, why);
}

static void refuses_wrong_objects(void)
{
    struct wi_topo_object x = wi_topo_object_init(WI_TOPO_NIC, 0, 0);

    with_object(x, NULL);
    x.parent = 3;
    with_object(x, "does not come before it");
    x.parent = 2;
    with_object(x, "a nic (");
    x = wi_topo_object_init(WI_TOPO_PACKAGE, WI_TOPO_NONE, WI_TOPO_NONE);
    with_object(x, "cannot be in nothing");
    x = wi_topo_object_init(WI_TOPO_NIC, 0, 1);
    with_object(x, "its host is 1, its parent's is 0");
    x = wi_topo_object_init((enum wi_topo_kind)77, 0, 0);
    with_object(x, "no known kind");
    x = wi_topo_object_init(WI_TOPO_NUMA, 0, 0);
    x.index = 0;
    with_object(x, "both numa number 0");
    x = wi_topo_object_init(WI_TOPO_STORAGE, 0, 0);
    x.rate = NAN;
    with_object(x, "its rate is nan");
    x = wi_topo_object_init(WI_TOPO_STORAGE, 0, 0);
    memcpy(x.name, "a\nb", 4);
    with_object(x, "printable");
    memset(x.name, 'x', sizeof(x.name));
    with_object(x, "printable");
    x = wi_topo_object_init(WI_TOPO_HOST, WI_TOPO_NONE, WI_TOPO_NONE);
    snprintf(x.name, sizeof(x.name), "host0");
    with_object(x, "both called host host0");
    x = wi_topo_object_init(WI_TOPO_GPU, 0, 0);
    with_object(x, "the graph has islands");
}

static void refuses_wrong_links(void)
{
    with_link(0, 1, WI_TOPO_LINK_PCI, 1, 0, NULL);
    with_link(0, 1, WI_TOPO_LINK_PCI, 0, 0, "its rate is 0");
    with_link(0, 1, WI_TOPO_LINK_PCI, -5, 0, "its rate is -5");
    with_link(0, 1, WI_TOPO_LINK_PCI, NAN, 0, "its rate is nan");
    with_link(0, 1, WI_TOPO_LINK_PCI, INFINITY, 0, "its rate is inf");
    with_link(0, 1, WI_TOPO_LINK_PCI, 1, -1, "its latency is -1");
    with_link(0, 1, WI_TOPO_LINK_PCI, 1, NAN, "its latency is nan");
    with_link(0, 9, WI_TOPO_LINK_PCI, 1, 0, "joins 0 and 9");
    with_link(2, 2, WI_TOPO_LINK_PCI, 1, 0, "joins 2 and 2");
    with_link(-1, 2, WI_TOPO_LINK_PCI, 1, 0, "joins -1 and 2");
    with_link(0, 1, (enum wi_topo_link_kind)50, 1, 0, "no known kind");
}

static void refuses_what_no_host_is_in(void)
{
    struct wi_topo_builder *b = NULL;

    CU_ASSERT_EQUAL_FATAL(wi_topo_begin(&b), WEFT_SUCCESS);
    sealed_as(b, "no host");
    wi_topo_abandon(NULL);
    wi_topo_put(NULL);
}

static void bounds_depth(void)
{
    struct wi_topo_builder *b = begin();

    for (int i = 0; i < 40; i++) {
        struct wi_topo_object x = wi_topo_object_init(WI_TOPO_BRIDGE, i ? i + 2 : 0, 0);
        wi_topo_add(b, &x);
    }
    sealed_as(b, "stands in more than 32 others");
}

static void survives_no_memory(void)
{
    int failed = 0;
    struct wi_topo *t = NULL;
    weft_status st = WEFT_ENOMEM;

    for (long n = 1; st < 0 && n < 10000; n++) {
        wi_alloc_fail_nth(n);
        st = wi_topo_parse(DGX_PAIR, strlen(DGX_PAIR), &t);
        wi_alloc_fail_nth(0);
        failed += st < 0;
        CU_ASSERT(st == WEFT_SUCCESS || st == WEFT_ENOMEM);
    }
    CU_ASSERT(failed > 10);
    CU_ASSERT_PTR_NOT_NULL_FATAL(t);
    wi_topo_put(t);
}

/* ---- Descriptions ---- */

static int count(const struct wi_topo *t, enum wi_topo_kind kind, int host)
{
    int n = 0;

    for (int o = 0; o < t->nobjects; o++)
        n += t->objects[o].kind == kind && (host == WI_TOPO_NONE || t->objects[o].host == host);
    return n;
}

static void reads_descriptions(void)
{
    struct wi_topo *t = make("# a comment\nnodes:4 pack:2 numa:1 core:8\n gpu:4 nvlink:450 nic:2@400Gb # another\n");

    CU_ASSERT_EQUAL(t->nhosts, 4);
    CU_ASSERT_EQUAL(count(t, WI_TOPO_PACKAGE, WI_TOPO_NONE), 8);
    CU_ASSERT_EQUAL(count(t, WI_TOPO_CORE, WI_TOPO_NONE), 64);
    CU_ASSERT_EQUAL(count(t, WI_TOPO_GPU, WI_TOPO_NONE), 16);
    CU_ASSERT_EQUAL(count(t, WI_TOPO_NVSWITCH, WI_TOPO_NONE), 4);
    int host = wi_topo_find(t, WI_TOPO_HOST, WI_TOPO_NONE, "node2"), nic = wi_topo_find(t, WI_TOPO_NIC, host, "nic1");
    CU_ASSERT_FATAL(host >= 0 && nic >= 0);
    CU_ASSERT_DOUBLE_EQUAL(t->objects[nic].rate, 50000, 0);
    CU_ASSERT_EQUAL(wi_topo_ancestor(t, nic, WI_TOPO_HOST), host);
    CU_ASSERT_EQUAL(t->objects[wi_topo_ancestor(t, nic, WI_TOPO_PACKAGE)].index, 1);
    wi_topo_put(t);

    t = make("core:3+1+4 nic:1@25Gb");
    for (int h = 0; h < 3; h++) {
        char name[16];
        snprintf(name, sizeof(name), "node%d", h);
        CU_ASSERT_EQUAL(count(t, WI_TOPO_CORE, wi_topo_find(t, WI_TOPO_HOST, WI_TOPO_NONE, name)), h == 0   ? 3
                                                                                                   : h == 1 ? 1
                                                                                                            : 4);
    }
    wi_topo_put(t);
}

static double rate_of(const char *text)
{
    struct wi_topo *t = make(text);
    int nic = wi_topo_find(t, WI_TOPO_NIC, WI_TOPO_NONE, "nic0");
    double rate = nic < 0 ? -1 : t->objects[nic].rate;

    wi_topo_put(t);
    return rate;
}

static void reads_rates(void)
{
    CU_ASSERT_DOUBLE_EQUAL(rate_of("nic:1@400"), 50000, 0);
    CU_ASSERT_DOUBLE_EQUAL(rate_of("nic:1@400G"), 50000, 0);
    CU_ASSERT_DOUBLE_EQUAL(rate_of("nic:1@400Gbit"), 50000, 0);
    CU_ASSERT_DOUBLE_EQUAL(rate_of("nic:1@400Gbps"), 50000, 0);
    CU_ASSERT_DOUBLE_EQUAL(rate_of("nic:1@50GB"), 50000, 0);
    CU_ASSERT_DOUBLE_EQUAL(rate_of("nic:1@0.5GB/s"), 500, 0);
    CU_ASSERT_DOUBLE_EQUAL(rate_of("nic:1@800Mb"), 100, 0);
    CU_ASSERT_DOUBLE_EQUAL(rate_of("nic:1@1Tb"), 125000, 0);
    CU_ASSERT_DOUBLE_EQUAL(rate_of("nic:1"), 1250, 0);
}

static void refuses_wrong_words(void)
{
    refused("core:1\n\n nvlnk:3", "line 3: \"nvlnk:3\": no such word");
    refused("core", "\"core\": a value is wanted");
    refused("core:", "\"core:\": a value is wanted");
    refused("core:x", "\"core:x\": a count is wanted");
    refused("core:-1", "\"core:-1\"");
    refused("core:1+", "\"core:1+\"");
    refused("core:2 core:2", "\"core:2\": this word stands twice");
    refused("nodes:0", "\"nodes:0\": a count is 1 to 65536");
    refused("nodes:1+2", "\"nodes:1+2\": a count is followed by nothing else");
    refused("nodes:65537", "\"nodes:65537\"");
    refused("nodes:99999999999999999999", "\"nodes:99999999999999999999\"");
    refused("core:1@3", "\"core:1@3\": no rate can be given here");
    refused("nic:1@", "\"nic:1@\": a rate is wanted");
    refused("nic:1@0", "\"nic:1@0\": a rate is 1 kB/s");
    refused("nic:1@-4Gb", "\"nic:1@-4Gb\": a rate is wanted");
    refused("nic:1@nan", "\"nic:1@nan\": a rate is wanted");
    refused("nic:1@1e9", "\"nic:1@1e9\": the unit");
    refused("nic:1@4Xb", "\"nic:1@4Xb\": the unit");
    refused("nic:1@1.2.3Gb", "\"nic:1@1.2.3Gb\"");
    refused("oversub:0 rack:1", "\"oversub:0\": a number above 0");
    refused("rails:3", "\"rails:3\": this word takes no value");
    refused("core:0", "neither cores nor GPUs");
    refused("nodes:3 core:1+2", "core has 2 counts for 3 nodes");
    refused("nodes:5 rack:3+1", "the racks hold 4 nodes, there are 5");
    refused("nodes:2 rack:3", "3 racks for 2 nodes");
    refused("oversub:2", "rack is missing");
    refused("gpu:2 nvlink:3 nvmesh:3", "exclude each other");
    refused("nvlink:300", "there are none");
    refused("nodes:65536 core:65536", "too many");
    refused("gpu:65536 nvmesh:3", "too many");
    refused("", "nothing in it");
    refused("  \n ", "nothing in it");
}

/* ---- Files ---- */

static void keeps_all_of(const char *description, writer write)
{
    struct wi_topo *t = make(description), *again;
    char *first = written(t, write);

    again = make(first);
    char *second = written(again, write);
    CU_ASSERT_STRING_EQUAL(first, second);
    char *a = written(t, wi_topo_print), *b = written(again, wi_topo_print);
    CU_ASSERT_STRING_EQUAL(a, b);
    free(first);
    free(second);
    free(a);
    free(b);
    wi_topo_put(t);
    wi_topo_put(again);
}

#ifdef HAVE_EXPAT
#define XML(body) "<?xml version=\"1.0\"?>\n<weft-topology version=\"1\">\n" body "</weft-topology>\n"
#define XML_HOST "<object kind=\"host\" name=\"a\"/>\n"
#endif

static void keeps_xml(void)
{
#ifdef HAVE_EXPAT
    keeps_all_of(DGX_PAIR, wi_topo_xml);
    keeps_all_of("nodes:8 rack:2 oversub:3 latency:1.7us nic:1@33.3Gb", wi_topo_xml);
#else
    wt_skip("built without expat");
#endif
}

static void keeps_json(void)
{
    keeps_all_of(DGX_PAIR, wi_topo_json);
    keeps_all_of("nodes:8 rack:2 oversub:3 latency:1.7us nic:1@33.3Gb", wi_topo_json);
}

static void keeps_strange_texts(void)
{
    struct wi_topo_builder *b = begin();
    struct wi_topo_object x = wi_topo_object_init(WI_TOPO_NIC, 0, 0);
    struct wi_topo *t, *again;

    snprintf(x.name, sizeof(x.name), "<a \"b\" & 'c' \\d>");
    wi_topo_add(b, &x);
    wi_topo_miss(b, "a \"note\" <of> %s\n", "things & \xc3\xa4");
    CU_ASSERT_EQUAL_FATAL(wi_topo_seal(b, &t), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(t->nmissing, 1);
    CU_ASSERT_STRING_EQUAL(t->missing[0], "a \"note\" <of> things & ???");
    const writer writers[] = {wi_topo_json,
#ifdef HAVE_EXPAT
                              wi_topo_xml
#endif
    };
    for (size_t i = 0; i < sizeof(writers) / sizeof(writers[0]); i++) {
        char *text = written(t, writers[i]);
        again = make(text);
        CU_ASSERT_STRING_EQUAL(again->objects[3].name, x.name);
        CU_ASSERT_STRING_EQUAL(again->missing[0], t->missing[0]);
        wi_topo_put(again);
        free(text);
    }
    wi_topo_put(t);
}

static void refuses_broken_xml(void)
{
#ifdef HAVE_EXPAT
    refused("<weft-topology version=\"1\">", "line 1, column");
    refused("<other/>", "is not <weft-topology>");
    refused("<weft-topology version=\"2\"/>", "version=\"1\" is wanted");
    refused("<topology version=\"2.0\"/>", "hwloc's XML");
    refused("<!DOCTYPE x [<!ENTITY a \"b\">]>\n<weft-topology version=\"1\"/>", "a document type is not wanted");
    refused(XML(""), "no host");
    refused(XML("<thing/>"), "line 3: there is no <thing>");
    refused(XML(XML_HOST "<object kind=\"moon\"/>"), "line 4: kind=\"moon\": there is no such kind");
    refused(XML(XML_HOST "<object name=\"b\"/>"), "line 4: an object without a kind");
    refused(XML(XML_HOST "<object kind=\"core\" parent=\"7\"/>"), "its parent, 7, does not come before it");
    refused(XML(XML_HOST "<object kind=\"core\" parent=\"-7\"/>"), "line 4: parent=\"-7\"");
    refused(XML(XML_HOST "<object id=\"5\" kind=\"core\" parent=\"0\"/>"), "line 4: objects are numbered as they come");
    refused(XML(XML_HOST "<object kind=\"core\" parent=\"0\" colour=\"red\"/>"), "line 4: colour=\"red\"");
    refused(XML(XML_HOST "<object kind=\"core\" parent=\"0\"><object kind=\"core\"/></object>"),
            "stands inside another");
    refused(XML(XML_HOST "<link kind=\"pci\" a=\"0\" rate=\"1\"/>"), "line 4: a link needs its ends");
    refused(XML(XML_HOST "<link kind=\"pci\" a=\"0\" b=\"0\" rate=\"1\"/>"), "joins 0 and 0");
    refused(XML(XML_HOST "<link kind=\"pci\" a=\"0\" b=\"1\" rate=\"fast\"/>"), "rate=\"fast\": a number is wanted");
    refused(XML(XML_HOST "<link kind=\"pci\" a=\"0\" b=\"1\"/>"), "rate must be given");
    refused(XML(XML_HOST XML_HOST), "both called host a");
    refused(XML(XML_HOST "<object kind=\"host\" name=\"b\"/>"), "islands");
#else
    wt_skip("built without expat");
#endif
}

#define JSON(objects, links) "{\"weft_topology\": 1, \"objects\": [" objects "], \"links\": [" links "]}"
#define JSON_HOST "{\"kind\": \"host\", \"name\": \"a\"}"

static void refuses_broken_json(void)
{
    refused("{", "line 1, column 1");
    refused("{}", "\"weft_topology\": 1 is wanted");
    refused("{\"weft_topology\": 2}", "\"weft_topology\": 1 is wanted");
    refused("{\"weft_topology\": 1, \"weft_topology\": 1}", "duplicate");
    refused("{\"weft_topology\": 1, \"extra\": []}", "there is no \"extra\"");
    refused("{\"weft_topology\": 1, \"objects\": 3}", "\"objects\" is not a list");
    refused(JSON("3", ""), "objects[0] is not an object");
    refused(JSON(JSON_HOST ", {\"kind\": 3}", ""), "objects[1]: kind=\"3\"");
    refused(JSON(JSON_HOST ", {\"kind\": []}", ""), "objects[1]: kind is neither a text nor a number");
    refused(JSON(JSON_HOST ", {\"kind\": \"core\", \"parent\": 1e99}", ""), "objects[1]: parent=");
    refused(JSON(JSON_HOST, "{\"kind\": \"pci\", \"a\": 0, \"b\": 1, \"rate\": -1}"), "joins 0 and 1");
    refused(JSON(JSON_HOST ", {\"kind\": \"numa\", \"parent\": 0}",
                 "{\"kind\": \"pci\", \"a\": 0, \"b\": 1, \"rate\": -1}"),
            "its rate is -1");
}

static void packs(void)
{
    struct wi_topo *t = make(DGX_PAIR), *again = NULL;
    unsigned char *data;
    size_t bytes;

    CU_ASSERT_EQUAL_FATAL(wi_topo_pack(t, (void **)&data, &bytes), WEFT_SUCCESS);
    CU_ASSERT_EQUAL_FATAL(wi_topo_unpack(data, bytes, &again), WEFT_SUCCESS);
    char *a = written(t, wi_topo_json), *b = written(again, wi_topo_json);
    CU_ASSERT_STRING_EQUAL(a, b);
    free(a);
    free(b);
    wi_topo_put(again);
    /* Every cut, and every wrong byte that is not just another number or letter, is refused; none crashes. */
    for (size_t cut = 0; cut < bytes; cut++)
        CU_ASSERT(wi_topo_unpack(data, cut, &again) < 0);
    for (size_t i = 0; i < bytes; i++) {
        data[i] ^= 0x80;
        if (wi_topo_unpack(data, bytes, &again) == WEFT_SUCCESS)
            wi_topo_put(again);
        data[i] ^= 0x80;
    }
    data[4] = 0xff;
    data[7] = 0xff;
    CU_ASSERT_EQUAL(wi_topo_unpack(data, bytes, &again), WEFT_EPROTO);
    wi_free(data);
    wi_topo_put(t);
}

/* ---- Routes ---- */

static double route_latency(const struct wi_topo *t, int from, int to, int *links)
{
    uint32_t path[32];
    double latency = 0;
    int n = wi_topo_route(t, from, to, path, 32), at = from;

    for (int i = 0; i < n; i++) {
        const struct wi_topo_link *link = &t->links[path[i] / 2];
        CU_ASSERT_EQUAL(at, path[i] & 1 ? link->b : link->a);
        at = path[i] & 1 ? link->a : link->b;
        latency += link->latency;
    }
    CU_ASSERT_EQUAL(at, to);
    *links = n;
    return latency;
}

static void finds_cheapest_routes(void)
{
    struct wi_topo *t = make(DGX_PAIR);
    int a = wi_topo_find(t, WI_TOPO_HOST, WI_TOPO_NONE, "node0"),
        b = wi_topo_find(t, WI_TOPO_HOST, WI_TOPO_NONE, "node1");
    int gpu0 = wi_topo_find(t, WI_TOPO_GPU, a, "gpu0"), gpu7 = wi_topo_find(t, WI_TOPO_GPU, a, "gpu7");
    int far = wi_topo_find(t, WI_TOPO_GPU, b, "gpu7"), links;

    CU_ASSERT_DOUBLE_EQUAL(route_latency(t, gpu0, gpu7, &links), 0.6, 1e-9);
    CU_ASSERT_EQUAL(links, 2);
    CU_ASSERT_DOUBLE_EQUAL(route_latency(t, gpu0, far, &links), 0.6 + 1.0 + 0.6, 1e-9);
    CU_ASSERT_EQUAL(links, 6);
    uint32_t path[32];
    CU_ASSERT_EQUAL(wi_topo_route(t, gpu0, far, path, 3), -1);
    CU_ASSERT_EQUAL(wi_topo_route(t, gpu0, gpu0, path, 3), 0);
    CU_ASSERT_EQUAL(wi_topo_route(t, gpu0, -1, path, 32), -1);
    CU_ASSERT_EQUAL(wi_topo_route(t, gpu0, t->nobjects, path, 32), -1);
    wi_topo_put(t);
}

/* Against all routes of a random graph, by the definition: relaxing every link until nothing changes. */
static void agrees_with_relaxation(void)
{
    unsigned seed = 7;

    for (int round = 0; round < 30; round++) {
        struct wi_topo_builder *b = begin();
        enum { N = 24 };
        for (int i = 3; i < N; i++) {
            struct wi_topo_object x = wi_topo_object_init(WI_TOPO_BRIDGE, 0, 0);
            wi_topo_add(b, &x);
        }
        for (int i = 0; i < 60; i++) {
            int from = rand_r(&seed) % N, to = rand_r(&seed) % N;
            if (from != to)
                wi_topo_connect(b, WI_TOPO_LINK_PCI, from, to, 1 + rand_r(&seed) % 4, (rand_r(&seed) % 10) / 10.0,
                                WI_TOPO_GIVEN);
        }
        struct wi_topo *t;
        CU_ASSERT_EQUAL_FATAL(wi_topo_seal(b, &t), WEFT_SUCCESS);
        double best[N];
        for (int i = 0; i < N; i++)
            best[i] = i ? INFINITY : 0;
        for (int i = 0; i < N; i++)
            for (int l = 0; l < t->nlinks; l++) {
                const struct wi_topo_link *x = &t->links[l];
                /* Nothing passes through the core, object 2. */
                if (x->a != 2)
                    best[x->b] = fmin(best[x->b], best[x->a] + x->latency);
                if (x->b != 2)
                    best[x->a] = fmin(best[x->a], best[x->b] + x->latency);
            }
        for (int i = 1; i < N; i++) {
            uint32_t path[32];
            int n = wi_topo_route(t, 0, i, path, 32), links;
            CU_ASSERT_EQUAL(n >= 0, isfinite(best[i]));
            if (n >= 0)
                CU_ASSERT_DOUBLE_EQUAL(route_latency(t, 0, i, &links), best[i], 1e-9);
        }
        wi_topo_put(t);
    }
}

/* ---- Machine shapes ---- */

static weft_status read_shape(const char *folder, const char *source, const char *text, struct wi_topo **t)
{
    char path[1024];

    if (!strcmp(source, "weft"))
        return wi_topo_synthetic(text, t);
    snprintf(path, sizeof(path), "%s/%s", folder, text);
    struct wi_topo_source from = {.name = "host"};
    if (!strcmp(source, "xml"))
        from.hwloc_xml = path;
    else
        from.hwloc_synthetic = text;
    return wi_topo_read(&from, t);
}

/* The tree, then levels and a ring of one rank per GPU or core. */
static void describe(struct wi_topo *t, FILE *out)
{
    int ngpus = count(t, WI_TOPO_GPU, WI_TOPO_NONE), n = ngpus ? ngpus : count(t, WI_TOPO_CORE, WI_TOPO_NONE);
    int32_t *places = calloc((size_t)n, sizeof(*places)), *order = calloc((size_t)n, sizeof(*order));
    struct wi_model *m;

    CU_ASSERT_EQUAL(wi_topo_print(t, out), WEFT_SUCCESS);
    CU_ASSERT_EQUAL_FATAL(wi_place_ranks(t, n, places), WEFT_SUCCESS);
    CU_ASSERT_EQUAL_FATAL(wi_model_of_topo(t, places, n, NULL, &m), WEFT_SUCCESS);
    for (int l = 0; l < m->nlevels; l++)
        fprintf(out, "level %s: %d groups\n", m->levels[l].name, m->levels[l].ngroups);
    CU_ASSERT_EQUAL(wi_ring_order(m, NULL, n, order, NULL), WEFT_SUCCESS);
    fputs("ring:", out);
    for (int i = 0; i < n; i++)
        fprintf(out, " %d", order[i]);
    putc('\n', out);
    wi_model_destroy(m);
    free(places);
    free(order);
}

static void compare(const char *path, const char *text, size_t bytes)
{
    char *golden = calloc(1, bytes + 2);
    FILE *f = fopen(path, getenv("WEFT_TEST_GOLDEN_WRITE") ? "w" : "r");

    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    if (getenv("WEFT_TEST_GOLDEN_WRITE")) {
        CU_ASSERT_EQUAL(fwrite(text, 1, bytes, f), bytes);
    } else {
        size_t got = fread(golden, 1, bytes + 1, f);
        if (got != bytes || memcmp(golden, text, bytes))
            printf("# %s differs; it would be:\n%s", path, text);
        CU_ASSERT(got == bytes && !memcmp(golden, text, bytes));
    }
    fclose(f);
    free(golden);
}

static void knows_machine_shapes(void)
{
    const char *top = getenv("WEFT_SRCDIR");
    char folder[512], path[1024], line[512];
    int shapes = 0;

    snprintf(folder, sizeof(folder), "%s/tests/topology", top ? top : ".");
    snprintf(path, sizeof(path), "%s/shapes.txt", folder);
    FILE *list = fopen(path, "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(list);
    while (fgets(line, sizeof(line), list)) {
        char name[64], source[16], *text = NULL;
        int at = 0;
        if (line[0] == '#' || sscanf(line, "%63s %15s %n", name, source, &at) < 2)
            continue;
        line[strcspn(line, "\n")] = '\0';
        struct wi_topo *t = NULL;
        wi_fail_clear();
        if (read_shape(folder, source, line + at, &t) < 0)
            printf("# %s: %s\n", name, wi_fail_text());
        CU_ASSERT_PTR_NOT_NULL_FATAL(t);
        size_t bytes;
        FILE *out = open_memstream(&text, &bytes);
        describe(t, out);
        fclose(out);
        snprintf(path, sizeof(path), "%s/golden/%s.txt", folder, name);
        compare(path, text, bytes);
        free(text);
        wi_topo_put(t);
        shapes++;
    }
    fclose(list);
    CU_ASSERT(shapes >= 12);
}

static const struct wt_case cases[] = {
    {"wrong objects are refused", refuses_wrong_objects},
    {"wrong links are refused", refuses_wrong_links},
    {"a graph without a host is refused", refuses_what_no_host_is_in},
    {"depth is bounded", bounds_depth},
    {"no memory at any allocation", survives_no_memory},
    {"descriptions", reads_descriptions},
    {"rates of descriptions", reads_rates},
    {"wrong words are quoted", refuses_wrong_words},
    {"XML loses nothing", keeps_xml},
    {"JSON loses nothing", keeps_json},
    {"strange texts survive", keeps_strange_texts},
    {"broken XML is refused", refuses_broken_xml},
    {"broken JSON is refused", refuses_broken_json},
    {"packed graphs", packs},
    {"routes are the cheapest", finds_cheapest_routes},
    {"routes of random graphs", agrees_with_relaxation},
    {"machine shapes", knows_machine_shapes},
};
WT_UNIT_MAIN("topology", cases)
