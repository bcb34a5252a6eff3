/* SPDX-License-Identifier: BSD-3-Clause */
/* The walk over the parsed text. Keys come in the order of the text, which is that of wi_ds_text.keys. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "base/text.h"
#include "zero/ds/ds.h"

struct walk {
    weft_zero_ds_config *c;
    const struct wi_ds_text *text;
    size_t next; /* key of the text */
};

weft_status wi_ds_no_memory(const weft_zero_ds_config *c)
{
    return wi_fail(WEFT_ENOMEM, "%s: no memory for its values", c->name);
}

/* "name:line:column: what"; of places that are in no text, "name: what". */
static void locate(char *text, size_t capacity, const weft_zero_ds_config *c, struct wi_ds_place at, const char *what)
{
    if (at.line)
        snprintf(text, capacity, "%s:%u:%u: %s", c->name, at.line, at.column, what);
    else
        snprintf(text, capacity, "%s: %s", c->name, what);
}

weft_status wi_ds_bad(const weft_zero_ds_config *c, struct wi_ds_place at, const char *format, ...)
{
    char what[640], text[960];
    va_list ap;

    va_start(ap, format);
    vsnprintf(what, sizeof(what), format, ap);
    va_end(ap);
    locate(text, sizeof(text), c, at, what);
    return wi_fail(WEFT_EINVAL, "%s", text);
}

/* Whether a place is behind another. */
static int is_behind(struct wi_ds_place a, struct wi_ds_place b)
{
    return a.line > b.line || (a.line == b.line && a.column > b.column);
}

weft_status wi_ds_warn(weft_zero_ds_config *c, struct wi_ds_place at, const char *format, ...)
{
    char what[640], text[960], *copy;
    struct wi_ds_warning *warnings = wi_realloc(c->warnings, (c->nwarnings + 1) * sizeof(*warnings));
    size_t i = c->nwarnings;
    va_list ap;

    if (!warnings)
        return wi_ds_no_memory(c);
    c->warnings = warnings;
    va_start(ap, format);
    vsnprintf(what, sizeof(what), format, ap);
    va_end(ap);
    locate(text, sizeof(text), c, at, what);
    copy = wi_strdup(text);
    if (!copy)
        return wi_ds_no_memory(c);
    for (; i > 0 && is_behind(warnings[i - 1].at, at); i--)
        warnings[i] = warnings[i - 1];
    warnings[i] = (struct wi_ds_warning){at, copy};
    c->nwarnings++;
    return WEFT_SUCCESS;
}

void wi_ds_value_clear(struct wi_ds_value *value)
{
    json_decref(value->json);
    *value = (struct wi_ds_value){.json = NULL};
}

struct wi_ds_value *wi_ds_value(const weft_zero_ds_config *c, const char *path)
{
    return &c->values[wi_ds_row(path)];
}

int wi_ds_has(const weft_zero_ds_config *c, const char *path)
{
    const json_t *json = wi_ds_value(c, path)->json;

    return json && !json_is_null(json);
}

int wi_ds_true(const weft_zero_ds_config *c, const char *path)
{
    return json_is_true(wi_ds_value(c, path)->json);
}

double wi_ds_number(const weft_zero_ds_config *c, const char *path)
{
    return json_number_value(wi_ds_value(c, path)->json);
}

const char *wi_ds_string(const weft_zero_ds_config *c, const char *path)
{
    return json_string_value(wi_ds_value(c, path)->json);
}

weft_status wi_ds_set(weft_zero_ds_config *c, const char *path, json_t *json)
{
    struct wi_ds_value *value = wi_ds_value(c, path);

    if (!json)
        return wi_ds_no_memory(c);
    json_decref(value->json);
    value->json = json;
    return WEFT_SUCCESS;
}

/* Objects that a key is in are there, too, also where an old spelling stood outside them. */
static void mark_objects(weft_zero_ds_config *c, const char *path, struct wi_ds_place at)
{
    char above[WI_DS_PATH_MAX];

    snprintf(above, sizeof(above), "%s", path);
    for (char *dot = strrchr(above, '.'); dot; dot = strrchr(above, '.')) {
        *dot = '\0';
        struct wi_ds_value *value = wi_ds_value(c, above);
        if (!value->given)
            value->at = at;
        value->given = 1;
        value->json = json_true(); /* not counted */
    }
}

/* Keep a value, which is taken. Values of keys that may be there several times ("*") are only checked. */
static weft_status keep(weft_zero_ds_config *c, const struct wi_ds_key *key, struct wi_ds_place at, json_t *json)
{
    struct wi_ds_value *value = wi_ds_value(c, key->path);

    if (strchr(key->path, '*')) {
        json_decref(json);
        return WEFT_SUCCESS;
    }
    if (value->given) {
        json_decref(json);
        return wi_ds_bad(c, at, "%s is there twice, in line %u and, in an old spelling or the new one, here", key->path,
                         value->at.line);
    }
    *value = (struct wi_ds_value){.json = json, .at = at, .given = 1};
    mark_objects(c, key->path, at);
    return WEFT_SUCCESS;
}

/* A refused key is none if it says what would be so without it. */
static weft_status check_refused(weft_zero_ds_config *c, const struct wi_ds_key *key, const char *path,
                                 struct wi_ds_place at, const json_t *json)
{
    json_t *preset = NULL;
    int same;

    if (key->what != WI_DS_REFUSED)
        return WEFT_SUCCESS;
    WI_TRY(wi_ds_preset(c, key, &preset));
    same = preset && json_equal(preset, json);
    json_decref(preset);
    if (same)
        return WEFT_SUCCESS;
    return wi_ds_bad(c, at, "%s is refused%s%s: %s", path, key->fallback ? ", unless it is " : "",
                     key->fallback ? key->fallback : "", key->text);
}

static weft_status take_automatic(weft_zero_ds_config *c, const struct wi_ds_key *key, const char *path,
                                  struct wi_ds_place at)
{
    json_t *json = NULL;

    WI_TRY(wi_ds_automatic(c, key, at, &json));
    if (json)
        return keep(c, key, at, json);
    if (key->automatic == WI_DS_AUTO_DEFAULT)
        return wi_ds_bad(c, at, "%s has no value for \"auto\": say one, or leave it away", path);
    if (key->automatic > WI_DS_AUTO_ACCUMULATION)
        return wi_ds_bad(c, at, "%s is \"auto\": say a value, or fill in %s of weft_zero_ds_model", path,
                         wi_ds_auto_field(key->automatic));
    /* Of the three batch sizes two tell the third. */
    struct wi_ds_value *value = wi_ds_value(c, key->path);
    value->at = at;
    value->automatic = 1;
    return WEFT_SUCCESS;
}

static int is_automatic(const struct wi_ds_key *key, const json_t *in)
{
    const char *text = json_string_value(in);

    return text && !strcmp(text, "auto") && key->type != WI_DS_ANY && key->type != WI_DS_TEXT &&
           key->type != WI_DS_OBJECT;
}

static weft_status take(weft_zero_ds_config *c, const struct wi_ds_key *key, const char *path, struct wi_ds_place at,
                        json_t *in)
{
    json_t *json = NULL;
    weft_status st;

    if (is_automatic(key, in))
        return take_automatic(c, key, path, at);
    WI_TRY(wi_ds_convert(c, key, path, at, in, &json));
    st = check_refused(c, key, path, at, json);
    if (st < 0) {
        json_decref(json);
        return st;
    }
    return keep(c, key, at, json);
}

/* What is in a value is not looked at; its keys are passed by. */
static void pass_keys(struct walk *w, const json_t *in)
{
    const char *name;
    json_t *value;

    if (json_is_object(in))
        json_object_foreach((json_t *)in, name, value)
        {
            w->next++;
            pass_keys(w, value);
        }
    for (size_t i = 0; json_is_array(in) && i < json_array_size(in); i++)
        pass_keys(w, json_array_get(in, i));
}

static weft_status unknown(struct walk *w, const char *parent, const char *path, const char *name,
                           struct wi_ds_place at)
{
    const struct wi_ds_key *nearest = wi_ds_nearest(parent, name);
    char shown[96];

    snprintf(shown, sizeof(shown), "%.90s", path);
    wi_text_sanitize(shown, sizeof(shown));
    return wi_ds_bad(w->c, at, "%s is no key of DeepSpeed's; the nearest is %s", shown,
                     nearest ? nearest->path : "none");
}

static weft_status walk_object(struct walk *w, const struct wi_ds_key *parent, const char *path, json_t *object);

static weft_status walk_section(struct walk *w, const struct wi_ds_key *key, const char *path, struct wi_ds_place at,
                                json_t *in)
{
    weft_zero_ds_config *c = w->c;
    struct wi_ds_value *value = wi_ds_value(c, key->path);

    if (!strcmp(key->path, "zero_optimization") && json_is_boolean(in)) {
        WI_TRY(wi_ds_warn(c, at, "%s: an old form; write {\"stage\": %d}", path, json_is_true(in)));
        json_t *stage = json_integer(json_is_true(in));
        return stage ? keep(c, wi_ds_key(wi_ds_row("zero_optimization.stage")), at, stage) : wi_ds_no_memory(c);
    }
    if (json_is_null(in) && key->null) {
        value->at = at;
        return WEFT_SUCCESS;
    }
    if (!json_is_object(in))
        return wi_ds_bad(c, at, "%s has to be an object, {...}%s", path, key->null ? ", or null" : "");
    WI_TRY(check_refused(c, key, path, at, in));
    if (!strcmp(key->path, "optimizer") || !strcmp(key->path, "scheduler"))
        WI_TRY(wi_ds_type_check(c, key->path, at, in));
    if (!value->given)
        value->at = at;
    value->given = 1;
    value->json = json_true();
    return walk_object(w, key, path, in);
}

/* The value of an old spelling, for the key of today. */
static weft_status walk_renamed(struct walk *w, const char *path, const struct wi_ds_key *key, struct wi_ds_place at,
                                json_t *in)
{
    const struct wi_ds_key *today = wi_ds_key(wi_ds_row(key->words));
    json_t *device;
    weft_status st;

    WI_TRY(wi_ds_warn(w->c, at, "%s: an old spelling of %s", path, today->path));
    if (today->type == WI_DS_OBJECT)
        return walk_section(w, today, today->path, at, in);
    if (today->type != WI_DS_WORD || !json_is_boolean(in)) {
        pass_keys(w, in);
        return take(w->c, today, path, at, in);
    }
    device = json_string(json_is_true(in) ? "cpu" : "none"); /* cpu_offload */
    if (!device)
        return wi_ds_no_memory(w->c);
    st = take(w->c, today, path, at, device);
    json_decref(device);
    return st;
}

static weft_status walk_key(struct walk *w, const struct wi_ds_key *parent, const char *above, const char *name,
                            json_t *in)
{
    char path[WI_DS_PATH_MAX];
    struct wi_ds_place at = w->next < w->text->nkeys ? w->text->keys[w->next] : (struct wi_ds_place){0, 0};
    int row = wi_ds_find(parent ? parent->path : "", name);

    w->next++;
    snprintf(path, sizeof(path), "%s%s%.100s", above, *above ? "." : "", name);
    if (row < 0)
        return unknown(w, parent ? parent->path : "", path, name, at);
    wi_text_sanitize(path, sizeof(path));
    if (wi_ds_key((size_t)row)->what == WI_DS_RENAMED)
        return walk_renamed(w, path, wi_ds_key((size_t)row), at, in);
    if (wi_ds_key((size_t)row)->type == WI_DS_OBJECT)
        return walk_section(w, wi_ds_key((size_t)row), path, at, in);
    pass_keys(w, in);
    return take(w->c, wi_ds_key((size_t)row), path, at, in);
}

static weft_status walk_object(struct walk *w, const struct wi_ds_key *parent, const char *path, json_t *object)
{
    const char *name;
    json_t *value;

    json_object_foreach(object, name, value) WI_TRY(walk_key(w, parent, path, name, value));
    return WEFT_SUCCESS;
}

/* Defaults of what is not there. An object without one is there, unless null is what it is then. */
static weft_status fill_in(weft_zero_ds_config *c)
{
    for (size_t i = 0; i < wi_ds_nkeys(); i++) {
        const struct wi_ds_key *key = wi_ds_key(i);
        if (c->values[i].json || key->what == WI_DS_RENAMED)
            continue;
        if (key->type == WI_DS_OBJECT)
            c->values[i].json = key->null ? json_null() : json_true();
        else
            WI_TRY(wi_ds_preset(c, key, &c->values[i].json));
    }
    return WEFT_SUCCESS;
}

weft_status wi_ds_walk(weft_zero_ds_config *c, const struct wi_ds_text *text)
{
    struct walk w = {.c = c, .text = text};

    WI_TRY(walk_object(&w, NULL, "", text->root));
    return fill_in(c);
}

/* Whether a section that the key is in says "enabled": false, as it does by default: what else it says is of no interest. */
static int is_off(const weft_zero_ds_config *c, const char *path)
{
    char above[WI_DS_PATH_MAX];

    snprintf(above, sizeof(above), "%s", path);
    for (char *dot = strrchr(above, '.'); dot; dot = strrchr(above, '.')) {
        *dot = '\0';
        int row = wi_ds_find(above, "enabled");
        if (row < 0 || strcmp(wi_ds_name(wi_ds_key((size_t)row)->path), "enabled"))
            continue;
        const struct wi_ds_key *enabled = wi_ds_key((size_t)row);
        if ((enabled->what == WI_DS_FIXED || enabled->what == WI_DS_REFUSED) && strcmp(enabled->path, path) &&
            json_is_false(c->values[row].json))
            return 1;
    }
    return 0;
}

weft_status wi_ds_warn_all(weft_zero_ds_config *c)
{
    for (size_t i = 0; i < wi_ds_nkeys(); i++) {
        const struct wi_ds_key *key = wi_ds_key(i);
        const struct wi_ds_value *value = &c->values[i];
        int quiet = key->what != WI_DS_IGNORED && key->what != WI_DS_FIXED;
        if (quiet || !value->given || key->type == WI_DS_OBJECT || is_off(c, key->path))
            continue;
        if (key->what == WI_DS_FIXED) {
            json_t *preset = NULL;
            WI_TRY(wi_ds_preset(c, key, &preset));
            quiet = json_equal(preset, value->json);
            json_decref(preset);
        }
        if (!quiet)
            WI_TRY(wi_ds_warn(c, value->at, "%s has no effect: %s", key->path, key->text));
    }
    return WEFT_SUCCESS;
}
