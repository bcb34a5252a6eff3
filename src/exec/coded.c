/* SPDX-License-Identifier: BSD-3-Clause */
/* Work with images: they are made from, and summed into, vectors of fp32; other types are converted a part at a time. */
#include "exec/coded.h"

#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "compress/scratch.h"
#include "exec/coded_part.h"

#define ON_STACK 2048 /* elements of a part, unless a block of the codec is longer */

weft_status wi_coding_init(struct wi_coding *c, const struct weft_codec *codec, weft_dtype dtype, int rank)
{
    if (!wi_codec_takes(dtype))
        return wi_fail(WEFT_ENOTSUP, "codec %s takes float32, float16 and bfloat16, not %s", wi_codec_name(codec),
                       weft_dtype_name(dtype));
    *c = (struct wi_coding){.codec = codec,
                            .shift = (uint32_t)__builtin_ctzll(codec->block * weft_dtype_bytes(dtype)),
                            .rank = (uint32_t)rank,
                            .variable = (codec->traits & WEFT_CODEC_VARIABLE) != 0,
                            .image_bytes = codec->block_bytes};
    return WEFT_SUCCESS;
}

weft_status wi_image_check(const struct wi_coding *c, const void *image, size_t got, size_t most)
{
    if (!c->variable)
        return WEFT_SUCCESS;
    if (got < WEFT_CODEC_HEAD_BYTES || wi_get32(image) != got)
        return wi_fail(WEFT_EPROTO, "an image of codec %s came as %zu bytes, of at most %zu, and says that it has %u",
                       wi_codec_name(c->codec), got, most, got < WEFT_CODEC_HEAD_BYTES ? 0 : wi_get32(image));
    return WEFT_SUCCESS;
}

/* What an image holds. */
static void hold(const struct wi_part *p, const void *image, size_t elems, float *to)
{
    if (wi_codec_decode(p->c->codec, image, elems, to) < 0)
        *p->status = wi_fail(WEFT_EPROTO, "these %zu bytes are no image of %zu elements by codec %s",
                             wi_image_bytes(p->c, image, SIZE_MAX), elems, wi_codec_name(p->c->codec));
}

/* ---- Sums ---- */

static struct weft_codec_operands operands_of(const struct wi_part_sum *s)
{
    return (struct weft_codec_operands){s->n, s->images, s->plain};
}

void wi_part_sum(const struct wi_part *p, const struct wi_part_sum *s, float *dst)
{
    struct weft_codec_operands o = operands_of(s);

    wi_codec_sum(p->c->codec, &o, p->elems, dst);
}

/* Sum what there is, which makes room. From left to right, so that it makes no difference. */
static void sum_so_far(const struct wi_part *p, struct wi_part_sum *s)
{
    float *sum = wi_part_vector(p, WI_VECTOR_SUM);

    wi_part_sum(p, s, sum);
    s->plain[0] = sum;
    s->n = 1;
    s->converted = 0;
}

/* Room for one more. */
static float *converted(const struct wi_part *p, struct wi_part_sum *s)
{
    if (s->converted == WI_PART_CONVERTED)
        sum_so_far(p, s);
    return wi_part_vector(p, (enum wi_part_vector)(WI_VECTOR_OPERANDS + s->converted++));
}

/* NULL: it is summed as an image. Those of a variable rate are read before. */
static const float *as_floats(const struct wi_part *p, struct wi_part_sum *s, uint32_t i)
{
    int image = wi_part_is_image(p, p->w->ndst + i);
    float *to;

    if (image && !p->c->variable)
        return NULL;
    if (!image && p->dtype == WEFT_FLOAT32)
        return (const float *)(const void *)wi_part_source(p, i);
    to = converted(p, s);
    if (image)
        hold(p, wi_part_source(p, i), p->elems, to);
    else
        wi_codec_widen(p->dtype, wi_part_source(p, i), to, p->elems);
    return to;
}

void wi_part_add(const struct wi_part *p, struct wi_part_sum *s, uint32_t i)
{
    const float *plain = as_floats(p, s, i);

    s->images[s->n] = plain ? NULL : wi_part_source(p, i);
    s->plain[s->n++] = plain;
}

/* ---- What is not finite ---- */

/* This rank's own image was sent, and its residual says what that lost; but the result is NaN, and nobody takes it. What the
 * residual was before comes back, to rounding, unless it was not written either. */
static void undo_block(const struct wi_part *p, size_t block, size_t elems)
{
    const struct weft_codec *codec = p->c->codec;
    size_t first = p->from + block * codec->block, es = p->w->op->bind.redop.elem_bytes;
    const unsigned char *image = (const unsigned char *)p->w->undo_image + wi_coding_bytes(p->c, first * es);
    float *sent = wi_part_vector(p, WI_VECTOR_SUM), *of = wi_part_vector(p, WI_VECTOR_RESULT),
          *residual = wi_part_plane(p, p->w->kept) + block * codec->block;

    if (!wi_codec_is_finite(codec, image, 0))
        return;
    hold(p, image, elems, sent);
    wi_codec_widen(p->dtype, (const unsigned char *)p->w->undo_of + first * es, of, elems);
    for (size_t i = 0; i < elems && p->c->feedback.form == WI_FEEDBACK_LOCO; i++)
        residual[i] += (1 - p->c->feedback.beta) * (sent[i] - of[i]);
    for (size_t i = 0; i < elems && p->c->feedback.form != WI_FEEDBACK_LOCO; i++)
        residual[i] = residual[i] + sent[i] - of[i];
}

static void undo(const struct wi_part *p)
{
    size_t each = p->c->variable ? p->elems : p->c->codec->block;

    for (size_t block = 0; block * each < p->elems; block++) {
        size_t left = p->elems - block * each;
        if (!wi_part_is_finite(p, block))
            undo_block(p, block, left < each ? left : each);
    }
}

/* ---- One part ---- */

void wi_part_store(const struct wi_part *p, const float *result, uint32_t skip)
{
    for (uint32_t i = 0; i < p->w->ndst; i++) {
        if (i == skip || wi_part_is_image(p, i))
            continue;
        if (p->dtype != WEFT_FLOAT32)
            wi_codec_narrow(p->dtype, result, wi_part_destination(p, i), p->elems);
        else if ((const unsigned char *)result != wi_part_destination(p, i))
            memcpy(wi_part_destination(p, i), result, p->elems * sizeof *result);
    }
}

/* LOCO: what images lost, on an average. Of what is not finite nothing changes. */
static void average(const struct wi_part *p, uint32_t image, const float *lost, float *kept)
{
    size_t each = p->c->codec->block;
    float beta = p->c->feedback.beta;

    for (size_t at = 0; at < p->elems; at += each) {
        size_t end = p->elems - at < each ? p->elems : at + each;
        if (!wi_codec_is_finite(p->c->codec, wi_part_destination(p, image), at / each))
            continue;
        for (size_t i = at; i < end; i++)
            kept[i] = beta * kept[i] + (1 - beta) * lost[i];
    }
}

/* A sum of 16-bit floats is rounded before, unless a residual takes what that loses: results are rounded anyway, and what is not
 * rounded needs twice the bytes. */
static void encode_variable(const struct wi_part *p, const struct wi_part_sum *s, unsigned char *image, float *result)
{
    float *residual = wi_part_plane(p, p->w->kept), *sum = wi_part_vector(p, WI_VECTOR_SUM),
          *rounded = wi_part_vector(p, WI_VECTOR_GIVEN), factor = wi_part_factor(p);
    struct weft_codec_site site = wi_part_site(p);

    wi_part_sum(p, s, sum);
    for (size_t i = 0; factor != 1 && i < p->elems; i++)
        sum[i] *= factor;
    if (!residual && p->dtype != WEFT_FLOAT32) {
        wi_codec_narrow(p->dtype, sum, rounded, p->elems);
        wi_codec_widen(p->dtype, rounded, sum, p->elems);
    }
    wi_codec_encode_at(p->c->codec, &site, sum, residual, p->elems, image);
    if (result)
        hold(p, image, p->elems, result);
}

static void encode(const struct wi_part *p, const struct wi_part_sum *s, uint32_t image, float *result)
{
    float *kept = wi_part_plane(p, p->w->kept), *residual = kept;
    struct weft_codec_operands o = operands_of(s);
    struct weft_codec_site site = wi_part_site(p);

    if (kept && p->c->feedback.form == WI_FEEDBACK_LOCO) {
        residual = wi_part_vector(p, WI_VECTOR_HELD);
        memcpy(residual, kept, p->elems * sizeof *kept);
    }
    if (p->w->nsrc == 1 && !result && s->plain[0] && wi_part_factor(p) == 1)
        wi_codec_encode_at(p->c->codec, &site, s->plain[0], residual, p->elems, wi_part_destination(p, image));
    else
        wi_codec_sum_encode(p->c->codec, &site, &o, wi_part_factor(p), residual, p->elems,
                            wi_part_destination(p, image), result);
    if (residual != kept)
        average(p, image, residual, kept);
}

static void decode(const struct wi_part *p, const struct wi_part_sum *s, float *result)
{
    float factor = wi_part_factor(p);

    if (s->n == 1 && s->images[0])
        hold(p, s->images[0], p->elems, result);
    else
        wi_part_sum(p, s, result);
    for (size_t i = 0; factor != 1 && i < p->elems; i++)
        result[i] *= factor;
}

static void do_part(const struct wi_part *p)
{
    struct wi_part_sum s = {.n = 0};
    uint32_t plain = wi_part_find(p, 0), image = wi_part_find(p, 1);
    float *result;

    if (p->w->undo_image && p->c->feedback.form != WI_FEEDBACK_DGC)
        undo(p);
    for (uint32_t i = 0; i < p->w->nsrc; i++)
        wi_part_add(p, &s, i);
    result = plain == p->w->ndst        ? NULL
             : p->dtype == WEFT_FLOAT32 ? (float *)(void *)wi_part_destination(p, plain)
                                        : wi_part_vector(p, WI_VECTOR_RESULT);
    if (image < p->w->ndst && p->c->variable)
        encode_variable(p, &s, wi_part_destination(p, image), result);
    else if (image < p->w->ndst)
        encode(p, &s, image, result);
    else
        decode(p, &s, result);
    if (result)
        wi_part_store(p, result, p->dtype == WEFT_FLOAT32 ? plain : p->w->ndst);
}

/* Of fp32 all at once where nothing is done in a second pass over what was made. */
static int in_one_pass(const struct wi_part *p)
{
    return p->dtype == WEFT_FLOAT32 && wi_part_factor(p) == 1 && !p->w->undo_image &&
           wi_feedback_is_of_encoding(&p->c->feedback);
}

/* The tensor that the element belongs to, or the first one behind it; NULL: there is none. */
static const struct wi_coding_tensor *tensor_at(const struct wi_coding *c, size_t element)
{
    size_t low = 0, high = c->ntensors;

    while (low < high) {
        size_t middle = (low + high) / 2;
        if (c->tensors[middle].from + c->tensors[middle].elems <= element)
            low = middle + 1;
        else
            high = middle;
    }
    return low < c->ntensors ? &c->tensors[low] : NULL;
}

/* From p->from on, at most `most` elements. 0: there are none before `end`. */
static int next_part(struct wi_part *p, size_t end, size_t most)
{
    size_t first = p->w->first, stop = end;

    if (p->w->placed && p->c->ntensors) {
        p->tensor = tensor_at(p->c, first + p->from);
        if (!p->tensor)
            return 0;
        p->from = p->tensor->from > first + p->from ? p->tensor->from - first : p->from;
        stop = p->tensor->from + p->tensor->elems - first;
        stop = stop < end ? stop : end;
    }
    if (p->from >= stop)
        return 0;
    p->elems = stop - p->from < most ? stop - p->from : most;
    return 1;
}

/* From p->from on, a part at a time. */
static weft_status do_parts(struct wi_part p, size_t end)
{
    size_t each = p.c->variable || !in_one_pass(&p) ? p.most_elems : SIZE_MAX;
    weft_status status = WEFT_SUCCESS;

    p.status = &status;
    for (; status >= 0 && next_part(&p, end, each); p.from += p.elems)
        if (!wi_feedback_part(&p))
            do_part(&p);
    return status;
}

/* All of it is one part. */
static weft_status do_variable(struct wi_part p, size_t elems)
{
    weft_status st;

    p.most_elems = elems;
    p.memory = wi_aligned_alloc(64, (WI_VECTORS * elems + 1) * sizeof *p.memory);
    if (!p.memory)
        return wi_fail(WEFT_ENOMEM, "%d vectors of %zu elements, to sum images", WI_VECTORS, elems);
    st = do_parts(p, elems);
    wi_free(p.memory);
    return st;
}

weft_status wi_coded_do(const struct wi_work *w, size_t at, size_t bytes)
{
    const struct wi_binding *b = &w->op->bind;
    size_t es = b->redop.elem_bytes, end = (at + bytes) / es, block = b->coding.codec->block;
    size_t most = block > ON_STACK ? block : ON_STACK;
    struct wi_part p = {
        .w = w, .c = &b->coding, .dtype = (weft_dtype)b->redop.dtype, .from = at / es, .most_elems = most};
    float on_stack[WI_VECTORS * ON_STACK];
    weft_status st;

    if (b->coding.variable)
        return do_variable(p, end);
    p.memory = most > ON_STACK ? wi_scratch_take(WI_SCRATCH_PARTS) : on_stack;
    st = do_parts(p, end);
    if (p.memory != on_stack)
        wi_scratch_give(WI_SCRATCH_PARTS, p.memory);
    return st;
}
