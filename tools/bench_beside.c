/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-bench: how long requests of 8 bytes take, completed by callback while no thread waits in weft, alone and while another
 * communicator of the context reduces a long vector. */
#include "weft_bench.h"
#include "bench_rule.h"

#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLES 2000
#define WARMUP 100

struct small {
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
    while (sem_wait(&s->told) != 0)
        ;
    *ns = s->told_ns - start;
    weft_request_free(req);
    return s->status;
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

static weft_status take_samples(struct small *s, struct large *l, double times[SAMPLES], double out[2])
{
    weft_status status = l->call ? issue_large(l) : WEFT_SUCCESS;
    double ignored;

    for (int i = -WARMUP; i < SAMPLES && status == WEFT_SUCCESS; i++) {
        status = sample(s, i < 0 ? &ignored : &times[i]);
        if (status == WEFT_SUCCESS && l->call && atomic_load(&l->through))
            status = issue_large(l);
    }
    if (status == WEFT_SUCCESS && l->call)
        status = end_large(s, l);
    qsort(times, SAMPLES, sizeof times[0], by_value);
    out[0] = times[SAMPLES / 2];
    out[1] = times[SAMPLES / 100 * 99];
    return status;
}

static weft_status measure(struct bench *b, struct bench_call *call, double out[4])
{
    double *times = calloc(SAMPLES, sizeof *times);
    struct small s = {.comm = NULL};
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

int bench_run_beside(struct bench *b)
{
    static const char *const names[] = {"bytes", "idle_p50_us", "idle_p99_us", "beside_p50_us", "beside_p99_us"};
    size_t bytes = b->o.max_bytes;
    double t[4] = {0}, values[5] = {(double)bytes}, wrong;

    if (bench_one_all_reduce(b, "beside", measure, t, &wrong))
        return 1;
    if (b->rank == 0)
        printf(
            "# all_reduce of 8 bytes by call-back, %d ranks: p50 %.1f us, p99 %.1f us; while another communicator reduces %zu "
            "bytes: p50 %.1f us, p99 %.1f us; %.0f wrong\n",
            b->nranks, t[0] / 1e3, t[1] / 1e3, bytes, t[2] / 1e3, t[3] / 1e3, wrong);
    for (int i = 0; i < 4; i++)
        values[i + 1] = t[i] / 1e3;
    return bench_write_pairs(b, names, values, 5) || wrong > 0;
}
