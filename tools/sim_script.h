/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-sim: a training step as a list of instructions.
 *
 * The file, one instruction a line, # begins a comment:
 *   compute TIME                 every rank computes
 *   COLLECTIVE BYTES [WORD]...   is issued when the compute before it is done, and runs when the collective before it is done;
 *                                compute goes on meanwhile. Words: algo=NAME, blocking (compute waits for it)
 *   wait                         compute waits for all collectives so far
 *   repeat COUNT ... end         may be nested */
#ifndef WEFT_SIM_SCRIPT_H
#define WEFT_SIM_SCRIPT_H

#include <stdio.h>

#include "algo/algo.h"

#define SIM_MAX_LINES 4096
#define SIM_MAX_DEPTH 8      /* of repeats */
#define SIM_MAX_RUN 10000000 /* instructions, repeats counted */

enum sim_kind { SIM_COMPUTE, SIM_COLLECTIVE, SIM_WAIT, SIM_REPEAT, SIM_END };

struct sim_line {
    enum sim_kind kind;
    int number, match; /* REPEAT, END: the other one */
    int64_t count;
    double us;
    enum wi_coll coll;
    size_t bytes;
    char algo[WI_ALGO_SPEC_BYTES];
    int blocking;
};

struct sim_script {
    const char *path;       /* borrowed, for messages */
    struct sim_line *lines; /* [SIM_MAX_LINES] */
    int nlines;
};

/* WEFT_ECONFIG names file, line and word. The caller frees `lines` in any case. */
weft_status sim_script_read(const char *path, FILE *in, struct sim_script *script);

#endif
