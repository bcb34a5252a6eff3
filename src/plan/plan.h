/* SPDX-License-Identifier: BSD-3-Clause */
/* Choosing: which algorithm and which slice size. The choice depends only on what all ranks have agreed on (the mesh's
 * facts, settings that are equal everywhere, the contents of the tuning table and of the topology file, and the operation's
 * arguments with what the ranks exchanged about them, which may hold one rank's vote for a copy path), never on this
 * rank's clock or on what happened before, so all ranks choose alike. */
#ifndef WI_PLAN_PLAN_H
#define WI_PLAN_PLAN_H

#include "algo/algo.h"
#include "base/rates.h"
#include "plan/link_params.h"
#include "plan/table.h"

struct wi_model;
struct wi_plan_query;
/* The transport among the ranks inside each group of a level, as all ranks have agreed on it: it decides which algorithms are
 * candidates. All zero: not known, messages by any transport. */
struct wi_plan_transport {
    const char *name; /* "shm"; borrowed. NULL: several, or no group has several ranks */
    uint32_t caps;    /* WEFT_CAP_* of it on all ranks that have it: they distinguish tcp from an RDMA adapter */
    uint8_t mapped;   /* each group of the level lies within one mapped group */
    uint8_t can_map, can_get, can_put;
    /* Where `mapped`: operations of collectives that have stages (wi_algo_has_stages) may run as pipelines of them, those inside
     * the groups through their memory (algo.h: "node:ring/flat"). At most `window` fragments of one are in flight (as slots and
     * windows of channels allow, at least 1), each with at most `slot_bytes` of a vector, 0: any. */
    uint32_t window;
    size_t slot_bytes;
};
struct wi_plan_facts {
    int nranks, nnodes;
    int mapped;              /* one mapped group holds all ranks */
    int can_map, can_get, can_put;
    int oversubscribed;
    size_t slot_bytes;
    size_t ll_max[WI_NUM_COLLS]; /* up to these bytes "flat" runs over ll lines: nothing is faster */
    const struct wi_algo_levels *levels; /* borrowed; NULL: nothing is known */
    struct wi_plan_transport inside[WI_ALGO_MAX_LEVELS]; /* of each of the levels */
    struct wi_plan_transport all;                        /* of all ranks together */
    /* Algorithms from files, "file:NAME"; they are never the planner's own choice. NULL: there are no files. WEFT_ENOTFOUND: there
     * is none of this name. WEFT_ENOTSUP: not for this call, and the text says why; `algo` is NULL if it is for another number of
     * ranks. */
    weft_status (*find_file)(const void *files, const struct wi_plan_query *query, int nranks, const char *name,
                             const struct wi_algo **algo);
    const void *files;
};

/* Memory of the operation's buffers, known on all ranks once they have exchanged it. */
enum wi_plan_memory {
    WI_MEMORY_UNKNOWN, /* not exchanged (yet) */
    WI_MEMORY_PRIVATE,
    WI_MEMORY_MAPPED,  /* every buffer that another rank would touch lies in a shareable segment */
};

/* The path of copies between ordinary buffers of one node. */
enum wi_plan_copy_path { WI_COPY_PATH_ANY, WI_COPY_PATH_SLOTS, WI_COPY_PATH_ATTACH, WI_COPY_PATH_MESSAGES };

/* Ranks of an all_to_all_v know only their own counts, but either all of them go by level or none. So the algorithm is chosen as if
 * every part had this length; it is also compared with the size ranges of rules. */
#define WI_PLAN_PACKED_PART_BYTES 1024

/* What a call's codec does to what is sent. Its rates are constants of the library, so that all ranks have the same: bytes of fp32
 * per microsecond and core. */
struct wi_plan_codec {
    uint32_t id;         /* of kind and parameters; 0: the call has no codec */
    uint8_t may_bypass;  /* plain algorithms are candidates, too */
    uint8_t feedback;    /* encoding adds a residual, and writes it */
    uint8_t keeps_state; /* and its state is that of one shot or two among all ranks */
    uint8_t plain;       /* no images: of a linear codec whose call is sent plain after all */
    float ratio;         /* bytes of images for each byte of the vector */
    float block;         /* bytes of the vector that become one image, whole or not */
    float encode_rate, decode_rate;
    float work;          /* bytes of fp32 for each byte of the vector */
};

struct wi_codec_use;
uint32_t wi_plan_codec_id(const struct wi_codec_use *use);
struct wi_plan_codec wi_plan_codec_of(const struct wi_codec_use *use, weft_dtype dtype); /* codec.c */

struct wi_plan_query {
    enum wi_coll coll;
    size_t bytes;            /* the vector, or one rank's (largest) share */
    int v_form;
    int ordered;             /* operator is not commutative */
    int rounds;              /* another grouping of the operands may give other bits */
    int in_place;
    int root;
    int adds;                /* the result is added to what the destination holds */
    enum wi_plan_memory memory, memory_dst; /* what others copy from; what they copy to, for algorithms that put */
    enum wi_plan_copy_path copy_path; /* only algorithms that use this path */
    int packed;           /* all_to_all_v: `bytes` is WI_PLAN_PACKED_PART_BYTES, and algorithms by level are candidates */
    uint8_t work;         /* what is reduced: wi_plan_work; 0 where nothing is */
    struct wi_plan_codec codec;
    int own_in_place, is_root; /* of this rank's call, which other ranks do not know: for algorithms from files only */
};

/* A type and an operator (or WI_RATE_USER) as one number; 0: the sum of floats. */
#define WI_PLAN_WORKS (WEFT_NUM_DTYPES * WI_RATE_OPS)
uint8_t wi_plan_work(unsigned dtype, unsigned op);
void wi_plan_work_of(uint8_t work, unsigned *dtype, unsigned *op);

/* How an operation runs as a pipeline of stages (plan/pipeline.h). */
struct wi_plan_pipeline {
    size_t fragment_bytes; /* of the operation's bytes; 0: it is no pipeline */
    uint32_t window;       /* fragments in flight */
    uint8_t bound;         /* enum wi_pipeline_bound */
};

struct wi_plan {
    const struct wi_algo *algo; /* from a file: without build and cost */
    size_t slice_bytes;      /* two-sided and mapped: at most this much of a block at once */
    double predicted_us;
    struct wi_hier_spec spec; /* of a hierarchical algorithm, for wi_algo_args.spec; else of no levels */
    struct wi_plan_pipeline pipeline;
};

/* What a planner is made from; all but the facts may be NULL or 0. Nothing is kept but `facts.levels` and `graph`. */
struct wi_plan_config {
    const struct wi_plan_facts *facts;
    const char *overrides;   /* "", or "all_reduce:ring,broadcast:64K-:chain,all_reduce:1M-:node:ring" */
    size_t slice_bytes;      /* 0: by the algorithm */
    const struct wi_plan_link_params *params; /* NULL: those of the class of link */
    const struct wi_rates *rates;          /* what the ranks measured, the slowest of them; NULL: they did not */
    const struct wi_plan_table *table;     /* measured with these ranks, or others */
    const struct wi_model *graph;          /* of the ranks: for what link parameters cannot express; kept, borrowed */
};

/* The levels that algorithms know, from a model (NULL: none) and the nodes (NULL: the model's; else numbered by first
 * appearance), and "rank". Groups are numbered in the order in which a ring visits them. *memory holds them: wi_free. */
weft_status wi_plan_levels(const struct wi_model *model, const struct wi_algo_level *node, int nranks,
                           struct wi_algo_levels *levels, int32_t **memory);

struct wi_planner;
/* WEFT_ECONFIG names the wrong part of the overrides and similar names. */
weft_status wi_planner_create(const struct wi_plan_config *config, struct wi_planner **planner);
void wi_planner_destroy(struct wi_planner *planner);
/* `forced`: an algorithm's name for this call, or NULL. WEFT_ENOTSUP when no algorithm, or not the forced one, can do it.
 * Remembers what it chose: one thread at a time. */
weft_status wi_plan(struct wi_planner *planner, const struct wi_plan_query *query, const char *forced,
                    struct wi_plan *plan);
/* The algorithm from a file that the call or an override asks for; NULL: none, or not for this call. */
const struct wi_algo *wi_plan_file(const struct wi_planner *planner, const struct wi_plan_query *query,
                                   const char *forced);
/* Does an override concern this collective? */
int wi_planner_has_rule(const struct wi_planner *planner, enum wi_coll coll);
/* The largest message up to which "flat" is taken for any call, so that the planner need not be asked; 0: none. */
size_t wi_planner_ll_max(const struct wi_planner *planner, enum wi_coll coll);
/* Do the ranks have to exchange what their memory is (or their largest share) before this operation is planned? */
int wi_plan_needs_exchange(const struct wi_planner *planner, const struct wi_plan_query *query, const char *forced);

/* ---- Looking inside: for weft-plan and weft-tune ---- */

enum wi_plan_basis {
    WI_PLAN_MODEL,    /* link parameters and formulas only */
    WI_PLAN_SCALED,   /* the formula, scaled by measurements of other sizes */
    WI_PLAN_MEASURED, /* at this size */
    WI_PLAN_LL,       /* not priced: flat over ll lines is fastest */
};
const char *wi_plan_basis_name(enum wi_plan_basis basis);

struct wi_plan_candidate {
    struct wi_algo_choice choice;
    const char *why_not;      /* NULL: it can run */
    struct wi_algo_cost cost; /* of the busiest rank */
    struct wi_plan_pipeline pipeline;
    double model_us;          /* by link parameters and formulas */
    double predicted_us;      /* after correction by the table */
    enum wi_plan_basis basis;
};
/* Every algorithm of the collective, in the order in which the planner looks at them; free with wi_free. */
weft_status wi_plan_candidates(const struct wi_planner *planner, const struct wi_plan_query *query,
                               struct wi_plan_candidate **list, int *n);

/* The rate at which a core reduces or copies, and its source. */
enum wi_plan_origin { WI_ORIGIN_CONSTANT, WI_ORIGIN_MODEL, WI_ORIGIN_MEASURED, WI_ORIGIN_TABLE };
const char *wi_plan_origin_name(enum wi_plan_origin origin);
struct wi_plan_rate {
    float rate[WI_RATE_PLACES]; /* bytes per microsecond */
    float fused;                /* at most, where the operands come from other ranks' memory: the kernel alone */
    uint8_t origin;             /* enum wi_plan_origin */
    uint8_t price_class;        /* work of equal rates */
};
/* What a linear codec makes of an all_reduce (comm/linear.c): ordinary collectives of short vectors. */
struct wi_plan_linear {
    int used;                     /* 0: plain data is faster, and may be sent */
    int is_new;                   /* the call's query is not the one that was planned last in its place of a small cache */
    double plain_us, coded_us;    /* of the vector as it is; of all of this, with encoding and decoding */
    struct wi_plan agreed, summed; /* agreed: of no algorithm where nothing is agreed on */
    size_t agreed_bytes, summed_bytes;
};
struct weft_codec_linear;
/* query: of the call, its codec by wi_plan_codec_of. `forced`: as in wi_plan, of the sum. */
weft_status wi_plan_linear(struct wi_planner *planner, const struct wi_plan_query *query, const struct weft_codec_linear *linear,
                           const char *forced, struct wi_plan_linear *plan);

/* The rate of reductions of this work (wi_plan_work); below 0: of copies. */
const struct wi_plan_rate *wi_planner_rate(const struct wi_planner *planner, int work);

/* The rule that decides this query, or NULL. */
const char *wi_plan_rule(const struct wi_planner *planner, const struct wi_plan_query *query);

#endif
