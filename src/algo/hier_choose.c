/* SPDX-License-Identifier: BSD-3-Clause */
/* From a name or a spec to an algorithm, and what the algorithm then needs. */
#include <stdio.h>
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

static weft_status check_level(const struct wi_hier_spec *s, int i, const struct wi_algo_levels *levels, int nranks,
                               unsigned *needs)
{
    char list[160] = "none", near[WI_HIER_WORD] = "";
    size_t at = 0, best = 4;

    for (int k = 0; k < levels->nlevels; k++) {
        const struct wi_algo_level *l = &levels->level[k];
        if (strcmp(l->name, s->at[i].level) == 0) {
            *needs |= is_contiguous(l, nranks) ? 0 : WI_ALGO_COMMUTATIVE;
            return WEFT_SUCCESS;
        }
        if (at + 32 < sizeof list)
            at += (size_t)snprintf(list + at, sizeof list - at, "%s%.24s", at ? ", " : "", l->name);
        if (wi_algo_distance(s->at[i].level, l->name) < best) {
            best = wi_algo_distance(s->at[i].level, l->name);
            snprintf(near, sizeof near, "%s", l->name);
        }
    }
    return wi_fail(WEFT_ENOTFOUND, "no level \"%s\" is known here%s%s%s (there are: %s)%s", s->at[i].level,
                   near[0] ? "; did you mean \"" : "", near, near[0] ? "\"?" : "", list,
                   near[0] || levels->nlevels > 2 ? "" : "; WEFT_TOPO_DISCOVER=always finds more if ranks are bound");
}

static unsigned needs_of(const struct wi_algo *a, enum wi_coll coll)
{
    unsigned needs = a->needs & (WI_ALGO_COMMUTATIVE | WI_ALGO_EXACT);

    return needs | (coll == WI_COLL_ALL_GATHER ? a->needs & WI_ALGO_UNIFORM : 0);
}

static weft_status check_stage(const struct wi_hier_spec *s, int i, const struct wi_hier_shape *shape, unsigned *needs)
{
    int leader = i > 0 && s->at[i - 1].leader;
    enum wi_coll colls[2] = {leader ? shape->up_leader : shape->up, leader ? shape->down_leader : shape->down};
    const char *name = i < s->nlevels ? s->at[i].outer : s->inner;
    const struct wi_algo *algo;
    int known = !*name || strchr(name, '+') != NULL;

    if (i == 0) {
        WI_TRY(wi_hier_algo(s, 0, shape->coll, 0, &algo));
        *needs |= needs_of(algo, shape->coll);
        return WEFT_SUCCESS;
    }
    for (int k = 0; k < 2; k++) {
        if (colls[k] == WI_HIER_NONE)
            continue;
        WI_TRY(wi_hier_algo(s, i, colls[k], k, &algo));
        *needs |= needs_of(algo, shape->coll);
        known |= strcmp(algo->name, name) == 0 || wi_hier_is_doubling(name);
    }
    if (known)
        return WEFT_SUCCESS;
    char text[256];
    enum wi_coll coll = colls[0] != WI_HIER_NONE ? colls[0] : colls[1] != WI_HIER_NONE ? colls[1] : shape->coll;
    return wi_fail(WEFT_ENOTFOUND, "no algorithm \"%s\" for what is to be done inside, %s%s", name, wi_coll_name(coll),
                   wi_algo_suggest(coll, name, text, sizeof text));
}

static weft_status check_number(const struct wi_hier_spec *s, const struct wi_hier_tree *tree, int stage,
                                enum wi_coll coll, int second)
{
    int nparents = stage ? tree->ngroups[stage - 1] : 1;
    const struct wi_algo *algo;

    WI_TRY(wi_hier_algo(s, stage, coll, second, &algo));
    for (int p = 0; p < nparents; p++) {
        int n = wi_hier_nchildren(tree, stage, p);
        const char *ranks = wi_algo_ranks_needed(algo->needs, n);
        if (ranks && n > 1)
            return wi_fail(WEFT_ENOTSUP, "%s %s needs %s, not %d as %s \"%s\"", wi_coll_name(coll), algo->name, ranks,
                           n, stage ? "inside a group of level" : "groups of level",
                           s->at[stage ? stage - 1 : 0].level);
    }
    return WEFT_SUCCESS;
}

/* Among how many an algorithm works at a stage is known: refuse what it is not for here, where all ranks do. */
static weft_status check_numbers(const struct wi_hier_spec *s, const struct wi_hier_shape *shape,
                                 const struct wi_algo_levels *levels, int nranks)
{
    struct wi_algo_args args = {.nranks = nranks, .levels = levels};
    struct wi_hier_tree tree;
    weft_status st;

    WI_TRY(wi_hier_tree_init(&tree, s, &args));
    st = WEFT_SUCCESS;
    for (int i = 0; i <= s->nlevels && st >= 0; i++) {
        int leader = i > 0 && s->at[i - 1].leader;
        enum wi_coll colls[2] = {leader ? shape->up_leader : shape->up, leader ? shape->down_leader : shape->down};
        if (i == 0)
            colls[0] = shape->coll, colls[1] = WI_HIER_NONE;
        for (int k = 0; k < 2 && st >= 0; k++)
            if (colls[k] != WI_HIER_NONE)
                st = check_number(s, &tree, i, colls[k], k);
    }
    wi_hier_tree_fini(&tree);
    return st;
}

/* What is true of a whole spec. */
static void describe(const struct wi_hier_spec *s, const struct wi_hier_shape *shape, struct wi_algo_choice *choice)
{
    choice->depth = (uint8_t)s->depth;
    for (int i = 0; i < s->nlevels; i++) {
        int leader = i > 0 && s->at[i - 1].leader;
        enum wi_coll up = i == 0 ? shape->coll : leader ? shape->up_leader : shape->up;
        enum wi_coll down = i == 0 ? WI_HIER_NONE : leader ? shape->down_leader : shape->down;
        const struct wi_algo *algo;
        if (up != WI_HIER_NONE && wi_hier_algo(s, i, up, 0, &algo) >= 0)
            choice->traits.streams |= algo->traits.streams;
        if (down != WI_HIER_NONE && wi_hier_algo(s, i, down, 1, &algo) >= 0)
            choice->traits.streams |= algo->traits.streams;
        choice->leader |= s->at[i].leader != 0;
    }
}

static weft_status choose_hier(enum wi_coll coll, const char *text, const struct wi_algo_levels *levels, int nranks,
                               struct wi_algo_choice *choice)
{
    enum wi_coll family = wi_algo_family(coll);
    const struct wi_hier_shape *shape = wi_hier_shape_of(family);
    unsigned needs = levels ? 0 : WI_ALGO_COMMUTATIVE;
    struct wi_hier_spec s;

    if (!shape)
        return wi_fail(WEFT_ENOTFOUND, "%s has no hierarchical algorithms, so \"%s\" is none", wi_coll_name(coll),
                       text);
    WI_TRY(wi_hier_parse(text, &s));
    for (int i = 0; i < s.nlevels && levels; i++)
        WI_TRY(check_level(&s, i, levels, nranks, &needs));
    for (int i = 0; i <= s.nlevels; i++)
        WI_TRY(check_stage(&s, i, shape, &needs));
    if (levels)
        WI_TRY(check_numbers(&s, shape, levels, nranks));
    if (coll == WI_COLL_ALL_TO_ALL)
        needs |= WI_ALGO_UNIFORM;
    if (coll == WI_COLL_ALL_TO_ALL_V)
        needs |= WI_ALGO_PARCELS;
    if (family == WI_COLL_ALL_TO_ALL)
        needs |= WI_ALGO_NO_IN_PLACE;
    if (family != WI_COLL_ALL_REDUCE && family != WI_COLL_REDUCE && family != WI_COLL_REDUCE_SCATTER)
        needs &= ~(unsigned)(WI_ALGO_COMMUTATIVE | WI_ALGO_EXACT);
    *choice = (struct wi_algo_choice){.algo = wi_algo_hier(coll), .needs = needs};
    memcpy(choice->spec, text, strlen(text));
    describe(&s, shape, choice);
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
    char near[512];

    if (wi_algo_is_spec(text))
        return choose_hier(coll, text, levels, nranks, choice);
    algo = wi_algo_find(coll, text);
    if (!algo)
        return wi_fail(WEFT_ENOTFOUND, "no algorithm \"%.64s\" for %s%s", text, wi_coll_name(coll),
                       wi_algo_suggest(coll, text, near, sizeof near));
    *choice = wi_algo_choice_of(algo);
    return WEFT_SUCCESS;
}

/* Chunks long enough that each keeps a link busy for a while, and enough of them that what does not overlap is little. */
static int depth_for(double bytes)
{
    return bytes >= 4 << 20 ? 8 : bytes >= 512 << 10 ? 4 : 1;
}

int wi_algo_has_depth(const struct wi_algo_choice *choice)
{
    enum wi_coll coll = choice->algo->coll;

    return choice->spec[0] && (coll == WI_COLL_ALL_REDUCE || coll == WI_COLL_REDUCE || coll == WI_COLL_BROADCAST);
}

void wi_algo_choice_base(const struct wi_algo_choice *choice, char base[WI_ALGO_SPEC_BYTES])
{
    size_t head = strcspn(choice->spec, "*");
    const char *rest = choice->spec + head;

    if (*rest)
        rest += 1 + strspn(rest + 1, "0123456789");
    memmove(base, choice->spec, head);
    memmove(base + head, rest, strlen(rest) + 1);
}

void wi_algo_choice_name(const struct wi_algo_choice *choice, char name[WI_ALGO_SPEC_BYTES])
{
    if (choice->spec[0])
        wi_algo_choice_base(choice, name);
    else
        snprintf(name, WI_ALGO_SPEC_BYTES, "%s", choice->algo->name);
}

void wi_algo_choice_open(struct wi_algo_choice *choice)
{
    wi_algo_choice_base(choice, choice->spec);
    choice->depth = 0;
}

void wi_algo_choice_depth(struct wi_algo_choice *choice, int depth)
{
    char spec[WI_ALGO_SPEC_BYTES];
    size_t head;
    int n;

    wi_algo_choice_base(choice, choice->spec);
    head = strcspn(choice->spec, "/");
    n = snprintf(spec, sizeof spec, "%.*s*%d%s", (int)head, choice->spec, depth, choice->spec + head);
    if (n > 0 && (size_t)n < sizeof spec) {
        memcpy(choice->spec, spec, (size_t)n + 1);
        choice->depth = (uint8_t)depth;
    }
}

void wi_algo_choice_for(struct wi_algo_choice *choice, double bytes)
{
    if (wi_algo_has_depth(choice) && !choice->depth)
        wi_algo_choice_depth(choice, depth_for(bytes));
}
