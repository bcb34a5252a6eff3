/* SPDX-License-Identifier: BSD-3-Clause */
/* Mapped programs over ll lines, in which payload and flag share a cache line. Mapped operations run one at a time, so what a rank
 * publishes next, and what it has fetched from the others, are the executor's. */
#ifndef WI_EXEC_LL_H
#define WI_EXEC_LL_H

#include "exec/exec.h"
#include "exec/signal.h"

#define WI_LL_PAYLOAD sizeof(((struct weft_ll_line *)0)->payload)

/* Low 40 bits: epoch + 1; high 24 bits: what is being done. */
static inline uint64_t wi_ll_seq(uint64_t epoch, const struct weft_op_info *info)
{
    return ((epoch + 1) & WI_LL_EPOCH_MASK) | wi_fingerprint(info) << 40;
}

static inline struct weft_ll_line *wi_ll_slot(const struct wi_exec *exec, int rank, uint64_t epoch)
{
    return exec->map.ranks[rank].ll + (epoch & (exec->map.ll_depth - 1)) * exec->map.ll_lines;
}

static inline void wi_ll_publish(struct wi_exec *exec, uint64_t epoch, uint64_t seq, const unsigned char *data,
                                 size_t bytes)
{
    struct weft_ll_line *line = wi_ll_slot(exec, exec->rank, epoch);

    for (; bytes > WI_LL_PAYLOAD; bytes -= WI_LL_PAYLOAD, data += WI_LL_PAYLOAD, line++) {
        memcpy(line->payload, data, WI_LL_PAYLOAD);
        wi_store(&line->seq, seq);
    }
    if (bytes == 8) /* the commonest length, without a call */
        memcpy(line->payload, data, 8);
    else
        memcpy(line->payload, data, bytes);
    wi_store(&line->seq, seq);
    wi_wake_sleepers(exec);
}

/* Two ranks signal the same epoch with other operations. */
void wi_ll_wrong(struct wi_exec *exec, const struct wi_op *op, int rank);

/* The payload of a rank's ll slot of op's epoch: in place when it is one line, else unpacked. NULL: not all of it is there, and
 * op->wait says what is missing; or the ranks disagree, and the executor is broken now. */
static inline const unsigned char *wi_ll_fetch(struct wi_exec *exec, struct wi_op *op, int rank, uint64_t seq,
                                               size_t bytes)
{
    struct weft_ll_line *line = wi_ll_slot(exec, rank, op->run.epoch);
    unsigned char *out = exec->ll_received + (size_t)rank * exec->ll_bytes;
    size_t at = 0;

    do {
        uint64_t v = wi_load(&line->seq);
        if (__builtin_expect(v != seq, 0)) {
            if ((v & WI_LL_EPOCH_MASK) == (seq & WI_LL_EPOCH_MASK))
                wi_ll_wrong(exec, op, rank);
            wi_block_on(op, &line->seq, seq & WI_LL_EPOCH_MASK, rank);
            op->wait.mask = WI_LL_EPOCH_MASK;
            return NULL;
        }
        if (bytes <= WI_LL_PAYLOAD)
            return line->payload;
        memcpy(out + at, line->payload, bytes - at < WI_LL_PAYLOAD ? bytes - at : WI_LL_PAYLOAD);
        at += WI_LL_PAYLOAD;
        line++;
    } while (at < bytes);
    return out;
}

/* The operation is the oldest mapped one: its epochs begin now. 1: the records of all ranks are in exec->ll_received, in rank order
 * at exec->ll_bytes, until the next exchange; 0: not yet; < 0: the executor is broken. */
int wi_ll_exchange(struct wi_exec *exec, struct wi_op *op, struct wi_exchange *exchange, int *moved);
/* Steps of a program; fetch: 1: done, 0: must wait, < 0: failed. */
void wi_ll_publish_step(struct wi_exec *exec, const struct wi_op *op, const struct wi_prog_step *step);
int wi_ll_fetch_step(struct wi_exec *exec, struct wi_op *op, const struct wi_prog_step *step);

#endif
