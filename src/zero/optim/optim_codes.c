/* SPDX-License-Identifier: BSD-3-Clause */
/* Moments of one or two bytes. Codes are those of dynamic quantisation (Dettmers et al., 8-bit Optimizers via Block-wise
 * Quantization, ICLR 2022): seven decades, the largest with the most steps. A block's scale is its element of the largest
 * magnitude, with its sign, which has the code of exactly 1: what was decoded is encoded as it was. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "zero/optim/optim.h"
#include "zero/optim/optim_isa.h"

#if defined(__clang__)
#pragma clang fp contract(off)
#else
#pragma GCC optimize("fp-contract=off")
#endif

enum { CODES = 256, DECADES = 7 };

/* Values in ascending order, and what lies between two of them. [0]: of both signs, [1]: never negative. */
static float values_of[2][CODES], middle[2][CODES];
static uint8_t zero_code[2];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void add_decades(float *values, int *n, int positive_only, double sign)
{
    double top = 1e-6;

    for (int decade = 0; decade < DECADES; decade++, top *= 10) {
        int steps = 1 << (decade + positive_only);

        for (int i = 0; i < steps; i++)
            values[(*n)++] = (float)(sign * top * (.1 + .9 * (i + .5) / steps));
    }
}

static void sort(float *values)
{
    for (int i = 1; i < CODES; i++)
        for (int k = i; k > 0 && values[k - 1] > values[k]; k--) {
            float other = values[k];

            values[k] = values[k - 1];
            values[k - 1] = other;
        }
}

static void make_tables(void)
{
    for (int kind = 0; kind < 2; kind++) {
        float *values = values_of[kind];
        int n = 0;

        add_decades(values, &n, kind, 1);
        if (!kind)
            add_decades(values, &n, kind, -1);
        values[n++] = 0;
        values[n++] = 1;
        sort(values);
        for (int i = 0; i < CODES; i++) {
            middle[kind][i] = i + 1 < CODES ? (float)(((double)values[i] + (double)values[i + 1]) / 2) : INFINITY;
            if (values[i] == 0)
                zero_code[kind] = (uint8_t)i;
        }
    }
}

/* How many middles are below x: the nearest value's number. */
static unsigned nearest(const float *middles, float x)
{
    unsigned code = 0;

    for (unsigned step = CODES / 2; step; step /= 2)
        code += middles[code + step - 1] < x ? step : 0;
    return code;
}

static void encode_block(int kind, size_t elems, const float *values, uint8_t *codes, float *scale)
{
    float largest = 0;
    int finite = 1;

    for (size_t i = 0; i < elems; i++) {
        finite &= isfinite(values[i]) != 0;
        if (fabsf(values[i]) > fabsf(largest))
            largest = values[i];
    }
    *scale = finite ? largest : NAN;
    for (size_t i = 0; i < elems; i++) {
        unsigned code = largest != 0 && finite ? nearest(middle[kind], values[i] / largest) : zero_code[kind];

        /* A second moment that became 0 would be divided by. */
        codes[i] = (uint8_t)(kind && code == zero_code[1] && values[i] > 0 ? code + 1 : code);
    }
}

void wi_optim_decode(const struct wi_optim_codes *codes, int m, size_t from, size_t elems, float *values)
{
    if (!codes->scales[m]) {
        wi_optim_isa_current()->convert[WI_OPTIM_F32][WI_OPTIM_BF16][0](
            values, (const uint16_t *)codes->codes[m] + from, elems);
        return;
    }
    const uint8_t *code = (const uint8_t *)codes->codes[m] + from;

    pthread_once(&once, make_tables);
    for (size_t i = 0; i < elems; i++) {
        float scale = codes->scales[m][(from + i) / WI_OPTIM_BLOCK];

        values[i] = scale == 0 ? 0 : values_of[m][code[i]] * scale;
    }
}

void wi_optim_encode(const struct wi_optim_codes *codes, int m, size_t from, size_t elems, const float *values)
{
    if (!codes->scales[m]) {
        wi_optim_isa_current()->convert[WI_OPTIM_BF16][WI_OPTIM_F32][0]((uint16_t *)codes->codes[m] + from, values,
                                                                        elems);
        return;
    }
    pthread_once(&once, make_tables);
    for (size_t at = 0; at < elems; at += WI_OPTIM_BLOCK)
        encode_block(m, elems - at < WI_OPTIM_BLOCK ? elems - at : WI_OPTIM_BLOCK, values + at,
                     (uint8_t *)codes->codes[m] + from + at, &codes->scales[m][(from + at) / WI_OPTIM_BLOCK]);
}

/* ---- Updates ---- */

struct coded_job {
    const struct wi_optim_piece *pieces;
    const struct wi_optim_codes *codes;
    float *scratch;
    _Atomic size_t threads; /* that have a part of the scratch memory */
};

size_t wi_optim_coded_bytes(int threads)
{
    return (size_t)threads * 2 * WI_OPTIM_PART_ELEMS * sizeof(float);
}

static void coded_part(void *arg, void *own, const struct wi_optim_piece *piece, size_t from, size_t to)
{
    struct coded_job *job = arg;
    const struct wi_optim_codes *codes = &job->codes[piece - job->pieces];
    size_t *number = own; /* 1 + which part of the scratch memory is the thread's */

    if (!*number)
        *number = 1 + atomic_fetch_add_explicit(&job->threads, 1, memory_order_relaxed);
    float *moments = job->scratch + (*number - 1) * 2 * WI_OPTIM_PART_ELEMS;
    struct wi_optim_piece part = *piece;

    part.elems = to - from;
    part.weight = piece->weight + from;
    part.moment1 = codes->codes[0] ? moments : NULL;
    part.moment2 = codes->codes[1] ? moments + WI_OPTIM_PART_ELEMS : NULL;
    part.grad = (const char *)piece->grad + (piece->grad_dtype == WEFT_FLOAT32 ? 4 : 2) * from;
    part.out = piece->out ? (char *)piece->out + 2 * from : NULL;
    for (int m = 0; m < 2; m++)
        if (codes->codes[m])
            wi_optim_decode(codes, m, from, part.elems, m ? part.moment2 : part.moment1);
    wi_optim_run(NULL, &part, 1);
    for (int m = 0; m < 2; m++)
        if (codes->codes[m])
            wi_optim_encode(codes, m, from, part.elems, m ? part.moment2 : part.moment1);
}

void wi_optim_run_coded(struct wi_optim_pool *pool, const struct wi_optim_piece *pieces,
                        const struct wi_optim_codes *codes, size_t npieces, float *scratch)
{
    struct coded_job job = {.pieces = pieces, .codes = codes, .scratch = scratch};

    wi_optim_parts(pool, pieces, npieces, coded_part, &job);
}
