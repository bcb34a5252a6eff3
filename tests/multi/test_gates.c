/* Gates: operations that wait, numbered, before they are planned; ranks that plan differently behind them.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fault/fault.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/status.h"
#include "comm/comm.h"

#include "../unit/unit.h"
#include "tests/harness/says.h"

enum { WORDS = 300 };

/* ---- A gate of the test's ---- */

struct door {
    _Atomic int open, polls;
    weft_status fails;
    const char *algorithm; /* that is planned behind it, as if data had been looked at; NULL: the planner's */
    weft_op op;            /* of the call that waits at it */
};

static int poll_door(struct wi_exec *exec, struct wi_op *op, int *moved)
{
    struct door *d = op->gate.arg;
    struct weft_request *req = op->finished_arg;

    (void)exec;
    (void)moved;
    atomic_fetch_add(&d->polls, 1);
    if (d->fails < 0)
        return wi_fail(d->fails, "it does not open");
    if (!atomic_load(&d->open))
        return 0;
    if (d->algorithm)
        req->options.algorithm = d->algorithm;
    return 1;
}

static const struct wi_gate_ops own_door = {.name = "the door of this rank", .poll = poll_door};
static const struct wi_gate_ops common_door = {.name = "the door of all ranks", .agreed = 1, .poll = poll_door};

/* As a call with such an option would. */
static weft_request *issue(struct ft_rank *f, const struct wi_gate_ops *gate, struct door *d, uint64_t timeout_ns,
                           const int64_t *src, int64_t *dst)
{
    struct wi_call call = {.coll = WI_COLL_ALL_REDUCE,
                           .dtype = WEFT_INT64,
                           .op = d->op,
                           .root = -1,
                           .src = src,
                           .dst = dst,
                           .count = WORDS};
    struct weft_request *req;

    WT_REQUIRE_OK(wi_comm_enter(f->comm));
    req = wi_request_get(f->comm);
    WT_REQUIRE(req != NULL);
    req->call = call;
    wi_request_gate(req, gate, d, timeout_ns);
    WT_REQUIRE_OK(wi_request_issue(req));
    wi_progress_kick(f->context);
    wi_comm_leave(f->comm);
    return req;
}

/* ---- It waits, and what was issued later waits behind it ---- */

static void waits(int rank, int nranks, void *arg)
{
    int64_t src[WORDS], dst[2][WORDS];
    struct door d = {0};
    weft_request *req[2];
    struct ft_rank f;

    ft_open(&f, arg, 100000, rank, nranks);
    for (int i = 0; i < WORDS; i++)
        src[i] = i + rank;
    memset(dst, 0, sizeof dst);
    d.open = rank != 1;
    req[0] = issue(&f, &own_door, &d, 0, src, dst[0]);
    WT_REQUIRE_OK(weft_all_reduce(f.comm, src, dst[1], WORDS, WEFT_INT64, WEFT_MAX, &req[1]));
    for (uint64_t until = wt_now_ms() + wt_slow_ms(20000); d.polls < 100 && rank == 1 && wt_now_ms() < until;)
        WT_CHECK_STATUS(weft_test(req[0]), WEFT_INPROGRESS);
    WT_CHECK_STATUS(rank == 1 ? weft_test(req[1]) : WEFT_INPROGRESS, WEFT_INPROGRESS);
    wt_sync(); /* nobody has the results yet */
    WT_CHECK(rank != 1 || (dst[0][5] == 0 && dst[1][5] == 0));
    d.open = 1;
    for (int k = 0; k < 2; k++) {
        WT_CHECK_OK(weft_wait(req[k]));
        WT_CHECK_OK(weft_request_free(req[k]));
    }
    for (int i = 0; i < WORDS; i++) {
        WT_CHECK_INT(dst[0][i], nranks * i + nranks * (nranks - 1) / 2);
        WT_CHECK_INT(dst[1][i], i + nranks - 1);
    }
    ft_close(&f);
}

static void waiting(void)
{
    CU_ASSERT_EQUAL(wt_run(3, waits, (void *)(uintptr_t) "shm", 30000), 0);
    CU_ASSERT_EQUAL(wt_run(3, waits, (void *)(uintptr_t) "tcp", 30000), 0);
}

/* ---- It is named when it does not open, and when it fails ---- */

static void never_opens(int rank, int nranks, void *arg)
{
    int fails = *(const char *)arg == 'f';
    int64_t src[WORDS] = {0}, dst[WORDS];
    struct door d = {.open = rank != 1, .fails = fails && rank == 1 ? WEFT_ENOTSUP : WEFT_SUCCESS};
    weft_request *req;
    struct ft_rank f;
    weft_error e;

    ft_open(&f, (const char *)arg + 1, 100000, rank, nranks);
    wt_sync(); /* nobody is in the first operation any more */
    req = issue(&f, &own_door, &d, 500 * FT_MS, src, dst);
    WT_CHECK(weft_wait(req) < 0);
    e = ft_error(&f);
    WT_CHECK_IN("all_reduce #2 (sum of 300 int64)", e.message);
    if (rank != 1)
        WT_CHECK_IN("rank 1", e.message);
    if (fails)
        WT_CHECK_IN("the door of this rank: it does not open", e.message); /* on all ranks */
    else if (rank == 1)
        WT_CHECK_IN("waited 0.5 s at the door of this rank", e.message);
    ft_close(&f);
}

static void naming(void)
{
    static const char *const how[] = {"-shm", "-tcp", "fshm", "ftcp"};

    for (int i = 0; i < 4; i++)
        CU_ASSERT_EQUAL(wt_run(2, never_opens, (void *)(uintptr_t)how[i], 30000), 0);
}

/* Rank 2 fails, rank 1 hears of it, and rank 0 calls later and looks at rank 1 first: it is told the first cause, too. */
static void comes_late(int rank, int nranks, void *arg)
{
    int64_t src[WORDS] = {0}, dst[WORDS];
    struct door d = {.open = rank != 2, .fails = rank == 2 ? WEFT_ENOTSUP : WEFT_SUCCESS};
    weft_error e;
    struct ft_rank f;

    ft_open(&f, arg, 100000, rank, nranks);
    wt_sync(); /* as above */
    if (rank > 0)
        WT_CHECK(weft_wait(issue(&f, &own_door, &d, 500 * FT_MS, src, dst)) < 0);
    wt_sync();
    if (rank == 0)
        WT_CHECK(weft_wait(issue(&f, &own_door, &d, 500 * FT_MS, src, dst)) < 0);
    e = ft_error(&f);
    if (rank < 2)
        WT_CHECK_IN("rank 2", e.message);
    WT_CHECK_IN("the door of this rank: it does not open", e.message);
    ft_close(&f);
}

static void late_comers(void)
{
    CU_ASSERT_EQUAL(wt_run(3, comes_late, (void *)(uintptr_t) "shm", 30000), 0);
    CU_ASSERT_EQUAL(wt_run(3, comes_late, (void *)(uintptr_t) "tcp", 30000), 0);
}

/* ---- Ranks that plan differently ---- */

struct plans {
    const char *transport, *first, *other; /* rank 0's algorithm, and that of the others */
};

/* Its end is not known before the exchange with which it begins is over, and that never is. */
static const char *plan_said(const char *algorithm)
{
    return strcmp(algorithm, "direct") == 0 ? "an algorithm that begins with an exchange of buffers" : algorithm;
}

static void differ(int rank, int nranks, void *arg)
{
    const struct plans *p = arg;
    int64_t src[WORDS] = {0}, dst[WORDS];
    struct door d = {.open = 1, .algorithm = rank ? p->other : p->first};
    weft_request *req;
    struct ft_rank f;
    char text[160];
    weft_error e;

    ft_open(&f, p->transport, 100000, rank, nranks);
    wt_sync();
    req = issue(&f, &common_door, &d, 0, src, dst);
    WT_CHECK_STATUS(weft_wait(req), WEFT_EMISMATCH);
    e = ft_error(&f);
    WT_CHECK_IN("all_reduce #2 (sum of 300 int64)", e.message);
    if (nranks == 2) {
        snprintf(text, sizeof text, "but planned %s for it, and this rank %s", plan_said(rank ? p->first : p->other),
                 plan_said(rank ? p->other : p->first));
        WT_CHECK_IN(text, e.message);
    }
    ft_close(&f);
}

static void plans_differ(void)
{
    static struct plans all[] = {{"shm", "flat", "flat2"}, {"tcp", "ring", "rdouble"}, {"shm", "ring", "rdouble"},
                                 {"shm", "flat2", "ring"}, {"shm", "flat2", "direct"}, {"shm", "direct", "ring"}};

    for (int i = 0; i < 6; i++)
        for (int n = 2; n <= 3; n++)
            CU_ASSERT_EQUAL(wt_run(n, differ, &all[i], 30000), 0);
}

/* The same algorithm behind the gate on all ranks. */
static void agree(int rank, int nranks, void *arg)
{
    const struct plans *p = arg;
    int64_t src[WORDS], dst[WORDS];
    struct ft_rank f;

    ft_open(&f, p->transport, 100000, rank, nranks);
    for (int i = 0; i < WORDS; i++)
        src[i] = rank;
    for (int round = 0; round < 20; round++) {
        struct door d = {.open = 1, .algorithm = round % 2 ? p->first : p->other};
        weft_request *req = issue(&f, &common_door, &d, 0, src, dst);
        WT_CHECK_OK(weft_wait(req));
        WT_CHECK_OK(weft_request_free(req));
        WT_CHECK_INT(dst[WORDS - 1], nranks * (nranks - 1) / 2);
    }
    ft_close(&f);
}

static void plans_agree(void)
{
    static struct plans shm = {"shm", "flat", "ring"}, tcp = {"tcp", "ring", "rdouble"};

    CU_ASSERT_EQUAL(wt_run(3, agree, &shm, 30000), 0);
    CU_ASSERT_EQUAL(wt_run(3, agree, &tcp, 30000), 0);
}

/* ---- One rank has planned, the other one waits at its gate ---- */

static weft_status compare(struct ft_rank *f, const weft_request *req)
{
    weft_status st;

    WT_REQUIRE_OK(wi_comm_enter(f->comm));
    st = wi_exec_compare_boards(f->comm->exec, &req->op[0].info);
    wi_comm_leave(f->comm);
    return st;
}

static void half_planned(int rank, int nranks, void *arg)
{
    int other = *(const char *)arg == 'o';
    weft_status end = other ? WEFT_EMISMATCH : WEFT_SUCCESS;
    struct door d = {.open = rank == 0, .algorithm = "ring", .op = other && rank ? WEFT_MAX : WEFT_SUM};
    int64_t src[WORDS] = {0}, dst[WORDS];
    weft_request *req;
    struct ft_rank f;

    ft_open(&f, "shm", 100000, rank, nranks);
    wt_sync();
    req = issue(&f, &common_door, &d, 0, src, dst);
    WT_CHECK_INT(req->op[0].bind.planned != 0, rank == 0);
    wt_sync(); /* one has planned, one has not */
    WT_CHECK_STATUS(compare(&f, req), end);
    wt_sync();
    atomic_store(&d.open, 1);
    WT_CHECK_STATUS(weft_wait(req), end);
    if (other)
        WT_CHECK_IN(rank ? "rank 0 called all_reduce #2 (sum of 300 int64)"
                         : "rank 1 called all_reduce #2 (max of 300 int64)",
                    ft_error(&f).message);
    ft_close(&f);
}

static void planned_and_not(void)
{
    CU_ASSERT_EQUAL(wt_run(2, half_planned, (void *)(uintptr_t) "same", 30000), 0);
    CU_ASSERT_EQUAL(wt_run(2, half_planned, (void *)(uintptr_t) "other", 30000), 0);
}

/* The board holds what was issued last, whatever is planned after that. */
static void keeps_board(int rank, int nranks, void *arg)
{
    int64_t src[WORDS] = {0}, dst[2][WORDS];
    struct door d = {.algorithm = "ring"};
    weft_request *req[2];
    struct ft_rank f;
    uint32_t newest;

    (void)arg;
    ft_open(&f, "shm", 100000, rank, nranks);
    req[0] = issue(&f, &common_door, &d, 0, src, dst[0]);
    WT_REQUIRE_OK(weft_all_reduce(f.comm, src, dst[1], WORDS, WEFT_INT64, WEFT_MAX, &req[1]));
    newest = req[1]->op[0].info.seq;
    WT_CHECK_INT(newest, req[0]->op[0].info.seq + 1);
    atomic_store(&d.open, 1);
    WT_CHECK_OK(weft_wait(req[0]));
    WT_CHECK_OK(weft_wait(req[1]));
    WT_CHECK_INT(f.comm->exec->map.ranks[rank].board->info.seq, newest);
    wt_sync();
    ft_close(&f);
}

static void boards(void)
{
    CU_ASSERT_EQUAL(wt_run(2, keeps_board, NULL, 30000), 0);
}

static const struct wt_case cases[] = {
    {"an operation waits at a gate, and later ones behind it", waiting},
    {"a gate that does not open, or fails, is named", naming},
    {"a rank that comes late is told the first cause", late_comers},
    {"ranks that planned differently behind a gate are told, with both algorithms", plans_differ},
    {"what all ranks planned behind a gate runs", plans_agree},
    {"a rank that has planned is compared by its call with one that has not", planned_and_not},
    {"the board keeps what was issued after an operation that is planned", boards},
};
WT_UNIT_MAIN("gates", cases)
