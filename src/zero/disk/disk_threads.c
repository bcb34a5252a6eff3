/* SPDX-License-Identifier: BSD-3-Clause */
/* The back end for where io_uring is forbidden, as in many containers: threads that call pread and pwrite. */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/thread.h"
#include "zero/disk/disk_internal.h"

struct threads_state {
    struct wi_disk *disk;
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    unsigned *queue; /* ring of requests to do, `depth` places */
    unsigned queue_first, queued;
    struct wi_disk_result *ended; /* at most `depth` */
    unsigned nended;
    int stopping;
    unsigned nthreads;
    pthread_t threads[];
};

/* One system call. Whether it was all of it is for others to see. */
static int64_t perform(const struct wi_disk *disk, const struct wi_disk_io *io)
{
    ssize_t n;

    if (io->what == WI_DISK_DO_READ)
        n = pread(disk->fd, io->data, io->bytes, (off_t)io->offset);
    else
        n = pwrite(disk->fd, io->data, io->bytes, (off_t)io->offset);
    return n < 0 ? -errno : n;
}

static void *worker(void *arg)
{
    struct threads_state *state = arg;
    struct wi_disk *disk = state->disk;

    pthread_mutex_lock(&state->lock);
    for (;;) {
        while (!state->queued && !state->stopping)
            pthread_cond_wait(&state->work, &state->lock);
        if (!state->queued)
            break;
        unsigned io = state->queue[state->queue_first];
        state->queue_first = (state->queue_first + 1) % disk->depth;
        state->queued--;
        pthread_mutex_unlock(&state->lock);
        int64_t result = perform(disk, &disk->ios[io]);
        pthread_mutex_lock(&state->lock);
        state->ended[state->nended++] = (struct wi_disk_result){io, result};
        pthread_cond_signal(&state->done);
    }
    pthread_mutex_unlock(&state->lock);
    return NULL;
}

static void threads_end(struct threads_state *state)
{
    pthread_mutex_lock(&state->lock);
    state->stopping = 1;
    pthread_cond_broadcast(&state->work);
    pthread_mutex_unlock(&state->lock);
    for (unsigned i = 0; i < state->nthreads; i++)
        pthread_join(state->threads[i], NULL);
    pthread_cond_destroy(&state->work);
    pthread_cond_destroy(&state->done);
    pthread_mutex_destroy(&state->lock);
    wi_free(state->queue);
    wi_free(state->ended);
    wi_free(state);
}

static int threads_start(struct threads_state *state, unsigned nthreads)
{
    int err = 0;

    while (state->nthreads < nthreads && !err) {
        err = wi_thread_start(&state->threads[state->nthreads], NULL, worker, state);
        state->nthreads += !err;
    }
    return state->nthreads ? 0 : err; /* fewer threads do the work, too */
}

static weft_status start(struct wi_disk *disk)
{
    struct threads_state *state = wi_calloc(1, sizeof(*state) + disk->threads * sizeof(pthread_t));
    pthread_condattr_t attributes;
    int err;

    if (!state)
        return wi_fail(WEFT_ENOMEM, "disk tier %s: no memory for threads", disk->path);
    state->disk = disk;
    state->queue = wi_calloc(disk->depth, sizeof(*state->queue));
    state->ended = wi_calloc(disk->depth, sizeof(*state->ended));
    if (!state->queue || !state->ended) {
        wi_free(state->queue);
        wi_free(state->ended);
        wi_free(state);
        return wi_fail(WEFT_ENOMEM, "disk tier %s: no memory for threads", disk->path);
    }
    pthread_mutex_init(&state->lock, NULL);
    pthread_cond_init(&state->work, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&state->done, &attributes);
    pthread_condattr_destroy(&attributes);
    err = threads_start(state, disk->threads);
    if (err) {
        threads_end(state);
        return wi_fail_errno(err, "disk tier %s: no thread could be started", disk->path);
    }
    disk->state = state;
    return WEFT_SUCCESS;
}

static void submit(struct wi_disk *disk, unsigned io)
{
    struct threads_state *state = disk->state;

    pthread_mutex_lock(&state->lock);
    state->queue[(state->queue_first + state->queued++) % disk->depth] = io;
    pthread_cond_signal(&state->work);
    pthread_mutex_unlock(&state->lock);
}

static int reap(struct wi_disk *disk, struct wi_disk_result *results, unsigned max, uint64_t deadline_ns)
{
    struct threads_state *state = disk->state;
    struct timespec until = {(time_t)(deadline_ns / 1000000000), (long)(deadline_ns % 1000000000)};
    int err = 0;
    unsigned n;

    pthread_mutex_lock(&state->lock);
    while (!state->nended && deadline_ns && !err)
        err = pthread_cond_timedwait(&state->done, &state->lock, &until);
    n = state->nended < max ? state->nended : max;
    memcpy(results, state->ended, n * sizeof(*results));
    state->nended -= n;
    memmove(state->ended, state->ended + n, state->nended * sizeof(*results));
    pthread_mutex_unlock(&state->lock);
    return (int)n;
}

/* Those that no thread has begun. */
static void cancel(struct wi_disk *disk)
{
    struct threads_state *state = disk->state;

    pthread_mutex_lock(&state->lock);
    for (; state->queued; state->queued--) {
        state->ended[state->nended++] = (struct wi_disk_result){state->queue[state->queue_first], -ECANCELED};
        state->queue_first = (state->queue_first + 1) % disk->depth;
    }
    pthread_mutex_unlock(&state->lock);
}

static void stop(struct wi_disk *disk)
{
    threads_end(disk->state);
    disk->state = NULL;
}

const struct wi_disk_backend wi_disk_backend_threads = {"threads", start, submit, NULL, reap, cancel, stop, NULL};
