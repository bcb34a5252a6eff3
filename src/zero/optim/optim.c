/* SPDX-License-Identifier: BSD-3-Clause */
/* Optimizers: hyper-parameters checked and turned into what the loops take, and work shared out to the pool. */
#include "zero/optim/optim.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/reduce.h"
#include "base/status.h"
#include "zero/optim/optim_isa.h"

/* Elements of a unit of work: long enough that claiming one costs nothing, short enough to share work out evenly. */
#define UNIT_ELEMS 32768u
/* Cuts are multiples of so many elements from a piece's start: no two threads write to one cache line of an
 * aligned piece, or to one block of codes. */
#define CUT_ELEMS 256u

int wi_optim_moments(weft_zero_optimizer kind)
{
    switch (kind) {
    case WEFT_ZERO_ADAMW:
    case WEFT_ZERO_ADAM:
    case WEFT_ZERO_LAMB:
        return 2;
    case WEFT_ZERO_SGD:
    case WEFT_ZERO_LION:
    case WEFT_ZERO_ADAGRAD:
        return 1;
    case WEFT_ZERO_CALLBACK:
        break;
    }
    return 0;
}

const char *wi_optim_name(weft_zero_optimizer kind)
{
    switch (kind) {
#define NAME(value_name, value, text) \
    case value_name:                  \
        return text;
        WEFT_ZERO_OPTIMIZER_LIST(NAME)
#undef NAME
    }
    return "unknown";
}

int wi_optim_exists(weft_zero_optimizer kind)
{
    return kind == WEFT_ZERO_CALLBACK || wi_optim_moments(kind);
}

/* ---- Hyper-parameters. */

static weft_status refuse(weft_zero_optimizer kind, const char *name, double value, const char *range)
{
    return wi_fail(WEFT_EINVAL, "%s: %s is %g; it must be %s", wi_optim_name(kind), name, value, range);
}

static weft_status check_not_negative(weft_zero_optimizer kind, const char *name, double value)
{
    if (!(value >= 0) || isinf(value))
        return refuse(kind, name, value, "a number, not negative");
    return WEFT_SUCCESS;
}

static weft_status check_beta(weft_zero_optimizer kind, const char *name, double value)
{
    if (!(value >= 0 && value < 1))
        return refuse(kind, name, value, "at least 0 and less than 1");
    return WEFT_SUCCESS;
}

static weft_status check_sgd(const weft_zero_hyper *h)
{
    WI_TRY(check_not_negative(WEFT_ZERO_SGD, "momentum", h->momentum));
    if (!isfinite(h->dampening))
        return refuse(WEFT_ZERO_SGD, "dampening", h->dampening, "a number");
    if (h->nesterov && (h->momentum == 0 || h->dampening != 0))
        return wi_fail(WEFT_EINVAL, "sgd: nesterov needs momentum, which is %g, and no dampening, which is %g",
                       h->momentum, h->dampening);
    return WEFT_SUCCESS;
}

static weft_status check_hyper(weft_zero_optimizer kind, const weft_zero_hyper *h)
{
    WI_TRY(check_not_negative(kind, "lr", h->lr));
    WI_TRY(check_not_negative(kind, "weight_decay", h->weight_decay));
    if (kind == WEFT_ZERO_SGD)
        return check_sgd(h);
    if (kind != WEFT_ZERO_LION)
        WI_TRY(check_not_negative(kind, "eps", h->eps));
    if (kind == WEFT_ZERO_ADAGRAD)
        return check_not_negative(kind, "lr_decay", h->lr_decay);
    if (kind == WEFT_ZERO_LAMB) {
        WI_TRY(check_not_negative(kind, "min_coeff", h->min_coeff));
        WI_TRY(check_not_negative(kind, "max_coeff", h->max_coeff));
        if (h->min_coeff > h->max_coeff)
            return wi_fail(WEFT_EINVAL, "lamb: min_coeff is %g, more than max_coeff, which is %g", h->min_coeff,
                           h->max_coeff);
    }
    WI_TRY(check_beta(kind, "beta1", h->beta1));
    return check_beta(kind, "beta2", h->beta2);
}

/* m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps), with numerator and denominator multiplied by sqrt(1 - beta2^t). */
static void prepare_adam(struct wi_optim *o, const weft_zero_hyper *h, uint64_t step)
{
    double root = sqrt(1 - pow(h->beta2, (double)step));

    o->form = o->kind == WEFT_ZERO_ADAM ? WI_OPTIM_ADAM : WI_OPTIM_ADAMW;
    o->step_size = h->lr / (1 - pow(h->beta1, (double)step)) * root;
    o->eps = h->eps * root;
    if (o->kind == WEFT_ZERO_ADAM)
        o->l2 = h->weight_decay;
}

static void prepare_lamb(struct wi_optim *o, const weft_zero_hyper *h, uint64_t step)
{
    o->form = WI_OPTIM_LAMB;
    o->correct1 = 1 / (1 - pow(h->beta1, (double)step));
    o->correct2 = 1 / sqrt(1 - pow(h->beta2, (double)step));
    o->eps = h->eps;
    o->l2 = h->weight_decay;
}

static void prepare_sgd(struct wi_optim *o, const weft_zero_hyper *h, uint64_t step)
{
    o->form = h->momentum == 0 ? WI_OPTIM_SGD : h->nesterov ? WI_OPTIM_NESTEROV : WI_OPTIM_MOMENTUM;
    o->l2 = h->weight_decay;
    o->keep1 = h->momentum;
    o->add1 = 1 - h->dampening;
    o->first = step == 1;
}

static void prepare_adagrad(struct wi_optim *o, const weft_zero_hyper *h, uint64_t step)
{
    o->form = WI_OPTIM_ADAGRAD;
    o->l2 = h->weight_decay;
    o->step_size = h->lr / (1 + (double)(step - 1) * h->lr_decay);
    o->eps = h->eps;
}

weft_status wi_optim_prepare(struct wi_optim *optim, weft_zero_optimizer kind, const weft_zero_hyper *hyper,
                             uint64_t step, double grad_scale)
{
    if (!optim || !hyper)
        return wi_fail(WEFT_EINVAL, "optimizer: %s is NULL", optim ? "hyper" : "optim");
    if (!wi_optim_exists(kind))
        return wi_fail(WEFT_EINVAL, "optimizer: there is none of number %d", (int)kind);
    if (!step)
        return wi_fail(WEFT_EINVAL, "%s: step is 0; the first one is 1", wi_optim_name(kind));
    if (!isfinite(grad_scale))
        return refuse(kind, "the gradients' scale", grad_scale, "a number");
    if (kind != WEFT_ZERO_CALLBACK)
        WI_TRY(check_hyper(kind, hyper));
    *optim = (struct wi_optim){
        .kind = kind,
        .grad_scale = hyper->maximize ? -grad_scale : grad_scale,
        .decay = 1 - hyper->lr * hyper->weight_decay,
        .keep1 = hyper->beta1,
        .add1 = 1 - hyper->beta1,
        .keep2 = hyper->beta2,
        .add2 = 1 - hyper->beta2,
        .step_size = hyper->lr,
        .hyper = hyper,
        .step = step,
    };
    switch (kind) {
    case WEFT_ZERO_CALLBACK:
        optim->grad_scale = grad_scale;
        break;
    case WEFT_ZERO_SGD:
        prepare_sgd(optim, hyper, step);
        break;
    case WEFT_ZERO_LAMB:
        prepare_lamb(optim, hyper, step);
        break;
    case WEFT_ZERO_LION:
        optim->form = WI_OPTIM_LION;
        break;
    case WEFT_ZERO_ADAGRAD:
        prepare_adagrad(optim, hyper, step);
        break;
    default:
        prepare_adam(optim, hyper, step);
        break;
    }
    return WEFT_SUCCESS;
}

/* ---- Work. */

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

/* ---- Sums of squares: each unit of each vector has its own, and these are added in order. */

#define WAVE 256u /* units whose sums are kept at a time: 8 Mi elements */

struct sum_job {
    const struct wi_optim_isa *isa;
    const char *data;
    size_t elems;
    enum wi_optim_type type;
    double sums[WAVE];
};

static void sum_unit(void *arg, void *cursor, size_t unit)
{
    struct sum_job *job = arg;
    size_t from = unit * UNIT_ELEMS, rest = job->elems - from;

    (void)cursor;
    job->sums[unit] =
        job->isa->sum_squares[job->type](job->data + bytes_of(job->type) * from, rest < UNIT_ELEMS ? rest : UNIT_ELEMS);
}

static double sum_vector(struct wi_optim_pool *pool, const struct wi_optim_vector *vector)
{
    struct sum_job job = {.isa = wi_optim_isa_current(), .data = vector->data, .type = wi_optim_type_of(vector->dtype)};
    size_t left = vector->elems;
    double sum = 0;

    while (left) {
        size_t units = units_of(left) < WAVE ? units_of(left) : WAVE;

        job.elems = left < (size_t)WAVE * UNIT_ELEMS ? left : (size_t)WAVE * UNIT_ELEMS;
        wi_optim_pool_run(pool, sum_unit, &job, units);
        for (size_t i = 0; i < units; i++)
            sum += job.sums[i];
        left -= job.elems;
        job.data += bytes_of(job.type) * job.elems;
    }
    return sum;
}

double wi_optim_sum_squares(struct wi_optim_pool *pool, const struct wi_optim_vector *vectors, size_t nvectors)
{
    double sum = 0;

    for (size_t i = 0; i < nvectors; i++)
        sum += sum_vector(pool, &vectors[i]);
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
