/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank's connection to the start-up store. */
#ifndef WI_NET_STORE_CLIENT_H
#define WI_NET_STORE_CLIENT_H

#include "net/auth.h"
#include "net/rendezvous.h"
#include "net/store_server.h"
#include "net/store_wire.h"

#define WI_STORE_CLIENT_MISSING 32
#define WI_STORE_PURPOSE "weft start-up store"

struct wi_store_client {
    int fd;
    int nranks;                       /* of the job: no more can be missing */
    struct wi_store_buf in, out;
    struct wi_auth_stream seal;
    struct wi_store_opener opener;
    struct wi_sockaddr local, remote;
    unsigned char session[WI_STORE_SESSION_ID_BYTES];
    int closed;                       /* rank 0 left in good order */
    int judged;
    struct wi_store_verdict verdict;
    int knows_missing;                /* the answer to WHO has come */
    uint32_t missing_total;
    uint32_t missing[WI_STORE_CLIENT_MISSING];
};

/* Find the store and authenticate: walk the candidates again and again until the deadline. `refresh` (may be NULL) is
 * called before each walk and may change the rendezvous and the job key; it returns 0, or non-zero to wait.
 * WEFT_ETIMEDOUT: there is no answer. WEFT_EAUTH: there is one, by a process that does not know the key. */
struct wi_store_search {
    struct wi_rendezvous rendezvous;
    unsigned char job_key[32];
    int ask_key;               /* the store gives the key (local_key.h) */
    int own_user;              /* it is at a local socket, of a process of this user */
    const char *job;
    int rank, nranks;
    int (*refresh)(struct wi_store_search *search, void *arg);
    void *arg;
};
weft_status wi_store_client_connect(struct wi_store_client *client, struct wi_store_search *search,
                                    uint64_t deadline_ns);
/* Leave: in good order, or (verdict not NULL) telling all ranks why the job cannot start. Bounded, short. */
void wi_store_client_leave(struct wi_store_client *client, const struct wi_store_verdict *verdict);

/* Move bytes without blocking; `value` is called for each VALUE. WEFT_EPROTO, WEFT_EAUTH (changed on the way), or WEFT_SUCCESS
 * with `judged` or `closed` set when the server said so or is gone. */
weft_status wi_store_client_pump(struct wi_store_client *client,
                                 void (*value)(void *arg, const struct wi_store_frame *frame), void *arg);

/* Blocking client side of a handshake; on success `out` and `in` seal and open what follows. WEFT_EAUTH, WEFT_ETIMEDOUT,
 * WEFT_EPEER (closed). */
weft_status wi_auth_client_run(int fd, const struct wi_auth_key *key, const struct wi_store_claim *mine,
                               struct wi_store_claim *theirs, struct wi_auth_stream *out, struct wi_auth_stream *in,
                               uint64_t deadline_ns);

#endif
