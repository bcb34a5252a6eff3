/* SPDX-License-Identifier: BSD-3-Clause */
/* Integers of one scale for all ranks: sharedint.c says what they are. Part of each instruction set's source, behind
 * kernels_random.h. args.bits: of a code, 8 or 16; args.most: the largest level that ranks can have together,
 * args.clip that of images. */

#define FINITE_SCALE 0x7f7fu /* the largest bf16 that is no infinity */

/* Levels of one rank, so that those of all fit one code. */
static INLINE float shared_most(const struct wi_kernel_args a, int nranks)
{
    return (float)((int32_t)a.most / nranks);
}

/* Whole levels: the nearest, or, with words of random bits, the one below or above. */
static INLINE int32_t shared_level(float level, float most, uint32_t word, const int stochastic)
{
    float whole = level + ROUNDS - ROUNDS, rest = level - whole;

    if (stochastic) {
        float below = rest < 0 ? 1.0f : 0.0f;
        whole -= below;
        whole += (float)(int32_t)(word >> 8) * 0x1p-24f < rest + below ? 1.0f : 0.0f;
    }
    whole = whole < most ? whole : most; /* the scale is what a peer says; NaN becomes a level, too */
    whole = whole > -most ? whole : -most;
    return (int32_t)whole;
}

static INLINE void shared_put(int bits, int32_t level, size_t i, void *codes)
{
    if (bits == 8)
        ((int8_t *)codes)[i] = (int8_t)level;
    else
        ((int16_t *)codes)[i] = (int16_t)level;
}

static INLINE void shared_levels(const int bits, const int stochastic, const float *c, size_t block, float scale, float most,
                                 const uint32_t *words, void *codes)
{
    float inverse = scale > 0 ? 1.0f / scale : 0;

    for (size_t i = 0; i < block; i++)
        shared_put(bits, shared_level(c[i] * inverse, most, stochastic ? words[i] : 0, stochastic), i, codes);
}

/* noinline: its loops, not its call, take the time. */
static __attribute__((noinline)) void shared_codes(const struct wi_kernel_args a, const struct weft_codec_site *site,
                                                   uint64_t first, const float *c, size_t block, float scale, float most,
                                                   void *codes)
{
    uint32_t room[RANDOM_ROOM];
    const uint32_t *words = a.stochastic ? random_words(a.seed, site, first, block, room) : NULL;

    if (a.bits == 8 && words)
        shared_levels(8, 1, c, block, scale, most, words, codes);
    else if (a.bits == 8)
        shared_levels(8, 0, c, block, scale, most, NULL, codes);
    else if (words)
        shared_levels(16, 1, c, block, scale, most, words, codes);
    else
        shared_levels(16, 0, c, block, scale, most, NULL, codes);
}

static INLINE void shared_values(const struct wi_kernel_args a, const void *codes, size_t n, float scale, float *dst)
{
    if (a.bits == 8)
        for (size_t i = 0; i < n; i++)
            dst[i] = (float)((const int8_t *)codes)[i] * scale;
    else
        for (size_t i = 0; i < n; i++)
            dst[i] = (float)((const int16_t *)codes)[i] * scale;
}

/* The block, or what there is of it with zeros behind, which are made in `last`. */
static INLINE const float *whole_block(const float *c, size_t n, size_t block, float *last)
{
    if (n == block)
        return c;
    memcpy(last, c, n * sizeof *c);
    memset(last + n, 0, (block - n) * sizeof *last);
    return last;
}

/* ---- Of all ranks ---- */

static void shared_propose(const struct weft_codec *codec, int nranks, const float *src, size_t elems, uint16_t *scales)
{
    const struct shape s = {.most = shared_most(wi_kernel_args(codec), nranks)};
    float last[WI_KERNELS_BLOCK_MAX];

    for (size_t at = 0, n; at < elems; at += codec->block) {
        n = elems - at < codec->block ? elems - at : codec->block;
        *scales++ = (uint16_t)scale_by_most(s, whole_block(src + at, n, codec->block, last), codec->block);
    }
}

static size_t shared_project(const struct weft_codec *codec, const struct weft_codec_site *site, int nranks,
                             const uint16_t *scales, const float *src, size_t elems, uint8_t *codes)
{
    const struct wi_kernel_args a = wi_kernel_args(codec);
    size_t bytes = codec->block * a.bits / 8, bad = 0;
    float last[WI_KERNELS_BLOCK_MAX], most = shared_most(a, nranks);

    for (size_t at = 0, n; at < elems; at += codec->block, scales++, codes += bytes) {
        n = elems - at < codec->block ? elems - at : codec->block;
        if (*scales > FINITE_SCALE) {
            memset(codes, 0, bytes);
            bad++;
            continue;
        }
        shared_codes(a, site, site->first + at, whole_block(src + at, n, codec->block, last), codec->block,
                     float_of((uint32_t)*scales << 16), most, codes);
    }
    return bad;
}

static size_t shared_expand(const struct weft_codec *codec, const uint16_t *scales, const uint8_t *codes, size_t elems,
                            float *dst)
{
    const struct wi_kernel_args a = wi_kernel_args(codec);
    size_t bytes = codec->block * a.bits / 8, bad = 0;

    for (size_t at = 0, n; at < elems; at += codec->block, scales++, codes += bytes) {
        float scale = float_of((uint32_t)*scales << 16);
        n = elems - at < codec->block ? elems - at : codec->block;
        bad += *scales > FINITE_SCALE;
        shared_values(a, codes, n, *scales > FINITE_SCALE ? float_of(0x7fc00000u) : scale, dst + at);
    }
    return bad;
}

/* ---- Images, of one rank ---- */

static int shared_encode_one(const struct job *j, uint64_t first, const float *c, size_t n, float *residual, uint8_t *image)
{
    const struct shape s = {.most = j->args.clip};
    uint32_t bits = scale_by_most(s, c, j->block);
    int16_t codes[WI_KERNELS_BLOCK_MAX];
    float values[WI_KERNELS_BLOCK_MAX], scale = float_of(bits << 16);

    image[0] = (uint8_t)bits;
    image[1] = (uint8_t)(bits >> 8);
    if (bits == NAN_SCALE) {
        memset(image + WI_CODEC_SCALE_BYTES, 0, j->bytes - WI_CODEC_SCALE_BYTES);
        return 1;
    }
    shared_codes(j->args, j->site, first, c, j->block, scale, s.most, codes);
    memcpy(image + WI_CODEC_SCALE_BYTES, codes, j->bytes - WI_CODEC_SCALE_BYTES);
    if (!residual)
        return 0;
    shared_values(j->args, codes, n, scale, values);
    for (size_t i = 0; i < n; i++)
        residual[i] = c[i] - values[i];
    return 0;
}

static void shared_decode_one(const struct job *j, const uint8_t *image, float *dst, int adds)
{
    int16_t codes[WI_KERNELS_BLOCK_MAX];
    float values[WI_KERNELS_BLOCK_MAX], scale = scale_of(image);

    memcpy(codes, image + WI_CODEC_SCALE_BYTES, j->bytes - WI_CODEC_SCALE_BYTES);
    shared_values(j->args, codes, j->block, scale, values);
    for (size_t i = 0; scale != scale && i < j->block; i++) /* products of NaN would have signs by the order of operands */
        values[i] = scale;
    for (size_t i = 0; i < j->block; i++)
        dst[i] = adds ? dst[i] + values[i] : values[i];
}
BLOCKWISE(shared, codec->block, codec->block_bytes)
