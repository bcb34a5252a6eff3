/* SPDX-License-Identifier: BSD-3-Clause */
/* The cost model of a job's ranks: the network that the planner and the simulator compute with.
 *
 * A model has resources (one direction of a link, a memory, a core's copy engine), each with a rate that those who use it at
 * the same time share. A message from rank to rank takes
 *   send_us (the sender's core, which it occupies) + latency + the time its bytes need through all resources of its path
 *   + recv_us (the receiver's core);
 * local work takes bytes / copy or reduce rate of the rank's core, and also uses the memory resource of its place.
 * All of it is a pure function of the graph, the places and the link parameters: the same on every rank.
 * Rates are bytes per microsecond, times microseconds.
 */
#ifndef WI_TOPOLOGY_MODEL_H
#define WI_TOPOLOGY_MODEL_H

#include <stddef.h>
#include <stdint.h>
#include <weft/weft.h>

#define WI_MODEL_MAX_PATH 24
#define WI_MODEL_MAX_LEVELS 6
#define WI_MODEL_MAX_RANKS (1 << 20)

struct wi_topo;

struct wi_model_resource {
    char name[64]; /* "node3/eth0 out" */
    double rate;
};

struct wi_model_path {
    double latency, send_us, recv_us;
    int nresources;
    uint32_t resources[WI_MODEL_MAX_PATH];
};

struct wi_model_rank {
    double copy_rate, reduce_rate; /* of the rank's core, alone; INFINITY: takes no time */
    int32_t memory;                /* resource that local work also uses, or -1 */
    int32_t host;                  /* ranks of equal host may map each other's memory */
    int32_t engine;                /* resource of its core's copying of messages, or -1 */
    int32_t nic;                   /* by which it reaches other hosts: object of the graph, or -1 */
};

/* Levels of locality: groups of ranks, from the outside in ("rack", "node", "package", "numa", "cache"). Levels at which every
 * group has one rank, or all ranks are in one group, are left out. */
struct wi_model_level {
    char name[16];
    int ngroups;
    const int32_t *group; /* [nranks], numbered by first appearance */
};

const char *wi_model_level_name(int level); /* of all there may be, from the outside in; NULL: no more */

struct wi_model {
    int nranks, nlevels;
    uint32_t nresources;
    double mapped_us; /* signal and wait through mapped memory */
    const struct wi_model_resource *resources;
    const struct wi_model_rank *ranks; /* [nranks] */
    struct wi_model_level levels[WI_MODEL_MAX_LEVELS];
    void (*path)(const struct wi_model *m, int from, int to, struct wi_model_path *path); /* from != to */
    void (*destroy)(struct wi_model *m);
};

/* Link parameters that a graph does not hold; defaults are in the implementation, weft-tune measures them. */
struct wi_model_link_params {
    double copy_rate, reduce_rate;
    double local_send_us, local_recv_us, local_latency; /* two-sided, between ranks of a host */
    double net_send_us, net_recv_us, net_latency;       /* between hosts, beyond what the graph's links say */
    double mapped_us;                                   /* signal and wait through mapped memory */
    double net_efficiency;                              /* payload share of a network link's rate */
};
void wi_model_default_link_params(struct wi_model_link_params *params);

/* places[r]: object of rank r: a CORE, GPU, CACHE, NUMA, PACKAGE or HOST. Routes between hosts leave by the nearest NIC;
 * ranks of a host with several equally near NICs take turns. The graph is kept referenced. */
weft_status wi_model_of_topo(struct wi_topo *topo, const int32_t *places, int nranks, const struct wi_model_link_params *params,
                             struct wi_model **model);
/* All ranks alike, each on a host of its own, behind links of one rate and one latency, full bisection: the textbook's
 * network. Copies take no time, nor do reductions with a reduce_rate of INFINITY; overheads are 0, there are no levels. */
weft_status wi_model_uniform(int nranks, double latency, double rate, double reduce_rate, struct wi_model **model);
void wi_model_destroy(struct wi_model *model);

#endif
