/* SPDX-License-Identifier: BSD-3-Clause */
/* The side channel of a transport in a mesh, by the addresses that ranks gave in their introductions. */
#ifndef WI_NET_MESH_SIDE_H
#define WI_NET_MESH_SIDE_H

#include "net/mesh.h"

/* *side stays NULL where the transport does not use it. `timeout_ns`: of operations; 0: not known. */
weft_status wi_mesh_side_open(struct wi_mesh *mesh, const struct wi_transports *transports, const struct wi_transport *transport,
                              uint64_t timeout_ns, struct wi_side_group **side);

#endif
