/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "zero/ckpt/ckpt_buffer.h"

#include <sys/mman.h>

#include "base/alloc.h"
#include "base/status.h"
#include "base/thread.h"

enum { ALIGN = 64, PAGE = 4096, HUGE_PAGE = 2 << 20 };

void wi_ckpt_buffer_stop(struct wi_ckpt_buffer *buffer)
{
    if (!buffer->has_thread)
        return;
    atomic_store_explicit(&buffer->stop, 1, memory_order_relaxed);
    pthread_join(buffer->thread, NULL);
    buffer->has_thread = 0;
}

void wi_ckpt_buffer_fini(struct wi_ckpt_buffer *buffer)
{
    wi_ckpt_buffer_stop(buffer);
    wi_free(buffer->data);
    buffer->data = NULL;
    buffer->bytes = 0;
}

weft_status wi_ckpt_buffer_get(struct wi_ckpt_buffer *buffer, size_t bytes)
{
    if (buffer->bytes >= bytes)
        return WEFT_SUCCESS;
    wi_ckpt_buffer_fini(buffer);
    buffer->data = wi_aligned_alloc(bytes < HUGE_PAGE ? ALIGN : HUGE_PAGE, bytes);
    if (!buffer->data)
        return wi_fail(WEFT_ENOMEM, "out of memory for a copy of %zu bytes to be saved", bytes);
    buffer->bytes = bytes;
    if (bytes >= HUGE_PAGE) /* fewer page faults */
        madvise(buffer->data, bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
    return WEFT_SUCCESS;
}

static void *touch(void *arg)
{
    struct wi_ckpt_buffer *buffer = arg;

    for (size_t at = 0; at < buffer->bytes && !atomic_load_explicit(&buffer->stop, memory_order_relaxed); at += PAGE)
        *(volatile unsigned char *)(buffer->data + at) = 0;
    return NULL;
}

weft_status wi_ckpt_buffer_prepare(struct wi_ckpt_buffer *buffer, size_t bytes)
{
    if (buffer->bytes >= bytes)
        return WEFT_SUCCESS;
    WI_TRY(wi_ckpt_buffer_get(buffer, bytes));
    atomic_store(&buffer->stop, 0);
    /* Without it pages come as they are used. */
    buffer->has_thread = wi_thread_start(&buffer->thread, NULL, touch, buffer) == 0;
    return WEFT_SUCCESS;
}
