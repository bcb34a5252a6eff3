/* SPDX-License-Identifier: BSD-3-Clause */
/* Sparse codecs that send the same places on all ranks, so that an ordinary all-reduce sums their values: weft_codec_ops.linear.
 *
 *     leaderk: which k elements of a block are sent says one rank, another one each time, which sends its largest (CLT-k of Chen et
 *     al., ScaleCom: Scalable Sparsified Gradient Compression for Communication-Efficient Distributed Training, NeurIPS 2020)
 *     randomk: it follows from the seed and the call */
#if defined(__clang__)
#pragma clang fp contract(off)
#else
#pragma GCC optimize("O3", "fp-contract=off")
#endif

#include "compress/sparse.h"
#include "compress/sparse_ops.h"

/* Work of one call. */
struct work {
    const struct weft_codec *codec;
    struct wi_sparse s;
    struct wi_sparse_room room;
    struct weft_codec_site site; /* of the block that it is at */
    const uint8_t *agreed;       /* likewise; NULL: the seed says */
};

static struct work begin(const struct weft_codec *codec, const struct weft_codec_site *site, const void *agreed,
                         void *scratch)
{
    return (struct work){codec, wi_sparse_of(codec), wi_sparse_room(codec->block, scratch), *site, agreed};
}

static void next_block(struct work *w)
{
    w->site.first += w->codec->block;
    if (w->agreed)
        w->agreed += w->s.which_bytes;
}

static weft_dtype value_dtype(const struct wi_sparse *s)
{
    return s->values == WI_SPARSE_BF16 ? WEFT_BFLOAT16 : WEFT_FLOAT32;
}

weft_status wi_sparse_linear(const struct weft_codec *codec, int nranks, struct weft_codec_linear *l, char *why,
                             size_t capacity)
{
    struct wi_sparse s = wi_sparse_of(codec);

    (void)nranks, (void)why, (void)capacity;
    *l = (struct weft_codec_linear){.dtype = value_dtype(&s), .elems = s.k};
    if (s.choice == WI_SPARSE_LARGEST) {
        l->agreement = WEFT_CODEC_AGREE_LEADER;
        l->agreed_dtype = WEFT_UINT8;
        l->agreed_elems = s.which_bytes;
    }
    return WEFT_SUCCESS;
}

/* The block, or what there is of it with zeros behind. */
static const float *whole_block(struct work *w, const float *src, size_t elems)
{
    if (elems == w->codec->block)
        return src;
    memcpy(w->room.acc, src, elems * sizeof *src);
    memset(w->room.acc + elems, 0, (w->codec->block - elems) * sizeof *src);
    return w->room.acc;
}

void wi_sparse_propose(const struct weft_codec *codec, const struct weft_codec_site *site, int nranks, const float *src,
                       size_t elems, void *agreed, void *scratch)
{
    struct work w = begin(codec, site, NULL, scratch);
    uint8_t *which = agreed;

    (void)nranks;
    for (size_t at = 0; at < elems; at += codec->block, which += w.s.which_bytes, next_block(&w)) {
        const float *c = whole_block(&w, src + at, elems - at < codec->block ? elems - at : codec->block);
        if (wi_sparse_choose(codec, &w.s, &w.site, c, NULL, &w.room, which) >= WI_SELECT_LIMIT)
            memset(which, 0, w.s.which_bytes); /* any places: the values will say it */
    }
}

/* Into room.index, in order; what the leader said wrongly is left out. Returns how many. */
static size_t places(struct work *w)
{
    uint8_t drawn[WI_SPARSE_DRAWN_BYTES];
    const uint8_t *which = w->agreed;
    size_t found, kept = 0;
    long last = -1;

    if (!which) {
        wi_sparse_draw(&w->s, &w->site, drawn);
        which = drawn;
    }
    found = wi_sparse_places(w->codec, &w->s, which, &w->room);
    for (size_t j = 0; j < found; j++)
        if (w->room.index[j] > last && w->room.index[j] < w->codec->block)
            w->room.index[kept++] = (uint16_t)(last = w->room.index[j]);
    return kept;
}

static int is_finite(const float *c, size_t elems)
{
    uint32_t most = 0, bits;

    for (size_t i = 0; i < elems; i++) {
        memcpy(&bits, &c[i], sizeof bits);
        bits &= 0x7fffffffu;
        most = bits > most ? bits : most;
    }
    return most < WI_SELECT_LIMIT;
}

size_t wi_sparse_project(const struct weft_codec *codec, const struct weft_codec_site *site, int nranks,
                         const void *agreed, const float *src, size_t elems, void *vector, void *scratch)
{
    struct work w = begin(codec, site, agreed, scratch);
    size_t value_bytes = wi_sparse_value_bytes(w.s.values), bad = 0;
    unsigned char *to = vector;

    (void)nranks;
    for (size_t at = 0; at < elems; at += codec->block, to += w.s.k * value_bytes, next_block(&w)) {
        size_t n = elems - at < codec->block ? elems - at : codec->block, k = places(&w);
        int sound = is_finite(src + at, n);
        for (size_t j = 0; j < w.s.k; j++)
            w.room.values[j] = j >= k || w.room.index[j] >= n ? 0 : src[at + w.room.index[j]];
        for (size_t j = 0; !sound && j < w.s.k; j++)
            w.room.values[j] = __builtin_nanf("");
        wi_codec_narrow(value_dtype(&w.s), w.room.values, to, w.s.k);
        bad += !sound;
    }
    return bad;
}

static int has_nan(const float *values, size_t k)
{
    int found = 0;

    for (size_t j = 0; j < k; j++)
        found |= values[j] != values[j];
    return found;
}

size_t wi_sparse_expand(const struct weft_codec *codec, const struct weft_codec_site *site, int nranks,
                        const void *agreed, const void *vector, size_t elems, float *dst, void *scratch)
{
    struct work w = begin(codec, site, agreed, scratch);
    size_t value_bytes = wi_sparse_value_bytes(w.s.values), bad = 0;
    const unsigned char *from = vector;

    (void)nranks;
    for (size_t at = 0; at < elems; at += codec->block, from += w.s.k * value_bytes, next_block(&w)) {
        size_t n = elems - at < codec->block ? elems - at : codec->block, k = places(&w);
        int nan;
        wi_codec_widen(value_dtype(&w.s), from, w.room.values, w.s.k);
        nan = has_nan(w.room.values, w.s.k);
        if (!nan)
            memset(dst + at, 0, n * sizeof *dst);
        for (size_t i = 0; nan && i < n; i++)
            dst[at + i] = __builtin_nanf("");
        for (size_t j = 0; !nan && j < k; j++)
            if (w.room.index[j] < n)
                dst[at + w.room.index[j]] = w.room.values[j];
        bad += (size_t)nan;
    }
    return bad;
}
