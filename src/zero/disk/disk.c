/* SPDX-License-Identifier: BSD-3-Clause */
/* The disk tier: made from a configuration, its buffers, its end. */
#include "zero/disk/disk.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fds.h"
#include "base/status.h"
#include "zero/disk/disk_internal.h"

#define DEPTH_MAX 1024
#define SLOTS_MAX 64
#define HUGE_BYTES ((size_t)2 << 20)

static uint64_t padded(uint64_t bytes)
{
    return (bytes + WI_DISK_ALIGN - 1) / WI_DISK_ALIGN * WI_DISK_ALIGN;
}

/* ---- Configuration ---- */

static weft_status config_take(struct wi_disk *disk, const struct wi_disk_config *config)
{
    if (!config->folder || !*config->folder || !config->name || !*config->name || strchr(config->name, '/'))
        return wi_fail(WEFT_EINVAL, "disk tier: no folder, or a name of a file that is none");
    if (config->kind != WI_DISK_AUTO && config->kind != WI_DISK_URING && config->kind != WI_DISK_THREADS)
        return wi_fail(WEFT_EINVAL, "disk tier: kind %d is unknown", (int)config->kind);
    if (config->block_bytes % WI_DISK_ALIGN || config->block_bytes > 1 << 30)
        return wi_fail(WEFT_EINVAL, "disk tier: block_bytes %zu is no multiple of %d up to 1 GiB", config->block_bytes,
                       WI_DISK_ALIGN);
    if (config->depth > DEPTH_MAX)
        return wi_fail(WEFT_EINVAL, "disk tier: depth %u is above %d", config->depth, DEPTH_MAX);
    if (config->threads > DEPTH_MAX)
        return wi_fail(WEFT_EINVAL, "disk tier: threads %u is above %d", config->threads, DEPTH_MAX);
    if (config->slots && (config->slots < 3 || config->slots > SLOTS_MAX))
        return wi_fail(WEFT_EINVAL, "disk tier: slots %u is not from 3 to %d", config->slots, SLOTS_MAX);
    if (config->chunk_bytes % WI_DISK_ALIGN || config->chunk_bytes > (size_t)1 << 40)
        return wi_fail(WEFT_EINVAL, "disk tier: chunk_bytes %zu is no multiple of %d up to 1 TiB", config->chunk_bytes,
                       WI_DISK_ALIGN);
    disk->block_bytes = config->block_bytes ? config->block_bytes : 1 << 20;
    disk->depth = config->depth ? config->depth : 8;
    disk->threads = config->threads ? config->threads : disk->depth < 8 ? disk->depth : 8;
    disk->chunk_bytes = config->chunk_bytes ? config->chunk_bytes : disk->depth * disk->block_bytes;
    disk->nslots = config->slots ? config->slots : 3;
    disk->slot_bytes = disk->chunk_bytes;
    disk->share = config->share;
    disk->share_arg = config->share_arg;
    disk->timeout_ns = config->timeout_ns ? config->timeout_ns : 60000000000ull;
    return WEFT_SUCCESS;
}

/* Slots have the largest chunk of them all. */
static void take_room(struct wi_disk *disk, const struct wi_disk_geometry *g)
{
    for (int i = 0; i < 2; i++)
        disk->slot_bytes = g->rooms[i] > disk->slot_bytes ? g->rooms[i] : disk->slot_bytes;
    disk->coded |= g->coded;
}

/* Where extents are in the file. All of it stays below 2^62. */
static weft_status extents_take(struct wi_disk *disk, const struct wi_disk_extent *extents, size_t nextents)
{
    uint64_t offset = 0;

    for (size_t e = 0; e < nextents; e++) {
        struct wi_disk_geometry *g = &disk->extents[e];
        if (extents[e].nstreams < 1 || extents[e].nstreams > WI_DISK_STREAMS_MAX)
            return wi_fail(WEFT_EINVAL, "disk tier: extent %zu has %u streams, not 1 to %d", e, extents[e].nstreams,
                           WI_DISK_STREAMS_MAX);
        if (extents[e].stream_bytes > (uint64_t)1 << 58)
            return wi_fail(WEFT_EINVAL, "disk tier: extent %zu has streams of %llu bytes", e,
                           (unsigned long long)extents[e].stream_bytes);
        g->offset = offset;
        g->stream_bytes = extents[e].stream_bytes;
        g->nstreams = extents[e].nstreams;
        g->piece = disk->chunk_bytes / g->nstreams / WI_DISK_ALIGN * WI_DISK_ALIGN;
        memcpy(g->codecs, extents[e].codecs, sizeof g->codecs);
        if (g->piece == 0)
            return wi_fail(WEFT_EINVAL, "disk tier: chunk_bytes %zu is too small for the %u streams of extent %zu",
                           disk->chunk_bytes, g->nstreams, e);
        g->nchunks = (size_t)((g->stream_bytes + g->piece - 1) / g->piece);
        g->first_part = disk->nparts;
        disk->nparts += g->nchunks * g->nstreams;
        WI_TRY(wi_disk_rooms(g, e));
        offset += g->nchunks ? (g->nchunks - 1) * g->rooms[0] + g->rooms[1] : 0;
        take_room(disk, g);
        if (g->coded && disk->nslots * g->nstreams > WI_DISK_OPS_MAX)
            return wi_fail(WEFT_EINVAL,
                           "disk tier: slots %u of %u streams that have codecs are more than %d operations",
                           disk->nslots, g->nstreams, WI_DISK_OPS_MAX);
        if (offset > (uint64_t)1 << 62)
            return wi_fail(WEFT_EINVAL, "disk tier: the extents up to %zu have more than 2^62 bytes", e);
    }
    disk->stats.file_bytes = offset;
    return WEFT_SUCCESS;
}

static weft_status tables_make(struct wi_disk *disk)
{
    disk->crcs = wi_calloc(disk->nparts, sizeof(*disk->crcs));
    disk->states = wi_calloc(disk->nparts, 1);
    disk->marks = wi_calloc(disk->nextents, 1);
    disk->lengths = disk->coded ? wi_calloc(disk->nparts, sizeof(*disk->lengths)) : NULL;
    disk->ios = wi_calloc(disk->depth, sizeof(*disk->ios));
    disk->results = wi_calloc(disk->depth, sizeof(*disk->results));
    disk->slots = wi_calloc(disk->nslots, sizeof(*disk->slots));
    if (!disk->crcs || !disk->states || (disk->coded && !disk->lengths) || !disk->marks || !disk->ios ||
        !disk->results || !disk->slots)
        return wi_fail(WEFT_ENOMEM, "disk tier: no memory for the tables of %zu extents", disk->nextents);
    return WEFT_SUCCESS;
}

/* ---- Buffers ---- */

/* Pages of their own, which forked children do not get: with copy on write, a read under way could go into the page that is no
 * longer this process's. */
static weft_status region_make(struct wi_disk *disk, size_t bytes, int wanted, struct wi_disk_region **region)
{
    struct wi_disk_region *mine = wi_calloc(1, sizeof(*mine));

    if (bytes == 0 || bytes > SIZE_MAX / 2) {
        wi_free(mine);
        return wi_fail(WEFT_EINVAL, "disk tier %s: a buffer of %zu bytes", disk->path, bytes);
    }
    bytes = (size_t)padded(bytes);
    if (mine)
        mine->data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!mine || mine->data == MAP_FAILED) {
        wi_free(mine);
        return wi_fail(WEFT_ENOMEM, "disk tier %s: no memory for a buffer of %zu bytes", disk->path, bytes);
    }
    madvise(mine->data, bytes, MADV_DONTFORK);
    if (bytes >= HUGE_BYTES)
        madvise(mine->data, bytes, MADV_HUGEPAGE);
    mine->bytes = bytes;
    mine->fixed = -1;
    mine->wanted = wanted;
    mine->next = disk->regions;
    disk->regions = mine;
    disk->stats.buffer_bytes += bytes;
    *region = mine;
    return WEFT_SUCCESS;
}

/* Register all regions that are wanted. If the kernel refuses, those of before are registered again, without the newest one. */
static void regions_fix(struct wi_disk *disk, struct wi_disk_region *newest)
{
    int err;

    if (!disk->backend->fix || disk->inflight)
        return;
    err = disk->backend->fix(disk);
    if (!err)
        return;
    disk->stats.fixed_errno = err;
    if (newest && newest->wanted) {
        newest->wanted = 0;
        disk->backend->fix(disk);
    }
}

weft_status wi_disk_buffer_get(struct wi_disk *disk, size_t bytes, void **buffer)
{
    struct wi_disk_region *region;

    WI_TRY(wi_disk_usable(disk));
    WI_TRY(region_make(disk, bytes, 1, &region));
    regions_fix(disk, region);
    *buffer = region->data;
    return WEFT_SUCCESS;
}

void wi_disk_buffer_put(struct wi_disk *disk, void *buffer)
{
    for (struct wi_disk_region **at = &disk->regions; *at; at = &(*at)->next) {
        struct wi_disk_region *region = *at;
        if (region->data != buffer || disk->pid != getpid())
            continue;
        *at = region->next;
        if (region->fixed >= 0)
            regions_fix(disk, NULL);
        disk->stats.buffer_bytes -= region->bytes;
        munmap(region->data, region->bytes);
        wi_free(region);
        return;
    }
}

weft_status wi_disk_bounce(struct wi_disk *disk, void **buffer)
{
    struct wi_disk_region *region;

    if (!disk->bounce) {
        WI_TRY(region_make(disk, disk->slot_bytes, 0, &region));
        disk->bounce = region->data;
    }
    *buffer = disk->bounce;
    return WEFT_SUCCESS;
}

static weft_status slots_make(struct wi_disk *disk)
{
    struct wi_disk_region *region = NULL;

    for (unsigned i = 0; i < disk->nslots; i++) {
        WI_TRY(region_make(disk, disk->slot_bytes, 1, &region));
        disk->slots[i].data = region->data;
    }
    if (disk->coded) {
        WI_TRY(region_make(disk, disk->chunk_bytes, 0, &region));
        disk->work = region->data;
    }
    if (!disk->backend->fix)
        return WEFT_SUCCESS;
    disk->stats.fixed_errno = disk->backend->fix(disk);
    /* Some may be allowed where all are not. */
    for (struct wi_disk_region *r = disk->regions; disk->stats.fixed_errno && r; r = r->next) {
        r->wanted = 0;
        if (disk->backend->fix(disk) == 0)
            break;
    }
    return WEFT_SUCCESS;
}

/* ---- Making, end ---- */

static weft_status backend_start(struct wi_disk *disk, const struct wi_disk_config *config)
{
    weft_status status = WEFT_ENOTSUP;

    disk->backend = config->backend;
    if (!disk->backend && config->kind != WI_DISK_THREADS) {
        disk->backend = &wi_disk_backend_uring;
        status = disk->backend->start(disk);
        if (status == WEFT_SUCCESS || config->kind == WI_DISK_URING)
            goto out;
        disk->backend = NULL;
    }
    if (!disk->backend)
        disk->backend = &wi_disk_backend_threads;
    status = disk->backend->start(disk);
out:
    if (status != WEFT_SUCCESS)
        disk->backend = NULL;
    else
        disk->stats.backend = disk->backend->name;
    return status;
}

/* Nothing is under way. */
static void disk_free(struct wi_disk *disk)
{
    struct wi_disk_region *next;

    if (disk->backend)
        disk->backend->stop(disk);
    for (struct wi_disk_region *r = disk->regions; r; r = next) {
        next = r->next;
        munmap(r->data, r->bytes);
        wi_free(r);
    }
    if (disk->fd >= 0)
        wi_fd_close(disk->fd);
    wi_free(disk->slots);
    wi_free(disk->results);
    wi_free(disk->ios);
    wi_free(disk->marks);
    wi_free(disk->states);
    wi_free(disk->lengths);
    wi_free(disk->crcs);
    wi_free(disk->extents);
    wi_free(disk->path);
    wi_free(disk);
}

weft_status wi_disk_create(const struct wi_disk_config *config, const struct wi_disk_extent *extents, size_t nextents,
                           struct wi_disk **disk)
{
    struct wi_disk *mine;
    weft_status status;

    if (!config || !disk || (nextents && !extents))
        return wi_fail(WEFT_EINVAL, "disk tier: config, extents or disk is NULL");
    mine = wi_calloc(1, sizeof(*mine));
    if (mine)
        mine->extents = wi_calloc(nextents, sizeof(*mine->extents));
    if (!mine || !mine->extents) {
        wi_free(mine);
        return wi_fail(WEFT_ENOMEM, "disk tier: no memory for %zu extents", nextents);
    }
    mine->fd = -1;
    mine->pid = getpid();
    mine->nextents = nextents;
    status = config_take(mine, config);
    if (status == WEFT_SUCCESS)
        status = extents_take(mine, extents, nextents);
    if (status == WEFT_SUCCESS)
        status = tables_make(mine);
    if (status == WEFT_SUCCESS)
        status = wi_disk_file_create(mine, config);
    if (status != WEFT_SUCCESS)
        goto fail;
    status = backend_start(mine, config);
    if (status == WEFT_SUCCESS)
        status = slots_make(mine);
    if (status != WEFT_SUCCESS)
        goto unmake;
    *disk = mine;
    return WEFT_SUCCESS;
unmake:
    if (!wi_disk_drain(mine, wi_deadline_ns(mine->timeout_ns)))
        return status; /* the kernel may still write to it */
fail:
    disk_free(mine);
    return status;
}

/* Tables of parts, longer: what is behind is as of parts that were never written. */
static weft_status tables_grow(struct wi_disk *disk, size_t nparts)
{
    uint32_t *crcs = wi_realloc(disk->crcs, nparts * sizeof(*crcs));
    unsigned char *states;

    if (crcs)
        disk->crcs = crcs;
    states = crcs ? wi_realloc(disk->states, nparts) : NULL;
    if (!states)
        return wi_fail(WEFT_ENOMEM, "disk tier %s: no memory for tables of %zu chunks", disk->path, nparts);
    disk->states = states;
    memset(states + disk->nparts, WI_DISK_NEVER, nparts - disk->nparts);
    return WEFT_SUCCESS;
}

weft_status wi_disk_grow(struct wi_disk *disk, size_t nchunks)
{
    struct wi_disk_geometry *g = disk->nextents ? &disk->extents[disk->nextents - 1] : NULL;
    uint64_t most = (uint64_t)1 << 58;

    WI_TRY(wi_disk_usable(disk));
    if (!g || disk->lengths || g->stream_bytes % g->piece)
        return wi_fail(WEFT_EINVAL,
                       "disk tier %s: an extent has codecs, or the last chunk of the last extent is not whole",
                       disk->path);
    if (nchunks > most / g->rooms[0] || nchunks * g->rooms[0] > most - disk->stats.file_bytes)
        return wi_fail(WEFT_EINVAL, "disk tier %s: %zu chunks more are more than 2^58 bytes", disk->path, nchunks);
    WI_TRY(tables_grow(disk, disk->nparts + nchunks * g->nstreams));
    WI_TRY(wi_disk_file_grow(disk, nchunks * g->rooms[0]));
    disk->nparts += nchunks * g->nstreams;
    g->nchunks += nchunks;
    g->stream_bytes += nchunks * g->piece;
    return WEFT_SUCCESS;
}

weft_status wi_disk_destroy(struct wi_disk *disk)
{
    unsigned left;

    if (!disk)
        return WEFT_SUCCESS;
    /* A child has neither the threads nor the buffers of its parent, and its descriptors are closed already. */
    if (disk->pid != getpid())
        return WEFT_SUCCESS;
    if (disk->streaming)
        return wi_disk_usable(disk);
    left = disk->inflight;
    if (!wi_disk_drain(disk, wi_deadline_ns(disk->timeout_ns)))
        return wi_fail(WEFT_ETIMEDOUT, "disk tier %s: %u of %u requests have not ended: their memory stays allocated",
                       disk->path, disk->inflight, left);
    disk_free(disk);
    return WEFT_SUCCESS;
}

void wi_disk_get_stats(const struct wi_disk *disk, struct wi_disk_stats *stats)
{
    *stats = disk->stats;
    stats->fixed = disk->regions != NULL;
    for (const struct wi_disk_region *r = disk->regions; r; r = r->next)
        if (r->fixed < 0 && r->data != disk->bounce && r->data != disk->work)
            stats->fixed = 0;
}
