/* SPDX-License-Identifier: BSD-3-Clause */
/* The manifest of a version: JSON for people and tools. Its first line has the format's version and the hash of all other lines, so
 * that every change of a byte shows. */
#include "zero/ckpt/ckpt_format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "base/text.h"

#define FIRST_LINE "{\"weft_checkpoint\": "
enum { LINE_BYTES = 128, HASH_HEX = 32 };

static void hash_text(struct wi_ckpt_hash hash, char text[HASH_HEX + 1])
{
    snprintf(text, HASH_HEX + 1, "%016llx%016llx", (unsigned long long)hash.half[0], (unsigned long long)hash.half[1]);
}

static int hash_parse(const char *text, struct wi_ckpt_hash *hash)
{
    char half[17];

    if (!text || !wi_ckpt_is_hex(text, HASH_HEX))
        return -1;
    memcpy(half, text, 16);
    half[16] = '\0';
    hash->half[0] = strtoull(half, NULL, 16);
    hash->half[1] = strtoull(text + 16, NULL, 16);
    return 0;
}

static int first_line(char line[LINE_BYTES], const char *rest, size_t bytes)
{
    char hex[HASH_HEX + 1];

    hash_text(wi_ckpt_hash(rest, bytes), hex);
    return snprintf(line, LINE_BYTES, FIRST_LINE "%d, \"digest\": \"%s\",\n", WI_CKPT_VERSION, hex);
}

void wi_ckpt_manifest_fini(struct wi_ckpt_manifest *manifest)
{
    wi_free(manifest->indexes);
    json_decref(manifest->scalars);
    json_decref(manifest->tensors);
    memset(manifest, 0, sizeof(*manifest));
}

/* ---- To text ---- */

char *wi_ckpt_json_text(const json_t *json, size_t flags)
{
    size_t bytes = json ? json_dumpb(json, NULL, 0, flags) : 0;
    char *text = bytes > 0 ? wi_malloc(bytes + 1) : NULL;

    if (text && json_dumpb(json, text, bytes, flags) != bytes) {
        wi_free(text);
        return NULL;
    }
    if (text)
        text[bytes] = '\0';
    return text;
}

static json_t *tensor_json(const struct wi_ckpt_tensor *t)
{
    json_t *shape = json_array();

    for (uint32_t d = 0; shape && d < t->ndims; d++)
        if (json_array_append_new(shape, json_integer((json_int_t)t->shape[d])) < 0) {
            json_decref(shape);
            shape = NULL;
        }
    if (!shape)
        return NULL;
    return json_pack("{s:s, s:s, s:s, s:o}", "name", t->name, "kind", t->kind, "dtype", weft_dtype_name(t->dtype),
                     "shape", shape);
}

json_t *wi_ckpt_tensors_json(const struct wi_ckpt_map *map)
{
    json_t *list = json_array();

    for (size_t i = 0; list && i < map->nentries; i++)
        if (json_array_append_new(list, tensor_json(map->entries[i].tensor)) < 0) {
            json_decref(list);
            list = NULL;
        }
    return list;
}

static json_t *digest_json(const struct wi_ckpt_digest *digest)
{
    char hex[HASH_HEX + 1];

    hash_text(digest->hash, hex);
    return json_pack("{s:I, s:s}", "bytes", (json_int_t)digest->bytes, "hash", hex);
}

static json_t *manifest_json(const struct wi_ckpt_manifest *m)
{
    json_t *ranks = json_array();
    int failed = !ranks;

    for (uint32_t r = 0; r < m->nranks && !failed; r++)
        failed = json_array_append_new(ranks, digest_json(&m->indexes[r])) < 0;
    if (failed) {
        json_decref(ranks);
        return NULL;
    }
    return json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:o, s:O, s:o, s:O}", "tag", m->tag, "id", m->id, "parent",
                     m->parent, "sequence", (json_int_t)m->sequence, "nranks", (json_int_t)m->nranks, "chunk_bytes",
                     (json_int_t)m->chunk_bytes, "client", digest_json(&m->client), "scalars", m->scalars, "ranks",
                     ranks, "tensors", m->tensors);
}

weft_status wi_ckpt_manifest_encode(const struct wi_ckpt_manifest *manifest, char **text, size_t *bytes)
{
    json_t *json = manifest_json(manifest);
    char *dump = wi_ckpt_json_text(json, JSON_INDENT(1)), *out = NULL, line[LINE_BYTES];

    json_decref(json);
    if (dump) {
        size_t length = strlen(dump);

        /* The object's brace is in the first line instead. */
        memmove(dump, dump + 2, length - 1);
        length -= 2;
        dump[length++] = '\n';
        *bytes = (size_t)first_line(line, dump, length) + length;
        out = wi_malloc(*bytes);
        if (out) {
            memcpy(out, line, *bytes - length);
            memcpy(out + *bytes - length, dump, length);
        }
    }
    wi_free(dump);
    if (!out)
        return wi_fail(WEFT_ENOMEM, "out of memory for a checkpoint's manifest");
    if (*bytes > WI_CKPT_MANIFEST_MAX) {
        wi_free(out);
        return wi_fail(WEFT_EINVAL, "the manifest of a checkpoint would have %zu bytes; at most %zu are possible",
                       *bytes, WI_CKPT_MANIFEST_MAX);
    }
    *text = out;
    return WEFT_SUCCESS;
}

/* ---- From text ---- */

static weft_status check_first_line(const char *text, size_t bytes, const char *where, size_t *line_bytes)
{
    const size_t prefix = strlen(FIRST_LINE);
    const char *newline = memchr(text, '\n', bytes < LINE_BYTES ? bytes : LINE_BYTES);
    char line[LINE_BYTES], *end;
    unsigned long version;

    if (bytes == 0)
        return wi_fail(WEFT_ECONFIG, "%s is empty", where);
    if (bytes < prefix || memcmp(text, FIRST_LINE, prefix))
        return wi_fail(WEFT_ECONFIG, "%s does not begin as the manifest of a checkpoint", where);
    version = text[prefix] >= '1' && text[prefix] <= '9' ? strtoul(text + prefix, &end, 10)
                                                         : 0; /* a NUL is behind the text */
    if (version > WI_CKPT_VERSION && *end == ',')
        return wi_fail(WEFT_ENOTSUP, "%s has version %lu of the format; this library reads versions up to %d", where,
                       version, WI_CKPT_VERSION);
    if (!newline || bytes < 2 || memcmp(text + bytes - 2, "}\n", 2))
        return wi_fail(WEFT_ECONFIG, "%s is truncated", where);
    *line_bytes = (size_t)(newline - text) + 1;
    if ((size_t)first_line(line, newline + 1, bytes - *line_bytes) != *line_bytes || memcmp(line, text, *line_bytes))
        return wi_fail(WEFT_ECONFIG, "%s is damaged: its digest is another", where);
    return WEFT_SUCCESS;
}

static weft_status lacks(const char *where, const char *what)
{
    return wi_fail(WEFT_ECONFIG, "%s has no or a malformed \"%s\"", where, what);
}

static weft_status get_text(const json_t *json, const char *key, char *out, size_t capacity, const char *where)
{
    const char *text = json_string_value(json_object_get(json, key));

    if (!text || strlen(text) >= capacity)
        return lacks(where, key);
    memcpy(out, text, strlen(text) + 1);
    return WEFT_SUCCESS;
}

static weft_status get_number(const json_t *json, const char *key, uint64_t most, uint64_t *out, const char *where)
{
    const json_t *number = json_object_get(json, key);

    if (!json_is_integer(number) || json_integer_value(number) < 0 || (uint64_t)json_integer_value(number) > most)
        return lacks(where, key);
    *out = (uint64_t)json_integer_value(number);
    return WEFT_SUCCESS;
}

static weft_status get_digest(const json_t *json, const char *key, struct wi_ckpt_digest *out, const char *where)
{
    if (!json_is_object(json))
        return lacks(where, key);
    WI_TRY(get_number(json, "bytes", INT64_MAX, &out->bytes, where));
    return hash_parse(json_string_value(json_object_get(json, "hash")), &out->hash) < 0 ? lacks(where, "hash")
                                                                                        : WEFT_SUCCESS;
}

static weft_status get_ranks(struct wi_ckpt_manifest *m, const json_t *json, const char *where)
{
    const json_t *ranks = json_object_get(json, "ranks");

    if (!json_is_array(ranks) || json_array_size(ranks) != m->nranks)
        return lacks(where, "ranks");
    m->indexes = wi_calloc(m->nranks, sizeof(*m->indexes));
    if (!m->indexes)
        return wi_fail(WEFT_ENOMEM, "out of memory for a checkpoint's manifest");
    for (uint32_t r = 0; r < m->nranks; r++)
        WI_TRY(get_digest(json_array_get(ranks, r), "ranks", &m->indexes[r], where));
    return WEFT_SUCCESS;
}

static weft_status get_all(struct wi_ckpt_manifest *m, json_t *json, const char *where)
{
    uint64_t nranks, chunk_bytes;

    WI_TRY(get_text(json, "tag", m->tag, sizeof(m->tag), where));
    WI_TRY(get_text(json, "id", m->id, sizeof(m->id), where));
    WI_TRY(get_text(json, "parent", m->parent, sizeof(m->parent), where));
    WI_TRY(get_number(json, "sequence", WI_CKPT_SEQUENCE_MAX, &m->sequence, where));
    WI_TRY(get_number(json, "nranks", INT32_MAX, &nranks, where));
    WI_TRY(get_number(json, "chunk_bytes", UINT32_MAX, &chunk_bytes, where));
    if (!wi_ckpt_is_hex(m->id, WI_CKPT_ID_HEX))
        return lacks(where, "id");
    if (nranks == 0)
        return lacks(where, "nranks");
    if (wi_ckpt_tag_check(m->tag) < 0)
        return lacks(where, "tag");
    m->nranks = (uint32_t)nranks;
    m->chunk_bytes = chunk_bytes;
    WI_TRY(get_ranks(m, json, where));
    WI_TRY(get_digest(json_object_get(json, "client"), "client", &m->client, where));
    if (m->client.bytes > WI_CKPT_CLIENT_MAX)
        return wi_fail(WEFT_ECONFIG, "%s: the client has %llu bytes; at most %zu are possible", where,
                       (unsigned long long)m->client.bytes, WI_CKPT_CLIENT_MAX);
    m->scalars = json_incref(json_object_get(json, "scalars"));
    m->tensors = json_incref(json_object_get(json, "tensors"));
    if (!json_is_object(m->scalars))
        return lacks(where, "scalars");
    return json_is_array(m->tensors) ? WEFT_SUCCESS : lacks(where, "tensors");
}

weft_status wi_ckpt_manifest_decode(struct wi_ckpt_manifest *manifest, const char *text, size_t bytes,
                                    const char *where)
{
    size_t line_bytes;
    json_error_t error;
    json_t *json;
    weft_status st;

    memset(manifest, 0, sizeof(*manifest));
    WI_TRY(check_first_line(text, bytes, where, &line_bytes));
    json = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!json && (json_error_code(&error) == json_error_unknown || json_error_code(&error) == json_error_out_of_memory))
        return wi_fail(WEFT_ENOMEM, "out of memory for %s", where); /* jansson names every other reason */
    if (!json) {
        wi_text_sanitize(error.text, sizeof(error.text)); /* it has a piece of the file */
        return wi_fail(WEFT_ECONFIG, "%s is no JSON: line %d: %s", where, error.line, error.text);
    }
    st = get_all(manifest, json, where);
    json_decref(json);
    if (st < 0)
        wi_ckpt_manifest_fini(manifest);
    return st;
}
