/* SPDX-License-Identifier: BSD-3-Clause */
/* The interpreter's memory: what elements hold, where regions lie, what the results must be. */
#include "interp_internal.h"

#include <stdlib.h>
#include <string.h>

int interp_reduces(unsigned coll)
{
    return coll == WI_COLL_ALL_REDUCE || coll == WI_COLL_REDUCE || coll == WI_COLL_REDUCE_SCATTER ||
           coll == WI_COLL_SCAN || coll == WI_COLL_EXSCAN;
}

/* ---- Values ---- */

static uint64_t count_of(uint64_t value)
{
    return value >> VALUE_COUNT_AT & 15;
}

static uint64_t make(uint64_t ranks, uint64_t count, uint64_t origin)
{
    return ranks | count << VALUE_COUNT_AT | (origin + 1) << VALUE_ORIGIN_AT;
}

uint64_t interp_combine(uint64_t left, uint64_t right)
{
    const uint64_t ranks = (1ull << VALUE_COUNT_AT) - 1;
    uint64_t n = count_of(left) + count_of(right);

    if (left >> VALUE_ORIGIN_AT != right >> VALUE_ORIGIN_AT || (left | right) & (VALUE_DIVIDED | VALUE_BAD) ||
        n > VALUE_RANKS)
        return left | VALUE_BAD;
    return make((left & ranks) << 4 * count_of(right) | (right & ranks), n, (left >> VALUE_ORIGIN_AT) - 1);
}

uint64_t interp_divide(const struct interp *m, uint64_t value)
{
    if (value & VALUE_DIVIDED || count_of(value) != (uint64_t)m->nranks)
        return value | VALUE_BAD;
    return value | VALUE_DIVIDED;
}

/* ---- Where regions lie ---- */

uint32_t interp_pieces(const struct interp *m, const struct wi_region *r)
{
    return m->nslices == 1 ? 1 : r->count;
}

static uint32_t clamp(uint64_t start, uint64_t want, uint64_t end)
{
    return start >= end ? 0 : (uint32_t)(end - start < want ? end - start : want);
}

struct span interp_span(struct interp *m, int rank, const struct wi_region *r, uint32_t slice, uint32_t piece)
{
    int owner = r->rank == WI_SELF ? rank : r->rank, whole = m->nslices == 1;
    uint64_t block = r->first + (uint64_t)piece, len = m->block, skip = (uint64_t)slice * m->slice;
    uint64_t want = whole ? r->count * len : m->slice;
    struct span s = {.owner = owner, .epoch = -1, .foreign = owner != rank && r->buf < WI_TMP};

    if (m->mapped && r->buf == WI_TMP) {
        uint64_t stride = whole ? len : m->slice;
        s.at = m->ranks[owner].base[WI_TMP] + (slice % m->depth * m->tmp_blocks + block) * stride;
        s.n = (uint32_t)(whole ? r->count * stride : stride);
        s.epoch = (int32_t)slice;
        return s;
    }
    s.at = m->ranks[owner].base[r->buf] + block * len + skip;
    if (!m->vector) {
        s.n = whole ? (uint32_t)want : clamp(skip, want, len);
        return s;
    }
    /* Scratch is cut like the vector, over and over. */
    uint64_t in_vector = r->buf == WI_TMP    ? block % m->cut
                         : r->buf == WI_PACK ? m->ranks[owner].sched->packs[block].block
                                             : block;
    uint64_t end = whole ? m->total : (in_vector + 1) * len;
    s.n = clamp(in_vector * len + skip, want, end < m->total ? end : m->total);
    return s;
}

void interp_touch(struct interp *m, const struct span *s)
{
    if (s->foreign && m->ranks[s->owner].state != RANK_INSIDE)
        interp_wrong(m, "uses memory of rank %d, which %s", s->owner,
                     m->ranks[s->owner].state == RANK_LEFT ? "has left" : "has not entered");
}

uint64_t interp_load(struct interp *m, const struct span *s, uint32_t i)
{
    if (!s->at[i].value)
        interp_wrong(m, "reads memory of rank %d that nothing has written", s->owner);
    else if (s->at[i].epoch != s->epoch)
        interp_wrong(m, "reads scratch of slice %d of rank %d in slice %d", s->at[i].epoch, s->owner, s->epoch);
    return s->at[i].value;
}

void interp_store(struct interp *m, const struct span *s, uint32_t i, uint64_t value)
{
    (void)m;
    s->at[i] = (struct elem){value, s->epoch};
}

/* ---- The caller's memory ---- */

/* Blocks of SRC and DST; 0 where the caller gives none. */
static uint64_t user_blocks(const struct interp *m, int rank, unsigned buf)
{
    uint64_t share = m->cut, all = (uint64_t)m->nranks * m->cut;
    int src = buf == WI_SRC, root = rank == m->root;

    switch (m->coll) {
    case WI_COLL_REDUCE:
        return src || root ? share : 0;
    case WI_COLL_BROADCAST:
        return !src || root ? share : 0;
    case WI_COLL_ALL_GATHER:
        return src ? share : all;
    case WI_COLL_REDUCE_SCATTER:
        return src ? all : share;
    case WI_COLL_ALL_TO_ALL:
        return all;
    case WI_COLL_GATHER:
        return src ? share : root ? all : 0;
    case WI_COLL_SCATTER:
        return !src ? share : root ? all : 0;
    default:
        return share;
    }
}

/* In place: which buffer lies in the other one, and where; -1: neither. */
static int shared(const struct interp *m, int rank, uint64_t *offset)
{
    int root = rank == m->root;

    *offset = 0;
    if (!m->in_place)
        return -1;
    switch (m->coll) {
    case WI_COLL_ALL_REDUCE:
    case WI_COLL_SCAN:
    case WI_COLL_EXSCAN:
        return WI_DST;
    case WI_COLL_REDUCE:
    case WI_COLL_BROADCAST:
        return root ? WI_DST : -1;
    case WI_COLL_ALL_GATHER:
    case WI_COLL_GATHER:
        *offset = (uint64_t)rank * m->cut * m->block;
        return m->coll == WI_COLL_ALL_GATHER || root ? WI_SRC : -1;
    case WI_COLL_REDUCE_SCATTER:
    case WI_COLL_SCATTER:
        *offset = (uint64_t)rank * m->cut * m->block;
        return m->coll == WI_COLL_REDUCE_SCATTER || root ? WI_DST : -1;
    default:
        return -1;
    }
}

int interp_memory_create(struct interp *m)
{
    for (int r = 0; r < m->nranks; r++) {
        struct rank *k = &m->ranks[r];
        for (unsigned buf = 0; buf < WI_NUM_BUFS; buf++) {
            uint64_t blocks = buf < WI_TMP ? user_blocks(m, r, buf) : k->sched->buf_blocks[buf];
            k->room[buf] = blocks * MAX_BLOCK * (buf == WI_TMP && m->mapped ? MAX_DEPTH : 1);
            k->store[buf] = calloc(k->room[buf] + 1, sizeof(struct elem));
            if (!k->store[buf])
                return -1;
        }
        if (!m->can_ll)
            continue;
        uint64_t line = (uint64_t)m->tmp_blocks * MAX_BLOCK + 1;
        k->own = calloc(line, sizeof(struct elem));
        k->lines = calloc(line * MAX_DEPTH, sizeof(struct elem));
        k->landing = calloc(line * (uint64_t)m->nranks, sizeof(struct elem));
        if (!k->own || !k->lines || !k->landing)
            return -1;
    }
    return 0;
}

void interp_memory_destroy(struct interp *m)
{
    for (int r = 0; r < m->nranks; r++) {
        for (unsigned buf = 0; buf < WI_NUM_BUFS; buf++)
            free(m->ranks[r].store[buf]);
        free(m->ranks[r].own);
        free(m->ranks[r].lines);
        free(m->ranks[r].landing);
    }
}

static void reset_rank(struct interp *m, int r)
{
    struct rank *k = &m->ranks[r];
    uint64_t offset, line = (uint64_t)m->tmp_blocks * MAX_BLOCK + 1;
    int inner = shared(m, r, &offset);

    for (unsigned buf = 0; buf < WI_NUM_BUFS; buf++) {
        for (uint64_t i = 0; i < k->room[buf]; i++)
            k->store[buf][i] = (struct elem){0, -1};
        k->base[buf] = k->store[buf];
    }
    if (inner >= 0)
        k->base[inner] = k->store[inner == WI_SRC ? WI_DST : WI_SRC] + offset;
    for (uint64_t i = 0; i < user_blocks(m, r, WI_SRC) * m->block; i++)
        k->base[WI_SRC][i].value = make((uint64_t)r, 1, i);
    if (m->can_ll) {
        memset(k->own, 0, line * sizeof(struct elem));
        memset(k->lines, 0, line * MAX_DEPTH * sizeof(struct elem));
        memset(k->line_epoch, 0, sizeof k->line_epoch);
    }
}

void interp_memory_reset(struct interp *m)
{
    for (int r = 0; r < m->nranks; r++)
        reset_rank(m, r);
    m->arena_used = 0;
}

/* ---- Results ---- */

struct promise {
    uint64_t origin;
    int low, high; /* contributing ranks */
};

static struct promise promised(const struct interp *m, int rank, uint64_t i)
{
    uint64_t share = (uint64_t)m->cut * m->block, mine = (uint64_t)rank * share;
    int from = share ? (int)(i / share) : 0;

    switch (m->coll) {
    case WI_COLL_BROADCAST:
        return (struct promise){i, m->root, m->root + 1};
    case WI_COLL_SCATTER:
        return (struct promise){mine + i, m->root, m->root + 1};
    case WI_COLL_ALL_GATHER:
    case WI_COLL_GATHER:
        return (struct promise){i % share, from, from + 1};
    case WI_COLL_ALL_TO_ALL:
        return (struct promise){mine + i % share, from, from + 1};
    case WI_COLL_REDUCE_SCATTER:
        return (struct promise){mine + i, 0, m->nranks};
    case WI_COLL_SCAN:
        return (struct promise){i, 0, rank + 1};
    case WI_COLL_EXSCAN:
        return (struct promise){i, 0, rank};
    default:
        return (struct promise){i, 0, m->nranks};
    }
}

static int keeps(const struct interp *m, uint64_t value, const struct promise *p)
{
    unsigned seen = 0;
    int n = p->high - p->low,
        divides = interp_reduces(m->coll) && m->coll != WI_COLL_SCAN && m->coll != WI_COLL_EXSCAN && m->nranks > 1;

    if (value & VALUE_BAD || !(value & VALUE_DIVIDED) != !divides || value >> VALUE_ORIGIN_AT != p->origin + 1 ||
        count_of(value) != (uint64_t)n)
        return 0;
    for (int k = 0; k < n; k++) {
        int rank = (int)(value >> 4 * (n - 1 - k) & 15);
        if (m->ordered && rank != p->low + k)
            return 0;
        seen |= 1u << rank;
    }
    return seen == (1u << p->high) - (1u << p->low);
}

static void check_result(struct interp *m, int rank)
{
    uint64_t n = user_blocks(m, rank, WI_DST) * m->block;

    if (m->vector && m->total < n)
        n = m->total;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t value = m->ranks[rank].base[WI_DST][i].value;
        struct promise p = promised(m, rank, i);
        if (m->coll == WI_COLL_EXSCAN && rank == 0) {
            if (value != (m->in_place ? make(0, 1, i) : 0))
                interp_wrong(m, "writes DST of rank 0");
        } else if (!keeps(m, value, &p)) {
            interp_wrong(m, "element %llu of DST of rank %d is wrong (%#llx)", (unsigned long long)i, rank,
                         (unsigned long long)value);
        }
    }
}

static void check_source(struct interp *m, int rank)
{
    const struct rank *k = &m->ranks[rank];
    uint64_t n = user_blocks(m, rank, WI_SRC) * m->block;
    const struct elem *dst = k->base[WI_DST], *end = dst + user_blocks(m, rank, WI_DST) * m->block;

    for (uint64_t i = 0; i < n; i++) {
        const struct elem *e = &k->base[WI_SRC][i];
        if (e->value != make((uint64_t)rank, 1, i) && !(m->in_place && e >= dst && e < end))
            interp_wrong(m, "element %llu of SRC of rank %d was written", (unsigned long long)i, rank);
    }
}

void interp_results(struct interp *m)
{
    for (int r = 0; m->coll != WI_COLL_BARRIER && r < m->nranks && !m->wrong[0]; r++) {
        check_result(m, r);
        check_source(m, r);
    }
}
