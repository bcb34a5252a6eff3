/* SPDX-License-Identifier: BSD-3-Clause */
/* From a reduction to kernels. One pass over all sources where a kernel can; otherwise blocks that stay in L1, so that
 * memory is read once per source and written once per destination. */
#include "base/reduce.h"

#include <string.h>

#include "base/reduce_kernels.h"
#include "base/status.h"

#define COPY_STREAM_MIN_BYTES ((size_t)4 << 20) /* doc in wi_copy */
#define COPY_SIMD_MIN_BYTES 256u
#define ALIGN_MIN_ELEMS 512u
#define STREAM_MIN_BYTES 512u /* below, fences cost more than they save */

struct block {
    _Alignas(64) unsigned char bytes[WI_REDUCE_BLOCK_BYTES];
};

static inline const struct wi_isa *isa(void)
{
    return __atomic_load_n(&wi_isa_current, __ATOMIC_RELAXED);
}

weft_status wi_redop_check(weft_dtype dtype, weft_op op)
{
    if ((unsigned)dtype >= WEFT_NUM_DTYPES)
        return wi_fail(WEFT_EINVAL, "unknown dtype %d", (int)dtype);
    if (op >= WEFT_NUM_OPS)
        return wi_fail(WEFT_EINVAL, "unknown operator %u", (unsigned)op);
    if (!wi_isa_scalar.kernels[dtype][op].two)
        return wi_fail(WEFT_ENOTSUP, "operator %s is undefined for %s", weft_op_name(op), weft_dtype_name(dtype));
    return WEFT_SUCCESS;
}

static int dtype_is_int(unsigned dtype)
{
    return dtype <= WEFT_UINT64;
}

static int divides(const struct wi_redop *redop, unsigned flags)
{
    return (flags & WI_REDUCE_FINAL) && redop->op == WEFT_AVG && !redop->user && redop->dtype != WEFT_BOOL &&
           redop->divisor > 1;
}

static const char *at(const void *base, size_t elem, const struct wi_redop *redop)
{
    return (const char *)base + elem * redop->elem_bytes;
}

/* ---- Blocked: any operator as a chain of two-operand steps in a block of L1. */

__thread int wi_in_operator;

static void step_two(const struct wi_redop *redop, void *out, const void *left, const void *right, size_t elems)
{
    const struct wi_kernel *kernel;

    if (redop->user) {
        wi_in_operator++;
        redop->fn(left, right, out, elems, (weft_dtype)redop->dtype, redop->arg);
        wi_in_operator--;
        return;
    }
    kernel = &isa()->kernels[redop->dtype][redop->op];
    kernel->two(out, left, right, elems << kernel->shift);
}

static void block_write(void *out, const void *block, size_t bytes, int stream)
{
    if (stream)
        isa()->copy_stream(out, block, bytes);
    else
        wi_copy(out, block, bytes, 0);
}

static void reduce_blocked(const struct wi_redop *redop, void *const dst[], int ndst, const void *const src[], int nsrc,
                           size_t elems, int stream, int divide)
{
    size_t step = WI_REDUCE_BLOCK_BYTES / redop->elem_bytes;
    struct block block;

    for (size_t i = 0; i < elems; i += step) {
        size_t count = elems - i < step ? elems - i : step;
        /* Into the destination itself where nothing more will be read from under it. */
        int direct = !stream && nsrc <= 2;
        void *acc = direct ? (char *)dst[0] + i * redop->elem_bytes : (void *)block.bytes;

        if (nsrc == 1)
            memmove(acc, at(src[0], i, redop), count * redop->elem_bytes);
        else
            step_two(redop, acc, at(src[0], i, redop), at(src[1], i, redop), count);
        for (int s = 2; s < nsrc; s++)
            step_two(redop, acc, acc, at(src[s], i, redop), count);
        if (divide)
            wi_int_divide((weft_dtype)redop->dtype, acc, count, redop->divisor);
        for (int d = 0; d < ndst; d++)
            block_write((char *)dst[d] + i * redop->elem_bytes, acc, count * redop->elem_bytes, stream);
    }
}

/* ---- Fused: a kernel that reads all sources side by side. */

static void job_scaling(struct wi_reduce_job *job, uint32_t divisor)
{
    /* The reciprocal of a power of two is exact: the product is the same as the quotient. */
    if ((divisor & (divisor - 1)) == 0) {
        job->scaling = WI_SCALE_MULTIPLY;
        job->scale = 1.0 / divisor;
    } else {
        job->scaling = WI_SCALE_DIVIDE;
        job->scale = divisor;
    }
}

/* More sources than a kernel takes: groups of them per block, the unrounded sum in between kept in L1. */
static void reduce_grouped(const struct wi_kernel *kernel, struct wi_reduce_job *job, size_t number_bytes)
{
    const void *const *src = job->src;
    size_t elems = job->elems, step = WI_REDUCE_BLOCK_BYTES / kernel->compute_bytes, count;
    size_t misaligned = (uintptr_t)job->dst[0] % 64 / number_bytes;
    int nsrc = job->nsrc;
    struct block acc;

    for (size_t i = 0; i < elems; i += count) {
        count = i ? step : step - misaligned; /* later blocks begin on a cache line */
        if (count > elems - i)
            count = elems - i;
        job->elems = count;
        job->src_offset = job->dst_offset = i;
        for (int s = 0; s < nsrc; s += WI_REDUCE_FUSED_MAX) {
            job->src = src + s;
            job->nsrc = nsrc - s < WI_REDUCE_FUSED_MAX ? nsrc - s : WI_REDUCE_FUSED_MAX;
            job->acc_in = s ? acc.bytes : NULL;
            job->acc_out = s + job->nsrc < nsrc ? acc.bytes : NULL;
            kernel->many(job);
        }
    }
}

static void reduce_fused(const struct wi_redop *redop, const struct wi_kernel *kernel, struct wi_reduce_job *job,
                         unsigned flags)
{
    if (divides(redop, flags))
        job_scaling(job, redop->divisor);
    job->elems <<= kernel->shift;
    if (job->nsrc > WI_REDUCE_FUSED_MAX)
        reduce_grouped(kernel, job, redop->elem_bytes >> kernel->shift);
    else
        kernel->many(job);
}

static int aligned_alike(void *const dst[], int ndst)
{
    for (int d = 1; d < ndst; d++)
        if (((uintptr_t)dst[d] ^ (uintptr_t)dst[0]) % 64)
            return 0;
    return 1;
}

/* Streams need whole lines: destinations that lie differently in theirs are each written from a block in L1. */
static void reduce_staged(const struct wi_redop *redop, const struct wi_kernel *kernel, const struct wi_reduce_job *all,
                          unsigned flags)
{
    size_t step = WI_REDUCE_BLOCK_BYTES / redop->elem_bytes, bytes = redop->elem_bytes;
    const void *src[WI_REDUCE_MAX_SRC];
    struct block block;

    for (size_t i = 0; i < all->elems; i += step) {
        size_t count = all->elems - i < step ? all->elems - i : step;
        struct wi_reduce_job job = {
            .dst = (void *const[]){block.bytes}, .src = src, .ndst = 1, .nsrc = all->nsrc, .elems = count};

        for (int s = 0; s < all->nsrc; s++)
            src[s] = (const char *)all->src[s] + i * bytes;
        reduce_fused(redop, kernel, &job, flags);
        for (int d = 0; d < all->ndst; d++)
            isa()->copy_stream((char *)all->dst[d] + i * bytes, block.bytes, count * bytes);
    }
}

/* The unrounded result of each block, in L1, is divided in its own type, and what is there is its last operand. */
static void reduce_adding(const struct wi_redop *redop, void *dst, const void *const src[], int nsrc, size_t elems,
                          unsigned flags)
{
    const struct wi_kernel *kernel = &isa()->kernels[redop->dtype][redop->op];
    int wide = kernel->compute_bytes == sizeof(double);
    const struct wi_kernel *divider = &isa()->kernels[wide ? WEFT_FLOAT64 : WEFT_FLOAT32][WEFT_AVG];
    size_t step = WI_REDUCE_BLOCK_BYTES / kernel->compute_bytes;
    struct block acc;

    for (size_t i = 0; i < elems; i += step) {
        struct wi_reduce_job job = {.ndst = 1, .elems = elems - i < step ? elems - i : step, .acc_out = acc.bytes};

        job.src_offset = job.dst_offset = i;
        for (int s = 0; s < nsrc; s += WI_REDUCE_FUSED_MAX) {
            job.src = src + s;
            job.nsrc = nsrc - s < WI_REDUCE_FUSED_MAX ? nsrc - s : WI_REDUCE_FUSED_MAX;
            job.acc_in = s ? acc.bytes : NULL;
            kernel->many(&job);
        }
        if (divides(redop, flags)) {
            struct wi_reduce_job all = {.dst = (void *const[]){acc.bytes},
                                        .src = (const void *const[]){acc.bytes},
                                        .ndst = 1,
                                        .nsrc = 1,
                                        .elems = job.elems};
            job_scaling(&all, redop->divisor);
            divider->many(&all);
        }
        job.src = (const void *const[]){dst};
        job.dst = (void *const[]){dst};
        job.nsrc = 1;
        job.acc_in = acc.bytes;
        job.acc_out = NULL;
        kernel->many(&job);
    }
}

/* Several destinations are served block by block, so that the source is read from memory once. */
static void copy_all(void *const dst[], int ndst, const void *src, size_t bytes, int stream)
{
    for (size_t i = 0; i < bytes; i += WI_REDUCE_BLOCK_BYTES) {
        size_t count = bytes - i < WI_REDUCE_BLOCK_BYTES ? bytes - i : WI_REDUCE_BLOCK_BYTES;

        for (int d = 0; d < ndst; d++) {
            if (dst[d] != src)
                block_write((char *)dst[d] + i, (const char *)src + i, count, stream);
        }
    }
}

void wi_reduce(const struct wi_redop *redop, void *const dst[], int ndst, const void *const src[], int nsrc,
               size_t elems, unsigned flags)
{
    int divide = divides(redop, flags);
    int stream = (flags & WI_REDUCE_NT) && elems * redop->elem_bytes >= STREAM_MIN_BYTES;
    const struct wi_kernel *kernel;

    if (elems == 0)
        return;
    if (flags & WI_REDUCE_ADD) {
        reduce_adding(redop, dst[0], src, nsrc, elems, flags);
        return;
    }
    if (nsrc == 1 && ndst == 1 && !divide) {
        wi_copy(dst[0], src[0], elems * redop->elem_bytes, flags);
        return;
    }
    kernel = redop->user ? NULL : &isa()->kernels[redop->dtype][redop->op];
    if (nsrc == 1 && !divide) {
        copy_all(dst, ndst, src[0], elems * redop->elem_bytes, stream);
    } else if (!kernel || !kernel->many || (divide && dtype_is_int(redop->dtype))) {
        reduce_blocked(redop, dst, ndst, src, nsrc, elems, stream, divide);
    } else {
        struct wi_reduce_job job = {
            .dst = dst, .src = src, .ndst = ndst, .nsrc = nsrc, .elems = elems, .stream = stream};

        if (stream && !aligned_alike(dst, ndst) && nsrc <= WI_REDUCE_MAX_SRC)
            reduce_staged(redop, kernel, &job, flags);
        else
            reduce_fused(redop, kernel, &job, flags);
    }
    if (stream)
        isa()->fence();
}

void wi_reduce2(const struct wi_redop *redop, void *dst, const void *a, const void *b, size_t elems, unsigned flags)
{
    if (__builtin_expect(!redop->user && !(flags & (WI_REDUCE_NT | WI_REDUCE_ADD)) && !divides(redop, flags), 1)) {
        const struct wi_kernel *kernel = &isa()->kernels[redop->dtype][redop->op];

        /* Stores that straddle lines cost double; but so do loads, and lines that another core wrote cost most. */
        if (elems >= ALIGN_MIN_ELEMS && (uintptr_t)dst % 64 && (uintptr_t)a % 64 && (uintptr_t)b % 64) {
            size_t head = (64 - (uintptr_t)dst % 64) / redop->elem_bytes;

            kernel->two(dst, a, b, head << kernel->shift);
            dst = (char *)dst + head * redop->elem_bytes;
            a = (const char *)a + head * redop->elem_bytes;
            b = (const char *)b + head * redop->elem_bytes;
            elems -= head;
        }
        kernel->two(dst, a, b, elems << kernel->shift);
        return;
    }
    wi_reduce(redop, &dst, 1, (const void *const[]){a, b}, 2, elems, flags);
}

/* Multiply by a block full of the scalar: rounding, wrapping and NaN are those of prod. */
void wi_scale(weft_dtype dtype, const void *scalar, void *dst, const void *src, size_t elems)
{
    const struct wi_kernel *kernel = &isa()->kernels[dtype][WEFT_PROD];
    size_t bytes = weft_dtype_bytes(dtype), step = WI_REDUCE_BLOCK_BYTES / bytes, fill = bytes;
    struct block factors;

    if (elems < step)
        step = elems;
    if (elems == 0)
        return;
    memcpy(factors.bytes, scalar, bytes);
    for (; fill < step * bytes; fill *= 2)
        memcpy(factors.bytes + fill, factors.bytes, fill < step * bytes - fill ? fill : step * bytes - fill);
    for (size_t i = 0; i < elems; i += step) {
        size_t count = elems - i < step ? elems - i : step;

        kernel->two((char *)dst + i * bytes, factors.bytes, (const char *)src + i * bytes, count << kernel->shift);
    }
}

void wi_copy(void *dst, const void *src, size_t bytes, unsigned flags)
{
    if (dst == src || bytes == 0)
        return;
    if (bytes < COPY_SIMD_MIN_BYTES) {
        memcpy(dst, src, bytes);
        return;
    }
    if (bytes < STREAM_MIN_BYTES || (bytes < COPY_STREAM_MIN_BYTES && !(flags & WI_REDUCE_NT))) {
        isa()->copy(dst, src, bytes);
        return;
    }
    isa()->copy_stream(dst, src, bytes);
    isa()->fence();
}

void wi_copy_twice(void *dst, void *other, const void *src, size_t bytes)
{
    copy_all((void *const[]){dst, other}, 2, src, bytes, 0);
}
