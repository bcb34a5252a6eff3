/* SPDX-License-Identifier: BSD-3-Clause */
/* The interpreter's entry: draw a run, choose who acts, judge. */
#include "interp_internal.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static uint64_t draw(struct interp *m)
{
    m->rng ^= m->rng << 13;
    m->rng ^= m->rng >> 7;
    m->rng ^= m->rng << 17;
    return m->rng;
}

uint32_t interp_random(struct interp *m, uint32_t below)
{
    return (uint32_t)((draw(m) >> 32) * below >> 32);
}

void interp_wrong(struct interp *m, const char *format, ...)
{
    va_list ap;

    if (m->wrong[0])
        return;
    va_start(ap, format);
    vsnprintf(m->wrong, sizeof m->wrong, format, ap);
    va_end(ap);
}

/* ---- Creation ---- */

static int other_end(const struct interp *m, const struct lane *l, int send)
{
    int peer = send ? l->def->send_peer : l->def->recv_peer;

    for (uint32_t i = peer < 0 ? m->nlanes : m->first_lane[peer]; peer >= 0 && i < m->first_lane[peer + 1]; i++) {
        const struct wi_lane *o = m->lanes[i].def;
        if (o->chan == l->def->chan && (send ? o->recv_peer : o->send_peer) == l->rank)
            return (int)i;
    }
    return -1;
}

/* Elements and messages that a lane can have sent, received or be working on. */
static int size_lane(struct interp *m, struct lane *l)
{
    uint32_t widest = 0;

    for (uint32_t i = 0; i < l->def->nsteps; i++) {
        const struct wi_step *st = &l->steps[i];
        if (st->ndst + st->nsrc == 0)
            continue;
        uint32_t blocks = m->ranks[l->rank].sched->regions[st->ndst ? st->dst : st->src].count;
        widest = blocks > widest ? blocks : widest;
        l->capacity += blocks * MAX_SLICES;
        m->arena_room += 2ull * blocks * MAX_BLOCK;
    }
    l->sent = calloc(l->capacity + 1, sizeof *l->sent);
    l->temp = calloc((size_t)widest * MAX_BLOCK + 1, sizeof *l->temp);
    return l->sent && l->temp ? 0 : -1;
}

static int create_lanes(struct interp *m)
{
    m->lanes = calloc(m->nlanes + 1, sizeof *m->lanes);
    for (int r = 0; m->lanes && r < m->nranks; r++) {
        const struct wi_sched *s = m->ranks[r].sched;
        for (uint32_t i = 0; i < s->nlanes; i++) {
            struct lane *l = &m->lanes[m->first_lane[r] + i];
            *l = (struct lane){.def = &s->lanes[i], .steps = s->steps + s->lanes[i].first_step, .rank = r, .index = i};
            if (size_lane(m, l))
                return -1;
        }
    }
    for (uint32_t i = 0; m->lanes && i < m->nlanes; i++) {
        m->lanes[i].to = other_end(m, &m->lanes[i], 1);
        m->lanes[i].from = other_end(m, &m->lanes[i], 0);
    }
    m->arena = calloc(m->arena_room + 1, sizeof *m->arena);
    m->nactors = m->nlanes + (uint32_t)m->nranks;
    m->actor_at = calloc(m->nactors, sizeof *m->actor_at);
    m->place_of = calloc(m->nactors, sizeof *m->place_of);
    m->idle = calloc(m->nactors, 1);
    return m->lanes && m->arena && m->actor_at && m->place_of && m->idle ? 0 : -1;
}

struct interp *interp_create(const struct wi_sched *const scheds[], int nranks, int ordered)
{
    struct interp *m = nranks <= INTERP_MAX_RANKS ? calloc(1, sizeof *m) : NULL;

    if (!m)
        return NULL;
    m->nranks = nranks;
    m->ordered = ordered;
    m->coll = scheds[0]->coll;
    m->root = scheds[0]->root;
    m->in_place = scheds[0]->in_place;
    m->cut = scheds[0]->nblocks;
    m->vector = m->coll == WI_COLL_ALL_REDUCE || m->coll == WI_COLL_REDUCE || m->coll == WI_COLL_BROADCAST ||
                m->coll == WI_COLL_SCAN || m->coll == WI_COLL_EXSCAN;
    for (int r = 0; r < nranks; r++) {
        m->ranks[r].sched = scheds[r];
        m->mapped += scheds[r]->mapped;
        m->can_ll += scheds[r]->ll;
        m->first_lane[r] = m->nlanes;
        m->nlanes += scheds[r]->nlanes;
    }
    m->first_lane[nranks] = m->nlanes;
    if (m->mapped && m->mapped < nranks)
        interp_wrong(m, "some ranks count epochs, others do not");
    m->can_ll = m->can_ll == nranks;
    m->tmp_blocks = scheds[0]->buf_blocks[WI_TMP];
    if (interp_memory_create(m) || create_lanes(m)) {
        interp_destroy(m);
        return NULL;
    }
    return m;
}

void interp_destroy(struct interp *m)
{
    if (!m)
        return;
    interp_memory_destroy(m);
    for (uint32_t i = 0; m->lanes && i < m->nlanes; i++) {
        free(m->lanes[i].sent);
        free(m->lanes[i].temp);
    }
    free(m->lanes);
    free(m->arena);
    free(m->actor_at);
    free(m->place_of);
    free(m->idle);
    free(m);
}

/* ---- A run ---- */

static void draw_geometry(struct interp *m)
{
    uint32_t few = m->cut < 3 ? m->cut : 3, form = interp_random(m, 8);

    m->block = form < 4 ? 1 : form < 6 ? 2 : MAX_BLOCK;
    m->slice = form == 5 ? 1 : form == 7 ? 2 : m->block;
    if (m->coll == WI_COLL_BARRIER)
        m->block = m->slice = 0;
    m->nslices = m->block ? (m->block + m->slice - 1) / m->slice : 1;
    m->total = (uint64_t)m->cut * m->block;
    if (m->total > 1 && interp_random(m, 2)) /* the last block is short, or some are empty */
        m->total -= 1 + interp_random(m, few * m->block - (few == m->cut ? 1 : 0));
    m->depth = 1u << interp_random(m, 3);
    m->strict = !m->mapped && m->nslices == 1 && interp_random(m, 3) == 0;
    m->early = (uint8_t)(interp_random(m, 2) ? interp_random(m, 5) : 4 * interp_random(m, 2));
    m->ahead = m->strict ? 1 : 1u << interp_random(m, 4);
    m->fused = interp_random(m, 2) != 0;
    m->split = interp_random(m, 2) != 0;
    m->ll = m->can_ll && interp_random(m, 2);
    m->ll_in_place = interp_random(m, 2) != 0;
}

static void reset_lanes(struct interp *m)
{
    for (uint32_t i = 0; i < m->nlanes; i++) {
        struct lane *l = &m->lanes[i];
        l->step = l->slice = l->piece = l->post_step = l->post_slice = l->post_piece = 0;
        l->nrecvs = l->nlanded = l->nsent = l->ntaken = l->ndelivered = l->phase = 0;
        l->signal = 0;
        l->gated = l->done = 0;
    }
    for (int r = 0; r < m->nranks; r++) {
        m->ranks[r].state = RANK_OUTSIDE;
        m->ranks[r].lanes_left = m->ranks[r].sched->nlanes;
        m->ranks[r].slices_done = 0;
    }
}

/* The order of steps: each drawn at random of all ranks, or whole ranks one after the other. */
static void draw_priorities(struct interp *m, int by_rank)
{
    uint32_t n = 0, order[INTERP_MAX_RANKS];

    for (int r = 0; r < m->nranks; r++) {
        uint32_t k = interp_random(m, (uint32_t)r + 1);
        order[r] = order[k];
        order[k] = (uint32_t)r;
    }
    for (int r = 0; r < m->nranks; r++) {
        for (uint32_t i = m->first_lane[order[r]]; i < m->first_lane[order[r] + 1]; i++)
            m->actor_at[n++] = i;
        m->actor_at[n++] = m->nlanes + order[r];
    }
    for (uint32_t i = 1; !by_rank && i < n; i++) {
        uint32_t k = interp_random(m, i + 1), was = m->actor_at[i];
        m->actor_at[i] = m->actor_at[k];
        m->actor_at[k] = was;
    }
    for (uint32_t i = 0; i < n; i++)
        m->place_of[m->actor_at[i]] = i;
    memset(m->idle, 0, n);
}

static void wake(struct interp *m, uint32_t actor)
{
    m->idle[m->place_of[actor]] = 0;
}

static void wake_rank(struct interp *m, int rank)
{
    for (uint32_t i = m->first_lane[rank]; i < m->first_lane[rank + 1]; i++)
        wake(m, i);
}

static void leave(struct interp *m, int rank)
{
    m->ranks[rank].state = RANK_LEFT;
    for (int r = 0; m->coll == WI_COLL_BARRIER && r < m->nranks; r++) {
        if (m->ranks[r].state == RANK_OUTSIDE)
            interp_wrong(m, "rank %d leaves the barrier before rank %d has entered it", rank, r);
    }
}

void interp_lane_done(struct interp *m, struct lane *l)
{
    l->done = 1;
    if (--m->ranks[l->rank].lanes_left == 0)
        leave(m, l->rank);
}

static int enter(struct interp *m, int rank)
{
    if (m->ranks[rank].state != RANK_OUTSIDE)
        return 0;
    m->ranks[rank].state = RANK_INSIDE;
    if (m->ranks[rank].lanes_left == 0)
        leave(m, rank);
    wake_rank(m, rank);
    return 1;
}

static int lane_acts(struct interp *m, struct lane *l)
{
    int moved;

    if (m->ranks[l->rank].state == RANK_OUTSIDE || l->done)
        return 0;
    m->wake = 0;
    moved = !m->mapped ? interp_two_sided(m, l) : m->ll ? interp_ll(m, l) : interp_mapped(m, l);
    if (!moved)
        return 0;
    if (m->wake & WAKE_RANK)
        wake_rank(m, l->rank);
    if (m->wake & WAKE_TO && l->to >= 0)
        wake(m, (uint32_t)l->to);
    if (m->wake & WAKE_FROM) /* its lane may send again, and what was being sent may be overwritten */
        wake_rank(m, m->lanes[l->from].rank);
    if (m->wake & WAKE_ALL)
        memset(m->idle, 0, m->nactors);
    return 1;
}

static int acts(struct interp *m, uint32_t place)
{
    uint32_t actor = m->actor_at[place];
    int moved = actor < m->nlanes ? lane_acts(m, &m->lanes[actor]) : enter(m, (int)(actor - m->nlanes));

    m->idle[place] = !moved;
    return moved;
}

static uint32_t next_place(struct interp *m, uint32_t from)
{
    const uint8_t *at = memchr(m->idle + from, 0, m->nactors - from);

    if (!at && from)
        at = memchr(m->idle, 0, from);
    return at ? (uint32_t)(at - m->idle) : UINT32_MAX;
}

/* Priorities, changed now and then; or anybody, for one action or many. */
static void run_actors(struct interp *m)
{
    int by_priority = interp_random(m, 2) == 0;
    uint32_t change = by_priority ? 16 + interp_random(m, 64) : 0, burst = interp_random(m, 2) ? 1 : 12, place;
    uint64_t bound = 1000000 + 20000 * (uint64_t)m->nactors;

    draw_priorities(m, interp_random(m, 3) == 0);
    while (!m->wrong[0] && (place = next_place(m, by_priority ? 0 : interp_random(m, m->nactors))) != UINT32_MAX) {
        uint32_t n = by_priority ? 1 : 1 + interp_random(m, burst);
        while (n-- && acts(m, place) && !m->wrong[0])
            ;
        if (by_priority && interp_random(m, change) == 0)
            draw_priorities(m, interp_random(m, 3) == 0);
        if (--bound == 0)
            interp_wrong(m, "does not come to an end");
    }
}

static void judge(struct interp *m)
{
    for (int r = 0; r < m->nranks; r++) {
        if (m->ranks[r].state != RANK_LEFT)
            interp_wrong(m, "no progress: rank %d never leaves", r);
    }
    for (uint32_t i = 0; i < m->nlanes; i++) {
        if (m->lanes[i].ndelivered < m->lanes[i].nsent)
            interp_wrong(m, "a message of rank %d is never received", m->lanes[i].rank);
    }
    interp_results(m);
}

const char *interp_run(struct interp *m, uint64_t seed)
{
    if (m->mapped && m->mapped < m->nranks)
        return m->wrong;
    m->rng = (seed + 1) * 0x9e3779b97f4a7c15ull | 1;
    for (int i = 0; i < 4; i++)
        draw(m);
    m->wrong[0] = '\0';
    draw_geometry(m);
    interp_memory_reset(m);
    reset_lanes(m);
    run_actors(m);
    judge(m);
    return m->wrong[0] ? m->wrong : NULL;
}
