/* SPDX-License-Identifier: BSD-3-Clause */
/* What a mesh has chosen, for people: which transport serves how many pairs, and why a better one does not serve the others. */
#ifndef WI_NET_MESH_REPORT_H
#define WI_NET_MESH_REPORT_H

#include "net/mesh.h"

/* Of all pairs, the same on all ranks: "shm 2 pairs, tcp 4 pairs; verbs: rank 3 on host b has none". Cut to `capacity`. */
void wi_mesh_report(const struct wi_mesh *mesh, char *text, size_t capacity);
/* Why transports of more priority do not serve this rank's pair with `peer`: "verbs: rank 3 on host b has none". "": none is left
 * out. That memory does not reach from one process or host to another needs no reason. */
void wi_mesh_left_out(const struct wi_mesh *mesh, int peer, char *text, size_t capacity);

/* Where transport i ends, which nobody can change: as weft_route_info.memory. */
int wi_mesh_memory(const struct wi_mesh *mesh, int i);

#endif
