/* SPDX-License-Identifier: BSD-3-Clause */
/* What the library's own threads ask of the scheduler. */
#define _GNU_SOURCE
#include "base/thread.h"

#include <sched.h>
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
