/* SPDX-License-Identifier: BSD-3-Clause */
/* Sparse codecs beside what every codec promises (test_codec_conform.c): which elements are chosen, against a sort; what images
 * are, byte for byte, and what of them is left out; sets of places; precision over the range of fp32. */
#include <math.h>
#include <stdlib.h>

#include "base/reduce.h"
#include "compress/codec.h"
#include "compress/index_set.h"
#include "compress/select.h"
#include "tests/unit/unit.h"

enum { MOST = 65536 };
static const char *const isas[] = {"scalar", "avx2", "avx512"};
static float src[MOST], residual[MOST], sum[MOST], decoded[MOST];
static uint32_t keys[MOST];
static uint16_t places[MOST + WI_SELECT_SLACK], chosen[MOST];
static uint8_t image[8 * MOST];

static uint64_t random_state = 88172645463325252ull;

static uint32_t random_bits(void)
{
    random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(random_state >> 32);
}

static double uniform(void)
{
    return (random_bits() + 0.5) / 4294967296.0;
}

static double gaussian(void)
{
    return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
}

static struct weft_codec parsed(const char *spec)
{
    struct weft_codec c;

    CU_ASSERT_EQUAL_FATAL(wi_codec_parse(spec, &c), WEFT_SUCCESS);
    return c;
}

/* ---- Selection ---- */

enum family { GAUSSIAN, SPARSE, FEW_VALUES, DENORMAL, ZERO, HEAVY, ASCENDING, FAMILIES };

static float draw(int family, size_t i, double scale)
{
    switch (family) {
    case GAUSSIAN:
        return (float)(gaussian() * scale);
    case SPARSE:
        return random_bits() % 50 ? 0 : (float)gaussian();
    case FEW_VALUES: /* ties everywhere, of both signs */
        return (float)(int)(random_bits() % 5) - 2;
    case DENORMAL:
        return (float)(gaussian() * 1e-40);
    case ZERO:
        return random_bits() & 1 ? -0.0f : 0.0f;
    case HEAVY:
        return (float)(gaussian() / pow(uniform(), 2) * scale);
    default:
        return (float)i;
    }
}

static const float *sorted_by;

static int larger_first(const void *a, const void *b)
{
    uint16_t i = *(const uint16_t *)a, j = *(const uint16_t *)b;
    float x = fabsf(sorted_by[i]), y = fabsf(sorted_by[j]);

    return x > y ? -1 : x < y ? 1 : i < j ? -1 : i > j;
}

static int in_order(const void *a, const void *b)
{
    return (int)*(const uint16_t *)a - (int)*(const uint16_t *)b;
}

/* The definition: all places, sorted by magnitude, equal ones by place; the first k, by place. */
static void definition(const float *c, size_t n, size_t k, uint16_t *index)
{
    for (size_t i = 0; i < n; i++)
        index[i] = (uint16_t)i;
    sorted_by = c;
    qsort(index, n, sizeof *index, larger_first);
    qsort(index, k, sizeof *index, in_order);
}

static size_t random_k(size_t n)
{
    size_t k = (size_t)(uniform() * (double)n * (random_bits() & 1 ? .02 : 1)) + 1;

    return k < n ? k : n;
}

/* Block after block of other data, so that guesses are too high, too low, and right. */
static void selections_are_exact(void)
{
    static uint16_t want[MOST];
    int tried = 0;

    for (size_t isa = 0; isa < sizeof isas / sizeof *isas; isa++) {
        struct wi_select s = {.keys = keys, .places = places};
        if (wi_isa_force(isas[isa]) < 0)
            continue;
        for (int round = 0; round < 700; round++) {
            size_t n = (size_t)32 << random_bits() % (round % 50 ? 7 : 12), k = random_k(n);
            int family = (int)(random_bits() % FAMILIES), in_place = round & 2;
            double scale = pow(10, 20 * uniform() - 10);
            for (size_t i = 0; i < n; i++) {
                src[i] = draw(family, i, scale);
                residual[i] = (float)(gaussian() * scale);
            }
            for (size_t i = 0; i < n; i++)
                sum[i] = round & 1 ? src[i] + residual[i] : src[i];
            definition(sum, n, k, want);
            CU_ASSERT(wi_select_top(&s, src, round & 1 ? residual : NULL, sum, n, k, in_place ? places : chosen) <
                      WI_SELECT_LIMIT);
            if (memcmp(in_place ? places : chosen, want, k * sizeof *want) != 0) {
                printf("# %s, round %d: %zu of %zu, data %d\n", isas[isa], round, k, n, family);
                CU_FAIL("other elements were chosen");
            }
            tried++;
        }
    }
    wi_isa_force(NULL);
    CU_ASSERT(tried >= 700);
}

/* All that the sample sees is large, and less than k are. */
static void samples_may_mislead(void)
{
    static uint16_t want[MOST];
    struct wi_select s = {.keys = keys, .places = places};

    for (size_t at = 0; at < 4096; at++)
        src[at] = at % 16 ? (float)gaussian() : 100;
    for (size_t k = 200; k < 500; k += 50) {
        definition(src, 4096, k, want);
        s.least = 0;
        wi_select_top(&s, src, NULL, NULL, 4096, k, chosen);
        CU_ASSERT(!memcmp(chosen, want, k * sizeof *want));
        s.least = 0x7f000000u - 1; /* as the block before had it */
        wi_select_top(&s, src, NULL, NULL, 4096, k, chosen);
        CU_ASSERT(!memcmp(chosen, want, k * sizeof *want));
    }
}

/* A block that is not finite is told, wherever its element stands, and the next one is selected from as ever. */
static void bad_elements_are_seen(void)
{
    const float bad[] = {NAN, -NAN, INFINITY, -INFINITY, 0x1p127f, -0x1.8p127f};

    for (size_t isa = 0; isa < sizeof isas / sizeof *isas; isa++) {
        struct wi_select s = {.keys = keys, .places = places};
        if (wi_isa_force(isas[isa]) < 0)
            continue;
        for (size_t at = 0; at < 96; at++) {
            for (size_t i = 0; i < 96; i++)
                src[i] = (float)i + 1;
            src[at] = bad[at % 6];
            CU_ASSERT(wi_select_top(&s, src, NULL, NULL, 96, 5, chosen) >= WI_SELECT_LIMIT);
            src[at] = 0x1.fffffep126f;
            CU_ASSERT(wi_select_top(&s, src, NULL, NULL, 96, 1, chosen) == WI_SELECT_LIMIT - 1 && chosen[0] == at);
        }
    }
    wi_isa_force(NULL);
}

/* ---- Sets of places ---- */

static void sets_come_back(void)
{
    static uint16_t back[MOST];

    for (size_t n = 8; n <= MOST; n *= 2)
        for (int round = 0; round < 60; round++) {
            size_t k = round < 2 ? (round ? n : 1) : random_k(n), bytes, last = 0;
            for (int form = WI_INDEX_PACKED; form <= WI_INDEX_U16; form++) {
                bytes = wi_index_bytes((enum wi_index_form)form, n, k);
                for (size_t j = 0, left = n; j < k; j++, left--) { /* each set is as likely */
                    size_t gap = 0;
                    while (random_bits() % left >= k - j && left > k - j)
                        gap++, left--;
                    chosen[j] = (uint16_t)(last = (j ? last + 1 : 0) + gap);
                }
                memset(image, 0xa5, bytes + 8);
                wi_index_put((enum wi_index_form)form, n, k, chosen, image);
                CU_ASSERT(image[bytes] == 0xa5);
                memset(image + bytes, 0xff, 8); /* nothing behind it counts */
                CU_ASSERT_EQUAL(wi_index_get((enum wi_index_form)form, n, k, image, back), k);
                CU_ASSERT(!memcmp(back, chosen, k * sizeof *back));
            }
            CU_ASSERT(wi_index_bytes(WI_INDEX_PACKED, n, k) <= (n + 7) / 8);
        }
    CU_ASSERT_EQUAL(wi_index_bytes(WI_INDEX_U16, 16384, 164), 328);
    CU_ASSERT_EQUAL(wi_index_bytes(WI_INDEX_PACKED, 16384, 164), 123 + 53); /* 6 bits each; 164 + 256 */
    CU_ASSERT_EQUAL(wi_index_bytes(WI_INDEX_PACKED, 256, 128), 32);         /* a bitmap */
}

/* From any bytes there are at most k. */
static void sets_of_any_bytes(void)
{
    for (size_t n = 8; n <= MOST; n *= 4)
        for (int round = 0; round < 200; round++) {
            size_t k = random_k(n), bytes = wi_index_bytes(WI_INDEX_PACKED, n, k);
            uint8_t *exact = malloc(bytes);
            CU_ASSERT_FATAL(exact != NULL);
            for (size_t i = 0; i < bytes; i++)
                exact[i] = round ? (uint8_t)(random_bits() & random_bits()) : 0;
            chosen[k < MOST ? k : MOST - 1] = 0xa5a5;
            CU_ASSERT(wi_index_get(WI_INDEX_PACKED, n, k, exact, chosen) <= k * (round != 0));
            CU_ASSERT(k == MOST || chosen[k] == 0xa5a5);
            free(exact);
        }
}

/* ---- Images ---- */

static void images_are_as_described(void)
{
    struct weft_codec c = parsed("topk:block=256,ratio=0.01,values=fp16,indices=u16");
    static const uint8_t want[] = {0x00, 0x3a, 7, 0, 9, 0, 200, 0, 0x00, 0x74, 0x00, 0xf0, 0x01, 0x70};

    memset(src, 0, sizeof src);
    src[7] = 8; /* the scale is 2^-11: 8 is 2^14 of it */
    src[9] = -4;
    src[200] = 0x1.004p2f;
    src[201] = 4; /* as large as src[9], but behind it */
    CU_ASSERT_EQUAL(c.block_bytes, 2 + 3 * 4);
    wi_codec_encode(&c, src, NULL, 256, image);
    CU_ASSERT(!memcmp(image, want, sizeof want));
    CU_ASSERT_EQUAL(parsed("topk").block_bytes, 2 + 176 + 328);
    CU_ASSERT_EQUAL(parsed("topk:values=int8").block_bytes, 2 + 176 + 164);
    CU_ASSERT_EQUAL(parsed("topk:ratio=0.0001").block_bytes, 2 + 5 + 4); /* two of 13 + 2 bits, rounded up */
    ;
    CU_ASSERT_EQUAL(parsed("randomk:values=fp32,block=1024").block_bytes, 2 + 8 + 10 * 4);
}

/* What is left out: places that are not above all before them, or outside of what is decoded. */
static void entries_that_are_wrong(void)
{
    struct weft_codec c = parsed("topk:block=256,ratio=0.02,values=bf16,indices=u16");
    static const uint8_t bytes[] = {0x80, 0x3f, 5,    0, 3,    0,    5,    0,    0,    1,    6,
                                    0,    0x80, 0x3f, 0, 0x40, 0x40, 0x40, 0x80, 0x40, 0xa0, 0x40};
    const struct weft_codec_operands o = {2, (const void *[]){bytes, bytes}, (const float *[]){NULL, NULL}};

    CU_ASSERT_EQUAL_FATAL(c.block_bytes, sizeof bytes);
    wi_codec_decode(&c, bytes, 256, decoded);
    for (size_t i = 0; i < 256; i++)
        CU_ASSERT(decoded[i] == (i == 5 ? 1 : i == 6 ? 5 : 0));
    wi_codec_sum(&c, &o, 256, decoded);
    for (size_t i = 0; i < 256; i++)
        CU_ASSERT(decoded[i] == (i == 5 ? 2 : i == 6 ? 10 : 0));
    decoded[6] = 77;
    wi_codec_decode(&c, bytes, 6, decoded);
    CU_ASSERT(decoded[5] == 1 && decoded[6] == 77);
}

/* Zeros behind a short vector are chosen with it, where there are not so many elements; of its residual there is no more. */
static void short_vectors(void)
{
    struct weft_codec c = parsed("topk:block=256,ratio=0.5,values=fp32");
    float *exact = calloc(3, sizeof *exact); /* a sanitizer sees what is written behind it */

    CU_ASSERT_FATAL(exact != NULL);
    src[0] = 1;
    src[1] = -2;
    src[2] = 3;
    exact[1] = .5f;
    wi_codec_encode(&c, src, exact, 3, image);
    wi_codec_decode(&c, image, 3, decoded);
    CU_ASSERT(decoded[0] == 1 && decoded[1] == -1.5f && decoded[2] == 3);
    CU_ASSERT(exact[0] == 0 && exact[1] == 0 && exact[2] == 0);
    free(exact);
}

/* ---- Values ---- */

/* fp16 keeps 11 bits of all that are not below 2^-28 of the largest, whatever that is. */
static void values_have_the_range_of_fp32(void)
{
    const struct {
        const char *spec;
        double each, to_largest;
    } forms[] = {{"topk:block=256,ratio=1,values=fp32", 0, 0},
                 {"topk:block=256,ratio=1,values=fp16", 0x1p-11, 0x1p-39},
                 {"topk:block=256,ratio=1,values=bf16", 0x1p-8, 0},
                 {"topk:block=256,ratio=1,values=int8", 0, 1.01 / 254}};

    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        struct weft_codec c = parsed(forms[f].spec);
        for (int e = -101; e < 127; e += 7) {
            double largest = 0, worst = 0;
            for (size_t i = 0; i < 256; i++) {
                src[i] = (float)ldexp((uniform() + 1) / 2 * (i % 2 ? 1 : -1), e - (int)(i % 3 * 12));
                largest = fmax(largest, fabs((double)src[i]));
            }
            CU_ASSERT_EQUAL(wi_codec_encode(&c, src, NULL, 256, image), 0);
            wi_codec_decode(&c, image, 256, decoded);
            for (size_t i = 0; i < 256; i++)
                worst = fmax(worst, fabs((double)src[i] - (double)decoded[i]) - forms[f].each * fabs((double)src[i]));
            if (worst > forms[f].to_largest * largest)
                printf("# %s at 2^%d: off by %g of %g\n", forms[f].spec, e, worst, largest);
            CU_ASSERT(worst <= forms[f].to_largest * largest || worst <= 0x1p-149);
        }
    }
}

/* -0 is neither sent nor made: sums are the same whether zeros are added or left out. */
static void no_value_is_minus_zero(void)
{
    static const char *const specs[] = {"topk:block=256,ratio=1,values=fp32", "topk:block=256,ratio=0.5,values=int8"};

    for (size_t s = 0; s < 2; s++) {
        struct weft_codec c = parsed(specs[s]);
        const struct weft_codec_operands o = {2, (const void *[]){NULL, image}, (const float *[]){src, NULL}};
        for (size_t i = 0; i < 256; i++)
            src[i] = -0.0f;
        wi_codec_encode(&c, src, NULL, 256, image);
        wi_codec_decode(&c, image, 256, decoded);
        wi_codec_sum(&c, &o, 256, sum);
        for (size_t i = 0; i < 256; i++)
            CU_ASSERT(!signbit(decoded[i]) && !signbit(sum[i]));
    }
}

/* ---- Groups, and random elements ---- */

static void groups_have_the_largest_norms(void)
{
    static const double scales[] = {1, 1e-37, 1e37}; /* squares would be 0, or infinite */
    struct weft_codec c = parsed("blocktopk:block=1024,group=16,ratio=0.1,values=fp32");

    for (size_t s = 0; s < 3; s++) {
        double norm[64] = {0}, least_sent = INFINITY, most_left = 0;
        size_t sent = 0;
        for (size_t i = 0; i < 1024; i++) {
            src[i] = (float)(gaussian() * scales[s]);
            norm[i / 16] += pow((double)src[i] / scales[s], 2);
        }
        CU_ASSERT_EQUAL(wi_codec_encode(&c, src, NULL, 1024, image), 0);
        wi_codec_decode(&c, image, 1024, decoded);
        for (size_t g = 0; g < 64; g++) {
            int here = decoded[16 * g] != 0;
            for (size_t i = 16 * g; i < 16 * g + 16; i++)
                CU_ASSERT(decoded[i] == (here ? src[i] : 0));
            sent += (size_t)here;
            least_sent = here ? fmin(least_sent, norm[g]) : least_sent;
            most_left = here ? most_left : fmax(most_left, norm[g]);
        }
        CU_ASSERT(sent == 6 && least_sent > most_left * (1 - 1e-6));
    }
}

/* In many steps each element has its share, and ranks and sums have the same in each. */
static void random_elements(void)
{
    enum { STEPS = 3000, BLOCK = 256, K = 20 };
    struct weft_codec c = parsed("randomk:block=256,ratio=0.08,values=fp32"),
                      other = parsed("randomk:block=256,ratio=0.08,values=fp32,seed=1");
    static int times[BLOCK];
    size_t same = 0;

    for (size_t i = 0; i < BLOCK; i++)
        src[i] = 1;
    for (uint64_t step = 0; step < STEPS; step++) {
        struct weft_codec_site a = {.step = step, .first = 512}, b = {.step = step, .first = 512, .rank = 3, .sums = 1};
        size_t n = 0;
        wi_codec_encode_at(&c, &a, src, NULL, BLOCK, image);
        wi_codec_encode_at(&c, &b, src, NULL, BLOCK, image + 4096);
        CU_ASSERT(!memcmp(image, image + 4096, c.block_bytes));
        wi_codec_encode_at(&other, &a, src, NULL, BLOCK, image + 4096);
        same += !memcmp(image, image + 4096, c.block_bytes);
        wi_codec_decode(&c, image, BLOCK, decoded);
        for (size_t i = 0; i < BLOCK; i++) {
            n += decoded[i] == 1;
            times[i] += decoded[i] == 1;
        }
        CU_ASSERT_EQUAL(n, K);
    }
    CU_ASSERT_EQUAL(same, 0);
    for (size_t i = 0; i < BLOCK; i++) /* one of each 12 or 13: within six deviations */
        CU_ASSERT(times[i] > STEPS / 13 - 90 && times[i] < STEPS / 12 + 90);
}

/* ---- Texts ---- */

static void says(const char *spec, const char *words)
{
    struct weft_codec c;

    CU_ASSERT_EQUAL(wi_codec_parse(spec, &c), WEFT_EINVAL);
    if (!strstr(weft_thread_error(), words)) {
        printf("# \"%s\" is not in: %s\n", words, weft_thread_error());
        CU_FAIL("the text says something else");
    }
}

static void wrong_texts(void)
{
    says("topk:ratio=0", "ratio is \"0\", not a number from 1e-05 to 1");
    says("topk:ratio=1.5", "ratio is \"1.5\"");
    says("topk:block=128", "block is \"128\", not a power of two from 256 to 65536");
    says("topk:values=fp8", "values is \"fp8\", not fp32, fp16, bf16 or int8");
    says("topk:k=5", "there is no parameter \"k\"");
    says("topl", "did you mean \"topk\"");
    says("blocktopk:group=4", "group is \"4\", not a power of two from 8 to 256");
    CU_ASSERT_EQUAL(parsed("topk:ratio=0.001,block=256").block_bytes, 2 + 2 + 2);
}

static const struct wt_case cases[] = {
    {"selections are exact", selections_are_exact},
    {"samples may mislead", samples_may_mislead},
    {"bad elements are seen", bad_elements_are_seen},
    {"sets of places come back", sets_come_back},
    {"sets of places from any bytes", sets_of_any_bytes},
    {"images are as described", images_are_as_described},
    {"entries that are wrong are left out", entries_that_are_wrong},
    {"short vectors", short_vectors},
    {"values have the range of fp32", values_have_the_range_of_fp32},
    {"no value is -0", no_value_is_minus_zero},
    {"groups have the largest norms", groups_have_the_largest_norms},
    {"random elements are the same on all ranks", random_elements},
    {"wrong texts are refused", wrong_texts},
};
WT_UNIT_MAIN("sparse", cases)
