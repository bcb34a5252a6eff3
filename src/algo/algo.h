/* SPDX-License-Identifier: BSD-3-Clause */
/* Algorithms: pure functions that write schedules. One algorithm, one file, one struct wi_algo; listed in registry.c. They
 * read no clock, environment, global or network; the same arguments give the same schedule. */
#ifndef WI_ALGO_ALGO_H
#define WI_ALGO_ALGO_H

#include "sched/sched.h"

/* Which ranks are near each other, from the outside in ("rack", "node", "cache"); the same on all ranks. At each level every
 * rank is in one group; groups of a level lie within groups of the level before. Sizes may differ (3 + 1 + 4 ranks), members
 * need not be neighbours in rank. */
#define WI_ALGO_MAX_LEVELS 6
struct wi_algo_levels {
    int nlevels;
    struct wi_algo_level {
        const char *name;
        int ngroups;
        const int32_t *group; /* [nranks], numbered by first appearance */
    } level[WI_ALGO_MAX_LEVELS];
};

struct wi_algo_args {
    int rank, nranks, root;
    int in_place;
    int radix; /* k of k-nomial trees; 0: the algorithm's default */
    const struct wi_algo_levels *levels; /* NULL: nothing is known */
};

enum wi_algo_needs {
    WI_ALGO_MAPPED = 1,      /* all ranks in one mapped group; TMP of others is read */
    WI_ALGO_PEER_MEM = 2,    /* SRC/DST of others is loaded and stored directly: user buffers must be mapped */
    WI_ALGO_PEER_GET = 4,    /* SRC/DST of others is only copied from: cross-memory attach is enough */
    WI_ALGO_COMMUTATIVE = 8, /* does not keep rank order: commutative operators only */
    WI_ALGO_UNIFORM = 16,    /* not for the v-forms */
    WI_ALGO_EVEN_RANKS = 32, /* even number of ranks only */
    WI_ALGO_NO_IN_PLACE = 64,
};

/* What an algorithm costs one rank, in the worst case over ranks, for a message of `bytes` (the vector, or one rank's
 * share for per-rank collectives). */
struct wi_algo_cost {
    double steps;   /* messages or waits on the critical path */
    double sent;    /* bytes */
    double reduced; /* bytes read by reduction kernels beyond the first operand */
    double copied;  /* bytes copied locally */
};

struct wi_algo {
    const char *name; /* "ring" */
    enum wi_coll coll;
    unsigned needs;
    const char *summary; /* one line for lists */
    weft_status (*build)(const struct wi_algo_args *args, struct wi_sched **sched);
    void (*cost)(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *cost);
};

/* All algorithms, ended by NULL. */
extern const struct wi_algo *const wi_algos[];
/* NULL if none. v-forms use the algorithms of the uniform collective that lack WI_ALGO_UNIFORM. */
const struct wi_algo *wi_algo_find(enum wi_coll coll, const char *name);

/* The collective whose algorithms serve `coll`: itself, or what a v-form is the general case of. */
enum wi_coll wi_algo_family(enum wi_coll coll);

#endif
