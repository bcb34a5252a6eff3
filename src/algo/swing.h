/* SPDX-License-Identifier: BSD-3-Clause */
/* The butterfly of Swing and of Bine trees, over a power of two of members.
 *
 * In step k even members meet the one d(k) further, odd ones the one d(k) before, where d = 1, -1, 3, -5, 11, … is
 * 1 - 2 + 4 - … ± 2^k. Partners are nearer than those of recursive doubling: 2^k / 3 * 2 away instead of 2^k.
 *
 * Modulo 2^(k+1) all of d(k), d(k+1), … are equal. So those that member m meets in steps k and later, directly or not, are the
 * members like m and like its partner of step k modulo 2^(k+1): the groups that are left to meet halve with each step, and the
 * same members form them whichever of them one asks. That is what wi_swing_upper counts on. */
#ifndef WI_ALGO_SWING_H
#define WI_ALGO_SWING_H

#include "algo/util.h"

/* (1 - (-2)^(k+1)) / 3 */
static inline int wi_swing_distance(int k)
{
    int power = 1 << (k + 1);

    return (1 - (k % 2 ? power : -power)) / 3;
}

static inline int wi_swing_peer(int member, int k, int pow2)
{
    return wi_mod(member % 2 ? member - wi_swing_distance(k) : member + wi_swing_distance(k), pow2);
}

/* Which half of the blocks that a member shares with its partner of step k of `steps` it keeps: 1 is the upper half. */
static inline int wi_swing_upper(int member, int k, int steps)
{
    if (k == steps - 1)
        return member % 2;
    return (member % 2 ? member - wi_swing_distance(k + 1) : member) >> (k + 1) & 1;
}

/* The block that a member owns in the end. */
static inline int wi_swing_position(int member, int steps)
{
    int position = 0;

    for (int k = 0; k < steps; k++)
        position = 2 * position + wi_swing_upper(member, k, steps);
    return position;
}

/* The step in which `member` (not 0) receives, in the tree from 0 whose first steps have the largest distances. */
static inline int wi_swing_recv_step(int member, int steps)
{
    int k = steps - 1;

    while (k > 0 && ((member % 2 ? member - wi_swing_distance(k) : member) & ((1 << (k + 1)) - 1)))
        k--;
    return k;
}

/* Where the path from an even member through the partners of all steps ends, as a distance; from an odd member it is the
 * negative. */
static inline int wi_swing_last(int steps, int pow2)
{
    int at = 0;

    for (int k = 0; k < steps; k++)
        at = wi_swing_peer(at, k, pow2);
    return at;
}

/* The member of the tree from 0 that receives last: its path uses all steps, from the longest. */
static inline int wi_swing_deepest(int steps, int pow2)
{
    int at = 0;

    for (int k = steps - 1; k >= 0; k--)
        at = wi_swing_peer(at, k, pow2);
    return at;
}

/* The part of a chain of exchanges that folding adds: 2 if it can begin and end with a folded rank. */
static inline int wi_swing_fold_steps(const struct wi_fold *fold)
{
    int last = wi_swing_last(wi_log2_ceil(fold->pow2), fold->pow2);

    for (int m = 0; m < fold->rem; m++)
        if (wi_mod(m % 2 ? m - last : m + last, fold->pow2) < fold->rem)
            return 2;
    return fold->rem > 0;
}

#endif
