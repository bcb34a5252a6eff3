/* All-reduces with linear codecs that fail: ranks that call something else, late or never, and calls without memory.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/multi/linear_reference.h"

#include <unistd.h>

#include "base/alloc.h"

/* ---- Who is to blame ---- */

static void open_with(struct ft_rank *f, const char *transport, uint64_t timeout_ms, int rank, int nranks,
                      weft_call *call, weft_call_options *options, const char *codec)
{
    static float data[100000];

    ft_open(f, transport, 20000, rank, nranks);
    WT_CHECK_OK(weft_comm_set_timeout(f->comm, timeout_ms * FT_MS)); /* of what comes, not of the start */
    *options = (weft_call_options)WEFT_CALL_OPTIONS_INIT;
    options->codec = codec;
    options->tensor = 3;
    *call = wt_call(WEFT_KIND_ALL_REDUCE, data, data, 100000, WEFT_FLOAT32);
    call->options = options;
}

/* The operation that is the communicator's `seq`th, whatever it consists of, has failed because of that peer. */
static void blames(struct ft_rank *f, weft_status status, int peer, uint32_t seq)
{
    weft_error info = WEFT_ERROR_INIT;

    WT_CHECK_OK(weft_last_error(f->comm, &info));
    WT_CHECK_INT(info.status, status);
    WT_CHECK_INT(info.peer, peer);
    WT_CHECK_INT((int)info.seq, (int)seq);
}

/* Descriptors that differ are found at once, whatever is sent by them. */
static void disagreeing(int rank, int nranks, void *arg)
{
    static const char *const pairs[][2] = {
        {"sharedint:bypass=never", NULL},
        {"sharedint:bypass=never", "int8"},
        {"leaderk:bypass=never", NULL},
        {"leaderk:ratio=0.01,ef=1,bypass=never", "leaderk:ratio=0.02,ef=1,bypass=never"},
        {"randomk:bypass=never", NULL},
        {"int8:bypass=never", "int8"},
    };

    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        uint64_t began = wt_now_ms();
        weft_call_options options;
        struct ft_rank f;
        weft_call call;

        open_with(&f, arg, 20000, rank, nranks, &call, &options, pairs[i][rank]);
        WT_CHECK_STATUS(weft_issue(f.comm, &call, NULL), WEFT_EMISMATCH);
        blames(&f, WEFT_EMISMATCH, !rank, 2);
        WT_CHECK(wt_now_ms() - began < wt_slow_ms(10000));
        ft_close(&f);
    }
}

/* Rank 1 never calls. The others name it, where all see how far the others are; over messages the one that waits for another that
 * waits may name that. */
static void blames_absent(struct ft_rank *f, const char *transport, uint32_t newest)
{
    weft_error info = WEFT_ERROR_INIT;

    WT_CHECK_OK(weft_last_error(f->comm, &info));
    blames(f, WEFT_ETIMEDOUT, strcmp(transport, "tcp") == 0 && info.peer == 2 - f->rank ? info.peer : 1,
           info.seq == newest ? newest : 2);
}

static void missing(int rank, int nranks, void *arg)
{
    static const char *const codecs[] = {"sharedint:bypass=never", "leaderk:ef=1,bypass=never", "randomk:bypass=never",
                                         NULL};

    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) {
        weft_call_options options;
        struct ft_rank f;
        weft_call call;

        open_with(&f, arg, wt_slow_ms(700), rank, nranks, &call, &options, codecs[i]);
        if (rank != 1) {
            WT_CHECK_STATUS(weft_issue(f.comm, &call, NULL), WEFT_ETIMEDOUT);
            blames_absent(&f, arg, 2);
        }
        wt_sync();
        ft_close(&f);
    }
}

/* The call's own deadline is that of all that it waits for. */
static void missing_in_time(int rank, int nranks, void *arg)
{
    static const char *const codecs[] = {"sharedint:bypass=never", "leaderk:ef=1,bypass=never"};

    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) {
        weft_call_options options;
        uint64_t began;
        struct ft_rank f;
        weft_call call;

        open_with(&f, arg, 60000, rank, nranks, &call, &options, codecs[i]);
        options.timeout_ns = 150 * FT_MS;
        began = wt_now_ms();
        if (rank != 1) {
            WT_CHECK_STATUS(weft_issue(f.comm, &call, NULL), WEFT_ETIMEDOUT);
            blames(&f, WEFT_ETIMEDOUT, 1, 2);
        }
        WT_CHECK(wt_now_ms() - began <= wt_slow_ms(10000));
        wt_sync();
        ft_close(&f);
    }
}

/* Likewise where the call has more time than others of its communicator. */
static void late_in_time(int rank, int nranks, void *arg)
{
    weft_call_options options;
    struct ft_rank f;
    weft_call call;

    open_with(&f, arg, 20000, rank, nranks, &call, &options, "sharedint:bypass=never");
    WT_CHECK_OK(weft_comm_set_timeout(f.comm, 200 * FT_MS));
    options.timeout_ns = 20000 * FT_MS;
    wt_sync();
    if (rank == 1)
        usleep(500000); /* longer than what others have */
    WT_CHECK_OK(weft_issue(f.comm, &call, NULL));
    wt_sync();
    ft_close(&f);
}

/* Rank 1 calls nothing. Who waits for the last of several calls names it all the same. */
static void held(int rank, int nranks, void *arg)
{
    weft_call_options options;
    weft_request *first;
    struct ft_rank f;
    weft_call call;

    open_with(&f, arg, wt_slow_ms(700), rank, nranks, &call, &options, NULL);
    if (rank != 1) {
        WT_CHECK_OK(weft_issue(f.comm, &call, &first));
        options.codec = "sharedint:bypass=never";
        WT_CHECK_STATUS(weft_issue(f.comm, &call, NULL), WEFT_ETIMEDOUT);
        blames_absent(&f, arg, 3); /* in which it waits when another rank tells it */
        WT_CHECK_STATUS(weft_wait(first), WEFT_ETIMEDOUT);
    }
    wt_sync();
    ft_close(&f);
}

/* A residual that is younger on one rank: another one would lead there, or other places would be sent. */
static void other_steps(int rank, int nranks, void *arg)
{
    static const char *const codecs[] = {"leaderk:ratio=0.01,ef=1,bypass=never", "randomk:ef=1,bypass=never",
                                         "int4:ef=ef21,bypass=never"};

    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) {
        weft_call_options options;
        struct ft_rank f;
        weft_call call;

        open_with(&f, arg, 20000, rank, nranks, &call, &options, codecs[i]);
        WT_CHECK_OK(weft_issue(f.comm, &call, NULL));
        if (rank == 1)
            WT_CHECK_OK(weft_comm_residual_clear(f.comm, 3));
        WT_CHECK_STATUS(weft_issue(f.comm, &call, NULL), WEFT_EMISMATCH);
        blames(&f, WEFT_EMISMATCH, !rank, 3);
        ft_close(&f);
    }
}

/* ---- No memory ---- */

/* A batch of which one tensor is coded and others are not; every allocation of the call fails once. What the call has
 * begun by then ends with a later one, and touches nothing that is gone: which the sanitizers and valgrind see. */
static void without_memory(int rank, int nranks, void *arg)
{
    enum { LONG = 20000, SHORT = 2000, TIMES = 50 };
    float *of_long[2] = {floats(LONG), floats(LONG)}, *of_short[2] = {floats(SHORT), floats(SHORT)};
    const weft_batch_item items[] = {{.src = of_long[0], .dst = of_long[1], .count = LONG, .tensor = 1},
                                     {.src = of_short[0], .dst = of_short[1], .count = SHORT, .tensor = 2}};
    weft_call call = wt_call(WEFT_KIND_ALL_REDUCE, NULL, NULL, 0, WEFT_FLOAT32);
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    weft_status st = WEFT_SUCCESS;

    options.codec = "sharedint:block=64,min=10000,bypass=never";
    call.options = &options;
    for (size_t i = 0; i < LONG; i++)
        of_long[0][i] = (float)(i % 7);
    for (long nth = 1; nth <= TIMES; nth++) { /* ranks need not need equally many: in the last ones all have enough */
        int one = 1, sum = 0;
        weft_request *req = NULL;
        struct ft_rank f;
        ft_open(&f, arg, 20000, rank, nranks);
        WT_CHECK_OK(weft_comm_set_timeout(f.comm, 400 * FT_MS));
        wi_alloc_fail_nth(nth);
        st = weft_issue_batch(f.comm, &call, items, 2, &req);
        WT_CHECK(wi_alloc_fail_nth(0) < TIMES);
        if (st >= 0) {
            st = weft_wait(req);
            weft_request_free(req);
        } else {
            weft_all_reduce(f.comm, &one, &sum, 1, WEFT_INT32, WEFT_SUM, NULL); /* it may fail, too */
        }
        ft_close(&f);
    }
    WT_CHECK_OK(st);
    for (size_t i = 0; i < LONG; i++)
        of_long[0][i] *= (float)nranks;
    compare("after all", 0, of_long[1], of_long[0], LONG, 0.06f); /* of 63 levels half a level of 6, of 1 */
    for (int i = 0; i < 2; i++) {
        free(of_long[i]);
        free(of_short[i]);
    }
}

/* Over the fake card a rank may find its peer gone before it reads why. */
#define FAILING(name, fn, nranks)                                                              \
    static void name##_failing(void)                                                           \
    {                                                                                          \
        CU_ASSERT_EQUAL(wt_run(nranks, fn, (void *)(uintptr_t) "shm", 60000), 0);              \
        CU_ASSERT_EQUAL(wt_run(nranks, fn, (void *)(uintptr_t) "tcp", 60000), 0);              \
        CU_ASSERT_EQUAL(wt_threads_apart(nranks, fn, (void *)(uintptr_t) "inproc", 60000), 0); \
    }
FAILING(disagreeing2, disagreeing, 2)
FAILING(missing3, missing, 3)
FAILING(deadline2, missing_in_time, 2)
FAILING(late2, late_in_time, 2)
FAILING(held3, held, 3)
FAILING(steps2, other_steps, 2)

static void memory(void) /* as processes: it is one of those that lacks it */
{
    CU_ASSERT_EQUAL(wt_run(2, without_memory, (void *)(uintptr_t) "shm", 60000), 0);
    CU_ASSERT_EQUAL(wt_run(2, without_memory, (void *)(uintptr_t) "tcp", 60000), 0);
}

static const struct wt_case cases[] = {
    {"another codec on another rank", disagreeing2_failing},
    {"a rank that never calls is named", missing3_failing},
    {"by the call's own deadline", deadline2_failing},
    {"which may be longer than others'", late2_failing},
    {"also by who waits for a later call", held3_failing},
    {"residuals of different ages", steps2_failing},
    {"without memory", memory},
};
WT_UNIT_MAIN("linear_failures", cases)
