/* SPDX-License-Identifier: BSD-3-Clause */
/* Parallel aggregated trees (PAT): what its reduce-scatter and its all-gather have in common.
 *
 * Every rank's share has a tree. A node is a distance o from that rank, its parent is o without its lowest bit set: 12 - 8 - 0. All
 * ranks do the same at the same time, each in P trees, and a message to one distance carries what several of these nodes hold.
 *
 * The distances are cut into `trees` runs of `span`, o = h * span + l; the last run may be shorter. Inside the runs, nodes of the
 * same l go together, in the order in which a tree is walked to the end of each branch: one message of at most `trees` shares at a
 * time, and scratch only for one such vector per level. Among the runs (l = 0) the trees are binomial: 1, 2, 4, … shares.
 * In a vector, h is at position h with its bits reversed, so that what a message carries is adjacent, and the shorter run last. */
#ifndef WI_ALGO_PAT_H
#define WI_ALGO_PAT_H

#include "algo/util.h"

/* Bounds scratch and messages, in shares; the steps that they cost are few as long as P is not far above. */
#define WI_PAT_MAX_TREES 64

struct wi_pat {
    int nranks, rank;
    int bits, trees; /* trees = 2^bits */
    int span;
    int compact; /* vectors of many ranks share scratch */
    uint32_t scratch;
    int up; /* messages go to smaller ranks: towards the roots of the trees */
    struct wi_seq seq;
    uint32_t lane_of[32], lane_of_run[32]; /* of distance 2^i and span * 2^i; from 1 on, 0: none yet */
};

/* Up to so many ranks every share has a block of scratch of its own, as composition wants it (sched/compose.h). */
#define WI_PAT_OWN_BLOCKS 128

/* As many trees as can all have a root: the last run begins before P. */
static inline void wi_pat_init(struct wi_pat *pat, int rank, int nranks, int up)
{
    *pat = (struct wi_pat){.nranks = nranks, .rank = rank, .up = up, .trees = 1, .span = nranks};
    for (int bits = 1, trees = 2; trees <= WI_PAT_MAX_TREES && trees <= nranks; bits++, trees *= 2) {
        int span = (nranks + trees - 1) / trees;
        if ((trees - 1) * span < nranks) {
            pat->bits = bits;
            pat->trees = trees;
            pat->span = span;
        }
    }
    pat->compact = nranks > WI_PAT_OWN_BLOCKS;
    pat->scratch = (uint32_t)(pat->compact ? pat->trees : nranks);
    for (int m = pat->span; pat->compact && m > 1; m /= 2) /* no number below span has more bits set */
        pat->scratch += (uint32_t)pat->trees;
}

static inline double wi_pat_steps(const struct wi_pat *pat)
{
    return pat->span - 1 + pat->bits;
}

static inline int wi_pat_nchildren(const struct wi_pat *pat, int l)
{
    return l ? __builtin_ctz((unsigned)l) : wi_log2_ceil(pat->span);
}

/* Shares in the vector of nodes l. */
static inline uint32_t wi_pat_width(const struct wi_pat *pat, int l)
{
    return (uint32_t)(pat->trees - ((pat->trees - 1) * pat->span + l >= pat->nranks));
}

/* Compact: of the vectors on the way to a root, which have different numbers of bits set, each has a place. */
static inline uint32_t wi_pat_begin(const struct wi_pat *pat, int l)
{
    int whole = pat->nranks - (pat->trees - 1) * pat->span;

    if (pat->compact)
        return (uint32_t)(__builtin_popcount((unsigned)l) * pat->trees);
    return (uint32_t)(l * pat->trees - (l > whole ? l - whole : 0));
}

static inline struct wi_region wi_pat_vector(const struct wi_pat *pat, int l, uint32_t first, uint32_t count)
{
    return wi_at(WI_TMP, wi_pat_begin(pat, l) + first, count);
}

/* Whose share a position of the vector of nodes l is about. */
static inline uint32_t wi_pat_share(const struct wi_pat *pat, int l, uint32_t position)
{
    int h = 0;

    for (int i = 0; i < pat->bits; i++)
        h |= (int)(position >> i & 1) << (pat->bits - 1 - i);
    return (uint32_t)wi_mod(pat->rank - h * pat->span - l, pat->nranks);
}

static inline uint32_t wi_pat_lane(struct wi_pat *pat, uint32_t *lane, int distance)
{
    int below = wi_mod(pat->rank - distance, pat->nranks), above = wi_mod(pat->rank + distance, pat->nranks);

    if (!*lane)
        *lane = 1 + wi_sched_lane(pat->seq.b, pat->up ? below : above, pat->up ? above : below, 0);
    return *lane - 1;
}

/* The lane of the i-th child, and of the i-th distance among runs. */
static inline uint32_t wi_pat_child_lane(struct wi_pat *pat, int i)
{
    return wi_pat_lane(pat, &pat->lane_of[i], 1 << i);
}

static inline uint32_t wi_pat_run_lane(struct wi_pat *pat, int i)
{
    return wi_pat_lane(pat, &pat->lane_of_run[i], pat->span << i);
}

#endif
