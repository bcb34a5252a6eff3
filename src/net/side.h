/* SPDX-License-Identifier: BSD-3-Clause */
/* The side channel: connection data that transports of two ranks exchange when they first meet, after the communicator was made
 * (weft_host.side_*).
 *
 * One connection for one request and its response: the requester connects to the listener whose address the other rank gave at
 * creation, both prove the communicator's key, and what they say after that is sealed. A connection that breaks is made again
 * until the request's deadline. One thread of the context does all of it; there is neither a listener nor a thread where no
 * transport has WEFT_CAP_SIDE. */
#ifndef WI_NET_SIDE_H
#define WI_NET_SIDE_H

#include <weft/weft_plugin.h>

#include "net/auth.h"

#define WI_SIDE_ADDRESS_MAX 20 /* family, port, IPv6 address */

struct wi_side;       /* of a context */
struct wi_side_group; /* of a transport in a communicator; what plugins know as weft_group_config.side */
struct wi_sockaddr;

struct wi_side_config {
    wi_auth_find_fn find_key; /* by the 16 bytes of a communicator's id; the thread calls it */
    void *find_arg;
    struct wi_auth_seen *seen; /* outlives it */
    const char *interfaces;    /* listen at the first of these that is up; NULL: at the address that leads to other networks */
    uint64_t prove_ns;         /* that a connection has to prove the key; 0: two seconds */
};
/* Listens, and starts the thread. WEFT_ECONFIG: none of `interfaces` is up. */
weft_status wi_side_create(const struct wi_side_config *config, struct wi_side **side);
void wi_side_destroy(struct wi_side *side); /* all groups are closed before; bounded */

/* What other ranks need to reach it, as it travels in introductions: family (4 or 6), 0, port, IP address; bytes written. */
size_t wi_side_address(const struct wi_side *side, unsigned char address[WI_SIDE_ADDRESS_MAX]);
int wi_side_address_valid(const unsigned char address[WI_SIDE_ADDRESS_MAX], size_t bytes); /* or 0 bytes: there is none */
/* 0, or -1: not the TCP address of one host. */
int wi_side_address_read(const unsigned char *address, size_t bytes, struct wi_sockaddr *at);

struct wi_side_group_config {
    const char *transport;
    uint64_t comm_id[2];
    int rank, nranks;
    uint64_t timeout_ns; /* of a request */
    /* Of a rank: its address (not kept; 0 bytes: it has none), and the name of its host (borrowed). Called by wi_side_request and
     * wi_side_response. */
    size_t (*address_of)(void *arg, int rank, unsigned char address[WI_SIDE_ADDRESS_MAX]);
    const char *(*host_of)(void *arg, int rank);
    void *arg;
};
weft_status wi_side_open(struct wi_side *side, const struct wi_side_group_config *config, struct wi_side_group **group);
void wi_side_close(struct wi_side_group *group); /* requests that wait for it end with WEFT_EPEER on the other side */

/* weft_host.side_*: `side` is the group. */
weft_status wi_side_request(void *side, int peer, const void *data, size_t bytes);
weft_status wi_side_response(void *side, int peer, void *response, size_t capacity, size_t *bytes,
                             char why[WEFT_SIDE_WHY_MAX]);
int wi_side_requested(void *side, int *peer, void *request, size_t capacity, size_t *bytes);
weft_status wi_side_respond(void *side, int peer, const void *data, size_t bytes);
int wi_side_fd(void *side);

#endif
