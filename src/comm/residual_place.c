/* SPDX-License-Identifier: BSD-3-Clause */
/* Where an operation keeps what of a tensor: found from its program, and what was kept elsewhere is moved there. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/status.h"
#include "comm/batch.h"
#include "comm/comm.h"
#include "comm/residual.h"

/* Elements [from, to) of a plane that one of its steps adds and renews. */
struct kept {
    unsigned plane;
    size_t from, to;
};

struct kept_at {
    uint32_t stage, step, unit;
};

/* Where the tensor lies in the vector: it has [from, from + residual->elems) of it. */
struct tensor {
    struct wi_residual *residual;
    size_t from;
};

/* Of this step; 0: there are no more. */
static int next_of_step(const struct wi_binding *b, const struct wi_prog *prog, struct kept_at *at, struct kept *k)
{
    const struct wi_prog_step *st = &prog->steps[at->step];

    while (st->extra == WI_EXTRA_ENCODED && at->unit < st->nunits) {
        const struct wi_unit *u = &prog->units[st->unit + at->unit++];
        const struct wi_operand *o = &prog->operands[u->operand + st->ndst + st->nsrc];
        if (o->rank == WI_NO_RESIDUAL)
            continue;
        *k = (struct kept){(unsigned)o->rank, o->at / b->redop.elem_bytes, (o->at + u->bytes) / b->redop.elem_bytes};
        return 1;
    }
    return 0;
}

static int next_kept(const struct wi_binding *b, struct kept_at *at, struct kept *k)
{
    for (; at->stage < b->nstages; at->stage++, at->step = 0)
        for (; at->step < b->stage[at->stage]->nsteps; at->step++, at->unit = 0)
            if (next_of_step(b, b->stage[at->stage], at, k))
                return 1;
    return 0;
}

/* The next one of the tensor, in its elements. */
static int next_of_tensor(const struct wi_binding *b, const struct tensor *t, struct kept_at *at, struct kept *k)
{
    size_t end = t->from + t->residual->elems;

    while (next_kept(b, at, k)) {
        if (k->to <= t->from || k->from >= end)
            continue;
        k->from = k->from > t->from ? k->from - t->from : 0;
        k->to = (k->to < end ? k->to : end) - t->from;
        return 1;
    }
    return 0;
}

static uint64_t shape_of(const struct wi_binding *b, const struct tensor *t, size_t *count)
{
    struct kept_at at = {0};
    uint64_t h = 1;
    struct kept k;

    for (*count = 0; next_of_tensor(b, t, &at, &k); ++*count) {
        uint64_t words[3] = {k.plane, k.from, k.to};
        h = wi_hash64(words, sizeof words, h);
    }
    return h ? h : 1;
}

static int by_place(const void *a, const void *b)
{
    const struct kept *x = a, *y = b;

    return x->plane != y->plane ? (x->plane < y->plane ? -1 : 1) : x->from < y->from ? -1 : x->from > y->from;
}

/* Of one plane, in order. */
struct places {
    const struct kept *of;
    size_t n;
};

static struct places places_of(const struct kept *all, size_t n, unsigned plane)
{
    struct places p = {all, 0};

    for (; n && p.of->plane < plane; n--)
        p.of++;
    while (p.n < n && p.of[p.n].plane == plane)
        p.n++;
    return p;
}

/* *turn is a cursor: all earlier places end at or before i, which must not decrease from call to call. */
static int is_kept(const struct places *p, size_t *turn, size_t i)
{
    while (*turn < p->n && p->of[*turn].to <= i)
        ++*turn;
    return *turn < p->n && p->of[*turn].from <= i;
}

/* What is not kept there any more, after another number of ranks or another algorithm, is moved to the other plane, or, where
 * nothing is lost and so nothing kept, into what is sent. */
static weft_status move_strays(struct wi_op *op, struct wi_call *c, const struct tensor *t, unsigned plane,
                               const struct places places[2])
{
    struct wi_residual *r = t->residual;
    struct wi_plane *of = &r->plane[plane], *other = &r->plane[!plane];
    float share = wi_compress_share(&op->bind.redop), as_given = plane == WI_PLANE_OWNER ? share : 1, value;
    size_t turn = 0, turn_other = 0, es = weft_dtype_bytes(c->dtype);
    unsigned char *src;

    for (size_t i = of->from; i < of->to; i++) {
        float *stray = &of->of[i - of->from];
        if (*stray == 0 || is_kept(&places[plane], &turn, i))
            continue;
        if (is_kept(&places[!plane], &turn_other, i)) {
            other->of[i - other->from] += plane == WI_PLANE_OWNER ? *stray * share : *stray / share;
        } else {
            src = wi_compress_source(op, c, (t->from + r->elems) * es, 1);
            if (!src)
                return WEFT_ENOMEM;
            c->src = op->bind.base[WI_SRC] = src;
            wi_codec_widen(c->dtype, src + (t->from + i) * es, &value, 1);
            value += as_given * *stray;
            wi_codec_narrow(c->dtype, &value, src + (t->from + i) * es, 1);
        }
        *stray = 0;
    }
    return WEFT_SUCCESS;
}

/* What these keep lies everywhere; what EF21 keeps means nothing elsewhere, and all begin anew. */
static weft_status arrange_all(struct wi_residual *r, int moved)
{
    for (unsigned k = 0; moved && r->form == WI_FEEDBACK_EF21 && k < WI_PLANES; k++)
        wi_plane_clear(&r->plane[k]);
    WI_TRY(wi_plane_reserve(&r->plane[WI_PLANE_WORKER], 0, r->elems));
    return wi_plane_reserve(&r->plane[WI_PLANE_MORE], 0, r->elems);
}

static weft_status arrange(struct wi_op *op, struct wi_call *c, const struct tensor *t, const struct kept *all,
                           size_t n, int moved)
{
    struct wi_residual *r = t->residual;
    struct places places[2] = {places_of(all, n, WI_PLANE_WORKER), places_of(all, n, WI_PLANE_OWNER)};
    int everywhere = wi_feedback_form_has_state(r->form),
        is_new = !r->plane[WI_PLANE_WORKER].of && !r->plane[WI_PLANE_OWNER].of;
    struct kept whole = {WI_PLANE_WORKER, 0, r->elems};

    if (everywhere) {
        WI_TRY(arrange_all(r, moved));
        places[WI_PLANE_WORKER] = (struct places){&whole, 1};
    }
    for (unsigned k = 0; k < 2; k++)
        if (places[k].n)
            WI_TRY(wi_plane_reserve(&r->plane[k], places[k].of[0].from, places[k].of[places[k].n - 1].to));
    for (unsigned k = 0; k < 2 && moved && !is_new && r->form != WI_FEEDBACK_EF21; k++)
        WI_TRY(move_strays(op, c, t, k, places));
    return WEFT_SUCCESS;
}

static weft_status rearrange(struct wi_op *op, struct wi_call *c, const struct tensor *t, size_t n, int moved)
{
    struct kept *all = wi_calloc(n + 1, sizeof *all);
    struct kept_at at = {0};
    weft_status st;

    if (!all)
        return wi_fail(WEFT_ENOMEM, "%zu places of residuals", n);
    for (size_t i = 0; i < n; i++)
        next_of_tensor(&op->bind, t, &at, &all[i]);
    qsort(all, n, sizeof *all, by_place);
    st = arrange(op, c, t, all, n, moved);
    wi_free(all);
    return st;
}

/* Arrange one tensor's planes for the operation; `placed` receives them. */
static weft_status place(struct weft_request *req, struct wi_op *op, const struct tensor *t,
                         struct wi_coding_tensor *placed)
{
    struct wi_residual *r = t->residual;
    size_t n, es = op->bind.redop.elem_bytes;
    uint64_t shape = shape_of(&op->bind, t, &n);

    if (shape != r->shape || r->loaded)
        WI_TRY(rearrange(op, &req->now, t, n, shape != r->shape));
    r->shape = shape;
    r->loaded = 0;
    r->avg = op->bind.redop.op == WEFT_AVG;
    r->steps++;
    for (int i = 0; i < WI_PLANES; i++) {
        placed->residual[i] = r->plane[i].of;
        placed->residual_from[i] = r->plane[i].from;
    }
    placed->gain = wi_compress_gain(&req->codec.feedback, req->comm->nranks, req->now.dtype,
                                    (const unsigned char *)req->now.src + t->from * es, r->elems);
    return WEFT_SUCCESS;
}

static weft_status place_one(struct weft_request *req, struct wi_op *op)
{
    struct wi_coding *coding = &op->bind.coding;
    struct wi_coding_tensor placed;

    WI_TRY(place(req, op, &(struct tensor){req->residual, 0}, &placed));
    memcpy(coding->residual, placed.residual, sizeof coding->residual);
    memcpy(coding->residual_from, placed.residual_from, sizeof coding->residual_from);
    coding->gain = placed.gain;
    return WEFT_SUCCESS;
}

weft_status wi_compress_place(struct weft_request *req, struct wi_op *op)
{
    struct wi_coding *coding = &op->bind.coding;
    struct wi_batch *batch = req->batch;

    if (!coding->image_bytes)
        return WEFT_SUCCESS;
    if (batch && coding->variable && req->codec.feedback.form)
        return wi_fail(WEFT_ENOTSUP, "issue_batch: ef=%s is for codecs of a fixed rate, and %s is not",
                       wi_feedback_name(req->codec.feedback.form), wi_codec_name(coding->codec));
    if (batch && !coding->variable) { /* a variable image is of all that a step has */
        coding->tensors = batch->tensors;
        coding->ntensors = batch->ncoded;
    }
    if (!req->codec.feedback.form)
        return WEFT_SUCCESS;
    if (op->bind.nstages > 1 && wi_feedback_has_state(&req->codec.feedback))
        return wi_fail(WEFT_ENOTSUP, "%s with ef=%s is for algorithms without stages, and %s has some",
                       wi_coll_name((enum wi_coll)req->now.coll), wi_feedback_name(req->codec.feedback.form),
                       op->bind.sched->algo);
    coding->feedback = req->codec.feedback;
    if (!batch)
        return place_one(req, op);
    coding->keeps = 1;
    for (size_t i = 0; i < batch->ncoded; i++)
        WI_TRY(place(req, op, &(struct tensor){batch->parts[i].residual, batch->parts[i].at}, &batch->tensors[i]));
    return WEFT_SUCCESS;
}
