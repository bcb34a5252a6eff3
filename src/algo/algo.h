/* SPDX-License-Identifier: BSD-3-Clause */
/* Algorithms: pure functions that write schedules. Each is a file with one struct wi_algo, listed in list.h; what is named by level
 * ("node:ring") is composed of them by hier.h. They read no clock, environment, global or network: the same arguments give the same
 * schedule. */
#ifndef WI_ALGO_ALGO_H
#define WI_ALGO_ALGO_H

#include "sched/sched.h"

/* The locality of ranks, from the outside in ("rack", "node", "cache"); the same on all ranks. At each level every
 * rank is in one group; groups of a level lie within groups of the level before. Sizes may differ (3 + 1 + 4 ranks), members
 * need not be neighbours in rank. Rings, and whatever else has neighbours, visit groups by their numbers. At the level "rank",
 * the last, every rank is alone, numbered so that neighbours are close to each other. */
#define WI_ALGO_MAX_LEVELS 8
struct wi_algo_levels {
    int nlevels;
    struct wi_algo_level {
        const char *name;
        int ngroups;
        const int32_t *group; /* [nranks], numbered from 0 */
    } level[WI_ALGO_MAX_LEVELS];
};

struct wi_hier_spec;
struct wi_algo_args {
    int rank, nranks, root;
    int in_place;
    int radix;                           /* k of k-nomial trees; 0: the algorithm's default */
    const struct wi_algo_levels *levels; /* NULL: nothing is known */
    const struct wi_hier_spec *spec;     /* of a hierarchical algorithm, made with these levels; else NULL, or of no levels */
};

enum wi_algo_needs {
    WI_ALGO_MAPPED = 1,      /* all ranks in one mapped group; TMP of others is read */
    WI_ALGO_PEER_MEM = 2,    /* SRC/DST of others is loaded and stored directly: user buffers must be mapped */
    WI_ALGO_PEER_GET = 4,    /* SRC/DST of others is only copied from: cross-memory attach is enough */
    WI_ALGO_COMMUTATIVE = 8, /* does not keep rank order: commutative operators only */
    WI_ALGO_UNIFORM = 16,    /* not for the v-forms */
    WI_ALGO_EVEN_RANKS = 32, /* even number of ranks only */
    WI_ALGO_NO_IN_PLACE = 64,
    WI_ALGO_POW2_RANKS = 128, /* a power of two of ranks only */
    WI_ALGO_PEER_PUT = 256,   /* DST of others is only copied to: cross-memory attach is enough */
    WI_ALGO_EXACT = 512,      /* ranks group operands differently: where operators round, their results would differ */
    WI_ALGO_PACKED = 1024,    /* forwards other ranks' data: in a v-form its messages are packed, with the length of each part */
    WI_ALGO_CODED = 4096,     /* what it sends are images: for calls with a codec, and only for these */
    WI_ALGO_GROUP_MAPPED = 2048, /* hierarchical: each innermost group needs a mapped group, in a pipeline of stages */
};

/* What is true of an algorithm, for those who price and compose them. Zero claims nothing. */
enum wi_algo_shape {
    WI_SHAPE_OTHER,    /* exchanges with changing partners, and what is none of these */
    WI_SHAPE_ROW,      /* messages go to neighbours in rank only */
    WI_SHAPE_DOUBLING, /* partners at distances that double or halve: rdouble and rhalving serve for each other */
    WI_SHAPE_KNOMIAL,  /* down or up a k-nomial tree (args.radix); messages to all children at once */
    WI_SHAPE_TREE,     /* down or up trees of another kind */
    WI_SHAPE_FAN,      /* to or from all other ranks at once */
};
enum wi_algo_slices {
    WI_SLICES_OF_ALL,    /* of what is sent at once, the vector or a share: a step follows the one before slice by slice */
    WI_SLICES_OF_SHARES, /* the same, of a vector that is cut among the ranks */
    WI_SLICES_NONE,      /* a step waits for all of the one before */
};
struct wi_algo_traits {
    uint8_t shape, slices; /* enums above */
    uint8_t halves;        /* the halves of a vector take different paths, each slice by slice */
    /* All messages go to the same rank: the next one is ready when one is sent, so that links never idle. */
    uint8_t streams;
    uint8_t relays; /* a message is forwarded from rank to rank, each of which waits for it */
    uint8_t returns; /* the second half of its rounds (wi_algo.round) is the first one backwards, from receiver to sender */
    /* Of a fan: messages between a rank (the root) and each other rank, 1: in one direction, 2: in both. Their overheads on its
     * core come after the data (`peers_last`: they arrive together, and are processed in order), or overlap with it. */
    uint8_t peer_messages, peers_last;
    /* Mapped: ranks publish once, and the others read; else what was read is published again. */
    uint8_t one_shot;
    uint8_t pipelined; /* mapped: lanes form a pipeline of slices, which has to be filled and drained */
    uint8_t ll;        /* of its collective, the one that runs over ll lines */
    uint8_t adds;      /* reduce_scatter: wi_sched_completes_once is true on all ranks, whatever their number */
};

/* What keeps algorithms of these needs from a number of ranks; NULL: nothing. */
static inline const char *wi_algo_ranks_needed(unsigned needs, int nranks)
{
    if (needs & WI_ALGO_EVEN_RANKS && nranks % 2)
        return "an even number of ranks";
    if (needs & WI_ALGO_POW2_RANKS && nranks & (nranks - 1))
        return "a power of two of ranks";
    return NULL;
}

/* What an algorithm costs one rank, in the worst case over ranks, for a message of `bytes` (the vector, or one rank's
 * share for per-rank collectives). */
struct wi_algo_cost {
    double steps;   /* messages or waits on the critical path */
    double sent;    /* bytes */
    double reduced; /* bytes read by reduction kernels beyond the first operand */
    double copied;  /* bytes copied locally */
};

/* Of a coded algorithm, besides: bytes that become images, and that images become. All of `sent` is images, counted before that. */
struct wi_algo_coding {
    double encoded, decoded;
};

/* The constants of a uniform network, for formulas: microseconds, bytes per microsecond. INFINITY: no time. */
struct wi_algo_rates {
    double alpha; /* of a step: latency and overheads, or a signal and its wait */
    double beta;  /* of a link */
    double reduce_rate, copy_rate;
    /* Messages to others, and bytes of each, that a rank sends as soon as it has its result: they share its link. */
    int nbeside;
    double beside;
};

struct wi_algo {
    const char *name; /* "ring" */
    enum wi_coll coll;
    unsigned needs;
    struct wi_algo_traits traits;
    const char *summary; /* one line for lists */
    weft_status (*build)(const struct wi_algo_args *args, struct wi_sched **sched);
    void (*cost)(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *cost);
    struct wi_algo_coding (*coding)(const struct wi_algo_args *args, double bytes); /* WI_ALGO_CODED */
    /* What one slice takes from its first message to its last, on a uniform network: the longest chain from rank to rank,
     * with what shares a link on the way. NULL: what `cost` says. */
    void (*path)(const struct wi_algo_args *args, double bytes, struct wi_algo_cost *path);
    /* The same as a time, where which chain is the longest depends on the rates; NAN: no memory. NULL: what `path` says. */
    double (*time)(const struct wi_algo_args *args, double bytes, const struct wi_algo_rates *rates);
    /* The partners, where they are regular, for networks that are not uniform: in round k this rank sends `part` times the bytes
     * to rank `to` (below 0: it sends nothing). Returns 0 past the last round. NULL: they are not regular. */
    int (*round)(const struct wi_algo_args *args, int k, int *to, double *part);
};

/* What an algorithm takes by its closed form, in microseconds, in constant time or in time linear in the ranks: the first slice
 * takes the longest chain, each other one keeps the busiest rank's link and core, which overlap, for its share of all. No
 * contention but the algorithm's own. NAN: there is no memory to find out. */
double wi_algo_closed(const struct wi_algo *algo, const struct wi_algo_args *args, double bytes, double nslices,
                      const struct wi_algo_rates *rates);

/* Slices of at most so many bytes that follow each other through an algorithm's steps. */
double wi_algo_nslices(const struct wi_algo *algo, int nranks, double bytes, size_t slice_bytes);

/* All algorithms but the hierarchical ones, ended by NULL. */
extern const struct wi_algo *const wi_algos[];
/* NULL if none. v-forms use the algorithms of the uniform collective that lack WI_ALGO_UNIFORM. */
const struct wi_algo *wi_algo_find(enum wi_coll coll, const char *name);
/* What runs over ll lines; NULL: nothing does. */
const struct wi_algo *wi_algo_ll(enum wi_coll coll);
/* By its name; NULL: there is none. */
const struct wi_algo_level *wi_algo_level_find(const struct wi_algo_levels *levels, const char *name);

/* ---- Hierarchical algorithms ----
 * Any algorithm among the groups of a level, any inside them, as one schedule (doc/guide/algorithms.md):
 *
 *     spec  := level ":" outer ["@leader"] ["*" nchunks] "/" inner, or without "/" inner
 *     inner := another spec, whose level is inside this one, or an algorithm's name
 *     outer, inner names: NAME, or, but for the outermost, UP "+" DOWN
 *
 * "node:ring"                         a ring among nodes; inside the nodes what suits
 * "node:ring/ring+rdouble"            reduce-scatter inside by ring, all-gather by recursive doubling
 * "node:rdouble@leader*4/knomial"     each node has a leader; four chunks, so that levels overlap
 * "rack:ring/node:rdouble/linear"     two levels: a ring among racks, recursive doubling among the nodes of a rack
 *
 * Without a leader every rank of a group takes its share of the outer exchange: all_reduce is reduce-scatter inside, all-reduce
 * across, all-gather inside. With one it is reduce, all-reduce among leaders, broadcast. The first name of a level below the
 * outermost serves every collective that it exists for there; for the others, and without a name, there are defaults.
 *
 * Innermost, names may be those of algorithms through slots of mapped memory, then for both directions: "node:ring/flat". That is
 * a pipeline of stages (mapped, messages, mapped), which fragments of the data pass one behind the other. */
#define WI_ALGO_SPEC_BYTES 64
#define WI_HIER_NO_LEVEL UINT8_MAX
/* A spec that has been read, for one collective. Stage 0 is among the groups of the outermost level, stage i inside a group of
 * level at[i - 1], among its groups of level at[i]; the last, nlevels, among the ranks of an innermost group. */
struct wi_hier_spec {
    uint8_t nlevels; /* 0: not hierarchical */
    uint8_t nchunks; /* chunks that follow each other; 0: left open, or it has none */
    uint8_t mapped;  /* the last stage is through mapped memory */
    struct {
        uint8_t level;  /* index into wi_algo_levels; WI_HIER_NO_LEVEL: it was read without */
        uint8_t has_leader; /* inside a group of this level */
    } at[WI_ALGO_MAX_LEVELS];
    /* On the way up, or at stage 0, and on the way down; NULL: nothing is done there. */
    const struct wi_algo *up[WI_ALGO_MAX_LEVELS + 1], *down[WI_ALGO_MAX_LEVELS + 1];
    char text[WI_ALGO_SPEC_BYTES]; /* as it was written, without the number of chunks */
};
/* Read a spec's text. With `levels` (or NULL) its levels must be among them. WEFT_ENOTFOUND and a text that names the wrong word
 * and similar ones; WEFT_EINVAL where the grammar is broken. */
weft_status wi_hier_parse(enum wi_coll coll, const char *text, const struct wi_algo_levels *levels,
                          struct wi_hier_spec *spec);
/* Do they say the same? Both are of one collective and the same levels. */
int wi_hier_same(const struct wi_hier_spec *a, const struct wi_hier_spec *b);
/* The text of a spec with its number of chunks, or, of none, the algorithm's name; returns `text`. */
const char *wi_algo_text(const struct wi_algo *algo, const struct wi_hier_spec *spec, char text[WI_ALGO_SPEC_BYTES]);
/* Set the number of chunks, but for a text that has no room for it. */
void wi_hier_cut(struct wi_hier_spec *spec, int nchunks);

struct wi_algo_choice {
    const struct wi_algo *algo; /* name, summary, build and cost; of a hierarchical one needs and traits are below */
    unsigned needs;
    struct wi_algo_traits traits; /* hierarchical: it streams if what is done at one of its levels does */
    uint8_t has_leader;           /* hierarchical: a group has a leader, at some level */
    struct wi_hier_spec spec;     /* hierarchical: for wi_algo_args.spec; else of no levels */
};
/* Of an algorithm that is not hierarchical. */
static inline struct wi_algo_choice wi_algo_choice_of(const struct wi_algo *algo)
{
    return (struct wi_algo_choice){.algo = algo, .needs = algo->needs, .traits = algo->traits};
}
/* Read an algorithm's name or a spec, and find out what it needs; errors as of wi_hier_parse. */
weft_status wi_algo_choose(enum wi_coll coll, const char *text, const struct wi_algo_levels *levels, int nranks,
                           struct wi_algo_choice *choice);
/* Is it a spec, not an algorithm's name (or a file's, "file:NAME")? */
int wi_algo_is_spec(const char *text);
/* The hierarchical algorithm of a collective, whose build takes a spec; NULL if it has none. */
const struct wi_algo *wi_algo_hier(enum wi_coll coll);
/* Has it hierarchical algorithms that may work through slots inside the innermost groups ("node:ring/flat")? */
int wi_algo_has_stages(enum wi_coll coll);
/* A spec that leaves the number of chunks open is given the number that suits a vector of `bytes`. */
void wi_algo_choice_for(struct wi_algo_choice *choice, double bytes);
/* Can its data be cut into chunks, "*8"? A pipeline of stages has fragments instead, and a number says how many. */
int wi_algo_has_chunks(const struct wi_algo_choice *choice);
/* The algorithm's name, or the spec without its number of chunks. */
const char *wi_algo_choice_name(const struct wi_algo_choice *choice);
/* The largest rank's work at each stage, for pricing with the link of that level; the worst rank of each stage. */
struct wi_algo_level_cost {
    int nchunks; /* chunks that follow each other through the stages */
    int nstages;
    struct {
        int level; /* among whose groups: index into args.levels; WI_ALGO_MAX_LEVELS: among the ranks of an innermost one */
        struct wi_algo_cost cost;
        double link_sent; /* bytes that leave a group of this level, all its ranks together */
        double chain;     /* of the steps, those that are one after the other: others arrive at the same time */
        double messages;  /* of a rank, sent and received, halved: at least those */
        struct wi_algo_coding coding; /* of one whose messages are images; else zeros */
    } stage[WI_ALGO_MAX_LEVELS + 1];
};
weft_status wi_algo_level_cost(const struct wi_algo_args *args, enum wi_coll coll, double bytes,
                               struct wi_algo_level_cost *cost);

/* Its closed form on a uniform network: the stages' one after the other, and chunks that follow each other. */
weft_status wi_algo_level_closed(const struct wi_algo_args *args, enum wi_coll coll, double bytes,
                                 const struct wi_algo_rates *rates, double *us);

/* The same in messages alone: what a schedule with stages does, for the checker and for simulators. Every mapped stage becomes
 * an algorithm over messages for the same collective of the same shares in the same places. */
weft_status wi_algo_flatten(const struct wi_sched *sched, struct wi_sched **flat);

/* "; did you mean \"ring\"? (there are: ...)" into text; returns text. */
const char *wi_algo_suggest(enum wi_coll coll, const char *name, char *text, size_t capacity);

/* The collective whose algorithms serve `coll`: itself, or what a v-form is the general case of. */
enum wi_coll wi_algo_family(enum wi_coll coll);

#endif
