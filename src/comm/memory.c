/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that other ranks can access. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/status.h"
#include "comm/comm.h"

#define MEM_MAGIC 0x57464d45u

/* Transports to which the program's registrations go: they need them for transfers, or make keys of them. */
#define REGISTERING (WEFT_CAP_REGISTER | WEFT_CAP_GET | WEFT_CAP_PUT)

/* The handles of each of these transports for a range of memory; in the context's list if any did. */
struct wi_mem_handles {
    struct wi_mem_handles *next, **link;
    const unsigned char *from;
    size_t bytes;
    void *of[WI_MAX_TRANSPORTS];
    int count; /* not NULL */
};

struct weft_mem {
    uint32_t magic;
    struct wi_transport *transport; /* that shares it; NULL: none */
    struct weft_context *context;
    void *adopted;
    struct wi_mem_handles handles;
};

struct wi_mem_block {
    struct wi_mem_block *next;
    void *ptr;
    struct wi_transport *transport; /* that made it; NULL: the C library */
    struct wi_mem_handles handles;
};

/* ---- All transports of the context ---- */

/* A transport that hits a limit does not fail the registration: it stages, or registers for one message. */
static void register_everywhere(weft_context *ctx, void *ptr, size_t bytes, struct wi_mem_handles *h)
{
    uint32_t kind = wi_memory_kind(&ctx->transports->devices, ptr);

    for (int i = 0; i < ctx->transports->count; i++) {
        struct wi_transport *t = &ctx->transports->list[i];
        if (!(t->plugin->caps & REGISTERING))
            continue;
        wi_fail_clear();
        if (t->ops.mem_register(t->endpoint, ptr, bytes, kind, &h->of[i]) >= 0) {
            h->count++;
            continue;
        }
        h->of[i] = NULL;
        wi_log(WEFT_LOG_INFO, "comm.register", "%zu bytes are not registered with %s: %s", bytes, t->plugin->name,
               wi_fail_text());
    }
    if (!h->count)
        return;
    h->from = ptr;
    h->bytes = bytes;
    pthread_mutex_lock(&ctx->blocks.lock);
    h->next = ctx->blocks.handles;
    h->link = &ctx->blocks.handles;
    if (h->next)
        h->next->link = &h->next;
    ctx->blocks.handles = h;
    pthread_mutex_unlock(&ctx->blocks.lock);
}

void *wi_mem_handle(weft_context *ctx, const struct wi_transport *transport, const void *ptr, size_t bytes)
{
    size_t index = (size_t)(transport - ctx->transports->list);
    const unsigned char *from = ptr;
    void *mem = NULL;

    pthread_mutex_lock(&ctx->blocks.lock);
    for (const struct wi_mem_handles *h = ctx->blocks.handles; h && !mem; h = h->next)
        if (from >= h->from && bytes <= h->bytes && (size_t)(from - h->from) <= h->bytes - bytes)
            mem = h->of[index];
    pthread_mutex_unlock(&ctx->blocks.lock);
    return mem;
}

static void deregister_everywhere(weft_context *ctx, struct wi_mem_handles *h)
{
    if (h->count) {
        pthread_mutex_lock(&ctx->blocks.lock);
        *h->link = h->next;
        if (h->next)
            h->next->link = h->link;
        pthread_mutex_unlock(&ctx->blocks.lock);
    }
    for (int i = 0; h->count && i < ctx->transports->count; i++) {
        struct wi_transport *t = &ctx->transports->list[i];
        if (h->of[i])
            t->ops.mem_deregister(t->endpoint, h->of[i]);
    }
    h->count = 0;
}

/* The transport whose memory peers of this node map. A transport that can access all memory needs none. */
static struct wi_transport *allocator(weft_context *ctx)
{
    for (int i = 0; i < ctx->transports->count; i++) {
        struct wi_transport *t = &ctx->transports->list[i];
        if ((t->plugin->caps & (WEFT_CAP_MEM_MAP | WEFT_CAP_MEM_ALL)) == WEFT_CAP_MEM_MAP)
            return t;
    }
    return NULL;
}

/* ---- Allocation ---- */

static weft_status give_back(struct wi_mem_block *b, struct wi_transport *t, void *ptr)
{
    if (t)
        return t->ops.mem_free(t->endpoint, ptr);
    wi_free(b->ptr);
    return WEFT_SUCCESS;
}

weft_status weft_mem_alloc(weft_context *ctx, size_t bytes, void **ptr)
{
    struct wi_transport *t;
    struct wi_mem_block *b;
    weft_status st = WEFT_SUCCESS;

    WI_TRY(wi_context_check(ctx, "mem_alloc"));
    if (!ptr || !bytes)
        return wi_fail(WEFT_EINVAL, "mem_alloc: ptr is NULL, or bytes is 0");
    t = allocator(ctx);
    if (!wi_transports_with(ctx->transports, REGISTERING)) {
        if (!t)
            return wi_fail(WEFT_ENOTSUP, "mem_alloc: no transport with shareable memory is open (WEFT_TRANSPORTS)");
        return t->ops.mem_alloc(t->endpoint, bytes, ptr);
    }
    b = wi_calloc(1, sizeof *b);
    if (!b)
        return wi_fail(WEFT_ENOMEM, "mem_alloc: a block");
    if (t)
        st = t->ops.mem_alloc(t->endpoint, bytes, &b->ptr);
    else if (bytes > PTRDIFF_MAX || !(b->ptr = wi_aligned_alloc(4096, bytes)))
        st = wi_fail(WEFT_ENOMEM, "mem_alloc: %zu bytes", bytes);
    if (st < 0) {
        wi_free(b);
        return st;
    }
    if (!t)
        memset(b->ptr, 0, bytes);
    b->transport = t;
    register_everywhere(ctx, b->ptr, bytes, &b->handles);
    *ptr = b->ptr;
    pthread_mutex_lock(&ctx->blocks.lock);
    b->next = ctx->blocks.first;
    ctx->blocks.first = b;
    pthread_mutex_unlock(&ctx->blocks.lock);
    return WEFT_SUCCESS;
}

static struct wi_mem_block *take_block(weft_context *ctx, void *ptr)
{
    struct wi_mem_block **at = &ctx->blocks.first, *b;

    pthread_mutex_lock(&ctx->blocks.lock);
    while (*at && (*at)->ptr != ptr)
        at = &(*at)->next;
    b = *at;
    if (b)
        *at = b->next;
    pthread_mutex_unlock(&ctx->blocks.lock);
    return b;
}

weft_status weft_mem_free(weft_context *ctx, void *ptr)
{
    struct wi_transport *t;
    struct wi_mem_block *b;
    weft_status st;

    WI_TRY(wi_context_check(ctx, "mem_free"));
    if (!ptr)
        return WEFT_SUCCESS;
    b = take_block(ctx, ptr);
    t = b ? b->transport : allocator(ctx);
    if (!b && !t)
        return wi_fail(WEFT_EINVAL, "mem_free: nothing was allocated");
    if (b)
        deregister_everywhere(ctx, &b->handles);
    st = give_back(b, t, ptr);
    wi_free(b);
    return st;
}

/* What a transport made goes with it. */
void wi_mem_blocks_fini(weft_context *ctx)
{
    while (ctx->blocks.first) {
        struct wi_mem_block *b = ctx->blocks.first;
        ctx->blocks.first = b->next;
        deregister_everywhere(ctx, &b->handles);
        if (!b->transport)
            wi_free(b->ptr);
        wi_free(b);
    }
    pthread_mutex_destroy(&ctx->blocks.lock);
}

/* ---- Registration ---- */

weft_status weft_mem_register(weft_context *ctx, void *ptr, size_t bytes, weft_mem **mem)
{
    struct weft_mem *m;
    size_t adopted_bytes;
    weft_status st;

    WI_TRY(wi_context_check(ctx, "mem_register"));
    if (!ptr || !bytes || !mem)
        return wi_fail(WEFT_EINVAL, "mem_register: ptr or mem is NULL, or bytes is 0");
    m = wi_calloc(1, sizeof *m);
    if (!m)
        return wi_fail(WEFT_ENOMEM, "registration");
    m->magic = MEM_MAGIC;
    m->context = ctx;
    m->transport = allocator(ctx);
    st = m->transport
             ? m->transport->ops.mem_adopt(m->transport->endpoint, ptr, bytes, &m->adopted, &adopted_bytes)
             : wi_fail(WEFT_ENOTSUP,
                       "mem_register: no transport with shareable or registered memory is open (WEFT_TRANSPORTS)");
    if (st < 0)
        m->transport = NULL;
    if (wi_transports_with(ctx->transports, REGISTERING)) /* what was adopted lies where it lay */
        register_everywhere(ctx, ptr, bytes, &m->handles);
    if (st < 0 && !m->handles.count) {
        wi_free(m);
        return st;
    }
    wi_fail_clear();
    atomic_fetch_add(&ctx->registrations, 1);
    *mem = m;
    return WEFT_SUCCESS;
}

weft_status weft_mem_deregister(weft_mem *mem)
{
    weft_status st = WEFT_SUCCESS;

    if (!mem)
        return WEFT_SUCCESS;
    if (mem->magic != MEM_MAGIC || mem->context->magic != WI_CONTEXT_MAGIC)
        return wi_fail(WEFT_EINVAL, "mem_deregister: not a registration, or already ended%s",
                       mem->magic == MEM_MAGIC ? wi_forked_text(mem->context->magic) : "");
    deregister_everywhere(mem->context, &mem->handles);
    if (mem->transport)
        st = mem->transport->ops.mem_release(mem->transport->endpoint, mem->adopted);
    if (st < 0)
        return st;
    atomic_fetch_sub(&mem->context->registrations, 1);
    mem->magic = 0;
    wi_free(mem);
    return WEFT_SUCCESS;
}
