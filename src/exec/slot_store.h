/* SPDX-License-Identifier: BSD-3-Clause */
/* How a rank stores into its slots, learnt while it runs.
 *
 * Other cores read a slot, so its lines are in their caches when it is written again. An ordinary store takes each line back,
 * a round trip that the store queue hardly overlaps; a streaming store writes to memory, from where the reader's prefetchers
 * fetch. Between two core complexes streaming is up to seven times as fast (1 MiB all-reduce of two ranks: 77 us against
 * 504 us); within one, slots stay in the shared cache and ordinary stores spare the memory (2 MiB: 0.7 of the time). Where
 * the ranks run is not known (virtual machines even move them), and the choice is each rank's own affair: so the first
 * operations of every few hundred of a size are made both ways, and the others take what was faster. A way shows its worth
 * only when every slot was last stored to in that way: so the first operations of a trial are not timed. */
#ifndef WI_EXEC_SLOT_STORE_H
#define WI_EXEC_SLOT_STORE_H

#include <stddef.h>
#include <stdint.h>

#define WI_SLOT_ORDINARY_BYTES 512u /* below, streaming never pays */
#define WI_SLOT_CLASSES 24          /* by powers of two of the operation's bytes; the last has no upper end */
#define WI_SLOT_LONG_CLASS 9        /* from 256 KiB one operation goes round all slots */
#define WI_SLOT_TIMED 3u            /* operations of a trial that are timed */
#define WI_SLOT_PERIOD 64u          /* trials' worth of operations between trials */

struct wi_slot_store {
    struct {
        uint32_t count;
        uint8_t best;      /* 1: streaming */
        uint64_t least[2]; /* ticks, in the trials of this period */
    } classes[WI_SLOT_CLASSES];
};

static inline int wi_slot_class(size_t bytes)
{
    int c = 63 - __builtin_clzll((unsigned long long)bytes) - 9;

    return c < WI_SLOT_CLASSES ? c : WI_SLOT_CLASSES - 1;
}

static inline uint32_t wi_slot_trial(int c)
{
    return WI_SLOT_TIMED + (c < WI_SLOT_LONG_CLASS ? 9 : 1);
}

/* 1: stream. *timed: tell wi_slot_store_learn how long the operation took. */
static inline int wi_slot_store_choose(struct wi_slot_store *s, size_t bytes, int *timed)
{
    uint32_t turn, trial;
    int c;

    *timed = 0;
    if (bytes < WI_SLOT_ORDINARY_BYTES)
        return 0;
    c = wi_slot_class(bytes);
    trial = wi_slot_trial(c);
    turn = s->classes[c].count++ % (WI_SLOT_PERIOD * trial);
    if (turn >= 2 * trial)
        return s->classes[c].best;
    if (turn == 0)
        s->classes[c].least[0] = s->classes[c].least[1] = UINT64_MAX;
    *timed = turn % trial >= trial - WI_SLOT_TIMED;
    return turn >= trial;
}

static inline void wi_slot_store_learn(struct wi_slot_store *s, size_t bytes, int streamed, uint64_t ticks)
{
    int c = wi_slot_class(bytes);

    if (ticks < s->classes[c].least[streamed])
        s->classes[c].least[streamed] = ticks;
    if (s->classes[c].count % (WI_SLOT_PERIOD * wi_slot_trial(c)) == 2 * wi_slot_trial(c))
        s->classes[c].best = s->classes[c].least[1] < s->classes[c].least[0];
}

#endif
