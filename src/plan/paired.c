/* SPDX-License-Identifier: BSD-3-Clause */
/* Estimates from measurements in rounds. */
#include "plan/paired.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/status.h"

#define GOOD 0.25 /* what others do to the machine makes rounds slower, hardly ever faster */
#define SWEEPS 30
#define SETTLED 1e-5
#define MAD_TO_DEVIATION 1.4826 /* of a normal distribution */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

void wi_sort_values(double *list, int n)
{
    qsort(list, (size_t)n, sizeof *list, by_value);
}

double wi_quantile(const double *sorted, int n, double share)
{
    double at = share * (n - 1);
    int below = (int)at;

    if (below + 1 >= n)
        return sorted[n - 1];
    return sorted[below] + (at - below) * (sorted[below + 1] - sorted[below]);
}

/* Values on the border of the quarters count in part. */
double wi_midmean(double *list, int n)
{
    double cut = n / 4.0, sum = 0, weights = 0;

    wi_sort_values(list, n);
    for (int i = 0; i < n; i++) {
        double from = fmax(i, cut), to = fmin(i + 1, n - cut);
        if (to <= from)
            continue;
        sum += (to - from) * list[i];
        weights += to - from;
    }
    return sum / weights;
}

struct fit {
    const double *us;
    int nalgos, nrounds;
    double *algo, *round, *list;
    char *steady; /* was the algorithm in at least half of the rounds? The others do not tell rounds apart */
};

static double value(const struct fit *f, int a, int r)
{
    return log(f->us[(size_t)a * (size_t)f->nrounds + (size_t)r]);
}

static int measured(const struct fit *f, int a, int r)
{
    return f->us[(size_t)a * (size_t)f->nrounds + (size_t)r] > 0;
}

static int rounds_of(const struct fit *f, int a)
{
    int n = 0;

    for (int r = 0; r < f->nrounds; r++)
        n += measured(f, a, r);
    return n;
}

static void find_steady(struct fit *f)
{
    int most = 0;

    for (int a = 0; a < f->nalgos; a++) {
        int n = rounds_of(f, a);
        most = n > most ? n : most;
    }
    for (int a = 0; a < f->nalgos; a++)
        f->steady[a] = 2 * rounds_of(f, a) >= most && most > 0;
}

static void sweep_rounds(struct fit *f)
{
    for (int r = 0; r < f->nrounds; r++) {
        int n = 0;
        for (int a = 0; a < f->nalgos; a++)
            if (f->steady[a] && measured(f, a, r))
                f->list[n++] = value(f, a, r) - f->algo[a];
        f->round[r] = n ? wi_midmean(f->list, n) : NAN;
    }
}

static double sweep_algos(struct fit *f)
{
    double moved = 0;

    for (int a = 0; a < f->nalgos; a++) {
        int n = 0;
        for (int r = 0; r < f->nrounds; r++)
            if (measured(f, a, r) && !isnan(f->round[r]))
                f->list[n++] = value(f, a, r) - f->round[r];
        if (!n)
            continue;
        double next = wi_midmean(f->list, n);
        moved = fmax(moved, fabs(next - f->algo[a]));
        f->algo[a] = next;
    }
    return moved;
}

/* The standard error of the mean, from the spread of the rounds after their own shift is subtracted. */
static double noise_of(struct fit *f, int a)
{
    int n = 0;

    for (int r = 0; r < f->nrounds; r++)
        if (measured(f, a, r) && !isnan(f->round[r]))
            f->list[n++] = fabs(value(f, a, r) - f->round[r] - f->algo[a]);
    if (n < 2)
        return 0;
    wi_sort_values(f->list, n);
    return expm1(MAD_TO_DEVIATION * wi_quantile(f->list, n, 0.5) / sqrt(n));
}

static double good_round(struct fit *f)
{
    int n = 0;

    for (int r = 0; r < f->nrounds; r++)
        if (!isnan(f->round[r]))
            f->list[n++] = f->round[r];
    if (!n)
        return 0;
    wi_sort_values(f->list, n);
    return wi_quantile(f->list, n, GOOD);
}

static void write_out(struct fit *f, struct wi_paired *out)
{
    double level = good_round(f);

    for (int a = 0; a < f->nalgos; a++) {
        out[a] = (struct wi_paired){.rounds = rounds_of(f, a)};
        if (!out[a].rounds)
            continue;
        out[a].us = exp(f->algo[a] + level);
        out[a].noise = noise_of(f, a);
    }
}

weft_status wi_paired_fit(const double *us, int nalgos, int nrounds, struct wi_paired *out)
{
    size_t na = (size_t)nalgos, nr = (size_t)nrounds, longest = na > nr ? na : nr;
    struct fit f = {.us = us, .nalgos = nalgos, .nrounds = nrounds};
    weft_status st = WEFT_SUCCESS;

    f.algo = wi_calloc(na + 1, sizeof *f.algo);
    f.round = wi_calloc(nr + 1, sizeof *f.round);
    f.list = wi_calloc(longest + 1, sizeof *f.list);
    f.steady = wi_calloc(na + 1, 1);
    if (!f.algo || !f.round || !f.list || !f.steady) {
        st = wi_fail(WEFT_ENOMEM, "%d algorithms in %d rounds", nalgos, nrounds);
    } else {
        find_steady(&f);
        sweep_algos(&f); /* rounds are 0 so far */
        for (int i = 0; i < SWEEPS; i++) {
            sweep_rounds(&f);
            if (sweep_algos(&f) < SETTLED)
                break;
        }
        write_out(&f, out);
    }
    wi_free(f.algo);
    wi_free(f.round);
    wi_free(f.list);
    wi_free(f.steady);
    return st;
}
