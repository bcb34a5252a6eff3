/* SPDX-License-Identifier: BSD-3-Clause */
/* Routes: which rank reaches which other one by which transport. All ranks have the same matrix, so that both sides of a pair
 * choose alike. */
#ifndef WI_NET_MESH_ROUTES_H
#define WI_NET_MESH_ROUTES_H

#include "net/bootstrap.h"

#define WI_ROUTES_MAX_TRANSPORTS 8 /* by name, of all ranks together */
#define WI_ROUTES_NONE 0xff

struct wi_routes {
    int rank, nranks, nnames;
    char names[WI_ROUTES_MAX_TRANSPORTS][WEFT_TRANSPORT_NAME_MAX + 1];
    int priority[WI_ROUTES_MAX_TRANSPORTS];
    uint32_t caps[WI_ROUTES_MAX_TRANSPORTS]; /* on all ranks that have it */
    unsigned char caps_known[WI_ROUTES_MAX_TRANSPORTS]; /* a rank has announced them */
    unsigned char *mine; /* [nranks] bit i: this rank's transport i reaches that rank */
    unsigned char *pair; /* [nranks * nranks]: the transport of each pair, or WI_ROUTES_NONE; NULL: it is the same for all */
    unsigned char of_all_pairs; /* that one */
    unsigned char full_logged; /* a transport was left out */
    unsigned used;       /* by any pair: bits */
};

weft_status wi_routes_init(struct wi_routes *r, int rank, int nranks);
void wi_routes_fini(struct wi_routes *r);
/* A transport that some rank has; the same order on all ranks. Those beyond WI_ROUTES_MAX_TRANSPORTS are left out, with
 * a warning. */
void wi_routes_add_transport(struct wi_routes *r, const char *name);
/* After all transports were added: the capabilities that one rank has announced for it. */
void wi_routes_add_caps(struct wi_routes *r, const char *name, uint32_t caps);
uint32_t wi_routes_caps(const struct wi_routes *r, const char *name);
/* Before wi_routes_agree: this rank's transport `name` reaches that rank. */
void wi_routes_add_peer(struct wi_routes *r, const char *name, int priority, int peer);
/* Exchange, and choose for each pair the transport that reaches both ways and whose lesser priority is greatest. */
weft_status wi_routes_agree(struct wi_routes *r, struct wi_bootstrap *bootstrap, uint64_t deadline_ns);
/* The transport of a pair; NULL: none. */
const char *wi_routes_pair(const struct wi_routes *r, int a, int b);
/* Transports that reach from one side of this rank's pair with `peer` only: "fakerdma reaches it but not back". "" if none does. */
void wi_routes_one_way(const struct wi_routes *r, int peer, char *text, size_t capacity);

#endif
