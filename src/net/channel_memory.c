/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of the channel layer: what is registered, what is registered for one transfer only, and staging buffers. */
#include "net/channel_group.h"

#include <string.h>

#include "base/alloc.h"
#include "base/status.h"

#define LEASE_MIN ((size_t)64 << 10) /* shorter messages are copied: to register costs some tens of microseconds */
#define SLAB_FRAMES 32u

struct wi_slab {
    struct wi_slab *next;
    struct wi_staging *staging;
    unsigned char *memory;
    void *mem;
};

/* ---- What is registered ---- */

/* The index of the first that begins behind `at`. */
static size_t first_behind(const struct wi_channel_endpoint *e, const unsigned char *at)
{
    size_t low = 0, high = e->nranges;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (e->ranges[middle].from <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void fill_max_to(struct wi_channel_endpoint *e, size_t i)
{
    for (; i < e->nranges; i++) {
        e->ranges[i].max_to = e->ranges[i].to;
        if (i && e->ranges[i - 1].max_to > e->ranges[i].max_to)
            e->ranges[i].max_to = e->ranges[i - 1].max_to;
    }
}

/* Nothing uses it any more. */
static void end_registration(struct wi_channel_endpoint *e, struct wi_registration *r)
{
    e->raw->mem_deregister(e->endpoint, r->mem);
    wi_free(r);
}

weft_status wi_channel_register(void *endpoint, void *ptr, size_t bytes, uint32_t memory, void **mem)
{
    struct wi_channel_endpoint *e = endpoint;
    struct wi_registration *r = wi_calloc(1, sizeof *r);
    struct wi_registered_range made = {.from = ptr, .to = (unsigned char *)ptr + bytes, .registration = r};
    weft_status st;
    size_t at;

    if (!r)
        return wi_fail(WEFT_ENOMEM, "a registration");
    st = e->raw->mem_register(e->endpoint, ptr, bytes, memory, &r->mem);
    if (st < 0) {
        wi_free(r);
        return st;
    }
    pthread_mutex_lock(&e->lock);
    if (e->nranges == e->ranges_capacity) {
        size_t capacity = e->ranges_capacity ? 2 * e->ranges_capacity : 16;
        struct wi_registered_range *ranges = wi_realloc(e->ranges, capacity * sizeof *ranges);
        if (ranges) {
            e->ranges = ranges;
            e->ranges_capacity = capacity;
        } else {
            st = wi_fail(WEFT_ENOMEM, "the list of %zu registrations", capacity);
        }
    }
    if (st >= 0) {
        at = first_behind(e, ptr);
        memmove(e->ranges + at + 1, e->ranges + at, (e->nranges - at) * sizeof *e->ranges);
        e->ranges[at] = made;
        e->nranges++;
        fill_max_to(e, at);
        *mem = r->mem;
    }
    pthread_mutex_unlock(&e->lock);
    if (st < 0)
        end_registration(e, r);
    return st;
}

void wi_channel_deregister(void *endpoint, void *mem)
{
    struct wi_channel_endpoint *e = endpoint;
    struct wi_registration *r = NULL;
    size_t at = 0;
    int leases = 0;

    pthread_mutex_lock(&e->lock);
    while (at < e->nranges && e->ranges[at].registration->mem != mem)
        at++;
    if (at < e->nranges) {
        r = e->ranges[at].registration;
        r->deregistered = 1;
        leases = r->leases > 0;
        e->nranges--;
        memmove(e->ranges + at, e->ranges + at + 1, (e->nranges - at) * sizeof *e->ranges);
        fill_max_to(e, at);
    }
    pthread_mutex_unlock(&e->lock);
    if (r && !leases)
        end_registration(e, r);
}

void wi_channel_registrations_fini(struct wi_channel_endpoint *e)
{
    for (size_t i = 0; i < e->nranges; i++)
        wi_free(e->ranges[i].registration);
    wi_free(e->ranges);
}

/* Counts one more lease on it. */
static struct wi_registration *find(struct wi_channel_endpoint *e, const unsigned char *from, size_t bytes)
{
    const unsigned char *to = from + bytes;
    struct wi_registration *r = NULL;

    pthread_mutex_lock(&e->lock);
    for (size_t i = first_behind(e, from); i > 0 && e->ranges[i - 1].max_to >= to && !r; i--)
        if (e->ranges[i - 1].to >= to)
            r = e->ranges[i - 1].registration;
    if (r)
        r->leases++;
    pthread_mutex_unlock(&e->lock);
    return r;
}

static void give_back(struct wi_channel_endpoint *e, struct wi_registration *r)
{
    int ends;

    pthread_mutex_lock(&e->lock);
    ends = --r->leases == 0 && r->deregistered;
    pthread_mutex_unlock(&e->lock);
    if (ends)
        end_registration(e, r);
}

/* ---- One transfer ---- */

static void link_lease(struct wi_channel_group *g, struct wi_lease *l)
{
    l->next = g->leases;
    l->link = &g->leases;
    if (l->next)
        l->next->link = &l->next;
    g->leases = l;
}

struct wi_lease *wi_channel_borrow(struct wi_channel_group *g, const unsigned char *from, size_t bytes)
{
    struct wi_registration *r = find(g->endpoint, from, bytes);
    struct wi_lease *l = r ? wi_calloc(1, sizeof *l) : NULL;

    if (l) {
        l->borrowed = r;
        l->mem = r->mem;
        link_lease(g, l);
    } else if (r) {
        give_back(g->endpoint, r);
    }
    return l;
}

struct wi_lease *wi_channel_lease(struct wi_channel_group *g, void *ptr, size_t bytes, uint32_t memory)
{
    struct wi_lease *l = wi_calloc(1, sizeof *l);

    if (!l)
        return NULL;
    if (g->raw->mem_register(g->endpoint->endpoint, ptr, bytes, memory, &l->mem) < 0) {
        wi_free(l);
        return NULL;
    }
    link_lease(g, l);
    return l;
}

void wi_channel_lease_end(struct wi_channel_group *g, struct wi_lease *l)
{
    if (!l)
        return;
    *l->link = l->next;
    if (l->next)
        l->next->link = l->link;
    if (l->borrowed)
        give_back(g->endpoint, l->borrowed);
    else
        g->raw->mem_deregister(g->endpoint->endpoint, l->mem);
    wi_free(l);
}

struct wi_channel_place wi_channel_place(struct wi_channel_group *g, const struct weft_xfer *x, size_t bytes)
{
    struct wi_channel_place place = {.at = x->buf, .mem = x->mem};
    unsigned failures = wi_fail_count();

    if (x->sink)
        return (struct wi_channel_place){NULL, NULL, NULL};
    if (!(g->endpoint->plugin->caps & WEFT_CAP_REGISTER) || place.mem)
        return place;
    place.lease = wi_channel_borrow(g, x->buf, bytes);
    if (!place.lease && bytes >= LEASE_MIN)
        place.lease = wi_channel_lease(g, x->buf, bytes, x->memory);
    if (!place.lease) {
        if (wi_fail_count() != failures)
            wi_fail_clear(); /* a limit, perhaps: through staging buffers, then */
        return (struct wi_channel_place){NULL, NULL, NULL};
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
    slab->staging = wi_calloc(count, sizeof *slab->staging);
    slab->memory = wi_aligned_alloc(4096, count * bytes);
    if (!slab->staging || !slab->memory ||
        (needed &&
         g->raw->mem_register(g->endpoint->endpoint, slab->memory, count * bytes, WEFT_MEMORY_HOST, &slab->mem) < 0)) {
        wi_free(slab->staging);
        wi_free(slab->memory);
        wi_free(slab);
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        slab->staging[i].at = slab->memory + i * bytes;
        slab->staging[i].mem = slab->mem;
        slab->staging[i].next = i + 1 < count ? &slab->staging[i + 1] : NULL;
    }
    slab->next = g->slabs;
    g->slabs = slab;
    return slab;
}

static struct wi_staging *staging_get(struct wi_channel_group *g, struct wi_staging **list, size_t count, size_t bytes)
{
    struct wi_staging *staging = *list;
    struct wi_slab *slab;

    if (!staging) {
        slab = slab_new(g, count, bytes);
        if (!slab) {
            wi_fail(WEFT_ENOMEM, "no memory, or none that can be registered, to stage messages over %s (%zu bytes)",
                    g->endpoint->plugin->name, count * bytes);
            return NULL;
        }
        staging = slab->staging;
    }
    *list = staging->next;
    return staging;
}

struct wi_staging *wi_channel_frame_get(struct wi_channel_group *g)
{
    return staging_get(g, &g->free_frames, SLAB_FRAMES, WI_CHANNEL_FRAME);
}

struct wi_staging *wi_channel_chunk_get(struct wi_channel_group *g)
{
    return staging_get(g, &g->free_chunks, 1, WI_CHANNEL_CHUNK);
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
    struct wi_staging **list = p->raw.chan == WI_CHANNEL_HEADS ? &g->free_frames : &g->free_chunks;

    if (p->staging) {
        p->staging->next = *list;
        *list = p->staging;
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
        wi_free(slab->staging);
        wi_free(slab->memory);
        wi_free(slab);
    }
    while (g->free_pieces) {
        struct wi_piece *p = g->free_pieces;
        g->free_pieces = p->next;
        wi_free(p);
    }
}
