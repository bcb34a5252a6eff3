/* SPDX-License-Identifier: BSD-3-Clause */
/* The planner: candidates, a cost for each, the least wins.
 *
 * Costs are microseconds: steps * alpha + bytes on the link / beta + bytes through the core / gamma. Mapped algorithms
 * have steps of a cache miss or two; two-sided ones have steps of a message. The constants are of the class of link, not of
 * a machine: they only have to order the candidates. */
#include "plan/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/settings.h"
#include "base/status.h"

#define DIRECT_MIN_BYTES (192u << 10) /* below, telling each other about memory costs more than a copy */
#define MAX_RULES 32
/* Between hosts half a round trip of TCP is about 27 us. Half of that is the processors' work for each message, which an
 * algorithm that sends several at once pays several times. */
#define HOSTS_ALPHA_US 13.0
#define HOSTS_MESSAGE_US 14.0
/* Measured with two ranks on one node (doc/guide/shared-memory.md). */
#define PIPELINE_US 3.0  /* filling and draining the three lanes of a two-shot */
#define GET_SETUP_US 2.0 /* system calls of cross-memory attach */
#define GET_FACTOR 2.5   /* its copies walk page tables and cannot stream */
#define MISS_US 0.15     /* one more signal that is there already */
/* Measured with four hosts at 1 Gbit/s and unshaped: a new partner per step means a link that runs empty in between. */
#define REFILL_FACTOR 1.03

struct rule {
    enum wi_coll coll;
    size_t least, most;
    char algo[WI_ALGO_SPEC_BYTES];
};

/* Hierarchical candidates that the planner looks at by itself, and what they cost: a line in the bytes for each stage. */
struct hier_candidate {
    struct wi_algo_choice choice;
    struct wi_algo_level_cost none, one; /* for 0 bytes, and for WI_HIER_SAMPLE */
};
#define WI_HIER_SAMPLE 1048576.0
#define MAX_HIER 32

struct wi_planner {
    struct wi_plan_facts facts;
    size_t slice_bytes;
    int nrules;
    struct rule rules[MAX_RULES];
    int nhier;
    struct hier_candidate hier[MAX_HIER];
};

struct link_class {
    double alpha, beta, gamma; /* us, bytes per us, bytes per us */
};

static struct link_class link_of(const struct wi_planner *p, int mapped)
{
    if (mapped)
        return (struct link_class){p->facts.oversubscribed ? 2.0 : 0.15, 15e3, 15e3};
    if (p->facts.nnodes == 1)
        return (struct link_class){p->facts.oversubscribed ? 4.0 : 0.6, 5e3, 8e3};
    return (struct link_class){HOSTS_ALPHA_US, 1.1e3, 8e3};
}

/* ---- Candidates ---- */

static const char *why_not(const struct wi_planner *p, const struct wi_plan_query *q, const struct wi_algo *a,
                           unsigned needs)
{
    if (a->coll != q->coll && a->coll != wi_algo_family(q->coll))
        return "it is of another collective";
    if (needs & WI_ALGO_UNIFORM && q->v_form)
        return "it needs equal shares";
    if (needs & WI_ALGO_COMMUTATIVE && q->ordered)
        return "it needs a commutative operator";
    if (needs & WI_ALGO_EVEN_RANKS && p->facts.nranks % 2)
        return "it needs an even number of ranks";
    if (needs & WI_ALGO_NO_IN_PLACE && q->in_place)
        return "it cannot work in place";
    if (needs & (WI_ALGO_MAPPED | WI_ALGO_PEER_MEM | WI_ALGO_PEER_GET) && !p->facts.mapped)
        return "it needs all ranks in one shared-memory group";
    if (needs & WI_ALGO_PEER_MEM && q->memory != WI_MEMORY_MAPPED)
        return "it needs buffers from weft_mem_alloc or weft_mem_register on all ranks";
    if (needs & WI_ALGO_PEER_GET &&
        (q->memory == WI_MEMORY_UNKNOWN || (q->memory == WI_MEMORY_PRIVATE && !p->facts.can_get)))
        return "the other ranks' memory cannot be read";
    return NULL;
}

/* Does data go to one neighbour all the time, so that steps overlap? */
static int streams(const struct wi_planner *p, const struct wi_algo *a)
{
    return p->facts.nranks == 2 || strstr(a->name, "ring") != NULL || strcmp(a->name, "chain") == 0;
}

/* Of the waits of a mapped algorithm, those for what the ranks publish at once cost a miss each; only each new round of
 * publishing makes a rank wait for another's work, which with more ranks than cores is a switch of processes. */
static double waits_us(const struct wi_algo *a, double steps, double alpha)
{
    double rounds = strcmp(a->name, "flat") == 0 ? 1 : 2;

    return steps <= rounds ? steps * alpha : rounds * alpha + (steps - rounds) * MISS_US;
}

static int node_of(const struct wi_planner *p, int rank)
{
    return p->facts.levels->level[p->facts.levels->nlevels - 1].group[rank];
}

/* How many ranks of a node send into its link to the others at the same time. In a ring that is those whose successor is
 * elsewhere; in most others sooner or later all of them. */
static double sharing(const struct wi_planner *p, const struct wi_algo *a)
{
    int n = p->facts.nranks, ring = strstr(a->name, "ring") != NULL || strcmp(a->name, "chain") == 0, most = 1;

    if (p->facts.nnodes == 1 || p->facts.nnodes == n || !p->facts.levels)
        return 1;
    for (int node = 0; node < p->facts.nnodes; node++) {
        int count = 0;
        for (int r = 0; r < n; r++)
            count += node_of(p, r) == node && (!ring || node_of(p, (r + 1) % n) != node);
        most = count > most ? count : most;
    }
    return most;
}

/* Mapped work is bounded by what passes through this core: every byte copied or reduced, once per pass. */
static double cost_of(const struct wi_planner *p, const struct wi_plan_query *q, const struct wi_algo *a)
{
    struct wi_algo_args args = {.nranks = p->facts.nranks, .root = q->root, .in_place = q->in_place};
    int mapped = (a->needs & WI_ALGO_MAPPED) != 0;
    struct link_class l = link_of(p, mapped);
    struct wi_algo_cost c = {0};
    double us, extra;

    args.rank = q->root;
    a->cost(&args, (double)q->bytes, &c);
    if (p->facts.nnodes > 1) /* of a vector collective's sizes, `sent` tells how many whole vectors leave */
        l.alpha += HOSTS_MESSAGE_US;
    extra = p->facts.nnodes > 1 && q->coll == WI_COLL_ALL_REDUCE && q->bytes ? c.sent / (double)q->bytes - c.steps : 0;
    if (p->facts.nnodes > 1 && !streams(p, a))
        c.sent *= REFILL_FACTOR;
    c.sent *= sharing(p, a);
    us = (mapped ? waits_us(a, c.steps, l.alpha) : c.steps * l.alpha) + (extra > 0 ? extra * HOSTS_MESSAGE_US : 0) +
         c.sent / l.beta + (c.reduced + c.copied) / l.gamma;
    if (mapped && q->memory != WI_MEMORY_MAPPED && a->needs & (WI_ALGO_PEER_MEM | WI_ALGO_PEER_GET))
        us += GET_SETUP_US + (GET_FACTOR - 1) * (c.copied + c.reduced) / l.gamma;
    if (a->needs == WI_ALGO_MAPPED && c.steps >= 2 && strcmp(a->name, "flat2") == 0)
        us += PIPELINE_US;
    return us;
}

/* ---- Hierarchical candidates ---- */

static double at_bytes(double none, double one, double bytes)
{
    return none + (one - none) * (bytes / WI_HIER_SAMPLE);
}

/* Each stage with its own link. Chunks pass through the stages one behind the other, so that the slowest stage counts in full
 * and the others for one chunk. */
static double hier_us(const struct wi_planner *p, const struct wi_algo_level_cost *none,
                      const struct wi_algo_level_cost *one, int depth, int streaming, double bytes)
{
    double total = 0, most = 0;

    for (int i = 0; i < none->nstages; i++) {
        const struct wi_algo_cost *a = &none->stage[i].cost, *b = &one->stage[i].cost;
        struct link_class l = {p->facts.oversubscribed ? 4.0 : 0.6, 5e3, 8e3};
        double sent = at_bytes(a->sent, b->sent, bytes), us;
        if (none->stage[i].level) {
            l = (struct link_class){HOSTS_ALPHA_US + HOSTS_MESSAGE_US, 1.1e3, 8e3};
            double all = at_bytes(none->stage[i].link_sent, one->stage[i].link_sent, bytes);
            sent = (all > sent ? all : sent) * (streaming ? 1 : REFILL_FACTOR);
        }
        us = depth * a->steps * l.alpha + sent / l.beta +
             at_bytes(a->reduced + a->copied, b->reduced + b->copied, bytes) / l.gamma;
        total += us / depth;
        most = us > most ? us : most;
    }
    return total + most * (depth - 1) / depth;
}

/* Among nodes, does data go to one neighbour all the time? */
static int outer_streams(const struct wi_planner *p, const struct wi_algo_choice *c)
{
    return p->facts.nnodes == 2 || strstr(c->spec, ":ring") || strstr(c->spec, ":chain") ||
           strstr(c->spec, ":scatter_ring");
}

static double choice_us(const struct wi_planner *p, const struct wi_plan_query *q, const struct wi_algo_choice *c)
{
    struct wi_algo_args args = {.nranks = p->facts.nranks,
                                .root = q->root < 0 ? 0 : q->root,
                                .in_place = q->in_place,
                                .levels = p->facts.levels,
                                .spec = c->spec};
    struct wi_algo_level_cost none, one;

    if (wi_algo_level_cost(&args, q->coll, 0, &none) < 0 ||
        wi_algo_level_cost(&args, q->coll, WI_HIER_SAMPLE, &one) < 0)
        return 0;
    return hier_us(p, &none, &one, none.depth, outer_streams(p, c), (double)q->bytes);
}

static const struct {
    enum wi_coll coll;
    const char *spec;
} hier_specs[] = {
    {WI_COLL_ALL_REDUCE, "node:ring"},          {WI_COLL_ALL_REDUCE, "node:rdouble"},
    {WI_COLL_ALL_REDUCE, "node:rhalving"},      {WI_COLL_ALL_REDUCE, "node:rdouble@leader"},
    {WI_COLL_REDUCE, "node:knomial@leader"},    {WI_COLL_REDUCE, "node:rsgather"},
    {WI_COLL_BROADCAST, "node:knomial@leader"}, {WI_COLL_BROADCAST, "node:knomial"},
    {WI_COLL_BROADCAST, "node:scatter_ring"},   {WI_COLL_ALL_GATHER, "node:ring"},
    {WI_COLL_ALL_GATHER, "node:rdouble"},       {WI_COLL_REDUCE_SCATTER, "node:ring"},
    {WI_COLL_REDUCE_SCATTER, "node:rhalving"},  {WI_COLL_ALL_TO_ALL, "node:pairwise"},
    {WI_COLL_BARRIER, "node:dissem"},
};

/* Worth a look only where several ranks share a node's link. */
static weft_status find_hier(struct wi_planner *p)
{
    struct wi_algo_args args = {.nranks = p->facts.nranks, .levels = p->facts.levels};

    if (!p->facts.levels || p->facts.nnodes < 2 || p->facts.nnodes == p->facts.nranks)
        return WEFT_SUCCESS;
    for (size_t i = 0; i < sizeof hier_specs / sizeof *hier_specs; i++) {
        struct hier_candidate *h = &p->hier[p->nhier];
        WI_TRY(wi_algo_choose(hier_specs[i].coll, hier_specs[i].spec, p->facts.levels, p->facts.nranks, &h->choice));
        args.spec = h->choice.spec;
        WI_TRY(wi_algo_level_cost(&args, hier_specs[i].coll, 0, &h->none));
        WI_TRY(wi_algo_level_cost(&args, hier_specs[i].coll, WI_HIER_SAMPLE, &h->one));
        p->nhier++;
    }
    return WEFT_SUCCESS;
}

static int depth_of(const struct wi_algo_choice *c)
{
    const char *star = strchr(c->spec, '*');

    return star ? atoi(star + 1) : 1;
}

/* The best hierarchical candidate, if it beats `us`. */
static void try_hier(const struct wi_planner *p, const struct wi_plan_query *q, struct wi_algo_choice *best, double *us)
{
    for (int i = 0; i < p->nhier; i++) {
        struct wi_algo_choice c = p->hier[i].choice;
        if (why_not(p, q, c.algo, c.needs))
            continue;
        wi_algo_choice_for(&c, (double)q->bytes);
        double one =
            hier_us(p, &p->hier[i].none, &p->hier[i].one, depth_of(&c), outer_streams(p, &c), (double)q->bytes);
        if (one < *us) {
            *us = one;
            *best = c;
        }
    }
}

/* ---- Overrides ---- */

static weft_status parse_range(const char *text, struct rule *r)
{
    char low[24] = "", high[24] = "";
    const char *dash = strchr(text, '-');

    r->least = 0;
    r->most = SIZE_MAX;
    if (!dash || dash - text >= 24 || strlen(dash + 1) >= 24)
        return WEFT_ECONFIG;
    memcpy(low, text, (size_t)(dash - text));
    strcpy(high, dash + 1);
    if ((low[0] && wi_parse_bytes(low, &r->least)) || (high[0] && wi_parse_bytes(high, &r->most)))
        return WEFT_ECONFIG;
    return WEFT_SUCCESS;
}

/* A range begins with a digit, or is open below; a level's name does not. */
static int looks_like_range(const char *text)
{
    return (*text >= '0' && *text <= '9') || *text == '-';
}

/* collective:[low-high:]algorithm; a hierarchical algorithm's name has colons itself */
static weft_status parse_rule(const struct wi_planner *p, char *text, struct rule *r)
{
    char *colon = strchr(text, ':'), *second = colon && looks_like_range(colon + 1) ? strchr(colon + 1, ':') : NULL;
    const char *algo = second ? second + 1 : colon ? colon + 1 : NULL;
    struct wi_algo_choice choice;

    if (!algo)
        return wi_fail(WEFT_ECONFIG, "WEFT_ALGO: \"%s\" is not COLLECTIVE:[LOW-HIGH:]ALGORITHM", text);
    *colon = '\0';
    if (second)
        *second = '\0';
    r->least = 0;
    r->most = SIZE_MAX;
    if (wi_coll_parse(text, &r->coll))
        return wi_fail(WEFT_ECONFIG, "WEFT_ALGO: no collective \"%s\"", text);
    if (second && parse_range(colon + 1, r) < 0)
        return wi_fail(WEFT_ECONFIG, "WEFT_ALGO: \"%s\" is not a range of bytes such as 64K-1M", colon + 1);
    if (wi_algo_choose(r->coll, algo, p->facts.levels, p->facts.nranks, &choice) < 0)
        return wi_fail(WEFT_ECONFIG, "WEFT_ALGO: %s", wi_fail_text());
    snprintf(r->algo, sizeof r->algo, "%s", algo);
    return WEFT_SUCCESS;
}

static weft_status parse_overrides(struct wi_planner *p, const char *text)
{
    char *copy = wi_strdup(text), *save = NULL;
    weft_status st = WEFT_SUCCESS;

    if (!copy)
        return wi_fail(WEFT_ENOMEM, "WEFT_ALGO");
    for (char *t = strtok_r(copy, ",", &save); t && st >= 0; t = strtok_r(NULL, ",", &save)) {
        if (p->nrules == MAX_RULES)
            st = wi_fail(WEFT_ECONFIG, "WEFT_ALGO: more than %d rules", MAX_RULES);
        else
            st = parse_rule(p, t, &p->rules[p->nrules++]);
    }
    wi_free(copy);
    return st;
}

static const char *ruled(const struct wi_planner *p, const struct wi_plan_query *q)
{
    for (int i = p->nrules - 1; i >= 0; i--)
        if ((p->rules[i].coll == q->coll || p->rules[i].coll == wi_algo_family(q->coll)) &&
            q->bytes >= p->rules[i].least && q->bytes <= p->rules[i].most)
            return p->rules[i].algo;
    return NULL;
}

/* ---- The choice ---- */

weft_status wi_planner_create(const struct wi_plan_facts *facts, const char *overrides, size_t slice_bytes,
                              struct wi_planner **planner)
{
    struct wi_planner *p = wi_calloc(1, sizeof *p);
    weft_status st;

    if (!p)
        return wi_fail(WEFT_ENOMEM, "planner");
    p->facts = *facts;
    p->slice_bytes = slice_bytes;
    st = parse_overrides(p, overrides ? overrides : "");
    if (st >= 0)
        st = find_hier(p);
    if (st < 0) {
        wi_free(p);
        return st;
    }
    *planner = p;
    return WEFT_SUCCESS;
}

void wi_planner_destroy(struct wi_planner *planner)
{
    wi_free(planner);
}

static size_t slice_for(const struct wi_planner *p, const struct wi_algo *a)
{
    if (p->slice_bytes)
        return p->slice_bytes;
    return a->needs & WI_ALGO_MAPPED ? 64u << 10 : 256u << 10;
}

static struct wi_plan plan_of(const struct wi_planner *p, const struct wi_algo_choice *c, double us)
{
    struct wi_plan plan = {.algo = c->algo, .slice_bytes = slice_for(p, c->algo), .predicted_us = us};

    memcpy(plan.spec, c->spec, sizeof plan.spec);
    return plan;
}

/* A rule or a name for this call. WEFT_INPROGRESS: the rule cannot do this one, the planner chooses. */
static weft_status plan_named(const struct wi_planner *p, const struct wi_plan_query *q, const char *name, int forced,
                              struct wi_plan *plan)
{
    struct wi_algo_choice c;

    WI_TRY(wi_algo_choose(q->coll, name, p->facts.levels, p->facts.nranks, &c));
    const char *reason = why_not(p, q, c.algo, c.needs);
    if (!reason) {
        wi_algo_choice_for(&c, (double)q->bytes);
        *plan = plan_of(p, &c, c.spec[0] ? choice_us(p, q, &c) : cost_of(p, q, c.algo));
        return WEFT_SUCCESS;
    }
    return forced ? wi_fail(WEFT_ENOTSUP, "algorithm \"%s\" cannot do this %s: %s", name, wi_coll_name(q->coll), reason)
                  : WEFT_INPROGRESS;
}

weft_status wi_plan(const struct wi_planner *p, const struct wi_plan_query *q, const char *forced, struct wi_plan *plan)
{
    const char *rule = forced ? forced : ruled(p, q);
    struct wi_algo_choice best = {0};
    double best_us = 0;

    if (rule) {
        weft_status st = plan_named(p, q, rule, forced != NULL, plan);
        if (st != WEFT_INPROGRESS)
            return st;
    }
    if (!rule && !q->v_form && p->facts.ll_max[q->coll] && q->bytes <= p->facts.ll_max[q->coll])
        best.algo = wi_algo_find(q->coll, "flat");
    for (const struct wi_algo *const *a = wi_algos; *a && !(best.algo && best_us == 0); a++) {
        double us;
        if (why_not(p, q, *a, (*a)->needs))
            continue;
        us = cost_of(p, q, *a);
        if (!best.algo || us < best_us) {
            best.algo = *a;
            best_us = us;
        }
    }
    if (!best.algo)
        return wi_fail(WEFT_ENOTSUP, "no algorithm for %s%s", wi_coll_name(q->coll),
                       q->ordered ? " with an operator that is not commutative" : "");
    try_hier(p, q, &best, &best_us);
    *plan = plan_of(p, &best, best_us);
    return WEFT_SUCCESS;
}

int wi_planner_has_rule(const struct wi_planner *p, enum wi_coll coll)
{
    for (int i = 0; i < p->nrules; i++)
        if (p->rules[i].coll == coll || p->rules[i].coll == wi_algo_family(coll))
            return 1;
    return 0;
}

int wi_plan_needs_exchange(const struct wi_planner *p, const struct wi_plan_query *q, const char *forced)
{
    const char *rule = forced ? forced : ruled(p, q);
    const struct wi_algo *a = rule ? wi_algo_find(q->coll, rule) : NULL;

    if (rule && strchr(rule, ':')) /* over messages, whose shares are even or their own */
        a = wi_algo_hier(q->coll);
    if (!p->facts.mapped || q->coll == WI_COLL_BARRIER)
        return 0;
    /* Ranks know only their own counts, but must cut alike. */
    if (q->coll == WI_COLL_ALL_TO_ALL_V || q->coll == WI_COLL_GATHER_V || q->coll == WI_COLL_SCATTER_V)
        return 1;
    if (a)
        return (a->needs & (WI_ALGO_PEER_MEM | WI_ALGO_PEER_GET)) != 0;
    return (p->facts.can_map || p->facts.can_get) && q->bytes >= DIRECT_MIN_BYTES;
}
