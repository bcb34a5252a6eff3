/* SPDX-License-Identifier: BSD-3-Clause */
/* Work with images: they are made from, and summed into, vectors of fp32; other types are converted a part at a time. */
#include "exec/coded.h"

#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "compress/scratch.h"
#include "exec/engine.h"

#define ON_STACK 2048 /* elements of a part, unless a block of the codec is longer */
#define CONVERTED 2   /* operands of a sum that are converted before what there is is summed */
#define VECTORS (CONVERTED + 2)

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

/* ---- A part of the work: so many elements from an element on ---- */

struct part {
    const struct wi_work *w;
    const struct wi_coding *c;
    weft_dtype dtype;
    size_t from, elems;
    float *memory; /* VECTORS of most_elems each */
    size_t most_elems;
    weft_status *status;
};

static float *vector(const struct part *p, int i)
{
    return p->memory + (size_t)i * p->most_elems;
}

static int is_image(const struct wi_work *w, uint32_t operand)
{
    return w->to[operand].mem == WI_MEM_PACK;
}

/* What an image holds. */
static void hold(const struct part *p, const void *image, size_t elems, float *to)
{
    if (wi_codec_decode(p->c->codec, image, elems, to) < 0)
        *p->status = wi_fail(WEFT_EPROTO, "these %zu bytes are no image of %zu elements by codec %s",
                             wi_image_bytes(p->c, image, SIZE_MAX), elems, wi_codec_name(p->c->codec));
}

static const unsigned char *source(const struct part *p, uint32_t i)
{
    size_t at = p->from * p->w->op->bind.redop.elem_bytes;

    return (const unsigned char *)p->w->src[i] + (is_image(p->w, p->w->ndst + i) ? wi_coding_bytes(p->c, at) : at);
}

static unsigned char *destination(const struct part *p, uint32_t i)
{
    size_t at = p->from * p->w->op->bind.redop.elem_bytes;

    return (unsigned char *)p->w->dst[i] + (is_image(p->w, i) ? wi_coding_bytes(p->c, at) : at);
}

/* What avg divides by, at the step that completes a result. */
static float factor_of(const struct wi_work *w)
{
    const struct wi_redop *r = &w->op->bind.redop;

    return w->flags & WI_REDUCE_FINAL && r->op == WEFT_AVG ? 1.0f / (float)r->divisor : 1.0f;
}

/* ---- Sums ---- */

struct sum {
    const void *images[WI_REDUCE_MAX_SRC];
    const float *plain[WI_REDUCE_MAX_SRC];
    int n, converted;
    float *acc; /* partial sums */
};

static struct weft_codec_operands operands_of(const struct sum *s)
{
    return (struct weft_codec_operands){s->n, s->images, s->plain};
}

/* Sum what there is, which makes room. From left to right, so that it makes no difference. */
static void sum_so_far(const struct part *p, struct sum *s)
{
    struct weft_codec_operands o = operands_of(s);

    wi_codec_sum(p->c->codec, &o, p->elems, s->acc);
    s->plain[0] = s->acc;
    s->n = 1;
    s->converted = 0;
}

/* Room for one more. */
static float *converted(const struct part *p, struct sum *s)
{
    if (s->converted == CONVERTED)
        sum_so_far(p, s);
    return vector(p, 2 + s->converted++);
}

static const float *as_floats(const struct part *p, struct sum *s, const void *plain)
{
    float *to;

    if (p->dtype == WEFT_FLOAT32)
        return plain;
    to = converted(p, s);
    wi_codec_widen(p->dtype, plain, to, p->elems);
    return to;
}

/* Images of a variable rate are read before they are summed. */
static const float *as_plain(const struct part *p, struct sum *s, uint32_t i)
{
    float *to;

    if (!is_image(p->w, p->w->ndst + i))
        return as_floats(p, s, source(p, i));
    if (!p->c->variable)
        return NULL;
    to = converted(p, s);
    hold(p, source(p, i), p->elems, to);
    return to;
}

static void gather(const struct part *p, struct sum *s)
{
    for (uint32_t i = 0; i < p->w->nsrc; i++) {
        const float *plain = as_plain(p, s, i);
        s->images[s->n] = plain ? NULL : source(p, i);
        s->plain[s->n++] = plain;
    }
}

/* ---- What is not finite ---- */

/* This rank's own image was sent, and its residual says what that lost; but the result is NaN, and nobody takes it. What the
 * residual was before comes back, to rounding, unless it was not written either. */
static void undo_block(const struct part *p, size_t block, size_t elems)
{
    const struct weft_codec *codec = p->c->codec;
    size_t first = p->from + block * codec->block, es = p->w->op->bind.redop.elem_bytes;
    const unsigned char *image = (const unsigned char *)p->w->undo_image + wi_coding_bytes(p->c, first * es);
    float *sent = vector(p, 0), *of = vector(p, 1), *residual = p->w->residual + first;

    if (!wi_codec_is_finite(codec, image, 0))
        return;
    hold(p, image, elems, sent);
    wi_codec_widen(p->dtype, (const unsigned char *)p->w->undo_of + first * es, of, elems);
    for (size_t i = 0; i < elems; i++)
        residual[i] = residual[i] + sent[i] - of[i];
}

static void undo(const struct part *p)
{
    size_t each = p->c->variable ? p->elems : p->c->codec->block;

    for (size_t block = 0; block * each < p->elems; block++) {
        size_t left = p->elems - block * each;
        int finite = 1;
        for (uint32_t i = 0; i < p->w->nsrc && finite; i++)
            finite = !is_image(p->w, p->w->ndst + i) || wi_codec_is_finite(p->c->codec, source(p, i), block);
        if (!finite)
            undo_block(p, block, left < each ? left : each);
    }
}

/* ---- One part ---- */

static void store(const struct part *p, const float *result, uint32_t skip)
{
    for (uint32_t i = 0; i < p->w->ndst; i++) {
        if (i == skip || is_image(p->w, i))
            continue;
        if (p->dtype != WEFT_FLOAT32)
            wi_codec_narrow(p->dtype, result, destination(p, i), p->elems);
        else if ((const unsigned char *)result != destination(p, i))
            memcpy(destination(p, i), result, p->elems * sizeof *result);
    }
}

/* The destination that results of fp32 are written to at once; ndst: there is none. */
static uint32_t plain_destination(const struct part *p)
{
    uint32_t i = 0;

    while (i < p->w->ndst && is_image(p->w, i))
        i++;
    return i;
}

/* A sum of 16-bit floats is rounded before, unless a residual takes what that loses: results are rounded anyway, and what is not
 * rounded needs twice the bytes. */
static void encode_variable(const struct part *p, const struct sum *s, const struct weft_codec_site *site,
                            unsigned char *image, float *result)
{
    struct weft_codec_operands o = operands_of(s);
    float *residual = p->w->residual ? p->w->residual + p->from : NULL, *acc = s->acc, factor = factor_of(p->w);

    wi_codec_sum(p->c->codec, &o, p->elems, acc);
    for (size_t i = 0; factor != 1 && i < p->elems; i++)
        acc[i] *= factor;
    if (!residual && p->dtype != WEFT_FLOAT32) {
        wi_codec_narrow(p->dtype, acc, vector(p, 1), p->elems);
        wi_codec_widen(p->dtype, vector(p, 1), acc, p->elems);
    }
    wi_codec_encode_at(p->c->codec, site, acc, residual, p->elems, image);
    if (result)
        hold(p, image, p->elems, result);
}

static void encode(const struct part *p, const struct sum *s, uint32_t image, float *result)
{
    float *residual = p->w->residual ? p->w->residual + p->from : NULL;
    struct weft_codec_operands o = operands_of(s);
    struct weft_codec_site site = {p->w->op->info.seq, p->w->first + p->from, p->c->rank, p->w->sums};

    if (p->c->variable)
        encode_variable(p, s, &site, destination(p, image), result);
    else if (p->w->nsrc == 1 && !result && s->plain[0] && factor_of(p->w) == 1)
        wi_codec_encode_at(p->c->codec, &site, s->plain[0], residual, p->elems, destination(p, image));
    else
        wi_codec_sum_encode(p->c->codec, &site, &o, factor_of(p->w), residual, p->elems, destination(p, image), result);
}

static void decode(const struct part *p, const struct sum *s, float *result)
{
    struct weft_codec_operands o = operands_of(s);
    float factor = factor_of(p->w);

    if (s->n == 1 && s->images[0])
        hold(p, s->images[0], p->elems, result);
    else
        wi_codec_sum(p->c->codec, &o, p->elems, result);
    for (size_t i = 0; factor != 1 && i < p->elems; i++)
        result[i] *= factor;
}

static void do_part(const struct part *p)
{
    struct sum s = {.acc = vector(p, 0)};
    float *result;
    uint32_t plain = plain_destination(p), image = 0;

    if (p->w->undo_image)
        undo(p);
    gather(p, &s);
    while (image < p->w->ndst && !is_image(p->w, image))
        image++;
    result = plain == p->w->ndst        ? NULL
             : p->dtype == WEFT_FLOAT32 ? (float *)(void *)destination(p, plain)
                                        : vector(p, 1);
    if (image < p->w->ndst)
        encode(p, &s, image, result);
    else
        decode(p, &s, result);
    if (result)
        store(p, result, p->dtype == WEFT_FLOAT32 ? plain : p->w->ndst);
}

/* Of fp32 all at once where nothing is done in a second pass over what was made. */
static size_t part_elems(const struct wi_work *w, weft_dtype dtype, size_t most)
{
    return dtype == WEFT_FLOAT32 && factor_of(w) == 1 && !w->undo_image ? SIZE_MAX : most;
}

/* A part at a time. */
static weft_status do_parts(const struct wi_work *w, size_t from, size_t end, size_t each, float *memory, size_t most)
{
    const struct wi_binding *b = &w->op->bind;
    weft_status status = WEFT_SUCCESS;

    while (from < end && status >= 0) {
        size_t elems = end - from < each ? end - from : each;
        struct part p = {w, &b->coding, (weft_dtype)b->redop.dtype, from, elems, memory, most, &status};
        do_part(&p);
        from += elems;
    }
    return status;
}

static weft_status do_variable(const struct wi_work *w, size_t elems)
{
    float *memory = wi_aligned_alloc(64, (VECTORS * elems + 1) * sizeof *memory);
    weft_status st;

    if (!memory)
        return wi_fail(WEFT_ENOMEM, "%zu vectors of %zu elements, to sum images", (size_t)VECTORS, elems);
    st = do_parts(w, 0, elems, elems, memory, elems);
    wi_free(memory);
    return st;
}

weft_status wi_coded_do(const struct wi_work *w, size_t at, size_t bytes)
{
    const struct wi_binding *b = &w->op->bind;
    size_t es = b->redop.elem_bytes, from = at / es, end = (at + bytes) / es, block = b->coding.codec->block;
    size_t most = block > ON_STACK ? block : ON_STACK, each = part_elems(w, (weft_dtype)b->redop.dtype, most);
    float on_stack[VECTORS * ON_STACK], *memory;
    weft_status st;

    if (b->coding.variable)
        return do_variable(w, end);
    memory = most > ON_STACK ? wi_scratch_take(WI_SCRATCH_PARTS) : on_stack;
    st = do_parts(w, from, end, each, memory, most);
    if (memory != on_stack)
        wi_scratch_give(WI_SCRATCH_PARTS, memory);
    return st;
}
