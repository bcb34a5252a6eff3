/* SPDX-License-Identifier: BSD-3-Clause */
/* The engine's insides. A model is units of parameters. The parameters of a unit that have one data type and one optimizer, or are
 * all frozen, lie one after the other in a *flat*, which is cut into as many shards of one size as there are ranks. Flats are what
 * is gathered and reduced, in place: parameters are views of them. doc/adr/0031-zero.md */
#ifndef WI_ZERO_ZERO_H
#define WI_ZERO_ZERO_H

#include <pthread.h>
#include <stdarg.h>
#include <weft/weft_zero.h>

#include "zero/arena.h"
#include "zero/ckpt/ckpt.h"
#include "zero/common/publish.h"
#include "zero/optim/optim.h"
#include "zero/trace.h"

#define WI_ZERO_CUT_MOST ((size_t)1 << 24) /* elements, of a multiple at which shards are cut */
#define WI_ZERO_MAGIC 0x5745465a45524fu

struct wi_zero_param {
    char *name, *saved; /* saved: its name in checkpoints; NULL: the same */
    weft_dtype dtype;
    int ndims;
    size_t shape[WEFT_ZERO_DIMS_MAX], elems, cut;
    unsigned flags;
    const struct wi_optim_ops *ops; /* its optimizer; of a frozen one NULL */
    int group, unit, flat; /* -1: of no unit; before sealing of no flat */
    size_t offset;         /* elements into its flat */
    int asked;             /* its gradient's place was asked for in this micro-batch */
    int came;              /* its gradient has come in this micro-batch */
    int written;           /* it has come since the flat's gradients were reduced */
};

/* A shard that lives in a file: what is under way between it and a buffer. */
struct wi_zero_swapped {
    int extent;
    void *buffer;          /* NULL: nothing of it is in memory */
    struct wi_disk_op *op; /* NULL: nothing is under way */
    uint64_t begun;        /* when, among all */
    int writing, failed;   /* the buffer is being written; could not be, and has the only copy */
};

struct wi_zero_flat {
    int unit, domain, trained, whole; /* domain: WI_ZERO_COMMON or _EXPERTS */
    const struct wi_optim_ops *ops;   /* who updates it; of a frozen one NULL */
    weft_zero_state_dtype state;      /* of its moments */
    weft_dtype dtype, grad_dtype;
    size_t shard, elems;  /* of a rank, of all */
    size_t updated_first, updated_elems; /* those that this rank updates, if it is trained: its shard, or all (place.c) */
    int updated_rank, updated_ranks;     /* the same in shards */
    size_t *params;       /* numbers of its parameters, by place */
    int nparams;
    char *full;           /* all shards; of a unit that is not kept while it is gathered, else NULL */
    char *second;         /* NULL, or this rank's part of the second copy */
    char *own;            /* this rank's shard; of a unit that is kept part of `full` */
    char *grad;           /* gradients of all shards: below stage 2 always, else from the first that comes until they are reduced */
    char *grad_own;       /* reduced gradients: below stage 2 part of `grad` */
    char *updated_grad, *updated_param; /* gradients and parameters of the elements that this rank updates */
    float *weight, *moment[2];          /* fp32, of the same elements */
    char *codes[2];       /* instead of moments: of two bytes or one, then with scales */
    float *scales[2];
    weft_request *gather, *reduce, *replicate;
    int extent;           /* its place in the file of weights and moments, or -1: it has none */
    int filed;            /* they are there, not in memory */
    int swapped;          /* parameters and gradients are in a file, too: `own` and `grad_own` are NULL */
    struct wi_zero_swapped param, gradient;
    double squares;       /* of gradients in the file */
    int to_buffer;        /* what `reduce` gives is in `grad`, and is to be added to grad_own */
    int reduced;          /* grad_own has gradients of this step */
    int separate;         /* `weight` is not `own`: what is updated is copied there, rounded */
};

#define WI_ZERO_LABEL_BYTES 64 /* of a label; a longer one is cut */

struct wi_zero_unit {
    char *name;
    char gather_label[WI_ZERO_LABEL_BYTES], reduce_label[WI_ZERO_LABEL_BYTES]; /* of its collectives: unit, and no more */
    int *params, nparams;
    int first_flat, nflats; /* consecutive */
    int passes;             /* that have begun and not ended */
    int kept;               /* all its parameters have a place of their own: below stage 3, and small units in stage 3 */
    int seconded;           /* `second` of its flats has what was gathered since the last step */
    int resident;           /* of one that is not kept: gathered, or on its way */
    int issued;             /* its gathers have begun, not only its reads */
    int ahead;              /* gathered ahead, and not used since */
    int missing;            /* gradients that have not come in this micro-batch */
    int complete;           /* all have, and it waits for its turn to be reduced */
    int forwards, backwards; /* passes in this micro-batch */
    int trained;            /* has parameters with gradients */
    size_t elems;           /* of its flats */
    uint64_t used;          /* clock of its newest use */
};

/* Ranks over which flats are sharded. */
struct wi_zero_domain {
    weft_comm *gathers, *reductions; /* gathers and reductions do not wait for each other */
    weft_comm *replicas;             /* NULL, or the ranks that keep the same shards of other copies */
    int rank, nranks;
};
/* Whose domains they are: of all parameters but experts, and of experts. An engine has the first one, or all. */
enum { WI_ZERO_COMMON, WI_ZERO_EXPERTS, WI_ZERO_DOMAINS_MOST };

/* The ranks that share a second copy of what was gathered (engine.c; gather.c uses it). comm: NULL: there is none. */
struct wi_zero_second {
    weft_comm *comm;
    int rank, nranks;
};

/* Memory of flats, and buffers of units that come and go (layout.c). */
struct wi_zero_space {
    void *at;
    size_t bytes;
};
struct wi_zero_spaces {
    int plain; /* there is no shareable memory: all but `state` are the heap's */
    struct wi_zero_space params, grads, state; /* of flats; state: weights and moments */
    struct wi_zero_space gather, reduce;       /* of the arenas */
    struct wi_zero_arena gather_arena, reduce_arena;
};

/* What is gathered, and what comes next (gather.c). */
struct wi_zero_gathers {
    struct wi_zero_trace trace;
    uint64_t clock;               /* of uses */
    size_t ahead;                 /* elements that are gathered ahead and not yet used */
    int *first_used, nfirst_used; /* units, in the order in which they were first used */
    int *delayed, ndelayed;       /* units that are read ahead, and gathered at the next use of a unit */
};

/* The order of reductions (grads.c; step.c lets the ranks agree on it). Number n is of order[n % norder]. */
struct wi_zero_turns {
    int *order, norder;           /* units with gradients, in the order in which they are reduced */
    int agreed;                   /* `order` is that of all ranks */
    int *completed, ncompleted;   /* in which their gradients became complete, in the first step's last micro-batch */
    uint64_t begun, due, finished; /* reductions of this step; due: of the micro-batches so far */
};

/* Where the program is in its step (grads.c). */
struct wi_zero_micro {
    int ended; /* micro-batches of this step that have */
    int more;  /* what weft_zero_accumulate said, or -1 */
    int last;  /* the last one has ended */
    int begun; /* gradients of the current one have come */
    int final; /* the newest that has begun is the step's last */
};

/* What losses are multiplied by (step.c). */
struct wi_zero_scale {
    double value;
    int good_steps, hysteresis;
};

/* The file of weights and moments (offload.c), and what is in memory instead (tier.c). NULL: there is none. */
struct wi_zero_offload {
    struct wi_disk *disk;
    int *flats, nflats; /* whose they are, by extent */
    struct wi_zero_tier *tier;
};

/* What updates work in (step.c, sums.c, update.c; layout.c makes it): a step allocates nothing, as a rank without memory would keep
 * the others waiting. */
struct wi_zero_update {
    weft_zero_hyper *hypers;             /* of this step's groups */
    int nhypers;                         /* more than the largest group of a parameter */
    struct wi_optim *optims;             /* of parameters; those of frozen ones are not used */
    int two_passes;                      /* an optimizer of a flat takes two */
    int first_pass;                      /* it is the first one */
    struct wi_optim_sums *sums;          /* of the first pass: of parameters' shards */
    double *squares;                     /* room for two of each parameter */
    struct wi_optim_vector *vectors;     /* room for as many as there are parameters */
    int *flats;                          /* room for two lists of all flats, their ends, and a number of each unit */
    size_t *extents;                     /* room for as many as there are flats */
    struct wi_optim_piece *pieces;       /* room for those of one flat */
    struct wi_optim_codes *piece_codes;  /* of the pieces, if moments are kept as codes */
    struct wi_optim_sums **piece_sums;   /* of the pieces, in a first pass; room for as many */
    void *scratch;                       /* of optimizers, one after the other */
    size_t scratch_bytes;
};

/* Checkpoints (save.c, load.c; tensors.c lists what they have). */
struct wi_zero_saves {
    struct wi_ckpt *ckpt; /* NULL until the first save */
    size_t *through;      /* of each unit: how many pieces of the newest save there are up to its own; copied in this order */
    struct wi_ckpt_progress progress; /* of the newest save or load; read without the engine's lock */
    char *loaded_tag;     /* of the newest load */
    void *loaded_client;
    size_t loaded_client_bytes;
};

struct weft_zero {
    /* Calls (engine.c). */
    uint64_t magic;
    pthread_mutex_t lock;
    int sealed;
    weft_status failed; /* a failure that is final, with its text */
    char *failure;
    weft_zero_config config;
    weft_zero_stats stats;

    /* Ranks (engine.c). */
    weft_context *context;
    weft_comm *world; /* a duplicate of the caller's */
    weft_comm *model; /* the caller's, or NULL */
    int rank, nranks; /* in `world` */
    int copy;         /* which copy this rank has a shard of */
    struct wi_zero_domain domains[WI_ZERO_DOMAINS_MOST];
    int ndomains;
    int *places, nplaces; /* with experts: of each rank its group's number */
    struct wi_zero_second second;

    /* The model (model.c; layout.c makes the flats). */
    struct wi_zero_param *params;
    struct wi_zero_unit *units;
    struct wi_zero_flat *flats;
    int nparams, nunits, nflats;
    struct wi_zero_spaces memory;

    /* The step. */
    struct wi_zero_gathers gathers;
    struct wi_zero_turns turns;
    struct wi_zero_micro micro;
    struct wi_zero_scale scale;
    uint64_t step; /* that were made */
    struct wi_optim_pool *pool;
    struct wi_zero_update update;

    /* Files. */
    struct wi_zero_offload offload;
    struct wi_zero_swap *swap; /* NULL, or the file of parameters and gradients (swap.c) */
    struct wi_zero_saves saves;
};

/* Every public call: enters, does its work, and leaves with what the work returned. Failures' texts become the thread's. */
weft_status wi_zero_enter(const char *call, weft_zero *zero, int sealed, unsigned *since);
/* A failure behind which ranks are not at the same place any more is final: every later call returns it. */
weft_status wi_zero_final(weft_zero *zero, weft_status status);
weft_status wi_zero_leave(weft_zero *zero, unsigned since, weft_status status);
/* What failed, in weft's words, while the engine did what the format says. What is final is remembered. */
weft_status wi_zero_broke(weft_zero *zero, weft_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* A field of a configuration, by its name. */
weft_status wi_zero_number(const char *name, double value, double least, double most);
/* Why an optimizer cannot be that of parameters of an engine of this configuration; NULL: it can. */
const char *wi_zero_refuses(const weft_zero_config *config, const struct wi_optim_ops *ops);
weft_status wi_zero_param_check(const char *call, const weft_zero *zero, int param);
weft_status wi_zero_unit_check(const char *call, const weft_zero *zero, int unit);

/* layout.c */
weft_status wi_zero_lay_out(weft_zero *zero);
weft_status wi_zero_allocate(weft_zero *zero);
void wi_zero_free_memory(weft_zero *zero);

/* seal.c: compare with the other ranks. */
weft_status wi_zero_compare_config(weft_zero *zero);
weft_status wi_zero_compare_model(weft_zero *zero);
/* A collective of a few bytes of each rank, which blocks. */
weft_status wi_zero_gather_bytes(weft_zero *zero, const void *mine, void *all, size_t bytes, const char *label);
/* How all ranks have fared: a failure of one is all ranks'. */
weft_status wi_zero_agree(weft_zero *zero, weft_status own, const char *call);

/* experts.c: collective, when there are domains; and when models were compared. */
weft_status wi_zero_find_places(weft_zero *zero);
weft_status wi_zero_name_saved(weft_zero *zero);
static inline const char *wi_zero_saved_name(const struct wi_zero_param *param)
{
    return param->saved ? param->saved : param->name;
}

/* gather.c */
weft_status wi_zero_gather_finish(weft_zero *zero, int unit); /* waits for what was begun */
weft_status wi_zero_gather_updated(weft_zero *zero, int unit); /* below stage 3, after its update: begins */
weft_status wi_zero_gather_finish_all(weft_zero *zero);
weft_status wi_zero_release_all(weft_zero *zero);             /* what no pass uses and is not kept; second copies are old */
/* What was gathered ahead and does not come soon any more, but `used`; < 0: none is excepted. */
weft_status wi_zero_release_passed_over(weft_zero *zero, int used);
weft_status wi_zero_used(weft_zero *zero, int unit, enum wi_zero_event event); /* record, gather, gather ahead */
void wi_zero_done(weft_zero *zero, int unit);                 /* a pass has ended: release, perhaps */

/* step.c: update elements of what this rank updates of a flat, from `from` on; weight and moments of them are in `memory`. */
struct wi_zero_memory {
    float *weight, *moment[2]; /* of element `from` */
    const char *grads;         /* of element 0 */
    char *out;
};
void wi_zero_update_part(weft_zero *zero, const struct wi_zero_flat *flat, size_t from, size_t elems,
                         const struct wi_zero_memory *memory);

/* update.c: update all flats; in a first pass those of optimizers that take two. `updated` is called of units in the order in which
 * they are used, which is the same on all ranks wherever their flats are. */
typedef weft_status (*wi_zero_updated_fn)(weft_zero *zero, int unit);
weft_status wi_zero_update_all(weft_zero *zero, wi_zero_updated_fn updated);
/* A collective of a few numbers of 64 bits, in place, added up or those of the first rank. */
weft_status wi_zero_numbers(weft_zero *zero, weft_comm *comm, weft_kind kind, double *values, size_t count, const char *label);

/* sums.c: the first pass of optimizers that take two; they are told the sums over whole parameters. */
weft_status wi_zero_first_pass(weft_zero *zero);

/* state.c: moments that are kept as codes. */
size_t wi_zero_code_bytes(const struct wi_zero_flat *flat, size_t elems);
size_t wi_zero_scale_bytes(const struct wi_zero_flat *flat, size_t elems);
/* Parameter number `index` of a flat, its part in the shard of a rank: from `begin` of the parameter on; 0: there is none. */
int wi_zero_part_codes(const weft_zero *zero, const struct wi_zero_flat *flat, int index, int rank, size_t *begin, size_t *elems,
                       struct wi_optim_codes *codes);
/* Elements of a moment, from `at` of what this rank updates on; put: of whole parts of parameters. */
void wi_zero_state_get(const weft_zero *zero, const struct wi_zero_flat *flat, weft_zero_what what, size_t at, size_t elems,
                       float *values);
void wi_zero_state_put(const weft_zero *zero, const struct wi_zero_flat *flat, weft_zero_what what, size_t at, size_t elems,
                       const float *values);

/* save.c: a save that is under way has copied what is about to change: all, or a unit. */
void wi_zero_snapshot_wait(weft_zero *zero);
void wi_zero_snapshot_wait_unit(weft_zero *zero, int unit);

/* grads.c */
weft_status wi_zero_reduce_finish_all(weft_zero *zero);
weft_status wi_zero_unit_ended(weft_zero *zero, int unit); /* gradients of it that have not come are 0 */
void wi_zero_forget_gradients(weft_zero *zero);
double wi_zero_squares(weft_zero *zero); /* of this rank's shards of the gradients */
double wi_zero_flat_squares(const weft_zero *zero, const struct wi_zero_flat *flat, const void *shard);
/* Whether gradients are reduced in every micro-batch. */
static inline int wi_zero_reduces_every(const weft_zero *zero)
{
    return zero->config.stage >= 2 || zero->config.reduce == WEFT_ZERO_REDUCE_EVERY;
}

/* Whether every rank updates all elements, from all gradients, so that nothing is gathered behind an update. */
static inline int wi_zero_updates_all(const weft_zero *zero)
{
    return zero->config.stage == 0;
}

/* Moments that an optimizer keeps of each element. */
static inline int wi_zero_ops_moments(const weft_zero_config *config, const struct wi_optim_ops *ops)
{
    return ops->flags & WI_OPTIM_PROGRAM ? config->update_moments : ops->moments;
}

/* Moments of a trained flat. */
static inline int wi_zero_moments(const weft_zero *zero, const struct wi_zero_flat *flat)
{
    return wi_zero_ops_moments(&zero->config, flat->ops);
}

/* Whether any of its elements may be updated by themselves, in pieces that pass through memory. */
static inline int wi_zero_in_pieces(const struct wi_zero_flat *flat)
{
    return !(flat->ops->flags & WI_OPTIM_MATRICES) && !flat->state;
}

/* Which domain a parameter is of. */
static inline int wi_zero_domain_of(const struct wi_zero_param *param)
{
    return param->flags & WEFT_ZERO_EXPERT ? WI_ZERO_EXPERTS : WI_ZERO_COMMON;
}

static inline int wi_zero_has_experts(const weft_zero *zero)
{
    return zero->ndomains > WI_ZERO_EXPERTS;
}

/* Of parameters, gradients, and values that programs give and get. */
static inline int wi_zero_has_dtype(weft_dtype dtype)
{
    return dtype == WEFT_FLOAT32 || dtype == WEFT_BFLOAT16 || dtype == WEFT_FLOAT16;
}

static inline size_t wi_zero_width(weft_dtype dtype)
{
    return dtype == WEFT_FLOAT32 ? 4 : 2;
}
/* A call of one of the engine's collectives, labelled; fills `call` and `options`, and with a codec options->codec. */
void wi_zero_call(weft_call *call, weft_call_options *options, weft_kind kind, const void *src, void *dst, size_t count,
                  weft_dtype dtype, const char *label);

static inline const struct wi_zero_domain *wi_zero_domain(const weft_zero *zero, const struct wi_zero_flat *flat)
{
    return &zero->domains[flat->domain];
}

/* Where this rank's shard begins in its flat, in elements. */
static inline size_t wi_zero_first(const weft_zero *zero, const struct wi_zero_flat *flat)
{
    return (size_t)zero->domains[flat->domain].rank * flat->shard;
}

static inline size_t wi_zero_round(size_t value, size_t multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

#endif
