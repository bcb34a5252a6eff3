/* What the suites of linear codecs share: vectors, calls, and what the codecs are defined to give,
 * computed from the vectors of all ranks.
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef WT_LINEAR_REFERENCE_H
#define WT_LINEAR_REFERENCE_H

#include "tests/fault/fault.h"

#include <math.h>
#include <stdlib.h>

#include "../unit/unit.h"
#include <weft/weft_compress.h>

#include "base/hash.h"
#include "compress/codec.h"
#include "tests/harness/says.h"

enum { MOST = 70000, MAX_RANKS = 8 };

/* ---- Vectors ---- */

/* Whole numbers, so that sums of a few ranks are exact in fp32, none of them zero, no two magnitudes of a block alike. */
__attribute__((unused)) static float whole(int rank, int step, size_t i)
{
    float magnitude = (float)(i * 2654435761u % 65521u + 1 + (unsigned)step % 7 * 131072u);

    return (i * 7 + (size_t)rank + (size_t)step) % 5 ? magnitude : -magnitude;
}

/* Anything, of very different sizes from block to block. */
__attribute__((unused)) static float real(int rank, int step, size_t i)
{
    uint32_t h = (uint32_t)(i * 2246822519u + (size_t)rank * 3266489917u + (size_t)step * 668265263u + 1);

    h = (h ^ h >> 15) * 2654435761u;
    return ldexpf((float)(int32_t)h * 0x1p-31f, (int)(i / 1000 % 40) - 20);
}

struct vectors {
    float *of[MAX_RANKS];
    float *want;
};

__attribute__((unused)) static float *floats(size_t n)
{
    float *p = calloc(n + 1, sizeof *p);

    WT_REQUIRE(p != NULL);
    return p;
}

__attribute__((unused)) static void as_dtype(weft_dtype dtype, float *v, size_t n)
{
    void *narrow = malloc(n * 4 + 1);

    WT_REQUIRE(narrow != NULL);
    wi_codec_narrow(dtype, v, narrow, n);
    wi_codec_widen(dtype, narrow, v, n);
    free(narrow);
}

__attribute__((unused)) static struct vectors make(int nranks, int step, size_t n, weft_dtype dtype,
                                                   float (*value)(int, int, size_t))
{
    struct vectors v;

    for (int r = 0; r < nranks; r++) {
        v.of[r] = floats(n);
        for (size_t i = 0; i < n; i++)
            v.of[r][i] = value(r, step, i);
        as_dtype(dtype, v.of[r], n);
    }
    v.want = floats(n);
    return v;
}

__attribute__((unused)) static void drop(struct vectors *v, int nranks)
{
    for (int r = 0; r < nranks; r++)
        free(v->of[r]);
    free(v->want);
}

/* ---- What sharedint gives ---- */

__attribute__((unused)) static float bf16_above(float v)
{
    uint32_t bits;

    memcpy(&bits, &v, sizeof bits);
    bits = (bits + 0xffff) & 0xffff0000u;
    if (bits && bits < 0x00800000u)
        bits = 0x00800000u;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* Of elements [at, end). */
__attribute__((unused)) static float shared_scale(const struct vectors *v, int nranks, size_t at, size_t end, int most,
                                                  int *nan)
{
    float largest = 0;

    *nan = 0;
    for (int r = 0; r < nranks; r++)
        for (size_t i = at; i < end; i++) {
            largest = fabsf(v->of[r][i]) > largest ? fabsf(v->of[r][i]) : largest;
            *nan |= !isfinite(v->of[r][i]);
        }
    return bf16_above(largest / (float)(most / nranks));
}

__attribute__((unused)) static void reference_shared(struct vectors *v, int nranks, size_t n, size_t block, int most,
                                                     int avg)
{
    for (size_t at = 0; at < n; at += block) {
        size_t end = at + block < n ? at + block : n;
        int nan;
        float scale = shared_scale(v, nranks, at, end, most, &nan), inverse = scale > 0 ? 1 / scale : 0;
        for (size_t i = at; i < end; i++) {
            float sum = 0;
            for (int r = 0; r < nranks; r++)
                sum += nearbyintf(v->of[r][i] * inverse);
            v->want[i] = nan ? NAN : sum * scale * (avg ? 1 / (float)nranks : 1);
        }
    }
}

/* What each rank keeps of it: e <- beta e + (1 - beta) (c - what it gave). */
__attribute__((unused)) static void shared_residuals(const struct vectors *c, float *const e[], int nranks, size_t n,
                                                     size_t block, int most, float beta)
{
    for (size_t at = 0; at < n; at += block) {
        size_t end = at + block < n ? at + block : n;
        int nan;
        float scale = shared_scale(c, nranks, at, end, most, &nan), inverse = scale > 0 ? 1 / scale : 0;
        for (int r = 0; r < nranks; r++)
            for (size_t i = at; i < end; i++) {
                float rest = c->of[r][i] - nearbyintf(c->of[r][i] * inverse) * scale;
                e[r][i] = beta > 0 ? beta * e[r][i] + (1 - beta) * rest : rest;
            }
    }
}

/* ---- What leaderk gives ---- */

static _Thread_local const float *sorted_by;
__attribute__((unused)) static int by_magnitude(const void *a, const void *b)
{
    size_t i = *(const size_t *)a, j = *(const size_t *)b;
    float x = fabsf(sorted_by[i]), y = fabsf(sorted_by[j]);

    return x != y ? (x > y ? -1 : 1) : i < j ? -1 : i > j; /* of equal ones the first */
}

/* kept: NULL, or what each rank keeps: all that is not sent. */
__attribute__((unused)) static void reference_leader(struct vectors *v, int nranks, size_t n, size_t block, size_t k,
                                                     int leader, int avg, float *const kept[])
{
    size_t *order = calloc(block, sizeof *order);

    WT_REQUIRE(order != NULL);
    for (size_t at = 0; at < n; at += block) {
        size_t here = at + block < n ? block : n - at;
        int nan = 0;
        for (size_t i = 0; i < here; i++) {
            order[i] = at + i;
            for (int r = 0; r < nranks; r++)
                nan |= !isfinite(v->of[r][at + i]);
        }
        sorted_by = v->of[leader];
        if (!nan)
            qsort(order, here, sizeof *order, by_magnitude);
        for (size_t i = 0; i < here; i++)
            v->want[at + i] = nan ? NAN : 0;
        for (size_t j = 0; !nan && j < k && j < here; j++)
            for (int r = 0; r < nranks; r++) {
                v->want[order[j]] += v->of[r][order[j]] * (avg ? 1 / (float)nranks : 1);
                if (kept)
                    kept[r][order[j]] = 0;
            }
    }
    free(order);
}

/* ---- Calls ---- */

__attribute__((unused)) static void call_by(struct ft_rank *f, const char *algorithm, const char *codec,
                                            uint64_t tensor, weft_dtype dtype, int avg, int in_place,
                                            const float *given, size_t n, float *got)
{
    size_t bytes = n * weft_dtype_bytes(dtype);
    unsigned char *src = malloc(bytes + 1), *dst = in_place ? src : malloc(bytes + 1);
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    weft_call call = wt_call(WEFT_KIND_ALL_REDUCE, src, dst, n, dtype);

    WT_REQUIRE(src != NULL && dst != NULL);
    wi_codec_narrow(dtype, given, src, n);
    options.codec = codec;
    options.algorithm = algorithm;
    options.tensor = tensor;
    call.options = &options;
    call.op = avg ? WEFT_AVG : WEFT_SUM;
    WT_CHECK_OK(weft_issue(f->comm, &call, NULL));
    wi_codec_widen(dtype, dst, got, n);
    if (!in_place)
        free(dst);
    free(src);
}

/* By the planner's algorithm. */
__attribute__((unused)) static void call_once(struct ft_rank *f, const char *codec, uint64_t tensor, weft_dtype dtype,
                                              int avg, int in_place, const float *given, size_t n, float *got)
{
    call_by(f, NULL, codec, tensor, dtype, avg, in_place, given, n, got);
}

__attribute__((unused)) static int same(float a, float b, float tolerance)
{
    return a == b || (isnan(a) && isnan(b)) || fabsf(a - b) <= tolerance * fabsf(b);
}

__attribute__((unused)) static void compare(const char *what, int step, const float *got, const float *want, size_t n,
                                            float tolerance)
{
    for (size_t i = 0; i < n; i++)
        if (!same(got[i], want[i], tolerance)) {
            wt_fail(__FILE__, __LINE__, "%s, step %d, %zu elements: element %zu is %.9g instead of %.9g", what, step, n,
                    i, (double)got[i], (double)want[i]);
            return;
        }
}

/* The bits of what all ranks have. */
__attribute__((unused)) static void agree_on_bits(struct ft_rank *f, const float *got, size_t n)
{
    uint64_t mine = wi_hash64(got, n * sizeof *got, 0), all[MAX_RANKS];

    WT_CHECK_OK(weft_all_gather(f->comm, &mine, all, 1, WEFT_UINT64, NULL));
    for (int r = 0; r < f->nranks; r++)
        WT_CHECK_INT(all[r] == mine, 1);
}

/* A case that runs over every transport. */
#define CASE(name, fn, nranks)                                         \
    static void name##_everywhere(void)                                \
    {                                                                  \
        CU_ASSERT_EQUAL(ft_run_everywhere(nranks, fn, #fn, 60000), 0); \
    }

#endif
