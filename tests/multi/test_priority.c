/* Priorities of communicators: who has a turn when one thread advances several.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fault/fault.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/status.h"
#include "comm/comm.h"
#include "exec/engine.h"

#include "../unit/unit.h"

/* Work is done in parts, one a turn. The less urgent operation has fewer: where turns alternate its work ends first. */
enum { PART_BYTES = 4096, LOW_PARTS = 32, HIGH_PARTS = 64 };

enum waiting { BY_CALL_BACK, ANY, ALL };

struct way {
    const char *transport;
    int high_first; /* its communicator is the older one, and its request is the first of those that are waited for */
    enum waiting waiting;
};

/* ---- An engine that does a part of its work in each turn ---- */

static struct {
    const struct wi_exec *low, *high; /* NULL: what comes is done at once */
    int low_begun, high_begun;        /* work of the operation was posted */
    int at_high;                      /* work of the urgent one is posted, and not done */
    size_t high_parts, between,
        left; /* parts of the urgent one; of the other one meanwhile; of it after all of the former */
    _Atomic int go, told;
} seen;

static int post(struct wi_engine *engine, struct wi_work *w, int *moved)
{
    (void)engine;
    *moved = 1;
    if (w->exec != seen.low && w->exec != seen.high) {
        weft_status st = wi_work_do(w->exec, w, 0, w->bytes);
        return st < 0 ? (int)st : 1;
    }
    if (w->exec == seen.low)
        seen.low_begun = 1;
    else
        seen.high_begun = seen.at_high = 1;
    return 0;
}

static int poll(struct wi_engine *engine, struct wi_work *w, int *moved)
{
    size_t left = w->bytes - w->at, bytes = left < PART_BYTES ? left : PART_BYTES;

    (void)engine;
    if (!atomic_load(&seen.go) || !seen.low_begun || !seen.high_begun)
        return 0;
    WI_TRY(wi_work_do(w->exec, w, w->at, bytes));
    w->at += bytes;
    w->exec->budget_used += WI_ENGINE_CHUNK;
    *moved = 1;
    if (w->exec == seen.low) {
        seen.between += seen.at_high != 0;
        seen.left = !seen.at_high ? seen.left + 1 : 0;
    } else {
        seen.high_parts++;
        seen.at_high = w->at < w->bytes;
    }
    return w->at == w->bytes;
}

static int drain(struct wi_engine *engine, struct wi_work *w, uint64_t until_ns)
{
    (void)engine, (void)w, (void)until_ns;
    return 1;
}

static void destroy(struct wi_engine *engine)
{
    wi_free(engine);
}

static struct wi_engine *in_parts(struct wi_workers *workers)
{
    static const struct wi_engine_ops ops = {"in parts", post, poll, drain, destroy};
    struct wi_engine *engine = wi_calloc(1, sizeof *engine);

    (void)workers;
    if (engine)
        *engine = (struct wi_engine){.ops = &ops, .receives_in_memory = 1};
    return engine;
}

/* ---- Two operations ---- */

static weft_comm *derive(struct ft_rank *f, int priority)
{
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    weft_comm *comm;

    config.priority = priority;
    WT_REQUIRE_OK(weft_comm_dup(f->comm, &config, &comm));
    return comm;
}

static void told(weft_status status, void *arg)
{
    (void)arg;
    WT_CHECK_STATUS(status, WEFT_SUCCESS);
    atomic_fetch_add(&seen.told, 1);
}

static void wait_for(const struct way *way, weft_request *low, weft_request *high)
{
    int first = way->high_first && way->waiting == ANY; /* wait_all would wait for that alone */
    weft_request *reqs[2] = {first ? high : low, first ? low : high};
    uint64_t until = wt_now_ms() + wt_slow_ms(20000);
    size_t index = 0;

    if (way->waiting == BY_CALL_BACK) {
        WT_REQUIRE_OK(weft_request_on_complete(low, told, NULL));
        WT_REQUIRE_OK(weft_request_on_complete(high, told, NULL));
    }
    atomic_store(&seen.go, 1);
    while (way->waiting == BY_CALL_BACK && atomic_load(&seen.told) < 2 && wt_now_ms() < until)
        sched_yield();
    if (way->waiting == ANY) {
        WT_CHECK_OK(weft_wait_any(reqs, 2, &index));
        reqs[index] = NULL;
        WT_CHECK_OK(weft_wait_any(reqs, 2, &index));
    } else if (way->waiting == ALL) {
        WT_CHECK_OK(weft_wait_all(reqs, 2));
    } else {
        WT_CHECK_INT(atomic_load(&seen.told), 2);
    }
}

/* Over shared memory an all-gather is copied by the ranks themselves. Over TCP the transport moves it, and does it alone: there the
 * urgent operation reduces, too. */
static void two(int rank, int nranks, void *arg)
{
    const struct way *way = arg;
    size_t nlow = LOW_PARTS * PART_BYTES / sizeof(int32_t), nhigh = HIGH_PARTS * PART_BYTES / sizeof(int32_t);
    int shm = strcmp(way->transport, "tcp") != 0;
    weft_request *low_req, *high_req;
    weft_comm *low, *high;
    struct ft_rank f;
    int32_t *buffer;
    void *memory;

    wi_engine_of_tests = in_parts;
    if (way->waiting != BY_CALL_BACK)
        setenv("WEFT_PROGRESS_THREAD", "n", 1);
    ft_open(&f, way->transport, 100000, rank, nranks);
    high = way->high_first ? derive(&f, 3) : NULL;
    low = derive(&f, -3);
    high = high ? high : derive(&f, 3);
    memory = shm ? NULL : calloc(4 * nlow + 3 * nhigh, sizeof *buffer);
    if (shm)
        WT_REQUIRE_OK(weft_mem_alloc(f.context, (4 * nlow + 3 * nhigh) * sizeof *buffer, &memory));
    WT_REQUIRE(memory != NULL);
    buffer = memory;
    for (size_t i = 0; i < 2 * nlow + nhigh; i++)
        buffer[i] = (int32_t)i + rank;
    seen.low = low->exec;
    seen.high = high->exec;
    /* Over shared memory a rank of two reduces half of the vector. */
    weft_call call =
        wt_call(WEFT_KIND_ALL_REDUCE, buffer, buffer + 2 * nlow + nhigh, shm ? 2 * nlow : nlow, WEFT_INT32);
    call.op = WEFT_SUM;
    WT_REQUIRE_OK(wt_issue(low, call, shm ? "direct" : "rdouble", &low_req));
    call = wt_call(shm ? WEFT_KIND_ALL_GATHER : WEFT_KIND_ALL_REDUCE, buffer + 2 * nlow, buffer + 4 * nlow + nhigh,
                   nhigh, WEFT_INT32);
    call.op = WEFT_SUM;
    WT_REQUIRE_OK(wt_issue(high, call, shm ? "direct" : "rdouble", &high_req));
    wait_for(way, low_req, high_req);
    WT_CHECK(seen.high_parts >= HIGH_PARTS);
    if (seen.between > seen.high_parts / WI_URGENT_TURNS + 4 || !seen.left)
        wt_fail(__FILE__, __LINE__, "%zu parts of the other one among %zu of the urgent one, and %zu after",
                seen.between, seen.high_parts, seen.left);
    /* It is not kept waiting for good, either: the urgent one has more turns than may pass it over. */
    WT_CHECK(seen.between > 0);
    for (size_t i = 0; i < (shm ? 2 * nlow : nlow); i += 101)
        WT_CHECK_INT(buffer[2 * nlow + nhigh + i], 2 * (int32_t)i + 1);
    for (size_t i = 0; i < nhigh; i += 101) {
        int32_t mine = (int32_t)(2 * nlow + i), *dst = buffer + 4 * nlow + nhigh;
        WT_CHECK_INT(dst[i], shm ? mine : 2 * mine + 1);
        if (shm)
            WT_CHECK_INT(dst[nhigh + i], mine + 1);
    }
    WT_CHECK_OK(weft_request_free(low_req));
    WT_CHECK_OK(weft_request_free(high_req));
    WT_CHECK_OK(weft_comm_destroy(low));
    WT_CHECK_OK(weft_comm_destroy(high));
    if (shm)
        WT_CHECK_OK(weft_mem_free(f.context, memory));
    else
        free(memory);
    ft_close(&f);
}

static void everywhere(enum waiting waiting)
{
    static const char *const transports[] = {"shm", "tcp"};

    for (int i = 0; i < 4; i++) {
        struct way way = {transports[i / 2], i % 2, waiting};
        int failed = wt_run(2, two, &way, 60000);
        if (failed)
            printf("# over %s, the urgent one is %s\n", way.transport, way.high_first ? "first" : "second");
        CU_ASSERT_EQUAL(failed, 0);
    }
}

static void by_thread(void)
{
    everywhere(BY_CALL_BACK);
}

static void by_wait_any(void)
{
    everywhere(ANY);
}

static void by_wait_all(void)
{
    everywhere(ALL);
}

/* ---- What is no priority ---- */

static void range(int rank, int nranks, void *arg)
{
    static const int wrong[] = {101, -101, INT32_MAX, INT32_MIN};
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    weft_comm *comm = NULL;
    struct ft_rank f;

    ft_open(&f, arg, 100000, rank, nranks);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        config.priority = wrong[i];
        WT_CHECK_STATUS(weft_comm_dup(f.comm, &config, &comm), WEFT_EINVAL);
        WT_CHECK(strstr(weft_thread_error(), "is not in -100 to 100") && !comm);
    }
    /* Ranks may differ. The list is kept by priority. */
    config.priority = rank ? -100 : 100;
    WT_REQUIRE_OK(weft_comm_dup(f.comm, &config, &comm));
    WT_CHECK(f.context->comms == (rank ? f.comm : comm));
    WT_CHECK_OK(weft_barrier(comm, NULL));
    WT_CHECK_OK(weft_comm_destroy(comm));
    ft_close(&f);
}

static void ranges(void)
{
    CU_ASSERT_EQUAL(wt_run(2, range, (void *)(uintptr_t) "shm", 60000), 0);
}

static const struct wt_case cases[] = {
    {"the progress thread serves the communicator of larger priority first", by_thread},
    {"so does wait_any", by_wait_any},
    {"and wait_all", by_wait_all},
    {"priorities out of range are refused", ranges},
};
WT_UNIT_MAIN("priority", cases)
