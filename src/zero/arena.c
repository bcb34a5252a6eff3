/* SPDX-License-Identifier: BSD-3-Clause */
#include "zero/arena.h"

#include <string.h>

#include "base/alloc.h"
#include "base/status.h"

static size_t rounded(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

void wi_zero_arena_init(struct wi_zero_arena *arena, weft_context *context, void *base, size_t bytes)
{
    *arena = (struct wi_zero_arena){.context = context, .base = base, .bytes = bytes};
}

void wi_zero_arena_fini(struct wi_zero_arena *arena)
{
    wi_free(arena->blocks);
    arena->blocks = NULL;
}

static size_t gap(const struct wi_zero_arena *arena, int i, size_t *from)
{
    *from = i == 0 ? 0 : arena->blocks[i - 1].begin + arena->blocks[i - 1].bytes;
    return (i == arena->nblocks ? arena->bytes : arena->blocks[i].begin) - *from;
}

/* The place among the blocks before which `bytes` are free, and where they begin; -1: nowhere. The beginning first, then the end,
 * so that what is free between two buffers stays in one piece. */
static int find(const struct wi_zero_arena *arena, size_t bytes, size_t *begin)
{
    size_t free_bytes = gap(arena, arena->nblocks, begin);

    if (arena->nblocks && arena->blocks[0].begin >= bytes)
        return *begin = 0, 0;
    if (free_bytes >= bytes) {
        if (arena->nblocks)
            *begin += (free_bytes - bytes) & ~(size_t)63;
        return arena->nblocks;
    }
    for (int i = 1; i < arena->nblocks; i++)
        if (gap(arena, i, begin) >= bytes)
            return i;
    return -1;
}

static weft_status insert(struct wi_zero_arena *arena, int at, size_t begin, size_t bytes)
{
    if (arena->nblocks == arena->capacity) {
        int capacity = arena->capacity ? 2 * arena->capacity : 8;
        void *blocks = wi_realloc(arena->blocks, (size_t)capacity * sizeof *arena->blocks);

        if (!blocks)
            return wi_fail(WEFT_ENOMEM, "there is no memory for the list of %d buffers", capacity);
        arena->blocks = blocks;
        arena->capacity = capacity;
    }
    memmove(arena->blocks + at + 1, arena->blocks + at, (size_t)(arena->nblocks - at) * sizeof *arena->blocks);
    arena->blocks[at] = (struct wi_zero_arena_block){begin, bytes};
    arena->nblocks++;
    arena->used += bytes;
    return WEFT_SUCCESS;
}

static void count(struct wi_zero_arena *arena)
{
    if (arena->used + arena->outside > arena->most)
        arena->most = arena->used + arena->outside;
}

weft_status wi_zero_arena_get(struct wi_zero_arena *arena, size_t bytes, int inside, void **ptr)
{
    size_t begin, need = rounded(bytes ? bytes : 1);
    int at = find(arena, need, &begin);

    if (at >= 0) {
        WI_TRY(insert(arena, at, begin, need));
        *ptr = arena->base + begin;
        count(arena);
        return WEFT_SUCCESS;
    }
    if (inside)
        return WEFT_ENOTFOUND;
    weft_status st = weft_mem_pool_alloc(arena->context, need, ptr);

    if (st == WEFT_ENOTSUP) {
        arena->plain = 1;
        *ptr = wi_aligned_alloc(64, need);
        st = *ptr ? WEFT_SUCCESS : WEFT_ENOMEM;
    }
    if (st < 0)
        return wi_fail(st, "%zu bytes for a unit's buffer, beside %zu in use, cannot be had: %s", need,
                       arena->used + arena->outside, weft_status_text(st));
    arena->outside += need;
    count(arena);
    return WEFT_SUCCESS;
}

void wi_zero_arena_put(struct wi_zero_arena *arena, void *ptr, size_t bytes)
{
    size_t need = rounded(bytes ? bytes : 1);

    for (int i = 0; i < arena->nblocks; i++) {
        if (arena->base + arena->blocks[i].begin != (char *)ptr)
            continue;
        arena->used -= arena->blocks[i].bytes;
        memmove(arena->blocks + i, arena->blocks + i + 1, (size_t)(--arena->nblocks - i) * sizeof *arena->blocks);
        return;
    }
    arena->outside -= need;
    if (arena->plain)
        wi_free(ptr);
    else
        weft_mem_pool_free(arena->context, ptr);
}
