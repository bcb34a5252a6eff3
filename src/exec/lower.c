/* SPDX-License-Identifier: BSD-3-Clause */
/* From schedules to programs. lower.h says what they are. */
#include "exec/lower.h"

#include <string.h>

#include "base/alloc.h"

struct wi_extent wi_block_extent(const struct wi_blocks *b, size_t block)
{
    size_t at = block * b->stride, left;

    if (b->extent)
        return b->extent[block];
    if (b->pack) {
        const struct wi_pack *p = &b->pack[block];
        return (struct wi_extent){at, wi_block_extent(&b->all[p->buf], p->block).bytes};
    }
    if (b->like)
        return (struct wi_extent){at, wi_block_extent(b->like, block % b->modulo).bytes};
    if (!b->total)
        return (struct wi_extent){at, b->stride};
    left = at < b->total ? b->total - at : 0;
    return (struct wi_extent){at, left < b->stride ? left : b->stride};
}

/* ---- What is made ---- */

struct lowering {
    const struct wi_sched *sched;
    int rank;
    const struct wi_layout *layout;
    int scaled, whole;     /* regions are handled as a whole, not block by block */
    struct wi_blocks unit; /* of scaled programs: blocks are 1 long */
    struct wi_prog *prog;
    struct wi_prog_lane *lanes;
    struct wi_prog_step *steps;
    struct wi_unit *units;
    struct wi_operand *operands;
    uint32_t nunits, noperands;
};

static int has_extents(const struct wi_layout *l)
{
    return l->blocks[WI_SRC].extent || l->blocks[WI_DST].extent;
}

/* All blocks are equally long, also the vector's only one. */
static int can_scale(const struct wi_sched *sched, const struct wi_layout *l)
{
    size_t stride = l->blocks[WI_DST].stride, total = l->blocks[WI_DST].total;

    return l->packed ||
           (!l->sliced && !l->coded && !has_extents(l) && (!total || (sched->nblocks == 1 && total == stride)) &&
            (!l->mapped || l->slot_stride == stride));
}

/* The executor's number of the rank that a region, or a step, names. */
static int32_t rank_of(const struct lowering *l, int32_t rank)
{
    if (rank == WI_SELF)
        return l->rank;
    return l->layout->stage ? l->layout->stage->ranks[rank] : rank;
}

static int is_peer(const struct lowering *l, const struct wi_region *r)
{
    return r->rank != WI_SELF && rank_of(l, r->rank) != l->rank;
}

static int in_slots(const struct lowering *l, const struct wi_region *r)
{
    return r->buf == WI_TMP && l->layout->mapped;
}

/* ---- Pieces ---- */

/* Of the i-th block of a region. */
static uint32_t extents_of(const struct lowering *l, const struct wi_region *r, uint32_t i)
{
    const uint32_t *start = l->layout->blocks[r->buf].start;

    return start && !in_slots(l, r) ? start[r->first + i + 1] - start[r->first + i] : 1;
}

/* The region of a step that says how it is cut into units: one that is no slot, which takes whatever comes. */
static const struct wi_region *cut_by(const struct lowering *l, const struct wi_step *st)
{
    const struct wi_region *all = &l->sched->regions[st->ndst ? st->dst : st->src];

    for (uint32_t i = 0; i < (uint32_t)st->ndst + st->nsrc; i++) {
        const struct wi_region *r = &l->sched->regions[i < st->ndst ? st->dst + i : st->src + i - st->ndst];
        if (!in_slots(l, r))
            return r;
    }
    return all;
}

static uint32_t units_of(const struct lowering *l, const struct wi_step *st)
{
    const struct wi_region *r;
    uint32_t n = 0;

    if (st->kind == WI_STEP_SIGNAL || st->kind == WI_STEP_WAIT || st->kind == WI_STEP_NOP)
        return 0;
    if (l->whole)
        return 1;
    r = cut_by(l, st);
    for (uint32_t i = 0; i < r->count; i++)
        n += extents_of(l, r, i);
    return n;
}

/* An extent of a block, the block counted from the region's first. */
struct extent_at {
    uint32_t block, extent;
};

/* The first extent at p or after it: blocks may have no extent. There is one. */
static struct extent_at extent_from(const struct lowering *l, const struct wi_region *cut, struct extent_at p)
{
    while (!l->whole && p.extent >= extents_of(l, cut, p.block))
        p = (struct extent_at){p.block + 1, 0};
    return p;
}

/* ---- Operands ---- */

static size_t in_slot(const struct lowering *l, const struct wi_region *r, struct extent_at p, uint32_t count,
                      struct wi_operand *o)
{
    size_t stride = l->scaled ? 1 : l->layout->slot_stride;

    o->mem = WI_MEM_SLOT;
    o->rank = rank_of(l, r->rank);
    if (l->layout->ll)
        o->mem = is_peer(l, r) ? WI_MEM_LL : WI_MEM_LL_OWN;
    o->at = (r->first + p.block) * stride;
    if (l->layout->stage)
        o->at += l->layout->stage->slot_at + p.extent * l->layout->stage->slot_extent_bytes;
    return l->layout->sliced ? SIZE_MAX : count * stride; /* a slot holds one slice, which the other operands end */
}

static size_t extent_bytes(const struct wi_blocks *blocks, const struct wi_region *r, struct extent_at p,
                           struct wi_operand *o)
{
    struct wi_extent e = blocks->start ? blocks->extent[blocks->start[r->first + p.block] + p.extent]
                                       : wi_block_extent(blocks, r->first + p.block);

    o->at = e.at;
    return e.bytes;
}

/* Bytes of one extent of a region. */
static size_t lower_region(const struct lowering *l, const struct wi_region *r, struct extent_at p,
                           struct wi_operand *o)
{
    const struct wi_blocks *blocks = l->scaled ? &l->unit : &l->layout->blocks[r->buf];
    uint32_t count = l->whole ? r->count : 1;
    size_t bytes;

    if (in_slots(l, r))
        return in_slot(l, r, p, count, o);
    if (is_peer(l, r))
        o->mem = r->buf == WI_SRC ? WI_MEM_PEER_SRC : WI_MEM_PEER_DST;
    else
        o->mem = l->layout->stage ? l->layout->stage->in[r->buf] : r->buf;
    o->rank = rank_of(l, r->rank);
    bytes = extent_bytes(blocks, r, p, o);
    for (uint32_t i = 1; i < count; i++)
        bytes += wi_block_extent(blocks, r->first + i).bytes;
    return bytes;
}

/* ---- Images ---- */

/* The image of this block that this rank makes of one operand, with a residual: the step; NULL: none. */
static const struct wi_step *own_image(const struct lowering *l, unsigned buf, uint32_t block)
{
    const struct wi_sched *s = l->sched;

    for (uint32_t i = 0; i < s->nsteps; i++) {
        const struct wi_step *st = &s->steps[i];
        const struct wi_region *dst = &s->regions[st->dst];
        const struct wi_pack *p = &s->packs[dst->first];
        if (st->kind != WI_STEP_COPY || dst->buf != WI_PACK || s->regions[st->src].buf == WI_PACK || dst->count > 1)
            continue;
        if (p->residual != WI_NO_RESIDUAL && p->block == block && (p->buf == buf || wi_coll_is_vector(s->coll)))
            return st;
    }
    return NULL;
}

static enum wi_prog_extra extra_of(const struct lowering *l, const struct wi_step *st)
{
    const struct wi_region *dst = &l->sched->regions[st->dst];

    if (!wi_sched_is_coded(l->sched, st) ||
        (st->kind == WI_STEP_COPY && dst->buf == WI_PACK && l->sched->regions[st->src].buf == WI_PACK))
        return WI_EXTRA_NONE;
    for (uint32_t i = 0; i < st->ndst; i++)
        if (dst[i].buf == WI_PACK)
            return WI_EXTRA_ENCODED;
    if (dst->buf != WI_DST || !wi_coll_is_vector(l->sched->coll) || dst->count > 1 || !own_image(l, WI_DST, dst->first))
        return WI_EXTRA_NONE;
    return WI_EXTRA_UNDO;
}

static void add_operand(struct lowering *l, uint32_t mem, int32_t rank, size_t at)
{
    l->operands[l->noperands++] = (struct wi_operand){mem, rank, at};
}

/* What is encoded lies where its block does, and so does its residual. */
static void lower_extra(struct lowering *l, const struct wi_step *st, uint32_t block, enum wi_prog_extra extra)
{
    const struct wi_region *dst = &l->sched->regions[st->dst], *of;
    const struct wi_blocks *blocks = l->layout->blocks;
    const struct wi_step *made;
    const struct wi_pack *p;

    if (extra == WI_EXTRA_NONE)
        return;
    if (extra == WI_EXTRA_UNDO) {
        made = own_image(l, WI_DST, dst->first);
        dst = &l->sched->regions[made->dst];
        of = &l->sched->regions[made->src];
        add_operand(l, WI_MEM_PACK, l->rank, wi_block_extent(&blocks[WI_PACK], dst->first).at);
        add_operand(l, of->buf, l->rank, wi_block_extent(&blocks[of->buf], of->first).at);
    }
    while (dst->buf != WI_PACK)
        dst++;
    p = &l->sched->packs[dst->first + block];
    add_operand(l, WI_MEM_RESIDUAL, p->residual, wi_block_extent(&blocks[p->buf], p->block).at);
}

static void lower_unit(struct lowering *l, const struct wi_step *st, struct extent_at p, struct wi_prog_step *out)
{
    const struct wi_region *dst = &l->sched->regions[st->dst], *src = &l->sched->regions[st->src];
    struct wi_unit *unit = &l->units[l->nunits++];
    size_t bytes = SIZE_MAX, n;

    unit->operand = l->noperands;
    for (uint32_t i = 0; i < (uint32_t)st->ndst + st->nsrc; i++) {
        struct wi_operand *o = &l->operands[l->noperands++];
        n = lower_region(l, i < st->ndst ? &dst[i] : &src[i - st->ndst], p, o);
        bytes = n < bytes ? n : bytes;
        if (i < st->ndst) {
            out->to_slot |= o->mem == WI_MEM_SLOT;
            out->to_peer |= o->mem == WI_MEM_PEER_DST || o->mem == WI_MEM_PEER_SRC;
        } else {
            out->from_peer |= o->mem == WI_MEM_PEER_DST || o->mem == WI_MEM_PEER_SRC;
        }
    }
    unit->bytes = bytes;
    lower_extra(l, st, p.block, (enum wi_prog_extra)out->extra);
}

static void lower_step(struct lowering *l, const struct wi_step *st, uint32_t lane, struct wi_prog_step *out)
{
    const struct wi_stage_layout *stage = l->layout->stage;
    uint32_t nunits = units_of(l, st);
    struct extent_at p = {0, 0};

    *out = (struct wi_prog_step){.kind = st->kind,
                                 .flags = st->flags,
                                 .ndst = st->ndst,
                                 .nsrc = st->nsrc,
                                 .lane = (uint16_t)(st->kind == WI_STEP_WAIT ? st->lane : lane),
                                 .ordinal = st->ordinal,
                                 .peer = st->kind == WI_STEP_WAIT ? rank_of(l, st->peer) : st->peer,
                                 .dep_lane = st->dep_lane,
                                 .dep_step = st->dep_step,
                                 .coded = wi_sched_is_coded(l->sched, st) != 0,
                                 .extra = (uint8_t)extra_of(l, st),
                                 .unit = l->nunits,
                                 .nunits = nunits};
    if (l->layout->adds && st->flags & WI_STEP_FINAL && st->ndst && l->sched->regions[st->dst].buf == WI_DST)
        out->flags |= WI_PROG_ADD;
    if (stage) {
        out->lane = (uint16_t)(out->lane + stage->first_lane);
        out->flags &= (uint8_t) ~(stage->partial ? WI_STEP_FINAL : 0);
    }
    for (uint32_t i = 0; i < nunits; i++, p.extent++) {
        p = extent_from(l, cut_by(l, st), p);
        lower_unit(l, st, p, out);
    }
}

/* ---- ll lines ---- */

/* Own scratch that is wholly a copy of one source, right before it is published, is not copied: the source is published. */
static int is_copy_of_all(const struct lowering *l, const struct wi_step *st)
{
    const struct wi_region *dst = &l->sched->regions[st->dst];

    return st->kind == WI_STEP_COPY && dst->buf == WI_TMP && !is_peer(l, dst) &&
           dst->count == l->sched->buf_blocks[WI_TMP];
}

static void publish(struct lowering *l, uint32_t i)
{
    struct wi_prog_step *copy = i ? &l->steps[i - 1] : NULL, *out = &l->steps[i];

    out->kind = WI_PROG_PUBLISH;
    out->nsrc = 1;
    out->unit = l->nunits;
    out->nunits = 1;
    l->units[l->nunits] = (struct wi_unit){l->noperands, l->sched->buf_blocks[WI_TMP]};
    if (copy && is_copy_of_all(l, &l->sched->steps[i - 1])) {
        l->operands[l->noperands] = l->operands[l->units[copy->unit].operand + copy->ndst];
        copy->kind = WI_STEP_NOP;
        copy->nunits = 0;
    } else {
        l->operands[l->noperands] = (struct wi_operand){WI_MEM_LL_OWN, l->rank, 0};
    }
    l->nunits++;
    l->noperands++;
}

/* ---- Programs ---- */

static int runs_alone(const struct wi_prog *p, const struct wi_layout *layout)
{
    if (p->nlanes != 1 || !layout->mapped || layout->sliced)
        return 0;
    for (uint32_t i = 0; i < p->nsteps; i++)
        if (p->steps[i].nunits > 1 || p->steps[i].to_peer || p->steps[i].from_peer)
            return 0;
    return 1;
}

/* Of a program that runs alone what does nothing is left out. A copy, its signal and the second copy stay neighbours: the lengths
 * of both copies are one. */
static void leave_out(struct lowering *l)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < l->prog->nsteps; i++) {
        const struct wi_prog_step *st = &l->steps[i];
        int moves = st->kind == WI_STEP_COPY || st->kind == WI_STEP_REDUCE;
        if (st->kind != WI_STEP_NOP && (!moves || l->units[st->unit].bytes))
            l->steps[n++] = *st;
    }
    l->prog->nsteps = l->lanes[0].nsteps = n;
}

static int32_t peer_of(const struct lowering *l, int32_t peer)
{
    return peer == WI_NO_PEER ? WI_NO_PEER : rank_of(l, peer);
}

/* A program whose blocks have lengths of their own serves calls with the same ones. Those of stages are not kept. */
static size_t kept_extents(const struct lowering *l)
{
    size_t n = 0;

    for (int b = WI_SRC; b <= WI_DST; b++)
        n += l->layout->blocks[b].extent && !l->layout->stage ? l->sched->buf_blocks[b] : 0;
    return n;
}

/* Returns what lies behind them. */
static struct wi_extent *keep_extents(const struct lowering *l, struct wi_prog *p, struct wi_extent *at)
{
    for (int b = WI_SRC; b <= WI_DST; b++) {
        if (!l->layout->blocks[b].extent || l->layout->stage)
            continue;
        memcpy(at, l->layout->blocks[b].extent, l->sched->buf_blocks[b] * sizeof *at);
        p->extent[b] = at;
        at += l->sched->buf_blocks[b];
    }
    return at;
}

static int same_extents(const struct wi_prog *p, const struct wi_sched *sched, const struct wi_layout *l)
{
    for (int b = WI_SRC; b <= WI_DST; b++) {
        const struct wi_extent *e = l->blocks[b].extent;
        if (!e != !p->extent[b] || (e && memcmp(e, p->extent[b], sched->buf_blocks[b] * sizeof *e) != 0))
            return 0;
    }
    return 1;
}

static struct wi_prog *make_room(struct lowering *l)
{
    const struct wi_sched *s = l->sched;
    size_t units = 0, operands = 0;
    struct wi_extent *extents;
    struct wi_prog *p;

    for (uint32_t i = 0; i < s->nsteps; i++) {
        uint32_t nunits = units_of(l, &s->steps[i]);
        int publishes = l->layout->ll && s->steps[i].kind == WI_STEP_SIGNAL;
        units += nunits + (uint32_t)publishes;
        operands +=
            (size_t)nunits * (s->steps[i].ndst + s->steps[i].nsrc + WI_EXTRA_OPERANDS(extra_of(l, &s->steps[i]))) +
            (size_t)publishes;
    }
    p = wi_calloc(1, sizeof *p + kept_extents(l) * sizeof *extents + s->nlanes * sizeof *l->lanes +
                         s->nsteps * sizeof *l->steps + units * sizeof *l->units + operands * sizeof *l->operands);
    if (!p)
        return NULL;
    extents = (struct wi_extent *)(void *)(p + 1);
    l->units = (struct wi_unit *)(void *)keep_extents(l, p, extents);
    l->operands = (struct wi_operand *)(void *)(l->units + units);
    l->steps = (struct wi_prog_step *)(void *)(l->operands + operands);
    l->lanes = (struct wi_prog_lane *)(void *)(l->steps + s->nsteps);
    p->units = l->units;
    p->operands = l->operands;
    p->steps = l->steps;
    p->lanes = l->lanes;
    return p;
}

static void lower_lane(struct lowering *l, uint32_t lane)
{
    uint32_t first = l->sched->lanes[lane].first_step;

    for (uint32_t i = first; i < first + l->sched->lanes[lane].nsteps; i++) {
        const struct wi_step *st = &l->sched->steps[i];
        lower_step(l, st, lane, &l->steps[i]);
        if (l->layout->ll && st->kind == WI_STEP_SIGNAL)
            publish(l, i);
        else if (l->layout->ll && st->kind == WI_STEP_WAIT)
            l->steps[i].kind = WI_PROG_FETCH;
    }
}

static void count_signalled(struct lowering *l)
{
    for (uint32_t lane = 0; lane < l->prog->nlanes; lane++)
        for (uint32_t i = 0; i < l->lanes[lane].nsteps; i++)
            if (l->steps[l->lanes[lane].first + i].kind == WI_STEP_SIGNAL)
                l->lanes[lane].signalled = i + 1;
}

struct wi_prog *wi_lower(const struct wi_sched *sched, int rank, const struct wi_layout *layout)
{
    struct lowering l = {.sched = sched,
                         .rank = rank,
                         .layout = layout,
                         .scaled = can_scale(sched, layout),
                         .whole = layout->packed || (!layout->sliced && !layout->coded && !has_extents(layout)),
                         .unit = {.stride = 1}};
    struct wi_prog *p = l.prog = make_room(&l);

    if (!p)
        return NULL;
    p->refs = 1;
    p->scaled = l.scaled != 0;
    p->stride = layout->blocks[WI_DST].stride;
    p->total = layout->blocks[WI_DST].total;
    p->slot_stride = layout->slot_stride;
    p->stage = layout->stage != NULL;
    p->slot_extent_bytes = layout->stage ? layout->stage->slot_extent_bytes : 0;
    p->sliced = layout->sliced;
    p->coded = layout->coded;
    p->pack_stride = layout->blocks[WI_PACK].stride;
    p->ll = layout->ll;
    p->packed = layout->packed;
    p->adds = layout->adds;
    p->mapped = layout->mapped;
    p->read_again = layout->read_again;
    p->has_extents = has_extents(layout) != 0;
    p->nlanes = sched->nlanes;
    p->nsteps = sched->nsteps;
    for (uint32_t i = 0; i < sched->nlanes; i++) {
        const struct wi_lane *lane = &sched->lanes[i];
        l.lanes[i] = (struct wi_prog_lane){
            peer_of(&l, lane->send_peer), peer_of(&l, lane->recv_peer), lane->chan, lane->first_step, lane->nsteps, 0};
    }
    for (uint32_t lane = 0; lane < sched->nlanes; lane++)
        lower_lane(&l, lane);
    p->nunits = l.nunits;
    p->alone = runs_alone(p, layout) != 0;
    if (p->alone)
        leave_out(&l);
    count_signalled(&l);
    return p;
}

int wi_prog_serves(const struct wi_prog *p, const struct wi_sched *sched, const struct wi_layout *l)
{
    if (!p || p->packed || l->packed)
        return p && p->packed && l->packed;
    if (p->adds != l->adds)
        return 0;
    if (p->stage || l->stage)
        return p->stage && l->stage && p->slot_extent_bytes == l->stage->slot_extent_bytes &&
               p->stride == l->blocks[WI_DST].stride && p->total == l->blocks[WI_DST].total;
    if (p->ll != l->ll || p->coded != l->coded || p->pack_stride != l->blocks[WI_PACK].stride)
        return 0;
    if (p->scaled)
        return can_scale(sched, l);
    return same_extents(p, sched, l) && p->sliced == l->sliced && p->stride == l->blocks[WI_DST].stride &&
           p->total == l->blocks[WI_DST].total && p->slot_stride == l->slot_stride;
}

struct wi_prog *wi_prog_get(struct wi_prog *p)
{
    p->refs++;
    return p;
}

void wi_prog_put(struct wi_prog *p)
{
    if (p && --p->refs == 0)
        wi_free(p);
}
