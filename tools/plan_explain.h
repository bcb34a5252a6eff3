/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-plan explain: what its files share. */
#ifndef WEFT_PLAN_EXPLAIN_H
#define WEFT_PLAN_EXPLAIN_H

#include <jansson.h>

#include "compress/codec.h"
#include "plan/plan.h"
#include "sim/cost.h"
#include "topology/graph.h"
#include "topology/model.h"

#define EXPLAIN_SIM_RANKS 64 /* more: closed forms only */

struct explain {
    /* asked */
    const char *topo_file, *synthetic, *tuning, *rules, *plans;
    struct wi_plan_query query;
    unsigned dtype, op;
    int reduces, measure; /* measure: this machine's cores */
    int mapped_memory, nranks, nnodes, json, simulate, pipelines;
    int tuning_is_setting; /* WEFT_TUNING_FILE, not an option */
    const char *codec_text;    /* of --codec; NULL: WEFT_COMPRESS */
    struct wi_codec_use codec; /* off: none, or the vector is shorter than its min= */
    size_t slot_bytes; /* WEFT_SHM_STAGE_SLOT_BYTES */
    /* found */
    struct wi_topo *topo;
    struct wi_model *model;
    int32_t *places, *node_of;
    struct wi_algo_levels levels;
    int32_t *level_memory;
    struct wi_plan_facts facts;
    struct wi_plan_table *table;
    struct wi_planner *planner;
    struct wi_plan_candidate *list;
    struct wi_sim_cost *sim; /* [n]; us 0: not simulated */
    int n, assumed;
    struct wi_plan plan;
    struct weft_codec_linear linear_of; /* of a linear codec, in all_reduce: the candidates are those of plain data then ... */
    struct wi_plan_linear linear;       /* ... and this is how it is coded; coded_us 0: the codec is not linear */
    const char *rule;
    char machine[320];
};

/* plan_world.c: the ranks' machine. */
weft_status explain_world(struct explain *x);
void explain_free(struct explain *x);
/* The schedules of a candidate on the model, with contention. */
void explain_simulate(struct explain *x, int i);

/* plan_stages.c */
void explain_print_stages(const struct explain *x);
json_t *explain_stages_json(const struct explain *x);
json_t *explain_pipeline_json(const struct explain *x);

/* plan_print.c */
int explain_is_plan(const struct explain *x, int i);
void explain_print(const struct explain *x);
weft_status explain_print_json(const struct explain *x);

#endif
