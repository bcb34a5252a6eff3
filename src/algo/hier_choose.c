/* SPDX-License-Identifier: BSD-3-Clause */
/* From a name or a spec to an algorithm, and what the algorithm then needs. */
#include <string.h>

#include "algo/hier.h"
#include "algo/list.h"
#include "base/status.h"

/* Neighbours in rank stay together: groups are contiguous. Then stages combine neighbours only, and rank order is kept. */
static int is_contiguous(const struct wi_algo_level *l, int nranks)
{
    int highest = -1;

    for (int r = 0; r < nranks; r++) {
        if (l->group[r] > highest)
            highest = l->group[r];
        else if (l->group[r] != l->group[r - 1])
            return 0;
    }
    return 1;
}

static unsigned needs_of(const struct wi_algo *a, enum wi_coll coll)
{
    unsigned needs = a->needs & (WI_ALGO_COMMUTATIVE | WI_ALGO_EXACT | WI_ALGO_CODED);

    return needs | (coll == WI_COLL_ALL_GATHER ? a->needs & WI_ALGO_UNIFORM : 0);
}

/* Of levels that are known, and of all stages. */
static unsigned needs_of_spec(const struct wi_hier_spec *s, enum wi_coll coll, const struct wi_algo_levels *levels,
                              int nranks)
{
    unsigned needs = levels ? 0 : WI_ALGO_COMMUTATIVE;

    for (int i = 0; i < s->nlevels && levels; i++)
        needs |= is_contiguous(&levels->level[s->at[i].level], nranks) ? 0 : WI_ALGO_COMMUTATIVE;
    for (int i = 0; i <= s->nlevels; i++)
        needs |= (s->up[i] ? needs_of(s->up[i], coll) : 0) | (s->down[i] ? needs_of(s->down[i], coll) : 0);
    return needs;
}

static weft_status check_number(const struct wi_hier_spec *s, const struct wi_hier_tree *tree,
                                const struct wi_algo_levels *levels, int stage, const struct wi_algo *algo)
{
    int nparents = stage ? tree->ngroups[stage - 1] : 1;

    for (int p = 0; p < nparents; p++) {
        int n = wi_hier_nchildren(tree, stage, p);
        const char *ranks = wi_algo_ranks_needed(algo->needs, n);
        if (ranks && n > 1)
            return wi_fail(WEFT_ENOTSUP, "%s %s needs %s, not %d as %s \"%s\"", wi_coll_name(algo->coll), algo->name,
                           ranks, n, stage ? "inside a group of level" : "groups of level",
                           levels->level[s->at[stage ? stage - 1 : 0].level].name);
    }
    return WEFT_SUCCESS;
}

/* The number of participants of each stage is known here, to all ranks alike: refuse algorithms that cannot run among so many. */
static weft_status check_numbers(const struct wi_hier_spec *s, const struct wi_algo_levels *levels, int nranks)
{
    struct wi_algo_args args = {.nranks = nranks, .levels = levels};
    struct wi_hier_tree tree;
    weft_status st;

    WI_TRY(wi_hier_tree_init(&tree, s, &args));
    st = WEFT_SUCCESS;
    for (int i = 0; i <= s->nlevels && st >= 0; i++) {
        if (s->up[i])
            st = check_number(s, &tree, levels, i, s->up[i]);
        if (s->down[i] && st >= 0)
            st = check_number(s, &tree, levels, i, s->down[i]);
    }
    wi_hier_tree_fini(&tree);
    return st;
}

static weft_status choose_hier(enum wi_coll coll, const char *text, const struct wi_algo_levels *levels, int nranks,
                               struct wi_algo_choice *choice)
{
    enum wi_coll family = wi_algo_family(coll);
    struct wi_algo_choice c = {.algo = wi_algo_hier(coll)};

    WI_TRY(wi_hier_parse(coll, text, levels, &c.spec));
    c.needs = needs_of_spec(&c.spec, family, levels, nranks) | (c.spec.mapped ? WI_ALGO_GROUP_MAPPED : 0);
    if (levels)
        WI_TRY(check_numbers(&c.spec, levels, nranks));
    if (c.spec.mapped && !wi_algo_has_stages(coll))
        return wi_fail(WEFT_ENOTSUP, "hierarchy: \"%s\": %s by levels is over messages only", c.spec.text,
                       wi_coll_name(family));
    if (coll == WI_COLL_ALL_TO_ALL)
        c.needs |= WI_ALGO_UNIFORM;
    if (coll == WI_COLL_ALL_TO_ALL_V)
        c.needs |= WI_ALGO_PACKED;
    if (family == WI_COLL_ALL_TO_ALL)
        c.needs |= WI_ALGO_NO_IN_PLACE;
    if (!wi_coll_is_reduction(family))
        c.needs &= ~(unsigned)(WI_ALGO_COMMUTATIVE | WI_ALGO_EXACT);
    for (int i = 0; i < c.spec.nlevels; i++) {
        const struct wi_algo *up = c.spec.up[i], *down = c.spec.down[i];
        c.traits.streams |= (up && up->traits.streams) || (down && down->traits.streams);
        c.has_leader |= c.spec.at[i].has_leader;
    }
    *choice = c;
    return WEFT_SUCCESS;
}

int wi_algo_is_spec(const char *text)
{
    return strchr(text, ':') && strncmp(text, "file:", 5) != 0;
}

weft_status wi_algo_choose(enum wi_coll coll, const char *text, const struct wi_algo_levels *levels, int nranks,
                           struct wi_algo_choice *choice)
{
    const struct wi_algo *algo;
    char similar[512];

    if (wi_algo_is_spec(text))
        return choose_hier(coll, text, levels, nranks, choice);
    algo = wi_algo_find(coll, text);
    if (!algo)
        return wi_fail(WEFT_ENOTFOUND, "no algorithm \"%.64s\" for %s%s", text, wi_coll_name(coll),
                       wi_algo_suggest(coll, text, similar, sizeof similar));
    *choice = wi_algo_choice_of(algo);
    return WEFT_SUCCESS;
}

/* Chunks are long enough to use a link's bandwidth, and there are enough of them that most of the transfer overlaps. */
static int nchunks_for(double bytes)
{
    return bytes >= 4 << 20 ? 8 : bytes >= 512 << 10 ? 4 : 1;
}

int wi_algo_has_chunks(const struct wi_algo_choice *choice)
{
    return choice->spec.nlevels && !choice->spec.mapped && wi_coll_is_vector(choice->algo->coll);
}

const char *wi_algo_choice_name(const struct wi_algo_choice *choice)
{
    return choice->spec.nlevels ? choice->spec.text : choice->algo->name;
}

void wi_algo_choice_for(struct wi_algo_choice *choice, double bytes)
{
    if (wi_algo_has_chunks(choice) && !choice->spec.nchunks)
        wi_hier_cut(&choice->spec, nchunks_for(bytes));
}
