/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs of what nobody has, of a file say: taken first fit, and joined when they are given back. */
#ifndef WI_ZERO_SPILL_RUNS_H
#define WI_ZERO_SPILL_RUNS_H

#include <stddef.h>
#include <weft/weft.h>

struct wi_run {
    size_t first, n;
};

struct wi_runs { /* all 0: none */
    struct wi_run *runs; /* sorted, none beside another. wi_free */
    size_t n, room;
};

/* From now on there may be so many runs at a time. WEFT_ENOMEM. */
weft_status wi_runs_reserve(struct wi_runs *runs, size_t n);
/* Nobody has these n any more; n may be 0. */
void wi_runs_give(struct wi_runs *runs, size_t first, size_t n);
/* Take n that follow each other; 0: there are none. */
int wi_runs_take(struct wi_runs *runs, size_t n, size_t *first);
/* How many there are immediately before `end`. */
size_t wi_runs_before(const struct wi_runs *runs, size_t end);

#endif
