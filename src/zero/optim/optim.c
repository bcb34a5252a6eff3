/* SPDX-License-Identifier: BSD-3-Clause */
/* The loops of optimizers, sums and conversions, shared out to the pool. */
#include "zero/optim/optim.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/reduce.h"
#include "zero/optim/optim_isa.h"

/* Elements of a unit of work: long enough that claiming one costs nothing, short enough to share work out evenly. */
#define UNIT_ELEMS 32768u
/* Cuts are multiples of so many elements from a piece's start: no two threads write to one cache line of an
 * aligned piece, or to one block of codes. */
#define CUT_ELEMS 256u

const struct wi_optim_isa *wi_optim_isa_current(void)
{
#if defined(__x86_64__)
    const char *name = wi_isa_name();

    if (strcmp(name, "avx512") == 0)
        return &wi_optim_isa_avx512;
    if (strcmp(name, "avx2") == 0)
        return &wi_optim_isa_avx2;
#endif
    return &wi_optim_isa_scalar;
}

enum wi_optim_type wi_optim_type_of(weft_dtype dtype)
{
    return dtype == WEFT_BFLOAT16 ? WI_OPTIM_BF16 : dtype == WEFT_FLOAT16 ? WI_OPTIM_F16 : WI_OPTIM_F32;
}

static size_t bytes_of(enum wi_optim_type type)
{
    return type == WI_OPTIM_F32 ? 4 : 2;
}

static size_t units_of(size_t elems)
{
    return elems / UNIT_ELEMS + (elems % UNIT_ELEMS != 0);
}

struct parts_job {
    wi_optim_part_fn work;
    void *arg;
    const struct wi_optim_piece *pieces;
    size_t npieces, elems;
};

/* Where a thread is in the concatenation of all pieces. */
struct parts_cursor {
    size_t piece, start; /* start: of the piece */
    _Alignas(8) char own[WI_OPTIM_OWN_BYTES];
};
_Static_assert(sizeof(struct parts_cursor) <= WI_OPTIM_CURSOR_BYTES, "cursor");
_Static_assert(UNIT_ELEMS + CUT_ELEMS == WI_OPTIM_PART_ELEMS, "parts");

/* The cut of a piece that is next to `at`, an offset into it. */
static size_t cut(size_t at, size_t elems)
{
    at = (at + CUT_ELEMS - 1) / CUT_ELEMS * CUT_ELEMS;
    return at < elems ? at : elems;
}

static void parts_unit(void *arg, void *cursor, size_t unit)
{
    const struct parts_job *job = arg;
    struct parts_cursor *c = cursor;
    size_t from = unit * UNIT_ELEMS, to = job->elems - from < UNIT_ELEMS ? job->elems : from + UNIT_ELEMS;

    /* A thread that goes on in another's range may go back. */
    if (c->start > from)
        c->piece = c->start = 0;
    while (c->piece < job->npieces) {
        const struct wi_optim_piece *piece = &job->pieces[c->piece];
        size_t begin = from > c->start ? cut(from - c->start, piece->elems) : 0, end;

        if (c->start >= to)
            return;
        end = to - c->start < piece->elems ? cut(to - c->start, piece->elems) : piece->elems;
        if (begin < end)
            job->work(job->arg, c->own, piece, begin, end);
        if (to - c->start < piece->elems)
            return;
        c->start += piece->elems;
        c->piece++;
    }
}

void wi_optim_parts(struct wi_optim_pool *pool, const struct wi_optim_piece *pieces, size_t npieces,
                    wi_optim_part_fn work, void *arg)
{
    struct parts_job job = {work, arg, pieces, npieces, 0};

    for (size_t i = 0; i < npieces; i++)
        job.elems += pieces[i].elems;
    wi_optim_pool_run(pool, parts_unit, &job, units_of(job.elems));
}

static void update_part(void *arg, void *own, const struct wi_optim_piece *piece, size_t from, size_t to)
{
    const struct wi_optim_isa *isa = arg;
    enum wi_optim_type grad = wi_optim_type_of(piece->grad_dtype),
                       out = piece->out ? wi_optim_type_of(piece->out_dtype) : WI_OPTIM_F32;
    float *moment2 = piece->moment2;

    (void)own;
    if (piece->optim->form == WI_OPTIM_ADAGRAD && !moment2)
        moment2 = piece->moment1;
    isa->update[piece->optim->form][grad][out](
        piece->optim, to - from, piece->weight + from, piece->moment1 ? piece->moment1 + from : NULL,
        moment2 ? moment2 + from : NULL, (const char *)piece->grad + bytes_of(grad) * from,
        piece->out ? (char *)piece->out + bytes_of(out) * from : NULL);
}

void wi_optim_run(struct wi_optim_pool *pool, const struct wi_optim_piece *pieces, size_t npieces)
{
    wi_optim_parts(pool, pieces, npieces, update_part, (void *)(uintptr_t)wi_optim_isa_current());
}

/* ---- Sums of squares: each unit of each vector has its own, and a vector's are added in order. */

#define WAVE 256u /* units whose sums are kept at a time: 8 Mi elements of long vectors */

struct sum_job {
    const struct wi_optim_isa *isa;
    const struct wi_optim_vector *vectors;
    size_t vector, skip; /* the first unit of the wave is unit number `skip` of this vector */
    double sums[WAVE];
};

/* Where a thread is: the first unit of the wave that is of vector job->vector + `vector`. */
struct sum_cursor {
    size_t vector, first;
};
_Static_assert(sizeof(struct sum_cursor) <= WI_OPTIM_CURSOR_BYTES, "cursor");

/* Units of the wave's vector number `at`. */
static size_t wave_units(const struct sum_job *job, size_t at)
{
    return units_of(job->vectors[job->vector + at].elems) - (at ? 0 : job->skip);
}

static void sum_unit(void *arg, void *cursor, size_t unit)
{
    struct sum_job *job = arg;
    struct sum_cursor *c = cursor;

    /* A thread that goes on in another's range may go back. */
    if (c->first > unit)
        c->vector = c->first = 0;
    while (unit - c->first >= wave_units(job, c->vector))
        c->first += wave_units(job, c->vector++);
    const struct wi_optim_vector *vector = &job->vectors[job->vector + c->vector];
    enum wi_optim_type type = wi_optim_type_of(vector->dtype);
    size_t from = (unit - c->first + (c->vector ? 0 : job->skip)) * UNIT_ELEMS, rest = vector->elems - from;

    job->sums[unit] = job->isa->sum_squares[type]((const char *)vector->data + bytes_of(type) * from,
                                                  rest < UNIT_ELEMS ? rest : UNIT_ELEMS);
}

/* Add the wave's sums to those of its vectors, and go on to the next wave. */
static void add_wave(struct sum_job *job, size_t nunits, double *sums)
{
    for (size_t unit = 0; unit < nunits; unit++) {
        while (job->skip >= units_of(job->vectors[job->vector].elems)) {
            job->vector++;
            job->skip = 0;
        }
        sums[job->vector] += job->sums[unit];
        job->skip++;
    }
}

void wi_optim_squares(struct wi_optim_pool *pool, const struct wi_optim_vector *vectors, size_t nvectors, double *sums)
{
    struct sum_job job = {.isa = wi_optim_isa_current(), .vectors = vectors};
    size_t left = 0;

    for (size_t i = 0; i < nvectors; i++) {
        left += units_of(vectors[i].elems);
        sums[i] = 0;
    }
    while (left) {
        size_t nunits = left < WAVE ? left : WAVE;

        wi_optim_pool_run(pool, sum_unit, &job, nunits);
        add_wave(&job, nunits, sums);
        left -= nunits;
    }
    for (size_t i = 0; i < nvectors; i++)
        sums[i] = isnan(sums[i]) ? (double)NAN : sums[i];
}

double wi_optim_sum_squares(struct wi_optim_pool *pool, const struct wi_optim_vector *vectors, size_t nvectors)
{
    double sum = 0, one;

    for (size_t i = 0; i < nvectors; i++) {
        wi_optim_squares(pool, &vectors[i], 1, &one);
        sum += one;
    }
    return isnan(sum) ? (double)NAN : sum;
}

/* ---- Conversions. */

struct convert_job {
    const struct wi_optim_isa *isa;
    char *dst;
    const char *src;
    size_t elems;
    enum wi_optim_type dst_type, src_type;
    int add;
};

static void convert_unit(void *arg, void *cursor, size_t unit)
{
    const struct convert_job *job = arg;
    size_t from = unit * UNIT_ELEMS, elems = job->elems - from < UNIT_ELEMS ? job->elems - from : UNIT_ELEMS;
    char *dst = job->dst + bytes_of(job->dst_type) * from;
    const char *src = job->src + bytes_of(job->src_type) * from;

    (void)cursor;
    if (job->dst_type == job->src_type && !job->add)
        memmove(dst, src, bytes_of(job->src_type) * elems);
    else
        job->isa->convert[job->dst_type][job->src_type][job->add](dst, src, elems);
}

void wi_optim_convert(struct wi_optim_pool *pool, void *dst, weft_dtype dst_dtype, const void *src,
                      weft_dtype src_dtype, size_t elems, int add)
{
    struct convert_job job = {wi_optim_isa_current(),      dst,     src, elems, wi_optim_type_of(dst_dtype),
                              wi_optim_type_of(src_dtype), add != 0};

    wi_optim_pool_run(pool, convert_unit, &job, units_of(elems));
}
