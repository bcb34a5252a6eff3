/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-bench: start-up time and memory of an idle communicator. */
#include "weft_bench.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double clock_s(clockid_t clock)
{
    struct timespec ts;

    clock_gettime(clock, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* Field 22 of /proc/self/stat: ticks from boot to the start of the process. */
static double start_from_proc(void)
{
    char text[1024];
    unsigned long long ticks = 0;
    FILE *f = fopen("/proc/self/stat", "r");
    size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;

    if (f)
        fclose(f);
    text[n] = 0;
    char *p = strrchr(text, ')'); /* the name before it may hold anything */
    for (int field = 2; p && field < 22; field++)
        p = strchr(p + 1, ' ');
    if (!p || sscanf(p, " %llu", &ticks) != 1)
        return 0;
    double age = clock_s(CLOCK_BOOTTIME) - (double)ticks / (double)sysconf(_SC_CLK_TCK);
    return clock_s(CLOCK_REALTIME) - age;
}

double bench_process_start(void)
{
    const char *text = getenv("WEFT_BENCH_T0");
    double t0 = text ? strtod(text, NULL) : 0;

    unsetenv("WEFT_BENCH_T0"); /* the library would report a setting it does not know */
    return t0 > 0 ? t0 : start_from_proc();
}

int bench_write_pairs(const struct bench *b, const char *const names[], const double values[], int n)
{
    FILE *f;

    if (!b->o.json || b->rank != 0)
        return 0;
    f = strcmp(b->o.json, "-") == 0 ? stdout : fopen(b->o.json, "w");
    if (!f) {
        fprintf(stderr, "weft-bench: %s: %s\n", b->o.json, strerror(errno));
        return 1;
    }
    fprintf(f, "{\"program\": \"weft-bench\", \"version\": \"%s\", \"ranks\": %d", weft_version(), b->nranks);
    for (int i = 0; i < n; i++)
        fprintf(f, ", \"%s\": %.6f", names[i], values[i]);
    fputs("}\n", f);
    return (f == stdout ? fflush(f) : fclose(f)) ? 1 : 0;
}

int bench_run_startup(struct bench *b, double process_start_s)
{
    static const char *const names[] = {"startup_s", "startup_mean_s"};
    weft_status status = weft_barrier(b->comm, NULL);
    double took = clock_s(CLOCK_REALTIME) - process_start_s, values[2] = {took, took};

    if (status == WEFT_SUCCESS)
        status = bench_share(b, &values[0], 1, WEFT_MAX);
    if (status == WEFT_SUCCESS)
        status = bench_share(b, &values[1], 1, WEFT_SUM);
    if (status != WEFT_SUCCESS)
        return b->failed = 1, bench_fail(b, "startup", status), 1;
    values[1] /= b->nranks;
    if (b->rank == 0)
        printf("# start-up, %d ranks: process start to first barrier done %.3f s (slowest rank), %.3f s (mean)\n",
               b->nranks, values[0], values[1]);
    return bench_write_pairs(b, names, values, 2);
}

/* This process's proportional share of anonymous and shared memory, bytes; program text is left out. */
static double memory_now(void)
{
    char line[256];
    unsigned long long kib, total = 0;
    int found = 0;
    FILE *f = fopen("/proc/self/smaps_rollup", "r");

    while (f && fgets(line, sizeof(line), f)) {
        if (sscanf(line, "Pss_Anon: %llu", &kib) == 1 || sscanf(line, "Pss_Shmem: %llu", &kib) == 1) {
            total += kib;
            found = 1;
        }
    }
    if (f)
        fclose(f);
    return found ? (double)total * 1024 : -1;
}

#define IDLE_DUPS 4

/* Memory after a barrier on `comm`, while every rank stands still. */
static weft_status memory_together(struct bench *b, weft_comm *comm, double *bytes)
{
    weft_status status = weft_barrier(comm, NULL);

    *bytes = memory_now();
    return status == WEFT_SUCCESS ? weft_barrier(b->comm, NULL) : status;
}

static weft_status idle_dups(struct bench *b, double first, double *per_dup)
{
    weft_comm *dups[IDLE_DUPS] = {NULL};
    weft_status status = WEFT_SUCCESS;
    double last = first;

    for (int i = 0; i < IDLE_DUPS && status == WEFT_SUCCESS; i++) {
        status = weft_comm_dup(b->comm, NULL, &dups[i]);
        if (status == WEFT_SUCCESS)
            status = memory_together(b, dups[i], &last);
    }
    *per_dup = (last - first) / IDLE_DUPS;
    for (int i = 0; i < IDLE_DUPS; i++)
        weft_comm_destroy(dups[i]);
    return status;
}

static weft_status idle_measure(struct bench *b, double values[4])
{
    double before = memory_now(), after = 0, dup = 0;
    weft_status status;

    if (before < 0) {
        fprintf(stderr, "weft-bench: rank %d: /proc/self/smaps_rollup does not tell Pss_Anon and Pss_Shmem\n", b->rank);
        return WEFT_ENOTSUP;
    }
    status = weft_comm_create_env(b->context, NULL, &b->comm);
    if (status != WEFT_SUCCESS)
        return status;
    weft_comm_rank(b->comm, &b->rank);
    weft_comm_size(b->comm, &b->nranks);
    status = memory_together(b, b->comm, &after);
    if (status == WEFT_SUCCESS)
        status = idle_dups(b, after, &dup);
    values[0] = values[1] = after - before;
    values[2] = values[3] = dup;
    if (status == WEFT_SUCCESS)
        status = bench_share(b, &values[0], 1, WEFT_SUM);
    if (status == WEFT_SUCCESS)
        status = bench_share(b, &values[1], 1, WEFT_MAX);
    if (status == WEFT_SUCCESS)
        status = bench_share(b, &values[2], 1, WEFT_SUM);
    if (status == WEFT_SUCCESS)
        status = bench_share(b, &values[3], 1, WEFT_MAX);
    values[0] /= b->nranks;
    values[2] /= b->nranks;
    return status;
}

int bench_run_idle(struct bench *b)
{
    static const char *const names[] = {"first_comm_mean_bytes", "first_comm_max_bytes", "next_comm_mean_bytes",
                                        "next_comm_max_bytes"};
    double values[4];
    weft_status status = idle_measure(b, values);

    if (status != WEFT_SUCCESS)
        return b->failed = 1, bench_fail(b, "idle memory", status), 1;
    if (b->rank == 0)
        printf("# idle memory per rank, %d ranks: first communicator %.0f KiB (mean) %.0f KiB (most), each further "
               "one %.0f KiB (mean) %.0f KiB (most)\n",
               b->nranks, values[0] / 1024, values[1] / 1024, values[2] / 1024, values[3] / 1024);
    return bench_write_pairs(b, names, values, 4);
}
