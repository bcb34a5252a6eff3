/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-bench: the table that rank 0 prints, in nccl-tests' columns. */
#include "weft_bench.h"

#include <unistd.h>

static int silent(const struct bench *b)
{
    return b->rank != 0;
}

void bench_report_head(const struct bench *b)
{
    const struct bench_options *o = &b->o;
    const char *codec = o->codec ? o->codec : b->default_codec; /* also "none", which was asked for */

    if (silent(b))
        return;
    printf("# weft-bench %s, %d rank%s, %d on this host (%s)\n", weft_version(), b->nranks, b->nranks == 1 ? "" : "s",
           b->local_nranks, b->host);
    printf("# minBytes %zu maxBytes %zu step: ", o->min_bytes, o->max_bytes);
    if (o->step_factor)
        printf("%g(factor)", o->step_factor);
    else
        printf("%zu(bytes)", o->step_bytes);
    if (o->has_iters)
        printf(" iters: %llu", (unsigned long long)o->iters);
    else
        printf(" iters: by size");
    printf(" agg iters: %llu validation: %llu\n", (unsigned long long)o->agg, (unsigned long long)o->check);
    printf("# form: %s memory: %s dirty: %s algorithm: %s%s%s\n", bench_form_name(o->form),
           bench_memory_name(o->memory), bench_dirty_name(o->dirty), o->algorithm ? o->algorithm : "chosen",
           codec ? " codec: " : "", codec ? codec : "");
    if (b->mpi) {
        char version[256] = "";
        bench_mpi_ops(b->mpi)->version(version, sizeof(version));
        printf("# against: %s\n", version);
    }
    fflush(stdout);
}

static void half_head(const struct bench *b, int line)
{
    static const char *const text[][2] = {{"time", "(us)"}, {"algbw", "(GB/s)"}, {"busbw", "(GB/s)"}};

    for (int i = 0; i < 3; i++)
        printf(" %9s", i == 0 && b->o.cpu_time && line == 0 ? "cputime" : text[i][line]);
    printf(" %7s", line == 0 ? "#wrong" : "");
    if (bench_codec(b))
        printf(" %9s %9s", line == 0 ? "sent" : "(B)", line == 0 ? "nmse" : "");
    if (b->mpi)
        printf(" %9s %6s", line == 0 ? "mpi" : "(us)", line == 0 ? "ratio" : "");
    if (b->o.percentiles)
        printf(" %8s %8s %8s %8s %8s", line == 0 ? "p50" : "(us)", line == 0 ? "p90" : "", line == 0 ? "p99" : "",
               line == 0 ? "p99.9" : "", line == 0 ? "max" : "");
}

void bench_report_coll(const struct bench *b, enum bench_coll coll)
{
    int width = 38 + (bench_codec(b) ? 20 : 0) + (b->mpi ? 17 : 0) + (b->o.percentiles ? 45 : 0);

    if (silent(b))
        return;
    printf("#\n# %s\n", bench_coll_name(coll));
    printf("#%54s  %*s  %*s\n", "", width / 2 + 6, "out-of-place", width, "in-place");
    printf("#%11s %12s %10s %7s %5s", "size", "count", "type", "redop", "root");
    half_head(b, 0);
    printf(" ");
    half_head(b, 0);
    printf("\n#%11s %12s %10s %7s %5s", "(B)", "(elements)", "", "", "");
    half_head(b, 1);
    printf(" ");
    half_head(b, 1);
    printf("\n");
    fflush(stdout);
}

static void print_time(double us)
{
    printf(us < 100 ? " %9.2f" : us < 10000 ? " %9.1f" : " %9.0f", us);
}

/* What was sent, and the error; "plain" where the codec was bypassed. */
static void coded_half(const struct bench_timing *t)
{
    if (!t->coded)
        printf(" %9s %9s", "N/A", "N/A");
    else if (t->bypassed)
        printf(" %9.0f %9s", t->sent, "plain");
    else
        printf(" %9.0f %9.2e", t->sent, t->nmse);
}

static void half_row(const struct bench *b, const struct bench_timing *t)
{
    if (!t->valid) {
        printf(" %9s %9s %9s %7s", "N/A", "N/A", "N/A", "N/A");
        if (bench_codec(b))
            printf(" %9s %9s", "N/A", "N/A");
        if (b->mpi)
            printf(" %9s %6s", "N/A", "");
        if (b->o.percentiles)
            printf(" %8s %8s %8s %8s %8s", "N/A", "", "", "", "");
        return;
    }
    print_time(b->o.cpu_time ? t->cpu_us : t->time_us);
    printf(" %9.2f %9.2f", t->algbw, t->busbw);
    if (t->checked)
        printf(" %7llu", (unsigned long long)t->wrong);
    else
        printf(" %7s", "N/A");
    if (bench_codec(b))
        coded_half(t);
    if (b->mpi && t->mpi_us > 0) {
        print_time(t->mpi_us);
        printf(" %6.2f", t->mpi_us / t->time_us);
    } else if (b->mpi) {
        printf(" %9s %6s", "N/A", "");
    }
    for (int i = 0; b->o.percentiles && i < BENCH_NUM_PERCENTILES; i++)
        printf(" %8.2f", t->percentile_us[i]);
}

static void clear_progress(void)
{
    if (isatty(STDERR_FILENO) && isatty(STDOUT_FILENO))
        fputs("\r\033[K", stderr);
}

void bench_report_row(const struct bench *b, const struct bench_row *row)
{
    if (silent(b))
        return;
    clear_progress();
    printf("%12zu %12zu %10s %7s", row->bytes, row->count,
           row->coll == BENCH_BARRIER ? "none" : weft_dtype_name(row->dtype),
           bench_coll_reduces(row->coll) ? weft_op_name(row->op) : "none");
    printf(" %5d", bench_coll_rooted(row->coll) ? row->root : -1);
    half_row(b, &row->out);
    printf(" ");
    half_row(b, &row->in);
    printf("\n");
    fflush(stdout);
}

void bench_report_foot(const struct bench *b)
{
    if (silent(b))
        return;
    clear_progress();
    if (b->failed) {
        printf("# stopped by a failure\n");
    } else {
        printf("# Out of bounds values : %llu %s\n", (unsigned long long)b->wrong, b->wrong ? "FAILED" : "OK");
        printf("# Avg bus bandwidth    : %g\n", b->busbw_n ? b->busbw_sum / (double)b->busbw_n : 0);
    }
    fflush(stdout);
}

void bench_report_progress(const struct bench *b, enum bench_coll coll, size_t bytes)
{
    if (silent(b) || !isatty(STDERR_FILENO) || !isatty(STDOUT_FILENO))
        return;
    fprintf(stderr, "\r\033[K%s, %zu bytes ...", bench_coll_name(coll), bytes);
    fflush(stderr);
}
