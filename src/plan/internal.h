/* SPDX-License-Identifier: BSD-3-Clause */
/* The planner from the inside. */
#ifndef WI_PLAN_INTERNAL_H
#define WI_PLAN_INTERNAL_H

#include "plan/pipeline.h"
#include "plan/plan.h"
#include "topology/model.h"

#define WI_PLAN_MAX_RULES 32
#define WI_PLAN_MAX_HIER 128
#define WI_PLAN_MAX_LIST 80 /* candidates of one collective */
#define WI_PLAN_CACHE 64    /* a power of two */
#define WI_PLAN_NAMED 8
#define WI_PLAN_SAMPLE 1048576.0
/* Factor on the link's time where each step has a new partner: the link idles between steps. Measured with four hosts at 1 Gbit/s
 * and unshaped: 3 % with one rank each; with two ranks each node:rhalving takes 5 % more than node:ring at 16 MiB, 10 % more at 8
 * MiB. */
#define WI_PLAN_REFILL 1.05
#define WI_PLAN_LOCAL_CORE 0.6 /* of the time of a message within a node: what the cores of both ends do */

struct wi_plan_rule {
    enum wi_coll coll;
    size_t least, most;
    char algo[WI_ALGO_SPEC_BYTES];
};

/* A hierarchical candidate, and what it costs: a line in the bytes for each stage. */
struct wi_plan_hier {
    struct wi_algo_choice choice;
    struct wi_algo_level_cost none, one; /* for 0 bytes, and for WI_PLAN_SAMPLE */
};

/* Measurements of one algorithm with these ranks, by ascending size. */
struct wi_plan_series {
    const char *algo; /* in the table */
    uint8_t coll, shared;
    uint32_t first, n;
};

struct wi_plan_corrections {
    const struct wi_plan_table *table; /* borrowed */
    struct wi_table_point *points;     /* sorted by collective, memory, algorithm, bytes */
    struct wi_plan_series *series;
    uint32_t npoints, nseries;
    uint32_t of_coll[WI_NUM_COLLS + 1]; /* first series of a collective */
    uint8_t any_shared[WI_NUM_COLLS];   /* were buffers from weft_mem_alloc measured? */
};

struct wi_plan_slot {
    struct wi_plan_query query;
    int used;
    struct wi_plan plan;
};

/* Of a name given for a call. */
struct wi_plan_named_slot {
    struct wi_plan_slot slot;
    char name[WI_ALGO_SPEC_BYTES];
};

struct wi_plan_core_rates {
    struct wi_plan_rate copy;
    struct wi_plan_rate reduce[WI_PLAN_WORKS];
    int nclasses;
    uint8_t first[WI_PLAN_WORKS]; /* [nclasses]: the work whose rates a class has */
};

struct wi_planner {
    struct wi_plan_facts facts;
    struct wi_plan_link_params params;
    struct wi_plan_core_rates core_rates;
    size_t slice_bytes;
    size_t ll_max[WI_NUM_COLLS];    /* the facts', or less where measurements show that something else is faster */
    const int32_t *node_of;         /* NULL: not known */
    double ring_local;              /* hops of the ring within a node that share a core */
    double ring_remote;             /* part of the ranks whose successor is on another node */
    /* Part of a tree's hops that leave a node: of the longest chain, with radix 2 and 4, and of all. */
    double tree_remote[2], edges_remote;
    const struct wi_model *graph;   /* NULL, or with links that link parameters cannot express */
    double ring_sharing, all_sharing; /* ranks of a node that send into its link at the same time */
    /* Levels outside of the nodes, their number; what their groups share towards others; how much longer rings and exchanges
     * take that cross them, 0: there are none. */
    int node_level;
    double level_rate[WI_ALGO_MAX_LEVELS], outer_ring, outer_all, outer_tree;
    int nrules, nhier, measured; /* measured: the link parameters are */
    struct wi_plan_rule rules[WI_PLAN_MAX_RULES];
    struct wi_plan_hier *hier;      /* [nhier] */
    int group_ranks[WI_ALGO_MAX_LEVELS]; /* of the level's largest group */
    struct wi_plan_corrections corrections;
    struct wi_plan_patterns *patterns; /* NULL: one rank a node */
    struct wi_plan_forms *forms;    /* NULL: prices are computed each time */
    struct wi_plan_slot cache[WI_PLAN_CACHE];
    struct wi_plan_named_slot named[WI_PLAN_NAMED];
    struct wi_plan_query linear[WI_PLAN_CACHE]; /* that were planned for linear codecs */
};

/* uplinks.c: once the graph is known. Does a stage cross nodes, and how long do its bytes, those of one rank (`own`) and of its
 * group (`all`), take on the links that they share? */
void wi_plan_find_uplinks(struct wi_planner *p);
int wi_plan_stage_is_remote(const struct wi_planner *p, const struct wi_plan_hier *h, int stage);
double wi_plan_stage_link_us(const struct wi_planner *p, const struct wi_plan_hier *h, int stage, double own, double all);

/* plan.c: is this query of a linear codec another one than the last in its place of the cache? */
int wi_plan_is_new_linear(struct wi_planner *p, const struct wi_plan_query *q);

/* override.c */
weft_status wi_plan_parse_rules(struct wi_planner *p, const char *text);
const struct wi_plan_rule *wi_plan_ruled(const struct wi_planner *p, const struct wi_plan_query *q);

int wi_plan_is_file(const char *name);
weft_status wi_plan_find_file(const struct wi_planner *p, const struct wi_plan_query *q, const char *name,
                              const struct wi_algo **algo);

/* candidates.c */
const char *wi_plan_why_not(const struct wi_planner *p, const struct wi_plan_query *q, const struct wi_algo_choice *c);
weft_status wi_plan_find_hier(struct wi_planner *p);
/* Which hierarchical candidate it is, whatever the number of chunks; below 0: none. */
int wi_plan_hier_index(const struct wi_planner *p, const struct wi_algo_choice *c);
/* The level just outside of the nodes, NULL if the ranks have none. */
const char *wi_plan_outer_level(const struct wi_algo_levels *levels);
/* All candidates of the collective, with a price where they can run; returns how many. WEFT_ENOMEM: other ranks may know a price
 * that this one does not, so it must not choose. */
int wi_plan_list(const struct wi_planner *p, const struct wi_plan_query *q,
                 struct wi_plan_candidate list[WI_PLAN_MAX_LIST]);
/* The fastest of them; NULL: none can run. */
const struct wi_plan_candidate *wi_plan_best(const struct wi_plan_candidate *list, int n);

/* cost.c: microseconds by link parameters and formulas */
void wi_plan_find_sharing(struct wi_planner *p);
double wi_plan_flat_us(const struct wi_planner *p, const struct wi_plan_query *q, const struct wi_algo *a,
                       struct wi_algo_cost *cost);
/* Slices that follow each other. */
double wi_plan_slices(const struct wi_planner *p, const struct wi_algo *a, double bytes);
double wi_plan_hier_us(const struct wi_planner *p, const struct wi_plan_query *q, const struct wi_plan_hier *h,
                       int nchunks, struct wi_algo_cost *cost);
/* What a core takes for so much coding. */
double wi_plan_coding_us(const struct wi_plan_query *q, double encoded, double decoded);
/* Of any choice, a rule's or a call's. */
double wi_plan_choice_us(const struct wi_planner *p, const struct wi_plan_query *q, const struct wi_algo_choice *c,
                         struct wi_algo_cost *cost);
int wi_plan_nchunks(const struct wi_algo_choice *c);
/* The time of a cost through mapped memory. */
double wi_plan_mapped_us(const struct wi_planner *p, const struct wi_plan_query *q, const struct wi_algo *a,
                         const struct wi_algo_cost *cost);
/* Data goes to one neighbour all the time, so that steps overlap. */
int wi_plan_streams(const struct wi_planner *p, const struct wi_algo_choice *c);
/* The time of a candidate, NAN: no memory. Sets the number of chunks of a hierarchical one, if that was left open. */
double wi_plan_price(const struct wi_planner *p, const struct wi_plan_query *q, struct wi_algo_choice *c,
                     struct wi_algo_cost *cost);
/* How it runs as a pipeline, if it does. */
struct wi_plan_pipeline wi_plan_pipeline_of(const struct wi_planner *p, const struct wi_plan_query *q,
                                            const struct wi_algo_choice *c);

/* pipeline_stages.c. The stages of a hierarchical candidate: those by messages from the outermost in, then, where its spec is
 * mapped, those inside the innermost groups up and down. Returns how many there are. */
#define WI_PLAN_PIPELINE_STAGES (WI_ALGO_MAX_LEVELS + 2)
int wi_plan_pipeline_stages(const struct wi_planner *p, const struct wi_plan_query *q, const struct wi_plan_hier *h,
                            struct wi_pipeline_stage stages[WI_PLAN_PIPELINE_STAGES]);
/* The time in so many fragments; 0: in fragments of the best length. */
double wi_plan_pipeline_us(const struct wi_planner *p, const struct wi_plan_query *q, const struct wi_plan_hier *h,
                           int nfragments, struct wi_plan_pipeline *pipeline);

/* core_rates.c. Rates from the planner's parameters and what the ranks measured (or NULL); then those of a table. */
void wi_plan_find_rates(struct wi_planner *p, const struct wi_rates *measured);
void wi_plan_table_rates(struct wi_planner *p, const struct wi_table_section *section);
/* Bytes per microsecond for this query: reductions, copies in own memory, and reductions that read other ranks' memory. */
double wi_plan_reduce_rate(const struct wi_planner *p, const struct wi_plan_query *q);
double wi_plan_copy_rate(const struct wi_planner *p, const struct wi_plan_query *q);
double wi_plan_fused(const struct wi_planner *p, const struct wi_plan_query *q);

/* pattern.c: exchanges whose partners are known, where several ranks share links. NULL: use the formulas. */
struct wi_plan_pattern {
    int known, remote, local; /* rounds with messages between nodes, and within nodes only */
    double us_per_byte;       /* of all rounds, of the busiest link of each */
};
weft_status wi_plan_patterns_init(struct wi_planner *p);
void wi_plan_patterns_fini(struct wi_planner *p);
const struct wi_plan_pattern *wi_plan_pattern_of(const struct wi_planner *p, const struct wi_algo *a);

/* cost_forms.c: closed forms, cached where they are expensive to compute */
void wi_plan_forms_init(struct wi_planner *p);
void wi_plan_forms_fini(struct wi_planner *p);
double wi_plan_form_us(const struct wi_planner *p, const struct wi_plan_query *q, const struct wi_algo *a,
                       const struct wi_algo_args *args, const struct wi_algo_rates *rates);

/* plan.c: how long a slice is, unless the algorithm's scratch makes it shorter */
size_t wi_plan_slice(const struct wi_planner *p, const struct wi_algo *a);

/* correct.c */
weft_status wi_plan_correct_init(struct wi_planner *p, const struct wi_plan_table *table);
void wi_plan_correct_fini(struct wi_planner *p);
/* Corrects the candidates' predictions by measurements. Candidates that were not measured, while others were, are left out
 * (why_not). */
void wi_plan_correct(const struct wi_planner *p, const struct wi_plan_query *q, struct wi_plan_candidate *list, int n);

#endif
