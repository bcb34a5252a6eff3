/* SPDX-License-Identifier: BSD-3-Clause */
/* Muon: momentum, whose matrix is made nearly orthogonal by Newton-Schulz iterations, in fp32. Coefficients, their number and the
 * scale are Jordan's (kellerjordan.github.io/posts/muon) and those of DeepSpeed 0.19, which iterate in bfloat16. Matrices are
 * wide: tall ones are worked on transposed. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "zero/optim/optim.h"
#include "zero/optim/optim_isa.h"

#if defined(__clang__)
#pragma clang fp contract(off)
#else
#pragma GCC optimize("fp-contract=off")
#endif

enum { ITERATIONS = 5, BAND = 32, UNIT_ROWS = 64, UNIT_COLUMNS = 128 };

static size_t up(size_t n, size_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

/* Where the matrices of a step are. Padding is 0. */
struct work {
    const struct wi_optim_muon *muon;
    const struct wi_optim_isa *isa;
    int transposed;
    size_t n, m; /* sides, n <= m */
    size_t n_stride, m_stride;
    float *x, *y; /* n rows of m; y also m rows of n */
    float *a, *s; /* n rows of n */
    double divisor;
};

static size_t wide_elems(size_t n, size_t m)
{
    size_t wide = up(n, WI_OPTIM_ROWS) * up(m, WI_OPTIM_COLUMNS), tall = m * up(n, WI_OPTIM_COLUMNS);

    return up(wide > tall ? wide : tall, 16);
}

static size_t square_elems(size_t n)
{
    return up(n, WI_OPTIM_ROWS) * up(n, WI_OPTIM_COLUMNS);
}

size_t wi_optim_muon_bytes(size_t rows, size_t columns)
{
    size_t n = rows < columns ? rows : columns, m = rows < columns ? columns : rows;

    return n ? 4 * (2 * wide_elems(n, m) + 2 * square_elems(n)) : 0;
}

/* ---- Products ---- */

struct product {
    struct wi_optim_matmul m;
    wi_optim_matmul_fn fn;
    size_t rows, columns, across;
};

static void product_unit(void *arg, void *cursor, size_t unit)
{
    const struct product *p = arg;
    size_t row = unit / p->across * UNIT_ROWS, column = unit % p->across * UNIT_COLUMNS;

    (void)cursor;
    p->fn(&p->m, row, p->rows - row < UNIT_ROWS ? p->rows - row : UNIT_ROWS, column,
          p->columns - column < UNIT_COLUMNS ? p->columns - column : UNIT_COLUMNS);
}

static void multiply(struct wi_optim_pool *pool, const struct work *w, size_t rows, size_t columns,
                     struct wi_optim_matmul m)
{
    struct product p = {m, w->isa->matmul, up(rows, WI_OPTIM_ROWS), up(columns, WI_OPTIM_COLUMNS), 0};

    p.across = (p.columns + UNIT_COLUMNS - 1) / UNIT_COLUMNS;
    wi_optim_pool_run(pool, product_unit, &p, (p.rows + UNIT_ROWS - 1) / UNIT_ROWS * p.across);
}

/* y = x transposed, a band of x's columns at a time. */
static void transpose_unit(void *arg, void *cursor, size_t unit)
{
    const struct work *w = arg;
    size_t from = unit * BAND, to = w->m - from < BAND ? w->m : from + BAND;

    (void)cursor;
    for (size_t i = 0; i < w->n; i++)
        for (size_t k = from; k < to; k++)
            w->y[k * w->n_stride + i] = w->x[i * w->m_stride + k];
    for (size_t k = from; k < to; k++)
        memset(w->y + k * w->n_stride + w->n, 0, 4 * (w->n_stride - w->n));
}

static size_t bands(size_t n)
{
    return (n + BAND - 1) / BAND;
}

static void iterate(struct wi_optim_pool *pool, struct work *w)
{
    const float a = 3.4445f, b = -4.7750f, c = 2.0315f;
    float *next = w->y;

    wi_optim_pool_run(pool, transpose_unit, w, bands(w->m));
    multiply(pool, w, w->n, w->n,
             (struct wi_optim_matmul){w->x, w->y, NULL, w->a, w->m_stride, w->n_stride, w->n_stride, w->m, 1, 0});
    multiply(pool, w, w->n, w->n,
             (struct wi_optim_matmul){w->a, w->a, w->a, w->s, w->n_stride, w->n_stride, w->n_stride, w->n, c, b});
    multiply(pool, w, w->n, w->m,
             (struct wi_optim_matmul){w->s, w->x, w->x, w->y, w->n_stride, w->m_stride, w->m_stride, w->n, 1, a});
    w->y = w->x;
    w->x = next;
}

/* ---- Elements ---- */

/* Where an element of the parameter is in x. */
static size_t place(const struct work *w, size_t row, size_t column)
{
    return w->transposed ? column * w->m_stride + row : row * w->m_stride + column;
}

/* A band of the parameter's rows: momentum, and what is made orthogonal. */
static void momentum_unit(void *arg, void *cursor, size_t unit)
{
    const struct work *w = arg;
    const struct wi_optim_muon *muon = w->muon;
    enum wi_optim_type type = wi_optim_type_of(muon->grad_dtype);
    size_t from = unit * BAND, to = muon->rows - from < BAND ? muon->rows : from + BAND;
    double keep = muon->hyper->momentum;
    float grads[256];

    (void)cursor;
    for (size_t row = from; row < to; row++)
        for (size_t column = 0; column < muon->columns; column++) {
            size_t at = row * muon->columns + column, left = muon->columns - column;

            if (column % 256 == 0)
                w->isa->convert[WI_OPTIM_F32][type][0](
                    grads, (const char *)muon->grad + (type == WI_OPTIM_F32 ? 4 : 2) * at, left < 256 ? left : 256);
            double g = grads[column % 256] * muon->grad_scale;
            float m = (float)(keep * muon->moment[at] + (1 - keep) * g);

            muon->moment[at] = m;
            w->x[place(w, row, column)] = muon->hyper->nesterov ? (float)((1 - keep) * g + keep * m) : m;
        }
}

static void divide_unit(void *arg, void *cursor, size_t unit)
{
    const struct work *w = arg;
    size_t from = unit * BAND, to = w->n - from < BAND ? w->n : from + BAND;

    (void)cursor;
    for (size_t i = from * w->m_stride; i < to * w->m_stride; i++)
        w->x[i] = (float)(w->x[i] / w->divisor);
}

static void update_unit(void *arg, void *cursor, size_t unit)
{
    const struct work *w = arg;
    const struct wi_optim_muon *muon = w->muon;
    size_t from = unit * BAND, to = muon->rows - from < BAND ? muon->rows : from + BAND;
    double ratio = (double)muon->rows / (double)muon->columns, decay = 1 - muon->hyper->lr * muon->hyper->weight_decay;
    double step = muon->hyper->lr * sqrt(ratio > 1 ? ratio : 1);
    enum wi_optim_type type = wi_optim_type_of(muon->out_dtype);

    (void)cursor;
    for (size_t row = from; row < to; row++)
        for (size_t column = 0; column < muon->columns; column++) {
            size_t at = row * muon->columns + column;

            muon->weight[at] = (float)(muon->weight[at] * decay - step * w->x[place(w, row, column)]);
        }
    if (muon->out)
        w->isa->convert[type][WI_OPTIM_F32][0]((char *)muon->out +
                                                   (type == WI_OPTIM_F32 ? 4 : 2) * from * muon->columns,
                                               muon->weight + from * muon->columns, (to - from) * muon->columns);
}

void wi_optim_muon(struct wi_optim_pool *pool, const struct wi_optim_muon *muon)
{
    struct work w = {.muon = muon, .isa = wi_optim_isa_current(), .transposed = muon->rows > muon->columns};

    if (!muon->rows || !muon->columns)
        return;
    w.n = w.transposed ? muon->columns : muon->rows;
    w.m = w.transposed ? muon->rows : muon->columns;
    w.n_stride = up(w.n, WI_OPTIM_COLUMNS);
    w.m_stride = up(w.m, WI_OPTIM_COLUMNS);
    w.x = muon->scratch;
    w.y = w.x + wide_elems(w.n, w.m);
    w.a = w.y + wide_elems(w.n, w.m);
    w.s = w.a + square_elems(w.n);
    memset(w.x, 0, 4 * up(w.n, WI_OPTIM_ROWS) * w.m_stride);
    wi_optim_pool_run(pool, momentum_unit, &w, bands(muon->rows));
    w.divisor =
        sqrt(wi_optim_sum_squares(pool, &(struct wi_optim_vector){w.x, w.n * w.m_stride, WEFT_FLOAT32}, 1)) + 1e-7;
    wi_optim_pool_run(pool, divide_unit, &w, bands(w.n));
    for (int i = 0; i < ITERATIONS; i++)
        iterate(pool, &w);
    wi_optim_pool_run(pool, update_unit, &w, bands(muon->rows));
}
