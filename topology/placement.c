/* SPDX-License-Identifier: BSD-3-Clause */
/* Default places of ranks, and the leader of each adapter. */
#include "topology/placement.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "topology/graph_internal.h"

/* ---- Places ---- */

struct host_share {
    int object, nplaces, nranks;
    enum wi_topo_kind kind; /* of its places; HOST: the host itself */
};

/* Places of each host: its GPUs, or its cores, or itself. */
static void count_places(const struct wi_topo *t, struct host_share *shares, int *share_of)
{
    int n = 0;

    for (int o = 0; o < t->nobjects; o++)
        if (t->objects[o].kind == WI_TOPO_HOST) {
            share_of[o] = n;
            shares[n++] = (struct host_share){o, 0, 0, WI_TOPO_HOST};
        }
    for (int o = 0; o < t->nobjects; o++) {
        enum wi_topo_kind kind = t->objects[o].kind;
        struct host_share *s = t->objects[o].host == WI_TOPO_NONE ? NULL : &shares[share_of[t->objects[o].host]];
        if (!s || (kind != WI_TOPO_CORE && kind != WI_TOPO_GPU))
            continue;
        if (kind == WI_TOPO_GPU && s->kind != WI_TOPO_GPU)
            s->nplaces = 0;
        if (kind == WI_TOPO_GPU || s->kind != WI_TOPO_GPU) {
            s->kind = kind;
            s->nplaces++;
        }
    }
    for (int h = 0; h < n; h++)
        shares[h].nplaces += shares[h].nplaces == 0;
}

/* One more for each host in turn that has a place left; all places taken, it begins anew. */
static void share_ranks(struct host_share *shares, int nhosts, int nranks)
{
    for (int round = 1, filled = 0; nranks > 0; filled = 0) {
        for (int h = 0; h < nhosts && nranks > 0; h++) {
            if ((int64_t)shares[h].nranks >= (int64_t)round * shares[h].nplaces) {
                filled++;
                continue;
            }
            shares[h].nranks++;
            nranks--;
        }
        round += filled == nhosts;
    }
}

weft_status wi_place_ranks(const struct wi_topo *topo, int nranks, int32_t *places)
{
    if (nranks < 1 || nranks > WI_MODEL_MAX_RANKS)
        return wi_fail(WEFT_EINVAL, "topology: %d ranks to place: must be 1 to %d", nranks, WI_MODEL_MAX_RANKS);
    struct host_share *shares = wi_calloc((size_t)topo->nhosts, sizeof(*shares));
    int *share_of = wi_calloc((size_t)topo->nobjects, sizeof(*share_of));
    int *first = wi_calloc((size_t)topo->nhosts, sizeof(*first)),
        *seen = wi_calloc((size_t)topo->nhosts, sizeof(*seen));
    weft_status st = WEFT_SUCCESS;

    if (!shares || !share_of || !first || !seen) {
        st = wi_fail(WEFT_ENOMEM, "topology: no memory to place %d ranks", nranks);
        goto out;
    }
    count_places(topo, shares, share_of);
    share_ranks(shares, topo->nhosts, nranks);
    for (int h = 1; h < topo->nhosts; h++)
        first[h] = first[h - 1] + shares[h - 1].nranks;
    for (int o = 0; o < topo->nobjects; o++) {
        if (topo->objects[o].host == WI_TOPO_NONE)
            continue;
        int h = share_of[topo->objects[o].host];
        struct host_share *s = &shares[h];
        if (topo->objects[o].kind != s->kind)
            continue;
        /* Rank i of the host is on place i * nplaces / nranks: spread, in order. */
        int place = seen[h]++;
        for (int64_t i = ((int64_t)place * s->nranks + s->nplaces - 1) / s->nplaces;
             i < s->nranks && i * s->nplaces / s->nranks == place; i++)
            places[first[h] + i] = o;
    }
out:
    wi_free(shares);
    wi_free(share_of);
    wi_free(first);
    wi_free(seen);
    return st;
}

/* ---- Leaders ---- */

struct member {
    int host, nic, rank;
};

static int by_adapter(const void *pa, const void *pb)
{
    const struct member *a = pa, *b = pb;

    if (a->host != b->host)
        return a->host < b->host ? -1 : 1;
    if (a->nic != b->nic)
        return a->nic < b->nic ? -1 : 1;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

weft_status wi_leaders(const struct wi_model *m, int32_t *leader)
{
    struct member *members = wi_malloc((size_t)m->nranks * sizeof(*members));

    if (!members)
        return wi_fail(WEFT_ENOMEM, "topology: no memory for %d leaders", m->nranks);
    for (int r = 0; r < m->nranks; r++)
        members[r] = (struct member){m->ranks[r].host, m->ranks[r].nic, r};
    qsort(members, (size_t)m->nranks, sizeof(*members), by_adapter);
    for (int i = 0, first = 0; i < m->nranks; i++) {
        if (members[i].host != members[first].host || members[i].nic != members[first].nic)
            first = i;
        leader[members[i].rank] = members[first].rank;
    }
    wi_free(members);
    return WEFT_SUCCESS;
}
