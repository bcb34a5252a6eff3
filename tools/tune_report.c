/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-tune: where prediction and measurement differ, and how good the planner's choices are. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "weft_tune.h"

#define WORST 10
#define NEAR 1.10 /* a choice within 10 % of the best is a good one */

/* ---- The worst predictions ---- */

static double off(const struct wi_table_point *p)
{
    return p->predicted_us > 0 ? fabs(log((double)p->predicted_us / (double)p->measured_us)) : 0;
}

static int by_off(const void *a, const void *b)
{
    double x = off(*(const struct wi_table_point *const *)a), y = off(*(const struct wi_table_point *const *)b);

    return x > y ? -1 : x < y;
}

void tune_report_worst(const struct wi_plan_table *t, int section)
{
    const struct wi_table_point **list = calloc(t->npoints + 1, sizeof *list);
    uint32_t n = 0;

    for (uint32_t i = 0; list && i < t->npoints; i++)
        if (t->points[i].section == section && t->points[i].predicted_us > 0)
            list[n++] = &t->points[i];
    if (n) {
        qsort(list, n, sizeof *list, by_off);
        printf(
            "Where formulas and measurements differ most (the table corrects this):\n%-15s %12s %-8s %-24s %12s %12s\n",
            "collective", "bytes", "memory", "algorithm", "measured us", "formula us");
    }
    for (uint32_t i = 0; i < n && i < WORST; i++)
        printf("%-15s %12" PRIu64 " %-8s %-24s %12.2f %12.2f\n", wi_coll_name((enum wi_coll)list[i]->coll),
               list[i]->bytes, list[i]->shared ? "mapped" : "private", t->names[list[i]->algo],
               (double)list[i]->measured_us, (double)list[i]->predicted_us);
    free(list);
}

/* ---- Checking ---- */

struct judge {
    const struct wi_plan_table *seen; /* the measurements */
    struct wi_planner *planner;
    double *errors; /* of predictions */
    uint32_t nerrors, points, good;
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

static double measured(const struct wi_plan_table *t, const struct wi_table_point *at, int shared, const char *algo)
{
    uint32_t i = wi_plan_table_find(t, at->section, (enum wi_coll)at->coll, at->bytes, shared, algo);

    return i == UINT32_MAX ? 0 : (double)t->points[i].measured_us;
}

static void plain_name(const struct wi_algo_choice *c, char name[WI_ALGO_SPEC_BYTES])
{
    const char *star = strchr(c->spec, '*');

    if (!c->spec[0])
        snprintf(name, WI_ALGO_SPEC_BYTES, "%s", c->algo->name);
    else if (!star)
        snprintf(name, WI_ALGO_SPEC_BYTES, "%s", c->spec);
    else
        snprintf(name, WI_ALGO_SPEC_BYTES, "%.*s%s", (int)(star - c->spec), c->spec,
                 star + 1 + strspn(star + 1, "0123456789"));
}

/* One question: what is chosen, what would have been best, and how far off every prediction is. With buffers from
 * weft_mem_alloc an algorithm that makes no use of them takes what it takes with private ones. */
static weft_status judge_one(struct judge *j, const struct wi_table_point *at)
{
    struct wi_plan_query q = {.coll = (enum wi_coll)at->coll, .bytes = (size_t)at->bytes};
    char name[WI_ALGO_SPEC_BYTES], best_name[WI_ALGO_SPEC_BYTES] = "", pick[WI_ALGO_SPEC_BYTES] = "";
    double best = 0, picked = 0, least = 0;
    struct wi_plan_candidate *list;
    int n;

    if (wi_plan_needs_exchange(j->planner, &q, NULL))
        q.memory = at->shared ? WI_MEMORY_MAPPED : WI_MEMORY_PRIVATE;
    WI_TRY(wi_plan_candidates(j->planner, &q, &list, &n));
    for (int i = 0; i < n; i++) {
        double us = 0;
        plain_name(&list[i].choice, name);
        if (at->shared)
            us = measured(j->seen, at, 1, name);
        if (!us && !(at->shared && list[i].choice.needs & WI_ALGO_PEER_GET))
            us = measured(j->seen, at, 0, name);
        if (us && (!best || us < best)) {
            best = us;
            strcpy(best_name, name);
        }
        if (list[i].why_not)
            continue;
        if (us)
            j->errors[j->nerrors++] = fabs(list[i].predicted_us / us - 1);
        if (!pick[0] || list[i].predicted_us < least) {
            least = list[i].predicted_us;
            picked = us;
            strcpy(pick, name);
        }
    }
    wi_free(list);
    j->points++;
    j->good += picked > 0 && picked <= NEAR * best;
    if (!(picked > 0 && picked <= NEAR * best))
        printf("  %-15s %12" PRIu64 " %-8s picks %-20s %10.2f us, best is %-20s %10.2f us\n", wi_coll_name(q.coll),
               at->bytes, at->shared ? "mapped" : "private", pick, picked, best_name, best);
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

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static weft_status judge_section(const struct wi_plan_table *seen, const struct wi_plan_table *table, int section,
                                 struct judge *total)
{
    const struct wi_table_section *s = &seen->sections[section];
    struct judge j = {.seen = seen, .errors = total->errors + total->nerrors};
    int32_t *node = calloc((size_t)s->nranks, sizeof *node);
    struct wi_algo_levels levels = {1, {{"node", s->nnodes, node}}};
    struct wi_plan_facts facts;
    struct wi_plan_config config = {.facts = &facts, .table = table};
    weft_status st = node ? WEFT_SUCCESS : wi_fail(WEFT_ENOMEM, "%d ranks", s->nranks);

    if (st >= 0) {
        read_map(s->map, node, s->nranks);
        tune_facts(&facts, &levels, s->nranks, s->nnodes);
        st = wi_planner_create(&config, &j.planner);
    }
    printf("%d ranks on %d node(s), %s:\n", s->nranks, s->nnodes, s->map);
    for (uint32_t i = 0; i < seen->npoints && st >= 0; i++)
        if (seen->points[i].section == section && !asked_before(seen, i))
            st = judge_one(&j, &seen->points[i]);
    if (st >= 0 && j.points) {
        qsort(j.errors, j.nerrors, sizeof *j.errors, by_value);
        printf("  within 10 %% of the best: %u of %u (%.1f %%); predictions: median error %.1f %% of %u\n", j.good,
               j.points, 100.0 * j.good / j.points, j.nerrors ? 100 * j.errors[j.nerrors / 2] : 0, j.nerrors);
    }
    total->points += j.points;
    total->good += j.good;
    total->nerrors += j.nerrors;
    wi_planner_destroy(j.planner);
    free(node);
    return st;
}

static weft_status judge_all(const struct wi_plan_table *seen, const struct wi_plan_table *table)
{
    struct judge total = {.errors = calloc((size_t)seen->npoints * 2 + 1, sizeof(double))};
    weft_status st = total.errors ? WEFT_SUCCESS : wi_fail(WEFT_ENOMEM, "%u points", seen->npoints);

    for (int s = 0; s < seen->nsections && st >= 0; s++)
        st = judge_section(seen, table, s, &total);
    if (st >= 0 && total.points) {
        qsort(total.errors, total.nerrors, sizeof *total.errors, by_value);
        printf("all: within 10 %% of the best: %u of %u (%.1f %%); predictions: median error %.1f %%\n", total.good,
               total.points, 100.0 * total.good / total.points,
               total.nerrors ? 100 * total.errors[total.nerrors / 2] : 0);
    } else if (st >= 0) {
        printf("no points\n");
    }
    free(total.errors);
    return st;
}

int tune_check(const struct tune_options *o)
{
    struct wi_plan_table *seen = NULL, *table = NULL;
    weft_status st = wi_plan_table_load(o->check, &seen);

    if (st >= 0 && o->table)
        st = wi_plan_table_load(o->table, &table);
    if (st >= 0)
        st = judge_all(seen, table ? table : seen);
    if (st < 0)
        fprintf(stderr, "weft-tune: %s\n", wi_fail_text());
    wi_plan_table_free(seen);
    wi_plan_table_free(table);
    return st < 0;
}
