/* SPDX-License-Identifier: BSD-3-Clause */
/* The sections "optimizer" and "scheduler": their types, and which parameters each of them has. */
#include <string.h>
#include <strings.h>

#include "base/status.h"
#include "base/text.h"
#include "zero/ds/ds.h"

#define NOT_HERE "weft.zero has no such optimizer"
#define WIDTHS \
    "its learning rates depend on widths: make groups of parameters with rates of their own, of Adam, AdamW or SGD"
#define ONE_BIT "its compression is weft's: take Adam with zero_quantized_gradients"
#define IN_PROGRAM "make PyTorch's schedulers in the program, over the engine's optimizer"

/* why: it is known, and refused. lr, eps, momentum: where none is given; 0: as most have them. */
struct type {
    const char *name;
    weft_zero_optimizer kind;
    const char *why;
    double lr, eps, momentum;
};
static const struct type optimizers[] = {
    {"Adam", WEFT_ZERO_ADAM, NULL, 0, 0, 0},
    {"AdamW", WEFT_ZERO_ADAMW, NULL, 0, 0, 0},
    {"SGD", WEFT_ZERO_SGD, NULL, 0, 0, 0},
    {"Lion", WEFT_ZERO_LION, NULL, 0, 0, 0},
    {"Adagrad", WEFT_ZERO_ADAGRAD, NULL, 1e-2, 1e-10, 0},
    {"Lamb", WEFT_ZERO_LAMB, NULL, 0, 0, 0},
    {"Muon", WEFT_ZERO_MUON, NULL, .02, 1e-10, .95},
    {"MuAdam", 0, WIDTHS, 0, 0, 0},
    {"MuAdamW", 0, WIDTHS, 0, 0, 0},
    {"MuSGD", 0, WIDTHS, 0, 0, 0},
    {"OneBitAdam", 0, ONE_BIT, 0, 0, 0},
    {"ZeroOneAdam", 0, ONE_BIT, 0, 0, 0},
    {"OneBitLamb", 0, "its compression is weft's: take Lamb with zero_quantized_gradients", 0, 0, 0},
    {"ASGD", 0, NOT_HERE, 0, 0, 0},
    {"Adadelta", 0, NOT_HERE, 0, 0, 0},
    {"Adafactor", 0, NOT_HERE, 0, 0, 0},
    {"Adamax", 0, NOT_HERE, 0, 0, 0},
    {"LBFGS", 0, NOT_HERE, 0, 0, 0},
    {"NAdam", 0, NOT_HERE, 0, 0, 0},
    {"RAdam", 0, NOT_HERE, 0, 0, 0},
    {"RMSprop", 0, NOT_HERE, 0, 0, 0},
    {"Rprop", 0, NOT_HERE, 0, 0, 0},
    {"SparseAdam", 0, NOT_HERE, 0, 0, 0},
    {NULL, 0, NULL, 0, 0, 0},
};
static const struct type schedulers[] = {
    {"WarmupLR", 0, NULL, 0, 0, 0},
    {"WarmupDecayLR", 0, NULL, 0, 0, 0},
    {"WarmupCosineLR", 0, NULL, 0, 0, 0},
    {"OneCycle", 0, NULL, 0, 0, 0},
    {"LRRangeTest", 0, NULL, 0, 0, 0},
    {"ConstantLR", 0, IN_PROGRAM, 0, 0, 0},
    {"CosineAnnealingLR", 0, IN_PROGRAM, 0, 0, 0},
    {"CosineAnnealingWarmRestarts", 0, IN_PROGRAM, 0, 0, 0},
    {"CyclicLR", 0, IN_PROGRAM, 0, 0, 0},
    {"ExponentialLR", 0, IN_PROGRAM, 0, 0, 0},
    {"LambdaLR", 0, IN_PROGRAM, 0, 0, 0},
    {"LinearLR", 0, IN_PROGRAM, 0, 0, 0},
    {"MultiStepLR", 0, IN_PROGRAM, 0, 0, 0},
    {"MultiplicativeLR", 0, IN_PROGRAM, 0, 0, 0},
    {"OneCycleLR", 0, IN_PROGRAM, 0, 0, 0},
    {"PolynomialLR", 0, IN_PROGRAM, 0, 0, 0},
    {"ReduceLROnPlateau", 0, IN_PROGRAM, 0, 0, 0},
    {"SequentialLR", 0, IN_PROGRAM, 0, 0, 0},
    {"StepLR", 0, IN_PROGRAM, 0, 0, 0},
    {NULL, 0, NULL, 0, 0, 0},
};

static const struct type *types_of(const char *section)
{
    return strcmp(section, "optimizer") ? schedulers : optimizers;
}

static const struct type *find_type(const struct type *types, const char *name)
{
    for (; types->name; types++)
        if (!strcasecmp(types->name, name))
            return types;
    return NULL;
}

static const char *nearest_type(const struct type *types, const char *name)
{
    const char *nearest = types->name;
    size_t best = (size_t)-1;

    for (; types->name; types++) {
        size_t distance = wi_text_distance(name, types->name);
        if (distance < best && !types->why) {
            best = distance;
            nearest = types->name;
        }
    }
    return nearest;
}

weft_status wi_ds_type_check(const weft_zero_ds_config *c, const char *section, struct wi_ds_place at,
                             const json_t *object)
{
    const json_t *name = json_object_get(object, "type");
    const struct type *type;
    char shown[64];

    if (!json_is_string(name))
        return wi_ds_bad(c, at, "%s has no \"type\"", section);
    type = find_type(types_of(section), json_string_value(name));
    if (type && !type->why)
        return WEFT_SUCCESS;
    if (type)
        return wi_ds_bad(c, at, "%s.type %s is refused: %s", section, type->name, type->why);
    strncpy(shown, json_string_value(name), sizeof(shown) - 1);
    wi_text_sanitize(shown, sizeof(shown));
    return wi_ds_bad(c, at, "%s.type \"%s\" is not known; the nearest is %s", section, shown,
                     nearest_type(types_of(section), json_string_value(name)));
}

int wi_ds_applies(const weft_zero_ds_config *c, const struct wi_ds_key *key)
{
    const char *type = key->only ? wi_ds_string(c, key->path[0] == 'o' ? "optimizer.type" : "scheduler.type") : NULL;
    size_t bytes;

    return !key->only || (type && wi_ds_word_in(key->only, type, &bytes));
}

/* Parameters that are given are those of the type. */
static weft_status check_parameters(weft_zero_ds_config *c, const char *section)
{
    size_t bytes = strlen(section);

    for (size_t i = 0; i < wi_ds_nkeys(); i++) {
        const struct wi_ds_key *key = wi_ds_key(i);
        if (c->values[i].given && key->only && !strncmp(key->path, section, bytes) && !wi_ds_applies(c, key)) {
            char type[64];
            memcpy(type, section, bytes);
            strcpy(type + bytes, ".type");
            return wi_ds_bad(c, c->values[i].at, "%s is no parameter of %s", key->path, wi_ds_string(c, type));
        }
    }
    return WEFT_SUCCESS;
}

/* A parameter's value; it becomes `preset` where none is given. */
static weft_status number_or(weft_zero_ds_config *c, const char *path, double preset, double *value)
{
    if (!wi_ds_value(c, path)->json)
        WI_TRY(wi_ds_set(c, path, json_real(preset)));
    *value = wi_ds_number(c, path);
    return WEFT_SUCCESS;
}

static weft_status read_hyper(weft_zero_ds_config *c, const struct type *type)
{
    double decay = c->engine.optimizer == WEFT_ZERO_ADAMW && wi_ds_true(c, "optimizer.params.torch_adam") ? .01 : 0;
    double beta2 = type->kind == WEFT_ZERO_MUON ? .95 : .999;
    weft_zero_hyper *h = c->hyper;

    WI_TRY(number_or(c, "optimizer.params.eps", type->eps > 0 ? type->eps : 1e-8, &h->eps));
    WI_TRY(number_or(c, "optimizer.params.weight_decay", decay, &h->weight_decay));
    WI_TRY(number_or(c, "optimizer.params.momentum", type->momentum, &h->momentum));
    if (!wi_ds_value(c, "optimizer.params.betas")->json)
        WI_TRY(wi_ds_set(c, "optimizer.params.betas", json_pack("[f,f]", .9, beta2)));
    h->beta1 = json_number_value(json_array_get(wi_ds_value(c, "optimizer.params.betas")->json, 0));
    h->beta2 = json_number_value(json_array_get(wi_ds_value(c, "optimizer.params.betas")->json, 1));
    h->dampening = wi_ds_number(c, "optimizer.params.dampening");
    h->nesterov = wi_ds_true(c, "optimizer.params.nesterov");
    h->maximize = wi_ds_true(c, "optimizer.params.maximize");
    h->max_coeff = wi_ds_number(c, "optimizer.params.max_coeff");
    h->min_coeff = wi_ds_number(c, "optimizer.params.min_coeff");
    h->lr_decay = wi_ds_number(c, "optimizer.params.lr_decay");
    return WEFT_SUCCESS;
}

/* One rate; beside Muon the rest has its own. DeepSpeed's Muon looks ahead, and what is not its is AdamW's. */
static weft_status read_rates(weft_zero_ds_config *c, const struct type *type)
{
    const char *const lr = "optimizer.params.lr";
    int given = wi_ds_value(c, lr)->json != NULL;
    weft_zero_hyper *h = c->hyper;

    WI_TRY(number_or(c, lr, type->lr > 0 ? type->lr : 1e-3, &h->lr));
    c->hyper[1] = *h;
    if (type->kind != WEFT_ZERO_MUON)
        return WEFT_SUCCESS;
    if (!wi_ds_true(c, "optimizer.params.adam_w_mode"))
        return wi_ds_bad(c, wi_ds_value(c, "optimizer.params.adam_w_mode")->at,
                         "optimizer.params.adam_w_mode is false; what Muon does not update is AdamW's");
    h->nesterov = 1;
    WI_TRY(number_or(c, "optimizer.params.muon_lr", h->lr, &h->lr));
    return number_or(c, "optimizer.params.adam_lr", given ? c->hyper[1].lr : 3e-4, &c->hyper[1].lr);
}

weft_status wi_ds_optimizer(weft_zero_ds_config *c)
{
    const weft_zero_hyper *h = c->hyper;
    const struct type *type;

    if (!wi_ds_has(c, "optimizer"))
        return WEFT_SUCCESS;
    type = find_type(optimizers, wi_ds_string(c, "optimizer.type"));
    WI_TRY(wi_ds_set(c, "optimizer.type", json_string(type->name)));
    WI_TRY(check_parameters(c, "optimizer"));
    c->engine.optimizer =
        type->kind == WEFT_ZERO_ADAM && wi_ds_true(c, "optimizer.params.adam_w_mode") ? WEFT_ZERO_ADAMW : type->kind;
    WI_TRY(read_hyper(c, type));
    WI_TRY(read_rates(c, type));
    if (h->min_coeff > h->max_coeff)
        return wi_ds_bad(c, wi_ds_value(c, "optimizer")->at,
                         "optimizer.params.min_coeff is %g, above max_coeff, which is %g", h->min_coeff, h->max_coeff);
    if (type->kind == WEFT_ZERO_SGD && h->nesterov && (h->momentum == 0 || h->dampening != 0))
        return wi_ds_bad(c, wi_ds_value(c, "optimizer.params.nesterov")->at,
                         "optimizer.params.nesterov needs a momentum above 0 and a dampening of 0");
    return WEFT_SUCCESS;
}

static weft_status needs(const weft_zero_ds_config *c, const char *path)
{
    if (wi_ds_value(c, path)->json)
        return WEFT_SUCCESS;
    return wi_ds_bad(c, wi_ds_value(c, "scheduler")->at, "%s needs %s", wi_ds_string(c, "scheduler.type"), path);
}

weft_status wi_ds_scheduler(weft_zero_ds_config *c)
{
    const char *type;

    if (!wi_ds_has(c, "scheduler"))
        return WEFT_SUCCESS;
    type = find_type(schedulers, wi_ds_string(c, "scheduler.type"))->name;
    WI_TRY(wi_ds_set(c, "scheduler.type", json_string(type)));
    WI_TRY(check_parameters(c, "scheduler"));
    if (!strcmp(type, "OneCycle")) {
        WI_TRY(needs(c, "scheduler.params.cycle_min_lr"));
        WI_TRY(needs(c, "scheduler.params.cycle_max_lr"));
    }
    if (!strcmp(type, "WarmupDecayLR") || !strcmp(type, "WarmupCosineLR"))
        WI_TRY(needs(c, "scheduler.params.total_num_steps"));
    if (!wi_ds_value(c, "scheduler.params.warmup_max_lr")->json)
        WI_TRY(wi_ds_set(c, "scheduler.params.warmup_max_lr",
                         strcmp(type, "WarmupDecayLR") ? json_null() : json_real(1e-3)));
    return WEFT_SUCCESS;
}
