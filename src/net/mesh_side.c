/* SPDX-License-Identifier: BSD-3-Clause */
/* The side channel of a transport in a mesh. */
#include "net/mesh_side.h"

#include <string.h>

#define SIDE_TIMEOUT_NS 30000000000ull /* where operations have none */

static size_t side_address(void *arg, int rank, unsigned char address[WI_SIDE_ADDRESS_MAX])
{
    const struct wi_mesh_rank *r = &((const struct wi_mesh *)arg)->ranks[rank];

    memcpy(address, r->side, r->side_bytes);
    return r->side_bytes;
}

static const char *side_host(void *arg, int rank)
{
    return wi_mesh_host(arg, rank);
}

weft_status wi_mesh_side_open(struct wi_mesh *m, const struct wi_transports *transports, const struct wi_transport *tp,
                              uint64_t timeout_ns, struct wi_side_group **side)
{
    struct wi_side_group_config config = {
        .transport = tp->plugin->name,
        .comm_id = {m->comm_id[0], m->comm_id[1]},
        .rank = m->rank,
        .nranks = m->nranks,
        .timeout_ns = timeout_ns ? timeout_ns : SIDE_TIMEOUT_NS,
        .address_of = side_address,
        .host_of = side_host,
        .arg = m,
    };

    return tp->plugin->caps & WEFT_CAP_SIDE ? wi_side_open(transports->side, &config, side) : WEFT_SUCCESS;
}
