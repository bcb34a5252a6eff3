/* SPDX-License-Identifier: BSD-3-Clause */
/* Reachability of ranks over transports: one matrix that all ranks have, so that both sides of a pair choose the same. */
#ifndef WI_NET_MESH_REACH_H
#define WI_NET_MESH_REACH_H

#include "net/bootstrap.h"

#define WI_REACH_NAMES 8 /* transports by name, of all ranks together */
#define WI_REACH_NONE 0xff

struct wi_reach {
    int rank, nranks, nnames;
    char names[WI_REACH_NAMES][16];
    int priority[WI_REACH_NAMES];
    uint32_t caps[WI_REACH_NAMES]; /* on all ranks that have it */
    unsigned char named[WI_REACH_NAMES]; /* some rank has announced its capabilities */
    unsigned char *mine; /* [nranks] bit i: this rank's transport i reaches that rank */
    unsigned char *pair; /* [nranks * nranks]: the transport of each pair, or WI_REACH_NONE; NULL: it is the same for all */
    unsigned char every; /* that one */
    unsigned used;       /* by any pair: bits */
};

weft_status wi_reach_init(struct wi_reach *r, int rank, int nranks);
void wi_reach_fini(struct wi_reach *r);
/* A transport that some rank has; the same order on all ranks. Beyond WI_REACH_NAMES: forgotten. */
void wi_reach_name(struct wi_reach *r, const char *name);
/* Once all are named: a rank that has it says so. */
void wi_reach_can(struct wi_reach *r, const char *name, uint32_t caps);
uint32_t wi_reach_caps(const struct wi_reach *r, const char *name);
/* Before wi_reach_agree: this rank's transport `name` reaches that rank. */
void wi_reach_say(struct wi_reach *r, const char *name, int priority, int peer);
/* Exchange, and choose for each pair the transport that reaches both ways and whose lesser priority is greatest. */
weft_status wi_reach_agree(struct wi_reach *r, struct wi_bootstrap *bootstrap, uint64_t deadline_ns);
/* The transport of a pair; NULL: none. */
const char *wi_reach_pair(const struct wi_reach *r, int a, int b);
/* Transports that reach from one side of this rank's pair with `peer` only: "fakerdma reaches it but not back". "" if none does. */
void wi_reach_one_way(const struct wi_reach *r, int peer, char *text, size_t capacity);

#endif
