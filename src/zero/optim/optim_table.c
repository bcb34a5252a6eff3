/* SPDX-License-Identifier: BSD-3-Clause */
/* All optimizers, a row each: what the engine asks of them, and how hyper-parameters become what the loops take. */
#include <math.h>
#include <stdint.h>

#include "base/status.h"
#include "zero/optim/optim.h"
#include "zero/optim/optim_isa.h"

const char *wi_optim_name(weft_zero_optimizer kind)
{
    switch (kind) {
#define NAME(value_name, value, text) \
    case value_name:                  \
        return text;
        WEFT_ZERO_OPTIMIZER_LIST(NAME)
#undef NAME
    }
    return "unknown";
}

/* ---- Hyper-parameters that are checked. */

static weft_status refuse(weft_zero_optimizer kind, const char *name, double value, const char *range)
{
    return wi_fail(WEFT_EINVAL, "%s: %s is %g; it must be %s", wi_optim_name(kind), name, value, range);
}

static weft_status check_not_negative(weft_zero_optimizer kind, const char *name, double value)
{
    if (!(value >= 0) || isinf(value))
        return refuse(kind, name, value, "a number, not negative");
    return WEFT_SUCCESS;
}

static weft_status check_fraction(weft_zero_optimizer kind, const char *name, double value)
{
    if (!(value >= 0 && value < 1))
        return refuse(kind, name, value, "at least 0 and less than 1");
    return WEFT_SUCCESS;
}

static weft_status check_rates(weft_zero_optimizer kind, const weft_zero_hyper *h)
{
    WI_TRY(check_not_negative(kind, "lr", h->lr));
    return check_not_negative(kind, "weight_decay", h->weight_decay);
}

static weft_status check_lion(weft_zero_optimizer kind, const weft_zero_hyper *h)
{
    WI_TRY(check_rates(kind, h));
    WI_TRY(check_fraction(kind, "beta1", h->beta1));
    return check_fraction(kind, "beta2", h->beta2);
}

static weft_status check_adam(weft_zero_optimizer kind, const weft_zero_hyper *h)
{
    WI_TRY(check_not_negative(kind, "eps", h->eps));
    return check_lion(kind, h);
}

static weft_status check_lamb(weft_zero_optimizer kind, const weft_zero_hyper *h)
{
    WI_TRY(check_adam(kind, h));
    WI_TRY(check_not_negative(kind, "min_coeff", h->min_coeff));
    WI_TRY(check_not_negative(kind, "max_coeff", h->max_coeff));
    if (h->min_coeff > h->max_coeff)
        return wi_fail(WEFT_EINVAL, "lamb: min_coeff is %g, more than max_coeff, which is %g", h->min_coeff,
                       h->max_coeff);
    return WEFT_SUCCESS;
}

static weft_status check_adagrad(weft_zero_optimizer kind, const weft_zero_hyper *h)
{
    WI_TRY(check_rates(kind, h));
    WI_TRY(check_not_negative(kind, "eps", h->eps));
    return check_not_negative(kind, "lr_decay", h->lr_decay);
}

static weft_status check_sgd(weft_zero_optimizer kind, const weft_zero_hyper *h)
{
    WI_TRY(check_rates(kind, h));
    WI_TRY(check_not_negative(kind, "momentum", h->momentum));
    if (!isfinite(h->dampening))
        return refuse(kind, "dampening", h->dampening, "a number");
    if (h->nesterov && (h->momentum == 0 || h->dampening != 0))
        return wi_fail(WEFT_EINVAL, "sgd: nesterov needs momentum, which is %g, and no dampening, which is %g",
                       h->momentum, h->dampening);
    return WEFT_SUCCESS;
}

static weft_status check_muon(weft_zero_optimizer kind, const weft_zero_hyper *h)
{
    WI_TRY(check_rates(kind, h));
    return check_fraction(kind, "momentum", h->momentum);
}

static weft_status check_nothing(weft_zero_optimizer kind, const weft_zero_hyper *h)
{
    (void)kind;
    (void)h;
    return WEFT_SUCCESS;
}

/* ---- What they become. */

/* m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps), with numerator and denominator multiplied by sqrt(1 - beta2^t). */
static void prepare_adamw(struct wi_optim *o, const weft_zero_hyper *h, uint64_t step)
{
    double root = sqrt(1 - pow(h->beta2, (double)step));

    o->form = WI_OPTIM_ADAMW;
    o->step_size = h->lr / (1 - pow(h->beta1, (double)step)) * root;
    o->eps = h->eps * root;
}

static void prepare_adam(struct wi_optim *o, const weft_zero_hyper *h, uint64_t step)
{
    prepare_adamw(o, h, step);
    o->form = WI_OPTIM_ADAM;
    o->l2 = h->weight_decay;
}

static void prepare_lamb(struct wi_optim *o, const weft_zero_hyper *h, uint64_t step)
{
    o->form = WI_OPTIM_LAMB;
    o->correct1 = 1 / (1 - pow(h->beta1, (double)step));
    o->correct2 = 1 / sqrt(1 - pow(h->beta2, (double)step));
    o->eps = h->eps;
    o->l2 = h->weight_decay;
}

static void prepare_sgd(struct wi_optim *o, const weft_zero_hyper *h, uint64_t step)
{
    o->form = h->momentum == 0 ? WI_OPTIM_SGD : h->nesterov ? WI_OPTIM_NESTEROV : WI_OPTIM_MOMENTUM;
    o->l2 = h->weight_decay;
    o->keep1 = h->momentum;
    o->add1 = 1 - h->dampening;
    o->first = step == 1;
}

static void prepare_lion(struct wi_optim *o, const weft_zero_hyper *h, uint64_t step)
{
    (void)h;
    (void)step;
    o->form = WI_OPTIM_LION;
}

static void prepare_adagrad(struct wi_optim *o, const weft_zero_hyper *h, uint64_t step)
{
    o->form = WI_OPTIM_ADAGRAD;
    o->l2 = h->weight_decay;
    o->step_size = h->lr / (1 + (double)(step - 1) * h->lr_decay);
    o->eps = h->eps;
}

/* The program knows what it maximizes. */
static void prepare_program(struct wi_optim *o, const weft_zero_hyper *h, uint64_t step)
{
    (void)step;
    o->grad_scale = h->maximize ? -o->grad_scale : o->grad_scale;
}

/* The ratio of the norms, in which lamb steps. */
static void take_norms(struct wi_optim *o, double weight, double update)
{
    const weft_zero_hyper *h = o->hyper;
    double coeff = 1;

    if (weight != 0 && update != 0) {
        coeff = sqrt(weight) / sqrt(update);
        coeff = coeff > h->max_coeff ? h->max_coeff : coeff < h->min_coeff ? h->min_coeff : coeff;
    }
    o->step_size *= coeff;
}

/* ---- Kernels. */

static void run_elements(const struct wi_optim_call *call)
{
    if (call->codes)
        wi_optim_run_coded(call->pool, call->pieces, call->codes, call->npieces, call->scratch);
    else
        wi_optim_run(call->pool, call->pieces, call->npieces);
}

static void run_lamb(const struct wi_optim_call *call)
{
    if (call->sums)
        wi_optim_lamb_moments(call->pool, call->pieces, call->sums, call->npieces);
    else
        wi_optim_run(call->pool, call->pieces, call->npieces);
}

static void run_muon(const struct wi_optim_call *call)
{
    for (size_t i = 0; i < call->npieces; i++) {
        const struct wi_optim_piece *piece = &call->pieces[i];

        wi_optim_muon(call->pool, &(struct wi_optim_muon){.rows = piece->rows,
                                                          .columns = piece->elems / piece->rows,
                                                          .weight = piece->weight,
                                                          .moment = piece->moment1,
                                                          .grad = piece->grad,
                                                          .grad_dtype = piece->grad_dtype,
                                                          .out = piece->out,
                                                          .out_dtype = piece->out_dtype,
                                                          .grad_scale = piece->optim->grad_scale,
                                                          .hyper = piece->optim->hyper,
                                                          .scratch = call->scratch});
    }
}

static size_t muon_bytes(int threads, size_t rows, size_t columns)
{
    (void)threads;
    return wi_optim_muon_bytes(rows, columns);
}

static void run_program(const struct wi_optim_call *call)
{
    const struct wi_optim_user user = {call->update, call->update_arg, call->scratch};

    wi_optim_run_user(call->pool, &user, call->pieces, call->npieces);
}

static size_t program_bytes(int threads, size_t rows, size_t columns)
{
    (void)rows;
    (void)columns;
    return wi_optim_user_bytes(threads);
}

/* ---- The table. */

#define FIRST 1u  /* moment1 is a sum of squares */
#define SECOND 2u /* moment2 is */

static const struct wi_optim_ops table[] = {
    {WEFT_ZERO_ADAMW, WI_OPTIM_CODED, 2, SECOND, check_adam, prepare_adamw, NULL, NULL, run_elements},
    {WEFT_ZERO_ADAM, WI_OPTIM_CODED, 2, SECOND, check_adam, prepare_adam, NULL, NULL, run_elements},
    {WEFT_ZERO_SGD, WI_OPTIM_CODED, 1, 0, check_sgd, prepare_sgd, NULL, NULL, run_elements},
    {WEFT_ZERO_LION, WI_OPTIM_CODED, 1, 0, check_lion, prepare_lion, NULL, NULL, run_elements},
    {WEFT_ZERO_ADAGRAD, 0, 1, FIRST, check_adagrad, prepare_adagrad, NULL, NULL, run_elements},
    {WEFT_ZERO_CALLBACK, WI_OPTIM_PROGRAM, 0, 0, check_nothing, prepare_program, NULL, program_bytes, run_program},
    {WEFT_ZERO_LAMB, WI_OPTIM_TWO_PASSES, 2, SECOND, check_lamb, prepare_lamb, take_norms, NULL, run_lamb},
    {WEFT_ZERO_MUON, WI_OPTIM_MATRICES, 1, 0, check_muon, NULL, NULL, muon_bytes, run_muon},
};

const struct wi_optim_ops *wi_optim_find(weft_zero_optimizer kind)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].kind == kind)
            return &table[i];
    return NULL;
}

weft_status wi_optim_prepare(struct wi_optim *optim, weft_zero_optimizer kind, const weft_zero_hyper *hyper,
                             uint64_t step, double grad_scale)
{
    const struct wi_optim_ops *ops = wi_optim_find(kind);

    if (!optim || !hyper)
        return wi_fail(WEFT_EINVAL, "optimizer: %s is NULL", optim ? "hyper" : "optim");
    if (!ops)
        return wi_fail(WEFT_EINVAL, "optimizer: there is none of number %d", (int)kind);
    if (!step)
        return wi_fail(WEFT_EINVAL, "%s: step is 0; the first one is 1", wi_optim_name(kind));
    if (!isfinite(grad_scale))
        return refuse(kind, "the gradients' scale", grad_scale, "a number");
    WI_TRY(ops->check(kind, hyper));
    *optim = (struct wi_optim){
        .kind = kind,
        .grad_scale = hyper->maximize ? -grad_scale : grad_scale,
        .decay = 1 - hyper->lr * hyper->weight_decay,
        .keep1 = hyper->beta1,
        .add1 = 1 - hyper->beta1,
        .keep2 = hyper->beta2,
        .add2 = 1 - hyper->beta2,
        .step_size = hyper->lr,
        .hyper = hyper,
        .step = step,
    };
    if (ops->prepare)
        ops->prepare(optim, hyper, step);
    return WEFT_SUCCESS;
}
