/* SPDX-License-Identifier: BSD-3-Clause */
/* The optimizers' pool: each unit once, whoever does it; forks, failures, more threads than cores. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/status.h"
#include "../unit/unit.h"
#include "zero/optim/optim_isa.h"

#define UNITS 1000

struct tally {
    _Atomic int done[UNITS];
    _Atomic int disorder;
};

/* A cursor holds the last unit's number + 1. */
static void count_unit(void *arg, void *cursor, size_t unit)
{
    struct tally *tally = arg;
    size_t *last = cursor;

    if (*last > unit)
        atomic_fetch_add(&tally->disorder, 1);
    *last = unit + 1;
    atomic_fetch_add(&tally->done[unit], 1);
}

static int run_once(struct wi_optim_pool *pool, size_t nunits)
{
    static struct tally tally;
    int wrong;

    memset(&tally, 0, sizeof(tally));
    wi_optim_pool_run(pool, count_unit, &tally, nunits);
    wrong = tally.disorder;
    for (size_t i = 0; i < UNITS; i++)
        wrong += tally.done[i] != (i < nunits);
    return wrong;
}

static void each_unit_once(void)
{
    for (int threads = 1; threads <= 17; threads += 4) {
        struct wi_optim_pool *pool;

        CU_ASSERT_EQUAL_FATAL(wi_optim_pool_create(threads, &pool), WEFT_SUCCESS);
        for (size_t nunits = 0; nunits < 40; nunits++)
            CU_ASSERT_EQUAL(run_once(pool, nunits), 0);
        CU_ASSERT_EQUAL(run_once(pool, UNITS), 0);
        wi_optim_pool_destroy(pool);
    }
    CU_ASSERT_EQUAL(run_once(NULL, UNITS), 0);
}

/* Two units that wait for each other are done only if a second thread takes part. */
static void meet(void *arg, void *cursor, size_t unit)
{
    (void)cursor;
    (void)unit;
    pthread_barrier_wait(arg);
}

static void threads_take_part(void)
{
    struct wi_optim_pool *pool;
    pthread_barrier_t barrier;

    CU_ASSERT_EQUAL_FATAL(wi_optim_pool_create(4, &pool), WEFT_SUCCESS);
    pthread_barrier_init(&barrier, NULL, 4);
    for (int i = 0; i < 50; i++)
        wi_optim_pool_run(pool, meet, &barrier, 4);
    pthread_barrier_destroy(&barrier);
    wi_optim_pool_destroy(pool);
}

static void destroyed_without_use(void)
{
    struct wi_optim_pool *pool;

    wi_optim_pool_destroy(NULL);
    for (int i = 0; i < 20; i++) {
        CU_ASSERT_EQUAL_FATAL(wi_optim_pool_create(WI_OPTIM_THREADS_MAX, &pool), WEFT_SUCCESS);
        wi_optim_pool_destroy(pool);
        CU_ASSERT_EQUAL_FATAL(wi_optim_pool_create(3, &pool), WEFT_SUCCESS);
        CU_ASSERT_EQUAL(run_once(pool, 3), 0);
        wi_optim_pool_destroy(pool);
    }
}

static void create_refuses(void)
{
    struct wi_optim_pool *pool = NULL;

    CU_ASSERT_EQUAL(wi_optim_pool_create(0, &pool), WEFT_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "0 threads"));
    CU_ASSERT_EQUAL(wi_optim_pool_create(WI_OPTIM_THREADS_MAX + 1, &pool), WEFT_EINVAL);
    CU_ASSERT_EQUAL(wi_optim_pool_create(1, NULL), WEFT_EINVAL);
    for (long n = 1; n <= 2; n++) {
        wi_alloc_fail_nth(n);
        CU_ASSERT_EQUAL(wi_optim_pool_create(2, &pool), WEFT_ENOMEM);
    }
    wi_alloc_fail_nth(0);
    CU_ASSERT_PTR_NULL(pool);
}

/* The child uses its parent's pool, then ends it; the parent's goes on. */
static void after_fork(void)
{
    struct wi_optim_pool *pool;
    pthread_barrier_t barrier;
    int status = -1;
    pid_t child;

#if defined(__SANITIZE_THREAD__)
    wt_skip("ThreadSanitizer ends a child that starts threads after its parent had some");
    return;
#endif
    CU_ASSERT_EQUAL_FATAL(wi_optim_pool_create(3, &pool), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(run_once(pool, UNITS), 0);
    fflush(stdout);
    child = fork();
    if (child == 0) {
        int wrong;

        alarm(60);
        wrong = run_once(pool, UNITS);
        pthread_barrier_init(&barrier, NULL, 3);
        wi_optim_pool_run(pool, meet, &barrier, 3);
        wi_optim_pool_destroy(pool);
        _exit(wrong != 0);
    }
    CU_ASSERT(child > 0);
    CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
    CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CU_ASSERT_EQUAL(run_once(pool, UNITS), 0);
    wi_optim_pool_destroy(pool);
}

static const struct wt_case cases[] = {
    {"each unit is done once, in ascending order", each_unit_once},
    {"all threads take part", threads_take_part},
    {"a pool is destroyed, used or not", destroyed_without_use},
    {"create refuses what is out of range", create_refuses},
    {"a child goes on after fork", after_fork},
};

WT_UNIT_MAIN("optim_pool", cases)
