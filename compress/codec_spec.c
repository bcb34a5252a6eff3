/* SPDX-License-Identifier: BSD-3-Clause */
/* Codecs as text: NAME[:PARAMETER=VALUE[,PARAMETER=VALUE]...], such as "int4:block=64". */
#include <stdio.h>
#include <string.h>

#include "base/settings.h"
#include "base/status.h"
#include "base/text.h"
#include "compress/codec.h"

enum { WORD_CAPACITY = 32, LIST_CAPACITY = 160, DEFAULT_BLOCK = 128 };

/* Those of a codec come first, then those of its use. */
enum { BLOCK, EF, BYPASS, MIN };
static const char *const parameters[] = {"block", "ef", "bypass", "min"};
#define NPARAMETERS (sizeof parameters / sizeof *parameters)
#define NCODEC_PARAMETERS 1

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
    for (size_t i = 0; i < count; i++)
        at += (size_t)snprintf(text + at, LIST_CAPACITY - at, "%s%s", i ? ", " : "", names[i]);
    snprintf(text + at, LIST_CAPACITY - at, ")");
    return text;
}

static weft_status find_kind(const char *spec, const char *word, enum wi_codec_kind *kind)
{
    const char *names[WI_CODEC_KINDS];
    char list[LIST_CAPACITY];

    for (int k = 0; k < WI_CODEC_KINDS; k++) {
        names[k] = wi_codec_name((enum wi_codec_kind)k);
        if (!strcmp(word, names[k])) {
            *kind = (enum wi_codec_kind)k;
            return WEFT_SUCCESS;
        }
    }
    return wi_fail(WEFT_EINVAL, "codec \"%.64s\": there is no codec \"%s\"%s", spec, word,
                   suggest(word, names, WI_CODEC_KINDS, list));
}

static weft_status set_block(const char *spec, const char *value, uint32_t *block)
{
    int64_t n;

    if (wi_parse_int(value, &n) || n < WI_CODEC_BLOCK_MIN || n > WI_CODEC_BLOCK_MAX || (n & (n - 1)))
        return wi_fail(WEFT_EINVAL, "codec \"%.64s\": block is \"%s\", not a power of two from %d to %d (elements)",
                       spec, value, WI_CODEC_BLOCK_MIN, WI_CODEC_BLOCK_MAX);
    *block = (uint32_t)n;
    return WEFT_SUCCESS;
}

static weft_status choose(const char *spec, const char *key, const char *value, const char *no, const char *yes,
                          uint8_t *set)
{
    if (strcmp(value, no) != 0 && strcmp(value, yes) != 0)
        return wi_fail(WEFT_EINVAL, "codec \"%.64s\": %s is \"%s\", neither %s nor %s", spec, key, value, no, yes);
    *set = !strcmp(value, yes);
    return WEFT_SUCCESS;
}

static weft_status set_value(const char *spec, size_t which, const char *value, struct wi_codec_use *use)
{
    switch (which) {
    case BLOCK:
        return set_block(spec, value, &use->codec.block);
    case EF:
        return choose(spec, "ef", value, "0", "1", &use->feedback);
    case BYPASS:
        return choose(spec, "bypass", value, "never", "auto", &use->may_bypass);
    default:
        if (wi_parse_bytes(value, &use->min_bytes))
            return wi_fail(WEFT_EINVAL, "codec \"%.64s\": min is \"%s\", not a number of bytes such as 64K", spec,
                           value);
        return WEFT_SUCCESS;
    }
}

static weft_status set_parameter(const char *spec, const char *pair, size_t count, struct wi_codec_use *use,
                                 unsigned *seen)
{
    char key[WORD_CAPACITY], value[WORD_CAPACITY] = "", list[LIST_CAPACITY];
    const char *behind = cut_word(pair, "=", key);
    size_t which = 0;

    while (which < count && strcmp(key, parameters[which]) != 0)
        which++;
    if (which == count)
        return wi_fail(WEFT_EINVAL, "codec \"%.64s\": there is no parameter \"%s\"%s", spec, key,
                       suggest(key, parameters, count, list));
    if (!behind)
        return wi_fail(WEFT_EINVAL, "codec \"%.64s\": %s has no value (%s=VALUE)", spec, key, key);
    if (*seen & 1u << which)
        return wi_fail(WEFT_EINVAL, "codec \"%.64s\": %s is given twice", spec, key);
    *seen |= 1u << which;
    cut_word(behind, "", value);
    return set_value(spec, which, value, use);
}

static weft_status parse(const char *spec, size_t count, struct wi_codec_use *use)
{
    struct wi_codec_use made = {.codec.block = DEFAULT_BLOCK, .on = 1, .may_bypass = 1};
    char name[WORD_CAPACITY], pair[2 * WORD_CAPACITY];
    const char *rest = cut_word(spec, ":", name);
    unsigned seen = 0;

    WI_TRY(find_kind(spec, name, &made.codec.kind));
    while (rest) {
        size_t n = strcspn(rest, ",");
        snprintf(pair, sizeof pair, "%.*s", (int)(n < sizeof pair ? n : sizeof pair - 1), rest);
        WI_TRY(set_parameter(spec, pair, count, &made, &seen));
        rest = rest[n] ? rest + n + 1 : NULL;
    }
    *use = made;
    return WEFT_SUCCESS;
}

weft_status wi_codec_parse(const char *spec, struct wi_codec *codec)
{
    struct wi_codec_use use;

    WI_TRY(parse(spec, NCODEC_PARAMETERS, &use));
    *codec = use.codec;
    return WEFT_SUCCESS;
}

weft_status wi_codec_parse_use(const char *spec, struct wi_codec_use *use)
{
    if (!*spec || !strcmp(spec, "none")) {
        *use = (struct wi_codec_use){0};
        return WEFT_SUCCESS;
    }
    return parse(spec, NPARAMETERS, use);
}

const char *wi_codec_text(const struct wi_codec *codec, char *text, size_t capacity)
{
    snprintf(text, capacity, "%s:block=%u", wi_codec_name(codec->kind), codec->block);
    return text;
}
