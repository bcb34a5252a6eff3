/* SPDX-License-Identifier: BSD-3-Clause */
/* Codecs that send k of the elements of each block:
 *
 *     image of a block = scale (bf16, little-endian; NaN: the block is not finite) | which | k values
 *
 * Values are fp32 or bf16 (the scale is 1), fp16 (the scale is a power of two that brings the largest magnitude to 2^14 or more,
 * below 2^15, so that small gradients are no subnormals), or int8 (the scale is max|x| / 127, rounded up). An element that is not
 * sent decodes to 0. Any bytes decode to something: an entry whose place is not above that of the entry before, or outside of the
 * block, is left out. */
#ifndef WI_COMPRESS_SPARSE_H
#define WI_COMPRESS_SPARSE_H

#include <string.h>

#include "compress/codec.h"
#include "compress/index_set.h"
#include "compress/select.h"

#define WI_SPARSE_BLOCK_MIN 256
#define WI_SPARSE_SCALE_BYTES 2u

enum wi_sparse_values { WI_SPARSE_FP32, WI_SPARSE_FP16, WI_SPARSE_BF16, WI_SPARSE_INT8 };
enum wi_sparse_choice { WI_SPARSE_LARGEST, WI_SPARSE_RANDOM, WI_SPARSE_GROUPS };

/* What a codec has in weft_codec.priv. */
struct wi_sparse {
    uint32_t k;           /* elements of a block that are sent */
    uint32_t group;       /* adjacent elements that are chosen together */
    uint32_t which_bytes; /* of an image */
    uint8_t choice, values, form;
    uint64_t seed; /* of RANDOM */
};

static inline struct wi_sparse wi_sparse_of(const struct weft_codec *codec)
{
    struct wi_sparse s;

    _Static_assert(sizeof s <= sizeof codec->priv, "what sparse codecs need to know fits");
    memcpy(&s, codec->priv, sizeof s);
    return s;
}

/* Memory of one call, in its scratch. */
struct wi_sparse_room {
    float *acc, *sum; /* of a block each */
    float *values;    /* in the place of select.keys, when these are not needed any more */
    uint16_t *index;  /* in the place of select.places */
    struct wi_select select;
};
size_t wi_sparse_scratch(size_t block);
struct wi_sparse_room wi_sparse_room(size_t block, void *scratch);

/* ---- Which (sparse_choose.c) ---- */

/* Of src, or of src + residual, which are then stored in room->sum, into room->index; and into the image. Returns the bits of the
 * largest magnitude; WI_SELECT_LIMIT or more: it has chosen none. */
uint32_t wi_sparse_choose(const struct weft_codec *codec, const struct wi_sparse *s, const struct weft_codec_site *site,
                          const float *src, const float *residual, struct wi_sparse_room *room, uint8_t *which);
/* Of RANDOM: what an image says of which, WI_SPARSE_DRAWN_BYTES. */
#define WI_SPARSE_DRAWN_BYTES sizeof(uint64_t)
void wi_sparse_draw(const struct wi_sparse *s, const struct weft_codec_site *site, uint8_t *which);
/* Into room->index. Returns how many; they are in any order, and may be outside of the block. */
size_t wi_sparse_places(const struct weft_codec *codec, const struct wi_sparse *s, const uint8_t *which,
                        struct wi_sparse_room *room);

/* ---- Values (sparse_values.c) ---- */

size_t wi_sparse_value_bytes(enum wi_sparse_values values);
/* The scale for a largest magnitude, as a bf16. */
uint16_t wi_sparse_scale(enum wi_sparse_values values, uint32_t most);
void wi_sparse_values_put(enum wi_sparse_values values, uint16_t scale, const float *from, size_t k, uint8_t *to);
void wi_sparse_values_get(enum wi_sparse_values values, uint16_t scale, const uint8_t *from, size_t k, float *to);

#endif
