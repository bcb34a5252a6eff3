/* rails.c: which of a peer's equally good addresses a socket takes, and how many sockets that asks for.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Hosts with several adapters, each on a network of its own: the ranks of a host take turns, so that all links carry something
 * while each pair keeps to one socket. Where a host has fewer ranks than links a pair has a socket for each link that is left.
 * The turn is that of the lower rank of a pair, whoever connects: what one way goes over the one link does not come back over
 * another. */
#include <stdlib.h>

#include "tcp.h"

#define MOST_SOCKETS 4

struct seat {
    uint64_t node[2];
    int rank;
};

static int by_node(const void *pa, const void *pb)
{
    const struct seat *a = pa, *b = pb;
    for (int i = 0; i < 2; i++)
        if (a->node[i] != b->node[i])
            return a->node[i] < b->node[i] ? -1 : 1;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

/* Of all ranks, not of members only: a rank's neighbours on its node are none where memory is shared. */
weft_status wi_tcp_rails_init(struct wi_tcp_group *g, const struct weft_group_config *config)
{
    struct seat *seats = malloc((size_t)g->nranks * sizeof *seats);
    int n = 0;
    g->turn = calloc((size_t)g->nranks, sizeof *g->turn);
    g->of_node = calloc((size_t)g->nranks, sizeof *g->of_node);
    if (!seats || !g->turn || !g->of_node) {
        free(seats);
        return WEFT_ENOMEM;
    }
    for (int r = 0; r < g->nranks; r++) {
        struct wi_tcp_identity id;
        if (config->address_bytes[r] == 0 ||
            wi_tcp_identity_decode(config->addresses[r], config->address_bytes[r], &id))
            continue;
        seats[n++] = (struct seat){{id.node[0], id.node[1]}, r};
    }
    qsort(seats, (size_t)n, sizeof *seats, by_node);
    for (int i = 0, first = 0; i < n; i++) {
        if (seats[i].node[0] != seats[first].node[0] || seats[i].node[1] != seats[first].node[1])
            first = i;
        g->turn[seats[i].rank] = i - first;
        for (int k = first; k <= i; k++)
            g->of_node[seats[k].rank] = i - first + 1;
    }
    free(seats);
    return WEFT_SUCCESS;
}

int wi_tcp_rails_sockets(const struct wi_tcp_group *g, int rank, int nrails)
{
    int64_t given = g->endpoint->settings->sockets;
    int ranks = g->of_node[rank] > g->of_node[g->rank] ? g->of_node[rank] : g->of_node[g->rank];
    int n = nrails / (ranks > 0 ? ranks : 1);
    if (given > 0)
        return (int)given;
    return n < 1 ? 1 : n > MOST_SOCKETS ? MOST_SOCKETS : n;
}

int wi_tcp_rail(const struct wi_tcp_group *g, int rank, int sockets, int index)
{
    return g->turn[rank < g->rank ? rank : g->rank] * sockets + index;
}
