/* SPDX-License-Identifier: BSD-3-Clause */
/* topk, blocktopk, leaderk, randomk: k of the elements of each block (sparse.h). Selection is by block, not by vector, so that
 * images have a fixed length and blocks stand for themselves. */
#include <stdio.h>

#include "compress/built_in.h"
#include "compress/sparse.h"
#include "compress/sparse_ops.h"

enum { RATIO, BLOCK, VALUES, INDICES, GROUP };

#define RATIO_ROW                                                                                         \
    {                                                                                                     \
        "ratio", "0.01", WEFT_CODEC_REAL, .00001, 1, NULL, "part of the elements of a block that is sent" \
    }
#define BLOCK_ROW                                                                                   \
    {                                                                                               \
        "block", "16384", WEFT_CODEC_POWER_OF_TWO, WI_SPARSE_BLOCK_MIN, WEFT_CODEC_BLOCK_MAX, NULL, \
            "elements among which it is chosen"                                                     \
    }
#define VALUES_ROW                                                                                             \
    {                                                                                                          \
        "values", "fp16", WEFT_CODEC_WORD, 0, 0, "fp32|fp16|bf16|int8", "how an element that is sent is coded" \
    }
#define INDICES_ROW                                                                        \
    {                                                                                      \
        "indices", "packed", WEFT_CODEC_WORD, 0, 0, "packed|u16", "how its place is coded" \
    }
#define LAST_ROW                                              \
    {                                                         \
        NULL, NULL, WEFT_CODEC_POWER_OF_TWO, 0, 0, NULL, NULL \
    }

static const struct weft_codec_parameter top_rows[] = {RATIO_ROW, BLOCK_ROW, VALUES_ROW, INDICES_ROW, LAST_ROW};
static const struct weft_codec_parameter group_rows[] = {
    RATIO_ROW,
    BLOCK_ROW,
    VALUES_ROW,
    INDICES_ROW,
    {"group", "32", WEFT_CODEC_POWER_OF_TWO, 8, 256, NULL, "adjacent elements that are chosen together"},
    LAST_ROW};
enum { SEED = 3 };
/* Of codecs whose values are summed as they are: these types can be. */
#define SUMMED_ROW                                                                                             \
    {                                                                                                          \
        "values", "bf16", WEFT_CODEC_WORD, 0, 0, "fp32|fp16|bf16|int8", "how an element that is sent is coded" \
    }
static const struct weft_codec_parameter leader_rows[] = {
    RATIO_ROW,
    BLOCK_ROW,
    {"values", "bf16", WEFT_CODEC_WORD, 0, 0, "fp32|bf16", "type in which elements that are sent are summed"},
    INDICES_ROW,
    LAST_ROW};
static const struct weft_codec_parameter random_rows[] = {
    RATIO_ROW, BLOCK_ROW, SUMMED_ROW, {"seed", "0", WEFT_CODEC_INTEGER, 0, 0x1p53, NULL, "of the choice"}, LAST_ROW};

/* What the largest leave of Gaussian elements: their part, and the part of the square that is not among them. */
static const struct {
    double ratio, left;
} gaussian[] = {{0, 1},      {.0001, .9984}, {.001, .9868}, {.01, .9153}, {.02, .856}, {.05, .722},
                {.1, .5612}, {.2, .3523},    {.4, .1283},   {.6, .0363},  {.8, .0043}, {1, 0}};

static float left_by_largest(double ratio)
{
    size_t i = 1;
    double part;

    while (gaussian[i].ratio < ratio)
        i++;
    part = (ratio - gaussian[i - 1].ratio) / (gaussian[i].ratio - gaussian[i - 1].ratio);
    return (float)(gaussian[i - 1].left + part * (gaussian[i].left - gaussian[i - 1].left));
}

/* ratio times n, to nearest, but at least 1 */
static uint32_t share_of(double ratio, uint32_t n)
{
    uint32_t share = (uint32_t)(ratio * n + .5);

    return share ? share : 1;
}

static float value_error(enum wi_sparse_values values)
{
    return values == WI_SPARSE_INT8 ? 1e-5f : values == WI_SPARSE_BF16 ? 3e-6f : values == WI_SPARSE_FP16 ? 4e-8f : 0;
}

static void configure(struct weft_codec *c, struct wi_sparse s)
{
    c->block_bytes = WI_SPARSE_SCALE_BYTES + s.which_bytes + s.k * wi_sparse_value_bytes(s.values);
    c->scratch_bytes = wi_sparse_scratch(c->block);
    c->traits = WEFT_CODEC_CONTRACTIVE;
    c->limit = 0x1p127f;
    c->nmse += value_error(s.values);
    memcpy(c->priv, &s, sizeof s);
}

/* What k elements cost beside the pass over the block, at the speeds of one core (tests/bench/bench_topk.c). */
static void set_rates(struct weft_codec *c, double pass, double decode_pass, double each, double decode_each)
{
    double ratio = c->value[RATIO].real;

    c->encode_rate = (float)(4 / (4 / pass + ratio * each));
    c->decode_rate = (float)(4 / (4 / decode_pass + ratio * decode_each));
}

static weft_status configure_top(struct weft_codec *c, char *why, size_t capacity)
{
    struct wi_sparse s = {.group = 1, .choice = WI_SPARSE_LARGEST};

    (void)why, (void)capacity;
    c->block = (uint32_t)c->value[BLOCK].integer;
    s.k = share_of(c->value[RATIO].real, c->block);
    s.values = (uint8_t)c->value[VALUES].integer;
    s.form = (uint8_t)c->value[INDICES].integer;
    s.which_bytes = (uint32_t)wi_index_bytes(s.form, c->block, s.k);
    c->lossy_limit = 2;
    c->nmse = left_by_largest((double)s.k / c->block);
    set_rates(c, 6000, 8000, 16e-3, 4e-3);
    configure(c, s);
    return WEFT_SUCCESS;
}

static weft_status configure_leader(struct weft_codec *c, char *why, size_t capacity)
{
    struct wi_sparse s = {.group = 1, .choice = WI_SPARSE_LARGEST};

    (void)why, (void)capacity;
    c->block = (uint32_t)c->value[BLOCK].integer;
    s.k = share_of(c->value[RATIO].real, c->block);
    s.values = c->value[VALUES].integer ? WI_SPARSE_BF16 : WI_SPARSE_FP32;
    s.form = (uint8_t)c->value[INDICES].integer;
    s.which_bytes = (uint32_t)wi_index_bytes(s.form, c->block, s.k);
    c->lossy_limit = 2;
    c->nmse = left_by_largest((double)s.k / c->block); /* of the leader; others lose more, the less gradients agree */
    set_rates(c, 4000, 8000, 8e-3, 4e-3);
    configure(c, s);
    c->traits |= WEFT_CODEC_LINEAR;
    return WEFT_SUCCESS;
}

static weft_status configure_groups(struct weft_codec *c, char *why, size_t capacity)
{
    struct wi_sparse s = {.choice = WI_SPARSE_GROUPS};

    (void)why, (void)capacity;
    c->block = (uint32_t)c->value[BLOCK].integer;
    s.group = (uint32_t)c->value[GROUP].integer;
    s.k = share_of(c->value[RATIO].real, c->block / s.group) * s.group;
    s.values = (uint8_t)c->value[VALUES].integer;
    s.form = (uint8_t)c->value[INDICES].integer;
    s.which_bytes = (uint32_t)wi_index_bytes(s.form, c->block / s.group, s.k / s.group);
    c->lossy_limit = 2;
    c->nmse = (1 - left_by_largest((double)s.k / c->block)) / 8; /* of 8 to 32 elements in a group; more: less */
    c->nmse = 1 - (float)s.k / (float)c->block - c->nmse * (1 - (float)s.k / (float)c->block);
    set_rates(c, 4000, 8000, 6e-3, 3e-3);
    configure(c, s);
    return WEFT_SUCCESS;
}

static weft_status configure_random(struct weft_codec *c, char *why, size_t capacity)
{
    struct wi_sparse s = {.group = 1, .choice = WI_SPARSE_RANDOM, .which_bytes = WI_SPARSE_DRAWN_BYTES};

    (void)why, (void)capacity;
    c->block = (uint32_t)c->value[BLOCK].integer;
    s.k = share_of(c->value[RATIO].real, c->block);
    s.values = (uint8_t)c->value[VALUES].integer;
    s.seed = (uint64_t)c->value[SEED].integer;
    c->nmse = 1 - (float)s.k / (float)c->block;
    c->lossy_limit = s.values == WI_SPARSE_FP32 ? 0 : 2; /* whoever encodes again sends the same elements */
    set_rates(c, 8000, 8000, 4e-3, 3e-3);
    configure(c, s);
    if (s.values == WI_SPARSE_FP32 || s.values == WI_SPARSE_BF16)
        c->traits |= WEFT_CODEC_LINEAR;
    return WEFT_SUCCESS;
}

#define SPARSE(name_, rows_, configure_, summary_, ...)                                                            \
    static const struct weft_codec_ops ops_##name_ = {WI_SPARSE_OPS, .parameters = rows_, .configure = configure_, \
                                                      __VA_ARGS__};                                                \
    const struct weft_plugin wi_codec_##name_ = {.abi = WEFT_PLUGIN_ABI,                                           \
                                                 .bytes = sizeof(struct weft_plugin),                              \
                                                 .kind = WEFT_PLUGIN_CODEC,                                        \
                                                 .name = #name_,                                                   \
                                                 .summary = summary_,                                              \
                                                 .ops = &ops_##name_};
SPARSE(topk, top_rows, configure_top, "the largest elements of each block", .linear = NULL)
SPARSE(blocktopk, group_rows, configure_groups, "the groups of the largest norm of each block", .linear = NULL)
SPARSE(leaderk, leader_rows, configure_leader, "the elements that are largest on one rank, in turn",
       WI_SPARSE_LINEAR_OPS)
SPARSE(randomk, random_rows, configure_random, "random elements, the same on all ranks", WI_SPARSE_LINEAR_OPS)
