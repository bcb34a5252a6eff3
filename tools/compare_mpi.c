/* SPDX-License-Identifier: BSD-3-Clause */
/* The MPI side of weft-compare: fp32 collectives, with weft-bench's buffers, counts and timing rule. A plain MPI
 * program, so that nothing of weft is in its processes. Prints "bytes microseconds" per size on rank 0. Usage:
 * compare_mpi COLLECTIVE SIZE... */
#include "bench_rule.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum coll { ALL_REDUCE, BROADCAST, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, REDUCE, GATHER, SCATTER, NUM_COLLS };

static const char *const names[] = {"all_reduce", "broadcast", "all_gather", "reduce_scatter",
                                    "all_to_all", "reduce",    "gather",     "scatter"};

static int rank, nranks;

static int run(enum coll coll, const float *src, float *dst, int count)
{
    switch (coll) {
    case ALL_REDUCE:
        return MPI_Allreduce(src, dst, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    case BROADCAST: /* one buffer: the root's is its source */
        return MPI_Bcast(rank == 0 ? (void *)src : dst, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
    case ALL_GATHER:
        return MPI_Allgather(src, count, MPI_FLOAT, dst, count, MPI_FLOAT, MPI_COMM_WORLD);
    case REDUCE_SCATTER:
        return MPI_Reduce_scatter_block(src, dst, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    case ALL_TO_ALL:
        return MPI_Alltoall(src, count, MPI_FLOAT, dst, count, MPI_FLOAT, MPI_COMM_WORLD);
    case REDUCE:
        return MPI_Reduce(src, dst, count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
    case GATHER:
        return MPI_Gather(src, count, MPI_FLOAT, dst, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
    default:
        return MPI_Scatter(src, count, MPI_FLOAT, dst, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
    }
}

static int is_vector(enum coll coll)
{
    return coll == ALL_REDUCE || coll == BROADCAST || coll == REDUCE;
}

static void fill(float *src, size_t elems, unsigned seed)
{
    for (size_t i = 0; i < elems; i++)
        src[i] = (float)((i * 7 + (size_t)rank * 3 + seed) % 1024);
}

/* One value per rank and position, whatever the collective: enough to notice a wrong program. */
static int wrong(enum coll coll, const float *dst, size_t elems, unsigned seed)
{
    if (coll != ALL_REDUCE || elems == 0)
        return 0;
    for (size_t k = 0; k < 16; k++) {
        size_t i = k * (elems - 1) / 15;
        float want = 0;
        for (int r = 0; r < nranks; r++)
            want += (float)((i * 7 + (size_t)r * 3 + seed) % 1024);
        if (dst[i] != want)
            return 1;
    }
    return 0;
}

static double measure(enum coll coll, float *src, float *dst, size_t elems, size_t bytes, unsigned seed)
{
    int count = (int)(is_vector(coll) ? elems : elems / (size_t)nranks);
    uint64_t warm = bench_rule_warmup(bytes);

    run(coll, src, dst, count);
    double start = bench_now_ns();
    for (uint64_t i = 0; i < warm; i++)
        run(coll, src, dst, count);
    double call_ns = (bench_now_ns() - start) / (double)warm, slowest;
    MPI_Allreduce(&call_ns, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    uint64_t iters = bench_rule_iters(bytes, slowest);

    run(coll, src, dst, count);
    fill(src, elems, seed);
    MPI_Barrier(MPI_COMM_WORLD);
    start = bench_now_ns();
    for (uint64_t i = 0; i < iters; i++)
        run(coll, src, dst, count);
    double mine = (bench_now_ns() - start) / (double)iters, sum;
    MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return sum / nranks;
}

static int coll_parse(const char *name)
{
    for (int i = 0; i < NUM_COLLS; i++)
        if (strcmp(name, names[i]) == 0)
            return i;
    return -1;
}

int main(int argc, char **argv)
{
    size_t most = 0;
    int failed = 0, coll = argc > 2 ? coll_parse(argv[1]) : -1;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    for (int i = 2; i < argc; i++) {
        size_t bytes = strtoull(argv[i], NULL, 10);
        most = bytes > most ? bytes : most;
    }
    float *src = calloc(1, most + 64), *dst = calloc(1, most + 64);
    if (coll < 0 || most == 0 || !src || !dst) {
        fprintf(stderr, "usage: compare_mpi COLLECTIVE SIZE...\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (int i = 2; i < argc; i++) {
        size_t bytes = strtoull(argv[i], NULL, 10), elems = bytes / sizeof(float);
        double ns = measure((enum coll)coll, src, dst, elems, bytes, (unsigned)i);
        failed |= wrong((enum coll)coll, dst, elems, (unsigned)i);
        if (rank == 0)
            printf("%zu %.4f\n", bytes, ns / 1e3);
    }
    if (failed)
        fprintf(stderr, "compare_mpi: rank %d: wrong result\n", rank);
    free(src);
    free(dst);
    MPI_Finalize();
    return failed;
}
