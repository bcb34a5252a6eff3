/* SPDX-License-Identifier: BSD-3-Clause */
/* Autotuning between two variants while the program runs, by size class. Two choices are made so:
 *
 * Ordinary or streaming stores into slots (exec->store_tuning; local.c). Other cores read a slot, so its lines are in their caches
 * when it is written again. An ordinary store takes each line back, one round trip each, which the store queue hardly overlaps. A
 * streaming store writes to memory, from where the reader's prefetchers fetch. Between two core complexes streaming is up to seven
 * times as fast (1 MiB all-reduce of two ranks: 77 us against 504 us); within one, slots stay in the shared cache and ordinary
 * stores spare the memory (2 MiB: 0.7 of the time).
 * Copies through slots or by cross-memory attach (comm->copy_path_tuning; src/comm/exchange.c).
 *
 * Which is faster depends on where the ranks run, and that is not known: virtual machines even move them. So the first operations
 * of every few hundred of a size class are trials of both variants, and the others take the faster one. A variant reaches its
 * speed only once every slot was last stored to by it, so the first operations of a trial are not timed. The times of the others
 * are added up without the longest, which may have been interrupted; the shortest time alone misjudged variants whose times
 * vary. */
#ifndef WI_EXEC_AUTOTUNE_H
#define WI_EXEC_AUTOTUNE_H

#include <stddef.h>
#include <stdint.h>

#define WI_AUTOTUNE_MIN_BYTES 512u /* below, always variant 0: streaming never pays */
#define WI_AUTOTUNE_CLASSES 24     /* by powers of two of the operation's bytes; the last has no upper end */
#define WI_AUTOTUNE_LONG_CLASS 9   /* from 256 KiB one operation goes round all slots */

struct wi_autotune {
    struct {
        uint32_t turn, period;
        uint8_t best;      /* variant 0 or 1 */
        uint64_t spent[2]; /* ticks in the trials of this period */
        uint64_t longest[2];
    } classes[WI_AUTOTUNE_CLASSES];
};

/* A trial: operations that are not timed, then operations that are. A period: a trial of each variant, then operations with the
 * faster one. The first trials of a size may meet a cold machine, so periods are short at first, double, and are short again
 * after a change. */
struct wi_autotune_trial {
    uint32_t settle, timed, first_period, last_period;
};

static inline int wi_autotune_class(size_t bytes)
{
    int c = 63 - __builtin_clzll((unsigned long long)bytes) - 9;

    return c < WI_AUTOTUNE_CLASSES ? c : WI_AUTOTUNE_CLASSES - 1;
}

static inline struct wi_autotune_trial wi_autotune_trial(int c)
{
    return c < WI_AUTOTUNE_LONG_CLASS ? (struct wi_autotune_trial){9, 8, 8 * 17, 256 * 17}
                                  : (struct wi_autotune_trial){1, 3, 8 * 4, 64 * 4};
}

static inline uint32_t wi_autotune_next_period(const struct wi_autotune_trial *trial, uint32_t period)
{
    if (!period)
        return trial->first_period;
    return 2 * period < trial->last_period ? 2 * period : trial->last_period;
}

static inline int wi_autotune_best(const struct wi_autotune *s, size_t bytes)
{
    return bytes >= WI_AUTOTUNE_MIN_BYTES && s->classes[wi_autotune_class(bytes)].best;
}

/* The variant for this operation. *timed: tell wi_autotune_learn how long the operation took. */
static inline int wi_autotune_choose(struct wi_autotune *s, size_t bytes, int *timed)
{
    struct wi_autotune_trial trial;
    uint32_t turn;
    int c;

    *timed = 0;
    if (bytes < WI_AUTOTUNE_MIN_BYTES)
        return 0;
    c = wi_autotune_class(bytes);
    trial = wi_autotune_trial(c);
    turn = s->classes[c].turn++;
    if (turn == s->classes[c].period) {
        turn = 0;
        s->classes[c].turn = 1;
        s->classes[c].period = wi_autotune_next_period(&trial, s->classes[c].period);
    }
    if (turn >= 2 * (trial.settle + trial.timed))
        return s->classes[c].best;
    if (turn == 0)
        for (int v = 0; v < 2; v++)
            s->classes[c].spent[v] = s->classes[c].longest[v] = 0;
    *timed = turn % (trial.settle + trial.timed) >= trial.settle;
    return turn >= trial.settle + trial.timed;
}

static inline void wi_autotune_learn(struct wi_autotune *s, size_t bytes, int variant, uint64_t ticks)
{
    int c = wi_autotune_class(bytes), other;
    struct wi_autotune_trial trial = wi_autotune_trial(c);
    uint64_t typical[2];

    s->classes[c].spent[variant] += ticks;
    if (ticks > s->classes[c].longest[variant])
        s->classes[c].longest[variant] = ticks;
    if (s->classes[c].turn != 2 * (trial.settle + trial.timed))
        return;
    for (int v = 0; v < 2; v++)
        typical[v] = s->classes[c].spent[v] - s->classes[c].longest[v];
    other = !s->classes[c].best;
    if (typical[other] < typical[!other] - typical[!other] / 16) { /* changing costs a round of slots */
        s->classes[c].best = (uint8_t)other;
        s->classes[c].period = trial.first_period;
    }
}

#endif
