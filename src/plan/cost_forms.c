/* SPDX-License-Identifier: BSD-3-Clause */
/* Closed forms of many ranks. Those that simulate each rank (wi_algo.time) take micro- to milliseconds, so each is computed once
 * for each power of two of bytes, and sizes in between are interpolated linearly. Prices are those of root 0 and of the class of
 * work, so that they do not depend on which query came first. */
#include "base/alloc.h"
#include "plan/internal.h"

#define FIRST_POWER 3 /* 8 bytes */
#define NPOWERS 33    /* to 32 GiB */

struct row {
    double us[2][NPOWERS]; /* in place; 0: not known yet */
};

struct wi_plan_forms {
    int nalgos;
    struct row *rows[WI_PLAN_WORKS]; /* by price class; of wi_algos in their order */
};

void wi_plan_forms_init(struct wi_planner *p)
{
    if (p->facts.nnodes < 2)
        return;
    p->forms = wi_calloc(1, sizeof *p->forms); /* without memory each price is found each time: the same price */
    while (p->forms && wi_algos[p->forms->nalgos])
        p->forms->nalgos++;
}

void wi_plan_forms_fini(struct wi_planner *p)
{
    if (!p->forms)
        return;
    for (int i = 0; i < WI_PLAN_WORKS; i++)
        wi_free(p->forms->rows[i]);
    wi_free(p->forms);
    p->forms = NULL;
}

static double *place_of(const struct wi_planner *p, const struct wi_plan_query *q, const struct wi_algo *a, int power)
{
    int class = p->core_rates.reduce[q->work].price_class, index = 0;
    struct wi_plan_forms *f = p->forms;

    while (f && index < f->nalgos && wi_algos[index] != a)
        index++;
    if (!f || index == f->nalgos)
        return NULL;
    if (!f->rows[class])
        f->rows[class] = wi_calloc((size_t)f->nalgos, sizeof **f->rows);
    return f->rows[class] ? &f->rows[class][index].us[q->in_place != 0][power] : NULL;
}

static double price_at(const struct wi_planner *p, const struct wi_plan_query *q, const struct wi_algo *a, int power,
                       struct wi_algo_rates rates)
{
    struct wi_algo_args args = {.nranks = p->facts.nranks, .in_place = q->in_place};
    size_t bytes = (size_t)1 << (FIRST_POWER + power);
    struct wi_plan_query there = {
        .coll = q->coll, .bytes = bytes, .work = p->core_rates.first[p->core_rates.reduce[q->work].price_class]};
    double *place = place_of(p, q, a, power), us = place ? *place : 0;

    if (us > 0)
        return us;
    rates.reduce_rate = wi_plan_reduce_rate(p, &there);
    rates.copy_rate = wi_plan_copy_rate(p, &there);
    us = wi_algo_closed(a, &args, (double)bytes, wi_plan_slices(p, a, (double)bytes), &rates);
    if (place)
        *place = us;
    return us;
}

double wi_plan_form_us(const struct wi_planner *p, const struct wi_plan_query *q, const struct wi_algo *a,
                       const struct wi_algo_args *args, const struct wi_algo_rates *rates)
{
    int power = 0;

    if (!a->time || q->bytes < (size_t)1 << FIRST_POWER)
        return wi_algo_closed(a, args, (double)q->bytes, wi_plan_slices(p, a, (double)q->bytes), rates);
    while (power + 2 < NPOWERS && ((size_t)1 << (FIRST_POWER + power + 1)) <= q->bytes)
        power++;
    double from = (double)((size_t)1 << (FIRST_POWER + power)), low = price_at(p, q, a, power, *rates);
    if (q->bytes == (size_t)from)
        return low;
    return low + (price_at(p, q, a, power + 1, *rates) - low) * ((double)q->bytes - from) / from;
}
