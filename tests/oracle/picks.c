/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/oracle/picks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/alloc.h"
#include "base/status.h"
#include "sched/internal.h"

#define LINE 16384
#define UNITS 400000u

struct reader {
    struct oracle_picks *picks;
    struct oracle_world world;
    int open;
    char job[ORACLE_TEXT];
    int line;
};

static double user_us(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (double)u.ru_utime.tv_sec * 1e6 + (double)u.ru_utime.tv_usec;
}

static int read_job(struct reader *r, const char *text)
{
    if (r->open)
        oracle_close(&r->world);
    r->open = 0;
    r->picks->njobs++;
    if (strlen(text) >= sizeof r->job) {
        printf("# line %d: longer than %zu characters\n", r->line, sizeof r->job - 1);
        return -1;
    }
    strcpy(r->job, text);
    if (oracle_open(&r->world, text) < 0) {
        printf("# line %d: %s\n", r->line, wi_fail_text());
        return -1;
    }
    r->open = 1;
    return 0;
}

struct found {
    double best, picked;
    char best_name[WI_ALGO_SPEC_BYTES];
};

/* NAME=US ..., where "~" before a name says by loads. */
static int search(char *words, const char *name, struct found *f)
{
    char *save = NULL;

    *f = (struct found){INFINITY, -1, ""};
    for (char *word = strtok_r(words, " \n", &save); word; word = strtok_r(NULL, " \n", &save)) {
        char *equals = strchr(word, '=');
        double us = equals ? atof(equals + 1) : 0;
        int loads = *word == '~'; /* what it takes is not known, but that it is far from the best */
        if (us < 0 || !equals)
            return -1;
        *equals = '\0';
        word += loads;
        if (strcmp(word, name) == 0)
            f->picked = loads ? 0 : us;
        if (us >= f->best || loads)
            continue;
        f->best = us;
        snprintf(f->best_name, sizeof f->best_name, "%s", word);
    }
    return isinf(f->best) ? -1 : 0;
}

static struct oracle_pick *add_pick(struct oracle_picks *p)
{
    if (p->npicks == p->capacity) {
        int more = p->capacity ? 2 * p->capacity : 64;
        struct oracle_pick *grown = realloc(p->pick, (size_t)more * sizeof *grown);
        if (!grown)
            return NULL;
        p->pick = grown;
        p->capacity = more;
    }
    return &p->pick[p->npicks++];
}

static weft_status choose(struct reader *r, const struct wi_plan_query *q, struct wi_plan *plan)
{
    double before = user_us();
    weft_status st = wi_plan(r->world.planner, q, NULL, plan);

    r->picks->choose_us += user_us() - before;
    return st;
}

static weft_status run_unlisted(struct reader *r, const struct wi_plan *plan, size_t bytes, double *us)
{
    struct wi_algo_choice c = {.algo = plan->algo, .spec = plan->spec};
    struct wi_sim_cost cost = {0};
    weft_status st;

    r->picks->unlisted++;
    st = oracle_run(&r->world, &c, bytes, UNITS, &cost);
    *us = cost.us;
    return st;
}

static int judge(struct reader *r, const struct wi_plan_query *q, char *words)
{
    struct oracle_pick *pick;
    struct wi_plan plan;
    struct found f;
    weft_status st = choose(r, q, &plan);
    char text[WI_ALGO_SPEC_BYTES];
    const char *name = st < 0 ? "" : wi_algo_text(plan.algo, &plan.spec, text);

    if (st >= 0 && search(words, name, &f) < 0)
        st = wi_fail(WEFT_EINVAL, "NAME=US ... expected");
    if (st >= 0 && f.picked == 0) {
        r->picks->unknown++;
        return 0;
    }
    if (st >= 0 && f.picked < 0)
        st = run_unlisted(r, &plan, q->bytes, &f.picked);
    pick = st < 0 ? NULL : add_pick(r->picks);
    if (!pick) {
        printf("# line %d: %s\n", r->line, st < 0 ? wi_fail_text() : "no memory");
        return -1;
    }
    pick->ratio = f.picked / f.best;
    snprintf(pick->text, sizeof pick->text, "%s of %zu bytes: %s %.5g us, %s %.5g us; %d ranks, %s",
             wi_coll_name(q->coll), q->bytes, name, f.picked, f.best_name, f.best, r->world.nranks, r->job);
    return 0;
}

static int read_question(struct reader *r, char *line)
{
    struct wi_plan_query q = {0};
    char coll[32];
    int at = 0;

    if (sscanf(line, "%31s %zu%n", coll, &q.bytes, &at) != 2)
        at = 0;
    while (q.coll < WI_NUM_COLLS && strcmp(wi_coll_name(q.coll), coll) != 0)
        q.coll++;
    if (!at || q.coll == WI_NUM_COLLS || !r->open) {
        printf("# line %d: neither a job nor, after one, a collective and bytes\n", r->line);
        return -1;
    }
    return judge(r, &q, line + at);
}

static int worse_first(const void *a, const void *b)
{
    double x = ((const struct oracle_pick *)a)->ratio, y = ((const struct oracle_pick *)b)->ratio;

    return (x < y) - (x > y);
}

int oracle_judge(const char *path, struct oracle_picks *picks)
{
    struct reader r = {.picks = picks};
    char line[LINE];
    FILE *in = fopen(path, "r");
    int bad = !in;

    *picks = (struct oracle_picks){0};
    if (bad)
        printf("# %s cannot be read\n", path);
    while (!bad && fgets(line, sizeof line, in)) {
        r.line++;
        line[strcspn(line, "\n")] = '\0';
        if (line[0] && line[0] != '#')
            bad = strncmp(line, "job ", 4) == 0 ? read_job(&r, line + 4) : read_question(&r, line);
    }
    if (r.open)
        oracle_close(&r.world);
    if (in)
        fclose(in);
    if (picks->npicks)
        qsort(picks->pick, (size_t)picks->npicks, sizeof *picks->pick, worse_first);
    return bad || !picks->npicks ? -1 : 0;
}

void oracle_picks_free(struct oracle_picks *picks)
{
    free(picks->pick);
}

double oracle_mean(const struct oracle_picks *picks)
{
    double sum = 0;

    for (int i = 0; i < picks->npicks; i++)
        sum += log(picks->pick[i].ratio);
    return exp(sum / picks->npicks);
}

double oracle_percentile(const struct oracle_picks *picks, double percent)
{
    int above = (int)floor(picks->npicks * (100 - percent) / 100);

    return picks->pick[above < picks->npicks ? above : picks->npicks - 1].ratio;
}
