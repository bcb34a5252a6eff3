/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-tune: measure links and algorithms, and write the table by which communicators then choose. */
#include "weft_tune.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/status.h"
#include "tool.h"

double tune_now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

weft_status tune_fail(const struct tune *t, const char *what, weft_status status)
{
    weft_error e = WEFT_ERROR_INIT;
    const char *text = weft_thread_error();

    if (t->comm && weft_last_error(t->comm, &e) == WEFT_SUCCESS && e.message && e.message[0])
        text = e.message;
    fprintf(stderr, "%sweft-tune: rank %d: %s: %s%s%s\n", t->terminal ? "\n" : "", t->rank, what,
            weft_status_text(status), text && *text ? ": " : "", text ? text : "");
    return status;
}

weft_status tune_max(struct tune *t, double *value)
{
    double mine = *value;

    return weft_all_reduce(t->comm, &mine, value, 1, WEFT_FLOAT64, WEFT_MAX, NULL);
}

weft_status tune_tell(struct tune *t, void *data, size_t bytes)
{
    return weft_broadcast(t->comm, data, data, bytes, WEFT_UINT8, 0, NULL);
}

void tune_progress(struct tune *t, const char *what, size_t bytes)
{
    char bar[31];
    int filled = t->total ? t->done * 30 / t->total : 0;

    if (t->rank || t->o.quiet || !t->terminal)
        return;
    for (int i = 0; i < 30; i++)
        bar[i] = i < filled ? '#' : '.';
    bar[30] = '\0';
    fprintf(stderr, "\r[%s] %3d%%  %-16.16s %10zu bytes ", bar, t->total ? t->done * 100 / t->total : 0, what, bytes);
    fflush(stderr);
}

/* ---- The table that there is ---- */

/* Rank 0's file, for all ranks: they must skip the same points. */
static weft_status share_file(struct tune *t)
{
    char machine[160], *text = NULL, message[512] = "";
    uint64_t head[2] = {0, 0}; /* bytes, failed */
    size_t bytes = 0;
    weft_status st;

    wi_plan_machine(machine, sizeof machine);
    if (t->rank == 0) {
        FILE *f = NULL;
        if (access(t->o.output, F_OK) == 0) {
            st = wi_plan_table_load(t->o.output, &t->table);
            if (st >= 0)
                st = wi_plan_table_check(t->table, t->o.output, machine);
        } else {
            st = wi_plan_table_create(machine, &t->table);
        }
        if (st >= 0 && (f = open_memstream(&text, &bytes)) != NULL)
            st = wi_plan_table_write(t->table, f);
        if (f)
            fclose(f);
        if (st < 0)
            snprintf(message, sizeof message, "%s", wi_fail_text());
        head[0] = bytes;
        head[1] = st < 0 || !text;
        if (head[1]) /* before the others know, whose end may end this rank */
            fprintf(stderr, "weft-tune: %s\n", message[0] ? message : "no memory for the table");
    }
    WI_TRY(tune_tell(t, head, sizeof head));
    if (head[1]) {
        free(text);
        return WEFT_ECONFIG;
    }
    if (t->rank)
        text = malloc(head[0]);
    st = text ? tune_tell(t, text, head[0]) : WEFT_ENOMEM;
    if (st >= 0 && t->rank)
        st = wi_plan_table_parse(text, head[0], t->o.output, &t->table);
    free(text);
    return st;
}

static weft_status begin_table(struct tune *t)
{
    struct tm tm;
    time_t now = time(NULL);
    const char *host;

    WI_TRY(share_file(t));
    snprintf(t->table->version, sizeof t->table->version, "%s", weft_version());
    if (gmtime_r(&now, &tm))
        strftime(t->table->made, sizeof t->table->made, "%Y-%m-%dT%H:%M:%SZ", &tm);
    for (int r = 0; r < t->nranks; r++)
        if (weft_comm_host(t->comm, r, &host) == WEFT_SUCCESS)
            WI_TRY(wi_plan_table_host(t->table, host));
    return wi_plan_table_section(t->table, t->nranks, t->nnodes, t->map, &t->section);
}

/* ---- Measuring ---- */

static weft_status make_planner(struct tune *t)
{
    const struct wi_table_section *s = &t->table->sections[t->section];
    struct wi_plan_link_params params;
    struct wi_plan_facts facts;
    struct wi_plan_config config = {.facts = &facts, .params = &params, .rates = &s->rates};

    tune_facts(&facts, &t->levels, t->nranks, t->nnodes);
    wi_plan_default_link_params(&facts, &params);
    for (size_t i = 0; i < WI_PLAN_NUM_LINK_PARAMS; i++)
        if (s->has[i])
            ((double *)&params)[i] = ((const double *)&s->params)[i];
    WI_TRY(wi_planner_create(&config, &t->planner));
    if (!t->o.table)
        return WEFT_SUCCESS;
    WI_TRY(wi_plan_table_load(t->o.table, &t->chooser_table));
    config = (struct wi_plan_config){.facts = &facts, .table = t->chooser_table};
    return wi_planner_create(&config, &t->chooser);
}

static weft_status measure(struct tune *t)
{
    weft_status st;

    WI_TRY(begin_table(t));
    if (t->o.links) {
        st = tune_measure_links(t);
        if (st < 0)
            return tune_fail(t, "measuring links", st);
    }
    if (t->o.rates) {
        st = tune_measure_rates(t);
        if (st < 0)
            return tune_fail(t, "measuring cores", st);
    }
    st = make_planner(t);
    if (st < 0) {
        fprintf(stderr, "weft-tune: %s\n", wi_fail_text());
        return st;
    }
    st = tune_measure_colls(t);
    if (t->rank == 0 && st >= 0) {
        st = wi_plan_table_save(t->table, t->o.output);
        if (st < 0)
            fprintf(stderr, "weft-tune: %s\n", wi_fail_text());
    }
    if (t->rank || st < 0 || t->o.quiet)
        return st;
    if (t->terminal)
        fputs("\r\033[K", stderr);
    printf("%s: %d ranks on %d node(s), %d points measured now in %d rounds, %u in all\n", t->o.output, t->nranks,
           t->nnodes, t->measured, t->rounds, t->table->npoints);
    tune_report_worst(t->table, t->section);
    return st;
}

static int run(struct tune *t)
{
    weft_context_config cc = WEFT_CONTEXT_CONFIG_INIT;
    weft_status st;

    unsetenv("WEFT_ALGO"); /* what is measured is named here */
    unsetenv("WEFT_TUNING_FILE");
    st = weft_context_create(&cc, &t->ctx);
    if (st >= 0)
        st = weft_comm_create_env(t->ctx, NULL, &t->comm);
    if (st < 0) {
        tune_fail(t, "starting", st);
        weft_context_destroy(t->ctx);
        return 1;
    }
    weft_comm_rank(t->comm, &t->rank);
    weft_comm_size(t->comm, &t->nranks);
    t->terminal = t->rank == 0 && isatty(2);
    if (t->o.total_s > 0)
        t->deadline_ns = (uint64_t)(tune_now_us() * 1e3 + t->o.total_s * 1e9);
    st = tune_find_nodes(t);
    if (st >= 0)
        st = measure(t);
    else
        tune_fail(t, "finding the nodes", st);
    wi_planner_destroy(t->planner);
    wi_planner_destroy(t->chooser);
    wi_plan_table_free(t->chooser_table);
    wi_plan_table_free(t->table);
    wi_free(t->level_memory);
    free(t->node_of);
    weft_comm_destroy(t->comm);
    weft_context_destroy(t->ctx);
    return st < 0;
}

int main(int argc, char **argv)
{
    struct tune t = {0};
    int parsed = tune_options_parse(argc, argv, tool_launcher_rank(), &t.o);

    if (parsed)
        return parsed == 1 ? tool_output_lost("weft-tune") : parsed;
    int failed = t.o.check ? tune_check(&t.o) : run(&t);
    return failed ? failed : tool_output_lost("weft-tune");
}
