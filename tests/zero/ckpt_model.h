/* SPDX-License-Identifier: BSD-3-Clause */
/* A model to be saved: tensors of all sorts, cut among ranks at random, with values that tell tensor, element and version. */
#ifndef CKPT_MODEL_H
#define CKPT_MODEL_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

#include "../harness/harness.h"
#include "base/alloc.h"
#include "zero/ckpt/ckpt.h"

struct cm_tensor {
    const char *name, *kind;
    weft_dtype dtype;
    int ndims;
    size_t shape[3];
    int frozen; /* the same in all versions */
};

static const struct cm_tensor cm_tensors[] = {
    {"embed.weight", "weight", WEFT_FLOAT32, 2, {61, 33}, 0},  {"embed.weight", "moment1", WEFT_FLOAT32, 2, {61, 33}, 0},
    {"embed.weight", "moment2", WEFT_FLOAT32, 2, {61, 33}, 0}, {"layer.0/bias", "weight", WEFT_BFLOAT16, 1, {15}, 0},
    {"scale", "weight", WEFT_FLOAT64, 0, {0}, 0},              {"empty", "weight", WEFT_FLOAT32, 2, {0, 4}, 0},
    {"gew\xc3\xb6hnlich", "weight", WEFT_INT8, 3, {7, 5, 3}, 0}, {"tied", "weight", WEFT_FLOAT32, 2, {50, 40}, 1},
    {"frozen", "weight", WEFT_FLOAT32, 2, {100, 41}, 1},
};
enum { CM_TENSORS = sizeof(cm_tensors) / sizeof(cm_tensors[0]), CM_PIECES_MAX = 400, CM_CHUNK = 1024 };

static inline uint64_t cm_mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static inline uint64_t cm_random(uint64_t *state)
{
    return cm_mix(*state += 0x9e3779b97f4a7c15u);
}

static inline size_t cm_elems(const struct cm_tensor *t)
{
    size_t elems = 1;

    for (int i = 0; i < t->ndims; i++)
        elems *= t->shape[i];
    return elems;
}

static inline unsigned char cm_byte(size_t tensor, int version, size_t byte)
{
    return (unsigned char)cm_mix((tensor + 1) * 1000003 + byte * 31 +
                                 (cm_tensors[tensor].frozen ? 0 : (uint64_t)version) * 0x10001);
}

struct cm_pieces {
    size_t count;
    struct wi_ckpt_piece list[CM_PIECES_MAX];
    size_t tensor[CM_PIECES_MAX];
};

/* The pieces of one of `nranks`: each tensor is cut at random places, and each part given to a random rank. The same `seed` on
 * all. */
static inline void cm_cut(struct cm_pieces *pieces, int rank, int nranks, uint64_t seed)
{
    pieces->count = 0;
    for (size_t t = 0; t < CM_TENSORS; t++) {
        size_t elems = cm_elems(&cm_tensors[t]), at = 0;
        int first = 1;

        while (at < elems || first) {
            size_t n = elems == at ? 0 : 1 + cm_random(&seed) % (elems - at);
            int owner = (int)(cm_random(&seed) % (uint64_t)nranks);
            struct wi_ckpt_piece *p = &pieces->list[pieces->count];

            first = 0;
            if (owner == rank) {
                *p = (struct wi_ckpt_piece){cm_tensors[t].name, cm_tensors[t].kind, cm_tensors[t].dtype, cm_tensors[t].ndims,
                                            cm_tensors[t].shape, at, at + n, NULL, NULL, NULL};
                p->data = calloc(n * weft_dtype_bytes(p->dtype) + 1, 1);
                pieces->tensor[pieces->count++] = t;
            }
            at += n;
        }
    }
}

static inline void cm_free(struct cm_pieces *pieces)
{
    for (size_t i = 0; i < pieces->count; i++)
        free(pieces->list[i].data);
    pieces->count = 0;
}

static inline void cm_fill(struct cm_pieces *pieces, int version)
{
    for (size_t i = 0; i < pieces->count; i++) {
        const struct wi_ckpt_piece *p = &pieces->list[i];
        size_t elem_bytes = weft_dtype_bytes(p->dtype);

        for (size_t b = 0; b < (p->end - p->begin) * elem_bytes; b++)
            ((unsigned char *)p->data)[b] = cm_byte(pieces->tensor[i], version, p->begin * elem_bytes + b);
    }
}

/* How many bytes are not those of the version. */
static inline size_t cm_wrong(const struct cm_pieces *pieces, int version)
{
    size_t wrong = 0;

    for (size_t i = 0; i < pieces->count; i++) {
        const struct wi_ckpt_piece *p = &pieces->list[i];
        size_t elem_bytes = weft_dtype_bytes(p->dtype);

        for (size_t b = 0; b < (p->end - p->begin) * elem_bytes; b++)
            wrong += ((unsigned char *)p->data)[b] != cm_byte(pieces->tensor[i], version, p->begin * elem_bytes + b);
    }
    return wrong;
}

struct cm_save {
    const char *folder;
    int version, in_place;
    struct wi_ckpt_options options;
};

/* Save a version under the tag "step<version>", with its number as a scalar. */
static inline weft_status cm_save_pieces(struct wi_ckpt *ckpt, const struct cm_save *s, struct cm_pieces *pieces,
                                         struct wi_ckpt_result *result)
{
    struct wi_ckpt_scalar scalars[] = {{"step", WI_CKPT_INTEGER, s->version, 0, NULL},
                                       {"loss_scale", WI_CKPT_REAL, 0, 1.0 / (3 + s->version), NULL},
                                       {"optimizer", WI_CKPT_TEXT, 0, 0, "adamw"}};
    char tag[32], client[16];
    struct wi_ckpt_state state = {scalars, 3, client, 0};
    struct wi_ckpt_options options = s->options;
    weft_status st;

    if (!options.chunk_bytes)
        options.chunk_bytes = CM_CHUNK;
    snprintf(tag, sizeof(tag), "step%d", s->version);
    state.client_bytes = (size_t)snprintf(client, sizeof(client), "client %d", s->version);
    cm_fill(pieces, s->version);
    st = wi_ckpt_begin(ckpt, s->folder, tag, pieces->list, pieces->count, &state, &options);
    if (st < 0)
        return st;
    wi_ckpt_snapshot_wait(ckpt);
    cm_fill(pieces, 1000); /* what is saved is what was there at begin */
    return wi_ckpt_wait(ckpt, result);
}

/* One rank without a communicator saves. */
static inline weft_status cm_save_alone(const char *folder, int version, struct wi_ckpt_options options, uint64_t seed,
                                        struct wi_ckpt_result *result)
{
    struct cm_save s = {folder, version, 0, options};
    static struct cm_pieces pieces;
    struct wi_ckpt *ckpt;
    weft_status st = wi_ckpt_create(NULL, 0, &ckpt);

    if (st < 0)
        return st;
    cm_cut(&pieces, 0, 1, seed);
    st = cm_save_pieces(ckpt, &s, &pieces, result);
    cm_free(&pieces);
    wi_ckpt_destroy(ckpt);
    return st;
}

/* Read all pieces of a rank and compare. Returns the version that was there, or a failure. -1000: it is mixed. */
enum { CM_MIXED = -1000 };
static inline int cm_load(const char *folder, const char *tag, int fall_back, weft_comm *comm, int rank, int nranks, uint64_t seed)
{
    static struct cm_pieces pieces;
    struct wi_ckpt_reader *reader;
    int64_t step = -1;
    weft_status st = wi_ckpt_open(folder, tag, fall_back, comm, &reader);

    if (st < 0)
        return st;
    cm_cut(&pieces, rank, nranks, seed);
    st = wi_ckpt_check(reader, pieces.list, pieces.count);
    if (st >= 0)
        st = wi_ckpt_read(reader, pieces.list, pieces.count);
    if (st >= 0)
        st = wi_ckpt_integer(reader, "step", &step);
    if (st >= 0) {
        void *client;
        size_t bytes;

        st = wi_ckpt_client(reader, &client, &bytes);
        if (st >= 0) {
            char want[16];

            if (bytes != (size_t)snprintf(want, sizeof(want), "client %d", (int)step) || memcmp(client, want, bytes))
                st = (weft_status)CM_MIXED;
            wi_free(client);
        }
    }
    if (st >= 0 && cm_wrong(&pieces, (int)step))
        st = (weft_status)CM_MIXED;
    cm_free(&pieces);
    wi_ckpt_close(reader);
    return st < 0 ? (int)st : (int)step;
}

#endif
