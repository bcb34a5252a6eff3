/* SPDX-License-Identifier: BSD-3-Clause */
/* Engines: what is dropped, accumulated, scaled, asked for and set in between. */
#include "tests/zero/layers.h"

/* ---- Gradients that are dropped, and micro-batches that are counted otherwise ---- */

static const struct {
    int stage, micro_batches;
    weft_zero_reduce reduce;
} kinds[] = {{0, 2, WEFT_ZERO_REDUCE_AUTO},  {0, 2, WEFT_ZERO_REDUCE_EVERY}, {1, 2, WEFT_ZERO_REDUCE_AUTO},
             {1, 2, WEFT_ZERO_REDUCE_EVERY}, {2, 2, WEFT_ZERO_REDUCE_AUTO},  {3, 2, WEFT_ZERO_REDUCE_AUTO}};
enum { KINDS = sizeof kinds / sizeof *kinds };

static weft_zero_config config_of(int kind)
{
    weft_zero_config config = plain(kinds[kind].stage);

    config.micro_batches = kinds[kind].micro_batches;
    config.reduce = kinds[kind].reduce;
    return config;
}

/* Where it is dropped: after the first micro-batch, within the second, after the last; ranks may be at different places. */
static void drop_at(struct layers *l, int where, int s)
{
    if (where > 0)
        micro_batch(l, s, 7, 100);
    if (where == 2)
        for (int u = UNITS - 1; u >= UNITS / 2; u--)
            give(l, u, s, 8, 100);
    if (where == 3)
        micro_batch(l, s, 8, 100);
    WT_REQUIRE_OK(weft_zero_drop_gradients(l->zero));
}

static void dropped(int rank, int nranks, void *arg)
{
    static float expected[TOTAL], found[TOTAL];
    struct ft_rank f;

    (void)arg;
    ft_open(&f, "shm,tcp", 20000, rank, nranks);
    for (int k = 0; k < KINDS; k++) {
        weft_zero_config config = config_of(k);
        struct layers first, second;
        size_t n;

        open_layers(&first, &f, &config, WEFT_FLOAT32);
        open_layers(&second, &f, &config, WEFT_FLOAT32);
        for (int s = 0; s < 5; s++) {
            drop_at(&second, s % 4, s);
            for (int m = 0; m < 2; m++) {
                micro_batch(&first, s, m, 1);
                micro_batch(&second, s, m, 1);
            }
            step(&first);
            step(&second);
        }
        n = weights(&first, expected);
        WT_CHECK_INT(weights(&second, found), n);
        WT_CHECK_MEM(found, expected, n * sizeof *found);
        WT_CHECK_INT(stats_of(&second).reduce_bytes, stats_of(&first).reduce_bytes);
        WT_CHECK_OK(weft_zero_destroy(second.zero));
        WT_CHECK_OK(weft_zero_destroy(first.zero));
    }
    ft_close(&f);
}

/* Ranks may be at different places of a micro-batch when one of them finds that the step is not to be made: rank 0 has handed
 * nothing in. */
static void dropped_apart(int rank, int nranks, void *arg)
{
    static float expected[TOTAL], found[TOTAL];
    struct ft_rank f;

    (void)arg;
    ft_open(&f, "shm,tcp", 5000, rank, nranks);
    for (int k = 0; k < KINDS; k++) {
        weft_zero_config config = config_of(k);
        struct layers first, second;
        size_t n;

        open_layers(&first, &f, &config, WEFT_FLOAT32);
        open_layers(&second, &f, &config, WEFT_FLOAT32);
        for (int s = 0; s < 4; s++) {
            for (int m = 0; m < s % 2; m++)
                micro_batch(&second, s, 7, 100);
            for (int u = UNITS - 1; rank && u >= UNITS - rank; u--)
                give(&second, u, s, 8, 100);
            if (s == 3 && rank == nranks - 1 && config.stage < 2) /* else it waits for the others' */
                WT_REQUIRE_OK(weft_zero_micro_batch_end(second.zero));
            WT_REQUIRE_OK(weft_zero_drop_gradients(second.zero));
            for (int m = 0; m < 2; m++) {
                micro_batch(&first, s, m, 1);
                micro_batch(&second, s, m, 1);
            }
            step(&first);
            step(&second);
        }
        n = weights(&first, expected);
        WT_CHECK_INT(weights(&second, found), n);
        WT_CHECK_MEM(found, expected, n * sizeof *found);
        WT_CHECK_OK(weft_zero_destroy(second.zero));
        WT_CHECK_OK(weft_zero_destroy(first.zero));
    }
    ft_close(&f);
}

/* Three micro-batches, counted or announced; then two, counted by what was configured. */
static void accumulated(int rank, int nranks, void *arg)
{
    static float expected[TOTAL], found[TOTAL];
    struct ft_rank f;

    (void)arg;
    ft_open(&f, "shm,tcp", 20000, rank, nranks);
    for (int k = 0; k < KINDS; k++) {
        weft_zero_config config = config_of(k), three = config;
        weft_zero_step_info info = WEFT_ZERO_STEP_INFO_INIT, own = WEFT_ZERO_STEP_INFO_INIT;
        struct layers first, second;
        size_t n;

        three.micro_batches = 3;
        open_layers(&first, &f, &three, WEFT_FLOAT32);
        open_layers(&second, &f, &config, WEFT_FLOAT32);
        for (int s = 0; s < 3; s++) {
            for (int m = 0; m < 3; m++) {
                micro_batch(&first, s, m, 1);
                if (m == 1)
                    WT_REQUIRE_OK(weft_zero_accumulate(second.zero, 1));
                if (m == 2 && s == 1)
                    WT_REQUIRE_OK(weft_zero_accumulate(second.zero, 0));
                micro_batch(&second, s, m, 1);
                WT_CHECK_STATUS(weft_zero_step(second.zero, &hyper, 0, NULL), WEFT_EINVAL);
                if (m < 2)
                    WT_CHECK_STATUS(weft_zero_step(second.zero, &hyper, 1, NULL), WEFT_EINVAL);
            }
            WT_REQUIRE_OK(weft_zero_step(first.zero, &hyper, 1, &info));
            WT_REQUIRE_OK(weft_zero_step(second.zero, &hyper, 1, &own));
            WT_CHECK_MEM(&own, &info, sizeof own);
        }
        n = weights(&first, expected);
        WT_CHECK_INT(weights(&second, found), n);
        WT_CHECK_MEM(found, expected, n * sizeof *found);
        /* What was announced is taken back, and holds for one micro-batch. */
        WT_REQUIRE_OK(weft_zero_accumulate(second.zero, 0));
        WT_REQUIRE_OK(weft_zero_accumulate(second.zero, -1));
        micro_batch(&second, 9, 0, 1);
        WT_CHECK_STATUS(weft_zero_step(second.zero, &hyper, 1, NULL), WEFT_EINVAL);
        micro_batch(&second, 9, 1, 1);
        step(&second);
        WT_CHECK_OK(weft_zero_destroy(second.zero));
        WT_CHECK_OK(weft_zero_destroy(first.zero));
    }
    ft_close(&f);
}

/* A gradient that does not come in one micro-batch is 0 there, and what came in another stays. */
static void partial(int rank, int nranks, void *arg)
{
    static float expected[TOTAL], found[TOTAL];
    struct ft_rank f;

    (void)arg;
    ft_open(&f, "shm,tcp", 20000, rank, nranks);
    for (int k = 0; k < KINDS; k++) {
        weft_zero_config config = config_of(k);
        struct layers l[2];
        size_t n;

        for (int e = 0; e < 2; e++) {
            open_layers(&l[e], &f, &config, WEFT_FLOAT32);
            for (int i = 0; i < 8; i++) {
                for (int u = UNITS - 1; u >= 0; u--)
                    if (!e || (u + i + i / 4) % 2)
                        give(&l[e], u, i / 2, i % 2, (float)((u + i + i / 4) % 2));
                WT_REQUIRE_OK(weft_zero_micro_batch_end(l[e].zero));
                if (i % 2)
                    step(&l[e]);
            }
        }
        n = weights(&l[0], expected);
        WT_CHECK_INT(weights(&l[1], found), n);
        WT_CHECK_MEM(found, expected, n * sizeof *found);
        WT_CHECK_OK(weft_zero_destroy(l[1].zero));
        WT_CHECK_OK(weft_zero_destroy(l[0].zero));
    }
    ft_close(&f);
}

static void micro_batches(void)
{
    for (int n = 1; n <= 3; n++) {
        CU_ASSERT_EQUAL(wt_run(n, dropped, NULL, 60000), 0);
        CU_ASSERT_EQUAL(wt_run(n, accumulated, NULL, 60000), 0);
        CU_ASSERT_EQUAL(wt_run(n, partial, NULL, 60000), 0);
    }
    CU_ASSERT_EQUAL(wt_run(3, dropped_apart, NULL, 60000), 0);
}

/* ---- Scales ---- */

struct scaling {
    double divisor, loss_scale, clip;
    float gradients;
};

/* Gradients, the divisor and the loss scale times powers of two: the same bits. */
static void scaled(int rank, int nranks, void *arg)
{
    static float expected[TOTAL], found[TOTAL];
    const struct scaling same[] = {{0, 1, .5, 1},           {2. * nranks, 1, .5, 1},   {4. * nranks, 1, .5, 2},
                                   {0, 8, .5, 8},           {16. * nranks, 2, .5, 16}, {0, 1, 0, 1},
                                   {2. * nranks, .5, 0, .5}};
    struct ft_rank f;
    double norm = 0;

    (void)arg;
    ft_open(&f, "shm,tcp", 20000, rank, nranks);
    for (int stage = 0; stage <= 3; stage++)
        for (size_t k = 0; k < sizeof same / sizeof *same; k++) {
            weft_zero_config config = plain(stage);
            weft_zero_step_info info = WEFT_ZERO_STEP_INFO_INIT;
            struct layers l;
            double scale;
            size_t n;

            config.micro_batches = 2;
            config.divisor = same[k].divisor;
            config.loss_scale = same[k].loss_scale;
            config.clip = same[k].clip;
            open_layers(&l, &f, &config, WEFT_FLOAT32);
            for (int s = 0; s < 2; s++) {
                micro_batch(&l, s, 0, same[k].gradients);
                micro_batch(&l, s, 1, same[k].gradients);
                WT_REQUIRE_OK(weft_zero_step(l.zero, &hyper, 1, &info));
            }
            WT_CHECK(info.loss_scale == same[k].loss_scale);
            WT_CHECK_OK(weft_zero_loss_scale(l.zero, &scale));
            WT_CHECK(scale == same[k].loss_scale);
            norm = stage || k ? norm : info.norm;
            WT_CHECK(info.norm == norm && norm > .5);
            WT_CHECK(info.factor == (same[k].clip > 0 ? same[k].clip / (norm + 1e-6) : 1));
            if (k == 0 || k == 5) {
                n = weights(&l, expected);
            } else {
                n = weights(&l, found);
                WT_CHECK_MEM(found, expected, n * sizeof *found);
            }
            WT_CHECK_OK(weft_zero_destroy(l.zero));
        }
    ft_close(&f);
}

/* Overflow?, and the scale afterwards: from 16, with a window of 2 and a hysteresis of 2. */
static const struct {
    int refill, bad;
    double scale;
} overflows[] = {
    {0, 1, 16}, {0, 0, 16}, {0, 1, 8},  {0, 1, 4}, {0, 1, 4}, {0, 1, 4}, {0, 0, 4}, {0, 0, 8}, {0, 1, 8}, {0, 1, 4},
    {1, 1, 16}, {1, 0, 16}, {1, 1, 16}, {1, 1, 8}, {1, 0, 8}, {1, 1, 8}, {1, 1, 4}, {1, 1, 4}, {1, 0, 4}, {1, 0, 8},
};

static void dynamic(int rank, int nranks, void *arg)
{
    struct ft_rank f;

    (void)arg;
    ft_open(&f, "shm,tcp", 20000, rank, nranks);
    for (int refill = 0; refill < 2; refill++) {
        weft_zero_config config = plain(2);
        struct layers l;

        config.loss_scale = 0;
        config.loss_scale_initial = 16;
        config.loss_scale_window = 2;
        config.loss_scale_min = 4;
        config.loss_scale_refill = refill;
        open_layers(&l, &f, &config, WEFT_FLOAT32);
        for (size_t s = 0; s < sizeof overflows / sizeof *overflows; s++) {
            weft_zero_step_info info = WEFT_ZERO_STEP_INFO_INIT;

            if (overflows[s].refill != refill)
                continue;
            micro_batch(&l, (int)s, 0, overflows[s].bad && rank == 0 ? INFINITY : 1);
            WT_REQUIRE_OK(weft_zero_step(l.zero, &hyper, 1, &info));
            WT_CHECK_INT(info.skipped, overflows[s].bad);
            if (info.loss_scale != overflows[s].scale)
                wt_fail(__FILE__, __LINE__, "after %zu the scale is %g, not %g", s, info.loss_scale,
                        overflows[s].scale);
        }
        WT_CHECK_OK(weft_zero_destroy(l.zero));
    }
    ft_close(&f);
}

static void scales(void)
{
    for (int n = 1; n <= 3; n++)
        CU_ASSERT_EQUAL(wt_run(n, scaled, NULL, 60000), 0);
    CU_ASSERT_EQUAL(wt_run(2, dynamic, NULL, 60000), 0);
}

/* ---- Gradients that are asked for ---- */

static void check_gradient(struct layers *l, int u, int step, int micros)
{
    int helps = l->rank == l->nranks - 1 && l->nranks > 1; /* and wants nothing itself */
    float grad[ELEMS];

    memset(grad, 0x7f, sizeof grad);
    WT_REQUIRE_OK(weft_zero_param_get(l->zero, l->params[u], WEFT_ZERO_GRAD, helps ? NULL : grad, WEFT_FLOAT32));
    for (size_t i = 0; i < elems_of(u) && !helps; i++) {
        float expected = 0;

        for (int r = 0; r < l->nranks; r++)
            for (int m = 0; m < micros; m++)
                expected += number(r + 10 * u, step, m, i);
        WT_CHECK(grad[i] == expected);
    }
}

/* The sum so far, over all ranks and copies: after the last micro-batch, and where each is reduced after every one. */
static void gradients(int rank, int nranks, void *arg)
{
    static const struct {
        weft_dtype dtype;
        int fp32;
    } types[] = {{WEFT_FLOAT32, 0}, {WEFT_BFLOAT16, 1}, {WEFT_FLOAT16, 1}};
    struct ft_rank f;

    ft_open(&f, "shm,tcp", 20000, rank, nranks);
    for (int k = 0; k < KINDS; k++)
        for (int t = 0; t < 3; t++) {
            weft_zero_config config = config_of(k);
            int every = config.stage >= 2 || config.reduce == WEFT_ZERO_REDUCE_EVERY;
            float grad[ELEMS];
            struct layers l;

            config.grad_fp32 = types[t].fp32;
            config.shard_ranks = *(const int *)arg;
            open_layers(&l, &f, &config, types[t].dtype);
            for (int s = 0; s < 3; s++) {
                for (int m = 0; m < 2; m++) {
                    micro_batch(&l, s, m, 1);
                    if (m == 0 && (!every || config.shard_ranks))
                        WT_CHECK_STATUS(weft_zero_param_get(l.zero, l.params[0], WEFT_ZERO_GRAD, grad, WEFT_FLOAT32),
                                        WEFT_EINVAL);
                    for (int u = 0; (m || (every && !config.shard_ranks && s == 1)) && u < UNITS; u++)
                        check_gradient(&l, u, s, m + 1);
                }
                step(&l);
                WT_CHECK_STATUS(weft_zero_param_get(l.zero, l.params[0], WEFT_ZERO_GRAD, grad, WEFT_FLOAT32),
                                WEFT_EINVAL);
            }
            WT_CHECK_OK(weft_zero_destroy(l.zero));
        }
    ft_close(&f);
}

/* A place that was not asked for is not taken for a gradient, even where one is always kept. */
static void not_asked(int rank, int nranks, void *arg)
{
    struct ft_rank f;

    (void)arg;
    ft_open(&f, "shm,tcp", 20000, rank, nranks);
    for (int stage = 0; stage <= 3; stage++) {
        weft_zero_config config = plain(stage);
        struct layers l;
        void *place;
        int add;

        open_layers(&l, &f, &config, WEFT_FLOAT32);
        micro_batch(&l, 0, 0, 1);
        step(&l);
        give(&l, 0, 1, 0, 1);
        WT_CHECK_STATUS(weft_zero_grad_ready(l.zero, l.params[1]), WEFT_EINVAL);
        WT_CHECK(strstr(weft_thread_error(), "was not asked for"));
        WT_REQUIRE_OK(weft_zero_grad_buffer(l.zero, l.params[1], &place, &add));
        WT_CHECK_INT(add, 0);
        memset(place, 0, 4 * ELEMS);
        WT_CHECK_OK(weft_zero_grad_ready(l.zero, l.params[1]));
        WT_CHECK_STATUS(weft_zero_grad_ready(l.zero, l.params[1]), WEFT_EINVAL);
        /* Asked for, and not ready at the end: that is forgotten. */
        WT_REQUIRE_OK(weft_zero_grad_buffer(l.zero, l.params[2], &place, &add));
        WT_REQUIRE_OK(weft_zero_micro_batch_end(l.zero));
        step(&l);
        give(&l, 0, 2, 0, 1);
        WT_CHECK_STATUS(weft_zero_grad_ready(l.zero, l.params[2]), WEFT_EINVAL);
        WT_CHECK_OK(weft_zero_destroy(l.zero));
    }
    ft_close(&f);
}

static void of_gradients(void)
{
    static int all = 0, one = 1, two = 2;

    for (int n = 1; n <= 3; n++)
        CU_ASSERT_EQUAL(wt_run(n, gradients, &all, 60000), 0);
    CU_ASSERT_EQUAL(wt_run(2, gradients, &one, 60000), 0);
    CU_ASSERT_EQUAL(wt_run(4, gradients, &two, 60000), 0);
    CU_ASSERT_EQUAL(wt_run(2, not_asked, NULL, 60000), 0);
}

/* ---- Passes that nest, and parameters that are set between passes ---- */

/* Passes of all units are open at once: more than there is room for, and room is made for each. */
static void all_at_once(struct layers *l, int stage)
{
    float values[ELEMS];
    size_t bytes = 0;
    void *data;

    for (int u = 0; u < UNITS; u++)
        WT_REQUIRE_OK(weft_zero_pre_forward(l->zero, l->units[u]));
    for (int u = 0; u < UNITS; u++) {
        size_t shard = (elems_of(u) + (size_t)l->nranks - 1) / (size_t)l->nranks;

        bytes += (shard + 15) / 16 * 64 * (size_t)l->nranks;
        WT_REQUIRE_OK(weft_zero_param_get(l->zero, l->params[u], WEFT_ZERO_WEIGHT, values, WEFT_FLOAT32));
        WT_REQUIRE_OK(weft_zero_param_data(l->zero, l->params[u], &data));
        WT_CHECK_MEM(data, values, elems_of(u) * sizeof *values);
    }
    for (int u = 0; u < UNITS; u++)
        WT_REQUIRE_OK(weft_zero_post_forward(l->zero, l->units[u]));
    WT_CHECK_INT(stats_of(l).gather_bytes, stage == 3 ? bytes : 0);
}

static void nested(int rank, int nranks, void *arg)
{
    float values[ELEMS];
    struct ft_rank f;

    (void)arg;
    ft_open(&f, "shm,tcp", 20000, rank, nranks);
    for (int stage = 0; stage <= 3; stage++) {
        weft_zero_config config = plain(stage);
        struct layers l;
        void *data;

        config.prefetch_elems = 0;
        open_layers(&l, &f, &config, WEFT_FLOAT32);
        for (int s = 0; s < 3; s++) {
            WT_REQUIRE_OK(weft_zero_pre_forward(l.zero, l.units[1]));
            WT_REQUIRE_OK(weft_zero_pre_forward(l.zero, l.units[1]));
            WT_REQUIRE_OK(weft_zero_post_forward(l.zero, l.units[1]));
            forward(&l, 2);
            WT_REQUIRE_OK(weft_zero_param_data(l.zero, l.params[1], &data));
            WT_CHECK(data != NULL && (uintptr_t)data % 64 == 0);
            WT_REQUIRE_OK(weft_zero_post_forward(l.zero, l.units[1]));
            WT_REQUIRE_OK(weft_zero_param_data(l.zero, l.params[1], &data));
            WT_CHECK((data == NULL) == (stage == 3));
            WT_CHECK_STATUS(weft_zero_post_forward(l.zero, l.units[1]), WEFT_EINVAL);
            backward(&l, 2, s, 0, 1);
            /* Its gradient comes in the second of two backward passes. */
            WT_REQUIRE_OK(weft_zero_pre_backward(l.zero, l.units[1]));
            WT_CHECK_STATUS(weft_zero_step(l.zero, &hyper, 1, NULL), WEFT_EINVAL);
            WT_REQUIRE_OK(weft_zero_post_backward(l.zero, l.units[1]));
            backward(&l, 1, s, 0, 1);
            WT_REQUIRE_OK(weft_zero_micro_batch_end(l.zero));
            WT_REQUIRE_OK(weft_zero_pre_forward(l.zero, l.units[0]));
            WT_CHECK_STATUS(weft_zero_step(l.zero, &hyper, 1, NULL), WEFT_EINVAL);
            WT_CHECK(strstr(weft_thread_error(), "a pass of unit \"a\" has not ended"));
            WT_REQUIRE_OK(weft_zero_post_forward(l.zero, l.units[0]));
            step(&l);
            /* What the step has put on its way has come. */
            WT_REQUIRE_OK(weft_zero_param_data(l.zero, l.params[5], &data));
            WT_CHECK((data == NULL) == (stage == 3));
            WT_REQUIRE_OK(weft_zero_param_get(l.zero, l.params[5], WEFT_ZERO_WEIGHT, values, WEFT_FLOAT32));
            if (data)
                WT_CHECK_MEM(data, values, sizeof values);
        }
        for (int k = 0; k < 3; k++)
            all_at_once(&l, stage);
        WT_CHECK_OK(weft_zero_destroy(l.zero));
    }
    ft_close(&f);
}

static void newest(struct layers *l, int u, weft_dtype dtype)
{
    float values[ELEMS];
    void *data;

    WT_REQUIRE_OK(weft_zero_param_get(l->zero, l->params[u], WEFT_ZERO_WEIGHT, values, WEFT_FLOAT32));
    WT_REQUIRE_OK(weft_zero_pre_forward(l->zero, l->units[u]));
    WT_REQUIRE_OK(weft_zero_param_data(l->zero, l->params[u], &data));
    for (size_t i = 0; i < elems_of(u); i++)
        WT_CHECK(fabsf(zt_load(data, dtype, i) - values[i]) <= (dtype == WEFT_FLOAT32 ? 0 : fabsf(values[i]) / 256));
    WT_REQUIRE_OK(weft_zero_post_forward(l->zero, l->units[u]));
}

/* What was gathered ahead, stays gathered, or is on its way from the last step, is not what is seen once it is set. */
static void set_between(int rank, int nranks, void *arg)
{
    static const struct {
        int stage, offload;
        size_t reuse;
        weft_dtype dtype;
    } kinds_set[] = {{0, 0, 0, WEFT_FLOAT32},  {1, 0, 0, WEFT_FLOAT32},      {1, 0, 0, WEFT_BFLOAT16},
                     {3, 0, 0, WEFT_FLOAT32},  {3, 0, TOTAL, WEFT_BFLOAT16}, {3, 1, 0, WEFT_FLOAT32},
                     {3, 1, 0, WEFT_BFLOAT16}, {3, 1, TOTAL, WEFT_FLOAT32}};
    struct ft_rank f;

    (void)arg;
    ft_open(&f, "shm,tcp", 20000, rank, nranks);
    for (size_t k = 0; k < sizeof kinds_set / sizeof *kinds_set; k++) {
        weft_zero_config config = plain(kinds_set[k].stage);
        float values[ELEMS], found[ELEMS];
        struct layers l;
        void *data;

        config.live_elems = TOTAL;
        config.reuse_elems = kinds_set[k].reuse;
        config.offload_folder = kinds_set[k].offload ? wt_temp_dir() : NULL;
        config.offload_params = kinds_set[k].offload;
        open_layers(&l, &f, &config, kinds_set[k].dtype);
        for (int s = 0; s < 3; s++) {
            micro_batch(&l, s, 0, 1);
            for (int u = 0; u < UNITS; u++) /* what stays gathered is old after the step */
                forward(&l, u);
            step(&l);
            for (int u = 0; u < 2 - s % 2; u++)
                newest(&l, u, kinds_set[k].dtype);
            for (int u = 1; u < 4; u++) { /* used, and used next */
                for (size_t i = 0; i < ELEMS; i++)
                    values[i] = (float)((int)i % 7 + u + s);
                WT_REQUIRE_OK(weft_zero_param_set(l.zero, l.params[u], WEFT_ZERO_WEIGHT, values, WEFT_FLOAT32));
            }
            for (int u = 2 - s % 2; u < 6; u++) {
                WT_REQUIRE_OK(weft_zero_pre_forward(l.zero, l.units[u]));
                WT_REQUIRE_OK(weft_zero_param_data(l.zero, l.params[u], &data));
                for (size_t i = 0; u < 4 && i < ELEMS; i++)
                    WT_CHECK(zt_load(data, kinds_set[k].dtype, i) == (float)((int)i % 7 + u + s));
                WT_REQUIRE_OK(weft_zero_post_forward(l.zero, l.units[u]));
            }
            WT_REQUIRE_OK(weft_zero_param_get(l.zero, l.params[1], WEFT_ZERO_WEIGHT, found, WEFT_FLOAT32));
            for (size_t i = 0; i < ELEMS; i++)
                WT_CHECK(found[i] == (float)((int)i % 7 + 1 + s));
        }
        WT_CHECK_OK(weft_zero_destroy(l.zero));
    }
    ft_close(&f);
}

static void passes(void)
{
    for (int n = 1; n <= 3; n++) {
        CU_ASSERT_EQUAL(wt_run(n, nested, NULL, 60000), 0);
        CU_ASSERT_EQUAL(wt_run(n, set_between, NULL, 60000), 0);
    }
}

static const struct wt_case cases[] = {
    {"gradients are dropped, micro-batches announced", micro_batches},
    {"divisors, loss scales, clipping", scales},
    {"gradients that are asked for", of_gradients},
    {"passes nest, parameters are set between them", passes},
};
WT_UNIT_MAIN("zero: more", cases)
