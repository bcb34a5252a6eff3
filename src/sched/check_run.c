/* SPDX-License-Identifier: BSD-3-Clause */
/* Run all lanes of all ranks until nothing moves. */
#include "sched/check_internal.h"

#include <string.h>

#include "base/alloc.h"
#include "base/status.h"

static const struct wi_region *regions_of(const struct wi_check *c, const struct wi_check_lane *l)
{
    return c->scheds[l->rank]->regions;
}

static void make_ready(struct wi_check *c, uint32_t lane)
{
    c->lanes[lane].state = WI_LANE_READY;
    c->lanes[lane].next = WI_NONE;
    if (c->ready == WI_NONE)
        c->ready = lane;
    else
        c->lanes[c->ready_tail].next = lane;
    c->ready_tail = lane;
}

/* `lane` can go on only after `blocker` has moved. */
static void block(struct wi_check *c, uint32_t lane, enum wi_lane_state state, uint32_t blocker)
{
    struct wi_check_lane *l = &c->lanes[lane];

    l->state = (uint8_t)state;
    l->blocker = blocker;
    if (state == WI_LANE_DEP || state == WI_LANE_WAIT || state == WI_LANE_OVERWRITE) {
        l->next = c->lanes[blocker].waiters;
        c->lanes[blocker].waiters = lane;
    }
}

static void wake_waiters(struct wi_check *c, uint32_t lane)
{
    uint32_t w = c->lanes[lane].waiters;

    c->lanes[lane].waiters = WI_NONE;
    while (w != WI_NONE) {
        uint32_t next = c->lanes[w].next;
        make_ready(c, w);
        w = next;
    }
}

/* The lane has received, but its step need not be over yet. */
static void wake_overwriters(struct wi_check *c, uint32_t lane)
{
    for (uint32_t w = c->lanes[lane].waiters; w != WI_NONE; w = c->lanes[w].next) {
        if (c->lanes[w].state == WI_LANE_OVERWRITE) {
            wake_waiters(c, lane);
            return;
        }
    }
}

/* Learn what `other` knew when its step `pos` was complete. */
static weft_status learn(struct wi_check *c, uint32_t lane, uint32_t other, uint32_t pos)
{
    const struct wi_saved *saved = &c->saved[c->lanes[other].first + pos];

    if (wi_clock_join(&c->lanes[lane].clock, saved->clock, other, 2 * pos + 2))
        return wi_check_nomem(c);
    return WEFT_SUCCESS;
}

/* ---- Local work ---- */

/* Images are moved from PACK to PACK as they are; what else goes there is encoded, once, whatever has it then. */
static weft_status store_all(struct wi_check *c, uint32_t lane, const struct wi_step *step, uint32_t i)
{
    const struct wi_check_lane *l = &c->lanes[lane];
    const struct wi_region *dst = &regions_of(c, l)[step->dst];
    int moves = c->scratch.coded;

    for (unsigned k = 0; k < step->ndst && !moves; k++)
        if (dst[k].buf == WI_PACK) {
            WI_TRY(wi_check_encode(c, lane, l->pos, &dst[k], i));
            break;
        }
    for (unsigned k = 0; k < step->ndst; k++) {
        c->scratch.coded = dst[k].buf == WI_PACK;
        if (c->scratch.coded != moves && wi_sched_is_recv(step->kind))
            return wi_check_fail(c, lane, l->pos,
                                 moves ? "receives an image as plain data" : "receives plain data as an image");
        WI_TRY(wi_check_store(c, lane, 2 * l->pos + 1, &dst[k], i));
    }
    if (c->notes)
        c->notes->blocks[c->notes->block_at[l->first + l->pos] + i] = c->scratch.block;
    return WEFT_SUCCESS;
}

static weft_status work_block(struct wi_check *c, uint32_t lane, const struct wi_step *step, uint32_t i)
{
    const struct wi_check_lane *l = &c->lanes[lane];
    uint64_t cell;

    for (unsigned k = 0; k < step->nsrc; k++) {
        WI_TRY(wi_check_load(c, lane, 2 * l->pos + 1, &regions_of(c, l)[step->src + k], i, &cell));
        if (k == 0)
            wi_check_take(c, &c->values[cell], &c->bits[cell * c->words]);
        else
            WI_TRY(wi_check_combine(c, lane, l->pos, &c->values[cell], &c->bits[cell * c->words], 0));
    }
    if (step->kind == WI_STEP_REDUCE)
        c->scratch.coded = 0;
    WI_TRY(wi_check_finish(c, lane, l->pos, step->flags));
    return store_all(c, lane, step, i);
}

static weft_status work(struct wi_check *c, uint32_t lane, const struct wi_step *step)
{
    uint32_t n = step->ndst ? regions_of(c, &c->lanes[lane])[step->dst].count : 0;

    for (uint32_t i = 0; c->data && i < n; i++)
        WI_TRY(work_block(c, lane, step, i));
    return WEFT_SUCCESS;
}

/* ---- Messages ---- */

static weft_status receive_block(struct wi_check *c, uint32_t lane, const struct wi_step *step, uint32_t i)
{
    const struct wi_check_lane *l = &c->lanes[lane];
    const struct wi_message *m = &l->inbox;
    uint64_t cell;

    if (step->nsrc == 0) {
        wi_check_take(c, &m->values[i], &m->bits[(size_t)i * c->words]);
        return store_all(c, lane, step, i);
    }
    if (m->values[i].coded)
        return wi_check_fail(c, lane, l->pos, "receives an image as plain data");
    WI_TRY(wi_check_load(c, lane, 2 * l->pos + 1, &regions_of(c, l)[step->src], i, &cell));
    wi_check_take(c, &c->values[cell], &c->bits[cell * c->words]);
    WI_TRY(wi_check_combine(c, lane, l->pos, &m->values[i], &m->bits[(size_t)i * c->words],
                            step->flags & WI_STEP_RECV_LEFT));
    WI_TRY(wi_check_finish(c, lane, l->pos, step->flags));
    return store_all(c, lane, step, i);
}

static weft_status receive(struct wi_check *c, uint32_t lane, const struct wi_step *step)
{
    struct wi_check_lane *l = &c->lanes[lane];
    struct wi_message *m = &l->inbox;

    if (wi_clock_join(&l->clock, m->clock, m->lane, m->time))
        return wi_check_nomem(c);
    for (uint32_t i = 0; c->data && i < m->count; i++)
        WI_TRY(receive_block(c, lane, step, i));
    wi_clock_put(m->clock);
    m->clock = NULL;
    m->full = 0;
    c->in_transit[c->lanes[l->from].rank]--;
    if (c->lanes[l->from].state == WI_LANE_SEND)
        make_ready(c, l->from);
    wake_overwriters(c, lane);
    return WEFT_SUCCESS;
}

static weft_status send(struct wi_check *c, uint32_t lane, const struct wi_step *step)
{
    struct wi_check_lane *l = &c->lanes[lane];
    struct wi_message *m = &c->lanes[l->to].inbox;
    const struct wi_region *r = &regions_of(c, l)[step->ndst ? step->dst : step->src];
    uint64_t cell;

    for (uint32_t i = 0; c->data && i < r->count; i++) {
        WI_TRY(wi_check_load(c, lane, 2 * l->pos + 2, r, i, &cell));
        m->values[i] = c->values[cell];
        if (c->notes)
            c->notes->blocks[c->notes->block_at[l->first + l->pos] + i] = c->values[cell].block;
        memcpy(&m->bits[(size_t)i * c->words], &c->bits[cell * c->words], c->words * sizeof(*m->bits));
    }
    m->count = r->count;
    m->from = wi_sched_canonical(c->scheds[l->rank], (int)l->rank, *r);
    c->in_transit[l->rank]++;
    m->lane = lane;
    m->time = 2 * l->pos + 2;
    m->clock = wi_clock_get(l->clock);
    m->full = 1;
    if (c->lanes[l->to].state == WI_LANE_RECV)
        make_ready(c, l->to);
    return WEFT_SUCCESS;
}

/* The executor does not copy what it sends: a step that would overwrite it waits until the message has been received. (A
 * receive takes its own message off the channel all the same.) The receiving lane, or WI_NONE. */
static uint32_t still_sent(const struct wi_check *c, uint32_t lane, const struct wi_step *step)
{
    const struct wi_check_lane *l = &c->lanes[lane];

    for (unsigned k = 0; c->data && c->in_transit[l->rank] && k < step->ndst; k++) {
        struct wi_region to = wi_sched_canonical(c->scheds[l->rank], (int)l->rank, regions_of(c, l)[step->dst + k]);
        for (uint32_t i = c->rank_lanes[l->rank]; i < c->rank_lanes[l->rank + 1]; i++) {
            uint32_t receiver = c->lanes[i].to;
            const struct wi_message *m = receiver == WI_NONE ? NULL : &c->lanes[receiver].inbox;
            if (m && m->full && m->from.buf == to.buf && m->from.first < to.first + to.count &&
                to.first < m->from.first + m->from.count)
                return receiver;
        }
    }
    return WI_NONE;
}

static int must_not_overwrite(struct wi_check *c, uint32_t lane, const struct wi_step *step)
{
    uint32_t receiver = still_sent(c, lane, step);

    if (receiver == WI_NONE)
        return 0;
    block(c, lane, WI_LANE_OVERWRITE, receiver);
    return 1;
}

/* ---- One step ---- */

/* The step before which another lane must be, if it is not there yet. */
static int must_wait(struct wi_check *c, uint32_t lane, const struct wi_step *step)
{
    const struct wi_check_lane *l = &c->lanes[lane];

    if (step->dep_lane < 0)
        return 0;
    uint32_t dep = c->rank_lanes[l->rank] + (uint32_t)step->dep_lane;
    if (c->lanes[dep].pos > step->dep_step)
        return 0;
    block(c, lane, WI_LANE_DEP, dep);
    return 1;
}

static uint32_t signal_position(const struct wi_check_lane *l, unsigned ordinal)
{
    uint32_t pos = 0;

    while (l->steps[pos].kind != WI_STEP_SIGNAL || l->steps[pos].ordinal != ordinal)
        pos++;
    return pos; /* wi_check_match has found it */
}

static weft_status wait_signal(struct wi_check *c, uint32_t lane, const struct wi_step *step, int *blocked)
{
    uint32_t other = c->rank_lanes[step->peer] + step->lane;
    uint32_t pos = signal_position(&c->lanes[other], step->ordinal);

    *blocked = c->lanes[other].pos <= pos;
    if (!*blocked)
        return learn(c, lane, other, pos);
    block(c, lane, WI_LANE_WAIT, other);
    return WEFT_SUCCESS;
}

static weft_status do_halves(struct wi_check *c, uint32_t lane, const struct wi_step *step, int *blocked)
{
    struct wi_check_lane *l = &c->lanes[lane];

    if (wi_sched_is_recv(step->kind) && !l->received) {
        *blocked = !l->inbox.full;
        if (*blocked) {
            block(c, lane, WI_LANE_RECV, l->from);
            return WEFT_SUCCESS;
        }
        WI_TRY(receive(c, lane, step));
        l->received = 1;
    }
    *blocked = wi_sched_is_recv(step->kind) && must_not_overwrite(c, lane, step);
    if (*blocked || !wi_sched_is_send(step->kind))
        return WEFT_SUCCESS;
    *blocked = c->lanes[l->to].inbox.full;
    if (!*blocked)
        return send(c, lane, step);
    block(c, lane, WI_LANE_SEND, l->to);
    return WEFT_SUCCESS;
}

static weft_status do_step(struct wi_check *c, uint32_t lane, int *blocked)
{
    struct wi_check_lane *l = &c->lanes[lane];
    const struct wi_step *step = &l->steps[l->pos];

    *blocked = !l->received && must_wait(c, lane, step);
    if (*blocked)
        return WEFT_SUCCESS;
    if (step->dep_lane >= 0 && !l->received)
        WI_TRY(learn(c, lane, c->rank_lanes[l->rank] + (uint32_t)step->dep_lane, step->dep_step));
    if (step->kind == WI_STEP_WAIT)
        return wait_signal(c, lane, step, blocked);
    if (wi_sched_is_reducing(step->kind) && !wi_coll_is_reduction(c->scheds[0]->coll))
        return wi_check_fail(c, lane, l->pos, "reduces, but the collective only moves data");
    if (step->kind == WI_STEP_COPY || step->kind == WI_STEP_REDUCE) {
        *blocked = must_not_overwrite(c, lane, step);
        return *blocked ? WEFT_SUCCESS : work(c, lane, step);
    }
    return do_halves(c, lane, step, blocked);
}

static weft_status finish_lane(struct wi_check *c, uint32_t lane)
{
    struct wi_check_lane *l = &c->lanes[lane];

    l->state = WI_LANE_DONE;
    if (c->ends && l->pos && wi_clock_join(&c->ends[l->rank], l->clock, lane, 2 * l->pos))
        return wi_check_nomem(c);
    wi_clock_put(l->clock);
    l->clock = NULL;
    return WEFT_SUCCESS;
}

static weft_status run_lane(struct wi_check *c, uint32_t lane)
{
    struct wi_check_lane *l = &c->lanes[lane];
    uint32_t before = l->pos;
    int blocked = 0;

    while (l->pos < l->def->nsteps) {
        WI_TRY(do_step(c, lane, &blocked));
        if (blocked)
            break;
        struct wi_saved *saved = &c->saved[l->first + l->pos];
        if (saved->wanted)
            saved->clock = wi_clock_get(l->clock);
        l->received = 0;
        l->pos++;
    }
    if (l->pos > before)
        wake_waiters(c, lane);
    return blocked ? WEFT_SUCCESS : finish_lane(c, lane);
}

/* Follow who waits for whom until the chain bites itself, and name a lane of the circle. */
static weft_status deadlock(const struct wi_check *c, uint32_t lane)
{
    static const char *const what[] = {
        [WI_LANE_DEP] = "a dependency on",
        [WI_LANE_WAIT] = "a signal of",
        [WI_LANE_RECV] = "a message of",
        [WI_LANE_SEND] = "room in the channel to",
        [WI_LANE_OVERWRITE] = "what it overwrites to be received by",
    };
    char text[WI_PLACE_TEXT_BYTES];

    for (uint32_t i = 0; i < c->nlanes; i++)
        lane = c->lanes[lane].blocker;
    const struct wi_check_lane *l = &c->lanes[lane], *o = &c->lanes[l->blocker];
    return wi_check_fail(c, lane, l->pos, "deadlock: waits for %s %s, which waits in turn", what[l->state],
                         wi_check_step_text(c, l->blocker, o->pos, text));
}

weft_status wi_check_run(struct wi_check *c)
{
    c->ready = WI_NONE;
    for (uint32_t i = 0; i < c->nlanes; i++)
        make_ready(c, i);
    while (c->ready != WI_NONE) {
        uint32_t lane = c->ready;
        c->ready = c->lanes[lane].next;
        WI_TRY(run_lane(c, lane));
    }
    for (uint32_t i = 0; i < c->nlanes; i++) {
        if (c->lanes[i].state != WI_LANE_DONE)
            return deadlock(c, i);
    }
    return WEFT_SUCCESS;
}
