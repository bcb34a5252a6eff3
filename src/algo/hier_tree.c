/* SPDX-License-Identifier: BSD-3-Clause */
/* Which rank owns which part of the data at which level: every rank computes the same answer. */
#include <string.h>

#include "algo/hier.h"
#include "base/alloc.h"
#include "base/status.h"

#define MAX_SHARDS (1u << 16)

struct pool_entry {
    struct pool_entry *next;
};

void *wi_hier_pool(struct wi_hier_tree *t, size_t bytes)
{
    struct pool_entry *e = wi_calloc(1, sizeof *e + bytes);

    if (!e)
        return NULL;
    e->next = t->pool;
    t->pool = e;
    return e + 1;
}

void wi_hier_tree_fini(struct wi_hier_tree *t)
{
    for (struct pool_entry *e = t->pool, *next; e; e = next) {
        next = e->next;
        wi_free(e);
    }
    t->pool = NULL;
}

static weft_status no_memory(const struct wi_hier_tree *t)
{
    return wi_fail(WEFT_ENOMEM, "hierarchy: no memory for %d ranks", t->nranks);
}

static const char *name_of(const struct wi_hier_spec *spec, const struct wi_algo_levels *levels, int i)
{
    return levels->level[spec->at[i].level].name;
}

/* Every group of level i lies in one of level i-1. */
static weft_status check_nesting(const struct wi_hier_tree *t, const struct wi_hier_spec *spec,
                                 const struct wi_algo_levels *levels, int i)
{
    int32_t *within = wi_malloc((size_t)t->ngroups[i] * sizeof *within);
    weft_status st = WEFT_SUCCESS;

    if (!within)
        return no_memory(t);
    for (int g = 0; g < t->ngroups[i]; g++)
        within[g] = -1;
    for (int r = 0; r < t->nranks && st >= 0; r++) {
        int32_t *w = &within[t->group[i][r]];
        if (*w >= 0 && *w != t->group[i - 1][r])
            st = wi_fail(WEFT_EINVAL, "hierarchy: group %d of level \"%s\" does not lie within one of level \"%s\"",
                         t->group[i][r], name_of(spec, levels, i), name_of(spec, levels, i - 1));
        *w = t->group[i - 1][r];
    }
    wi_free(within);
    return st;
}

static weft_status find_levels(struct wi_hier_tree *t, const struct wi_hier_spec *spec,
                               const struct wi_algo_levels *levels)
{
    int32_t *self = wi_hier_pool(t, (size_t)t->nranks * sizeof *self);

    if (!self)
        return no_memory(t);
    for (int i = 0; i < t->k; i++) {
        const struct wi_algo_level *l;
        if (!levels || spec->at[i].level >= levels->nlevels)
            return wi_fail(WEFT_ENOTFOUND, "hierarchy \"%s\" was read with other levels, or without any", spec->text);
        l = &levels->level[spec->at[i].level];
        if (i && spec->at[i].level <= spec->at[i - 1].level)
            return wi_fail(WEFT_EINVAL, "hierarchy: level \"%s\" is not inside level \"%s\"", l->name,
                           name_of(spec, levels, i - 1));
        t->group[i] = l->group;
        t->ngroups[i] = l->ngroups;
        t->has_leader[i + 1] = spec->at[i].has_leader;
        for (int r = 0; r < t->nranks; r++) {
            if (l->group[r] < 0 || l->group[r] >= l->ngroups)
                return wi_fail(WEFT_EINVAL, "hierarchy: rank %d is in group %d of %d of level \"%s\"", r, l->group[r],
                               l->ngroups, l->name);
        }
        if (i)
            WI_TRY(check_nesting(t, spec, levels, i));
    }
    for (int r = 0; r < t->nranks; r++)
        self[r] = r;
    t->group[t->k] = self;
    t->ngroups[t->k] = t->nranks;
    return WEFT_SUCCESS;
}

/* The children of every group, in the order of their numbers. */
static weft_status find_children(struct wi_hier_tree *t, int stage)
{
    int parents = stage ? t->ngroups[stage - 1] : 1, groups = t->ngroups[stage];
    int32_t *number = wi_hier_pool(t, (size_t)groups * sizeof *number); /* among its parent's, from 0 */
    int32_t *parent_of = wi_hier_pool(t, (size_t)groups * sizeof *parent_of);
    int32_t *start = wi_hier_pool(t, ((size_t)parents + 1) * sizeof *start);

    t->child_start[stage] = start;
    t->children[stage] = wi_hier_pool(t, (size_t)groups * sizeof(int32_t));
    t->child_of[stage] = wi_hier_pool(t, (size_t)t->nranks * sizeof(int32_t));
    t->lead_child[stage] = wi_hier_pool(t, (size_t)parents * sizeof(int32_t));
    if (!number || !parent_of || !start || !t->children[stage] || !t->child_of[stage] || !t->lead_child[stage])
        return no_memory(t);
    for (int g = 0; g < groups; g++)
        parent_of[g] = -1;
    for (int r = 0; r < t->nranks; r++)
        parent_of[t->group[stage][r]] = wi_hier_parent(t, stage, r);
    for (int g = 0; g < groups; g++) {
        if (parent_of[g] < 0)
            return wi_fail(WEFT_EINVAL, "hierarchy: a group of %d has no ranks", groups);
        number[g] = start[parent_of[g] + 1]++;
    }
    for (int p = 0; p < parents; p++)
        start[p + 1] += start[p];
    for (int g = 0; g < groups; g++)
        t->children[stage][start[parent_of[g]] + number[g]] = g;
    for (int r = 0; r < t->nranks; r++) {
        t->child_of[stage][r] = number[t->group[stage][r]];
        if (r == t->root)
            t->lead_child[stage][wi_hier_parent(t, stage, r)] = t->child_of[stage][r];
    }
    return WEFT_SUCCESS;
}

static weft_status measure(struct wi_hier_tree *t)
{
    uint64_t shards = 1;

    t->d[0] = 1;
    for (int i = 1; i <= t->k; i++) {
        t->d[i] = 1;
        for (int p = 0; p < t->ngroups[i - 1] && !t->has_leader[i]; p++) {
            uint32_t n = (uint32_t)wi_hier_nchildren(t, i, p);
            t->d[i] = n > t->d[i] ? n : t->d[i];
        }
        shards *= t->d[i];
        if (shards > MAX_SHARDS)
            return wi_fail(WEFT_ENOTSUP, "hierarchy: groups so uneven that the data would be cut more than %u parts",
                           MAX_SHARDS);
    }
    for (int i = 0; i <= t->k; i++) {
        t->prefixes[i] = t->width[i] = 1;
        for (int j = i + 1; j <= t->k; j++)
            t->prefixes[i] *= t->d[j];
        for (int j = 1; j <= i; j++)
            t->width[i] *= t->d[j];
    }
    return WEFT_SUCCESS;
}

static int owning_child(const struct wi_hier_tree *t, int stage, int parent, uint32_t part)
{
    uint32_t n = (uint32_t)wi_hier_nchildren(t, stage, parent);

    return t->has_leader[stage] ? t->lead_child[stage][parent] : (int)(part * n / t->d[stage]);
}

static weft_status find_owners(struct wi_hier_tree *t)
{
    for (int i = t->k; i >= 0; i--) {
        t->owner[i] = wi_hier_pool(t, (size_t)t->ngroups[i] * t->prefixes[i] * sizeof(int32_t));
        if (!t->owner[i])
            return no_memory(t);
        for (int g = 0; g < t->ngroups[i]; g++) {
            for (uint32_t v = 0; v < t->prefixes[i]; v++) {
                uint32_t part = i == t->k ? 0 : v % t->d[i + 1], above = i == t->k ? 0 : v / t->d[i + 1];
                t->owner[i][(size_t)g * t->prefixes[i] + v] =
                    i == t->k ? g : wi_hier_member(t, i + 1, g, owning_child(t, i + 1, g, part), above);
            }
        }
    }
    return WEFT_SUCCESS;
}

static weft_status find_homes(struct wi_hier_tree *t)
{
    t->home = wi_hier_pool(t, (size_t)t->nranks * sizeof *t->home);
    if (!t->home)
        return no_memory(t);
    for (int r = 0; r < t->nranks; r++) {
        for (int i = t->k; i >= 1; i--) {
            uint32_t part = t->has_leader[i] ? 0 : wi_hier_first_part(t, i, wi_hier_parent(t, i, r), t->child_of[i][r]);
            t->home[r] = t->home[r] * t->d[i] + part;
        }
    }
    return WEFT_SUCCESS;
}

weft_status wi_hier_tree_init(struct wi_hier_tree *t, const struct wi_hier_spec *spec, const struct wi_algo_args *args)
{
    weft_status st;

    *t = (struct wi_hier_tree){.k = spec->nlevels, .nranks = args->nranks, .rank = args->rank, .root = args->root};
    st = find_levels(t, spec, args->levels);
    for (int i = 0; i <= t->k && st >= 0; i++)
        st = find_children(t, i);
    if (st >= 0)
        st = measure(t);
    if (st >= 0)
        st = find_owners(t);
    if (st >= 0)
        st = find_homes(t);
    if (st < 0)
        wi_hier_tree_fini(t);
    return st;
}

static int same_members(const struct wi_hier_tree *t, int stage, int parent, uint32_t a, uint32_t b)
{
    for (int c = wi_hier_nchildren(t, stage, parent); c-- > 0;) {
        if (wi_hier_member(t, stage, parent, c, a) != wi_hier_member(t, stage, parent, c, b))
            return 0;
    }
    return 1;
}

int wi_hier_segment(const struct wi_hier_tree *t, int stage, uint32_t *first, uint32_t *end)
{
    int parent = wi_hier_parent(t, stage, t->rank), mine = t->child_of[stage][t->rank];
    uint32_t v = *end;

    while (v < t->prefixes[stage] && wi_hier_member(t, stage, parent, mine, v) != t->rank)
        v++;
    if (v >= t->prefixes[stage])
        return 0;
    *first = v;
    do
        v++;
    while (v < t->prefixes[stage] && same_members(t, stage, parent, *first, v));
    *end = v;
    return 1;
}
