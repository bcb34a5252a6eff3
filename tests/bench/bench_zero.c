/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory and time of an engine of libweft_zero, of a model of equal layers whose computation is a copy of the weights:
 *
 *     weft-run -n 4 tests/bench/bench_zero [--stage S] [--units N] [--elems N] [--half] [--steps N] [--micro-batches N]
 *         [--offload FOLDER [--params] [--ratio R] [--memory MIB] [--codecs WEIGHT/MOMENT1/MOMENT2]]
 *         [--save FOLDER [--saves N]] [--compute MS]
 *
 * Rank 0 prints, of the slowest rank: bytes by class beside what the stage's formula says, the process's proportional set size
 * above that before the engine was made, and the seconds of a step by cause; with --offload also, of each step, its update and for
 * how long that waited for files. With --save also for how long the caller was blocked. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <weft/weft_zero.h>

static struct {
    int stage, units, half, steps, micro_batches, params, saves;
    size_t elems; /* of a unit */
    double ratio, memory, compute_ms;
    const char *offload, *save;
    char *codecs[3]; /* of weights and moments in the file */
} options = {.stage = 1, .units = 16, .elems = 1 << 20, .steps = 5, .micro_batches = 1, .ratio = 1, .saves = 1};

static weft_comm *comm;
static weft_zero *zero;
static int rank, nranks;

static void check(weft_status st, const char *what)
{
    if (st >= 0)
        return;
    fprintf(stderr, "rank %d: %s: %s\n", rank, what, weft_thread_error());
    exit(1);
}
#define CHECK(call) check(call, #call)

static double seconds(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* Bytes of memory, shared pages by share. */
static double set_size(void)
{
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    char line[200];
    double kib = 0;

    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "Pss: %lf kB", &kib) == 1)
            break;
    if (file)
        fclose(file);
    return kib * 1024;
}

static double largest(double value)
{
    double all = 0;

    CHECK(weft_all_reduce(comm, &value, &all, 1, WEFT_FLOAT64, WEFT_MAX, NULL));
    return all;
}

static void parse(int argc, char **argv)
{
    static const struct option names[] = {{"stage", 1, 0, 's'},   {"units", 1, 0, 'u'},  {"elems", 1, 0, 'e'},
                                          {"half", 0, 0, 'h'},    {"steps", 1, 0, 'n'},  {"micro-batches", 1, 0, 'm'},
                                          {"offload", 1, 0, 'o'}, {"params", 0, 0, 'p'}, {"ratio", 1, 0, 'r'},
                                          {"save", 1, 0, 'v'},    {"saves", 1, 0, 'V'},  {"compute", 1, 0, 'c'},
                                          {"memory", 1, 0, 'M'},  {"codecs", 1, 0, 'C'}, {0, 0, 0, 0}};
    int c;

    while ((c = getopt_long(argc, argv, "", names, NULL)) != -1)
        switch (c) {
        case 's':
            options.stage = atoi(optarg);
            break;
        case 'u':
            options.units = atoi(optarg);
            break;
        case 'e':
            options.elems = strtoull(optarg, NULL, 10);
            break;
        case 'h':
            options.half = 1;
            break;
        case 'n':
            options.steps = atoi(optarg);
            break;
        case 'm':
            options.micro_batches = atoi(optarg);
            break;
        case 'o':
            options.offload = optarg;
            break;
        case 'p':
            options.params = 1;
            break;
        case 'r':
            options.ratio = atof(optarg);
            break;
        case 'C':
            for (int i = 0; i < 3; i++)
                options.codecs[i] = strsep(&optarg, "/");
            break;
        case 'M':
            options.memory = atof(optarg);
            break;
        case 'v':
            options.save = optarg;
            break;
        case 'V':
            options.saves = atoi(optarg);
            break;
        case 'c':
            options.compute_ms = atof(optarg);
            break;
        default:
            exit(2);
        }
    if (options.units < 1 || options.units > 4096 || options.elems < 1 || options.steps < 1) {
        fprintf(stderr, "bench_zero: 1 to 4096 units, elements and steps\n");
        exit(2);
    }
}

static void make(void)
{
    weft_zero_config config = WEFT_ZERO_CONFIG_INIT;
    weft_zero_param param = WEFT_ZERO_PARAM_INIT;
    char name[32];

    config.stage = options.stage;
    config.micro_batches = options.micro_batches;
    config.offload_folder = options.offload;
    config.offload_params = options.params;
    config.offload_ratio = options.ratio;
    config.offload_weight_codec = options.codecs[0];
    config.offload_moment1_codec = options.codecs[1];
    config.offload_moment2_codec = options.codecs[2];
    config.offload_memory_bytes = (size_t)(options.memory * 1048576);
    CHECK(weft_zero_create(comm, &config, &zero));
    param.name = name;
    param.ndims = 1;
    param.shape = &options.elems;
    param.dtype = options.half ? WEFT_BFLOAT16 : WEFT_FLOAT32;
    for (int i = 0; i < options.units; i++) {
        int index, unit;

        snprintf(name, sizeof name, "layer%d", i);
        CHECK(weft_zero_param_add(zero, &param, &index));
        CHECK(weft_zero_unit_add(zero, name, &index, 1, &unit));
    }
    CHECK(weft_zero_seal(zero));
}

/* Stands for a layer's computation: reads the weights, and takes its time. */
static void compute(int unit)
{
    double until = seconds() + options.compute_ms * 1e-3;
    static volatile unsigned char sink;
    void *data;

    CHECK(weft_zero_param_data(zero, unit, &data));
    for (size_t i = 0; i < options.elems * (options.half ? 2 : 4); i += 64)
        sink = (unsigned char)(sink + ((unsigned char *)data)[i]);
    while (seconds() < until)
        ;
}

static void gradient(int unit)
{
    void *grad;
    int add;

    CHECK(weft_zero_grad_buffer(zero, unit, &grad, &add));
    if (!add && options.half)
        for (size_t i = 0; i < options.elems; i++)
            ((unsigned short *)grad)[i] = (unsigned short)(0x3c00 + (i & 127));
    else if (!add)
        for (size_t i = 0; i < options.elems; i++)
            ((float *)grad)[i] = (float)(i & 127) * 1e-4f;
    CHECK(weft_zero_grad_ready(zero, unit));
}

static void step(void)
{
    weft_zero_hyper hyper = WEFT_ZERO_HYPER_INIT;

    for (int m = 0; m < options.micro_batches; m++) {
        for (int u = 0; u < options.units; u++) {
            CHECK(weft_zero_pre_forward(zero, u));
            compute(u);
            CHECK(weft_zero_post_forward(zero, u));
        }
        for (int u = options.units - 1; u >= 0; u--) {
            CHECK(weft_zero_pre_backward(zero, u));
            compute(u);
            gradient(u);
            CHECK(weft_zero_post_backward(zero, u));
        }
        CHECK(weft_zero_micro_batch_end(zero));
    }
    CHECK(weft_zero_step(zero, &hyper, 1, NULL));
}

/* Bytes that the stage keeps: parameters, gradients, master weights and moments. */
static void formula(double bytes[3])
{
    double psi = (double)options.elems * options.units, n = nranks, width = options.half ? 2 : 4,
           master = options.half ? 12 : 8;

    bytes[0] = psi * width / (options.stage == 3 ? n : 1);
    bytes[1] = psi * width / (options.stage >= 2 ? n : 1);
    bytes[2] = psi * master / (options.stage >= 1 ? n : 1);
}

static void report_memory(double before)
{
    weft_zero_stats stats = WEFT_ZERO_STATS_INIT;
    double says[3], pss = largest(set_size() - before), sum = 0, counted, buffers;

    CHECK(weft_zero_get_stats(zero, &stats));
    formula(says);
    for (int i = 0; i < 3; i++)
        sum += says[i];
    counted = (double)(stats.param_bytes + stats.grad_bytes + stats.state_bytes);
    buffers = (double)(stats.gather_bytes + stats.reduce_bytes + stats.disk_buffer_bytes);
    if (rank)
        return;
    printf(
        "memory, MiB: parameters %.1f (formula %.1f), gradients %.1f (%.1f), states %.1f (%.1f), together %.1f (%.1f); "
        "buffers %.1f; in files %.1f; set size +%.1f, %.3f of what is counted\n",
        (double)stats.param_bytes / 1048576, says[0] / 1048576, (double)stats.grad_bytes / 1048576, says[1] / 1048576,
        (double)stats.state_bytes / 1048576, says[2] / 1048576, counted / 1048576, sum / 1048576, buffers / 1048576,
        (double)stats.disk_bytes / 1048576, pss / 1048576, pss / (counted + buffers));
}

/* After a step; rank 0 prints those of the rank that waited longest. */
static void report_stall(int number)
{
    weft_zero_stats stats = WEFT_ZERO_STATS_INIT;

    CHECK(weft_zero_get_stats(zero, &stats));
    double update = largest((double)stats.step_update_ns * 1e-6), stall = largest((double)stats.step_stall_ns * 1e-6);
    double held = largest((double)stats.offload_held_bytes / 1048576);

    if (!rank)
        printf("step %d: update %.2f ms, of which stalled %.2f; %.1f of %.1f MiB in memory\n", number, update, stall,
               held, (double)stats.offload_bytes / 1048576);
}

static void report_time(double per_step, const weft_zero_stats *from)
{
    weft_zero_stats to = WEFT_ZERO_STATS_INIT;
    double ms = 1e-6 / options.steps;

    CHECK(weft_zero_get_stats(zero, &to));
    double moved =
        (double)(to.disk_read_bytes + to.disk_written_bytes - from->disk_read_bytes - from->disk_written_bytes);
    double values[] = {per_step * 1e3,
                       (double)(to.gather_wait_ns - from->gather_wait_ns) * ms,
                       (double)(to.reduce_wait_ns - from->reduce_wait_ns) * ms,
                       (double)(to.norm_ns - from->norm_ns) * ms,
                       (double)(to.update_ns - from->update_ns) * ms,
                       (double)(to.disk_read_wait_ns - from->disk_read_wait_ns) * ms,
                       (double)(to.disk_write_wait_ns - from->disk_write_wait_ns) * ms};

    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        values[i] = largest(values[i]);
    if (rank)
        return;
    printf("step, ms: %.2f; waited for parameters %.2f, for reductions %.2f; norm %.2f; update %.2f", values[0],
           values[1], values[2], values[3], values[4]);
    if (to.disk_bytes)
        printf(
            "; stalled for reads %.2f, for writes %.2f; codecs %.2f; %.1f of %.1f MiB read and written a step, %.0f MB/s of "
            "the update (%s, %s, %s)",
            values[5], values[6], (double)(to.disk_code_ns - from->disk_code_ns) * ms, moved / 1048576 / options.steps,
            (double)(to.disk_raw_bytes - from->disk_raw_bytes) / 1048576 / options.steps,
            moved * 1e-6 / ((double)(to.update_ns - from->update_ns) * 1e-9), to.disk_uring ? "io_uring" : "threads",
            to.disk_direct ? "direct" : "buffered", to.disk_fixed ? "fixed" : "plain");
    printf("\n");
}

/* The first save waits until it is complete; the second returns at once, and the step behind it waits for what is not copied. */
static void report_save(double per_step)
{
    weft_zero_save_options save = WEFT_ZERO_SAVE_OPTIONS_INIT;
    weft_zero_save_info info = WEFT_ZERO_SAVE_INFO_INIT;
    double whole = 0, blocked = 0, from, called;
    char tag[32];

    save.incremental = 0;
    save.keep = 2;
    for (int i = 0; i <= 2 * options.saves; i++) {
        snprintf(tag, sizeof tag, "bench%d", i);
        from = seconds();
        CHECK(weft_zero_save(zero, options.save, tag, &save));
        called = seconds() - from;
        if (i % 2 == 0) {
            CHECK(weft_zero_save_wait(zero, WEFT_TIMEOUT_NEVER, &info));
            whole += i ? largest(seconds() - from) / options.saves : 0; /* the first makes its memory */
            continue;
        }
        from = seconds();
        step();
        blocked += largest(called + seconds() - from - per_step) / options.saves;
        CHECK(weft_zero_save_wait(zero, WEFT_TIMEOUT_NEVER, &info));
    }
    if (!rank)
        printf("save, ms: %.1f for %.1f MiB of rank 0; in the background the caller is blocked %.1f, %.3f of that\n",
               whole * 1e3, (double)info.state_bytes / 1048576, blocked * 1e3, blocked / whole);
}

int main(int argc, char **argv)
{
    weft_context *context;
    weft_zero_stats from = WEFT_ZERO_STATS_INIT;
    double before, began;

    parse(argc, argv);
    CHECK(weft_context_create(NULL, &context));
    CHECK(weft_comm_create_env(context, NULL, &comm));
    CHECK(weft_comm_rank(comm, &rank));
    CHECK(weft_comm_size(comm, &nranks));
    largest(0);
    before = set_size();
    make();
    for (int i = 0; i < 2; i++) {
        step();
        if (options.offload)
            report_stall(i + 1);
    }
    report_memory(before);
    CHECK(weft_zero_get_stats(zero, &from));
    largest(0);
    began = seconds();
    for (int i = 0; i < options.steps; i++) {
        step();
        if (options.offload)
            report_stall(i + 3);
    }
    double per_step = largest((seconds() - began) / options.steps);

    report_time(per_step, &from);
    if (options.save)
        report_save(per_step);
    CHECK(weft_zero_destroy(zero));
    CHECK(weft_comm_destroy(comm));
    CHECK(weft_context_destroy(context));
    return 0;
}
