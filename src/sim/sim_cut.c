/* SPDX-License-Identifier: BSD-3-Clause */
/* How data is cut into blocks, slices and pieces: as src/comm/layout.c and src/exec/lower.c do, in lengths only. */
#include <weft/weft_plugin.h>

#include "base/status.h"
#include "sched/internal.h"
#include "sim/engine.h"

#define BLOCK_ALIGN_MIN 4096u
#define ALIGN 64u

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Slots hold the scratch of a slice; with many ranks they are made larger. 0: the schedule has more scratch than that. */
static uint64_t mapped_slice(const struct wi_sim *s, uint64_t want)
{
    uint32_t tmp = s->scheds[0]->buf_blocks[WI_TMP];
    uint64_t slot = s->options.slot_bytes ? s->options.slot_bytes : WI_SIM_SLOT_BYTES;

    if (slot < WEFT_SLOT_MIN_BYTES(s->nranks))
        slot = WEFT_SLOT_MIN_BYTES(s->nranks);
    if (!tmp || (s->block_bytes <= slot / tmp && s->block_bytes <= want))
        return s->block_bytes;
    return least(slot / tmp & ~(uint64_t)(ALIGN - 1), want);
}

weft_status wi_sim_cut(struct wi_sim *s, size_t bytes)
{
    const struct wi_sched *sched = s->scheds[0];
    uint64_t elem = s->options.elem_bytes ? s->options.elem_bytes : bytes % 4 == 0 ? 4 : 1;
    uint64_t want = s->options.slice_bytes;

    if (bytes > UINT64_MAX / 64 || bytes % elem)
        return wi_fail(WEFT_EINVAL, "simulation: %zu bytes are not whole elements of %zu", bytes, (size_t)elem);
    s->mapped = sched->mapped;
    s->send_empty = sched->coll == WI_COLL_BARRIER;
    s->block_bytes = sched->coll == WI_COLL_BARRIER ? 0 : bytes / sched->nblocks;
    if (sched->nblocks > 1 && !wi_coll_is_vector(sched->coll) && bytes % (sched->nblocks * elem))
        return wi_fail(WEFT_EINVAL, "simulation: %s cuts every share into %u parts, and %zu elements are no multiple",
                       sched->algo, sched->nblocks, (size_t)(bytes / elem));
    if (wi_coll_is_vector(sched->coll)) {
        uint64_t count = bytes / elem, block = (count + sched->nblocks - 1) / sched->nblocks;
        uint64_t per_line = ALIGN / least(elem, ALIGN);
        if (block * elem >= BLOCK_ALIGN_MIN)
            block = (block + per_line - 1) / per_line * per_line;
        s->block_bytes = block * elem;
        s->total_bytes = bytes;
    }
    want = want ? want < ALIGN ? ALIGN : want & ~(uint64_t)(ALIGN - 1) : UINT64_MAX;
    if (s->mapped)
        want = mapped_slice(s, want);
    if (s->mapped && s->block_bytes && !want)
        return wi_fail(WEFT_ENOTSUP, "simulation: %s has more blocks of scratch than a slot has lines", sched->algo);
    s->slice_bytes = want && want < s->block_bytes ? want : s->block_bytes;
    uint64_t nslices = s->block_bytes ? (s->block_bytes + s->slice_bytes - 1) / s->slice_bytes : 1;
    if (nslices > WI_SIM_MAX_UNITS)
        return wi_fail(WEFT_ENOTSUP, "simulation: %llu slices are too many: use larger slices",
                       (unsigned long long)nslices);
    s->nslices = (uint32_t)nslices;
    return WEFT_SUCCESS;
}

static int whole(const struct wi_sim *s)
{
    return s->nslices == 1;
}

uint32_t wi_sim_pieces(const struct wi_sim *s, const struct wi_sched *sched, const struct wi_step *step)
{
    if (whole(s) || (!step->ndst && !step->nsrc))
        return 1;
    return sched->regions[step->ndst ? step->dst : step->src].count;
}

static uint64_t clamp(uint64_t start, uint64_t want, uint64_t end)
{
    return start >= end ? 0 : least(end - start, want);
}

static uint64_t region_bytes(const struct wi_sim *s, const struct wi_sched *sched, const struct wi_region *r,
                             uint32_t slice, uint32_t piece)
{
    uint64_t block = r->first + (uint64_t)piece, skip = slice * s->slice_bytes;
    uint64_t want = whole(s) ? r->count * s->block_bytes : s->slice_bytes, v, end;

    if (r->buf == WI_TMP && s->mapped) /* has room: the other regions say how much */
        return whole(s) ? r->count * s->block_bytes : s->slice_bytes;
    if (!s->total_bytes)
        return whole(s) ? want : clamp(skip, want, s->block_bytes);
    v = r->buf == WI_TMP ? block % sched->nblocks : r->buf == WI_PACK ? sched->packs[block].block : block;
    end = whole(s) ? s->total_bytes : (v + 1) * s->block_bytes;
    return clamp(v * s->block_bytes + skip, want, least(end, s->total_bytes));
}

uint64_t wi_sim_unit_bytes(const struct wi_sim *s, const struct wi_sched *sched, const struct wi_step *step,
                           uint32_t slice, uint32_t piece)
{
    uint64_t bytes = UINT64_MAX;

    for (uint32_t i = 0; i < step->ndst; i++)
        bytes = least(bytes, region_bytes(s, sched, &sched->regions[step->dst + i], slice, piece));
    for (uint32_t i = 0; i < step->nsrc; i++)
        bytes = least(bytes, region_bytes(s, sched, &sched->regions[step->src + i], slice, piece));
    return bytes == UINT64_MAX ? 0 : bytes;
}

uint64_t wi_sim_place(const struct wi_sim *s, const struct wi_sched *sched, const struct wi_region *region,
                      uint32_t slice, uint32_t piece, uint32_t *buf)
{
    struct wi_region r = wi_sched_canonical(sched, sched->rank, *region);

    *buf = r.buf;
    return (r.first + (uint64_t)piece) * s->block_bytes + slice * s->slice_bytes;
}
