/* SPDX-License-Identifier: BSD-3-Clause */
/* A plain interpreter of schedules: all ranks of one collective in one thread, on real bytes. It follows the comments of
 * sched/sched.h and of the public headers, and shares no code with the executor, the layout or the reduction kernels: it is what
 * their results are compared with, bit for bit.
 *
 * It is as simple as can be. Nothing is cut into slices. A block is handled at a time; a message is a copy that is queued
 * until its receive comes; a lane takes its next step as soon as it may. A block of scratch is as long as what was stored in it:
 * no rule says how long it ought to be.
 *
 * It has nothing in common with tests/mutants/interp.h but the data structure that it reads. That one is about orders: it knows
 * which rank contributed to an element, draws interleavings and judges schedules. This one takes schedules to be right, has
 * one order, and says which bytes they make. */
#ifndef TESTS_EXEC_PLAIN_H
#define TESTS_EXEC_PLAIN_H

#include "compress/codec.h"
#include "sched/sched.h"

struct plain_place {
    size_t at, bytes; /* from the buffer's start */
};

struct plain_rank {
    const struct wi_sched *sched;       /* borrowed, sealed */
    unsigned char *base[2];             /* SRC, DST; they may overlap as the in-place forms do */
    const struct plain_place *place[2]; /* of each block of SRC, DST */
    float *residual[2];                 /* coded: for each element of the vector */
};

/* PLAIN_MIX is no operator of the library: neither commutative nor associative, so that every change of order shows. */
enum plain_op { PLAIN_SUM, PLAIN_AVG, PLAIN_MIX };

/* out = left op right; any may be the same. */
void plain_combine(enum plain_op op, weft_dtype dtype, const void *left, const void *right, void *out, size_t bytes);

/* By a number of ranks: what an average does with a complete sum. */
void plain_divide(weft_dtype dtype, void *data, size_t bytes, int n);

/* adds: what completes a block of DST is added to what that block held.
 *
 * Run it, with its stages. NULL: done; else what is wrong with the schedules or the places, valid until the next call.
 *
 * codec: of coded schedules, for vectors of fp32; NULL: nothing is coded. A block is encoded as a whole, by the codec itself, which
 * has tests of its own; as what the collective of number `step` encodes.
 *
 * Stages come one after the other, each for all groups. Blocks of a stage are several items of the whole: it is run once for the
 * first item of every block, once for the second, and so on, as nothing that a schedule says makes a difference between them. */
const char *plain_run(const struct plain_rank *ranks, int nranks, enum plain_op op, weft_dtype dtype, int adds,
                      const struct weft_codec *codec, uint64_t step);

#endif
