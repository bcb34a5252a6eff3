/* SPDX-License-Identifier: BSD-3-Clause */
/* Optimizers on pieces of shards: one pass over memory that unscales and clips the gradient, updates weight and moments, and
 * stores the 16-bit weight. Every element is computed by itself, in fp32, with the same operations on every instruction set: the
 * result depends neither on the instruction set nor on how pieces are cut or shared among threads. */
#ifndef WI_ZERO_OPTIM_H
#define WI_ZERO_OPTIM_H

#include <stddef.h>
#include <weft/weft_zero.h>

/* What is the same for all pieces of a group in one step. */
struct wi_optim {
    weft_zero_optimizer kind;
    float grad_scale; /* multiplies gradients: 1 / (divisor * loss scale), and clipping's factor */
    float lr, weight_decay, eps, beta1, beta2;
    float momentum, dampening;
    int nesterov, maximize, first; /* first: the first step, in which sgd's momentum is the gradient */
    /* Derived in double, rounded once: */
    float step_size, bias2_sqrt, decay, one_minus_beta1, one_minus_beta2;
};

/* Consecutive elements of one parameter. */
struct wi_optim_piece {
    const struct wi_optim *optim;
    size_t elems;
    float *weight;           /* fp32, updated */
    float *moment1, *moment2; /* NULL where the optimizer has none */
    const void *grad;
    weft_dtype grad_dtype;   /* WEFT_FLOAT32, WEFT_BFLOAT16, WEFT_FLOAT16 */
    void *out;               /* NULL, or where the updated weight goes in out_dtype */
    weft_dtype out_dtype;    /* WEFT_BFLOAT16 or WEFT_FLOAT16 */
};

/* Fill `optim` for step number `step`, from 1. WEFT_EINVAL: a hyper-parameter is no number or out of its range; the text names it. */
weft_status wi_optim_prepare(struct wi_optim *optim, weft_zero_optimizer kind, const weft_zero_hyper *hyper, uint64_t step, double grad_scale);
/* How many moments of fp32 an optimizer keeps for each element: 0 to 2. */
int wi_optim_moments(weft_zero_optimizer kind);
const char *wi_optim_name(weft_zero_optimizer kind);

/* Threads that share the work of one call at a time; `threads` counts the caller. */
struct wi_optim_pool;
weft_status wi_optim_pool_create(int threads, struct wi_optim_pool **pool);
void wi_optim_pool_destroy(struct wi_optim_pool *pool);

/* Update all pieces. Blocks until it is done. */
void wi_optim_run(struct wi_optim_pool *pool, const struct wi_optim_piece *pieces, size_t npieces);

/* The sum of squares of all elements, Inf or NaN if one is. In double; the same for every number of threads and instruction set. */
struct wi_optim_vector {
    const void *data;
    size_t elems;
    weft_dtype dtype;
};
double wi_optim_sum_squares(struct wi_optim_pool *pool, const struct wi_optim_vector *vectors, size_t nvectors);

/* dst = src, or dst += src, in dst's dtype, computed in fp32 and rounded once. */
void wi_optim_convert(struct wi_optim_pool *pool, void *dst, weft_dtype dst_dtype, const void *src, weft_dtype src_dtype, size_t elems, int add);

#endif
