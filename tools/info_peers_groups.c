/* SPDX-License-Identifier: BSD-3-Clause */
/* Pairs of hundreds of ranks in few lines: those that are alike together, and in words whose they are. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "info_peers.h"

#define NAMES_SHOWN 8

/* ---- Groups ---- */

static int reaches(const struct peers *p, int i, int a, int b)
{
    return p->transport[i].route[(size_t)a * (size_t)p->nranks + (size_t)b] & PEERS_REACHES;
}

/* Of a pair whose first rank is the lower one. NULL: it serves, or need not be spoken of: memory ends with the node. */
static const char *why_not(const struct peers *p, int i, int a, int b)
{
    const struct peers_transport *t = &p->transport[i];
    int there = reaches(p, i, a, b), back = reaches(p, i, b, a);

    if (t->memory == 2) /* no rank of another process misses it */
        return NULL;
    if (t->has[a] != t->has[b])
        return t->memory && p->node[a] != p->node[b] ? NULL : ": only one of the two has it";
    if (!t->has[a] || (there && back))
        return NULL;
    if (there || back)
        return there ? " reaches the higher rank only" : " reaches the lower rank only";
    return t->memory ? NULL : " reaches neither way";
}

static void describe(const struct peers *p, int a, int b, struct peers_group *g)
{
    size_t used = 0;

    g->used = peers_used(p, a, b);
    g->lacked = -1;
    g->left_out[0] = '\0';
    for (int i = 0; i < p->ntransports && used < sizeof g->left_out; i++) {
        const struct peers_transport *t = &p->transport[i];
        const char *why = why_not(p, i, a, b);
        if (!why || (g->used >= 0 && t->priority <= p->transport[g->used].priority))
            continue;
        if (t->has[a] != t->has[b])
            g->lacked = i;
        used +=
            (size_t)snprintf(g->left_out + used, sizeof g->left_out - used, "%s%s%s", used ? "; " : "", t->name, why);
    }
}

static struct peers_group *group_of(const struct peers *p, const struct peers_group *like, struct peers_group **groups,
                                    int *ngroups)
{
    struct peers_group *more;

    for (int i = 0; i < *ngroups; i++)
        if ((*groups)[i].used == like->used && strcmp((*groups)[i].left_out, like->left_out) == 0)
            return &(*groups)[i];
    more = realloc(*groups, (size_t)(*ngroups + 1) * sizeof *more);
    if (!more)
        return NULL;
    *groups = more;
    more += (*ngroups)++;
    *more = *like;
    more->in = calloc((size_t)p->nranks, 1);
    return more->in ? more : NULL;
}

int peers_groups(const struct peers *p, struct peers_group **groups, int *ngroups)
{
    *groups = NULL;
    *ngroups = 0;
    for (int a = 0; a < p->nranks; a++) {
        for (int b = a + 1; b < p->nranks; b++) {
            struct peers_group like = {.a = a, .b = b}, *g;
            describe(p, a, b, &like);
            g = group_of(p, &like, groups, ngroups);
            if (!g) {
                peers_groups_free(*groups, *ngroups);
                *groups = NULL;
                *ngroups = 0;
                return 0;
            }
            g->pairs++;
            g->inside += p->node[a] == p->node[b];
            g->in[a] = g->in[b] = 1;
        }
    }
    return 1;
}

void peers_groups_free(struct peers_group *groups, int ngroups)
{
    for (int i = 0; i < ngroups; i++)
        free(groups[i].in);
    free(groups);
}

/* ---- Words ---- */

struct text {
    char *at;
    size_t used, capacity;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *t, const char *format, ...)
{
    va_list ap;
    int n;

    va_start(ap, format);
    n = vsnprintf(t->at + t->used, t->capacity - t->used, format, ap);
    va_end(ap);
    if (n > 0)
        t->used = t->used + (size_t)n < t->capacity ? t->used + (size_t)n : t->capacity - 1;
}

void peers_ranks(const unsigned char *in, int n, char *text, size_t capacity)
{
    struct text t = {text, 0, capacity};
    int ranges = 0, ranks = 0, more = 0;

    for (int r = 0; r < n; r++)
        ranks += in[r];
    text[0] = '\0';
    add(&t, ranks == 1 ? "rank " : "ranks ");
    for (int r = 0, end; r < n; r = end + 1) {
        for (end = r; in[end] && end + 1 < n && in[end + 1];)
            end++;
        if (!in[r])
            continue;
        if (ranges == NAMES_SHOWN)
            more += end - r + 1;
        else
            add(&t, "%s%d", ranges++ ? "," : "", r);
        if (end > r && !more)
            add(&t, "-%d", end);
    }
    if (more)
        add(&t, " and %d more", more);
}

/* 1: for each node all or none of these ranks. *nodes: of how many. */
static int whole_nodes(const struct peers *p, const unsigned char *in, int *nodes)
{
    int *of = calloc(2 * (size_t)p->nnodes, sizeof *of), whole = of != NULL;

    *nodes = 0;
    for (int r = 0; of && r < p->nranks; r++) {
        of[2 * p->node[r]]++;
        of[2 * p->node[r] + 1] += in[r];
    }
    for (int node = 0; of && node < p->nnodes; node++) {
        whole &= of[2 * node + 1] == 0 || of[2 * node + 1] == of[2 * node];
        *nodes += of[2 * node + 1] > 0;
    }
    free(of);
    return whole;
}

static void add_hosts(struct text *t, const struct peers *p, const unsigned char *in, int nodes, const char *last)
{
    int shown = 0;

    for (int r = 0; r < p->nranks && shown < NAMES_SHOWN; r++) {
        int first = in[r];
        for (int q = 0; q < r && first; q++)
            first = p->node[q] != p->node[r];
        if (!first)
            continue;
        add(t, "%s%s", !shown ? "" : shown + 1 == nodes ? last : ", ", peers_host(p, r));
        shown++;
    }
    if (nodes > shown)
        add(t, " and %d more", nodes - shown);
}

static void add_side(struct text *t, const struct peers *p, const unsigned char *in, const char *last)
{
    char ranks[256];
    int nodes;

    if (whole_nodes(p, in, &nodes) && nodes == p->nnodes && nodes > NAMES_SHOWN) {
        add(t, "all %d hosts", nodes);
        return;
    }
    if (whole_nodes(p, in, &nodes)) {
        add_hosts(t, p, in, nodes, last);
        return;
    }
    peers_ranks(in, p->nranks, ranks, sizeof ranks);
    add(t, "%s", ranks);
}

/* How many pairs there are of a rank of `a` and one of `b`, within nodes and between them; a == b: of two of them. */
static void count(const struct peers *p, const unsigned char *a, const unsigned char *b, long long *inside,
                  long long *between)
{
    *inside = *between = 0;
    for (int r = 0; r < p->nranks; r++)
        for (int q = a == b ? r + 1 : 0; q < p->nranks; q++) {
            if (!a[r] || !b[q])
                continue;
            *inside += p->node[r] == p->node[q];
            *between += p->node[r] != p->node[q];
        }
}

/* All pairs of these ranks, or all within nodes, or all between nodes; 0: others. */
static int alike(const struct peers *p, const struct peers_group *g, const unsigned char *in, struct text *t)
{
    long long inside, between;
    int nodes, whole = whole_nodes(p, in, &nodes);

    count(p, in, in, &inside, &between);
    if (g->pairs == between && !g->inside)
        add(t, whole ? "between " : "between hosts, of ");
    else if (g->pairs == inside && g->inside == inside)
        add(t, !whole ? "within hosts, of " : nodes > 1 ? "within each of " : "within ");
    else if (g->pairs == inside + between)
        add(t, "among ");
    else
        return 0;
    add_side(t, p, in, " and ");
    return 1;
}

/* From all ranks that have the transport to all that lack it; or of the same host, or of others. 0: others. */
static int from_to(const struct peers *p, const struct peers_group *g, struct text *t)
{
    unsigned char *have = calloc(2 * (size_t)p->nranks, 1), *lack = have ? have + p->nranks : NULL;
    long long inside = 0, between = 0;
    int all, same, other;

    for (int r = 0; have && r < p->nranks; r++)
        (p->transport[g->lacked].has[r] ? have : lack)[r] = g->in[r];
    if (have)
        count(p, have, lack, &inside, &between);
    all = have && g->pairs == inside + between;
    same = have && g->pairs == inside && g->inside == inside;
    other = have && g->pairs == between && !g->inside;
    if (all || same || other) {
        add(t, "from ");
        add_side(t, p, have, ", ");
        add(t, " to ");
        add_side(t, p, lack, ", ");
        add(t, all ? "" : same ? " of the same host" : " of other hosts");
    }
    free(have);
    return all || same || other;
}

/* The pairs of a group are of its ranks: when there are as many as those ranks have, they are all of them. */
void peers_whose(const struct peers *p, const struct peers_group *g, char *text, size_t capacity)
{
    struct text t = {text, 0, capacity};
    char ranks[256];

    text[0] = '\0';
    if (g->lacked >= 0 ? from_to(p, g, &t) : alike(p, g, g->in, &t))
        return;
    if (g->pairs == 1) {
        add(&t, "of ranks %d and %d", g->a, g->b);
        return;
    }
    peers_ranks(g->in, p->nranks, ranks, sizeof ranks);
    add(&t, "of some of %s, %d and %d the first", ranks, g->a, g->b);
}
