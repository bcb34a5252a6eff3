/* SPDX-License-Identifier: BSD-3-Clause */
/* Costs of schedules without a record: by events, by loads, by formula. */
#include "sim/cost.h"

#include <math.h>

#include "base/alloc.h"
#include "base/status.h"
#include "sched/internal.h"
#include "sim/engine.h"

/* ---- By events ---- */

static double units_of(const struct wi_sim *cut)
{
    double units = 0;

    for (int r = 0; r < cut->nranks; r++)
        for (uint32_t i = 0; i < cut->scheds[r]->nsteps; i++)
            units += (double)wi_sim_pieces(cut, cut->scheds[r], &cut->scheds[r]->steps[i]) * cut->nslices;
    return units;
}

/* Of the rank that has most: with many messages under way at once, every event touches many flows. */
static double most_lanes(const struct wi_sim *cut)
{
    uint32_t most = 1;

    for (int r = 0; r < cut->nranks; r++)
        most = cut->scheds[r]->nlanes > most ? cut->scheds[r]->nlanes : most;
    return most;
}

static int affordable(const struct wi_sim *cut, double times, uint32_t most)
{
    double units = units_of(cut) * times;

    return units <= most && units * most_lanes(cut) <= 4.0 * most;
}

static weft_status cut_of(const struct wi_sched *const scheds[], int nranks, size_t bytes, size_t slice_bytes,
                          struct wi_sim *cut)
{
    *cut = (struct wi_sim){.scheds = scheds, .nranks = nranks, .options = {.slice_bytes = slice_bytes}};
    return wi_sim_cut(cut, bytes);
}

static void use_of(const struct wi_sim_result *r, const struct wi_model *model, struct wi_sim_cost *cost)
{
    for (uint32_t i = 0; i < r->nresources; i++) {
        double us = r->use[i].bytes / model->resources[i].rate;
        if (us <= cost->busiest_us)
            continue;
        cost->busiest = i;
        cost->busiest_us = us;
    }
}

static weft_status by_events(const struct wi_sched *const scheds[], int nranks, size_t bytes,
                             const struct wi_model *model, size_t slice_bytes, struct wi_sim_cost *cost)
{
    struct wi_sim_options o = {.slice_bytes = slice_bytes};
    struct wi_sim_result *r;

    WI_TRY(wi_sim_run(scheds, nranks, bytes, model, &o, &r));
    cost->us = r->finish_us;
    cost->by_events = 1;
    use_of(r, model, cost);
    wi_sim_result_free(r);
    return WEFT_SUCCESS;
}

/* The finest cut that is affordable, and one twice as coarse. */
static weft_status extrapolate(const struct wi_sched *const scheds[], int nranks, size_t bytes,
                               const struct wi_model *model, const struct wi_sim *want, uint32_t units,
                               struct wi_sim_cost *cost)
{
    struct wi_sim_cost coarse = {.busiest = WI_SIM_NONE};
    uint32_t nslices = want->nslices;
    double fine_bytes, coarse_bytes;
    struct wi_sim cut;

    do {
        nslices = (nslices + 1) / 2;
        WI_TRY(cut_of(scheds, nranks, bytes, want->block_bytes / nslices + 64, &cut));
    } while (nslices > 2 && !affordable(&cut, 1, units));
    fine_bytes = (double)cut.slice_bytes;
    WI_TRY(by_events(scheds, nranks, bytes, model, cut.slice_bytes, cost));
    WI_TRY(cut_of(scheds, nranks, bytes, 2 * cut.slice_bytes, &cut));
    coarse_bytes = (double)cut.slice_bytes;
    WI_TRY(by_events(scheds, nranks, bytes, model, cut.slice_bytes, &coarse));
    double slope = coarse_bytes > fine_bytes ? (coarse.us - cost->us) / (coarse_bytes - fine_bytes) : 0;
    double us = cost->us - (slope > 0 ? slope : 0) * (fine_bytes - (double)want->slice_bytes);
    cost->us = us > cost->busiest_us ? us : cost->busiest_us;
    return WEFT_SUCCESS;
}

/* ---- By loads ---- */

struct loads {
    double *bytes; /* of each resource */
    double alpha, core_us;
    uint32_t steps;
};

/* Bytes that all units of a step handle. */
static double step_bytes(const struct wi_sim *cut, const struct wi_sched *sched, const struct wi_step *st)
{
    struct wi_sim whole = *cut;

    whole.nslices = 1;
    whole.slice_bytes = whole.block_bytes;
    return st->nsrc + st->ndst ? (double)wi_sim_unit_bytes(&whole, sched, st, 0, 0) : 0;
}

static void load_lane(const struct wi_sim *cut, const struct wi_model *m, const struct wi_sched *sched,
                      const struct wi_lane *lane, struct loads *loads, double *core_us)
{
    const struct wi_model_rank *rank = &m->ranks[sched->rank];
    struct wi_model_path path = {0};
    double sent = 0, messages = 0;

    for (uint32_t i = 0; i < lane->nsteps; i++) {
        const struct wi_step *st = &sched->steps[lane->first_step + i];
        double bytes = step_bytes(cut, sched, st);
        if (wi_sched_is_send(st->kind)) {
            sent += bytes;
            messages++;
        }
        if (st->kind == WI_STEP_COPY || (st->kind == WI_STEP_REDUCE && st->nsrc == 1))
            *core_us += bytes * st->ndst / rank->copy_rate;
        else if (wi_sched_is_reducing(st->kind))
            *core_us += bytes * (st->kind == WI_STEP_REDUCE ? st->nsrc - 1u : 1u) / rank->reduce_rate;
    }
    if (!messages)
        return;
    m->path(m, sched->rank, lane->send_peer, &path);
    *core_us += messages * (path.send_us + path.recv_us);
    loads->alpha = fmax(loads->alpha, path.latency + path.send_us + path.recv_us);
    for (int i = 0; i < path.nresources; i++)
        loads->bytes[path.resources[i]] += sent;
}

static weft_status by_loads(const struct wi_sim *cut, const struct wi_model *m, struct wi_sim_cost *cost)
{
    struct loads loads = {.alpha = cut->mapped ? m->mapped_us : 0};
    double nslices = cut->nslices, longer, shorter;

    loads.bytes = wi_calloc(m->nresources ? m->nresources : 1, sizeof *loads.bytes);
    if (!loads.bytes)
        return wi_fail(WEFT_ENOMEM, "cost: no memory for %u resources", m->nresources);
    for (int r = 0; r < cut->nranks; r++) {
        const struct wi_sched *sched = cut->scheds[r];
        struct wi_sched_stats stats;
        double core_us = 0;
        for (uint32_t l = 0; l < sched->nlanes; l++)
            load_lane(cut, m, sched, &sched->lanes[l], &loads, &core_us);
        loads.core_us = fmax(loads.core_us, core_us);
        wi_sched_stats(sched, &stats);
        loads.steps = stats.steps_critical > loads.steps ? stats.steps_critical : loads.steps;
    }
    for (uint32_t i = 0; i < m->nresources; i++) {
        double us = loads.bytes[i] / m->resources[i].rate;
        if (us > cost->busiest_us) {
            cost->busiest = i;
            cost->busiest_us = us;
        }
    }
    wi_free(loads.bytes);
    longer = fmax(cost->busiest_us, loads.core_us);
    shorter = fmin(cost->busiest_us, loads.core_us);
    cost->busiest_core_us = loads.core_us;
    cost->us = loads.steps * loads.alpha + longer + shorter / nslices;
    return WEFT_SUCCESS;
}

weft_status wi_sim_cost_within(const struct wi_sched *const scheds[], int nranks, size_t bytes,
                               const struct wi_model *model, size_t slice_bytes, uint32_t units,
                               struct wi_sim_cost *cost)
{
    struct wi_sim_cost c = {.busiest = WI_SIM_NONE};
    struct wi_sim cut, whole;

    if (nranks < 1 || !scheds || !scheds[0] || !model || model->nranks != nranks)
        return wi_fail(WEFT_EINVAL, "cost: %d ranks with a model of %d", nranks, model ? model->nranks : 0);
    WI_TRY(cut_of(scheds, nranks, bytes, slice_bytes, &cut));
    WI_TRY(cut_of(scheds, nranks, bytes, 0, &whole));
    if (affordable(&cut, 1, units))
        WI_TRY(by_events(scheds, nranks, bytes, model, slice_bytes, &c));
    else if (cut.nslices > 2 && affordable(&whole, 4, units))
        WI_TRY(extrapolate(scheds, nranks, bytes, model, &cut, units, &c));
    else
        WI_TRY(by_loads(&cut, model, &c));
    *cost = c;
    return WEFT_SUCCESS;
}

weft_status wi_sim_cost(const struct wi_sched *const scheds[], int nranks, size_t bytes, const struct wi_model *model,
                        size_t slice_bytes, struct wi_sim_cost *cost)
{
    return wi_sim_cost_within(scheds, nranks, bytes, model, slice_bytes, WI_SIM_COST_UNITS, cost);
}

/* ---- By formula ---- */

/* Neighbours of the first ranks: whole hosts, so that what they share is shared by as many as it should be. */
#define SAMPLES 4096

static void sample_ring(const struct wi_model *m, double *load, struct wi_sim_rates *rates)
{
    int n = m->nranks < SAMPLES ? m->nranks : SAMPLES;

    for (int pass = 0; pass < 2; pass++)
        for (int from = 0; from < n; from++) {
            struct wi_model_path p = {0};
            m->path(m, from, (from + 1) % m->nranks, &p);
            rates->alpha = fmax(rates->alpha, p.latency + p.send_us + p.recv_us);
            for (int k = 0; k < p.nresources; k++) {
                if (!pass)
                    load[p.resources[k]]++;
                else
                    rates->beta = fmin(rates->beta, m->resources[p.resources[k]].rate / load[p.resources[k]]);
            }
        }
}

weft_status wi_sim_rates(const struct wi_model *m, int mapped, struct wi_sim_rates *rates)
{
    struct wi_sim_rates found = {0, INFINITY, INFINITY, INFINITY};

    for (int r = 0; r < m->nranks; r++) {
        found.reduce_rate = fmin(found.reduce_rate, m->ranks[r].reduce_rate);
        found.copy_rate = fmin(found.copy_rate, m->ranks[r].copy_rate);
    }
    if (mapped) {
        found.alpha = m->mapped_us;
    } else if (m->nranks > 1) {
        double *load = wi_calloc(m->nresources + 1, sizeof *load);
        if (!load)
            return wi_fail(WEFT_ENOMEM, "rates: no memory for %u resources", m->nresources);
        sample_ring(m, load, &found);
        wi_free(load);
    }
    *rates = found;
    return WEFT_SUCCESS;
}
