/* SPDX-License-Identifier: BSD-3-Clause */
/* Images that peers send, and texts of codecs that users write. The first byte says which: 255: the rest is a text; others: the
 * codec, the next two how many elements, the rest is their image, with zeros behind it if it is too short. Any of a fixed rate
 * decodes to something, and a sum of images is what adding their elements gives. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/reduce.h"
#include "compress/codec.h"
#include "tests/fuzz/require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static const char *const specs[] = {
    "int8",
    "int8:scale=fp32",
    "int8:levels=minmax,block=32",
    "int6:block=64",
    "int4",
    "int4:hadamard=1",
    "int4:levels=minmax,scale=fp32",
    "int2",
    "sign",
    "sign:means=2",
    "bf16",
    "fp16",
    "e4m3:block=32",
    "e5m2",
    "mxfp8",
    "mxfp6",
    "mxfp4",
    "qsgd",
    "terngrad:block=32",
    "natural",
    "topk:block=256,ratio=0.02",
    "topk:block=256,ratio=0.5,values=int8",
    "topk:block=512,values=bf16,indices=u16",
    "topk:block=1024,values=fp32",
    "blocktopk:block=256,ratio=0.2",
    "randomk:block=256,ratio=0.1",
    "sharedint:block=32",
    "sharedint:wire=int16",
    "leaderk:block=256,ratio=0.1",
    "leaderk:block=512,ratio=0.5,values=fp32,indices=u16",
};

/* ---- Texts ---- */

static void judge_text(const char *text)
{
    struct wi_codec_use use, again;
    char printed[WI_CODEC_TEXT_MAX];

    if (wi_codec_parse_use(text, &use) < 0) {
        require(weft_thread_error()[0]);
        return;
    }
    if (!use.on)
        return;
    wi_codec_text(&use.codec, printed, sizeof printed);
    require(wi_codec_parse_use(printed, &again) >= 0 && again.codec.hash == use.codec.hash);
    require(again.codec.block == use.codec.block && again.codec.block_bytes == use.codec.block_bytes);
}

/* ---- Images ---- */

static int same(float a, float b)
{
    return !memcmp(&a, &b, sizeof a) || (isnan(a) && isnan(b));
}

static void judge_sums(const struct weft_codec *c, const unsigned char *image, const float *v, size_t elems)
{
    const void *images[2] = {NULL, image};
    float *plain = malloc((elems + 1) * sizeof *plain), *sum = malloc((elems + 1) * sizeof *sum);
    const float *plains[2] = {plain, NULL};
    struct weft_codec_operands o = {2, images, plains};

    require(plain && sum);
    for (size_t i = 0; i < elems; i++)
        plain[i] = (float)i * 0.25f - 3;
    wi_codec_sum(c, &o, elems, sum);
    for (size_t i = 0; i < elems; i++)
        require(same(sum[i], plain[i] + v[i]));
    free(plain);
    free(sum);
}

static void judge_image(const struct weft_codec *c, size_t elems, const uint8_t *data, size_t bytes)
{
    size_t most = wi_codec_bytes(c, elems);
    unsigned char *image = calloc(1, most + !most); /* exactly: what is read behind it is seen */
    float *v = malloc((elems + !elems) * sizeof *v);

    require(image && v);
    if (bytes)
        memcpy(image, data, bytes < most ? bytes : most);
    require(wi_codec_decode(c, image, elems, v) == 0);
    for (size_t at = 0; at < elems; at += c->block)
        wi_codec_is_finite(c, image, at / c->block); /* which a peer may say of what is finite */
    judge_sums(c, image, v, elems);
    free(image);
    free(v);
}

/* What ranks agree on, and the sum that all get, of which each may lie: what is projected by it expands like any. */
static void judge_linear(const struct weft_codec *c, size_t elems, const uint8_t *data, size_t bytes)
{
    const struct weft_codec_site site = {.step = 3};
    size_t blocks = (elems + c->block - 1) / c->block, agreed_bytes, sum_bytes;
    struct weft_codec_linear l;
    unsigned char *agreed, *sum;
    float *v = calloc(elems + !elems, sizeof *v);

    if (!(c->traits & WEFT_CODEC_LINEAR) || !elems) {
        free(v);
        return;
    }
    require(v && wi_codec_linear(c, 4, &l) >= 0);
    agreed_bytes = l.agreement ? blocks * l.agreed_elems * weft_dtype_bytes(l.agreed_dtype) : 0;
    sum_bytes = blocks * l.elems * weft_dtype_bytes(l.dtype);
    agreed = calloc(1, agreed_bytes + !agreed_bytes);
    sum = calloc(1, sum_bytes);
    require(agreed && sum);
    memcpy(agreed, data, bytes < agreed_bytes ? bytes : agreed_bytes);
    if (bytes > agreed_bytes)
        memcpy(sum, data + agreed_bytes, bytes - agreed_bytes < sum_bytes ? bytes - agreed_bytes : sum_bytes);
    require(wi_codec_expand(c, &site, 4, l.agreement ? agreed : NULL, sum, elems, v) <= blocks);
    wi_codec_project(c, &site, 4, l.agreement ? agreed : NULL, v, elems, sum);
    require(wi_codec_expand(c, &site, 4, l.agreement ? agreed : NULL, sum, elems, v) <= blocks);
    free(agreed);
    free(sum);
    free(v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    size_t elems;

    struct weft_codec c;
    char text[256];

    wi_isa_force("scalar"); /* what sanitizers see: test_fuzz.sh */
    if (!bytes)
        return 0;
    if (data[0] == 255) {
        size_t n = bytes - 1 < sizeof text - 1 ? bytes - 1 : sizeof text - 1;
        memcpy(text, data + 1, n);
        text[n] = '\0';
        judge_text(text);
        return 0;
    }
    if (bytes < 3)
        return 0;
    require(wi_codec_parse(specs[data[0] % (sizeof specs / sizeof *specs)], &c) >= 0);
    elems = ((size_t)data[1] | (size_t)data[2] << 8) % 3000;
    judge_image(&c, elems, data + 3, bytes - 3);
    judge_linear(&c, elems, data + 3, bytes - 3);
    return 0;
}
