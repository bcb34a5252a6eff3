/* SPDX-License-Identifier: BSD-3-Clause */
/* What weft_codec_ops promises, of every codec that is registered, and of one that is loaded (plugins/example/ternary.c). */
#include <math.h>
#include <stdlib.h>

#include "base/reduce.h"
#include "base/settings.h"
#include "base/status.h"
#include "compress/codec.h"
#include "net/transports.h"
#include "tests/harness/harness.h"
#include "tests/unit/isa_cases.h"
#include "tests/unit/random_data.h"
#include "tests/unit/unit.h"
#include "tools/bench_rule.h"

/* Besides each codec as it is by default. */
static const char *const forms[] = {
    "int8:block=32",
    "int8:block=2048",
    "int6:block=64",
    "int4:block=32",
    "int2:block=256",
    "ternary:block=65536",
    "ternary:threshold=0.5",
    "sign:block=1024",
    "e4m3:block=32",
    "e5m2:block=2048",
    "mxfp8:element=e5m2",
    "mxfp6:element=e3m2",
    "int8:scale=fp32",
    "int8:levels=minmax",
    "int8:round=stochastic",
    "int8:hadamard=1",
    "int6:levels=minmax,round=stochastic,block=32",
    "int6:scale=fp32,hadamard=1,block=512,seed=7",
    "int4:levels=minmax,scale=fp32,block=64",
    "int4:round=stochastic",
    "int4:round=stochastic,block=2048",
    "int4:hadamard=1,block=1024",
    "int4:hadamard=1,round=stochastic,levels=minmax,scale=fp32",
    "int2:scale=fp32",
    "int2:levels=minmax,block=32",
    "int2:levels=minmax,round=stochastic,block=32",
    "int2:hadamard=1,block=2048",
    "sign:means=2",
    "sign:means=2,block=2048",
    "qsgd:levels=1,block=32",
    "qsgd:levels=31",
    "qsgd:levels=127,block=2048",
    "terngrad:clip=0",
    "terngrad:clip=1.75,block=512,seed=99",
    "natural:block=2048",
    "topk:block=256,ratio=0.00001",
    "topk:block=65536,values=bf16",
    "topk:block=4096,ratio=0.25,values=int8,indices=u16",
    "topk:block=512,ratio=1,values=fp32",
    "topk:values=int8,ratio=0.1",
    "topk:block=1024,ratio=0.6,values=bf16",
    "blocktopk:group=8,block=256",
    "blocktopk:ratio=0.3,group=256,block=65536,values=int8",
    "blocktopk:ratio=1,group=64,indices=u16",
    "randomk:block=256,values=fp32,ratio=0.3",
    "randomk:block=65536,seed=7",
    "randomk:block=512,values=int8",
    "sharedint:wire=int16,block=32",
    "sharedint:ranks=17,block=2048",
    "sharedint:round=stochastic,seed=9",
    "leaderk:block=256,values=fp32,ratio=0.2",
};
enum { MOST_FORMS = 96, MOST = 3 * 65536 + 99, GUARD = 0xa5, SUMMED = 4 };

static struct weft_codec codecs[MOST_FORMS];
static size_t ncodecs;
static float src[MOST], residual[MOST], decoded[MOST], other[MOST];
static uint8_t image[8 * MOST], second[8 * MOST];

/* ---- Which there are ---- */

static void load_example(void)
{
    struct wi_settings *settings;
    struct wi_transports *transports;

    CU_ASSERT_EQUAL_FATAL(wi_settings_create(NULL, NULL, &settings), WEFT_SUCCESS);
    CU_ASSERT_EQUAL_FATAL(wi_transports_open(settings, "inproc", wt_plugin_dir("ternary"), NULL, &transports),
                          WEFT_SUCCESS);
    CU_ASSERT_PTR_NULL(transports->refused);
    wi_transports_close(transports);
    wi_settings_destroy(settings);
}

static void add_form(const char *spec)
{
    CU_ASSERT_FATAL(ncodecs < MOST_FORMS);
    if (wi_codec_parse(spec, &codecs[ncodecs]) < 0) {
        printf("# %s: %s\n", spec, weft_thread_error());
        CU_FAIL("a form of a codec is refused");
    } else {
        ncodecs++;
    }
}

static void all_are_found(void)
{
    const struct weft_plugin *p;

    CU_ASSERT_PTR_NULL(wi_codec_find("ternary"));
    load_example();
    CU_ASSERT_PTR_NOT_NULL_FATAL(wi_codec_find("ternary"));
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_codec_path(wi_codec_find("ternary")), "/ternary.so"));
    for (size_t i = 0; (p = wi_codec_at(i)) != NULL; i++) {
        CU_ASSERT(p->kind == WEFT_PLUGIN_CODEC && p->summary && *p->summary);
        CU_ASSERT_PTR_EQUAL(wi_codec_find(p->name), p);
        add_form(p->name);
    }
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        add_form(forms[i]);
}

static weft_status configure_nothing(struct weft_codec *codec, char *why, size_t capacity)
{
    snprintf(why, capacity, "it never works");
    (void)codec;
    return WEFT_EINVAL;
}

static int always(const struct weft_codec *codec, const void *of)
{
    (void)codec, (void)of;
    return 1;
}

static void says(const struct weft_plugin *plugin, weft_status status, const char *words)
{
    int added = 7;

    CU_ASSERT_EQUAL(wi_codec_add(plugin, "somewhere", &added), status);
    CU_ASSERT_EQUAL(added, 0);
    if (status < 0 && !strstr(wi_fail_text(), words)) {
        printf("# \"%s\" is not in: %s\n", words, wi_fail_text());
        CU_FAIL("the text says something else");
    }
    wi_fail_clear();
}

static void wrong_ones_are_refused(void)
{
    static struct weft_codec_parameter rows[2] = {{"level", "1", WEFT_CODEC_INTEGER, 1, 5, NULL, "a number"}};
    static struct weft_codec_ops ops = {.bytes = sizeof ops, .parameters = rows, .configure = configure_nothing};
    static struct weft_plugin plugin = {
        .abi = WEFT_PLUGIN_ABI, .bytes = sizeof plugin, .kind = WEFT_PLUGIN_CODEC, .name = "Odd", .ops = &ops};
    struct weft_codec codec;
    int added;

    says(&plugin, WEFT_EPLUGIN, "the name of a codec is 1 to 23 of a-z, 0-9 and _");
    plugin.name = "none";
    says(&plugin, WEFT_EPLUGIN, "would mean that there is none");
    plugin.name = "int8";
    says(&plugin, WEFT_EPLUGIN, "there is a codec int8 already");
    plugin.name = "odd";
    says(&plugin, WEFT_EPLUGIN, "codec odd lacks configure, encode, decode (or read) or is_finite");
    ops.encode = wi_codec_ops(wi_codec_find("int8"))->encode;
    ops.decode = wi_codec_ops(wi_codec_find("int8"))->decode;
    ops.is_finite = always;
    rows[0].name = "ef";
    says(&plugin, WEFT_EPLUGIN, "\"ef\", which is of calls");
    rows[0].name = "masking";
    says(&plugin, WEFT_EPLUGIN, "\"masking\", which is of calls");
    rows[0].name = "level";
    rows[0].help = NULL;
    says(&plugin, WEFT_EPLUGIN, "the row of its parameter level is not complete");
    rows[0].help = "a number";
    ops.bytes = offsetof(struct weft_codec_ops, sum); /* of an older header: there was nothing behind it */
    ops.sum = (void (*)(const struct weft_codec *, const struct weft_codec_operands *, size_t, float *, void *))1;
    CU_ASSERT_EQUAL(wi_codec_add(&plugin, "somewhere", &added), WEFT_SUCCESS);
    CU_ASSERT(added && !wi_codec_ops(&plugin)->sum && !wi_codec_ops(&plugin)->read);
    says(&plugin, WEFT_SUCCESS, "");
    CU_ASSERT_EQUAL(wi_codec_parse("odd", &codec), WEFT_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(weft_thread_error(), "codec odd: it never works"));
    CU_ASSERT_EQUAL(wi_codec_parse("odd:level=6", &codec), WEFT_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(weft_thread_error(), "level is \"6\", not a whole number from 1 to 5 (a number)"));
}

/* Those that are built in keep the rules of plugins, but for one: terngrad's clip, as its paper calls it, is also dgc's. It is the
 * codec's where the codec has one, and terngrad takes no error feedback. */
static void built_in_ones_keep_the_rules(void)
{
    const struct weft_plugin *p;
    size_t n = 0;

    for (; (p = wi_codec_at(n)) != NULL && !wi_codec_path(p); n++) {
        int clips = !strcmp(p->name, "terngrad");
        weft_status status = wi_codec_check_plugin(p, wi_codec_ops(p));
        if (status < 0 && !clips)
            printf("# %s: %s\n", p->name, wi_fail_text());
        CU_ASSERT_EQUAL(status, clips ? WEFT_EPLUGIN : WEFT_SUCCESS);
        CU_ASSERT(!clips || !strcmp(wi_fail_text(), "codec terngrad has a parameter \"clip\", which is of calls"));
        wi_fail_clear();
    }
    CU_ASSERT(n >= 20);
}

/* weft-bench's judgement of a result. */
static void wrong_results_are_told_from_right_ones(void)
{
    CU_ASSERT(!(1 <= bench_rule_codec_nmse(.5)));  /* zeros, where a codec loses half */
    CU_ASSERT(!(2 <= bench_rule_codec_nmse(1)));   /* noise of the vector's length */
    CU_ASSERT(1.02 <= bench_rule_codec_nmse(.98)); /* terngrad, about as long as the vector */
    CU_ASSERT(!bench_rule_codec_keeps(0, 1));      /* zeros, by terngrad */
    CU_ASSERT(!bench_rule_codec_keeps(0, .07));    /* and by topk of a hundredth */
    CU_ASSERT(!bench_rule_codec_keeps(.03, .07));
    CU_ASSERT(bench_rule_codec_keeps(.06, .07) && bench_rule_codec_keeps(.97, 1.01));
    CU_ASSERT(bench_rule_codec_keeps(.0002, .0006)); /* too little for a judgement */
    CU_ASSERT(bench_rule_codec_keeps(1, 9)); /* qsgd of one level, of which expectations are by chance too long */
    CU_ASSERT(!bench_rule_codec_keeps(NAN, .5));
}

static const char *name_of(const struct weft_codec *c)
{
    static char text[WI_CODEC_TEXT_MAX];

    return wi_codec_text(c, text, sizeof text);
}

static void texts_are_read_back(void)
{
    for (size_t k = 0; k < ncodecs; k++) {
        struct weft_codec again;
        CU_ASSERT_EQUAL_FATAL(wi_codec_parse(name_of(&codecs[k]), &again), WEFT_SUCCESS);
        CU_ASSERT(!memcmp(&again, &codecs[k], sizeof again));
        for (size_t i = 0; i < k; i++)
            CU_ASSERT((again.hash == codecs[i].hash) == !memcmp(again.value, codecs[i].value, sizeof again.value) ||
                      again.plugin != codecs[i].plugin);
    }
}

/* ---- Data ---- */

enum family { GAUSSIAN, LAPLACE, STUDENT, SPARSE, CONSTANT, NEGATIVE, DENORMAL, TINY, LARGE, ZERO, SPIKE, FAMILIES };

static float draw(enum family family, size_t i)
{
    switch (family) {
    case GAUSSIAN:
        return (float)gaussian();
    case LAPLACE:
        return (float)((uniform() < .5 ? -1 : 1) * log(uniform()));
    case STUDENT:
        return (float)(gaussian() / sqrt((pow(gaussian(), 2) + pow(gaussian(), 2) + pow(gaussian(), 2)) / 3));
    case SPARSE:
        return random_bits() % 50 ? 0 : (float)gaussian();
    case CONSTANT:
        return 0.3f;
    case NEGATIVE:
        return -(float)uniform();
    case DENORMAL:
        return (float)(gaussian() * 1e-40);
    case TINY:
        return (float)(gaussian() * 1e-37);
    case LARGE: /* just below the codec's limit: it is multiplied by that */
        return (random_bits() & 1 ? -1 : 1) * .94f;
    case SPIKE:
        return i % 2048 == 7 ? 5 : 0;
    default:
        return 0;
    }
}

static void fill(const struct weft_codec *c, enum family family, size_t n)
{
    for (size_t i = 0; i < n; i++)
        src[i] = draw(family, i) * (family == LARGE ? c->limit : 1);
}

static const uint32_t odd_bits[] = {0,          0x80000000, 1,          0x80000001, 0x007fffff, 0x00800000,
                                    0x7f7fffff, 0xff7fffff, 0x7f800000, 0x7fc00000, 0x7f000000, 0x7effffff};

static void fill_odd(size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = random_bits() % 9 ? random_bits() & 0xbfffffff : odd_bits[random_bits() % 12];
        memcpy(&src[i], &bits, sizeof bits);
    }
}

static size_t sizes_of(const struct weft_codec *c, size_t sizes[5])
{
    size_t b = c->block, all[5] = {1, b - 1, b, b + 1, 2 * b + 17};

    memcpy(sizes, all, sizeof all);
    return 5;
}

static const struct weft_codec_site site = {.step = 12, .first = 128 * 65536, .rank = 3, .sums = 1};

/* ---- Lengths, and what is written ---- */

static void only_what_is_theirs_is_written(void)
{
    for (size_t k = 0; k < ncodecs; k++) {
        size_t sizes[5], n = sizes_of(&codecs[k], sizes), whole = codecs[k].block_bytes;
        CU_ASSERT_EQUAL(wi_codec_bytes(&codecs[k], 0), 0);
        CU_ASSERT_EQUAL(wi_codec_bytes(&codecs[k], codecs[k].block + 1), 2 * whole);
        CU_ASSERT_EQUAL(wi_codec_bytes(&codecs[k], 1000 * (size_t)codecs[k].block), 1000 * whole);
        for (size_t s = 0; s < n; s++) {
            size_t bytes = wi_codec_bytes(&codecs[k], sizes[s]);
            fill(&codecs[k], STUDENT, sizes[s]);
            memset(image, GUARD, bytes + 64);
            memset(second, 0, bytes + 64);
            decoded[sizes[s]] = 77;
            CU_ASSERT_EQUAL(wi_codec_encode_at(&codecs[k], &site, src, NULL, sizes[s], image + 1), 0);
            CU_ASSERT_EQUAL(wi_codec_encode_at(&codecs[k], &site, src, NULL, sizes[s], second), 0);
            CU_ASSERT(!memcmp(image + 1, second, bytes)); /* all of it, and always the same */
            wi_codec_decode(&codecs[k], image + 1, sizes[s], decoded);
            CU_ASSERT(image[0] == GUARD && image[bytes + 1] == GUARD && decoded[sizes[s]] == 77);
        }
        CU_ASSERT_EQUAL(wi_codec_encode(&codecs[k], src, NULL, 0, image), 0);
    }
}

static void cuts_do_not_matter(void)
{
    for (size_t k = 0; k < ncodecs; k++) {
        const struct weft_codec *c = &codecs[k];
        size_t b = c->block, n = 2 * b + 5;
        fill(c, LAPLACE, n);
        wi_codec_encode_at(c, &site, src, NULL, n, image);
        for (size_t at = 0; at < n; at += b) {
            struct weft_codec_site there = site;
            there.first += at;
            wi_codec_encode_at(c, &there, src + at, NULL, n - at < b ? n - at : b, second + wi_codec_bytes(c, at));
        }
        CU_ASSERT(!memcmp(image, second, wi_codec_bytes(c, n)));
        wi_codec_decode(c, image, n, decoded);
        wi_codec_decode(c, image + wi_codec_bytes(c, b), n - b, other);
        CU_ASSERT(!memcmp(decoded + b, other, (n - b) * sizeof *other));
    }
}

/* ---- Residuals ---- */

static void nothing_is_lost(void)
{
    static double sent[MOST], given[MOST];

    for (size_t k = 0; k < ncodecs; k++) {
        const struct weft_codec *c = &codecs[k];
        size_t n = c->block > 4096 ? c->block : 2 * c->block + 9, bad = 0;
        double worst = 0;
        memset(residual, 0, (n + 1) * sizeof *residual);
        memset(sent, 0, n * sizeof *sent);
        memset(given, 0, n * sizeof *given);
        for (uint64_t step = 0; step < 20; step++) {
            struct weft_codec_site now = {.step = step};
            fill(c, GAUSSIAN, n);
            memcpy(other, residual, n * sizeof *other);
            CU_ASSERT_EQUAL(wi_codec_encode_at(c, &now, src, residual, n, image), 0);
            wi_codec_decode(c, image, n, decoded);
            for (size_t i = 0; i < n; i++) {
                bad += residual[i] != src[i] + other[i] - decoded[i];
                given[i] += (double)src[i];
                sent[i] += (double)decoded[i];
            }
        }
        for (size_t i = 0; i < n; i++)
            worst = fmax(worst, fabs(given[i] - sent[i] - (double)residual[i]));
        if (!(worst < 1e-3) || bad)
            printf("# %s: %zu residuals are something else, and up to %g is lost\n", name_of(c), bad, worst);
        CU_ASSERT(worst < 1e-3 && bad == 0);
        CU_ASSERT(residual[n] == 0);
    }
}

static void bad_blocks_leave_the_residual(void)
{
    for (size_t k = 0; k < ncodecs; k++) {
        const struct weft_codec *c = &codecs[k];
        const float bad[] = {NAN, -NAN, INFINITY, -INFINITY, c->limit, -3.4e38f};
        size_t b = c->block, n = 2 * b + 10;
        for (size_t v = 0; v < sizeof bad / sizeof *bad; v++) {
            size_t wrong = 0;
            fill(c, GAUSSIAN, n);
            src[b + (v % 2 ? b - 1 : 0)] = bad[v];
            for (size_t i = 0; i < n; i++)
                residual[i] = .25f;
            CU_ASSERT_EQUAL(wi_codec_encode_at(c, &site, src, residual, n, image), 1);
            CU_ASSERT(wi_codec_is_finite(c, image, 0) && !wi_codec_is_finite(c, image, 1) &&
                      wi_codec_is_finite(c, image, 2));
            wi_codec_decode(c, image, n, decoded);
            for (size_t i = 0; i < n; i++)
                wrong += i >= b && i < 2 * b ? !isnan(decoded[i]) || residual[i] != .25f : !isfinite(decoded[i]);
            if (wrong)
                printf("# %s, a block with %g: %zu elements are wrong\n", name_of(c), (double)bad[v], wrong);
            CU_ASSERT_EQUAL(wrong, 0);
        }
    }
}

/* ---- Errors ---- */

/* ||x - decoded||^2 / ||x||^2, of several steps */
static double error_of(const struct weft_codec *c, enum family family, size_t n, uint64_t steps)
{
    double error = 0, norm = 0;

    for (uint64_t step = 0; step < steps; step++) {
        struct weft_codec_site now = {.step = step, .rank = 1};
        fill(c, family, n);
        wi_codec_encode_at(c, &now, src, NULL, n, image);
        wi_codec_decode(c, image, n, decoded);
        for (size_t i = 0; i < n; i++) {
            error += ((double)src[i] - (double)decoded[i]) * ((double)src[i] - (double)decoded[i]);
            norm += (double)src[i] * (double)src[i];
        }
    }
    return norm > 0 ? error / norm : error;
}

/* Codecs that choose at random may miss the few elements that a vector has, but not for long. */
static double error_of_many(const struct weft_codec *c, enum family family)
{
    size_t n = c->block * 2 - 5;
    double error = error_of(c, family, n, 4);

    return error == 1 && family != DENORMAL ? error_of(c, family, n, 400) : error;
}

/* What error feedback stands on, for every vector. Of numbers below the normal ones nothing need be kept; those of fp16 end
 * early. */
static void errors_are_contractions(void)
{
    for (size_t k = 0; k < ncodecs; k++)
        for (int family = 0; family < FAMILIES && codecs[k].traits & WEFT_CODEC_CONTRACTIVE; family++) {
            double error = error_of_many(&codecs[k], (enum family)family);
            int holds = family == ZERO ? error == 0
                        : family == DENORMAL || (family == TINY && codecs[k].limit < 1e10f)
                            ? error <= 1
                            : error < 1 - .4 / codecs[k].block;
            if (!holds)
                printf("# %s, data %d: the error is %g of the square\n", name_of(&codecs[k]), family, error);
            CU_ASSERT(holds);
        }
}

static void errors_are_as_they_say(void)
{
    for (size_t k = 0; k < ncodecs; k++) {
        double error = error_of(&codecs[k], GAUSSIAN, 65536, 1);
        printf("# %s: %.3f bits, error %.3g, said %.3g\n", name_of(&codecs[k]),
               (double)codecs[k].block_bytes * 8 / codecs[k].block, error, (double)codecs[k].nmse);
        CU_ASSERT(error <= 3 * (double)codecs[k].nmse && error >= (double)codecs[k].nmse / 3);
    }
}

enum { DRAWS = 4000, DRAWN = 320 };

/* The mean of many images is the vector, each element within five deviations, and what rare values may add. */
static void means_are_the_vector(void)
{
    static double sum[DRAWN], squares[DRAWN];

    for (size_t k = 0; k < ncodecs; k++) {
        const struct weft_codec *c = &codecs[k];
        double most = 0, all = 0, of_all = 0;
        size_t wrong = 0;
        if (!(c->traits & WEFT_CODEC_UNBIASED))
            continue;
        memset(sum, 0, sizeof sum);
        memset(squares, 0, sizeof squares);
        fill(c, GAUSSIAN, DRAWN);
        for (uint64_t step = 0; step < DRAWS; step++) {
            struct weft_codec_site now = {.step = step, .rank = 5};
            wi_codec_encode_at(c, &now, src, NULL, DRAWN, image);
            wi_codec_decode(c, image, DRAWN, decoded);
            for (size_t i = 0; i < DRAWN; i++) {
                double off = (double)decoded[i] - (double)src[i];
                sum[i] += off;
                squares[i] += off * off;
                most = fmax(most, fabs(off));
            }
        }
        for (size_t i = 0; i < DRAWN; i++) {
            double mean = sum[i] / DRAWS, deviation = sqrt(fmax(0, squares[i] / DRAWS - mean * mean));
            wrong += !(fabs(mean) <= 5 * deviation / sqrt(DRAWS) + 15 * most / DRAWS);
            all += mean;
            of_all += deviation * deviation;
        }
        if (wrong || !(fabs(all) < 5 * sqrt(of_all / DRAWS)))
            printf("# %s: the means of %zu elements are off, all together by %g of %g\n", name_of(c), wrong, all,
                   sqrt(of_all / DRAWS));
        CU_ASSERT(wrong == 0 && fabs(all) < 5 * sqrt(of_all / DRAWS) && of_all > 0);
    }
}

/* ---- Sums ---- */

struct parts {
    const void *from[SUMMED];
    const float *plain[SUMMED];
    struct weft_codec_operands operands;
};

static void make_parts(struct parts *p, const struct weft_codec *c, size_t n, int plain_at)
{
    static uint8_t images[SUMMED][8 * MOST];
    static float own[MOST];

    p->operands = (struct weft_codec_operands){SUMMED, p->from, p->plain};
    for (int s = 0; s < SUMMED; s++) {
        struct weft_codec_site now = {.rank = (uint32_t)s};
        fill(c, GAUSSIAN, n);
        wi_codec_encode_at(c, &now, src, NULL, n, images[s]);
        p->from[s] = s == plain_at ? NULL : images[s];
        p->plain[s] = s == plain_at ? own : NULL;
    }
    memcpy(own, src, n * sizeof *own);
}

/* The library's own sums, of decode and encode, and the codec's have the same bits. */
static void sums_are_those_of_their_parts(void)
{
    static float left[MOST], got[MOST];

    for (size_t k = 0; k < ncodecs; k++) {
        const struct weft_codec *c = &codecs[k];
        struct weft_codec_ops without = *c->ops;
        struct weft_codec plain = *c;
        size_t n = c->block > 4096 ? c->block + 3 : 3 * c->block - 7;
        without.sum = NULL;
        without.sum_encode = NULL;
        plain.ops = &without;
        for (int plain_at = 0; plain_at < SUMMED; plain_at += SUMMED - 1) {
            struct parts p;
            size_t bytes = wi_codec_bytes(c, n);
            make_parts(&p, c, n, plain_at);
            for (size_t i = 0; i < n; i++)
                residual[i] = left[i] = (float)gaussian();
            wi_codec_sum(c, &p.operands, n, decoded);
            wi_codec_sum(&plain, &p.operands, n, other);
            CU_ASSERT(!memcmp(decoded, other, n * sizeof *other));
            decoded[n] = got[n] = 77;
            CU_ASSERT_EQUAL(wi_codec_sum_encode(c, &site, &p.operands, .3f, residual, n, image, decoded), 0);
            CU_ASSERT_EQUAL(wi_codec_sum_encode(&plain, &site, &p.operands, .3f, left, n, second, got), 0);
            CU_ASSERT(!memcmp(image, second, bytes) && !memcmp(decoded, got, n * sizeof *got));
            CU_ASSERT(!memcmp(residual, left, n * sizeof *left) && decoded[n] == 77 && got[n] == 77);
            wi_codec_decode(c, image, n, other);
            CU_ASSERT(!memcmp(decoded, other, n * sizeof *other));
        }
    }
}

/* ---- Every instruction set ---- */

/* All that they write. Returns its length. */
static size_t run(const struct weft_codec *c, size_t n, uint8_t *out)
{
    static float into[MOST], with[MOST];
    size_t bytes = wi_codec_bytes(c, n);
    const uint8_t *one = out + 1;
    const struct weft_codec_operands many = {7, (const void *[]){one, one, one, one, one, NULL, one},
                                             (const float *[]){NULL, NULL, NULL, NULL, NULL, src, NULL}};

    memcpy(with, residual, n * sizeof *with);
    out[0] = (uint8_t)wi_codec_encode_at(c, &site, src, NULL, n, out + 1);
    wi_codec_encode_at(c, &site, src, with, n, out + 1 + bytes);
    out += 1 + 2 * bytes;
    memcpy(out, with, 4 * n);
    wi_codec_decode(c, one, n, into);
    memcpy(out + 4 * n, into, 4 * n);
    wi_codec_sum(c, &many, n, into);
    memcpy(out + 8 * n, into, 4 * n);
    memcpy(with, residual, n * sizeof *with);
    wi_codec_sum_encode(c, &site, &many, .5f, with, n, out + 12 * n, into);
    memcpy(out + 12 * n + bytes, into, 4 * n);
    return 1 + 3 * bytes + 16 * n;
}

static int compare_instruction_sets(const char *isa)
{
    static uint8_t first[30 * MOST], then[30 * MOST];
    int tried = 0;

    for (size_t k = 0; k < ncodecs; k++) {
        size_t sizes[5], nsizes = sizes_of(&codecs[k], sizes);
        for (size_t s = 0; s < nsizes; s++)
            for (int odd = 0; odd < 3; odd++) {
                size_t bytes, differ = 0;
                fill(&codecs[k], odd == 2 ? DENORMAL : STUDENT, sizes[s]);
                for (size_t i = 0; i < sizes[s]; i++)
                    residual[i] = odd == 2 ? 0 : (float)gaussian();
                if (odd == 1)
                    fill_odd(sizes[s]);
                CU_ASSERT_EQUAL(wi_isa_force("scalar"), 0);
                bytes = run(&codecs[k], sizes[s], first);
                CU_ASSERT_EQUAL(wi_isa_force(isa), 0);
                CU_ASSERT_EQUAL(run(&codecs[k], sizes[s], then), bytes);
                while (differ < bytes && first[differ] == then[differ])
                    differ++;
                if (differ < bytes)
                    printf("# %s, %zu elements, data %d: %s differs at byte %zu of %zu\n", name_of(&codecs[k]),
                           sizes[s], odd, isa, differ, bytes);
                CU_ASSERT_EQUAL(differ, bytes);
                tried++;
            }
    }
    return tried;
}
WT_ISA_CASES(compare_instruction_sets)

/* ---- Images that nobody made ---- */

static void any_bytes_can_be_decoded(void)
{
    for (size_t k = 0; k < ncodecs; k++)
        for (int round = 0; round < 20; round++) {
            size_t b = codecs[k].block, n = b + 3, bytes = wi_codec_bytes(&codecs[k], n);
            uint8_t *exact = malloc(bytes); /* a sanitizer sees what is read behind it */
            int finite = 0;
            CU_ASSERT_FATAL(exact != NULL);
            for (size_t i = 0; i < bytes; i++)
                exact[i] = round ? (uint8_t)random_bits() : 0xff;
            decoded[n] = 77;
            wi_codec_decode(&codecs[k], exact, n, decoded);
            for (size_t block = 0; block < 2; block++)
                finite += wi_codec_is_finite(&codecs[k], exact, block) != 0;
            CU_ASSERT(decoded[n] == 77 && finite <= 2);
            free(exact);
        }
}

/* ---- Ranks, steps and places are drawn for apart ---- */

static void sites_differ(void)
{
    for (size_t k = 0; k < ncodecs; k++) {
        const struct weft_codec *c = &codecs[k];
        struct weft_codec_site sites[5] = {site, site, site, site, site};
        size_t n = c->block * 2, bytes = wi_codec_bytes(c, n);
        int differs[5] = {0}, some;
        sites[1].step++;
        sites[2].rank++;
        sites[3].first += n;
        sites[4].sums = 0;
        fill(c, GAUSSIAN, n);
        wi_codec_encode_at(c, &sites[0], src, NULL, n, image);
        for (int i = 1; i < 5; i++) {
            wi_codec_encode_at(c, &sites[i], src, NULL, n, second);
            differs[i] = memcmp(image, second, bytes) != 0;
        }
        some = differs[1] || (c->traits & WEFT_CODEC_UNBIASED);
        CU_ASSERT(differs[1] == some && differs[3] == some); /* all of them or none ... */
        some = differs[2] || (c->traits & WEFT_CODEC_UNBIASED);
        CU_ASSERT(differs[2] == some && differs[4] == some &&
                  differs[1] >= some); /* ... but that all ranks may do alike */
    }
}

static const struct wt_case cases[] = {
    {"all are found", all_are_found},
    {"wrong ones are refused", wrong_ones_are_refused},
    {"built-in ones keep the rules", built_in_ones_keep_the_rules},
    {"wrong results are told from right ones", wrong_results_are_told_from_right_ones},
    {"texts are read back", texts_are_read_back},
    {"only what is theirs is written", only_what_is_theirs_is_written},
    {"cuts at blocks do not matter", cuts_do_not_matter},
    {"nothing is lost with a residual", nothing_is_lost},
    {"blocks that are not finite leave the residual", bad_blocks_leave_the_residual},
    {"errors are contractions", errors_are_contractions},
    {"errors are as codecs say", errors_are_as_they_say},
    {"means are the vector", means_are_the_vector},
    {"sums are those of their parts", sums_are_those_of_their_parts},
    WT_EACH_ISA,
    {"any bytes can be decoded", any_bytes_can_be_decoded},
    {"sites differ", sites_differ},
};
WT_UNIT_MAIN("codec_conform", cases)
