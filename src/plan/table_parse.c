/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading tuning tables. Line by line, word by word; nothing is believed before it is bounded. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/status.h"
#include "plan/table.h"

#define MAX_WORDS 10
#define MAX_LINE 1024
#define MAX_US 1e12
#define MAX_RATE 1e12
#define MAX_RANKS (1 << 20)

struct reader {
    struct wi_plan_table *table;
    const char *name; /* of the file */
    int line;
    int section; /* of the points that follow; -1: none yet */
    int nwords;
    char *word[MAX_WORDS];
    char text[MAX_LINE]; /* the line; words end in NUL */
    char rest[MAX_LINE]; /* the line after its first word, as it was */
};

static weft_status wrong(const struct reader *r, int word, const char *what)
{
    return wi_fail(WEFT_ECONFIG, "%s, line %d, word %d: \"%.60s\" %s", r->name, r->line, word + 1,
                   word < r->nwords ? r->word[word] : "", what);
}

static weft_status in_line(const struct reader *r, weft_status st)
{
    char text[512];

    if (st >= 0)
        return st;
    snprintf(text, sizeof text, "%s", wi_fail_text());
    return wi_fail(st == WEFT_ENOMEM ? st : WEFT_ECONFIG, "%s, line %d: %s", r->name, r->line, text);
}

static weft_status number(const struct reader *r, int word, double least, double most, double *value)
{
    char *end;

    errno = 0;
    *value = strtod(r->word[word], &end);
    if (*end || end == r->word[word] || !isfinite(*value))
        return wrong(r, word, "is not a number");
    if (*value < least || *value > most)
        return wrong(r, word, "is out of range");
    return WEFT_SUCCESS;
}

static weft_status integer(const struct reader *r, int word, uint64_t least, uint64_t most, uint64_t *value)
{
    char *end;

    errno = 0;
    *value = strtoull(r->word[word], &end, 10);
    if (*end || end == r->word[word] || r->word[word][0] < '0' || r->word[word][0] > '9')
        return wrong(r, word, "is not a whole number");
    if (errno || *value < least || *value > most)
        return wrong(r, word, "is out of range");
    return WEFT_SUCCESS;
}

static weft_status need_words(const struct reader *r, int n, const char *form)
{
    if (r->nwords == n)
        return WEFT_SUCCESS;
    return wi_fail(WEFT_ECONFIG, "%s, line %d: %d words where %d belong: \"%.60s...\" is not %s", r->name, r->line,
                   r->nwords, n, r->word[0], form);
}

/* ---- The kinds of lines ---- */

static weft_status take_text(struct reader *r, char *to, size_t capacity)
{
    if (!r->rest[0])
        return wrong(r, 0, "stands alone");
    if (strlen(r->rest) >= capacity)
        return wrong(r, 1, "is too long");
    strcpy(to, r->rest);
    return WEFT_SUCCESS;
}

/* Runs of ranks per node: they must make the ranks and nodes that the line says. */
static int map_fits(const char *map, uint64_t nranks, uint64_t nnodes)
{
    uint64_t ranks = 0, nodes = 0;
    const char *at = map;

    if (!*map) /* too long to write */
        return 1;
    for (;;) {
        char *end;
        if (*at < '0' || *at > '9')
            return 0;
        uint64_t node = strtoull(at, &end, 10);
        if (*end != 'x' || end[1] < '0' || end[1] > '9' || node > nodes)
            return 0;
        nodes = node == nodes ? nodes + 1 : nodes;
        uint64_t run = strtoull(end + 1, &end, 10);
        if (!run || run > nranks)
            return 0;
        ranks += run;
        if (!*end)
            return ranks == nranks && nodes == nnodes;
        if (*end != '+' || ranks > nranks)
            return 0;
        at = end + 1;
    }
}

static weft_status take_layout(struct reader *r)
{
    uint64_t nranks, nnodes;
    const char *map;

    WI_TRY(need_words(r, 4, "layout RANKS NODES MAP"));
    WI_TRY(integer(r, 1, 1, MAX_RANKS, &nranks));
    WI_TRY(integer(r, 2, 1, nranks, &nnodes));
    map = strcmp(r->word[3], "-") == 0 ? "" : r->word[3];
    if (!map_fits(map, nranks, nnodes))
        return wrong(r, 3, "is not a map of these ranks and nodes such as 0x2+1x2");
    return in_line(r, wi_plan_table_section(r->table, (int)nranks, (int)nnodes, map, &r->section));
}

static weft_status in_section(const struct reader *r)
{
    return r->section >= 0 ? WEFT_SUCCESS : wrong(r, 0, "comes before the first layout");
}

static weft_status take_param(struct reader *r)
{
    double value;

    WI_TRY(need_words(r, 3, "parameter NAME VALUE"));
    WI_TRY(in_section(r));
    WI_TRY(number(r, 2, 1e-9, MAX_RATE, &value));
    return in_line(r, wi_plan_table_param(r->table, r->section, r->word[1], value));
}

static weft_status take_rate(struct reader *r)
{
    float(*rate)[WI_RATE_PLACES];

    WI_TRY(need_words(r, 5, "rate OPERATOR TYPE IN_CACHE IN_MEMORY"));
    WI_TRY(in_section(r));
    WI_TRY(in_line(r, wi_plan_table_rate(r->table, r->section, r->word[1], r->word[2], &rate)));
    if ((*rate)[WI_RATE_CACHE] > 0)
        return wrong(r, 2, "has been said for this operator before");
    for (int i = 0; i < WI_RATE_PLACES; i++) {
        double value;
        WI_TRY(number(r, 3 + i, 1e-3, MAX_RATE, &value));
        (*rate)[i] = (float)value;
    }
    return WEFT_SUCCESS;
}

static weft_status take_link(struct reader *r)
{
    struct wi_table_link link = {.section = r->section};
    uint64_t from, to, nranks;

    WI_TRY(need_words(r, 5, "link FROM TO MICROSECONDS BYTES_PER_US"));
    WI_TRY(in_section(r));
    nranks = (uint64_t)r->table->sections[r->section].nranks;
    WI_TRY(integer(r, 1, 0, nranks - 1, &from));
    WI_TRY(integer(r, 2, 0, nranks - 1, &to));
    WI_TRY(number(r, 3, 1e-9, MAX_US, &link.us));
    WI_TRY(number(r, 4, 1e-9, MAX_RATE, &link.rate));
    link.from = (int)from;
    link.to = (int)to;
    return in_line(r, wi_plan_table_link(r->table, &link));
}

/* What may stand behind a point: NAME=VALUE, each once. */
static weft_status take_extra(const struct reader *r, int word, struct wi_table_point *p)
{
    static const char *const names[] = {"noise=", "chosen="};
    float *const to[] = {&p->noise, &p->chosen_us};

    for (int i = 0; i < 2; i++) {
        size_t n = strlen(names[i]);
        double value;
        char *end;
        if (strncmp(r->word[word], names[i], n) != 0)
            continue;
        if (*to[i] > 0)
            return wrong(r, word, "has been said for this point before");
        value = strtod(r->word[word] + n, &end);
        if (*end || end == r->word[word] + n || !(value >= 1e-9 && value <= MAX_US))
            return wrong(r, word, "has a value that is no number or out of range");
        *to[i] = (float)value;
        return WEFT_SUCCESS;
    }
    return wrong(r, word, "is neither noise=SHARE nor chosen=MICROSECONDS");
}

static weft_status take_point(struct reader *r, enum wi_coll coll)
{
    const struct wi_table_section *s;
    struct wi_table_point p = {.coll = (uint8_t)coll};
    struct wi_algo_choice choice;
    double measured, predicted;
    uint64_t value;

    if (r->nwords < 8)
        return need_words(r, 8, "COLLECTIVE RANKS NODES BYTES MEMORY ALGORITHM MEASURED PREDICTED");
    WI_TRY(in_section(r));
    s = &r->table->sections[r->section];
    p.section = (uint16_t)r->section;
    WI_TRY(integer(r, 1, 1, MAX_RANKS, &value));
    if (value != (uint64_t)s->nranks)
        return wrong(r, 1, "is not the number of ranks of the layout above");
    WI_TRY(integer(r, 2, 1, MAX_RANKS, &value));
    if (value != (uint64_t)s->nnodes)
        return wrong(r, 2, "is not the number of nodes of the layout above");
    WI_TRY(integer(r, 3, 0, 1ull << 50, &p.bytes));
    if (strcmp(r->word[4], "mapped") != 0 && strcmp(r->word[4], "private") != 0)
        return wrong(r, 4, "is neither private nor mapped");
    p.shared = r->word[4][0] == 'm';
    WI_TRY(in_line(r, wi_algo_choose(coll, r->word[5], NULL, s->nranks, &choice)));
    WI_TRY(number(r, 6, 1e-6, MAX_US, &measured));
    WI_TRY(number(r, 7, 0, MAX_US, &predicted));
    p.measured_us = (float)measured;
    p.predicted_us = (float)predicted;
    for (int word = 8; word < r->nwords; word++)
        WI_TRY(take_extra(r, word, &p));
    if (wi_plan_table_find(r->table, r->section, coll, p.bytes, p.shared, r->word[5]) != UINT32_MAX)
        return wrong(r, 5, "has been said for these bytes before");
    return in_line(r, wi_plan_table_point(r->table, &p, r->word[5]));
}

static weft_status take_line(struct reader *r)
{
    struct wi_plan_table *t = r->table;
    enum wi_coll coll;

    if (!strcmp(r->word[0], "version"))
        return take_text(r, t->version, sizeof t->version);
    if (!strcmp(r->word[0], "made"))
        return take_text(r, t->made, sizeof t->made);
    if (!strcmp(r->word[0], "machine"))
        return take_text(r, t->machine, sizeof t->machine);
    if (!strcmp(r->word[0], "host")) {
        WI_TRY(need_words(r, 2, "host NAME"));
        return in_line(r, wi_plan_table_host(t, r->word[1]));
    }
    if (!strcmp(r->word[0], "layout"))
        return take_layout(r);
    if (!strcmp(r->word[0], "parameter") || !strcmp(r->word[0], "figure")) /* the keyword of older files */
        return take_param(r);
    if (!strcmp(r->word[0], "rate"))
        return take_rate(r);
    if (!strcmp(r->word[0], "link"))
        return take_link(r);
    if (wi_coll_parse(r->word[0], &coll))
        return wrong(r, 0, "is no collective, nor version, made, machine, host, layout, parameter, rate or link");
    return take_point(r, coll);
}

/* ---- Lines and words ---- */

/* The next line into words; 0: the end. Comments and empty lines have no words. */
static weft_status split(struct reader *r, const char *text, size_t bytes, size_t *at)
{
    const char *end = memchr(text + *at, '\n', bytes - *at);
    size_t n = end ? (size_t)(end - text) - *at : bytes - *at;
    char *save = NULL, *rest;

    r->line++;
    r->nwords = 0;
    if (n >= MAX_LINE)
        return wi_fail(WEFT_ECONFIG, "%s, line %d: longer than %d characters", r->name, r->line, MAX_LINE - 1);
    memcpy(r->text, text + *at, n);
    r->text[n] = '\0';
    *at += n + (end != NULL);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)r->text[i] < 32 && r->text[i] != '\t' && r->text[i] != '\r')
            return wi_fail(WEFT_ECONFIG, "%s, line %d: character %d in column %zu is no text", r->name, r->line,
                           r->text[i], i + 1);
    r->text[strcspn(r->text, "#\r")] = '\0';
    rest = r->text + strspn(r->text, " \t");
    rest += strcspn(rest, " \t");
    rest += strspn(rest, " \t");
    strcpy(r->rest, rest);
    for (char *w = strtok_r(r->text, " \t", &save); w; w = strtok_r(NULL, " \t", &save)) {
        if (r->nwords == MAX_WORDS) {
            if (!strcmp(r->word[0], "machine") || !strcmp(r->word[0], "made") || !strcmp(r->word[0], "version"))
                return WEFT_SUCCESS;
            return wi_fail(WEFT_ECONFIG, "%s, line %d: more than %d words", r->name, r->line, MAX_WORDS);
        }
        r->word[r->nwords++] = w;
    }
    return WEFT_SUCCESS;
}

static weft_status first_line(struct reader *r)
{
    uint64_t format;

    if (strcmp(r->word[0], "weft-tuning") != 0)
        return wrong(r, 0, "is not how a tuning table begins (weft-tuning 1)");
    WI_TRY(need_words(r, 2, "weft-tuning FORMAT"));
    WI_TRY(integer(r, 1, 0, 1000, &format));
    return format == WI_TABLE_FORMAT ? WEFT_SUCCESS : wrong(r, 1, "is a format that this version does not know");
}

static weft_status read_lines(struct reader *r, const char *text, size_t bytes)
{
    int begun = 0;

    for (size_t at = 0; at < bytes;) {
        WI_TRY(split(r, text, bytes, &at));
        if (!r->nwords)
            continue;
        WI_TRY(begun ? take_line(r) : first_line(r));
        begun = 1;
    }
    if (!begun)
        return wi_fail(WEFT_ECONFIG, "%s is empty, and no tuning table", r->name);
    if (!r->table->machine[0])
        return wi_fail(WEFT_ECONFIG, "%s does not say on which machine it was made", r->name);
    return WEFT_SUCCESS;
}

weft_status wi_plan_table_parse(const char *text, size_t bytes, const char *name, struct wi_plan_table **table)
{
    struct reader *r = wi_calloc(1, sizeof *r);
    weft_status st;

    if (!r)
        return wi_fail(WEFT_ENOMEM, "reading %s", name);
    r->name = name;
    r->section = -1;
    if (bytes > WI_TABLE_MAX_BYTES)
        st = wi_fail(WEFT_ECONFIG, "%s has more than %u bytes", name, WI_TABLE_MAX_BYTES);
    else
        st = wi_plan_table_create("", &r->table);
    if (st >= 0) {
        r->table->version[0] = '\0';
        r->table->hash = wi_hash64(text, bytes, 0);
        st = read_lines(r, text, bytes);
    }
    if (st >= 0)
        *table = r->table;
    else
        wi_plan_table_free(r->table);
    wi_free(r);
    return st;
}

weft_status wi_plan_table_load(const char *path, struct wi_plan_table **table)
{
    char *text;
    size_t bytes;
    weft_status st;

    WI_TRY(wi_file_read(path, "tuning table", WI_TABLE_MAX_BYTES, &text, &bytes));
    st = wi_plan_table_parse(text, bytes, path, table);
    wi_free(text);
    return st;
}
