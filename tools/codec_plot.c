/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-codec --plot: an SVG with two panels: NMSE over bits an element, and speeds. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "weft_codec.h"

#define PANEL_W 420
#define PANEL_H 380
#define TOP 70
#define LEFT 70
#define RIGHT (LEFT + PANEL_W + 210)
#define WIDTH (RIGHT + PANEL_W + 30)
#define BAR 9
#define MOST_BITS 32.0

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
    return LEFT + log2(bits) / log2(MOST_BITS) * PANEL_W;
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
    for (int bits = 1; bits <= (int)MOST_BITS; bits *= 2) {
        fprintf(f, "<line x1='%.1f' y1='%d' x2='%.1f' y2='%d' stroke='#ddd'/>\n", across(bits), TOP, across(bits),
                TOP + PANEL_H);
        snprintf(label, sizeof label, "%d", bits);
        text(f, across(bits), TOP + PANEL_H + 16, "text-anchor='middle'", label);
    }
}

static void draw_errors(FILE *f, const struct codec_result *r)
{
    double least = least_decade(r), most = most_decade(r);

    grid(f, least, most);
    for (size_t i = 0; i < r->nrows; i++)
        for (size_t d = 0; d < r->ndata; d++) {
            double nmse = r->rows[i].errors[d].nmse, decade = nmse > 0 ? fmax(log10(nmse), least) : least;
            double x = across(fmin(fmax(codec_bits(&r->rows[i]), 1), MOST_BITS)), y;
            if (!isfinite(nmse))
                continue;
            y = TOP + (most - decade) / (most - least) * PANEL_H;
            fprintf(f, "<circle cx='%.1f' cy='%.1f' r='3' fill='%s'><title>%s: %.3g</title></circle>\n", x, y,
                    colors[d % NCOLORS], r->rows[i].codec, nmse);
            if (d == 0)
                text(f, x + 5, y - 4, "font-size='8'", r->rows[i].codec);
        }
    for (size_t d = 0; d < r->ndata && d < NCOLORS; d++) {
        char style[64];
        snprintf(style, sizeof style, "fill='%s' text-anchor='end'", colors[d]);
        text(f, LEFT + PANEL_W - 8, TOP + 16 + 14.0 * (double)d, style, r->data[d].name);
    }
    frame(f, LEFT, PANEL_H, "What is lost", "bits an element; NMSE upwards");
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
    for (int k = 0; k < CODEC_OPERATIONS; k++) {
        char style[64];
        snprintf(style, sizeof style, "fill='%s'", colors[k]);
        text(f, RIGHT + 150.0 + 90.0 * k, TOP - 12, style, codec_operation_names[k]);
    }
    frame(f, RIGHT, tall(r), "How fast", "bytes read and written, of memcpy's (dashed: 1)");
}

int codec_plot(const char *path, const struct codec_result *r)
{
    FILE *f = fopen(path, "we");
    int failed;

    if (!f) {
        fprintf(stderr, "weft-codec: %s: %s\n", path, strerror(errno));
        return -1;
    }
    fprintf(f,
            "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' viewBox='0 0 %d %d' "
            "font-family='sans-serif' font-size='11'>\n<rect width='100%%' height='100%%' fill='white'/>\n",
            WIDTH, TOP + tall(r) + 60, WIDTH, TOP + tall(r) + 60);
    text(f, LEFT, 28, "font-size='15'", "weft-codec");
    draw_errors(f, r);
    draw_speeds(f, r);
    fputs("</svg>\n", f);
    failed = ferror(f);
    if (fclose(f) || failed) {
        fprintf(stderr, "weft-codec: %s: could not write everything\n", path);
        return -1;
    }
    return 0;
}
