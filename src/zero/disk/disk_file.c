/* SPDX-License-Identifier: BSD-3-Clause */
/* The file of the disk tier: made, allocated, with O_DIRECT where it can be. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fds.h"
#include "base/hash.h"
#include "base/status.h"
#include "zero/disk/disk_internal.h"

#define ZEROS_BYTES ((size_t)1 << 20)

/* What exceeds RLIMIT_FSIZE fails with EFBIG, and raises a signal in the thread that asked, which would end the process: it is
 * blocked meanwhile, and taken if it came. */
struct quiet {
    sigset_t before;
    int pending;
};

static void xfsz_block(struct quiet *quiet)
{
    sigset_t set, pending;

    sigemptyset(&set);
    sigaddset(&set, SIGXFSZ);
    sigpending(&pending);
    quiet->pending = sigismember(&pending, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &set, &quiet->before);
}

static void xfsz_unblock(const struct quiet *quiet)
{
    sigset_t set;
    struct timespec none = {0, 0};

    sigemptyset(&set);
    sigaddset(&set, SIGXFSZ);
    while (!quiet->pending && sigtimedwait(&set, NULL, &none) < 0 && errno == EINTR)
        ;
    pthread_sigmask(SIG_SETMASK, &quiet->before, NULL);
}

weft_status wi_disk_file_limit(const struct wi_disk *disk, uint64_t end)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < end)
        return wi_fail_errno(EFBIG, "disk tier %s: write up to offset %llu, ulimit -f allows %llu", disk->path,
                             (unsigned long long)end, (unsigned long long)limit.rlim_cur);
    return WEFT_SUCCESS;
}

static char *path_make(const struct wi_disk_config *config)
{
    size_t bytes = strlen(config->folder) + strlen(config->name) + 64;
    char *path = wi_malloc(bytes);
    uint64_t number = 0;

    if (!path)
        return NULL;
    if (wi_random(&number, sizeof(number)) != 0)
        number = wi_now_ns(); /* O_EXCL refuses a name that is taken */
    snprintf(path, bytes, "%s/%s.%ld.%016llx", config->folder, config->name, (long)getpid(),
             (unsigned long long)number);
    return path;
}

/* Where the file system cannot allocate: zeros are written, so that it is full now rather than in the middle of a step. */
static int zeros_write(const struct wi_disk *disk, uint64_t offset, uint64_t bytes)
{
    uint64_t deadline = wi_deadline_ns(disk->timeout_ns), done = 0;
    char *zeros = wi_calloc(1, ZEROS_BYTES);
    int err = zeros ? 0 : ENOMEM;

    while (!err && done < bytes) {
        size_t part = bytes - done < ZEROS_BYTES ? (size_t)(bytes - done) : ZEROS_BYTES;
        ssize_t n = pwrite(disk->fd, zeros, part, (off_t)(offset + done));
        if (n > 0) {
            done += (uint64_t)n;
            deadline = wi_deadline_ns(disk->timeout_ns);
        } else if (n < 0 && errno != EINTR && errno != EAGAIN) {
            err = errno;
        } else if (wi_now_ns() > deadline) {
            err = ETIMEDOUT;
        }
    }
    wi_free(zeros);
    return err;
}

static int blocks_allocate(const struct wi_disk *disk, uint64_t offset, uint64_t bytes)
{
    uint64_t deadline = wi_deadline_ns(disk->timeout_ns);
    int err;

    if (bytes == 0)
        return 0;
    do
        err = fallocate(disk->fd, 0, (off_t)offset, (off_t)bytes) == 0 ? 0 : errno;
    while (err == EINTR && wi_now_ns() < deadline);
    if (err == EOPNOTSUPP || err == ENOSYS)
        err = zeros_write(disk, offset, bytes);
    return err;
}

/* A file system may take the flag and refuse the transfers, or the reverse of what it says: it is tried. */
static int direct_try(struct wi_disk *disk)
{
    int flags = fcntl(disk->fd, F_GETFL), err = 0;
    char *block;

    if (flags < 0 || fcntl(disk->fd, F_SETFL, flags | O_DIRECT) != 0)
        return errno;
    block = wi_aligned_alloc(WI_DISK_ALIGN, WI_DISK_ALIGN);
    if (!block)
        err = ENOMEM;
    if (block)
        memset(block, 0, WI_DISK_ALIGN);
    if (!err && pwrite(disk->fd, block, WI_DISK_ALIGN, 0) != WI_DISK_ALIGN)
        err = errno ? errno : EIO;
    if (!err && pread(disk->fd, block, WI_DISK_ALIGN, 0) != WI_DISK_ALIGN)
        err = errno ? errno : EIO;
    wi_free(block);
    if (err)
        fcntl(disk->fd, F_SETFL, flags);
    return err;
}

static void direct_choose(struct wi_disk *disk, const struct wi_disk_config *config)
{
    if (config->buffered || disk->stats.file_bytes == 0)
        return;
    errno = 0;
    disk->stats.direct_errno = direct_try(disk);
    disk->direct = disk->stats.direct_errno == 0;
    disk->stats.direct = disk->direct;
}

weft_status wi_disk_file_create(struct wi_disk *disk, const struct wi_disk_config *config)
{
    struct quiet quiet;
    int err;

    disk->path = path_make(config);
    if (!disk->path)
        return wi_fail(WEFT_ENOMEM, "disk tier: no memory for a path");
    disk->fd = wi_fd_keep(open(disk->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (disk->fd < 0)
        return wi_fail_errno(errno, "disk tier: cannot make %s", disk->path);
    if (unlink(disk->path) != 0) {
        err = errno;
        unlink(disk->path);
        return wi_fail_errno(err, "disk tier: cannot unlink %s", disk->path);
    }
    xfsz_block(&quiet);
    err = blocks_allocate(disk, 0, disk->stats.file_bytes);
    xfsz_unblock(&quiet);
    if (err)
        return wi_fail_errno(err, "disk tier: cannot allocate %llu bytes for %s%s",
                             (unsigned long long)disk->stats.file_bytes, disk->path,
                             err == EFBIG ? " (ulimit -f, or a limit of the file system)" : "");
    direct_choose(disk, config);
    return WEFT_SUCCESS;
}

weft_status wi_disk_file_grow(struct wi_disk *disk, uint64_t bytes)
{
    uint64_t before = disk->stats.file_bytes;
    struct quiet quiet;
    int err;

    xfsz_block(&quiet);
    err = blocks_allocate(disk, before, bytes);
    if (err && ftruncate(disk->fd, (off_t)before) != 0)
        err = err == ENOSPC ? err : errno; /* the blocks that it got are its own until it ends: nothing else is lost */
    xfsz_unblock(&quiet);
    if (err)
        return wi_fail_errno(err, "disk tier: cannot allocate %llu bytes more for %s, which has %llu%s",
                             (unsigned long long)bytes, disk->path, (unsigned long long)before,
                             err == EFBIG ? " (ulimit -f, or a limit of the file system)" : "");
    disk->stats.file_bytes = before + bytes;
    return WEFT_SUCCESS;
}
