/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-codec: what was measured, as tables or as JSON. */
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "weft_codec.h"

double codec_bits(const struct codec_row *row)
{
    if (row->errors && row->errors[0].bits > 0)
        return row->errors[0].bits;
    return 8.0 * (double)row->image_bytes / (double)row->elems;
}

double codec_error_bits(const struct codec_row *row, const struct codec_error *error)
{
    return error->bits > 0 ? error->bits : codec_bits(row);
}

static double rate(const struct codec_speed *s)
{
    return s->bytes / s->seconds;
}

static int width(const struct codec_result *r)
{
    size_t most = 12;

    for (size_t i = 0; i < r->nrows; i++)
        most = strlen(r->rows[i].codec) > most ? strlen(r->rows[i].codec) : most;
    return most < 40 ? (int)most : 40;
}

static void head_of_speeds(const struct codec_result *r)
{
    printf(
        "# bytes read and written per second, and of memcpy's; fp32 vectors of %zu bytes, %d thread%s, median of %d\n",
        r->options->bytes, r->options->threads, r->options->threads > 1 ? "s" : "", r->options->repeat);
    printf("%-*s %8s %7s %16s %16s %16s %9s\n", width(r), "# codec", "bits/el", "ratio", "encode", "enc+residual",
           "decode", "memcpy");
}

static void print_speed(const struct codec_result *r, const struct codec_row *row)
{
    printf("%-*s %8.3f %7.2f", width(r), row->codec, codec_bits(row), 32 / codec_bits(row));
    for (int k = 0; k < CODEC_OPERATIONS; k++)
        printf("  %5.2fGB/s %5.2fx", rate(&row->speed[k]) / 1e9, row->speed[k].of_memcpy);
    printf(" %5.2fGB/s\n", row->memcpy_rate / 1e9);
}

static void head_of_errors(const struct codec_result *r)
{
    puts("# what is lost: squared error over squared length (NMSE), and the largest error of an element");
    printf("%-*s %8s %7s  %-12s %9s %11s %11s %9s\n", width(r), "# codec", "bits/el", "ratio", "data", "elements",
           "NMSE", "max error", "not held");
}

/* Names of data come from files: nothing of them may reach the terminal as an order. */
static void print_errors(const struct codec_result *r, const struct codec_row *row)
{
    char name[64];

    for (size_t d = 0; d < r->ndata; d++) {
        const struct codec_error *e = &row->errors[d];
        double bits = codec_error_bits(row, e);
        printf("%-*s %8.3f %7.2f  %-12s %9zu %11.4g %11.4g %9zu\n", width(r), row->codec, bits,
               8.0 * (double)weft_dtype_bytes(r->data[d].dtype) / bits,
               codec_clean(r->data[d].name, strlen(r->data[d].name), name), r->data[d].elems, e->nmse, e->max_error,
               e->lost);
    }
}

void codec_print_head(const struct codec_result *r)
{
    if (r->options->speed)
        head_of_speeds(r);
    else
        head_of_errors(r);
    fflush(stdout);
}

void codec_print_row(const struct codec_result *r, const struct codec_row *row)
{
    if (r->options->speed)
        print_speed(r, row);
    else
        print_errors(r, row);
    fflush(stdout);
}

void codec_print_rest(const struct codec_result *r)
{
    if (r->options->speed && r->options->errors) {
        putchar('\n');
        head_of_errors(r);
        for (size_t i = 0; i < r->nrows; i++)
            print_errors(r, &r->rows[i]);
    }
    if (r->left_out)
        printf("# left out: %zu tensors of types that codecs do not take\n", r->left_out);
}

/* JSON has no NaN. */
static json_t *real(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

static json_t *speeds(const struct codec_row *row)
{
    json_t *all = json_object();

    for (int k = 0; k < CODEC_OPERATIONS; k++) {
        const struct codec_speed *s = &row->speed[k];
        json_object_set_new(all, codec_operation_names[k],
                            json_pack("{s:o, s:o, s:o, s:o}", "seconds", real(s->seconds), "bytes", real(s->bytes),
                                      "bytes_per_second", real(rate(s)), "of_memcpy", real(s->of_memcpy)));
    }
    json_object_set_new(all, "memcpy", json_pack("{s:o}", "bytes_per_second", real(row->memcpy_rate)));
    return all;
}

static json_t *errors(const struct codec_result *r, const struct codec_row *row)
{
    json_t *all = json_array();

    for (size_t d = 0; d < r->ndata; d++) {
        const struct codec_error *e = &row->errors[d];
        json_array_append_new(
            all, json_pack("{s:s, s:s, s:I, s:o, s:o, s:o, s:o, s:I}", "data", r->data[d].name, "dtype",
                           weft_dtype_name(r->data[d].dtype), "elements", (json_int_t)r->data[d].elems, "ratio",
                           real(8.0 * (double)weft_dtype_bytes(r->data[d].dtype) / codec_error_bits(row, e)), "nmse",
                           real(e->nmse), "max_error", real(e->max_error), "max_value", real(e->max_value), "not_held",
                           (json_int_t)e->lost));
    }
    return all;
}

int codec_print_json(const struct codec_result *r)
{
    const struct codec_options *o = r->options;
    json_t *rows = json_array(), *all;
    int status;

    for (size_t i = 0; i < r->nrows; i++) {
        const struct codec_row *row = &r->rows[i];
        json_t *entry = json_pack("{s:s, s:o}", "codec", row->codec, "bits_per_element", real(codec_bits(row)));
        if (o->speed)
            json_object_set_new(entry, "speed", speeds(row));
        if (o->errors)
            json_object_set_new(entry, "errors", errors(r, row));
        json_array_append_new(rows, entry);
    }
    all = json_pack("{s:I, s:i, s:i, s:I, s:I, s:o}", "bytes", (json_int_t)o->bytes, "threads", o->threads, "repeat",
                    o->repeat, "seed", (json_int_t)o->seed, "left_out", (json_int_t)r->left_out, "codecs", rows);
    status = all ? json_dumpf(all, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII) : -1;
    putchar('\n');
    if (status)
        fprintf(stderr, "weft-codec: the results could not be written as JSON\n");
    json_decref(all);
    return status ? -1 : 0;
}
