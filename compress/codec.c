/* SPDX-License-Identifier: BSD-3-Clause */
/* How the library calls codecs: with scratch, and with what a codec leaves out made of what it has. */
#include "compress/codec.h"

#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "base/status.h"
#include "compress/scratch.h"

/* ---- What configure said ---- */

static weft_status check(const struct weft_codec *c)
{
    uint32_t b = c->block;
    const char *name = wi_codec_name(c);

    if (b < WEFT_CODEC_BLOCK_MIN || b > WEFT_CODEC_BLOCK_MAX || (b & (b - 1)))
        return wi_fail(WEFT_EINVAL, "codec %s: a block has %u elements, which is not a power of two from %u to %u",
                       name, b, WEFT_CODEC_BLOCK_MIN, WEFT_CODEC_BLOCK_MAX);
    if (!c->block_bytes || c->block_bytes > 2 * sizeof(float) * b)
        return wi_fail(WEFT_EINVAL, "codec %s: the image of a block of %u elements has %zu bytes, not 1 to %zu", name,
                       b, c->block_bytes, 2 * sizeof(float) * b);
    if (c->traits & WEFT_CODEC_VARIABLE && c->block_bytes < WEFT_CODEC_HEAD_BYTES)
        return wi_fail(WEFT_EINVAL, "codec %s: its images begin with their length, %u bytes, and may have %zu", name,
                       WEFT_CODEC_HEAD_BYTES, c->block_bytes);
    if (c->scratch_bytes > WEFT_CODEC_SCRATCH_MAX)
        return wi_fail(WEFT_EINVAL, "codec %s: it needs %zu bytes of scratch, and there are %zu", name,
                       c->scratch_bytes, WEFT_CODEC_SCRATCH_MAX);
    if (c->traits & ~(uint32_t)(WEFT_CODEC_CONTRACTIVE | WEFT_CODEC_UNBIASED | WEFT_CODEC_VARIABLE | WEFT_CODEC_LINEAR))
        return wi_fail(WEFT_ENOTSUP, "codec %s: this library does not know its traits, %#x", name, c->traits);
    if (c->traits & WEFT_CODEC_VARIABLE ? !c->ops->read : !c->ops->decode)
        return wi_fail(WEFT_EINVAL, "codec %s: its images are of %s length, and it has no %s", name,
                       c->ops->decode ? "a variable" : "a fixed", c->ops->decode ? "read" : "decode");
    if (c->traits & WEFT_CODEC_LINEAR && !(c->ops->linear && c->ops->project && c->ops->expand))
        return wi_fail(WEFT_EINVAL, "codec %s: it is linear, and lacks linear, project or expand", name);
    if (!(c->encode_rate > 0 && c->decode_rate > 0 && c->limit > 0 && isfinite(c->encode_rate) &&
          isfinite(c->decode_rate)))
        return wi_fail(WEFT_EINVAL, "codec %s: it says no rates or no limit", name);
    return WEFT_SUCCESS;
}

#define ON_STACK 2048 /* elements of a block whose scratch is on the stack */

weft_status wi_codec_configure(struct weft_codec *codec)
{
    struct weft_codec made = {.plugin = codec->plugin, .ops = codec->ops, .hash = codec->hash};
    char why[160] = "its parameters do not go together";
    weft_status st;

    memcpy(made.value, codec->value, sizeof made.value);
    st = made.ops->configure(&made, why, sizeof why);
    why[sizeof why - 1] = '\0';
    if (st < 0)
        return wi_fail(st, "codec %s: %s", wi_codec_name(&made), why);
    WI_TRY(check(&made));
    if (made.block > ON_STACK || made.scratch_bytes)
        WI_TRY(wi_scratch_reserve());
    *codec = made;
    return WEFT_SUCCESS;
}

size_t wi_codec_bytes(const struct weft_codec *codec, size_t elems)
{
    size_t blocks = elems / codec->block + (elems % codec->block != 0), bytes;

    return __builtin_mul_overflow(blocks, codec->block_bytes, &bytes) ? SIZE_MAX : bytes;
}

int wi_codec_is_finite(const struct weft_codec *codec, const void *image, size_t block)
{
    return codec->ops->is_finite(codec, (const unsigned char *)image + block * codec->block_bytes);
}

/* ---- Scratch ---- */

static void *begin(const struct weft_codec *codec)
{
    return codec->scratch_bytes ? wi_scratch_take(WI_SCRATCH_CODEC) : NULL;
}

static void end(void *scratch)
{
    if (scratch)
        wi_scratch_give(WI_SCRATCH_CODEC, scratch);
}

static const struct weft_codec_site nowhere;

size_t wi_codec_encode_at(const struct weft_codec *codec, const struct weft_codec_site *site, const float *src,
                          float *residual, size_t elems, void *image)
{
    void *scratch;
    size_t bad;

    if (!elems)
        return 0;
    scratch = begin(codec);
    bad = codec->ops->encode(codec, site ? site : &nowhere, src, residual, elems, image, scratch);
    end(scratch);
    return bad;
}

size_t wi_codec_image_bytes(const struct weft_codec *codec, const void *image, size_t elems)
{
    size_t most = wi_codec_bytes(codec, elems), bytes;

    if (!(codec->traits & WEFT_CODEC_VARIABLE) || !elems)
        return most;
    bytes = wi_get32(image);
    return bytes < WEFT_CODEC_HEAD_BYTES || bytes > most ? 0 : bytes;
}

/* Of a variable rate. */
static int read_image(const struct weft_codec *codec, const void *image, size_t elems, float *dst, void *scratch)
{
    size_t bytes = wi_codec_image_bytes(codec, image, elems);

    return bytes ? codec->ops->read(codec, image, bytes, elems, dst, scratch) : -1;
}

int wi_codec_decode(const struct weft_codec *codec, const void *image, size_t elems, float *dst)
{
    void *scratch;
    int st = 0;

    if (!elems)
        return 0;
    scratch = begin(codec);
    if (codec->traits & WEFT_CODEC_VARIABLE)
        st = read_image(codec, image, elems, dst, scratch);
    else
        codec->ops->decode(codec, image, elems, dst, scratch);
    end(scratch);
    return st;
}

/* ---- Linear codecs ---- */

static int fits(const struct weft_codec *codec, uint32_t dtype, uint32_t elems)
{
    return weft_dtype_bytes((weft_dtype)dtype) && elems &&
           elems <= 2 * sizeof(float) * codec->block / weft_dtype_bytes((weft_dtype)dtype);
}

weft_status wi_codec_linear(const struct weft_codec *codec, int nranks, struct weft_codec_linear *linear)
{
    char why[160] = "not for so many ranks";
    weft_status st;

    *linear = (struct weft_codec_linear){0};
    st = codec->ops->linear(codec, nranks, linear, why, sizeof why);
    why[sizeof why - 1] = '\0';
    if (st < 0)
        return wi_fail(st, "codec %s: %s", wi_codec_name(codec), why);
    if (!fits(codec, (uint32_t)linear->dtype, linear->elems) || linear->agreement > WEFT_CODEC_AGREE_LEADER ||
        (linear->agreement &&
         (!fits(codec, (uint32_t)linear->agreed_dtype, linear->agreed_elems) || !codec->ops->propose)))
        return wi_fail(WEFT_EINVAL, "codec %s: its plain vectors have no type, no length or too much of it",
                       wi_codec_name(codec));
    return WEFT_SUCCESS;
}

void wi_codec_propose(const struct weft_codec *codec, const struct weft_codec_site *site, int nranks, const float *src,
                      size_t elems, void *agreed)
{
    void *scratch = begin(codec);

    codec->ops->propose(codec, site, nranks, src, elems, agreed, scratch);
    end(scratch);
}

size_t wi_codec_project(const struct weft_codec *codec, const struct weft_codec_site *site, int nranks,
                        const void *agreed, const float *src, size_t elems, void *vector)
{
    void *scratch = begin(codec);
    size_t bad = codec->ops->project(codec, site, nranks, agreed, src, elems, vector, scratch);

    end(scratch);
    return bad;
}

size_t wi_codec_expand(const struct weft_codec *codec, const struct weft_codec_site *site, int nranks,
                       const void *agreed, const void *vector, size_t elems, float *dst)
{
    void *scratch = begin(codec);
    size_t bad = codec->ops->expand(codec, site, nranks, agreed, vector, elems, dst, scratch);

    end(scratch);
    return bad;
}

/* ---- Sums of codecs that have none of their own, block by block ---- */

struct sums {
    const struct weft_codec *codec;
    float *acc, *decoded; /* of a block */
    void *scratch;        /* the codec's */
};

/* `small`: of ON_STACK elements, twice. *held: what is to be given back, or NULL. */
static struct sums sums_begin(const struct weft_codec *codec, float *small, void **held)
{
    int stays = codec->block <= ON_STACK && !codec->scratch_bytes;
    unsigned char *memory = stays ? NULL : wi_scratch_take(WI_SCRATCH_CODEC);
    float *acc = stays ? small : (float *)(void *)(memory + WEFT_CODEC_SCRATCH_MAX);

    *held = memory;
    return (struct sums){codec, acc, acc + codec->block, memory};
}

static void sum_block(const struct sums *s, const struct weft_codec_operands *o, size_t at, size_t count)
{
    size_t image_at = at / s->codec->block * s->codec->block_bytes;

    for (int k = 0; k < o->n; k++) {
        const float *from = o->plain[k] ? o->plain[k] + at : k ? s->decoded : s->acc;
        if (!o->plain[k])
            s->codec->ops->decode(s->codec, (const unsigned char *)o->images[k] + image_at, count,
                                  k ? s->decoded : s->acc, s->scratch);
        if (k)
            for (size_t i = 0; i < count; i++)
                s->acc[i] += from[i];
        else if (from != s->acc)
            memcpy(s->acc, from, count * sizeof *from);
    }
}

static void sum_by_blocks(const struct weft_codec *codec, const struct weft_codec_operands *operands, size_t elems,
                          float *dst)
{
    float small[2 * ON_STACK];
    void *held;
    struct sums s = sums_begin(codec, small, &held);

    for (size_t at = 0; at < elems; at += codec->block) {
        size_t count = elems - at < codec->block ? elems - at : codec->block;
        sum_block(&s, operands, at, count);
        memcpy(dst + at, s.acc, count * sizeof *dst);
    }
    end(held);
}

static size_t sum_encode_by_blocks(const struct weft_codec *codec, struct weft_codec_site site,
                                   const struct weft_codec_operands *operands, float factor, float *residual,
                                   size_t elems, unsigned char *image, float *dst)
{
    float small[2 * ON_STACK];
    void *held;
    struct sums s = sums_begin(codec, small, &held);
    size_t bad = 0;

    for (size_t at = 0; at < elems; at += codec->block, site.first += codec->block, image += codec->block_bytes) {
        size_t count = elems - at < codec->block ? elems - at : codec->block;
        sum_block(&s, operands, at, count);
        for (size_t i = 0; i < count; i++)
            s.acc[i] *= factor;
        bad += codec->ops->encode(codec, &site, s.acc, residual ? residual + at : NULL, count, image, s.scratch);
        if (dst)
            codec->ops->decode(codec, image, count, dst + at, s.scratch);
    }
    end(held);
    return bad;
}

void wi_codec_sum(const struct weft_codec *codec, const struct weft_codec_operands *operands, size_t elems, float *dst)
{
    void *scratch;

    if (!codec->ops->sum) {
        sum_by_blocks(codec, operands, elems, dst);
        return;
    }
    scratch = begin(codec);
    codec->ops->sum(codec, operands, elems, dst, scratch);
    end(scratch);
}

size_t wi_codec_sum_encode(const struct weft_codec *codec, const struct weft_codec_site *site,
                           const struct weft_codec_operands *operands, float factor, float *residual, size_t elems,
                           void *image, float *dst)
{
    void *scratch;
    size_t bad;

    site = site ? site : &nowhere;
    if (!codec->ops->sum_encode)
        return sum_encode_by_blocks(codec, *site, operands, factor, residual, elems, image, dst);
    scratch = begin(codec);
    bad = codec->ops->sum_encode(codec, site, operands, factor, residual, elems, image, dst, scratch);
    end(scratch);
    return bad;
}
