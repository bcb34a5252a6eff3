/* SPDX-License-Identifier: BSD-3-Clause */
/* The library's own threads: how they start, and what they ask of the scheduler. */
#define _GNU_SOURCE
#include "base/thread.h"

#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SHORTEST_NS 100000u /* the kernel's limit */
#define TIMER_SLACK_NS 1000ul

/* The first version of the kernel's struct sched_attr, which all kernels take. The C library wraps neither call. */
struct attr {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

static void shortest_slices(void)
{
    struct attr a = {.size = sizeof a};

    if (syscall(SYS_sched_getattr, 0, &a, sizeof a, 0) < 0 || (a.policy != SCHED_OTHER && a.policy != SCHED_BATCH))
        return;
    a.size = sizeof a;
    a.runtime = SHORTEST_NS;
    (void)syscall(SYS_sched_setattr, 0, &a, 0);
}

void wi_thread_prompt(void)
{
    shortest_slices();
    (void)prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS, 0, 0, 0);
}

int wi_thread_start(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    sigset_t all, before;
    int err;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    err = pthread_create(thread, attr, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return err;
}
