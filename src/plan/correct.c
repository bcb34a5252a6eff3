/* SPDX-License-Identifier: BSD-3-Clause */
/* Correction of the formulas by measurements.
 *
 * An algorithm that was measured with these ranks is predicted by its formula times (measured / formula), the quotient being
 * interpolated between the sizes that were measured, linearly in the logarithms of size and quotient, and kept beyond the
 * first and the last. So at a measured size the prediction is the measurement. One that was not measured, while others of
 * its collective were, is left out: a formula alone cannot compete with measurements. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/status.h"
#include "plan/internal.h"

/* ---- Picking this communicator's points ---- */

static __thread const struct wi_plan_table *sorting; /* qsort has no argument for it */

static int by_series(const void *va, const void *vb)
{
    const struct wi_table_point *a = va, *b = vb;
    int names;

    if (a->coll != b->coll)
        return a->coll < b->coll ? -1 : 1;
    if (a->shared != b->shared)
        return a->shared < b->shared ? -1 : 1;
    names = strcmp(sorting->names[a->algo], sorting->names[b->algo]);
    if (names)
        return names;
    return a->bytes < b->bytes ? -1 : a->bytes > b->bytes;
}

static void make_series(struct wi_plan_corrections *k)
{
    for (uint32_t i = 0; i < k->npoints; i++) {
        const struct wi_table_point *p = &k->points[i];
        struct wi_plan_series *s = k->nseries ? &k->series[k->nseries - 1] : NULL;
        if (s && s->coll == p->coll && s->shared == p->shared && s->algo == k->table->names[p->algo]) {
            s->n++;
            continue;
        }
        k->series[k->nseries++] = (struct wi_plan_series){k->table->names[p->algo], p->coll, p->shared, i, 1};
        k->any_shared[p->coll] |= p->shared;
    }
    for (uint32_t s = 0, c = 0; c <= WI_NUM_COLLS; c++) {
        while (s < k->nseries && k->series[s].coll < c)
            s++;
        k->of_coll[c] = s;
    }
}

static int find_section(const struct wi_planner *p, const struct wi_plan_table *t)
{
    char map[WI_TABLE_MAX_MAP] = "";
    int32_t *one = NULL;
    int section;

    if (p->node_of)
        wi_plan_map(p->node_of, p->facts.nranks, map, sizeof map);
    else if (p->facts.nnodes == 1 && (one = wi_calloc((size_t)p->facts.nranks, sizeof *one)))
        wi_plan_map(one, p->facts.nranks, map, sizeof map);
    wi_free(one);
    section = wi_plan_table_match(t, p->facts.nranks, p->facts.nnodes, map);
    if (section < 0)
        wi_log(WEFT_LOG_INFO, "plan.table", "the tuning table has nothing about %d ranks on %d nodes placed %s",
               p->facts.nranks, p->facts.nnodes, map);
    return section;
}

static double least_at(const struct wi_plan_corrections *k, int coll, uint64_t bytes)
{
    double least = INFINITY;

    for (uint32_t i = 0; i < k->npoints; i++)
        if (k->points[i].coll == coll && !k->points[i].shared && k->points[i].bytes == bytes)
            least = fmin(least, (double)k->points[i].measured_us);
    return least;
}

/* Flat over ll lines is taken without asking the planner unless something that was measured is clearly faster: twice as fast,
 * because measurements of a microsecond are not more exact than that. */
static void limit_ll(struct wi_planner *p, int coll)
{
    const struct wi_plan_corrections *k = &p->corrections;
    const struct wi_algo *ll = wi_algo_ll((enum wi_coll)coll);
    const struct wi_plan_series *flat = NULL;

    for (uint32_t i = k->of_coll[coll]; i < k->of_coll[coll + 1]; i++)
        if (!k->series[i].shared && ll && strcmp(k->series[i].algo, ll->name) == 0)
            flat = &k->series[i];
    for (uint32_t i = 0; flat && i < flat->n; i++) {
        const struct wi_table_point *at = &k->points[flat->first + i];
        if (at->bytes > p->ll_max[coll])
            return;
        if ((double)at->measured_us > 2 * least_at(k, coll, at->bytes)) {
            p->ll_max[coll] = i ? (size_t)at[-1].bytes : 0;
            return;
        }
    }
}

weft_status wi_plan_correct_init(struct wi_planner *p, const struct wi_plan_table *table)
{
    struct wi_plan_corrections *k = &p->corrections;
    const struct wi_table_section *s;
    int section;

    if (!table)
        return WEFT_SUCCESS;
    section = find_section(p, table);
    if (section < 0)
        return WEFT_SUCCESS;
    s = &table->sections[section];
    for (size_t i = 0; i < WI_PLAN_NUM_LINK_PARAMS; i++)
        if (s->has[i]) {
            ((double *)&p->params)[i] = ((const double *)&s->params)[i];
            p->measured = 1;
        }
    wi_plan_table_rates(p, s);
    for (uint32_t i = 0; i < table->npoints; i++)
        k->npoints += table->points[i].section == section;
    if (!k->npoints)
        return WEFT_SUCCESS;
    k->table = table;
    k->points = wi_calloc(k->npoints, sizeof *k->points);
    k->series = wi_calloc(k->npoints, sizeof *k->series);
    if (!k->points || !k->series)
        return wi_fail(WEFT_ENOMEM, "%u points of the tuning table", k->npoints);
    for (uint32_t i = 0, n = 0; i < table->npoints; i++)
        if (table->points[i].section == section)
            k->points[n++] = table->points[i];
    sorting = table;
    qsort(k->points, k->npoints, sizeof *k->points, by_series);
    make_series(k);
    for (int c = 0; c < WI_NUM_COLLS; c++)
        if (p->ll_max[c])
            limit_ll(p, c);
    return WEFT_SUCCESS;
}

void wi_plan_correct_fini(struct wi_planner *p)
{
    wi_free(p->corrections.points);
    wi_free(p->corrections.series);
}

/* ---- Correcting ---- */

static const struct wi_plan_series *series_of(const struct wi_plan_corrections *k, enum wi_coll coll, int shared,
                                              const char *algo)
{
    for (uint32_t i = k->of_coll[coll]; i < k->of_coll[coll + 1]; i++)
        if (k->series[i].shared == shared && strcmp(k->series[i].algo, algo) == 0)
            return &k->series[i];
    return NULL;
}

/* log(measured / formula) at a point. */
static double quotient(const struct wi_planner *p, const struct wi_plan_query *q, const struct wi_plan_candidate *c,
                       const struct wi_table_point *point)
{
    struct wi_plan_query there = *q;
    struct wi_algo_choice choice = c->choice;
    struct wi_algo_cost cost;
    double us;

    there.bytes = (size_t)point->bytes;
    choice.spec.nchunks = 0;
    wi_algo_choice_for(&choice, (double)point->bytes);
    us = wi_plan_choice_us(p, &there, &choice, &cost);
    return us > 0 || isnan(us) ? log((double)point->measured_us / us) : 0;
}

static double correct_one(const struct wi_planner *p, const struct wi_plan_query *q, struct wi_plan_candidate *c,
                          const struct wi_plan_series *s)
{
    const struct wi_table_point *points = &p->corrections.points[s->first];
    uint32_t i = 0;
    double a, b, t;

    while (i < s->n && points[i].bytes < q->bytes)
        i++;
    if (i < s->n && points[i].bytes == q->bytes) {
        c->basis = WI_PLAN_MEASURED;
        return (double)points[i].measured_us;
    }
    c->basis = WI_PLAN_SCALED;
    if (i == 0 || i == s->n)
        return c->model_us * exp(quotient(p, q, c, &points[i ? s->n - 1 : 0]));
    a = quotient(p, q, c, &points[i - 1]);
    b = quotient(p, q, c, &points[i]);
    t = log((double)q->bytes / (double)(points[i - 1].bytes ? points[i - 1].bytes : 1)) /
        log((double)points[i].bytes / (double)(points[i - 1].bytes ? points[i - 1].bytes : 1));
    return c->model_us * exp(a + t * (b - a));
}

void wi_plan_correct(const struct wi_planner *p, const struct wi_plan_query *q, struct wi_plan_candidate *list, int n)
{
    const struct wi_plan_corrections *k = &p->corrections;
    enum wi_coll coll = wi_algo_family(q->coll);
    unsigned measured = 0;
    double sum = 0;

    if (!k->nseries || k->of_coll[coll] == k->of_coll[coll + 1])
        return;
    for (int i = 0; i < n; i++) {
        const struct wi_plan_series *s = NULL;
        const char *name;
        if (list[i].why_not || list[i].model_us <= 0)
            continue;
        name = wi_algo_choice_name(&list[i].choice); /* the number of chunks follows from the size */
        if (q->memory == WI_MEMORY_MAPPED)
            s = series_of(k, coll, 1, name);
        if (!s && !(q->memory == WI_MEMORY_MAPPED && list[i].choice.needs & WI_ALGO_PEER_GET))
            s = series_of(k, coll, 0, name);
        if (!s)
            continue;
        list[i].predicted_us = correct_one(p, q, &list[i], s);
        sum += log(list[i].predicted_us / list[i].model_us);
        measured++;
    }
    for (int i = 0; i < n && measured; i++) {
        if (list[i].why_not || list[i].basis != WI_PLAN_MODEL)
            continue;
        list[i].predicted_us = list[i].model_us * exp(sum / measured);
        /* Nothing was measured with shared buffers: algorithms that need them keep their formula. */
        if (k->any_shared[coll] || !(list[i].choice.needs & (WI_ALGO_PEER_MEM | WI_ALGO_PEER_GET)) ||
            q->memory != WI_MEMORY_MAPPED)
            list[i].why_not = "it was not measured with these ranks, others were";
    }
}
