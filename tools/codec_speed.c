/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-codec: how fast codecs are, against memcpy. Each operation follows a memcpy of the same vector, so that a machine which
 * slows down for a while slows both. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "weft_codec.h"

#define SHARE 65536u /* elements: threads' shares are whole blocks of every codec */

const char *const codec_operation_names[CODEC_OPERATIONS] = {"encode", "encode_residual", "decode"};

struct bench {
    const char *codec;
    size_t elems, image_bytes;
    float *src, *dst, *residual;
    unsigned char *image;
    int threads, operation, quit;
    pthread_barrier_t begin, end;
    weft_status status; /* of the first thread */
};

struct worker {
    struct bench *b;
    int index;
    pthread_t thread;
};

enum { MEMCPY = CODEC_OPERATIONS };

static void share(const struct bench *b, int index, size_t *first, size_t *count)
{
    size_t shares = (b->elems + SHARE - 1) / SHARE;
    size_t from = shares * (size_t)index / (size_t)b->threads * SHARE;
    size_t to = shares * (size_t)(index + 1) / (size_t)b->threads * SHARE;

    to = to < b->elems ? to : b->elems;
    *first = from < to ? from : to;
    *count = to - *first;
}

static weft_status operate(struct bench *b, int index)
{
    size_t first, count, at = 0, bytes = 0;
    weft_status st;

    share(b, index, &first, &count);
    if (b->operation == MEMCPY) {
        memcpy(b->dst + first, b->src + first, count * sizeof(float));
        return WEFT_SUCCESS;
    }
    st = weft_codec_bytes(b->codec, first, &at);
    if (st >= 0)
        st = b->operation == CODEC_DECODE ? weft_codec_image_bytes(b->codec, b->image + at, count, &bytes)
                                          : weft_codec_bytes(b->codec, count, &bytes);
    if (st < 0)
        return st;
    if (b->operation == CODEC_DECODE)
        return weft_codec_decode(b->codec, b->image + at, bytes, WEFT_FLOAT32, b->dst + first, count);
    return weft_codec_encode(b->codec, WEFT_FLOAT32, b->src + first,
                             b->operation == CODEC_FEEDBACK ? b->residual + first : NULL, count, b->image + at, bytes);
}

static void *work(void *arg)
{
    struct worker *w = arg;

    for (;;) {
        pthread_barrier_wait(&w->b->begin);
        if (w->b->quit)
            return NULL;
        (void)operate(w->b, w->index);
        pthread_barrier_wait(&w->b->end);
    }
}

static double seconds(struct bench *b, int operation)
{
    struct timespec from, to;

    b->operation = operation;
    clock_gettime(CLOCK_MONOTONIC, &from);
    if (b->threads > 1)
        pthread_barrier_wait(&b->begin);
    weft_status st = operate(b, 0);
    if (b->threads > 1)
        pthread_barrier_wait(&b->end);
    clock_gettime(CLOCK_MONOTONIC, &to);
    if (st < 0 && b->status >= 0) {
        b->status = st;
        fprintf(stderr, "weft-codec: %s: %s\n", b->codec, weft_thread_error());
    }
    return (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) * 1e-9;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, ascending);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static double bytes_of(const struct bench *b, int operation)
{
    double vector = (double)b->elems * sizeof(float), image = (double)b->image_bytes;

    return operation == MEMCPY ? 2 * vector : operation == CODEC_FEEDBACK ? 3 * vector + image : vector + image;
}

/* After an encoding; shorter than there is room for where the rate is variable. */
static void take_image_bytes(struct bench *b)
{
    size_t first, count, at, bytes, all = 0;

    for (int i = 0; i < b->threads; i++) {
        share(b, i, &first, &count);
        if (weft_codec_bytes(b->codec, first, &at) < 0 ||
            weft_codec_image_bytes(b->codec, b->image + at, count, &bytes) < 0)
            return;
        all += bytes;
    }
    b->image_bytes = all;
}

/* The first round warms up, and is not counted. `copies` gets all of memcpy's times. */
static void measure(struct bench *b, int operation, int repeat, double *times, double *ratios, double *copies,
                    struct codec_speed *speed)
{
    for (int i = -1; i < repeat; i++) {
        double copy = seconds(b, MEMCPY), t = seconds(b, operation);
        if (i < 0) {
            take_image_bytes(b);
            continue;
        }
        copies[i] = copy;
        times[i] = t;
        ratios[i] = bytes_of(b, operation) / t / (bytes_of(b, MEMCPY) / copy);
    }
    speed->seconds = median(times, repeat);
    speed->bytes = bytes_of(b, operation);
    speed->of_memcpy = median(ratios, repeat);
}

static int measure_all(struct bench *b, struct codec_row *row, int repeat)
{
    double *v = calloc((size_t)repeat * (2 + CODEC_OPERATIONS), sizeof *v);
    double *copies = v ? v + 2 * repeat : NULL;

    if (!v)
        return -1;
    for (int k = 0; k < CODEC_OPERATIONS; k++)
        measure(b, k, repeat, v, v + repeat, copies + k * repeat, &row->speed[k]);
    row->memcpy_rate = bytes_of(b, MEMCPY) / median(copies, repeat * CODEC_OPERATIONS);
    free(v);
    return b->status < 0 ? -1 : 0;
}

static int with_team(struct bench *b, struct codec_row *row, int repeat)
{
    struct worker *team = calloc((size_t)b->threads, sizeof *team);
    int started = 1, status = -1;

    if (!team)
        return -1;
    pthread_barrier_init(&b->begin, NULL, (unsigned)b->threads);
    pthread_barrier_init(&b->end, NULL, (unsigned)b->threads);
    for (; started < b->threads; started++) {
        team[started] = (struct worker){.b = b, .index = started};
        if (pthread_create(&team[started].thread, NULL, work, &team[started]))
            break;
    }
    if (started < b->threads) { /* those that wait for the rest never work: the process ends */
        fprintf(stderr, "weft-codec: only %d of %d threads could be started\n", started, b->threads);
        exit(1);
    }
    status = measure_all(b, row, repeat);
    b->quit = 1;
    if (b->threads > 1)
        pthread_barrier_wait(&b->begin);
    for (int i = 1; i < started; i++)
        pthread_join(team[i].thread, NULL);
    pthread_barrier_destroy(&b->begin);
    pthread_barrier_destroy(&b->end);
    free(team);
    return status;
}

static float *vector(size_t elems)
{
    void *p;

    return posix_memalign(&p, 64, elems * sizeof(float)) ? NULL : p;
}

static void fill(struct bench *b, uint64_t seed)
{
    struct codec_data d;
    size_t period = b->elems < SHARE ? b->elems : SHARE;

    memset(b->dst, 0, b->elems * sizeof(float));
    memset(b->residual, 0, b->elems * sizeof(float));
    memset(b->image, 0, b->image_bytes);
    if (codec_data_generate(&d, CODEC_GAUSSIAN, period, seed)) {
        memset(b->src, 0, b->elems * sizeof(float));
        return;
    }
    for (size_t at = 0; at < b->elems; at += period)
        memcpy(b->src + at, d.values, (b->elems - at < period ? b->elems - at : period) * sizeof(float));
    codec_data_free(&d);
}

int codec_measure_speed(struct codec_row *row, const struct codec_options *o)
{
    struct bench b = {.codec = row->codec, .elems = o->bytes / sizeof(float), .threads = o->threads};
    int status = -1;

    if (weft_codec_bytes(b.codec, b.elems, &b.image_bytes) < 0) {
        fprintf(stderr, "weft-codec: %s: %s\n", b.codec, weft_thread_error());
        return -1;
    }
    b.src = vector(b.elems);
    b.dst = vector(b.elems);
    b.residual = vector(b.elems);
    b.image = malloc(b.image_bytes);
    if (b.src && b.dst && b.residual && b.image) {
        fill(&b, o->seed);
        status = with_team(&b, row, o->repeat);
    } else {
        fprintf(stderr, "weft-codec: out of memory, for three vectors of %zu bytes\n", o->bytes);
    }
    free(b.src);
    free(b.dst);
    free(b.residual);
    free(b.image);
    return status;
}
