/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs on synthetic clusters, described by one line of text, with what the planner is told about them; and what a candidate
 * takes there by the simulator's events. Shared by the program that made picks.txt and by the tests that read it. */
#ifndef WI_TESTS_ORACLE_WORLD_H
#define WI_TESTS_ORACLE_WORLD_H

#include "plan/internal.h"
#include "sim/cost.h"
#include "topology/graph.h"
#include "topology/synthetic.h"

#define ORACLE_RANKS 512
#define ORACLE_TEXT 1024

struct oracle_world {
    int nranks, nnodes;
    int32_t *node, *place; /* [nranks] */
    struct wi_topo *topo;
    struct wi_model *model;
    struct wi_algo_levels levels;
    int32_t *level_memory;
    struct wi_planner *planner;
};

/* `text`: "block" or "dealt", and a synthetic description, whose cores get one rank each: node after node, or dealt out. */
weft_status oracle_open(struct oracle_world *w, const char *text);
void oracle_close(struct oracle_world *w);

/* By events, coarser cuts extrapolated, where a run has no more than so many messages and local pieces; else by loads. */
weft_status oracle_run(const struct oracle_world *w, const struct wi_algo_choice *c, size_t bytes, uint32_t units,
                       struct wi_sim_cost *cost);

#endif
