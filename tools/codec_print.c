/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-codec: what was measured, as tables or as JSON. */
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "weft_codec.h"

double codec_bits(const struct codec_row *row)
{
    return 8.0 * (double)row->image_bytes / (double)row->elems;
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

static void print_speeds(const struct codec_result *r, int wide)
{
    printf(
        "# bytes read and written per second, and of memcpy's; fp32 vectors of %zu bytes, %d thread%s, median of %d\n",
        r->options->bytes, r->options->threads, r->options->threads > 1 ? "s" : "", r->options->repeat);
    printf("%-*s %8s %7s %16s %16s %16s %9s\n", wide, "# codec", "bits/el", "ratio", "encode", "enc+residual", "decode",
           "memcpy");
    for (size_t i = 0; i < r->nrows; i++) {
        const struct codec_row *row = &r->rows[i];
        printf("%-*s %8.3f %7.2f", wide, row->codec, codec_bits(row), 32 / codec_bits(row));
        for (int k = 0; k < CODEC_OPERATIONS; k++)
            printf("  %5.2fGB/s %5.2fx", rate(&row->speed[k]) / 1e9, row->speed[k].of_memcpy);
        printf(" %5.2fGB/s\n", row->memcpy_rate / 1e9);
    }
}

static void print_errors(const struct codec_result *r, int wide)
{
    puts("# what is lost: squared error over squared length (NMSE), and the largest error of an element");
    printf("%-*s %8s %7s  %-12s %9s %11s %11s %9s\n", wide, "# codec", "bits/el", "ratio", "data", "elements", "NMSE",
           "max error", "not held");
    for (size_t i = 0; i < r->nrows; i++)
        for (size_t d = 0; d < r->ndata; d++) {
            const struct codec_row *row = &r->rows[i];
            const struct codec_error *e = &row->errors[d];
            double bits = codec_bits(row);
            printf("%-*s %8.3f %7.2f  %-12s %9zu %11.4g %11.4g %9zu\n", wide, row->codec, bits,
                   8.0 * (double)weft_dtype_bytes(r->data[d].dtype) / bits, r->data[d].name, r->data[d].elems, e->nmse,
                   e->max_error, e->lost);
        }
}

void codec_print_table(const struct codec_result *r)
{
    int wide = width(r);

    if (r->options->speed)
        print_speeds(r, wide);
    if (r->options->speed && r->options->errors)
        putchar('\n');
    if (r->options->errors)
        print_errors(r, wide);
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
        json_array_append_new(all, json_pack("{s:s, s:s, s:I, s:o, s:o, s:o, s:o, s:I}", "data", r->data[d].name,
                                             "dtype", weft_dtype_name(r->data[d].dtype), "elements",
                                             (json_int_t)r->data[d].elems, "ratio",
                                             real(8.0 * (double)weft_dtype_bytes(r->data[d].dtype) / codec_bits(row)),
                                             "nmse", real(e->nmse), "max_error", real(e->max_error), "max_value",
                                             real(e->max_value), "not_held", (json_int_t)e->lost));
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
    status = all ? json_dumpf(all, stdout, JSON_INDENT(2)) : -1;
    putchar('\n');
    if (status)
        fprintf(stderr, "weft-codec: the results could not be written as JSON\n");
    json_decref(all);
    return status ? -1 : 0;
}
