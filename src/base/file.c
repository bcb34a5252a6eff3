/* SPDX-License-Identifier: BSD-3-Clause */
/* See file.h. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/status.h"

#define FIRST_BYTES ((size_t)4096) /* files of /proc and /sys say that they are empty */

static weft_status not_regular(const char *path, const char *what, mode_t mode)
{
    const char *kind = S_ISDIR(mode)    ? "a directory"
                       : S_ISFIFO(mode) ? "a pipe"
                       : S_ISSOCK(mode) ? "a socket"
                                        : "a device";

    return wi_fail(WEFT_ECONFIG, "%s \"%s\": %s, not a regular file", what, path, kind);
}

char *wi_file_owner_text(const struct stat *st, const char *must, char *text, size_t capacity)
{
    snprintf(text, capacity, "belongs to user %u and has mode %03o; it must %s", (unsigned)st->st_uid,
             (unsigned)(st->st_mode & 07777), must);
    return text;
}

static weft_status not_opened(const char *path, const char *what, const struct stat *st, int error)
{
    char must[60], owner[160];

    if (error != EACCES || !st)
        return wi_fail(WEFT_ECONFIG, "%s \"%s\": %s", what, path, strerror(error));
    snprintf(must, sizeof must, "be readable by user %u", (unsigned)geteuid());
    return wi_fail(WEFT_ECONFIG, "%s \"%s\": %s: it %s", what, path, strerror(error),
                   wi_file_owner_text(st, must, owner, sizeof owner));
}

/* `st`: of the file that was opened. */
static weft_status open_regular(const char *path, const char *what, int *fd, struct stat *st)
{
    int opened = -1, found = stat(path, st) == 0;

    /* Before it is opened, since opening alone may do things; and after, since it may change. */
    if (found) {
        if (!S_ISREG(st->st_mode))
            return not_regular(path, what, st->st_mode);
        opened = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    }
    if (opened < 0 || fstat(opened, st) != 0) {
        int error = errno;
        if (opened >= 0)
            close(opened);
        return not_opened(path, what, found ? st : NULL, error);
    }
    if (!S_ISREG(st->st_mode)) {
        close(opened);
        return not_regular(path, what, st->st_mode);
    }
    *fd = opened;
    return WEFT_SUCCESS;
}

weft_status wi_file_open(const char *path, const char *what, int *fd)
{
    struct stat st;

    return open_regular(path, what, fd, &st);
}

weft_status wi_file_open_private(const char *path, const char *what, int *fd)
{
    char must[80], owner[160];
    struct stat st;
    int opened;

    WI_TRY(open_regular(path, what, &opened, &st));
    if (st.st_uid == geteuid() && !(st.st_mode & 077)) {
        *fd = opened;
        return WEFT_SUCCESS;
    }
    close(opened);
    snprintf(must, sizeof must, "be user %u's and have mode 600, so that nobody else can reach it",
             (unsigned)geteuid());
    return wi_fail(WEFT_ECONFIG, "%s \"%s\" %s", what, path, wi_file_owner_text(&st, must, owner, sizeof owner));
}

/* Until the end of the file or max_bytes + 1 bytes. */
static weft_status read_all(int fd, size_t max_bytes, char **text, size_t *bytes)
{
    size_t length = 0, room = 0;
    char *buffer = NULL;
    ssize_t got = 1;

    while (got > 0 && length <= max_bytes) {
        if (length == room) {
            size_t more = room ? 2 * room : FIRST_BYTES;
            char *grown;
            more = more > max_bytes + 1 ? max_bytes + 1 : more;
            grown = wi_realloc(buffer, more + 1);
            if (!grown) {
                wi_free(buffer);
                return WEFT_ENOMEM;
            }
            buffer = grown;
            room = more;
        }
        got = read(fd, buffer + length, room - length);
        if (got < 0 && errno == EINTR)
            got = 1;
        else if (got > 0)
            length += (size_t)got;
    }
    if (got < 0) {
        wi_free(buffer);
        return WEFT_ESYS;
    }
    buffer[length] = '\0';
    *text = buffer;
    *bytes = length;
    return WEFT_SUCCESS;
}

weft_status wi_file_read(const char *path, const char *what, size_t max_bytes, char **text, size_t *bytes)
{
    size_t length = 0;
    char *all = NULL;
    weft_status st;
    int fd;

    WI_TRY(wi_file_open(path, what, &fd));
    st = read_all(fd, max_bytes, &all, &length);
    if (st == WEFT_ESYS)
        st = wi_fail_errno(errno, "%s \"%s\": read", what, path);
    else if (st < 0)
        st = wi_fail(st, "%s \"%s\": no memory to read it", what, path);
    close(fd);
    if (st >= 0 && length > max_bytes) {
        wi_free(all);
        st = wi_fail(WEFT_ECONFIG, "%s \"%s\": longer than %zu bytes", what, path, max_bytes);
    }
    if (st < 0)
        return st;
    *text = all;
    *bytes = length;
    return WEFT_SUCCESS;
}
