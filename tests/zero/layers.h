/* SPDX-License-Identifier: BSD-3-Clause */
/* A model of six units of one parameter each, whose gathers, reductions and bytes can be counted by hand. */
#ifndef ZT_LAYERS_H
#define ZT_LAYERS_H

#include "tests/zero/model.h"

enum { UNITS = 6, ELEMS = 256, SMALL = ELEMS / 2, TOTAL = UNITS * ELEMS };

/* Layers of one parameter, all of ELEMS elements but the first, which has SMALL: on two ranks shards are without padding. */
struct layers {
    weft_zero *zero;
    int params[UNITS], units[UNITS], rank, nranks;
};

static inline size_t elems_of(int u)
{
    return u ? ELEMS : SMALL;
}

/* Multiples of 1/1024: their sums are exact in fp32, and so is what powers of two do to them. */
static inline float number(int a, int b, int c, size_t i)
{
    unsigned x = (unsigned)(a * 7919 + b * 104729 + c * 15485863) + (unsigned)i * 32452843u;

    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    return (float)((int)(x % 2001) - 1000) / 1024;
}

static inline void open_layers(struct layers *l, struct ft_rank *f, const weft_zero_config *config, weft_dtype dtype)
{
    static const char *const names[UNITS] = {"a", "b", "c", "d", "e", "f"};
    float values[ELEMS];

    *l = (struct layers){.rank = f->rank, .nranks = f->nranks};
    WT_REQUIRE_OK(weft_zero_create(f->comm, config, &l->zero));
    for (int u = 0; u < UNITS; u++) {
        weft_zero_param param = WEFT_ZERO_PARAM_INIT;
        size_t elems = elems_of(u);

        param.name = names[u];
        param.dtype = dtype;
        param.ndims = 1;
        param.shape = &elems;
        WT_REQUIRE_OK(weft_zero_param_add(l->zero, &param, &l->params[u]));
        WT_REQUIRE_OK(weft_zero_unit_add(l->zero, names[u], &l->params[u], 1, &l->units[u]));
    }
    WT_REQUIRE_OK(weft_zero_seal(l->zero));
    for (int u = 0; u < UNITS; u++) {
        for (size_t i = 0; i < elems_of(u); i++)
            values[i] = number(u, 1, 2, i);
        WT_REQUIRE_OK(weft_zero_param_set(l->zero, l->params[u], WEFT_ZERO_WEIGHT, values, WEFT_FLOAT32));
    }
}

static inline void forward(struct layers *l, int u)
{
    WT_REQUIRE_OK(weft_zero_pre_forward(l->zero, l->units[u]));
    WT_REQUIRE_OK(weft_zero_post_forward(l->zero, l->units[u]));
}

static inline void give(struct layers *l, int u, int step, int micro, float scale)
{
    float grad[ELEMS];

    for (size_t i = 0; i < elems_of(u); i++)
        grad[i] = scale * number(l->rank + 10 * u, step, micro, i);
    WT_REQUIRE_OK(weft_zero_grad_add(l->zero, l->params[u], grad, WEFT_FLOAT32));
}

static inline void backward(struct layers *l, int u, int step, int micro, float scale)
{
    WT_REQUIRE_OK(weft_zero_pre_backward(l->zero, l->units[u]));
    give(l, u, step, micro, scale);
    WT_REQUIRE_OK(weft_zero_post_backward(l->zero, l->units[u]));
}

static inline void micro_batch(struct layers *l, int step, int micro, float scale)
{
    for (int u = 0; u < UNITS; u++)
        forward(l, u);
    for (int u = UNITS - 1; u >= 0; u--)
        backward(l, u, step, micro, scale);
    WT_REQUIRE_OK(weft_zero_micro_batch_end(l->zero));
}

static const weft_zero_hyper hyper = {sizeof(weft_zero_hyper), 1e-2, .9, .99, 1e-8, .1, 0, 0, 0, 0, 0, 10, .01};

static inline void step(struct layers *l)
{
    WT_REQUIRE_OK(weft_zero_step(l->zero, &hyper, 1, NULL));
}

static inline size_t weights(struct layers *l, float *out)
{
    size_t n = 0;

    for (int u = 0; u < UNITS; u++) {
        WT_REQUIRE_OK(weft_zero_param_get(l->zero, l->params[u], WEFT_ZERO_WEIGHT, out + n, WEFT_FLOAT32));
        n += elems_of(u);
    }
    return n;
}

static inline weft_zero_stats stats_of(struct layers *l)
{
    weft_zero_stats stats = WEFT_ZERO_STATS_INIT;

    WT_REQUIRE_OK(weft_zero_get_stats(l->zero, &stats));
    return stats;
}

#endif
