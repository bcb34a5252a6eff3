/* SPDX-License-Identifier: BSD-3-Clause */
/* A mapped schedule of one lane and one slice, made into a list of things to do with every address and length worked out.
 *
 * Walking a schedule resolves regions, pieces, slices and dependencies for every step. For a call that is repeated they come
 * out the same every time, and up to some 16 KiB that costs as much as moving the data. */
#ifndef WI_EXEC_STRAIGHT_H
#define WI_EXEC_STRAIGHT_H

#include "exec/exec.h"

struct wi_straight_operand {
    uint32_t from; /* enum wi_buf of this rank, or WI_NUM_BUFS + rank: that rank's slot */
    size_t at;     /* bytes into it */
};

struct wi_straight_step {
    uint8_t kind; /* COPY, REDUCE, SIGNAL, WAIT */
    uint8_t ordinal;
    uint8_t nt; /* REDUCE, COPY: stream when slots are streamed to */
    uint8_t flags, twin; /* of wi_reduce; WI_STEP_TWIN, WI_STEP_SECOND_TWIN */
    uint16_t ndst, nsrc;
    uint32_t first; /* operand: destinations, then sources */
    int32_t rank;   /* WAIT */
    uint32_t lane;  /* WAIT */
    size_t bytes;
};

struct wi_straight {
    uint32_t nsteps, noperands;
    size_t slot_bytes; /* of the slot that are stored to */
    size_t work_bytes; /* see wi_op_begin_stores */
    struct wi_straight_operand *operands;
    struct wi_straight_step steps[];
};

/* NULL: this operation is not of that kind (or there is no memory): it is walked instead. Freed with wi_free. */
struct wi_straight *wi_straight_make(const struct wi_exec *exec, const struct wi_op *op);

/* With nothing else in flight, start to end; op is not queued. */
weft_status wi_exec_run_straight(struct wi_exec *exec, struct wi_op *op, const struct wi_straight *straight);

#endif
