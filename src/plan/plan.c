/* SPDX-License-Identifier: BSD-3-Clause */
/* The planner: rules first, else the fastest of all candidates (candidates.c, cost.c, correct.c).
 *
 * Choices are kept by query in a small direct-mapped cache, because programs repeat the same few calls. The cache changes how long
 * a choice takes, never its result. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/status.h"
#include "plan/internal.h"

#define DIRECT_MIN_BYTES (192u << 10) /* below, exchanging what memory is costs more than a copy */

/* Link parameters can express hosts with one link each, behind one switch. */
static int is_beyond_params(const struct wi_model *graph, const struct wi_algo_levels *levels)
{
    if (wi_plan_outer_level(levels))
        return 1;
    for (int r = 1; graph && r < graph->nranks; r++)
        for (int k = 0; k < r; k++)
            if (graph->ranks[k].host == graph->ranks[r].host && graph->ranks[k].nic != graph->ranks[r].nic)
                return 1;
    return 0;
}

weft_status wi_planner_create(const struct wi_plan_config *config, struct wi_planner **planner)
{
    struct wi_planner *p = wi_calloc(1, sizeof *p);
    const struct wi_algo_level *node;
    weft_status st;

    if (!p)
        return wi_fail(WEFT_ENOMEM, "planner");
    p->facts = *config->facts;
    p->slice_bytes = config->slice_bytes;
    memcpy(p->ll_max, p->facts.ll_max, sizeof p->ll_max);
    node = wi_algo_level_find(p->facts.levels, "node");
    p->node_of = node ? node->group : NULL;
    if (config->params)
        p->params = *config->params;
    else
        wi_plan_default_link_params(&p->facts, &p->params);
    wi_plan_find_sharing(p);
    wi_plan_find_rates(p, config->rates);
    st = wi_plan_parse_rules(p, config->overrides);
    if (st >= 0)
        st = wi_plan_find_hier(p);
    if (st >= 0)
        st = wi_plan_correct_init(p, config->table); /* may change the link parameters */
    if (st < 0) {
        wi_planner_destroy(p);
        return st;
    }
    p->graph = !p->measured && is_beyond_params(config->graph, p->facts.levels) ? config->graph : NULL;
    wi_plan_find_uplinks(p);
    st = wi_plan_patterns_init(p);
    if (st < 0) {
        wi_planner_destroy(p);
        return st;
    }
    wi_plan_forms_init(p);
    *planner = p;
    return WEFT_SUCCESS;
}

void wi_planner_destroy(struct wi_planner *planner)
{
    if (!planner)
        return;
    wi_plan_forms_fini(planner);
    wi_plan_patterns_fini(planner);
    wi_plan_correct_fini(planner);
    wi_free(planner->hier);
    wi_free(planner);
}

size_t wi_plan_slice(const struct wi_planner *p, const struct wi_algo *a)
{
    if (p->slice_bytes)
        return p->slice_bytes;
    return a->needs & WI_ALGO_MAPPED ? 64u << 10 : 256u << 10;
}

/* Images of a slice are messages: of codecs of few bits they are as long as of others, if each block still has some slices. Four
 * hosts with links of 1 Gbit/s, 64 MiB: int4 8 % faster, sign 14 %. Ranks of a v-form know lengths of their own only. */
#define IMAGE_WANTED (128u << 10)
#define SLICE_MAX ((size_t)4 << 20)
#define BLOCK_SLICES 4

static size_t slice_for(const struct wi_planner *p, const struct wi_plan_query *q, const struct wi_algo_choice *c)
{
    size_t plain = wi_plan_slice(p, c->algo), slice, most = q->bytes / (size_t)p->facts.nranks / BLOCK_SLICES;

    if (p->slice_bytes || q->v_form || !(c->needs & WI_ALGO_CODED) || !(q->codec.ratio > 0))
        return plain;
    slice = (size_t)fmin((double)SLICE_MAX, (double)IMAGE_WANTED / (double)q->codec.ratio);
    slice = slice < most ? slice : most;
    return slice > plain ? slice & ~(size_t)4095 : plain;
}

static void answer(const struct wi_planner *p, const struct wi_plan_query *q, const struct wi_algo_choice *c, double us,
                   struct wi_plan *plan)
{
    *plan = (struct wi_plan){.algo = c->algo,
                             .slice_bytes = slice_for(p, q, c),
                             .predicted_us = us,
                             .spec = c->spec,
                             .pipeline = wi_plan_pipeline_of(p, q, c)};
}

static weft_status passed_over(const struct wi_plan_query *q, const char *name, const char *reason)
{
    wi_log(WEFT_LOG_INFO, "plan.rule", "%s of %zu bytes: the rule \"%s\" is passed over: %s", wi_coll_name(q->coll),
           q->bytes, name, reason);
    return WEFT_INPROGRESS;
}

/* A rule or a name for this call. WEFT_INPROGRESS: the rule cannot do this one, the planner chooses. */
static weft_status plan_named(const struct wi_planner *p, const struct wi_plan_query *q, const char *name, int forced,
                              struct wi_plan *plan)
{
    struct wi_algo_choice c;
    struct wi_algo_cost cost;
    const char *reason;
    weft_status st = wi_algo_choose(q->coll, name, p->facts.levels, p->facts.nranks, &c);

    if (st < 0 && (forced || st == WEFT_ENOMEM))
        return st;
    if (st < 0)
        return passed_over(q, name, wi_fail_text());
    reason = wi_plan_why_not(p, q, &c);
    if (!reason) {
        double us = wi_plan_price(p, q, &c, &cost);
        if (isnan(us))
            return wi_fail(WEFT_ENOMEM, "price of an algorithm");
        answer(p, q, &c, us, plan);
        return WEFT_SUCCESS;
    }
    return forced ? wi_fail(WEFT_ENOTSUP, "algorithm \"%s\" cannot do this %s: %s", name, wi_coll_name(q->coll), reason)
                  : passed_over(q, name, reason);
}

/* A file's algorithm that is named, by a rule or for a call, is never replaced by another one. */
static weft_status plan_file(const struct wi_planner *p, const struct wi_plan_query *q, const char *name,
                             struct wi_plan *plan)
{
    const struct wi_algo *a;

    WI_TRY(wi_plan_find_file(p, q, name, &a));
    struct wi_algo_choice c = wi_algo_choice_of(a);
    const char *reason = wi_plan_why_not(p, q, &c);
    if (reason)
        return wi_fail(WEFT_ENOTSUP, "algorithm \"%s\" cannot do this %s: %s", name, wi_coll_name(q->coll), reason);
    *plan = (struct wi_plan){.algo = a, .slice_bytes = wi_plan_slice(p, a)};
    return WEFT_SUCCESS;
}

static weft_status choose(const struct wi_planner *p, const struct wi_plan_query *q, struct wi_plan *plan)
{
    struct wi_plan_candidate list[WI_PLAN_MAX_LIST];
    const struct wi_plan_candidate *best;
    int small =
        !q->v_form && (!q->codec.id || q->codec.may_bypass) && p->ll_max[q->coll] && q->bytes <= p->ll_max[q->coll];
    const struct wi_algo *ll = small ? wi_algo_ll(q->coll) : NULL;
    int n;

    if (ll) {
        struct wi_algo_choice choice = wi_algo_choice_of(ll);
        answer(p, q, &choice, 0, plan);
        return WEFT_SUCCESS;
    }
    n = wi_plan_list(p, q, list);
    if (n < 0)
        return (weft_status)n;
    best = wi_plan_best(list, n);
    if (!best)
        return wi_fail(WEFT_ENOTSUP, "no algorithm for %s%s", wi_coll_name(q->coll),
                       q->ordered ? " with an operator that is not commutative" : "");
    answer(p, q, &best->choice, best->predicted_us, plan);
    return WEFT_SUCCESS;
}

/* ---- The cache ---- */

static size_t place_of(const struct wi_plan_query *q)
{
    uint64_t h = q->bytes ^ (uint64_t)(unsigned)q->coll << 40 ^ (uint64_t)(unsigned)q->root << 24;

    h ^= (uint64_t)(q->v_form | q->ordered << 1 | q->in_place << 2 | (int)q->memory << 3 | (int)q->copy_path << 5 |
                    q->rounds << 7 | q->adds << 8)
             << 56 ^
         (uint64_t)((int)q->memory_dst | q->packed << 4 | q->codec.may_bypass << 5) << 48 ^ (uint64_t)q->work << 32 ^
         (uint64_t)q->codec.id * 0xff51afd7ed558ccdu;
    h *= 0x9e3779b97f4a7c15u;
    return h >> 58 & (WI_PLAN_CACHE - 1);
}

static int same_query(const struct wi_plan_query *a, const struct wi_plan_query *b)
{
    return a->coll == b->coll && a->bytes == b->bytes && a->v_form == b->v_form && a->ordered == b->ordered &&
           a->rounds == b->rounds && a->in_place == b->in_place && a->root == b->root && a->memory == b->memory &&
           a->memory_dst == b->memory_dst && a->copy_path == b->copy_path && a->packed == b->packed &&
           a->work == b->work && a->codec.id == b->codec.id && a->codec.may_bypass == b->codec.may_bypass &&
           a->codec.plain == b->codec.plain && a->adds == b->adds;
}

int wi_plan_is_new_linear(struct wi_planner *p, const struct wi_plan_query *q)
{
    struct wi_plan_query *last = &p->linear[place_of(q)];
    int is_new = !same_query(last, q);

    *last = *q;
    return is_new;
}

/* Naming an algorithm for one call is often done for every call of a loop. */
static weft_status plan_forced(struct wi_planner *p, const struct wi_plan_query *q, const char *name,
                               struct wi_plan *plan)
{
    struct wi_plan_named_slot *n = &p->named[place_of(q) % WI_PLAN_NAMED];

    if (n->slot.used && same_query(&n->slot.query, q) && strcmp(n->name, name) == 0) {
        *plan = n->slot.plan;
        return WEFT_SUCCESS;
    }
    WI_TRY(plan_named(p, q, name, 1, plan));
    if (strlen(name) < sizeof n->name) {
        strcpy(n->name, name);
        n->slot = (struct wi_plan_slot){*q, 1, *plan};
    }
    return WEFT_SUCCESS;
}

/* Of calls with a codec users want to know whether it is used. */
static void log_choice(const struct wi_planner *p, const struct wi_plan_query *q, const struct wi_plan *plan)
{
    enum weft_log_level level = q->codec.id && !q->codec.plain ? WEFT_LOG_INFO : WEFT_LOG_DEBUG;
    char name[WI_ALGO_SPEC_BYTES], what[64] = "";
    struct wi_algo_choice c;

    if (__atomic_load_n(&wi_log_level, __ATOMIC_RELAXED) < (int)level)
        return;
    wi_algo_text(plan->algo, &plan->spec, name);
    if (level == WEFT_LOG_INFO && wi_algo_choose(q->coll, name, p->facts.levels, p->facts.nranks, &c) >= 0)
        snprintf(what, sizeof what, c.needs & WI_ALGO_CODED ? ", compressed to %.3f" : "; the codec is bypassed",
                 (double)q->codec.ratio);
    wi_log(level, "plan.choice", "%s of %zu bytes: %s, %.2f us predicted%s", wi_coll_name(q->coll), q->bytes, name,
           plan->predicted_us, what);
}

weft_status wi_plan(struct wi_planner *p, const struct wi_plan_query *q, const char *forced, struct wi_plan *plan)
{
    struct wi_plan_slot *slot = &p->cache[place_of(q)];
    const struct wi_plan_rule *rule;
    weft_status st = WEFT_INPROGRESS;

    if (forced && wi_plan_is_file(forced))
        return plan_file(p, q, forced, plan);
    if (forced)
        return plan_forced(p, q, forced, plan);
    rule = wi_plan_ruled(p, q);
    if (rule && wi_plan_is_file(rule->algo))
        return plan_file(p, q, rule->algo, plan);
    if (slot->used && same_query(&slot->query, q)) {
        *plan = slot->plan;
        return WEFT_SUCCESS;
    }
    if (rule)
        st = plan_named(p, q, rule->algo, 0, plan);
    if (st == WEFT_INPROGRESS)
        st = choose(p, q, plan);
    if (st < 0)
        return st;
    *slot = (struct wi_plan_slot){*q, 1, *plan};
    log_choice(p, q, plan);
    return st;
}

int wi_plan_needs_exchange(const struct wi_planner *p, const struct wi_plan_query *q, const char *forced)
{
    const struct wi_plan_rule *rule = forced ? NULL : wi_plan_ruled(p, q);
    const char *name = forced ? forced : rule ? rule->algo : NULL;
    const struct wi_algo *a = name ? wi_algo_find(q->coll, name) : NULL;

    if (name && wi_plan_is_file(name))
        a = wi_plan_file(p, q, forced);
    else if (name && wi_algo_is_spec(name)) /* over messages, whose shares are even or their own */
        a = wi_algo_hier(q->coll);
    if (!p->facts.mapped || q->coll == WI_COLL_BARRIER || (q->codec.id && (!q->codec.may_bypass || q->codec.feedback)))
        return 0;
    /* Ranks know only their own counts, but must cut alike. */
    if (q->coll == WI_COLL_ALL_TO_ALL_V || q->coll == WI_COLL_GATHER_V || q->coll == WI_COLL_SCATTER_V)
        return 1;
    if (a)
        return (a->needs & (WI_ALGO_PEER_MEM | WI_ALGO_PEER_GET)) != 0;
    return (p->facts.can_map || p->facts.can_get) && q->bytes >= DIRECT_MIN_BYTES;
}
