/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-tune: what its files share. Measuring goes through the public header only; what is predicted comes from src/plan. */
#ifndef WEFT_TOOLS_WEFT_TUNE_H
#define WEFT_TOOLS_WEFT_TUNE_H

#include <stddef.h>
#include <stdint.h>
#include <weft/weft.h>

#include "plan/plan.h"

#define TUNE_MAX_SIZES 128
#define TUNE_MAX_ALGOS 64
#define TUNE_MAX_NODES 65536

enum tune_memory { TUNE_PRIVATE, TUNE_MAPPED, TUNE_BOTH };

struct tune_options {
    const char *output;       /* -o */
    const char *check, *table; /* --check FILE [--table FILE] */
    uint8_t colls[WI_NUM_COLLS];
    size_t sizes[TUNE_MAX_SIZES];
    int nsizes;
    enum tune_memory memory;
    double point_ms, total_s; /* for each algorithm at each size; 0: no limit */
    int quiet, links;
};

/* 0: go on; 1: done (help was printed); 2: bad arguments, one line on stderr if `speak`. */
int tune_options_parse(int argc, char **argv, int speak, struct tune_options *o);

/* The ranks that measure. */
struct tune {
    struct tune_options o;
    weft_context *ctx;
    weft_comm *comm;          /* by the planner's choice; also what the ranks talk over */
    int rank, nranks, nnodes;
    int32_t *node_of;
    struct wi_algo_levels levels;
    char map[WI_TABLE_MAX_MAP];
    struct wi_plan_table *table; /* of all ranks alike; rank 0 writes it */
    int section;
    struct wi_planner *planner;  /* without the table's points: what would be predicted */
    uint64_t deadline_ns;        /* of --time; 0: none */
    int done, total, measured, terminal;
};

double tune_now_us(void);
/* Says what failed, with the library's details; returns the status. */
weft_status tune_fail(const struct tune *t, const char *what, weft_status status);
/* The greatest of all ranks' values, and rank 0's bytes for all. */
weft_status tune_max(struct tune *t, double *value);
weft_status tune_tell(struct tune *t, void *data, size_t bytes);
void tune_progress(struct tune *t, const char *what, size_t bytes);

/* tune_nodes.c: which ranks share a node, and what the planner is to know of them. */
weft_status tune_find_nodes(struct tune *t);
void tune_facts(struct wi_plan_facts *facts, const struct wi_algo_levels *levels, int nranks, int nnodes);

/* tune_links.c: latency and rate between pairs of ranks into links and figures of the table. */
weft_status tune_measure_links(struct tune *t);

/* tune_colls.c: every algorithm of the collectives at every size. */
weft_status tune_measure_colls(struct tune *t);
int tune_count(const struct tune *t);
int tune_is_vector(enum wi_coll coll);

/* tune_report.c */
void tune_report_worst(const struct wi_plan_table *table, int section);
int tune_check(const struct tune_options *o); /* exit status */

#endif
