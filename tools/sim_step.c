/* SPDX-License-Identifier: BSD-3-Clause */
/* A training step (sim_script.h): compute and collectives on two streams of each rank. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/settings.h"
#include "base/status.h"
#include "sim_script.h"
#include "weft_sim.h"

struct line {
    struct sim_line said;
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

/* ---- Running ---- */

static weft_status choose(const struct sim_options *o, const struct sim_world *w, const struct script *s,
                          struct line *l)
{
    const char *name = l->said.algo[0] ? l->said.algo : o->algo;

    if (l->chosen)
        return WEFT_SUCCESS;
    if (sim_choose(o, w, l->said.coll, l->said.bytes, name, &l->call) < 0)
        return wi_fail(WEFT_ECONFIG, "%s line %d: %s", s->path, l->said.number, wi_fail_text());
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
            return wi_fail(WEFT_ECONFIG, "%s line %d: %s", s->path, l->said.number, wi_fail_text());
        memcpy(l->starts, s->relative, (size_t)w->nranks * sizeof *l->starts);
        for (int i = 0; i < w->nranks; i++)
            l->took[i] = r ? r->rank_us[i] : l->busy_us;
        wi_sim_result_free(r);
    }
    for (int r = 0; r < w->nranks; r++) {
        s->comm[r] = first + l->took[r];
        if (l->said.blocking)
            s->compute[r] = s->comm[r];
    }
    l->times++;
    s->comm_us += l->busy_us;
    return WEFT_SUCCESS;
}

static weft_status run_line(const struct sim_options *o, const struct sim_world *w, struct script *s, struct line *l)
{
    switch (l->said.kind) {
    case SIM_COMPUTE:
        s->compute_us += l->said.us;
        for (int r = 0; r < w->nranks; r++)
            s->compute[r] += l->said.us * w->core_factor[r];
        return WEFT_SUCCESS;
    case SIM_COLLECTIVE:
        return run_collective(o, w, s, l);
    case SIM_WAIT:
        for (int r = 0; r < w->nranks; r++)
            s->compute[r] = fmax(s->compute[r], s->comm[r]);
        return WEFT_SUCCESS;
    default:
        return WEFT_SUCCESS;
    }
}

static weft_status run_script(const struct sim_options *o, const struct sim_world *w, struct script *s)
{
    int64_t left[SIM_MAX_LINES];

    for (int i = 0; i < s->nlines; i++) {
        struct line *l = &s->lines[i];
        if (++s->steps > SIM_MAX_RUN)
            return wi_fail(WEFT_ENOTSUP, "%s line %d: more than %d instructions, repeats counted", s->path,
                           l->said.number, SIM_MAX_RUN);
        if (l->said.kind == SIM_REPEAT)
            left[i] = l->said.count;
        else if (l->said.kind == SIM_END && --left[l->said.match] > 0)
            i = l->said.match;
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
        if (l->said.kind == SIM_COLLECTIVE)
            printf("%5d %-15s %12s %-16s %8lld %14s %14s\n", l->said.number, wi_coll_name(l->said.coll),
                   sim_bytes_text((double)l->said.bytes, bytes), sim_call_name(&l->call), (long long)l->times,
                   sim_us_text(l->busy_us, a), sim_us_text(l->busy_us * (double)l->times, b));
    }
}

static weft_status print_step_json(const struct sim_world *w, const struct script *s, double total, double exposed)
{
    json_t *calls = json_array();

    for (int i = 0; i < s->nlines; i++) {
        const struct line *l = &s->lines[i];
        if (l->said.kind == SIM_COLLECTIVE)
            json_array_append_new(calls,
                                  json_pack("{s:i, s:s, s:I, s:s, s:I, s:f, s:s}", "line", l->said.number, "collective",
                                            wi_coll_name(l->said.coll), "bytes", (json_int_t)l->said.bytes, "algorithm",
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

static weft_status read_script(struct script *s)
{
    struct sim_script read = {0};
    weft_status st;
    FILE *in;
    int fd;

    WI_TRY(wi_file_open(s->path, "script of a step", &fd));
    in = fdopen(fd, "r");
    if (!in) {
        close(fd);
        return wi_fail_errno(ENOMEM, "%s", s->path);
    }
    st = sim_script_read(s->path, in, &read);
    fclose(in);
    if (st >= 0) {
        s->lines = wi_calloc((size_t)read.nlines, sizeof *s->lines);
        st = s->lines ? WEFT_SUCCESS : wi_fail(WEFT_ENOMEM, "%s: no memory for %d lines", s->path, read.nlines);
    }
    for (int i = 0; st >= 0 && i < read.nlines; i++)
        s->lines[s->nlines++].said = read.lines[i];
    wi_free(read.lines);
    return st;
}

weft_status sim_step_run(const struct sim_options *o, const struct sim_world *w)
{
    struct script s = {.path = o->step};
    size_t n = (size_t)w->nranks;
    weft_status st;

    s.compute = wi_calloc(n, sizeof *s.compute);
    s.comm = wi_calloc(n, sizeof *s.comm);
    s.relative = wi_calloc(n, sizeof *s.relative);
    if (!s.compute || !s.comm || !s.relative)
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
