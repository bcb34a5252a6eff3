/* SPDX-License-Identifier: BSD-3-Clause */
#if defined(__clang__)
#pragma clang fp contract(off)
#else
#pragma GCC optimize("O3", "fp-contract=off")
#endif

#include "comm/linear.h"

#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/status.h"
#include "comm/batch.h"
#include "comm/residual.h"

#define AT_ONCE 65536 /* elements that are worked on before others of the communicator have their turn */
#define IN_CACHE \
    16384 /* elements that are looked at several times before the next ones are, unless a block is longer */

struct wi_linear {
    struct weft_codec codec;
    struct weft_codec_linear of;
    struct weft_codec_site site;
    int nranks;
    struct weft_request *agreement; /* NULL: nothing is agreed on */
    size_t part;                    /* elements that are in the cache */
    float *room[3]; /* [part]: what the sum is; what was given to it; the vector in fp32 with its residuals */
    const void *src;
    void *copy;            /* owned; NULL, or what src points to */
    int is_given;          /* that vector is the program's, as it is */
    unsigned char *agreed; /* for all blocks; NULL: nothing */
    unsigned char *own, *sum;
    size_t elems, projected;
    void *dst;
    weft_dtype dtype;
    float factor;
};

/* ---- Memory ---- */

void wi_linear_forget(struct weft_request *req)
{
    struct wi_linear *l = req->linear;

    req->linear = NULL;
    if (!l)
        return;
    if (req->given.arg == req) /* its gate */
        req->given.ops = NULL;
    for (int i = 0; i < 3; i++)
        wi_free(l->room[i]);
    wi_free(l->copy);
    wi_free(l->agreed);
    wi_free(l->own);
    wi_free(l->sum);
    wi_free(l);
}

void wi_linear_free(struct weft_request *req)
{
    struct weft_request *agreement = req->linear ? req->linear->agreement : NULL;

    if (agreement && atomic_load_explicit(&agreement->left, memory_order_acquire)) {
        agreement->op[0].prelude_of = NULL;
        agreement->linear = req->linear; /* it still runs, on this memory: both go with the communicator */
        req->linear = NULL;
        return;
    }
    if (agreement)
        wi_request_put(agreement);
    wi_linear_forget(req);
}

static size_t blocks_of(const struct wi_linear *l, size_t elems)
{
    return elems / l->codec.block + (elems % l->codec.block != 0);
}

static size_t agreed_bytes(const struct wi_linear *l, size_t elems)
{
    return blocks_of(l, elems) * l->of.agreed_elems * weft_dtype_bytes(l->of.agreed_dtype);
}

static size_t summed_bytes(const struct wi_linear *l, size_t elems)
{
    return blocks_of(l, elems) * l->of.elems * weft_dtype_bytes(l->of.dtype);
}

static weft_status make_room(struct wi_linear *l)
{
    size_t agreed = agreed_bytes(l, l->elems), summed = summed_bytes(l, l->elems);
    int missing = 0;

    l->own = wi_aligned_alloc(64, summed);
    l->sum = wi_aligned_alloc(64, summed);
    l->agreed = agreed ? wi_aligned_alloc(64, agreed) : NULL;
    for (int i = 0; i < 3; i++) {
        l->room[i] = wi_aligned_alloc(64, l->part * sizeof *l->room[i]);
        missing |= !l->room[i];
    }
    if (missing || !l->own || !l->sum || (agreed && !l->agreed))
        return wi_fail(WEFT_ENOMEM, "codec %s: vectors for %zu elements", wi_codec_name(&l->codec), l->elems);
    return WEFT_SUCCESS;
}

/* ---- Tensors: the vector is one, or a batch of them ---- */

struct tensor {
    struct wi_residual *residual; /* NULL: it keeps none */
    size_t from, elems;
};

static size_t count_tensors(const struct weft_request *req)
{
    return req->batch ? req->batch->ncoded : 1;
}

static struct tensor tensor_at(const struct weft_request *req, const struct wi_linear *l, size_t i)
{
    if (!req->batch)
        return (struct tensor){req->residual, 0, l->elems};
    return (struct tensor){req->batch->parts[i].residual, req->batch->parts[i].at, req->batch->parts[i].count};
}

/* What an owner kept, in other calls, goes to what this rank gives: only that is kept here. */
static weft_status gather_planes(struct wi_residual *r, const struct wi_redop *redop)
{
    struct wi_plane *own = &r->plane[WI_PLANE_WORKER], *owner = &r->plane[WI_PLANE_OWNER];

    WI_TRY(wi_plane_reserve(own, 0, r->elems));
    for (size_t i = owner->from; i < owner->to; i++)
        own->of[i] += owner->of[i - owner->from] * wi_compress_share(redop);
    wi_plane_clear(owner);
    r->shape = 0;
    r->loaded = 0;
    r->avg = redop->op == WEFT_AVG;
    r->steps++;
    return WEFT_SUCCESS;
}

static weft_status take_residuals(struct weft_request *req, const struct wi_linear *l, const struct wi_redop *redop)
{
    if (!req->codec.feedback.form)
        return WEFT_SUCCESS;
    WI_TRY(wi_compress_take(req));
    for (size_t i = 0; i < count_tensors(req); i++)
        WI_TRY(gather_planes(tensor_at(req, l, i).residual, redop));
    return WEFT_SUCCESS;
}

/* The tensor's part of [at, at + n): false, there is none. */
static int meets(const struct tensor *t, size_t at, size_t n, size_t *from, size_t *to)
{
    *from = t->from > at ? t->from : at;
    *to = t->from + t->elems < at + n ? t->from + t->elems : at + n;
    return t->residual && *from < *to;
}

/* ---- Before ---- */

static void add(float *restrict to, const float *restrict from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] += from[i];
}

/* [at, at + n) of the vector with what is owed of it. */
static const float *vector_at(const struct weft_request *req, struct wi_linear *l, size_t at, size_t n)
{
    float *c = l->room[2];
    size_t first, end;

    if (l->is_given)
        return (const float *)l->src + at;
    wi_codec_widen(l->dtype, (const unsigned char *)l->src + at * weft_dtype_bytes(l->dtype), c, n);
    for (size_t i = 0; req->codec.feedback.form && i < count_tensors(req); i++) {
        struct tensor t = tensor_at(req, l, i);
        if (!meets(&t, at, n, &first, &end))
            continue;
        add(c + (first - at), t.residual->plane[WI_PLANE_WORKER].of + (first - t.from), end - first);
    }
    return c;
}

static size_t part_from(const struct wi_linear *l, size_t at)
{
    return l->elems - at < l->part ? l->elems - at : l->part;
}

static struct weft_codec_site site_at(const struct wi_linear *l, size_t at)
{
    struct weft_codec_site site = l->site;

    site.first = at;
    return site;
}

static const unsigned char *agreed_at(const struct wi_linear *l, size_t at)
{
    return l->agreed ? l->agreed + agreed_bytes(l, at) : NULL;
}

static void propose(const struct weft_request *req, struct wi_linear *l)
{
    for (size_t at = 0, n; at < l->elems; at += n) {
        struct weft_codec_site site = site_at(l, at);
        n = part_from(l, at);
        wi_codec_propose(&l->codec, &site, l->nranks, vector_at(req, l, at, n), n, l->agreed + agreed_bytes(l, at));
    }
}

/* As much as is done at once. */
static void project(const struct weft_request *req, struct wi_linear *l)
{
    size_t end = l->elems - l->projected < AT_ONCE ? l->elems : l->projected + AT_ONCE;

    for (size_t at = l->projected, n; at < end; at += n, l->projected = at) {
        struct weft_codec_site site = site_at(l, at);
        n = part_from(l, at);
        wi_codec_project(&l->codec, &site, l->nranks, agreed_at(l, at), vector_at(req, l, at, n), n,
                         l->own + summed_bytes(l, at));
    }
}

/* ---- The agreement ---- */

static weft_status agree(struct weft_comm *comm, struct weft_request *req, struct wi_linear *l, int leader)
{
    int leads = l->of.agreement == WEFT_CODEC_AGREE_LEADER;
    struct weft_request *a = wi_request_get(comm);

    if (!a)
        return wi_fail(WEFT_ENOMEM, "request");
    a->call = (struct wi_call){.coll = leads ? WI_COLL_BROADCAST : WI_COLL_ALL_REDUCE,
                               .dtype = l->of.agreed_dtype,
                               .op = WEFT_MAX,
                               .root = leads ? leader : -1,
                               .src = l->agreed,
                               .dst = l->agreed,
                               .count = blocks_of(l, l->elems) * l->of.agreed_elems};
    a->options.timeout_ns = req->options.timeout_ns;
    a->prelude_of = &req->op[0];
    l->agreement = a;
    return wi_request_issue(a);
}

static int agreed_poll(struct wi_exec *exec, struct wi_op *op, int *moved)
{
    struct weft_request *req = op->gate.arg;
    struct wi_linear *l = req->linear;
    struct weft_request *a = l->agreement;

    (void)exec;
    if (atomic_load_explicit(&a->left, memory_order_acquire))
        return 0;
    if (a->status < 0)
        return wi_comm_outcome(req->comm, a->status);
    *moved = 1;
    project(req, l);
    return l->projected == l->elems;
}

static const struct wi_gate_ops agreed_gate = {"what the ranks agree on for a linear codec", 1, agreed_poll};

/* ---- Begin ---- */

static struct wi_call sum_call(const struct wi_linear *l)
{
    return (struct wi_call){.coll = WI_COLL_ALL_REDUCE,
                            .dtype = l->of.dtype,
                            .op = WEFT_SUM,
                            .root = -1,
                            .src = l->own,
                            .dst = l->sum,
                            .count = blocks_of(l, l->elems) * l->of.elems};
}

static weft_status make(struct weft_comm *comm, struct weft_request *req, struct wi_op *op, const struct wi_call *c,
                        const struct weft_codec_linear *of)
{
    struct wi_linear *l = wi_calloc(1, sizeof *l);

    if (!l)
        return wi_fail(WEFT_ENOMEM, "a call with codec %s", wi_codec_name(op->bind.coding.codec));
    req->linear = l;
    l->codec = *op->bind.coding.codec;
    l->of = *of;
    l->nranks = comm->nranks;
    l->elems = c->count;
    l->part = l->codec.block > IN_CACHE ? l->codec.block : IN_CACHE;
    l->src = c->src;
    l->copy = op->owned[WI_OWNED_SOURCE]; /* which lasts longer than the operation now, if the vector is a copy */
    op->owned[WI_OWNED_SOURCE] = NULL;
    l->is_given = !req->codec.feedback.form && c->dtype == WEFT_FLOAT32 && (uintptr_t)c->src % _Alignof(float) == 0;
    l->dst = c->dst;
    l->dtype = c->dtype;
    l->factor = op->bind.redop.op == WEFT_AVG ? 1.0f / (float)comm->nranks : 1;
    WI_TRY(make_room(l));
    return take_residuals(req, l, &op->bind.redop);
}

/* Another rank leads each time that a tensor with a residual is sent. Without one nobody knows what is the same tensor: a hash
 * decides, so that none has always the same leader because of the number of tensors. */
static int leader_of(const struct weft_comm *comm, const struct weft_request *req, uint64_t step)
{
    const struct wi_residual *r = req->batch ? req->batch->parts[0].residual : req->residual;
    uint64_t turn = r ? r->steps : wi_hash64(&step, sizeof step, 0);

    return (int)(turn % (uint64_t)comm->nranks);
}

static weft_status begin(struct weft_comm *comm, struct weft_request *req, struct wi_op *op, struct wi_call *c)
{
    struct wi_linear *l = req->linear;
    uint64_t step = op->bind.coding.step ? op->bind.coding.step : comm->exec->next_seq + 1;
    int leader = leader_of(comm, req, step),
        proposes = l->of.agreement == WEFT_CODEC_AGREE_MAX ||
                   (l->of.agreement == WEFT_CODEC_AGREE_LEADER && leader == comm->rank);

    l->site = (struct weft_codec_site){.step = step, .rank = (uint32_t)comm->rank};
    if (proposes)
        propose(req, l);
    while (!l->of.agreement && l->projected < l->elems)
        project(req, l);
    if (l->of.agreement) {
        WI_TRY(agree(comm, req, l, leader));
        wi_request_gate(req, &agreed_gate, req, 0);
    }
    *c = sum_call(l);
    op->bind.base[WI_SRC] = l->own;
    op->bind.base[WI_DST] = l->sum;
    op->bind.coding.image_bytes = 0;
    op->bind.coding.linear = 1;
    return wi_call_redop(comm, c, &op->bind.redop);
}

/* An algorithm that was named is of the sum, unless it is one that sends images. */
static int names_images(const struct weft_comm *comm, const struct weft_request *req)
{
    struct wi_algo_choice choice;

    if (!req->options.algorithm)
        return 0;
    if (wi_algo_choose(WI_COLL_ALL_REDUCE, req->options.algorithm, &comm->levels, comm->nranks, &choice) < 0) {
        wi_fail_clear(); /* the plan says what is wrong with it */
        return 0;
    }
    return (choice.needs & WI_ALGO_CODED) != 0;
}

static void log_plan(const struct wi_plan_query *q, const struct weft_codec *codec, const struct wi_plan_linear *plan)
{
    if (plan->is_new)
        wi_log(WEFT_LOG_INFO, "plan.choice",
               "all_reduce of %zu bytes with linear codec %s: %.2f us predicted, of plain data %.2f%s", q->bytes,
               wi_codec_name(codec), plan->coded_us, plan->plain_us, plan->used ? "" : "; the codec is bypassed");
}

int wi_linear_begin(struct weft_comm *comm, struct weft_request *req, struct wi_op *op, struct wi_call *c)
{
    const struct weft_codec *codec = op->bind.coding.codec;
    struct weft_codec_linear of;
    struct wi_plan_linear plan;
    struct wi_plan_query q;

    if (!op->bind.coding.image_bytes || !(codec->traits & WEFT_CODEC_LINEAR) || c->coll != WI_COLL_ALL_REDUCE ||
        names_images(comm, req))
        return 0;
    if (req->given.ops)
        return wi_fail(WEFT_ENOTSUP, "codec %s is linear: its call is two operations, which cannot wait at a gate",
                       wi_codec_name(codec));
    WI_TRY(wi_codec_linear(codec, comm->nranks, &of));
    q = wi_op_query(comm, c, op, c->count * weft_dtype_bytes(c->dtype));
    wi_compress_query(req, op, &q);
    WI_TRY(wi_plan_linear(comm->planner, &q, &of, req->options.algorithm, &plan));
    log_plan(&q, codec, &plan);
    if (!plan.used) {
        op->bind.coding.plain = 1;
        return 0;
    }
    WI_TRY(make(comm, req, op, c, &of));
    WI_TRY(begin(comm, req, op, c));
    return 1;
}

/* ---- After ---- */

/* e <- beta e + (1 - beta) (c - given); beta 0: what was kept does not matter, even if it is no number. */
static void keep_rest(float *restrict e, const float *restrict c, const float *restrict given, float beta, size_t n)
{
    for (size_t i = 0; beta > 0 && i < n; i++)
        e[i] = beta * e[i] + (1 - beta) * (c[i] - given[i]);
    for (size_t i = 0; !(beta > 0) && i < n; i++)
        e[i] = c[i] - given[i];
}

/* Renew the residual: what was given has arrived. Blocks that are not finite on some rank keep theirs. */
static void keep(const struct wi_linear *l, const struct wi_feedback *f, const struct tensor *t, const float *c,
                 size_t at, size_t from, size_t to, size_t bad)
{
    size_t block = l->codec.block;
    float beta = f->form == WI_FEEDBACK_LOCO ? f->beta : 0;

    for (size_t end; from < to; from = end) {
        float first = l->room[0][(from - at) / block * block];
        end = !bad || to - from < block - from % block ? to : from + (block - from % block);
        if (first == first)
            keep_rest(t->residual->plane[WI_PLANE_WORKER].of + (from - t->from), c + (from - at),
                      l->room[1] + (from - at), beta, end - from);
    }
}

static void keep_all(const struct weft_request *req, struct wi_linear *l, size_t at, size_t n, size_t bad)
{
    const float *c = vector_at(req, l, at, n);
    struct weft_codec_site site = site_at(l, at);
    size_t from, to;

    wi_codec_expand(&l->codec, &site, l->nranks, agreed_at(l, at), l->own + summed_bytes(l, at), n, l->room[1]);
    for (size_t i = 0; i < count_tensors(req); i++) {
        struct tensor t = tensor_at(req, l, i);
        if (meets(&t, at, n, &from, &to))
            keep(l, &req->codec.feedback, &t, c, at, from, to, bad);
    }
}

/* The residuals first: in place the vector is where the result will be. An agreement whose call has failed has kept its memory only
 * (wi_linear_free), and there is no sum. */
void wi_linear_store(struct weft_request *req)
{
    struct wi_linear *l = req->linear;
    size_t es = weft_dtype_bytes(l->dtype);

    if (l->agreement == req)
        return;
    for (size_t at = 0, n; at < l->elems; at += n) {
        struct weft_codec_site site = site_at(l, at);
        size_t bad;
        n = part_from(l, at);
        bad =
            wi_codec_expand(&l->codec, &site, l->nranks, agreed_at(l, at), l->sum + summed_bytes(l, at), n, l->room[0]);
        if (req->codec.feedback.form)
            keep_all(req, l, at, n, bad);
        for (size_t i = 0; l->factor != 1 && i < n; i++)
            l->room[0][i] *= l->factor;
        wi_codec_narrow(l->dtype, l->room[0], (unsigned char *)l->dst + at * es, n);
    }
}
