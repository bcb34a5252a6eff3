/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-bench: how long requests of 8 bytes take, completed by callback while no thread waits in weft, alone and while another
 * communicator of the context reduces a long vector. */
#include "tool.h"
#include "weft_bench.h"
#include "bench_rule.h"

#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define SAMPLES 2000
#define WARMUP 100
#define DEADLINE_S 60       /* of a call-back, without -T */
#define SAY_AGAIN_NS 3000e6 /* how long rank 0 is silent at most between two samples */

struct small {
    struct bench *b;
    weft_comm *comm;
    sem_t told;
    double told_ns;
    weft_status status;
};

/* The long one, issued again whenever it is through. */
struct large {
    struct bench *b;
    struct bench_call *call; /* NULL: there is none */
    weft_request *req;
    _Atomic int through;
    uint64_t issued;
};

static void small_told(weft_status status, void *arg)
{
    struct small *s = arg;

    s->told_ns = bench_now_ns();
    s->status = status;
    sem_post(&s->told);
}

static void large_told(weft_status status, void *arg)
{
    struct large *l = arg;

    (void)status;
    atomic_store(&l->through, 1);
}

static weft_status issue_large(struct large *l)
{
    weft_status status = l->req ? weft_wait(l->req) : WEFT_SUCCESS;

    weft_request_free(l->req);
    l->req = NULL;
    if (status != WEFT_SUCCESS)
        return status;
    atomic_store(&l->through, 0);
    status = bench_weft_post(l->b, l->call, &l->req);
    l->issued += status == WEFT_SUCCESS;
    return status == WEFT_SUCCESS ? weft_request_on_complete(l->req, large_told, l) : status;
}

/* No thread waits in weft here, so the deadline of the operation does not end this wait: without the progress thread it does not
 * expire. */
static weft_status wait_told(struct small *s, weft_request *req)
{
    uint64_t limit_ns = s->b->o.timeout_ns ? s->b->o.timeout_ns : DEADLINE_S * (uint64_t)1000000000;
    struct timespec until;
    int err;

    clock_gettime(CLOCK_REALTIME, &until); /* as sem_timedwait reads it */
    limit_ns += (uint64_t)until.tv_nsec;
    until.tv_sec += (time_t)(limit_ns / 1000000000);
    until.tv_nsec = (long)(limit_ns % 1000000000);
    do
        err = sem_timedwait(&s->told, &until) ? errno : 0;
    while (err == EINTR);
    if (!err)
        return s->status;
    fprintf(stderr, "weft-bench: rank %d: no call-back of a request of 8 bytes before its deadline (-T)\n", s->b->rank);
    weft_comm_abort(s->comm, "no call-back came");
    weft_wait(req);
    return WEFT_ETIMEDOUT;
}

static weft_status sample(struct small *s, double *ns)
{
    int64_t in = 1, out = 0;
    double start = bench_now_ns();
    weft_request *req = NULL;
    weft_status status = weft_all_reduce(s->comm, &in, &out, 1, WEFT_INT64, WEFT_SUM, &req);

    if (status == WEFT_SUCCESS)
        status = weft_request_on_complete(req, small_told, s);
    if (status != WEFT_SUCCESS)
        return status;
    status = wait_told(s, req);
    *ns = s->told_ns - start;
    weft_request_free(req);
    return status;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* Ranks have issued the long one more or less often: as often on all, and until the last one is through. */
static weft_status end_large(struct small *s, struct large *l)
{
    uint64_t most = 0;
    weft_status status = weft_all_reduce(s->comm, &l->issued, &most, 1, WEFT_UINT64, WEFT_MAX, NULL);

    while (status == WEFT_SUCCESS && l->issued < most)
        status = issue_large(l);
    if (status == WEFT_SUCCESS)
        status = weft_wait(l->req);
    weft_request_free(l->req);
    l->req = NULL;
    return status;
}

/* After a failure: the long one still uses the buffers. */
static void stop_large(struct large *l)
{
    if (!l->req)
        return;
    weft_comm_abort(l->b->comm, "weft-bench --beside failed");
    weft_wait(l->req);
    weft_request_free(l->req);
    l->req = NULL;
}

/* Rank 0, so that a long measurement does not look like one that hangs. */
static void say_where(const struct small *s, const struct large *l, int i, double *said_ns)
{
    double now = bench_now_ns();

    if (s->b->rank != 0 || now - *said_ns < SAY_AGAIN_NS)
        return;
    *said_ns = now;
    printf("# beside: %d of %d requests of 8 bytes%s\n", i < 0 ? 0 : i, SAMPLES,
           l->call ? " while another communicator reduces" : " alone");
    fflush(stdout);
}

static weft_status take_samples(struct small *s, struct large *l, double times[SAMPLES], double out[2])
{
    weft_status status = l->call ? issue_large(l) : WEFT_SUCCESS;
    double ignored, said_ns = -SAY_AGAIN_NS;

    for (int i = -WARMUP; i < SAMPLES && status == WEFT_SUCCESS; i++) {
        say_where(s, l, i, &said_ns);
        status = sample(s, i < 0 ? &ignored : &times[i]);
        if (status == WEFT_SUCCESS && l->call && atomic_load(&l->through))
            status = issue_large(l);
    }
    if (status == WEFT_SUCCESS && l->call)
        status = end_large(s, l);
    stop_large(l);
    qsort(times, SAMPLES, sizeof times[0], by_value);
    out[0] = times[SAMPLES / 2];
    out[1] = times[SAMPLES / 100 * 99];
    return status;
}

static weft_status measure(struct bench *b, struct bench_call *call, double out[4])
{
    double *times = calloc(SAMPLES, sizeof *times);
    struct small s = {.b = b};
    struct large none = {.b = b}, l = {.b = b, .call = call};
    weft_status status = times ? weft_comm_dup(b->comm, NULL, &s.comm) : WEFT_ENOMEM;

    sem_init(&s.told, 0, 0);
    if (status == WEFT_SUCCESS)
        status = take_samples(&s, &none, times, out);
    if (status == WEFT_SUCCESS)
        status = take_samples(&s, &l, times, out + 2);
    weft_comm_destroy(s.comm);
    sem_destroy(&s.told);
    free(times);
    return status == WEFT_SUCCESS ? bench_share(b, out, 4, WEFT_MAX) : status;
}

static void find_progress_thread(void *arg, const char *name, const char *value, const char *default_value,
                                 const char *origin, const char *help)
{
    double *lacks = arg;

    (void)default_value, (void)origin, (void)help;
    if (strcmp(name, "WEFT_PROGRESS_THREAD") == 0 && value)
        *lacks = strchr("nN0fF", value[0]) || strcasecmp(value, "off") == 0;
}

/* On any rank: all of them are told, and none waits for another. */
static weft_status lacks_thread(struct bench *b, double *lacks)
{
    weft_status status = weft_context_settings(b->context, find_progress_thread, lacks);

    return status == WEFT_SUCCESS ? bench_share(b, lacks, 1, WEFT_MAX) : status;
}

int bench_run_beside(struct bench *b)
{
    static const char *const names[] = {"bytes", "idle_p50_us", "idle_p99_us", "beside_p50_us", "beside_p99_us"};
    size_t bytes = b->o.max_bytes;
    double t[4] = {0}, values[5] = {(double)bytes}, wrong, lacks = 0;
    weft_status status = lacks_thread(b, &lacks);

    if (status != WEFT_SUCCESS)
        return b->failed = 1, bench_fail(b, "beside", status), 1;
    if (lacks > 0) {
        tool_after_rank_0(b->rank);
        fputs(
            "weft-bench: --beside needs the progress thread, for no rank waits in a call; leave out WEFT_PROGRESS_THREAD=n\n",
            stderr);
        return b->failed = 1, 2;
    }
    if (bench_one_all_reduce(b, "beside", measure, t, &wrong))
        return 1;
    if (b->rank == 0)
        printf(
            "# all_reduce of 8 bytes by call-back, %d ranks: p50 %.1f us, p99 %.1f us; while another communicator reduces %zu "
            "bytes: p50 %.1f us, p99 %.1f us; %.0f wrong\n",
            b->nranks, t[0] / 1e3, t[1] / 1e3, bytes, t[2] / 1e3, t[3] / 1e3, wrong);
    for (int i = 0; i < 4; i++)
        values[i + 1] = t[i] / 1e3;
    int files = bench_write_pairs(b, names, values, 5);
    if (wrong > 0)
        bench_after_rank_0(b);
    return files || wrong > 0;
}
