/* SPDX-License-Identifier: BSD-3-Clause */
/* Engines: all stages give the same bits, and those of a plain reference in double to rounding. */
#include "tests/zero/model.h"

enum { STEPS = 6, TOTAL = ZT_PARAMS * ZT_MOST };

struct variant {
    const char *what;
    int micro_batches;
    weft_zero_reduce reduce;
    double clip;
    int overlap, in_place;
    weft_dtype dtype;
    size_t persistent, prefetch, reuse, live;
    int shard_ranks, secondary;
    double offload;                    /* of the optimizer's states in a file */
    int params;                        /* parameters and gradients, too, in stage 3 */
    const char *gather, *reduce_codec; /* of stages 1 to 3 */
    double tolerance;
};

static const struct variant variants[] = {
    {"plain", .micro_batches = 1, .overlap = 1, .dtype = WEFT_FLOAT32, .prefetch = (size_t)-1},
    {"clipped", .micro_batches = 1, .clip = .05, .overlap = 1, .dtype = WEFT_FLOAT32, .prefetch = (size_t)-1},
    {"accumulated", .micro_batches = 3, .reduce = WEFT_ZERO_REDUCE_EVERY, .clip = .5, .overlap = 1,
     .dtype = WEFT_FLOAT32, .prefetch = (size_t)-1},
    {"in place", .micro_batches = 2, .reduce = WEFT_ZERO_REDUCE_EVERY, .overlap = 1, .in_place = 1,
     .dtype = WEFT_FLOAT32, .prefetch = (size_t)-1},
    {"without overlap", .micro_batches = 2, .reduce = WEFT_ZERO_REDUCE_EVERY, .overlap = 0, .dtype = WEFT_FLOAT32,
     .prefetch = (size_t)-1},
    {"some kept, much prefetched", .micro_batches = 1, .overlap = 1, .dtype = WEFT_FLOAT32, .persistent = 500,
     .prefetch = (size_t)-1, .reuse = 1000, .live = 1u << 20},
    {"nothing prefetched", .micro_batches = 1, .overlap = 1, .dtype = WEFT_FLOAT32, .prefetch = 0},
    {"bfloat16", .micro_batches = 2, .reduce = WEFT_ZERO_REDUCE_EVERY, .clip = .5, .overlap = 1, .dtype = WEFT_BFLOAT16,
     .prefetch = (size_t)-1},
};

static weft_zero_config config_of(const struct variant *v, int stage)
{
    weft_zero_config config = WEFT_ZERO_CONFIG_INIT;

    config.stage = stage;
    config.micro_batches = v->micro_batches;
    config.reduce = v->reduce;
    config.clip = v->clip;
    config.overlap = v->overlap;
    config.persistent_elems = v->persistent;
    config.prefetch_elems = v->prefetch;
    config.reuse_elems = v->reuse;
    config.live_elems = v->live;
    config.shard_ranks = v->shard_ranks;
    config.secondary_ranks = stage == 3 ? v->secondary : 0;
    config.threads = 1;
    config.gather_codec = v->gather;
    config.reduce_codec = v->reduce_codec;
    if (v->offload > 0 && stage != 1) { /* one stage without, to compare with */
        config.offload_folder = wt_temp_dir();
        config.offload_ratio = v->offload;
        config.offload_params = v->params && stage == 3;
    }
    return config;
}

static const weft_zero_hyper groups[2] = {
    {sizeof(weft_zero_hyper), 1e-2, .9, .99, 1e-8, .1, 0, 0, 0, 0, 0, 10, .01},
    {sizeof(weft_zero_hyper), 3e-3, .8, .95, 1e-6, 0, 0, 0, 0, 0, 0, 10, .01},
};

/* Weights and first moments after some steps. */
static size_t train(struct ft_rank *f, const struct variant *v, int stage, float *out, double *norms)
{
    weft_zero_config config = config_of(v, stage);
    struct zt_engine e;
    size_t n;

    zt_seal(&e, f, &config, v->dtype);
    for (int s = 0; s < STEPS; s++) {
        weft_zero_step_info info = WEFT_ZERO_STEP_INFO_INIT;

        for (int m = 0; m < v->micro_batches; m++)
            zt_micro_batch(&e, s, m, v->in_place);
        WT_REQUIRE_OK(weft_zero_step(e.zero, groups, 2, &info));
        WT_CHECK_INT(info.skipped, 0);
        WT_CHECK_INT(info.step, s + 1);
        norms[s] = info.norm;
    }
    n = zt_weights(&e, WEFT_ZERO_WEIGHT, out);
    n += zt_weights(&e, WEFT_ZERO_MOMENT1, out + n);
    n += zt_weights(&e, WEFT_ZERO_MOMENT2, out + n);
    WT_CHECK_OK(weft_zero_destroy(e.zero));
    return n;
}

/* AdamW in double on what all ranks together would compute. */
static void reference(const struct variant *v, int nranks, double *weights, double *norms)
{
    static double m1[TOTAL], m2[TOTAL], g[TOTAL];
    size_t n = 0;

    memset(m1, 0, sizeof m1);
    memset(m2, 0, sizeof m2);
    for (int p = 0; p < ZT_PARAMS; p++)
        for (size_t i = 0; i < zt_elems(p); i++)
            weights[n++] = zt_initial(p, i);
    for (int s = 0; s < STEPS; s++) {
        double squares = 0;

        n = 0;
        for (int p = 0; p < ZT_PARAMS; p++)
            for (size_t i = 0; i < zt_elems(p); i++, n++) {
                g[n] = 0;
                if ((zt_specs[p].flags & WEFT_ZERO_FROZEN) || (s % 3 == 2 && p == 5))
                    continue;
                for (int r = 0; r < nranks; r++)
                    for (int m = 0; m < v->micro_batches; m++)
                        g[n] += zt_gradient(r, s, m, p, i, (float)weights[n]);
                g[n] /= nranks * v->micro_batches;
                squares += g[n] * g[n];
            }
        norms[s] = sqrt(squares);
        double factor = v->clip > 0 && norms[s] > v->clip ? v->clip / (norms[s] + 1e-6) : 1;

        n = 0;
        for (int p = 0; p < ZT_PARAMS; p++)
            for (size_t i = 0; i < zt_elems(p); i++, n++) {
                const weft_zero_hyper *h = &groups[zt_specs[p].group];

                if (zt_specs[p].flags & WEFT_ZERO_FROZEN)
                    continue;
                g[n] *= factor;
                m1[n] = h->beta1 * m1[n] + (1 - h->beta1) * g[n];
                m2[n] = h->beta2 * m2[n] + (1 - h->beta2) * g[n] * g[n];
                weights[n] -= h->lr * h->weight_decay * weights[n];
                weights[n] -=
                    h->lr * m1[n] / (1 - pow(h->beta1, s + 1)) / (sqrt(m2[n] / (1 - pow(h->beta2, s + 1))) + h->eps);
            }
    }
}

static void same(int rank, int nranks, void *arg)
{
    const struct variant *v = arg;
    static float first[3 * TOTAL], other[3 * TOTAL];
    static double exact[TOTAL];
    double norms[STEPS], expected[STEPS], tolerance = v->dtype == WEFT_FLOAT32 ? 1e-4 : 2e-2;
    int coded = v->gather || v->reduce_codec; /* stage 0 gathers no parameters, and coded ones are others */
    struct ft_rank f;
    size_t n;

    tolerance = v->tolerance > 0 ? v->tolerance : tolerance;
    ft_open(&f, "shm,tcp", 20000, rank, nranks);
    n = train(&f, v, coded, first, norms);
    reference(v, nranks, exact, expected);
    for (int s = 0; s < STEPS; s++)
        WT_CHECK(fabs(norms[s] - expected[s]) <= tolerance * expected[s]);
    for (size_t i = 0, at = 0; at < ZT_PARAMS; at++)
        for (size_t k = 0; k < zt_elems((int)at); k++, i++)
            if (fabs((double)first[i] - exact[i]) > tolerance)
                wt_fail(__FILE__, __LINE__, "%s[%zu] is %g, not %g", zt_specs[at].name, k, (double)first[i], exact[i]);
    for (int stage = 1 + coded; stage <= 3; stage++) {
        memset(other, 0x7f, sizeof other);
        WT_CHECK_INT(train(&f, v, stage, other, expected), n);
        if (v->gather && stage == 3) { /* below it first weights are what was set; here they are gathered, too */
            for (size_t i = 0; i < n / 3; i++)
                WT_CHECK(fabsf(other[i] - first[i]) <= (float)tolerance);
            continue;
        }
        WT_CHECK_MEM(other, first, n * sizeof *other);
        WT_CHECK_MEM(expected, norms, sizeof norms);
    }
    ft_close(&f);
}

static void all_stages(void)
{
    static const int sizes[] = {1, 2, 3, 8};

    for (size_t v = 0; v < sizeof variants / sizeof *variants; v++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            int failed = wt_run(sizes[s], same, (void *)(uintptr_t)&variants[v], 60000);

            if (failed)
                printf("# %s, %d ranks: %d failed\n", variants[v].what, sizes[s], failed);
            CU_ASSERT_EQUAL(failed, 0);
        }
}

/* Copies on two, or on four, ranks each: another order of sums, so that only the stages are compared with each other. */
static void copies(void)
{
    static const struct variant twos = {
        "copies on two ranks", .micro_batches = 2,    .reduce = WEFT_ZERO_REDUCE_EVERY, .clip = .5,
        .overlap = 1,          .dtype = WEFT_FLOAT32, .prefetch = (size_t)-1,           .shard_ranks = 2};
    static const struct variant fours = {"copies on four ranks", .micro_batches = 1,     .clip = .5,      .overlap = 1,
                                         .dtype = WEFT_FLOAT32,  .prefetch = (size_t)-1, .shard_ranks = 4};
    static const struct variant node = {"copies on a host",    .micro_batches = 1,     .clip = .5,       .overlap = 1,
                                        .dtype = WEFT_FLOAT32, .prefetch = (size_t)-1, .shard_ranks = -1};

    CU_ASSERT_EQUAL(wt_run(4, same, (void *)(uintptr_t)&twos, 60000), 0);
    CU_ASSERT_EQUAL(wt_run(8, same, (void *)(uintptr_t)&twos, 60000), 0);
    CU_ASSERT_EQUAL(wt_run(8, same, (void *)(uintptr_t)&fours, 60000), 0);
    CU_ASSERT_EQUAL(wt_run(3, same, (void *)(uintptr_t)&node, 60000), 0);
}

/* Backward passes gather from a second copy, on fewer ranks; in bfloat16 and with units that stay, too. */
static void seconds(void)
{
    static const struct variant second[] = {
        {"a second copy on two ranks", .micro_batches = 2, .reduce = WEFT_ZERO_REDUCE_EVERY, .clip = .5, .overlap = 1,
         .dtype = WEFT_FLOAT32, .prefetch = (size_t)-1, .secondary = 2},
        {"a second copy, some kept", .micro_batches = 1, .dtype = WEFT_BFLOAT16, .persistent = 500, .secondary = 2},
        {"a second copy on a host", .micro_batches = 1, .overlap = 1, .dtype = WEFT_FLOAT32, .prefetch = (size_t)-1,
         .live = 1u << 20, .secondary = -1},
    };

    for (int i = 0; i < 3; i++)
        CU_ASSERT_EQUAL(wt_run(4, same, (void *)(uintptr_t)&second[i], 60000), 0);
    CU_ASSERT_EQUAL(wt_run(8, same, (void *)(uintptr_t)&second[0], 60000), 0);
}

static void offloaded(void)
{
    static const struct variant all = {
        "all in a file", .micro_batches = 2,    .reduce = WEFT_ZERO_REDUCE_EVERY, .clip = .5,
        .overlap = 1,    .dtype = WEFT_FLOAT32, .prefetch = (size_t)-1,           .offload = 1};
    static const struct variant some = {"some in a file",       .micro_batches = 1,     .clip = .5,   .overlap = 1,
                                        .dtype = WEFT_BFLOAT16, .prefetch = (size_t)-1, .offload = .5};
    static const struct variant half = {"half types in a file", .micro_batches = 1, .overlap = 0,
                                        .dtype = WEFT_BFLOAT16, .prefetch = 0,      .offload = 1};

    static const struct variant params[] = {
        {"parameters in a file", .micro_batches = 2, .reduce = WEFT_ZERO_REDUCE_EVERY, .clip = .5, .overlap = 1,
         .dtype = WEFT_FLOAT32, .prefetch = (size_t)-1, .offload = 1, .params = 1},
        {"parameters in a file, some kept", .micro_batches = 1, .clip = .5, .overlap = 1, .dtype = WEFT_FLOAT32,
         .prefetch = (size_t)-1, .live = 1u << 20, .persistent = 500, .offload = .1, .params = 1},
        {"half parameters in a file", .micro_batches = 3, .reduce = WEFT_ZERO_REDUCE_EVERY, .clip = .5,
         .dtype = WEFT_BFLOAT16, .prefetch = (size_t)-1, .offload = 1, .params = 1},
    };

    for (int i = 0; i < 3; i++)
        for (int n = 1; n <= 5; n += 2)
            CU_ASSERT_EQUAL(wt_run(n, same, (void *)(uintptr_t)&params[i], 60000), 0);
    CU_ASSERT_EQUAL(wt_run(1, same, (void *)(uintptr_t)&all, 60000), 0);
    CU_ASSERT_EQUAL(wt_run(3, same, (void *)(uintptr_t)&all, 60000), 0);
    CU_ASSERT_EQUAL(wt_run(2, same, (void *)(uintptr_t)&some, 60000), 0);
    CU_ASSERT_EQUAL(wt_run(4, same, (void *)(uintptr_t)&half, 60000), 0);
}

/* Coded: near the reference, and the same bits in all stages that gather parameters. */
static void coded(void)
{
    static const struct variant variants_coded[] = {
        {"gathers in int8", .micro_batches = 2, .reduce = WEFT_ZERO_REDUCE_EVERY, .clip = .5, .overlap = 1,
         .dtype = WEFT_FLOAT32, .prefetch = (size_t)-1, .persistent = 100, .gather = "int8:block=64,bypass=never",
         .tolerance = .03},
        {"reductions in int8", .micro_batches = 1, .overlap = 1, .dtype = WEFT_FLOAT32, .prefetch = (size_t)-1,
         .reduce_codec = "int8:block=64,bypass=never", .tolerance = .05},
        {"reductions in int4 with feedback", .micro_batches = 1, .overlap = 1, .dtype = WEFT_FLOAT32,
         .prefetch = (size_t)-1, .reduce_codec = "int4:block=64,ef=1,bypass=never", .tolerance = .2},
        {"both", .micro_batches = 1, .dtype = WEFT_BFLOAT16, .prefetch = (size_t)-1,
         .gather = "int8:block=64,bypass=never", .reduce_codec = "int8:block=64,bypass=never", .tolerance = .1},
    };

    for (int i = 0; i < 4; i++)
        for (int n = 2; n <= 4; n += 2)
            CU_ASSERT_EQUAL(wt_run(n, same, (void *)(uintptr_t)&variants_coded[i], 60000), 0);
}

/* ---- Another engine goes on ---- */

static void make_steps(struct zt_engine *e, const struct variant *v, int from, int to)
{
    for (int s = from; s < to; s++) {
        for (int m = 0; m < v->micro_batches; m++)
            zt_micro_batch(e, s, m, 0);
        WT_REQUIRE_OK(weft_zero_step(e->zero, groups, 2, NULL));
    }
}

/* Weights and moments of one engine, given to another one. */
static void copy_values(struct zt_engine *from, struct zt_engine *to)
{
    float values[ZT_MOST];

    for (int p = 0; p < ZT_PARAMS; p++)
        for (weft_zero_what what = WEFT_ZERO_WEIGHT; what <= WEFT_ZERO_MOMENT2; what++) {
            if (what == WEFT_ZERO_GRAD || (what != WEFT_ZERO_WEIGHT && (zt_specs[p].flags & WEFT_ZERO_FROZEN)))
                continue;
            WT_REQUIRE_OK(weft_zero_param_get(from->zero, from->params[p], what, values, WEFT_FLOAT32));
            WT_REQUIRE_OK(weft_zero_param_set(to->zero, to->params[p], what, values, WEFT_FLOAT32));
        }
}

static void resume(int rank, int nranks, void *arg)
{
    static float whole[TOTAL], resumed[TOTAL];
    const struct variant *v = arg;
    struct ft_rank f;

    ft_open(&f, "shm,tcp", 20000, rank, nranks);
    for (int stage = 0; stage <= 3; stage++) {
        weft_zero_config config = config_of(v, stage), other = config_of(v, 3 - stage);
        struct zt_engine first, second;

        zt_seal(&first, &f, &config, v->dtype);
        zt_seal(&second, &f, &other, v->dtype);
        make_steps(&first, v, 0, 3);
        copy_values(&first, &second);
        WT_CHECK_OK(weft_zero_set_step(second.zero, 3));
        make_steps(&first, v, 3, STEPS);
        make_steps(&second, v, 3, STEPS);
        size_t n = zt_weights(&first, WEFT_ZERO_WEIGHT, whole);

        WT_CHECK_INT(zt_weights(&second, WEFT_ZERO_WEIGHT, resumed), n);
        WT_CHECK_MEM(resumed, whole, n * sizeof *whole);
        zt_micro_batch(&second, STEPS, 0, 0);
        WT_CHECK_INT(weft_zero_set_step(second.zero, 3), WEFT_EINVAL);
        WT_CHECK_OK(weft_zero_destroy(second.zero));
        WT_CHECK_OK(weft_zero_destroy(first.zero));
    }
    ft_close(&f);
}

static void resumes(void)
{
    CU_ASSERT_EQUAL(wt_run(3, resume, (void *)(uintptr_t)&variants[2], 60000), 0);
    CU_ASSERT_EQUAL(wt_run(2, resume, (void *)(uintptr_t)&variants[7], 60000), 0);
}

/* From the second micro-batch on reductions add to the shards: in the buffer each rank's own gradients stay as they came. */
static void added(int rank, int nranks, void *arg)
{
    static const struct variant v = {"added",      .micro_batches = 2,    .reduce = WEFT_ZERO_REDUCE_EVERY,
                                     .overlap = 1, .dtype = WEFT_FLOAT32, .prefetch = (size_t)-1};
    weft_zero_config config = config_of(&v, 1);
    float sums[TOTAL], *place, own;
    struct zt_engine e;
    struct ft_rank f;
    void *data;
    int add;

    ft_open(&f, arg, 60000, rank, nranks);
    zt_seal(&e, &f, &config, v.dtype);
    zt_micro_batch(&e, 0, 0, 1);
    WT_REQUIRE_OK(weft_zero_grad_buffer(e.zero, e.params[0], &data, &add));
    place = data;
    for (size_t i = 0; i < zt_elems(0); i++)
        place[i] = (float)((int)i % 5 + rank);
    WT_REQUIRE_OK(weft_zero_grad_ready(e.zero, e.params[0]));
    WT_REQUIRE_OK(weft_zero_micro_batch_end(e.zero));
    WT_REQUIRE_OK(weft_zero_param_get(e.zero, e.params[0], WEFT_ZERO_GRAD, sums, WEFT_FLOAT32));
    for (size_t i = 0; i < zt_elems(0); i++) {
        double want = 0;

        for (int r = 0; r < nranks; r++)
            want += zt_gradient(r, 0, 0, 0, i, zt_initial(0, i)) + (float)((int)i % 5 + r);
        WT_CHECK(fabs(sums[i] - want) < 1e-4);
        own = (float)((int)i % 5 + rank);
        WT_CHECK(place[i] == own);
    }
    WT_CHECK_OK(weft_zero_destroy(e.zero));
    ft_close(&f);
}

static void sums_are_added(void)
{
    CU_ASSERT_EQUAL(wt_run(2, added, (void *)(uintptr_t) "shm", 60000), 0);
    CU_ASSERT_EQUAL(wt_run(3, added, (void *)(uintptr_t) "tcp", 60000), 0);
}

static const struct wt_case cases[] = {
    {"all stages have the same bits", all_stages},
    {"reductions add to the shards", sums_are_added},
    {"and so have they with several copies", copies},
    {"and with a second copy for backward passes", seconds},
    {"and with states in a file", offloaded},
    {"and with codecs those that gather", coded},
    {"another engine goes on from values and a number of steps", resumes},
};
WT_UNIT_MAIN("zero", cases)
