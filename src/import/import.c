/* SPDX-License-Identifier: BSD-3-Clause */
/* The way in: read files, recognise the format, join weft's own texts of several ranks. */
#include "import/import.h"

#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/status.h"
#include "import/import_program.h"

const char *wi_import_format_name(enum wi_import_format format)
{
    switch (format) {
    case WI_IMPORT_MSCCL:
        return "MSCCL XML";
    case WI_IMPORT_MSCCLPP:
        return "MSCCL++ JSON";
    default:
        return "weft schedule";
    }
}

void wi_import_free(struct wi_import *import)
{
    if (!import)
        return;
    wi_import_free(import->in_place_variant);
    for (int r = 0; r < import->nranks; r++)
        wi_sched_put(import->scheds[r]);
    wi_free(import->scheds);
    wi_free(import);
}

static char first_mark(const char *text, size_t bytes)
{
    size_t i = 0;

    if (bytes >= 3 && !memcmp(text, "\xef\xbb\xbf", 3))
        i = 3;
    while (i < bytes && strchr(" \t\r\n", text[i]) && text[i])
        i++;
    return i < bytes ? text[i] : '\0';
}

weft_status wi_import_text(const char *name, const char *text, size_t bytes, struct wi_import **import)
{
    if (bytes > WI_IMPORT_MAX_BYTES)
        return wi_fail(WEFT_ENOTSUP, "%s: %zu bytes, at most %u are read", name, bytes, WI_IMPORT_MAX_BYTES);
    switch (first_mark(text, bytes)) {
    case '\0':
        return wi_fail(WEFT_EINVAL, "%s: is empty", name);
    case '<':
        return wi_import_msccl(name, text, bytes, import);
    case '{':
        return wi_import_mscclpp(name, text, bytes, import);
    default:
        return wi_import_own(name, text, bytes, import);
    }
}

/* ---- weft's own texts ---- */

struct own {
    const char *name;
    struct wi_sched **scheds; /* [nranks], by rank */
    int nranks, found;
};

/* A schedule's text ends with a line "end". */
static size_t text_end(const char *text, size_t bytes)
{
    size_t at = 0;

    while (at < bytes) {
        const char *nl = memchr(text + at, '\n', bytes - at);
        size_t next = nl ? (size_t)(nl - text) + 1 : bytes, from = at, to = nl ? next - 1 : bytes;
        while (from < to && strchr(" \t\r", text[from]))
            from++;
        while (to > from && strchr(" \t\r", text[to - 1]))
            to--;
        at = next;
        if (to - from == 3 && !memcmp(text + from, "end", 3))
            return at;
    }
    return bytes;
}

/* Is there more than blank lines and comments? */
static int says_something(const char *text, size_t bytes)
{
    int comment = 0;

    for (size_t i = 0; i < bytes; i++) {
        if (text[i] == '\n')
            comment = 0;
        else if (text[i] == '#')
            comment = 1;
        else if (!comment && text[i] != ' ' && text[i] != '\t' && text[i] != '\r')
            return 1;
    }
    return 0;
}

static uint32_t lines_in(const char *text, size_t bytes)
{
    uint32_t n = 0;

    for (const char *p = text; (p = memchr(p, '\n', bytes - (size_t)(p - text))) != NULL; p++)
        n++;
    return n;
}

static weft_status take(struct own *o, struct wi_sched *s)
{
    if (!o->scheds) {
        o->scheds = s->nranks <= WI_IMPORT_MAX_RANKS ? wi_calloc((size_t)s->nranks, sizeof(*o->scheds)) : NULL;
        if (!o->scheds)
            return wi_fail(s->nranks > WI_IMPORT_MAX_RANKS ? WEFT_ENOTSUP : WEFT_ENOMEM, "%s: %d ranks, at most %d",
                           o->name, s->nranks, WI_IMPORT_MAX_RANKS);
        o->nranks = s->nranks;
    }
    if (s->nranks != o->nranks)
        return wi_fail(WEFT_EINVAL, "%s: a schedule of %d ranks among those of %d", o->name, s->nranks, o->nranks);
    if (s->staged)
        return wi_fail(WEFT_ENOTSUP, "%s: the schedule of rank %d has mapped stages, which a plan cannot have", o->name,
                       s->rank);
    if (o->scheds[s->rank])
        return wi_fail(WEFT_EINVAL, "%s: a second schedule of rank %d", o->name, s->rank);
    o->scheds[s->rank] = wi_sched_get(s);
    o->found++;
    return WEFT_SUCCESS;
}

static weft_status parse_one(struct own *o, const char *text, size_t bytes, uint32_t lines_before)
{
    struct wi_sched *s = NULL;
    weft_status st = wi_sched_parse(text, bytes, &s);

    if (st < 0) {
        char why[512];
        snprintf(why, sizeof(why), "%s", wi_fail_text());
        if (lines_before)
            return wi_fail(st, "%s: in the schedule that begins after line %u: %s", o->name, lines_before, why);
        return wi_fail(st, "%s: %s", o->name, why);
    }
    st = take(o, s);
    wi_sched_put(s);
    return st;
}

static weft_status bound_own(const struct own *o)
{
    uint64_t blocks = 0, steps = 0, lanes = 0, words = ((uint64_t)o->nranks + 63) / 64;

    for (int r = 0; r < o->nranks; r++) {
        const struct wi_sched *s = o->scheds[r];
        for (unsigned buf = 0; buf < WI_NUM_BUFS; buf++)
            blocks += s->buf_blocks[buf];
        for (uint32_t i = 0; i < s->nregions; i++)
            blocks += s->regions[i].count;
        steps += s->nsteps;
        lanes += s->nlanes;
    }
    if (blocks * words > WI_IMPORT_MAX_WORK || steps > WI_IMPORT_MAX_STEPS || lanes * steps > 1ull << 30)
        return wi_fail(WEFT_ENOTSUP, "%s: too much to prove: %llu steps on %llu blocks in %llu lanes of %d ranks",
                       o->name, (unsigned long long)steps, (unsigned long long)blocks, (unsigned long long)lanes,
                       o->nranks);
    return WEFT_SUCCESS;
}

static weft_status finish_own(struct own *o, struct wi_import **out)
{
    char why[640];

    for (int r = 0; r < o->nranks; r++) {
        if (!o->scheds[r])
            return wi_fail(WEFT_EINVAL, "%s: no schedule of rank %d of %d", o->name, r, o->nranks);
    }
    WI_TRY(bound_own(o));
    weft_status st = wi_sched_check((const struct wi_sched *const *)o->scheds, o->nranks, 0);
    if (st < 0) {
        snprintf(why, sizeof(why), "%s", wi_fail_text());
        return wi_fail(st, "%s: refused: %s", o->name, why);
    }
    struct wi_import *import = wi_calloc(1, sizeof(*import));
    if (!import)
        return wi_fail(WEFT_ENOMEM, "%s: no memory", o->name);
    const struct wi_sched *s = o->scheds[0];
    *import = (struct wi_import){.format = WI_IMPORT_TEXT,
                                 .coll = (enum wi_coll)s->coll,
                                 .nranks = o->nranks,
                                 .root = s->root,
                                 .in_place = s->in_place,
                                 .max_bytes = UINT64_MAX,
                                 .scheds = o->scheds};
    _Static_assert(sizeof(import->name) == sizeof(s->algo), "the same bound");
    memcpy(import->name, s->algo, sizeof(import->name));
    o->scheds = NULL;
    *out = import;
    return WEFT_SUCCESS;
}

static weft_status take_text(struct own *o, const char *text, size_t bytes)
{
    size_t at = 0;
    weft_status st = WEFT_SUCCESS;

    while (st == WEFT_SUCCESS && says_something(text + at, bytes - at)) {
        size_t n = text_end(text + at, bytes - at);
        st = parse_one(o, text + at, n, lines_in(text, at));
        at += n;
    }
    return st;
}

static void drop(struct own *o)
{
    for (int r = 0; o->scheds && r < o->nranks; r++)
        wi_sched_put(o->scheds[r]);
    wi_free(o->scheds);
}

weft_status wi_import_own(const char *name, const char *text, size_t bytes, struct wi_import **import)
{
    struct own o = {.name = name};
    weft_status st = take_text(&o, text, bytes);

    if (st == WEFT_SUCCESS)
        st = finish_own(&o, import);
    drop(&o);
    return st;
}

/* ---- Files ---- */

static weft_status read_file(const char *path, char **text, size_t *bytes)
{
    return wi_file_read(path, "algorithm file", WI_IMPORT_MAX_BYTES, text, bytes);
}

static weft_status import_one(const char *path, struct wi_import **import)
{
    char *text;
    size_t bytes;

    WI_TRY(read_file(path, &text, &bytes));
    weft_status st = wi_import_text(path, text, bytes, import);
    if (st == WEFT_SUCCESS)
        (*import)->hash = wi_hash64(text, bytes, 0);
    wi_free(text);
    return st;
}

weft_status wi_import_files(const char *const paths[], int npaths, struct wi_import **import)
{
    struct own o = {0};
    weft_status st = WEFT_SUCCESS;

    if (npaths == 1)
        return import_one(paths[0], import);
    for (int i = 0; st == WEFT_SUCCESS && i < npaths; i++) {
        char *text;
        size_t bytes;
        st = read_file(paths[i], &text, &bytes);
        if (st < 0)
            break;
        o.name = paths[i];
        char mark = first_mark(text, bytes);
        if (bytes > WI_IMPORT_MAX_BYTES)
            st = wi_fail(WEFT_ENOTSUP, "%s: more than %u bytes", paths[i], WI_IMPORT_MAX_BYTES);
        else if (mark == '<' || mark == '{' || !mark)
            st = wi_fail(WEFT_EINVAL, "%s: only weft's own schedules may stand in several files", paths[i]);
        else
            st = take_text(&o, text, bytes);
        wi_free(text);
    }
    if (st == WEFT_SUCCESS)
        st = finish_own(&o, import);
    drop(&o);
    return st;
}
