/* SPDX-License-Identifier: BSD-3-Clause */
/* Setting a simulation up, running its events, and its result. */
#include "sim/sim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "sched/internal.h"
#include "sim/engine.h"

/* Events closer than this are one instant: what is symmetrical must not fall apart by rounding. */
#define INSTANT_US 1e-9
#define INSTANT_SHARE 1e-13

const char *wi_sim_span_name(unsigned kind)
{
    static const char *const names[] = {
#define WI_SIM_SPAN_TEXT(name, text) text,
        WI_SIM_SPAN_LIST(WI_SIM_SPAN_TEXT)
#undef WI_SIM_SPAN_TEXT
    };
    return kind < WI_SIM_NUM_SPANS ? names[kind] : "?";
}

/* ---- Do the arguments fit together? ---- */

static weft_status check_sched(const struct wi_sched *first, const struct wi_sched *sched, int rank, int nranks)
{
    if (!sched)
        return wi_fail(WEFT_EINVAL, "simulation: no schedule of rank %d", rank);
    if (sched->rank != rank || sched->nranks != nranks)
        return wi_fail(WEFT_EINVAL, "simulation: schedule %d of %d is of rank %d of %d", rank, nranks, sched->rank,
                       sched->nranks);
    if (sched->staged)
        return wi_fail(
            WEFT_ENOTSUP,
            "simulation: %s %s has stages through slots, which are priced by formula (weft-plan explain) and not "
            "simulated",
            wi_coll_name(sched->coll), sched->algo);
    if (sched->coll != first->coll || sched->nblocks != first->nblocks || sched->mapped != first->mapped ||
        (first->mapped && sched->buf_blocks[WI_TMP] != first->buf_blocks[WI_TMP]))
        return wi_fail(WEFT_EINVAL,
                       "simulation: the schedules of ranks 0 (%s %s) and %d (%s %s) are not of one operation",
                       wi_coll_name(first->coll), first->algo, rank, wi_coll_name(sched->coll), sched->algo);
    return WEFT_SUCCESS;
}

static weft_status check_factors(const struct wi_sim_options *o, const struct wi_model *model)
{
    for (uint32_t i = 0; o->link_factor && i < model->nresources; i++)
        if (!(o->link_factor[i] >= 0) || !isfinite(o->link_factor[i]))
            return wi_fail(WEFT_EINVAL, "simulation: factor %g of %s is not 0 or more", o->link_factor[i],
                           model->resources[i].name);
    for (int r = 0; r < model->nranks; r++) {
        if (o->core_factor && (!(o->core_factor[r] > 0) || !isfinite(o->core_factor[r])))
            return wi_fail(WEFT_EINVAL, "simulation: factor %g of rank %d's core is not above 0", o->core_factor[r], r);
        if (o->start_us && (!(o->start_us[r] >= 0) || !isfinite(o->start_us[r])))
            return wi_fail(WEFT_EINVAL, "simulation: rank %d's start at %g us is not 0 or later", r, o->start_us[r]);
    }
    return WEFT_SUCCESS;
}

static weft_status check_units(const struct wi_sim *s)
{
    double units = 0;

    for (int r = 0; r < s->nranks; r++) {
        const struct wi_sched *sched = s->scheds[r];
        for (uint32_t i = 0; i < sched->nsteps; i++)
            units += (double)wi_sim_pieces(s, sched, &sched->steps[i]) * s->nslices;
    }
    if (units > (double)WI_SIM_MAX_UNITS)
        return wi_fail(WEFT_ENOTSUP, "simulation: %.0f messages and local pieces are more than %llu: use larger slices",
                       units, WI_SIM_MAX_UNITS);
    return WEFT_SUCCESS;
}

/* ---- Set up ---- */

static void *array(struct wi_sim *s, size_t count, size_t bytes)
{
    void *a = s->status >= 0 ? wi_calloc(count ? count : 1, bytes) : NULL;

    if (!a && s->status >= 0)
        s->status = wi_fail(WEFT_ENOMEM, "simulation: no memory for %zu objects of %zu bytes", count, bytes);
    return a;
}

static weft_status make_resources(struct wi_sim *s)
{
    s->nresources = s->model->nresources;
    s->resources = array(s, s->nresources, sizeof *s->resources);
    s->dirty = array(s, s->nresources, sizeof *s->dirty);
    s->component_resources = array(s, s->nresources, sizeof *s->component_resources);
    s->shares = array(s, s->nresources, sizeof *s->shares);
    for (uint32_t i = 0; s->status >= 0 && i < s->nresources; i++) {
        s->resources[i].rate = s->model->resources[i].rate * (s->options.link_factor ? s->options.link_factor[i] : 1);
        s->resources[i].edges = WI_SIM_NONE;
    }
    return s->status;
}

/* Is there a step that stores where a send may still read? If not, stores need no check. */
static int overwrites(const struct wi_sched *sched)
{
    unsigned sent = 0, stored = 0;

    for (uint32_t i = 0; i < sched->nsteps; i++) {
        const struct wi_step *st = &sched->steps[i];
        for (uint32_t d = 0; d < st->ndst; d++)
            stored |= 1u << wi_sched_canonical(sched, sched->rank, sched->regions[st->dst + d]).buf;
        if (st->kind == WI_STEP_SEND)
            sent |= 1u << wi_sched_canonical(sched, sched->rank, sched->regions[st->src]).buf;
        else if (wi_sched_is_send(st->kind))
            sent |= 1u << wi_sched_canonical(sched, sched->rank, sched->regions[st->dst]).buf;
    }
    return (sent & stored) != 0;
}

static void make_rank(struct wi_sim *s, int rank, uint32_t first_lane)
{
    struct wi_sim_rank *r = &s->ranks[rank];

    *r = (struct wi_sim_rank){
        .sched = s->scheds[rank],
        .first_lane = first_lane,
        .nlanes_left = s->scheds[rank]->nlanes,
        .core = WI_SIM_NONE,
        .queue = WI_SIM_NONE,
        .overwrites = !s->mapped && overwrites(s->scheds[rank]),
        .pending = WI_SIM_NONE,
        .drain_waiters = WI_SIM_NONE,
        .start = s->options.start_us ? s->options.start_us[rank] : 0,
        .slow = s->options.core_factor ? s->options.core_factor[rank] : 1,
        .last = WI_SIM_NONE,
    };
    for (uint32_t i = 0; i < r->sched->nlanes; i++)
        s->lanes[first_lane + i] = (struct wi_sim_lane){.rank = (uint32_t)rank,
                                                        .index = i,
                                                        .block = WI_SIM_ON_START,
                                                        .cause = WI_SIM_NONE,
                                                        .next = WI_SIM_NONE,
                                                        .waiters = WI_SIM_NONE,
                                                        .to = WI_SIM_NONE,
                                                        .from = WI_SIM_NONE,
                                                        .path = WI_SIM_NONE,
                                                        .wire = WI_SIM_NONE,
                                                        .inbox = WI_SIM_NONE};
}

static weft_status make_ranks(struct wi_sim *s)
{
    uint64_t nlanes = 0;

    for (int r = 0; r < s->nranks; r++)
        nlanes += s->scheds[r]->nlanes;
    if (nlanes > WI_SIM_NONE / 4)
        return wi_fail(WEFT_ENOTSUP, "simulation: %llu lanes are too many", (unsigned long long)nlanes);
    s->nlanes = (uint32_t)nlanes;
    s->ranks = array(s, (size_t)s->nranks, sizeof *s->ranks);
    s->lanes = array(s, s->nlanes, sizeof *s->lanes);
    s->slice_ranks = array(s, s->mapped ? s->nslices : 1, sizeof *s->slice_ranks);
    for (uint32_t r = 0, at = 0; s->status >= 0 && r < (uint32_t)s->nranks; r++) {
        make_rank(s, (int)r, at);
        at += s->scheds[r]->nlanes;
        if (!s->scheds[r]->nlanes)
            s->ranks[r].finish = s->ranks[r].start;
        else
            s->ranks_left++;
    }
    return s->status;
}

/* ---- Who sends to whom ---- */

struct end { /* of a channel: its receiving lane */
    int32_t rank, peer;
    uint32_t chan, lane;
};

static int by_channel(const void *a, const void *b)
{
    const struct end *x = a, *y = b;

    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->peer != y->peer)
        return x->peer < y->peer ? -1 : 1;
    return x->chan < y->chan ? -1 : x->chan > y->chan;
}

static int lane_sends(const struct wi_sched *sched, const struct wi_lane *lane)
{
    for (uint32_t i = 0; i < lane->nsteps; i++)
        if (wi_sched_is_send(sched->steps[lane->first_step + i].kind))
            return 1;
    return 0;
}

static weft_status find_path(struct wi_sim *s, uint32_t lane, int from, int to)
{
    if (!wi_sim_room(s, &s->paths, s->npaths, &s->path_capacity, sizeof *s->paths))
        return s->status;
    struct wi_model_path *p = &s->paths[s->npaths];
    memset(p, 0, sizeof *p);
    s->model->path(s->model, from, to, p);
    s->lanes[lane].path = s->npaths++;
    if (p->nresources < 0 || p->nresources > WI_MODEL_MAX_PATH)
        return wi_fail(WEFT_EINVAL, "model: the path from rank %d to %d has %d resources", from, to, p->nresources);
    for (int i = 0; i < p->nresources; i++)
        if (p->resources[i] >= s->nresources)
            return wi_fail(WEFT_EINVAL, "model: the path from rank %d to %d uses resource %u of %u", from, to,
                           p->resources[i], s->nresources);
    return WEFT_SUCCESS;
}

static weft_status join(struct wi_sim *s, uint32_t lane, const struct end *ends, uint32_t nends)
{
    const struct wi_sim_lane *l = &s->lanes[lane];
    const struct wi_sched *sched = s->scheds[l->rank];
    const struct wi_lane *plan = &sched->lanes[l->index];

    if (plan->send_peer < 0 || !lane_sends(sched, plan))
        return WEFT_SUCCESS;
    struct end key = {plan->send_peer, sched->rank, plan->chan, 0};
    const struct end *e = bsearch(&key, ends, nends, sizeof *ends, by_channel);
    if (!e)
        return wi_fail(WEFT_EINVAL, "rank %d lane %u sends to rank %d on channel %u, which never receives there",
                       sched->rank, l->index, plan->send_peer, plan->chan);
    s->lanes[lane].to = e->lane;
    s->lanes[e->lane].from = lane;
    return find_path(s, lane, sched->rank, plan->send_peer);
}

static weft_status join_lanes(struct wi_sim *s)
{
    struct end *ends = array(s, s->nlanes, sizeof *ends);
    uint32_t nends = 0;

    for (uint32_t i = 0; s->status >= 0 && i < s->nlanes; i++) {
        const struct wi_lane *plan = &s->scheds[s->lanes[i].rank]->lanes[s->lanes[i].index];
        if (plan->recv_peer >= 0)
            ends[nends++] = (struct end){(int32_t)s->lanes[i].rank, plan->recv_peer, plan->chan, i};
    }
    if (nends)
        qsort(ends, nends, sizeof *ends, by_channel);
    for (uint32_t i = 0; s->status >= 0 && i < s->nlanes; i++)
        s->status = join(s, i, ends, nends);
    wi_free(ends);
    return s->status;
}

/* Waits must name lanes that exist. */
static weft_status check_waits(const struct wi_sim *s)
{
    for (int r = 0; s->mapped && r < s->nranks; r++)
        for (uint32_t i = 0; i < s->scheds[r]->nsteps; i++) {
            const struct wi_step *st = &s->scheds[r]->steps[i];
            if (st->kind == WI_STEP_WAIT &&
                (st->peer < 0 || st->peer >= s->nranks || st->lane >= s->scheds[st->peer]->nlanes))
                return wi_fail(WEFT_EINVAL, "rank %d waits for lane %u of rank %d, which there is not", r, st->lane,
                               st->peer);
        }
    return WEFT_SUCCESS;
}

static weft_status set_up(struct wi_sim *s, size_t bytes)
{
    for (int r = 0; r < s->nranks; r++)
        WI_TRY(check_sched(s->scheds[0], s->scheds[r], r, s->nranks));
    WI_TRY(check_factors(&s->options, s->model));
    WI_TRY(wi_sim_cut(s, bytes));
    WI_TRY(check_units(s));
    WI_TRY(make_resources(s));
    WI_TRY(make_ranks(s));
    WI_TRY(check_waits(s));
    WI_TRY(join_lanes(s));
    for (int r = 0; r < s->nranks; r++)
        if (s->scheds[r]->nlanes)
            WI_TRY(wi_sim_event_add(s, s->ranks[r].start, WI_SIM_AT_START, (uint32_t)r));
    return WEFT_SUCCESS;
}

static void tear_down(struct wi_sim *s)
{
    wi_free(s->heap);
    wi_free(s->resources);
    wi_free(s->dirty);
    wi_free(s->component_resources);
    wi_free(s->shares);
    wi_free(s->component);
    wi_free(s->edges);
    wi_free(s->flows);
    wi_free(s->messages);
    wi_free(s->paths);
    wi_free(s->ranks);
    wi_free(s->lanes);
    wi_free(s->slice_ranks);
    wi_free(s->spans);
}

/* ---- Run ---- */

static void handle(struct wi_sim *s, const struct wi_sim_event *e)
{
    switch (e->kind) {
    case WI_SIM_AT_START:
        for (uint32_t i = 0; i < s->scheds[e->id]->nlanes; i++)
            wi_sim_ready(s, s->ranks[e->id].first_lane + i, WI_SIM_NONE);
        return;
    case WI_SIM_AT_DRAINED:
        wi_sim_drained(s, e->id);
        return;
    case WI_SIM_AT_ARRIVAL:
        wi_sim_arrived(s, e->id);
        return;
    case WI_SIM_AT_CORE:
        wi_sim_core_done(s, e->id);
        return;
    default:
        wi_sim_ready(s, e->id, s->lanes[e->id].cause);
        return;
    }
}

static weft_status run(struct wi_sim *s)
{
    while (s->status >= 0) {
        while (s->ready != WI_SIM_NONE && s->status >= 0) {
            uint32_t lane = s->ready;
            s->ready = s->lanes[lane].next;
            wi_sim_lane_run(s, lane);
        }
        wi_sim_flows_settle(s);
        if (!s->nheap || s->status < 0)
            break;
        s->now = s->heap[0].time;
        double until = s->now + INSTANT_US + s->now * INSTANT_SHARE;
        while (s->nheap && s->heap[0].time <= until && s->status >= 0) {
            struct wi_sim_event e = wi_sim_event_pop(s);
            handle(s, &e);
        }
    }
    if (s->status < 0)
        return s->status;
    return s->ranks_left ? wi_sim_explain(s) : WEFT_SUCCESS;
}

/* ---- The result ---- */

void wi_sim_result_free(struct wi_sim_result *result)
{
    if (!result)
        return;
    wi_free(result->rank_us);
    wi_free(result->rank_last);
    wi_free(result->use);
    wi_free(result->spans);
    wi_free(result);
}

static weft_status make_result(struct wi_sim *s, struct wi_sim_result **result)
{
    struct wi_sim_result *r = array(s, 1, sizeof *r);
    double *rank_us = array(s, (size_t)s->nranks, sizeof *rank_us);
    uint32_t *rank_last = array(s, (size_t)s->nranks, sizeof *rank_last);
    struct wi_sim_use *use = array(s, s->nresources, sizeof *use);

    if (s->status < 0) {
        wi_free(r);
        wi_free(rank_us);
        wi_free(rank_last);
        wi_free(use);
        return s->status;
    }
    *r = (struct wi_sim_result){.nranks = s->nranks,
                                .rank_us = rank_us,
                                .rank_last = rank_last,
                                .nresources = s->nresources,
                                .use = use,
                                .nmessages = s->messages_sent,
                                .nevents = s->nevents,
                                .spans = s->spans,
                                .nspans = s->nspans};
    s->spans = NULL;
    for (int i = 0; i < s->nranks; i++) {
        rank_us[i] = s->ranks[i].finish;
        rank_last[i] = s->ranks[i].last;
        r->finish_us = rank_us[i] > r->finish_us ? rank_us[i] : r->finish_us;
    }
    for (uint32_t i = 0; i < s->nresources; i++)
        use[i] = (struct wi_sim_use){s->resources[i].used, s->resources[i].busy};
    *result = r;
    return WEFT_SUCCESS;
}

weft_status wi_sim_run(const struct wi_sched *const scheds[], int nranks, size_t bytes, const struct wi_model *model,
                       const struct wi_sim_options *options, struct wi_sim_result **result)
{
    struct wi_sim s = {
        .scheds = scheds,
        .model = model,
        .nranks = nranks,
        .free_edge = WI_SIM_NONE,
        .free_flow = WI_SIM_NONE,
        .free_message = WI_SIM_NONE,
        .ready = WI_SIM_NONE,
        .gate_waiters = WI_SIM_NONE,
    };
    weft_status st;

    if (nranks < 1 || !scheds || !scheds[0] || !model || model->nranks != nranks)
        return wi_fail(WEFT_EINVAL, "simulation: %d ranks with a model of %d", nranks, model ? model->nranks : 0);
    if (options)
        s.options = *options;
    if (!s.options.nslots)
        s.options.nslots = WI_SIM_NSLOTS;
    st = set_up(&s, bytes);
    if (st >= 0)
        st = run(&s);
    if (st >= 0)
        st = make_result(&s, result);
    tear_down(&s);
    return st;
}
