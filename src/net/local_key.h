/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs on one host need no configured key: rank 0 makes one and gives it to processes of its user that ask over a local
 * socket. The kernel tells both sides which user the other process belongs to.
 *
 *   client -> server   "WFTK" 1 0 0 0
 *   server -> client   "WFTK" 1 0 0 0, key
 *
 * Then the handshake of auth.h follows with that key; it also tells jobs of the same user apart, for the job's name is in
 * the derived keys. */
#ifndef WI_NET_LOCAL_KEY_H
#define WI_NET_LOCAL_KEY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <weft/weft.h>

#include "net/bootstrap.h"

#define WI_LOCAL_KEY_ASK_BYTES 8

/* Whether the process at the other end of a local socket (for a client: the one that listens) has this process's effective
 * user id. `*uid`: whose it is, (uid_t)-1 when the kernel does not say. */
int wi_local_peer_is_self(int fd, uid_t *uid);

/* Client: ask for the key. WEFT_EAUTH: another user's, or one that gives no keys; WEFT_ETIMEDOUT. */
weft_status wi_local_key_ask(int fd, unsigned char key[WI_JOB_KEY_BYTES], uint64_t deadline_ns);
/* Server: is this the question? */
int wi_local_key_asked(const unsigned char bytes[WI_LOCAL_KEY_ASK_BYTES]);
int wi_local_key_give(int fd, const unsigned char key[WI_JOB_KEY_BYTES]); /* 0 or -1 */

#endif
