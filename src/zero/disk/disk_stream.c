/* SPDX-License-Identifier: BSD-3-Clause */
/* Extents streamed through slots of memory.
 *
 *     slot 0   read 0 | compute | write 0  | read 3 | compute | ...
 *     slot 1          | read 1  | compute  | write 1 | read 4 | ...
 *     slot 2                    | read 2   | compute | write 2 | ...
 *
 * Chunks are computed on in the order of the list; reads begin as soon as a slot is free. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "zero/disk/disk_internal.h"

struct position {
    size_t index, chunk;
};

struct run {
    struct wi_disk *disk;
    const size_t *extents;
    size_t nextents;
    unsigned flags;
    wi_disk_compute_fn compute;
    wi_disk_idle_fn idle; /* NULL once there is nothing left */
    void *arg;
    struct position fetch, at; /* next chunk to get a slot, next to be computed on */
    weft_status status;
    char text[1024]; /* of the first failure */
};

static void run_fail(struct run *run, weft_status status)
{
    if (run->status == WEFT_SUCCESS) {
        run->status = status;
        snprintf(run->text, sizeof(run->text), "%s", wi_fail_text());
    }
}

/* ---- Slots ---- */

static int slot_busy(const struct wi_disk_slot *slot)
{
    for (unsigned i = 0; i < WI_DISK_STREAMS_MAX; i++)
        if (slot->ops[i])
            return 1;
    return 0;
}

/* All that is under way in it can be taken without waiting. */
static int slot_ended(const struct wi_disk_slot *slot)
{
    for (unsigned i = 0; i < WI_DISK_STREAMS_MAX; i++)
        if (slot->ops[i] && !wi_disk_ended(slot->ops[i]))
            return 0;
    return 1;
}

/* Take the end of what is under way in a slot. A read that has failed leaves it free. */
static weft_status slot_end(struct wi_disk *disk, struct wi_disk_slot *slot, uint64_t deadline_ns)
{
    int read = slot->state == WI_DISK_SLOT_READING, failed = slot->partial;
    weft_status status = WEFT_SUCCESS;

    for (unsigned i = 0; i < WI_DISK_STREAMS_MAX; i++) {
        if (!slot->ops[i])
            continue;
        weft_status one = wi_disk_wait(disk, slot->ops[i], deadline_ns);

        if (one == WEFT_ETIMEDOUT || disk->broken) {
            slot->partial |= status != WEFT_SUCCESS;
            return one;
        }
        slot->ops[i] = NULL;
        status = one == WEFT_SUCCESS ? status : one;
    }
    failed |= status != WEFT_SUCCESS;
    slot->partial = 0;
    if (read)
        slot->state = failed ? WI_DISK_SLOT_FREE : WI_DISK_SLOT_READY;
    else
        slot->state = failed ? WI_DISK_SLOT_DIRTY : WI_DISK_SLOT_FREE;
    return status;
}

/* Where streams have codecs, their images have lengths of their own, and each is an operation. */
static weft_status slot_begin(struct wi_disk *disk, struct wi_disk_slot *slot, enum wi_disk_what what)
{
    unsigned width = disk->extents[slot->extent].coded ? 1 : slot->nstreams, n = 0;
    weft_status status = WEFT_SUCCESS;

    for (unsigned s = slot->stream; s < slot->stream + slot->nstreams && status == WEFT_SUCCESS; s += width) {
        char *data = slot->data;

        data += wi_disk_stream_offset(disk, slot->extent, slot->chunk, slot->stream, s);
        status = wi_disk_parts_begin(disk, what, slot->extent, slot->chunk, 1, s, width, data, &slot->ops[n]);
        n += status == WEFT_SUCCESS;
        if (status != WEFT_SUCCESS && what == WI_DISK_DO_WRITE)
            wi_disk_pieces_lost(disk, slot->extent, slot->chunk, s, slot->stream + slot->nstreams - s);
    }
    slot->partial = status != WEFT_SUCCESS && n;
    if (what == WI_DISK_DO_READ)
        slot->state = status == WEFT_SUCCESS || n ? WI_DISK_SLOT_READING : WI_DISK_SLOT_FREE;
    else
        slot->state = status == WEFT_SUCCESS || n ? WI_DISK_SLOT_WRITING : WI_DISK_SLOT_DIRTY;
    return status;
}

weft_status wi_disk_slot_read(struct wi_disk *disk, struct wi_disk_slot *slot)
{
    weft_status status = slot_begin(disk, slot, WI_DISK_DO_READ);

    return status == WEFT_SUCCESS ? slot_end(disk, slot, wi_deadline_ns(disk->timeout_ns)) : status;
}

weft_status wi_disk_slot_write(struct wi_disk *disk, struct wi_disk_slot *slot)
{
    weft_status status = slot_begin(disk, slot, WI_DISK_DO_WRITE);

    return status == WEFT_SUCCESS ? slot_end(disk, slot, wi_deadline_ns(disk->timeout_ns)) : status;
}

weft_status wi_disk_settle(struct wi_disk *disk)
{
    for (unsigned i = 0; i < disk->nslots; i++) {
        struct wi_disk_slot *slot = &disk->slots[i];
        if (slot->state == WI_DISK_SLOT_READING || slot->state == WI_DISK_SLOT_WRITING) {
            weft_status status = slot_end(disk, slot, wi_deadline_ns(disk->timeout_ns));
            if (slot_busy(slot))
                return status;
        }
        if (slot->state == WI_DISK_SLOT_READY)
            slot->state = WI_DISK_SLOT_FREE;
        if (slot->state == WI_DISK_SLOT_DIRTY)
            WI_TRY(wi_disk_slot_write(disk, slot));
    }
    return WEFT_SUCCESS;
}

void wi_disk_forget(struct wi_disk *disk, const size_t *extents, size_t nextents)
{
    for (unsigned i = 0; i < disk->nslots; i++)
        for (size_t k = 0; k < nextents; k++)
            if (disk->slots[i].state == WI_DISK_SLOT_DIRTY && disk->slots[i].extent == extents[k])
                disk->slots[i].state = WI_DISK_SLOT_FREE;
}

/* The slot of a chunk, or one that is free (extent SIZE_MAX), or NULL. */
static struct wi_disk_slot *slot_find(struct wi_disk *disk, size_t extent, size_t chunk)
{
    for (unsigned i = 0; i < disk->nslots; i++) {
        struct wi_disk_slot *slot = &disk->slots[i];
        if (extent == SIZE_MAX ? slot->state == WI_DISK_SLOT_FREE
                               : (slot->state == WI_DISK_SLOT_READING || slot->state == WI_DISK_SLOT_READY) &&
                                     slot->extent == extent && slot->chunk == chunk)
            return slot;
    }
    return NULL;
}

/* ---- The pipeline ---- */

/* To the next chunk there is. */
static void position_skip(const struct run *run, struct position *p)
{
    while (p->index < run->nextents && p->chunk >= wi_disk_chunks(run->disk, run->extents[p->index])) {
        p->index++;
        p->chunk = 0;
    }
}

static void position_next(const struct run *run, struct position *p)
{
    p->chunk++;
    position_skip(run, p);
}

static void slots_collect(struct run *run)
{
    for (unsigned i = 0; i < run->disk->nslots; i++) {
        struct wi_disk_slot *slot = &run->disk->slots[i];
        if (slot->state == WI_DISK_SLOT_WRITING && slot_ended(slot)) {
            weft_status status = slot_end(run->disk, slot, 0);
            if (status != WEFT_SUCCESS)
                run_fail(run, status);
        }
    }
}

static void slots_fetch(struct run *run)
{
    struct wi_disk_slot *slot;

    while (run->status == WEFT_SUCCESS && run->fetch.index < run->nextents &&
           (slot = slot_find(run->disk, SIZE_MAX, 0))) {
        weft_status status = WEFT_SUCCESS;
        slot->index = run->fetch.index;
        slot->extent = run->extents[run->fetch.index];
        slot->chunk = run->fetch.chunk;
        slot->stream = 0;
        slot->nstreams = run->disk->extents[slot->extent].nstreams;
        slot->state = WI_DISK_SLOT_READY;
        if (run->flags & WI_DISK_READ)
            status = slot_begin(run->disk, slot, WI_DISK_DO_READ);
        if (status != WEFT_SUCCESS) {
            run_fail(run, status);
            return;
        }
        position_next(run, &run->fetch);
    }
}

/* Past the deadline. The wait for what the slot needs says what that is: its own read, or, where no slot was free, a write.
 * Success: it has just ended. */
static weft_status chunk_late(struct run *run, struct wi_disk_slot *slot)
{
    weft_status status = WEFT_ETIMEDOUT;

    for (unsigned i = 0; !slot && i < run->disk->nslots; i++)
        if (run->disk->slots[i].state == WI_DISK_SLOT_WRITING)
            slot = &run->disk->slots[i];
    if (slot)
        status = slot_end(run->disk, slot, 0);
    else
        wi_fail(status, "disk tier %s: no slot is free", run->disk->path);
    if (status != WEFT_SUCCESS)
        run_fail(run, status);
    return status;
}

/* Instead of waiting: 1, or 0 where there is nothing to do. Its time is no wait's. */
static int work_idle(struct run *run, uint64_t *start)
{
    uint64_t from = wi_now_ns();
    int did;

    if (!run->idle || run->status != WEFT_SUCCESS)
        return 0;
    run->disk->streaming = 1;
    did = run->idle(run->arg);
    run->disk->streaming = 0;
    if (did < 0)
        run_fail(run, (weft_status)did);
    if (did <= 0)
        run->idle = NULL;
    *start += wi_now_ns() - from;
    return did > 0;
}

/* Until the next chunk is in memory, meanwhile slots that were written get the next reads. NULL: failed. */
static struct wi_disk_slot *chunk_await(struct run *run)
{
    uint64_t start = wi_now_ns(), deadline = wi_deadline_ns(run->disk->timeout_ns);
    struct wi_disk_slot *slot = NULL;
    int had_slot = 0;

    while (run->status == WEFT_SUCCESS) {
        slots_collect(run);
        slots_fetch(run);
        slot = slot_find(run->disk, run->extents[run->at.index], run->at.chunk);
        had_slot |= slot != NULL;
        if (run->status != WEFT_SUCCESS || (slot && (slot->state == WI_DISK_SLOT_READY || slot_ended(slot))))
            break;
        if (work_idle(run, &start)) {
            deadline = wi_deadline_ns(run->disk->timeout_ns);
            wi_disk_turn(run->disk, 0);
            continue;
        }
        if (run->status != WEFT_SUCCESS)
            break;
        if (wi_now_ns() >= deadline || run->disk->broken) {
            if (chunk_late(run, slot) != WEFT_SUCCESS)
                break;
            continue;
        }
        wi_disk_turn(run->disk, deadline);
    }
    if (had_slot)
        run->disk->stats.read_wait_ns += wi_now_ns() - start;
    else
        run->disk->stats.write_wait_ns += wi_now_ns() - start;
    return run->status == WEFT_SUCCESS ? slot : NULL;
}

/* Where the streams of a chunk are while they are computed on: in its slot, or decoded, one behind the other. */
static void piece_place(const struct wi_disk *disk, const struct wi_disk_slot *slot, struct wi_disk_piece *piece)
{
    const struct wi_disk_geometry *g = &disk->extents[slot->extent];
    size_t stride = wi_disk_piece_stride(disk, slot->extent, slot->chunk);

    for (unsigned s = 0; s < piece->nstreams; s++)
        piece->streams[s] = g->codecs[s]
                                ? disk->work + s * stride
                                : (char *)slot->data + wi_disk_stream_offset(disk, slot->extent, slot->chunk, 0, s);
}

static weft_status call_compute(struct run *run, const struct wi_disk_piece *piece)
{
    uint64_t start = wi_now_ns();

    run->disk->streaming = 1;
    weft_status status = run->compute(run->arg, piece);

    run->disk->streaming = 0;
    run->disk->stats.compute_ns += wi_now_ns() - start;
    return status;
}

static void chunk_compute(struct run *run, struct wi_disk_slot *slot)
{
    struct wi_disk *disk = run->disk;
    struct wi_disk_piece piece = {.index = slot->index, .extent = slot->extent, .chunk = slot->chunk};
    weft_status status = WEFT_SUCCESS;

    piece.offset = (uint64_t)slot->chunk * disk->extents[slot->extent].piece;
    piece.bytes = wi_disk_piece_bytes(disk, slot->extent, slot->chunk);
    piece.nstreams = slot->nstreams;
    piece_place(disk, slot, &piece);
    if (run->flags & WI_DISK_READ)
        status = wi_disk_code_piece(disk, &piece, slot->data, 0);
    if (status == WEFT_SUCCESS)
        status = call_compute(run, &piece);
    if (status == WEFT_SUCCESS && run->flags & WI_DISK_WRITE)
        status = wi_disk_code_piece(disk, &piece, slot->data, 1);
    slot->state = WI_DISK_SLOT_FREE;
    if (status != WEFT_SUCCESS) {
        run_fail(run, status);
        return;
    }
    position_next(run, &run->at);
    if (run->flags & WI_DISK_WRITE) {
        status = slot_begin(disk, slot, WI_DISK_DO_WRITE);
        if (status != WEFT_SUCCESS)
            run_fail(run, status);
    }
}

/* Also after a failure: what was computed is written, what was read ahead is forgotten. */
static void run_end(struct run *run)
{
    uint64_t start = wi_now_ns(), deadline;

    while (work_idle(run, &start))
        wi_disk_turn(run->disk, 0);
    deadline = wi_deadline_ns(run->disk->timeout_ns);
    for (unsigned i = 0; i < run->disk->nslots; i++) {
        struct wi_disk_slot *slot = &run->disk->slots[i];
        if (slot->state == WI_DISK_SLOT_WRITING || slot->state == WI_DISK_SLOT_READING) {
            int write = slot->state == WI_DISK_SLOT_WRITING;
            weft_status status = slot_end(run->disk, slot, deadline);
            if (status != WEFT_SUCCESS && (write || slot_busy(slot)))
                run_fail(run, status);
        }
        if (slot->state == WI_DISK_SLOT_READY)
            slot->state = WI_DISK_SLOT_FREE;
    }
    run->disk->stats.write_wait_ns += wi_now_ns() - start;
}

static weft_status list_mark(struct wi_disk *disk, const size_t *extents, size_t nextents)
{
    for (size_t i = 0; i < nextents; i++) {
        weft_status status = WEFT_SUCCESS;
        if (extents[i] >= disk->nextents)
            status = wi_fail(WEFT_EINVAL, "disk tier %s: extent %zu of %zu", disk->path, extents[i], disk->nextents);
        else if (disk->marks[extents[i]])
            status = wi_fail(WEFT_EINVAL, "disk tier %s: extent %zu is twice in the list", disk->path, extents[i]);
        if (status != WEFT_SUCCESS) {
            while (i-- > 0)
                disk->marks[extents[i]] = 0;
            return status;
        }
        disk->marks[extents[i]] = 1;
    }
    for (size_t i = 0; i < nextents; i++)
        disk->marks[extents[i]] = 0;
    return WEFT_SUCCESS;
}

weft_status wi_disk_stream(struct wi_disk *disk, const size_t *extents, size_t nextents, unsigned flags,
                           wi_disk_compute_fn compute, void *arg, wi_disk_idle_fn idle)
{
    struct run run = {.disk = disk,
                      .extents = extents,
                      .nextents = nextents,
                      .flags = flags,
                      .compute = compute,
                      .idle = idle,
                      .arg = arg};

    if (!disk || !compute || (nextents && !extents) || !flags || flags & ~(WI_DISK_READ | WI_DISK_WRITE))
        return wi_fail(WEFT_EINVAL, "disk tier: disk, extents or compute is NULL, or flags %u are unknown", flags);
    WI_TRY(wi_disk_usable(disk));
    WI_TRY(list_mark(disk, extents, nextents));
    WI_TRY(wi_disk_settle(disk));
    position_skip(&run, &run.at);
    run.fetch = run.at;
    while (run.status == WEFT_SUCCESS && run.at.index < nextents) {
        struct wi_disk_slot *slot = chunk_await(&run);
        if (slot && slot->state == WI_DISK_SLOT_READING) {
            weft_status status = slot_end(disk, slot, 0);
            if (status != WEFT_SUCCESS)
                run_fail(&run, status);
        }
        if (run.status == WEFT_SUCCESS)
            chunk_compute(&run, slot);
    }
    run_end(&run);
    return run.status == WEFT_SUCCESS ? WEFT_SUCCESS : wi_fail(run.status, "%s", run.text);
}
