/* Making a call in one of its forms, and checking what it left behind.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/conform/collect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/algo.h"
#include "tests/harness/calls.h"
#include "tests/harness/harness.h"

#define GUARD 64
#define FILLER 0xa5

#define CC_NAME(name, family) #name,
#define CC_FAMILY(name, family) family,
const char *const cc_kind_names[] = {CC_KINDS(CC_NAME)};
const char *const cc_families[] = {CC_KINDS(CC_FAMILY)};

/* ---- Geometry ---- */

size_t cc_share(const struct cc_call *c, int from, int to)
{
    uint64_t h = cc_hash(c->seed, (uint64_t)from + 77, (uint64_t)to + 99);

    return h % 4 == 0 ? 0 : (h >> 8) % (2 * c->count + 1);
}

void cc_lay_out(const struct cc_call *c, int nranks, int from, int to, struct cc_layout *l)
{
    size_t at = 0;

    for (int i = 0; i < nranks; i++) {
        uint64_t gap = c->packed ? 0 : cc_hash(c->seed, (uint64_t)(from + 1000), (uint64_t)(to + 2000 + i)) % 4;
        at += gap;
        l->counts[i] = cc_share(c, from < 0 ? (to < 0 ? 0 : i) : from, to < 0 ? i : to);
        l->displs[i] = at;
        at += l->counts[i];
    }
    l->span = at;
}

struct shape {
    struct cc_layout src, dst;   /* of v-forms */
    size_t src_elems, dst_elems; /* what the call reads and may write here */
    size_t src_at, dst_at;       /* element offsets within the one buffer of an in-place call */
    int joined;                  /* in place on this rank */
};

static void shape_v(const struct cc_world *w, const struct cc_call *c, struct shape *s)
{
    int rank = w->rank, n = w->nranks, root = rank == c->root;
    struct cc_call packed = *c;

    switch (c->kind) {
    case CC_all_gather_v:
        cc_lay_out(c, n, -1, -1, &s->dst);
        s->src_elems = s->dst.counts[rank];
        s->dst_elems = s->dst.span;
        break;
    case CC_reduce_scatter_v:
        packed.packed = 1;
        cc_lay_out(&packed, n, -1, -1, &s->src);
        s->src_elems = s->src.span;
        s->dst_elems = s->src.counts[rank];
        break;
    case CC_all_to_all_v:
        cc_lay_out(c, n, rank, -1, &s->src);
        cc_lay_out(c, n, -1, rank, &s->dst);
        s->src_elems = s->src.span;
        s->dst_elems = s->dst.span;
        break;
    case CC_gather_v:
        cc_lay_out(c, n, -1, -1, &s->dst);
        s->src_elems = s->dst.counts[rank];
        s->dst_elems = root ? s->dst.span : 0;
        break;
    default:
        cc_lay_out(c, n, -1, -1, &s->src);
        s->dst_elems = s->src.counts[rank];
        s->src_elems = root ? s->src.span : 0;
        break;
    }
}

static void shape_of(const struct cc_world *w, const struct cc_call *c, struct shape *s)
{
    size_t all = c->count * (size_t)w->nranks, own = c->count * (size_t)w->rank;
    int root = w->rank == c->root;

    memset(s, 0, sizeof *s);
    s->src_elems = s->dst_elems = c->count;
    s->joined = c->in_place && (!cc_rooted(c->kind) || root);
    switch (c->kind) {
    case CC_barrier:
        s->src_elems = s->dst_elems = 0;
        break;
    case CC_reduce:
        s->dst_elems = root ? c->count : 0;
        break;
    case CC_broadcast:
        s->src_elems = root ? c->count : 0;
        break;
    case CC_all_gather:
        s->dst_elems = all;
        s->src_at = own;
        break;
    case CC_reduce_scatter:
        s->src_elems = all;
        s->dst_at = own;
        break;
    case CC_all_to_all:
        s->src_elems = s->dst_elems = all;
        break;
    case CC_gather:
        s->dst_elems = root ? all : 0;
        s->src_at = own;
        break;
    case CC_scatter:
        s->src_elems = root ? all : 0;
        s->dst_at = own;
        break;
    case CC_all_reduce:
    case CC_scan:
    case CC_exscan:
        break;
    default:
        shape_v(w, c, s);
        if (c->kind == CC_all_gather_v || c->kind == CC_gather_v)
            s->src_at = s->dst.displs[w->rank];
        if (c->kind == CC_reduce_scatter_v || c->kind == CC_scatter_v)
            s->dst_at = s->src.displs[w->rank];
        break;
    }
}

/* ---- What must be received ---- */

/* Which rank's share holds position `at`; -1: a gap. */
static int holder(const struct cc_layout *l, int nranks, size_t at)
{
    for (int i = 0; i < nranks; i++)
        if (at >= l->displs[i] && at - l->displs[i] < l->counts[i])
            return i;
    return -1;
}

/* 0: the position must be left alone. */
static int expected(const struct cc_world *w, const struct cc_call *c, const struct shape *s, size_t at,
                    union cc_value *v)
{
    int rank = w->rank, n = w->nranks, from;
    struct cc_layout theirs;

    switch (c->kind) {
    case CC_all_reduce:
    case CC_reduce:
        *v = cc_reduced(c, n, n, at);
        return 1;
    case CC_reduce_scatter:
        *v = cc_reduced(c, n, n, (size_t)rank * c->count + at);
        return 1;
    case CC_reduce_scatter_v:
        *v = cc_reduced(c, n, n, s->src.displs[rank] + at);
        return 1;
    case CC_scan:
        *v = cc_reduced(c, rank + 1, n, at);
        return 1;
    case CC_exscan:
        if (rank > 0)
            *v = cc_reduced(c, rank, n, at);
        return rank > 0;
    case CC_broadcast:
        *v = cc_input(c, c->root, at);
        return 1;
    case CC_all_gather:
    case CC_gather:
        *v = cc_input(c, (int)(at / c->count), at % c->count);
        return 1;
    case CC_all_to_all:
        *v = cc_input(c, (int)(at / c->count), (size_t)rank * c->count + at % c->count);
        return 1;
    case CC_scatter:
        *v = cc_input(c, c->root, (size_t)rank * c->count + at);
        return 1;
    case CC_scatter_v:
        *v = cc_input(c, c->root, s->src.displs[rank] + at);
        return 1;
    default:
        break;
    }
    from = holder(&s->dst, n, at);
    if (from < 0)
        return 0;
    at -= s->dst.displs[from];
    if (c->kind == CC_all_to_all_v) {
        cc_lay_out(c, n, from, -1, &theirs);
        at += theirs.displs[rank];
    }
    *v = cc_input(c, from, at);
    return 1;
}

/* ---- Buffers ---- */

struct buffer {
    unsigned char *memory, *data; /* data: off alignment by `shift` */
    size_t bytes;
    enum cc_memory kind;
    weft_mem *registration;
};

static int buffer_make(struct cc_world *w, const struct cc_call *c, struct buffer *b, size_t elems)
{
    void *p = NULL;
    size_t whole;

    memset(b, 0, sizeof *b);
    b->bytes = elems * weft_dtype_bytes(c->dtype);
    b->kind = c->memory;
    whole = (b->bytes + 2 * GUARD + c->shift + 4095) & ~(size_t)4095;
    if (b->kind == CC_MEM_ALLOC && weft_mem_alloc(w->context, whole, &p) < 0)
        return -1;
    if (b->kind != CC_MEM_ALLOC)
        p = aligned_alloc(4096, whole);
    if (!p)
        return -1;
    memset(p, FILLER, whole);
    b->memory = p;
    b->data = b->memory + GUARD + c->shift;
    if (b->kind == CC_MEM_REGISTER && weft_mem_register(w->context, p, whole, &b->registration) < 0)
        return -1;
    return 0;
}

static int buffer_free(struct cc_world *w, struct buffer *b)
{
    weft_status st = b->registration ? weft_mem_deregister(b->registration) : WEFT_SUCCESS;

    if (b->kind != CC_MEM_ALLOC)
        free(b->memory);
    else if (weft_mem_free(w->context, b->memory) < 0)
        st = WEFT_EINVAL;
    return st < 0 ? -1 : 0;
}

static const char *guards(const struct buffer *b)
{
    for (int i = 1; i <= GUARD; i++)
        if (b->data[-i] != FILLER)
            return "wrote before a buffer";
    for (int i = 0; i < GUARD; i++)
        if (b->data[b->bytes + (size_t)i] != FILLER)
            return "wrote behind a buffer";
    return NULL;
}

/* ---- The call ---- */

struct args {
    weft_comm *comm;
    const void *src;
    void *dst;
    const size_t *sc, *sd, *rc, *rd; /* counts and displs of v-forms */
    size_t own;                      /* gather_v's and scatter_v's count here */
    weft_op op;
};

/* V(kind, the arguments but req) */
#define CC_CALLS(V)                                                                \
    V(all_reduce, a->comm, a->src, a->dst, c->count, c->dtype, a->op)              \
    V(reduce, a->comm, a->src, a->dst, c->count, c->dtype, a->op, c->root)         \
    V(broadcast, a->comm, a->src, a->dst, c->count, c->dtype, c->root)             \
    V(all_gather, a->comm, a->src, a->dst, c->count, c->dtype)                     \
    V(all_gather_v, a->comm, a->src, a->dst, a->rc, a->rd, c->dtype)               \
    V(reduce_scatter, a->comm, a->src, a->dst, c->count, c->dtype, a->op)          \
    V(reduce_scatter_v, a->comm, a->src, a->dst, a->sc, c->dtype, a->op)           \
    V(all_to_all, a->comm, a->src, a->dst, c->count, c->dtype)                     \
    V(all_to_all_v, a->comm, a->src, a->sc, a->sd, a->dst, a->rc, a->rd, c->dtype) \
    V(gather, a->comm, a->src, a->dst, c->count, c->dtype, c->root)                \
    V(gather_v, a->comm, a->src, a->own, a->dst, a->rc, a->rd, c->dtype, c->root)  \
    V(scatter, a->comm, a->src, a->dst, c->count, c->dtype, c->root)               \
    V(scatter_v, a->comm, a->src, a->sc, a->sd, a->dst, a->own, c->dtype, c->root) \
    V(scan, a->comm, a->src, a->dst, c->count, c->dtype, a->op)                    \
    V(exscan, a->comm, a->src, a->dst, c->count, c->dtype, a->op)                  \
    V(barrier, a->comm)

static weft_status issue_plain(const struct cc_call *c, const struct args *a, weft_request **req)
{
    switch (c->kind) {
#define CC_ISSUE(kind, ...) \
    case CC_##kind:         \
        return weft_##kind(__VA_ARGS__, req);
        CC_CALLS(CC_ISSUE)
    default:
        return WEFT_EINVAL;
    }
}

/* The same as data. What the operation does not have is set too: it must not matter. */
static weft_call described(const struct cc_call *c, const struct args *a)
{
    weft_call call = wt_call((weft_kind)1, a->src, a->dst, c->count, c->dtype);

    while (strcmp(weft_kind_name(call.kind), cc_kind_names[c->kind]) != 0)
        call.kind = (weft_kind)(call.kind + 1);
    if (c->kind == CC_gather_v)
        call.count = a->own;
    call.op = a->op;
    call.root = cc_rooted(c->kind) ? c->root : 0;
    call.recv_count = c->kind == CC_scatter_v ? a->own : 0;
    call.send_counts = a->sc;
    call.send_displs = c->kind == CC_reduce_scatter_v ? NULL : a->sd;
    call.recv_counts = a->rc;
    call.recv_displs = a->rd;
    return call;
}

/* An algorithm can only be named in a description; without one it is the seed's choice. */
static weft_status issue(const struct cc_call *c, const struct args *a, weft_request **req)
{
    if (c->algorithm || c->seed % 4 == 1)
        return wt_issue(a->comm, described(c, a), c->algorithm, req);
    return issue_plain(c, a, req);
}

/* By test or by wait, as the seed decides. */
static weft_status complete(const struct cc_call *c, weft_request *req)
{
    weft_status st;

    if (c->seed % 3 == 0)
        return weft_wait(req);
    do
        st = c->seed % 3 == 1 ? weft_test(req) : weft_wait_for(req, 1000000);
    while (st == WEFT_INPROGRESS);
    return st;
}

static weft_status grouped(const struct cc_call *c, const struct args *a)
{
    weft_request *req = NULL;
    weft_status st = weft_group_start(), end;
    int with_request = c->seed % 2 == 0;

    if (st >= 0)
        st = issue(c, a, with_request ? &req : NULL);
    end = weft_group_end();
    st = st < 0 ? st : end;
    if (st >= 0 && req)
        st = weft_wait(req);
    end = weft_request_free(req);
    return st < 0 ? st : end;
}

static weft_status once(const struct cc_call *c, const struct args *a, weft_request **persistent)
{
    weft_request *req = NULL;
    weft_status st, end;

    switch (c->form) {
    case CC_BLOCKING:
        return issue(c, a, NULL);
    case CC_GROUPED:
        return grouped(c, a);
    case CC_PERSISTENT:
        st = *persistent ? WEFT_SUCCESS : wt_persistent(a->comm, described(c, a), c->algorithm, persistent);
        st = st < 0 ? st : weft_start(*persistent);
        return st < 0 ? st : complete(c, *persistent);
    default:
        st = issue(c, a, &req);
        st = st < 0 ? st : complete(c, req);
        end = weft_request_free(req);
        return st < 0 ? st : end;
    }
}

/* ---- One run: fill, call, compare ---- */

struct run {
    struct cc_world *world;
    const struct cc_call *call;
    struct shape shape;
    struct buffer src, dst; /* the same memory in place */
    unsigned char *from, *to, *before;
    struct args args;
    weft_request *persistent;
};

static void fill(struct run *r)
{
    size_t es = weft_dtype_bytes(r->call->dtype);

    memset(r->dst.data, FILLER, r->dst.bytes);
    for (size_t i = 0; i < r->shape.src_elems; i++)
        cc_encode(r->call->dtype, cc_input(r->call, r->world->rank, i), r->from + i * es);
    memcpy(r->before, r->to, r->shape.dst_elems * es);
}

static const char *compare(struct run *r, size_t *at, union cc_value *got, union cc_value *want)
{
    const struct cc_call *c = r->call;
    size_t es = weft_dtype_bytes(c->dtype);
    unsigned char elem[16];
    const char *text = guards(&r->dst);

    for (*at = 0; *at < r->shape.dst_elems; ++*at) {
        const unsigned char *p = r->to + *at * es;
        *got = cc_decode(c->dtype, p);
        if (!expected(r->world, c, &r->shape, *at, want)) {
            *want = cc_decode(c->dtype, r->before + *at * es);
            if (memcmp(p, r->before + *at * es, es) != 0)
                return "wrote into a gap";
        } else if (!cc_same(c, *got, *want)) {
            return "wrong value";
        }
    }
    if (text || r->shape.joined)
        return text;
    for (*at = 0; *at < r->shape.src_elems; ++*at) {
        cc_encode(c->dtype, cc_input(c, r->world->rank, *at), elem);
        if (memcmp(r->from + *at * es, elem, es) != 0)
            return "changed its source";
    }
    return guards(&r->src);
}

static int has_setting(const struct cc_world *w, const char *setting)
{
    for (const char *const *at = w->fixture->settings; at && *at; at++)
        if (strcmp(*at, setting) == 0)
            return 1;
    return 0;
}

/* One mapped group has all ranks. */
static int all_mapped(const struct cc_world *w)
{
    return has_setting(w, "TRANSPORTS=shm") || has_setting(w, "TRANSPORTS=inproc");
}

/* What the algorithm asks for, by its registration; of a hierarchical one, whose parts are many, everything. */
static unsigned needs_of(const struct cc_call *c)
{
    for (int coll = 0; coll < WI_NUM_COLLS; coll++) {
        const struct wi_algo *a = wi_algo_find((enum wi_coll)coll, c->algorithm);
        if (a && strcmp(wi_coll_name(a->coll), cc_families[c->kind]) == 0)
            return a->needs;
    }
    return strchr(c->algorithm, ':') ? ~0u & ~(unsigned)(WI_ALGO_PEER_GET | WI_ALGO_PEER_MEM | WI_ALGO_MAPPED) : 0;
}

/* Reasons that an algorithm may give: each only of one that asks for it, in a call that lacks it. */
static int good_reason(const struct cc_world *w, const struct cc_call *c, weft_status st)
{
    const char *text = weft_thread_error();
    int v_form = c->kind == CC_all_gather_v || c->kind == CC_reduce_scatter_v || c->kind == CC_all_to_all_v ||
                 c->kind == CC_gather_v || c->kind == CC_scatter_v;
    weft_error e = WEFT_ERROR_INIT;
    unsigned needs;

    if (!c->algorithm || (st != WEFT_ENOTSUP && st != WEFT_ENOTFOUND))
        return 0;
    needs = needs_of(c);
    if (weft_last_error(w->comm, &e) >= 0 && e.status == st && !strstr(text, "algorithm"))
        text = e.message;
    if (strstr(text, "equal shares") || st == WEFT_ENOTFOUND)
        return v_form && needs & WI_ALGO_UNIFORM;
    if (strstr(text, "commutative"))
        return c->op == CC_OP_AFFINE && needs & WI_ALGO_COMMUTATIVE;
    if (strstr(text, "do not round"))
        return needs & WI_ALGO_EXACT &&
               ((c->dtype > WEFT_UINT64 && c->dtype != WEFT_BOOL) || c->op == CC_OP_AFFINE || c->op == CC_OP_PLUS_ONE);
    if (strstr(text, "even number"))
        return w->nranks % 2 == 1 && needs & WI_ALGO_EVEN_RANKS;
    if (strstr(text, "power of two of ranks"))
        return (w->nranks & (w->nranks - 1)) != 0 && needs & WI_ALGO_POW2_RANKS;
    if (strstr(text, "cannot work in place"))
        return c->in_place && needs & WI_ALGO_NO_IN_PLACE;
    if (strstr(text, "weft_mem_alloc")) /* these three work on a private copy */
        return needs & WI_ALGO_PEER_MEM && (c->memory == CC_MALLOC || c->op == CC_OP_PREMUL || c->in_place);
    if (strstr(text, "shared-memory group"))
        return !all_mapped(w) && needs & (WI_ALGO_MAPPED | WI_ALGO_PEER_MEM | WI_ALGO_PEER_GET);
    if (strstr(text, "memory cannot be read"))
        return needs & WI_ALGO_PEER_GET && has_setting(w, "SHM_CMA=n");
    return 0;
}

void cc_describe(const struct cc_world *w, const struct cc_call *c, char *text, size_t capacity)
{
    static const char *const forms[] = {"blocking", "request", "persistent", "grouped"};
    static const char *const ops[] = {"plus_one", "affine", "premul"};
    static const char *const memories[] = {"malloc", "mem_alloc", "mem_register"};

    snprintf(text, capacity, "%s P=%d count=%zu %s %s root=%d %s%s%s shift=%u %s%s%s seed=%llu", cc_kind_names[c->kind],
             w->nranks, c->count, weft_dtype_name(c->dtype),
             c->op < WEFT_NUM_OPS ? weft_op_name((weft_op)c->op) : ops[c->op - WEFT_NUM_OPS], c->root, forms[c->form],
             c->in_place ? " in place" : "", c->packed ? " packed" : "", c->shift, memories[c->memory],
             c->algorithm ? " algorithm=" : "", c->algorithm ? c->algorithm : "", (unsigned long long)c->seed);
}

static int report(struct run *r, const char *what, size_t at, union cc_value got, union cc_value want)
{
    char text[256];

    cc_describe(r->world, r->call, text, sizeof text);
    wt_fail(__FILE__, __LINE__, "%s: %s at %zu: %016llx (%g%+gi), not %016llx (%g%+gi)", text, what, at,
            (unsigned long long)got.i, got.re, got.im, (unsigned long long)want.i, want.re, want.im);
    return -1;
}

static int one_round(struct run *r)
{
    union cc_value got = {.i = 0}, want = {.i = 0};
    const char *wrong;
    char text[256];
    weft_status st;
    size_t at;

    fill(r);
    st = once(r->call, &r->args, &r->persistent);
    if (good_reason(r->world, r->call, st)) {
        r->world->refused++;
        return 0;
    }
    r->world->calls++;
    if (st != WEFT_SUCCESS) {
        cc_describe(r->world, r->call, text, sizeof text);
        wt_fail(__FILE__, __LINE__, "%s: %s: %s", text, weft_status_name(st), weft_thread_error());
        if (weft_comm_status(r->world->comm) < 0)
            wt_rank_end();
        return -1;
    }
    wrong = compare(r, &at, &got, &want);
    return wrong ? report(r, wrong, at, got, want) : 0;
}

static weft_op operator_of(struct cc_world *w, const struct cc_call *c)
{
    weft_op op = (weft_op)c->op;

    if (c->op == CC_OP_PREMUL)
        WT_CHECK_OK(weft_op_create_premul_sum(cc_premul_scalar(c->dtype), c->dtype, &op));
    else if (c->op >= WEFT_NUM_OPS)
        op = w->user[c->op - WEFT_NUM_OPS];
    return op;
}

static int make_buffers(struct run *r)
{
    struct shape *s = &r->shape;
    size_t es = weft_dtype_bytes(r->call->dtype);
    size_t src_end = s->src_at + s->src_elems, dst_end = s->dst_at + s->dst_elems;

    if (!s->joined)
        s->src_at = s->dst_at = 0;
    if (buffer_make(r->world, r->call, &r->dst, s->joined ? (src_end > dst_end ? src_end : dst_end) : s->dst_elems))
        return -1;
    if (!s->joined && buffer_make(r->world, r->call, &r->src, s->src_elems))
        return -1;
    r->from = (s->joined ? r->dst.data : r->src.data) + s->src_at * es;
    r->to = r->dst.data + s->dst_at * es;
    r->before = malloc(s->dst_elems * es + 1);
    return r->before ? 0 : -1;
}

/* A call's description is for the root only where that is all that the operation needs. */
static void make_args(struct run *r, weft_op op)
{
    const struct cc_call *c = r->call;
    struct shape *s = &r->shape;
    int root = r->world->rank == c->root, gap_free = c->packed;

    r->args = (struct args){.comm = r->world->comm,
                            .src = r->from,
                            .dst = r->to,
                            .op = op,
                            .sc = s->src.counts,
                            .sd = gap_free ? NULL : s->src.displs,
                            .rc = s->dst.counts,
                            .rd = gap_free ? NULL : s->dst.displs};
    r->args.own = c->kind == CC_gather_v ? s->src_elems : s->dst_elems;
    if (cc_rooted(c->kind) && !root) {
        if (c->kind == CC_reduce || c->kind == CC_gather || c->kind == CC_gather_v)
            r->args.dst = NULL, r->args.rc = r->args.rd = NULL;
        else
            r->args.src = NULL, r->args.sc = r->args.sd = NULL;
    }
}

int cc_run(struct cc_world *w, const struct cc_call *c)
{
    struct run r = {.world = w, .call = c};
    weft_op op = cc_reduces(c->kind) ? operator_of(w, c) : WEFT_SUM;
    int failed = 0, rounds = c->form == CC_PERSISTENT ? 3 : 1;

    shape_of(w, c, &r.shape);
    if (make_buffers(&r)) {
        wt_fail(__FILE__, __LINE__, "buffers of %zu and %zu elements: %s", r.shape.src_elems, r.shape.dst_elems,
                weft_thread_error());
        return -1;
    }
    make_args(&r, op);
    for (int i = 0; i < rounds && !failed; i++)
        failed = one_round(&r);
    if (weft_request_free(r.persistent) < 0 || (op >= CC_NUM_OPS && c->op == CC_OP_PREMUL && weft_op_destroy(op) < 0) ||
        buffer_free(w, &r.dst) || (!r.shape.joined && buffer_free(w, &r.src))) {
        wt_fail(__FILE__, __LINE__, "cleaning up after %s: %s", cc_kind_names[c->kind], weft_thread_error());
        failed = -1;
    }
    free(r.before);
    return failed;
}
