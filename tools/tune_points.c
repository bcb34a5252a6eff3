/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-tune: the points that are missing in the table, and how rounds become lines of it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "plan/paired.h"
#include "weft_tune.h"

#define PEER (WI_ALGO_PEER_MEM | WI_ALGO_PEER_GET)

/* What the planner is asked with: the vector, or one rank's share of the size. Whole doubles. */
static size_t plan_bytes(const struct tune *t, enum wi_coll coll, size_t size)
{
    size_t n = wi_coll_is_vector(coll) ? size : size / (size_t)t->nranks;

    if (coll == WI_COLL_BARRIER)
        return 0;
    return n < 8 ? 8 : n & ~(size_t)7;
}

/* ---- What is missing ---- */

static int wanted(const struct tune *t, const struct tune_subject *s, size_t bytes, int shared)
{
    if (s->refused)
        return 0;
    if (shared)
        return t->o.memory != TUNE_PRIVATE && t->nnodes == 1 && bytes >= TUNE_MAPPED_LEAST && s->needs & PEER;
    return t->o.memory != TUNE_MAPPED && !(s->needs & WI_ALGO_PEER_MEM) &&
           !(s->needs & PEER && bytes < TUNE_MAPPED_LEAST);
}

static void add_cell(struct tune *t, struct tune_point *p, int subject, int shared)
{
    struct tune_cell *c = &p->cells[p->ncells++];
    uint32_t at = UINT32_MAX;

    if (subject != TUNE_CHOSEN)
        at = wi_plan_table_find(t->table, t->section, p->coll, p->bytes, shared, t->subjects[p->coll][subject].name);
    *c = (struct tune_cell){.subject = subject, .shared = shared, .at = UINT32_MAX};
    if (at != UINT32_MAX)
        c->known_us = (double)t->table->points[at].measured_us;
}

/* All cells, though only some be missing: those that are known tie the others to what is known. */
static weft_status make_point(struct tune *t, enum wi_coll coll, size_t bytes)
{
    struct tune_point *p = &t->points[t->npoints];
    int missing = 0, by[2] = {0, 0};

    *p = (struct tune_point){.coll = coll, .bytes = bytes};
    p->cells = calloc(2 * ((size_t)t->nsubjects[coll] + 1), sizeof *p->cells);
    if (!p->cells)
        return wi_fail(WEFT_ENOMEM, "points");
    for (int shared = 0; shared < 2; shared++)
        for (int i = 0; i < t->nsubjects[coll]; i++)
            if (wanted(t, &t->subjects[coll][i], bytes, shared)) {
                add_cell(t, p, i, shared);
                by[shared]++;
            }
    for (int i = 0; i < p->ncells; i++)
        missing += p->cells[i].known_us == 0;
    for (int shared = 0; shared < 2 && missing && t->chooser; shared++)
        if (by[shared])
            add_cell(t, p, TUNE_CHOSEN, shared);
    if (!missing) {
        free(p->cells);
        return WEFT_SUCCESS;
    }
    p->us = calloc((size_t)p->ncells * (size_t)t->o.rounds, sizeof *p->us);
    t->npoints++;
    return p->us ? WEFT_SUCCESS : wi_fail(WEFT_ENOMEM, "points");
}

weft_status tune_make_points(struct tune *t)
{
    t->points = calloc((size_t)WI_NUM_COLLS * (size_t)t->o.nsizes, sizeof *t->points);
    if (!t->points)
        return wi_fail(WEFT_ENOMEM, "points");
    for (int c = 0; c < WI_NUM_COLLS; c++) {
        enum wi_coll coll = (enum wi_coll)c;
        size_t before = SIZE_MAX;
        for (int i = 0; t->o.colls[c] && i < t->o.nsizes; i++) {
            size_t bytes = plan_bytes(t, coll, t->o.sizes[i]);
            if (bytes == before)
                continue;
            WI_TRY(make_point(t, coll, bytes));
            before = bytes;
        }
    }
    return WEFT_SUCCESS;
}

void tune_free_points(struct tune *t)
{
    for (int i = 0; i < t->npoints; i++) {
        free(t->points[i].cells);
        free(t->points[i].us);
    }
    free(t->points);
    t->points = NULL;
    t->npoints = 0;
}

/* ---- Into the table ---- */

static double predicted(const struct tune *t, const struct tune_point *p, const struct tune_cell *c)
{
    struct wi_plan_query q = {
        .coll = p->coll, .bytes = p->bytes, .memory = c->shared ? WI_MEMORY_MAPPED : WI_MEMORY_PRIVATE};
    struct wi_plan plan;

    return wi_plan(t->planner, &q, tune_name_of(t, p, c), &plan) < 0 ? 0 : plan.predicted_us;
}

/* By how much what was known was another time than now: of its log. */
static double shift(const struct tune_point *p, const struct wi_paired *fit)
{
    double list[2 * TUNE_MAX_ALGOS + 2];
    int n = 0;

    for (int i = 0; i < p->ncells; i++)
        if (p->cells[i].known_us > 0 && fit[i].us > 0)
            list[n++] = log(p->cells[i].known_us / fit[i].us);
    return n ? wi_midmean(list, n) : 0;
}

/* By the table of --table: the cell of what is chosen with this memory; NULL: it was not measured so. */
static struct tune_cell *picked(const struct tune *t, struct tune_point *p, int shared)
{
    struct wi_plan_query q = {.coll = p->coll, .bytes = p->bytes};
    struct wi_plan plan;
    char name[WI_ALGO_SPEC_BYTES];

    if (wi_plan_needs_exchange(t->chooser, &q, NULL))
        q.memory = shared ? WI_MEMORY_MAPPED : WI_MEMORY_PRIVATE;
    if (wi_plan(t->chooser, &q, NULL, &plan) < 0)
        return NULL;
    plan.spec.nchunks = 0; /* the number of chunks is not part of what was measured */
    wi_algo_text(plan.algo, &plan.spec, name);
    for (int i = 0; i < p->ncells; i++) {
        struct tune_cell *c = &p->cells[i];
        if (c->subject == TUNE_CHOSEN || c->shared != shared)
            continue;
        if (strcmp(tune_name_of(t, p, c), name) == 0)
            return c;
    }
    return NULL;
}

static weft_status store_cell(struct tune *t, const struct tune_point *p, struct tune_cell *c,
                              const struct wi_paired *fit, double factor)
{
    struct wi_table_point point = {.bytes = p->bytes,
                                   .measured_us = (float)(fit->us * factor),
                                   .predicted_us = (float)predicted(t, p, c),
                                   .noise = (float)fit->noise,
                                   .section = (uint16_t)t->section,
                                   .coll = (uint8_t)p->coll,
                                   .shared = (uint8_t)c->shared};

    if (c->at != UINT32_MAX) {
        point.algo = t->table->points[c->at].algo;
        t->table->points[c->at] = point;
        return WEFT_SUCCESS;
    }
    WI_TRY(wi_plan_table_point(t->table, &point, tune_name_of(t, p, c)));
    c->at = t->table->npoints - 1;
    t->measured++;
    return WEFT_SUCCESS;
}

static weft_status store_point(struct tune *t, struct tune_point *p, struct wi_paired *fit)
{
    double factor;

    WI_TRY(wi_paired_fit(p->us, p->ncells, t->o.rounds, fit));
    factor = exp(shift(p, fit));
    for (int i = 0; i < p->ncells; i++)
        if (p->cells[i].subject != TUNE_CHOSEN && fit[i].us > 0 && p->cells[i].known_us == 0)
            WI_TRY(store_cell(t, p, &p->cells[i], &fit[i], factor));
    for (int i = 0; i < p->ncells; i++) {
        struct tune_cell *c = p->cells[i].subject == TUNE_CHOSEN ? picked(t, p, p->cells[i].shared) : NULL;
        if (c && c->at != UINT32_MAX)
            t->table->points[c->at].chosen_us = (float)(fit[i].us * factor);
    }
    return WEFT_SUCCESS;
}

weft_status tune_store_points(struct tune *t)
{
    struct wi_paired *fit = calloc(2 * TUNE_MAX_ALGOS + 2, sizeof *fit);
    weft_status st = fit ? WEFT_SUCCESS : wi_fail(WEFT_ENOMEM, "estimates");

    for (int i = 0; i < t->npoints && st >= 0; i++)
        if (t->points[i].begun)
            st = store_point(t, &t->points[i], fit);
    free(fit);
    return st < 0 || t->rank ? st : wi_plan_table_save(t->table, t->o.output);
}
