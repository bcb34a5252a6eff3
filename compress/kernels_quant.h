/* SPDX-License-Identifier: BSD-3-Clause */
/* Uniform levels in all their forms: those of int8 to int2 that kernels_loops.h has no loops of its own for, qsgd and terngrad.
 * Part of each instruction set's source, behind kernels_random.h.
 *
 *     image of a block = unit | middle, if levels are minmax | codes; unit and middle are bf16, or fp32 if they are wide
 *
 * An element's value is level * unit + middle. Levels are whole, or, where there is no middle one (minmax, int2), half-way
 * between. */

/* ---- Units ---- */

static INLINE uint32_t up(const struct wi_kernel_args a, float unit)
{
    uint32_t bits = a.wide ? bits_of(unit) : round_up(unit) << 16;

    return bits && bits < LEAST_SCALE ? LEAST_SCALE : bits;
}

/* The square root to some units in the last place of fp32, by the same operations everywhere. */
static INLINE float root(float square)
{
    double x = (double)square, y = (double)float_of((bits_of(square) >> 1) + 0x1fc00000u);

    if (!(square > 0))
        return 0;
    for (int i = 0; i < 5; i++)
        y = 0.5 * (y + x / y);
    return (float)y;
}

/* || c || / 2^e is returned, so that no square is too large or too small. */
static INLINE float scaled_norm(const float *c, size_t block, uint32_t most, uint32_t *e)
{
    float lane[LANES] = {0}, sum = 0, by;

    *e = most >> 23 ? most >> 23 : 1;
    by = float_of((254 - *e) << 23);
    for (size_t i = 0; i < block; i += LANES)
        for (int k = 0; k < LANES; k++)
            lane[k] += c[i + (size_t)k] * by * (c[i + (size_t)k] * by);
    for (int k = 0; k < LANES; k++)
        sum += lane[k];
    return root(sum);
}

static INLINE uint32_t unit_of(const struct wi_kernel_args a, const float *c, size_t block, size_t n, uint32_t most)
{
    uint32_t e;
    float norm, mean;

    switch (a.rule) {
    case WI_UNIT_MEAN:
        mean = sum_of_magnitudes(c, block, 1.0f / (float)n) * 1.25f;
        return a.wide ? bits_of(mean) : round_nearest(mean) << 16;
    case WI_UNIT_NORM:
        norm = scaled_norm(c, block, most, &e) / a.most;
        return up(a, norm * float_of(e << 23));
    case WI_UNIT_CLIPPED:
        norm = scaled_norm(c, block, most, &e) * root(1.0f / (float)n) * a.clip * float_of(e << 23);
        return up(a, norm < float_of(most) ? norm : float_of(most));
    default:
        return up(a, float_of(most) / a.most);
    }
}

static INLINE void extremes(const float *c, size_t block, float *least, float *largest)
{
    float low = c[0], high = c[0];

    for (size_t i = 0; i < block; i++) {
        low = c[i] < low ? c[i] : low;
        high = c[i] > high ? c[i] : high;
    }
    *least = low;
    *largest = high;
}

/* Levels from the least to the largest element, the middle rounded and the unit as large as it must be then. */
static INLINE uint32_t unit_of_range(const struct wi_kernel_args a, const float *c, size_t block, float *middle)
{
    float least, largest, above, below;

    extremes(c, block, &least, &largest);
    *middle = least * 0.5f + largest * 0.5f;
    if (!a.wide)
        *middle = float_of((*middle < 0 ? round_nearest(-*middle) | 0x8000u : round_nearest(*middle)) << 16);
    above = largest - *middle;
    below = *middle - least;
    return up(a, (above > below ? above : below) / (float)((1 << a.bits) - 1) * 2);
}

static INLINE size_t number_bytes(const struct wi_kernel_args a)
{
    return a.wide ? 4 : 2;
}

static INLINE void put_number(const struct wi_kernel_args a, uint32_t bits, uint8_t *image)
{
    for (int i = a.wide ? 0 : 2; i < 4; i++)
        *image++ = (uint8_t)(bits >> 8 * i);
}

static INLINE float get_number(const struct wi_kernel_args a, const uint8_t *image)
{
    uint32_t bits = 0;

    for (int i = a.wide ? 0 : 2; i < 4; i++)
        bits |= (uint32_t)*image++ << 8 * i;
    return float_of(bits);
}

/* ---- Levels ---- */

/* What is taken off a code. */
static INLINE float offset_of(const struct wi_kernel_args a)
{
    return a.halves ? (float)((1 << a.bits) - 1) * 0.5f : (float)(1 << (a.bits - 1));
}

/* `up_by`: what is added before the code is cut: 1/2, or random numbers of [0, 1). */
static INLINE void quant_codes(const struct wi_kernel_args a, const float *c, size_t block, float unit, float middle,
                               const float *up_by, uint8_t *codes)
{
    float inverse = unit > 0 ? 1.0f / unit : 0, offset = offset_of(a);
    float low = a.halves ? 0 : offset - a.most, high = a.halves ? 2 * offset : offset + a.most;

    for (size_t i = 0; i < block; i++) {
        float t = (c[i] - middle) * inverse + offset + up_by[i];
        t = t < low ? low : t;
        t = t > high ? high : t;
        codes[i] = (uint8_t)(int32_t)t;
    }
}

static INLINE void quant_values(const struct wi_kernel_args a, size_t block, const uint8_t *codes, float unit, float middle,
                                float *dst)
{
    float offset = offset_of(a);

    for (size_t i = 0; i < block; i++)
        dst[i] = ((float)(int32_t)codes[i] - offset) * unit + middle;
}

static INLINE void pack_any(int bits, const uint8_t *codes, size_t block, uint8_t *image)
{
    if (bits == 8)
        memcpy(image, codes, block);
    else if (bits == 6)
        pack((struct shape){.bits = 6}, codes, block, image);
    else if (bits == 4)
        pack((struct shape){.bits = 4}, codes, block, image);
    else
        pack((struct shape){.bits = 2}, codes, block, image);
}

static INLINE void unpack_any(int bits, const uint8_t *image, size_t block, uint8_t *codes)
{
    if (bits == 8)
        memcpy(codes, image, block);
    else if (bits == 6)
        unpack((struct shape){.bits = 6}, image, block, codes);
    else if (bits == 4)
        unpack((struct shape){.bits = 4}, image, block, codes);
    else
        unpack((struct shape){.bits = 2}, image, block, codes);
}

static INLINE void roundings(const struct job *j, uint64_t first, float *up_by)
{
    uint32_t room[RANDOM_ROOM];
    const uint32_t *words;

    if (!j->args.stochastic) {
        for (size_t i = 0; i < j->block; i++)
            up_by[i] = 0.5f;
        return;
    }
    words = random_words(j->args.seed, j->site, first, j->block, room);
    for (size_t i = 0; i < j->block; i++)
        up_by[i] = (float)(int32_t)(words[i] >> 8) * 0x1p-24f;
}

/* ---- The randomised Hadamard transform: orthonormal, and its own inverse but for the side on which the signs are ---- */

#define HADAMARD_LANES 8
/* Wherever floats are. */
typedef float hadamard_vector __attribute__((vector_size(4 * HADAMARD_LANES), aligned(4), may_alias));
typedef int32_t hadamard_lanes __attribute__((vector_size(4 * HADAMARD_LANES), aligned(4), may_alias));

/* The lanes in another order. */
#if defined(__clang__)
#define ORDERED(v, ...) __builtin_shufflevector(v, v, __VA_ARGS__)
#else
#define ORDERED(v, ...) __builtin_shuffle(v, (hadamard_lanes){__VA_ARGS__})
#endif

/* Within a vector: a lane whose bit is 0 becomes the sum of its own and its partner's value; the partner, what is left when its own
 * is taken off the other's. */
#define WITHIN(v, m, ...) v = (hadamard_vector)((hadamard_lanes)(v) ^ (m)) + ORDERED(v, __VA_ARGS__)

static INLINE void hadamard_within(hadamard_vector *x)
{
    const int32_t minus = INT32_MIN;
    hadamard_vector v = *x;

    WITHIN(v, ((hadamard_lanes){0, minus, 0, minus, 0, minus, 0, minus}), 1, 0, 3, 2, 5, 4, 7, 6);
    WITHIN(v, ((hadamard_lanes){0, 0, minus, minus, 0, 0, minus, minus}), 2, 3, 0, 1, 6, 7, 4, 5);
    WITHIN(v, ((hadamard_lanes){0, 0, 0, 0, minus, minus, minus, minus}), 4, 5, 6, 7, 0, 1, 2, 3);
    *x = v;
}

/* Two bits of the index, `apart` elements and twice as many. */
static INLINE void hadamard_four(float *x, size_t apart)
{
    for (size_t i = 0; i < apart; i += HADAMARD_LANES) {
        hadamard_vector *at[4], sum[2], difference[2];
        for (size_t k = 0; k < 4; k++)
            at[k] = (hadamard_vector *)(void *)(x + i + k * apart);
        for (size_t k = 0; k < 2; k++) {
            sum[k] = *at[2 * k] + *at[2 * k + 1];
            difference[k] = *at[2 * k] - *at[2 * k + 1];
        }
        *at[0] = sum[0] + sum[1];
        *at[1] = difference[0] + difference[1];
        *at[2] = sum[0] - sum[1];
        *at[3] = difference[0] - difference[1];
    }
}

static INLINE void hadamard_two(float *x, size_t apart)
{
    for (size_t i = 0; i < apart; i += HADAMARD_LANES) {
        hadamard_vector *a = (hadamard_vector *)(void *)(x + i), *b = (hadamard_vector *)(void *)(x + i + apart);
        hadamard_vector sum = *a + *b, difference = *a - *b;
        *a = sum;
        *b = difference;
    }
}

/* In place, from the lowest bit of the index to the highest: the order of sums is what rounding depends on. */
static INLINE void hadamard(size_t block, float *x)
{
    size_t apart = HADAMARD_LANES;

    for (size_t i = 0; i < block; i += HADAMARD_LANES)
        hadamard_within((hadamard_vector *)(void *)(x + i));
    for (; 4 * apart <= block; apart *= 4)
        for (size_t i = 0; i < block; i += 4 * apart)
            hadamard_four(x + i, apart);
    if (apart < block)
        hadamard_two(x, apart);
}

/* 1 / sqrt(block) */
static INLINE float hadamard_scale(size_t block)
{
    int k = __builtin_ctzll(block);

    return power_of_two(-(k / 2)) * (k % 2 ? 0.70710678f : 1.0f);
}

/* What elements are multiplied with: 1 / sqrt(block) and a random sign, the same in all blocks. */
static __attribute__((noinline)) void find_turns(uint32_t seed, size_t block, float *turns)
{
    float by = hadamard_scale(block);

    for (size_t at = 0; at < block; at += 128) {
        philox_vector c[4] = {{0}}, unused[4] = {{0}};
        c[0][0] = at / 128;
        c[2][0] = 0x48616461; /* a stream of its own */
        c[3][0] = 0xffffffff;
        philox(c, unused, seed, 0);
        for (size_t k = 0; k < 128 && at + k < block; k++)
            turns[at + k] = c[k / 32][0] >> k % 32 & 1 ? -by : by;
    }
}

static INLINE void turn(const struct job *j, const float *from, float *to)
{
    for (size_t i = 0; i < j->block; i++)
        to[i] = from[i] * j->turns[i];
}

/* The block turned, in `room`. noinline: as it is long. */
static __attribute__((noinline)) const float *turned(const struct job *j, const float *c, float *room)
{
    turn(j, c, room);
    hadamard(j->block, room);
    return room;
}

/* ---- A block ---- */

/* A unit that is the least normal number may be too large for what there is: where all that it loses would be more than the block,
 * the block becomes zeros. */
static INLINE int is_too_small(const struct wi_kernel_args a, size_t block, uint32_t most, float unit)
{
    float levels = float_of(most) * 0x1p100f / (unit * 0x1p100f);

    return a.rule == WI_UNIT_MOST && unit <= float_of(LEAST_SCALE) && unit > 0 && levels * levels * 4 < (float)block;
}

/* Values as decoding makes them. */
static INLINE void quant_decoded(const struct job *j, const uint8_t *codes, float unit, float middle, float *values)
{
    quant_values(j->args, j->block, codes, unit, middle, values);
    if (!j->args.hadamard)
        return;
    hadamard(j->block, values);
    turn(j, values, values);
}

static INLINE int quant_not_finite(const struct job *j, uint8_t *image)
{
    memset(image, 0, j->bytes);
    put_number(j->args, NAN_SCALE << 16, image);
    return 1;
}

/* noinline: it is long, and its loops, not its call, take the time. */
static __attribute__((noinline)) int quant_encode_one(const struct job *j, uint64_t first, const float *c, size_t n,
                                                      float *residual, uint8_t *image)
{
    const struct wi_kernel_args a = j->args;
    float room[WI_KERNELS_BLOCK_MAX], up_by[WI_KERNELS_BLOCK_MAX], middle = 0, unit;
    uint8_t codes[WI_KERNELS_BLOCK_MAX];
    const float *x = c;
    uint32_t most = largest_bits(c, j->block), bits;
    size_t counting = a.hadamard ? j->block : n, at = number_bytes(a);

    if (most >= (a.hadamard || a.rule == WI_UNIT_NORM ? MEAN_IS_LARGE : TOO_LARGE_BITS)) /* sums of a block stay finite */
        return quant_not_finite(j, image);
    if (a.hadamard) {
        x = turned(j, c, room);
        most = largest_bits(x, j->block);
    }
    bits = a.minmax ? unit_of_range(a, x, j->block, &middle) : unit_of(a, x, j->block, counting, most);
    if (is_too_small(a, j->block, most, float_of(bits))) {
        bits = 0;
        middle = 0;
    }
    unit = float_of(bits);
    put_number(a, bits, image);
    if (a.minmax) {
        put_number(a, bits_of(middle), image + at);
        at *= 2;
    }
    roundings(j, first, up_by);
    quant_codes(a, x, j->block, unit, middle, up_by, codes);
    pack_any(a.bits, codes, j->block, image + at);
    if (!residual)
        return 0;
    quant_decoded(j, codes, unit, middle, room);
    for (size_t i = 0; i < n; i++)
        residual[i] = c[i] - room[i];
    return 0;
}

static __attribute__((noinline)) void quant_decode_one(const struct job *j, const uint8_t *image, float *dst, int adds)
{
    const struct wi_kernel_args a = j->args;
    float values[WI_KERNELS_BLOCK_MAX], unit = get_number(a, image);
    uint8_t codes[WI_KERNELS_BLOCK_MAX];
    size_t at = number_bytes(a);
    float middle = a.minmax ? get_number(a, image + at) : 0;

    if (unit == unit) {
        unpack_any(a.bits, image + (a.minmax ? 2 * at : at), j->block, codes);
        quant_decoded(j, codes, unit, middle, values);
    }
    for (size_t i = 0; unit != unit && i < j->block; i++) /* differences of NaN would have signs by the order of operands */
        values[i] = unit;
    for (size_t i = 0; i < j->block; i++)
        dst[i] = adds ? dst[i] + values[i] : values[i];
}

/* ---- Vectors ---- */

/* `turns`: room, of WI_KERNELS_BLOCK_MAX. */
static INLINE struct job quant_job(const struct weft_codec *codec, const struct weft_codec_site *site, float *turns)
{
    struct job j = {codec->block, codec->block_bytes, wi_kernel_args(codec), site, turns};

    if (j.args.hadamard)
        find_turns(j.args.seed, j.block, turns);
    return j;
}

static size_t quant_encode(const struct weft_codec *codec, const struct weft_codec_site *site, const float *src, float *residual,
                           size_t elems, uint8_t *image)
{
    float turns[WI_KERNELS_BLOCK_MAX];
    struct job j = quant_job(codec, site, turns);

    return encode_blocks(&j, quant_encode_one, src, residual, elems, image);
}

static void quant_decode(const struct weft_codec *codec, const uint8_t *image, size_t elems, float *dst)
{
    float turns[WI_KERNELS_BLOCK_MAX];
    struct job j = quant_job(codec, NULL, turns);

    decode_blocks(&j, quant_decode_one, image, elems, dst);
}

static void quant_sum(const struct weft_codec *codec, const struct weft_codec_operands *o, size_t elems, float *dst)
{
    float turns[WI_KERNELS_BLOCK_MAX];
    struct job j = quant_job(codec, NULL, turns);

    sum_blocks(&j, quant_decode_one, o, elems, dst);
}

static size_t quant_sum_encode(const struct weft_codec *codec, const struct weft_codec_site *site,
                               const struct weft_codec_operands *o, float factor, float *residual, size_t elems, uint8_t *image,
                               float *dst)
{
    float turns[WI_KERNELS_BLOCK_MAX];
    struct job j = quant_job(codec, site, turns);

    return sum_encode_blocks(&j, quant_encode_one, quant_decode_one, o, factor, residual, elems, image, dst);
}
