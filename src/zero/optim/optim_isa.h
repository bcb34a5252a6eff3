/* SPDX-License-Identifier: BSD-3-Clause */
/* The optimizers' loops for one instruction set, and the pool's way to share out a call. */
#ifndef WI_ZERO_OPTIM_ISA_H
#define WI_ZERO_OPTIM_ISA_H

#include <stddef.h>

#include "zero/optim/optim.h"

/* The loops. */
enum wi_optim_form {
    WI_OPTIM_ADAMW,
    WI_OPTIM_ADAM,
    WI_OPTIM_SGD,      /* without momentum */
    WI_OPTIM_MOMENTUM, /* sgd with it */
    WI_OPTIM_NESTEROV,
    WI_OPTIM_LION,
    WI_OPTIM_ADAGRAD,
    WI_OPTIM_LAMB, /* its second pass */
    WI_OPTIM_FORMS
};

/* dtypes of gradients, of stored weights (float: none is stored) and of conversions. */
enum wi_optim_type { WI_OPTIM_F32, WI_OPTIM_BF16, WI_OPTIM_F16, WI_OPTIM_TYPES };

/* moment1 and moment2 as the form needs them. */
typedef void (*wi_optim_update_fn)(const struct wi_optim *optim, size_t elems, float *weight, float *moment1, float *moment2,
                                   const void *grad, void *out);

/* lamb's first pass; squares of weights and updates are added to `lanes`, of element i to lane i modulo their number. */
typedef void (*wi_optim_lamb_fn)(const struct wi_optim *optim, size_t elems, const float *weight, float *moment1, float *moment2,
                                 const void *grad, double lanes[2][WI_OPTIM_SUM_LANES]);

/* c = alpha a b + beta d, or a b if d is NULL, in fp32, of `rows` rows and `columns` columns from row and column on. Each product
 * is rounded, and added to the sum of those before it. rows are a multiple of 4, columns of WI_OPTIM_COLUMNS. */
#define WI_OPTIM_ROWS 4
#define WI_OPTIM_COLUMNS 32
struct wi_optim_matmul {
    const float *a, *b, *d;
    float *c;
    size_t a_stride, b_stride, c_stride, inner; /* d has c's */
    float alpha, beta;
};
typedef void (*wi_optim_matmul_fn)(const struct wi_optim_matmul *m, size_t row, size_t rows, size_t column, size_t columns);

struct wi_optim_isa {
    wi_optim_update_fn update[WI_OPTIM_FORMS][WI_OPTIM_TYPES][WI_OPTIM_TYPES]; /* [form][gradient][stored weight] */
    wi_optim_lamb_fn lamb[WI_OPTIM_TYPES];                                     /* [gradient] */
    wi_optim_matmul_fn matmul;
    double (*sum_squares[WI_OPTIM_TYPES])(const void *data, size_t elems);
    void (*convert[WI_OPTIM_TYPES][WI_OPTIM_TYPES][2])(void *dst, const void *src, size_t elems); /* [dst][src][add] */
};

extern const struct wi_optim_isa wi_optim_isa_scalar;
#if defined(__x86_64__)
extern const struct wi_optim_isa wi_optim_isa_avx2, wi_optim_isa_avx512;
#endif

const struct wi_optim_isa *wi_optim_isa_current(void);
enum wi_optim_type wi_optim_type_of(weft_dtype dtype);

/* Run work(arg, own, piece, from, to) for parts of pieces, of at most WI_OPTIM_PART_ELEMS, that together are all of them, on the
 * pool's threads. Each thread has WI_OPTIM_OWN_BYTES at `own` during the call, zeroed at first. */
#define WI_OPTIM_PART_ELEMS (32768u + 256u)
#define WI_OPTIM_OWN_BYTES 16
typedef void (*wi_optim_part_fn)(void *arg, void *own, const struct wi_optim_piece *piece, size_t from, size_t to);
void wi_optim_parts(struct wi_optim_pool *pool, const struct wi_optim_piece *pieces, size_t npieces, wi_optim_part_fn work,
                    void *arg);

#endif
