/* SPDX-License-Identifier: BSD-3-Clause */
/* Closed forms: from an algorithm's formulas to a time. */
#include <math.h>

#include "algo/util.h"

double wi_algo_over(double bytes, double rate)
{
    return bytes > 0 && !isinf(rate) ? bytes / rate : 0;
}

static double chain(const struct wi_algo *algo, const struct wi_algo_args *args, double bytes, double share,
                    const struct wi_algo_cost *all, const struct wi_algo_rates *r)
{
    struct wi_algo_cost path = *all;

    if (algo->time)
        return algo->time(args, bytes * share, r);
    if (algo->path)
        algo->path(args, bytes, &path);
    return path.steps * r->alpha +
           share * (wi_algo_over(path.sent, r->beta) + wi_algo_over(path.reduced, r->reduce_rate) +
                    wi_algo_over(path.copied, r->copy_rate));
}

/* Bytes one way: out, or in, where what is reduced came from, and what is gathered. */
static double busiest_link(const struct wi_algo *algo, const struct wi_algo_args *args, double bytes,
                           const struct wi_algo_cost *all)
{
    double gathered = algo->coll == WI_COLL_GATHER ? (args->nranks - 1) * bytes : 0;

    return fmax(all->sent, fmax(all->reduced, gathered));
}

double wi_algo_closed(const struct wi_algo *algo, const struct wi_algo_args *args, double bytes, double nslices,
                      const struct wi_algo_rates *r)
{
    struct wi_algo_cost all = {0};
    double us, share = 1 / fmax(nslices, 1), link, core;

    if (args->spec && args->spec->nlevels && wi_algo_level_closed(args, algo->coll, bytes, r, &us) >= 0)
        return us; /* its chunks are in the spec */
    algo->cost(args, bytes, &all);
    link = wi_algo_over(busiest_link(algo, args, bytes, &all), r->beta);
    core = wi_algo_over(all.reduced, r->reduce_rate) + wi_algo_over(all.copied, r->copy_rate);
    return chain(algo, args, bytes, share, &all, r) + fmax(link, core) * (1 - share);
}

double wi_algo_nslices(const struct wi_algo *algo, int nranks, double bytes, size_t slice_bytes)
{
    double block = algo->traits.slices == WI_SLICES_OF_SHARES ? bytes / nranks : bytes;

    if (algo->traits.halves)
        block /= 2;
    if (algo->traits.slices == WI_SLICES_NONE || !slice_bytes)
        return 1;
    return fmax(1, ceil(block / (double)slice_bytes));
}

/* Processor sharing: those under way have equal parts of the link. */
void wi_algo_share_link(const double *ready, double *left, int n, double *done)
{
    double now = 0;

    for (int over = 0; over < n;) {
        double next = INFINITY, soonest = INFINITY;
        int active = 0;
        for (int i = 0; i < n; i++) {
            if (left[i] < 0)
                continue;
            if (ready[i] > now) {
                next = fmin(next, ready[i]);
                continue;
            }
            active++;
            soonest = fmin(soonest, left[i]);
        }
        double until = active ? fmin(next, now + soonest * active) : next;
        int finishes = active && until >= now + soonest * active;
        for (int i = 0; i < n; i++) {
            if (left[i] < 0 || ready[i] > now)
                continue;
            int last = finishes && left[i] <= soonest;
            left[i] = last ? -1 : left[i] - (until - now) / active;
            if (last)
                done[i] = until;
            else if (left[i] < 0)
                left[i] = 0;
            over += last;
        }
        now = until;
    }
}

double wi_algo_fan_in(const struct wi_algo_rates *r, const double *ready, const double *bytes, int n, int reduces,
                      double own_us)
{
    double left[WI_ALGO_MAX_FAN], done[WI_ALGO_MAX_FAN], at = own_us;

    for (int i = 0; i < n; i++)
        left[i] = wi_algo_over(bytes[i], r->beta);
    wi_algo_share_link(ready, left, n, done);
    for (int i = 0; i < n; i++)
        at = fmax(at, done[i] + r->alpha) + (reduces ? wi_algo_over(bytes[i], r->reduce_rate) : 0);
    return at;
}
