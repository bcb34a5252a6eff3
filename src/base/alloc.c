/* SPDX-License-Identifier: BSD-3-Clause */
/* Allocation with failure injection. */
#include "base/alloc.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* `watching` is set by the first wi_alloc_fail_nth and stays: production never touches the counters. */
static atomic_bool watching;
static atomic_long seen;
static atomic_long countdown; /* fails the allocation that takes it from 1 to 0 */

static int alloc_refused(void)
{
    if (__builtin_expect(!atomic_load_explicit(&watching, memory_order_relaxed), 1))
        return 0;
    atomic_fetch_add_explicit(&seen, 1, memory_order_relaxed);
    if (atomic_load_explicit(&countdown, memory_order_relaxed) <= 0)
        return 0;
    return atomic_fetch_sub_explicit(&countdown, 1, memory_order_relaxed) == 1;
}

void *wi_malloc(size_t bytes)
{
    if (alloc_refused())
        return NULL;
    return malloc(bytes ? bytes : 1);
}

void *wi_calloc(size_t count, size_t bytes)
{
    if (alloc_refused())
        return NULL;
    return count && bytes ? calloc(count, bytes) : calloc(1, 1);
}

void *wi_realloc(void *ptr, size_t bytes)
{
    if (alloc_refused())
        return NULL;
    return realloc(ptr, bytes ? bytes : 1);
}

void *wi_aligned_alloc(size_t alignment, size_t bytes)
{
    if (alloc_refused() || alignment == 0 || (alignment & (alignment - 1)))
        return NULL;
    if (alignment < sizeof(void *))
        alignment = sizeof(void *);
    if (bytes > SIZE_MAX - (alignment - 1))
        return NULL;
    bytes = (bytes + alignment - 1) & ~(alignment - 1);
    return aligned_alloc(alignment, bytes ? bytes : alignment);
}

char *wi_strdup(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = wi_malloc(bytes);

    return copy ? memcpy(copy, text, bytes) : NULL;
}

void wi_free(void *ptr)
{
    free(ptr);
}

long wi_alloc_fail_nth(long n)
{
    atomic_store_explicit(&countdown, n, memory_order_relaxed);
    atomic_store_explicit(&watching, 1, memory_order_relaxed);
    return atomic_exchange_explicit(&seen, 0, memory_order_relaxed);
}
