/* SPDX-License-Identifier: BSD-3-Clause */
/* The builder: steps collected lane by lane. Errors are latched and come out of seal. */
#include "sched/internal.h"

#include <stdarg.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"

static void latch(struct wi_sched_builder *b, weft_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void latch(struct wi_sched_builder *b, weft_status status, const char *format, ...)
{
    va_list ap;

    if (b->status < 0)
        return;
    b->status = status;
    va_start(ap, format);
    vsnprintf(b->error, sizeof(b->error), format, ap);
    va_end(ap);
}

static int algo_name_ok(const char *name)
{
    size_t n = name ? strlen(name) : 0;

    return n > 0 && n < sizeof(((struct wi_sched *)0)->algo) &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+-:/@*") == n;
}

static weft_status check_spec(const struct wi_sched_spec *spec)
{
    if (!spec || (unsigned)spec->coll >= WI_NUM_COLLS)
        return wi_fail(WEFT_EINVAL, "schedule: unknown collective %d", spec ? (int)spec->coll : -1);
    if (!algo_name_ok(spec->algo))
        return wi_fail(WEFT_EINVAL,
                       "schedule: algorithm name \"%.40s\" must have 1 to 63 characters out of "
                       "a-z A-Z 0-9 _ . + - : / @ *",
                       spec->algo ? spec->algo : "");
    if (spec->nranks < 1 || spec->nranks > WI_SCHED_MAX_RANKS)
        return wi_fail(WEFT_EINVAL, "schedule %s/%s: %d ranks, must be 1 to %d", wi_coll_name(spec->coll), spec->algo,
                       spec->nranks, WI_SCHED_MAX_RANKS);
    if (spec->rank < 0 || spec->rank >= spec->nranks)
        return wi_fail(WEFT_EINVAL, "schedule %s/%s: rank %d is not one of %d ranks", wi_coll_name(spec->coll),
                       spec->algo, spec->rank, spec->nranks);
    if (spec->root < 0 || spec->root >= spec->nranks)
        return wi_fail(WEFT_EINVAL, "schedule %s/%s: root %d is not one of %d ranks", wi_coll_name(spec->coll),
                       spec->algo, spec->root, spec->nranks);
    if (spec->in_place && (spec->coll == WI_COLL_ALL_TO_ALL || spec->coll == WI_COLL_ALL_TO_ALL_V))
        return wi_fail(WEFT_EINVAL, "schedule %s/%s: cannot be in place", wi_coll_name(spec->coll), spec->algo);
    if (wi_coll_is_vector(spec->coll) && (spec->nblocks < 1 || spec->nblocks > WI_SCHED_MAX_BLOCKS))
        return wi_fail(WEFT_EINVAL, "schedule %s/%s: %u blocks, must be 1 to %u", wi_coll_name(spec->coll), spec->algo,
                       spec->nblocks, WI_SCHED_MAX_BLOCKS);
    if (!wi_coll_is_vector(spec->coll) && spec->share_blocks > 1 &&
        (spec->coll >= WI_COLL_BARRIER || (uint64_t)spec->share_blocks * (unsigned)spec->nranks > WI_SCHED_MAX_BLOCKS))
        return wi_fail(WEFT_EINVAL, "schedule %s/%s: %u blocks per share of %d ranks, there must be at most %u in all",
                       wi_coll_name(spec->coll), spec->algo, spec->share_blocks, spec->nranks,
                       spec->coll >= WI_COLL_BARRIER ? 1 : WI_SCHED_MAX_BLOCKS);
    if (spec->pack_blocks > WI_SCHED_MAX_BLOCKS)
        return wi_fail(WEFT_EINVAL, "schedule %s/%s: %u blocks of pack, must be at most %u", wi_coll_name(spec->coll),
                       spec->algo, spec->pack_blocks, WI_SCHED_MAX_BLOCKS);
    if (spec->tmp_blocks > WI_SCHED_MAX_BLOCKS)
        return wi_fail(WEFT_EINVAL, "schedule %s/%s: %u blocks of tmp, must be at most %u", wi_coll_name(spec->coll),
                       spec->algo, spec->tmp_blocks, WI_SCHED_MAX_BLOCKS);
    return WEFT_SUCCESS;
}

weft_status wi_sched_begin(const struct wi_sched_spec *spec, struct wi_sched_builder **builder)
{
    WI_TRY(check_spec(spec));
    struct wi_sched_builder *b = wi_calloc(1, sizeof(*b));
    struct wi_pack *packs = spec->pack_blocks ? wi_calloc(spec->pack_blocks, sizeof *packs) : NULL;
    if (!b || (spec->pack_blocks && !packs)) {
        wi_free(b);
        wi_free(packs);
        return wi_fail(WEFT_ENOMEM, "schedule %s/%s: no memory for a builder", wi_coll_name(spec->coll), spec->algo);
    }

    struct wi_sched *head = &b->head;
    head->refs = 1;
    head->coll = (uint8_t)spec->coll;
    head->in_place = spec->in_place != 0;
    head->rank = spec->rank;
    head->nranks = spec->nranks;
    head->root = spec->root;
    memcpy(head->algo, spec->algo, strlen(spec->algo));
    head->nblocks = wi_coll_is_vector(spec->coll) ? spec->nblocks : spec->share_blocks > 1 ? spec->share_blocks : 1;
    head->buf_blocks[WI_TMP] = spec->tmp_blocks;
    head->buf_blocks[WI_PACK] = spec->pack_blocks;
    head->lossy = spec->lossy;
    head->packs = b->packs = packs;
    for (uint32_t i = 0; i < spec->pack_blocks; i++)
        packs[i].residual = WI_NO_RESIDUAL;
    for (unsigned buf = WI_SRC; buf <= WI_DST; buf++)
        head->buf_blocks[buf] = wi_sched_blocks(head, spec->rank, buf);
    head->tmp_like_src = spec->tmp_like_src != 0;
    b->no_ll = spec->no_ll != 0;
    *builder = b;
    return WEFT_SUCCESS;
}

void wi_sched_image(struct wi_sched_builder *b, uint32_t index, enum wi_buf buf, uint32_t block, unsigned residual)
{
    if (b->status < 0)
        return;
    if (index >= b->head.buf_blocks[WI_PACK]) {
        latch(b, WEFT_EINVAL, "image %u, and pack has %u blocks", index, b->head.buf_blocks[WI_PACK]);
        return;
    }
    b->packs[index].buf = (uint8_t)buf;
    b->packs[index].residual = (uint8_t)residual;
    b->packs[index].block = block;
}

/* Room for one more in an array that doubles. */
static int grow(struct wi_sched_builder *b, void **array, uint32_t *capacity, uint32_t need, size_t elem_bytes)
{
    if (need <= *capacity)
        return 0;
    uint32_t more = *capacity ? *capacity : 8;
    while (more < need)
        more *= 2;
    void *p = wi_realloc(*array, more * elem_bytes);
    if (!p) {
        latch(b, WEFT_ENOMEM, "no memory for %u entries", more);
        return -1;
    }
    *array = p;
    *capacity = more;
    return 0;
}

uint32_t wi_sched_lane(struct wi_sched_builder *b, int send_peer, int recv_peer, uint32_t chan)
{
    if (b->status < 0)
        return 0;
    if (b->nlanes == WI_SCHED_MAX_LANES) {
        latch(b, WEFT_ENOTSUP, "more than %u lanes", WI_SCHED_MAX_LANES);
        return 0;
    }
    if (grow(b, (void **)&b->lanes, &b->lane_capacity, b->nlanes + 1, sizeof(*b->lanes)))
        return 0;
    b->lanes[b->nlanes] = (struct wi_build_lane){.send_peer = send_peer, .recv_peer = recv_peer, .chan = chan};
    return b->nlanes++;
}

static int grow_lane(struct wi_sched_builder *b, struct wi_build_lane *l)
{
    uint32_t capacity = l->capacity;

    if (grow(b, (void **)&l->steps, &capacity, l->nsteps + 1, sizeof(*l->steps)))
        return -1;
    return grow(b, (void **)&l->position, &l->capacity, l->nsteps + 1, sizeof(*l->position));
}

static int count_step(struct wi_sched_builder *b)
{
    if (b->nsteps == WI_SCHED_MAX_STEPS) {
        latch(b, WEFT_ENOTSUP, "more than %u steps", WI_SCHED_MAX_STEPS);
        return -1;
    }
    b->nsteps++;
    return 0;
}

static int add_regions(struct wi_sched_builder *b, const struct wi_region *regions, uint32_t n)
{
    if (n > WI_SCHED_MAX_REGIONS - b->nregions) {
        latch(b, WEFT_ENOTSUP, "more than %u regions", WI_SCHED_MAX_REGIONS);
        return -1;
    }
    if (grow(b, (void **)&b->regions, &b->region_capacity, b->nregions + n, sizeof(*b->regions)))
        return -1;
    for (uint32_t i = 0; i < n; i++) {
        struct wi_region *r = &b->regions[b->nregions++];
        *r = regions[i];
        if (r->rank == b->head.rank)
            r->rank = WI_SELF;
    }
    return 0;
}

uint32_t wi_sched_step_add(struct wi_sched_builder *b, uint32_t lane, const struct wi_step *step,
                           const struct wi_region *dst, const struct wi_region *src)
{
    if (b->status < 0)
        return 0;
    if (lane >= b->nlanes) {
        latch(b, WEFT_EINVAL, "a %s step for lane %u, but there are %u lanes", wi_sched_step_names[step->kind], lane,
              b->nlanes);
        return 0;
    }
    struct wi_build_lane *l = &b->lanes[lane];
    struct wi_step copy = *step;
    copy.dst = b->nregions;
    copy.src = b->nregions + step->ndst;
    if (grow_lane(b, l) || add_regions(b, dst, step->ndst) || add_regions(b, src, step->nsrc) || count_step(b))
        return 0;
    l->position[l->nreturned] = l->nsteps;
    l->steps[l->nsteps++] = copy;
    return l->nreturned++;
}

static uint32_t add(struct wi_sched_builder *b, uint32_t lane, unsigned kind, unsigned flags,
                    const struct wi_region *dst, uint32_t ndst, const struct wi_region *src, uint32_t nsrc)
{
    if (ndst > WI_SCHED_MAX_OPERANDS || nsrc > WI_SCHED_MAX_OPERANDS) {
        latch(b, WEFT_ENOTSUP, "lane %u: a %s step with %u destinations and %u sources, at most %u", lane,
              wi_sched_step_names[kind], ndst, nsrc, WI_SCHED_MAX_OPERANDS);
        return 0;
    }
    struct wi_step step = {.kind = (uint8_t)kind,
                           .flags = (uint8_t)flags,
                           .ndst = (uint16_t)ndst,
                           .nsrc = (uint16_t)nsrc,
                           .dep_lane = WI_NO_DEP,
                           .peer = WI_NO_PEER};
    return wi_sched_step_add(b, lane, &step, dst, src);
}

uint32_t wi_sched_send(struct wi_sched_builder *b, uint32_t lane, struct wi_region src)
{
    return add(b, lane, WI_STEP_SEND, 0, NULL, 0, &src, 1);
}

uint32_t wi_sched_recv(struct wi_sched_builder *b, uint32_t lane, struct wi_region dst)
{
    return add(b, lane, WI_STEP_RECV, 0, &dst, 1, NULL, 0);
}

uint32_t wi_sched_recv_reduce(struct wi_sched_builder *b, uint32_t lane, struct wi_region dst, struct wi_region src,
                              unsigned flags)
{
    return add(b, lane, WI_STEP_RECV_REDUCE, flags, &dst, 1, &src, 1);
}

uint32_t wi_sched_recv_send(struct wi_sched_builder *b, uint32_t lane, struct wi_region dst)
{
    return add(b, lane, WI_STEP_RECV_SEND, 0, &dst, 1, NULL, 0);
}

uint32_t wi_sched_recv_reduce_send(struct wi_sched_builder *b, uint32_t lane, struct wi_region dst,
                                   struct wi_region src, unsigned flags)
{
    return add(b, lane, WI_STEP_RECV_REDUCE_SEND, flags, &dst, 1, &src, 1);
}

uint32_t wi_sched_copy(struct wi_sched_builder *b, uint32_t lane, struct wi_region dst, struct wi_region src)
{
    return add(b, lane, WI_STEP_COPY, 0, &dst, 1, &src, 1);
}

uint32_t wi_sched_copy_to(struct wi_sched_builder *b, uint32_t lane, const struct wi_region *dst, uint32_t ndst,
                          struct wi_region src)
{
    return add(b, lane, WI_STEP_COPY, 0, dst, ndst, &src, 1);
}

uint32_t wi_sched_reduce(struct wi_sched_builder *b, uint32_t lane, const struct wi_region *dst, uint32_t ndst,
                         const struct wi_region *src, uint32_t nsrc, unsigned flags)
{
    return add(b, lane, WI_STEP_REDUCE, flags, dst, ndst, src, nsrc);
}

uint32_t wi_sched_signal(struct wi_sched_builder *b, uint32_t lane)
{
    struct wi_step step = {.kind = WI_STEP_SIGNAL, .dep_lane = WI_NO_DEP, .peer = WI_NO_PEER};

    if (b->status < 0 || lane >= b->nlanes)
        return wi_sched_step_add(b, lane, &step, NULL, NULL);
    /* Saturates: seal refuses more than WI_SCHED_MAX_SIGNALS anyway. */
    uint32_t ordinal = b->lanes[lane].nsignals++;
    step.ordinal = ordinal < UINT16_MAX ? (uint16_t)ordinal : UINT16_MAX;
    return wi_sched_step_add(b, lane, &step, NULL, NULL);
}

uint32_t wi_sched_wait(struct wi_sched_builder *b, uint32_t lane, int rank, uint32_t rank_lane, uint32_t ordinal)
{
    if (rank_lane > UINT16_MAX || ordinal > UINT16_MAX)
        latch(b, WEFT_EINVAL, "lane %u: wait for signal %u of lane %u of rank %d is out of range", lane, ordinal,
              rank_lane, rank);
    struct wi_step step = {.kind = WI_STEP_WAIT,
                           .dep_lane = WI_NO_DEP,
                           .peer = rank,
                           .lane = (uint16_t)rank_lane,
                           .ordinal = (uint16_t)ordinal};
    return wi_sched_step_add(b, lane, &step, NULL, NULL);
}

/* Put a NOP with the newest step's dependency before it, which frees the step for another. */
static int push_nop(struct wi_sched_builder *b, struct wi_build_lane *l)
{
    if (grow_lane(b, l) || count_step(b))
        return -1;
    struct wi_step *newest = &l->steps[l->nsteps - 1];
    newest[1] = newest[0];
    newest[0] = (struct wi_step){
        .kind = WI_STEP_NOP, .dep_lane = newest[1].dep_lane, .dep_step = newest[1].dep_step, .peer = WI_NO_PEER};
    l->nsteps++;
    l->position[l->nreturned - 1]++;
    return 0;
}

void wi_sched_after(struct wi_sched_builder *b, uint32_t lane, uint32_t dep_lane, uint32_t dep_step)
{
    if (b->status < 0)
        return;
    if (lane >= b->nlanes || b->lanes[lane].nsteps == 0) {
        latch(b, WEFT_EINVAL, "lane %u has no step that could depend on lane %u step %u", lane, dep_lane, dep_step);
        return;
    }
    struct wi_build_lane *l = &b->lanes[lane];
    if (dep_lane == lane && dep_step + 1 < l->nreturned)
        return; /* the lane's own order says so already */
    if (l->steps[l->nsteps - 1].dep_lane != WI_NO_DEP && push_nop(b, l))
        return;
    l->steps[l->nsteps - 1].dep_lane = (int32_t)dep_lane;
    l->steps[l->nsteps - 1].dep_step = dep_step;
}

void wi_sched_abandon(struct wi_sched_builder *b)
{
    if (!b)
        return;
    for (uint32_t i = 0; i < b->nlanes; i++) {
        wi_free(b->lanes[i].steps);
        wi_free(b->lanes[i].position);
    }
    wi_free(b->packs);
    wi_free(b->lanes);
    wi_free(b->regions);
    wi_free(b);
}
