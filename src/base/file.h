/* SPDX-License-Identifier: BSD-3-Clause */
/* Files that a user or a setting names. Regular files only: opening a pipe or a terminal would block, and opening a
 * device may do things. */
#ifndef WI_BASE_FILE_H
#define WI_BASE_FILE_H

#include <stddef.h>
#include <sys/stat.h>
#include <weft/weft.h>

/* `what` begins the text of a failure: "tuning table". WEFT_ECONFIG: it cannot be opened, is no regular file, or is longer than
 * max_bytes; WEFT_ENOMEM; WEFT_ESYS: it cannot be read. */
weft_status wi_file_open(const char *path, const char *what, int *fd);
/* A file with a secret: WEFT_ECONFIG also when it belongs to another user, or others can read or write it. */
weft_status wi_file_open_private(const char *path, const char *what, int *fd);
/* The one sentence for what may not be trusted or not be read: "belongs to user 0 and has mode 644; it must MUST". Returns text. */
char *wi_file_owner_text(const struct stat *st, const char *must, char *text, size_t capacity);
/* All of it, with a NUL behind it that `bytes` does not count; the caller frees it with wi_free. */
weft_status wi_file_read(const char *path, const char *what, size_t max_bytes, char **text, size_t *bytes);

#endif
