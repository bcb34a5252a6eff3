/* SPDX-License-Identifier: BSD-3-Clause */
/* Which memory a region is: sizes of the buffers of each collective, and what in-place calls share. */
#include "sched/internal.h"

/* Blocks of SRC and DST. Barrier and point-to-point messages have one of each that applies; a barrier's are empty, so
 * that its messages have something to name. */
static uint32_t user_blocks(const struct wi_sched *s, int owner, int is_dst)
{
    uint32_t share = wi_coll_is_vector(s->coll) ? 1 : s->nblocks, nranks = (uint32_t)s->nranks * share;
    int is_root = owner == s->root;

    switch (s->coll) {
    case WI_COLL_ALL_REDUCE:
    case WI_COLL_SCAN:
    case WI_COLL_EXSCAN:
        return s->nblocks;
    case WI_COLL_REDUCE:
        return is_dst && !is_root ? 0 : s->nblocks;
    case WI_COLL_BROADCAST:
        return !is_dst && !is_root ? 0 : s->nblocks;
    case WI_COLL_ALL_GATHER:
    case WI_COLL_ALL_GATHER_V:
        return is_dst ? nranks : share;
    case WI_COLL_REDUCE_SCATTER:
    case WI_COLL_REDUCE_SCATTER_V:
        return is_dst ? share : nranks;
    case WI_COLL_ALL_TO_ALL:
    case WI_COLL_ALL_TO_ALL_V:
        return nranks;
    case WI_COLL_GATHER:
    case WI_COLL_GATHER_V:
        return !is_dst ? share : is_root ? nranks : 0;
    case WI_COLL_SCATTER:
    case WI_COLL_SCATTER_V:
        return is_dst ? share : is_root ? nranks : 0;
    case WI_COLL_SEND:
        return is_dst ? 0 : 1;
    case WI_COLL_RECV:
        return is_dst ? 1 : 0;
    default:
        return 1;
    }
}

uint32_t wi_sched_blocks(const struct wi_sched *sched, int owner, unsigned buf)
{
    /* Mapped ranks must agree on the size of TMP, so that ours says how large a peer's is. */
    return buf >= WI_TMP ? sched->buf_blocks[buf] : user_blocks(sched, owner, buf == WI_DST);
}

struct wi_region wi_sched_canonical(const struct wi_sched *s, int owner, struct wi_region region)
{
    if (!s->in_place || region.buf >= WI_TMP)
        return region;
    switch (s->coll) {
    case WI_COLL_REDUCE:
    case WI_COLL_BROADCAST:
        if (owner == s->root)
            region.buf = WI_DST;
        break;
    case WI_COLL_ALL_REDUCE:
    case WI_COLL_SCAN:
    case WI_COLL_EXSCAN:
        region.buf = WI_DST;
        break;
    case WI_COLL_GATHER:
    case WI_COLL_GATHER_V:
        if (owner != s->root)
            break;
        /* fall through */
    case WI_COLL_ALL_GATHER:
    case WI_COLL_ALL_GATHER_V:
        if (region.buf == WI_SRC) {
            region.buf = WI_DST;
            region.first += (uint32_t)owner * s->nblocks;
        }
        break;
    case WI_COLL_SCATTER:
    case WI_COLL_SCATTER_V:
        if (owner != s->root)
            break;
        /* fall through */
    case WI_COLL_REDUCE_SCATTER:
    case WI_COLL_REDUCE_SCATTER_V:
        if (region.buf == WI_DST) {
            region.buf = WI_SRC;
            region.first += (uint32_t)owner * s->nblocks;
        }
        break;
    default:
        break;
    }
    return region;
}

int wi_sched_writable(const struct wi_sched *sched, int owner, struct wi_region canonical)
{
    if (canonical.buf != WI_SRC)
        return 1;
    /* Only what is also DST, renamed: one share of SRC. */
    struct wi_region dst = wi_sched_canonical(sched, owner, wi_at(WI_DST, 0, 1));
    return dst.buf == WI_SRC && canonical.first >= dst.first &&
           (uint64_t)canonical.first + canonical.count <= (uint64_t)dst.first + sched->nblocks;
}

uint32_t wi_sched_share(const struct wi_sched *sched, unsigned buf, uint32_t block)
{
    switch (sched->coll) {
    case WI_COLL_BARRIER:
        return 0;
    case WI_COLL_ALL_GATHER:
    case WI_COLL_GATHER:
        return buf == WI_SRC ? (uint32_t)sched->rank : block;
    case WI_COLL_REDUCE_SCATTER:
    case WI_COLL_SCATTER:
        return buf == WI_DST ? (uint32_t)sched->rank : block;
    default:
        return block;
    }
}
