/* All-reduces with linear codecs and error feedback: what is given arrives or is kept, whatever the codec, also when codecs change
 * and in batches; and what is kept is what the forms of error feedback are defined to keep.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/multi/linear_reference.h"

#include "comm/comm.h"
#include "comm/residual.h"

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

/* ---- Batches ---- */

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

CASE(residuals3, residuals, 3)
CASE(changing3, changing_codecs, 3)
CASE(follows3, shared_follows, 3)
CASE(turns3, leaders_follow, 3)
CASE(batches3, batches, 3)

static void other_numbers(void)
{
    CU_ASSERT_EQUAL(wt_run(2, leaders_follow, (void *)(uintptr_t) "tcp", 120000), 0);
    CU_ASSERT_EQUAL(wt_run(7, residuals, (void *)(uintptr_t) "tcp", 120000), 0);
}

static const struct wt_case cases[] = {
    {"what is given arrives or is kept", residuals3_everywhere},
    {"also when codecs change", changing3_everywhere},
    {"residuals as the forms are defined", follows3_everywhere},
    {"with a residual ranks lead in turn", turns3_everywhere},
    {"batches", batches3_everywhere},
    {"2 and 7 ranks", other_numbers},
};
WT_UNIT_MAIN("linear_residuals", cases)
