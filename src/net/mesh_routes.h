/* SPDX-License-Identifier: BSD-3-Clause */
/* Routes: which rank reaches which other one by which transport. All ranks have the same matrix, so that both sides of a pair
 * choose alike. */
#ifndef WI_NET_MESH_ROUTES_H
#define WI_NET_MESH_ROUTES_H

#include "net/bootstrap.h"

#define WI_ROUTES_MAX_TRANSPORTS 8 /* by name, of all ranks together */
#define WI_ROUTES_NONE 0xff

/* Of a kind of pairs (each counted once): how many, and the first of them. */
struct wi_routes_pairs {
    uint64_t count;
    int a, b;
};

/* What became of a transport: the pairs that it serves, and those that one of lesser priority serves instead, by why. */
struct wi_routes_total {
    uint64_t serves;
    struct wi_routes_pairs lacking; /* one of the two has it */
    struct wi_routes_pairs one_way; /* both have it; b is reached from a, and a is not from b */
    struct wi_routes_pairs neither; /* both have it, and it reaches neither from the other */
};

struct wi_routes {
    int rank, nranks, nnames;
    char names[WI_ROUTES_MAX_TRANSPORTS][WEFT_TRANSPORT_NAME_MAX + 1];
    int priority[WI_ROUTES_MAX_TRANSPORTS];
    int greatest[WI_ROUTES_MAX_TRANSPORTS]; /* of the priorities that ranks give it */
    uint32_t caps[WI_ROUTES_MAX_TRANSPORTS]; /* on all ranks that have it */
    unsigned char caps_known[WI_ROUTES_MAX_TRANSPORTS]; /* a rank has announced them */
    unsigned char *mine; /* [nranks] bit i: this rank's transport i reaches that rank; then what others say of this rank */
    unsigned char *has;  /* [nranks] bit i: that rank has transport i */
    struct wi_routes_total total[WI_ROUTES_MAX_TRANSPORTS];
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
/* After all transports were added: that rank has the transport. */
void wi_routes_add_rank(struct wi_routes *r, const char *name, int rank);
/* Before wi_routes_agree: this rank's transport `name` has that priority; it reaches that rank. */
void wi_routes_add_own(struct wi_routes *r, const char *name, int priority);
void wi_routes_add_peer(struct wi_routes *r, const char *name, int peer);
/* Exchange, and choose for each pair the transport that reaches both ways and whose lesser priority is greatest. */
weft_status wi_routes_agree(struct wi_routes *r, struct wi_bootstrap *bootstrap, uint64_t deadline_ns);
/* The transport of a pair; NULL: none. */
const char *wi_routes_pair(const struct wi_routes *r, int a, int b);
/* It has more priority than the one that serves this rank's pair with `peer`, and reaches not or one way. */
int wi_routes_is_left_out(const struct wi_routes *r, int peer, int i);
/* Transports that reach from one side of this rank's pair with `peer` only: "fakerdma reaches it but not back". "" if none does. */
void wi_routes_one_way(const struct wi_routes *r, int peer, char *text, size_t capacity);

#endif
