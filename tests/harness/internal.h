/* What the parts of the harness share.
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef WT_INTERNAL_H
#define WT_INTERNAL_H

#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdio.h>

/* A barrier that works between processes and between threads. */
struct wt_shared {
    pthread_barrier_t barrier;
    int nranks;
    const void **given; /* [nranks], ranks that are threads only: what wt_exchange collects */
};

/* One rank, as seen by the thread that plays it. */
struct wt_self {
    int rank;     /* -1: not a rank, but perhaps a thread that a rank started */
    int failures; /* of a rank that is a thread; all others count for the process */
    int forked;
    jmp_buf end;
    struct wt_shared *shared;
};
extern _Thread_local struct wt_self wt_self;

/* What is failed in threads that are no rank themselves: for a rank that is a process, all of its threads. */
extern _Atomic int wt_process_failures;
extern int wt_process_rank; /* -1: this process is no rank */

/* A deadline counts down in steps of at most this; of a step that took longer, the rest was a stall of the machine, or we
 * were all stopped, and does not count. */
#define WT_STEP_MS 100u

FILE *wt_report_open(void);
void wt_report_close(FILE *out);

#endif
