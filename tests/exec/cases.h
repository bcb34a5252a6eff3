/* SPDX-License-Identifier: BSD-3-Clause */
/* Which algorithms are run, and how: everything that a run draws comes from its seed. */
#ifndef TESTS_EXEC_CASES_H
#define TESTS_EXEC_CASES_H

#include "algo/algo.h"
#include "world.h"

/* The locality of ranks, for hierarchical algorithms. */
struct shape {
    const char *name;
    int nranks, nnodes, nracks;
    int32_t node[MAX_RANKS], rack[MAX_RANKS];
};
extern const struct shape shapes[];
extern const size_t nshapes;

/* A registered algorithm. 1: built; 0: it is not for that number of ranks, in place, or that v-form; -1: failed, which is said. */
int form_build(struct form *f, const struct wi_algo *algo, enum wi_coll coll, int nranks, int root, int in_place);
/* A hierarchical one. 0: there is no such combination. */
int form_build_spec(struct form *f, const char *spec, enum wi_coll coll, const struct shape *shape, int root,
                    int in_place);
int form_has_root(enum wi_coll coll);
/* Calls of an algorithm's collective and of its v-forms: what comes after `coll` (WI_NUM_COLLS: the first one); WI_NUM_COLLS:
 * no more. */
enum wi_coll form_next_coll(const struct wi_algo *algo, enum wi_coll coll);

/* Run a form as the seed says. 0, or -1: what is wrong has been printed. */
int form_run(const struct form *f, enum size size, enum drive drive, enum engine engine, uint64_t seed,
             struct world_seen *seen);
int form_runs_alone(const struct form *f);

/* Every form of an algorithm for one number of ranks, each of them `runs` times by the host's engine, and half as often by
 * the late one. */
struct campaign {
    int wide;            /* staged: racks share memory, not only nodes */
    int all_roots, runs; /* without all_roots: one, drawn */
    uint64_t seed;
    struct world_seen seen;
    unsigned long forms, failed;
};
void campaign_algo(struct campaign *c, const struct wi_algo *algo, int nranks);
/* Without the executor: does the plain interpreter leave what the collectives are defined to leave? */
void campaign_defined(struct campaign *c, const struct wi_algo *algo, int nranks);
void campaign_form(struct campaign *c, struct form *f); /* puts it */
void campaign_spec(struct campaign *c, const char *spec, enum wi_coll coll, const struct shape *shape);
void campaign_spec_defined(struct campaign *c, const char *spec, enum wi_coll coll, const struct shape *shape);

#endif
