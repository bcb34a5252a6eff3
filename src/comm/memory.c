/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that other ranks can reach. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/status.h"
#include "comm/comm.h"

#define MEM_MAGIC 0x57464d45u

struct weft_mem {
    uint32_t magic;
    struct wi_transport *transport;
    struct weft_context *context;
    void *adopted;
};

/* Only what has MEM_MAP with an allocator of its own counts; inproc reaches all memory as it is. */
static struct wi_transport *allocator(weft_context *ctx)
{
    for (int i = 0; i < ctx->transports->count; i++) {
        struct wi_transport *t = &ctx->transports->list[i];
        if (strcmp(t->plugin->name, "inproc") != 0 && t->plugin->caps & WEFT_CAP_MEM_MAP)
            return t;
    }
    return NULL;
}

weft_status weft_mem_alloc(weft_context *ctx, size_t bytes, void **ptr)
{
    struct wi_transport *t;

    WI_TRY(wi_context_check(ctx, "mem_alloc"));
    if (!ptr || !bytes)
        return wi_fail(WEFT_EINVAL, "mem_alloc: ptr is NULL, or bytes is 0");
    t = allocator(ctx);
    if (!t)
        return wi_fail(WEFT_ENOTSUP, "mem_alloc: no transport with shareable memory is open (WEFT_TRANSPORTS)");
    return t->ops.mem_alloc(t->endpoint, bytes, ptr);
}

weft_status weft_mem_free(weft_context *ctx, void *ptr)
{
    struct wi_transport *t;

    WI_TRY(wi_context_check(ctx, "mem_free"));
    if (!ptr)
        return WEFT_SUCCESS;
    t = allocator(ctx);
    return t ? t->ops.mem_free(t->endpoint, ptr) : wi_fail(WEFT_EINVAL, "mem_free: nothing was allocated");
}

weft_status weft_mem_register(weft_context *ctx, void *ptr, size_t bytes, weft_mem **mem)
{
    struct wi_transport *t;
    struct weft_mem *m;
    size_t adopted_bytes;
    weft_status st;

    WI_TRY(wi_context_check(ctx, "mem_register"));
    if (!ptr || !bytes || !mem)
        return wi_fail(WEFT_EINVAL, "mem_register: ptr or mem is NULL, or bytes is 0");
    t = allocator(ctx);
    if (!t)
        return wi_fail(WEFT_ENOTSUP, "mem_register: no transport with shareable memory is open (WEFT_TRANSPORTS)");
    m = wi_calloc(1, sizeof *m);
    if (!m)
        return wi_fail(WEFT_ENOMEM, "registration");
    m->magic = MEM_MAGIC;
    m->transport = t;
    st = t->ops.mem_adopt(t->endpoint, ptr, bytes, &m->adopted, &adopted_bytes);
    if (st < 0) {
        wi_free(m);
        return st;
    }
    m->context = ctx;
    atomic_fetch_add(&ctx->registrations, 1);
    *mem = m;
    return WEFT_SUCCESS;
}

weft_status weft_mem_deregister(weft_mem *mem)
{
    weft_status st;

    if (!mem)
        return WEFT_SUCCESS;
    if (mem->magic != MEM_MAGIC || mem->context->magic != WI_CONTEXT_MAGIC)
        return wi_fail(WEFT_EINVAL, "mem_deregister: not a registration, or already ended%s",
                       mem->magic == MEM_MAGIC ? wi_forked_text(mem->context->magic) : "");
    st = mem->transport->ops.mem_release(mem->transport->endpoint, mem->adopted);
    if (st < 0)
        return st;
    atomic_fetch_sub(&mem->context->registrations, 1);
    mem->magic = 0;
    wi_free(mem);
    return WEFT_SUCCESS;
}
