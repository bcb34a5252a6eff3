/* SPDX-License-Identifier: BSD-3-Clause */
/* Specs of hierarchical algorithms: reading them, and which level and algorithm each word means. The grammar is in algo.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/hier.h"
#include "algo/list.h"
#include "base/status.h"
#include "base/text.h"

#define NONE WI_HIER_NONE
#define MAX_CHUNKS 64
#define WORD 24

/* What the text says. */
struct words {
    int nlevels, nchunks;
    struct {
        char level[WORD];
        char outer[2 * WORD]; /* among the groups of this level, inside the level before */
        uint8_t has_leader;   /* inside a group of this level */
    } at[WI_ALGO_MAX_LEVELS];
    char inner[2 * WORD]; /* "": the default */
};

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

/* Those of all_to_all go by level over messages only. */
int wi_algo_has_stages(enum wi_coll coll)
{
    enum wi_coll family = wi_algo_family(coll);

    return wi_hier_shape_of(family) && family != WI_COLL_ALL_TO_ALL;
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

static weft_status take_suffixes(const char **at, struct words *s, int i)
{
    char *end;

    if (**at == '@') {
        char form[WORD];
        (*at)++;
        WI_TRY(take_word(at, "a form", form, sizeof form));
        if (strcmp(form, "leader") != 0)
            return wi_fail(WEFT_EINVAL, "hierarchy: \"@%s\" is no form; there is \"@leader\"", form);
        s->at[i].has_leader = 1;
    }
    if (**at != '*')
        return WEFT_SUCCESS;
    unsigned long nchunks = (*at)[1] >= '0' && (*at)[1] <= '9' ? strtoul(*at + 1, &end, 10) : 0;
    if (i > 0 || nchunks < 1 || nchunks > MAX_CHUNKS)
        return wi_fail(WEFT_EINVAL, "hierarchy: \"%.40s\": after the outermost level, a number of chunks from 1 to %d",
                       *at, MAX_CHUNKS);
    s->nchunks = (int)nchunks;
    *at = end;
    return WEFT_SUCCESS;
}

static weft_status take_words(const char *text, struct words *s)
{
    const char *at = text;

    *s = (struct words){0};
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

const char *wi_hier_default(enum wi_coll coll)
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

    return a && !(a->needs & (WI_ALGO_MAPPED | WI_ALGO_CODED)) ? a : NULL;
}

/* Among the groups of the outermost level images may be sent, but those of an exchange are forwarded by others. */
static const struct wi_algo *among_groups(enum wi_coll coll, const char *name)
{
    const struct wi_algo *a = wi_algo_find(coll, name);

    return a && a->needs & WI_ALGO_CODED && coll != WI_COLL_ALL_TO_ALL ? a : two_sided(coll, name);
}

/* Through slots: with other ranks' own buffers, their addresses would have to be exchanged inside each group. */
static const struct wi_algo *through_slots(enum wi_coll coll, const char *name)
{
    const struct wi_algo *a = wi_algo_find(coll, name);

    return a && (a->needs & (WI_ALGO_MAPPED | WI_ALGO_PEER_MEM | WI_ALGO_PEER_GET)) == WI_ALGO_MAPPED ? a : NULL;
}

static int is_doubling(const char *name)
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

    for (size_t i = 0; !a && wi_algos[i] && is_doubling(name); i++)
        if (wi_algos[i]->coll == coll && wi_algos[i]->traits.shape == WI_SHAPE_DOUBLING)
            a = wi_algos[i];
    return a;
}

static weft_status unknown(enum wi_coll coll, const char *name)
{
    const struct wi_algo *a = wi_algo_find(coll, name);
    char text[256];

    if (a && a->needs & WI_ALGO_CODED && coll == WI_COLL_ALL_TO_ALL)
        return wi_fail(WEFT_ENOTSUP, "all_to_all %s sends images, and by levels all_to_all forwards plain data", name);
    if (a && a->needs & WI_ALGO_CODED)
        return wi_fail(WEFT_ENOTSUP,
                       "%s %s sends images, which only the outermost level of a hierarchy may, not what runs inside it",
                       wi_coll_name(coll), name);
    if (a && a->needs & (WI_ALGO_PEER_MEM | WI_ALGO_PEER_GET))
        return wi_fail(WEFT_ENOTSUP,
                       "%s %s uses other ranks' buffers and cannot be part of a hierarchy; there is \"flat\"",
                       wi_coll_name(coll), name);
    if (a && a->needs & WI_ALGO_MAPPED)
        return wi_fail(
            WEFT_ENOTFOUND,
            "%s %s goes through shared slots, but here the data goes by messages; it can be named at the innermost "
            "level only, and there for both directions: \"node:ring/flat\"",
            wi_coll_name(coll), name);
    return wi_fail(WEFT_ENOTFOUND, "no algorithm \"%s\" for %s over messages%s", name, wi_coll_name(coll),
                   wi_algo_suggest(coll, name, text, sizeof text));
}

/* What is said of the way up or (`second`) down. */
static void word_of(const char *name, int second, char word[2 * WORD])
{
    const char *plus = strchr(name, '+');

    snprintf(word, 2 * WORD, "%.*s", plus && !second ? (int)(plus - name) : 2 * WORD - 1,
             plus && second ? plus + 1 : name);
}

/* Is it one through slots, and none over messages, in both directions or one of them? */
static int names_slots(const char *name, const enum wi_coll colls[2])
{
    int slots = 0, messages = 0;
    char word[2 * WORD];

    for (int k = 0; k < 2; k++) {
        if (colls[k] == NONE)
            continue;
        word_of(name, k, word);
        messages |= two_sided(colls[k], word) != NULL;
        slots |= through_slots(colls[k], word) != NULL;
    }
    return slots && !messages;
}

/* The algorithm for `coll` at a stage below the outermost, on the way up or (`second`) down. */
static weft_status find_algo(const char *name, enum wi_coll coll, int second, int mapped, const struct wi_algo **algo)
{
    const char *plus = strchr(name, '+');
    char word[2 * WORD];

    word_of(name, second, word);
    if (mapped)
        *algo = through_slots(coll, word);
    else
        *algo = plus ? two_sided(coll, word) : *name ? alike(coll, word) : NULL;
    if (!*algo && !plus)
        *algo = mapped ? through_slots(coll, "flat") : two_sided(coll, wi_hier_default(coll));
    return *algo ? WEFT_SUCCESS : unknown(coll, word);
}

static weft_status find_outermost(const struct words *w, enum wi_coll coll, struct wi_hier_spec *s)
{
    s->up[0] = among_groups(coll, w->at[0].outer); /* no algorithm's name has a plus */
    return s->up[0] ? WEFT_SUCCESS : unknown(coll, w->at[0].outer);
}

/* What may be named there, for each of the two directions. */
static const char *usable(const enum wi_coll colls[2], int innermost, char *text, size_t capacity)
{
    size_t at = 0;

    text[0] = '\0';
    for (int k = 0; k < 2; k++) {
        if (colls[k] == NONE)
            continue;
        at += (size_t)snprintf(text + at, capacity - at, "%sfor %s there are", at ? "; " : "", wi_coll_name(colls[k]));
        for (size_t i = 0, n = 0; wi_algos[i] && at + 32 < capacity; i++) {
            const char *name = wi_algos[i]->name;
            if (wi_algos[i]->coll != colls[k] ||
                !(two_sided(colls[k], name) || (innermost && through_slots(colls[k], name))))
                continue;
            at += (size_t)snprintf(text + at, capacity - at, "%s %s", n++ ? "," : "", name);
        }
    }
    return text;
}

/* `name` is none of them. Perhaps it would be with (without) a leader. */
static weft_status not_inside(const struct words *w, int i, const struct wi_hier_shape *shape, const char *name,
                              const enum wi_coll colls[2])
{
    int innermost = i == w->nlevels, has_leader = w->at[i - 1].has_leader;
    const enum wi_coll others[2] = {has_leader ? shape->up : shape->up_leader,
                                    has_leader ? shape->down : shape->down_leader};
    const char *similar = NULL;
    char list[400], hint[160] = "";
    size_t best = 4;

    for (size_t n = 0; wi_algos[n]; n++)
        if ((wi_algos[n]->coll == colls[0] || wi_algos[n]->coll == colls[1]) &&
            two_sided(wi_algos[n]->coll, wi_algos[n]->name) && wi_text_distance(name, wi_algos[n]->name) < best) {
            similar = wi_algos[n]->name;
            best = wi_text_distance(name, similar);
        }
    if (similar)
        snprintf(hint, sizeof hint, "; did you mean \"%s\"?", similar);
    for (int k = 0; k < 2; k++)
        if (others[k] != NONE && (two_sided(others[k], name) || (innermost && through_slots(others[k], name))))
            snprintf(hint, sizeof hint, "; %s @leader what runs inside is %s, which has it: \"%s:%s%s/%s\"",
                     has_leader ? "without" : "after", wi_coll_name(others[k]), w->at[i - 1].level, w->at[i - 1].outer,
                     has_leader ? "" : "@leader", name);
    return wi_fail(WEFT_ENOTFOUND, "no algorithm \"%s\" for what runs inside \"%s:%s%s\": %s%s", name,
                   w->at[i - 1].level, w->at[i - 1].outer, has_leader ? "@leader" : "",
                   usable(colls, innermost, list, sizeof list), hint);
}

static weft_status find_stage(const struct words *w, int i, const struct wi_hier_shape *shape, struct wi_hier_spec *s)
{
    int has_leader = w->at[i - 1].has_leader;
    enum wi_coll colls[2] = {has_leader ? shape->up_leader : shape->up, has_leader ? shape->down_leader : shape->down};
    const char *name = i < w->nlevels ? w->at[i].outer : w->inner;
    const struct wi_algo **algo[2] = {&s->up[i], &s->down[i]};
    int known = !*name || strchr(name, '+') != NULL;

    s->mapped = i == w->nlevels && names_slots(name, colls);
    for (int k = 0; k < 2; k++) {
        if (colls[k] == NONE)
            continue;
        WI_TRY(find_algo(name, colls[k], k, s->mapped, algo[k]));
        known |= strcmp((*algo[k])->name, name) == 0 || is_doubling(name);
    }
    if (known)
        return WEFT_SUCCESS;
    enum wi_coll coll = colls[0] != NONE ? colls[0] : colls[1] != NONE ? colls[1] : shape->coll;
    return wi_algo_find(coll, name) ? unknown(coll, name) : not_inside(w, i, shape, name, colls);
}

/* ---- Levels ---- */

static weft_status find_level(const char *name, const struct wi_algo_levels *levels, uint8_t *level)
{
    char list[160] = "none", similar[WORD] = "";
    size_t at = 0, best = 4;

    for (int k = 0; k < levels->nlevels; k++) {
        const struct wi_algo_level *l = &levels->level[k];
        if (strcmp(l->name, name) == 0) {
            *level = (uint8_t)k;
            return WEFT_SUCCESS;
        }
        if (at + 32 < sizeof list)
            at += (size_t)snprintf(list + at, sizeof list - at, "%s%.24s", at ? ", " : "", l->name);
        if (wi_text_distance(name, l->name) < best) {
            best = wi_text_distance(name, l->name);
            snprintf(similar, sizeof similar, "%s", l->name);
        }
    }
    return wi_fail(WEFT_ENOTFOUND, "no level \"%s\" is known here%s%s%s (there are: %s)%s", name,
                   similar[0] ? "; did you mean \"" : "", similar, similar[0] ? "\"?" : "", list,
                   similar[0] || levels->nlevels > 2 ? ""
                                                     : "; WEFT_TOPO_DISCOVER=always finds more if ranks are bound");
}

/* ---- The whole ---- */

weft_status wi_hier_parse(enum wi_coll coll, const char *text, const struct wi_algo_levels *levels,
                          struct wi_hier_spec *spec)
{
    const struct wi_hier_shape *shape = wi_hier_shape_of(wi_algo_family(coll));
    struct wi_hier_spec s = {0};
    size_t head = strcspn(text, "*");
    struct words w;

    if (!shape)
        return wi_fail(WEFT_ENOTFOUND, "%s has no hierarchical algorithms, so \"%s\" is none", wi_coll_name(coll),
                       text);
    WI_TRY(take_words(text, &w));
    s.nlevels = (uint8_t)w.nlevels;
    s.nchunks = (uint8_t)w.nchunks;
    for (int i = 0; i < w.nlevels; i++) {
        s.at[i].level = WI_HIER_NO_LEVEL;
        s.at[i].has_leader = w.at[i].has_leader;
        if (levels)
            WI_TRY(find_level(w.at[i].level, levels, &s.at[i].level));
    }
    WI_TRY(find_outermost(&w, shape->coll, &s));
    for (int i = 1; i <= w.nlevels; i++)
        WI_TRY(find_stage(&w, i, shape, &s));
    memcpy(s.text, text, head);
    text += head + (text[head] == '*');
    text += w.nchunks ? strspn(text, "0123456789") : 0;
    memcpy(s.text + head, text, strlen(text));
    *spec = s;
    return WEFT_SUCCESS;
}

int wi_hier_same(const struct wi_hier_spec *a, const struct wi_hier_spec *b)
{
    return a->nlevels == b->nlevels && a->nchunks == b->nchunks && strcmp(a->text, b->text) == 0;
}

const char *wi_algo_text(const struct wi_algo *algo, const struct wi_hier_spec *s, char text[WI_ALGO_SPEC_BYTES])
{
    size_t head = strcspn(s->text, "/");

    if (!s->nlevels)
        snprintf(text, WI_ALGO_SPEC_BYTES, "%s", algo->name);
    else if (!s->nchunks)
        memcpy(text, s->text, sizeof s->text);
    else
        snprintf(text, WI_ALGO_SPEC_BYTES, "%.*s*%d%s", (int)head, s->text, s->nchunks, s->text + head);
    return text;
}

void wi_hier_cut(struct wi_hier_spec *s, int nchunks)
{
    if (strlen(s->text) + (nchunks < 10 ? 2 : 3) < sizeof s->text)
        s->nchunks = (uint8_t)nchunks;
}
