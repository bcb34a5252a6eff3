/* SPDX-License-Identifier: BSD-3-Clause */
/* Folders and small files. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "zero/ckpt/ckpt_io.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fds.h"
#include "base/log.h"
#include "base/status.h"
#include "zero/ckpt/ckpt_format.h"

static weft_status opened(struct wi_ckpt_dir *dir, int fd)
{
    if (fd >= 0) {
        dir->fd = wi_fd_keep(fd);
        return WEFT_SUCCESS;
    }
    if (errno == ENOENT)
        return wi_fail(WEFT_ENOTFOUND, "%s does not exist", dir->path);
    if (errno == ELOOP || errno == ENOTDIR)
        return wi_fail(WEFT_ECONFIG, "%s is no folder, or a symbolic link", dir->path);
    return wi_fail_errno(errno, "%s cannot be opened", dir->path);
}

weft_status wi_ckpt_dir_open(struct wi_ckpt_dir *dir, const char *path)
{
    dir->fd = -1;
    if (!path || !*path || strlen(path) >= sizeof(dir->path) - WI_CKPT_TEXT_ROOM)
        return wi_fail(WEFT_EINVAL, "the path of a checkpoint folder is missing or longer than %zu bytes",
                       sizeof(dir->path) - WI_CKPT_TEXT_ROOM - 1);
    wi_ckpt_text_copy(dir->path, sizeof(dir->path), path);
    return opened(dir, open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

weft_status wi_ckpt_dir_open_in(struct wi_ckpt_dir *dir, const struct wi_ckpt_dir *parent, const char *name)
{
    dir->fd = -1;
    if ((size_t)snprintf(dir->path, sizeof(dir->path), "%s/%s", parent->path, name) >= sizeof(dir->path))
        return wi_fail(WEFT_EINVAL, "%s/%s is too long", parent->path, name);
    return opened(dir, openat(parent->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

void wi_ckpt_dir_close(struct wi_ckpt_dir *dir)
{
    if (dir->fd >= 0)
        wi_fd_close(dir->fd);
    dir->fd = -1;
}

weft_status wi_ckpt_dir_sync(const struct wi_ckpt_dir *dir)
{
    if (fsync(dir->fd) < 0 && errno != EINVAL) /* EINVAL: this file system has nothing to sync there */
        return wi_fail_errno(errno, "%s cannot be synced", dir->path);
    return WEFT_SUCCESS;
}

weft_status wi_ckpt_dir_each(const struct wi_ckpt_dir *dir, weft_status (*fn)(void *arg, const char *name), void *arg)
{
    int fd = openat(dir->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = fd < 0 ? NULL : fdopendir(fd);
    weft_status st = WEFT_SUCCESS;
    struct dirent *entry;

    if (!stream) {
        st = wi_fail_errno(errno, "%s cannot be listed", dir->path);
        if (fd >= 0)
            close(fd);
        return st;
    }
    for (errno = 0; st >= 0 && (entry = readdir(stream)); errno = 0)
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
            st = fn(arg, entry->d_name);
    if (st >= 0 && errno)
        st = wi_fail_errno(errno, "%s cannot be listed", dir->path);
    closedir(stream);
    return st;
}

/* ---- Deletion ---- */

static weft_status only_ours(void *arg, const char *name)
{
    (void)arg;
    return wi_ckpt_is_file_name(name) ? WEFT_SUCCESS : WEFT_EBUSY;
}

static weft_status unlink_one(void *arg, const char *name)
{
    const struct wi_ckpt_dir *dir = arg;

    if (!wi_ckpt_is_file_name(name))
        return WEFT_EBUSY; /* it has come since the folder was looked at */
    if (unlinkat(dir->fd, name, 0) < 0 && errno != ENOENT)
        return wi_fail_errno(errno, "%s/%s cannot be deleted", dir->path, name);
    return WEFT_SUCCESS;
}

/* The descriptor's folder is judged, whatever the name is given to later; the name first, since others' folders may not open. */
static weft_status open_if_owned(struct wi_ckpt_dir *dir, const struct wi_ckpt_dir *parent, const char *name,
                                 unsigned uid, int *owned)
{
    struct stat st;

    *owned = 0;
    dir->fd = -1;
    if (fstatat(parent->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? WEFT_SUCCESS : wi_fail_errno(errno, "%s/%s cannot be looked at", parent->path, name);
    if (!S_ISDIR(st.st_mode) || st.st_uid != uid)
        return WEFT_SUCCESS;
    WI_TRY(wi_ckpt_dir_open_in(dir, parent, name));
    *owned = fstat(dir->fd, &st) == 0 && st.st_uid == uid;
    if (!*owned)
        wi_ckpt_dir_close(dir);
    return WEFT_SUCCESS;
}

/* A folder of user `uid` with nothing but files of a save, kept open; otherwise dir->fd is -1. */
static weft_status open_if_ours(struct wi_ckpt_dir *dir, const struct wi_ckpt_dir *parent, const char *name,
                                unsigned uid)
{
    weft_status status;
    int owned;

    WI_TRY(open_if_owned(dir, parent, name, uid, &owned));
    if (!owned)
        return WEFT_SUCCESS;
    status = wi_ckpt_dir_each(dir, only_ours, NULL);
    if (status == WEFT_EBUSY)
        wi_log(WEFT_LOG_WARN, "zero.ckpt.kept", "%s has files that no save makes, and is left as it is", dir->path);
    if (status < 0)
        wi_ckpt_dir_close(dir);
    return status == WEFT_EBUSY ? WEFT_SUCCESS : status;
}

weft_status wi_ckpt_dir_is_ours(const struct wi_ckpt_dir *parent, const char *name, unsigned uid, int *ours)
{
    struct wi_ckpt_dir dir;
    weft_status status = open_if_ours(&dir, parent, name, uid);

    *ours = status >= 0 && dir.fd >= 0;
    wi_ckpt_dir_close(&dir);
    return status;
}

weft_status wi_ckpt_dir_delete(const struct wi_ckpt_dir *parent, const char *name, unsigned uid)
{
    struct wi_ckpt_dir dir;
    weft_status status = open_if_ours(&dir, parent, name, uid);

    if (status < 0 || dir.fd < 0)
        return status;
    /* Some file systems skip names when others are deleted during the listing: once more until there is nothing. */
    for (int round = 0; status >= 0 && round < 8; round++) {
        status = wi_ckpt_dir_each(&dir, unlink_one, &dir);
        if (status >= 0 && unlinkat(parent->fd, name, AT_REMOVEDIR) == 0)
            break;
    }
    wi_ckpt_dir_close(&dir);
    return status == WEFT_EBUSY ? WEFT_SUCCESS : status;
}

/* ---- Files ---- */

weft_status wi_ckpt_file_open(const struct wi_ckpt_dir *dir, const char *name, int *fd, uint64_t *bytes)
{
    int got = openat(dir->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;

    if (got < 0 && errno == ENOENT)
        return wi_fail(WEFT_ENOTFOUND, "%s/%s is missing", dir->path, name);
    if (got < 0 && errno == ELOOP)
        return wi_fail(WEFT_ECONFIG, "%s/%s is a symbolic link", dir->path, name);
    if (got < 0)
        return wi_fail_errno(errno, "%s/%s cannot be opened", dir->path, name);
    if (fstat(got, &st) < 0 || !S_ISREG(st.st_mode)) {
        close(got);
        return wi_fail(WEFT_ECONFIG, "%s/%s is no regular file", dir->path, name);
    }
    *fd = wi_fd_keep(got);
    *bytes = (uint64_t)st.st_size;
    return WEFT_SUCCESS;
}

weft_status wi_ckpt_pread(int fd, void *data, size_t bytes, uint64_t offset, const struct wi_ckpt_dir *dir,
                          const char *name)
{
    unsigned char *out = data;

    while (bytes > 0) {
        ssize_t got = pread(fd, out, bytes, (off_t)offset);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return wi_fail_errno(errno, "%s/%s cannot be read at byte %llu", dir->path, name,
                                 (unsigned long long)offset);
        if (got == 0)
            return wi_fail(WEFT_ECONFIG, "%s/%s is truncated: it ends at byte %llu", dir->path, name,
                           (unsigned long long)offset);
        out += got;
        offset += (uint64_t)got;
        bytes -= (size_t)got;
    }
    return WEFT_SUCCESS;
}

weft_status wi_ckpt_write_all(int fd, const void *data, size_t bytes, uint64_t offset, const struct wi_ckpt_dir *dir,
                              const char *name)
{
    const unsigned char *in = data;

    while (bytes > 0) {
        ssize_t put = pwrite(fd, in, bytes, (off_t)offset);

        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return wi_fail_errno(put < 0 ? errno : EIO, "%s/%s cannot be written at byte %llu", dir->path, name,
                                 (unsigned long long)offset);
        in += put;
        offset += (uint64_t)put;
        bytes -= (size_t)put;
    }
    return WEFT_SUCCESS;
}

weft_status wi_ckpt_file_load(const struct wi_ckpt_dir *dir, const char *name, size_t most, char **data, size_t *bytes)
{
    uint64_t there;
    weft_status st;
    int fd;

    WI_TRY(wi_ckpt_file_open(dir, name, &fd, &there));
    *data = there <= most ? wi_malloc((size_t)there + 1) : NULL;
    if (there > most)
        st = wi_fail(WEFT_ECONFIG, "%s/%s has %llu bytes, more than the %zu that it may have", dir->path, name,
                     (unsigned long long)there, most);
    else if (!*data)
        st = wi_fail(WEFT_ENOMEM, "out of memory for the %llu bytes of %s/%s", (unsigned long long)there, dir->path,
                     name);
    else
        st = wi_ckpt_pread(fd, *data, (size_t)there, 0, dir, name);
    wi_fd_close(fd);
    if (st < 0) {
        wi_free(*data);
        *data = NULL;
        return st;
    }
    (*data)[there] = '\0';
    *bytes = (size_t)there;
    return WEFT_SUCCESS;
}

weft_status wi_ckpt_file_store(const struct wi_ckpt_dir *dir, const char *name, const void *data, size_t bytes)
{
    int fd = wi_fd_keep(openat(dir->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
    weft_status st;

    if (fd < 0)
        return wi_fail_errno(errno, "%s/%s cannot be created", dir->path, name);
    st = wi_ckpt_write_all(fd, data, bytes, 0, dir, name);
    if (st >= 0 && fsync(fd) < 0)
        st = wi_fail_errno(errno, "%s/%s cannot be synced", dir->path, name);
    wi_fd_close(fd);
    return st;
}

weft_status wi_ckpt_file_replace(const struct wi_ckpt_dir *dir, const char *name, const void *data, size_t bytes)
{
    char temp[64];
    weft_status st;

    snprintf(temp, sizeof(temp), WI_CKPT_TEMP "%s", name);
    if (unlinkat(dir->fd, temp, 0) < 0 && errno != ENOENT) /* of a save that crashed */
        return wi_fail_errno(errno, "%s/%s cannot be deleted", dir->path, temp);
    st = wi_ckpt_file_store(dir, temp, data, bytes);
    if (st >= 0 && renameat(dir->fd, temp, dir->fd, name) < 0)
        st = wi_fail_errno(errno, "%s/%s cannot be renamed to %s", dir->path, temp, name);
    if (st < 0) {
        unlinkat(dir->fd, temp, 0);
        return st;
    }
    return wi_ckpt_dir_sync(dir);
}
