/* SPDX-License-Identifier: BSD-3-Clause */
/* Any bytes as a checkpoint's index, or as its manifest behind a first line with the digest that fits: refused with a text that
 * names the file, or accepted, and then every number is within what it is about, every name is one that a save gives, and what is
 * encoded of it is the same again. The first byte says which of the two it is. */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "tests/fuzz/require.h"
#include "zero/ckpt/ckpt_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check_refused(void)
{
    require(!strncmp(wi_fail_text(), "fuzz", 4) && !strpbrk(wi_fail_text(), "\n\033"));
}

static void check_map(const struct wi_ckpt_index *index)
{
    struct wi_ckpt_map map = {0};

    if (wi_ckpt_map_make(&map, index, 1) >= 0)
        for (size_t e = 0; e < map.nentries; e++) {
            const struct wi_ckpt_tensor *t = map.entries[e].tensor;

            require(wi_ckpt_map_find(&map, t->name, t->kind) == &map.entries[e]);
            for (size_t at = 0, n = 0; at < t->elems; n++) {
                const struct wi_ckpt_part *part = wi_ckpt_map_part(&map, &map.entries[e], at);

                require(part && part->begin == at && part->end > at && part->end <= t->elems);
                require(n < map.entries[e].nparts && part->span < index->nspans);
                at = part->end;
            }
        }
    wi_ckpt_map_fini(&map);
}

static void check_index(const struct wi_ckpt_index *index, const uint8_t *data, size_t bytes)
{
    unsigned char *again;
    size_t n;

    for (size_t i = 0; i < index->nfiles; i++)
        require(wi_ckpt_is_data_name(index->files[i].name) && index->files[i].bytes <= INT64_MAX);
    for (size_t i = 0; i < index->ntensors; i++)
        require(wi_ckpt_is_printable(index->tensors[i].name) && wi_ckpt_kind_check(index->tensors[i].kind) >= 0);
    for (size_t s = 0; s < index->nspans; s++) {
        const struct wi_ckpt_span *span = &index->spans[s];
        weft_dtype dtype = index->tensors[span->tensor].dtype;
        size_t chunks = wi_ckpt_span_chunks(index->chunk_bytes, dtype, span->begin, span->end);

        for (size_t i = 0, begin, end, to = span->begin; i < chunks; i++, to = end) {
            const struct wi_ckpt_chunk *chunk = &index->chunks[span->first_chunk + i];

            wi_ckpt_chunk_range(index, span, i, &begin, &end);
            require(begin == to && end > begin && end <= span->end);
            require((end - begin) * weft_dtype_bytes(dtype) <= index->chunk_bytes && chunk->file < index->nfiles);
            require(chunk->offset + (end - begin) * weft_dtype_bytes(dtype) <= index->files[chunk->file].bytes);
        }
    }
    check_map(index);
    require(wi_ckpt_index_encode(index, &again, &n) == WEFT_SUCCESS);
    require(n == bytes && !memcmp(again, data, n));
    wi_free(again);
}

static void fuzz_index(const uint8_t *data, size_t bytes)
{
    struct wi_ckpt_index index;

    if (wi_ckpt_index_decode(&index, data, bytes, "fuzz") < 0) {
        check_refused();
        return;
    }
    check_index(&index, data, bytes);
    wi_ckpt_index_fini(&index);
}

static void check_manifest(const struct wi_ckpt_manifest *m)
{
    struct wi_ckpt_manifest again;
    char *text;
    size_t bytes;

    require(wi_ckpt_tag_check(m->tag) >= 0 && wi_ckpt_is_hex(m->id, WI_CKPT_ID_HEX) && m->nranks > 0);
    require(m->sequence <= WI_CKPT_SEQUENCE_MAX && m->client.bytes <= WI_CKPT_CLIENT_MAX &&
            m->chunk_bytes <= UINT32_MAX);
    require(json_is_object(m->scalars) && json_is_array(m->tensors));
    require(wi_ckpt_manifest_encode(m, &text, &bytes) == WEFT_SUCCESS);
    require(wi_ckpt_manifest_decode(&again, text, bytes, "fuzz") == WEFT_SUCCESS);
    require(!strcmp(again.tag, m->tag) && !strcmp(again.parent, m->parent) && again.sequence == m->sequence);
    require(again.nranks == m->nranks && !memcmp(again.indexes, m->indexes, m->nranks * sizeof(*m->indexes)));
    require(json_equal(again.scalars, m->scalars) && json_equal(again.tensors, m->tensors));
    wi_ckpt_manifest_fini(&again);
    wi_free(text);
}

static void fuzz_manifest(const uint8_t *data, size_t bytes)
{
    struct wi_ckpt_hash hash = wi_ckpt_hash(data, bytes);
    struct wi_ckpt_manifest manifest;
    char *text = malloc(bytes + 128);
    size_t line;

    if (!text)
        return;
    line = (size_t)sprintf(text, "{\"weft_checkpoint\": %d, \"digest\": \"%016llx%016llx\",\n", WI_CKPT_VERSION,
                           (unsigned long long)hash.half[0], (unsigned long long)hash.half[1]);
    memcpy(text + line, data, bytes);
    text[line + bytes] = '\0';
    if (wi_ckpt_manifest_decode(&manifest, text, line + bytes, "fuzz") < 0) {
        check_refused();
    } else {
        check_manifest(&manifest);
        wi_ckpt_manifest_fini(&manifest);
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0)
        return 0;
    if (data[0] & 1)
        fuzz_manifest(data + 1, bytes - 1);
    else
        fuzz_index(data + 1, bytes - 1);
    return 0;
}
