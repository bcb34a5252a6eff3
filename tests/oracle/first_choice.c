/* SPDX-License-Identifier: BSD-3-Clause */
/* What the first choice of a size takes, in user time: planners as a communicator makes them, each asked for sizes that it has not
 * been asked for before. Run by hand:
 *
 *     first_choice [ROUNDS]       the least of so many rounds (3), for jobs of 4 to 4,096 ranks */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/alloc.h"
#include "base/status.h"
#include "plan/internal.h"

#define MOST_RANKS 4096
#define NSIZES 11

static const enum wi_coll colls[] = {WI_COLL_ALL_REDUCE,     WI_COLL_REDUCE,     WI_COLL_BROADCAST, WI_COLL_ALL_GATHER,
                                     WI_COLL_REDUCE_SCATTER, WI_COLL_ALL_TO_ALL, WI_COLL_GATHER,    WI_COLL_SCATTER,
                                     WI_COLL_SCAN,           WI_COLL_BARRIER};
#define NCOLLS (sizeof colls / sizeof *colls)

static double user_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static struct wi_planner *planner(int nnodes, int per_node)
{
    static int32_t node[MOST_RANKS];
    static struct wi_algo_levels levels;
    struct wi_plan_facts facts = {.nranks = nnodes * per_node, .nnodes = nnodes, .levels = &levels};
    struct wi_plan_config config = {.facts = &facts};
    struct wi_planner *p = NULL;

    for (int r = 0; r < facts.nranks; r++)
        node[r] = r / per_node;
    levels = (struct wi_algo_levels){1, {{"node", nnodes, node}}};
    if (wi_planner_create(&config, &p) < 0) {
        fprintf(stderr, "first_choice: %s\n", wi_fail_text());
        exit(1);
    }
    return p;
}

/* Powers of four, and more than the power that was asked before. */
static size_t size_of(size_t i)
{
    return (size_t)24 << 2 * i;
}

static void measure(int nnodes, int per_node, double us[NCOLLS][NSIZES], double *made)
{
    double before = user_us();
    struct wi_planner *p = planner(nnodes, per_node);

    *made = fmin(*made, user_us() - before);
    for (size_t c = 0; c < NCOLLS; c++)
        for (size_t i = 0; i < NSIZES; i++) {
            struct wi_plan_query q = {.coll = colls[c], .bytes = colls[c] == WI_COLL_BARRIER ? i : size_of(i)};
            struct wi_plan plan;
            before = user_us();
            if (wi_plan(p, &q, NULL, &plan) < 0) {
                fprintf(stderr, "first_choice: %s\n", wi_fail_text());
                exit(1);
            }
            us[c][i] = fmin(us[c][i], user_us() - before);
        }
    wi_planner_destroy(p);
}

int main(int argc, char **argv)
{
    static const struct {
        int nnodes, per_node;
    } jobs[] = {{2, 2}, {2, 4},  {4, 2},  {2, 8},  {4, 4},  {16, 1},  {3, 8},
                {8, 8}, {4, 16}, {64, 1}, {25, 8}, {64, 8}, {512, 8}, {4096, 1}};
    int rounds = argc > 1 ? atoi(argv[1]) : 3;

    printf("%-12s %9s %9s %9s  %s\n", "nodes x per", "make us", "mean us", "worst us", "worst of");
    for (size_t j = 0; j < sizeof jobs / sizeof *jobs; j++) {
        double us[NCOLLS][NSIZES], made = INFINITY, sum = 0, worst = 0;
        size_t of = 0, at = 0;
        for (size_t i = 0; i < NCOLLS * NSIZES; i++)
            us[i / NSIZES][i % NSIZES] = INFINITY;
        for (int r = 0; r < rounds; r++)
            measure(jobs[j].nnodes, jobs[j].per_node, us, &made);
        for (size_t i = 0; i < NCOLLS * NSIZES; i++) {
            double one = us[i / NSIZES][i % NSIZES];
            sum += one;
            if (one <= worst)
                continue;
            worst = one;
            of = i / NSIZES;
            at = i % NSIZES;
        }
        printf("%5d x %-4d %9.0f %9.0f %9.0f  %s of %zu bytes\n", jobs[j].nnodes, jobs[j].per_node, made,
               sum / (NCOLLS * NSIZES), worst, wi_coll_name(colls[of]), size_of(at));
    }
    return 0;
}
