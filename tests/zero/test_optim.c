/* SPDX-License-Identifier: BSD-3-Clause */
/* Optimizers against references in double that follow torch.optim's formulas, and the same bits on every instruction set. */
#include <fenv.h>
#include <float.h>

#include "base/status.h"
#include "optim_common.h"
#include "../unit/unit.h"

#define ELEMS 4099u

static struct state {
    float weight[ELEMS], moment1[ELEMS], moment2[ELEMS];
    float grad[ELEMS]; /* in any dtype */
    uint16_t out[ELEMS];
} now, before;

/* What each optimizer is tested with. */
static const struct setting {
    const char *name;
    weft_zero_optimizer kind;
    weft_zero_hyper hyper;
} settings[] = {
#define SIZE \
    sizeof(  \
        weft_zero_hyper) /* then lr, beta1, beta2, eps, weight_decay, momentum, dampening, nesterov, maximize, lr_decay, max_coeff,
                            min_coeff */
    {"adamw", WEFT_ZERO_ADAMW, {SIZE, 1e-3, .9, .999, 1e-8, .1, 0, 0, 0, 0, 0, 10, .01}},
    {"adamw, tiny eps", WEFT_ZERO_ADAMW, {SIZE, 1e-3, .9, .999, 1e-40, 0, 0, 0, 0, 0, 0, 10, .01}},
    {"adamw, huge eps", WEFT_ZERO_ADAMW, {SIZE, 1e-3, .9, .999, 1e30, 0, 0, 0, 0, 0, 0, 10, .01}},
    {"adamw, large lr", WEFT_ZERO_ADAMW, {SIZE, 3, .5, .95, 1e-8, 0, 0, 0, 0, 0, 0, 10, .01}},
    {"adamw, maximize", WEFT_ZERO_ADAMW, {SIZE, 1e-3, .9, .999, 1e-8, .01, 0, 0, 0, 1, 0, 10, .01}},
    {"adam", WEFT_ZERO_ADAM, {SIZE, 1e-3, .9, .999, 1e-8, .1, 0, 0, 0, 0, 0, 10, .01}},
    {"adam, maximize", WEFT_ZERO_ADAM, {SIZE, 1e-3, .9, .999, 1e-8, .1, 0, 0, 0, 1, 0, 10, .01}},
    {"sgd", WEFT_ZERO_SGD, {SIZE, 1e-3, .9, .999, 1e-8, .01, 0, 0, 0, 0, 0, 10, .01}},
    {"sgd, momentum", WEFT_ZERO_SGD, {SIZE, 1e-3, .9, .999, 1e-8, .01, .9, .3, 0, 0, 0, 10, .01}},
    {"sgd, nesterov", WEFT_ZERO_SGD, {SIZE, 1e-3, .9, .999, 1e-8, 0, .9, 0, 1, 1, 0, 10, .01}},
    {"lion", WEFT_ZERO_LION, {SIZE, 1e-3, .9, .99, 1e-8, .1, 0, 0, 0, 0, 0, 10, .01}},
    {"adagrad", WEFT_ZERO_ADAGRAD, {SIZE, 1e-3, .9, .999, 1e-10, .01, 0, 0, 0, 0, .1, 10, .01}},
    {"lamb, second pass", WEFT_ZERO_LAMB, {SIZE, 1e-3, .9, .999, 1e-6, .01, 0, 0, 0, 0, 0, 10, .01}},
};
#define SETTINGS (sizeof(settings) / sizeof(settings[0]))

/* ---- One step of one element, written as torch.optim's documentation has it. */

struct element {
    double p, m, v;
};

/* The root is of the second moment as it is stored, which may have become 0 or infinity, as with torch. */
static double stored(double v)
{
    return (float)v;
}

static struct element adam(const struct setting *s, double g, struct element e, double step)
{
    const weft_zero_hyper *h = &s->hyper;

    if (s->kind == WEFT_ZERO_ADAMW)
        e.p -= h->lr * h->weight_decay * e.p;
    else
        g += h->weight_decay * e.p;
    e.m = h->beta1 * e.m + (1 - h->beta1) * g;
    e.v = h->beta2 * e.v + (1 - h->beta2) * g * g;
    e.p -= h->lr * (e.m / (1 - pow(h->beta1, step))) / (sqrt(stored(e.v) / (1 - pow(h->beta2, step))) + h->eps);
    return e;
}

static struct element sgd(const struct setting *s, double g, struct element e, double step)
{
    const weft_zero_hyper *h = &s->hyper;

    g += h->weight_decay * e.p;
    if (h->momentum != 0) {
        e.m = step == 1 ? g : h->momentum * e.m + (1 - h->dampening) * g;
        g = h->nesterov ? g + h->momentum * e.m : e.m;
    }
    e.p -= h->lr * g;
    return e;
}

static struct element lion(const struct setting *s, double g, struct element e)
{
    const weft_zero_hyper *h = &s->hyper;
    double c = h->beta1 * e.m + (1 - h->beta1) * g;

    e.p = e.p - h->lr * h->weight_decay * e.p - h->lr * ((c > 0) - (c < 0));
    e.m = h->beta2 * e.m + (1 - h->beta2) * g;
    return e;
}

static struct element adagrad(const struct setting *s, double g, struct element e, double step)
{
    const weft_zero_hyper *h = &s->hyper;

    g += h->weight_decay * e.p;
    e.v += g * g;
    e.p -= h->lr / (1 + (step - 1) * h->lr_decay) * g / (sqrt(stored(e.v)) + h->eps);
    return e;
}

/* With a ratio of norms of 1; the gradient has gone into the moments before. */
static struct element lamb(const struct setting *s, struct element e, double step)
{
    const weft_zero_hyper *h = &s->hyper;

    e.p -= h->lr *
           (e.m / (1 - pow(h->beta1, step)) / (sqrt(e.v / (1 - pow(h->beta2, step))) + h->eps) + h->weight_decay * e.p);
    return e;
}

static struct element reference(const struct setting *s, double g, struct element e, double step)
{
    if (s->hyper.maximize)
        g = -g;
    switch (s->kind) {
    case WEFT_ZERO_SGD:
        return sgd(s, g, e, step);
    case WEFT_ZERO_LION:
        return lion(s, g, e);
    case WEFT_ZERO_ADAGRAD:
        return adagrad(s, g, e, step);
    case WEFT_ZERO_LAMB:
        return lamb(s, e, step);
    default:
        return adam(s, g, e, step);
    }
}

/* ---- Comparisons. */

static double ulp(double v)
{
    int exponent;

    v = fabs(v);
    if (v < FLT_MIN)
        return 0x1p-149;
    frexp(v, &exponent);
    return ldexp(1, exponent - 24);
}

/* How many ulp of `scale` lie between a result and a reference that is rounded to fp32. */
static double ulps(float result, double exact, double scale)
{
    float rounded = (float)exact;

    if (result == rounded || (isnan(result) && isnan(rounded)))
        return 0;
    if (!isfinite(result) || !isfinite(rounded))
        return INFINITY;
    return fabs((double)result - (double)rounded) / ulp(scale);
}

static void fill(struct state *s, weft_dtype dtype, int wild)
{
    for (size_t i = 0; i < ELEMS; i++) {
        float g = wild ? wt_any_finite() : wt_uniform() * 1e-2f;

        s->weight[i] = wild ? wt_any_finite() : i % 5 == 0 ? 0 : wt_uniform();
        s->moment1[i] = wild ? wt_any_finite() : wt_uniform() * 1e-2f;
        s->moment2[i] = wild ? fabsf(wt_any_finite()) : fabsf(wt_uniform()) * 1e-4f;
        wt_put(dtype, s->grad, i,
               wild && dtype == WEFT_FLOAT16 ? ldexpf(wt_uniform(), (int)(wt_random() % 40) - 24) : g);
    }
}

static struct wi_optim_piece piece_of(struct state *s, const struct wi_optim *optim, weft_dtype grad, int out,
                                      weft_dtype out_dtype)
{
    return (struct wi_optim_piece){
        .optim = optim,
        .elems = ELEMS,
        .weight = s->weight,
        .moment1 = wi_optim_find(optim->kind)->moments == 2 || optim->kind != WEFT_ZERO_ADAGRAD ? s->moment1 : NULL,
        .moment2 = s->moment2,
        .grad = s->grad,
        .grad_dtype = grad,
        .out = out ? s->out : NULL,
        .out_dtype = out_dtype};
}

/* The largest distance of weights, in ulp of max(|weight before|, |update|), and of moments in their own. */
static void compare(const struct setting *s, weft_dtype dtype, double scale, double step, double worst[2])
{
    for (size_t i = 0; i < ELEMS; i++) {
        struct element was = {before.weight[i], before.moment1[i], before.moment2[i]};
        struct element is = reference(s, scale * (double)wt_get(dtype, before.grad, i), was, step);
        double update = is.p - was.p;

        worst[0] = fmax(worst[0], ulps(now.weight[i], is.p, fmax(fabs(was.p), fabs(update))));
        worst[1] = fmax(worst[1], ulps(now.moment1[i], is.m, is.m));
        worst[1] = fmax(worst[1], ulps(now.moment2[i], is.v, is.v));
    }
}

/* Steps go on from the state that the last one left, with new gradients. */
static void test_against_reference(int wild)
{
    for (size_t k = 0; k < SETTINGS; k++) {
        double worst[2] = {0, 0};

        for (uint64_t step = 1; step <= 24; step++) {
            weft_dtype grad = wt_dtypes[step % 3], out = step % 2 ? WEFT_BFLOAT16 : WEFT_FLOAT16;
            double scale = step % 4 == 0 ? 1 : wt_uniform() * wt_uniform();
            struct wi_optim optim;
            struct wi_optim_piece piece;

            before = now;
            fill(&before, grad, wild);
            if (step > 1 && !wild) {
                memcpy(before.weight, now.weight, sizeof(now.weight));
                memcpy(before.moment1, now.moment1, sizeof(now.moment1));
                memcpy(before.moment2, now.moment2, sizeof(now.moment2));
            }
            now = before;
            CU_ASSERT_EQUAL_FATAL(wi_optim_prepare(&optim, settings[k].kind, &settings[k].hyper, step, scale),
                                  WEFT_SUCCESS);
            piece = piece_of(&now, &optim, grad, 1, out);
            wi_optim_run(NULL, &piece, 1);
            compare(&settings[k], grad, scale, (double)step, worst);
            for (size_t i = 0; i < ELEMS; i++)
                if (now.out[i] != (out == WEFT_FLOAT16 ? wi_f32_to_f16 : wi_f32_to_bf16)(now.weight[i]))
                    CU_FAIL("a 16-bit weight is not the rounded weight");
        }
        printf("# %-16s weight %.2f ulp, moments %.2f ulp\n", settings[k].name, worst[0], worst[1]);
        CU_ASSERT(worst[0] <= 2);
        CU_ASSERT(worst[1] <= 1);
    }
}

static void near_the_reference(void)
{
    for (int i = 0; i < WT_ISAS; i++) {
        if (wi_isa_force(wt_isas[i]) != 0)
            continue;
        printf("# %s\n", wt_isas[i]);
        test_against_reference(0);
    }
    wi_isa_force(NULL);
}

/* Denormals, zeros and the largest numbers for everything. */
static void near_the_reference_for_any_number(void)
{
    for (int i = 0; i < WT_ISAS; i++) {
        if (wi_isa_force(wt_isas[i]) != 0)
            continue;
        printf("# %s\n", wt_isas[i]);
        test_against_reference(1);
    }
    wi_isa_force(NULL);
}

static void gradient_of_zero(void)
{
    weft_zero_hyper h = WEFT_ZERO_HYPER_INIT;
    float weight = 1.5f, m = 0, v = 0, grad = 0;
    struct wi_optim optim;
    struct wi_optim_piece piece = {&optim, 1, &weight, &m, &v, &grad, WEFT_FLOAT32, NULL, WEFT_BFLOAT16, 0, 0, 0};

    CU_ASSERT_EQUAL_FATAL(wi_optim_prepare(&optim, WEFT_ZERO_ADAMW, &h, 1, 1), WEFT_SUCCESS);
    wi_optim_run(NULL, &piece, 1);
    CU_ASSERT(weight == 1.5f && m == 0 && v == 0);
    h.eps = 0; /* 0 / 0, as torch has it */
    CU_ASSERT_EQUAL_FATAL(wi_optim_prepare(&optim, WEFT_ZERO_ADAMW, &h, 1, 1), WEFT_SUCCESS);
    wi_optim_run(NULL, &piece, 1);
    CU_ASSERT(isnan(weight));
}

/* ---- The same bits. */

/* Finite, infinite and no numbers. */
static void fill_wild(struct state *s)
{
    for (size_t i = 0; i < ELEMS; i++) {
        int special = wt_random() % 16 == 0;

        s->weight[i] = special && i % 4 == 0 ? wt_float((uint32_t)wt_random()) : wt_any_finite();
        s->moment1[i] = special && i % 4 == 1 ? wt_float(0xff800001 | (uint32_t)wt_random()) : wt_any_finite();
        s->moment2[i] = special && i % 4 == 2 ? wt_float(0x7f800000 | (uint32_t)wt_random()) : fabsf(wt_any_finite());
        s->grad[i] = special ? wt_float((uint32_t)wt_random()) : wt_any_finite();
    }
    for (size_t i = ELEMS / 2; i < ELEMS; i++) { /* half of them tame, where paths for special cases are not taken */
        s->weight[i] = wt_uniform();
        s->moment1[i] = wt_uniform() * 1e-2f;
        s->moment2[i] = fabsf(wt_uniform()) * 1e-4f;
        wt_put(wt_dtypes[i / 64 % 3], s->grad, i, wt_uniform() * 1e-2f);
    }
}

/* Everything `offset` bytes off, in a buffer with a guard behind. */
static char shifted[3][4 * ELEMS + 64], shifted_grad[4 * ELEMS + 64], shifted_out[2 * ELEMS + 64];

static void run_cut(struct wi_optim_pool *pool, const struct wi_optim_piece *whole, size_t offset, size_t cuts)
{
    struct wi_optim_piece pieces[64];
    size_t at = 0, n = 0;
    float *const from[3] = {whole->weight, whole->moment1, whole->moment2};

    for (int k = 0; k < 3; k++)
        if (from[k])
            memcpy(shifted[k] + offset, from[k], 4 * ELEMS);
    memcpy(shifted_grad + offset, whole->grad, 4 * ELEMS);
    while (at < ELEMS) {
        size_t elems = n + 1 == cuts ? ELEMS - at : wt_random() % (ELEMS - at + 1);

        pieces[n] = *whole;
        pieces[n].elems = elems;
        pieces[n].weight = (float *)(void *)(shifted[0] + offset + 4 * at);
        pieces[n].moment1 = whole->moment1 ? (float *)(void *)(shifted[1] + offset + 4 * at) : NULL;
        pieces[n].moment2 = whole->moment2 ? (float *)(void *)(shifted[2] + offset + 4 * at) : NULL;
        pieces[n].grad = shifted_grad + offset + wt_dtype_bytes(whole->grad_dtype) * at;
        pieces[n].out = whole->out ? shifted_out + offset + 2 * at : NULL;
        at += elems;
        n++;
    }
    for (int k = 0; k < 3; k++)
        memset(shifted[k] + offset + 4 * ELEMS, 0x5a, 16);
    memset(shifted_out + offset + 2 * ELEMS, 0x5a, 16);
    wi_optim_run(pool, pieces, n);
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < 16; i++)
            CU_ASSERT_EQUAL(shifted[k][offset + 4 * ELEMS + i], 0x5a);
        if (from[k])
            memcpy(from[k], shifted[k] + offset, 4 * ELEMS);
    }
    for (int i = 0; i < 16; i++)
        CU_ASSERT_EQUAL(shifted_out[offset + 2 * ELEMS + i], 0x5a);
    if (whole->out)
        memcpy(whole->out, shifted_out + offset, 2 * ELEMS);
}

static void test_same_bits(const struct setting *s, weft_dtype grad, int out, weft_dtype out_dtype,
                           struct wi_optim_pool *pool)
{
    static struct state start, first;
    struct wi_optim optim;
    struct wi_optim_piece piece;

    memset(&start, 0, sizeof(start));
    fill_wild(&start);
    CU_ASSERT_EQUAL_FATAL(wi_optim_prepare(&optim, s->kind, &s->hyper, 3, .7), WEFT_SUCCESS);
    optim.first = wt_random() % 4 == 0;
    first = start;
    wi_isa_force("scalar");
    piece = piece_of(&first, &optim, grad, out, out_dtype);
    wi_optim_run(NULL, &piece, 1);
    for (int i = 0; i < WT_ISAS * 3; i++) {
        if (wi_isa_force(wt_isas[i % WT_ISAS]) != 0)
            continue;
        now = start;
        piece = piece_of(&now, &optim, grad, out, out_dtype);
        run_cut(i < WT_ISAS ? NULL : pool, &piece, i < WT_ISAS ? 0 : wt_random() % 33,
                i < WT_ISAS ? 1 : 1 + wt_random() % 40);
        CU_ASSERT(memcmp(&now, &first, sizeof(now)) == 0);
    }
    wi_isa_force(NULL);
}

static void same_bits_everywhere(void)
{
    struct wi_optim_pool *pool;

    CU_ASSERT_EQUAL_FATAL(wi_optim_pool_create(3, &pool), WEFT_SUCCESS);
    for (size_t k = 0; k < SETTINGS; k++)
        for (int g = 0; g < 3; g++)
            for (int out = 0; out < 3; out++)
                test_same_bits(&settings[k], wt_dtypes[g], out > 0, wt_dtypes[out], pool);
    wi_optim_pool_destroy(pool);
}

/* Large enough that several threads share it, cut in the middle of vectors. */
static void same_bits_for_any_number_of_threads(void)
{
    enum { N = 200003, PIECES = 7 };
    float *data[2][4];
    struct wi_optim optim;

    CU_ASSERT_EQUAL_FATAL(wi_optim_prepare(&optim, WEFT_ZERO_ADAMW, &settings[0].hyper, 5, .5), WEFT_SUCCESS);
    for (int k = 0; k < 4; k++) {
        data[0][k] = malloc(N * sizeof(float));
        data[1][k] = malloc(N * sizeof(float));
    }
    for (int threads = 1; threads <= 9; threads += 2) {
        static const size_t starts[PIECES + 1] = {0, 1, 1, 32767, 40000, 131073, 199999, N};
        struct wi_optim_piece pieces[PIECES],
            whole = {&optim, N, data[0][0], data[0][1], data[0][2], data[0][3], WEFT_FLOAT32, NULL, 0, 0, 0, 0};
        struct wi_optim_pool *pool;

        for (int k = 0; k < 4; k++)
            for (size_t i = 0; i < N; i++)
                data[0][k][i] = data[1][k][i] = fabsf(wt_uniform());
        for (int i = 0; i < PIECES; i++)
            pieces[i] = (struct wi_optim_piece){&optim,
                                                starts[i + 1] - starts[i],
                                                data[1][0] + starts[i],
                                                data[1][1] + starts[i],
                                                data[1][2] + starts[i],
                                                data[1][3] + starts[i],
                                                WEFT_FLOAT32,
                                                NULL,
                                                0,
                                                0,
                                                0,
                                                0};
        CU_ASSERT_EQUAL_FATAL(wi_optim_pool_create(threads, &pool), WEFT_SUCCESS);
        wi_optim_run(NULL, &whole, 1);
        wi_optim_run(pool, pieces, PIECES);
        for (int k = 0; k < 4; k++)
            CU_ASSERT(memcmp(data[0][k], data[1][k], N * sizeof(float)) == 0);
        wi_optim_pool_destroy(pool);
    }
    for (int k = 0; k < 4; k++) {
        free(data[0][k]);
        free(data[1][k]);
    }
}

/* The program's rounding mode does not matter, and is as before afterwards. */
static void any_rounding_mode(void)
{
    static struct state upward;
    struct wi_optim optim;
    struct wi_optim_piece piece;

    memset(&now, 0, sizeof(now));
    fill(&now, WEFT_FLOAT32, 0);
    upward = now;
    CU_ASSERT_EQUAL_FATAL(wi_optim_prepare(&optim, WEFT_ZERO_ADAMW, &settings[0].hyper, 2, .3), WEFT_SUCCESS);
    piece = piece_of(&now, &optim, WEFT_FLOAT32, 1, WEFT_FLOAT16);
    wi_optim_run(NULL, &piece, 1);
    piece = piece_of(&upward, &optim, WEFT_FLOAT32, 1, WEFT_FLOAT16);
    if (fesetround(FE_UPWARD) != 0) {
        wt_skip("no other rounding mode");
        return;
    }
    wi_optim_run(NULL, &piece, 1);
    CU_ASSERT_EQUAL(fegetround(), FE_UPWARD);
    fesetround(FE_TONEAREST);
    CU_ASSERT(memcmp(&now, &upward, sizeof(now)) == 0);
}

/* ---- Hyper-parameters. */

static void prepare_refuses(void)
{
    static const struct {
        weft_zero_optimizer kind;
        weft_zero_hyper hyper;
        const char *text;
    } cases[] = {
        {WEFT_ZERO_ADAMW, {SIZE, -1, .9, .999, 1e-8, 0, 0, 0, 0, 0, 0, 10, .01}, "lr"},
        {WEFT_ZERO_ADAMW, {SIZE, NAN, .9, .999, 1e-8, 0, 0, 0, 0, 0, 0, 10, .01}, "lr"},
        {WEFT_ZERO_SGD, {SIZE, INFINITY, .9, .999, 1e-8, 0, 0, 0, 0, 0, 0, 10, .01}, "lr"},
        {WEFT_ZERO_ADAM, {SIZE, 1e-3, .9, .999, 1e-8, -1e-9, 0, 0, 0, 0, 0, 10, .01}, "weight_decay"},
        {WEFT_ZERO_ADAM, {SIZE, 1e-3, 1, .999, 1e-8, 0, 0, 0, 0, 0, 0, 10, .01}, "beta1"},
        {WEFT_ZERO_LION, {SIZE, 1e-3, .9, -.1, 1e-8, 0, 0, 0, 0, 0, 0, 10, .01}, "beta2"},
        {WEFT_ZERO_LION, {SIZE, 1e-3, .9, NAN, 1e-8, 0, 0, 0, 0, 0, 0, 10, .01}, "beta2"},
        {WEFT_ZERO_ADAMW, {SIZE, 1e-3, .9, .999, -1, 0, 0, 0, 0, 0, 0, 10, .01}, "eps"},
        {WEFT_ZERO_ADAGRAD, {SIZE, 1e-3, .9, .999, NAN, 0, 0, 0, 0, 0, 0, 10, .01}, "eps"},
        {WEFT_ZERO_ADAGRAD, {SIZE, 1e-3, .9, .999, 1e-8, 0, 0, 0, 0, 0, -1, 10, .01}, "lr_decay"},
        {WEFT_ZERO_SGD, {SIZE, 1e-3, .9, .999, 1e-8, 0, -.5, 0, 0, 0, 0, 10, .01}, "momentum"},
        {WEFT_ZERO_SGD, {SIZE, 1e-3, .9, .999, 1e-8, 0, .5, NAN, 0, 0, 0, 10, .01}, "dampening"},
        {WEFT_ZERO_SGD, {SIZE, 1e-3, .9, .999, 1e-8, 0, 0, 0, 1, 0, 0, 10, .01}, "nesterov"},
        {WEFT_ZERO_SGD, {SIZE, 1e-3, .9, .999, 1e-8, 0, .9, .1, 1, 0, 0, 10, .01}, "nesterov"},
        {WEFT_ZERO_LAMB,
         {SIZE, 1e-3, .9, .999, 1e-6, 0, 0, 0, 0, 0, 0, .1, .2},
         "min_coeff is 0.2, more than max_coeff"},
        {WEFT_ZERO_LAMB, {SIZE, 1e-3, .9, .999, 1e-6, 0, 0, 0, 0, 0, 0, NAN, .2}, "max_coeff"},
        {WEFT_ZERO_LAMB, {SIZE, 1e-3, .9, 1, 1e-6, 0, 0, 0, 0, 0, 0, 10, .01}, "beta2"},
        {WEFT_ZERO_MUON, {SIZE, 1e-3, .9, .999, 1e-8, 0, 1, 0, 0, 0, 0, 10, .01}, "muon: momentum is 1"},
        {(weft_zero_optimizer)0, {SIZE, 1, .9, .999, 1e-8, 0, 0, 0, 0, 0, 0, 10, .01}, "number 0"},
        {(weft_zero_optimizer)77, {SIZE, 1, .9, .999, 1e-8, 0, 0, 0, 0, 0, 0, 10, .01}, "number 77"},
    };
    weft_zero_hyper good = WEFT_ZERO_HYPER_INIT;
    struct wi_optim optim, was;

    memset(&optim, 0x33, sizeof(optim));
    was = optim;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        CU_ASSERT_EQUAL(wi_optim_prepare(&optim, cases[i].kind, &cases[i].hyper, 1, 1), WEFT_EINVAL);
        CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), cases[i].text));
    }
    CU_ASSERT_EQUAL(wi_optim_prepare(&optim, WEFT_ZERO_ADAMW, &good, 0, 1), WEFT_EINVAL);
    CU_ASSERT_EQUAL(wi_optim_prepare(&optim, WEFT_ZERO_ADAMW, &good, 1, NAN), WEFT_EINVAL);
    CU_ASSERT_EQUAL(wi_optim_prepare(&optim, WEFT_ZERO_ADAMW, NULL, 1, 1), WEFT_EINVAL);
    CU_ASSERT_EQUAL(wi_optim_prepare(NULL, WEFT_ZERO_ADAMW, &good, 1, 1), WEFT_EINVAL);
    CU_ASSERT(memcmp(&optim, &was, sizeof(was)) == 0);
    good.momentum = good.lr_decay = NAN; /* adamw has none */
    CU_ASSERT_EQUAL(wi_optim_prepare(&optim, WEFT_ZERO_ADAMW, &good, 1, 1), WEFT_SUCCESS);
}

static void names_and_moments(void)
{
    CU_ASSERT_STRING_EQUAL(wi_optim_name(WEFT_ZERO_ADAMW), "adamw");
    CU_ASSERT_STRING_EQUAL(wi_optim_name(WEFT_ZERO_ADAGRAD), "adagrad");
    CU_ASSERT_STRING_EQUAL(wi_optim_name((weft_zero_optimizer)0), "unknown");
    CU_ASSERT_EQUAL(wi_optim_find(WEFT_ZERO_ADAM)->moments, 2);
    CU_ASSERT_EQUAL(wi_optim_find(WEFT_ZERO_SGD)->moments, 1);
    CU_ASSERT_EQUAL(wi_optim_find(WEFT_ZERO_LION)->moments, 1);
    CU_ASSERT_PTR_NULL(wi_optim_find((weft_zero_optimizer)99));
    CU_ASSERT_PTR_NULL(wi_optim_find((weft_zero_optimizer)0));
    /* Every optimizer that there is has a row. */
#define HAS_ROW(name, value, text)                                                                           \
    CU_ASSERT_PTR_NOT_NULL_FATAL(wi_optim_find(name));                                                       \
    CU_ASSERT(wi_optim_find(name)->kind == name && wi_optim_find(name)->run && wi_optim_find(name)->check && \
              wi_optim_find(name)->moments <= 2 &&                                                           \
              !wi_optim_find(name)->take_sums == !(wi_optim_find(name)->flags & WI_OPTIM_TWO_PASSES));
    WEFT_ZERO_OPTIMIZER_LIST(HAS_ROW)
#undef HAS_ROW
}

static const struct wt_case cases[] = {
    {"names and numbers of moments", names_and_moments},
    {"prepare refuses what is out of range", prepare_refuses},
    {"within 2 ulp of the reference", near_the_reference},
    {"within 2 ulp of the reference for any number", near_the_reference_for_any_number},
    {"a gradient of 0", gradient_of_zero},
    {"the same bits for every instruction set, cut and alignment", same_bits_everywhere},
    {"the same bits for any number of threads", same_bits_for_any_number_of_threads},
    {"the same bits in any rounding mode", any_rounding_mode},
};

WT_UNIT_MAIN("optim", cases)
