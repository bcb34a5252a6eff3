/* SPDX-License-Identifier: BSD-3-Clause */
/* An interpreter of schedules for tests, independent of the checker and of the executor: it shares with them only the data
 * structure that a schedule is. All ranks run in one thread, one small action at a time, in an order drawn from a seed. Each
 * element of memory holds which contributions it is made of, in which order.
 *
 * What one interleaving may draw, besides the order:
 *   slices    how many, how long blocks are, whether the last blocks of a vector are short or empty
 *   channels  of one message whose sender waits for room, which is what a schedule must do with (sched.h); or as the
 *             executor sends: a lane never waits for its sends, the message is taken from the buffer early or only when
 *             the receive is posted, a local step waits to overwrite what is still being sent, a receive goes to a bounce
 *             buffer; receives are posted ahead where steps do not touch each other
 *   mapped    one to four slots of scratch, so that several slices are in flight; the second copy of a pair made with the
 *             first; ll lines, read in place or on arrival
 *   ranks     enter the call late, leave it as soon as they can
 * Wrong is: a read of memory that nothing has written, or of an older slice's scratch; another rank's SRC or DST used before
 * that rank has entered or after it has left; a wrong result, or a result divided (FINAL) not once; SRC written; a message
 * of another length than expected; one that nobody receives; a barrier left early; no progress.
 * Not modelled: weak memory order, v-forms, packed messages, several operations in flight. */
#ifndef TESTS_INTERP_H
#define TESTS_INTERP_H

#include "sched/sched.h"

#define INTERP_MAX_RANKS 9

struct interp;
/* `scheds` of all ranks, sealed, borrowed. `ordered`: results must be in rank order. NULL: no memory, or too many ranks. */
struct interp *interp_create(const struct wi_sched *const scheds[], int nranks, int ordered);
void interp_destroy(struct interp *m);
/* One interleaving. NULL: right; else what went wrong, valid until the next call. */
const char *interp_run(struct interp *m, uint64_t seed);

#endif
