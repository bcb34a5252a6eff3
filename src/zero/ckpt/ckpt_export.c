/* SPDX-License-Identifier: BSD-3-Clause */
/* Whole tensors as safetensors (https://huggingface.co/docs/safetensors, format): 8 bytes with the header's length, the header as
 * JSON, the tensors without gaps. Larger elements come first, so that every tensor is aligned. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "zero/ckpt/ckpt_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "base/status.h"

struct item {
    const struct wi_ckpt_entry *entry;
    char *name;
    uint64_t bytes;
    size_t shard;
};

struct export
{
    struct wi_ckpt_reader *reader;
    const char *const *kinds;
    size_t nkinds;
    uint64_t shard_bytes;
    struct wi_ckpt_dir parent, temp; /* of the new folder */
    char name[256], temp_name[sizeof(WI_CKPT_EXPORT) + WI_CKPT_ID_HEX];
    int made;
    struct item *items;
    size_t nitems, nshards;
    unsigned char *chunk;
};

static const char *dtype_text(weft_dtype dtype)
{
    static const char *const texts[WEFT_NUM_DTYPES] = {
        [WEFT_INT8] = "I8",
        [WEFT_UINT8] = "U8",
        [WEFT_INT16] = "I16",
        [WEFT_UINT16] = "U16",
        [WEFT_INT32] = "I32",
        [WEFT_UINT32] = "U32",
        [WEFT_INT64] = "I64",
        [WEFT_UINT64] = "U64",
        [WEFT_FLOAT16] = "F16",
        [WEFT_BFLOAT16] = "BF16",
        [WEFT_FLOAT32] = "F32",
        [WEFT_FLOAT64] = "F64",
        [WEFT_FLOAT8E4M3] = "F8_E4M3",
        [WEFT_FLOAT8E5M2] = "F8_E5M2",
        [WEFT_BOOL] = "BOOL",
        [WEFT_COMPLEX64] = "C64",
    };

    return texts[dtype];
}

/* ---- Which tensors, in which files ---- */

static int is_chosen(const struct export *e, const char *kind)
{
    for (size_t i = 0; i < e->nkinds; i++)
        if (!strcmp(kind, e->kinds[i]))
            return 1;
    return 0;
}

static weft_status item_make(struct export *e, const struct wi_ckpt_entry *entry)
{
    const struct wi_ckpt_tensor *t = entry->tensor;
    struct item *item = &e->items[e->nitems];
    size_t room = strlen(t->name) + strlen(t->kind) + 2;

    if (!dtype_text(t->dtype))
        return wi_fail(WEFT_ENOTSUP, "%s of \"%s\" is %s, which safetensors do not have", t->kind, t->name,
                       weft_dtype_name(t->dtype));
    item->name = wi_malloc(room);
    if (!item->name)
        return wi_fail(WEFT_ENOMEM, "out of memory for names of an export");
    snprintf(item->name, room, "%s%s%s", t->name, strcmp(t->kind, "weight") ? "." : "",
             strcmp(t->kind, "weight") ? t->kind : "");
    item->entry = entry;
    item->bytes = t->elems * weft_dtype_bytes(t->dtype);
    e->nitems++;
    return WEFT_SUCCESS;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct item *)a)->name, ((const struct item *)b)->name);
}

static int by_alignment(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    size_t x_bytes = weft_dtype_bytes(x->entry->tensor->dtype), y_bytes = weft_dtype_bytes(y->entry->tensor->dtype);

    return x_bytes != y_bytes ? (x_bytes > y_bytes ? -1 : 1) : by_name(a, b);
}

static weft_status items_make(struct export *e)
{
    const struct wi_ckpt_map *map = &e->reader->map;
    uint64_t filled = 0;

    e->items = wi_calloc(map->nentries + 1, sizeof(*e->items));
    if (!e->items)
        return wi_fail(WEFT_ENOMEM, "out of memory for the tensors of an export");
    for (size_t i = 0; i < map->nentries; i++)
        if (is_chosen(e, map->entries[i].tensor->kind))
            WI_TRY(item_make(e, &map->entries[i]));
    if (e->nitems == 0)
        return wi_fail(WEFT_ENOTFOUND, "checkpoint \"%s\" has no tensor of the kinds that are to be exported",
                       e->reader->tag);
    qsort(e->items, e->nitems, sizeof(*e->items), by_name);
    for (size_t i = 0; i < e->nitems; i++)
        if (!strcmp(e->items[i].name, "__metadata__") || (i > 0 && !strcmp(e->items[i].name, e->items[i - 1].name)))
            return wi_fail(WEFT_EINVAL, "two tensors would be exported as \"%s\", or it is reserved", e->items[i].name);
    qsort(e->items, e->nitems, sizeof(*e->items), by_alignment);
    for (size_t i = 0; i < e->nitems; i++) {
        if (i > 0 && e->shard_bytes && filled + e->items[i].bytes > e->shard_bytes) {
            e->nshards++;
            filled = 0;
        }
        e->items[i].shard = e->nshards;
        filled += e->items[i].bytes;
    }
    e->nshards++;
    return WEFT_SUCCESS;
}

static void shard_name(const struct export *e, size_t shard, char name[64])
{
    if (e->nshards == 1)
        snprintf(name, 64, "model.safetensors");
    else
        snprintf(name, 64, "model-%05zu-of-%05zu.safetensors", shard + 1, e->nshards);
}

/* ---- Files ---- */

static json_t *shape_json(const struct wi_ckpt_tensor *t)
{
    json_t *shape = json_array();

    for (uint32_t d = 0; shape && d < t->ndims; d++)
        if (json_array_append_new(shape, json_integer((json_int_t)t->shape[d])) < 0) {
            json_decref(shape);
            return NULL;
        }
    return shape;
}

/* Spaces fill it up to a multiple of 8. The caller frees it with wi_free. */
static char *header_text(const struct export *e, size_t first, size_t end)
{
    json_t *header = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");
    int failed = !header;
    uint64_t at = 0;
    char *text = NULL;

    for (size_t i = first; i < end && !failed; at += e->items[i++].bytes) {
        const struct wi_ckpt_tensor *t = e->items[i].entry->tensor;

        failed =
            json_object_set_new(header, e->items[i].name,
                                json_pack("{s:s, s:o, s:[I, I]}", "dtype", dtype_text(t->dtype), "shape", shape_json(t),
                                          "data_offsets", (json_int_t)at, (json_int_t)(at + e->items[i].bytes))) < 0;
    }
    if (!failed)
        text = wi_ckpt_json_text(header, JSON_COMPACT);
    json_decref(header);
    return text;
}

static weft_status tensor_write(struct export *e, struct wi_ckpt_writer *writer, const struct wi_ckpt_entry *entry)
{
    const size_t elem_bytes = weft_dtype_bytes(entry->tensor->dtype),
                 step = e->reader->manifest.chunk_bytes / elem_bytes;

    for (size_t from = 0, n; from < entry->tensor->elems; from += n) {
        n = entry->tensor->elems - from < step ? entry->tensor->elems - from : step;
        WI_TRY(wi_ckpt_range_read(e->reader, entry, from, from + n, e->chunk));
        WI_TRY(wi_ckpt_writer_add(writer, e->chunk, n * elem_bytes));
    }
    return WEFT_SUCCESS;
}

static weft_status shard_fill(struct export *e, struct wi_ckpt_writer *writer, size_t first, size_t end)
{
    char *text = header_text(e, first, end);
    size_t bytes = text ? strlen(text) : 0, padded = (bytes + 7) / 8 * 8;
    unsigned char length[8];
    weft_status st;

    if (!text)
        return wi_fail(WEFT_ENOMEM, "out of memory for the header of an export");
    wi_put64(length, padded);
    st = wi_ckpt_writer_add(writer, length, sizeof(length));
    st = st < 0 ? st : wi_ckpt_writer_add(writer, text, bytes);
    st = st < 0 ? st : wi_ckpt_writer_add(writer, "       ", padded - bytes);
    wi_free(text);
    for (size_t i = first; i < end && st >= 0; i++)
        st = tensor_write(e, writer, e->items[i].entry);
    return st;
}

static weft_status shards_write(struct export *e)
{
    for (size_t first = 0, end; first < e->nitems; first = end) {
        struct wi_ckpt_writer writer;
        char name[64];
        weft_status st;

        for (end = first; end < e->nitems && e->items[end].shard == e->items[first].shard;)
            end++;
        shard_name(e, e->items[first].shard, name);
        WI_TRY(wi_ckpt_writer_create(&writer, &e->temp, name, 0));
        st = shard_fill(e, &writer, first, end);
        st = st < 0 ? st : wi_ckpt_writer_finish(&writer);
        wi_ckpt_writer_fini(&writer);
        WI_TRY(st);
    }
    return WEFT_SUCCESS;
}

static weft_status index_write(const struct export *e)
{
    json_t *map = json_object(), *index;
    uint64_t total = 0;
    char name[64], *text;
    int failed = !map;
    weft_status st;

    for (size_t i = 0; i < e->nitems && !failed; total += e->items[i++].bytes) {
        shard_name(e, e->items[i].shard, name);
        failed = json_object_set_new(map, e->items[i].name, json_string(name)) < 0;
    }
    index = json_pack("{s:{s:I}, s:o}", "metadata", "total_size", (json_int_t)total, "weight_map", map);
    text = failed || !index ? NULL : wi_ckpt_json_text(index, JSON_INDENT(1));
    st = text ? wi_ckpt_file_store(&e->temp, "model.safetensors.index.json", text, strlen(text))
              : wi_fail(WEFT_ENOMEM, "out of memory for the index of an export");
    wi_free(text);
    json_decref(index);
    return st;
}

/* ---- The folder ---- */

static weft_status out_open(struct export *e, const char *out)
{
    unsigned char random[WI_CKPT_ID_HEX / 2];
    char path[sizeof(e->parent.path)], id[WI_CKPT_ID_HEX + 1], *slash;
    struct stat st;

    if (!out || !*out || strlen(out) >= sizeof(path) - WI_CKPT_TEXT_ROOM)
        return wi_fail(WEFT_EINVAL, "the folder of an export has no name, or too long a one");
    wi_ckpt_text_copy(path, sizeof(path), out);
    while (strlen(path) > 1 && path[strlen(path) - 1] == '/')
        path[strlen(path) - 1] = '\0';
    slash = strrchr(path, '/');
    if (strlen(slash ? slash + 1 : path) >= sizeof(e->name) || !*(slash ? slash + 1 : path))
        return wi_fail(WEFT_EINVAL, "%s is no name of a new folder", out);
    wi_ckpt_text_copy(e->name, sizeof(e->name), slash ? slash + 1 : path);
    if (slash)
        slash[slash == path] = '\0';
    WI_TRY(wi_ckpt_dir_open(&e->parent, slash ? path : "."));
    if (fstatat(e->parent.fd, e->name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return wi_fail(WEFT_EINVAL, "%s exists already", out);
    if (wi_random(random, sizeof(random)) < 0)
        return wi_fail_errno(errno, "no random bytes for a name");
    wi_hex_encode(random, sizeof(random), id);
    snprintf(e->temp_name, sizeof(e->temp_name), WI_CKPT_EXPORT "%s", id);
    if (mkdirat(e->parent.fd, e->temp_name, 0777) < 0)
        return wi_fail_errno(errno, "%s/%s cannot be created", e->parent.path, e->temp_name);
    e->made = 1;
    return wi_ckpt_dir_open_in(&e->temp, &e->parent, e->temp_name);
}

static weft_status out_commit(struct export *e)
{
    WI_TRY(wi_ckpt_dir_sync(&e->temp));
    if (renameat2(e->parent.fd, e->temp_name, e->parent.fd, e->name, RENAME_NOREPLACE) < 0 &&
        ((errno != EINVAL && errno != ENOSYS) || renameat(e->parent.fd, e->temp_name, e->parent.fd, e->name) < 0))
        return wi_fail_errno(errno, "%s cannot be renamed to %s", e->temp.path, e->name);
    e->made = 0;
    return wi_ckpt_dir_sync(&e->parent);
}

static weft_status unlink_one(void *arg, const char *name)
{
    unlinkat(((const struct wi_ckpt_dir *)arg)->fd, name, 0);
    return WEFT_SUCCESS;
}

static void out_fini(struct export *e)
{
    if (e->made && e->temp.fd >= 0) {
        wi_ckpt_dir_each(&e->temp, unlink_one, &e->temp);
        unlinkat(e->parent.fd, e->temp_name, AT_REMOVEDIR);
    }
    wi_ckpt_dir_close(&e->temp);
    wi_ckpt_dir_close(&e->parent);
}

static weft_status export_all(struct export *e, const char *out)
{
    WI_TRY(items_make(e));
    e->chunk = wi_malloc(e->reader->manifest.chunk_bytes);
    if (!e->chunk)
        return wi_fail(WEFT_ENOMEM, "out of memory for a chunk of an export");
    WI_TRY(out_open(e, out));
    WI_TRY(shards_write(e));
    if (e->nshards > 1)
        WI_TRY(index_write(e));
    return out_commit(e);
}

weft_status wi_ckpt_export(const char *folder, const char *tag, const char *out, const char *const *kinds,
                           size_t nkinds, uint64_t shard_bytes)
{
    struct export e = {
        .kinds = kinds, .nkinds = nkinds, .shard_bytes = shard_bytes, .parent = {.fd = -1}, .temp = {.fd = -1}};
    char why[700];
    weft_status st;

    if (nkinds == 0 || !kinds)
        return wi_fail(WEFT_EINVAL, "no kinds of tensors to be exported");
    for (size_t i = 0; i < nkinds; i++)
        WI_TRY(wi_ckpt_kind_check(kinds[i]));
    WI_TRY(wi_ckpt_open(folder, tag, 0, NULL, &e.reader));
    st = export_all(&e, out);
    wi_ckpt_text_copy(why, sizeof(why), st < 0 ? wi_fail_text() : "");
    out_fini(&e);
    for (size_t i = 0; e.items && i < e.nitems; i++)
        wi_free(e.items[i].name);
    wi_free(e.items);
    wi_free(e.chunk);
    wi_ckpt_close(e.reader);
    return st < 0 ? wi_fail(st, "%s", why) : st;
}
