/* SPDX-License-Identifier: BSD-3-Clause */
/* What a recorded run shows: the critical path, a time line as text, a trace for Perfetto. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "sim/sim.h"

uint32_t wi_sim_critical(const struct wi_sim_result *r, uint32_t *spans, uint32_t max)
{
    uint32_t at = WI_SIM_NONE, n = 0;

    for (int i = r->nranks; i-- > 0;)
        if (r->rank_us[i] == r->finish_us)
            at = r->rank_last[i];
    /* A span's cause was made before it, so that this ends. */
    for (; at != WI_SIM_NONE && at < r->nspans; at = r->spans[at].cause) {
        if (n < max)
            spans[n] = at;
        n++;
    }
    return n;
}

void wi_sim_span_text(const struct wi_model *model, const struct wi_sim_span *s, char *text, size_t capacity)
{
    char where[96] = "", what[64] = "";

    if (s->kind == WI_SIM_WIRE)
        snprintf(where, sizeof where, "%d → %d", s->rank, s->peer);
    else if (s->kind == WI_SIM_SEND || s->kind == WI_SIM_RECV)
        snprintf(where, sizeof where, "rank %d %s %d", s->rank, s->kind == WI_SIM_SEND ? "to" : "from", s->peer);
    else
        snprintf(where, sizeof where, "rank %d", s->rank);
    if (s->bytes)
        snprintf(what, sizeof what, ", %llu bytes", (unsigned long long)s->bytes);
    snprintf(text, capacity, "%-6s %s, lane %u step %u slice %u%s%s%s", wi_sim_span_name(s->kind), where, s->lane,
             s->step, s->slice, what, s->resource != WI_SIM_NONE ? ", limited by " : "",
             s->resource != WI_SIM_NONE ? model->resources[s->resource].name : "");
}

/* ---- Time line ---- */

/* Later letters win where spans meet in one column: what a core does shows over what is on its way. */
static char letter(const struct wi_sim_span *s)
{
    return " >~<+=."[s->kind + 1];
}

static void draw(char *row, int columns, double finish, double start, double end, char c)
{
    int from = (int)(start / finish * columns), to = (int)ceil(end / finish * columns);

    from = from < columns ? from : columns - 1;
    to = to > from ? to : from + 1;
    for (int i = from; i < to && i < columns; i++)
        row[i] = c;
}

weft_status wi_sim_timeline(const struct wi_sim_result *r, int columns, FILE *out)
{
    double finish = r->finish_us > 0 ? r->finish_us : 1;
    size_t wide = (size_t)columns + 1;
    char *rows;

    if (columns < 8 || columns > 4096)
        return wi_fail(WEFT_EINVAL, "a time line of %d columns", columns);
    rows = wi_malloc((size_t)r->nranks * wide);
    if (!rows)
        return wi_fail(WEFT_ENOMEM, "time line of %d ranks", r->nranks);
    memset(rows, ' ', (size_t)r->nranks * wide);
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < r->nspans; i++) {
            const struct wi_sim_span *s = &r->spans[i];
            if ((s->kind == WI_SIM_WIRE || s->kind == WI_SIM_WAIT) == pass)
                continue;
            draw(rows + (size_t)s->rank * wide, columns, finish, s->start, s->end, letter(s));
        }
    }
    fprintf(out, "0 us%*s%.3f us\n", columns > 4 ? columns + 6 - 4 : 2, "", r->finish_us);
    for (int i = 0; i < r->nranks; i++) {
        rows[(size_t)i * wide + (size_t)columns] = '\0';
        fprintf(out, "%5d |%s|\n", i, rows + (size_t)i * wide);
    }
    fprintf(out, "~ its message is on the way  > send  < receive  + reduce  = copy  . wait\n");
    wi_free(rows);
    return WEFT_SUCCESS;
}

/* ---- Perfetto ---- */

static void json_text(FILE *out, const char *text)
{
    putc('"', out);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fprintf(out, "\\%c", *text);
        else if ((unsigned char)*text < 0x20)
            fprintf(out, "\\u%04x", (unsigned char)*text);
        else
            putc(*text, out);
    }
    putc('"', out);
}

/* Track 0 is the core, which does one thing at a time; messages of a lane leave one after the other, too. */
static void trace_span(FILE *out, const struct wi_model *model, const struct wi_sim_span *s, uint32_t index)
{
    int is_wire = s->kind == WI_SIM_WIRE || s->kind == WI_SIM_WAIT;
    double end = s->kind == WI_SIM_WIRE ? s->drained : s->end;

    fprintf(out, ",\n{\"ph\":\"X\",\"pid\":%d,\"tid\":%u,\"ts\":%.6f,\"dur\":%.6f,\"name\":\"%s", s->rank,
            is_wire ? s->lane + 1 : 0, s->start, end - s->start, wi_sim_span_name(s->kind));
    if (s->peer >= 0 && s->kind != WI_SIM_WAIT)
        fprintf(out, " %s %d", s->kind == WI_SIM_WIRE || s->kind == WI_SIM_SEND ? "to" : "from", s->peer);
    fprintf(out, "\",\"cat\":\"%s\",\"args\":{\"span\":%u,\"lane\":%u,\"step\":%u,\"slice\":%u,\"bytes\":%llu",
            wi_sim_span_name(s->kind), index, s->lane, s->step, s->slice, (unsigned long long)s->bytes);
    if (s->kind == WI_SIM_WIRE)
        fprintf(out, ",\"arrives\":%.6f", s->end);
    if (s->cause != WI_SIM_NONE)
        fprintf(out, ",\"cause\":%u", s->cause);
    if (s->resource != WI_SIM_NONE) {
        fprintf(out, ",\"limited by\":");
        json_text(out, model->resources[s->resource].name);
    }
    fprintf(out, "}}");
}

static void trace_names(FILE *out, const struct wi_sim_result *r)
{
    for (int rank = 0; rank < r->nranks; rank++) {
        fprintf(out, ",\n{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_name\",\"args\":{\"name\":\"rank %d\"}}", rank,
                rank);
        fprintf(out, ",\n{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_sort_index\",\"args\":{\"sort_index\":%d}}", rank,
                rank);
        fprintf(out, ",\n{\"ph\":\"M\",\"pid\":%d,\"tid\":0,\"name\":\"thread_name\",\"args\":{\"name\":\"core\"}}",
                rank);
    }
}

weft_status wi_sim_perfetto(const struct wi_sim_result *r, const struct wi_model *model, const char *title, FILE *out)
{
    fprintf(out, "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"title\":");
    json_text(out, title);
    fprintf(out, "},\"traceEvents\":[\n{\"ph\":\"M\",\"pid\":0,\"name\":\"weft-sim\",\"args\":{}}");
    trace_names(out, r);
    for (uint32_t i = 0; i < r->nspans; i++)
        trace_span(out, model, &r->spans[i], i);
    fprintf(out, "\n]}\n");
    return ferror(out) ? wi_fail(WEFT_ESYS, "writing the trace failed") : WEFT_SUCCESS;
}
