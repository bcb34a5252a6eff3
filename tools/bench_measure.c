/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-bench: time one call. An untimed synchronised call, fresh inputs, a barrier, then the batch back to back; then
 * runs whose results are checked. */
#include "weft_bench.h"
#include "bench_rule.h"

#include <stdlib.h>
#include <string.h>

#define AGAINST_ROUNDS 5 /* alternating batches of weft and MPI; medians are reported */

const double bench_percentile_points[BENCH_NUM_PERCENTILES] = {50, 90, 99, 99.9, 100};

/* The library that makes the call: weft or MPI. */
struct engine {
    struct bench *b;
    const struct bench_call *call;
    const struct bench_mpi_ops *mpi; /* NULL: weft */
    weft_request *persistent;
};

static weft_status engine_call(const struct engine *e)
{
    if (e->mpi)
        return e->mpi->run(e->call) == 0 ? WEFT_SUCCESS : WEFT_ESYS;
    if (e->persistent) {
        weft_status status = weft_start(e->persistent);
        return status == WEFT_SUCCESS ? weft_wait(e->persistent) : status;
    }
    if (e->b->o.agg > 1)
        return bench_weft_group(e->b, e->call, e->b->o.agg);
    return bench_weft_run(e->b, e->call);
}

static weft_status engine_barrier(const struct engine *e)
{
    if (e->mpi)
        return e->mpi->barrier() == 0 ? WEFT_SUCCESS : WEFT_ESYS;
    return weft_barrier(e->b->comm, NULL);
}

static uint64_t calls_per_step(const struct engine *e)
{
    return e->mpi ? 1 : e->b->o.agg;
}

static double cpu_now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

struct batch {
    double wall_ns, cpu_ns; /* per call, this rank */
    double *samples;        /* NULL, or one time per iteration */
};

/* Back to back, nothing between calls. */
static weft_status batch_plain(const struct engine *e, uint64_t iters, struct batch *batch)
{
    weft_status status = WEFT_SUCCESS;
    double cpu = cpu_now_ns(), start = bench_now_ns();

    for (uint64_t i = 0; i < iters && status == WEFT_SUCCESS; i++)
        status = engine_call(e);
    batch->wall_ns = (bench_now_ns() - start) / (double)(iters * calls_per_step(e));
    batch->cpu_ns = (cpu_now_ns() - cpu) / (double)(iters * calls_per_step(e));
    return status;
}

/* Every call timed by itself, with the inputs dirtied and the ranks synchronised before it if so asked. */
static weft_status batch_single(const struct engine *e, uint64_t iters, struct batch *batch)
{
    weft_status status = WEFT_SUCCESS;
    size_t bytes = bench_call_src_elems(e->call) * weft_dtype_bytes(e->call->dtype);
    double wall = 0, cpu = 0;

    for (uint64_t i = 0; i < iters && status == WEFT_SUCCESS; i++) {
        if (e->b->o.dirty == BENCH_DIRTY_EACH) {
            bench_touch((void *)e->call->src, bytes);
            status = engine_barrier(e);
            if (status != WEFT_SUCCESS)
                break;
        }
        double cpu_start = cpu_now_ns(), start = bench_now_ns();
        status = engine_call(e);
        double took = bench_now_ns() - start;
        cpu += cpu_now_ns() - cpu_start;
        wall += took;
        if (batch->samples)
            batch->samples[i] = took / (double)calls_per_step(e);
    }
    batch->wall_ns = wall / (double)(iters * calls_per_step(e));
    batch->cpu_ns = cpu / (double)(iters * calls_per_step(e));
    return status;
}

static weft_status run_batch(const struct engine *e, uint64_t iters, uint64_t seed, struct batch *batch)
{
    const struct bench_options *o = &e->b->o;
    weft_status status = engine_call(e);

    if (status != WEFT_SUCCESS)
        return status;
    if (o->dirty != BENCH_DIRTY_NONE)
        bench_data_fill(e->call, seed);
    status = engine_barrier(e);
    if (status != WEFT_SUCCESS)
        return status;
    if (batch->samples || o->dirty == BENCH_DIRTY_EACH)
        return batch_single(e, iters, batch);
    return batch_plain(e, iters, batch);
}

/* Untimed calls; returns how many iterations the batch gets, the same number on every rank. */
static weft_status warm_up(const struct engine *e, size_t bytes, uint64_t *iters)
{
    const struct bench_options *o = &e->b->o;
    uint64_t warm = o->has_warmup ? o->warmup : bench_rule_warmup(bytes);
    weft_status status = engine_call(e); /* connections, schedules and pages come into being here */
    double start = bench_now_ns(), call_ns = 0;

    for (uint64_t i = 0; i < warm && status == WEFT_SUCCESS; i++)
        status = engine_call(e);
    if (status != WEFT_SUCCESS)
        return status;
    if (warm)
        call_ns = (bench_now_ns() - start) / (double)warm;
    *iters = o->iters;
    if (o->has_iters)
        return WEFT_SUCCESS;
    status = bench_share(e->b, &call_ns, 1, WEFT_MAX);
    *iters = bench_rule_iters(bytes, call_ns);
    return status;
}

/* Wrong elements over all ranks. */
static weft_status count_wrong(struct bench *b, const struct bench_call *c, uint64_t seed, uint64_t *wrong)
{
    double n = (double)bench_data_wrong(c, seed);
    weft_status status = bench_share(b, &n, 1, WEFT_SUM);

    *wrong += (uint64_t)n;
    return status;
}

/* Fresh inputs and a poisoned result for every checked run. */
static weft_status check_runs(const struct engine *e, uint64_t *wrong)
{
    struct bench *b = e->b;
    const struct bench_call *c = e->call;
    size_t bytes = bench_call_dst_elems(c) * weft_dtype_bytes(c->dtype);
    weft_status status = WEFT_SUCCESS;

    for (uint64_t i = 0; i < b->o.check && status == WEFT_SUCCESS; i++) {
        uint64_t seed = ++b->seed;
        bench_data_poison(c, c->dst, bytes);
        bench_data_fill(c, seed);
        status = engine_barrier(e);
        if (status == WEFT_SUCCESS)
            status = e->mpi || e->persistent || b->o.agg == 1 || !c->in_place ? engine_call(e) : bench_weft_run(b, c);
        if (status == WEFT_SUCCESS)
            status = count_wrong(b, c, seed, wrong);
    }
    return status;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static double median(double *values, size_t n)
{
    qsort(values, n, sizeof(values[0]), by_value);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* Nearest-rank percentiles, the slowest rank's. */
static weft_status percentiles(struct bench *b, double *samples, uint64_t n, struct bench_timing *t)
{
    qsort(samples, n, sizeof(samples[0]), by_value);
    for (int i = 0; i < BENCH_NUM_PERCENTILES; i++) {
        uint64_t k = (uint64_t)(bench_percentile_points[i] / 100 * (double)n + 0.999999);
        t->percentile_us[i] = samples[k ? (k > n ? n : k) - 1 : 0] / 1e3;
    }
    return bench_share(b, t->percentile_us, BENCH_NUM_PERCENTILES, WEFT_MAX);
}

/* One number for all ranks, as --average says. */
static weft_status average(struct bench *b, double *ns)
{
    static const weft_op ops[] = {WEFT_SUM, WEFT_SUM, WEFT_MIN, WEFT_MAX};

    if (b->o.average == BENCH_AVG_RANK0 && b->rank != 0)
        *ns = 0;
    weft_status status = bench_share(b, ns, 1, ops[b->o.average]);
    if (b->o.average == BENCH_AVG_MEAN)
        *ns /= b->nranks;
    return status;
}

static weft_status timed_batch(const struct engine *e, uint64_t iters, double *samples, double *wall_ns, double *cpu_ns,
                               struct bench_timing *t)
{
    struct bench *b = e->b;
    struct batch batch = {0, 0, samples};
    uint64_t seed = ++b->seed;
    weft_status status = run_batch(e, iters, seed, &batch);

    /* The batch itself is checked too, where its input is still there. */
    if (status == WEFT_SUCCESS && t->checked && !e->mpi && !e->call->in_place && b->o.dirty != BENCH_DIRTY_NONE)
        status = count_wrong(b, e->call, seed, &t->wrong);
    if (status == WEFT_SUCCESS)
        status = average(b, &batch.wall_ns);
    if (status == WEFT_SUCCESS)
        status = average(b, &batch.cpu_ns);
    *wall_ns = batch.wall_ns;
    *cpu_ns = batch.cpu_ns;
    return status;
}

/* One engine, or two in turn. Iterations are counted with the engine that is slower to warm up, so both get equal work.
 */
static weft_status timed_rounds(struct engine engines[2], int nengines, size_t bytes, double *samples[1],
                                struct bench_timing *t)
{
    double wall[2][AGAINST_ROUNDS], cpu[2][AGAINST_ROUNDS];
    int rounds = nengines == 2 ? AGAINST_ROUNDS : 1;
    weft_status status = WEFT_SUCCESS;

    t->iters = UINT64_MAX;
    for (int i = 0; i < nengines && status == WEFT_SUCCESS; i++) {
        uint64_t iters = 0;
        status = warm_up(&engines[i], bytes, &iters);
        t->iters = iters < t->iters ? iters : t->iters;
    }
    if (status != WEFT_SUCCESS)
        return status;
    if (engines[0].b->o.percentiles) {
        *samples = calloc(t->iters, sizeof(**samples));
        if (!*samples)
            return WEFT_ENOMEM;
    }
    for (int r = 0; r < rounds; r++)
        for (int i = 0; i < nengines && status == WEFT_SUCCESS; i++)
            status = timed_batch(&engines[i], t->iters, i == 0 ? *samples : NULL, &wall[i][r], &cpu[i][r], t);
    if (status != WEFT_SUCCESS)
        return status;
    t->time_us = median(wall[0], (size_t)rounds) / 1e3;
    t->cpu_us = median(cpu[0], (size_t)rounds) / 1e3;
    if (nengines == 2)
        t->mpi_us = median(wall[1], (size_t)rounds) / 1e3;
    return *samples ? percentiles(engines[0].b, *samples, t->iters, t) : WEFT_SUCCESS;
}

static weft_status measure(struct bench *b, struct engine engines[2], int nengines, struct bench_timing *t)
{
    const struct bench_call *c = engines[0].call;
    size_t bytes = bench_layout_bytes(c->coll, c->count, weft_dtype_bytes(c->dtype), c->nranks);
    double *samples = NULL;

    bench_data_fill(c, ++b->seed);
    weft_status status = timed_rounds(engines, nengines, bytes, &samples, t);
    free(samples);
    if (status == WEFT_SUCCESS && t->checked)
        status = check_runs(&engines[0], &t->wrong);
    if (status == WEFT_SUCCESS && t->checked && nengines == 2)
        status = check_runs(&engines[1], &t->mpi_wrong);
    if (status == WEFT_SUCCESS && b->o.check > 0 && bench_codec_is_for(b, c))
        status = bench_codec_check(b, c, t);
    if (status != WEFT_SUCCESS)
        return status;
    double us = b->o.cpu_time ? t->cpu_us : t->time_us;
    t->algbw = us > 0 ? (double)bytes / us / 1e3 : 0;
    t->busbw = t->algbw * bench_coll_bus_factor(c->coll, c->nranks);
    t->valid = 1;
    return WEFT_SUCCESS;
}

weft_status bench_measure(struct bench *b, struct bench_buffers *buf, struct bench_call *call, int in_place,
                          struct bench_timing *t)
{
    struct engine engines[2] = {{b, call, NULL, NULL}, {b, call, NULL, NULL}};
    int nengines = 1;
    weft_status status = WEFT_SUCCESS;

    memset(t, 0, sizeof(*t));
    bench_buffers_aim(buf, call, in_place);
    t->checked = b->o.check > 0 && !bench_codec_is_for(b, call) &&
                 bench_data_exact(call->dtype, call->op, bench_coll_reduces(call->coll), call->nranks);
    if (b->mpi && bench_mpi_ops(b->mpi)->supports(call)) {
        engines[1].mpi = bench_mpi_ops(b->mpi);
        nengines = 2;
    }
    if (b->o.form == BENCH_PERSISTENT)
        status = bench_weft_init(b, call, &engines[0].persistent);
    if (status == WEFT_SUCCESS)
        status = measure(b, engines, nengines, t);
    if (engines[0].persistent)
        weft_request_free(engines[0].persistent);
    return status;
}
