/* SPDX-License-Identifier: BSD-3-Clause */
/* Every algorithm, as X(stem): the file is <stem>.c, the object wi_<stem>. In the order in which lists show them. */
#ifndef WI_ALGO_LIST_H
#define WI_ALGO_LIST_H

#include "algo/algo.h"

#define WI_ALGO_LIST(X)                                                                           \
    X(allreduce_flat)                                                                             \
    X(allreduce_flat2)                                                                            \
    X(allreduce_direct)                                                                           \
    X(allreduce_pull)                                                                             \
    X(allreduce_ring)                                                                             \
    X(allreduce_ring2)                                                                            \
    X(allreduce_rdouble)                                                                          \
    X(allreduce_rhalving)                                                                         \
    X(allreduce_knomial)                                                                          \
    X(allreduce_dbtree)                                                                           \
    X(allreduce_flat_send)                                                                        \
    X(reduce_flat)                                                                                \
    X(reduce_flat2)                                                                               \
    X(reduce_direct)                                                                              \
    X(reduce_knomial)                                                                             \
    X(reduce_chain)                                                                               \
    X(reduce_rsgather)                                                                            \
    X(reduce_linear)                                                                              \
    X(broadcast_flat)                                                                             \
    X(broadcast_direct)                                                                           \
    X(broadcast_knomial)                                                                          \
    X(broadcast_chain)                                                                            \
    X(broadcast_scatter_ring)                                                                     \
    X(allgather_flat)                                                                             \
    X(allgather_direct)                                                                           \
    X(allgather_ring)                                                                             \
    X(allgather_bruck)                                                                            \
    X(allgather_rdouble)                                                                          \
    X(allgather_neighbor)                                                                         \
    X(allgather_linear)                                                                           \
    X(reducescatter_flat)                                                                         \
    X(reducescatter_direct)                                                                       \
    X(reducescatter_pull)                                                                         \
    X(alltoall_flat)                                                                              \
    X(alltoall_direct)                                                                            \
    X(gather_flat)                                                                                \
    X(gather_direct)                                                                              \
    X(scatter_flat)                                                                               \
    X(scatter_direct)                                                                             \
    X(scan_flat)                                                                                  \
    X(exscan_flat)                                                                                \
    X(barrier_flat)

#define WI_ALGO_DECLARE(stem) extern const struct wi_algo wi_##stem;
WI_ALGO_LIST(WI_ALGO_DECLARE)
#undef WI_ALGO_DECLARE

#endif
