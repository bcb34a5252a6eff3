/* SPDX-License-Identifier: BSD-3-Clause */
#include "call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"
#include "varied.h"

#define GUARD 64       /* bytes before and behind the data of a rank */
#define CUT_LINES 4096 /* vectors whose blocks are as long are cut at cache lines (sched.h) */

static char text[512];

int form_is_v(const struct form *f)
{
    return wi_algo_family(f->coll) != f->coll;
}

int form_is_mapped(const struct form *f)
{
    return f->sched[0]->mapped;
}

int form_is_staged(const struct form *f)
{
    return f->sched[0]->staged;
}

/* May calls of it accumulate, on all ranks? */
int form_may_add(const struct form *f)
{
    int may = wi_algo_family(f->coll) == WI_COLL_REDUCE_SCATTER && !f->in_place;

    for (int r = 0; r < f->nranks && may; r++)
        may = wi_sched_completes_once(f->sched[r]);
    return may;
}

void form_text(const struct form *f, char *out, size_t capacity)
{
    snprintf(out, capacity, "%s/%s P=%d root %d%s%s", wi_coll_name(f->coll), f->name, f->nranks, f->root,
             f->in_place ? " in place" : "", f->packed ? " packed" : "");
}

void form_put(struct form *f)
{
    for (int r = 0; r < f->nranks; r++) {
        wi_sched_put(f->sched[r]);
        wi_sched_put(f->beside[r]);
        f->sched[r] = f->beside[r] = NULL;
    }
}

static int is_vector(enum wi_coll coll)
{
    return coll == WI_COLL_ALL_REDUCE || coll == WI_COLL_REDUCE || coll == WI_COLL_BROADCAST || coll == WI_COLL_SCAN ||
           coll == WI_COLL_EXSCAN;
}

/* ---- How much ---- */

static size_t block_elems(enum size size, size_t es, uint32_t cut, uint64_t *rng)
{
    size_t n = 0;

    switch (size) {
    case SIZE_ELEMENTS:
        return 1 + fake_random(rng, 3);
    case SIZE_LINE:
        n = 1 + fake_random(rng, 100);
        break;
    case SIZE_LINES:
        n = 100 + fake_random(rng, 600);
        break;
    case SIZE_EVEN:
        n = 64 + 64 * fake_random(rng, 6);
        break;
    case SIZE_PAGE:
        n = 4000 + fake_random(rng, 2200);
        break;
    case SIZE_HUGE:
        n = (2300u << 10) / cut + fake_random(rng, 100);
        break;
    default:
        n = (16u << 10) + 64 * fake_random(rng, 40) + fake_random(rng, 2) * 16;
        break;
    }
    return n < es ? 1 : n / es;
}

static const struct {
    weft_dtype dtype;
    size_t bytes;
} types[] = {{WEFT_UINT8, 1},   {WEFT_INT16, 2}, {WEFT_INT32, 4},      {WEFT_FLOAT32, 4},
             {WEFT_FLOAT64, 8}, {WEFT_INT64, 8}, {WEFT_COMPLEX128, 16}};
#define NTYPES (sizeof types / sizeof *types)

/* A packed message holds what is shorter than 16 KiB: some parts around that. */
static size_t part(const struct call *c, uint64_t *rng)
{
    static const size_t around[] = {WI_PACK_BELOW - 16, WI_PACK_BELOW, WI_PACK_BELOW + 16, WI_PACK_BELOW + 5 * 16};

    if (fake_random(rng, 4) == 0)
        return 0;
    if (c->form->packed && c->form->nranks < 9 && fake_random(rng, 6) == 0)
        return around[fake_random(rng, 4)] / c->elem_bytes;
    return fake_random(rng, (uint32_t)c->count + 1);
}

static void draw_displs(struct call_rank *k, int way, int n, uint64_t *rng)
{
    int order[MAX_RANKS];
    size_t at = fake_random(rng, 3);

    for (int i = 0; i < n; i++) {
        int j = (int)fake_random(rng, (uint32_t)i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    for (int i = 0; i < n; i++) {
        k->displs[way][order[i]] = at;
        at += k->counts[way][order[i]] + fake_random(rng, 4);
    }
}

static void draw_v_counts(struct call *c, uint64_t *rng)
{
    int n = c->form->nranks, root = c->form->root;
    size_t counts[MAX_RANKS];

    for (int r = 0; r < n; r++)
        counts[r] = part(c, rng);
    for (int r = 0; r < n; r++) {
        struct call_rank *k = &c->rank[r];
        for (int i = 0; i < n; i++) {
            if (c->form->coll == WI_COLL_ALL_TO_ALL_V)
                k->counts[0][i] = c->rank[i].counts[1][r] = part(c, rng);
            else if (c->form->coll == WI_COLL_REDUCE_SCATTER_V || (c->form->coll == WI_COLL_SCATTER_V && r == root))
                k->counts[0][i] = counts[i];
            else if (c->form->coll == WI_COLL_ALL_GATHER_V || (c->form->coll == WI_COLL_GATHER_V && r == root))
                k->counts[1][i] = counts[i];
        }
        k->args.count = c->form->coll == WI_COLL_GATHER_V ? counts[r] : 0;
        k->args.recv_count = c->form->coll == WI_COLL_SCATTER_V ? counts[r] : 0;
    }
}

static void point_to(struct call_rank *k, int apart)
{
    enum wi_coll coll = k->call->form->coll;
    int root = k->rank == k->call->form->root;

    if (coll == WI_COLL_ALL_TO_ALL_V || coll == WI_COLL_REDUCE_SCATTER_V || (coll == WI_COLL_SCATTER_V && root))
        k->args.send_counts = k->counts[0];
    if (coll == WI_COLL_ALL_TO_ALL_V || coll == WI_COLL_ALL_GATHER_V || (coll == WI_COLL_GATHER_V && root))
        k->args.recv_counts = k->counts[1];
    if (apart && k->args.send_counts && coll != WI_COLL_REDUCE_SCATTER_V)
        k->args.send_displs = k->displs[0];
    if (apart && k->args.recv_counts)
        k->args.recv_displs = k->displs[1];
}

static void draw_codec(struct call *c, uint64_t *rng)
{
    static const char *const names[] = {"int8", "int6",  "int4",   "int2",   "sign", "e4m3",
                                        "qsgd", "mxfp4", "varied", "varied", "topk", "blocktopk"};
    uint32_t which = fake_random(rng, sizeof names / sizeof *names), block = 32u << fake_random(rng, 3);
    char spec[64];

    if (names[which][0] == 'm')
        snprintf(spec, sizeof spec, "%s", names[which]);
    else if (strstr(names[which], "topk"))
        snprintf(spec, sizeof spec, "%s:ratio=0.2,block=%u", names[which], 8 * block);
    else
        snprintf(spec, sizeof spec, "%s:block=%u", names[which], block);
    if (varied_register() < 0 || wi_codec_parse(spec, &c->codec) < 0)
        abort();
    c->feedback = wi_coll_is_reduction(c->form->coll) && fake_random(rng, 2);
    c->count = c->count * c->elem_bytes / sizeof(float) + 1;
    c->dtype = WEFT_FLOAT32;
    c->elem_bytes = sizeof(float);
    c->op = c->op == PLAIN_MIX ? PLAIN_SUM : c->op;
}

/* Calls that accumulate: of real floating types, sums and averages. */
static void draw_adds(struct call *c, uint64_t *rng)
{
    c->adds = 1;
    c->count = c->count * c->elem_bytes / sizeof(double) + 1;
    if (c->form->sched[0]->nblocks > 1)
        c->count *= c->form->sched[0]->nblocks;
    c->dtype = fake_random(rng, 2) ? WEFT_FLOAT32 : WEFT_FLOAT64;
    c->elem_bytes = c->dtype == WEFT_FLOAT32 ? sizeof(float) : sizeof(double);
    c->op = c->op == PLAIN_MIX ? PLAIN_SUM : c->op;
}

static void draw_counts(struct call *c, enum size size, const struct call *like, uint64_t *rng)
{
    const struct form *f = c->form;
    uint32_t cut = f->sched[0]->nblocks, type = fake_random(rng, NTYPES);
    size_t block, apart = fake_random(rng, 3);

    c->dtype = types[type].dtype;
    c->elem_bytes = types[type].bytes;
    c->op = fake_random(rng, 3) == 0 ? PLAIN_MIX : fake_random(rng, 3) ? PLAIN_SUM : PLAIN_AVG;
    if (c->op == PLAIN_AVG && (f->coll == WI_COLL_SCAN || f->coll == WI_COLL_EXSCAN))
        c->op = PLAIN_SUM;
    block = block_elems(size, c->elem_bytes, cut, rng);
    c->count = block * cut;
    if (is_vector(f->coll)) /* the last block is short, or the last ones are empty */
        c->count -= fake_random(rng, 2) * fake_random(rng, (uint32_t)(size == SIZE_ELEMENTS ? c->count : block));
    if (like && fake_random(rng, 2)) {
        c->dtype = like->dtype;
        c->elem_bytes = like->elem_bytes;
        c->count = like->count;
    }
    if (f->needs & WI_ALGO_CODED)
        draw_codec(c, rng);
    if (form_may_add(f) && fake_random(rng, 2))
        draw_adds(c, rng);
    if (form_is_v(f))
        draw_v_counts(c, rng);
    for (int r = 0; r < f->nranks; r++) {
        struct call_rank *k = &c->rank[r];
        k->args.coll = (uint8_t)f->coll;
        k->args.dtype = c->dtype;
        k->args.op = c->op == PLAIN_AVG ? WEFT_AVG : WEFT_SUM;
        k->args.root = f->root;
        if (!form_is_v(f)) {
            k->args.count = f->coll == WI_COLL_BARRIER ? 0 : c->count;
            continue;
        }
        draw_displs(k, 0, f->nranks, rng);
        draw_displs(k, 1, f->nranks, rng);
        point_to(k, apart != 0);
    }
}

/* ---- Where blocks are ---- */

static void place_vector(const struct call *c, struct plain_place *place, uint32_t n)
{
    size_t total = c->count * c->elem_bytes, block = (c->count + n - 1) / n * c->elem_bytes;

    if (n > 1 && c->codec.block)
        block = (block / sizeof(float) + c->codec.block - 1) / c->codec.block * c->codec.block * sizeof(float);
    else if (n > 1 && block >= CUT_LINES)
        block = (block + 63) / 64 * 64;
    for (uint32_t i = 0; i < n; i++) {
        size_t from = i * block < total ? i * block : total, to = from + block < total ? from + block : total;
        place[i] = (struct plain_place){from, to - from};
    }
}

static void place_listed(const struct call *c, struct plain_place *place, uint32_t n, const size_t *counts,
                         const size_t *displs)
{
    size_t at = 0;

    for (uint32_t i = 0; i < n; i++) {
        place[i] = (struct plain_place){(displs ? displs[i] : at) * c->elem_bytes, counts[i] * c->elem_bytes};
        at += counts[i];
    }
}

static void place_v(const struct call_rank *k, int buf, struct plain_place *place, uint32_t n)
{
    const struct wi_call *a = &k->args;
    size_t own = a->coll == WI_COLL_ALL_GATHER_V       ? k->counts[1][k->rank]
                 : a->coll == WI_COLL_REDUCE_SCATTER_V ? k->counts[0][k->rank]
                 : a->coll == WI_COLL_GATHER_V         ? a->count
                                                       : a->recv_count;

    if (buf == WI_SRC ? a->send_counts != NULL : a->recv_counts != NULL)
        place_listed(k->call, place, n, k->counts[buf], buf == WI_SRC ? a->send_displs : a->recv_displs);
    else if (n)
        place[0] = (struct plain_place){0, own * k->call->elem_bytes};
}

static int place_all(struct call_rank *k)
{
    const struct call *c = k->call;
    const struct wi_sched *s = c->form->sched[k->rank];

    for (int buf = WI_SRC; buf <= WI_DST; buf++) {
        uint32_t n = s->buf_blocks[buf];
        k->place[buf] = calloc(n + 1, sizeof *k->place[buf]);
        if (!k->place[buf])
            return 0;
        if (form_is_v(c->form)) {
            place_v(k, buf, k->place[buf], n);
        } else if (is_vector(c->form->coll) && n) {
            place_vector(c, k->place[buf], s->nblocks);
        } else if (c->form->coll != WI_COLL_BARRIER) {
            size_t share = c->count * c->elem_bytes / s->nblocks;
            for (uint32_t i = 0; i < n; i++)
                k->place[buf][i] = (struct plain_place){i * share, share};
        }
    }
    return 1;
}

/* ---- Memory ---- */

static size_t span(const struct call_rank *k, int buf)
{
    uint32_t n = k->call->form->sched[k->rank]->buf_blocks[buf];
    size_t end = 0;

    for (uint32_t i = 0; i < n; i++)
        end = k->place[buf][i].at + k->place[buf][i].bytes > end ? k->place[buf][i].at + k->place[buf][i].bytes : end;
    return end;
}

/* Integers of all values; floating numbers whose sums, and averages of up to nine and of sixteen, are exact. */
static void fill(struct memory *m, weft_dtype dtype, uint64_t *rng)
{
    for (size_t i = 0; i < m->bytes; i += 8) {
        uint64_t v = (uint64_t)fake_random(rng, UINT32_MAX) << 32 | fake_random(rng, UINT32_MAX);
        double d = ((double)(v % 199) - 99) * 5040;
        float two[2] = {(float)d, (float)(((double)(v >> 32 & 127) - 63) * 5040)};
        const void *from = dtype == WEFT_FLOAT32                               ? (void *)two
                           : dtype == WEFT_FLOAT64 || dtype == WEFT_COMPLEX128 ? (void *)&d
                                                                               : (void *)&v;
        memcpy(m->real + i, from, 8);
    }
}

static int create_memory(struct call_rank *k, int which, size_t bytes, size_t *at, uint64_t *rng)
{
    struct memory *m = &k->memory[which];

    *at = GUARD + fake_random(rng, 5) * k->call->elem_bytes;
    m->bytes = (*at + bytes + GUARD + 15) / 16 * 16;
    m->real = malloc(m->bytes);
    m->plain = malloc(m->bytes);
    if (!m->real || !m->plain)
        return 0;
    fill(m, k->call->dtype, rng);
    memcpy(m->plain, m->real, m->bytes);
    return 1;
}

/* In place: which buffer holds the other one, and where. -1: it is not. */
static int holder(const struct call_rank *k, size_t *at)
{
    const struct form *f = k->call->form;
    int root = k->rank == f->root;

    *at = 0;
    if (!f->in_place)
        return -1;
    switch (wi_algo_family(f->coll)) {
    case WI_COLL_ALL_REDUCE:
    case WI_COLL_SCAN:
    case WI_COLL_EXSCAN:
        return WI_DST;
    case WI_COLL_REDUCE:
    case WI_COLL_BROADCAST:
        return root ? WI_DST : -1;
    case WI_COLL_ALL_GATHER:
    case WI_COLL_GATHER:
        if (f->coll != WI_COLL_ALL_GATHER && f->coll != WI_COLL_ALL_GATHER_V && !root)
            return -1;
        *at = k->place[WI_DST][(uint32_t)k->rank * f->sched[k->rank]->nblocks].at;
        return WI_DST;
    case WI_COLL_REDUCE_SCATTER:
    case WI_COLL_SCATTER:
        if (f->coll != WI_COLL_REDUCE_SCATTER && f->coll != WI_COLL_REDUCE_SCATTER_V && !root)
            return -1;
        *at = k->place[WI_SRC][(uint32_t)k->rank * f->sched[k->rank]->nblocks].at;
        return WI_SRC;
    default:
        return -1;
    }
}

static int create_memories(struct call_rank *k, uint64_t *rng)
{
    size_t inside;
    int held = holder(k, &inside);

    for (int buf = WI_SRC; buf <= WI_DST; buf++) {
        k->in[buf] = buf;
        if ((held < 0 || held == buf) && !create_memory(k, buf, span(k, buf), &k->at[buf], rng))
            return 0;
    }
    if (held >= 0) {
        k->in[!held] = held;
        k->at[!held] = k->at[held] + inside;
    }
    k->args.src = call_base(k, WI_SRC, 0);
    k->args.dst = call_base(k, WI_DST, 0);
    return 1;
}

/* As long as the longer of both buffers; some of it is there from calls before. */
static int create_residuals(struct call_rank *k, uint64_t *rng)
{
    size_t src = span(k, WI_SRC), dst = span(k, WI_DST), n = (src > dst ? src : dst) / sizeof(float);

    for (int i = 0; i < 2 && k->call->feedback; i++) {
        float *real = calloc(n + 1, sizeof *real), *plain = calloc(n + 1, sizeof *plain);
        k->residual[i][0] = real;
        k->residual[i][1] = plain;
        if (!real || !plain)
            return 0;
        for (size_t e = 0; e < n; e++)
            real[e] = plain[e] = (float)fake_random(rng, 9000) - 4500;
    }
    return 1;
}

struct call *call_create(const struct form *form, int number, enum size size, const struct call *like, uint64_t *rng)
{
    struct call *c = calloc(1, sizeof *c);

    if (!c)
        return NULL;
    c->form = form;
    c->number = number;
    for (int r = 0; r < form->nranks; r++) {
        c->rank[r].call = c;
        c->rank[r].rank = r;
    }
    draw_counts(c, size, like, rng);
    for (int r = 0; r < form->nranks; r++) {
        if (place_all(&c->rank[r]) && create_memories(&c->rank[r], rng) && create_residuals(&c->rank[r], rng))
            continue;
        call_destroy(c);
        return NULL;
    }
    return c;
}

void call_destroy(struct call *c)
{
    for (int r = 0; c && r < c->form->nranks; r++) {
        for (int i = 0; i < 2; i++) {
            free(c->rank[r].memory[i].real);
            free(c->rank[r].memory[i].plain);
            free(c->rank[r].place[i]);
            free(c->rank[r].residual[i][0]);
            free(c->rank[r].residual[i][1]);
        }
    }
    free(c);
}

/* ---- What it ought to be ---- */

const char *call_interpret(struct call *c)
{
    struct plain_rank ranks[MAX_RANKS];

    for (int r = 0; r < c->form->nranks; r++) {
        struct call_rank *k = &c->rank[r];
        ranks[r] = (struct plain_rank){c->form->sched[r],
                                       {call_base(k, WI_SRC, 1), call_base(k, WI_DST, 1)},
                                       {k->place[WI_SRC], k->place[WI_DST]},
                                       {k->residual[0][1], k->residual[1][1]}};
    }
    return plain_run(ranks, c->form->nranks, c->op, c->dtype, c->adds, c->codec.block ? &c->codec : NULL,
                     c->rank[0].op[0].info.seq);
}

static const char *compare_residuals(const struct call_rank *k)
{
    size_t src = span(k, WI_SRC), dst = span(k, WI_DST), n = (src > dst ? src : dst) / sizeof(float);

    for (int i = 0; i < 2 && k->call->feedback; i++)
        for (size_t e = 0; e < n; e++)
            if (memcmp(&k->residual[i][0][e], &k->residual[i][1][e], sizeof(float)) != 0) {
                snprintf(text, sizeof text,
                         "call %d, %zu of %s, op %d: rank %d, element %zu of residual %d: %g, not %g", k->call->number,
                         k->call->count, weft_dtype_name(k->call->dtype), (int)k->call->op, k->rank, e, i,
                         (double)k->residual[i][0][e], (double)k->residual[i][1][e]);
                return text;
            }
    return NULL;
}

const char *call_compare(const struct call *c)
{
    static const char *const names[] = {"src", "dst"};

    for (int r = 0; r < c->form->nranks; r++) {
        const struct call_rank *k = &c->rank[r];
        const char *residual = compare_residuals(k);
        if (residual)
            return residual;
        for (int i = 0; i < 2; i++) {
            const struct memory *m = &k->memory[i];
            size_t at = 0;
            if (!m->real || memcmp(m->real, m->plain, m->bytes) == 0)
                continue;
            while (m->real[at] == m->plain[at])
                at++;
            snprintf(text, sizeof text, "call %d, %zu of %s, op %d: rank %d, byte %lld of %s, of %zu: %02x, not %02x",
                     c->number, c->count, weft_dtype_name(c->dtype), (int)c->op, r, (long long)at - (long long)k->at[i],
                     names[i], span(k, i), m->real[at], m->plain[at]);
            return text;
        }
    }
    return NULL;
}

/* ---- The same from the definitions of the collectives ---- */

/* Where rank r's share lies in a buffer; of vectors: all of it. */
static struct plain_place whole(const struct call_rank *k, int buf, int r)
{
    const struct wi_sched *s = k->call->form->sched[k->rank];
    const struct plain_place *place = k->place[buf];
    uint32_t first = 0, n = s->buf_blocks[buf];
    struct plain_place p;

    if (!is_vector(k->call->form->coll)) {
        n = n < s->nblocks ? n : s->nblocks;
        first = s->buf_blocks[buf] > s->nblocks ? (uint32_t)r * s->nblocks : 0;
    }
    p = (struct plain_place){n ? place[first].at : 0, 0};
    for (uint32_t i = 0; i < n; i++)
        p.bytes += place[first + i].bytes;
    return p;
}

static void combine_ranks(const struct call *c, int from, int to, int share, unsigned char *out)
{
    for (int r = from; r < to; r++) {
        const struct call_rank *k = &c->rank[r];
        struct plain_place p = whole(k, WI_SRC, share);
        const unsigned char *src = call_base(k, WI_SRC, 0) + p.at;
        if (r == from)
            memcpy(out, src, p.bytes);
        else
            plain_combine(c->op, c->dtype, out, src, out, p.bytes);
        if (c->op == PLAIN_AVG && to - from == c->form->nranks && r + 1 == to)
            plain_divide(c->dtype, out, p.bytes, c->form->nranks);
    }
}

/* What the share of rank s in the result of rank r is made of: that of which ranks [from, to), and which share of theirs. 0: it
 * is not defined. */
static int made_of(const struct form *f, int r, int s, int *from, int *to, int *share)
{
    enum wi_coll coll = wi_algo_family(f->coll);

    *from = s;
    *to = s + 1;
    *share = r;
    switch (coll) {
    case WI_COLL_ALL_REDUCE:
    case WI_COLL_REDUCE_SCATTER:
    case WI_COLL_REDUCE:
        *from = 0;
        *to = f->nranks;
        return s == 0 && (coll != WI_COLL_REDUCE || r == f->root);
    case WI_COLL_SCAN:
    case WI_COLL_EXSCAN:
        *from = 0;
        *to = r + (coll == WI_COLL_SCAN);
        return s == 0 && *to > 0;
    case WI_COLL_BROADCAST:
    case WI_COLL_SCATTER:
        *from = f->root;
        *to = f->root + 1;
        return s == 0;
    case WI_COLL_GATHER:
        return r == f->root;
    default:
        return coll != WI_COLL_BARRIER;
    }
}

const char *call_defined(const struct call *c)
{
    const struct form *f = c->form;
    int from, to, share;

    if (c->codec.block) /* what is lost depends on the algorithm: tests/multi/test_compress.c */
        return NULL;
    for (int r = 0; r < f->nranks; r++) {
        for (int s = 0; s < f->nranks; s++) {
            struct plain_place p = whole(&c->rank[r], WI_DST, s);
            unsigned char *out;
            int differs;
            if (!made_of(f, r, s, &from, &to, &share))
                continue;
            out = calloc(p.bytes + 1, 1);
            if (!out)
                return "no memory";
            combine_ranks(c, from, to, share, out);
            if (c->adds)
                plain_combine(PLAIN_SUM, c->dtype, out, call_base(&c->rank[r], WI_DST, 0) + p.at, out, p.bytes);
            differs = memcmp(out, call_base(&c->rank[r], WI_DST, 1) + p.at, p.bytes);
            free(out);
            if (!differs)
                continue;
            snprintf(text, sizeof text, "%zu of %s, op %d: rank %d has a wrong share of rank %d", c->count,
                     weft_dtype_name(c->dtype), (int)c->op, r, s);
            return text;
        }
    }
    return NULL;
}
