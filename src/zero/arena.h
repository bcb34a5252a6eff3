/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers of units that come and go, within one piece of memory. What does not fit is allocated by itself from the context's pool,
 * and counted. Two buffers at a time always fit if the piece is as large as both: they are placed at opposite ends. All ranks ask
 * for the same sizes in the same order, so that all find the same places free. */
#ifndef WI_ZERO_ARENA_H
#define WI_ZERO_ARENA_H

#include <stddef.h>
#include <weft/weft.h>

struct wi_zero_arena_block {
    size_t begin, bytes;
};

struct wi_zero_arena {
    weft_context *context;
    char *base;
    size_t bytes;
    struct wi_zero_arena_block *blocks; /* in use, by place */
    int nblocks, capacity;
    int plain;                  /* there is no shareable memory: what is outside is the heap's */
    size_t used, outside, most; /* bytes in use inside; outside; the most there have been together */
};

/* `base` is borrowed; bytes may be 0. */
void wi_zero_arena_init(struct wi_zero_arena *arena, weft_context *context, void *base, size_t bytes);
/* Nothing may be in use any more: what is outside is freed with the context. */
void wi_zero_arena_fini(struct wi_zero_arena *arena);

/* A buffer, aligned to 64 bytes. inside: WEFT_ENOTFOUND if it does not fit inside. WEFT_ENOMEM and others of
 * weft_mem_pool_alloc. */
weft_status wi_zero_arena_get(struct wi_zero_arena *arena, size_t bytes, int inside, void **ptr);
void wi_zero_arena_put(struct wi_zero_arena *arena, void *ptr, size_t bytes);

#endif
