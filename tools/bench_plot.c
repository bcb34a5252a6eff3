/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-bench: an SVG with two log-log panels over message size: time per call, and bus bandwidth. */
#include "weft_bench.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define WIDTH 900
#define HEIGHT 480
#define PANEL_W 340
#define PANEL_H 340
#define TOP 60
#define MAX_SERIES 24

struct panel {
    double x, y;                   /* upper left corner */
    double xmin, xmax, ymin, ymax; /* log2 of bytes, log10 of value */
    const char *title;
};

/* A curve: rows of one collective, type, operator, root and place, in the order measured. */
struct series {
    const struct bench_row *first;
    int in_place, mpi;
};

static const char *const colors[] = {"#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e",
                                     "#17becf", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22"};

static const struct bench_timing *timing(const struct series *s, const struct bench_row *r)
{
    return s->in_place ? &r->in : &r->out;
}

static int same_series(const struct bench_row *a, const struct bench_row *b)
{
    return a->coll == b->coll && a->dtype == b->dtype && a->op == b->op && a->root == b->root;
}

static double value(const struct series *s, const struct bench_row *r, int panel)
{
    const struct bench_timing *t = timing(s, r);
    double us = s->mpi ? t->mpi_us : t->time_us;

    if (!t->valid || us <= 0 || r->bytes == 0)
        return 0;
    if (panel == 0)
        return us;
    return s->mpi ? t->busbw * t->time_us / t->mpi_us : t->busbw;
}

static int collect(const struct bench *b, struct series *all)
{
    int n = 0;

    for (size_t i = 0; i < b->nrows; i++) {
        int known = 0;
        for (int k = 0; k < n; k++)
            known |= same_series(all[k].first, &b->rows[i]);
        for (int variant = 0; variant < 4 && !known && n < MAX_SERIES; variant++) {
            struct series s = {&b->rows[i], variant & 1, variant >> 1};
            if (value(&s, &b->rows[i], 0) > 0)
                all[n++] = s;
        }
    }
    return n;
}

static void fit(const struct bench *b, const struct series *all, int n, struct panel *p, int panel)
{
    p->xmin = p->ymin = INFINITY;
    p->xmax = p->ymax = -INFINITY;
    for (int k = 0; k < n; k++) {
        for (size_t i = 0; i < b->nrows; i++) {
            double v = same_series(all[k].first, &b->rows[i]) ? value(&all[k], &b->rows[i], panel) : 0;
            if (v <= 0)
                continue;
            p->xmin = fmin(p->xmin, log2((double)b->rows[i].bytes));
            p->xmax = fmax(p->xmax, log2((double)b->rows[i].bytes));
            p->ymin = fmin(p->ymin, floor(log10(v)));
            p->ymax = fmax(p->ymax, ceil(log10(v)));
        }
    }
    if (p->xmax <= p->xmin)
        p->xmax = p->xmin + 1;
    if (p->ymax <= p->ymin)
        p->ymax = p->ymin + 1;
}

static double at_x(const struct panel *p, double log2_bytes)
{
    return p->x + (log2_bytes - p->xmin) / (p->xmax - p->xmin) * PANEL_W;
}

static double at_y(const struct panel *p, double log10_value)
{
    return p->y + PANEL_H - (log10_value - p->ymin) / (p->ymax - p->ymin) * PANEL_H;
}

static void size_label(char *text, size_t text_bytes, int exponent)
{
    static const char *const units[] = {"", "K", "M", "G", "T"};
    int unit = exponent / 10;

    snprintf(text, text_bytes, "%lld%s", 1LL << (exponent - unit * 10), units[unit > 4 ? 4 : unit]);
}

static void axes(FILE *f, const struct panel *p)
{
    int step = (int)ceil((p->xmax - p->xmin) / 8);
    char label[32];

    fprintf(f, "<text x='%g' y='%g' font-size='14' font-weight='bold'>%s</text>\n", p->x, p->y - 12, p->title);
    for (int e = (int)ceil(p->xmin); e <= (int)p->xmax; e += step < 1 ? 1 : step) {
        size_label(label, sizeof(label), e);
        fprintf(f, "<line x1='%.1f' y1='%g' x2='%.1f' y2='%g' stroke='#ddd'/>\n", at_x(p, e), p->y, at_x(p, e),
                p->y + PANEL_H);
        fprintf(f, "<text x='%.1f' y='%g' text-anchor='middle'>%s</text>\n", at_x(p, e), p->y + PANEL_H + 16, label);
    }
    for (int e = (int)p->ymin; e <= (int)p->ymax; e++) {
        fprintf(f, "<line x1='%g' y1='%.1f' x2='%g' y2='%.1f' stroke='#ddd'/>\n", p->x, at_y(p, e), p->x + PANEL_W,
                at_y(p, e));
        fprintf(f, "<text x='%g' y='%.1f' text-anchor='end'>%g</text>\n", p->x - 6, at_y(p, e) + 4, pow(10, e));
    }
    fprintf(f, "<rect x='%g' y='%g' width='%d' height='%d' fill='none' stroke='#444'/>\n", p->x, p->y, PANEL_W,
            PANEL_H);
    fprintf(f, "<text x='%g' y='%g' text-anchor='middle'>message size (bytes)</text>\n", p->x + PANEL_W / 2.0,
            p->y + PANEL_H + 34);
}

static void curve(FILE *f, const struct bench *b, const struct series *s, const struct panel *p, int panel,
                  const char *color)
{
    const char *dash = s->mpi ? " stroke-dasharray='2 3'" : s->in_place ? " stroke-dasharray='6 4'" : "";

    fprintf(f, "<polyline fill='none' stroke='%s' stroke-width='1.8'%s points='", color, dash);
    for (size_t i = 0; i < b->nrows; i++) {
        double v = same_series(s->first, &b->rows[i]) ? value(s, &b->rows[i], panel) : 0;
        if (v > 0)
            fprintf(f, "%.1f,%.1f ", at_x(p, log2((double)b->rows[i].bytes)), at_y(p, log10(v)));
    }
    fputs("'/>\n", f);
    for (size_t i = 0; i < b->nrows; i++) {
        double v = same_series(s->first, &b->rows[i]) ? value(s, &b->rows[i], panel) : 0;
        if (v > 0)
            fprintf(f, "<circle cx='%.1f' cy='%.1f' r='2.4' fill='%s'><title>%zu B: %g</title></circle>\n",
                    at_x(p, log2((double)b->rows[i].bytes)), at_y(p, log10(v)), color, b->rows[i].bytes, v);
    }
}

static void legend(FILE *f, const struct series *s, int k, const char *color)
{
    double x = 60 + k % 3 * 280, y = HEIGHT + 4 + k / 3 * 18;
    const char *dash = s->mpi ? " stroke-dasharray='2 3'" : s->in_place ? " stroke-dasharray='6 4'" : "";

    fprintf(f, "<line x1='%g' y1='%g' x2='%g' y2='%g' stroke='%s' stroke-width='2'%s/>\n", x, y - 4, x + 26, y - 4,
            color, dash);
    fprintf(f, "<text x='%g' y='%g'>%s %s%s%s%s%s</text>\n", x + 32, y, bench_coll_name(s->first->coll),
            weft_dtype_name(s->first->dtype), bench_coll_reduces(s->first->coll) ? " " : "",
            bench_coll_reduces(s->first->coll) ? weft_op_name(s->first->op) : "", s->in_place ? ", in place" : "",
            s->mpi ? ", MPI" : "");
}

static int color_of(const struct series *all, int k)
{
    int color = -1;

    for (int i = 0; i <= k; i++)
        color += i == 0 || !same_series(all[i].first, all[i - 1].first) || all[i].mpi != all[i - 1].mpi;
    return color % (int)(sizeof(colors) / sizeof(colors[0]));
}

static void draw(FILE *f, const struct bench *b, const struct series *all, int n)
{
    static const char *const titles[] = {"time per call (us)", "bus bandwidth (GB/s)"};
    int height = HEIGHT + 20 + (n + 2) / 3 * 18;

    fprintf(f,
            "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' viewBox='0 0 %d %d' "
            "font-family='sans-serif' font-size='11'>\n<rect width='100%%' height='100%%' fill='white'/>\n",
            WIDTH, height, WIDTH, height);
    fprintf(f, "<text x='60' y='24' font-size='15'>weft-bench %s, %d ranks</text>\n", weft_version(), b->nranks);
    for (int panel = 0; panel < 2; panel++) {
        struct panel p = {.x = 60 + panel * (PANEL_W + 90), .y = TOP, .title = titles[panel]};
        fit(b, all, n, &p, panel);
        if (!isfinite(p.xmin))
            continue;
        axes(f, &p);
        for (int k = 0; k < n; k++)
            curve(f, b, &all[k], &p, panel, colors[color_of(all, k)]);
    }
    for (int k = 0; k < n; k++)
        legend(f, &all[k], k, colors[color_of(all, k)]);
    fputs("</svg>\n", f);
}

int bench_write_plot(const struct bench *b)
{
    struct series all[MAX_SERIES];
    FILE *f;

    if (!b->o.plot)
        return 0;
    f = fopen(b->o.plot, "w");
    if (!f) {
        fprintf(stderr, "weft-bench: %s: %s\n", b->o.plot, strerror(errno));
        return -1;
    }
    draw(f, b, all, collect(b, all));
    if (ferror(f) | fclose(f)) {
        fprintf(stderr, "weft-bench: %s: could not write everything\n", b->o.plot);
        return -1;
    }
    return 0;
}
