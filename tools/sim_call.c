/* SPDX-License-Identifier: BSD-3-Clause */
/* One collective: its algorithm, its schedules, by events or by formula. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "weft_sim.h"

#define SLICE_TWO_SIDED (256u << 10) /* as the library's planner */
#define SLICE_MAPPED (64u << 10)

static int one_host(const struct sim_world *w)
{
    for (int r = 1; r < w->nranks; r++)
        if (w->model->ranks[r].host != w->model->ranks[0].host)
            return 0;
    return 1;
}

const char *sim_unsuited(const struct sim_options *o, const struct sim_world *w, unsigned needs)
{
    if (needs & WI_ALGO_EVEN_RANKS && w->nranks % 2)
        return "it needs an even number of ranks";
    if (needs & WI_ALGO_POW2_RANKS && w->nranks & (w->nranks - 1))
        return "it needs a power of two of ranks";
    if (needs & WI_ALGO_NO_IN_PLACE && o->in_place)
        return "it cannot work in place";
    if (needs & (WI_ALGO_MAPPED | WI_ALGO_PEER_MEM | WI_ALGO_PEER_GET) && !one_host(w))
        return "it needs all ranks on one host";
    if (needs & WI_ALGO_CODED)
        return "it sends coded data, and how long that is the simulator does not know";
    return NULL;
}

const char *sim_call_name(const struct sim_call *call)
{
    static char name[WI_ALGO_SPEC_BYTES];

    return wi_algo_text(call->choice.algo, &call->choice.spec, name);
}

static struct wi_algo_args args_of(const struct sim_options *o, const struct sim_world *w, const struct sim_call *call,
                                   int rank)
{
    return (struct wi_algo_args){.rank = rank,
                                 .nranks = w->nranks,
                                 .root = o->root,
                                 .in_place = o->in_place,
                                 .radix = o->radix,
                                 .levels = w->levels.nlevels ? &w->levels : NULL,
                                 .spec = &call->choice.spec};
}

/* ---- Schedules ---- */

static void put_all(struct wi_sched **scheds, int n)
{
    for (int r = 0; scheds && r < n; r++)
        wi_sched_put(scheds[r]);
    wi_free(scheds);
}

static weft_status build_all(const struct sim_options *o, const struct sim_world *w, const struct sim_call *call,
                             struct wi_sched ***scheds)
{
    struct wi_sched **made = wi_calloc((size_t)w->nranks, sizeof *made);

    if (!made)
        return wi_fail(WEFT_ENOMEM, "no memory for the schedules of %d ranks", w->nranks);
    for (int r = 0; r < w->nranks; r++) {
        struct wi_algo_args args = args_of(o, w, call, r);
        weft_status st = call->choice.algo->build(&args, &made[r]);
        if (st < 0) {
            put_all(made, r);
            return st;
        }
    }
    *scheds = made;
    return WEFT_SUCCESS;
}

/* ---- Formulas ---- */

weft_status sim_formula(const struct sim_options *o, const struct sim_world *w, const struct sim_call *call, double *us)
{
    struct wi_algo_args args = args_of(o, w, call, o->root);
    struct wi_sim_rates rates;

    WI_TRY(wi_sim_rates(w->model, (call->choice.needs & WI_ALGO_MAPPED) != 0, &rates));
    struct wi_algo_rates r = {rates.alpha, rates.beta, rates.reduce_rate, rates.copy_rate, 0, 0};
    *us = wi_algo_closed(call->choice.algo, &args, (double)call->bytes,
                         wi_algo_nslices(call->choice.algo, w->nranks, (double)call->bytes, call->slice), &r);
    return WEFT_SUCCESS;
}

/* ---- Choice ---- */

static size_t slice_of(const struct sim_options *o, unsigned needs)
{
    if (o->slice_given)
        return o->slice;
    return needs & WI_ALGO_MAPPED ? SLICE_MAPPED : SLICE_TWO_SIDED;
}

static int by_formula(const struct sim_options *o, const struct sim_world *w)
{
    return o->method == SIM_FORMULA || (o->method == SIM_AUTO && w->nranks > SIM_EVENT_RANKS);
}

static weft_status predict(const struct sim_options *o, const struct sim_world *w, const struct sim_call *call,
                           double *us, const char **how)
{
    struct wi_sched **scheds;
    struct wi_sim_cost cost;
    weft_status st;

    *how = "formula";
    if (call->by_formula)
        return sim_formula(o, w, call, us);
    WI_TRY(build_all(o, w, call, &scheds));
    st = wi_sim_cost((const struct wi_sched *const *)scheds, w->nranks, call->bytes, w->model, call->slice, &cost);
    put_all(scheds, w->nranks);
    if (st >= 0) {
        *us = cost.us;
        *how = cost.by_events ? "events" : "loads";
    }
    return st;
}

static struct sim_call call_of(const struct sim_options *o, const struct sim_world *w, const struct wi_algo *a,
                               size_t bytes)
{
    return (struct sim_call){a->coll, wi_algo_choice_of(a), bytes, slice_of(o, a->needs), by_formula(o, w)};
}

/* Also a hierarchical one by its spec. */
static weft_status named(const struct sim_options *o, const struct sim_world *w, enum wi_coll coll, size_t bytes,
                         const char *name, struct sim_call *call)
{
    struct wi_algo_choice choice;

    WI_TRY(wi_algo_choose(coll, name, w->levels.nlevels ? &w->levels : NULL, w->nranks, &choice));
    const char *why = sim_unsuited(o, w, choice.needs);
    if (why)
        return wi_fail(WEFT_ENOTSUP, "%s %s: %s", wi_coll_name(coll), name, why);
    wi_algo_choice_for(&choice, (double)bytes);
    *call = (struct sim_call){coll, choice, bytes, slice_of(o, choice.needs), by_formula(o, w)};
    return WEFT_SUCCESS;
}

weft_status sim_choose(const struct sim_options *o, const struct sim_world *w, enum wi_coll coll, size_t bytes,
                       const char *name, struct sim_call *call)
{
    const struct wi_algo *best = NULL;
    double best_us = INFINITY;

    if (o->root >= w->nranks)
        return wi_fail(WEFT_EINVAL, "--root %d: there are ranks 0 to %d", o->root, w->nranks - 1);
    if (name)
        return named(o, w, coll, bytes, name, call);
    for (const struct wi_algo *const *a = wi_algos; *a; a++) {
        const char *how;
        double us;
        if ((*a)->coll != coll || sim_unsuited(o, w, (*a)->needs))
            continue;
        struct sim_call try = call_of(o, w, *a, bytes);
        if (predict(o, w, &try, &us, &how) < 0 || us >= best_us)
            continue; /* an algorithm may refuse this machine: others do not */
        best = *a;
        best_us = us;
    }
    if (!best)
        return wi_fail(WEFT_ENOTSUP, "no algorithm for %s: %s", wi_coll_name(coll), wi_fail_text());
    *call = call_of(o, w, best, bytes);
    return WEFT_SUCCESS;
}

/* ---- Running ---- */

static int has_faults(const struct sim_options *o)
{
    return o->nfail || o->nslow || o->nstraggler;
}

weft_status sim_call_run(const struct sim_options *o, const struct sim_world *w, const struct sim_call *call,
                         const double *start_us, int record, struct wi_sim_result **result, double *us)
{
    struct wi_sim_options so = {.slice_bytes = call->slice,
                                .start_us = start_us,
                                .core_factor = w->core_factor,
                                .link_factor = w->link_factor,
                                .record = record};
    struct wi_sched **scheds;
    weft_status st;

    *result = NULL;
    if (call->by_formula) {
        double last = 0;
        if (has_faults(o) || record || o->links)
            return wi_fail(WEFT_ENOTSUP,
                           "formulas know no faults, links, critical path or time line: %d ranks are too "
                           "many for events (--method events insists)",
                           w->nranks);
        for (int r = 0; start_us && r < w->nranks; r++)
            last = fmax(last, start_us[r]);
        WI_TRY(sim_formula(o, w, call, us));
        *us += last;
        return WEFT_SUCCESS;
    }
    WI_TRY(build_all(o, w, call, &scheds));
    st = wi_sim_run((const struct wi_sched *const *)scheds, w->nranks, call->bytes, w->model, &so, result);
    put_all(scheds, w->nranks);
    if (st >= 0)
        *us = (*result)->finish_us;
    return st;
}

/* ---- Comparing ---- */

weft_status sim_compare(const struct sim_options *o, const struct sim_world *w)
{
    char bytes[32], time[32];

    if (o->json)
        return wi_fail(WEFT_ENOTSUP, "--algo all has no --json");
    if (o->root >= w->nranks)
        return wi_fail(WEFT_EINVAL, "--root %d: there are ranks 0 to %d", o->root, w->nranks - 1);
    printf("%s, %s, %d ranks, %s\n", wi_coll_name(o->coll), sim_bytes_text((double)o->bytes, bytes), w->nranks,
           w->text);
    for (const struct wi_algo *const *a = wi_algos; *a; a++) {
        if ((*a)->coll != o->coll)
            continue;
        const char *why = sim_unsuited(o, w, (*a)->needs), *how = "events";
        struct sim_call call = call_of(o, w, *a, o->bytes);
        struct wi_sim_result *r = NULL;
        double us = 0;
        /* The cost knows no faults. */
        if (!why &&
            (has_faults(o) ? sim_call_run(o, w, &call, w->start_us, 0, &r, &us) : predict(o, w, &call, &us, &how)) < 0)
            why = wi_fail_text();
        wi_sim_result_free(r);
        if (why)
            printf("%-16s %12s  %-8s %s\n", (*a)->name, "-", "", why);
        else
            printf("%-16s %12s  %-8s %s\n", (*a)->name, sim_us_text(us, time), how, (*a)->summary);
    }
    return WEFT_SUCCESS;
}
