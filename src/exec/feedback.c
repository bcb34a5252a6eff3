/* SPDX-License-Identifier: BSD-3-Clause */
/* Error feedback whose state is not a residual that codecs add: EF21 and DGC (compress/feedback.h), of all_reduce in one shot and
 * two. What an image does to the state is done when its result is decoded and known to be finite, by the step that would take back
 * a residual otherwise: so a result that nobody takes leaves the state of all ranks as it was. */
#include <math.h>
#include <string.h>

#include "exec/coded_part.h"

/* The part's block `block`: elements [*at, *at + n) of it. 0: there is none. */
static size_t block_of(const struct wi_part *p, size_t block, size_t *at)
{
    size_t each = p->c->codec->block;

    *at = block * each;
    return *at >= p->elems ? 0 : p->elems - *at < each ? p->elems - *at : each;
}

/* What this rank's own image holds, of elements [at, at + n) of the part. */
static void own_image(const struct wi_part *p, size_t at, size_t n, float *held)
{
    size_t first = (p->from + at) * p->w->op->bind.redop.elem_bytes;

    wi_codec_decode(p->c->codec, (const unsigned char *)p->w->undo_image + wi_coding_bytes(p->c, first), n, held);
}

/* ---- EF21 ---- */

static void ef21_give(const struct wi_part *p)
{
    const float *held = wi_part_plane(p, WI_PLANE_WORKER);
    float *change = wi_part_vector(p, WI_VECTOR_STEP);
    struct weft_codec_site site = wi_part_site(p);
    struct wi_part_sum s = {.n = 0};

    wi_part_add(p, &s, 0);
    for (size_t i = 0; i < p->elems; i++)
        change[i] = s.plain[0][i] - held[i];
    wi_codec_encode_at(p->c->codec, &site, change, NULL, p->elems, wi_part_destination(p, wi_part_find(p, 1)));
}

/* The images of the others, on top of what they gave before; and this rank's own data, which is the last operand. */
static void ef21_gather(const struct wi_part *p, struct wi_part_sum *s)
{
    uint32_t own = p->w->nsrc;

    s->images[0] = NULL;
    s->plain[0] = wi_part_plane(p, WI_PLANE_OWNER);
    s->n = 1;
    for (uint32_t i = 0; i < p->w->nsrc; i++)
        if (wi_part_is_image(p, p->w->ndst + i))
            wi_part_add(p, s, i);
        else
            own = i;
    wi_part_add(p, s, own);
}

/* The owner: what all have changes by the image of what the sum changed. */
static void ef21_sum(const struct wi_part *p)
{
    float *sum = wi_part_vector(p, WI_VECTOR_GIVEN), *change = wi_part_vector(p, WI_VECTOR_STEP),
          *held = wi_part_vector(p, WI_VECTOR_HELD), *others = wi_part_plane(p, WI_PLANE_OWNER),
          *all = wi_part_plane(p, WI_PLANE_MORE), factor = wi_part_factor(p);
    unsigned char *image = wi_part_destination(p, wi_part_find(p, 1));
    struct weft_codec_site site = wi_part_site(p);
    struct wi_part_sum s = {.n = 0};
    const float *own;

    ef21_gather(p, &s);
    own = s.plain[--s.n];
    wi_part_sum(p, &s, sum);
    for (size_t i = 0; i < p->elems; i++)
        change[i] = (sum[i] + own[i]) * factor - all[i];
    wi_codec_encode_at(p->c->codec, &site, change, NULL, p->elems, image);
    wi_codec_decode(p->c->codec, image, p->elems, held);
    for (size_t block = 0, at, n; (n = block_of(p, block, &at)) != 0; block++) {
        if (!wi_codec_is_finite(p->c->codec, image, block))
            continue;
        memcpy(others + at, sum + at, n * sizeof *sum);
        for (size_t i = at; i < at + n; i++)
            held[i] = all[i] += held[i];
    }
    wi_part_store(p, held, p->w->ndst);
}

static int are_finite(const float *v, size_t n)
{
    int finite = 1;

    for (size_t i = 0; i < n; i++)
        finite &= isfinite(v[i]) != 0;
    return finite;
}

static void ef21_take(const struct wi_part *p)
{
    float *change = wi_part_vector(p, WI_VECTOR_STEP), *held = wi_part_vector(p, WI_VECTOR_HELD),
          *given = wi_part_plane(p, WI_PLANE_WORKER), *all = wi_part_plane(p, WI_PLANE_MORE),
          factor = wi_part_factor(p);
    struct wi_part_sum s = {.n = 0};

    for (uint32_t i = 0; i < p->w->nsrc; i++)
        wi_part_add(p, &s, i);
    wi_part_sum(p, &s, change);
    for (size_t i = 0; factor != 1 && i < p->elems; i++)
        change[i] *= factor;
    for (size_t block = 0, at, n; (n = block_of(p, block, &at)) != 0; block++) {
        if (!wi_part_is_finite(p, block) || !are_finite(change + at, n))
            continue;
        own_image(p, at, n, held);
        for (size_t i = 0; i < n; i++) {
            given[at + i] += held[i];
            change[at + i] = all[at + i] += change[at + i];
        }
    }
    wi_part_store(p, change, p->w->ndst);
}

/* ---- DGC ---- */

/* What is sent of, if nothing was: v with the momentum of this step, which is in `momentum` then. */
static void dgc_step(const struct wi_part *p, size_t at, size_t n, const float *given, float *momentum, float *whole)
{
    const float *v = wi_part_plane(p, WI_PLANE_WORKER) + at, *u = wi_part_plane(p, WI_PLANE_MORE) + at;
    float m = p->c->feedback.momentum, gain = p->tensor ? p->tensor->gain : p->c->gain;

    for (size_t i = 0; i < n; i++) {
        momentum[i] = m * u[i] + gain * given[i];
        whole[i] = v[i] + momentum[i];
    }
}

/* Momentum factor masking: what was sent begins anew. What rounding lost of it stays in v. */
static void dgc_sent(const struct wi_part *p, size_t at, size_t n, const float *momentum, const float *whole,
                     const float *sent)
{
    float *v = wi_part_plane(p, WI_PLANE_WORKER) + at, *u = wi_part_plane(p, WI_PLANE_MORE) + at;
    int masking = p->c->feedback.masking;

    for (size_t i = 0; i < n; i++) {
        v[i] = whole[i] - sent[i];
        u[i] = masking && sent[i] != 0 ? 0 : momentum[i];
    }
}

static void dgc_give(const struct wi_part *p)
{
    float *momentum = wi_part_vector(p, WI_VECTOR_GIVEN), *whole = wi_part_vector(p, WI_VECTOR_STEP);
    struct weft_codec_site site = wi_part_site(p);
    struct wi_part_sum s = {.n = 0};

    wi_part_add(p, &s, 0);
    dgc_step(p, 0, p->elems, s.plain[0], momentum, whole);
    wi_codec_encode_at(p->c->codec, &site, whole, NULL, p->elems, wi_part_destination(p, wi_part_find(p, 1)));
}

/* The owner gives its own data as the others do, as what an image holds; for a moment that is where the sum's will be. */
static void dgc_sum(const struct wi_part *p)
{
    float *momentum = wi_part_vector(p, WI_VECTOR_GIVEN), *whole = wi_part_vector(p, WI_VECTOR_STEP),
          *sent = wi_part_vector(p, WI_VECTOR_HELD), *result = wi_part_vector(p, WI_VECTOR_RESULT);
    unsigned char *image = wi_part_destination(p, wi_part_find(p, 1));
    struct weft_codec_site site = wi_part_site(p), of_own = site;
    struct wi_part_sum s = {.n = 0};
    struct weft_codec_operands o;

    of_own.sums = 0;
    for (uint32_t i = 0; i < p->w->nsrc; i++) {
        wi_part_add(p, &s, i);
        if (wi_part_is_image(p, p->w->ndst + i))
            continue;
        dgc_step(p, 0, p->elems, s.plain[s.n - 1], momentum, whole);
        wi_codec_encode_at(p->c->codec, &of_own, whole, NULL, p->elems, image);
        wi_codec_decode(p->c->codec, image, p->elems, sent);
        s.plain[s.n - 1] = sent;
    }
    o = (struct weft_codec_operands){s.n, s.images, s.plain};
    wi_codec_sum_encode(p->c->codec, &site, &o, wi_part_factor(p), wi_part_plane(p, WI_PLANE_OWNER), p->elems, image,
                        result);
    for (size_t block = 0, at, n; (n = block_of(p, block, &at)) != 0; block++)
        if (wi_codec_is_finite(p->c->codec, image, block))
            dgc_sent(p, at, n, momentum + at, whole + at, sent + at);
    wi_part_store(p, result, p->w->ndst);
}

/* Before the result is stored, which may be where the gradient is. */
static void dgc_take(const struct wi_part *p)
{
    float *momentum = wi_part_vector(p, WI_VECTOR_GIVEN), *whole = wi_part_vector(p, WI_VECTOR_STEP),
          *sent = wi_part_vector(p, WI_VECTOR_HELD), *given = wi_part_vector(p, WI_VECTOR_RESULT);
    size_t es = p->w->op->bind.redop.elem_bytes;

    for (size_t block = 0, at, n; (n = block_of(p, block, &at)) != 0; block++) {
        if (!wi_part_is_finite(p, block))
            continue;
        wi_codec_widen(p->dtype, (const unsigned char *)p->w->undo_of + (p->from + at) * es, given, n);
        dgc_step(p, at, n, given, momentum, whole);
        own_image(p, at, n, sent);
        dgc_sent(p, at, n, momentum, whole, sent);
    }
}

/* ---- Which ---- */

int wi_feedback_part(const struct wi_part *p)
{
    int ef21 = p->c->feedback.form == WI_FEEDBACK_EF21, encodes = wi_part_find(p, 1) < p->w->ndst;

    if (!ef21 && p->c->feedback.form != WI_FEEDBACK_DGC)
        return 0;
    if (encodes && p->w->sums)
        (ef21 ? ef21_sum : dgc_sum)(p);
    else if (encodes)
        (ef21 ? ef21_give : dgc_give)(p);
    else if (ef21)
        ef21_take(p);
    else
        dgc_take(p);
    return encodes || ef21;
}
