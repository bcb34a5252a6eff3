/* watch.h: notice when a process of this host dies.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * One pidfd per process, shared by all groups of the endpoint. Where there are no pidfds, or no descriptors left,
 * /proc is read instead.
 */
#ifndef WI_SHM_WATCH_H
#define WI_SHM_WATCH_H

#include <pthread.h>
#include <stddef.h>

#include "identity.h"

struct wi_shm_watch {
    struct wi_shm_identity identity;
    int pidfd; /* -1: look into /proc */
    int refs;
    int dead; /* atomic */
    struct wi_shm_watch *next;
};

struct wi_shm_watches {
    pthread_mutex_t lock;
    struct wi_shm_watch *all;
};

/* Is that number still the process that it was? A zombie is not: it will never answer. */
int wi_shm_process_lives(const struct wi_shm_identity *identity);
int wi_shm_watches_init(struct wi_shm_watches *watches);
void wi_shm_watches_fini(struct wi_shm_watches *watches);
/* NULL: out of memory. */
struct wi_shm_watch *wi_shm_watch_get(struct wi_shm_watches *watches, const struct wi_shm_identity *identity);
void wi_shm_watch_put(struct wi_shm_watches *watches, struct wi_shm_watch *watch);
/* One system call for each 64 processes. Sets `dead` in the given entries; NULL ones are skipped. */
void wi_shm_watch_poll(struct wi_shm_watches *watches, struct wi_shm_watch *const *some, size_t count);
/* Is the process there just now, so that its number is not another's? One system call. */
int wi_shm_watch_alive(const struct wi_shm_watch *watch);
/* "process 4711 on host a was killed by signal 9", "... is stopped" */
size_t wi_shm_watch_text(const struct wi_shm_watch *watch, char *text, size_t capacity);

#endif
