/* SPDX-License-Identifier: BSD-3-Clause */
/* The disk tier's blocking calls: any bytes of a stream. */
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "zero/disk/disk_internal.h"

static weft_status span_check(const struct wi_disk *disk, size_t extent, unsigned stream, uint64_t offset, size_t bytes,
                              const void *data)
{
    if (extent >= disk->nextents || stream >= disk->extents[extent].nstreams || (bytes && !data) ||
        bytes > disk->extents[extent].stream_bytes || offset > disk->extents[extent].stream_bytes - bytes)
        return wi_fail(WEFT_EINVAL, "disk tier %s: no %zu bytes at %llu of stream %u of extent %zu", disk->path, bytes,
                       (unsigned long long)offset, stream, extent);
    return WEFT_SUCCESS;
}

/* One piece into memory that is aligned, of a slot that could not be written, or from the file. */
static weft_status piece_fetch(struct wi_disk *disk, size_t extent, size_t chunk, unsigned stream, void *buffer,
                               const char **data)
{
    struct wi_disk_op *op;

    *data = NULL;
    for (unsigned i = 0; !*data && i < disk->nslots; i++) {
        const struct wi_disk_slot *slot = &disk->slots[i];
        if (slot->state == WI_DISK_SLOT_DIRTY && slot->extent == extent && slot->chunk == chunk &&
            stream >= slot->stream && stream < slot->stream + slot->nstreams)
            *data = (char *)slot->data + wi_disk_stream_offset(disk, extent, chunk, slot->stream, stream);
    }
    if (!*data) {
        WI_TRY(wi_disk_parts_begin(disk, WI_DISK_DO_READ, extent, chunk, 1, stream, 1, buffer, &op));
        WI_TRY(wi_disk_wait_all(disk, op));
        *data = buffer;
    }
    if (!disk->extents[extent].codecs[stream])
        return WEFT_SUCCESS;
    WI_TRY(wi_disk_decode(disk, extent, chunk, stream, *data, disk->work));
    *data = disk->work;
    return WEFT_SUCCESS;
}

weft_status wi_disk_get(struct wi_disk *disk, size_t extent, unsigned stream, uint64_t offset, size_t bytes, void *data)
{
    void *buffer;

    WI_TRY(wi_disk_usable(disk));
    WI_TRY(span_check(disk, extent, stream, offset, bytes, data));
    WI_TRY(wi_disk_bounce(disk, &buffer));
    for (size_t done = 0; done < bytes;) {
        size_t piece = disk->extents[extent].piece, chunk = (size_t)((offset + done) / piece),
               skip = (size_t)((offset + done) % piece);
        size_t part = piece - skip < bytes - done ? piece - skip : bytes - done;
        const char *from;
        weft_status status = piece_fetch(disk, extent, chunk, stream, buffer, &from);
        if (status == WEFT_ETIMEDOUT)
            disk->bounce = NULL; /* the kernel may still write to it: the next call takes another */
        if (status != WEFT_SUCCESS)
            return status;
        memcpy((char *)data + done, from + skip, part);
        done += part;
    }
    return WEFT_SUCCESS;
}

static weft_status piece_store(struct wi_disk *disk, struct wi_disk_slot *slot, size_t skip, size_t bytes,
                               const char *data)
{
    size_t piece = wi_disk_piece_bytes(disk, slot->extent, slot->chunk);
    int coded = disk->extents[slot->extent].codecs[slot->stream] != NULL;
    char *values = coded ? disk->work : slot->data;

    if (bytes < piece && wi_disk_piece_state(disk, slot->extent, slot->chunk, slot->stream) == WI_DISK_NEVER) {
        memset(values, 0, piece);
    } else if (bytes < piece) {
        WI_TRY(wi_disk_slot_read(disk, slot));
        slot->state = WI_DISK_SLOT_FREE;
        if (coded)
            WI_TRY(wi_disk_decode(disk, slot->extent, slot->chunk, slot->stream, slot->data, values));
    }
    memcpy(values + skip, data, bytes);
    if (coded)
        WI_TRY(wi_disk_encode(disk, slot->extent, slot->chunk, slot->stream, values, slot->data));
    return wi_disk_slot_write(disk, slot);
}

weft_status wi_disk_put(struct wi_disk *disk, size_t extent, unsigned stream, uint64_t offset, size_t bytes,
                        const void *data)
{
    WI_TRY(wi_disk_usable(disk));
    WI_TRY(span_check(disk, extent, stream, offset, bytes, data));
    WI_TRY(wi_disk_settle(disk)); /* which leaves all slots free */
    for (size_t done = 0; done < bytes;) {
        size_t piece = disk->extents[extent].piece, skip = (size_t)((offset + done) % piece);
        size_t part = piece - skip < bytes - done ? piece - skip : bytes - done;
        struct wi_disk_slot *slot = &disk->slots[0];
        slot->extent = extent;
        slot->chunk = (size_t)((offset + done) / piece);
        slot->stream = stream;
        slot->nstreams = 1;
        WI_TRY(piece_store(disk, slot, skip, part, (const char *)data + done));
        done += part;
    }
    return WEFT_SUCCESS;
}
