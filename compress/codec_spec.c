/* SPDX-License-Identifier: BSD-3-Clause */
/* Codecs as text: NAME[:PARAMETER=VALUE[,PARAMETER=VALUE]...], such as "int4:block=64". */
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/settings.h"
#include "base/status.h"
#include "base/text.h"
#include "compress/call_parameters.h"
#include "compress/codec.h"
#include "compress/codec_value.h"

enum { WORD_CAPACITY = 32, LIST_CAPACITY = 320, MOST_NAMES = 128, SHOWN_CAPACITY = 65 };

/* Parameters of the use of a codec, behind those of the codec. */
enum {
#define ID(id, name) id,
    WI_CODEC_CALL_LIST(ID)
#undef ID
        NUSE
};
static const char *const of_use[NUSE] = {
#define NAME(id, name) name,
    WI_CODEC_CALL_LIST(NAME)
#undef NAME
};

/* Of the forms of error feedback. */
static const struct {
    struct weft_codec_parameter row;
    enum wi_feedback_form form;
} of_forms[NUSE] = {
    [BETA] = {{"beta", "0.8", WEFT_CODEC_REAL, 0, 0.999, NULL, "how much of the average stays"}, WI_FEEDBACK_LOCO},
    [MOMENTUM] = {{"momentum", "0.9", WEFT_CODEC_REAL, 0, 0.999, NULL, "how much of the momentum stays"},
                  WI_FEEDBACK_DGC},
    [WARMUP] = {{"warmup", "0", WEFT_CODEC_INTEGER, 0, 1000000000, NULL, "steps"}, WI_FEEDBACK_DGC},
    [CLIP] = {{"clip", "0", WEFT_CODEC_REAL, 0, 1000000000, NULL, "a norm"}, WI_FEEDBACK_DGC},
    [MASKING] = {{"masking", "1", WEFT_CODEC_INTEGER, 0, 1, NULL, "0: what was sent keeps its momentum"},
                 WI_FEEDBACK_DGC},
};
#define MOST_PARAMETERS (WEFT_CODEC_PARAMETERS_MAX + NUSE)

/* The text up to one of `ends`, and what is behind that; NULL: the end. Longer words are none that anything is called. */
static const char *cut_word(const char *text, const char *ends, char word[WORD_CAPACITY])
{
    size_t n = strcspn(text, ends);

    snprintf(word, WORD_CAPACITY, "%.*s", (int)(n < WORD_CAPACITY ? n : WORD_CAPACITY - 1), text);
    wi_text_sanitize(word, WORD_CAPACITY);
    return text[n] ? text + n + 1 : NULL;
}

/* "; did you mean "int8"? (there are: int8, int4)" */
static const char *suggest(const char *word, const char *const names[], size_t count, char text[LIST_CAPACITY])
{
    size_t best = 3, at;
    const char *similar = NULL;

    for (size_t i = 0; i < count; i++)
        if (wi_text_distance(word, names[i]) < best) {
            best = wi_text_distance(word, names[i]);
            similar = names[i];
        }
    at = (size_t)snprintf(text, LIST_CAPACITY, "%s%s%s (there are: ", similar ? "; did you mean \"" : "",
                          similar ? similar : "", similar ? "\"?" : "");
    for (size_t i = 0; i < count && at + WORD_CAPACITY < LIST_CAPACITY; i++)
        at += (size_t)snprintf(text + at, LIST_CAPACITY - at, "%s%s", i ? ", " : "", names[i]);
    snprintf(text + at, LIST_CAPACITY - at, ")");
    return text;
}

static weft_status find_codec(const char *spec, const char *word, struct weft_codec *codec)
{
    const char *names[MOST_NAMES];
    char list[LIST_CAPACITY];
    const struct weft_plugin *p;
    size_t n = 0;

    codec->plugin = wi_codec_find(word);
    if (codec->plugin) {
        codec->ops = wi_codec_ops(codec->plugin);
        return WEFT_SUCCESS;
    }
    if (!strcmp(word, "none"))
        return wi_fail(WEFT_EINVAL, "codec \"%.64s\": none means that nothing is encoded, and has no parameters", spec);
    if (wi_codec_is_missing(word, list, sizeof list))
        return wi_fail(WEFT_EINVAL, "codec \"%.64s\": there is no codec \"%s\": %s", spec, word, list);
    while (n < MOST_NAMES && (p = wi_codec_at(n)) != NULL)
        names[n++] = p->name;
    return wi_fail(WEFT_EINVAL, "codec \"%.64s\": there is no codec \"%s\"%s", spec, word,
                   suggest(word, names, n, list));
}

/* ---- Parameters ---- */

struct parameters {
    const struct weft_codec_parameter *rows;
    const char *names[MOST_PARAMETERS];
    size_t own, count; /* of the codec; and of the use, if it is one */
    unsigned seen;
};

static struct parameters parameters_of(const struct weft_codec *codec, int with_use)
{
    struct parameters p = {.rows = codec->ops->parameters};

    while (p.rows && p.rows[p.own].name) {
        p.names[p.own] = p.rows[p.own].name;
        p.own++;
    }
    p.count = p.own;
    for (int i = 0; with_use && i < NUSE; i++)
        p.names[p.count++] = of_use[i];
    return p;
}

static weft_status choose(const char *spec, const char *key, const char *value, const char *no, const char *yes,
                          uint8_t *set)
{
    if (strcmp(value, no) != 0 && strcmp(value, yes) != 0)
        return wi_fail(WEFT_EINVAL, "codec \"%.64s\": %s is \"%s\", neither %s nor %s", spec, key, value, no, yes);
    *set = !strcmp(value, yes);
    return WEFT_SUCCESS;
}

static weft_status set_form(const char *spec, const char *value, uint8_t *form)
{
    const char *names[WI_FEEDBACK_FORMS];
    char list[LIST_CAPACITY];

    for (unsigned i = 0; i < WI_FEEDBACK_FORMS; i++) {
        names[i] = wi_feedback_name(i);
        *form = (uint8_t)i;
        if (!strcmp(value, names[i]))
            return WEFT_SUCCESS;
    }
    return wi_fail(WEFT_EINVAL, "codec \"%.64s\": there is no ef=%s%s", spec, value,
                   suggest(value, names, WI_FEEDBACK_FORMS, list));
}

static weft_status set_of_form(const char *spec, size_t which, const char *value, struct wi_feedback *f)
{
    union weft_codec_value v;

    WI_TRY(wi_codec_value_parse(spec, &of_forms[which].row, value, &v));
    if (which == WARMUP)
        f->warmup = (uint32_t)v.integer;
    else if (which == MASKING)
        f->masking = (uint8_t)v.integer;
    else
        *(which == BETA ? &f->beta : which == MOMENTUM ? &f->momentum : &f->clip) = (float)v.real;
    return WEFT_SUCCESS;
}

static weft_status set_value(const char *spec, const struct parameters *p, size_t which, const char *value,
                             struct wi_codec_use *use)
{
    if (which < p->own)
        return wi_codec_value_parse(spec, &p->rows[which], value, &use->codec.value[which]);
    switch (which - p->own) {
    case EF:
        return set_form(spec, value, &use->feedback.form);
    case BYPASS:
        return choose(spec, "bypass", value, "never", "auto", &use->may_bypass);
    case BETA:
    case MOMENTUM:
    case WARMUP:
    case CLIP:
    case MASKING:
        return set_of_form(spec, which - p->own, value, &use->feedback);
    default:
        if (wi_parse_bytes(value, &use->min_bytes))
            return wi_fail(WEFT_EINVAL, "codec \"%.64s\": min is \"%s\", not a number of bytes such as 64K", spec,
                           value);
        return WEFT_SUCCESS;
    }
}

static weft_status set_parameter(const char *spec, const char *pair, struct parameters *p, struct wi_codec_use *use)
{
    char key[WORD_CAPACITY], value[WORD_CAPACITY] = "", list[LIST_CAPACITY];
    const char *behind = cut_word(pair, "=", key);
    size_t which = 0;

    if (!*pair)
        return wi_fail(
            WEFT_EINVAL,
            "codec \"%.64s\": a parameter is empty: behind each \":\" and \",\" there must be PARAMETER=VALUE", spec);
    while (which < p->count && strcmp(key, p->names[which]) != 0)
        which++;
    if (which == p->count)
        return wi_fail(WEFT_EINVAL, "codec \"%.64s\": there is no parameter \"%s\"%s", spec, key,
                       suggest(key, p->names, p->count, list));
    if (!behind)
        return wi_fail(WEFT_EINVAL, "codec \"%.64s\": %s has no value (%s=VALUE)", spec, key, key);
    if (p->seen & 1u << which)
        return wi_fail(WEFT_EINVAL, "codec \"%.64s\": %s is given twice", spec, key);
    p->seen |= 1u << which;
    cut_word(behind, "", value);
    return set_value(spec, p, which, value, use);
}

static weft_status set_defaults(const char *spec, const struct parameters *p, struct wi_codec_use *use)
{
    struct weft_codec *codec = &use->codec;

    for (size_t i = 0; i < p->own; i++)
        WI_TRY(wi_codec_value_parse(spec, &p->rows[i], p->rows[i].default_value, &codec->value[i]));
    for (size_t i = 0; i < NUSE; i++)
        if (of_forms[i].form)
            WI_TRY(set_of_form(spec, i, of_forms[i].row.default_value, &use->feedback));
    return WEFT_SUCCESS;
}

/* The place of the codec's parameter; -1: it has none of that name. */
static int find_parameter(const struct weft_codec *codec, const char *name)
{
    const struct weft_codec_parameter *rows = codec->ops->parameters;

    for (int i = 0; rows && rows[i].name; i++)
        if (!strcmp(rows[i].name, name))
            return i;
    return -1;
}

/* What is known of error feedback without a call. */
static weft_status check_form(const char *spec, const struct wi_codec_use *use)
{
    const char *form = wi_feedback_name(use->feedback.form), *name = wi_codec_name(&use->codec);
    unsigned traits = use->codec.traits;

    if (!(traits & WEFT_CODEC_CONTRACTIVE))
        return wi_fail(
            WEFT_EINVAL,
            "codec \"%.64s\": ef=%s is for codecs whose error is shorter than the vector, and that of %s is not", spec,
            form, name);
    if (traits & WEFT_CODEC_VARIABLE && !wi_feedback_is_of_encoding(&use->feedback))
        return wi_fail(WEFT_EINVAL, "codec \"%.64s\": ef=%s is for codecs of a fixed rate; codec %s takes ef=1", spec,
                       form, name);
    if (traits & WEFT_CODEC_LINEAR && wi_feedback_has_state(&use->feedback))
        return wi_fail(
            WEFT_EINVAL,
            "codec \"%.64s\": ef=%s is for codecs that send images; the linear codec %s takes ef=1 and ef=loco", spec,
            form, name);
    return WEFT_SUCCESS;
}

static weft_status check_use(const char *spec, const struct parameters *p, const struct wi_codec_use *use)
{
    const struct wi_feedback *f = &use->feedback;

    for (size_t i = 0; i < NUSE; i++)
        if (of_forms[i].form && p->seen & 1u << (p->own + i) && f->form != of_forms[i].form)
            return wi_fail(WEFT_EINVAL, "codec \"%.64s\": %s is of ef=%s, and ef is %s", spec, of_use[i],
                           wi_feedback_name(of_forms[i].form), wi_feedback_name(f->form));
    if (f->form)
        WI_TRY(check_form(spec, use));
    if (f->form == WI_FEEDBACK_DGC && !f->masking && use->may_bypass)
        return wi_fail(
            WEFT_EINVAL,
            "codec \"%.64s\": masking=0 keeps the momentum of what was sent, and plain data has none: it needs "
            "bypass=never",
            spec);
    if (f->warmup && find_parameter(&use->codec, "ratio") < 0)
        return wi_fail(WEFT_EINVAL, "codec \"%.64s\": warmup is for codecs with a ratio, and %s has none", spec,
                       wi_codec_name(&use->codec));
    return WEFT_SUCCESS;
}

static weft_status set_hash(struct weft_codec *codec)
{
    const struct weft_codec_parameter *rows = codec->ops->parameters;
    const char *name = wi_codec_name(codec);
    char value[WORD_CAPACITY];

    codec->hash = wi_hash64(name, strlen(name), 0);
    for (size_t i = 0; rows && rows[i].name; i++) { /* as text, which is the same on every machine */
        wi_codec_value_print(&rows[i], codec->value[i], value, sizeof value);
        codec->hash = wi_hash64(value, strlen(value), codec->hash);
    }
    return wi_codec_configure(codec);
}

weft_status wi_codec_with_ratio(const struct weft_codec *codec, double ratio, struct weft_codec *wider)
{
    int i = find_parameter(codec, "ratio");
    struct weft_codec made = *codec;

    if (i >= 0 && codec->ops->parameters[i].type == WEFT_CODEC_REAL && made.value[i].real < ratio) {
        made.value[i].real = ratio < codec->ops->parameters[i].max ? ratio : codec->ops->parameters[i].max;
        WI_TRY(set_hash(&made));
    }
    *wider = made;
    return WEFT_SUCCESS;
}

static weft_status parse(const char *spec, int with_use, struct wi_codec_use *use)
{
    struct wi_codec_use made = {.on = 1, .may_bypass = 1};
    char name[WORD_CAPACITY], pair[2 * WORD_CAPACITY], shown[SHOWN_CAPACITY];
    const char *rest = cut_word(spec, ":", name);
    struct parameters p;

    snprintf(shown, sizeof shown, "%.*s", SHOWN_CAPACITY - 1, spec);
    wi_text_sanitize(shown, sizeof shown);
    WI_TRY(find_codec(shown, name, &made.codec));
    p = parameters_of(&made.codec, with_use);
    WI_TRY(set_defaults(shown, &p, &made));
    while (rest) {
        size_t n = strcspn(rest, ",");
        snprintf(pair, sizeof pair, "%.*s", (int)(n < sizeof pair ? n : sizeof pair - 1), rest);
        WI_TRY(set_parameter(shown, pair, &p, &made));
        rest = rest[n] ? rest + n + 1 : NULL;
    }
    WI_TRY(set_hash(&made.codec));
    WI_TRY(check_use(shown, &p, &made));
    *use = made;
    return WEFT_SUCCESS;
}

weft_status wi_codec_parse(const char *spec, struct weft_codec *codec)
{
    struct wi_codec_use use;

    WI_TRY(parse(spec, 0, &use));
    *codec = use.codec;
    return WEFT_SUCCESS;
}

weft_status wi_codec_parse_use(const char *spec, struct wi_codec_use *use)
{
    if (!*spec || !strcmp(spec, "none")) {
        *use = (struct wi_codec_use){0};
        return WEFT_SUCCESS;
    }
    return parse(spec, 1, use);
}

const char *wi_codec_text(const struct weft_codec *codec, char *text, size_t capacity)
{
    const struct weft_codec_parameter *rows = codec->ops->parameters;
    size_t at = (size_t)snprintf(text, capacity, "%s", wi_codec_name(codec));
    char value[WORD_CAPACITY], usual[WORD_CAPACITY], sep = ':';
    union weft_codec_value by_default;

    for (size_t i = 0; rows && rows[i].name && at < capacity; i++) {
        wi_codec_value_print(&rows[i], codec->value[i], value, sizeof value);
        wi_codec_value_parse(rows[i].name, &rows[i], rows[i].default_value, &by_default);
        wi_codec_value_print(&rows[i], by_default, usual, sizeof usual);
        if (!strcmp(value, usual))
            continue;
        at += (size_t)snprintf(text + at, capacity - at, "%c%s=%s", sep, rows[i].name, value);
        sep = ',';
    }
    return text;
}
