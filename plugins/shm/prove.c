/* prove.c: is a peer the process that it says it is, on this machine?
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * An identity is the peer's word, and later its memory is opened, read and written by the process number in it. Two things
 * are known without the peer's word. Ranks of this process enter themselves into a table of this process. Every other rank
 * takes a record lock in the arena of the first member of its block, and the kernel tells who holds it: a lock can be taken
 * by a process of this machine only, and of one that could open the arena, which is one of this user's; its holder's number
 * is the kernel's, in this process's own numbering, or 0 if the holder is in no process namespace that is seen from here.
 * A process that ends gives its locks back, and its pidfd was opened before they were looked at and is looked at after it:
 * the number has not gone to another process meanwhile.
 *
 * Where in the file a member locks follows from numbers that all members have drawn, so a lock that was taken for one
 * communicator is none for another. Blocks bound both the files that a member keeps open and the locks that are searched.
 */
#include "share.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCK 64u

/* ---- Ranks of this process ---- */

static pthread_mutex_t here_lock = PTHREAD_MUTEX_INITIALIZER;
static struct wi_shm_group *here; /* those that are being made */

void wi_shm_here_add(struct wi_shm_group *group)
{
    pthread_mutex_lock(&here_lock);
    group->here_next = here;
    here = group;
    pthread_mutex_unlock(&here_lock);
}

void wi_shm_here_remove(struct wi_shm_group *group)
{
    struct wi_shm_group **link = &here;

    pthread_mutex_lock(&here_lock);
    while (*link != group)
        link = &(*link)->here_next;
    *link = group->here_next;
    pthread_mutex_unlock(&here_lock);
}

static int runs_here(const uint64_t comm_id[2], int rank)
{
    const struct wi_shm_group *group;

    pthread_mutex_lock(&here_lock);
    for (group = here; group; group = group->here_next)
        if (group->rank == rank && memcmp(group->comm_id, comm_id, sizeof(group->comm_id)) == 0)
            break;
    pthread_mutex_unlock(&here_lock);
    return group != NULL;
}

weft_status wi_shm_here_check(struct wi_shm_share *share)
{
    struct wi_shm_group *group = share->group;
    const struct weft_host *host = group->endpoint->host;

    for (uint32_t i = 0; i < group->nmembers; i++) {
        struct wi_shm_peer *peer = &group->peers[i];
        peer->here = runs_here(group->comm_id, peer->rank);
        if (peer->here == wi_shm_identity_same_process(&peer->identity, &group->endpoint->identity))
            continue;
        host->explain(host->impl, WEFT_EPROTO,
                      peer->here ? "rank %d runs in this process (%u), and says that it is process %u"
                                 : "rank %d says that it runs in this process (%u), and does not",
                      peer->rank, group->endpoint->identity.pid, peer->identity.pid);
        return WEFT_EPROTO;
    }
    return WEFT_SUCCESS;
}

/* ---- Ranks of other processes ---- */

static uint32_t blocks(const struct wi_shm_share *share)
{
    return (share->group->nmembers + BLOCK - 1) / BLOCK;
}

weft_status wi_shm_guards_init(struct wi_shm_share *share)
{
    share->guards = malloc(blocks(share) * sizeof(*share->guards));
    if (!share->guards)
        return WEFT_ENOMEM;
    for (uint32_t i = 0; i < blocks(share); i++)
        share->guards[i] = -1;
    return WEFT_SUCCESS;
}

/* Closing any descriptor of a file gives back the locks that the process holds in it: only when all have looked. */
void wi_shm_guards_drop(struct wi_shm_share *share)
{
    for (uint32_t i = 0; share->guards && i < blocks(share); i++) {
        if (share->guards[i] >= 0)
            close(share->guards[i]);
        share->guards[i] = -1;
    }
}

static struct flock lock_of(const struct wi_shm_share *share, uint32_t member)
{
    uint64_t place = 0;

    for (uint32_t i = 0; i < share->group->nmembers; i++) {
        place = (place ^ share->all[i].nonce) * 0xff51afd7ed558ccdull;
        place ^= place >> 32;
    }
    return (struct flock){
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)(place >> 2) + (off_t)member, .l_len = 1};
}

weft_status wi_shm_guard(struct wi_shm_share *share, uint32_t member, int *fd)
{
    struct wi_shm_group *group = share->group;
    const struct weft_host *host = group->endpoint->host;
    struct flock lock = lock_of(share, group->self);
    int kept;

    if (member % BLOCK != 0)
        return WEFT_SUCCESS;
    kept = member == group->self ? fcntl(*fd, F_DUPFD_CLOEXEC, 0) : *fd;
    if (kept < 0)
        return wi_shm_explain_errno(host, errno, "keep an arena open");
    share->guards[member / BLOCK] = kept;
    if (kept == *fd)
        *fd = -1;
    if (group->self / BLOCK != member / BLOCK || fcntl(kept, F_SETLK, &lock) == 0)
        return WEFT_SUCCESS;
    if (errno != EAGAIN && errno != EACCES)
        return wi_shm_explain_errno(host, errno, "lock a part of an arena");
    host->explain(host->impl, WEFT_EPROTO, "another process shows itself as rank %d", group->rank);
    return WEFT_EPROTO;
}

static weft_status disproved(const struct wi_shm_group *group, const struct wi_shm_peer *peer, const struct flock *lock)
{
    const struct weft_host *host = group->endpoint->host;
    const char *advice = "ranks in different containers talk over tcp";

    if (lock->l_type == F_UNLCK)
        host->explain(host->impl, WEFT_EPROTO, "rank %d says that it is process %u of this machine, and is not",
                      peer->rank, peer->identity.pid);
    else if (lock->l_pid <= 0)
        host->explain(host->impl, WEFT_EPROTO,
                      "rank %d says that it is process %u, but runs in another process namespace; %s", peer->rank,
                      peer->identity.pid, advice);
    else
        host->explain(host->impl, WEFT_EPROTO, "rank %d says that it is process %u, but is process %d", peer->rank,
                      peer->identity.pid, (int)lock->l_pid);
    return WEFT_EPROTO;
}

weft_status wi_shm_prove(struct wi_shm_share *share)
{
    struct wi_shm_group *group = share->group;
    const struct weft_host *host = group->endpoint->host;

    for (uint32_t i = 0; i < group->nmembers; i++) {
        const struct wi_shm_peer *peer = &group->peers[i];
        struct flock lock = lock_of(share, i);
        if (peer->here)
            continue;
        if (fcntl(share->guards[i / BLOCK], F_GETLK, &lock) != 0)
            return wi_shm_explain_errno(host, errno, "see who locks a part of an arena");
        if (lock.l_type == F_UNLCK || lock.l_pid != (pid_t)peer->identity.pid)
            return disproved(group, peer, &lock);
        if (!wi_shm_watch_alive(peer->watch)) {
            host->explain(host->impl, WEFT_EPEER, "process %u of rank %d has ended", peer->identity.pid, peer->rank);
            return WEFT_EPEER;
        }
    }
    return WEFT_SUCCESS;
}
