/* SPDX-License-Identifier: BSD-3-Clause */
/* The machine that a communicator's ranks are on, and meshes placed on it.
 *
 * On each node one rank reads the node; the readers exchange what they found, each passes it on to the others of its node, and
 * all merge it in the order of the nodes, and compare hashes of the result. A topology file replaces all of this. After each
 * step that may fail the ranks exchange their status: either all have a topology, or all have a failure that names the
 * rank.
 *
 * A communicator over several nodes does this when it is made, and gives the model to the planner (locality.c); others do it when
 * somebody asks for the topology. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/status.h"
#include "base/struct_prefix.h"
#include "comm/comm.h"
#include "topology/grid.h"
#include "topology/placement.h"

#define MOST_NODE_BYTES ((uint64_t)16 << 20)
#define MOST_BYTES ((uint64_t)1 << 30)

struct wi_comm_topology {
    struct wi_topo *topo;
    struct wi_model *model; /* borrowed from the communicator, or own_model; NULL: one rank */
    struct wi_model *own_model;
    int32_t *leader;      /* [nnodes]: the rank that reads the node */
    int agreed;           /* a failure is everybody's: all ranks have compared reports, or computed the same */
    char *text, *reasons; /* handed out last */
};

void wi_comm_topology_free(struct weft_comm *comm)
{
    struct wi_comm_topology *t = comm->topology;

    if (!t)
        return;
    wi_model_destroy(t->own_model);
    wi_topo_put(t->topo);
    wi_free(t->leader);
    free(t->text);
    free(t->reasons);
    wi_free(t);
    comm->topology = NULL;
}

/* ---- Agreeing ---- */

/* A rank's status after a step that may fail. */
struct report {
    int32_t status, place;
    uint64_t value; /* bytes of its node's description; hash of a mesh */
    char text[240];
};

static struct report report_of(weft_status status, int32_t place, uint64_t value)
{
    struct report r = {.status = status, .place = place, .value = value};

    snprintf(r.text, sizeof r.text, "%s", status < 0 ? wi_fail_text() : "");
    return r;
}

/* Everybody's report in all[]; the failure of the lowest rank that has one. */
static weft_status agree(struct weft_comm *comm, const struct report *mine, struct report *all, uint64_t deadline_ns)
{
    comm->topology->agreed = 0;
    WI_TRY(wi_comm_all_gather(comm, NULL, comm->nranks, mine, sizeof *mine, all, deadline_ns));
    comm->topology->agreed = 1;
    for (int r = 0; r < comm->nranks; r++) {
        weft_status st = (weft_status)all[r].status;
        if (st >= 0)
            continue;
        all[r].text[sizeof all[r].text - 1] = '\0';
        return wi_fail(st >= WEFT_EINTERNAL ? st : WEFT_EPROTO, "rank %d on host %s: %s", r,
                       wi_mesh_host(comm->mesh, r), all[r].text);
    }
    return WEFT_SUCCESS;
}

/* ---- Reading ---- */

/* Nodes on one host, as containers and network namespaces are, need names of their own. */
static void node_name(const struct weft_comm *comm, const int32_t *leader, int node, char name[WI_TOPO_NAME])
{
    int same = 0;

    for (int i = 0; i < comm->mesh->nnodes; i++)
        same +=
            !strncmp(wi_mesh_host(comm->mesh, leader[i]), wi_mesh_host(comm->mesh, leader[node]), WI_TOPO_NAME - 12);
    if (same > 1)
        snprintf(name, WI_TOPO_NAME, "%.*s#%d", WI_TOPO_NAME - 12, wi_mesh_host(comm->mesh, leader[node]), node);
    else
        snprintf(name, WI_TOPO_NAME, "%.*s", WI_TOPO_NAME - 1, wi_mesh_host(comm->mesh, leader[node]));
}

static weft_status read_node(const struct weft_comm *comm, const int32_t *leader, void **data, size_t *bytes)
{
    int node = comm->mesh->ranks[comm->rank].node_index;
    struct wi_topo *read = NULL, *named = NULL;
    char name[WI_TOPO_NAME];
    uint64_t began = wi_now_ns();
    weft_status st = wi_topo_read_host(&read);

    node_name(comm, leader, node, name);
    if (st >= 0)
        st = wi_topo_rename_host(read, name, &named);
    if (st >= 0)
        st = wi_topo_pack(named, data, bytes);
    if (st >= 0)
        wi_log(WEFT_LOG_INFO, "topology.read", "%s: %d objects, %d links, %zu bytes in %.1f ms", name, named->nobjects,
               named->nlinks, *bytes, (double)(wi_now_ns() - began) / 1e6);
    wi_topo_put(named);
    wi_topo_put(read);
    return st;
}

/* ---- Exchanging ---- */

/* Ranks of this node, its first one first. Returns their number. */
static int node_members(const struct weft_comm *comm, int *members)
{
    int node = comm->mesh->ranks[comm->rank].node_index, n = 0;

    for (int r = 0; r < comm->nranks; r++)
        if (comm->mesh->ranks[r].node_index == node)
            members[n++] = r;
    return n;
}

/* Descriptions of all nodes, one after the other, each `most` bytes wide. */
static weft_status exchange(struct weft_comm *comm, const int32_t *leader, const void *mine, size_t bytes, size_t most,
                            unsigned char *all, uint64_t deadline_ns)
{
    int nnodes = comm->mesh->nnodes, local = comm->mesh->local_rank == 0;
    int *members = wi_malloc((size_t)comm->nranks * sizeof *members);
    void *padded = wi_calloc(1, most);
    weft_status st = WEFT_SUCCESS;

    if (!members || !padded) {
        st = wi_fail(WEFT_ENOMEM, "topology: %zu bytes of descriptions", most);
    } else if (local) {
        memcpy(padded, mine, bytes);
        for (int i = 0; i < nnodes; i++)
            members[i] = leader[i];
        st = wi_comm_all_gather(comm, members, nnodes, padded, most, all, deadline_ns);
    }
    if (st >= 0)
        st = wi_comm_broadcast(comm, members, node_members(comm, members), all, (size_t)nnodes * most, deadline_ns);
    wi_free(members);
    wi_free(padded);
    return st;
}

static weft_status merge(const struct weft_comm *comm, const int32_t *leader, const struct report *reports,
                         const unsigned char *all, size_t most, struct wi_topo **topo)
{
    int nnodes = comm->mesh->nnodes;
    struct wi_topo **nodes = wi_calloc((size_t)nnodes, sizeof(*nodes));
    weft_status st = nodes ? WEFT_SUCCESS : wi_fail(WEFT_ENOMEM, "topology: %d nodes", nnodes);

    for (int i = 0; i < nnodes && st >= 0; i++) {
        st = wi_topo_unpack(all + (size_t)i * most, (size_t)reports[leader[i]].value, &nodes[i]);
        if (st >= 0 && nodes[i]->nhosts != 1)
            st = wi_fail(WEFT_EPROTO, "topology: rank %d describes %d hosts", leader[i], nodes[i]->nhosts);
    }
    if (st >= 0)
        st = wi_topo_merge(nodes, nnodes, NULL, topo);
    for (int i = 0; nodes && i < nnodes; i++)
        wi_topo_put(nodes[i]);
    wi_free(nodes);
    return st;
}

/* The bytes are what peers say: bounded before anything is allocated. */
static weft_status widest(const struct weft_comm *comm, const int32_t *leader, const struct report *all, size_t *most)
{
    uint64_t bytes = 1;

    for (int i = 0; i < comm->mesh->nnodes; i++) {
        if (all[leader[i]].value > MOST_NODE_BYTES)
            return wi_fail(WEFT_EPROTO, "topology: rank %d announces a description of %llu bytes", leader[i],
                           (unsigned long long)all[leader[i]].value);
        bytes = all[leader[i]].value > bytes ? all[leader[i]].value : bytes;
    }
    if (bytes * (uint64_t)comm->mesh->nnodes > MOST_BYTES)
        return wi_fail(WEFT_ENOTSUP,
                       "topology: %d nodes with descriptions of up to %llu bytes are more than %llu bytes",
                       comm->mesh->nnodes, (unsigned long long)bytes, (unsigned long long)MOST_BYTES);
    *most = (size_t)bytes;
    return WEFT_SUCCESS;
}

/* The descriptions of all nodes on every rank. A failure of a reader is everybody's. */
static weft_status gather_nodes(struct weft_comm *comm, const int32_t *leader, struct report *reports,
                                unsigned char **all, size_t *most, uint64_t deadline_ns)
{
    struct report mine;
    size_t bytes = 0;
    void *data = NULL;
    weft_status st = WEFT_SUCCESS;

    if (comm->mesh->local_rank == 0)
        st = read_node(comm, leader, &data, &bytes);
    mine = report_of(st, 0, bytes);
    st = agree(comm, &mine, reports, deadline_ns);
    if (st >= 0)
        st = widest(comm, leader, reports, most);
    if (st >= 0) {
        comm->topology->agreed = 0;
        *all = wi_malloc((size_t)comm->mesh->nnodes * *most);
        st = *all ? exchange(comm, leader, data, bytes, *most, *all, deadline_ns)
                  : wi_fail(WEFT_ENOMEM, "topology: %zu bytes of descriptions", (size_t)comm->mesh->nnodes * *most);
    }
    wi_free(data);
    return st;
}

/* ---- Places ---- */

static int32_t here(const struct weft_comm *comm, const struct wi_comm_topology *t)
{
    int node = comm->mesh->ranks[comm->rank].node_index;
    char name[WI_TOPO_NAME];

    node_name(comm, t->leader, node, name);
    int host = wi_topo_find(t->topo, WI_TOPO_HOST, WI_TOPO_NONE, name);
    return host < 0 ? host : wi_topo_here(t->topo, host, comm->mesh->local_rank, comm->mesh->local_nranks);
}

static weft_status hash_of(const struct wi_topo *topo, uint64_t *hash)
{
    void *data;
    size_t bytes;

    WI_TRY(wi_topo_pack(topo, &data, &bytes));
    *hash = wi_hash64(data, bytes, 0);
    wi_free(data);
    return WEFT_SUCCESS;
}

/* All must have merged the same. */
static weft_status compare(const struct weft_comm *comm, const struct report *reports)
{
    for (int r = 1; r < comm->nranks; r++)
        if (reports[r].value != reports[0].value)
            return wi_fail(WEFT_EPROTO, "topology: rank %d on host %s has merged another graph than rank 0", r,
                           wi_mesh_host(comm->mesh, r));
    return WEFT_SUCCESS;
}

/* Exchange whether a rank could not merge the graphs, or find itself in the result. */
static weft_status find_model(struct weft_comm *comm, struct wi_comm_topology *t, weft_status merged,
                              struct report *reports, uint64_t deadline_ns)
{
    int32_t *places = wi_malloc((size_t)comm->nranks * sizeof *places);
    int32_t place = merged < 0 ? -1 : here(comm, t);
    struct wi_model_link_params params;
    uint64_t hash = 0;
    weft_status st = merged;

    if (st >= 0 && place < 0)
        st = wi_fail(WEFT_EINTERNAL, "topology: this node is not in it");
    if (st >= 0)
        st = hash_of(t->topo, &hash);
    if (st >= 0 && !places)
        st = wi_fail(WEFT_ENOMEM, "places of %d ranks", comm->nranks);
    struct report mine = report_of(st, place, hash);
    st = agree(comm, &mine, reports, deadline_ns);
    if (st >= 0)
        st = compare(comm, reports);
    for (int r = 0; r < comm->nranks && st >= 0; r++)
        places[r] = reports[r].place;
    wi_comm_model_link_params(comm, &params);
    if (st >= 0 && comm->nranks > 1) {
        st = wi_model_of_topo(t->topo, places, comm->nranks, &params, &t->own_model);
        t->agreed = st >= 0; /* the others may have one, by which they choose */
    }
    t->model = t->own_model;
    wi_free(places);
    return st;
}

/* ---- Finding it ---- */

static weft_status find_leaders(const struct weft_comm *comm, struct wi_comm_topology *t)
{
    t->leader = wi_malloc((size_t)comm->mesh->nnodes * sizeof *t->leader);
    if (!t->leader)
        return wi_fail(WEFT_ENOMEM, "the nodes of %d ranks", comm->nranks);
    for (int r = comm->nranks - 1; r >= 0; r--)
        t->leader[comm->mesh->ranks[r].node_index] = r;
    return WEFT_SUCCESS;
}

static weft_status discover(struct weft_comm *comm, struct wi_comm_topology *t, uint64_t deadline_ns)
{
    struct report *reports = wi_malloc((size_t)comm->nranks * sizeof *reports);
    unsigned char *all = NULL;
    size_t most = 0;
    weft_status st;

    if (!reports)
        return wi_fail(WEFT_ENOMEM, "reports of %d ranks", comm->nranks);
    st = find_leaders(comm, t);
    if (st >= 0)
        st = gather_nodes(comm, t->leader, reports, &all, &most, deadline_ns);
    if (st >= 0) {
        st = merge(comm, t->leader, reports, all, most, &t->topo);
        st = find_model(comm, t, st, reports, deadline_ns);
    }
    wi_free(all);
    wi_free(reports);
    return st;
}

/* The communicator is entered. */
static weft_status find_topology(struct weft_comm *comm)
{
    uint64_t began = wi_now_ns();
    weft_status st = WEFT_SUCCESS;

    if (comm->topology)
        return WEFT_SUCCESS;
    if (comm->exec->broken)
        return wi_fail(comm->exec->broken, "%s", comm->exec->error.message);
    comm->topology = wi_calloc(1, sizeof *comm->topology);
    if (!comm->topology)
        return wi_fail(WEFT_ENOMEM, "topology");
    if (comm->ctx->topo) {
        comm->topology->topo = wi_topo_get(comm->ctx->topo);
        comm->topology->model = comm->model;
    } else {
        st = discover(comm, comm->topology, wi_deadline_ns(comm->init_timeout_ns));
    }
    if (st < 0)
        wi_comm_topology_free(comm);
    else
        wi_log(WEFT_LOG_INFO, "topology.found", "%s: %d node(s) in %.1f ms", comm->name, comm->mesh->nnodes,
               (double)(wi_now_ns() - began) / 1e6);
    return st;
}

/* Merging a graph of more nodes would take too long while a communicator is made. */
#define MOST_DISCOVERED_NODES 64

/* Does WEFT_ALGO name a level that only the graph knows? */
static int names_inner_level(const char *rules)
{
    static const char *const levels[] = {"package:", "numa:", "cache:", "nvlink:"};

    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        if (strstr(rules, levels[i]))
            return 1;
    return 0;
}

/* Is the model discovered when the communicator is made? The same answer on all ranks, for it follows from what they agreed on. */
static int discovers(const struct weft_comm *comm)
{
    const struct wi_library_settings *lib = &comm->ctx->lib;

    if (comm->ctx->topo || comm->nranks == 1 || comm->mesh->nnodes > MOST_DISCOVERED_NODES)
        return 0;
    if (strcmp(lib->topo_discover, "auto") == 0)
        return comm->mesh->nnodes > 1 || names_inner_level(lib->algo);
    return strcmp(lib->topo_discover, "always") == 0;
}

weft_status wi_comm_discover_model(struct weft_comm *comm, const struct wi_model **model)
{
    uint64_t began = wi_now_ns();
    weft_status st;

    *model = NULL;
    if (!discovers(comm))
        return WEFT_SUCCESS;
    comm->topology = wi_calloc(1, sizeof *comm->topology);
    if (!comm->topology)
        return wi_fail(WEFT_ENOMEM, "topology");
    WI_TRY(wi_comm_enter(comm));
    st = discover(comm, comm->topology, wi_deadline_ns(comm->init_timeout_ns));
    wi_comm_leave(comm);
    if (st >= 0) {
        wi_log(WEFT_LOG_INFO, "topology.discovered", "%s: %d nodes in %.1f ms", comm->name, comm->mesh->nnodes,
               (double)(wi_now_ns() - began) / 1e6);
        *model = comm->topology->model;
        return WEFT_SUCCESS;
    }
    if (!comm->topology->agreed || comm->exec->broken)
        return st;
    wi_log(WEFT_LOG_WARN, "topology.unknown", "%s: choices are made without it: %s", comm->name, wi_fail_text());
    wi_fail_clear();
    wi_comm_topology_free(comm);
    return WEFT_SUCCESS;
}

/* ---- As text ---- */

static const struct {
    const char *name;
    weft_status (*write)(const struct wi_topo *topo, FILE *out);
} formats[] = {
    {"tree", wi_topo_print}, {"json", wi_topo_json}, {"xml", wi_topo_xml}, {"dot", wi_topo_dot}, {"svg", wi_topo_svg},
};
#define NFORMATS (int)(sizeof formats / sizeof formats[0])

/* What begin_text gave, written: *text takes it, its predecessor is freed. */
static weft_status end_text(FILE *out, char **written, weft_status st, char **text)
{
    int full = ferror(out);

    if ((fclose(out) || full) && st >= 0)
        st = wi_fail(WEFT_ENOMEM, "topology: no memory for a text");
    if (st < 0) {
        free(*written);
        return st;
    }
    free(*text);
    *text = *written;
    return WEFT_SUCCESS;
}

static weft_status write_topology(struct wi_comm_topology *t, int format)
{
    char *written = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&written, &bytes);

    if (!out)
        return wi_fail(WEFT_ENOMEM, "topology: no memory for a text");
    return end_text(out, &written, formats[format].write(t->topo, out), &t->text);
}

weft_status weft_comm_topology(weft_comm *comm, const char *format, const char **text)
{
    int f = 0;
    weft_status st;

    WI_TRY(wi_comm_check(comm));
    if (!text)
        return wi_fail(WEFT_EINVAL, "comm_topology: the result pointer is NULL");
    while (format && f < NFORMATS && strcmp(format, formats[f].name))
        f++;
    if (f == NFORMATS)
        return wi_fail(WEFT_EINVAL, "comm_topology: \"%.40s\" is no format; tree, json, xml, dot and svg are", format);
    if (wi_group_depth)
        return wi_fail(WEFT_EINVAL, "comm_topology: not within a group");
    WI_TRY(wi_comm_enter(comm));
    st = find_topology(comm);
    if (st >= 0)
        st = write_topology(comm->topology, f);
    if (st >= 0)
        *text = comm->topology->text;
    wi_comm_leave(comm);
    return st;
}

/* ---- Meshes ---- */

static weft_status take_axes(const struct weft_comm *comm, const weft_mesh_axis *axes, size_t naxes,
                             struct wi_grid *grid)
{
    static const struct wi_struct_rule rule = WI_STRUCT_RULE(weft_mesh_axis, "WEFT_MESH_AXIS_INIT", name);

    if (!axes || naxes < 1 || naxes > WI_GRID_MAX_AXES)
        return wi_fail(WEFT_EINVAL, "comm_mesh: axes is NULL, or there are %zu: must be 1 to %d", naxes,
                       WI_GRID_MAX_AXES);
    *grid = (struct wi_grid){.naxes = (int)naxes, .nranks = comm->nranks};
    for (size_t a = 0; a < naxes; a++) {
        const void *given = (const char *)axes + a * axes->bytes;
        weft_mesh_axis axis = WEFT_MESH_AXIS_INIT;
        WI_TRY(wi_struct_read(&rule, "comm_mesh", given, &axis));
        if (memcmp(given, axes, sizeof axes->bytes) != 0)
            return wi_fail(WEFT_EINVAL, "comm_mesh: bytes of axis %zu differ from those of the first, which has %zu", a,
                           axes->bytes);
        if (!axis.name || !*axis.name)
            return wi_fail(WEFT_EINVAL, "comm_mesh: axis %zu has no name", a);
        grid->name[a] = axis.name;
        grid->extent[a] = axis.extent;
        grid->traffic[a] = axis.traffic;
    }
    return WEFT_SUCCESS;
}

static uint64_t grid_hash(const struct wi_grid *grid)
{
    uint64_t hash = (uint64_t)grid->naxes;

    for (int a = 0; a < grid->naxes; a++) {
        hash = wi_hash64(grid->name[a], strlen(grid->name[a]), hash);
        hash = wi_hash64(&grid->extent[a], sizeof grid->extent[a], hash);
        hash = wi_hash64(&grid->traffic[a], sizeof grid->traffic[a], hash);
    }
    return hash;
}

/* Rank 0 decides: floating-point arithmetic need not be the same on all kinds of hosts. */
static weft_status agree_on_order(struct weft_comm *comm, const struct wi_grid *grid, int32_t *order)
{
    uint64_t deadline_ns = wi_deadline_ns(comm->init_timeout_ns);
    struct report *all = wi_malloc((size_t)comm->nranks * sizeof *all), mine;
    weft_status st;

    if (!all)
        return wi_fail(WEFT_ENOMEM, "reports of %d ranks", comm->nranks);
    st = comm->rank == 0 ? wi_grid_order(comm->topology->model, grid, order) : WEFT_SUCCESS;
    mine = report_of(st, 0, grid_hash(grid));
    st = agree(comm, &mine, all, deadline_ns);
    for (int r = 0; r < comm->nranks && st >= 0; r++)
        if (all[r].value != all[0].value)
            st = wi_fail(WEFT_EINVAL, "comm_mesh: rank %d on host %s wants another mesh than rank 0", r,
                         wi_mesh_host(comm->mesh, r));
    if (st >= 0)
        st = wi_comm_broadcast(comm, NULL, comm->nranks, order, (size_t)comm->nranks * sizeof *order, deadline_ns);
    wi_free(all);
    return st;
}

/* What came from rank 0 indexes arrays. */
static weft_status check_order(const int32_t *order, int n)
{
    unsigned char *seen = wi_calloc(1, (size_t)n);
    weft_status st = seen ? WEFT_SUCCESS : wi_fail(WEFT_ENOMEM, "an order of %d ranks", n);

    for (int i = 0; i < n && st >= 0; i++) {
        if (order[i] < 0 || order[i] >= n || seen[order[i]])
            st = wi_fail(WEFT_EPROTO, "comm_mesh: rank 0 puts rank %d at position %d", order[i], i);
        else
            seen[order[i]] = 1;
    }
    wi_free(seen);
    return st;
}

static weft_status write_reasons(struct weft_comm *comm, const struct wi_grid *grid, const int32_t *order)
{
    char *written = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&written, &bytes);
    weft_status st = WEFT_SUCCESS;

    if (!out)
        return wi_fail(WEFT_ENOMEM, "comm_mesh: no memory for reasons");
    if (comm->nranks == 1)
        fprintf(out, "mesh of one rank\n");
    else
        st = wi_grid_explain(comm->topology->model, grid, order, out);
    return end_text(out, &written, st, &comm->topology->reasons);
}

static weft_status make_grid(struct weft_comm *comm, const struct wi_grid *grid, int *order)
{
    WI_TRY(find_topology(comm));
    order[0] = 0;
    if (comm->nranks > 1)
        WI_TRY(agree_on_order(comm, grid, order));
    WI_TRY(check_order(order, comm->nranks));
    return write_reasons(comm, grid, order);
}

weft_status weft_comm_mesh(weft_comm *comm, const weft_mesh_axis *axes, size_t naxes, int *order, const char **reasons)
{
    struct wi_grid grid;
    weft_status st;
    int *found;

    WI_TRY(wi_comm_check(comm));
    if (!order)
        return wi_fail(WEFT_EINVAL, "comm_mesh: the result pointer is NULL");
    if (wi_group_depth)
        return wi_fail(WEFT_EINVAL, "comm_mesh: not within a group");
    WI_TRY(take_axes(comm, axes, naxes, &grid));
    WI_TRY(wi_grid_check(&grid, comm->nranks));
    found = wi_malloc((size_t)comm->nranks * sizeof *found);
    if (!found)
        return wi_fail(WEFT_ENOMEM, "an order of %d ranks", comm->nranks);
    st = wi_comm_enter(comm);
    if (st >= 0) {
        st = make_grid(comm, &grid, found);
        if (st >= 0)
            memcpy(order, found, (size_t)comm->nranks * sizeof *order);
        if (st >= 0 && reasons)
            *reasons = comm->topology->reasons;
        wi_comm_leave(comm);
    }
    wi_free(found);
    return st;
}
