/* SPDX-License-Identifier: BSD-3-Clause */
/* Choosing: which algorithm and which slice size. The choice depends only on what all ranks have agreed on (the mesh's
 * facts, settings that are equal everywhere, and the operation's arguments), so all ranks choose alike. */
#ifndef WI_PLAN_PLAN_H
#define WI_PLAN_PLAN_H

#include "algo/algo.h"

struct wi_plan_facts {
    int nranks, nnodes;
    int mapped;              /* one mapped group holds all ranks */
    int can_map, can_get;
    int oversubscribed;
    size_t slot_bytes;
    size_t ll_max[WI_NUM_COLLS]; /* up to these bytes "flat" runs over ll lines: nothing is faster */
    uint32_t depth;
    const struct wi_algo_levels *levels; /* borrowed; NULL: nothing is known */
};

/* Memory of the operation's buffers, known on all ranks once they have told each other. */
enum wi_plan_memory {
    WI_MEMORY_UNKNOWN, /* not exchanged (yet) */
    WI_MEMORY_PRIVATE,
    WI_MEMORY_MAPPED,  /* every buffer that another rank would touch lies in a shareable segment */
};

struct wi_plan_query {
    enum wi_coll coll;
    size_t bytes;            /* the vector, or one rank's (largest) share */
    int v_form;
    int ordered;             /* operator is not commutative */
    int in_place;
    int root;
    enum wi_plan_memory memory;
};

struct wi_plan {
    const struct wi_algo *algo;
    size_t slice_bytes;      /* two-sided and mapped: at most this much of a block at once */
    double predicted_us;
    char spec[WI_ALGO_SPEC_BYTES]; /* of a hierarchical algorithm, for wi_algo_args.spec; else "" */
};

struct wi_planner;
/* `overrides`: "", or "all_reduce:ring,broadcast:64K-:chain"; WEFT_ECONFIG names the wrong part and near names. */
weft_status wi_planner_create(const struct wi_plan_facts *facts, const char *overrides, size_t slice_bytes,
                              struct wi_planner **planner);
void wi_planner_destroy(struct wi_planner *planner);
/* `forced`: an algorithm's name for this call, or NULL. WEFT_ENOTSUP when no algorithm, or not the forced one, can do it. */
weft_status wi_plan(const struct wi_planner *planner, const struct wi_plan_query *query, const char *forced,
                    struct wi_plan *plan);
/* Does an override concern this collective? */
int wi_planner_has_rule(const struct wi_planner *planner, enum wi_coll coll);
/* Do the ranks have to tell each other about their memory (or largest share) before this operation is planned? */
int wi_plan_needs_exchange(const struct wi_planner *planner, const struct wi_plan_query *query, const char *forced);

#endif
