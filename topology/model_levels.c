/* SPDX-License-Identifier: BSD-3-Clause */
/* The levels that ranks share (locality), from the tree. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "topology/model_internal.h"

/* From the outside in. */
static const struct {
    const char *name;
    enum wi_topo_kind kind;
} kinds[] = {
    {"rack", WI_TOPO_RACK},       {"nvlink", WI_TOPO_NVSWITCH}, {"node", WI_TOPO_HOST},
    {"package", WI_TOPO_PACKAGE}, {"numa", WI_TOPO_NUMA},       {"cache", WI_TOPO_CACHE},
};
#define NKINDS (int)(sizeof(kinds) / sizeof(kinds[0]))

const char *wi_model_level_name(int level)
{
    return level < NKINDS ? kinds[level].name : NULL;
}

/* The object that groups the rank at a level; if it is in none, what groups it farther out, so that groups nest. */
static int32_t group_object(const struct wi_topo_model *m, int rank, int level)
{
    const struct wi_topo *t = m->topo;
    const struct wi_seat *seat = &m->seats[m->seat_of[rank]];

    for (; level >= 0; level--) {
        int object = WI_TOPO_NONE;
        if (kinds[level].kind != WI_TOPO_NVSWITCH)
            object = wi_topo_ancestor(t, seat->object, kinds[level].kind);
        else if (seat->nvlink != WI_TOPO_UNREACHED)
            object = wi_topo_edge_end(t, seat->nvlink);
        if (object != WI_TOPO_NONE)
            return object;
    }
    return t->nobjects;
}

static int is_known(const struct wi_model *model, const int32_t *group)
{
    for (int l = 0; l < model->nlevels; l++)
        if (!memcmp(model->levels[l].group, group, (size_t)model->nranks * sizeof(*group)))
            return 1;
    return 0;
}

weft_status wi_model_levels_init(struct wi_topo_model *m)
{
    struct wi_model *model = &m->model;
    size_t nobjects = (size_t)m->topo->nobjects + 1;
    int32_t *number = wi_malloc(nobjects * sizeof(*number));

    for (int kind = 0; kind < NKINDS; kind++) {
        int32_t *group = wi_malloc((size_t)model->nranks * sizeof(*group));
        int ngroups = 0;
        if (!number || !group) {
            wi_free(group);
            wi_free(number);
            return wi_fail(WEFT_ENOMEM, "model: no memory for levels of %d ranks", model->nranks);
        }
        memset(number, 0xff, nobjects * sizeof(*number));
        for (int r = 0; r < model->nranks; r++) {
            int32_t object = group_object(m, r, kind);
            if (number[object] < 0)
                number[object] = ngroups++;
            group[r] = number[object];
        }
        if (ngroups == 1 || ngroups == model->nranks || is_known(model, group)) {
            wi_free(group);
            continue;
        }
        struct wi_model_level *level = &model->levels[model->nlevels++];
        snprintf(level->name, sizeof(level->name), "%s", kinds[kind].name);
        level->ngroups = ngroups;
        level->group = group;
    }
    wi_free(number);
    return WEFT_SUCCESS;
}
