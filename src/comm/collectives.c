/* SPDX-License-Identifier: BSD-3-Clause */
/* The operations of the public API, each as a function of its own: arguments into a struct wi_call. */
#include "comm/comm.h"

/* Field by field: an initialiser makes compilers fill it by a loop of stores, which took as long as all the rest. */
static inline void clear(struct wi_call *c)
{
    c->coll = 0;
    c->dtype = (weft_dtype)0;
    c->op = 0;
    c->root = -1;
    c->src = NULL;
    c->dst = NULL;
    c->count = c->recv_count = 0;
    c->recv_peer = 0;
    c->tag = c->recv_tag = 0;
    c->send_counts = c->send_displs = c->recv_counts = c->recv_displs = NULL;
}

/* Defines weft_<name>. */
#define OPERATION(name, params, ...)   \
    weft_status weft_##name params     \
    {                                  \
        struct wi_call c;              \
        clear(&c);                     \
        __VA_ARGS__;                   \
        return wi_call(comm, &c, req); \
    }

/* It would take these parameter lists for products. */
/* clang-format off */
OPERATION(all_reduce,
          (weft_comm *comm, const void *src, void *dst, size_t count, weft_dtype dtype, weft_op op,
           weft_request **req),
          c.coll = WI_COLL_ALL_REDUCE, c.dtype = dtype, c.op = op, c.src = src, c.dst = dst, c.count = count)

OPERATION(reduce,
          (weft_comm *comm, const void *src, void *dst, size_t count, weft_dtype dtype, weft_op op, int root,
           weft_request **req),
          c.coll = WI_COLL_REDUCE, c.dtype = dtype, c.op = op, c.root = root, c.src = src, c.dst = dst, c.count = count)

OPERATION(broadcast,
          (weft_comm *comm, const void *src, void *dst, size_t count, weft_dtype dtype, int root, weft_request **req),
          c.coll = WI_COLL_BROADCAST, c.dtype = dtype, c.root = root, c.src = src, c.dst = dst, c.count = count)

OPERATION(all_gather,
          (weft_comm *comm, const void *src, void *dst, size_t count, weft_dtype dtype, weft_request **req),
          c.coll = WI_COLL_ALL_GATHER, c.dtype = dtype, c.src = src, c.dst = dst, c.count = count)

OPERATION(all_gather_v,
          (weft_comm *comm, const void *src, void *dst, const size_t counts[], const size_t displs[], weft_dtype dtype,
           weft_request **req),
          c.coll = WI_COLL_ALL_GATHER_V, c.dtype = dtype, c.src = src, c.dst = dst, c.recv_counts = counts,
          c.recv_displs = displs)

OPERATION(reduce_scatter,
          (weft_comm *comm, const void *src, void *dst, size_t count, weft_dtype dtype, weft_op op,
           weft_request **req),
          c.coll = WI_COLL_REDUCE_SCATTER, c.dtype = dtype, c.op = op, c.src = src, c.dst = dst, c.count = count)

OPERATION(reduce_scatter_v,
          (weft_comm *comm, const void *src, void *dst, const size_t counts[], weft_dtype dtype, weft_op op,
           weft_request **req),
          c.coll = WI_COLL_REDUCE_SCATTER_V, c.dtype = dtype, c.op = op, c.src = src, c.dst = dst,
          c.send_counts = counts)

OPERATION(all_to_all,
          (weft_comm *comm, const void *src, void *dst, size_t count, weft_dtype dtype, weft_request **req),
          c.coll = WI_COLL_ALL_TO_ALL, c.dtype = dtype, c.src = src, c.dst = dst, c.count = count)

OPERATION(all_to_all_v,
          (weft_comm *comm, const void *src, const size_t send_counts[], const size_t send_displs[], void *dst,
           const size_t recv_counts[], const size_t recv_displs[], weft_dtype dtype, weft_request **req),
          c.coll = WI_COLL_ALL_TO_ALL_V, c.dtype = dtype, c.src = src, c.dst = dst, c.send_counts = send_counts,
          c.send_displs = send_displs, c.recv_counts = recv_counts, c.recv_displs = recv_displs)

OPERATION(gather,
          (weft_comm *comm, const void *src, void *dst, size_t count, weft_dtype dtype, int root, weft_request **req),
          c.coll = WI_COLL_GATHER, c.dtype = dtype, c.root = root, c.src = src, c.dst = dst, c.count = count)

OPERATION(gather_v,
          (weft_comm *comm, const void *src, size_t send_count, void *dst, const size_t counts[],
           const size_t displs[], weft_dtype dtype, int root, weft_request **req),
          c.coll = WI_COLL_GATHER_V, c.dtype = dtype, c.root = root, c.src = src, c.dst = dst, c.count = send_count,
          c.recv_counts = counts, c.recv_displs = displs)

OPERATION(scatter,
          (weft_comm *comm, const void *src, void *dst, size_t count, weft_dtype dtype, int root, weft_request **req),
          c.coll = WI_COLL_SCATTER, c.dtype = dtype, c.root = root, c.src = src, c.dst = dst, c.count = count)

OPERATION(scatter_v,
          (weft_comm *comm, const void *src, const size_t counts[], const size_t displs[], void *dst,
           size_t recv_count, weft_dtype dtype, int root, weft_request **req),
          c.coll = WI_COLL_SCATTER_V, c.dtype = dtype, c.root = root, c.src = src, c.dst = dst, c.recv_count = recv_count,
          c.send_counts = counts, c.send_displs = displs)

OPERATION(scan,
          (weft_comm *comm, const void *src, void *dst, size_t count, weft_dtype dtype, weft_op op,
           weft_request **req),
          c.coll = WI_COLL_SCAN, c.dtype = dtype, c.op = op, c.src = src, c.dst = dst, c.count = count)

OPERATION(exscan,
          (weft_comm *comm, const void *src, void *dst, size_t count, weft_dtype dtype, weft_op op,
           weft_request **req),
          c.coll = WI_COLL_EXSCAN, c.dtype = dtype, c.op = op, c.src = src, c.dst = dst, c.count = count)

OPERATION(barrier, (weft_comm *comm, weft_request **req), c.coll = WI_COLL_BARRIER, c.dtype = WEFT_UINT8)

OPERATION(send,
          (weft_comm *comm, const void *src, size_t count, weft_dtype dtype, int peer, int64_t tag,
           weft_request **req),
          c.coll = WI_COLL_SEND, c.dtype = dtype, c.root = peer, c.tag = tag, c.src = src, c.count = count)

OPERATION(recv,
          (weft_comm *comm, void *dst, size_t count, weft_dtype dtype, int peer, int64_t tag, weft_request **req),
          c.coll = WI_COLL_RECV, c.dtype = dtype, c.root = peer, c.tag = tag, c.dst = dst, c.count = count)

OPERATION(send_recv,
          (weft_comm *comm, const void *src, size_t send_count, int dst_peer, int64_t send_tag, void *dst,
           size_t recv_count, int src_peer, int64_t recv_tag, weft_dtype dtype, weft_request **req),
          c.coll = WI_COLL_SEND_RECV, c.dtype = dtype, c.root = dst_peer, c.tag = send_tag, c.src = src, c.dst = dst,
          c.count = send_count, c.recv_count = recv_count, c.recv_peer = src_peer, c.recv_tag = recv_tag)
/* clang-format on */
