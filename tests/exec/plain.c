/* SPDX-License-Identifier: BSD-3-Clause */
#include "plain.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define MAX_GROUP 16

/* A block's contents on its way, or in scratch. */
struct value {
    unsigned char *data; /* NULL: none */
    size_t bytes;
    size_t image_of; /* bytes of what it is the image of; 0: it is none, or of nothing */
};

struct message {
    struct message *next;
    int from, to;
    uint32_t chan;
    struct value value;
};

struct lane {
    uint32_t step, piece, signals;
};

struct plain {
    const struct plain_rank *ranks;
    const struct plain *whole;                 /* of a stage: what it is a stage of; NULL: it is none */
    const struct wi_sched_stage *const *stage; /* likewise, by rank */
    uint32_t turn;                             /* likewise: which item of every block */
    int nranks;
    enum plain_op op;
    weft_dtype dtype;
    int adds;                       /* results are added to what DST held */
    const struct weft_codec *codec; /* NULL: none */
    uint64_t step;                  /* of what is encoded */
    struct value **tmp, **pack;     /* [rank][block] */
    struct lane **lanes;
    struct message *queue, **end;
};

static char wrong[256];

__attribute__((format(printf, 1, 2))) static void complain(const char *format, ...)
{
    va_list ap;

    if (wrong[0])
        return;
    va_start(ap, format);
    vsnprintf(wrong, sizeof wrong, format, ap);
    va_end(ap);
}

/* ---- Operators, from their definitions in weft.h ---- */

#define SUM_OF(type)                                                      \
    do {                                                                  \
        for (size_t i = 0; i < bytes / sizeof(type); i++) {               \
            type a, b;                                                    \
            memcpy(&a, (const char *)left + i * sizeof(type), sizeof a);  \
            memcpy(&b, (const char *)right + i * sizeof(type), sizeof b); \
            a = (type)(a + b);                                            \
            memcpy((char *)out + i * sizeof(type), &a, sizeof a);         \
        }                                                                 \
    } while (0)

#define DIVIDED(type, signed_type, n)                          \
    do {                                                       \
        for (size_t i = 0; i < bytes / sizeof(type); i++) {    \
            signed_type a;                                     \
            memcpy(&a, (char *)data + i * sizeof a, sizeof a); \
            a = (signed_type)(a / (signed_type)(n));           \
            memcpy((char *)data + i * sizeof a, &a, sizeof a); \
        }                                                      \
    } while (0)

static void sum(weft_dtype dtype, const void *left, const void *right, void *out, size_t bytes)
{
    switch (dtype) {
    case WEFT_UINT8:
        SUM_OF(uint8_t);
        break;
    case WEFT_INT16:
        SUM_OF(uint16_t);
        break;
    case WEFT_INT32:
        SUM_OF(uint32_t);
        break;
    case WEFT_INT64:
        SUM_OF(uint64_t);
        break;
    case WEFT_FLOAT32:
        SUM_OF(float);
        break;
    case WEFT_FLOAT64:
    case WEFT_COMPLEX128:
        SUM_OF(double);
        break;
    default:
        complain("no sum of dtype %d", (int)dtype);
    }
}

/* Integers are divided in their own type, after the sum has wrapped; toward zero. */
void plain_divide(weft_dtype dtype, void *data, size_t bytes, int n)
{
    switch (dtype) {
    case WEFT_UINT8:
        DIVIDED(uint8_t, uint8_t, n);
        break;
    case WEFT_INT16:
        DIVIDED(uint16_t, int16_t, n);
        break;
    case WEFT_INT32:
        DIVIDED(uint32_t, int32_t, n);
        break;
    case WEFT_INT64:
        DIVIDED(uint64_t, int64_t, n);
        break;
    case WEFT_FLOAT32:
        DIVIDED(float, float, n);
        break;
    case WEFT_FLOAT64:
    case WEFT_COMPLEX128:
        DIVIDED(double, double, n);
        break;
    default:
        complain("no average of dtype %d", (int)dtype);
    }
}

void plain_combine(enum plain_op op, weft_dtype dtype, const void *left, const void *right, void *out, size_t bytes)
{
    const unsigned char *a = left, *b = right;
    unsigned char *o = out;

    if (op != PLAIN_MIX) {
        sum(dtype, left, right, out, bytes);
        return;
    }
    for (size_t i = 0; i < bytes; i++)
        o[i] = (unsigned char)(3 * a[i] + 5 * b[i] + 7);
}

/* ---- Memory ---- */

static struct value copy_of(const unsigned char *data, size_t bytes)
{
    struct value v = {malloc(bytes + 1), bytes, 0};

    if (!v.data)
        complain("no memory for %zu bytes", bytes);
    else if (bytes)
        memcpy(v.data, data, bytes);
    return v;
}

static int owner(const struct wi_region *r, int rank)
{
    return r->rank == WI_SELF ? rank : r->rank;
}

/* Which share of the data a block of a stage's SRC or DST is. */
static uint32_t share_of(const struct wi_sched *s, int rank, unsigned buf, uint32_t block)
{
    int gathers = s->coll == WI_COLL_ALL_GATHER || s->coll == WI_COLL_GATHER;
    int scatters = s->coll == WI_COLL_REDUCE_SCATTER || s->coll == WI_COLL_SCATTER;

    return (gathers && buf == WI_SRC) || (scatters && buf == WI_DST) ? (uint32_t)rank : block;
}

/* Of a stage's block: the region of the whole that it is this time. 0: it has no such item. */
static int in_whole(const struct plain *p, int of, const struct wi_region *r, uint32_t piece, struct wi_region *out)
{
    const struct wi_sched_stage *st = p->stage[of];
    uint32_t share = share_of(st->sched, of, r->buf, r->first + piece);

    if (st->start[share] + p->turn >= st->start[share + 1])
        return 0;
    *out = (struct wi_region){
        .buf = st->at[r->buf].buf,
        .rank = WI_SELF,
        .first = (uint32_t)((int64_t)st->item[st->start[share] + p->turn] + st->at[r->buf].offset),
        .count = 1,
    };
    return 1;
}

static struct value load(const struct plain *p, int rank, const struct wi_region *r, uint32_t piece)
{
    struct wi_region whole;
    int of = owner(r, rank);
    uint32_t block = r->first + piece;
    const struct plain_place *at;

    if (r->buf >= WI_TMP) {
        struct value *v = r->buf == WI_TMP ? &p->tmp[of][block] : &p->pack[of][block], copy;
        if (!v->data)
            complain("rank %d reads block %u of the scratch of rank %d, where nothing was stored", rank, block, of);
        copy = copy_of(v->data, v->data ? v->bytes : 0);
        copy.image_of = v->image_of;
        return copy;
    }
    if (p->whole)
        return in_whole(p, of, r, piece, &whole) ? load(p->whole, p->stage[of]->ranks[of], &whole, 0)
                                                 : copy_of(NULL, 0);
    at = &p->ranks[of].place[r->buf][block];
    return copy_of(p->ranks[of].base[r->buf] + at->at, at->bytes);
}

static void store(const struct plain *p, int rank, const struct wi_region *r, uint32_t piece, struct value v)
{
    int to = owner(r, rank);
    uint32_t block = r->first + piece;
    const struct plain_place *at;
    struct wi_region whole;

    if (wrong[0])
        return;
    if (r->buf >= WI_TMP) {
        struct value *at_block = r->buf == WI_TMP ? &p->tmp[to][block] : &p->pack[to][block];
        free(at_block->data);
        *at_block = copy_of(v.data, v.bytes);
        at_block->image_of = v.image_of;
        return;
    }
    if (p->whole) {
        if (in_whole(p, to, r, piece, &whole))
            store(p->whole, p->stage[to]->ranks[to], &whole, 0, v);
        else if (v.bytes)
            complain("rank %d stores %zu bytes in block %u of rank %d, which stands for nothing", rank, v.bytes, block,
                     to);
        return;
    }
    at = &p->ranks[to].place[r->buf][block];
    if (at->bytes != v.bytes)
        complain("rank %d stores %zu bytes in block %u of rank %d, which has %zu", rank, v.bytes, block, to, at->bytes);
    else if (v.bytes)
        memcpy(p->ranks[to].base[r->buf] + at->at, v.data, v.bytes);
}

/* ---- Messages ---- */

static void push(struct plain *p, int from, const struct wi_lane *lane, struct value v)
{
    struct message *m = calloc(1, sizeof *m);

    if (!m) {
        complain("no memory for a message");
        free(v.data);
        return;
    }
    *m = (struct message){NULL, from, lane->send_peer, lane->chan, v};
    *p->end = m;
    p->end = &m->next;
}

static struct message **find(struct plain *p, int to, const struct wi_lane *lane)
{
    struct message **at = &p->queue;

    while (*at && ((*at)->from != lane->recv_peer || (*at)->to != to || (*at)->chan != lane->chan))
        at = &(*at)->next;
    return at;
}

static struct value pop(struct plain *p, int to, const struct wi_lane *lane)
{
    struct message **at = find(p, to, lane), *m = *at;
    struct value v = m->value;

    *at = m->next;
    if (p->end == &m->next)
        p->end = at;
    free(m);
    return v;
}

/* ---- Images ---- */

static int is_coded(const struct wi_region *r, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (r[i].buf == WI_PACK)
            return 1;
    return 0;
}

static struct value decoded(const struct plain *p, struct value image)
{
    struct value v = {calloc(1, image.image_of + 1), image.image_of, 0};

    if (v.data && image.image_of)
        wi_codec_decode(p->codec, image.data, image.image_of / sizeof(float), (float *)(void *)v.data);
    free(image.data);
    return v;
}

/* With the residual of the block that the image is of. */
static struct value encoded(const struct plain *p, int rank, uint32_t image, const struct value *v)
{
    const struct plain_rank *k = &p->ranks[rank];
    const struct wi_pack *of = &k->sched->packs[image];
    size_t elems = v->bytes / sizeof(float), bytes = wi_codec_bytes(p->codec, elems);
    struct value out = {calloc(1, bytes + 1), bytes, v->bytes};
    float *residual = of->residual == WI_NO_RESIDUAL ? NULL : k->residual[of->residual];
    struct weft_codec_site site = {p->step, k->place[of->buf][of->block].at / sizeof(float), (uint32_t)rank,
                                   of->residual == 1};

    if (k->place[of->buf][of->block].bytes != v->bytes)
        complain("rank %d makes an image of %zu bytes, of a block of %zu", rank, v->bytes,
                 k->place[of->buf][of->block].bytes);
    else if (out.data)
        wi_codec_encode_at(p->codec, &site, (const float *)(const void *)v->data,
                           residual ? residual + k->place[of->buf][of->block].at / sizeof(float) : NULL, elems,
                           out.data);
    return out;
}

/* What a copy or reduction has made goes to its destinations: as an image, and where there is one, as what that holds. */
static void store_coded(const struct plain *p, int rank, const struct wi_step *st, uint32_t piece, struct value v)
{
    const struct wi_region *dst = &p->ranks[rank].sched->regions[st->dst];
    struct value image = {0};

    for (uint32_t i = 0; i < st->ndst && !image.data; i++)
        if (dst[i].buf == WI_PACK) {
            image = encoded(p, rank, dst[i].first + piece, &v);
            store(p, rank, &dst[i], piece, image);
        }
    if (image.data) {
        free(v.data);
        v = decoded(p, image);
    }
    for (uint32_t i = 0; i < st->ndst; i++)
        if (dst[i].buf != WI_PACK)
            store(p, rank, &dst[i], piece, v);
    free(v.data);
}

/* ---- Steps ---- */

static struct value reduced(const struct plain *p, struct value left, struct value right)
{
    if (left.bytes != right.bytes)
        complain("operands of %zu and %zu bytes", left.bytes, right.bytes);
    else
        plain_combine(p->op, p->dtype, left.data, right.data, left.data, left.bytes);
    free(right.data);
    return left;
}

static struct value added(const struct plain *p, struct value result, struct value held)
{
    if (result.bytes == held.bytes)
        plain_combine(PLAIN_SUM, p->dtype, result.data, held.data, result.data, result.bytes);
    free(held.data);
    return result;
}

/* Averages of coded steps are products with the inverse. */
static void finish_coded(const struct plain *p, const struct wi_step *st, struct value v)
{
    float *sum = (float *)(void *)v.data;

    for (size_t i = 0; st->flags & WI_STEP_FINAL && p->op == PLAIN_AVG && i < v.bytes / sizeof *sum; i++)
        sum[i] *= 1.0f / (float)p->nranks;
}

static void finish(const struct plain *p, const struct wi_step *st, struct value v)
{
    if (st->flags & WI_STEP_FINAL && p->op == PLAIN_AVG && (!p->whole || p->stage[0]->final))
        plain_divide(p->dtype, v.data, v.bytes, p->whole ? p->whole->nranks : p->nranks);
}

static struct value load_plain(const struct plain *p, int rank, const struct wi_region *r, uint32_t piece)
{
    struct value v = load(p, rank, r, piece);

    return r->buf == WI_PACK ? decoded(p, v) : v;
}

static struct value reduce_all(const struct plain *p, int rank, const struct wi_step *st, uint32_t piece)
{
    const struct wi_region *src = &p->ranks[rank].sched->regions[st->src], *dst = src - st->ndst;
    struct value v = load_plain(p, rank, &src[0], piece);

    for (uint32_t i = 1; i < st->nsrc && !wrong[0]; i++)
        v = reduced(p, v, load_plain(p, rank, &src[i], piece));
    if (is_coded(src, st->nsrc) || is_coded(dst, st->ndst))
        finish_coded(p, st, v);
    else
        finish(p, st, v);
    return v;
}

static struct value received(struct plain *p, int rank, const struct wi_lane *lane, const struct wi_step *st,
                             uint32_t piece)
{
    const struct wi_region *src = &p->ranks[rank].sched->regions[st->src];
    struct value v = pop(p, rank, lane);

    if (st->kind != WI_STEP_RECV_REDUCE && st->kind != WI_STEP_RECV_REDUCE_SEND)
        return v;
    if (st->flags & WI_STEP_RECV_LEFT)
        v = reduced(p, v, load(p, rank, src, piece));
    else
        v = reduced(p, load(p, rank, src, piece), v);
    finish(p, st, v);
    return v;
}

static int is_receive(const struct wi_step *st)
{
    return st->kind == WI_STEP_RECV || st->kind == WI_STEP_RECV_REDUCE || st->kind == WI_STEP_RECV_SEND ||
           st->kind == WI_STEP_RECV_REDUCE_SEND;
}

static int may_run(struct plain *p, int rank, const struct wi_lane *lane, const struct wi_step *st)
{
    if (st->dep_lane != WI_NO_DEP && p->lanes[rank][st->dep_lane].step <= st->dep_step)
        return 0;
    if (st->kind == WI_STEP_WAIT)
        return p->lanes[st->peer][st->lane].signals > st->ordinal;
    return !is_receive(st) || *find(p, rank, lane);
}

/* One piece of a step that may run. */
static void run_piece(struct plain *p, int rank, const struct wi_lane *lane, const struct wi_step *st, uint32_t piece)
{
    const struct wi_region *regions = p->ranks[rank].sched->regions;
    struct value v;

    if (st->kind == WI_STEP_SEND) {
        push(p, rank, lane, load(p, rank, &regions[st->src], piece));
        return;
    }
    if (!is_receive(st) && (is_coded(&regions[st->dst], st->ndst) || is_coded(&regions[st->src], st->nsrc)) &&
        !(st->kind == WI_STEP_COPY && regions[st->dst].buf == WI_PACK && regions[st->src].buf == WI_PACK)) {
        v = st->kind == WI_STEP_REDUCE ? reduce_all(p, rank, st, piece) : load_plain(p, rank, &regions[st->src], piece);
        store_coded(p, rank, st, piece, v);
        return;
    }
    v = is_receive(st)               ? received(p, rank, lane, st, piece)
        : st->kind == WI_STEP_REDUCE ? reduce_all(p, rank, st, piece)
                                     : load(p, rank, &regions[st->src], piece);
    for (uint32_t i = 0; i < st->ndst; i++) {
        if (p->adds && st->flags & WI_STEP_FINAL && regions[st->dst + i].buf == WI_DST)
            v = added(p, v, load(p, rank, &regions[st->dst + i], piece));
        store(p, rank, &regions[st->dst + i], piece, v);
    }
    if (st->kind == WI_STEP_RECV_SEND || st->kind == WI_STEP_RECV_REDUCE_SEND)
        push(p, rank, lane, v);
    else
        free(v.data);
}

static uint32_t pieces(const struct wi_sched *s, const struct wi_step *st)
{
    if (!st->ndst && !st->nsrc)
        return 0;
    return s->regions[st->ndst ? st->dst : st->src].count;
}

/* As far as the lane gets; 1 if anything happened. */
static int run_lane(struct plain *p, int rank, uint32_t number)
{
    const struct wi_sched *s = p->ranks[rank].sched;
    const struct wi_lane *def = &s->lanes[number];
    struct lane *l = &p->lanes[rank][number];
    int moved = 0;

    while (l->step < def->nsteps && !wrong[0]) {
        const struct wi_step *st = &s->steps[def->first_step + l->step];
        if (!may_run(p, rank, def, st))
            return moved;
        if (st->kind == WI_STEP_SIGNAL)
            l->signals++;
        if (l->piece < pieces(s, st))
            run_piece(p, rank, def, st, l->piece++);
        if (l->piece >= pieces(s, st)) {
            l->step++;
            l->piece = 0;
        }
        moved = 1;
    }
    return moved;
}

/* ---- All of it ---- */

static void run_all(struct plain *p)
{
    int moved = 1;

    while (moved && !wrong[0]) {
        moved = 0;
        for (int r = 0; r < p->nranks; r++)
            for (uint32_t l = 0; l < p->ranks[r].sched->nlanes; l++)
                moved |= run_lane(p, r, l);
    }
    for (int r = 0; r < p->nranks; r++)
        for (uint32_t l = 0; l < p->ranks[r].sched->nlanes; l++)
            if (p->lanes[r][l].step < p->ranks[r].sched->lanes[l].nsteps)
                complain("rank %d never takes step %u of lane %u", r, p->lanes[r][l].step, l);
    if (p->queue)
        complain("rank %d does not receive a message of rank %d", p->queue->to, p->queue->from);
}

static int create(struct plain *p)
{
    p->end = &p->queue;
    p->tmp = calloc((size_t)p->nranks, sizeof *p->tmp);
    p->pack = calloc((size_t)p->nranks, sizeof *p->pack);
    p->lanes = calloc((size_t)p->nranks, sizeof *p->lanes);
    for (int r = 0; p->tmp && p->pack && p->lanes && r < p->nranks; r++) {
        p->tmp[r] = calloc(p->ranks[r].sched->buf_blocks[WI_TMP] + 1, sizeof *p->tmp[r]);
        p->pack[r] = calloc(p->ranks[r].sched->buf_blocks[WI_PACK] + 1, sizeof *p->pack[r]);
        p->lanes[r] = calloc(p->ranks[r].sched->nlanes + 1, sizeof *p->lanes[r]);
        if (!p->tmp[r] || !p->pack[r] || !p->lanes[r])
            return 0;
    }
    return p->tmp && p->pack && p->lanes;
}

static void destroy(struct plain *p)
{
    for (int r = 0; p->tmp && p->pack && p->lanes && r < p->nranks; r++) {
        for (uint32_t b = 0; p->tmp[r] && b < p->ranks[r].sched->buf_blocks[WI_TMP]; b++)
            free(p->tmp[r][b].data);
        for (uint32_t b = 0; p->pack[r] && b < p->ranks[r].sched->buf_blocks[WI_PACK]; b++)
            free(p->pack[r][b].data);
        free(p->tmp[r]);
        free(p->pack[r]);
        free(p->lanes[r]);
    }
    free(p->tmp);
    free(p->pack);
    free(p->lanes);
    while (p->queue) {
        struct message *m = p->queue;
        p->queue = m->next;
        free(m->value.data);
        free(m);
    }
}

/* ---- Stages ---- */

static const struct wi_sched_stage *stage_of(const struct plain *p, int rank, int after)
{
    return after ? p->ranks[rank].sched->after : p->ranks[rank].sched->before;
}

/* That of one group, for one item of every block. */
static void run_turn(const struct plain *whole, const struct wi_sched_stage *const *stage, int n, uint32_t turn)
{
    struct plain_rank ranks[MAX_GROUP];
    struct plain p = {.ranks = ranks,
                      .whole = whole,
                      .stage = stage,
                      .turn = turn,
                      .nranks = n,
                      .op = whole->op,
                      .dtype = whole->dtype};

    for (int i = 0; i < n; i++)
        ranks[i] = (struct plain_rank){.sched = stage[i]->sched};
    if (create(&p))
        run_all(&p);
    else
        complain("no memory");
    destroy(&p);
}

static void run_stages(const struct plain *p, int after)
{
    for (int r = 0; r < p->nranks && !wrong[0]; r++) {
        const struct wi_sched_stage *own = stage_of(p, r, after), *stage[MAX_GROUP];
        if (!own || own->ranks[0] != r)
            continue;
        if (own->sched->nranks > MAX_GROUP) {
            complain("a group of %d ranks", own->sched->nranks);
            return;
        }
        for (int i = 0; i < own->sched->nranks; i++)
            stage[i] = stage_of(p, own->ranks[i], after);
        for (uint32_t turn = 0; turn < (own->max_items ? own->max_items : 1); turn++)
            run_turn(p, stage, own->sched->nranks, turn);
    }
}

const char *plain_run(const struct plain_rank *ranks, int nranks, enum plain_op op, weft_dtype dtype, int adds,
                      const struct weft_codec *codec, uint64_t step)
{
    struct plain p = {
        .ranks = ranks, .nranks = nranks, .op = op, .dtype = dtype, .adds = adds, .codec = codec, .step = step};

    wrong[0] = '\0';
    if (create(&p)) {
        run_stages(&p, 0);
        run_all(&p);
        run_stages(&p, 1);
    } else {
        complain("no memory");
    }
    destroy(&p);
    return wrong[0] ? wrong : NULL;
}
