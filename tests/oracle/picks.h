/* SPDX-License-Identifier: BSD-3-Clause */
/* picks.txt, read, and the planner's picks judged by it. */
#ifndef WI_TESTS_ORACLE_PICKS_H
#define WI_TESTS_ORACLE_PICKS_H

#include "tests/oracle/world.h"

/* What a pick takes, as a multiple of the least that any candidate takes. */
struct oracle_pick {
    double ratio;
    char text[ORACLE_TEXT + 512]; /* "all_reduce of 64 bytes: ring, best ...; job" */
};

struct oracle_picks {
    struct oracle_pick *pick; /* sorted, worst first */
    int npicks, capacity;
    int njobs;
    int unlisted; /* picks that picks.txt does not have, as of another number of chunks: they were run */
    int unknown;  /* that it has as far too much for events: they are not judged */
    double choose_us; /* user time of the choices */
};

/* Prints what was wrong with the file or the planner. 0: all was read. */
int oracle_judge(const char *path, struct oracle_picks *picks);
void oracle_picks_free(struct oracle_picks *picks);
double oracle_mean(const struct oracle_picks *picks); /* geometric */
double oracle_percentile(const struct oracle_picks *picks, double percent);

#endif
