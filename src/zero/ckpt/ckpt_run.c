/* SPDX-License-Identifier: BSD-3-Clause */
/* Arguments of a save: checked, and copied but for the data. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "zero/ckpt/ckpt_run.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/status.h"

enum { COPY_ALIGN = 64, NAME_MOST = 65536, TEXT_MOST = 1 << 20 };

void wi_ckpt_run_fini(struct wi_ckpt_run *run)
{
    wi_free(run->folder);
    wi_free(run->sources);
    wi_free(run->scratch);
    wi_free(run->client);
    json_decref(run->scalars);
    wi_ckpt_index_fini(&run->index);
    memset(run, 0, sizeof(*run));
}

uint64_t wi_ckpt_run_scalars_hash(const struct wi_ckpt_run *run)
{
    char *text = wi_ckpt_json_text(run->scalars, JSON_SORT_KEYS | JSON_COMPACT);
    uint64_t hash = text ? wi_ckpt_hash(text, strlen(text)).half[0] : 0;

    wi_free(text);
    return hash;
}

/* ---- Options, folder, state ---- */

static weft_status options_take(struct wi_ckpt_run *run, const struct wi_ckpt_options *options)
{
    static const struct wi_ckpt_options none;
    size_t chunk;

    run->options = options ? *options : none;
    chunk = run->options.chunk_bytes ? run->options.chunk_bytes : WI_CKPT_CHUNK_BYTES;
    if (run->options.keep < 0)
        return wi_fail(WEFT_EINVAL, "checkpoint: keep is %d; it must not be negative", run->options.keep);
    if (chunk < 64 || chunk % 16 || chunk > (size_t)1 << 30)
        return wi_fail(WEFT_EINVAL, "checkpoint: chunk_bytes is %zu; it must be a multiple of 16 from 64 to 2^30",
                       chunk);
    run->options.replace = !!run->options.replace;
    run->options.incremental = !!run->options.incremental;
    run->index.chunk_bytes = chunk;
    return WEFT_SUCCESS;
}

/* The program may change its working directory meanwhile. */
static weft_status folder_take(struct wi_ckpt_run *run, const char *folder)
{
    char here[1024] = "";
    size_t bytes;

    if (!folder || !*folder)
        return wi_fail(WEFT_EINVAL, "the folder of a checkpoint is missing");
    if (*folder != '/' && !getcwd(here, sizeof(here)))
        return wi_fail_errno(errno, "the working directory is unknown, and checkpoint folder %s is relative to it",
                             folder);
    bytes = strlen(here) + strlen(folder) + 2;
    run->folder = wi_malloc(bytes);
    if (!run->folder)
        return wi_fail(WEFT_ENOMEM, "out of memory for the path of a checkpoint");
    snprintf(run->folder, bytes, "%s%s%s", here, *here ? "/" : "", folder);
    return WEFT_SUCCESS;
}

static json_t *scalar_json(const struct wi_ckpt_scalar *scalar)
{
    char bits[17], text[40];
    uint64_t word;

    if (scalar->type == WI_CKPT_INTEGER)
        return json_integer(scalar->integer);
    if (scalar->type == WI_CKPT_TEXT)
        return json_string(scalar->text);
    memcpy(&word, &scalar->real, sizeof(word));
    snprintf(bits, sizeof(bits), "%016llx", (unsigned long long)word);
    snprintf(text, sizeof(text), "%.17g", scalar->real);
    return json_pack("{s:s, s:s}", "real", text, "bits", bits);
}

static weft_status scalars_take(struct wi_ckpt_run *run, const struct wi_ckpt_state *state)
{
    run->scalars = json_object();
    if (!run->scalars)
        return wi_fail(WEFT_ENOMEM, "out of memory for a checkpoint's scalars");
    for (size_t i = 0; state && i < state->nscalars; i++) {
        const struct wi_ckpt_scalar *s = &state->scalars[i];
        json_t *json;

        if (!s->name || !*s->name || s->type > WI_CKPT_TEXT || (s->type == WI_CKPT_TEXT && !s->text))
            return wi_fail(WEFT_EINVAL, "scalar %zu of a checkpoint has no name, type or text", i);
        if (json_object_get(run->scalars, s->name))
            return wi_fail(WEFT_EINVAL, "scalar \"%s\" of a checkpoint is there twice", s->name);
        if (s->type == WI_CKPT_TEXT && strnlen(s->text, TEXT_MOST) == TEXT_MOST)
            return wi_fail(WEFT_EINVAL, "scalar \"%s\" of a checkpoint is too long", s->name);
        json = scalar_json(s);
        if (!json || json_object_set_new(run->scalars, s->name, json) < 0)
            return wi_fail(WEFT_EINVAL, "scalar \"%s\" of a checkpoint is no UTF-8, or memory is out", s->name);
    }
    return WEFT_SUCCESS;
}

static weft_status client_take(struct wi_ckpt_run *run, const struct wi_ckpt_state *state)
{
    run->client_bytes = state ? state->client_bytes : 0;
    if (run->client_bytes > 0 && !state->client)
        return wi_fail(WEFT_EINVAL, "the client's bytes of a checkpoint are NULL");
    if (run->client_bytes > WI_CKPT_CLIENT_MAX)
        return wi_fail(WEFT_EINVAL, "the client's bytes of a checkpoint are %zu; at most %zu are possible",
                       run->client_bytes, WI_CKPT_CLIENT_MAX);
    run->client = wi_malloc(run->client_bytes + 1);
    if (!run->client)
        return wi_fail(WEFT_ENOMEM, "out of memory for %zu bytes of the client", run->client_bytes);
    if (run->client_bytes > 0)
        memcpy(run->client, state->client, run->client_bytes);
    run->client_digest = (struct wi_ckpt_digest){run->client_bytes, wi_ckpt_hash(run->client, run->client_bytes)};
    return WEFT_SUCCESS;
}

/* ---- Pieces ---- */

static weft_status piece_check(const struct wi_ckpt_piece *p, size_t number, size_t *elems)
{
    json_t *name;

    if (!p->name || !*p->name || strnlen(p->name, NAME_MOST + 1) > NAME_MOST)
        return wi_fail(WEFT_EINVAL, "piece %zu of a checkpoint has no name, or one of more than %d bytes", number,
                       NAME_MOST);
    if (wi_ckpt_kind_check(p->kind) < 0)
        return wi_fail(WEFT_EINVAL, "\"%s\": %s", p->name, wi_fail_text());
    if (weft_dtype_bytes(p->dtype) == 0 || p->ndims < 0 || p->ndims > WI_CKPT_DIMS_MAX || (p->ndims > 0 && !p->shape) ||
        wi_ckpt_elems(p->dtype, p->shape, (uint32_t)p->ndims, elems) < 0)
        return wi_fail(WEFT_EINVAL, "%s of \"%s\" has no valid type or shape", p->kind, p->name);
    if (p->begin > p->end || p->end > *elems)
        return wi_fail(WEFT_EINVAL, "%s of \"%s\": elements %zu to %zu of %zu are no piece", p->kind, p->name, p->begin,
                       p->end, *elems);
    if (p->begin < p->end && !p->data && !p->fetch)
        return wi_fail(WEFT_EINVAL, "%s of \"%s\" has no data", p->kind, p->name);
    if (!wi_ckpt_is_printable(p->name))
        return wi_fail(WEFT_EINVAL, "piece %zu of a checkpoint: its name has control characters", number);
    name = json_string(p->name);
    json_decref(name);
    return name ? WEFT_SUCCESS : wi_fail(WEFT_EINVAL, "piece %zu of a checkpoint: its name is no UTF-8", number);
}

static int continues(const struct wi_ckpt_tensor *t, const struct wi_ckpt_piece *p)
{
    return !wi_ckpt_tensor_order(t->name, t->kind, p->name, p->kind) && t->dtype == p->dtype &&
           t->ndims == (uint32_t)p->ndims &&
           (t->ndims == 0 || !memcmp(t->shape, p->shape, t->ndims * sizeof(*t->shape)));
}

static weft_status tensor_take(struct wi_ckpt_index *index, const struct wi_ckpt_piece *p, size_t elems)
{
    struct wi_ckpt_tensor *t = &index->tensors[index->ntensors++];

    t->name = wi_strdup(p->name);
    t->kind = wi_strdup(p->kind);
    t->shape = wi_calloc((size_t)p->ndims + 1, sizeof(*t->shape));
    if (!t->name || !t->kind || !t->shape)
        return wi_fail(WEFT_ENOMEM, "out of memory for the tensors of a checkpoint");
    t->dtype = p->dtype;
    t->ndims = (uint32_t)p->ndims;
    t->elems = elems;
    if (p->ndims > 0)
        memcpy(t->shape, p->shape, (size_t)p->ndims * sizeof(*t->shape));
    return WEFT_SUCCESS;
}

/* Pieces of one tensor that follow one another share its description. */
static weft_status index_take(struct wi_ckpt_index *index, const struct wi_ckpt_piece *pieces, size_t npieces)
{
    index->tensors = wi_calloc(npieces + 1, sizeof(*index->tensors));
    index->spans = wi_calloc(npieces + 1, sizeof(*index->spans));
    if (!index->tensors || !index->spans)
        return wi_fail(WEFT_ENOMEM, "out of memory for the %zu pieces of a checkpoint", npieces);
    for (size_t i = 0; i < npieces; i++) {
        const struct wi_ckpt_piece *p = &pieces[i];
        size_t elems;

        WI_TRY(piece_check(p, i, &elems));
        if (i == 0 || !continues(&index->tensors[index->ntensors - 1], p))
            WI_TRY(tensor_take(index, p, elems));
        index->spans[index->nspans++] =
            (struct wi_ckpt_span){(uint32_t)index->ntensors - 1, p->begin, p->end, index->nchunks};
        index->nchunks += wi_ckpt_span_chunks(index->chunk_bytes, p->dtype, p->begin, p->end);
    }
    index->chunks = wi_calloc(index->nchunks + 1, sizeof(*index->chunks));
    return index->chunks ? WEFT_SUCCESS
                         : wi_fail(WEFT_ENOMEM, "out of memory for %zu chunks of a checkpoint", index->nchunks);
}

/* Where each chunk's data is. Returns the bytes that a copy of all takes. */
static size_t sources_take(struct wi_ckpt_run *run, const struct wi_ckpt_piece *pieces)
{
    const struct wi_ckpt_index *index = &run->index;
    size_t room = 0;

    for (size_t s = 0; s < index->nspans; s++) {
        const struct wi_ckpt_span *span = &index->spans[s];
        size_t elem_bytes = weft_dtype_bytes(pieces[s].dtype), from, to;
        size_t n = wi_ckpt_span_chunks(index->chunk_bytes, pieces[s].dtype, span->begin, span->end);

        for (size_t i = 0; i < n; i++) {
            struct wi_ckpt_source *source = &run->sources[span->first_chunk + i];

            wi_ckpt_chunk_range(index, span, i, &from, &to);
            if (pieces[s].fetch) {
                source->fetch = pieces[s].fetch;
                source->arg = pieces[s].arg;
                source->first = from;
                source->elems = to - from;
            } else {
                source->data = (const unsigned char *)pieces[s].data + (from - span->begin) * elem_bytes;
            }
            source->bytes = (to - from) * elem_bytes;
            run->result.bytes += source->bytes;
            room += (source->bytes + COPY_ALIGN - 1) / COPY_ALIGN * COPY_ALIGN;
        }
    }
    return room;
}

static weft_status buffer_take(struct wi_ckpt_run *run, struct wi_ckpt_buffer *buffer, size_t room)
{
    unsigned char *at;

    if (run->options.in_place)
        return WEFT_SUCCESS;
    wi_ckpt_buffer_stop(buffer);
    WI_TRY(wi_ckpt_buffer_get(buffer, room));
    at = buffer->data;
    for (size_t c = 0; c < run->index.nchunks; c++) {
        run->sources[c].copy = at;
        at += (run->sources[c].bytes + COPY_ALIGN - 1) / COPY_ALIGN * COPY_ALIGN;
    }
    return WEFT_SUCCESS;
}

size_t wi_ckpt_run_room(const struct wi_ckpt_piece *pieces, size_t npieces)
{
    size_t room = 0;

    for (size_t i = 0; i < npieces; i++) {
        const struct wi_ckpt_piece *p = &pieces[i];

        room += (p->end - p->begin) * weft_dtype_bytes(p->dtype);
        room += wi_ckpt_span_chunks(WI_CKPT_CHUNK_BYTES, p->dtype, p->begin, p->end) * COPY_ALIGN;
    }
    return room;
}

weft_status wi_ckpt_run_fill(struct wi_ckpt_run *run, struct wi_ckpt_buffer *buffer, const char *folder,
                             const char *tag, const struct wi_ckpt_piece *pieces, size_t npieces,
                             const struct wi_ckpt_state *state, const struct wi_ckpt_options *options)
{
    memset(run, 0, sizeof(*run));
    WI_TRY(wi_ckpt_tag_check(tag));
    wi_ckpt_text_copy(run->tag, sizeof(run->tag), tag);
    WI_TRY(options_take(run, options));
    WI_TRY(folder_take(run, folder));
    if ((npieces > 0 && !pieces) || (state && state->nscalars > 0 && !state->scalars))
        return wi_fail(WEFT_EINVAL, "a checkpoint's pieces or scalars are NULL");
    WI_TRY(scalars_take(run, state));
    WI_TRY(client_take(run, state));
    WI_TRY(index_take(&run->index, pieces, npieces));
    run->sources = wi_calloc(run->index.nchunks + 1, sizeof(*run->sources));
    if (!run->sources)
        return wi_fail(WEFT_ENOMEM, "out of memory for %zu chunks of a checkpoint", run->index.nchunks);
    for (size_t i = 0; i < npieces && !run->options.in_place; i++)
        if (pieces[i].fetch)
            return wi_fail(WEFT_EINVAL, "%s of \"%s\" is fetched, and the save is not in place", pieces[i].kind,
                           pieces[i].name);
    return buffer_take(run, buffer, sources_take(run, pieces));
}
