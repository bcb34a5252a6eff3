/* SPDX-License-Identifier: BSD-3-Clause */
/* Signals between ranks of a mapped group, for the files that walk mapped schedules.
 *
 * Orders that matter: a signal's release store comes after everything the lane wrote in this slice; a waiter's acquire load
 * makes it visible. `done` is stored with release after the last read of the epoch, and read with acquire before the
 * epoch's slot is written again. */
#ifndef WI_EXEC_SIGNAL_H
#define WI_EXEC_SIGNAL_H

#include <string.h>

#include "base/clock.h"
#include "exec/exec.h"

static inline uint64_t wi_load(const uint64_t *p)
{
    return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

static inline void wi_store(uint64_t *p, uint64_t v)
{
    __atomic_store_n(p, v, __ATOMIC_RELEASE);
}

static inline void wi_wake_sleepers(struct wi_exec *exec)
{
    if (__builtin_expect(__atomic_load_n(exec->map.sleepers, __ATOMIC_RELAXED) != 0, 0))
        exec->map_ops->wake(exec->map_group);
}

/* A short hash of the operation; both sides of a signal compare it. */
static inline uint64_t wi_fingerprint(const struct weft_op_info *info)
{
    uint64_t w[3];

    memcpy(w, info, sizeof w);
    w[0] = (w[0] ^ w[1] * 0x9e3779b97f4a7c15ull ^ w[2] * 0xc2b2ae3d27d4eb4full) * 0xff51afd7ed558ccdull;
    return w[0] ^ w[0] >> 32;
}

static inline void wi_block_on(struct wi_op *op, const uint64_t *word, uint64_t least, int peer)
{
    op->wait.word = word;
    op->wait.least = least;
    op->wait.mask = UINT64_MAX;
    op->wait.peer = peer;
}

/* This rank has read everything of the epochs before `epoch`. */
static inline void wi_epochs_done(struct wi_exec *exec, uint64_t epoch)
{
    wi_store(&exec->map.ranks[exec->rank].done->value, epoch);
    wi_wake_sleepers(exec);
}

/* Publish the ordinal-th signal of a lane in an epoch. */
static inline void wi_signal(struct wi_exec *exec, const struct wi_op *op, uint32_t lane, uint64_t epoch,
                             uint32_t ordinal)
{
    struct weft_signal *s = &exec->map.ranks[exec->rank].signals[lane];

    __atomic_store_n(&s->pad[epoch & 1], wi_fingerprint(&op->info), __ATOMIC_RELAXED);
    wi_store(&s->value, 8 * epoch + ordinal + 1);
    wi_wake_sleepers(exec);
}

/* 1: it is there; 0: not yet (op->wait.word), or the ranks disagree and the executor is broken now. */
static inline int wi_signal_seen(struct wi_exec *exec, struct wi_op *op, int rank, uint32_t lane, uint64_t epoch,
                                 uint32_t ordinal)
{
    const struct weft_signal *s = &exec->map.ranks[rank].signals[lane];
    uint64_t want = 8 * epoch + ordinal + 1, value = wi_load(&s->value);

    if (value < want) {
        wi_block_on(op, &s->value, want, rank);
        return 0;
    }
    /* The hash beside the signal belongs to this epoch as long as the signal does: the hash of the next epoch goes to the other
     * place, and that of the one after it is stored only after the next epoch's signal. */
    if (__builtin_expect((value - 1) / 8 == epoch &&
                             __atomic_load_n(&s->pad[epoch & 1], __ATOMIC_ACQUIRE) != wi_fingerprint(&op->info) &&
                             wi_load(&s->value) == value,
                         0)) {
        wi_exec_differs(exec, op, rank);
        return 0;
    }
    return 1;
}

/* Poll the awaited word, and nothing else. */
static inline int wi_spin_on_poll(const struct wi_exec *exec, const struct wi_op *op)
{
    for (uint32_t i = wi_exec_spins(exec); i > 0; i--) {
        if ((wi_load(op->wait.word) & op->wait.mask) >= op->wait.least)
            return 1;
        wi_cpu_relax();
    }
    return 0;
}

/* The same with long pauses in between. */
static inline int wi_spin_seldom(const struct wi_exec *exec, const struct wi_op *op)
{
    for (uint32_t i = wi_exec_spins(exec) / 32; i > 0; i--) {
        for (int k = 0; k < 32; k++)
            wi_cpu_relax();
        if ((wi_load(op->wait.word) & op->wait.mask) >= op->wait.least)
            return 1;
    }
    return 0;
}

#endif
