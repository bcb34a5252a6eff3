/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of hierarchical algorithms: what each stage does, and which rank owns which part of the data at which level.
 *
 * Stages. Stage 0 runs among the groups of the outermost level. Stage i runs inside a group of level i-1, among its groups of
 * level i. The last stage, k, runs among the ranks of an innermost group. The participants of a stage are its group's children.
 * Shards. A stage without a leader cuts its members' data into D[i] parts, one for each child of the largest group; in a smaller
 * group some children own several of these parts. A stage with a leader leaves everything to one child, so D = 1.
 * A shard is one part of every stage 1..k: u = (.. (p[k] * D[k-1] + p[k-1]) .. ) * D[1] + p[1]. In each group of the outermost
 * level exactly one rank owns each shard, and stage 0 runs, for each shard, among its owners.
 * A prefix of stage i is (p[k], .., p[i+1]): the parts that stages k..i+1 have chosen. */
#ifndef WI_ALGO_HIER_H
#define WI_ALGO_HIER_H

#include "algo/algo.h"
#include "sched/compose.h"

/* What a collective does at a stage: on the way up (inside, before stage 0), at stage 0, and on the way down; without and with
 * a leader. NONE: nothing. */
#define WI_HIER_NONE WI_NUM_COLLS
struct wi_hier_shape {
    enum wi_coll coll, up, up_leader, down, down_leader;
    uint8_t up_at_root, down_at_root; /* only in the groups that hold the root */
};
const char *wi_hier_default(enum wi_coll coll); /* the algorithm over messages that is taken where none is named */
const struct wi_hier_shape *wi_hier_shape_of(enum wi_coll coll); /* NULL: no hierarchical form */

#define WI_HIER_STAGES (WI_ALGO_MAX_LEVELS + 1)
struct wi_hier_tree {
    int k, nranks, rank, root;
    int has_leader[WI_HIER_STAGES];       /* stage 1..k */
    const int32_t *group[WI_HIER_STAGES]; /* of level i, [nranks]; level k: every rank is its own */
    int ngroups[WI_HIER_STAGES];
    /* Of stage i, whose parents are the groups of level i-1 (of all ranks: 0). */
    int32_t *child_of[WI_HIER_STAGES];    /* [nranks]: the number of the child, within its parent, that a rank is in */
    int32_t *child_start[WI_HIER_STAGES]; /* [parents + 1] */
    int32_t *children[WI_HIER_STAGES];    /* groups of level i, by parent */
    int32_t *lead_child[WI_HIER_STAGES];  /* [parents]: the leader's child: the root's, else the first */
    uint32_t d[WI_HIER_STAGES];
    uint32_t prefixes[WI_HIER_STAGES];    /* product of d[i+1..k] */
    uint32_t width[WI_HIER_STAGES];       /* shards of a prefix: product of d[1..i] */
    int32_t *owner[WI_HIER_STAGES];       /* [groups of level i * prefixes[i]] */
    uint32_t *home;                       /* [nranks]: the shard that a rank's own share belongs to */
    void *pool;
};
weft_status wi_hier_tree_init(struct wi_hier_tree *tree, const struct wi_hier_spec *spec,
                              const struct wi_algo_args *args);
void wi_hier_tree_fini(struct wi_hier_tree *tree);
void *wi_hier_pool(struct wi_hier_tree *tree, size_t bytes); /* zeroed, freed with the tree; NULL: no memory */

static inline int wi_hier_parent(const struct wi_hier_tree *t, int stage, int rank)
{
    return stage ? t->group[stage - 1][rank] : 0;
}
static inline int wi_hier_nchildren(const struct wi_hier_tree *t, int stage, int parent)
{
    return t->child_start[stage][parent + 1] - t->child_start[stage][parent];
}
/* The rank of child `child` that owns prefix v. */
static inline int32_t wi_hier_member(const struct wi_hier_tree *t, int stage, int parent, int child, uint32_t v)
{
    int32_t group = t->children[stage][t->child_start[stage][parent] + child];
    return t->owner[stage][(size_t)group * t->prefixes[stage] + v];
}
/* The first part of stage i that child c of n owns; it owns all parts below the first one of c + 1. */
static inline uint32_t wi_hier_first_part(const struct wi_hier_tree *t, int stage, int parent, int c)
{
    uint32_t n = (uint32_t)wi_hier_nchildren(t, stage, parent), d = t->d[stage];

    if (t->has_leader[stage])
        return c > t->lead_child[stage][parent];
    return ((uint32_t)c * d + n - 1) / n;
}
/* The next run of prefixes [*first, *end), from *end on, that this rank owns together with the same ranks; 0: none. */
int wi_hier_segment(const struct wi_hier_tree *t, int stage, uint32_t *first, uint32_t *end);

/* hier_stages.c: a part that is mapped becomes a stage before or after the messages. */
weft_status wi_hier_stage(const struct wi_part *part, struct wi_sched_stage **stage);

/* hier_alltoall.c */
weft_status wi_hier_all_to_all(const struct wi_algo_args *args, struct wi_hier_tree *tree, int packed,
                               struct wi_sched **sched);
/* hier_packed.c: the same with one packed message for each pair of ranks and stage, and with leaders */
weft_status wi_hier_packed(const struct wi_algo_args *args, struct wi_hier_tree *tree, struct wi_sched **sched);
struct wi_hier_size {
    uint32_t nblocks, tmp_blocks, pack_blocks, lossy;
};
weft_status wi_hier_begin(const struct wi_algo_args *args, enum wi_coll coll, struct wi_hier_size size,
                          struct wi_sched_builder **b);

/* hier_trees.c. The closed form where all stages form one tree; 0: they do not. */
int wi_hier_trees_us(const struct wi_hier_tree *tree, const struct wi_hier_spec *spec, enum wi_coll coll, int radix,
                     double bytes, const struct wi_algo_rates *rates, double *us);

/* hier_cost.c */
void wi_hier_total_cost(const struct wi_algo_args *args, enum wi_coll coll, double bytes, struct wi_algo_cost *cost);

#endif
