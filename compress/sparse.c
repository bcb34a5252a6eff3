/* SPDX-License-Identifier: BSD-3-Clause */
/* Images of sparse codecs: encoding, decoding, and sums, which cost k an image. A block is worked on while it is in the cache. */
#include "compress/sparse.h"

#include "compress/sparse_ops.h"

#define NAN_SCALE 0x7fc0u

/* ---- Scratch ---- */

static size_t keys_bytes(size_t block)
{
    return block * sizeof(uint32_t);
}

size_t wi_sparse_scratch(size_t block)
{
    return 2 * block * sizeof(float) + keys_bytes(block) + (block + WI_SELECT_SLACK) * sizeof(uint16_t);
}

struct wi_sparse_room wi_sparse_room(size_t block, void *scratch)
{
    struct wi_sparse_room r = {.acc = scratch};
    float *keys;

    r.sum = r.acc + block;
    keys = r.sum + block;
    r.values = keys;
    r.select.keys = (uint32_t *)(void *)keys;
    r.index = r.select.places = (uint16_t *)(void *)(keys + block);
    return r;
}

/* ---- The scale ---- */

static void put_scale(uint8_t *image, uint32_t scale)
{
    image[0] = (uint8_t)scale;
    image[1] = (uint8_t)(scale >> 8);
}

static uint16_t scale_of(const uint8_t *image)
{
    return (uint16_t)(image[0] | image[1] << 8);
}

int wi_sparse_is_finite(const struct weft_codec *codec, const void *image)
{
    (void)codec;
    return (scale_of(image) & 0x7fff) <= 0x7f80;
}

/* ---- Work of one call ---- */

struct work {
    const struct weft_codec *codec;
    struct wi_sparse s;
    struct wi_sparse_room room;
};

static struct work begin(const struct weft_codec *codec, void *scratch)
{
    return (struct work){codec, wi_sparse_of(codec), wi_sparse_room(codec->block, scratch)};
}

/* dst[place] = or += value, of entries in order; others are left out. */
static void scatter(const struct wi_sparse_room *r, size_t k, size_t elems, float *dst, int adds)
{
    long last = -1;

    for (size_t j = 0; j < k; j++) {
        long place = r->index[j];
        if (place <= last || (size_t)place >= elems)
            continue;
        dst[place] = adds ? dst[place] + r->values[j] : r->values[j];
        last = place;
    }
}

static void fill_nan(float *dst, size_t elems)
{
    for (size_t i = 0; i < elems; i++)
        dst[i] = __builtin_nanf("");
}

/* One block; adds: to what dst holds, which is no -0. */
static void decode_block(struct work *w, const uint8_t *image, size_t elems, float *dst, int adds)
{
    size_t k;

    if (!wi_sparse_is_finite(w->codec, image)) {
        fill_nan(dst, elems);
        return;
    }
    k = wi_sparse_places(w->codec, &w->s, image + WI_SPARSE_SCALE_BYTES, &w->room);
    wi_sparse_values_get(w->s.values, scale_of(image), image + WI_SPARSE_SCALE_BYTES + w->s.which_bytes, k,
                         w->room.values);
    if (!adds)
        memset(dst, 0, elems * sizeof *dst);
    scatter(&w->room, k, elems, dst, adds);
}

/* ---- Encoding ---- */

/* Of what was chosen of c: values into the image, and as they are decoded into the room. */
static void put_values(struct work *w, const float *c, uint32_t most, uint8_t *image)
{
    uint16_t scale = wi_sparse_scale(w->s.values, most);
    uint8_t *bytes = image + WI_SPARSE_SCALE_BYTES + w->s.which_bytes;

    for (size_t j = 0; j < w->s.k; j++)
        w->room.values[j] = c[w->room.index[j]];
    put_scale(image, scale);
    wi_sparse_values_put(w->s.values, scale, w->room.values, w->s.k, bytes);
    wi_sparse_values_get(w->s.values, scale, bytes, w->s.k, w->room.values);
}

/* Of all that is not sent everything is left. */
static void update_residual(const struct work *w, const float *c, size_t elems, float *residual)
{
    memcpy(residual, c, elems * sizeof *residual);
    for (size_t j = 0; j < w->s.k; j++)
        if (w->room.index[j] < elems)
            residual[w->room.index[j]] -= w->room.values[j];
}

/* A whole block, or the last one, of `elems` elements, for which acc is used. Returns 1 if it is not finite. */
static int encode_block(struct work *w, const struct weft_codec_site *site, const float *src, float *residual,
                        size_t elems, uint8_t *image)
{
    size_t block = w->codec->block;
    const float *add = residual, *c;
    uint32_t most;

    if (elems < block) {
        for (size_t i = 0; i < elems; i++)
            w->room.acc[i] = residual ? src[i] + residual[i] : src[i];
        memset(w->room.acc + elems, 0, (block - elems) * sizeof *src);
        src = w->room.acc;
        add = NULL;
    }
    most = wi_sparse_choose(w->codec, &w->s, site, src, add, &w->room, image + WI_SPARSE_SCALE_BYTES);
    if (most >= WI_SELECT_LIMIT) {
        memset(image, 0, w->codec->block_bytes);
        put_scale(image, NAN_SCALE);
        return 1;
    }
    c = add ? w->room.sum : src;
    put_values(w, c, most, image);
    if (residual)
        update_residual(w, c, elems, residual);
    return 0;
}

size_t wi_sparse_encode(const struct weft_codec *codec, const struct weft_codec_site *site, const float *src,
                        float *residual, size_t elems, void *image, void *scratch)
{
    struct work w = begin(codec, scratch);
    struct weft_codec_site there = *site;
    uint8_t *to = image;
    size_t bad = 0;

    for (size_t at = 0; at < elems; at += codec->block, there.first += codec->block, to += codec->block_bytes)
        bad += (size_t)encode_block(&w, &there, src + at, residual ? residual + at : NULL,
                                    elems - at < codec->block ? elems - at : codec->block, to);
    return bad;
}

void wi_sparse_decode(const struct weft_codec *codec, const void *image, size_t elems, float *dst, void *scratch)
{
    struct work w = begin(codec, scratch);
    const uint8_t *from = image;

    for (size_t at = 0; at < elems; at += codec->block, from += codec->block_bytes)
        decode_block(&w, from, elems - at < codec->block ? elems - at : codec->block, dst + at, 0);
}

/* ---- Sums ---- */

static int has_plain(const struct weft_codec_operands *o)
{
    for (int k = 0; k < o->n; k++)
        if (o->plain[k])
            return 1;
    return 0;
}

static int has_images(const struct weft_codec_operands *o)
{
    for (int k = 0; k < o->n; k++)
        if (!o->plain[k])
            return 1;
    return 0;
}

/* Where images follow, 0 is added to the first: as adding what they hold of elements that are not sent would, it makes -0 to 0. */
static void add_plain(float *acc, const float *plain, size_t count, int first, int images)
{
    if (first && !images)
        memcpy(acc, plain, count * sizeof *acc);
    else if (first)
        for (size_t i = 0; i < count; i++)
            acc[i] = plain[i] + 0.0f;
    else
        for (size_t i = 0; i < count; i++)
            acc[i] += plain[i];
}

static void sum_block(struct work *w, const struct weft_codec_operands *o, size_t at, size_t count, float *acc)
{
    size_t image_at = at / w->codec->block * w->codec->block_bytes;

    for (int k = 0; k < o->n; k++)
        if (o->plain[k])
            add_plain(acc, o->plain[k] + at, count, !k, has_images(o));
        else
            decode_block(w, (const uint8_t *)o->images[k] + image_at, count, acc, k > 0);
}

void wi_sparse_sum(const struct weft_codec *codec, const struct weft_codec_operands *operands, size_t elems, float *dst,
                   void *scratch)
{
    struct work w = begin(codec, scratch);
    int apart = has_plain(operands); /* perhaps dst is one of them */

    for (size_t at = 0; at < elems; at += codec->block) {
        size_t count = elems - at < codec->block ? elems - at : codec->block;
        sum_block(&w, operands, at, count, apart ? w.room.acc : dst + at);
        if (apart)
            memcpy(dst + at, w.room.acc, count * sizeof *dst);
    }
}

/* What the image that was just made holds. */
static void store_sent(struct work *w, int bad, size_t count, float *dst)
{
    if (bad) {
        fill_nan(dst, count);
        return;
    }
    memset(dst, 0, count * sizeof *dst);
    scatter(&w->room, w->s.k, count, dst, 0);
}

size_t wi_sparse_sum_encode(const struct weft_codec *codec, const struct weft_codec_site *site,
                            const struct weft_codec_operands *operands, float factor, float *residual, size_t elems,
                            void *image, float *dst, void *scratch)
{
    struct work w = begin(codec, scratch);
    struct weft_codec_site there = *site;
    uint8_t *to = image;
    size_t bad = 0;

    for (size_t at = 0; at < elems; at += codec->block, there.first += codec->block, to += codec->block_bytes) {
        size_t count = elems - at < codec->block ? elems - at : codec->block;
        int is_bad;
        sum_block(&w, operands, at, count, w.room.acc);
        for (size_t i = 0; factor != 1 && i < count; i++)
            w.room.acc[i] *= factor;
        is_bad = encode_block(&w, &there, w.room.acc, residual ? residual + at : NULL, count, to);
        if (dst)
            store_sent(&w, is_bad, count, dst + at);
        bad += (size_t)is_bad;
    }
    return bad;
}
