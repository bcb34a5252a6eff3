/* SPDX-License-Identifier: BSD-3-Clause */
/* Which transport serves which pair of ranks: what all ranks make of what each has announced. */
#include "tests/unit/unit.h"

#include "base/log.h"
#include "base/status.h"
#include "net/mesh_report.h"
#include "net/mesh_routes.h"
#include "tests/harness/harness.h"

enum { NRANKS = 3, ROW_MAX = 64 };

/* Collects the ranks' rows, then gives all of them to each. */
struct gather {
    struct wi_bootstrap base;
    int complete;
    unsigned char rows[NRANKS][ROW_MAX];
};

static weft_status all_gather(struct wi_bootstrap *b, const void *mine, size_t bytes, void *all, uint64_t deadline_ns)
{
    struct gather *g = (struct gather *)b;

    (void)deadline_ns;
    CU_ASSERT_FATAL(bytes <= ROW_MAX);
    memcpy(g->rows[b->rank], mine, bytes);
    if (!g->complete)
        return WEFT_EPEER;
    for (int r = 0; r < NRANKS; r++)
        memcpy((unsigned char *)all + (size_t)r * bytes, g->rows[r], bytes);
    return WEFT_SUCCESS;
}

/* What rank r reaches over a transport: bits of ranks. */
struct announced {
    const char *name;
    int priority[NRANKS]; /* 0: it has none */
    unsigned reaches[NRANKS];
    uint32_t caps[NRANKS];
};

static void announce(struct wi_routes *routes, int rank, const struct announced *a, int n)
{
    CU_ASSERT_EQUAL_FATAL(wi_routes_init(routes, rank, NRANKS), WEFT_SUCCESS);
    for (int i = 0; i < n; i++)
        wi_routes_add_transport(routes, a[i].name);
    for (int i = 0; i < n; i++)
        for (int r = 0; r < NRANKS; r++)
            wi_routes_add_caps(routes, a[i].name, a[i].caps[r]);
    for (int i = 0; i < n; i++)
        for (int r = 0; r < NRANKS; r++)
            if (a[i].priority[r])
                wi_routes_add_rank(routes, a[i].name, r);
    for (int i = 0; i < n; i++)
        wi_routes_add_own(routes, a[i].name, a[i].priority[rank]);
    for (int i = 0; i < n; i++)
        for (int r = 0; r < NRANKS; r++)
            if (a[i].reaches[rank] >> r & 1)
                wi_routes_add_peer(routes, a[i].name, r);
}

static void agree(struct wi_routes routes[NRANKS], const struct announced *a, int n)
{
    struct gather g = {.base = {.nranks = NRANKS, .all_gather = all_gather}};

    for (g.complete = 0; g.complete < 2; g.complete++)
        for (g.base.rank = 0; g.base.rank < NRANKS; g.base.rank++) {
            struct wi_routes *mine = &routes[g.base.rank];
            announce(mine, g.base.rank, a, n);
            CU_ASSERT_EQUAL(wi_routes_agree(mine, &g.base, 0), g.complete ? WEFT_SUCCESS : WEFT_EPEER);
            if (!g.complete)
                wi_routes_fini(mine);
        }
}

static void end(struct wi_routes routes[NRANKS])
{
    for (int r = 0; r < NRANKS; r++)
        wi_routes_fini(&routes[r]);
}

static void serves(const struct wi_routes routes[NRANKS], int a, int b, const char *name)
{
    for (int r = 0; r < NRANKS; r++) {
        const char *pair = wi_routes_pair(&routes[r], a, b), *back = wi_routes_pair(&routes[r], b, a);
        CU_ASSERT(pair == back && (pair ? name && strcmp(pair, name) == 0 : !name));
    }
}

/* Ranks 0 and 1 have a fast one, which rank 2 has only half: it reaches rank 0, and is not reached. */
static void pairs_differ(void)
{
    static const struct announced a[] = {{"slow", {10, 10, 10}, {6, 5, 3}, {3, 7, 3}},
                                         {"fast", {90, 90, 90}, {2, 1, 1}, {12, 12, 4}}};
    struct wi_routes routes[NRANKS];
    char text[100];

    agree(routes, a, 2);
    serves(routes, 0, 1, "fast");
    serves(routes, 0, 2, "slow");
    serves(routes, 1, 2, "slow");
    serves(routes, 1, 1, NULL);
    CU_ASSERT(routes[0].pair != NULL && routes[0].used == 3);
    CU_ASSERT_EQUAL(wi_routes_caps(&routes[1], "slow"), 3);
    CU_ASSERT_EQUAL(wi_routes_caps(&routes[1], "fast"), 4);
    CU_ASSERT_EQUAL(wi_routes_caps(&routes[1], "other"), 0);
    wi_routes_one_way(&routes[0], 2, text, sizeof text);
    CU_ASSERT_STRING_EQUAL(text, "fast reaches this rank from there but not back");
    wi_routes_one_way(&routes[2], 0, text, sizeof text);
    CU_ASSERT_STRING_EQUAL(text, "fast reaches it from here but not back");
    wi_routes_one_way(&routes[0], 1, text, sizeof text);
    CU_ASSERT_STRING_EQUAL(text, "");
    end(routes);
}

/* The lesser of the two priorities counts, so that both sides find the same. */
static void priorities_differ(void)
{
    static const struct announced a[] = {{"one", {50, 50, 50}, {6, 5, 3}, {0, 0, 0}},
                                         {"two", {90, 20, 90}, {6, 5, 3}, {0, 0, 0}}};
    struct wi_routes routes[NRANKS];

    agree(routes, a, 2);
    serves(routes, 0, 1, "one");
    serves(routes, 1, 2, "one");
    serves(routes, 0, 2, "two");
    end(routes);
}

static void all_alike(void)
{
    static const struct announced a[] = {{"one", {1, 1, 1}, {6, 5, 3}, {0, 0, 0}}};
    struct wi_routes routes[NRANKS];

    agree(routes, a, 1);
    serves(routes, 0, 1, "one");
    serves(routes, 2, 1, "one");
    CU_ASSERT_PTR_NULL(routes[2].pair); /* no matrix */
    end(routes);
}

static void none(void)
{
    static const struct announced a[] = {{"one", {1, 1, 1}, {2, 1, 0}, {0, 0, 0}}};
    struct wi_routes routes[NRANKS];

    agree(routes, a, 1);
    serves(routes, 0, 1, "one");
    serves(routes, 0, 2, NULL);
    end(routes);
}

/* A rank says that it reaches others by what it has not. */
static void claims_too_much(void)
{
    static const struct announced a[] = {{"slow", {10, 10, 10}, {6, 5, 3}, {0, 0, 0}},
                                         {"fast", {90, 90, 0}, {6, 5, 7}, {0, 0, 0}}};
    struct wi_routes routes[NRANKS];

    agree(routes, a, 2);
    serves(routes, 0, 1, "fast");
    serves(routes, 0, 2, "slow");
    serves(routes, 1, 2, "slow");
    end(routes);
}

/* There is room for eight names. The first that is left out is logged, once. */
static void too_many(void)
{
    char path[4096], spec[4200], line[500];
    struct wi_routes routes;
    int logged = 0;
    FILE *f;

    snprintf(path, sizeof path, "%s/log", wt_temp_dir());
    snprintf(spec, sizeof spec, "warn,file:%s", path);
    CU_ASSERT_EQUAL_FATAL(wi_log_init(spec), WEFT_SUCCESS);
    CU_ASSERT_EQUAL_FATAL(wi_routes_init(&routes, 0, NRANKS), WEFT_SUCCESS);
    for (int rank = 0; rank < 2; rank++)
        for (char name[2] = "a"; name[0] <= 'a' + WI_ROUTES_MAX_TRANSPORTS; name[0]++)
            wi_routes_add_transport(&routes, name);
    CU_ASSERT_EQUAL(routes.nnames, WI_ROUTES_MAX_TRANSPORTS);
    CU_ASSERT_EQUAL(wi_log_init(NULL), WEFT_SUCCESS);
    f = fopen(path, "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    while (fgets(line, sizeof line, f))
        logged += strstr(line, "net.routes: transport i is not used: the ranks have more than 8") != NULL;
    fclose(f);
    CU_ASSERT_EQUAL(logged, 1);
    wi_routes_fini(&routes);
}

/* ---- In words ---- */

static struct wi_mesh_rank hosts[NRANKS];

/* Ranks 0 and 1 on host a, rank 2 on b; what all say, and what rank `rank` says of its pair with `peer`. */
static void said(const struct announced *a, int n, const char *report, int rank, int peer, const char *left_out)
{
    struct wi_mesh mesh = {.rank = rank, .nranks = NRANKS, .nnodes = 2, .ranks = hosts};
    struct wi_routes routes[NRANKS];
    char text[400], cut[20];

    for (int r = 0; r < NRANKS; r++) {
        snprintf(hosts[r].node.name, sizeof hosts[r].node.name, "%s", r == 2 ? "b" : "a");
        hosts[r].node_index = r == 2;
    }
    agree(routes, a, n);
    for (int r = 0; r < NRANKS; r++) {
        mesh.routes = routes[r];
        wi_mesh_report(&mesh, text, sizeof text);
        CU_ASSERT_STRING_EQUAL(text, report);
        if (strcmp(text, report))
            printf("# %s\n", text);
    }
    mesh.routes = routes[rank];
    wi_mesh_left_out(&mesh, peer, text, sizeof text);
    CU_ASSERT_STRING_EQUAL(text, left_out);
    if (strcmp(text, left_out))
        printf("# %s\n", text);
    wi_mesh_report(&mesh, cut, sizeof cut);
    CU_ASSERT(strlen(cut) < sizeof cut && strncmp(cut, report, strlen(cut)) == 0);
    CU_ASSERT(strlen(cut) == sizeof cut - 1 || strcmp(cut, report) == 0);
    end(routes);
}

#define SLOW                             \
    {                                    \
        "slow", {10, 10, 10}, {6, 5, 3}, \
        {                                \
            0, 0, 0                      \
        }                                \
    }

static void some_lack_it(void)
{
    static const struct announced host[] = {SLOW, {"fast", {80, 80, 0}, {2, 1, 0}, {0, 0, 0}}};
    static const struct announced rank[] = {SLOW, {"fast", {80, 0, 80}, {4, 0, 1}, {0, 0, 0}}};
    static const struct announced ranks[] = {SLOW, {"fast", {80, 0, 0}, {0, 0, 0}, {0, 0, 0}}};

    said(host, 2, "fast 1 pair, slow 2 pairs; fast: host b has none", 0, 2, "fast: rank 2 on host b has none");
    said(rank, 2, "fast 1 pair, slow 2 pairs; fast: rank 1 on host a has none", 1, 2, "fast: this rank has none");
    said(ranks, 2, "slow 3 pairs; fast: 2 ranks have none, rank 1 on host a the first", 1, 2, "");
}

static void it_reaches_not_all(void)
{
    static const struct announced one_way[] = {SLOW, {"fast", {80, 80, 80}, {2, 1, 3}, {0, 0, 0}}};
    static const struct announced neither[] = {SLOW, {"fast", {80, 80, 80}, {2, 1, 0}, {0, 0, 0}}};
    static const struct announced worse[] = {SLOW, {"worse", {1, 1, 1}, {0, 0, 0}, {0, 0, 0}}};

    said(
        one_way, 2,
        "fast 1 pair, slow 2 pairs; fast reaches rank 0 on host a from rank 2 on host b, but not back, and so in 1 more pair",
        2, 1, "fast reaches rank 1 on host a from here, but not back");
    said(
        one_way, 2,
        "fast 1 pair, slow 2 pairs; fast reaches rank 0 on host a from rank 2 on host b, but not back, and so in 1 more pair",
        1, 2, "fast reaches this rank from rank 2 on host b, but not back");
    said(
        neither, 2,
        "fast 1 pair, slow 2 pairs; fast reaches neither way between rank 0 on host a and rank 2 on host b, and so in 1 "
        "more pair",
        0, 2, "fast reaches neither way");
    said(worse, 2, "slow 3 pairs", 0, 2, ""); /* nobody misses it */
}

/* Memory ends with the node, which is not said; on the node it is. */
static void memory(void)
{
    static const struct announced all[] = {SLOW, {"shm", {100, 100, 100}, {2, 1, 0}, {2, 2, 2}}};
    static const struct announced one[] = {SLOW, {"shm", {100, 0, 100}, {0, 0, 0}, {2, 2, 2}}};
    static const struct announced process[] = {SLOW, {"inproc", {110, 0, 110}, {0, 0, 0}, {2, 2, 2}}};

    said(all, 2, "shm 1 pair, slow 2 pairs", 0, 2, "");
    said(one, 2, "slow 3 pairs; shm: rank 1 on host a has none", 0, 1, "shm: rank 1 on host a has none");
    said(process, 2, "slow 3 pairs", 0, 1, "");
}

static const struct wt_case cases[] = {
    {"some ranks lack the better one", some_lack_it},
    {"the better one does not reach all", it_reaches_not_all},
    {"memory ends with the node", memory},
    {"pairs with different transports", pairs_differ},
    {"priorities that differ", priorities_differ},
    {"one for all pairs", all_alike},
    {"a pair without one", none},
    {"a rank that claims what it has not", claims_too_much},
    {"more transports than can be numbered", too_many},
};
WT_UNIT_MAIN("mesh_routes", cases)
