/* SPDX-License-Identifier: BSD-3-Clause */
/* Speed of codecs' kernels beside memcpy, in turn, in one run; and what selecting the largest by block costs in error.
 * Built with the tests, not run by them: bench_codec [MiB [CODEC...]], or errors instead: bench_codec MiB errors */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/reduce.h"
#include "compress/codec.h"

enum { FEWEST_ROUNDS = 5, MOST_ROUNDS = 301, IMAGES = 4 };
static float *src, *dst, *residual;
static unsigned char *image;
static size_t n;
static int rounds; /* more where one is short: an interruption is as long as many of them */

static uint64_t random_state = 1;

static double uniform(void)
{
    random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
    return ((double)(random_state >> 32) + 0.5) / 4294967296.0;
}

static double gaussian(void)
{
    return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
}

static double draw(int family)
{
    if (family == 0)
        return gaussian();
    if (family == 1)
        return (uniform() < .5 ? -1 : 1) * log(uniform());
    return gaussian() / sqrt((pow(gaussian(), 2) + pow(gaussian(), 2) + pow(gaussian(), 2)) / 3);
}

/* ---- Speed ---- */

enum what { COPY, ENCODE, ENCODE_EF, DECODE, ACCUMULATE, SUM, SUM_ENCODE, KINDS };

static void once(enum what what, const struct weft_codec *c)
{
    const void *images[IMAGES] = {image, image, image, image};
    const float *plain[IMAGES] = {NULL};
    const struct weft_codec_operands o = {IMAGES, images, plain};
    const void *one[] = {NULL, image};
    const float *there[] = {dst, NULL};
    const struct weft_codec_operands added = {2, one, there};

    switch (what) {
    case COPY:
        memcpy(dst, src, n * sizeof *src);
        break;
    case ENCODE:
        wi_codec_encode(c, src, NULL, n, image);
        break;
    case ENCODE_EF:
        wi_codec_encode(c, src, residual, n, image);
        break;
    case DECODE:
        wi_codec_decode(c, image, n, dst);
        break;
    case ACCUMULATE:
        wi_codec_sum(c, &added, n, dst);
        break;
    case SUM:
        wi_codec_sum(c, &o, n, dst);
        break;
    default:
        wi_codec_sum_encode(c, NULL, &o, 1, NULL, n, image + wi_codec_bytes(c, n), dst);
    }
}

/* Each beside a copy, the median of the ratios: other work on the machine meets both. */
static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* That are read and written. A copy's are 2 of plain data. */
static double bytes_of(enum what what, const struct weft_codec *c)
{
    double plain = (double)(n * sizeof *src), coded = (double)wi_codec_bytes(c, n);
    const double bytes[KINDS] = {[COPY] = 2 * plain,
                                 [ENCODE] = plain + coded,
                                 [ENCODE_EF] = 3 * plain + coded,
                                 [DECODE] = coded + plain,
                                 [ACCUMULATE] = coded + 2 * plain,
                                 [SUM] = IMAGES * coded + plain,
                                 [SUM_ENCODE] = (IMAGES + 1) * coded + plain};

    return bytes[what];
}

static void measure(const char *spec)
{
    struct weft_codec c;

    if (wi_codec_parse(spec, &c) < 0) {
        fprintf(stderr, "bench_codec: there is no codec %s\n", spec);
        exit(2);
    }
    printf("%-22s", spec);
    for (int what = ENCODE; what < KINDS; what++) {
        double ratio[MOST_ROUNDS], rate[MOST_ROUNDS];
        memset(residual, 0, n * sizeof *residual);
        for (int round = 0; round < rounds; round++) {
            uint64_t start = wi_now_ns(), middle;
            once(COPY, &c);
            middle = wi_now_ns();
            once((enum what)what, &c);
            rate[round] = (double)(wi_now_ns() - middle);
            rate[round] = bytes_of((enum what)what, &c) / rate[round];
            ratio[round] = rate[round] / (bytes_of(COPY, &c) / (double)(middle - start));
        }
        qsort(ratio, (size_t)rounds, sizeof *ratio, by_value);
        qsort(rate, (size_t)rounds, sizeof *rate, by_value);
        printf(" %6.2f (%5.1f)", ratio[rounds / 2], rate[rounds / 2]);
    }
    printf("\n");
}

/* ---- Error ---- */

static double error_of(const char *spec, size_t elems)
{
    double error = 0, norm = 0;
    struct weft_codec c;

    if (wi_codec_parse(spec, &c) < 0)
        exit(1);
    wi_codec_encode(&c, src, NULL, elems, image);
    wi_codec_decode(&c, image, elems, dst);
    for (size_t i = 0; i < elems; i++) {
        error += pow((double)src[i] - (double)dst[i], 2);
        norm += pow((double)src[i], 2);
    }
    return error / norm;
}

static int larger_first(const void *a, const void *b)
{
    float x = fabsf(*(const float *)a), y = fabsf(*(const float *)b);

    return (x < y) - (x > y);
}

/* Of the largest of all. */
static double error_of_all(double ratio, size_t elems)
{
    double left = 0, norm = 0;

    memcpy(dst, src, elems * sizeof *dst);
    qsort(dst, elems, sizeof *dst, larger_first);
    for (size_t i = 0; i < elems; i++) {
        norm += pow((double)dst[i], 2);
        left += i < (size_t)(ratio * (double)elems + .5) ? 0 : pow((double)dst[i], 2);
    }
    return left / norm;
}

static void errors(void)
{
    static const char *const families[] = {"Gaussian", "Laplace", "t3", "Gaussian, layers"};
    static const double ratios[] = {.001, .01, .1};
    size_t elems = n < (size_t)1 << 22 ? n : (size_t)1 << 22;

    for (int family = 0; family < 4; family++) {
        for (size_t i = 0; i < elems; i++) /* layers of 100,000 elements, of deviations from 1/4 to 4 */
            src[i] = (float)(draw(family % 3) * (family == 3 ? pow(2, (double)(i / 100000 % 5) - 2) : 1));
        for (size_t r = 0; r < 3; r++) {
            printf("%-16s ratio %-5g: of all %.4f; by blocks", families[family], ratios[r],
                   error_of_all(ratios[r], elems));
            for (int block = 1024; block <= 65536; block *= 4) {
                char spec[96];
                snprintf(spec, sizeof spec, "topk:ratio=%g,block=%d", ratios[r], block);
                printf(" %d %.4f", block, error_of(spec, elems));
            }
            printf("\n");
        }
    }
}

int main(int argc, char **argv)
{
    static const char *const specs[] = {"int8", "int4",  "int2", "sign",      "bf16",   "fp16",
                                        "e4m3", "mxfp4", "topk", "blocktopk", "randomk"};
    int errors_only = argc > 2 && !strcmp(argv[2], "errors");

    n = ((size_t)(argc > 1 ? atoi(argv[1]) : 256) << 20) / sizeof *src;
    rounds = (int)(((size_t)1 << 27) / (n + 1)) | 1;
    rounds = rounds < FEWEST_ROUNDS ? FEWEST_ROUNDS : rounds > MOST_ROUNDS ? MOST_ROUNDS : rounds;
    src = malloc(n * sizeof *src);
    dst = malloc(n * sizeof *src);
    residual = malloc(n * sizeof *src);
    image = malloc(2 * n * sizeof *src);
    if (!src || !dst || !residual || !image)
        return 1;
    for (size_t i = 0; i < n; i++)
        src[i] = i < (1 << 20) ? (float)gaussian() : src[i - (1 << 20)] * 1.0001f;
    if (errors_only) {
        errors();
    } else {
        printf(
            "%s, %zu MiB, one core: bytes read and written a second, of memcpy's in the same round (GB/s)\n%-22s %14s %14s %14s "
            "%14s %14s %14s\n",
            wi_isa_name(), n >> 18, "", "encode", "with residual", "decode", "accumulate", "sum of 4", "and encode");
        for (size_t i = 0; i < (argc > 2 ? (size_t)argc - 2 : sizeof specs / sizeof *specs); i++)
            measure(argc > 2 ? argv[i + 2] : specs[i]);
    }
    free(src);
    free(dst);
    free(residual);
    free(image);
    return 0;
}
