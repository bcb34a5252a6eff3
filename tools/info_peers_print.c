/* SPDX-License-Identifier: BSD-3-Clause */
/* What weft-info --peers prints. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "info_peers.h"

#define HOSTS_SHOWN 16

/* ---- Text ---- */

static void print_ranks(const unsigned char *in, int n)
{
    char ranks[256];

    peers_ranks(in, n, ranks, sizeof ranks);
    printf("%s", ranks);
}

static void print_hosts(const struct peers *p, unsigned char *in)
{
    int hosts = 0;

    for (int r = 0; r < p->nranks; r++) {
        int first = 1;
        for (int q = 0; q < r && first; q++)
            first = p->node[q] != p->node[r];
        if (!first || hosts++ >= HOSTS_SHOWN)
            continue;
        for (int q = 0; q < p->nranks; q++)
            in[q] = p->node[q] == p->node[r];
        printf("host      ");
        info_print(peers_host(p, r));
        printf(": ");
        print_ranks(in, p->nranks);
        printf("\n");
    }
    if (hosts > HOSTS_SHOWN)
        printf("host      and %d more (--json has them all)\n", hosts - HOSTS_SHOWN);
}

static void print_group(const struct peers *p, const struct peers_group *g)
{
    char whose[1024];

    peers_whose(p, g, whose, sizeof whose);
    printf("pairs     %s ", g->used < 0 ? "none" : p->transport[g->used].name);
    info_print(whose);
    printf(" (%lld)", g->pairs);
    if (*g->left_out) {
        printf("; ");
        info_print(g->left_out);
    }
    printf("\n");
}

/* Ranks without a transport that others have, those with one reason together. */
static void print_missing(const struct peers *p, int i, unsigned char *in)
{
    const struct peers_transport *t = &p->transport[i];

    if (t->memory == 2)
        return;
    for (int r = 0; r < p->nranks; r++) {
        const char *why = t->has[r] ? NULL : peers_why_without(p, r, t->name);
        int first = why != NULL;
        for (int q = 0; q < p->nranks && why; q++) {
            in[q] = !t->has[q] && strcmp(peers_why_without(p, q, t->name), why) == 0;
            first &= !in[q] || q >= r;
        }
        if (!first)
            continue;
        printf("missing   ");
        info_print(t->name);
        printf(" on ");
        print_ranks(in, p->nranks);
        printf(": ");
        info_print(why);
        printf("\n");
    }
}

int peers_print(const struct peers *p, const struct peers_group *groups, int ngroups)
{
    unsigned char *in = calloc((size_t)p->nranks, 1);

    if (!in)
        return 0;
    printf("job       %d rank%s on %d host%s\n", p->nranks, p->nranks > 1 ? "s" : "", p->nnodes,
           p->nnodes > 1 ? "s" : "");
    print_hosts(p, in);
    for (int i = 0; i < ngroups; i++)
        print_group(p, &groups[i]);
    if (p->nranks == 1)
        printf("pairs     there are none: start it with weft-run, mpirun, srun or torchrun\n");
    for (int i = 0; i < p->ntransports; i++)
        print_missing(p, i, in);
    free(in);
    return 1;
}

/* ---- JSON ---- */

static json_t *hosts_json(const struct peers *p)
{
    json_t *hosts = json_array();

    for (int node = 0; node < p->nnodes; node++) {
        json_t *ranks = json_array();
        const char *name = "";
        for (int r = 0; r < p->nranks; r++)
            if (p->node[r] == node) {
                name = peers_host(p, r);
                json_array_append_new(ranks, json_integer(r));
            }
        json_array_append_new(hosts, json_pack("{s:o, s:o}", "name", info_string(name), "ranks", ranks));
    }
    return hosts;
}

/* `reaches`: a string for each rank, with 1 where it reaches that rank. */
static json_t *transport_json(const struct peers *p, const struct peers_transport *t)
{
    json_t *without = json_array(), *reaches = json_array();
    char *row = calloc((size_t)p->nranks + 1, 1);

    for (int r = 0; row && r < p->nranks; r++) {
        for (int q = 0; q < p->nranks; q++)
            row[q] = t->route[(size_t)r * (size_t)p->nranks + (size_t)q] & PEERS_REACHES ? '1' : '0';
        json_array_append_new(reaches, json_string(row));
        if (!t->has[r])
            json_array_append_new(
                without, json_pack("{s:i, s:o}", "rank", r, "why", info_string(peers_why_without(p, r, t->name))));
    }
    free(row);
    return json_pack("{s:o, s:i, s:o, s:o}", "name", info_string(t->name), "priority", t->priority, "without", without,
                     "reaches", reaches);
}

static json_t *group_json(const struct peers *p, const struct peers_group *g)
{
    char whose[1024];

    peers_whose(p, g, whose, sizeof whose);
    return json_pack("{s:o, s:I, s:o, s:o}", "transport",
                     g->used < 0 ? json_null() : info_string(p->transport[g->used].name), "pairs", (json_int_t)g->pairs,
                     "whose", info_string(whose), "left_out", info_string(g->left_out));
}

json_t *peers_json(const struct peers *p, const struct peers_group *groups, int ngroups)
{
    json_t *transports = json_array(), *pairs = json_array(), *matrix = json_array();

    for (int i = 0; i < p->ntransports; i++)
        json_array_append_new(transports, transport_json(p, &p->transport[i]));
    for (int i = 0; i < ngroups; i++)
        json_array_append_new(pairs, group_json(p, &groups[i]));
    for (int a = 0; a < p->nranks; a++) {
        json_t *row = json_array();
        for (int b = 0; b < p->nranks; b++)
            json_array_append_new(row, json_integer(peers_used(p, a, b)));
        json_array_append_new(matrix, row);
    }
    return json_pack("{s:s, s:i, s:o, s:o, s:o, s:o}", "version", weft_version(), "nranks", p->nranks, "hosts",
                     hosts_json(p), "transports", transports, "pairs", pairs, "matrix", matrix);
}
