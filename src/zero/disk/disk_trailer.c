/* SPDX-License-Identifier: BSD-3-Clause */
/* Behind the last extent of a file that is kept: the extents, and states and CRCs of their pieces, as wi_disk_sync found them.
 * Numbers are in the byte order of the machine, which the magic shows. What is written after a sync does not match it any
 * more: a crash then leaves pieces whose CRC is wrong, which is found when they are read. */
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "base/crc32c.h"
#include "zero/disk/disk_internal.h"

#define TRAILER_MAGIC 0x316b736964746677ull /* "wftdisk1" */
#define TRAILER_VERSION 1

struct trailer_head {
    uint64_t magic;
    uint32_t version, crc; /* crc: of all that follows this field, to the end of the trailer */
    uint64_t nextents, nparts, chunk_bytes;
};

struct trailer_extent {
    uint64_t stream_bytes, nstreams;
};

#define CRC_FROM (offsetof(struct trailer_head, nextents))

size_t wi_disk_trailer_bytes(const struct wi_disk *disk)
{
    size_t bytes = sizeof(struct trailer_head) + disk->nextents * sizeof(struct trailer_extent) +
                   disk->nparts * (sizeof(uint32_t) + 1);

    return (bytes + WI_DISK_ALIGN - 1) / WI_DISK_ALIGN * WI_DISK_ALIGN;
}

static void trailer_fill(const struct wi_disk *disk, char *image)
{
    struct trailer_head *head = (struct trailer_head *)image;
    struct trailer_extent *extents = (struct trailer_extent *)(head + 1);
    char *crcs = (char *)(extents + disk->nextents);

    memset(image, 0, disk->trailer_bytes);
    *head = (struct trailer_head){TRAILER_MAGIC, TRAILER_VERSION, 0, disk->nextents, disk->nparts, disk->chunk_bytes};
    for (size_t e = 0; e < disk->nextents; e++)
        extents[e] = (struct trailer_extent){disk->extents[e].stream_bytes, disk->extents[e].nstreams};
    memcpy(crcs, disk->crcs, disk->nparts * sizeof(uint32_t));
    memcpy(crcs + disk->nparts * sizeof(uint32_t), disk->states, disk->nparts);
    head->crc = wi_crc32c(0, image + CRC_FROM, disk->trailer_bytes - CRC_FROM);
}

static weft_status trailer_check(const struct wi_disk *disk, const char *image)
{
    const struct trailer_head *head = (const struct trailer_head *)image;
    const struct trailer_extent *extents = (const struct trailer_extent *)(head + 1);
    uint32_t crc;

    if (head->magic != TRAILER_MAGIC)
        return wi_fail(WEFT_ECONFIG, "disk tier: %s has no list of extents: it was not synced, or is another file",
                       disk->path);
    if (head->version != TRAILER_VERSION)
        return wi_fail(WEFT_ECONFIG, "disk tier: %s is of version %u; this library reads %d", disk->path, head->version,
                       TRAILER_VERSION);
    crc = wi_crc32c(0, image + CRC_FROM, disk->trailer_bytes - CRC_FROM);
    if (crc != head->crc)
        return wi_fail(WEFT_ECONFIG,
                       "disk tier: the list of extents of %s is damaged: CRC32C is %08x and should be %08x", disk->path,
                       crc, head->crc);
    if (head->nextents != disk->nextents || head->chunk_bytes != disk->chunk_bytes)
        return wi_fail(WEFT_ECONFIG, "disk tier: %s has %llu extents in chunks of %llu bytes, not %zu in chunks of %zu",
                       disk->path, (unsigned long long)head->nextents, (unsigned long long)head->chunk_bytes,
                       disk->nextents, disk->chunk_bytes);
    for (size_t e = 0; e < disk->nextents; e++)
        if (extents[e].stream_bytes != disk->extents[e].stream_bytes ||
            extents[e].nstreams != disk->extents[e].nstreams)
            return wi_fail(WEFT_ECONFIG, "disk tier: extent %zu of %s has %llu streams of %llu bytes, not %u of %llu",
                           e, disk->path, (unsigned long long)extents[e].nstreams,
                           (unsigned long long)extents[e].stream_bytes, disk->extents[e].nstreams,
                           (unsigned long long)disk->extents[e].stream_bytes);
    return WEFT_SUCCESS;
}

static void trailer_take(struct wi_disk *disk, const char *image)
{
    const char *crcs = image + sizeof(struct trailer_head) + disk->nextents * sizeof(struct trailer_extent);

    memcpy(disk->crcs, crcs, disk->nparts * sizeof(uint32_t));
    for (size_t p = 0; p < disk->nparts; p++) {
        unsigned char state = (unsigned char)crcs[disk->nparts * sizeof(uint32_t) + p];
        /* Of what was being written nobody knows more than of what is lost. */
        disk->states[p] = state == WI_DISK_NEVER || state == WI_DISK_VALID ? state : WI_DISK_LOST;
    }
}

weft_status wi_disk_trailer_write(struct wi_disk *disk)
{
    char *image = wi_aligned_alloc(WI_DISK_ALIGN, disk->trailer_bytes);
    weft_status status;

    if (!image)
        return wi_fail(WEFT_ENOMEM, "disk tier %s: no memory for %zu bytes of its list of extents", disk->path,
                       disk->trailer_bytes);
    trailer_fill(disk, image);
    status = wi_disk_raw(disk, WI_DISK_DO_WRITE, disk->trailer_offset, disk->trailer_bytes, image);
    /* After a time-out the kernel may still read it. */
    if (status != WEFT_ETIMEDOUT)
        wi_free(image);
    return status;
}

weft_status wi_disk_trailer_read(struct wi_disk *disk)
{
    char *image = wi_aligned_alloc(WI_DISK_ALIGN, disk->trailer_bytes);
    weft_status status;

    if (!image)
        return wi_fail(WEFT_ENOMEM, "disk tier %s: no memory for %zu bytes of its list of extents", disk->path,
                       disk->trailer_bytes);
    status = wi_disk_raw(disk, WI_DISK_DO_READ, disk->trailer_offset, disk->trailer_bytes, image);
    if (status == WEFT_ETIMEDOUT)
        return status;
    if (status == WEFT_SUCCESS)
        status = trailer_check(disk, image);
    if (status == WEFT_SUCCESS)
        trailer_take(disk, image);
    wi_free(image);
    return status;
}
