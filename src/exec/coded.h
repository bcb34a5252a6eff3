/* SPDX-License-Identifier: BSD-3-Clause */
/* Coded operations: steps that encode, decode and sum images. Programs count in bytes of what the images are of; only here and in
 * address.h do these become bytes of images. A slice, fragment or chunk of work begins at a whole block of the codec. */
#ifndef WI_EXEC_CODED_H
#define WI_EXEC_CODED_H

#include "base/bytes.h"
#include "base/reduce.h"
#include "compress/codec.h"
#include "compress/feedback.h"

struct wi_work;

/* One of several tensors in a vector, each of which begins at a whole block. Parts of work are of one of them; what lies between
 * them is not gone over. */
struct wi_coding_tensor {
    size_t from, elems;
    float *residual[WI_PLANES];      /* as below */
    size_t residual_from[WI_PLANES]; /* of the tensor */
    float gain;
};

/* Of an operation.
 *
 * Images of a codec of a variable rate are as long as their data needs, image_bytes for each block at most, and lie where they
 * would if they were that long. What a step makes of one slice of one block of the schedule is one such image, which is made, sent
 * and read as a whole. */
struct wi_coding {
    const struct weft_codec *codec; /* borrowed */
    uint32_t shift;                 /* a block of the codec is 1 << shift bytes of the vector */
    uint8_t linear, plain;          /* linear: the codec's plain vectors are sent; plain: it is bypassed */
    uint8_t variable;               /* images begin with their length: wi_image_bytes */
    size_t image_bytes;             /* of a block's image, at most; 0: nothing is coded */
    float *residual[WI_PLANES];     /* borrowed; NULL: no error feedback, or not of this kind */
    size_t residual_from[WI_PLANES]; /* the element of the vector that it begins at */
    const struct wi_coding_tensor *tensors; /* borrowed, in order; NULL: the vector is one, whose residual is above */
    size_t ntensors;
    uint8_t keeps; /* the tensors have residuals */
    struct wi_feedback feedback;
    float gain;                     /* DGC: what this rank gives is multiplied by it */
    uint32_t rank;                  /* whose work it is: weft_codec_site */
    uint64_t step;                  /* likewise; 0: the operation's number */
    uint64_t tensor;                /* for the flight recorder */
};

/* For vectors of this type; the codec stays as long as the operation. WEFT_ENOTSUP with text: the codec does not take it. */
weft_status wi_coding_init(struct wi_coding *coding, const struct weft_codec *codec, weft_dtype dtype, int rank);
/* There is a codec, and plain data is sent after all. */
static inline int wi_coding_is_bypassed(const struct wi_coding *c)
{
    return c->codec && !c->image_bytes && !c->linear;
}
static inline size_t wi_coding_block(const struct wi_coding *c)
{
    return (size_t)1 << c->shift;
}
/* Of the image of so many bytes. */
static inline size_t wi_coding_bytes(const struct wi_coding *c, size_t bytes)
{
    return (bytes + wi_coding_block(c) - 1) / wi_coding_block(c) * c->image_bytes;
}

/* The length of the image at `image`, at most `most`. One that was received has been looked at (wi_image_check). */
static inline size_t wi_image_bytes(const struct wi_coding *c, const void *image, size_t most)
{
    size_t bytes = c->variable ? wi_get32(image) : most;

    return bytes < most ? bytes : most;
}
/* `got` bytes have come from a peer, where there is room for `most`. WEFT_EPROTO with text: no image is so long. */
weft_status wi_image_check(const struct wi_coding *c, const void *image, size_t got, size_t most);

/* [at, at + bytes) of the work, at a whole block; of a variable rate all of it. From any thread. WEFT_EPROTO with text: an image is
 * none; WEFT_ENOMEM: likewise, only of a variable rate. */
weft_status wi_coded_do(const struct wi_work *work, size_t at, size_t bytes);

#endif
