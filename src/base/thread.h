/* SPDX-License-Identifier: BSD-3-Clause */
/* What the library's own threads ask of the scheduler. */
#ifndef WI_BASE_THREAD_H
#define WI_BASE_THREAD_H

/* For a thread that works and sleeps for short times while other threads wait for it. The calling thread gets
 *   the shortest time slices (ordinary scheduling, Linux 6.12 and later). Where it would wait for
 *     milliseconds after it wakes, until the slice of a thread that computes on the same core has ended, it then runs at once.
 *     Its share of the core stays the same.
 *     (sched_setattr(2), sched_runtime; Linux, Documentation/scheduler/sched-eevdf.rst.)
 *   exact timers. Short sleeps last 50 us longer otherwise. (PR_SET_TIMERSLACK(2const).)
 * Without an error if the kernel does not know or does not allow them. */
void wi_thread_prompt(void);

#endif
