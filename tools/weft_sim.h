/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-sim: what its files share. */
#ifndef WEFT_SIM_H
#define WEFT_SIM_H

#include "algo/algo.h"
#include "sim/cost.h"
#include "sim/sim.h"
#include "topology/graph.h"
#include "topology/model.h"

#define SIM_MAX_FAULTS 64
#define SIM_EVENT_RANKS 16384 /* more: formulas, unless asked for events */

enum sim_place { SIM_EVEN, SIM_BY_CORE, SIM_ROUND_ROBIN };
enum sim_method { SIM_AUTO, SIM_EVENTS, SIM_FORMULA };

struct sim_options {
    const char *topo, *synthetic, *uniform;
    int nranks; /* 0: as many as there are places */
    enum sim_place place;
    enum wi_coll coll;
    int has_coll, root, in_place, radix;
    size_t bytes;
    const char *algo, *step;
    size_t slice;
    int slice_given;
    enum sim_method method;
    const char *fail[SIM_MAX_FAULTS], *slow[SIM_MAX_FAULTS], *straggler[SIM_MAX_FAULTS];
    int nfail, nslow, nstraggler;
    int timeline, links, critical, json;
    const char *perfetto;
};

/* The ranks' machine. */
struct sim_world {
    struct wi_topo *topo; /* NULL: uniform */
    struct wi_model *model;
    int nranks;
    struct wi_algo_levels levels;
    int32_t *level_memory;
    double *link_factor, *core_factor, *start_us;
    char text[256];
};

/* One collective, as it was or will be run. */
struct sim_call {
    enum wi_coll coll;
    struct wi_algo_choice choice;
    size_t bytes, slice;
    int by_formula;
};

/* sim_options.c */
int sim_options_parse(int argc, char **argv, struct sim_options *o); /* -1: go on; else the exit status */

/* sim_world.c */
weft_status sim_world_make(const struct sim_options *o, struct sim_world *w);
void sim_world_free(struct sim_world *w);
/* Bytes per microsecond, from "100Gb", "12.5GB"; 0 or -1. */
int sim_parse_rate(const char *text, double *rate);
/* Microseconds, from "2us", "1.5ms". */
int sim_parse_us(const char *text, double *us);

/* sim_call.c */
/* Why not, or NULL. */
const char *sim_unsuited(const struct sim_options *o, const struct sim_world *w, unsigned needs);
/* The algorithm named, or the one that is predicted to be fastest. */
weft_status sim_choose(const struct sim_options *o, const struct sim_world *w, enum wi_coll coll, size_t bytes,
                       const char *name, struct sim_call *call);
const char *sim_call_name(const struct sim_call *call);
/* Each rank begins at start_us[rank] (NULL: 0). *result is NULL when done by formula; *us is when the last rank ends. */
weft_status sim_call_run(const struct sim_options *o, const struct sim_world *w, const struct sim_call *call,
                         const double *start_us, int record, struct wi_sim_result **result, double *us);
weft_status sim_formula(const struct sim_options *o, const struct sim_world *w, const struct sim_call *call, double *us);
/* Several algorithms, one line each. */
weft_status sim_compare(const struct sim_options *o, const struct sim_world *w);

/* sim_print.c */
const char *sim_us_text(double us, char text[32]);
const char *sim_bytes_text(double bytes, char text[32]);
weft_status sim_report(const struct sim_options *o, const struct sim_world *w, const struct sim_call *call,
                       const struct wi_sim_result *r, double us);

/* sim_step.c */
weft_status sim_step_run(const struct sim_options *o, const struct sim_world *w);

#endif
