/* SPDX-License-Identifier: BSD-3-Clause */
/* Mutual authentication: HMAC-SHA256 over the whole transcript (version, both nonces, job, role, both claims), keys from HKDF
 * over the job key with a purpose label. Constant-time compare, fixed-size messages before authentication. OpenSSL 3
 * EVP. The state machine behind weft_host.auth_*: no I/O in here. */
#ifndef WI_NET_AUTH_H
#define WI_NET_AUTH_H

#include <weft/weft_plugin.h>

#include "net/auth_mac.h"
#include "net/auth_seen.h"

struct wi_auth_key {
    unsigned char key[WI_AUTH_KEY_BYTES];
};
/* HKDF-SHA256(job_key, salt = job name, info = purpose). */
weft_status wi_auth_derive(const unsigned char *job_key, size_t job_key_bytes, const char *job, const char *purpose,
                           struct wi_auth_key *key);
/* A server that serves several communicators finds the key by the client's claim. 0: there is none. */
typedef int (*wi_auth_find_fn)(void *arg, const void *claim, size_t claim_bytes, struct wi_auth_key *key);
struct weft_auth *wi_auth_create_server(wi_auth_find_fn find, void *arg, const void *claim, size_t claim_bytes);
struct weft_auth *wi_auth_create(const struct wi_auth_key *key, int is_server, const void *claim, size_t claim_bytes);
/* Server: weft_host.auth_expect. */
void wi_auth_expect(struct weft_auth *server, int (*wanted)(void *arg, const void *claim, size_t claim_bytes), void *arg);
/* A server whose listener remembers hellos: one that was here before is refused without a reply. `seen` must outlive it. */
void wi_auth_remember(struct weft_auth *server, struct wi_auth_seen *seen);
/* Do these bytes begin as a hello does, of whatever version and key? */
int wi_auth_is_hello(const void *bytes, size_t n);
weft_status wi_auth_step(struct weft_auth *auth, const void *in, size_t in_bytes, size_t *consumed, void *out,
                         size_t out_capacity, size_t *out_bytes, void *peer_claim, size_t *peer_claim_bytes);
/* After SUCCESS: key material that only the two ends of this handshake have, fresh to it, another for each label. */
#define WI_AUTH_LABEL_MAX 64
#define WI_AUTH_SESSION_MAX 1024
weft_status wi_auth_session(struct weft_auth *auth, const char *label, void *key, size_t key_bytes);
/* After SUCCESS: what this side sends and receives from here on; NULL: not wanted. */
weft_status wi_auth_streams(struct weft_auth *auth, struct wi_auth_stream *out, struct wi_auth_stream *in);
void wi_auth_destroy(struct weft_auth *auth);

#endif
