/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls with a codec: which calls have one, what the planner must know of it, and the residuals that it leaves. */
#include <string.h>
#include <weft/weft_compress.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/status.h"
#include "comm/comm.h"

/* ---- What a codec costs ---- */

#define FEEDBACK 0.6f /* encoding with a residual is slower by this */

uint32_t wi_compress_id(const struct wi_codec_use *use)
{
    return ((uint32_t)(use->codec.hash >> 32) & 0x7fffffff) | (uint32_t)use->feedback << 31 | 1;
}

static struct wi_plan_codec planned(const struct wi_codec_use *use, weft_dtype dtype)
{
    const struct weft_codec *c = &use->codec;
    float elem = (float)weft_dtype_bytes(dtype);

    return (struct wi_plan_codec){
        .id = wi_compress_id(use),
        .may_bypass = use->may_bypass,
        .feedback = use->feedback,
        .ratio = (float)c->block_bytes / ((float)c->block * elem),
        .encode_rate = c->encode_rate * (use->feedback ? FEEDBACK : 1),
        .decode_rate = c->decode_rate,
        .work = (float)sizeof(float) / elem,
    };
}

void wi_compress_query(const struct weft_request *req, const struct wi_op *op, struct wi_plan_query *q)
{
    if (op->bind.coding.image_bytes)
        q->codec = planned(&req->codec, (weft_dtype)op->bind.redop.dtype);
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
    return coll == WI_COLL_ALL_REDUCE || coll == WI_COLL_REDUCE_SCATTER || coll == WI_COLL_ALL_GATHER ||
           coll == WI_COLL_ALL_TO_ALL;
}

static weft_status check_named(const struct weft_request *req, const struct wi_call *c)
{
    const char *name = wi_coll_name((enum wi_coll)c->coll), *codec = wi_codec_name(&req->codec.codec);

    if (!can_code((enum wi_coll)c->coll))
        return wi_fail(WEFT_ENOTSUP, "%s: codec %s is for all_reduce, reduce_scatter, all_gather and all_to_all", name,
                       codec);
    if (wi_coll_is_reduction(c->coll) && !sums(c))
        return wi_fail(WEFT_ENOTSUP, "%s: codec %s is for the operators sum and avg, not %s", name, codec,
                       c->op < WEFT_NUM_OPS ? weft_op_name(c->op) : "one of the program's");
    if (req->codec.feedback && !req->options.tensor)
        return wi_fail(WEFT_EINVAL,
                       "%s: codec %s with ef=1 keeps a residual for each tensor, and the call names none (tensor is 0)",
                       name, codec);
    if (req->codec.feedback && c->coll != WI_COLL_ALL_REDUCE && c->coll != WI_COLL_REDUCE_SCATTER)
        return wi_fail(WEFT_ENOTSUP, "%s: ef=1 is for sums, all_reduce and reduce_scatter", name);
    return WEFT_SUCCESS;
}

static size_t coded_bytes(const struct weft_comm *comm, const struct wi_call *c)
{
    size_t src, dst;

    wi_call_spans(comm, c, &src, &dst);
    return (src > dst ? src : dst) * weft_dtype_bytes(c->dtype);
}

/* What every communicator does by WEFT_COMPRESS: sums of floats, for what others only copy (initial weights) must stay as it is. */
const struct wi_codec_use *wi_compress_default(const struct weft_comm *comm, const struct wi_call *c)
{
    const struct wi_codec_use *use = &comm->ctx->codec;
    int is = use->on && (c->coll == WI_COLL_ALL_REDUCE || c->coll == WI_COLL_REDUCE_SCATTER) &&
             wi_codec_takes(c->dtype) && sums(c) && coded_bytes(comm, c) >= use->min_bytes;

    return is ? use : NULL;
}

uint32_t wi_compress_mark_of(const struct wi_codec_use *use, uint64_t tensor)
{
    return (uint32_t)(wi_hash64(&tensor, sizeof tensor, use->codec.hash + use->feedback) >> 32);
}

void wi_compress_mark(struct weft_op_info *info, uint32_t mark)
{
    info->flags |= WI_INFO_CODED;
    info->hash ^= mark;
}

weft_status wi_compress_begin(struct weft_comm *comm, struct weft_request *req, struct wi_op *op,
                              const struct wi_call *c)
{
    const struct wi_codec_use *use = req->options.codec ? NULL : wi_compress_default(comm, c);

    if (use)
        req->codec = *use;
    if (!req->codec.on || coded_bytes(comm, c) < req->codec.min_bytes)
        return WEFT_SUCCESS;
    WI_TRY(check_named(req, c));
    WI_TRY(wi_coding_init(&op->bind.coding, &req->codec.codec, c->dtype, comm->rank));
    wi_compress_mark(&op->info, wi_compress_mark_of(&req->codec, req->options.tensor));
    return WEFT_SUCCESS;
}

/* ---- Residuals ---- */

/* Of one tensor. What is not used of it stays untouched zeros, which take no memory. */
struct wi_residual {
    struct wi_residual *next; /* of the bucket */
    uint64_t tensor;
    size_t elems;
    float *of[WI_SCHED_RESIDUALS];
    uint8_t busy; /* an operation that uses it is in flight */
};

#define BUCKETS 1024

static struct wi_residual **bucket_of(struct weft_comm *comm, uint64_t tensor)
{
    return &comm->residuals[wi_hash64(&tensor, sizeof tensor, 0) % BUCKETS];
}

static void residual_free(struct wi_residual *r)
{
    for (int i = 0; r && i < WI_SCHED_RESIDUALS; i++)
        wi_free(r->of[i]);
    wi_free(r);
}

void wi_residuals_free(struct weft_comm *comm)
{
    for (size_t b = 0; comm->residuals && b < BUCKETS; b++)
        while (comm->residuals[b]) {
            struct wi_residual *r = comm->residuals[b];
            comm->residuals[b] = r->next;
            residual_free(r);
        }
    wi_free(comm->residuals);
    comm->residuals = NULL;
}

static weft_status residual_make(uint64_t tensor, size_t elems, struct wi_residual **out)
{
    struct wi_residual *r = wi_calloc(1, sizeof *r);

    for (int i = 0; r && i < WI_SCHED_RESIDUALS; i++) {
        r->of[i] = wi_calloc(elems, sizeof(float));
        if (!r->of[i]) {
            residual_free(r);
            r = NULL;
        }
    }
    if (!r)
        return wi_fail(WEFT_ENOMEM, "the residual of tensor %llu, %zu elements", (unsigned long long)tensor, elems);
    r->tensor = tensor;
    r->elems = elems;
    *out = r;
    return WEFT_SUCCESS;
}

static weft_status residual_find(struct weft_comm *comm, uint64_t tensor, size_t elems, struct wi_residual **out)
{
    struct wi_residual **b, *r;

    if (!comm->residuals && !(comm->residuals = wi_calloc(BUCKETS, sizeof(struct wi_residual *))))
        return wi_fail(WEFT_ENOMEM, "residuals");
    b = bucket_of(comm, tensor);
    for (r = *b; r && r->tensor != tensor; r = r->next)
        ;
    if (!r) {
        WI_TRY(residual_make(tensor, elems, &r));
        r->next = *b;
        *b = r;
    }
    if (r->elems != elems)
        return wi_fail(WEFT_EINVAL, "tensor %llu has a residual of %zu elements, and the call has %zu",
                       (unsigned long long)tensor, r->elems, elems);
    if (r->busy)
        return wi_fail(WEFT_EBUSY, "tensor %llu: an operation that uses its residual is in flight",
                       (unsigned long long)tensor);
    *out = r;
    return WEFT_SUCCESS;
}

static size_t residual_elems(const struct weft_comm *comm, const struct wi_call *c)
{
    size_t src, dst;

    wi_call_spans(comm, c, &src, &dst);
    return src > dst ? src : dst;
}

int wi_compress_copies_source(const struct weft_comm *comm, const struct weft_request *req, const struct wi_call *c)
{
    return req->codec.feedback && c->coll == WI_COLL_REDUCE_SCATTER && wi_call_in_place(comm, c);
}

#define ADDED_AT_ONCE 2048

/* Plain data goes out: what was lost before goes with it, and is settled. */
static weft_status add_all(struct wi_op *op, struct wi_call *c, const struct wi_residual *r)
{
    size_t es = weft_dtype_bytes(c->dtype);
    int avg = op->bind.redop.op == WEFT_AVG;
    unsigned char *copy = c->src == c->dst ? c->dst : op->owned[4]; /* in place it will be overwritten */
    float part[ADDED_AT_ONCE], share = avg ? (float)op->bind.redop.divisor : 1;

    if (!copy && !(copy = op->owned[4] = wi_aligned_alloc(64, r->elems * es)))
        return wi_fail(WEFT_ENOMEM, "a copy of %zu bytes, for a residual", r->elems * es);
    for (size_t at = 0; at < r->elems; at += ADDED_AT_ONCE) {
        size_t n = r->elems - at < ADDED_AT_ONCE ? r->elems - at : ADDED_AT_ONCE;
        wi_codec_widen(c->dtype, (const unsigned char *)c->src + at * es, part, n);
        for (size_t i = 0; i < n; i++)
            part[i] += r->of[0][at + i] + share * r->of[1][at + i];
        wi_codec_narrow(c->dtype, part, copy + at * es, n);
    }
    for (int i = 0; i < WI_SCHED_RESIDUALS; i++)
        memset(r->of[i], 0, r->elems * sizeof(float));
    c->src = op->bind.base[WI_SRC] = copy;
    return WEFT_SUCCESS;
}

/* What loses too often is no sum any more. */
static weft_status check_losses(const struct wi_sched *sched, const struct weft_codec *codec)
{
    if (!codec->lossy_limit || sched->lossy <= codec->lossy_limit)
        return WEFT_SUCCESS;
    return wi_fail(WEFT_ENOTSUP, "algorithm %s encodes an element up to %u times, and codec %s may %u times",
                   sched->algo, sched->lossy, wi_codec_name(codec), codec->lossy_limit);
}

weft_status wi_compress_settle(struct weft_request *req, struct wi_op *op)
{
    struct wi_coding *coding = &op->bind.coding;
    struct wi_residual *r = NULL;

    if (!coding->image_bytes)
        return WEFT_SUCCESS;
    WI_TRY(check_losses(op->bind.sched, coding->codec));
    if (req->codec.feedback)
        WI_TRY(residual_find(req->comm, req->options.tensor, residual_elems(req->comm, &req->now), &r));
    if (!op->bind.sched->lossy) {
        coding->image_bytes = 0;
        return r ? add_all(op, &req->now, r) : WEFT_SUCCESS;
    }
    if (!r)
        return WEFT_SUCCESS;
    for (int i = 0; i < WI_SCHED_RESIDUALS; i++)
        coding->residual[i] = r->of[i];
    r->busy = 1;
    req->residual = r;
    return WEFT_SUCCESS;
}

void wi_compress_end(struct weft_request *req)
{
    if (req->residual)
        req->residual->busy = 0;
    req->residual = NULL;
}

/* ---- Of the program ---- */

static weft_status residuals_of(weft_comm *comm)
{
    WI_TRY(wi_comm_check(comm));
    return wi_comm_enter(comm);
}

weft_status weft_comm_residual_bytes(weft_comm *comm, size_t *bytes)
{
    size_t sum = 0;

    if (!bytes)
        return wi_fail(WEFT_EINVAL, "comm_residual_bytes: bytes is NULL");
    WI_TRY(residuals_of(comm));
    for (size_t b = 0; comm->residuals && b < BUCKETS; b++)
        for (const struct wi_residual *r = comm->residuals[b]; r; r = r->next)
            sum += WI_SCHED_RESIDUALS * r->elems * sizeof(float);
    wi_comm_leave(comm);
    *bytes = sum;
    return WEFT_SUCCESS;
}

static int is_meant(const struct wi_residual *r, uint64_t tensor)
{
    return !tensor || r->tensor == tensor;
}

/* The tensor that is busy; NULL: none of those that are meant. */
static const struct wi_residual *find_busy(const struct weft_comm *comm, uint64_t tensor, size_t *count)
{
    const struct wi_residual *busy = NULL;

    *count = 0;
    for (size_t b = 0; comm->residuals && b < BUCKETS; b++)
        for (const struct wi_residual *r = comm->residuals[b]; r; r = r->next)
            if (is_meant(r, tensor)) {
                ++*count;
                busy = r->busy ? r : busy;
            }
    return busy;
}

static weft_status clear(struct weft_comm *comm, uint64_t tensor)
{
    size_t count;
    const struct wi_residual *busy = find_busy(comm, tensor, &count);

    if (busy)
        return wi_fail(WEFT_EBUSY, "comm_residual_clear: an operation uses the residual of tensor %llu",
                       (unsigned long long)busy->tensor);
    if (tensor && !count)
        return wi_fail(WEFT_ENOTFOUND, "comm_residual_clear: tensor %llu has no residual", (unsigned long long)tensor);
    for (size_t b = 0; comm->residuals && b < BUCKETS; b++)
        for (struct wi_residual **at = &comm->residuals[b], *r; (r = *at) != NULL;) {
            if (!is_meant(r, tensor)) {
                at = &r->next;
                continue;
            }
            *at = r->next;
            residual_free(r);
        }
    return WEFT_SUCCESS;
}

weft_status weft_comm_residual_clear(weft_comm *comm, uint64_t tensor)
{
    weft_status st = residuals_of(comm);

    if (st < 0)
        return st;
    st = clear(comm, tensor);
    wi_comm_leave(comm);
    return st;
}
