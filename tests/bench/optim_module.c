/* SPDX-License-Identifier: BSD-3-Clause */
/* What bench_optim_torch.py calls of the optimizers: libweft_zero does not export them. */
#include "zero/optim/optim.h"

/* AdamW on everything; grad_bf16: the gradient is bf16; out may be NULL. threads are kept until another number is asked for.
 * Returns a weft_status. */
WEFT_API int bench_optim_adamw(int threads, size_t elems, float *weight, float *moment1, float *moment2,
                               const void *grad, int grad_bf16, void *out, double lr, double weight_decay,
                               uint64_t step, double grad_scale);
/* The sum of squares of fp32 gradients. */
WEFT_API double bench_optim_sum_squares(int threads, size_t elems, const float *grad);

static struct wi_optim_pool *pool;
static int pool_threads;

static weft_status use_threads(int threads)
{
    if (threads == pool_threads)
        return WEFT_SUCCESS;
    wi_optim_pool_destroy(pool);
    pool = NULL;
    pool_threads = 0;
    weft_status st = wi_optim_pool_create(threads, &pool);
    if (st == WEFT_SUCCESS)
        pool_threads = threads;
    return st;
}

int bench_optim_adamw(int threads, size_t elems, float *weight, float *moment1, float *moment2, const void *grad,
                      int grad_bf16, void *out, double lr, double weight_decay, uint64_t step, double grad_scale)
{
    weft_zero_hyper hyper = WEFT_ZERO_HYPER_INIT;
    struct wi_optim optim;
    struct wi_optim_piece piece = {.optim = &optim,
                                   .elems = elems,
                                   .weight = weight,
                                   .moment1 = moment1,
                                   .moment2 = moment2,
                                   .grad = grad,
                                   .grad_dtype = grad_bf16 ? WEFT_BFLOAT16 : WEFT_FLOAT32,
                                   .out = out,
                                   .out_dtype = WEFT_BFLOAT16};

    hyper.lr = lr;
    hyper.weight_decay = weight_decay;
    weft_status st = wi_optim_prepare(&optim, WEFT_ZERO_ADAMW, &hyper, step, grad_scale);
    if (st == WEFT_SUCCESS)
        st = use_threads(threads);
    if (st == WEFT_SUCCESS)
        wi_optim_run(pool, &piece, 1);
    return st;
}

double bench_optim_sum_squares(int threads, size_t elems, const float *grad)
{
    struct wi_optim_vector vector = {grad, elems, WEFT_FLOAT32};

    if (use_threads(threads) != WEFT_SUCCESS)
        return -1;
    return wi_optim_sum_squares(pool, &vector, 1);
}
