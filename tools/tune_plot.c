/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-tune --plot: an SVG with two panels: predicted over measured time, and how far picks are from the best. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "weft_tune.h"

#define WIDTH 920
#define HEIGHT 470
#define PANEL_W 360
#define PANEL_H 340
#define TOP 70
#define LEFT 70
#define RIGHT (LEFT + PANEL_W + 90)
#define BINS 12 /* 0, up to 5 %, ..., up to 50 %, more */
#define BIN 0.05

struct axis {
    double least, most; /* log10 of microseconds */
};

static struct axis fit(const struct tune_judged *j)
{
    struct axis a = {INFINITY, -INFINITY};

    for (int i = 0; i < j->npairs; i++) {
        a.least = fmin(a.least, log10(fmin(j->pairs[i].predicted_us, j->pairs[i].measured_us)));
        a.most = fmax(a.most, log10(fmax(j->pairs[i].predicted_us, j->pairs[i].measured_us)));
    }
    if (!isfinite(a.least))
        return (struct axis){0, 1};
    a.least = floor(a.least);
    a.most = fmax(ceil(a.most), a.least + 1);
    return a;
}

static double across(const struct axis *a, double us)
{
    return LEFT + (log10(us) - a->least) / (a->most - a->least) * PANEL_W;
}

static double up(const struct axis *a, double us)
{
    return TOP + PANEL_H - (log10(us) - a->least) / (a->most - a->least) * PANEL_H;
}

static void frame(FILE *f, int left, const char *title, const char *below)
{
    fprintf(f, "<rect x='%d' y='%d' width='%d' height='%d' fill='none' stroke='#444'/>\n", left, TOP, PANEL_W, PANEL_H);
    fprintf(f, "<text x='%d' y='%d' font-size='14' font-weight='bold'>%s</text>\n", left, TOP - 12, title);
    fprintf(f, "<text x='%d' y='%d' text-anchor='middle'>%s</text>\n", left + PANEL_W / 2, TOP + PANEL_H + 36, below);
}

static void diagonal(FILE *f, const struct axis *a, double factor, const char *style)
{
    double least = pow(10, a->least), most = pow(10, a->most);

    if (factor > 1)
        most /= factor;
    else
        least /= factor;
    fprintf(f, "<line x1='%.1f' y1='%.1f' x2='%.1f' y2='%.1f' stroke='#888' %s/>\n", across(a, least),
            up(a, least * factor), across(a, most), up(a, most * factor), style);
}

static void scatter(FILE *f, const struct tune_judged *j)
{
    struct axis a = fit(j);

    for (int e = (int)a.least; e <= (int)a.most; e++) {
        double x = across(&a, pow(10, e)), y = up(&a, pow(10, e));
        fprintf(f, "<line x1='%.1f' y1='%d' x2='%.1f' y2='%d' stroke='#ddd'/>\n", x, TOP, x, TOP + PANEL_H);
        fprintf(f, "<line x1='%d' y1='%.1f' x2='%d' y2='%.1f' stroke='#ddd'/>\n", LEFT, y, LEFT + PANEL_W, y);
        fprintf(f, "<text x='%.1f' y='%d' text-anchor='middle'>1e%d</text>\n", x, TOP + PANEL_H + 16, e);
        fprintf(f, "<text x='%d' y='%.1f' text-anchor='end'>1e%d</text>\n", LEFT - 6, y + 4, e);
    }
    diagonal(f, &a, 1, "");
    diagonal(f, &a, 1.2, "stroke-dasharray='4 3'");
    diagonal(f, &a, 1 / 1.2, "stroke-dasharray='4 3'");
    fputs("<path fill='none' stroke='#9bbfdd' stroke-width='3' stroke-linecap='round' d='", f);
    for (int i = 0; i < j->npairs; i++) /* dots in one element: there are thousands */
        fprintf(f, "M%.1f %.1fh0", across(&a, j->pairs[i].measured_us), up(&a, j->pairs[i].predicted_us));
    fputs("'/>\n", f);
    for (int i = 0; i < j->nverdicts; i++)
        if (j->verdicts[i].pick_us > 0)
            fprintf(f, "<circle cx='%.1f' cy='%.1f' r='2.2' fill='#d62728'><title>%s %llu B %s</title></circle>\n",
                    across(&a, j->verdicts[i].pick_us), up(&a, j->verdicts[i].predicted_us),
                    wi_coll_name(j->verdicts[i].coll), (unsigned long long)j->verdicts[i].bytes, j->verdicts[i].pick);
    frame(f, LEFT, "Predicted over measured (us)", "measured; red: picks; dashed: 20 % off");
}

static int bin_of(double regret)
{
    int bin = regret <= 0 ? 0 : 1 + (int)(regret / BIN);

    return bin < BINS ? bin : BINS - 1;
}

static void histogram(FILE *f, const struct tune_judged *j)
{
    int counts[BINS] = {0}, most = 1;
    double wide = (double)PANEL_W / BINS;

    for (int i = 0; i < j->nverdicts; i++) {
        double regret = tune_regret(&j->verdicts[i]);
        int *c = &counts[isfinite(regret) ? bin_of(regret) : BINS - 1];
        most = ++*c > most ? *c : most;
    }
    for (int b = 0; b < BINS; b++) {
        double tall = (double)counts[b] / most * (PANEL_H - 24), x = RIGHT + b * wide;
        char label[32];
        snprintf(label, sizeof label, b == 0 ? "best" : b == BINS - 1 ? "more" : "%.0f %%", b * BIN * 100);
        fprintf(f, "<rect x='%.1f' y='%.1f' width='%.1f' height='%.1f' fill='%s'/>\n", x + 2, TOP + PANEL_H - tall,
                wide - 4, tall, b * BIN <= TUNE_GOOD + 1e-9 ? "#2ca02c" : "#d62728");
        fprintf(f, "<text x='%.1f' y='%.1f' text-anchor='middle'>%d</text>\n", x + wide / 2, TOP + PANEL_H - tall - 4,
                counts[b]);
        fprintf(f, "<text x='%.1f' y='%d' text-anchor='middle' font-size='9'>%s</text>\n", x + wide / 2,
                TOP + PANEL_H + 16, label);
    }
    frame(f, RIGHT, "How far picks are from the best", "up to this much slower; number of questions");
}

int tune_plot(const char *path, const struct tune_judged *j)
{
    FILE *f = fopen(path, "w");
    int good = 0;

    if (!f) {
        fprintf(stderr, "weft-tune: %s: %s\n", path, strerror(errno));
        return -1;
    }
    for (int i = 0; i < j->nverdicts; i++)
        good += tune_regret(&j->verdicts[i]) <= TUNE_GOOD;
    fprintf(f,
            "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' viewBox='0 0 %d %d' "
            "font-family='sans-serif' font-size='11'>\n<rect width='100%%' height='100%%' fill='white'/>\n",
            WIDTH, HEIGHT, WIDTH, HEIGHT);
    fprintf(f, "<text x='%d' y='28' font-size='15'>weft-tune: %d of %d picks within 10 %% of the best</text>\n", LEFT,
            good, j->nverdicts);
    scatter(f, j);
    histogram(f, j);
    fputs("</svg>\n", f);
    if (ferror(f) | fclose(f)) {
        fprintf(stderr, "weft-tune: %s: could not write everything\n", path);
        return -1;
    }
    return 0;
}
