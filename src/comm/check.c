/* SPDX-License-Identifier: BSD-3-Clause */
/* Checking the arguments of a call, before anything happens. */
#include "base/status.h"
#include "comm/comm.h"

static weft_status bad(const struct wi_call *call, const char *what)
{
    return wi_fail(WEFT_EINVAL, "%s: %s", wi_coll_name(call->coll), what);
}

static int overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    const char *x = a, *y = b;

    return a_bytes && b_bytes && x < y + b_bytes && y < x + a_bytes;
}

/* Elements that the call's src and dst span on this rank; SIZE_MAX - 1 on overflow. */
static size_t times(size_t a, size_t b)
{
    size_t r;

    return __builtin_mul_overflow(a, b, &r) ? SIZE_MAX : r;
}

size_t wi_v_span(const size_t *counts, const size_t *displs, int n)
{
    size_t end = 0, at = 0;

    for (int i = 0; i < n; i++) {
        size_t from = displs ? displs[i] : at, to;
        if (__builtin_add_overflow(from, counts[i], &to))
            return SIZE_MAX;
        at = to;
        end = counts[i] && to > end ? to : end;
    }
    return end;
}

void wi_call_spans(const struct weft_comm *comm, const struct wi_call *c, size_t *src, size_t *dst)
{
    size_t n = (size_t)comm->nranks;
    int root = comm->rank == c->root;

    *src = *dst = c->count;
    switch (c->coll) {
    case WI_COLL_REDUCE:
        *dst = root ? c->count : 0;
        break;
    case WI_COLL_BROADCAST:
        *src = root ? c->count : 0;
        break;
    case WI_COLL_ALL_GATHER:
        *dst = times(n, c->count);
        break;
    case WI_COLL_REDUCE_SCATTER:
        *src = times(n, c->count);
        break;
    case WI_COLL_ALL_TO_ALL:
        *src = *dst = times(n, c->count);
        break;
    case WI_COLL_GATHER:
        *dst = root ? times(n, c->count) : 0;
        break;
    case WI_COLL_SCATTER:
        *src = root ? times(n, c->count) : 0;
        break;
    case WI_COLL_ALL_GATHER_V:
        *src = c->recv_counts[comm->rank];
        *dst = wi_v_span(c->recv_counts, c->recv_displs, comm->nranks);
        break;
    case WI_COLL_REDUCE_SCATTER_V:
        *src = wi_v_span(c->send_counts, NULL, comm->nranks);
        *dst = c->send_counts[comm->rank];
        break;
    case WI_COLL_ALL_TO_ALL_V:
        *src = wi_v_span(c->send_counts, c->send_displs, comm->nranks);
        *dst = wi_v_span(c->recv_counts, c->recv_displs, comm->nranks);
        break;
    case WI_COLL_GATHER_V:
        *dst = root ? wi_v_span(c->recv_counts, c->recv_displs, comm->nranks) : 0;
        break;
    case WI_COLL_SCATTER_V:
        *src = root ? wi_v_span(c->send_counts, c->send_displs, comm->nranks) : 0;
        *dst = c->recv_count;
        break;
    case WI_COLL_SEND:
        *dst = 0;
        break;
    case WI_COLL_RECV:
        *src = 0;
        break;
    case WI_COLL_SEND_RECV:
        *dst = c->recv_count;
        break;
    default:
        break;
    }
}

static weft_status check_counts(const struct weft_comm *comm, const struct wi_call *c)
{
    int root = comm->rank == c->root;

    if (c->coll == WI_COLL_ALL_GATHER_V && !c->recv_counts)
        return bad(c, "counts is NULL");
    if (c->coll == WI_COLL_REDUCE_SCATTER_V && !c->send_counts)
        return bad(c, "counts is NULL");
    if (c->coll == WI_COLL_ALL_TO_ALL_V && (!c->send_counts || !c->recv_counts))
        return bad(c, "send_counts or recv_counts is NULL");
    if (c->coll == WI_COLL_GATHER_V && root && !c->recv_counts)
        return bad(c, "counts is NULL on the root");
    if (c->coll == WI_COLL_SCATTER_V && root && !c->send_counts)
        return bad(c, "counts is NULL on the root");
    return WEFT_SUCCESS;
}

/* What a rank gives itself is not transferred, so no message would show that its two lengths differ. */
static weft_status check_own(const struct weft_comm *comm, const struct wi_call *c)
{
    int rank = comm->rank, root = rank == c->root;
    size_t sent = 0, expected = 0;

    if (c->coll == WI_COLL_ALL_TO_ALL_V) {
        sent = c->send_counts[rank];
        expected = c->recv_counts[rank];
    } else if (c->coll == WI_COLL_GATHER_V && root) {
        sent = c->count;
        expected = c->recv_counts[rank];
    } else if (c->coll == WI_COLL_SCATTER_V && root) {
        sent = c->send_counts[rank];
        expected = c->recv_count;
    }
    if (sent == expected)
        return WEFT_SUCCESS;
    return wi_fail(WEFT_EINVAL, "%s: rank %d sends %zu elements to itself and expects %zu", wi_coll_name(c->coll), rank,
                   sent, expected);
}

static weft_status check_peer(const struct weft_comm *comm, const struct wi_call *c, int peer, const char *name)
{
    if (peer < 0 || peer >= comm->nranks)
        return wi_fail(WEFT_EINVAL, "%s: %s %d is not a rank of this communicator (0 to %d)", wi_coll_name(c->coll),
                       name, peer, comm->nranks - 1);
    return WEFT_SUCCESS;
}

static weft_status check_tag(const struct wi_call *c, int64_t tag, int receives)
{
    if (tag >= 0 || (receives && tag == WEFT_ANY_TAG))
        return WEFT_SUCCESS;
    if (tag == WEFT_ANY_TAG)
        return wi_fail(WEFT_EINVAL, "%s: WEFT_ANY_TAG is for receives", wi_coll_name(c->coll));
    return wi_fail(WEFT_EINVAL, "%s: tag %lld is below 0", wi_coll_name(c->coll), (long long)tag);
}

static weft_status check_sender(const struct weft_comm *comm, const struct wi_call *c, int peer, const char *name)
{
    return peer == WEFT_ANY_SOURCE ? WEFT_SUCCESS : check_peer(comm, c, peer, name);
}

static weft_status check_roots(const struct weft_comm *comm, const struct wi_call *c)
{
    switch (c->coll) {
    case WI_COLL_RECV:
        WI_TRY(check_tag(c, c->tag, 1));
        return check_sender(comm, c, c->root, "peer");
    case WI_COLL_SEND:
        WI_TRY(check_tag(c, c->tag, 0));
        return check_peer(comm, c, c->root, "peer");
    case WI_COLL_SEND_RECV:
        WI_TRY(check_tag(c, c->tag, 0));
        WI_TRY(check_tag(c, c->recv_tag, 1));
        WI_TRY(check_peer(comm, c, c->root, "dst_peer"));
        return check_sender(comm, c, c->recv_peer, "src_peer");
    default:
        return wi_coll_has_root(c->coll) ? check_peer(comm, c, c->root, "root") : WEFT_SUCCESS;
    }
}

static weft_status check_op(const struct wi_call *c)
{
    struct wi_user_op user;

    if (!wi_coll_is_reduction(c->coll))
        return WEFT_SUCCESS;
    if (c->op < WEFT_NUM_OPS) {
        if (c->op == WEFT_AVG && (c->coll == WI_COLL_SCAN || c->coll == WI_COLL_EXSCAN))
            return wi_fail(WEFT_ENOTSUP, "%s: avg is not defined for a prefix reduction", wi_coll_name(c->coll));
        return wi_redop_check(c->dtype, c->op);
    }
    if (!wi_user_op_find(c->op, &user))
        return wi_fail(WEFT_EINVAL, "%s: operator %u does not exist", wi_coll_name(c->coll), c->op);
    if (user.premul && user.dtype != c->dtype)
        return wi_fail(WEFT_EINVAL, "%s: the operator's scalar is %s, the data is %s", wi_coll_name(c->coll),
                       weft_dtype_name(user.dtype), weft_dtype_name(c->dtype));
    return WEFT_SUCCESS;
}

static int may_alias(const struct weft_comm *comm, const struct wi_call *c)
{
    return wi_call_in_place(comm, c) ||
           (c->src == c->dst &&
            (c->coll == WI_COLL_BROADCAST || c->coll == WI_COLL_ALL_TO_ALL || c->coll == WI_COLL_ALL_TO_ALL_V));
}

weft_status wi_call_check(const struct weft_comm *comm, const struct wi_call *c)
{
    size_t src, dst, es;

    if ((unsigned)c->dtype >= WEFT_NUM_DTYPES)
        return wi_fail(WEFT_EINVAL, "%s: dtype %d does not exist", wi_coll_name(c->coll), (int)c->dtype);
    if (c->coll == WI_COLL_BARRIER)
        return WEFT_SUCCESS;
    WI_TRY(check_roots(comm, c));
    WI_TRY(check_counts(comm, c));
    WI_TRY(check_own(comm, c));
    WI_TRY(check_op(c));
    wi_call_spans(comm, c, &src, &dst);
    es = weft_dtype_bytes(c->dtype);
    if (times(src, es) > SIZE_MAX / 2 || times(dst, es) > SIZE_MAX / 2)
        return bad(c, "the counts exceed the address space");
    if (src && !c->src)
        return bad(c, "src is NULL");
    if (dst && !c->dst)
        return bad(c, "dst is NULL");
    if (wi_memory_kind(&comm->ctx->transports->devices, c->src) != WEFT_MEMORY_HOST ||
        wi_memory_kind(&comm->ctx->transports->devices, c->dst) != WEFT_MEMORY_HOST)
        return wi_fail(WEFT_ENOTSUP, "%s: src or dst is device memory, which no transport of this communicator reaches",
                       wi_coll_name(c->coll));
    if (overlap(c->src, src * es, c->dst, dst * es) && !may_alias(comm, c))
        return bad(c, "src and dst overlap without being the in-place form");
    return WEFT_SUCCESS;
}

int wi_call_in_place(const struct weft_comm *comm, const struct wi_call *c)
{
    size_t es = weft_dtype_bytes(c->dtype), at = times((size_t)comm->rank, times(c->count, es));
    const char *src = c->src, *dst = c->dst;
    size_t before = 0;

    switch (c->coll) {
    case WI_COLL_ALL_REDUCE:
    case WI_COLL_SCAN:
    case WI_COLL_EXSCAN:
        return src == dst;
    case WI_COLL_REDUCE:
        return comm->rank == c->root && src == dst;
    case WI_COLL_BROADCAST:
        return comm->rank == c->root && src == dst;
    case WI_COLL_ALL_GATHER:
        return src == dst + at;
    case WI_COLL_GATHER:
        return comm->rank == c->root && src == dst + at;
    case WI_COLL_REDUCE_SCATTER:
        return dst == src + at;
    case WI_COLL_SCATTER:
        return comm->rank == c->root && dst == src + at;
    case WI_COLL_ALL_GATHER_V:
    case WI_COLL_REDUCE_SCATTER_V:
    case WI_COLL_GATHER_V:
    case WI_COLL_SCATTER_V:
        break;
    default:
        return 0;
    }
    if ((c->coll == WI_COLL_GATHER_V || c->coll == WI_COLL_SCATTER_V) && comm->rank != c->root)
        return 0;
    const size_t *counts =
        c->coll == WI_COLL_ALL_GATHER_V || c->coll == WI_COLL_GATHER_V ? c->recv_counts : c->send_counts;
    const size_t *displs =
        c->coll == WI_COLL_ALL_GATHER_V || c->coll == WI_COLL_GATHER_V ? c->recv_displs : c->send_displs;
    for (int i = 0; i < comm->rank; i++)
        before += counts[i];
    before = displs ? displs[comm->rank] : before;
    return c->coll == WI_COLL_ALL_GATHER_V || c->coll == WI_COLL_GATHER_V ? src == dst + before * es
                                                                          : dst == src + before * es;
}

static int is_real_float(weft_dtype dtype)
{
    return wi_dtype_rounds(dtype) && dtype != WEFT_COMPLEX64 && dtype != WEFT_COMPLEX128;
}

static weft_status check_accumulate(const struct weft_comm *comm, const struct wi_call *c, const weft_call_options *o)
{
    const char *name = wi_coll_name(c->coll);
    struct wi_codec_use codec = {0};

    if (o->accumulate != 1)
        return wi_fail(WEFT_EINVAL, "%s: accumulate is %d, neither 0 nor 1", name, o->accumulate);
    if (c->coll != WI_COLL_REDUCE_SCATTER && c->coll != WI_COLL_REDUCE_SCATTER_V)
        return wi_fail(WEFT_ENOTSUP, "%s: accumulate is for reduce_scatter and reduce_scatter_v", name);
    if (c->op != WEFT_SUM && c->op != WEFT_AVG)
        return wi_fail(WEFT_ENOTSUP, "%s: accumulate is for sum and avg, and operator %s is neither", name,
                       c->op < WEFT_NUM_OPS ? weft_op_name(c->op) : "of the program");
    if (!is_real_float(c->dtype))
        return wi_fail(WEFT_ENOTSUP, "%s: accumulate is for real floating types, and %s is none", name,
                       weft_dtype_name(c->dtype));
    if (o->codec)
        WI_TRY(wi_codec_parse_use(o->codec, &codec));
    if (codec.on)
        return wi_fail(WEFT_ENOTSUP, "%s: accumulate cannot be combined with a codec, and \"%.40s\" is named", name,
                       o->codec);
    if (c->src == c->dst || wi_call_in_place(comm, c))
        return wi_fail(WEFT_EINVAL, "%s: accumulate adds to dst, which is in place here: a part of src", name);
    return WEFT_SUCCESS;
}

weft_status wi_call_options_check(const struct weft_comm *comm, const struct wi_call *c, const weft_call_options *o)
{
    if (o && o->reserved)
        return wi_fail(WEFT_EINVAL, "%s: options.reserved is not 0", wi_coll_name(c->coll));
    return o && o->accumulate ? check_accumulate(comm, c, o) : WEFT_SUCCESS;
}
