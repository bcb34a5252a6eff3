/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-codec: safetensors files: 8 bytes of length, a JSON object of that length, then the tensors, one behind the other. */
#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "weft_codec.h"

#define MOST_HEADER 100000000u /* bytes: the format's own limit */

static const struct {
    const char *name;
    weft_dtype dtype; /* -1: codecs do not take it */
    unsigned bits;
} types[] = {
    {"F32", WEFT_FLOAT32, 32},      {"F16", WEFT_FLOAT16, 16},      {"BF16", WEFT_BFLOAT16, 16},
    {"F64", (weft_dtype)-1, 64},    {"I64", (weft_dtype)-1, 64},    {"U64", (weft_dtype)-1, 64},
    {"C64", (weft_dtype)-1, 64},    {"I32", (weft_dtype)-1, 32},    {"U32", (weft_dtype)-1, 32},
    {"I16", (weft_dtype)-1, 16},    {"U16", (weft_dtype)-1, 16},    {"I8", (weft_dtype)-1, 8},
    {"U8", (weft_dtype)-1, 8},      {"BOOL", (weft_dtype)-1, 8},    {"F8_E4M3", (weft_dtype)-1, 8},
    {"F8_E5M2", (weft_dtype)-1, 8}, {"F8_E8M0", (weft_dtype)-1, 8},
};
#define NTYPES (sizeof types / sizeof *types)

static int fail(char *why, const char *name, const char *format, ...) __attribute__((format(printf, 3, 4)));
static int fail(char *why, const char *name, const char *format, ...)
{
    char clean[64];
    va_list list;
    int n = name ? snprintf(why, CODEC_REASON, "tensor \"%s\": ", codec_clean(name, strlen(name), clean)) : 0;

    va_start(list, format);
    vsnprintf(why + n, CODEC_REASON - (size_t)n, format, list);
    va_end(list);
    return -1;
}

static int read_shape(const json_t *shape, struct codec_tensor *t, char *why)
{
    size_t i;
    json_t *n;

    if (!json_is_array(shape))
        return fail(why, t->name, "\"shape\" is no list");
    t->elems = 1;
    json_array_foreach(shape, i, n)
    {
        if (!json_is_integer(n) || json_integer_value(n) < 0)
            return fail(why, t->name, "\"shape\" has something else than numbers from 0");
        if (codec_shape_times(&t->elems, (uint64_t)json_integer_value(n)))
            return fail(why, t->name, "\"shape\" has more elements than can be counted");
    }
    return 0;
}

static int read_offsets(const json_t *offsets, size_t room, struct codec_tensor *t, char *why)
{
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);

    if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end) ||
        json_integer_value(begin) < 0 || json_integer_value(end) < json_integer_value(begin))
        return fail(why, t->name, "\"data_offsets\" is not [begin, end] with 0 <= begin <= end");
    if ((uint64_t)json_integer_value(end) > room)
        return fail(why, t->name, "truncated: it ends at byte %lld of the data, which has %zu",
                    (long long)json_integer_value(end), room);
    t->at = (size_t)json_integer_value(begin);
    t->bytes = (size_t)(json_integer_value(end) - json_integer_value(begin));
    return 0;
}

static int read_type(const json_t *type, struct codec_tensor *t, unsigned *bits, char *why)
{
    const char *name = json_string_value(type);
    char clean[64];

    if (!name)
        return fail(why, t->name, "\"dtype\" is no text");
    for (size_t i = 0; i < NTYPES; i++)
        if (!strcmp(name, types[i].name)) {
            snprintf(t->type, sizeof t->type, "%s", name);
            t->dtype = types[i].dtype;
            *bits = types[i].bits;
            return 0;
        }
    return fail(why, t->name, "\"dtype\" \"%s\" is not known", codec_clean(name, strlen(name), clean));
}

static int read_tensor(const json_t *entry, size_t room, struct codec_tensor *t, char *why)
{
    size_t wanted;
    unsigned bits = 0;

    if (!json_is_object(entry) || json_object_size(entry) != 3)
        return fail(why, t->name, "it is no object of \"dtype\", \"shape\" and \"data_offsets\"");
    if (read_type(json_object_get(entry, "dtype"), t, &bits, why) ||
        read_shape(json_object_get(entry, "shape"), t, why) ||
        read_offsets(json_object_get(entry, "data_offsets"), room, t, why))
        return -1;
    if (codec_shape_times(&(size_t){t->elems}, bits / 8))
        return fail(why, t->name, "\"shape\" has more bytes than can be counted");
    wanted = t->elems * (bits / 8);
    if (wanted != t->bytes)
        return fail(why, t->name, "its shape is of %zu bytes, and \"data_offsets\" of %zu", wanted, t->bytes);
    return 0;
}

static int by_place(const void *a, const void *b)
{
    const struct codec_tensor *x = a, *y = b;

    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* The format wants every byte of the data to be of exactly one tensor. */
static int check_places(const struct codec_file *file, size_t room, char *why)
{
    size_t at = 0;

    if (file->ntensors)
        qsort(file->tensors, file->ntensors, sizeof *file->tensors, by_place);
    for (size_t i = 0; i < file->ntensors; i++) {
        const struct codec_tensor *t = &file->tensors[i];
        if (t->at != at)
            return fail(why, t->name, t->at < at ? "it overlaps the one before" : "bytes before it are of no tensor");
        at += t->bytes;
    }
    return at == room ? 0 : fail(why, NULL, "%zu bytes at the end are of no tensor", room - at);
}

static int read_header(json_t *header, size_t room, struct codec_file *file, char *why)
{
    const char *name;
    json_t *entry;

    json_object_foreach(header, name, entry)
    {
        struct codec_tensor *t;
        if (!strcmp(name, "__metadata__")) {
            if (!json_is_object(entry))
                return fail(why, NULL, "\"__metadata__\" is no object");
            continue;
        }
        if (!(t = codec_file_add(file, name, why)) || read_tensor(entry, room, t, why))
            return -1;
    }
    return check_places(file, room, why);
}

int codec_safetensors_parse(const unsigned char *data, size_t bytes, struct codec_file *file, char why[CODEC_REASON])
{
    uint64_t length = 0;
    json_error_t error;
    json_t *header;
    char clean[64];
    int status;

    if (bytes < 8)
        return fail(why, NULL, "truncated: %zu bytes are no safetensors file", bytes);
    for (int i = 7; i >= 0; i--)
        length = length << 8 | data[i];
    if (length > bytes - 8)
        return fail(why, NULL, "truncated: the header says it has %llu bytes, and %zu follow",
                    (unsigned long long)length, bytes - 8);
    if (length > MOST_HEADER)
        return fail(why, NULL, "the header has %llu bytes, and the format allows %u", (unsigned long long)length,
                    MOST_HEADER);
    header = json_loadb((const char *)data + 8, (size_t)length, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(header)) {
        json_decref(header);
        return fail(why, NULL, "the header is no JSON object: %s", codec_clean(error.text, strlen(error.text), clean));
    }
    status = read_header(header, bytes - 8 - (size_t)length, file, why);
    json_decref(header);
    for (size_t i = 0; !status && i < file->ntensors; i++)
        file->tensors[i].at += 8 + (size_t)length;
    return status;
}
