/* SPDX-License-Identifier: BSD-3-Clause */
/* A small model for tests of engines: units of parameters of odd sizes, and gradients that follow from rank, step, micro-batch,
 * place and the weight itself, so that an error in any of them is carried on. */
#ifndef ZT_MODEL_H
#define ZT_MODEL_H

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft_zero.h>

#include "tests/fault/fault.h"
#include "tests/unit/unit.h"

static inline weft_zero_config plain(int stage)
{
    weft_zero_config config = WEFT_ZERO_CONFIG_INIT;

    config.stage = stage;
    config.threads = 1;
    return config;
}

struct zt_spec {
    const char *name;
    size_t rows, columns; /* columns 0: one dimension */
    unsigned flags;
    int unit, group;
    size_t cut;
};

enum { ZT_UNITS = 5 };

/* Sizes of 15, 17 and 7 on up to 8 ranks, an empty parameter, a scalar-like one, frozen and whole ones, a unit without
 * parameters. */
static const struct zt_spec zt_specs[] = {
    {"embed.weight", 37, 12, 0, 0, 0, 0},
    {"block0.weight", 15, 17, 0, 1, 0, 0},
    {"block0.bias", 15, 0, 0, 1, 1, 0},
    {"block0.scale", 1, 0, WEFT_ZERO_FROZEN, 1, 0, 0},
    {"block1.weight", 17, 15, WEFT_ZERO_WHOLE, 2, 0, 0},
    {"block1.small", 7, 0, 0, 2, 1, 0},
    {"block1.empty", 0, 3, 0, 2, 0, 0},
    {"block1.whole", 5, 9, WEFT_ZERO_WHOLE, 2, 1, 0},
    {"head.weight", 6, 24, 0, 3, 0, 24},
    {"head.frozen", 4, 31, WEFT_ZERO_FROZEN, 3, 0, 0},
    {"head.bias", 6, 0, 0, 3, 1, 0},
};
enum { ZT_PARAMS = sizeof zt_specs / sizeof *zt_specs, ZT_MOST = 640 };

/* Optimizers of whole matrices, of other matrices, and of vectors; 0: the configuration's. */
static weft_zero_optimizer zt_whole_optimizer, zt_matrix_optimizer, zt_vector_optimizer;

static inline weft_zero_optimizer zt_optimizer(int p)
{
    if (zt_specs[p].flags & WEFT_ZERO_FROZEN)
        return (weft_zero_optimizer)0;
    return zt_specs[p].flags & WEFT_ZERO_WHOLE              ? zt_whole_optimizer
           : zt_specs[p].columns && zt_specs[p].rows ? zt_matrix_optimizer
                                                            : zt_vector_optimizer;
}

static inline size_t zt_elems(int p)
{
    return zt_specs[p].rows * (zt_specs[p].columns || zt_specs[p].rows == 0 ? zt_specs[p].columns : 1);
}

static inline float zt_initial(int p, size_t i)
{
    return .02f * sinf((float)(p * 131 + (int)i) * .7f);
}

/* The gradient that a rank computes; exact for a given weight. */
static inline float zt_gradient(int rank, int step, int micro, int p, size_t i, float weight)
{
    unsigned x = (unsigned)rank * 7919 + (unsigned)step * 104729 + (unsigned)micro * 1299709 + (unsigned)p * 15485863 +
                 (unsigned)i * 32452843;

    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    return weight + ((float)(x % 20001) - 10000.f) * 1e-5f;
}

struct zt_engine {
    weft_zero *zero;
    int params[ZT_PARAMS], units[ZT_UNITS];
    weft_dtype dtype;
    weft_zero_optimizer optimizer; /* the configuration's */
    int rank;
};

static inline void zt_seal(struct zt_engine *e, struct ft_rank *f, const weft_zero_config *config, weft_dtype dtype)
{
    float values[ZT_MOST];
    static const char *const names[ZT_UNITS] = {"embed", "blocks.0", "blocks.1", "head", "nothing"};

    *e = (struct zt_engine){.dtype = dtype, .optimizer = config->optimizer, .rank = f->rank};
    WT_REQUIRE_OK(weft_zero_create(f->comm, config, &e->zero));
    for (int p = 0; p < ZT_PARAMS; p++) {
        weft_zero_param param = WEFT_ZERO_PARAM_INIT;
        size_t shape[2] = {zt_specs[p].rows, zt_specs[p].columns};

        param.name = zt_specs[p].name;
        param.dtype = dtype;
        param.shape = shape;
        param.ndims = zt_specs[p].columns || !zt_specs[p].rows ? 2 : 1;
        param.flags = zt_specs[p].flags;
        param.optimizer = zt_optimizer(p);
        param.group = zt_specs[p].group;
        param.cut_elems = zt_specs[p].cut;
        WT_REQUIRE_OK(weft_zero_param_add(e->zero, &param, &e->params[p]));
    }
    for (int u = 0; u < ZT_UNITS; u++) {
        int list[ZT_PARAMS], n = 0;

        for (int p = 0; p < ZT_PARAMS; p++)
            if (zt_specs[p].unit == u)
                list[n++] = e->params[p];
        WT_REQUIRE_OK(weft_zero_unit_add(e->zero, names[u], list, n, &e->units[u]));
    }
    WT_REQUIRE_OK(weft_zero_seal(e->zero));
    for (int p = 0; p < ZT_PARAMS; p++) {
        for (size_t i = 0; i < zt_elems(p); i++)
            values[i] = zt_initial(p, i);
        WT_REQUIRE_OK(weft_zero_param_set(e->zero, e->params[p], WEFT_ZERO_WEIGHT, values, WEFT_FLOAT32));
    }
}

static inline float zt_load(const void *data, weft_dtype dtype, size_t i)
{
    uint16_t half;
    uint32_t bits;
    float value;

    if (dtype == WEFT_FLOAT32) {
        memcpy(&value, (const char *)data + 4 * i, 4);
        return value;
    }
    memcpy(&half, (const char *)data + 2 * i, 2);
    bits = (uint32_t)half << 16;
    memcpy(&value, &bits, 4);
    return value;
}

/* The gradients of one parameter, handed in, or written to their place. */
static inline void zt_backward_param(struct zt_engine *e, int p, int step, int micro, int in_place)
{
    float grads[ZT_MOST];
    void *data, *place;
    int add = -1;

    WT_REQUIRE_OK(weft_zero_param_data(e->zero, e->params[p], &data));
    WT_REQUIRE(data != NULL);
    for (size_t i = 0; i < zt_elems(p); i++)
        grads[i] = zt_gradient(e->rank, step, micro, p, i, zt_load(data, e->dtype, i));
    if (zt_specs[p].flags & WEFT_ZERO_FROZEN)
        return;
    if (!in_place) {
        WT_REQUIRE_OK(weft_zero_grad_add(e->zero, e->params[p], grads, WEFT_FLOAT32));
        return;
    }
    WT_REQUIRE_OK(weft_zero_grad_buffer(e->zero, e->params[p], &place, &add));
    WT_CHECK(add == 0 || add == 1);
    for (size_t i = 0; i < zt_elems(p); i++)
        ((float *)place)[i] = add ? ((float *)place)[i] + grads[i] : grads[i];
    WT_REQUIRE_OK(weft_zero_grad_ready(e->zero, e->params[p]));
}

/* One micro-batch: forward through all units, backward in the other order, and one gradient that never comes in every third
 * step. */
static inline void zt_micro_batch(struct zt_engine *e, int step, int micro, int in_place)
{
    for (int u = 0; u < ZT_UNITS; u++) {
        WT_REQUIRE_OK(weft_zero_pre_forward(e->zero, e->units[u]));
        WT_REQUIRE_OK(weft_zero_post_forward(e->zero, e->units[u]));
    }
    for (int u = ZT_UNITS - 1; u >= 0; u--) {
        WT_REQUIRE_OK(weft_zero_pre_backward(e->zero, e->units[u]));
        for (int p = ZT_PARAMS - 1; p >= 0; p--)
            if (zt_specs[p].unit == u && !(step % 3 == 2 && p == 5))
                zt_backward_param(e, p, step, micro, in_place);
        WT_REQUIRE_OK(weft_zero_post_backward(e->zero, e->units[u]));
    }
    WT_REQUIRE_OK(weft_zero_micro_batch_end(e->zero));
}

/* All weights, one parameter after the other. */
static inline size_t zt_weights(struct zt_engine *e, weft_zero_what what, float *out)
{
    size_t n = 0;

    for (int p = 0; p < ZT_PARAMS; p++) {
        if (what != WEFT_ZERO_WEIGHT && (zt_specs[p].flags & WEFT_ZERO_FROZEN))
            continue;
        weft_zero_optimizer own = zt_optimizer(p) ? zt_optimizer(p) : e->optimizer;

        if (what == WEFT_ZERO_MOMENT2 && (own == WEFT_ZERO_MUON || own == WEFT_ZERO_SGD))
            continue;
        WT_REQUIRE_OK(weft_zero_param_get(e->zero, e->params[p], what, out + n, WEFT_FLOAT32));
        n += zt_elems(p);
    }
    return n;
}

#endif
