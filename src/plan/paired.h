/* SPDX-License-Identifier: BSD-3-Clause */
/* Paired measurements: several algorithms in each of several rounds.
 *
 * A machine is not the same in every round: virtual cores move, other processes run. That shifts all algorithms of a round alike,
 * so they are compared within rounds only: log(us) = algorithm + round + rest, fitted to the two-way table in the manner of
 * Tukey's median polish (Exploratory Data Analysis, 1977, ch. 11), with midmeans for medians: where the machine alternates
 * between two states a median is in one of them, whichever was there a little more often. */
#ifndef WI_PLAN_PAIRED_H
#define WI_PLAN_PAIRED_H

#include <weft/weft.h>

struct wi_paired {
    double us;    /* in a good round (the lower quartile of all); 0: never measured */
    double noise; /* one standard error of it within rounds, as a share; 0: not known, measured once */
    int rounds;   /* in which it was measured */
};

/* us[algo * nrounds + round], 0 where an algorithm was left out of a round; out[nalgos]. */
weft_status wi_paired_fit(const double *us, int nalgos, int nrounds, struct wi_paired *out);

/* Mean of the middle half; sorts the list. n >= 1. */
double wi_midmean(double *list, int n);
/* Of a sorted list, 0 <= share <= 1; n >= 1. */
double wi_quantile(const double *sorted, int n, double share);
void wi_sort_values(double *list, int n);

#endif
