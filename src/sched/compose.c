/* SPDX-License-Identifier: BSD-3-Clause */
/* Composition: lanes, order, and the writing of parts into a builder. */
#include "sched/compose_part.h"

#include <string.h>

#include "base/alloc.h"
#include "base/status.h"

#define NONE UINT32_MAX
#define NOT_SEEN (-2)

struct where {
    uint32_t lane, step; /* of the whole; lane NONE: nowhere yet */
};

struct sent;

/* A lane of the whole. Lanes without peers are identified by phase and number. */
struct lane_key {
    int32_t send, recv;
    uint32_t chan, phase, number;
};

struct wi_compose {
    uint32_t page_items, scratch_page, pages, images;
    struct wi_part_state *part;
    uint32_t nparts, capacity;
    /* While writing. */
    struct wi_sched_builder *b;
    uint8_t split[WI_SCHED_MAX_CHANS];
    struct lane_key *lane;
    uint32_t nlanes, lane_capacity;
    struct wi_pieces pieces;
    struct where *touched; /* by this phase of this chunk: the newest step of each lane */
    uint32_t ntouched, touched_capacity;
    struct sent *sent;
    uint32_t nsent, sent_capacity;
    struct where *got; /* the pieces of one step */
    uint32_t got_capacity;
    struct where after; /* what this phase waits for */
    uint32_t chunk, phase;
};

weft_status wi_compose_create(uint32_t page_items, uint32_t scratch_page, struct wi_compose **compose)
{
    struct wi_compose *c = wi_calloc(1, sizeof(*c));

    if (!c)
        return wi_fail(WEFT_ENOMEM, "composition");
    c->page_items = page_items;
    c->scratch_page = scratch_page;
    *compose = c;
    return WEFT_SUCCESS;
}

void wi_compose_destroy(struct wi_compose *c)
{
    if (!c)
        return;
    for (uint32_t i = 0; i < c->nparts; i++)
        wi_part_fini(&c->part[i]);
    wi_free(c->part);
    wi_free(c->lane);
    wi_free(c->pieces.region);
    wi_free(c->touched);
    wi_free(c->sent);
    wi_free(c->got);
    wi_free(c);
}

/* Room for one more in an array that doubles. */
static weft_status more(void **array, uint32_t *capacity, uint32_t n, size_t elem_bytes)
{
    uint32_t want = *capacity ? 2 * *capacity : 8;
    void *p;

    if (n < *capacity)
        return WEFT_SUCCESS;
    p = wi_realloc(*array, want * elem_bytes);
    if (!p)
        return wi_fail(WEFT_ENOMEM, "composition: no memory for %u entries", want);
    *array = p;
    *capacity = want;
    return WEFT_SUCCESS;
}

weft_status wi_compose_add(struct wi_compose *c, const struct wi_part *part)
{
    if (part->sched->mapped)
        return wi_fail(WEFT_EINVAL, "composition: %s/%s is not two-sided", wi_coll_name(part->sched->coll),
                       part->sched->algo);
    WI_TRY(more((void **)&c->part, &c->capacity, c->nparts, sizeof(*c->part)));
    WI_TRY(wi_part_init(&c->part[c->nparts], part));
    if (c->part[c->nparts].pages > c->pages)
        c->pages = c->part[c->nparts].pages;
    c->part[c->nparts].pack_first = c->images;
    c->images += wi_part_images(&c->part[c->nparts]);
    c->nparts++;
    return WEFT_SUCCESS;
}

uint32_t wi_compose_tmp_blocks(const struct wi_compose *c)
{
    return (c->scratch_page + c->pages) * c->page_items;
}

uint32_t wi_compose_pack_blocks(const struct wi_compose *c)
{
    return c->images;
}

/* ---- Lanes ---- */

static int32_t whole_rank(const struct wi_part *p, int32_t peer)
{
    return peer == WI_NO_PEER ? WI_NO_PEER : p->ranks[peer];
}

static uint32_t whole_chan(const struct wi_part *p, const struct wi_lane *l)
{
    return (p->chan + l->chan) % WI_SCHED_MAX_CHANS;
}

/* Note that `other` goes with `peer`; 1 if another one goes with it already. */
static int meets_another(int32_t *with, int32_t peer, int32_t other)
{
    if (peer == WI_NO_PEER)
        return 0;
    if (with[peer] == NOT_SEEN)
        with[peer] = other;
    return with[peer] != other;
}

/* Does a message of the part go in several pieces? Then sending and receiving are taken apart too. */
static weft_status sends_pieces(struct wi_compose *c, const struct wi_part_state *s, const struct wi_lane *l,
                                uint8_t *is)
{
    for (uint32_t i = 0; i < l->nsteps && !*is; i++) {
        const struct wi_step *step = &s->part.sched->steps[l->first_step + i];
        if (!wi_sched_is_send(step->kind) && !wi_sched_is_recv(step->kind))
            continue;
        WI_TRY(wi_part_pieces(s, step, c->page_items, c->scratch_page, &c->pieces));
        *is |= c->pieces.n > 1;
    }
    return WEFT_SUCCESS;
}

/* Channels on which a lane to or from a peer would be needed twice, or that carry messages in pieces. */
static weft_status find_splits(struct wi_compose *c)
{
    size_t n = (size_t)c->b->head.nranks, all = 2 * n * WI_SCHED_MAX_CHANS;
    int32_t *with = wi_malloc(all * sizeof(*with));
    weft_status st = WEFT_SUCCESS;

    if (!with)
        return wi_fail(WEFT_ENOMEM, "composition: no memory for the peers of %zu ranks", n);
    for (size_t i = 0; i < all; i++)
        with[i] = NOT_SEEN;
    for (uint32_t i = 0; i < c->nparts && st >= 0; i++) {
        const struct wi_part *p = &c->part[i].part;
        for (uint32_t k = 0; k < p->sched->nlanes && st >= 0; k++) {
            const struct wi_lane *l = &p->sched->lanes[k];
            uint32_t chan = whole_chan(p, l);
            int32_t send = whole_rank(p, l->send_peer), recv = whole_rank(p, l->recv_peer);
            c->split[chan] |= (uint8_t)meets_another(with + 2 * n * chan, send, recv);
            c->split[chan] |= (uint8_t)meets_another(with + 2 * n * chan + n, recv, send);
            if (p->chunk == 0)
                st = sends_pieces(c, &c->part[i], l, &c->split[chan]);
        }
    }
    wi_free(with);
    return st;
}

static weft_status lane_of(struct wi_compose *c, struct lane_key key, uint32_t *lane)
{
    int local = key.send == WI_NO_PEER && key.recv == WI_NO_PEER;

    for (*lane = 0; *lane < c->nlanes; (*lane)++) {
        const struct lane_key *l = &c->lane[*lane];
        if (l->send == key.send && l->recv == key.recv &&
            (local ? l->phase == key.phase && l->number == key.number : l->chan == key.chan))
            return WEFT_SUCCESS;
    }
    WI_TRY(more((void **)&c->lane, &c->lane_capacity, c->nlanes, sizeof(*c->lane)));
    c->lane[c->nlanes++] = key;
    wi_sched_lane(c->b, key.send, key.recv, local ? 0 : key.chan);
    return WEFT_SUCCESS;
}

/* ---- Phases ---- */

static weft_status touch(struct wi_compose *c, struct where at)
{
    for (uint32_t i = c->ntouched; i-- > 0;) {
        if (c->touched[i].lane == at.lane) {
            c->touched[i].step = at.step;
            return WEFT_SUCCESS;
        }
    }
    WI_TRY(more((void **)&c->touched, &c->touched_capacity, c->ntouched, sizeof(*c->touched)));
    c->touched[c->ntouched++] = at;
    return WEFT_SUCCESS;
}

static uint32_t add_nop(struct wi_compose *c, uint32_t lane)
{
    struct wi_step nop = {.kind = WI_STEP_NOP, .dep_lane = WI_NO_DEP, .peer = WI_NO_PEER};

    return wi_sched_step_add(c->b, lane, &nop, NULL, NULL);
}

/* What the next phase waits for: one step that comes after all of this one. */
static weft_status end_phase(struct wi_compose *c)
{
    uint32_t lane;

    if (c->ntouched == 1)
        c->after = c->touched[0];
    if (c->ntouched > 1) {
        WI_TRY(lane_of(c, (struct lane_key){WI_NO_PEER, WI_NO_PEER, 0, c->phase, NONE}, &lane));
        for (uint32_t i = 0; i < c->ntouched; i++) {
            c->after = (struct where){lane, add_nop(c, lane)};
            wi_sched_after(c->b, lane, c->touched[i].lane, c->touched[i].step);
        }
    }
    c->ntouched = 0;
    return WEFT_SUCCESS;
}

/* ---- Steps ---- */

static int same_place(const struct wi_region *a, const struct wi_region *b)
{
    return a->buf == b->buf && a->first == b->first;
}

/* One half, or all, of a step for one piece. */
static uint32_t add_piece(struct wi_compose *c, uint32_t lane, unsigned kind, unsigned flags,
                          const struct wi_step *step, const struct wi_region *r)
{
    const struct wi_region *dst = r, *src = r + step->ndst;

    switch (kind) {
    case WI_STEP_SEND:
        return wi_sched_send(c->b, lane, step->ndst ? *dst : *src);
    case WI_STEP_RECV:
        return wi_sched_recv(c->b, lane, *dst);
    case WI_STEP_RECV_REDUCE:
        return wi_sched_recv_reduce(c->b, lane, *dst, *src, flags);
    case WI_STEP_RECV_SEND:
        return wi_sched_recv_send(c->b, lane, *dst);
    case WI_STEP_RECV_REDUCE_SEND:
        return wi_sched_recv_reduce_send(c->b, lane, *dst, *src, flags);
    case WI_STEP_COPY: /* scratch that lies in DST is there already */
        return step->ndst == 1 && same_place(dst, src) ? add_nop(c, lane)
                                                       : wi_sched_copy_to(c->b, lane, dst, step->ndst, *src);
    default:
        return wi_sched_reduce(c->b, lane, dst, step->ndst, src, step->nsrc, flags);
    }
}

/* One lane of a part while it is written. */
struct lane_state {
    uint32_t send_lane, recv_lane; /* of the whole; the same unless split */
    struct where newest;           /* what the next step of the lane comes after; lane NONE: no step yet */
    struct where opened[2];        /* split: what came before the sends that are noted below */
    int strict; /* split: one of those sends comes after something else, and so does what follows it */
};

/* Split lanes: a piece that was sent since the lane last received. A receive need not wait for the send before it, except where
 * it overwrites what is being sent: both ends of an exchange in several pieces would wait for each other. */
struct sent {
    struct wi_region region;
    struct where at;
    struct lane_state *by;
};

static weft_status note_sent(struct wi_compose *c, struct lane_state *ls, const struct wi_region *r)
{
    WI_TRY(more((void **)&c->sent, &c->sent_capacity, c->nsent, sizeof(*c->sent)));
    c->sent[c->nsent++] = (struct sent){*r, ls->newest, ls};
    return WEFT_SUCCESS;
}

static void wait_for(struct wi_compose *c, uint32_t lane, struct where at)
{
    if (at.lane != NONE && at.lane != lane)
        wi_sched_after(c->b, lane, at.lane, at.step);
}

/* The newest step of the receiving lane overwrites `r`. */
static void wait_for_overlapping(struct wi_compose *c, const struct lane_state *ls, const struct wi_region *r)
{
    for (uint32_t i = c->nsent; i-- > 0;) {
        const struct wi_region *o = &c->sent[i].region;
        if (c->sent[i].by == ls && o->buf == r->buf && o->first < r->first + r->count &&
            r->first < o->first + o->count) {
            wait_for(c, ls->recv_lane, c->sent[i].at);
            return; /* sends are in order */
        }
    }
}

/* Those `n` sends are behind whatever comes after this receive. */
static weft_status join_sends(struct wi_compose *c, struct lane_state *ls, uint32_t n)
{
    struct where last = {NONE, 0};
    uint32_t kept = 0;

    for (uint32_t i = 0; i < c->nsent; i++) {
        if (i < n && c->sent[i].by == ls)
            last = c->sent[i].at;
        else
            c->sent[kept++] = c->sent[i];
    }
    c->nsent = kept;
    if (last.lane == NONE)
        return WEFT_SUCCESS;
    struct where nop = {ls->recv_lane, add_nop(c, ls->recv_lane)};
    wait_for(c, nop.lane, last);
    if (ls->newest.lane == ls->recv_lane)
        ls->newest = nop;
    return touch(c, nop);
}

/* Add a step that comes after the lane's newest one, and after `dep`. */
static weft_status put(struct wi_compose *c, struct lane_state *ls, uint32_t lane, uint32_t step, struct where dep)
{
    if (dep.lane != NONE)
        wi_sched_after(c->b, lane, dep.lane, dep.step);
    wait_for(c, lane, ls->newest);
    ls->newest = (struct where){lane, step};
    return touch(c, ls->newest);
}

static weft_status put_send(struct wi_compose *c, struct lane_state *ls, unsigned kind, unsigned flags,
                            const struct wi_step *step, const struct wi_region *r, struct where dep)
{
    WI_TRY(put(c, ls, ls->send_lane, add_piece(c, ls->send_lane, kind, flags, step, r), dep));
    return kind == WI_STEP_SEND ? note_sent(c, ls, r) : WEFT_SUCCESS;
}

static int has_sent(const struct wi_compose *c, const struct lane_state *ls, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (c->sent[i].by == ls)
            return 1;
    }
    return 0;
}

/* All pieces of a step in a lane taken apart: first what is received, then what is sent on. */
static weft_status put_split(struct wi_compose *c, struct lane_state *ls, const struct wi_step *step, unsigned flags,
                             struct where dep)
{
    uint32_t before = c->nsent, n = c->pieces.n, width = c->pieces.nregions;
    unsigned receiving = step->kind == WI_STEP_RECV_SEND          ? WI_STEP_RECV
                         : step->kind == WI_STEP_RECV_REDUCE_SEND ? WI_STEP_RECV_REDUCE
                                                                  : step->kind;

    if (!wi_sched_is_recv(step->kind)) {
        if (!has_sent(c, ls, before)) {
            ls->opened[0] = dep;
            ls->opened[1] = ls->newest;
            ls->strict = 0;
        } else if (dep.lane != NONE) {
            ls->strict = 1;
        }
        for (uint32_t i = 0; i < n; i++)
            WI_TRY(put_send(c, ls, step->kind, flags, step, &c->pieces.region[i * width], dep));
        return WEFT_SUCCESS;
    }
    int relaxed = has_sent(c, ls, before) && !ls->strict;
    for (uint32_t i = 0; i < n; i++) {
        const struct wi_region *r = &c->pieces.region[i * width];
        struct where at = {ls->recv_lane, add_piece(c, ls->recv_lane, receiving, flags, step, r)};
        wait_for(c, at.lane, i ? (struct where){NONE, 0} : dep);
        wait_for(c, at.lane, i ? (struct where){NONE, 0} : relaxed ? ls->opened[0] : ls->newest);
        wait_for(c, at.lane, i || !relaxed ? (struct where){NONE, 0} : ls->opened[1]);
        wait_for_overlapping(c, ls, r);
        WI_TRY(touch(c, at));
        c->got[i] = at;
    }
    ls->newest = c->got[n - 1];
    WI_TRY(join_sends(c, ls, before));
    if (!wi_sched_is_send(step->kind))
        return WEFT_SUCCESS;
    ls->opened[0] = (struct where){NONE, 0};
    ls->opened[1] = c->got[n - 1];
    ls->strict = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct where at = {ls->send_lane, wi_sched_send(c->b, ls->send_lane, c->pieces.region[i * width])};
        wait_for(c, at.lane, c->got[i]);
        WI_TRY(touch(c, at));
        ls->newest = at;
        WI_TRY(note_sent(c, ls, &c->pieces.region[i * width]));
    }
    return WEFT_SUCCESS;
}

static weft_status put_pieces(struct wi_compose *c, struct lane_state *ls, const struct wi_step *step, unsigned flags,
                              struct where dep)
{
    uint32_t lane = ls->send_lane;

    if (!c->pieces.n) { /* other steps may still wait for it */
        ls->strict = 1;
        return put(c, ls, lane, add_nop(c, lane), dep);
    }
    if (ls->send_lane != ls->recv_lane) {
        while (c->got_capacity < c->pieces.n)
            WI_TRY(more((void **)&c->got, &c->got_capacity, c->got_capacity, sizeof(*c->got)));
        return put_split(c, ls, step, flags, dep);
    }
    for (uint32_t i = 0; i < c->pieces.n; i++) {
        const struct wi_region *r = &c->pieces.region[i * c->pieces.nregions];
        WI_TRY(put(c, ls, lane, add_piece(c, lane, step->kind, flags, step, r), dep));
        dep.lane = NONE;
    }
    return WEFT_SUCCESS;
}

static weft_status open_lane(struct wi_compose *c, const struct wi_part *p, uint32_t number, struct lane_state *ls)
{
    const struct wi_lane *l = &p->sched->lanes[number];
    struct lane_key key = {whole_rank(p, l->send_peer), whole_rank(p, l->recv_peer), whole_chan(p, l), p->phase,
                           number};
    struct lane_key out = key, in = key;

    ls->newest.lane = ls->opened[0].lane = ls->opened[1].lane = NONE;
    ls->strict = 0;
    if (c->split[key.chan] && key.send != WI_NO_PEER && key.recv != WI_NO_PEER) {
        out.recv = WI_NO_PEER;
        in.send = WI_NO_PEER;
    }
    WI_TRY(lane_of(c, out, &ls->send_lane));
    return lane_of(c, in, &ls->recv_lane);
}

static weft_status write_step(struct wi_compose *c, const struct wi_part_state *s, struct lane_state *lanes,
                              uint32_t lane, uint32_t index, struct where *done)
{
    const struct wi_sched *sched = s->part.sched;
    const struct wi_step *step = &sched->steps[index];
    unsigned flags = step->flags & (s->part.final ? WI_STEP_FINAL | WI_STEP_RECV_LEFT : WI_STEP_RECV_LEFT);
    struct lane_state *ls = &lanes[lane];
    struct where dep = {NONE, 0};

    if (step->dep_lane >= 0)
        dep = done[sched->lanes[step->dep_lane].first_step + step->dep_step];
    else if (ls->newest.lane == NONE)
        dep = c->after;
    c->pieces.n = 0;
    if (step->ndst + step->nsrc)
        WI_TRY(wi_part_pieces(s, step, c->page_items, c->scratch_page, &c->pieces));
    WI_TRY(put_pieces(c, ls, step, flags, dep));
    done[index] = ls->newest;
    return WEFT_SUCCESS;
}

static uint32_t lane_with(const struct wi_sched *sched, uint32_t index)
{
    uint32_t low = 0, high = sched->nlanes;

    while (high - low > 1) {
        uint32_t mid = (low + high) / 2;
        if (sched->lanes[mid].first_step <= index)
            low = mid;
        else
            high = mid;
    }
    return low;
}

static weft_status write_part(struct wi_compose *c, const struct wi_part_state *s)
{
    const struct wi_sched *sched = s->part.sched;
    size_t n = sched->nsteps;
    uint32_t *order = wi_malloc((n + 1) * sizeof(*order));
    struct where *done = wi_malloc((n + 1) * sizeof(*done));
    struct lane_state *lanes = wi_malloc((sched->nlanes + (size_t)1) * sizeof(*lanes));
    weft_status st = WEFT_SUCCESS;

    c->nsent = 0;
    if (!order || !done || !lanes || wi_sched_order(sched, order) < 0)
        st = wi_fail(WEFT_ENOMEM, "composition: no memory for a part of %zu steps", n);
    for (uint32_t i = 0; i < sched->nlanes && st >= 0; i++)
        st = open_lane(c, &s->part, i, &lanes[i]);
    for (size_t i = 0; i < n && st >= 0; i++)
        st = write_step(c, s, lanes, lane_with(sched, order[i]), order[i], done);
    wi_free(order);
    wi_free(done);
    wi_free(lanes);
    return st;
}

weft_status wi_compose_write(struct wi_compose *c, struct wi_sched_builder *b)
{
    c->b = b;
    c->nlanes = c->ntouched = 0;
    c->after.lane = NONE;
    memset(c->split, 0, sizeof(c->split));
    WI_TRY(find_splits(c));
    for (uint32_t i = 0; i < c->nparts; i++)
        wi_part_name_images(&c->part[i], (enum wi_coll)b->head.coll, b);
    for (uint32_t i = 0; i < c->nparts; i++) {
        const struct wi_part *p = &c->part[i].part;
        if (i && (p->chunk != c->chunk || p->phase != c->phase))
            WI_TRY(end_phase(c));
        if (i && p->chunk != c->chunk)
            c->after.lane = NONE;
        c->chunk = p->chunk;
        c->phase = p->phase;
        WI_TRY(write_part(c, &c->part[i]));
    }
    return WEFT_SUCCESS;
}
