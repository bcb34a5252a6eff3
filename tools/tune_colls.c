/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-tune: every algorithm of the collectives at every size, in rounds.
 *
 * A machine is not the same all the time: a hypervisor moves cores, others work too. So all points are gone through once,
 * then all again, ..., and what is compared is measured within one short window: the algorithms of a point take turns, forth
 * and back, and of an algorithm's turns the best counts. Where every rank has a core a probe before and after a window says
 * whether the machine changed in between; then the window is taken again. Across rounds src/plan/paired.h compares. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "plan/paired.h"
#include "weft_tune.h"

#define TURNS 4
#define TRIES 3
#define MAX_CALLS 2000
#define PROBE_CALLS 40
#define UNSTEADY 1.5    /* between two probes */
#define SLOW_US 2e3     /* calls that are slow enough to be left out */
#define HOPELESS 6.0    /* times the best: one round is enough */
#define TRAILS 2.5      /* two are */
#define BEATEN 1.6      /* three are */
#define ONE_TURN_US 3e4 /* calls so long that a second turn tells little, */
#define LONG_US 3e5     /* windows that take part in every fourth round, */
#define LONGER_US 1.5e6 /* and in every eighth */
#define ONE_CALL_US 5e5 /* and that even the first one is not distorted by warm-up */

/* ---- One call ---- */

static weft_status call(const struct tune_point *p, weft_comm *comm, const void *src, void *dst)
{
    size_t n = p->bytes / sizeof(double);

    switch (p->coll) {
    case WI_COLL_ALL_REDUCE:
        return weft_all_reduce(comm, src, dst, n, WEFT_FLOAT64, WEFT_SUM, NULL);
    case WI_COLL_REDUCE:
        return weft_reduce(comm, src, dst, n, WEFT_FLOAT64, WEFT_SUM, 0, NULL);
    case WI_COLL_BROADCAST:
        return weft_broadcast(comm, src, dst, n, WEFT_FLOAT64, 0, NULL);
    case WI_COLL_ALL_GATHER:
        return weft_all_gather(comm, src, dst, n, WEFT_FLOAT64, NULL);
    case WI_COLL_REDUCE_SCATTER:
        return weft_reduce_scatter(comm, src, dst, n, WEFT_FLOAT64, WEFT_SUM, NULL);
    case WI_COLL_ALL_TO_ALL:
        return weft_all_to_all(comm, src, dst, n, WEFT_FLOAT64, NULL);
    case WI_COLL_GATHER:
        return weft_gather(comm, src, dst, n, WEFT_FLOAT64, 0, NULL);
    case WI_COLL_SCATTER:
        return weft_scatter(comm, src, dst, n, WEFT_FLOAT64, 0, NULL);
    case WI_COLL_SCAN:
        return weft_scan(comm, src, dst, n, WEFT_FLOAT64, WEFT_SUM, NULL);
    case WI_COLL_EXSCAN:
        return weft_exscan(comm, src, dst, n, WEFT_FLOAT64, WEFT_SUM, NULL);
    default:
        return weft_barrier(comm, NULL);
    }
}

/* The same by a named algorithm; NULL: by the planner's. */
static weft_status call_named(const struct tune_point *p, weft_comm *comm, const void *src, void *dst,
                              const char *algorithm)
{
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    weft_call named = WEFT_CALL_INIT;

    if (!algorithm)
        return call(p, comm, src, dst);
    options.algorithm = algorithm;
    named.kind = (weft_kind)(p->coll + 1); /* in the same order */
    named.dtype = WEFT_FLOAT64;
    named.src = src;
    named.dst = dst;
    named.count = p->bytes / sizeof(double);
    named.options = &options;
    return weft_issue(comm, &named, NULL);
}

static void *const *buffers(struct tune *t, const struct tune_cell *c)
{
    return c->shared ? tune_slot_of(t, c)->mapped : t->private;
}

/* The slowest rank's mean of `calls`, behind one more that warms up, and uses up what a shaped link has saved, unless calls
 * are long. */
static weft_status timed(struct tune *t, const struct tune_point *p, const struct tune_cell *c, int calls, double *us)
{
    void *const *m = buffers(t, c);
    weft_comm *comm = tune_slot_of(t, c)->comm;
    double begin;

    if (c->first_us <= ONE_TURN_US)
        WI_TRY(call(p, comm, m[0], m[1]));
    WI_TRY(weft_barrier(t->comm, NULL));
    begin = tune_now_us();
    for (int i = 0; i < calls; i++)
        WI_TRY(call(p, comm, m[0], m[1]));
    *us = (tune_now_us() - begin) / calls;
    return tune_max(t, us);
}

/* Can it do this at all? The library says so where the planner's facts do not know; all ranks hear the same. */
static weft_status first_call(struct tune *t, const struct tune_point *p, struct tune_cell *c)
{
    void *const *m = buffers(t, c);
    weft_comm *comm = tune_slot_of(t, c)->comm;
    weft_status st;
    double refused, begin;

    WI_TRY(weft_barrier(t->comm, NULL));
    begin = tune_now_us();
    st = call_named(p, comm, m[0], m[1], c->subject == TUNE_CHOSEN ? NULL : tune_name_of(t, p, c));
    refused = st == WEFT_ENOTSUP;
    if (st < 0 && !refused)
        return st;
    c->first_us = tune_now_us() - begin;
    WI_TRY(tune_max(t, &refused));
    WI_TRY(tune_max(t, &c->first_us));
    if (refused != 0) {
        c->left_out = 1;
        if (c->subject != TUNE_CHOSEN)
            t->subjects[p->coll][c->subject].refused = 1;
    }
    return WEFT_SUCCESS;
}

static int calls_for(const struct tune *t, double us)
{
    double want = t->o.point_ms * 1e3 / (TURNS * t->o.rounds) / fmax(us, 0.05);

    return want < 1 ? 1 : want > MAX_CALLS ? MAX_CALLS : (int)want;
}

static weft_status find_calls(struct tune *t, const struct tune_point *p, struct tune_cell *c)
{
    double us = 0;

    if (c->subject != TUNE_CHOSEN && t->subjects[p->coll][c->subject].refused)
        c->left_out = 1;
    if (!c->left_out)
        WI_TRY(first_call(t, p, c));
    c->calls = 1;
    if (c->left_out || c->first_us > ONE_TURN_US)
        return WEFT_SUCCESS;
    WI_TRY(timed(t, p, c, 2, &us));
    c->calls = calls_for(t, us);
    return WEFT_SUCCESS;
}

/* ---- Windows ---- */

/* What a barrier takes: where cores are near one another it is a fraction of what it is where they are not. */
static weft_status probe(struct tune *t, double *us)
{
    double best = INFINITY;

    for (int batch = 0; batch < 3; batch++) {
        double begin = tune_now_us();
        for (int i = 0; i < PROBE_CALLS; i++)
            WI_TRY(weft_barrier(t->comm, NULL));
        best = fmin(best, (tune_now_us() - begin) / PROBE_CALLS);
    }
    *us = best;
    return tune_max(t, us);
}

static weft_status turns(struct tune *t, const struct tune_point *p, int round, double *us)
{
    for (int i = 0; i < p->ncells; i++)
        us[i] = !round && !p->cells[i].left_out && p->cells[i].first_us > ONE_CALL_US ? p->cells[i].first_us : 0;
    for (int turn = 0; turn < TURNS; turn++) {
        for (int k = 0; k < p->ncells; k++) {
            int i = turn % 2 ? p->ncells - 1 - k : k;
            double now = 0;
            if (p->cells[i].left_out || us[i] > ONE_TURN_US || (turn > 1 && us[i] > SLOW_US))
                continue;
            WI_TRY(timed(t, p, &p->cells[i], p->cells[i].calls, &now));
            us[i] = us[i] > 0 ? fmin(us[i], now) : fmax(now, 1e-3);
        }
    }
    return WEFT_SUCCESS;
}

static weft_status window(struct tune *t, struct tune_point *p, int round)
{
    double us[2 * TUNE_MAX_ALGOS + 2], before = 0, after = 0, begin = tune_now_us();

    for (int i = 0; i < p->ncells && !p->begun; i++)
        WI_TRY(find_calls(t, p, &p->cells[i]));
    p->begun = 1;
    for (int i = 0; i < TRIES; i++) {
        if (t->steady)
            WI_TRY(probe(t, &before));
        WI_TRY(turns(t, p, round, us));
        if (t->steady)
            WI_TRY(probe(t, &after));
        if (fmax(before, after) <= UNSTEADY * fmin(before, after))
            break;
    }
    for (int i = 0; i < p->ncells; i++) {
        p->us[i * t->o.rounds + round] = us[i];
        if (us[i] > 0)
            p->cells[i].calls = calls_for(t, us[i]);
    }
    if (round)
        return WEFT_SUCCESS;
    p->window_us = tune_now_us() - begin;
    return tune_max(t, &p->window_us);
}

/* What a cell took, in times of the best of its round: the least of all rounds. */
static double behind(const struct tune *t, const struct tune_point *p, int cell, int round, int *rounds)
{
    double least = INFINITY;

    *rounds = 0;
    for (int r = 0; r <= round; r++) {
        double best = INFINITY, us = p->us[cell * t->o.rounds + r];
        for (int i = 0; i < p->ncells; i++)
            if (p->us[i * t->o.rounds + r] > 0)
                best = fmin(best, p->us[i * t->o.rounds + r]);
        if (us <= 0)
            continue;
        least = fmin(least, us / best);
        ++*rounds;
    }
    return least;
}

/* All ranks have the same numbers, and leave out the same. */
static void leave_out(const struct tune *t, struct tune_point *p, int round)
{
    for (int i = 0; i < p->ncells; i++) {
        int rounds;
        double us = p->us[i * t->o.rounds + round], times = behind(t, p, i, round, &rounds);
        if ((us > SLOW_US && rounds > 2 && times > BEATEN) || (us > 10 * SLOW_US && rounds > 1 && times > TRAILS) ||
            (us > 100 * SLOW_US && times > HOPELESS))
            p->cells[i].left_out = 1;
    }
}

/* ---- Rounds ---- */

static weft_status out_of_time(struct tune *t, int *late)
{
    double mine = t->deadline_ns && tune_now_us() * 1e3 > (double)t->deadline_ns;

    if (!t->deadline_ns)
        return WEFT_SUCCESS;
    WI_TRY(tune_max(t, &mine));
    *late = mine != 0;
    return WEFT_SUCCESS;
}

/* Long windows vary little, and would take most of the time: not in every round. */
static int rests(const struct tune_point *p, int round)
{
    return p->begun && ((p->window_us > LONG_US && round % 4) || (p->window_us > LONGER_US && round % 8));
}

static weft_status all_rounds(struct tune *t, int *late)
{
    for (int round = 0; round < t->o.rounds && t->npoints && !*late; round++) {
        for (int i = 0; i < t->npoints; i++) {
            WI_TRY(out_of_time(t, late));
            if (*late)
                break;
            t->done++;
            if (rests(&t->points[i], round))
                continue;
            tune_progress(t, wi_coll_name(t->points[i].coll), t->points[i].bytes);
            WI_TRY(window(t, &t->points[i], round));
            leave_out(t, &t->points[i], round);
        }
        if (t->done)
            WI_TRY(tune_store_points(t));
        t->rounds = round + !*late;
    }
    return WEFT_SUCCESS;
}

weft_status tune_measure_colls(struct tune *t)
{
    int late = 0;
    weft_status st = tune_open_subjects(t);

    if (st >= 0)
        st = tune_make_points(t);
    if (st >= 0)
        st = tune_open_buffers(t);
    t->total = t->npoints * t->o.rounds;
    t->steady = t->nnodes == 1 && t->nranks <= sysconf(_SC_NPROCESSORS_ONLN);
    if (st >= 0)
        st = all_rounds(t, &late);
    if (st < 0)
        tune_fail(t, "measuring", st);
    if (late && t->done < t->npoints && t->rank == 0 && !t->o.quiet)
        fprintf(stderr, "%sweft-tune: out of time after %d of %d points; the same command goes on\n",
                t->terminal ? "\n" : "", t->done, t->npoints);
    tune_close_subjects(t);
    tune_free_points(t);
    return st;
}
