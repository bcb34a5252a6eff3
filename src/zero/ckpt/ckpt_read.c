/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading tensors and what else a version has. */
#include "zero/ckpt/ckpt_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fds.h"
#include "base/status.h"
#include "base/crc32c.h"

enum { OPEN_MAX_FILES = 64 };

/* ---- Chunks ---- */

static void close_all(struct wi_ckpt_reader *r)
{
    for (uint32_t rank = 0; rank < r->manifest.nranks; rank++)
        for (size_t i = 0; i < r->indexes[rank].nfiles; i++)
            if (r->fds[rank][i] >= 0) {
                wi_fd_close(r->fds[rank][i]);
                r->fds[rank][i] = -1;
            }
    r->nopen = 0;
}

static weft_status file_of(struct wi_ckpt_reader *r, uint32_t rank, uint32_t file, int *fd)
{
    const struct wi_ckpt_file *f = &r->indexes[rank].files[file];
    uint64_t bytes;

    if (r->fds[rank][file] < 0) {
        if (r->nopen >= OPEN_MAX_FILES)
            close_all(r);
        WI_TRY(wi_ckpt_file_open(&r->dir, f->name, &r->fds[rank][file], &bytes));
        r->nopen++;
    }
    *fd = r->fds[rank][file];
    return WEFT_SUCCESS;
}

/* Read a chunk to `out`, verified. */
static weft_status chunk_read(struct wi_ckpt_reader *r, const struct wi_ckpt_part *part,
                              const struct wi_ckpt_chunk *chunk, size_t begin, size_t end, void *out)
{
    const struct wi_ckpt_index *index = &r->indexes[part->rank];
    const struct wi_ckpt_tensor *tensor = &index->tensors[index->spans[part->span].tensor];
    const size_t bytes = (end - begin) * weft_dtype_bytes(tensor->dtype);
    const char *name = index->files[chunk->file].name;
    int fd;

    WI_TRY(file_of(r, part->rank, chunk->file, &fd));
    WI_TRY(wi_ckpt_pread(fd, out, bytes, chunk->offset, &r->dir, name));
    if (wi_crc32c(0, out, bytes) != chunk->crc)
        return wi_fail(
            WEFT_ECONFIG, "%s/%s is damaged within %zu bytes from byte %llu: %s of \"%s\", elements %zu to %zu",
            r->dir.path, name, bytes, (unsigned long long)chunk->offset, tensor->kind, tensor->name, begin, end);
    return WEFT_SUCCESS;
}

/* Elements begin to end, which one part has. */
static weft_status part_read(struct wi_ckpt_reader *r, const struct wi_ckpt_part *part, size_t begin, size_t end,
                             unsigned char *out)
{
    const struct wi_ckpt_index *index = &r->indexes[part->rank];
    const struct wi_ckpt_span *span = &index->spans[part->span];
    const size_t elem_bytes = weft_dtype_bytes(index->tensors[span->tensor].dtype);
    const size_t elems = index->chunk_bytes / elem_bytes;

    for (size_t n = begin / elems - span->begin / elems, from = begin; from < end; n++) {
        size_t chunk_begin, chunk_end, to;

        wi_ckpt_chunk_range(index, span, n, &chunk_begin, &chunk_end);
        to = chunk_end < end ? chunk_end : end;
        if (out && from == chunk_begin && to == chunk_end) {
            WI_TRY(chunk_read(r, part, &index->chunks[span->first_chunk + n], chunk_begin, chunk_end, out));
        } else {
            WI_TRY(chunk_read(r, part, &index->chunks[span->first_chunk + n], chunk_begin, chunk_end, r->chunk));
            if (out)
                memcpy(out, r->chunk + (from - chunk_begin) * elem_bytes, (to - from) * elem_bytes);
        }
        wi_ckpt_progress_add(r->progress, (to - from) * elem_bytes);
        out = out ? out + (to - from) * elem_bytes : NULL;
        from = to;
    }
    return WEFT_SUCCESS;
}

weft_status wi_ckpt_range_read(struct wi_ckpt_reader *reader, const struct wi_ckpt_entry *entry, size_t begin,
                               size_t end, void *out)
{
    const size_t elem_bytes = weft_dtype_bytes(entry->tensor->dtype);
    unsigned char *to = out;

    while (begin < end) {
        const struct wi_ckpt_part *part = wi_ckpt_map_part(&reader->map, entry, begin);
        size_t stop;

        if (!part)
            return wi_fail(WEFT_EINTERNAL, "no part of a checkpoint has element %zu", begin);
        stop = part->end < end ? part->end : end;
        WI_TRY(part_read(reader, part, begin, stop, to));
        to = to ? to + (stop - begin) * elem_bytes : NULL;
        begin = stop;
    }
    return WEFT_SUCCESS;
}

/* ---- Pieces ---- */

static void shape_text(const size_t *shape, uint32_t ndims, char *text, size_t capacity)
{
    size_t used = (size_t)snprintf(text, capacity, "[");

    for (uint32_t d = 0; d < ndims && used < capacity; d++)
        used += (size_t)snprintf(text + used, capacity - used, "%s%zu", d ? ", " : "", shape[d]);
    if (used < capacity)
        snprintf(text + used, capacity - used, "]");
}

static weft_status same(const struct wi_ckpt_reader *r, const struct wi_ckpt_piece *piece,
                        const struct wi_ckpt_entry **entry)
{
    const struct wi_ckpt_tensor *t;
    char saved[160], wanted[160];

    if (!piece->name || !piece->kind || piece->ndims < 0 || (piece->ndims > 0 && !piece->shape))
        return wi_fail(WEFT_EINVAL, "a piece of a checkpoint has no name, kind or shape");
    *entry = wi_ckpt_map_find(&r->map, piece->name, piece->kind);
    if (!*entry)
        return wi_fail(WEFT_EINVAL, "checkpoint \"%s\" is of another model or optimizer: it has no %s of \"%s\"",
                       r->tag, piece->kind, piece->name);
    t = (*entry)->tensor;
    if (t->dtype != piece->dtype)
        return wi_fail(WEFT_EINVAL, "checkpoint \"%s\" is of another model: %s of \"%s\" is %s there, %s here", r->tag,
                       piece->kind, piece->name, weft_dtype_name(t->dtype), weft_dtype_name(piece->dtype));
    if (t->ndims == (uint32_t)piece->ndims &&
        (t->ndims == 0 || !memcmp(t->shape, piece->shape, t->ndims * sizeof(*t->shape))))
        return WEFT_SUCCESS;
    shape_text(t->shape, t->ndims, saved, sizeof(saved));
    shape_text(piece->shape, (uint32_t)piece->ndims, wanted, sizeof(wanted));
    return wi_fail(WEFT_EINVAL, "checkpoint \"%s\" is of another model: %s of \"%s\" has shape %s there, %s here",
                   r->tag, piece->kind, piece->name, saved, wanted);
}

static int by_tensor(const void *a, const void *b)
{
    const struct wi_ckpt_piece *const *x = a, *const *y = b;

    return wi_ckpt_tensor_order((*x)->name, (*x)->kind, (*y)->name, (*y)->kind);
}

/* What the checkpoint has and the model has not. All of the model's are in the checkpoint. */
static weft_status extra(const struct wi_ckpt_reader *r, const struct wi_ckpt_piece **sorted, size_t ntensors)
{
    size_t at = 0;

    for (size_t i = 0; i < r->map.nentries; i++) {
        const struct wi_ckpt_tensor *t = r->map.entries[i].tensor;

        if (at == ntensors || wi_ckpt_tensor_order(t->name, t->kind, sorted[at]->name, sorted[at]->kind))
            return wi_fail(
                WEFT_EINVAL,
                "checkpoint \"%s\" is of another model or optimizer: it has %s of \"%s\", which this one has not",
                r->tag, t->kind, t->name);
        while (at < ntensors && !wi_ckpt_tensor_order(t->name, t->kind, sorted[at]->name, sorted[at]->kind))
            at++;
    }
    return WEFT_SUCCESS;
}

size_t wi_ckpt_ntensors(const struct wi_ckpt_reader *reader)
{
    return reader->map.nentries;
}

weft_status wi_ckpt_compare(const struct wi_ckpt_reader *reader, const struct wi_ckpt_piece *model, size_t ntensors,
                            int some)
{
    const struct wi_ckpt_piece **sorted;
    const struct wi_ckpt_entry *entry;
    weft_status st;

    for (size_t i = 0; i < ntensors; i++)
        WI_TRY(same(reader, &model[i], &entry));
    if (some)
        return WEFT_SUCCESS;
    sorted = wi_malloc((ntensors + 1) * sizeof(*sorted));
    if (!sorted)
        return wi_fail(WEFT_ENOMEM, "out of memory to compare a model with a checkpoint");
    for (size_t i = 0; i < ntensors; i++)
        sorted[i] = &model[i];
    qsort(sorted, ntensors, sizeof(*sorted), by_tensor);
    st = extra(reader, sorted, ntensors);
    wi_free(sorted);
    return st;
}

static weft_status piece_read(struct wi_ckpt_reader *r, const struct wi_ckpt_piece *piece, int store)
{
    const struct wi_ckpt_entry *entry;

    WI_TRY(same(r, piece, &entry));
    if (piece->begin > piece->end || piece->end > entry->tensor->elems ||
        (store && piece->begin < piece->end && !piece->data))
        return wi_fail(WEFT_EINVAL, "%s of \"%s\": elements %zu to %zu of %zu are no piece", piece->kind, piece->name,
                       piece->begin, piece->end, entry->tensor->elems);
    return wi_ckpt_range_read(r, entry, piece->begin, piece->end, store ? piece->data : NULL);
}

static weft_status pieces_read(struct wi_ckpt_reader *r, const struct wi_ckpt_piece *pieces, size_t npieces, int store)
{
    weft_status st = WEFT_SUCCESS;
    char why[700], tag[128];

    for (size_t i = 0; i < npieces && st >= 0; i++)
        st = piece_read(r, &pieces[i], store);
    if (st != WEFT_ECONFIG && st != WEFT_ENOTFOUND && st != WEFT_ESYS)
        return st;
    wi_ckpt_text_copy(why, sizeof(why), wi_fail_text());
    if (wi_ckpt_before(r, tag) < 0)
        return wi_fail(st, "%s; there is no complete version that is older", why);
    return wi_fail(st, "%s; the complete version before it is \"%s\"", why, tag);
}

weft_status wi_ckpt_read(struct wi_ckpt_reader *reader, const struct wi_ckpt_piece *pieces, size_t npieces)
{
    return pieces_read(reader, pieces, npieces, 1);
}

weft_status wi_ckpt_check(struct wi_ckpt_reader *reader, const struct wi_ckpt_piece *pieces, size_t npieces)
{
    return pieces_read(reader, pieces, npieces, 0);
}

/* ---- The rest ---- */

void wi_ckpt_report(struct wi_ckpt_reader *reader, struct wi_ckpt_progress *progress)
{
    reader->progress = progress;
}

const char *wi_ckpt_tag(const struct wi_ckpt_reader *reader)
{
    return reader->tag;
}

int wi_ckpt_nranks(const struct wi_ckpt_reader *reader)
{
    return (int)reader->manifest.nranks;
}

static weft_status no_scalar(const struct wi_ckpt_reader *reader, const char *name, const char *type)
{
    return wi_fail(WEFT_ENOTFOUND, "checkpoint \"%s\" has no %s \"%s\"", reader->tag, type, name);
}

weft_status wi_ckpt_integer(const struct wi_ckpt_reader *reader, const char *name, int64_t *value)
{
    const json_t *json = json_object_get(reader->manifest.scalars, name);

    if (!json_is_integer(json))
        return no_scalar(reader, name, "integer");
    *value = json_integer_value(json);
    return WEFT_SUCCESS;
}

weft_status wi_ckpt_real(const struct wi_ckpt_reader *reader, const char *name, double *value)
{
    const char *bits = json_string_value(json_object_get(json_object_get(reader->manifest.scalars, name), "bits"));
    uint64_t word;

    if (!bits || !wi_ckpt_is_hex(bits, 16))
        return no_scalar(reader, name, "real number");
    word = strtoull(bits, NULL, 16);
    memcpy(value, &word, sizeof(word));
    return WEFT_SUCCESS;
}

weft_status wi_ckpt_text(const struct wi_ckpt_reader *reader, const char *name, const char **value)
{
    const json_t *json = json_object_get(reader->manifest.scalars, name);

    if (!json_is_string(json))
        return no_scalar(reader, name, "text");
    *value = json_string_value(json);
    return WEFT_SUCCESS;
}

weft_status wi_ckpt_client(struct wi_ckpt_reader *reader, void **data, size_t *bytes)
{
    const struct wi_ckpt_digest *digest = &reader->manifest.client;
    struct wi_ckpt_hash hash;
    char *got;
    size_t n;

    WI_TRY(wi_ckpt_file_load(&reader->dir, WI_CKPT_CLIENT, (size_t)digest->bytes, &got, &n));
    hash = wi_ckpt_hash(got, n);
    if (n != digest->bytes || memcmp(&hash, &digest->hash, sizeof(hash))) {
        wi_free(got);
        return wi_fail(WEFT_ECONFIG, "%s/%s is damaged or truncated", reader->dir.path, WI_CKPT_CLIENT);
    }
    *data = got;
    *bytes = n;
    return WEFT_SUCCESS;
}
