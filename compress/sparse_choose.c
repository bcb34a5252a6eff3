/* SPDX-License-Identifier: BSD-3-Clause */
/* Which elements a sparse codec sends, and how images say so. */
#if defined(__clang__)
#pragma clang fp contract(off)
#else
#pragma GCC optimize("O3", "fp-contract=off")
#endif

#include "base/bytes.h"
#include "compress/sparse.h"

enum { LANES = 8 };
#define NONE 0x7fffffffu /* above the bits of every magnitude that is finite */

/* ---- At random: one of each of k parts of the block ---- */

/* Steele et al., Fast Splittable Pseudorandom Number Generators, OOPSLA 2014. */
static uint64_t mix(uint64_t v)
{
    v = (v ^ v >> 30) * 0xbf58476d1ce4e5b9u;
    v = (v ^ v >> 27) * 0x94d049bb133111ebu;
    return v ^ v >> 31;
}

#define GOLDEN 0x9e3779b97f4a7c15u

/* The same on all ranks, for own data and for sums: so that an owner sends the elements that it has received. */
static uint64_t draw(const struct wi_sparse *s, const struct weft_codec_site *site)
{
    return mix(mix(mix(s->seed + GOLDEN) + site->step * GOLDEN) + site->first);
}

static void places_at_random(uint64_t drawn, size_t block, size_t k, uint16_t *index)
{
    for (size_t j = 0; j < k; j++) {
        size_t from = j * block / k, to = (j + 1) * block / k;
        uint64_t word = mix(drawn + (j + 1) * GOLDEN) >> 32;
        index[j] = (uint16_t)(from + (size_t)(word * (to - from) >> 32));
    }
}

/* ---- Groups ---- */

/* The bits of the sum of squares, of which infinities and zeros are kept away. */
static void norms(const float *c, size_t block, size_t group, uint32_t most, uint32_t *keys)
{
    uint32_t exponent = most >> 23, power = (exponent < 253 ? 254 - (exponent ? exponent : 1) : 1) << 23;
    float by;

    memcpy(&by, &power, sizeof by);
    for (size_t at = 0; at < block; at += group) {
        float lane[LANES] = {0}, sum = 0;
        for (size_t i = at; i < at + group; i += LANES)
            for (size_t l = 0; l < LANES; l++) {
                float v = c[i + l] * by;
                lane[l] += v * v;
            }
        for (size_t l = 0; l < LANES; l++)
            sum += lane[l];
        memcpy(&keys[at / group], &sum, sizeof sum);
    }
}

/* From the last on, since their elements take the places of the groups. */
static void expand(uint16_t *index, size_t groups, size_t group)
{
    for (size_t g = groups; g-- > 0;) {
        uint16_t first = (uint16_t)(index[g] * group);
        for (size_t i = 0; i < group; i++)
            index[g * group + i] = (uint16_t)(first + i);
    }
}

static uint32_t choose_groups(const struct weft_codec *codec, const struct wi_sparse *s, const float *src,
                              const float *residual, struct wi_sparse_room *room, uint8_t *which)
{
    size_t block = codec->block, groups = s->k / s->group;
    uint32_t most;

    wi_collect_of_this_cpu()(src, residual, room->sum, block, NONE, room->index, &most);
    if (most >= WI_SELECT_LIMIT)
        return most;
    norms(residual ? room->sum : src, block, s->group, most, room->select.keys);
    wi_select_keys(&room->select, block / s->group, groups, room->index);
    wi_index_put(s->form, block / s->group, groups, room->index, which);
    expand(room->index, groups, s->group);
    return most;
}

/* ---- All ---- */

void wi_sparse_draw(const struct wi_sparse *s, const struct weft_codec_site *site, uint8_t *which)
{
    wi_put64(which, draw(s, site));
}

uint32_t wi_sparse_choose(const struct weft_codec *codec, const struct wi_sparse *s, const struct weft_codec_site *site,
                          const float *src, const float *residual, struct wi_sparse_room *room, uint8_t *which)
{
    uint32_t most;

    if (s->choice == WI_SPARSE_GROUPS)
        return choose_groups(codec, s, src, residual, room, which);
    if (s->choice == WI_SPARSE_LARGEST) {
        most = wi_select_top(&room->select, src, residual, room->sum, codec->block, s->k, room->index);
        if (most < WI_SELECT_LIMIT)
            wi_index_put(s->form, codec->block, s->k, room->index, which);
        return most;
    }
    wi_collect_of_this_cpu()(src, residual, room->sum, codec->block, NONE, room->index, &most);
    wi_sparse_draw(s, site, which);
    places_at_random(draw(s, site), codec->block, s->k, room->index);
    return most;
}

size_t wi_sparse_places(const struct weft_codec *codec, const struct wi_sparse *s, const uint8_t *which,
                        struct wi_sparse_room *room)
{
    size_t n = codec->block / s->group, k = s->k / s->group, found;

    if (s->choice == WI_SPARSE_RANDOM) {
        places_at_random(wi_get64(which), codec->block, s->k, room->index);
        return s->k;
    }
    found = wi_index_get(s->form, n, k, which, room->index);
    if (s->group == 1)
        return found;
    expand(room->index, found, s->group);
    return found * s->group;
}
