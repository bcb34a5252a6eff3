/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-bench's MPI module: the same calls in MPI. Compiled once with each MPI's mpi.h; MPI symbols are resolved from
 * the library that weft-bench has loaded before. */
#include "weft_bench.h"

#include <mpi.h>
#include <limits.h>
#include <string.h>

#define MAX_RANKS 4096

static MPI_Datatype to_type(weft_dtype dtype)
{
    switch (dtype) {
    case WEFT_INT8:
        return MPI_INT8_T;
    case WEFT_UINT8:
        return MPI_UINT8_T;
    case WEFT_INT16:
        return MPI_INT16_T;
    case WEFT_UINT16:
        return MPI_UINT16_T;
    case WEFT_INT32:
        return MPI_INT32_T;
    case WEFT_UINT32:
        return MPI_UINT32_T;
    case WEFT_INT64:
        return MPI_INT64_T;
    case WEFT_UINT64:
        return MPI_UINT64_T;
    case WEFT_FLOAT32:
        return MPI_FLOAT;
    case WEFT_FLOAT64:
        return MPI_DOUBLE;
    case WEFT_COMPLEX64:
        return MPI_C_FLOAT_COMPLEX;
    case WEFT_COMPLEX128:
        return MPI_C_DOUBLE_COMPLEX;
    default:
        return MPI_DATATYPE_NULL;
    }
}

static MPI_Op to_op(weft_op op)
{
    switch (op) {
    case WEFT_SUM:
        return MPI_SUM;
    case WEFT_PROD:
        return MPI_PROD;
    case WEFT_MIN:
        return MPI_MIN;
    case WEFT_MAX:
        return MPI_MAX;
    case WEFT_BAND:
        return MPI_BAND;
    case WEFT_BOR:
        return MPI_BOR;
    case WEFT_BXOR:
        return MPI_BXOR;
    case WEFT_LAND:
        return MPI_LAND;
    case WEFT_LOR:
        return MPI_LOR;
    case WEFT_LXOR:
        return MPI_LXOR;
    default:
        return MPI_OP_NULL;
    }
}

/* The module sees nothing of the program that loads it. */
static const char reduces[] = {
#define BENCH_COLL_REDUCES(id, name, reduces, rooted) reduces,
    BENCH_COLL_LIST(BENCH_COLL_REDUCES)
#undef BENCH_COLL_REDUCES
};

/* MPI has no 16- and 8-bit floats, no mean, no logical operators on floats; its in-place reduce-scatter leaves the
 * result elsewhere; its counts are ints. */
static int module_supports(const struct bench_call *c)
{
    int floating = c->dtype >= WEFT_FLOAT16;

    if (to_type(c->dtype) == MPI_DATATYPE_NULL || c->nranks > MAX_RANKS)
        return 0;
    if (c->count * (size_t)c->nranks * 2 > INT_MAX)
        return 0;
    if (c->in_place && (c->coll == BENCH_REDUCE_SCATTER || c->coll == BENCH_REDUCE_SCATTER_V))
        return 0;
    if (reduces[c->coll])
        return to_op(c->op) != MPI_OP_NULL && !(floating && c->op >= WEFT_BAND);
    return 1;
}

static void narrow(const struct bench_call *c, int counts[], int displs[])
{
    for (int i = 0; i < c->nranks; i++) {
        counts[i] = (int)c->counts[i];
        displs[i] = (int)c->displs[i];
    }
}

static int run_v(const struct bench_call *c, MPI_Datatype type, MPI_Op op)
{
    static int counts[MAX_RANKS], displs[MAX_RANKS];
    int at_root = c->in_place && c->rank == c->root;

    narrow(c, counts, displs);
    switch (c->coll) {
    case BENCH_ALL_GATHER_V:
        return MPI_Allgatherv(c->in_place ? MPI_IN_PLACE : c->src, counts[c->rank], type, c->dst, counts, displs, type,
                              MPI_COMM_WORLD);
    case BENCH_REDUCE_SCATTER_V:
        return MPI_Reduce_scatter(c->src, c->dst, counts, type, op, MPI_COMM_WORLD);
    case BENCH_ALL_TO_ALL_V:
        return MPI_Alltoallv(c->in_place ? MPI_IN_PLACE : c->src, counts, displs, type, c->dst, counts, displs, type,
                             MPI_COMM_WORLD);
    case BENCH_GATHER_V:
        return MPI_Gatherv(at_root ? MPI_IN_PLACE : c->src, counts[c->rank], type, c->dst, counts, displs, type,
                           c->root, MPI_COMM_WORLD);
    case BENCH_SCATTER_V:
        return MPI_Scatterv(c->src, counts, displs, type, at_root ? MPI_IN_PLACE : c->dst, counts[c->rank], type,
                            c->root, MPI_COMM_WORLD);
    default:
        return MPI_ERR_OTHER;
    }
}

static int run_shares(const struct bench_call *c, MPI_Datatype type, MPI_Op op)
{
    int n = (int)c->count, at_root = c->in_place && c->rank == c->root;
    const void *src = c->in_place ? MPI_IN_PLACE : c->src;

    switch (c->coll) {
    case BENCH_ALL_GATHER:
        return MPI_Allgather(src, n, type, c->dst, n, type, MPI_COMM_WORLD);
    case BENCH_REDUCE_SCATTER:
        return MPI_Reduce_scatter_block(c->src, c->dst, n, type, op, MPI_COMM_WORLD);
    case BENCH_ALL_TO_ALL:
        return MPI_Alltoall(src, n, type, c->dst, n, type, MPI_COMM_WORLD);
    case BENCH_GATHER:
        return MPI_Gather(at_root ? MPI_IN_PLACE : c->src, n, type, c->dst, n, type, c->root, MPI_COMM_WORLD);
    case BENCH_SCATTER:
        return MPI_Scatter(c->src, n, type, at_root ? MPI_IN_PLACE : c->dst, n, type, c->root, MPI_COMM_WORLD);
    default:
        return run_v(c, type, op);
    }
}

/* MPI_Bcast has one buffer: out of place, the root's result is its source, copied as NCCL would. */
static int run_broadcast(const struct bench_call *c, MPI_Datatype type)
{
    int elem_bytes, out_of_place_root = c->rank == c->root && c->src != c->dst;
    int status = MPI_Bcast(out_of_place_root ? (void *)c->src : c->dst, (int)c->count, type, c->root, MPI_COMM_WORLD);

    if (out_of_place_root && MPI_Type_size(type, &elem_bytes) == MPI_SUCCESS)
        memcpy(c->dst, c->src, c->count * (size_t)elem_bytes);
    return status;
}

static int module_run(const struct bench_call *c)
{
    MPI_Datatype type = to_type(c->dtype);
    MPI_Op op = to_op(c->op);
    int n = (int)c->count;
    const void *src = c->in_place ? MPI_IN_PLACE : c->src;

    switch (c->coll) {
    case BENCH_ALL_REDUCE:
        return MPI_Allreduce(src, c->dst, n, type, op, MPI_COMM_WORLD);
    case BENCH_REDUCE:
        return MPI_Reduce(c->rank == c->root ? src : c->src, c->dst, n, type, op, c->root, MPI_COMM_WORLD);
    case BENCH_BROADCAST:
        return run_broadcast(c, type);
    case BENCH_SCAN:
        return MPI_Scan(src, c->dst, n, type, op, MPI_COMM_WORLD);
    case BENCH_EXSCAN:
        return MPI_Exscan(src, c->dst, n, type, op, MPI_COMM_WORLD);
    case BENCH_BARRIER:
        return MPI_Barrier(MPI_COMM_WORLD);
    case BENCH_SENDRECV:
        return MPI_Sendrecv(c->src, n, type, (c->rank + 1) % c->nranks, 0, c->dst, n, type,
                            (c->rank + c->nranks - 1) % c->nranks, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    default:
        return run_shares(c, type, op);
    }
}

static int module_init(int *rank, int *nranks)
{
    int provided, status = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);

    if (status == MPI_SUCCESS)
        status = MPI_Comm_rank(MPI_COMM_WORLD, rank);
    return status == MPI_SUCCESS ? MPI_Comm_size(MPI_COMM_WORLD, nranks) : status;
}

static int module_version(char *text, int bytes)
{
    char full[MPI_MAX_LIBRARY_VERSION_STRING];
    int n = 0, status = MPI_Get_library_version(full, &n);

    if (status != MPI_SUCCESS || bytes < 1)
        return 1;
    full[strcspn(full, ",\n\t")] = 0;
    strncpy(text, full, (size_t)bytes - 1);
    text[bytes - 1] = 0;
#ifdef MPICH_VERSION
    strncat(text, " " MPICH_VERSION, (size_t)bytes - 1 - strlen(text));
#endif
    return 0;
}

static int module_barrier(void)
{
    return MPI_Barrier(MPI_COMM_WORLD);
}

static int module_all_gather(const void *mine, void *all, size_t bytes)
{
    if (bytes > INT_MAX)
        return 1;
    return MPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, MPI_COMM_WORLD);
}

static int module_finalize(void)
{
    return MPI_Finalize();
}

extern const struct bench_mpi_ops bench_mpi_module;
__attribute__((visibility("default"))) const struct bench_mpi_ops bench_mpi_module = {
    .abi = BENCH_MPI_ABI,
    .library = BENCH_MPI_LIBRARY,
    .init = module_init,
    .finalize = module_finalize,
    .version = module_version,
    .barrier = module_barrier,
    .all_gather = module_all_gather,
    .supports = module_supports,
    .run = module_run,
};
