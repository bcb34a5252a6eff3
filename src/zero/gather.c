/* SPDX-License-Identifier: BSD-3-Clause */
/* Parameters of units: gathered when they are used or a little before, released when they are not. */
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "zero/swap.h"
#include "zero/zero.h"

void wi_zero_call(weft_call *call, weft_call_options *options, weft_kind kind, const void *src, void *dst, size_t count,
                  weft_dtype dtype, const char *label)
{
    const weft_call_options plain = WEFT_CALL_OPTIONS_INIT;
    const weft_call empty = WEFT_CALL_INIT;

    *options = plain;
    options->label = label;
    *call = empty;
    call->kind = kind;
    call->src = src;
    call->dst = dst;
    call->count = count;
    call->dtype = dtype;
    call->options = options;
}

/* A part of the second copy. */
static size_t second_elems(const weft_zero *zero, const struct wi_zero_flat *flat)
{
    return flat->elems / (size_t)zero->second.nranks;
}

static weft_status begin_flat(weft_zero *zero, const struct wi_zero_unit *unit, struct wi_zero_flat *flat,
                              enum wi_zero_event event)
{
    weft_call_options options;
    weft_call call;
    const char *own = flat->own;
    int second = event == WI_ZERO_BACKWARD && unit->seconded && flat->second;

    if (unit->kept && !flat->trained) /* nobody changes it */
        return WEFT_SUCCESS;
    if (flat->swapped) {
        WI_TRY(wi_zero_swap_place(zero, flat));
        own = flat->full + wi_zero_first(zero, flat) * wi_zero_width(flat->dtype);
    }
    wi_zero_call(&call, &options, WEFT_KIND_ALL_GATHER, second ? flat->second : own, flat->full,
                 second ? second_elems(zero, flat) : flat->shard, flat->dtype, unit->gather_label);
    options.codec = second ? NULL : zero->config.gather_codec;
    weft_status st = weft_issue(second ? zero->second.comm : wi_zero_domain(zero, flat)->gathers, &call, &flat->gather);

    return st < 0 ? wi_zero_broke(zero, st, "%s", unit->gather_label) : st;
}

static weft_status begin(weft_zero *zero, struct wi_zero_unit *unit, enum wi_zero_event event)
{
    for (int i = unit->first_flat; i < unit->first_flat + unit->nflats; i++)
        WI_TRY(begin_flat(zero, unit, &zero->flats[i], event));
    unit->issued = 1;
    zero->stats.gathers++;
    return WEFT_SUCCESS;
}

/* What a forward pass has gathered is kept in parts by ranks that are near each other. */
static void keep_second(weft_zero *zero, struct wi_zero_unit *unit)
{
    if (!zero->second.comm || unit->kept || unit->seconded)
        return;
    for (int i = unit->first_flat; i < unit->first_flat + unit->nflats; i++) {
        const struct wi_zero_flat *flat = &zero->flats[i];
        size_t bytes = second_elems(zero, flat) * wi_zero_width(flat->dtype);

        if (flat->second)
            memcpy(flat->second, flat->full + (size_t)zero->second.rank * bytes, bytes);
    }
    unit->seconded = 1;
}

weft_status wi_zero_gather_finish(weft_zero *zero, int number)
{
    struct wi_zero_unit *unit = &zero->units[number];
    weft_status st = WEFT_SUCCESS;

    for (int i = unit->first_flat; i < unit->first_flat + unit->nflats; i++) {
        struct wi_zero_flat *flat = &zero->flats[i];

        if (!flat->gather)
            continue;
        uint64_t from = wi_now_ns();
        weft_status one = weft_wait(flat->gather);

        zero->stats.gather_wait_ns += wi_now_ns() - from;
        if (one < 0 && st >= 0)
            st = wi_zero_broke(zero, one, "gather of unit \"%s\"", unit->name);
        weft_request_free(flat->gather);
        flat->gather = NULL;
    }
    return st;
}

weft_status wi_zero_gather_finish_all(weft_zero *zero)
{
    weft_status st = WEFT_SUCCESS;

    for (int u = 0; u < zero->nunits; u++) {
        weft_status one = wi_zero_gather_finish(zero, u);

        st = st < 0 ? st : one;
    }
    return st;
}

/* ---- Units that come and go ---- */

static void release(weft_zero *zero, struct wi_zero_unit *unit)
{
    for (int i = unit->first_flat; i < unit->first_flat + unit->nflats; i++) {
        struct wi_zero_flat *flat = &zero->flats[i];

        if (flat->full)
            wi_zero_arena_put(&zero->memory.gather_arena, flat->full, flat->elems * wi_zero_width(flat->dtype));
        flat->full = NULL;
    }
    if (unit->ahead)
        zero->gathers.ahead -= unit->elems;
    unit->resident = unit->ahead = unit->issued = 0;
}

/* What is read ahead is gathered at the next use of a unit, when it is likely to have come: on all ranks at the same place among
 * the others' gathers, whenever their disks are ready. */
static weft_status begin_delayed(weft_zero *zero)
{
    weft_status st = WEFT_SUCCESS;

    for (int i = 0; st >= 0 && i < zero->gathers.ndelayed; i++)
        if (zero->units[zero->gathers.delayed[i]].resident && !zero->units[zero->gathers.delayed[i]].issued)
            st = begin(zero, &zero->units[zero->gathers.delayed[i]], WI_ZERO_FORWARD);
    zero->gathers.ndelayed = 0;
    return wi_zero_final(zero, st);
}

static weft_status read_unit(weft_zero *zero, const struct wi_zero_unit *unit, int *reads)
{
    *reads = 0;
    for (int i = unit->first_flat; i < unit->first_flat + unit->nflats; i++) {
        if (!zero->flats[i].swapped)
            continue;
        *reads = 1;
        WI_TRY(wi_zero_swap_read(zero, &zero->flats[i]));
    }
    return WEFT_SUCCESS;
}

/* Buffers for all flats of the unit, or none. inside: WEFT_ENOTFOUND when the arena is full. */
static weft_status take_buffers(weft_zero *zero, struct wi_zero_unit *unit, int inside)
{
    for (int i = unit->first_flat; i < unit->first_flat + unit->nflats; i++) {
        struct wi_zero_flat *flat = &zero->flats[i];
        void *ptr;
        weft_status st =
            wi_zero_arena_get(&zero->memory.gather_arena, flat->elems * wi_zero_width(flat->dtype), inside, &ptr);

        if (st < 0) {
            release(zero, unit);
            return st;
        }
        flat->full = ptr;
    }
    return WEFT_SUCCESS;
}

/* Release the unit whose use is longest ago and that no pass uses; 0: there is none. */
static int evict(weft_zero *zero, weft_status *st)
{
    struct wi_zero_unit *oldest = NULL;

    for (int u = 0; u < zero->nunits; u++) {
        struct wi_zero_unit *unit = &zero->units[u];

        if (unit->resident && !unit->passes && (!oldest || unit->used < oldest->used))
            oldest = unit;
    }
    if (!oldest)
        return 0;
    *st = wi_zero_gather_finish(zero, (int)(oldest - zero->units));
    release(zero, oldest);
    return 1;
}

/* Begin to gather what has no place of its own. ahead: only if there is room. */
static weft_status bring(weft_zero *zero, int number, int ahead, enum wi_zero_event event)
{
    struct wi_zero_unit *unit = &zero->units[number];
    weft_status st, ended = WEFT_SUCCESS;
    int reads;

    if (unit->kept || unit->resident)
        return WEFT_SUCCESS;
    while ((st = take_buffers(zero, unit, 1)) == WEFT_ENOTFOUND && !ahead && evict(zero, &ended))
        WI_TRY(ended);
    if (st == WEFT_ENOTFOUND && !ahead)
        st = take_buffers(zero, unit, 0);
    WI_TRY(st);
    /* From here on other ranks may be waiting for this one: a failure is final. */
    unit->resident = 1;
    st = read_unit(zero, unit, &reads);
    if (st < 0)
        return wi_zero_final(zero, st);
    if (ahead) {
        unit->ahead = 1;
        unit->used = ++zero->gathers.clock;
        zero->gathers.ahead += unit->elems;
        zero->stats.prefetches++;
    }
    if (ahead && reads) {
        zero->gathers.delayed[zero->gathers.ndelayed++] = number;
        return WEFT_SUCCESS;
    }
    return wi_zero_final(zero, begin(zero, unit, event));
}

weft_status wi_zero_release_all(weft_zero *zero)
{
    weft_status st = WEFT_SUCCESS;

    for (int u = 0; u < zero->nunits; u++) {
        zero->units[u].seconded = 0;
        if (!zero->units[u].resident || zero->units[u].passes)
            continue;
        weft_status one = wi_zero_gather_finish(zero, u);

        st = st < 0 ? st : one;
        release(zero, &zero->units[u]);
    }
    return st;
}

/* Whether the unit is used again while units of no more than what may be gathered ahead are. */
static int comes(const weft_zero *zero, int number)
{
    const struct wi_zero_use *use;
    size_t elems = 0;

    for (size_t k = 0; (use = wi_zero_trace_next(&zero->gathers.trace, k)); k++) {
        const struct wi_zero_unit *unit = &zero->units[use->unit];

        elems += unit->kept ? 0 : unit->elems;
        if (elems > zero->config.prefetch_elems)
            break;
        if (use->unit == number)
            return 1;
    }
    return 0;
}

weft_status wi_zero_release_passed_over(weft_zero *zero, int used)
{
    weft_status st = WEFT_SUCCESS;

    for (int u = 0; u < zero->nunits; u++) {
        if (!zero->units[u].ahead || u == used || comes(zero, u))
            continue;
        weft_status one = wi_zero_gather_finish(zero, u);

        st = st < 0 ? st : one;
        release(zero, &zero->units[u]);
    }
    return st;
}

weft_status wi_zero_gather_updated(weft_zero *zero, int number)
{
    struct wi_zero_unit *unit = &zero->units[number];

    if (!unit->kept || !unit->trained || wi_zero_updates_all(zero))
        return WEFT_SUCCESS;
    WI_TRY(begin(zero, unit, WI_ZERO_FORWARD));
    return zero->config.overlap ? WEFT_SUCCESS : wi_zero_gather_finish(zero, number);
}

/* Units that come next, as many as may be gathered ahead and have room. All ranks follow the same trace, and gather the same. */
static weft_status gather_ahead(weft_zero *zero)
{
    const struct wi_zero_use *use;

    if (zero->config.stage < 3 || !zero->config.overlap)
        return WEFT_SUCCESS;
    for (size_t k = 0; (use = wi_zero_trace_next(&zero->gathers.trace, k)); k++) {
        const struct wi_zero_unit *unit = &zero->units[use->unit];

        if (unit->kept || unit->resident)
            continue;
        if (zero->gathers.ahead + unit->elems > zero->config.prefetch_elems)
            return WEFT_SUCCESS;
        weft_status st = bring(zero, use->unit, 1, use->event);

        if (st == WEFT_ENOTFOUND)
            return WEFT_SUCCESS;
        WI_TRY(st);
    }
    return WEFT_SUCCESS;
}

weft_status wi_zero_used(weft_zero *zero, int number, enum wi_zero_event event)
{
    struct wi_zero_unit *unit = &zero->units[number];

    if (event == WI_ZERO_FORWARD && !unit->used && zero->gathers.nfirst_used < zero->nunits)
        zero->gathers.first_used[zero->gathers.nfirst_used++] = number;
    unit->used = ++zero->gathers.clock;
    WI_TRY(wi_zero_trace_use(&zero->gathers.trace, number, event));
    if (zero->gathers.trace.restarted)
        WI_TRY(wi_zero_release_passed_over(zero, number));
    WI_TRY(begin_delayed(zero));
    WI_TRY(bring(zero, number, 0, event));
    if (unit->ahead) {
        unit->ahead = 0;
        zero->gathers.ahead -= unit->elems;
    }
    unit->passes++;
    weft_status st = wi_zero_gather_finish(zero, number);

    if (st >= 0 && event == WI_ZERO_FORWARD)
        keep_second(zero, unit);
    if (st >= 0)
        st = gather_ahead(zero);
    if (st < 0)
        unit->passes--;
    return st;
}

/* Whether the unit is used again before so many elements of others are. */
static int soon(const weft_zero *zero, int number)
{
    const struct wi_zero_use *use;
    size_t elems = 0;

    for (size_t k = 0; (use = wi_zero_trace_next(&zero->gathers.trace, k)); k++) {
        if (use->unit == number)
            return k == 0 || elems <= zero->config.reuse_elems;
        elems += zero->units[use->unit].elems;
        if (elems > zero->config.reuse_elems)
            break;
    }
    return 0;
}

void wi_zero_done(weft_zero *zero, int number)
{
    struct wi_zero_unit *unit = &zero->units[number];

    if (--unit->passes == 0 && unit->resident && !soon(zero, number))
        release(zero, unit);
}
