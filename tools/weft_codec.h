/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-codec: how fast codecs are, how long their images, and what they lose. Uses the installed headers only. */
#ifndef WEFT_CODEC_H
#define WEFT_CODEC_H

#include <stdint.h>
#include <stdio.h>
#include <weft/weft_compress.h>

#define CODEC_REASON 256

/* ---- Files with tensors (codec_file.c, codec_npy.c, codec_safetensors.c) ---- */

struct codec_tensor {
    char *name;
    char type[16];    /* as the file has it: "F32", "<f4" */
    weft_dtype dtype; /* of those that codecs take; -1: another */
    size_t at, bytes; /* of the file's bytes: not aligned */
    size_t elems;
};

struct codec_file {
    struct codec_tensor *tensors;
    size_t ntensors;
};

/* What is in `bytes` bytes of a .npy or safetensors file. 0; -1, and `why` says what is wrong, and the list is empty. Every tensor
 * lies within the bytes, and has as many as its shape says. */
int codec_file_parse(const unsigned char *data, size_t bytes, struct codec_file *file, char why[CODEC_REASON]);
int codec_npy_parse(const unsigned char *data, size_t bytes, struct codec_file *file, char why[CODEC_REASON]);
int codec_safetensors_parse(const unsigned char *data, size_t bytes, struct codec_file *file, char why[CODEC_REASON]);
void codec_file_free(struct codec_file *file);
/* Its next tensor, with its name; NULL: no memory, and `why` says so. */
struct codec_tensor *codec_file_add(struct codec_file *file, const char *name, char why[CODEC_REASON]);
/* One more dimension of a shape. -1: more elements than could be counted. */
int codec_shape_times(size_t *elems, uint64_t dimension);
/* Printable, for messages: text is cut and cleaned. */
const char *codec_clean(const char *text, size_t bytes, char out[64]);

/* ---- What is encoded (codec_data.c) ---- */

struct codec_data {
    char *name;
    weft_dtype dtype;
    size_t elems;
    void *values;
    double *exact; /* the same, as doubles */
};

enum { CODEC_GAUSSIAN, CODEC_LAPLACE, CODEC_STUDENT, CODEC_SPARSE, CODEC_GENERATED };
/* 0; -1: no memory. Of one seed the same values everywhere, as far as the C library's log and cos agree. */
int codec_data_generate(struct codec_data *d, int kind, size_t elems, uint64_t seed);
int codec_data_copy(struct codec_data *d, const char *name, weft_dtype dtype, const void *values, size_t elems);
void codec_data_free(struct codec_data *d);

/* ---- What is measured ---- */

struct codec_error {
    double nmse;      /* NaN: the data is all zero, and what is decoded is not */
    double max_error; /* of finite elements */
    double max_value;
    double bits; /* an element, of a codec of a variable rate; else 0 */
    size_t lost; /* finite elements that are not finite when decoded: in a block with one that is not */
};

enum { CODEC_ENCODE, CODEC_FEEDBACK, CODEC_DECODE, CODEC_OPERATIONS };
struct codec_speed {
    double seconds, bytes; /* the median; read and written */
    double of_memcpy;      /* bytes a second, of memcpy's: the median of the ratios of runs that followed each other */
};

struct codec_row {
    const char *codec;
    size_t image_bytes; /* of `elems` elements */
    size_t elems;
    struct codec_speed speed[CODEC_OPERATIONS];
    double memcpy_rate;         /* bytes read and written a second, in between: the median */
    struct codec_error *errors; /* of each data */
};

struct codec_options {
    size_t bytes, elems; /* of fp32, for speed; of generated data */
    uint64_t seed;
    int repeat, threads, json, speed, errors;
    const char *file, *tensor, *plot;
};

struct codec_result {
    const struct codec_options *options;
    struct codec_row *rows;
    struct codec_data *data;
    size_t nrows, ndata;
    size_t left_out; /* tensors of types that codecs do not take */
};

extern const char *const codec_operation_names[CODEC_OPERATIONS];

/* 0; -1, and it was said. */
int codec_measure_error(const char *codec, const struct codec_data *d, struct codec_error *error);
int codec_measure_speed(struct codec_row *row, const struct codec_options *o);
/* Of a long vector; where the rate is variable, of the first data, or at most if there is none. */
double codec_bits(const struct codec_row *row);
double codec_error_bits(const struct codec_row *row, const struct codec_error *error);
/* In that order: the rows as they are measured, then what is left to print. */
void codec_print_head(const struct codec_result *r);
void codec_print_row(const struct codec_result *r, const struct codec_row *row);
void codec_print_rest(const struct codec_result *r);
int codec_print_json(const struct codec_result *r);
/* Before anything is measured: NULL, and said, where the file cannot be written. codec_plot closes it. */
FILE *codec_plot_open(const char *path);
int codec_plot(FILE *f, const char *path, const struct codec_result *r);

#endif
