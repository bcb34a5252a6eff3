/* SPDX-License-Identifier: BSD-3-Clause */
/* What weft_codec_ops promises of linear codecs: sums of what is projected expand to sums, whatever vectors are cut into and on
 * every instruction set; blocks that are not finite are found again; any bytes expand to something. */
#include <math.h>
#include <stdlib.h>

#include "base/reduce.h"
#include "base/status.h"
#include "compress/codec.h"
#include "tests/unit/isa_cases.h"
#include "tests/unit/random_data.h"
#include "tests/unit/unit.h"

static const char *const forms[] = {
    "sharedint",
    "sharedint:block=32",
    "sharedint:block=2048,wire=int16",
    "sharedint:round=stochastic,seed=5",
    "sharedint:wire=int16,round=stochastic,block=256",
    "leaderk",
    "leaderk:block=256,ratio=0.00001,values=fp32",
    "leaderk:block=1024,ratio=1,indices=u16",
    "leaderk:block=65536,ratio=0.2,values=fp32",
    "randomk",
    "randomk:block=256,ratio=0.3,values=fp32",
};
static const int ranks[] = {1, 2, 5, 16};

enum { MOST_RANKS = 16, GUARD = 0xa5 };

/* Of all ranks. */
struct job {
    struct weft_codec codec;
    struct weft_codec_linear of;
    int nranks;
    size_t elems, agreed_bytes, bytes;
    float *src[MOST_RANKS], *expanded, *sum;
    unsigned char *agreed, *proposal, *vector[MOST_RANKS], *all;
};

static struct weft_codec_site site_of(int rank)
{
    return (struct weft_codec_site){.step = 12345, .first = 0, .rank = (uint32_t)rank};
}

/* Exactly so long, for sanitizers, with a guard that is looked at. What is not written does not look like zeros. */
static void *room(size_t bytes)
{
    unsigned char *p = malloc(bytes + 1);

    CU_ASSERT_FATAL(p != NULL);
    memset(p, GUARD, bytes + 1);
    return p;
}

static void done(void *p, size_t bytes)
{
    CU_ASSERT_EQUAL(((unsigned char *)p)[bytes], GUARD);
    free(p);
}

static struct job begin(const char *spec, int nranks, size_t blocks, size_t more)
{
    struct job j = {.nranks = nranks};
    size_t n;

    CU_ASSERT_EQUAL_FATAL(wi_codec_parse(spec, &j.codec), WEFT_SUCCESS);
    CU_ASSERT_FATAL((j.codec.traits & WEFT_CODEC_LINEAR) != 0);
    CU_ASSERT_EQUAL_FATAL(wi_codec_linear(&j.codec, nranks, &j.of), WEFT_SUCCESS);
    j.elems = blocks * j.codec.block + more;
    n = blocks + (more > 0);
    j.bytes = n * j.of.elems * weft_dtype_bytes(j.of.dtype);
    j.agreed_bytes = j.of.agreement ? n * j.of.agreed_elems * weft_dtype_bytes(j.of.agreed_dtype) : 0;
    for (int r = 0; r < nranks; r++) {
        j.src[r] = room(j.elems * sizeof(float));
        j.vector[r] = room(j.bytes);
        for (size_t i = 0; i < j.elems; i++)
            j.src[r][i] = (float)gaussian();
    }
    j.expanded = room(j.elems * sizeof(float));
    j.sum = room(j.elems * sizeof(float));
    j.agreed = room(j.agreed_bytes);
    j.proposal = room(j.agreed_bytes);
    j.all = room(j.bytes);
    return j;
}

static void end(struct job *j)
{
    for (int r = 0; r < j->nranks; r++) {
        done(j->src[r], j->elems * sizeof(float));
        done(j->vector[r], j->bytes);
    }
    done(j->expanded, j->elems * sizeof(float));
    done(j->sum, j->elems * sizeof(float));
    done(j->agreed, j->agreed_bytes);
    done(j->proposal, j->agreed_bytes);
    done(j->all, j->bytes);
}

/* As the collectives do: the maximum of uint16, or what the last rank says. */
static void agree(struct job *j)
{
    for (int r = 0; r < j->nranks && j->of.agreement; r++) {
        struct weft_codec_site site = site_of(r);
        wi_codec_propose(&j->codec, &site, j->nranks, j->src[r], j->elems, j->proposal);
        if (j->of.agreement == WEFT_CODEC_AGREE_LEADER || r == 0) {
            memcpy(j->agreed, j->proposal, j->agreed_bytes);
            continue;
        }
        CU_ASSERT_EQUAL_FATAL(j->of.agreed_dtype, WEFT_UINT16);
        for (size_t i = 0; i < j->agreed_bytes / 2; i++)
            if (((uint16_t *)(void *)j->proposal)[i] > ((uint16_t *)(void *)j->agreed)[i])
                ((uint16_t *)(void *)j->agreed)[i] = ((uint16_t *)(void *)j->proposal)[i];
    }
}

static void add(const struct job *j, const unsigned char *from)
{
    struct wi_redop redop = {.dtype = (uint8_t)j->of.dtype,
                             .op = WEFT_SUM,
                             .commutative = 1,
                             .divisor = 1,
                             .elem_bytes = (uint32_t)weft_dtype_bytes(j->of.dtype)};

    wi_reduce2(&redop, j->all, j->all, from, j->bytes / redop.elem_bytes, 0);
}

static size_t project_and_sum(struct job *j)
{
    size_t bad = 0;

    agree(j);
    for (int r = 0; r < j->nranks; r++) {
        struct weft_codec_site site = site_of(r);
        bad += wi_codec_project(&j->codec, &site, j->nranks, j->of.agreement ? j->agreed : NULL, j->src[r], j->elems,
                                j->vector[r]);
        if (r == 0)
            memcpy(j->all, j->vector[0], j->bytes);
        else
            add(j, j->vector[r]);
    }
    return bad;
}

static size_t expand(const struct job *j, int rank, const unsigned char *vector, float *to)
{
    struct weft_codec_site site = site_of(rank);

    return wi_codec_expand(&j->codec, &site, j->nranks, j->of.agreement ? j->agreed : NULL, vector, j->elems, to);
}

/* ---- Cases ---- */

static double tolerance(const struct job *j)
{
    return j->of.dtype == WEFT_BFLOAT16 ? 0x1p-7 * j->nranks : j->of.dtype == WEFT_FLOAT32 ? 1e-5 : 1e-6;
}

/* What each loses, too: of integers by the square of the ranks, whose largest element is larger than one's. */
static void check_linear(struct job *j)
{
    double *of_each = calloc(j->elems, sizeof *of_each), lost = 0, all = 0;
    size_t wrong = 0;

    CU_ASSERT_FATAL(of_each != NULL);
    CU_ASSERT_EQUAL(project_and_sum(j), 0);
    for (int r = 0; r < j->nranks; r++) {
        CU_ASSERT_EQUAL(expand(j, r, j->vector[r], j->expanded), 0);
        for (size_t i = 0; i < j->elems; i++) {
            of_each[i] += (double)j->expanded[i];
            lost += pow((double)j->src[r][i] - (double)j->expanded[i], 2);
            all += pow((double)j->src[r][i], 2);
        }
    }
    CU_ASSERT_EQUAL(expand(j, 0, j->all, j->sum), 0);
    for (size_t i = 0; i < j->elems; i++)
        wrong += !(fabs((double)j->sum[i] - of_each[i]) <= tolerance(j) * (10 + fabs(of_each[i])));
    CU_ASSERT_EQUAL(wrong, 0);
    if (j->codec.traits & WEFT_CODEC_CONTRACTIVE)
        CU_ASSERT(lost <= all);
    if (j->of.dtype == WEFT_INT8)
        CU_ASSERT(lost <= 3 * (double)j->codec.nmse * j->nranks * j->nranks * all);
    free(of_each);
}

static void sums_expand_to_sums(void)
{
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++)
        for (size_t k = 0; k < sizeof ranks / sizeof *ranks; k++) {
            struct job j = begin(forms[f], ranks[k], 2, 17);
            check_linear(&j);
            end(&j);
        }
}

/* The extremes of int8 with as many ranks as its sums have room for: none wraps round. */
static void sums_do_not_overflow(void)
{
    struct job j = begin("sharedint", 16, 1, 0);
    float largest = 0;

    for (int r = 0; r < 16; r++)
        for (size_t i = 0; i < j.elems; i++)
            j.src[r][i] = i % 2 ? 5 : -5;
    project_and_sum(&j);
    expand(&j, 0, j.all, j.sum);
    for (size_t i = 0; i < j.elems; i++)
        largest = fmaxf(largest, fabsf(j.sum[i] - (i % 2 ? 80 : -80)));
    CU_ASSERT(largest < 2);
    end(&j);
}

static void blocks_that_are_not_finite(void)
{
    static const float odd[] = {NAN, -NAN, INFINITY, -INFINITY, 0x1p127f};

    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++)
        for (size_t k = 0; k < 10; k++) {
            struct job j = begin(forms[f], 3, 3, 0);
            size_t b = j.codec.block, wrong = 0;
            j.src[k % 3][b + 1 + 3 * k] = odd[k % 5];
            CU_ASSERT(project_and_sum(&j) >= 1);
            CU_ASSERT_EQUAL(expand(&j, 0, j.all, j.sum), 1);
            for (size_t i = 0; i < j.elems; i++)
                wrong += (isnan(j.sum[i]) != 0) != (i / b == 1);
            CU_ASSERT_EQUAL(wrong, 0);
            end(&j);
        }
}

static void cuts_do_not_matter(void)
{
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        struct job j = begin(forms[f], 2, 3, 5);
        size_t b = j.codec.block, agreed = j.agreed_bytes / 4, bytes = j.bytes / 4;
        struct weft_codec_site site = site_of(1);
        agree(&j);
        wi_codec_project(&j.codec, &site, 2, j.of.agreement ? j.agreed : NULL, j.src[1], j.elems, j.vector[0]);
        expand(&j, 1, j.vector[0], j.expanded);
        for (size_t at = 0; at < 4; at++) {
            size_t n = at < 3 ? b : 5;
            site.first = at * b;
            wi_codec_project(&j.codec, &site, 2, j.of.agreement ? j.agreed + at * agreed : NULL, j.src[1] + at * b, n,
                             j.vector[1] + at * bytes);
            wi_codec_expand(&j.codec, &site, 2, j.of.agreement ? j.agreed + at * agreed : NULL,
                            j.vector[1] + at * bytes, n, j.sum + at * b);
        }
        CU_ASSERT(!memcmp(j.vector[0], j.vector[1], j.bytes));
        CU_ASSERT(!memcmp(j.expanded, j.sum, j.elems * sizeof(float)));
        end(&j);
    }
}

static int compare_instruction_sets(const char *isa)
{
    int tried = 0;

    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        struct job j = begin(forms[f], 5, 2, 31);
        unsigned char *agreed = room(j.agreed_bytes), *all = room(j.bytes);
        float *sum = room(j.elems * sizeof(float));
        j.src[2][40] = INFINITY;
        CU_ASSERT_EQUAL(wi_isa_force("scalar"), 0);
        project_and_sum(&j);
        expand(&j, 0, j.all, sum);
        memcpy(agreed, j.agreed, j.agreed_bytes);
        memcpy(all, j.all, j.bytes);
        CU_ASSERT_EQUAL(wi_isa_force(isa), 0);
        project_and_sum(&j);
        expand(&j, 0, j.all, j.sum);
        CU_ASSERT(!memcmp(agreed, j.agreed, j.agreed_bytes));
        CU_ASSERT(!memcmp(all, j.all, j.bytes));
        CU_ASSERT(!memcmp(sum, j.sum, j.elems * sizeof(float)));
        tried++;
        done(agreed, j.agreed_bytes), done(all, j.bytes), done(sum, j.elems * sizeof(float));
        end(&j);
    }
    return tried;
}
WT_ISA_CASES(compare_instruction_sets)

/* What is sent is written, all of it: also for a block that is not finite, and for a last one that is short. */
static void proposals_are_whole(void)
{
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        struct job j = begin(forms[f], 2, 3, 5);
        struct weft_codec_site site = site_of(0);
        if (j.of.agreement) {
            j.src[0][j.codec.block + 3] = NAN;
            memset(j.proposal, 0x5a, j.agreed_bytes);
            memset(j.agreed, 0xa5, j.agreed_bytes);
            wi_codec_propose(&j.codec, &site, 2, j.src[0], j.elems, j.proposal);
            wi_codec_propose(&j.codec, &site, 2, j.src[0], j.elems, j.agreed);
            CU_ASSERT(!memcmp(j.proposal, j.agreed, j.agreed_bytes));
        }
        end(&j);
    }
}

/* Whatever a longer one has left in the memory that is worked in. */
static void short_blocks_are_as_with_zeros(void)
{
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        struct job j = begin(forms[f], 2, 1, 0);
        struct weft_codec_site site = site_of(0);
        size_t few = 5;
        for (size_t i = 0; i < j.elems; i++)
            j.src[0][i] = i < few ? j.src[1][i] : 0;
        if (j.of.agreement) {
            wi_codec_propose(&j.codec, &site, 2, j.src[0], j.elems, j.agreed);
            wi_codec_propose(&j.codec, &site, 2, j.src[1], j.elems - 1, j.proposal);
            wi_codec_propose(&j.codec, &site, 2, j.src[1], few, j.proposal);
            CU_ASSERT(!memcmp(j.proposal, j.agreed, j.agreed_bytes));
        }
        end(&j);
    }
}

/* A leader that names a place again, an earlier one, or one that the block does not have: it is left out, and the others are sent
 * as they would be. */
static void places_that_are_none_are_left_out(void)
{
    static const uint16_t said[10] = {7, 7, 3, 9, 1024, 60000, 8, 1023, 1023, 0};
    struct job j = begin("leaderk:block=1024,ratio=0.01,indices=u16,values=fp32", 2, 1, 0);
    struct weft_codec_site site = site_of(0);
    size_t wrong = 0;

    CU_ASSERT_EQUAL_FATAL(j.agreed_bytes, sizeof said);
    for (size_t i = 0; i < 10; i++)
        j.agreed[2 * i] = (uint8_t)said[i], j.agreed[2 * i + 1] = (uint8_t)(said[i] >> 8);
    wi_codec_project(&j.codec, &site, 2, j.agreed, j.src[0], j.elems, j.all);
    CU_ASSERT_EQUAL(expand(&j, 0, j.all, j.sum), 0);
    for (size_t i = 0; i < j.elems; i++)
        wrong += j.sum[i] != (i == 7 || i == 9 || i == 1023 ? j.src[0][i] : 0);
    CU_ASSERT_EQUAL(wrong, 0);
    end(&j);
}

/* What a peer that lies makes others agree on, and sum. */
static void any_bytes_can_be_expanded(void)
{
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++)
        for (int round = 0; round < 20; round++) {
            struct job j = begin(forms[f], 2, 2, 3);
            struct weft_codec_site site = site_of(0);
            for (size_t i = 0; i < j.agreed_bytes; i++)
                j.agreed[i] = round ? (uint8_t)random_bits() : 0xff;
            wi_codec_project(&j.codec, &site, 2, j.of.agreement ? j.agreed : NULL, j.src[0], j.elems, j.vector[0]);
            for (size_t i = 0; i < j.bytes; i++)
                j.all[i] = round ? (uint8_t)random_bits() : 0xff;
            CU_ASSERT(expand(&j, 0, j.all, j.sum) <= 3);
            end(&j);
        }
}

/* ---- Descriptions that are wrong ---- */

static struct weft_codec_linear said;
static weft_status say(const struct weft_codec *codec, int nranks, struct weft_codec_linear *linear, char *why,
                       size_t capacity)
{
    (void)codec, (void)nranks, (void)why, (void)capacity;
    *linear = said;
    return WEFT_SUCCESS;
}

static void wrong_descriptions_are_refused(void)
{
    static const struct weft_codec_linear wrong[] = {
        {0},
        {.dtype = WEFT_INT8, .elems = 0},
        {.dtype = WEFT_INT8, .elems = 128 * 8 + 1},
        {.dtype = (weft_dtype)99, .elems = 1},
        {.dtype = WEFT_INT8, .elems = 1, .agreement = 3, .agreed_dtype = WEFT_INT8, .agreed_elems = 1},
        {.dtype = WEFT_INT8, .elems = 1, .agreement = WEFT_CODEC_AGREE_MAX, .agreed_dtype = WEFT_INT8},
        {.dtype = WEFT_INT8,
         .elems = 1,
         .agreement = WEFT_CODEC_AGREE_MAX,
         .agreed_dtype = WEFT_FLOAT64,
         .agreed_elems = 129},
    };
    struct weft_codec_linear got;
    struct weft_codec_ops ops;
    struct weft_codec codec;

    CU_ASSERT_EQUAL_FATAL(wi_codec_parse("sharedint", &codec), WEFT_SUCCESS);
    ops = *codec.ops;
    ops.linear = say;
    codec.ops = &ops;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        said = wrong[i];
        CU_ASSERT_EQUAL(wi_codec_linear(&codec, 2, &got), WEFT_EINVAL);
    }
    said = (struct weft_codec_linear){.dtype = WEFT_INT8, .elems = 1024};
    CU_ASSERT_EQUAL(wi_codec_linear(&codec, 2, &got), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_codec_parse("sharedint:ranks=43", &codec), WEFT_EINVAL);
    CU_ASSERT(strstr(wi_fail_text(), "at most 42 ranks, and here are 43: take wire=int16") != NULL);
}

static const struct wt_case cases[] = {
    {"sums expand to sums", sums_expand_to_sums},
    {"sums do not overflow", sums_do_not_overflow},
    {"blocks that are not finite", blocks_that_are_not_finite},
    {"cuts at blocks do not matter", cuts_do_not_matter},
    WT_EACH_ISA,
    {"proposals are whole", proposals_are_whole},
    {"short blocks are as with zeros", short_blocks_are_as_with_zeros},
    {"places that are none are left out", places_that_are_none_are_left_out},
    {"any bytes can be expanded", any_bytes_can_be_expanded},
    {"wrong descriptions are refused", wrong_descriptions_are_refused},
};
WT_UNIT_MAIN("codec_linear", cases)
