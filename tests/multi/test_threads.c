/* Threads of a rank that share a communicator: a call that blocks does not keep out the others' calls, which the blocked one may
 * depend on. Ranks are processes, and threads where ThreadSanitizer sees all of them.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fault/fault.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "../unit/unit.h"

enum { DEADLINE_MS = 20000, TAG = 77 };

static int64_t pattern(int rank, int round, size_t i)
{
    return (int64_t)(rank + 1) * 100003 + (int64_t)round * 977 + (int64_t)i;
}

/* ---- What a blocked call waits for comes from another thread ---- */

struct blocked {
    struct ft_rank *f;
    size_t n;
    int64_t *src, *dst;
    int round;
    _Atomic int begun;
    weft_status st;
};

static void check_sum(const struct blocked *b)
{
    size_t wrong = 0;

    for (size_t i = 0; i < b->n; i++) {
        int64_t sum = 0;
        for (int r = 0; r < b->f->nranks; r++)
            sum += pattern(r, b->round, i);
        wrong += b->dst[i] != sum;
    }
    WT_CHECK_INT(wrong, 0);
}

static void reduce(struct blocked *b)
{
    for (size_t i = 0; i < b->n; i++)
        b->src[i] = pattern(b->f->rank, b->round, i), b->dst[i] = -1;
    atomic_store(&b->begun, 1);
    b->st = b->n ? weft_all_reduce(b->f->comm, b->src, b->dst, b->n, WEFT_INT64, WEFT_SUM, NULL)
                 : weft_barrier(b->f->comm, NULL);
}

static void *reduce_thread(void *arg)
{
    reduce(arg);
    return NULL;
}

static void send_number(struct ft_rank *f, int64_t number, int waited_for)
{
    weft_request *req = NULL;

    WT_CHECK_OK(weft_send(f->comm, &number, 1, WEFT_INT64, 1, 0, waited_for ? &req : NULL));
    if (req) {
        WT_CHECK_OK(weft_wait(req));
        WT_CHECK_OK(weft_request_free(req));
    }
}

/* Rank 0 is in a collective, which rank 1 comes to only when it has a message of another thread of rank 0's. `n` elements, 0: a
 * barrier. From the second round on, the call is like an earlier one. */
static void message_behind(struct ft_rank *f, size_t n)
{
    struct blocked b = {.f = f, .n = n, .src = calloc(n + 1, 8), .dst = calloc(n + 1, 8)};
    pthread_t thread;

    WT_REQUIRE(b.src && b.dst);
    for (b.round = 0; b.round < 6; b.round++) {
        atomic_store(&b.begun, 0);
        if (f->rank == 0) {
            WT_REQUIRE(pthread_create(&thread, NULL, reduce_thread, &b) == 0);
            while (!atomic_load(&b.begun))
                usleep(100);
            usleep((useconds_t)(b.round % 3) * 3000); /* at the door, spinning, asleep */
            send_number(f, b.round, b.round & 1);
            pthread_join(thread, NULL);
        } else {
            int64_t number = -1;
            if (f->rank == 1)
                WT_CHECK_OK(weft_recv(f->comm, &number, 1, WEFT_INT64, 0, 0, NULL));
            WT_CHECK_INT(number, f->rank == 1 ? b.round : -1);
            reduce(&b);
        }
        WT_REQUIRE_OK(b.st);
        check_sum(&b);
    }
    free(b.src);
    free(b.dst);
}

static void behind(int rank, int nranks, void *arg)
{
    static const size_t sizes[] = {0, 1, 700, 5000, 300000};
    struct ft_rank f;

    ft_open(&f, arg, DEADLINE_MS, rank, nranks);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        message_behind(&f, sizes[i]);
    ft_close(&f);
}

/* ---- A collective behind a blocked one ---- */

/* Another thread of rank 0 queues a second collective while the first blocks; the others call both in that order. */
static void queued(int rank, int nranks, void *arg)
{
    static const size_t sizes[] = {1, 700, 5000};
    int64_t src[5000], dst[5000], second[5000];
    struct ft_rank f;

    ft_open(&f, arg, DEADLINE_MS, rank, nranks);
    for (int round = 0; round < 9; round++) {
        struct blocked b = {.f = &f, .n = sizes[round % 3], .src = src, .dst = dst, .round = round};
        weft_request *req = NULL;
        pthread_t thread;
        size_t n = sizes[(round + round / 3) % 3], wrong = 0;

        if (rank == 0) {
            WT_REQUIRE(pthread_create(&thread, NULL, reduce_thread, &b) == 0);
            while (!atomic_load(&b.begun))
                usleep(100);
            usleep(5000); /* long enough for it to be the first; wrong ranks would be told that they disagree */
        } else {
            wt_sync();
            reduce(&b);
        }
        for (size_t i = 0; i < n; i++)
            second[i] = -1;
        WT_CHECK_OK(weft_all_gather(f.comm, &(int64_t){pattern(rank, round, 1)}, second, 1, WEFT_INT64, &req));
        if (rank == 0) {
            WT_CHECK_STATUS(weft_test(req), WEFT_INPROGRESS); /* the others wait for this rank */
            wt_sync();
            pthread_join(thread, NULL);
        }
        WT_CHECK_OK(weft_wait(req));
        WT_CHECK_OK(weft_request_free(req));
        WT_CHECK_OK(b.st);
        check_sum(&b);
        for (int r = 0; r < nranks; r++)
            wrong += second[r] != pattern(r, round, 1);
        WT_CHECK_INT(wrong, 0);
    }
    ft_close(&f);
}

/* ---- Many threads at once ---- */

enum { WORKERS = 3, LENGTH = 3000 };

struct worker {
    struct ft_rank *f;
    int number;
    pthread_t thread;
    _Atomic int *working;
};

static int rounds(void)
{
    const char *sanitizer = getenv("WEFT_SANITIZER");

    return sanitizer && !strcmp(sanitizer, "thread") ? 30 : 100;
}

static weft_status tagged(struct ft_rank *f, int sending, void *data, size_t n, int peer, int64_t tag,
                          weft_request **req)
{
    return sending ? weft_send(f->comm, data, n, WEFT_INT64, peer, tag, req)
                   : weft_recv(f->comm, data, n, WEFT_INT64, peer, tag, req);
}

/* Messages round the ring, of a tag of the thread's own; blocking and not. */
static void *exchange(void *arg)
{
    struct worker *w = arg;
    struct ft_rank *f = w->f;
    int to = (f->rank + 1) % f->nranks, from = (f->rank + f->nranks - 1) % f->nranks;
    int64_t *out = malloc(LENGTH * 8), *in = malloc(LENGTH * 8);

    WT_REQUIRE(out && in);
    for (int round = 0; round < rounds() && !wt_failures(); round++) {
        size_t n = (size_t)(round * 37 + w->number * 501) % LENGTH + 1, wrong = 0;
        weft_request *req = NULL;

        for (size_t i = 0; i < n; i++)
            out[i] = pattern(f->rank, round, i) + w->number, in[i] = -1;
        WT_CHECK_OK(tagged(f, 1, out, n, to, TAG + w->number, &req));
        if (round & 1) {
            WT_CHECK_OK(tagged(f, 0, in, n, from, TAG + w->number, NULL));
        } else {
            weft_request *got = NULL;
            WT_CHECK_OK(tagged(f, 0, in, n, from, TAG + w->number, &got));
            WT_CHECK_OK(weft_wait(got));
            WT_CHECK_OK(weft_request_free(got));
        }
        for (size_t i = 0; i < n; i++)
            wrong += in[i] != pattern(from, round, i) + w->number;
        WT_CHECK_INT(wrong, 0);
        WT_CHECK_OK(weft_wait(req));
        WT_CHECK_OK(weft_request_free(req));
    }
    --*w->working;
    free(out);
    free(in);
    return NULL;
}

static void together(int rank, int nranks, void *arg)
{
    static const size_t sizes[] = {0, 1, 700, 5000};
    int64_t src[5000], dst[5000];
    _Atomic int working = WORKERS;
    struct worker all[WORKERS];
    struct ft_rank f;

    ft_open(&f, arg, 2 * DEADLINE_MS, rank, nranks);
    for (int i = 0; i < WORKERS; i++) {
        all[i] = (struct worker){.f = &f, .number = i, .working = &working};
        WT_REQUIRE(pthread_create(&all[i].thread, NULL, exchange, &all[i]) == 0);
    }
    for (int round = 0; round < 2 * rounds() && !wt_failures(); round++) {
        struct blocked b = {.f = &f, .n = sizes[round % 4], .src = src, .dst = dst, .round = round};
        reduce(&b);
        WT_CHECK_OK(b.st);
        check_sum(&b);
    }
    for (int i = 0; i < WORKERS; i++)
        pthread_join(all[i].thread, NULL);
    ft_close(&f);
}

/* ---- Options are the call's that has them, whatever other threads call ---- */

static void *plain_sum(void *arg)
{
    struct blocked *b = arg;

    reduce(b);
    return NULL;
}

static void options(int rank, int nranks, void *arg)
{
    int64_t src[8], dst[8], one = 1, sum = 0;
    weft_call call = wt_call(WEFT_KIND_ALL_REDUCE, &one, &sum, 1, WEFT_INT64);
    struct ft_rank f;

    ft_open(&f, arg, DEADLINE_MS, rank, nranks);
    for (int round = 0; round < 3; round++) {
        struct blocked b = {.f = &f, .n = 8, .src = src, .dst = dst, .round = round};
        pthread_t thread;
        WT_REQUIRE(pthread_create(&thread, NULL, plain_sum, &b) == 0);
        pthread_join(thread, NULL);
        WT_CHECK_OK(b.st);
        check_sum(&b);
        WT_CHECK_STATUS(wt_issue(f.comm, call, "no-such", NULL), WEFT_ENOTFOUND);
    }
    ft_close(&f);
}

/* ---- Destroyed while one thread blocks and another comes in ---- */

static void *keep_sending(void *arg)
{
    struct blocked *b = arg;
    int64_t number = 1;

    while (!atomic_load(&b->begun))
        usleep(100);
    b->st = weft_send(b->f->comm, &number, 1, WEFT_INT64, 1, 0, NULL);
    return NULL;
}

static void destroyed(int rank, int nranks, void *arg)
{
    int64_t src[8], dst[8];
    struct ft_rank f;

    ft_open(&f, arg, DEADLINE_MS, rank, nranks);
    for (int round = 0; round < 3; round++) { /* that the call is like an earlier one */
        struct blocked b = {.f = &f, .n = 8, .src = src, .dst = dst, .round = round};
        reduce(&b);
        WT_CHECK_OK(b.st);
    }
    wt_sync();
    if (rank == 0) {
        struct blocked b = {.f = &f, .n = 8, .src = src, .dst = dst}, s = {.f = &f};
        pthread_t thread, sender;
        WT_REQUIRE(pthread_create(&thread, NULL, reduce_thread, &b) == 0);
        WT_REQUIRE(pthread_create(&sender, NULL, keep_sending, &s) == 0);
        while (!atomic_load(&b.begun))
            usleep(100);
        atomic_store(&s.begun, 1);
        usleep(20000);
        WT_CHECK_OK(weft_comm_destroy(f.comm));
        pthread_join(thread, NULL);
        pthread_join(sender, NULL);
        WT_CHECK_STATUS(b.st, WEFT_EABORTED);
        WT_CHECK(s.st == WEFT_SUCCESS || s.st == WEFT_EABORTED); /* a short message may have gone out */
        wt_sync();
    } else {
        wt_sync();
        WT_CHECK_OK(weft_comm_destroy(f.comm));
    }
    WT_CHECK_OK(weft_context_destroy(f.context));
}

/* ---- While another thread holds the communicator ---- */

enum { HELD_US = 200000 };

struct holder {
    struct blocked b;
    weft_op op;
    _Atomic int inside, wanted;
};

/* A function of an operator runs with the communicator held, from before the other thread wants it for so long. */
static void slow_sum(const void *left, const void *right, void *out, size_t count, weft_dtype dtype, void *arg)
{
    struct holder *h = arg;
    const int64_t *a = left, *b = right;
    int64_t *to = out;

    (void)dtype;
    for (size_t i = 0; i < count; i++)
        to[i] = a[i] + b[i];
    if (h->b.f->rank == 0 && !atomic_exchange(&h->inside, 1)) {
        while (!atomic_load(&h->wanted))
            usleep(100);
        usleep(HELD_US);
    }
}

static void *hold(void *arg)
{
    struct holder *h = arg;

    h->b.st = weft_all_reduce(h->b.f->comm, h->b.src, h->b.dst, 1, WEFT_INT64, h->op, NULL);
    return NULL;
}

static double seconds_of(clockid_t clock)
{
    struct timespec ts;

    clock_gettime(clock, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* A thread that wants the communicator meanwhile gets it in the end, and sleeps until then: it leaves its core to others. */
static void held(int rank, int nranks, void *arg)
{
    int64_t src = pattern(rank, 0, 0), dst = -1;
    struct ft_rank f;
    struct holder h = {.b = {.f = &f, .n = 1, .src = &src, .dst = &dst}};
    pthread_t thread;

    ft_open(&f, arg, DEADLINE_MS, rank, nranks);
    WT_REQUIRE_OK(weft_op_create(slow_sum, &h, 1, &h.op));
    if (rank == 0) {
        double wall, cpu;
        WT_REQUIRE(pthread_create(&thread, NULL, hold, &h) == 0);
        while (!atomic_load(&h.inside))
            usleep(100);
        wall = seconds_of(CLOCK_MONOTONIC);
        cpu = seconds_of(CLOCK_THREAD_CPUTIME_ID);
        atomic_store(&h.wanted, 1);
        send_number(&f, 4711, 0);
        cpu = seconds_of(CLOCK_THREAD_CPUTIME_ID) - cpu;
        wall = seconds_of(CLOCK_MONOTONIC) - wall;
        WT_CHECK(cpu < wall / 2);
        pthread_join(thread, NULL);
    } else {
        int64_t number = -1;
        hold(&h);
        WT_CHECK_OK(weft_recv(f.comm, &number, 1, WEFT_INT64, 0, 0, NULL));
        WT_CHECK_INT(number, 4711);
    }
    WT_CHECK_OK(h.b.st);
    check_sum(&h.b);
    WT_CHECK_OK(weft_op_destroy(h.op));
    ft_close(&f);
}

/* ---- Programs that are kept ---- */

/* A v-form whose lengths are in units of one element. */
struct v_call {
    struct ft_rank *f;
    int64_t src[64], dst[128];
    size_t counts[2];
    _Atomic int begun;
    weft_status st;
};

static void *v_gather(void *arg)
{
    struct v_call *v = arg;

    atomic_store(&v->begun, 1);
    v->st = weft_all_gather_v(v->f->comm, v->src, v->dst, v->counts, NULL, WEFT_INT64, NULL);
    return NULL;
}

static void v_fill(struct v_call *v, struct ft_rank *f, int round, size_t count0, size_t count1)
{
    v->f = f;
    v->begun = 0;
    v->counts[0] = count0;
    v->counts[1] = count1;
    for (size_t i = 0; i < 64; i++)
        v->src[i] = pattern(f->rank, round, i);
    for (size_t i = 0; i < 128; i++)
        v->dst[i] = -1;
}

static void v_check(const struct v_call *v, int round)
{
    size_t first = v->counts[0];

    WT_CHECK_OK(v->st);
    for (size_t i = 0; i < first + v->counts[1] && !wt_failures(); i++)
        WT_CHECK_INT(v->dst[i], pattern(i >= first, round, i >= first ? i - first : i));
}

/* A call waits that is run as an earlier one was, while another thread's has other lengths, so that its program is kept in the
 * place of the first one's. */
static void kept(int rank, int nranks, void *arg)
{
    struct v_call *a = malloc(sizeof *a), *b = malloc(sizeof *b);
    struct ft_rank f;

    WT_REQUIRE(a && b);
    ft_open(&f, arg, DEADLINE_MS, rank, nranks);
    for (int round = 0; round < 6; round++) {
        pthread_t thread;
        for (int turn = 0; turn < 2; turn++) {
            v_fill(a, &f, round, 3, 5);
            v_gather(a);
            v_check(a, round);
        }
        v_fill(a, &f, round, 3, 5);
        v_fill(b, &f, round, 7, (size_t)(2 + round));
        if (rank == 0) {
            WT_REQUIRE(pthread_create(&thread, NULL, v_gather, a) == 0);
            while (!atomic_load(&a->begun))
                usleep(100);
            usleep(20000);
            v_gather(b);
            pthread_join(thread, NULL);
        } else {
            usleep(100000); /* rank 0's first one waits */
            v_gather(a);
            v_gather(b);
        }
        v_check(a, round);
        v_check(b, round);
    }
    ft_close(&f);
    free(a);
    free(b);
}

/* Rank 0's other thread waits for a message that never comes, 300 ms, while its collective, kept, waits longer. */
static void *find_late(void *arg)
{
    struct ft_rank *f = arg;
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    int64_t word;
    weft_call call = wt_call(WEFT_KIND_RECV, NULL, &word, 1, WEFT_INT64);
    uint64_t began;

    usleep(20000);
    options.timeout_ns = 300 * FT_MS;
    call.peer = 1;
    call.tag = 1;
    call.options = &options;
    began = wt_now_ms();
    WT_CHECK_STATUS(weft_issue(f->comm, &call, NULL), WEFT_ETIMEDOUT);
    WT_CHECK(wt_now_ms() - began < wt_slow_ms(DEADLINE_MS / 2));
    return NULL;
}

static void late_message(int rank, int nranks, void *arg)
{
    int64_t in = rank, out = -1;
    struct ft_rank f;
    pthread_t thread;

    ft_open(&f, arg, DEADLINE_MS, rank, nranks);
    WT_CHECK_OK(weft_all_reduce(f.comm, &in, &out, 1, WEFT_INT64, WEFT_SUM, NULL));
    wt_sync();
    if (rank == 0) {
        WT_REQUIRE(pthread_create(&thread, NULL, find_late, &f) == 0);
        WT_CHECK_STATUS(weft_all_reduce(f.comm, &in, &out, 1, WEFT_INT64, WEFT_SUM, NULL), WEFT_ETIMEDOUT);
        pthread_join(thread, NULL);
    }
    wt_sync();
    ft_close(&f);
}

static void run_late_message(void)
{
    CU_ASSERT_EQUAL(ft_run_everywhere(2, late_message, "a late message beside a collective", 60000), 0);
}

static void run_kept(void)
{
    CU_ASSERT_EQUAL(ft_run_everywhere(2, kept, "a call behind one that is kept", 60000), 0);
}

static void run_held(void)
{
    CU_ASSERT_EQUAL(ft_run_everywhere(2, held, "a call while an operator runs", 60000), 0);
}

static void run_behind(void)
{
    CU_ASSERT_EQUAL(ft_run_everywhere(2, behind, "messages behind a collective", 60000), 0);
    CU_ASSERT_EQUAL(ft_run_everywhere(3, behind, "messages behind a collective of three", 60000), 0);
}

static void run_queued(void)
{
    CU_ASSERT_EQUAL(ft_run_everywhere(2, queued, "a collective behind another", 60000), 0);
}

static void run_together(void)
{
    CU_ASSERT_EQUAL(ft_run_everywhere(2, together, "messages and collectives of threads", 60000), 0);
}

static void run_options(void)
{
    CU_ASSERT_EQUAL(ft_run_everywhere(2, options, "options of one thread", 60000), 0);
}

static void run_destroyed(void)
{
    CU_ASSERT_EQUAL(ft_run_everywhere(2, destroyed, "destroyed under two threads", 60000), 0);
}

static const struct wt_case cases[] = {
    {"a message that a blocked collective waits for", run_behind},
    {"a collective behind a blocked one", run_queued},
    {"messages of threads beside collectives", run_together},
    {"a call waits while another's program is kept in its place", run_kept},
    {"a message's time-out is kept beside a collective", run_late_message},
    {"options belong to the thread that gave them", run_options},
    {"a call sleeps while another thread is inside", run_held},
    {"destroyed while one thread blocks and another comes", run_destroyed},
};
WT_UNIT_MAIN("threads", cases)
