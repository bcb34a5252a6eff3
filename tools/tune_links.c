/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-tune: ping-pong between pairs of ranks. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "weft_tune.h"

#define SMALL_BYTES 8u
#define LARGE_BYTES (1u << 20)
#define SMALL_ROUNDS 200
#define LARGE_ROUNDS 10
#define ALL_PAIRS 8 /* ranks up to which every pair is measured */

static weft_status exchange(struct tune *t, int peer, int first, char *buffer, size_t bytes)
{
    if (first) {
        WI_TRY(weft_send(t->comm, buffer, bytes, WEFT_UINT8, peer, 0, NULL));
        return weft_recv(t->comm, buffer, bytes, WEFT_UINT8, peer, 0, NULL);
    }
    WI_TRY(weft_recv(t->comm, buffer, bytes, WEFT_UINT8, peer, 0, NULL));
    return weft_send(t->comm, buffer, bytes, WEFT_UINT8, peer, 0, NULL);
}

/* Half of the best of three batches' mean round trip. */
static weft_status ping(struct tune *t, int peer, int first, char *buffer, size_t bytes, int rounds, double *us)
{
    *us = INFINITY;
    WI_TRY(exchange(t, peer, first, buffer, bytes));
    for (int batch = 0; batch < 3; batch++) {
        double begin = tune_now_us();
        for (int i = 0; i < rounds; i++)
            WI_TRY(exchange(t, peer, first, buffer, bytes));
        *us = fmin(*us, (tune_now_us() - begin) / (2.0 * rounds));
    }
    return WEFT_SUCCESS;
}

static weft_status measure_pair(struct tune *t, int a, int b, char *buffer)
{
    double us[2] = {0, 0};
    struct wi_table_link link = {.section = t->section, .from = a, .to = b};

    if (t->rank == a || t->rank == b) {
        int peer = t->rank == a ? b : a;
        WI_TRY(ping(t, peer, t->rank == a, buffer, SMALL_BYTES, SMALL_ROUNDS, &us[0]));
        WI_TRY(ping(t, peer, t->rank == a, buffer, LARGE_BYTES, LARGE_ROUNDS, &us[1]));
    }
    WI_TRY(tune_max(t, &us[0]));
    WI_TRY(tune_max(t, &us[1]));
    link.us = us[0];
    /* Where ranks wait for a core the short message may take as long as the long one: that is no rate. */
    link.rate = LARGE_BYTES / (us[1] > 2 * us[0] ? us[1] - us[0] : us[1]);
    return wi_plan_table_link(t->table, &link);
}

/* The median of the pairs inside a node, or between nodes. */
static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static int median(const struct tune *t, int between, double *us, double *rate)
{
    int max = t->table->nlinks, n = 0;
    double *list = calloc(2 * (size_t)max + 1, sizeof *list);

    for (int i = 0; list && i < max; i++) {
        const struct wi_table_link *l = &t->table->links[i];
        if (l->section != t->section || (t->node_of[l->from] != t->node_of[l->to]) != between)
            continue;
        list[n] = l->us;
        list[max + n++] = l->rate;
    }
    if (n) {
        qsort(list, (size_t)n, sizeof *list, by_value);
        qsort(list + max, (size_t)n, sizeof *list, by_value);
        *us = list[n / 2];
        *rate = list[max + n / 2];
    }
    free(list);
    return n;
}

/* About half of a message's time between hosts is the processors' work for it. */
static weft_status store_params(struct tune *t)
{
    double us, rate;

    if (median(t, 0, &us, &rate)) {
        WI_TRY(wi_plan_table_param(t->table, t->section, "local_us", us));
        WI_TRY(wi_plan_table_param(t->table, t->section, "local_rate", rate));
    }
    if (median(t, 1, &us, &rate)) {
        WI_TRY(wi_plan_table_param(t->table, t->section, "network_us", us / 2));
        WI_TRY(wi_plan_table_param(t->table, t->section, "message_us", us / 2));
        WI_TRY(wi_plan_table_param(t->table, t->section, "network_rate", rate));
    }
    return WEFT_SUCCESS;
}

/* Up to ALL_PAIRS ranks every pair, one after the other; past that a ring: it holds every kind of link. */
weft_status tune_measure_links(struct tune *t)
{
    char *buffer = calloc(1, LARGE_BYTES);
    weft_status st = buffer ? WEFT_SUCCESS : WEFT_ENOMEM;

    for (int i = 0; i < t->table->nlinks; i++)
        if (t->table->links[i].section == t->section) { /* measured before */
            free(buffer);
            return store_params(t);
        }
    for (int a = 0; a < t->nranks && st >= 0; a++)
        for (int b = a + 1; b < t->nranks && st >= 0; b++)
            if (t->nranks <= ALL_PAIRS || b == a + 1 || (a == 0 && b == t->nranks - 1))
                st = measure_pair(t, a, b, buffer);
    free(buffer);
    return st < 0 ? st : store_params(t);
}
