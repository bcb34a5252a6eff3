/* named.c: arenas that are objects in /dev/shm, and those that killed processes have left there.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A name says whose object it is: process namespace, process number and start time, which no two processes of a host share,
 * then communicator and rank. It is removed as soon as all members have mapped it, so that only a process that is killed
 * while a communicator is being made leaves one behind. Whoever makes one next takes away what belongs to a process of this
 * user and namespace that has ended.
 */
#include "share.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDER "/dev/shm"
#define PREFIX "weft-"
#define LOOK_MAX 4096 /* entries of the folder, and */
#define JUDGE_MAX 256 /* owners looked after, at each creation */

void wi_shm_object_name(const struct wi_shm_identity *owner, uint64_t comm_id, int rank, char name[WI_SHM_NAME_MAX])
{
    snprintf(name, WI_SHM_NAME_MAX, "/" PREFIX "%" PRIx64 "-%" PRIu32 "-%" PRIx64 "-%016" PRIx64 "-%d", owner->pid_ns,
             owner->pid, owner->start_ticks, comm_id, rank);
}

/* The owner that a name gives; 0: it is no name of an arena. */
static int owner_of(const char *name, struct wi_shm_identity *owner)
{
    char again[WI_SHM_NAME_MAX];
    uint64_t comm_id;
    int rank;

    memset(owner, 0, sizeof(*owner));
    if (sscanf(name, PREFIX "%" SCNx64 "-%" SCNu32 "-%" SCNx64 "-%" SCNx64 "-%d", &owner->pid_ns, &owner->pid,
               &owner->start_ticks, &comm_id, &rank) != 5)
        return 0;
    wi_shm_object_name(owner, comm_id, rank, again);
    return strcmp(again + 1, name) == 0;
}

/* A regular file of this user? Links are not followed. */
static int is_own(int folder, const char *name)
{
    struct stat st;

    return fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid();
}

void wi_shm_objects_sweep(const struct wi_shm_identity *self)
{
    DIR *folder = opendir(FOLDER);
    int looked = 0, judged = 0;
    const struct dirent *entry;

    if (!folder)
        return;
    while (looked++ < LOOK_MAX && judged < JUDGE_MAX && (entry = readdir(folder))) {
        struct wi_shm_identity owner;
        if (!owner_of(entry->d_name, &owner) || owner.pid_ns != self->pid_ns || owner.pid == 0 ||
            owner.pid > INT32_MAX || !is_own(dirfd(folder), entry->d_name))
            continue;
        judged++;
        if (!wi_shm_process_lives(&owner))
            unlinkat(dirfd(folder), entry->d_name, 0);
    }
    closedir(folder);
}
