/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-codec: how fast codecs are, how long their images, and what they lose. */
#include "weft_codec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "codec_options.h"
#include "tool.h"

static int say(const char *what, const char *why)
{
    fprintf(stderr, "weft-codec: %s: %s\n", what, why);
    return -1;
}

/* ---- Which codecs ---- */

struct names {
    const char **list;
    size_t n;
    int lost;
};

static void keep(void *arg, const char *codec, const char *summary)
{
    struct names *names = arg;
    const char **grown = realloc(names->list, (names->n + 1) * sizeof *grown);

    (void)summary;
    if (grown) {
        names->list = grown;
        names->list[names->n++] = codec;
    } else {
        names->lost = 1;
    }
}

static int choose_codecs(struct codec_result *r, char *const *given, int n)
{
    struct names names = {NULL, 0, 0};
    char shown[64];
    int status = -1;

    for (int i = 0; i < n; i++)
        keep(&names, given[i], NULL);
    if (!n)
        (void)weft_codec_list(keep, &names);
    r->rows = calloc(names.n + 1, sizeof *r->rows);
    if (!r->rows || names.lost) {
        say("codecs", "out of memory");
        goto out;
    }
    for (r->nrows = 0; r->nrows < names.n; r->nrows++) {
        struct codec_row *row = &r->rows[r->nrows];
        row->codec = names.list[r->nrows];
        row->elems = (size_t)1 << 20; /* bits an element: of a vector that is long enough */
        if (!strcmp(row->codec, "none")) {
            say(row->codec, "it means that nothing is encoded");
            goto out;
        }
        if (weft_codec_bytes(row->codec, row->elems, &row->image_bytes) < 0) {
            say(codec_clean(row->codec, strlen(row->codec), shown), weft_thread_error());
            goto out;
        }
    }
    status = 0;
out:
    free(names.list);
    return status;
}

/* ---- Which data ---- */

static unsigned char *read_all(FILE *f, const char *path, size_t *bytes)
{
    unsigned char *data = NULL;
    size_t room = 0, n;

    for (*bytes = 0;; *bytes += n) {
        if (*bytes == room) {
            unsigned char *grown = realloc(data, room = room ? 2 * room : 1 << 16);
            if (!grown) {
                say(path, "out of memory");
                break;
            }
            data = grown;
        }
        n = fread(data + *bytes, 1, room - *bytes, f);
        if (!n && ferror(f)) {
            say(path, strerror(errno));
            break;
        }
        if (!n)
            return data;
    }
    free(data);
    return NULL;
}

static int take_tensors(struct codec_result *r, const struct codec_file *file, const unsigned char *data)
{
    const struct codec_options *o = r->options;
    int found = 0;

    r->data = calloc(file->ntensors + 1, sizeof *r->data);
    for (size_t i = 0; r->data && i < file->ntensors; i++) {
        const struct codec_tensor *t = &file->tensors[i];
        if (o->tensor && strcmp(o->tensor, t->name) != 0)
            continue;
        found = 1;
        if (t->dtype == (weft_dtype)-1) {
            r->left_out++;
            continue;
        }
        if (codec_data_copy(&r->data[r->ndata], t->name, t->dtype, data + t->at, t->elems))
            return say(o->file, "out of memory");
        r->ndata++;
    }
    if (!r->data)
        return say(o->file, "out of memory");
    if (o->tensor && !found)
        return say(o->file, "there is no tensor of that name");
    return r->ndata ? 0 : say(o->file, "there is no tensor of F32, F16 or BF16");
}

static int read_data(struct codec_result *r)
{
    const char *path = r->options->file;
    FILE *f = fopen(path, "rbe");
    unsigned char *data;
    struct codec_file file;
    char why[CODEC_REASON];
    size_t bytes;
    int status;

    if (!f)
        return say(path, strerror(errno));
    data = read_all(f, path, &bytes);
    fclose(f);
    if (!data)
        return -1;
    status = codec_file_parse(data, bytes, &file, why);
    if (status)
        say(path, why);
    else
        status = take_tensors(r, &file, data);
    codec_file_free(&file);
    free(data);
    return status;
}

static int make_data(struct codec_result *r)
{
    if (!r->options->errors)
        return 0;
    if (r->options->file)
        return read_data(r);
    r->data = calloc(CODEC_GENERATED, sizeof *r->data);
    for (int k = 0; r->data && k < CODEC_GENERATED; k++) {
        if (codec_data_generate(&r->data[k], k, r->options->elems, r->options->seed))
            return say("data", "out of memory");
        r->ndata++;
    }
    return r->data ? 0 : say("data", "out of memory");
}

/* ---- All of it ---- */

static int measure(struct codec_result *r)
{
    if (!r->options->json)
        codec_print_head(r);
    for (size_t i = 0; i < r->nrows; i++) {
        struct codec_row *row = &r->rows[i];
        row->errors = calloc(r->ndata + 1, sizeof *row->errors);
        if (!row->errors)
            return say(row->codec, "out of memory");
        for (size_t d = 0; d < r->ndata; d++)
            if (codec_measure_error(row->codec, &r->data[d], &row->errors[d]))
                return -1;
        if (r->options->speed && codec_measure_speed(row, r->options))
            return -1;
        if (!r->options->json)
            codec_print_row(r, row);
    }
    if (!r->options->json)
        codec_print_rest(r);
    return 0;
}

static void free_result(struct codec_result *r)
{
    for (size_t i = 0; r->rows && i < r->nrows; i++)
        free(r->rows[i].errors);
    for (size_t d = 0; d < r->ndata; d++)
        codec_data_free(&r->data[d]);
    free(r->rows);
    free(r->data);
}

int main(int argc, char **argv)
{
    struct codec_options o = {.bytes = (size_t)64 << 20,
                              .elems = (size_t)1 << 20,
                              .seed = 1,
                              .repeat = 7,
                              .threads = 1,
                              .speed = 1,
                              .errors = 1};
    struct codec_result r = {.options = &o};
    FILE *plot = NULL;
    int status = codec_parse_options(&o, argc, argv);

    if (status >= 0)
        return status;
    status = codec_load_plugins() || choose_codecs(&r, argv + optind, argc - optind) || make_data(&r) ||
             (o.plot && !(plot = codec_plot_open(o.plot))) || measure(&r) || (o.json && codec_print_json(&r));
    if (!status && plot)
        status = codec_plot(plot, o.plot, &r);
    else if (plot)
        fclose(plot);
    free_result(&r);
    return status ? 1 : tool_output_lost("weft-codec");
}
