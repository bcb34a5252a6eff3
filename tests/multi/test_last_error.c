/* weft_last_error from any thread: whole texts, while operations fail in another one.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fault/fault.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "../unit/unit.h"
#include <weft/weft_client.h>

struct reader {
    weft_comm *comm;
    atomic_int stop;
    int looked, torn;
    char example[256];
};

/* The message says which operation it was: the same as `seq`. */
static void *read_errors(void *arg)
{
    struct reader *r = arg;

    while (!atomic_load(&r->stop)) {
        weft_error e = WEFT_ERROR_INIT;
        const char *number;
        if (weft_last_error(r->comm, &e) < 0)
            break;
        if (e.status == WEFT_SUCCESS)
            continue;
        number = strchr(e.message, '#');
        r->looked++;
        if (!number || strtoull(number + 1, NULL, 10) != e.seq || e.status != WEFT_ETRUNC) {
            r->torn++;
            snprintf(r->example, sizeof r->example, "%llu: %s", (unsigned long long)e.seq, e.message);
        }
    }
    return NULL;
}

static void fail_and_read(int rank, int nranks, void *arg)
{
    int64_t from[64] = {0}, to[64];
    struct reader readers[2] = {{0}};
    pthread_t threads[2];
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    for (int i = 0; i < 2; i++) {
        readers[i].comm = f.comm;
        WT_REQUIRE(pthread_create(&threads[i], NULL, read_errors, &readers[i]) == 0);
    }
    for (size_t i = 0; i < 5000; i++)
        WT_CHECK_STATUS(weft_send_recv(f.comm, from, 2 + i % 60, rank, 0, to, 1, rank, 0, WEFT_INT64, NULL),
                        WEFT_ETRUNC);
    for (int i = 0; i < 2; i++) {
        atomic_store(&readers[i].stop, 1);
        pthread_join(threads[i], NULL);
        if (readers[i].torn)
            wt_fail(__FILE__, __LINE__, "%d of %d were torn: %s", readers[i].torn, readers[i].looked,
                    readers[i].example);
    }
    ft_close(&f);
}

static void readers_and_failures(void)
{
    CU_ASSERT_EQUAL(wt_run(2, fail_and_read, "shm", 60000), 0);
}

/* What one thread was told stays as it is when another one asks for other communicator's failure. */
static void *ask(void *comm)
{
    weft_error e = WEFT_ERROR_INIT;
    return (void *)(intptr_t)weft_last_error(comm, &e);
}

static void own_copies(int rank, int nranks, void *arg)
{
    int64_t from[8] = {0}, to[8];
    char before[512];
    weft_error e = WEFT_ERROR_INIT;
    pthread_t thread;
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    WT_CHECK_STATUS(weft_send_recv(f.comm, from, 3, rank, 0, to, 1, rank, 0, WEFT_INT64, NULL), WEFT_ETRUNC);
    WT_CHECK_OK(weft_last_error(f.comm, &e));
    snprintf(before, sizeof before, "%s", e.message);
    WT_CHECK_STATUS(weft_send_recv(f.comm, from, 4, rank, 0, to, 2, rank, 0, WEFT_INT64, NULL), WEFT_ETRUNC);
    WT_REQUIRE(pthread_create(&thread, NULL, ask, f.comm) == 0);
    pthread_join(thread, NULL);
    WT_CHECK(strcmp(e.message, before) == 0);
    ft_close(&f);
}

static void copies(void)
{
    CU_ASSERT_EQUAL(wt_run(1, own_copies, "shm", 30000), 0);
}

/* ---- The thread's own ---- */

enum { MANY = 50000 };

/* Another thread of rank 0 receives a message of another length, which has come already. */
static void *find_failure(void *arg)
{
    struct ft_rank *f = arg;
    int32_t word;

    usleep(20000); /* that the other call be the first */
    WT_CHECK_STATUS(weft_recv(f->comm, &word, 1, WEFT_INT32, 1, 1, NULL), WEFT_EMISMATCH);
    return NULL;
}

/* A blocking call that fails says why to its thread, too, whatever the transport does between the failure and its return, and
 * whichever thread finds the failure. Rank 1 does not come: on rank 0 the call fails by its deadline, or because of what another
 * thread finds meanwhile; on the fast path and on the general one. */
static void fail_in_call(int rank, int nranks, void *arg)
{
    static int32_t from[MANY], to[MANY];
    struct ft_rank f;
    pthread_t finder;
    weft_error e;

    for (int i = 0; i < 4; i++) {
        size_t n = i & 1 ? MANY : 1;
        int own = i < 2;
        weft_status why = own ? WEFT_ETIMEDOUT : WEFT_EMISMATCH;
        ft_open(&f, arg, 20000, rank, nranks);
        if (rank == 1 && !own)
            WT_CHECK_OK(weft_send(f.comm, from, 2, WEFT_INT32, 0, 1, NULL));
        wt_sync();
        if (rank == 0) {
            WT_CHECK_OK(weft_comm_set_timeout(f.comm, (own ? 200 : 20000) * FT_MS));
            WT_REQUIRE(own || pthread_create(&finder, NULL, find_failure, &f) == 0);
            WT_CHECK_STATUS(weft_all_reduce(f.comm, from, to, n, WEFT_INT32, WEFT_SUM, NULL), why);
            e = ft_error(&f);
            WT_CHECK_STATUS(e.status, why);
            WT_CHECK_STR(e.operation, own ? "all_reduce" : "recv");
            WT_CHECK_STR(weft_thread_error(), e.message);
            if (!own)
                pthread_join(finder, NULL);
        }
        wt_sync();
        ft_close(&f);
    }
}

static void blocking_calls(void)
{
    CU_ASSERT_EQUAL(ft_run_everywhere(2, fail_in_call, "a blocking call that fails", 60000), 0);
}

/* The text of the failure is not that of the file that could not be written about it. */
static void fail_undumped(int rank, int nranks, void *arg)
{
    setenv("WEFT_COMM_DUMP_ON_ERROR", "y", 1);
    setenv("WEFT_COMM_DUMP_PATH", "/nonexistent/%r.json", 1);
    fail_in_call(rank, nranks, arg);
}

static void undumped(void)
{
    CU_ASSERT_EQUAL(ft_run_everywhere(2, fail_undumped, "a dump that cannot be written", 60000), 0);
}

/* Its settings are those of the context, and its failures the thread's. */
static void on_top(void)
{
    struct values {
        int64_t count;
    } v = {0};
    static const struct weft_setting rows[] = {
        {"COUNT", "4", WEFT_SETTING_INT, offsetof(struct values, count), 1, 64, "How many."},
        {NULL, NULL, WEFT_SETTING_STRING, 0, 0, 0, NULL},
    };
    static const char *const settings[] = {"ZERO_COUNT=9", NULL};
    weft_context_config config = WEFT_CONTEXT_CONFIG_INIT;
    weft_context *context;

    config.settings = settings;
    CU_ASSERT_EQUAL_FATAL(weft_context_create(&config, &context), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(weft_context_read_settings(context, "ZERO", rows, &v), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(v.count, 9);
    CU_ASSERT_EQUAL(weft_context_read_settings(context, NULL, rows, &v), WEFT_EINVAL);
    CU_ASSERT(strstr(weft_thread_error(), "context_read_settings: module is NULL") != NULL);
    CU_ASSERT_EQUAL(weft_context_read_settings(context, "ZERO", NULL, &v), WEFT_EINVAL);
    CU_ASSERT_EQUAL(weft_context_read_settings(context, "ZERO", rows, NULL), WEFT_EINVAL);
    CU_ASSERT_EQUAL(weft_context_read_settings(NULL, "ZERO", rows, &v), WEFT_EINVAL);
    CU_ASSERT_EQUAL(weft_context_destroy(context), WEFT_SUCCESS);

    CU_ASSERT_EQUAL(weft_thread_error_set(WEFT_EBUSY, "zero: %s is busy"), WEFT_EBUSY);
    CU_ASSERT_STRING_EQUAL(weft_thread_error(), "zero: %s is busy");
    CU_ASSERT_EQUAL(weft_thread_error_set(WEFT_SUCCESS, "nothing"), WEFT_EINVAL);
    CU_ASSERT(strstr(weft_thread_error(), "0 is no failure") != NULL);
    CU_ASSERT_EQUAL(weft_thread_error_set(WEFT_EBUSY, NULL), WEFT_EINVAL);
    CU_ASSERT(strstr(weft_thread_error(), "text is NULL") != NULL);
}

static const struct wt_case cases[] = {
    {"read while others are written", readers_and_failures},
    {"each thread has a copy of its own", copies},
    {"a blocking call tells its thread", blocking_calls},
    {"a dump that fails hides no failure", undumped},
    {"a library on top", on_top},
};
WT_UNIT_MAIN("last_error", cases)
