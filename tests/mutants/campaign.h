/* SPDX-License-Identifier: BSD-3-Clause */
/* Mutants of registered algorithms, judged by the checker and by the interpreter. */
#ifndef TESTS_CAMPAIGN_H
#define TESTS_CAMPAIGN_H

#include "algo/algo.h"
#include "interp.h"
#include "mutate.h"

/* All ranks' schedules of one algorithm. */
struct form {
    const struct wi_algo *algo;
    int nranks, root, in_place, ordered;
    struct wi_sched *scheds[INTERP_MAX_RANKS];
};

struct tally {
    uint64_t made, wrong, refused, survived;
    uint64_t missed; /* shown wrong, and not refused */
};

/* 0 when the algorithm does not serve this form, 1 when built, -1 on failure (printed). */
int form_build(struct form *f, const struct wi_algo *algo, int nranks, int root, int in_place);
void form_put(struct form *f);
int form_has_root(const struct wi_algo *algo);
/* The unmutated schedules: 0 when the checker accepts them and `runs` interleavings show nothing; else printed. */
int form_right(const struct form *f, unsigned runs, uint64_t seed);

enum verdict { VERDICT_REFUSED, VERDICT_REFUSED_WRONG, VERDICT_SURVIVED, VERDICT_MISSED };
/* Judge the n-th mutant of one rank. One that the checker accepts gets `runs` interleavings, one that it refuses a few, so that
 * the tally can say how many were shown wrong. `m` and `why` (of the interpreter) say what it was. */
enum verdict form_judge(struct form *f, int rank, uint32_t n, unsigned runs, uint64_t seed, struct mutation *m,
                        char why[256]);
void tally_add(struct tally *t, enum verdict verdict);
/* "# missed: all_reduce/ring P=4 root 0 rank 1: ..." */
void form_print(const struct form *f, int rank, const struct mutation *m, const char *head, const char *why, FILE *out);

#endif
