/* SPDX-License-Identifier: BSD-3-Clause */
/* Where ranks go, and in which order rings visit them. Pure functions of a graph or a model. */
#ifndef WI_TOPOLOGY_PLACEMENT_H
#define WI_TOPOLOGY_PLACEMENT_H

#include "topology/graph.h"
#include "topology/model.h"

/* Up to so many stops a ring's order is the best one. */
#define WI_RING_EXACT 8

/* Default places of ranks: blocks of ranks on the hosts, in order, as even as can be; within a host on its GPUs if it has any,
 * else on its cores, spread over packages, memories and caches. More ranks than places start over. places[nranks]. */
weft_status wi_place_ranks(const struct wi_topo *topo, int nranks, int32_t *places);

/* Where this process runs: the GPU of its number where each local rank has one, else the smallest object that contains all
 * cores to which the calling thread is bound, or the host itself. `topo` was read on this host. */
int wi_topo_here(const struct wi_topo *topo, int host, int local_rank, int local_nranks);

/* What a ring costs: the sum over its hops of the time that a byte needs on each link and memory of the path, so that slow
 * links count most and are crossed as seldom as possible. Latency decides between equals. */
struct wi_ring_cost {
    double cost;  /* us per byte, summed over hops */
    double bound; /* no order costs less; equal to `cost` where the order is known to be best */
};

double wi_hop_cost(const struct wi_model *m, int from, int to);

/* The order in which a ring visits `ranks` (n of them; NULL: 0 to n - 1) of a model: order[0] is ranks[0]. At most
 * WI_RING_EXACT: the best order, by dynamic programming over subsets (Held and Karp, 1962). More: a tour along the levels
 * and the nearest neighbours, improved by 2-opt and by moving single stops (Or, 1976) until neither helps, or after a bounded
 * number of rounds. In tests such tours cost at most 5 % more than the best one of 8 stops, and exactly as much where the
 * graph is a tree of links of equal rate per level. `bound` is a lower bound for any n: each stop is entered and left by
 * its cheapest hops. Above 512 stops the tour along the levels is returned as it is, with a bound of 0. `cost` may be
 * NULL. */
weft_status wi_ring_order(const struct wi_model *m, const int32_t *ranks, int n, int32_t *order,
                          struct wi_ring_cost *cost);
/* The heuristic alone, whatever n is: for tests. */
weft_status wi_ring_order_heuristic(const struct wi_model *m, const int32_t *ranks, int n, int32_t *order,
                                    struct wi_ring_cost *cost);

/* The same for a chain: it begins with ranks[0] and ends with ranks[n - 1]. Above 512, and below 3, the order given. */
weft_status wi_chain_order(const struct wi_model *m, const int32_t *ranks, int n, int32_t *order);

/* leader[r]: the first rank on r's host that leaves by r's NIC. */
weft_status wi_leaders(const struct wi_model *m, int32_t *leader);

/* Rings over all ranks that use different adapters: one for each adapter in use on the host that uses fewest. Ring k visits
 * hosts in one common order; it enters each by a rank of the host's k-th adapter and leaves by another rank of it or, where
 * there is only one, by a rank of the next adapter. */
struct wi_rings {
    int nrings, nranks;
    int32_t *order; /* [nrings][nranks] */
    int nshared;    /* directions of adapters that more than one ring uses: 0 if the rings are disjoint */
};
weft_status wi_rings_create(const struct wi_model *m, int max, struct wi_rings **rings);
void wi_rings_destroy(struct wi_rings *rings);

#endif
