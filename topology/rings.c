/* SPDX-License-Identifier: BSD-3-Clause */
/* Several rings over all ranks, each by adapters of its own. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "topology/placement.h"

struct rank_at {
    int host, nic, rank;
};

/* The ranks of one host, by adapter. */
struct host_part {
    struct rank_at *at;
    int n, nnics;
};

struct making {
    const struct wi_model *m;
    struct rank_at *at;
    struct host_part *hosts; /* in the order of the rings */
    int nhosts;
    int32_t *scratch; /* [2 * nranks] */
};

static int by_adapter(const void *pa, const void *pb)
{
    const struct rank_at *a = pa, *b = pb;

    if (a->host != b->host)
        return a->host < b->host ? -1 : 1;
    if (a->nic != b->nic)
        return a->nic < b->nic ? -1 : 1;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

static void find_hosts(struct making *k)
{
    const struct wi_model *m = k->m;

    for (int r = 0; r < m->nranks; r++)
        k->at[r] = (struct rank_at){m->ranks[r].host, m->ranks[r].nic, r};
    qsort(k->at, (size_t)m->nranks, sizeof(*k->at), by_adapter);
    for (int i = 0; i < m->nranks; i++) {
        int is_host = i == 0 || k->at[i].host != k->at[i - 1].host;
        if (is_host)
            k->hosts[k->nhosts++] = (struct host_part){&k->at[i], 0, 0};
        struct host_part *host = &k->hosts[k->nhosts - 1];
        host->nnics += is_host || k->at[i].nic != k->at[i - 1].nic;
        host->n++;
    }
}

static int by_host(const void *key, const void *host)
{
    int a = *(const int *)key, b = ((const struct host_part *)host)->at->host;

    return (a > b) - (a < b);
}

/* Hosts in the order of a ring of their first ranks. */
static weft_status order_hosts(struct making *k)
{
    int32_t *first = k->scratch, *order = k->scratch + k->m->nranks;
    struct host_part *sorted = wi_malloc((size_t)k->nhosts * sizeof(*sorted));

    if (!sorted)
        return wi_fail(WEFT_ENOMEM, "topology: no memory for %d hosts", k->nhosts);
    for (int h = 0; h < k->nhosts; h++)
        first[h] = k->hosts[h].at[0].rank;
    weft_status st = wi_ring_order(k->m, first, k->nhosts, order, NULL);
    memcpy(sorted, k->hosts, (size_t)k->nhosts * sizeof(*sorted));
    for (int h = 0; st == WEFT_SUCCESS && h < k->nhosts; h++) {
        int host = k->m->ranks[order[h]].host;
        k->hosts[h] = *(struct host_part *)bsearch(&host, sorted, (size_t)k->nhosts, sizeof(*sorted), by_host);
    }
    wi_free(sorted);
    return st;
}

/* Where the ranks of the host's adapter number `nic` begin, and how many they are. */
static int adapter_ranks(const struct host_part *host, int nic, int *n)
{
    int first = 0;

    for (int i = 1; i < host->n && nic > 0; i++)
        if (host->at[i].nic != host->at[i - 1].nic && --nic == 0)
            first = i;
    for (*n = 1; first + *n < host->n && host->at[first + *n].nic == host->at[first].nic;)
        ++*n;
    return first;
}

/* In by the ring's adapter, out by it or by the next one, the other ranks between as they are near each other. */
static weft_status visit_host(struct making *k, const struct host_part *host, int ring, int32_t *order)
{
    int n, other, in = adapter_ranks(host, ring % host->nnics, &n), out = in + n - 1, filled = 1;
    int32_t *chain = k->scratch;

    if (n == 1 && host->n > 1)
        out = adapter_ranks(host, (ring + 1) % host->nnics, &other);
    chain[0] = host->at[in].rank;
    for (int i = 0; i < host->n; i++)
        if (i != in && i != out)
            chain[filled++] = host->at[i].rank;
    if (out != in)
        chain[filled++] = host->at[out].rank;
    return wi_chain_order(k->m, chain, filled, order);
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* (Adapter, direction) of all hops between hosts of all rings: those that stand there more than once. */
static weft_status count_shared(const struct making *k, struct wi_rings *rings)
{
    size_t most = 2 * (size_t)rings->nrings * (size_t)rings->nranks;
    int64_t *used = wi_malloc(most * sizeof(*used));
    size_t n = 0;

    if (!used)
        return wi_fail(WEFT_ENOMEM, "topology: no memory to compare rings");
    for (int ring = 0; ring < rings->nrings; ring++)
        for (int i = 0; i < rings->nranks; i++) {
            const int32_t *order = rings->order + (size_t)ring * (size_t)rings->nranks;
            const struct wi_model_rank *a = &k->m->ranks[order[i]], *b = &k->m->ranks[order[(i + 1) % rings->nranks]];
            if (a->host == b->host || a->nic < 0 || b->nic < 0)
                continue;
            used[n++] = 2 * (int64_t)a->nic;
            used[n++] = 2 * (int64_t)b->nic + 1;
        }
    qsort(used, n, sizeof(*used), by_value);
    for (size_t i = 1; i < n; i++)
        rings->nshared += used[i] == used[i - 1] && (i < 2 || used[i - 2] != used[i]);
    wi_free(used);
    return WEFT_SUCCESS;
}

static weft_status make(struct making *k, int max, struct wi_rings **rings)
{
    int nranks = k->m->nranks, nrings = max;

    find_hosts(k);
    WI_TRY(order_hosts(k));
    for (int h = 0; h < k->nhosts; h++)
        nrings = k->hosts[h].nnics < nrings ? k->hosts[h].nnics : nrings;
    if (k->nhosts == 1)
        nrings = 1;
    struct wi_rings *made = wi_calloc(1, sizeof(*made));
    int32_t *order = wi_malloc((size_t)nrings * (size_t)nranks * sizeof(*order));
    weft_status st = made && order ? WEFT_SUCCESS : wi_fail(WEFT_ENOMEM, "topology: no memory for %d rings", nrings);
    for (int ring = 0, at = 0; st == WEFT_SUCCESS && ring < nrings; ring++)
        for (int h = 0; st == WEFT_SUCCESS && h < k->nhosts && k->nhosts > 1; at += k->hosts[h++].n)
            st = visit_host(k, &k->hosts[h], ring, order + at);
    if (st == WEFT_SUCCESS && k->nhosts == 1)
        st = wi_ring_order(k->m, NULL, nranks, order, NULL);
    if (st == WEFT_SUCCESS) {
        *made = (struct wi_rings){nrings, nranks, order, 0};
        st = count_shared(k, made);
    }
    if (st == WEFT_SUCCESS) {
        *rings = made;
        return st;
    }
    wi_free(order);
    wi_free(made);
    return st;
}

weft_status wi_rings_create(const struct wi_model *m, int max, struct wi_rings **rings)
{
    struct making k = {.m = m};
    size_t n = (size_t)m->nranks;

    if (max < 1)
        return wi_fail(WEFT_EINVAL, "topology: at most %d rings: must be 1 or more", max);
    k.at = wi_malloc(n * sizeof(*k.at));
    k.hosts = wi_malloc(n * sizeof(*k.hosts));
    k.scratch = wi_malloc(2 * n * sizeof(*k.scratch));
    weft_status st = k.at && k.hosts && k.scratch ? make(&k, max, rings)
                                                  : wi_fail(WEFT_ENOMEM, "topology: no memory for rings of %zu", n);
    wi_free(k.at);
    wi_free(k.hosts);
    wi_free(k.scratch);
    return st;
}

void wi_rings_destroy(struct wi_rings *rings)
{
    if (!rings)
        return;
    wi_free(rings->order);
    wi_free(rings);
}
