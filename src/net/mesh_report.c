/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/mesh_report.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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

static int has(const struct wi_mesh *m, int rank, int i)
{
    return m->routes.has[rank] >> i & 1;
}

int wi_mesh_memory(const struct wi_mesh *m, int i)
{
    return !(m->routes.caps[i] & WEFT_CAP_MAPPED) ? 0 : strcmp(m->routes.names[i], "inproc") == 0 ? 2 : 1;
}

/* ---- All pairs ---- */

static int node_lacks(const struct wi_mesh *m, int node, int i)
{
    for (int r = 0; r < m->nranks; r++)
        if (m->ranks[r].node_index == node && has(m, r, i))
            return 0;
    return 1;
}

/* "host b has none": all of its ranks; else the ranks are counted, and the first is named. */
static void add_lacking(struct text *t, const struct wi_mesh *m, int i)
{
    int ranks = 0, first = -1, nodes = 0, of_nodes = 0;

    for (int r = 0; r < m->nranks; r++) {
        if (has(m, r, i))
            continue;
        first = first < 0 ? r : first;
        ranks++;
    }
    for (int node = 0; node < m->nnodes; node++) {
        if (!node_lacks(m, node, i))
            continue;
        nodes++;
        for (int r = 0; r < m->nranks; r++)
            of_nodes += m->ranks[r].node_index == node;
    }
    add(t, "; %s: ", m->routes.names[i]);
    if (of_nodes == ranks && nodes == 1)
        add(t, "host %s has none", wi_mesh_host(m, first));
    else if (of_nodes == ranks)
        add(t, "%d hosts have none, %s the first", nodes, wi_mesh_host(m, first));
    else if (ranks == 1)
        add(t, "rank %d on host %s has none", first, wi_mesh_host(m, first));
    else
        add(t, "%d ranks have none, rank %d on host %s the first", ranks, first, wi_mesh_host(m, first));
}

/* Some rank lacks it that has a neighbour with it. */
static int node_differs(const struct wi_mesh *m, int i)
{
    for (int a = 0; a < m->nranks; a++)
        for (int b = a + 1; b < m->nranks; b++)
            if (m->ranks[a].node_index == m->ranks[b].node_index && has(m, a, i) != has(m, b, i))
                return 1;
    return 0;
}

static void add_more(struct text *t, const struct wi_routes_pairs *pairs)
{
    if (pairs->count > 1)
        add(t, ", and so in %llu more pair%s", (unsigned long long)pairs->count - 1, pairs->count > 2 ? "s" : "");
}

static void add_reasons(struct text *t, const struct wi_mesh *m, int i)
{
    const struct wi_routes_total *total = &m->routes.total[i];
    const char *name = m->routes.names[i];
    int memory = wi_mesh_memory(m, i);

    if (memory == 2) /* no rank of another process misses it */
        return;
    if (total->lacking.count && (!memory || node_differs(m, i)))
        add_lacking(t, m, i);
    if (total->one_way.count) {
        add(t, "; %s reaches rank %d on host %s from rank %d on host %s, but not back", name, total->one_way.b,
            wi_mesh_host(m, total->one_way.b), total->one_way.a, wi_mesh_host(m, total->one_way.a));
        add_more(t, &total->one_way);
    }
    if (total->neither.count && !memory) {
        add(t, "; %s reaches neither way between rank %d on host %s and rank %d on host %s", name, total->neither.a,
            wi_mesh_host(m, total->neither.a), total->neither.b, wi_mesh_host(m, total->neither.b));
        add_more(t, &total->neither);
    }
}

void wi_mesh_report(const struct wi_mesh *m, char *text, size_t capacity)
{
    const struct wi_routes *r = &m->routes;
    struct text t = {text, 0, capacity};

    text[0] = '\0';
    for (int i = 0; i < r->nnames; i++)
        if (r->total[i].serves)
            add(&t, "%s%s %llu pair%s", t.used ? ", " : "", r->names[i], (unsigned long long)r->total[i].serves,
                r->total[i].serves > 1 ? "s" : "");
    for (int i = 0; i < r->nnames; i++)
        add_reasons(&t, m, i);
}

/* ---- One pair ---- */

void wi_mesh_left_out(const struct wi_mesh *m, int peer, char *text, size_t capacity)
{
    const struct wi_routes *r = &m->routes;
    const char *host = wi_mesh_host(m, peer);
    struct text t = {text, 0, capacity};

    text[0] = '\0';
    for (int i = 0; i < r->nnames; i++) {
        unsigned there = r->mine[peer] >> i & 1, back = r->mine[r->nranks + peer] >> i & 1;
        const char *comma = t.used ? ", " : "";
        int memory = wi_mesh_memory(m, i), same_node = m->ranks[peer].node_index == m->ranks[m->rank].node_index;
        if (!wi_routes_is_left_out(r, peer, i) || memory == 2 || (memory && !same_node))
            continue;
        if (!has(m, peer, i))
            add(&t, "%s%s: rank %d on host %s has none", comma, r->names[i], peer, host);
        else if (!has(m, r->rank, i))
            add(&t, "%s%s: this rank has none", comma, r->names[i]);
        else if (there)
            add(&t, "%s%s reaches rank %d on host %s from here, but not back", comma, r->names[i], peer, host);
        else if (back)
            add(&t, "%s%s reaches this rank from rank %d on host %s, but not back", comma, r->names[i], peer, host);
        else if (!memory)
            add(&t, "%s%s reaches neither way", comma, r->names[i]);
    }
}
