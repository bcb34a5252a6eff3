/* All-reduces with linear codecs (sharedint, leaderk, randomk): results against what the codecs are defined to give, computed here
 * from all ranks' vectors; residuals; values that are not finite; what is issued behind them; what is refused.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fault/fault.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "../unit/unit.h"
#include <weft/weft_compress.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/status.h"
#include "comm/comm.h"
#include "comm/residual.h"
#include "compress/codec.h"

enum { MOST = 70000, MAX_RANKS = 8 };

#define SAYS(call, status, text)                                                            \
    do {                                                                                    \
        WT_CHECK_STATUS(call, status);                                                      \
        if (!strstr(weft_thread_error(), text))                                             \
            wt_fail(__FILE__, __LINE__, "\"%s\" is not in: %s", text, weft_thread_error()); \
    } while (0)

/* ---- Vectors ---- */

/* Whole numbers, so that sums of a few ranks are exact in fp32, none of them zero, no two magnitudes of a block alike. */
static float whole(int rank, int step, size_t i)
{
    float magnitude = (float)(i * 2654435761u % 65521u + 1 + (unsigned)step % 7 * 131072u);

    return (i * 7 + (size_t)rank + (size_t)step) % 5 ? magnitude : -magnitude;
}

/* Anything, of very different sizes from block to block. */
static float real(int rank, int step, size_t i)
{
    uint32_t h = (uint32_t)(i * 2246822519u + (size_t)rank * 3266489917u + (size_t)step * 668265263u + 1);

    h = (h ^ h >> 15) * 2654435761u;
    return ldexpf((float)(int32_t)h * 0x1p-31f, (int)(i / 1000 % 40) - 20);
}

struct vectors {
    float *of[MAX_RANKS];
    float *want;
};

static float *floats(size_t n)
{
    float *p = calloc(n + 1, sizeof *p);

    WT_REQUIRE(p != NULL);
    return p;
}

static void as_dtype(weft_dtype dtype, float *v, size_t n)
{
    void *narrow = malloc(n * 4 + 1);

    WT_REQUIRE(narrow != NULL);
    wi_codec_narrow(dtype, v, narrow, n);
    wi_codec_widen(dtype, narrow, v, n);
    free(narrow);
}

static struct vectors make(int nranks, int step, size_t n, weft_dtype dtype, float (*value)(int, int, size_t))
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

static void drop(struct vectors *v, int nranks)
{
    for (int r = 0; r < nranks; r++)
        free(v->of[r]);
    free(v->want);
}

/* ---- What sharedint gives ---- */

static float bf16_above(float v)
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
static float shared_scale(const struct vectors *v, int nranks, size_t at, size_t end, int most, int *nan)
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

static void reference_shared(struct vectors *v, int nranks, size_t n, size_t block, int most, int avg)
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
static void shared_residuals(const struct vectors *c, float *const e[], int nranks, size_t n, size_t block, int most,
                             float beta)
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
static int by_magnitude(const void *a, const void *b)
{
    size_t i = *(const size_t *)a, j = *(const size_t *)b;
    float x = fabsf(sorted_by[i]), y = fabsf(sorted_by[j]);

    return x != y ? (x > y ? -1 : 1) : i < j ? -1 : i > j; /* of equal ones the first */
}

/* kept: NULL, or what each rank keeps: all that is not sent. */
static void reference_leader(struct vectors *v, int nranks, size_t n, size_t block, size_t k, int leader, int avg,
                             float *const kept[])
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

static void call_by(struct ft_rank *f, const char *algorithm, const char *codec, uint64_t tensor, weft_dtype dtype,
                    int avg, int in_place, const float *given, size_t n, float *got)
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
static void call_once(struct ft_rank *f, const char *codec, uint64_t tensor, weft_dtype dtype, int avg, int in_place,
                      const float *given, size_t n, float *got)
{
    call_by(f, NULL, codec, tensor, dtype, avg, in_place, given, n, got);
}

static int same(float a, float b, float tolerance)
{
    return a == b || (isnan(a) && isnan(b)) || fabsf(a - b) <= tolerance * fabsf(b);
}

static void compare(const char *what, int step, const float *got, const float *want, size_t n, float tolerance)
{
    for (size_t i = 0; i < n; i++)
        if (!same(got[i], want[i], tolerance)) {
            wt_fail(__FILE__, __LINE__, "%s, step %d, %zu elements: element %zu is %.9g instead of %.9g", what, step, n,
                    i, (double)got[i], (double)want[i]);
            return;
        }
}

/* The bits of what all ranks have. */
static void agree_on_bits(struct ft_rank *f, const float *got, size_t n)
{
    uint64_t mine = wi_hash64(got, n * sizeof *got, 0), all[MAX_RANKS];

    WT_CHECK_OK(weft_all_gather(f->comm, &mine, all, 1, WEFT_UINT64, NULL));
    for (int r = 0; r < f->nranks; r++)
        WT_CHECK_INT(all[r] == mine, 1);
}

static const size_t counts[] = {1, 31, 128, 129, 5000, MOST};
enum { COUNTS = sizeof counts / sizeof *counts };

static void shared_ints(int rank, int nranks, void *arg)
{
    static const struct {
        const char *codec;
        size_t block;
        int most;
    } forms[] = {{"sharedint:bypass=never", 128, 127},
                 {"sharedint:wire=int16,block=32,bypass=never", 32, 32767},
                 {"sharedint:wire=int16,block=2048,bypass=never", 2048, 32767}};
    static const weft_dtype dtypes[] = {WEFT_FLOAT32, WEFT_BFLOAT16, WEFT_FLOAT16};
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    for (size_t c = 0; c < sizeof forms / sizeof *forms; c++)
        for (size_t k = 0; k < COUNTS; k++)
            for (int avg = 0; avg < 2; avg++) {
                weft_dtype dtype = dtypes[(c + k) % 3];
                struct vectors v = make(nranks, (int)k, counts[k], dtype, real);
                float *got = floats(counts[k]);
                reference_shared(&v, nranks, counts[k], forms[c].block, forms[c].most, avg);
                as_dtype(dtype, v.want, counts[k]);
                call_once(&f, forms[c].codec, 0, dtype, avg, avg, v.of[rank], counts[k], got);
                compare(forms[c].codec, avg, got, v.want, counts[k], 0);
                agree_on_bits(&f, got, counts[k]);
                free(got);
                drop(&v, nranks);
            }
    ft_close(&f);
}

/* Without a residual, of the call that has this number. */
static int leader_of(uint64_t seq, int nranks)
{
    return (int)(wi_hash64(&seq, sizeof seq, 0) % (uint64_t)nranks);
}

static void leaders(int rank, int nranks, void *arg)
{
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    for (int step = 0; step < 2 * COUNTS; step++) {
        size_t n = counts[step % COUNTS];
        int values = step % 2; /* fp32, whose sums are exact here; bf16 */
        struct vectors v = make(nranks, step, n, WEFT_FLOAT32, whole);
        float *got = floats(n);
        int leader = leader_of(f.comm->exec->next_seq + 1, nranks);
        reference_leader(&v, nranks, n, 1024, 102, leader, step % 3 == 0, NULL);
        call_once(&f,
                  values ? "leaderk:block=1024,ratio=0.1,bypass=never"
                         : "leaderk:block=1024,ratio=0.1,values=fp32,bypass=never",
                  0, WEFT_FLOAT32, step % 3 == 0, step % 2, v.of[rank], n, got);
        for (size_t i = 0; i < n; i++) { /* sums in bf16 may cancel: of what was added */
            float added = 0;
            for (int r = 0; r < nranks; r++)
                added += fabsf(v.of[r][i]) / (step % 3 == 0 ? (float)nranks : 1);
            if (values && fabsf(got[i] - v.want[i]) <= 0x1p-7f * added && (v.want[i] != 0 || got[i] == 0))
                v.want[i] = got[i];
        }
        compare("leaderk", step, got, v.want, n, 1e-6f);
        agree_on_bits(&f, got, n);
        free(got);
        drop(&v, nranks);
    }
    ft_close(&f);
}

/* Which places is random, but the same on all ranks: each is the sum or 0, as many of a block are not 0 as the codec says, others
 * the next time. */
static void random_places(int rank, int nranks, void *arg)
{
    enum { N = 50000, BLOCK = 512, K = 51, PART = 16384 }; /* of which as many are worked on at a time */
    float *got = floats(N), *before = floats(N);
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    for (int step = 0; step < 4; step++) {
        struct vectors v = make(nranks, 0, N, WEFT_FLOAT32, whole);
        size_t moved = 0, differ = 0;
        call_once(&f, "randomk:block=512,ratio=0.1,values=fp32,bypass=never", 0, WEFT_FLOAT32, 0, step % 2, v.of[rank],
                  N, got);
        for (size_t at = 0; at < N; at += BLOCK) {
            size_t sent = 0, here = at + BLOCK < N ? BLOCK : N - at;
            for (size_t i = at; i < at + here; i++) {
                float sum = 0;
                for (int r = 0; r < nranks; r++)
                    sum += v.of[r][i];
                sent += got[i] != 0;
                moved += (got[i] != 0) != (before[i] != 0);
                if (got[i] != 0 && !same(got[i], sum, 1e-6f))
                    wt_fail(__FILE__, __LINE__, "element %zu is %g, the sum %g", i, (double)got[i], (double)sum);
            }
            if (here == BLOCK)
                WT_CHECK(sent >= K - 8 && sent <= K); /* a sum of whole numbers may be 0 */
        }
        WT_CHECK(!step || moved > N / 8);
        for (size_t i = 0; i < N - PART; i++)
            differ += (got[i] != 0) != (got[i + PART] != 0);
        WT_CHECK(differ > (N - PART) / 8); /* no part is drawn as the one before */
        agree_on_bits(&f, got, N);
        memcpy(before, got, N * sizeof *got);
        drop(&v, nranks);
    }
    ft_close(&f);
    free(got);
    free(before);
}

/* ---- Residuals ---- */

/* All that was given has arrived or is kept, whatever the steps; of a block with a NaN nothing arrives, and what was kept before
 * stays to the bit. */
static void conserve(struct ft_rank *f, const char *codec, size_t block, float (*value)(int, int, size_t),
                     float tolerance)
{
    enum { N = 40000, STEPS = 13, BAD = 6 };
    float *got = floats(N), *kept = floats(N), *all = floats(N);
    double *given = calloc(N, sizeof *given), *arrived = calloc(N, sizeof *arrived);

    for (int step = 0; step < STEPS; step++) {
        struct vectors v = make(f->nranks, step, N, WEFT_FLOAT32, value);
        struct wi_residual *r = wi_residual_look(f->comm, 5);
        if (r)
            memcpy(kept, r->plane[WI_PLANE_WORKER].of, N * sizeof *kept);
        if (step == BAD)
            v.of[f->nranks - 1][block + 7] = step % 2 ? INFINITY : NAN;
        call_once(f, codec, 5, WEFT_FLOAT32, 0, step % 2, v.of[f->rank], N, got);
        r = wi_residual_look(f->comm, 5);
        WT_REQUIRE(r != NULL);
        WT_CHECK_INT(r->steps, step + 1);
        for (size_t i = 0; i < N; i++) {
            int bad = step == BAD && i / block == 1;
            WT_CHECK_INT(isnan(got[i]) != 0, bad);
            for (int k = 0; !bad && k < f->nranks; k++)
                given[i] += (double)v.of[k][i];
            arrived[i] += bad ? 0 : (double)got[i];
            if (bad && memcmp(&kept[i], &r->plane[WI_PLANE_WORKER].of[i], sizeof kept[i]))
                wt_fail(__FILE__, __LINE__, "%s: the residual of element %zu has changed with a NaN", codec, i);
        }
        drop(&v, f->nranks);
    }
    memcpy(kept, wi_residual_look(f->comm, 5)->plane[WI_PLANE_WORKER].of, N * sizeof *kept);
    WT_CHECK_OK(weft_all_reduce(f->comm, kept, all, N, WEFT_FLOAT32, WEFT_SUM, NULL));
    for (size_t i = 0; i < N; i++)
        if (fabs(arrived[i] + (double)all[i] - given[i]) >
            (double)tolerance * (value == real ? ldexp(1, (int)(i / 1000 % 40) - 20) : 1)) {
            wt_fail(__FILE__, __LINE__, "%s: of element %zu %g was given, %g has arrived, %g is kept", codec, i,
                    given[i], arrived[i], (double)all[i]);
            break;
        }
    WT_CHECK_OK(weft_comm_residual_clear(f->comm, 0));
    free(got), free(kept), free(all), free(given), free(arrived);
}

static void residuals(int rank, int nranks, void *arg)
{
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    conserve(&f, "sharedint:block=64,ef=1,bypass=never", 64, real, 1e-4f);
    conserve(&f, "leaderk:block=256,ratio=0.05,values=fp32,ef=1,bypass=never", 256, whole, 32);
    conserve(&f, "leaderk:block=256,ratio=0.05,ef=1,bypass=never", 256, real,
             1.0f); /* sums in bf16 lose a little for good */
    conserve(&f, "randomk:block=256,ratio=0.05,values=fp32,ef=1,bypass=never", 256, whole, 32);
    ft_close(&f);
}

/* What one rank owes: in units of the result, what it kept of its own vector and what it kept as the owner of a part. */
static double owes(const struct ft_rank *f, uint64_t tensor, int avg, size_t n, float *owed)
{
    const struct wi_residual *r = wi_residual_look(f->comm, tensor);
    double of_owner = 0;

    memset(owed, 0, n * sizeof *owed);
    for (int p = 0; p < 2; p++)
        for (size_t i = r->plane[p].from; i < r->plane[p].to; i++) {
            float v = r->plane[p].of[i - r->plane[p].from];
            owed[i] += avg && p == WI_PLANE_WORKER ? v / (float)f->nranks : v;
            of_owner += p == WI_PLANE_OWNER ? fabs((double)v) : 0;
        }
    return of_owner;
}

/* What other calls have kept with the owners is settled, too, and the other way round. */
static void change_codecs(struct ft_rank *f, int avg)
{
    enum { N = 40000, STEPS = 9 };
    uint64_t tensor = 9 + (uint64_t)avg;
    float *got = floats(N), *all = floats(N);
    double *given = calloc(N, sizeof *given), *arrived = calloc(N, sizeof *arrived), of_owner;

    WT_REQUIRE(given && arrived);
    for (int step = 0; step < STEPS; step++) {
        struct vectors v = make(f->nranks, step, N, WEFT_FLOAT32, real);
        int linear = step % 2;
        call_by(f, linear ? NULL : "coded2", linear ? "sharedint:ef=1,bypass=never" : "int4:ef=1,bypass=never", tensor,
                WEFT_FLOAT32, avg, 0, v.of[f->rank], N, got);
        for (size_t i = 0; i < N; i++) {
            arrived[i] += (double)got[i];
            for (int r = 0; r < f->nranks; r++)
                given[i] += (double)v.of[r][i] / (avg ? f->nranks : 1);
        }
        drop(&v, f->nranks);
        of_owner = owes(f, tensor, avg, N, got);
        WT_CHECK_INT(of_owner > 0, !linear);
        WT_CHECK_INT(wi_residual_look(f->comm, tensor)->avg, avg);
    }
    WT_CHECK_OK(weft_all_reduce(f->comm, got, all, N, WEFT_FLOAT32, WEFT_SUM, NULL));
    for (size_t i = 0; i < N; i++)
        if (fabs(arrived[i] + (double)all[i] - given[i]) > 1e-4 * ldexp(1, (int)(i / 1000 % 40) - 20)) {
            wt_fail(__FILE__, __LINE__, "avg %d: of element %zu %g was given, %g has arrived, %g is kept", avg, i,
                    given[i], arrived[i], (double)all[i]);
            break;
        }
    free(got), free(all), free(given), free(arrived);
}

static void changing_codecs(int rank, int nranks, void *arg)
{
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    for (int avg = 0; avg < 2; avg++)
        change_codecs(&f, avg);
    ft_close(&f);
}

/* ---- Residuals by a reference: each rank computes those of all ---- */

struct kept {
    struct vectors c; /* what is sent with what was kept of it */
    float *e[MAX_RANKS];
};

static struct kept kept_begin(int nranks, size_t n)
{
    struct kept k = {0};

    for (int r = 0; r < nranks; r++)
        k.e[r] = floats(n);
    return k;
}

static void kept_next(struct kept *k, int nranks, int step, size_t n, weft_dtype dtype,
                      float (*value)(int, int, size_t))
{
    k->c = make(nranks, step, n, dtype, value);
    for (int r = 0; r < nranks; r++)
        for (size_t i = 0; i < n; i++)
            k->c.of[r][i] += k->e[r][i];
}

static void kept_end(struct kept *k, int nranks)
{
    for (int r = 0; r < nranks; r++)
        free(k->e[r]);
}

/* Of a size that fp16 has. */
static float moderate(int rank, int step, size_t i)
{
    return ldexpf(real(rank, step, i), 20 - (int)(i / 1000 % 40));
}

/* To the bit, what is kept included. */
static void follow_shared(struct ft_rank *f, const char *codec, uint64_t tensor, float beta, weft_dtype dtype)
{
    enum { N = 20000, STEPS = 4 };
    float *got = floats(N), *given = floats(N);
    struct kept k = kept_begin(f->nranks, N);

    for (int step = 0; step < STEPS; step++) {
        int avg = step == STEPS - 1;
        for (size_t i = 0; i < N; i++)
            given[i] = moderate(f->rank, step, i);
        kept_next(&k, f->nranks, step, N, dtype, moderate);
        reference_shared(&k.c, f->nranks, N, 128, 127, avg);
        as_dtype(dtype, k.c.want, N);
        call_once(f, codec, tensor, dtype, avg, step % 2, given, N, got);
        compare(codec, step, got, k.c.want, N, 0);
        shared_residuals(&k.c, k.e, f->nranks, N, 128, 127, beta);
        WT_CHECK_INT(wi_residual_look(f->comm, tensor)->avg, avg);
        compare("what is kept", step, wi_residual_look(f->comm, tensor)->plane[WI_PLANE_WORKER].of, k.e[f->rank], N, 0);
        drop(&k.c, f->nranks);
    }
    kept_end(&k, f->nranks);
    free(got), free(given);
}

static void shared_follows(int rank, int nranks, void *arg)
{
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    follow_shared(&f, "sharedint:ef=1,bypass=never", 30, 0, WEFT_FLOAT32);
    follow_shared(&f, "sharedint:ef=1,bypass=never", 31, 0, WEFT_BFLOAT16);
    follow_shared(&f, "sharedint:ef=1,bypass=never", 32, 0, WEFT_FLOAT16);
    follow_shared(&f, "sharedint:ef=loco,beta=0.25,bypass=never", 33, 0.25f, WEFT_FLOAT32);
    ft_close(&f);
}

static void leader_step(struct kept *k, int nranks, size_t n, size_t block, size_t per_block, int leader)
{
    for (int r = 0; r < nranks; r++)
        memcpy(k->e[r], k->c.of[r], n * sizeof(float));
    reference_leader(&k->c, nranks, n, block, per_block, leader, 0, k->e);
}

/* As many ranks lead in turn as there are, each time that the tensor is sent. */
static void follow_leaders(struct ft_rank *f, const char *codec, uint64_t tensor, size_t n, size_t block,
                           size_t per_block, int steps)
{
    struct kept k = kept_begin(f->nranks, n);
    float *got = floats(n), *given = floats(n);

    for (int step = 0; step < steps; step++) {
        for (size_t i = 0; i < n; i++)
            given[i] = whole(f->rank, step, i);
        kept_next(&k, f->nranks, step, n, WEFT_FLOAT32, whole);
        leader_step(&k, f->nranks, n, block, per_block, (step + 1) % f->nranks);
        call_once(f, codec, tensor, WEFT_FLOAT32, 0, step % 2, given, n, got);
        compare(codec, step, got, k.c.want, n, 0);
        drop(&k.c, f->nranks);
    }
    kept_end(&k, f->nranks);
    free(got), free(given);
}

/* Which rank leads in a batch says its first tensor, here with one step more than the other one. */
static void follow_batch(struct ft_rank *f, const char *codec, size_t block, size_t per_block)
{
    enum { TENSORS = 2, STEPS = 4 };
    static const size_t lengths[TENSORS] = {20000, 3000};
    struct kept k[TENSORS] = {kept_begin(f->nranks, lengths[0]), kept_begin(f->nranks, lengths[1])};
    float *got[TENSORS] = {floats(lengths[0]), floats(lengths[1])},
          *given[TENSORS] = {floats(lengths[0]), floats(lengths[1])};

    for (int step = 0; step < STEPS; step++) {
        weft_call call = wt_call(WEFT_KIND_ALL_REDUCE, NULL, NULL, 0, WEFT_FLOAT32);
        weft_call_options options = WEFT_CALL_OPTIONS_INIT;
        weft_batch_item items[TENSORS] = {{0}};
        int count = step ? TENSORS : 1;
        options.codec = codec;
        call.options = &options;
        for (int t = 0; t < count; t++) {
            for (size_t i = 0; i < lengths[t]; i++)
                given[t][i] = whole(f->rank, step, i);
            kept_next(&k[t], f->nranks, step, lengths[t], WEFT_FLOAT32, whole);
            leader_step(&k[t], f->nranks, lengths[t], block, per_block, (step + 1) % f->nranks);
            items[t] =
                (weft_batch_item){.src = given[t], .dst = got[t], .count = lengths[t], .tensor = 50 + (uint64_t)t};
        }
        WT_CHECK_OK(weft_issue_batch(f->comm, &call, items, (size_t)count, NULL));
        for (int t = 0; t < count; t++) {
            compare("in a batch", step, got[t], k[t].c.want, lengths[t], 0);
            drop(&k[t].c, f->nranks);
        }
    }
    for (int t = 0; t < TENSORS; t++) {
        kept_end(&k[t], f->nranks);
        free(got[t]), free(given[t]);
    }
}

static void leaders_follow(int rank, int nranks, void *arg)
{
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    follow_leaders(&f, "leaderk:block=1024,ratio=0.1,values=fp32,ef=1,bypass=never", 40, 20000, 1024, 102, 4);
    follow_batch(&f, "leaderk:block=1024,ratio=0.1,values=fp32,ef=1,min=64,bypass=never", 1024, 102);
    if (nranks == 2) /* a block that is longer than what is worked on at a time */
        follow_leaders(&f, "leaderk:block=65536,ratio=0.1,values=fp32,ef=1,bypass=never", 41, 150000, 65536, 6554, 2);
    ft_close(&f);
}

/* ---- Several at once, again and again ---- */

static void behind_each_other(int rank, int nranks, void *arg)
{
    enum { N = 20000, CALLS = 6 };
    static const char *const codecs[] = {"sharedint:bypass=never", NULL,
                                         "leaderk:ratio=0.1,block=1024,values=fp32,bypass=never"};
    float *src[CALLS], *dst[CALLS];
    weft_request *reqs[CALLS];
    struct ft_rank f;
    uint64_t before;

    ft_open(&f, arg, 20000, rank, nranks);
    before = f.comm->exec->next_seq;
    for (int i = 0; i < CALLS; i++) {
        weft_call_options options = WEFT_CALL_OPTIONS_INIT;
        weft_call call;
        src[i] = floats(N);
        dst[i] = floats(N);
        for (size_t k = 0; k < N; k++)
            src[i][k] = whole(rank, i, k);
        call = wt_call(WEFT_KIND_ALL_REDUCE, src[i], dst[i], N, WEFT_FLOAT32);
        options.codec = codecs[i % 3];
        call.options = &options;
        WT_CHECK_OK(weft_issue(f.comm, &call, &reqs[i]));
    }
    for (int i = CALLS - 1; i >= 0; i--) {
        struct vectors v = make(nranks, i, N, WEFT_FLOAT32, whole);
        WT_CHECK_OK(weft_wait(reqs[i]));
        if (i % 3 == 0)
            reference_shared(&v, nranks, N, 128, 127, 0);
        else if (i % 3 == 2)
            reference_leader(&v, nranks, N, 1024, 102, leader_of(before + 1 + (unsigned)i, nranks), 0, NULL);
        for (size_t k = 0; i % 3 == 1 && k < N; k++)
            for (int r = 0; r < nranks; r++)
                v.want[k] += v.of[r][k];
        compare(i % 3 ? i % 3 == 1 ? "plain" : "leaderk" : "sharedint", i, dst[i], v.want, N, 1e-6f);
        weft_request_free(reqs[i]);
        drop(&v, nranks);
        free(src[i]);
        free(dst[i]);
    }
    ft_close(&f);
}

static void started_again(int rank, int nranks, void *arg)
{
    enum { N = 3000 };
    float *src = floats(N), *dst = floats(N);
    weft_call call = wt_call(WEFT_KIND_ALL_REDUCE, src, dst, N, WEFT_FLOAT32);
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    weft_request *req;
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    options.codec = "sharedint:bypass=never";
    call.options = &options;
    WT_REQUIRE_OK(weft_persistent(f.comm, &call, &req));
    for (int step = 0; step < 4; step++) {
        struct vectors v = make(nranks, step, N, WEFT_FLOAT32, real);
        memcpy(src, v.of[rank], N * sizeof *src);
        reference_shared(&v, nranks, N, 128, 127, 0);
        WT_CHECK_OK(weft_start(req));
        WT_CHECK_OK(weft_wait(req));
        compare("started again", step, dst, v.want, N, 0);
        drop(&v, nranks);
    }
    weft_request_free(req);
    ft_close(&f);
    free(src), free(dst);
}

/* Each rank's vector times a number of its own, in place and not: what is coded is the product, the program's vector stays. */
static void premultiplied(int rank, int nranks, void *arg)
{
    enum { N = 3000 };
    float *src = floats(N), *dst = floats(N), scalar = ldexpf(1, rank + 1);
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    struct ft_rank f;
    weft_op twice;

    ft_open(&f, arg, 20000, rank, nranks);
    options.codec = "sharedint:bypass=never";
    WT_REQUIRE_OK(weft_op_create_premul_sum(&scalar, WEFT_FLOAT32, &twice));
    for (int step = 0; step < 4; step++) {
        float *to = step % 2 ? dst : src;
        weft_call call = wt_call(WEFT_KIND_ALL_REDUCE, src, to, N, WEFT_FLOAT32);
        struct vectors v = make(nranks, step, N, WEFT_FLOAT32, real);
        memcpy(src, v.of[rank], N * sizeof *src);
        call.options = &options;
        call.op = twice;
        WT_CHECK_OK(weft_issue(f.comm, &call, NULL));
        if (to != src)
            WT_CHECK(memcmp(src, v.of[rank], N * sizeof *src) == 0);
        for (int r = 0; r < nranks; r++)
            for (size_t i = 0; i < N; i++)
                v.of[r][i] *= ldexpf(1, r + 1);
        reference_shared(&v, nranks, N, 128, 127, 0);
        compare("premultiplied", step, to, v.want, N, 0);
        drop(&v, nranks);
    }
    WT_CHECK_OK(weft_op_destroy(twice));
    ft_close(&f);
    free(src), free(dst);
}

/* Tensors of a batch: of each element all that was given has arrived or is kept. */
static void batch_of(struct ft_rank *f, int avg)
{
    enum { TENSORS = 4, STEPS = 5, SHORT = 1 };
    static const size_t lengths[TENSORS] = {20000, 10, 40000, 700};
    double *given[TENSORS], *arrived[TENSORS], by = avg ? 1.0 / f->nranks : 1;
    uint64_t tensor = avg ? 200 : 100;

    for (int t = 0; t < TENSORS; t++) {
        given[t] = calloc(lengths[t], sizeof *given[t]);
        arrived[t] = calloc(lengths[t], sizeof *arrived[t]);
        WT_REQUIRE(given[t] && arrived[t]);
    }
    for (int step = 0; step < STEPS; step++) {
        weft_call call = wt_call(WEFT_KIND_ALL_REDUCE, NULL, NULL, 0, WEFT_FLOAT32);
        weft_call_options options = WEFT_CALL_OPTIONS_INIT;
        weft_batch_item items[TENSORS] = {{0}};
        struct vectors v[TENSORS];
        float *got[TENSORS];
        options.codec = step % 2 ? "sharedint:block=64,min=64,ef=1,bypass=never"
                                 : "leaderk:block=256,ratio=0.25,values=fp32,min=64,ef=1,bypass=never";
        call.options = &options;
        call.op = avg ? WEFT_AVG : WEFT_SUM;
        for (int t = 0; t < TENSORS; t++) {
            v[t] = make(f->nranks, step * TENSORS + t, lengths[t], WEFT_FLOAT32, whole);
            got[t] = floats(lengths[t]);
            items[t] = (weft_batch_item){
                .src = v[t].of[f->rank], .dst = got[t], .count = lengths[t], .tensor = tensor + (uint64_t)t};
        }
        WT_CHECK_OK(weft_issue_batch(f->comm, &call, items, TENSORS, NULL));
        for (int t = 0; t < TENSORS; t++) {
            for (size_t i = 0; i < lengths[t]; i++) {
                for (int r = 0; r < f->nranks; r++)
                    given[t][i] += by * (double)v[t].of[r][i];
                arrived[t][i] += (double)got[t][i];
            }
            agree_on_bits(f, got[t], lengths[t]);
            free(got[t]);
            drop(&v[t], f->nranks);
        }
    }
    for (int t = 0; t < TENSORS; t++) {
        const struct wi_residual *r = wi_residual_look(f->comm, tensor + (uint64_t)t);
        float *own = floats(lengths[t]), *all = floats(lengths[t]);
        WT_CHECK_INT(r != NULL, t != SHORT); /* too short to be coded */
        if (r)
            memcpy(own, r->plane[WI_PLANE_WORKER].of, lengths[t] * sizeof *own);
        WT_CHECK_OK(weft_all_reduce(f->comm, own, all, lengths[t], WEFT_FLOAT32, avg ? WEFT_AVG : WEFT_SUM, NULL));
        for (size_t i = 0; i < lengths[t]; i++)
            if (!(fabs(arrived[t][i] + (double)all[i] - given[t][i]) <= 8)) { /* of millions in fp32 */
                wt_fail(__FILE__, __LINE__,
                        "avg %d, tensor %d: of element %zu %g was given, %g has arrived, %g is kept", avg, t, i,
                        given[t][i], arrived[t][i], (double)all[i]);
                break;
            }
        free(own), free(all), free(given[t]), free(arrived[t]);
    }
}

static void batches(int rank, int nranks, void *arg)
{
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    for (int avg = 0; avg < 2; avg++)
        batch_of(&f, avg);
    ft_close(&f);
}

/* ---- What is refused ---- */

static void refused(int rank, int nranks, void *arg)
{
    static float data[4096], out[4096];
    weft_call call = wt_call(WEFT_KIND_ALL_REDUCE, data, out, 4096, WEFT_FLOAT32);
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    struct weft_codec_linear linear;
    struct weft_codec codec;
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    call.options = &options;
    options.tensor = 1;
    options.codec = "leaderk:ef=dgc,bypass=never";
    SAYS(weft_issue(f.comm, &call, NULL), WEFT_EINVAL,
         "ef=dgc is for codecs that send images; the linear codec leaderk takes ef=1");
    SAYS(weft_codec_check(options.codec), WEFT_EINVAL, "ef=dgc is for codecs that send images");
    options.codec = "sharedint:ef=ef21,bypass=never";
    SAYS(weft_issue(f.comm, &call, NULL), WEFT_EINVAL, "ef=ef21 is for codecs that send images");
    SAYS(weft_codec_check(options.codec), WEFT_EINVAL, "ef=ef21 is for codecs that send images");
    WT_CHECK_INT(weft_codec_check("sharedint:ef=loco"), WEFT_SUCCESS);
    WT_CHECK_INT(weft_codec_check("randomk:values=fp16,ef=dgc"), WEFT_SUCCESS); /* is not summed, but sent as images */
    options.codec = "sharedint:bypass=never";
    options.algorithm = "no_such";
    SAYS(weft_issue(f.comm, &call, NULL), WEFT_ENOTFOUND, "no_such");
    WT_REQUIRE(wi_codec_parse("sharedint", &codec) >= 0);
    WT_CHECK_INT(wi_codec_linear(&codec, 42, &linear), WEFT_SUCCESS);
    WT_CHECK_INT(wi_codec_linear(&codec, 43, &linear), WEFT_ENOTSUP);
    WT_CHECK(strstr(wi_fail_text(), "wire=int8 holds the sum of at most 42 ranks, and here are 43: take wire=int16") !=
             NULL);
    WT_REQUIRE(wi_codec_parse("sharedint:wire=int16", &codec) >= 0);
    WT_CHECK_INT(wi_codec_linear(&codec, 10922, &linear), WEFT_SUCCESS);
    options.algorithm = NULL;
    options.tensor = 0;
    options.codec = rank ? "sharedint:bypass=never" : "sharedint:block=64,bypass=never";
    SAYS(weft_issue(f.comm, &call, NULL), WEFT_EMISMATCH, "all_reduce");
    if (!strstr(weft_thread_error(), "sum of 4096 float, compressed"))
        wt_fail(__FILE__, __LINE__, "not of the call: %s", weft_thread_error());
    ft_close(&f);
}

/* A call that would wait before it is planned: two operations cannot. */
static int open_poll(struct wi_exec *exec, struct wi_op *op, int *moved)
{
    (void)exec, (void)op, (void)moved;
    return 1;
}

static void at_a_gate(int rank, int nranks, void *arg)
{
    static const struct wi_gate_ops gate = {.name = "an open door", .poll = open_poll};
    static float data[4096], out[4096];
    struct weft_request *req;
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    WT_REQUIRE_OK(wi_comm_enter(f.comm));
    req = wi_request_get(f.comm);
    WT_REQUIRE(req != NULL);
    req->call = (struct wi_call){.coll = WI_COLL_ALL_REDUCE,
                                 .dtype = WEFT_FLOAT32,
                                 .op = WEFT_SUM,
                                 .root = -1,
                                 .src = data,
                                 .dst = out,
                                 .count = 4096};
    WT_REQUIRE_OK(wi_codec_parse_use("sharedint:bypass=never", &req->codec));
    wi_request_gate(req, &gate, NULL, 0);
    SAYS(wi_request_issue(req), WEFT_ENOTSUP,
         "codec sharedint is linear: its call is two operations, which cannot wait at a gate");
    wi_request_put(req);
    wi_comm_leave(f.comm);
    ft_close(&f);
}

/* ---- Who is to blame ---- */

static void open_with(struct ft_rank *f, const char *transport, uint64_t timeout_ms, int rank, int nranks,
                      weft_call *call, weft_call_options *options, const char *codec)
{
    static float data[100000];

    ft_open(f, transport, timeout_ms, rank, nranks);
    *options = (weft_call_options)WEFT_CALL_OPTIONS_INIT;
    options->codec = codec;
    options->tensor = 3;
    *call = wt_call(WEFT_KIND_ALL_REDUCE, data, data, 100000, WEFT_FLOAT32);
    call->options = options;
}

/* The operation that is the communicator's `seq`th, whatever it consists of, has failed because of that peer. */
static void blames(struct ft_rank *f, weft_status status, int peer, uint32_t seq)
{
    weft_error info = WEFT_ERROR_INIT;

    WT_CHECK_OK(weft_last_error(f->comm, &info));
    WT_CHECK_INT(info.status, status);
    WT_CHECK_INT(info.peer, peer);
    WT_CHECK_INT((int)info.seq, (int)seq);
}

/* Descriptors that differ are found at once, whatever is sent by them. */
static void disagreeing(int rank, int nranks, void *arg)
{
    static const char *const pairs[][2] = {
        {"sharedint:bypass=never", NULL},
        {"sharedint:bypass=never", "int8"},
        {"leaderk:bypass=never", NULL},
        {"leaderk:ratio=0.01,ef=1,bypass=never", "leaderk:ratio=0.02,ef=1,bypass=never"},
        {"randomk:bypass=never", NULL},
        {"int8:bypass=never", "int8"},
    };

    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        uint64_t began = wt_now_ms();
        weft_call_options options;
        struct ft_rank f;
        weft_call call;

        open_with(&f, arg, 20000, rank, nranks, &call, &options, pairs[i][rank]);
        WT_CHECK_STATUS(weft_issue(f.comm, &call, NULL), WEFT_EMISMATCH);
        blames(&f, WEFT_EMISMATCH, !rank, 2);
        WT_CHECK(wt_now_ms() - began < wt_slow_ms(10000));
        ft_close(&f);
    }
}

/* Rank 1 never calls. The others name it, where all see how far the others are; over messages the one that waits for another that
 * waits may name that. */
static void blames_absent(struct ft_rank *f, const char *transport, uint32_t newest)
{
    weft_error info = WEFT_ERROR_INIT;

    WT_CHECK_OK(weft_last_error(f->comm, &info));
    blames(f, WEFT_ETIMEDOUT, strcmp(transport, "tcp") == 0 && info.peer == 2 - f->rank ? info.peer : 1,
           info.seq == newest ? newest : 2);
}

static void missing(int rank, int nranks, void *arg)
{
    static const char *const codecs[] = {"sharedint:bypass=never", "leaderk:ef=1,bypass=never", "randomk:bypass=never",
                                         NULL};

    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) {
        weft_call_options options;
        struct ft_rank f;
        weft_call call;

        open_with(&f, arg, 700, rank, nranks, &call, &options, codecs[i]);
        if (rank != 1) {
            WT_CHECK_STATUS(weft_issue(f.comm, &call, NULL), WEFT_ETIMEDOUT);
            blames_absent(&f, arg, 2);
        }
        wt_sync();
        ft_close(&f);
    }
}

/* The call's own deadline is that of all that it waits for. */
static void missing_in_time(int rank, int nranks, void *arg)
{
    static const char *const codecs[] = {"sharedint:bypass=never", "leaderk:ef=1,bypass=never"};

    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) {
        weft_call_options options;
        uint64_t began;
        struct ft_rank f;
        weft_call call;

        open_with(&f, arg, 60000, rank, nranks, &call, &options, codecs[i]);
        options.timeout_ns = 150 * FT_MS;
        began = wt_now_ms();
        if (rank != 1) {
            WT_CHECK_STATUS(weft_issue(f.comm, &call, NULL), WEFT_ETIMEDOUT);
            blames(&f, WEFT_ETIMEDOUT, 1, 2);
        }
        WT_CHECK(wt_now_ms() - began <= wt_slow_ms(10000));
        wt_sync();
        ft_close(&f);
    }
}

/* Likewise where the call has more time than others of its communicator. */
static void late_in_time(int rank, int nranks, void *arg)
{
    weft_call_options options;
    struct ft_rank f;
    weft_call call;

    open_with(&f, arg, 20000, rank, nranks, &call, &options, "sharedint:bypass=never");
    WT_CHECK_OK(weft_comm_set_timeout(f.comm, 200 * FT_MS));
    options.timeout_ns = 20000 * FT_MS;
    wt_sync();
    if (rank == 1)
        usleep(500000); /* longer than what others have */
    WT_CHECK_OK(weft_issue(f.comm, &call, NULL));
    wt_sync();
    ft_close(&f);
}

/* Rank 1 calls nothing. Who waits for the last of several calls names it all the same. */
static void held(int rank, int nranks, void *arg)
{
    weft_call_options options;
    weft_request *first;
    struct ft_rank f;
    weft_call call;

    open_with(&f, arg, 700, rank, nranks, &call, &options, NULL);
    if (rank != 1) {
        WT_CHECK_OK(weft_issue(f.comm, &call, &first));
        options.codec = "sharedint:bypass=never";
        WT_CHECK_STATUS(weft_issue(f.comm, &call, NULL), WEFT_ETIMEDOUT);
        blames_absent(&f, arg, 3); /* in which it waits when another rank tells it */
        WT_CHECK_STATUS(weft_wait(first), WEFT_ETIMEDOUT);
    }
    wt_sync();
    ft_close(&f);
}

/* A residual that is younger on one rank: another one would lead there, or other places would be sent. */
static void other_steps(int rank, int nranks, void *arg)
{
    static const char *const codecs[] = {"leaderk:ratio=0.01,ef=1,bypass=never", "randomk:ef=1,bypass=never",
                                         "int4:ef=ef21,bypass=never"};

    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) {
        weft_call_options options;
        struct ft_rank f;
        weft_call call;

        open_with(&f, arg, 20000, rank, nranks, &call, &options, codecs[i]);
        WT_CHECK_OK(weft_issue(f.comm, &call, NULL));
        if (rank == 1)
            WT_CHECK_OK(weft_comm_residual_clear(f.comm, 3));
        WT_CHECK_STATUS(weft_issue(f.comm, &call, NULL), WEFT_EMISMATCH);
        blames(&f, WEFT_EMISMATCH, !rank, 3);
        ft_close(&f);
    }
}

/* ---- No memory ---- */

/* A batch of which one tensor is coded and others are not; every allocation of the call fails once. What the call has
 * begun by then ends with a later one, and touches nothing that is gone: which the sanitizers and valgrind see. */
static void without_memory(int rank, int nranks, void *arg)
{
    enum { LONG = 20000, SHORT = 2000, TIMES = 50 };
    float *of_long[2] = {floats(LONG), floats(LONG)}, *of_short[2] = {floats(SHORT), floats(SHORT)};
    const weft_batch_item items[] = {{.src = of_long[0], .dst = of_long[1], .count = LONG, .tensor = 1},
                                     {.src = of_short[0], .dst = of_short[1], .count = SHORT, .tensor = 2}};
    weft_call call = wt_call(WEFT_KIND_ALL_REDUCE, NULL, NULL, 0, WEFT_FLOAT32);
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    weft_status st = WEFT_SUCCESS;

    options.codec = "sharedint:block=64,min=10000,bypass=never";
    call.options = &options;
    for (size_t i = 0; i < LONG; i++)
        of_long[0][i] = (float)(i % 7);
    for (long nth = 1; nth <= TIMES; nth++) { /* ranks need not need equally many: in the last ones all have enough */
        int one = 1, sum = 0;
        weft_request *req = NULL;
        struct ft_rank f;
        ft_open(&f, arg, 400, rank, nranks);
        wi_alloc_fail_nth(nth);
        st = weft_issue_batch(f.comm, &call, items, 2, &req);
        WT_CHECK(wi_alloc_fail_nth(0) < TIMES);
        if (st >= 0) {
            st = weft_wait(req);
            weft_request_free(req);
        } else {
            weft_all_reduce(f.comm, &one, &sum, 1, WEFT_INT32, WEFT_SUM, NULL); /* it may fail, too */
        }
        ft_close(&f);
    }
    WT_CHECK_OK(st);
    for (size_t i = 0; i < LONG; i++)
        of_long[0][i] *= (float)nranks;
    compare("after all", 0, of_long[1], of_long[0], LONG, 0.06f); /* of 63 levels half a level of 6, of 1 */
    for (int i = 0; i < 2; i++) {
        free(of_long[i]);
        free(of_short[i]);
    }
}

/* What a recorder says of the call: its codec, that it was not bypassed, and the bytes of both operations. */
static void recorded(int rank, int nranks, void *arg)
{
    static float data[40960], out[40960];
    weft_call call = wt_call(WEFT_KIND_ALL_REDUCE, data, out, 40960, WEFT_FLOAT32);
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    weft_collective_info info = WEFT_COLLECTIVE_INFO_INIT;
    struct ft_rank f;

    ft_open(&f, arg, 20000, rank, nranks);
    options.codec = "sharedint:bypass=never";
    options.algorithm = "ring";
    call.options = &options;
    WT_CHECK_OK(weft_issue(f.comm, &call, NULL));
    WT_CHECK_OK(weft_comm_newest_collective(f.comm, &info));
    WT_CHECK(!strcmp(info.codec, "sharedint"));
    WT_CHECK_INT(info.bypassed, 0);
    /* Of codes 2 (P - 1) / P; of scales, by whichever algorithm, not more than P - 1 times all of them. */
    if (strcmp(arg, "shm") != 0) /* what others copy is not sent */
        WT_CHECK(info.bytes_sent > 2 * 40960u * (unsigned)(nranks - 1) / (unsigned)nranks);
    WT_CHECK(info.bytes_sent <= 2 * 40960u * (unsigned)(nranks - 1) / (unsigned)nranks + (unsigned)nranks * 640u + 256);
    options.codec = "sharedint"; /* in memory plain data is faster */
    options.algorithm = NULL;
    WT_CHECK_OK(weft_issue(f.comm, &call, NULL));
    WT_CHECK_OK(weft_comm_newest_collective(f.comm, &info));
    if (strcmp(arg, "shm") == 0)
        WT_CHECK_INT(info.bypassed, 1);
    ft_close(&f);
}

#define CASE(name, fn, nranks)                                         \
    static void name##_everywhere(void)                                \
    {                                                                  \
        CU_ASSERT_EQUAL(ft_run_everywhere(nranks, fn, #fn, 60000), 0); \
    }
CASE(shared2, shared_ints, 2)
CASE(leaders3, leaders, 3)
CASE(random3, random_places, 3)
CASE(residuals3, residuals, 3)
CASE(changing3, changing_codecs, 3)
CASE(follows3, shared_follows, 3)
CASE(turns3, leaders_follow, 3)
CASE(behind3, behind_each_other, 3)
CASE(again2, started_again, 2)
CASE(premul3, premultiplied, 3)
CASE(batches3, batches, 3)

/* Over the fake card a rank may find its peer gone before it reads why. */
#define FAILING(name, fn, nranks)                                                              \
    static void name##_failing(void)                                                           \
    {                                                                                          \
        CU_ASSERT_EQUAL(wt_run(nranks, fn, (void *)(uintptr_t) "shm", 60000), 0);              \
        CU_ASSERT_EQUAL(wt_run(nranks, fn, (void *)(uintptr_t) "tcp", 60000), 0);              \
        CU_ASSERT_EQUAL(wt_threads_apart(nranks, fn, (void *)(uintptr_t) "inproc", 60000), 0); \
    }
FAILING(disagreeing2, disagreeing, 2)
FAILING(missing3, missing, 3)
FAILING(deadline2, missing_in_time, 2)
FAILING(late2, late_in_time, 2)
FAILING(held3, held, 3)
FAILING(steps2, other_steps, 2)

static void memory(void) /* as processes: it is one of those that lacks it */
{
    CU_ASSERT_EQUAL(wt_run(2, without_memory, (void *)(uintptr_t) "shm", 60000), 0);
    CU_ASSERT_EQUAL(wt_run(2, without_memory, (void *)(uintptr_t) "tcp", 60000), 0);
}

static void many(void)
{
    for (int n = 2; n <= MAX_RANKS; n += n < 4 ? 1 : 2)
        CU_ASSERT_EQUAL(wt_run(n, shared_ints, (void *)(uintptr_t) "tcp", 120000), 0);
    CU_ASSERT_EQUAL(wt_run(7, leaders, (void *)(uintptr_t) "shm", 120000), 0);
    CU_ASSERT_EQUAL(wt_run(2, leaders_follow, (void *)(uintptr_t) "tcp", 120000), 0);
    CU_ASSERT_EQUAL(wt_run(7, residuals, (void *)(uintptr_t) "tcp", 120000), 0);
}

static void refusals(void)
{
    CU_ASSERT_EQUAL(wt_run(2, refused, (void *)(uintptr_t) "tcp", 60000), 0);
    CU_ASSERT_EQUAL(wt_run(2, refused, (void *)(uintptr_t) "shm", 60000), 0);
    CU_ASSERT_EQUAL(wt_run(2, at_a_gate, (void *)(uintptr_t) "tcp", 60000), 0);
}

static void records(void)
{
    CU_ASSERT_EQUAL(wt_run(4, recorded, (void *)(uintptr_t) "tcp", 60000), 0);
    CU_ASSERT_EQUAL(wt_run(2, recorded, (void *)(uintptr_t) "shm", 60000), 0);
}

static const struct wt_case cases[] = {
    {"sharedint is what it is defined to be", shared2_everywhere},
    {"leaderk likewise", leaders3_everywhere},
    {"randomk sends the same places everywhere", random3_everywhere},
    {"what is given arrives or is kept", residuals3_everywhere},
    {"also when codecs change", changing3_everywhere},
    {"residuals as the forms are defined", follows3_everywhere},
    {"with a residual ranks lead in turn", turns3_everywhere},
    {"several at once", behind3_everywhere},
    {"started again", again2_everywhere},
    {"vectors times a number", premul3_everywhere},
    {"batches", batches3_everywhere},
    {"2 to 8 ranks", many},
    {"what is refused", refusals},
    {"what is recorded", records},
    {"another codec on another rank", disagreeing2_failing},
    {"a rank that never calls is named", missing3_failing},
    {"by the call's own deadline", deadline2_failing},
    {"which may be longer than others'", late2_failing},
    {"also by who waits for a later call", held3_failing},
    {"residuals of different ages", steps2_failing},
    {"without memory", memory},
};
WT_UNIT_MAIN("linear", cases)
