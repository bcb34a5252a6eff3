/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of checkpoints: all are opened relative to a folder's descriptor, and no symbolic link in a folder is followed. */
#ifndef WI_CKPT_IO_H
#define WI_CKPT_IO_H

#include <stddef.h>
#include <stdint.h>
#include <weft/weft.h>

/* A folder and its path for texts. */
struct wi_ckpt_dir {
    int fd; /* -1: not open */
    char path[1024];
};

/* The path as the caller gave it may lead through symbolic links; what is in the folder may not. WEFT_ENOTFOUND: there is none. */
weft_status wi_ckpt_dir_open(struct wi_ckpt_dir *dir, const char *path);
weft_status wi_ckpt_dir_open_in(struct wi_ckpt_dir *dir, const struct wi_ckpt_dir *parent, const char *name);
void wi_ckpt_dir_close(struct wi_ckpt_dir *dir);
weft_status wi_ckpt_dir_sync(const struct wi_ckpt_dir *dir);
/* Every name but "." and "..", until fn fails. */
weft_status wi_ckpt_dir_each(const struct wi_ckpt_dir *dir, weft_status (*fn)(void *arg, const char *name), void *arg);
/* ours: it is a folder of user `uid` and has only files as a save makes them. */
weft_status wi_ckpt_dir_is_ours(const struct wi_ckpt_dir *parent, const char *name, unsigned uid, int *ours);
/* Delete a folder that is ours; another one is left as it is, without a failure. */
weft_status wi_ckpt_dir_delete(const struct wi_ckpt_dir *parent, const char *name, unsigned uid);

/* A regular file, for reading. WEFT_ECONFIG: a link or something else; WEFT_ENOTFOUND: missing. */
weft_status wi_ckpt_file_open(const struct wi_ckpt_dir *dir, const char *name, int *fd, uint64_t *bytes);
/* All of it with a NUL behind; freed with wi_free. WEFT_ECONFIG: it has more than `most` bytes. */
weft_status wi_ckpt_file_load(const struct wi_ckpt_dir *dir, const char *name, size_t most, char **data, size_t *bytes);
/* Write a new file and sync it. */
weft_status wi_ckpt_file_store(const struct wi_ckpt_dir *dir, const char *name, const void *data, size_t bytes);
/* Put a file in the place of another, atomically and durably. */
weft_status wi_ckpt_file_replace(const struct wi_ckpt_dir *dir, const char *name, const void *data, size_t bytes);
/* Exactly so many bytes; WEFT_ECONFIG: the file ends before. */
weft_status wi_ckpt_pread(int fd, void *data, size_t bytes, uint64_t offset, const struct wi_ckpt_dir *dir, const char *name);
weft_status wi_ckpt_write_all(int fd, const void *data, size_t bytes, uint64_t offset, const struct wi_ckpt_dir *dir,
                              const char *name);

/* A new file that is written from its beginning to its end, in large aligned blocks. */
struct wi_ckpt_writer {
    const struct wi_ckpt_dir *dir;
    char name[64];
    int fd; /* -1: not created yet */
    int direct;
    unsigned char *block;
    size_t filled;
    uint64_t written; /* without what is in the block */
};
weft_status wi_ckpt_writer_create(struct wi_ckpt_writer *writer, const struct wi_ckpt_dir *dir, const char *name, int direct);
weft_status wi_ckpt_writer_add(struct wi_ckpt_writer *writer, const void *data, size_t bytes);
/* Zeros up to a multiple of `alignment`. */
weft_status wi_ckpt_writer_align(struct wi_ckpt_writer *writer, size_t alignment);
static inline uint64_t wi_ckpt_writer_at(const struct wi_ckpt_writer *writer)
{
    return writer->written + writer->filled;
}
/* Write what is left, sync and close. */
weft_status wi_ckpt_writer_finish(struct wi_ckpt_writer *writer);
/* Close without more; after finish, too. */
void wi_ckpt_writer_fini(struct wi_ckpt_writer *writer);

#endif
