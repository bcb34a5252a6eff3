/* SPDX-License-Identifier: BSD-3-Clause */
/* What compressed all_reduces are defined to do: with whole vectors, by the codec itself, and no schedule. */
#ifndef WT_COMPRESS_REFERENCE_H
#define WT_COMPRESS_REFERENCE_H

#include "tests/fault/fault.h"

#include <math.h>
#include <stdlib.h>

#include "base/status.h"
#include "compress/codec.h"

enum { MAX_RANKS = 7 };

/* ---- The reference ---- */

struct reference {
    struct weft_codec codec;
    int nranks, feedback, avg;
    uint64_t step; /* the number of the collective */
    size_t count;
    weft_dtype dtype;
    float *given[MAX_RANKS];    /* contributions, as fp32 */
    float *residual[MAX_RANKS]; /* of what a rank gives */
    float *owed;                /* of sums, by whoever makes them */
    float *result;
};

static inline float *floats(size_t n)
{
    float *p = calloc(n + 1, sizeof *p);

    WT_REQUIRE(p != NULL);
    return p;
}

static inline void reference_open(struct reference *r, const char *codec, int nranks, size_t count, weft_dtype dtype)
{
    *r = (struct reference){.nranks = nranks, .count = count, .dtype = dtype};
    if (wi_codec_parse(codec, &r->codec) < 0)
        wt_fail(__FILE__, __LINE__, "%s: %s", codec, wi_fail_text());
    for (int i = 0; i < nranks; i++) {
        r->given[i] = floats(count);
        r->residual[i] = floats(count);
    }
    r->owed = floats(count);
    r->result = floats(count);
}

static inline void reference_close(struct reference *r)
{
    for (int i = 0; i < r->nranks; i++) {
        free(r->given[i]);
        free(r->residual[i]);
    }
    free(r->owed);
    free(r->result);
}

/* Of which rank, and whether they are sums; its place in the vector. */
struct maker {
    int rank, sums;
    size_t at;
};

/* What an image of `n` elements of `of` holds, with the residual added and renewed. */
static inline void pass(const struct reference *r, struct maker by, const float *of, float *residual, size_t n, float *held)
{
    struct weft_codec_site site = {r->step, by.at, (uint32_t)by.rank, (uint32_t)by.sums};
    size_t bytes = wi_codec_bytes(&r->codec, n);
    void *image = malloc(bytes + 1);

    WT_REQUIRE(image != NULL);
    wi_codec_encode_at(&r->codec, &site, of, r->feedback ? residual : NULL, n, image);
    wi_codec_decode(&r->codec, image, n, held);
    free(image);
}

/* Where the result is NaN, ranks whose image was not have their residual as it was, to rounding. */
static inline void take_back(const struct reference *r, int rank, size_t at, size_t n, const float *held)
{
    for (size_t i = 0; i < n && r->feedback; i++)
        if (isnan(r->result[at + i]) && !isnan(held[i]))
            r->residual[rank][at + i] = r->residual[rank][at + i] + held[i] - r->given[rank][at + i];
}

static inline void scale(const struct reference *r, float *v, size_t n)
{
    for (size_t i = 0; r->avg && i < n; i++)
        v[i] *= 1.0f / (float)r->nranks;
}

/* Elements [at, at + n): all sum the images of all, but the owner (-1: there is none) its own contribution as it is, whose sum
 * passes once more. */
static inline void sum_range(struct reference *r, size_t at, size_t n, int owner)
{
    float *held[MAX_RANKS], *sum = floats(n);

    for (int k = 0; k < r->nranks; k++) {
        held[k] = floats(n);
        if (k == owner)
            memcpy(held[k], r->given[k] + at, n * sizeof *sum);
        else
            pass(r, (struct maker){k, 0, at}, r->given[k] + at, r->residual[k] + at, n, held[k]);
        for (size_t i = 0; i < n; i++)
            sum[i] = k ? sum[i] + held[k][i] : held[k][i];
    }
    scale(r, sum, n);
    if (owner >= 0)
        pass(r, (struct maker){owner, 1, at}, sum, r->owed + at, n, r->result + at);
    else
        memcpy(r->result + at, sum, n * sizeof *sum);
    for (int k = 0; k < r->nranks; k++) {
        if (k != owner)
            take_back(r, k, at, n, held[k]);
        free(held[k]);
    }
    free(sum);
}

static inline void all_reduce(struct reference *r, int shots)
{
    size_t block = (r->count + (size_t)r->nranks - 1) / (size_t)r->nranks, each = r->codec.block;

    if (shots == 1) {
        sum_range(r, 0, r->count, -1);
        return;
    }
    block = (block + each - 1) / each * each;
    for (int k = 0; k < r->nranks && (size_t)k * block < r->count; k++) {
        size_t at = (size_t)k * block;
        sum_range(r, at, r->count - at < block ? r->count - at : block, k);
    }
}

/* ---- Data ---- */

static inline float value(int rank, int step, size_t i)
{
    uint64_t h = ((uint64_t)rank * 1000003 + (uint64_t)step * 7919 + i + 1) * 0x9e3779b97f4a7c15u;
    float a = (float)(h >> 40) / 16777216.0f - 0.5f, b = (float)(h >> 16 & 0xffffff) / 16777216.0f - 0.5f;

    return a * b * (i % 5 ? 1 : 30) * (i / 200 % 3 ? 1 : 1e-6f);
}

static inline void fill(struct reference *r, int step)
{
    for (int k = 0; k < r->nranks; k++)
        for (size_t i = 0; i < r->count; i++) {
            uint16_t narrow;
            r->given[k][i] = value(k, step, i);
            if (r->dtype != WEFT_FLOAT32) {
                wi_codec_narrow(r->dtype, &r->given[k][i], &narrow, 1);
                wi_codec_widen(r->dtype, &narrow, &r->given[k][i], 1);
            }
        }
}

static inline void *narrowed(const struct reference *r, const float *v, size_t n)
{
    void *p = malloc(n * sizeof *v + 1);

    WT_REQUIRE(p != NULL);
    wi_codec_narrow(r->dtype, v, p, n);
    return p;
}

static inline void expect_near_bits(const struct ft_rank *f, const char *what, const float *got, const float *want, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(&got[i], &want[i], sizeof *got) != 0) {
            wt_fail(__FILE__, __LINE__, "%s of %d: element %zu is %g instead of %g", what, f->nranks, i, (double)got[i],
                    (double)want[i]);
            return;
        }
}

#endif
