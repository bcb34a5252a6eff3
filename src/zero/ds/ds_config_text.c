/* SPDX-License-Identifier: BSD-3-Clause */
/* All values as one plain JSON text, and the table of keys for those who read about it. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
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

static json_t *write_weft(const weft_zero_ds_config *c)
{
    static const char *const optimizers[] = {
#define OPTIMIZER_NAME(name, value, text) [value] = text,
        WEFT_ZERO_OPTIMIZER_LIST(OPTIMIZER_NAME)
#undef OPTIMIZER_NAME
    };
    const weft_zero_config *e = &c->engine;
    const weft_zero_hyper *h = &c->hyper;
    const char *dtype = c->dtype == WEFT_FLOAT16 ? "float16" : c->dtype == WEFT_BFLOAT16 ? "bfloat16" : "float32";

    return json_pack("{s:s, s:i, s:s, s:i, s:f, s:f, s:f, s:f, s:i, s:i, s:b, s:f, s:b, s:I, s:I, s:I, s:I, s:s?, s:s?,"
                     " s:b, s:i, s:s?, s:b, s:f, s:I, s:i,"
                     " s:{s:f, s:[f,f], s:f, s:f, s:f, s:f, s:b, s:b, s:f}}",
                     "dtype", dtype, "stage", e->stage, "optimizer", optimizers[e->optimizer], "micro_batches",
                     e->micro_batches, "divisor", e->divisor, "clip", e->clip, "loss_scale", e->loss_scale,
                     "loss_scale_initial", e->loss_scale_initial, "loss_scale_window", e->loss_scale_window,
                     "loss_scale_hysteresis", e->loss_scale_hysteresis, "loss_scale_refill", e->loss_scale_refill,
                     "loss_scale_min", e->loss_scale_min, "overlap", e->overlap, "live_elems",
                     (json_int_t)e->live_elems, "prefetch_elems", (json_int_t)e->prefetch_elems, "reuse_elems",
                     (json_int_t)e->reuse_elems, "persistent_elems", (json_int_t)e->persistent_elems, "gather_codec",
                     e->gather_codec, "reduce_codec", e->reduce_codec, "grad_fp32", e->grad_fp32, "secondary_ranks",
                     e->secondary_ranks, "offload_folder", e->offload_folder, "offload_params", e->offload_params,
                     "offload_ratio", e->offload_ratio, "offload_block_bytes", (json_int_t)e->offload_block_bytes,
                     "offload_depth", e->offload_depth, "hyper", "lr", h->lr, "betas", h->beta1, h->beta2, "eps",
                     h->eps, "weight_decay", h->weight_decay, "momentum", h->momentum, "dampening", h->dampening,
                     "nesterov", h->nesterov, "maximize", h->maximize, "lr_decay", h->lr_decay);
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
