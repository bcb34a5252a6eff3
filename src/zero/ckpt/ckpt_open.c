/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening versions, and finding the newest. */
#include "zero/ckpt/ckpt_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fds.h"
#include "base/log.h"
#include "base/status.h"

/* ---- One version ---- */

static weft_status manifest_load(struct wi_ckpt_manifest *manifest, const struct wi_ckpt_dir *dir)
{
    char where[sizeof(dir->path) + 32], *text;
    size_t bytes;
    weft_status st;

    snprintf(where, sizeof(where), "%s/%s", dir->path, WI_CKPT_MANIFEST);
    st = wi_ckpt_file_load(dir, WI_CKPT_MANIFEST, WI_CKPT_MANIFEST_MAX, &text, &bytes);
    if (st == WEFT_ENOTFOUND)
        return wi_fail(WEFT_ECONFIG, "%s is no complete checkpoint: it has no %s", dir->path, WI_CKPT_MANIFEST);
    WI_TRY(st);
    st = wi_ckpt_manifest_decode(manifest, text, bytes, where);
    wi_free(text);
    return st;
}

/* Ranks of an index and digest that differ are files that were swapped. */
weft_status wi_ckpt_rank_index_load(const struct wi_ckpt_dir *dir, uint32_t rank, const struct wi_ckpt_digest *digest,
                                    struct wi_ckpt_index *index)
{
    char name[32], where[sizeof(dir->path) + 32], *data;
    struct wi_ckpt_hash hash;
    size_t bytes;
    weft_status st;

    snprintf(name, sizeof(name), "rank-%05u.index", rank);
    snprintf(where, sizeof(where), "%s/%s", dir->path, name);
    WI_TRY(wi_ckpt_file_load(dir, name, WI_CKPT_INDEX_MAX, &data, &bytes));
    hash = wi_ckpt_hash(data, bytes);
    if (bytes != digest->bytes)
        st = wi_fail(WEFT_ECONFIG, "%s has %zu bytes, not the %llu that were saved", where, bytes,
                     (unsigned long long)digest->bytes);
    else if (memcmp(&hash, &digest->hash, sizeof(hash)))
        st = wi_fail(WEFT_ECONFIG, "%s is damaged: its hash is another", where);
    else
        st = wi_ckpt_index_decode(index, (const unsigned char *)data, bytes, where);
    wi_free(data);
    if (st >= 0 && index->rank != rank) {
        wi_ckpt_index_fini(index);
        st = wi_fail(WEFT_ECONFIG, "%s is of another rank", where);
    }
    return st;
}

static weft_status files_check(const struct wi_ckpt_dir *dir, const struct wi_ckpt_index *index)
{
    for (size_t i = 0; i < index->nfiles; i++) {
        uint64_t bytes;
        int fd;

        WI_TRY(wi_ckpt_file_open(dir, index->files[i].name, &fd, &bytes));
        wi_fd_close(fd);
        if (bytes != index->files[i].bytes)
            return wi_fail(WEFT_ECONFIG, "%s/%s has %llu bytes, not the %llu that were saved", dir->path,
                           index->files[i].name, (unsigned long long)bytes, (unsigned long long)index->files[i].bytes);
    }
    return WEFT_SUCCESS;
}

static weft_status fds_make(struct wi_ckpt_reader *r, uint32_t rank)
{
    const struct wi_ckpt_index *index = &r->indexes[rank];

    r->fds[rank] = wi_malloc((index->nfiles + 1) * sizeof(int));
    if (!r->fds[rank])
        return wi_fail(WEFT_ENOMEM, "out of memory for a checkpoint's files");
    for (size_t i = 0; i < index->nfiles; i++)
        r->fds[rank][i] = -1;
    return WEFT_SUCCESS;
}

static weft_status indexes_load(struct wi_ckpt_reader *r, int check_files)
{
    r->indexes = wi_calloc(r->manifest.nranks, sizeof(*r->indexes));
    r->fds = wi_calloc(r->manifest.nranks, sizeof(*r->fds));
    r->chunk = wi_malloc(r->manifest.chunk_bytes + 1);
    if (!r->indexes || !r->fds || !r->chunk)
        return wi_fail(WEFT_ENOMEM, "out of memory for the indexes of %s", r->dir.path);
    for (uint32_t rank = 0; rank < r->manifest.nranks; rank++) {
        WI_TRY(wi_ckpt_rank_index_load(&r->dir, rank, &r->manifest.indexes[rank], &r->indexes[rank]));
        if (r->indexes[rank].chunk_bytes != r->manifest.chunk_bytes)
            return wi_fail(WEFT_ECONFIG, "%s: rank %u has chunks of another size than the manifest says", r->dir.path,
                           rank);
        WI_TRY(fds_make(r, rank));
        if (check_files)
            WI_TRY(files_check(&r->dir, &r->indexes[rank]));
    }
    return WEFT_SUCCESS;
}

static weft_status client_check(const struct wi_ckpt_reader *r)
{
    uint64_t bytes;
    int fd;

    WI_TRY(wi_ckpt_file_open(&r->dir, WI_CKPT_CLIENT, &fd, &bytes));
    wi_fd_close(fd);
    if (bytes != r->manifest.client.bytes)
        return wi_fail(WEFT_ECONFIG, "%s/%s has %llu bytes, not the %llu that were saved", r->dir.path, WI_CKPT_CLIENT,
                       (unsigned long long)bytes, (unsigned long long)r->manifest.client.bytes);
    return WEFT_SUCCESS;
}

/* r->dir is open. */
static weft_status version_fill(struct wi_ckpt_reader *r, int check_files)
{
    weft_status st;

    WI_TRY(manifest_load(&r->manifest, &r->dir));
    WI_TRY(indexes_load(r, check_files));
    if (check_files)
        WI_TRY(client_check(r));
    st = wi_ckpt_map_make(&r->map, r->indexes, r->manifest.nranks);
    if (st == WEFT_EINVAL)
        return wi_fail(WEFT_ECONFIG, "%s is malformed: %s", r->dir.path, wi_fail_text());
    if (st >= 0 && json_array_size(r->manifest.tensors) != r->map.nentries)
        return wi_fail(WEFT_ECONFIG, "%s: the manifest has other tensors than the ranks' indexes", r->dir.path);
    return st;
}

static struct wi_ckpt_reader *reader_make(void)
{
    struct wi_ckpt_reader *r = wi_calloc(1, sizeof(*r));

    if (r)
        r->folder.fd = r->dir.fd = -1;
    return r;
}

weft_status wi_ckpt_version_open(const char *folder, const char *tag, int check_files, struct wi_ckpt_reader **reader)
{
    struct wi_ckpt_reader *r;
    weft_status st;

    WI_TRY(wi_ckpt_tag_check(tag));
    r = reader_make();
    if (!r)
        return wi_fail(WEFT_ENOMEM, "out of memory for a checkpoint's reader");
    wi_ckpt_text_copy(r->tag, sizeof(r->tag), tag);
    st = wi_ckpt_dir_open(&r->folder, folder);
    st = st < 0 ? st : wi_ckpt_dir_open_in(&r->dir, &r->folder, tag);
    st = st < 0 ? st : version_fill(r, check_files);
    if (st < 0)
        wi_ckpt_close(r);
    else
        *reader = r;
    return st;
}

weft_status wi_ckpt_version_verify(const struct wi_ckpt_dir *dir)
{
    struct wi_ckpt_reader *r;
    weft_status st;

    r = reader_make();
    if (!r)
        return wi_fail(WEFT_ENOMEM, "out of memory for a checkpoint's reader");
    st = wi_ckpt_dir_open_in(&r->dir, dir, ".");
    if (st >= 0)
        wi_ckpt_text_copy(r->dir.path, sizeof(r->dir.path), dir->path); /* in texts, without the dot */
    st = st < 0 ? st : version_fill(r, 1);
    wi_ckpt_close(r);
    return st;
}

void wi_ckpt_close(struct wi_ckpt_reader *reader)
{
    if (!reader)
        return;
    for (uint32_t rank = 0; reader->fds && rank < reader->manifest.nranks; rank++) {
        for (size_t i = 0; reader->fds[rank] && i < reader->indexes[rank].nfiles; i++)
            if (reader->fds[rank][i] >= 0)
                wi_fd_close(reader->fds[rank][i]);
        wi_free(reader->fds[rank]);
    }
    wi_free(reader->fds);
    wi_ckpt_map_fini(&reader->map);
    for (uint32_t rank = 0; reader->indexes && rank < reader->manifest.nranks; rank++)
        wi_ckpt_index_fini(&reader->indexes[rank]);
    wi_free(reader->indexes);
    wi_free(reader->chunk);
    wi_ckpt_manifest_fini(&reader->manifest);
    wi_ckpt_dir_close(&reader->dir);
    wi_ckpt_dir_close(&reader->folder);
    wi_free(reader);
}

/* ---- All versions ---- */

/* Could another version do instead? Not when this process lacks something. */
static int is_damage(weft_status st)
{
    return st < 0 && st != WEFT_ENOMEM && st != WEFT_ENOFILES;
}

static weft_status add_version(void *arg, const char *name)
{
    struct wi_ckpt_versions *v = arg;
    struct wi_ckpt_manifest manifest;
    struct wi_ckpt_dir dir;
    weft_status st;

    if (wi_ckpt_tag_check(name) < 0)
        return WEFT_SUCCESS;
    st = wi_ckpt_dir_open_in(&dir, v->folder, name);
    if (st < 0)
        return is_damage(st) ? WEFT_SUCCESS : st;
    st = manifest_load(&manifest, &dir);
    wi_ckpt_dir_close(&dir);
    if (st < 0)
        return is_damage(st) ? WEFT_SUCCESS : st;
    if (!strcmp(manifest.tag, name)) { /* others are copies that somebody made */
        if (v->count == v->room) {
            struct wi_ckpt_version *list = wi_realloc(v->list, (v->room + 16) * sizeof(*list));

            if (!list) {
                wi_ckpt_manifest_fini(&manifest);
                return wi_fail(WEFT_ENOMEM, "out of memory for a list of checkpoints");
            }
            v->list = list;
            v->room += 16;
        }
        wi_ckpt_text_copy(v->list[v->count].tag, sizeof(v->list->tag), name);
        v->list[v->count++].sequence = manifest.sequence;
    }
    wi_ckpt_manifest_fini(&manifest);
    return WEFT_SUCCESS;
}

static int newest_first(const void *a, const void *b)
{
    const struct wi_ckpt_version *x = a, *y = b;

    if (x->sequence != y->sequence)
        return x->sequence > y->sequence ? -1 : 1;
    return strcmp(x->tag, y->tag);
}

weft_status wi_ckpt_versions_list(struct wi_ckpt_versions *versions, const struct wi_ckpt_dir *folder)
{
    weft_status st;

    *versions = (struct wi_ckpt_versions){folder, NULL, 0, 0};
    st = wi_ckpt_dir_each(folder, add_version, versions);
    if (st < 0)
        wi_ckpt_versions_fini(versions);
    else if (versions->count > 0)
        qsort(versions->list, versions->count, sizeof(*versions->list), newest_first);
    return st;
}

void wi_ckpt_versions_fini(struct wi_ckpt_versions *versions)
{
    wi_free(versions->list);
    versions->list = NULL;
    versions->count = 0;
}

/* The newest version that can be opened, older than `than` (0: any) and of another tag than `but`. */
static weft_status open_newest_of(const struct wi_ckpt_dir *folder, uint64_t than, const char *but,
                                  struct wi_ckpt_reader **reader)
{
    weft_status st = WEFT_ENOTFOUND;
    struct wi_ckpt_versions versions;

    WI_TRY(wi_ckpt_versions_list(&versions, folder));
    for (size_t i = 0; i < versions.count && st < 0; i++) {
        if (!strcmp(versions.list[i].tag, but) || (than && versions.list[i].sequence >= than))
            continue;
        st = wi_ckpt_version_open(folder->path, versions.list[i].tag, 1, reader);
        if (st < 0 && !is_damage(st))
            break;
        st = st < 0 ? WEFT_ENOTFOUND : st;
    }
    wi_ckpt_versions_fini(&versions);
    return st;
}

weft_status wi_ckpt_before(const struct wi_ckpt_reader *reader, char tag[WI_CKPT_TAG_MAX + 1])
{
    struct wi_ckpt_reader *other;
    weft_status st = open_newest_of(&reader->folder, reader->manifest.sequence, reader->tag, &other);

    if (st == WEFT_ENOTFOUND)
        return wi_fail(st, "%s has no complete checkpoint that is older than \"%s\"", reader->folder.path, reader->tag);
    WI_TRY(st);
    wi_ckpt_text_copy(tag, WI_CKPT_TAG_MAX + 1, other->tag);
    wi_ckpt_close(other);
    return WEFT_SUCCESS;
}

/* ---- The newest ---- */

static weft_status read_latest(const struct wi_ckpt_dir *folder, char tag[128])
{
    char *text;
    size_t bytes;

    tag[0] = '\0';
    WI_TRY(wi_ckpt_file_load(folder, WI_CKPT_LATEST, 4096, &text, &bytes));
    text[strcspn(text, "\r\n")] = '\0';
    if (wi_ckpt_tag_check(text) < 0) {
        wi_free(text);
        return wi_fail(WEFT_ECONFIG, "%s/%s has no tag of a checkpoint", folder->path, WI_CKPT_LATEST);
    }
    wi_ckpt_text_copy(tag, 128, text);
    wi_free(text);
    return WEFT_SUCCESS;
}

static weft_status named_latest(const struct wi_ckpt_dir *folder, char tag[128])
{
    struct wi_ckpt_versions versions;
    weft_status st = read_latest(folder, tag);

    if (st != WEFT_ENOTFOUND)
        return st;
    /* The first save ended between its commit and this file. */
    WI_TRY(wi_ckpt_versions_list(&versions, folder));
    if (versions.count > 0)
        wi_ckpt_text_copy(tag, 128, versions.list[0].tag);
    st = versions.count > 0 ? WEFT_SUCCESS : wi_fail(WEFT_ENOTFOUND, "%s has no complete checkpoint", folder->path);
    wi_ckpt_versions_fini(&versions);
    return st;
}

static weft_status open_newest(const struct wi_ckpt_dir *folder, int fall_back, struct wi_ckpt_reader **reader)
{
    struct wi_ckpt_reader *other;
    char tag[128], why[700];
    weft_status st = named_latest(folder, tag), older;

    if (st >= 0)
        st = wi_ckpt_version_open(folder->path, tag, 1, reader);
    if (!is_damage(st))
        return st;
    wi_ckpt_text_copy(why, sizeof(why), wi_fail_text());
    older = open_newest_of(folder, 0, tag, &other);
    if (older >= 0 && fall_back) {
        wi_log(WEFT_LOG_WARN, "zero.ckpt.older", "%s: version \"%s\" is taken instead", why, other->tag);
        *reader = other;
        return WEFT_SUCCESS;
    }
    if (older < 0)
        return wi_fail(st, "the newest checkpoint cannot be used: %s; no other version is complete", why);
    st = wi_fail(st, "the newest checkpoint cannot be used: %s; version \"%s\" is complete", why, other->tag);
    wi_ckpt_close(other);
    return st;
}

static weft_status open_here(const char *folder, const char *tag, int fall_back, struct wi_ckpt_reader **reader)
{
    struct wi_ckpt_dir dir;
    weft_status st;

    if (tag)
        return wi_ckpt_version_open(folder, tag, 1, reader);
    WI_TRY(wi_ckpt_dir_open(&dir, folder));
    st = open_newest(&dir, fall_back, reader);
    wi_ckpt_dir_close(&dir);
    return st;
}

/* Rank 0 has looked at all files; the others need to see the same version. */
static weft_status open_together(struct wi_ckpt_group *group, const char *folder, const char *tag, int fall_back,
                                 struct wi_ckpt_reader **reader)
{
    struct wi_ckpt_word word = {0};
    weft_status st = group->rank == 0 ? open_here(folder, tag, fall_back, reader) : WEFT_SUCCESS;

    if (group->rank == 0 && st >= 0) {
        wi_ckpt_text_copy(word.tag, sizeof(word.tag), (*reader)->tag);
        wi_ckpt_text_copy(word.id, sizeof(word.id), (*reader)->manifest.id);
    }
    WI_TRY(wi_ckpt_tell(group, &word, st));
    if (group->rank != 0) {
        st = tag && strcmp(tag, word.tag)
                 ? wi_fail(WEFT_EMISMATCH, "rank 0 loads checkpoint \"%s\", this rank \"%s\"", word.tag, tag)
                 : wi_ckpt_version_open(folder, word.tag, 0, reader);
        if (st >= 0 && strcmp((*reader)->manifest.id, word.id))
            st = wi_fail(WEFT_EMISMATCH, "%s is another checkpoint than on rank 0: the folder is not the same",
                         (*reader)->dir.path);
    }
    return wi_ckpt_gather(group, &word, st);
}

weft_status wi_ckpt_open(const char *folder, const char *tag, int fall_back, weft_comm *comm,
                         struct wi_ckpt_reader **reader)
{
    struct wi_ckpt_reader *r = NULL;
    struct wi_ckpt_group group;
    weft_status st;

    if (!reader)
        return wi_fail(WEFT_EINVAL, "reader is NULL");
    WI_TRY(wi_ckpt_group_init(&group, comm));
    st = open_together(&group, folder, tag, fall_back, &r);
    wi_ckpt_group_fini(&group);
    if (st < 0)
        wi_ckpt_close(r);
    else
        *reader = r;
    return st;
}
