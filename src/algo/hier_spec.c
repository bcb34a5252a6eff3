/* SPDX-License-Identifier: BSD-3-Clause */
/* Specs of hierarchical algorithms: reading them, and which algorithm each word means. The grammar is in algo.h. */
#include <stdlib.h>
#include <string.h>

#include "algo/hier.h"
#include "algo/list.h"
#include "base/status.h"

#define NONE WI_HIER_NONE
#define MAX_DEPTH 64

static const struct wi_hier_shape shapes[] = {
    {WI_COLL_ALL_REDUCE, WI_COLL_REDUCE_SCATTER, WI_COLL_REDUCE, WI_COLL_ALL_GATHER, WI_COLL_BROADCAST, 0, 0},
    {WI_COLL_REDUCE, WI_COLL_REDUCE_SCATTER, WI_COLL_REDUCE, WI_COLL_GATHER, NONE, 0, 1},
    {WI_COLL_BROADCAST, WI_COLL_SCATTER, NONE, WI_COLL_ALL_GATHER, WI_COLL_BROADCAST, 1, 0},
    {WI_COLL_ALL_GATHER, NONE, WI_COLL_GATHER, WI_COLL_ALL_GATHER, WI_COLL_BROADCAST, 0, 0},
    {WI_COLL_REDUCE_SCATTER, WI_COLL_REDUCE_SCATTER, WI_COLL_REDUCE, NONE, WI_COLL_SCATTER, 0, 0},
    {WI_COLL_ALL_TO_ALL, NONE, WI_COLL_GATHER, WI_COLL_ALL_TO_ALL, WI_COLL_SCATTER, 0, 0},
    {WI_COLL_BARRIER, WI_COLL_BARRIER, WI_COLL_BARRIER, NONE, WI_COLL_BARRIER, 0, 0},
};

const struct wi_hier_shape *wi_hier_shape_of(enum wi_coll coll)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        if (shapes[i].coll == coll)
            return &shapes[i];
    }
    return NULL;
}

/* ---- Words ---- */

static int is_word_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '+' || c == '.';
}

static weft_status take_word(const char **at, const char *what, char *word, size_t capacity)
{
    size_t n = 0;

    while (is_word_char((*at)[n]))
        n++;
    if (n == 0 || n >= capacity)
        return wi_fail(WEFT_EINVAL, "hierarchy: \"%.40s\" does not begin with %s of 1 to %zu characters", *at, what,
                       capacity - 1);
    memcpy(word, *at, n);
    word[n] = '\0';
    *at += n;
    return WEFT_SUCCESS;
}

static weft_status take_suffixes(const char **at, struct wi_hier_spec *s, int i)
{
    char *end;

    if (**at == '@') {
        char form[WI_HIER_WORD];
        (*at)++;
        WI_TRY(take_word(at, "a form", form, sizeof form));
        if (strcmp(form, "leader") != 0)
            return wi_fail(WEFT_EINVAL, "hierarchy: \"@%s\" is no form; there is \"@leader\"", form);
        s->at[i].leader = 1;
    }
    if (**at != '*')
        return WEFT_SUCCESS;
    unsigned long depth = (*at)[1] >= '0' && (*at)[1] <= '9' ? strtoul(*at + 1, &end, 10) : 0;
    if (i > 0 || depth < 1 || depth > MAX_DEPTH)
        return wi_fail(WEFT_EINVAL, "hierarchy: \"%.40s\": after the outermost level, a number of chunks from 1 to %d",
                       *at, MAX_DEPTH);
    s->depth = (int)depth;
    *at = end;
    return WEFT_SUCCESS;
}

weft_status wi_hier_parse(const char *text, struct wi_hier_spec *s)
{
    const char *at = text;

    *s = (struct wi_hier_spec){0};
    if (strlen(text) >= WI_ALGO_SPEC_BYTES)
        return wi_fail(WEFT_EINVAL, "hierarchy: \"%.40s...\" has more than %d characters", text,
                       WI_ALGO_SPEC_BYTES - 1);
    while (strchr(at, ':')) {
        int i = s->nlevels;
        if (i == WI_ALGO_MAX_LEVELS)
            return wi_fail(WEFT_EINVAL, "hierarchy: \"%s\" names more than %d levels", text, WI_ALGO_MAX_LEVELS);
        WI_TRY(take_word(&at, "a level's name", s->at[i].level, sizeof s->at[i].level));
        if (*at++ != ':')
            return wi_fail(WEFT_EINVAL, "hierarchy: \"%s\": after a level's name comes a colon, not \"%.20s\"", text,
                           at - 1);
        WI_TRY(take_word(&at, "an algorithm's name", s->at[i].outer, sizeof s->at[i].outer));
        WI_TRY(take_suffixes(&at, s, i));
        s->nlevels++;
        if (*at == '\0')
            return WEFT_SUCCESS;
        if (*at++ != '/')
            return wi_fail(WEFT_EINVAL, "hierarchy: \"%s\": \"/\" and what happens inside must follow, not \"%.20s\"",
                           text, at - 1);
    }
    WI_TRY(take_word(&at, "an algorithm's name", s->inner, sizeof s->inner));
    if (*at)
        return wi_fail(WEFT_EINVAL, "hierarchy: \"%s\": nothing may follow the innermost algorithm, but \"%.20s\" does",
                       text, at);
    return s->nlevels ? WEFT_SUCCESS : wi_fail(WEFT_EINVAL, "hierarchy: \"%s\" names no level", text);
}

/* ---- Algorithms ---- */

static const char *default_of(enum wi_coll coll)
{
    switch (coll) {
    case WI_COLL_BROADCAST:
        return "knomial";
    case WI_COLL_ALL_TO_ALL:
        return "pairwise";
    case WI_COLL_BARRIER:
        return "dissem";
    default: /* one step, and the order of ranks is kept */
        return "linear";
    }
}

static const struct wi_algo *two_sided(enum wi_coll coll, const char *name)
{
    const struct wi_algo *a = wi_algo_find(coll, name);

    return a && !(a->needs & WI_ALGO_MAPPED) ? a : NULL;
}

int wi_hier_is_doubling(const char *name)
{
    for (size_t i = 0; wi_algos[i]; i++)
        if (wi_algos[i]->traits.shape == WI_SHAPE_DOUBLING && strcmp(wi_algos[i]->name, name) == 0)
            return 1;
    return 0;
}

/* Recursive halving of one collective is recursive doubling of the next. */
static const struct wi_algo *alike(enum wi_coll coll, const char *name)
{
    const struct wi_algo *a = two_sided(coll, name);

    for (size_t i = 0; !a && wi_algos[i] && wi_hier_is_doubling(name); i++)
        if (wi_algos[i]->coll == coll && wi_algos[i]->traits.shape == WI_SHAPE_DOUBLING)
            a = wi_algos[i];
    return a;
}

static weft_status unknown(enum wi_coll coll, const char *name)
{
    char text[256];

    return wi_fail(WEFT_ENOTFOUND, "no algorithm \"%s\" for %s over messages%s", name, wi_coll_name(coll),
                   wi_algo_suggest(coll, name, text, sizeof text));
}

weft_status wi_hier_algo(const struct wi_hier_spec *s, int stage, enum wi_coll coll, int second,
                         const struct wi_algo **algo)
{
    const char *name = stage < s->nlevels ? s->at[stage].outer : s->inner;
    const char *plus = strchr(name, '+');
    char word[2 * WI_HIER_WORD];

    snprintf(word, sizeof word, "%.*s", plus && !second ? (int)(plus - name) : (int)sizeof word - 1,
             plus && second ? plus + 1 : name);
    if (stage == 0 || plus) {
        *algo = stage == 0 && plus ? NULL : two_sided(coll, word);
        return *algo ? WEFT_SUCCESS : unknown(coll, stage == 0 ? name : word);
    }
    *algo = *name ? alike(coll, word) : NULL;
    if (!*algo)
        *algo = two_sided(coll, default_of(coll));
    return *algo ? WEFT_SUCCESS : unknown(coll, word);
}
