/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-bench: what each collective is called, how big its buffers are and how its bandwidth is counted. */
#include "weft_bench.h"

#include <string.h>

static const struct {
    const char *name;
    int reduces, rooted;
} colls[] = {
#define BENCH_COLL_ROW(id, name, reduces, rooted) {name, reduces, rooted},
    BENCH_COLL_LIST(BENCH_COLL_ROW)
#undef BENCH_COLL_ROW
};

const char *bench_coll_name(enum bench_coll coll)
{
    return colls[coll].name;
}

int bench_coll_reduces(enum bench_coll coll)
{
    return colls[coll].reduces;
}

int bench_coll_rooted(enum bench_coll coll)
{
    return colls[coll].rooted;
}

/* Spellings of nccl-tests and MPI are understood too. */
int bench_coll_parse(const char *name, enum bench_coll *coll)
{
    static const struct {
        const char *name;
        enum bench_coll coll;
    } aliases[] = {
        {"allreduce", BENCH_ALL_REDUCE}, {"allgather", BENCH_ALL_GATHER},         {"bcast", BENCH_BROADCAST},
        {"alltoall", BENCH_ALL_TO_ALL},  {"reducescatter", BENCH_REDUCE_SCATTER}, {"send_recv", BENCH_SENDRECV},
    };

    for (int i = 0; i < BENCH_NUM_COLLS; i++) {
        if (strcmp(name, colls[i].name) == 0) {
            *coll = (enum bench_coll)i;
            return 0;
        }
    }
    for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++) {
        if (strcmp(name, aliases[i].name) == 0) {
            *coll = aliases[i].coll;
            return 0;
        }
    }
    return -1;
}

int bench_coll_has_in_place(enum bench_coll coll)
{
    return coll != BENCH_BARRIER && coll != BENCH_SENDRECV;
}

int bench_coll_per_rank(enum bench_coll coll)
{
    switch (coll) {
    case BENCH_ALL_GATHER:
    case BENCH_ALL_GATHER_V:
    case BENCH_REDUCE_SCATTER:
    case BENCH_REDUCE_SCATTER_V:
    case BENCH_ALL_TO_ALL:
    case BENCH_ALL_TO_ALL_V:
    case BENCH_GATHER:
    case BENCH_GATHER_V:
    case BENCH_SCATTER:
    case BENCH_SCATTER_V:
        return 1;
    default:
        return 0;
    }
}

double bench_coll_bus_factor(enum bench_coll coll, int nranks)
{
    if (coll == BENCH_ALL_REDUCE)
        return 2.0 * (nranks - 1) / nranks;
    if (bench_coll_per_rank(coll))
        return (double)(nranks - 1) / nranks;
    return coll == BENCH_BARRIER ? 0 : 1;
}

static int is_v(enum bench_coll coll)
{
    return coll == BENCH_ALL_GATHER_V || coll == BENCH_REDUCE_SCATTER_V || coll == BENCH_ALL_TO_ALL_V ||
           coll == BENCH_GATHER_V || coll == BENCH_SCATTER_V;
}

size_t bench_share_elems(enum bench_coll coll, size_t count, int from, int to)
{
    if (!is_v(coll))
        return count;
    int odd = coll == BENCH_ALL_TO_ALL_V ? (from + to) & 1 : to & 1;
    return odd ? count + count / 4 : count - count / 4;
}

size_t bench_layout_make(enum bench_coll coll, size_t count, int nranks, int rank, size_t counts[], size_t displs[])
{
    size_t total = 0;

    for (int i = 0; i < nranks; i++) {
        counts[i] = bench_share_elems(coll, count, rank, i);
        displs[i] = total;
        total += counts[i];
    }
    return bench_coll_per_rank(coll) ? total : count;
}

size_t bench_layout_count(enum bench_coll coll, size_t bytes, size_t elem_bytes, int nranks)
{
    if (coll == BENCH_BARRIER)
        return 0;
    return bytes / elem_bytes / (bench_coll_per_rank(coll) ? (size_t)nranks : 1);
}

size_t bench_layout_bytes(enum bench_coll coll, size_t count, size_t elem_bytes, int nranks)
{
    return count * elem_bytes * (bench_coll_per_rank(coll) ? (size_t)nranks : 1);
}

static size_t total_elems(const struct bench_call *c)
{
    return c->displs[c->nranks - 1] + c->counts[c->nranks - 1];
}

size_t bench_call_src_elems(const struct bench_call *c)
{
    switch (c->coll) {
    case BENCH_BROADCAST:
        return c->rank == c->root ? c->count : 0;
    case BENCH_SCATTER:
    case BENCH_SCATTER_V:
        return c->rank == c->root ? total_elems(c) : 0;
    case BENCH_ALL_GATHER:
    case BENCH_ALL_GATHER_V:
    case BENCH_GATHER:
    case BENCH_GATHER_V:
        return c->counts[c->rank];
    case BENCH_REDUCE_SCATTER:
    case BENCH_REDUCE_SCATTER_V:
    case BENCH_ALL_TO_ALL:
    case BENCH_ALL_TO_ALL_V:
        return total_elems(c);
    default:
        return c->count;
    }
}

/* Elements of the result on this rank that are defined. */
size_t bench_call_dst_elems(const struct bench_call *c)
{
    switch (c->coll) {
    case BENCH_REDUCE:
        return c->rank == c->root ? c->count : 0;
    case BENCH_GATHER:
    case BENCH_GATHER_V:
        return c->rank == c->root ? total_elems(c) : 0;
    case BENCH_ALL_GATHER:
    case BENCH_ALL_GATHER_V:
    case BENCH_ALL_TO_ALL:
    case BENCH_ALL_TO_ALL_V:
        return total_elems(c);
    case BENCH_REDUCE_SCATTER:
    case BENCH_REDUCE_SCATTER_V:
    case BENCH_SCATTER:
    case BENCH_SCATTER_V:
        return c->counts[c->rank];
    case BENCH_EXSCAN:
        return c->rank > 0 ? c->count : 0;
    default:
        return c->count;
    }
}
