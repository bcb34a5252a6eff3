/* SPDX-License-Identifier: BSD-3-Clause */
/* Muon's Newton-Schulz iterations as Jordan has them (kellerjordan.github.io/posts/muon), in double. */
#ifndef ZT_NEWTON_SCHULZ_H
#define ZT_NEWTON_SCHULZ_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* c = a b, of n rows, k between and m columns. */
static inline void zt_multiply(size_t n, size_t k, size_t m, const double *a, const double *b, double *c)
{
    memset(c, 0, n * m * sizeof *c);
    for (size_t i = 0; i < n; i++)
        for (size_t t = 0; t < k; t++)
            for (size_t j = 0; j < m; j++)
                c[i * m + j] += a[i * k + t] * b[t * m + j];
}

static inline void zt_transpose(size_t rows, size_t columns, const double *a, double *b)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j++)
            b[j * rows + i] = a[i * columns + j];
}

/* In place. */
static inline void zt_newton_schulz(double *u, size_t rows, size_t columns)
{
    size_t n = rows < columns ? rows : columns, m = rows < columns ? columns : rows, all = n * m;
    double *x = calloc(3 * all + 3 * n * n + 1, sizeof *x), *t = x + all, *y = t + all, *a = y + all, *aa = a + n * n,
           norm = 0;

    if (rows > columns)
        zt_transpose(rows, columns, u, x);
    else
        memcpy(x, u, all * sizeof *x);
    for (size_t i = 0; i < all; i++)
        norm += x[i] * x[i];
    for (size_t i = 0; i < all; i++)
        x[i] /= sqrt(norm) + 1e-7;
    for (int step = 0; step < 5; step++) {
        zt_transpose(n, m, x, t);
        zt_multiply(n, m, n, x, t, a);
        zt_multiply(n, n, n, a, a, aa);
        for (size_t i = 0; i < n * n; i++)
            a[i] = -4.7750 * a[i] + 2.0315 * aa[i];
        zt_multiply(n, n, m, a, x, y);
        for (size_t i = 0; i < all; i++)
            x[i] = 3.4445 * x[i] + y[i];
    }
    if (rows > columns)
        zt_transpose(n, m, x, u);
    else
        memcpy(u, x, all * sizeof *x);
    free(x);
}

#endif
