/* SPDX-License-Identifier: BSD-3-Clause */
/* The copy of what is saved, made by the save's thread and by whoever waits for it, from the first piece to the last: who changes
 * pieces in the order in which they were given waits for no more than what it is about to change. */
#ifndef WI_CKPT_SNAPSHOT_H
#define WI_CKPT_SNAPSHOT_H

#include <stdatomic.h>
#include <pthread.h>

#include "zero/ckpt/ckpt_impl.h"

struct wi_ckpt_snapshot {
    const struct wi_ckpt_run *run;
    atomic_size_t next; /* batch that nobody has begun to copy */
    size_t nbatches;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    unsigned char *copied; /* of each batch; under the mutex, as the next two */
    size_t front;          /* batches before the first one that is not copied */
    int free;              /* all may change */
};
void wi_ckpt_snapshot_init(struct wi_ckpt_snapshot *snapshot);
void wi_ckpt_snapshot_fini(struct wi_ckpt_snapshot *snapshot);
/* Of a run whose chunks are known; a run in place is not copied. */
weft_status wi_ckpt_snapshot_begin(struct wi_ckpt_snapshot *snapshot, const struct wi_ckpt_run *run);
/* Copy what nobody has begun to copy of the first chunks. Any thread, several at a time. */
void wi_ckpt_snapshot_copy(struct wi_ckpt_snapshot *snapshot, size_t nchunks);
/* Whether the first chunks are copied, or all may change; and until they are. */
int wi_ckpt_snapshot_done(struct wi_ckpt_snapshot *snapshot, size_t nchunks);
void wi_ckpt_snapshot_await(struct wi_ckpt_snapshot *snapshot, size_t nchunks);
/* All may change: it is copied, or written, or the save has failed. */
void wi_ckpt_snapshot_free(struct wi_ckpt_snapshot *snapshot);

#endif
