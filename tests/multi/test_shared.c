/* Communicators that share connections: a thousand of them under the usual limit of descriptors, and none stands in another's way.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fault/fault.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../unit/unit.h"

static int open_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;

    WT_REQUIRE(dir != NULL);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n - 3; /* ".", "..", and the directory's own */
}

/* ---- A thousand ---- */

enum { MANY = 1000, LIMIT = 1024 };

/* All are alive at once, and each has used its connections. */
static void a_thousand(int rank, int nranks, void *arg)
{
    weft_comm **made = calloc(MANY, sizeof *made);
    int64_t mine[3], sum[3];
    struct rlimit limit;
    struct ft_rank f;
    int most = 0;

    if (arg)
        setenv("WEFT_TCP_SHARE", arg, 1);
    WT_REQUIRE(made && getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = LIMIT;
    WT_REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    ft_open(&f, "tcp", 60000, rank, nranks);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < MANY; i++) {
            if (round == 0)
                WT_REQUIRE_OK(weft_comm_dup(f.comm, NULL, &made[i]));
            for (int k = 0; k < 3; k++)
                mine[k] = (rank + 1) * (i + k + round);
            WT_REQUIRE_OK(weft_all_reduce(made[i], mine, sum, 3, WEFT_INT64, WEFT_SUM, NULL));
            for (int k = 0; k < 3; k++)
                WT_REQUIRE(sum[k] == (int64_t)nranks * (nranks + 1) / 2 * (i + k + round));
        }
        if (open_descriptors() > most)
            most = open_descriptors();
    }
    fprintf(stderr, "rank %d: %d descriptors\n", rank, most);
    WT_CHECK(most < (arg ? 80 : LIMIT / 2));
    for (int i = 0; i < MANY; i++)
        WT_CHECK_OK(weft_comm_destroy(made[i]));
    ft_close(&f);
    free(made);
}

static void a_thousand_at_once(void)
{
    CU_ASSERT_EQUAL(wt_run(2, a_thousand, NULL, 120000), 0);
    CU_ASSERT_EQUAL(wt_run(4, a_thousand, NULL, 120000), 0);
    CU_ASSERT_EQUAL(wt_run(4, a_thousand, (void *)(uintptr_t) "always", 120000), 0);
}

/* ---- Nobody stands in another's way ---- */

enum { LONG = 8 << 20 }; /* elements: 64 MiB, many times a stream's window */

static void open_shared(struct ft_rank *f, weft_comm **other, int rank, int nranks)
{
    setenv("WEFT_TCP_SHARE", "always", 1);
    ft_open(f, "tcp", 60000, rank, nranks);
    WT_REQUIRE_OK(weft_comm_dup(f->comm, NULL, other));
}

static int sums_are_right(weft_comm *comm, int nranks, int rounds, int salt)
{
    for (int i = 0; i < rounds; i++) {
        int64_t one[100], sum[100];
        for (int k = 0; k < 100; k++)
            one[k] = i + k + salt;
        if (weft_all_reduce(comm, one, sum, 100, WEFT_INT64, WEFT_SUM, NULL))
            return 0;
        for (int k = 0; k < 100; k++)
            if (sum[k] != (int64_t)nranks * (i + k + salt))
                return 0;
    }
    return 1;
}

/* Both send to a peer that receives nothing in this communicator until much later; others go on, in both directions. */
static void one_does_not_receive(int rank, int nranks, void *arg)
{
    int64_t *out = malloc(LONG * sizeof *out), *in = calloc(LONG, sizeof *in);
    struct ft_rank f;
    weft_comm *other;
    weft_request *send;
    int wrong = 0;

    (void)arg;
    WT_REQUIRE(out && in);
    for (int i = 0; i < LONG; i++)
        out[i] = (int64_t)i * 7 + rank;
    open_shared(&f, &other, rank, nranks);
    for (int i = 0; i < 64; i++) /* short ones first, which are sent unasked */
        WT_REQUIRE_OK(weft_send(other, &out[i], 1, WEFT_INT64, 1 - rank, 0, NULL));
    WT_REQUIRE_OK(weft_send(other, out, LONG, WEFT_INT64, 1 - rank, 0, &send));
    WT_CHECK(sums_are_right(f.comm, nranks, 500, 1));
    WT_CHECK_STATUS(weft_test(send), WEFT_INPROGRESS);
    WT_CHECK(sums_are_right(f.comm, nranks, 500, 2));
    for (int i = 0; i < 64; i++) {
        WT_REQUIRE_OK(weft_recv(other, &in[i], 1, WEFT_INT64, 1 - rank, 0, NULL));
        wrong += in[i] != i * 7 + 1 - rank;
    }
    WT_REQUIRE_OK(weft_recv(other, in, LONG, WEFT_INT64, 1 - rank, 0, NULL));
    for (int i = 0; i < LONG; i++)
        wrong += in[i] != (int64_t)i * 7 + 1 - rank;
    WT_CHECK_INT(wrong, 0);
    WT_CHECK_OK(weft_wait(send));
    WT_CHECK_OK(weft_request_free(send));
    WT_CHECK_OK(weft_comm_destroy(other));
    ft_close(&f);
    free(out);
    free(in);
}

static void no_head_of_line(void)
{
    CU_ASSERT_EQUAL(wt_run(2, one_does_not_receive, NULL, 60000), 0);
}

/* ---- Ends ---- */

/* One is destroyed, one aborted with a long message half way: the others do not notice, and new ones can be made. */
static void one_ends(int rank, int nranks, void *arg)
{
    int64_t *out = calloc(LONG, sizeof *out);
    struct ft_rank f;
    weft_comm *other, *third;
    weft_request *send = NULL;

    (void)arg;
    WT_REQUIRE(out != NULL);
    open_shared(&f, &other, rank, nranks);
    for (int i = 0; i < 5; i++) {
        WT_REQUIRE_OK(weft_comm_dup(f.comm, NULL, &third));
        WT_CHECK(sums_are_right(third, nranks, 5, i));
        WT_CHECK_OK(weft_comm_destroy(third));
        WT_CHECK(sums_are_right(other, nranks, 5, i));
    }
    if (rank == 0)
        WT_REQUIRE_OK(weft_send(other, out, LONG, WEFT_INT64, 1, 0, &send));
    WT_CHECK(sums_are_right(f.comm, nranks, 20, 3));
    if (rank == 1)
        WT_CHECK_OK(weft_comm_abort(other, "enough"));
    else
        WT_CHECK(weft_wait(send) < 0);
    WT_CHECK(sums_are_right(f.comm, nranks, 200, 4));
    if (send)
        WT_CHECK_OK(weft_request_free(send));
    WT_CHECK_OK(weft_comm_destroy(other));
    WT_CHECK(sums_are_right(f.comm, nranks, 200, 5));
    ft_close(&f);
    free(out);
}

/* The last rank ends without a word: all its communicators are told, with its name. */
static void all_are_told(int rank, int nranks, void *arg)
{
    struct ft_rank f;
    weft_comm *other;
    weft_error e = WEFT_ERROR_INIT;
    int64_t one = 1, sum;

    (void)arg;
    open_shared(&f, &other, rank, nranks);
    WT_CHECK(sums_are_right(other, nranks, 3, 0));
    wt_sync(); /* what it has sent may be lost with it */
    if (rank == nranks - 1)
        raise(SIGKILL);
    WT_CHECK_STATUS(weft_all_reduce(f.comm, &one, &sum, 1, WEFT_INT64, WEFT_SUM, NULL), WEFT_EPEER);
    WT_CHECK_STATUS(weft_all_reduce(other, &one, &sum, 1, WEFT_INT64, WEFT_SUM, NULL), WEFT_EPEER);
    WT_CHECK_OK(weft_last_error(f.comm, &e));
    WT_CHECK_INT(e.peer, nranks - 1);
    WT_CHECK_OK(weft_last_error(other, &e));
    WT_CHECK_INT(e.peer, nranks - 1);
    WT_CHECK_OK(weft_comm_destroy(other));
    ft_close(&f);
}

static void ends(void)
{
    struct wt_job *job;

    CU_ASSERT_EQUAL(wt_run(2, one_ends, NULL, 60000), 0);
    job = wt_job_start(2, all_are_told, NULL);
    CU_ASSERT_FATAL(job != NULL);
    wt_job_expect_signal(job, 1, SIGKILL);
    CU_ASSERT_EQUAL(wt_job_wait(job, 60000), 0);
}

/* ---- Threads ---- */

enum { THREADS = 4 };

struct caller {
    weft_comm *comm;
    int nranks, salt, right;
};

static void *call(void *arg)
{
    struct caller *c = arg;
    int n = 200000;
    int64_t *in = malloc((size_t)n * sizeof *in), *out = calloc((size_t)n, sizeof *out);

    c->right = in && out && sums_are_right(c->comm, c->nranks, 300, c->salt);
    for (int i = 0; in && i < n; i++)
        in[i] = i * c->salt;
    for (int round = 0; c->right && round < 10; round++) {
        c->right = weft_all_reduce(c->comm, in, out, (size_t)n, WEFT_INT64, WEFT_SUM, NULL) == WEFT_SUCCESS;
        for (int i = 0; i < n; i++)
            c->right &= out[i] == (int64_t)c->nranks * i * c->salt;
    }
    free(in);
    free(out);
    return NULL;
}

/* Each takes in what is another one's, and wakes it. */
static void threads_apart(int rank, int nranks, void *arg)
{
    struct caller callers[THREADS];
    pthread_t threads[THREADS];
    struct ft_rank f;
    weft_comm *first;

    (void)arg;
    open_shared(&f, &first, rank, nranks);
    for (int i = 0; i < THREADS; i++) {
        callers[i] = (struct caller){.nranks = nranks, .salt = i + 1, .comm = first};
        if (i > 0)
            WT_REQUIRE_OK(weft_comm_dup(f.comm, NULL, &callers[i].comm));
    }
    for (int i = 0; i < THREADS; i++)
        WT_REQUIRE(pthread_create(&threads[i], NULL, call, &callers[i]) == 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        WT_CHECK(callers[i].right);
        WT_CHECK_OK(weft_comm_destroy(callers[i].comm));
    }
    ft_close(&f);
}

static void threads(void)
{
    CU_ASSERT_EQUAL(wt_run(2, threads_apart, NULL, 60000), 0);
    CU_ASSERT_EQUAL(wt_run(3, threads_apart, NULL, 60000), 0);
    CU_ASSERT_EQUAL(wt_threads(2, threads_apart, NULL, 60000), 0); /* as threads, for ThreadSanitizer */
}

static const struct wt_case cases[] = {
    {"a thousand communicators under a limit of 1,024 descriptors", a_thousand_at_once},
    {"a communicator that does not receive holds nobody up", no_head_of_line},
    {"communicators end one by one", ends},
    {"threads in communicators of their own", threads},
};
WT_UNIT_MAIN("shared", cases)
