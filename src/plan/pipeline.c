/* SPDX-License-Identifier: BSD-3-Clause */
/* Pipelines of fragments. */
#include "plan/pipeline.h"

#define ABOUT_AS_FAST 1.01

#include <math.h>

static double stage_us(const struct wi_pipeline_stage *s, double bytes)
{
    return s->wait_us + s->core_us + (s->core_us_per_byte + s->link_us_per_byte) * bytes;
}

static double core_us(const struct wi_pipeline *c, double bytes)
{
    double core = 0;

    for (int i = 0; i < c->nstages; i++)
        core += c->stage[i].core_us + c->stage[i].core_us_per_byte * bytes;
    return core;
}

/* The time between the ends of two fragments, because of the resources that the stages share. */
static double interval_us(const struct wi_pipeline *c, double bytes)
{
    double link[WI_PIPELINE_LINKS] = {0}, us = 0;

    for (int i = 0; i < c->nstages; i++) {
        const struct wi_pipeline_stage *s = &c->stage[i];
        if (s->link >= 0 && s->link < WI_PIPELINE_LINKS)
            us = fmax(us, link[s->link] += s->link_us_per_byte * bytes);
        else
            us = fmax(us, s->link_us_per_byte * bytes); /* not shared */
    }
    return fmax(us, core_us(c, bytes));
}

static double fill_us(const struct wi_pipeline *c, double bytes)
{
    double fill = 0;

    for (int i = 0; i < c->nstages; i++)
        fill += stage_us(&c->stage[i], bytes);
    return fill;
}

/* The larger of the bounds by shared resources and by windows; each is convex in n. */
double wi_pipeline_us(const struct wi_pipeline *c, double bytes, double nfragments)
{
    double n = fmax(1, nfragments), fill = fill_us(c, bytes / n), us;

    us = fill + (n - 1) * interval_us(c, bytes / n);
    for (int i = 0; i < c->nstages; i++)
        if (c->stage[i].window > 0)
            us = fmax(us, fill + (n / c->stage[i].window - 1) * stage_us(&c->stage[i], bytes / n));
    return fmax(us, n / (c->window > 1 ? c->window : 1) * fill);
}

enum wi_pipeline_bound wi_pipeline_bound(const struct wi_pipeline *c, double bytes, double nfragments)
{
    double n = fmax(1, nfragments), interval = interval_us(c, bytes / n);

    if (n <= 1)
        return WI_PIPELINE_FILL;
    if (wi_pipeline_us(c, bytes, n) > fill_us(c, bytes / n) + (n - 1) * interval)
        return WI_PIPELINE_WINDOW;
    return core_us(c, bytes / n) >= interval ? WI_PIPELINE_CORE : WI_PIPELINE_LINK;
}

/* The least n of [low, high] from which on more fragments take longer: the time is convex in n. */
static double best_number(const struct wi_pipeline *c, double bytes, double low, double high)
{
    while (low < high) {
        double middle = floor((low + high) / 2);
        if (wi_pipeline_us(c, bytes, middle + 1) < wi_pipeline_us(c, bytes, middle))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The least n of [low, best] that is about as fast as the best one. A fragment costs the core more than this model knows (ranks
 * wait for each other and are woken), which a link that is the limit does not hide where ranks share cores. */
static double fewest(const struct wi_pipeline *c, double bytes, double low, double best)
{
    double most_us = ABOUT_AS_FAST * wi_pipeline_us(c, bytes, best), high = best;

    while (low < high) {
        double middle = floor((low + high) / 2);
        if (wi_pipeline_us(c, bytes, middle) > most_us)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static size_t round_up(size_t bytes, size_t unit)
{
    size_t rest = bytes % unit;

    return rest ? bytes + (unit - rest) : bytes;
}

static size_t fragment_of(size_t bytes, double nfragments, size_t unit)
{
    size_t fragment = round_up((size_t)ceil((double)bytes / nfragments), unit);

    return fragment < bytes ? fragment : bytes;
}

size_t wi_pipeline_best_fragment(const struct wi_pipeline *c, size_t bytes, const struct wi_pipeline_limits *l,
                                 double *us)
{
    size_t unit = l->unit ? l->unit : 1, least = round_up(l->min_bytes ? l->min_bytes : 1, unit), fragment = bytes;
    size_t most = l->max_bytes > unit ? l->max_bytes - l->max_bytes % unit : l->max_bytes ? unit : bytes;

    if (bytes > least || (bytes && bytes > most)) {
        double low = ceil((double)bytes / (double)most), high = fmax(low, floor((double)bytes / (double)least));
        fragment = fragment_of(bytes, fewest(c, (double)bytes, low, best_number(c, (double)bytes, low, high)), unit);
        fragment = fragment > most ? most : fragment;
    }
    if (us)
        *us = wi_pipeline_us(c, (double)bytes, fragment ? ceil((double)bytes / (double)fragment) : 1);
    return fragment;
}
