/* SPDX-License-Identifier: BSD-3-Clause */
/* Hellos that were answered already. Only processes with the key can add one, so no other process can make a listener forget
 * one. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "net/auth_seen.h"

#define SEEN_WAYS 8
#define SEEN_SETS (WI_AUTH_SEEN_MAX / SEEN_WAYS)
#define SEEN_BYTES 16 /* of a nonce: 128 random bits */

struct wi_auth_seen {
    pthread_mutex_t lock;
    pid_t process;                 /* that made it: another's lock may have been held at the fork */
    struct wi_auth_seen *parents;  /* of the process that this one was forked from: kept, as a thread may hold it */
    unsigned char next[SEEN_SETS]; /* the way that is written next: the oldest */
    unsigned char nonces[SEEN_SETS][SEEN_WAYS][SEEN_BYTES];
};
_Static_assert(sizeof(struct wi_auth_seen) <= 80 << 10, "the memory that auth_seen.h promises");

struct wi_auth_seen *wi_auth_seen_create(void)
{
    struct wi_auth_seen *seen = wi_calloc(1, sizeof(*seen));
    if (seen)
        pthread_mutex_init(&seen->lock, NULL);
    return seen;
}

struct wi_auth_seen *wi_auth_seen_of_process(void)
{
    static _Atomic(struct wi_auth_seen *) shared;
    struct wi_auth_seen *seen = atomic_load_explicit(&shared, memory_order_acquire), *fresh;
    if (seen && seen->process == getpid())
        return seen;
    if (!(fresh = wi_auth_seen_create()))
        return NULL;
    fresh->process = getpid();
    fresh->parents = seen;
    if (atomic_compare_exchange_strong_explicit(&shared, &seen, fresh, memory_order_acq_rel, memory_order_acquire))
        return fresh;
    wi_auth_seen_destroy(fresh);
    return seen;
}

void wi_auth_seen_destroy(struct wi_auth_seen *seen)
{
    if (!seen)
        return;
    pthread_mutex_destroy(&seen->lock);
    wi_free(seen);
}

int wi_auth_seen_before(struct wi_auth_seen *seen, const unsigned char *nonce)
{
    unsigned set = (nonce[0] | (unsigned)nonce[1] << 8) % SEEN_SETS;
    int before = 0;
    pthread_mutex_lock(&seen->lock);
    for (int way = 0; way < SEEN_WAYS && !before; way++)
        before = !memcmp(seen->nonces[set][way], nonce, SEEN_BYTES);
    if (!before) {
        memcpy(seen->nonces[set][seen->next[set]], nonce, SEEN_BYTES);
        seen->next[set] = (unsigned char)((seen->next[set] + 1) % SEEN_WAYS);
    }
    pthread_mutex_unlock(&seen->lock);
    return before;
}
