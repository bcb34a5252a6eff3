/* SPDX-License-Identifier: BSD-3-Clause */
/* The interpreter's lanes over shared memory, slice by slice, over slots or over ll lines. */
#include "interp_internal.h"

static const struct wi_region *regions_of(const struct interp *m, const struct lane *l)
{
    return m->ranks[l->rank].sched->regions;
}

/* ---- What both kinds of schedules do locally ---- */

uint32_t interp_least(struct interp *m, const struct lane *l, const struct wi_step *st)
{
    const struct wi_region *r = regions_of(m, l);
    uint32_t n = UINT32_MAX;

    for (uint32_t i = 0; i < (uint32_t)st->ndst + st->nsrc; i++) {
        uint32_t at = i < st->ndst ? st->dst + i : st->src + i - st->ndst;
        struct span s = interp_span(m, l->rank, &r[at], l->slice, l->piece);
        n = s.n < n ? s.n : n;
    }
    return n;
}

uint32_t interp_gather(struct interp *m, struct lane *l, const struct wi_step *st)
{
    uint32_t n = interp_least(m, l, st);

    if (n && st->kind == WI_STEP_REDUCE && !interp_reduces(m->coll))
        interp_wrong(m, "reduces in a collective that does not");
    for (uint32_t k = 0; n && k < st->nsrc; k++) {
        struct span s = interp_span(m, l->rank, &regions_of(m, l)[st->src + k], l->slice, l->piece);
        interp_touch(m, &s);
        for (uint32_t i = 0; i < n && !m->wrong[0]; i++) {
            uint64_t value = interp_load(m, &s, i);
            l->temp[i] = k ? interp_combine(l->temp[i], value) : value;
        }
    }
    for (uint32_t i = 0; i < n && st->flags & WI_STEP_FINAL; i++)
        l->temp[i] = interp_divide(m, l->temp[i]);
    return n;
}

/* ---- Slots ---- */

static int gate(const struct interp *m, uint64_t epoch)
{
    for (int r = 0; r < m->nranks; r++) {
        if (m->ranks[r].slices_done + m->depth <= epoch)
            return 0;
    }
    return 1;
}

static int dep_met(const struct interp *m, const struct lane *l, const struct wi_step *st)
{
    if (st->dep_lane == WI_NO_DEP)
        return 1;
    const struct lane *o = &m->lanes[m->first_lane[l->rank] + (uint32_t)st->dep_lane];
    return o->done || o->slice > l->slice || (o->slice == l->slice && o->step > st->dep_step);
}

static void slice_over(struct interp *m, struct lane *l)
{
    uint64_t least = UINT64_MAX;

    l->step = 0;
    l->gated = 0;
    l->slice++;
    for (uint32_t i = m->first_lane[l->rank]; i < m->first_lane[l->rank + 1]; i++)
        least = m->lanes[i].slice < least ? m->lanes[i].slice : least;
    m->ranks[l->rank].slices_done = least;
    m->wake = WAKE_ALL;
    if (l->slice == m->nslices)
        interp_lane_done(m, l);
}

static void store(struct interp *m, struct lane *l, const struct wi_region *to, uint32_t n)
{
    struct span d = interp_span(m, l->rank, to, l->slice, l->piece);

    interp_touch(m, &d);
    for (uint32_t i = 0; i < n; i++)
        interp_store(m, &d, i, l->temp[i]);
}

/* One piece of a COPY or REDUCE: read all, then store destination by destination. */
static int local_step(struct interp *m, struct lane *l, const struct wi_step *st)
{
    const struct wi_region *r = regions_of(m, l);
    uint32_t n = interp_least(m, l, st);
    int first = m->fused && st->flags & WI_STEP_FUSED_COPY, second = m->fused && st->flags & WI_STEP_FUSED_COPY_SECOND;

    do {
        if (!l->phase) {
            n = second ? 0 : interp_gather(m, l, st);
        } else if (n && !second) {
            store(m, l, &r[st->dst + l->phase - 1], n);
            if (first)
                store(m, l, &r[st[2].dst], n);
        }
        l->phase++;
    } while (l->phase <= st->ndst && !(m->split && interp_random(m, 2)));
    if (l->phase <= st->ndst)
        return 1;
    l->phase = 0;
    if (++l->piece >= interp_pieces(m, &r[st->dst])) {
        l->piece = 0;
        l->step++;
    }
    return 1;
}

static int wait_step(const struct interp *m, const struct lane *l, const struct wi_step *st)
{
    uint32_t lane = m->first_lane[st->peer] + st->lane;

    return lane < m->first_lane[st->peer + 1] && m->lanes[lane].signal >= 8ull * l->slice + st->ordinal + 1;
}

int interp_mapped(struct interp *m, struct lane *l)
{
    const struct wi_step *st = &l->steps[l->step];

    if (!l->gated && !(l->gated = (uint8_t)gate(m, l->slice)))
        return 0;
    if (l->step == l->def->nsteps) {
        slice_over(m, l);
        return 1;
    }
    if (!dep_met(m, l, st))
        return 0;
    m->wake = WAKE_RANK;
    if (st->kind == WI_STEP_COPY || st->kind == WI_STEP_REDUCE)
        return local_step(m, l, st);
    if (st->kind == WI_STEP_WAIT && !wait_step(m, l, st))
        return 0;
    if (st->kind == WI_STEP_SIGNAL) {
        l->signal = 8ull * l->slice + st->ordinal + 1;
        m->wake = WAKE_ALL;
    }
    l->step++;
    return 1;
}

/* ---- ll lines: a signal stores the scratch into a line, a wait fetches one ---- */

static uint64_t line_elems(const struct interp *m)
{
    return (uint64_t)m->tmp_blocks * (m->nslices == 1 ? m->block : m->slice);
}

static struct elem *line_of(struct interp *m, int rank, uint64_t epoch)
{
    return m->ranks[rank].lines + epoch % m->depth * ((uint64_t)m->tmp_blocks * MAX_BLOCK + 1);
}

static struct span ll_span(struct interp *m, const struct lane *l, const struct wi_region *r, uint32_t piece)
{
    struct span s = interp_span(m, l->rank, r, l->slice, piece);
    uint64_t at = (uint64_t)(r->first + piece) * (m->nslices == 1 ? m->block : m->slice);

    if (r->buf == WI_TMP)
        s.at = (r->rank == WI_SELF ? m->ranks[l->rank].own : m->ranks[l->rank].fetched[r->rank]) + at;
    return s;
}

static void ll_publish(struct interp *m, struct lane *l)
{
    struct rank *k = &m->ranks[l->rank];
    struct elem *line = line_of(m, l->rank, l->slice);
    uint64_t n = line_elems(m);

    for (uint64_t i = 0; i < n && !k->publish; i++)
        line[i] = k->own[i];
    for (uint32_t piece = 0, at = 0; k->publish && piece < interp_pieces(m, k->publish); piece++) {
        struct span s = interp_span(m, l->rank, k->publish, l->slice, piece);
        for (uint32_t i = 0; i < s.n; i++)
            line[at++] = (struct elem){s.at[i].value, (int32_t)l->slice};
    }
    k->line_epoch[l->slice % m->depth] = l->slice + 1ull;
    m->wake = WAKE_ALL;
}

static int ll_fetch(struct interp *m, struct lane *l, int peer)
{
    struct rank *k = &m->ranks[l->rank];
    struct elem *line = line_of(m, peer, l->slice), *landing = k->landing;

    if (m->ranks[peer].line_epoch[l->slice % m->depth] != l->slice + 1ull)
        return 0;
    landing += (uint64_t)peer * ((uint64_t)m->tmp_blocks * MAX_BLOCK + 1);
    for (uint64_t i = 0; i < line_elems(m); i++)
        landing[i] = line[i];
    k->fetched[peer] = m->ll_in_place ? line : landing;
    return 1;
}

static void ll_piece(struct interp *m, struct lane *l, const struct wi_step *st, uint32_t piece)
{
    const struct wi_region *r = regions_of(m, l);
    struct span d = ll_span(m, l, &r[st->dst], piece);
    uint32_t n = d.n;

    for (uint32_t k = 0; k < st->nsrc; k++) {
        struct span s = ll_span(m, l, &r[st->src + k], piece);
        n = s.n < n ? s.n : n;
    }
    for (uint32_t i = 0; i < n && !m->wrong[0]; i++) {
        uint64_t sum = 0;
        for (uint32_t k = 0; k < st->nsrc && !m->wrong[0]; k++) {
            struct span s = ll_span(m, l, &r[st->src + k], piece);
            uint64_t value = interp_load(m, &s, i);
            sum = k ? interp_combine(sum, value) : value;
        }
        interp_store(m, &d, i, st->flags & WI_STEP_FINAL ? interp_divide(m, sum) : sum);
    }
}

/* Scratch that is wholly a copy of one source is not copied but pointed at. */
static int ll_points(struct interp *m, struct lane *l, const struct wi_step *st)
{
    const struct wi_region *r = regions_of(m, l), *src = &r[st->src];
    uint64_t n = 0;

    if (st->kind != WI_STEP_COPY || r[st->dst].buf != WI_TMP || r[st->dst].first)
        return 0;
    for (uint32_t piece = 0; piece < interp_pieces(m, src); piece++)
        n += ll_span(m, l, src, piece).n;
    if (n != line_elems(m))
        return 0;
    if (src->rank == WI_SELF) /* else everything was published before */
        m->ranks[l->rank].publish = src;
    return 1;
}

int interp_ll(struct interp *m, struct lane *l)
{
    const struct wi_step *st = &l->steps[l->step];

    if (!l->gated) {
        if (!gate(m, l->slice))
            return 0;
        l->gated = 1;
        m->ranks[l->rank].publish = NULL;
    }
    if (l->step == l->def->nsteps) {
        slice_over(m, l);
        return 1;
    }
    if (st->kind == WI_STEP_WAIT && !ll_fetch(m, l, st->peer))
        return 0;
    if (st->kind == WI_STEP_SIGNAL)
        ll_publish(m, l);
    if ((st->kind == WI_STEP_COPY || st->kind == WI_STEP_REDUCE) && !ll_points(m, l, st)) {
        for (uint32_t piece = 0; piece < interp_pieces(m, &regions_of(m, l)[st->dst]); piece++)
            ll_piece(m, l, st, piece);
    }
    l->step++;
    return 1;
}
