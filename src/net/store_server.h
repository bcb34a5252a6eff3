/* SPDX-License-Identifier: BSD-3-Clause */
/* Rank 0's key-value server: one background thread, from the first rank's arrival to the bootstrap's end. It listens only
 * until every rank has joined or the job's start has failed. */
#ifndef WI_NET_STORE_SERVER_H
#define WI_NET_STORE_SERVER_H

#include <weft/weft.h>

#include "net/auth.h"

#define WI_STORE_SESSION_ID_BYTES 16

/* What both sides say of themselves under the handshake. */
struct wi_store_claim {
    unsigned char kind;              /* 'S' server, 'C' client, 'L' link between two ranks */
    int rank, nranks, pid;           /* client; link: from, nranks, to */
    unsigned char session[WI_STORE_SESSION_ID_BYTES]; /* server and link: which store this is */
    char host[32];
};
size_t wi_store_claim_write(const struct wi_store_claim *claim, unsigned char out[WEFT_AUTH_CLAIM_MAX]);
int wi_store_claim_read(const unsigned char *in, size_t bytes, struct wi_store_claim *claim);
void wi_store_claim_self(struct wi_store_claim *claim, int rank, int nranks); /* kind 'C' */

struct wi_store_server_config {
    int listen_fds[2];      /* taken, also on failure; -1 unused */
    int nranks;             /* 0: learnt from the first client */
    struct wi_auth_key key;
    const unsigned char *job_key; /* [WI_JOB_KEY_BYTES], copied: given to this user's processes that ask (local_key.h); NULL */
    int own_user;           /* only local sockets are listened on, and only for this user's processes; so with job_key */
    uint64_t give_up_ns;    /* end by itself when not complete by then; UINT64_MAX never */
};
struct wi_store_server;
weft_status wi_store_server_create(const struct wi_store_server_config *config, struct wi_store_server **server);
/* Say good-bye to the clients and end the thread; bounded by a second. */
void wi_store_server_destroy(struct wi_store_server *server);
/* Connections that spoke as a rank does, but without the key: a hello that was not made with it, a hello where the store gives the
 * key to those that ask, a question for the key where it gives none. */
long wi_store_server_refused(const struct wi_store_server *server);
/* The thread has ended by itself: the store is not used any more. */
int wi_store_server_finished(const struct wi_store_server *server);

#endif
