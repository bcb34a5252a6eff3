/* SPDX-License-Identifier: BSD-3-Clause */
/* Routes: each rank announces which of its transports reach which rank; all ranks choose alike from all announcements. */
#include "net/mesh_routes.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/status.h"

/* What a rank says: its priorities, and a byte for each rank. */
#define ROW_HEAD (WI_ROUTES_MAX_TRANSPORTS * sizeof(int16_t))

weft_status wi_routes_init(struct wi_routes *r, int rank, int nranks)
{
    memset(r, 0, sizeof *r);
    r->rank = rank;
    r->nranks = nranks;
    for (int i = 0; i < WI_ROUTES_MAX_TRANSPORTS; i++)
        r->greatest[i] = INT_MIN;
    r->mine = wi_calloc(3, (size_t)nranks);
    r->has = r->mine ? r->mine + 2 * (size_t)nranks : NULL;
    return r->mine ? WEFT_SUCCESS : wi_fail(WEFT_ENOMEM, "routes among %d ranks", nranks);
}

void wi_routes_fini(struct wi_routes *r)
{
    wi_free(r->mine);
    wi_free(r->pair);
    r->mine = r->has = r->pair = NULL;
}

static int index_of(const struct wi_routes *r, const char *name)
{
    for (int i = 0; i < r->nnames; i++)
        if (strncmp(r->names[i], name, sizeof r->names[i]) == 0)
            return i;
    return -1;
}

static int name_order(const void *a, const void *b)
{
    return strcmp(a, b);
}

void wi_routes_add_transport(struct wi_routes *r, const char *name)
{
    if (index_of(r, name) >= 0)
        return;
    if (r->nnames == WI_ROUTES_MAX_TRANSPORTS) {
        if (!r->full_logged)
            wi_log(WEFT_LOG_WARN, "net.routes",
                   "transport %s is not used: the ranks have more than %d (WEFT_TRANSPORTS)", name,
                   WI_ROUTES_MAX_TRANSPORTS);
        r->full_logged = 1;
        return;
    }
    snprintf(r->names[r->nnames++], sizeof r->names[0], "%s", name);
    qsort(r->names, (size_t)r->nnames, sizeof r->names[0], name_order);
}

void wi_routes_add_caps(struct wi_routes *r, const char *name, uint32_t caps)
{
    int i = index_of(r, name);

    if (i < 0)
        return;
    r->caps[i] = r->caps_known[i] ? r->caps[i] & caps : caps;
    r->caps_known[i] = 1;
}

uint32_t wi_routes_caps(const struct wi_routes *r, const char *name)
{
    int i = index_of(r, name);

    return i < 0 ? 0 : r->caps[i];
}

void wi_routes_add_rank(struct wi_routes *r, const char *name, int rank)
{
    int i = index_of(r, name);

    if (i >= 0)
        r->has[rank] |= (unsigned char)(1u << i);
}

void wi_routes_add_own(struct wi_routes *r, const char *name, int priority)
{
    int i = index_of(r, name);

    if (i >= 0)
        r->priority[i] = priority > INT16_MAX ? INT16_MAX : priority < INT16_MIN ? INT16_MIN : priority;
}

void wi_routes_add_peer(struct wi_routes *r, const char *name, int peer)
{
    int i = index_of(r, name);

    if (i >= 0)
        r->mine[peer] |= (unsigned char)(1u << i);
}

static int priority_of(const unsigned char *row, int i)
{
    int16_t priority;

    memcpy(&priority, row + (size_t)i * sizeof priority, sizeof priority);
    return priority;
}

static unsigned char best_of(const struct wi_routes *r, const unsigned char *a, const unsigned char *b, unsigned both)
{
    unsigned char best = WI_ROUTES_NONE;
    int best_priority = 0;

    for (int i = 0; i < r->nnames; i++) {
        int p = priority_of(a, i), q = priority_of(b, i), least = p < q ? p : q;
        if (!(both >> i & 1) || (best != WI_ROUTES_NONE && least <= best_priority))
            continue;
        best = (unsigned char)i;
        best_priority = least;
    }
    return best;
}

static void count(struct wi_routes_pairs *pairs, int a, int b)
{
    if (!pairs->count++) {
        pairs->a = a;
        pairs->b = b;
    }
}

/* Some rank of the two has it, it does not reach both ways, and nothing as good was chosen. */
static int is_left_out(const struct wi_routes *r, unsigned some, unsigned both_ways, unsigned char best, int i)
{
    return (some & ~both_ways) >> i & 1 && (best == WI_ROUTES_NONE || r->greatest[i] > r->greatest[best]);
}

static void count_left_out(struct wi_routes *r, int a, int b, unsigned char best, unsigned there, unsigned back)
{
    unsigned some = r->has[a] | r->has[b], both = r->has[a] & r->has[b];

    for (int i = 0; i < r->nnames; i++) {
        struct wi_routes_total *t = &r->total[i];
        unsigned bit = 1u << i;
        if (!is_left_out(r, some, there & back, best, i))
            continue;
        if (!(both & bit))
            count(&t->lacking, a, b);
        else if (there & bit)
            count(&t->one_way, a, b);
        else if (back & bit)
            count(&t->one_way, b, a);
        else
            count(&t->neither, a, b);
    }
}

static void count_pairs(struct wi_routes *r, const unsigned char *rows, size_t row_bytes)
{
    size_t n = (size_t)r->nranks;

    for (size_t a = 0; a < n; a++)
        for (int i = 0; i < r->nnames; i++) {
            int priority = priority_of(rows + a * row_bytes, i);
            if (r->has[a] >> i & 1 && priority > r->greatest[i])
                r->greatest[i] = priority;
        }
    for (size_t a = 0; a < n; a++) {
        for (size_t b = a + 1; b < n; b++) {
            const unsigned char *ra = rows + a * row_bytes, *rb = rows + b * row_bytes;
            unsigned char best = r->pair[a * n + b];
            if (best != WI_ROUTES_NONE)
                r->total[best].serves++;
            count_left_out(r, (int)a, (int)b, best, ra[ROW_HEAD + b], rb[ROW_HEAD + a]);
        }
    }
}

/* Most jobs have one transport for all pairs: then the matrix is not kept. */
static void keep_if_mixed(struct wi_routes *r)
{
    size_t n = (size_t)r->nranks;

    r->of_all_pairs = n > 1 ? r->pair[1] : WI_ROUTES_NONE;
    for (size_t a = 0; a < n; a++)
        for (size_t b = 0; b < n; b++)
            if (a != b && r->pair[a * n + b] != r->of_all_pairs)
                return;
    wi_free(r->pair);
    r->pair = NULL;
}

static void decide(struct wi_routes *r, const unsigned char *rows, size_t row_bytes)
{
    size_t n = (size_t)r->nranks;

    for (size_t a = 0; a < n; a++) {
        for (size_t b = 0; b < n; b++) {
            const unsigned char *ra = rows + a * row_bytes, *rb = rows + b * row_bytes;
            unsigned both = ra[ROW_HEAD + b] & rb[ROW_HEAD + a] & r->has[a] & r->has[b];
            unsigned char best = a == b ? WI_ROUTES_NONE : best_of(r, ra, rb, both);
            r->pair[a * n + b] = best;
            if (best != WI_ROUTES_NONE)
                r->used |= 1u << best;
        }
        r->mine[n + a] = rows[a * row_bytes + ROW_HEAD + (size_t)r->rank];
    }
    count_pairs(r, rows, row_bytes);
    keep_if_mixed(r);
}

weft_status wi_routes_agree(struct wi_routes *r, struct wi_bootstrap *bootstrap, uint64_t deadline_ns)
{
    size_t n = (size_t)r->nranks, row_bytes = ROW_HEAD + n;
    unsigned char *row = wi_calloc(1, row_bytes), *rows = wi_malloc(n * row_bytes);
    weft_status st;

    r->pair = wi_malloc(n * n);
    if (!row || !rows || !r->pair) {
        st = wi_fail(WEFT_ENOMEM, "routes among %d ranks", r->nranks);
        goto out;
    }
    for (int i = 0; i < r->nnames; i++) {
        int16_t priority = (int16_t)r->priority[i];
        memcpy(row + (size_t)i * sizeof priority, &priority, sizeof priority);
    }
    memcpy(row + ROW_HEAD, r->mine, n);
    st = bootstrap->all_gather(bootstrap, row, row_bytes, rows, deadline_ns);
    if (st >= 0)
        decide(r, rows, row_bytes);
out:
    wi_free(row);
    wi_free(rows);
    return st;
}

static unsigned char index_of_pair(const struct wi_routes *r, int a, int b)
{
    return a == b ? WI_ROUTES_NONE : r->pair ? r->pair[(size_t)a * (size_t)r->nranks + (size_t)b] : r->of_all_pairs;
}

int wi_routes_is_left_out(const struct wi_routes *r, int peer, int i)
{
    unsigned there = r->mine[peer], back = r->mine[r->nranks + peer];

    return peer != r->rank &&
           is_left_out(r, r->has[peer] | r->has[r->rank], there & back, index_of_pair(r, r->rank, peer), i);
}

const char *wi_routes_pair(const struct wi_routes *r, int a, int b)
{
    unsigned char i = index_of_pair(r, a, b);

    return i == WI_ROUTES_NONE ? NULL : r->names[i];
}

void wi_routes_one_way(const struct wi_routes *r, int peer, char *text, size_t capacity)
{
    unsigned there = r->mine[peer], back = r->mine[r->nranks + peer];
    size_t at = 0;

    text[0] = '\0';
    for (int i = 0; i < r->nnames && at < capacity; i++)
        if ((there ^ back) >> i & 1)
            at += (size_t)snprintf(text + at, capacity - at, "%s%s reaches %s", at ? ", " : "", r->names[i],
                                   there >> i & 1 ? "it from here but not back" : "this rank from there but not back");
}
