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
    const char *check, *table, *plot; /* --check FILE [--table FILE] [--plot FILE] */
    uint8_t colls[WI_NUM_COLLS];
    size_t sizes[TUNE_MAX_SIZES];
    int nsizes;
    enum tune_memory memory;
    int rounds;
    double point_ms, total_s; /* for each algorithm at each size, all rounds together; 0: no limit */
    int quiet, links, rates, all; /* all: --check prints every question */
};

/* 0: go on; 1: done (rank 0 has printed help); 2: bad arguments, one line on stderr (tool_after_rank_0). */
int tune_options_parse(int argc, char **argv, int rank, struct tune_options *o);

/* A communicator, and the algorithm that it takes for each collective: the same one measures all collectives. */
struct tune_slot {
    weft_context *ctx;
    weft_comm *comm;
    void *mapped[2]; /* source and destination from weft_mem_alloc; NULL: not needed */
};

/* An algorithm of a collective; it runs on the slot of its number. */
struct tune_subject {
    char name[WI_ALGO_SPEC_BYTES];
    unsigned needs;
    int refused; /* by the library, where the planner's facts did not know */
};

/* A subject with one kind of memory, at a point. */
struct tune_cell {
    int subject; /* TUNE_CHOSEN: the communicator that chooses by --table */
    int shared;  /* buffers from weft_mem_alloc */
    int calls;   /* of a turn; 0: not known yet */
    double first_us; /* of the first call of all */
    int left_out; /* it is so slow that one more round tells nothing */
    double known_us; /* in the table already; 0: not */
    uint32_t at; /* its point in the table; UINT32_MAX: none yet */
};
#define TUNE_CHOSEN (-1)

/* What is compared: all cells of a collective and size, in the same rounds. */
struct tune_point {
    enum wi_coll coll;
    size_t bytes;
    int ncells, begun;
    double window_us; /* the first round */
    struct tune_cell *cells;
    double *us; /* [ncells][rounds]; 0: not measured */
};

/* The ranks that measure. */
struct tune {
    struct tune_options o;
    weft_context *ctx;
    weft_comm *comm;          /* by the planner's choice; also what the ranks talk over */
    int rank, nranks, nnodes;
    int32_t *node_of;
    struct wi_algo_levels levels;
    int32_t *level_memory;
    char map[WI_TABLE_MAX_MAP];
    struct wi_plan_table *table; /* of all ranks alike; rank 0 writes it */
    int section;
    struct wi_planner *planner;  /* without the table's points: what would be predicted */
    struct wi_plan_table *chooser_table; /* of --table */
    struct wi_planner *chooser;          /* by it; NULL: nothing is chosen */
    struct tune_subject subjects[WI_NUM_COLLS][TUNE_MAX_ALGOS];
    int nsubjects[WI_NUM_COLLS], nslots;
    struct tune_slot slots[TUNE_MAX_ALGOS], chosen; /* chosen: takes what --table says */
    struct tune_point *points;
    int npoints;
    size_t buffer_bytes;
    void *private[2];
    uint64_t deadline_ns;        /* of --time; 0: none */
    int done, total, measured, rounds, steady, terminal;
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

/* tune_links.c: latency and rate between pairs of ranks into links and parameters of the table. */
weft_status tune_measure_links(struct tune *t);

/* tune_rates.c: how fast cores copy and reduce, into the table. */
weft_status tune_measure_rates(struct tune *t);

/* tune_subjects.c: what is measured, and the communicators that do it. */
weft_status tune_open_subjects(struct tune *t);
/* Once the points are known: as large as they need. */
weft_status tune_open_buffers(struct tune *t);
void tune_close_subjects(struct tune *t);
struct tune_slot *tune_slot_of(struct tune *t, const struct tune_cell *cell);
const char *tune_name_of(const struct tune *t, const struct tune_point *p, const struct tune_cell *cell);

/* tune_points.c: which points are missing, and what the rounds say about them, into the table. */
weft_status tune_make_points(struct tune *t);
void tune_free_points(struct tune *t);
weft_status tune_store_points(struct tune *t);
/* Below, the library does not look at the kind of memory. */
#define TUNE_MAPPED_LEAST (192u << 10)

/* tune_colls.c: every algorithm of the collectives at every size, in rounds. */
weft_status tune_measure_colls(struct tune *t);

/* tune_report.c */
void tune_report_worst(const struct wi_plan_table *table, int section);

/* tune_check.c: one question to the planner, and what was measured about it. */
struct tune_verdict {
    int section, shared;
    enum wi_coll coll;
    uint64_t bytes;
    char pick[WI_ALGO_SPEC_BYTES], best[WI_ALGO_SPEC_BYTES];
    double pick_us, best_us; /* measured; pick_us 0: the pick was not measured */
    double predicted_us;     /* of the pick */
    double chosen_us;        /* the pick once more, by a communicator that chose it; 0: none did */
    double noise;            /* of pick_us / best_us, one standard error as a share; 0: not known */
};
struct tune_pair {
    double predicted_us, measured_us;
};
/* Of a check. */
struct tune_judged {
    struct tune_verdict *verdicts;
    struct tune_pair *pairs; /* every candidate of every question */
    int nverdicts, npairs;
};
#define TUNE_GOOD 0.10 /* a choice within 10 % of the best is a good one */
int tune_check(const struct tune_options *o); /* exit status */
/* Share by which the pick takes longer than the best; INFINITY: it was not measured. */
double tune_regret(const struct tune_verdict *v);
double tune_error(const struct tune_pair *p);

/* tune_summary.c: the table of verdicts, and what they come to. */
void tune_print_head(void);
void tune_print_verdict(const struct wi_plan_table *seen, const struct tune_verdict *v);
void tune_print_summary(const char *of, const struct tune_verdict *verdicts, int n, const struct tune_pair *pairs,
                        int npairs);

/* tune_plot.c: predicted against measured, and how regret is spread. 0, or -1 with a line on stderr. */
int tune_plot(const char *path, const struct tune_judged *j);

#endif
