/* SPDX-License-Identifier: BSD-3-Clause */
/* Seal: lay the collected lanes out in one allocation, check their form, derive what the executor asks. */
#include "sched/internal.h"

#include <string.h>

#include "base/alloc.h"
#include "base/status.h"

struct layout {
    struct wi_lane *lanes;
    struct wi_step *steps;
    struct wi_region *regions;
    struct wi_pack *packs;
};

static struct wi_sched_sealed *allocate(const struct wi_sched_builder *b, struct layout *at)
{
    size_t lanes = sizeof(struct wi_sched_sealed);
    size_t steps = lanes + b->nlanes * sizeof(struct wi_lane);
    size_t regions = steps + b->nsteps * sizeof(struct wi_step);
    size_t packs = regions + b->nregions * sizeof(struct wi_region);
    size_t npacks = b->head.buf_blocks[WI_PACK];
    char *p = wi_calloc(1, packs + npacks * sizeof(struct wi_pack)); /* padding too: equal bytes if equal */

    if (!p)
        return NULL;
    at->lanes = (struct wi_lane *)(p + lanes);
    at->steps = (struct wi_step *)(p + steps);
    at->regions = (struct wi_region *)(p + regions);
    at->packs = (struct wi_pack *)(p + packs);
    if (npacks)
        memcpy(at->packs, b->packs, npacks * sizeof *at->packs);
    return (struct wi_sched_sealed *)p;
}

/* Regions are stored in the order in which lanes are walked. */
static void copy_step(const struct wi_sched_builder *b, const struct wi_step *from, struct wi_sched *sched,
                      const struct layout *at)
{
    struct wi_step *to = &at->steps[sched->nsteps++];
    uint32_t n = (uint32_t)from->ndst + from->nsrc;

    to->kind = from->kind;
    to->flags = from->flags;
    to->nsrc = from->nsrc;
    to->ndst = from->ndst;
    to->dep_lane = from->dep_lane;
    to->dep_step = from->dep_step;
    to->peer = from->peer;
    to->lane = from->lane;
    to->ordinal = from->ordinal;
    to->dst = sched->nregions;
    to->src = sched->nregions + from->ndst;
    for (uint32_t i = 0; i < n; i++) {
        const struct wi_region *region = &b->regions[from->dst + i];
        struct wi_region *r = &at->regions[sched->nregions++];
        r->buf = region->buf;
        r->rank = region->rank;
        r->first = region->first;
        r->count = region->count;
    }
    /* Dependencies name the steps that the builder returned; NOPs have shifted them. Names out of range stay what they
     * are, for the form check to refuse. */
    if (to->dep_lane >= 0 && (uint32_t)to->dep_lane < b->nlanes && to->dep_step < b->lanes[to->dep_lane].nreturned)
        to->dep_step = b->lanes[to->dep_lane].position[to->dep_step];
    else if (to->dep_lane != WI_NO_DEP)
        to->dep_step = UINT32_MAX;
}

static void copy_lanes(const struct wi_sched_builder *b, struct wi_sched *sched, const struct layout *at)
{
    *sched = b->head;
    sched->nlanes = b->nlanes;
    sched->lanes = at->lanes;
    sched->steps = at->steps;
    sched->regions = at->regions;
    sched->packs = at->packs;
    for (uint32_t i = 0; i < b->nlanes; i++) {
        const struct wi_build_lane *l = &b->lanes[i];
        at->lanes[i] = (struct wi_lane){.send_peer = l->send_peer,
                                        .recv_peer = l->recv_peer,
                                        .chan = l->chan,
                                        .first_step = sched->nsteps,
                                        .nsteps = l->nsteps};
        for (uint32_t k = 0; k < l->nsteps; k++)
            copy_step(b, &l->steps[k], sched, at);
    }
}

static void derive(struct wi_sched *sched)
{
    for (uint32_t i = 0; i < sched->nlanes; i++) {
        const struct wi_lane *l = &sched->lanes[i];
        if ((l->send_peer != WI_NO_PEER || l->recv_peer != WI_NO_PEER) && l->chan >= sched->nchans &&
            l->chan < WI_SCHED_MAX_CHANS)
            sched->nchans = l->chan + 1;
    }
    for (uint32_t i = 0; i < sched->nsteps; i++) {
        if (wi_sched_is_mapped(sched, &sched->steps[i]))
            sched->mapped = 1;
    }
    for (uint32_t i = 0; i < sched->nregions; i++) {
        const struct wi_region *r = &sched->regions[i];
        if (r->rank == WI_SELF)
            continue;
        sched->peer_src |= r->buf == WI_SRC;
        sched->peer_dst |= r->buf == WI_DST;
    }
}

/* Has `rank` been waited for before step `end` of the only lane? */
static int waited_before(const struct wi_sched *sched, uint32_t end, int rank)
{
    for (uint32_t i = 0; i < end; i++) {
        const struct wi_step *step = &sched->steps[i];
        if (step->kind == WI_STEP_WAIT && step->peer == rank)
            return 1;
    }
    return 0;
}

static int reads_after(const struct wi_sched *sched, uint32_t start, int rank)
{
    for (uint32_t i = start; i < sched->nsteps; i++) {
        const struct wi_step *step = &sched->steps[i];
        for (unsigned k = 0; k < step->nsrc; k++) {
            if (sched->regions[step->src + k].rank == rank)
                return 1;
        }
    }
    return 0;
}

/* The executor does not copy scratch that is wholly a copy of one source, it publishes the source: nothing may come between. */
static int ll_whole_copy(const struct wi_sched *sched, uint32_t index)
{
    const struct wi_step *step = &sched->steps[index];
    const struct wi_region *dst = &sched->regions[step->dst];

    if (step->kind != WI_STEP_COPY || dst->buf != WI_TMP || dst->count != sched->buf_blocks[WI_TMP])
        return 1;
    while (++index < sched->nsteps && sched->steps[index].kind == WI_STEP_NOP)
        ;
    return index < sched->nsteps && sched->steps[index].kind == WI_STEP_SIGNAL;
}

static int ll_regions(const struct wi_sched *sched, uint32_t index, int signalled)
{
    const struct wi_step *step = &sched->steps[index];

    if (step->ndst > 1 || !ll_whole_copy(sched, index))
        return 0;
    for (unsigned k = 0; k < step->ndst; k++) {
        const struct wi_region *r = &sched->regions[step->dst + k];
        if (r->rank != WI_SELF || (r->buf == WI_TMP && signalled))
            return 0;
    }
    for (unsigned k = 0; k < step->nsrc; k++) {
        const struct wi_region *r = &sched->regions[step->src + k];
        if (r->rank == WI_SELF ? r->buf == WI_TMP : r->buf != WI_TMP || !waited_before(sched, index, r->rank))
            return 0;
    }
    return 1;
}

/* May flags travel in the lines of the data? The lane publishes its TMP once, before it waits for anybody, and every
 * wait is for data of that rank that is then read: a wait for nothing but order would be lost. A rank that only reads
 * or only publishes qualifies. */
static int qualifies_for_ll(const struct wi_sched *sched)
{
    unsigned nsignals = 0, nwaits = 0;

    if (!sched->mapped || sched->nlanes != 1)
        return 0;
    for (uint32_t i = 0; i < sched->nsteps; i++) {
        const struct wi_step *step = &sched->steps[i];
        if (step->kind == WI_STEP_SIGNAL && (++nsignals > 1 || nwaits))
            return 0;
        if (step->kind == WI_STEP_WAIT) {
            nwaits++;
            if (step->lane || step->ordinal || !reads_after(sched, i, step->peer))
                return 0;
        }
        if (!ll_regions(sched, i, nsignals > 0))
            return 0;
    }
    return 1;
}

static int same_region(const struct wi_region *a, const struct wi_region *b)
{
    return a->buf == b->buf && a->rank == b->rank && a->first == b->first && a->count == b->count;
}

/* A rank's own share goes into its slot and into its result: read once when it is long. */
static void mark_fused_copies(const struct wi_sched *sched, struct wi_step *steps)
{
    for (uint32_t l = 0; l < sched->nlanes; l++) {
        const struct wi_lane *lane = &sched->lanes[l];
        for (uint32_t i = 0; i + 2 < lane->nsteps; i++) {
            struct wi_step *s = &steps[lane->first_step + i];
            if (s[0].kind != WI_STEP_COPY || s[1].kind != WI_STEP_SIGNAL || s[2].kind != WI_STEP_COPY ||
                s[0].ndst != 1 || s[2].ndst != 1 || s[2].dep_lane != WI_NO_DEP || s[1].dep_lane != WI_NO_DEP ||
                sched->regions[s[0].src].buf != WI_SRC ||
                !same_region(&sched->regions[s[0].src], &sched->regions[s[2].src]))
                continue;
            s[0].flags |= WI_STEP_FUSED_COPY;
            s[2].flags |= WI_STEP_FUSED_COPY_SECOND;
        }
    }
}

static weft_status freeze(struct wi_sched_builder *b, struct wi_sched **out, struct wi_sched_place *place)
{
    struct layout at;

    if (b->status < 0)
        return wi_fail(b->status, "schedule %s/%s of rank %d/%d: %s", wi_coll_name(b->head.coll), b->head.algo,
                       b->head.rank, b->head.nranks, b->error);
    struct wi_sched_sealed *sealed = allocate(b, &at);
    if (!sealed)
        return wi_fail(WEFT_ENOMEM, "schedule %s/%s of rank %d/%d: no memory for %u steps", wi_coll_name(b->head.coll),
                       b->head.algo, b->head.rank, b->head.nranks, b->nsteps);
    struct wi_sched *sched = &sealed->sched;
    copy_lanes(b, sched, &at);
    derive(sched);
    weft_status st = wi_sched_form(sched, place);
    if (st == WEFT_SUCCESS) {
        mark_fused_copies(sched, at.steps);
        sched->ll = !b->no_ll && qualifies_for_ll(sched);
        st = wi_sched_measure(sched, &sealed->stats);
    }
    if (st < 0) {
        wi_free(sealed);
        return st;
    }
    *out = sched;
    return WEFT_SUCCESS;
}

weft_status wi_sched_seal_at(struct wi_sched_builder *b, struct wi_sched **sched, struct wi_sched_place *place)
{
    *place = (struct wi_sched_place){WI_NOWHERE, WI_NOWHERE};
    weft_status st = freeze(b, sched, place);
    wi_sched_abandon(b);
    return st;
}

weft_status wi_sched_seal(struct wi_sched_builder *b, struct wi_sched **sched)
{
    struct wi_sched_place place;

    return wi_sched_seal_at(b, sched, &place);
}

struct wi_sched *wi_sched_get(struct wi_sched *sched)
{
    /* The caller holds a reference already: nothing to order. */
    __atomic_fetch_add(&sched->refs, 1, __ATOMIC_RELAXED);
    return sched;
}

void wi_sched_put(struct wi_sched *sched)
{
    /* Every holder's last read comes before the free. */
    if (!sched || __atomic_fetch_sub(&sched->refs, 1, __ATOMIC_ACQ_REL) != 1)
        return;
    wi_sched_stage_free(sched->before);
    wi_sched_stage_free(sched->after);
    wi_free((struct wi_sched_sealed *)sched);
}

/* ---- Stages ---- */

void wi_sched_stage_free(struct wi_sched_stage *stage)
{
    if (!stage)
        return;
    wi_sched_put(stage->sched);
    wi_free(stage->ranks);
    wi_free(stage->start);
    wi_free(stage->item);
    wi_free(stage);
}

void wi_sched_surround(struct wi_sched *sched, struct wi_sched_stage *before, struct wi_sched_stage *after,
                       uint32_t slot_items)
{
    sched->before = before;
    sched->after = after;
    sched->staged = 1;
    sched->slot_items = slot_items;
}

uint32_t wi_sched_stage_share(const struct wi_sched_stage *stage, unsigned buf, uint32_t block)
{
    return wi_sched_share(stage->sched, buf, block);
}
