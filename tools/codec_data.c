/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-codec: vectors to encode, generated or from a file. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "weft_codec.h"

#define ONE_IN 100 /* elements of sparse data that are not zero */
#define TAU 6.283185307179586

/* SplitMix64 (Steele, Lea, Flood, Fast Splittable Pseudorandom Number Generators, OOPSLA 2014). */
static uint64_t next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static double uniform(uint64_t *state) /* above 0, below 1 */
{
    return ((double)(next(state) >> 12) + 0.5) * 0x1p-52;
}

static double gaussian(uint64_t *state)
{
    double radius = sqrt(-2 * log(uniform(state)));

    return radius * cos(TAU * uniform(state));
}

static double laplace(uint64_t *state) /* variance 1 */
{
    double u = uniform(state) - 0.5;

    return (u < 0 ? 1 : -1) * log(1 - 2 * fabs(u)) / sqrt(2);
}

static double student(uint64_t *state) /* three degrees of freedom: variance 3 */
{
    double sum = 0, z = gaussian(state);

    for (int i = 0; i < 3; i++) {
        double g = gaussian(state);
        sum += g * g;
    }
    return z / sqrt(sum / 3);
}

static double sparse(uint64_t *state)
{
    return next(state) % ONE_IN ? 0 : gaussian(state);
}

static int make(struct codec_data *d, const char *name, weft_dtype dtype, size_t elems)
{
    *d = (struct codec_data){.name = strdup(name), .dtype = dtype, .elems = elems};
    d->values = malloc(elems ? elems * weft_dtype_bytes(dtype) : 1);
    d->exact = malloc(elems ? elems * sizeof(double) : 1);
    if (d->name && d->values && d->exact)
        return 0;
    codec_data_free(d);
    return -1;
}

int codec_data_generate(struct codec_data *d, int kind, size_t elems, uint64_t seed)
{
    static const struct {
        const char *name;
        double (*draw)(uint64_t *);
    } kinds[CODEC_GENERATED] = {
        {"gaussian", gaussian}, {"laplace", laplace}, {"student3", student}, {"sparse", sparse}};
    uint64_t state = seed * CODEC_GENERATED + (uint64_t)kind;

    if (make(d, kinds[kind].name, WEFT_FLOAT32, elems))
        return -1;
    for (size_t i = 0; i < elems; i++) {
        float v = (float)kinds[kind].draw(&state);
        ((float *)d->values)[i] = v;
        d->exact[i] = v;
    }
    return 0;
}

static double of_half(uint16_t h)
{
    double sign = h & 0x8000 ? -1 : 1, fraction = h & 0x3ff;
    int exponent = h >> 10 & 31;

    if (exponent == 31)
        return fraction != 0 ? (double)NAN : sign * (double)INFINITY;
    return sign * (exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24));
}

static double element(weft_dtype dtype, const void *values, size_t i)
{
    uint16_t half;
    uint32_t bits;
    float v;

    if (dtype == WEFT_FLOAT32)
        return ((const float *)values)[i];
    half = ((const uint16_t *)values)[i];
    if (dtype == WEFT_FLOAT16)
        return of_half(half);
    bits = (uint32_t)half << 16;
    memcpy(&v, &bits, sizeof v);
    return v;
}

int codec_data_copy(struct codec_data *d, const char *name, weft_dtype dtype, const void *values, size_t elems)
{
    if (make(d, name, dtype, elems))
        return -1;
    if (elems)
        memcpy(d->values, values, elems * weft_dtype_bytes(dtype));
    for (size_t i = 0; i < elems; i++)
        d->exact[i] = element(dtype, d->values, i);
    return 0;
}

void codec_data_free(struct codec_data *d)
{
    free(d->name);
    free(d->values);
    free(d->exact);
    *d = (struct codec_data){NULL};
}
