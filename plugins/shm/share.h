/* share.h: what members tell each other about their arenas.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef WI_SHM_SHARE_H
#define WI_SHM_SHARE_H

#include "group.h"

#define WI_SHM_NAME_MAX 96

/* Every byte of a peer's is untrusted. */
struct wi_shm_hello {
    int32_t status;         /* weft_status: how making the arena went */
    int32_t fd;             /* of the arena in the sender's process */
    uint64_t device, inode; /* that it refers to */
    uint64_t slot_bytes, ring_bytes;
    uint64_t nonce;         /* of all members' together follows where they take their locks */
    uint32_t depth, membarrier;
    uint32_t named;         /* an object in /dev/shm, whose name follows from process, communicator and rank */
    uint32_t pad;
};

struct wi_shm_share {
    struct wi_shm_group *group;
    const struct weft_group_config *config;
    struct wi_shm_hello *all; /* [nmembers] */
    int32_t *verdicts;        /* [nmembers] */
    int *guards;              /* prove.c: [blocks of members] files in which members hold locks; -1: none */
    int fd;                   /* of the own arena; open until the others have mapped it */
    int named;
    char name[WI_SHM_NAME_MAX];
};

weft_status wi_shm_hellos_check(const struct wi_shm_share *share);

/* named.c: the name of an arena in /dev/shm; remove those of processes that have ended. */
void wi_shm_object_name(const struct wi_shm_identity *owner, uint64_t comm_id, int rank, char name[WI_SHM_NAME_MAX]);
void wi_shm_objects_sweep(const struct wi_shm_identity *self);

/* prove.c: a peer says which process it is; the kernel says whether that is so. */
/* This rank can be found by the other ranks of this process from now on. */
void wi_shm_here_add(struct wi_shm_group *group);
void wi_shm_here_remove(struct wi_shm_group *group);
/* Whom does this process run itself? Fails when a rank says that it is here and is not. */
weft_status wi_shm_here_check(struct wi_shm_share *share);
weft_status wi_shm_guards_init(struct wi_shm_share *share);
void wi_shm_guards_drop(struct wi_shm_share *share);
/* *fd is the arena of `member`. If locks are held in it keep it (*fd is -1 then), and take this rank's if it is there. */
weft_status wi_shm_guard(struct wi_shm_share *share, uint32_t member, int *fd);
/* All have taken their locks: is each one held by the process that its rank says it is? */
weft_status wi_shm_prove(struct wi_shm_share *share);

#endif
