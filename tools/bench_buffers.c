/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-bench: buffers of the three kinds of memory, and where a call points into them. */
#include "weft_bench.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static size_t page_round(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    return (bytes + page) / page * page;
}

/* malloc'ed memory is what programs have; registered memory is page-aligned so that all of it can be adopted. */
static weft_status one_create(struct bench *b, size_t bytes, void **base, weft_mem **mem)
{
    weft_status status = WEFT_SUCCESS;

    *mem = NULL;
    if (b->o.memory == BENCH_ALLOC) {
        status = weft_mem_alloc(b->context, bytes, base);
    } else if (b->o.memory == BENCH_REGISTER) {
        if (posix_memalign(base, (size_t)sysconf(_SC_PAGESIZE), page_round(bytes)) != 0)
            return WEFT_ENOMEM;
        memset(*base, 0, bytes);
        status = weft_mem_register(b->context, *base, page_round(bytes), mem);
        if (status != WEFT_SUCCESS) {
            free(*base);
            *base = NULL;
        }
    } else {
        *base = malloc(bytes);
        if (!*base)
            return WEFT_ENOMEM;
    }
    if (status != WEFT_SUCCESS)
        return bench_fail(b, b->o.memory == BENCH_ALLOC ? "weft_mem_alloc" : "weft_mem_register", status);
    memset(*base, 0, bytes);
    return WEFT_SUCCESS;
}

static void one_destroy(struct bench *b, void *base, weft_mem *mem)
{
    if (!base)
        return;
    if (b->o.memory == BENCH_ALLOC) {
        weft_mem_free(b->context, base);
        return;
    }
    if (mem)
        weft_mem_deregister(mem);
    free(base);
}

weft_status bench_buffers_create(struct bench *b, size_t bytes, struct bench_buffers *buf)
{
    size_t offset = b->o.offset;

    memset(buf, 0, sizeof(*buf));
    buf->bytes = bytes;
    weft_status status = one_create(b, bytes + offset + BENCH_SLACK, &buf->src_base, &buf->src_mem);
    if (status == WEFT_SUCCESS)
        status = one_create(b, bytes + offset + BENCH_SLACK, &buf->dst_base, &buf->dst_mem);
    if (status != WEFT_SUCCESS) {
        bench_buffers_destroy(b, buf);
        return status == WEFT_ENOMEM ? bench_fail(b, "buffers", status) : status;
    }
    buf->src = (char *)buf->src_base + offset;
    buf->dst = (char *)buf->dst_base + offset;
    return WEFT_SUCCESS;
}

void bench_buffers_destroy(struct bench *b, struct bench_buffers *buf)
{
    one_destroy(b, buf->src_base, buf->src_mem);
    one_destroy(b, buf->dst_base, buf->dst_mem);
    memset(buf, 0, sizeof(*buf));
}

static void aim_in_place(const struct bench_buffers *buf, struct bench_call *c)
{
    size_t shift = c->displs[c->rank] * weft_dtype_bytes(c->dtype);

    c->src = c->dst = buf->dst;
    switch (c->coll) {
    case BENCH_ALL_GATHER:
    case BENCH_ALL_GATHER_V:
        c->src = buf->dst + shift;
        return;
    case BENCH_REDUCE_SCATTER:
    case BENCH_REDUCE_SCATTER_V:
        c->dst = buf->dst + shift;
        return;
    case BENCH_GATHER:
    case BENCH_GATHER_V:
        c->src = c->rank == c->root ? buf->dst + shift : buf->src;
        return;
    case BENCH_SCATTER:
    case BENCH_SCATTER_V:
        c->src = buf->src;
        c->dst = c->rank == c->root ? buf->src + shift : buf->dst;
        return;
    default:
        return;
    }
}

void bench_buffers_aim(const struct bench_buffers *buf, struct bench_call *c, int in_place)
{
    c->in_place = in_place;
    if (in_place) {
        aim_in_place(buf, c);
        return;
    }
    c->src = buf->src;
    c->dst = buf->dst;
}

int bench_one_all_reduce(struct bench *b, const char *what,
                         weft_status (*measure)(struct bench *b, struct bench_call *call, double t[4]), double t[4],
                         double *wrong)
{
    size_t bytes = b->o.max_bytes, counts[1] = {0}, displs[1] = {0};
    struct bench_buffers buf;

    if (bench_buffers_create(b, bytes, &buf) != WEFT_SUCCESS)
        return b->failed = 1, 1;
    struct bench_call call = {.coll = BENCH_ALL_REDUCE,
                              .rank = b->rank,
                              .nranks = b->nranks,
                              .counts = counts,
                              .displs = displs,
                              .count = bytes / 4,
                              .dtype = WEFT_FLOAT32,
                              .op = WEFT_SUM,
                              .src = buf.src,
                              .dst = buf.dst};
    bench_data_fill(&call, 1);
    weft_status status = measure(b, &call, t);
    *wrong = bench_codec_is_for(b, &call) ? 0 : (double)bench_data_wrong(&call, 1);
    if (b->rank == 0 && bench_codec_is_for(b, &call))
        printf("# codec: %s, by WEFT_COMPRESS: the result is not exact and not checked\n", bench_codec(b));
    if (status == WEFT_SUCCESS)
        status = bench_share(b, wrong, 1, WEFT_SUM);
    bench_buffers_destroy(b, &buf);
    if (status != WEFT_SUCCESS)
        return b->failed = 1, bench_fail(b, what, status), 1;
    return 0;
}
