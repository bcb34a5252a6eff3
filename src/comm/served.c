/* SPDX-License-Identifier: BSD-3-Clause */
/* What serves the ranks of each level, for the planner: of what the mesh has agreed on, so that all ranks say the same. */
#include "base/alloc.h"
#include "base/status.h"
#include "comm/comm.h"

/* The transport between the ranks of each of the level's groups (NULL: between all); NULL: there is none, or not one alone. */
static const char *transport_of(const struct wi_mesh *m, const struct wi_algo_level *level)
{
    const char *name = NULL;

    if (!m->routes.pair)
        return wi_routes_pair(&m->routes, 0, 1);
    for (int a = 0; a < m->nranks; a++)
        for (int b = 0; b < a; b++) {
            const char *one;
            if (level && level->group[a] != level->group[b])
                continue;
            one = wi_routes_pair(&m->routes, a, b);
            if (!one || (name && name != one)) /* of one table: the same name is in one place */
                return NULL;
            name = one;
        }
    return name;
}

static weft_status look_at(const struct wi_algo_level *level, int nranks, int *several)
{
    unsigned char *seen = wi_calloc((size_t)level->ngroups, 1);

    if (!seen)
        return wi_fail(WEFT_ENOMEM, "the groups of level %s", level->name);
    *several = 0;
    for (int r = 0; r < nranks; r++)
        *several |= seen[level->group[r]], seen[level->group[r]] = 1;
    wi_free(seen);
    return WEFT_SUCCESS;
}

static void serve(const struct wi_mesh *m, const char *name, struct wi_plan_transport *t)
{
    t->name = name;
    t->caps = name ? wi_routes_caps(&m->routes, name) : 0;
    t->can_map = t->mapped && m->can_map;
    t->can_get = t->mapped && m->can_get;
    t->can_put = t->mapped && m->can_put;
}

weft_status wi_comm_served(const struct weft_comm *comm, struct wi_plan_facts *facts)
{
    const struct wi_mesh *m = comm->mesh;

    if (comm->nranks < 2)
        return WEFT_SUCCESS;
    facts->all.mapped = (uint8_t)m->all_mapped;
    serve(m, transport_of(m, NULL), &facts->all);
    for (int i = 0; i < comm->levels.nlevels; i++) {
        const struct wi_algo_level *level = &comm->levels.level[i];
        int several = 0;
        WI_TRY(look_at(level, comm->nranks, &several));
        serve(m, several ? transport_of(m, level) : NULL, &facts->inside[i]);
    }
    return WEFT_SUCCESS;
}
