/* A communicator's topology and meshes on it, over real ranks: on one node, on nodes that are told apart by name, from a file.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fault/fault.h"

#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "../unit/unit.h"
#include "topology/graph.h"
#include "tests/harness/says.h"

struct place {
    int nnodes;       /* rank r is on node r % nnodes; 0: all on this one */
    const char *file; /* WEFT_TOPO_FILE; NULL: none */
};

static void start(struct ft_rank *f, const struct place *p, int rank, int nranks)
{
    char node[32];

    snprintf(node, sizeof node, "node%d", p->nnodes ? rank % p->nnodes : 0);
    if (p->nnodes)
        setenv("WEFT_NODE_ID", node, 1);
    if (p->file)
        setenv("WEFT_TOPO_FILE", p->file, 1);
    ft_open(f, "all", 20000, rank, nranks);
}

/* Every rank must have been given the same text. */
static void same_everywhere(struct ft_rank *f, const char *text)
{
    uint64_t mine = 1469598103934665603u, all[16];

    for (const char *c = text; *c; c++)
        mine = (mine ^ (unsigned char)*c) * 1099511628211u;
    WT_REQUIRE_OK(weft_all_gather(f->comm, &mine, all, 1, WEFT_UINT64, NULL));
    for (int r = 0; r < f->nranks; r++)
        WT_CHECK(all[r] == mine);
}

static struct wi_topo *parsed(const char *text)
{
    struct wi_topo *t = NULL;

    WT_REQUIRE_OK(wi_topo_parse(text, strlen(text), &t));
    return t;
}

static weft_status mesh_of(struct ft_rank *f, int dp, int tp, int *order, const char **reasons)
{
    weft_mesh_axis axes[2] = {WEFT_MESH_AXIS_INIT, WEFT_MESH_AXIS_INIT};

    axes[0].name = "dp";
    axes[0].extent = dp;
    axes[1].name = "tp";
    axes[1].extent = tp;
    axes[1].traffic = 16;
    return weft_comm_mesh(f->comm, axes, 2, order, reasons);
}

/* ---- Discovery ---- */

static void described(int rank, int nranks, void *arg)
{
    const struct place *p = arg;
    const char *text, *again, *formats[] = {"json", "xml"};
    struct wi_topo *t;
    struct ft_rank f;
    char host[64];

    start(&f, p, rank, nranks);
    for (int i = 0; i < 2; i++) {
        WT_REQUIRE_OK(weft_comm_topology(f.comm, formats[i], &text));
        same_everywhere(&f, text);
        t = parsed(text);
        WT_CHECK_INT(t->nhosts, p->nnodes ? p->nnodes : 1);
        WT_CHECK(t->nobjects > t->nhosts);
        for (int n = 0; n < p->nnodes; n++) {
            snprintf(host, sizeof host, "node%d", n);
            WT_CHECK(wi_topo_find(t, WI_TOPO_HOST, WI_TOPO_NONE, host) >= 0);
        }
        wi_topo_put(t);
    }
    /* From memory now: one rank alone may ask, each for another format. */
    if (rank == nranks - 1) {
        WT_CHECK_OK(weft_comm_topology(f.comm, NULL, &text));
        WT_CHECK(strncmp(text, "host", 4) == 0 || strstr(text, "\nhost") != NULL);
        WT_CHECK_OK(weft_comm_topology(f.comm, "dot", &again));
        WT_CHECK(strstr(again, "graph") != NULL);
        WT_CHECK_OK(weft_comm_topology(f.comm, "svg", &again));
        WT_CHECK(strstr(again, "<svg") != NULL);
    }
    ft_close(&f);
}

static void on_one_node(void)
{
    static struct place here = {0, NULL};

    CU_ASSERT_EQUAL(wt_run(1, described, &here, 20000), 0);
    CU_ASSERT_EQUAL(wt_run(3, described, &here, 20000), 0);
}

static void on_several_nodes(void)
{
    static struct place two = {2, NULL}, three = {3, NULL};

    CU_ASSERT_EQUAL(wt_run(4, described, &two, 30000), 0);
    CU_ASSERT_EQUAL(wt_run(3, described, &three, 30000), 0);
}

/* Ranks as threads share a process, and what it has read. */
static void threads(int rank, int nranks, void *arg)
{
    const char *text;
    struct ft_rank f;
    int order[8];

    ft_open(&f, arg, 20000, rank, nranks);
    WT_REQUIRE_OK(weft_comm_topology(f.comm, "json", &text));
    same_everywhere(&f, text);
    WT_REQUIRE_OK(mesh_of(&f, nranks, 1, order, NULL));
    ft_close(&f);
}

static void as_threads(void)
{
    CU_ASSERT_EQUAL(wt_threads_apart(3, threads, (void *)(uintptr_t) "inproc", 20000), 0);
}

/* Subgroups have topologies of their own. */
static void derived(int rank, int nranks, void *arg)
{
    const struct place *p = arg;
    struct ft_rank f;
    const char *text;
    struct wi_topo *t;
    weft_comm *half;

    start(&f, p, rank, nranks);
    WT_REQUIRE_OK(weft_comm_split(f.comm, rank % 2, rank, NULL, &half));
    WT_REQUIRE_OK(weft_comm_topology(half, "json", &text));
    t = parsed(text);
    WT_CHECK_INT(t->nhosts, 1);
    wi_topo_put(t);
    WT_CHECK_OK(weft_comm_destroy(half));
    ft_close(&f);
}

static void of_subgroups(void)
{
    static struct place two = {2, NULL};

    CU_ASSERT_EQUAL(wt_run(4, derived, &two, 30000), 0);
}

/* ---- Discovered for the planner ---- */

enum discovery { FOUND, OFF, FAILS, DIFFERS };

static int merges_wrong;

/* Linked in the place of wi_topo_merge. Ranks merge the same bytes by the same code, so that only a broken machine, or another
 * arithmetic, makes them differ: this one is such a machine, on which the first node has another name. */
weft_status __real_wi_topo_merge(struct wi_topo *const *parts, int nparts, struct wi_topo *network,
                                 struct wi_topo **topo);
weft_status __wrap_wi_topo_merge(struct wi_topo *const *parts, int nparts, struct wi_topo *network,
                                 struct wi_topo **topo);
weft_status __wrap_wi_topo_merge(struct wi_topo *const *parts, int nparts, struct wi_topo *network,
                                 struct wi_topo **topo)
{
    struct wi_topo *copy[8], *other;
    weft_status st;

    if (!merges_wrong)
        return __real_wi_topo_merge(parts, nparts, network, topo);
    WT_REQUIRE_OK(wi_topo_rename_host(parts[0], "elsewhere", &other));
    memcpy(copy, parts, (size_t)nparts * sizeof(*copy));
    copy[0] = other;
    st = __real_wi_topo_merge(copy, nparts, network, topo);
    wi_topo_put(other);
    return st;
}

/* How often each rank's log says that. */
static int logged(const char *path, const char *event)
{
    char line[1024];
    FILE *f = fopen(path, "r");
    int n = 0;

    while (f && fgets(line, sizeof line, f))
        n += strstr(line, event) != NULL;
    if (f)
        fclose(f);
    return n;
}

/* Two nodes: a graph when the communicator is made, unless that is off, or one node cannot be read, or a rank makes another graph
 * of it, which all are told. */
static void discovers(int rank, int nranks, void *arg)
{
    static const struct place two = {2, NULL};
    enum discovery how = *(const enum discovery *)arg;
    char path[64], log[96];
    const char *text;
    struct ft_rank f;

    snprintf(path, sizeof path, "/tmp/weft-discovered-%d-%d", (int)getpid(), rank);
    snprintf(log, sizeof log, "info,file:%s", path);
    setenv("WEFT_LOG", log, 1);
    setenv("WEFT_TOPO_DISCOVER", how == OFF ? "never" : "auto", 1);
    if (how == FAILS && rank == 1) /* hwloc has no way of looking */
        setenv("HWLOC_COMPONENTS", "stop", 1);
    merges_wrong = how == DIFFERS && rank == 1;
    start(&f, &two, rank, nranks); /* also reduces */
    WT_CHECK_INT(logged(path, "topology.discovered"), how == FOUND);
    WT_CHECK_INT(logged(path, "topology.unknown"), how == FAILS || how == DIFFERS);
    if (how == DIFFERS) {
        WT_CHECK_INT(logged(path, "has merged another graph than rank 0"), 1);
        SAYS(weft_comm_topology(f.comm, NULL, &text), WEFT_EPROTO, "rank 1 on host");
        SAYS(weft_comm_topology(f.comm, NULL, &text), WEFT_EPROTO, "has merged another graph than rank 0");
    } else if (how == FAILS) {
        WT_CHECK_INT(logged(path, "rank 1 on host"), 1);
        SAYS(weft_comm_topology(f.comm, NULL, &text), WEFT_ESYS, "rank 1 on host");
    } else {
        WT_CHECK_OK(weft_comm_topology(f.comm, NULL, &text));
        same_everywhere(&f, text);
    }
    unlink(path);
    ft_close(&f);
}

static void is_discovered_when_made(void)
{
    for (enum discovery how = FOUND; how <= DIFFERS; how++)
        CU_ASSERT_EQUAL(wt_run(4, discovers, &how, 30000), 0);
}

/* One node of two packages: its levels are known if the setting says so, or WEFT_ALGO names one. */
struct inside {
    const char *discover, *algo;
    int discovered;
};

static void bind_to(int processor)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    WT_CHECK(sched_setaffinity(0, sizeof set, &set) == 0);
}

static void levels_inside(int rank, int nranks, void *arg)
{
    static const struct place one = {0, NULL};
    const struct inside *in = arg;
    char path[64], log[96];
    float mine = (float)rank, sum = 0;
    struct ft_rank f;
    weft_call call;

    snprintf(path, sizeof path, "/tmp/weft-inside-%d-%d", (int)getpid(), rank);
    snprintf(log, sizeof log, "info,file:%s", path);
    setenv("WEFT_LOG", log, 1);
    setenv("HWLOC_SYNTHETIC", "pack:2 core:1 pu:1", 1);
    bind_to(rank % 2);
    setenv("WEFT_TOPO_DISCOVER", in->discover, 1);
    setenv("WEFT_ALGO", in->algo, 1);
    start(&f, &one, rank, nranks);
    WT_CHECK_INT(logged(path, "topology.discovered"), in->discovered);
    call = wt_call(WEFT_KIND_ALL_REDUCE, &mine, &sum, 1, WEFT_FLOAT32);
    if (in->discovered) {
        WT_CHECK_OK(wt_issue(f.comm, call, "package:rdouble", NULL));
        WT_CHECK(sum == (float)(nranks * (nranks - 1) / 2));
    } else {
        SAYS(wt_issue(f.comm, call, "package:rdouble", NULL), WEFT_ENOTFOUND, "WEFT_TOPO_DISCOVER");
    }
    unlink(path);
    ft_close(&f);
}

static void levels_of_one_node(void)
{
    static struct inside cases[] = {{"auto", "", 0},
                                    {"always", "", 1},
                                    {"auto", "all_reduce:1M-:package:ring", 1},
                                    {"never", "all_reduce:1M-:package:ring", 0}};

    cpu_set_t set;

    CU_ASSERT_FATAL(sched_getaffinity(0, sizeof set, &set) == 0);
    if (!CPU_ISSET(0, &set) || !CPU_ISSET(1, &set)) {
        wt_skip("processors 0 and 1 are needed");
        return;
    }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CU_ASSERT_EQUAL(wt_run(4, levels_inside, &cases[i], 30000), 0);
}

static void no_such_word(int rank, int nranks, void *arg)
{
    weft_context *ctx = NULL;

    (void)rank, (void)nranks, (void)arg;
    setenv("WEFT_TOPO_DISCOVER", "sometimes", 1);
    SAYS(weft_context_create(NULL, &ctx), WEFT_ECONFIG, "WEFT_TOPO_DISCOVER=sometimes: must be auto, always or never");
    WT_CHECK(!ctx);
}

static void wrong_words(void)
{
    CU_ASSERT_EQUAL(wt_run(1, no_such_word, NULL, 20000), 0);
}

/* ---- Meshes ---- */

/* Ranks 0, 2 and 1, 3 share nodes: tensor parallel pairs are put there. */
static void interleaved(int rank, int nranks, void *arg)
{
    int order[4] = {-1, -1, -1, -1};
    const char *reasons = "", *again;
    struct ft_rank f;

    start(&f, arg, rank, nranks);
    WT_REQUIRE_OK(mesh_of(&f, 2, 2, order, &reasons));
    WT_CHECK(order[0] == 0 && order[1] == 2 && order[2] == 1 && order[3] == 3);
    WT_CHECK(strstr(reasons, "order: 0 2 1 3; as the ranks are numbered it would cost") != NULL);
    WT_CHECK(strstr(reasons, "tp: 2 ranks, traffic 16: within one node") != NULL);
    WT_CHECK(strstr(reasons, "(in the order of the ranks: across nodes)") != NULL);
    same_everywhere(&f, reasons);
    WT_REQUIRE_OK(mesh_of(&f, 2, 2, order, &again));
    same_everywhere(&f, again);
    ft_close(&f);
}

static void puts_pairs_on_nodes(void)
{
    static struct place two = {2, NULL};

    CU_ASSERT_EQUAL(wt_run(4, interleaved, &two, 30000), 0);
}

static void wrong_axes(int rank, int nranks, void *arg)
{
    weft_mesh_axis axis = WEFT_MESH_AXIS_INIT, many[17];
    const char *text = "untouched";
    int order[4] = {7, 7, 7, 7};
    struct ft_rank f;

    start(&f, arg, rank, nranks);
    SAYS(weft_comm_topology(f.comm, "yaml", &text), WEFT_EINVAL, "\"yaml\" is no format; tree, json, xml, dot and svg");
    SAYS(weft_comm_topology(f.comm, "", &text), WEFT_EINVAL, "is no format");
    SAYS(weft_comm_topology(f.comm, "json", NULL), WEFT_EINVAL, "NULL");
    SAYS(weft_comm_topology(NULL, "json", &text), WEFT_EINVAL, "not a communicator");
    SAYS(weft_comm_mesh(NULL, &axis, 1, order, NULL), WEFT_EINVAL, "not a communicator");
    SAYS(weft_comm_mesh(f.comm, NULL, 1, order, NULL), WEFT_EINVAL, "axes is NULL");
    SAYS(weft_comm_mesh(f.comm, &axis, 0, order, NULL), WEFT_EINVAL, "must be 1 to 16");
    SAYS(weft_comm_mesh(f.comm, many, 17, order, NULL), WEFT_EINVAL, "must be 1 to 16");
    SAYS(weft_comm_mesh(f.comm, &axis, 1, order, NULL), WEFT_EINVAL, "has no name");
    axis.name = "tp";
    SAYS(weft_comm_mesh(f.comm, &axis, 1, NULL, NULL), WEFT_EINVAL, "NULL");
    SAYS(weft_comm_mesh(f.comm, &axis, 1, order, NULL), WEFT_EINVAL, "multiply to 1 ranks, not to 2");
    axis.extent = 0;
    SAYS(weft_comm_mesh(f.comm, &axis, 1, order, NULL), WEFT_EINVAL, "axis tp has 0 ranks");
    axis.extent = 2;
    axis.traffic = 0;
    SAYS(weft_comm_mesh(f.comm, &axis, 1, order, NULL), WEFT_EINVAL, "axis tp has a traffic of 0");
    axis.traffic = rank;
    axis.bytes = 3;
    SAYS(weft_comm_mesh(f.comm, &axis, 1, order, NULL), WEFT_EINVAL, "WEFT_MESH_AXIS_INIT");
    axis = (weft_mesh_axis)WEFT_MESH_AXIS_INIT;
    WT_REQUIRE_OK(weft_group_start());
    SAYS(weft_comm_topology(f.comm, "json", &text), WEFT_EINVAL, "group");
    SAYS(weft_comm_mesh(f.comm, &axis, 1, order, NULL), WEFT_EINVAL, "group");
    WT_REQUIRE_OK(weft_group_end());
    WT_CHECK_STR(text, "untouched");
    /* Ranks that disagree: everybody hears who. */
    axis.name = rank ? "tp" : "dp";
    axis.extent = 2;
    SAYS(weft_comm_mesh(f.comm, &axis, 1, order, NULL), WEFT_EINVAL, "rank 1 on host");
    WT_CHECK_INT(order[0], 7);
    axis.name = "tp";
    WT_CHECK_OK(weft_comm_mesh(f.comm, &axis, 1, order, &text));
    WT_CHECK(order[0] == 0 && order[1] == 1);
    WT_CHECK(strstr(text, "as the ranks are numbered") != NULL);
    ft_close(&f);
}

static void refuses_wrong_use(void)
{
    static struct place here = {0, NULL};

    CU_ASSERT_EQUAL(wt_run(2, wrong_axes, &here, 20000), 0);
}

/* ---- Files ---- */

static const char *write_file(const char *name, const char *text)
{
    static char path[2][256];
    static int which;
    char *p = path[which ^= 1];

    snprintf(p, sizeof path[0], "%s/%s", wt_temp_dir(), name);
    FILE *f = fopen(p, "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    fputs(text, f);
    CU_ASSERT_EQUAL_FATAL(fclose(f), 0);
    return p;
}

/* The file's machine, not this one. */
static void from_file(int rank, int nranks, void *arg)
{
    const char *text;
    struct wi_topo *t;
    struct ft_rank f;
    int order[8], ngpus = 0;

    start(&f, arg, rank, nranks);
    WT_REQUIRE_OK(weft_comm_topology(f.comm, "json", &text));
    t = parsed(text);
    for (int o = 0; o < t->nobjects; o++)
        ngpus += t->objects[o].kind == WI_TOPO_GPU;
    WT_CHECK_INT(ngpus, 8);
    WT_CHECK_INT(t->nhosts, 2);
    wi_topo_put(t);
    WT_REQUIRE_OK(mesh_of(&f, nranks / 2, 2, order, NULL));
    WT_CHECK_INT((order[0] ^ order[1]) & 1, 0); /* rank r is on node r % 2 */
    ft_close(&f);
}

static void takes_a_file(void)
{
    struct place two = {2, write_file("good", "nodes:2 pack:2 core:4 gpu:4 nvlink:450 nic:2@400Gb")};

    CU_ASSERT_EQUAL(wt_run(4, from_file, &two, 30000), 0);
}

static void bad_file(int rank, int nranks, void *arg)
{
    const char *const *file_and_word = arg;
    weft_context *context = NULL;

    (void)rank;
    (void)nranks;
    setenv("WEFT_TOPO_FILE", file_and_word[0], 1);
    SAYS(weft_context_create(NULL, &context), WEFT_ECONFIG, file_and_word[1]);
    WT_CHECK(context == NULL);
}

static void refuses_broken_files(void)
{
    const char *broken[] = {write_file("broken", "nodes:2 pock:2"), "pock"};
    const char *json[] = {write_file("broken.json", "{\"weft_topology\": 1, \"objects\": ["), "broken.json"};

    CU_ASSERT_EQUAL(wt_run(1, bad_file, broken, 10000), 0);
    CU_ASSERT_EQUAL(wt_run(1, bad_file, json, 10000), 0);
}

static void missing_file(int rank, int nranks, void *arg)
{
    weft_context *context = NULL;

    (void)rank;
    (void)nranks;
    (void)arg;
    setenv("WEFT_TOPO_FILE", "/does/not/exist", 1);
    WT_CHECK(weft_context_create(NULL, &context) < 0);
    WT_CHECK(strstr(weft_thread_error(), "/does/not/exist") != NULL);
}

static void refuses_a_missing_file(void)
{
    CU_ASSERT_EQUAL(wt_run(1, missing_file, NULL, 10000), 0);
}

static void other_file(int rank, int nranks, void *arg)
{
    const char *const *files = arg;
    weft_context *context;
    weft_comm *comm = NULL;

    (void)nranks;
    setenv("WEFT_TOPO_FILE", files[rank == 1], 1);
    WT_REQUIRE_OK(weft_context_create(NULL, &context));
    WT_CHECK(weft_comm_create_env(context, NULL, &comm) < 0);
    WT_CHECK(strstr(weft_thread_error(), "rank 1") != NULL);
    WT_CHECK_OK(weft_context_destroy(context));
}

static void refuses_different_files(void)
{
    const char *files[] = {write_file("one", "nodes:2 core:4"), write_file("other", "nodes:2 core:2")};

    CU_ASSERT_EQUAL(wt_run(2, other_file, files, 20000), 0);
}

static const struct wt_case cases[] = {
    {"the ranks of a node", on_one_node},
    {"several nodes", on_several_nodes},
    {"threads", as_threads},
    {"subgroups", of_subgroups},
    {"the planner has it", is_discovered_when_made},
    {"levels of one node", levels_of_one_node},
    {"wrong words", wrong_words},
    {"a mesh puts pairs on nodes", puts_pairs_on_nodes},
    {"wrong formats and axes are refused", refuses_wrong_use},
    {"a file replaces discovery", takes_a_file},
    {"broken files", refuses_broken_files},
    {"a missing file", refuses_a_missing_file},
    {"different files", refuses_different_files},
};
WT_UNIT_MAIN("topology-api", cases)
