/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes picks.txt: random jobs on random clusters, and what every candidate takes there by the simulator's events.
 *
 *     make_picks [FIRST [END]]        jobs FIRST to END - 1, each with a seed of its own; without: all 200
 *
 * The committed file was written by the engine of commit f0501d5 (its libweftcore linked with this program and world.c; half
 * an hour), so that whatever prices candidates later is judged by the same times. Of jobs 42, 95, 149, 165, 172, 182, 191 it has
 * candidates by loads that this program would run for minutes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "tests/oracle/world.h"

#define SEED 0x776566742d313033u
#define QUESTIONS 3             /* of each job */
#define UNITS 400000u           /* of one run of events; past that coarser cuts are extrapolated, or loads taken, */
#define MOST_UNITS (16 * UNITS) /* but not before this, */
#define HOPELESS 1.0            /* unless the busiest link or core alone needs so many times the best */
#define MOST_TOTAL 26.0         /* log2 of the bytes that a rank of an operation holds */

/* ---- Randomness: splitmix64, the same everywhere ---- */

static uint64_t state;

static uint64_t random_bits(void)
{
    uint64_t z = state += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static double uniform(double from, double to)
{
    return from + (to - from) * (double)(random_bits() >> 11) / 9007199254740992.0;
}

static int below(int n)
{
    return (int)(random_bits() % (uint64_t)n);
}

#define ONE_OF(array) ((array)[below((int)(sizeof(array) / sizeof *(array)))])

/* ---- Jobs ---- */

/* Ranks a node: all alike, or down to half of `size`. */
static int write_cores(char *text, size_t capacity, int nnodes, int size, int uneven)
{
    int at = snprintf(text, capacity, " core:"), total = 0;

    if (!uneven)
        return snprintf(text, capacity, " core:%d", size), nnodes * size;
    for (int i = 0; i < nnodes; i++) {
        int n = size - below(size / 2 + 1);
        at += snprintf(text + at, capacity - (size_t)at, i ? "+%d" : "%d", n);
        total += n;
    }
    return total;
}

static int write_job(char *text, size_t capacity)
{
    static const int sizes[] = {1, 2, 2, 3, 4, 4, 6, 8, 8, 12, 16, 32, 64};
    static const char *const rates[] = {"1Gb", "10Gb", "25Gb", "100Gb", "200Gb", "400Gb"};
    static const char *const latencies[] = {"", "", " latency:1us", " latency:2us", " latency:5us", " latency:20us"};
    static const int oversubs[] = {1, 2, 3, 4, 8};
    int nranks = (int)lrint(exp2(uniform(2, 9))), size = ONE_OF(sizes), nnodes, at;
    char cores[640];

    while (2 * size > nranks)
        size = (size + 1) / 2;
    nnodes = nranks / size < 2 ? 2 : nranks / size;
    nranks = write_cores(cores, sizeof cores, nnodes, size, size > 1 && below(10) < 3);
    at = snprintf(text, capacity, "%s nodes:%d%s nic:%d@%s%s", size > 1 && below(10) < 3 ? "dealt" : "block", nnodes,
                  cores, size > 3 && below(5) == 0 ? 2 : 1, ONE_OF(rates), ONE_OF(latencies));
    if (nnodes >= 4 && below(10) < 4) {
        int most = nnodes / 2 < 8 ? nnodes / 2 : 8, racks = 2 + below(most - 1);
        at += snprintf(text + at, capacity - (size_t)at, " rack:%d oversub:%d", racks, ONE_OF(oversubs));
    }
    return nranks;
}

/* The shares of all ranks, and of all_to_all each rank's vector, stay below a bound as well as vectors do. */
static size_t random_bytes(enum wi_coll coll, int nranks)
{
    double most = MOST_TOTAL;

    if (coll == WI_COLL_BARRIER)
        return 0;
    if (!(coll == WI_COLL_ALL_REDUCE || coll == WI_COLL_REDUCE || coll == WI_COLL_BROADCAST || coll == WI_COLL_SCAN ||
          coll == WI_COLL_EXSCAN))
        most += coll == WI_COLL_ALL_TO_ALL ? -log2(nranks) : 2 - log2(nranks);
    return 4 * (size_t)lrint(exp2(uniform(3, fmin(most, MOST_TOTAL))) / 4);
}

/* ---- What candidates take ---- */

#define MOST_RUNS 256

struct run {
    struct wi_algo_choice choice;
    struct wi_sim_cost cost;
};

static void run_one(const struct oracle_world *w, size_t bytes, uint32_t units, struct run *r)
{
    if (oracle_run(w, &r->choice, bytes, units, &r->cost) >= 0)
        return;
    fprintf(stderr, "%s: %s\n", wi_algo_choice_name(&r->choice), wi_fail_text());
    exit(1);
}

/* Chunks that any planner may think of for so many bytes. */
static int depth_is_sensible(int depth, size_t bytes)
{
    if (bytes < 64 << 10)
        return depth == 1;
    if (bytes < 4 << 20)
        return bytes < 512 << 10 ? depth <= 4 : depth <= 8;
    return depth >= 4;
}

/* Candidates, with several numbers of chunks; returns how many. */
static int list_runs(const struct oracle_world *w, const struct wi_plan_query *q, struct run *runs)
{
    struct wi_plan_candidate *list;
    int n, nruns = 0;

    if (wi_plan_candidates(w->planner, q, &list, &n) < 0) {
        fprintf(stderr, "%s\n", wi_fail_text());
        exit(1);
    }
    for (int i = 0; i < n; i++) {
        struct wi_algo_choice c = list[i].choice;
        int cut = wi_algo_has_chunks(&c);
        for (int depth = 1; !list[i].why_not && depth <= (cut ? 16 : 1); depth *= 2) {
            if (cut && !depth_is_sensible(depth, q->bytes))
                continue;
            if (cut)
                wi_hier_cut(&c.spec, depth);
            runs[nruns++].choice = c;
        }
    }
    wi_free(list);
    return nruns;
}

/* Loads know the longest chain and the busiest link and core, but not what holds up what: only the latter are bounds. */
static int may_be_good(const struct wi_sim_cost *c, double best)
{
    return fmax(c->busiest_us, c->busiest_core_us) < HOPELESS * best;
}

static void run_question(const struct oracle_world *w, enum wi_coll coll, size_t bytes)
{
    struct wi_plan_query q = {.coll = coll, .bytes = bytes};
    static struct run runs[MOST_RUNS];
    int n = list_runs(w, &q, runs);
    double best = INFINITY;

    for (int i = 0; i < n; i++) {
        run_one(w, bytes, UNITS, &runs[i]);
        best = runs[i].cost.by_events ? fmin(best, runs[i].cost.us) : best;
    }
    printf("%s %zu", wi_coll_name(coll), bytes);
    for (int i = 0; i < n; i++) {
        struct run *r = &runs[i];
        char name[WI_ALGO_SPEC_BYTES];
        for (uint32_t units = 4 * UNITS; !r->cost.by_events && may_be_good(&r->cost, best) && units <= MOST_UNITS;
             units *= 4)
            run_one(w, bytes, units, r);
        printf(" %s%s=%.5g", r->cost.by_events ? "" : "~", wi_algo_text(r->choice.algo, &r->choice.spec, name),
               r->cost.us);
    }
    printf("\n");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static const enum wi_coll colls[] = {WI_COLL_ALL_REDUCE, WI_COLL_ALL_REDUCE, WI_COLL_REDUCE,
                                         WI_COLL_BROADCAST,  WI_COLL_ALL_GATHER, WI_COLL_REDUCE_SCATTER,
                                         WI_COLL_ALL_TO_ALL, WI_COLL_GATHER,     WI_COLL_SCATTER,
                                         WI_COLL_SCAN,       WI_COLL_EXSCAN,     WI_COLL_BARRIER};
    int first = argc > 1 ? atoi(argv[1]) : 0, end = argc > 2 ? atoi(argv[2]) : 200;

    for (int i = first; i < end; i++) {
        struct oracle_world w;
        char text[ORACLE_TEXT];
        int nranks;
        state = SEED + ((uint64_t)i << 32);
        do
            nranks = write_job(text, sizeof text);
        while (nranks < 4 || nranks > ORACLE_RANKS);
        if (oracle_open(&w, text) < 0) {
            fprintf(stderr, "%s: %s\n", text, wi_fail_text());
            return 1;
        }
        printf("job %s\n", text);
        for (int k = 0; k < QUESTIONS; k++) {
            enum wi_coll coll = ONE_OF(colls);
            run_question(&w, coll, random_bytes(coll, nranks));
        }
        oracle_close(&w);
    }
    return 0;
}
