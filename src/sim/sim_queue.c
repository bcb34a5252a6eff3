/* SPDX-License-Identifier: BSD-3-Clause */
/* The queue of events: a heap of four children a node, in which flows know their places. */
#include <math.h>

#include "base/alloc.h"
#include "base/status.h"
#include "sim/engine.h"

int wi_sim_room(struct wi_sim *s, void *pool, uint32_t used, uint32_t *capacity, size_t bytes)
{
    uint32_t want = *capacity ? 2 * *capacity : 256;
    void *more;

    if (used < *capacity)
        return 1;
    if (s->status < 0)
        return 0;
    more = *capacity < WI_SIM_NONE / 4 ? wi_realloc(*(void **)pool, want * bytes) : NULL;
    if (!more) {
        s->status = wi_fail(WEFT_ENOMEM, "simulation: no memory for %u objects of %zu bytes", want, bytes);
        return 0;
    }
    *(void **)pool = more;
    *capacity = want;
    return 1;
}

static int sooner(const struct wi_sim_event *a, const struct wi_sim_event *b)
{
    return a->time != b->time ? a->time < b->time : a->order < b->order;
}

static void put(struct wi_sim *s, uint32_t at, struct wi_sim_event e)
{
    s->heap[at] = e;
    if (e.kind == WI_SIM_AT_DRAINED)
        s->flows[e.id].at = at;
}

static void rise(struct wi_sim *s, uint32_t at, struct wi_sim_event e)
{
    while (at > 0) {
        uint32_t up = (at - 1) / 4;
        if (!sooner(&e, &s->heap[up]))
            break;
        put(s, at, s->heap[up]);
        at = up;
    }
    put(s, at, e);
}

static void sink(struct wi_sim *s, uint32_t at, struct wi_sim_event e)
{
    for (;;) {
        uint32_t first = 4 * at + 1, least = first;
        if (first >= s->nheap)
            break;
        for (uint32_t c = first + 1; c < first + 4 && c < s->nheap; c++)
            if (sooner(&s->heap[c], &s->heap[least]))
                least = c;
        if (!sooner(&s->heap[least], &e))
            break;
        put(s, at, s->heap[least]);
        at = least;
    }
    put(s, at, e);
}

weft_status wi_sim_event_add(struct wi_sim *s, double time, unsigned kind, uint32_t id)
{
    if (!wi_sim_room(s, &s->heap, s->nheap, &s->heap_capacity, sizeof *s->heap))
        return s->status;
    rise(s, s->nheap++, (struct wi_sim_event){time, s->order++, id, kind});
    return WEFT_SUCCESS;
}

static void take_out(struct wi_sim *s, uint32_t at)
{
    struct wi_sim_event last = s->heap[--s->nheap];

    if (at == s->nheap)
        return;
    if (at > 0 && sooner(&last, &s->heap[(at - 1) / 4]))
        rise(s, at, last);
    else
        sink(s, at, last);
}

weft_status wi_sim_event_set(struct wi_sim *s, uint32_t flow, double time)
{
    uint32_t at = s->flows[flow].at;
    struct wi_sim_event e;

    if (at == WI_SIM_NONE)
        return isinf(time) ? WEFT_SUCCESS : wi_sim_event_add(s, time, WI_SIM_AT_DRAINED, flow);
    if (isinf(time)) {
        s->flows[flow].at = WI_SIM_NONE;
        take_out(s, at);
        return WEFT_SUCCESS;
    }
    e = s->heap[at];
    if (time < e.time) {
        e.time = time;
        rise(s, at, e);
    } else if (time > e.time) {
        e.time = time;
        sink(s, at, e);
    }
    return WEFT_SUCCESS;
}

struct wi_sim_event wi_sim_event_pop(struct wi_sim *s)
{
    struct wi_sim_event e = s->heap[0];

    if (e.kind == WI_SIM_AT_DRAINED)
        s->flows[e.id].at = WI_SIM_NONE;
    take_out(s, 0);
    s->nevents++;
    return e;
}
