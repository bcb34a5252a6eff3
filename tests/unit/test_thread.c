/* SPDX-License-Identifier: BSD-3-Clause */
/* What threads of the library ask of the scheduler and of signals, as the kernel tells it. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/thread.h"
#include "tests/unit/unit.h"

struct attr { /* sched_setattr(2) */
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

struct told {
    struct attr before, after;
    int slack, failed;
};

static void *ask(void *arg)
{
    struct told *t = arg;

    t->failed = syscall(SYS_sched_getattr, 0, &t->before, sizeof t->before, 0) != 0;
    wi_thread_prompt();
    t->failed |= syscall(SYS_sched_getattr, 0, &t->after, sizeof t->after, 0) != 0;
    t->slack = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
    return NULL;
}

static struct told asked(void)
{
    struct told t;
    pthread_t thread;

    memset(&t, 0, sizeof t);
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, ask, &t), 0);
    pthread_join(thread, NULL);
    CU_ASSERT_EQUAL(t.failed, 0);
    return t;
}

static void shortest(void)
{
    struct told t = asked();

    if (t.before.policy != SCHED_OTHER || !t.before.runtime) {
        wt_skip("this kernel has no slices that a thread can choose, or this is no ordinary thread");
        return;
    }
    CU_ASSERT(t.before.runtime > 100000);
    CU_ASSERT_EQUAL(t.after.runtime, 100000);
    CU_ASSERT_EQUAL(t.after.policy, t.before.policy);
    CU_ASSERT_EQUAL(t.after.nice, t.before.nice);
    CU_ASSERT_EQUAL(t.after.priority, t.before.priority);
}

static void exact(void)
{
    struct told t = asked();

    CU_ASSERT_EQUAL(t.slack, 1000);
    CU_ASSERT(prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0) > 1000); /* of that thread alone */
}

/* Of a thread with a deadline, for which a privilege is needed, the same number is the time that it may compute. */
static void *ask_with_deadline(void *arg)
{
    struct attr deadline = {
        .size = sizeof deadline, .policy = 6, .runtime = 5000000, .deadline = 50000000, .period = 50000000};

    if (syscall(SYS_sched_setattr, 0, &deadline, 0))
        return NULL;
    ask(arg);
    return arg;
}

static void left_alone(void)
{
    struct told t;
    pthread_t thread;
    void *ran;

    memset(&t, 0, sizeof t);
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, ask_with_deadline, &t), 0);
    pthread_join(thread, &ran);
    if (!ran) {
        wt_skip("no deadline can be had here");
        return;
    }
    CU_ASSERT_EQUAL(t.failed, 0);
    CU_ASSERT_EQUAL(t.after.runtime, 5000000);
    CU_ASSERT_EQUAL(memcmp(&t.before, &t.after, sizeof t.before), 0);
}

static void *ask_for_mask(void *arg)
{
    pthread_sigmask(SIG_BLOCK, NULL, arg);
    return arg;
}

/* A started thread has all signals blocked that can be, and its maker those that it had. */
static void quiet(void)
{
    sigset_t before, after, there;
    pthread_t thread;

    sigemptyset(&before);
    sigaddset(&before, SIGUSR2);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    CU_ASSERT_EQUAL_FATAL(wi_thread_start(&thread, NULL, ask_for_mask, &there), 0);
    pthread_join(thread, NULL);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (int s = 1; s < 32; s++) {
        CU_ASSERT_EQUAL(sigismember(&there, s), s != SIGKILL && s != SIGSTOP);
        CU_ASSERT_EQUAL(sigismember(&after, s), s == SIGUSR2);
    }
    sigemptyset(&before);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static const struct wt_case cases[] = {
    {"the shortest slices", shortest},
    {"exact timers", exact},
    {"a thread with a deadline", left_alone},
    {"a thread without signals", quiet},
};
WT_UNIT_MAIN("thread", cases)
