/* SPDX-License-Identifier: BSD-3-Clause */
/* Stages: hierarchical schedules whose innermost groups work through slots. Shares and places are those of a part of the
 * composition (sched/compose.h); only slots take the place of messages. So one stage reads what the stage before it has left:
 * wi_algo_flatten replaces the slots by messages, and the result is proved like any other schedule. */
#include <string.h>

#include "algo/hier.h"
#include "base/alloc.h"
#include "base/status.h"
#include "sched/internal.h"

/* ---- Making them ---- */

static weft_status fill(struct wi_sched_stage *s, const struct wi_part *part)
{
    const struct wi_shares *shares = part->src;
    uint32_t total = 0, at = 0;

    for (uint32_t i = 0; i < shares->n; i++)
        total += wi_shares_items(shares, i);
    s->nshares = shares->n;
    s->ranks = wi_malloc((size_t)part->sched->nranks * sizeof *s->ranks);
    s->start = wi_malloc(((size_t)shares->n + 1) * sizeof *s->start);
    s->item = wi_malloc(((size_t)total + 1) * sizeof *s->item);
    if (!s->ranks || !s->start || !s->item)
        return wi_fail(WEFT_ENOMEM, "hierarchy: no memory for a stage of %d ranks", part->sched->nranks);
    memcpy(s->ranks, part->ranks, (size_t)part->sched->nranks * sizeof *s->ranks);
    for (uint32_t i = 0; i < shares->n; i++) {
        s->start[i] = at;
        for (uint32_t r = shares->start[i]; r < shares->start[i + 1]; r++)
            for (uint32_t k = 0; k < shares->run[r].count; k++)
                s->item[at++] = shares->run[r].first + k;
        s->max_items = at - s->start[i] > s->max_items ? at - s->start[i] : s->max_items;
    }
    s->start[shares->n] = at;
    return WEFT_SUCCESS;
}

weft_status wi_hier_stage(const struct wi_part *part, struct wi_sched_stage **stage)
{
    struct wi_sched_stage *s = wi_calloc(1, sizeof *s);

    if (!s)
        return wi_fail(WEFT_ENOMEM, "hierarchy: no memory for a stage");
    s->sched = wi_sched_get(part->sched);
    s->final = part->final != 0;
    s->at[WI_SRC].buf = part->src_at.buf;
    s->at[WI_SRC].offset = part->src_at.offset;
    s->at[WI_DST].buf = part->dst_at.buf;
    s->at[WI_DST].offset = part->dst_at.offset;
    *stage = s; /* owned by the caller from here on, also when this fails */
    return fill(s, part);
}

/* ---- Messages in their place ---- */

struct flat {
    struct wi_shares shares;
    struct wi_part part;
};

/* All items of a vector are one block: the stage cuts it by itself. */
static weft_status copy_shares(const struct wi_sched_stage *s, struct flat *f)
{
    int vector = wi_coll_is_vector(s->sched->coll);

    if (vector && f->part.sched->nblocks != 1)
        return wi_fail(WEFT_EINTERNAL, "%s %s has %u blocks", wi_coll_name(f->part.sched->coll), f->part.sched->algo,
                       f->part.sched->nblocks);
    WI_TRY(wi_shares_init(&f->shares, vector ? 1 : s->nshares));
    for (uint32_t i = 0; i < s->nshares; i++) {
        if (i == 0 || !vector)
            wi_shares_next(&f->shares);
        for (uint32_t k = s->start[i]; k < s->start[i + 1]; k++)
            WI_TRY(wi_shares_add(&f->shares, s->item[k], 1, 0));
    }
    return WEFT_SUCCESS;
}

static weft_status part_of(const struct wi_sched_stage *s, uint32_t phase, struct flat *f)
{
    struct wi_algo_args args = {
        .rank = s->sched->rank, .nranks = s->sched->nranks, .root = s->sched->root, .in_place = s->sched->in_place};
    const struct wi_algo *algo =
        wi_algo_find((enum wi_coll)s->sched->coll, wi_hier_default((enum wi_coll)s->sched->coll));

    WI_TRY(algo->build(&args, &f->part.sched));
    WI_TRY(copy_shares(s, f));
    f->part.ranks = s->ranks;
    f->part.src = f->part.dst = &f->shares;
    f->part.src_at = (struct wi_place){s->at[WI_SRC].buf, s->at[WI_SRC].offset};
    f->part.dst_at = (struct wi_place){s->at[WI_DST].buf, s->at[WI_DST].offset};
    f->part.phase = phase;
    f->part.chan = 2 * phase;
    f->part.final = s->final;
    return WEFT_SUCCESS;
}

static weft_status add(struct wi_compose *c, const struct wi_sched_stage *s, uint32_t phase, struct flat *f)
{
    if (!s)
        return WEFT_SUCCESS;
    WI_TRY(part_of(s, phase, f));
    return wi_compose_add(c, &f->part);
}

static weft_status write_flat(const struct wi_sched *s, struct wi_compose *c, struct wi_sched **flat)
{
    struct wi_sched_spec spec = {.coll = (enum wi_coll)s->coll,
                                 .algo = s->algo,
                                 .rank = s->rank,
                                 .nranks = s->nranks,
                                 .root = s->root,
                                 .in_place = s->in_place,
                                 .nblocks = s->nblocks,
                                 .tmp_blocks = wi_compose_tmp_blocks(c),
                                 .tmp_like_src = s->tmp_like_src,
                                 .pack_blocks = wi_compose_pack_blocks(c),
                                 .lossy = s->lossy};
    struct wi_sched_builder *b;
    weft_status st;

    WI_TRY(wi_sched_begin(&spec, &b));
    st = wi_compose_write(c, b);
    if (st >= 0)
        return wi_sched_seal(b, flat);
    wi_sched_abandon(b);
    return st;
}

weft_status wi_algo_flatten(const struct wi_sched *s, struct wi_sched **flat)
{
    uint32_t page = wi_coll_is_vector(s->coll) ? s->nblocks : s->coll == WI_COLL_BARRIER ? 1 : (uint32_t)s->nranks;
    int32_t *ranks = wi_malloc((size_t)s->nranks * sizeof *ranks);
    struct flat around[2] = {0};
    struct wi_compose *c = NULL;
    struct wi_part own = {.sched = (struct wi_sched *)(uintptr_t)s, .ranks = ranks, .phase = 1, .as_is = 1, .final = 1};
    weft_status st;

    if (!ranks)
        return wi_fail(WEFT_ENOMEM, "hierarchy: no memory for %d ranks", s->nranks);
    for (int r = 0; r < s->nranks; r++)
        ranks[r] = r;
    st = wi_compose_create(page, (s->buf_blocks[WI_TMP] + page - 1) / page, &c);
    if (st >= 0)
        st = add(c, s->before, 0, &around[0]);
    if (st >= 0)
        st = wi_compose_add(c, &own);
    if (st >= 0)
        st = add(c, s->after, 2, &around[1]);
    if (st >= 0)
        st = write_flat(s, c, flat);
    wi_compose_destroy(c);
    for (int i = 0; i < 2; i++) {
        wi_shares_free(&around[i].shares);
        wi_sched_put(around[i].part.sched);
    }
    wi_free(ranks);
    return st;
}
