/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-bench --codec: what a result loses, and how much was sent for it.
 *
 * One more call, on data of about a normal distribution, is compared with the exact result, and its error with that of the
 * same encodings made here, by weft_codec_encode and _decode: each rank's vector and, of all_reduce, the sum once more. No
 * algorithm loses more; blocks lie otherwise, so that a quarter more is allowed (bench_rule_codec). Vectors shorter than JUDGED
 * have too few blocks for that. */
#include "weft_bench.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft_compress.h>

#include "bench_rule.h"
#include "compress/call_parameters.h"

enum { JUDGED = 4096, CAST_BLOCK = 32, CODEC_TEXT = 256 };
#define TENSOR ((uint64_t)1 << 40) /* with a residual of its own, which is empty */

/* One part of a rank's result: of all ranks' vectors, or of one's. */
struct part {
    int first_rank, ranks;
    size_t from, at, elems; /* of the source; where it is in the result */
};

struct sums {
    double lost, expected, norm; /* squares: of the error, of the encodings' made here, of the exact result */
    double kept,
        expected_kept; /* products with the exact result: of the result, of what the encodings made here leave */
};

struct work {
    struct bench *b;
    const struct bench_call *c;
    uint64_t seed;
    size_t elems;  /* of the longest part */
    double *exact; /* [elems], as are the others */
    float *values, *coded, *result;
    unsigned char *image, *cast; /* of the codec; of `elems` in the call's type */
    size_t image_bytes, cast_bytes;
    struct sums sums;
    char codec[CODEC_TEXT]; /* without the parameters of calls */
    int leads;              /* leaderk: one rank chooses which elements all ranks send */
    int clips;              /* ef=dgc makes the vector shorter before it is encoded */
};

static int is_codec(const char *codec)
{
    return codec && *codec && strcmp(codec, "none") != 0;
}

static void take_setting(void *arg, const char *name, const char *value, const char *default_value, const char *origin,
                         const char *help)
{
    struct bench *b = arg;

    (void)default_value, (void)origin, (void)help;
    if (!strcmp(name, "WEFT_COMPRESS") && is_codec(value))
        b->default_codec = strdup(value);
}

weft_status bench_codec_read(struct bench *b)
{
    return b->o.codec ? WEFT_SUCCESS : weft_context_settings(b->context, take_setting, b);
}

const char *bench_codec(const struct bench *b)
{
    const char *codec = b->o.codec ? b->o.codec : b->default_codec;

    return is_codec(codec) ? codec : NULL;
}

/* By WEFT_COMPRESS sums of floats are coded, and nothing else (weft_compress.h). */
int bench_codec_is_for(const struct bench *b, const struct bench_call *c)
{
    int sums = (c->coll == BENCH_ALL_REDUCE || c->coll == BENCH_REDUCE_SCATTER) &&
               (c->op == WEFT_SUM || c->op == WEFT_AVG) &&
               (c->dtype == WEFT_FLOAT32 || c->dtype == WEFT_FLOAT16 || c->dtype == WEFT_BFLOAT16);

    return bench_codec(b) && c->coll != BENCH_BARRIER && c->coll != BENCH_SENDRECV && (b->o.codec || sums);
}

/* Is "ef=1" a parameter of calls? Not where the codec has one of that name, which comes first. */
static int is_of_call(const char *name, size_t name_bytes, const char *pair, size_t pair_bytes)
{
    static const char *const of_calls[] = {
#define NAME(id, name) name,
        WI_CODEC_CALL_LIST(NAME)
#undef NAME
    };
    size_t key = strcspn(pair, "=,"), unused;
    char alone[CODEC_TEXT];

    for (size_t i = 0; i < sizeof of_calls / sizeof *of_calls; i++)
        if (strlen(of_calls[i]) == key && !strncmp(pair, of_calls[i], key)) {
            snprintf(alone, sizeof alone, "%.*s:%.*s", (int)name_bytes, name, (int)pair_bytes, pair);
            return weft_codec_bytes(alone, 1, &unused) < 0;
        }
    return 0;
}

/* What weft_codec_encode takes of the text: parameters of calls are not for it (weft_compress.h). */
static void strip(struct work *w, const char *spec, int nranks)
{
    size_t name = strcspn(spec, ":");
    const char *end = ":";
    int has_ranks = 0;

    snprintf(w->codec, CODEC_TEXT, "%.*s", (int)name, spec);
    for (const char *pair = spec + name; *pair++;) {
        size_t n = strcspn(pair, ","), at = strlen(w->codec);
        int of_call = is_of_call(spec, name, pair, n);
        has_ranks |= !strncmp(pair, "ranks=", 6);
        w->clips |= of_call && !strncmp(pair, "clip=", 5);
        if (!of_call && at < CODEC_TEXT) {
            snprintf(w->codec + at, CODEC_TEXT - at, "%s%.*s", end, (int)n, pair);
            end = ",";
        }
        pair += n;
    }
    w->leads = w->c->coll == BENCH_ALL_REDUCE && name == 7 && !strncmp(spec, "leaderk", name);
    if (!strncmp(spec, "sharedint", name) &&
        !has_ranks) { /* ranks share its levels: the more there are, the fewer has each */
        size_t at = strlen(w->codec);
        snprintf(w->codec + at, CODEC_TEXT - at, "%sranks=%d", end, nranks);
    }
}

/* The sum of four uniform numbers, of variance 1. */
static float value(uint64_t seed, int rank, size_t i)
{
    uint64_t x = (i + (uint64_t)rank * 0x9E3779B1u + seed * 0x85EBCA77u) * 0x9E3779B97F4A7C15u;

    x = (x ^ x >> 29) * 0xBF58476D1CE4E5B9u;
    x ^= x >> 32;
    return ((float)(x & 0xffff) + (float)(x >> 16 & 0xffff) + (float)(x >> 32 & 0xffff) + (float)(x >> 48) - 131070) /
           37837;
}

/* ---- Types: an image of bf16 or fp16 is the vector in that type, on little-endian machines, rounded as conversions are ---- */

static const char *cast_of(weft_dtype dtype)
{
    return dtype == WEFT_BFLOAT16 ? "bf16" : dtype == WEFT_FLOAT16 ? "fp16" : NULL;
}

static weft_status narrow(const struct work *w, const float *from, size_t n, void *to)
{
    const char *cast = cast_of(w->c->dtype);
    weft_status status = WEFT_SUCCESS;

    if (cast)
        status = weft_codec_encode(cast, WEFT_FLOAT32, from, NULL, n, w->cast, w->cast_bytes);
    if (status >= 0)
        memcpy(to, cast ? (const void *)w->cast : from, n * weft_dtype_bytes(w->c->dtype));
    return status;
}

static weft_status widen(const struct work *w, const void *from, size_t n, float *to)
{
    const char *cast = cast_of(w->c->dtype);
    size_t bytes = n * weft_dtype_bytes(w->c->dtype), whole = (n + CAST_BLOCK - 1) / CAST_BLOCK * CAST_BLOCK * 2;

    if (!cast) {
        memcpy(to, from, bytes);
        return WEFT_SUCCESS;
    }
    memset(w->cast, 0, whole);
    memcpy(w->cast, from, bytes);
    return weft_codec_decode(cast, w->cast, whole, WEFT_FLOAT32, to, n);
}

/* A rank's elements, as they are in the call's type. */
static weft_status generate(const struct work *w, int rank, size_t first, size_t n, float *to)
{
    weft_status status;

    for (size_t i = 0; i < n; i++)
        to[i] = value(w->seed, rank, first + i);
    status = narrow(w, to, n, w->result);
    return status < 0 ? status : widen(w, w->result, n, to);
}

/* ---- Comparing ---- */

static weft_status lossy(const struct work *w, const float *from, size_t n, float *to)
{
    weft_status status = weft_codec_encode(w->codec, WEFT_FLOAT32, from, NULL, n, w->image, w->image_bytes);
    size_t bytes = 0;

    if (status >= 0)
        status = weft_codec_image_bytes(w->codec, w->image, n, &bytes);
    return status < 0 ? status : weft_codec_decode(w->codec, w->image, bytes, WEFT_FLOAT32, to, n);
}

/* What the image of one rank's vector leaves of it. Of leaderk in all_reduce, which sums plain values at the places that one rank
 * chose, the other ranks' values at the places of the first. */
static weft_status leave(const struct work *w, size_t n, int is_first)
{
    if (!w->leads || is_first)
        return lossy(w, w->values, n, w->coded);
    for (size_t i = 0; i < n; i++)
        w->coded[i] = w->coded[i] != 0 ? w->values[i] : 0;
    return WEFT_SUCCESS;
}

/* The part's exact result, and in `coded` what encodings leave of it. */
static weft_status expect(struct work *w, const struct part *p)
{
    double factor = w->c->op == WEFT_AVG && p->ranks > 1 ? 1.0 / p->ranks : 1;
    float *sum = calloc(p->elems, sizeof *sum);
    weft_status status = sum ? WEFT_SUCCESS : WEFT_ENOMEM;

    memset(w->exact, 0, p->elems * sizeof *w->exact);
    for (int r = p->first_rank; r < p->first_rank + p->ranks && status >= 0; r++) {
        status = generate(w, r, p->from, p->elems, w->values);
        if (status >= 0)
            status = leave(w, p->elems, r == p->first_rank);
        for (size_t i = 0; i < p->elems && status >= 0; i++) {
            w->exact[i] += w->values[i] * factor;
            sum[i] += w->coded[i] * (float)factor;
        }
    }
    memcpy(w->coded, sum, p->elems * sizeof *sum);
    if (status >= 0 && w->c->coll == BENCH_ALL_REDUCE && !w->leads)
        status = lossy(w, sum, p->elems, w->coded);
    free(sum);
    if (status >= 0)
        status = narrow(w, w->coded, p->elems, w->result);
    return status < 0 ? status : widen(w, w->result, p->elems, w->coded);
}

static weft_status compare(struct work *w, const struct part *p)
{
    const char *at = (const char *)w->c->dst + p->at * weft_dtype_bytes(w->c->dtype);
    weft_status status = expect(w, p);

    if (status >= 0)
        status = widen(w, at, p->elems, w->result);
    for (size_t i = 0; i < p->elems && status >= 0; i++) {
        double lost = w->result[i] - w->exact[i], expected = w->coded[i] - w->exact[i];
        w->sums.lost += isfinite(lost) ? lost * lost : INFINITY;
        w->sums.expected += expected * expected;
        w->sums.norm += w->exact[i] * w->exact[i];
        w->sums.kept += isfinite(lost) ? w->result[i] * w->exact[i] : 0;
        w->sums.expected_kept += w->coded[i] * w->exact[i];
    }
    return status;
}

/* The parts of this rank's result, in turn; 0: there are no more. */
static int next_part(const struct bench_call *c, int i, struct part *p)
{
    int n = c->nranks, every = c->coll == BENCH_ALL_GATHER || c->coll == BENCH_ALL_GATHER_V ||
                               c->coll == BENCH_ALL_TO_ALL || c->coll == BENCH_ALL_TO_ALL_V;

    if (every && i < n) {
        *p = (struct part){i, 1, 0, c->displs[i], c->counts[i]};
        for (int s = 0; (c->coll == BENCH_ALL_TO_ALL || c->coll == BENCH_ALL_TO_ALL_V) && s < c->rank; s++)
            p->from += bench_share_elems(c->coll, c->count, i, s);
        return 1;
    }
    if (every || i > 0)
        return 0;
    *p = (struct part){0, n, 0, 0, bench_call_dst_elems(c)};
    if (c->coll == BENCH_BROADCAST)
        p->first_rank = c->root, p->ranks = 1;
    else if (c->coll != BENCH_ALL_REDUCE) /* reduce_scatter */
        p->from = c->displs[c->rank];
    return 1;
}

/* ---- The call ---- */

static size_t longest(const struct bench_call *c)
{
    size_t most = bench_call_src_elems(c);
    struct part p;

    for (int i = 0; next_part(c, i, &p); i++)
        most = p.elems > most ? p.elems : most;
    return most;
}

static weft_status begin(struct work *w)
{
    size_t n = longest(w->c);
    weft_status status;

    strip(w, bench_codec(w->b), w->c->coll == BENCH_ALL_REDUCE ? w->c->nranks : 1);
    status = weft_codec_bytes(w->codec, n, &w->image_bytes);
    if (status < 0)
        return status;
    w->elems = n;
    w->cast_bytes = (n + CAST_BLOCK) * 2;
    w->exact = malloc((n + 1) * sizeof *w->exact);
    w->values = malloc((n + 1) * sizeof *w->values);
    w->coded = malloc((n + 1) * sizeof *w->coded);
    w->result = malloc((n + 1) * sizeof *w->result);
    w->image = malloc(w->image_bytes + 1);
    w->cast = malloc(w->cast_bytes);
    return w->exact && w->values && w->coded && w->result && w->image && w->cast ? WEFT_SUCCESS : WEFT_ENOMEM;
}

static void end(struct work *w)
{
    free(w->exact);
    free(w->values);
    free(w->coded);
    free(w->result);
    free(w->image);
    free(w->cast);
}

static weft_status fill(const struct work *w)
{
    size_t n = bench_call_src_elems(w->c);
    weft_status status = n ? generate(w, w->c->rank, 0, n, w->values) : WEFT_SUCCESS;

    return status < 0 || !n ? status : narrow(w, w->values, n, (void *)(uintptr_t)w->c->src);
}

/* Ranks of all_reduce and broadcast have the same bits: 1; 0: they have not. */
static weft_status same_bits(const struct work *w, int *same)
{
    size_t bytes = bench_call_dst_elems(w->c) * weft_dtype_bytes(w->c->dtype);
    const unsigned char *at = w->c->dst;
    uint64_t hash = 0xcbf29ce484222325u;
    double range[2];
    weft_status status;

    *same = 1;
    if (w->c->coll != BENCH_ALL_REDUCE && (w->c->coll != BENCH_BROADCAST))
        return WEFT_SUCCESS;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ at[i]) * 0x100000001b3u;
    range[0] = (double)(hash >> 12);
    range[1] = -range[0];
    status = bench_share(w->b, range, 2, WEFT_MAX);
    *same = range[0] == -range[1];
    return status;
}

/* Over all ranks. An exact result differs from the sum in double by the rounding of the type. */
static weft_status judge(struct work *w, const weft_collective_info *info, struct bench_timing *t)
{
    double epsilon = w->c->dtype == WEFT_BFLOAT16 ? 0x1p-8 : w->c->dtype == WEFT_FLOAT16 ? 0x1p-11 : FLT_EPSILON;
    double all[7] = {
        w->sums.lost, w->sums.expected,     w->sums.norm, (double)info->bytes_sent, (double)bench_call_dst_elems(w->c),
        w->sums.kept, w->sums.expected_kept};
    int same;
    weft_status status = same_bits(w, &same);

    if (status >= 0)
        status = bench_share(w->b, all, 7, WEFT_SUM);
    if (status < 0)
        return status;
    t->coded = 1;
    t->nmse = all[2] > 0 ? all[0] / all[2] : 0;
    t->nmse_allowed = all[2] > 0 ? bench_rule_codec_nmse(all[1] / all[2]) + w->c->nranks * epsilon * epsilon : 0;
    t->sent = all[3] / w->c->nranks;
    t->bypassed = info->bypassed;
    t->checked = w->c->count >= JUDGED && !w->clips;
    if (t->checked &&
        (!same || !(t->nmse <= t->nmse_allowed) || !bench_rule_codec_keeps(all[5] / all[2], all[6] / all[2])))
        t->wrong += (uint64_t)all[4];
    return WEFT_SUCCESS;
}

static weft_status call_once(struct work *w, weft_collective_info *info)
{
    uint64_t tensor = TENSOR + w->c->count;
    weft_status status, cleared;

    w->b->tensor = tensor;
    status = bench_weft_run(w->b, w->c);
    w->b->tensor = 0;
    if (status >= 0 && w->c->nranks > 1)
        status = weft_comm_newest_collective(w->b->comm, info);
    cleared = weft_comm_residual_clear(w->b->comm, tensor);
    return status < 0 || cleared == WEFT_ENOTFOUND ? status : cleared;
}

weft_status bench_codec_check(struct bench *b, const struct bench_call *c, struct bench_timing *t)
{
    struct work w = {.b = b, .c = c, .seed = ++b->seed};
    weft_collective_info info = WEFT_COLLECTIVE_INFO_INIT;
    struct part p;
    weft_status status = begin(&w);

    bench_data_poison(c, c->dst, bench_call_dst_elems(c) * weft_dtype_bytes(c->dtype));
    if (status >= 0)
        status = fill(&w);
    if (status >= 0)
        status = call_once(&w, &info);
    for (int i = 0; status >= 0 && next_part(c, i, &p); i++)
        if (p.elems)
            status = compare(&w, &p);
    if (status >= 0)
        status = judge(&w, &info, t);
    end(&w);
    return status;
}
