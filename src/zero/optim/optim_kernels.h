/* SPDX-License-Identifier: BSD-3-Clause */
/* The optimizers' loops, in GCC's vector extension. Included once by each optim_<isa>.c, which defines
 *   OPTIM_ISA      name of the struct wi_optim_isa
 *   OPTIM_LANES    doubles in a vector register, vd; vf has as many floats, vu32 and vu16 as many integers
 *   TO_DOUBLE(vf), TO_FLOAT(vd), SQRT_DOUBLE(vd), SQRT_FLOAT(vf)
 *   WIDEN(vu16), NARROW(vu32) of lanes below 2^16; F16_DECODE(vu16), F16_ENCODE(vf)
 *   ONE_NAN(vf)    every NaN becomes 0x7fc00000
 *   ANY_NAN(vf[], count)    not 0 if a lane is a NaN
 *   OPTIM_UNROLL   vectors that are worked on together
 * Elements are loaded as fp32, computed in double and rounded to fp32 once. Every operation is rounded correctly, and compilers may
 * not contract a product and a sum into one, which is what makes the sets' results equal bit for bit. */

typedef double vd __attribute__((vector_size(OPTIM_LANES * 8)));
typedef int64_t vi64 __attribute__((vector_size(OPTIM_LANES * 8)));
typedef float vf __attribute__((vector_size(OPTIM_LANES * 4)));
typedef uint32_t vu32 __attribute__((vector_size(OPTIM_LANES * 4)));
typedef uint16_t vu16 __attribute__((vector_size(OPTIM_LANES * 2)));

#define INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#define ALL(x) ((vd){0} + (x))

INLINE vd choose(vi64 mask, vd a, vd b)
{
    return (vd)(((vi64)a & mask) | ((vi64)b & ~mask));
}

INLINE vf load_f32(const void *p)
{
    vf v;

    memcpy(&v, p, sizeof(v));
    return v;
}

INLINE vf load(int type, const void *p, size_t at)
{
    vu16 half;

    if (type == WI_OPTIM_F32)
        return load_f32((const char *)p + 4 * at);
    memcpy(&half, (const char *)p + 2 * at, sizeof(half));
    return type == WI_OPTIM_F16 ? F16_DECODE(half) : (vf)(WIDEN(half) << 16);
}

/* `v` has no NaN but the one of ONE_NAN. */
INLINE vu16 bF16_ENCODE(vf v)
{
    vu32 u = (vu32)v;

    return NARROW((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

INLINE void store(int type, void *p, size_t at, vf v)
{
    vu16 half;

    if (type == WI_OPTIM_F32) {
        memcpy((char *)p + 4 * at, &v, sizeof(v));
        return;
    }
    half = type == WI_OPTIM_F16 ? F16_ENCODE(v) : bF16_ENCODE(v);
    memcpy((char *)p + 2 * at, &half, sizeof(half));
}

/* `count` vectors go through each stage together, so that the CPU has independent work during the latency of the last one. */
#define EACH(i) UNROLL for (int i = 0; i < count; i++)

struct lanes {
    vf weight[OPTIM_UNROLL], moment1[OPTIM_UNROLL], moment2[OPTIM_UNROLL];
};

/* weight - step_size a / (sqrt(v) + eps), v being the second moment as it is stored. The root is one of fp32, half a unit in its
 * last place off: one of double takes as long as all else. A moment that is NaN makes the weight NaN, so that one test finds all
 * that are to be made alike. */
INLINE void descend(int count, const struct wi_optim *o, const vd a[], const vd weight[], struct lanes *x)
{
    vd root[OPTIM_UNROLL], q[OPTIM_UNROLL];

    EACH(i) root[i] = TO_DOUBLE(SQRT_FLOAT(x->moment2[i]));
    EACH(i) q[i] = a[i] / (root[i] + o->eps);
    EACH(i) x->weight[i] = TO_FLOAT(weight[i] - q[i] * o->step_size);
    if (__builtin_expect(!ANY_NAN(x->weight, count), 1))
        return;
    EACH(i) x->weight[i] = ONE_NAN(x->weight[i]);
    EACH(i) x->moment1[i] = ONE_NAN(x->moment1[i]);
    EACH(i) x->moment2[i] = ONE_NAN(x->moment2[i]);
}

INLINE void step_adam(int count, int form, const struct wi_optim *o, struct lanes *x, const vd p[], const vd g[])
{
    vd m[OPTIM_UNROLL], v[OPTIM_UNROLL], decayed[OPTIM_UNROLL];

    EACH(i) m[i] = TO_DOUBLE(x->moment1[i]) * o->keep1 + g[i] * o->add1;
    EACH(i) v[i] = TO_DOUBLE(x->moment2[i]) * o->keep2 + g[i] * g[i] * o->add2;
    EACH(i) x->moment1[i] = TO_FLOAT(m[i]);
    EACH(i) x->moment2[i] = TO_FLOAT(v[i]);
    EACH(i) decayed[i] = form == WI_OPTIM_ADAMW ? p[i] * o->decay : p[i];
    descend(count, o, m, decayed, x);
}

INLINE void step_adagrad(int count, const struct wi_optim *o, struct lanes *x, const vd p[], const vd g[])
{
    vd v[OPTIM_UNROLL];

    EACH(i) v[i] = TO_DOUBLE(x->moment2[i]) + g[i] * g[i];
    EACH(i) x->moment2[i] = TO_FLOAT(v[i]);
    EACH(i) x->moment1[i] = x->moment2[i]; /* there is none */
    descend(count, o, g, p, x);
}

/* What lamb scales by the ratio of norms, of moments that are rounded already. */
INLINE vd lamb_update(const struct wi_optim *o, vd p, vf m, vf v)
{
    return TO_DOUBLE(m) * o->correct1 / (SQRT_DOUBLE(TO_DOUBLE(v)) * o->correct2 + o->eps) + p * o->l2;
}

/* The optimizers that neither divide nor take roots. */
INLINE void step_linear(int form, const struct wi_optim *o, vf *weight, vf *moment1, vd p, vd g)
{
    vd m = TO_DOUBLE(*moment1), direction = g;

    if (form == WI_OPTIM_LION) {
        direction = m * o->keep1 + g * o->add1;
        p = p * o->decay - (vd)((vi64)(direction > 0) & (vi64)ALL(o->step_size)) +
            (vd)((vi64)(direction < 0) & (vi64)ALL(o->step_size));
        *moment1 = ONE_NAN(TO_FLOAT(m * o->keep2 + g * o->add2));
    } else {
        if (form != WI_OPTIM_SGD) {
            m = choose((vi64){0} - (int64_t)(o->first != 0), g, m * o->keep1 + g * o->add1);
            *moment1 = ONE_NAN(TO_FLOAT(m));
            direction = form == WI_OPTIM_NESTEROV ? g + m * o->keep1 : m;
        }
        p = p - direction * o->step_size;
    }
    *weight = ONE_NAN(TO_FLOAT(p));
}

/* One step of `count` vectors. Forms are constants where these are inlined. */
INLINE void step(int count, int form, const struct wi_optim *o, struct lanes *x, const vf grad[])
{
    vd p[OPTIM_UNROLL], g[OPTIM_UNROLL];

    EACH(i) p[i] = TO_DOUBLE(x->weight[i]);
    EACH(i) g[i] = TO_DOUBLE(grad[i]) * o->grad_scale;
    if (form == WI_OPTIM_LAMB) {
        EACH(i) x->weight[i] = ONE_NAN(TO_FLOAT(p[i] - lamb_update(o, p[i], x->moment1[i], x->moment2[i]) * o->step_size));
        return;
    }
    if (form != WI_OPTIM_ADAMW && form != WI_OPTIM_LION)
        EACH(i) g[i] = g[i] + p[i] * o->l2;
    if (form == WI_OPTIM_ADAMW || form == WI_OPTIM_ADAM)
        step_adam(count, form, o, x, p, g);
    else if (form == WI_OPTIM_ADAGRAD)
        step_adagrad(count, o, x, p, g);
    else
        EACH(i) step_linear(form, o, &x->weight[i], &x->moment1[i], p[i], g[i]);
}

#define HAS_MOMENT1(form) ((form) != WI_OPTIM_SGD && (form) != WI_OPTIM_ADAGRAD)
#define HAS_MOMENT2(form) ((form) == WI_OPTIM_ADAMW || (form) == WI_OPTIM_ADAM || (form) == WI_OPTIM_ADAGRAD || \
     (form) == WI_OPTIM_LAMB)

/* `count` vectors of elements from `at` on. */
INLINE void update_vectors(int count, int form, int grad_type, int out_type, const struct wi_optim *o, size_t at, float *weight,
                           float *moment1, float *moment2, const void *grad, void *out)
{
    struct lanes x;
    vf g[OPTIM_UNROLL];

    EACH(i) x.weight[i] = load_f32(weight + at + i * OPTIM_LANES);
    if (HAS_MOMENT1(form))
        EACH(i) x.moment1[i] = load_f32(moment1 + at + i * OPTIM_LANES);
    else
        EACH(i) x.moment1[i] = x.weight[i]; /* not used */
    if (HAS_MOMENT2(form))
        EACH(i) x.moment2[i] = load_f32(moment2 + at + i * OPTIM_LANES);
    EACH(i) g[i] = load(grad_type, grad, at + i * OPTIM_LANES);
    step(count, form, o, &x, g);
    EACH(i) store(WI_OPTIM_F32, weight, at + i * OPTIM_LANES, x.weight[i]);
    if (HAS_MOMENT1(form))
        EACH(i) store(WI_OPTIM_F32, moment1, at + i * OPTIM_LANES, x.moment1[i]);
    if (HAS_MOMENT2(form))
        EACH(i) store(WI_OPTIM_F32, moment2, at + i * OPTIM_LANES, x.moment2[i]);
    if (out_type != WI_OPTIM_F32)
        EACH(i) store(out_type, out, at + i * OPTIM_LANES, x.weight[i]);
}

INLINE size_t type_bytes(int type)
{
    return type == WI_OPTIM_F32 ? 4 : 2;
}

/* The CPU's own prefetchers stop at the end of each page of each stream, and the loop computes for so long that few loads are under
 * way at a time: so many elements before they are used. */
#define AHEAD 512

INLINE void fetch_ahead(int form, int grad_type, size_t at, const float *weight, const float *moment1,
                        const float *moment2, const void *grad)
{
    UNROLL for (size_t i = 0; i < OPTIM_UNROLL * OPTIM_LANES; i += 16)
    {
        __builtin_prefetch(weight + at + i, 1);
        if (HAS_MOMENT1(form))
            __builtin_prefetch(moment1 + at + i, 1);
        if (HAS_MOMENT2(form))
            __builtin_prefetch(moment2 + at + i, 1);
        __builtin_prefetch((const char *)grad + type_bytes(grad_type) * (at + i));
    }
}

INLINE void update(int form, int grad_type, int out_type, const struct wi_optim *optim, size_t elems, float *weight,
                   float *moment1, float *moment2, const void *grad, void *out)
{
    const struct wi_optim local = *optim; /* not changed by stores */
    size_t whole = elems / OPTIM_LANES * OPTIM_LANES, rest = elems - whole, grad_bytes = type_bytes(grad_type), at = 0;
    float part[3][OPTIM_LANES] = {{0}}, part_grad[OPTIM_LANES] = {0};
    uint16_t part_out[OPTIM_LANES];

    for (; whole - at >= OPTIM_UNROLL * OPTIM_LANES; at += OPTIM_UNROLL * OPTIM_LANES) {
        fetch_ahead(form, grad_type, at + AHEAD, weight, moment1, moment2, grad);
        update_vectors(OPTIM_UNROLL, form, grad_type, out_type, &local, at, weight, moment1, moment2, grad, out);
    }
    for (; at < whole; at += OPTIM_LANES)
        update_vectors(1, form, grad_type, out_type, &local, at, weight, moment1, moment2, grad, out);
    if (!rest)
        return;
    memcpy(part[0], weight + whole, 4 * rest);
    if (HAS_MOMENT1(form))
        memcpy(part[1], moment1 + whole, 4 * rest);
    if (HAS_MOMENT2(form))
        memcpy(part[2], moment2 + whole, 4 * rest);
    memcpy(part_grad, (const char *)grad + grad_bytes * whole, grad_bytes * rest);
    update_vectors(1, form, grad_type, out_type, &local, 0, part[0], part[1], part[2], part_grad, part_out);
    memcpy(weight + whole, part[0], 4 * rest);
    if (HAS_MOMENT1(form))
        memcpy(moment1 + whole, part[1], 4 * rest);
    if (HAS_MOMENT2(form))
        memcpy(moment2 + whole, part[2], 4 * rest);
    if (out_type != WI_OPTIM_F32)
        memcpy((char *)out + 2 * whole, part_out, 2 * rest);
}

/* ---- Lamb's first pass. */

/* As many elements as there are lanes of sums; of those only `valid` ones count. */
INLINE void lamb_lanes(int type, const struct wi_optim *o, size_t at, const float *weight, float *moment1, float *moment2,
                       const void *grad, const vi64 valid[], vd weights[], vd updates[])
{
    UNROLL for (int i = 0; i < WI_OPTIM_SUM_LANES / OPTIM_LANES; i++)
    {
        size_t k = at + (size_t)i * OPTIM_LANES;
        vd p = TO_DOUBLE(load_f32(weight + k)), g = TO_DOUBLE(load(type, grad, k)) * o->grad_scale, u;
        vf m = ONE_NAN(TO_FLOAT(TO_DOUBLE(load_f32(moment1 + k)) * o->keep1 + g * o->add1));
        vf v = ONE_NAN(TO_FLOAT(TO_DOUBLE(load_f32(moment2 + k)) * o->keep2 + g * g * o->add2));

        store(WI_OPTIM_F32, moment1, k, m);
        store(WI_OPTIM_F32, moment2, k, v);
        u = lamb_update(o, p, m, v);
        if (valid)
            u = choose(valid[i], u, ALL(0.0));
        weights[i] += p * p;
        updates[i] += u * u;
    }
}

INLINE void lamb(int type, const struct wi_optim *optim, size_t elems, const float *weight, float *moment1, float *moment2,
                 const void *grad, double lanes[2][WI_OPTIM_SUM_LANES])
{
    const struct wi_optim local = *optim;
    vd weights[WI_OPTIM_SUM_LANES / OPTIM_LANES], updates[WI_OPTIM_SUM_LANES / OPTIM_LANES];
    size_t whole = elems / WI_OPTIM_SUM_LANES * WI_OPTIM_SUM_LANES, rest = elems - whole;
    float part[4][WI_OPTIM_SUM_LANES] = {{0}};
    int64_t counts[WI_OPTIM_SUM_LANES] = {0};
    vi64 valid[WI_OPTIM_SUM_LANES / OPTIM_LANES];

    memcpy(weights, lanes[0], sizeof(weights));
    memcpy(updates, lanes[1], sizeof(updates));
    for (size_t at = 0; at < whole; at += WI_OPTIM_SUM_LANES)
        lamb_lanes(type, &local, at, weight, moment1, moment2, grad, NULL, weights, updates);
    if (rest) {
        memcpy(part[0], weight + whole, 4 * rest);
        memcpy(part[1], moment1 + whole, 4 * rest);
        memcpy(part[2], moment2 + whole, 4 * rest);
        memcpy(part[3], (const char *)grad + type_bytes(type) * whole, type_bytes(type) * rest);
        for (size_t i = 0; i < rest; i++)
            counts[i] = -1;
        memcpy(valid, counts, sizeof(valid));
        lamb_lanes(type, &local, 0, part[0], part[1], part[2], part[3], valid, weights, updates);
        memcpy(moment1 + whole, part[1], 4 * rest);
        memcpy(moment2 + whole, part[2], 4 * rest);
    }
    memcpy(lanes[0], weights, sizeof(weights));
    memcpy(lanes[1], updates, sizeof(updates));
}

/* ---- Sums of squares: element i is added to sum i modulo SUMS, and the sums in a fixed order. Squares of fp32 are exact. */

#define SUMS 32

INLINE void square_block(int type, const void *data, size_t at, vd sums[])
{
    UNROLL /* sums must be in registers */
    for (size_t i = 0; i < SUMS / OPTIM_LANES; i++) {
        vd x = TO_DOUBLE(load(type, data, at + i * OPTIM_LANES));
        sums[i] += x * x;
    }
}

INLINE double sum_squares(int type, const void *data, size_t elems)
{
    size_t whole = elems / SUMS * SUMS;
    vd sums[SUMS / OPTIM_LANES] = {{0}};
    float part[SUMS] = {0};
    double sum[SUMS];

    for (size_t at = 0; at < whole; at += SUMS)
        square_block(type, data, at, sums);
    if (whole < elems) {
        memcpy(part, (const char *)data + type_bytes(type) * whole, type_bytes(type) * (elems - whole));
        square_block(type, part, 0, sums);
    }
    memcpy(sum, sums, sizeof(sum));
    for (size_t width = SUMS / 2; width; width /= 2)
        for (size_t i = 0; i < width; i++)
            sum[i] += sum[i + width];
    return sum[0];
}

/* ---- Products of matrices, in tiles whose sums are in registers. */

typedef float vg __attribute__((vector_size(OPTIM_LANES * 8)));
#define GEMM_LANES (2 * OPTIM_LANES)
#define GEMM_VECTORS 2
#define GEMM_INNER 256 /* rows of b that are in cache */

INLINE void matmul_tile(const float *a, size_t a_stride, const float *b, size_t b_stride, float *c, size_t c_stride, size_t inner)
{
    vg sums[WI_OPTIM_ROWS][GEMM_VECTORS], x[GEMM_VECTORS];

    UNROLL for (size_t r = 0; r < WI_OPTIM_ROWS; r++)
        UNROLL for (size_t v = 0; v < GEMM_VECTORS; v++)
            memcpy(&sums[r][v], c + r * c_stride + v * GEMM_LANES, sizeof(vg));
    for (size_t k = 0; k < inner; k++) {
        UNROLL for (size_t v = 0; v < GEMM_VECTORS; v++)
            memcpy(&x[v], b + k * b_stride + v * GEMM_LANES, sizeof(vg));
        UNROLL for (size_t r = 0; r < WI_OPTIM_ROWS; r++)
            UNROLL for (size_t v = 0; v < GEMM_VECTORS; v++)
                sums[r][v] += x[v] * a[r * a_stride + k];
    }
    UNROLL for (size_t r = 0; r < WI_OPTIM_ROWS; r++)
        UNROLL for (size_t v = 0; v < GEMM_VECTORS; v++)
            memcpy(c + r * c_stride + v * GEMM_LANES, &sums[r][v], sizeof(vg));
}

static void matmul(const struct wi_optim_matmul *m, size_t row, size_t rows, size_t column, size_t columns)
{
    for (size_t r = row; r < row + rows; r++)
        memset(m->c + r * m->c_stride + column, 0, 4 * columns);
    for (size_t k = 0; k < m->inner; k += GEMM_INNER) {
        size_t inner = m->inner - k < GEMM_INNER ? m->inner - k : GEMM_INNER;

        for (size_t c = column; c < column + columns; c += GEMM_LANES * GEMM_VECTORS)
            for (size_t r = row; r < row + rows; r += WI_OPTIM_ROWS)
                matmul_tile(m->a + r * m->a_stride + k, m->a_stride, m->b + k * m->b_stride + c, m->b_stride,
                            m->c + r * m->c_stride + c, m->c_stride, inner);
    }
    if (!m->d)
        return;
    for (size_t r = row; r < row + rows; r++)
        for (size_t c = column; c < column + columns; c++)
            m->c[r * m->c_stride + c] = m->alpha * m->c[r * m->c_stride + c] + m->beta * m->d[r * m->c_stride + c];
}

/* ---- Conversions. */

INLINE void convert_vector(int dst_type, int src_type, int add, void *dst, const void *src, size_t at)
{
    vf v = load(src_type, src, at);

    if (add)
        v = load(dst_type, dst, at) + v;
    store(dst_type, dst, at, ONE_NAN(v));
}

INLINE void convert(int dst_type, int src_type, int add, void *dst, const void *src, size_t elems)
{
    size_t whole = elems / OPTIM_LANES * OPTIM_LANES, rest = elems - whole, dst_bytes = type_bytes(dst_type);
    float part_dst[OPTIM_LANES] = {0}, part_src[OPTIM_LANES] = {0};

    for (size_t at = 0; at < whole; at += OPTIM_LANES)
        convert_vector(dst_type, src_type, add, dst, src, at);
    if (!rest)
        return;
    memcpy(part_src, (const char *)src + type_bytes(src_type) * whole, type_bytes(src_type) * rest);
    memcpy(part_dst, (const char *)dst + dst_bytes * whole, dst_bytes * rest);
    convert_vector(dst_type, src_type, add, part_dst, part_src, 0);
    memcpy((char *)dst + dst_bytes * whole, part_dst, dst_bytes * rest);
}

/* ---- One function of each kind, and the table of them. */

#define FORMS(X) X(ADAMW) X(ADAM) X(SGD) X(MOMENTUM) X(NESTEROV) X(LION) X(ADAGRAD) X(LAMB)
#define TYPES(X, ...) X(__VA_ARGS__, F32) X(__VA_ARGS__, BF16) X(__VA_ARGS__, F16)
#define TYPES2(X, ...) X(__VA_ARGS__, F32, F32) X(__VA_ARGS__, F32, BF16) X(__VA_ARGS__, F32, F16) \
    X(__VA_ARGS__, BF16, F32) X(__VA_ARGS__, BF16, BF16) X(__VA_ARGS__, BF16, F16) \
    X(__VA_ARGS__, F16, F32) X(__VA_ARGS__, F16, BF16) X(__VA_ARGS__, F16, F16)

#define UPDATE(form, grad_type, out_type)                                                                                        \
    static void update_##form##_##grad_type##_##out_type(const struct wi_optim *optim, size_t elems, float *weight,              \
                                                         float *moment1, float *moment2, const void *grad, void *out)            \
    {                                                                                                                            \
        update(WI_OPTIM_##form, WI_OPTIM_##grad_type, WI_OPTIM_##out_type, optim, elems, weight, moment1, moment2, grad, out);   \
    }
#define UPDATES(form) TYPES2(UPDATE, form)
FORMS(UPDATES)

#define LAMB(unused, type)                                                                                                       \
    static void lamb_##type(const struct wi_optim *optim, size_t elems, const float *weight, float *moment1, float *moment2,     \
                            const void *grad, double lanes[2][WI_OPTIM_SUM_LANES])                                               \
    {                                                                                                                            \
        lamb(WI_OPTIM_##type, optim, elems, weight, moment1, moment2, grad, lanes);                                              \
    }
TYPES(LAMB, )

#define SUM(unused, type)                                                                                                        \
    static double sum_squares_##type(const void *data, size_t elems)                                                             \
    {                                                                                                                            \
        return sum_squares(WI_OPTIM_##type, data, elems);                                                                        \
    }
TYPES(SUM, )

#define CONVERT(add, dst_type, src_type)                                                                                         \
    static void convert_##add##_##dst_type##_##src_type(void *dst, const void *src, size_t elems)                                \
    {                                                                                                                            \
        convert(WI_OPTIM_##dst_type, WI_OPTIM_##src_type, add, dst, src, elems);                                                 \
    }
TYPES2(CONVERT, 0)
TYPES2(CONVERT, 1)

#define UPDATE_ENTRY(form, grad_type, out_type)                                                                                  \
    [WI_OPTIM_##form][WI_OPTIM_##grad_type][WI_OPTIM_##out_type] = update_##form##_##grad_type##_##out_type,
#define UPDATE_ENTRIES(form) TYPES2(UPDATE_ENTRY, form)
#define LAMB_ENTRY(unused, type) [WI_OPTIM_##type] = lamb_##type,
#define SUM_ENTRY(unused, type) [WI_OPTIM_##type] = sum_squares_##type,
#define CONVERT_ENTRY(add, dst_type, src_type)                                                                                   \
    [WI_OPTIM_##dst_type][WI_OPTIM_##src_type][add] = convert_##add##_##dst_type##_##src_type,

const struct wi_optim_isa OPTIM_ISA = {
    .update = {FORMS(UPDATE_ENTRIES)},
    .lamb = {TYPES(LAMB_ENTRY, )},
    .matmul = matmul,
    .sum_squares = {TYPES(SUM_ENTRY, )},
    .convert = {TYPES2(CONVERT_ENTRY, 0) TYPES2(CONVERT_ENTRY, 1)},
};
