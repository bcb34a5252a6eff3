/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls with a codec: which calls have one, what the planner must know of it, and the residuals that it leaves. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/status.h"
#include "comm/batch.h"
#include "comm/comm.h"
#include "comm/residual.h"

/* ---- What the planner is told ---- */

/* Ranks that know only their own counts could not agree on when to send plain data. */
void wi_compress_query(const struct weft_request *req, const struct wi_op *op, struct wi_plan_query *q)
{
    if (!op->bind.coding.image_bytes)
        return;
    q->codec = wi_plan_codec_of(&req->codec, (weft_dtype)op->bind.redop.dtype);
    q->codec.plain = op->bind.coding.plain;
    q->codec.may_bypass |= op->bind.coding.plain;
    if (q->coll == WI_COLL_ALL_TO_ALL_V)
        q->codec.may_bypass = 0;
}

/* ---- Which calls ---- */

static int sums(const struct wi_call *c)
{
    struct wi_user_op user;

    return c->op == WEFT_SUM || c->op == WEFT_AVG ||
           (c->op >= WEFT_NUM_OPS && wi_user_op_find(c->op, &user) && user.premul);
}

static int can_code(enum wi_coll coll)
{
    enum wi_coll family = wi_algo_family(coll); /* v-forms too */

    return family == WI_COLL_ALL_REDUCE || family == WI_COLL_REDUCE_SCATTER || family == WI_COLL_ALL_GATHER ||
           family == WI_COLL_ALL_TO_ALL || family == WI_COLL_BROADCAST;
}

/* Is there a tensor without a number? */
static int names_none(const struct weft_request *req)
{
    for (size_t i = 0; req->batch && i < req->batch->ncoded; i++)
        if (!req->batch->parts[i].tensor)
            return 1;
    return !req->batch && !req->options.tensor;
}

static weft_status check_feedback(const struct weft_request *req, const struct wi_call *c)
{
    const char *name = wi_coll_name((enum wi_coll)c->coll), *form = wi_feedback_name(req->codec.feedback.form);
    int states = wi_feedback_has_state(&req->codec.feedback);

    if (names_none(req))
        return wi_fail(
            WEFT_EINVAL,
            "%s: codec %s with ef=%s keeps a residual for each tensor, and the call names none (tensor is 0)", name,
            wi_codec_name(&req->codec.codec), form);
    if (c->coll != WI_COLL_ALL_REDUCE && (states || !wi_coll_is_reduction(c->coll)))
        return wi_fail(WEFT_ENOTSUP, "%s: ef=%s is for sums, all_reduce%s", name, form,
                       states ? "" : " and reduce_scatter");
    if (states && req->comm->nranks >= WI_REDUCE_MAX_SRC)
        return wi_fail(WEFT_ENOTSUP, "%s: ef=%s is for at most %d ranks, here are %d", name, form,
                       WI_REDUCE_MAX_SRC - 1, req->comm->nranks);
    return WEFT_SUCCESS;
}

static weft_status check_named(const struct weft_request *req, const struct wi_call *c)
{
    const char *name = wi_coll_name((enum wi_coll)c->coll), *codec = wi_codec_name(&req->codec.codec);

    if (!can_code((enum wi_coll)c->coll))
        return wi_fail(WEFT_ENOTSUP,
                       "%s: codec %s is for all_reduce, reduce_scatter, all_gather, all_to_all and broadcast", name,
                       codec);
    if (wi_coll_is_reduction(c->coll) && !sums(c))
        return wi_fail(WEFT_ENOTSUP, "%s: codec %s is for the operators sum and avg, not %s", name, codec,
                       c->op < WEFT_NUM_OPS ? weft_op_name(c->op) : "one of the program's");
    return req->codec.feedback.form ? check_feedback(req, c) : WEFT_SUCCESS;
}

/* The length that min= is about: the same on all ranks, whatever the displacements. Of all_to_all_v no rank knows it: it counts as
 * long. */
static size_t coded_bytes(const struct weft_comm *comm, const struct wi_call *c)
{
    size_t src, dst, n, es = weft_dtype_bytes(c->dtype);

    if (c->coll == WI_COLL_ALL_TO_ALL_V)
        return SIZE_MAX;
    wi_call_spans(comm, c, &src, &dst);
    n = c->coll == WI_COLL_ALL_GATHER_V ? wi_v_span(c->recv_counts, NULL, comm->nranks) : src > dst ? src : dst;
    return es && n > SIZE_MAX / es ? SIZE_MAX : n * es;
}

/* What every communicator does by WEFT_COMPRESS: sums of floats, for what others only copy (initial weights) must stay as it is. */
static int is_sum_of_floats(const struct wi_call *c)
{
    return (c->coll == WI_COLL_ALL_REDUCE || c->coll == WI_COLL_REDUCE_SCATTER) && wi_codec_takes(c->dtype) && sums(c);
}

static int is_for_default(const struct weft_comm *comm, const struct wi_call *c)
{
    return comm->ctx->codec.on && is_sum_of_floats(c);
}

const struct wi_codec_use *wi_compress_default(const struct weft_comm *comm, const struct wi_call *c)
{
    const struct wi_codec_use *use = &comm->ctx->codec;

    return is_for_default(comm, c) && coded_bytes(comm, c) >= use->min_bytes ? use : NULL;
}

int wi_compress_named(struct weft_comm *comm, const weft_call_options *o, const struct wi_call *c,
                      const struct wi_codec_use **codec)
{
    const struct wi_codec_use *use = &comm->named_codec.use;
    char *text = comm->named_codec.text;

    if (!o->codec || o->timeout_ns || o->algorithm || o->label || o->accumulate || !is_sum_of_floats(c))
        return 0;
    if (strcmp(text, o->codec) != 0 || !*text) {
        *text = '\0';
        if (strlen(o->codec) >= sizeof comm->named_codec.text ||
            wi_codec_parse_use(o->codec, &comm->named_codec.use) < 0) /* the general path says what is wrong */
            return 0;
        strcpy(text, o->codec);
        if (use->on)
            wi_codec_text(&use->codec, comm->named_codec.shown, sizeof comm->named_codec.shown);
    }
    *codec = use->on && coded_bytes(comm, c) >= use->min_bytes ? use : NULL;
    return !use->feedback.form;
}

uint32_t wi_compress_mark_of(const struct wi_codec_use *use, const struct weft_codec *codec, uint64_t tensor)
{
    const struct wi_feedback *f = &use->feedback;
    uint64_t words[3] = {tensor, codec->hash,
                         (uint64_t)(f->form | f->masking << 8 | use->may_bypass << 16) << 32 | f->warmup};
    float reals[3] = {f->beta, f->momentum, f->clip};

    return (uint32_t)(wi_hash64(words, sizeof words, wi_hash64(reals, sizeof reals, 0)) >> 32);
}

void wi_compress_mark(struct weft_op_info *info, uint32_t mark)
{
    info->flags |= WI_INFO_CODED;
    info->hash ^= mark;
}

static size_t count_tensors(const struct weft_request *req)
{
    return req->batch ? req->batch->ncoded : 1;
}

static uint64_t tensor_of(const struct weft_request *req, size_t i)
{
    return req->batch ? req->batch->parts[i].tensor : req->options.tensor;
}

static uint64_t steps_of(const struct weft_request *req, uint64_t tensor)
{
    const struct wi_residual *r = wi_residual_look(req->comm, tensor);

    return r ? r->steps : 0;
}

/* A call with error feedback, among those of its tensors: a program that goes on from saved residuals gets the same random bits as
 * one that was never interrupted. Never 0. */
static uint64_t step_of(const struct weft_request *req)
{
    uint64_t step = 0;

    for (size_t i = 0; i < count_tensors(req); i++) {
        uint64_t tensor = tensor_of(req, i), words[2] = {tensor, steps_of(req, tensor)};
        step = wi_hash64(words, sizeof words, step);
    }
    return step | 1;
}

/* Who leads, which places are sent, what EF21's ranks have in common: ranks must have compressed the tensor equally often. */
static int needs_same_step(const struct weft_request *req)
{
    return req->codec.codec.traits & WEFT_CODEC_LINEAR || wi_feedback_has_state(&req->codec.feedback);
}

/* DGC's warm-up: in four parts of it, all of a length, 1/4 of the elements is kept, 1/16, 1/64, 1/250. Of a batch the youngest
 * tensor counts. */
static weft_status warm_up(struct weft_request *req, const struct weft_codec **codec)
{
    static const double kept[] = {0.25, 0.0625, 0.015625, 0.004};
    uint64_t step = UINT64_MAX, all = req->codec.feedback.warmup;

    for (size_t i = 0; all && i < count_tensors(req); i++) {
        uint64_t steps = steps_of(req, tensor_of(req, i));
        step = steps < step ? steps : step;
    }
    *codec = &req->codec.codec;
    if (step >= all)
        return WEFT_SUCCESS;
    WI_TRY(wi_codec_with_ratio(&req->codec.codec, kept[step * 4 / all], &req->warm));
    *codec = &req->warm;
    return WEFT_SUCCESS;
}

weft_status wi_compress_use(const struct weft_comm *comm, const weft_call_options *options, const struct wi_call *c,
                            struct wi_codec_use *use)
{
    *use = (struct wi_codec_use){0};
    if (options && options->codec)
        return wi_codec_parse_use(options->codec, use);
    if (is_for_default(comm, c))
        *use = comm->ctx->codec;
    return WEFT_SUCCESS;
}

weft_status wi_compress_begin(struct weft_comm *comm, struct weft_request *req, struct wi_op *op,
                              const struct wi_call *c)
{
    const struct wi_codec_use *use = req->options.codec || op->bind.adds ? NULL : wi_compress_default(comm, c);
    const struct weft_codec *codec;

    if (req->batch && !req->batch->ncoded)
        return WEFT_SUCCESS;
    if (use)
        req->codec = *use;
    if (!req->codec.on || coded_bytes(comm, c) < req->codec.min_bytes)
        return WEFT_SUCCESS;
    WI_TRY(check_named(req, c));
    WI_TRY(warm_up(req, &codec));
    WI_TRY(wi_coding_init(&op->bind.coding, codec, c->dtype, comm->rank));
    op->bind.coding.tensor = req->options.tensor;
    if (req->codec.feedback.form) {
        op->bind.coding.step = step_of(req);
        if (needs_same_step(req))
            op->info.hash ^= (uint32_t)(op->bind.coding.step >> 32);
    }
    wi_compress_mark(&op->info, wi_compress_mark_of(&req->codec, codec, req->options.tensor));
    return WEFT_SUCCESS;
}

/* ---- Residuals ---- */

static size_t residual_elems(const struct weft_comm *comm, const struct wi_call *c)
{
    size_t src, dst;

    wi_call_spans(comm, c, &src, &dst);
    return src > dst ? src : dst;
}

int wi_compress_copies_source(const struct weft_comm *comm, const struct weft_request *req, const struct wi_call *c)
{
    return req->codec.feedback.form && wi_algo_family((enum wi_coll)c->coll) == WI_COLL_REDUCE_SCATTER &&
           wi_call_in_place(comm, c);
}

#define ADDED_AT_ONCE 2048

float wi_compress_share(const struct wi_redop *redop)
{
    return redop->op == WEFT_AVG ? (float)redop->divisor : 1;
}

static void add_plane(const struct wi_plane *p, size_t at, size_t n, float factor, float *part)
{
    size_t from = p->from > at ? p->from : at, to = p->to < at + n ? p->to : at + n;

    for (size_t i = from; i < to; i++)
        part[i - at] += factor * p->of[i - p->from];
}

float wi_compress_gain(const struct wi_feedback *f, int nranks, weft_dtype dtype, const void *src, size_t elems)
{
    double squares = 0, most = (double)f->clip / sqrt(nranks), norm;
    float part[ADDED_AT_ONCE];

    for (size_t at = 0; f->clip > 0 && at < elems; at += ADDED_AT_ONCE) {
        size_t n = elems - at < ADDED_AT_ONCE ? elems - at : ADDED_AT_ONCE;
        wi_codec_widen(dtype, (const unsigned char *)src + at * weft_dtype_bytes(dtype), part, n);
        for (size_t i = 0; i < n; i++)
            squares += (double)part[i] * (double)part[i];
    }
    norm = sqrt(squares);
    return f->clip > 0 && norm > most && isfinite(norm) ? (float)(most / norm) : 1;
}

/* `to`, which may be `from`, becomes that with what the tensor is owed; which is settled. */
static void settle(struct wi_residual *r, const struct wi_feedback *f, const struct wi_redop *redop, int nranks,
                   const void *from, void *to)
{
    weft_dtype dtype = (weft_dtype)redop->dtype;
    int dgc = f->form == WI_FEEDBACK_DGC;
    float part[ADDED_AT_ONCE], gain = dgc ? wi_compress_gain(f, nranks, dtype, from, r->elems) : 1;
    size_t es = weft_dtype_bytes(dtype);

    for (size_t at = 0; at < r->elems; at += ADDED_AT_ONCE) {
        size_t n = r->elems - at < ADDED_AT_ONCE ? r->elems - at : ADDED_AT_ONCE;
        wi_codec_widen(dtype, (const unsigned char *)from + at * es, part, n);
        for (size_t i = 0; gain != 1 && i < n; i++)
            part[i] *= gain;
        add_plane(&r->plane[WI_PLANE_WORKER], at, n, 1, part);
        add_plane(&r->plane[WI_PLANE_OWNER], at, n, wi_compress_share(redop), part);
        add_plane(&r->plane[WI_PLANE_MORE], at, n, dgc ? f->momentum : 0, part);
        wi_codec_narrow(dtype, part, (unsigned char *)to + at * es, n);
    }
    for (int i = 0; i < WI_PLANES; i++)
        wi_plane_clear(&r->plane[i]);
    r->steps++;
}

unsigned char *wi_compress_source(struct wi_op *op, struct wi_call *c, size_t bytes, int fill)
{
    if (c->src == c->dst) /* it will be overwritten */
        return c->dst;
    if (op->owned[WI_OWNED_SOURCE])
        return op->owned[WI_OWNED_SOURCE];
    op->owned[WI_OWNED_SOURCE] = wi_aligned_alloc(64, bytes);
    if (!op->owned[WI_OWNED_SOURCE])
        wi_fail(WEFT_ENOMEM, "a copy of %zu bytes, for a residual", bytes);
    else if (fill)
        memcpy(op->owned[WI_OWNED_SOURCE], c->src, bytes);
    return op->owned[WI_OWNED_SOURCE];
}

/* Plain data goes out: what was lost before goes with it, and is settled. EF21 owes nothing: what it keeps stays. */
static weft_status add_all(const struct weft_request *req, struct wi_op *op, struct wi_call *c, struct wi_residual *r)
{
    unsigned char *copy;

    if (r->form == WI_FEEDBACK_EF21)
        return WEFT_SUCCESS;
    copy = wi_compress_source(op, c, r->elems * weft_dtype_bytes(c->dtype), 0);
    if (!copy)
        return WEFT_ENOMEM;
    settle(r, &req->codec.feedback, &op->bind.redop, req->comm->nranks, c->src, copy);
    c->src = op->bind.base[WI_SRC] = copy;
    return WEFT_SUCCESS;
}

/* Refuse algorithms that encode an element more often than the codec allows. */
static weft_status check_losses(const struct wi_sched *sched, const struct weft_codec *codec)
{
    if (!codec->lossy_limit || sched->lossy <= codec->lossy_limit)
        return WEFT_SUCCESS;
    return wi_fail(WEFT_ENOTSUP, "algorithm %s encodes an element up to %u times, and codec %s allows %u", sched->algo,
                   sched->lossy, wi_codec_name(codec), codec->lossy_limit);
}

static void release(struct wi_residual **r)
{
    if (*r)
        (*r)->busy = 0;
    *r = NULL;
}

/* Each tensor's, which no other operation may use now; nor may the batch name it twice. */
static weft_status take_all(struct weft_request *req)
{
    for (size_t i = 0; i < req->batch->ncoded; i++) {
        struct wi_batch_part *p = &req->batch->parts[i];
        WI_TRY(wi_residual_get(req->comm, p->tensor, p->count, req->codec.feedback.form, &p->residual));
        p->residual->busy = 1;
    }
    return WEFT_SUCCESS;
}

weft_status wi_compress_take(struct weft_request *req)
{
    if (req->batch)
        return take_all(req);
    WI_TRY(wi_residual_get(req->comm, req->options.tensor, residual_elems(req->comm, &req->now),
                           req->codec.feedback.form, &req->residual));
    req->residual->busy = 1;
    return WEFT_SUCCESS;
}

static weft_status settle_batch(struct weft_request *req, struct wi_op *op, struct wi_call *c)
{
    struct wi_batch *b = req->batch;
    unsigned char *src = wi_compress_source(op, c, b->elems[0] * b->elem_bytes, 1);

    if (!src)
        return WEFT_ENOMEM;
    for (size_t i = 0; i < b->ncoded; i++) {
        unsigned char *at = src + b->parts[i].at * b->elem_bytes;
        if (b->parts[i].residual->form != WI_FEEDBACK_EF21)
            settle(b->parts[i].residual, &req->codec.feedback, &op->bind.redop, req->comm->nranks, at, at);
    }
    c->src = op->bind.base[WI_SRC] = src;
    return WEFT_SUCCESS;
}

weft_status wi_compress_settle(struct weft_request *req, struct wi_op *op)
{
    struct wi_coding *coding = &op->bind.coding;
    weft_status st = WEFT_SUCCESS;

    if (!coding->image_bytes)
        return WEFT_SUCCESS;
    WI_TRY(check_losses(op->bind.sched, coding->codec));
    if (req->codec.feedback.form)
        WI_TRY(wi_compress_take(req));
    if (op->bind.sched->lossy)
        return WEFT_SUCCESS;
    coding->image_bytes = 0;
    if (req->codec.feedback.form)
        st = req->batch ? settle_batch(req, op, &req->now) : add_all(req, op, &req->now, req->residual);
    wi_compress_end(req);
    return st;
}

void wi_compress_end(struct weft_request *req)
{
    release(&req->residual);
    for (size_t i = 0; req->batch && i < req->batch->ncoded; i++)
        release(&req->batch->parts[i].residual);
}

static weft_status settle_alone(const struct weft_request *req, uint64_t tensor, void *of, size_t count)
{
    struct wi_residual *r;
    struct wi_redop redop;

    if (!tensor || !wi_residual_look(req->comm, tensor))
        return WEFT_SUCCESS;
    WI_TRY(wi_residual_get(req->comm, tensor, count, req->codec.feedback.form, &r));
    WI_TRY(wi_call_redop(req->comm, &req->call, &redop));
    if (r->form != WI_FEEDBACK_EF21)
        settle(r, &req->codec.feedback, &redop, 1, of, of);
    return WEFT_SUCCESS;
}

weft_status wi_compress_alone(struct weft_request *req)
{
    const struct wi_call *c = &req->call;
    struct wi_batch *b = req->batch;

    if (!req->codec.feedback.form || (c->coll != WI_COLL_ALL_REDUCE && c->coll != WI_COLL_REDUCE_SCATTER))
        return WEFT_SUCCESS;
    if (!b)
        return settle_alone(req, req->options.tensor, c->dst, c->count);
    for (size_t i = 0; i < b->ncoded; i++)
        WI_TRY(settle_alone(req, b->parts[i].tensor, b->vector[0] + b->parts[i].at * b->elem_bytes, b->parts[i].count));
    return WEFT_SUCCESS;
}
