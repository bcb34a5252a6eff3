/* SPDX-License-Identifier: BSD-3-Clause */
/* Lanes: what each does next, and what it waits for. The rules are those of src/exec/lane.c. */
#include <math.h>

#include "base/status.h"
#include "sched/internal.h"
#include "sim/engine.h"

static const struct wi_lane *plan_of(const struct wi_sim *s, const struct wi_sim_lane *l)
{
    return &s->ranks[l->rank].sched->lanes[l->index];
}

const struct wi_step *wi_sim_step(const struct wi_sim *s, const struct wi_sim_lane *l)
{
    const struct wi_lane *plan = plan_of(s, l);

    return l->step < plan->nsteps ? &s->ranks[l->rank].sched->steps[plan->first_step + l->step] : NULL;
}

/* ---- Waiting and waking ---- */

void wi_sim_ready(struct wi_sim *s, uint32_t lane, uint32_t cause)
{
    struct wi_sim_lane *l = &s->lanes[lane];

    l->block = WI_SIM_READY;
    l->cause = cause;
    l->next = WI_SIM_NONE;
    if (s->ready == WI_SIM_NONE)
        s->ready = lane;
    else
        s->lanes[s->ready_tail].next = lane;
    s->ready_tail = lane;
}

void wi_sim_wake(struct wi_sim *s, uint32_t *list, uint32_t cause)
{
    uint32_t lane = *list, next;

    *list = WI_SIM_NONE;
    for (; lane != WI_SIM_NONE; lane = next) {
        next = s->lanes[lane].next;
        wi_sim_ready(s, lane, cause);
    }
}

static void wait_on(struct wi_sim *s, uint32_t lane, uint32_t *list, enum wi_sim_block block)
{
    s->lanes[lane].block = (uint8_t)block;
    s->lanes[lane].next = *list;
    *list = lane;
}

void wi_sim_lane_check_end(struct wi_sim *s, uint32_t lane)
{
    struct wi_sim_lane *l = &s->lanes[lane];
    struct wi_sim_rank *r = &s->ranks[l->rank];

    if (!l->ended || l->nsending || l->block == WI_SIM_OVER)
        return;
    l->block = WI_SIM_OVER;
    if (--r->nlanes_left)
        return;
    r->finish = s->now;
    r->last = l->cause;
    s->ranks_left--;
}

static void lane_ended(struct wi_sim *s, uint32_t lane)
{
    s->lanes[lane].ended = 1;
    wi_sim_wake(s, &s->lanes[lane].waiters, s->lanes[lane].cause);
    wi_sim_lane_check_end(s, lane);
}

/* ---- Two-sided ---- */

static int dep_met(const struct wi_sim *s, const struct wi_sim_lane *l, const struct wi_step *st)
{
    const struct wi_sim_lane *other;

    if (st->dep_lane == WI_NO_DEP)
        return 1;
    other = &s->lanes[s->ranks[l->rank].first_lane + (uint32_t)st->dep_lane];
    if (other->ended)
        return 1;
    if (s->mapped)
        return other->slice > l->slice || (other->slice == l->slice && other->step > st->dep_step);
    return other->step > st->dep_step || (other->step == st->dep_step && other->slice > l->slice);
}

static void unit_over(struct wi_sim *s, uint32_t lane, const struct wi_step *st)
{
    struct wi_sim_lane *l = &s->lanes[lane];

    l->phase = WI_SIM_ENTER;
    if (++l->piece < wi_sim_pieces(s, s->ranks[l->rank].sched, st))
        return;
    l->piece = 0;
    if (++l->slice >= s->nslices) {
        l->slice = 0;
        l->step++;
    }
    wi_sim_wake(s, &l->waiters, l->cause);
}

static void ask(struct wi_sim *s, uint32_t lane, enum wi_sim_phase phase, double over_us, uint64_t work, unsigned kind)
{
    struct wi_sim_lane *l = &s->lanes[lane];

    l->phase = (uint8_t)phase;
    l->over_us = over_us;
    l->work = work;
    l->span_kind = (uint8_t)kind;
    if (!wi_sim_core_ask(s, lane))
        l->block = WI_SIM_ON_CORE;
}

/* Does any destination of the unit lie where a pending send still reads? */
static int must_drain(const struct wi_sim *s, const struct wi_sim_lane *l, const struct wi_step *st)
{
    const struct wi_sched *sched = s->ranks[l->rank].sched;

    if (!s->ranks[l->rank].overwrites)
        return 0;
    for (uint32_t i = 0; i < st->ndst; i++) {
        uint32_t buf;
        uint64_t from = wi_sim_place(s, sched, &sched->regions[st->dst + i], l->slice, l->piece, &buf);
        if (wi_sim_being_sent(s, l->rank, buf, from, l->bytes))
            return 1;
    }
    return 0;
}

static void take(struct wi_sim *s, uint32_t lane, const struct wi_step *st)
{
    struct wi_sim_lane *l = &s->lanes[lane];
    uint32_t m = l->inbox;
    char text[WI_PLACE_TEXT_BYTES];

    if (m == WI_SIM_NONE) {
        l->block = WI_SIM_ON_INBOX;
        return;
    }
    if (s->messages[m].bytes != l->bytes) {
        s->status =
            wi_fail(WEFT_EINVAL, "%s expects %llu bytes, rank %d sent %llu",
                    wi_sched_place_text(s->ranks[l->rank].sched, l->index, l->step, text), (unsigned long long)l->bytes,
                    plan_of(s, l)->recv_peer, (unsigned long long)s->messages[m].bytes);
        return;
    }
    if (must_drain(s, l, st)) {
        wait_on(s, lane, &s->ranks[l->rank].drain_waiters, WI_SIM_ON_DRAIN);
        return;
    }
    l->inbox = s->messages[m].next;
    s->messages[m].next = s->free_message;
    s->free_message = m;
    int reduces = wi_sched_is_reducing(st->kind);
    ask(s, lane, WI_SIM_TAKING, s->paths[s->lanes[l->from].path].recv_us, reduces ? l->bytes : 0,
        reduces ? WI_SIM_REDUCE : WI_SIM_RECV);
}

/* Bytes that count as work: of a copy what is stored, of a reduction what is read beyond the first operand. */
static uint64_t local_work(const struct wi_sim *s, const struct wi_sim_lane *l, const struct wi_step *st,
                           uint64_t bytes)
{
    const struct wi_sched *sched = s->ranks[l->rank].sched;
    uint64_t work = 0, to, from;
    uint32_t to_buf, from_buf;

    if (st->kind == WI_STEP_REDUCE && st->nsrc > 1)
        return bytes * (st->nsrc - 1u);
    from = wi_sim_place(s, sched, &sched->regions[st->src], l->slice, l->piece, &from_buf);
    for (uint32_t i = 0; i < st->ndst; i++) {
        const struct wi_region *dst = &sched->regions[st->dst + i];
        to = wi_sim_place(s, sched, dst, l->slice, l->piece, &to_buf);
        if (to != from || to_buf != from_buf ||
            wi_sched_owner(sched, dst) != wi_sched_owner(sched, &sched->regions[st->src]))
            work += bytes;
    }
    return work;
}

static void ask_local(struct wi_sim *s, uint32_t lane, const struct wi_step *st, uint64_t work)
{
    ask(s, lane, WI_SIM_LOCAL, 0, work, st->kind == WI_STEP_REDUCE && st->nsrc > 1 ? WI_SIM_REDUCE : WI_SIM_COPY);
}

static void enter(struct wi_sim *s, uint32_t lane, const struct wi_step *st)
{
    struct wi_sim_lane *l = &s->lanes[lane];

    if (!dep_met(s, l, st)) {
        wait_on(s, lane, &s->lanes[s->ranks[l->rank].first_lane + (uint32_t)st->dep_lane].waiters, WI_SIM_ON_LANE);
        return;
    }
    l->bytes = wi_sim_unit_bytes(s, s->ranks[l->rank].sched, st, l->slice, l->piece);
    if (st->kind == WI_STEP_NOP || (!l->bytes && !s->send_empty)) {
        unit_over(s, lane, st); /* empty units carry no message */
    } else if (st->kind == WI_STEP_SEND) {
        ask(s, lane, WI_SIM_SENDING, s->paths[l->path].send_us, 0, WI_SIM_SEND);
    } else if (wi_sched_is_recv(st->kind)) {
        take(s, lane, st);
    } else if (must_drain(s, l, st)) {
        wait_on(s, lane, &s->ranks[l->rank].drain_waiters, WI_SIM_ON_DRAIN);
    } else {
        ask_local(s, lane, st, local_work(s, l, st, l->bytes));
    }
}

static void move_two_sided(struct wi_sim *s, uint32_t lane)
{
    struct wi_sim_lane *l = &s->lanes[lane];
    const struct wi_step *st = wi_sim_step(s, l);

    if (!st) {
        lane_ended(s, lane);
        return;
    }
    switch (l->phase) {
    case WI_SIM_ENTER:
        enter(s, lane, st);
        return;
    case WI_SIM_TAKING:
        if (wi_sched_is_send(st->kind)) {
            ask(s, lane, WI_SIM_SENDING, s->paths[l->path].send_us, 0, WI_SIM_SEND);
            return;
        }
        break;
    case WI_SIM_SENDING:
        wi_sim_post(s, lane);
        break;
    default:
        break;
    }
    unit_over(s, lane, st);
}

/* ---- Mapped ---- */

static uint64_t signal_number(uint32_t slice, unsigned ordinal)
{
    return (uint64_t)slice * (WI_SCHED_MAX_SIGNALS + 1) + ordinal + 1;
}

static void slice_over(struct wi_sim *s, uint32_t rank, uint32_t cause)
{
    struct wi_sim_rank *r = &s->ranks[rank];
    uint32_t before = s->slices_over, done = s->nslices;

    for (uint32_t i = 0; i < r->sched->nlanes; i++)
        if (s->lanes[r->first_lane + i].slice < done)
            done = s->lanes[r->first_lane + i].slice;
    while (r->slices_done < done)
        s->slice_ranks[r->slices_done++]++;
    while (s->slices_over < s->nslices && s->slice_ranks[s->slices_over] == (uint32_t)s->nranks)
        s->slices_over++;
    if (s->slices_over > before)
        wi_sim_wake(s, &s->gate_waiters, cause);
}

static void step_over(struct wi_sim *s, uint32_t lane)
{
    struct wi_sim_lane *l = &s->lanes[lane];

    l->phase = WI_SIM_ENTER;
    l->step++;
    wi_sim_wake(s, &l->waiters, l->cause);
}

/* A row of waits is over once, not wait by wait: their cache misses are under way together. */
static void wait_mapped(struct wi_sim *s, uint32_t lane, const struct wi_step *st)
{
    struct wi_sim_lane *l = &s->lanes[lane];
    uint32_t other = s->ranks[st->peer].first_lane + st->lane;

    if (s->lanes[other].signalled < signal_number(l->slice, st->ordinal)) {
        wait_on(s, lane, &s->lanes[other].waiters, WI_SIM_ON_LANE);
        return;
    }
    if ((l->step + 1 < plan_of(s, l)->nsteps && st[1].kind == WI_STEP_WAIT) || s->model->mapped_us <= 0) {
        step_over(s, lane);
        return;
    }
    l->phase = WI_SIM_LOCAL;
    l->block = WI_SIM_ON_WAIT;
    l->cause = wi_sim_span(s, lane, WI_SIM_WAIT, s->now, s->now + s->model->mapped_us, 0, l->cause);
    wi_sim_event_add(s, s->now + s->model->mapped_us, WI_SIM_AT_WAITED, lane);
}

static void enter_mapped(struct wi_sim *s, uint32_t lane, const struct wi_step *st)
{
    struct wi_sim_lane *l = &s->lanes[lane];
    uint64_t work = 0;

    if (!dep_met(s, l, st)) {
        wait_on(s, lane, &s->lanes[s->ranks[l->rank].first_lane + (uint32_t)st->dep_lane].waiters, WI_SIM_ON_LANE);
        return;
    }
    switch (st->kind) {
    case WI_STEP_SIGNAL:
        l->signalled = signal_number(l->slice, st->ordinal);
        step_over(s, lane);
        return;
    case WI_STEP_WAIT:
        wait_mapped(s, lane, st);
        return;
    case WI_STEP_COPY:
    case WI_STEP_REDUCE:
        l->bytes = 0;
        for (l->piece = 0; l->piece < wi_sim_pieces(s, s->ranks[l->rank].sched, st); l->piece++) {
            uint64_t bytes = wi_sim_unit_bytes(s, s->ranks[l->rank].sched, st, l->slice, l->piece);
            work += local_work(s, l, st, bytes);
            l->bytes += bytes;
        }
        l->piece = 0;
        ask_local(s, lane, st, work);
        return;
    default:
        step_over(s, lane);
    }
}

static void move_mapped(struct wi_sim *s, uint32_t lane)
{
    struct wi_sim_lane *l = &s->lanes[lane];
    const struct wi_step *st = wi_sim_step(s, l);

    if (l->slice >= s->nslices) {
        lane_ended(s, lane);
    } else if (l->step == 0 && l->phase == WI_SIM_ENTER && l->slice >= s->slices_over + s->options.nslots) {
        wait_on(s, lane, &s->gate_waiters, WI_SIM_ON_GATE);
    } else if (!st) {
        l->step = 0;
        l->slice++;
        wi_sim_wake(s, &l->waiters, l->cause);
        slice_over(s, l->rank, l->cause);
    } else if (l->phase == WI_SIM_ENTER) {
        enter_mapped(s, lane, st);
    } else {
        step_over(s, lane);
    }
}

void wi_sim_lane_run(struct wi_sim *s, uint32_t lane)
{
    struct wi_sim_lane *l = &s->lanes[lane];

    while (s->status >= 0 && l->block == WI_SIM_READY && !l->ended) {
        if (s->mapped)
            move_mapped(s, lane);
        else
            move_two_sided(s, lane);
    }
}
