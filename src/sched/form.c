/* SPDX-License-Identifier: BSD-3-Clause */
/* The form of one rank's schedule: all that can be said without looking at the other ranks. */
#include "sched/internal.h"

#include <stdarg.h>

#include "base/alloc.h"
#include "base/status.h"

struct form {
    const struct wi_sched *sched;
    struct wi_sched_place *place;
    uint32_t lane, step; /* being looked at */
    uint32_t ordinal;    /* signals seen in this lane */
};

static weft_status bad(const struct form *f, const char *format, ...) __attribute__((format(printf, 2, 3)));

static weft_status bad(const struct form *f, const char *format, ...)
{
    char where[WI_PLACE_TEXT_BYTES], what[256];
    va_list ap;

    va_start(ap, format);
    vsnprintf(what, sizeof(what), format, ap);
    va_end(ap);
    f->place->lane = f->lane;
    f->place->step = f->step;
    return wi_fail(WEFT_EINVAL, "%s: %s", wi_sched_place_text(f->sched, f->lane, f->step, where), what);
}

/* What a step of each kind must have. */
static const struct {
    uint8_t ndst, nsrc; /* MANY: one or more */
    uint8_t flags;      /* allowed */
} shapes[WI_NUM_STEP_KINDS] = {
#define MANY 255
    [WI_STEP_NOP] = {0, 0, 0},
    [WI_STEP_SEND] = {0, 1, 0},
    [WI_STEP_RECV] = {1, 0, 0},
    [WI_STEP_RECV_REDUCE] = {1, 1, WI_STEP_FINAL | WI_STEP_RECV_LEFT},
    [WI_STEP_RECV_SEND] = {1, 0, 0},
    [WI_STEP_RECV_REDUCE_SEND] = {1, 1, WI_STEP_FINAL | WI_STEP_RECV_LEFT},
    [WI_STEP_COPY] = {MANY, 1, WI_STEP_FUSED_COPY | WI_STEP_FUSED_COPY_SECOND},
    [WI_STEP_REDUCE] = {MANY, MANY, WI_STEP_FINAL},
    [WI_STEP_SIGNAL] = {0, 0, 0},
    [WI_STEP_WAIT] = {0, 0, 0},
};

static int count_ok(unsigned have, unsigned want)
{
    return want == MANY ? have >= 1 : have == want;
}

static weft_status check_region(const struct form *f, const struct wi_step *step, const struct wi_region *r,
                                uint32_t blocks)
{
    const struct wi_sched *s = f->sched;
    char text[WI_REGION_TEXT_BYTES];

    wi_sched_region_text(r, text);
    if (r->buf >= WI_NUM_BUFS)
        return bad(f, "%s: no such buffer", text);
    if (r->rank != WI_SELF && step->kind != WI_STEP_COPY && step->kind != WI_STEP_REDUCE)
        return bad(f, "%s: only copy and reduce may name another rank's memory", text);
    if (r->buf == WI_PACK && (r->rank != WI_SELF || s->mapped))
        return bad(f, "%s: no image in a mapped schedule, or of another rank", text);
    if (r->buf == WI_PACK && (step->kind == WI_STEP_RECV_REDUCE || step->kind == WI_STEP_RECV_REDUCE_SEND))
        return bad(f, "%s: what is received into a sum is no image", text);
    if (r->rank != WI_SELF && (r->rank < 0 || r->rank >= s->nranks || r->rank == s->rank))
        return bad(f, "%s: is not another one of %d ranks", text, s->nranks);
    uint32_t limit = wi_sched_blocks(s, wi_sched_owner(s, r), r->buf);
    if (r->count < 1 || r->first > limit || r->count > limit - r->first)
        return bad(f, "%s: out of bounds, the buffer has %u blocks", text, limit);
    /* Two-sided scratch is cut like the vector, over and over; a region is moved as one piece. */
    if (r->buf == WI_TMP && wi_coll_is_vector(s->coll) && !s->mapped && !s->draft &&
        r->first % s->nblocks + (uint64_t)r->count > s->nblocks)
        return bad(f, "%s: goes past block %u, where the vector's %u blocks begin again", text,
                   r->first - r->first % s->nblocks + s->nblocks, s->nblocks);
    if (r->count != blocks)
        return bad(f, "%s: %u blocks, the step's first region has %u", text, r->count, blocks);
    return WEFT_SUCCESS;
}

static int overlap(const struct wi_region *a, const struct wi_region *b)
{
    return a->buf == b->buf && a->rank == b->rank && a->first < b->first + b->count && b->first < a->first + a->count;
}

static int same(const struct wi_region *a, const struct wi_region *b)
{
    return a->buf == b->buf && a->rank == b->rank && a->first == b->first && a->count == b->count;
}

static struct wi_region canonical(const struct wi_sched *s, uint32_t index)
{
    const struct wi_region *r = &s->regions[index];

    return wi_sched_canonical(s, wi_sched_owner(s, r), *r);
}

/* Then what else it stores is what the image holds, which may take the place of what was encoded. */
static int encodes(const struct wi_sched *s, const struct wi_step *step)
{
    for (unsigned i = 0; i < step->ndst; i++)
        if (s->regions[step->dst + i].buf == WI_PACK)
            return 1;
    return 0;
}

/* A destination is SRC nowhere, meets no other destination, and a source not at all or exactly. */
static weft_status check_destination(const struct form *f, const struct wi_step *step, unsigned i)
{
    const struct wi_sched *s = f->sched;
    const struct wi_region *r = &s->regions[step->dst + i];
    struct wi_region dst = canonical(s, step->dst + i);
    char a[WI_REGION_TEXT_BYTES], b[WI_REGION_TEXT_BYTES];

    wi_sched_region_text(r, a);
    if (!wi_sched_writable(s, wi_sched_owner(s, r), dst))
        return bad(f, "%s: src is written", a);
    for (unsigned k = 0; k < i; k++) {
        struct wi_region other = canonical(s, step->dst + k);
        if (overlap(&dst, &other))
            return bad(f, "destinations %s and %s overlap", a, wi_sched_region_text(&s->regions[step->dst + k], b));
    }
    for (unsigned k = 0; k < step->nsrc; k++) {
        struct wi_region src = canonical(s, step->src + k);
        if (!overlap(&dst, &src))
            continue;
        wi_sched_region_text(&s->regions[step->src + k], b);
        if (step->kind == WI_STEP_COPY && !encodes(s, step))
            return bad(f, "%s is copied onto itself (%s)", b, a);
        if (!same(&dst, &src))
            return bad(f, "%s and %s overlap in part", a, b);
    }
    return WEFT_SUCCESS;
}

/* A step encodes once: what it makes is one image, or images are moved. */
static weft_status check_images(const struct form *f, const struct wi_step *step)
{
    const struct wi_sched *s = f->sched;
    unsigned into = 0;

    for (unsigned i = 0; i < step->ndst; i++)
        into += s->regions[step->dst + i].buf == WI_PACK;
    if (into > 1)
        return bad(f, "%u destinations are images, one step makes one", into);
    if (into && step->kind == WI_STEP_COPY && s->regions[step->src].buf == WI_PACK && step->ndst > 1)
        return bad(f, "an image is moved and decoded in one step");
    return WEFT_SUCCESS;
}

static weft_status check_regions(const struct form *f, const struct wi_step *step)
{
    const struct wi_sched *s = f->sched;

    if ((uint64_t)step->dst + step->ndst > s->nregions || (uint64_t)step->src + step->nsrc > s->nregions)
        return bad(f, "its regions are not among the schedule's %u", s->nregions);
    if (step->ndst + step->nsrc == 0)
        return WEFT_SUCCESS;
    uint32_t blocks = s->regions[step->ndst ? step->dst : step->src].count;
    for (unsigned i = 0; i < step->ndst; i++)
        WI_TRY(check_region(f, step, &s->regions[step->dst + i], blocks));
    for (unsigned i = 0; i < step->nsrc; i++)
        WI_TRY(check_region(f, step, &s->regions[step->src + i], blocks));
    for (unsigned i = 0; i < step->ndst; i++)
        WI_TRY(check_destination(f, step, i));
    return check_images(f, step);
}

static weft_status check_signal(struct form *f, const struct wi_step *step)
{
    const struct wi_sched *s = f->sched;

    if (step->kind == WI_STEP_SIGNAL) {
        if (f->ordinal >= WI_SCHED_MAX_SIGNALS && !s->draft)
            return bad(f, "more than %d signals in one lane", WI_SCHED_MAX_SIGNALS);
        if (step->ordinal != f->ordinal)
            return bad(f, "signal %u out of turn, the next is %u", step->ordinal, f->ordinal);
        f->ordinal++;
    }
    if (step->kind != WI_STEP_WAIT)
        return WEFT_SUCCESS;
    if (step->peer < 0 || step->peer >= s->nranks)
        return bad(f, "waits for rank %d, which is not one of %d", step->peer, s->nranks);
    if (step->peer == s->rank)
        return bad(f, "waits for a signal of its own rank");
    if (step->lane >= WI_SCHED_MAX_MAPPED_LANES && !s->draft)
        return bad(f, "waits for lane %u of rank %d, there are at most %d lanes", step->lane, step->peer,
                   WI_SCHED_MAX_MAPPED_LANES);
    if (step->ordinal >= WI_SCHED_MAX_SIGNALS && !s->draft)
        return bad(f, "waits for signal %u of rank %d, there are at most %d", step->ordinal, step->peer,
                   WI_SCHED_MAX_SIGNALS);
    return WEFT_SUCCESS;
}

static weft_status check_dependency(const struct form *f, const struct wi_step *step)
{
    const struct wi_sched *s = f->sched;

    if (step->dep_lane == WI_NO_DEP)
        return WEFT_SUCCESS;
    if (step->dep_lane < 0 || (uint32_t)step->dep_lane >= s->nlanes)
        return bad(f, "depends on lane %d, there are %u lanes", step->dep_lane, s->nlanes);
    if ((uint32_t)step->dep_lane == f->lane)
        return bad(f, "depends on a step of its own lane");
    if (step->dep_step >= s->lanes[step->dep_lane].nsteps)
        return bad(f, "depends on a step that lane %d does not have", step->dep_lane);
    return WEFT_SUCCESS;
}

static weft_status check_step(struct form *f, const struct wi_step *step)
{
    const struct wi_sched *s = f->sched;
    const struct wi_lane *lane = &s->lanes[f->lane];

    if (step->kind >= WI_NUM_STEP_KINDS)
        return bad(f, "unknown kind %u", step->kind);
    if (!count_ok(step->ndst, shapes[step->kind].ndst) || !count_ok(step->nsrc, shapes[step->kind].nsrc) ||
        step->ndst > WI_SCHED_MAX_OPERANDS || step->nsrc > WI_SCHED_MAX_OPERANDS)
        return bad(f, "%u destinations and %u sources do not fit its kind", step->ndst, step->nsrc);
    if (step->flags & ~shapes[step->kind].flags)
        return bad(f, "flags %#x do not fit its kind", step->flags);
    if (wi_sched_is_send(step->kind) && lane->send_peer == WI_NO_PEER)
        return bad(f, "the lane has no peer to send to");
    if (wi_sched_is_recv(step->kind) && lane->recv_peer == WI_NO_PEER)
        return bad(f, "the lane has no peer to receive from");
    if (s->mapped && (wi_sched_is_send(step->kind) || wi_sched_is_recv(step->kind)))
        return bad(f, "a two-sided step in a schedule with mapped steps");
    WI_TRY(check_regions(f, step));
    WI_TRY(check_signal(f, step));
    return check_dependency(f, step);
}

static weft_status check_peer(const struct form *f, const char *what, int peer)
{
    const struct wi_sched *s = f->sched;

    if (peer == WI_NO_PEER)
        return WEFT_SUCCESS;
    if (peer < 0 || peer >= s->nranks)
        return bad(f, "%s peer %d is not one of %d ranks", what, peer, s->nranks);
    if (peer == s->rank)
        return bad(f, "%s peer is the rank itself", what);
    return WEFT_SUCCESS;
}

static weft_status check_lane(const struct form *f)
{
    const struct wi_sched *s = f->sched;
    const struct wi_lane *l = &s->lanes[f->lane];

    WI_TRY(check_peer(f, "send", l->send_peer));
    WI_TRY(check_peer(f, "receive", l->recv_peer));
    if (l->chan >= WI_SCHED_MAX_CHANS && !s->draft)
        return bad(f, "channel %u, there are %d", l->chan, WI_SCHED_MAX_CHANS);
    if (l->first_step > s->nsteps || l->nsteps > s->nsteps - l->first_step)
        return bad(f, "its steps are not among the schedule's %u", s->nsteps);
    if (s->mapped && (l->send_peer != WI_NO_PEER || l->recv_peer != WI_NO_PEER))
        return bad(f, "a lane with peers in a schedule with mapped steps");
    for (uint32_t i = 0; i < f->lane; i++) {
        const struct wi_lane *o = &s->lanes[i];
        if (o->chan != l->chan)
            continue;
        if (l->send_peer != WI_NO_PEER && o->send_peer == l->send_peer)
            return bad(f, "lane %u sends to rank %d on channel %u too", i, l->send_peer, l->chan);
        if (l->recv_peer != WI_NO_PEER && o->recv_peer == l->recv_peer)
            return bad(f, "lane %u receives from rank %d on channel %u too", i, l->recv_peer, l->chan);
    }
    return WEFT_SUCCESS;
}

static weft_status check_cycles(struct form *f)
{
    const struct wi_sched *s = f->sched;

    if (s->nlanes < 2)
        return WEFT_SUCCESS;
    uint32_t *order = wi_malloc((s->nsteps + 1) * sizeof(*order));
    if (!order)
        return wi_fail(WEFT_ENOMEM, "schedule %s/%s: no memory to order %u steps", wi_coll_name(s->coll), s->algo,
                       s->nsteps);
    int64_t n = wi_sched_order(s, order);
    wi_free(order);
    if (n < 0)
        return wi_fail(WEFT_ENOMEM, "schedule %s/%s: no memory to order %u lanes", wi_coll_name(s->coll), s->algo,
                       s->nlanes);
    if (n == s->nsteps)
        return WEFT_SUCCESS;
    f->lane = f->step = WI_NOWHERE;
    return bad(f, "the dependencies of %u steps go round in a circle", s->nsteps - (uint32_t)n);
}

static weft_status check_packs(const struct form *f)
{
    const struct wi_sched *s = f->sched;

    if (s->buf_blocks[WI_PACK] && !s->lossy)
        return bad(f, "it has images, and says that it loses nothing");
    for (uint32_t i = 0; i < s->buf_blocks[WI_PACK]; i++) {
        const struct wi_pack *p = &s->packs[i];
        if (p->buf > WI_DST || p->block >= s->buf_blocks[p->buf])
            return bad(f, "pack[%u:1] is of %s[%u:1], which is out of bounds", i,
                       p->buf < WI_NUM_BUFS ? wi_sched_buf_names[p->buf] : "?", p->block);
        if (p->residual != WI_NO_RESIDUAL && p->residual >= WI_SCHED_RESIDUALS)
            return bad(f, "pack[%u:1] has residual %u, there are %d", i, p->residual, WI_SCHED_RESIDUALS);
    }
    return WEFT_SUCCESS;
}

weft_status wi_sched_form(const struct wi_sched *s, struct wi_sched_place *place)
{
    struct form f = {.sched = s, .place = place, .lane = WI_NOWHERE, .step = WI_NOWHERE};

    if (s->mapped && s->nlanes > WI_SCHED_MAX_MAPPED_LANES && !s->draft)
        return bad(&f, "%u lanes, at most %d with mapped steps", s->nlanes, WI_SCHED_MAX_MAPPED_LANES);
    WI_TRY(check_packs(&f));
    for (f.lane = 0; f.lane < s->nlanes; f.lane++) {
        f.step = WI_NOWHERE;
        WI_TRY(check_lane(&f));
    }
    for (f.lane = 0; f.lane < s->nlanes; f.lane++) {
        const struct wi_lane *l = &s->lanes[f.lane];
        f.ordinal = 0;
        for (f.step = 0; f.step < l->nsteps; f.step++)
            WI_TRY(check_step(&f, &s->steps[l->first_step + f.step]));
    }
    return check_cycles(&f);
}
