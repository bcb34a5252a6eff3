/* SPDX-License-Identifier: BSD-3-Clause */
/* What the values mean together, and the public calls. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "base/struct_prefix.h"
#include "zero/common/publish.h"
#include "zero/ds/ds.h"

#define ZERO "zero_optimization."
#define TRAIN "train_batch_size"
#define MICRO "train_micro_batch_size_per_gpu"
#define STEPS "gradient_accumulation_steps"

/* A batch size that two others have told. */
static weft_status set_batch(weft_zero_ds_config *c, const char *path, double value)
{
    return wi_ds_set(c, path, json_integer((json_int_t)value));
}

/* Of the three sizes, those that are not given, as DeepSpeed completes them. */
static weft_status complete_batches(weft_zero_ds_config *c)
{
    int train = wi_ds_has(c, TRAIN), micro = wi_ds_has(c, MICRO), steps = wi_ds_has(c, STEPS);
    const char *const paths[] = {TRAIN, MICRO};
    double n = c->nranks;

    for (int i = 0; i < 2 && !train && !micro; i++)
        if (wi_ds_value(c, paths[i])->automatic)
            return wi_ds_bad(c, wi_ds_value(c, paths[i])->at,
                             "%s is \"auto\": say a value, or fill in %s of weft_zero_ds_model, or say the other",
                             paths[i], wi_ds_auto_field(wi_ds_key(wi_ds_row(paths[i]))->automatic));
    if (!train && !micro)
        return wi_ds_bad(c, (struct wi_ds_place){0, 0}, "either " TRAIN " or " MICRO " has to be given");
    if (!steps)
        WI_TRY(set_batch(c, STEPS,
                         train && micro ? floor(floor(wi_ds_number(c, TRAIN) / wi_ds_number(c, MICRO)) / n) : 1));
    if (!micro)
        WI_TRY(set_batch(c, MICRO, floor(floor(wi_ds_number(c, TRAIN) / n) / wi_ds_number(c, STEPS))));
    if (!train)
        WI_TRY(set_batch(c, TRAIN, fmin(wi_ds_number(c, MICRO) * wi_ds_number(c, STEPS) * n, 9e18)));
    return WEFT_SUCCESS;
}

static weft_status read_batches(weft_zero_ds_config *c)
{
    const char *given = wi_ds_has(c, MICRO) ? MICRO " x " : wi_ds_has(c, STEPS) ? STEPS " x " : "";
    int all = wi_ds_has(c, MICRO) && wi_ds_has(c, STEPS), has_micro = wi_ds_has(c, MICRO);
    double train, micro, steps;

    WI_TRY(complete_batches(c));
    train = wi_ds_number(c, TRAIN);
    micro = wi_ds_number(c, MICRO);
    steps = wi_ds_number(c, STEPS);
    if (!all && train != micro * steps * c->nranks) /* what was not given has no value that fits */
        return wi_ds_bad(c, wi_ds_value(c, TRAIN)->at, TRAIN " is %.0f, which is no multiple of %sranks, %.0f", train,
                         given, (*given ? has_micro ? micro : steps : 1) * c->nranks);
    if (train > 9007199254740992.0 || train != micro * steps * c->nranks)
        return wi_ds_bad(c, wi_ds_value(c, wi_ds_value(c, TRAIN)->given ? TRAIN : MICRO)->at,
                         TRAIN " is not equal to " MICRO " x " STEPS " x ranks: %.0f is not %.0f x %.0f x %d", train,
                         micro, steps, c->nranks);
    if (steps > INT32_MAX)
        return wi_ds_bad(c, wi_ds_value(c, STEPS)->at, STEPS " is %.0f, at most %d", steps, INT32_MAX);
    c->engine.micro_batches = (int)steps;
    if (!strcmp(wi_ds_string(c, "gradient_allreduce_op"), "sum"))
        c->engine.divisor = steps;
    return WEFT_SUCCESS;
}

static weft_status read_loss_scale(weft_zero_ds_config *c)
{
    weft_zero_config *e = &c->engine;

    e->loss_scale = wi_ds_number(c, "fp16.loss_scale");
    if (e->loss_scale != 0)
        return WEFT_SUCCESS;
    if (wi_ds_number(c, "fp16.loss_scale_window") < 1)
        return wi_ds_bad(c, wi_ds_value(c, "fp16.loss_scale_window")->at,
                         "fp16.loss_scale_window has to be above 0 when the loss scale is dynamic (loss_scale 0)");
    if (wi_ds_number(c, "fp16.min_loss_scale") < 1)
        return wi_ds_bad(c, wi_ds_value(c, "fp16.min_loss_scale")->at,
                         "fp16.min_loss_scale has to be above 0 when the loss scale is dynamic (loss_scale 0)");
    e->loss_scale_initial = exp2(wi_ds_number(c, "fp16.initial_scale_power"));
    e->loss_scale_window = (int)wi_ds_number(c, "fp16.loss_scale_window");
    e->loss_scale_hysteresis = (int)wi_ds_number(c, "fp16.hysteresis");
    e->loss_scale_refill = wi_ds_true(c, "fp16.consecutive_hysteresis");
    e->loss_scale_min = wi_ds_number(c, "fp16.min_loss_scale");
    return WEFT_SUCCESS;
}

static const char *dtype_word(weft_dtype dtype)
{
    return dtype == WEFT_FLOAT16 ? "fp16" : dtype == WEFT_BFLOAT16 ? "bf16" : "fp32";
}

static weft_status read_precision(weft_zero_ds_config *c)
{
    const char *kept = wi_ds_string(c, "data_types.grad_accum_dtype");

    c->engine.loss_scale = 1;
    if (wi_ds_true(c, "fp16.enabled") && wi_ds_true(c, "bf16.enabled"))
        return wi_ds_bad(c, wi_ds_value(c, "bf16.enabled")->at, "fp16 and bf16 cannot be enabled together");
    c->dtype = wi_ds_true(c, "fp16.enabled")   ? WEFT_FLOAT16
               : wi_ds_true(c, "bf16.enabled") ? WEFT_BFLOAT16
                                               : WEFT_FLOAT32;
    if (c->dtype == WEFT_FLOAT16)
        WI_TRY(read_loss_scale(c));
    c->engine.grad_fp32 = c->dtype != WEFT_FLOAT32 && kept && !strcmp(kept, "fp32");
    if (kept && !c->engine.grad_fp32 && strcmp(kept, dtype_word(c->dtype)))
        WI_TRY(wi_ds_warn(c, wi_ds_value(c, "data_types.grad_accum_dtype")->at,
                          "data_types.grad_accum_dtype has no effect: gradients are kept in the parameters' type, %s",
                          dtype_word(c->dtype)));
    return WEFT_SUCCESS;
}

/* In which form gradients and parameters travel. */
static weft_status read_codecs(weft_zero_ds_config *c)
{
    const char *wire = wi_ds_string(c, "communication_data_type"), *why = NULL;

    if (wi_ds_true(c, ZERO "zero_quantized_weights"))
        snprintf(c->gather_codec, sizeof(c->gather_codec), "int8:block=256");
    if (wi_ds_true(c, ZERO "zero_quantized_gradients"))
        snprintf(c->reduce_codec, sizeof(c->reduce_codec), "int4:block=128");
    if (wire && strcmp(wire, dtype_word(c->dtype))) {
        if (*c->reduce_codec)
            why = "zero_quantized_gradients says how gradients travel";
        else if (c->dtype != WEFT_FLOAT32)
            why = "gradients of 16 bits travel as they are";
        else
            snprintf(c->reduce_codec, sizeof(c->reduce_codec), "%s", wire);
    }
    if (why)
        WI_TRY(wi_ds_warn(c, wi_ds_value(c, "communication_data_type")->at, "communication_data_type has no effect: %s",
                          why));
    c->engine.gather_codec = *c->gather_codec ? c->gather_codec : NULL;
    c->engine.reduce_codec = *c->reduce_codec ? c->reduce_codec : NULL;
    return WEFT_SUCCESS;
}

static int on_disk(const weft_zero_ds_config *c, const char *key)
{
    return !strcmp(wi_ds_string(c, key), "nvme");
}

/* Parameters in a file take the optimizer's states along: there is one folder. */
static weft_status read_offload(weft_zero_ds_config *c)
{
    int params = on_disk(c, ZERO "offload_param.device"), states = on_disk(c, ZERO "offload_optimizer.device");
    const char *folder = params ? ZERO "offload_param.nvme_path" : ZERO "offload_optimizer.nvme_path";
    weft_zero_config *e = &c->engine;

    if (!params && !states)
        return WEFT_SUCCESS;
    e->offload_folder = wi_ds_string(c, folder);
    if (!e->offload_folder)
        return wi_ds_bad(c, wi_ds_value(c, params ? ZERO "offload_param.device" : ZERO "offload_optimizer.device")->at,
                         "%s has to be given for the device nvme", folder);
    if (params && !states)
        WI_TRY(wi_ds_warn(c, wi_ds_value(c, ZERO "offload_param.device")->at,
                          ZERO "offload_param on nvme takes optimizer states and gradients along"));
    e->offload_params = params;
    e->offload_ratio = params ? 1 : wi_ds_number(c, ZERO "offload_optimizer.ratio");
    e->offload_block_bytes = (size_t)wi_ds_number(c, "aio.block_size");
    if (e->offload_block_bytes % 4096)
        return wi_ds_bad(c, wi_ds_value(c, "aio.block_size")->at, "aio.block_size is %zu, no multiple of 4096",
                         e->offload_block_bytes);
    e->offload_depth = (int)wi_ds_number(c, "aio.queue_depth");
    return WEFT_SUCCESS;
}

static weft_status read_zero(weft_zero_ds_config *c)
{
    weft_zero_config *e = &c->engine;

    e->stage = (int)wi_ds_number(c, ZERO "stage");
    if (!wi_ds_has(c, ZERO "overlap_comm"))
        WI_TRY(wi_ds_set(c, ZERO "overlap_comm", json_true()));
    e->overlap = wi_ds_true(c, ZERO "overlap_comm");
    e->live_elems = (size_t)wi_ds_number(c, ZERO "stage3_max_live_parameters");
    e->prefetch_elems = (size_t)wi_ds_number(c, ZERO "stage3_prefetch_bucket_size");
    e->reuse_elems = (size_t)wi_ds_number(c, ZERO "stage3_max_reuse_distance");
    e->persistent_elems = (size_t)wi_ds_number(c, ZERO "stage3_param_persistence_threshold");
    if (e->stage < 3 && strcmp(wi_ds_string(c, ZERO "offload_param.device"), "none"))
        return wi_ds_bad(c, wi_ds_value(c, ZERO "offload_param.device")->at,
                         ZERO "offload_param is for stage 3, and the stage is %d", e->stage);
    e->secondary_ranks = (int)wi_ds_number(c, ZERO "zero_hpz_partition_size");
    if (e->secondary_ranks == 1)
        e->secondary_ranks = 0;
    if (e->stage < 3 && e->secondary_ranks)
        return wi_ds_bad(c, wi_ds_value(c, ZERO "zero_hpz_partition_size")->at,
                         ZERO "zero_hpz_partition_size is for stage 3, and the stage is %d", e->stage);
    WI_TRY(read_offload(c));
    return read_codecs(c);
}

weft_status wi_ds_meaning(weft_zero_ds_config *c)
{
    WI_TRY(read_batches(c));
    c->engine.clip = wi_ds_number(c, "gradient_clipping");
    WI_TRY(read_precision(c));
    WI_TRY(wi_ds_optimizer(c));
    WI_TRY(wi_ds_scheduler(c));
    return read_zero(c);
}

static weft_status read_all(weft_zero_ds_config *c, const char *text)
{
    struct wi_ds_text read = {.root = NULL};
    weft_status st;

    WI_TRY(wi_ds_text_read(text, c->name, &read));
    st = wi_ds_walk(c, &read);
    wi_ds_text_free(&read);
    WI_TRY(st);
    WI_TRY(wi_ds_warn_all(c));
    WI_TRY(wi_ds_meaning(c));
    return wi_ds_write(c);
}

static weft_status check_arguments(const char *text, const char *name, int nranks, weft_zero_ds_config **config)
{
    if (!text || !name || !config)
        return wi_fail(WEFT_EINVAL, "%s is NULL", !text ? "text" : !name ? "name" : "config");
    if (nranks < 1)
        return wi_fail(WEFT_EINVAL, "nranks is %d, and has to be at least 1", nranks);
    return WEFT_SUCCESS;
}

static weft_status read_model(weft_zero_ds_config *c, const weft_zero_ds_model *model)
{
    static const struct wi_struct_rule rule = WI_STRUCT_RULE(weft_zero_ds_model, "WEFT_ZERO_DS_MODEL_INIT", bytes);
    const weft_zero_ds_model *m = &c->model;

    if (!model)
        return WEFT_SUCCESS;
    WI_TRY(wi_struct_read(&rule, "weft_zero_ds_config_read", model, &c->model));
    if (!isfinite(m->lr) || !isfinite(m->beta1) || !isfinite(m->beta2) || !isfinite(m->eps) ||
        !isfinite(m->weight_decay) || !isfinite(m->clip))
        return wi_fail(WEFT_EINVAL, "a field of weft_zero_ds_model is no number");
    return WEFT_SUCCESS;
}

static weft_zero_ds_config *create(const char *name, int nranks)
{
    weft_zero_ds_config *c = wi_calloc(1, sizeof(*c));

    if (!c)
        return NULL;
    *c = (weft_zero_ds_config){.nranks = nranks,
                               .model = WEFT_ZERO_DS_MODEL_INIT,
                               .engine = WEFT_ZERO_CONFIG_INIT,
                               .hyper = {WEFT_ZERO_HYPER_INIT, WEFT_ZERO_HYPER_INIT},
                               .dtype = WEFT_FLOAT32};
    c->name = wi_strdup(name);
    c->values = wi_calloc(wi_ds_nkeys(), sizeof(*c->values));
    if (c->name && c->values)
        return c;
    weft_zero_ds_config_free(c);
    return NULL;
}

static weft_status read_config(const char *text, const char *name, int nranks, const weft_zero_ds_model *model,
                               weft_zero_ds_config **config)
{
    weft_zero_ds_config *c;
    weft_status st;

    WI_TRY(check_arguments(text, name, nranks, config));
    c = create(name, nranks);
    if (!c)
        return wi_fail(WEFT_ENOMEM, "no memory for a configuration");
    st = read_model(c, model);
    if (st == WEFT_SUCCESS)
        st = read_all(c, text);
    if (st < 0) {
        weft_zero_ds_config_free(c);
        return st;
    }
    *config = c;
    return WEFT_SUCCESS;
}

weft_status weft_zero_ds_config_read(const char *text, const char *name, int nranks, const weft_zero_ds_model *model,
                                     weft_zero_ds_config **config)
{
    unsigned since = wi_fail_count();

    return wi_zero_publish(since, read_config(text, name, nranks, model, config));
}

void weft_zero_ds_config_free(weft_zero_ds_config *config)
{
    if (!config)
        return;
    for (size_t i = 0; config->values && i < wi_ds_nkeys(); i++)
        wi_ds_value_clear(&config->values[i]);
    for (size_t i = 0; i < config->nwarnings; i++)
        wi_free(config->warnings[i].text);
    wi_free(config->warnings);
    wi_free(config->values);
    wi_free(config->text);
    wi_free(config->name);
    wi_free(config);
}

const weft_zero_config *weft_zero_ds_config_engine(const weft_zero_ds_config *config)
{
    return &config->engine;
}

const weft_zero_hyper *weft_zero_ds_config_hyper(const weft_zero_ds_config *config)
{
    return config->hyper;
}

const weft_zero_hyper *weft_zero_ds_config_hyper_of_rest(const weft_zero_ds_config *config)
{
    return &config->hyper[1];
}

weft_dtype weft_zero_ds_config_dtype(const weft_zero_ds_config *config)
{
    return config->dtype;
}

const char *weft_zero_ds_config_text(const weft_zero_ds_config *config)
{
    return config->text;
}

const char *weft_zero_ds_config_warning(const weft_zero_ds_config *config, int i)
{
    return config && i >= 0 && (size_t)i < config->nwarnings ? config->warnings[i].text : NULL;
}
