/* Every allocation fails once, of the library and its plugins, of memory, of mappings and threads, and in libcrypto: each failure
 * is an error with a name on all ranks, never a crash, a hang, a leak or a wrong result; and what goes on afterwards is right.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fault/fault.h"

#include <dirent.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../unit/unit.h"
#include "tests/fault/exhaust.h"

enum { RANKS = 2, VICTIM = 1, NEVER = 20000 };

static const char shm[] = "TRANSPORTS=shm", tcp[] = "TRANSPORTS=tcp";
static const char *const kind_names[] = {"of memory", "of mappings, threads and streams", "of libcrypto"};

struct plan {
    const char *transports;
    int patient; /* the machine was too slow for short deadlines */
    enum ft_exhausted kind;
    long nth;
    int stage; /* 0: creation; else the operation */
    /* What the ranks tell: the nth allocation was made; how the operation and the communicator are. */
    _Atomic int reached, late, done[RANKS], comm[RANKS];
};

/* ---- What may come of it ---- */

static int clean(enum ft_exhausted kind, weft_status st, int victim)
{
    if (st == WEFT_SUCCESS || st == WEFT_ENOMEM || st == WEFT_EPEER || st == WEFT_EABORTED)
        return 1;
    if (st == WEFT_ETIMEDOUT) /* the other one has given up, or never called */
        return !victim || strstr(weft_thread_error(), "rank 0") != NULL;
    if (kind == FT_SYSTEM) /* a transport that cannot look at its interfaces is not there */
        return victim && (st == WEFT_ESYS || st == WEFT_ECONFIG);
    return kind == FT_CRYPTO && victim && st == WEFT_EINTERNAL; /* libcrypto does not say why */
}

static void check_clean(const char *what, const struct plan *p, weft_status st, int rank)
{
    if (!clean(p->kind, st, rank == VICTIM) || (st < 0 && !*weft_thread_error()))
        wt_fail(__FILE__, __LINE__, "%s, allocation %ld %s: %s: %s", what, p->nth, kind_names[p->kind],
                weft_status_name(st), weft_thread_error());
}

static int open_files(void)
{
    DIR *dir = __real_opendir("/proc/self/fd");
    int count = 0;

    WT_REQUIRE(dir != NULL);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

/* ---- Creation ---- */

static void create(int rank, int nranks, void *arg)
{
    struct plan *p = arg;
    const char *hasty[] = {p->transports, "COMM_INIT_TIMEOUT=1s", "COMM_TIMEOUT=2s", NULL};
    const char *patient[] = {p->transports, "COMM_INIT_TIMEOUT=20s", "COMM_TIMEOUT=20s", NULL};
    weft_context_config config = WEFT_CONTEXT_CONFIG_INIT;
    const char *what = "context";
    int before = open_files();
    weft_context *context = NULL;
    weft_comm *comm = NULL;
    weft_status st;
    long seen;

    (void)nranks;
    config.settings = p->patient ? patient : hasty;
    if (rank == VICTIM)
        ft_exhaust(p->kind, p->nth);
    st = weft_context_create(&config, &context);
    if (st >= 0) {
        what = "communicator";
        st = weft_comm_create_env(context, NULL, &comm);
    }
    if (st >= 0) {
        int64_t one = rank + 1, sum = 0;
        what = "all_reduce";
        st = weft_all_reduce(comm, &one, &sum, 1, WEFT_INT64, WEFT_SUM, NULL);
        WT_CHECK(st < 0 || sum == 3);
    }
    seen = ft_relieve();
    if (rank == VICTIM && st < 0 && seen < p->nth && !p->patient)
        p->late = 1;
    else
        check_clean(what, p, st, rank);
    WT_CHECK_OK(weft_comm_destroy(comm));
    WT_CHECK_OK(weft_context_destroy(context));
    WT_CHECK_INT(open_files(), before);
    p->done[rank] = st;
    if (rank == VICTIM && seen >= p->nth)
        p->reached = 1;
}

/* ---- Operations ---- */

enum { MOST = 60000 };
static int64_t src[2 * MOST], dst[2 * MOST];

static int64_t given(int rank, size_t i)
{
    return (int64_t)i * 3 + rank * 1000 + 1;
}

enum op {
    ALL_REDUCE = 1,
    ALL_TO_ALL,
    ALL_GATHER_V,
    REDUCE_SCATTER,
    SEND_RECV,
    BARRIER,
    BROADCAST,
    ALL_GATHER,
    LAST_OP
};
static const char *const op_names[] = {
    "",          "all_reduce", "all_to_all",     "all_gather_v",          "reduce_scatter",
    "send_recv", "barrier",    "broadcast_init", "all_gather in a group",
};
static const size_t v_counts[RANKS] = {70, 300}, v_displs[RANKS] = {0, 100};

static weft_status operate_once(enum op op, weft_comm *comm, int rank, size_t n)
{
    weft_request *req = NULL;
    weft_status st, done;

    switch (op) {
    case ALL_REDUCE:
        return weft_all_reduce(comm, src, dst, n, WEFT_INT64, WEFT_SUM, NULL);
    case ALL_TO_ALL:
        return weft_all_to_all(comm, src, dst, n / 2, WEFT_INT64, NULL);
    case ALL_GATHER_V:
        return weft_all_gather_v(comm, src, dst, v_counts, v_displs, WEFT_INT64, NULL);
    case REDUCE_SCATTER:
        return weft_reduce_scatter(comm, src, dst, n / 2, WEFT_INT64, WEFT_SUM, NULL);
    case SEND_RECV:
        return weft_send_recv(comm, src, n, !rank, dst, n, !rank, WEFT_INT64, NULL);
    case BARRIER:
        return weft_barrier(comm, NULL);
    case BROADCAST:
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

static int64_t expected(enum op op, int rank, size_t n, size_t i)
{
    size_t half = n / 2;

    switch (op) {
    case ALL_REDUCE:
        return given(0, i) + given(1, i);
    case ALL_TO_ALL:
        return given((int)(i / half), (size_t)rank * half + i % half);
    case REDUCE_SCATTER:
        return given(0, (size_t)rank * half + i) + given(1, (size_t)rank * half + i);
    case SEND_RECV:
        return given(!rank, i);
    case BROADCAST:
        return given(0, i);
    case ALL_GATHER:
        return given((int)(i / half), i % half);
    default:
        return -1;
    }
}

static void check_result(const struct plan *p, enum op op, int rank, size_t n)
{
    size_t wrong = 0, count = op == BARRIER ? 0 : op == REDUCE_SCATTER ? n / 2 : n;

    if (op == ALL_GATHER_V)
        for (int r = 0; r < RANKS; r++)
            for (size_t i = 0; i < v_counts[r]; i++)
                wrong += dst[v_displs[r] + i] != given(r, i);
    else
        for (size_t i = 0; i < count; i++)
            wrong += dst[i] != expected(op, rank, n, i);
    for (size_t i = 0; i < 2 * MOST; i++)
        wrong += src[i] != given(rank, i);
    if (wrong)
        wt_fail(__FILE__, __LINE__, "%s, allocation %ld %s: %zu elements are wrong", op_names[op], p->nth,
                kind_names[p->kind], wrong);
}

static void fill(int rank)
{
    for (size_t i = 0; i < 2 * MOST; i++)
        src[i] = given(rank, i);
    memset(dst, 0x5a, sizeof dst);
}

/* Where all is well the next operation is right. Where a rank's failed, all call it again: it is right, or a failure, and a broken
 * communicator says why. */
static void check_afterwards(struct plan *p, weft_comm *comm, int rank, enum op op, size_t n)
{
    weft_error e = WEFT_ERROR_INIT;
    int whole = p->comm[0] >= 0 && p->comm[1] >= 0 && p->done[0] >= 0 && p->done[1] >= 0;
    weft_status st;

    if (whole)
        op = ALL_REDUCE, n = 5000;
    fill(rank);
    st = operate_once(op, comm, rank, n);
    if (whole)
        WT_CHECK_OK(st);
    if (st >= 0)
        check_result(p, op, rank, n);
    if (weft_comm_status(comm) >= 0)
        return;
    WT_CHECK(st < 0);
    WT_REQUIRE_OK(weft_last_error(comm, &e));
    WT_CHECK_INT(e.status, weft_comm_status(comm));
    WT_CHECK(e.message && strlen(e.message) > 10 && e.advice && *e.advice);
}

static void operate(int rank, int nranks, void *arg)
{
    struct plan *p = arg;
    enum op op = (enum op)(p->stage / 2);
    size_t n = p->stage % 2 ? MOST : 40;
    const char *settings[] = {p->transports, NULL};
    weft_context_config config = WEFT_CONTEXT_CONFIG_INIT;
    weft_comm_config patient = WEFT_COMM_CONFIG_INIT;
    int before = open_files();
    weft_context *context;
    weft_comm *comm;
    weft_status st;
    long seen;

    (void)nranks;
    config.settings = settings;
    WT_REQUIRE_OK(weft_context_create(&config, &context));
    patient.init_timeout_ns = 10000 * FT_MS;
    WT_REQUIRE_OK(weft_comm_create_env(context, &patient, &comm));
    fill(rank);
    wt_sync();
    WT_CHECK_OK(weft_comm_set_timeout(comm, 500 * FT_MS));
    if (rank == VICTIM)
        ft_exhaust(p->kind, p->nth);
    st = operate_once(op, comm, rank, n);
    seen = ft_relieve();
    check_clean(op_names[op], p, st, rank);
    if (st >= 0)
        check_result(p, op, rank, n);
    p->done[rank] = st;
    p->comm[rank] = weft_comm_status(comm);
    wt_sync();
    WT_CHECK_OK(weft_comm_set_timeout(comm, (p->done[0] < 0 || p->done[1] < 0 ? 500 : 10000) * FT_MS));
    check_afterwards(p, comm, rank, op, n);
    wt_sync();
    WT_CHECK_OK(weft_comm_destroy(comm));
    WT_CHECK_OK(weft_context_destroy(context));
    WT_CHECK_INT(open_files(), before);
    if (rank == VICTIM && seen >= p->nth)
        p->reached = 1;
}

/* ---- One after the other ---- */

/* Until the nth allocation is not made any more, and all has gone well. Of libcrypto's, which are thousands when it starts, ever
 * fewer are tried. Returns how many failed; -1 after a failed check. */
static long each_allocation(wt_rank_fn fn, struct plan *p)
{
    long tried = 0;

    for (p->nth = 1; p->nth < NEVER; p->nth += p->kind == FT_CRYPTO ? 1 + p->nth / 8 : 1, tried++) {
        p->reached = p->late = p->patient = 0;
        p->done[0] = p->done[1] = p->comm[0] = p->comm[1] = 0;
        int failed = wt_run(RANKS, fn, p, 15000);
        if (!failed && p->late) { /* without reason: once more, with time */
            p->patient = 1;
            failed = wt_run(RANKS, fn, p, 60000);
        }
        if (failed) {
            printf("# allocation %ld %s\n", p->nth, kind_names[p->kind]);
            return -1;
        }
        if (p->reached)
            continue;
        if (p->done[0] < 0 || p->done[1] < 0) {
            printf("# without any failure: %s and %s\n", weft_status_name(p->done[0]), weft_status_name(p->done[1]));
            return -1;
        }
        return tried;
    }
    return -1;
}

static struct plan *plan_new(const char *transports, enum ft_exhausted kind)
{
    struct plan *p = mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    CU_ASSERT_FATAL(p != MAP_FAILED);
    p->transports = transports;
    p->kind = kind;
    return p;
}

static void creation(const char *name, const char *transports, enum ft_exhausted kind, long least)
{
    struct plan *p = plan_new(transports, kind);
    long n = each_allocation(create, p);

    printf("# creation over %s: %ld allocations %s failed one by one\n", name, n, kind_names[kind]);
    CU_ASSERT(n >= least);
    munmap(p, sizeof *p);
}

static void operations(const char *name, const char *transports, enum ft_exhausted kind)
{
    struct plan *p = plan_new(transports, kind);

    for (p->stage = 2; p->stage < 2 * LAST_OP; p->stage++) {
        long n = each_allocation(operate, p);
        printf("# %s over %s: %ld allocations %s\n", op_names[p->stage / 2], name, n, kind_names[kind]);
        CU_ASSERT(n >= 0);
    }
    munmap(p, sizeof *p);
}

#define CREATION(transport, kind, least)              \
    static void creation_##transport##_##kind(void)   \
    {                                                 \
        creation(#transport, transport, kind, least); \
    }
#define OPERATIONS(transport, kind)                   \
    static void operations_##transport##_##kind(void) \
    {                                                 \
        operations(#transport, transport, kind);      \
    }
CREATION(shm, FT_HEAP, 50)
CREATION(tcp, FT_HEAP, 50)
CREATION(shm, FT_SYSTEM, 3)
CREATION(tcp, FT_SYSTEM, 2)
CREATION(tcp, FT_CRYPTO, 20)
OPERATIONS(shm, FT_HEAP)
OPERATIONS(tcp, FT_HEAP)
OPERATIONS(shm, FT_SYSTEM)
OPERATIONS(tcp, FT_CRYPTO)

static const struct wt_case cases[] = {
    {"creating over shm without memory", creation_shm_FT_HEAP},
    {"creating over tcp without memory", creation_tcp_FT_HEAP},
    {"creating over shm without mappings, threads and streams", creation_shm_FT_SYSTEM},
    {"creating over tcp without mappings, threads and streams", creation_tcp_FT_SYSTEM},
    {"creating over tcp without memory for libcrypto", creation_tcp_FT_CRYPTO},
    {"operations over shm without memory", operations_shm_FT_HEAP},
    {"operations over tcp without memory", operations_tcp_FT_HEAP},
    {"operations over shm without mappings, threads and streams", operations_shm_FT_SYSTEM},
    {"operations over tcp without memory for libcrypto", operations_tcp_FT_CRYPTO},
};

int main(int argc, char **argv)
{
    if (!ft_exhaust_init()) {
        fprintf(stderr, "libcrypto has allocated already\n");
        return 1;
    }
    return wt_unit_main("alloc", cases, sizeof cases / sizeof *cases, argc, argv);
}
