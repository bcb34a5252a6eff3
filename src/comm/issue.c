/* SPDX-License-Identifier: BSD-3-Clause */
/* From the arguments of a call to an operation that the executor can run. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/status.h"
#include "comm/comm.h"

#define OP_USER 255
#define OP_PREMUL 253
#define INFO_REDUCES 1u
#define BLOCK_ALIGN_MIN 4096 /* vectors whose blocks are at least this long are cut at cache lines */

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
    if (wi_coll_reduces(c->coll)) {
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

static uint32_t hash_name(const char *name)
{
    return (uint32_t)wi_hash64(name, strlen(name), 0) | 1;
}

const char *wi_call_algorithm(int kind, uint32_t named)
{
    for (const struct wi_algo *const *a = wi_algos; *a; a++)
        if ((*a)->coll == wi_algo_family((enum wi_coll)kind) && hash_name((*a)->name) == named)
            return (*a)->name;
    return NULL;
}

weft_status wi_call_redop(const struct weft_comm *comm, const struct wi_call *c, struct wi_redop *r)
{
    struct wi_user_op user;

    *r = (struct wi_redop){.dtype = (uint8_t)c->dtype,
                           .op = WEFT_SUM,
                           .commutative = 1,
                           .divisor = (uint32_t)comm->nranks,
                           .elem_bytes = (uint32_t)weft_dtype_bytes(c->dtype)};
    if (!wi_coll_reduces(c->coll))
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

static int same_spec(const struct wi_sched *sched, const char *spec)
{
    return !spec[0] || strcmp(sched->algo, spec) == 0;
}

weft_status wi_cached_schedule(struct weft_comm *comm, const struct wi_algo *algo, const char *spec, int root,
                               int in_place, struct wi_sched **sched)
{
    uint32_t at = (uint32_t)(((uintptr_t)algo >> 4) * 31 + (uint32_t)root * 7 + (uint32_t)in_place) % WI_SCHED_CACHE;
    struct wi_algo_args args = {comm->rank, comm->nranks, root, in_place, 0, &comm->levels, spec};
    struct wi_cached_sched *slot = NULL, *victim = &comm->cache[at];

    *sched = wi_plans_schedule(comm->ctx->plans, algo, comm->rank);
    if (*sched)
        return WEFT_SUCCESS;
    for (uint32_t i = 0; i < 4; i++) {
        struct wi_cached_sched *s = &comm->cache[(at + i) % WI_SCHED_CACHE];
        if (s->sched && s->algo == algo && s->root == root && s->in_place == in_place && same_spec(s->sched, spec))
            slot = s;
        else if (!s->sched && victim->sched)
            victim = s;
    }
    if (!slot) {
        struct wi_sched *made;
        WI_TRY(algo->build(&args, &made));
        if (victim->sched) { /* these borrow from the cache */
            wi_fast_forget(comm, victim->sched);
            wi_exec_keep_name(comm->exec, victim->sched);
        }
        wi_sched_put(victim->sched);
        *victim = (struct wi_cached_sched){algo, root, in_place, made};
        slot = victim;
    }
    *sched = slot->sched;
    return WEFT_SUCCESS;
}

/* ---- Geometry ---- */

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

static void cut_vector(struct wi_op *op, size_t count, size_t es)
{
    size_t nblocks = op->sched->nblocks, block = (count + nblocks - 1) / nblocks;

    if (block * es >= BLOCK_ALIGN_MIN)
        block = round_up(block, 64 / (es < 64 ? es : 64));
    op->block_bytes = block * es;
    op->total_bytes = count * es;
}

/* Byte counts and offsets of a v-form's blocks, owned by the operation. */
static weft_status map_blocks(struct wi_op *op, int buf, const size_t *counts, const size_t *displs, int n, size_t es)
{
    size_t *map = wi_malloc(2 * (size_t)n * sizeof *map), at = 0;

    if (!map)
        return wi_fail(WEFT_ENOMEM, "block map of %d ranks", n);
    for (int i = 0; i < n; i++) {
        map[i] = counts[i] * es;
        map[n + i] = (displs ? displs[i] : at) * es;
        at += counts[i];
    }
    op->owned[1 + buf] = map;
    op->v_bytes[buf] = map;
    op->v_offset[buf] = map + n;
    return WEFT_SUCCESS;
}

static weft_status map_one(struct wi_op *op, int buf, size_t bytes)
{
    size_t one = bytes, zero = 0;

    return map_blocks(op, buf, &one, &zero, 1, 1);
}

static weft_status map_v_form(struct weft_comm *comm, struct wi_op *op, const struct wi_call *c, size_t es)
{
    int n = comm->nranks, root = comm->rank == c->root;

    switch (c->coll) {
    case WI_COLL_ALL_GATHER_V:
        WI_TRY(map_one(op, WI_SRC, c->recv_counts[comm->rank] * es));
        return map_blocks(op, WI_DST, c->recv_counts, c->recv_displs, n, es);
    case WI_COLL_REDUCE_SCATTER_V:
        WI_TRY(map_one(op, WI_DST, c->send_counts[comm->rank] * es));
        return map_blocks(op, WI_SRC, c->send_counts, NULL, n, es);
    case WI_COLL_ALL_TO_ALL_V:
        WI_TRY(map_blocks(op, WI_SRC, c->send_counts, c->send_displs, n, es));
        return map_blocks(op, WI_DST, c->recv_counts, c->recv_displs, n, es);
    case WI_COLL_GATHER_V:
        WI_TRY(map_one(op, WI_SRC, c->count * es));
        return root ? map_blocks(op, WI_DST, c->recv_counts, c->recv_displs, n, es) : WEFT_SUCCESS;
    case WI_COLL_SCATTER_V:
        WI_TRY(map_one(op, WI_DST, c->recv_count * es));
        return root ? map_blocks(op, WI_SRC, c->send_counts, c->send_displs, n, es) : WEFT_SUCCESS;
    default:
        return WEFT_SUCCESS;
    }
}

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

/* Slices of a mapped schedule must fit its scratch into a slot; all ranks cut alike. Blocks that fit as they are may be shorter
 * than a line; slices are whole lines. The built-in algorithms have at most WEFT_SLOT_MIN_BYTES of scratch in lines, files may hold
 * others. */
static weft_status slice_mapped(struct weft_comm *comm, struct wi_op *op, size_t want)
{
    size_t tmp = op->sched->buf_blocks[WI_TMP], room = tmp ? comm->exec->map.slot_bytes / tmp : SIZE_MAX;
    size_t slice = op->block_bytes;

    if (tmp && !op->ll && (slice > want || slice > room)) {
        slice = room & ~(size_t)(WEFT_LINE_BYTES - 1);
        slice = slice < want ? slice : want;
        if (!slice)
            return wi_fail(
                WEFT_ENOTSUP,
                "algorithm %s needs %zu bytes of scratch, a line for each of its blocks, and slots have %zu: "
                "make them larger (WEFT_SHM_SLOT_BYTES)",
                op->sched->algo, tmp * WEFT_LINE_BYTES, comm->exec->map.slot_bytes);
    }
    op->slice_bytes = slice ? slice : 1;
    op->nslices = slice ? (uint32_t)((op->block_bytes + slice - 1) / slice) : 1;
    op->tmp_stride = op->nslices > 1 ? slice : op->block_bytes;
    return WEFT_SUCCESS;
}

static weft_status slice_two_sided(struct wi_op *op, size_t want)
{
    size_t tmp = op->sched->buf_blocks[WI_TMP];

    op->slice_bytes = op->block_bytes <= want || op->match.point_to_point ? op->block_bytes : want;
    op->nslices = op->slice_bytes ? (uint32_t)((op->block_bytes + op->slice_bytes - 1) / op->slice_bytes) : 1;
    op->tmp_stride = op->block_bytes;
    op->owned[0] = NULL;
    if (!tmp || !op->block_bytes)
        return WEFT_SUCCESS;
    op->owned[0] = op->base[WI_TMP] = wi_aligned_alloc(64, tmp * op->block_bytes);
    return op->base[WI_TMP] ? WEFT_SUCCESS : wi_fail(WEFT_ENOMEM, "%zu bytes of scratch", tmp * op->block_bytes);
}

/* Depends on the arguments only: all ranks take ll lines or none does, whatever form of the call each one uses. */
static int ll_fits(const struct weft_comm *comm, const struct wi_sched *sched, const struct wi_call *c,
                   size_t block_bytes)
{
    return sched->ll && !is_v_form(c->coll) && comm->nranks <= WI_REDUCE_MAX_SRC &&
           sched->buf_blocks[WI_TMP] * block_bytes <= comm->exec->ll_bytes;
}

weft_status wi_op_lay_out(struct weft_comm *comm, struct wi_op *op, const struct wi_call *c, size_t share,
                          size_t slice_bytes)
{
    size_t es = weft_dtype_bytes(c->dtype);

    slice_bytes = slice_bytes < 64 ? 64 : slice_bytes & ~(size_t)63; /* whole elements */
    op->mapped = op->sched->mapped;
    op->ll = 0;
    op->send_empty = c->coll == WI_COLL_BARRIER || op->match.point_to_point;
    if (c->coll == WI_COLL_BARRIER)
        op->block_bytes = op->total_bytes = 0;
    else if (wi_coll_is_vector(c->coll))
        cut_vector(op, c->count, es);
    else {
        size_t cut = op->sched->nblocks;
        if (cut > 1 && share % (cut * es))
            return wi_fail(WEFT_ENOTSUP,
                           "algorithm %s cuts every rank's share into %zu parts, and %zu elements are no multiple",
                           op->sched->algo, cut, share / es);
        op->block_bytes = share / cut, op->total_bytes = op->match.point_to_point ? share : 0;
    }
    /* A reduction over slots reads what it has just written: there the caches paid at every size measured. */
    op->nt = op->block_bytes * op->sched->buf_blocks[WI_DST] >= comm->nt_bytes &&
             (!op->sched->buf_blocks[WI_TMP] || !wi_coll_reduces(c->coll));
    WI_TRY(map_v_form(comm, op, c, es));
    if (c->coll == WI_COLL_REDUCE_SCATTER_V && op->sched->tmp_like_src)
        op->tmp_bytes = op->v_bytes[WI_SRC];
    if (!op->mapped)
        return slice_two_sided(op, slice_bytes);
    op->ll = ll_fits(comm, op->sched, c, op->block_bytes) != 0; /* these are never cut */
    return slice_mapped(comm, op, slice_bytes);
}

/* ---- Preparing ---- */

struct wi_plan_query wi_op_query(const struct weft_comm *comm, const struct wi_call *c, const struct wi_op *op,
                                 size_t bytes)
{
    return (struct wi_plan_query){
        .coll = c->coll,
        .bytes = bytes,
        .v_form = is_v_form(c->coll),
        .ordered = !op->redop.commutative,
        .rounds = wi_coll_reduces(c->coll) && (op->redop.user || wi_dtype_rounds(c->dtype)),
        .root = c->root,
        .work =
            wi_coll_reduces(c->coll) ? wi_plan_work(op->redop.dtype, op->redop.user ? WI_RATE_USER : op->redop.op) : 0,
        .own_in_place = wi_call_in_place(comm, c),
        .is_root = c->root == comm->rank,
    };
}

/* Pre-multiplied sums work on a scaled copy; all_to_all in place on a copy. */
static weft_status copy_source(struct weft_comm *comm, struct wi_op *op, struct wi_call *c)
{
    size_t es = weft_dtype_bytes(c->dtype), src, dst;
    struct wi_user_op user;
    int premul = wi_coll_reduces(c->coll) && c->op >= WEFT_NUM_OPS && wi_user_op_find(c->op, &user) && user.premul;
    void *copy;

    if (!premul && !(c->coll == WI_COLL_ALL_TO_ALL && c->src == c->dst) &&
        !(c->coll == WI_COLL_ALL_TO_ALL_V && c->src == c->dst))
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
    op->owned[4] = copy;
    op->base[WI_SRC] = copy;
    c->src = copy;
    return WEFT_SUCCESS;
}

/* One message; args->root is the peer. */
static weft_status build_message(const struct wi_algo_args *args, enum wi_coll coll, struct wi_sched **sched)
{
    struct wi_sched_spec spec = {.coll = coll, .algo = "p2p", .rank = args->rank, .nranks = args->nranks, .nblocks = 1};
    int sending = coll == WI_COLL_SEND;
    struct wi_sched_builder *b;

    WI_TRY(wi_sched_begin(&spec, &b));
    wi_sched_lane(b, sending ? args->root : WI_NO_PEER, sending ? WI_NO_PEER : args->root, 0);
    if (sending)
        wi_sched_send(b, 0, wi_at(WI_SRC, 0, 1));
    else
        wi_sched_recv(b, 0, wi_at(WI_DST, 0, 1));
    return wi_sched_seal(b, sched);
}

static weft_status build_send(const struct wi_algo_args *args, struct wi_sched **sched)
{
    return build_message(args, WI_COLL_SEND, sched);
}

static weft_status build_recv(const struct wi_algo_args *args, struct wi_sched **sched)
{
    return build_message(args, WI_COLL_RECV, sched);
}

static const struct wi_algo message_send = {.name = "p2p", .coll = WI_COLL_SEND, .build = build_send};
static const struct wi_algo message_recv = {.name = "p2p", .coll = WI_COLL_RECV, .build = build_recv};

static weft_status point_to_point(struct weft_comm *comm, struct wi_op *op, const struct wi_call *c, int internal)
{
    size_t bytes = c->count * weft_dtype_bytes(c->dtype);
    struct wi_sched *sched;

    op->match.point_to_point = 1;
    op->match.sending = c->coll == WI_COLL_SEND;
    op->match.internal = internal != 0;
    op->match.peer = op->match.got_source = c->root;
    op->match.tag = c->tag;
    op->total_bytes = op->block_bytes = bytes;
    if (c->root == comm->rank) /* the executor matches these itself */
        return WEFT_SUCCESS;
    op->match.by_tag = c->tag != 0 || c->root == WEFT_ANY_SOURCE;
    if (op->match.by_tag)
        return WEFT_SUCCESS;
    WI_TRY(wi_cached_schedule(comm, op->match.sending ? &message_send : &message_recv, "", c->root, 0, &sched));
    op->sched = wi_sched_get(sched);
    return wi_op_lay_out(comm, op, c, bytes, SIZE_MAX);
}

static weft_status begin_op(struct weft_comm *comm, const struct weft_request *req, struct wi_op *op,
                            const struct wi_call *c)
{
    op->base[WI_SRC] = (unsigned char *)(uintptr_t)c->src;
    op->base[WI_DST] = c->dst;
    op->timeout_ns = req->options.timeout_ns;
    wi_call_info(comm, c, &op->info);
    if (req->options.algorithm && c->coll != WI_COLL_SEND && c->coll != WI_COLL_RECV) {
        op->named = hash_name(req->options.algorithm);
        op->info.hash ^= op->named;
    }
    return wi_call_redop(comm, c, &op->redop);
}

/* ---- all_to_all_v by level: the short parts travel together, the long ones straight ---- */

/* Ranks know only their own counts, so the choice is made as if every part had WI_PLAN_PARCEL_BYTES: the same for all. 1: by level;
 * 0: not. */
static int plan_parcels(struct weft_comm *comm, const struct weft_request *req, struct wi_plan_query q,
                        struct wi_plan *plan)
{
    const char *forced = req->options.algorithm;
    weft_status st;

    q.bytes = WI_PLAN_PARCEL_BYTES;
    q.parcels = 1;
    st = wi_plan(comm->planner, &q, forced, plan);
    if (st >= 0)
        return plan->spec[0] != 0;
    if (st == WEFT_ENOMEM || (forced && wi_algo_is_spec(forced)))
        return st;
    wi_fail_clear(); /* what is asked for is not by level: whoever plans it next says what is wrong */
    return 0;
}

/* Bytes of the parts that an operation is for; of the others there are none. */
static void keep_long(struct wi_op *op, int n)
{
    for (int buf = WI_SRC; buf <= WI_DST; buf++) {
        size_t *bytes = op->owned[1 + buf];
        for (int i = 0; i < n; i++)
            bytes[i] = bytes[i] < WI_PARCEL_BELOW ? 0 : bytes[i];
    }
}

/* Of two operations: what is short, by parcels, and what is long. The second one sends nothing where nothing is long, but every
 * rank issues it, as nobody knows about the others. */
static weft_status prepare_parcels(struct weft_comm *comm, struct weft_request *req, const struct wi_plan *plan)
{
    struct wi_op *op = &req->op[0], *straight = &req->op[1];
    struct wi_call *c = &req->now, again = req->call;
    size_t es = weft_dtype_bytes(c->dtype), share = known_share(comm, c, es);
    struct wi_plan_query q;
    struct wi_sched *sched;
    struct wi_plan flat;

    WI_TRY(wi_cached_schedule(comm, plan->algo, plan->spec, 0, 0, &sched));
    op->sched = wi_sched_get(sched);
    op->nslices = 1;
    WI_TRY(map_v_form(comm, op, c, es));
    WI_TRY(wi_parcels_create(op, WI_PARCEL_BELOW));
    req->nops = 2;
    WI_TRY(begin_op(comm, req, straight, &again));
    WI_TRY(copy_source(comm, straight, &again)); /* either operation may end first, and frees its copy */
    q = wi_op_query(comm, &again, straight, share);
    q.way = WI_WAY_MESSAGES;
    WI_TRY(wi_plan(comm->planner, &q, NULL, &flat));
    WI_TRY(wi_cached_schedule(comm, flat.algo, flat.spec, 0, 0, &sched));
    straight->sched = wi_sched_get(sched);
    WI_TRY(wi_op_lay_out(comm, straight, &again, share, flat.slice_bytes));
    keep_long(straight, comm->nranks);
    return WEFT_SUCCESS;
}

static weft_status prepare_one(struct weft_comm *comm, struct weft_request *req, struct wi_op *op, struct wi_call *c)
{
    size_t es = weft_dtype_bytes(c->dtype), share;
    struct wi_plan_query q;
    struct wi_sched *sched;
    struct wi_plan plan;

    WI_TRY(begin_op(comm, req, op, c));
    if (c->coll == WI_COLL_SEND || c->coll == WI_COLL_RECV)
        return point_to_point(comm, op, c, req->internal);
    WI_TRY(copy_source(comm, op, c));
    share = known_share(comm, c, es);
    q = wi_op_query(comm, c, op, share);
    if (c->coll == WI_COLL_ALL_TO_ALL_V) {
        int parcels = plan_parcels(comm, req, q, &plan);
        if (parcels)
            return parcels < 0 ? parcels : prepare_parcels(comm, req, &plan);
    }
    if (wi_plan_needs_exchange(comm->planner, &q, req->options.algorithm)) {
        wi_exchange_begin(req, op, c, share);
        return WEFT_SUCCESS;
    }
    WI_TRY(wi_plan(comm->planner, &q, req->options.algorithm, &plan));
    WI_TRY(
        wi_cached_schedule(comm, plan.algo, plan.spec, c->root < 0 ? 0 : c->root, wi_call_in_place(comm, c), &sched));
    op->sched = wi_sched_get(sched);
    return wi_op_lay_out(comm, op, c, share, plan.slice_bytes);
}

weft_status wi_op_prepare(struct weft_comm *comm, struct weft_request *req)
{
    struct wi_call *c = &req->now, send, recv;
    weft_status st;

    *c = req->call;
    send = recv = *c;
    for (int i = 0; i < 2; i++)
        memset(&req->op[i], 0, sizeof req->op[i]);
    req->nops = 1;
    if (c->coll != WI_COLL_SEND_RECV)
        return prepare_one(comm, req, &req->op[0], c);
    req->nops = 2;
    send.coll = WI_COLL_SEND;
    recv.coll = WI_COLL_RECV;
    recv.root = c->recv_peer;
    recv.tag = c->recv_tag;
    recv.count = c->recv_count;
    recv.src = send.dst = NULL;
    st = prepare_one(comm, req, &req->op[0], &send);
    if (st >= 0)
        st = prepare_one(comm, req, &req->op[1], &recv);
    return st;
}
