/* SPDX-License-Identifier: BSD-3-Clause */
/* The model of a graph. Routes inside a host are kept as one table per place, routes between hosts as one table of the
 * network's routers: a path is put together from both without allocation, by any number of threads. */
#ifndef WI_TOPOLOGY_MODEL_INTERNAL_H
#define WI_TOPOLOGY_MODEL_INTERNAL_H

#include "topology/graph_internal.h"
#include "topology/model.h"

#define WI_MODEL_MAX_ROUTERS 4096

/* An object of a host with a link into the network: a NIC, mostly. */
struct wi_gateway {
    int32_t object, host;
    int32_t router;  /* what it is attached to, or itself */
    int32_t piece;   /* of the network: gateways of one piece reach each other */
    uint32_t edge;   /* to the router; WI_TOPO_UNREACHED: it is one itself */
    int32_t nusers;  /* ranks that leave by it */
};

/* Where ranks sit: one per distinct object. */
struct wi_seat {
    int32_t object;
    int32_t host;
    int32_t memory;     /* resource, or -1; until resources exist: object */
    uint32_t *back;     /* by the number in the host: the edge by which an object is reached, or WI_TOPO_UNREACHED */
    uint32_t nvlink;    /* edge to an NVLink switch between hosts, or WI_TOPO_UNREACHED */
};

struct wi_topo_model {
    struct wi_model model;
    struct wi_topo *topo;
    struct wi_model_link_params params;
    int32_t *seat_of;     /* [nranks] */
    int32_t *gateway_of;  /* [nranks], or -1 */
    int32_t *engine_of;   /* [nranks]: resource of the core that copies, or -1 */
    struct wi_seat *seats;
    int nseats;
    int32_t *number;      /* [nobjects]: among the objects of its host */
    int32_t *host_size;   /* [nobjects]: of hosts: objects in it */
    uint32_t *resource;   /* [2 * nlinks]: of an edge */
    /* The network. */
    struct wi_gateway *gateways; /* by host */
    int ngateways;
    int32_t *host_gateways; /* [nobjects]: of hosts: the first one */
    int32_t *router_of;     /* [nobjects], or -1 */
    int32_t *routers;       /* objects */
    int nrouters;
    uint32_t *router_back;  /* [nrouters * nrouters] */
    int longest;            /* route between routers */
};

/* Gateways and routers of the graph. */
weft_status wi_model_net_init(struct wi_topo_model *m, struct wi_topo_walker *w);
/* A seat and an adapter for each rank. */
weft_status wi_model_seats_init(struct wi_topo_model *m, struct wi_topo_walker *w, const int32_t *places);
void wi_model_topo_path(const struct wi_model *model, int from, int to, struct wi_model_path *path);
/* A gateway of that host into that piece of the network that the seat reaches, or -1. */
int wi_model_gateway_find(const struct wi_topo_model *m, const struct wi_seat *seat, int piece);
weft_status wi_model_levels_init(struct wi_topo_model *m);

static inline int wi_model_reaches(const struct wi_topo_model *m, const struct wi_seat *seat, int object)
{
    return object == seat->object || seat->back[m->number[object]] != WI_TOPO_UNREACHED;
}

/* Both on the same NVLink switch between hosts. */
static inline int wi_model_share_nvlink(const struct wi_topo_model *m, const struct wi_seat *a, const struct wi_seat *b)
{
    return a->nvlink != WI_TOPO_UNREACHED && b->nvlink != WI_TOPO_UNREACHED &&
           wi_topo_edge_end(m->topo, a->nvlink) == wi_topo_edge_end(m->topo, b->nvlink);
}

#endif
