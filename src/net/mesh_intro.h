/* SPDX-License-Identifier: BSD-3-Clause */
/* What each rank tells all others first, when a mesh is made: its version, settings, host, cores, and transports. */
#ifndef WI_NET_MESH_INTRO_H
#define WI_NET_MESH_INTRO_H

#include "net/mesh.h"

#define WI_INTRO_MAX_CPUS 1024

struct wi_intro {
    uint32_t magic, version;
    uint64_t settings_hash, library_hash;
    uint64_t comm_id[2]; /* rank 0's is taken */
    struct wi_node_id node;
    uint64_t cpus[WI_INTRO_MAX_CPUS / 64];         /* that the process may run on */
    uint8_t rates[WI_RATES_CODED];                 /* of its core; 0: not measured */
    uint8_t side_bytes, side[WI_SIDE_ADDRESS_MAX]; /* where its side channel is; 0 bytes: it has none */
    uint32_t ntransports;
    struct {
        char name[WEFT_TRANSPORT_NAME_MAX + 1];
        uint32_t address_bytes, caps;
        uint64_t settings_hash;
    } transports[WI_MAX_TRANSPORTS];
};

/* This rank's, and the addresses of its transports, WEFT_ADDRESS_MAX bytes each. */
weft_status wi_intro_fill(struct wi_intro *in, const struct wi_mesh_config *config, const struct wi_transports *t,
                          unsigned char *addresses);
/* What rank r sent: nothing is out of bounds after it, and names are text. WEFT_EPROTO; WEFT_EMISMATCH: the ranks do not fit
 * together. `rank`: this one. */
weft_status wi_intro_check(struct wi_intro *in, int r, const struct wi_intro *mine, int rank,
                           const struct wi_mesh_config *config, const struct wi_transports *t);
/* Index of the transport of that name; -1: there is none. */
int wi_intro_transport(const struct wi_intro *in, const char *name);

#endif
