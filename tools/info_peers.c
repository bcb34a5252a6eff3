/* SPDX-License-Identifier: BSD-3-Clause */
/* What ranks tell rank 0: each a JSON object of its host, its transports, those it does without, and for each transport that any
 * rank has a letter for each rank: whether it is reached, and whether this transport serves the pair. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "info_peers.h"

/* ---- One rank's ---- */

struct row {
    json_t *transports, *without;
    int peer, nranks, nroutes, visited;
    struct {
        char name[64], *letters;
        int priority, memory;
    } route[PEERS_TRANSPORTS_MAX];
};

static void add_plugin(void *arg, const weft_plugin_info *plugin)
{
    struct row *row = arg;

    if (strcmp(plugin->kind, "transport") == 0 && !plugin->refusal)
        json_array_append_new(row->transports, info_string(plugin->name));
    else if (plugin->refusal)
        json_array_append_new(row->without, json_pack("{s:o, s:o}", "name", info_string(plugin->name), "why",
                                                      info_string(plugin->refusal)));
}

/* All visits come in the same order. */
static void add_route(void *arg, const weft_route_info *route)
{
    struct row *row = arg;
    int i = row->visited++;

    if (i >= PEERS_TRANSPORTS_MAX)
        return;
    if (i == row->nroutes) {
        snprintf(row->route[i].name, sizeof row->route[i].name, "%s", route->transport);
        row->route[i].priority = route->priority;
        row->route[i].memory = route->memory;
        row->route[i].letters = calloc((size_t)row->nranks + 1, 1);
        if (!row->route[i].letters)
            return;
        memset(row->route[i].letters, '0', (size_t)row->nranks);
        row->nroutes++;
    }
    row->route[i].letters[row->peer] =
        (char)('0' + (route->reaches ? PEERS_REACHES : 0) + (route->used ? PEERS_USED : 0));
}

static json_t *routes_json(struct row *row)
{
    json_t *routes = json_object();

    for (int i = 0; i < row->nroutes; i++) {
        json_object_set_new(routes, row->route[i].name,
                            json_pack("{s:i, s:i, s:s}", "priority", row->route[i].priority, "memory",
                                      row->route[i].memory, "letters", row->route[i].letters));
        free(row->route[i].letters);
    }
    return routes;
}

/* NULL: something failed, or there is no memory. */
static json_t *own_row(weft_context *context, weft_comm *comm, int rank, int nranks)
{
    struct row row = {.transports = json_array(), .without = json_array(), .nranks = nranks};
    weft_peer_info self = WEFT_PEER_INFO_INIT;
    weft_status st = weft_comm_peer(comm, rank, &self);
    json_t *all;

    if (st >= 0)
        st = weft_context_plugins(context, add_plugin, &row);
    for (; st >= 0 && row.peer < nranks; row.peer++) {
        row.visited = 0;
        st = weft_comm_routes(comm, row.peer, add_route, &row);
    }
    all = json_pack("{s:o, s:i, s:o, s:o, s:o}", "host", info_string(self.host ? self.host : "?"), "node", self.node,
                    "transports", row.transports, "without", row.without, "routes", routes_json(&row));
    if (st >= 0)
        return all;
    json_decref(all);
    return NULL;
}

/* ---- All of them ---- */

static int complain(const char *what)
{
    fprintf(stderr, "weft-info: %s: %s\n", what, weft_thread_error());
    return 1;
}

/* On rank 0 *all is what they said, one behind the other, from at[rank] on. */
static int gather(weft_comm *comm, int rank, int nranks, const char *mine, char **all, size_t *bytes, size_t *at)
{
    uint64_t own = strlen(mine), *lengths = calloc((size_t)nranks, sizeof *lengths);
    size_t total = 0;
    weft_status st = lengths ? weft_all_gather(comm, &own, lengths, 1, WEFT_UINT64, NULL) : WEFT_ENOMEM;

    for (int r = 0; st >= 0 && r < nranks; r++) {
        bytes[r] = lengths[r];
        at[r] = total;
        total += lengths[r];
    }
    free(lengths);
    if (st < 0)
        return complain("gathering");
    *all = rank == 0 ? malloc(total) : NULL;
    if (rank == 0 && !*all)
        return fprintf(stderr, "weft-info: no memory for what %d ranks say\n", nranks), 1;
    st = weft_gather_v(comm, mine, own, *all, rank == 0 ? bytes : NULL, rank == 0 ? at : NULL, WEFT_UINT8, 0, NULL);
    return st < 0 ? complain("gathering") : 0;
}

static struct peers_transport *add_transport(struct peers *p, const char *name, const json_t *route)
{
    struct peers_transport *t = &p->transport[p->ntransports];
    size_t n = (size_t)p->nranks;

    for (int i = 0; i < p->ntransports; i++)
        if (strcmp(p->transport[i].name, name) == 0)
            return &p->transport[i];
    if (p->ntransports == PEERS_TRANSPORTS_MAX)
        return NULL;
    *t =
        (struct peers_transport){name, (int)json_integer_value(json_object_get(route, "priority")),
                                 (int)json_integer_value(json_object_get(route, "memory")), calloc(n, 1), calloc(n, n)};
    if (!t->has || !t->route) {
        free(t->has);
        free(t->route);
        return NULL;
    }
    p->ntransports++;
    return t;
}

/* 0: it is no row, or there is no memory. */
static int take_row(struct peers *p, int rank, const char *text, size_t bytes)
{
    json_t *row = json_loadb(text, bytes, 0, NULL), *value;
    const char *name;
    size_t i;

    p->rank[rank] = row;
    if (!row || !json_is_string(json_object_get(row, "host")) || !json_is_object(json_object_get(row, "routes")))
        return 0;
    p->node[rank] = (int)json_integer_value(json_object_get(row, "node"));
    if (p->node[rank] < 0 || p->node[rank] >= p->nranks)
        return 0;
    p->nnodes = p->node[rank] >= p->nnodes ? p->node[rank] + 1 : p->nnodes;
    json_object_foreach(json_object_get(row, "routes"), name, value)
    {
        struct peers_transport *t = add_transport(p, name, value);
        const char *letters = json_string_value(json_object_get(value, "letters"));
        if (!t || !letters || strlen(letters) != (size_t)p->nranks)
            return 0;
        for (i = 0; i < (size_t)p->nranks; i++)
            t->route[(size_t)rank * (size_t)p->nranks + i] = (unsigned char)(letters[i] - '0') & 3;
    }
    json_array_foreach(json_object_get(row, "transports"), i, value)
    {
        for (int k = 0; k < p->ntransports; k++)
            if (json_is_string(value) && strcmp(json_string_value(value), p->transport[k].name) == 0)
                p->transport[k].has[rank] = 1;
    }
    return 1;
}

/* The transports of the first row are those of all: all ranks know the same names. */
static int take_rows(struct peers *p, const char *all, const size_t *bytes, const size_t *at)
{
    for (int r = 0; r < p->nranks; r++)
        if (!take_row(p, r, all + at[r], bytes[r]))
            return fprintf(stderr, "weft-info: what rank %d says of itself cannot be read\n", r), 1;
    for (int a = 0; a < p->nranks; a++)
        for (int b = a + 1; b < p->nranks; b++)
            if (peers_used(p, a, b) != peers_used(p, b, a))
                return fprintf(stderr, "weft-info: ranks %d and %d do not say the same of their transport\n", a, b), 1;
    return 0;
}

int peers_gather(weft_context *context, weft_comm *comm, struct peers *p)
{
    int rank = 0, nranks = 1, failed;
    size_t *bytes;
    json_t *row;
    char *mine, *all = NULL;

    *p = (struct peers){0};
    if (weft_comm_rank(comm, &rank) < 0 || weft_comm_size(comm, &nranks) < 0)
        return complain("communicator");
    row = own_row(context, comm, rank, nranks);
    mine = row ? json_dumps(row, JSON_COMPACT) : NULL;
    json_decref(row);
    bytes = calloc(2 * (size_t)nranks, sizeof *bytes);
    p->nranks = nranks;
    p->rank = calloc((size_t)nranks, sizeof *p->rank);
    p->node = calloc((size_t)nranks, sizeof *p->node);
    if (!mine || !bytes || !p->rank || !p->node)
        failed = fprintf(stderr, "weft-info: no memory for %d ranks, or %s\n", nranks, weft_thread_error()) != 0;
    else
        failed = gather(comm, rank, nranks, mine, &all, bytes, bytes + nranks);
    if (!failed && rank == 0)
        failed = take_rows(p, all, bytes, bytes + nranks);
    free(all);
    free(bytes);
    free(mine);
    return failed;
}

void peers_free(struct peers *p)
{
    for (int i = 0; i < p->ntransports; i++) {
        free(p->transport[i].has);
        free(p->transport[i].route);
    }
    for (int r = 0; p->rank && r < p->nranks; r++)
        json_decref(p->rank[r]);
    free(p->rank);
    free(p->node);
    *p = (struct peers){0};
}

int peers_used(const struct peers *p, int a, int b)
{
    for (int i = 0; i < p->ntransports && a != b; i++)
        if (p->transport[i].route[(size_t)a * (size_t)p->nranks + (size_t)b] & PEERS_USED)
            return i;
    return -1;
}

const char *peers_host(const struct peers *p, int rank)
{
    return json_string_value(json_object_get(p->rank[rank], "host"));
}

const char *peers_why_without(const struct peers *p, int rank, const char *transport)
{
    json_t *row;
    size_t i;

    json_array_foreach(json_object_get(p->rank[rank], "without"), i, row)
    {
        const char *name = json_string_value(json_object_get(row, "name"));
        const char *why = json_string_value(json_object_get(row, "why"));
        size_t len = strlen(transport);
        if (name && why && strncmp(name, transport, len) == 0 && (!name[len] || strcmp(name + len, ".so") == 0))
            return why;
    }
    return "it is not installed there";
}
