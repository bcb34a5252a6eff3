/* SPDX-License-Identifier: BSD-3-Clause */
/* Large files, written from beginning to end. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "zero/ckpt/ckpt_io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fds.h"
#include "base/status.h"
#include "zero/ckpt/ckpt_format.h"

/* Large enough that a disk's latency does not count, small enough that the block stays in the last-level cache between the checksum
 * and the write. */
#define BLOCK_BYTES ((size_t)4 << 20)
#define LARGE_BYTES ((size_t)256 << 10) /* from here on a copy to the block costs more than a call of its own */
#define DIRECT_BYTES 4096               /* alignment of O_DIRECT on every disk in use */

weft_status wi_ckpt_writer_create(struct wi_ckpt_writer *writer, const struct wi_ckpt_dir *dir, const char *name,
                                  int direct)
{
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;

    memset(writer, 0, sizeof(*writer));
    writer->dir = dir;
    wi_ckpt_text_copy(writer->name, sizeof(writer->name), name);
    writer->fd = -1;
    writer->block = wi_aligned_alloc(DIRECT_BYTES, BLOCK_BYTES);
    if (!writer->block)
        return wi_fail(WEFT_ENOMEM, "out of memory for a block of %zu bytes to write", BLOCK_BYTES);
    writer->fd = wi_fd_keep(openat(dir->fd, name, flags, 0666));
    if (writer->fd < 0) {
        weft_status st = wi_fail_errno(errno, "%s/%s cannot be created", dir->path, name);

        wi_ckpt_writer_fini(writer);
        return st;
    }
    /* Where the file system does not know it, the page cache does as well. */
    writer->direct = direct && fcntl(writer->fd, F_SETFL, O_DIRECT) == 0;
    return WEFT_SUCCESS;
}

static weft_status write_out(struct wi_ckpt_writer *w, const void *data, size_t bytes)
{
    weft_status st = wi_ckpt_write_all(w->fd, data, bytes, w->written, w->dir, w->name);

    if (st < 0 && w->direct && fcntl(w->fd, F_SETFL, 0) == 0) { /* it may want another alignment */
        w->direct = 0;
        st = wi_ckpt_write_all(w->fd, data, bytes, w->written, w->dir, w->name);
    }
    if (st < 0)
        return st;
    /* The disk begins now, not when the file is synced. File systems that do not know this lose nothing but time. */
    if (!w->direct && sync_file_range(w->fd, (off_t)w->written, (off_t)bytes, SYNC_FILE_RANGE_WRITE) < 0 &&
        (errno == EIO || errno == ENOSPC))
        return wi_fail_errno(errno, "%s/%s cannot be written at byte %llu", w->dir->path, w->name,
                             (unsigned long long)w->written);
    w->written += bytes;
    return WEFT_SUCCESS;
}

static weft_status flush(struct wi_ckpt_writer *w)
{
    size_t bytes = w->filled;

    w->filled = 0;
    return bytes > 0 ? write_out(w, w->block, bytes) : WEFT_SUCCESS;
}

weft_status wi_ckpt_writer_add(struct wi_ckpt_writer *writer, const void *data, size_t bytes)
{
    const unsigned char *in = data;

    if (in && !writer->direct && bytes >= LARGE_BYTES) {
        WI_TRY(flush(writer));
        return write_out(writer, in, bytes);
    }
    while (bytes > 0) {
        size_t room = BLOCK_BYTES - writer->filled, n = bytes < room ? bytes : room;

        if (in)
            memcpy(writer->block + writer->filled, in, n);
        else
            memset(writer->block + writer->filled, 0, n);
        writer->filled += n;
        in = in ? in + n : NULL;
        bytes -= n;
        if (writer->filled == BLOCK_BYTES)
            WI_TRY(flush(writer));
    }
    return WEFT_SUCCESS;
}

weft_status wi_ckpt_writer_align(struct wi_ckpt_writer *writer, size_t alignment)
{
    size_t over = (size_t)(wi_ckpt_writer_at(writer) % alignment);

    return wi_ckpt_writer_add(writer, NULL, over ? alignment - over : 0);
}

weft_status wi_ckpt_writer_finish(struct wi_ckpt_writer *writer)
{
    /* The end is no multiple of what O_DIRECT wants. */
    if (writer->direct && writer->filled % DIRECT_BYTES && fcntl(writer->fd, F_SETFL, 0) < 0)
        return wi_fail_errno(errno, "%s/%s cannot be written through the page cache", writer->dir->path, writer->name);
    WI_TRY(flush(writer));
    if (fsync(writer->fd) < 0)
        return wi_fail_errno(errno, "%s/%s cannot be synced", writer->dir->path, writer->name);
    wi_ckpt_writer_fini(writer);
    return WEFT_SUCCESS;
}

void wi_ckpt_writer_fini(struct wi_ckpt_writer *writer)
{
    if (writer->fd >= 0)
        wi_fd_close(writer->fd);
    wi_free(writer->block);
    writer->fd = -1;
    writer->block = NULL;
}
