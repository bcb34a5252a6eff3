/* Which ranks load and store each other's arenas: those of a node, also where a communicator spans several. All ranks agree on it,
 * also when one of them cannot be mapped, has no shared memory, or other settings of it.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fault/fault.h"

#include <stdlib.h>

#include "comm/comm.h"

#include "../unit/unit.h"

enum { LIMIT_MS = 20000 };

struct world {
    int nodes[8];   /* of each rank */
    int unmapped;   /* this rank's transport maps nothing; -1: none */
    int map_of[8];  /* expected */
    int all_mapped; /* likewise */
};

static weft_status maps_nothing(void *group, struct weft_mapped *mapped)
{
    (void)group, (void)mapped;
    return WEFT_ENOTSUP;
}

static void open_rank(struct ft_rank *f, const struct world *w, int rank, int nranks)
{
    char node[32];

    snprintf(node, sizeof node, "node%d", w->nodes[rank]);
    setenv("WEFT_NODE_ID", node, 1);
    setenv("WEFT_SHM_NODE_ID", node, 1); /* shared memory does not cross nodes */
    *f = (struct ft_rank){.rank = rank, .nranks = nranks};
    WT_REQUIRE_OK(weft_context_create(NULL, &f->context));
    for (int i = 0; i < f->context->transports->count && rank == w->unmapped; i++)
        f->context->transports->list[i].ops.mapped = maps_nothing;
    WT_REQUIRE_OK(weft_comm_create_env(f->context, NULL, &f->comm));
}

/* The members see what each other has stored, and no other arena is there. */
static void check_memory(const struct ft_rank *f)
{
    const struct weft_mapped *map = &f->comm->exec->map;
    const struct wi_mesh *mesh = f->comm->mesh;
    size_t last = map->depth * map->slot_bytes - 1;

    if (mesh->mapped_group)
        map->ranks[f->rank].slots[last] = (unsigned char)(0x40 + f->rank);
    WT_REQUIRE_OK(weft_barrier(f->comm, NULL));
    for (int r = 0; mesh->mapped_group && r < f->nranks; r++) {
        if (mesh->map_of[r] != mesh->map_of[f->rank])
            WT_CHECK(map->ranks[r].slots == NULL);
        else
            WT_CHECK_INT(map->ranks[r].slots[last], 0x40 + r);
    }
    WT_REQUIRE_OK(weft_barrier(f->comm, NULL));
}

/* What the planner is told of it. */
static void check_facts(const struct ft_rank *f, const struct world *w)
{
    const struct wi_algo_levels *levels = &f->comm->levels;
    struct wi_plan_facts facts = {.nranks = f->nranks};
    int several = 0, node = 0, nodes = f->comm->mesh->nnodes;

    WT_REQUIRE_OK(wi_comm_served(f->comm, &facts));
    for (int a = 0; a < f->nranks; a++)
        for (int b = 0; b < a; b++)
            several |= w->nodes[a] == w->nodes[b];
    WT_REQUIRE(facts.all.name || (several && nodes > 1));
    WT_CHECK_INT(facts.all.mapped, w->all_mapped);
    if (facts.all.name) {
        WT_CHECK(strcmp(facts.all.name, nodes > 1 ? "tcp" : "shm") == 0);
        WT_CHECK((facts.all.caps & (WEFT_CAP_PEEK | WEFT_CAP_REGISTER)) == WEFT_CAP_PEEK);
        WT_CHECK((facts.all.caps & WEFT_CAP_MAPPED) == (nodes > 1 ? 0 : WEFT_CAP_MAPPED));
    }
    while (node < levels->nlevels && strcmp(levels->level[node].name, "node") != 0)
        node++;
    WT_REQUIRE(node < levels->nlevels || nodes == 1);
    if (node == levels->nlevels)
        return;
    WT_CHECK(several ? facts.inside[node].name && strcmp(facts.inside[node].name, "shm") == 0
                     : !facts.inside[node].name && !facts.inside[node].caps);
}

static void run(int rank, int nranks, void *arg)
{
    const struct world *w = arg;
    const struct wi_mesh *mesh;
    struct ft_rank f;
    int members = 0;
    float one = 1, sum = 0;

    open_rank(&f, w, rank, nranks);
    mesh = f.comm->mesh;
    for (int r = 0; r < nranks; r++) {
        WT_CHECK_INT(mesh->map_of[r], w->map_of[r]);
        if (w->map_of[r] == w->map_of[rank])
            WT_CHECK_INT(mesh->map_ranks[members++], r);
    }
    WT_CHECK_INT(mesh->nmapped, members);
    WT_CHECK_INT(mesh->mapped_group != NULL, members > 1);
    WT_CHECK_INT(mesh->all_mapped, w->all_mapped);
    WT_REQUIRE_OK(weft_all_reduce(f.comm, &one, &sum, 1, WEFT_FLOAT32, WEFT_SUM, NULL));
    WT_CHECK(sum == (float)nranks);
    check_memory(&f);
    check_facts(&f, w);
    WT_REQUIRE_OK(weft_comm_destroy(f.comm));
    WT_REQUIRE_OK(weft_context_destroy(f.context));
}

static void of_one_node(void)
{
    struct world w = {{0, 0, 0}, -1, {0, 0, 0}, 1};

    CU_ASSERT_EQUAL(wt_run(3, run, &w, LIMIT_MS), 0);
}

static void of_several_nodes(void)
{
    struct world w = {{0, 1, 0, 1, 2}, -1, {0, 1, 0, 1, 4}, 0};

    CU_ASSERT_EQUAL(wt_run(5, run, &w, LIMIT_MS), 0);
}

static void of_nodes_of_one_rank(void)
{
    struct world w = {{0, 1, 2}, -1, {0, 1, 2}, 0};

    CU_ASSERT_EQUAL(wt_run(3, run, &w, LIMIT_MS), 0);
}

/* Rank 3 says that it maps nobody: its neighbours do without, and the other node has its group. */
static void without_one_that_cannot(void)
{
    struct world w = {{0, 1, 0, 1, 1}, 3, {0, 1, 0, 3, 4}, 0};

    CU_ASSERT_EQUAL(wt_run(5, run, &w, LIMIT_MS), 0);
}

/* ---- Ranks with other transports, or with other settings of them ---- */

/* Rank 1 has no shared memory, and none of its settings: what the others have set there does not concern it. */
static void run_without_one(int rank, int nranks, void *arg)
{
    struct ft_rank f = {.rank = rank, .nranks = nranks};
    float one = 1, sum = 0;

    (void)arg;
    setenv(rank == 1 ? "WEFT_TRANSPORTS" : "WEFT_SHM_SLOT_BYTES", rank == 1 ? "tcp" : "64K", 1);
    WT_REQUIRE_OK(weft_context_create(NULL, &f.context));
    WT_REQUIRE_OK(weft_comm_create_env(f.context, NULL, &f.comm));
    WT_REQUIRE_OK(weft_all_reduce(f.comm, &one, &sum, 1, WEFT_FLOAT32, WEFT_SUM, NULL));
    WT_CHECK(sum == (float)nranks);
    WT_CHECK(strcmp(wi_routes_pair(&f.comm->mesh->routes, 0, 2), "shm") == 0);
    WT_CHECK(strcmp(wi_routes_pair(&f.comm->mesh->routes, 0, 1), "tcp") == 0);
    WT_REQUIRE_OK(weft_comm_destroy(f.comm));
    WT_REQUIRE_OK(weft_context_destroy(f.context));
}

static void other_transports(void)
{
    CU_ASSERT_EQUAL(wt_run(3, run_without_one, NULL, LIMIT_MS), 0);
}

/* Rank 1 has other slots: it cannot share memory with those that it has the transport in common with. */
static void run_set_otherwise(int rank, int nranks, void *arg)
{
    struct ft_rank f = {.rank = rank, .nranks = nranks};

    (void)arg;
    if (rank == 1)
        setenv("WEFT_SHM_SLOT_BYTES", "64K", 1);
    WT_REQUIRE_OK(weft_context_create(NULL, &f.context));
    WT_CHECK_STATUS(weft_comm_create_env(f.context, NULL, &f.comm), WEFT_EMISMATCH);
    WT_CHECK(strstr(weft_thread_error(), "other settings of transport shm") != NULL);
    WT_CHECK(strstr(weft_thread_error(), "WEFT_SHM_SLOT_BYTES") != NULL);
    WT_CHECK(strstr(weft_thread_error(), "WEFT_ALGO") == NULL);
    WT_REQUIRE_OK(weft_context_destroy(f.context));
}

static void other_settings(void)
{
    CU_ASSERT_EQUAL(wt_run(2, run_set_otherwise, NULL, LIMIT_MS), 0);
}

static const struct wt_case cases[] = {
    {"the ranks of one node", of_one_node},
    {"the ranks of each of several nodes", of_several_nodes},
    {"nobody on nodes of one rank", of_nodes_of_one_rank},
    {"nobody on a node with a rank that cannot", without_one_that_cannot},
    {"a rank without shared memory among ranks that have it", other_transports},
    {"a rank with other settings of it", other_settings},
};
WT_UNIT_MAIN("maps", cases)
