/* SPDX-License-Identifier: BSD-3-Clause */
/* What checkpoints consist of, in memory: the indexes of ranks, the map of tensors that they make together, the manifest. */
#ifndef WI_CKPT_FORMAT_H
#define WI_CKPT_FORMAT_H

#include <jansson.h>
#include <weft/weft.h>

#define WI_CKPT_VERSION 1
#define WI_CKPT_ID_HEX 32
#define WI_CKPT_MANIFEST "manifest.json"
#define WI_CKPT_LATEST "latest"
#define WI_CKPT_CLIENT "client.bin"
#define WI_CKPT_TEMP ".weft-tmp-" /* and an id */
#define WI_CKPT_DIMS_MAX 64
#define WI_CKPT_EXPORT ".weft-export-" /* and an id: no save takes it for its own */
/* Bytes that are saved, and loaded, at most. */
#define WI_CKPT_MANIFEST_MAX ((size_t)256 << 20)
#define WI_CKPT_INDEX_MAX ((size_t)1 << 30)
#define WI_CKPT_CLIENT_MAX ((size_t)1 << 30)
#define WI_CKPT_SEQUENCE_MAX ((uint64_t)1 << 62) /* so that the next one is a number, too */
#define WI_CKPT_TEXT_ROOM 200 /* for names behind the path of a folder */

/* As much of it as has room, with a NUL. */
static inline void wi_ckpt_text_copy(char *out, size_t capacity, const char *text)
{
    while (--capacity > 0 && *text)
        *out++ = *text++;
    *out = '\0';
}

struct wi_ckpt_hash {
    uint64_t half[2];
};
struct wi_ckpt_hash wi_ckpt_hash(const void *data, size_t bytes);

struct wi_ckpt_tensor {
    char *name, *kind;
    weft_dtype dtype;
    uint32_t ndims;
    size_t *shape;
    size_t elems;
};
/* The product of extents; -1: it overflows as elements or as bytes. */
int wi_ckpt_elems(weft_dtype dtype, const size_t *shape, uint32_t ndims, size_t *elems);
/* By name, then kind. */
int wi_ckpt_tensor_order(const char *name, const char *kind, const char *other_name, const char *other_kind);

struct wi_ckpt_file {
    char name[64];
    uint64_t bytes;
};

/* Bounded by multiples of the chunk's elements in the tensor, so that they stay the same when only intervals of ranks change. */
struct wi_ckpt_chunk {
    uint32_t file, crc;
    uint64_t offset;
    struct wi_ckpt_hash hash;
};

/* An interval that one rank saved. */
struct wi_ckpt_span {
    uint32_t tensor;
    size_t begin, end; /* elements */
    size_t first_chunk;
};

/* What one rank saved. */
struct wi_ckpt_index {
    uint32_t rank;
    size_t chunk_bytes;
    size_t ntensors, nfiles, nspans, nchunks;
    struct wi_ckpt_tensor *tensors;
    struct wi_ckpt_file *files;
    struct wi_ckpt_span *spans;
    struct wi_ckpt_chunk *chunks;
};

void wi_ckpt_index_fini(struct wi_ckpt_index *index);
/* Number `number` of a span's chunks: the elements that it has. */
void wi_ckpt_chunk_range(const struct wi_ckpt_index *index, const struct wi_ckpt_span *span, size_t number, size_t *begin,
                         size_t *end);
size_t wi_ckpt_span_chunks(size_t chunk_bytes, weft_dtype dtype, size_t begin, size_t end);
weft_status wi_ckpt_index_encode(const struct wi_ckpt_index *index, unsigned char **data, size_t *bytes);
/* `where` begins the text of a failure, which is WEFT_ECONFIG for malformed bytes. */
weft_status wi_ckpt_index_decode(struct wi_ckpt_index *index, const unsigned char *data, size_t bytes, const char *where);

/* A span in its place in the whole tensor. */
struct wi_ckpt_part {
    size_t begin, end;
    uint32_t rank;
    size_t span;
};
struct wi_ckpt_entry {
    const struct wi_ckpt_tensor *tensor; /* of one of the indexes */
    size_t first_part, nparts;           /* in order, without gaps */
};
struct wi_ckpt_map {
    size_t nentries;
    struct wi_ckpt_entry *entries; /* by name and kind */
    struct wi_ckpt_part *parts;
};
/* WEFT_EINVAL: ranks differ about a tensor, or do not cover it exactly; the text names it and the ranks. */
weft_status wi_ckpt_map_make(struct wi_ckpt_map *map, const struct wi_ckpt_index *indexes, size_t nranks);
void wi_ckpt_map_fini(struct wi_ckpt_map *map);
const struct wi_ckpt_entry *wi_ckpt_map_find(const struct wi_ckpt_map *map, const char *name, const char *kind);
/* The part that has an element. */
const struct wi_ckpt_part *wi_ckpt_map_part(const struct wi_ckpt_map *map, const struct wi_ckpt_entry *entry, size_t elem);

struct wi_ckpt_digest {
    uint64_t bytes;
    struct wi_ckpt_hash hash;
};
struct wi_ckpt_manifest {
    char tag[128], parent[128]; /* parent "": none */
    char id[WI_CKPT_ID_HEX + 1];
    uint64_t sequence; /* larger than those of all versions before */
    uint32_t nranks;
    size_t chunk_bytes;
    struct wi_ckpt_digest *indexes; /* of nranks */
    struct wi_ckpt_digest client;
    json_t *scalars, *tensors;
};
void wi_ckpt_manifest_fini(struct wi_ckpt_manifest *manifest);
/* The caller frees the text with wi_free. */
weft_status wi_ckpt_manifest_encode(const struct wi_ckpt_manifest *manifest, char **text, size_t *bytes);
weft_status wi_ckpt_manifest_decode(struct wi_ckpt_manifest *manifest, const char *text, size_t bytes, const char *where);
/* A JSON as text with a NUL; NULL: out of memory. Freed with wi_free, since the program may have set jansson's allocator. */
char *wi_ckpt_json_text(const json_t *json, size_t flags);
json_t *wi_ckpt_tensors_json(const struct wi_ckpt_map *map); /* NULL: out of memory, or a name is no UTF-8 */

/* WEFT_EINVAL: empty, too long, or something that could leave the folder or be taken for a file of ours. */
weft_status wi_ckpt_tag_check(const char *tag);
weft_status wi_ckpt_kind_check(const char *kind);
int wi_ckpt_is_printable(const char *name); /* without control characters, which could forge a line of a log */
int wi_ckpt_is_hex(const char *text, size_t digits);
/* The names of files of a version: no others are read, linked or deleted. */
int wi_ckpt_is_data_name(const char *name);
int wi_ckpt_is_file_name(const char *name); /* of a file with data, too */

#endif
