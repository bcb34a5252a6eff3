/* SPDX-License-Identifier: BSD-3-Clause */
/* A file system in memory that can lose its power: what was not synced is gone then, or is there in part. By FUSE, for tests. */
#ifndef FAULTFS_H
#define FAULTFS_H

#include <stdatomic.h>
#include <stdint.h>

/* In memory that the test and the file system share. */
struct faultfs_control {
    atomic_long calls;   /* that change or sync something, since the test set it to 0 */
    atomic_long off_at;  /* at this call the power goes off: it and all others fail with EIO; 0: never */
    atomic_long fail_at; /* this call fails with EIO, others do not; 0: none */
    atomic_llong space;  /* bytes that can still be written before ENOSPC */
    atomic_int reboot;   /* 1: at the next call the power is on again */
    /* What of things that were not synced is there after a reboot. 0: nothing. Else a seed: of each folder the first so many of its
     * changes, in their order; of each file all, nothing, or a beginning with zeros behind. */
    _Atomic uint64_t seed;
};

/* Mount at an existing folder. NULL and errno: it cannot be done here. One at a time. */
struct faultfs_control *faultfs_mount(const char *path);
void faultfs_unmount(void);

#endif
