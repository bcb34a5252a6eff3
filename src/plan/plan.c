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
    char algo[24];
};

struct wi_planner {
    struct wi_plan_facts facts;
    size_t slice_bytes;
    int nrules;
    struct rule rules[MAX_RULES];
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

static const char *why_not(const struct wi_planner *p, const struct wi_plan_query *q, const struct wi_algo *a)
{
    unsigned needs = a->needs;

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

/* Mapped work is bounded by what passes through this core: every byte copied or reduced, once per pass. */
static double cost_of(const struct wi_planner *p, const struct wi_plan_query *q, const struct wi_algo *a)
{
    struct wi_algo_args args = {0, p->facts.nranks, q->root, q->in_place, 0, NULL, NULL};
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
    us = (mapped ? waits_us(a, c.steps, l.alpha) : c.steps * l.alpha) + (extra > 0 ? extra * HOSTS_MESSAGE_US : 0) +
         c.sent / l.beta + (c.reduced + c.copied) / l.gamma;
    if (mapped && q->memory != WI_MEMORY_MAPPED && a->needs & (WI_ALGO_PEER_MEM | WI_ALGO_PEER_GET))
        us += GET_SETUP_US + (GET_FACTOR - 1) * (c.copied + c.reduced) / l.gamma;
    if (a->needs == WI_ALGO_MAPPED && c.steps >= 2 && strcmp(a->name, "flat2") == 0)
        us += PIPELINE_US;
    return us;
}

/* ---- Overrides ---- */

static size_t distance(const char *a, const char *b)
{
    size_t row[32], n = strlen(b);

    if (n >= 31)
        return 99;
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t up = row[j], cost = diagonal + (a[i - 1] != b[j - 1]);
            cost = up + 1 < cost ? up + 1 : cost;
            row[j] = row[j - 1] + 1 < cost ? row[j - 1] + 1 : cost;
            diagonal = up;
        }
    }
    return row[n];
}

static weft_status unknown_algorithm(enum wi_coll coll, const char *name)
{
    char list[512] = "", near[24] = "";
    size_t best = 4, at = 0;

    for (const struct wi_algo *const *a = wi_algos; *a; a++) {
        if ((*a)->coll != coll && (*a)->coll != wi_algo_family(coll))
            continue;
        if (at + 30 < sizeof list)
            at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", at ? ", " : "", (*a)->name);
        if (distance(name, (*a)->name) < best) {
            best = distance(name, (*a)->name);
            snprintf(near, sizeof near, "%s", (*a)->name);
        }
    }
    return wi_fail(WEFT_ENOTFOUND, "no algorithm \"%s\" for %s%s%s%s (there are: %s)", name, wi_coll_name(coll),
                   near[0] ? "; did you mean \"" : "", near, near[0] ? "\"?" : "", list);
}

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

/* collective:[low-high:]algorithm */
static weft_status parse_rule(char *text, struct rule *r)
{
    char *colon = strchr(text, ':'), *second = colon ? strchr(colon + 1, ':') : NULL;
    const char *algo = second ? second + 1 : colon ? colon + 1 : NULL;

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
    if (!wi_algo_find(r->coll, algo)) {
        unknown_algorithm(r->coll, algo);
        return wi_fail(WEFT_ECONFIG, "WEFT_ALGO: %s", wi_fail_text());
    }
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
            st = parse_rule(t, &p->rules[p->nrules++]);
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

weft_status wi_plan(const struct wi_planner *p, const struct wi_plan_query *q, const char *forced, struct wi_plan *plan)
{
    const char *rule = forced ? forced : ruled(p, q);
    const struct wi_algo *best = NULL;
    double best_us = 0;

    if (rule) {
        const struct wi_algo *a = wi_algo_find(q->coll, rule);
        const char *reason = a ? why_not(p, q, a) : NULL;
        if (!a)
            return unknown_algorithm(q->coll, rule);
        if (!reason) {
            *plan = (struct wi_plan){a, slice_for(p, a), cost_of(p, q, a)};
            return WEFT_SUCCESS;
        }
        if (forced)
            return wi_fail(WEFT_ENOTSUP, "algorithm \"%s\" cannot do this %s: %s", rule, wi_coll_name(q->coll), reason);
    }
    if (!rule && !q->v_form && p->facts.ll_max[q->coll] && q->bytes <= p->facts.ll_max[q->coll])
        best = wi_algo_find(q->coll, "flat");
    for (const struct wi_algo *const *a = wi_algos; *a && !(best && best_us == 0); a++) {
        double us;
        if (why_not(p, q, *a))
            continue;
        us = cost_of(p, q, *a);
        if (!best || us < best_us) {
            best = *a;
            best_us = us;
        }
    }
    if (!best)
        return wi_fail(WEFT_ENOTSUP, "no algorithm for %s%s", wi_coll_name(q->coll),
                       q->ordered ? " with an operator that is not commutative" : "");
    *plan = (struct wi_plan){best, slice_for(p, best), best_us};
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

    if (!p->facts.mapped || q->coll == WI_COLL_BARRIER)
        return 0;
    /* Ranks know only their own counts, but must cut alike. */
    if (q->coll == WI_COLL_ALL_TO_ALL_V || q->coll == WI_COLL_GATHER_V || q->coll == WI_COLL_SCATTER_V)
        return 1;
    if (a)
        return (a->needs & (WI_ALGO_PEER_MEM | WI_ALGO_PEER_GET)) != 0;
    return (p->facts.can_map || p->facts.can_get) && q->bytes >= DIRECT_MIN_BYTES;
}
