/* SPDX-License-Identifier: BSD-3-Clause */
/* Choosing by hand: COLLECTIVE:[LOW-HIGH:]ALGORITHM, comma separated, the last that fits wins. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/settings.h"
#include "base/status.h"
#include "base/text.h"
#include "plan/internal.h"

static weft_status parse_range(const char *text, struct wi_plan_rule *r)
{
    char low[24] = "", high[24] = "";
    const char *dash = strchr(text, '-');

    if (!dash || dash - text >= 24 || strlen(dash + 1) >= 24)
        return WEFT_ECONFIG;
    memcpy(low, text, (size_t)(dash - text));
    strcpy(high, dash + 1);
    if ((low[0] && wi_parse_bytes(low, &r->least)) || (high[0] && wi_parse_bytes(high, &r->most)))
        return WEFT_ECONFIG;
    return r->least <= r->most ? WEFT_SUCCESS : WEFT_ECONFIG;
}

/* A range begins with a digit, or is open below; neither an algorithm's nor a level's name does. */
static int looks_like_range(const char *text)
{
    return (*text >= '0' && *text <= '9') || *text == '-';
}

static weft_status no_collective(const char *name)
{
    const char *similar = NULL;
    size_t best = 4;

    for (int c = 0; c < WI_NUM_COLLS; c++) {
        size_t d = wi_text_distance(name, wi_coll_name((enum wi_coll)c));
        if (wi_algo_find((enum wi_coll)c, "flat") && d < best) {
            best = d;
            similar = wi_coll_name((enum wi_coll)c);
        }
    }
    return wi_fail(WEFT_ECONFIG, "WEFT_ALGO: no collective \"%.40s\"%s%s%s", name, similar ? "; did you mean \"" : "",
                   similar ? similar : "", similar ? "\"?" : "");
}

/* ---- Algorithms from files ---- */

int wi_plan_is_file(const char *name)
{
    return strncmp(name, "file:", 5) == 0;
}

weft_status wi_plan_find_file(const struct wi_planner *p, const struct wi_plan_query *q, const char *name,
                              const struct wi_algo **algo)
{
    *algo = NULL;
    if (!p->facts.find_file)
        return wi_fail(WEFT_ENOTFOUND, "no algorithm \"%s\": WEFT_PLANS names no files", name);
    return p->facts.find_file(p->facts.files, q, p->facts.nranks, name, algo);
}

const struct wi_algo *wi_plan_file(const struct wi_planner *p, const struct wi_plan_query *q, const char *forced)
{
    const struct wi_plan_rule *rule = forced ? NULL : wi_plan_ruled(p, q);
    const char *name = rule ? rule->algo : forced;
    const struct wi_algo *a;

    return name && wi_plan_is_file(name) && wi_plan_find_file(p, q, name, &a) >= 0 ? a : NULL;
}

/* WEFT_INPROGRESS: for other numbers of ranks, as is to be expected where communicators are split. */
static weft_status check_file(const struct wi_planner *p, const struct wi_plan_rule *r)
{
    struct wi_plan_query q = {.coll = r->coll};
    const struct wi_algo *a;

    if (wi_plan_find_file(p, &q, r->algo, &a) == WEFT_ENOTFOUND)
        return wi_fail(WEFT_ECONFIG, "WEFT_ALGO: %s", wi_fail_text());
    if (a)
        return WEFT_SUCCESS;
    wi_log(WEFT_LOG_WARN, "plan.rule", "WEFT_ALGO: passed over: %s", wi_fail_text());
    return WEFT_INPROGRESS;
}

/* ---- Rules ---- */

/* Levels that exist with another placement of the ranks. */
static int is_usual_level(const char *spec)
{
    static const char *const names[] = {"rack", "switch", "nvlink", "node", "package", "numa", "cache"};
    size_t n = strcspn(spec, ":");

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == n && strncmp(names[i], spec, n) == 0)
            return 1;
    return 0;
}

/* A level that the ranks do not have here is no mistake if it exists elsewhere: one setting serves several machines. */
static weft_status check_algorithm(const struct wi_planner *p, const char *rule, const struct wi_plan_rule *r)
{
    struct wi_algo_choice choice;
    char text[512];

    if (wi_algo_choose(r->coll, r->algo, p->facts.levels, p->facts.nranks, &choice) >= 0)
        return WEFT_SUCCESS;
    snprintf(text, sizeof text, "%s", wi_fail_text());
    if (is_usual_level(r->algo) && wi_algo_choose(r->coll, r->algo, NULL, p->facts.nranks, &choice) >= 0) {
        wi_log(WEFT_LOG_INFO, "plan.rule", "WEFT_ALGO: \"%s\" is not used: %s", rule, text);
        return WEFT_SUCCESS;
    }
    return wi_fail(WEFT_ECONFIG, "WEFT_ALGO: %s", text);
}

static weft_status parse_rule(const struct wi_planner *p, char *text, struct wi_plan_rule *r)
{
    char whole[128];
    char *colon = strchr(text, ':'), *second = colon && looks_like_range(colon + 1) ? strchr(colon + 1, ':') : NULL;
    const char *algo = second ? second + 1 : colon ? colon + 1 : NULL;

    snprintf(whole, sizeof whole, "%s", text);
    if (!algo || (colon && looks_like_range(colon + 1) && !second) || !*algo)
        return wi_fail(WEFT_ECONFIG, "WEFT_ALGO: \"%.80s\" is not COLLECTIVE:[LOW-HIGH:]ALGORITHM", text);
    *colon = '\0';
    if (second)
        *second = '\0';
    *r = (struct wi_plan_rule){.least = 0, .most = SIZE_MAX};
    if (wi_coll_parse(text, &r->coll))
        return no_collective(text);
    if (second && parse_range(colon + 1, r) < 0)
        return wi_fail(WEFT_ECONFIG, "WEFT_ALGO: \"%.60s\" is not a range of bytes such as 64K-1M", colon + 1);
    if (strlen(algo) >= sizeof r->algo)
        return wi_fail(WEFT_ECONFIG, "WEFT_ALGO: algorithm \"%.40s...\" is longer than %zu characters", algo,
                       sizeof r->algo - 1);
    strcpy(r->algo, algo);
    return wi_plan_is_file(r->algo) ? check_file(p, r) : check_algorithm(p, whole, r);
}

weft_status wi_plan_parse_rules(struct wi_planner *p, const char *text)
{
    char *copy = wi_strdup(text ? text : ""), *save = NULL;
    weft_status st = WEFT_SUCCESS;

    if (!copy)
        return wi_fail(WEFT_ENOMEM, "WEFT_ALGO");
    for (char *t = strtok_r(copy, ",", &save); t && st >= 0; t = strtok_r(NULL, ",", &save)) {
        if (p->nrules == WI_PLAN_MAX_RULES)
            st = wi_fail(WEFT_ECONFIG, "WEFT_ALGO: more than %d rules", WI_PLAN_MAX_RULES);
        else
            st = parse_rule(p, t, &p->rules[p->nrules]);
        p->nrules += st == WEFT_SUCCESS;
    }
    wi_free(copy);
    return st < 0 ? st : WEFT_SUCCESS;
}

/* A file's algorithm serves no v-forms, whose counts differ. */
static int concerns(const struct wi_plan_rule *r, enum wi_coll coll)
{
    return r->coll == coll || (r->coll == wi_algo_family(coll) && !wi_plan_is_file(r->algo));
}

const struct wi_plan_rule *wi_plan_ruled(const struct wi_planner *p, const struct wi_plan_query *q)
{
    for (int i = p->nrules - 1; i >= 0; i--)
        if (concerns(&p->rules[i], q->coll) && q->bytes >= p->rules[i].least && q->bytes <= p->rules[i].most)
            return &p->rules[i];
    return NULL;
}

const char *wi_plan_rule(const struct wi_planner *planner, const struct wi_plan_query *query)
{
    const struct wi_plan_rule *rule = wi_plan_ruled(planner, query);

    return rule ? rule->algo : NULL;
}

int wi_planner_has_rule(const struct wi_planner *p, enum wi_coll coll)
{
    for (int i = 0; i < p->nrules; i++)
        if (p->rules[i].coll == coll || p->rules[i].coll == wi_algo_family(coll))
            return 1;
    return 0;
}

static int is_ll(const struct wi_plan_rule *r)
{
    const struct wi_algo *a = wi_algo_find(r->coll, r->algo);

    return a && a->traits.ll;
}

/* A rule "flat" that covers all small sizes changes nothing. */
size_t wi_planner_ll_max(const struct wi_planner *p, enum wi_coll coll)
{
    for (int i = p->nrules - 1; i >= 0; i--) {
        const struct wi_plan_rule *r = &p->rules[i];
        if (r->coll != coll && r->coll != wi_algo_family(coll))
            continue;
        if (r->least > p->ll_max[coll])
            continue;
        return r->least == 0 && r->most >= p->ll_max[coll] && is_ll(r) ? p->ll_max[coll] : 0;
    }
    return p->ll_max[coll];
}
