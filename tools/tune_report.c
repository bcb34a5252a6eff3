/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-tune: where formulas and measurements differ most. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weft_tune.h"

#define WORST 10

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
