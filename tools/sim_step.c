/* SPDX-License-Identifier: BSD-3-Clause */
/* A training step: compute and collectives on two streams of each rank.
 *
 * The file, one instruction a line, # begins a comment:
 *   compute TIME                 every rank computes
 *   COLLECTIVE BYTES [WORD]...   is issued when the compute before it is done, and runs when the collective before it is done;
 *                                compute goes on meanwhile. Words: algo=NAME, blocking (compute waits for it)
 *   wait                         compute waits for all collectives so far
 *   repeat COUNT ... end         may be nested */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/settings.h"
#include "base/status.h"
#include "weft_sim.h"

#define MAX_LINES 4096
#define MAX_FILE (1u << 20)
#define MAX_WORDS 6
#define MAX_DEPTH 8
#define MAX_RUN 10000000 /* instructions, repeats counted */

enum kind { COMPUTE, COLLECTIVE, WAIT, REPEAT, END };

struct line {
    enum kind kind;
    int number, match; /* REPEAT, END: the other one */
    int64_t count;
    double us;
    enum wi_coll coll;
    size_t bytes;
    char algo[WI_ALGO_SPEC_BYTES];
    int blocking;
    /* What it took when it was last run, and with which starts: repeats are alike. */
    struct sim_call call;
    int chosen;
    double *starts, *took;
    double busy_us;
    int64_t times;
};

struct script {
    const char *path;
    struct line *lines;
    int nlines;
    double *compute, *comm, *relative; /* [nranks] when each stream is free */
    double compute_us, comm_us;        /* of the last rank: sums */
    int64_t steps;
};

/* ---- Reading ---- */

static weft_status wrong(const struct script *s, int number, const char *word, const char *why)
{
    return wi_fail(WEFT_ECONFIG, "%s line %d: \"%s\": %s", s->path, number, word, why);
}

static weft_status read_collective(const struct script *s, struct line *l, char *const *word, int n)
{
    l->kind = COLLECTIVE;
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

static weft_status read_words(struct script *s, struct line *l, char *const *word, int n)
{
    static const struct {
        const char *name;
        enum kind kind;
        int words;
    } plain[] = {{"compute", COMPUTE, 2}, {"wait", WAIT, 1}, {"repeat", REPEAT, 2}, {"end", END, 1}};

    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        if (strcmp(word[0], plain[i].name))
            continue;
        if (n < plain[i].words)
            return wrong(s, l->number, word[0],
                         l->kind == COMPUTE ? "lacks its time, like 250us" : "lacks its argument");
        if (n > plain[i].words)
            return wrong(s, l->number, word[plain[i].words], "is one word too many");
        l->kind = plain[i].kind;
        if (l->kind == COMPUTE && sim_parse_us(word[1], &l->us))
            return wrong(s, l->number, word[1], "is not a time, like 250us or 1.5ms");
        if (l->kind == REPEAT && (wi_parse_int(word[1], &l->count) || l->count < 1 || l->count > MAX_RUN))
            return wrong(s, l->number, word[1], "is not a count from 1 to 10000000");
        return WEFT_SUCCESS;
    }
    return read_collective(s, l, word, n);
}

static weft_status read_line(struct script *s, char *text, int number)
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
    if (s->nlines == MAX_LINES)
        return wrong(s, number, word[0], "the file has more than 4096 instructions");
    struct line *l = &s->lines[s->nlines++];
    *l = (struct line){.number = number, .match = -1};
    return read_words(s, l, word, n);
}

static weft_status match_repeats(struct script *s)
{
    int open[MAX_DEPTH], depth = 0;

    for (int i = 0; i < s->nlines; i++) {
        if (s->lines[i].kind == REPEAT) {
            if (depth == MAX_DEPTH)
                return wrong(s, s->lines[i].number, "repeat", "is nested deeper than 8");
            open[depth++] = i;
        } else if (s->lines[i].kind == END) {
            if (!depth)
                return wrong(s, s->lines[i].number, "end", "has no repeat");
            s->lines[i].match = open[--depth];
            s->lines[open[depth]].match = i;
        }
    }
    return depth ? wrong(s, s->lines[open[depth - 1]].number, "repeat", "has no end") : WEFT_SUCCESS;
}

static weft_status read_script(struct script *s)
{
    FILE *in = fopen(s->path, "r");
    char text[512];
    size_t total = 0;
    weft_status st = WEFT_SUCCESS;

    if (!in)
        return wi_fail_errno(errno, "%s", s->path);
    for (int number = 1; st >= 0 && fgets(text, sizeof text, in); number++) {
        size_t length = strlen(text);
        total += length;
        if (length == sizeof text - 1 && text[length - 1] != '\n')
            st = wi_fail(WEFT_ECONFIG, "%s line %d: longer than %zu characters", s->path, number, sizeof text - 2);
        else if (total > MAX_FILE)
            st = wi_fail(WEFT_ECONFIG, "%s: longer than 1 MiB", s->path);
        else
            st = read_line(s, text, number);
    }
    if (st >= 0 && ferror(in))
        st = wi_fail_errno(errno, "%s", s->path);
    fclose(in);
    if (st >= 0 && !s->nlines)
        st = wi_fail(WEFT_ECONFIG, "%s: no instruction", s->path);
    return st < 0 ? st : match_repeats(s);
}

/* ---- Running ---- */

static weft_status choose(const struct sim_options *o, const struct sim_world *w, const struct script *s,
                          struct line *l)
{
    const char *name = l->algo[0] ? l->algo : o->algo;

    if (l->chosen)
        return WEFT_SUCCESS;
    if (sim_choose(o, w, l->coll, l->bytes, name, &l->call) < 0)
        return wi_fail(WEFT_ECONFIG, "%s line %d: %s", s->path, l->number, wi_fail_text());
    l->starts = wi_calloc((size_t)w->nranks, sizeof *l->starts);
    l->took = wi_calloc((size_t)w->nranks, sizeof *l->took);
    if (!l->starts || !l->took)
        return wi_fail(WEFT_ENOMEM, "no memory for the times of %d ranks", w->nranks);
    l->chosen = 1;
    return WEFT_SUCCESS;
}

/* Starts relative to the first rank's; equal to the last time's? Then so are the ends. */
static double relative_starts(const struct script *s, const struct line *l, int nranks, int *same)
{
    double first = INFINITY;

    for (int r = 0; r < nranks; r++)
        first = fmin(first, fmax(s->compute[r], s->comm[r]));
    *same = l->times > 0;
    for (int r = 0; r < nranks; r++) {
        s->relative[r] = fmax(s->compute[r], s->comm[r]) - first;
        *same = *same && fabs(s->relative[r] - l->starts[r]) <= 1e-9 * (1 + first);
    }
    return first;
}

static weft_status run_collective(const struct sim_options *o, const struct sim_world *w, struct script *s,
                                  struct line *l)
{
    int same;

    WI_TRY(choose(o, w, s, l));
    double first = relative_starts(s, l, w->nranks, &same);
    if (!same) {
        struct wi_sim_result *r;
        if (sim_call_run(o, w, &l->call, s->relative, 0, &r, &l->busy_us) < 0)
            return wi_fail(WEFT_ECONFIG, "%s line %d: %s", s->path, l->number, wi_fail_text());
        memcpy(l->starts, s->relative, (size_t)w->nranks * sizeof *l->starts);
        for (int i = 0; i < w->nranks; i++)
            l->took[i] = r ? r->rank_us[i] : l->busy_us;
        wi_sim_result_free(r);
    }
    for (int r = 0; r < w->nranks; r++) {
        s->comm[r] = first + l->took[r];
        if (l->blocking)
            s->compute[r] = s->comm[r];
    }
    l->times++;
    s->comm_us += l->busy_us;
    return WEFT_SUCCESS;
}

static weft_status run_line(const struct sim_options *o, const struct sim_world *w, struct script *s, struct line *l)
{
    switch (l->kind) {
    case COMPUTE:
        s->compute_us += l->us;
        for (int r = 0; r < w->nranks; r++)
            s->compute[r] += l->us * w->core_factor[r];
        return WEFT_SUCCESS;
    case COLLECTIVE:
        return run_collective(o, w, s, l);
    case WAIT:
        for (int r = 0; r < w->nranks; r++)
            s->compute[r] = fmax(s->compute[r], s->comm[r]);
        return WEFT_SUCCESS;
    default:
        return WEFT_SUCCESS;
    }
}

static weft_status run_script(const struct sim_options *o, const struct sim_world *w, struct script *s)
{
    int64_t left[MAX_LINES];

    for (int i = 0; i < s->nlines; i++) {
        struct line *l = &s->lines[i];
        if (++s->steps > MAX_RUN)
            return wi_fail(WEFT_ENOTSUP, "%s line %d: more than %d instructions, repeats counted", s->path, l->number,
                           MAX_RUN);
        if (l->kind == REPEAT)
            left[i] = l->count;
        else if (l->kind == END && --left[l->match] > 0)
            i = l->match;
        else
            WI_TRY(run_line(o, w, s, l));
    }
    return WEFT_SUCCESS;
}

/* ---- Saying it ---- */

static double last(const double *us, int n)
{
    double most = 0;

    for (int i = 0; i < n; i++)
        most = fmax(most, us[i]);
    return most;
}

static void print_step(const struct sim_world *w, const struct script *s, double total, double exposed)
{
    char a[32], b[32];

    printf("%s, %d ranks, %s\n", s->path, w->nranks, w->text);
    printf("step           %s\n", sim_us_text(total, a));
    printf("compute        %s (%.1f%%)\n", sim_us_text(s->compute_us, a), total > 0 ? 100 * s->compute_us / total : 0);
    printf("communication  %s, of which %s not hidden behind compute (%.1f%% of the step)\n",
           sim_us_text(s->comm_us, a), sim_us_text(exposed, b), total > 0 ? 100 * exposed / total : 0);
    printf("\n%5s %-15s %12s %-16s %8s %14s %14s\n", "line", "collective", "bytes", "algorithm", "times", "each",
           "all");
    for (int i = 0; i < s->nlines; i++) {
        const struct line *l = &s->lines[i];
        char bytes[32];
        if (l->kind == COLLECTIVE)
            printf("%5d %-15s %12s %-16s %8lld %14s %14s\n", l->number, wi_coll_name(l->coll),
                   sim_bytes_text((double)l->bytes, bytes), sim_call_name(&l->call), (long long)l->times,
                   sim_us_text(l->busy_us, a), sim_us_text(l->busy_us * (double)l->times, b));
    }
}

static weft_status print_step_json(const struct sim_world *w, const struct script *s, double total, double exposed)
{
    json_t *calls = json_array();

    for (int i = 0; i < s->nlines; i++) {
        const struct line *l = &s->lines[i];
        if (l->kind == COLLECTIVE)
            json_array_append_new(calls,
                                  json_pack("{s:i, s:s, s:I, s:s, s:I, s:f, s:s}", "line", l->number, "collective",
                                            wi_coll_name(l->coll), "bytes", (json_int_t)l->bytes, "algorithm",
                                            sim_call_name(&l->call), "times", (json_int_t)l->times, "us", l->busy_us,
                                            "method", l->call.by_formula ? "formula" : "events"));
    }
    json_t *all = json_pack("{s:s, s:s, s:i, s:f, s:f, s:f, s:f, s:o}", "machine", w->text, "file", s->path, "ranks",
                            w->nranks, "us", total, "compute_us", s->compute_us, "communication_us", s->comm_us,
                            "exposed_us", exposed, "collectives", calls);
    int bad = !all || json_dumpf(all, stdout, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
    putchar('\n');
    json_decref(all);
    return bad ? wi_fail(WEFT_ENOMEM, "the JSON could not be written") : WEFT_SUCCESS;
}

weft_status sim_step_run(const struct sim_options *o, const struct sim_world *w)
{
    struct script s = {.path = o->step};
    size_t n = (size_t)w->nranks;
    weft_status st;

    s.lines = wi_calloc(MAX_LINES, sizeof *s.lines);
    s.compute = wi_calloc(n, sizeof *s.compute);
    s.comm = wi_calloc(n, sizeof *s.comm);
    s.relative = wi_calloc(n, sizeof *s.relative);
    if (!s.lines || !s.compute || !s.comm || !s.relative)
        st = wi_fail(WEFT_ENOMEM, "no memory for a step of %d ranks", w->nranks);
    else
        st = read_script(&s);
    if (st >= 0)
        memcpy(s.compute, w->start_us, n * sizeof *s.compute);
    if (st >= 0)
        st = run_script(o, w, &s);
    if (st >= 0) {
        double total = fmax(last(s.compute, w->nranks), last(s.comm, w->nranks));
        double exposed = fmax(0, total - s.compute_us);
        if (o->json)
            st = print_step_json(w, &s, total, exposed);
        else
            print_step(w, &s, total, exposed);
    }
    for (int i = 0; i < s.nlines; i++) {
        wi_free(s.lines[i].starts);
        wi_free(s.lines[i].took);
    }
    wi_free(s.lines);
    wi_free(s.compute);
    wi_free(s.comm);
    wi_free(s.relative);
    return st;
}
