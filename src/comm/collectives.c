/* SPDX-License-Identifier: BSD-3-Clause */
/* The operations of the public API: arguments into a struct wi_call. */
#include "comm/comm.h"

/* Defines weft_<name> and weft_<name>_init, which take the same arguments. */
#define OPERATION(name, params, ...)           \
    weft_status weft_##name params             \
    {                                          \
        struct wi_call call = {__VA_ARGS__};   \
        return wi_call(comm, &call, req);      \
    }                                          \
    weft_status weft_##name##_init params      \
    {                                          \
        struct wi_call call = {__VA_ARGS__};   \
        return wi_call_init(comm, &call, req); \
    }

/* It would take these parameter lists for products. */
/* clang-format off */
OPERATION(all_reduce,
          (weft_comm *comm, const void *src, void *dst, size_t count, weft_dtype dtype, weft_op op,
           weft_request **req),
          .coll = WI_COLL_ALL_REDUCE, .dtype = dtype, .op = op, .root = -1, .src = src, .dst = dst, .count = count)

OPERATION(reduce,
          (weft_comm *comm, const void *src, void *dst, size_t count, weft_dtype dtype, weft_op op, int root,
           weft_request **req),
          .coll = WI_COLL_REDUCE, .dtype = dtype, .op = op, .root = root, .src = src, .dst = dst, .count = count)

OPERATION(broadcast,
          (weft_comm *comm, const void *src, void *dst, size_t count, weft_dtype dtype, int root, weft_request **req),
          .coll = WI_COLL_BROADCAST, .dtype = dtype, .root = root, .src = src, .dst = dst, .count = count)

OPERATION(all_gather,
          (weft_comm *comm, const void *src, void *dst, size_t count, weft_dtype dtype, weft_request **req),
          .coll = WI_COLL_ALL_GATHER, .dtype = dtype, .root = -1, .src = src, .dst = dst, .count = count)

OPERATION(all_gather_v,
          (weft_comm *comm, const void *src, void *dst, const size_t counts[], const size_t displs[], weft_dtype dtype,
           weft_request **req),
          .coll = WI_COLL_ALL_GATHER_V, .dtype = dtype, .root = -1, .src = src, .dst = dst, .recv_counts = counts,
          .recv_displs = displs)

OPERATION(reduce_scatter,
          (weft_comm *comm, const void *src, void *dst, size_t count, weft_dtype dtype, weft_op op,
           weft_request **req),
          .coll = WI_COLL_REDUCE_SCATTER, .dtype = dtype, .op = op, .root = -1, .src = src, .dst = dst, .count = count)

OPERATION(reduce_scatter_block,
          (weft_comm *comm, const void *src, void *dst, size_t count, weft_dtype dtype, weft_op op,
           weft_request **req),
          .coll = WI_COLL_REDUCE_SCATTER, .dtype = dtype, .op = op, .root = -1, .src = src, .dst = dst, .count = count)

OPERATION(reduce_scatter_v,
          (weft_comm *comm, const void *src, void *dst, const size_t counts[], weft_dtype dtype, weft_op op,
           weft_request **req),
          .coll = WI_COLL_REDUCE_SCATTER_V, .dtype = dtype, .op = op, .root = -1, .src = src, .dst = dst,
          .send_counts = counts)

OPERATION(all_to_all,
          (weft_comm *comm, const void *src, void *dst, size_t count, weft_dtype dtype, weft_request **req),
          .coll = WI_COLL_ALL_TO_ALL, .dtype = dtype, .root = -1, .src = src, .dst = dst, .count = count)

OPERATION(all_to_all_v,
          (weft_comm *comm, const void *src, const size_t send_counts[], const size_t send_displs[], void *dst,
           const size_t recv_counts[], const size_t recv_displs[], weft_dtype dtype, weft_request **req),
          .coll = WI_COLL_ALL_TO_ALL_V, .dtype = dtype, .root = -1, .src = src, .dst = dst, .send_counts = send_counts,
          .send_displs = send_displs, .recv_counts = recv_counts, .recv_displs = recv_displs)

OPERATION(gather,
          (weft_comm *comm, const void *src, void *dst, size_t count, weft_dtype dtype, int root, weft_request **req),
          .coll = WI_COLL_GATHER, .dtype = dtype, .root = root, .src = src, .dst = dst, .count = count)

OPERATION(gather_v,
          (weft_comm *comm, const void *src, size_t send_count, void *dst, const size_t counts[],
           const size_t displs[], weft_dtype dtype, int root, weft_request **req),
          .coll = WI_COLL_GATHER_V, .dtype = dtype, .root = root, .src = src, .dst = dst, .count = send_count,
          .recv_counts = counts, .recv_displs = displs)

OPERATION(scatter,
          (weft_comm *comm, const void *src, void *dst, size_t count, weft_dtype dtype, int root, weft_request **req),
          .coll = WI_COLL_SCATTER, .dtype = dtype, .root = root, .src = src, .dst = dst, .count = count)

OPERATION(scatter_v,
          (weft_comm *comm, const void *src, const size_t counts[], const size_t displs[], void *dst,
           size_t recv_count, weft_dtype dtype, int root, weft_request **req),
          .coll = WI_COLL_SCATTER_V, .dtype = dtype, .root = root, .src = src, .dst = dst, .recv_count = recv_count,
          .send_counts = counts, .send_displs = displs)

OPERATION(scan,
          (weft_comm *comm, const void *src, void *dst, size_t count, weft_dtype dtype, weft_op op,
           weft_request **req),
          .coll = WI_COLL_SCAN, .dtype = dtype, .op = op, .root = -1, .src = src, .dst = dst, .count = count)

OPERATION(exscan,
          (weft_comm *comm, const void *src, void *dst, size_t count, weft_dtype dtype, weft_op op,
           weft_request **req),
          .coll = WI_COLL_EXSCAN, .dtype = dtype, .op = op, .root = -1, .src = src, .dst = dst, .count = count)

OPERATION(barrier, (weft_comm *comm, weft_request **req), .coll = WI_COLL_BARRIER, .dtype = WEFT_UINT8, .root = -1)

OPERATION(send, (weft_comm *comm, const void *src, size_t count, weft_dtype dtype, int peer, weft_request **req),
          .coll = WI_COLL_SEND, .dtype = dtype, .root = peer, .src = src, .count = count)

OPERATION(recv, (weft_comm *comm, void *dst, size_t count, weft_dtype dtype, int peer, weft_request **req),
          .coll = WI_COLL_RECV, .dtype = dtype, .root = peer, .dst = dst, .count = count)

OPERATION(send_recv,
          (weft_comm *comm, const void *src, size_t send_count, int dst_peer, void *dst, size_t recv_count,
           int src_peer, weft_dtype dtype, weft_request **req),
          .coll = WI_COLL_SEND_RECV, .dtype = dtype, .root = dst_peer, .src = src, .dst = dst, .count = send_count,
          .recv_count = recv_count, .recv_peer = src_peer)
/* clang-format on */
