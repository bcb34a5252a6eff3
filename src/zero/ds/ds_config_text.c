/* SPDX-License-Identifier: BSD-3-Clause */
/* All values as one plain JSON text, and the table of keys for those who read about it. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "zero/common/config_fields.h"
#include "zero/common/publish.h"
#include "zero/ds/ds.h"

/* The object that a path's last part is in. It and those around it are made if they are missing; NULL: no memory. */
static json_t *object_of(json_t *root, const char *path)
{
    char parts[WI_DS_PATH_MAX], *part = parts;
    json_t *at = root;

    snprintf(parts, sizeof(parts), "%s", path);
    for (char *dot = strchr(part, '.'); at && dot; part = dot + 1, dot = strchr(part, '.')) {
        *dot = '\0';
        if (!json_object_get(at, part) && json_object_set_new(at, part, json_object()))
            return NULL;
        at = json_object_get(at, part);
    }
    return at;
}

/* Whether an object around the key is null. */
static int is_outside(const weft_zero_ds_config *c, const char *path)
{
    char above[WI_DS_PATH_MAX];

    snprintf(above, sizeof(above), "%s", path);
    for (char *dot = strrchr(above, '.'); dot; dot = strrchr(above, '.')) {
        *dot = '\0';
        if (!wi_ds_has(c, above))
            return 1;
    }
    return 0;
}

/* Everything that is given, and the defaults of keys that work. */
static int is_written(const weft_zero_ds_config *c, size_t row)
{
    const struct wi_ds_key *key = wi_ds_key(row);
    const struct wi_ds_value *value = &c->values[row];
    int works = key->what == WI_DS_WORKS || key->what == WI_DS_FIXED;

    if (!value->json || !strcmp(key->path, "weft") || strchr(key->path, '*') || is_outside(c, key->path))
        return 0;
    if (key->type == WI_DS_OBJECT) /* objects come with what is in them, or null */
        return json_is_null(value->json) && works;
    return (value->given || works) && wi_ds_applies(c, key);
}

static json_t *write_values(const weft_zero_ds_config *c)
{
    json_t *root = json_object(), *object;

    for (size_t i = 0; root && i < wi_ds_nkeys(); i++) {
        if (!is_written(c, i))
            continue;
        object = object_of(root, wi_ds_key(i)->path);
        if (!object || json_object_set(object, wi_ds_name(wi_ds_key(i)->path), c->values[i].json)) {
            json_decref(root);
            return NULL;
        }
    }
    return root;
}

static json_t *write_field(const weft_zero_config *config, const struct wi_zero_field *field)
{
    static const char *const optimizers[] = {
#define OPTIMIZER_NAME(name, value, text) [value] = text,
        WEFT_ZERO_OPTIMIZER_LIST(OPTIMIZER_NAME)
#undef OPTIMIZER_NAME
    };
    double number = wi_zero_field_number(config, field);

    if (field == &wi_zero_fields[WI_ZERO_FIELD_OF_optimizer])
        return json_string(optimizers[config->optimizer]);
    switch (field->kind) {
    case WI_ZERO_FIELD_INT:
        return json_integer((json_int_t)number);
    case WI_ZERO_FIELD_SIZE: /* "any number" is -1, as DeepSpeed writes it */
        return json_integer((json_int_t)wi_zero_field_size(config, field));
    case WI_ZERO_FIELD_BOOL:
        return json_boolean(number != 0);
    case WI_ZERO_FIELD_REAL:
        return json_real(number);
    case WI_ZERO_FIELD_TEXT:
        return wi_zero_field_text(config, field) ? json_string(wi_zero_field_text(config, field)) : json_null();
    case WI_ZERO_FIELD_HANDLE:
        break;
    }
    return json_null();
}

static json_t *write_hyper(const weft_zero_hyper *h)
{
    return json_pack("{s:f, s:[f,f], s:f, s:f, s:f, s:f, s:b, s:b, s:f}", "lr", h->lr, "betas", h->beta1, h->beta2,
                     "eps", h->eps, "weight_decay", h->weight_decay, "momentum", h->momentum, "dampening", h->dampening,
                     "nesterov", h->nesterov, "maximize", h->maximize, "lr_decay", h->lr_decay);
}

static json_t *write_weft(const weft_zero_ds_config *c)
{
    const char *dtype = c->dtype == WEFT_FLOAT16 ? "float16" : c->dtype == WEFT_BFLOAT16 ? "bfloat16" : "float32";
    json_t *object = json_pack("{s:s}", "dtype", dtype);
    int failed = !object;

    for (int i = 0; i < WI_ZERO_NFIELDS && !failed; i++)
        if (wi_zero_fields[i].flags & WI_ZERO_WRITTEN)
            failed = json_object_set_new(object, wi_zero_fields[i].name, write_field(&c->engine, &wi_zero_fields[i]));
    if (!failed && !json_object_set_new(object, "hyper", write_hyper(&c->hyper[0])) &&
        !json_object_set_new(object, "other_hyper", write_hyper(&c->hyper[1])))
        return object;
    json_decref(object);
    return NULL;
}

weft_status wi_ds_write(weft_zero_ds_config *c)
{
    json_t *root = write_values(c);
    size_t bytes;
    int failed = !root || json_object_set_new(root, "weft", write_weft(c)); /* which refuses NULL */

    bytes = failed ? 0 : json_dumpb(root, NULL, 0, JSON_INDENT(2));
    c->text = bytes ? wi_malloc(bytes + 1) : NULL;
    if (c->text && json_dumpb(root, c->text, bytes, JSON_INDENT(2)) == bytes)
        c->text[bytes] = '\0';
    else
        failed = 1;
    json_decref(root);
    return failed ? wi_ds_no_memory(c) : WEFT_SUCCESS;
}

weft_status weft_zero_ds_keys(weft_zero_ds_key_fn visit, void *arg)
{
    static const char *const effects[] = {[WI_DS_WORKS] = "works",
                                          [WI_DS_FIXED] = "as preset",
                                          [WI_DS_IGNORED] = "no effect",
                                          [WI_DS_REFUSED] = "refused",
                                          [WI_DS_RENAMED] = "renamed"};
    char range[96];

    if (!visit) {
        unsigned since = wi_fail_count();

        return wi_zero_publish(since, wi_fail(WEFT_EINVAL, "zero: ds_keys: visit is NULL"));
    }
    for (size_t i = 0; i < wi_ds_nkeys(); i++) {
        const struct wi_ds_key *key = wi_ds_key(i);
        wi_ds_range(key, range, sizeof(range));
        weft_zero_ds_key shown = {.bytes = sizeof(shown),
                                  .path = key->path,
                                  .type = wi_ds_type_name(key->type),
                                  .range = range,
                                  .preset = key->fallback ? key->fallback : "",
                                  .effect = effects[key->what],
                                  .meaning = key->what == WI_DS_RENAMED ? key->words : key->text};
        if (visit(&shown, arg))
            break;
    }
    return WEFT_SUCCESS;
}
