/* SPDX-License-Identifier: BSD-3-Clause */
/* The interpreter's lanes of messages: step, then slice, then piece. */
#include "interp_internal.h"

static int sends(const struct wi_step *st)
{
    return st->kind == WI_STEP_SEND || st->kind == WI_STEP_RECV_SEND || st->kind == WI_STEP_RECV_REDUCE_SEND;
}

static int receives(const struct wi_step *st)
{
    return st->kind == WI_STEP_RECV || st->kind == WI_STEP_RECV_REDUCE || st->kind == WI_STEP_RECV_SEND ||
           st->kind == WI_STEP_RECV_REDUCE_SEND;
}

static const struct wi_region *regions_of(const struct interp *m, const struct lane *l)
{
    return m->ranks[l->rank].sched->regions;
}

static int dep_met(const struct interp *m, const struct lane *l, const struct wi_step *st, uint32_t slice)
{
    if (st->dep_lane == WI_NO_DEP)
        return 1;
    const struct lane *o = &m->lanes[m->first_lane[l->rank] + (uint32_t)st->dep_lane];
    return o->step > st->dep_step || (o->step == st->dep_step && o->slice > slice);
}

/* Messages of a barrier are empty; elsewhere nothing is not sent. */
static int is_message(const struct interp *m, uint32_t n)
{
    return n > 0 || m->coll == WI_COLL_BARRIER;
}

/* Do transports still read [at, at + n) for a lane of this rank? */
static int being_sent(const struct interp *m, int rank, const struct elem *at, uint32_t n)
{
    for (uint32_t i = m->first_lane[rank]; i < m->first_lane[rank + 1]; i++) {
        const struct lane *l = &m->lanes[i];
        for (uint32_t k = l->ntaken; k < l->nsent; k++) {
            const struct message *s = &l->sent[k];
            if (!s->taken && s->from < at + n && at < s->from + s->n)
                return 1;
        }
    }
    return 0;
}

/* ---- Sending ---- */

static uint64_t *buffer(struct interp *m, uint32_t n)
{
    uint64_t *at = m->arena + m->arena_used;

    m->arena_used += n;
    if (m->arena_used > m->arena_room)
        interp_wrong(m, "the interpreter's arena is too small");
    return m->arena_used > m->arena_room ? m->arena : at;
}

/* The transport reads the oldest message that it has not. */
static void take(struct interp *m, struct lane *l)
{
    struct message *s = &l->sent[l->ntaken++];

    s->data = buffer(m, s->n);
    s->taken = 1;
    for (uint32_t i = 0; i < s->n && !m->wrong[0]; i++) {
        s->data[i] = s->from[i].value;
        if (!s->data[i])
            interp_wrong(m, "rank %d sends memory that nothing has written", l->rank);
    }
}

static int has_room(const struct interp *m, const struct lane *l)
{
    return !m->strict || l->nsent == l->ndelivered;
}

static void post_send(struct interp *m, struct lane *l, struct elem *from, uint32_t n)
{
    m->wake |= WAKE_TO;
    if (l->nsent == l->capacity) {
        interp_wrong(m, "the interpreter expected fewer messages of rank %d", l->rank);
        return;
    }
    l->sent[l->nsent++] = (struct message){.from = from, .n = n};
    if (m->strict || m->early == 4)
        take(m, l);
}

/* ---- Receiving ---- */

/* Where all slices of a region are. */
static void extent(struct interp *m, const struct lane *l, const struct wi_region *r, const struct elem **from,
                   const struct elem **to)
{
    *from = m->ranks[l->rank].base[r->buf] + (uint64_t)r->first * m->block;
    *to = *from + (uint64_t)r->count * m->block;
}

static int overlap(struct interp *m, const struct lane *l, uint32_t a, uint32_t b)
{
    const struct elem *a_from, *a_to, *b_from, *b_to;

    extent(m, l, &regions_of(m, l)[a], &a_from, &a_to);
    extent(m, l, &regions_of(m, l)[b], &b_from, &b_to);
    return a_from < b_to && b_from < a_to;
}

/* May step `next` receive while those before it from the current one on have not? */
static int may_run_ahead(struct interp *m, const struct lane *l, uint32_t next)
{
    if (m->strict || next >= l->def->nsteps || !receives(&l->steps[next]))
        return 0;
    const struct wi_step *n = &l->steps[next];
    for (uint32_t i = l->step; i < next; i++) {
        const struct wi_step *k = &l->steps[i];
        if (overlap(m, l, n->dst, k->dst) || (k->nsrc && overlap(m, l, n->dst, k->src)) ||
            (n->nsrc && overlap(m, l, n->src, k->dst)))
            return 0;
    }
    return 1;
}

static struct receive unit(struct interp *m, const struct lane *l, uint32_t step, uint32_t slice, uint32_t piece)
{
    const struct wi_step *st = &l->steps[step];
    struct span dst = interp_span(m, l->rank, &regions_of(m, l)[st->dst], slice, piece), src = {0};

    if (st->nsrc) {
        src = interp_span(m, l->rank, &regions_of(m, l)[st->src], slice, piece);
        dst.n = src.n < dst.n ? src.n : dst.n;
    }
    return (struct receive){.step = st, .dst = dst.at, .src = src.at, .n = dst.n};
}

static int post_receive(struct interp *m, struct lane *l)
{
    if (l->step >= l->def->nsteps || !receives(&l->steps[l->step]) || l->nrecvs == m->ahead)
        return 0;
    if (l->post_slice >= m->nslices) {
        if (!may_run_ahead(m, l, l->post_step + 1))
            return 0;
        l->post_step++;
        l->post_slice = l->post_piece = 0;
    }
    const struct wi_step *st = &l->steps[l->post_step];
    if (!dep_met(m, l, st, l->post_slice))
        return 0;
    struct receive r = unit(m, l, l->post_step, l->post_slice, l->post_piece);
    int busy = r.n && being_sent(m, l->rank, r.dst, r.n);
    if (busy && l->post_step > l->step)
        return 0;
    if (is_message(m, r.n)) {
        if (busy)
            r.bounce = buffer(m, r.n);
        l->recvs[l->nrecvs++] = r;
    }
    interp_next(m, interp_pieces(m, &regions_of(m, l)[st->dst]), &l->post_slice, &l->post_piece);
    return 1;
}

static void apply(struct interp *m, const struct receive *r, const uint64_t *data)
{
    for (uint32_t i = 0; i < r->n && !m->wrong[0]; i++) {
        uint64_t value = data[i];
        if (r->step->nsrc) {
            if (!interp_reduces(m->coll))
                interp_wrong(m, "reduces in a collective that does not");
            if (!r->src[i].value)
                interp_wrong(m, "a receive reduces with memory that nothing has written");
            value = r->step->flags & WI_STEP_RECV_LEFT ? interp_combine(value, r->src[i].value)
                                                       : interp_combine(r->src[i].value, value);
        }
        if (r->step->flags & WI_STEP_FINAL)
            value = interp_divide(m, value);
        r->dst[i].value = value;
    }
}

/* A message meets the oldest receive that has none. */
static int land(struct interp *m, struct lane *l)
{
    if (l->from < 0 || l->nlanded == l->nrecvs)
        return 0;
    struct lane *from = &m->lanes[l->from];
    if (from->ndelivered == from->nsent)
        return 0;
    struct message *s = &from->sent[from->ndelivered];
    struct receive *r = &l->recvs[l->nlanded];
    if (s->n != r->n) {
        interp_wrong(m, "rank %d expects %u elements of rank %d, which sends %u", l->rank, r->n, from->rank, s->n);
        return 1;
    }
    if (!s->taken)
        take(m, from);
    from->ndelivered++;
    l->nlanded++;
    r->landed = 1;
    m->wake |= WAKE_FROM;
    if (!r->bounce)
        apply(m, r, s->data);
    else
        for (uint32_t i = 0; i < r->n; i++)
            r->bounce[i] = s->data[i];
    return 1;
}

/* ---- Steps ---- */

static void step_over(struct lane *l)
{
    l->step++;
    l->slice = l->piece = 0;
    if (l->post_step < l->step) {
        l->post_step = l->step;
        l->post_slice = l->post_piece = 0;
    }
}

static void unit_over(struct interp *m, struct lane *l)
{
    const struct wi_step *st = &l->steps[l->step];
    uint32_t pieces = st->ndst + st->nsrc ? interp_pieces(m, &regions_of(m, l)[st->ndst ? st->dst : st->src]) : 1;

    m->wake |= WAKE_RANK;
    if (!interp_next(m, pieces, &l->slice, &l->piece))
        step_over(l);
}

static int reap(struct interp *m, struct lane *l)
{
    const struct wi_step *st = &l->steps[l->step];

    if (l->step == l->post_step && l->slice == l->post_slice && l->piece == l->post_piece)
        return 0;
    if (is_message(m, unit(m, l, l->step, l->slice, l->piece).n)) {
        struct receive r = l->recvs[0];
        if (!r.landed || (r.bounce && being_sent(m, l->rank, r.dst, r.n)) || (sends(st) && !has_room(m, l)))
            return 0;
        if (r.bounce)
            apply(m, &r, r.bounce);
        l->nrecvs--;
        l->nlanded--;
        for (uint32_t i = 0; i < l->nrecvs; i++)
            l->recvs[i] = l->recvs[i + 1];
        if (sends(st))
            post_send(m, l, r.dst, r.n);
    }
    unit_over(m, l);
    return 1;
}

static int send_step(struct interp *m, struct lane *l, const struct wi_step *st)
{
    struct span s = interp_span(m, l->rank, &regions_of(m, l)[st->src], l->slice, l->piece);

    if (is_message(m, s.n)) {
        if (!has_room(m, l))
            return 0;
        post_send(m, l, s.at, s.n);
    }
    unit_over(m, l);
    return 1;
}

static int local_step(struct interp *m, struct lane *l, const struct wi_step *st)
{
    uint32_t n = interp_least(m, l, st);

    for (uint32_t i = 0; n && !l->phase && i < st->ndst; i++) {
        struct span d = interp_span(m, l->rank, &regions_of(m, l)[st->dst + i], l->slice, l->piece);
        if (being_sent(m, l->rank, d.at, n))
            return 0;
    }
    do {
        if (n && !l->phase) {
            interp_gather(m, l, st);
        } else if (n) {
            struct span d = interp_span(m, l->rank, &regions_of(m, l)[st->dst + l->phase - 1], l->slice, l->piece);
            for (uint32_t i = 0; i < n; i++)
                interp_store(m, &d, i, l->temp[i]);
        }
        l->phase++;
    } while (n && l->phase <= st->ndst && !(m->split && interp_random(m, 2)));
    if (!n || l->phase > st->ndst) {
        l->phase = 0;
        unit_over(m, l);
    }
    return 1;
}

static int run_step(struct interp *m, struct lane *l)
{
    const struct wi_step *st = &l->steps[l->step];

    if (l->step >= l->def->nsteps)
        return 0;
    if (receives(st))
        return reap(m, l);
    if (!dep_met(m, l, st, l->slice))
        return 0;
    if (st->kind == WI_STEP_SEND)
        return send_step(m, l, st);
    if (st->kind == WI_STEP_COPY || st->kind == WI_STEP_REDUCE)
        return local_step(m, l, st);
    unit_over(m, l);
    return 1;
}

static int take_early(struct interp *m, struct lane *l)
{
    if (l->ntaken == l->nsent || interp_random(m, 4) >= m->early)
        return 0;
    take(m, l);
    m->wake |= WAKE_RANK;
    return 1;
}

int interp_two_sided(struct interp *m, struct lane *l)
{
    uint32_t first = interp_random(m, 3);
    int moved = take_early(m, l);

    for (uint32_t i = 0; i < 3 && !moved; i++) {
        uint32_t what = (first + i) % 3;
        moved = what == 0 ? run_step(m, l) : what == 1 ? post_receive(m, l) : land(m, l);
    }
    if (l->step >= l->def->nsteps && l->ntaken == l->nsent && !l->done) {
        interp_lane_done(m, l);
        moved = 1;
    }
    return moved;
}
