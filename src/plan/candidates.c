/* SPDX-License-Identifier: BSD-3-Clause */
/* Which algorithms can run an operation, and which of them is the fastest. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "plan/internal.h"

/* Does mapped memory serve the ranks of each innermost group? */
static int inside_is_mapped(const struct wi_planner *p, const struct wi_hier_spec *s)
{
    uint8_t level = s->at[s->nlevels - 1].level;

    return level < WI_ALGO_MAX_LEVELS && p->facts.inside[level].mapped;
}

const char *wi_plan_why_not(const struct wi_planner *p, const struct wi_plan_query *q, const struct wi_algo_choice *c)
{
    const struct wi_algo *a = c->algo;
    unsigned needs = c->needs;

    if (a->coll != q->coll && a->coll != wi_algo_family(q->coll))
        return "it is of another collective";
    if (q->adds && (c->spec.nlevels || !a->traits.adds))
        return "it does not write the result once and for all, and accumulate adds to it";
    if (needs & WI_ALGO_CODED && !q->codec.id)
        return "it sends images: for calls with a codec";
    if (needs & WI_ALGO_CODED && q->codec.plain)
        return "it sends images, and what a linear codec makes is summed as it is";
    if (q->codec.id && !q->codec.may_bypass && !(needs & WI_ALGO_CODED))
        return "it sends plain data, and the call's codec may not be bypassed";
    if (q->codec.feedback && needs & (WI_ALGO_PEER_MEM | WI_ALGO_PEER_GET))
        return "other ranks read the buffer, and what was lost before is added to a copy of it";
    if (q->codec.keeps_state && needs & WI_ALGO_CODED && c->spec.nlevels)
        return "what ef21 and dgc keep is of one shot or two among all ranks";
    if (c->spec.nlevels && !p->facts.levels)
        return "no levels of the ranks are known";
    if (needs & WI_ALGO_UNIFORM && q->v_form)
        return "it needs equal shares";
    if (needs & WI_ALGO_PACKED && q->v_form && !q->packed)
        return "it is taken by all ranks or none, and they know only their own counts";
    if (needs & WI_ALGO_COMMUTATIVE && q->ordered)
        return "it needs a commutative operator";
    if (needs & WI_ALGO_EXACT && q->rounds)
        return "ranks would get other bits: it is for operators that do not round, as those of integers";
    if (needs & WI_ALGO_EVEN_RANKS && p->facts.nranks % 2)
        return "it needs an even number of ranks";
    if (needs & WI_ALGO_POW2_RANKS && p->facts.nranks & (p->facts.nranks - 1))
        return "it needs a power of two of ranks";
    if (needs & WI_ALGO_NO_IN_PLACE && q->in_place)
        return "it cannot work in place";
    if (needs & (WI_ALGO_MAPPED | WI_ALGO_PEER_MEM | WI_ALGO_PEER_GET) && !p->facts.mapped)
        return "it needs all ranks in one shared-memory group";
    if (needs & WI_ALGO_GROUP_MAPPED && !inside_is_mapped(p, &c->spec))
        return "it needs a shared-memory group inside each group";
    if (needs & WI_ALGO_PEER_MEM && q->memory != WI_MEMORY_MAPPED)
        return "it needs buffers from weft_mem_alloc or weft_mem_register on all ranks";
    if (needs & WI_ALGO_PEER_GET &&
        (q->memory == WI_MEMORY_UNKNOWN || (q->memory == WI_MEMORY_PRIVATE && !p->facts.can_get)))
        return "the other ranks' memory cannot be read";
    if (needs & WI_ALGO_PEER_PUT && q->memory_dst != WI_MEMORY_MAPPED && !p->facts.can_put)
        return "the other ranks' memory cannot be written";
    if (q->copy_path == WI_COPY_PATH_MESSAGES)
        return needs & WI_ALGO_MAPPED ? "it is not over messages" : NULL;
    if (q->copy_path != WI_COPY_PATH_ANY &&
        (q->copy_path == WI_COPY_PATH_ATTACH) != ((needs & (WI_ALGO_PEER_MEM | WI_ALGO_PEER_GET)) != 0))
        return "another copy path is asked for";
    return NULL;
}

/* ---- Hierarchical candidates ---- */

/* What happens among the groups; with a second level, among those inside a group as well. */
static const struct {
    enum wi_coll coll;
    const char *among;
} hier_forms[] = {
    {WI_COLL_ALL_REDUCE, "ring"},
    {WI_COLL_ALL_REDUCE, "rdouble"},
    {WI_COLL_ALL_REDUCE, "rhalving"},
    {WI_COLL_ALL_REDUCE, "rdouble@leader"},
    {WI_COLL_ALL_REDUCE, "coded"}, /* for calls with a codec, as all of this name */
    {WI_COLL_ALL_REDUCE, "coded2"},
    {WI_COLL_REDUCE, "knomial@leader"},
    {WI_COLL_REDUCE, "rsgather"},
    {WI_COLL_BROADCAST, "knomial@leader"},
    {WI_COLL_BROADCAST, "knomial"},
    {WI_COLL_BROADCAST, "scatter_ring"},
    {WI_COLL_ALL_GATHER, "ring"},
    {WI_COLL_ALL_GATHER, "rdouble"},
    {WI_COLL_ALL_GATHER, "coded"},
    {WI_COLL_REDUCE_SCATTER, "ring"},
    {WI_COLL_REDUCE_SCATTER, "rhalving"},
    {WI_COLL_REDUCE_SCATTER, "coded"},
    {WI_COLL_ALL_TO_ALL, "pairwise"},
    {WI_COLL_ALL_TO_ALL_V, "linear/linear"},
    {WI_COLL_ALL_TO_ALL_V, "linear@leader"},
    {WI_COLL_BARRIER, "dissem"},
};
#define NFORMS (sizeof hier_forms / sizeof *hier_forms)

static weft_status add_hier(struct wi_planner *p, enum wi_coll coll, const char *spec);

/* The same through mapped memory inside the innermost groups. */
static weft_status add_pipelines(struct wi_planner *p, const struct wi_plan_hier *h)
{
    static const char *const inner[] = {"flat", "flat2"}; /* the second one for a leader */
    const struct wi_hier_spec *s = &h->choice.spec;
    int has_leader = s->at[s->nlevels - 1].has_leader;

    for (int i = 0; i < 1 + (has_leader && s->up[s->nlevels] != NULL); i++) {
        char spec[WI_ALGO_SPEC_BYTES + 8];
        snprintf(spec, sizeof spec, "%s/%s", s->text, inner[i]);
        WI_TRY(add_hier(p, h->choice.algo->coll, spec));
    }
    return WEFT_SUCCESS;
}

static weft_status add_hier(struct wi_planner *p, enum wi_coll coll, const char *spec)
{
    struct wi_algo_args args = {.nranks = p->facts.nranks, .levels = p->facts.levels};
    struct wi_plan_hier *h = &p->hier[p->nhier];

    WI_TRY(wi_algo_choose(coll, spec, p->facts.levels, p->facts.nranks, &h->choice));
    args.spec = &h->choice.spec;
    WI_TRY(wi_algo_level_cost(&args, coll, 0, &h->none));
    WI_TRY(wi_algo_level_cost(&args, coll, WI_PLAN_SAMPLE, &h->one));
    p->nhier++;
    if (h->choice.spec.mapped || !wi_algo_has_stages(coll) || !inside_is_mapped(p, &h->choice.spec))
        return WEFT_SUCCESS;
    return add_pipelines(p, h);
}

int wi_plan_hier_index(const struct wi_planner *p, const struct wi_algo_choice *c)
{
    struct wi_hier_spec open = c->spec;

    open.nchunks = 0;
    for (int i = 0; i < p->nhier; i++)
        if (p->hier[i].choice.algo == c->algo && wi_hier_same(&p->hier[i].choice.spec, &open))
            return i;
    return -1;
}

const char *wi_plan_outer_level(const struct wi_algo_levels *levels)
{
    const struct wi_algo_level *node = wi_algo_level_find(levels, "node");

    return node && node > levels->level && node[-1].ngroups > 1 ? node[-1].name : NULL;
}

static weft_status measure_groups(struct wi_planner *p)
{
    int *counts = wi_malloc((size_t)p->facts.nranks * sizeof *counts);

    if (!counts)
        return wi_fail(WEFT_ENOMEM, "hierarchical candidates");
    for (int i = 0; i < p->facts.levels->nlevels; i++) {
        const struct wi_algo_level *l = &p->facts.levels->level[i];
        memset(counts, 0, (size_t)l->ngroups * sizeof *counts);
        for (int r = 0; r < p->facts.nranks; r++) {
            int n = ++counts[l->group[r]];
            p->group_ranks[i] = n > p->group_ranks[i] ? n : p->group_ranks[i];
        }
    }
    wi_free(counts);
    return WEFT_SUCCESS;
}

/* Hierarchies are considered only where several ranks share a node's link, or several nodes an uplink. */
weft_status wi_plan_find_hier(struct wi_planner *p)
{
    const char *outer = wi_plan_outer_level(p->facts.levels);
    int alone = p->facts.nnodes == p->facts.nranks;
    weft_status st;

    if (p->facts.levels)
        WI_TRY(measure_groups(p)); /* also where none is considered, a caller may name one */
    if (!p->node_of || p->facts.nnodes < 2 || (alone && !outer))
        return WEFT_SUCCESS;
    p->hier = wi_calloc(WI_PLAN_MAX_HIER, sizeof *p->hier);
    if (!p->hier)
        return wi_fail(WEFT_ENOMEM, "hierarchical candidates");
    for (size_t i = 0; i < NFORMS; i++) {
        char spec[WI_ALGO_SPEC_BYTES];
        snprintf(spec, sizeof spec, "node:%s", hier_forms[i].among);
        WI_TRY(add_hier(p, hier_forms[i].coll, spec));
        if (!outer || wi_algo_family(hier_forms[i].coll) == WI_COLL_ALL_TO_ALL)
            continue;
        snprintf(spec, sizeof spec, "%.12s:%s", outer, hier_forms[i].among);
        WI_TRY(add_hier(p, hier_forms[i].coll, spec));
        /* Not every pair exists, for the stage inside a rack is another collective; and images are for the outermost. */
        snprintf(spec, sizeof spec, "%.12s:%s/node:%s", outer, hier_forms[i].among,
                 strncmp(hier_forms[i].among, "coded", 5) ? hier_forms[i].among : "linear");
        st = add_hier(p, hier_forms[i].coll, spec);
        if (st == WEFT_ENOMEM)
            return st;
        if (st < 0)
            wi_fail_clear();
    }
    return WEFT_SUCCESS;
}

/* ---- All of them ---- */

static void list_flat(const struct wi_planner *p, const struct wi_plan_query *q, struct wi_plan_candidate *list, int *n)
{
    enum wi_coll family = wi_algo_family(q->coll);

    for (const struct wi_algo *const *a = wi_algos; *a && *n < WI_PLAN_MAX_LIST; a++) {
        struct wi_plan_candidate *c = &list[*n];
        if ((*a)->coll != q->coll && (*a)->coll != family)
            continue;
        c->choice = wi_algo_choice_of(*a);
        c->why_not = wi_plan_why_not(p, q, &c->choice);
        c->model_us = c->why_not ? 0 : wi_plan_price(p, q, &c->choice, &c->cost);
        ++*n;
    }
}

static void list_hier(const struct wi_planner *p, const struct wi_plan_query *q, struct wi_plan_candidate *list, int *n)
{
    for (int i = 0; i < p->nhier && *n < WI_PLAN_MAX_LIST; i++) {
        struct wi_plan_candidate *c = &list[*n];
        if (p->hier[i].choice.algo != wi_algo_hier(q->coll))
            continue;
        c->choice = p->hier[i].choice;
        c->why_not = wi_plan_why_not(p, q, &c->choice);
        if (c->why_not)
            wi_algo_choice_for(&c->choice, (double)q->bytes);
        c->model_us = c->why_not ? 0 : wi_plan_price(p, q, &c->choice, &c->cost);
        c->pipeline = wi_plan_pipeline_of(p, q, &c->choice);
        ++*n;
    }
}

int wi_plan_list(const struct wi_planner *p, const struct wi_plan_query *q,
                 struct wi_plan_candidate list[WI_PLAN_MAX_LIST])
{
    int n = 0;

    list_flat(p, q, list, &n);
    list_hier(p, q, list, &n);
    for (int i = 0; i < n; i++) {
        list[i].predicted_us = list[i].model_us;
        list[i].basis = WI_PLAN_MODEL;
    }
    wi_plan_correct(p, q, list, n);
    for (int i = 0; i < n; i++)
        if (isnan(list[i].predicted_us))
            return wi_fail(WEFT_ENOMEM, "price of an algorithm");
    return n;
}

/* Equals: the one that is listed first, as on every rank. */
const struct wi_plan_candidate *wi_plan_best(const struct wi_plan_candidate *list, int n)
{
    const struct wi_plan_candidate *best = NULL;

    for (int i = 0; i < n; i++)
        if (!list[i].why_not && (!best || list[i].predicted_us < best->predicted_us))
            best = &list[i];
    return best;
}

weft_status wi_plan_candidates(const struct wi_planner *planner, const struct wi_plan_query *query,
                               struct wi_plan_candidate **list, int *n)
{
    struct wi_plan_candidate *l = wi_calloc(WI_PLAN_MAX_LIST, sizeof *l);
    size_t ll_max = wi_planner_ll_max(planner, query->coll);

    if (!l)
        return wi_fail(WEFT_ENOMEM, "candidates");
    *n = wi_plan_list(planner, query, l);
    if (*n < 0) {
        wi_free(l);
        return (weft_status)*n;
    }
    for (int i = 0; i < *n; i++)
        if (!query->v_form && ll_max && query->bytes <= ll_max && l[i].choice.traits.ll)
            l[i].basis = WI_PLAN_LL;
    *list = l;
    return WEFT_SUCCESS;
}

const char *wi_plan_basis_name(enum wi_plan_basis basis)
{
    static const char *const names[] = {"model", "scaled", "measured", "ll lines"};

    return (unsigned)basis < sizeof names / sizeof *names ? names[basis] : "?";
}
