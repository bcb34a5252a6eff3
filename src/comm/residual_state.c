/* SPDX-License-Identifier: BSD-3-Clause */
/* Saved states of error feedback, as bytes: residual.h has their form. Any bytes may be read. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "base/status.h"
#include "comm/residual.h"

#define MAGIC 0x53524657u /* "WFRS" */
#define VERSION 1
#define FLAG_AVG 1u

enum {
    AT_VERSION = 4,
    AT_FORM = 8,
    AT_FLAGS = 12,
    AT_ELEMS = 16,
    AT_RANK = 24,
    AT_RANKS = 28,
    AT_STEPS = 32,
    AT_SHAPE = 40,
    AT_PLANES = 48,
    PLANE_BYTES = 16,
    AT_DATA = AT_PLANES + WI_PLANES * PLANE_BYTES,
    CHECK_BYTES = 8,
    ELEM_BYTES = 4,
};

static uint32_t bits_of(float v)
{
    uint32_t bits;

    memcpy(&bits, &v, sizeof bits);
    return bits;
}

static float float_of(const unsigned char *in)
{
    uint32_t bits = wi_get32(in);
    float v;

    memcpy(&v, &bits, sizeof v);
    return v;
}

/* ---- Writing ---- */

/* What is not 0 lies in there; a negative zero is something, for the sign of a sum depends on it. */
static void extent_of(const struct wi_plane *p, size_t *from, size_t *to)
{
    size_t a = 0, b = p->to - p->from;

    while (a < b && !bits_of(p->of[a]))
        a++;
    while (b > a && !bits_of(p->of[b - 1]))
        b--;
    *from = a < b ? p->from + a : 0;
    *to = a < b ? p->from + b : 0;
}

size_t wi_saved_bytes(const struct wi_residual *r)
{
    size_t n = 0, from, to, bytes;

    for (int i = 0; i < WI_PLANES; i++) {
        extent_of(&r->plane[i], &from, &to);
        n += to - from;
    }
    if (__builtin_mul_overflow(n, (size_t)ELEM_BYTES, &bytes) ||
        __builtin_add_overflow(bytes, (size_t)AT_DATA + CHECK_BYTES, &bytes))
        return SIZE_MAX;
    return bytes;
}

void wi_saved_write(const struct wi_residual *r, int rank, int nranks, unsigned char *state)
{
    unsigned char *at = state + AT_DATA;

    wi_put32(state, MAGIC);
    wi_put32(state + AT_VERSION, VERSION);
    wi_put32(state + AT_FORM, r->form);
    wi_put32(state + AT_FLAGS, r->avg ? FLAG_AVG : 0);
    wi_put64(state + AT_ELEMS, r->elems);
    wi_put32(state + AT_RANK, (uint32_t)rank);
    wi_put32(state + AT_RANKS, (uint32_t)nranks);
    wi_put64(state + AT_STEPS, r->steps);
    wi_put64(state + AT_SHAPE, r->shape);
    for (int i = 0; i < WI_PLANES; i++) {
        const struct wi_plane *p = &r->plane[i];
        size_t from, to;
        extent_of(p, &from, &to);
        wi_put64(state + AT_PLANES + i * PLANE_BYTES, from);
        wi_put64(state + AT_PLANES + i * PLANE_BYTES + 8, to - from);
        for (size_t e = from; e < to; e++, at += ELEM_BYTES)
            wi_put32(at, bits_of(p->of[e - p->from]));
    }
    wi_put64(at, wi_hash64(state, (size_t)(at - state), 0));
}

/* ---- Reading ---- */

static weft_status read_head(const unsigned char *state, size_t bytes, struct wi_saved *s)
{
    uint32_t form, flags;
    uint64_t elems;

    if (bytes < AT_DATA + CHECK_BYTES)
        return wi_fail(WEFT_EINVAL, "a saved residual has at least %d bytes, not %zu", AT_DATA + CHECK_BYTES, bytes);
    if (wi_get32(state) != MAGIC)
        return wi_fail(WEFT_EINVAL, "this is no saved residual: it begins with 0x%08x", wi_get32(state));
    if (wi_get32(state + AT_VERSION) != VERSION)
        return wi_fail(WEFT_EINVAL, "a saved residual of version %u; this library reads %d",
                       wi_get32(state + AT_VERSION), VERSION);
    if (wi_get64(state + bytes - CHECK_BYTES) != wi_hash64(state, bytes - CHECK_BYTES, 0))
        return wi_fail(WEFT_EINVAL, "the saved residual is damaged, or cut: the checksum of its %zu bytes is wrong",
                       bytes);
    form = wi_get32(state + AT_FORM);
    flags = wi_get32(state + AT_FLAGS);
    elems = wi_get64(state + AT_ELEMS);
    if (form == WI_FEEDBACK_NONE || form >= WI_FEEDBACK_FORMS || flags > FLAG_AVG)
        return wi_fail(WEFT_EINVAL, "a saved residual of form %u with flags %u, which there are not", form, flags);
    if (!elems || elems > SIZE_MAX / ELEM_BYTES)
        return wi_fail(WEFT_EINVAL, "a saved residual of %llu elements", (unsigned long long)elems);
    *s = (struct wi_saved){.form = (uint8_t)form,
                           .avg = flags & FLAG_AVG,
                           .rank = wi_get32(state + AT_RANK),
                           .nranks = wi_get32(state + AT_RANKS),
                           .steps = wi_get64(state + AT_STEPS),
                           .shape = wi_get64(state + AT_SHAPE),
                           .elems = (size_t)elems};
    if (!s->nranks || s->nranks > INT32_MAX || s->rank >= s->nranks)
        return wi_fail(WEFT_EINVAL, "a saved residual of rank %u of %u", s->rank, s->nranks);
    return WEFT_SUCCESS;
}

static weft_status read_plane(const unsigned char *state, int i, size_t end, size_t *at, struct wi_saved *s)
{
    uint64_t from = wi_get64(state + AT_PLANES + i * PLANE_BYTES),
             count = wi_get64(state + AT_PLANES + i * PLANE_BYTES + 8);

    if (from > s->elems || count > s->elems - from)
        return wi_fail(WEFT_EINVAL, "a saved residual: %llu elements from %llu on, and the tensor has %zu",
                       (unsigned long long)count, (unsigned long long)from, s->elems);
    if (count > (end - *at) / ELEM_BYTES)
        return wi_fail(WEFT_EINVAL, "a saved residual: %llu elements, and %zu bytes are left",
                       (unsigned long long)count, end - *at);
    s->plane[i].from = (size_t)from;
    s->plane[i].to = (size_t)(from + count);
    s->plane[i].of = state + *at;
    for (uint64_t e = 0; e < count; e++, *at += ELEM_BYTES)
        if (!isfinite(float_of(state + *at)))
            return wi_fail(WEFT_EINVAL, "a saved residual: element %llu is not finite", (unsigned long long)(from + e));
    return WEFT_SUCCESS;
}

weft_status wi_saved_read(const void *state, size_t bytes, struct wi_saved *saved)
{
    size_t at = AT_DATA;
    struct wi_saved s;

    WI_TRY(read_head(state, bytes, &s));
    for (int i = 0; i < WI_PLANES; i++)
        WI_TRY(read_plane(state, i, bytes - CHECK_BYTES, &at, &s));
    if (at != bytes - CHECK_BYTES)
        return wi_fail(WEFT_EINVAL, "a saved residual has %zu bytes, and its elements end at %zu", bytes - CHECK_BYTES,
                       at);
    *saved = s;
    return WEFT_SUCCESS;
}

/* ---- Adding ---- */

/* What there is not yet becomes the product itself, negative zeros included. */
static float added(const struct wi_plane *p, size_t i, const unsigned char *in, double factor)
{
    float v = (float)(factor * (double)float_of(in)), old = wi_plane_at(p, i);

    return bits_of(old) ? old + v : v;
}

static weft_status check_sums(const struct wi_saved *s, const double factor[WI_PLANES], const struct wi_residual *r)
{
    for (int i = 0; i < WI_PLANES; i++)
        for (size_t e = s->plane[i].from; e < s->plane[i].to; e++)
            if (!isfinite(added(&r->plane[i], e, s->plane[i].of + (e - s->plane[i].from) * ELEM_BYTES, factor[i])))
                return wi_fail(WEFT_EINVAL, "a saved residual times %g: element %zu becomes infinite", factor[i], e);
    return WEFT_SUCCESS;
}

weft_status wi_saved_add(const struct wi_saved *s, const double factor[WI_PLANES], struct wi_residual *r)
{
    int same = !r->steps || r->shape == s->shape;

    if (s->elems != r->elems)
        return wi_fail(WEFT_EINVAL, "the saved residual is of %zu elements, and that of tensor %llu of %zu", s->elems,
                       (unsigned long long)r->tensor, r->elems);
    if (s->form != r->form)
        return wi_fail(WEFT_EINVAL, "the saved residual is of ef=%s, and that of tensor %llu of ef=%s",
                       wi_feedback_name(s->form), (unsigned long long)r->tensor, wi_feedback_name(r->form));
    WI_TRY(check_sums(s, factor, r));
    for (int i = 0; i < WI_PLANES; i++)
        if (factor[i] != 0)
            WI_TRY(wi_plane_reserve(&r->plane[i], s->plane[i].from, s->plane[i].to));
    for (int i = 0; i < WI_PLANES; i++)
        for (size_t e = s->plane[i].from; factor[i] != 0 && e < s->plane[i].to; e++)
            r->plane[i].of[e - r->plane[i].from] =
                added(&r->plane[i], e, s->plane[i].of + (e - s->plane[i].from) * ELEM_BYTES, factor[i]);
    r->avg = s->avg;
    r->steps = s->steps > r->steps ? s->steps : r->steps;
    r->shape = same ? s->shape : 0;
    r->loaded = 1;
    return WEFT_SUCCESS;
}
