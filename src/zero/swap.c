/* SPDX-License-Identifier: BSD-3-Clause */
#include "zero/swap.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/status.h"
#include "zero/offload.h"

/* Before more are taken the oldest write is waited for. Two are read ahead of an update, two belong to it, and two are written. */
enum { BUFFERS = 6 };
#define DEADLINE_NS (60ull * 1000000000)

/* Each flat has at most one buffer for its parameters and one for its gradients; `op` is what is under way in it. */
struct wi_zero_swap {
    struct wi_disk *disk;
    size_t buffer_bytes;
    void *idle[BUFFERS]; /* buffers that nobody has */
    size_t nidle, taken; /* taken: that somebody has */
    uint64_t clock;
};

/* ---- Buffers ---- */

static weft_status take(struct wi_zero_swap *swap, void **buffer)
{
    weft_status st = WEFT_SUCCESS;

    if (swap->nidle)
        *buffer = swap->idle[--swap->nidle];
    else
        st = wi_disk_buffer_get(swap->disk, swap->buffer_bytes, buffer);
    swap->taken += st >= 0;
    return st;
}

static void put_back(struct wi_zero_swap *swap, void **buffer)
{
    if (!*buffer)
        return;
    swap->taken--;
    if (swap->nidle < BUFFERS)
        swap->idle[swap->nidle++] = *buffer;
    else
        wi_disk_buffer_put(swap->disk, *buffer);
    *buffer = NULL;
}

static size_t all_chunks(const struct wi_zero_swap *swap, int extent)
{
    return wi_disk_chunks(swap->disk, (size_t)extent);
}

static weft_status begin(struct wi_zero_swap *swap, struct wi_zero_swapped *part, int write)
{
    size_t n = all_chunks(swap, part->extent);
    weft_status st = WEFT_SUCCESS;

    part->writing = write;
    part->begun = ++swap->clock;
    if (n && write)
        st = wi_disk_write(swap->disk, (size_t)part->extent, 0, n, part->buffer, &part->op);
    else if (n)
        st = wi_disk_read(swap->disk, (size_t)part->extent, 0, n, part->buffer, &part->op);
    part->failed = write && st < 0;
    return st;
}

/* What is under way ends. A buffer that was written is given back, unless that failed: then it has the only copy, and is written
 * again when it is next needed. */
static weft_status settle(struct wi_zero_swap *swap, struct wi_zero_swapped *part)
{
    weft_status st = WEFT_SUCCESS;

    if (part->failed) {
        part->failed = 0;
        st = begin(swap, part, 1);
    }
    if (st >= 0 && part->op) {
        st = wi_disk_wait(swap->disk, part->op, wi_deadline_ns(DEADLINE_NS));
        if (st == WEFT_ETIMEDOUT)
            return st;
        part->op = NULL;
    }
    if (st >= 0 && part->writing)
        put_back(swap, &part->buffer);
    if (st < 0 && !part->writing)
        put_back(swap, &part->buffer);
    part->failed = st < 0 && part->writing;
    part->writing = part->failed;
    return st;
}

static struct wi_zero_swapped *older(struct wi_zero_swapped *a, struct wi_zero_swapped *b)
{
    return b->writing && (!a || b->begun < a->begun) ? b : a;
}

/* Writes go on beside whatever follows, but not in any number. */
static weft_status make_room(weft_zero *zero)
{
    struct wi_zero_swapped *oldest;

    do {
        if (zero->swap->taken < BUFFERS)
            return WEFT_SUCCESS;
        oldest = NULL;
        for (int i = 0; i < zero->nflats; i++)
            oldest = older(older(oldest, &zero->flats[i].param), &zero->flats[i].gradient);
        if (oldest)
            WI_TRY(settle(zero->swap, oldest));
    } while (oldest);
    return WEFT_SUCCESS;
}

/* What is in the file, or in a buffer that could not be written. */
static weft_status fetch(weft_zero *zero, struct wi_zero_swapped *part)
{
    struct wi_zero_swap *swap = zero->swap;

    if (part->writing)
        WI_TRY(settle(swap, part));
    if (part->buffer)
        return WEFT_SUCCESS;
    WI_TRY(make_room(zero));
    WI_TRY(take(swap, &part->buffer));
    weft_status st = begin(swap, part, 0);

    if (st < 0)
        put_back(swap, &part->buffer);
    return st;
}

/* ---- Making ---- */

static weft_status make_file(weft_zero *zero, struct wi_zero_swap *swap, const struct wi_disk_extent *extents, size_t n)
{
    char name[64];
    struct wi_disk_config disk = wi_zero_offload_config(zero, name);

    /* Nothing is streamed, so that memory for that is kept small. */
    disk.chunk_bytes = disk.block_bytes ? disk.block_bytes : 1 << 20;
    snprintf(name, sizeof name, "weft-zero-params-rank%d", zero->rank);
    WI_TRY(wi_disk_create(&disk, extents, n, &swap->disk));
    swap->buffer_bytes = 0;
    for (size_t i = 0; i < n; i++) {
        size_t bytes = wi_disk_range_bytes(swap->disk, i, 0, wi_disk_chunks(swap->disk, i));

        swap->buffer_bytes = bytes > swap->buffer_bytes ? bytes : swap->buffer_bytes;
    }
    return WEFT_SUCCESS;
}

/* Weights are 0 until they are set; gradients are written before they are read. */
static weft_status clear(struct wi_zero_swap *swap, struct wi_zero_swapped *part)
{
    WI_TRY(take(swap, &part->buffer));
    memset(part->buffer, 0, swap->buffer_bytes);
    WI_TRY(begin(swap, part, 1));
    return settle(swap, part);
}

weft_status wi_zero_swap_create(weft_zero *zero)
{
    struct wi_disk_extent *extents = wi_calloc(2 * (size_t)zero->nflats + 1, sizeof *extents);
    size_t n = 0;
    weft_status st = extents ? WEFT_SUCCESS : wi_fail(WEFT_ENOMEM, "seal: out of memory");

    for (int i = 0; st >= 0 && i < zero->nflats; i++) {
        struct wi_zero_flat *flat = &zero->flats[i];

        if (!flat->swapped)
            continue;
        flat->param.extent = (int)n;
        extents[n++] = (struct wi_disk_extent){flat->shard * wi_zero_width(flat->dtype), 1, {NULL}};
        flat->gradient.extent = (int)n;
        if (flat->trained)
            extents[n++] = (struct wi_disk_extent){flat->shard * wi_zero_width(flat->grad_dtype), 1, {NULL}};
    }
    if (st >= 0 && n) {
        zero->swap = wi_calloc(1, sizeof *zero->swap);
        st = zero->swap ? WEFT_SUCCESS : wi_fail(WEFT_ENOMEM, "seal: out of memory");
    }
    if (st >= 0 && n)
        st = make_file(zero, zero->swap, extents, n);
    for (int i = 0; st >= 0 && n && i < zero->nflats; i++)
        if (zero->flats[i].swapped)
            st = clear(zero->swap, &zero->flats[i].param);
    wi_free(extents);
    return st;
}

void wi_zero_swap_destroy(weft_zero *zero)
{
    if (!zero->swap)
        return;
    wi_disk_destroy(zero->swap->disk); /* and its buffers */
    wi_free(zero->swap);
}

weft_status wi_zero_swap_settle(weft_zero *zero)
{
    weft_status st = WEFT_SUCCESS;

    for (int i = 0; zero->swap && i < zero->nflats; i++) {
        struct wi_zero_flat *flat = &zero->flats[i];
        weft_status one = WEFT_SUCCESS;

        if (!flat->swapped)
            continue;
        if (flat->param.writing)
            one = settle(zero->swap, &flat->param);
        if (flat->gradient.writing && one >= 0)
            one = settle(zero->swap, &flat->gradient);
        st = st < 0 ? st : one;
    }
    return st;
}

/* ---- Parameters ---- */

weft_status wi_zero_swap_read(weft_zero *zero, struct wi_zero_flat *flat)
{
    return fetch(zero, &flat->param);
}

weft_status wi_zero_swap_place(weft_zero *zero, struct wi_zero_flat *flat)
{
    size_t width = wi_zero_width(flat->dtype);
    uint64_t from = wi_now_ns();

    WI_TRY(fetch(zero, &flat->param));
    WI_TRY(settle(zero->swap, &flat->param));
    zero->stats.disk_read_wait_ns += wi_now_ns() - from;
    memcpy(flat->full + wi_zero_first(zero, flat) * width, flat->param.buffer, flat->shard * width);
    put_back(zero->swap, &flat->param.buffer);
    return WEFT_SUCCESS;
}

/* ---- Gradients ---- */

weft_status wi_zero_swap_gradients(weft_zero *zero, struct wi_zero_flat *flat, const void *shard, int add)
{
    struct wi_zero_swapped *part = &flat->gradient;
    struct wi_zero_swap *swap = zero->swap;

    if (add) {
        WI_TRY(fetch(zero, part));
        WI_TRY(settle(swap, part));
        wi_optim_convert(zero->pool, part->buffer, flat->grad_dtype, shard, flat->grad_dtype, flat->shard, 1);
    } else {
        if (part->buffer)
            WI_TRY(settle(swap, part));
        WI_TRY(make_room(zero));
        if (!part->buffer)
            WI_TRY(take(swap, &part->buffer));
        memcpy(part->buffer, shard, flat->shard * wi_zero_width(flat->grad_dtype));
    }
    flat->squares = wi_zero_flat_squares(zero, flat, part->buffer);
    return begin(swap, part, 1);
}

/* ---- Updates ---- */

static weft_status read_for_update(weft_zero *zero, struct wi_zero_flat *flat)
{
    WI_TRY(fetch(zero, &flat->gradient));
    return flat->separate ? WEFT_SUCCESS : fetch(zero, &flat->param);
}

weft_status wi_zero_swap_update_begin(weft_zero *zero, struct wi_zero_flat *flat, struct wi_zero_flat *next,
                                      const char **grads, char **params)
{
    uint64_t from = wi_now_ns();

    WI_TRY(read_for_update(zero, flat));
    if (next)
        WI_TRY(read_for_update(zero, next));
    WI_TRY(settle(zero->swap, &flat->gradient));
    if (flat->param.buffer)
        WI_TRY(settle(zero->swap, &flat->param));
    if (!flat->param.buffer)
        WI_TRY(take(zero->swap, &flat->param.buffer));
    zero->stats.disk_read_wait_ns += wi_now_ns() - from;
    *grads = flat->gradient.buffer;
    *params = flat->param.buffer;
    return WEFT_SUCCESS;
}

weft_status wi_zero_swap_update_end(weft_zero *zero, struct wi_zero_flat *flat)
{
    put_back(zero->swap, &flat->gradient.buffer);
    return begin(zero->swap, &flat->param, 1);
}

/* ---- Values ---- */

weft_status wi_zero_swap_get(weft_zero *zero, const struct wi_zero_flat *flat, int gradients, size_t at, size_t elems,
                             void *values)
{
    size_t width = wi_zero_width(gradients ? flat->grad_dtype : flat->dtype);
    const struct wi_zero_swapped *part = gradients ? &flat->gradient : &flat->param;

    WI_TRY(wi_zero_swap_settle(zero));
    return wi_disk_get(zero->swap->disk, (size_t)part->extent, 0, at * width, elems * width, values);
}

weft_status wi_zero_swap_put(weft_zero *zero, const struct wi_zero_flat *flat, size_t at, size_t elems,
                             const void *values)
{
    struct wi_zero_swapped *part = &zero->flats[flat - zero->flats].param;
    size_t width = wi_zero_width(flat->dtype);

    WI_TRY(wi_zero_swap_settle(zero));
    /* What was read ahead and not used is old. */
    if (part->buffer)
        WI_TRY(settle(zero->swap, part));
    put_back(zero->swap, &part->buffer);
    return wi_disk_put(zero->swap->disk, (size_t)flat->param.extent, 0, at * width, elems * width, values);
}

void wi_zero_swap_stats(const weft_zero *zero, weft_zero_stats *stats)
{
    struct wi_disk_stats disk;

    if (!zero->swap)
        return;
    wi_disk_get_stats(zero->swap->disk, &disk);
    stats->disk_bytes += disk.file_bytes;
    stats->disk_buffer_bytes += disk.buffer_bytes;
    stats->disk_read_bytes += disk.bytes_read;
    stats->disk_written_bytes += disk.bytes_written;
    stats->disk_raw_bytes += disk.bytes_raw;
}
