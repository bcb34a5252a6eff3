/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-bench: how much of a request-form all-reduce hides behind computation in another thread.
 *
 * Three times per size: communication alone, computation alone, both at once. Hidden is what the sum of the first two
 * exceeds the third by, as a share of the shorter of the two. The computation stays in registers and is made as long
 * as the communication. */
#include "weft_bench.h"
#include "bench_rule.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 7

struct work {
    uint64_t steps;
    volatile double result;
    pthread_barrier_t *go; /* NULL: start at once */
    double end_ns;
};

static void compute(struct work *w)
{
    double a = 1.0, b = 1.1, c = 1.2, d = 1.3;

    for (uint64_t i = 0; i < w->steps; i++) {
        a = a * 0.999999 + 1e-6;
        b = b * 0.999998 + 1e-6;
        c = c * 0.999997 + 1e-6;
        d = d * 0.999996 + 1e-6;
    }
    w->result = a + b + c + d;
}

static void *compute_thread(void *arg)
{
    struct work *w = arg;

    pthread_barrier_wait(w->go);
    compute(w);
    w->end_ns = bench_now_ns();
    return NULL;
}

static weft_status communicate(struct bench *b, const struct bench_call *c)
{
    weft_request *req = NULL;
    weft_status status = bench_weft_post(b, c, &req);

    if (status != WEFT_SUCCESS)
        return status;
    status = weft_wait(req);
    weft_request_free(req);
    return status;
}

static weft_status time_comm(struct bench *b, const struct bench_call *c, double *ns)
{
    weft_status status = weft_barrier(b->comm, NULL);
    double start = bench_now_ns();

    if (status == WEFT_SUCCESS)
        status = communicate(b, c);
    *ns = bench_now_ns() - start;
    return status;
}

static weft_status time_compute(struct bench *b, struct work *w, double *ns)
{
    weft_status status = weft_barrier(b->comm, NULL);
    double start = bench_now_ns();

    compute(w);
    *ns = bench_now_ns() - start;
    return status;
}

static weft_status time_both(struct bench *b, const struct bench_call *c, struct work *w, double *ns)
{
    pthread_t thread;
    pthread_barrier_t go;
    weft_status status = weft_barrier(b->comm, NULL);

    if (status != WEFT_SUCCESS)
        return status;
    pthread_barrier_init(&go, NULL, 2);
    w->go = &go;
    if (pthread_create(&thread, NULL, compute_thread, w) != 0) {
        pthread_barrier_destroy(&go);
        return WEFT_ESYS;
    }
    pthread_barrier_wait(&go);
    double start = bench_now_ns();
    status = communicate(b, c);
    double end = bench_now_ns();
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&go);
    *ns = (w->end_ns > end ? w->end_ns : end) - start;
    return status;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* The median of this rank's rounds, then the slowest rank's. */
static weft_status settle(struct bench *b, double times[ROUNDS], double *ns)
{
    qsort(times, ROUNDS, sizeof(times[0]), by_value);
    *ns = times[ROUNDS / 2];
    return bench_share(b, ns, 1, WEFT_MAX);
}

static weft_status overlap_size(struct bench *b, struct bench_call *c, double out[4])
{
    double comm[ROUNDS], work_ns[ROUNDS], both[ROUNDS], probe;
    struct work w = {.steps = 1000000};
    weft_status status = WEFT_SUCCESS;

    for (int i = 0; i < ROUNDS && status == WEFT_SUCCESS; i++)
        status = time_comm(b, c, &comm[i]);
    if (status == WEFT_SUCCESS)
        status = settle(b, comm, &out[0]);
    if (status == WEFT_SUCCESS)
        status = time_compute(b, &w, &probe);
    if (status != WEFT_SUCCESS)
        return status;
    w.steps = (uint64_t)((double)w.steps * out[0] / probe) + 1;
    /* The three are taken in turn, so that a disturbance of the machine meets all of them. */
    for (int i = 0; i < ROUNDS && status == WEFT_SUCCESS; i++) {
        status = time_comm(b, c, &comm[i]);
        if (status == WEFT_SUCCESS)
            status = time_compute(b, &w, &work_ns[i]);
        if (status == WEFT_SUCCESS)
            status = time_both(b, c, &w, &both[i]);
    }
    if (status == WEFT_SUCCESS)
        status = settle(b, comm, &out[0]);
    if (status == WEFT_SUCCESS)
        status = settle(b, work_ns, &out[1]);
    if (status == WEFT_SUCCESS)
        status = settle(b, both, &out[2]);
    double shorter = out[0] < out[1] ? out[0] : out[1];
    out[3] = (out[0] + out[1] - out[2]) / shorter;
    return status;
}

int bench_run_overlap(struct bench *b)
{
    static const char *const names[] = {"bytes", "comm_us", "compute_us", "both_us", "hidden"};
    size_t bytes = b->o.max_bytes;
    double t[4] = {0}, values[5], wrong;

    if (bench_one_all_reduce(b, "overlap", overlap_size, t, &wrong))
        return 1;
    if (b->rank == 0)
        printf(
            "# overlap, all_reduce of %zu bytes, %d ranks: communication %.1f us, computation %.1f us, both %.1f us: "
            "%.0f %% of the shorter hidden%s; %.0f wrong\n",
            bytes, b->nranks, t[0] / 1e3, t[1] / 1e3, t[2] / 1e3, t[3] * 100,
            t[3] < 0 || t[3] > 1 ? " (not a share: the cores were busy with other work meanwhile; measure again)" : "",
            wrong);
    values[0] = (double)bytes;
    values[4] = t[3];
    for (int i = 0; i < 3; i++)
        values[i + 1] = t[i] / 1e3;
    int files = bench_write_pairs(b, names, values, 5);
    if (wrong > 0)
        bench_after_rank_0(b);
    return files || wrong > 0;
}
