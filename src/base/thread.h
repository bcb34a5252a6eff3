/* SPDX-License-Identifier: BSD-3-Clause */
/* The library's own threads: how they start, and what they ask of the scheduler. */
#ifndef WI_BASE_THREAD_H
#define WI_BASE_THREAD_H

#include <pthread.h>

/* For a thread that works and sleeps for short times while other threads wait for it. The calling thread gets
 *   the shortest time slices (ordinary scheduling, Linux 6.12 and later). Where it would wait for
 *     milliseconds after it wakes, until the slice of a thread that computes on the same core has ended, it then runs at once.
 *     Its share of the core stays the same.
 *     (sched_setattr(2), sched_runtime; Linux, Documentation/scheduler/sched-eevdf.rst.)
 *   exact timers. Short sleeps last 50 us longer otherwise. (PR_SET_TIMERSLACK(2const).)
 * Without an error if the kernel does not know or does not allow them. */
void wi_thread_prompt(void);

/* pthread_create for a thread of the library's, in which all signals are blocked: handlers are for the program's threads, and
 * SIGXFSZ, where a file would become too long, is sent to the thread that writes and would end the process; the write fails with
 * EFBIG then. attr: or NULL. The result is 0 or an error number. */
int wi_thread_start(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);

#endif
