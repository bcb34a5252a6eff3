/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of the channel layer: what the program has registered, what is registered for one message, and staging buffers. */
#include "net/channel_group.h"

#include <string.h>

#include "base/alloc.h"
#include "base/status.h"

#define LEASE_MIN ((size_t)64 << 10) /* shorter messages are copied: to register costs some tens of microseconds */
#define SLAB_FRAMES 32u

struct wi_slab {
    struct wi_slab *next;
    struct wi_stage *stages;
    unsigned char *memory;
    void *mem;
};

/* ---- What the program has registered ---- */

/* The index of the first that begins behind `at`. */
static size_t place_of(const struct wi_channel_endpoint *e, const unsigned char *at)
{
    size_t low = 0, high = e->nregs;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (e->regs[middle].from <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void reach_from(struct wi_channel_endpoint *e, size_t i)
{
    for (; i < e->nregs; i++) {
        e->regs[i].reach = e->regs[i].to;
        if (i && e->regs[i - 1].reach > e->regs[i].reach)
            e->regs[i].reach = e->regs[i - 1].reach;
    }
}

weft_status wi_channel_register(void *endpoint, void *ptr, size_t bytes, uint32_t memory, void **mem)
{
    struct wi_channel_endpoint *e = endpoint;
    struct wi_registration made = {.from = ptr, .to = (unsigned char *)ptr + bytes};
    weft_status st = WEFT_SUCCESS;
    size_t at;

    WI_TRY(e->raw->mem_register(e->endpoint, ptr, bytes, memory, &made.mem));
    pthread_mutex_lock(&e->lock);
    if (e->nregs == e->regs_capacity) {
        size_t capacity = e->regs_capacity ? 2 * e->regs_capacity : 16;
        struct wi_registration *regs = wi_realloc(e->regs, capacity * sizeof *regs);
        if (regs) {
            e->regs = regs;
            e->regs_capacity = capacity;
        } else {
            st = wi_fail(WEFT_ENOMEM, "the list of %zu registrations", capacity);
        }
    }
    if (st >= 0) {
        at = place_of(e, ptr);
        memmove(e->regs + at + 1, e->regs + at, (e->nregs - at) * sizeof *e->regs);
        e->regs[at] = made;
        e->nregs++;
        reach_from(e, at);
        *mem = made.mem;
    }
    pthread_mutex_unlock(&e->lock);
    if (st < 0)
        e->raw->mem_deregister(e->endpoint, made.mem);
    return st;
}

void wi_channel_deregister(void *endpoint, void *mem)
{
    struct wi_channel_endpoint *e = endpoint;
    size_t at = 0;

    pthread_mutex_lock(&e->lock);
    while (at < e->nregs && e->regs[at].mem != mem)
        at++;
    if (at < e->nregs) {
        e->nregs--;
        memmove(e->regs + at, e->regs + at + 1, (e->nregs - at) * sizeof *e->regs);
        reach_from(e, at);
    }
    pthread_mutex_unlock(&e->lock);
    e->raw->mem_deregister(e->endpoint, mem);
}

void *wi_channel_registered(struct wi_channel_endpoint *e, const unsigned char *from, size_t bytes)
{
    const unsigned char *to = from + bytes;
    void *mem = NULL;

    pthread_mutex_lock(&e->lock);
    for (size_t i = place_of(e, from); i > 0 && e->regs[i - 1].reach >= to && !mem; i--)
        if (e->regs[i - 1].to >= to)
            mem = e->regs[i - 1].mem;
    pthread_mutex_unlock(&e->lock);
    return mem;
}

/* ---- One message ---- */

struct wi_lease *wi_channel_lease(struct wi_channel_group *g, void *ptr, size_t bytes, uint32_t memory)
{
    struct wi_lease *l = wi_calloc(1, sizeof *l);

    if (!l)
        return NULL;
    if (g->raw->mem_register(g->endpoint->endpoint, ptr, bytes, memory, &l->mem) < 0) {
        wi_free(l);
        return NULL;
    }
    l->next = g->leases;
    l->link = &g->leases;
    if (l->next)
        l->next->link = &l->next;
    g->leases = l;
    return l;
}

void wi_channel_lease_end(struct wi_channel_group *g, struct wi_lease *l)
{
    if (!l)
        return;
    *l->link = l->next;
    if (l->next)
        l->next->link = l->link;
    g->raw->mem_deregister(g->endpoint->endpoint, l->mem);
    wi_free(l);
}

struct wi_place wi_channel_place(struct wi_channel_group *g, const struct weft_xfer *x, size_t bytes)
{
    struct wi_place place = {.at = x->buf, .mem = x->mem};

    if (x->sink)
        return (struct wi_place){NULL, NULL, NULL};
    if (!(g->endpoint->plugin->caps & WEFT_CAP_REGISTER) || place.mem)
        return place;
    place.mem = wi_channel_registered(g->endpoint, x->buf, bytes);
    if (place.mem)
        return place;
    place.lease = bytes >= LEASE_MIN ? wi_channel_lease(g, x->buf, bytes, x->memory) : NULL;
    if (!place.lease) {
        wi_fail_clear(); /* a limit, perhaps: through staging buffers, then */
        return (struct wi_place){NULL, NULL, NULL};
    }
    place.mem = place.lease->mem;
    return place;
}

/* ---- Staging buffers and transfers ---- */

static struct wi_slab *slab_new(struct wi_channel_group *g, size_t count, size_t bytes)
{
    struct wi_slab *slab = wi_calloc(1, sizeof *slab);
    int needed = (g->endpoint->plugin->caps & WEFT_CAP_REGISTER) != 0;

    if (!slab)
        return NULL;
    slab->stages = wi_calloc(count, sizeof *slab->stages);
    slab->memory = wi_aligned_alloc(4096, count * bytes);
    if (!slab->stages || !slab->memory ||
        (needed &&
         g->raw->mem_register(g->endpoint->endpoint, slab->memory, count * bytes, WEFT_MEMORY_HOST, &slab->mem) < 0)) {
        wi_free(slab->stages);
        wi_free(slab->memory);
        wi_free(slab);
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        slab->stages[i].at = slab->memory + i * bytes;
        slab->stages[i].mem = slab->mem;
        slab->stages[i].next = i + 1 < count ? &slab->stages[i + 1] : NULL;
    }
    slab->next = g->slabs;
    g->slabs = slab;
    return slab;
}

static struct wi_stage *stage_get(struct wi_channel_group *g, struct wi_stage **list, size_t count, size_t bytes)
{
    struct wi_stage *stage = *list;
    struct wi_slab *slab;

    if (!stage) {
        slab = slab_new(g, count, bytes);
        if (!slab) {
            wi_fail(WEFT_ENOMEM, "no memory, or none that can be registered, to stage messages over %s (%zu bytes)",
                    g->endpoint->plugin->name, count * bytes);
            return NULL;
        }
        stage = slab->stages;
    }
    *list = stage->next;
    return stage;
}

struct wi_stage *wi_channel_frame_get(struct wi_channel_group *g)
{
    return stage_get(g, &g->free_frames, SLAB_FRAMES, WI_CHANNEL_FRAME);
}

struct wi_stage *wi_channel_chunk_get(struct wi_channel_group *g)
{
    return stage_get(g, &g->free_chunks, 1, WI_CHANNEL_CHUNK);
}

struct wi_piece *wi_channel_piece_get(struct wi_channel_group *g)
{
    struct wi_piece *p = g->free_pieces;

    if (p)
        g->free_pieces = p->next;
    else
        p = wi_malloc(sizeof *p);
    if (p)
        memset(p, 0, sizeof *p);
    else
        wi_fail(WEFT_ENOMEM, "a transfer");
    return p;
}

void wi_channel_piece_put(struct wi_channel_group *g, struct wi_piece *p)
{
    struct wi_stage **list = p->raw.chan == WI_CHANNEL_HEADS ? &g->free_frames : &g->free_chunks;

    if (p->stage) {
        p->stage->next = *list;
        *list = p->stage;
    }
    p->next = g->free_pieces;
    g->free_pieces = p;
}

void wi_channel_memory_fini(struct wi_channel_group *g)
{
    while (g->leases)
        wi_channel_lease_end(g, g->leases);
    while (g->slabs) {
        struct wi_slab *slab = g->slabs;
        g->slabs = slab->next;
        if (slab->mem)
            g->raw->mem_deregister(g->endpoint->endpoint, slab->mem);
        wi_free(slab->stages);
        wi_free(slab->memory);
        wi_free(slab);
    }
    while (g->free_pieces) {
        struct wi_piece *p = g->free_pieces;
        g->free_pieces = p->next;
        wi_free(p);
    }
}
