/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams of fp32 numbers whose pieces are images of a codec in the file. Images may differ in length: each has room for the
 * longest there can be. */
#include <stdio.h>
#include <weft/weft_compress.h>

#include "base/clock.h"
#include "base/status.h"
#include "zero/disk/disk_internal.h"

enum { WIDTH = 4 };

static weft_status room_of(const char *codec, size_t bytes, size_t *room)
{
    size_t image = bytes;

    if (codec && bytes) {
        weft_status status = weft_codec_bytes(codec, bytes / WIDTH, &image);

        if (status != WEFT_SUCCESS)
            return wi_fail(status, "disk tier: codec %s: %s", codec, weft_thread_error());
    }
    *room = (image + WI_DISK_ALIGN - 1) / WI_DISK_ALIGN * WI_DISK_ALIGN;
    return WEFT_SUCCESS;
}

weft_status wi_disk_rooms(struct wi_disk_geometry *g, size_t extent)
{
    uint64_t last = g->nchunks ? g->stream_bytes - (g->nchunks - 1) * (uint64_t)g->piece : 0;

    for (unsigned s = 0; s < g->nstreams; s++) {
        g->coded |= g->codecs[s] != NULL;
        if (g->codecs[s] && g->stream_bytes % WIDTH)
            return wi_fail(WEFT_EINVAL,
                           "disk tier: stream %u of extent %zu has a codec and %llu bytes, no fp32 numbers", s, extent,
                           (unsigned long long)g->stream_bytes);
        WI_TRY(room_of(g->codecs[s], g->piece, &g->room[0][s]));
        WI_TRY(room_of(g->codecs[s], (size_t)last, &g->room[1][s]));
        g->rooms[0] += g->room[0][s];
        g->rooms[1] += g->room[1][s];
    }
    return WEFT_SUCCESS;
}

size_t wi_disk_stream_offset(const struct wi_disk *disk, size_t extent, size_t chunk, unsigned first, unsigned stream)
{
    const struct wi_disk_geometry *g = &disk->extents[extent];
    size_t offset = 0;

    for (unsigned s = first; s < stream; s++)
        offset += g->room[chunk + 1 == g->nchunks][s];
    return offset;
}

static weft_status failed(const struct wi_disk *disk, size_t extent, unsigned stream, weft_status status)
{
    return wi_fail(status, "disk tier %s: extent %zu, stream %u: codec %s: %s", disk->path, extent, stream,
                   disk->extents[extent].codecs[stream], weft_thread_error());
}

static weft_status decode(const struct wi_disk *disk, size_t extent, size_t chunk, unsigned stream, const void *image,
                          void *values)
{
    weft_status status = weft_codec_decode(disk->extents[extent].codecs[stream], image,
                                           disk->lengths[wi_disk_part(disk, extent, chunk, stream)], WEFT_FLOAT32,
                                           values, wi_disk_piece_bytes(disk, extent, chunk) / WIDTH);

    return status == WEFT_SUCCESS ? status : failed(disk, extent, stream, status);
}

static weft_status encode(const struct wi_disk *disk, size_t extent, size_t chunk, unsigned stream, const void *values,
                          void *image)
{
    const struct wi_disk_geometry *g = &disk->extents[extent];
    size_t count = wi_disk_piece_bytes(disk, extent, chunk) / WIDTH, bytes = 0;
    weft_status status = weft_codec_encode(g->codecs[stream], WEFT_FLOAT32, values, NULL, count, image,
                                           g->room[chunk + 1 == g->nchunks][stream]);

    if (status == WEFT_SUCCESS)
        status = weft_codec_image_bytes(g->codecs[stream], image, count, &bytes);
    if (status != WEFT_SUCCESS)
        return failed(disk, extent, stream, status);
    disk->lengths[wi_disk_part(disk, extent, chunk, stream)] = bytes;
    return WEFT_SUCCESS;
}

weft_status wi_disk_decode(struct wi_disk *disk, size_t extent, size_t chunk, unsigned stream, const void *image,
                           void *values)
{
    uint64_t start = wi_now_ns();
    weft_status status = decode(disk, extent, chunk, stream, image, values);

    disk->stats.code_ns += wi_now_ns() - start;
    return status;
}

weft_status wi_disk_encode(struct wi_disk *disk, size_t extent, size_t chunk, unsigned stream, const void *values,
                           void *image)
{
    uint64_t start = wi_now_ns();
    weft_status status = encode(disk, extent, chunk, stream, values, image);

    disk->stats.code_ns += wi_now_ns() - start;
    return status;
}

/* ---- All streams of a piece, perhaps by several threads ---- */

struct coding {
    const struct wi_disk *disk;
    const struct wi_disk_piece *piece;
    char *images;
    int encode;
    unsigned n, streams[WI_DISK_STREAMS_MAX]; /* those that have codecs */
    weft_status status[WI_DISK_STREAMS_MAX];
    char text[WI_DISK_STREAMS_MAX][512]; /* of failures, which are those of other threads */
};

static void code_one(void *arg, size_t unit)
{
    struct coding *c = arg;
    unsigned s = c->streams[unit];
    size_t extent = c->piece->extent, chunk = c->piece->chunk;
    char *image = c->images + wi_disk_stream_offset(c->disk, extent, chunk, 0, s);

    c->status[unit] = c->encode ? encode(c->disk, extent, chunk, s, c->piece->streams[s], image)
                                : decode(c->disk, extent, chunk, s, image, c->piece->streams[s]);
    if (c->status[unit] != WEFT_SUCCESS)
        snprintf(c->text[unit], sizeof c->text[unit], "%s", wi_fail_text());
}

weft_status wi_disk_code_piece(struct wi_disk *disk, const struct wi_disk_piece *piece, void *images, int encode)
{
    struct coding c = {.disk = disk, .piece = piece, .images = images, .encode = encode};
    uint64_t start = wi_now_ns();

    for (unsigned s = 0; s < piece->nstreams; s++)
        if (disk->extents[piece->extent].codecs[s])
            c.streams[c.n++] = s;
    if (!c.n)
        return WEFT_SUCCESS;
    if (disk->share && c.n > 1)
        disk->share(disk->share_arg, code_one, &c, c.n);
    else
        for (size_t i = 0; i < c.n; i++)
            code_one(&c, i);
    disk->stats.code_ns += wi_now_ns() - start;
    for (unsigned i = 0; i < c.n; i++) {
        if (c.status[i] == WEFT_SUCCESS)
            continue;
        /* Lengths of some images are those of new values already. */
        if (encode)
            wi_disk_pieces_lost(disk, piece->extent, piece->chunk, 0, piece->nstreams);
        return wi_fail(c.status[i], "%s", c.text[i]);
    }
    return WEFT_SUCCESS;
}
