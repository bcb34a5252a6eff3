/* SPDX-License-Identifier: BSD-3-Clause */
/* One piece of coding work: sums of more plain operands than are converted at once, in one order, whatever the type. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "exec/coded.h"
#include "exec/engine.h"
#include "tests/exec/varied.h"
#include "unit.h"

enum { ELEMS = 5000, PLAIN = 7, SOURCES = PLAIN + 2 };

struct work {
    struct weft_codec codec;
    struct wi_op op;
    struct wi_work work;
    struct wi_operand to[1 + SOURCES];
    float values[SOURCES][ELEMS]; /* as the type has them */
    uint16_t narrow[SOURCES][ELEMS];
    unsigned char image[2][8 * ELEMS];
    float got[ELEMS], want[ELEMS];
    uint16_t got_narrow[ELEMS];
};

static float value(uint32_t i)
{
    uint32_t h = (i + 1) * 2654435761u;

    return ((float)(h >> 8) / 16777216.0f - 0.5f) * (i % 7 ? 1e-3f : 10.0f);
}

/* Sources 2 and 5 are images. */
static int image_of(int i)
{
    return i == 2 ? 0 : i == 5 ? 1 : -1;
}

static struct work *begin(const char *codec, weft_dtype dtype)
{
    struct work *w = calloc(1, sizeof *w);

    CU_ASSERT_FATAL(w != NULL);
    CU_ASSERT_EQUAL_FATAL(wi_codec_parse(codec, &w->codec), WEFT_SUCCESS);
    CU_ASSERT_EQUAL_FATAL(wi_coding_init(&w->op.bind.coding, &w->codec, dtype, 0), WEFT_SUCCESS);
    w->op.bind.redop =
        (struct wi_redop){.dtype = (uint8_t)dtype, .op = WEFT_SUM, .elem_bytes = (uint32_t)weft_dtype_bytes(dtype)};
    w->work = (struct wi_work){.kind = WI_WORK_CODE, .op = &w->op, .to = w->to, .ndst = 1, .nsrc = SOURCES};
    for (int i = 0; i < SOURCES; i++) {
        int image = image_of(i);
        for (uint32_t e = 0; e < ELEMS; e++)
            w->values[i][e] = value((uint32_t)i * ELEMS + e);
        wi_codec_narrow(dtype, w->values[i], w->narrow[i], dtype == WEFT_FLOAT32 ? 0 : ELEMS);
        wi_codec_widen(dtype, w->narrow[i], w->values[i], dtype == WEFT_FLOAT32 ? 0 : ELEMS);
        w->to[1 + i].mem = image < 0 ? WI_MEM_SRC : WI_MEM_PACK;
        w->work.src[i] = image >= 0              ? (void *)w->image[image]
                         : dtype == WEFT_FLOAT32 ? (void *)w->values[i]
                                                 : (void *)w->narrow[i];
        if (image < 0)
            continue;
        wi_codec_encode(&w->codec, w->values[i], NULL, ELEMS, w->image[image]);
        wi_codec_decode(&w->codec, w->image[image], ELEMS, w->values[i]);
    }
    w->to[0].mem = WI_MEM_DST;
    w->work.dst[0] = dtype == WEFT_FLOAT32 ? (void *)w->got : (void *)w->got_narrow;
    return w;
}

static void from_left_to_right(const char *codec, weft_dtype dtype)
{
    struct work *w = begin(codec, dtype);
    size_t es = weft_dtype_bytes(dtype), cut = wi_work_grain(&w->work) * 3;

    for (uint32_t e = 0; e < ELEMS; e++)
        for (int i = 0; i < SOURCES; i++)
            w->want[e] = i ? w->want[e] + w->values[i][e] : w->values[i][e];
    if (w->op.bind.coding.variable)
        cut = 0;
    if (cut) /* in two chunks */
        CU_ASSERT_EQUAL(wi_coded_do(&w->work, 0, cut), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_coded_do(&w->work, cut, ELEMS * es - cut), WEFT_SUCCESS);
    if (dtype == WEFT_FLOAT32) {
        CU_ASSERT(memcmp(w->got, w->want, sizeof w->want) == 0);
    } else {
        wi_codec_narrow(dtype, w->want, w->narrow[0], ELEMS);
        CU_ASSERT(memcmp(w->got_narrow, w->narrow[0], sizeof w->got_narrow) == 0);
    }
    free(w);
}

static void sums(void)
{
    static const weft_dtype types[] = {WEFT_FLOAT32, WEFT_BFLOAT16, WEFT_FLOAT16};

    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        from_left_to_right("int8", types[t]);
        from_left_to_right("int4:block=32", types[t]);
        from_left_to_right("sign:block=512", types[t]);
    }
}

static void lengths(void)
{
    struct work *w = begin("int4:block=64", WEFT_BFLOAT16);

    w->work.bytes = 2 * 1000;
    CU_ASSERT_EQUAL(wi_work_grain(&w->work), 128);
    CU_ASSERT_EQUAL(wi_work_operand_bytes(&w->work, 0), 2000);
    CU_ASSERT_EQUAL(wi_work_operand_bytes(&w->work, 1 + 2), 16 * 34);
    free(w);
}

/* ---- Images of a variable rate ---- */

static struct work *begin_varied(weft_dtype dtype)
{
    CU_ASSERT_EQUAL_FATAL(varied_register(), 0);
    return begin("varied", dtype);
}

static void sums_of_varied(void)
{
    static const weft_dtype types[] = {WEFT_FLOAT32, WEFT_BFLOAT16, WEFT_FLOAT16};

    CU_ASSERT_EQUAL_FATAL(varied_register(), 0);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        struct work *w = begin_varied(types[t]);
        w->work.bytes = ELEMS * weft_dtype_bytes(types[t]);
        CU_ASSERT_EQUAL(wi_work_grain(&w->work), w->work.bytes); /* it is not cut */
        free(w);
        from_left_to_right("varied", types[t]);
    }
}

/* What is sent is what the head says, and what comes must be as long as its head says. */
static void heads(void)
{
    struct work *w = begin_varied(WEFT_FLOAT32);
    const struct wi_coding *c = &w->op.bind.coding;
    size_t bytes = wi_get32(w->image[0]), most = wi_coding_bytes(c, sizeof w->got);

    CU_ASSERT(bytes > ELEMS / 2 && bytes < most);
    CU_ASSERT_EQUAL(wi_image_bytes(c, w->image[0], most), bytes);
    CU_ASSERT_EQUAL(wi_image_bytes(c, w->image[0], 100), 100); /* never more than there is room for */
    CU_ASSERT_EQUAL(wi_image_check(c, w->image[0], bytes, most), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_image_check(c, w->image[0], bytes - 1, most), WEFT_EPROTO);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "an image of codec varied came as"));
    CU_ASSERT_EQUAL(wi_image_check(c, w->image[0], bytes + 1, most), WEFT_EPROTO);
    CU_ASSERT_EQUAL(wi_image_check(c, w->image[0], 3, most), WEFT_EPROTO);
    CU_ASSERT_EQUAL(wi_image_check(c, w->image[0], 0, most), WEFT_EPROTO);
    free(w);
}

/* Its head is right, and the rest is not. */
static void no_image(void)
{
    struct work *w = begin_varied(WEFT_FLOAT32);

    memset(w->image[1] + 4, 0xff, ELEMS / 8); /* more elements than there are values */
    CU_ASSERT_EQUAL(wi_coded_do(&w->work, 0, sizeof w->got), WEFT_EPROTO);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "no image of 5000 elements by codec varied"));
    wi_put32(w->image[0], UINT32_MAX);
    CU_ASSERT_EQUAL(wi_coded_do(&w->work, 0, sizeof w->got), WEFT_EPROTO);
    free(w);
}

static const struct wt_case cases[] = {
    {"sums of many operands", sums},
    {"lengths of operands", lengths},
    {"sums of images of a variable rate", sums_of_varied},
    {"images that say how long they are", heads},
    {"images that are none", no_image},
};
WT_UNIT_MAIN("coded", cases)
