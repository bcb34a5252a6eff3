/* Every allocation fails once: each failure is an error with a name on all ranks, never a crash, a hang or a leak.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fault/fault.h"

#include <stdatomic.h>
#include <sys/mman.h>

#include "../unit/unit.h"
#include "base/alloc.h"

enum { RANKS = 2, VICTIM = 1, NEVER = 5000 };

static const char *const shm[] = {"TRANSPORTS=shm", "COMM_INIT_TIMEOUT=1s", "COMM_TIMEOUT=2s", NULL};
static const char *const tcp[] = {"TRANSPORTS=tcp", "COMM_INIT_TIMEOUT=1s", "COMM_TIMEOUT=2s", NULL};

struct plan {
    const char *const *settings;
    long nth;
    int stage; /* 0: creation; else the operation */
};

static int clean(weft_status st, int victim)
{
    if (st == WEFT_SUCCESS || st == WEFT_ENOMEM || st == WEFT_EPEER || st == WEFT_EABORTED)
        return 1;
    return !victim && st == WEFT_ETIMEDOUT;
}

static void check_clean(const char *what, const struct plan *p, weft_status st, int rank)
{
    if (!clean(st, rank == VICTIM))
        wt_fail(__FILE__, __LINE__, "%s, allocation %ld: %s: %s", what, p->nth, weft_status_name(st),
                weft_thread_error());
}

static _Atomic int *reached; /* shared with the ranks: the nth allocation was made */

static void note_reached(long seen, const struct plan *p, int rank)
{
    if (rank == VICTIM && seen >= p->nth)
        *reached = 1;
}

static void create(int rank, int nranks, void *arg)
{
    const struct plan *p = arg;
    weft_context_config config = WEFT_CONTEXT_CONFIG_INIT;
    weft_context *context = NULL;
    weft_comm *comm = NULL;
    weft_status st;
    long seen;

    (void)nranks;
    config.settings = p->settings;
    if (rank == VICTIM)
        wi_alloc_fail_nth(p->nth);
    st = weft_context_create(&config, &context);
    check_clean("context", p, st, rank);
    if (st >= 0) {
        st = weft_comm_create_env(context, NULL, &comm);
        check_clean("communicator", p, st, rank);
    }
    if (st >= 0) {
        int64_t one = 1, sum = 0;
        st = weft_all_reduce(comm, &one, &sum, 1, WEFT_INT64, WEFT_SUM, NULL);
        check_clean("all_reduce", p, st, rank);
        WT_CHECK(st < 0 || sum == RANKS);
    }
    seen = wi_alloc_fail_nth(0);
    WT_CHECK_OK(weft_comm_destroy(comm));
    WT_CHECK_OK(weft_context_destroy(context));
    note_reached(seen, p, rank);
}

static int64_t src[1 << 17], dst[1 << 17];

static weft_status operation(int stage, weft_comm *comm, int rank)
{
    static const size_t counts[2] = {70, 300}, displs[2] = {0, 100};
    size_t n = stage % 2 ? 60000 : 40;
    weft_request *req = NULL;
    weft_status st, done;

    switch (stage / 2) {
    case 1:
        return weft_all_reduce(comm, src, dst, n, WEFT_INT64, WEFT_SUM, NULL);
    case 2:
        return weft_all_to_all(comm, src, src, n / 2, WEFT_INT64, NULL);
    case 3:
        return weft_all_gather_v(comm, src, dst, counts, displs, WEFT_INT64, NULL);
    case 4:
        return weft_reduce_scatter(comm, src, dst, n / 2, WEFT_INT64, WEFT_SUM, NULL);
    case 5:
        return weft_send_recv(comm, src, n, !rank, dst, n, !rank, WEFT_INT64, NULL);
    case 6:
        return weft_barrier(comm, NULL);
    case 7:
        st = weft_broadcast_init(comm, src, dst, n, WEFT_INT64, 0, &req);
        break;
    default:
        weft_group_start();
        st = weft_all_gather(comm, src, dst, n / 2, WEFT_INT64, NULL);
        done = weft_group_end();
        return st < 0 ? st : done;
    }
    st = st < 0 ? st : weft_start(req);
    st = st < 0 ? st : weft_wait(req);
    done = weft_request_free(req);
    return st < 0 ? st : done;
}

static void operate(int rank, int nranks, void *arg)
{
    const struct plan *p = arg;
    weft_context_config config = WEFT_CONTEXT_CONFIG_INIT;
    weft_comm_config patient = WEFT_COMM_CONFIG_INIT;
    weft_context *context;
    weft_comm *comm;
    weft_status st;
    long seen;

    (void)nranks;
    config.settings = p->settings;
    WT_REQUIRE_OK(weft_context_create(&config, &context));
    patient.init_timeout_ns = 10000 * FT_MS;
    WT_REQUIRE_OK(weft_comm_create_env(context, &patient, &comm));
    WT_CHECK_OK(weft_comm_set_timeout(comm, 500 * FT_MS));
    wt_sync();
    if (rank == VICTIM)
        wi_alloc_fail_nth(p->nth);
    st = operation(p->stage, comm, rank);
    check_clean("operation", p, st, rank);
    seen = wi_alloc_fail_nth(0);
    wt_sync();
    WT_CHECK_OK(weft_comm_destroy(comm));
    WT_CHECK_OK(weft_context_destroy(context));
    note_reached(seen, p, rank);
}

/* Until the nth allocation is not made any more. Returns how many were; -1 after a failure. */
static long each_allocation(wt_rank_fn fn, struct plan *p)
{
    for (p->nth = 1; p->nth < NEVER; p->nth++) {
        *reached = 0;
        if (wt_run(RANKS, fn, p, 15000) != 0) {
            printf("# allocation %ld\n", p->nth);
            return -1;
        }
        if (!*reached)
            return p->nth - 1;
    }
    return -1;
}

static void run(const char *name, const char *const *settings)
{
    struct plan p = {.settings = settings};
    long n;

    reached = mmap(NULL, sizeof *reached, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CU_ASSERT_PTR_NOT_EQUAL_FATAL((void *)reached, MAP_FAILED);
    n = each_allocation(create, &p);

    printf("# creation over %s: %ld allocations failed one by one\n", name, n);
    CU_ASSERT(n > 20);
    for (p.stage = 2; p.stage < 18; p.stage++) {
        n = each_allocation(operate, &p);
        printf("# operation %d over %s: %ld allocations\n", p.stage, name, n);
        CU_ASSERT(n >= 0);
    }
}

static void over_shm(void)
{
    run("shm", shm);
}

static void over_tcp(void)
{
    run("tcp", tcp);
}

static const struct wt_case cases[] = {{"each allocation over shm", over_shm}, {"each allocation over tcp", over_tcp}};
WT_UNIT_MAIN("alloc", cases)
