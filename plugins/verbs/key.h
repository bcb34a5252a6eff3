/* key.h: what a peer needs to get from, or put to, registered memory.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef VB_KEY_H
#define VB_KEY_H

#include "verbs.h"

struct vb_key {
    uint64_t nonce; /* of the endpoint that gave it */
    uint64_t at, bytes;
    uint32_t rkey[VB_RAILS_MAX];
    uint64_t check;
};

uint64_t vb_key_check(const struct vb_key *key);

#endif
