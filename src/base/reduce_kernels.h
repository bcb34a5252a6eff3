/* SPDX-License-Identifier: BSD-3-Clause */
/* Between the dispatcher (reduce.c) and the kernels of each instruction set. */
#ifndef WI_BASE_REDUCE_KERNELS_H
#define WI_BASE_REDUCE_KERNELS_H

#include "base/reduce.h"

#define WI_REDUCE_FUSED_MAX 8       /* sources read side by side: more would exceed the ways of an L1 set */
#define WI_REDUCE_BLOCK_BYTES 8192u /* of an accumulator or result that stays in L1 between passes */

enum wi_scaling { WI_SCALE_NONE, WI_SCALE_MULTIPLY, WI_SCALE_DIVIDE };

/* One pass over up to WI_REDUCE_FUSED_MAX sources. */
struct wi_reduce_job {
    void *const *dst;
    const void *const *src;
    int ndst, nsrc;
    size_t elems;
    size_t src_offset; /* elements; dst_offset likewise: blocks of a longer vector */
    size_t dst_offset;
    int stream;        /* non-temporal stores; the kernel does not fence */
    enum wi_scaling scaling;
    double scale;       /* factor or divisor */
    const void *acc_in; /* NULL, or the unrounded result of earlier sources, in the compute type */
    void *acc_out;      /* NULL, or where to put the unrounded result instead of dst */
};

struct wi_kernel {
    void (*two)(void *dst, const void *a, const void *b, size_t elems);
    void (*many)(const struct wi_reduce_job *job); /* NULL: only `two` */
    unsigned char shift;         /* elems << shift real numbers: 1 for complex treated as pairs */
    unsigned char compute_bytes; /* of one number in an accumulator */
};

struct wi_isa {
    const char *name;
    const struct wi_kernel (*kernels)[WEFT_NUM_OPS]; /* [dtype][op]; two is NULL where undefined */
    void (*copy_stream)(void *dst, const void *src, size_t bytes); /* not fenced */
    void (*fence)(void);
    void (*copy)(void *dst, const void *src, size_t bytes); /* at least 64 bytes */
};

extern const struct wi_isa wi_isa_scalar;
#if defined(__x86_64__)
extern const struct wi_isa wi_isa_avx2;
extern const struct wi_isa wi_isa_avx512;
#elif defined(__aarch64__)
extern const struct wi_isa wi_isa_neon;
#endif

/* The best instruction set that this CPU has and no setting forbids. */
extern const struct wi_isa *wi_isa_current;

/* Complex operators that are not two real ones; the same code for every instruction set. */
void wi_c64_prod(void *dst, const void *a, const void *b, size_t elems);
void wi_c64_land(void *dst, const void *a, const void *b, size_t elems);
void wi_c64_lor(void *dst, const void *a, const void *b, size_t elems);
void wi_c64_lxor(void *dst, const void *a, const void *b, size_t elems);
void wi_c128_prod(void *dst, const void *a, const void *b, size_t elems);
void wi_c128_land(void *dst, const void *a, const void *b, size_t elems);
void wi_c128_lor(void *dst, const void *a, const void *b, size_t elems);
void wi_c128_lxor(void *dst, const void *a, const void *b, size_t elems);

/* In place, truncating toward zero. */
void wi_int_divide(weft_dtype dtype, void *data, size_t elems, uint32_t divisor);

#endif
