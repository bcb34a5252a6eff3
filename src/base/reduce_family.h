/* SPDX-License-Identifier: BSD-3-Clause */
/* Template, included once per dtype by reduce_simd.h: the two loops of a dtype, with the operator as a constant that
 * is folded after inlining. Expects
 *   FAM         prefix of all names
 *   FAM_BYTES   of an element in memory
 *   FAM_CLASS   F, H or Q: a vector of elements fills a whole, half or quarter vector register
 *   FAM_COMPUTE vector type of the accumulator; its lanes are the elements handled at once
 *   FAM_NUMBER  scalar type of its lanes
 *   FAM_DECODE, FAM_ENCODE, FAM_APPLY(op, a, b), FAM_FINISH
 *   FAM_SCALES  1 if avg's division is done here
 *   FAM_UNROLL  vectors in flight
 * Each chunk's loads of all sources come before its first store, so a destination may equal a source. */

#define F(name) WI_JOIN(FAM, name)
#define LOAD WI_JOIN(raw_load, FAM_CLASS)
#define STORE WI_JOIN(raw_store, FAM_CLASS)
#define STREAM WI_JOIN(raw_stream, FAM_CLASS)
#define LOAD_PART WI_JOIN(raw_load_part, FAM_CLASS)
#define STORE_PART WI_JOIN(raw_store_part, FAM_CLASS)
#define LANES (sizeof(FAM_COMPUTE) / sizeof(FAM_NUMBER))
#define VECTOR_BYTES (LANES * FAM_BYTES)

static inline WI_INLINE FAM_COMPUTE F(complete)(const struct wi_reduce_job *job, FAM_COMPUTE acc)
{
#if FAM_SCALES
    if (job->scaling == WI_SCALE_MULTIPLY)
        acc = acc * (FAM_NUMBER)job->scale;
    else if (job->scaling == WI_SCALE_DIVIDE)
        acc = acc / (FAM_NUMBER)job->scale;
#else
    (void)job;
#endif
    return FAM_FINISH(acc);
}

/* `count` lanes at most; with masks any count, else a power of two. */
static inline WI_INLINE void F(two_part)(int op, char *dst, const char *a, const char *b, size_t count)
{
    FAM_COMPUTE x = FAM_DECODE(LOAD_PART(a, count, FAM_BYTES));
    FAM_COMPUTE y = FAM_DECODE(LOAD_PART(b, count, FAM_BYTES));

    x = FAM_APPLY(op, x, y);
    STORE_PART(dst, FAM_ENCODE(FAM_FINISH(x)), count, FAM_BYTES);
}

static inline WI_INLINE void F(two)(int op, void *dst, const void *a, const void *b, size_t elems)
{
    const char *x = a, *y = b;
    char *out = dst;

    for (; elems >= FAM_UNROLL * LANES; elems -= FAM_UNROLL * LANES) {
        FAM_COMPUTE acc[FAM_UNROLL];

        WI_UNROLL
        for (int u = 0; u < FAM_UNROLL; u++)
            acc[u] = FAM_APPLY(op, FAM_DECODE(LOAD(x + u * VECTOR_BYTES)),
                               FAM_DECODE(LOAD(y + u * VECTOR_BYTES)));
        WI_UNROLL
        for (int u = 0; u < FAM_UNROLL; u++)
            STORE(out + u * VECTOR_BYTES, FAM_ENCODE(FAM_FINISH(acc[u])));
        x += FAM_UNROLL * VECTOR_BYTES;
        y += FAM_UNROLL * VECTOR_BYTES;
        out += FAM_UNROLL * VECTOR_BYTES;
    }
    for (; elems >= LANES; elems -= LANES) {
        FAM_COMPUTE acc = FAM_APPLY(op, FAM_DECODE(LOAD(x)), FAM_DECODE(LOAD(y)));

        STORE(out, FAM_ENCODE(FAM_FINISH(acc)));
        x += VECTOR_BYTES;
        y += VECTOR_BYTES;
        out += VECTOR_BYTES;
    }
#if WI_SIMD_MASKED
    if (elems)
        F(two_part)(op, out, x, y, elems);
#else
    for (size_t part = LANES / 2; part && elems; part /= 2) {
        if (!(elems & part))
            continue;
        F(two_part)(op, out, x, y, part);
        elems -= part;
        x += part * FAM_BYTES;
        y += part * FAM_BYTES;
        out += part * FAM_BYTES;
    }
#endif
}

static inline WI_INLINE const char *F(source)(const struct wi_reduce_job *job, int s, size_t i)
{
    return (const char *)job->src[s] + (job->src_offset + i) * FAM_BYTES;
}

static inline WI_INLINE char *F(target)(const struct wi_reduce_job *job, int d, size_t i)
{
    return (char *)job->dst[d] + (job->dst_offset + i) * FAM_BYTES;
}

static inline WI_INLINE void F(many_part)(int op, const struct wi_reduce_job *job, size_t i, size_t count)
{
    int s = 0;
    FAM_COMPUTE acc = {0};

    if (job->acc_in)
        memcpy(&acc, (const FAM_NUMBER *)job->acc_in + i, count * sizeof(FAM_NUMBER));
    else
        acc = FAM_DECODE(LOAD_PART(F(source)(job, s++, i), count, FAM_BYTES));
    for (; s < job->nsrc; s++)
        acc = FAM_APPLY(op, acc, FAM_DECODE(LOAD_PART(F(source)(job, s, i), count, FAM_BYTES)));
    if (job->acc_out) {
        memcpy((FAM_NUMBER *)job->acc_out + i, &acc, count * sizeof(FAM_NUMBER));
        return;
    }
    acc = F(complete)(job, acc);
    for (int d = 0; d < job->ndst; d++)
        STORE_PART(F(target)(job, d, i), FAM_ENCODE(acc), count, FAM_BYTES);
}

/* Fewer elements than a vector has lanes. */
static inline WI_INLINE void F(many_rest)(int op, const struct wi_reduce_job *job, size_t i, size_t count)
{
#if WI_SIMD_MASKED
    if (count)
        F(many_part)(op, job, i, count);
#else
    for (size_t part = LANES / 2; part; part /= 2) {
        if (!(count & part))
            continue;
        F(many_part)(op, job, i, part);
        i += part;
    }
#endif
}

static inline WI_INLINE void F(many_vectors)(int op, const struct wi_reduce_job *job, size_t i, int unroll,
                                             const unsigned char *stream)
{
    FAM_COMPUTE acc[FAM_UNROLL];
    int s = 0;

    if (job->acc_in) {
        WI_UNROLL
        for (int u = 0; u < unroll; u++)
            memcpy(&acc[u], (const FAM_NUMBER *)job->acc_in + i + u * LANES, sizeof(acc[u]));
    } else {
        WI_UNROLL
        for (int u = 0; u < unroll; u++)
            acc[u] = FAM_DECODE(LOAD(F(source)(job, 0, i + u * LANES)));
        s = 1;
    }
    for (; s < job->nsrc; s++) {
        const char *p = F(source)(job, s, i);

        WI_UNROLL
        for (int u = 0; u < unroll; u++)
            acc[u] = FAM_APPLY(op, acc[u], FAM_DECODE(LOAD(p + u * VECTOR_BYTES)));
    }
    if (job->acc_out) {
        WI_UNROLL
        for (int u = 0; u < unroll; u++)
            memcpy((FAM_NUMBER *)job->acc_out + i + u * LANES, &acc[u], sizeof(acc[u]));
        return;
    }
    WI_UNROLL
    for (int u = 0; u < unroll; u++)
        acc[u] = F(complete)(job, acc[u]);
    for (int d = 0; d < job->ndst; d++) {
        char *p = F(target)(job, d, i);

        if (stream && stream[d]) {
            WI_UNROLL
            for (int u = 0; u < unroll; u++)
                STREAM(p + u * VECTOR_BYTES, FAM_ENCODE(acc[u]));
        } else {
            WI_UNROLL
            for (int u = 0; u < unroll; u++)
                STORE(p + u * VECTOR_BYTES, FAM_ENCODE(acc[u]));
        }
    }
}

/* Elements before the first destination is aligned for streaming. */
static inline WI_INLINE size_t F(many_head)(const struct wi_reduce_job *job, unsigned char *stream)
{
    size_t misaligned = (size_t)(-(uintptr_t)F(target)(job, 0, 0)) % VECTOR_BYTES;
    size_t head = misaligned / FAM_BYTES;

    if (head > job->elems)
        head = job->elems;
    for (int d = 0; d < job->ndst; d++)
        stream[d] = (uintptr_t)F(target)(job, d, head) % VECTOR_BYTES == 0;
    return head;
}

static inline WI_INLINE void F(many)(int op, const struct wi_reduce_job *job)
{
    size_t i = 0, elems = job->elems;

    if (job->stream && job->ndst <= WI_REDUCE_MAX_SRC) {
        unsigned char stream[WI_REDUCE_MAX_SRC];

        i = F(many_head)(job, stream);
        F(many_rest)(op, job, 0, i);
        for (; elems - i >= FAM_UNROLL * LANES; i += FAM_UNROLL * LANES)
            F(many_vectors)(op, job, i, FAM_UNROLL, stream);
    } else {
        for (; elems - i >= FAM_UNROLL * LANES; i += FAM_UNROLL * LANES)
            F(many_vectors)(op, job, i, FAM_UNROLL, NULL);
    }
    for (; elems - i >= LANES; i += LANES)
        F(many_vectors)(op, job, i, 1, NULL);
    F(many_rest)(op, job, i, elems - i);
}

#undef F
#undef LOAD
#undef STORE
#undef STREAM
#undef LOAD_PART
#undef STORE_PART
#undef LANES
#undef VECTOR_BYTES
#undef FAM
#undef FAM_BYTES
#undef FAM_CLASS
#undef FAM_COMPUTE
#undef FAM_NUMBER
#undef FAM_DECODE
#undef FAM_ENCODE
#undef FAM_APPLY
#undef FAM_FINISH
#undef FAM_SCALES
#undef FAM_UNROLL
