/* segment.h: memory of this process that others may map.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A segment is one sealed memfd mapped at one place. Its number holds the descriptor and the inode, so a peer finds it
 * at /proc/<pid>/fd/<n> and notices when the descriptor has come to mean another file. Inodes of memfds are not
 * used again, hence neither are segment numbers.
 */
#ifndef WI_SHM_SEGMENT_H
#define WI_SHM_SEGMENT_H

#include <pthread.h>
#include <weft/weft_plugin.h>

struct wi_shm_segment {
    uintptr_t start, end;
    uint64_t number;
    int fd;
    int adopted;
};

/* Sorted by address. Any thread. */
struct wi_shm_segments {
    pthread_rwlock_t lock;
    struct wi_shm_segment *all;
    size_t count, capacity;
};

weft_status wi_shm_segments_init(struct wi_shm_segments *segments);
/* Unmaps what was allocated, makes private again what was adopted. */
void wi_shm_segments_fini(struct wi_shm_segments *segments);
weft_status wi_shm_segment_alloc(struct wi_shm_segments *segments, const struct weft_host *host, size_t bytes,
                                 void **ptr);
weft_status wi_shm_segment_free(struct wi_shm_segments *segments, const struct weft_host *host, void *ptr);
weft_status wi_shm_segment_adopt(struct wi_shm_segments *segments, const struct weft_host *host, void *ptr,
                                 size_t bytes, void **adopted, size_t *adopted_bytes);
weft_status wi_shm_segment_release(struct wi_shm_segments *segments, const struct weft_host *host, void *adopted);
/* 0 when [ptr, ptr+bytes) does not lie in one segment. */
uint64_t wi_shm_segment_find(struct wi_shm_segments *segments, const void *ptr, size_t bytes, uint64_t *offset);

/* adopt.c. make_shared fills segment->fd; on failure the memory is as it was. make_private returns 0 when there is no
 * memory for it; the contents are kept either way. */
weft_status wi_shm_make_shared(const struct weft_host *host, struct wi_shm_segment *segment);
int wi_shm_make_private(const struct wi_shm_segment *segment);

uint64_t wi_shm_segment_number(int fd, uint64_t inode);
int wi_shm_segment_fd(uint64_t number);
int wi_shm_segment_is(uint64_t number, uint64_t inode);
/* Growing a file past RLIMIT_FSIZE would raise SIGXFSZ, which ends the process: WEFT_ENOSPC instead. */
weft_status wi_shm_file_limit(const struct weft_host *host, size_t bytes);
/* A memfd of that size that can neither grow nor shrink. */
weft_status wi_shm_memfd(const struct weft_host *host, const char *name, size_t bytes, int *fd);
/* Open again what descriptor `fd` of a process refers to, if that is a regular file: opening a device may do things, and
 * opening a pipe wait. -1 and errno; ESTALE: another kind of file. */
int wi_shm_open_descriptor(uint32_t pid, int fd);
/* The status and its text for a failed system call. */
weft_status wi_shm_explain_errno(const struct weft_host *host, int error, const char *what);

#endif
