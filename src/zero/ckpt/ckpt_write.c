/* SPDX-License-Identifier: BSD-3-Clause */
/* What one rank writes: the chunks that changed, links to files that have the others, its index. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "zero/ckpt/ckpt_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/status.h"
#include "base/crc32c.h"

enum { CHUNK_ALIGN = 64, LINKS_MAX = 64, NO_FILE = UINT32_MAX };

/* Chunks that are as before but have to be written again get a file of their own: it stays in use as a whole while those of the
 * other one change, so that they are written again once, not in every version. The index lists the two first. */
enum { CHANGED, KEPT, NEW_FILES };
static const char *const file_names[NEW_FILES] = {"data", "kept"};

/* A file of the version before, as one of its ranks lists it. */
struct old_file {
    uint64_t used;   /* bytes of chunks that this rank could take */
    uint32_t number; /* in this rank's index; NO_FILE: its chunks are written again */
};

struct writing {
    struct wi_ckpt_run *run;
    uint32_t rank;
    const struct wi_ckpt_dir *temp;
    struct wi_ckpt_reader *parent; /* NULL: everything is written */
    size_t *first_file;            /* of each of the parent's ranks in `files` */
    struct old_file *files;
    struct wi_ckpt_chunk *old; /* of each chunk of this rank the same one in the parent; file: in `files`, or NO_FILE */
    struct wi_ckpt_writer writers[NEW_FILES];
};

static weft_status chunk_data(struct wi_ckpt_run *run, size_t chunk, const void **data)
{
    const struct wi_ckpt_source *source = &run->sources[chunk];

    *data = source->copy ? source->copy : source->data;
    if (*data || !source->fetch)
        return WEFT_SUCCESS;
    if (!run->scratch)
        run->scratch = wi_malloc(run->index.chunk_bytes);
    if (!run->scratch)
        return wi_fail(WEFT_ENOMEM, "out of memory for a chunk of a checkpoint, %zu bytes",
                       (size_t)run->index.chunk_bytes);
    *data = run->scratch;
    return source->fetch(source->arg, source->first, source->elems, run->scratch);
}

static weft_status chunk_digest(struct wi_ckpt_run *run, size_t chunk)
{
    const struct wi_ckpt_source *source = &run->sources[chunk];
    const void *data;

    WI_TRY(chunk_data(run, chunk, &data));
    run->index.chunks[chunk].crc = wi_crc32c(0, data, source->bytes);
    run->index.chunks[chunk].hash = wi_ckpt_hash(data, source->bytes);
    return WEFT_SUCCESS;
}

/* ---- What the version before has ---- */

/* The parent's chunk with exactly these elements of the tensor. */
static int old_chunk(const struct writing *w, const struct wi_ckpt_tensor *tensor, const struct wi_ckpt_entry *entry,
                     size_t begin, size_t end, struct wi_ckpt_chunk *old)
{
    const struct wi_ckpt_part *part = wi_ckpt_map_part(&w->parent->map, entry, begin);
    const struct wi_ckpt_index *index;
    const struct wi_ckpt_span *span;
    size_t elems = w->run->index.chunk_bytes / weft_dtype_bytes(tensor->dtype), number, old_begin, old_end;

    if (!part || part->end < end)
        return 0;
    index = &w->parent->indexes[part->rank];
    span = &index->spans[part->span];
    number = begin / elems - span->begin / elems;
    wi_ckpt_chunk_range(index, span, number, &old_begin, &old_end);
    if (old_begin != begin || old_end != end)
        return 0;
    *old = index->chunks[span->first_chunk + number];
    old->file += (uint32_t)w->first_file[part->rank];
    return 1;
}

static int same_tensor(const struct wi_ckpt_tensor *a, const struct wi_ckpt_tensor *b)
{
    return a->dtype == b->dtype && a->ndims == b->ndims && !memcmp(a->shape, b->shape, a->ndims * sizeof(*a->shape));
}

static weft_status compare_span(struct writing *w, const struct wi_ckpt_span *span)
{
    struct wi_ckpt_index *index = &w->run->index;
    const struct wi_ckpt_tensor *tensor = &index->tensors[span->tensor];
    const struct wi_ckpt_entry *entry = wi_ckpt_map_find(&w->parent->map, tensor->name, tensor->kind);
    size_t n = wi_ckpt_span_chunks(index->chunk_bytes, tensor->dtype, span->begin, span->end);

    for (size_t i = 0; i < n; i++) {
        size_t c = span->first_chunk + i, begin, end;
        struct wi_ckpt_chunk *old = &w->old[c];

        WI_TRY(chunk_digest(w->run, c));
        wi_ckpt_progress_add(w->run->options.progress, w->run->sources[c].bytes);
        wi_ckpt_chunk_range(index, span, i, &begin, &end);
        if (entry && same_tensor(entry->tensor, tensor) && old_chunk(w, tensor, entry, begin, end, old) &&
            !memcmp(&old->hash, &index->chunks[c].hash, sizeof(old->hash)) && old->crc == index->chunks[c].crc)
            w->files[old->file].used += w->run->sources[c].bytes;
        else
            old->file = NO_FILE;
    }
    return WEFT_SUCCESS;
}

/* Returns 1 if the file is in the new version, too. */
static int link_file(const struct writing *w, const struct wi_ckpt_file *file)
{
    const struct wi_ckpt_dir *from = &w->parent->dir;
    struct stat old, new;

    if (linkat(from->fd, file->name, w->temp->fd, file->name, 0) < 0 && errno != EEXIST) {
        wi_log(WEFT_LOG_INFO, "zero.ckpt.link", "%s/%s cannot be linked: %s; its chunks are written again", from->path,
               file->name, strerror(errno));
        return 0;
    }
    /* Another rank may have been first. */
    return fstatat(from->fd, file->name, &old, AT_SYMLINK_NOFOLLOW) == 0 &&
           fstatat(w->temp->fd, file->name, &new, AT_SYMLINK_NOFOLLOW) == 0 &&
           old.st_ino == new.st_ino &&S_ISREG(new.st_mode) && (uint64_t) new.st_size == file->bytes;
}

/* Link files of which at least half is still used. A file that several of the parent's ranks list is linked once for each. */
static void link_files(struct writing *w)
{
    struct wi_ckpt_index *index = &w->run->index;

    for (uint32_t r = 0; r < w->parent->manifest.nranks; r++)
        for (size_t i = 0; i < w->parent->indexes[r].nfiles; i++) {
            const struct wi_ckpt_file *file = &w->parent->indexes[r].files[i];
            struct old_file *old = &w->files[w->first_file[r] + i];

            old->number = NO_FILE;
            if (old->used == 0 || old->used < file->bytes / 2 || index->nfiles == LINKS_MAX || !link_file(w, file))
                continue;
            old->number = (uint32_t)index->nfiles;
            index->files[index->nfiles++] = *file;
        }
}

static weft_status parent_compare(struct writing *w)
{
    struct wi_ckpt_index *index = &w->run->index;
    size_t nfiles = 0;

    w->first_file = wi_calloc(w->parent->manifest.nranks, sizeof(*w->first_file));
    w->old = wi_calloc(index->nchunks + 1, sizeof(*w->old));
    if (!w->first_file || !w->old)
        return wi_fail(WEFT_ENOMEM, "out of memory to compare a checkpoint with the one before");
    for (uint32_t r = 0; r < w->parent->manifest.nranks; r++) {
        w->first_file[r] = nfiles;
        nfiles += w->parent->indexes[r].nfiles;
    }
    w->files = wi_calloc(nfiles + 1, sizeof(*w->files));
    if (!w->files)
        return wi_fail(WEFT_ENOMEM, "out of memory to compare a checkpoint with the one before");
    for (size_t s = 0; s < index->nspans; s++)
        WI_TRY(compare_span(w, &index->spans[s]));
    link_files(w);
    return WEFT_SUCCESS;
}

/* Without the version before, or if it cannot be read, everything is written. */
static weft_status parent_open(struct writing *w)
{
    weft_status st;

    if (!w->run->options.incremental || !w->run->parent[0])
        return WEFT_SUCCESS;
    st = wi_ckpt_version_open(w->run->folder, w->run->parent, 0, &w->parent);
    if (st == WEFT_ENOMEM || st == WEFT_ENOFILES)
        return st;
    if (st >= 0 && w->parent->manifest.chunk_bytes != w->run->index.chunk_bytes) {
        wi_ckpt_close(w->parent);
        w->parent = NULL;
    }
    if (!w->parent)
        return WEFT_SUCCESS;
    wi_ckpt_progress_phase(w->run->options.progress, WI_CKPT_COMPARING, w->run->result.bytes);
    return parent_compare(w);
}

/* ---- Writing ---- */

static weft_status chunk_write(struct writing *w, size_t c)
{
    struct wi_ckpt_index *index = &w->run->index;
    const struct wi_ckpt_source *source = &w->run->sources[c];
    struct wi_ckpt_chunk *chunk = &index->chunks[c];
    int unchanged = w->parent && w->old[c].file != NO_FILE, which = unchanged ? KEPT : CHANGED;
    struct wi_ckpt_writer *writer = &w->writers[which];

    if (unchanged && w->files[w->old[c].file].number != NO_FILE) {
        chunk->file = w->files[w->old[c].file].number;
        chunk->offset = w->old[c].offset;
        return WEFT_SUCCESS;
    }
    if (!writer->block) {
        struct wi_ckpt_file *file = &index->files[which];

        snprintf(file->name, sizeof(file->name), "%s-%s-%05u.bin", file_names[which], w->run->id, w->rank);
        WI_TRY(wi_ckpt_writer_create(writer, w->temp, file->name, w->run->options.direct));
    }
    if (!w->parent)
        WI_TRY(chunk_digest(w->run, c));
    WI_TRY(wi_ckpt_writer_align(writer, CHUNK_ALIGN));
    chunk->file = (uint32_t)which;
    chunk->offset = wi_ckpt_writer_at(writer);
    w->run->result.written_bytes += source->bytes;
    const void *data;

    WI_TRY(chunk_data(w->run, c, &data));
    return wi_ckpt_writer_add(writer, data, source->bytes);
}

/* Files into which nothing was written do not exist; those behind them move up. */
static void drop_file(struct wi_ckpt_index *index, size_t file)
{
    index->nfiles--;
    memmove(&index->files[file], &index->files[file + 1], (index->nfiles - file) * sizeof(*index->files));
    for (size_t c = 0; c < index->nchunks; c++)
        if (index->chunks[c].file > file)
            index->chunks[c].file--;
}

static weft_status data_write(struct writing *w)
{
    struct wi_ckpt_index *index = &w->run->index;

    wi_ckpt_progress_phase(w->run->options.progress, WI_CKPT_WRITING, w->run->result.bytes);
    for (size_t c = 0; c < index->nchunks; c++) {
        WI_TRY(chunk_write(w, c));
        wi_ckpt_progress_add(w->run->options.progress, w->run->sources[c].bytes);
    }
    for (int i = NEW_FILES - 1; i >= 0; i--) {
        if (!w->writers[i].block) {
            drop_file(index, (size_t)i);
            continue;
        }
        index->files[i].bytes = wi_ckpt_writer_at(&w->writers[i]);
        WI_TRY(wi_ckpt_writer_finish(&w->writers[i]));
    }
    return WEFT_SUCCESS;
}

static weft_status index_write(struct writing *w, struct wi_ckpt_digest *digest)
{
    unsigned char *data;
    char name[32];
    size_t bytes;
    weft_status st;

    snprintf(name, sizeof(name), "rank-%05u.index", w->rank);
    w->run->index.rank = w->rank;
    WI_TRY(wi_ckpt_index_encode(&w->run->index, &data, &bytes));
    digest->bytes = bytes;
    digest->hash = wi_ckpt_hash(data, bytes);
    st = wi_ckpt_file_store(w->temp, name, data, bytes);
    wi_free(data);
    return st;
}

weft_status wi_ckpt_write(struct wi_ckpt_run *run, uint32_t rank, const struct wi_ckpt_dir *temp,
                          struct wi_ckpt_digest *digest)
{
    struct writing w = {.run = run, .rank = rank, .temp = temp, .writers = {{.fd = -1}, {.fd = -1}}};
    weft_status st;

    run->index.nfiles = NEW_FILES;
    run->index.files = wi_calloc(LINKS_MAX, sizeof(*run->index.files));
    if (!run->index.files)
        return wi_fail(WEFT_ENOMEM, "out of memory for a checkpoint's files");
    st = parent_open(&w);
    st = st < 0 ? st : data_write(&w);
    st = st < 0 ? st : index_write(&w, digest);
    if (st >= 0 && rank == 0)
        st = wi_ckpt_file_store(temp, WI_CKPT_CLIENT, run->client, run->client_bytes);
    st = st < 0 ? st : wi_ckpt_dir_sync(temp);
    for (int i = 0; i < NEW_FILES; i++)
        wi_ckpt_writer_fini(&w.writers[i]);
    wi_ckpt_close(w.parent);
    wi_free(w.first_file);
    wi_free(w.files);
    wi_free(w.old);
    return st;
}
