/* SPDX-License-Identifier: BSD-3-Clause */
/* The contents of a unique id: where its store listens and the secret that opens it. */
#ifndef WI_NET_BOOTSTRAP_ID_H
#define WI_NET_BOOTSTRAP_ID_H

#include "net/bootstrap.h"
#include "net/bootstrap_key.h"
#include "net/rendezvous.h"
#include "net/store_server.h"

struct wi_id {
    unsigned char nonce[8];          /* names the local socket */
    struct wi_node_id node;
    unsigned char secret[WI_JOB_KEY_BYTES];
    struct wi_sockaddr at[3];
    int nat;
};
void wi_id_encode(const struct wi_id *id, weft_unique_id *out);
weft_status wi_id_decode(const weft_unique_id *in, struct wi_id *id); /* WEFT_EINVAL: damaged */
void wi_id_rendezvous(const struct wi_id *id, struct wi_rendezvous *r);
/* Make an id and serve it. nranks 0: the first to come says. */
weft_status wi_id_serve(const struct wi_bootstrap_settings *s, const struct wi_job_key *configured, const char *job,
                        int nranks, uint64_t give_up_ns, struct wi_id *id, struct wi_store_server **server);
/* Listen where `id` says (its nonce and node are set), fill in the rest. `local_only`: all ranks are on this host, and no port
 * is opened. */
weft_status wi_id_listen(const struct wi_bootstrap_settings *s, int local_only, struct wi_id *id, int listen_fds[2]);
/* After a store has ended, whose descriptors were duplicates of these. */
weft_status wi_id_listen_again(const int listen_fds[2], uint64_t deadline_ns);

#endif
