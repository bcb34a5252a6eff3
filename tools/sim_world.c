/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-sim's machine: its model, where ranks are, what is broken. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/settings.h"
#include "base/status.h"
#include "plan/plan.h"
#include "topology/placement.h"
#include "weft_sim.h"

/* ---- Words ---- */

int sim_parse_rate(const char *text, double *rate)
{
    static const char prefixes[] = "kMGT";
    double scale = 1e-6;
    char *end;
    double v = strtod(text, &end);
    const char *prefix = *end ? strchr(prefixes, *end) : NULL;

    if (end == text || !(v > 0) || !isfinite(v))
        return -1;
    if (prefix) {
        scale *= pow(1000, (double)(prefix - prefixes + 1));
        end++;
    }
    if (!strcmp(end, "b") || !strcmp(end, "bps") || !strcmp(end, "bit/s"))
        scale /= 8;
    else if (strcmp(end, "B") && strcmp(end, "B/s"))
        return -1;
    *rate = v * scale;
    return 0;
}

#define MAX_US 1e15 /* thirty years: sums of such stay numbers */

int sim_parse_us(const char *text, double *us)
{
    static const struct {
        const char *name;
        double us;
    } units[] = {{"ns", 1e-3}, {"us", 1}, {"ms", 1e3}, {"s", 1e6}};
    char *end;
    double v = strtod(text, &end);

    if (end == text || !(v >= 0) || !isfinite(v))
        return -1;
    if (v == 0 && !*end) {
        *us = 0;
        return 0;
    }
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(end, units[i].name))
            continue;
        *us = v * units[i].us;
        return *us <= MAX_US ? 0 : -1;
    }
    return -1;
}

/* ---- Uniform ---- */

static weft_status make_uniform(const struct sim_options *o, struct sim_world *w)
{
    double rate, latency, reduce = INFINITY;
    char *copy = wi_strdup(o->uniform), *save = NULL, *word[3];
    weft_status st = WEFT_SUCCESS;

    if (!copy)
        return wi_fail(WEFT_ENOMEM, "no memory for \"%s\"", o->uniform);
    for (int i = 0; i < 3; i++)
        word[i] = strtok_r(i ? NULL : copy, ",", &save);
    if (!word[0] || !word[1] || strtok_r(NULL, ",", &save))
        st = wi_fail(WEFT_ECONFIG, "--uniform \"%s\" is not RATE,LATENCY[,REDUCE], like 100Gb,2us,7GB", o->uniform);
    else if (sim_parse_rate(word[0], &rate))
        st = wi_fail(WEFT_ECONFIG, "--uniform: rate \"%s\" is not a number with a unit, like 100Gb or 12.5GB", word[0]);
    else if (sim_parse_us(word[1], &latency))
        st = wi_fail(WEFT_ECONFIG, "--uniform: latency \"%s\" is not a time, like 2us", word[1]);
    else if (word[2] && sim_parse_rate(word[2], &reduce))
        st = wi_fail(WEFT_ECONFIG, "--uniform: reduce rate \"%s\" is not a rate, like 7GB", word[2]);
    else if (!o->nranks)
        st = wi_fail(WEFT_ECONFIG, "--uniform needs -P RANKS");
    else
        st = wi_model_uniform(o->nranks, latency, rate, reduce, &w->model);
    if (st >= 0)
        snprintf(w->text, sizeof w->text, "uniform %s", o->uniform);
    wi_free(copy);
    return st;
}

/* ---- A graph ---- */

/* What ranks sit on: GPUs, else cores, else hosts. In the order of the graph, so host after host. */
static int seats_of(const struct wi_topo *t, int32_t *seats)
{
    static const enum wi_topo_kind kinds[] = {WI_TOPO_GPU, WI_TOPO_CORE, WI_TOPO_HOST};

    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        int n = 0;
        for (int i = 0; i < t->nobjects; i++)
            if (t->objects[i].kind == kinds[k])
                seats[n++] = i;
        if (n)
            return n;
    }
    return 0;
}

struct filling {
    const struct wi_topo *topo;
    const int32_t *seats;
    int nseats, nhosts;
    int *first; /* [nhosts + 1] of each host in seats */
};

static int host_of(const struct wi_topo *t, int object)
{
    return t->objects[object].kind == WI_TOPO_HOST ? object : t->objects[object].host;
}

static void find_hosts(struct filling *f)
{
    for (int i = 0; i < f->nseats; i++)
        if (i == 0 || host_of(f->topo, f->seats[i]) != host_of(f->topo, f->seats[i - 1]))
            f->first[f->nhosts++] = i;
    f->first[f->nhosts] = f->nseats;
}

static void place_round(const struct filling *f, int nranks, int32_t *places)
{
    for (int round = 0, rank = 0; rank < nranks; round++)
        for (int h = 0; h < f->nhosts && rank < nranks; h++)
            if (f->first[h] + round < f->first[h + 1])
                places[rank++] = f->seats[f->first[h] + round];
}

static weft_status place(const struct sim_options *o, const struct filling *f, int nranks, int32_t *places)
{
    if (o->place == SIM_EVEN)
        return wi_place_ranks(f->topo, nranks, places);
    if (nranks > f->nseats)
        return wi_fail(
            WEFT_EINVAL,
            "-P %d: the machine has %d places (GPUs, or cores where there are none); --place even starts over", nranks,
            f->nseats);
    if (o->place == SIM_ROUND_ROBIN)
        place_round(f, nranks, places);
    else
        memcpy(places, f->seats, (size_t)nranks * sizeof *places);
    return WEFT_SUCCESS;
}

static weft_status make_graph(const struct sim_options *o, struct sim_world *w)
{
    struct wi_model_link_params params;
    weft_status st = o->topo ? wi_topo_load(o->topo, &w->topo) : wi_topo_synthetic(o->synthetic, &w->topo);

    if (st < 0)
        return st;
    size_t n = (size_t)w->topo->nobjects + (size_t)o->nranks + 1;
    int32_t *seats = wi_calloc(n, sizeof *seats), *places = wi_calloc(n, sizeof *places);
    int *first = wi_calloc(n, sizeof *first);
    struct filling f = {.topo = w->topo, .seats = seats, .first = first};

    if (!seats || !places || !first) {
        st = wi_fail(WEFT_ENOMEM, "no memory to place ranks on %zu objects", n);
    } else {
        f.nseats = seats_of(w->topo, seats);
        find_hosts(&f);
        int nranks = o->nranks ? o->nranks : f.nseats;
        wi_model_default_link_params(&params);
        st = place(o, &f, nranks, places);
        if (st >= 0)
            st = wi_model_of_topo(w->topo, places, nranks, &params, &w->model);
        snprintf(w->text, sizeof w->text, "%s on %d host%s", o->topo ? o->topo : o->synthetic, f.nhosts,
                 f.nhosts == 1 ? "" : "s");
    }
    wi_free(seats);
    wi_free(places);
    wi_free(first);
    return st;
}

/* ---- Faults ---- */

/* "node1/nic0" names both directions of a link, "node1/nic0 out" one. */
static int is_named(const char *resource, const char *name, size_t length)
{
    return !strncmp(resource, name, length) && (!resource[length] || resource[length] == ' ');
}

static weft_status unknown_link(const struct sim_world *w, const char *name, size_t length)
{
    char some[256] = "";

    for (uint32_t i = 0; i < w->model->nresources && strlen(some) < 160; i += 1 + w->model->nresources / 8)
        snprintf(some + strlen(some), sizeof some - strlen(some), "%s\"%s\"", i ? ", " : "",
                 w->model->resources[i].name);
    return wi_fail(WEFT_ENOTFOUND, "no link \"%.*s\"; there are %u, like %s (--links prints those in use)", (int)length,
                   name, w->model->nresources, some);
}

static weft_status set_link(struct sim_world *w, const char *name, size_t length, double factor)
{
    int found = 0;

    for (uint32_t i = 0; i < w->model->nresources; i++) {
        if (!is_named(w->model->resources[i].name, name, length))
            continue;
        w->link_factor[i] = factor;
        found = 1;
    }
    return found ? WEFT_SUCCESS : unknown_link(w, name, length);
}

static weft_status set_slow(struct sim_world *w, const char *text)
{
    const char *equals = strrchr(text, '=');
    char *end = NULL;
    double factor = equals ? strtod(equals + 1, &end) : 0;

    if (!equals || equals == text || end == equals + 1 || *end || !(factor >= 0) || !isfinite(factor))
        return wi_fail(WEFT_ECONFIG, "--slow \"%s\" is not LINK=FACTOR, like \"rank3 out=0.5\"", text);
    return set_link(w, text, (size_t)(equals - text), factor);
}

static weft_status set_straggler(struct sim_world *w, const char *text)
{
    const char *equals = strchr(text, '=');
    char *end = NULL;
    long rank = strtol(text, &end, 10);
    double v;

    if (!equals || end == text || end != equals)
        return wi_fail(WEFT_ECONFIG, "--straggler \"%s\" is not RANK=FACTOR or RANK=+TIME, like 3=2 or 3=+1ms", text);
    if (rank < 0 || rank >= w->nranks)
        return wi_fail(WEFT_ECONFIG, "--straggler \"%s\": there are ranks 0 to %d", text, w->nranks - 1);
    if (equals[1] == '+') {
        if (sim_parse_us(equals + 2, &v))
            return wi_fail(WEFT_ECONFIG, "--straggler \"%s\": \"%s\" is not a time, like 1ms", text, equals + 2);
        w->start_us[rank] = v;
        return WEFT_SUCCESS;
    }
    v = strtod(equals + 1, &end);
    if (end == equals + 1 || *end || !(v > 0) || !isfinite(v))
        return wi_fail(WEFT_ECONFIG, "--straggler \"%s\": factor \"%s\" is not above 0", text, equals + 1);
    w->core_factor[rank] = v;
    return WEFT_SUCCESS;
}

static weft_status make_faults(const struct sim_options *o, struct sim_world *w)
{
    size_t nlinks = w->model->nresources;

    w->link_factor = wi_malloc((nlinks + 1) * sizeof *w->link_factor);
    w->core_factor = wi_malloc((size_t)w->nranks * sizeof *w->core_factor);
    w->start_us = wi_calloc((size_t)w->nranks, sizeof *w->start_us);
    if (!w->link_factor || !w->core_factor || !w->start_us)
        return wi_fail(WEFT_ENOMEM, "no memory for %zu links and %d ranks", nlinks, w->nranks);
    for (size_t i = 0; i < nlinks; i++)
        w->link_factor[i] = 1;
    for (int i = 0; i < w->nranks; i++)
        w->core_factor[i] = 1;
    for (int i = 0; i < o->nfail; i++)
        WI_TRY(set_link(w, o->fail[i], strlen(o->fail[i]), 0));
    for (int i = 0; i < o->nslow; i++)
        WI_TRY(set_slow(w, o->slow[i]));
    for (int i = 0; i < o->nstraggler; i++)
        WI_TRY(set_straggler(w, o->straggler[i]));
    return WEFT_SUCCESS;
}

/* ---- All of it ---- */

weft_status sim_world_make(const struct sim_options *o, struct sim_world *w)
{
    weft_status st = o->uniform ? make_uniform(o, w) : make_graph(o, w);

    if (st < 0)
        return st;
    w->nranks = w->model->nranks;
    WI_TRY(wi_plan_levels(w->model, NULL, w->nranks, &w->levels, &w->level_memory));
    return make_faults(o, w);
}

void sim_world_free(struct sim_world *w)
{
    wi_free(w->level_memory);
    wi_free(w->link_factor);
    wi_free(w->core_factor);
    wi_free(w->start_us);
    wi_model_destroy(w->model);
    wi_topo_put(w->topo);
}
