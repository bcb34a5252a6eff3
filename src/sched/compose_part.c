/* SPDX-License-Identifier: BSD-3-Clause */
/* One part of a composition: which share a region means, and where its items lie in the whole. */
#include "sched/compose_part.h"

#include "base/alloc.h"
#include "base/status.h"

#define UNKNOWN UINT32_MAX
#define MIXED (UINT32_C(1) << 31) /* the block holds other shares at other times */

/* ---- Shares ---- */

weft_status wi_shares_init(struct wi_shares *shares, uint32_t n)
{
    *shares = (struct wi_shares){.n = n};
    shares->start = wi_calloc((size_t)n + 1, sizeof(*shares->start));
    return shares->start ? WEFT_SUCCESS : wi_fail(WEFT_ENOMEM, "composition: no memory for %u shares", n);
}

void wi_shares_next(struct wi_shares *shares)
{
    uint32_t end = shares->start[shares->begun];

    if (shares->begun < shares->n)
        shares->start[++shares->begun] = end;
}

weft_status wi_shares_add(struct wi_shares *shares, uint32_t first, uint32_t count, int grow)
{
    uint32_t from = shares->start[shares->begun - 1], *end = &shares->start[shares->begun];

    if (!count)
        return WEFT_SUCCESS;
    if (grow && *end > from && shares->run[*end - 1].first + shares->run[*end - 1].count == first) {
        shares->run[*end - 1].count += count;
        return WEFT_SUCCESS;
    }
    if (*end == shares->run_capacity) {
        uint32_t more = shares->run_capacity ? 2 * shares->run_capacity : 8;
        struct wi_run *p = wi_realloc(shares->run, more * sizeof(*p));
        if (!p)
            return wi_fail(WEFT_ENOMEM, "composition: no memory for %u runs", more);
        shares->run = p;
        shares->run_capacity = more;
    }
    shares->run[(*end)++] = (struct wi_run){first, count};
    return WEFT_SUCCESS;
}

uint32_t wi_shares_items(const struct wi_shares *shares, uint32_t share)
{
    uint32_t n = 0;

    for (uint32_t i = shares->start[share]; i < shares->start[share + 1]; i++)
        n += shares->run[i].count;
    return n;
}

void wi_shares_free(struct wi_shares *shares)
{
    wi_free(shares->start);
    wi_free(shares->run);
    *shares = (struct wi_shares){0};
}

/* ---- Which share a block is ---- */

static uint32_t share_of(const struct wi_part_state *s, const struct wi_region *r, uint32_t i)
{
    if (r->buf == WI_PACK) {
        const struct wi_pack *image = &s->part.sched->packs[r->first + i];
        return wi_sched_share(s->part.sched, image->buf, image->block);
    }
    return r->buf == WI_TMP ? s->tmp_share[r->first + i] : wi_sched_share(s->part.sched, r->buf, r->first + i);
}

static const struct wi_region *region_at(const struct wi_part_state *s, const struct wi_step *step, unsigned k)
{
    return &s->part.sched->regions[k < step->ndst ? step->dst + k : step->src + k - step->ndst];
}

/* The region that says which shares a step is about: one of the user's, if there is one. */
static const struct wi_region *subject(const struct wi_part_state *s, const struct wi_step *step)
{
    for (unsigned k = 0; k < (unsigned)step->ndst + step->nsrc; k++) {
        if (region_at(s, step, k)->buf != WI_TMP)
            return region_at(s, step, k);
    }
    return region_at(s, step, 0);
}

/* Blocks that hold other shares at other times must meet one of the user's in each step, which says what they hold then. */
static weft_status check_mixed(struct wi_part_state *s)
{
    const struct wi_sched *sched = s->part.sched;

    for (uint32_t i = 0; i < sched->nsteps; i++) {
        const struct wi_step *step = &sched->steps[i];
        const struct wi_region *about = step->ndst + step->nsrc ? subject(s, step) : NULL;
        for (uint32_t b = 0; about && about->buf == WI_TMP && b < about->count; b++) {
            if (s->tmp_share[about->first + b] & MIXED)
                return wi_fail(
                    WEFT_ENOTSUP,
                    "%s %s among %d ranks cannot be part of a hierarchy: its scratch holds other shares later",
                    wi_coll_name(sched->coll), sched->algo, sched->nranks);
        }
    }
    for (uint32_t t = 0; t < sched->buf_blocks[WI_TMP]; t++)
        s->tmp_share[t] &= ~MIXED;
    return WEFT_SUCCESS;
}

/* A block of scratch that meets SRC or DST in a step keeps that share. One that never does is in line with one that does:
 * algorithms keep shares in scratch in their order, or rotated. */
static weft_status find_tmp_shares(struct wi_part_state *s)
{
    const struct wi_sched *sched = s->part.sched;
    uint32_t n = sched->buf_blocks[WI_TMP], known = UNKNOWN;

    for (uint32_t t = 0; t < n; t++)
        s->tmp_share[t] = wi_coll_is_vector(sched->coll) ? t % s->nshares : UNKNOWN;
    for (uint32_t i = 0; i < sched->nsteps; i++) {
        const struct wi_step *step = &sched->steps[i];
        const struct wi_region *about = step->ndst + step->nsrc ? subject(s, step) : NULL;
        for (unsigned k = 0; about && about->buf != WI_TMP && k < (unsigned)step->ndst + step->nsrc; k++) {
            const struct wi_region *r = region_at(s, step, k);
            for (uint32_t b = 0; r->buf == WI_TMP && b < r->count; b++) {
                uint32_t *share = &s->tmp_share[r->first + b], is = share_of(s, about, b);
                *share = *share == UNKNOWN || *share == is ? is : *share | MIXED;
            }
        }
    }
    for (uint32_t t = 0; t < n && known == UNKNOWN; t++)
        known = s->tmp_share[t] == UNKNOWN ? UNKNOWN : t;
    for (uint32_t t = 0; t < n; t++) {
        uint32_t base = known == UNKNOWN ? 0 : s->nshares + (s->tmp_share[known] & ~MIXED) - known % s->nshares;
        if (s->tmp_share[t] == UNKNOWN)
            s->tmp_share[t] = (base + t) % s->nshares;
    }
    return check_mixed(s);
}

/* ---- Images ---- */

static weft_status lay_out_images(struct wi_part_state *s)
{
    const struct wi_sched *sched = s->part.sched;
    uint32_t n = sched->buf_blocks[WI_PACK], at = 0;

    if (!n)
        return WEFT_SUCCESS;
    if (s->part.src != s->part.dst)
        return wi_fail(WEFT_ENOTSUP, "%s %s: images cannot be part of an exchange by levels", wi_coll_name(sched->coll),
                       sched->algo);
    s->pack_at = wi_calloc((size_t)n + 1, sizeof(*s->pack_at));
    if (!s->pack_at)
        return wi_fail(WEFT_ENOMEM, "composition: no memory for %u images", n);
    for (uint32_t i = 0; i < n; i++) {
        struct wi_region image = wi_at(WI_PACK, i, 1);
        s->pack_at[i] = at;
        at += wi_shares_items(s->part.src, share_of(s, &image, 0));
    }
    s->pack_at[n] = at;
    return WEFT_SUCCESS;
}

uint32_t wi_part_images(const struct wi_part_state *s)
{
    uint32_t n = s->part.sched->buf_blocks[WI_PACK];

    return s->part.as_is || !n ? n : s->pack_at[n];
}

/* The buffer of the whole in which block i is as long as item i. */
static enum wi_buf all_items(enum wi_coll whole)
{
    return whole == WI_COLL_REDUCE_SCATTER ? WI_SRC : WI_DST;
}

void wi_part_name_images(const struct wi_part_state *s, enum wi_coll whole, struct wi_sched_builder *b)
{
    const struct wi_sched *sched = s->part.sched;

    for (uint32_t i = 0; i < sched->buf_blocks[WI_PACK]; i++) {
        const struct wi_pack *image = &sched->packs[i];
        struct wi_region at = wi_at(WI_PACK, i, 1);
        uint32_t next = s->part.as_is ? 0 : s->pack_first + s->pack_at[i], share;
        if (s->part.as_is) {
            wi_sched_image(b, i, (enum wi_buf)image->buf, image->block, image->residual);
            continue;
        }
        share = share_of(s, &at, 0);
        for (uint32_t r = s->part.src->start[share]; r < s->part.src->start[share + 1]; r++)
            for (uint32_t k = 0; k < s->part.src->run[r].count; k++)
                wi_sched_image(b, next++, all_items(whole), s->part.src->run[r].first + k + s->part.shift,
                               image->residual);
    }
}

/* ---- May scratch lie in DST? ---- */

struct use { /* of one share */
    uint32_t src_reads, src_into_tmp, blind, tmp_block;
    uint8_t written, dst_otherwise;
};

static void note_use(const struct wi_part_state *s, const struct wi_step *step, uint32_t b, struct use *use, int *fits)
{
    const struct wi_region *about = subject(s, step);
    struct use *u = &use[about->buf == WI_TMP ? s->tmp_share[about->first + b] : share_of(s, about, b)];
    int into_tmp = 0, from_src = 0, from_tmp = 0;

    for (unsigned k = 0; k < (unsigned)step->ndst + step->nsrc; k++) {
        const struct wi_region *r = region_at(s, step, k);
        if (r->buf == WI_TMP) {
            uint32_t t = r->first + b;
            *fits &= t < s->nshares && (u->tmp_block == UNKNOWN || u->tmp_block == t);
            u->tmp_block = t;
            into_tmp |= k < step->ndst;
            from_tmp |= k >= step->ndst;
        }
        from_src |= r->buf == WI_SRC;
    }
    u->src_reads += (uint32_t)from_src;
    u->src_into_tmp += (uint32_t)(from_src && into_tmp);
    u->written |= (uint8_t)into_tmp;
    u->blind += into_tmp && !from_src && !from_tmp;
    for (unsigned k = 0; k < (unsigned)step->ndst + step->nsrc; k++)
        u->dst_otherwise |= region_at(s, step, k)->buf == WI_DST && !(k < step->ndst && from_tmp);
}

/* Scratch of a share may be the share's own place in DST if DST gets nothing but what scratch held, and, where DST is also
 * SRC, if the first store into it is the only use of SRC. */
static weft_status fits_in_dst(struct wi_part_state *s)
{
    const struct wi_sched *sched = s->part.sched;
    int in_place = s->part.src_at.buf == s->part.dst_at.buf && s->part.src_at.offset == s->part.dst_at.offset, fits = 1;
    struct use *use = wi_calloc(s->nshares, sizeof(*use));

    if (!use)
        return wi_fail(WEFT_ENOMEM, "composition: no memory for %u shares", s->nshares);
    for (uint32_t i = 0; i < s->nshares; i++)
        use[i].tmp_block = UNKNOWN;
    for (uint32_t i = 0; i < sched->nsteps; i++) {
        const struct wi_step *step = &sched->steps[i];
        uint32_t n = step->ndst + step->nsrc ? region_at(s, step, 0)->count : 0;
        for (uint32_t b = 0; b < n; b++)
            note_use(s, step, b, use, &fits);
    }
    for (uint32_t i = 0; i < s->nshares; i++) {
        const struct use *u = &use[i];
        if (!u->written)
            continue;
        fits &= !u->dst_otherwise;
        if (in_place && u->src_reads)
            fits &= u->src_reads == 1 && u->src_into_tmp == 1 && !u->blind;
    }
    wi_free(use);
    s->scratch_in_dst = fits;
    return WEFT_SUCCESS;
}

weft_status wi_part_init(struct wi_part_state *s, const struct wi_part *part)
{
    const struct wi_sched *sched = part->sched;
    uint32_t ntmp = sched->buf_blocks[WI_TMP];

    *s = (struct wi_part_state){.part = *part};
    if (part->as_is) {
        wi_sched_get(part->sched);
        return WEFT_SUCCESS;
    }
    s->nshares = wi_coll_is_vector(sched->coll)   ? sched->nblocks
                 : sched->coll == WI_COLL_BARRIER ? 1
                                                  : (uint32_t)sched->nranks;
    if (ntmp) {
        s->tmp_share = wi_calloc(ntmp, sizeof(*s->tmp_share));
        if (!s->tmp_share)
            return wi_fail(WEFT_ENOMEM, "composition: no memory for %u blocks of scratch", ntmp);
        weft_status st = find_tmp_shares(s);
        if (st >= 0 && part->roomy && !sched->buf_blocks[WI_PACK]) /* who takes a loss back reads what was encoded */
            st = fits_in_dst(s);
        if (st < 0) {
            wi_free(s->tmp_share);
            return st;
        }
        s->pages = (ntmp + s->nshares - 1) / s->nshares - (s->scratch_in_dst ? 1 : 0);
    }
    weft_status images = lay_out_images(s);
    if (images < 0) {
        wi_free(s->tmp_share);
        return images;
    }
    wi_sched_get(part->sched);
    return WEFT_SUCCESS;
}

void wi_part_fini(struct wi_part_state *s)
{
    wi_free(s->pack_at);
    wi_free(s->tmp_share);
    wi_sched_put(s->part.sched);
}

/* ---- Pieces ---- */

/* `nth`: items of the share that come before the run. */
static struct wi_region place(const struct wi_part_state *s, const struct wi_region *r, uint32_t b, struct wi_run run,
                              uint32_t nth, uint32_t page_items, uint32_t scratch_page)
{
    if (r->buf == WI_PACK)
        return wi_at(WI_PACK, s->pack_first + s->pack_at[r->first + b] + nth, run.count);
    uint32_t page = (r->first + b) / s->nshares;
    struct wi_place at = r->buf == WI_SRC ? s->part.src_at : s->part.dst_at;

    if (r->buf == WI_TMP && !(s->scratch_in_dst && page == 0))
        at = (struct wi_place){WI_TMP, (int64_t)(scratch_page + page - (s->scratch_in_dst != 0)) * page_items};
    return wi_at((enum wi_buf)at.buf, (uint32_t)((int64_t)run.first + s->part.shift + at.offset), run.count);
}

static int add_room(struct wi_pieces *p)
{
    if ((p->n + 1) * p->nregions <= p->capacity)
        return 0;
    uint32_t more = 2 * (p->n + 1) * p->nregions;
    struct wi_region *grown = wi_realloc(p->region, more * sizeof(*grown));
    if (!grown)
        return -1;
    p->region = grown;
    p->capacity = more;
    return 0;
}

/* Does the newest piece go on in this one, in every region? */
static int continues(const struct wi_pieces *p, const struct wi_region *next)
{
    const struct wi_region *last = p->n ? &p->region[(p->n - 1) * p->nregions] : NULL;

    for (uint32_t k = 0; last && k < p->nregions; k++) {
        if (last[k].buf != next[k].buf || last[k].first + last[k].count != next[k].first)
            return 0;
    }
    return last != NULL;
}

static const struct wi_shares *shares_of(const struct wi_part_state *s, unsigned buf)
{
    return buf == WI_SRC ? s->part.src : s->part.dst;
}

/* The one piece of a step that stays as it is. */
static weft_status whole_piece(const struct wi_part_state *s, const struct wi_step *step, struct wi_pieces *p)
{
    if (add_room(p))
        return wi_fail(WEFT_ENOMEM, "composition: no memory for pieces");
    for (uint32_t k = 0; k < p->nregions; k++)
        p->region[k] = *region_at(s, step, k);
    p->n = 1;
    return WEFT_SUCCESS;
}

/* The piece of a step that `run` is, the next one of block b; it continues the newest one where it can. */
static weft_status add_piece(const struct wi_part_state *s, const struct wi_step *step, uint32_t b, uint32_t j,
                             struct wi_run run, uint32_t nth, const uint32_t pages[2], struct wi_pieces *p)
{
    int apart = s->part.src != s->part.dst; /* all_to_all: items of SRC and of DST are not the same */
    struct wi_region *next;

    if (add_room(p))
        return wi_fail(WEFT_ENOMEM, "composition: no memory for pieces");
    next = &p->region[p->n * p->nregions];
    for (uint32_t k = 0; k < p->nregions; k++) {
        const struct wi_region *r = region_at(s, step, k);
        const struct wi_shares *own = shares_of(s, r->buf);
        struct wi_run of = apart ? own->run[own->start[share_of(s, r, b)] + j] : run;
        next[k] = place(s, r, b, of, nth, pages[0], pages[1]);
    }
    if (!apart && !wi_sched_names_images(s->part.sched, step) && continues(p, next))
        for (uint32_t k = 0; k < p->nregions; k++)
            p->region[(p->n - 1) * p->nregions + k].count += next[k].count;
    else
        p->n++;
    return WEFT_SUCCESS;
}

/* Images of several items do not lie together as one: each is a piece. */
static weft_status add_run(const struct wi_part_state *s, const struct wi_step *step, uint32_t b, uint32_t j,
                           struct wi_run run, uint32_t nth, const uint32_t pages[2], struct wi_pieces *p)
{
    if (!wi_sched_names_images(s->part.sched, step))
        return add_piece(s, step, b, j, run, nth, pages, p);
    for (uint32_t i = 0; i < run.count; i++)
        WI_TRY(add_piece(s, step, b, j, (struct wi_run){run.first + i, 1}, nth + i, pages, p));
    return WEFT_SUCCESS;
}

weft_status wi_part_pieces(const struct wi_part_state *s, const struct wi_step *step, uint32_t page_items,
                           uint32_t scratch_page, struct wi_pieces *p)
{
    const uint32_t pages[2] = {page_items, scratch_page};
    const struct wi_region *about;

    p->n = 0;
    p->nregions = (uint32_t)step->ndst + step->nsrc;
    if (s->part.as_is)
        return whole_piece(s, step, p);
    about = subject(s, step);
    for (uint32_t b = 0; b < about->count; b++) {
        const struct wi_shares *list = shares_of(s, about->buf);
        uint32_t share = share_of(s, about, b), nth = 0, nruns = list->start[share + 1] - list->start[share];
        for (uint32_t j = 0; j < nruns; j++) {
            struct wi_run run = list->run[list->start[share] + j];
            WI_TRY(add_run(s, step, b, j, run, nth, pages, p));
            nth += run.count;
        }
    }
    return WEFT_SUCCESS;
}
