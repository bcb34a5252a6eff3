/* SPDX-License-Identifier: BSD-3-Clause */
/* The text of a configuration: comments and trailing commas are blanked, byte for byte, so that every place in what jansson parses
 * is the same place in the file. The same pass notes where each key stands, as jansson does not keep it. */
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "base/text.h"
#include "zero/ds/ds.h"

struct scan {
    const char *name, *original;
    char *text; /* a copy, in which comments become spaces */
    size_t bytes, at;
    unsigned line, column, depth;
    size_t comma;              /* offset of a comma that nothing has followed yet, or NONE */
    char last;                 /* the newest character that is no space, outside comments; '"' for a string */
    struct wi_ds_place string; /* where the newest string began */
    struct wi_ds_place *keys;
    size_t *offsets; /* where the keys begin */
    size_t nkeys, room;
};
#define NONE ((size_t)-1)

static weft_status scan_bad(const struct scan *s, const char *what)
{
    return wi_fail(WEFT_EINVAL, "%s:%u:%u: %s", s->name, s->line, s->column, what);
}

/* Bytes of the character of UTF-8 that begins here, 0: none does. */
static size_t character_bytes(const unsigned char *c)
{
    size_t bytes = c[0] < 0x80 ? 1 : c[0] < 0xe0 ? 2 : c[0] < 0xf0 ? 3 : 4;

    if (bytes > 1 && (c[0] < 0xc2 || c[0] > 0xf4))
        return 0;
    for (size_t i = 1; i < bytes; i++)
        if ((c[i] & 0xc0) != 0x80)
            return 0;
    if ((c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xed && c[1] >= 0xa0) || (c[0] == 0xf0 && c[1] < 0x90) ||
        (c[0] == 0xf4 && c[1] >= 0x90))
        return 0;
    return bytes;
}

/* To the next character, of which all bytes are there: the text was checked. */
static void step(struct scan *s)
{
    s->column++;
    if (s->text[s->at] == '\n') {
        s->line++;
        s->column = 1;
    }
    s->at += character_bytes((const unsigned char *)s->text + s->at);
}

static void blank(struct scan *s)
{
    size_t from = s->at;

    step(s);
    for (; from < s->at; from++)
        if (s->text[from] != '\n')
            s->text[from] = ' ';
}

static weft_status check_utf8(struct scan *s)
{
    while (s->text[s->at]) {
        if (!character_bytes((const unsigned char *)s->text + s->at))
            return wi_fail(WEFT_EINVAL, "%s:%u:%u: byte 0x%02x is not UTF-8", s->name, s->line, s->column,
                           (unsigned char)s->text[s->at]);
        step(s);
    }
    s->at = 0;
    s->line = s->column = 1;
    return WEFT_SUCCESS;
}

static weft_status skip_block_comment(struct scan *s)
{
    struct scan begin = *s;

    blank(s);
    blank(s);
    while (s->text[s->at] && !(s->text[s->at] == '*' && s->text[s->at + 1] == '/'))
        blank(s);
    if (!s->text[s->at])
        return scan_bad(&begin, "the comment that begins here does not end");
    blank(s);
    blank(s);
    return WEFT_SUCCESS;
}

static void skip_string(struct scan *s)
{
    s->string = (struct wi_ds_place){s->line, s->column};
    step(s);
    while (s->text[s->at] && s->text[s->at] != '"' && s->text[s->at] != '\n') {
        if (s->text[s->at] == '\\' && s->text[s->at + 1])
            step(s);
        step(s);
    }
    if (s->text[s->at] == '"')
        step(s);
}

static weft_status add_key(struct scan *s)
{
    if (s->nkeys == s->room) {
        size_t room = s->room ? 2 * s->room : 64;
        struct wi_ds_place *keys = wi_realloc(s->keys, room * sizeof(*keys));
        if (!keys)
            return wi_fail(WEFT_ENOMEM, "%s: no memory for its keys", s->name);
        s->keys = keys;
        size_t *offsets = wi_realloc(s->offsets, room * sizeof(*offsets));
        if (!offsets)
            return wi_fail(WEFT_ENOMEM, "%s: no memory for its keys", s->name);
        s->offsets = offsets;
        s->room = room;
    }
    s->offsets[s->nkeys] = s->at;
    s->keys[s->nkeys++] = s->string;
    return WEFT_SUCCESS;
}

/* A character outside strings and comments. */
static weft_status scan_mark(struct scan *s, char c)
{
    if (c == '{' || c == '[') {
        if (++s->depth > WI_DS_DEPTH_MAX)
            return scan_bad(s, "objects and lists are nested too deep here, more than 32");
    } else if (c == '}' || c == ']') {
        s->depth -= s->depth > 0;
        if (s->comma != NONE)
            s->text[s->comma] = ' ';
    } else if (c == ':' && s->last == '"') {
        WI_TRY(add_key(s));
    }
    /* A comma behind nothing is left to the parser, which refuses it. */
    s->comma = c == ',' && !strchr("{[,:", s->last) ? s->at : NONE;
    s->last = c;
    step(s);
    return WEFT_SUCCESS;
}

static weft_status scan_text(struct scan *s)
{
    if (!strncmp(s->text, "\xef\xbb\xbf", 3)) { /* a byte order mark */
        blank(s);
        s->column = 1;
    }
    while (s->text[s->at]) {
        char c = s->text[s->at], next = s->text[s->at + 1];
        if (c == '#' || (c == '/' && next == '/')) {
            while (s->text[s->at] && s->text[s->at] != '\n')
                blank(s);
        } else if (c == '/' && next == '*') {
            WI_TRY(skip_block_comment(s));
        } else if (c == '"') {
            skip_string(s);
            s->comma = NONE;
            s->last = '"';
        } else if (strchr(" \t\r\n", c)) {
            step(s);
        } else {
            WI_TRY(scan_mark(s, c));
        }
    }
    return WEFT_SUCCESS;
}

/* Line and column of an offset. */
static struct wi_ds_place place_of(const struct scan *s, size_t offset)
{
    struct scan to = {.text = (char *)s->original, .line = 1, .column = 1}; /* which step() only reads */

    while (to.text[to.at] && to.at < offset)
        step(&to);
    return (struct wi_ds_place){to.line, to.column};
}

/* The parser's failure. It tells where it was when it noticed; of a key that is there twice, the key's place is known. */
static weft_status parse_failed(const struct scan *s, json_error_t *error)
{
    size_t offset = error->position > 0 ? (size_t)error->position : 0;
    struct wi_ds_place at = place_of(s, offset ? offset - 1 : 0);
    enum json_error_code code = json_error_code(error); /* in the text's last byte */

    if (code == json_error_out_of_memory || !*error->text)
        return wi_fail(WEFT_ENOMEM, "%s: no memory to parse it", s->name);
    wi_text_sanitize(error->text, sizeof(error->text));
    if (code != json_error_duplicate_key)
        return wi_fail(WEFT_EINVAL, "%s:%u:%u: no JSON: %s", s->name, at.line, at.column, error->text);
    for (size_t i = 0; i < s->nkeys && s->offsets[i] <= offset; i++)
        at = s->keys[i];
    return wi_fail(WEFT_EINVAL, "%s:%u:%u: %s: a key is there once", s->name, at.line, at.column, error->text);
}

static weft_status parse(struct scan *s, struct wi_ds_text *read)
{
    json_error_t error = {.line = 0};
    json_t *root;

    WI_TRY(check_utf8(s));
    WI_TRY(scan_text(s));
    root = json_loadb(s->text, s->bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (!root)
        return parse_failed(s, &error);
    if (!json_is_object(root)) {
        json_decref(root);
        return wi_fail(WEFT_EINVAL, "%s:1:1: a configuration is an object, {...}", s->name);
    }
    *read = (struct wi_ds_text){.root = root, .keys = s->keys, .nkeys = s->nkeys};
    s->keys = NULL;
    return WEFT_SUCCESS;
}

weft_status wi_ds_text_read(const char *text, const char *name, struct wi_ds_text *read)
{
    struct scan s = {.name = name, .original = text, .line = 1, .column = 1, .comma = NONE, .last = ' '};
    weft_status st;

    s.bytes = strnlen(text, WI_DS_TEXT_MAX + 1);
    if (s.bytes > WI_DS_TEXT_MAX)
        return wi_fail(WEFT_EINVAL, "%s: more than %u bytes are no configuration", name, WI_DS_TEXT_MAX);
    s.text = wi_malloc(s.bytes + 1);
    if (!s.text)
        return wi_fail(WEFT_ENOMEM, "%s: no memory for %zu bytes of it", name, s.bytes);
    memcpy(s.text, text, s.bytes);
    s.text[s.bytes] = '\0';
    st = parse(&s, read);
    wi_free(s.text);
    wi_free(s.keys);
    wi_free(s.offsets);
    return st;
}

void wi_ds_text_free(struct wi_ds_text *read)
{
    json_decref(read->root);
    wi_free(read->keys);
    *read = (struct wi_ds_text){.root = NULL};
}
