/* SPDX-License-Identifier: BSD-3-Clause */
#include "zero/ckpt/ckpt_snapshot.h"

#include "base/alloc.h"
#include "base/reduce.h"
#include "base/status.h"

enum { BATCH = 4 }; /* chunks that a thread takes at a time: few enough that the last one ends soon after the others */

void wi_ckpt_snapshot_init(struct wi_ckpt_snapshot *snapshot)
{
    *snapshot = (struct wi_ckpt_snapshot){.free = 1};
    pthread_mutex_init(&snapshot->mutex, NULL);
    pthread_cond_init(&snapshot->changed, NULL);
}

void wi_ckpt_snapshot_fini(struct wi_ckpt_snapshot *snapshot)
{
    wi_free(snapshot->copied);
    pthread_mutex_destroy(&snapshot->mutex);
    pthread_cond_destroy(&snapshot->changed);
}

weft_status wi_ckpt_snapshot_begin(struct wi_ckpt_snapshot *snapshot, const struct wi_ckpt_run *run)
{
    size_t nbatches = run->options.in_place ? 0 : (run->index.nchunks + BATCH - 1) / BATCH;
    unsigned char *copied = wi_calloc(nbatches + 1, 1);

    if (!copied)
        return wi_fail(WEFT_ENOMEM, "out of memory for a checkpoint of %zu chunks", run->index.nchunks);
    wi_free(snapshot->copied);
    snapshot->copied = copied;
    snapshot->run = run;
    snapshot->nbatches = nbatches;
    snapshot->front = 0;
    snapshot->free = 0;
    atomic_store(&snapshot->next, 0);
    return WEFT_SUCCESS;
}

/* The next batch among the first ones; nbatches: there is none. */
static size_t claim(struct wi_ckpt_snapshot *snapshot, size_t most)
{
    size_t batch = atomic_load_explicit(&snapshot->next, memory_order_relaxed);

    while (batch < most)
        if (atomic_compare_exchange_weak_explicit(&snapshot->next, &batch, batch + 1, memory_order_relaxed,
                                                  memory_order_relaxed))
            return batch;
    return snapshot->nbatches;
}

static void copied(struct wi_ckpt_snapshot *snapshot, size_t batch)
{
    pthread_mutex_lock(&snapshot->mutex);
    snapshot->copied[batch] = 1;
    if (batch == snapshot->front) {
        while (snapshot->front < snapshot->nbatches && snapshot->copied[snapshot->front])
            snapshot->front++;
        pthread_cond_broadcast(&snapshot->changed);
    }
    pthread_mutex_unlock(&snapshot->mutex);
}

/* Batches that have the first chunks. */
static size_t batches(const struct wi_ckpt_snapshot *snapshot, size_t nchunks)
{
    size_t n = nchunks / BATCH + (nchunks % BATCH > 0);

    return n < snapshot->nbatches ? n : snapshot->nbatches;
}

void wi_ckpt_snapshot_copy(struct wi_ckpt_snapshot *snapshot, size_t nchunks)
{
    size_t most = batches(snapshot, nchunks), batch;

    while ((batch = claim(snapshot, most)) < snapshot->nbatches) {
        for (size_t c = batch * BATCH; c < (batch + 1) * BATCH && c < snapshot->run->index.nchunks; c++) {
            const struct wi_ckpt_source *source = &snapshot->run->sources[c];

            wi_copy(source->copy, source->data, source->bytes, WI_REDUCE_NT);
            wi_ckpt_progress_add(snapshot->run->options.progress, source->bytes);
        }
        copied(snapshot, batch);
    }
}

/* Under the mutex. */
static int may_change(const struct wi_ckpt_snapshot *snapshot, size_t nchunks)
{
    return snapshot->free || (!snapshot->run->options.in_place && snapshot->front >= batches(snapshot, nchunks));
}

int wi_ckpt_snapshot_done(struct wi_ckpt_snapshot *snapshot, size_t nchunks)
{
    pthread_mutex_lock(&snapshot->mutex);
    int done = may_change(snapshot, nchunks);

    pthread_mutex_unlock(&snapshot->mutex);
    return done;
}

void wi_ckpt_snapshot_await(struct wi_ckpt_snapshot *snapshot, size_t nchunks)
{
    pthread_mutex_lock(&snapshot->mutex);
    while (!may_change(snapshot, nchunks))
        pthread_cond_wait(&snapshot->changed, &snapshot->mutex);
    pthread_mutex_unlock(&snapshot->mutex);
}

void wi_ckpt_snapshot_free(struct wi_ckpt_snapshot *snapshot)
{
    pthread_mutex_lock(&snapshot->mutex);
    snapshot->free = 1;
    pthread_cond_broadcast(&snapshot->changed);
    pthread_mutex_unlock(&snapshot->mutex);
}
