/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-sim: reading a training step. Bounded, and every error names line and word. */
#include "sim_script.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/settings.h"
#include "base/status.h"
#include "weft_sim.h"

#define MAX_FILE (1u << 20)
#define MAX_WORDS 6

static weft_status wrong(const struct sim_script *s, int number, const char *word, const char *why)
{
    return wi_fail(WEFT_ECONFIG, "%s line %d: \"%s\": %s", s->path, number, word, why);
}

static weft_status read_collective(const struct sim_script *s, struct sim_line *l, char *const *word, int n)
{
    l->kind = SIM_COLLECTIVE;
    if (wi_coll_parse(word[0], &l->coll) || l->coll >= WI_COLL_SEND || wi_algo_family(l->coll) != l->coll)
        return wrong(s, l->number, word[0], "is neither compute, wait, repeat, end nor a collective");
    int at = 1;
    if (l->coll != WI_COLL_BARRIER) {
        if (n < 2)
            return wrong(s, l->number, word[0], "lacks its bytes, like 16M");
        if (wi_parse_bytes(word[1], &l->bytes))
            return wrong(s, l->number, word[1], "is not a number of bytes, like 16M");
        at = 2;
    }
    for (; at < n; at++) {
        if (!strcmp(word[at], "blocking"))
            l->blocking = 1;
        else if (!strncmp(word[at], "algo=", 5) && word[at][5] && strlen(word[at] + 5) < sizeof l->algo)
            snprintf(l->algo, sizeof l->algo, "%s", word[at] + 5);
        else
            return wrong(s, l->number, word[at], "is neither algo=NAME nor blocking");
    }
    return WEFT_SUCCESS;
}

static weft_status read_words(struct sim_script *s, struct sim_line *l, char *const *word, int n)
{
    static const struct {
        const char *name;
        enum sim_kind kind;
        int words;
    } plain[] = {{"compute", SIM_COMPUTE, 2}, {"wait", SIM_WAIT, 1}, {"repeat", SIM_REPEAT, 2}, {"end", SIM_END, 1}};

    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        if (strcmp(word[0], plain[i].name))
            continue;
        if (n < plain[i].words)
            return wrong(s, l->number, word[0],
                         plain[i].kind == SIM_COMPUTE ? "lacks its time, like 250us" : "lacks its count");
        if (n > plain[i].words)
            return wrong(s, l->number, word[plain[i].words], "is one word too many");
        l->kind = plain[i].kind;
        if (l->kind == SIM_COMPUTE && sim_parse_us(word[1], &l->us))
            return wrong(s, l->number, word[1], "is not a time, like 250us or 1.5ms");
        if (l->kind == SIM_REPEAT && (wi_parse_int(word[1], &l->count) || l->count < 1 || l->count > SIM_MAX_RUN))
            return wrong(s, l->number, word[1], "is not a count from 1 to 10000000");
        return WEFT_SUCCESS;
    }
    return read_collective(s, l, word, n);
}

static weft_status read_line(struct sim_script *s, char *text, int number)
{
    char *word[MAX_WORDS], *save = NULL, *hash = strchr(text, '#');
    int n = 0;

    if (hash)
        *hash = '\0';
    for (char *w = strtok_r(text, " \t\r\n", &save); w; w = strtok_r(NULL, " \t\r\n", &save)) {
        if (n == MAX_WORDS)
            return wrong(s, number, w, "is one word too many");
        word[n++] = w;
    }
    if (!n)
        return WEFT_SUCCESS;
    if (s->nlines == SIM_MAX_LINES)
        return wrong(s, number, word[0], "the file has more than 4096 instructions");
    struct sim_line *l = &s->lines[s->nlines++];
    *l = (struct sim_line){.number = number, .match = -1};
    return read_words(s, l, word, n);
}

static weft_status match_repeats(struct sim_script *s)
{
    int open[SIM_MAX_DEPTH], depth = 0;

    for (int i = 0; i < s->nlines; i++) {
        if (s->lines[i].kind == SIM_REPEAT) {
            if (depth == SIM_MAX_DEPTH)
                return wrong(s, s->lines[i].number, "repeat", "is nested deeper than 8");
            open[depth++] = i;
        } else if (s->lines[i].kind == SIM_END) {
            if (!depth)
                return wrong(s, s->lines[i].number, "end", "has no repeat");
            s->lines[i].match = open[--depth];
            s->lines[open[depth]].match = i;
        }
    }
    return depth ? wrong(s, s->lines[open[depth - 1]].number, "repeat", "has no end") : WEFT_SUCCESS;
}

/* The whole file, ended by NUL, and no other NUL in it. */
static weft_status read_all(const char *path, FILE *in, char *text)
{
    size_t n = fread(text, 1, MAX_FILE + 1, in);
    int line = 1;

    if (ferror(in))
        return wi_fail_errno(errno, "%s", path);
    if (n > MAX_FILE)
        return wi_fail(WEFT_ECONFIG, "%s: longer than 1 MiB", path);
    text[n] = '\0';
    for (size_t i = 0; i < n; i++) {
        if (!text[i])
            return wi_fail(WEFT_ECONFIG, "%s line %d: holds a NUL, and is no text", path, line);
        line += text[i] == '\n';
    }
    return WEFT_SUCCESS;
}

static weft_status read_lines(struct sim_script *s, char *text)
{
    for (int number = 1; *text; number++) {
        char *end = strchr(text, '\n'), *next = end ? end + 1 : text + strlen(text);
        if (end)
            *end = '\0';
        WI_TRY(read_line(s, text, number));
        text = next;
    }
    return s->nlines ? WEFT_SUCCESS : wi_fail(WEFT_ECONFIG, "%s: no instruction", s->path);
}

weft_status sim_script_read(const char *path, FILE *in, struct sim_script *s)
{
    char *text = wi_malloc(MAX_FILE + 1);
    weft_status st;

    *s = (struct sim_script){.path = path, .lines = wi_calloc(SIM_MAX_LINES, sizeof *s->lines)};
    if (s->lines && text)
        st = read_all(path, in, text);
    else
        st = wi_fail(WEFT_ENOMEM, "%s: no memory for its lines", path);
    if (st >= 0)
        st = read_lines(s, text);
    wi_free(text);
    return st < 0 ? st : match_repeats(s);
}
