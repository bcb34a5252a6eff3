/* SPDX-License-Identifier: BSD-3-Clause */
/* For how long a save of an engine blocks its caller. One rank.
 *
 *     bench_save FOLDER [MiB [ROUNDS [MS [AHEAD]]]]
 *
 * MiB of weights and moments in fp32, in units of one parameter. Each round makes a step, a save that is waited for, and a save
 * that is not, behind which the caller steps at once, or computes for MS ms (1300) in one thread and steps then. `blocked` is the
 * time in weft_zero_save, and of that in weft_zero_step that the update waited for a copy (snapshot_wait_ns); `longer` is by how
 * much save and step together took longer than a step alone; both as parts of the round's synchronous save. The first save has to
 * get the memory of its copy, with AHEAD 1 before it begins. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <weft/weft_zero.h>

enum { UNITS = 48 };

static weft_zero *zero;
static int params[UNITS];
static size_t elems;
static float *grad;

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void check(weft_status st, const char *what)
{
    if (st >= 0)
        return;
    fprintf(stderr, "%s: %s: %s\n", what, weft_status_text(st), weft_thread_error());
    exit(1);
}

static void gradients(void)
{
    for (int p = 0; p < UNITS; p++)
        check(weft_zero_grad_add(zero, params[p], grad, WEFT_FLOAT32), "grad_add");
    check(weft_zero_micro_batch_end(zero), "micro_batch_end");
}

static void compute(double ms)
{
    volatile double x = 1;

    for (double until = now_ms() + ms; ms > 0 && now_ms() < until;)
        for (int i = 0; i < 10000; i++)
            x = x * 1.0000001 + 1e-9;
}

static double snapshot_ms(void)
{
    weft_zero_stats stats = WEFT_ZERO_STATS_INIT;

    check(weft_zero_get_stats(zero, &stats), "get_stats");
    return (double)stats.snapshot_wait_ns / 1e6;
}

static double step(void)
{
    const weft_zero_hyper hyper = WEFT_ZERO_HYPER_INIT;
    double from = now_ms();

    check(weft_zero_step(zero, &hyper, 1, NULL), "step");
    return now_ms() - from;
}

/* ms in weft_zero_save. */
static double save(const char *folder)
{
    static unsigned number;
    weft_zero_save_options options = WEFT_ZERO_SAVE_OPTIONS_INIT;
    char tag[32];
    double from;

    snprintf(tag, sizeof tag, "v%ld-%u", (long)time(NULL), number++);
    options.keep = 1;
    options.incremental = 0;
    from = now_ms();
    check(weft_zero_save(zero, folder, tag, &options), "save");
    return now_ms() - from;
}

static void beside(const char *folder, double ms, double sync_ms, double plain_ms)
{
    double waited = snapshot_ms(), from, begin, stepped;

    begin = save(folder);
    compute(ms);
    gradients();
    stepped = step();
    waited = snapshot_ms() - waited;
    from = now_ms();
    check(weft_zero_save_wait(zero, WEFT_TIMEOUT_NEVER, NULL), "save_wait");
    printf("  computes %5.0f ms  save %6.2f  step %7.1f of which waits %6.1f  complete after %6.1f", ms, begin, stepped,
           waited, now_ms() - from);
    if (sync_ms > 0)
        printf("  blocked %5.2f %%  longer %6.2f %%", 100 * (begin + waited) / sync_ms,
               100 * (begin + stepped - plain_ms) / sync_ms);
    printf("\n");
    fflush(stdout);
}

static void make(weft_comm *comm, size_t mib)
{
    weft_zero_config config = WEFT_ZERO_CONFIG_INIT;
    weft_zero_param param = WEFT_ZERO_PARAM_INIT;
    int unit;

    elems = mib * (1 << 20) / 12 / UNITS;
    grad = malloc(elems * sizeof *grad);
    if (!grad)
        exit(1);
    check(weft_zero_create(comm, &config, &zero), "create");
    for (int p = 0; p < UNITS; p++) {
        char name[32];

        snprintf(name, sizeof name, "layer%d", p);
        param.name = name;
        param.ndims = 1;
        param.shape = &elems;
        check(weft_zero_param_add(zero, &param, &params[p]), "param_add");
        check(weft_zero_unit_add(zero, name, &params[p], 1, &unit), "unit_add");
    }
    check(weft_zero_seal(zero), "seal");
    for (size_t i = 0; i < elems; i++)
        grad[i] = (float)(i % 1009) * 1e-3f - .5f;
    for (int p = 0; p < UNITS; p++)
        check(weft_zero_param_set(zero, params[p], WEFT_ZERO_WEIGHT, grad, WEFT_FLOAT32), "param_set");
}

int main(int argc, char **argv)
{
    size_t mib = argc > 2 ? (size_t)atoi(argv[2]) : 512;
    int rounds = argc > 3 ? atoi(argv[3]) : 5;
    double ms = argc > 4 ? atof(argv[4]) : 1300;
    weft_context *context;
    weft_comm *comm;

    if (argc < 2 || mib < UNITS) {
        fprintf(stderr, "usage: bench_save FOLDER [MiB, at least %d [ROUNDS [MS [AHEAD]]]]\n", UNITS);
        return 1;
    }
    check(weft_context_create(NULL, &context), "context");
    check(weft_comm_create_env(context, NULL, &comm), "comm");
    make(comm, mib);
    for (int i = 0; i < 3; i++) {
        gradients();
        step();
    }
    if (argc > 5 && atoi(argv[5])) {
        double from = now_ms();

        check(weft_zero_save_prepare(zero), "save_prepare");
        printf("prepared in %.2f ms\n", now_ms() - from);
        compute(3000);
    }
    printf("the first save\n");
    beside(argv[1], 0, 0, 0);
    for (int r = 0; r < rounds; r++) {
        double plain, sync;

        gradients();
        plain = step();
        sync = save(argv[1]);
        double from = now_ms();
        check(weft_zero_save_wait(zero, WEFT_TIMEOUT_NEVER, NULL), "save_wait");
        sync += now_ms() - from;
        printf("a step %.1f ms, a synchronous save %.1f ms\n", plain, sync);
        beside(argv[1], 0, sync, plain);
        beside(argv[1], ms, sync, plain);
    }
    check(weft_zero_destroy(zero), "destroy");
    check(weft_comm_destroy(comm), "comm");
    check(weft_context_destroy(context), "context");
    free(grad);
    return 0;
}
