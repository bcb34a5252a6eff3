/* SPDX-License-Identifier: BSD-3-Clause */
/* What a plan's steps wait for: the n-th wait on a channel is for the n-th signal at its other end, the n-th acquisition of a
 * semaphore for the n-th release, a barrier for all that come to it. That is only so where one thread block gives and one
 * takes; otherwise the order is open, and the plan is refused. */
#include <stdlib.h>

#include "base/status.h"
#include "import/import_plan.h"

/* Errors here are about an op that was read before. */
static weft_status bad_at(struct wi_plan_reader *r, int rank, struct wi_plan_spot spot, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static weft_status bad_at(struct wi_plan_reader *r, int rank, struct wi_plan_spot spot, const char *format, ...)
{
    const struct wi_imp_lane *lane = &r->prog.ranks[rank].lanes[spot.lane];
    char place[WI_IMP_PLACE_BYTES], what[384];
    va_list ap;

    va_start(ap, format);
    vsnprintf(what, sizeof(what), format, ap);
    va_end(ap);
    return wi_fail(WEFT_EINVAL, "%s: refused: %s", wi_imp_place_text(&r->prog, rank, lane, &lane->ops[spot.op], place),
                   what);
}

static struct wi_imp_op *op_at(struct wi_plan_reader *r, int rank, uint32_t lane, uint32_t op)
{
    return &r->prog.ranks[rank].lanes[lane].ops[op];
}

/* ---- Channels ---- */

/* The k-th channel of a rank to a peer is connected with the k-th of that peer to the rank. */

static uint32_t nth_to(const struct wi_plan_gpu *g, unsigned via, int peer, uint32_t n)
{
    for (uint32_t c = 0; c < g->nchans[via]; c++) {
        if (g->chans[via][c].peer == peer && n-- == 0)
            return c;
    }
    return WI_NOWHERE;
}

static weft_status pair_channels(struct wi_plan_reader *r, int rank, unsigned via)
{
    struct wi_plan_gpu *g = &r->gpus[rank];
    uint64_t work = 0;

    for (uint32_t c = 0; c < g->nchans[via]; c++) {
        struct wi_plan_chan *chan = &g->chans[via][c];
        uint32_t n = 0;
        if (!chan->signals.n && !chan->waits.n)
            continue;
        work += g->nchans[via] + (uint64_t)r->gpus[chan->peer].nchans[via];
        if (work > WI_IMPORT_MAX_WORK)
            return wi_imp_fail(&r->prog, WEFT_ENOTSUP, 0, "rank %d: too many channels to pair", rank);
        for (uint32_t k = 0; k < c; k++)
            n += g->chans[via][k].peer == chan->peer;
        chan->partner = nth_to(&r->gpus[chan->peer], via, rank, n);
    }
    return WEFT_SUCCESS;
}

static weft_status one_lane(struct wi_plan_reader *r, int rank, const struct wi_plan_list *list, const char *what)
{
    for (uint32_t i = 1; i < list->n; i++) {
        if (list->at[i].lane != list->at[0].lane)
            return bad_at(r, rank, list->at[i], "thread blocks %u and %u both %s, in an order that nothing fixes",
                          list->at[0].lane, list->at[i].lane, what);
    }
    return WEFT_SUCCESS;
}

static weft_status resolve_channel(struct wi_plan_reader *r, int rank, unsigned via, uint32_t c)
{
    static const struct wi_plan_chan none;
    struct wi_plan_chan *chan = &r->gpus[rank].chans[via][c];
    const struct wi_plan_chan *other =
        chan->partner == WI_NOWHERE ? &none : &r->gpus[chan->peer].chans[via][chan->partner];

    WI_TRY(one_lane(r, rank, &chan->signals, "signal on this channel"));
    WI_TRY(one_lane(r, rank, &chan->waits, "wait on this channel"));
    if (chan->waits.n > other->signals.n)
        return bad_at(r, rank, chan->waits.at[other->signals.n],
                      "mismatched signals: waits for signal %u of rank %d on this channel, which gives %u",
                      other->signals.n, chan->peer, other->signals.n);
    if (chan->signals.n > other->waits.n)
        return bad_at(r, rank, chan->signals.at[other->waits.n],
                      "mismatched signals: rank %d never waits for this one on this channel", chan->peer);
    for (uint32_t i = 0; i < chan->waits.n; i++) {
        struct wi_imp_op *op = op_at(r, rank, chan->waits.at[i].lane, chan->waits.at[i].op);
        op->peer = chan->peer;
        op->lane = other->signals.at[i].lane;
        op->signal = other->signals.at[i].op;
    }
    return WEFT_SUCCESS;
}

/* ---- Barriers and semaphores ---- */

static int compare_events(const void *a, const void *b)
{
    const struct wi_plan_event *x = a, *y = b;
    int barriers = x->kind == WI_PLAN_BARRIER && y->kind == WI_PLAN_BARRIER;

    if ((x->kind == WI_PLAN_BARRIER) != (y->kind == WI_PLAN_BARRIER))
        return x->kind == WI_PLAN_BARRIER ? -1 : 1;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    if (barriers && x->turn != y->turn)
        return x->turn < y->turn ? -1 : 1;
    if (!barriers && x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (x->lane != y->lane)
        return x->lane < y->lane ? -1 : 1;
    return x->op < y->op ? -1 : x->op > y->op;
}

static void leave(struct wi_plan_reader *r, int rank, const struct wi_plan_event *e, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t step = e[i].op;
        for (uint32_t k = 0; k < n; k++) {
            if (k == i)
                continue;
            struct wi_imp_op *op = op_at(r, rank, e[i].lane, ++step);
            op->dep_lane = (int32_t)e[k].lane;
            op->dep_op = e[k].op;
        }
    }
}

/* Events of one barrier and turn; returns how many. */
static weft_status resolve_barrier(struct wi_plan_reader *r, int rank, const struct wi_plan_event *e, uint32_t left,
                                   uint32_t *taken)
{
    uint32_t n = 1;

    while (n < left && e[n].kind == WI_PLAN_BARRIER && e[n].id == e->id && e[n].turn == e->turn)
        n++;
    *taken = n;
    for (uint32_t i = 0; i < n; i++) {
        if (e[i].members != n)
            return bad_at(r, rank, (struct wi_plan_spot){e[i].lane, e[i].op},
                          "deadlock: barrier %u is for %u thread blocks, %u come to it", e->id, e[i].members, n);
    }
    leave(r, rank, e, n);
    return WEFT_SUCCESS;
}

static weft_status resolve_semaphore(struct wi_plan_reader *r, int rank, const struct wi_plan_event *e, uint32_t left,
                                     uint32_t *taken)
{
    uint32_t n = 0, nreleases = 0, init = r->gpus[rank].sem_init[e->id];

    for (; n < left && e[n].id == e->id; n++)
        nreleases += e[n].kind == WI_PLAN_RELEASE;
    *taken = n;
    for (uint32_t i = 1; i < n; i++) {
        if (e[i].kind == e[i - 1].kind && e[i].lane != e[i - 1].lane)
            return bad_at(r, rank, (struct wi_plan_spot){e[i].lane, e[i].op},
                          "thread blocks %u and %u both %s semaphore %u, in an order that nothing fixes", e[i - 1].lane,
                          e[i].lane, e[i].kind == WI_PLAN_RELEASE ? "release" : "acquire", e->id);
    }
    for (uint32_t i = init; i < n - nreleases; i++) {
        const struct wi_plan_event *acquire = &e[nreleases + i];
        if (i - init >= nreleases)
            return bad_at(r, rank, (struct wi_plan_spot){acquire->lane, acquire->op},
                          "deadlock: semaphore %u is acquired %u times, released %u times, and begins at %u", e->id,
                          n - nreleases, nreleases, init);
        struct wi_imp_op *op = op_at(r, rank, acquire->lane, acquire->op);
        op->dep_lane = (int32_t)e[i - init].lane;
        op->dep_op = e[i - init].op;
    }
    return WEFT_SUCCESS;
}

static weft_status resolve_events(struct wi_plan_reader *r, int rank)
{
    struct wi_plan_gpu *g = &r->gpus[rank];
    uint32_t taken;

    if (g->nevents)
        qsort(g->events, g->nevents, sizeof(*g->events), compare_events);
    for (uint32_t i = 0; i < g->nevents; i += taken) {
        if (g->events[i].kind == WI_PLAN_BARRIER)
            WI_TRY(resolve_barrier(r, rank, &g->events[i], g->nevents - i, &taken));
        else
            WI_TRY(resolve_semaphore(r, rank, &g->events[i], g->nevents - i, &taken));
    }
    return WEFT_SUCCESS;
}

weft_status wi_plan_resolve(struct wi_plan_reader *r)
{
    for (int rank = 0; rank < r->prog.nranks; rank++) {
        for (unsigned via = 0; via < WI_NUM_VIAS; via++)
            WI_TRY(pair_channels(r, rank, via));
    }
    for (int rank = 0; rank < r->prog.nranks; rank++) {
        for (unsigned via = 0; via < WI_NUM_VIAS; via++) {
            for (uint32_t c = 0; c < r->gpus[rank].nchans[via]; c++)
                WI_TRY(resolve_channel(r, rank, via, c));
        }
        WI_TRY(resolve_events(r, rank));
    }
    return WEFT_SUCCESS;
}
