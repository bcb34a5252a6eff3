/* SPDX-License-Identifier: BSD-3-Clause */
/* How ranks reach each other: asked by programs, and said in one line of the log. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/status.h"
#include "base/struct_prefix.h"
#include "comm/comm.h"
#include "net/mesh_report.h"

#define LEFT_OUT_BYTES 512
#define STATE_BYTES 256

/* All ranks know all of it: one of them says it. Looking for reasons takes a look at each pair. */
void wi_comm_log_peers(const struct weft_comm *comm)
{
    char text[1024];

    if (comm->rank != 0 || comm->nranks == 1 || __atomic_load_n(&wi_log_level, __ATOMIC_RELAXED) < WEFT_LOG_INFO)
        return;
    wi_mesh_report(comm->mesh, text, sizeof text);
    wi_log(WEFT_LOG_INFO, "comm.peers", "%s: %s", comm->name, text);
}

static weft_status check_peer(const struct weft_comm *comm, int peer, const char *call)
{
    WI_TRY(wi_comm_check(comm));
    if (peer < 0 || peer >= comm->nranks)
        return wi_fail(WEFT_EINVAL, "%s: rank %d is not of this communicator", call, peer);
    return WEFT_SUCCESS;
}

weft_status weft_comm_peer(weft_comm *comm, int peer, weft_peer_info *info)
{
    static const struct wi_struct_rule rule = WI_STRUCT_RULE(weft_peer_info, "WEFT_PEER_INFO_INIT", bytes);
    static __thread struct {
        char transport[WEFT_TRANSPORT_NAME_MAX + 1], left_out[LEFT_OUT_BYTES], state[STATE_BYTES];
    } shown;
    const struct wi_mesh *mesh;
    const struct wi_link *link;
    weft_peer_info found;
    size_t bytes = 0;

    WI_TRY(check_peer(comm, peer, "comm_peer"));
    WI_TRY(wi_struct_check(&rule, "comm_peer", info));
    mesh = comm->mesh;
    link = &mesh->links[peer];
    WI_TRY(wi_comm_enter(comm)); /* the transport is asked under its group's lock */
    if (link->group)
        bytes = link->ops->describe_peer(link->group, peer, shown.state, sizeof shown.state - 1);
    wi_comm_leave(comm);
    shown.state[bytes < sizeof shown.state ? bytes : sizeof shown.state - 1] = '\0';
    snprintf(shown.transport, sizeof shown.transport, "%s",
             link->group ? mesh->groups[link->index].transport->plugin->name : "");
    wi_mesh_left_out(mesh, peer, shown.left_out, sizeof shown.left_out);
    found = (weft_peer_info){
        .node = mesh->ranks[peer].node_index,
        .same_node = mesh->ranks[peer].node_index == mesh->ranks[mesh->rank].node_index,
        .host = wi_mesh_host(mesh, peer),
        .transport = shown.transport,
        .left_out = shown.left_out,
        .state = shown.state,
    };
    wi_struct_write(&rule, &found, info);
    return WEFT_SUCCESS;
}

weft_status weft_comm_routes(const weft_comm *comm, int peer, weft_route_fn fn, void *arg)
{
    const struct wi_routes *r;
    const char *used;

    WI_TRY(check_peer(comm, peer, "comm_routes"));
    if (!fn)
        return wi_fail(WEFT_EINVAL, "comm_routes: fn is NULL");
    r = &comm->mesh->routes;
    used = wi_routes_pair(r, r->rank, peer);
    for (int i = 0; i < r->nnames; i++) {
        weft_route_info route = {
            .bytes = sizeof route,
            .transport = r->names[i],
            .priority = r->greatest[i],
            .here = r->has[r->rank] >> i & 1,
            .there = r->has[peer] >> i & 1,
            .reaches = r->mine[peer] >> i & 1,
            .reached = r->mine[r->nranks + peer] >> i & 1,
            .used = used && strcmp(used, r->names[i]) == 0,
            .memory = wi_mesh_memory(comm->mesh, i),
        };
        fn(arg, &route);
    }
    return WEFT_SUCCESS;
}
