/* SPDX-License-Identifier: BSD-3-Clause */
/* A pool of freed shareable memory: new shared memory costs a page fault per page. */
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "comm/comm.h"

#define PAGE 4096

/* Sorted by address, as programs free in any order. */
struct wi_pool_block {
    char *ptr;
    size_t bytes;
    int kept; /* free, to be allocated again */
};

/* Quarters of powers of two: at most a fifth is wasted. */
static size_t class_of(size_t bytes)
{
    size_t step = PAGE;

    while (step < bytes / 8)
        step *= 2;
    return (bytes + step - 1) / step * step;
}

/* The index of the first block that does not lie before `ptr`. */
static size_t find(const struct wi_pool *pool, const char *ptr)
{
    size_t low = 0, high = pool->nblocks;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (pool->blocks[middle].ptr < ptr)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* With the lock held. */
static weft_status add_block(struct wi_pool *pool, void *ptr, size_t bytes)
{
    if (pool->nblocks == pool->capacity) {
        size_t capacity = pool->capacity ? 2 * pool->capacity : 64;
        struct wi_pool_block *blocks = wi_realloc(pool->blocks, capacity * sizeof *blocks);
        if (!blocks)
            return wi_fail(WEFT_ENOMEM, "mem_pool_alloc: the list of %zu blocks", capacity);
        pool->blocks = blocks;
        pool->capacity = capacity;
    }
    size_t at = find(pool, ptr);
    memmove(pool->blocks + at + 1, pool->blocks + at, (pool->nblocks - at) * sizeof *pool->blocks);
    pool->blocks[at] = (struct wi_pool_block){ptr, bytes, 0};
    pool->nblocks++;
    pool->reserved += bytes;
    return WEFT_SUCCESS;
}

static void *take_kept(struct wi_pool *pool, size_t bytes)
{
    for (size_t i = 0; i < pool->nblocks; i++)
        if (pool->blocks[i].kept && pool->blocks[i].bytes == bytes) {
            pool->blocks[i].kept = 0;
            pool->kept -= bytes;
            return pool->blocks[i].ptr;
        }
    return NULL;
}

weft_status weft_mem_pool_alloc(weft_context *ctx, size_t bytes, void **ptr)
{
    void *p;
    weft_status st;

    WI_TRY(wi_context_check(ctx, "mem_pool_alloc"));
    if (!ptr || !bytes)
        return wi_fail(WEFT_EINVAL, "mem_pool_alloc: ptr is NULL, or bytes is 0");
    if (bytes > PTRDIFF_MAX)
        return wi_fail(WEFT_ENOSPC, "mem_pool_alloc: %zu bytes", bytes);
    bytes = class_of(bytes);
    pthread_mutex_lock(&ctx->pool.lock);
    p = take_kept(&ctx->pool, bytes);
    pthread_mutex_unlock(&ctx->pool.lock);
    if (p) {
        *ptr = p;
        return WEFT_SUCCESS;
    }
    WI_TRY(weft_mem_alloc(ctx, bytes, &p));
    pthread_mutex_lock(&ctx->pool.lock);
    st = add_block(&ctx->pool, p, bytes);
    pthread_mutex_unlock(&ctx->pool.lock);
    if (st < 0) {
        weft_mem_free(ctx, p);
        return st;
    }
    *ptr = p;
    return WEFT_SUCCESS;
}

/* True: the caller must free it. */
static int put_block(struct wi_pool *pool, size_t at, size_t keep_bytes)
{
    struct wi_pool_block *b = &pool->blocks[at];

    if (b->bytes <= keep_bytes && pool->kept <= keep_bytes - b->bytes) {
        b->kept = 1;
        pool->kept += b->bytes;
        return 0;
    }
    pool->reserved -= b->bytes;
    pool->nblocks--;
    memmove(b, b + 1, (pool->nblocks - at) * sizeof *b);
    return 1;
}

weft_status weft_mem_pool_free(weft_context *ctx, void *ptr)
{
    int known, full = 0;

    WI_TRY(wi_context_check(ctx, "mem_pool_free"));
    if (!ptr)
        return WEFT_SUCCESS;
    pthread_mutex_lock(&ctx->pool.lock);
    size_t at = find(&ctx->pool, ptr);
    known = at < ctx->pool.nblocks && ctx->pool.blocks[at].ptr == ptr && !ctx->pool.blocks[at].kept;
    if (known)
        full = put_block(&ctx->pool, at, ctx->lib.mem_pool_bytes);
    pthread_mutex_unlock(&ctx->pool.lock);
    if (!known)
        return wi_fail(WEFT_EINVAL,
                       "mem_pool_free: the memory was not allocated from this context's pool, or was freed before");
    return full ? weft_mem_free(ctx, ptr) : WEFT_SUCCESS;
}

weft_status weft_mem_pool_reserved(weft_context *ctx, size_t *bytes)
{
    WI_TRY(wi_context_check(ctx, "mem_pool_reserved"));
    if (!bytes)
        return wi_fail(WEFT_EINVAL, "mem_pool_reserved: bytes is NULL");
    pthread_mutex_lock(&ctx->pool.lock);
    *bytes = ctx->pool.reserved;
    pthread_mutex_unlock(&ctx->pool.lock);
    return WEFT_SUCCESS;
}

void wi_pool_init(struct wi_pool *pool)
{
    pthread_mutex_init(&pool->lock, NULL);
}

/* The memory itself goes with its transport. */
void wi_pool_fini(struct wi_pool *pool)
{
    pthread_mutex_destroy(&pool->lock);
    wi_free(pool->blocks);
}
