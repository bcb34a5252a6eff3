/* Ranks that fork: children do not keep their parents alive in the eyes of other ranks.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fault/fault.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../unit/unit.h"

enum { RANKS = 3, VICTIM = 1 };

struct shared {
    const char *transport;
    int clone; /* a child that no handler of fork() sees */
    _Atomic int child, ready;
    _Atomic uint64_t struck_ms;
};
static struct shared *sh;

static void share(const char *transport, int clone)
{
    if (!sh)
        sh = mmap(NULL, sizeof *sh, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(sh, 0, sizeof *sh);
    sh->transport = transport;
    sh->clone = clone;
}

/* A worker that outlives its parent, until the test ends it. */
static void start_child(void)
{
    pid_t pid = sh->clone ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();

    if (pid == 0) {
        setsid(); /* not to be swept away with its parent */
        for (;;)
            pause();
    }
    WT_REQUIRE(pid > 0);
    sh->child = pid;
}

static void survive(int rank, int nranks, void *arg)
{
    int64_t in[512] = {0}, out[512];
    weft_status st = WEFT_SUCCESS;
    struct ft_rank f;

    (void)arg;
    ft_open(&f, sh->transport, 120000, rank, nranks);
    WT_REQUIRE_OK(weft_all_reduce(f.comm, in, out, 512, WEFT_INT64, WEFT_SUM, NULL));
    if (rank == VICTIM)
        start_child();
    wt_sync();
    sh->ready++;
    if (rank == VICTIM)
        for (;;)
            pause();
    while (st == WEFT_SUCCESS)
        st = weft_all_reduce(f.comm, in, out, 512, WEFT_INT64, WEFT_SUM, NULL);
    uint64_t took = wt_now_ms() - sh->struck_ms;
    WT_CHECK_STATUS(st, WEFT_EPEER);
    WT_CHECK_INT(ft_error(&f).peer, VICTIM);
    WT_CHECK(took <= wt_slow_ms(8000)); /* seconds, not the deadline of two minutes */
    fprintf(stderr, "after %llu ms: %s\n", (unsigned long long)took, ft_error(&f).message);
    ft_close(&f);
}

static void kill_the_parent(const char *transport, int clone)
{
    share(transport, clone);
    struct wt_job *job = wt_job_start(RANKS, survive, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(job);
    for (uint64_t until = wt_now_ms() + wt_slow_ms(15000); sh->ready < RANKS && wt_now_ms() < until;)
        usleep(500);
    CU_ASSERT_EQUAL(sh->ready, RANKS);
    sh->struck_ms = wt_now_ms();
    kill(wt_job_pid(job, VICTIM), SIGKILL);
    wt_job_expect_signal(job, VICTIM, SIGKILL);
    CU_ASSERT_EQUAL(wt_job_wait(job, 30000), 0);
    if (sh->child > 0)
        kill(sh->child, SIGKILL);
}

static void forked(void)
{
    kill_the_parent("tcp", 0);
    kill_the_parent("shm", 0);
}

static void cloned(void)
{
    kill_the_parent("tcp", 1);
}

static const struct wt_case cases[] = {
    {"a killed rank whose child lives on is noticed", forked},
    {"likewise where the child was cloned", cloned},
};
WT_UNIT_MAIN("fork", cases)
