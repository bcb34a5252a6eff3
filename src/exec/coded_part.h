/* SPDX-License-Identifier: BSD-3-Clause */
/* Parts of coded work, for coded.c and feedback.c: so many elements, whose vectors stay in the cache while they are gone over. */
#ifndef WI_EXEC_CODED_PART_H
#define WI_EXEC_CODED_PART_H

#include "exec/coded.h"
#include "exec/engine.h"

#define WI_PART_CONVERTED 2 /* operands of a sum that are converted before what there is is summed */
/* The vectors of a part, in fp32. The first of WI_VECTOR_OPERANDS is one of so many. */
enum wi_part_vector {
    WI_VECTOR_SUM,
    WI_VECTOR_RESULT,
    WI_VECTOR_GIVEN, /* and two more, of error feedback */
    WI_VECTOR_STEP,
    WI_VECTOR_HELD,
    WI_VECTOR_OPERANDS,
    WI_VECTORS = WI_VECTOR_OPERANDS + WI_PART_CONVERTED
};

struct wi_part {
    const struct wi_work *w;
    const struct wi_coding *c;
    weft_dtype dtype;
    size_t from, elems; /* of the work's */
    const struct wi_coding_tensor *tensor; /* NULL: there are not several */
    float *memory;      /* WI_VECTORS of most_elems each */
    size_t most_elems;
    weft_status *status; /* of all parts */
};

/* What is summed. */
struct wi_part_sum {
    const void *images[WI_REDUCE_MAX_SRC];
    const float *plain[WI_REDUCE_MAX_SRC];
    int n, converted;
};

static inline float *wi_part_vector(const struct wi_part *p, enum wi_part_vector i)
{
    return p->memory + (size_t)i * p->most_elems;
}

/* Where the part's elements lie in what is kept; NULL: it is not. */
static inline float *wi_part_plane(const struct wi_part *p, unsigned plane)
{
    const struct wi_coding_tensor *t = p->tensor;
    float *of = plane >= WI_PLANES ? NULL : t ? t->residual[plane] : p->c->residual[plane];
    size_t at = p->w->first + p->from;

    if (!of)
        return NULL;
    return t ? of + (at - t->from - t->residual_from[plane]) : of + (at - p->c->residual_from[plane]);
}

/* Of a destination, or a source behind those. */
static inline int wi_part_is_image(const struct wi_part *p, uint32_t operand)
{
    return p->w->to[operand].mem == WI_MEM_PACK;
}

static inline size_t wi_part_at(const struct wi_part *p, uint32_t operand)
{
    size_t at = p->from * p->w->op->bind.redop.elem_bytes;

    return wi_part_is_image(p, operand) ? wi_coding_bytes(p->c, at) : at;
}

static inline const unsigned char *wi_part_source(const struct wi_part *p, uint32_t i)
{
    return (const unsigned char *)p->w->src[i] + wi_part_at(p, p->w->ndst + i);
}

static inline unsigned char *wi_part_destination(const struct wi_part *p, uint32_t i)
{
    return (unsigned char *)p->w->dst[i] + wi_part_at(p, i);
}

/* The first destination that is an image, or is none; ndst: there is none such. */
static inline uint32_t wi_part_find(const struct wi_part *p, int image)
{
    uint32_t i = 0;

    while (i < p->w->ndst && wi_part_is_image(p, i) != image)
        i++;
    return i;
}

/* What avg divides by, at the step that completes a result. */
static inline float wi_part_factor(const struct wi_part *p)
{
    const struct wi_redop *r = &p->w->op->bind.redop;

    return p->w->flags & WI_REDUCE_FINAL && r->op == WEFT_AVG ? 1.0f / (float)r->divisor : 1.0f;
}

static inline struct weft_codec_site wi_part_site(const struct wi_part *p)
{
    return (struct weft_codec_site){p->c->step ? p->c->step : p->w->op->info.seq, p->w->first + p->from, p->c->rank, p->w->sums};
}

/* Are all images finite that block `block` of the part is made from? */
static inline int wi_part_is_finite(const struct wi_part *p, size_t block)
{
    for (uint32_t i = 0; i < p->w->nsrc; i++)
        if (wi_part_is_image(p, p->w->ndst + i) && !wi_codec_is_finite(p->c->codec, wi_part_source(p, i), block))
            return 0;
    return 1;
}

/* Add source i as an operand. */
void wi_part_add(const struct wi_part *p, struct wi_part_sum *s, uint32_t i);
/* The sum of what there is, into dst, which may be an operand. */
void wi_part_sum(const struct wi_part *p, const struct wi_part_sum *s, float *dst);
/* The result, to the destinations that are no images. */
void wi_part_store(const struct wi_part *p, const float *result, uint32_t skip);

/* feedback.c: the part's work where the form is EF21 or DGC. 0: it is done in the plain way. */
int wi_feedback_part(const struct wi_part *p);

#endif
