/* SPDX-License-Identifier: BSD-3-Clause */
/* What blocks hold: set up, combined, and compared with what the collective promises. */
#include "sched/check_internal.h"

#include <string.h>

#include "base/status.h"

static void set_bit(uint64_t *bits, uint32_t rank)
{
    bits[rank / 64] |= 1ull << (rank % 64);
}

static int has_bit(const uint64_t *bits, uint32_t rank)
{
    return (int)(bits[rank / 64] >> (rank % 64) & 1);
}

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t h = (a ^ (b << 32 | b >> 32)) * 0x9e3779b97f4a7c15u;

    h = (h ^ h >> 29 ^ b) * 0xbf58476d1ce4e5b9u;
    return h ^ h >> 32;
}

/* The caller's SRC: block `block` of `rank` in each cell. */
static void give(struct wi_check *c, uint32_t rank, uint32_t block)
{
    const struct wi_sched *s = c->scheds[rank];
    struct wi_region r = wi_sched_canonical(s, (int)rank, wi_at(WI_SRC, block, 1));
    uint64_t cell = wi_check_cell(c, (int)rank, r);

    c->values[cell] = (struct wi_value){.block = block, .nranks = 1, .lowest = rank, .grouping = mix(rank + 1, 0)};
    set_bit(&c->bits[cell * c->words], rank);
}

void wi_check_values_init(struct wi_check *c)
{
    for (uint32_t rank = 0; c->data && rank < c->nranks; rank++) {
        for (uint32_t b = 0; b < c->scheds[rank]->buf_blocks[WI_SRC]; b++)
            give(c, rank, b);
    }
}

void wi_check_take(struct wi_check *c, const struct wi_value *v, const uint64_t *bits)
{
    c->scratch = *v;
    memcpy(c->scratch_bits, bits, c->words * sizeof(*bits));
}

weft_status wi_check_combine(struct wi_check *c, uint32_t lane, uint32_t step, const struct wi_value *v,
                             const uint64_t *bits, int left)
{
    struct wi_value *to = &c->scratch;

    if (to->block != v->block)
        return wi_check_fail(c, lane, step, "combines block %u with block %u", to->block, v->block);
    for (uint32_t w = 0; w < c->words; w++) {
        uint64_t twice = c->scratch_bits[w] & bits[w];
        if (twice)
            return wi_check_fail(c, lane, step, "block %u gets the contribution of rank %u twice", v->block,
                                 w * 64 + (uint32_t)__builtin_ctzll(twice));
        c->scratch_bits[w] |= bits[w];
    }
    const struct wi_value *a = left ? v : to, *b = left ? to : v;
    if (c->ordered && a->lowest + a->nranks != b->lowest)
        return wi_check_fail(c, lane, step,
                             "out of rank order: combines ranks %u to %u with ranks %u to %u on the "
                             "right",
                             a->lowest, a->lowest + a->nranks - 1, b->lowest, b->lowest + b->nranks - 1);
    to->lowest = a->lowest;
    to->nranks += v->nranks;
    to->final = 0;
    to->partial = 1;
    to->losses = to->losses > v->losses ? to->losses : v->losses;
    to->grouping = to->grouping < v->grouping ? mix(to->grouping, v->grouping) : mix(v->grouping, to->grouping);
    if (to->nranks == c->nranks) {
        to->lane = lane;
        to->step = step;
    }
    return WEFT_SUCCESS;
}

weft_status wi_check_finish(struct wi_check *c, uint32_t lane, uint32_t step, unsigned flags)
{
    unsigned coll = c->scheds[0]->coll;

    if (c->scratch.partial) /* small floating types are rounded here, not between the operands of a step */
        c->scratch.grouping = mix(c->scratch.grouping, 1);
    c->scratch.partial = 0;
    if (!(flags & WI_STEP_FINAL))
        return WEFT_SUCCESS;
    if (coll == WI_COLL_SCAN || coll == WI_COLL_EXSCAN)
        return wi_check_fail(c, lane, step, "final, but %s has no steps that are", wi_coll_name((enum wi_coll)coll));
    if (c->scratch.nranks != c->nranks)
        return wi_check_fail(c, lane, step, "final, but block %u holds %u of %u contributions", c->scratch.block,
                             c->scratch.nranks, c->nranks);
    if (c->scratch.final)
        return wi_check_fail(c, lane, step, "final, but block %u is final already", c->scratch.block);
    c->scratch.final = 1;
    return WEFT_SUCCESS;
}

/* A residual lies where its block does, in the vector or in SRC or DST. */
static uint64_t residual_of(const struct wi_check *c, uint32_t rank, const struct wi_pack *p)
{
    const struct wi_sched *s = c->scheds[rank];
    uint32_t at = p->block + (wi_coll_is_vector(s->coll) || p->buf == WI_SRC ? 0 : s->buf_blocks[WI_SRC]);

    return (c->rank_cells[rank] + at) * WI_SCHED_RESIDUALS + p->residual;
}

/* What is encoded depends on who does it: a residual is added, and rounding may be random. */
weft_status wi_check_encode(struct wi_check *c, uint32_t lane, uint32_t step, const struct wi_region *r, uint32_t i)
{
    uint32_t rank = c->lanes[lane].rank;
    const struct wi_pack *p = &c->scheds[rank]->packs[r->first + i];

    if (p->residual != WI_NO_RESIDUAL) {
        uint8_t *used = &c->residuals[residual_of(c, rank, p)];
        if (*used)
            return wi_check_fail(c, lane, step, "residual %u of block %u is used for a second time", p->residual,
                                 p->block);
        *used = 1;
    }
    c->scratch.losses++;
    c->scratch.grouping = mix(c->scratch.grouping, ((uint64_t)rank + 1) << 8 | (p->residual != WI_NO_RESIDUAL));
    return WEFT_SUCCESS;
}

/* What block `b` of DST on `rank` must hold: the origin block, and the ranks [low, high). */
struct want {
    uint32_t block, low, high;
};

static struct want wanted(const struct wi_sched *s, uint32_t rank, uint32_t b)
{
    uint32_t nranks = (uint32_t)s->nranks, root = (uint32_t)s->root;
    uint32_t cut = s->nblocks, share = b / cut, part = b % cut; /* per-rank collectives */

    switch (s->coll) {
    case WI_COLL_BROADCAST:
        return (struct want){b, root, root + 1};
    case WI_COLL_SCATTER:
    case WI_COLL_SCATTER_V:
        return (struct want){rank * cut + part, root, root + 1};
    case WI_COLL_ALL_GATHER:
    case WI_COLL_ALL_GATHER_V:
    case WI_COLL_GATHER:
    case WI_COLL_GATHER_V:
        return (struct want){part, share, share + 1};
    case WI_COLL_ALL_TO_ALL:
    case WI_COLL_ALL_TO_ALL_V:
        return (struct want){rank * cut + part, share, share + 1};
    case WI_COLL_REDUCE_SCATTER:
    case WI_COLL_REDUCE_SCATTER_V:
        return (struct want){rank * cut + part, 0, nranks};
    case WI_COLL_SCAN:
        return (struct want){b, 0, rank + 1};
    case WI_COLL_EXSCAN:
        return (struct want){b, 0, rank};
    default: /* all_reduce, reduce */
        return (struct want){b, 0, nranks};
    }
}

static weft_status compare(struct wi_check *c, uint32_t rank, uint32_t b, const struct want *want)
{
    const struct wi_sched *s = c->scheds[rank];
    uint64_t cell = wi_check_cell(c, (int)rank, wi_sched_canonical(s, (int)rank, wi_at(WI_DST, b, 1)));
    const struct wi_value *v = &c->values[cell];
    const uint64_t *bits = &c->bits[cell * c->words];
    char where[WI_PLACE_TEXT_BYTES];

    wi_sched_place_text(s, WI_NOWHERE, WI_NOWHERE, where);
    if (v->nranks == 0)
        return wi_fail(WEFT_EINVAL, "%s: result dst[%u] is never written", where, b);
    if (v->block != want->block)
        return wi_fail(WEFT_EINVAL, "%s: result dst[%u] holds block %u of src instead of block %u", where, b, v->block,
                       want->block);
    for (uint32_t r = want->low; r < want->high; r++) {
        if (!has_bit(bits, r))
            return wi_fail(WEFT_EINVAL, "%s: result dst[%u] lacks the contribution of rank %u", where, b, r);
    }
    for (uint32_t r = 0; v->nranks != want->high - want->low && r < c->nranks; r++) {
        if (has_bit(bits, r) && (r < want->low || r >= want->high))
            return wi_fail(WEFT_EINVAL, "%s: result dst[%u] holds a contribution of rank %u that it must not", where, b,
                           r);
    }
    return WEFT_SUCCESS;
}

static weft_status check_final(struct wi_check *c, uint32_t rank, uint32_t b)
{
    const struct wi_sched *s = c->scheds[rank];
    uint64_t cell = wi_check_cell(c, (int)rank, wi_sched_canonical(s, (int)rank, wi_at(WI_DST, b, 1)));
    const struct wi_value *v = &c->values[cell];

    if (c->nranks == 1 || v->final || !wi_coll_is_reduction(s->coll) || s->coll == WI_COLL_SCAN ||
        s->coll == WI_COLL_EXSCAN)
        return WEFT_SUCCESS;
    if (c->notes) {
        c->notes->final[c->lanes[v->lane].first + v->step] = 1;
        return WEFT_SUCCESS;
    }
    return wi_check_fail(c, v->lane, v->step, "completes what becomes dst[%u] of rank %u, but is not final", b, rank);
}

/* Equal values of rank 0 and of this rank, but of other sums of sums? */
static weft_status check_grouping(struct wi_check *c, uint32_t rank, uint32_t b)
{
    const struct wi_value *v[2];
    char step[WI_PLACE_TEXT_BYTES];

    if (!c->alike || c->scheds[rank]->coll != WI_COLL_ALL_REDUCE)
        return WEFT_SUCCESS;
    for (int i = 0; i < 2; i++) {
        int of = i ? (int)rank : 0;
        v[i] = &c->values[wi_check_cell(c, of, wi_sched_canonical(c->scheds[of], of, wi_at(WI_DST, b, 1)))];
    }
    if (v[0]->grouping == v[1]->grouping || c->nranks == 1)
        return WEFT_SUCCESS;
    return wi_check_fail(
        c, v[1]->lane, v[1]->step,
        "dst[%u] of rank %u groups the operands otherwise than that of rank 0 (%s): where operators round the "
        "ranks' bits would differ",
        b, rank, wi_check_step_text(c, v[0]->lane, v[0]->step, step));
}

static weft_status check_losses(struct wi_check *c, uint32_t rank, uint32_t b)
{
    const struct wi_sched *s = c->scheds[rank];
    const struct wi_value *v =
        &c->values[wi_check_cell(c, (int)rank, wi_sched_canonical(s, (int)rank, wi_at(WI_DST, b, 1)))];
    char where[WI_PLACE_TEXT_BYTES];

    c->lossy = v->losses > c->lossy ? v->losses : c->lossy;
    if (v->losses <= s->lossy)
        return WEFT_SUCCESS;
    return wi_fail(WEFT_EINVAL, "%s: result dst[%u] has been encoded %u times, where the schedule says %u",
                   wi_sched_place_text(s, WI_NOWHERE, WI_NOWHERE, where), b, v->losses, s->lossy);
}

weft_status wi_check_results(struct wi_check *c)
{
    char where[WI_PLACE_TEXT_BYTES];

    for (uint32_t rank = 0; c->data && rank < c->nranks; rank++) {
        const struct wi_sched *s = c->scheds[rank];
        if (s->coll == WI_COLL_EXSCAN && rank == 0)
            continue;
        for (uint32_t b = 0; b < s->buf_blocks[WI_DST]; b++) {
            struct want want = wanted(s, rank, b);
            WI_TRY(compare(c, rank, b, &want));
            WI_TRY(check_final(c, rank, b));
            WI_TRY(check_grouping(c, rank, b));
            WI_TRY(check_losses(c, rank, b));
        }
    }
    if (c->lossy != c->scheds[0]->lossy)
        return wi_fail(WEFT_EINVAL, "%s: its results have been encoded %u times at most, where it says %u",
                       wi_sched_place_text(c->scheds[0], WI_NOWHERE, WI_NOWHERE, where), c->lossy, c->scheds[0]->lossy);
    return WEFT_SUCCESS;
}
