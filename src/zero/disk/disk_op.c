/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations of the disk tier: cut into requests, submitted while there is room, every result checked. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "base/crc32c.h"
#include "zero/disk/disk_internal.h"

#define TRIES_MAX 100 /* of a request that makes no progress */
#define CRC_STEP ((size_t)1 << 20)
#define WAIT_NS 100000000 /* the back end looks up at least this often: a wake-up that is lost costs no more */

static const char *const what_names[] = {"read", "write"};

static size_t padded(size_t bytes)
{
    return (bytes + WI_DISK_ALIGN - 1) / WI_DISK_ALIGN * WI_DISK_ALIGN;
}

/* ---- Shape ---- */

size_t wi_disk_chunks(const struct wi_disk *disk, size_t extent)
{
    return disk->extents[extent].nchunks;
}

size_t wi_disk_piece_bytes(const struct wi_disk *disk, size_t extent, size_t chunk)
{
    const struct wi_disk_geometry *g = &disk->extents[extent];
    uint64_t left = g->stream_bytes - (uint64_t)chunk * g->piece;

    return left < g->piece ? (size_t)left : g->piece;
}

size_t wi_disk_piece_stride(const struct wi_disk *disk, size_t extent, size_t chunk)
{
    return padded(wi_disk_piece_bytes(disk, extent, chunk));
}

uint64_t wi_disk_chunk_offset(const struct wi_disk *disk, size_t extent, size_t chunk)
{
    return disk->extents[extent].offset + (uint64_t)chunk * disk->extents[extent].rooms[0];
}

size_t wi_disk_range_bytes(const struct wi_disk *disk, size_t extent, size_t first, size_t nchunks)
{
    const struct wi_disk_geometry *g = &disk->extents[extent];

    return nchunks ? (nchunks - 1) * g->rooms[0] + g->rooms[first + nchunks == g->nchunks] : 0;
}

/* ---- Failures ---- */

int wi_disk_broken(const struct wi_disk *disk)
{
    return disk->broken != 0;
}

weft_status wi_disk_usable(const struct wi_disk *disk)
{
    if (disk->pid != getpid())
        return wi_fail(WEFT_EINVAL, "disk tier %s: belongs to process %d, which forked this one", disk->path,
                       (int)disk->pid);
    if (disk->streaming)
        return wi_fail(WEFT_EBUSY, "disk tier %s: called from inside of a function that computes on a stream",
                       disk->path);
    if (disk->broken)
        return wi_fail_errno(disk->broken, "disk tier %s: %s", disk->path, disk->backend->name);
    return WEFT_SUCCESS;
}

static weft_status op_failed(const struct wi_disk *disk, const struct wi_disk_op *op)
{
    const char *what = what_names[op->what];

    if (op->error == ECANCELED)
        return wi_fail(WEFT_ECANCELED, "disk tier %s: %s of extent %zu at offset %llu was canceled", disk->path, what,
                       op->extent, (unsigned long long)op->error_offset);
    if (op->torn && op->what == WI_DISK_DO_READ)
        return wi_fail(WEFT_ESYS,
                       "disk tier %s: %s of extent %zu at offset %llu: the file ends there, though it had %llu bytes",
                       disk->path, what, op->extent, (unsigned long long)op->error_offset,
                       (unsigned long long)disk->stats.file_bytes);
    if (op->torn)
        return wi_fail(WEFT_ESYS,
                       "disk tier %s: %s of extent %zu at offset %llu: the system accepts no bytes, %d times",
                       disk->path, what, op->extent, (unsigned long long)op->error_offset, TRIES_MAX);
    return wi_fail_errno(op->error, "disk tier %s: %s of extent %zu at offset %llu%s", disk->path, what, op->extent,
                         (unsigned long long)op->error_offset,
                         op->error == EFBIG ? " (ulimit -f, or a limit of the file system)" : "");
}

/* ---- Requests ---- */

int wi_disk_ended(const struct wi_disk_op *op)
{
    return op->inflight == 0 && (op->error || op->issued == op->bytes);
}

static void io_failed(struct wi_disk *disk, struct wi_disk_io *io, int error, int torn)
{
    struct wi_disk_op *op = io->op;

    if (!op->error) {
        op->error = error;
        op->error_offset = io->offset;
        op->torn = torn;
    }
    op->inflight--;
    disk->inflight--;
    io->op = NULL;
}

static void io_submit(struct wi_disk *disk, struct wi_disk_io *io)
{
    if (io->fixed >= 0)
        disk->stats.requests_fixed++;
    else
        disk->stats.requests_plain++;
    disk->backend->submit(disk, (unsigned)(io - disk->ios));
}

/* Interrupted, no resources for now, or canceled because the thread that submitted it has ended. */
static int passing(const struct wi_disk *disk, int64_t result)
{
    return result == -EINTR || result == -EAGAIN || result == -EBUSY || (result == -ECANCELED && !disk->canceling);
}

static void io_again(struct wi_disk *disk, struct wi_disk_io *io, int error, int torn)
{
    if (io->tries++ >= TRIES_MAX || disk->canceling) {
        io_failed(disk, io, error, torn);
        return;
    }
    disk->stats.requests_again++;
    if (io->tries > 8)
        wi_stand_by(io->tries);
    io_submit(disk, io);
}

static void io_ended(struct wi_disk *disk, const struct wi_disk_result *result)
{
    struct wi_disk_io *io = &disk->ios[result->io];
    size_t moved;

    if (result->result < 0) {
        if (passing(disk, result->result))
            io_again(disk, io, (int)-result->result, 0);
        else
            io_failed(disk, io, (int)-result->result, 0);
        return;
    }
    if ((uint64_t)result->result == io->bytes) {
        if (io->what == WI_DISK_DO_READ)
            disk->stats.bytes_read += io->bytes;
        else
            disk->stats.bytes_written += io->bytes;
        io->op->inflight--;
        disk->inflight--;
        io->op = NULL;
        return;
    }
    if ((uint64_t)result->result > io->bytes) {
        io_failed(disk, io, EIO, 0);
        return;
    }
    if (result->result == 0 && io->what == WI_DISK_DO_READ) {
        io_failed(disk, io, EIO, 1);
        return;
    }
    /* With O_DIRECT the rest must begin where it may: what lies before is moved twice. */
    moved = (size_t)result->result;
    if (disk->direct)
        moved -= moved % WI_DISK_ALIGN;
    io->data += moved;
    io->offset += moved;
    io->bytes -= moved;
    if (io->what == WI_DISK_DO_READ)
        disk->stats.bytes_read += moved;
    else
        disk->stats.bytes_written += moved;
    if (moved)
        io->tries = 0;
    io_again(disk, io, EIO, 1);
}

/* The oldest operation of this kind that has requests to be submitted. */
static struct wi_disk_op *op_next(struct wi_disk *disk, int writes)
{
    struct wi_disk_op *next = NULL;

    for (int i = 0; i < WI_DISK_OPS_MAX; i++) {
        struct wi_disk_op *op = &disk->ops[i];
        if (op->used && !op->held && !op->error && op->issued < op->bytes && (op->what != WI_DISK_DO_READ) == writes &&
            (!next || op->number < next->number))
            next = op;
    }
    return next;
}

static void op_issue(struct wi_disk *disk, struct wi_disk_op *op, struct wi_disk_io *io)
{
    uint64_t left = op->bytes - op->issued;
    size_t bytes = left < disk->block_bytes ? (size_t)left : disk->block_bytes;

    *io = (struct wi_disk_io){op, op->what, op->fixed, op->buffer + op->issued, bytes, op->offset + op->issued, 0};
    op->issued += bytes;
    op->inflight++;
    disk->inflight++;
    io_submit(disk, io);
}

/* Reads and writes take turns: neither waits for all of the other. */
static void fill(struct wi_disk *disk)
{
    for (unsigned i = 0; i < disk->depth && disk->inflight < disk->depth; i++) {
        struct wi_disk_op *op;
        if (disk->ios[i].op)
            continue;
        disk->turn = !disk->turn;
        op = op_next(disk, disk->turn);
        if (!op)
            op = op_next(disk, !disk->turn);
        if (!op)
            return;
        op_issue(disk, op, &disk->ios[i]);
    }
}

void wi_disk_turn(struct wi_disk *disk, uint64_t deadline_ns)
{
    uint64_t now = deadline_ns ? wi_now_ns() : 0;
    int n;

    if (now >= deadline_ns)
        deadline_ns = 0;
    else if (deadline_ns - now > WAIT_NS)
        deadline_ns = now + WAIT_NS;

    if (!disk->canceling)
        fill(disk);
    if (disk->inflight == 0)
        return;
    n = disk->backend->reap(disk, disk->results, disk->depth, deadline_ns);
    if (n < 0)
        disk->broken = -n;
    for (int i = 0; i < n; i++)
        io_ended(disk, &disk->results[i]);
    if (n > 0 && !disk->canceling) {
        fill(disk);
        /* The caller may compute for long before it comes again. */
        if (disk->backend->flush)
            disk->backend->flush(disk);
    }
}

void wi_disk_progress(struct wi_disk *disk)
{
    if (disk->pid == getpid() && !disk->broken)
        wi_disk_turn(disk, 0);
}

/* Until it has ended: 1; 0: the deadline has passed, or the back end is broken. */
static int op_await(struct wi_disk *disk, const struct wi_disk_op *op, uint64_t deadline_ns)
{
    for (;;) {
        uint64_t now = wi_now_ns();
        if (wi_disk_ended(op))
            return 1;
        wi_disk_turn(disk, deadline_ns);
        if (wi_disk_ended(op))
            return 1;
        if (now >= deadline_ns || disk->broken)
            return 0;
    }
}

int wi_disk_drain(struct wi_disk *disk, uint64_t deadline_ns)
{
    disk->canceling = 1;
    if (disk->inflight && disk->backend->cancel && !disk->broken)
        disk->backend->cancel(disk);
    while (disk->inflight && !disk->broken) {
        uint64_t now = wi_now_ns();
        wi_disk_turn(disk, deadline_ns);
        if (now >= deadline_ns)
            break;
    }
    return disk->inflight == 0;
}

/* ---- Pieces ---- */

size_t wi_disk_part(const struct wi_disk *disk, size_t extent, size_t chunk, unsigned stream)
{
    const struct wi_disk_geometry *g = &disk->extents[extent];

    return g->first_part + chunk * g->nstreams + stream;
}

/* Bytes of a piece, or of its image. */
static size_t length_of(const struct wi_disk *disk, size_t extent, size_t chunk, unsigned stream)
{
    return disk->extents[extent].codecs[stream] ? disk->lengths[wi_disk_part(disk, extent, chunk, stream)]
                                                : wi_disk_piece_bytes(disk, extent, chunk);
}

/* Meanwhile requests go on: the device would idle else while long pieces are summed. */
static uint32_t crc_of(struct wi_disk *disk, const char *data, size_t bytes)
{
    uint32_t crc = 0;

    for (size_t done = 0; done < bytes; done += CRC_STEP) {
        crc = wi_crc32c(crc, data + done, bytes - done < CRC_STEP ? bytes - done : CRC_STEP);
        wi_disk_turn(disk, 0);
    }
    return crc;
}

static weft_status piece_check(struct wi_disk *disk, const struct wi_disk_op *op, size_t chunk, unsigned stream,
                               const char *data)
{
    size_t part = wi_disk_part(disk, op->extent, chunk, stream), bytes = length_of(disk, op->extent, chunk, stream);
    uint32_t crc = crc_of(disk, data, bytes);

    if (crc == disk->crcs[part])
        return WEFT_SUCCESS;
    return wi_fail(
        WEFT_ESYS,
        "disk tier %s: extent %zu, stream %u, %zu bytes at offset %llu: CRC32C is %08x and should be %08x: the file or "
        "the device is damaged",
        disk->path, op->extent, stream, bytes,
        (unsigned long long)(wi_disk_chunk_offset(disk, op->extent, chunk) +
                             wi_disk_stream_offset(disk, op->extent, chunk, 0, stream)),
        crc, disk->crcs[part]);
}

static void piece_seal(struct wi_disk *disk, const struct wi_disk_op *op, size_t chunk, unsigned stream, char *data)
{
    size_t bytes = length_of(disk, op->extent, chunk, stream);

    memset(data + bytes, 0, padded(bytes) - bytes);
    disk->crcs[wi_disk_part(disk, op->extent, chunk, stream)] = crc_of(disk, data, bytes);
}

void wi_disk_pieces_lost(struct wi_disk *disk, size_t extent, size_t chunk, unsigned stream, unsigned nstreams)
{
    memset(&disk->states[wi_disk_part(disk, extent, chunk, stream)], WI_DISK_LOST, nstreams);
}

enum wi_disk_state wi_disk_piece_state(const struct wi_disk *disk, size_t extent, size_t chunk, unsigned stream)
{
    return disk->states[wi_disk_part(disk, extent, chunk, stream)];
}

static void pieces_mark(struct wi_disk *disk, const struct wi_disk_op *op, enum wi_disk_state state)
{
    for (size_t c = op->first; c < op->first + op->nchunks; c++)
        for (unsigned s = op->stream; s < op->stream + op->nstreams; s++)
            disk->states[wi_disk_part(disk, op->extent, c, s)] = (unsigned char)state;
}

/* CRCs of all pieces: computed before a write, compared after a read. */
static weft_status pieces_crc(struct wi_disk *disk, const struct wi_disk_op *op)
{
    uint64_t start = wi_now_ns();
    weft_status status = WEFT_SUCCESS;
    char *data = op->buffer;

    for (size_t c = op->first; c < op->first + op->nchunks && status == WEFT_SUCCESS; c++) {
        for (unsigned s = op->stream; s < op->stream + op->nstreams && status == WEFT_SUCCESS; s++) {
            if (op->what == WI_DISK_DO_WRITE)
                piece_seal(disk, op, c, s, data);
            else
                status = piece_check(disk, op, c, s, data);
            data += padded(length_of(disk, op->extent, c, s));
        }
    }
    disk->stats.crc_ns += wi_now_ns() - start;
    return status;
}

static weft_status pieces_usable(const struct wi_disk *disk, enum wi_disk_what what, size_t extent, size_t first,
                                 size_t nchunks, unsigned stream, unsigned nstreams)
{
    for (size_t c = first; c < first + nchunks; c++)
        for (unsigned s = stream; s < stream + nstreams; s++) {
            int state = disk->states[wi_disk_part(disk, extent, c, s)];
            if (state == WI_DISK_WRITING)
                return wi_fail(WEFT_EBUSY, "disk tier %s: chunk %zu of extent %zu is being written", disk->path, c,
                               extent);
            if (what == WI_DISK_DO_WRITE)
                continue;
            if (state == WI_DISK_NEVER)
                return wi_fail(WEFT_EINVAL, "disk tier %s: chunk %zu of extent %zu is read, but was never written",
                               disk->path, c, extent);
            if (state == WI_DISK_LOST)
                return wi_fail(WEFT_EINVAL, "disk tier %s: chunk %zu of extent %zu is read, but its last write failed",
                               disk->path, c, extent);
        }
    return WEFT_SUCCESS;
}

/* ---- Operations ---- */

static int fixed_of(const struct wi_disk *disk, const char *buffer, uint64_t bytes)
{
    for (const struct wi_disk_region *r = disk->regions; r; r = r->next)
        if (buffer >= r->data && buffer < r->data + r->bytes && bytes <= (uint64_t)(r->data + r->bytes - buffer))
            return r->fixed;
    return -1;
}

static weft_status op_take(struct wi_disk *disk, enum wi_disk_what what, uint64_t offset, uint64_t bytes, void *buffer,
                           struct wi_disk_op **op)
{
    struct wi_disk_op *free_op = NULL;

    for (int i = 0; i < WI_DISK_OPS_MAX && !free_op; i++)
        if (!disk->ops[i].used || (disk->ops[i].orphan && wi_disk_ended(&disk->ops[i])))
            free_op = &disk->ops[i];
    if (!free_op)
        return wi_fail(WEFT_EBUSY, "disk tier %s: %d operations are under way", disk->path, WI_DISK_OPS_MAX);
    *free_op = (struct wi_disk_op){.used = 1, .what = what, .offset = offset, .bytes = bytes, .buffer = buffer};
    free_op->fixed = fixed_of(disk, buffer, bytes);
    free_op->number = disk->numbers++;
    *op = free_op;
    return WEFT_SUCCESS;
}

static weft_status range_check(const struct wi_disk *disk, size_t extent, size_t first, size_t nchunks,
                               unsigned nstreams, const void *buffer)
{
    if (extent >= disk->nextents)
        return wi_fail(WEFT_EINVAL, "disk tier %s: extent %zu of %zu", disk->path, extent, disk->nextents);
    if (nchunks == 0 || nchunks > disk->extents[extent].nchunks || first > disk->extents[extent].nchunks - nchunks)
        return wi_fail(WEFT_EINVAL, "disk tier %s: %zu chunks from %zu of extent %zu, which has %zu", disk->path,
                       nchunks, first, extent, disk->extents[extent].nchunks);
    if (disk->extents[extent].coded && nstreams != 1)
        return wi_fail(WEFT_EINVAL,
                       "disk tier %s: streams of extent %zu have codecs: it is streamed, not read or written at once",
                       disk->path, extent);
    if (!buffer || (uintptr_t)buffer % WI_DISK_ALIGN)
        return wi_fail(WEFT_EINVAL, "disk tier %s: the buffer is not aligned to %d bytes", disk->path, WI_DISK_ALIGN);
    return WEFT_SUCCESS;
}

weft_status wi_disk_parts_begin(struct wi_disk *disk, enum wi_disk_what what, size_t extent, size_t first,
                                size_t nchunks, unsigned stream, unsigned nstreams, void *buffer,
                                struct wi_disk_op **op)
{
    struct wi_disk_op *mine = NULL;
    uint64_t offset, bytes, raw;

    WI_TRY(wi_disk_usable(disk));
    WI_TRY(range_check(disk, extent, first, nchunks, nstreams, buffer));
    WI_TRY(pieces_usable(disk, what, extent, first, nchunks, stream, nstreams));
    offset = wi_disk_chunk_offset(disk, extent, first) + wi_disk_stream_offset(disk, extent, first, 0, stream);
    raw = nchunks > 1 ? wi_disk_range_bytes(disk, extent, first, nchunks)
                      : nstreams * (uint64_t)wi_disk_piece_stride(disk, extent, first);
    bytes = nstreams == 1 && nchunks == 1 ? padded(length_of(disk, extent, first, stream)) : raw;
    if (what == WI_DISK_DO_WRITE)
        WI_TRY(wi_disk_file_limit(disk, offset + bytes));
    WI_TRY(op_take(disk, what, offset, bytes, buffer, &mine));
    disk->stats.bytes_raw += raw;
    mine->extent = extent;
    mine->first = first;
    mine->nchunks = nchunks;
    mine->stream = stream;
    mine->nstreams = nstreams;
    if (what == WI_DISK_DO_WRITE) {
        mine->held = 1;
        pieces_crc(disk, mine);
        mine->held = 0;
        pieces_mark(disk, mine, WI_DISK_WRITING);
    }
    wi_disk_turn(disk, 0);
    *op = mine;
    return WEFT_SUCCESS;
}

weft_status wi_disk_read(struct wi_disk *disk, size_t extent, size_t first, size_t nchunks, void *buffer,
                         struct wi_disk_op **op)
{
    return wi_disk_parts_begin(disk, WI_DISK_DO_READ, extent, first, nchunks, 0,
                               extent < disk->nextents ? disk->extents[extent].nstreams : 0, buffer, op);
}

weft_status wi_disk_write(struct wi_disk *disk, size_t extent, size_t first, size_t nchunks, void *buffer,
                          struct wi_disk_op **op)
{
    return wi_disk_parts_begin(disk, WI_DISK_DO_WRITE, extent, first, nchunks, 0,
                               extent < disk->nextents ? disk->extents[extent].nstreams : 0, buffer, op);
}

weft_status wi_disk_wait(struct wi_disk *disk, struct wi_disk_op *op, uint64_t deadline_ns)
{
    weft_status status = WEFT_SUCCESS;

    if (disk->pid != getpid())
        return wi_disk_usable(disk);
    if (!op_await(disk, op, deadline_ns)) {
        if (disk->broken)
            return wi_fail_errno(disk->broken, "disk tier %s: %s of extent %zu: %s", disk->path, what_names[op->what],
                                 op->extent, disk->backend->name);
        return wi_fail(
            WEFT_ETIMEDOUT,
            "disk tier %s: %s of %llu bytes of extent %zu at offset %llu has not ended, %u requests are under way",
            disk->path, what_names[op->what], (unsigned long long)op->bytes, op->extent, (unsigned long long)op->offset,
            op->inflight);
    }
    if (op->error)
        status = op_failed(disk, op);
    if (op->what == WI_DISK_DO_WRITE)
        pieces_mark(disk, op, status == WEFT_SUCCESS ? WI_DISK_VALID : WI_DISK_LOST);
    if (op->what == WI_DISK_DO_READ && status == WEFT_SUCCESS)
        status = pieces_crc(disk, op);
    op->used = 0;
    return status;
}

weft_status wi_disk_wait_all(struct wi_disk *disk, struct wi_disk_op *op)
{
    weft_status status = wi_disk_wait(disk, op, wi_deadline_ns(disk->timeout_ns));

    if (status == WEFT_ETIMEDOUT)
        op->orphan = 1;
    return status;
}
