/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-codec --plot: an SVG with two panels: NMSE over bits an element, and speeds. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "weft_codec.h"

#define PANEL_W 420
#define PANEL_H 380
#define TOP 70
#define LEFT 70
#define RIGHT (LEFT + PANEL_W + 210)
#define WIDTH (RIGHT + PANEL_W + 30)
#define BAR 9
#define LEAST_BITS 0.125
#define MOST_BITS 32.0
#define LABEL_LETTER 4.8 /* width of one of font-size 8 */
#define LABEL_TALL 8.0
#define LEGEND_LETTER 6.4 /* of font-size 11 */

static const char *const colors[] = {"#1f77b4", "#d62728", "#2ca02c", "#ff7f0e", "#9467bd", "#8c564b"};
#define NCOLORS (sizeof colors / sizeof *colors)

static void text(FILE *f, double x, double y, const char *rest, const char *words)
{
    fprintf(f, "<text x='%.1f' y='%.1f' %s>", x, y, rest);
    for (; *words; words++) {
        if (*words == '&' || *words == '<' || *words == '>')
            fprintf(f, "&#%d;", *words);
        else
            fputc((unsigned char)*words < 0x20 || (unsigned char)*words > 0x7e ? '?' : *words, f);
    }
    fputs("</text>\n", f);
}

static void frame(FILE *f, int left, int tall, const char *title, const char *below)
{
    fprintf(f, "<rect x='%d' y='%d' width='%d' height='%d' fill='none' stroke='#444'/>\n", left, TOP, PANEL_W, tall);
    text(f, left, TOP - 12, "font-size='14' font-weight='bold'", title);
    text(f, left + PANEL_W / 2.0, TOP + tall + 36, "text-anchor='middle'", below);
}

static double across(double bits)
{
    bits = fmin(fmax(bits, LEAST_BITS), MOST_BITS);
    return LEFT + log2(bits / LEAST_BITS) / log2(MOST_BITS / LEAST_BITS) * PANEL_W;
}

/* The decade below all errors; errors of 0 are drawn there. */
static double least_decade(const struct codec_result *r)
{
    double least = 0;

    for (size_t i = 0; i < r->nrows; i++)
        for (size_t d = 0; d < r->ndata; d++)
            if (r->rows[i].errors[d].nmse > 0)
                least = fmin(least, floor(log10(r->rows[i].errors[d].nmse)));
    return fmax(least, -20) - 1;
}

static double most_decade(const struct codec_result *r)
{
    double most = 0;

    for (size_t i = 0; i < r->nrows; i++)
        for (size_t d = 0; d < r->ndata; d++)
            if (isfinite(r->rows[i].errors[d].nmse) && r->rows[i].errors[d].nmse > 0)
                most = fmax(most, ceil(log10(r->rows[i].errors[d].nmse)));
    return most;
}

static void grid(FILE *f, double least, double most)
{
    char label[32];

    for (double e = least; e <= most; e++) {
        double y = TOP + (most - e) / (most - least) * PANEL_H;
        fprintf(f, "<line x1='%d' y1='%.1f' x2='%d' y2='%.1f' stroke='#ddd'/>\n", LEFT, y, LEFT + PANEL_W, y);
        snprintf(label, sizeof label, "1e%.0f", e);
        text(f, LEFT - 6, y + 4, "text-anchor='end'", label);
    }
    for (double bits = LEAST_BITS; bits <= MOST_BITS; bits *= 2) {
        fprintf(f, "<line x1='%.1f' y1='%d' x2='%.1f' y2='%d' stroke='#ddd'/>\n", across(bits), TOP, across(bits),
                TOP + PANEL_H);
        snprintf(label, sizeof label, "%g", bits);
        text(f, across(bits), TOP + PANEL_H + 16, "text-anchor='middle'", label);
    }
}

/* ---- Labels beside dots, none above another or above a dot ---- */

struct box {
    double x, y, w, h;
};

struct drawing {
    FILE *f;
    const struct codec_result *r;
    double least, most; /* decades */
    struct box *taken;
    size_t ntaken;
};

static int overlap(const struct box *a, const struct box *b)
{
    return a->x < b->x + b->w && b->x < a->x + a->w && a->y < b->y + b->h && b->y < a->y + a->h;
}

static int is_free(const struct drawing *d, const struct box *b)
{
    int inside = b->x > LEFT && b->x + b->w < LEFT + PANEL_W && b->y > TOP && b->y + b->h < TOP + PANEL_H;

    for (size_t i = 0; inside && i < d->ntaken; i++)
        inside = !overlap(b, &d->taken[i]);
    return inside;
}

/* The nearest free place above, below, right or left of the dot; where there is none, the usual one. */
static struct box find_place(const struct drawing *d, double x, double y, double wide)
{
    for (int far = 0; far < 12; far++)
        for (int side = 0; side < 6; side++) {
            double up = far * LABEL_TALL / 2, left = side % 2 ? x - 5 - wide : x + 5;
            struct box b = {left, y - LABEL_TALL / 2 + (side < 2 ? -up : side < 4 ? up : -up - 4), wide, LABEL_TALL};
            if (side >= 4) /* in the middle above, or below */
                b = (struct box){x - wide / 2, side == 4 ? y - 5 - up - LABEL_TALL : y + 5 + up, wide, LABEL_TALL};
            if (is_free(d, &b))
                return b;
        }
    return (struct box){x + 5, y - 4 - LABEL_TALL, wide, LABEL_TALL};
}

static int place_of(const struct drawing *d, size_t row, size_t data, double *x, double *y)
{
    const struct codec_error *e = &d->r->rows[row].errors[data];
    double decade = e->nmse > 0 ? fmax(log10(e->nmse), d->least) : d->least;

    *x = across(codec_error_bits(&d->r->rows[row], e));
    *y = TOP + (d->most - decade) / (d->most - d->least) * PANEL_H;
    return isfinite(e->nmse);
}

static void draw_dots(struct drawing *d)
{
    double x, y;

    for (size_t i = 0; i < d->r->nrows; i++)
        for (size_t k = 0; k < d->r->ndata; k++) {
            if (!place_of(d, i, k, &x, &y))
                continue;
            fprintf(d->f, "<circle cx='%.1f' cy='%.1f' r='3' fill='%s'><title>%s: %.3g</title></circle>\n", x, y,
                    colors[k % NCOLORS], d->r->rows[i].codec, d->r->rows[i].errors[k].nmse);
            d->taken[d->ntaken++] = (struct box){x - 3, y - 3, 6, 6};
        }
}

static void draw_labels(struct drawing *d)
{
    double x, y;

    for (size_t i = 0; i < d->r->nrows; i++) {
        const char *name = d->r->rows[i].codec;
        if (!d->r->ndata || !place_of(d, i, 0, &x, &y))
            continue;
        struct box b = find_place(d, x, y, LABEL_LETTER * (double)strlen(name));
        double near = fmin(fmax(x, b.x), b.x + b.w), edge = fmin(fmax(y, b.y), b.y + b.h);
        if (hypot(near - x, edge - y) > 8)
            fprintf(d->f, "<line x1='%.1f' y1='%.1f' x2='%.1f' y2='%.1f' stroke='#999' stroke-width='.5'/>\n", x, y,
                    near, edge);
        text(d->f, b.x, b.y + LABEL_TALL - 1.5, "font-size='8'", name);
        d->taken[d->ntaken++] = b;
    }
}

static void draw_legend(struct drawing *d)
{
    for (size_t k = 0; k < d->r->ndata && k < NCOLORS; k++) {
        const char *name = d->r->data[k].name;
        double wide = LEGEND_LETTER * (double)strlen(name) + 8;
        char style[64];
        snprintf(style, sizeof style, "fill='%s' text-anchor='end'", colors[k]);
        text(d->f, LEFT + PANEL_W - 8, TOP + 16 + 14.0 * (double)k, style, name);
        d->taken[d->ntaken++] = (struct box){LEFT + PANEL_W - wide, TOP + 4 + 14.0 * (double)k, wide, 16};
    }
}

static int draw_errors(FILE *f, const struct codec_result *r)
{
    struct drawing d = {.f = f, .r = r, .least = least_decade(r), .most = most_decade(r)};

    d.taken = calloc(r->nrows * (r->ndata + 1) + NCOLORS, sizeof *d.taken);
    if (!d.taken)
        return -1;
    grid(f, d.least, d.most);
    draw_legend(&d);
    draw_dots(&d);
    draw_labels(&d);
    frame(f, LEFT, PANEL_H, "What is lost", "bits an element; NMSE upwards");
    free(d.taken);
    return 0;
}

static int tall(const struct codec_result *r)
{
    int bars = (int)r->nrows * (CODEC_OPERATIONS * BAR + 6) + 6;

    return bars > PANEL_H ? bars : PANEL_H;
}

static void draw_speeds(FILE *f, const struct codec_result *r)
{
    double most = 1, y = TOP + 6;
    char label[32];

    for (size_t i = 0; i < r->nrows; i++)
        for (int k = 0; k < CODEC_OPERATIONS; k++)
            most = fmax(most, r->rows[i].speed[k].of_memcpy);
    for (size_t i = 0; i < r->nrows; i++, y += 6) {
        text(f, RIGHT - 6, y + CODEC_OPERATIONS * BAR / 2.0 + 4, "text-anchor='end'", r->rows[i].codec);
        for (int k = 0; k < CODEC_OPERATIONS; k++, y += BAR)
            fprintf(f, "<rect x='%d' y='%.1f' width='%.1f' height='%d' fill='%s'><title>%s %s %.2f</title></rect>\n",
                    RIGHT, y, r->rows[i].speed[k].of_memcpy / most * PANEL_W, BAR - 1, colors[k], r->rows[i].codec,
                    codec_operation_names[k], r->rows[i].speed[k].of_memcpy);
    }
    fprintf(f, "<line x1='%.1f' y1='%d' x2='%.1f' y2='%d' stroke='#000' stroke-dasharray='4 3'/>\n",
            RIGHT + PANEL_W / most, TOP, RIGHT + PANEL_W / most, TOP + tall(r));
    snprintf(label, sizeof label, "%.2f", most);
    text(f, RIGHT + PANEL_W, TOP + tall(r) + 16, "text-anchor='end'", label);
    double x = RIGHT + 120;
    for (int k = 0; k < CODEC_OPERATIONS; k++) {
        char style[64];
        snprintf(style, sizeof style, "fill='%s'", colors[k]);
        text(f, x, TOP - 12, style, codec_operation_names[k]);
        x += LEGEND_LETTER * (double)strlen(codec_operation_names[k]) + 16;
    }
    frame(f, RIGHT, tall(r), "How fast", "bytes read and written, of memcpy's (dashed: 1)");
}

static int said(const char *path, const char *why)
{
    fprintf(stderr, "weft-codec: %s: %s\n", path, why);
    return -1;
}

/* What is in the file stays until there is something else to be written. */
FILE *codec_plot_open(const char *path)
{
    FILE *f = fopen(path, "ae");

    if (!f)
        said(path, strerror(errno));
    return f;
}

int codec_plot(FILE *f, const char *path, const struct codec_result *r)
{
    int failed = ftruncate(fileno(f), 0) && errno != EINVAL; /* of pipes and devices */

    fprintf(f,
            "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' viewBox='0 0 %d %d' "
            "font-family='sans-serif' font-size='11'>\n<rect width='100%%' height='100%%' fill='white'/>\n",
            WIDTH, TOP + tall(r) + 60, WIDTH, TOP + tall(r) + 60);
    text(f, LEFT, 28, "font-size='15'", "weft-codec");
    failed |= draw_errors(f, r);
    draw_speeds(f, r);
    fputs("</svg>\n", f);
    failed |= ferror(f);
    return fclose(f) || failed ? said(path, "could not write everything") : 0;
}
