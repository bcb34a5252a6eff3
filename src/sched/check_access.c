/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads and writes of cells: unwritten memory, races between lanes and ranks, memory used outside the owner's call. */
#include "sched/check_internal.h"

#include <string.h>

#include "base/alloc.h"
#include "base/status.h"

#define MAX_CELLS (1ull << 28)

uint64_t wi_check_cell(const struct wi_check *c, int owner, struct wi_region canonical)
{
    const struct wi_sched *s = c->scheds[owner];
    uint64_t cell = c->rank_cells[owner] + canonical.first;

    for (unsigned buf = 0; buf < canonical.buf; buf++)
        cell += s->buf_blocks[buf];
    return cell;
}

static int names_peers(const struct wi_check *c)
{
    for (uint32_t r = 0; r < c->nranks; r++) {
        if (c->scheds[r]->peer_src || c->scheds[r]->peer_dst)
            return 1;
    }
    return 0;
}

weft_status wi_check_access_init(struct wi_check *c)
{
    int peers = names_peers(c);

    c->free_read = WI_NONE;
    for (uint32_t r = 0; r < c->nranks; r++) {
        c->rank_cells[r] = c->ncells;
        for (unsigned buf = 0; c->data && buf < WI_NUM_BUFS; buf++)
            c->ncells += c->scheds[r]->buf_blocks[buf];
    }
    if (c->ncells * c->words > MAX_CELLS)
        return wi_fail(WEFT_ENOTSUP, "schedule check: %llu blocks of %u ranks are too many",
                       (unsigned long long)c->ncells, c->nranks);
    c->cells = wi_malloc((c->ncells + 1) * sizeof(*c->cells));
    c->values = wi_calloc(c->ncells + 1, sizeof(*c->values));
    c->bits = wi_calloc((c->ncells + 1) * c->words, sizeof(*c->bits));
    if (c->scheds[0]->lossy)
        c->residuals = wi_calloc((c->ncells + 1) * WI_SCHED_RESIDUALS, sizeof *c->residuals);
    if (peers)
        c->foreign = wi_calloc((size_t)c->nranks * c->nlanes + 1, sizeof(*c->foreign));
    if (peers || !c->data)
        c->ends = wi_calloc(c->nranks, sizeof(struct wi_clock *));
    if (!c->cells || !c->values || !c->bits || (c->scheds[0]->lossy && !c->residuals) || (peers && !c->foreign) ||
        ((peers || !c->data) && !c->ends))
        return wi_check_nomem(c);
    for (uint64_t i = 0; i < c->ncells; i++)
        c->cells[i] = (struct wi_cell){WI_NONE, 0, WI_NONE};
    return WEFT_SUCCESS;
}

static int ordered_after(const struct wi_check *c, uint32_t lane, uint32_t other, uint32_t time)
{
    return other == lane || wi_clock_time(c->lanes[lane].clock, other) >= time;
}

static weft_status race(const struct wi_check *c, uint32_t lane, uint32_t time, const char *what,
                        const struct wi_region *r, uint32_t i, uint32_t other, uint32_t other_time,
                        const char *other_what)
{
    struct wi_region one = *r;
    char region[WI_REGION_TEXT_BYTES], place[WI_PLACE_TEXT_BYTES];

    one.first += i;
    one.count = 1;
    return wi_check_fail(c, lane, (time - 1) / 2, "race: %s %s, and nothing orders that after %s, which %s it", what,
                         wi_sched_region_text(&one, region), wi_check_step_text(c, other, (other_time - 1) / 2, place),
                         other_what);
}

/* SRC and DST belong to the owner's caller until the owner has entered the call. */
static weft_status enter(struct wi_check *c, uint32_t lane, uint32_t time, int owner, const struct wi_region *r)
{
    char text[WI_REGION_TEXT_BYTES];
    const struct wi_check_lane *l = &c->lanes[lane];

    if ((uint32_t)owner == l->rank || r->buf >= WI_TMP)
        return WEFT_SUCCESS;
    uint32_t first = c->rank_lanes[owner];
    if (!wi_clock_knows(l->clock, first, c->rank_lanes[owner + 1] - first))
        return wi_check_fail(c, lane, (time - 1) / 2, "uses %s, but no signal says that rank %d has begun",
                             wi_sched_region_text(r, text), owner);
    c->foreign[(size_t)owner * c->nlanes + lane] = time;
    return WEFT_SUCCESS;
}

static int remember_read(struct wi_check *c, struct wi_cell *cell, uint32_t lane, uint32_t time)
{
    if (cell->reads != WI_NONE && c->reads[cell->reads].lane == lane) {
        c->reads[cell->reads].time = time;
        return 0;
    }
    uint32_t i = c->free_read;
    if (i != WI_NONE) {
        c->free_read = c->reads[i].next;
    } else {
        if (c->nreads == c->read_capacity) {
            uint32_t capacity = c->read_capacity ? 2 * c->read_capacity : 1024;
            struct wi_read *more = wi_realloc(c->reads, capacity * sizeof(*more));
            if (!more)
                return -1;
            c->reads = more;
            c->read_capacity = capacity;
        }
        i = c->nreads++;
    }
    c->reads[i] = (struct wi_read){lane, time, cell->reads};
    cell->reads = i;
    return 0;
}

weft_status wi_check_load(struct wi_check *c, uint32_t lane, uint32_t time, const struct wi_region *r, uint32_t i,
                          uint64_t *index)
{
    int owner = wi_sched_owner(c->scheds[c->lanes[lane].rank], r);
    struct wi_region at = wi_sched_canonical(c->scheds[owner], owner, *r);
    char text[WI_REGION_TEXT_BYTES];

    WI_TRY(enter(c, lane, time, owner, r));
    at.first += i;
    at.count = 1;
    *index = wi_check_cell(c, owner, at);
    struct wi_cell *cell = &c->cells[*index];
    if (cell->write_lane != WI_NONE && !ordered_after(c, lane, cell->write_lane, cell->write_time))
        return race(c, lane, time, "reads", r, i, cell->write_lane, cell->write_time, "writes");
    if (c->values[*index].nranks == 0)
        return wi_check_fail(c, lane, (time - 1) / 2, "reads block %u of %s, which nothing has written", r->first + i,
                             wi_sched_region_text(r, text));
    /* The readers of blocks that no lane may write need not be recorded. */
    if (wi_sched_writable(c->scheds[owner], owner, at) && remember_read(c, cell, lane, time))
        return wi_check_nomem(c);
    return WEFT_SUCCESS;
}

static weft_status check_reads(struct wi_check *c, uint32_t lane, uint32_t time, const struct wi_region *r, uint32_t i,
                               struct wi_cell *cell)
{
    while (cell->reads != WI_NONE) {
        uint32_t index = cell->reads;
        struct wi_read *read = &c->reads[index];
        if (!ordered_after(c, lane, read->lane, read->time))
            return race(c, lane, time, "writes", r, i, read->lane, read->time, "reads");
        cell->reads = read->next;
        read->next = c->free_read;
        c->free_read = index;
    }
    return WEFT_SUCCESS;
}

/* Blocks of a vector differ in length: a value lies in the block that it is of, or in scratch cut like the vector.
 * Scratch of mapped ranks has room for any block. */
static uint32_t length_of(const struct wi_sched *s, struct wi_region at)
{
    return at.buf == WI_PACK ? s->packs[at.first].block : at.first % s->nblocks;
}

static int fits(const struct wi_check *c, int owner, struct wi_region at)
{
    const struct wi_sched *s = c->scheds[owner];

    if (!wi_coll_is_vector(s->coll) || (at.buf == WI_TMP && (c->mapped || c->notes)))
        return 1;
    return length_of(s, at) == c->scratch.block;
}

weft_status wi_check_store(struct wi_check *c, uint32_t lane, uint32_t time, const struct wi_region *r, uint32_t i)
{
    int owner = wi_sched_owner(c->scheds[c->lanes[lane].rank], r);
    struct wi_region at = wi_sched_canonical(c->scheds[owner], owner, *r);

    if (c->scheds[0]->coll == WI_COLL_EXSCAN && owner == 0 && at.buf == WI_DST)
        return wi_check_fail(c, lane, (time - 1) / 2, "writes dst of rank 0, which exscan leaves alone");
    WI_TRY(enter(c, lane, time, owner, r));
    at.first += i;
    at.count = 1;
    if (!fits(c, owner, at)) {
        char text[WI_REGION_TEXT_BYTES];
        return wi_check_fail(c, lane, (time - 1) / 2,
                             "stores block %u of the vector in %s, which is as long as block %u", c->scratch.block,
                             wi_sched_region_text(&at, text), length_of(c->scheds[owner], at));
    }
    uint64_t index = wi_check_cell(c, owner, at);
    struct wi_cell *cell = &c->cells[index];
    if (cell->write_lane != WI_NONE && !ordered_after(c, lane, cell->write_lane, cell->write_time))
        return race(c, lane, time, "writes", r, i, cell->write_lane, cell->write_time, "writes");
    WI_TRY(check_reads(c, lane, time, r, i, cell));
    cell->write_lane = lane;
    cell->write_time = time;
    c->values[index] = c->scratch;
    memcpy(&c->bits[index * c->words], c->scratch_bits, c->words * sizeof(*c->bits));
    return WEFT_SUCCESS;
}

static weft_status check_barrier(const struct wi_check *c, uint32_t rank)
{
    char where[WI_PLACE_TEXT_BYTES];

    for (uint32_t other = 0; other < c->nranks; other++) {
        uint32_t first = c->rank_lanes[other];
        if (other == rank || wi_clock_knows(c->ends[rank], first, c->rank_lanes[other + 1] - first))
            continue;
        return wi_fail(WEFT_EINVAL, "%s: may leave the barrier before rank %u has entered it",
                       wi_sched_place_text(c->scheds[rank], WI_NOWHERE, WI_NOWHERE, where), other);
    }
    return WEFT_SUCCESS;
}

static weft_status check_foreign(const struct wi_check *c, uint32_t rank)
{
    const uint32_t *used = &c->foreign[(size_t)rank * c->nlanes];

    for (uint32_t lane = 0; lane < c->nlanes; lane++) {
        if (!used[lane] || wi_clock_time(c->ends[rank], lane) >= used[lane])
            continue;
        return wi_check_fail(c, lane, (used[lane] - 1) / 2,
                             "race: may use memory of rank %u after that rank has returned", rank);
    }
    return WEFT_SUCCESS;
}

weft_status wi_check_ends(struct wi_check *c)
{
    for (uint32_t rank = 0; c->ends && rank < c->nranks; rank++) {
        if (!c->data)
            WI_TRY(check_barrier(c, rank));
        if (c->foreign)
            WI_TRY(check_foreign(c, rank));
    }
    return WEFT_SUCCESS;
}
