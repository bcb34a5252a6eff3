/* SPDX-License-Identifier: BSD-3-Clause */
/* Order of a schedule's steps, and the facts that the cost model asks for. */
#include "sched/internal.h"

#include "base/alloc.h"
#include "base/status.h"

#define NONE UINT32_MAX
#define FIRST_OF_LANE (1u << 31)

/* Lanes that can go on, and per lane the lanes that wait for it: lists through one `next`. */
struct ordering {
    const struct wi_sched *sched;
    uint32_t *done;    /* per lane: steps ordered */
    uint32_t *waiters; /* per lane: first lane that waits for it */
    uint32_t *next;
    uint32_t ready;
};

static void run_lane(struct ordering *o, uint32_t lane, uint32_t *order, int64_t *n)
{
    const struct wi_lane *l = &o->sched->lanes[lane];
    int64_t before = *n;

    for (; o->done[lane] < l->nsteps; o->done[lane]++) {
        uint32_t index = l->first_step + o->done[lane];
        const struct wi_step *step = &o->sched->steps[index];
        if (step->dep_lane >= 0 && o->done[step->dep_lane] <= step->dep_step) {
            o->next[lane] = o->waiters[step->dep_lane];
            o->waiters[step->dep_lane] = lane;
            break;
        }
        order[(*n)++] = index;
    }
    if (*n == before)
        return;
    while (o->waiters[lane] != NONE) {
        uint32_t w = o->waiters[lane];
        o->waiters[lane] = o->next[w];
        o->next[w] = o->ready;
        o->ready = w;
    }
}

int64_t wi_sched_order(const struct wi_sched *sched, uint32_t *order)
{
    uint32_t nlanes = sched->nlanes;
    uint32_t *room = wi_malloc((3 * (size_t)nlanes + 1) * sizeof(*room));
    if (!room)
        return WEFT_ENOMEM;

    struct ordering o = {sched, room, room + nlanes, room + 2 * (size_t)nlanes, NONE};
    int64_t n = 0;
    for (uint32_t i = nlanes; i-- > 0;) {
        o.done[i] = 0;
        o.waiters[i] = NONE;
        o.next[i] = o.ready;
        o.ready = i;
    }
    while (o.ready != NONE) {
        uint32_t lane = o.ready;
        o.ready = o.next[lane];
        run_lane(&o, lane, order, &n);
    }
    wi_free(room);
    return n;
}

/* A copy or a reduction that encodes or decodes: that takes the time. */
static void count_coded(const struct wi_sched *sched, const struct wi_step *step, uint64_t blocks,
                        struct wi_sched_stats *stats)
{
    uint32_t into = 0, from = 0;

    for (unsigned i = 0; i < step->ndst; i++)
        into += sched->regions[step->dst + i].buf == WI_PACK;
    for (unsigned i = 0; i < step->nsrc; i++)
        from += sched->regions[step->src + i].buf == WI_PACK;
    if (step->kind == WI_STEP_COPY && into && from) {
        stats->blocks_copied += blocks * step->ndst;
        return;
    }
    stats->blocks_encoded += into ? blocks : 0;
    stats->blocks_decoded += blocks * from;
    stats->blocks_reduced += blocks * (step->nsrc - from - (from ? 0u : 1u));
}

static void count_blocks(const struct wi_sched *sched, const struct wi_step *step, struct wi_sched_stats *stats)
{
    if (step->ndst + step->nsrc == 0)
        return;
    uint64_t blocks = sched->regions[step->ndst ? step->dst : step->src].count;

    if (wi_sched_is_send(step->kind)) {
        stats->blocks_sent += blocks;
        stats->images_sent += sched->regions[step->ndst ? step->dst : step->src].buf == WI_PACK ? blocks : 0;
    } else if (wi_sched_is_coded(sched, step)) {
        count_coded(sched, step, blocks, stats);
        return;
    }
    if (wi_sched_is_recv(step->kind))
        stats->blocks_received += blocks;
    if (step->kind == WI_STEP_REDUCE)
        stats->blocks_reduced += blocks * (step->nsrc - 1u);
    else if (wi_sched_is_reducing(step->kind))
        stats->blocks_reduced += blocks;
    if (step->kind == WI_STEP_COPY || (step->kind == WI_STEP_REDUCE && step->nsrc == 1))
        stats->blocks_copied += blocks * step->ndst;
}

static uint32_t max_u32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* Sends and receives are chained apart: the two halves of an exchange are under way together. Waits in a row are one:
 * they wait at the same time. */
static uint32_t longest_chain(const struct wi_sched *sched, const uint32_t *order, uint32_t *sends, uint32_t *recvs)
{
    uint32_t longest = 0;

    for (uint32_t n = 0; n < sched->nsteps; n++) {
        uint32_t i = order[n], before = NONE;
        const struct wi_step *step = &sched->steps[i];
        uint32_t s = 0, r = 0;
        if (!(sends[i] & FIRST_OF_LANE)) { /* what is there until the step is reached */
            before = i - 1;
            s = sends[before];
            r = recvs[before];
        }
        if (step->dep_lane >= 0) {
            uint32_t dep = sched->lanes[step->dep_lane].first_step + step->dep_step;
            s = max_u32(s, sends[dep]);
            r = max_u32(r, recvs[dep]);
        }
        s += wi_sched_is_send(step->kind) != 0;
        r += wi_sched_is_recv(step->kind) != 0;
        if (step->kind == WI_STEP_WAIT && (before == NONE || sched->steps[before].kind != WI_STEP_WAIT))
            r++;
        sends[i] = s;
        recvs[i] = r;
        longest = max_u32(longest, max_u32(s, r));
    }
    return longest;
}

weft_status wi_sched_measure(const struct wi_sched *sched, struct wi_sched_stats *stats)
{
    size_t nsteps = sched->nsteps;

    *stats = (struct wi_sched_stats){0};
    if (nsteps == 0)
        return WEFT_SUCCESS;
    uint32_t *order = wi_calloc(3 * nsteps, sizeof(*order));
    if (!order)
        return wi_fail(WEFT_ENOMEM, "schedule %s/%s: no memory to measure %zu steps", wi_coll_name(sched->coll),
                       sched->algo, nsteps);
    if (wi_sched_order(sched, order) < 0) {
        wi_free(order);
        return wi_fail(WEFT_ENOMEM, "schedule %s/%s: no memory to order %u lanes", wi_coll_name(sched->coll),
                       sched->algo, sched->nlanes);
    }
    for (uint32_t i = 0; i < sched->nlanes; i++) {
        if (sched->lanes[i].nsteps)
            order[nsteps + sched->lanes[i].first_step] = FIRST_OF_LANE;
    }
    stats->steps_critical = longest_chain(sched, order, order + nsteps, order + 2 * nsteps);
    for (uint32_t i = 0; i < nsteps; i++)
        count_blocks(sched, &sched->steps[i], stats);
    wi_free(order);
    return WEFT_SUCCESS;
}

void wi_sched_stats(const struct wi_sched *sched, struct wi_sched_stats *stats)
{
    *stats = ((const struct wi_sched_sealed *)sched)->stats;
}

static int is_own_dst(const struct wi_region *r)
{
    return r->buf == WI_DST && r->rank == WI_SELF;
}

/* A step that reads DST, or that writes it otherwise than once and for all. */
static int spoils(const struct wi_sched *s, const struct wi_step *st)
{
    int reduces = st->kind == WI_STEP_REDUCE || st->kind == WI_STEP_RECV_REDUCE, writes = 0;

    for (uint32_t i = 0; i < st->nsrc; i++)
        if (s->regions[st->src + i].buf == WI_DST)
            return 1;
    for (uint32_t i = 0; i < st->ndst; i++)
        writes |= s->regions[st->dst + i].buf == WI_DST;
    return writes && (!reduces || st->ndst != 1 || !(st->flags & WI_STEP_FINAL) || !is_own_dst(&s->regions[st->dst]));
}

int wi_sched_completes_once(const struct wi_sched *s)
{
    uint64_t written = 0;

    if (s->staged || s->lossy || s->peer_dst)
        return 0;
    for (uint32_t i = 0; i < s->nsteps; i++) {
        const struct wi_step *st = &s->steps[i];
        if (spoils(s, st))
            return 0;
        if (!st->ndst || s->regions[st->dst].buf != WI_DST)
            continue;
        for (uint32_t k = 0; k < i; k++) { /* the same block again */
            const struct wi_region *a = &s->regions[s->steps[k].dst], *b = &s->regions[st->dst];
            if (s->steps[k].ndst && a->buf == WI_DST && a->first < b->first + b->count &&
                b->first < a->first + a->count)
                return 0;
        }
        written += s->regions[st->dst].count;
    }
    return written == s->buf_blocks[WI_DST];
}
