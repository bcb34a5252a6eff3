/* SPDX-License-Identifier: BSD-3-Clause */
/* Every single change to one rank's schedule, by number. */
#ifndef TESTS_MUTATE_H
#define TESTS_MUTATE_H

#include "sched/sched.h"

/* What is changed. X(name, text) */
#define MUTATION_LIST(X)                                                                           \
    X(DROP_STEP, "a step is dropped")                                                              \
    X(TWICE, "a step is done twice")                                                               \
    X(SWAP, "two steps change places")                                                             \
    X(OTHER_LANE, "a step goes to another lane")                                                   \
    X(OWN_LANE, "a step goes to a lane of its own")                                                \
    X(KIND, "a step is of another kind")                                                           \
    X(WAIT_RANK, "a wait is for another rank")                                                     \
    X(WAIT_LANE, "a wait is for another lane")                                                     \
    X(WAIT_ORDINAL, "a wait is for another signal")                                                \
    X(DEPENDENCY, "a dependency is dropped, added or changed")                                     \
    X(FLAG, "FINAL or RECV_LEFT")                                                                  \
    X(BUFFER, "an operand is in another buffer")                                                   \
    X(BLOCK, "an operand begins at another block")                                                 \
    X(COUNT, "an operand, or the step, has another number of blocks")                              \
    X(OWNER, "an operand is another rank's")                                                       \
    X(OPERANDS, "a source is dropped, doubled or changes places, a destination is dropped or added")\
    X(CHANNEL, "a lane uses another channel")                                                      \
    X(PEER, "a lane has another peer")                                                             \
    X(HEAD, "root, blocks, scratch, in place")

enum mutation_kind {
#define MUTATION_ENUM(name, text) MUTATION_##name,
    MUTATION_LIST(MUTATION_ENUM)
#undef MUTATION_ENUM
        NUM_MUTATIONS
};

struct mutation {
    enum mutation_kind kind;
    int step_kind;  /* of the changed step; -1 */
    char what[160]; /* "lane 0 step 3 (wait): rank 1 -> 2" */
};

/* How many there are for this schedule. */
uint32_t mutation_count(const struct wi_sched *sched);
/* The n-th, sealed. NULL: seal refuses it (the text is wi_fail_text). `m` says which it was. */
struct wi_sched *mutation_make(const struct wi_sched *sched, uint32_t n, struct mutation *m);
const char *mutation_text(enum mutation_kind kind);

#endif
