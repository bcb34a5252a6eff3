/* SPDX-License-Identifier: BSD-3-Clause */
/* The checker's entry: build the model of all ranks, run it, judge what came out. */
#include "sched/check_internal.h"

#include <stdarg.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"

weft_status wi_check_fail(const struct wi_check *c, uint32_t lane, uint32_t step, const char *format, ...)
{
    const struct wi_check_lane *l = &c->lanes[lane];
    char where[WI_PLACE_TEXT_BYTES], what[384];
    va_list ap;

    va_start(ap, format);
    vsnprintf(what, sizeof(what), format, ap);
    va_end(ap);
    if (c->notes) {
        c->notes->rank = l->rank;
        c->notes->lane = l->index;
        c->notes->step = step;
    }
    return wi_fail(WEFT_EINVAL, "%s: %s", wi_sched_place_text(c->scheds[l->rank], l->index, step, where), what);
}

weft_status wi_check_nomem(const struct wi_check *c)
{
    return wi_fail(WEFT_ENOMEM, "schedule check: no memory for %u ranks with %u steps", c->nranks, c->nsteps);
}

const char *wi_check_step_text(const struct wi_check *c, uint32_t lane, uint32_t step, char text[WI_PLACE_TEXT_BYTES])
{
    const struct wi_check_lane *l = &c->lanes[lane];

    if (step < l->def->nsteps)
        snprintf(text, WI_PLACE_TEXT_BYTES, "rank %u lane %u step %u (%s)", l->rank, l->index, step,
                 wi_sched_step_names[l->steps[step].kind]);
    else
        snprintf(text, WI_PLACE_TEXT_BYTES, "rank %u lane %u", l->rank, l->index);
    return text;
}

static weft_status count(struct wi_check *c)
{
    uint64_t nlanes = 0, nsteps = 0;

    for (uint32_t r = 0; r < c->nranks; r++) {
        nlanes += c->scheds[r]->nlanes;
        nsteps += c->scheds[r]->nsteps;
        c->mapped |= c->scheds[r]->mapped;
    }
    if (nlanes >= UINT32_MAX / 2 || nsteps >= UINT32_MAX / 4)
        return wi_fail(WEFT_ENOTSUP, "schedule check: %llu steps of %u ranks are too many", (unsigned long long)nsteps,
                       c->nranks);
    c->nlanes = (uint32_t)nlanes;
    c->nsteps = (uint32_t)nsteps;
    return WEFT_SUCCESS;
}

static void lay_lanes(struct wi_check *c)
{
    uint32_t lane = 0, step = 0;

    for (uint32_t r = 0; r < c->nranks; r++) {
        const struct wi_sched *s = c->scheds[r];
        c->rank_lanes[r] = lane;
        for (uint32_t i = 0; i < s->nlanes; i++, lane++) {
            c->lanes[lane] = (struct wi_check_lane){.rank = r,
                                                    .index = i,
                                                    .def = &s->lanes[i],
                                                    .steps = s->steps + s->lanes[i].first_step,
                                                    .first = step,
                                                    .to = WI_NONE,
                                                    .from = WI_NONE,
                                                    .waiters = WI_NONE};
            step += s->lanes[i].nsteps;
        }
    }
    c->rank_lanes[c->nranks] = lane;
}

static weft_status build(struct wi_check *c)
{
    WI_TRY(count(c));
    c->words = (c->nranks + 63) / 64;
    c->data = c->scheds[0]->coll != WI_COLL_BARRIER;
    c->rank_lanes = wi_calloc(c->nranks + (size_t)1, sizeof(*c->rank_lanes));
    c->rank_cells = wi_calloc(c->nranks, sizeof(*c->rank_cells));
    c->in_transit = wi_calloc(c->nranks, sizeof(*c->in_transit));
    c->lanes = wi_calloc(c->nlanes + (size_t)1, sizeof(*c->lanes));
    c->saved = wi_calloc(c->nsteps + (size_t)1, sizeof(*c->saved));
    c->scratch_bits = wi_calloc(c->words, sizeof(*c->scratch_bits));
    if (!c->rank_lanes || !c->rank_cells || !c->in_transit || !c->lanes || !c->saved || !c->scratch_bits)
        return wi_check_nomem(c);
    lay_lanes(c);
    WI_TRY(wi_check_match(c));
    for (uint32_t i = 0; i < c->nlanes; i++) {
        struct wi_message *m = &c->lanes[i].inbox;
        if (!m->capacity || !c->data)
            continue;
        m->values = wi_malloc(m->capacity * sizeof(*m->values));
        m->bits = wi_malloc((size_t)m->capacity * c->words * sizeof(*m->bits));
        if (!m->values || !m->bits)
            return wi_check_nomem(c);
    }
    return wi_check_access_init(c);
}

static void demolish(struct wi_check *c)
{
    for (uint32_t i = 0; c->lanes && i < c->nlanes; i++) {
        wi_clock_put(c->lanes[i].clock);
        wi_clock_put(c->lanes[i].inbox.clock);
        wi_free(c->lanes[i].inbox.values);
        wi_free(c->lanes[i].inbox.bits);
    }
    for (uint32_t i = 0; c->saved && i < c->nsteps; i++)
        wi_clock_put(c->saved[i].clock);
    for (uint32_t i = 0; c->ends && i < c->nranks; i++)
        wi_clock_put(c->ends[i]);
    wi_free(c->ends);
    wi_free(c->residuals);
    wi_free(c->foreign);
    wi_free(c->reads);
    wi_free(c->bits);
    wi_free(c->values);
    wi_free(c->cells);
    wi_free(c->scratch_bits);
    wi_free(c->saved);
    wi_free(c->lanes);
    wi_free(c->in_transit);
    wi_free(c->rank_cells);
    wi_free(c->rank_lanes);
}

static weft_status run(struct wi_check *c)
{
    weft_status st = build(c);

    if (st == WEFT_SUCCESS) {
        wi_check_values_init(c);
        st = wi_check_run(c);
    }
    if (st == WEFT_SUCCESS)
        st = wi_check_results(c);
    if (st == WEFT_SUCCESS)
        st = wi_check_ends(c);
    demolish(c);
    return st;
}

weft_status wi_sched_check(const struct wi_sched *const scheds[], int nranks, int promised)
{
    WI_TRY(wi_check_agreement(scheds, nranks));
    for (int r = 0; r < nranks; r++) {
        if (scheds[r]->draft)
            return wi_fail(WEFT_EINVAL, "schedule check: that of rank %d is a draft", r);
        if (scheds[r]->staged)
            return wi_fail(WEFT_EINVAL,
                           "schedule check: that of rank %d has mapped stages; what is proved is the same in "
                           "messages (wi_algo_flatten), and each stage by itself",
                           r);
    }
    struct wi_check c = {.scheds = scheds,
                         .nranks = (uint32_t)nranks,
                         .ordered = promised & WI_SCHED_ORDERED,
                         .alike = promised & WI_SCHED_ALIKE};
    return run(&c);
}

/* ---- Studies ---- */

void wi_notes_fini(struct wi_notes *notes)
{
    wi_free(notes->first);
    wi_free(notes->final);
    wi_free(notes->block_at);
    wi_free(notes->blocks);
    *notes = (struct wi_notes){0};
}

static weft_status take_notes(const struct wi_sched *const scheds[], uint32_t nranks, struct wi_notes *notes)
{
    uint64_t nsteps = 0, nblocks = 0;

    for (uint32_t r = 0; r < nranks; r++) {
        nsteps += scheds[r]->nsteps;
        for (uint32_t i = 0; i < scheds[r]->nregions; i++)
            nblocks += scheds[r]->regions[i].count;
    }
    notes->nsteps = (uint32_t)nsteps;
    notes->first = wi_calloc(nranks, sizeof(*notes->first));
    notes->final = wi_calloc(nsteps + 1, sizeof(*notes->final));
    notes->block_at = wi_calloc(nsteps + 1, sizeof(*notes->block_at));
    notes->blocks = wi_calloc(nblocks + 1, sizeof(*notes->blocks));
    if (!notes->first || !notes->final || !notes->block_at || !notes->blocks)
        return wi_fail(WEFT_ENOMEM, "schedule study: no memory for %llu steps", (unsigned long long)nsteps);
    uint32_t step = 0, block = 0;
    for (uint32_t r = 0; r < nranks; r++) {
        notes->first[r] = step;
        for (uint32_t i = 0; i < scheds[r]->nsteps; i++) {
            const struct wi_step *s = &scheds[r]->steps[i];
            notes->block_at[step++] = block;
            block += s->ndst + s->nsrc ? scheds[r]->regions[s->ndst ? s->dst : s->src].count : 0;
        }
    }
    return WEFT_SUCCESS;
}

weft_status wi_sched_study(const struct wi_sched *const scheds[], int nranks, struct wi_notes *notes)
{
    *notes = (struct wi_notes){.rank = WI_NOWHERE, .lane = WI_NOWHERE, .step = WI_NOWHERE};
    WI_TRY(wi_check_agreement(scheds, nranks));
    weft_status st = take_notes(scheds, (uint32_t)nranks, notes);
    if (st == WEFT_SUCCESS) {
        struct wi_check c = {.scheds = scheds, .nranks = (uint32_t)nranks, .notes = notes};
        st = run(&c);
    }
    if (st < 0) {
        struct wi_notes place = *notes;
        wi_notes_fini(notes);
        notes->rank = place.rank, notes->lane = place.lane, notes->step = place.step;
    }
    return st;
}
