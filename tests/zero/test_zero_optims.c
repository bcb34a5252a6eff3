/* SPDX-License-Identifier: BSD-3-Clause */
/* Engines with optimizers that are more than a formula for each element: all stages, with states in memory or in files, give the
 * same bits, and those of a plain reference in double to rounding. */
#include <sys/stat.h>

#include "tests/zero/model.h"

#include "newton_schulz.h"
#include "tests/harness/says.h"

enum { STEPS = 6, TOTAL = ZT_PARAMS * ZT_MOST };

struct variant {
    const char *what;
    weft_zero_optimizer optimizer;
    int moments; /* of the program's optimizer */
    weft_dtype dtype;
    int threads, shard_ranks;
    double clip, offload;
    weft_zero_state_dtype state;
    weft_zero_optimizer whole, matrix,
        vector; /* of parameters that are whole, other matrices, vectors; 0: `optimizer` */
};

static const weft_zero_hyper groups[2] = {
    {.bytes = sizeof(weft_zero_hyper),
     .lr = 1e-2,
     .beta1 = .9,
     .beta2 = .99,
     .eps = 1e-6,
     .weight_decay = .1,
     .momentum = .95,
     .nesterov = 1,
     .max_coeff = .0145,
     .min_coeff = .001},
    {.bytes = sizeof(weft_zero_hyper),
     .lr = 3e-3,
     .beta1 = .8,
     .beta2 = .95,
     .eps = 1e-6,
     .max_coeff = 10,
     .min_coeff = .04},
};

/* ---- The program's optimizer: what it does depends on the parameter, the place in it, the group, the step, and its moments. ----
 * */

static double own_rate(const weft_zero_hyper *h, int param, size_t i, uint64_t step)
{
    return h->lr * (1 + .1 * (double)((size_t)param + i % 7) + .01 * (double)step);
}

static void own_element(const weft_zero_hyper *h, double rate, int moments, double g, double *w, double *m, double *v)
{
    if (moments > 0)
        *m = h->beta1 * *m + (1 - h->beta1) * g;
    if (moments > 1)
        *v = h->beta2 * *v + g * g;
    *w -= rate * ((moments ? *m : g) / (moments > 1 ? sqrt(*v) + h->eps : 1) + h->weight_decay * *w);
}

static int own_calls; /* by any thread */

static void own_update(void *arg, const weft_zero_update *piece)
{
    const struct variant *v = arg;
    size_t most = piece->first + piece->elems;

    __atomic_add_fetch(&own_calls, 1, __ATOMIC_RELAXED);
    if (piece->bytes != sizeof *piece || piece->param < 0 || piece->param >= ZT_PARAMS || !piece->elems ||
        most > zt_elems(piece->param) || (zt_specs[piece->param].flags & WEFT_ZERO_FROZEN) ||
        !piece->moment1 != (v->moments < 1) || !piece->moment2 != (v->moments < 2) ||
        piece->hyper->lr != groups[zt_specs[piece->param].group].lr)
        wt_fail(__FILE__, __LINE__, "a piece of parameter %d, elements %zu to %zu", piece->param, piece->first, most);
    for (size_t i = 0; i < piece->elems; i++) {
        double w = piece->weight[i], m1 = v->moments > 0 ? piece->moment1[i] : 0,
               m2 = v->moments > 1 ? piece->moment2[i] : 0;

        own_element(piece->hyper, own_rate(piece->hyper, piece->param, piece->first + i, piece->step), v->moments,
                    piece->grad[i], &w, &m1, &m2);
        piece->weight[i] = (float)w;
        if (v->moments > 0)
            piece->moment1[i] = (float)m1;
        if (v->moments > 1)
            piece->moment2[i] = (float)m2;
    }
}

/* ---- References, of one parameter ---- */

struct tensor {
    int param;
    const weft_zero_hyper *hyper;
    uint64_t step;
    size_t elems;
    double *weight, *moment1, *moment2;
    const double *grad;
};

static void reference_own(const struct variant *v, const struct tensor *t)
{
    for (size_t i = 0; i < t->elems; i++)
        own_element(t->hyper, own_rate(t->hyper, t->param, i, t->step), v->moments, t->grad[i], &t->weight[i],
                    &t->moment1[i], &t->moment2[i]);
}

static int clamped[3]; /* ratios of norms that were raised, lowered, neither */

/* You et al., algorithm 2, with DeepSpeed's limits of the ratio. */
static void reference_lamb(const struct tensor *t)
{
    const weft_zero_hyper *h = t->hyper;
    double u[ZT_MOST], weights = 0, updates = 0, ratio = 1;

    for (size_t i = 0; i < t->elems; i++) {
        t->moment1[i] = h->beta1 * t->moment1[i] + (1 - h->beta1) * t->grad[i];
        t->moment2[i] = h->beta2 * t->moment2[i] + (1 - h->beta2) * t->grad[i] * t->grad[i];
        u[i] = t->moment1[i] / (1 - pow(h->beta1, (double)t->step)) /
                   (sqrt(t->moment2[i] / (1 - pow(h->beta2, (double)t->step))) + h->eps) +
               h->weight_decay * t->weight[i];
        weights += t->weight[i] * t->weight[i];
        updates += u[i] * u[i];
    }
    if (weights > 0 && updates > 0) {
        ratio = sqrt(weights / updates);
        clamped[ratio < h->min_coeff ? 0 : ratio > h->max_coeff ? 1 : 2]++;
        ratio = fmin(fmax(ratio, h->min_coeff), h->max_coeff);
    }
    for (size_t i = 0; i < t->elems; i++)
        t->weight[i] -= h->lr * ratio * u[i];
}

static void reference_adamw(const struct tensor *t)
{
    const weft_zero_hyper *h = t->hyper;

    for (size_t i = 0; i < t->elems; i++) {
        t->moment1[i] = h->beta1 * t->moment1[i] + (1 - h->beta1) * t->grad[i];
        t->moment2[i] = h->beta2 * t->moment2[i] + (1 - h->beta2) * t->grad[i] * t->grad[i];
        t->weight[i] -= h->lr * (h->weight_decay * t->weight[i] +
                                 t->moment1[i] / (1 - pow(h->beta1, (double)t->step)) /
                                     (sqrt(t->moment2[i] / (1 - pow(h->beta2, (double)t->step))) + h->eps));
    }
}

static void reference_muon(const struct tensor *t)
{
    const weft_zero_hyper *h = t->hyper;
    static double u[ZT_MOST];

    for (size_t i = 0; i < t->elems; i++) {
        t->moment1[i] = h->momentum * t->moment1[i] + (1 - h->momentum) * t->grad[i];
        u[i] = h->nesterov ? (1 - h->momentum) * t->grad[i] + h->momentum * t->moment1[i] : t->moment1[i];
    }
    zt_newton_schulz(u, zt_specs[t->param].rows, zt_specs[t->param].columns);
    double scale = sqrt(fmax(1, (double)zt_specs[t->param].rows / (double)zt_specs[t->param].columns));

    for (size_t i = 0; i < t->elems; i++)
        t->weight[i] -= h->lr * (h->weight_decay * t->weight[i] + scale * u[i]);
}

/* As torch's. */
static void reference_sgd(const struct tensor *t)
{
    const weft_zero_hyper *h = t->hyper;

    for (size_t i = 0; i < t->elems; i++) {
        double g = t->grad[i] + h->weight_decay * t->weight[i];

        t->moment1[i] = t->step == 1 ? g : h->momentum * t->moment1[i] + g;
        t->weight[i] -= h->lr * (h->nesterov ? g + h->momentum * t->moment1[i] : h->momentum != 0 ? t->moment1[i] : g);
    }
}

static void reference_param(const struct variant *v, const struct tensor *t)
{
    weft_zero_optimizer own = zt_optimizer(t->param);

    switch (own ? own : v->optimizer) {
    case WEFT_ZERO_LAMB:
        reference_lamb(t);
        break;
    case WEFT_ZERO_MUON:
        reference_muon(t);
        break;
    case WEFT_ZERO_SGD:
        reference_sgd(t);
        break;
    case WEFT_ZERO_ADAMW:
        reference_adamw(t);
        break;
    default:
        reference_own(v, t);
    }
}

/* ---- Engines ---- */

/* Whether it is the optimizer of some parameters. */
static int has(const struct variant *v, weft_zero_optimizer optimizer)
{
    return v->optimizer == optimizer || v->whole == optimizer || v->matrix == optimizer || v->vector == optimizer;
}

static weft_zero_config config_of(const struct variant *v, int stage)
{
    weft_zero_config config = WEFT_ZERO_CONFIG_INIT;

    config.stage = stage;
    config.optimizer = v->optimizer;
    config.state_dtype = v->state;
    config.clip = v->clip;
    config.prefetch_elems = (size_t)-1;
    config.shard_ranks = v->shard_ranks;
    config.threads = v->threads ? v->threads : 1;
    if (has(v, WEFT_ZERO_CALLBACK)) {
        config.update = own_update;
        config.update_arg = (void *)(uintptr_t)v;
        config.update_moments = v->moments;
    }
    if (v->offload > 0 && stage != 1) { /* one stage without, to compare with */
        config.offload_folder = wt_temp_dir();
        config.offload_ratio = v->offload;
    }
    return config;
}

static int moments_of(const struct variant *v)
{
    return v->optimizer == WEFT_ZERO_CALLBACK ? v->moments : 2;
}

static void seal(struct zt_engine *e, struct ft_rank *f, const struct variant *v, const weft_zero_config *config)
{
    zt_whole_optimizer = v->whole;
    zt_matrix_optimizer = v->matrix;
    zt_vector_optimizer = v->vector;
    zt_seal(e, f, config, v->dtype);
}

/* Weights and moments after all steps. */
static size_t train(struct ft_rank *f, const struct variant *v, int stage, float *out)
{
    weft_zero_config config = config_of(v, stage);
    struct zt_engine e;
    size_t n;

    seal(&e, f, v, &config);
    for (int s = 0; s < STEPS; s++) {
        zt_micro_batch(&e, s, 0, 0);
        WT_REQUIRE_OK(weft_zero_step(e.zero, groups, 2, NULL));
    }
    n = zt_weights(&e, WEFT_ZERO_WEIGHT, out);
    for (int m = 0; m < moments_of(v); m++)
        n += zt_weights(&e, m ? WEFT_ZERO_MOMENT2 : WEFT_ZERO_MOMENT1, out + n);
    WT_CHECK_OK(weft_zero_destroy(e.zero));
    return n;
}

/* All ranks' gradients for a step, and what clipping multiplies them by. */
static double gradients(const struct variant *v, int nranks, int step, const double *weights, double *g)
{
    double squares = 0, norm;
    size_t n = 0;

    for (int p = 0; p < ZT_PARAMS; p++)
        for (size_t i = 0; i < zt_elems(p); i++, n++) {
            g[n] = 0;
            if ((zt_specs[p].flags & WEFT_ZERO_FROZEN) || (step % 3 == 2 && p == 5))
                continue;
            for (int r = 0; r < nranks; r++)
                g[n] += zt_gradient(r, step, 0, p, i, (float)weights[n]) / nranks;
            squares += g[n] * g[n];
        }
    norm = sqrt(squares);
    return v->clip > 0 && norm > v->clip ? v->clip / (norm + 1e-6) : 1;
}

static void reference(const struct variant *v, int nranks, double *weights)
{
    static double m1[TOTAL], m2[TOTAL], g[TOTAL];
    size_t n = 0;

    memset(m1, 0, sizeof m1);
    memset(m2, 0, sizeof m2);
    for (int p = 0; p < ZT_PARAMS; p++)
        for (size_t i = 0; i < zt_elems(p); i++)
            weights[n++] = zt_initial(p, i);
    for (int s = 0; s < STEPS; s++) {
        double factor = gradients(v, nranks, s, weights, g);

        for (size_t i = 0; i < n; i++)
            g[i] *= factor;
        for (size_t p = 0, at = 0; p < ZT_PARAMS; at += zt_elems((int)p), p++) {
            const struct tensor t = {
                (int)p, &groups[zt_specs[p].group], (uint64_t)s + 1, zt_elems((int)p), weights + at, m1 + at, m2 + at,
                g + at};

            if (!(zt_specs[p].flags & WEFT_ZERO_FROZEN))
                reference_param(v, &t);
        }
    }
}

static void same(int rank, int nranks, void *arg)
{
    const struct variant *v = arg;
    static float first[3 * TOTAL], other[3 * TOTAL];
    static double exact[TOTAL];
    double most = v->dtype == WEFT_FLOAT32 ? (v->state ? 3e-3 : 2e-6) : 2e-2;
    struct ft_rank f;
    size_t n;

    ft_open(&f, "shm,tcp", 20000, rank, nranks);
    n = train(&f, v, 0, first);
    reference(v, nranks, exact);
    for (size_t i = 0, at = 0; at < ZT_PARAMS; at++)
        for (size_t k = 0; k < zt_elems((int)at); k++, i++)
            if (!(fabs((double)first[i] - exact[i]) <= most))
                wt_fail(__FILE__, __LINE__, "%s[%zu] is %g, not %g", zt_specs[at].name, k, (double)first[i], exact[i]);
    for (int stage = 1; stage <= 3; stage++) {
        memset(other, 0x7f, sizeof other);
        WT_CHECK_INT(train(&f, v, stage, other), n);
        WT_CHECK_MEM(other, first, n * sizeof *other);
    }
    if (has(v, WEFT_ZERO_CALLBACK))
        WT_CHECK(own_calls >= 4 * STEPS);
    if (v->optimizer == WEFT_ZERO_LAMB && !v->vector)
        WT_CHECK(clamped[0] && clamped[1] && clamped[2]);
    ft_close(&f);
}

static void run(const struct variant *v, int nranks)
{
    int failed = wt_run(nranks, same, (void *)(uintptr_t)v, 60000);

    if (failed)
        printf("# %s, %d ranks: %d failed\n", v->what, nranks, failed);
    CU_ASSERT_EQUAL(failed, 0);
}

static void callback(void)
{
    static const struct variant variants[] = {
        {"two moments", WEFT_ZERO_CALLBACK, .moments = 2, .dtype = WEFT_FLOAT32, .threads = 3, .clip = .05},
        {"one moment", WEFT_ZERO_CALLBACK, .moments = 1, .dtype = WEFT_BFLOAT16},
        {"no moments", WEFT_ZERO_CALLBACK, .moments = 0, .dtype = WEFT_FLOAT32, .clip = .5},
        {"no moments, half in a file", WEFT_ZERO_CALLBACK, .moments = 0, .dtype = WEFT_BFLOAT16, .offload = .5},
        {"two moments in a file", WEFT_ZERO_CALLBACK, .moments = 2, .dtype = WEFT_FLOAT32, .offload = 1, .clip = .5},
    };

    for (size_t v = 0; v < sizeof variants / sizeof *variants; v++) {
        run(&variants[v], 1);
        run(&variants[v], 3);
    }
    run(&variants[0], 8);
}

static void lamb(void)
{
    static const struct variant variants[] = {
        {"lamb", WEFT_ZERO_LAMB, .dtype = WEFT_FLOAT32, .threads = 2},
        {"lamb, clipped, half type", WEFT_ZERO_LAMB, .dtype = WEFT_BFLOAT16, .clip = .5},
        {"lamb, all in a file", WEFT_ZERO_LAMB, .dtype = WEFT_FLOAT32, .offload = 1},
        {"lamb, half type, some in a file", WEFT_ZERO_LAMB, .dtype = WEFT_BFLOAT16, .offload = .5, .threads = 2},
    };
    static const struct variant copies = {"lamb, copies on two ranks", WEFT_ZERO_LAMB, .dtype = WEFT_FLOAT32,
                                          .shard_ranks = 2};

    for (size_t v = 0; v < sizeof variants / sizeof *variants; v++) {
        run(&variants[v], 1);
        run(&variants[v], 3);
    }
    run(&variants[0], 8);
    run(&copies, 4);
}

static void muon(void)
{
    static const struct variant variants[] = {
        {"muon", WEFT_ZERO_ADAMW, .dtype = WEFT_FLOAT32, .threads = 2, .whole = WEFT_ZERO_MUON},
        {"muon, clipped, half type", WEFT_ZERO_ADAMW, .dtype = WEFT_BFLOAT16, .clip = .5, .whole = WEFT_ZERO_MUON},
        {"muon beside states in a file", WEFT_ZERO_ADAMW, .dtype = WEFT_FLOAT32, .offload = 1, .whole = WEFT_ZERO_MUON},
    };
    static const struct variant copies = {"muon, copies on two ranks", WEFT_ZERO_ADAMW, .dtype = WEFT_FLOAT32,
                                          .shard_ranks = 2, .whole = WEFT_ZERO_MUON};

    for (size_t v = 0; v < sizeof variants / sizeof *variants; v++) {
        run(&variants[v], 1);
        run(&variants[v], 3);
    }
    run(&variants[0], 8);
    run(&copies, 4);
}

/* Several beside each other, in flats of their own: each as it is alone. */
static void several(void)
{
    static const struct variant variants[] = {
        {"muon, sgd beside adamw", WEFT_ZERO_ADAMW, .dtype = WEFT_FLOAT32, .threads = 2, .whole = WEFT_ZERO_MUON,
         .vector = WEFT_ZERO_SGD},
        {"lamb of matrices beside adamw, half type, some in a file", WEFT_ZERO_ADAMW, .dtype = WEFT_BFLOAT16,
         .offload = .5, .matrix = WEFT_ZERO_LAMB, .threads = 2},
        {"adamw and muon beside lamb", WEFT_ZERO_LAMB, .dtype = WEFT_FLOAT32, .clip = .5, .vector = WEFT_ZERO_ADAMW,
         .whole = WEFT_ZERO_MUON},
        {"the program's of matrices, all in a file", WEFT_ZERO_ADAMW, .moments = 2, .dtype = WEFT_FLOAT32, .offload = 1,
         .matrix = WEFT_ZERO_CALLBACK, .whole = WEFT_ZERO_MUON},
        {"adamw beside muon", WEFT_ZERO_MUON, .dtype = WEFT_BFLOAT16, .matrix = WEFT_ZERO_ADAMW,
         .vector = WEFT_ZERO_ADAMW},
        {"moments of 8 bits beside muon's", WEFT_ZERO_ADAMW, .dtype = WEFT_FLOAT32, .state = WEFT_ZERO_STATE_BLOCK8,
         .whole = WEFT_ZERO_MUON, .matrix = WEFT_ZERO_LAMB},
    };

    for (size_t v = 0; v < sizeof variants / sizeof *variants; v++) {
        run(&variants[v], 1);
        run(&variants[v], 3);
    }
    run(&variants[0], 8);
}

static void small_states(void)
{
    static const struct variant variants[] = {
        {"moments of bfloat16", WEFT_ZERO_ADAMW, .dtype = WEFT_FLOAT32, .state = WEFT_ZERO_STATE_BF16, .threads = 2},
        {"moments of 8 bits", WEFT_ZERO_ADAMW, .dtype = WEFT_FLOAT32, .state = WEFT_ZERO_STATE_BLOCK8, .threads = 2,
         .clip = .5},
        {"moments of 8 bits, half type", WEFT_ZERO_ADAMW, .dtype = WEFT_BFLOAT16, .state = WEFT_ZERO_STATE_BLOCK8},
    };
    static const struct variant copies = {"moments of 8 bits, copies on two ranks", WEFT_ZERO_ADAMW,
                                          .dtype = WEFT_FLOAT32, .state = WEFT_ZERO_STATE_BLOCK8, .shard_ranks = 2};

    for (size_t v = 0; v < sizeof variants / sizeof *variants; v++) {
        run(&variants[v], 1);
        run(&variants[v], 3);
        run(&variants[v], 8);
    }
    run(&copies, 4);
}

/* ---- Checkpoints ---- */

struct resumed {
    const struct variant *variant;
    char folder[512];
};

/* Steps from `from` to `to`. */
static void steps(struct zt_engine *e, int from, int to)
{
    for (int s = from; s < to; s++) {
        zt_micro_batch(e, s, 0, 0);
        WT_REQUIRE_OK(weft_zero_step(e->zero, groups, 2, NULL));
    }
}

/* What goes on from a version saved in another stage has the bits of what was not interrupted. */
static void resume(int rank, int nranks, void *arg)
{
    const struct resumed *job = arg;
    const struct variant *v = job->variant;
    static float whole[3 * TOTAL], other[3 * TOTAL];
    weft_zero_config config = config_of(v, 0);
    struct zt_engine e;
    struct ft_rank f;
    size_t n;

    ft_open(&f, "shm,tcp", 20000, rank, nranks);
    n = train(&f, v, 0, whole);
    seal(&e, &f, v, &config);
    steps(&e, 0, 3);
    WT_REQUIRE_OK(weft_zero_save(e.zero, job->folder, "three", NULL));
    WT_REQUIRE_OK(weft_zero_save_wait(e.zero, WEFT_TIMEOUT_NEVER, NULL));
    WT_CHECK_OK(weft_zero_destroy(e.zero));
    for (int stage = 1; stage <= 3; stage++) {
        config = config_of(v, stage);
        seal(&e, &f, v, &config);
        WT_REQUIRE_OK(weft_zero_load(e.zero, job->folder, NULL, 0, NULL));
        steps(&e, 3, STEPS);
        memset(other, 0x7f, sizeof other);
        size_t m = zt_weights(&e, WEFT_ZERO_WEIGHT, other);
        for (int k = 0; k < moments_of(v); k++)
            m += zt_weights(&e, k ? WEFT_ZERO_MOMENT2 : WEFT_ZERO_MOMENT1, other + m);
        WT_CHECK_INT(m, n);
        WT_CHECK_MEM(other, whole, n * sizeof *other);
        WT_CHECK_OK(weft_zero_destroy(e.zero));
    }
    ft_close(&f);
}

static void checkpoints(void)
{
    static const struct variant variants[] = {
        {"callback", WEFT_ZERO_CALLBACK, .moments = 1, .dtype = WEFT_FLOAT32},
        {"lamb, some in a file", WEFT_ZERO_LAMB, .dtype = WEFT_BFLOAT16, .offload = .5},
        {"muon beside states in a file", WEFT_ZERO_ADAMW, .dtype = WEFT_BFLOAT16, .offload = 1,
         .whole = WEFT_ZERO_MUON},
        {"moments of bfloat16", WEFT_ZERO_ADAMW, .dtype = WEFT_FLOAT32, .state = WEFT_ZERO_STATE_BF16},
        {"moments of 8 bits", WEFT_ZERO_ADAMW, .dtype = WEFT_BFLOAT16, .state = WEFT_ZERO_STATE_BLOCK8},
        {"lamb, sgd, muon beside adamw", WEFT_ZERO_ADAMW, .dtype = WEFT_BFLOAT16, .whole = WEFT_ZERO_MUON,
         .matrix = WEFT_ZERO_LAMB, .vector = WEFT_ZERO_SGD},
    };

    for (size_t v = 0; v < sizeof variants / sizeof *variants; v++) {
        struct resumed job = {.variant = &variants[v]};

        snprintf(job.folder, sizeof job.folder, "%s/resume%zu", wt_temp_dir(), v);
        CU_ASSERT_EQUAL_FATAL(mkdir(job.folder, 0700), 0);
        CU_ASSERT_EQUAL(wt_run(3, resume, &job, 60000), 0);
    }
}

/* ---- Parameters that pass through memory in many pieces ---- */

enum { BIG = 140001, SMALL = 333 };

/* Elements by themselves, whose number and place are checked. */
static void big_update(void *arg, const weft_zero_update *piece)
{
    size_t *elems = arg;

    if (piece->elems > 65536 || piece->first + piece->elems > (piece->param ? SMALL : BIG))
        wt_fail(__FILE__, __LINE__, "elements %zu to %zu", piece->first, piece->first + piece->elems);
    __atomic_add_fetch(elems, piece->elems, __ATOMIC_RELAXED);
    for (size_t i = 0; i < piece->elems; i++) {
        piece->moment1[i] = piece->moment1[i] * .5f + piece->grad[i];
        piece->weight[i] -= (float)piece->hyper->lr * piece->moment1[i] * (float)(1 + (piece->first + i) % 5);
    }
}

/* A micro-batch of parameters without units' passes, and its step. */
static void give_and_step(struct ft_rank *f, weft_zero *zero, const int *params, const size_t *elems, int nparams,
                          int step, float *values)
{
    for (int p = 0; p < nparams; p++) {
        for (size_t i = 0; i < elems[p]; i++)
            values[i] = zt_gradient(f->rank, step, 0, p, i, 0);
        WT_REQUIRE_OK(weft_zero_grad_add(zero, params[p], values, WEFT_FLOAT32));
    }
    WT_REQUIRE_OK(weft_zero_micro_batch_end(zero));
    WT_REQUIRE_OK(weft_zero_step(zero, groups, 1, NULL));
}

static void big_train(struct ft_rank *f, weft_zero_config *config, float *out)
{
    static float values[BIG];
    static const size_t shapes[2] = {BIG, SMALL};
    static const char *const names[2] = {"big", "small"};
    size_t updated = 0, expected = 0;
    int params[2], unit;
    weft_zero *zero;

    if (config->optimizer == WEFT_ZERO_CALLBACK) {
        config->update = big_update;
        config->update_arg = &updated;
        config->update_moments = 1;
    }
    WT_REQUIRE_OK(weft_zero_create(f->comm, config, &zero));
    for (int p = 0; p < 2; p++) {
        weft_zero_param param = WEFT_ZERO_PARAM_INIT;

        param.name = names[p];
        param.shape = &shapes[p];
        param.ndims = 1;
        param.dtype = WEFT_BFLOAT16;
        WT_REQUIRE_OK(weft_zero_param_add(zero, &param, &params[p]));
    }
    WT_REQUIRE_OK(weft_zero_unit_add(zero, "all", params, 2, &unit));
    WT_REQUIRE_OK(weft_zero_seal(zero));
    for (int p = 0; p < 2; p++) {
        for (size_t i = 0; i < shapes[p]; i++)
            values[i] = zt_initial(p, i);
        WT_REQUIRE_OK(weft_zero_param_set(zero, params[p], WEFT_ZERO_WEIGHT, values, WEFT_FLOAT32));
    }
    for (int step = 0; step < 3; step++)
        give_and_step(f, zero, params, shapes, 2, step, values);
    for (int p = 0; p < 2; p++) {
        WT_REQUIRE_OK(weft_zero_param_get(zero, params[p], WEFT_ZERO_WEIGHT, out, WEFT_FLOAT32));
        WT_REQUIRE_OK(weft_zero_param_get(zero, params[p], WEFT_ZERO_MOMENT1, out + shapes[p], WEFT_FLOAT32));
        out += 2 * shapes[p];
    }
    WT_CHECK_OK(weft_zero_destroy(zero));
    /* Of all ranks together every element was updated once in a step; in stage 0 on each. */
    if (config->optimizer == WEFT_ZERO_CALLBACK) {
        double sum = (double)updated;

        WT_REQUIRE_OK(weft_all_reduce(f->comm, &sum, &sum, 1, WEFT_FLOAT64, WEFT_SUM, NULL));
        expected = (size_t)3 * (BIG + SMALL) * (config->stage ? 1 : (size_t)f->nranks);
        WT_CHECK_INT((size_t)sum, expected);
    }
}

static void big(int rank, int nranks, void *arg)
{
    static float first[2 * (BIG + SMALL)], other[2 * (BIG + SMALL)];
    weft_zero_config config = WEFT_ZERO_CONFIG_INIT;
    struct ft_rank f;

    ft_open(&f, "shm,tcp", 20000, rank, nranks);
    config.optimizer = *(const weft_zero_optimizer *)arg;
    config.threads = 3;
    big_train(&f, &config, first);
    for (int stage = 0; stage < 4; stage++) {
        config.stage = stage;
        config.threads = 1 + stage % 2;
        config.offload_folder = wt_temp_dir();
        config.offload_block_bytes = 4096;
        config.offload_buffer_bytes = 16384; /* 1024 elements of each stream */
        memset(other, 0x7f, sizeof other);
        big_train(&f, &config, other);
        WT_CHECK_MEM(other, first, sizeof first);
    }
    ft_close(&f);
}

/* Muon's matrices of very different sizes, which the program does not call whole, longer than what a file's states come in. */
enum { WIDE_ROWS = 40, WIDE = WIDE_ROWS * 350, SQUARE = 8 * 8, FREE = 3000, THREE = WIDE + SQUARE + FREE };
static size_t matrices_train(struct ft_rank *f, const weft_zero_config *config, int narrow_first, float *out)
{
    static const size_t shapes[3][2] = {{WIDE_ROWS, 350}, {8, 8}, {FREE}}, elems[3] = {WIDE, SQUARE, FREE};
    static const char *const names[3] = {"wide", "square", "vector"};
    static float values[WIDE];
    const int order[3] = {narrow_first, !narrow_first, 2};
    weft_zero_stats stats = WEFT_ZERO_STATS_INIT;
    int params[3], unit;
    weft_zero *zero;

    WT_REQUIRE_OK(weft_zero_create(f->comm, config, &zero));
    for (int i = 0; i < 3; i++) {
        weft_zero_param param = WEFT_ZERO_PARAM_INIT;
        int p = order[i];

        param.name = names[p];
        param.shape = shapes[p];
        param.ndims = p < 2 ? 2 : 1;
        param.optimizer = p < 2 ? WEFT_ZERO_MUON : WEFT_ZERO_ADAMW;
        WT_REQUIRE_OK(weft_zero_param_add(zero, &param, &params[p]));
    }
    WT_REQUIRE_OK(weft_zero_unit_add(zero, "all", (int[]){params[order[0]], params[order[1]], params[2]}, 3, &unit));
    WT_REQUIRE_OK(weft_zero_seal(zero));
    for (int step = 0; step < 3; step++)
        give_and_step(f, zero, params, elems, 3, step, values);
    for (int p = 0; p < 3; p++) {
        WT_REQUIRE_OK(weft_zero_param_get(zero, params[p], WEFT_ZERO_WEIGHT, out, WEFT_FLOAT32));
        out += elems[p];
    }
    WT_CHECK_OK(weft_zero_get_stats(zero, &stats));
    WT_CHECK_OK(weft_zero_destroy(zero));
    return stats.state_bytes;
}

static void matrices(int rank, int nranks, void *arg)
{
    static float first[THREE], other[THREE];
    weft_zero_config config = WEFT_ZERO_CONFIG_INIT;
    struct ft_rank f;
    size_t bytes;

    (void)arg;
    ft_open(&f, "shm,tcp", 20000, rank, nranks);
    config.threads = 1;
    config.stage = 0;
    bytes = matrices_train(&f, &config, 0, first);
    /* Room for the larger one, sides rounded up to 32, whichever comes first. */
    WT_CHECK(bytes >= (size_t)4 * (2 * 64 * 352 + 2 * 64 * 64));
    WT_CHECK_INT(matrices_train(&f, &config, 1, other), bytes);
    WT_CHECK_MEM(other, first, sizeof first);
    for (int stage = 0; stage < 4; stage++) {
        config.stage = stage;
        config.threads = 1 + stage % 2;
        config.offload_folder = stage ? wt_temp_dir() : NULL;
        config.offload_block_bytes = 4096;
        config.offload_buffer_bytes = 12288; /* 1024 elements of each stream */
        memset(other, 0x7f, sizeof other);
        matrices_train(&f, &config, stage % 2, other);
        WT_CHECK_MEM(other, first, sizeof first);
    }
    ft_close(&f);
}

static void wholes(void)
{
    for (int n = 1; n <= 3; n += 2)
        CU_ASSERT_EQUAL(wt_run(n, matrices, NULL, 60000), 0);
}

static void pieces(void)
{
    static const weft_zero_optimizer kinds[] = {WEFT_ZERO_CALLBACK, WEFT_ZERO_LAMB};

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (int n = 1; n <= 3; n += 2)
            CU_ASSERT_EQUAL(wt_run(n, big, (void *)(uintptr_t)&kinds[i], 60000), 0);
}

static const struct wt_case cases[] = {
    {"the program's optimizer", callback},
    {"lamb", lamb},
    {"muon", muon},
    {"several optimizers", several},
    {"moments in fewer bytes", small_states},
    {"checkpoints of all of these", checkpoints},
    {"parameters in many pieces", pieces},
    {"matrices are never in pieces", wholes},
};
WT_UNIT_MAIN("zero_optims", cases)
