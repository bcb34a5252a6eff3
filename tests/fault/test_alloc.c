/* Every allocation fails once, of the library and its plugins, of memory, of mappings and threads, and in libcrypto: each failure
 * is an error with a name on all ranks, never a crash, a hang, a leak or a wrong result; and what goes on afterwards is right.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fault/fault.h"

#include <dirent.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../unit/unit.h"
#include "tests/fault/alloc_calls.h"
#include "tests/fault/exhaust.h"

/* test_alloc tries a sample, of each call another allocation first; test_alloc_all (the long tier) tries all; test_alloc_each those
 * of the heap when ranks are threads. */
#ifndef STRIDE
#define STRIDE 1
#endif
enum { RANKS = AC_RANKS, VICTIM = 1, NEVER = 20000 };

static const char shm[] = "TRANSPORTS=shm", tcp[] = "TRANSPORTS=tcp", both[] = "TRANSPORTS=shm,tcp";
static const char *const kind_names[] = {"of memory", "of mappings, threads and streams", "of libcrypto"};

struct plan {
    const char *transports;
    int patient; /* the machine was too slow for short deadlines */
    enum ft_exhausted kind;
    long nth;
    int stage; /* of ac_calls: twice its index, and one more for a long vector */
    /* What the ranks tell: the nth allocation was made, of how many; how the operation and the communicator are. */
    _Atomic int reached, late, done[RANKS], comm[RANKS];
    _Atomic long seen;
};

/* ---- What may come of it ---- */

static int names_another(const char *text)
{
    for (const char *at = text; (at = strstr(at, "rank")) != NULL; at++) {
        int rank = -1;
        sscanf(at, at[4] == 's' ? "ranks %d" : "rank %d", &rank);
        if (rank >= 0 && rank != VICTIM)
            return 1;
    }
    return 0;
}

static int clean(enum ft_exhausted kind, weft_status st, int victim)
{
    if (st == WEFT_SUCCESS || st == WEFT_ENOMEM || st == WEFT_EPEER || st == WEFT_EABORTED)
        return 1;
    if (st == WEFT_ETIMEDOUT) /* another one has given up, or never called */
        return !victim || names_another(weft_thread_error());
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

static void told(struct plan *p, int rank, long seen)
{
    if (rank != VICTIM)
        return;
    p->seen = seen;
    p->reached = seen >= p->nth;
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
        WT_CHECK(st < 0 || sum == RANKS * (RANKS + 1) / 2);
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
    told(p, rank, seen);
}

/* ---- Operations ---- */

static void check_result(const struct plan *p, const struct ac_call *c, int rank, size_t n)
{
    size_t wrong = (c->wrong ? c->wrong(rank, n) : 0) + ac_spoilt(rank);

    if (wrong)
        wt_fail(__FILE__, __LINE__, "%s, allocation %ld %s: %zu elements are wrong", c->name, p->nth,
                kind_names[p->kind], wrong);
}

static int all_well(const struct plan *p)
{
    int well = 1;

    for (int r = 0; r < RANKS; r++)
        well &= p->done[r] >= 0 && p->comm[r] >= 0;
    return well;
}

/* Where all is well the next operation is right. Where a rank's failed, all call it again: it is right, or a failure, and a broken
 * communicator says why. */
static void check_afterwards(struct plan *p, const struct ac_rank *on, const struct ac_call *c, size_t n)
{
    weft_error e = WEFT_ERROR_INIT;
    int well = all_well(p);
    weft_status st;

    if (well)
        c = &ac_calls[0], n = 5001;
    ac_fill(on->rank);
    st = c->call(on, n);
    if (well)
        WT_CHECK_OK(st);
    if (st >= 0)
        check_result(p, c, on->rank, n);
    if (weft_comm_status(on->comm) >= 0)
        return;
    WT_CHECK(st < 0);
    WT_REQUIRE_OK(weft_last_error(on->comm, &e));
    WT_CHECK_INT(e.status, weft_comm_status(on->comm));
    WT_CHECK(e.message && strlen(e.message) > 10 && e.advice && *e.advice);
}

static void open_rank(struct ac_rank *on, const struct plan *p, const struct ac_call *c, int rank)
{
    const char *settings[] = {p->transports, NULL};
    weft_context_config config = WEFT_CONTEXT_CONFIG_INIT;
    weft_comm_config patient = WEFT_COMM_CONFIG_INIT;

    if (c->where == AC_TWO_HOSTS)
        setenv("WEFT_NODE_ID", rank == 1 ? "b" : "a", 1);
    if (c->algo)
        setenv("WEFT_ALGO", c->algo, 1);
    config.settings = settings;
    on->rank = rank;
    WT_REQUIRE_OK(weft_context_create(&config, &on->context));
    wt_check_settings(on->context, config.settings);
    patient.init_timeout_ns = 10000 * FT_MS;
    WT_REQUIRE_OK(weft_comm_create_env(on->context, &patient, &on->comm));
}

static void set_timeout(struct ac_rank *on, unsigned ms)
{
    on->timeout_ns = ms * FT_MS;
    WT_CHECK_OK(weft_comm_set_timeout(on->comm, on->timeout_ns));
}

static void operate(int rank, int nranks, void *arg)
{
    struct plan *p = arg;
    const struct ac_call *c = &ac_calls[p->stage / 2];
    size_t n = p->stage % 2 ? AC_MANY : AC_FEW;
    int before = open_files();
    struct ac_rank on;
    weft_status st;
    long seen;

    (void)nranks;
    open_rank(&on, p, c, rank);
    ac_fill(rank);
    set_timeout(&on, p->patient ? 20000 : 250);
    if (rank == VICTIM) /* before the others connect to it */
        ft_exhaust(p->kind, p->nth);
    wt_sync();
    st = c->call(&on, n);
    seen = ft_relieve();
    told(p, rank, seen);
    p->done[rank] = st;
    p->comm[rank] = weft_comm_status(on.comm);
    wt_sync();
    if (!p->reached && !all_well(p) && !p->patient)
        p->late = 1;
    else
        check_clean(c->name, p, st, rank);
    if (st >= 0)
        check_result(p, c, rank, n);
    set_timeout(&on, all_well(p) ? 10000 : 250);
    check_afterwards(p, &on, c, n);
    wt_sync();
    WT_CHECK_OK(weft_comm_destroy(on.comm));
    WT_CHECK_OK(weft_context_destroy(on.context));
    WT_CHECK_INT(open_files(), before);
}

/* ---- One after the other ---- */

static int nth_fails(wt_rank_fn fn, struct plan *p)
{
    p->reached = p->late = p->patient = 0;
    for (int r = 0; r < RANKS; r++)
        p->done[r] = p->comm[r] = 0;
    int failed = wt_run(RANKS, fn, p, 15000);
    if (!failed && p->late) { /* without reason: once more, with time */
        p->patient = 1;
        failed = wt_run(RANKS, fn, p, 60000);
    }
    if (failed) {
        printf("# allocation %ld %s\n", p->nth, kind_names[p->kind]);
        return -1;
    }
    if (p->reached || all_well(p))
        return 0;
    printf("# without any failure:");
    for (int r = 0; r < RANKS; r++)
        printf(" %s", weft_status_name(p->done[r]));
    printf("\n");
    return -1;
}

/* The first allocation, then that at `second` and each `stride`th after it, until it is not made any more and all has gone well;
 * then the last ones. Ever fewer are tried of libcrypto's, which are thousands when it starts, and of a sample. Returns how many
 * failed; -1 after a failed check. */
static long each_allocation(wt_rank_fn fn, struct plan *p, long second, long stride, int last)
{
    long tried = 0, slower = STRIDE > 1 ? 4 : p->kind == FT_CRYPTO ? 8 : NEVER;

    for (p->nth = 1; p->nth < NEVER; p->nth = p->nth < second ? second : p->nth + stride + p->nth / slower, tried++) {
        if (nth_fails(fn, p))
            return -1;
        if (!p->reached)
            break;
    }
    if (p->nth >= NEVER)
        return -1;
    for (long made = p->seen, i = 0; i < last; i++) {
        p->nth = made - i;
        if (nth_fails(fn, p))
            return -1;
        tried += p->reached;
    }
    return tried;
}

static struct plan *plan_new(const char *transports, enum ft_exhausted kind)
{
    struct plan *p = mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    CU_ASSERT_FATAL(p != MAP_FAILED);
    p->transports = transports;
    p->kind = kind;
    return p;
}

/* libcrypto's last allocations are those of the operation, and of the exchanges before it. */
static void creation(const char *name, const char *transports, enum ft_exhausted kind, long least)
{
    long stride = kind == FT_SYSTEM ? 1 : STRIDE > 1 ? 2 * STRIDE + 1 : 1;
    struct plan *p = plan_new(transports, kind);
    long n = each_allocation(create, p, 2 + (kind == FT_HEAP && transports == tcp), stride, kind == FT_CRYPTO ? 6 : 0);

    printf("# creation over %s: %ld allocations %s failed one by one\n", name, n, kind_names[kind]);
    CU_ASSERT(n >= (least + stride - 1) / stride);
    munmap(p, sizeof *p);
}

static long operation(struct plan *p, const char *name)
{
    const char *call = ac_calls[p->stage / 2].name;
    long n = each_allocation(operate, p, 2 + p->stage % STRIDE, STRIDE, 0);

    printf("# %s%s of %s over %s: %ld allocations %s\n", n ? "" : "skipped, as it makes none: ", call,
           p->stage % 2 ? "much" : "little", name, n, kind_names[p->kind]);
    CU_ASSERT(n >= 0);
    return n;
}

/* Is the call of this stage one for these transports, and of the sample? That has one length of each call, over tcp the other
 * one, and of libcrypto's allocations, which are much the same for all, every fourth call. */
static int is_tried(const struct plan *p)
{
    int i = p->stage / 2, much = p->stage % 2;
    enum ac_where where = ac_calls[i].where;

    if (p->transports == both ? where != AC_TWO_HOSTS
                              : where != AC_ANYWHERE && (where != AC_ONE_HOST || p->transports != shm))
        return 0;
    return STRIDE == 1 || (much == (i + (p->transports == tcp)) % 2 && (p->kind != FT_CRYPTO || i % 4 == 3));
}

static void operations(const char *name, const char *transports, enum ft_exhausted kind, long least)
{
    struct plan *p = plan_new(transports, kind);
    long tried = 0;

    for (p->stage = 0; p->stage < 2 * ac_ncalls; p->stage++)
        if (is_tried(p))
            tried += operation(p, name);
    printf("# operations over %s: %ld allocations %s failed one by one\n", name, tried, kind_names[kind]);
    CU_ASSERT(tried >= least);
    munmap(p, sizeof *p);
}

#define CREATION(transport, kind, least)              \
    static void creation_##transport##_##kind(void)   \
    {                                                 \
        creation(#transport, transport, kind, least); \
    }
#define OPERATIONS(transport, kind, least)              \
    static void operations_##transport##_##kind(void)   \
    {                                                   \
        operations(#transport, transport, kind, least); \
    }
CREATION(shm, FT_HEAP, 50)
CREATION(tcp, FT_HEAP, 50)
CREATION(shm, FT_SYSTEM, 3)
CREATION(tcp, FT_SYSTEM, 2)
CREATION(tcp, FT_CRYPTO, 20)
OPERATIONS(shm, FT_HEAP, 25)
OPERATIONS(tcp, FT_HEAP, 40)
OPERATIONS(both, FT_HEAP, 15)
OPERATIONS(shm, FT_SYSTEM, 4)
OPERATIONS(tcp, FT_CRYPTO, 15)

static const struct wt_case cases[] = {
    {"creating over shm without memory", creation_shm_FT_HEAP},
    {"creating over tcp without memory", creation_tcp_FT_HEAP},
    {"creating over shm without mappings, threads and streams", creation_shm_FT_SYSTEM},
    {"creating over tcp without mappings, threads and streams", creation_tcp_FT_SYSTEM},
    {"creating over tcp without memory for libcrypto", creation_tcp_FT_CRYPTO},
    {"operations over shm without memory", operations_shm_FT_HEAP},
    {"operations over tcp without memory", operations_tcp_FT_HEAP},
    {"operations over both, by levels, without memory", operations_both_FT_HEAP},
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
