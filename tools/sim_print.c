/* SPDX-License-Identifier: BSD-3-Clause */
/* What weft-sim says of one collective: text, or JSON. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "weft_sim.h"

#define CRITICAL_LINES 60 /* of each end */
#define TIMELINE_COLUMNS 100

const char *sim_us_text(double us, char text[32])
{
    if (us < 1e3)
        snprintf(text, 32, "%.3f us", us);
    else if (us < 1e6)
        snprintf(text, 32, "%.3f ms", us / 1e3);
    else
        snprintf(text, 32, "%.3f s", us / 1e6);
    return text;
}

const char *sim_bytes_text(double bytes, char text[32])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int i = 0;

    for (; bytes >= 1024 && i < 4; i++)
        bytes /= 1024;
    snprintf(text, 32, "%.4g %s", bytes, units[i]);
    return text;
}

/* ---- Links ---- */

static const struct wi_sim_use *sort_use;

static int by_use(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    if (sort_use[x].busy_us != sort_use[y].busy_us)
        return sort_use[x].busy_us > sort_use[y].busy_us ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* Those in use, the busiest first; the caller frees. NULL without memory. */
static uint32_t *used_links(const struct wi_sim_result *r, uint32_t *n)
{
    uint32_t *links = wi_malloc((r->nresources + 1) * sizeof *links);

    *n = 0;
    for (uint32_t i = 0; links && i < r->nresources; i++)
        if (r->use[i].bytes > 0)
            links[(*n)++] = i;
    sort_use = r->use;
    if (links)
        qsort(links, *n, sizeof *links, by_use);
    return links;
}

static double share_used(const struct wi_model *m, const struct wi_sim_result *r, uint32_t link)
{
    return r->finish_us > 0 ? r->use[link].bytes / (m->resources[link].rate * r->finish_us) : 0;
}

static void print_links(const struct sim_world *w, const struct wi_sim_result *r, const uint32_t *links, uint32_t n)
{
    printf("\n%-40s %12s %12s %7s %7s\n", "link", "rate", "bytes", "in use", "of rate");
    for (uint32_t i = 0; i < n; i++) {
        char bytes[32];
        printf("%-40s %7.5g GB/s %12s %6.1f%% %6.1f%%\n", w->model->resources[links[i]].name,
               w->model->resources[links[i]].rate / 1e3, sim_bytes_text(r->use[links[i]].bytes, bytes),
               100 * r->use[links[i]].busy_us / r->finish_us, 100 * share_used(w->model, r, links[i]));
    }
}

/* ---- The critical path ---- */

static void print_critical(const struct sim_world *w, const struct wi_sim_result *r, const uint32_t *path, uint32_t n)
{
    double kind_us[WI_SIM_NUM_SPANS] = {0}, latency = 0;
    char text[256], time[32];

    for (uint32_t i = n; i-- > 0;) {
        const struct wi_sim_span *s = &r->spans[path[i]];
        kind_us[s->kind] += s->drained - s->start;
        /* What follows on the same channel begins when this one has left, not when it arrives. */
        if (s->kind == WI_SIM_WIRE && (i == 0 || r->spans[path[i - 1]].start >= s->end - 1e-9))
            latency += s->end - s->drained;
    }
    printf("\ncritical path: %u spans:", n);
    for (int k = 0; k < WI_SIM_NUM_SPANS; k++)
        if (kind_us[k] > 0)
            printf(" %s %s,", wi_sim_span_name((unsigned)k), sim_us_text(kind_us[k], time));
    printf(" latency %s\n", sim_us_text(latency, time));
    for (uint32_t i = n; i-- > 0;) {
        const struct wi_sim_span *s = &r->spans[path[i]];
        if (n > 2 * CRITICAL_LINES && i == n - 1 - CRITICAL_LINES) {
            printf("%12s … %u more …\n", "", n - 2 * CRITICAL_LINES);
            i = CRITICAL_LINES;
            continue;
        }
        wi_sim_span_text(w->model, s, text, sizeof text);
        printf("%12.3f %12.3f  %s\n", s->start, s->end, text);
    }
}

/* ---- Text ---- */

/* What of `bytes` each link must carry at least, over the time: as nccl-tests and weft-bench have it. */
static double bus_factor(const struct sim_call *call, int nranks)
{
    double p = nranks;

    switch (call->coll) {
    case WI_COLL_ALL_REDUCE:
        return 2 * (p - 1) / p;
    case WI_COLL_ALL_GATHER:
    case WI_COLL_REDUCE_SCATTER:
    case WI_COLL_ALL_TO_ALL:
        return p - 1; /* bytes are one rank's share */
    default:
        return 1;
    }
}

static void print_head(const struct sim_world *w, const struct sim_call *call, const struct wi_sim_result *r, double us)
{
    char bytes[32], slice[32], time[32];

    printf("%s, %s, %d ranks, %s, %s\n", wi_coll_name(call->coll), sim_bytes_text((double)call->bytes, bytes),
           w->nranks, sim_call_name(call), w->text);
    printf("time          %s", sim_us_text(us, time));
    if (r)
        printf(" (by events: %llu messages, %llu events, %s%s)\n", (unsigned long long)r->nmessages,
               (unsigned long long)r->nevents, call->slice ? "slices of " : "whole blocks",
               call->slice ? sim_bytes_text((double)call->slice, slice) : "");
    else
        printf(" (by formula)\n");
    if (call->bytes && us > 0)
        printf("bandwidth     %.4g GB/s, on the bus %.4g GB/s\n", (double)call->bytes / us / 1e3,
               (double)call->bytes * bus_factor(call, w->nranks) / us / 1e3);
}

static void print_ranks(const struct wi_sim_result *r)
{
    int first = 0, last = 0;
    char a[32], b[32];

    for (int i = 0; i < r->nranks; i++) {
        first = r->rank_us[i] < r->rank_us[first] ? i : first;
        last = r->rank_us[i] > r->rank_us[last] ? i : last;
    }
    printf("ranks end     first %d at %s, last %d at %s\n", first, sim_us_text(r->rank_us[first], a), last,
           sim_us_text(r->rank_us[last], b));
}

static void print_busiest(const struct sim_world *w, const struct wi_sim_result *r, const uint32_t *links, uint32_t n)
{
    if (n)
        printf("busiest link  %s, in use %.1f%% of the time, at %.1f%% of its rate over all of it\n",
               w->model->resources[links[0]].name, 100 * r->use[links[0]].busy_us / r->finish_us,
               100 * share_used(w->model, r, links[0]));
}

static weft_status print_text(const struct sim_options *o, const struct sim_world *w, const struct sim_call *call,
                              const struct wi_sim_result *r, double us, const uint32_t *links, uint32_t nlinks,
                              const uint32_t *path, uint32_t npath)
{
    print_head(w, call, r, us);
    if (!r)
        return WEFT_SUCCESS;
    print_ranks(r);
    print_busiest(w, r, links, nlinks);
    if (o->links)
        print_links(w, r, links, nlinks);
    if (o->critical)
        print_critical(w, r, path, npath);
    if (!o->timeline)
        return WEFT_SUCCESS;
    putchar('\n');
    return wi_sim_timeline(r, TIMELINE_COLUMNS, stdout);
}

/* ---- JSON ---- */

static json_t *links_json(const struct sim_world *w, const struct wi_sim_result *r, const uint32_t *links, uint32_t n)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < n; i++)
        json_array_append_new(list, json_pack("{s:s, s:f, s:f, s:f, s:f}", "name", w->model->resources[links[i]].name,
                                              "bytes_per_us", w->model->resources[links[i]].rate, "bytes",
                                              r->use[links[i]].bytes, "busy_us", r->use[links[i]].busy_us,
                                              "share_of_rate", share_used(w->model, r, links[i])));
    return list;
}

static json_t *critical_json(const struct sim_world *w, const struct wi_sim_result *r, const uint32_t *path, uint32_t n)
{
    json_t *list = json_array();

    for (uint32_t i = n; i-- > 0;) {
        const struct wi_sim_span *s = &r->spans[path[i]];
        json_t *span = json_pack("{s:s, s:i, s:i, s:i, s:i, s:I, s:f, s:f}", "kind", wi_sim_span_name(s->kind), "rank",
                                 s->rank, "lane", (int)s->lane, "step", (int)s->step, "slice", (int)s->slice, "bytes",
                                 (json_int_t)s->bytes, "start_us", s->start, "end_us", s->end);
        if (s->peer >= 0)
            json_object_set_new(span, "peer", json_integer(s->peer));
        if (s->resource != WI_SIM_NONE)
            json_object_set_new(span, "limited_by", json_string(w->model->resources[s->resource].name));
        json_array_append_new(list, span);
    }
    return list;
}

static weft_status print_json(const struct sim_options *o, const struct sim_world *w, const struct sim_call *call,
                              const struct wi_sim_result *r, double us, const uint32_t *links, uint32_t nlinks,
                              const uint32_t *path, uint32_t npath)
{
    json_t *all = json_pack("{s:s, s:s, s:s, s:I, s:I, s:i, s:f, s:s}", "machine", w->text, "collective",
                            wi_coll_name(call->coll), "algorithm", sim_call_name(call), "bytes",
                            (json_int_t)call->bytes, "slice_bytes", (json_int_t)call->slice, "ranks", w->nranks, "us",
                            us, "method", r ? "events" : "formula");
    if (all && r) {
        json_t *ranks = json_array();
        for (int i = 0; i < r->nranks; i++)
            json_array_append_new(ranks, json_real(r->rank_us[i]));
        json_object_set_new(all, "rank_us", ranks);
        json_object_set_new(all, "messages", json_integer((json_int_t)r->nmessages));
        json_object_set_new(all, "events", json_integer((json_int_t)r->nevents));
        if (o->links)
            json_object_set_new(all, "links", links_json(w, r, links, nlinks));
        if (o->critical)
            json_object_set_new(all, "critical", critical_json(w, r, path, npath));
    }
    int bad = !all || json_dumpf(all, stdout, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
    putchar('\n');
    json_decref(all);
    return bad ? wi_fail(WEFT_ENOMEM, "the JSON could not be written") : WEFT_SUCCESS;
}

/* ---- All of it ---- */

static weft_status write_trace(const struct sim_options *o, const struct sim_world *w, const struct sim_call *call,
                               const struct wi_sim_result *r)
{
    FILE *out = fopen(o->perfetto, "w");
    char title[400];

    if (!out)
        return wi_fail_errno(errno, "%s", o->perfetto);
    snprintf(title, sizeof title, "weft-sim: %s %s, %zu bytes, %d ranks, %s", wi_coll_name(call->coll),
             sim_call_name(call), call->bytes, w->nranks, w->text);
    weft_status st = wi_sim_perfetto(r, w->model, title, out);
    if (fclose(out) && st >= 0)
        st = wi_fail_errno(errno, "%s", o->perfetto);
    return st;
}

weft_status sim_report(const struct sim_options *o, const struct sim_world *w, const struct sim_call *call,
                       const struct wi_sim_result *r, double us)
{
    uint32_t nlinks = 0, npath = r && o->critical ? wi_sim_critical(r, NULL, 0) : 0;
    uint32_t *links = r ? used_links(r, &nlinks) : NULL, *path = wi_malloc((npath + 1) * sizeof *path);
    weft_status st = WEFT_SUCCESS;

    if (!path || (r && !links))
        st = wi_fail(WEFT_ENOMEM, "no memory for the report");
    if (st >= 0 && npath)
        wi_sim_critical(r, path, npath);
    if (st >= 0)
        st = (o->json ? print_json : print_text)(o, w, call, r, us, links, nlinks, path, npath);
    if (st >= 0 && o->perfetto)
        st = write_trace(o, w, call, r);
    wi_free(links);
    wi_free(path);
    return st;
}
