/* SPDX-License-Identifier: BSD-3-Clause */
/* From the arguments of a call to an operation that the executor can run. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "comm/batch.h"
#include "comm/comm.h"
#include "comm/linear.h"

#define OP_USER 255
#define OP_PREMUL 253
#define INFO_REDUCES 1u
#define ADDS_MARK 0x9d6b21c5u /* of weft_op_info.hash */

static int is_v_form(enum wi_coll c)
{
    return wi_algo_family(c) != c;
}

/* ---- What is called ---- */

static uint32_t hash_counts(const size_t *counts, int n)
{
    uint64_t h = 0x9e3779b97f4a7c15ull;

    for (int i = 0; i < n; i++)
        h = (h ^ counts[i]) * 0xff51afd7ed558ccdull;
    return (uint32_t)(h >> 32) | 1;
}

void wi_call_info(const struct weft_comm *comm, const struct wi_call *c, struct weft_op_info *info)
{
    struct wi_user_op user;

    *info = (struct weft_op_info){.kind = c->coll, .dtype = (uint8_t)c->dtype, .root = UINT32_MAX, .count = c->count};
    if (wi_coll_is_reduction(c->coll)) {
        info->flags = INFO_REDUCES;
        info->op = (uint8_t)c->op;
        if (c->op >= WEFT_NUM_OPS)
            info->op = wi_user_op_find(c->op, &user) && user.premul ? OP_PREMUL : OP_USER;
    }
    switch (c->coll) {
    case WI_COLL_REDUCE:
    case WI_COLL_BROADCAST:
    case WI_COLL_GATHER:
    case WI_COLL_SCATTER:
    case WI_COLL_SEND:
    case WI_COLL_RECV:
        info->root = (uint32_t)c->root;
        break;
    case WI_COLL_GATHER_V:
    case WI_COLL_SCATTER_V:
        info->root = (uint32_t)c->root;
        info->count = 0; /* every rank has its own */
        break;
    case WI_COLL_ALL_TO_ALL_V:
        info->count = 0;
        break;
    case WI_COLL_ALL_GATHER_V:
        info->count = wi_v_span(c->recv_counts, NULL, comm->nranks);
        info->hash = hash_counts(c->recv_counts, comm->nranks);
        break;
    case WI_COLL_REDUCE_SCATTER_V:
        info->count = wi_v_span(c->send_counts, NULL, comm->nranks);
        info->hash = hash_counts(c->send_counts, comm->nranks);
        break;
    default:
        break;
    }
}

weft_status wi_call_redop(const struct weft_comm *comm, const struct wi_call *c, struct wi_redop *r)
{
    struct wi_user_op user;

    *r = (struct wi_redop){.dtype = (uint8_t)c->dtype,
                           .op = WEFT_SUM,
                           .commutative = 1,
                           .divisor = (uint32_t)comm->nranks,
                           .elem_bytes = (uint32_t)weft_dtype_bytes(c->dtype)};
    if (!wi_coll_is_reduction(c->coll))
        return WEFT_SUCCESS;
    if (c->op < WEFT_NUM_OPS) {
        r->op = (uint8_t)c->op;
        return WEFT_SUCCESS;
    }
    if (!wi_user_op_find(c->op, &user))
        return wi_fail(WEFT_EINVAL, "operator %u was destroyed", c->op);
    if (user.premul)
        return WEFT_SUCCESS;
    r->user = 1;
    r->fn = user.fn;
    r->arg = user.arg;
    r->commutative = user.commutative != 0;
    return WEFT_SUCCESS;
}

/* ---- Schedules ---- */

static struct wi_cached_sched *find_cached(struct weft_comm *comm, const struct wi_algo *algo,
                                           const struct wi_hier_spec *spec, int root, int in_place, size_t least,
                                           struct wi_cached_sched **victim)
{
    uint32_t at = (uint32_t)(((uintptr_t)algo >> 4) * 31 + (uint32_t)root * 7 + (uint32_t)in_place) % WI_SCHED_CACHE;

    *victim = &comm->cache[at];
    for (uint32_t i = 0; i < 4; i++) {
        struct wi_cached_sched *s = &comm->cache[(at + i) % WI_SCHED_CACHE];
        if (s->sched && s->algo == algo && s->root == root && s->in_place == in_place &&
            (s->least == least || !s->sched->lossy) && (!spec || wi_hier_same(&s->spec, spec)))
            return s;
        if (!s->sched && (*victim)->sched)
            *victim = s;
    }
    return NULL;
}

void wi_cached_free(struct wi_cached_sched *cached)
{
    wi_sched_put(cached->sched);
    for (int i = 0; i < WI_CACHED_PROGRAMS; i++)
        wi_prog_put(cached->programs[i]);
    *cached = (struct wi_cached_sched){0};
}

static weft_status cached_schedule(struct weft_comm *comm, const struct wi_algo *algo, const struct wi_hier_spec *spec,
                                   int root, int in_place, size_t least, struct wi_cached_sched **cached)
{
    struct wi_algo_args args = {comm->rank, comm->nranks, root, in_place, 0, &comm->levels, spec};
    struct wi_cached_sched *victim;
    struct wi_sched *made;

    *cached = find_cached(comm, algo, spec, root, in_place, least, &victim);
    if (*cached)
        return WEFT_SUCCESS;
    WI_TRY(algo->build(&args, &made));
    if (made->staged)
        WI_TRY(wi_fit_stages(comm, &made, least));
    if (victim->sched) { /* these borrow from the cache */
        wi_fast_forget(comm, victim->sched);
        wi_exec_keep_name(comm->exec, victim->sched);
    }
    wi_cached_free(victim);
    *victim = (struct wi_cached_sched){.algo = algo, .root = root, .in_place = in_place, .least = least, .sched = made};
    if (spec)
        victim->spec = *spec;
    *cached = victim;
    return WEFT_SUCCESS;
}

weft_status wi_cached_schedule(struct weft_comm *comm, const struct wi_algo *algo, const struct wi_hier_spec *spec,
                               int root, int in_place, struct wi_sched **sched)
{
    struct wi_cached_sched *cached;

    *sched = wi_plans_schedule(comm->ctx->plans, algo, comm->rank);
    if (*sched)
        return WEFT_SUCCESS;
    WI_TRY(cached_schedule(comm, algo, spec, root, in_place, 0, &cached));
    *sched = cached->sched;
    return WEFT_SUCCESS;
}

weft_status wi_op_bind(struct weft_comm *comm, struct wi_op *op, const struct wi_algo *algo,
                       const struct wi_hier_spec *spec, int root, int in_place, struct wi_prog ***programs)
{
    struct wi_sched *file = wi_plans_schedule(comm->ctx->plans, algo, comm->rank);
    const struct wi_coding *coding = &op->bind.coding;
    struct wi_cached_sched *cached;

    *programs = NULL;
    if (file) {
        op->bind.sched = wi_sched_get(file);
        return WEFT_SUCCESS;
    }
    WI_TRY(
        cached_schedule(comm, algo, spec, root, in_place, coding->image_bytes ? wi_coding_block(coding) : 0, &cached));
    op->bind.sched = wi_sched_get(cached->sched);
    *programs = cached->programs;
    return WEFT_SUCCESS;
}

/* ---- Lengths ---- */

static size_t largest(const size_t *counts, int n)
{
    size_t most = 0;

    for (int i = 0; i < n; i++)
        most = counts[i] > most ? counts[i] : most;
    return most;
}

/* Bytes of the vector or of the largest share that this rank knows of. */
static size_t known_share(const struct weft_comm *comm, const struct wi_call *c, size_t es)
{
    size_t n = c->count, a, b;

    switch (c->coll) {
    case WI_COLL_ALL_GATHER_V:
        n = largest(c->recv_counts, comm->nranks);
        break;
    case WI_COLL_REDUCE_SCATTER_V:
        n = largest(c->send_counts, comm->nranks);
        break;
    case WI_COLL_ALL_TO_ALL_V:
        a = largest(c->send_counts, comm->nranks);
        b = largest(c->recv_counts, comm->nranks);
        n = a > b ? a : b;
        break;
    case WI_COLL_GATHER_V:
        if (comm->rank == c->root)
            n = largest(c->recv_counts, comm->nranks);
        break;
    case WI_COLL_SCATTER_V:
        n = comm->rank == c->root ? largest(c->send_counts, comm->nranks) : c->recv_count;
        break;
    case WI_COLL_BARRIER:
        n = 0;
        break;
    default:
        break;
    }
    return n * es;
}

/* ---- Preparing ---- */

struct wi_plan_query wi_op_query(const struct weft_comm *comm, const struct wi_call *c, const struct wi_op *op,
                                 size_t bytes)
{
    return (struct wi_plan_query){
        .coll = c->coll,
        .bytes = bytes,
        .v_form = is_v_form(c->coll),
        .ordered = !op->bind.redop.commutative,
        .rounds = wi_coll_is_reduction(c->coll) && (op->bind.redop.user || wi_dtype_rounds(c->dtype)),
        .root = c->root,
        .adds = op->bind.adds,
        .work = wi_coll_is_reduction(c->coll)
                    ? wi_plan_work(op->bind.redop.dtype, op->bind.redop.user ? WI_RATE_USER : op->bind.redop.op)
                    : 0,
        .own_in_place = wi_call_in_place(comm, c),
        .is_root = c->root == comm->rank,
    };
}

/* Pre-multiplied sums work on a scaled copy; all_to_all in place on a copy. */
static weft_status copy_source(struct weft_comm *comm, const struct weft_request *req, struct wi_op *op,
                               struct wi_call *c)
{
    size_t es = weft_dtype_bytes(c->dtype), src, dst;
    struct wi_user_op user;
    int premul = wi_coll_is_reduction(c->coll) && c->op >= WEFT_NUM_OPS && wi_user_op_find(c->op, &user) && user.premul;
    void *copy;

    if (!premul && !wi_call_copies_source(c) && !wi_compress_copies_source(comm, req, c))
        return WEFT_SUCCESS;
    wi_call_spans(comm, c, &src, &dst);
    if (!src)
        return WEFT_SUCCESS;
    copy = wi_aligned_alloc(64, src * es);
    if (!copy)
        return wi_fail(WEFT_ENOMEM, "%s: a copy of %zu bytes", wi_coll_name(c->coll), src * es);
    if (premul)
        wi_scale(c->dtype, user.scalar, copy, c->src, src);
    else
        memcpy(copy, c->src, src * es);
    op->owned[WI_OWNED_SOURCE] = copy;
    op->bind.base[WI_SRC] = copy;
    c->src = copy;
    return WEFT_SUCCESS;
}

/* A message needs no schedule: it is one transfer. */
static void point_to_point(const struct weft_comm *comm, struct wi_op *op, const struct wi_call *c, int internal)
{
    op->match.point_to_point = 1;
    op->match.sending = c->coll == WI_COLL_SEND;
    op->match.internal = internal != 0;
    op->match.peer = op->match.got_source = c->root;
    op->match.tag = c->tag;
    op->match.by_tag = c->root != comm->rank && (c->tag != 0 || c->root == WEFT_ANY_SOURCE);
    op->bind.total_bytes = op->bind.block_bytes = c->count * weft_dtype_bytes(c->dtype);
}

static weft_status begin_op(struct weft_comm *comm, const struct weft_request *req, struct wi_op *op,
                            const struct wi_call *c)
{
    op->bind.base[WI_SRC] = (unsigned char *)(uintptr_t)c->src;
    op->bind.base[WI_DST] = c->dst;
    op->timeout_ns = req->options.timeout_ns;
    wi_call_info(comm, c, &op->info);
    op->bind.named = wi_call_named(&req->options);
    op->bind.label = req->label_hash;
    op->bind.adds = req->options.accumulate != 0;
    if (req->label_hash)
        wi_label_keep(comm->exec, req->label_hash, req->label);
    if (c->coll != WI_COLL_SEND && c->coll != WI_COLL_RECV) /* messages have tags */
        op->info.hash ^= op->bind.named ^ op->bind.label ^ (op->bind.adds ? ADDS_MARK : 0);
    return wi_call_redop(comm, c, &op->bind.redop);
}

/* ---- all_to_all_v by level: short parts in packed messages, long parts directly to their destination ---- */

/* Ranks know only their own counts, so the algorithm is chosen as if every part had WI_PLAN_PACKED_PART_BYTES: the same choice on
 * all ranks. 1: by level; 0: not. */
static int plan_packed(struct weft_comm *comm, const struct weft_request *req, struct wi_plan_query q,
                       struct wi_plan *plan)
{
    const char *forced = req->options.algorithm;
    weft_status st;

    q.bytes = WI_PLAN_PACKED_PART_BYTES;
    q.packed = 1;
    st = wi_plan(comm->planner, &q, forced, plan);
    if (st >= 0)
        return plan->spec.nlevels != 0;
    if (st == WEFT_ENOMEM || (forced && wi_algo_is_spec(forced)))
        return st;
    wi_fail_clear(); /* what is asked for is not by level: the next plan reports the error */
    return 0;
}

/* Two operations: one for short parts, in packed messages, and one for long parts. Every rank issues the second one, even if it
 * has no long part and sends nothing, for it does not know whether others have one. */
static weft_status prepare_packed(struct weft_comm *comm, struct weft_request *req, const struct wi_plan *plan)
{
    struct wi_op *op = &req->op[0], *long_parts = &req->op[1];
    struct wi_call *c = &req->now, again = req->call;
    size_t share = known_share(comm, c, weft_dtype_bytes(c->dtype));
    struct wi_prog **programs;
    struct wi_plan_query q;
    struct wi_plan flat;

    WI_TRY(wi_op_bind(comm, op, plan->algo, &plan->spec, 0, 0, &programs));
    WI_TRY(wi_op_lay_out_packed(comm, op, c, programs));
    memset(long_parts, 0, sizeof *long_parts);
    req->nops = 2;
    WI_TRY(begin_op(comm, req, long_parts, &again));
    WI_TRY(copy_source(comm, req, long_parts, &again)); /* either operation may end first, and frees its copy */
    q = wi_op_query(comm, &again, long_parts, share);
    q.copy_path = WI_COPY_PATH_MESSAGES;
    WI_TRY(wi_plan(comm->planner, &q, NULL, &flat));
    WI_TRY(wi_op_bind(comm, long_parts, flat.algo, &flat.spec, 0, 0, &programs));
    long_parts->bind.parts_from = WI_PACK_BELOW;
    return wi_op_lay_out(comm, long_parts, &again, share, flat.slice_bytes, programs);
}

static weft_status prepare_planned(struct weft_comm *comm, struct weft_request *req, struct wi_op *op,
                                   struct wi_call *c)
{
    size_t share = known_share(comm, c, weft_dtype_bytes(c->dtype));
    struct wi_plan plan;

    if (c->coll == WI_COLL_ALL_TO_ALL_V && !op->bind.coding.image_bytes) {
        int packed = plan_packed(comm, req, wi_op_query(comm, c, op, share), &plan);
        if (packed > 0 && req->given.ops)
            return wi_fail(WEFT_ENOTSUP, "all_to_all_v by level is two operations, which cannot wait at a gate");
        if (packed)
            return packed < 0 ? packed : prepare_packed(comm, req, &plan);
    }
    wi_phases_begin(req, share);
    return wi_phases_run(req, op);
}

static weft_status prepare_collective(struct weft_comm *comm, struct weft_request *req, struct wi_op *op,
                                      struct wi_call *c)
{
    const struct wi_codec_use *codec = op->bind.coding.image_bytes ? &req->codec : NULL;
    int may_keep = !req->batch && !req->options.algorithm && !req->given.ops && !op->bind.adds,
        kept = may_keep ? wi_fast_recall(comm, c, codec, op) : 0;

    if (kept < 0)
        return (weft_status)kept;
    if (kept) {
        WI_TRY(wi_compress_settle(req, op));
        return wi_compress_place(req, op);
    }
    WI_TRY(prepare_planned(comm, req, op, c));
    if (may_keep && req->nops == 1)
        wi_fast_learn(comm, c, codec, op);
    return WEFT_SUCCESS;
}

static weft_status prepare_one(struct weft_comm *comm, struct weft_request *req, struct wi_op *op, struct wi_call *c)
{
    int linear;

    WI_TRY(begin_op(comm, req, op, c));
    if (c->coll == WI_COLL_SEND || c->coll == WI_COLL_RECV) {
        point_to_point(comm, op, c, req->internal);
        return WEFT_SUCCESS;
    }
    if (req->batch)
        op->info.hash ^= (uint32_t)req->batch->hash;
    if (req->prelude_of) {
        op->prelude_of = req->prelude_of;
        op->info = req->prelude_of->info;
    }
    WI_TRY(wi_compress_begin(comm, req, op, c));
    WI_TRY(copy_source(comm, req, op, c));
    linear = wi_linear_begin(comm, req, op, c);
    if (linear < 0)
        return (weft_status)linear;
    return prepare_collective(comm, req, op, c);
}

static weft_status prepare_both_ways(struct weft_comm *comm, struct weft_request *req)
{
    struct wi_call send = req->now, recv = send;

    memset(&req->op[1], 0, sizeof req->op[1]);
    req->nops = 2;
    send.coll = WI_COLL_SEND;
    recv.coll = WI_COLL_RECV;
    recv.root = send.recv_peer;
    recv.tag = send.recv_tag;
    recv.count = send.recv_count;
    recv.src = send.dst = NULL;
    WI_TRY(prepare_one(comm, req, &req->op[0], &send));
    return prepare_one(comm, req, &req->op[1], &recv);
}

/* ---- Batches ---- */

/* What is too short to be coded, beside the rest. It goes by messages: only the first operation exchanges buffers. */
static weft_status prepare_beside(struct weft_comm *comm, struct weft_request *req)
{
    struct wi_op *op = &req->op[1];
    struct wi_call c = req->call;
    struct wi_prog **programs;
    struct wi_plan_query q;
    struct wi_plan flat;

    memset(op, 0, sizeof *op);
    req->nops = 2;
    c.src = c.dst = req->batch->vector[1];
    c.count = req->batch->elems[1];
    WI_TRY(begin_op(comm, req, op, &c));
    op->info.hash ^= (uint32_t)req->batch->hash;
    WI_TRY(copy_source(comm, req, op, &c));
    q = wi_op_query(comm, &c, op, known_share(comm, &c, weft_dtype_bytes(c.dtype)));
    q.copy_path = WI_COPY_PATH_MESSAGES;
    WI_TRY(wi_plan(comm->planner, &q, NULL, &flat));
    WI_TRY(wi_op_bind(comm, op, flat.algo, &flat.spec, 0, 1, &programs));
    return wi_op_lay_out(comm, op, &c, q.bytes, flat.slice_bytes, programs);
}

static weft_status prepare_batch(struct weft_comm *comm, struct weft_request *req)
{
    /* First: a linear codec's agreement is issued when the other one is prepared, and may not be in vain. */
    if (req->batch->elems[1])
        WI_TRY(prepare_beside(comm, req));
    return prepare_one(comm, req, &req->op[0], &req->now);
}

weft_status wi_op_prepare(struct weft_comm *comm, struct weft_request *req)
{
    if (req->linear)
        wi_linear_free(req); /* of the last time */
    req->now = req->call;
    memset(&req->op[0], 0, sizeof req->op[0]);
    req->nops = 1;
    if (req->now.coll == WI_COLL_SEND_RECV)
        return prepare_both_ways(comm, req);
    if (req->batch)
        return prepare_batch(comm, req);
    return prepare_one(comm, req, &req->op[0], &req->now);
}
