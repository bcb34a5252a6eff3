/* SPDX-License-Identifier: BSD-3-Clause */
/* Where weft-topo places ranks, and the rings over them. */
#include <stdlib.h>

#include "base/status.h"
#include "tools/topo_tool.h"
#include "topology/placement.h"

#define MAX_SHOWN 64 /* ranks of a table or a ring */
#define MAX_RINGS 16

static int default_ranks(const struct wi_topo *t)
{
    int ngpus = 0, ncores = 0;

    for (int o = 0; o < t->nobjects; o++) {
        ngpus += t->objects[o].kind == WI_TOPO_GPU;
        ncores += t->objects[o].kind == WI_TOPO_CORE;
    }
    return ngpus ? ngpus : ncores ? ncores : t->nhosts;
}

static const char *name_of(const struct wi_topo *t, int object)
{
    return object < 0 ? "-" : t->objects[object].name;
}

static void print_places(const struct wi_topo *t, const struct wi_model *m, const int32_t *places,
                         const int32_t *leader, FILE *out)
{
    fprintf(out, "%6s  %-16s %-10s %-10s %-12s %-7s %s\n", "rank", "host", "place", "nic", "memory", "leader",
            "groups");
    for (int r = 0; r < m->nranks && r < MAX_SHOWN; r++) {
        const struct wi_model_rank *rank = &m->ranks[r];
        int host = t->objects[places[r]].host, numa = wi_topo_ancestor(t, places[r], WI_TOPO_NUMA);
        fprintf(out, "%6d  %-16s %-10s %-10s %-12s %-7d", r, name_of(t, host), name_of(t, places[r]),
                name_of(t, rank->nic), name_of(t, numa), leader[r]);
        for (int l = 0; l < m->nlevels; l++)
            fprintf(out, " %s %d", m->levels[l].name, m->levels[l].group[r]);
        putc('\n', out);
    }
    if (m->nranks > MAX_SHOWN)
        fprintf(out, "   ...  %d more\n", m->nranks - MAX_SHOWN);
}

static void print_levels(const struct wi_model *m, FILE *out)
{
    if (!m->nlevels)
        fputs("levels: none: all ranks are equally near each other, or each is alone\n", out);
    for (int l = 0; l < m->nlevels; l++)
        fprintf(out, "level %-8s %d groups\n", m->levels[l].name, m->levels[l].ngroups);
}

/* The hop that a ring waits for: the lowest rate on its way. */
static void print_slowest(const struct wi_model *m, const int32_t *order, FILE *out)
{
    const struct wi_model_resource *slowest = NULL;
    struct wi_model_path path;

    for (int i = 0; i < m->nranks && m->nranks > 1; i++) {
        m->path(m, order[i], order[(i + 1) % m->nranks], &path);
        for (int k = 0; k < path.nresources; k++)
            if (!slowest || m->resources[path.resources[k]].rate < slowest->rate)
                slowest = &m->resources[path.resources[k]];
    }
    if (slowest)
        fprintf(out, "; slowest link %s, %.4g GB/s", slowest->name, slowest->rate / 1000);
}

static weft_status print_rings(const struct wi_model *m, FILE *out)
{
    struct wi_rings *rings;

    WI_TRY(wi_rings_create(m, MAX_RINGS, &rings));
    for (int k = 0; k < rings->nrings; k++) {
        const int32_t *order = rings->order + (size_t)k * (size_t)rings->nranks;
        fprintf(out, "ring %d:", k);
        for (int i = 0; i < rings->nranks && i < MAX_SHOWN; i++)
            fprintf(out, " %d", order[i]);
        fputs(rings->nranks > MAX_SHOWN ? " ..." : "", out);
        print_slowest(m, order, out);
        putc('\n', out);
    }
    if (rings->nrings > 1 && rings->nshared)
        fprintf(out, "%d directions of adapters are used by more than one ring\n", rings->nshared);
    else if (rings->nrings > 1)
        fputs("no adapter is used by more than one ring in one direction\n", out);
    wi_rings_destroy(rings);
    return WEFT_SUCCESS;
}

static weft_status print_model(const struct wi_topo *t, const struct wi_model *m, const int32_t *places, int rings,
                               FILE *out)
{
    int32_t *leader = calloc((size_t)m->nranks, sizeof(*leader));

    if (!leader)
        return wi_fail(WEFT_ENOMEM, "no memory for %d ranks", m->nranks);
    weft_status st = wi_leaders(m, leader);
    if (st == WEFT_SUCCESS) {
        putc('\n', out);
        print_places(t, m, places, leader, out);
        print_levels(m, out);
        if (rings)
            st = print_rings(m, out);
    }
    free(leader);
    return st;
}

weft_status topo_print_ranks(struct wi_topo *topo, int nranks, int rings, FILE *out)
{
    struct wi_model *m;

    if (!nranks)
        nranks = default_ranks(topo);
    int32_t *places = calloc((size_t)nranks, sizeof(*places));
    if (!places)
        return wi_fail(WEFT_ENOMEM, "no memory for %d ranks", nranks);
    weft_status st = wi_place_ranks(topo, nranks, places);
    if (st == WEFT_SUCCESS)
        st = wi_model_of_topo(topo, places, nranks, NULL, &m);
    if (st == WEFT_SUCCESS) {
        st = print_model(topo, m, places, rings, out);
        wi_model_destroy(m);
    }
    free(places);
    return st;
}
