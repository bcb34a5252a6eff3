/* SPDX-License-Identifier: BSD-3-Clause */
/* Codecs for the program: weft_codec_*. */
#include <weft/weft_compress.h>

#include "base/alloc.h"
#include "base/status.h"
#include "compress/codec.h"
#include "compress/scratch.h"

#define ON_STACK 2048 /* elements that are converted at once, unless a block of the codec is longer */

struct part {
    float on_stack[ON_STACK], *floats, *owned;
    size_t elems; /* whole blocks; of a variable rate, and of what is not converted, all of them */
    int in_place; /* the program's vector is of fp32 */
};

static weft_status part_begin(struct part *part, const struct weft_codec *codec, weft_dtype dtype, const void *vector,
                              size_t count)
{
    part->owned = NULL;
    part->in_place = dtype == WEFT_FLOAT32 && (uintptr_t)vector % _Alignof(float) == 0;
    if (part->in_place) {
        part->elems = count ? count : 1;
        part->floats = part->on_stack;
        return WEFT_SUCCESS;
    }
    part->elems = codec->block > ON_STACK ? codec->block : ON_STACK;
    if (codec->traits & WEFT_CODEC_VARIABLE) {
        part->elems = count ? count : 1;
        part->floats = part->owned = wi_aligned_alloc(64, part->elems * sizeof *part->owned);
        return part->owned ? WEFT_SUCCESS : wi_fail(WEFT_ENOMEM, "%zu elements as fp32", count);
    }
    part->floats = part->elems > ON_STACK ? wi_scratch_take(WI_SCRATCH_PARTS) : part->on_stack;
    return WEFT_SUCCESS;
}

static void part_end(struct part *part)
{
    if (part->owned)
        wi_free(part->owned);
    else if (part->floats != part->on_stack)
        wi_scratch_give(WI_SCRATCH_PARTS, part->floats);
}

static weft_status find(const char *function, const char *codec, size_t count, struct weft_codec *found, size_t *bytes)
{
    if (!codec)
        return wi_fail(WEFT_EINVAL, "%s: codec is NULL", function);
    WI_TRY(wi_codec_parse(codec, found));
    *bytes = wi_codec_bytes(found, count);
    if (*bytes == SIZE_MAX)
        return wi_fail(WEFT_EINVAL, "%s: %zu elements are too many", function, count);
    return WEFT_SUCCESS;
}

static weft_status check_dtype(const char *function, weft_dtype dtype)
{
    return wi_codec_takes(dtype) ? WEFT_SUCCESS
                                 : wi_fail(WEFT_ENOTSUP, "%s: codecs take float32, float16 and bfloat16, not %s",
                                           function, weft_dtype_name(dtype));
}

weft_status weft_codec_check(const char *codec)
{
    struct wi_codec_use use;

    return codec ? wi_codec_parse_use(codec, &use) : wi_fail(WEFT_EINVAL, "codec_check: codec is NULL");
}

weft_status weft_codec_bytes(const char *codec, size_t count, size_t *bytes)
{
    struct weft_codec found;
    size_t n;

    if (!bytes)
        return wi_fail(WEFT_EINVAL, "codec_bytes: bytes is NULL");
    WI_TRY(find("codec_bytes", codec, count, &found, &n));
    *bytes = n;
    return WEFT_SUCCESS;
}

weft_status weft_codec_image_bytes(const char *codec, const void *image, size_t count, size_t *bytes)
{
    struct weft_codec found;
    size_t most, n;

    if (!bytes || (count && !image))
        return wi_fail(WEFT_EINVAL, "codec_image_bytes: %s is NULL", bytes ? "image" : "bytes");
    WI_TRY(find("codec_image_bytes", codec, count, &found, &most));
    n = wi_codec_image_bytes(&found, image, count);
    if (!n && most)
        return wi_fail(WEFT_EPROTO, "codec_image_bytes: an image of %zu elements by codec %s does not begin so", count,
                       codec);
    *bytes = n;
    return WEFT_SUCCESS;
}

weft_status weft_codec_encode(const char *codec, weft_dtype dtype, const void *src, float *residual, size_t count,
                              void *image, size_t capacity)
{
    const unsigned char *from = src;
    unsigned char *to = image;
    struct weft_codec c;
    struct part part;
    size_t bytes;

    WI_TRY(find("codec_encode", codec, count, &c, &bytes));
    WI_TRY(check_dtype("codec_encode", dtype));
    if (count && (!src || !image))
        return wi_fail(WEFT_EINVAL, "codec_encode: %s is NULL", src ? "image" : "src");
    if (bytes > capacity)
        return wi_fail(WEFT_ETRUNC, "codec_encode: the image has %zu bytes, there is room for %zu", bytes, capacity);
    WI_TRY(part_begin(&part, &c, dtype, src, count));
    for (size_t at = 0; at < count; at += part.elems) {
        size_t n = count - at < part.elems ? count - at : part.elems;
        struct weft_codec_site site = {.first = at};
        if (!part.in_place)
            wi_codec_widen(dtype, from + at * weft_dtype_bytes(dtype), part.floats, n);
        wi_codec_encode_at(&c, &site, part.in_place ? src : part.floats, residual ? residual + at : NULL, n,
                           to + wi_codec_bytes(&c, at));
    }
    part_end(&part);
    return WEFT_SUCCESS;
}

weft_status weft_codec_decode(const char *codec, const void *image, size_t bytes, weft_dtype dtype, void *dst,
                              size_t count)
{
    const unsigned char *from = image;
    unsigned char *to = dst;
    struct weft_codec c;
    struct part part;
    weft_status st = WEFT_SUCCESS;
    size_t wanted;

    WI_TRY(find("codec_decode", codec, count, &c, &wanted));
    WI_TRY(check_dtype("codec_decode", dtype));
    if (count && (!image || !dst))
        return wi_fail(WEFT_EINVAL, "codec_decode: %s is NULL", image ? "dst" : "image");
    if (count && c.traits & WEFT_CODEC_VARIABLE)
        wanted = bytes < WEFT_CODEC_HEAD_BYTES ? 0 : wi_codec_image_bytes(&c, image, count);
    if (bytes != wanted)
        return wi_fail(WEFT_EINVAL, "codec_decode: the image of %zu elements has %zu bytes, not %zu", count, wanted,
                       bytes);
    WI_TRY(part_begin(&part, &c, dtype, dst, count));
    for (size_t at = 0; at < count && st >= 0; at += part.elems) {
        size_t n = count - at < part.elems ? count - at : part.elems;
        if (wi_codec_decode(&c, from + wi_codec_bytes(&c, at), n, part.in_place ? dst : part.floats) < 0)
            st = wi_fail(WEFT_EPROTO, "codec_decode: these %zu bytes are no image of %zu elements by codec %s", bytes,
                         count, codec);
        if (!part.in_place)
            wi_codec_narrow(dtype, part.floats, to + at * weft_dtype_bytes(dtype), n);
    }
    part_end(&part);
    return st;
}

weft_status weft_codec_list(weft_codec_fn fn, void *arg)
{
    const struct weft_plugin *plugin;

    if (!fn)
        return wi_fail(WEFT_EINVAL, "codec_list: fn is NULL");
    for (size_t i = 0; (plugin = wi_codec_at(i)) != NULL; i++)
        fn(arg, plugin->name, plugin->summary);
    return WEFT_SUCCESS;
}
