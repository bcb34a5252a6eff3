/* SPDX-License-Identifier: BSD-3-Clause */
/* The rates at which a core reduces and copies, by data type and operator, in a cache and in memory.
 *
 * Sources, best first: the rate lines of the tuning table, its parameters, the topology (for ranks that are no cores), what the
 * ranks measured and exchanged, constants. All of it is agreed on before a planner is made, so that all ranks have the same rates.
 * An operator that was not measured is scaled from the sum of its type, and a type from the sum of floats, by the ratio of their
 * constants. */
#include <math.h>
#include <string.h>

#include "plan/internal.h"
#include "sched/sched.h"

/* Vectors up to the first size are reduced in caches, from the second on in memory. */
#define CACHED_BYTES (512u << 10)
#define OCTAVES 4

/* Kernels that are slower than memory, in bytes per microsecond; the others are bound by memory. Measured with AVX-512 and
 * AVX2 on an EPYC of 2022; the products of complex numbers and a user's loop are the same code for every instruction set. */
static const struct {
    uint8_t dtype, op; /* op: WI_RATE_OPS: all */
    float rate;
} slow[] = {
    {WEFT_FLOAT8E4M3, WI_RATE_OPS, 1900}, {WEFT_FLOAT8E5M2, WI_RATE_OPS, 2800}, {WEFT_COMPLEX64, WEFT_PROD, 1600},
    {WEFT_COMPLEX128, WEFT_PROD, 3300},   {WEFT_COMPLEX64, WEFT_LXOR, 5800},    {WEFT_COMPLEX64, WEFT_LAND, 7200},
};
#define USER_ELEMS 600.0f /* of a user's function, elements per microsecond at the least */
#define USUAL 8000.0f     /* to what `slow` compares: the rate without measurements */

uint8_t wi_plan_work(unsigned dtype, unsigned op)
{
    unsigned at = dtype * WI_RATE_OPS + op, base = WEFT_FLOAT32 * WI_RATE_OPS + WEFT_SUM;

    return (uint8_t)(at == base ? 0 : at < base ? at + 1 : at);
}

void wi_plan_work_of(uint8_t work, unsigned *dtype, unsigned *op)
{
    unsigned base = WEFT_FLOAT32 * WI_RATE_OPS + WEFT_SUM, at = work == 0 ? base : work <= base ? work - 1u : work;

    *dtype = at / WI_RATE_OPS;
    *op = at % WI_RATE_OPS;
}

const char *wi_plan_origin_name(enum wi_plan_origin origin)
{
    static const char *const names[] = {"constant", "topology", "measured by the ranks", "tuning table"};

    return (unsigned)origin < sizeof names / sizeof *names ? names[origin] : "?";
}

/* ---- From the sources ---- */

/* Absolute; INFINITY: bound by memory. */
static float limit_of(unsigned dtype, unsigned op)
{
    float limit = op == WI_RATE_USER ? USER_ELEMS * (float)weft_dtype_bytes((weft_dtype)dtype) : INFINITY;

    for (size_t i = 0; i < sizeof slow / sizeof *slow; i++)
        if (slow[i].dtype == dtype && (slow[i].op == op || slow[i].op == WI_RATE_OPS))
            limit = fminf(limit, slow[i].rate);
    return limit;
}

static float relative(unsigned dtype, unsigned op)
{
    return fminf(1, limit_of(dtype, op) / USUAL);
}

static struct wi_plan_rate *rate_of(struct wi_plan_core_rates *g, unsigned dtype, unsigned op)
{
    return &g->reduce[wi_plan_work(dtype, op)];
}

/* All from the sum of floats. */
static void spread(struct wi_plan_core_rates *g, float cache, float memory, enum wi_plan_origin origin)
{
    for (unsigned t = 0; t < WEFT_NUM_DTYPES; t++)
        for (unsigned op = 0; op < WI_RATE_OPS; op++) {
            float part = relative(t, op), limit = limit_of(t, op);
            *rate_of(g, t, op) = (struct wi_plan_rate){
                .rate = {cache * part, memory * part},
                .fused = origin == WI_ORIGIN_CONSTANT ? limit : cache * part,
                .origin = (uint8_t)origin,
            };
        }
}

/* `cache` is measured; `memory` is measured, or 0: then the former rate stays, or the kernel's if that is lower. */
static void take(struct wi_plan_rate *to, float cache, float memory, enum wi_plan_origin origin)
{
    to->rate[WI_RATE_MEMORY] = memory > 0 ? memory : fminf(cache, to->rate[WI_RATE_MEMORY]);
    to->rate[WI_RATE_CACHE] = to->fused = cache;
    to->origin = (uint8_t)origin;
}

static void take_type(struct wi_plan_core_rates *g, unsigned t, const float sum[WI_RATE_PLACES],
                      enum wi_plan_origin origin)
{
    for (unsigned op = 0; op < WI_RATE_USER; op++) {
        float part = relative(t, op) / relative(t, WEFT_SUM);
        take(rate_of(g, t, op), sum[WI_RATE_CACHE] * part, sum[WI_RATE_MEMORY] * part, origin);
    }
}

static void take_rates(struct wi_plan_core_rates *g, const struct wi_rates *r, enum wi_plan_origin origin)
{
    const float *user = r->reduce[WEFT_FLOAT32][WI_RATE_USER], *base = r->reduce[WEFT_FLOAT32][WEFT_SUM];

    if (r->copy[WI_RATE_CACHE] > 0)
        take(&g->copy, r->copy[WI_RATE_CACHE], r->copy[WI_RATE_MEMORY], origin);
    if (base[WI_RATE_CACHE] > 0 && origin == WI_ORIGIN_TABLE)
        spread(g, base[WI_RATE_CACHE], base[WI_RATE_MEMORY], origin);
    for (unsigned t = 0; t < WEFT_NUM_DTYPES; t++) {
        float elems = (float)weft_dtype_bytes((weft_dtype)t) / 4;
        if (r->reduce[t][WEFT_SUM][WI_RATE_CACHE] > 0)
            take_type(g, t, r->reduce[t][WEFT_SUM], origin);
        if (user[WI_RATE_CACHE] > 0)
            take(rate_of(g, t, WI_RATE_USER), user[WI_RATE_CACHE] * elems, user[WI_RATE_MEMORY] * elems, origin);
    }
    for (unsigned t = 0; t < WEFT_NUM_DTYPES; t++)
        for (unsigned op = 0; op < WI_RATE_OPS; op++)
            if (r->reduce[t][op][WI_RATE_CACHE] > 0)
                take(rate_of(g, t, op), r->reduce[t][op][WI_RATE_CACHE], r->reduce[t][op][WI_RATE_MEMORY], origin);
}

static int similar(const struct wi_plan_rate *a, const struct wi_plan_rate *b)
{
    for (int i = 0; i < WI_RATE_PLACES; i++)
        if (fabsf(a->rate[i] - b->rate[i]) > 0.1f * b->rate[i])
            return 0;
    return 1;
}

/* Work with similar rates shares its prices (cost_forms.c): those of the first such work, whichever is asked for first. */
static void classify(struct wi_plan_core_rates *g)
{
    g->nclasses = 0;
    for (int w = 0; w < WI_PLAN_WORKS; w++) {
        int c = 0;
        while (c < g->nclasses && !similar(&g->reduce[w], &g->reduce[g->first[c]]))
            c++;
        if (c == g->nclasses)
            g->first[g->nclasses++] = (uint8_t)w;
        g->reduce[w].price_class = (uint8_t)c;
    }
}

void wi_plan_find_rates(struct wi_planner *p, const struct wi_rates *measured)
{
    float copy = (float)p->params.copy_rate, reduce = (float)p->params.reduce_rate;
    struct wi_plan_core_rates *g = &p->core_rates;
    struct wi_plan_link_params usual;
    enum wi_plan_origin origin;

    wi_plan_default_link_params(&p->facts, &usual);
    origin = p->params.reduce_rate == usual.reduce_rate && p->params.copy_rate == usual.copy_rate ? WI_ORIGIN_CONSTANT
                                                                                                  : WI_ORIGIN_MODEL;
    g->copy = (struct wi_plan_rate){.rate = {copy, copy}, .fused = copy, .origin = (uint8_t)origin};
    spread(g, reduce, reduce, origin);
    if (measured && origin == WI_ORIGIN_CONSTANT)
        take_rates(g, measured, WI_ORIGIN_MEASURED);
    classify(g);
}

void wi_plan_table_rates(struct wi_planner *p, const struct wi_table_section *section)
{
    const double *copy = wi_plan_section_param(section, "copy_rate");
    const double *reduce = wi_plan_section_param(section, "reduce_rate");
    struct wi_plan_core_rates *g = &p->core_rates;

    if (copy)
        take(&g->copy, (float)*copy, (float)*copy, WI_ORIGIN_TABLE);
    if (reduce)
        spread(g, (float)*reduce, (float)*reduce, WI_ORIGIN_TABLE);
    take_rates(g, &section->rates, WI_ORIGIN_TABLE);
    classify(g);
}

/* ---- For a query ---- */

/* 0 in caches, 1 in memory; in between linear within each octave. Not by a logarithm, whose last bits may differ between
 * machines. */
static double outside(double bytes)
{
    double low = CACHED_BYTES, octave = 0;

    while (octave < OCTAVES && bytes >= 2 * low) {
        low *= 2;
        octave++;
    }
    if (octave >= OCTAVES || bytes <= low)
        return octave / OCTAVES;
    return (octave + (bytes / low - 1)) / OCTAVES;
}

static double rate_at(const struct wi_plan_rate *g, double bytes)
{
    double cache = (double)g->rate[WI_RATE_CACHE], memory = (double)g->rate[WI_RATE_MEMORY], out = outside(bytes);

    return cache == memory ? cache : 1 / ((1 - out) / cache + out / memory);
}

static double vector_bytes(const struct wi_planner *p, const struct wi_plan_query *q)
{
    return (double)q->bytes * (wi_coll_is_vector(q->coll) ? 1 : p->facts.nranks);
}

double wi_plan_reduce_rate(const struct wi_planner *p, const struct wi_plan_query *q)
{
    return rate_at(&p->core_rates.reduce[q->work], vector_bytes(p, q));
}

double wi_plan_copy_rate(const struct wi_planner *p, const struct wi_plan_query *q)
{
    return rate_at(&p->core_rates.copy, vector_bytes(p, q));
}

double wi_plan_fused(const struct wi_planner *p, const struct wi_plan_query *q)
{
    return fmin(p->params.mapped_rate, (double)p->core_rates.reduce[q->work].fused);
}

const struct wi_plan_rate *wi_planner_rate(const struct wi_planner *p, int work)
{
    return work < 0 ? &p->core_rates.copy : &p->core_rates.reduce[work];
}
