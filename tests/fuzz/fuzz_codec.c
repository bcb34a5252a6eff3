/* SPDX-License-Identifier: BSD-3-Clause */
/* Images that peers send, and texts of codecs that users write. The first byte says which: 255: the rest is a text; others: the
 * codec, the next two how many elements, the rest is their image, with zeros behind it if it is too short. Any of a fixed rate
 * decodes to something, and a sum of images is what adding their elements gives. Each instruction set that this CPU has gives the
 * same, and touches nothing behind what it is given. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

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

/* ---- Memory of an exact length ---- */

enum arena { IMAGE, DECODED, PLAIN, SUM, AGREED, ARENAS };
enum { MOST = 3000, ROOM = 1 << 17 };

static int is_plain; /* the code that runs now: what it touches sanitizers see */

/* Kernels of vector instructions are compiled without sanitizers (test_fuzz.sh): what they are given ends where memory begins that
 * nobody may touch. All zeros. */
static void *take(enum arena which, size_t bytes)
{
    static unsigned char *arena[ARENAS];
    unsigned char *p;

    require(bytes <= ROOM);
    if (is_plain) {
        p = calloc(1, bytes + !bytes);
        require(p != NULL);
        return p;
    }
    if (!arena[which]) {
        p = mmap(NULL, 2 * (size_t)ROOM, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        require(p != MAP_FAILED && mprotect(p, ROOM, PROT_READ | PROT_WRITE) == 0);
        arena[which] = p;
    }
    p = arena[which] + ROOM - bytes;
    memset(p, 0, bytes);
    return p;
}

static void give(void *p)
{
    if (is_plain)
        free(p);
}

/* ---- Images ---- */

static int same(float a, float b)
{
    return !memcmp(&a, &b, sizeof a) || (isnan(a) && isnan(b));
}

/* What the plain code has made of this input is what all others make. */
static void compare(float first[MOST], const float *v, size_t elems)
{
    if (is_plain)
        memcpy(first, v, elems * sizeof *v);
    for (size_t i = 0; i < elems; i++)
        require(same(first[i], v[i]));
}

static void judge_sums(const struct weft_codec *c, const unsigned char *image, const float *v, size_t elems)
{
    const void *images[2] = {NULL, image};
    float *plain = take(PLAIN, elems * sizeof *plain), *sum = take(SUM, elems * sizeof *sum);
    const float *plains[2] = {plain, NULL};
    struct weft_codec_operands o = {2, images, plains};

    for (size_t i = 0; i < elems; i++)
        plain[i] = (float)i * 0.25f - 3;
    wi_codec_sum(c, &o, elems, sum);
    for (size_t i = 0; i < elems; i++)
        require(same(sum[i], plain[i] + v[i]));
    give(plain);
    give(sum);
}

static void judge_image(const struct weft_codec *c, size_t elems, const uint8_t *data, size_t bytes)
{
    static float first[MOST];
    size_t most = wi_codec_bytes(c, elems);
    unsigned char *image = take(IMAGE, most);
    float *v = take(DECODED, elems * sizeof *v);

    if (bytes)
        memcpy(image, data, bytes < most ? bytes : most);
    require(wi_codec_decode(c, image, elems, v) == 0);
    compare(first, v, elems);
    for (size_t at = 0; at < elems; at += c->block)
        wi_codec_is_finite(c, image, at / c->block); /* which a peer may say of what is finite */
    judge_sums(c, image, v, elems);
    give(image);
    give(v);
}

/* What ranks agree on, and the sum that all get, of which each may lie: what is projected by it expands like any. */
static void judge_linear(const struct weft_codec *c, size_t elems, const uint8_t *data, size_t bytes)
{
    static float first[2][MOST];
    const struct weft_codec_site site = {.step = 3};
    size_t blocks = (elems + c->block - 1) / c->block, agreed_bytes, sum_bytes;
    struct weft_codec_linear l;
    unsigned char *agreed, *sum;
    float *v;

    if (!(c->traits & WEFT_CODEC_LINEAR) || !elems)
        return;
    require(wi_codec_linear(c, 4, &l) >= 0);
    agreed_bytes = l.agreement ? blocks * l.agreed_elems * weft_dtype_bytes(l.agreed_dtype) : 0;
    sum_bytes = blocks * l.elems * weft_dtype_bytes(l.dtype);
    agreed = take(AGREED, agreed_bytes);
    sum = take(SUM, sum_bytes);
    v = take(DECODED, elems * sizeof *v);
    memcpy(agreed, data, bytes < agreed_bytes ? bytes : agreed_bytes);
    if (bytes > agreed_bytes)
        memcpy(sum, data + agreed_bytes, bytes - agreed_bytes < sum_bytes ? bytes - agreed_bytes : sum_bytes);
    require(wi_codec_expand(c, &site, 4, l.agreement ? agreed : NULL, sum, elems, v) <= blocks);
    compare(first[0], v, elems);
    wi_codec_project(c, &site, 4, l.agreement ? agreed : NULL, v, elems, sum);
    require(wi_codec_expand(c, &site, 4, l.agreement ? agreed : NULL, sum, elems, v) <= blocks);
    compare(first[1], v, elems);
    give(agreed);
    give(sum);
    give(v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const char *const isas[] = {"scalar", "avx2", "avx512", "neon"}; /* the plain code first */
    struct weft_codec c;
    char text[256];
    size_t elems;

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
    elems = ((size_t)data[1] | (size_t)data[2] << 8) % MOST;
    for (size_t i = 0; i < sizeof isas / sizeof *isas; i++) {
        if (wi_isa_force(isas[i]) < 0)
            continue;
        is_plain = i == 0;
        judge_image(&c, elems, data + 3, bytes - 3);
        judge_linear(&c, elems, data + 3, bytes - 3);
    }
    return 0;
}
