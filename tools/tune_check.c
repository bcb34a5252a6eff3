/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-tune --check: how good choices and predictions by one table are, by the measurements in another. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "weft_tune.h"

double tune_regret(const struct tune_verdict *v)
{
    return v->pick_us > 0 ? v->pick_us / v->best_us - 1 : INFINITY;
}

double tune_error(const struct tune_pair *p)
{
    return fabs(p->predicted_us / p->measured_us - 1);
}

struct judge {
    const struct wi_plan_table *seen; /* the measurements */
    struct wi_planner *planner;
    struct tune_judged *out;
};

/* As wi_plan_map writes them; node[nranks]. */
static void read_map(const char *map, int32_t *node, int nranks)
{
    int r = 0;

    while (*map && r < nranks) {
        char *end;
        long which = strtol(map, &end, 10), run = strtol(end + 1, &end, 10);
        for (; run > 0 && r < nranks; run--)
            node[r++] = (int32_t)which;
        map = *end ? end + 1 : end;
    }
}

static const struct wi_table_point *point(const struct wi_plan_table *t, const struct wi_table_point *at, int shared,
                                          const char *algo)
{
    uint32_t i = wi_plan_table_find(t, at->section, (enum wi_coll)at->coll, at->bytes, shared, algo);

    return i == UINT32_MAX ? NULL : &t->points[i];
}

/* With buffers from weft_mem_alloc an algorithm that makes no use of them takes what it takes with private ones. */
static const struct wi_table_point *measured(const struct judge *j, const struct wi_table_point *at,
                                             const struct wi_plan_candidate *c, const char *name)
{
    const struct wi_table_point *p = at->shared ? point(j->seen, at, 1, name) : NULL;

    return p || (at->shared && c->choice.needs & WI_ALGO_PEER_GET) ? p : point(j->seen, at, 0, name);
}

/* One question: what is chosen, what would have been best, and what was predicted of every candidate. */
static weft_status judge_one(struct judge *j, const struct wi_table_point *at)
{
    struct wi_plan_query q = {.coll = (enum wi_coll)at->coll, .bytes = (size_t)at->bytes, .rounds = 1};
    struct tune_verdict *v = &j->out->verdicts[j->out->nverdicts];
    const struct wi_table_point *pick = NULL, *best = NULL;
    struct wi_plan_candidate *list;
    int n, picked = -1;

    if (wi_plan_needs_exchange(j->planner, &q, NULL))
        q.memory = at->shared ? WI_MEMORY_MAPPED : WI_MEMORY_PRIVATE;
    WI_TRY(wi_plan_candidates(j->planner, &q, &list, &n));
    *v = (struct tune_verdict){.section = at->section, .shared = at->shared, .coll = q.coll, .bytes = at->bytes};
    for (int i = 0; i < n; i++) {
        const struct wi_table_point *p;
        const char *name = wi_algo_choice_name(&list[i].choice);
        p = measured(j, at, &list[i], name);
        if (p && (!best || p->measured_us < best->measured_us)) {
            best = p;
            strcpy(v->best, name);
        }
        if (list[i].why_not)
            continue;
        if (p)
            j->out->pairs[j->out->npairs++] = (struct tune_pair){list[i].predicted_us, (double)p->measured_us};
        if (picked < 0 || list[i].predicted_us < list[picked].predicted_us) {
            picked = i;
            pick = p;
            strcpy(v->pick, name);
        }
    }
    if (picked >= 0)
        v->predicted_us = list[picked].predicted_us;
    wi_free(list);
    if (!best) /* of an algorithm that this version cannot run here */
        return WEFT_SUCCESS;
    v->best_us = (double)best->measured_us;
    if (pick) {
        v->pick_us = (double)pick->measured_us;
        v->chosen_us = pick->shared == at->shared ? (double)pick->chosen_us : 0;
        v->noise = pick->noise > 0 && best->noise > 0 ? hypot((double)pick->noise, (double)best->noise) : 0;
    }
    j->out->nverdicts++;
    return WEFT_SUCCESS;
}

static int asked_before(const struct wi_plan_table *t, uint32_t i)
{
    for (uint32_t k = 0; k < i; k++)
        if (t->points[k].section == t->points[i].section && t->points[k].coll == t->points[i].coll &&
            t->points[k].bytes == t->points[i].bytes && t->points[k].shared == t->points[i].shared)
            return 1;
    return 0;
}

static weft_status judge_section(struct tune_judged *out, const struct wi_plan_table *seen,
                                 const struct wi_plan_table *table, int section)
{
    const struct wi_table_section *s = &seen->sections[section];
    struct judge j = {.seen = seen, .out = out};
    int32_t *node = calloc((size_t)s->nranks, sizeof *node), *memory = NULL;
    struct wi_algo_level of_nodes = {"node", s->nnodes, node};
    struct wi_algo_levels levels;
    struct wi_plan_facts facts;
    struct wi_plan_config config = {.facts = &facts, .table = table};
    weft_status st = node ? WEFT_SUCCESS : wi_fail(WEFT_ENOMEM, "%d ranks", s->nranks);

    if (st >= 0) {
        read_map(s->map, node, s->nranks);
        st = wi_plan_levels(NULL, &of_nodes, s->nranks, &levels, &memory);
    }
    if (st >= 0) {
        tune_facts(&facts, &levels, s->nranks, s->nnodes);
        st = wi_planner_create(&config, &j.planner);
    }
    for (uint32_t i = 0; i < seen->npoints && st >= 0; i++)
        if (seen->points[i].section == section && !asked_before(seen, i))
            st = judge_one(&j, &seen->points[i]);
    wi_planner_destroy(j.planner);
    wi_free(memory);
    free(node);
    return st;
}

static void print_section(const struct tune_options *o, const struct wi_plan_table *seen, const struct tune_judged *j,
                          int verdict, int pair)
{
    const struct wi_table_section *s;
    char of[96 + WI_TABLE_MAX_MAP];
    int shown = 0;

    if (verdict == j->nverdicts)
        return;
    for (int i = verdict; i < j->nverdicts; i++) {
        const struct tune_verdict *v = &j->verdicts[i];
        if (!o->all && tune_regret(v) <= TUNE_GOOD)
            continue;
        if (!shown++)
            tune_print_head();
        tune_print_verdict(seen, v);
    }
    s = &seen->sections[j->verdicts[verdict].section];
    snprintf(of, sizeof of, "%d ranks on %d node(s), %s", s->nranks, s->nnodes, s->map);
    tune_print_summary(of, j->verdicts + verdict, j->nverdicts - verdict, j->pairs + pair, j->npairs - pair);
}

static weft_status judge_all(const struct tune_options *o, const struct wi_plan_table *seen,
                             const struct wi_plan_table *table, struct tune_judged *j)
{
    j->verdicts = calloc((size_t)seen->npoints + 1, sizeof *j->verdicts);
    j->pairs = calloc(2 * (size_t)seen->npoints + 1, sizeof *j->pairs);
    if (!j->verdicts || !j->pairs)
        return wi_fail(WEFT_ENOMEM, "%u points", seen->npoints);
    for (int s = 0; s < seen->nsections; s++) {
        int verdict = j->nverdicts, pair = j->npairs;
        WI_TRY(judge_section(j, seen, table, s));
        print_section(o, seen, j, verdict, pair);
    }
    if (j->nverdicts)
        tune_print_summary("all", j->verdicts, j->nverdicts, j->pairs, j->npairs);
    else
        printf("no points\n");
    return WEFT_SUCCESS;
}

int tune_check(const struct tune_options *o)
{
    struct wi_plan_table *seen = NULL, *table = NULL;
    struct tune_judged j = {0};
    weft_status st = wi_plan_table_load(o->check, &seen);
    int failed = 0;

    if (st >= 0 && o->table)
        st = wi_plan_table_load(o->table, &table);
    if (st >= 0)
        st = judge_all(o, seen, table ? table : seen, &j);
    if (st < 0)
        fprintf(stderr, "weft-tune: %s\n", wi_fail_text());
    else if (o->plot && j.nverdicts)
        failed = tune_plot(o->plot, &j);
    free(j.verdicts);
    free(j.pairs);
    wi_plan_table_free(seen);
    wi_plan_table_free(table);
    return st < 0 || failed;
}
