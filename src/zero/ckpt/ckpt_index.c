/* SPDX-License-Identifier: BSD-3-Clause */
/* The index of a rank as bytes. Little endian; the manifest has its size and hash.
 *
 *     "WEFTCKI1", then 8 bytes each: rank, chunk_bytes, ntensors, nfiles, nspans, nchunks
 *     tensors   4 bytes each: bytes of the name, of the kind, dtype, ndims; 8 each: the shape; name, kind
 *     files     4 bytes: of the name; 8: size; name
 *     spans     8 bytes each: tensor, begin, end
 *     chunks    4 bytes each: file, CRC32C; 8 each: offset, two of hash */
#include "zero/ckpt/ckpt_format.h"

#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/status.h"

static const char magic[8] = {'W', 'E', 'F', 'T', 'C', 'K', 'I', '1'};
enum {
    HEADER_BYTES = 56,
    TENSOR_BYTES = 16,
    FILE_BYTES = 12,
    SPAN_BYTES = 24,
    CHUNK_BYTES = 32,
    NAME_MAX_BYTES = 65536
};

void wi_ckpt_index_fini(struct wi_ckpt_index *index)
{
    for (size_t i = 0; index->tensors && i < index->ntensors; i++) {
        wi_free(index->tensors[i].name);
        wi_free(index->tensors[i].kind);
        wi_free(index->tensors[i].shape);
    }
    wi_free(index->tensors);
    wi_free(index->files);
    wi_free(index->spans);
    wi_free(index->chunks);
    memset(index, 0, sizeof(*index));
}

size_t wi_ckpt_span_chunks(size_t chunk_bytes, weft_dtype dtype, size_t begin, size_t end)
{
    size_t elems = chunk_bytes / weft_dtype_bytes(dtype);

    return begin < end ? (end - 1) / elems - begin / elems + 1 : 0;
}

void wi_ckpt_chunk_range(const struct wi_ckpt_index *index, const struct wi_ckpt_span *span, size_t number,
                         size_t *begin, size_t *end)
{
    size_t elems = index->chunk_bytes / weft_dtype_bytes(index->tensors[span->tensor].dtype);
    size_t from = (span->begin / elems + number) * elems;

    *begin = from < span->begin ? span->begin : from;
    *end = span->end - from < elems ? span->end : from + elems;
}

/* ---- To bytes ---- */

static size_t encoded_bytes(const struct wi_ckpt_index *index)
{
    size_t bytes = HEADER_BYTES + index->nspans * SPAN_BYTES + index->nchunks * CHUNK_BYTES;

    for (size_t i = 0; i < index->ntensors; i++)
        bytes += TENSOR_BYTES + 8 * index->tensors[i].ndims + strlen(index->tensors[i].name) +
                 strlen(index->tensors[i].kind);
    for (size_t i = 0; i < index->nfiles; i++)
        bytes += FILE_BYTES + strlen(index->files[i].name);
    return bytes;
}

static unsigned char *put32(unsigned char *out, uint32_t value)
{
    wi_put32(out, value);
    return out + 4;
}

static unsigned char *put64(unsigned char *out, uint64_t value)
{
    wi_put64(out, value);
    return out + 8;
}

static unsigned char *put_text(unsigned char *out, const char *text)
{
    size_t bytes = strlen(text);

    memcpy(out, text, bytes);
    return out + bytes;
}

static unsigned char *put_tables(unsigned char *out, const struct wi_ckpt_index *index)
{
    for (size_t i = 0; i < index->ntensors; i++) {
        const struct wi_ckpt_tensor *t = &index->tensors[i];

        out = put32(put32(out, (uint32_t)strlen(t->name)), (uint32_t)strlen(t->kind));
        out = put32(put32(out, (uint32_t)t->dtype), t->ndims);
        for (uint32_t d = 0; d < t->ndims; d++)
            out = put64(out, t->shape[d]);
        out = put_text(put_text(out, t->name), t->kind);
    }
    for (size_t i = 0; i < index->nfiles; i++) {
        out = put64(put32(out, (uint32_t)strlen(index->files[i].name)), index->files[i].bytes);
        out = put_text(out, index->files[i].name);
    }
    return out;
}

weft_status wi_ckpt_index_encode(const struct wi_ckpt_index *index, unsigned char **data, size_t *bytes)
{
    size_t total = encoded_bytes(index);
    unsigned char *out;

    if (total > WI_CKPT_INDEX_MAX)
        return wi_fail(WEFT_EINVAL, "the index of a checkpoint would have %zu bytes; at most %zu are possible", total,
                       WI_CKPT_INDEX_MAX);
    out = wi_malloc(total);
    if (!out)
        return wi_fail(WEFT_ENOMEM, "out of memory for a checkpoint's index of %zu bytes", total);
    *data = out;
    *bytes = total;
    memcpy(out, magic, sizeof(magic));
    out = put64(put64(put64(out + 8, index->rank), index->chunk_bytes), index->ntensors);
    out = put64(put64(put64(out, index->nfiles), index->nspans), index->nchunks);
    out = put_tables(out, index);
    for (size_t i = 0; i < index->nspans; i++)
        out = put64(put64(put64(out, index->spans[i].tensor), index->spans[i].begin), index->spans[i].end);
    for (size_t i = 0; i < index->nchunks; i++) {
        const struct wi_ckpt_chunk *c = &index->chunks[i];

        out = put64(put32(put32(out, c->file), c->crc), c->offset);
        out = put64(put64(out, c->hash.half[0]), c->hash.half[1]);
    }
    return WEFT_SUCCESS;
}

/* ---- From bytes. The hash does not protect from whoever writes files on purpose: every number is checked. ---- */

struct cursor {
    const unsigned char *next, *end;
    const char *where;
};

static weft_status malformed(const struct cursor *c, const char *what)
{
    return wi_fail(WEFT_ECONFIG, "%s is malformed: %s", c->where, what);
}

static int left(const struct cursor *c, size_t bytes)
{
    return (size_t)(c->end - c->next) >= bytes;
}

static uint32_t take32(struct cursor *c)
{
    c->next += 4;
    return wi_get32(c->next - 4);
}

static uint64_t take64(struct cursor *c)
{
    c->next += 8;
    return wi_get64(c->next - 8);
}

static weft_status take_text(struct cursor *c, size_t bytes, char **text)
{
    if (bytes == 0 || bytes > NAME_MAX_BYTES || !left(c, bytes) || memchr(c->next, 0, bytes))
        return malformed(c, "a name");
    *text = wi_malloc(bytes + 1);
    if (!*text)
        return wi_fail(WEFT_ENOMEM, "out of memory for names of a checkpoint");
    memcpy(*text, c->next, bytes);
    (*text)[bytes] = '\0';
    c->next += bytes;
    return wi_ckpt_is_printable(*text) ? WEFT_SUCCESS : malformed(c, "a name has control characters");
}

static weft_status take_tensor(struct cursor *c, struct wi_ckpt_tensor *tensor)
{
    uint32_t name_bytes, kind_bytes, dtype;

    if (!left(c, TENSOR_BYTES))
        return malformed(c, "it ends within its tensors");
    name_bytes = take32(c);
    kind_bytes = take32(c);
    dtype = take32(c);
    tensor->ndims = take32(c);
    if (weft_dtype_bytes((weft_dtype)dtype) == 0 || tensor->ndims > WI_CKPT_DIMS_MAX ||
        !left(c, 8 * (size_t)tensor->ndims))
        return malformed(c, "a tensor's type or shape");
    tensor->dtype = (weft_dtype)dtype;
    tensor->shape = wi_calloc(tensor->ndims + 1, sizeof(*tensor->shape));
    if (!tensor->shape)
        return wi_fail(WEFT_ENOMEM, "out of memory for shapes of a checkpoint");
    for (uint32_t d = 0; d < tensor->ndims; d++)
        tensor->shape[d] = take64(c);
    WI_TRY(take_text(c, name_bytes, &tensor->name));
    WI_TRY(take_text(c, kind_bytes, &tensor->kind));
    if (wi_ckpt_elems(tensor->dtype, tensor->shape, tensor->ndims, &tensor->elems) < 0)
        return malformed(c, "a tensor's shape");
    return wi_ckpt_kind_check(tensor->kind) < 0 ? malformed(c, "a tensor's kind") : WEFT_SUCCESS;
}

static weft_status take_file(struct cursor *c, struct wi_ckpt_file *file)
{
    uint32_t name_bytes;

    if (!left(c, FILE_BYTES))
        return malformed(c, "it ends within its files");
    name_bytes = take32(c);
    file->bytes = take64(c);
    if (name_bytes == 0 || name_bytes >= sizeof(file->name) || !left(c, name_bytes))
        return malformed(c, "a file's name");
    memcpy(file->name, c->next, name_bytes);
    c->next += name_bytes;
    if (strlen(file->name) != name_bytes || !wi_ckpt_is_data_name(file->name))
        return malformed(c, "a file's name is not one that a save gives to data");
    return file->bytes > INT64_MAX ? malformed(c, "a file's size") : WEFT_SUCCESS;
}

static weft_status take_span(struct cursor *c, struct wi_ckpt_index *index, size_t number, size_t *chunks)
{
    struct wi_ckpt_span *span = &index->spans[number];
    uint64_t tensor = take64(c);

    span->begin = take64(c);
    span->end = take64(c);
    if (tensor >= index->ntensors || span->begin > span->end || span->end > index->tensors[tensor].elems)
        return malformed(c, "an interval");
    span->tensor = (uint32_t)tensor;
    span->first_chunk = *chunks;
    *chunks += wi_ckpt_span_chunks(index->chunk_bytes, index->tensors[tensor].dtype, span->begin, span->end);
    return *chunks > index->nchunks ? malformed(c, "there are not as many chunks as its intervals need") : WEFT_SUCCESS;
}

static weft_status take_chunks(struct cursor *c, struct wi_ckpt_index *index)
{
    for (size_t s = 0; s < index->nspans; s++) {
        const struct wi_ckpt_span *span = &index->spans[s];
        weft_dtype dtype = index->tensors[span->tensor].dtype;
        size_t n = wi_ckpt_span_chunks(index->chunk_bytes, dtype, span->begin, span->end);

        for (size_t i = 0; i < n; i++) {
            struct wi_ckpt_chunk *chunk = &index->chunks[span->first_chunk + i];
            size_t begin, end, bytes;

            chunk->file = take32(c);
            chunk->crc = take32(c);
            chunk->offset = take64(c);
            chunk->hash.half[0] = take64(c);
            chunk->hash.half[1] = take64(c);
            wi_ckpt_chunk_range(index, span, i, &begin, &end);
            bytes = (end - begin) * weft_dtype_bytes(dtype);
            if (chunk->file >= index->nfiles || bytes > index->files[chunk->file].bytes ||
                chunk->offset > index->files[chunk->file].bytes - bytes)
                return malformed(c, "a chunk's place is outside its file");
        }
    }
    return WEFT_SUCCESS;
}

/* Counts are bounded by the bytes that are there before memory is allocated for them. */
static weft_status take_header(struct cursor *c, struct wi_ckpt_index *index)
{
    uint64_t rank, rest = (uint64_t)(c->end - c->next);

    if (!left(c, HEADER_BYTES) || memcmp(c->next, magic, sizeof(magic)))
        return malformed(c, "it does not begin as an index of a checkpoint");
    c->next += 8;
    rank = take64(c);
    index->chunk_bytes = take64(c);
    index->ntensors = take64(c);
    index->nfiles = take64(c);
    index->nspans = take64(c);
    index->nchunks = take64(c);
    if (rank > INT32_MAX || index->chunk_bytes < 64 || index->chunk_bytes % 16 || index->chunk_bytes > UINT32_MAX ||
        index->ntensors > rest / TENSOR_BYTES || index->nfiles > rest / FILE_BYTES ||
        index->nspans > rest / SPAN_BYTES || index->nchunks > rest / CHUNK_BYTES) {
        index->ntensors = 0; /* what is there to be freed */
        return malformed(c, "its numbers of things");
    }
    index->rank = (uint32_t)rank;
    return WEFT_SUCCESS;
}

static weft_status take_all(struct cursor *c, struct wi_ckpt_index *index)
{
    size_t chunks = 0;

    WI_TRY(take_header(c, index));
    index->tensors = wi_calloc(index->ntensors + 1, sizeof(*index->tensors));
    index->files = wi_calloc(index->nfiles + 1, sizeof(*index->files));
    index->spans = wi_calloc(index->nspans + 1, sizeof(*index->spans));
    index->chunks = wi_calloc(index->nchunks + 1, sizeof(*index->chunks));
    if (!index->tensors || !index->files || !index->spans || !index->chunks)
        return wi_fail(WEFT_ENOMEM, "out of memory for a checkpoint's index");
    for (size_t i = 0; i < index->ntensors; i++)
        WI_TRY(take_tensor(c, &index->tensors[i]));
    for (size_t i = 0; i < index->nfiles; i++)
        WI_TRY(take_file(c, &index->files[i]));
    if (!left(c, index->nspans * SPAN_BYTES + index->nchunks * CHUNK_BYTES))
        return malformed(c, "it ends within its intervals");
    for (size_t i = 0; i < index->nspans; i++)
        WI_TRY(take_span(c, index, i, &chunks));
    if (chunks != index->nchunks)
        return malformed(c, "there are more chunks than its intervals need");
    WI_TRY(take_chunks(c, index));
    return c->next == c->end ? WEFT_SUCCESS : malformed(c, "there are bytes behind its end");
}

weft_status wi_ckpt_index_decode(struct wi_ckpt_index *index, const unsigned char *data, size_t bytes,
                                 const char *where)
{
    struct cursor c = {data, data + bytes, where};
    weft_status st;

    memset(index, 0, sizeof(*index));
    st = take_all(&c, index);
    if (st < 0)
        wi_ckpt_index_fini(index);
    return st;
}
