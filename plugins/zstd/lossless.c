/* SPDX-License-Identifier: BSD-3-Clause */
/* Codec lossless: byte planes, each compressed by libzstd where that gains. Nothing is lost, so that it needs no error feedback.
 *
 * An image, all numbers little-endian:
 *     bytes (4) | form (1) | mode of each plane (4, those that there are not 0) | length of each plane (4 * 4) | the planes
 * A plane is stored as it is, or as the one byte that all of it is, or as a zstd frame.
 *
 * Level 0 has zstd code bytes by how frequent they are, and not look for what repeats: three times as fast on gradients, whose
 * exponents do not repeat, and shorter. Levels from 1 on are zstd's; they gain where there are many zeros. */
#define ZSTD_STATIC_LINKING_ONLY /* the parameter for literals below; a library that does not know it refuses it, which is seen */
#include <zstd.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft_plugin.h>

#include "plugins/zstd/planes.h"

enum { HEAD = 4 + 1 + WZ_PLANES_MAX + 4 * WZ_PLANES_MAX };
enum mode { RAW, SAME, ZSTD };
enum { BLOCK, LEVEL };

static const struct weft_codec_parameter parameters[] = {
    {"block", "1024", WEFT_CODEC_POWER_OF_TWO, 32, 65536, NULL, "elements, of which vectors are cut at multiples"},
    {"level", "0", WEFT_CODEC_INTEGER, 0, 19, NULL,
     "0: frequent bytes get short codes; 1 to 19: zstd's levels, with repeats"},
    {NULL, NULL, 0, 0, 0, NULL, NULL},
};

static void put32(uint8_t *to, size_t n)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(n >> 8 * i);
}

static size_t get32(const uint8_t *from)
{
    return (size_t)from[0] | (size_t)from[1] << 8 | (size_t)from[2] << 16 | (size_t)from[3] << 24;
}

/* ---- Contexts of zstd: some hundred KiB each, kept between calls ---- */

enum { KEPT = 32 };
struct pool {
    void *(*make)(void);
    void (*end)(void *);
    void *kept[KEPT];
    int n;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of both pools */

static void *make_cctx(void)
{
    return ZSTD_createCCtx();
}

static void end_cctx(void *cctx)
{
    ZSTD_freeCCtx(cctx);
}

static void *make_dctx(void)
{
    return ZSTD_createDCtx();
}

static void end_dctx(void *dctx)
{
    ZSTD_freeDCtx(dctx);
}

static struct pool cctxs = {.make = make_cctx, .end = end_cctx}, dctxs = {.make = make_dctx, .end = end_dctx};

/* NULL: no memory. */
static void *take(struct pool *p)
{
    void *one = NULL;

    pthread_mutex_lock(&lock);
    if (p->n)
        one = p->kept[--p->n];
    pthread_mutex_unlock(&lock);
    return one ? one : p->make();
}

static void give(struct pool *p, void *one)
{
    pthread_mutex_lock(&lock);
    if (p->n < KEPT) {
        p->kept[p->n++] = one;
        one = NULL;
    }
    pthread_mutex_unlock(&lock);
    if (one)
        p->end(one);
}

/* ---- One plane ---- */

static int is_same(const uint8_t *plane, size_t elems)
{
    return elems && !memcmp(plane, plane + 1, elems - 1);
}

/* Mantissas of most vectors are noise, on which zstd would work in vain: what some 4,096 of its bytes need, by Shannon, is asked
 * first. */
static int may_gain(const uint8_t *plane, size_t elems)
{
    enum { LOOKS = 4096 };
    size_t step = elems / LOOKS ? elems / LOOKS : 1, n = 0;
    uint32_t seen[256] = {0};
    float bits = 0;

    for (size_t i = 0; i < elems; i += step, n++)
        seen[plane[i]]++;
    for (int b = 0; b < 256; b++)
        if (seen[b])
            bits += (float)seen[b] * log2f((float)n / (float)seen[b]);
    return n > 64 && bits < 7.6f * (float)n;
}

static int set(ZSTD_CCtx *z, ZSTD_cParameter what, int value)
{
    return !ZSTD_isError(ZSTD_CCtx_setParameter(z, what, value));
}

static void set_level(ZSTD_CCtx *z, int64_t level)
{
    ZSTD_CCtx_reset(z, ZSTD_reset_session_and_parameters);
    set(z, ZSTD_c_compressionLevel, level ? (int)level : 1);
    if (!level && set(z, ZSTD_c_literalCompressionMode, ZSTD_ps_enable)) {
        set(z, ZSTD_c_targetLength, ZSTD_TARGETLENGTH_MAX); /* strides of the search for repeats */
        set(z, ZSTD_c_minMatch, 7);
    }
}

/* Into `to`, of elems bytes at most. */
static size_t store(ZSTD_CCtx *z, const uint8_t *plane, size_t elems, uint8_t *to, uint8_t *mode)
{
    size_t bytes;

    *mode = SAME;
    if (is_same(plane, elems)) {
        *to = *plane;
        return 1;
    }
    bytes = z && may_gain(plane, elems) ? ZSTD_compress2(z, to, elems - 1, plane, elems) : 0;
    if (bytes && !ZSTD_isError(bytes)) {
        *mode = ZSTD;
        return bytes;
    }
    *mode = RAW;
    memcpy(to, plane, elems);
    return elems;
}

/* 0: it is no plane of so many elements. */
static int fetch(ZSTD_DCtx *z, const uint8_t *from, size_t bytes, unsigned mode, uint8_t *plane, size_t elems)
{
    if (mode == RAW && bytes == elems)
        memcpy(plane, from, elems);
    else if (mode == SAME && bytes == 1)
        memset(plane, *from, elems);
    else
        return mode == ZSTD && z && ZSTD_decompressDCtx(z, plane, elems, from, bytes) == elems;
    return 1;
}

/* ---- Images ---- */

static void put_length(uint8_t *head, int plane, size_t bytes)
{
    put32(head + 5 + WZ_PLANES_MAX + 4 * plane, bytes);
}

/* Planes of elems bytes each, one behind the other from `memory` on. */
static void split(enum wz_form form, const float *src, size_t elems, uint8_t *memory)
{
    uint8_t *plane[WZ_PLANES_MAX];

    for (int p = 0; p < wz_planes_of(form); p++)
        plane[p] = memory + (size_t)p * elems;
    wz_split(form, src, elems, plane);
}

/* Without memory to compress in. Returns the end of the image. */
static uint8_t *store_raw(enum wz_form form, const float *src, size_t elems, uint8_t *head)
{
    int n = wz_planes_of(form);

    split(form, src, elems, head + HEAD);
    for (int p = 0; p < n; p++)
        put_length(head, p, elems);
    return head + HEAD + (size_t)n * elems;
}

static uint8_t *store_planes(enum wz_form form, int64_t level, const uint8_t *planes, size_t elems, uint8_t *head)
{
    ZSTD_CCtx *z = take(&cctxs);
    uint8_t *to = head + HEAD;

    if (z)
        set_level(z, level);
    for (int p = 0; p < wz_planes_of(form); p++) {
        size_t bytes = store(z, planes + (size_t)p * elems, elems, to, &head[5 + p]);
        put_length(head, p, bytes);
        to += bytes;
    }
    if (z)
        give(&cctxs, z);
    return to;
}

static int is_all_finite(const float *v, size_t elems)
{
    int finite = 1;

    for (size_t i = 0; i < elems; i++)
        finite &= isfinite(v[i]) != 0;
    return finite;
}

/* A residual, of another codec before this one, goes with the vector, unless that is not finite. */
static size_t encode(const struct weft_codec *codec, const struct weft_codec_site *site, const float *src,
                     float *residual, size_t elems, void *image, void *scratch)
{
    int bad = residual && !is_all_finite(src, elems);
    uint8_t *head = image, *planes, *end;
    enum wz_form form;

    (void)site, (void)scratch;
    if (!elems)
        return 0;
    residual = bad ? NULL : residual;
    for (size_t i = 0; residual && i < elems; i++)
        residual[i] += src[i];
    src = residual ? residual : src;
    form = wz_form_of(src, elems);
    memset(head, 0, HEAD);
    head[4] = (uint8_t)form;
    planes = malloc((size_t)wz_planes_of(form) * elems);
    if (planes)
        split(form, src, elems, planes);
    end = planes ? store_planes(form, codec->value[LEVEL].integer, planes, elems, head)
                 : store_raw(form, src, elems, head);
    free(planes);
    put32(head, (size_t)(end - head));
    if (residual)
        memset(residual, 0, elems * sizeof *residual);
    return (size_t)bad;
}

/* Lengths of `n` planes; 0: they are not what there is behind the head. */
static int lengths_of(const uint8_t *head, size_t bytes, int n, size_t length[])
{
    size_t left = bytes - HEAD;

    for (int p = 0; p < n; p++) {
        length[p] = get32(head + 5 + WZ_PLANES_MAX + 4 * p);
        if (length[p] > left)
            return 0;
        left -= length[p];
    }
    return !left;
}

static int fetch_planes(const uint8_t *head, int n, const size_t length[], size_t elems, uint8_t *planes)
{
    ZSTD_DCtx *z = take(&dctxs);
    const uint8_t *from = head + HEAD;
    int good = 1;

    for (int p = 0; p < n && good; p++) {
        good = fetch(z, from, length[p], head[5 + p], planes + (size_t)p * elems, elems);
        from += length[p];
    }
    if (z)
        give(&dctxs, z);
    return good;
}

static int read_image(const struct weft_codec *codec, const void *image, size_t bytes, size_t elems, float *dst,
                      void *scratch)
{
    const uint8_t *head = image, *plane[WZ_PLANES_MAX];
    size_t length[WZ_PLANES_MAX];
    int n, good;
    uint8_t *planes;

    (void)codec, (void)scratch;
    if (bytes < HEAD || get32(head) != bytes)
        return -1;
    n = wz_planes_of(head[4]);
    if (!n || !lengths_of(head, bytes, n, length))
        return -1;
    planes = malloc((size_t)n * elems);
    if (!planes)
        return -1;
    good = fetch_planes(head, n, length, elems, planes);
    for (int p = 0; p < n; p++)
        plane[p] = planes + (size_t)p * elems;
    if (good)
        wz_join(head[4], plane, elems, dst);
    free(planes);
    return good ? 0 : -1;
}

/* What is not finite comes back as it was. */
static int is_finite(const struct weft_codec *codec, const void *image)
{
    (void)codec, (void)image;
    return 1;
}

static weft_status configure(struct weft_codec *c, char *why, size_t capacity)
{
    (void)why, (void)capacity;
    c->block = (uint32_t)c->value[BLOCK].integer;
    c->block_bytes = HEAD + sizeof(float) * c->block;
    c->traits = WEFT_CODEC_VARIABLE | WEFT_CODEC_CONTRACTIVE | WEFT_CODEC_UNBIASED;
    c->limit = INFINITY;
    c->encode_rate = 1000;
    c->decode_rate = 2000;
    return WEFT_SUCCESS;
}

static const struct weft_codec_ops ops = {
    .bytes = sizeof ops,
    .parameters = parameters,
    .configure = configure,
    .encode = encode,
    .is_finite = is_finite,
    .read = read_image,
};

WEFT_API extern const struct weft_plugin weft_plugin;
const struct weft_plugin weft_plugin = {
    .abi = WEFT_PLUGIN_ABI,
    .bytes = sizeof weft_plugin,
    .kind = WEFT_PLUGIN_CODEC,
    .name = "lossless",
    .summary = "every bit comes back: byte planes, compressed by zstd",
    .ops = &ops,
};
