/* SPDX-License-Identifier: BSD-3-Clause */
/* Optimizers on pieces of shards: one pass over memory that unscales and clips the gradient, updates weight and moments, and
 * stores the 16-bit weight. Weights and moments are fp32 in memory; what happens to an element between load and store is computed
 * in double, but for roots of second moments, which are of fp32, by the same operations on every instruction set. The result
 * depends neither on the instruction set nor on how pieces are cut, aligned or shared among threads. A NaN that is stored is always
 * the same one. */
#ifndef WI_ZERO_OPTIM_H
#define WI_ZERO_OPTIM_H

#include <stddef.h>
#include <weft/weft_zero.h>

/* What is the same for all pieces of a group in one step: filled by wi_optim_prepare. */
struct wi_optim {
    weft_zero_optimizer kind;
    int form;                  /* enum wi_optim_form: the loop that does it */
    int first;                 /* sgd's momentum becomes the gradient, whatever it was before: of step 1. Callers may set it */
    double grad_scale;         /* multiplies gradients, negative to maximize */
    double l2;                 /* times the weight is added to the gradient */
    double decay;              /* multiplies the weight */
    double keep1, add1;        /* moment1 = keep1 moment1 + add1 gradient */
    double keep2, add2;        /* moment2 = keep2 moment2 + add2 gradient^2; lion: of its moment, and 1 are of its direction */
    double step_size, eps;     /* weight -= step_size direction / (sqrt(moment2) + eps), adam's bias correction in both */
    double correct1, correct2; /* lamb: of the first moment and of the second one's root */
    const weft_zero_hyper *hyper; /* the program's optimizer: what it was prepared with, which must stay */
    uint64_t step;
};

/* Consecutive elements of one parameter. Pointers may have any alignment; none overlap. */
struct wi_optim_piece {
    const struct wi_optim *optim;
    size_t elems;
    float *weight;            /* fp32, updated */
    float *moment1, *moment2; /* NULL where the optimizer has none. Adagrad's is moment2 (or moment1 if moment2 is NULL); sgd needs
                                 none in a step whose momentum is 0 */
    const void *grad;
    weft_dtype grad_dtype;    /* WEFT_FLOAT32, WEFT_BFLOAT16, WEFT_FLOAT16 */
    void *out;                /* NULL, or where the updated weight goes in out_dtype, rounded to nearest even */
    weft_dtype out_dtype;     /* WEFT_BFLOAT16 or WEFT_FLOAT16 */
    int param;                /* the program's optimizer: of which parameter, */
    size_t first;             /* and which of its elements is the first */
    size_t rows;              /* of a whole matrix */
};

/* What is done to some pieces, in one call. */
struct wi_optim_call {
    struct wi_optim_pool *pool;
    const struct wi_optim_piece *pieces;
    size_t npieces;
    const struct wi_optim_codes *codes; /* of each piece, whose own moments are not used then; or NULL */
    struct wi_optim_sums *const *sums;  /* the first pass of an optimizer that takes two: of each piece; else NULL */
    weft_zero_update_fn update;         /* the program's optimizer */
    void *update_arg;
    void *scratch;                      /* as the row says, or for codes wi_optim_coded_bytes; aligned to 64 bytes */
};

/* What an optimizer is. */
enum {
    WI_OPTIM_CODED = 1,      /* its moments may be kept as codes */
    WI_OPTIM_MATRICES = 2,   /* a piece is a whole matrix, in memory */
    WI_OPTIM_TWO_PASSES = 4, /* the first one adds up `sums` of whole parameters, which `take_sums` has before the second */
    WI_OPTIM_PROGRAM = 8     /* config.update does it, and config.update_moments says how many moments it has */
};
struct wi_optim_ops {
    weft_zero_optimizer kind;
    unsigned flags;
    int moments;      /* of fp32 for each element, at most 2 */
    unsigned squares; /* 1 << m: moment m is a sum of squares, by whose root is divided */
    /* WEFT_EINVAL: a hyper-parameter that this optimizer has is no number or out of its range; the text names it. */
    weft_status (*check)(weft_zero_optimizer kind, const weft_zero_hyper *hyper);
    /* What differs from what wi_optim_prepare has filled; NULL: nothing. */
    void (*prepare)(struct wi_optim *optim, const weft_zero_hyper *hyper, uint64_t step);
    /* Both sums are of the whole parameter, over all ranks. */
    void (*take_sums)(struct wi_optim *optim, double weight, double update);
    /* Of scratch memory, for a pool of so many threads and the largest matrix; NULL: none. */
    size_t (*scratch_bytes)(int threads, size_t rows, size_t columns);
    void (*run)(const struct wi_optim_call *call);
};
/* The row of a kind; NULL: there is no such optimizer. */
const struct wi_optim_ops *wi_optim_find(weft_zero_optimizer kind);

/* Fill `optim` for step number `step`, from 1. grad_scale: 1 / (divisor * loss scale), and clipping's factor. WEFT_EINVAL: a
 * hyper-parameter that this optimizer has is no number or out of its range; the text names it, and optim is as it was. */
weft_status wi_optim_prepare(struct wi_optim *optim, weft_zero_optimizer kind, const weft_zero_hyper *hyper, uint64_t step,
                             double grad_scale);
/* "adamw"; "unknown" for a kind that does not exist. */
const char *wi_optim_name(weft_zero_optimizer kind);

/* Threads that share the work of one call at a time; `threads` counts the caller. They start with the first call that has work for
 * them; where the system refuses one, the others do its work. In a child after fork the pool goes on with threads of its own.
 * WEFT_EINVAL: threads is not 1 to WI_OPTIM_THREADS_MAX. Wherever a pool is asked for, NULL is the caller alone. */
#define WI_OPTIM_THREADS_MAX 1024
struct wi_optim_pool;
weft_status wi_optim_pool_create(int threads, struct wi_optim_pool **pool);
void wi_optim_pool_destroy(struct wi_optim_pool *pool);

/* Run work(arg, cursor, unit) for every unit from 0 to nunits - 1, each once, in any order and on any thread. Each thread has
 * WI_OPTIM_CURSOR_BYTES at `cursor` during the call, zeroed at first. */
#define WI_OPTIM_CURSOR_BYTES 32
typedef void (*wi_optim_work_fn)(void *arg, void *cursor, size_t unit);
void wi_optim_pool_run(struct wi_optim_pool *pool, wi_optim_work_fn work, void *arg, size_t nunits);

/* Update all pieces. Blocks until it is done. */
void wi_optim_run(struct wi_optim_pool *pool, const struct wi_optim_piece *pieces, size_t npieces);

/* Lamb takes two passes. The first one updates moments and adds up squares of the weight and of its update, in double; the second,
 * wi_optim_run, whose step_size has been multiplied by the ratio of the norms, updates the weight. Pieces that have the same sums
 * are consecutive parts of one tensor, each but the last of a multiple of WI_OPTIM_SUM_LANES elements: how many they are makes no
 * difference to the sums, nor do threads and instruction set. */
#define WI_OPTIM_SUM_LANES 16
struct wi_optim_sums {
    double lanes[2][WI_OPTIM_SUM_LANES]; /* of a block that has not ended */
    double sum[2];                       /* of those that have: of weights, of updates */
    size_t elems;
};
/* sums: for each piece, NULL where they are not wanted. */
void wi_optim_lamb_moments(struct wi_optim_pool *pool, const struct wi_optim_piece *pieces, struct wi_optim_sums *const *sums,
                           size_t npieces);
/* All has been added: both sums of squares. */
void wi_optim_sums_end(struct wi_optim_sums *sums, double *weight, double *update);

/* The program's optimizer, and memory of wi_optim_user_bytes for its gradients. */
struct wi_optim_user {
    weft_zero_update_fn update;
    void *arg;
    float *scratch;
};
size_t wi_optim_user_bytes(int threads);
/* Update all pieces by it. Pieces have both moments or NULL, whatever it needs. */
void wi_optim_run_user(struct wi_optim_pool *pool, const struct wi_optim_user *user, const struct wi_optim_piece *pieces,
                       size_t npieces);

/* Moments that are kept as bfloat16, or as 8-bit codes of blocks: block k is of elements 256 k to 256 k + 255 of the piece. */
#define WI_OPTIM_BLOCK 256u
struct wi_optim_codes {
    void *codes[2];   /* NULL: no such moment */
    float *scales[2]; /* one for each block; of bfloat16 NULL */
};
/* Update all pieces, whose own moments are not used. scratch: of wi_optim_coded_bytes. */
size_t wi_optim_coded_bytes(int threads);
void wi_optim_run_coded(struct wi_optim_pool *pool, const struct wi_optim_piece *pieces, const struct wi_optim_codes *codes,
                        size_t npieces, float *scratch);
/* Elements `from` to `from` + elems of a piece's moment number m (0 or 1; the second is never negative); and the other way: whole
 * blocks, or the last elements of the piece. */
void wi_optim_decode(const struct wi_optim_codes *codes, int m, size_t from, size_t elems, float *values);
void wi_optim_encode(const struct wi_optim_codes *codes, int m, size_t from, size_t elems, const float *values);

/* One step of Muon on one matrix, row by row in memory. */
struct wi_optim_muon {
    size_t rows, columns;
    float *weight, *moment;
    const void *grad;
    weft_dtype grad_dtype;
    void *out;                /* NULL, or where the updated weight goes in out_dtype */
    weft_dtype out_dtype;
    double grad_scale;        /* negative to maximize */
    const weft_zero_hyper *hyper;
    float *scratch;           /* of wi_optim_muon_bytes, aligned to 64 bytes */
};
size_t wi_optim_muon_bytes(size_t rows, size_t columns);
/* The bits depend neither on the instruction set nor on the number of threads. */
void wi_optim_muon(struct wi_optim_pool *pool, const struct wi_optim_muon *muon);

/* Sums of squares of all elements of each vector, Inf or NaN if one is. In double; the same for every number of threads and
 * instruction set, and whichever vectors are beside it. */
struct wi_optim_vector {
    const void *data;
    size_t elems;
    weft_dtype dtype;
};
void wi_optim_squares(struct wi_optim_pool *pool, const struct wi_optim_vector *vectors, size_t nvectors, double *sums);
/* Those of all vectors, added. */
double wi_optim_sum_squares(struct wi_optim_pool *pool, const struct wi_optim_vector *vectors, size_t nvectors);

/* dst = src, or dst += src, in dst's dtype, computed in fp32 and rounded to nearest even. src may be dst if their dtypes are
 * equal. */
void wi_optim_convert(struct wi_optim_pool *pool, void *dst, weft_dtype dst_dtype, const void *src, weft_dtype src_dtype,
                      size_t elems, int add);

#endif
