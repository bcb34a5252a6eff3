/* SPDX-License-Identifier: BSD-3-Clause */
/* The newest hellos that a listener has answered: a second one with the same nonce is played back by somebody who overheard the
 * first, and gets no answer. */
#ifndef WI_NET_AUTH_SEEN_H
#define WI_NET_AUTH_SEEN_H

#define WI_AUTH_SEEN_MAX 4096 /* hellos, in at most 80 KiB; in sets of 8, each of which forgets its oldest */

struct wi_auth_seen;
struct wi_auth_seen *wi_auth_seen_create(void); /* NULL: no memory */
void wi_auth_seen_destroy(struct wi_auth_seen *seen);
/* Was a hello with this nonce (32 bytes) here before? It is remembered. Any thread. */
int wi_auth_seen_before(struct wi_auth_seen *seen, const unsigned char *nonce);

#endif
