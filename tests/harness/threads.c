/* Ranks as threads of one process, for ThreadSanitizer and for tests that count allocations.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/harness/harness.h"
#include "tests/harness/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct thread_run;
struct thread_rank {
    struct thread_run *run;
    pthread_t thread;
    int rank, failures, ended;
};

struct thread_run {
    int nranks, running;
    wt_rank_fn fn;
    void *arg;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    struct wt_shared shared;
    struct thread_rank ranks[];
};

static void *play_rank(void *arg)
{
    struct thread_rank *self = arg;
    struct thread_run *run = self->run;
    wt_self = (struct wt_self){.rank = self->rank, .shared = &run->shared};
    if (setjmp(wt_self.end) == 0)
        run->fn(self->rank, run->nranks, run->arg);
    pthread_mutex_lock(&run->lock);
    self->failures = wt_self.failures;
    self->ended = 1;
    run->running--;
    pthread_cond_signal(&run->ended);
    pthread_mutex_unlock(&run->lock);
    return NULL;
}

static void run_free(struct thread_run *run)
{
    pthread_barrier_destroy(&run->shared.barrier);
    pthread_cond_destroy(&run->ended);
    pthread_mutex_destroy(&run->lock);
    free(run->shared.given);
    free(run);
}

static struct thread_run *run_create(int nranks, wt_rank_fn fn, void *arg)
{
    struct thread_run *run = calloc(1, sizeof *run + (size_t)nranks * sizeof *run->ranks);
    if (!run)
        return NULL;
    run->nranks = nranks;
    run->fn = fn;
    run->arg = arg;
    pthread_mutex_init(&run->lock, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&run->ended, &attr);
    pthread_condattr_destroy(&attr);
    pthread_barrier_init(&run->shared.barrier, NULL, (unsigned)nranks);
    run->shared.nranks = nranks;
    run->shared.given = calloc((size_t)nranks, sizeof *run->shared.given);
    if (run->shared.given)
        return run;
    run_free(run);
    return NULL;
}

int wt_is_thread(void)
{
    return wt_self.rank >= 0 && !wt_self.forked;
}

int wt_exchange(void *arg, const void *mine, size_t bytes, void *all, uint64_t timeout_ns)
{
    struct wt_shared *shared = wt_self.shared;
    (void)arg, (void)timeout_ns; /* wt_threads has a deadline */
    shared->given[wt_self.rank] = mine;
    wt_sync();
    for (int r = 0; r < shared->nranks; r++)
        memcpy((char *)all + (size_t)r * bytes, shared->given[r], bytes);
    wt_sync();
    return 0;
}

static _Noreturn void report_stuck(const struct thread_run *run, unsigned deadline_ms)
{
    FILE *out = wt_report_open();
    for (int r = 0; r < run->nranks; r++)
        if (!run->ranks[r].ended)
            fprintf(out, "rank %d: stuck at the deadline of %u ms\n", r, deadline_ms);
    wt_report_close(out);
    fflush(NULL);
    _exit(1);
}

static void wait_step(struct thread_run *run, unsigned ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)ms * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&run->ended, &run->lock, &until);
}

int wt_threads(int nranks, wt_rank_fn fn, void *arg, unsigned deadline_ms)
{
    struct thread_run *run = nranks > 0 ? run_create(nranks, fn, arg) : NULL;
    if (!run)
        return -1;
    deadline_ms = wt_slow_ms(deadline_ms);
    int stray = wt_process_failures;
    pthread_mutex_lock(&run->lock);
    for (int r = 0; r < nranks; r++) {
        run->ranks[r] = (struct thread_rank){.run = run, .rank = r};
        int err = pthread_create(&run->ranks[r].thread, NULL, play_rank, &run->ranks[r]);
        if (err) {
            fprintf(stderr, "harness: cannot start thread of rank %d: %s\n", r, strerror(err));
            exit(99);
        }
        run->running++;
    }
    for (unsigned left = deadline_ms; run->running > 0;) {
        unsigned step = left < WT_STEP_MS ? left : WT_STEP_MS;
        uint64_t before = wt_now_ms();
        if (left == 0)
            report_stuck(run, deadline_ms);
        wait_step(run, step);
        uint64_t passed = wt_now_ms() - before;
        left -= passed < step ? (unsigned)passed : step;
    }
    pthread_mutex_unlock(&run->lock);

    int failed = 0;
    for (int r = 0; r < nranks; r++) {
        pthread_join(run->ranks[r].thread, NULL);
        failed += run->ranks[r].failures > 0;
    }
    run_free(run);
    return failed + (wt_process_failures != stray);
}

struct apart {
    int nranks;
    wt_rank_fn fn;
    void *arg;
    unsigned deadline_ms;
};

static void play_apart(int rank, int nranks, void *arg)
{
    const struct apart *a = arg;
    (void)rank, (void)nranks;
    WT_CHECK_INT(wt_threads(a->nranks, a->fn, a->arg, a->deadline_ms), 0);
}

int wt_threads_apart(int nranks, wt_rank_fn fn, void *arg, unsigned deadline_ms)
{
    struct apart a = {nranks, fn, arg, deadline_ms};
    return wt_run(1, play_apart, &a, deadline_ms + 5000); /* so that wt_threads names who is stuck */
}
