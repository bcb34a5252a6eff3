/* weft_zero.h: optimizer states, gradients and parameters of data-parallel training, sharded over the ranks (ZeRO).
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A library of its own, libweft_zero, on top of weft.h. A program describes its model once: parameters, and units of them (layers)
 * that are used together. Then, for each micro-batch, it says which unit's forward or backward pass begins and ends and which
 * gradients are there; the library gathers, reduces, scatters and releases behind that, and steps the optimizer on shards.
 *
 *     weft_zero_create(comm, &config, &zero);
 *     weft_zero_param_add(zero, &weight, &w);  weft_zero_param_add(zero, &bias, &b);
 *     weft_zero_unit_add(zero, "layer0", (int[]){w, b}, 2, &unit);
 *     weft_zero_seal(zero);
 *     weft_zero_param_set(zero, w, WEFT_ZERO_WEIGHT, values, WEFT_FLOAT32);  ...
 *     for each step, for each micro-batch:
 *         weft_zero_pre_forward(zero, unit);   weft_zero_param_data(zero, w, &data);  ...  weft_zero_post_forward(zero, unit);
 *         weft_zero_pre_backward(zero, unit);  ...  weft_zero_grad_add(zero, w, grad, WEFT_FLOAT32);  ...
 *         weft_zero_post_backward(zero, unit);
 *         weft_zero_micro_batch_end(zero);
 *       weft_zero_step(zero, &hyper, 1, NULL);
 *
 * What a rank keeps, for N ranks and Ψ parameters of two bytes (of four bytes: no master weights, all else alike), AdamW:
 *
 *     stage   parameters  gradients  master, two moments   collectives of a step, elements x (N-1)/N
 *     0       2Ψ          2Ψ         12Ψ                   reduce-scatter Ψ, all-gather Ψ of gradients
 *     1       2Ψ          2Ψ         12Ψ/N                 reduce-scatter Ψ of gradients, all-gather Ψ of parameters
 *     2       2Ψ          2Ψ/N       12Ψ/N                 the same; the reduce-scatter for every micro-batch
 *     3       2Ψ/N        2Ψ/N       12Ψ/N                 for every micro-batch: all-gather 2Ψ, reduce-scatter Ψ
 *
 * and buffers for the units in use: of gradients from stage 2 on, of parameters in stage 3. Gradients are summed by the same
 * collectives on the same layout in every stage, and the optimizers work element by element: the stages give the same bits.
 * LAMB does w -= lr r u with u = m^ / (sqrt(v^) + eps) + weight_decay w, of moments with bias correction, and r = |w| / |u| of
 * the whole parameter, 1 where one of them is 0. It goes over the states twice; an all-reduce between adds the squares of all
 * parameters' shards, and of the same shards in every stage, so that the bits are the same, too. Parts of one parameter that are
 * on other ranks of config.model have norms of their own.
 *
 * Muon (Jordan et al., 2024) keeps one moment, m = momentum m + (1 - momentum) g, and makes of u = m, with nesterov of
 * (1 - momentum) g + momentum m, a matrix that is nearly orthogonal, by five Newton-Schulz iterations in fp32:
 * w -= lr (weight_decay w + sqrt(max(1, rows / columns)) NS(u)). Its matrices are on one rank each and stay in memory, as do
 * 4 (2 rows columns + 2 min(rows, columns)^2) bytes of scratch memory for the largest of them on this rank, sides rounded up to 32.
 * In stage 0 every rank computes all. What is no hidden matrix (embeddings, heads, vectors) takes another optimizer:
 * param.optimizer says which one a parameter has, if it is not config.optimizer, and a group of its own gives it another lr.
 *
 * config.state_dtype keeps moments in fewer bytes than 4: 2 of bfloat16, rounded to nearest; or 1, and 4 for a block of 256
 * elements of a parameter's part in a shard and for what is left of it, in dynamic 8-bit codes (Dettmers et al., ICLR 2022). The
 * optimizer computes as before and rounds what it keeps, in 33024 x 8 bytes of scratch memory for each thread. bfloat16 rounds
 * each element by itself, however it is sharded; blocks begin where shards do, so that the stages have the same bits on the
 * same ranks, and other numbers of ranks others. With beta2 close to 1 a rounded second moment decays late: a change of less
 * than half a step is lost, of bfloat16 1/256, and a code's is wider. Checkpoints have fp32.
 *
 * Conventions are those of weft.h: statuses, units, ownership. weft_thread_error() has the text of a failure.
 *   Threads     any thread may make any call; calls on one weft_zero run one after another.
 *   Collective  every rank calls, in the same order: calls that say so. All others are local, but those about units may begin
 *               collectives, so that ranks have to go through units in the same order; one that does not is told so by name
 *               (WEFT_EMISMATCH), on all ranks, as is one that ran another number of micro-batches.
 *   Failures    after which ranks may be at different places (of a collective, of an update, of a file in the middle of one) are
 *               final: every later call but weft_zero_destroy returns them, with their text.
 *
 * Papers: Rajbhandari et al., ZeRO, SC 2020; Zhao et al., PyTorch FSDP, VLDB 2023. */
#ifndef WEFT_ZERO_H
#define WEFT_ZERO_H

#include <weft/weft.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_zero weft_zero;

/* X(name, value, text): what weft_zero_step does to a shard. p weight, g gradient, m and v moments. */
#define WEFT_ZERO_OPTIMIZER_LIST(X)                                                                                              \
    X(WEFT_ZERO_ADAMW, 1, "adamw")     /* weight decay apart from the gradient (Loshchilov & Hutter, ICLR 2019) */               \
    X(WEFT_ZERO_ADAM, 2, "adam")       /* weight decay added to the gradient (Kingma & Ba, ICLR 2015) */                         \
    X(WEFT_ZERO_SGD, 3, "sgd")         /* momentum, dampening, Nesterov; no state if momentum is 0 throughout */                 \
    X(WEFT_ZERO_LION, 4, "lion")       /* sign of an interpolation, one moment (Chen et al., NeurIPS 2023) */                    \
    X(WEFT_ZERO_ADAGRAD, 5, "adagrad") /* sum of squares, one moment (Duchi et al., JMLR 2011) */                                \
    X(WEFT_ZERO_CALLBACK, 6, "callback") /* the program's own: config.update */                                                  \
    X(WEFT_ZERO_LAMB, 7, "lamb")       /* adam's direction and the decayed weight, scaled by norms (You et al., ICLR 2020) */     \
    X(WEFT_ZERO_MUON, 8, "muon")       /* of matrices: momentum that is made orthogonal (Jordan et al., 2024) */
typedef enum weft_zero_optimizer {
#define WEFT_ZERO_OPTIMIZER_ENUM(name, value, text) name = value,
    WEFT_ZERO_OPTIMIZER_LIST(WEFT_ZERO_OPTIMIZER_ENUM)
#undef WEFT_ZERO_OPTIMIZER_ENUM
} weft_zero_optimizer;

/* X(name, value, text): how moments are kept in memory. */
#define WEFT_ZERO_STATE_LIST(X)                                                                                                  \
    X(WEFT_ZERO_STATE_FP32, 0, "fp32")                                                                                           \
    X(WEFT_ZERO_STATE_BF16, 1, "bf16")     /* bfloat16, rounded to nearest */                                                    \
    X(WEFT_ZERO_STATE_BLOCK8, 2, "block8") /* 8-bit codes in blocks of 256 elements (Dettmers et al., ICLR 2022) */
typedef enum weft_zero_state_dtype {
#define WEFT_ZERO_STATE_ENUM(name, value, text) name = value,
    WEFT_ZERO_STATE_LIST(WEFT_ZERO_STATE_ENUM)
#undef WEFT_ZERO_STATE_ENUM
} weft_zero_state_dtype;

/* When gradients are summed over the ranks, if a step has several micro-batches. */
typedef enum weft_zero_reduce {
    WEFT_ZERO_REDUCE_AUTO = 0,  /* stages 0 and 1: at the last micro-batch, of sums kept until then; 2 and 3: at every one */
    WEFT_ZERO_REDUCE_EVERY = 1, /* at every one, in all stages: then all stages have the same bits with accumulation, too */
} weft_zero_reduce;

struct weft_zero_update;
/* An optimizer of the program's (WEFT_ZERO_CALLBACK): update one piece of a parameter, in weft_zero_step.
 *
 * It changes weight and moments in place; the engine stores a 16-bit parameter from the weight afterwards. The engine's threads
 * call it, several at once with other pieces, in any order. How parameters are cut into pieces depends on the stage, the number of
 * ranks and whether states are in a file: a function that computes every element by itself gives the same bits in all of them. It
 * must not call weft, and has no way to fail.
 *
 * @param arg    config.update_arg
 * @param piece  what to update; valid during the call */
typedef void (*weft_zero_update_fn)(void *arg, const struct weft_zero_update *piece);

/* How an engine is made. */
typedef struct weft_zero_config {
    size_t bytes;                  /* sizeof, by WEFT_ZERO_CONFIG_INIT */
    int stage;                     /* 0 to 3 */
    weft_zero_optimizer optimizer; /* of parameters that have none of their own */
    int micro_batches;             /* in a step, at least 1; see weft_zero_accumulate */
    weft_zero_reduce reduce;
    int grad_fp32;                 /* 1: gradients of 16-bit parameters are kept and summed in fp32; 0: in the parameter's type */
    double divisor;                /* of the sum over ranks and micro-batches; 0: ranks x micro-batches of the step, the mean */
    double clip;                   /* largest norm of all gradients together; 0: not clipped */
    double loss_scale;             /* what the caller multiplies losses by: 1, none; 0: dynamic, by the next five */
    double loss_scale_initial;     /* 2^16 */
    int loss_scale_window;         /* steps without overflow after which it doubles: 1000 */
    int loss_scale_hysteresis;     /* overflows that it takes to halve it: 2 */
    int loss_scale_refill;         /* 1: every step without overflow gives the hysteresis back; 0: only a doubling does */
    double loss_scale_min;         /* 1 */
    int threads;                   /* of the optimizer; 0: as many as the process may use cores */
    int overlap;                   /* 1: collectives run beside computation; 0: each is waited for, and buffers are fewer */
    size_t live_elems;             /* stage 3: elements of parameters that are gathered at a time; 0: the two largest units */
    size_t prefetch_elems;         /* stage 3: elements that are gathered ahead; 0: none. As live_elems allows */
    size_t reuse_elems;            /* stage 3: a unit that is used again within so many elements stays gathered; 0: none */
    size_t persistent_elems;       /* stage 3: units of at most so many elements stay gathered; 0: none */
    const char *gather_codec;      /* NULL, or a codec (weft_compress.h) of gathers of parameters: "int8:block=256" */
    const char *reduce_codec;      /* NULL, or a codec of reductions of gradients: "int4:block=128" */
    int shard_ranks;               /* ranks that share one copy: 0 all, or a divisor of their number, or WEFT_ZERO_SHARD_NODE.
                                      Copies are updated alike, by an all-reduce of gradients' shards among the ranks that keep the
                                      same */
    weft_comm *experts;            /* NULL, or the ranks that keep the same experts: parameters with WEFT_ZERO_EXPERT are sharded
                                      over it */
    weft_comm *model;              /* NULL, or the ranks that keep other parts of the model (tensor and pipeline parallel) for the
                                      same place in comm: norms and overflows are theirs together */
    int secondary_ranks;           /* stage 3: ranks that share a second copy of what forward passes have gathered, until the next
                                      step; backward passes gather from it: with WEFT_ZERO_SHARD_NODE inside of hosts. 0: none */
    const char *offload_folder;    /* NULL, or where master weights and moments are kept, in a file of each rank */
    int offload_params;            /* 1: stage 3's shards of parameters and of gradients are in a file, too, with all that belongs
                                      to them */
    double offload_ratio;          /* how much of them: 1 all, 0 none; whole units, those that are used last first */
    size_t offload_block_bytes;    /* of a request; 0: 1 MiB */
    int offload_depth;             /* requests under way; 0: 8 */
    size_t offload_buffer_bytes;   /* of each of three buffers, at least a page for weights and each moment; 0: offload_depth
                                      blocks */
    int offload_buffered;          /* 1: through the page cache; 0: around it, where the file system can */
    int offload_threads;           /* 1: by threads; 0: by io_uring, where the kernel allows it */
    weft_zero_update_fn update;    /* what WEFT_ZERO_CALLBACK is, here or of parameters. It does the same on all ranks */
    void *update_arg;              /* its first argument */
    int update_moments;            /* how many moments it has, 0 to 2 */
    weft_zero_state_dtype state_dtype; /* of adamw's, adam's, sgd's and lion's moments. If parameters have other optimizers,
                                          moments of those are fp32 */
    size_t offload_memory_bytes;   /* how much of what is in the file may be in memory instead, while steps wait for the file; see
                                      weft_zero_offload_memory. 0: none. Each rank has its own */
    const char *offload_weight_codec;  /* NULL, or a codec (weft_compress.h) of master weights in the file: "lossless" */
    const char *offload_moment1_codec; /* of first moments: "bf16", "int8:block=256" */
    const char *offload_moment2_codec; /* of second moments. Sums of squares (adamw's, adam's, lamb's, adagrad's first) take "bf16"
                                          and "lossless" alone: what others round to 0 divides */
} weft_zero_config;
#define WEFT_ZERO_CONFIG_INIT                                                                                                    \
    { sizeof(weft_zero_config), 1, WEFT_ZERO_ADAMW, 1, WEFT_ZERO_REDUCE_AUTO, 0, 0, 0, 1, 65536, 1000, 2, 0, 1, 0, 1, 0,         \
      (size_t)-1, 0, 0, NULL, NULL, 0, NULL, NULL, 0, NULL, 0, 1, 0, 0, 0, 0, 0, NULL, NULL, 0, WEFT_ZERO_STATE_FP32, 0, NULL, \
      NULL, NULL }
#define WEFT_ZERO_SHARD_NODE (-1) /* the ranks of a host; all hosts have as many */

#define WEFT_ZERO_FROZEN 1u /* the parameter has no gradient and no optimizer state */
#define WEFT_ZERO_WHOLE 2u  /* the parameter lies on one rank: no shard boundary cuts it */
#define WEFT_ZERO_EXPERT 4u /* only the ranks of config.experts have it */
#define WEFT_ZERO_DUPLICATE 8u /* another rank of config.model has the same (a layer norm in tensor parallel), and counts it in the
                                  norm */
#define WEFT_ZERO_DIMS_MAX 8

/* A parameter. */
typedef struct weft_zero_param {
    size_t bytes;         /* sizeof, by WEFT_ZERO_PARAM_INIT */
    const char *name;     /* "layer3.weight": unique; copied */
    weft_dtype dtype;     /* WEFT_FLOAT32, WEFT_BFLOAT16 or WEFT_FLOAT16; its gradient's, too, unless config.grad_fp32. 16-bit ones
                             have fp32 masters */
    int ndims;            /* 0: a scalar */
    const size_t *shape;  /* ndims extents, each may be 0; copied */
    unsigned flags;       /* WEFT_ZERO_FROZEN, _WHOLE, _EXPERT, _DUPLICATE */
    int group;            /* whose hyper-parameters it takes in weft_zero_step */
    weft_zero_optimizer optimizer; /* 0: config.optimizer; or another, beside it. WEFT_ZERO_MUON: two dimensions; it is
                                      WEFT_ZERO_WHOLE then. WEFT_ZERO_CALLBACK: config.update */
    size_t cut_elems;     /* shard boundaries cut it at multiples of so many elements (a row; a quantiser's block); 0: anywhere */
    const char *save_name; /* in checkpoints; copied. Of an expert one that no other expert has ("layer3.experts.5.weight"). NULL:
                              name; of an expert name, "@" and the number of its group, by the groups' first ranks in comm */
} weft_zero_param;
#define WEFT_ZERO_PARAM_INIT { sizeof(weft_zero_param), NULL, WEFT_FLOAT32, 0, NULL, 0, 0, (weft_zero_optimizer)0, 0, NULL }

/* Hyper-parameters of a group in one step. Those that an optimizer does not have are ignored. */
typedef struct weft_zero_hyper {
    size_t bytes;         /* sizeof, by WEFT_ZERO_HYPER_INIT */
    double lr;            /* 1e-3 */
    double beta1, beta2;  /* .9 and .999; Lion's are .9 and .99 by custom */
    double eps;           /* 1e-8 */
    double weight_decay;  /* 0 */
    double momentum;      /* sgd and muon: 0; muon's is .95 by custom */
    double dampening;     /* sgd: 0 */
    int nesterov;         /* sgd and muon: 0; muon's is 1 by custom */
    int maximize;         /* 0 */
    double lr_decay;      /* adagrad: 0 */
    double max_coeff, min_coeff; /* lamb: 10 and .01, between which |w| / |u| is kept */
} weft_zero_hyper;
#define WEFT_ZERO_HYPER_INIT { sizeof(weft_zero_hyper), 1e-3, .9, .999, 1e-8, 0, 0, 0, 0, 0, 0, 10, .01 }

/* Consecutive elements of a parameter, for weft_zero_update_fn. */
typedef struct weft_zero_update {
    size_t bytes;           /* sizeof, of the library's version */
    int param;              /* the parameter's number */
    size_t first;           /* which of its elements, in row-major order, is the piece's first */
    size_t elems;           /* 1 to 65536 */
    float *weight;          /* of these elements, as are all that follow */
    float *moment1, *moment2; /* NULL beyond config.update_moments; 0 before the first step */
    const float *grad;      /* divided, unscaled and clipped; not negated for hyper->maximize */
    const weft_zero_hyper *hyper; /* of the parameter's group; whatever their values are */
    uint64_t step;          /* of this step, from 1 */
} weft_zero_update;

/* What a step did. The same on all ranks. */
typedef struct weft_zero_step_info {
    size_t bytes;         /* sizeof, by WEFT_ZERO_STEP_INFO_INIT */
    int skipped;          /* 1: a gradient was Inf or NaN, and nothing was changed but the loss scale */
    double norm;          /* of all gradients after division and unscaling, before clipping; Inf or NaN if skipped */
    double factor;        /* by which clipping multiplied them; 1: not clipped */
    double loss_scale;    /* of the next step */
    uint64_t step;        /* how many were not skipped, with this one */
} weft_zero_step_info;
#define WEFT_ZERO_STEP_INFO_INIT { sizeof(weft_zero_step_info), 0, 0, 1, 1, 0 }

/* What belongs to a parameter; all of its shape. */
typedef enum weft_zero_what {
    WEFT_ZERO_WEIGHT = 1,   /* the fp32 weight (of 16-bit parameters the master weight) */
    WEFT_ZERO_GRAD = 2,     /* the sum of gradients so far, not divided or unscaled */
    WEFT_ZERO_MOMENT1 = 3,  /* adam's m, sgd's momentum, lion's moment */
    WEFT_ZERO_MOMENT2 = 4,  /* adam's v, adagrad's sum of squares */
} weft_zero_what;

/* Memory in bytes on this rank, and time. Times are of this process, since creation. */
typedef struct weft_zero_stats {
    size_t bytes;             /* sizeof, by WEFT_ZERO_STATS_INIT */
    size_t param_bytes;       /* parameters or their shards, with what stays gathered */
    size_t grad_bytes;        /* gradients or their shards */
    size_t state_bytes;       /* master weights and moments in memory, and what optimizers need beside them */
    size_t gather_bytes;      /* buffers of gathered units, the most there has been */
    size_t reduce_bytes;      /* buffers of gradients not yet reduced, the most there has been */
    size_t elems;             /* elements of all parameters, Ψ */
    size_t shard_elems;       /* elements that this rank updates, with padding */
    uint64_t gather_wait_ns;  /* waited for parameters */
    uint64_t reduce_wait_ns;  /* waited for reductions of gradients */
    uint64_t norm_ns;         /* of norms and their agreement */
    uint64_t update_ns;       /* in optimizers */
    uint64_t copy_ns;         /* copying and adding gradients */
    uint64_t gathers;         /* of units */
    uint64_t prefetches;      /* of those: begun before they were needed */
    uint64_t reductions;
    size_t disk_bytes;        /* master weights and moments in the file, with padding */
    size_t disk_buffer_bytes; /* memory that they pass through */
    uint64_t disk_read_bytes, disk_written_bytes;
    uint64_t disk_read_wait_ns, disk_write_wait_ns; /* stalls: of update_ns, waited for reads and for writes; of offload_params,
                                                       of gathers, too */
    int disk_uring, disk_direct, disk_fixed; /* 1: by io_uring; around the page cache; with registered buffers */
    uint64_t snapshot_wait_ns; /* waited, in a step, until a save had copied what it saves */
    uint64_t retraces;        /* times that units were used in another order than before */
    uint64_t step_update_ns, step_stall_ns; /* of the newest step: of update_ns; of that, waited for files */
    size_t offload_bytes, offload_held_bytes; /* of states with a place in the file: all, 4 bytes an element; in memory now */
    uint64_t offload_taken, offload_given; /* units that were moved into memory, and back */
    uint64_t offload_move_ns; /* that took, in steps and in weft_zero_offload_memory */
    uint64_t disk_raw_bytes;  /* what disk_read_bytes and disk_written_bytes are of, before codecs */
    uint64_t disk_code_ns;    /* in codecs of the file, mostly of update_ns */
} weft_zero_stats;
#define WEFT_ZERO_STATS_INIT                                                                                                     \
    { sizeof(weft_zero_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
      0, 0, 0, 0, 0 }

/* ---- Making ---------------------------------------------------------------------------------------------------------------- */

/* Make an engine over the ranks of a communicator.
 *
 * Collective. The communicator is duplicated, so that gathers and reductions do not wait for each other; the caller may use it on.
 * @param comm    the data-parallel ranks; must outlive the engine
 * @param config  NULL: WEFT_ZERO_CONFIG_INIT. The same on all ranks but for threads, and for offloading the folder
 *                and how much memory
 * @param zero    receives the engine
 * Ownership: the caller ends it with weft_zero_destroy. Nothing of config is kept but update and update_arg.
 * Blocks: until all ranks have called.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  an argument is NULL or a field is out of its range; the text names it
 *         WEFT_EMISMATCH  ranks have other configurations; the text names a field
 *         any failure of weft_comm_dup and weft_comm_split */
WEFT_API weft_status weft_zero_create(weft_comm *comm, const weft_zero_config *config, weft_zero **zero);

/* End an engine. Pointers from weft_zero_param_data and weft_zero_grad_buffer are invalid from then on.
 *
 * Collective, but does not wait for ranks that failed.
 * @param zero  NULL does nothing
 * Blocks: until operations under way are complete, at most their deadline.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  not an engine */
WEFT_API weft_status weft_zero_destroy(weft_zero *zero);

/* Register a parameter.
 *
 * @param zero   the engine, not sealed
 * @param param  described; on all ranks in the same order
 * @param index  receives its number, from 0
 * Ownership: nothing of param is kept.
 * Blocks: no.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL   NULL, unknown dtype, flags or optimizer, an optimizer that cannot have this parameter (a frozen one; Muon's
 *                       without two dimensions, or with config.offload_params; LAMB's with config.offload_params), negative
 *                       group, more than WEFT_ZERO_DIMS_MAX dimensions, a shape whose product overflows, a name that is
 *                       empty or taken, or the engine is sealed
 *         WEFT_ENOMEM   out of memory */
WEFT_API weft_status weft_zero_param_add(weft_zero *zero, const weft_zero_param *param, int *index);

/* Define a unit: parameters that are gathered, reduced and released together, a layer.
 *
 * Each parameter is in exactly one unit. Units that are larger move more bytes at a time, and need larger buffers.
 * @param zero     the engine, not sealed
 * @param name     "blocks.3"; unique; copied. Errors say it
 * @param params   numbers of nparams parameters; may be NULL when there are none
 * @param nparams  0 or more
 * @param unit     receives its number, from 0
 * Blocks: no.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  NULL, a name that is empty or taken, a parameter that does not exist or is in a unit, or the engine is
 *                      sealed
 *         WEFT_ENOMEM  out of memory */
WEFT_API weft_status weft_zero_unit_add(weft_zero *zero, const char *name, const int *params, int nparams, int *unit);

/* Lay parameters out, compare them with the other ranks', and allocate. No parameter or unit can be added afterwards.
 *
 * Collective. All weights are 0 until weft_zero_param_set.
 * @param zero  the engine
 * Blocks: until all ranks have called.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL     sealed already; no unit; a parameter without a unit, or two with one name in checkpoints, which the text
 *                         names
 *         WEFT_EMISMATCH  another rank has another model; the text names the first parameter or unit that differs
 *         WEFT_ENOMEM, WEFT_ENOSPC  there is no memory for it; the text says how much was needed, and for what
 *         any failure of a collective */
WEFT_API weft_status weft_zero_seal(weft_zero *zero);

/* ---- Values ---------------------------------------------------------------------------------------------------------------- */

/* Give a parameter, or what belongs to it, its values.
 *
 * Not collective, but what a rank is not told it does not have: every rank calls with the same values. Each keeps its own part.
 * @param zero   the engine, sealed
 * @param param  its number
 * @param what   WEFT_ZERO_WEIGHT sets the parameter and its master weight; or a moment
 * @param values all elements, in row-major order
 * @param dtype  of values: WEFT_FLOAT32, WEFT_BFLOAT16 or WEFT_FLOAT16
 * Blocks: while the parameter is being gathered.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL   NULL, not sealed, no such parameter or dtype; what the parameter does not have (a frozen one's moments);
 *                       WEFT_ZERO_GRAD: that is weft_zero_grad_add's
 *         WEFT_EBUSY    the unit is in use, between pre_forward and post_forward or pre_backward and post_backward */
WEFT_API weft_status weft_zero_param_set(weft_zero *zero, int param, weft_zero_what what, const void *values, weft_dtype dtype);

/* Get all values of a parameter, or of what belongs to it.
 *
 * Collective. Values come from the ranks that keep them.
 * @param zero   the engine, sealed
 * @param param  its number
 * @param what   what of it
 * @param values receives all elements; NULL: this rank only helps the others
 * @param dtype  of values: WEFT_FLOAT32, WEFT_BFLOAT16 or WEFT_FLOAT16
 * Blocks: until all ranks have called.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  as weft_zero_param_set; or there is no gradient yet
 *         any failure of a collective */
WEFT_API weft_status weft_zero_param_get(weft_zero *zero, int param, weft_zero_what what, void *values, weft_dtype dtype);

/* Tell where a parameter's elements are.
 *
 * Stages 0 to 2: always at the same place. Stage 3: only while its unit is gathered, from pre_forward to post_forward, say; the
 * place is another each time.
 * @param zero   the engine, sealed
 * @param param  its number
 * @param data   receives the address of its first element in its dtype, aligned to 64 bytes; NULL: it is not gathered
 * Ownership: the engine's. The caller reads; what it writes by itself is lost, or another rank does not see it.
 * Blocks: while an all-gather that the last step began is under way.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  NULL, not sealed, or no such parameter
 *         any failure of a collective */
WEFT_API weft_status weft_zero_param_data(weft_zero *zero, int param, void **data);

/* ---- Passes ---------------------------------------------------------------------------------------------------------------- */

/* Say that a unit's forward or backward pass begins: its parameters are gathered when this returns.
 *
 * Passes nest, and a unit may have several at a time (a tied weight, a recomputed activation). In stages below 3 it waits for what
 * the last step began. In stage 3 the order is recorded, and followed from the second time on: units that come next are gathered
 * ahead.
 * @param zero  the engine, sealed
 * @param unit  its number
 * Blocks: until the unit is gathered.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL     not sealed, or no such unit
 *         WEFT_EMISMATCH  another rank is at another unit; the text names both
 *         WEFT_ENOMEM     stage 3: there is no memory for the unit beside those in use
 *         any failure of a collective */
WEFT_API weft_status weft_zero_pre_forward(weft_zero *zero, int unit);
WEFT_API weft_status weft_zero_pre_backward(weft_zero *zero, int unit);

/* Say that a unit's forward pass has ended: stage 3 releases its parameters, unless they are used again soon.
 *
 * @param zero  the engine, sealed
 * @param unit  its number, of which a pass has begun
 * Blocks: no.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  not sealed, no such unit, or no pass of it has begun */
WEFT_API weft_status weft_zero_post_forward(weft_zero *zero, int unit);

/* Say that a unit's backward pass has ended, and that gradients of it that have not come do not come in this micro-batch: they are
 * 0.
 *
 * Of a unit that several modules use, call it after the last. What is left at weft_zero_micro_batch_end ends there.
 * @param zero  the engine, sealed
 * @param unit  its number, of which a pass has begun
 * Blocks: no.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  not sealed, no such unit, or no pass of it has begun
 *         any failure of a collective */
WEFT_API weft_status weft_zero_post_backward(weft_zero *zero, int unit);

/* Hand a gradient in: it is copied to its place, or added to what is there.
 *
 * When the last of a unit is there, the unit's reduction begins, beside whatever the caller does next.
 * @param zero   the engine, sealed
 * @param param  its number; once in a micro-batch
 * @param grad   its elements, row-major; the caller's again on return
 * @param dtype  of grad: WEFT_FLOAT32, WEFT_BFLOAT16 or WEFT_FLOAT16; stored in the gradient's type
 * Blocks: while no buffer is free, until an earlier reduction is complete.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  NULL, not sealed, no such parameter, or a frozen one; it was there already in this micro-batch
 *         WEFT_ENOMEM  there is no memory for a buffer
 *         any failure of a collective */
WEFT_API weft_status weft_zero_grad_add(weft_zero *zero, int param, const void *grad, weft_dtype dtype);

/* Tell where a gradient is to be written, for who computes it right into its place. weft_zero_grad_ready follows.
 *
 * @param zero   the engine, sealed
 * @param param  its number
 * @param grad   receives the address of its first element, in the gradient's type
 * @param add    receives 1: there is an earlier micro-batch's gradient, to be added to; 0: what is there is to be overwritten
 * Ownership: the engine's; the caller writes until weft_zero_grad_ready.
 * Blocks: while no buffer is free, until an earlier reduction is complete.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  NULL, not sealed, no such parameter, or a frozen one; it was there already in this micro-batch
 *         WEFT_ENOMEM  there is no memory for a buffer
 *         any failure of a collective */
WEFT_API weft_status weft_zero_grad_buffer(weft_zero *zero, int param, void **grad, int *add);
WEFT_API weft_status weft_zero_grad_ready(weft_zero *zero, int param);

/* Say that a micro-batch's backward pass has ended.
 *
 * Gradients that have not come are 0. The reductions that are left begin.
 * @param zero  the engine, sealed
 * Blocks: while no buffer is free.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  not sealed; or the step has all its micro-batches already, and weft_zero_step has not been called
 *         any failure of a collective */
WEFT_API weft_status weft_zero_micro_batch_end(weft_zero *zero);

/* Say whether more micro-batches follow the next one, instead of counting config.micro_batches.
 *
 * @param zero  the engine, sealed; no gradient of the next micro-batch has come
 * @param more  1: others follow it; 0: it is the last before weft_zero_step; -1: counted again
 * Blocks: no.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  not sealed, more is another value, or gradients have come */
WEFT_API weft_status weft_zero_accumulate(weft_zero *zero, int more);

/* Update the parameters, and forget the gradients.
 *
 * Collective. One all-reduce of a few numbers finds overflows and the norm. With config.overlap, parameters are on their way to the
 * other ranks when this returns.
 * @param zero    the engine, sealed; all micro-batches have ended
 * @param hypers  of group 0, 1, …; the same on all ranks. Each must suit the optimizers of the group's parameters
 * @param nhypers more than the largest group of a parameter, those beyond it are compared, and not used
 * @param info    NULL, or from WEFT_ZERO_STEP_INFO_INIT; filled
 * Blocks: until the gradients are reduced and all ranks have called.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL     NULL, not sealed, nhypers is too few, a value is out of its range or no number; or the last micro-batch
 *                         has not ended: nothing has changed
 *         WEFT_EMISMATCH  another rank has run another number of micro-batches, or has other hyper-parameters
 *         any failure of a collective */
WEFT_API weft_status weft_zero_step(weft_zero *zero, const weft_zero_hyper *hypers, int nhypers, weft_zero_step_info *info);

/* Say how many steps have been made, when moments of an earlier training have been set by weft_zero_param_set.
 *
 * The next step corrects their bias for its number.
 *
 * Not collective, but every rank says the same: the next step compares.
 * @param zero   the engine, sealed
 * @param steps  without those that were skipped
 * Blocks: no.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  not sealed, or gradients of the next step have come */
WEFT_API weft_status weft_zero_set_step(weft_zero *zero, uint64_t steps);

/* Forget the gradients of a step that is not to be made; what was counted of it begins anew.
 *
 * Collective, as reductions may be under way.
 * @param zero  the engine, sealed
 * Blocks: until reductions under way are complete.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  not sealed
 *         any failure of a collective */
WEFT_API weft_status weft_zero_drop_gradients(weft_zero *zero);

/* Say how much of the states that have a place in the file may be in memory instead: another config.offload_memory_bytes.
 *
 * What a step waits for is in the file. After a step that waited for more than a 50th of its update, whole units are moved into
 * memory, those that are used first, as many as would have made up for the wait, as the limit allows it. They go back, those that
 * are used last first, when the limit falls, and by half when the process's control group (memory.pressure; the machine's, where
 * there is none) has waited for memory for more than a 20th of the time since the last step; none is moved into memory in the next
 * 64 steps then. Bits are the same wherever states are.
 *
 * Not collective: each rank has its own limit.
 * @param zero   the engine, sealed
 * @param bytes  the limit; 0: none may be in memory
 * Blocks: while what is above the limit is written.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  not sealed, config.offload_folder was not set, or a codec of the file loses something, which what is in
 *                      memory does not
 *         WEFT_ESYS, WEFT_ENOSPC  a unit could not be written: it stays in memory, above the limit */
WEFT_API weft_status weft_zero_offload_memory(weft_zero *zero, size_t bytes);

/* Tell what the caller multiplies its losses by, before it computes gradients.
 *
 * @param zero  the engine
 * @param scale receives it; 1 unless config.loss_scale is another
 * Blocks: no.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  an argument is NULL */
WEFT_API weft_status weft_zero_loss_scale(weft_zero *zero, double *scale);

/* ---- Checkpoints ----------------------------------------------------------------------------------------------------------- */

/* How a checkpoint is saved. */
typedef struct weft_zero_save_options {
    size_t bytes;        /* sizeof, by WEFT_ZERO_SAVE_OPTIONS_INIT */
    int keep;            /* versions that stay in the folder, with the new one; 0: all */
    int replace;         /* 1: a version of the same tag is replaced, atomically; 0: it is an error */
    int incremental;     /* 1: what is as in the newest version is not written again */
    int direct;          /* 1: written around the page cache where the file system can */
    const void *client;  /* bytes of the program's, of rank 0; NULL: none. Copied */
    size_t client_bytes; /* at most 1 GiB */
} weft_zero_save_options;
#define WEFT_ZERO_SAVE_OPTIONS_INIT { sizeof(weft_zero_save_options), 0, 0, 1, 0, NULL, 0 }

/* What a save did on this rank. */
typedef struct weft_zero_save_info {
    size_t bytes;            /* sizeof, by WEFT_ZERO_SAVE_INFO_INIT */
    uint64_t state_bytes;    /* of tensors */
    uint64_t written_bytes;  /* of those: written, not taken from an earlier version */
    uint64_t snapshot_ns;    /* until all was copied */
    uint64_t total_ns;       /* until it was complete */
} weft_zero_save_info;
#define WEFT_ZERO_SAVE_INFO_INIT { sizeof(weft_zero_save_info), 0, 0, 0, 0 }

/* Get the memory for the copy that a save makes, ahead of the first one.
 *
 * Collective. 4 bytes for each weight and moment of this rank's shard, which the engine keeps from then on, as it does after a
 * first save: a system may take longer to give memory than to copy into it, for which the step behind the first save waits
 * otherwise. A thread asks for it. Where states are in a file or of fewer bytes nothing is copied, and none is needed.
 * @param zero  the engine, sealed
 * Blocks: until the ranks have agreed, in the first call.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  not sealed
 *         WEFT_ENOMEM  out of memory; saves try again */
WEFT_API weft_status weft_zero_save_prepare(weft_zero *zero);

/* Begin to save weights, moments, counters and the loss scale as a version of a folder.
 *
 * Collective, but does not wait: a thread copies what is saved while the program goes on, and writes it. weft_zero_step updates a
 * unit when it is copied, in the order in which they are copied. The version appears when it is complete on all ranks; a crash
 * leaves the newest complete one or the one before it.
 * @param zero    the engine, sealed; no gradients have come since the last step
 * @param folder  is made in a folder that exists; the same for all ranks, on a file system that all see. With config.model each
 *                part of the model has its own: two parts with one are refused
 * @param tag     its name: letters, digits, and . _ - behind the first; the same on all ranks
 * @param options NULL: WEFT_ZERO_SAVE_OPTIONS_INIT
 * Blocks: until the ranks have agreed to begin.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  an argument is wrong; the text says which
 *         WEFT_EBUSY   a save is under way, or gradients have come
 *         WEFT_ENOMEM, WEFT_ESYS, WEFT_ENOSPC  of this or of another rank
 *         any failure of the save before  nobody has waited for that one, and this one has not begun; the next one will */
WEFT_API weft_status weft_zero_save(weft_zero *zero, const char *folder, const char *tag, const weft_zero_save_options *options);

/* X(name, value, text): what a save or a load is doing. */
#define WEFT_ZERO_SAVE_PHASE_LIST(X)                                                                                             \
    X(WEFT_ZERO_SAVE_NOTHING, 0, "nothing")       /* none is under way */                                                        \
    X(WEFT_ZERO_SAVE_COPYING, 1, "copying")       /* what is saved */                                                            \
    X(WEFT_ZERO_SAVE_COMPARING, 2, "comparing")   /* with the version before */                                                  \
    X(WEFT_ZERO_SAVE_WRITING, 3, "writing")                                                                                      \
    X(WEFT_ZERO_SAVE_COMMITTING, 4, "committing") /* this rank has written; others may not have */                               \
    X(WEFT_ZERO_SAVE_VERIFYING, 5, "verifying")   /* what a load is about to read */                                             \
    X(WEFT_ZERO_SAVE_READING, 6, "reading")
typedef enum weft_zero_save_phase {
#define WEFT_ZERO_SAVE_PHASE_ENUM(name, value, text) name = value,
    WEFT_ZERO_SAVE_PHASE_LIST(WEFT_ZERO_SAVE_PHASE_ENUM)
#undef WEFT_ZERO_SAVE_PHASE_ENUM
} weft_zero_save_phase;

/* How far a save or a load is. */
typedef struct weft_zero_save_status {
    size_t bytes;               /* sizeof, by WEFT_ZERO_SAVE_STATUS_INIT */
    weft_zero_save_phase phase;
    uint64_t done_bytes;        /* in this phase, of tensors on this rank */
    uint64_t total_bytes;       /* of the phase */
} weft_zero_save_status;
#define WEFT_ZERO_SAVE_STATUS_INIT { sizeof(weft_zero_save_status), WEFT_ZERO_SAVE_NOTHING, 0, 0 }

/* Tell how far the save or the load is that is under way on this rank.
 *
 * For lines of progress: a save goes on while the program does other things, and of a load another thread asks. Does not wait for
 * calls of other threads on the engine; weft_zero_destroy must not be one of them.
 * @param zero    the engine
 * @param status  from WEFT_ZERO_SAVE_STATUS_INIT; filled
 * Blocks: no.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  an argument is NULL, or status->bytes is no size of it */
WEFT_API weft_status weft_zero_save_progress(weft_zero *zero, weft_zero_save_status *status);

/* Wait for the newest save.
 *
 * @param zero        the engine
 * @param timeout_ns  0 looks once, WEFT_TIMEOUT_NEVER waits until it has ended
 * @param info        NULL, or from WEFT_ZERO_SAVE_INFO_INIT; filled on success
 * Blocks: at most timeout_ns.
 * @return WEFT_SUCCESS     it is complete, or there was none
 *         WEFT_INPROGRESS  the time is over
 *         any failure of the save  no version was made; those before are as they were */
WEFT_API weft_status weft_zero_save_wait(weft_zero *zero, uint64_t timeout_ns, weft_zero_save_info *info);

/* What was loaded. */
typedef struct weft_zero_load_info {
    size_t bytes;         /* sizeof, by WEFT_ZERO_LOAD_INFO_INIT */
    const char *tag;      /* of the version; the engine's, until its next load or its end */
    int nranks;           /* that saved it */
    uint64_t step;        /* steps that it has made */
    const void *client;   /* the program's bytes; likewise */
    size_t client_bytes;
} weft_zero_load_info;
#define WEFT_ZERO_LOAD_INFO_INIT { sizeof(weft_zero_load_info), NULL, 0, 0, NULL, 0 }

#define WEFT_ZERO_LOAD_OLDER 1u   /* if the newest version is damaged, the newest one that is not is taken */
#define WEFT_ZERO_LOAD_WEIGHTS 2u /* weights alone: moments, counters and the loss scale stay as they are, and the version may have
                                     more tensors */

/* Load a version, saved by any number of ranks in any stage.
 *
 * Collective. All that is read is verified before anything changes.
 * @param zero   the engine, sealed, with the same parameters; no gradients have come since the last step, no pass is open
 * @param folder as for weft_zero_save
 * @param tag    NULL: the newest
 * @param flags  WEFT_ZERO_LOAD_*
 * @param info   NULL, or from WEFT_ZERO_LOAD_INFO_INIT; filled on success
 * Blocks: until all ranks have read it.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL    an argument is wrong, or it is of another model; the text names the first difference
 *         WEFT_ENOTFOUND there is no such version, or a file of it is missing
 *         WEFT_ENOTSUP   it is of a newer format
 *         WEFT_ECONFIG   it is damaged; the text names the file, and which older version is complete
 *         WEFT_EBUSY     a save is under way, or gradients have come
 *         WEFT_ENOMEM, WEFT_ESYS  of this or of another rank */
WEFT_API weft_status weft_zero_load(weft_zero *zero, const char *folder, const char *tag, unsigned flags,
                                    weft_zero_load_info *info);

/* Write the weights of a version as safetensors, whole tensors, named as the parameters.
 *
 * Needs no engine and no ranks, and memory for a piece of a tensor at a time.
 * @param folder       of versions
 * @param tag          NULL: the newest
 * @param out          a folder that does not exist; it appears when it is complete
 * @param shard_bytes  several files with an index, of at most so many bytes each; 0: one, model.safetensors
 * Blocks: while it reads and writes.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL    an argument is wrong; the text says which
 *         WEFT_ENOTFOUND there is no such version, or a file of it is missing
 *         WEFT_ENOTSUP   it is of a newer format
 *         WEFT_ECONFIG   it is damaged; the text names the file, and which older version is complete
 *         WEFT_ENOMEM, WEFT_ESYS, WEFT_ENOSPC  as the text says */
WEFT_API weft_status weft_zero_export(const char *folder, const char *tag, const char *out, uint64_t shard_bytes);

/* ---- Statistics ------------------------------------------------------------------------------------------------------------- */

/* Tell of memory and time.
 *
 * @param zero   the engine
 * @param stats  from WEFT_ZERO_STATS_INIT; filled
 * Blocks: no.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  an argument is NULL, or stats->bytes is no size of it */
WEFT_API weft_status weft_zero_get_stats(weft_zero *zero, weft_zero_stats *stats);

/* ---- Spill files ------------------------------------------------------------------------------------------------------------ */

/* Bytes in a file of this process until they are wanted again: activations, say, from the forward pass to the backward pass. */
typedef struct weft_zero_spill weft_zero_spill;

/* How a spill file is made. */
typedef struct weft_zero_spill_config {
    size_t bytes;         /* sizeof, by WEFT_ZERO_SPILL_CONFIG_INIT */
    const char *folder;   /* exists, and is writable; the file has no name in it */
    size_t block_bytes;   /* of a request, a multiple of 4096; 0: 1 MiB */
    uint64_t timeout_ns;  /* of each wait; 0: 60 s */
    int buffers;          /* items that are written or read ahead at a time, each with a buffer as long as the longest; 3 to 32.
                             0: 4. Writes leave one for reads */
    int depth;            /* requests under way; those behind go on in the next call. 0: 64 */
    int buffered;         /* 1: through the page cache; 0: around it, where the file system can */
    int threads;          /* 1: by threads; 0: by io_uring, where the kernel allows it */
} weft_zero_spill_config;
#define WEFT_ZERO_SPILL_CONFIG_INIT { sizeof(weft_zero_spill_config), NULL, 0, 0, 0, 0, 0, 0 }

/* What a spill file has, and what it did since it was made. */
typedef struct weft_zero_spill_stats {
    size_t bytes;           /* sizeof, by WEFT_ZERO_SPILL_STATS_INIT */
    size_t items;           /* that were put and not dropped */
    size_t item_bytes;      /* of those */
    size_t file_bytes;      /* of the file, which never gets shorter: places are used again */
    size_t buffer_bytes;    /* of memory */
    uint64_t written_bytes; /* of items, that writes began with */
    uint64_t read_bytes;    /* likewise */
    uint64_t put_wait_ns;   /* waited for writes, as no buffer was free */
    uint64_t get_wait_ns;   /* waited for reads */
    int uring, direct;      /* 1: by io_uring; around the page cache */
} weft_zero_spill_stats;
#define WEFT_ZERO_SPILL_STATS_INIT { sizeof(weft_zero_spill_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/* Make a spill file.
 *
 * Not collective: each process has its own. It grows as items are put, and takes no room beyond 64 KiB now.
 * @param config  its folder must be set
 * @param spill   receives the spill file
 * Ownership: the caller ends it with weft_zero_spill_destroy. Nothing of config is kept.
 * Blocks: while the file is made.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  an argument is NULL or a field is out of its range
 *         WEFT_ENOMEM, WEFT_ESYS, WEFT_ENOSPC  as the text says */
WEFT_API weft_status weft_zero_spill_create(const weft_zero_spill_config *config, weft_zero_spill **spill);

/* Put bytes into the file: they are copied, and written while the caller goes on.
 *
 * Of what could not be written there is a copy in memory, which weft_zero_spill_get finds; the next put that needs its buffer
 * fails, having put nothing, and later ones write it again.
 * @param spill  the spill file
 * @param data   bytes of them; NULL if there are none. The caller's again afterwards
 * @param bytes  0 or more
 * @param id     receives what to get them by
 * Blocks: while all buffers are being written.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL    an argument is NULL, or it belongs to a process that forked this one
 *         WEFT_ENOSPC    the file cannot grow, or an earlier item could not be written
 *         WEFT_ESYS      an earlier item could not be written; the text names the reason
 *         WEFT_ETIMEDOUT a write has not ended in time
 *         WEFT_ENOMEM    no memory for a buffer or a table */
WEFT_API weft_status weft_zero_spill_put(weft_zero_spill *spill, const void *data, size_t bytes, uint64_t *id);

/* Begin to read an item that is wanted soon; a hint, which does nothing where all buffers are in use.
 *
 * @param spill  the spill file
 * @param id     of the item
 * Blocks: no.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  there is no such item */
WEFT_API weft_status weft_zero_spill_fetch(weft_zero_spill *spill, uint64_t id);

/* Get an item's bytes, as often as they are wanted. Their checksums (CRC32C) are compared.
 *
 * @param spill  the spill file
 * @param id     of the item
 * @param data   receives them
 * @param bytes  how many were put
 * Blocks: until they are read.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL    there is no such item, or it has another length
 *         WEFT_ESYS      they could not be read, or are not those that were put
 *         WEFT_ETIMEDOUT the read has not ended in time; it may be called again
 *         WEFT_ENOMEM    no memory for a buffer */
WEFT_API weft_status weft_zero_spill_get(weft_zero_spill *spill, uint64_t id, void *data, size_t bytes);

/* Forget an item: its place in the file is used again.
 *
 * @param spill  the spill file
 * @param id     of the item
 * Blocks: no.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  there is no such item */
WEFT_API weft_status weft_zero_spill_drop(weft_zero_spill *spill, uint64_t id);

/* Tell of a spill file's room and time.
 *
 * @param spill  the spill file
 * @param stats  from WEFT_ZERO_SPILL_STATS_INIT; filled
 * Blocks: no.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  an argument is NULL, or stats->bytes is no size of it */
WEFT_API weft_status weft_zero_spill_get_stats(weft_zero_spill *spill, weft_zero_spill_stats *stats);

/* End a spill file.
 *
 * @param spill  NULL does nothing, nor does another process's
 * Blocks: until requests under way have ended.
 * @return WEFT_SUCCESS
 *         WEFT_ETIMEDOUT  one has not ended: memory that it may write to stays allocated; it may be called again */
WEFT_API weft_status weft_zero_spill_destroy(weft_zero_spill *spill);

#ifdef __cplusplus
}
#endif
#endif /* WEFT_ZERO_H */
