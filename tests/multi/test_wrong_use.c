/* Wrong use of the public API: a clear error each time, and everything that the status promises still works after it.
 * SPDX-License-Identifier: BSD-3-Clause */
#include <weft/weft_compress.h>

#include "tests/fault/fault.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../unit/unit.h"

#define BAD(expr) WT_CHECK_STATUS(expr, WEFT_EINVAL)
/* The error's text must name the culprit. */
#define BAD_SAYS(expr, status, text)                                                        \
    do {                                                                                    \
        WT_CHECK_STATUS(expr, status);                                                      \
        if (!strstr(weft_thread_error(), text))                                             \
            wt_fail(__FILE__, __LINE__, "\"%s\" is not in: %s", text, weft_thread_error()); \
    } while (0)

static void still_works(struct ft_rank *f)
{
    int64_t pair[2] = {f->rank, -1};

    WT_CHECK_STATUS(weft_comm_status(f->comm), WEFT_SUCCESS);
    WT_CHECK_OK(weft_all_reduce(f->comm, &pair[0], &pair[1], 1, WEFT_INT64, WEFT_SUM, NULL));
    WT_CHECK_INT(pair[1], f->nranks * (f->nranks - 1) / 2);
}

/* ---- Arguments ---- */

static void null_handles(void)
{
    weft_error e = WEFT_ERROR_INIT;
    weft_security security = WEFT_SECURITY_INIT;
    weft_collective_info newest = WEFT_COLLECTIVE_INFO_INIT;
    weft_call call = wt_call(WEFT_KIND_BARRIER, NULL, NULL, 0, WEFT_UINT8);
    weft_unique_id id = {{0}};
    weft_comm *comm = NULL;
    weft_request *req = NULL;
    weft_mem *mem = NULL;
    const char *text;
    size_t index;
    void *p;
    int n;

    BAD(weft_context_create(NULL, NULL));
    WT_CHECK_OK(weft_context_destroy(NULL));
    BAD(weft_context_settings(NULL, NULL, NULL));
    BAD(weft_context_plugins(NULL, NULL, NULL));
    BAD(weft_context_check(NULL));
    BAD(weft_context_security(NULL, &security));
    BAD(weft_comm_newest_algorithm(NULL, &text));
    BAD(weft_comm_newest_collective(NULL, &newest));
    BAD(weft_unique_id_create(NULL, &id));
    BAD(weft_comm_create_env(NULL, NULL, &comm));
    BAD(weft_comm_create_id(NULL, &id, 0, 1, NULL, &comm));
    BAD(weft_comm_create_file(NULL, "x", 0, 1, NULL, &comm));
    BAD(weft_comm_create_oob(NULL, NULL, NULL, &comm));
    BAD(weft_comm_split(NULL, 0, 0, NULL, &comm));
    BAD(weft_comm_dup(NULL, NULL, &comm));
    WT_CHECK_OK(weft_comm_destroy(NULL));
    BAD(weft_comm_abort(NULL, "x"));
    BAD(weft_comm_rank(NULL, &n));
    BAD(weft_comm_size(NULL, &n));
    BAD(weft_comm_name(NULL, &text));
    BAD(weft_comm_host(NULL, 0, &text));
    BAD(weft_comm_local(NULL, &n, &n));
    BAD(weft_comm_peer(NULL, 0, NULL));
    BAD(weft_comm_routes(NULL, 0, NULL, NULL));
    BAD(weft_comm_status(NULL));
    BAD(weft_comm_set_timeout(NULL, 1));
    BAD(weft_issue(NULL, &call, NULL));
    BAD(weft_persistent(NULL, &call, &req));
    BAD(weft_comm_dump(NULL, "/dev/null"));
    BAD(weft_last_error(NULL, &e));
    BAD(weft_barrier(NULL, NULL));
    BAD(weft_start(NULL));
    BAD(weft_test(NULL));
    BAD(weft_wait(NULL));
    BAD(weft_wait_for(NULL, 1));
    BAD(weft_wait_any(NULL, 0, &index));
    BAD(weft_wait_all(NULL, 3));
    WT_CHECK_OK(weft_wait_all(NULL, 0));
    WT_CHECK_OK(weft_request_free(NULL));
    BAD_SAYS(weft_group_end(), WEFT_EINVAL, "group_start");
    BAD(weft_op_create(NULL, NULL, 1, NULL));
    BAD(weft_op_create_premul_sum(NULL, WEFT_FLOAT32, NULL));
    BAD_SAYS(weft_op_destroy(WEFT_SUM), WEFT_EINVAL, "built in");
    BAD(weft_op_destroy(4711));
    BAD(weft_mem_alloc(NULL, 1, &p));
    BAD(weft_mem_free(NULL, NULL));
    BAD(weft_mem_pool_alloc(NULL, 1, &p));
    BAD(weft_mem_pool_free(NULL, NULL));
    BAD(weft_mem_register(NULL, &n, 4, &mem));
    WT_CHECK_OK(weft_mem_deregister(NULL));
    BAD(weft_algorithm_list(NULL, NULL));
    BAD(weft_codec_list(NULL, NULL));
    WT_CHECK(comm == NULL && req == NULL && mem == NULL);
}

static void bad_arguments(struct ft_rank *f)
{
    static int32_t a[64], b[64];
    size_t counts[2] = {1, SIZE_MAX}, displs[2] = {0, SIZE_MAX};
    weft_comm *c = f->comm;
    weft_request *req = NULL;
    weft_call call;

    BAD(weft_all_reduce(c, NULL, b, 1, WEFT_INT32, WEFT_SUM, NULL));
    BAD(weft_all_reduce(c, a, NULL, 1, WEFT_INT32, WEFT_SUM, &req));
    BAD_SAYS(weft_all_reduce(c, a, b, 1, (weft_dtype)17, WEFT_SUM, NULL), WEFT_EINVAL, "17");
    BAD(weft_all_reduce(c, a, b, 1, (weft_dtype)-1, WEFT_SUM, NULL));
    BAD_SAYS(weft_all_reduce(c, a, b, 1, WEFT_INT32, 99, NULL), WEFT_EINVAL, "99");
    WT_CHECK_STATUS(weft_all_reduce(c, a, b, 1, WEFT_FLOAT32, WEFT_BXOR, NULL), WEFT_ENOTSUP);
    WT_CHECK_STATUS(weft_all_reduce(c, a, b, 1, WEFT_COMPLEX64, WEFT_MAX, NULL), WEFT_ENOTSUP);
    WT_CHECK_STATUS(weft_scan(c, a, b, 1, WEFT_INT32, WEFT_AVG, NULL), WEFT_ENOTSUP);
    BAD(weft_all_reduce(c, a, b, SIZE_MAX / 2, WEFT_INT32, WEFT_SUM, NULL));
    BAD(weft_all_gather(c, a, b, SIZE_MAX / 4, WEFT_INT32, NULL));
    BAD_SAYS(weft_all_reduce(c, a, a + 1, 8, WEFT_INT32, WEFT_SUM, NULL), WEFT_EINVAL, "overlap");
    BAD_SAYS(weft_broadcast(c, a, b, 1, WEFT_INT32, f->nranks, NULL), WEFT_EINVAL, "root");
    BAD(weft_reduce(c, a, b, 1, WEFT_INT32, WEFT_SUM, -1, NULL));
    BAD(weft_gather(c, a, b, 1, WEFT_INT32, 77, NULL));
    BAD(weft_scatter(c, a, b, 1, WEFT_INT32, -7, NULL));
    BAD_SAYS(weft_send(c, a, 1, WEFT_INT32, f->nranks, 0, NULL), WEFT_EINVAL, "peer");
    BAD(weft_recv(c, a, 1, WEFT_INT32, -1, 0, NULL));
    BAD(weft_send_recv(c, a, 1, 0, 0, b, 1, 99, 0, WEFT_INT32, NULL));
    BAD(weft_send(c, NULL, 1, WEFT_INT32, 0, 0, NULL));
    BAD_SAYS(weft_all_gather_v(c, a, b, NULL, NULL, WEFT_INT32, NULL), WEFT_EINVAL, "counts");
    BAD(weft_all_gather_v(c, a, b, counts, NULL, WEFT_INT32, NULL));
    counts[1] = 1;
    BAD(weft_all_gather_v(c, a, b, counts, displs, WEFT_INT32, NULL));
    BAD(weft_reduce_scatter_v(c, a, b, NULL, WEFT_INT32, WEFT_SUM, NULL));
    BAD(weft_all_to_all_v(c, a, NULL, NULL, b, NULL, NULL, WEFT_INT32, NULL));
    call = wt_call(WEFT_KIND_ALL_REDUCE, a, b, 1, WEFT_INT32);
    BAD_SAYS(weft_persistent(c, &call, NULL), WEFT_EINVAL, "req is NULL");
    call.kind = WEFT_KIND_BROADCAST;
    call.root = 99;
    BAD_SAYS(weft_persistent(c, &call, &req), WEFT_EINVAL, "root 99");
    BAD_SAYS(weft_issue(c, &call, &req), WEFT_EINVAL, "root 99");
    WT_CHECK(req == NULL);
}

/* What a rank gives itself has one length: what it sends, and what it makes room for. */
static void own_share(int rank, int nranks, void *arg)
{
    enum { MOST = 3, SENT = 6, EXPECTED = 2 };
    size_t sent[MOST] = {1, 1, 1}, expected[MOST] = {1, 1, 1}, displs[MOST] = {0, 8, 16};
    int32_t a[24] = {0}, b[24] = {0};
    int root = nranks - 1;
    struct ft_rank f;

    ft_open(&f, arg, 10000, rank, nranks);
    for (int less = 0; less < 2; less++) {
        size_t gives = less ? EXPECTED : SENT, takes = less ? SENT : EXPECTED;
        const char *says =
            less ? "sends 2 elements to itself and expects 6" : "sends 6 elements to itself and expects 2";
        sent[rank] = gives;
        expected[rank] = takes;
        BAD_SAYS(weft_all_to_all_v(f.comm, a, sent, displs, b, expected, displs, WEFT_INT32, NULL), WEFT_EINVAL, says);
        if (rank != root)
            continue;
        BAD_SAYS(weft_gather_v(f.comm, a, gives, b, expected, displs, WEFT_INT32, root, NULL), WEFT_EINVAL, says);
        BAD_SAYS(weft_scatter_v(f.comm, a, sent, displs, b, takes, WEFT_INT32, root, NULL), WEFT_EINVAL, says);
    }
    for (int i = 0; i < 24; i++)
        WT_CHECK_INT(b[i], 0);
    still_works(&f);
    ft_close(&f);
}

static void bad_questions(struct ft_rank *f)
{
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    weft_error e = WEFT_ERROR_INIT;
    weft_comm *comm = NULL;
    const char *text;
    void *p = NULL;

    config.bytes = 3;
    e.bytes = 0;
    BAD(weft_comm_dup(f->comm, &config, &comm));
    BAD(weft_comm_dup(f->comm, NULL, NULL));
    BAD(weft_comm_split(f->comm, -2, 0, NULL, &comm));
    BAD(weft_last_error(f->comm, &e));
    BAD(weft_last_error(f->comm, NULL));
    BAD(weft_context_security(f->context, NULL));
    BAD(weft_comm_newest_algorithm(f->comm, NULL));
    BAD(weft_comm_newest_collective(f->comm, NULL));
    BAD(weft_comm_host(f->comm, 99, &text));
    BAD(weft_comm_rank(f->comm, NULL));
    BAD(weft_comm_local(f->comm, NULL, NULL));
    BAD(weft_comm_peer(f->comm, f->rank, NULL));
    BAD(weft_comm_routes(f->comm, f->rank, NULL, NULL));
    BAD(weft_comm_dump(f->comm, NULL));
    WT_CHECK(weft_comm_dump(f->comm, "/nowhere/at/all") < 0);
    BAD(weft_comm_create_id(f->context, NULL, 0, 1, NULL, &comm));
    BAD(weft_comm_create_file(f->context, "", 0, 1, NULL, &comm));
    BAD(weft_comm_create_file(f->context, "x", 2, 2, NULL, &comm));
    BAD(weft_mem_alloc(f->context, 0, &p));
    BAD(weft_mem_free(f->context, &config));
    BAD(weft_mem_pool_alloc(f->context, 0, &p));
    BAD(weft_mem_pool_alloc(f->context, 1, NULL));
    BAD(weft_mem_pool_free(f->context, &config));
    BAD(weft_mem_pool_reserved(f->context, NULL));
    WT_CHECK_STATUS(weft_context_destroy(f->context), WEFT_EBUSY);
    WT_CHECK(comm == NULL);
}

static void arguments(int rank, int nranks, void *arg)
{
    struct ft_rank f;

    null_handles();
    ft_open(&f, arg, 10000, rank, nranks);
    bad_arguments(&f);
    still_works(&f);
    bad_questions(&f);
    still_works(&f);
    ft_close(&f);
}

/* ---- Requests and groups ---- */

static void requests(int rank, int nranks, void *arg)
{
    int64_t one = 1, sum = 0, other = 0;
    weft_call call;
    weft_request *kept, *req = NULL, *stale;
    weft_comm *dead;
    struct ft_rank f;

    ft_open(&f, arg, 10000, rank, nranks);
    call = wt_call(WEFT_KIND_ALL_REDUCE, &one, &sum, 1, WEFT_INT64);
    WT_CHECK_OK(weft_persistent(f.comm, &call, &kept));
    WT_CHECK_OK(weft_wait(kept)); /* idle: nothing to wait for */
    WT_CHECK_OK(weft_start(kept));
    WT_CHECK_STATUS(weft_start(kept), WEFT_EBUSY);
    WT_CHECK_OK(weft_wait(kept));
    WT_CHECK_OK(weft_wait(kept));
    WT_CHECK_INT(sum, nranks);
    stale = kept;
    WT_CHECK_OK(weft_request_free(kept));
    BAD(weft_request_free(stale));
    BAD(weft_wait(stale));
    BAD(weft_start(stale));
    WT_CHECK_OK(weft_recv(f.comm, &other, 1, WEFT_INT64, (rank + 1) % nranks, 0, &req));
    BAD_SAYS(weft_start(req), WEFT_EINVAL, "persistent");
    WT_CHECK_STATUS(weft_request_free(req), WEFT_EBUSY);
    WT_CHECK_STATUS(weft_test(req), WEFT_INPROGRESS);
    WT_CHECK_STATUS(weft_wait_for(req, 1000000), WEFT_INPROGRESS);
    wt_sync();
    WT_CHECK_OK(weft_send(f.comm, &one, 1, WEFT_INT64, (rank + nranks - 1) % nranks, 0, NULL));
    WT_CHECK_OK(weft_wait(req));
    WT_CHECK_INT(other, 1);
    WT_CHECK_OK(weft_request_free(req));
    still_works(&f);
    dead = f.comm;
    WT_CHECK_OK(weft_comm_dup(f.comm, NULL, &f.comm));
    wt_sync();
    WT_CHECK_OK(weft_comm_abort(dead, "enough"));
    WT_CHECK(weft_barrier(dead, NULL) < 0 && weft_comm_status(dead) < 0);
    WT_CHECK(weft_comm_dup(dead, NULL, &dead) < 0);
    WT_CHECK_OK(weft_comm_destroy(dead));
    still_works(&f); /* another communicator's end does not concern it */
    ft_close(&f);
}

static void groups(int rank, int nranks, void *arg)
{
    int64_t one = 1, sum = 0;
    weft_request *req = NULL;
    struct ft_rank f;

    ft_open(&f, arg, 10000, rank, nranks);
    WT_CHECK_OK(weft_group_start());
    WT_CHECK_OK(weft_all_reduce(f.comm, &one, &sum, 1, WEFT_INT64, WEFT_SUM, &req));
    WT_REQUIRE(req != NULL);
    BAD_SAYS(weft_wait(req), WEFT_EINVAL, "group");
    WT_CHECK_STATUS(weft_request_free(req), WEFT_EBUSY);
    WT_CHECK_STATUS(weft_test(req), WEFT_INPROGRESS);
    WT_CHECK_OK(weft_group_end());
    WT_CHECK_OK(weft_wait(req));
    WT_CHECK_INT(sum, nranks);
    WT_CHECK_OK(weft_request_free(req));
    sum = 0;
    WT_CHECK_OK(weft_group_start()); /* one wrong call: none is made */
    WT_CHECK_OK(weft_all_reduce(f.comm, &one, &sum, 1, WEFT_INT64, WEFT_SUM, NULL));
    BAD(weft_broadcast(f.comm, &one, &sum, 1, WEFT_INT64, 99, NULL));
    BAD_SAYS(weft_group_end(), WEFT_EINVAL, "99");
    WT_CHECK_INT(sum, 0);
    BAD(weft_group_end());
    WT_CHECK_OK(weft_group_start());
    WT_CHECK_OK(weft_group_start());
    WT_CHECK_OK(weft_group_end());
    WT_CHECK_OK(weft_group_end());
    still_works(&f);
    ft_close(&f);
}

/* ---- Two threads ---- */

struct second {
    struct ft_rank *f;
    weft_status st;
    atomic_int returned;
};

static void *intrude(void *arg)
{
    struct second *s = arg;
    int64_t one = 1, sum;

    s->st = weft_all_reduce(s->f->comm, &one, &sum, 1, WEFT_INT64, WEFT_SUM, NULL);
    atomic_store(&s->returned, 1);
    return NULL;
}

static void threads(int rank, int nranks, void *arg)
{
    struct ft_rank f;
    struct second s = {.f = &f}, t = {.f = &f};
    pthread_t first, second;
    weft_request *done = NULL, *next[4]; /* more than the threads had at once */
    int64_t one = 1, sum = 0, sums[4];
    int again = 0;

    ft_open(&f, arg, 10000, rank, nranks);
    WT_CHECK_OK(weft_all_reduce(f.comm, &one, &sum, 1, WEFT_INT64, WEFT_SUM, &done));
    WT_CHECK_OK(weft_wait(done));
    wt_sync();
    if (rank == 0) { /* both block: the other rank is not there yet */
        WT_REQUIRE(pthread_create(&first, NULL, intrude, &s) == 0);
        WT_REQUIRE(pthread_create(&second, NULL, intrude, &t) == 0);
        usleep(5000);
        WT_CHECK(!atomic_load(&s.returned) && !atomic_load(&t.returned));
    }
    WT_CHECK_OK(weft_request_free(done)); /* which does not mind who is inside */
    BAD(weft_request_free(done));
    wt_sync();
    if (rank != 0) {
        intrude(&s);
        intrude(&t);
    } else {
        pthread_join(first, NULL);
        pthread_join(second, NULL);
    }
    WT_CHECK_OK(s.st);
    WT_CHECK_OK(t.st);
    still_works(&f);
    for (int i = 0; i < 4; i++) {
        WT_REQUIRE_OK(weft_all_reduce(f.comm, &one, &sums[i], 1, WEFT_INT64, WEFT_SUM, &next[i]));
        again += next[i] == done;
    }
    WT_CHECK_INT(again, 1); /* its place is free again */
    for (int i = 0; i < 4; i++) {
        WT_CHECK_OK(weft_wait(next[i]));
        WT_CHECK_INT(sums[i], nranks);
        WT_CHECK_OK(weft_request_free(next[i]));
    }
    ft_close(&f);
}

/* ---- A function of an operator that calls weft ---- */

struct caller {
    weft_comm *comm;
    weft_request *waited_for;
    atomic_int refused, called;
};

static void calls_weft(const void *left, const void *right, void *out, size_t count, weft_dtype dtype, void *arg)
{
    const int64_t *a = left, *b = right;
    int64_t one = 1, sum = 0, *c = out;
    struct caller *of = arg;

    (void)dtype;
    for (size_t i = 0; i < count; i++)
        c[i] = a[i] + b[i];
    atomic_fetch_add(&of->refused, weft_all_reduce(of->comm, &one, &sum, 1, WEFT_INT64, WEFT_SUM, NULL) == WEFT_EBUSY &&
                                       strstr(weft_thread_error(), "operator") &&
                                       weft_wait(of->waited_for) == WEFT_EBUSY &&
                                       weft_test(of->waited_for) == WEFT_INPROGRESS);
    atomic_fetch_add(&of->called, 1);
}

static void operator_calls(int rank, int nranks, void *arg)
{
    int64_t one = 1, sum = 0, late = -1, number = 7;
    struct caller of = {0};
    struct ft_rank f;
    weft_op op;

    ft_open(&f, arg, 10000, rank, nranks);
    of.comm = f.comm;
    WT_REQUIRE_OK(weft_op_create(calls_weft, &of, 1, &op));
    WT_CHECK_OK(weft_recv(f.comm, &late, 1, WEFT_INT64, !rank, 0, &of.waited_for));
    for (int i = 0; i < 3; i++) {
        WT_CHECK_OK(weft_all_reduce(f.comm, &one, &sum, 1, WEFT_INT64, op, NULL));
        WT_CHECK_INT(sum, nranks);
    }
    WT_CHECK_INT(atomic_load(&of.refused), atomic_load(&of.called));
    wt_sync();
    WT_CHECK_OK(weft_send(f.comm, &number, 1, WEFT_INT64, !rank, 0, NULL));
    WT_CHECK_OK(weft_wait(of.waited_for));
    WT_CHECK_INT(late, 7);
    WT_CHECK_OK(weft_request_free(of.waited_for));
    WT_CHECK_OK(weft_op_destroy(op));
    still_works(&f);
    ft_close(&f);
    if (rank == 0)
        WT_CHECK(atomic_load(&of.called) > 0); /* who reduces is the algorithm's business; rank 0 does in all of them */
}

/* ---- Algorithms ---- */

static void algorithms(int rank, int nranks, void *arg)
{
    int64_t one = 1, sum = 0;
    weft_call call = wt_call(WEFT_KIND_ALL_REDUCE, &one, &sum, 1, WEFT_INT64);
    weft_request *req = NULL;
    struct ft_rank f;

    ft_open(&f, arg, 10000, rank, nranks);
    BAD_SAYS(wt_issue(f.comm, call, "rign", NULL), WEFT_ENOTFOUND, "\"ring\"?");
    still_works(&f);
    WT_CHECK_STATUS(wt_issue(f.comm, call, "rign", &req), WEFT_ENOTFOUND);
    WT_CHECK(req == NULL);
    still_works(&f);
    WT_CHECK_OK(weft_group_start());
    WT_CHECK_OK(wt_issue(f.comm, call, "rign", NULL));
    WT_CHECK_STATUS(weft_group_end(), WEFT_ENOTFOUND);
    still_works(&f);
    BAD_SAYS(wt_persistent(f.comm, call, "rign", &req), WEFT_ENOTFOUND, "\"ring\"?");
    WT_CHECK(req == NULL);
    still_works(&f);
    ft_close(&f);
}

static void in_ranks(wt_rank_fn fn, const char *what)
{
    CU_ASSERT_EQUAL(ft_run_everywhere(2, fn, what, 20000), 0);
}

static void run_arguments(void)
{
    in_ranks(arguments, "arguments");
}
static void run_own_share(void)
{
    for (int n = 1; n <= 3; n += 2)
        CU_ASSERT_EQUAL(ft_run_everywhere(n, own_share, "a rank's own share", 20000), 0);
}
static void run_requests(void)
{
    in_ranks(requests, "requests");
}
static void run_groups(void)
{
    in_ranks(groups, "groups");
}
static void run_threads(void)
{
    in_ranks(threads, "threads");
}
static void run_algorithms(void)
{
    in_ranks(algorithms, "algorithms");
}

/* ---- Settings and surroundings, in processes of their own: they change the environment ---- */

static void malformed_settings(int rank, int nranks, void *arg)
{
    static const char *const wrong[][2] = {
        {"COMM_TIMEOUT=soon", "COMM_TIMEOUT"},
        {"COMM_SLICE_BYTES=-3", "COMM_SLICE_BYTES"},
        {"COMM_SPIN=many", "COMM_SPIN"},
        {"PROGRESS_THREAD=perhaps", "PROGRESS_THREAD"},
        {"SHM_SLOT_BYTES=12", "SHM_SLOT_BYTES"},
        {"TCP_FAMILY=5", "FAMILY"},
        {"TRANSPORTS=smh", "smh"},
        {"nonsense", "nonsense"},
    };
    weft_context_config config = WEFT_CONTEXT_CONFIG_INIT;
    weft_context *context = NULL;

    (void)rank, (void)nranks, (void)arg;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const char *settings[] = {wrong[i][0], NULL};
        config.settings = settings;
        weft_status st = weft_context_create(&config, &context);
        if (st >= 0 || !strstr(weft_thread_error(), wrong[i][1]))
            wt_fail(__FILE__, __LINE__, "%s: %s: %s", wrong[i][0], weft_status_name(st), weft_thread_error());
        if (st >= 0)
            weft_context_destroy(context);
    }
    config.settings = NULL;
    config.flags = 64;
    BAD(weft_context_create(&config, &context));
    config.flags = 0;
    config.bytes = 2;
    BAD(weft_context_create(&config, &context));
    setenv("WEFT_COMM_TIMEOUT", "1parsec", 1);
    BAD_SAYS(weft_context_create(NULL, &context), WEFT_ECONFIG, "1parsec");
    unsetenv("WEFT_COMM_TIMEOUT");
    setenv("WEFT_COMM_TIMEOTU", "1s", 1); /* unknown: only warned about */
    WT_CHECK_OK(weft_context_create(NULL, &context));
    WT_CHECK_OK(weft_context_destroy(context));
}

static void malformed_launch(int rank, int nranks, void *arg)
{
    static const char *const wrong[][3] = {{"WEFT_RANK", "first", "WEFT_RANK"}, {"WEFT_RANK", "5", "5"},
                                           {"WEFT_NRANKS", "0", "WEFT_NRANKS"}, {"WEFT_NRANKS", "-4", "WEFT_NRANKS"},
                                           {"WEFT_STORE_PORT", "http", "PORT"}, {"WEFT_STORE_PORT", "70000", "PORT"}};
    weft_context *context;
    weft_comm *comm = NULL;

    (void)rank, (void)nranks, (void)arg;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char before[64];
        snprintf(before, sizeof before, "%s", getenv(wrong[i][0]));
        setenv(wrong[i][0], wrong[i][1], 1);
        weft_status st = weft_context_create(NULL, &context);
        weft_status made = st < 0 ? st : weft_comm_create_env(context, NULL, &comm);
        if (made >= 0 || !strstr(weft_thread_error(), wrong[i][2]))
            wt_fail(__FILE__, __LINE__, "%s=%s: %s: %s", wrong[i][0], wrong[i][1], weft_status_name(made),
                    weft_thread_error());
        if (made >= 0)
            WT_CHECK_OK(weft_comm_destroy(comm));
        if (st >= 0)
            WT_CHECK_OK(weft_context_destroy(context));
        setenv(wrong[i][0], before, 1);
    }
    WT_CHECK_OK(weft_context_create(NULL, &context));
    WT_CHECK_OK(weft_comm_create_env(context, NULL, &comm));
    WT_CHECK_OK(weft_comm_destroy(comm));
    WT_CHECK_OK(weft_context_destroy(context));
}

static void few_descriptors(int rank, int nranks, void *arg)
{
    const char *settings[] = {"TRANSPORTS=tcp", "COMM_INIT_TIMEOUT=3s", NULL};
    weft_context_config config = WEFT_CONTEXT_CONFIG_INIT;
    weft_context *context;
    weft_comm *comm = NULL;
    struct rlimit limit;
    uint64_t began = wt_now_ms();
    weft_status st;

    (void)arg;
    config.settings = settings;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = (rlim_t)dup(0) + 3;
    close((int)limit.rlim_cur - 3);
    WT_REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    st = weft_context_create(&config, &context);
    if (st >= 0) {
        int64_t one = 1, sum = 0;
        st = weft_comm_create_env(context, NULL, &comm);
        if (st >= 0)
            st = weft_all_reduce(comm, &one, &sum, 1, WEFT_INT64, WEFT_SUM, NULL);
        fprintf(stderr, "rank %d of %d: %s: %s\n", rank, nranks, weft_status_name(st), weft_thread_error());
        WT_CHECK_OK(weft_comm_destroy(comm));
        WT_CHECK_OK(weft_context_destroy(context));
    }
    WT_CHECK(st < 0 && strlen(weft_thread_error()) > 10);
    WT_CHECK(wt_now_ms() - began < wt_slow_ms(8000));
}

static void run_operator(void)
{
    in_ranks(operator_calls, "an operator that calls weft");
}

static void settings(void)
{
    CU_ASSERT_EQUAL(wt_run(1, malformed_settings, NULL, 10000), 0);
}

static void launcher(void)
{
    CU_ASSERT_EQUAL(wt_run(1, malformed_launch, NULL, 20000), 0);
}

static void descriptors(void)
{
    CU_ASSERT_EQUAL(wt_run(3, few_descriptors, NULL, 20000), 0);
}

static const struct wt_case cases[] = {
    {"wrong arguments", run_arguments},
    {"a share of one rank that has two lengths", run_own_share},
    {"requests used wrongly", run_requests},
    {"groups used wrongly", run_groups},
    {"two threads in one communicator", run_threads},
    {"an operator's function that calls weft", run_operator},
    {"algorithms that do not exist", run_algorithms},
    {"malformed settings", settings},
    {"a malformed launcher environment", launcher},
    {"too few file descriptors", descriptors},
};
WT_UNIT_MAIN("wrong_use", cases)
