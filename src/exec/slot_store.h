/* SPDX-License-Identifier: BSD-3-Clause */
/* How a rank stores into its slots, learnt while it runs.
 *
 * Other cores read a slot, so its lines are in their caches when it is written again. An ordinary store takes each line back,
 * a round trip that the store queue hardly overlaps; a streaming store writes to memory, from where the reader's prefetchers
 * fetch. Between two core complexes streaming is up to seven times as fast (1 MiB all-reduce of two ranks: 77 us against
 * 504 us); within one, slots stay in the shared cache and ordinary stores spare the memory (2 MiB: 0.7 of the time). Where
 * the ranks run is not known (virtual machines even move them), and the choice is each rank's own affair: so the first
 * operations of every few hundred of a size are made both ways, and the others take what was faster. A way shows its worth
 * only when every slot was last stored to in that way: so the first operations of a trial are not timed. The others are
 * summed up, without the longest, which may have been interrupted; the shortest alone misjudged ways whose times vary. */
#ifndef WI_EXEC_SLOT_STORE_H
#define WI_EXEC_SLOT_STORE_H

#include <stddef.h>
#include <stdint.h>

#define WI_SLOT_ORDINARY_BYTES 512u /* below, streaming never pays */
#define WI_SLOT_CLASSES 24          /* by powers of two of the operation's bytes; the last has no upper end */
#define WI_SLOT_LONG_CLASS 9        /* from 256 KiB one operation goes round all slots */

struct wi_slot_store {
    struct {
        uint32_t turn, period;
        uint8_t best;      /* 1: streaming */
        uint64_t spent[2]; /* ticks in the trials of this period */
        uint64_t longest[2];
    } classes[WI_SLOT_CLASSES];
};

/* A trial: operations that are not timed, and that are. A period: two trials, and operations that go by them. The first
 * trials of a size may meet a cold machine, so periods are short at first and double, and are short again after a change. */
struct wi_slot_trial {
    uint32_t settle, timed, first_period, last_period;
};

static inline int wi_slot_class(size_t bytes)
{
    int c = 63 - __builtin_clzll((unsigned long long)bytes) - 9;

    return c < WI_SLOT_CLASSES ? c : WI_SLOT_CLASSES - 1;
}

static inline struct wi_slot_trial wi_slot_trial(int c)
{
    return c < WI_SLOT_LONG_CLASS ? (struct wi_slot_trial){9, 8, 8 * 17, 256 * 17}
                                  : (struct wi_slot_trial){1, 3, 8 * 4, 64 * 4};
}

static inline uint32_t wi_slot_next_period(const struct wi_slot_trial *trial, uint32_t period)
{
    if (!period)
        return trial->first_period;
    return 2 * period < trial->last_period ? 2 * period : trial->last_period;
}

static inline int wi_slot_store_best(const struct wi_slot_store *s, size_t bytes)
{
    return bytes >= WI_SLOT_ORDINARY_BYTES && s->classes[wi_slot_class(bytes)].best;
}

/* 1: stream. *timed: tell wi_slot_store_learn how long the operation took. */
static inline int wi_slot_store_choose(struct wi_slot_store *s, size_t bytes, int *timed)
{
    struct wi_slot_trial trial;
    uint32_t turn;
    int c;

    *timed = 0;
    if (bytes < WI_SLOT_ORDINARY_BYTES)
        return 0;
    c = wi_slot_class(bytes);
    trial = wi_slot_trial(c);
    turn = s->classes[c].turn++;
    if (turn == s->classes[c].period) {
        turn = 0;
        s->classes[c].turn = 1;
        s->classes[c].period = wi_slot_next_period(&trial, s->classes[c].period);
    }
    if (turn >= 2 * (trial.settle + trial.timed))
        return s->classes[c].best;
    if (turn == 0)
        for (int way = 0; way < 2; way++)
            s->classes[c].spent[way] = s->classes[c].longest[way] = 0;
    *timed = turn % (trial.settle + trial.timed) >= trial.settle;
    return turn >= trial.settle + trial.timed;
}

static inline void wi_slot_store_learn(struct wi_slot_store *s, size_t bytes, int streamed, uint64_t ticks)
{
    int c = wi_slot_class(bytes), other;
    struct wi_slot_trial trial = wi_slot_trial(c);
    uint64_t typical[2];

    s->classes[c].spent[streamed] += ticks;
    if (ticks > s->classes[c].longest[streamed])
        s->classes[c].longest[streamed] = ticks;
    if (s->classes[c].turn != 2 * (trial.settle + trial.timed))
        return;
    for (int way = 0; way < 2; way++)
        typical[way] = s->classes[c].spent[way] - s->classes[c].longest[way];
    other = !s->classes[c].best;
    if (typical[other] < typical[!other] - typical[!other] / 16) { /* changing costs a round of slots */
        s->classes[c].best = (uint8_t)other;
        s->classes[c].period = trial.first_period;
    }
}

#endif
