/* SPDX-License-Identifier: BSD-3-Clause */
/* Which process a number means, where namespaces of processes stand in each other. */
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process.h"
#include "tests/unit/unit.h"

enum { CANNOT = 1, FAILED };

static int holds(int condition, const char *what)
{
    if (!condition)
        printf("# it does not hold that %s\n", what);
    return condition;
}

/* Its exit status is what `fn` returns. */
static int in_child(int (*fn)(const struct weft_process *), const struct weft_process *of)
{
    int status;
    pid_t child;

    fflush(stdout);
    child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        status = fn(of);
        fflush(stdout);
        _exit(status);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : FAILED;
}

/* Process 1 of the innermost namespace, whose parent is process 1 of the one around. */
static int innermost(const struct weft_process *parent)
{
    struct weft_process self;

    wi_process_self(&self);
    if (!holds(self.pid == 1 && parent->pid == 1, "both have number 1") ||
        !holds(self.space && self.space != parent->space, "a number means another process here") ||
        !holds(wi_process_state(parent) == '?', "nothing is known of the process with that number outside") ||
        !holds(wi_process_state(&self) != 0, "the process is there"))
        return FAILED;
    return 0;
}

/* Process 1 of a namespace; first /proc is still the outer one's. */
static int inner(const struct weft_process *outer)
{
    struct weft_process self, gone, again;

    wi_process_self(&self);
    gone = self;
    gone.pid = 12345;
    if (!holds(self.pid == 1 && self.space && self.space != outer->space, "it has numbers of its own") ||
        !holds(self.started >= outer->started, "it began after its parent, as no other process 1 did") ||
        !holds(wi_process_state(&self) == '?', "of a process that is there nothing is known") ||
        !holds(wi_process_state(&gone) == 0, "that there is none of a number is known"))
        return FAILED;
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) || mount("proc", "/proc", "proc", 0, NULL))
        return CANNOT;
    wi_process_self(&again);
    if (!holds(again.space == self.space && again.started == self.started && again.pid == 1,
               "it is the same process") ||
        !holds(wi_process_state(&self) == 'R', "it runs"))
        return FAILED;
    return unshare(CLONE_NEWPID) ? CANNOT : in_child(innermost, &self);
}

static int outermost(const struct weft_process *unused)
{
    struct weft_process self;

    (void)unused;
    wi_process_self(&self);
    if (unshare(CLONE_NEWPID | CLONE_NEWNS) && unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS))
        return CANNOT;
    return in_child(inner, &self);
}

static void namespaces(void)
{
    int status = in_child(outermost, NULL);

    if (status == CANNOT)
        wt_skip("no namespaces of processes can be made here");
    else
        CU_ASSERT_EQUAL(status, 0);
}

static void this_one(void)
{
    struct weft_process self, other;

    wi_process_self(&self);
    CU_ASSERT(self.space && self.pid == (int32_t)getpid());
    CU_ASSERT_EQUAL(wi_process_state(&self), 'R');
    other = self;
    other.started++;
    CU_ASSERT_EQUAL(wi_process_state(&other), 0);
    other = self;
    other.space++;
    CU_ASSERT_EQUAL(wi_process_state(&other), '?');
}

static const struct wt_case cases[] = {
    {"this process", this_one},
    {"children with their parents' numbers in other namespaces", namespaces},
};
WT_UNIT_MAIN("process", cases)
