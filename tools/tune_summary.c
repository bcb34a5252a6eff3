/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-tune --check: the table, and its sums. What the measurements themselves are worth stands beside what they say. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "plan/paired.h"
#include "weft_tune.h"

void tune_print_head(void)
{
    printf("%-14s %5s %10s %-7s %-20s %-20s %10s %10s %7s %6s %10s %7s\n", "collective", "ranks", "bytes", "memory",
           "pick", "best", "pick_us", "best_us", "regret", "noise", "predicted", "error");
}

void tune_print_verdict(const struct wi_plan_table *seen, const struct tune_verdict *v)
{
    const struct wi_table_section *s = &seen->sections[v->section];
    char ranks[32];

    snprintf(ranks, sizeof ranks, s->nnodes > 1 ? "%d/%d" : "%d", s->nranks, s->nnodes);
    printf("%-14s %5s %10" PRIu64 " %-7s %-20s %-20s ", wi_coll_name(v->coll), ranks, v->bytes,
           v->shared ? "mapped" : "private", v->pick, v->best);
    if (v->pick_us > 0)
        printf("%10.2f %10.2f %6.1f%% ", v->pick_us, v->best_us, 100 * tune_regret(v));
    else
        printf("%10s %10.2f %7s ", "-", v->best_us, "-");
    if (v->noise > 0)
        printf("%5.1f%% ", 100 * v->noise);
    else
        printf("%6s ", "-");
    if (v->pick_us > 0)
        printf("%10.2f %+6.1f%%\n", v->predicted_us, 100 * (v->predicted_us / v->pick_us - 1));
    else
        printf("%10.2f %7s\n", v->predicted_us, "-");
}

/* Regret of picks, of what communicators chose, of one algorithm against itself; errors of predictions. */
struct sums {
    double *regret, *self, *chosen, *pick_error, *error;
    int n, nchosen, npick, nerror, beyond_noise;
};

static int within(const double *list, int n)
{
    int good = 0;

    for (int i = 0; i < n; i++)
        good += list[i] <= TUNE_GOOD;
    return good;
}

static void gather(struct sums *s, const struct tune_verdict *verdicts, int n, const struct tune_pair *pairs,
                   int npairs)
{
    for (int i = 0; i < n; i++) {
        const struct tune_verdict *v = &verdicts[i];
        double regret = tune_regret(v);
        s->regret[s->n++] = regret;
        s->beyond_noise += regret > TUNE_GOOD && regret - 2 * v->noise * (1 + regret) > TUNE_GOOD;
        if (v->pick_us > 0)
            s->pick_error[s->npick++] = fabs(v->predicted_us / v->pick_us - 1);
        if (v->chosen_us <= 0)
            continue;
        s->chosen[s->nchosen] = fmax(v->chosen_us / v->best_us - 1, 0);
        s->self[s->nchosen++] = fmax(v->chosen_us, v->pick_us) / fmin(v->chosen_us, v->pick_us) - 1;
    }
    for (int i = 0; i < npairs; i++)
        s->error[s->nerror++] = tune_error(&pairs[i]);
}

static double share(int part, int n)
{
    return n ? 100.0 * part / n : 0;
}

static double quantile(double *list, int n, double at)
{
    if (!n)
        return 0;
    wi_sort_values(list, n);
    return 100 * wi_quantile(list, n, at);
}

static void print(const char *of, struct sums *s)
{
    printf("%s: within 10 %% of the best: %d of %d (%.1f %%); predictions: median error %.1f %% of %d\n", of,
           within(s->regret, s->n), s->n, share(within(s->regret, s->n), s->n), quantile(s->error, s->nerror, 0.5),
           s->nerror);
    printf(
        "  regret: median %.1f %%, 90th percentile %.1f %%; farther off than twice the noise explains: %d (%.1f %%)\n",
        quantile(s->regret, s->n, 0.5), quantile(s->regret, s->n, 0.9), s->beyond_noise, share(s->beyond_noise, s->n));
    printf("  predictions of picks: median error %.1f %%, 90th percentile %.1f %%\n",
           quantile(s->pick_error, s->npick, 0.5), quantile(s->pick_error, s->npick, 0.9));
    if (!s->nchosen)
        return;
    printf("  as communicators chose: within 10 %% of the best: %d of %d (%.1f %%)\n", within(s->chosen, s->nchosen),
           s->nchosen, share(within(s->chosen, s->nchosen), s->nchosen));
    printf(
        "  the same algorithm measured twice: within 10 %% of itself: %d of %d (%.1f %%); differs by median %.1f %%, "
        "90th percentile %.1f %%\n",
        within(s->self, s->nchosen), s->nchosen, share(within(s->self, s->nchosen), s->nchosen),
        quantile(s->self, s->nchosen, 0.5), quantile(s->self, s->nchosen, 0.9));
}

void tune_print_summary(const char *of, const struct tune_verdict *verdicts, int n, const struct tune_pair *pairs,
                        int npairs)
{
    double *room = calloc(4 * (size_t)n + (size_t)npairs + 1, sizeof *room);
    struct sums s = {room, room + n, room + 2 * n, room + 3 * n, room + 4 * n, 0, 0, 0, 0, 0};

    if (room) {
        gather(&s, verdicts, n, pairs, npairs);
        print(of, &s);
    } else {
        printf("%s: no memory\n", of);
    }
    free(room);
}
