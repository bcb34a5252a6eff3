/* SPDX-License-Identifier: BSD-3-Clause */
/* Cores and wires: what takes time on a rank's core, and messages on their way. */
#include <math.h>

#include "base/status.h"
#include "sched/internal.h"
#include "sim/engine.h"

uint32_t wi_sim_span(struct wi_sim *s, uint32_t lane, unsigned kind, double start, double end, uint64_t bytes,
                     uint32_t cause)
{
    const struct wi_sim_lane *l = &s->lanes[lane];
    const struct wi_lane *plan = &s->ranks[l->rank].sched->lanes[l->index];

    if (!s->options.record)
        return WI_SIM_NONE;
    if (s->nspans >= WI_SIM_MAX_SPANS) {
        if (s->status >= 0)
            s->status = wi_fail(WEFT_ENOTSUP, "simulation: more than %u spans to record", WI_SIM_MAX_SPANS);
        return WI_SIM_NONE;
    }
    if (!wi_sim_room(s, &s->spans, s->nspans, &s->span_capacity, sizeof *s->spans))
        return WI_SIM_NONE;
    s->spans[s->nspans] = (struct wi_sim_span){
        .start = start,
        .end = end,
        .drained = end,
        .bytes = bytes,
        .rank = (int32_t)l->rank,
        .peer = kind == WI_SIM_WIRE || kind == WI_SIM_SEND ? plan->send_peer : plan->recv_peer,
        .lane = l->index,
        .step = l->step,
        .slice = l->slice,
        .cause = cause,
        .resource = WI_SIM_NONE,
        .kind = (uint8_t)kind,
    };
    return s->nspans++;
}

/* ---- Cores ---- */

static double work_rate(const struct wi_sim *s, const struct wi_sim_lane *l)
{
    const struct wi_model_rank *m = &s->model->ranks[l->rank];

    return (l->span_kind == WI_SIM_REDUCE ? m->reduce_rate : m->copy_rate) / s->ranks[l->rank].slow;
}

/* Call fn for each memory, besides the rank's own, that the step's regions lie in, with the bytes there. */
static void uses_others(struct wi_sim *s, const struct wi_sim_lane *l, uint32_t flow)
{
    const struct wi_sched *sched = s->ranks[l->rank].sched;
    const struct wi_step *st = wi_sim_step(s, l);

    for (uint32_t i = 0; i < (uint32_t)st->ndst + st->nsrc; i++) {
        const struct wi_region *r = &sched->regions[i < st->ndst ? st->dst + i : st->src + i - st->ndst];
        int32_t memory = s->model->ranks[wi_sched_owner(sched, r)].memory;
        if (memory >= 0 && memory != s->model->ranks[l->rank].memory)
            wi_sim_flow_uses(s, flow, (uint32_t)memory, (double)l->bytes / (double)l->work);
    }
}

static int has_memory(const struct wi_sim *s, const struct wi_sim_lane *l)
{
    return l->work && (s->model->ranks[l->rank].memory >= 0 || s->mapped);
}

static void work_begin(struct wi_sim *s, uint32_t rank)
{
    struct wi_sim_lane *l = &s->lanes[s->ranks[rank].core];
    int32_t memory = s->model->ranks[rank].memory;
    uint32_t flow = wi_sim_flow_begin(s, (double)l->work, work_rate(s, l));

    if (flow == WI_SIM_NONE)
        return;
    s->ranks[rank].core_working = 1;
    s->flows[flow].is_work = 1;
    s->flows[flow].owner = rank;
    if (memory >= 0)
        wi_sim_flow_uses(s, flow, (uint32_t)memory, 1);
    if (s->mapped)
        uses_others(s, l, flow);
    if (s->flows[flow].edges == WI_SIM_NONE) { /* no memory to share: its own rate */
        double rate = s->flows[flow].cap;
        s->flows[flow].rate = rate;
        wi_sim_event_set(s, flow, s->now + (isinf(rate) ? 0 : (double)l->work / rate));
    }
}

static void core_begin(struct wi_sim *s, uint32_t lane)
{
    struct wi_sim_lane *l = &s->lanes[lane];
    struct wi_sim_rank *r = &s->ranks[l->rank];
    double us = l->over_us * r->slow, rate = work_rate(s, l);

    r->core = lane;
    r->core_since = s->now;
    r->core_working = 0;
    if (!has_memory(s, l)) {
        r->core_working = 1;
        us += l->work && !isinf(rate) ? (double)l->work / rate : 0;
    } else if (us <= 0) {
        work_begin(s, l->rank);
        return;
    }
    wi_sim_event_add(s, s->now + us, WI_SIM_AT_CORE, l->rank);
}

int wi_sim_core_ask(struct wi_sim *s, uint32_t lane)
{
    struct wi_sim_lane *l = &s->lanes[lane];
    struct wi_sim_rank *r = &s->ranks[l->rank];

    l->next = WI_SIM_NONE;
    if (r->core == WI_SIM_NONE) {
        if (l->over_us <= 0 && (!l->work || (!has_memory(s, l) && isinf(work_rate(s, l)))))
            return 1;
        core_begin(s, lane);
        return 0;
    }
    if (r->queue == WI_SIM_NONE)
        r->queue = lane;
    else
        s->lanes[r->queue_tail].next = lane;
    r->queue_tail = lane;
    return 0;
}

/* The overhead or the work is over. */
void wi_sim_core_done(struct wi_sim *s, uint32_t rank)
{
    struct wi_sim_rank *r = &s->ranks[rank];
    uint32_t lane = r->core, next = r->queue;

    if (!r->core_working) {
        work_begin(s, rank);
        return;
    }
    struct wi_sim_lane *l = &s->lanes[lane];
    uint32_t span = s->now > r->core_since
                        ? wi_sim_span(s, lane, l->span_kind, r->core_since, s->now, l->bytes, l->cause)
                        : l->cause;
    r->core = WI_SIM_NONE;
    wi_sim_ready(s, lane, span);
    if (next == WI_SIM_NONE)
        return;
    r->queue = s->lanes[next].next;
    s->lanes[next].cause = span;
    core_begin(s, next);
}

/* ---- Wires ---- */

static void pending_add(struct wi_sim *s, struct wi_sim_rank *r, uint32_t m)
{
    s->messages[m].before = WI_SIM_NONE;
    s->messages[m].after = r->pending;
    if (r->pending != WI_SIM_NONE)
        s->messages[r->pending].before = m;
    r->pending = m;
}

static void pending_remove(struct wi_sim *s, struct wi_sim_rank *r, uint32_t m)
{
    const struct wi_sim_message *msg = &s->messages[m];

    if (msg->before != WI_SIM_NONE)
        s->messages[msg->before].after = msg->after;
    else
        r->pending = msg->after;
    if (msg->after != WI_SIM_NONE)
        s->messages[msg->after].before = msg->before;
}

int wi_sim_being_sent(const struct wi_sim *s, uint32_t rank, uint32_t buf, uint64_t from, uint64_t bytes)
{
    for (uint32_t m = s->ranks[rank].pending; m != WI_SIM_NONE; m = s->messages[m].after) {
        const struct wi_sim_message *msg = &s->messages[m];
        if (msg->buf == buf && msg->from < from + bytes && from < msg->from + msg->bytes)
            return 1;
    }
    return 0;
}

/* The head of the wire has left: it arrives after the latency, and the next one begins. */
static void leave(struct wi_sim *s, uint32_t lane, uint32_t limit)
{
    struct wi_sim_lane *l = &s->lanes[lane];
    struct wi_sim_rank *r = &s->ranks[l->rank];
    uint32_t m = l->wire, span = s->messages[m].span;
    double arrival = s->now + s->paths[l->path].latency;

    l->wire = s->messages[m].next;
    l->nsending--;
    if (span != WI_SIM_NONE) {
        s->spans[span].drained = s->now;
        s->spans[span].end = arrival;
        s->spans[span].resource = limit;
    }
    if (r->overwrites) {
        pending_remove(s, r, m);
        wi_sim_wake(s, &r->drain_waiters, span);
    }
    wi_sim_event_add(s, arrival, WI_SIM_AT_ARRIVAL, m);
    if (l->wire != WI_SIM_NONE) {
        s->messages[l->wire].cause = span;
    } else if (l->ended) {
        l->cause = span;
        wi_sim_lane_check_end(s, lane);
    }
}

static void wire_run(struct wi_sim *s, uint32_t lane)
{
    struct wi_sim_lane *l = &s->lanes[lane];

    while (l->wire != WI_SIM_NONE && s->status >= 0) {
        struct wi_sim_message *m = &s->messages[l->wire];
        const struct wi_model_path *p = &s->paths[l->path];
        m->span = wi_sim_span(s, lane, WI_SIM_WIRE, s->now, s->now, m->bytes, m->cause);
        if (m->span != WI_SIM_NONE) {
            s->spans[m->span].step = m->step;
            s->spans[m->span].slice = m->slice;
        }
        if (!m->bytes || !p->nresources) {
            leave(s, lane, WI_SIM_NONE);
            continue;
        }
        l->flow = wi_sim_flow_begin(s, (double)m->bytes, INFINITY);
        if (l->flow == WI_SIM_NONE)
            return;
        s->flows[l->flow].owner = lane;
        for (int i = 0; i < p->nresources; i++)
            wi_sim_flow_uses(s, l->flow, p->resources[i], 1);
        return;
    }
}

static uint32_t message_get(struct wi_sim *s)
{
    uint32_t m = s->free_message;

    if (m != WI_SIM_NONE) {
        s->free_message = s->messages[m].next;
        return m;
    }
    if (!wi_sim_room(s, &s->messages, s->nmessages, &s->message_capacity, sizeof *s->messages))
        return WI_SIM_NONE;
    return s->nmessages++;
}

void wi_sim_post(struct wi_sim *s, uint32_t lane)
{
    struct wi_sim_lane *l = &s->lanes[lane];
    struct wi_sim_rank *r = &s->ranks[l->rank];
    const struct wi_step *st = wi_sim_step(s, l);
    const struct wi_region *region = &r->sched->regions[st->kind == WI_STEP_SEND ? st->src : st->dst];
    uint32_t m = message_get(s), buf;

    if (m == WI_SIM_NONE)
        return;
    uint64_t from = wi_sim_place(s, r->sched, region, l->slice, l->piece, &buf);
    s->messages[m] = (struct wi_sim_message){lane,    WI_SIM_NONE, WI_SIM_NONE, WI_SIM_NONE, WI_SIM_NONE, l->cause,
                                             l->step, l->slice,    buf,         from,        l->bytes};
    s->messages_sent++;
    l->nsending++;
    if (r->overwrites)
        pending_add(s, r, m);
    int idle = l->wire == WI_SIM_NONE;
    if (idle)
        l->wire = m;
    else
        s->messages[l->wire_tail].next = m;
    l->wire_tail = m;
    if (idle)
        wire_run(s, lane);
}

void wi_sim_drained(struct wi_sim *s, uint32_t flow)
{
    uint32_t owner = s->flows[flow].owner, limit = s->flows[flow].limit;
    int is_work = s->flows[flow].is_work;

    wi_sim_flow_end(s, flow);
    if (is_work) {
        wi_sim_core_done(s, owner);
        return;
    }
    leave(s, owner, limit);
    wire_run(s, owner);
}

void wi_sim_arrived(struct wi_sim *s, uint32_t message)
{
    uint32_t to = s->lanes[s->messages[message].lane].to;
    struct wi_sim_lane *l = &s->lanes[to];

    s->messages[message].next = WI_SIM_NONE;
    if (l->inbox == WI_SIM_NONE)
        l->inbox = message;
    else
        s->messages[l->inbox_tail].next = message;
    l->inbox_tail = message;
    if (l->block == WI_SIM_ON_INBOX)
        wi_sim_ready(s, to, s->messages[message].span);
}
