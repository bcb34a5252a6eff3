/* Reductions of real numbers: the same bits on every rank and in every run, and close to the double-precision sum.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/conform/collectives.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/reduce.h"
#include "tests/harness/calls.h"
#include "tests/harness/harness.h"

#define MOST 70001

struct precision {
    weft_dtype dtype;
    double eps;
};

static double real_input(int rank, size_t i)
{
    return (double)(cc_hash(3, (uint64_t)rank, i) >> 11) * 0x1p-52 - 1; /* -1 … 1 */
}

static void encode_real(weft_dtype dtype, double x, void *out)
{
    union cc_value v = {.im = 0};

    v.re = x;
    cc_encode(dtype, v, out);
}

static double as_stored(weft_dtype dtype, double x)
{
    unsigned char elem[16];

    encode_real(dtype, x, elem);
    return cc_decode(dtype, elem).re;
}

static uint64_t digest(const unsigned char *p, size_t bytes)
{
    uint64_t h = bytes;

    for (size_t i = 0; i < bytes; i++)
        h = (h ^ p[i]) * 0x100000001b3ull;
    return h;
}

/* Every partial sum is rounded at most once per rank: |error| <= P eps sum |x|. */
static void check_close(const struct cc_world *w, const struct precision *p, const unsigned char *got, size_t count,
                        const char *algorithm)
{
    size_t es = weft_dtype_bytes(p->dtype);

    for (size_t i = 0; i < count; i++) {
        double sum = 0, magnitude = 0, x;
        for (int r = 0; r < w->nranks; r++) {
            x = as_stored(p->dtype, real_input(r, i));
            sum += x;
            magnitude += fabs(x);
        }
        x = cc_decode(p->dtype, got + i * es).re;
        if (!(fabs(x - sum) <= w->nranks * p->eps * magnitude)) {
            wt_fail(__FILE__, __LINE__, "%s by %s: element %zu of %zu is %g, not %g", weft_dtype_name(p->dtype),
                    algorithm ? algorithm : "the planner's choice", i, count, x, sum);
            return;
        }
    }
}

static void check_equal(const struct cc_world *w, uint64_t mine, const char *algorithm, size_t count)
{
    uint64_t all[CC_MAX_RANKS];

    WT_CHECK_OK(weft_all_gather(w->comm, &mine, all, 1, WEFT_UINT64, NULL));
    for (int r = 0; r < w->nranks; r++)
        if (all[r] != mine)
            wt_fail(__FILE__, __LINE__, "%zu elements by %s: rank %d has other bits", count,
                    algorithm ? algorithm : "the planner's choice", r);
}

struct tried {
    struct cc_world *world;
    size_t n;
    char names[32][32];
};

static void note_all_reduce(void *arg, const char *collective, const char *algorithm, const char *summary)
{
    struct tried *t = arg;

    (void)summary;
    if (strcmp(collective, "all_reduce") == 0 && t->n < 32)
        snprintf(t->names[t->n++], sizeof *t->names, "%s", algorithm);
}

/* Twice: the second time must give the same bits. 0: the algorithm does not do this here. */
static int try_once(struct cc_world *w, const struct precision *p, const char *algorithm, size_t count,
                    unsigned char *src, unsigned char *dst)
{
    size_t bytes = count * weft_dtype_bytes(p->dtype);
    weft_call call = wt_call(WEFT_KIND_ALL_REDUCE, src, dst, count, p->dtype);
    uint64_t first = 0, again;

    for (int run = 0; run < 3; run++) {
        weft_status st;
        memset(dst, 0, bytes);
        st = wt_issue(w->comm, call, algorithm, NULL);
        if (algorithm && st == WEFT_ENOTSUP)
            return 0;
        WT_CHECK_OK(st);
        again = digest(dst, bytes);
        first = run ? first : again;
        WT_CHECK(again == first);
    }
    check_close(w, p, dst, count, algorithm);
    check_equal(w, first, algorithm, count);
    w->calls++;
    return 1;
}

void cc_case_bits(int rank, int nranks, void *arg)
{
    static const struct precision types[] = {
        {WEFT_FLOAT32, 0x1p-23}, {WEFT_FLOAT64, 0x1p-52}, {WEFT_FLOAT16, 0x1p-10}, {WEFT_BFLOAT16, 0x1p-7}};
    static const size_t sizes[] = {3, 515, 9001, MOST};
    const struct cc_job *job = arg;
    unsigned char *src = malloc(MOST * 8), *dst = malloc(MOST * 8);
    struct tried t = {.n = 0};
    struct cc_world w;

    WT_REQUIRE(src && dst);
    cc_world_open(&w, job->fixture, rank, nranks);
    WT_CHECK_OK(weft_algorithm_list(note_all_reduce, &t));
    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
        for (size_t i = 0; i < MOST; i++)
            encode_real(types[k].dtype, real_input(rank, i), src + i * weft_dtype_bytes(types[k].dtype));
        for (size_t s = 0; s < 3u + (job->full || k == 0); s++) {
            WT_CHECK(try_once(&w, &types[k], NULL, sizes[s], src, dst));
            for (size_t a = 0; a < t.n; a++)
                w.refused += !try_once(&w, &types[k], t.names[a], sizes[s], src, dst);
        }
    }
    if (rank == 0)
        fprintf(stderr, "%s, %d ranks, bits: %lu sums, %lu refused\n", job->fixture->name, nranks, w.calls, w.refused);
    free(src);
    free(dst);
    cc_world_close(&w);
}
