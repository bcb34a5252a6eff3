/* SPDX-License-Identifier: BSD-3-Clause */
/* The newest hellos that a listener has answered: a second one with the same nonce is a replay by a process that overheard the
 * first, and gets no answer. */
#ifndef WI_NET_AUTH_SEEN_H
#define WI_NET_AUTH_SEEN_H

#define WI_AUTH_SEEN_MAX 4096 /* hellos, in at most 80 KiB; in sets of 8, each of which forgets its oldest */

struct wi_auth_seen;
struct wi_auth_seen *wi_auth_seen_create(void); /* NULL: no memory */
/* The one that all start-up stores of this process share, so that a hello that one has answered gets no answer from the next. It is
 * never destroyed; a forked child has one of its own. NULL: no memory. */
struct wi_auth_seen *wi_auth_seen_of_process(void);
void wi_auth_seen_destroy(struct wi_auth_seen *seen);
/* Was a hello with this nonce (32 bytes) here before? It is remembered. Any thread. */
int wi_auth_seen_before(struct wi_auth_seen *seen, const unsigned char *nonce);

#endif
