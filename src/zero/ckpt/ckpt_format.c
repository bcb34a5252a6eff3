/* SPDX-License-Identifier: BSD-3-Clause */
/* Tensors, tags, and the map of which rank saved what. */
#include "zero/ckpt/ckpt_format.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/status.h"
#include "zero/ckpt/ckpt.h"

struct wi_ckpt_hash wi_ckpt_hash(const void *data, size_t bytes)
{
    struct wi_ckpt_hash hash;

    wi_hash128(data, bytes, hash.half);
    return hash;
}

int wi_ckpt_elems(weft_dtype dtype, const size_t *shape, uint32_t ndims, size_t *elems)
{
    size_t product = 1, bytes;

    for (uint32_t i = 0; i < ndims; i++)
        if (__builtin_mul_overflow(product, shape[i], &product))
            return -1;
    *elems = product;
    return __builtin_mul_overflow(product, weft_dtype_bytes(dtype), &bytes) ? -1 : 0;
}

int wi_ckpt_tensor_order(const char *name, const char *kind, const char *other_name, const char *other_kind)
{
    int order = strcmp(name, other_name);

    return order ? order : strcmp(kind, other_kind);
}

int wi_ckpt_is_hex(const char *text, size_t digits)
{
    for (size_t i = 0; i < digits; i++)
        if (!text[i] || !strchr("0123456789abcdef", text[i]))
            return 0;
    return text[digits] == '\0';
}

static int digits_then(const char *text, const char *end)
{
    size_t digits = strspn(text, "0123456789");

    return digits >= 5 && digits <= 10 && !strcmp(text + digits, end);
}

int wi_ckpt_is_data_name(const char *name)
{
    char id[WI_CKPT_ID_HEX + 1];

    if ((strncmp(name, "data-", 5) && strncmp(name, "kept-", 5)) || strlen(name) <= 5 + WI_CKPT_ID_HEX ||
        name[5 + WI_CKPT_ID_HEX] != '-')
        return 0;
    memcpy(id, name + 5, WI_CKPT_ID_HEX);
    id[WI_CKPT_ID_HEX] = '\0';
    return wi_ckpt_is_hex(id, WI_CKPT_ID_HEX) && digits_then(name + 6 + WI_CKPT_ID_HEX, ".bin");
}

int wi_ckpt_is_file_name(const char *name)
{
    if (!strncmp(name, "rank-", 5))
        return digits_then(name + 5, ".index");
    return wi_ckpt_is_data_name(name) || !strcmp(name, WI_CKPT_MANIFEST) ||
           !strcmp(name, WI_CKPT_TEMP WI_CKPT_MANIFEST) || !strcmp(name, WI_CKPT_CLIENT);
}

weft_status wi_ckpt_tag_check(const char *tag)
{
    size_t length = tag ? strnlen(tag, WI_CKPT_TAG_MAX + 1) : 0;

    if (length == 0)
        return wi_fail(WEFT_EINVAL, "a checkpoint's tag must not be empty");
    if (length > WI_CKPT_TAG_MAX)
        return wi_fail(WEFT_EINVAL, "a checkpoint's tag has at most %d bytes", WI_CKPT_TAG_MAX);
    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)tag[i] <= ' ' || tag[i] == 127)
            return wi_fail(WEFT_EINVAL, "a checkpoint's tag must not have spaces or control characters");
        if (tag[i] == '/' || tag[i] == '\\')
            return wi_fail(WEFT_EINVAL, "checkpoint tag \"%s\" must not have a slash: it names one folder", tag);
    }
    if (tag[0] == '.')
        return wi_fail(WEFT_EINVAL, "checkpoint tag \"%s\" must not begin with a dot", tag);
    if (!strcmp(tag, WI_CKPT_LATEST))
        return wi_fail(WEFT_EINVAL, "checkpoint tag \"%s\" is the name of the file that names the newest one", tag);
    return WEFT_SUCCESS;
}

int wi_ckpt_is_printable(const char *name)
{
    while (*name && (unsigned char)*name >= ' ' && *name != 127)
        name++;
    return *name == '\0';
}

weft_status wi_ckpt_kind_check(const char *kind)
{
    size_t length = kind ? strnlen(kind, WI_CKPT_KIND_MAX + 1) : 0;

    if (length == 0 || length > WI_CKPT_KIND_MAX || strspn(kind, "abcdefghijklmnopqrstuvwxyz0123456789_") != length)
        return wi_fail(WEFT_EINVAL, "a kind of tensor is 1 to %d small letters, digits and underscores",
                       WI_CKPT_KIND_MAX);
    return WEFT_SUCCESS;
}

/* ---- The map ---- */

struct placed {
    const struct wi_ckpt_tensor *tensor;
    struct wi_ckpt_part part;
};

static int by_place(const void *a, const void *b)
{
    const struct placed *x = a, *y = b;
    int order = wi_ckpt_tensor_order(x->tensor->name, x->tensor->kind, y->tensor->name, y->tensor->kind);

    if (order)
        return order;
    if (x->part.begin != y->part.begin)
        return x->part.begin < y->part.begin ? -1 : 1;
    if (x->part.end != y->part.end) /* empty ones first */
        return x->part.end < y->part.end ? -1 : 1;
    return x->part.rank < y->part.rank ? -1 : x->part.rank > y->part.rank;
}

static weft_status same_tensor(const struct placed *a, const struct placed *b)
{
    const struct wi_ckpt_tensor *x = a->tensor, *y = b->tensor;

    if (x->dtype != y->dtype || x->ndims != y->ndims || memcmp(x->shape, y->shape, x->ndims * sizeof(*x->shape)))
        return wi_fail(WEFT_EINVAL, "%s of \"%s\" has another type or shape on rank %u than on rank %u", x->kind,
                       x->name, b->part.rank, a->part.rank);
    return WEFT_SUCCESS;
}

/* The parts of one tensor, sorted: they follow one another from its first element to its last. */
static weft_status covers(const struct placed *parts, size_t nparts)
{
    const struct wi_ckpt_tensor *tensor = parts[0].tensor;
    size_t next = 0;

    for (size_t i = 0; i < nparts; i++) {
        WI_TRY(same_tensor(&parts[0], &parts[i]));
        if (parts[i].part.begin == parts[i].part.end)
            continue;
        if (parts[i].part.begin < next)
            return wi_fail(WEFT_EINVAL, "%s of \"%s\": element %zu is saved by two pieces, the second of rank %u",
                           tensor->kind, tensor->name, parts[i].part.begin, parts[i].part.rank);
        if (parts[i].part.begin > next)
            break;
        next = parts[i].part.end;
    }
    if (next != tensor->elems)
        return wi_fail(WEFT_EINVAL, "%s of \"%s\": element %zu of %zu is saved by no rank", tensor->kind, tensor->name,
                       next, tensor->elems);
    return WEFT_SUCCESS;
}

static size_t count_spans(const struct wi_ckpt_index *indexes, size_t nranks)
{
    size_t spans = 0;

    for (size_t r = 0; r < nranks; r++)
        spans += indexes[r].nspans;
    return spans;
}

static void place(struct placed *placed, const struct wi_ckpt_index *indexes, size_t nranks)
{
    for (size_t r = 0; r < nranks; r++)
        for (size_t s = 0; s < indexes[r].nspans; s++) {
            const struct wi_ckpt_span *span = &indexes[r].spans[s];

            placed->tensor = &indexes[r].tensors[span->tensor];
            placed->part = (struct wi_ckpt_part){span->begin, span->end, (uint32_t)r, s};
            placed++;
        }
}

static weft_status map_fill(struct wi_ckpt_map *map, struct placed *placed, size_t nspans)
{
    for (size_t i = 0, n; i < nspans; i += n) {
        struct wi_ckpt_entry *entry = &map->entries[map->nentries];

        for (n = 1; i + n < nspans; n++)
            if (wi_ckpt_tensor_order(placed[i].tensor->name, placed[i].tensor->kind, placed[i + n].tensor->name,
                                     placed[i + n].tensor->kind))
                break;
        WI_TRY(covers(&placed[i], n));
        entry->tensor = placed[i].tensor;
        entry->first_part = i;
        for (size_t k = 0; k < n; k++)
            if (placed[i + k].part.begin < placed[i + k].part.end) /* empty ones are of no use to readers */
                map->parts[entry->first_part + entry->nparts++] = placed[i + k].part;
        map->nentries++;
    }
    return WEFT_SUCCESS;
}

weft_status wi_ckpt_map_make(struct wi_ckpt_map *map, const struct wi_ckpt_index *indexes, size_t nranks)
{
    size_t nspans = count_spans(indexes, nranks);
    struct placed *placed = wi_calloc(nspans + 1, sizeof(*placed));
    weft_status st = WEFT_SUCCESS;

    memset(map, 0, sizeof(*map));
    map->entries = wi_calloc(nspans + 1, sizeof(*map->entries));
    map->parts = wi_calloc(nspans + 1, sizeof(*map->parts));
    if (!placed || !map->entries || !map->parts) {
        st = wi_fail(WEFT_ENOMEM, "out of memory for the places of %zu pieces of a checkpoint", nspans);
    } else {
        place(placed, indexes, nranks);
        qsort(placed, nspans, sizeof(*placed), by_place);
        st = map_fill(map, placed, nspans);
    }
    wi_free(placed);
    if (st < 0)
        wi_ckpt_map_fini(map);
    return st;
}

void wi_ckpt_map_fini(struct wi_ckpt_map *map)
{
    wi_free(map->entries);
    wi_free(map->parts);
    memset(map, 0, sizeof(*map));
}

const struct wi_ckpt_entry *wi_ckpt_map_find(const struct wi_ckpt_map *map, const char *name, const char *kind)
{
    size_t low = 0, high = map->nentries;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct wi_ckpt_tensor *tensor = map->entries[middle].tensor;
        int order = wi_ckpt_tensor_order(name, kind, tensor->name, tensor->kind);

        if (order == 0)
            return &map->entries[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

const struct wi_ckpt_part *wi_ckpt_map_part(const struct wi_ckpt_map *map, const struct wi_ckpt_entry *entry,
                                            size_t elem)
{
    const struct wi_ckpt_part *parts = &map->parts[entry->first_part];
    size_t low = 0, high = entry->nparts;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (elem < parts[middle].begin)
            high = middle;
        else if (elem >= parts[middle].end)
            low = middle + 1;
        else
            return &parts[middle];
    }
    return NULL;
}
