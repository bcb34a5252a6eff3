/* SPDX-License-Identifier: BSD-3-Clause */
/* The value of one key: its type and range, the one form that it has afterwards, and what "auto" means for it. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/status.h"
#include "base/text.h"
#include "zero/ds/ds.h"

const char *wi_ds_type_name(enum wi_ds_type type)
{
    static const char *const names[] = {[WI_DS_BOOL] = "boolean",
                                        [WI_DS_INT] = "integer",
                                        [WI_DS_NUMBER] = "number",
                                        [WI_DS_TEXT] = "text",
                                        [WI_DS_WORD] = "word",
                                        [WI_DS_NUMBERS] = "number or list of numbers",
                                        [WI_DS_BETAS] = "list of two numbers",
                                        [WI_DS_ANY] = "any",
                                        [WI_DS_OBJECT] = "object"};

    return names[type];
}

void wi_ds_range(const struct wi_ds_key *key, char *text, size_t capacity)
{
    *text = '\0';
    if (key->type == WI_DS_WORD)
        snprintf(text, capacity, "%s", key->words);
    else if (key->type != WI_DS_INT && key->type != WI_DS_NUMBER)
        return;
    else if (key->above)
        snprintf(text, capacity, "above %.10g", key->least);
    else if (key->least > -1e8 && key->most < 1e8)
        snprintf(text, capacity, "%.10g to %.10g", key->least, key->most);
    else if (key->least > -1e8)
        snprintf(text, capacity, "at least %.10g", key->least);
}

/* What the text says, short, for an error. */
static void show(const json_t *json, char *text, size_t capacity)
{
    if (json_is_integer(json))
        snprintf(text, capacity, "%" JSON_INTEGER_FORMAT, json_integer_value(json));
    else if (json_is_real(json))
        snprintf(text, capacity, "%.17g", json_real_value(json));
    else if (json_is_string(json))
        snprintf(text, capacity, "\"%.40s\"", json_string_value(json));
    else
        snprintf(text, capacity, "%s",
                 json_is_true(json)    ? "true"
                 : json_is_false(json) ? "false"
                 : json_is_null(json)  ? "null"
                 : json_is_array(json) ? "a list"
                                       : "an object");
    wi_text_sanitize(text, capacity);
}

/* 1, 0; -1: not a boolean. */
static int truth(const json_t *in)
{
    const char *text = json_string_value(in);

    if (json_is_boolean(in))
        return json_is_true(in);
    if (json_is_integer(in) && (json_integer_value(in) == 0 || json_integer_value(in) == 1))
        return (int)json_integer_value(in);
    return !text ? -1 : !strcasecmp(text, "true") ? 1 : !strcasecmp(text, "false") ? 0 : -1;
}

/* A list of numbers that are 0 or more and below `below`; of `count` of them if it is not 0. */
static int are_numbers(const json_t *in, size_t count, double below)
{
    if (!json_is_array(in) || !json_array_size(in) || (count && json_array_size(in) != count))
        return 0;
    for (size_t i = 0; i < json_array_size(in); i++) {
        double value = json_number_value(json_array_get(in, i));
        if (!json_is_number(json_array_get(in, i)) || !(value >= 0 && value < below))
            return 0;
    }
    return 1;
}

static json_t *real_list(const json_t *in)
{
    json_t *out = json_array();

    for (size_t i = 0; out && i < json_array_size(in); i++)
        if (json_array_append_new(out, json_real(json_number_value(json_array_get(in, i))))) {
            json_decref(out);
            return NULL;
        }
    return out;
}

/* The value in its normal form. NULL: it is none, or there is no memory, which `fits` tells apart. */
static json_t *normal(const struct wi_ds_key *key, json_t *in, int *fits)
{
    double number = json_number_value(in);
    const char *word;
    size_t bytes;

    *fits = 1;
    if (json_is_null(in) && key->null)
        return json_null();
    switch (key->type) {
    case WI_DS_BOOL:
        if ((*fits = truth(in) >= 0))
            return json_boolean(truth(in));
        return NULL;
    case WI_DS_INT:
        if ((*fits = json_is_number(in) && number == floor(number) && fabs(number) <= 9007199254740992.0))
            return json_integer((json_int_t)number);
        return NULL;
    case WI_DS_NUMBER:
        if ((*fits = json_is_number(in)))
            return json_real(number);
        return NULL;
    case WI_DS_TEXT:
        if ((*fits = json_is_string(in)))
            return json_incref(in);
        return NULL;
    case WI_DS_WORD:
        word = json_is_string(in) ? wi_ds_word_in(key->words, json_string_value(in), &bytes) : NULL;
        *fits = word != NULL;
        return word ? json_stringn(word, bytes) : NULL;
    case WI_DS_NUMBERS:
        *fits = are_numbers(in, 0, INFINITY) || (json_is_number(in) && number >= 0);
        return !*fits ? NULL : json_is_array(in) ? real_list(in) : json_real(number);
    case WI_DS_BETAS:
        *fits = are_numbers(in, 2, 1);
        return *fits ? real_list(in) : NULL;
    default:
        return json_incref(in);
    }
}

static weft_status wrong_type(const weft_zero_ds_config *c, const struct wi_ds_key *key, const char *path,
                              struct wi_ds_place at, const json_t *in)
{
    char text[96];

    show(in, text, sizeof(text));
    if (key->type == WI_DS_WORD)
        return wi_ds_bad(c, at, "%s is %s, not one of %s. %s", path, text, key->words, key->text);
    if (key->type == WI_DS_BETAS)
        return wi_ds_bad(c, at, "%s is %s, not a list of two numbers from 0 to below 1", path, text);
    if (key->type == WI_DS_NUMBERS)
        return wi_ds_bad(c, at, "%s is %s, not a number that is not negative, or a list of them", path, text);
    return wi_ds_bad(c, at, "%s is %s, not %s %s%s", path, text, key->type == WI_DS_INT ? "an" : "a",
                     wi_ds_type_name(key->type), key->null ? " or null" : "");
}

static weft_status check_range(const weft_zero_ds_config *c, const struct wi_ds_key *key, const char *path,
                               struct wi_ds_place at, const json_t *value)
{
    double number = json_number_value(value);
    char range[64], text[64];

    if (!json_is_number(value) || key->type == WI_DS_NUMBERS ||
        (number >= key->least && number <= key->most && !(key->above && number == key->least)))
        return WEFT_SUCCESS;
    show(value, text, sizeof(text));
    wi_ds_range(key, range, sizeof(range));
    if (*range && number <= key->most)
        return wi_ds_bad(c, at, "%s is %s, and has to be %s", path, text, range);
    return wi_ds_bad(c, at, "%s is %s, and has to be from %.10g to %.10g", path, text, key->least, key->most);
}

weft_status wi_ds_convert(weft_zero_ds_config *c, const struct wi_ds_key *key, const char *path, struct wi_ds_place at,
                          json_t *in, json_t **out)
{
    int fits;
    json_t *value = normal(key, in, &fits);
    weft_status st;

    if (!fits)
        return wrong_type(c, key, path, at, in);
    if (!value)
        return wi_ds_no_memory(c);
    st = check_range(c, key, path, at, value);
    if (st < 0) {
        json_decref(value);
        return st;
    }
    *out = value;
    return WEFT_SUCCESS;
}

weft_status wi_ds_preset(weft_zero_ds_config *c, const struct wi_ds_key *key, json_t **out)
{
    json_error_t error;
    json_t *raw;
    weft_status st;

    *out = NULL;
    if (!key->fallback)
        return WEFT_SUCCESS;
    raw = json_loads(key->fallback, JSON_DECODE_ANY, &error);
    if (!raw)
        return wi_ds_no_memory(c);
    st = wi_ds_convert(c, key, key->path, (struct wi_ds_place){0, 0}, raw, out);
    json_decref(raw);
    return st;
}

/* What the model says; 0: it does not. */
static int model_value(const weft_zero_ds_model *m, enum wi_ds_auto which, double value[2])
{
    double hidden = (double)m->hidden_size, least = 0;

    switch (which) {
    case WI_DS_AUTO_TRAIN_BATCH:
        return (value[0] = (double)m->train_batch_size) >= 1;
    case WI_DS_AUTO_MICRO_BATCH:
        return (value[0] = (double)m->micro_batch_size) >= 1;
    case WI_DS_AUTO_ACCUMULATION:
        return (value[0] = (double)m->accumulation_steps) >= 1;
    case WI_DS_AUTO_CLIP:
        return (value[0] = m->clip) >= 0;
    case WI_DS_AUTO_FP16:
        return (value[0] = m->fp16) >= 0;
    case WI_DS_AUTO_BF16:
        return (value[0] = m->bf16) >= 0;
    case WI_DS_AUTO_LR:
        return (value[0] = m->lr) >= 0;
    case WI_DS_AUTO_ZERO:
        return (value[0] = 0) >= 0;
    case WI_DS_AUTO_BETAS:
        value[1] = m->beta2;
        return (value[0] = m->beta1) >= 0 && m->beta2 >= 0;
    case WI_DS_AUTO_EPS:
        return (value[0] = m->eps) >= 0;
    case WI_DS_AUTO_DECAY:
        return (value[0] = m->weight_decay) >= 0;
    case WI_DS_AUTO_WARMUP: /* none: schedules have at least one */
        value[0] = (double)m->warmup_steps;
        least = value[0];
        value[0] += value[0] == 0;
        return least >= 0;
    case WI_DS_AUTO_TOTAL:
        return (value[0] = (double)m->total_steps) >= 1;
    case WI_DS_AUTO_HIDDEN_SQUARE:
        return (value[0] = hidden * hidden) >= 1;
    case WI_DS_AUTO_HIDDEN_SQUARE_TENTH:
        value[0] = floor(.9 * hidden * hidden);
        return hidden >= 1;
    case WI_DS_AUTO_HIDDEN_TEN:
        return (value[0] = 10 * hidden) >= 10;
    default:
        return 0;
    }
}

const char *wi_ds_auto_field(enum wi_ds_auto which)
{
    static const char *const fields[] = {[WI_DS_AUTO_TRAIN_BATCH] = "train_batch_size",
                                         [WI_DS_AUTO_MICRO_BATCH] = "micro_batch_size",
                                         [WI_DS_AUTO_ACCUMULATION] = "accumulation_steps",
                                         [WI_DS_AUTO_CLIP] = "clip",
                                         [WI_DS_AUTO_FP16] = "fp16",
                                         [WI_DS_AUTO_BF16] = "bf16",
                                         [WI_DS_AUTO_LR] = "lr",
                                         [WI_DS_AUTO_ZERO] = "lr",
                                         [WI_DS_AUTO_BETAS] = "beta1 and beta2",
                                         [WI_DS_AUTO_EPS] = "eps",
                                         [WI_DS_AUTO_DECAY] = "weight_decay",
                                         [WI_DS_AUTO_WARMUP] = "warmup_steps",
                                         [WI_DS_AUTO_TOTAL] = "total_steps",
                                         [WI_DS_AUTO_HIDDEN_SQUARE] = "hidden_size",
                                         [WI_DS_AUTO_HIDDEN_SQUARE_TENTH] = "hidden_size",
                                         [WI_DS_AUTO_HIDDEN_TEN] = "hidden_size"};

    return fields[which];
}

weft_status wi_ds_automatic(weft_zero_ds_config *c, const struct wi_ds_key *key, struct wi_ds_place at, json_t **out)
{
    double value[2] = {0, 0};
    json_t *raw;
    weft_status st;

    *out = NULL;
    if (key->automatic == WI_DS_AUTO_DEFAULT)
        return wi_ds_preset(c, key, out);
    if (!model_value(&c->model, key->automatic, value))
        return WEFT_SUCCESS;
    raw = key->type == WI_DS_BETAS  ? json_pack("[f,f]", value[0], value[1])
          : key->type == WI_DS_BOOL ? json_boolean(value[0] != 0)
                                    : json_real(value[0]);
    if (!raw)
        return wi_ds_no_memory(c);
    st = wi_ds_convert(c, key, key->path, at, raw, out);
    json_decref(raw);
    return st;
}
