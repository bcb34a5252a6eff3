/* SPDX-License-Identifier: BSD-3-Clause */
/* Every algorithm, as X(stem): the file is <stem>.c, the object wi_<stem>. In the order in which lists show them. */
#ifndef WI_ALGO_LIST_H
#define WI_ALGO_LIST_H

#include "algo/algo.h"

#define WI_ALGO_LIST(X)       \
    X(allreduce_flat)         \
    X(allreduce_flat2)        \
    X(allreduce_direct)       \
    X(allreduce_pull)         \
    X(allreduce_ring)         \
    X(allreduce_ring2)        \
    X(allreduce_rdouble)      \
    X(allreduce_rhalving)     \
    X(allreduce_swing)        \
    X(allreduce_swing_short)  \
    X(allreduce_knomial)      \
    X(allreduce_dbtree)       \
    X(allreduce_flat_send)    \
    X(allreduce_coded)        \
    X(allreduce_coded2)       \
    X(reduce_flat)            \
    X(reduce_flat2)           \
    X(reduce_direct)          \
    X(reduce_knomial)         \
    X(reduce_bine)            \
    X(reduce_chain)           \
    X(reduce_rsgather)        \
    X(reduce_linear)          \
    X(broadcast_flat)         \
    X(broadcast_direct)       \
    X(broadcast_split)        \
    X(broadcast_knomial)      \
    X(broadcast_bine)         \
    X(broadcast_chain)        \
    X(broadcast_scatter_ring) \
    X(broadcast_coded)        \
    X(broadcast_coded_chain)  \
    X(allgather_flat)         \
    X(allgather_direct)       \
    X(allgather_ring)         \
    X(allgather_bruck)        \
    X(allgather_rdouble)      \
    X(allgather_bine)         \
    X(allgather_pat)          \
    X(allgather_neighbor)     \
    X(allgather_linear)       \
    X(allgather_coded)        \
    X(reducescatter_flat)     \
    X(reducescatter_direct)   \
    X(reducescatter_pull)     \
    X(reducescatter_ring)     \
    X(reducescatter_rhalving) \
    X(reducescatter_bine)     \
    X(reducescatter_pat)      \
    X(reducescatter_pairwise) \
    X(reducescatter_linear)   \
    X(reducescatter_coded)    \
    X(alltoall_flat)          \
    X(alltoall_direct)        \
    X(alltoall_pairwise)      \
    X(alltoall_bruck)         \
    X(alltoall_linear)        \
    X(alltoall_coded)         \
    X(gather_flat)            \
    X(gather_direct)          \
    X(gather_knomial)         \
    X(gather_linear)          \
    X(scatter_flat)           \
    X(scatter_direct)         \
    X(scatter_knomial)        \
    X(scatter_linear)         \
    X(scan_flat)              \
    X(scan_rdouble)           \
    X(scan_linear)            \
    X(exscan_flat)            \
    X(exscan_rdouble)         \
    X(exscan_linear)          \
    X(barrier_flat)           \
    X(barrier_dissem)

#define WI_ALGO_DECLARE(stem) extern const struct wi_algo wi_##stem;
WI_ALGO_LIST(WI_ALGO_DECLARE)
#undef WI_ALGO_DECLARE

#endif
