/* SPDX-License-Identifier: BSD-3-Clause */
/* Rank 0's part of a save: the temporary folder, the manifest, the commit, and what is deleted. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "zero/ckpt/ckpt_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/fds.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/status.h"

#define LOCK_NAME ".weft-lock"

/* ---- Before ---- */

static weft_status folder_open(struct wi_ckpt_commit *c, const char *path)
{
    struct wi_ckpt_dir above;
    weft_status st = wi_ckpt_dir_open(&c->folder, path);

    if (st != WEFT_ENOTFOUND)
        return st;
    if (mkdir(path, 0777) < 0 && errno != EEXIST)
        return wi_fail_errno(errno, "%s cannot be created", path);
    WI_TRY(wi_ckpt_dir_open(&c->folder, path));
    WI_TRY(wi_ckpt_dir_open_in(&above, &c->folder, ".."));
    st = wi_ckpt_dir_sync(&above);
    wi_ckpt_dir_close(&above);
    return st;
}

/* One save at a time: what is temporary here belongs to saves that crashed. */
static weft_status lock(struct wi_ckpt_commit *c)
{
    int fd = openat(c->folder.fd, LOCK_NAME, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    int err;

    if (fd < 0)
        return wi_fail_errno(errno, "%s/%s cannot be opened", c->folder.path, LOCK_NAME);
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
        c->lock = wi_fd_keep(fd);
        return WEFT_SUCCESS;
    }
    err = errno;
    close(fd);
    if (err == EWOULDBLOCK)
        return wi_fail(WEFT_EBUSY, "%s: another process is saving a checkpoint there", c->folder.path);
    wi_log(WEFT_LOG_WARN, "zero.ckpt.lock", "%s cannot be locked: %s; what saves that crashed have left stays",
           c->folder.path, strerror(err));
    return WEFT_SUCCESS;
}

static weft_status delete_leftover(void *arg, const char *name)
{
    struct wi_ckpt_commit *c = arg;
    const size_t prefix = strlen(WI_CKPT_TEMP);

    if (strncmp(name, WI_CKPT_TEMP, prefix) || !wi_ckpt_is_hex(name + prefix, WI_CKPT_ID_HEX) ||
        !strcmp(name, c->temp_name))
        return WEFT_SUCCESS;
    return wi_ckpt_dir_delete(&c->folder, name, c->uid);
}

static weft_status temp_make(struct wi_ckpt_commit *c, struct wi_ckpt_run *run)
{
    unsigned char id[WI_CKPT_ID_HEX / 2];
    struct stat st;

    if (wi_random(id, sizeof(id)) < 0)
        return wi_fail_errno(errno, "no random bytes for a checkpoint's id");
    wi_hex_encode(id, sizeof(id), run->id);
    snprintf(c->temp_name, sizeof(c->temp_name), WI_CKPT_TEMP "%s", run->id);
    if (mkdirat(c->folder.fd, c->temp_name, 0777) < 0)
        return wi_fail_errno(errno, "%s/%s cannot be created", c->folder.path, c->temp_name);
    c->made = 1;
    WI_TRY(wi_ckpt_dir_open_in(&c->temp, &c->folder, c->temp_name));
    if (fstat(c->temp.fd, &st) < 0)
        return wi_fail_errno(errno, "%s cannot be looked at", c->temp.path);
    c->uid = st.st_uid; /* of what this process makes there, which need not be its own number */
    return WEFT_SUCCESS;
}

static weft_status look_around(struct wi_ckpt_commit *c, struct wi_ckpt_run *run)
{
    struct wi_ckpt_versions versions;
    struct stat st;

    if (fstatat(c->folder.fd, run->tag, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        if (!run->options.replace)
            return wi_fail(WEFT_EINVAL, "%s has a checkpoint \"%s\" already", c->folder.path, run->tag);
    } else if (errno != ENOENT) {
        return wi_fail_errno(errno, "%s/%s cannot be looked at", c->folder.path, run->tag);
    }
    WI_TRY(wi_ckpt_versions_list(&versions, &c->folder));
    run->sequence = versions.count > 0 ? versions.list[0].sequence + 1 : 1;
    wi_ckpt_text_copy(run->parent, sizeof(run->parent), versions.count > 0 ? versions.list[0].tag : "");
    wi_ckpt_versions_fini(&versions);
    if (run->sequence > WI_CKPT_SEQUENCE_MAX)
        return wi_fail(WEFT_ECONFIG,
                       "%s/%s has the largest sequence number that there is: no newer version is possible",
                       c->folder.path, run->parent);
    return WEFT_SUCCESS;
}

/* `replace` is about versions, damaged ones too; a folder of anything else stays. */
static weft_status may_replace(struct wi_ckpt_commit *c, const struct wi_ckpt_run *run)
{
    struct wi_ckpt_dir dir;
    struct stat st;
    int ours;

    if (fstatat(c->folder.fd, run->tag, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? WEFT_SUCCESS
                               : wi_fail_errno(errno, "%s/%s cannot be looked at", c->folder.path, run->tag);
    WI_TRY(wi_ckpt_dir_is_ours(&c->folder, run->tag, c->uid, &ours));
    if (ours) {
        WI_TRY(wi_ckpt_dir_open_in(&dir, &c->folder, run->tag));
        ours = fstatat(dir.fd, WI_CKPT_MANIFEST, &st, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
        wi_ckpt_dir_close(&dir);
    }
    return ours ? WEFT_SUCCESS
                : wi_fail(WEFT_EINVAL, "%s/%s cannot be replaced: it is no checkpoint of this user, or has other files",
                          c->folder.path, run->tag);
}

weft_status wi_ckpt_commit_prepare(struct wi_ckpt_commit *commit, struct wi_ckpt_run *run)
{
    memset(commit, 0, sizeof(*commit));
    commit->folder.fd = commit->temp.fd = commit->lock = -1;
    WI_TRY(folder_open(commit, run->folder));
    WI_TRY(lock(commit));
    WI_TRY(look_around(commit, run));
    WI_TRY(temp_make(commit, run));
    WI_TRY(may_replace(commit, run));
    /* What cannot be deleted costs space, and is no reason not to save. */
    if (commit->lock >= 0 && wi_ckpt_dir_each(&commit->folder, delete_leftover, commit) < 0)
        wi_log(WEFT_LOG_WARN, "zero.ckpt.delete", "what a save has left cannot be deleted: %s", wi_fail_text());
    return WEFT_SUCCESS;
}

/* ---- The commit ---- */

static weft_status indexes_load(struct wi_ckpt_commit *c, struct wi_ckpt_index *indexes,
                                const struct wi_ckpt_digest *digests, int nranks)
{
    for (int r = 0; r < nranks; r++) {
        weft_status st = wi_ckpt_rank_index_load(&c->temp, (uint32_t)r, &digests[r], &indexes[r]);

        if (st == WEFT_ENOTFOUND)
            return wi_fail(WEFT_ENOTFOUND,
                           "rank 0 does not see what rank %d has written: %s is not one folder for all ranks", r,
                           c->folder.path);
        WI_TRY(st);
    }
    return WEFT_SUCCESS;
}

static weft_status manifest_write(struct wi_ckpt_commit *c, const struct wi_ckpt_run *run,
                                  const struct wi_ckpt_map *map, const struct wi_ckpt_digest *digests, int nranks)
{
    struct wi_ckpt_manifest m = {
        .sequence = run->sequence, .nranks = (uint32_t)nranks, .chunk_bytes = run->index.chunk_bytes};
    char *text = NULL;
    size_t bytes = 0;
    weft_status st;

    wi_ckpt_text_copy(m.tag, sizeof(m.tag), run->tag);
    wi_ckpt_text_copy(m.parent, sizeof(m.parent), run->parent);
    wi_ckpt_text_copy(m.id, sizeof(m.id), run->id);
    m.indexes = (struct wi_ckpt_digest *)digests; /* only read */
    m.client = run->client_digest;
    m.scalars = run->scalars;
    m.tensors = wi_ckpt_tensors_json(map);
    st = m.tensors ? wi_ckpt_manifest_encode(&m, &text, &bytes)
                   : wi_fail(WEFT_ENOMEM, "out of memory for a checkpoint's manifest");
    json_decref(m.tensors);
    /* Other ranks' names are durable by their own syncs; this is once more for those that rank 0's host has seen last. */
    st = st < 0 ? st : wi_ckpt_file_replace(&c->temp, WI_CKPT_MANIFEST, text, bytes);
    wi_free(text);
    return st;
}

static weft_status rename_to_tag(struct wi_ckpt_commit *c, const struct wi_ckpt_run *run)
{
    struct stat st;
    weft_status status;

    if (fstatat(c->folder.fd, run->tag, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        if (!run->options.replace)
            return wi_fail(WEFT_EINVAL, "%s has a checkpoint \"%s\" already", c->folder.path, run->tag);
        WI_TRY(may_replace(c, run)); /* it may be another one than before the save */
        /* The old one has the temporary name then, and is deleted as what is temporary, unless the exchange might not last. */
        if (renameat2(c->folder.fd, c->temp_name, c->folder.fd, run->tag, RENAME_EXCHANGE) < 0)
            return wi_fail_errno(errno, "%s/%s cannot be replaced atomically here", c->folder.path, run->tag);
        c->made = 0;
        status = wi_ckpt_dir_sync(&c->folder);
        c->made = status >= 0;
        return status;
    }
    if (renameat(c->folder.fd, c->temp_name, c->folder.fd, run->tag) < 0)
        return wi_fail_errno(errno, "%s cannot be renamed to %s", c->temp.path, run->tag);
    c->made = 0;
    return wi_ckpt_dir_sync(&c->folder);
}

/* ---- After ---- */

/* A version goes out of sight as a whole before its files are deleted. */
static weft_status version_delete(struct wi_ckpt_commit *c, const char *tag)
{
    char name[sizeof(c->temp_name)], id[WI_CKPT_ID_HEX + 1];
    unsigned char random[WI_CKPT_ID_HEX / 2];
    int ours;

    WI_TRY(wi_ckpt_dir_is_ours(&c->folder, tag, c->uid, &ours));
    if (!ours)
        return WEFT_SUCCESS;
    if (wi_random(random, sizeof(random)) < 0)
        return wi_fail_errno(errno, "no random bytes for a name");
    wi_hex_encode(random, sizeof(random), id);
    snprintf(name, sizeof(name), WI_CKPT_TEMP "%s", id);
    if (renameat(c->folder.fd, tag, c->folder.fd, name) < 0)
        return wi_fail_errno(errno, "%s/%s cannot be renamed to be deleted", c->folder.path, tag);
    WI_TRY(wi_ckpt_dir_sync(&c->folder));
    return wi_ckpt_dir_delete(&c->folder, name, c->uid);
}

static weft_status delete_old(struct wi_ckpt_commit *c, const struct wi_ckpt_run *run)
{
    struct wi_ckpt_versions versions;
    weft_status st = WEFT_SUCCESS;

    if (run->options.keep == 0)
        return WEFT_SUCCESS;
    WI_TRY(wi_ckpt_versions_list(&versions, &c->folder));
    for (size_t i = (size_t)run->options.keep; i < versions.count && st >= 0; i++)
        if (versions.list[i].sequence < run->sequence)
            st = version_delete(c, versions.list[i].tag);
    wi_ckpt_versions_fini(&versions);
    return st;
}

weft_status wi_ckpt_commit_do(struct wi_ckpt_commit *commit, struct wi_ckpt_run *run,
                              const struct wi_ckpt_digest *digests, int nranks)
{
    struct wi_ckpt_index *indexes = wi_calloc((size_t)nranks, sizeof(*indexes));
    struct wi_ckpt_map map = {0};
    char latest[136];
    weft_status st;

    if (!indexes)
        return wi_fail(WEFT_ENOMEM, "out of memory for the indexes of %d ranks", nranks);
    st = indexes_load(commit, indexes, digests, nranks);
    st = st < 0 ? st : wi_ckpt_map_make(&map, indexes, (size_t)nranks);
    st = st < 0 ? st : manifest_write(commit, run, &map, digests, nranks);
    wi_ckpt_map_fini(&map);
    for (int r = 0; r < nranks; r++)
        wi_ckpt_index_fini(&indexes[r]);
    wi_free(indexes);
    WI_TRY(st);
    WI_TRY(wi_ckpt_version_verify(&commit->temp)); /* as those who load it will */
    WI_TRY(rename_to_tag(commit, run));
    snprintf(latest, sizeof(latest), "%s\n", run->tag);
    st = wi_ckpt_file_replace(&commit->folder, WI_CKPT_LATEST, latest, strlen(latest));
    if (st < 0)
        return wi_fail(st, "checkpoint \"%s\" is complete, but not yet named as the newest: %s", run->tag,
                       wi_fail_text());
    /* What cannot be deleted costs space, but the checkpoint is there. */
    if (delete_old(commit, run) < 0)
        wi_log(WEFT_LOG_WARN, "zero.ckpt.delete", "old checkpoints cannot be deleted: %s", wi_fail_text());
    return WEFT_SUCCESS;
}

void wi_ckpt_commit_fini(struct wi_ckpt_commit *commit)
{
    wi_ckpt_dir_close(&commit->temp);
    if (commit->made && wi_ckpt_dir_delete(&commit->folder, commit->temp_name, commit->uid) < 0)
        wi_log(WEFT_LOG_WARN, "zero.ckpt.delete", "%s", wi_fail_text());
    if (commit->lock >= 0)
        wi_fd_close(commit->lock);
    wi_ckpt_dir_close(&commit->folder);
}
