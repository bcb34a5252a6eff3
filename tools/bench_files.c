/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-bench: results as JSON and CSV. */
#include "weft_bench.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static FILE *open_out(const char *path)
{
    FILE *f = strcmp(path, "-") == 0 ? stdout : fopen(path, "w");

    if (!f)
        fprintf(stderr, "weft-bench: %s: %s\n", path, strerror(errno));
    return f;
}

/* A pipe is not opened and closed for a look: its reader would be told of an end. */
int bench_check_files(const struct bench_options *o)
{
    const char *const paths[] = {o->json, o->csv, o->plot};

    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        struct stat st;
        FILE *f;
        if (!paths[i] || strcmp(paths[i], "-") == 0)
            continue;
        if (stat(paths[i], &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
            continue;
        f = fopen(paths[i], "a");
        if (!f)
            return fprintf(stderr, "weft-bench: %s: %s\n", paths[i], strerror(errno)), -1;
        fclose(f);
    }
    return 0;
}

static int close_out(FILE *f, const char *path)
{
    int bad = ferror(f);

    bad |= f == stdout ? fflush(f) : fclose(f);
    if (bad)
        fprintf(stderr, "weft-bench: %s: could not write everything\n", path);
    return bad ? -1 : 0;
}

static void put_string(FILE *f, const char *s)
{
    fputc('"', f);
    for (; s && *s; s++) {
        if (*s == '"' || *s == '\\')
            fprintf(f, "\\%c", *s);
        else if ((unsigned char)*s < 0x20)
            fprintf(f, "\\u%04x", (unsigned)*s);
        else
            fputc(*s, f);
    }
    fputc('"', f);
}

static void json_timing(FILE *f, const struct bench *b, const char *name, const struct bench_timing *t)
{
    fprintf(f, ", \"%s\": ", name);
    if (!t->valid) {
        fputs("null", f);
        return;
    }
    fprintf(f, "{\"time_us\": %.4f, \"cpu_us\": %.4f, \"algbw_gbs\": %.4f, \"busbw_gbs\": %.4f, \"iters\": %llu, ",
            t->time_us, t->cpu_us, t->algbw, t->busbw, (unsigned long long)t->iters);
    if (t->checked)
        fprintf(f, "\"wrong\": %llu", (unsigned long long)t->wrong);
    else
        fputs("\"wrong\": null", f);
    if (t->coded)
        fprintf(f, ", \"bytes_sent\": %.1f, \"nmse\": %.6e, \"nmse_allowed\": %.6e, \"codec_bypassed\": %s", t->sent,
                t->nmse, t->nmse_allowed, t->bypassed ? "true" : "false");
    if (t->mpi_us > 0)
        fprintf(f, ", \"mpi_us\": %.4f, \"mpi_wrong\": %llu, \"mpi_ratio\": %.4f", t->mpi_us,
                (unsigned long long)t->mpi_wrong, t->mpi_us / t->time_us);
    if (b->o.percentiles) {
        fputs(", \"percentiles_us\": {", f);
        for (int i = 0; i < BENCH_NUM_PERCENTILES; i++)
            fprintf(f, "%s\"%g\": %.4f", i ? ", " : "", bench_percentile_points[i], t->percentile_us[i]);
        fputc('}', f);
    }
    fputc('}', f);
}

static void json_row(FILE *f, const struct bench *b, const struct bench_row *r)
{
    fprintf(f, "    {\"collective\": \"%s\", \"bytes\": %zu, \"count\": %zu, \"type\": \"%s\", ",
            bench_coll_name(r->coll), r->bytes, r->count, weft_dtype_name(r->dtype));
    if (bench_coll_reduces(r->coll))
        fprintf(f, "\"redop\": \"%s\", ", weft_op_name(r->op));
    else
        fputs("\"redop\": null, ", f);
    fprintf(f, "\"root\": %d", bench_coll_rooted(r->coll) ? r->root : -1);
    json_timing(f, b, "out_of_place", &r->out);
    json_timing(f, b, "in_place", &r->in);
    fputc('}', f);
}

int bench_write_json(const struct bench *b)
{
    FILE *f;

    if (!b->o.json)
        return 0;
    f = open_out(b->o.json);
    if (!f)
        return -1;
    fputs("{\n  \"program\": \"weft-bench\",\n  \"version\": ", f);
    put_string(f, weft_version());
    fprintf(f, ",\n  \"ranks\": %d,\n  \"local_ranks\": %d,\n  \"host\": ", b->nranks, b->local_nranks);
    put_string(f, b->host);
    fprintf(f, ",\n  \"form\": \"%s\",\n  \"memory\": \"%s\",\n  \"dirty\": \"%s\",\n  \"algorithm\": ",
            bench_form_name(b->o.form), bench_memory_name(b->o.memory), bench_dirty_name(b->o.dirty));
    if (b->o.algorithm)
        put_string(f, b->o.algorithm);
    else
        fputs("null", f);
    if (b->o.codec || b->default_codec) {
        fputs(",\n  \"codec\": ", f);
        put_string(f, b->o.codec ? b->o.codec : b->default_codec);
    }
    if (b->mpi) {
        char version[256] = "";
        bench_mpi_ops(b->mpi)->version(version, sizeof(version));
        fputs(",\n  \"mpi\": ", f);
        put_string(f, version);
    }
    fprintf(f, ",\n  \"wrong\": %llu,\n  \"average_busbw_gbs\": %.4f,\n  \"rows\": [\n", (unsigned long long)b->wrong,
            b->busbw_n ? b->busbw_sum / (double)b->busbw_n : 0);
    for (size_t i = 0; i < b->nrows; i++) {
        json_row(f, b, &b->rows[i]);
        fputs(i + 1 < b->nrows ? ",\n" : "\n", f);
    }
    fputs("  ]\n}\n", f);
    return close_out(f, b->o.json);
}

static void csv_row(FILE *f, const struct bench *b, const struct bench_row *r, const struct bench_timing *t,
                    const char *place)
{
    if (!t->valid)
        return;
    fprintf(f, "%s,%s,%d,%zu,%zu,%s,%s,%d,%llu,%.4f,%.4f,%.4f,%.4f,", bench_coll_name(r->coll), place, b->nranks,
            r->bytes, r->count, weft_dtype_name(r->dtype), bench_coll_reduces(r->coll) ? weft_op_name(r->op) : "",
            bench_coll_rooted(r->coll) ? r->root : -1, (unsigned long long)t->iters, t->time_us, t->cpu_us, t->algbw,
            t->busbw);
    if (t->checked)
        fprintf(f, "%llu", (unsigned long long)t->wrong);
    if (bench_codec(b))
        fprintf(f, t->coded ? ",%.1f,%.6e" : ",,", t->sent, t->nmse);
    if (b->mpi)
        fprintf(f, t->mpi_us > 0 ? ",%.4f" : ",", t->mpi_us);
    for (int i = 0; b->o.percentiles && i < BENCH_NUM_PERCENTILES; i++)
        fprintf(f, ",%.4f", t->percentile_us[i]);
    fputc('\n', f);
}

int bench_write_csv(const struct bench *b)
{
    FILE *f;

    if (!b->o.csv)
        return 0;
    f = open_out(b->o.csv);
    if (!f)
        return -1;
    fprintf(f, "collective,place,ranks,bytes,count,type,redop,root,iters,time_us,cpu_us,algbw_gbs,busbw_gbs,wrong");
    if (bench_codec(b))
        fputs(",bytes_sent,nmse", f);
    if (b->mpi)
        fputs(",mpi_us", f);
    if (b->o.percentiles)
        fputs(",p50_us,p90_us,p99_us,p99.9_us,max_us", f);
    fputc('\n', f);
    for (size_t i = 0; i < b->nrows; i++) {
        csv_row(f, b, &b->rows[i], &b->rows[i].out, "out");
        csv_row(f, b, &b->rows[i], &b->rows[i].in, "in");
    }
    return close_out(f, b->o.csv);
}
