/* SPDX-License-Identifier: BSD-3-Clause */
/* A mesh: how one communicator's ranks reach each other. All ranks agree on it before anybody uses it. */
#ifndef WI_NET_MESH_H
#define WI_NET_MESH_H

#include <weft/weft_plugin.h>

#include "base/rates.h"
#include "net/bootstrap.h"
#include "net/mesh_routes.h"
#include "net/transports.h"

struct wi_mesh_group {
    struct wi_transport *transport;
    void *group;
    struct wi_side_group *side; /* NULL: the transport does not use it */
};

/* Per peer: which group serves it. group NULL only for this rank itself when no transport serves it. */
struct wi_link {
    const struct weft_transport_ops *ops;
    void *group;
    int32_t index; /* in mesh->groups */
};

struct wi_mesh_rank {
    struct wi_node_id node;
    int32_t node_index; /* nodes numbered by first appearance */
    uint8_t side_bytes, side[WI_SIDE_ADDRESS_MAX];
};

struct wi_mesh {
    int rank, nranks;
    int nnodes, local_rank, local_nranks;
    int oversubscribed; /* some node has more ranks than cores */
    uint64_t comm_id[2];
    struct wi_rates rates;            /* of the slowest of all ranks' cores; 0 where a rank has not measured */
    struct wi_mesh_rank *ranks;       /* [nranks] */
    struct wi_link *links;            /* [nranks] */
    struct wi_routes routes;           /* which transport serves which pair of ranks: wi_routes_pair */
    struct wi_transports *transports; /* where the communicator's key is kept */
    int ngroups;
    struct wi_mesh_group groups[WI_MAX_TRANSPORTS];
    /* Ranks whose arenas this rank can load and store, itself among them: those of its node, as a rule. mapped_group NULL: there
     * is none but itself. All ranks know all of these groups. */
    const struct wi_mesh_group *mapped_group;
    struct weft_mapped mapped;
    int32_t *map_of;               /* [nranks]: the lowest rank of the group that a rank is in */
    int32_t *map_ranks;            /* [nmapped]: of this rank's group, in order */
    int nmapped;                   /* 1 without a group */
    int all_mapped;                /* it holds all ranks */
    size_t slot_bytes;             /* of the smallest slot of all these groups; 0: there is none */
    uint32_t slots;                /* the least number of slots of a rank, likewise */
    int posts; /* gets and puts are posted, with keys (WEFT_CAP_GET), in this rank's group, or copies made at once (_MEM_GET) */
    int can_map, can_get, can_put; /* in all these groups user memory of all peers can be mapped / got / put to */
};

/* Keys travel in one ll slot: it must have room for two of the longest and for what else ranks say then. */
#define WI_MESH_LINE_BYTES sizeof(((struct weft_ll_line *)0)->payload)
#define WI_MESH_KEYS_BYTES (2 * WEFT_MEM_KEY_MAX + 256)

struct wi_settings;
struct wi_mesh_config {
    const struct wi_node_id *node;
    const struct wi_settings *settings;
    uint64_t settings_hash; /* of those that must be equal on all ranks, and of the contents of files that must */
    uint64_t deadline_ns;
    uint64_t timeout_ns; /* of operations; 0: not known */
    const struct wi_rates *rates; /* of this rank's core; NULL: not measured */
};

/* Collective over the bootstrap's ranks. Either every rank gets a mesh or every rank gets a failure that names the rank
 * where creation failed and why. */
weft_status wi_mesh_create(struct wi_transports *transports, struct wi_bootstrap *bootstrap,
                           const struct wi_mesh_config *config, struct wi_mesh **mesh);
void wi_mesh_destroy(struct wi_mesh *mesh, int aborted);
const char *wi_mesh_host(const struct wi_mesh *mesh, int rank);

#endif
