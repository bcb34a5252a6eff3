/* SPDX-License-Identifier: BSD-3-Clause */
/* The rest of the interface of reductions: user operators, averages, scaling, copies, refusals, forcing. */
#include "base/status.h"
#include "reduce_common.h"
#include "unit.h"

/* Neither commutative nor associative, so that the order of application shows. */
static void user_fn(const void *left, const void *right, void *out, size_t count, weft_dtype dtype, void *arg)
{
    CU_ASSERT_EQUAL(dtype, WEFT_INT32);
    ++*(int *)arg;
    for (size_t i = 0; i < count; i++) {
        uint32_t a, b;

        memcpy(&a, (const char *)left + 4 * i, 4);
        memcpy(&b, (const char *)right + 4 * i, 4);
        a = 3 * a - b;
        memcpy((char *)out + 4 * i, &a, 4);
    }
}

static void user_operator(void)
{
    static uint32_t want[5000], got[2][5000];
    struct wi_redop redop = redop_make(WEFT_INT32, WEFT_SUM, 4);
    const void *src[5];
    void *dst[2] = {got[0], got[1]};
    static uint32_t in[5][5000];
    int calls = 0;

    redop.user = 1;
    redop.commutative = 0;
    redop.fn = user_fn;
    redop.arg = &calls;
    for (int s = 0; s < 5; s++) {
        src[s] = in[s];
        for (int i = 0; i < 5000; i++)
            in[s][i] = (uint32_t)random_next();
    }
    for (int i = 0; i < 5000; i++) {
        want[i] = in[0][i];
        for (int s = 1; s < 5; s++)
            want[i] = 3 * want[i] - in[s][i];
    }
    for (unsigned flags = 0; flags < 4; flags++) {
        memset(got, 0, sizeof(got));
        wi_reduce(&redop, dst, 2, src, 5, 5000, flags);
        CU_ASSERT_EQUAL(memcmp(got[0], want, sizeof(want)), 0);
        CU_ASSERT_EQUAL(memcmp(got[1], want, sizeof(want)), 0);
    }
    CU_ASSERT(calls >= 4);
    wi_reduce2(&redop, got[0], in[0], in[1], 5000, 0);
    for (int i = 0; i < 5000; i++)
        CU_ASSERT_EQUAL(got[0][i], 3 * in[0][i] - in[1][i]);
    dst[0] = in[4]; /* the last source */
    wi_reduce(&redop, dst, 1, src, 5, 5000, 0);
    CU_ASSERT_EQUAL(memcmp(in[4], want, sizeof(want)), 0);
}

static void integer_average(void)
{
    static const uint32_t divisors[] = {1, 2, 3, 7, 64, 1000003, 0xffffffff};
    static int64_t in[2][1000], out[1000];
    static uint64_t uout[1000];

    for (size_t d = 0; d < 7; d++) {
        struct wi_redop redop = redop_make(WEFT_INT64, WEFT_AVG, divisors[d]);
        int64_t by = divisors[d];

        for (int i = 0; i < 1000; i++) {
            in[0][i] = (int64_t)(random_next() >> (random_next() % 64));
            if (i % 3 == 0)
                in[0][i] = -in[0][i] - 1;
            in[1][i] = i < 10 ? INT64_MIN + i : i < 20 ? INT64_MAX - i : i % 7 * by - in[0][i] % by;
        }
        for (int i = 0; i < 20; i++)
            in[0][i] = 0;
        wi_reduce2(&redop, out, in[0], in[1], 1000, WI_REDUCE_FINAL);
        redop.dtype = WEFT_UINT64;
        wi_reduce2(&redop, uout, in[0], in[1], 1000, WI_REDUCE_FINAL);
        for (int i = 0; i < 1000; i++) {
            uint64_t sum = (uint64_t)in[0][i] + (uint64_t)in[1][i];

            CU_ASSERT_EQUAL(out[i], (int64_t)sum / by);
            CU_ASSERT_EQUAL(uout[i], sum / (uint64_t)by);
        }
        redop.dtype = WEFT_INT32;
        redop.elem_bytes = 4;
        wi_reduce2(&redop, out, in[0], in[1], 2000, WI_REDUCE_FINAL);
        for (int i = 0; i < 2000; i++) {
            uint32_t sum = ((uint32_t *)in[0])[i] + ((uint32_t *)in[1])[i];

            CU_ASSERT_EQUAL(((int32_t *)out)[i], (int32_t)((int64_t)(int32_t)sum / by));
        }
    }
}

static void scale(void)
{
    static float in[3000], out[3000];
    float half = 0.5f;
    int8_t three = 3, bytes[] = {1, -50, 100}, scaled[3];
    float i_unit[] = {0, 1}, z[] = {2, 3}, turned[2];

    for (int i = 0; i < 3000; i++)
        in[i] = (float)i;
    wi_scale(WEFT_FLOAT32, &half, out, in, 3000);
    for (int i = 0; i < 3000; i++)
        CU_ASSERT_EQUAL(out[i], (float)i / 2);
    wi_scale(WEFT_FLOAT32, &half, in, in, 3000);
    CU_ASSERT_EQUAL(memcmp(in, out, sizeof(in)), 0);
    wi_scale(WEFT_INT8, &three, scaled, bytes, 3);
    CU_ASSERT_EQUAL(scaled[1], (int8_t)(uint8_t)-150);
    CU_ASSERT_EQUAL(scaled[2], (int8_t)(uint8_t)300);
    wi_scale(WEFT_COMPLEX64, i_unit, turned, z, 1);
    CU_ASSERT(turned[0] == -3 && turned[1] == 2);
    wi_scale(WEFT_FLOAT32, &half, out, in, 0);
}

static void copies(void)
{
    static unsigned char in[6 << 20], out[6 << 20];
    static const size_t sizes[] = {0, 1, 63, 64, 65, 4095, 4096, 5000, 100001, (5 << 20) + 77};

    for (size_t i = 0; i < sizeof(in); i++)
        in[i] = (unsigned char)(random_next() >> 8);
    for (int k = 0; k < NUM_ISAS; k++) {
        if (wi_isa_force(isas[k]))
            continue;
        for (size_t c = 0; c < 10; c++) {
            for (unsigned flags = 0; flags <= WI_REDUCE_NT; flags++) {
                memset(out, GUARD, sizes[c] + 128);
                wi_copy(out + 13, in + 7, sizes[c], flags);
                CU_ASSERT_EQUAL(memcmp(out + 13, in + 7, sizes[c]), 0);
                CU_ASSERT(guards_intact(out, 13, sizes[c]));
            }
        }
    }
    wi_isa_force(NULL);
}

static void undefined_operators(void)
{
    int defined = 0;

    for (unsigned dtype = 0; dtype < WEFT_NUM_DTYPES; dtype++) {
        for (unsigned op = 0; op < WEFT_NUM_OPS; op++) {
            int bitwise = op >= WEFT_BAND && op <= WEFT_BXOR;
            int order = op == WEFT_MIN || op == WEFT_MAX;
            int bad = (bitwise && (is_float(dtype) || is_complex(dtype))) || (order && is_complex(dtype));

            wi_fail_clear();
            CU_ASSERT_EQUAL(wi_redop_check((weft_dtype)dtype, op), bad ? WEFT_ENOTSUP : WEFT_SUCCESS);
            CU_ASSERT_EQUAL(strstr(wi_fail_text(), "undefined for") != NULL, bad);
            defined += !bad;
        }
    }
    CU_ASSERT_EQUAL(defined, 17 * 11 - 6 * 3 - 2 * 5);
    CU_ASSERT_EQUAL(wi_redop_check((weft_dtype)17, WEFT_SUM), WEFT_EINVAL);
    CU_ASSERT_EQUAL(wi_redop_check((weft_dtype)-1, WEFT_SUM), WEFT_EINVAL);
    CU_ASSERT_EQUAL(wi_redop_check(WEFT_INT8, 11), WEFT_EINVAL);
}

static void forcing(void)
{
    const char *best = wi_isa_name();

    CU_ASSERT_EQUAL(wi_isa_force("mmx"), -1);
    CU_ASSERT_STRING_EQUAL(wi_isa_name(), best);
    CU_ASSERT_EQUAL(wi_isa_force("scalar"), 0);
    CU_ASSERT_STRING_EQUAL(wi_isa_name(), "scalar");
    CU_ASSERT_EQUAL(wi_isa_force(NULL), 0);
    CU_ASSERT_STRING_EQUAL(wi_isa_name(), best);
    printf("# best instruction set here: %s\n", best);
}

static const struct wt_case cases[] = {
    {"instruction set can be forced", forcing},
    {"undefined operators are refused", undefined_operators},
    {"user operator", user_operator},
    {"integer average", integer_average},
    {"scale", scale},
    {"copy", copies},
};
WT_UNIT_MAIN("reduce_calls", cases)
